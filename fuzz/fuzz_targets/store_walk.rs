//! `shoal_store`: any bytes as a database file, opened and every b-tree walked both ways.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, walk};
use shoal_store::Access;
use shoal_store::vfs::MemVfs;

fuzz_target!(|data: &[u8]| {
    bounded((16 << 20) + 8 * data.len(), || {
        let vfs = MemVfs::new();
        vfs.put(Path::new(walk::DATABASE), data.to_vec());
        if let Ok(store) = walk::open(&vfs, Access::ReadOnly) {
            walk::walk(&store);
        }
        assert_eq!(vfs.get(Path::new(walk::DATABASE)).as_deref(), Some(data));
    });
});

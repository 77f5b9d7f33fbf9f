//! `shoal_store::recovery`: any bytes as a database with a journal beside, as a crash could have
//! left them.
//!
//! The first two bytes are the length of the journal, at the end of the input.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, walk};
use shoal_store::Access;
use shoal_store::vfs::MemVfs;

fuzz_target!(|data: &[u8]| {
    let Some((length, data)) = data.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_be_bytes(*length)).min(data.len());
    let (database, journal) = data.split_at(data.len() - length);
    bounded((16 << 20) + 16 * data.len(), || {
        let vfs = MemVfs::new();
        vfs.put(Path::new(walk::DATABASE), database.to_vec());
        vfs.put(Path::new(walk::JOURNAL), journal.to_vec());
        let Ok(store) = walk::open(&vfs, Access::ReadWrite) else { return };
        walk::walk(&store);
        drop(store);
        // Undone once, there is nothing left to undo.
        let after = vfs.get(Path::new(walk::DATABASE));
        let store = walk::open(&vfs, Access::ReadWrite).expect("it opened before");
        walk::walk(&store);
        assert_eq!(vfs.get(Path::new(walk::DATABASE)), after);
    });
});

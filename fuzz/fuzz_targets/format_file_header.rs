//! `shoal_format::file_header`: 100 bytes are a header or an error, and a written header reads the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_format::FileHeader;

fuzz_target!(|data: &[u8]| {
    let Some(bytes) = data.first_chunk::<100>() else { return };
    let _ = FileHeader::is_database(data);
    if let Ok(header) = FileHeader::parse(bytes) {
        assert!(header.usable() >= 480);
        let mut written = [0; 100];
        header.write(&mut written);
        let again = FileHeader::parse(&written).expect("what was parsed can be written");
        let mut twice = [0; 100];
        again.write(&mut twice);
        assert_eq!(written, twice);
    }
});

//! `shoal_format::journal`: records and trailers are read or refused, and a record read is written
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_format::journal::{
    JournalHeader, MAGIC, SUPER_TRAILER, parse_record, parse_super_trailer, push_record,
    super_checksum,
};

fuzz_target!(|data: &[u8]| {
    let Some((head, records)) = data.split_first_chunk::<28>() else { return };
    let header = JournalHeader::new(head);
    let page_size = header.page_size() as usize;
    let init = header.checksum_init();
    let _ = header.magic() == MAGIC;
    if let Some((pgno, page)) = parse_record(records, page_size, init) {
        let mut written = Vec::new();
        push_record(pgno, page, init, &mut written);
        assert_eq!(written, records[..written.len()]);
    }
    let super_name = data.last_chunk::<SUPER_TRAILER>().and_then(parse_super_trailer);
    if let Some((length, checksum)) = super_name {
        let end = data.len() - SUPER_TRAILER;
        let start = end.saturating_sub(length as usize);
        let _ = super_checksum(&data[start..end]) == checksum;
    }
});

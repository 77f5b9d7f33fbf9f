//! The rollback journal (file format §3): the pages as of before a transaction.
//!
//! One or more segments, each a header padded to a sector and then records: page number, the page
//! as it was, a checksum. A transaction over several files ends with the name of its super-journal.

use crate::Pgno;

layout! {
    /// A segment's header; the bytes up to the sector's end are padding.
    pub struct JournalHeader / JournalHeaderEdit [28] {
        /// [`MAGIC`]; anything else ends the journal.
        magic: [u8; 8] = 0,
        /// Records of the segment; [`COUNT_FROM_SIZE`] for as many as the file holds.
        record_count: u32 = 8,
        /// The checksums' start, random.
        checksum_init: u32 = 12,
        /// Pages of the database before the transaction.
        page_count: u32 = 16,
        /// Bytes a header is padded to.
        sector_size: u32 = 20,
        /// Bytes of a database page.
        page_size: u32 = 24,
    }
}

/// The first bytes of a valid segment.
pub const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The record count for "as many as the file holds".
pub const COUNT_FROM_SIZE: u32 = 0xffff_ffff;

/// The bytes of a record besides its page.
pub const RECORD_OVERHEAD: u64 = 8;

/// Returns the checksum of `page`: `init` plus every 200th byte from the end, the first 200 bytes
/// left out. It tells a record that never reached the disk, not one that rotted.
pub fn checksum(init: u32, page: &[u8]) -> u32 {
    let mut sum = init;
    let mut at = page.len();
    while at > 200 {
        at -= 200;
        sum = sum.wrapping_add(u32::from(page[at]));
    }
    sum
}

/// Appends a record to `out`.
pub fn push_record(pgno: Pgno, page: &[u8], checksum_init: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&pgno.get().to_be_bytes());
    out.extend_from_slice(page);
    out.extend_from_slice(&checksum(checksum_init, page).to_be_bytes());
}

/// Splits a record of a page of `page_size` bytes into page number and page. `None` when it is cut
/// short, names page 0 or its checksum is wrong: there the journal ends.
pub fn parse_record(record: &[u8], page_size: usize, checksum_init: u32) -> Option<(Pgno, &[u8])> {
    let (number, rest) = record.split_first_chunk::<4>()?;
    let page = rest.get(..page_size)?;
    let stored = rest.get(page_size..)?.first_chunk::<4>()?;
    let pgno = Pgno::new(u32::from_be_bytes(*number))?;
    (u32::from_be_bytes(*stored) == checksum(checksum_init, page)).then_some((pgno, page))
}

/// The end of a journal that belongs to a transaction over several files: the length of the
/// super-journal's name, the sum of the name's bytes, and [`MAGIC`]. The name is in front of it.
pub const SUPER_TRAILER: usize = 16;

/// Reads the last [`SUPER_TRAILER`] bytes of a journal: the length of the super-journal's name in
/// bytes and its checksum. `None` when the journal names none.
pub fn parse_super_trailer(trailer: &[u8; SUPER_TRAILER]) -> Option<(u32, u32)> {
    let (numbers, magic) = trailer.split_first_chunk::<8>()?;
    let [a, b, c, d, e, f, g, h] = *numbers;
    let length = u32::from_be_bytes([a, b, c, d]);
    (magic == MAGIC && length != 0).then_some((length, u32::from_be_bytes([e, f, g, h])))
}

/// Appends to `out` the end of a journal whose transaction has the super-journal `name`: a number
/// no record may have, the name, its length and sum, and [`MAGIC`].
pub fn push_super_name(name: &[u8], page_size: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&Pgno::lock_page(page_size).get().to_be_bytes());
    out.extend_from_slice(name);
    out.extend_from_slice(&u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&super_checksum(name).to_be_bytes());
    out.extend_from_slice(&MAGIC);
}

/// The names in a super-journal: paths of journals, each followed by a zero byte. A name cut short
/// is left out.
pub fn journal_names(super_journal: &[u8]) -> impl Iterator<Item = &[u8]> {
    super_journal.split_inclusive(|&byte| byte == 0).filter_map(|name| name.strip_suffix(&[0]))
}

/// Returns the checksum of a super-journal's name: the sum of its bytes, each as a signed number.
pub fn super_checksum(name: &[u8]) -> u32 {
    name.iter()
        .fold(0, |sum: u32, &byte| sum.wrapping_add(i32::from(byte.cast_signed()).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_takes_every_two_hundredth_byte_from_the_end() {
        let mut page = vec![0; 1024];
        for at in [824, 624, 424, 224, 24] {
            page[at] = 1;
        }
        page[0] = 9;
        assert_eq!(checksum(10, &page), 15);
        assert_eq!(checksum(u32::MAX, &page), 4);
    }

    #[test]
    fn records() {
        let page = vec![3; 512];
        let mut out = Vec::new();
        push_record(Pgno::new(4).unwrap(), &page, 77, &mut out);
        assert_eq!(out.len() as u64, 512 + RECORD_OVERHEAD);
        let parsed = parse_record(&out, 512, 77);
        assert_eq!(parsed, Some((Pgno::new(4).unwrap(), &page[..])));
        assert_eq!(parse_record(&out, 512, 78), None);
        assert_eq!(parse_record(&out[..519], 512, 77), None);
        out[..4].fill(0);
        assert_eq!(parse_record(&out, 512, 77), None);
    }

    #[test]
    fn super_trailers() {
        let mut trailer = [0; SUPER_TRAILER];
        trailer[3] = 5;
        trailer[7] = 9;
        assert_eq!(parse_super_trailer(&trailer), None);
        trailer[8..].copy_from_slice(&MAGIC);
        assert_eq!(parse_super_trailer(&trailer), Some((5, 9)));
        assert_eq!(super_checksum(b"ab"), 195);
    }

    #[test]
    fn a_super_name_is_found_again() {
        let mut out = Vec::new();
        push_super_name(b"/a/db-mj0123", 1024, &mut out);
        assert_eq!(out[..4], 0x0010_0001_u32.to_be_bytes());
        let (rest, trailer) = out.split_last_chunk().unwrap();
        assert_eq!(parse_super_trailer(trailer), Some((12, super_checksum(b"/a/db-mj0123"))));
        assert_eq!(rest[4..], *b"/a/db-mj0123");
    }

    #[test]
    fn a_super_journal_lists_paths() {
        let names: Vec<&[u8]> = journal_names(b"/a-journal\0/b-journal\0/c-jour").collect();
        assert_eq!(names, [&b"/a-journal"[..], b"/b-journal"]);
        assert_eq!(journal_names(b"").count(), 0);
    }
}

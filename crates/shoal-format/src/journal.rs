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
}

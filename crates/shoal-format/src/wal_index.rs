//! The index of the write-ahead log: the file `-shm` that processes share (SQLite's
//! `walformat.html` §2). Its numbers are in the machine's own byte order.
//!
//! Only the header and the read marks are read here. Where each page is in the log is told by the
//! log itself.

#![allow(clippy::host_endian_bytes)]

/// Bytes of the two copies of the header and of what follows them up to the lock bytes.
pub const SIZE: usize = 136;
/// The byte that a reader locks who does not look at the log and so keeps checkpoints from writing
/// into the database. The bytes behind it are those of the read marks from 1 on: who locks one
/// keeps checkpoints from going beyond its mark, and writers from beginning the log anew.
pub const READ_LOCK: u64 = 123;
/// The byte that writers lock for as long as they write, and whoever makes the index anew.
pub const WRITE_LOCK: u64 = 120;
/// How many read marks there are, the one of [`READ_LOCK`] included, which is always 0.
pub const READ_MARKS: usize = 5;

/// The message of writers to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalIndex {
    /// Frames of committed transactions.
    pub frames: u32,
    /// Pages of the database with them.
    pub page_count: u32,
    /// Bytes of a page.
    pub page_size: u32,
    /// The log's salt.
    pub salt: [u8; 8],
    /// Grows with each transaction.
    pub change: u32,
    /// Frames also in the database file.
    pub backfilled: u32,
    /// The last frame that the readers of each mark may look at; [`u32::MAX`] is no frame at all.
    pub marks: [u32; READ_MARKS],
}

/// Where read mark `place` is, and what it is written as.
pub fn read_mark(place: usize, frames: u32) -> (u64, [u8; 4]) {
    (100 + 4 * place as u64, frames.to_ne_bytes())
}

impl WalIndex {
    /// The same but for what changes while the log does not.
    pub fn is_same_log(&self, other: &WalIndex) -> bool {
        let bare = |it: &WalIndex| WalIndex { backfilled: 0, marks: [0; READ_MARKS], ..*it };
        bare(self) == bare(other)
    }

    /// Reads the index's first bytes; `None` when they are not valid or are being written.
    pub fn parse(bytes: &[u8; SIZE]) -> Option<WalIndex> {
        const VERSION: u32 = 3_007_000;
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut sums = [0_u32; 2];
        for at in (0..40).step_by(8) {
            sums[0] = sums[0].wrapping_add(word(at)).wrapping_add(sums[1]);
            sums[1] = sums[1].wrapping_add(word(at + 4)).wrapping_add(sums[0]);
        }
        let valid = bytes[..48] == bytes[48..96]
            && word(0) == VERSION
            && bytes[12] == 1
            && [word(40), word(44)] == sums;
        let page_size = match u16::from_ne_bytes([bytes[14], bytes[15]]) {
            1 => 65536,
            size => u32::from(size),
        };
        let fits = (512..=65536).contains(&page_size) && page_size.is_power_of_two();
        let mut salt = [0; 8];
        salt.copy_from_slice(&bytes[32..40]);
        (valid && fits).then_some(WalIndex {
            frames: word(16),
            page_count: word(20),
            page_size,
            salt,
            change: word(8),
            backfilled: word(96),
            marks: std::array::from_fn(|place| word(100 + 4 * place)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let words = [3_007_000, 0, 5, 1, 7, 9, 11, 12, 13, 14_u32];
        for (place, word) in words.iter().enumerate() {
            bytes[place * 4..place * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[12..14].copy_from_slice(&[1, 0]);
        bytes[14..16].copy_from_slice(&4096_u16.to_ne_bytes());
        let mut sums = [0_u32; 2];
        for pair in bytes[..40].chunks(8) {
            let word =
                |at| u32::from_ne_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            sums[0] = sums[0].wrapping_add(word(0)).wrapping_add(sums[1]);
            sums[1] = sums[1].wrapping_add(word(4)).wrapping_add(sums[0]);
        }
        bytes[40..44].copy_from_slice(&sums[0].to_ne_bytes());
        bytes[44..48].copy_from_slice(&sums[1].to_ne_bytes());
        bytes.copy_within(..48, 48);
        bytes[96] = 0;
        bytes
    }

    #[test]
    fn both_copies_and_the_checksum_must_agree() {
        let index_bytes = index();
        let parsed = WalIndex::parse(&index_bytes).unwrap();
        assert_eq!((parsed.frames, parsed.page_count, parsed.page_size), (7, 9, 4096));
        assert_eq!((parsed.change, parsed.backfilled), (5, 0));
        let mut marked = index();
        let (at, bytes) = read_mark(3, 7);
        marked[at as usize..at as usize + 4].copy_from_slice(&bytes);
        let marked = WalIndex::parse(&marked).unwrap();
        assert_eq!(marked.marks, [0, 0, 0, 7, 0]);
        assert!(marked.is_same_log(&parsed) && marked != parsed);
        for place in 0..96 {
            let mut broken = index();
            broken[place] ^= 1;
            assert_eq!(WalIndex::parse(&broken), None, "{place}");
        }
        assert_eq!(WalIndex::parse(&[0; SIZE]), None);
    }
}

//! The index of the write-ahead log: the file `-shm` that processes share (SQLite's
//! `walformat.html` §2). Its numbers are words in the machine's own byte order.
//!
//! It is made of blocks of 32 KiB. The first begins with two copies of the header, the count of
//! frames that are in the database, and the read marks. Each block then lists the pages of its
//! frames, and ends with a hash table from page to frame.

#![allow(clippy::host_endian_bytes)]

/// Bytes of a block.
pub const BLOCK: usize = 32 * 1024;
/// Words of one copy of the header; the second copy follows the first.
pub const HEADER_WORDS: usize = 12;
/// The word with the count of frames backfilled into the database.
pub const BACKFILLED: usize = 24;
/// The first of [`READ_MARKS`] words: the last frame that the readers of each mark may look at.
pub const MARKS: usize = 25;
/// The word with the count of frames a checkpoint has begun to backfill.
pub const BACKFILL_ATTEMPTED: usize = 32;
/// Words before the first block's list of pages.
pub const FIRST_PAGES: usize = 34;
/// An unused mark.
pub const UNUSED_MARK: u32 = u32::MAX;
/// How many read marks there are; the first is always 0.
pub const READ_MARKS: usize = 5;

/// The lock byte of writers, held for a whole write, and while the index is rebuilt.
pub const WRITE_LOCK: u64 = 120;
/// The lock byte of checkpoints.
pub const CHECKPOINT_LOCK: u64 = 121;
/// The lock byte of recovery: held while the index is rebuilt.
pub const RECOVER_LOCK: u64 = 122;
/// The byte that a reader locks who does not look at the log and so keeps checkpoints from writing
/// into the database. The bytes behind it are those of the read marks from 1 on: who locks one
/// keeps checkpoints from going beyond its mark, and writers from beginning the log anew.
pub const READ_LOCK: u64 = 123;
/// The byte that everybody locks who has the index open. Who is the first to lock it makes the
/// index anew: whatever it says is of before a crash.
pub const OPEN_LOCK: u64 = 128;

/// Frames listed by one block: the first block has fewer, for its header.
pub const FRAMES: u32 = 4096;
/// Frames of the first block.
pub const FIRST_FRAMES: u32 = 4062;
/// Places of a block's hash table.
pub const SLOTS: u32 = 8192;
/// The first word of a block's hash table, two places to a word.
pub const SLOT_WORDS: usize = 4096;

/// The header of the index: written by writers, read by readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexHeader {
    /// Grows with each transaction.
    pub change: u32,
    /// Whether the log's checksums are over big-endian words.
    pub big_endian: bool,
    /// Bytes of a page; 0 as long as there are no frames and were none.
    pub page_size: u32,
    /// Frames of committed transactions.
    pub frames: u32,
    /// Pages of the database with them; 0 for as many as the file has.
    pub page_count: u32,
    /// The sums of the last frame's checksum.
    pub checksum: [u32; 2],
    /// The log's salt.
    pub salt: [u8; 8],
}

/// The only version there is.
const VERSION: u32 = 3_007_000;

impl IndexHeader {
    /// The header of a log without frames.
    pub const EMPTY: IndexHeader = IndexHeader {
        change: 0,
        big_endian: false,
        page_size: 0,
        frames: 0,
        page_count: 0,
        checksum: [0; 2],
        salt: [0; 8],
    };

    /// Reads one copy; `None` for a torn or impossible one.
    pub fn parse(words: &[u32; HEADER_WORDS]) -> Option<IndexHeader> {
        let [is_init, big_endian, size @ ..] = words[3].to_ne_bytes();
        let page_size = match u16::from_ne_bytes(size) {
            1 => 65536,
            size => u32::from(size),
        };
        let fits = (512..=65536).contains(&page_size) && page_size.is_power_of_two();
        let empty = page_size == 0 && words[4] == 0;
        let whole = words[0] == VERSION && is_init == 1 && words[10..12] == sums(&words[..10]);
        let mut salt = [0; 8];
        salt[..4].copy_from_slice(&words[8].to_ne_bytes());
        salt[4..].copy_from_slice(&words[9].to_ne_bytes());
        (whole && (fits || empty)).then_some(IndexHeader {
            change: words[2],
            big_endian: big_endian != 0,
            page_size,
            frames: words[4],
            page_count: words[5],
            checksum: [words[6], words[7]],
            salt,
        })
    }

    /// The words of a copy.
    pub fn words(&self) -> [u32; HEADER_WORDS] {
        let size = u16::try_from(self.page_size).unwrap_or(1).to_ne_bytes();
        let shape = u32::from_ne_bytes([1, u8::from(self.big_endian), size[0], size[1]]);
        let [a, b, c, d, e, f, g, h] = self.salt;
        let (first, second) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]));
        let mut words = [0; HEADER_WORDS];
        words[0] = VERSION;
        words[2] = self.change;
        words[3] = shape;
        words[4] = self.frames;
        words[5] = self.page_count;
        words[6..8].copy_from_slice(&self.checksum);
        words[8] = first;
        words[9] = second;
        let own = sums(&words[..10]);
        words[10..].copy_from_slice(&own);
        words
    }
}

/// The checksum of a header's words, as the log's but in the machine's own order.
fn sums(words: &[u32]) -> [u32; 2] {
    let mut sums = [0_u32; 2];
    for pair in words.as_chunks::<2>().0 {
        sums[0] = sums[0].wrapping_add(pair[0]).wrapping_add(sums[1]);
        sums[1] = sums[1].wrapping_add(pair[1]).wrapping_add(sums[0]);
    }
    sums
}

/// Where a frame is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePlace {
    /// The block.
    pub block: usize,
    /// The frame's number within the block, counted from 1, as in its hash table.
    pub entry: u16,
    /// The word with the frame's page.
    pub word: usize,
}

impl FramePlace {
    /// The place of frame `number`, counted from 1.
    ///
    /// # Panics
    /// For frame 0, as frames count from 1.
    pub fn of(number: u32) -> FramePlace {
        let behind = number.checked_sub(1).expect("frames are counted from 1");
        let (block, entry) = match behind.checked_sub(FIRST_FRAMES) {
            None => (0, behind + 1),
            Some(rest) => (1 + rest / FRAMES, rest % FRAMES + 1),
        };
        let first = first_word(block as usize);
        let entry = u16::try_from(entry).expect("a block has 4,096 frames at most");
        FramePlace { block: block as usize, entry, word: first + usize::from(entry) - 1 }
    }
}

/// The first word of a block's list of pages.
pub fn first_word(block: usize) -> usize {
    if block == 0 { FIRST_PAGES } else { 0 }
}

/// Frames of the blocks before `block`.
pub fn frames_before(block: usize) -> u32 {
    let blocks = u32::try_from(block).unwrap_or(u32::MAX);
    match blocks.checked_sub(1) {
        None => 0,
        Some(rest) => rest.saturating_mul(FRAMES).saturating_add(FIRST_FRAMES),
    }
}

/// The place of the hash table at which the search for a page begins; the next place follows, and
/// the first the last.
pub fn first_slot(pgno: u32) -> u32 {
    pgno.wrapping_mul(383) % SLOTS
}

/// Place `slot` of a hash table, in its word `word`. 0 is an empty place.
pub fn slot_of(word: u32, slot: u32) -> u16 {
    let [a, b, c, d] = word.to_ne_bytes();
    u16::from_ne_bytes(if slot.is_multiple_of(2) { [a, b] } else { [c, d] })
}

/// The word with place `slot` set to `entry`.
pub fn with_slot(word: u32, slot: u32, entry: u16) -> u32 {
    let mut bytes = word.to_ne_bytes();
    let at = if slot.is_multiple_of(2) { 0 } else { 2 };
    bytes[at..at + 2].copy_from_slice(&entry.to_ne_bytes());
    u32::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: IndexHeader = IndexHeader {
        change: 5,
        big_endian: false,
        page_size: 4096,
        frames: 7,
        page_count: 9,
        checksum: [11, 12],
        salt: *b"saltsalt",
    };

    #[test]
    fn every_bit_of_a_header_counts() {
        for page_size in [512, 4096, 65536] {
            let header = IndexHeader { page_size, ..HEADER };
            assert_eq!(IndexHeader::parse(&header.words()), Some(header));
        }
        assert_eq!(IndexHeader::parse(&IndexHeader::EMPTY.words()), Some(IndexHeader::EMPTY));
        for place in 0..HEADER_WORDS {
            for bit in 0..32 {
                let mut broken = HEADER.words();
                broken[place] ^= 1 << bit;
                assert_eq!(IndexHeader::parse(&broken), None, "{place}");
            }
        }
        assert_eq!(IndexHeader::parse(&[0; HEADER_WORDS]), None);
        let sized = IndexHeader { page_size: 0, ..HEADER };
        assert_eq!(IndexHeader::parse(&sized.words()), None, "frames of no size");
    }

    #[test]
    fn frames_have_places() {
        let place = |number| {
            let FramePlace { block, entry, word } = FramePlace::of(number);
            (block, entry, word)
        };
        assert_eq!(place(1), (0, 1, 34));
        assert_eq!(place(4062), (0, 4062, 4095));
        assert_eq!(place(4063), (1, 1, 0));
        assert_eq!(place(8158), (1, 4096, 4095));
        assert_eq!(place(8159), (2, 1, 0));
        for number in [1, 4062, 4063, 8158, 8159, 1_000_000] {
            let place = FramePlace::of(number);
            assert_eq!(frames_before(place.block) + u32::from(place.entry), number);
        }
    }

    #[test]
    fn two_slots_share_a_word() {
        let word = with_slot(with_slot(0, 6, 0x1234), 7, 0x5678);
        assert_eq!((slot_of(word, 6), slot_of(word, 7)), (0x1234, 0x5678));
        assert_eq!(slot_of(with_slot(word, 6, 0), 7), 0x5678);
        assert_eq!(first_slot(1), 383);
        assert!(first_slot(u32::MAX) < SLOTS);
    }
}

//! The write-ahead log (file format §4): a header, then frames, each one page as a transaction left
//! it. The last frame of a transaction says how many pages the database has then.
//!
//! The log's checksums, and they alone, are over 32-bit words whose byte order the header's magic
//! number chooses.

#![allow(clippy::little_endian_bytes)]

use crate::Pgno;

layout! {
    /// The log's first bytes.
    pub struct WalHeader / WalHeaderEdit [32] {
        /// [`MAGIC`], its last bit set for big-endian checksums.
        magic: u32 = 0,
        /// [`VERSION`].
        version: u32 = 4,
        /// 512 to 65536.
        page_size: u32 = 8,
        /// Grows with each new begin of the log after a checkpoint.
        checkpoint: u32 = 12,
        /// Changed at each new begin of the log, to tell older frames apart.
        salt: [u8; 8] = 16,
        /// Over the bytes before.
        checksum: [u8; 8] = 24,
    }
}

layout! {
    /// The header before a page in the log.
    pub struct FrameHeader / FrameHeaderEdit [24] {
        /// The following page.
        pgno: u32 = 0,
        /// Pages of the database after the transaction that ends with this frame; 0 on others.
        page_count: u32 = 4,
        /// The header's.
        salt: [u8; 8] = 8,
        /// Over the header, every frame before this one, and of this one the first 8 bytes and the
        /// page.
        checksum: [u8; 8] = 16,
    }
}

/// The first 31 bits of a log's magic number.
pub const MAGIC: u32 = 0x377f_0682;
/// The only version there is.
pub const VERSION: u32 = 3_007_000;

/// The header of an intact log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalStart {
    /// Bytes of a page.
    pub page_size: u32,
    /// How often the log was begun anew.
    pub checkpoint: u32,
    /// The salt of every valid frame.
    pub salt: [u8; 8],
    /// The checksum before the first frame.
    pub checksum: Checksum,
}

impl WalStart {
    /// Reads the header; `None` for a broken one, or for other files.
    pub fn parse(bytes: &[u8; WalHeader::SIZE]) -> Option<WalStart> {
        let header = WalHeader::new(bytes);
        let page_size = header.page_size();
        let fits = (512..=65536).contains(&page_size) && page_size.is_power_of_two();
        if header.magic() & !1 != MAGIC || header.version() != VERSION || !fits {
            return None;
        }
        let mut checksum = Checksum { big_endian: header.magic() & 1 == 1, sums: [0; 2] };
        checksum.add(&bytes[..24]);
        (checksum.bytes() == header.checksum()).then_some(WalStart {
            page_size,
            checkpoint: header.checkpoint(),
            salt: header.salt(),
            checksum,
        })
    }

    /// The header of a log that begins: its bytes, and what they say. Its checksums are in the
    /// machine's own byte order, as SQLite makes them.
    pub fn create(
        page_size: u32,
        checkpoint: u32,
        salt: [u8; 8],
    ) -> ([u8; WalHeader::SIZE], WalStart) {
        let big_endian = cfg!(target_endian = "big");
        let mut bytes = [0; WalHeader::SIZE];
        WalHeaderEdit::new(&mut bytes)
            .magic(MAGIC | u32::from(big_endian))
            .version(VERSION)
            .page_size(page_size)
            .checkpoint(checkpoint)
            .salt(salt);
        let mut checksum = Checksum { big_endian, sums: [0; 2] };
        checksum.add(&bytes[..24]);
        WalHeaderEdit::new(&mut bytes).checksum(checksum.bytes());
        (bytes, WalStart { page_size, checkpoint, salt, checksum })
    }

    /// The salt of the log that follows one with `salt`: the first half counts, the second is
    /// `random`.
    pub fn next_salt(salt: [u8; 8], random: [u8; 4]) -> [u8; 8] {
        let [a, b, c, d, ..] = salt;
        let count = u32::from_be_bytes([a, b, c, d]).wrapping_add(1).to_be_bytes();
        let mut next = [0; 8];
        next[..4].copy_from_slice(&count);
        next[4..].copy_from_slice(&random);
        next
    }

    /// Where frame `number`, counted from 1, begins.
    pub fn frame_offset(page_size: u32, number: u32) -> u64 {
        let frame = FrameHeader::SIZE as u64 + u64::from(page_size);
        WalHeader::SIZE as u64 + u64::from(number.saturating_sub(1)) * frame
    }
}

/// The next frame of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The page.
    pub pgno: Pgno,
    /// Pages of the database when the frame ends a transaction.
    pub commits: Option<u32>,
}

impl Frame {
    /// Reads what the frame's header alone can tell; `None` when its salt is another log's or its
    /// page is 0.
    pub fn peek(header: &[u8; FrameHeader::SIZE], salt: [u8; 8]) -> Option<Frame> {
        let header = FrameHeader::new(header);
        if header.salt() != salt {
            return None;
        }
        let commits = Some(header.page_count()).filter(|&count| count > 0);
        Some(Frame { pgno: Pgno::new(header.pgno())?, commits })
    }

    /// Reads a whole frame, header and page, and takes it into `checksum`; `None` when it is not
    /// valid, as behind the log's end.
    pub fn parse(bytes: &[u8], salt: [u8; 8], checksum: &mut Checksum) -> Option<Frame> {
        let (header, page) = bytes.split_first_chunk::<{ FrameHeader::SIZE }>()?;
        let frame = Frame::peek(header, salt)?;
        checksum.add(&header[..8]);
        checksum.add(page);
        (checksum.bytes() == FrameHeader::new(header).checksum()).then_some(frame)
    }

    /// Appends the frame of `page` to `out`, and takes it into `checksum`.
    pub fn push(&self, page: &[u8], salt: [u8; 8], checksum: &mut Checksum, out: &mut Vec<u8>) {
        let mut header = [0; FrameHeader::SIZE];
        FrameHeaderEdit::new(&mut header)
            .pgno(self.pgno.get())
            .page_count(self.commits.unwrap_or(0))
            .salt(salt);
        checksum.add(&header[..8]);
        checksum.add(page);
        FrameHeaderEdit::new(&mut header).checksum(checksum.bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(page);
    }
}

/// The log's running checksum: two sums over pairs of 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// How words are read.
    pub big_endian: bool,
    /// The sums so far.
    pub sums: [u32; 2],
}

impl Checksum {
    /// Adds bytes, of which there is a multiple of eight.
    pub fn add(&mut self, bytes: &[u8]) {
        let [mut a, mut b] = self.sums;
        for pair in bytes.as_chunks::<8>().0 {
            let (first, second) = pair.split_at(4);
            let word = |bytes: &[u8]| {
                let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
                if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            a = a.wrapping_add(word(first)).wrapping_add(b);
            b = b.wrapping_add(word(second)).wrapping_add(a);
        }
        self.sums = [a, b];
    }

    /// The checksum as stored.
    pub fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.sums[0].to_be_bytes());
        bytes[4..].copy_from_slice(&self.sums[1].to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one page, with its checksums in either byte order.
    fn log(big_endian: bool) -> Vec<u8> {
        let mut header = [0; WalHeader::SIZE];
        WalHeaderEdit::new(&mut header)
            .magic(MAGIC | u32::from(big_endian))
            .version(VERSION)
            .page_size(512)
            .salt(*b"saltsalt");
        let mut checksum = Checksum { big_endian, sums: [0; 2] };
        checksum.add(&header[..24]);
        WalHeaderEdit::new(&mut header).checksum(checksum.bytes());
        let mut frame = [0; FrameHeader::SIZE];
        FrameHeaderEdit::new(&mut frame).pgno(1).page_count(3).salt(*b"saltsalt");
        let page = [7; 512];
        checksum.add(&frame[..8]);
        checksum.add(&page);
        FrameHeaderEdit::new(&mut frame).checksum(checksum.bytes());
        [&header[..], &frame, &page].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let salt = WalStart::next_salt([0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4], *b"rand");
        assert_eq!(salt, *b"\0\0\0\0rand");
        let (bytes, start) = WalStart::create(65536, 3, salt);
        assert_eq!(WalStart::parse(&bytes), Some(start));
        let (mut written, mut read) = (start.checksum, start.checksum);
        for (number, commits) in [(1, None), (9, Some(9))] {
            let frame = Frame { pgno: Pgno::new(number).unwrap(), commits };
            let mut out = Vec::new();
            frame.push(&vec![number as u8; 65536], salt, &mut written, &mut out);
            assert_eq!(Frame::parse(&out, salt, &mut read), Some(frame));
        }
        assert_eq!(written, read);
    }

    #[test]
    fn valid_logs_and_broken_ones() {
        for big_endian in [false, true] {
            let log = log(big_endian);
            let start = WalStart::parse(log.first_chunk().unwrap()).unwrap();
            assert_eq!((start.page_size, start.salt), (512, *b"saltsalt"));
            assert_eq!(WalStart::frame_offset(512, 2), log.len() as u64);
            let frame = Frame::parse(&log[32..], start.salt, &mut start.checksum.clone());
            assert_eq!(frame, Some(Frame { pgno: Pgno::FIRST, commits: Some(3) }));
            for place in [0, 9, 17, 30, 33, 40, 50, 100] {
                let mut broken = log.clone();
                broken[place] ^= 1;
                let start = WalStart::parse(broken.first_chunk().unwrap());
                let frame = start.and_then(|start| {
                    Frame::parse(&broken[32..], start.salt, &mut start.checksum.clone())
                });
                assert_eq!(frame, None, "{place}");
            }
        }
    }
}

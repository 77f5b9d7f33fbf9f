//! Cells: the entries of a b-tree page (file format §1.6).
//!
//! | page | layout |
//! |---|---|
//! | table leaf | payload length, rowid, payload, [overflow page: u32] |
//! | table interior | left child: u32, rowid |
//! | index leaf | payload length, payload, [overflow page: u32] |
//! | index interior | left child: u32, payload length, payload, [overflow page: u32] |

use std::ops::Range;

use crate::overflow::{MAX_PAYLOAD, local_len};
use crate::{Corrupt, PageKind, Pgno, varint};

/// Least bytes of a cell on its page: room to become a freeblock.
pub const MIN_SIZE: usize = 4;

/// A cell's payload: the bytes on the page, and the place of the rest.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    /// The bytes on this page.
    pub local: &'a [u8],
    /// Bytes of the whole payload.
    pub len: usize,
    /// First page of the rest; `Some` exactly when `local` is shorter than `len`.
    pub overflow: Option<Pgno>,
}

/// A row: a cell of a table leaf.
#[derive(Clone, Copy, Debug)]
pub struct TableLeafCell<'a> {
    /// The row's key.
    pub rowid: i64,
    /// The row's record.
    pub payload: Payload<'a>,
    /// Bytes of the cell.
    pub size: usize,
}

/// A row of a table leaf: where its record is on the page.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafCell {
    /// The row's key.
    pub rowid: i64,
    /// Both 0 for a record that goes on on other pages. No page has more than 65,536 bytes.
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A separator: a cell of a table interior page.
#[derive(Clone, Copy, Debug)]
pub struct TableInteriorCell {
    /// The page of the rows up to `rowid`.
    pub left: Pgno,
    /// No row below `left` has a larger rowid.
    pub rowid: i64,
    /// Bytes of the cell.
    pub size: usize,
}

/// An entry of an index: a cell of an index leaf or interior page.
#[derive(Clone, Copy, Debug)]
pub struct IndexCell<'a> {
    /// On interior pages: the page of the entries before this one.
    pub left: Option<Pgno>,
    /// The entry's record.
    pub payload: Payload<'a>,
    /// Bytes of the cell.
    pub size: usize,
}

impl<'a> TableLeafCell<'a> {
    /// Reads the cell at the start of `bytes`, which end where the page's usable bytes end.
    ///
    /// # Errors
    /// [`Corrupt`] if the cell passes the page or lacks its overflow page.
    #[inline]
    pub fn parse(bytes: &'a [u8], usable: usize) -> Result<TableLeafCell<'a>, Corrupt> {
        let (payload_len, first) = varint::read(bytes).ok_or_else(|| passes_page(bytes))?;
        let rest = &bytes[first..];
        let (rowid, second) = varint::read(rest).ok_or_else(|| passes_page(bytes))?;
        let head = first + second;
        let (payload, size) = parse_payload(bytes, head, payload_len, PageKind::TableLeaf, usable)?;
        Ok(TableLeafCell { rowid: rowid.cast_signed(), payload, size })
    }
}

impl LeafCell {
    /// Whether the record goes on on other pages.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.start == 0
    }

    /// The place of the record; empty for one continued on other pages.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Reads the cell at `at` of the area of cells, whose last byte is the last usable one of the
    /// page and whose first one is at `first`, if it has the form that most have: all on the page,
    /// a payload of less than 2^14 bytes, a rowid of less than 2^42.
    #[inline(always)]
    pub(crate) fn quick(area: &[u8], first: u32, at: u16) -> Option<LeafCell> {
        let word = word_at(area, usize::from(at))?;
        // Rowids of two and three bytes are the most common ones; of what is done for one length
        // little is done again for the next.
        let head = if let Some(head) = Head::read::<2>(word) {
            head
        } else if let Some(head) = Head::read::<3>(word) {
            head
        } else {
            Head::other(word)?
        };
        head.cell(first + u32::from(at), first + area.len() as u32)
    }

    /// Reads cells of a page, whose area of cells begins at `first`, as long as they are as
    /// [`LeafCell::quick`] wants them and their rowids are as long as the first one's; returns how
    /// many.
    #[inline(always)]
    pub(crate) fn quick_ones(
        page: &[u8],
        first: usize,
        pointers: &[[u8; 2]],
        out: &mut [LeafCell],
    ) -> usize {
        let word = pointers.first().and_then(|&at| word_at(page, u16::from_be_bytes(at).into()));
        match word.map_or(0, rowid_len) {
            1 => LeafCell::alike::<1>(page, first, pointers, out),
            2 => LeafCell::alike::<2>(page, first, pointers, out),
            3 => LeafCell::alike::<3>(page, first, pointers, out),
            4 => LeafCell::alike::<4>(page, first, pointers, out),
            5 => LeafCell::alike::<5>(page, first, pointers, out),
            6 => LeafCell::alike::<6>(page, first, pointers, out),
            _ => 0,
        }
    }

    /// The loop over cells whose rowids have `LEN` bytes. It calls nothing and stands alone, so
    /// that all it needs stays in registers.
    #[inline(never)]
    fn alike<const LEN: u32>(
        page: &[u8],
        first: usize,
        pointers: &[[u8; 2]],
        out: &mut [LeafCell],
    ) -> usize {
        // A record that begins so far from the page's start, and ends on it, is not too long to be
        // all there. Where records may begin earlier, those at the very end are not looked at here.
        let too_early = MAX_LOCAL_LESS.saturating_sub(first as u32);
        let page_end = (page.len() as u32).saturating_sub(too_early);
        for (number, (&at, cell)) in pointers.iter().zip(&mut *out).enumerate() {
            let at = usize::from(u16::from_be_bytes(at));
            let head = word_at(page, at).filter(|_| at >= first).and_then(Head::read::<LEN>);
            let Some(head) = head else { return number };
            let (start, end) = head.record(at as u32);
            if end > page_end {
                return number;
            }
            *cell = LeafCell { rowid: head.rowid.cast_signed(), start, end };
        }
        pointers.len().min(out.len())
    }
}

/// Eight bytes from there on.
#[inline(always)]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(*bytes.get(at..at + 8)?.first_chunk()?))
}

/// How many bytes the rowid has in the head of a cell that begins like this, if that is of the
/// usual kind.
#[inline(always)]
fn rowid_len(word: u64) -> u32 {
    // The first byte of the rowid that has no other behind it.
    let behind = word << 8 << ((word >> 60) & 8);
    (!behind & TOP_BITS).leading_zeros() / 8 + 1
}

/// For each byte the continuation bit.
pub(crate) const TOP_BITS: u64 = 0x8080_8080_8080_8080;

/// The head of a table leaf's cell: payload length and rowid.
struct Head {
    /// Bytes of the head if the payload length had one byte, and all ones if it has two.
    size: u32,
    two: u32,
    payload_len: u32,
    rowid: u64,
}

impl Head {
    /// Reads the head from the first bytes of a cell, if its payload length has one or two bytes
    /// and its rowid has `LEN` of them, at most six.
    #[inline(always)]
    fn read<const LEN: u32>(word: u64) -> Option<Head> {
        // All ones for a payload length of two bytes. Lengths around 128 are so common and so
        // little foreseeable that this is no branch.
        let two = (word.cast_signed() >> 63).cast_unsigned();
        // Begins with the last byte of the payload length.
        let rest = word << (two & 8);
        let more = (TOP_BITS >> 8) & !(u64::MAX >> (8 * LEN));
        let last = 1 << (63 - 8 * LEN);
        if rest & (1 << 63 | more | last) != more {
            return None;
        }
        let high = (word >> 49) & 0x3f80 & two;
        let digits = rest << 8 >> (64 - 8 * LEN);
        let mut rowid = digits & 0x7f;
        let mut byte = 1;
        while byte < LEN {
            rowid |= digits >> byte & 0x7f << (7 * byte);
            byte += 1;
        }
        let payload_len = (high | rest >> 56) as u32;
        Some(Head { size: 1 + LEN, two: two as u32, payload_len, rowid })
    }

    /// As [`Head::read`] for a rowid of one byte, or of more than three.
    #[inline(never)]
    fn other(word: u64) -> Option<Head> {
        match rowid_len(word) {
            1 => Head::read::<1>(word),
            4 => Head::read::<4>(word),
            5 => Head::read::<5>(word),
            6 => Head::read::<6>(word),
            _ => None,
        }
    }

    /// Where the record is of the cell of this head at `at`.
    #[inline(always)]
    fn record(&self, at: u32) -> (u32, u32) {
        let start = (at + self.size).wrapping_sub(self.two);
        (start, start + self.payload_len)
    }

    /// The cell of this head at `at` of a page that has `page_end` usable bytes, if it is all
    /// there.
    #[inline(always)]
    fn cell(self, at: u32, page_end: u32) -> Option<LeafCell> {
        let (start, end) = self.record(at);
        // Longer ones go on on other pages.
        if end > page_end || self.payload_len + MAX_LOCAL_LESS > page_end {
            return None;
        }
        Some(LeafCell { rowid: self.rowid.cast_signed(), start, end })
    }
}

impl LeafCell {
    /// Reads the cell of an index leaf at `at` of the page of these `bytes`, as
    /// [`IndexCell::short`] does.
    #[inline(always)]
    pub(crate) fn quick_entry(bytes: &[u8], at: usize) -> Option<LeafCell> {
        let len = usize::from(*bytes.get(at)?);
        let end = at + 1 + len;
        if len > INDEX_LOCAL_MIN || end > bytes.len() {
            return None;
        }
        // A page has at most 65,536 bytes.
        Some(LeafCell { rowid: 0, start: at as u32 + 1, end: end as u32 })
    }
}

/// The longest payload that is all in a cell of an index on a page with the fewest usable bytes,
/// 480.
pub(crate) const INDEX_LOCAL_MIN: usize = (480 - 12) * 64 / 255 - 23;

/// By so much less than a page's usable bytes are the bytes of the longest payload that is all in a
/// cell of a table leaf.
pub(crate) const MAX_LOCAL_LESS: u32 = 35;

impl TableInteriorCell {
    /// Reads the cell at the start of `bytes`.
    ///
    /// # Errors
    /// [`Corrupt`] if the cell passes the page or its child is page 0.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<TableInteriorCell, Corrupt> {
        let (left, rest) = parse_left(bytes)?;
        let (rowid, length) = varint::read(rest).ok_or_else(|| passes_page(bytes))?;
        Ok(TableInteriorCell { left, rowid: rowid.cast_signed(), size: 4 + length })
    }

    /// Writes a cell into `out` and returns its size in bytes.
    pub fn write(left: Pgno, rowid: i64, out: &mut [u8; 13]) -> usize {
        out[..4].copy_from_slice(&left.get().to_be_bytes());
        4 + varint::write(rowid.cast_unsigned(), &mut out[4..])
    }
}

impl<'a> IndexCell<'a> {
    /// Reads the cell of an index leaf at the start of `bytes` if its payload is so short that it
    /// is all there on a page of any size.
    #[inline(always)]
    pub(crate) fn short(bytes: &'a [u8]) -> Option<IndexCell<'a>> {
        let (&len, rest) = bytes.split_first()?;
        let len = usize::from(len);
        let local = rest.get(..len).filter(|_| len <= INDEX_LOCAL_MIN)?;
        Some(IndexCell {
            left: None,
            payload: Payload { local, len, overflow: None },
            size: 1 + len,
        })
    }

    /// Reads the cell at the start of `bytes`, which end where the page's usable bytes end.
    ///
    /// # Errors
    /// As [`TableLeafCell::parse`], and if the child of an interior cell is page 0.
    #[inline]
    pub fn parse(bytes: &'a [u8], kind: PageKind, usable: usize) -> Result<IndexCell<'a>, Corrupt> {
        let left = if kind.is_leaf() { None } else { Some(parse_left(bytes)?.0) };
        let start = if kind.is_leaf() { 0 } else { 4 };
        let (payload_len, length) =
            varint::read(&bytes[start..]).ok_or_else(|| passes_page(bytes))?;
        let (payload, size) = parse_payload(bytes, start + length, payload_len, kind, usable)?;
        Ok(IndexCell { left, payload, size })
    }
}

#[inline]
fn parse_left(bytes: &[u8]) -> Result<(Pgno, &[u8]), Corrupt> {
    let (left, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| passes_page(bytes))?;
    let left =
        Pgno::new(u32::from_be_bytes(*left)).ok_or(Corrupt::new("cell", "has no left child", 0))?;
    Ok((left, rest))
}

#[inline]
fn parse_payload(
    bytes: &[u8],
    head: usize,
    payload_len: u64,
    kind: PageKind,
    usable: usize,
) -> Result<(Payload<'_>, usize), Corrupt> {
    let len = match usize::try_from(payload_len) {
        Ok(len) if len <= MAX_PAYLOAD => len,
        _ => return Err(Corrupt::new("cell", "has too long a payload", payload_len)),
    };
    let local_len = local_len(kind, usable, len);
    let end = head + local_len;
    let local = bytes.get(head..end).ok_or_else(|| passes_page(bytes))?;
    if local_len == len {
        return Ok((Payload { local, len, overflow: None }, end));
    }
    let next =
        bytes.get(end..).and_then(|rest| rest.first_chunk()).ok_or_else(|| passes_page(bytes))?;
    let overflow = Pgno::new(u32::from_be_bytes(*next)).ok_or(Corrupt::new(
        "cell",
        "lacks its overflow page, payload length",
        payload_len,
    ))?;
    Ok((Payload { local, len, overflow: Some(overflow) }, end + 4))
}

#[cold]
fn passes_page(bytes: &[u8]) -> Corrupt {
    Corrupt::new("cell", "passes the end of its page, bytes left", bytes.len() as u64)
}

/// The head of a leaf cell: payload length and, for tables, rowid.
#[derive(Clone, Copy, Debug)]
pub struct LeafHead {
    bytes: [u8; 2 * varint::MAX_LEN],
    len: usize,
}

impl LeafHead {
    /// The head of a cell with so long a payload; a table's with a rowid.
    #[inline]
    pub fn new(payload_len: usize, rowid: Option<i64>) -> LeafHead {
        let mut bytes = [0; 2 * varint::MAX_LEN];
        let mut len = varint::write(payload_len as u64, &mut bytes);
        if let Some(rowid) = rowid {
            len += varint::write(rowid.cast_unsigned(), &mut bytes[len..]);
        }
        LeafHead { bytes, len }
    }

    /// The head's bytes, as on a page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Appends the head of a leaf cell (payload length and, for tables, rowid) to `out`.
pub fn push_leaf_head(payload_len: usize, rowid: Option<i64>, out: &mut Vec<u8>) {
    varint::push(payload_len as u64, out);
    if let Some(rowid) = rowid {
        varint::push(rowid.cast_unsigned(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_cells() {
        let mut bytes = Vec::new();
        push_leaf_head(3, Some(-1), &mut bytes);
        bytes.extend_from_slice(b"abc");
        let size = bytes.len();
        bytes.extend_from_slice(b"rest of the page");
        let cell = TableLeafCell::parse(&bytes, 512).unwrap();
        assert_eq!((cell.rowid, cell.payload.local, cell.size), (-1, &b"abc"[..], size));
        assert_eq!(cell.payload.overflow, None);

        let mut out = [0; 13];
        let size = TableInteriorCell::write(Pgno::FIRST, i64::MIN, &mut out);
        let cell = TableInteriorCell::parse(&out[..size]).unwrap();
        assert_eq!((cell.left, cell.rowid, cell.size), (Pgno::FIRST, i64::MIN, 13));
    }

    #[test]
    fn overflowing_cells_name_their_chain() {
        let mut bytes = Vec::new();
        push_leaf_head(1000, None, &mut bytes);
        // M = 39 for 512 bytes; 39 + (1000 - 39) % 508 = 492 is above X = 102.
        bytes.extend_from_slice(&[7; 39]);
        bytes.extend_from_slice(&[0, 0, 0, 9]);
        let cell = IndexCell::parse(&bytes, PageKind::IndexLeaf, 512).unwrap();
        assert_eq!(cell.payload.local.len(), 39);
        assert_eq!(cell.payload.overflow, Pgno::new(9));
        assert_eq!(cell.size, bytes.len());
        assert!(IndexCell::short(&bytes).is_none());
        *bytes.last_mut().unwrap() = 0;
        let error = IndexCell::parse(&bytes, PageKind::IndexLeaf, 512).unwrap_err();
        assert!(error.to_string().contains("lacks its overflow page"), "{error}");
    }

    #[test]
    fn short_entries_of_an_index() {
        assert_eq!(local_len(PageKind::IndexLeaf, 480, INDEX_LOCAL_MIN), INDEX_LOCAL_MIN);
        assert_ne!(local_len(PageKind::IndexLeaf, 480, INDEX_LOCAL_MIN + 1), INDEX_LOCAL_MIN + 1);
        for length in [0, 1, 5, INDEX_LOCAL_MIN, INDEX_LOCAL_MIN + 1, 127, 128, 300] {
            let mut bytes = Vec::new();
            push_leaf_head(length, None, &mut bytes);
            bytes.resize(bytes.len() + length, 3);
            let short = IndexCell::short(&bytes);
            assert_eq!(short.is_some(), length <= INDEX_LOCAL_MIN);
            if let Some(cell) = short {
                let expect = IndexCell::parse(&bytes, PageKind::IndexLeaf, 480).unwrap();
                assert_eq!((cell.payload.local, cell.size), (expect.payload.local, expect.size));
                assert!(cell.left.is_none() && cell.payload.overflow.is_none());
            }
            bytes.pop();
            assert!(IndexCell::short(&bytes).is_none());
        }
    }

    #[test]
    fn broken_cells_are_errors() {
        assert!(TableLeafCell::parse(&[], 512).is_err());
        assert!(TableLeafCell::parse(&[5, 1, 0], 512).is_err());
        assert!(TableLeafCell::parse(&[0xff; 12], 512).is_err());
        assert!(TableInteriorCell::parse(&[0, 0, 0]).is_err());
        assert!(TableInteriorCell::parse(&[0, 0, 0, 0, 1]).is_err());
        assert!(IndexCell::parse(&[0, 0, 0, 1], PageKind::IndexInterior, 512).is_err());
    }
}

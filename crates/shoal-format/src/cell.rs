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

/// Least bytes a cell takes on its page, so that it can become a freeblock.
pub const MIN_SIZE: usize = 4;

/// A cell's payload: what is on the page, and where the rest is.
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
    /// Both 0 for a record that goes on on other pages.
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

    /// Where the record is; empty for one that goes on on other pages.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Reads the cell at `at` of the area of cells, whose last byte is the last usable one of the page
    /// and whose first one is at `first`, if it has the form that most have: all on the page, a payload
    /// of less than 2^14 bytes, a rowid of less than 2^28.
    #[inline(always)]
    pub(crate) fn quick(area: &[u8], first: u32, at: u16) -> Option<LeafCell> {
        let offset = usize::from(at);
        let word = u64::from_be_bytes(*area.get(offset..offset + 8)?.first_chunk()?);
        // The payload's length has one or two bytes. Lengths around 128 are so common and so little
        // foreseeable that this is no branch.
        let two = (word >> 63) as u32;
        if word & (1 << 55 | 1 << 63) == (1 << 55 | 1 << 63) {
            return None;
        }
        let long = (word >> 49) & 0x3f80 | (word >> 48) & 0x7f;
        let len = if two == 1 { long } else { word >> 56 } as u32;
        let rest = word << (8 + 8 * two);
        let (rowid, rowid_len) = if rest >> 63 == 0 {
            (rest >> 56, 1)
        } else if rest >> 55 & 1 == 0 {
            ((rest >> 49) & 0x3f80 | (rest >> 48) & 0x7f, 2)
        } else if rest >> 47 & 1 == 0 {
            ((rest >> 42) & 0x1f_c000 | (rest >> 41) & 0x3f80 | (rest >> 40) & 0x7f, 3)
        } else if rest >> 39 & 1 == 0 {
            let high = (rest >> 35) & 0xfe0_0000 | (rest >> 34) & 0x1f_c000;
            (high | (rest >> 33) & 0x3f80 | (rest >> 32) & 0x7f, 4)
        } else {
            return None;
        };
        let start = first + u32::from(at) + 1 + two + rowid_len;
        let (end, page_end) = (start + len, first + area.len() as u32);
        // Longer ones go on on other pages.
        if end > page_end || len + MAX_LOCAL_LESS > page_end {
            return None;
        }
        Some(LeafCell { rowid: rowid.cast_signed(), start, end })
    }
}

impl LeafCell {
    /// Reads the cell of an index leaf at `at` of the page of these `bytes`, as [`IndexCell::short`] does.
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

/// The longest payload that is all in a cell of an index on a page with the fewest usable bytes, 480.
const INDEX_LOCAL_MIN: usize = (480 - 12) * 64 / 255 - 23;

/// By so much less than a page's usable bytes are the bytes of the longest payload that is all in a
/// cell of a table leaf.
const MAX_LOCAL_LESS: u32 = 35;

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
    /// Reads the cell of an index leaf at the start of `bytes` if its payload is so short that it is
    /// all there on a page of any size.
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

//! The bytes of one text or blob of a table's row, read and written in pieces.
//!
//! The value's length stays: pieces are overwritten where they lie, in the leaf and on the overflow
//! pages behind it, and nothing else of the row is touched.

use std::ops::Range;

use shoal_format::overflow::OverflowPage;
use shoal_format::{Corrupt, Payload, Pgno, varint};

use crate::{Error, Transaction};

/// A text or blob of a row, as found by [`Transaction::find_value`]. Valid until anything else
/// changes the row's table.
#[derive(Clone, Debug)]
pub struct ValueBytes {
    leaf: Pgno,
    /// The bytes of the record on the leaf.
    local: Range<usize>,
    record_len: usize,
    /// The overflow pages found so far, and the one behind them.
    chain: Vec<Pgno>,
    next: Option<Pgno>,
    /// The value's place in the record.
    start: usize,
    len: usize,
}

/// The storage class of a column's value.
#[derive(Clone, Debug)]
pub enum FoundValue {
    /// A text or blob.
    Bytes(ValueBytes),
    /// NULL, or a column that the row is too short for.
    Null,
    /// An integer.
    Int,
    /// A real.
    Real,
}

impl ValueBytes {
    /// The number of bytes, in the file's encoding.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an empty text or blob.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page with the row, and then the overflow pages as far as they were read.
    pub fn pages(&self) -> impl Iterator<Item = Pgno> + '_ {
        std::iter::once(self.leaf).chain(self.chain.iter().copied())
    }

    /// The place in the record of `length` bytes from `offset` of the value.
    fn range(&self, offset: usize, length: usize) -> Result<Range<usize>, Error> {
        match offset.checked_add(length) {
            Some(end) if end <= self.len => Ok(self.start + offset..self.start + end),
            _ => Err(Error::Misuse("bytes outside of a value were asked for")),
        }
    }
}

impl Transaction {
    /// Finds column `column` of the record of row `rowid`; `None` where there is no such row.
    ///
    /// Cost: a descent, and the pages with the record's header.
    ///
    /// # Errors
    /// [`Error::Corrupt`]; a page that cannot be read.
    pub fn find_value(
        &self,
        root: Pgno,
        rowid: i64,
        column: usize,
    ) -> Result<Option<FoundValue>, Error> {
        let mut cursor = self.table(root)?;
        if !cursor.seek(rowid)? {
            return Ok(None);
        }
        let Some((page, index)) = cursor.leaf() else { return Ok(None) };
        let Payload { local, len, overflow } = page.table_leaf(index)?.payload;
        let bytes = self.page(page.pgno())?;
        // Both slices are of one page: the difference of their addresses is a place on it.
        let at = local.as_ptr().addr() - bytes.as_ptr().addr();
        let mut value = ValueBytes {
            leaf: page.pgno(),
            local: at..at + local.len(),
            record_len: len,
            chain: Vec::new(),
            next: overflow,
            start: 0,
            len,
        };
        let most = u64::from(self.page_count()) * self.usable() as u64;
        if len as u64 > most {
            let why = "is longer than the file, bytes";
            return Err(Corrupt::new("payload", why, len as u64).into());
        }
        let mut header = vec![0; len.min(VARINT_MAX)];
        self.read_value(&mut value, 0, &mut header)?;
        let (header_len, _) = varint::read(&header).ok_or_else(|| cut(column))?;
        header.resize(usize::try_from(header_len).unwrap_or(len).min(len), 0);
        self.read_value(&mut value, 0, &mut header)?;
        let Some((serial, start)) = serial_type(&header, column)? else {
            return Ok(Some(FoundValue::Null));
        };
        let length = match serial {
            0 => return Ok(Some(FoundValue::Null)),
            1..=6 | 8 | 9 => return Ok(Some(FoundValue::Int)),
            7 => return Ok(Some(FoundValue::Real)),
            _ => bytes_of(serial).ok_or_else(|| cut(column))?,
        };
        if start.checked_add(length).is_none_or(|end| end > len) {
            return Err(cut(column));
        }
        (value.start, value.len) = (start, length);
        Ok(Some(FoundValue::Bytes(value)))
    }

    /// Fills `out` with the bytes from `offset` of a value.
    ///
    /// Cost: the pages the bytes lie on; once also the pages in front of them.
    ///
    /// # Errors
    /// [`Error::Misuse`] for bytes past the value's end; [`Error::Corrupt`] for a broken chain of
    /// overflow pages.
    pub fn read_value(
        &self,
        value: &mut ValueBytes,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        let mut done = 0;
        for (pgno, place) in self.pieces(value, offset, out.len())? {
            let bytes = self.page(pgno)?.get(place).ok_or_else(|| passes_page(pgno))?;
            out[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
        Ok(())
    }

    /// Overwrites the bytes from `offset` of a value.
    ///
    /// # Errors
    /// As [`Transaction::read_value`]; [`Error::Misuse`] where the transaction may not write.
    pub fn write_value(
        &mut self,
        value: &mut ValueBytes,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let pieces = self.pieces(value, offset, bytes.len())?;
        let leaf = value.leaf;
        self.change(|txn| {
            let mut done = 0;
            for (pgno, place) in pieces {
                let page = txn.edit(pgno)?.get_mut(place).ok_or_else(|| passes_page(pgno))?;
                page.copy_from_slice(&bytes[done..done + page.len()]);
                done += page.len();
                txn.changes_mut()?.set_overflow(pgno, pgno != leaf);
            }
            Ok(())
        })
    }

    /// The pages that bytes of a value lie on, with their places there.
    fn pieces(
        &self,
        value: &mut ValueBytes,
        offset: usize,
        length: usize,
    ) -> Result<Vec<(Pgno, Range<usize>)>, Error> {
        let Range { mut start, end } = value.range(offset, length)?;
        let mut pieces = Vec::new();
        let local = value.local.len();
        if start < local.min(end) {
            let stop = end.min(local);
            pieces.push((value.leaf, value.local.start + start..value.local.start + stop));
            start = stop;
        }
        let content = self.usable() - OverflowPage::HEADER;
        while start < end {
            let (number, at) = ((start - local) / content, (start - local) % content);
            while value.chain.len() <= number {
                let ends = || {
                    let missing = (value.record_len - local - value.chain.len() * content) as u64;
                    Corrupt::new("overflow chain", "ends early, bytes missing", missing)
                };
                let pgno = value.next.ok_or_else(ends)?;
                value.next = OverflowPage::new(self.page(pgno)?, pgno, self.usable())?.next;
                value.chain.push(pgno);
            }
            let length = (content - at).min(end - start);
            let at = OverflowPage::HEADER + at;
            pieces.push((value.chain[number], at..at + length));
            start += length;
        }
        Ok(pieces)
    }
}

/// The longest varint.
const VARINT_MAX: usize = 9;

/// The serial type of a column, and where its value begins in the record; `None` for a record that
/// ends before.
fn serial_type(header: &[u8], column: usize) -> Result<Option<(u64, usize)>, Error> {
    let (_, mut at) = varint::read(header).ok_or_else(|| cut(column))?;
    let mut start = header.len();
    for place in 0.. {
        let rest = header.get(at..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        let (serial, bytes) = varint::read(rest).ok_or_else(|| cut(column))?;
        if place == column {
            return Ok(Some((serial, start)));
        }
        at += bytes;
        let length = bytes_of(serial).and_then(|length| start.checked_add(length));
        start = length.ok_or_else(|| cut(column))?;
    }
    Ok(None)
}

/// The bytes of a value; `None` for a reserved serial type, and for more than there can be.
fn bytes_of(serial: u64) -> Option<usize> {
    match serial {
        0 | 8 | 9 => Some(0),
        1..=4 => Some(serial as usize),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => usize::try_from((serial - 12) / 2).ok(),
    }
}

fn cut(column: usize) -> Error {
    Corrupt::new("record", "has no whole header or value, column", column as u64).into()
}

fn passes_page(pgno: Pgno) -> Error {
    Corrupt::new("payload", "passes its page", u64::from(pgno.get())).into()
}

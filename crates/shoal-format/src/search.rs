//! Entries of an index found on one page by their keys, rows by their rowids.

use std::cmp::Ordering;

use crate::cell::{INDEX_LOCAL_MIN, word_at};
use crate::{Corrupt, KeyOrder, Page, PageKind, ValueRef};

/// For the serial types of integers with bytes of their own: by how much eight bytes read from the
/// first one are shifted.
const INT_SHIFTS: [u32; 7] = [0, 56, 48, 40, 32, 16, 0];

impl Page<'_> {
    /// Finds the first entry not before `key`; true beside its place where an entry compared on the
    /// way begins with `key`. `None` once an entry to be compared is long or broken.
    ///
    /// Cost: a comparison for each halving of the entries; an integer in the first column decides
    /// most of them in a few steps.
    ///
    /// # Errors
    /// [`Corrupt`] for a broken record.
    pub fn find_entry(
        &self,
        order: &KeyOrder,
        key: &[ValueRef<'_>],
    ) -> Result<Option<(usize, bool)>, Corrupt> {
        let Some(&ValueRef::Int(wanted)) = key.first() else {
            return self.search(|bytes, start, end| order.compare(&bytes[start..end], key));
        };
        // The rowid behind one column, mostly.
        let second = match key {
            [_, ValueRef::Int(second)] => Some((*second, order.column(1).descending)),
            _ => None,
        };
        let is_descending = order.column(0).descending;
        self.search(|bytes, start, end| {
            if let Some((known, rest)) = int_at(bytes, start, (1, 0), end) {
                let side = ordered(known, wanted, is_descending);
                if side.is_ne() {
                    return Ok(side);
                }
                if let Some((wanted, is_descending)) = second
                    && let Some((known, _)) = int_at(bytes, start, (2, rest), end)
                {
                    return Ok(ordered(known, wanted, is_descending));
                }
            }
            // Not told by integers: the whole key decides.
            order.compare(&bytes[start..end], key)
        })
    }

    /// Finds the first cell of a table page whose rowid is not smaller than `rowid`.
    ///
    /// Cost: as of [`Page::find_entry`].
    ///
    /// # Errors
    /// As [`Page::rowid`].
    #[inline]
    pub fn find_rowid(&self, rowid: i64) -> Result<usize, Corrupt> {
        self.find_rowid_by(rowid, |_, _| None)
    }

    /// As [`Page::find_rowid`] for a cell expected near number `guess`.
    ///
    /// Cost: a comparison for each doubling of the distance from there.
    ///
    /// # Errors
    /// As [`Page::rowid`].
    #[inline]
    pub fn find_rowid_near(&self, rowid: i64, guess: usize) -> Result<usize, Corrupt> {
        let count = self.cell_count();
        let mut step = 1;
        // The cell to look at next, where one end of the range is still the page's.
        let near = |low: usize, high: usize| {
            let next = match (low, high) {
                (0, high) if high == count => Some(guess.min(count - 1)),
                (low, high) if high == count => Some((low + step - 1).min(high - 1)),
                (0, high) => Some(high.saturating_sub(step)),
                _ => None,
            };
            step *= 2;
            next
        };
        self.find_rowid_by(rowid, near)
    }

    /// Narrows the range of cells down: at the cell given by `next` for the range left, or in the
    /// middle.
    #[inline(always)]
    fn find_rowid_by(
        &self,
        rowid: i64,
        mut next: impl FnMut(usize, usize) -> Option<usize>,
    ) -> Result<usize, Corrupt> {
        let (first, pointers) = self.pointers();
        let (bytes, is_leaf) = (self.bytes(), self.kind() == PageKind::TableLeaf);
        let is_table = self.kind().is_table();
        let (mut low, mut high) = (0, pointers.len());
        while low < high {
            let middle = next(low, high).unwrap_or(low + (high - low) / 2);
            let at = usize::from(u16::from_be_bytes(pointers[middle]));
            let quick =
                if is_leaf { rowid_behind_len(bytes, at) } else { short_rowid_at(bytes, at + 4) };
            let known = match quick.filter(|_| is_table && at >= first) {
                Some(known) => known,
                None => self.rowid(middle)?,
            };
            if known < rowid {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Halves the entries by an order of records, each given as a range of the page.
    #[inline(always)]
    fn search(
        &self,
        compare: impl Fn(&[u8], usize, usize) -> Result<Ordering, Corrupt>,
    ) -> Result<Option<(usize, bool)>, Corrupt> {
        if self.kind().is_table() {
            return Ok(None);
        }
        let bytes = self.bytes();
        let (first, pointers) = self.pointers();
        // The child's number comes before an entry of an interior page.
        let skip = if self.kind().is_leaf() { 0 } else { 4 };
        let (mut low, mut high, mut found) = (0, pointers.len(), false);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = usize::from(u16::from_be_bytes(pointers[middle]));
            let len = usize::from(bytes.get(at + skip).copied().unwrap_or(u8::MAX));
            let start = at + skip + 1;
            if at < first || len > INDEX_LOCAL_MIN || start + len > bytes.len() {
                return Ok(None);
            }
            let side = compare(bytes, start, start + len)?;
            found |= side.is_eq();
            if side.is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Some((low, found)))
    }
}

/// The rowid of a table leaf's cell, behind a payload length of one or two bytes; `None` for any
/// other length and for rowids of more than three bytes.
#[inline(always)]
fn rowid_behind_len(bytes: &[u8], at: usize) -> Option<i64> {
    let word = word_at(bytes, at)?;
    let two = (word >> 63) as u32;
    let rest = word << (8 * two);
    if rest >> 63 == 1 { None } else { short_rowid(rest << 8) }
}

#[inline(always)]
fn short_rowid_at(bytes: &[u8], at: usize) -> Option<i64> {
    short_rowid(word_at(bytes, at)?)
}

/// The number of one to three bytes at the front of a word.
#[inline(always)]
fn short_rowid(word: u64) -> Option<i64> {
    let byte = |number: u32| (word >> (56 - 8 * number) & 0x7f).cast_signed();
    if word >> 63 == 0 {
        Some(byte(0))
    } else if word >> 55 & 1 == 0 {
        Some(byte(0) << 7 | byte(1))
    } else if word >> 47 & 1 == 0 {
        Some(byte(0) << 14 | byte(1) << 7 | byte(2))
    } else {
        None
    }
}

#[inline(always)]
fn ordered(known: i64, wanted: i64, is_descending: bool) -> Ordering {
    if is_descending { wanted.cmp(&known) } else { known.cmp(&wanted) }
}

/// A column of the record at `start..end`, with the number of bytes up to its end in the body: an
/// integer with bytes of its own, in a record with a short header. The column is given by the place
/// of its type and the bytes of the columns before. `None` for any other column, and for one at the
/// very end of the page.
#[inline(always)]
fn int_at(
    bytes: &[u8],
    start: usize,
    (place, before): (usize, usize),
    end: usize,
) -> Option<(i64, usize)> {
    let header = usize::from(*bytes.get(start)?);
    let serial = *bytes.get(start + place)?;
    if header >= 0x80 || place >= header || !(1..7).contains(&serial) {
        return None;
    }
    let shift = INT_SHIFTS[usize::from(serial)];
    let (body, length) = (start + header + before, (64 - shift as usize) / 8);
    if body + length > end {
        return None;
    }
    Some((word_at(bytes, body)?.cast_signed() >> shift, before + length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cell::push_leaf_head;
    use crate::{Collation, KeyColumn, PageEdit, Pgno, encode_record};

    fn value(number: i64) -> ValueRef<'static> {
        match number.rem_euclid(13) {
            0 => ValueRef::Null,
            1 => ValueRef::Text(b"abc"),
            2 => ValueRef::Real(0.5),
            _ => ValueRef::Int(number >> (number.rem_euclid(59))),
        }
    }

    proptest! {
        #[test]
        fn the_place_is_that_of_comparing_each(
            keys in prop::collection::vec((any::<i64>(), -3_i64..3), 0..120),
            wanted in prop::collection::vec((any::<i64>(), -3_i64..3), 1..20),
            descending in any::<bool>(),
            interior in any::<bool>(),
            columns in 1_usize..3,
            noise in prop::collection::vec((any::<u16>(), any::<u8>()), 0..3),
        ) {
            let column = KeyColumn { collation: Collation::Binary, descending };
            let order = KeyOrder::new(vec![column]);
            let mut records: Vec<Vec<u8>> = Vec::new();
            let mut sorted: Vec<[ValueRef<'_>; 2]> =
                keys.iter().map(|(a, b)| [value(*a), ValueRef::Int(*b)]).collect();
            sorted.sort_by(|a, b| {
                let first = order.compare_column(0, a[0], b[0]);
                first.then(order.compare_column(1, a[1], b[1]))
            });
            for key in &sorted {
                let mut record = Vec::new();
                encode_record(key, 4, &mut record);
                records.push(record);
            }
            let kind = if interior { PageKind::IndexInterior } else { PageKind::IndexLeaf };
            let pgno = Pgno::new(2).unwrap();
            let mut bytes = vec![0; 4096];
            let mut edit = PageEdit::create(&mut bytes, pgno, 4096, kind, Some(pgno));
            for record in &records {
                let mut cell = if interior { vec![0, 0, 0, 3] } else { Vec::new() };
                cell.push(record.len() as u8);
                cell.extend_from_slice(record);
                let count = edit.page().cell_count();
                prop_assert!(edit.insert(count, &cell, &mut Vec::new()).unwrap());
            }
            let own = keys.iter().chain(&wanted);
            let page = edit.page();
            for (a, b) in own {
                let key = [value(*a), ValueRef::Int(*b)];
                let key = &key[..columns];
                let sides: Vec<Ordering> =
                    records.iter().map(|record| order.compare(record, key).unwrap()).collect();
                let place = sides.iter().filter(|side| side.is_lt()).count();
                let (got, found) = page.find_entry(&order, key).unwrap().unwrap();
                prop_assert_eq!(got, place);
                prop_assert!(!found || sides.contains(&Ordering::Equal));
                // The last halving meets the first of equal entries.
                prop_assert_eq!(found, sides.contains(&Ordering::Equal));
            }
            for (at, byte) in noise {
                bytes[usize::from(at) % 4096] = byte;
            }
            if let Ok(page) = Page::new(&bytes, pgno, 4096) {
                for (a, b) in &wanted {
                    let _ = page.find_entry(&order, &[value(*a), ValueRef::Int(*b)]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn rows_are_found_by_rowid(
            rowids in prop::collection::btree_set((any::<i64>(), 0_u32..64), 0..60),
            wanted in prop::collection::vec((any::<i64>(), 0_u32..64), 0..20),
            interior in any::<bool>(),
            noise in prop::collection::vec((any::<u16>(), any::<u8>()), 0..3),
        ) {
            let mut sorted: Vec<i64> = rowids.iter().map(|(rowid, by)| rowid >> by).collect();
            sorted.sort_unstable();
            sorted.dedup();
            let kind = if interior { PageKind::TableInterior } else { PageKind::TableLeaf };
            let pgno = Pgno::new(2).unwrap();
            let mut bytes = vec![0; 8192];
            let mut edit = PageEdit::create(&mut bytes, pgno, 8192, kind, Some(pgno));
            for (index, rowid) in sorted.iter().enumerate() {
                let mut cell = Vec::new();
                if interior {
                    cell.extend_from_slice(&[0, 0, 0, 9]);
                    crate::varint::push(rowid.cast_unsigned(), &mut cell);
                } else {
                    let len = index * 37 % 200;
                    push_leaf_head(len, Some(*rowid), &mut cell);
                    cell.resize(cell.len() + len, 7);
                }
                prop_assert!(edit.insert(index, &cell, &mut Vec::new()).unwrap());
            }
            let page = edit.page();
            let near = sorted.iter().flat_map(|rowid| [*rowid, rowid.wrapping_add(1)]);
            for wanted in near.chain(wanted.iter().map(|(rowid, by)| rowid >> by)) {
                let place = sorted.partition_point(|rowid| *rowid < wanted);
                prop_assert_eq!(page.find_rowid(wanted).unwrap(), place);
                for guess in [0, 1, place, place / 2, place + 3, sorted.len(), usize::MAX] {
                    prop_assert_eq!(page.find_rowid_near(wanted, guess).unwrap(), place);
                }
            }
            for (at, byte) in noise {
                bytes[3 + usize::from(at) % 8189] = byte;
            }
            if let Ok(page) = Page::new(&bytes, pgno, 8192) {
                let _ = page.find_rowid(5);
                let _ = page.find_rowid_near(5, 7);
            }
        }
    }
}

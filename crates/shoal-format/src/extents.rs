//! Where the cells of a page are, many at a time: the ground of packing, splitting and checking.

use crate::cell::{INDEX_LOCAL_MIN, MAX_LOCAL_LESS, TOP_BITS, word_at};
use crate::{Corrupt, Page, PageKind};

/// A cell's place on its page, within the first 65,536 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellExtent {
    /// Offset of the first byte.
    pub offset: u32,
    /// Bytes of the cell, padding left out.
    pub size: u32,
}

impl Page<'_> {
    /// Finds the places of cells `from`, `from + 1` ... and puts them into `out`, as many as `out`
    /// has room for or the page has; gives their number. None begins before the end of the
    /// pointers, and none passes the page.
    ///
    /// # Errors
    /// [`Corrupt`] when a cell is broken.
    pub fn cell_extents(&self, from: usize, out: &mut [CellExtent]) -> Result<usize, Corrupt> {
        match self.kind() {
            PageKind::TableLeaf => self.extents_by(from, out, row_size),
            PageKind::IndexLeaf => self.extents_by(from, out, entry_size),
            PageKind::IndexInterior => {
                self.extents_by(from, out, |bytes, at| under_child(bytes, at, entry_size))
            }
            PageKind::TableInterior => {
                self.extents_by(from, out, |bytes, at| under_child(bytes, at, separator_rowid_size))
            }
        }
    }

    /// As [`Page::cell_extents`]. `quick` gives the sizes of common cells, without a look at their
    /// ends.
    #[inline(always)]
    fn extents_by(
        &self,
        from: usize,
        out: &mut [CellExtent],
        quick: impl Fn(&[u8], usize) -> Option<usize>,
    ) -> Result<usize, Corrupt> {
        let (first, pointers) = self.pointers();
        let pointers = pointers.get(from..).unwrap_or_default();
        let bytes = self.bytes();
        for ((index, pointer), extent) in (from..).zip(pointers).zip(&mut *out) {
            let at = usize::from(u16::from_be_bytes(*pointer));
            let size = quick(bytes, at).filter(|size| at >= first && at + size <= bytes.len());
            let (offset, size) = match size {
                Some(size) => (at, size),
                None => self.cell_extent(index)?,
            };
            *extent = CellExtent { offset: offset as u32, size: size as u32 };
        }
        Ok(pointers.len().min(out.len()))
    }
}

/// The size of a table leaf's cell with all its payload and a head of at most eight bytes, unless
/// the page ends right behind them.
#[inline(always)]
fn row_size(bytes: &[u8], at: usize) -> Option<usize> {
    let word = word_at(bytes, at)?;
    // One more byte of payload length for a set top bit.
    let two = (word >> 63) as usize;
    let rest = word << (8 * two);
    let high = (word >> 56 & 0x7f) << 7;
    let payload_len = (rest >> 56) as usize | (high as usize * two);
    let rowid_ends = !(rest << 8) & TOP_BITS;
    let rowid_len = rowid_ends.leading_zeros() as usize / 8 + 1;
    let is_quick = rest >> 63 == 0
        && rowid_len + two < 8
        && payload_len + MAX_LOCAL_LESS as usize <= bytes.len();
    is_quick.then_some(1 + two + rowid_len + payload_len)
}

/// The size of an interior page's cell: `rest` behind a child. `cell_extent` names the fault of a
/// cell without one.
#[inline(always)]
fn under_child(
    bytes: &[u8],
    at: usize,
    rest: impl Fn(&[u8], usize) -> Option<usize>,
) -> Option<usize> {
    let has_child = *bytes.get(at..at + 4)? != [0; 4];
    has_child.then_some(4 + rest(bytes, at + 4)?)
}

/// The size of a separator's rowid of at most eight bytes, unless the page ends right behind the
/// rowid.
#[inline(always)]
fn separator_rowid_size(bytes: &[u8], at: usize) -> Option<usize> {
    let ends = !word_at(bytes, at)? & TOP_BITS;
    (ends != 0).then_some(ends.leading_zeros() as usize / 8 + 1)
}

/// The size of an index leaf's cell with a payload so short that no page continues it elsewhere.
#[inline(always)]
fn entry_size(bytes: &[u8], at: usize) -> Option<usize> {
    let len = usize::from(*bytes.get(at)?);
    (len <= INDEX_LOCAL_MIN).then_some(1 + len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cell::push_leaf_head;
    use crate::{PageEdit, Pgno};

    /// Places found at once are the places found one by one.
    fn check(page: &Page<'_>) {
        let each: Vec<_> = (0..page.cell_count()).map(|index| page.cell_extent(index)).collect();
        let mut out = vec![CellExtent::default(); each.len() + 3];
        match page.cell_extents(0, &mut out) {
            Ok(count) => {
                assert_eq!(count, each.len());
                for (extent, one) in out.iter().zip(&each) {
                    let found = (extent.offset as usize, extent.size as usize);
                    assert_eq!(Ok(found), *one);
                }
            }
            Err(fault) => assert!(each.contains(&Err(fault))),
        }
        let mut few = [CellExtent::default(); 2];
        if let Ok(count) = page.cell_extents(1, &mut few) {
            assert_eq!(count, each.len().saturating_sub(1).min(2));
        }
    }

    /// A cell of an interior page whose child is page 0 is a fault, as by `cell_extent`.
    #[test]
    fn a_cell_without_a_child_is_a_fault() {
        for (kind, cell) in [
            (PageKind::TableInterior, [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0].as_slice()),
            (PageKind::IndexInterior, [0, 0, 0, 0, 2, 2, 8, 0, 0, 0, 0, 0].as_slice()),
        ] {
            let pgno = Pgno::new(2).unwrap();
            let mut bytes = vec![0; 4096];
            let mut edit = PageEdit::create(&mut bytes, pgno, 4096, kind, Some(pgno));
            edit.insert(0, cell, &mut Vec::new()).unwrap();
            let page = edit.page();
            assert!(page.cell_extent(0).is_err(), "{kind:?}");
            assert!(page.cell_extents(0, &mut [CellExtent::default()]).is_err(), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn extents_are_those_of_single_cells(
            cells in prop::collection::vec((0_usize..260, 0_u32..64, any::<i64>()), 0..60),
            kind in 0_usize..4,
            noise in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4),
        ) {
            let kinds = [
                PageKind::TableLeaf,
                PageKind::IndexLeaf,
                PageKind::IndexInterior,
                PageKind::TableInterior,
            ];
            let kind = kinds[kind];
            let pgno = Pgno::new(2).unwrap();
            let mut bytes = vec![0; 4096];
            let mut edit = PageEdit::create(&mut bytes, pgno, 4096, kind, Some(pgno));
            for (len, shift, rowid) in cells {
                let mut cell = Vec::new();
                if !kind.is_leaf() {
                    cell.extend_from_slice(&[0, 0, 0, 9]);
                }
                match kind {
                    PageKind::TableInterior => {
                        crate::varint::push(rowid.cast_unsigned() >> shift, &mut cell);
                    }
                    _ => {
                        let rowid = (kind == PageKind::TableLeaf).then_some(rowid >> shift);
                        push_leaf_head(len, rowid, &mut cell);
                        cell.resize(cell.len() + len, 7);
                    }
                }
                let count = edit.page().cell_count();
                edit.insert(count / 2, &cell, &mut Vec::new()).unwrap();
            }
            check(&edit.page());
            for (at, byte) in noise {
                let place = 3 + usize::from(at) % 4093;
                bytes[place] = byte;
                if let Ok(page) = Page::new(&bytes, pgno, 4096) {
                    check(&page);
                }
            }
        }
    }
}

//! Leaves of two files compared as bytes: a walk over both skips rows neither side changed.

use shoal_format::{Page, Payload};

use super::{IndexCursor, TableCursor};
use crate::{Error, Transaction};

impl TableCursor<'_> {
    /// Moves both cursors behind their leaves, provided both stand on the first row of leaves with
    /// equal bytes and equal overflow pages; false leaves both cursors in place. Page numbers may
    /// differ.
    ///
    /// Cost: a comparison of two pages, and of payloads continued on overflow pages.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn skip_equal_leaf(&mut self, other: &mut TableCursor<'_>) -> Result<bool, Error> {
        let (Some((a, 0)), Some((b, 0))) = (self.leaf(), other.leaf()) else { return Ok(false) };
        let transactions = [self.transaction(), other.transaction()];
        if !have_equal_bytes(transactions, [&a, &b]) {
            return Ok(false);
        }
        for index in 0..a.cell_count() {
            let payloads = [a.table_leaf(index)?.payload, b.table_leaf(index)?.payload];
            if !continue_equally(transactions, payloads)? {
                return Ok(false);
            }
        }
        self.next_leaf()?;
        other.next_leaf()?;
        Ok(true)
    }
}

impl IndexCursor<'_> {
    /// As [`TableCursor::skip_equal_leaf`], of entries: both cursors then stand on the entries
    /// behind their leaves, on pages above.
    ///
    /// # Errors
    /// When a page cannot be read or is corrupt.
    pub fn skip_equal_leaf(&mut self, other: &mut IndexCursor<'_>) -> Result<bool, Error> {
        let (Some((a, 0)), Some((b, 0))) = (self.leaf(), other.leaf()) else { return Ok(false) };
        let transactions = [self.transaction(), other.transaction()];
        if !have_equal_bytes(transactions, [&a, &b]) {
            return Ok(false);
        }
        for index in 0..a.cell_count() {
            let payloads = [a.index(index)?.payload, b.index(index)?.payload];
            if !continue_equally(transactions, payloads)? {
                return Ok(false);
            }
        }
        let last = a.cell_count().saturating_sub(1);
        self.move_on_leaf(last);
        other.move_on_leaf(last);
        self.next()?;
        other.next()?;
        Ok(true)
    }
}

/// True for pages of one encoding and length with equal bytes, reserved ones left out.
fn have_equal_bytes([a, b]: [&Transaction; 2], pages: [&Page<'_>; 2]) -> bool {
    if a.usable() != b.usable() || a.utf16() != b.utf16() {
        return false;
    }
    let [left, right] = pages.map(|page| page.bytes().get(..a.usable()));
    left == right
}

/// True where the overflow pages of two payloads, equal on their leaves, are equal too.
fn continue_equally(
    transactions: [&Transaction; 2],
    [a, b]: [Payload<'_>; 2],
) -> Result<bool, Error> {
    if a.overflow.is_none() {
        return Ok(true);
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    transactions[0].read_payload(a, &mut left)?;
    transactions[1].read_payload(b, &mut right)?;
    Ok(left == right)
}

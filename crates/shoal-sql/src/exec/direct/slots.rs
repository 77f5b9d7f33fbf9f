//! Rows found and not given yet: of each value the value itself, or where its bytes are.

use std::ops::Range;

use shoal_store::{Page, Pgno, Stored, Transaction};

use super::plan::Operand;
use super::run::{field_value, parameter};
use crate::value::{Value, ValueRef};

/// One value of a row, without a borrow.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    Null,
    Int(i64),
    Real(f64),
    /// On a page, which was read when the row was found and stays as long as the transaction.
    Text(OnPage),
    Blob(OnPage),
    /// Among [`Slots::far`].
    FarText(u32),
    FarBlob(u32),
    /// As its operand says: a constant, a parameter, a default.
    Operand,
}

/// Bytes of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnPage {
    page: Pgno,
    start: u16,
    len: u16,
}

/// Where a payload is, from which values are taken.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base<'p> {
    /// On a page, from this place on.
    Page(Pgno, u32),
    /// In a buffer that the next row overwrites.
    Buffer(&'p [u8]),
}

impl<'p> Base<'p> {
    /// Of a payload that is part of a page.
    #[inline]
    pub(super) fn of(page: &Page<'_>, payload: &[u8]) -> Base<'p> {
        // A page has fewer bytes than that.
        Base::Page(page.pgno(), page.offset_of(payload) as u32)
    }
}

/// Slots of rows, one behind the other, and the bytes that are on no page.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) slots: Vec<Slot>,
    far: Vec<Range<usize>>,
    bytes: Vec<u8>,
}

impl Slots {
    /// Forgets all and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.far.clear();
        self.bytes.clear();
    }

    /// Bytes kept beside the pages.
    #[inline]
    pub(super) fn far_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends an integer.
    #[inline(always)]
    pub(super) fn push_int(&mut self, int: i64) {
        self.slots.push(Slot::Int(int));
    }

    /// Appends a column of a record.
    #[inline(always)]
    pub(super) fn push(&mut self, stored: Stored, real: bool, base: Base<'_>) {
        let slot = match stored {
            Stored::Int(int) if real => Slot::Real(int as f64),
            Stored::Int(int) => Slot::Int(int),
            Stored::Null => Slot::Null,
            Stored::Real(real) => Slot::Real(real),
            Stored::Missing => Slot::Operand,
            Stored::Text { start, len } => match base {
                Base::Page(page, from) => Slot::Text(on_page(page, from, start, len)),
                Base::Buffer(bytes) => Slot::FarText(self.keep(part(bytes, start, len))),
            },
            Stored::Blob { start, len } => match base {
                Base::Page(page, from) => Slot::Blob(on_page(page, from, start, len)),
                Base::Buffer(bytes) => Slot::FarBlob(self.keep(part(bytes, start, len))),
            },
        };
        self.slots.push(slot);
    }

    /// Appends a value that is on no page, or not known to be.
    pub(super) fn push_value(&mut self, value: ValueRef<'_>) {
        let slot = match value {
            ValueRef::Null => Slot::Null,
            ValueRef::Int(int) => Slot::Int(int),
            ValueRef::Real(real) => Slot::Real(real),
            ValueRef::Text(text) => Slot::FarText(self.keep(text)),
            ValueRef::Blob(blob) => Slot::FarBlob(self.keep(blob)),
        };
        self.slots.push(slot);
    }

    /// Puts values in place of what operands say among the last `width` slots.
    #[inline]
    pub(super) fn settle<'v>(&mut self, width: usize, operand: impl Fn(usize) -> ValueRef<'v>) {
        let first = self.slots.len() - width;
        for place in 0..width {
            if matches!(self.slots[first + place], Slot::Operand) {
                self.push_value(operand(place));
                self.slots.swap_remove(first + place);
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> u32 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.far.push(start..self.bytes.len());
        // Four billion values do not fit into memory.
        (self.far.len() - 1) as u32
    }

    /// The value of a slot; what its operand says is said by `operand`.
    #[inline]
    pub(super) fn value<'v>(
        &'v self,
        slot: Slot,
        txn: &'v Transaction,
        operand: impl FnOnce() -> ValueRef<'v>,
    ) -> ValueRef<'v> {
        match slot {
            Slot::Int(int) => ValueRef::Int(int),
            Slot::Real(real) => ValueRef::Real(real),
            Slot::Text(place) => ValueRef::Text(bytes(txn, place)),
            Slot::Null => ValueRef::Null,
            Slot::Blob(place) => ValueRef::Blob(bytes(txn, place)),
            Slot::FarText(number) => ValueRef::Text(self.far(number)),
            Slot::FarBlob(number) => ValueRef::Blob(self.far(number)),
            Slot::Operand => operand(),
        }
    }

    fn far(&self, number: u32) -> &[u8] {
        let range = self.far.get(number as usize).cloned();
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}

#[inline]
fn on_page(page: Pgno, from: u32, start: u32, len: u32) -> OnPage {
    // A page has at most 65,536 bytes; only an empty part can begin behind the last one, and then
    // it does not matter where.
    OnPage { page, start: (from + start) as u16, len: len as u16 }
}

fn part(bytes: &[u8], start: u32, len: u32) -> &[u8] {
    let start = start as usize;
    bytes.get(start..start.wrapping_add(len as usize)).unwrap_or_default()
}

#[inline]
fn bytes(txn: &Transaction, place: OnPage) -> &[u8] {
    let range = usize::from(place.start)..usize::from(place.start) + usize::from(place.len);
    txn.page_bytes(place.page).and_then(|bytes| bytes.get(range)).unwrap_or_default()
}

/// The value of an operand that no row takes part in, or that a record ends before.
#[inline]
pub(super) fn fixed<'v>(operand: &'v Operand, parameters: &'v [Value]) -> ValueRef<'v> {
    match operand {
        Operand::Field { real, missing, .. } => field_value(None, *real, missing),
        Operand::Rowid { .. } => ValueRef::Null,
        Operand::Constant(value) => value.as_ref(),
        Operand::Parameter(number) => parameter(parameters, *number),
    }
}

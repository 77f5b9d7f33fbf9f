//! Rows found and not given yet: of each value the value itself, or where its bytes are.

use std::ops::Range;

use shoal_store::{ColumnPlace, Pgno, Stored, Transaction};

use super::run::{field_value, parameter};
use crate::plan::pipeline::Operand;
use crate::value::{Value, ValueRef};

/// One value of a row, without a borrow.
///
/// Two words, written and read whole: an enum with parts of several sizes is copied in pieces a
/// processor cannot forward from a store to the next load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    kind: Kind,
    word: u64,
}

/// The meaning of a slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    /// The number.
    Int,
    /// The bits of the real.
    Real,
    /// The place on a page, read when the row was found and staying as long as the transaction: the
    /// page's number, the offset, and the number of bytes.
    Text,
    Blob,
    /// The number among [`Slots::far`].
    CopiedText,
    CopiedBlob,
    /// Unused: the value is the operand's: a constant, a parameter, a default.
    Operand,
}

impl Slot {
    const NULL: Slot = Slot { kind: Kind::Null, word: 0 };
    const OPERAND: Slot = Slot { kind: Kind::Operand, word: 0 };

    #[inline(always)]
    fn int(int: i64) -> Slot {
        Slot { kind: Kind::Int, word: int.cast_unsigned() }
    }

    #[inline(always)]
    fn real(real: f64) -> Slot {
        Slot { kind: Kind::Real, word: real.to_bits() }
    }

    #[inline(always)]
    fn on_page(kind: Kind, page: Pgno, start: u32, len: u32) -> Slot {
        // A page has at most 65,536 bytes; only an empty part can begin behind the last one, at a
        // place never read.
        let (start, len) = (u64::from(start as u16), u64::from(len as u16));
        Slot { kind, word: u64::from(page.get()) << 32 | start << 16 | len }
    }
}

/// The place of a payload with values to keep.
#[derive(Clone, Copy, Debug)]
pub(super) enum Base {
    /// On a page, counted from the page's first byte.
    Page(Pgno),
    /// In a buffer overwritten by the next row.
    Buffer,
}

/// Slots of rows, one behind the other, and the bytes on no page.
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
    pub(super) fn overflow_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends an integer.
    #[inline(always)]
    pub(super) fn push_int(&mut self, int: i64) {
        self.slots.push(Slot::int(int));
    }

    /// Appends a column of a record located in `bytes`, at `base`.
    #[inline(always)]
    pub(super) fn push(&mut self, place: ColumnPlace, bytes: &[u8], real: bool, base: Base) {
        let slot = if let Some(int) = place.int(bytes) {
            if real { Slot::real(int as f64) } else { Slot::int(int) }
        } else {
            match place.locate(bytes) {
                Stored::Int(int) => Slot::int(int),
                Stored::Null => Slot::NULL,
                Stored::Real(real) => Slot::real(real),
                Stored::Missing => Slot::OPERAND,
                Stored::Text { start, len } => match base {
                    Base::Page(page) => Slot::on_page(Kind::Text, page, start, len),
                    Base::Buffer => self.keep(Kind::CopiedText, part(bytes, start, len)),
                },
                Stored::Blob { start, len } => match base {
                    Base::Page(page) => Slot::on_page(Kind::Blob, page, start, len),
                    Base::Buffer => self.keep(Kind::CopiedBlob, part(bytes, start, len)),
                },
            }
        };
        self.slots.push(slot);
    }

    /// Appends a value on no page, or on none known.
    pub(super) fn push_value(&mut self, value: ValueRef<'_>) {
        let slot = match value {
            ValueRef::Null => Slot::NULL,
            ValueRef::Int(int) => Slot::int(int),
            ValueRef::Real(real) => Slot::real(real),
            ValueRef::Text(text) => self.keep(Kind::CopiedText, text),
            ValueRef::Blob(blob) => self.keep(Kind::CopiedBlob, blob),
        };
        self.slots.push(slot);
    }

    /// Replaces operands among the last `width` slots by their values.
    #[inline]
    pub(super) fn settle<'v>(&mut self, width: usize, operand: impl Fn(usize) -> ValueRef<'v>) {
        let first = self.slots.len() - width;
        for place in 0..width {
            if self.slots[first + place].kind == Kind::Operand {
                self.push_value(operand(place));
                self.slots.swap_remove(first + place);
            }
        }
    }

    fn keep(&mut self, kind: Kind, bytes: &[u8]) -> Slot {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.far.push(start..self.bytes.len());
        Slot { kind, word: (self.far.len() - 1) as u64 }
    }

    /// The value of a slot; `operand` gives the value of an operand's slot.
    #[inline]
    pub(super) fn value<'v>(
        &'v self,
        slot: Slot,
        txn: &'v Transaction,
        operand: impl FnOnce() -> ValueRef<'v>,
    ) -> ValueRef<'v> {
        match slot.kind {
            Kind::Int => ValueRef::Int(slot.word.cast_signed()),
            Kind::Real => ValueRef::Real(f64::from_bits(slot.word)),
            Kind::Text => ValueRef::Text(bytes_on_page(txn, slot.word)),
            Kind::Null => ValueRef::Null,
            Kind::Blob => ValueRef::Blob(bytes_on_page(txn, slot.word)),
            Kind::CopiedText => ValueRef::Text(self.far(slot.word)),
            Kind::CopiedBlob => ValueRef::Blob(self.far(slot.word)),
            Kind::Operand => operand(),
        }
    }

    fn far(&self, number: u64) -> &[u8] {
        let range = self.far.get(number as usize).cloned();
        range.and_then(|range| self.bytes.get(range)).unwrap_or_default()
    }
}

fn part(bytes: &[u8], start: u32, len: u32) -> &[u8] {
    let start = start as usize;
    bytes.get(start..start.wrapping_add(len as usize)).unwrap_or_default()
}

/// The bytes of a page at a slot's word.
#[inline]
fn bytes_on_page(txn: &Transaction, word: u64) -> &[u8] {
    let (start, len) = ((word >> 16) as u16, word as u16);
    let range = usize::from(start)..usize::from(start) + usize::from(len);
    let bytes = Pgno::new((word >> 32) as u32).and_then(|page| txn.page_bytes(page));
    bytes.and_then(|bytes| bytes.get(range)).unwrap_or_default()
}

/// The value of an operand without a row, or with a record ending before the operand.
#[inline]
pub(crate) fn fixed<'v>(operand: &'v Operand, parameters: &'v [Value]) -> ValueRef<'v> {
    match operand {
        Operand::Field { real, missing, .. } => field_value(None, *real, missing),
        Operand::Rowid { .. } => ValueRef::Null,
        Operand::Constant(value) => value.as_ref(),
        Operand::Parameter(number) => parameter(parameters, *number),
    }
}

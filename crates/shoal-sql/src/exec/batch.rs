//! Rows on their way to the caller.

use crate::value::{Value, ValueRef};

/// A batch ends at this many bytes: long values do not pile up.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// Rows of one width, their bytes in one buffer reused from batch to batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    width: usize,
    rows: usize,
    slots: Vec<Slot>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Null,
    Int(i64),
    Real(f64),
    Text { start: usize, end: usize },
    Blob { start: usize, end: usize },
}

impl Batch {
    /// An empty batch of rows of so many values.
    pub(crate) fn new(width: usize) -> Batch {
        Batch { width, ..Batch::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.rows = 0;
        self.slots.clear();
        self.bytes.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// True once the batch has enough bytes to end.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.bytes.len() > BATCH_BYTES_MAX
    }

    /// Appends a row of the batch's width.
    pub(crate) fn push(&mut self, row: &[Value]) {
        self.rows += 1;
        for value in row {
            self.push_value(value.as_ref());
        }
    }

    /// Begins a row, whose values follow one after the other.
    #[inline]
    pub(crate) fn begin_row(&mut self) {
        self.rows += 1;
    }

    /// Takes back the row begun last, where some of its values could not be computed.
    pub(crate) fn take_back_row(&mut self) {
        self.rows -= 1;
        self.slots.truncate(self.rows * self.width);
    }

    /// Appends a value to the row begun last.
    #[inline]
    pub(crate) fn push_value(&mut self, value: ValueRef<'_>) {
        let slot = match value {
            ValueRef::Null => Slot::Null,
            ValueRef::Int(int) => Slot::Int(int),
            ValueRef::Real(real) => Slot::Real(real),
            ValueRef::Text(text) => {
                let (start, end) = self.keep(text);
                Slot::Text { start, end }
            }
            ValueRef::Blob(blob) => {
                let (start, end) = self.keep(blob);
                Slot::Blob { start, end }
            }
        };
        self.slots.push(slot);
    }

    fn keep(&mut self, bytes: &[u8]) -> (usize, usize) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        (start, self.bytes.len())
    }

    /// The value at a place; NULL past the row's end.
    pub(crate) fn get(&self, row: usize, column: usize) -> ValueRef<'_> {
        if column >= self.width {
            return ValueRef::Null;
        }
        match self.slots.get(row * self.width + column) {
            None | Some(Slot::Null) => ValueRef::Null,
            Some(Slot::Int(int)) => ValueRef::Int(*int),
            Some(Slot::Real(real)) => ValueRef::Real(*real),
            Some(Slot::Text { start, end }) => ValueRef::Text(&self.bytes[*start..*end]),
            Some(Slot::Blob { start, end }) => ValueRef::Blob(&self.bytes[*start..*end]),
        }
    }
}

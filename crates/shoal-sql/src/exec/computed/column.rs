//! A column of a batch: the values of one register in many rows. Numbers of one class lie side by
//! side, with NULLs as bits; other values are cells with their bytes in one buffer. The buffers
//! serve batch after batch: allocations happen once.

use crate::Error;
use crate::value::{ValueRef, push_text};

/// The values, by the number of the row.
#[derive(Debug, Default)]
pub(in crate::exec) struct Column {
    kind: Kind,
    ints: Vec<i64>,
    reals: Vec<f64>,
    /// Bits of the NULLs among the numbers; the number at a NULL's place is arbitrary.
    nulls: RowBits,
    cells: Vec<Cell>,
    /// Texts and blobs of the cells.
    bytes: Vec<u8>,
}

/// A set of rows of the batch, a bit for each: the lowest is the first row.
pub(super) type RowBits = u128;

const _: () = assert!(RowBits::BITS as usize == super::ROWS_MAX);

/// The common class of all values but the NULLs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Ints,
    Reals,
    Cells,
}

/// A value of any class.
#[derive(Clone, Copy, Debug)]
struct Cell {
    class: Class,
    /// Length of a text or blob in bytes.
    len: u32,
    /// The integer, the bits of the real, or where the bytes begin.
    word: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Null,
    Int,
    Real,
    Text,
    Blob,
}

impl Cell {
    const NULL: Cell = Cell { class: Class::Null, len: 0, word: 0 };
}

/// Numbers of one class: one for each row, with the bits of NULLs, or one for every row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers<'c, T> {
    Many(&'c [T], RowBits),
    One(T),
}

impl<T: Copy> Numbers<'_, T> {
    /// The bits of the NULLs.
    pub(super) fn nulls(self) -> RowBits {
        match self {
            Numbers::Many(_, nulls) => nulls,
            Numbers::One(_) => 0,
        }
    }

    /// A row's number; arbitrary for NULL.
    #[inline(always)]
    pub(super) fn at(self, row: usize) -> T {
        match self {
            Numbers::Many(numbers, _) => numbers[row],
            Numbers::One(number) => number,
        }
    }
}

impl Column {
    /// Forgets the values and keeps the memory.
    pub(super) fn clear(&mut self) {
        (self.kind, self.nulls) = (Kind::Ints, 0);
        self.ints.clear();
        self.reals.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    pub(super) fn len(&self) -> usize {
        match self.kind {
            Kind::Ints => self.ints.len(),
            Kind::Reals => self.reals.len(),
            Kind::Cells => self.cells.len(),
        }
    }

    /// Appends a value.
    #[inline(always)]
    pub(in crate::exec) fn push(&mut self, value: ValueRef<'_>) {
        match (self.kind, value) {
            (Kind::Ints, ValueRef::Int(int)) => self.ints.push(int),
            (Kind::Reals, ValueRef::Real(real)) => self.reals.push(real),
            (Kind::Cells, value) => {
                let cell = self.cell(value);
                self.cells.push(cell);
            }
            _ => self.push_other(value),
        }
    }

    /// Appends a value of another class than the values before.
    #[inline(never)]
    fn push_other(&mut self, value: ValueRef<'_>) {
        let count = self.len();
        if self.nulls.count_ones() as usize == count {
            self.become_nulls(Kind::of(value), count);
        }
        match (self.kind, value) {
            (Kind::Ints, ValueRef::Int(int)) => self.ints.push(int),
            (Kind::Reals, ValueRef::Real(real)) => self.reals.push(real),
            (Kind::Ints, ValueRef::Null) => {
                self.nulls |= 1 << count;
                self.ints.push(1);
            }
            (Kind::Reals, ValueRef::Null) => {
                self.nulls |= 1 << count;
                self.reals.push(1.0);
            }
            (_, value) => {
                self.mix();
                let cell = self.cell(value);
                self.cells.push(cell);
            }
        }
    }

    /// Appends the texts of two values one after the other; NULL where one is.
    pub(super) fn push_joined(&mut self, left: ValueRef<'_>, right: ValueRef<'_>) {
        if left == ValueRef::Null || right == ValueRef::Null {
            return self.push(ValueRef::Null);
        }
        let start = self.bytes.len();
        push_text(left, &mut self.bytes);
        push_text(right, &mut self.bytes);
        self.push_text_from(start);
    }

    /// Appends the text whose bytes were put behind the others, from `start` on.
    #[inline]
    fn push_text_from(&mut self, start: usize) {
        self.mix();
        // No text has more than a billion bytes, nor have two together more than two.
        let len = (self.bytes.len() - start) as u32;
        self.cells.push(Cell { class: Class::Text, len, word: start as u64 });
    }

    /// Appends the text written by `write`, or NULL where `write` gives false.
    ///
    /// # Errors
    /// Errors of `write`; then nothing is appended.
    pub(super) fn push_written(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let start = self.bytes.len();
        if write(&mut self.bytes)? {
            self.push_text_from(start);
        } else {
            self.bytes.truncate(start);
            self.push(ValueRef::Null);
        }
        Ok(())
    }

    /// Makes this a column of `count` NULLs of a kind.
    fn become_nulls(&mut self, kind: Kind, count: usize) {
        self.clear();
        self.kind = kind;
        // All bits, or the lowest `count`.
        let nulls = RowBits::MAX.checked_shr((super::ROWS_MAX - count) as u32).unwrap_or_default();
        match kind {
            Kind::Ints => self.ints.resize(count, 1),
            Kind::Reals => self.reals.resize(count, 1.0),
            Kind::Cells => return self.cells.resize(count, Cell::NULL),
        }
        self.nulls = nulls;
    }

    /// Overwrites the values of `rows` among the first `count`. A row without a value so far is
    /// overwritten, too, or never read.
    pub(super) fn put(&mut self, rows: &[u8], count: usize, values: &Column) {
        let numbered = rows.iter().map(|&row| usize::from(row)).zip(0..values.len());
        if self.len() < count {
            if self.len() == 0 {
                (self.kind, self.nulls) = (values.kind, 0);
            }
            match self.kind {
                Kind::Ints => self.ints.resize(count, 1),
                Kind::Reals => self.reals.resize(count, 1.0),
                Kind::Cells => self.cells.resize(count, Cell::NULL),
            }
        }
        match (self.kind, values.kind) {
            (Kind::Ints, Kind::Ints) => {
                numbered.clone().for_each(|(row, number)| self.ints[row] = values.ints[number]);
            }
            (Kind::Reals, Kind::Reals) => {
                numbered.clone().for_each(|(row, number)| self.reals[row] = values.reals[number]);
            }
            _ => {
                self.mix();
                for (row, number) in numbered {
                    self.cells[row] = self.cell(values.value(number));
                }
                return;
            }
        }
        if self.nulls | values.nulls != 0 {
            for (row, number) in numbered {
                self.nulls &= !(1 << row);
                self.nulls |= (values.nulls >> number & 1) << row;
            }
        }
    }

    /// Makes cells of the values.
    #[inline]
    fn mix(&mut self) {
        if self.kind != Kind::Cells {
            self.become_cells();
        }
    }

    #[inline(never)]
    fn become_cells(&mut self) {
        let nulls = self.nulls;
        let cell = |row: usize, class: Class, word: u64| match nulls >> row & 1 {
            0 => Cell { class, len: 0, word },
            _ => Cell::NULL,
        };
        match self.kind {
            Kind::Ints => {
                self.cells.clear();
                let ints = self.ints.iter().enumerate();
                self.cells
                    .extend(ints.map(|(row, int)| cell(row, Class::Int, int.cast_unsigned())));
            }
            Kind::Reals => {
                self.cells.clear();
                let reals = self.reals.iter().enumerate();
                self.cells.extend(reals.map(|(row, real)| cell(row, Class::Real, real.to_bits())));
            }
            Kind::Cells => {}
        }
        (self.kind, self.nulls) = (Kind::Cells, 0);
    }

    #[inline]
    fn cell(&mut self, value: ValueRef<'_>) -> Cell {
        let (class, bytes) = match value {
            ValueRef::Null => return Cell::NULL,
            ValueRef::Int(int) => {
                return Cell { class: Class::Int, len: 0, word: int.cast_unsigned() };
            }
            ValueRef::Real(real) => {
                return Cell { class: Class::Real, len: 0, word: real.to_bits() };
            }
            ValueRef::Text(bytes) => (Class::Text, bytes),
            ValueRef::Blob(bytes) => (Class::Blob, bytes),
        };
        let word = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        // No value has more than a billion bytes.
        Cell { class, len: bytes.len() as u32, word }
    }

    /// A row's value; NULL behind the last.
    #[inline]
    pub(in crate::exec) fn value(&self, row: usize) -> ValueRef<'_> {
        if self.nulls != 0 && self.is_null(row) {
            return ValueRef::Null;
        }
        match self.kind {
            Kind::Ints => self.ints.get(row).map_or(ValueRef::Null, |&int| ValueRef::Int(int)),
            Kind::Reals => self.reals.get(row).map_or(ValueRef::Null, |&real| ValueRef::Real(real)),
            Kind::Cells => self.cells.get(row).map_or(ValueRef::Null, |&cell| self.value_of(cell)),
        }
    }

    #[inline]
    fn value_of(&self, cell: Cell) -> ValueRef<'_> {
        match cell.class {
            Class::Null => ValueRef::Null,
            Class::Int => ValueRef::Int(cell.word.cast_signed()),
            Class::Real => ValueRef::Real(f64::from_bits(cell.word)),
            Class::Text => ValueRef::Text(self.bytes_of(cell)),
            Class::Blob => ValueRef::Blob(self.bytes_of(cell)),
        }
    }

    #[inline]
    fn bytes_of(&self, cell: Cell) -> &[u8] {
        let start = cell.word as usize;
        self.bytes.get(start..start + cell.len as usize).unwrap_or_default()
    }

    /// True where a row is NULL.
    #[inline]
    fn is_null(&self, row: usize) -> bool {
        self.nulls.checked_shr(row as u32).unwrap_or_default() & 1 == 1
    }

    /// The values, if all are integers or NULL.
    #[inline]
    pub(super) fn ints(&self) -> Option<(&[i64], RowBits)> {
        (self.kind == Kind::Ints).then_some((&self.ints, self.nulls))
    }

    /// The values, if all are reals or NULL.
    #[inline]
    pub(super) fn reals(&self) -> Option<(&[f64], RowBits)> {
        (self.kind == Kind::Reals).then_some((&self.reals, self.nulls))
    }

    /// Makes this a column of integers, still without values, with these NULLs; gives the values to
    /// fill.
    pub(super) fn new_ints(&mut self, nulls: RowBits) -> &mut Vec<i64> {
        self.clear();
        self.nulls = nulls;
        &mut self.ints
    }

    /// As [`Column::new_ints`] for reals.
    pub(super) fn new_reals(&mut self, nulls: RowBits) -> &mut Vec<f64> {
        self.clear();
        (self.kind, self.nulls) = (Kind::Reals, nulls);
        &mut self.reals
    }

    /// The integers, for appending while every value is an integer; `None` for other kinds.
    pub(in crate::exec) fn ints_to_fill(&mut self) -> Option<&mut Vec<i64>> {
        (self.kind == Kind::Ints).then_some(&mut self.ints)
    }

    /// As [`Column::ints_to_fill`] for reals.
    pub(in crate::exec) fn reals_to_fill(&mut self) -> Option<&mut Vec<f64>> {
        (self.kind == Kind::Reals).then_some(&mut self.reals)
    }

    /// Keeps the values of these rows alone, given in ascending order.
    pub(super) fn retain(&mut self, rows: &[u8]) {
        match self.kind {
            Kind::Ints => retain(&mut self.ints, rows),
            Kind::Reals => retain(&mut self.reals, rows),
            Kind::Cells => retain(&mut self.cells, rows),
        }
        if self.nulls != 0 {
            let nulls = std::mem::take(&mut self.nulls);
            for (to, &from) in rows.iter().enumerate() {
                self.nulls |= (nulls >> from & 1) << to;
            }
        }
    }
}

impl Kind {
    fn of(value: ValueRef<'_>) -> Kind {
        match value {
            ValueRef::Int(_) | ValueRef::Null => Kind::Ints,
            ValueRef::Real(_) => Kind::Reals,
            ValueRef::Text(_) | ValueRef::Blob(_) => Kind::Cells,
        }
    }
}

fn retain<T: Copy>(values: &mut Vec<T>, rows: &[u8]) {
    for (to, &from) in rows.iter().enumerate() {
        values[to] = values[usize::from(from)];
    }
    values.truncate(rows.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueRef::{Blob, Int, Null, Real, Text};

    const MIXED: [ValueRef<'static>; 6] =
        [Int(3), Real(0.5), Null, Text(b"text"), Blob(b""), Int(-1)];

    #[test]
    fn values_come_back_whatever_they_begin_with() {
        for first in MIXED {
            let mut column = Column::default();
            let values: Vec<_> = std::iter::once(first).chain(MIXED).collect();
            for &value in &values {
                column.push(value);
            }
            for (row, &value) in values.iter().enumerate() {
                assert_eq!(column.value(row), value);
            }
            column.retain(&[0, 2, 4]);
            assert_eq!(column.len(), 3);
            assert_eq!([column.value(0), column.value(1)], [values[0], values[2]]);
            assert_eq!(column.value(2), values[4]);
            assert_eq!(column.value(3), Null);
        }
    }

    #[test]
    fn values_are_put_in_any_order() {
        let column_of = |values: &[ValueRef<'_>]| {
            let mut column = Column::default();
            values.iter().for_each(|&value| column.push(value));
            column
        };
        for first in MIXED {
            for second in MIXED {
                let mut column = Column::default();
                column.put(&[2], 4, &column_of(&[first]));
                column.put(&[0, 1], 4, &column_of(&[second, first]));
                assert_eq!([column.value(0), column.value(1)], [second, first]);
                assert_eq!(column.value(2), first);
                column.put(&[0, 2], 4, &column_of(&[first, second]));
                assert_eq!([column.value(0), column.value(1)], [first, first]);
                assert_eq!(column.value(2), second);
            }
        }
    }

    #[test]
    fn numbers_of_one_class_lie_side_by_side() {
        let mut column = Column::default();
        column.push(Null);
        column.push(Int(2));
        column.push(Null);
        assert_eq!(column.ints(), Some((&[1, 2, 1][..], 0b101)));
        column.retain(&[1, 2]);
        assert_eq!(column.ints(), Some((&[2, 1][..], 0b10)));
        column.push(Real(0.5));
        assert_eq!((column.ints(), column.reals()), (None, None));
        assert_eq!([column.value(0), column.value(1), column.value(2)], [Int(2), Null, Real(0.5)]);
        column.clear();
        column.push(Null);
        column.push(Real(0.5));
        assert_eq!(column.reals(), Some((&[1.0, 0.5][..], 0b1)));
    }

    #[test]
    fn as_many_rows_as_there_may_be() {
        for value in MIXED {
            let mut column = Column::default();
            for _ in 1..super::super::ROWS_MAX {
                column.push(Null);
            }
            column.push(value);
            assert_eq!(column.value(super::super::ROWS_MAX - 2), Null);
            assert_eq!(column.value(super::super::ROWS_MAX - 1), value);
        }
    }
}

//! Rows of one table as located by its scan: the places of their columns, decoded on demand.

use shoal_store::{ColumnPlace, LeafCell, Page, Pgno};

use super::run::{field_value, parameter};
use super::slots::{Base, Slots, fixed};
use crate::plan::pipeline::{Operand, OutputPlace};
use crate::value::{Value, ValueRef};

/// A row of a table whose columns were found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRow<'r> {
    rowid: i64,
    /// The row's page, or the overflow bytes for a row on several pages.
    bytes: &'r [u8],
    /// `None` for a row on several pages.
    page: Option<Pgno>,
    /// A slice beginning with the row's wanted fields, in the order of their places.
    fields: &'r [ColumnPlace],
    parameters: &'r [Value],
}

impl<'r> LeafRow<'r> {
    /// A row on a page, or elsewhere, with the places of its wanted fields.
    pub(super) fn new(
        rowid: i64,
        (page, bytes): (Option<Pgno>, &'r [u8]),
        fields: &'r [ColumnPlace],
        parameters: &'r [Value],
    ) -> LeafRow<'r> {
        LeafRow { rowid, bytes, page, fields, parameters }
    }

    /// The row's value of an operand.
    #[inline(always)]
    pub(crate) fn value(self, operand: &'r Operand) -> ValueRef<'r> {
        match operand {
            Operand::Field { field, real, missing, .. } => {
                field_value(self.fields[*field].decode(self.bytes), *real, missing)
            }
            Operand::Rowid { .. } => ValueRef::Int(self.rowid),
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(self.parameters, *number),
        }
    }

    /// Appends the row's values of operands.
    #[inline(always)]
    pub(super) fn note(self, outputs: &[Operand], slots: &mut Slots) {
        let base = match self.page {
            Some(page) => Base::Page(page),
            None => Base::Buffer,
        };
        for operand in outputs {
            match operand {
                Operand::Field { field, real, .. } => {
                    slots.push(self.fields[*field], self.bytes, *real, base);
                }
                Operand::Rowid { .. } => slots.push_int(self.rowid),
                fixed_operand => slots.push_value(fixed(fixed_operand, self.parameters)),
            }
        }
    }
}

/// Rows of one leaf found together, with the selection vector.
#[derive(Clone, Copy)]
pub(crate) struct LeafRows<'r> {
    pub(super) page: Page<'r>,
    pub(super) far: &'r [u8],
    pub(super) cells: &'r [LeafCell],
    pub(super) selected: &'r [u8],
    /// True where some continue on overflow pages.
    pub(super) has_overflow: bool,
    /// The wanted fields of every cell.
    pub(super) fields: &'r [ColumnPlace],
    /// Number of fields wanted of a row.
    pub(super) stride: usize,
    pub(super) parameters: &'r [Value],
}

impl<'r> LeafRows<'r> {
    /// The number of selected rows.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.selected.len()
    }

    /// A selected row, by number from 0.
    #[inline(always)]
    pub(crate) fn row(self, number: usize) -> LeafRow<'r> {
        self.found(self.at(number))
    }

    /// The value of an operand in a selected row, by number from 0.
    #[inline(always)]
    pub(crate) fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        self.value_at(self.at(number), operand)
    }

    /// The value of an operand in any found row, by the number of its cell.
    #[inline(always)]
    pub(super) fn value_at(self, row: usize, operand: &'r Operand) -> ValueRef<'r> {
        match operand {
            Operand::Field { field, real, missing, .. } => {
                let (place, bytes) = self.place(row, *field);
                field_value(place.decode(bytes), *real, missing)
            }
            Operand::Rowid { .. } => ValueRef::Int(self.cells[row].rowid),
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(self.parameters, *number),
        }
    }

    /// The number of the cell of a selected row.
    #[inline(always)]
    pub(super) fn at(self, number: usize) -> usize {
        usize::from(self.selected[number])
    }

    /// The selection vector: the numbers of the selected cells.
    #[inline]
    pub(crate) fn selected(self) -> &'r [u8] {
        self.selected
    }

    /// The place of a found row.
    #[inline(always)]
    pub(super) fn cell(self, at: usize) -> LeafCell {
        self.cells[at]
    }

    /// The page of the rows.
    #[inline]
    pub(super) fn pgno(self) -> Pgno {
        self.page.pgno()
    }

    /// The number of found rows.
    #[inline]
    pub(super) fn cells(self) -> usize {
        self.cells.len()
    }

    /// The stored form of a selected row's operand, by number from 0, for short fields: see
    /// [`ColumnPlace::short`].
    #[inline(always)]
    pub(crate) fn short(self, number: usize, operand: &Operand) -> Option<(u32, u64)> {
        let Operand::Field { field, .. } = operand else { return None };
        let (place, bytes) = self.place(usize::from(self.selected[number]), *field);
        place.short(bytes)
    }

    /// Calls `each` with the values of an operand in all selected rows, in their order.
    #[inline(always)]
    pub(crate) fn each_value(self, operand: &'r Operand, mut each: impl FnMut(ValueRef<'r>)) {
        let (Operand::Field { field, real, missing, .. }, Some((bytes, places, stride))) =
            (operand, self.on_page())
        else {
            (0..self.len()).for_each(|number| each(self.value(number, operand)));
            return;
        };
        let places = places.get(*field..).unwrap_or_default();
        for &row in self.selected {
            let place = places.get(usize::from(row) * stride).copied();
            let place = place.unwrap_or(ColumnPlace::MISSING);
            each(field_value(place.decode(bytes), *real, missing));
        }
    }

    /// Calls `each` with the stored form of an operand in the selected rows, from `from` on, until
    /// `each` is false; gives the number of the row the loop ended at. The loop ends at once for
    /// operands other than fields and for rows on several pages.
    #[inline(always)]
    pub(crate) fn each_place(
        self,
        operand: &Operand,
        from: usize,
        mut each: impl FnMut(ColumnPlace, &'r [u8]) -> bool,
    ) -> usize {
        let (Operand::Field { field, .. }, Some((bytes, places, stride))) =
            (operand, self.on_page())
        else {
            return from;
        };
        let places = places.get(*field..).unwrap_or_default();
        let mut each = |row: usize| places.get(row * stride).is_some_and(|&it| each(it, bytes));
        let count = self.len();
        let mut rows = from..count;
        // With every row selected, a row is its own number.
        let ended = if count == self.cells.len() {
            rows.find(|&row| !each(row))
        } else {
            rows.find(|&at| !each(usize::from(self.selected[at])))
        };
        ended.unwrap_or(count)
    }

    /// The place of a field in any found row, with the bytes the place is in.
    #[inline(always)]
    pub(super) fn place(self, row: usize, field: usize) -> (ColumnPlace, &'r [u8]) {
        (self.fields[row * self.stride + field], self.bytes(row))
    }

    #[inline(always)]
    fn bytes(self, row: usize) -> &'r [u8] {
        if self.cells[row].goes_on() { self.far } else { self.page.bytes() }
    }

    /// Any found row.
    #[inline(always)]
    pub(super) fn found(self, row: usize) -> LeafRow<'r> {
        let cell = &self.cells[row];
        LeafRow {
            rowid: cell.rowid,
            bytes: self.bytes(row),
            page: (!cell.goes_on()).then_some(self.page.pgno()),
            fields: &self.fields[row * self.stride..(row + 1) * self.stride],
            parameters: self.parameters,
        }
    }

    /// The places of the fields, for rows all on the page: the places of row `i` begin at `i *
    /// stride`; `None` where rows continue on overflow pages.
    #[inline(always)]
    pub(crate) fn on_page(self) -> Option<(&'r [u8], &'r [ColumnPlace], usize)> {
        (!self.has_overflow).then_some((self.page.bytes(), self.fields, self.stride))
    }

    #[inline]
    pub(super) fn parameters(self) -> &'r [Value] {
        self.parameters
    }
}

/// A row found and not yet given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowRef {
    pub(super) rowid: i64,
    /// The row's page; `None` for a row in [`LeafMemory::far`], or without bytes to read.
    pub(super) page: Option<Pgno>,
    /// Start of the row's fields in [`LeafMemory::fields`], for adding to a field's number without
    /// overflow.
    pub(super) fields: u32,
}

impl RowRef {
    /// Stands for a row of another table where there is none: all its columns are NULL.
    pub(super) const NONE: RowRef = RowRef { rowid: 0, page: None, fields: 1 << 31 };

    /// True for [`RowRef::NONE`].
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.fields == RowRef::NONE.fields
    }
}

/// A row to be given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LazyRow<'r> {
    pub(super) found: RowRef,
    pub(super) bytes: &'r [u8],
    /// Places of the whole batch.
    pub(super) fields: &'r [ColumnPlace],
}

impl<'r> LazyRow<'r> {
    /// The start of the row's fields.
    #[inline(always)]
    pub(crate) fn fields_from(&self) -> u32 {
        self.found.fields
    }

    /// Fast path for a rowid, or for an integer field on the row's own page.
    #[inline(always)]
    pub(crate) fn near_int(&self, given: OutputPlace) -> Option<i64> {
        if given.field >= OutputPlace::ROWID {
            let is_known = given.field == OutputPlace::ROWID && !self.found.is_none();
            return is_known.then_some(self.found.rowid);
        }
        let place = self.fields.get(self.found.fields.wrapping_add(given.field) as usize)?;
        if given.real { None } else { place.near_int(self.bytes) }
    }

    /// The value of an output; `None` leaves the value to the slow path: a constant, a column
    /// behind the record's end, or any column of an unmatched row.
    #[inline(always)]
    pub(crate) fn value(&self, given: OutputPlace) -> Option<ValueRef<'r>> {
        if given.field >= OutputPlace::ROWID {
            let known = given.field == OutputPlace::ROWID && !self.found.is_none();
            return known.then_some(ValueRef::Int(self.found.rowid));
        }
        let place = *self.fields.get(self.found.fields.wrapping_add(given.field) as usize)?;
        match place.decode(self.bytes) {
            Some(ValueRef::Int(int)) if given.real => Some(ValueRef::Real(int as f64)),
            value => value,
        }
    }
}

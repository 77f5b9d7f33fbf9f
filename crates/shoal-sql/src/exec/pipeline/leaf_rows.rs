//! Rows of one table as its scan found them: where their columns are, and what those are when somebody
//! asks.

use shoal_store::{ColumnPlace, LeafCell, Page, Pgno};

use super::run::{field_value, parameter};
use super::slots::{Base, Slots, fixed};
use crate::plan::node::{Operand, OutputPlace};
use crate::value::{Value, ValueRef};

/// A row of a table whose columns were found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafRow<'r> {
    rowid: i64,
    /// The page it is on, or what was read of those on several.
    bytes: &'r [u8],
    /// `None` for a row on several pages.
    page: Option<Pgno>,
    /// Those that begin with the wanted fields, which are in the order of their places.
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
            Some(page) => Base::Page(page, 0),
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

/// Rows of one leaf that were found together, and which of them are wanted.
#[derive(Clone, Copy)]
pub(crate) struct LeafRows<'r> {
    pub(super) page: Page<'r>,
    pub(super) far: &'r [u8],
    pub(super) cells: &'r [LeafCell],
    pub(super) selected: &'r [u8],
    /// Whether some go on on other pages.
    pub(super) has_overflow: bool,
    /// Of every cell the wanted fields.
    pub(super) fields: &'r [ColumnPlace],
    /// How many fields are wanted of a row.
    pub(super) stride: usize,
    pub(super) parameters: &'r [Value],
}

impl<'r> LeafRows<'r> {
    /// How many rows are wanted.
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.selected.len()
    }

    /// A row that is wanted, by number from 0.
    #[inline(always)]
    pub(crate) fn row(self, number: usize) -> LeafRow<'r> {
        self.found(self.at(number))
    }

    /// The value of an operand of a row that is wanted, by number from 0.
    #[inline(always)]
    pub(crate) fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        self.value_at(self.at(number), operand)
    }

    /// The same of any row that was found, by the number of its cell.
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

    /// The number of the cell of a row that is wanted.
    #[inline(always)]
    pub(super) fn at(self, number: usize) -> usize {
        usize::from(self.selected[number])
    }

    /// The numbers of the cells that are wanted.
    #[inline]
    pub(crate) fn selected(self) -> &'r [u8] {
        self.selected
    }

    /// Where a row that was found is.
    #[inline(always)]
    pub(super) fn cell(self, at: usize) -> LeafCell {
        self.cells[at]
    }

    /// The page that the rows are on.
    #[inline]
    pub(super) fn pgno(self) -> Pgno {
        self.page.pgno()
    }

    /// How many rows were found.
    #[inline]
    pub(super) fn cells(self) -> usize {
        self.cells.len()
    }

    /// What is stored for an operand of a row that is wanted, by number from 0, where that is a field of
    /// few bytes: see [`ColumnPlace::short`].
    #[inline(always)]
    pub(crate) fn short(self, number: usize, operand: &Operand) -> Option<(u32, u64)> {
        let Operand::Field { field, .. } = operand else { return None };
        let (place, bytes) = self.place(usize::from(self.selected[number]), *field);
        place.short(bytes)
    }

    /// Calls `each` with the values of an operand of all rows that are wanted, in their order.
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

    /// Calls `each` with what is stored for an operand of the rows that are wanted, from one of them on,
    /// until it is false; gives the number of the row of which it was. Of operands that are no fields
    /// and of rows on several pages nothing is told.
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
        // Where every row is wanted it is its own number.
        let ended = if count == self.cells.len() {
            rows.find(|&row| !each(row))
        } else {
            rows.find(|&at| !each(usize::from(self.selected[at])))
        };
        ended.unwrap_or(count)
    }

    /// Where a field of any row that was found is, and in which bytes.
    #[inline(always)]
    pub(super) fn place(self, row: usize, field: usize) -> (ColumnPlace, &'r [u8]) {
        (self.fields[row * self.stride + field], self.bytes(row))
    }

    #[inline(always)]
    fn bytes(self, row: usize) -> &'r [u8] {
        if self.cells[row].goes_on() { self.far } else { self.page.bytes() }
    }

    /// Any row that was found.
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

    /// Where a field of those rows is, by number: the places of row `i` begin at `i * stride`; `None`
    /// where rows go on on other pages.
    #[inline(always)]
    pub(crate) fn on_page(self) -> Option<(&'r [u8], &'r [ColumnPlace], usize)> {
        (!self.has_overflow).then_some((self.page.bytes(), self.fields, self.stride))
    }

    #[inline]
    pub(super) fn parameters(self) -> &'r [Value] {
        self.parameters
    }
}

/// A row that was found and is not given yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowRef {
    pub(super) rowid: i64,
    /// The page it is on; `None` for one whose bytes are in [`LeafMemory::far`], or are not asked for.
    pub(super) page: Option<Pgno>,
    /// Where its fields begin in [`LeafMemory::fields`]: to be added to a field's number without
    /// overflow.
    pub(super) fields: u32,
}

impl RowRef {
    /// Stands for a row of another table where there is none: all its columns are NULL.
    pub(super) const NONE: RowRef = RowRef { rowid: 0, page: None, fields: 1 << 31 };

    /// Whether there is none.
    #[inline(always)]
    pub(super) fn is_none(self) -> bool {
        self.fields == RowRef::NONE.fields
    }
}

/// A row that is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LazyRow<'r> {
    pub(super) found: RowRef,
    pub(super) bytes: &'r [u8],
    /// Of the whole batch.
    pub(super) fields: &'r [ColumnPlace],
}

impl<'r> LazyRow<'r> {
    /// Where its fields begin.
    #[inline(always)]
    pub(crate) fn fields_from(&self) -> u32 {
        self.found.fields
    }

    /// An output that is a rowid, or a field that is an integer of the row's own page.
    #[inline(always)]
    pub(crate) fn near_int(&self, given: OutputPlace) -> Option<i64> {
        if given.field >= OutputPlace::ROWID {
            let is_known = given.field == OutputPlace::ROWID && !self.found.is_none();
            return is_known.then_some(self.found.rowid);
        }
        let place = self.fields.get(self.found.fields.wrapping_add(given.field) as usize)?;
        if given.real { None } else { place.near_int(self.bytes) }
    }

    /// What an output is; `None` where the row does not tell: a constant, or a column that its record
    /// ends before, or any of a row that is none.
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

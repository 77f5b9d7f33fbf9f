//! Rows to be read into columns, and rows whose values are in columns.

use super::column::{Column, RowBits};
use super::{Columns, Readable};
use crate::exec::pipeline::{ManyRows, RowView, fixed};
use crate::plan::pipeline::Operand;
use crate::value::{Value, ValueRef};

/// Rows of a pipeline found together.
pub(in crate::exec) struct FoundRows<'r, R> {
    pub(in crate::exec) rows: R,
    pub(in crate::exec) outputs: &'r [Operand],
}

impl<'r, R: ManyRows<'r>> Readable for FoundRows<'r, R> {
    fn len(&self) -> usize {
        self.rows.len()
    }

    fn read(&self, output: usize, wanted: Option<&[u8]>, column: &mut Column) {
        let (rows, operand) = (self.rows, &self.outputs[output]);
        if let Some(wanted) = wanted {
            wanted.iter().for_each(|&row| column.push(rows.value(row.into(), operand)));
            return;
        }
        if rows.len() == 0 {
            return;
        }
        // Numbers by loops of their own, as long as they are of one class.
        if matches!(rows.value(0, operand), ValueRef::Text(_) | ValueRef::Blob(_)) {
            rows.each_value(operand, |value| column.push(value));
            return;
        }
        let mut at = 0;
        while at < rows.len() {
            column.push(rows.value(at, operand));
            at += 1;
            if let Some(ints) = column.ints_to_fill() {
                at = rows.each_int(operand, at, |int| {
                    ints.push(int);
                    true
                });
            } else if let Some(reals) = column.reals_to_fill() {
                at = rows.each_real(operand, at, |real| reals.push(real));
            }
        }
    }
}

/// Rows whose values were computed.
#[derive(Clone, Copy)]
pub(crate) struct ComputedRows<'r> {
    pub(in crate::exec) columns: &'r Columns,
    pub(in crate::exec) parameters: &'r [Value],
}

/// One of the batch's rows.
#[derive(Clone, Copy)]
pub(crate) struct ComputedRow<'r> {
    rows: ComputedRows<'r>,
    number: usize,
}

impl<'r> ComputedRow<'r> {
    /// The value of an operand, whose fields are columns.
    #[inline]
    pub(in crate::exec) fn value(self, operand: &'r Operand) -> ValueRef<'r> {
        self.rows.value(self.number, operand)
    }
}

impl<'r> ManyRows<'r> for ComputedRows<'r> {
    #[inline(always)]
    fn len(self) -> usize {
        self.columns.rows()
    }

    #[inline(always)]
    fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        match operand {
            Operand::Field { field, .. } => self.columns.value(*field, number),
            operand => fixed(operand, self.parameters),
        }
    }

    #[inline(always)]
    fn row<'a, 't>(self, number: usize) -> RowView<'r, 'a, 't> {
        RowView::Computed(ComputedRow { rows: self, number })
    }

    #[inline(always)]
    fn each_int(self, operand: &Operand, from: usize, mut each: impl FnMut(i64) -> bool) -> usize {
        let ints = self.columns.ints_of(operand, from).unwrap_or_default();
        from + ints.iter().position(|&int| !each(int)).unwrap_or(ints.len())
    }

    #[inline(always)]
    fn each_real(self, operand: &Operand, from: usize, each: impl FnMut(f64)) -> usize {
        let reals = self.columns.reals_of(operand, from).unwrap_or_default();
        reals.iter().copied().for_each(each);
        from + reals.len()
    }
}

impl Columns {
    /// The values of a column of integers, from a row on up to the next NULL; `None` for other
    /// operands.
    fn ints_of(&self, operand: &Operand, from: usize) -> Option<&[i64]> {
        let Operand::Field { field, .. } = operand else { return None };
        let (ints, nulls) = self.column(*field).ints()?;
        ints.get(from..self.rows_before(nulls, from))
    }

    /// As [`Columns::ints_of`] for reals.
    fn reals_of(&self, operand: &Operand, from: usize) -> Option<&[f64]> {
        let Operand::Field { field, .. } = operand else { return None };
        let (reals, nulls) = self.column(*field).reals()?;
        reals.get(from..self.rows_before(nulls, from))
    }

    /// The number of the first NULL from row `from` on, or the number of rows.
    fn rows_before(&self, nulls: RowBits, from: usize) -> usize {
        let nulls = nulls.checked_shr(from as u32).unwrap_or_default();
        (from + nulls.trailing_zeros() as usize).min(self.rows)
    }
}

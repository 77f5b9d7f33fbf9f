//! The rows of a query, collected before a statement writes.

use std::collections::VecDeque;

use crate::keep::{RowStore, RowValues};
use crate::value::{Value, ValueRef};

/// Rows of a part: its memory is free again once they are taken.
const PART_ROWS: usize = 256;

/// Rows in the order of arrival, packed: no allocation for a row or a value.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    parts: VecDeque<RowStore>,
    len: usize,
}

impl Collected {
    pub(crate) fn push<'v>(&mut self, row: impl Iterator<Item = ValueRef<'v>>) {
        let part = match self.parts.back_mut() {
            Some(part) if part.len() < PART_ROWS => part,
            _ => {
                self.parts.push_back(RowStore::default());
                let last = self.parts.len() - 1;
                &mut self.parts[last]
            }
        };
        part.push(row);
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The values of the row of a number below [`Collected::len`].
    pub(crate) fn row(&self, number: usize) -> RowValues<'_> {
        self.parts[number / PART_ROWS].row(number % PART_ROWS)
    }

    /// Gives one row after the other; the memory of given rows is free again.
    ///
    /// # Errors
    /// The first error of `each`.
    pub(crate) fn take_each<E>(
        mut self,
        mut each: impl FnMut(RowValues<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(part) = self.parts.pop_front() {
            for place in 0..part.len() {
                each(part.row(place))?;
            }
        }
        Ok(())
    }

    /// The rows with an allocation each.
    pub(crate) fn into_rows(self) -> Vec<Vec<Value>> {
        let mut rows = Vec::with_capacity(self.len);
        let taken: Result<(), std::convert::Infallible> = self.take_each(|row| {
            rows.push(row.map(Value::from).collect());
            Ok(())
        });
        match taken {
            Ok(()) => rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order() {
        let mut rows = Collected::default();
        let value = |number: usize| Value::Text(vec![b'x'; number % 9]);
        for number in 0..3 * PART_ROWS + 1 {
            let text = value(number);
            rows.push([ValueRef::Int(number as i64), text.as_ref()].into_iter());
        }
        assert_eq!(rows.len(), 3 * PART_ROWS + 1);
        let row = rows.row(PART_ROWS).map(Value::from).collect::<Vec<_>>();
        assert_eq!(row, [Value::Int(PART_ROWS as i64), value(PART_ROWS)]);
        let all = rows.into_rows();
        assert!((0..).zip(&all).all(|(number, row)| row[0] == Value::Int(number)));
        assert_eq!(all[3 * PART_ROWS][1], value(3 * PART_ROWS));
    }
}

//! Rows of one leaf into a sorter.

use super::pipeline::{CHUNK, LeafRows};
use crate::Error;
use crate::keep::SortPlan;
use crate::keep::sort::{Sorter, Values, prefix, prefix_of};
use crate::plan::pipeline::Operand;
use crate::session::Session;
use crate::value::ValueRef;

impl Sorter {
    /// Top-N over a leaf: chooses the rows still possible among the first ones, by their first key.
    /// Puts their numbers on the leaf in front of `chosen`; gives their count.
    pub(super) fn choose(
        &self,
        (values, sort): (Values, &SortPlan),
        (rows, outputs): (LeafRows<'_>, &[Operand]),
        chosen: &mut [u8; CHUNK],
    ) -> usize {
        let selected = rows.selected();
        let first = sort.keys.first();
        let first = first.and_then(|key| Some((*key, outputs.get(key.reg - values.first)?)));
        let (Some(last), Some((key, operand))) = (self.last_prefix(), first) else {
            chosen[..selected.len()].copy_from_slice(selected);
            return selected.len();
        };
        let mut count = 0;
        if let (Some((bytes, places, stride)), Operand::Field { field, .. }) =
            (rows.on_page(), operand)
        {
            for (number, &row) in selected.iter().enumerate() {
                let place = places.get(usize::from(row) * stride + field);
                // Floats have a path of their own here; other values go through the general one.
                let prefix = match place.and_then(|place| place.real(bytes)) {
                    Some(real) => prefix(ValueRef::Real(real), key),
                    None => prefix_of(rows.value(number, operand), key),
                };
                chosen[count] = row;
                count += usize::from(prefix <= last);
            }
            return count;
        }
        for (number, &row) in selected.iter().enumerate() {
            chosen[count] = row;
            count += usize::from(prefix_of(rows.value(number, operand), key) <= last);
        }
        count
    }

    /// Takes rows of one leaf, as [`Sorter::push`] takes one: their outputs are these.
    ///
    /// # Errors
    /// As [`Sorter::push`].
    pub(super) fn push_leaf(
        &mut self,
        session: &dyn Session,
        by: (Values, &SortPlan),
        (rows, outputs): (LeafRows<'_>, &[Operand]),
        bound: Option<usize>,
    ) -> Result<(), Error> {
        for number in 0..rows.len() {
            let row = rows.row(number);
            self.push(session, by, |output| row.value(&outputs[output]), bound)?;
        }
        Ok(())
    }
}

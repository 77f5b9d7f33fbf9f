//! `DISTINCT`: each row once.

use super::Machine;
use super::overflow::DistinctOverflow;
use super::query::NodeRun;
use crate::Error;
use crate::keep::key::RowSet;
use crate::keep::{Kept, row_size};
use crate::plan::node::DistinctNode;
use crate::value::{Value, assign};

/// The rows given so far.
#[derive(Debug, Default)]
pub(super) struct DistinctRun {
    pub(super) input: NodeRun,
    seen: RowSet,
    /// The row given last, where equal rows come one after the other.
    last: Option<Vec<Value>>,
    /// Bytes of the rows seen.
    kept: Kept,
    /// Rows found when no room was left; given once `ended`.
    overflow: Option<Box<DistinctOverflow>>,
    ended: bool,
}

impl DistinctRun {
    pub(super) fn restart(&mut self) {
        self.input.restart();
        *self = DistinctRun { input: std::mem::take(&mut self.input), ..DistinctRun::default() };
    }

    /// Puts the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What the rows raise; when rows that do not fit into memory cannot be written to a file.
    pub(super) fn next(
        &mut self,
        plan: &DistinctNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        while !self.ended && self.input.next(&plan.input, machine)? {
            if self.is_new(plan, machine)? {
                return Ok(true);
            }
        }
        let Some(overflow) = &mut self.overflow else { return Ok(false) };
        if !std::mem::replace(&mut self.ended, true) {
            overflow.finish(machine.session)?;
        }
        overflow.next(&mut machine.registers[plan.output..plan.output + plan.whole])
    }

    /// True where the current row equals no row before, as far as memory tells: a row without room
    /// waits.
    fn is_new(&mut self, plan: &DistinctNode, machine: &Machine<'_, '_>) -> Result<bool, Error> {
        let DistinctNode { collations, ordered, output, whole, .. } = plan;
        let values = &machine.registers[*output..output + collations.len()];
        if *ordered {
            let equal = |last: &Vec<Value>| {
                let mut pairs = last.iter().zip(values).zip(collations);
                pairs.all(|((a, b), by)| a.as_ref().compare(b.as_ref(), *by).is_eq())
            };
            if self.last.as_ref().is_some_and(equal) {
                return Ok(false);
            }
            let last = self.last.get_or_insert_with(|| vec![Value::Null; values.len()]);
            for (last, value) in last.iter_mut().zip(values) {
                assign(last, value.as_ref());
            }
            return Ok(true);
        }
        let session = machine.session;
        let row = values.iter().map(Value::as_ref);
        if let Some(overflow) = &mut self.overflow {
            if !self.seen.contains(row, collations) {
                overflow.push(session, &machine.registers[*output..output + whole])?;
            }
            return Ok(false);
        }
        let new = self.seen.insert(row.clone(), collations);
        if new && !self.kept.try_add(session, || (row_size(row), 0)) {
            self.overflow = Some(Box::new(DistinctOverflow::new(collations)));
        }
        Ok(new)
    }
}

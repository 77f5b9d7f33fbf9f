//! Spilled groups and rows of a `DISTINCT`: rows without room in memory wait in a file, sorted, so
//! that one group after the other comes back.

use std::cmp::Ordering;

use super::Machine;
use super::eval;
use super::group_store::GroupStore;
use crate::Error;
use crate::exec::eval_condition;
use crate::keep::sort::{Sorter, Values};
use crate::keep::{SortKey, SortPlan};
use crate::plan::GroupPlan;
use crate::plan::pipeline::{GroupInput, Operand};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign, truth};

/// Waiting rows, in the order of their first values; equal rows in the order of arrival.
#[derive(Debug)]
pub(super) struct Waiting {
    sorter: Sorter,
    sort: SortPlan,
    /// The collations of the first values.
    collations: Vec<Collation>,
    /// The next row, once all rows wait; empty after the last.
    row: Vec<Value>,
}

impl Waiting {
    pub(super) fn new(collations: impl Iterator<Item = Collation>) -> Waiting {
        let key = |(reg, collation)| SortKey::ascending(reg, collation);
        let collations: Vec<Collation> = collations.collect();
        let keys = collations.iter().copied().enumerate().map(key).collect();
        Waiting { sorter: Sorter::default(), sort: SortPlan { keys }, collations, row: Vec::new() }
    }

    /// Waiting rows whose equal ones are side by side: they come back in the order of arrival.
    fn in_order(collations: impl Iterator<Item = Collation>) -> Waiting {
        Waiting { sort: SortPlan { keys: Vec::new() }, ..Waiting::new(collations) }
    }

    /// # Errors
    /// When spilled rows cannot be written to a file.
    pub(super) fn push(&mut self, session: &dyn Session, row: &[Value]) -> Result<(), Error> {
        let values = Values { first: 0, width: row.len() };
        self.sorter.push(session, (values, &self.sort), |place| row[place].as_ref(), None)
    }

    /// Ends the taking of rows, and goes to the first.
    ///
    /// # Errors
    /// As [`Waiting::push`].
    pub(super) fn finish(&mut self, session: &dyn Session) -> Result<(), Error> {
        self.sorter.sort(session, &self.sort)?;
        self.step()
    }

    /// The next row; empty after the last.
    pub(super) fn row(&self) -> &[Value] {
        &self.row
    }

    /// Goes to the row behind.
    ///
    /// # Errors
    /// When rows cannot be read from the file they are in.
    pub(super) fn step(&mut self) -> Result<(), Error> {
        let mut width = 0;
        if let Some(row) = self.sorter.next_row(&self.sort)? {
            for value in row {
                match self.row.get_mut(width) {
                    Some(known) => assign(known, value),
                    None => self.row.push(value.into()),
                }
                width += 1;
            }
        }
        self.row.truncate(width);
        Ok(())
    }

    /// The order of the next row and of one with these first values.
    pub(super) fn compare<'v>(&self, keys: impl IntoIterator<Item = ValueRef<'v>>) -> Ordering {
        let pairs = self.row.iter().zip(keys).zip(&self.collations);
        pairs
            .map(|((next, key), by)| next.as_ref().compare(key, *by))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

/// Rows of groups without room in memory. A row has the keys, the values a group keeps of a row,
/// and for each aggregate the outcome of its `FILTER`, its arguments, and the keys of its order.
#[derive(Debug)]
pub(super) struct Overflow {
    waiting: Waiting,
    /// The group whose rows are taken.
    group: GroupStore,
    buffer: Vec<Value>,
}

impl Overflow {
    pub(super) fn new(plan: &GroupPlan) -> Overflow {
        let collations = plan.keys.iter().map(|(_, collation)| *collation);
        let waiting = match plan.ordered {
            true => Waiting::in_order(collations),
            false => Waiting::new(collations),
        };
        Overflow { waiting, group: GroupStore::default(), buffer: Vec::new() }
    }

    /// Takes a row whose values are columns.
    ///
    /// # Errors
    /// As [`Waiting::push`].
    pub(super) fn push_columns<'v>(
        &mut self,
        plan: &GroupPlan,
        group: &'v GroupInput,
        session: &dyn Session,
        value: impl Fn(&'v Operand) -> ValueRef<'v>,
    ) -> Result<(), Error> {
        let row = &mut self.buffer;
        row.clear();
        let keys = group.keys.iter().map(|(key, _)| key);
        row.extend(keys.chain(&group.kept).map(|operand| Value::from(value(operand))));
        for (index, aggregate) in plan.aggregates.iter().enumerate() {
            let more = group.more.get(index);
            if aggregate.filter.is_some() {
                let filter = more.and_then(|more| more.filter.as_ref());
                let lets_in = filter.is_none_or(|filter| truth(value(filter)) == Some(true));
                row.push(Value::Int(lets_in.into()));
            }
            let second = more.and_then(|more| more.second.as_ref());
            let arguments = group.arguments[index].iter().chain(second);
            row.extend(arguments.map(|operand| Value::from(value(operand))));
        }
        self.waiting.push(session, row)
    }

    /// Takes the current row, whose keys were evaluated.
    pub(super) fn push(
        &mut self,
        plan: &GroupPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let row = &mut self.buffer;
        row.clear();
        let keys = plan.keys.iter().map(|(key, _)| key.result);
        row.extend(keys.chain(plan.kept.iter().copied()).map(|reg| machine.registers[reg].clone()));
        for aggregate in &plan.aggregates {
            let mut lets_in = true;
            if let Some(filter) = &aggregate.filter {
                lets_in = eval_condition(machine, filter)?;
                row.push(Value::Int(lets_in.into()));
            }
            for code in aggregate.arguments.iter().chain(&aggregate.order) {
                if lets_in {
                    eval(machine, code)?;
                }
                row.push(if lets_in {
                    machine.registers[code.result].clone()
                } else {
                    Value::Null
                });
            }
        }
        self.waiting.push(machine.session, row)
    }

    /// Ends the taking of rows.
    pub(super) fn finish(&mut self, session: &dyn Session) -> Result<(), Error> {
        self.waiting.finish(session)
    }

    /// True where the next group of these rows comes before the next group in memory.
    pub(super) fn goes_first<'v>(
        &self,
        plan: &GroupPlan,
        keys: Option<impl Iterator<Item = ValueRef<'v>>>,
    ) -> bool {
        let any = !self.waiting.row.is_empty();
        let is_sorted = !plan.distinct && !plan.ordered;
        any && keys.is_none_or(|keys| is_sorted && self.waiting.compare(keys).is_lt())
    }

    /// The store whose only group is the one gathered last.
    pub(super) fn gathered(&mut self) -> &mut GroupStore {
        &mut self.group
    }

    /// Gathers the next group of these rows; there must be one. False for a group that does not
    /// pass the plan's tests.
    ///
    /// # Errors
    /// Errors of aggregates, and when rows cannot be read from their file.
    pub(super) fn gather_next(
        &mut self,
        plan: &GroupPlan,
        session: &dyn Session,
    ) -> Result<bool, Error> {
        let Overflow { waiting, group, .. } = self;
        let keys = plan.keys.len();
        group.clear();
        let (first, behind) = waiting.row.split_at(keys);
        let kept = behind[..plan.kept.len()].iter().map(Value::as_ref);
        let place = group.begin(plan, first.iter().map(Value::as_ref), kept);
        while !waiting.row.is_empty() && waiting.compare(group.keys(plan, place)).is_eq() {
            let (kept, mut rest) = waiting.row[keys..].split_at(plan.kept.len());
            for (index, aggregate) in plan.aggregates.iter().enumerate() {
                let mut lets_in = true;
                if aggregate.filter.is_some()
                    && let Some((flag, behind)) = rest.split_first()
                {
                    lets_in = *flag == Value::Int(1);
                    rest = behind;
                }
                let (arguments, behind) = rest.split_at(aggregate.arguments.len());
                let (order, behind) = behind.split_at(aggregate.order.len());
                rest = behind;
                if lets_in {
                    let order = order.iter().map(Value::as_ref);
                    let kept = kept.iter().map(Value::as_ref);
                    group.step((plan, index), place, arguments, order, kept, session)?;
                }
            }
            waiting.step()?;
        }
        Ok(group.may_pass(plan, place))
    }
}

/// Rows of a `DISTINCT` without room in memory: the columns and the values behind.
#[derive(Debug)]
pub(super) struct DistinctOverflow {
    waiting: Waiting,
    /// The columns of the row given last.
    last: Option<Vec<Value>>,
}

impl DistinctOverflow {
    pub(super) fn new(collations: &[Collation]) -> DistinctOverflow {
        DistinctOverflow { waiting: Waiting::new(collations.iter().copied()), last: None }
    }

    pub(super) fn push(&mut self, session: &dyn Session, row: &[Value]) -> Result<(), Error> {
        self.waiting.push(session, row)
    }

    /// Ends the taking of rows.
    pub(super) fn finish(&mut self, session: &dyn Session) -> Result<(), Error> {
        self.waiting.finish(session)
    }

    /// Puts the next row different from all before into the registers; false when there is none.
    pub(super) fn next(&mut self, registers: &mut [Value]) -> Result<bool, Error> {
        let waiting = &mut self.waiting;
        if let Some(last) = &self.last {
            while !waiting.row.is_empty() && waiting.compare(last.iter().map(Value::as_ref)).is_eq()
            {
                waiting.step()?;
            }
        }
        if waiting.row.is_empty() {
            return Ok(false);
        }
        for (target, value) in registers.iter_mut().zip(&waiting.row) {
            assign(target, value.as_ref());
        }
        let columns = &waiting.row[..waiting.collations.len()];
        self.last = Some(columns.to_vec());
        waiting.step()?;
        Ok(true)
    }
}

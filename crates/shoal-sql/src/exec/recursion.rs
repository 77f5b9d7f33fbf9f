//! Common tables that read themselves: a queue of rows, each of which goes through the steps once.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::sync::Arc;

use super::key::RowSet;
use super::query::each_row;
use super::sort::compare;
use super::{Kept, Machine, assign, row_size};
use crate::Error;
use crate::plan::{QueryPlan, RecursivePlan, SortKey};
use crate::value::Value;

/// Where a recursion stands.
#[derive(Debug, Default)]
pub(super) struct RecursiveRun {
    started: bool,
    /// Whether a row was taken that is still to go through the steps.
    taken: bool,
    queue: Queue,
    seen: RowSet,
    /// What the rows seen take; those of the queue come and go.
    kept: Kept,
    queued: usize,
}

/// Rows still to be taken.
#[derive(Debug, Default)]
struct Queue {
    /// Where no order is asked for: the oldest goes first.
    plain: VecDeque<Vec<Value>>,
    ordered: BinaryHeap<Item>,
    count: u64,
}

/// A row in a queue with an order; the greatest is taken first.
#[derive(Debug)]
struct Item {
    row: Vec<Value>,
    number: u64,
    keys: Arc<[SortKey]>,
}

impl RecursiveRun {
    /// Puts the next row into the query's registers; false when there is none.
    pub(super) fn next(
        &mut self,
        query: &QueryPlan,
        plan: &RecursivePlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        machine.tick()?;
        if !self.started {
            self.started = true;
            self.gather(&plan.first, plan, machine)?;
        }
        if self.taken {
            for step in &plan.steps {
                self.gather(step, plan, machine)?;
            }
        }
        let Some(row) = self.queue.pop() else {
            self.taken = false;
            return Ok(false);
        };
        self.taken = true;
        let registers = &mut machine.registers[query.output..query.output + query.width];
        for (target, value) in registers.iter_mut().zip(&row) {
            assign(target, value.as_ref());
        }
        machine.taken[plan.slot] = row;
        Ok(true)
    }

    fn gather(
        &mut self,
        part: &QueryPlan,
        plan: &RecursivePlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        let session = machine.session;
        each_row(part, machine, |row| {
            if !plan.distinct || self.seen.insert(row.values(), &plan.collations) {
                // Counted when the queue has never been as long: rows that leave make room.
                let longer = self.queue.len() >= self.queued;
                if plan.distinct || longer {
                    self.queued = self.queue.len() + 1;
                    self.kept.add(session, row_size(row.values()))?;
                }
                self.queue.push(row.values().map(Value::from).collect(), &plan.order);
            }
            Ok(())
        })
    }
}

impl Queue {
    fn push(&mut self, row: Vec<Value>, keys: &Arc<[SortKey]>) {
        if keys.is_empty() {
            self.plain.push_back(row);
        } else {
            self.count += 1;
            let item = Item { row, number: self.count, keys: Arc::clone(keys) };
            self.ordered.push(item);
        }
    }

    fn len(&self) -> usize {
        self.plain.len() + self.ordered.len()
    }

    fn pop(&mut self) -> Option<Vec<Value>> {
        self.plain.pop_front().or_else(|| self.ordered.pop().map(|item| item.row))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Item) -> Ordering {
        let keys = self
            .keys
            .iter()
            .map(|key| compare(other.row[key.reg].as_ref(), self.row[key.reg].as_ref(), *key));
        let order = keys.fold(Ordering::Equal, Ordering::then);
        order.then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Item {}

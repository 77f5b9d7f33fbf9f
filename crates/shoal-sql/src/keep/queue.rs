//! The rows a recursion is still to take: the oldest first, or by an order of their own. Under a
//! limit of memory, rows without room wait in a file.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::Error;
use crate::keep::sort::compare;
use crate::keep::spill::OpenRuns;
use crate::keep::{Kept, RowStore, SortKey, is_full, row_size};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign};

/// Rows still to be taken.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Rows without an order, by ascending number.
    plain: VecDeque<(u64, Vec<Value>)>,
    ordered: BinaryHeap<Item>,
    count: u64,
    /// Bytes of the rows in memory.
    bytes: usize,
    kept: Kept,
    runs: Option<Box<Runs>>,
    /// A row taken before: the next one reuses its memory.
    spare: Option<Vec<Value>>,
}

/// Rows in a file, each behind the values of its order and its number.
#[derive(Debug)]
struct Runs {
    runs: OpenRuns,
    /// The order of the rows; the registers are places in the row.
    keys: Arc<[SortKey]>,
    /// The same order, by the values at the front of a row.
    front: Vec<SortKey>,
}

/// A row in a queue with an order; the greatest is taken first.
#[derive(Debug)]
struct Item {
    row: Vec<Value>,
    number: u64,
    keys: Arc<[SortKey]>,
}

fn size_of_row(row: &[Value]) -> usize {
    size_of::<Item>() + row_size(row.iter().map(Value::as_ref))
}

impl Queue {
    /// Adds a row.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn push<'v>(
        &mut self,
        session: &dyn Session,
        values: impl Iterator<Item = ValueRef<'v>>,
        keys: &Arc<[SortKey]>,
    ) -> Result<(), Error> {
        let row = match self.spare.take() {
            // Rows of one queue have one width.
            Some(mut row) if !row.is_empty() => {
                row.iter_mut().zip(values).for_each(|(known, value)| assign(known, value));
                row
            }
            _ => values.map(Value::from).collect(),
        };
        if session.budget().is_some() {
            let size = size_of_row(&row);
            if is_full(session, self.bytes, size) {
                self.spill(session, keys)?;
            }
            self.kept.note(session, size);
            self.bytes += size;
        }
        self.count += 1;
        if keys.is_empty() {
            self.plain.push_back((self.count, row));
        } else {
            self.ordered.push(Item { row, number: self.count, keys: Arc::clone(keys) });
        }
        Ok(())
    }

    /// Takes over the memory of a row no longer needed.
    pub(crate) fn spare(&mut self, row: Vec<Value>) {
        self.spare = Some(row);
    }

    /// Puts the rows in memory into a file.
    #[cold]
    fn spill(&mut self, session: &dyn Session, keys: &Arc<[SortKey]>) -> Result<(), Error> {
        let runs = match &mut self.runs {
            Some(runs) => runs,
            None => self.runs.insert(Box::new(Runs::new(session, keys)?)),
        };
        let mut store = RowStore::default();
        let mut push = |number: u64, row: &[Value]| {
            let number = ValueRef::Int(i64::try_from(number).unwrap_or(i64::MAX));
            let front = keys.iter().map(|key| row[key.reg].as_ref()).chain([number]);
            store.push(front.chain(row.iter().map(Value::as_ref)));
        };
        for (number, row) in self.plain.drain(..) {
            push(number, &row);
        }
        while let Some(item) = self.ordered.pop() {
            push(item.number, &item.row);
        }
        self.kept.clear();
        self.bytes = 0;
        let Runs { runs, front, .. } = &mut **runs;
        runs.add(session, front, (0..store.len()).map(|place| store.row_bytes(place)))
    }

    /// Takes the first row in order.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn pop(&mut self) -> Result<Option<Vec<Value>>, Error> {
        let known = match (self.plain.front(), self.ordered.peek()) {
            (Some((number, row)), _) => Some((*number, row)),
            (None, Some(item)) => Some((item.number, &item.row)),
            (None, None) => None,
        };
        if let Some(runs) = &mut self.runs
            && let Some(row) = runs.take_before(known)?
        {
            return Ok(Some(row));
        }
        let taken = self.plain.pop_front().map(|(_, row)| row);
        let taken = taken.or_else(|| self.ordered.pop().map(|item| item.row));
        if let Some(row) = &taken
            && self.bytes > 0
        {
            let size = size_of_row(row);
            self.kept.give_back(size);
            self.bytes -= size;
        }
        Ok(taken)
    }
}

impl Runs {
    fn new(session: &dyn Session, keys: &Arc<[SortKey]>) -> Result<Runs, Error> {
        let number = SortKey::ascending(0, Collation::Binary);
        let front = keys.iter().copied().chain([number]).collect();
        Ok(Runs { runs: OpenRuns::new(session)?, keys: Arc::clone(keys), front })
    }

    /// Takes the first row of the file, unless the row `known` in memory comes before.
    fn take_before(
        &mut self,
        known: Option<(u64, &Vec<Value>)>,
    ) -> Result<Option<Vec<Value>>, Error> {
        let Some(mut values) = self.runs.first(&self.front) else { return Ok(None) };
        if let Some((number, row)) = known {
            let keys = self.keys.iter().zip(values.by_ref());
            let order = keys
                .map(|(key, value)| compare(value, row[key.reg].as_ref(), *key))
                .fold(Ordering::Equal, Ordering::then);
            let own = match values.next() {
                Some(ValueRef::Int(own)) => u64::try_from(own).unwrap_or(0),
                _ => 0,
            };
            if order.then(own.cmp(&number)).is_gt() {
                return Ok(None);
            }
        } else {
            values.by_ref().take(self.front.len()).for_each(drop);
        }
        let row = values.map(Value::from).collect();
        self.runs.take()?;
        Ok(Some(row))
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

//! The values of an `IN` for lookups one after the other: in order, each once. Under a limit of
//! memory, values without room spill to a file.

use crate::Error;
use crate::keep::sort::{Sorter, Values};
use crate::keep::sorted::{SortedPlace, SortedRows};
use crate::keep::{Kept, SortKey, SortPlan, value_size};
use crate::session::Session;
use crate::value::{Affinity, Collation, Value, ValueRef};

/// The rule of comparison for the values of an `IN`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRule {
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Collation,
}

impl ListRule {
    /// The values as they are sought. NULL is equal to nothing.
    pub(crate) fn prepare(self, mut values: Vec<Value>) -> Vec<Value> {
        values = values.into_iter().filter_map(|value| self.sought(value)).collect();
        let compare = |a: &Value, b: &Value| a.as_ref().compare(b.as_ref(), self.collation);
        values.sort_by(compare);
        values.dedup_by(|a, b| compare(a, b).is_eq());
        values
    }

    /// A value converted for lookups; `None` for NULL.
    fn sought(self, value: Value) -> Option<Value> {
        match self.affinity {
            _ if value.is_null() => None,
            Some(affinity) => Some(affinity.apply_for_comparison(value)),
            None => Some(value),
        }
    }

    /// True where a value differs from the last one before.
    fn is_new(self, last: Option<&Value>, value: ValueRef<'_>) -> bool {
        last.is_none_or(|last| last.as_ref().compare(value, self.collation).is_ne())
    }
}

/// Values coming in, perhaps more than memory has room for.
#[derive(Debug)]
pub(crate) struct Listing {
    rule: ListRule,
    sorter: Sorter,
    sort: SortPlan,
    /// Estimate of the values' bytes in memory.
    bytes: usize,
}

impl Listing {
    pub(crate) fn new(rule: ListRule) -> Listing {
        let sort = SortPlan { keys: vec![SortKey::ascending(1, rule.collation)] };
        Listing { rule, sorter: Sorter::default(), sort, bytes: 0 }
    }

    /// Takes a value.
    ///
    /// # Errors
    /// When spilled values cannot be written to a file.
    pub(crate) fn push(&mut self, session: &dyn Session, value: Value) -> Result<(), Error> {
        let Some(value) = self.rule.sought(value) else { return Ok(()) };
        self.bytes += value_size(value.as_ref());
        // In a file the value stands behind a key; no key is needed here.
        let row = [ValueRef::Blob(&[]), value.as_ref()];
        let values = Values { first: 0, width: row.len() };
        self.sorter.push(session, (values, &self.sort), |place| row[place], None)
    }

    /// Ends the taking of values.
    ///
    /// # Errors
    /// As [`Listing::push`].
    pub(crate) fn finish(self, session: &dyn Session) -> Result<Listed, Error> {
        let Listing { rule, mut sorter, sort, bytes } = self;
        sorter.sort(session, &sort)?;
        let mut kept = Kept::default();
        if session.budget().is_some_and(|budget| !budget.has_room(bytes)) {
            let file = SortedRows::write(session, &mut sorter, &sort)?;
            kept.note(session, file.byte_len());
            return Ok(Listed { rule, values: Vec::new(), file: Some(file), _kept: kept });
        }
        let mut values: Vec<Value> = Vec::new();
        while let Some(mut row) = sorter.next_row(&sort)? {
            let Some(value) = row.nth(1) else { continue };
            if rule.is_new(values.last(), value) {
                values.push(value.into());
            }
        }
        kept.note(session, values.iter().map(|value| value_size(value.as_ref())).sum());
        Ok(Listed { rule, values, file: None, _kept: kept })
    }
}

/// The values, in order.
#[derive(Debug)]
pub(crate) struct Listed {
    rule: ListRule,
    values: Vec<Value>,
    file: Option<SortedRows>,
    /// Bytes of memory for values and file.
    _kept: Kept,
}

/// The position of a reader of the list.
#[derive(Debug, Default)]
pub(crate) struct ListPlace {
    next: usize,
    place: SortedPlace,
    last: Option<Value>,
}

impl Listed {
    /// The next value; `None` after the last.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn next(&mut self, at: &mut ListPlace) -> Result<Option<Value>, Error> {
        let Some(file) = &mut self.file else {
            at.next += 1;
            return Ok(self.values.get(at.next - 1).cloned());
        };
        while let Some((mut row, next)) = file.values(at.place, None)? {
            at.place = next;
            let Some(value) = row.next() else { continue };
            if self.rule.is_new(at.last.as_ref(), value) {
                at.last = Some(value.into());
                return Ok(at.last.clone());
            }
        }
        Ok(None)
    }
}

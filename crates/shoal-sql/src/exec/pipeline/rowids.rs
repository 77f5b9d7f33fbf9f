//! Rowid lists: an `IN` over a table's rowids, an `OR` of them, or the rowids common to several
//! indexes.

use shoal_store::{BATCH, TableLookup, Transaction};

use super::run::{LoopRun, Memory, OVERFLOW_BYTES_MAX, Start, rowid_of_value};
use super::slots::fixed;
use crate::Error;
use crate::keep::Kept;
use crate::plan::pipeline::{Access, Arm, Pipeline, PipelineStep};
use crate::session::{Room, Session};
use crate::value::Value;

/// The rowids to look up, ascending, each once, and the number looked up so far.
#[derive(Debug, Default)]
pub(super) struct Rowids {
    rowids: Vec<i64>,
    next: usize,
    /// True where each rowid has a row: an index names it.
    named: bool,
    /// What the rowids in common take, and the room of the statement, where memory is limited.
    kept: Kept,
    room: Option<Room>,
}

impl Rowids {
    /// The rowids of the arms, from the first one on.
    pub(super) fn begin(&mut self, arms: &[Arm], parameters: &[Value]) {
        (self.next, self.named) = (0, false);
        self.rowids.clear();
        self.rowids.extend(arms.iter().filter_map(|arm| match arm {
            Arm::Rowid { key } => rowid_of_value(fixed(key, parameters)),
            Arm::Rows { .. } | Arm::Index(_) => None,
        }));
        self.rowids.sort_unstable();
        self.rowids.dedup();
    }

    /// Counts rowids in common against the limit of a statement from now on.
    pub(super) fn keep_within(&mut self, session: &dyn Session) {
        self.room = session.room();
    }

    /// Counts the rowids in common. They may always be kept: eight bytes each.
    pub(super) fn count_common(&mut self) {
        if let Some(room) = &self.room {
            self.kept.clear();
            self.kept.note(room, self.rowids.len() * size_of::<i64>());
        }
    }

    /// Room for rowids named by indexes, still empty.
    pub(super) fn begin_common(&mut self) -> &mut Vec<i64> {
        (self.next, self.named) = (0, true);
        self.rowids.clear();
        &mut self.rowids
    }

    /// The next one.
    fn next(&mut self) -> Option<i64> {
        let rowid = self.rowids.get(self.next).copied();
        self.next += usize::from(rowid.is_some());
        rowid
    }

    /// Prefetches the rows looked up next, for tables large enough to gain.
    #[inline]
    fn warm(&self, lookup: &TableLookup, txn: &Transaction) {
        if self.next.is_multiple_of(BATCH) && lookup.is_large(txn) {
            let next = self.rowids.iter().skip(self.next).take(BATCH).count();
            lookup.warm(txn, &self.rowids[self.next..self.next + next]);
        }
    }
}

impl Pipeline {
    /// Finds the next rows of a [`crate::plan::pipeline::Walk::RowidList`], to be given: at most
    /// `enough`, or a batch of them.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn fill_listed(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        enough: usize,
    ) -> Result<(), Error> {
        let (Some(level), Some(plan)) = (self.levels.first(), self.records.first()) else {
            return Ok(());
        };
        let is_fresh = memory.start == Start::Fresh;
        let lookup = match &level.access {
            Access::Any { arms, lookup } => {
                if is_fresh {
                    memory.any.rowids.begin(arms, parameters);
                }
                *lookup
            }
            Access::Common { arms, lookup } => {
                if is_fresh {
                    memory.find_common(arms, &self.records, txn, parameters)?;
                }
                *lookup
            }
            Access::Rows { .. } | Access::Rowid { .. } | Access::Index(_) | Access::Hash(_) => {
                return Ok(());
            }
        };
        let Memory { lookups, leaf, any, start, .. } = memory;
        let rowids = &mut any.rowids;
        let Some(lookup) = lookups.get_mut(lookup) else { return Ok(()) };
        *start = Start::At;
        while leaf.len() < enough.max(BATCH) && leaf.far.len() <= OVERFLOW_BYTES_MAX {
            rowids.warm(lookup, txn);
            let Some(rowid) = rowids.next() else { break };
            let known = leaf.len();
            leaf.look_up(plan, lookup, txn, rowid)?;
            if rowids.named && leaf.len() == known {
                return Err(Error::names_no_row(rowid));
            }
        }
        if rowids.next >= rowids.rowids.len() {
            *start = Start::Done;
        }
        Ok(())
    }
}

impl LoopRun<'_, '_> {
    /// The outermost loop over a rowid list.
    pub(super) fn listed<S>(
        &mut self,
        (level, lookup): (&PipelineStep, usize),
        enough: usize,
        sink: &mut S,
    ) -> Result<(), Error>
    where
        S: FnMut(&mut Self) -> Result<(), Error>,
    {
        loop {
            let Memory { lookups, any, .. } = &mut *self.memory;
            any.rowids.warm(&lookups[lookup], self.txn);
            let Some(rowid) = any.rowids.next() else { return Ok(()) };
            if let Some(found) = lookups[lookup].locate(self.txn, rowid)? {
                self.put_row(level.record, found)?;
                self.matched(0, level, sink)?;
            } else if self.memory.any.rowids.named {
                return Err(Error::names_no_row(rowid));
            }
            if self.memory.is_full(enough) {
                self.memory.start = Start::At;
                return Ok(());
            }
        }
    }
}

//! Rows found by any of several ways, each once: an `OR` by several indexes.

use rustc_hash::FxHashSet;

use super::rowids::Rowids;
use super::run::{LoopRun, Start, rowids, seek_first};
use crate::Error;
use crate::plan::are_rowids;
use crate::plan::pipeline::{Arm, PipelineStep};
use shoal_store::TableCursor;

/// Memory of an `OR` loop between its rows.
#[derive(Debug, Default)]
pub(super) struct AnyMemory {
    /// The rowids to look up, where every way is a rowid.
    pub(super) rowids: Rowids,
    /// The rowids of the rows found so far.
    pub(super) seen: FxHashSet<i64>,
    /// The number of the loop's current way; `begun` once its rows are being read.
    arm: usize,
    begun: bool,
}

impl<'t> LoopRun<'_, 't> {
    /// The outermost loop, as one way after the other.
    pub(super) fn any<S>(
        &mut self,
        (level, lookup): (&PipelineStep, usize),
        arms: &[Arm],
        start: Start,
        enough: usize,
        sink: &mut S,
    ) -> Result<(), Error>
    where
        S: FnMut(&mut Self) -> Result<(), Error>,
    {
        let is_list = are_rowids(arms);
        match start {
            Start::Done | Start::Kept => return Ok(()),
            Start::At => {}
            Start::Fresh if is_list => self.memory.any.rowids.begin(arms, self.parameters),
            Start::Fresh => {
                let any = &mut self.memory.any;
                any.seen.clear();
                (any.arm, any.begun) = (0, false);
            }
        }
        if is_list {
            return self.listed((level, lookup), enough, sink);
        }
        while let Some(arm) = arms.get(self.memory.any.arm) {
            let begun = std::mem::replace(&mut self.memory.any.begun, true);
            let start = if begun { Start::At } else { Start::Fresh };
            match arm {
                Arm::Index(access) => {
                    self.entries(0, level, access, start, enough, sink)?;
                }
                Arm::Rowid { key } => {
                    if let Some(rowid) = self.rowid_of(key)
                        && self.memory.any.seen.insert(rowid)
                        && let Some(found) = self.memory.lookups[lookup].locate(self.txn, rowid)?
                    {
                        self.put_row(level.record, found)?;
                        self.matched(0, level, sink)?;
                    }
                }
                Arm::Rows { root, low, high } => {
                    let range = rowids(low.as_ref(), high.as_ref(), |operand| self.value(operand));
                    if let Some((low, high)) = range {
                        let cursor = match (start, &self.memory.place) {
                            (Start::At, Some(place)) => {
                                let mut cursor = TableCursor::resume(self.txn, place)?;
                                let more = cursor.next()?;
                                more.then_some(cursor)
                            }
                            _ => {
                                let mut cursor = self.txn.table(*root)?;
                                let more = seek_first(&mut cursor, low)?;
                                more.then_some(cursor)
                            }
                        };
                        if let Some(cursor) = cursor {
                            self.rows_of_arm(cursor, high, enough, sink)?;
                        }
                    }
                }
            }
            if self.memory.start == Start::At {
                return Ok(());
            }
            let any = &mut self.memory.any;
            (any.arm, any.begun) = (any.arm + 1, false);
            // The way ended with the batch full.
            if self.memory.is_full(enough) {
                self.memory.start = Start::At;
                return Ok(());
            }
        }
        Ok(())
    }

    fn rows_of_arm<S>(
        &mut self,
        mut cursor: TableCursor<'t>,
        high: i64,
        enough: usize,
        sink: &mut S,
    ) -> Result<(), Error>
    where
        S: FnMut(&mut Self) -> Result<(), Error>,
    {
        loop {
            let rowid = cursor.rowid()?;
            if rowid > high {
                return Ok(());
            }
            if self.memory.any.seen.insert(rowid)
                && let Some((page, index)) = cursor.leaf()
            {
                self.row(0, &page, index, sink)?;
            }
            if self.memory.is_full(enough) {
                self.pause(cursor.place());
                return Ok(());
            }
            if !cursor.next()? {
                return Ok(());
            }
        }
    }
}

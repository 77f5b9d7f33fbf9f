//! The rows of a pipeline: all of them to whoever takes them, or some at a time.

use shoal_store::{Pgno, Transaction};

use super::join::{JoinRow, JoinRows, JoinScan};
use super::leaf::{Begin, CHUNK, EVERYWHERE, LeafMemory, LeafScan, Pause, outer_leaves};
use super::leaf_rows::{LeafRow, LeafRows};
use super::run::{LoopRun, Memory, Start, note, rowid_of_value};
use super::slots::{Slots, fixed};
use crate::Error;
use crate::exec::computed::ComputedRow;
use crate::plan::pipeline::{Access, Operand, Pipeline, Walk};
use crate::value::{Value, ValueRef};

/// A loop's current row of a pipeline.
#[derive(Clone, Copy)]
pub(crate) enum RowView<'r, 'a, 't> {
    Leaf(LeafRow<'r>),
    Join(JoinRow<'r>),
    Computed(ComputedRow<'r>),
    Run(&'r LoopRun<'a, 't>),
}

impl<'r> RowView<'r, '_, '_> {
    /// The row's value of an operand.
    #[inline]
    pub(crate) fn value(self, operand: &'r Operand) -> ValueRef<'r> {
        match self {
            RowView::Leaf(row) => row.value(operand),
            RowView::Join(row) => row.value(operand),
            RowView::Computed(row) => row.value(operand),
            RowView::Run(run) => run.value(operand),
        }
    }

    /// Appends the row's values of operands.
    #[inline]
    pub(super) fn note(self, outputs: &[Operand], slots: &mut Slots) {
        match self {
            RowView::Leaf(row) => row.note(outputs, slots),
            RowView::Join(row) => row.note(outputs, slots),
            RowView::Computed(row) => {
                outputs.iter().for_each(|operand| slots.push_value(row.value(operand)));
            }
            RowView::Run(run) => {
                let Memory { fields, buffers, .. } = &*run.memory;
                note(&run.records, fields, buffers, run.parameters, outputs, slots);
            }
        }
    }
}

/// Rows of a pipeline found together.
pub(crate) trait ManyRows<'r>: Copy {
    /// The number of rows.
    fn len(self) -> usize;
    /// The value of an operand of a row, by number from 0.
    fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r>;
    /// A row, by number from 0.
    fn row<'a, 't>(self, number: usize) -> RowView<'r, 'a, 't>;

    /// The stored form of a row's operand, where known to be short: see [`LeafRows::short`].
    #[inline(always)]
    fn short(self, _number: usize, _operand: &Operand) -> Option<(u32, u64)> {
        None
    }

    /// Calls `each` with the integers stored for an operand, from row `from` on, until `each` is
    /// false or a value is no integer read by the fast path; gives the number of the row the loop
    /// ended at.
    #[inline(always)]
    fn each_int(self, _operand: &Operand, from: usize, _each: impl FnMut(i64) -> bool) -> usize {
        from
    }

    /// As [`ManyRows::each_int`] for floats.
    #[inline(always)]
    fn each_real(self, _operand: &Operand, from: usize, _each: impl FnMut(f64)) -> usize {
        from
    }

    /// Calls `each` with the values of an operand of all rows, in their order.
    #[inline(always)]
    fn each_value(self, operand: &'r Operand, mut each: impl FnMut(ValueRef<'r>)) {
        (0..self.len()).for_each(|number| each(self.value(number, operand)));
    }
}

impl<'r> ManyRows<'r> for LeafRows<'r> {
    #[inline(always)]
    fn len(self) -> usize {
        LeafRows::len(self)
    }

    #[inline(always)]
    fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        LeafRows::value(self, number, operand)
    }

    #[inline(always)]
    fn row<'a, 't>(self, number: usize) -> RowView<'r, 'a, 't> {
        RowView::Leaf(LeafRows::row(self, number))
    }

    #[inline(always)]
    fn short(self, number: usize, operand: &Operand) -> Option<(u32, u64)> {
        LeafRows::short(self, number, operand)
    }

    #[inline(always)]
    fn each_int(self, operand: &Operand, from: usize, mut each: impl FnMut(i64) -> bool) -> usize {
        if matches!(operand, Operand::Field { real: true, .. }) {
            return from;
        }
        self.each_place(operand, from, |place, bytes| place.near_int(bytes).is_some_and(&mut each))
    }

    #[inline(always)]
    fn each_real(self, operand: &Operand, from: usize, mut each: impl FnMut(f64)) -> usize {
        self.each_place(operand, from, |place, bytes| {
            place.near_real(bytes).map(&mut each).is_some()
        })
    }

    #[inline(always)]
    fn each_value(self, operand: &'r Operand, each: impl FnMut(ValueRef<'r>)) {
        LeafRows::each_value(self, operand, each);
    }
}

impl<'r> ManyRows<'r> for &'r JoinRows<'r> {
    #[inline(always)]
    fn len(self) -> usize {
        JoinRows::len(*self)
    }

    #[inline(always)]
    fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r> {
        JoinRows::value(*self, number, operand)
    }

    #[inline(always)]
    fn row<'a, 't>(self, number: usize) -> RowView<'r, 'a, 't> {
        RowView::Join(JoinRows::row(self, number))
    }

    #[inline(always)]
    fn short(self, number: usize, operand: &Operand) -> Option<(u32, u64)> {
        JoinRows::short(*self, number, operand)
    }
}

impl Pipeline {
    /// Calls `sink` with every row.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        mut sink: impl FnMut(RowView<'_, '_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_scan() || self.is_join() {
            return self.for_each_row_within(txn, parameters, memory, EVERYWHERE, sink);
        }
        memory.start = Start::Fresh;
        LoopRun::new(self, txn, parameters, memory).outer(usize::MAX, &mut |run| {
            run.find_late()?;
            sink(RowView::Run(run))
        })
    }

    /// Calls `sink` with one row after the other until `sink` is false; rows found beside the last
    /// one may still follow.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each_until(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        mut sink: impl FnMut(RowView<'_, '_, '_>) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        memory.clear();
        if self.is_scan() {
            let leaf = &mut memory.leaf;
            let scan = LeafScan::new(self, txn, parameters, leaf, Begin::First, EVERYWHERE)?;
            let Some(mut scan) = scan else { return Ok(()) };
            while scan.next(1, false)? {
                let Some(rows) = scan.rows() else { continue };
                for number in 0..rows.len() {
                    if !sink(RowView::Leaf(rows.row(number)))? {
                        return Ok(());
                    }
                }
            }
            return Ok(());
        }
        memory.start = Start::Fresh;
        LoopRun::new(self, txn, parameters, memory).outer(1, &mut |run| {
            run.find_late()?;
            if !sink(RowView::Run(run))? {
                // A full batch ends the outermost loop.
                (run.memory.rows, run.ended) = (1, true);
            }
            Ok(())
        })
    }

    /// True where the rows are one table's, in their order.
    pub(crate) fn is_scan(&self) -> bool {
        matches!(self.walk, Walk::TableScan | Walk::TopN)
    }

    /// True where the rows are one table's, or the entries of one index, in their order, each
    /// joined with the rows it names.
    pub(crate) fn is_join(&self) -> bool {
        matches!(self.walk.all_rows(), Walk::IndexScan | Walk::LookupJoin)
    }

    /// True where the rows of the batch are places: see [`Walk::is_lazy`].
    #[inline]
    pub(crate) fn is_lazy(&self, memory: &Memory) -> bool {
        memory.sought || self.walk.is_lazy()
    }

    /// Calls `sink` with all rows of a range of rowids, a batch at a time, for the rows of one
    /// table.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each_within(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut LeafMemory,
        within: (i64, i64),
        mut sink: impl FnMut(LeafRows<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scan = LeafScan::new(self, txn, parameters, memory, Begin::First, within)?;
        let Some(mut scan) = scan else { return Ok(()) };
        while scan.next(CHUNK, false)? {
            match scan.rows() {
                Some(rows) if rows.len() > 0 => sink(rows)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// As [`Pipeline::for_each_within`] for the rows left by `choose`. For each batch, `choose`
    /// puts the numbers of the wanted rows in front and gives their count. Unwanted rows only have
    /// the columns of conditions and of [`Walk::TopN`] located.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each_chosen<C>(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut LeafMemory,
        (within, chooser): ((i64, i64), &mut C),
        mut choose: impl FnMut(&mut C, LeafRows<'_>, &mut [u8; CHUNK]) -> usize,
        mut sink: impl FnMut(&mut C, LeafRows<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let scan = LeafScan::new(self, txn, parameters, memory, Begin::First, within)?;
        let Some(mut scan) = scan else { return Ok(()) };
        scan.want_chosen();
        while scan.next(CHUNK, false)? {
            let mut chosen = [0; CHUNK];
            let count = match scan.rows() {
                Some(rows) if rows.len() > 0 => choose(chooser, rows, &mut chosen),
                _ => continue,
            };
            if count == 0 {
                continue;
            }
            scan.choose(&chosen[..count])?;
            if let Some(rows) = scan.rows() {
                sink(chooser, rows)?;
            }
        }
        Ok(())
    }

    /// As [`Pipeline::for_each_within`] for rows of one table joined with rows of others.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each_joined(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        within: (i64, i64),
        mut sink: impl FnMut(&JoinRows<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        JoinScan::run(self, txn, parameters, memory, (Start::Fresh, within), |scan| {
            while scan.next(CHUNK, false)? {
                match scan.rows() {
                    Some(rows) if rows.len() > 0 => sink(&rows)?,
                    _ => {}
                }
            }
            Ok(None)
        })
        .map(drop)
    }

    /// As [`Pipeline::for_each_joined`] and [`Pipeline::for_each_within`], one row after the other.
    ///
    /// # Errors
    /// Errors of `sink` and of the file.
    pub(crate) fn for_each_row_within(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        within: (i64, i64),
        mut sink: impl FnMut(RowView<'_, '_, '_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.is_join() {
            return self.for_each_joined(txn, parameters, memory, within, |rows| {
                (0..rows.len()).try_for_each(|row| sink(RowView::Join(rows.row(row))))
            });
        }
        self.for_each_within(txn, parameters, &mut memory.leaf, within, |rows| {
            (0..rows.len()).try_for_each(|row| sink(RowView::Leaf(rows.row(row))))
        })
    }

    /// Ranges of rowids worth reading side by side; empty where none are, or where the rows are not
    /// one table's, alone or joined with the rows each names.
    pub(crate) fn ranges(&self, txn: &Transaction) -> Vec<(i64, i64)> {
        // Matches are noted over all rows, so a scan noting them is not parted.
        if (!self.is_join() && !self.is_scan()) || self.notes_matches() {
            return Vec::new();
        }
        let Some((root, _, _)) = outer_leaves(self) else { return Vec::new() };
        match self.forced.threads {
            None => txn.row_ranges(root),
            Some(parts) => forced_ranges(txn, root, parts),
        }
    }

    /// Finds rows until the batch has `enough`, or no more exist. Of several loops the outermost
    /// one alone can pause: a batch has all rows of its last row where they are a few, and no more
    /// than are `wanted`. Not for points and seeks.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn fill(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        (enough, wanted): (usize, usize),
    ) -> Result<(), Error> {
        if memory.start == Start::Kept {
            let Memory { leaf, kept, start, .. } = &mut *memory;
            let plan = self.records.first();
            plan.map_or(Ok(()), |plan| leaf.find_kept(plan, txn, kept.take(enough)))?;
            if kept.ended() {
                *start = Start::Done;
            }
            return Ok(());
        }
        match self.walk.all_rows() {
            Walk::TableScan | Walk::TopN => self.fill_scanned(txn, parameters, memory, enough),
            Walk::IndexScan | Walk::LookupJoin => self.fill_joined(txn, parameters, memory, enough),
            Walk::RowidList => self.fill_listed(txn, parameters, memory, enough),
            Walk::NestedLoop { .. } | Walk::Point { .. } | Walk::Seek(_) | Walk::Count => {
                let outputs = self.outputs.as_deref().unwrap_or_default();
                let most = self.most_of_row(memory.given_of_row).map(|most| most.max(enough));
                let mut run = LoopRun::new(self, txn, parameters, memory);
                run.pauses = true;
                run.outer(enough, &mut |run| {
                    run.of_row += 1;
                    if run.passed > 0 {
                        run.passed -= 1;
                        return Ok(());
                    }
                    run.find_late()?;
                    run.put_in_batch(outputs);
                    run.ended = run.memory.rows >= wanted;
                    if !run.ended && most.is_some_and(|most| run.memory.is_full(most)) {
                        (run.ended, run.memory.given_of_row) = (true, run.of_row);
                    }
                    Ok(())
                })
            }
        }
    }

    /// Most rows of a batch within one row of the outermost loop, of which so many were given;
    /// `None` for loops that find no such row again. Each batch begins by passing over the rows
    /// given, so batches grow: all of them together cost a few times the rows, and memory has a
    /// bound.
    fn most_of_row(&self, given: u64) -> Option<usize> {
        let (first, _) = self.levels.split_first().filter(|(_, inner)| !inner.is_empty())?;
        match first.access {
            Access::Rows { .. } | Access::Rowid { .. } | Access::Index(_) => {}
            Access::Any { .. } | Access::Common { .. } | Access::Hash(_) => return None,
        }
        let outputs = self.outputs.as_deref().map_or(1, |outputs| outputs.len().max(1));
        let most = (SLOTS_MAX / outputs).max(ROWS_OF_ONE);
        let least = self.forced.batch_rows(ROWS_OF_ONE);
        Some(usize::try_from(given.saturating_mul(2)).unwrap_or(most).clamp(least, most))
    }

    /// As [`Pipeline::fill`], of one table in its order.
    fn fill_scanned(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        enough: usize,
    ) -> Result<(), Error> {
        let start = std::mem::replace(&mut memory.start, Start::Done);
        let Memory { leaf, place, .. } = &mut *memory;
        let from = match (start, &*place) {
            (Start::Fresh, _) => Begin::First,
            (Start::At, Some(place)) => Begin::After(place),
            _ => return Ok(()),
        };
        let scan = LeafScan::new(self, txn, parameters, leaf, from, EVERYWHERE)?;
        let Some(mut scan) = scan else { return Ok(()) };
        loop {
            if !scan.next(scan.wish(enough), true)? {
                return Ok(());
            }
            scan.give();
            if scan.is_full(enough) {
                break;
            }
        }
        if let Some(Pause::Row(at)) = scan.pause()? {
            *place = Some(at);
            memory.start = Start::At;
        }
        Ok(())
    }

    /// As [`Pipeline::fill`], of a join.
    fn fill_joined(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        enough: usize,
    ) -> Result<(), Error> {
        let start = std::mem::replace(&mut memory.start, Start::Done);
        let from = (start, EVERYWHERE);
        let pause = JoinScan::run(self, txn, parameters, memory, from, |scan| {
            loop {
                if !scan.next(scan.wish(enough), true)? {
                    return Ok(None);
                }
                scan.give();
                if scan.is_full(enough) {
                    return scan.pause();
                }
            }
        })?;
        let more = pause.is_some();
        match pause {
            Some(Pause::Row(place)) => memory.place = Some(place),
            Some(Pause::Entry(place)) => memory.walk = Some(place),
            None => {}
        }
        if more {
            memory.start = Start::At;
        }
        if self.output_record != Some(0) {
            memory.give_joined(self);
        }
        Ok(())
    }

    /// Finds the one row with a rowid.
    ///
    /// # Errors
    /// Errors of the file.
    #[inline]
    pub(super) fn look_up(
        &self,
        key: &Operand,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
    ) -> Result<(), Error> {
        let Some(rowid) = rowid_of_value(fixed(key, parameters)) else { return Ok(()) };
        let Memory { lookups, leaf, .. } = memory;
        match (&mut **lookups, self.records.first()) {
            ([lookup, ..], Some(plan)) => leaf.look_up(plan, lookup, txn, rowid),
            _ => Ok(()),
        }
    }
}

/// Ranges of rowids for a number of parts chosen by a test, however small the table.
fn forced_ranges(txn: &Transaction, root: Pgno, parts: usize) -> Vec<(i64, i64)> {
    let ends = || -> Result<Option<(i64, i64)>, Error> {
        let mut cursor = txn.table(root)?;
        if !cursor.first()? {
            return Ok(None);
        }
        let first = cursor.rowid()?;
        cursor.last()?;
        Ok(Some((first, cursor.rowid()?)))
    };
    // Faults of the table are found when its rows are read.
    let Ok(Some((first, last))) = ends() else { return Vec::new() };
    let parts = parts as u64;
    if parts < 2 || txn.is_writer() || last.abs_diff(first) < parts {
        return Vec::new();
    }
    let width = (last.abs_diff(first) / parts).cast_signed();
    let mut ranges = Vec::new();
    let mut low = i64::MIN;
    for part in 1..parts {
        let end = first.saturating_add(width.saturating_mul(part.cast_signed()));
        ranges.push((low, end));
        low = end.saturating_add(1);
    }
    ranges.push((low, i64::MAX));
    ranges
}

/// Most rows of a first batch within one row of the outermost loop: finding fewer rows again would
/// cost more than their memory.
const ROWS_OF_ONE: usize = 1 << 10;

/// Most values of a batch within one row of the outermost loop: 128 MiB.
const SLOTS_MAX: usize = 1 << 23;

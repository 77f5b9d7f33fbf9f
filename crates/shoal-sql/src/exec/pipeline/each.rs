//! The rows of a pipeline: all of them to whoever takes them, or some at a time.

use shoal_store::{Pgno, Transaction};

use super::join::{JoinRow, JoinRows, JoinScan};
use super::leaf::{Begin, CHUNK, EVERYWHERE, LeafMemory, LeafScan, Pause, outer_leaves};
use super::leaf_rows::{LeafRow, LeafRows};
use super::run::{LoopRun, Memory, Start, note, rowid_of_value};
use super::slots::{Slots, fixed};
use crate::Error;
use crate::exec::computed::ComputedRow;
use crate::plan::node::{Node, Operand, Pipeline};
use crate::value::{Value, ValueRef};

/// A row of a pipeline while a loop is on it.
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

/// Rows of a pipeline that were found together.
pub(crate) trait ManyRows<'r>: Copy {
    /// How many they are.
    fn len(self) -> usize;
    /// The value of an operand of a row, by number from 0.
    fn value(self, number: usize, operand: &'r Operand) -> ValueRef<'r>;
    /// A row, by number from 0.
    fn row<'a, 't>(self, number: usize) -> RowView<'r, 'a, 't>;

    /// What is stored for an operand of a row, where that is known to be of few bytes: see
    /// [`LeafRows::short`].
    #[inline(always)]
    fn short(self, _number: usize, _operand: &Operand) -> Option<(u32, u64)> {
        None
    }

    /// Calls `each` with the integers that are stored for an operand of the rows from that one on, until it
    /// is false or there is no integer, or not one that is told at once; gives the number of the row where
    /// that was.
    #[inline(always)]
    fn each_int(self, _operand: &Operand, from: usize, _each: impl FnMut(i64) -> bool) -> usize {
        from
    }

    /// The same of floats.
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
    /// What `sink` raises and what is wrong with the file.
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

    /// Calls `sink` with one row after the other until it says false; rows that were found beside that
    /// one may still follow.
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
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
                // The batch has all that was asked for.
                run.memory.rows = 1;
            }
            Ok(())
        })
    }

    /// Whether the rows are those of one table in their order.
    pub(crate) fn is_scan(&self) -> bool {
        matches!(self.node, Node::TableScan | Node::TopN)
    }

    /// Whether the rows are those of one table or the entries of one index, in their order, with those
    /// that each names.
    pub(crate) fn is_join(&self) -> bool {
        matches!(self.node.all_rows(), Node::IndexScan | Node::LookupJoin)
    }

    /// Whether the rows of the batch are places: see [`Node::is_lazy`].
    #[inline]
    pub(crate) fn is_lazy(&self, memory: &Memory) -> bool {
        memory.sought || self.node.is_lazy()
    }

    /// Calls `sink` with all rows of a range of rowids, some at a time, when the rows are those of one
    /// table.
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
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

    /// The same of the rows that `choose` leaves, which is asked about those found together: it puts the
    /// numbers of the rows that are wanted in front of the others' and says how many they are. Of what is
    /// not wanted no columns are found but those that conditions ask for and the one of [`Node::TopN`].
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
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

    /// The same where rows of other tables are joined to those of one.
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
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

    /// The same, of one row after the other.
    ///
    /// # Errors
    /// What `sink` raises and what is wrong with the file.
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

    /// Ranges of rowids that are worth being read side by side; empty where they are not, or where
    /// the rows are not those of one table, alone or with those that each names.
    pub(crate) fn ranges(&self, txn: &Transaction) -> Vec<(i64, i64)> {
        // What is noted of matches is of all rows.
        if (!self.is_join() && !self.is_scan()) || self.notes_matches() {
            return Vec::new();
        }
        let Some((root, _, _)) = outer_leaves(self) else { return Vec::new() };
        match self.forced.threads {
            None => txn.row_ranges(root),
            Some(parts) => forced_ranges(txn, root, parts),
        }
    }

    /// Finds rows until there are `enough` of them in the batch, or no more. Not of those that are
    /// looked up.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) fn fill(
        &self,
        txn: &Transaction,
        parameters: &[Value],
        memory: &mut Memory,
        enough: usize,
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
        match self.node.all_rows() {
            Node::TableScan | Node::TopN => self.fill_scanned(txn, parameters, memory, enough),
            Node::IndexScan | Node::LookupJoin => self.fill_joined(txn, parameters, memory, enough),
            Node::RowidList => self.fill_listed(txn, parameters, memory, enough),
            Node::NestedLoop { .. } | Node::Point { .. } | Node::Seek(_) | Node::Count => {
                let outputs = self.outputs.as_deref().unwrap_or_default();
                LoopRun::new(self, txn, parameters, memory).outer(enough, &mut |run| {
                    run.find_late()?;
                    run.put_in_batch(outputs);
                    Ok(())
                })
            }
        }
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
    /// What is wrong with the file.
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

/// Ranges of rowids that a test decided for, however small the table is.
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
    // What is wrong with the table is found when its rows are read.
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

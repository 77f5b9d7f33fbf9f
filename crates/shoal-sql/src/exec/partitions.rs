//! Windows over more rows than memory holds: the rows wait in a file, sorted for the next window,
//! and come back one partition at a time.

use super::Machine;
use super::frame::{Ends, Frame};
use super::large_partition::LargePartition;
use super::window::{PassRows, WindowRun, is_same_part};
use crate::Error;
use crate::keep::sort::{Sorter, Values};
use crate::keep::{Kept, SortKey, SortPlan, is_full, row_size};
use crate::plan::{WindowPass, WindowPlan};
use crate::session::Session;
use crate::value::{Value, assign};

/// The layout of a row: the kept values, then for each window its keys and for each call the
/// arguments and the outcome of its `FILTER`, then all results.
#[derive(Debug)]
struct Layout {
    /// Start of each window's part of a row.
    starts: Vec<usize>,
    /// Place of each window's first result in a row.
    results: Vec<usize>,
}

impl Layout {
    fn of(plan: &WindowPlan) -> Layout {
        let mut at = plan.kept.len();
        let mut place = |width: usize| {
            at += width;
            at - width
        };
        let inputs = |pass: &WindowPass| {
            let calls = pass.calls.iter();
            let calls = calls.map(|call| call.arguments.len() + usize::from(call.filter.is_some()));
            pass.keys.len() + calls.sum::<usize>()
        };
        let starts = plan.passes.iter().map(|pass| place(inputs(pass))).collect();
        let results = plan.passes.iter().map(|pass| place(pass.calls.len())).collect();
        Layout { starts, results }
    }
}

/// Rows on their way through the windows.
#[derive(Debug)]
pub(super) struct Partitions {
    layout: Layout,
    /// Sorted for the window with the number `pass`.
    sorter: Sorter,
    sort: SortPlan,
    pass: usize,
    /// The ends of every window's frame, once all rows are there.
    ends: Vec<Ends>,
    /// The first row of the next partition; `None` after the last.
    ahead: Option<Vec<Value>>,
    /// The rows of a partition, each with its results, and the next of them.
    rows: Vec<Vec<Value>>,
    next: usize,
    /// Bytes of these rows.
    kept: Kept,
    /// A partition too large for memory.
    large: Option<Box<LargePartition>>,
}

/// The order of rows for a window.
fn sort_of(layout: &Layout, plan: &WindowPlan, pass: usize) -> SortPlan {
    let keys = plan.passes[pass].sort.keys.iter();
    let keys = keys.map(|key| SortKey { reg: layout.starts[pass] + key.reg, ..*key });
    SortPlan { keys: keys.collect() }
}

impl Partitions {
    /// Takes over the rows gathered in memory before.
    ///
    /// # Errors
    /// When they cannot be written to a file.
    pub(super) fn new(
        plan: &WindowPlan,
        gathered: &WindowRun,
        session: &dyn Session,
    ) -> Result<Partitions, Error> {
        let layout = Layout::of(plan);
        let sort = sort_of(&layout, plan, 0);
        let mut this = Partitions {
            layout,
            sorter: Sorter::default(),
            sort,
            pass: 0,
            ends: Vec::new(),
            ahead: None,
            rows: Vec::new(),
            next: 0,
            kept: Kept::default(),
            large: None,
        };
        for number in 0..gathered.row_count() {
            this.push(session, &gathered.row(plan, number))?;
        }
        Ok(this)
    }

    /// Takes a row as [`Layout`] says.
    pub(super) fn push(&mut self, session: &dyn Session, row: &[Value]) -> Result<(), Error> {
        let values = Values { first: 0, width: row.len() };
        self.sorter.push(session, (values, &self.sort), |place| row[place].as_ref(), None)
    }

    /// Ends the taking of rows, and goes through all windows but the last.
    ///
    /// # Errors
    /// Errors of functions; when files cannot be read or written.
    pub(super) fn finish(
        &mut self,
        plan: &WindowPlan,
        ends: Vec<Ends>,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        self.ends = ends;
        let session = machine.session;
        self.sorter.sort(session, &self.sort)?;
        self.step()?;
        while self.pass + 1 < plan.passes.len() {
            let sort = sort_of(&self.layout, plan, self.pass + 1);
            let mut sorter = Sorter::default();
            while self.next_partition(plan, machine)? {
                while let Some(row) = self.next_row()? {
                    let values = Values { first: 0, width: row.len() };
                    let value = |place: usize| row[place].as_ref();
                    sorter.push(session, (values, &sort), value, None)?;
                }
            }
            sorter.sort(session, &sort)?;
            (self.sorter, self.sort) = (sorter, sort);
            self.pass += 1;
            self.step()?;
        }
        self.rows.clear();
        self.large = None;
        Ok(())
    }

    /// Puts the next row's values into the registers; false when there is none.
    ///
    /// # Errors
    /// As [`Partitions::finish`].
    pub(super) fn next(
        &mut self,
        plan: &WindowPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        if self.next >= self.partition_len() && !self.next_partition(plan, machine)? {
            return Ok(false);
        }
        let Partitions { layout, rows, large, next, .. } = self;
        let Some(row) = row_at(large, rows, *next)? else { return Ok(false) };
        *next += 1;
        for (&reg, value) in plan.kept.iter().zip(row) {
            assign(&mut machine.registers[reg], value.as_ref());
        }
        for (pass, &first) in plan.passes.iter().zip(&layout.results) {
            for (call, value) in pass.calls.iter().zip(&row[first..]) {
                assign(&mut machine.registers[call.result], value.as_ref());
            }
        }
        Ok(true)
    }

    /// The number of rows in the current partition.
    fn partition_len(&self) -> usize {
        self.large.as_ref().map_or(self.rows.len(), |large| large.len())
    }

    /// The next row of the partition at hand, with its results; `None` after the last.
    fn next_row(&mut self) -> Result<Option<&[Value]>, Error> {
        if self.next >= self.partition_len() {
            return Ok(None);
        }
        self.next += 1;
        row_at(&mut self.large, &self.rows, self.next - 1)
    }

    /// Reads the row ahead.
    fn step(&mut self) -> Result<(), Error> {
        self.ahead = self.sorter.next_row(&self.sort)?.map(|row| row.map(Value::from).collect());
        Ok(())
    }

    /// Reads the next partition and computes its window's functions; false when there is none.
    fn next_partition(
        &mut self,
        plan: &WindowPlan,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        machine.tick()?;
        self.rows.clear();
        self.kept.clear();
        self.large = None;
        self.next = 0;
        let pass = &plan.passes[self.pass];
        let session = machine.session;
        let mut first: Vec<Value> = Vec::new();
        let mut bytes = 0;
        while let Some(row) = self.ahead.take() {
            let parts = &pass.sort.keys[..pass.partition_count];
            let own = &row[self.layout.starts[self.pass]..][..parts.len()];
            match self.partition_len() {
                0 => first.extend_from_slice(own),
                _ if is_same_part(parts, &first, own) => {}
                _ => {
                    self.ahead = Some(row);
                    break;
                }
            }
            let order = &self.sort.keys[pass.partition_count..];
            // Each row is held twice: as gathered, and in the columns functions are computed from.
            let size = 2 * row_size(row.iter().map(Value::as_ref));
            if self.large.is_none() && is_full(session, bytes, size) {
                let mut large = Box::new(LargePartition::new(session, pass)?);
                for row in self.rows.drain(..) {
                    large.push(&row, order)?;
                }
                self.kept.clear();
                self.large = Some(large);
            }
            match &mut self.large {
                Some(large) => {
                    machine.tick()?;
                    large.push(&row, order)?;
                }
                None => {
                    self.kept.note(session, size);
                    bytes += size;
                    self.rows.push(row);
                }
            }
            self.step()?;
        }
        if self.partition_len() == 0 {
            return Ok(false);
        }
        let frame = Frame::new(&self.ends[self.pass], pass, session);
        if let Some(large) = &mut self.large {
            large.compute(pass, self.layout.starts[self.pass], &frame)?;
            return Ok(true);
        }
        let mut columns = self.columns(pass);
        columns.compute(pass, &frame, self.rows.len())?;
        for call in columns.into_results() {
            for (row, value) in self.rows.iter_mut().zip(call) {
                row.push(value);
            }
        }
        Ok(true)
    }

    /// The partition's keys and arguments, as a window's functions take them.
    fn columns(&self, pass: &WindowPass) -> PassRows {
        let mut columns = PassRows::new(pass, self.rows.len());
        let start = self.layout.starts[self.pass];
        for row in &self.rows {
            columns.push(pass, &mut row[start..].iter().cloned());
        }
        columns
    }
}

/// A row of a partition, with its results.
fn row_at<'p>(
    large: &'p mut Option<Box<LargePartition>>,
    rows: &'p [Vec<Value>],
    place: usize,
) -> Result<Option<&'p [Value]>, Error> {
    match large {
        Some(large) => large.row(place).map(Some),
        None => Ok(rows.get(place).map(Vec::as_slice)),
    }
}

//! Windows over more rows than fit into memory: the rows wait in a file, sorted for the window that
//! is next, and come back one partition at a time.

use super::sort::{Sorter, Values};
use super::window::{Ends, Frame, Partition, PassRows, WindowRun};
use super::{Kept, Machine, assign, row_size};
use crate::Error;
use crate::functions::Session;
use crate::plan::{SortKey, SortPlan, WindowPass, WindowPlan};
use crate::value::Value;

/// Where the parts of a row lie: behind what is kept of it, for each window its keys and then for
/// each call the arguments and whether its `FILTER` lets the row in; behind all those the results.
#[derive(Debug)]
struct Layout {
    /// By window.
    starts: Vec<usize>,
    /// By window: the place of its first call's result.
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
    /// Sorted for the window of that number.
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
    /// What these take.
    kept: Kept,
}

/// How rows are sorted for a window.
fn sort_of(layout: &Layout, plan: &WindowPlan, pass: usize) -> SortPlan {
    let keys = plan.passes[pass].sort.keys.iter();
    let keys = keys.map(|key| SortKey { reg: layout.starts[pass] + key.reg, ..*key });
    SortPlan { keys: keys.collect() }
}

impl Partitions {
    /// With the rows that were gathered in memory before.
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
    /// When a partition does not fit into memory; when files cannot be read or written.
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
                for row in &self.rows {
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
        if self.next >= self.rows.len() && !self.next_partition(plan, machine)? {
            return Ok(false);
        }
        let Some(row) = self.rows.get(self.next) else { return Ok(false) };
        self.next += 1;
        for (&reg, value) in plan.kept.iter().zip(row) {
            assign(&mut machine.registers[reg], value.as_ref());
        }
        for (pass, &first) in plan.passes.iter().zip(&self.layout.results) {
            for (call, value) in pass.calls.iter().zip(&row[first..]) {
                assign(&mut machine.registers[call.result], value.as_ref());
            }
        }
        Ok(true)
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
        self.next = 0;
        let pass = &plan.passes[self.pass];
        while let Some(row) = self.ahead.take() {
            let parts = &self.sort.keys[..pass.partition_count];
            let same = |first: &Vec<Value>| {
                parts.iter().all(|key| {
                    let (a, b) = (first[key.reg].as_ref(), row[key.reg].as_ref());
                    a.compare(b, key.collation).is_eq()
                })
            };
            if !self.rows.first().is_none_or(same) {
                self.ahead = Some(row);
                break;
            }
            // Once as it is, and once more in the columns that functions are computed from.
            let size = 2 * row_size(row.iter().map(Value::as_ref));
            self.kept.add(machine.session, size)?;
            self.rows.push(row);
            self.step()?;
        }
        if self.rows.is_empty() {
            return Ok(false);
        }
        let mut columns = self.columns(pass);
        let order: Vec<usize> = (0..self.rows.len()).collect();
        let partition = Partition::new(&order, &columns, pass);
        Frame::new(&self.ends[self.pass], pass, machine.session)
            .compute(&partition, &mut columns)?;
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

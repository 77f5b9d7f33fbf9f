//! `UNION`, `INTERSECT` and `EXCEPT` of any parts. Rows are in memory with a set of their keys.
//! Without room under a limit of memory, the rows wait in a file, sorted by key, and the parts
//! having each key decide.

use std::ops::Range;
use std::sync::Arc;

use super::Machine;
use super::each_row::each_row;
use super::overflow::Waiting;
use super::pipeline::{RowSet, SetContext};
use super::query::{NodeRun, QueryRun};
use crate::Error;
use crate::keep::key::push_row_key;
use crate::keep::{Kept, row_size};
use crate::parse::ast::CompoundOp;
use crate::plan::node::{CompoundNode, QueryPlan};
use crate::schema::MAIN;
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign};

/// The rows of a compound up to its last part compared with the others; further parts are added
/// with `UNION ALL`.
#[derive(Debug, Default)]
pub(super) struct SetRows {
    rows: RowSet,
    next: usize,
    /// The database of the pages with the rows left there.
    database: usize,
    /// Bytes of rows and keys.
    kept: Kept,
    file: Option<Box<SetFile>>,
}

/// Spilled rows: each with its key, the number of its part, and, where the part adds rows, the
/// columns.
#[derive(Debug)]
struct SetFile {
    waiting: Waiting,
    /// The operators from the part on whose rows are in the file; the rows of the parts before
    /// count as the first part.
    ops: Vec<CompoundOp>,
    /// The number of the part before `ops`.
    base: usize,
    /// A row on its way in.
    row: Vec<Value>,
    key: Vec<u8>,
}

/// Position in a compound: the parts that are compared, then a chain of the others.
#[derive(Debug, Default)]
pub(super) struct CompoundRun {
    sets: Option<SetRows>,
    /// The part of the chain, once its rows are given.
    part: Option<usize>,
    run: QueryRun,
}

impl CompoundRun {
    /// Puts the next row into the registers; false when there is none.
    ///
    /// # Errors
    /// What the parts raise; when rows that do not fit into memory cannot be written to a file.
    pub(super) fn next(
        &mut self,
        plan: &CompoundNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<bool, Error> {
        let compared = plan.compared();
        let mut part = match self.part {
            Some(part) => part,
            None => {
                if compared > 0 {
                    let sets = match &mut self.sets {
                        Some(sets) => sets,
                        None => self.sets.insert(SetRows::of(plan, machine)?),
                    };
                    if sets.next(plan, machine)? {
                        return Ok(true);
                    }
                    self.sets = None;
                }
                self.begin(compared, plan, machine);
                compared
            }
        };
        while let Some(query) = plan.part(part) {
            if self.run.next(query, machine)? {
                return Ok(true);
            }
            part += 1;
            self.run = QueryRun::default();
            self.begin(part, plan, machine);
        }
        Ok(false)
    }

    fn begin(&mut self, part: usize, plan: &CompoundNode, machine: &mut Machine<'_, '_>) {
        self.part = Some(part);
        if let Some(query) = plan.part(part) {
            self.run.start(query, machine);
        }
    }

    /// Notes where the cursors are.
    pub(super) fn park(
        &mut self,
        plan: &CompoundNode,
        machine: &mut Machine<'_, '_>,
    ) -> Result<(), Error> {
        match self.part.and_then(|part| plan.part(part)) {
            Some(query) => self.run.park(query, machine),
            None => Ok(()),
        }
    }
}

impl SetRows {
    /// Combines the parts from left to right, up to the last one compared.
    ///
    /// # Errors
    /// What the parts raise; when a file cannot be written.
    pub(super) fn of(plan: &CompoundNode, machine: &mut Machine<'_, '_>) -> Result<SetRows, Error> {
        let session = machine.session;
        let parameters = Arc::clone(&machine.parameters);
        let mut this = SetRows { database: database_of(&plan.first), ..SetRows::default() };
        let txn = machine.txn(this.database)?;
        let context = SetContext { txn, parameters: &parameters, collations: &plan.collations };
        for (number, (op, part)) in plan.ops().zip(plan.parts()).take(plan.compared()).enumerate() {
            // A writer changes its pages while the rows are read.
            let on_pages = !txn.is_writer() && is_of(part, this.database);
            if this.file.is_none() {
                this.rows.begin(op, context);
            }
            each_row(part, &mut NodeRun::Fresh, machine, |row| {
                if let Some(file) = &mut this.file {
                    return file.push(session, (number, op), row.values(), context.collations);
                }
                if this.rows.take(op, row, on_pages, context)
                    && !this.kept.try_add(session, || (2 * row_size(row.values()), 0))
                {
                    let ops = plan.rest.iter().take(plan.compared() - 1).map(|(op, _)| *op);
                    this.file = Some(this.rows.spill(session, (number, ops), context)?);
                    (this.rows, this.kept) = (RowSet::default(), Kept::default());
                }
                Ok(())
            })?;
            if this.file.is_none() {
                this.rows.end(op);
            }
        }
        if let Some(file) = &mut this.file {
            file.waiting.finish(session)?;
        }
        Ok(this)
    }

    /// Puts the next row into the output's registers; false when there is none.
    ///
    /// # Errors
    /// When a file cannot be read.
    fn next(&mut self, plan: &CompoundNode, machine: &mut Machine<'_, '_>) -> Result<bool, Error> {
        let txn = machine.txn(self.database)?;
        let registers = &mut machine.registers[plan.output..plan.output + plan.width];
        if let Some(file) = &mut self.file {
            return file.next(registers);
        }
        if self.next == self.rows.len() {
            return Ok(false);
        }
        let context = SetContext { txn, parameters: &[], collations: &plan.collations };
        for (target, value) in registers.iter_mut().zip(self.rows.row(self.next, context)) {
            assign(target, value);
        }
        self.next += 1;
        Ok(true)
    }
}

/// The database of a query's first pipeline; `main` for a query without one.
fn database_of(query: &QueryPlan) -> usize {
    let first = query.node.unordered().pipelines().and_then(|mut all| all.next());
    first.map_or(MAIN, |pipeline| pipeline.database)
}

/// True where all pipelines of a query read one database.
fn is_of(query: &QueryPlan, database: usize) -> bool {
    let pipelines = query.node.unordered().pipelines();
    pipelines.is_some_and(|mut all| all.all(|pipeline| pipeline.database == database))
}

impl RowSet {
    /// Puts the rows so far into a file; they are of the parts up to a number.
    fn spill(
        &self,
        session: &dyn Session,
        (number, ops): (usize, impl Iterator<Item = CompoundOp>),
        context: SetContext<'_>,
    ) -> Result<Box<SetFile>, Error> {
        let base = number.saturating_sub(1);
        let mut file = Box::new(SetFile {
            waiting: Waiting::new(std::iter::once(Collation::Binary)),
            ops: ops.skip(base).collect(),
            base,
            row: Vec::new(),
            key: Vec::new(),
        });
        // Rows of the current part come behind the rows of the parts before.
        for row in 0..self.len() {
            let of = if number > 0 && self.is_of_part(row) { number } else { base };
            let row = self.row(row, context);
            file.push(session, (of, CompoundOp::Union), row, context.collations)?;
        }
        Ok(file)
    }
}

impl SetFile {
    /// Appends a row of a part; only the key for an `INTERSECT` or `EXCEPT`.
    fn push<'v>(
        &mut self,
        session: &dyn Session,
        (number, op): (usize, CompoundOp),
        row: impl Iterator<Item = ValueRef<'v>> + Clone,
        collations: &[Collation],
    ) -> Result<(), Error> {
        self.key.clear();
        push_row_key(row.clone(), collations, &mut self.key);
        self.row.clear();
        let part = i64::try_from(number - self.base).unwrap_or(i64::MAX);
        self.row.extend([Value::Blob(self.key.clone()), Value::Int(part)]);
        if let CompoundOp::Union | CompoundOp::UnionAll = op {
            self.row.extend(row.map(Value::from));
        }
        self.waiting.push(session, &self.row)
    }

    fn next(&mut self, registers: &mut [Value]) -> Result<bool, Error> {
        const COLUMNS: usize = 2;
        while let Some(key) = self.waiting.row().first().cloned() {
            // `stays` is true while a row with the key is in the result of the parts before `next`.
            let (mut stays, mut next) = (false, 0);
            while !self.waiting.row().is_empty() && self.waiting.compare([key.as_ref()]).is_eq() {
                let row = self.waiting.row();
                let part = match row.get(1) {
                    Some(Value::Int(part)) => usize::try_from(*part).unwrap_or(0),
                    _ => 0,
                };
                // Another row of the same part changes nothing.
                if part >= next {
                    stays &= !self.leaves_out(next..part);
                    next = part + 1;
                    let op = part.checked_sub(1).and_then(|op| self.ops.get(op));
                    let adds = match op {
                        None | Some(CompoundOp::Union) => true,
                        Some(CompoundOp::UnionAll) => !stays,
                        Some(CompoundOp::Intersect) => false,
                        Some(CompoundOp::Except) => {
                            stays = false;
                            false
                        }
                    };
                    if adds {
                        stays = true;
                        for (target, value) in registers.iter_mut().zip(&row[COLUMNS..]) {
                            assign(target, value.as_ref());
                        }
                    }
                }
                self.waiting.step()?;
            }
            if stays && !self.leaves_out(next..self.ops.len() + 1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True where one of these parts, all without the key, drops the rows with it.
    fn leaves_out(&self, parts: Range<usize>) -> bool {
        let mut ops = parts.filter_map(|part| self.ops.get(part.checked_sub(1)?));
        ops.any(|op| *op == CompoundOp::Intersect)
    }
}

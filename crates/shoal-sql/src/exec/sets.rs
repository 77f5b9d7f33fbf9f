//! `UNION`, `INTERSECT` and `EXCEPT` of any parts. Rows are in memory with a set of their keys.
//! Without room under a limit of memory, the rows wait in a file, sorted by key, and the parts
//! having each key decide.

use std::ops::Range;

use super::Machine;
use super::each_row::each_row;
use super::overflow::Waiting;
use super::pipeline::is_same;
use super::query::{NodeRun, QueryRun};
use crate::Error;
use crate::keep::key::{HashPlaces, hash_value, is_equal, push_row_key};
use crate::keep::{Kept, RowStore, row_size};
use crate::parse::ast::CompoundOp;
use crate::plan::node::{CompoundNode, QueryPlan};
use crate::session::Session;
use crate::value::{Collation, Value, ValueRef, assign};

/// The rows of a compound up to its last part compared with the others; further parts are added
/// with `UNION ALL`.
///
/// From equal rows SQLite gives the last part's of a `UNION`, and within a part the first.
#[derive(Debug, Default)]
pub(super) struct SetRows {
    rows: RowStore,
    keys: HashPlaces,
    /// The place of each key's row.
    places: Vec<usize>,
    /// While a part of a `UNION` is added: true for each key whose row is the part's.
    taken: Vec<bool>,
    next: usize,
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
                    let columns = plan.output..plan.output + plan.width;
                    if sets.next(&mut machine.registers[columns])? {
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
        let collations = plan.collations.as_slice();
        let mut this = SetRows::default();
        let parts = plan.rest.iter().take(plan.compared().saturating_sub(1));
        let ops: Vec<CompoundOp> = parts.clone().map(|(op, _)| *op).collect();
        this.add(0, &plan.first, &ops, (machine, collations))?;
        for (number, (op, part)) in parts.enumerate() {
            match op {
                // A later part leaves equal rows out anyway.
                CompoundOp::Union | CompoundOp::UnionAll => {
                    let taken = *op == CompoundOp::UnionAll;
                    this.taken.clear();
                    this.taken.resize(this.places.len(), taken);
                    this.add(number + 1, part, &ops, (machine, collations))?;
                }
                CompoundOp::Except | CompoundOp::Intersect => {
                    let wanted = *op == CompoundOp::Intersect;
                    this.restrict(number + 1, part, wanted, (machine, collations))?;
                }
            }
        }
        if let Some(file) = &mut this.file {
            file.waiting.finish(session)?;
        }
        Ok(this)
    }

    fn add(
        &mut self,
        number: usize,
        part: &QueryPlan,
        ops: &[CompoundOp],
        (machine, collations): (&mut Machine<'_, '_>, &[Collation]),
    ) -> Result<(), Error> {
        let session = machine.session;
        each_row(part, &mut NodeRun::Fresh, machine, |row| {
            if let Some(file) = &mut self.file {
                return file.push(session, number, row.values(), collations);
            }
            let hash = hash_of(row.values(), collations);
            if let Some(key) = self.find(hash, row.values(), collations) {
                let mut pairs = self.rows.row(self.places[key]).zip(row.values());
                if std::mem::replace(&mut self.taken[key], true)
                    || pairs.all(|(a, b)| is_same(a, b))
                {
                    return Ok(());
                }
                self.places[key] = self.rows.len();
            } else {
                self.keys.insert(hash);
                self.places.push(self.rows.len());
                self.taken.push(true);
            }
            self.rows.push(row.values());
            if !self.kept.try_add(session, || (2 * row_size(row.values()), 0)) {
                let file = self.spill(session, number, ops, collations)?;
                self.file = Some(Box::new(file));
            }
            Ok(())
        })
    }

    /// Keeps the rows present in a part, or the rows missing from it.
    fn restrict(
        &mut self,
        number: usize,
        part: &QueryPlan,
        wanted: bool,
        (machine, collations): (&mut Machine<'_, '_>, &[Collation]),
    ) -> Result<(), Error> {
        let session = machine.session;
        let mut found = vec![false; self.places.len()];
        each_row(part, &mut NodeRun::Fresh, machine, |row| {
            if let Some(file) = &mut self.file {
                return file.push_key(session, number, row.values(), collations);
            }
            let hash = hash_of(row.values(), collations);
            if let Some(place) = self.find(hash, row.values(), collations) {
                found[place] = true;
            }
            Ok(())
        })?;
        if self.file.is_some() {
            return Ok(());
        }
        let (mut rows, mut keys) = (RowStore::default(), HashPlaces::default());
        self.kept.clear();
        let stay = self.places.iter().zip(&found).filter(|(_, found)| **found == wanted);
        for (&place, _) in stay {
            let row = self.rows.row(place);
            self.kept.note(session, 2 * row_size(row.clone()));
            keys.insert(hash_of(row.clone(), collations));
            rows.push(row);
        }
        self.places = (0..rows.len()).collect();
        (self.rows, self.keys) = (rows, keys);
        Ok(())
    }

    /// The number of a row equal to this one, among the rows so far.
    fn find<'v>(
        &self,
        hash: u64,
        row: impl Iterator<Item = ValueRef<'v>> + Clone,
        collations: &[Collation],
    ) -> Option<usize> {
        self.keys.find(hash, |key| {
            let mut pairs = self.rows.row(self.places[key]).zip(row.clone()).zip(collations);
            pairs.all(|((a, b), by)| is_equal(a, b, *by))
        })
    }

    /// Puts the rows so far into a file; they are of the parts up to a number.
    fn spill(
        &mut self,
        session: &dyn Session,
        number: usize,
        ops: &[CompoundOp],
        collations: &[Collation],
    ) -> Result<SetFile, Error> {
        let base = number.saturating_sub(1);
        let mut file = SetFile {
            waiting: Waiting::new(std::iter::once(Collation::Binary)),
            ops: ops[base..].to_vec(),
            base,
            row: Vec::new(),
            key: Vec::new(),
        };
        // Rows of the current part come behind the rows of the parts before.
        for (&place, taken) in self.places.iter().zip(&self.taken) {
            let of = if *taken && number > 0 { number } else { base };
            file.push(session, of, self.rows.row(place), collations)?;
        }
        *self = SetRows::default();
        Ok(file)
    }

    /// Puts the next row into registers; false when there is none.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn next(&mut self, registers: &mut [Value]) -> Result<bool, Error> {
        if let Some(file) = &mut self.file {
            return file.next(registers);
        }
        let Some(&place) = self.places.get(self.next) else { return Ok(false) };
        for (target, value) in registers.iter_mut().zip(self.rows.row(place)) {
            assign(target, value);
        }
        self.next += 1;
        Ok(true)
    }
}

/// The hash of a row's columns.
fn hash_of<'v>(row: impl Iterator<Item = ValueRef<'v>>, collations: &[Collation]) -> u64 {
    row.zip(collations).fold(0, |hash, (value, by)| hash_value(value, *by, hash))
}

impl SetFile {
    fn push<'v>(
        &mut self,
        session: &dyn Session,
        number: usize,
        row: impl Iterator<Item = ValueRef<'v>> + Clone,
        collations: &[Collation],
    ) -> Result<(), Error> {
        self.begin(number, row.clone(), collations);
        self.row.extend(row.map(Value::from));
        self.waiting.push(session, &self.row)
    }

    /// As [`SetFile::push`] for a part without rows in the result.
    fn push_key<'v>(
        &mut self,
        session: &dyn Session,
        number: usize,
        row: impl Iterator<Item = ValueRef<'v>>,
        collations: &[Collation],
    ) -> Result<(), Error> {
        self.begin(number, row, collations);
        self.waiting.push(session, &self.row)
    }

    fn begin<'v>(
        &mut self,
        number: usize,
        row: impl Iterator<Item = ValueRef<'v>>,
        collations: &[Collation],
    ) {
        self.key.clear();
        push_row_key(row, collations, &mut self.key);
        self.row.clear();
        let part = i64::try_from(number - self.base).unwrap_or(i64::MAX);
        self.row.extend([Value::Blob(self.key.clone()), Value::Int(part)]);
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

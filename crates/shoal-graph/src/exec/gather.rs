//! Clauses over all rows at once: projections with groups, sorts or cuts, and writing clauses.

use std::cmp::Ordering;

use rustc_hash::{FxHashMap, FxHashSet};

use super::aggregate::Accumulator;
use super::{Outer, write};
use crate::ast::*;
use crate::error::{Error, ErrorClass, Result};
use crate::run::{Env, Run};
use crate::value::{Key, Value};

/// One clause and its rows so far.
pub(super) struct Gather<'c> {
    clause: &'c Clause,
    out: &'c [Value],
    locals: &'c [Value],
    rows: Vec<Vec<Value>>,
    skip: usize,
    limit: usize,
    seen: FxHashSet<Key>,
    /// Rows of a sort: its keys, then the columns.
    sorted: Vec<(Vec<Value>, Vec<Value>)>,
    groups: FxHashMap<Key, usize>,
    states: Vec<(Vec<Value>, Vec<Accumulator>)>,
}

impl<'c> Gather<'c> {
    pub(super) fn new(
        run: &Run<'_>,
        clause: &'c Clause,
        (out, locals): Outer<'c>,
    ) -> Result<Gather<'c>> {
        let (mut skip, mut limit) = (0, usize::MAX);
        if let Clause::Project(projection) = clause {
            let bound = |bound: &Option<Expr>| match bound {
                Some(bound) => row_count(run.eval(bound, &mut Env::of(&[]))?).map(Some),
                None => Ok(None),
            };
            skip = bound(&projection.skip)?.unwrap_or(0);
            limit = bound(&projection.limit)?.unwrap_or(usize::MAX);
        }
        Ok(Gather {
            clause,
            out,
            locals,
            rows: Vec::new(),
            skip,
            limit,
            seen: FxHashSet::default(),
            sorted: Vec::new(),
            groups: FxHashMap::default(),
            states: Vec::new(),
        })
    }

    fn env<'r>(&'r self, row: &'r [Value]) -> Env<'r> {
        Env { row, out: self.out, locals: self.locals.to_vec() }
    }

    /// Takes one row; false where no further row is wanted.
    pub(super) fn add(&mut self, run: &Run<'_>, row: &[Value]) -> Result<bool> {
        let Clause::Project(projection) = self.clause else {
            run.keep_row(row)?;
            self.rows.push(row.to_vec());
            return Ok(true);
        };
        match &projection.groups {
            Some(groups) => self.add_to_group(run, groups, row, 1),
            None => {
                let mut env = self.env(row);
                let mut made = Vec::with_capacity(projection.items.len());
                for item in &projection.items {
                    made.push(run.eval(&item.expr, &mut env)?);
                }
                drop(env);
                self.add_made(run, projection, made, row)
            }
        }
    }

    /// Takes one row so many times; false where no further row is wanted.
    pub(super) fn add_times(&mut self, run: &Run<'_>, row: &[Value], count: u64) -> Result<bool> {
        match self.clause {
            Clause::Project(Projection { groups: Some(groups), .. }) => {
                self.add_to_group(run, groups, row, count)
            }
            // Equal rows are one.
            Clause::Project(Projection { distinct: true, .. }) => self.add(run, row),
            _ => super::times(count, || {
                run.tick()?;
                self.add(run, row)
            }),
        }
    }

    /// Takes a row of columns, made of `row`.
    fn add_made(
        &mut self,
        run: &Run<'_>,
        projection: &Projection,
        made: Vec<Value>,
        row: &[Value],
    ) -> Result<bool> {
        if projection.distinct {
            let key = Key(made.clone());
            if self.seen.contains(&key) {
                return Ok(true);
            }
            run.keep_row(&made)?;
            self.seen.insert(key);
        }
        let wanted = self.skip.saturating_add(self.limit);
        if !projection.order.is_empty() {
            let mut env = Env { row, out: &made, locals: self.locals.to_vec() };
            let mut keys = Vec::with_capacity(projection.order.len());
            for key in &projection.order {
                keys.push(run.eval(&key.expr, &mut env)?);
            }
            drop(env);
            run.keep_row(&made)?;
            self.sorted.push((keys, made));
            if self.sorted.len() / 2 >= wanted.saturating_add(1000) {
                self.sort(projection);
                self.sorted.truncate(wanted);
            }
            return Ok(true);
        }
        if self.rows.len() < wanted {
            run.keep_row(&made)?;
            self.rows.push(made);
        }
        Ok(self.rows.len() < wanted)
    }

    fn sort(&mut self, projection: &Projection) {
        self.sorted.sort_by(|(a, _), (b, _)| {
            for ((a, b), key) in a.iter().zip(b).zip(&projection.order) {
                let order = if key.descending { b.order(a) } else { a.order(b) };
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        });
    }

    fn add_to_group(
        &mut self,
        run: &Run<'_>,
        groups: &Groups,
        row: &[Value],
        count: u64,
    ) -> Result<bool> {
        let mut env = self.env(row);
        let keys =
            groups.keys.iter().map(|key| run.eval(key, &mut env)).collect::<Result<Vec<_>>>()?;
        drop(env);
        let key = Key(keys);
        let at = match self.groups.get(&key) {
            Some(&at) => at,
            None => {
                run.keep_row(&key.0)?;
                let at = self.states.len();
                self.states.push((
                    key.0.clone(),
                    groups.aggregates.iter().map(Accumulator::new).collect(),
                ));
                self.groups.insert(key, at);
                at
            }
        };
        let mut env = Env { row, out: self.out, locals: self.locals.to_vec() };
        for (aggregate, state) in groups.aggregates.iter().zip(&mut self.states[at].1) {
            let args = aggregate
                .args
                .iter()
                .map(|arg| run.eval(arg, &mut env))
                .collect::<Result<Vec<_>>>()?;
            state.add_times(run, args, count)?;
        }
        Ok(true)
    }

    /// The rows for the next clause.
    pub(super) fn finish(mut self, run: &Run<'_>) -> Result<Vec<Vec<Value>>> {
        let Clause::Project(projection) = self.clause else {
            return write::apply(run, self.clause, self.rows);
        };
        if let Some(groups) = &projection.groups {
            if groups.keys.is_empty() && self.states.is_empty() {
                let states = groups.aggregates.iter().map(Accumulator::new).collect();
                self.states.push((Vec::new(), states));
            }
            for (mut row, states) in std::mem::take(&mut self.states) {
                for state in states {
                    row.push(state.finish()?);
                }
                let mut env = self.env(&row);
                let made = projection
                    .items
                    .iter()
                    .map(|item| run.eval(&item.expr, &mut env))
                    .collect::<Result<Vec<_>>>()?;
                drop(env);
                if !self.add_made(run, projection, made, &row)? {
                    break;
                }
            }
        }
        self.sort(projection);
        let rows = match projection.order.is_empty() {
            true => std::mem::take(&mut self.rows),
            false => std::mem::take(&mut self.sorted).into_iter().map(|(_, row)| row).collect(),
        };
        let mut kept = Vec::with_capacity(rows.len().min(1024));
        for row in rows.into_iter().skip(self.skip).take(self.limit) {
            let holds = match &projection.filter {
                // Such a condition reads columns by their expressions.
                Some(filter) if projection.filters_wide => run.holds(
                    filter,
                    &mut Env { row: &[], out: &row, locals: self.locals.to_vec() },
                )?,
                Some(filter) => run.holds(filter, &mut self.env(&row))?,
                None => true,
            };
            if holds {
                kept.push(row);
            }
        }
        Ok(kept)
    }
}

fn row_count(value: Value) -> Result<usize> {
    let wrong =
        |detail, message: &str| Err(Error::runtime(ErrorClass::SyntaxError, detail, message));
    match value {
        Value::Integer(number) if number >= 0 => Ok(usize::try_from(number).unwrap_or(usize::MAX)),
        Value::Integer(_) => wrong("NegativeIntegerArgument", "SKIP and LIMIT are not negative"),
        _ => wrong("InvalidArgumentType", "SKIP and LIMIT are integers"),
    }
}

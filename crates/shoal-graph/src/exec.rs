//! Clauses one after another: rows flow through clauses that only read, and are gathered before
//! those that write, group, sort or cut.
//!
//! A clause that writes sees all rows of the clauses before it first: no row is made of elements
//! that the clause itself wrote.

mod aggregate;
pub(crate) mod compact;
mod gather;
mod write;

use rustc_hash::FxHashSet;

use crate::ast::*;
use crate::error::Result;
use crate::run::{Env, Run};
use crate::value::{Key, Value};
use gather::Gather;

/// The taker of rows: false ends the query.
pub(crate) type RowSink<'s> = dyn FnMut(&Run<'_>, &[Value]) -> Result<bool> + 's;

/// Values around a subquery: columns of a projection, variables of comprehensions.
type Outer<'o> = (&'o [Value], &'o [Value]);

impl Run<'_> {
    /// Runs the parts of a query; `sink` takes the rows of its result.
    pub(crate) fn query(&self, query: &Query, sink: &mut RowSink<'_>) -> Result<()> {
        let mut seen = FxHashSet::default();
        for part in &query.parts {
            let gives_rows = match part.clauses.last() {
                Some(Clause::Project(projection)) => projection.is_return,
                Some(Clause::Call(call)) => call.is_standalone,
                _ => false,
            };
            let goes_on =
                self.part(&part.clauses, vec![Vec::new()], (&[], &[]), &mut |run, row| {
                    if !gives_rows || row.is_empty() {
                        return Ok(true);
                    }
                    if !query.keeps_duplicates && !seen.insert(Key(row.to_vec())) {
                        return Ok(true);
                    }
                    if !query.keeps_duplicates {
                        run.keep_row(row)?;
                    }
                    sink(run, row)
                })?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn part(
        &self,
        clauses: &[Clause],
        rows: Vec<Vec<Value>>,
        outer: Outer<'_>,
        sink: &mut RowSink<'_>,
    ) -> Result<bool> {
        let (mut clauses, mut rows) = (clauses, rows);
        let mut compact = self.compact(clauses, &rows, outer)?;
        loop {
            let Some(at) = clauses.iter().position(gathers) else {
                if let Some(compact) = compact.take() {
                    let (first, rest) = (&clauses[0], &clauses[1..]);
                    return self.compact_rows(compact, first, &mut |run, row, count| {
                        times(count, || {
                            run.stream(rest, row, outer, &mut |run, row| sink(run, row))
                        })
                    });
                }
                for mut row in rows {
                    if !self.stream(clauses, &mut row, outer, &mut |run, row| sink(run, row))? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            };
            let mut gather = Gather::new(self, &clauses[at], outer)?;
            if let Some(compact) = compact.take() {
                rows.clear();
                let between = &clauses[1..at];
                self.compact_rows(compact, &clauses[0], &mut |run, row, count| {
                    if between.is_empty() {
                        return gather.add_times(run, row, count);
                    }
                    times(count, || {
                        run.stream(between, row, outer, &mut |run, row| gather.add(run, row))
                    })
                })?;
            }
            for mut row in rows {
                if !self
                    .stream(&clauses[..at], &mut row, outer, &mut |run, row| gather.add(run, row))?
                {
                    break;
                }
            }
            rows = gather.finish(self)?;
            self.count(&clauses[at], rows.len() as u64);
            clauses = &clauses[at + 1..];
        }
    }

    /// Counts a clause's rows, for `PROFILE`.
    fn count(&self, clause: &Clause, rows: u64) {
        let key = std::ptr::from_ref(clause).addr() as u64;
        let mut profile = self.profile.borrow_mut();
        // Pairs of a clause's address and its count.
        match profile.chunks_exact_mut(2).find(|pair| pair[0] == key) {
            Some(pair) => pair[1] += rows,
            None => profile.extend([key, rows]),
        }
    }

    /// Runs a subquery of an expression on a row; `sink` sees each row in an environment.
    pub(crate) fn subquery(
        &self,
        query: &Subquery,
        env: &Env<'_>,
        sink: &mut dyn FnMut(&Run<'_>, &mut Env<'_>) -> Result<bool>,
    ) -> Result<()> {
        let (out, locals) = (env.out, env.locals.as_slice());
        for part in &query.parts {
            let goes_on = self.part(
                &part.clauses,
                vec![env.row.to_vec()],
                (out, locals),
                &mut |run, row| sink(run, &mut Env { row, out, locals: locals.to_vec() }),
            )?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Runs clauses on one row, none of them gathering.
    fn stream(
        &self,
        clauses: &[Clause],
        row: &mut Vec<Value>,
        outer: Outer<'_>,
        sink: &mut dyn FnMut(&Run<'_>, &mut Vec<Value>) -> Result<bool>,
    ) -> Result<bool> {
        let Some((clause, rest)) = clauses.split_first() else { return sink(self, row) };
        let (out, locals) = outer;
        match clause {
            Clause::Match(found) => {
                let plan = self.plan_of(found)?;
                let mut any = false;
                let goes_on = self.match_rows(found, &plan, row, outer, &mut |run, row| {
                    any = true;
                    run.count(clause, 1);
                    run.stream(rest, row, outer, sink)
                })?;
                if any || !found.optional || !goes_on {
                    return Ok(goes_on);
                }
                row.resize(found.after, Value::Null);
                self.count(clause, 1);
                let goes_on = self.stream(rest, row, outer, sink);
                row.truncate(found.before);
                goes_on
            }
            Clause::Unwind { list, var } => {
                let values = self.eval(list, &mut Env { row, out, locals: locals.to_vec() })?;
                let values: Vec<Value> = match &values {
                    Value::Null => return Ok(true),
                    Value::List(list) => list.to_vec(),
                    other => vec![other.clone()],
                };
                for value in values {
                    self.tick()?;
                    row.truncate(var.slot);
                    row.push(value);
                    self.count(clause, 1);
                    if !self.stream(rest, row, outer, sink)? {
                        return Ok(false);
                    }
                }
                row.truncate(var.slot);
                Ok(true)
            }
            Clause::Project(projection) => {
                let Some(mut made) = self.project(projection, row, outer)? else { return Ok(true) };
                self.count(clause, 1);
                self.stream(rest, &mut made, outer, sink)
            }
            Clause::Call(call) => {
                let width = row.len();
                let before = self.memory.get();
                let results = self.call_rows(call, row, outer)?;
                let held = self.memory.get() - before;
                let mut goes_on = true;
                for result in results {
                    self.tick()?;
                    row.truncate(width);
                    row.extend(result);
                    if let Some(filter) = &call.filter
                        && !self.holds(filter, &mut Env { row, out, locals: locals.to_vec() })?
                    {
                        continue;
                    }
                    self.count(clause, 1);
                    goes_on = self.stream(rest, row, outer, sink)?;
                    if !goes_on {
                        break;
                    }
                }
                row.truncate(width);
                self.memory.set(self.memory.get().saturating_sub(held));
                Ok(goes_on)
            }
            _ => unreachable!("a clause that writes gathers rows"),
        }
    }

    /// A row of the columns of a projection that neither groups nor sorts; nothing where its
    /// condition does not hold.
    fn project(
        &self,
        projection: &Projection,
        row: &[Value],
        outer: Outer<'_>,
    ) -> Result<Option<Vec<Value>>> {
        let (out, locals) = outer;
        let mut env = Env { row, out, locals: locals.to_vec() };
        let mut made = Vec::with_capacity(projection.items.len());
        for item in &projection.items {
            made.push(self.eval(&item.expr, &mut env)?);
        }
        let Some(filter) = &projection.filter else { return Ok(Some(made)) };
        let holds = match projection.filters_wide {
            true => self.holds(filter, &mut Env { row, out: &made, locals: locals.to_vec() })?,
            false => self.holds(filter, &mut Env { row: &made, out, locals: locals.to_vec() })?,
        };
        Ok(holds.then_some(made))
    }

    /// The rows of a procedure, their memory counted; the procedure's own memory is free again.
    fn call_rows(&self, call: &Call, row: &[Value], outer: Outer<'_>) -> Result<Vec<Vec<Value>>> {
        let signature =
            self.procedures.signature(&call.name).expect("the binder found the procedure");
        let (out, locals) = outer;
        let mut env = Env { row, out, locals: locals.to_vec() };
        let args: Vec<Value> = match &call.args {
            Some(args) => args.iter().map(|arg| self.eval(arg, &mut env)).collect::<Result<_>>()?,
            None => signature
                .inputs
                .iter()
                .map(|input| self.parameters.get(&*input.name).cloned().unwrap_or_default())
                .collect(),
        };
        let before = self.memory.get();
        let rows = self.procedures.call(&call.name, &args, self.graph, self)?;
        self.memory.set(before);
        if signature.outputs.is_empty() && rows.is_empty() {
            // A procedure without results does not take rows away.
            return Ok(vec![Vec::new()]);
        }
        let Yield::Items(items) = &call.yields else {
            return Ok(rows.into_iter().map(|_| Vec::new()).collect());
        };
        for row in &rows {
            self.keep_row(row)?;
        }
        let places: Vec<usize> = items
            .iter()
            .map(|(name, _)| {
                signature
                    .outputs
                    .iter()
                    .position(|output| output == name)
                    .expect("the binder checked the names")
            })
            .collect();
        Ok(rows.into_iter().map(|row| places.iter().map(|&at| row[at].clone()).collect()).collect())
    }
}

/// Does something so many times, or until it says no.
fn times(count: u64, mut each: impl FnMut() -> Result<bool>) -> Result<bool> {
    for _ in 0..count {
        if !each()? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True of a clause with a need of all rows before its first.
fn gathers(clause: &Clause) -> bool {
    match clause {
        Clause::Match(_) | Clause::Unwind { .. } | Clause::Call(_) => false,
        Clause::Project(projection) => {
            projection.groups.is_some()
                || projection.distinct
                || !projection.order.is_empty()
                || projection.skip.is_some()
                || projection.limit.is_some()
        }
        _ => true,
    }
}

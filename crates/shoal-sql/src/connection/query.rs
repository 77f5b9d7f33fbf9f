//! Statements run for their rows.
//!
//! Beginning and ending take half of a small statement's time, so a query over `main` alone has a
//! short way: no list of snapshots, no error made in advance. All other statements are behind one
//! call (`Connection::query_other`).

use std::borrow::Borrow;
use std::sync::Arc;

use super::statement::{Compiled, Statement};
use super::{Connection, attached, prepared_snapshots};
use crate::Error;
use crate::exec::with_once;
use crate::plan::Program;
use crate::rows::{Origin, Rows};
use crate::schema::{AttachedSnapshots, BESIDE, MAIN, Snapshot, Txns};
use crate::session::{Analysis, Control, StatementSession};
use crate::value::Value;

impl Connection {
    /// Runs a statement for its rows. One that gives none is executed.
    ///
    /// # Errors
    /// What the statement is refused for when the schema changed since it was prepared; what it
    /// raises; what is wrong with the file.
    pub fn query<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error> {
        if !matches!(statement.plan.compiled, Compiled::Query(_))
            || !self.databases.is_empty()
            || !self.virtual_writers.is_empty()
        {
            return self.query_other(statement);
        }
        self.control.begin();
        self.outstanding.end_with_read(self.transaction.is_some());
        let snapshot = match (&self.transaction, &mut self.pinned) {
            (Some(transaction), _) => Snapshot::Shared(transaction),
            (None, Some(pinned)) => {
                Snapshot::Shared(pinned.get_or_begin(&self.store, &self.control.watch)?)
            }
            (None, None) => {
                Snapshot::Own(Box::new(attached::begin(&self.store, &self.control.watch)?))
            }
        };
        let is_known = self.schemas.whole().is_some_and(|schema| {
            Arc::ptr_eq(schema, &statement.plan.schema)
                && schema.cookie() == snapshot.get().schema_cookie()
        });
        if !is_known {
            let main = snapshot.get();
            self.schemas.refresh_main(&self.store, main)?;
            let (schemas, databases) = (&mut self.schemas, &self.databases);
            prepared_snapshots(schemas, databases, &self.control, statement, (main, None))?;
        }
        statement.state = Some(match statement.plan.compiled.reads(MAIN) {
            true => self.states.number(MAIN, snapshot.get()),
            false => 0,
        });
        let Statement { plan, parameters, values, memory, spare, .. } = statement;
        let Compiled::Query(program) = &plan.compiled else {
            unreachable!("a query that is planned again is a query")
        };
        let session = || self.environment.session(self.counts, &self.control, &self.store);
        let parameters = with_values(program, (parameters, values), session)?;
        let is_limited = self.control.memory_bytes().is_some();
        let rows_max = self.control.limits.rows;
        if let Some(root) = &program.pipeline
            && !(is_limited && (root.compares || root.keeps_rowids))
        {
            return Rows::of_pipeline(snapshot, (program, root), parameters, memory, rows_max);
        }
        let snapshots = (snapshot, AttachedSnapshots::new());
        let rows = Rows::of_program(
            snapshots,
            (plan.origin(), program),
            (parameters, memory, spare),
            is_limited,
            session,
        )?;
        Ok(rows.at_most(rows_max))
    }

    /// The same of statements other than queries, and beside attached databases.
    #[cold]
    #[inline(never)]
    fn query_other<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error> {
        let gives_rows = match &statement.plan.compiled {
            Compiled::Query(_)
            | Compiled::QueryPlan(_)
            | Compiled::Tree(_)
            | Compiled::Analyze(_) => true,
            Compiled::Pragma(pragma) => {
                !pragma.writes()
                    && pragma.flags(self.schemas.flags).is_none()
                    && pragma.defers_all().flatten().is_none()
            }
            Compiled::Write(_) if !statement.plan.columns.is_empty() => {
                let (_, rows) = self.execute_returning(statement)?;
                return Ok(Rows::of_values(statement.plan.columns.len(), &rows));
            }
            _ => false,
        };
        if !gives_rows {
            self.execute(statement)?;
            return Ok(Rows::of_values(0, &[]));
        }
        if !self.virtual_writers.is_empty() {
            self.flush_virtual_but(&statement.plan.compiled)?;
        }
        self.control.begin();
        if let Compiled::Pragma(pragma) = &statement.plan.compiled
            && pragma.is_of_store()
        {
            let rows = self.run_pragma(pragma)?;
            if pragma.shapes_new_file() {
                self.schemas.forget();
            }
            return Ok(Rows::of_values(statement.plan.columns.len(), &rows));
        }
        if let Compiled::Pragma(pragma) = &statement.plan.compiled
            && pragma.defers_all().is_some()
        {
            return Ok(Rows::of_values(1, &[vec![self.outstanding.defers_all.into()]]));
        }
        self.outstanding.end_with_read(self.transaction.is_some());
        let watch = &self.control.watch;
        if !self.databases.is_empty() {
            self.databases.begin(self.transaction.is_some(), watch)?;
        }
        let snapshot = match (&self.transaction, &mut self.pinned) {
            (Some(transaction), _) => Snapshot::Shared(transaction),
            (None, Some(pinned)) => Snapshot::Shared(pinned.get_or_begin(&self.store, watch)?),
            (None, None) => Snapshot::Own(Box::new(attached::begin(&self.store, watch)?)),
        };
        let main = snapshot.get();
        self.schemas.refresh_main(&self.store, main)?;
        let (schemas, databases) = (&mut self.schemas, &self.databases);
        let attached =
            prepared_snapshots(schemas, databases, &self.control, statement, (main, None))?;
        statement.state = Some(0);
        if statement.plan.compiled.reads(MAIN) {
            statement.state = Some(self.states.number(MAIN, snapshot.get()));
        }
        for (place, attached) in attached.iter().enumerate() {
            let database = place + BESIDE;
            if let Some(attached) = attached
                && statement.plan.compiled.reads(database)
            {
                let number = self.states.number(database, attached.get());
                statement.state = statement.state.max(Some(number));
            }
        }
        let Statement { plan, parameters, values, memory, spare, .. } = statement;
        let (schema, columns) = (&plan.schema, &plan.columns);
        let rows = match &plan.compiled {
            Compiled::Query(program) => {
                let is_limited = self.control.memory_bytes().is_some();
                let snapshots = (snapshot, attached);
                let session = || self.environment.session(self.counts, &self.control, &self.store);
                let parameters = with_values(program, (parameters, values), session)?;
                Rows::of_program(
                    snapshots,
                    (plan.origin(), program),
                    (parameters, memory, spare),
                    is_limited,
                    session,
                )?
            }
            Compiled::QueryPlan(rows) | Compiled::Tree(rows) => {
                Rows::of_values(columns.len(), rows)
            }
            Compiled::Analyze(program) => {
                let session = self.environment.session(self.counts, &self.control, &self.store);
                let snapshots = (snapshot, attached);
                let tree = analyze(
                    snapshots,
                    (plan.origin(), program),
                    parameters,
                    session,
                    &self.control,
                )?;
                Rows::of_values(columns.len(), &tree)
            }
            Compiled::Pragma(pragma) => {
                let txns = Txns::new(snapshot.get(), &attached);
                let rows = match pragma.data_version_of(schema)? {
                    Some(database) => {
                        let version = txns.of(database)?.began_at();
                        vec![vec![Value::Int(self.data_versions.number(database, version))]]
                    }
                    None => pragma.rows(schema, txns)?,
                };
                Rows::of_values(columns.len(), &rows)
            }
            _ => return Err(Error::Misuse { what: "a statement changed its kind" }),
        };
        Ok(rows.at_most(self.control.limits.rows))
    }
}

/// The parameters of a run straight from the pages: behind the statement's own are values computed
/// when the run begins. Other runs compute theirs.
///
/// # Errors
/// As [`with_once`].
fn with_values<'c, S: Borrow<StatementSession>>(
    program: &Program,
    (parameters, values): (&'c [Value], &'c mut Vec<Value>),
    session: impl FnOnce() -> S,
) -> Result<&'c [Value], Error> {
    if program.once.codes.is_empty() || program.pipeline.is_none() {
        return Ok(parameters);
    }
    *values = with_once(program, parameters, session().borrow())?;
    Ok(values)
}

/// Runs a query to its end; gives the tree of its nodes with their measures.
fn analyze<'c>(
    snapshots: (Snapshot<'c>, AttachedSnapshots<'c>),
    (origin, program): (Origin<'_>, &Program),
    parameters: &[Value],
    mut session: StatementSession,
    control: &Control,
) -> Result<Vec<Vec<Value>>, Error> {
    let analysis = Arc::new(Analysis::new(program.measures, Arc::clone(&control.watch)));
    session.analysis = Some(Arc::clone(&analysis));
    let begun = analysis.begin();
    let mut values = Vec::new();
    let parameters = with_values(program, (parameters, &mut values), || &session)?;
    let mut kept = (Vec::new(), None);
    let kept = (parameters, &mut kept.0, &mut kept.1);
    let is_limited = control.memory_bytes().is_some();
    let mut rows = Rows::of_program(snapshots, (origin, program), kept, is_limited, || session)?;
    let mut count = 0;
    while rows.next()?.is_some() {
        count += 1;
    }
    let analysis = rows.analysed().unwrap_or(analysis);
    drop(rows);
    let (_, program) = origin.made.latest(program);
    analysis.ended(program.root.measure, begun, count);
    Ok(program.tree(Some(&|number| analysis.measured(number))))
}

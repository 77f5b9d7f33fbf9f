//! Statements that change the file: rows and definitions.
//!
//! A statement is prepared against a schema, where everything that is not supported is refused,
//! and executed within a write transaction. It happens as a whole or not at all, unless its own
//! `OR FAIL` says otherwise: a savepoint of the store is taken before the first change. Rows to be
//! changed are collected before any is, so that no statement sees its own changes.

mod actions;
mod alter;
mod analyze;
mod bulk;
mod bulk_loader;
mod change;
mod collected;
mod constraints;
mod create_index;
mod create_table;
mod create_trigger;
mod create_view;
mod delete;
mod direct;
mod drop;
mod edits;
mod explained;
pub(crate) mod foreign_keys;
mod home;
mod index_sums;
mod insert;
pub(crate) mod integrity;
mod narrowed;
mod plain;
mod query;
pub(crate) mod references;
mod reindex;
mod reserved;
mod returning;
mod row;
mod rows;
mod schema_rows;
mod sequence;
mod set_queries;
mod sets;
mod sorted_entries;
mod table_writer;
mod target;
mod text;
mod told;
mod triggers;
mod update;
mod upsert;
pub(crate) mod vacuum;
mod virtual_table;

use shoal_store::{Savepoint, Transaction};

pub use bulk_loader::{BulkLoader, RowEncoder};
pub(crate) use edits::edit_rows;
pub use edits::{Edited, RowEdit};
pub(crate) use explained::query_of;
pub(crate) use home::needs_temp;
pub(crate) use reserved::{refuse_closed, refuse_reserved};
pub use table_writer::TableWriter;

use crate::Error;
use crate::error::Raise;
use crate::kept::{KeptReads, RowKeeper};
use crate::parse::Parsed;
use crate::parse::ast::{Conflict, DropKind, Stmt};
use crate::plan::Program;
use crate::resolve::Around;
use crate::schema::{Schema, Snapshot, Txns, VirtualWriters};
use crate::session::Session;
use crate::value::Value;
pub(crate) use direct::Direct;
use references::{Outstanding, Violations};
use sequence::Sequences;
use triggers::{Programs, Within};

/// A prepared statement that writes.
#[derive(Debug)]
pub(crate) struct Plan {
    kind: Kind,
    /// The number of the database written to.
    home: usize,
    /// The numbers of other databases written to, by triggers of `temp` or because of them.
    others: Vec<usize>,
    /// Rows of kept tables may change.
    is_kept: bool,
    /// What triggers do, their own triggers included.
    programs: Programs,
    /// The short way, for most rows of a statement that writes one.
    direct: Option<Direct>,
}

#[derive(Debug)]
enum Kind {
    Insert(Box<insert::InsertPlan>),
    Update(Box<update::UpdatePlan>),
    Delete(Box<delete::DeletePlan>),
    CreateTable(Box<create_table::CreateTablePlan>),
    CreateIndex(Box<create_index::CreateIndexPlan>),
    CreateView(create_view::CreateViewPlan),
    CreateTrigger(create_trigger::CreateTriggerPlan),
    Drop(drop::DropPlan),
    Reindex(reindex::ReindexPlan),
    Alter(Box<alter::AlterPlan>),
    Analyze(analyze::AnalyzePlan),
    CreateVirtual(Box<virtual_table::CreateVirtualPlan>),
    DeclareVirtual(virtual_table::DeclareVirtualPlan),
    ChangeVirtual(virtual_table::ChangeVirtualPlan),
    /// `IF NOT EXISTS` or `IF EXISTS` found that there is nothing to do.
    Nothing,
}

/// What a plan knows of its rows before it runs.
pub(crate) enum RowsWritten<'p> {
    /// The statement's own values.
    Given,
    /// The rows that a query finds.
    Found(&'p Program),
    /// Neither, or rows of kept, virtual and other tables, whose writers look at the statement.
    Other,
}

impl Plan {
    /// What is known of the rows written.
    pub(crate) fn rows_written(&self) -> RowsWritten<'_> {
        match &self.kind {
            _ if self.is_kept => RowsWritten::Other,
            Kind::Insert(plan) => plan.rows_written(),
            Kind::Update(plan) => plan.rows_written(),
            Kind::Delete(plan) => plan.rows_written(),
            _ => RowsWritten::Other,
        }
    }

    /// The number of the database written to.
    pub(crate) fn home(&self) -> usize {
        self.home
    }

    /// The numbers of the other databases written to, in order.
    pub(crate) fn others(&self) -> &[usize] {
        &self.others
    }

    /// The short way, where the statement may take it.
    #[inline]
    pub(crate) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }

    /// True where rows of kept tables may change.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether its queries may read databases that were attached.
    pub(crate) fn reads_attached(&self) -> bool {
        !matches!(self.kind, Kind::Nothing)
    }

    /// True for an `INSERT`, `UPDATE` or `DELETE`, implicit ones included: `changes()` counts.
    pub(crate) fn changes_rows(&self, defers_all: bool) -> bool {
        match &self.kind {
            Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_) => true,
            Kind::Drop(plan) => plan.deletes_rows(defers_all),
            _ => false,
        }
    }

    /// True for `ANALYZE`, whose numbers are a part of the schema of plans.
    pub(crate) fn changes_statistics(&self) -> bool {
        matches!(self.kind, Kind::Analyze(_))
    }

    /// The names of the columns of `RETURNING`; none without it.
    pub(crate) fn columns(&self) -> Vec<String> {
        let returning = match &self.kind {
            Kind::Insert(plan) => plan.returning(),
            Kind::Update(plan) => plan.returning(),
            Kind::Delete(plan) => plan.returning(),
            _ => None,
        };
        returning.map(returning::Returning::columns).unwrap_or_default()
    }
}

/// What a statement runs with.
pub(crate) struct Context<'a> {
    /// The number of the database written to.
    pub(crate) home: usize,
    /// `main`, where the statement writes to other databases alone.
    pub(crate) main: Option<&'a Transaction>,
    /// May write.
    pub(crate) transaction: &'a mut Transaction,
    /// The other databases written to by the statement, by their numbers.
    pub(crate) others: &'a mut [(usize, Transaction)],
    /// What else its queries read.
    pub(crate) attached: &'a [Option<Snapshot<'a>>],
    /// As of the transaction.
    pub(crate) schema: &'a Schema,
    pub(crate) session: &'a dyn Session,
    /// By number, from 1.
    pub(crate) parameters: &'a [Value],
    pub(crate) programs: &'a Programs,
    /// Asked about rows of kept tables.
    pub(crate) keeper: Option<&'a dyn RowKeeper>,
    pub(crate) state: &'a mut State,
}

/// What a statement keeps while it runs, those of its triggers included.
#[derive(Debug, Default)]
pub(crate) struct State {
    sequences: Sequences,
    /// Violations of foreign keys so far.
    violations: Violations,
    /// The programs that are running, the outermost first.
    firing: Vec<usize>,
    /// The rows of `RETURNING`.
    pub(crate) returned: Vec<Vec<Value>>,
    /// Memory reused by one statement after the other.
    pub(crate) scratch: Scratch,
    /// The writers of virtual tables in the transaction.
    pub(crate) writers: VirtualWriters,
}

/// Memory for making rows, reused from row to row and from statement to statement.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) row: row::Row,
    pub(crate) records: rows::Records,
    pub(crate) plain: plain::PlainRecords,
}

impl<'a> Context<'a> {
    /// What queries read in.
    pub(crate) fn txns(&self) -> Txns<'_> {
        let main = self.main.unwrap_or(self.transaction);
        let txns = Txns::new(main, self.attached).with_others(self.others);
        txns.with_written(self.home, self.transaction)
    }

    /// Turns to another database of the statement; gives the number of the database before.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database not declared by the statement.
    fn enter(&mut self, database: usize) -> Result<usize, Error> {
        let before = self.home;
        if database == before {
            return Ok(before);
        }
        let other = self.others.iter_mut().find(|(other, _)| *other == database);
        let undeclared = Error::Misuse { what: "a database was written outside a transaction" };
        let (number, transaction) = other.ok_or(undeclared)?;
        std::mem::swap(self.transaction, transaction);
        *number = before;
        self.home = database;
        Ok(before)
    }

    /// Does some work in a database of the statement, and turns back.
    ///
    /// # Errors
    /// The work's; [`Error::Misuse`] for a database not declared by the statement.
    pub(crate) fn in_database<T, E: From<Error>>(
        &mut self,
        database: usize,
        work: impl FnOnce(&mut Context<'a>) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.enter(database)?;
        let done = work(self);
        self.enter(before)?;
        done
    }

    /// Does some work in each database of the statement, the present one first.
    ///
    /// # Errors
    /// The first of the work's.
    pub(crate) fn in_each(
        &mut self,
        mut work: impl FnMut(&mut Context<'a>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        work(self)?;
        for place in 0..self.others.len() {
            // Turning back puts both transactions into their places again.
            self.in_database(self.others[place].0, &mut work)?;
        }
        Ok(())
    }

    /// Stores the counters of `AUTOINCREMENT`, each in its database.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn store_sequences(&mut self) -> Result<(), Error> {
        for sequence in self.state.sequences.take() {
            self.in_database(sequence.database(), |context| sequence.store(context.transaction))?;
        }
        Ok(())
    }

    /// The keeper of kept tables, with what there is to read.
    pub(crate) fn keeper(&self) -> Result<(&'a dyn RowKeeper, KeptReads<'_>), Error> {
        let Some(keeper) = self.keeper else {
            return Err(Error::Misuse { what: "a kept table is written without its keeper" });
        };
        Ok((keeper, KeptReads { schema: self.own_schema(), transaction: self.transaction }))
    }

    /// The schema of the database written to.
    pub(crate) fn own_schema(&self) -> &'a Schema {
        match self.schema.narrowing() {
            Some(narrowing) => &narrowing.whole,
            None => self.schema.of_database(self.home).unwrap_or(self.schema),
        }
    }
}

/// What a statement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Done {
    /// Rows inserted, changed or deleted.
    pub(crate) changes: u64,
    /// The rowid of the last row inserted into a table that has them.
    pub(crate) last_insert_rowid: Option<i64>,
}

/// An error and what becomes of the changes made so far.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// `Abort`: the statement's were undone. `Fail`: they stay. `Rollback`: the caller undoes the
    /// whole transaction. Never anything else.
    pub(crate) resolution: Conflict,
    /// What stays done all the same: rows changed before `Fail`, and the last rowid, which SQLite
    /// remembers even of rows that were taken back.
    pub(crate) done: Done,
    /// True for an error of the statement's own expressions over values in sight: under rules told
    /// in its own words.
    pub(crate) is_in_sight: bool,
}

impl Failure {
    /// The failure of expressions that a statement has over values in sight.
    fn in_sight(error: Error) -> Failure {
        Failure { is_in_sight: true, ..Failure::from(error) }
    }

    /// The failure of a program behind the change of a row; the change counts under `OR FAIL`.
    fn of_changed_row(mut self) -> Failure {
        self.done.changes = u64::from(self.resolution == Conflict::Fail);
        self
    }

    /// The failure of a statement that had already done this.
    fn after(mut self, done: Done) -> Failure {
        self.done.last_insert_rowid = self.done.last_insert_rowid.or(done.last_insert_rowid);
        if self.resolution == Conflict::Fail {
            self.done.changes += done.changes;
        }
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let resolution = match &error {
            Error::Raised { raise: Raise::Fail, .. } => Conflict::Fail,
            Error::Raised { raise: Raise::Rollback, .. } => Conflict::Rollback,
            _ => Conflict::Abort,
        };
        Failure { error, resolution, done: Done::default(), is_in_sight: false }
    }
}

impl From<shoal_store::Error> for Failure {
    fn from(error: shoal_store::Error) -> Failure {
        Error::from(error).into()
    }
}

/// Prepares a statement; `sql` is its text, parts of which go into the schema. The trees of `txns`
/// decide how its queries are planned.
///
/// # Errors
/// Names that mean nothing, definitions that contradict themselves, what is not supported.
///
/// # Panics
/// For a statement that does not write.
pub(crate) fn prepare(
    schema: &Schema,
    parsed: &Parsed,
    sql: &str,
    txns: Option<Txns<'_>>,
) -> Result<Plan, Error> {
    let home = home::of(schema, &parsed.stmt)?;
    let mut within = Within::new(schema, home, parsed.is_silent, parsed.guard);
    let (home, own) = (within.home, within.own);
    let around = Around { txns, ..Around::statement(parsed.parameters.len()) };
    let kind = match &parsed.stmt {
        Stmt::Insert(insert) if virtual_table::declares(&within, insert) => {
            virtual_table::prepare_declared(&within, insert)?
        }
        Stmt::Insert(insert) => {
            Kind::Insert(Box::new(insert::prepare(&mut within, insert, around)?))
        }
        Stmt::Update(update) => {
            Kind::Update(Box::new(update::prepare(&mut within, update, around)?))
        }
        Stmt::Delete(delete) => {
            Kind::Delete(Box::new(delete::prepare(&mut within, delete, around)?))
        }
        Stmt::CreateTable(create) => create_table::prepare(&within, create, sql, around)?,
        Stmt::CreateIndex(create) => create_index::prepare(&within, create, sql)?,
        Stmt::CreateView(create) => create_view::prepare(&within, create, sql)?,
        Stmt::CreateTrigger(create) => create_trigger::prepare(&within, create, sql)?,
        Stmt::Drop { kind: DropKind::Trigger, name, if_exists } => {
            create_trigger::prepare_drop(own, name, *if_exists)?
        }
        Stmt::Drop { kind, name, if_exists } => {
            drop::prepare(&mut within, *kind, name, *if_exists)?
        }
        Stmt::Reindex(name) => reindex::prepare(own, name.as_ref())?,
        Stmt::AlterTable(alter) => alter::prepare(&mut within, alter, sql)?,
        Stmt::Analyze(name) => analyze::prepare(schema, name.as_ref())?,
        Stmt::CreateVirtualTable(create) => virtual_table::prepare_create(&within, create)?,
        other => unreachable!("does not write: {other:?}"),
    };
    let is_kept = within.is_kept();
    let direct = match is_kept || home != crate::schema::MAIN {
        true => None,
        false => Direct::new(own, &parsed.stmt, &kind),
    };
    let others = within.others();
    Ok(Plan { kind, home, others, is_kept, programs: within.into_programs(), direct })
}

/// What a plan runs with, beside the plan.
pub(crate) struct Running<'a> {
    /// As of [`Context`].
    pub(crate) home: usize,
    pub(crate) main: Option<&'a Transaction>,
    pub(crate) transaction: &'a mut Transaction,
    pub(crate) others: &'a mut [(usize, Transaction)],
    pub(crate) attached: &'a [Option<Snapshot<'a>>],
    pub(crate) schema: &'a Schema,
    pub(crate) session: &'a dyn Session,
    pub(crate) parameters: &'a [Value],
    /// The transaction's violations; unchanged by a statement taken back.
    pub(crate) outstanding: &'a mut Outstanding,
    /// Left by the statement before.
    pub(crate) scratch: &'a mut Scratch,
    /// Asked about rows of kept tables.
    pub(crate) keeper: Option<&'a dyn RowKeeper>,
    /// The writers of virtual tables in the transaction.
    pub(crate) writers: &'a mut VirtualWriters,
    /// True where the transaction ends with the statement: writers keep nothing.
    pub(crate) flushes: bool,
}

/// Executes a prepared statement; gives the rows of its `RETURNING`, too.
///
/// # Errors
/// [`Failure`]: a constraint, the store, or what an expression raised.
pub(crate) fn execute(
    plan: &Plan,
    running: Running<'_>,
) -> Result<(Done, Vec<Vec<Value>>), Failure> {
    let Running {
        home,
        main,
        transaction,
        others,
        attached,
        schema,
        session,
        parameters,
        outstanding,
        scratch,
        keeper,
        writers,
        flushes,
    } = running;
    let keeper = keeper.filter(|_| plan.is_kept);
    let violations = Violations::of(*outstanding);
    let mut state = State {
        violations,
        scratch: std::mem::take(scratch),
        writers: std::mem::take(writers),
        ..State::default()
    };
    let mut context = Context {
        home,
        main,
        transaction,
        others,
        attached,
        schema,
        session,
        parameters,
        programs: &plan.programs,
        keeper,
        state: &mut state,
    };
    let work = |context: &mut Context<'_>| {
        if !matches!(plan.kind, Kind::Insert(_) | Kind::Update(_) | Kind::Delete(_)) {
            // Shadow tables may be others afterwards.
            context.flush_writers()?;
            context.state.writers.clear();
        }
        let done = match &plan.kind {
            Kind::Insert(plan) => plan.execute(context),
            Kind::Update(plan) => plan.execute(context),
            Kind::Delete(plan) => plan.execute(context),
            Kind::CreateTable(plan) => plan.execute(context),
            Kind::CreateIndex(plan) => plan.execute(context).map_err(Failure::from),
            Kind::CreateView(plan) => plan.execute(context).map_err(Failure::from),
            Kind::CreateTrigger(plan) => plan.execute(context).map_err(Failure::from),
            Kind::Drop(plan) => plan.execute(context),
            Kind::Reindex(plan) => plan.execute(context).map_err(Failure::from),
            Kind::Alter(plan) => plan.execute(context).map_err(Failure::from),
            Kind::Analyze(plan) => plan.execute(context).map_err(Failure::from),
            Kind::CreateVirtual(plan) => plan.execute(context).map_err(Failure::from),
            Kind::DeclareVirtual(plan) => plan.execute(context).map_err(Failure::from),
            Kind::ChangeVirtual(plan) => plan.execute(context).map_err(Failure::from),
            Kind::Nothing => Ok(Done::default()),
        };
        let done = match done {
            // Changes kept by `OR FAIL` must meet the keys, too.
            Err(failure) if failure.resolution == Conflict::Fail => {
                let done = failure.done;
                let whole = context.state.violations.check_statement();
                return Err(whole
                    .map_err(|violated| violated.after(done))
                    .err()
                    .unwrap_or(failure));
            }
            done => done?,
        };
        context.state.violations.check_statement().map_err(|failure| failure.after(done))?;
        context.store_sequences()?;
        Ok(done)
    };
    let result = match &plan.kind {
        Kind::Insert(plan) if plan.stores_whole() => work(&mut context),
        Kind::Insert(plan) if plan.leaves_file_whole() => undoing(&mut context, false, work),
        _ => undoing(&mut context, true, work),
    };
    let keeps = result.as_ref().err().is_none_or(|failure| failure.resolution == Conflict::Fail);
    let flushed = if keeps && flushes { context.flush_writers() } else { Ok(()) };
    if flushes {
        context.state.writers.clear();
    }
    if keeps {
        *outstanding = state.violations.outstanding;
    }
    *writers = std::mem::take(&mut state.writers);
    flushed?;
    *scratch = std::mem::take(&mut state.scratch);
    Ok((result?, state.returned))
}

/// Does some work and undoes its changes where it fails and its failure says so: those of the file,
/// if it `changes_file` when it fails, and what keepers and writers have in memory.
fn undoing<T>(
    context: &mut Context<'_>,
    changes_file: bool,
    work: impl FnOnce(&mut Context<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mark = Mark::of(context, changes_file)?;
    let mut beside = Vec::new();
    for place in 0..context.others.len() {
        let database = context.others[place].0;
        let mark = context.in_database(database, |context| Mark::of(context, changes_file))?;
        beside.push((database, mark));
    }
    let moment = context.keeper.map(|keeper| (keeper, keeper.moment()));
    let result = work(context);
    let undoes = result.as_ref().is_err_and(|failure| failure.resolution == Conflict::Abort);
    mark.end(context, undoes)?;
    for (database, mark) in beside {
        context.in_database(database, |context| mark.end(context, undoes))?;
    }
    if let Some((keeper, moment)) = moment.filter(|_| undoes) {
        keeper.rollback_to(moment);
    }
    result
}

/// A moment of one database before a statement.
struct Mark {
    savepoint: Option<Savepoint>,
    /// Moments of the writers of virtual tables.
    writers: Vec<usize>,
}

impl Mark {
    fn of(context: &mut Context<'_>, changes_file: bool) -> Result<Mark, Error> {
        let writers = context.with_writers(VirtualWriters::savepoint)?;
        let savepoint = match changes_file {
            true => Some(context.transaction.savepoint()?),
            false => None,
        };
        Ok(Mark { savepoint, writers })
    }

    /// Forgets the moment; with `undoes` takes back all changes since.
    fn end(self, context: &mut Context<'_>, undoes: bool) -> Result<(), Error> {
        if undoes {
            if let Some(savepoint) = &self.savepoint {
                context.transaction.rollback_to(savepoint)?;
            }
            context.state.writers.rollback_to(Some(context.home), &self.writers);
        }
        if let Some(savepoint) = self.savepoint {
            context.transaction.release(savepoint)?;
        }
        context.state.writers.release(Some(context.home), &self.writers);
        Ok(())
    }
}

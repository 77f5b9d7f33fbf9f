//! Statements that change the file: rows and definitions.
//!
//! A statement is prepared against a schema, where everything that is not supported is refused,
//! and executed within a write transaction. It happens as a whole or not at all, unless its own
//! `OR FAIL` says otherwise: a savepoint of the store is taken before the first change. Rows to be
//! changed are collected before any is, so that no statement sees its own changes.

mod constraints;
mod create_index;
mod create_table;
mod create_view;
mod delete;
mod drop;
pub(crate) mod foreign_keys;
mod insert;
pub(crate) mod integrity;
mod query;
mod reserved;
mod row;
mod row_expr;
mod rows;
mod schema_rows;
mod sequence;
mod table_writer;
mod target;
mod text;
mod update;

use shoal_store::Transaction;

pub(crate) use reserved::{refuse_attached, refuse_reserved};
pub use table_writer::TableWriter;

use crate::Error;
use crate::parse::ast::{Conflict, DropKind, Stmt};
use crate::schema::{Schema, Snapshot, Txns};
use crate::session::Session;
use crate::value::Value;

/// A prepared statement that writes.
#[derive(Debug)]
pub(crate) enum Plan {
    Insert(Box<insert::InsertPlan>),
    Update(Box<update::UpdatePlan>),
    Delete(Box<delete::DeletePlan>),
    CreateTable(Box<create_table::CreateTablePlan>),
    CreateIndex(Box<create_index::CreateIndexPlan>),
    CreateView(create_view::CreateViewPlan),
    Drop(drop::DropPlan),
    /// `IF NOT EXISTS` or `IF EXISTS` found that there is nothing to do.
    Nothing,
}

impl Plan {
    /// Whether its queries may read databases that were attached.
    pub(crate) fn reads_attached(&self) -> bool {
        !matches!(self, Plan::Nothing)
    }

    /// Whether it is an `INSERT`, `UPDATE` or `DELETE`, which `changes()` counts.
    pub(crate) fn changes_rows(&self) -> bool {
        matches!(self, Plan::Insert(_) | Plan::Update(_) | Plan::Delete(_))
    }
}

/// What a statement runs with.
pub(crate) struct Context<'a> {
    /// May write.
    pub(crate) transaction: &'a mut Transaction,
    /// What else its queries read.
    pub(crate) attached: &'a [Option<Snapshot<'a>>],
    /// As of the transaction.
    pub(crate) schema: &'a Schema,
    pub(crate) session: &'a dyn Session,
    /// By number, from 1.
    pub(crate) parameters: &'a [Value],
}

impl Context<'_> {
    /// What queries read in.
    pub(crate) fn txns(&self) -> Txns<'_> {
        Txns::new(self.transaction, self.attached)
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
}

impl Failure {
    /// The failure of a statement that had already done this.
    fn after(mut self, done: Done) -> Failure {
        self.done.last_insert_rowid = done.last_insert_rowid;
        if self.resolution == Conflict::Fail {
            self.done.changes = done.changes;
        }
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { error, resolution: Conflict::Abort, done: Done::default() }
    }
}

impl From<shoal_store::Error> for Failure {
    fn from(error: shoal_store::Error) -> Failure {
        Error::from(error).into()
    }
}

/// Prepares a statement; `sql` is its text, parts of which go into the schema.
///
/// # Errors
/// Names that mean nothing, definitions that contradict themselves, what is not supported.
///
/// # Panics
/// For a statement that does not write.
pub(crate) fn prepare(schema: &Schema, stmt: &Stmt, sql: &str) -> Result<Plan, Error> {
    match stmt {
        Stmt::Insert(insert) => insert::prepare(schema, insert).map(Box::new).map(Plan::Insert),
        Stmt::Update(update) => update::prepare(schema, update).map(Box::new).map(Plan::Update),
        Stmt::Delete(delete) => delete::prepare(schema, delete).map(Box::new).map(Plan::Delete),
        Stmt::CreateTable(create) => create_table::prepare(schema, create, sql),
        Stmt::CreateIndex(create) => create_index::prepare(schema, create, sql),
        Stmt::Drop { kind: DropKind::Trigger, name, .. } => {
            Err(Error::unsupported("DROP TRIGGER", name.name.offset))
        }
        Stmt::Drop { kind, name, if_exists } => drop::prepare(schema, *kind, name, *if_exists),
        Stmt::CreateView(create) => create_view::prepare(schema, create, sql),
        Stmt::CreateVirtualTable { name, .. } => {
            Err(Error::unsupported("CREATE VIRTUAL TABLE", name.name.offset))
        }
        other => unreachable!("does not write: {other:?}"),
    }
}

/// Executes a prepared statement.
///
/// # Errors
/// [`Failure`]: a constraint, the store, or what an expression raised.
pub(crate) fn execute(plan: &Plan, context: &mut Context<'_>) -> Result<Done, Failure> {
    undoing(context, |context| match plan {
        Plan::Insert(plan) => plan.execute(context),
        Plan::Update(plan) => plan.execute(context),
        Plan::Delete(plan) => plan.execute(context),
        Plan::CreateTable(plan) => plan.execute(context),
        Plan::CreateIndex(plan) => plan.execute(context).map_err(Failure::from),
        Plan::CreateView(plan) => plan.execute(context).map_err(Failure::from),
        Plan::Drop(plan) => plan.execute(context).map_err(Failure::from),
        Plan::Nothing => Ok(Done::default()),
    })
}

/// Does some work and undoes its changes where it fails and its failure says so.
fn undoing<T>(
    context: &mut Context<'_>,
    work: impl FnOnce(&mut Context<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let savepoint = context.transaction.savepoint()?;
    let result = work(context);
    if result.as_ref().is_err_and(|failure| failure.resolution == Conflict::Abort) {
        context.transaction.rollback_to(&savepoint)?;
    }
    context.transaction.release(savepoint)?;
    result
}

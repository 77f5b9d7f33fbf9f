//! Prepared statements.

use std::sync::Arc;

use crate::connection::plans::{Found, Plan};
use crate::connection::pragma::Pragma;
use crate::exec::pipeline::Memory;
use crate::parse::ast::{Name, TransactionMode};
use crate::plan::{Program, tree};
use crate::rows::General;
use crate::value::{Value, ValueRef, assign};
use crate::write;
use crate::{Connection, Error};

/// A statement, parsed and planned; run it as often as you like.
///
/// It belongs to no connection: when it is run against another schema than it was planned for, it
/// is planned again.
#[derive(Debug)]
pub struct Statement {
    pub(crate) plan: Arc<Plan>,
    /// `Some` where the plan belongs to the text's shape.
    of_shape: Option<OfShape>,
    pub(crate) parameters: Vec<Value>,
    /// The parameters of the last run with the values computed for the run behind them.
    pub(crate) values: Vec<Value>,
    /// Memory of the last run, for the next one; of no use to another plan.
    pub(crate) memory: Vec<Memory>,
    pub(crate) spare: Option<Box<General>>,
    /// The number of the state of the databases read last; `None` before the first run, 0 for a
    /// statement without a database.
    pub(crate) state: Option<u64>,
}

/// A statement's own part beside the plan of its shape. The plan's parameters are literals of the
/// text: nobody binds them.
#[derive(Debug)]
struct OfShape {
    sql: Box<str>,
    /// The names of the result's columns, where some are literals.
    columns: Option<Vec<String>>,
}

/// A compiled statement.
#[derive(Debug)]
pub(crate) enum Compiled {
    Query(Box<Program>),
    Write(Box<write::Plan>),
    /// The rows of `EXPLAIN QUERY PLAN`.
    QueryPlan(Vec<Vec<Value>>),
    /// Those of `EXPLAIN`.
    Tree(Vec<Vec<Value>>),
    /// `EXPLAIN ANALYZE` of a query.
    Analyze(Box<Program>),
    Pragma(Pragma),
    /// The file and the name.
    Attach(Box<Program>),
    /// The name.
    Detach(Box<Program>),
    /// `VACUUM`, with the name of another file to write into.
    Vacuum(Option<Box<Program>>),
    Begin(TransactionMode),
    Commit,
    Rollback,
    Savepoint(Name),
    Release(Name),
    RollbackTo(Name),
}

impl Compiled {
    /// True where running the statement reads the database of a number.
    pub(crate) fn reads(&self, database: usize) -> bool {
        match self {
            Compiled::Query(program) | Compiled::Analyze(program) => program.reads(database),
            Compiled::Write(plan) => plan.reads_attached(),
            Compiled::Pragma(_) => true,
            _ => false,
        }
    }

    pub(crate) fn columns(&self) -> Vec<String> {
        match self {
            Compiled::Query(program) => {
                program.columns.iter().map(|column| column.name.clone()).collect()
            }
            Compiled::QueryPlan(_) => {
                ["id", "parent", "notused", "detail"].map(str::to_owned).to_vec()
            }
            Compiled::Tree(_) => tree::HEADINGS.map(str::to_owned).to_vec(),
            Compiled::Analyze(_) => {
                tree::HEADINGS.iter().chain(&tree::MEASURED).map(|&name| name.to_owned()).collect()
            }
            Compiled::Pragma(pragma) => pragma.columns(),
            Compiled::Write(plan) => plan.columns(),
            _ => Vec::new(),
        }
    }
}

impl Statement {
    /// A statement of a plan, with nothing of another statement but its memory.
    pub(crate) fn new(plan: Arc<Plan>) -> Statement {
        let parameters = vec![Value::Null; plan.parsed.parameters.len()];
        let (memory, spare, state) = (plan.take_memory(), None, None);
        let values = Vec::new();
        Statement { plan, of_shape: None, parameters, values, memory, spare, state }
    }

    /// The statement `sql` with the plan found for the text.
    pub(crate) fn of_found(sql: &str, found: Found) -> Statement {
        match found {
            Found::OfText(plan) => Statement::new(plan),
            Found::OfShape(plan, parameters, columns) => {
                let of_shape = Some(OfShape { sql: sql.into(), columns });
                let (memory, spare, state) = (plan.take_memory(), None, None);
                let values = Vec::new();
                Statement { plan, of_shape, parameters, values, memory, spare, state }
            }
        }
    }

    /// The statement's own text, where the plan belongs to its shape: another schema needs a plan
    /// of the text.
    pub(crate) fn text_of_shape(&self) -> Option<&str> {
        self.of_shape.as_ref().map(|of_shape| &*of_shape.sql)
    }

    /// Takes a plan for another schema, made of the statement's own text.
    pub(crate) fn replan(&mut self, plan: Arc<Plan>) {
        if self.of_shape.take().is_some() {
            self.parameters.clear();
        }
        self.plan = plan;
        self.memory.clear();
        self.spare = None;
    }

    /// The statement's text.
    pub fn sql(&self) -> &str {
        self.text_of_shape().unwrap_or(&self.plan.sql)
    }

    /// The names of the result's columns, as SQLite gives them; empty for what gives no rows.
    pub fn column_names(&self) -> &[String] {
        let own = self.of_shape.as_ref().and_then(|of_shape| of_shape.columns.as_deref());
        own.unwrap_or(&self.plan.columns)
    }

    /// How many columns the result has; 0 for what gives no rows.
    pub fn column_count(&self) -> usize {
        self.plan.columns.len()
    }

    /// The declared type of the table's column behind a column of the result.
    pub fn column_declared_type(&self, index: usize) -> Option<&str> {
        match &self.plan.compiled {
            Compiled::Query(program) => program.columns.get(index)?.declared_type.as_deref(),
            _ => None,
        }
    }

    /// How many parameters there are: the highest number of one.
    pub fn parameter_count(&self) -> usize {
        self.named_parameters().len()
    }

    /// The names of the text's own parameters.
    fn named_parameters(&self) -> &[Option<String>] {
        if self.of_shape.is_some() { &[] } else { &self.plan.parsed.parameters }
    }

    /// The number of the parameter of that name, which includes its `:`, `@`, `$` or `?`.
    pub fn parameter_index(&self, name: &str) -> Option<usize> {
        let known = |parameter: &Option<String>| parameter.as_deref() == Some(name);
        self.named_parameters().iter().position(known).map(|index| index + 1)
    }

    /// The name of a parameter, by its number from 1.
    pub fn parameter_name(&self, index: usize) -> Option<&str> {
        self.named_parameters().get(index.checked_sub(1)?)?.as_deref()
    }

    /// Gives a parameter its value, by its number from 1. It keeps the value until it is given
    /// another; parameters without one are NULL.
    ///
    /// # Errors
    /// [`Error::Misuse`] when there is no such parameter.
    #[inline]
    pub fn bind(&mut self, index: usize, value: impl Into<Value>) -> Result<(), Error> {
        let slot = index.checked_sub(1).and_then(|index| self.parameters.get_mut(index));
        match slot {
            Some(slot) if self.of_shape.is_none() => {
                *slot = value.into();
                Ok(())
            }
            _ => Err(Error::Misuse { what: "no parameter has that number" }),
        }
    }

    /// As [`Statement::bind`], copying the value into the memory of the parameter's last text or
    /// blob: binding one after the other allocates nothing.
    ///
    /// # Errors
    /// As [`Statement::bind`].
    pub fn bind_ref(&mut self, index: usize, value: ValueRef<'_>) -> Result<(), Error> {
        let slot = index.checked_sub(1).and_then(|index| self.parameters.get_mut(index));
        match slot {
            Some(slot) if self.of_shape.is_none() => {
                assign(slot, value);
                Ok(())
            }
            _ => Err(Error::Misuse { what: "no parameter has that number" }),
        }
    }

    /// Makes every parameter NULL again.
    pub fn clear_bindings(&mut self) {
        if self.of_shape.is_none() {
            self.parameters.fill(Value::Null);
        }
    }

    /// Whether what the statement gave when it last ran may have changed by now: whether anybody
    /// has committed since, this connection included, to `main` or an attached database that it
    /// reads, or the open transaction has written or gone back. What others commit counts within a
    /// transaction, too, although it does not show there. Never false after such a commit.
    ///
    /// True before it ran and where it would be planned again. Without a commit it is true only of
    /// a file in write-ahead log mode: always as long as nothing was written to its log
    /// ([`shoal_store::Version`] says why), and once the log was emptied.
    ///
    /// Cost: as [`Connection::is_stale`].
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn is_stale(&self, connection: &Connection) -> Result<bool, Error> {
        Ok(self.state.is_none() || self.state != connection.state_of(self)?)
    }

    /// True where the rows are a plan: `EXPLAIN QUERY PLAN`.
    pub fn is_plan(&self) -> bool {
        matches!(self.plan.compiled, Compiled::QueryPlan(_))
    }

    /// True where the statement only reads.
    pub fn is_read_only(&self) -> bool {
        match &self.plan.compiled {
            Compiled::Query(_)
            | Compiled::QueryPlan(_)
            | Compiled::Tree(_)
            | Compiled::Analyze(_) => true,
            Compiled::Write(_) | Compiled::Vacuum(None) => false,
            Compiled::Pragma(pragma) => {
                !pragma.writes() && !pragma.sets_journal_mode() && !pragma.sets_key()
            }
            Compiled::Attach(_)
            | Compiled::Detach(_)
            | Compiled::Vacuum(Some(_))
            | Compiled::Begin(_)
            | Compiled::Commit
            | Compiled::Rollback
            | Compiled::Savepoint(_)
            | Compiled::Release(_)
            | Compiled::RollbackTo(_) => true,
        }
    }
}

impl Drop for Statement {
    /// Leaves the memory to the next statement of a plan kept by a connection.
    fn drop(&mut self) {
        if !self.memory.is_empty() && Arc::strong_count(&self.plan) > 1 {
            self.plan.give_memory(&mut self.memory);
        }
    }
}

//! The seam for rows outside of files: table-valued functions and virtual tables.
//!
//! A module is registered with a connection ([`Connection::register_module`]) or built in; names in
//! a `FROM` are resolved to modules, plans hold them, and the executor reads rows from them without
//! knowing more. Only the crates above register modules: this crate need not know them.
//!
//! [`Connection::register_module`]: crate::Connection::register_module

use std::fmt;
use std::sync::Arc;

use super::{Schema, Txns};
use crate::Error;
use crate::session::Session;
use crate::value::Value;

/// The name of the module that gives the rows of `table AS OF value`, if one is registered. Its
/// arguments are the table's name, 1 for `FOR SYSTEM_TIME AS OF` or 0, and the value; its rows have
/// the table's columns.
pub const PAST_MODULE: &str = "AS OF";

/// A table-valued function, or a table whose rows a program makes.
pub trait Module: fmt::Debug + Send + Sync {
    /// The name in a `FROM`, compared in any case.
    fn name(&self) -> &str;

    /// The columns of `*`.
    fn columns(&self) -> Vec<&str>;

    /// The declared type of a column of `*`: the column has the affinity of a table's column with
    /// this type, and its values are as the affinity would store them.
    fn declared_type(&self, _column: usize) -> &str {
        ""
    }

    /// The hidden columns behind them: the arguments, given in parentheses or by a condition
    /// `argument = value`.
    fn arguments(&self) -> &[&str] {
        &[]
    }

    /// The value of an argument's column where the argument was not given.
    fn default_argument(&self, _argument: usize) -> Value {
        Value::Null
    }

    /// True for a table: its name without parentheses is found before tables and views of the file,
    /// like names in `temp`. False for a function: a table of the same name comes first.
    fn is_table(&self) -> bool {
        false
    }

    /// True where the rows depend on the schema or the databases, then read in the statement's
    /// transactions.
    fn reads_schema(&self) -> bool {
        false
    }

    /// True where rows of the databases are read by [`ModuleContext::query`] alone, and no row
    /// read on a narrowed connection ([`ModuleContext::is_narrowed`]) is kept behind the statement.
    /// Narrowed connections have the module, too: its queries see the part of the principal.
    fn reads_by_queries(&self) -> bool {
        false
    }

    /// True where the rows are about `main` alone: the name behind that of another database is
    /// refused.
    fn is_of_main(&self) -> bool {
        false
    }

    /// The node of plans answering the calls for many rows of a join together; `None` where
    /// [`Module::open`] answers each call.
    fn operator(&self) -> Option<&dyn Operator> {
        None
    }

    /// Begins to give rows. Missing arguments are `None`.
    ///
    /// # Errors
    /// Refused arguments; the statement ends with the error.
    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error>;
}

/// A node of plans made by a module: rows go in, rows come out.
///
/// Where the arguments of a call are columns of tables joined before, the planner puts the node
/// above their join. Rows of the join go in by batches, the calls' arguments as their columns; each
/// row coming out belongs to one row of the batch. `EXPLAIN` shows the node and the join below.
///
/// A call without tables before, and a call at the right of an outer join, go to
/// [`Module::open`]: both ways give the same rows.
pub trait Operator: fmt::Debug + Send + Sync {
    /// The word for the node in `EXPLAIN`.
    fn name(&self) -> &str;

    /// Most rows of a batch. A statement's first batches are smaller, for a `LIMIT` may end it.
    fn batch_rows(&self) -> usize {
        256
    }

    /// Begins a run.
    ///
    /// # Errors
    /// The module's own; the statement ends with the error.
    fn open(&self) -> Result<Box<dyn OperatorRows>, Error>;
}

/// A run of an [`Operator`].
pub trait OperatorRows: fmt::Debug + Send {
    /// Takes a batch: one list of arguments for each row, `None` for missing ones. Rows of the
    /// batch before have all been given.
    ///
    /// # Errors
    /// Refused arguments; the statement ends with the error.
    fn take(
        &mut self,
        batch: &[Vec<Option<Value>>],
        context: &ModuleContext<'_>,
    ) -> Result<(), Error>;

    /// Appends the next row's values to `row`, empty on entry, as [`ModuleRows::next`] does; gives
    /// the place of its row in the batch. Places never fall. `None` after the last row of the
    /// batch.
    ///
    /// # Errors
    /// The module's own; the statement ends with the error.
    fn next(
        &mut self,
        row: &mut Vec<Value>,
        context: &ModuleContext<'_>,
    ) -> Result<Option<usize>, Error>;
}

/// The rows of a module on their way.
pub trait ModuleRows: fmt::Debug + Send {
    /// Appends the next row's values to `row`, empty on entry: one for each column of `*`, NULL for
    /// missing ones. False after the last row.
    ///
    /// # Errors
    /// The module's own; the statement ends with the error.
    fn next(&mut self, row: &mut Vec<Value>, context: &ModuleContext<'_>) -> Result<bool, Error>;

    /// Called once before the first row with the columns of `*` in use, ascending; others may be
    /// NULL. Where `folds`, rows with equal values in these columns may come as one row, and
    /// [`ModuleRows::repeats`] tells their number.
    fn reads(&mut self, _columns: &[usize], _folds: bool) {}

    /// Number of equal rows behind the row given last: 1 unless rows are folded.
    fn repeats(&self) -> u64 {
        1
    }

    /// The same rows once more from the first on, for a module with the same rows throughout a
    /// statement. Such rows are made once: each further place naming the module in the statement
    /// reads them through this function.
    fn again(&self) -> Option<Box<dyn ModuleRows>> {
        None
    }
}

/// The running statement, as seen by a module.
#[derive(Clone, Copy)]
pub struct ModuleContext<'a> {
    pub(crate) schema: Option<&'a Schema>,
    pub(crate) txns: Txns<'a>,
    pub(crate) session: &'a dyn Session,
    /// The module being opened, where its own queries are not to find it.
    pub(crate) module: Option<&'a str>,
}

impl ModuleContext<'_> {
    /// To be called every few steps by a module taking long over one row.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the statement is to stop.
    pub fn check(&self) -> Result<(), Error> {
        self.session.check()
    }

    /// The time of the call, in milliseconds since 1970-01-01 UTC: for work with a time limit.
    pub fn clock_unix_ms(&self) -> i64 {
        self.session.clock_unix_ms()
    }

    /// The numbers of the states being read, one for each database, `None` for a database not read.
    /// Equal numbers are equal states: a key for results kept by a module from statement to
    /// statement. `None` altogether within a writing transaction, and on a narrowed connection,
    /// where some of a state's rows are hidden.
    pub fn states(&self) -> Option<Vec<Option<u64>>> {
        match self.schema?.narrowing() {
            Some(_) => None,
            None => self.txns.states(),
        }
    }

    /// True on a narrowed connection: queries see the part of a principal.
    pub fn is_narrowed(&self) -> bool {
        self.schema.is_some_and(|schema| schema.narrowing().is_some())
    }

    /// The schema of `main`, with the other databases beside; `None` unless
    /// [`Module::reads_schema`] is true.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema
    }
}

impl fmt::Debug for ModuleContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleContext").finish_non_exhaustive()
    }
}

/// Rows made when a module was opened.
#[derive(Debug)]
pub(crate) struct MadeRows(pub(crate) std::vec::IntoIter<Vec<Value>>);

impl MadeRows {
    pub(crate) fn boxed(rows: Vec<Vec<Value>>) -> Box<dyn ModuleRows> {
        Box::new(MadeRows(rows.into_iter()))
    }
}

impl ModuleRows for MadeRows {
    fn next(&mut self, row: &mut Vec<Value>, _context: &ModuleContext<'_>) -> Result<bool, Error> {
        let Some(next) = self.0.next() else { return Ok(false) };
        *row = next;
        Ok(true)
    }
}

/// Modules by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Modules(pub(crate) Arc<[Arc<dyn Module>]>);

impl Modules {
    /// The module called `name`, in any case.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Module>> {
        self.0.iter().find(|module| module.name().eq_ignore_ascii_case(name))
    }
}

//! The seam for rows that lie in no file: table-valued functions and virtual tables.
//!
//! A module is registered with a connection ([`Connection::register_module`]) or built in; names in a
//! `FROM` are resolved to modules, plans hold them, and the executor reads rows from them without
//! knowing what they are. Only the crates above register modules, so that this one need not know them.
//!
//! [`Connection::register_module`]: crate::Connection::register_module

use std::fmt;
use std::sync::Arc;

use super::{Schema, Txns};
use crate::Error;
use crate::session::Session;
use crate::value::Value;

/// A table-valued function, or a table whose rows a program makes.
pub trait Module: fmt::Debug + Send + Sync {
    /// The name in a `FROM`, compared in any case.
    fn name(&self) -> &str;

    /// The columns that `*` stands for.
    fn columns(&self) -> Vec<&str>;

    /// The hidden columns behind them: the arguments, given in parentheses or by a condition
    /// `argument = value`.
    fn arguments(&self) -> &[&str] {
        &[]
    }

    /// The value of an argument's column where the argument was not given.
    fn default_argument(&self, _argument: usize) -> Value {
        Value::Null
    }

    /// True for a table: its name without parentheses is found before tables and views of the file, as
    /// names in `temp` are. False for a function: a table of the same name comes first.
    fn is_table(&self) -> bool {
        false
    }

    /// True where the rows depend on the schema or the databases, which are then read in the
    /// statement's transactions.
    fn reads_schema(&self) -> bool {
        false
    }

    /// Begins to give rows. Arguments that were not given are `None`.
    ///
    /// # Errors
    /// Arguments that are refused; the statement ends with the error.
    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error>;
}

/// The rows of a module on their way.
pub trait ModuleRows: fmt::Debug + Send {
    /// Appends the next row's values to `row`, which is empty: one for each column that `*` stands for,
    /// those that are missing being NULL. False after the last row.
    ///
    /// # Errors
    /// The module's own; the statement ends with the error.
    fn next(&mut self, row: &mut Vec<Value>, context: &ModuleContext<'_>) -> Result<bool, Error>;

    /// The same rows once more from the first on, for a module whose rows stay the same throughout a
    /// statement and are made once: each further place in the statement that names it reads these.
    fn again(&self) -> Option<Box<dyn ModuleRows>> {
        None
    }
}

/// What a module may ask of the statement that reads it.
#[derive(Clone, Copy)]
pub struct ModuleContext<'a> {
    pub(crate) schema: Option<&'a Schema>,
    pub(crate) txns: Txns<'a>,
    pub(crate) session: &'a dyn Session,
}

impl ModuleContext<'_> {
    /// To be asked every few rows by a module that takes long over one.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the statement is to stop.
    pub fn check(&self) -> Result<(), Error> {
        self.session.check()
    }

    /// The schema of `main`, with the other databases beside it; `None` unless
    /// [`Module::reads_schema`] says that the rows depend on it.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema
    }
}

impl fmt::Debug for ModuleContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModuleContext").finish_non_exhaustive()
    }
}

/// Rows that were made when a module was opened.
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
    /// The module of that name, in any case.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn Module>> {
        self.0.iter().find(|module| module.name().eq_ignore_ascii_case(name))
    }
}

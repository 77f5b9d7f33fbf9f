//! Table-valued functions made of closures, and queries run by modules.

use std::fmt;

use crate::Error;
use crate::exec::for_each_row;
use crate::parse::ast::Stmt;
use crate::parse::parse;
use crate::plan;
use crate::schema::{
    Module, ModuleContext, ModuleRows, Object, Operator, Schema, TableReads, Txns,
};
use crate::session::Session;
use crate::value::Value;

/// Rows of a table-valued function: one value for each column, missing ones NULL, in the order of
/// the columns.
pub type TableFunctionRows = Box<dyn Iterator<Item = Result<Vec<Value>, Error>> + Send>;

type Open =
    dyn Fn(&[Option<Value>], &ModuleContext<'_>) -> Result<TableFunctionRows, Error> + Send + Sync;

/// A table-valued function of a program
/// ([`Connection::create_table_function`](crate::Connection::create_table_function)).
///
/// ```
/// # use shoal_sql::{Connection, TableFunction, Value, ValueRef};
/// # let mut connection = Connection::open(shoal_store::Store::memory())?;
/// let words = TableFunction::new("words", &["word", "length"], &["text"], |arguments, _| {
///     let text = match &arguments[0] {
///         Some(Value::Text(text)) => String::from_utf8_lossy(text).into_owned(),
///         _ => String::new(),
///     };
///     let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
///     Ok(words.into_iter().map(|word| {
///         let length = word.len() as i64;
///         Ok(vec![word.into(), length.into()])
///     }))
/// });
/// connection.create_table_function(words)?;
/// let mut statement = connection.prepare("SELECT max(length) FROM words('one three five')")?;
/// let mut rows = connection.query(&mut statement)?;
/// assert_eq!(rows.next()?.unwrap().get(0), ValueRef::Int(5));
/// # Ok::<(), shoal_sql::Error>(())
/// ```
pub struct TableFunction {
    name: String,
    columns: Vec<String>,
    arguments: Vec<&'static str>,
    defaults: Vec<Value>,
    reads_databases: bool,
    is_of_queries: bool,
    is_of_main: bool,
    open: Box<Open>,
    operator: Option<Box<dyn Operator>>,
}

impl TableFunction {
    /// A function `name` with rows of `columns`. `arguments` are hidden columns behind them: they
    /// are given in parentheses, `FROM f(1, 2)`, or by conditions, `FROM f WHERE argument = 1`,
    /// and may depend on rows of other tables in the `FROM`.
    ///
    /// `open` is called once for each place naming the function, and again for each row of the
    /// tables that its arguments depend on. The slice has one value for each argument, `None` for
    /// those not given. The iterator is asked for no more rows than the statement needs; its first
    /// error ends the statement ([`Error::of_function`] makes one of a sentence).
    pub fn new<I>(
        name: impl Into<String>,
        columns: &[&str],
        arguments: &[&'static str],
        open: impl Fn(&[Option<Value>], &ModuleContext<'_>) -> Result<I, Error> + Send + Sync + 'static,
    ) -> TableFunction
    where
        I: IntoIterator<Item = Result<Vec<Value>, Error>>,
        I::IntoIter: Send + 'static,
    {
        TableFunction {
            name: name.into(),
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            arguments: arguments.to_vec(),
            defaults: vec![Value::Null; arguments.len()],
            reads_databases: false,
            is_of_queries: false,
            is_of_main: false,
            open: Box::new(move |arguments, context| {
                Ok(Box::new(open(arguments, context)?.into_iter()) as TableFunctionRows)
            }),
            operator: None,
        }
    }

    /// The value that an argument's hidden column shows where the argument was not given; NULL
    /// unless set. `open` is told `None` all the same.
    ///
    /// # Panics
    /// When there is no such argument.
    #[must_use]
    pub fn default_argument(mut self, argument: usize, value: impl Into<Value>) -> TableFunction {
        self.defaults[argument] = value.into();
        self
    }

    /// Lets `open` read the databases by [`ModuleContext::query`], in the transactions of the
    /// statement. Such a statement begins to read every attached database.
    #[must_use]
    pub fn reads_databases(mut self) -> TableFunction {
        self.reads_databases = true;
        self
    }

    /// Gives the function to narrowed connections, too: says that `open` reads by
    /// [`ModuleContext::query`] alone, and on a narrowed connection
    /// ([`ModuleContext::is_narrowed`]) keeps nothing behind the statement.
    #[must_use]
    pub fn for_narrowed(mut self) -> TableFunction {
        self.is_of_queries = true;
        self
    }

    /// Says that the rows are about the database `main` alone: `FROM other.name(...)` is refused.
    #[must_use]
    pub fn of_main(mut self) -> TableFunction {
        self.is_of_main = true;
        self
    }

    /// Answers the calls for many rows of a join together, by a node of the plan.
    #[must_use]
    pub fn operator(mut self, operator: impl Operator + 'static) -> TableFunction {
        self.operator = Some(Box::new(operator));
        self
    }

    /// # Errors
    /// [`Error::Misuse`] for an empty name, no columns, and names that two columns share.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.name.is_empty() || self.columns.is_empty() {
            return Err(Error::Misuse { what: "a table function has a name and a column" });
        }
        let hidden = self.arguments.iter().copied();
        let mut names: Vec<String> = self
            .columns
            .iter()
            .map(String::as_str)
            .chain(hidden)
            .map(str::to_ascii_lowercase)
            .collect();
        names.sort_unstable();
        match names.windows(2).any(|pair| pair[0] == pair[1]) {
            true => Err(Error::Misuse { what: "two columns of a table function share a name" }),
            false => Ok(()),
        }
    }
}

impl Module for TableFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(String::as_str).collect()
    }

    fn arguments(&self) -> &[&str] {
        &self.arguments
    }

    fn default_argument(&self, argument: usize) -> Value {
        self.defaults.get(argument).cloned().unwrap_or_default()
    }

    fn reads_schema(&self) -> bool {
        self.reads_databases
    }

    fn reads_by_queries(&self) -> bool {
        self.is_of_queries
    }

    fn is_of_main(&self) -> bool {
        self.is_of_main
    }

    fn operator(&self) -> Option<&dyn Operator> {
        self.operator.as_deref()
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let context = ModuleContext { module: Some(&self.name), ..*context };
        Ok(Box::new(Rows((self.open)(arguments, &context)?)))
    }
}

impl fmt::Debug for TableFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFunction")
            .field("name", &self.name)
            .field("columns", &self.columns)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

/// The rows still to come.
struct Rows(TableFunctionRows);

impl ModuleRows for Rows {
    fn next(&mut self, row: &mut Vec<Value>, _context: &ModuleContext<'_>) -> Result<bool, Error> {
        let Some(next) = self.0.next() else { return Ok(false) };
        *row = next?;
        Ok(true)
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl ModuleContext<'_> {
    /// Runs a query within the statement: it reads the same states of the databases, sees what the
    /// open transaction changed, and counts towards the statement's limits. `parameters` are by
    /// number from 1. `each` is called with every row; its error ends the query.
    ///
    /// Modules registered under the name of the [`TableFunction`] that asks, and those registered
    /// later, are not found: no function can call itself by way of a view. Cost: the query is
    /// parsed and planned at each call.
    ///
    /// # Errors
    /// [`Error::Misuse`] unless the function [reads databases](TableFunction::reads_databases);
    /// what the query is refused for, and what it raises.
    pub fn query(
        &self,
        sql: &str,
        parameters: &[Value],
        each: impl FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(schema) = self.schema else {
            return Err(Error::Misuse {
                what: "a module that queries says that it reads the schema",
            });
        };
        let before;
        let schema = match self.module {
            Some(name) => {
                before = schema.before_module(name);
                &before
            }
            None => schema,
        };
        run((schema, self.txns, self.session), sql, parameters, each)
    }
}

impl ModuleContext<'_> {
    /// The faults of a virtual table, as its module finds them.
    ///
    /// # Errors
    /// `no such table`, other tables, those of unknown modules; errors stopping the search.
    pub fn check_virtual(&self, database: Option<&str>, table: &str) -> Result<Vec<String>, Error> {
        let Some(schema) = self.schema else {
            return Err(Error::Misuse {
                what: "a module that looks at tables says that it reads the schema",
            });
        };
        let home = database.map(|name| schema.database(name).unwrap_or(usize::MAX));
        let found = schema.find(home.filter(|home| *home != usize::MAX), table);
        let Some((database, Object::Virtual(definition))) = found else {
            return Err(Error::of_function(format!("no such virtual table: {table}")));
        };
        let connected = definition.connect(schema, database)?;
        let (narrowed, txns, session) = (None, self.txns, self.session);
        let reads = TableReads { schema, narrowed, txns, database, session };
        connected.instance.check(&reads)
    }
}

impl TableReads<'_> {
    /// Runs a query within the statement, as [`ModuleContext::query`] does: for what is found
    /// elsewhere than in shadow tables. Names without a database are looked up as in any statement.
    ///
    /// # Errors
    /// Errors of preparing and running the query.
    pub fn query(
        &self,
        sql: &str,
        parameters: &[Value],
        each: impl FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        run(self.parts(), sql, parameters, each)
    }

    /// Runs a query within the statement of a narrowed connection, over what the principal sees.
    ///
    /// # Errors
    /// As [`TableReads::query`]; [`Error::Misuse`] on any other connection.
    pub(crate) fn query_narrowed(
        &self,
        sql: &str,
        each: impl FnMut(&[Value]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (_, txns, session) = self.parts();
        match self.narrowed {
            Some(narrowed) => run((narrowed, txns, session), sql, &[], each),
            None => Err(Error::Misuse { what: "visible rows are those of a narrowed connection" }),
        }
    }
}

/// Runs a module's query within a statement.
fn run(
    (schema, txns, session): (&Schema, Txns<'_>, &dyn Session),
    sql: &str,
    parameters: &[Value],
    each: impl FnMut(&[Value]) -> Result<(), Error>,
) -> Result<(), Error> {
    let parsed = parse(sql)?;
    let Stmt::Select(select) = &parsed.stmt else {
        return Err(Error::Misuse { what: "a module runs queries, no other statements" });
    };
    let program = plan::plan(schema, select, Some(txns))?;
    for_each_row(&program, (txns, Some(schema)), session, parameters, each)
}

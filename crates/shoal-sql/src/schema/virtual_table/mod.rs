//! The seam for virtual tables whose rows live in the file: `CREATE VIRTUAL TABLE ... USING`.
//!
//! A [`TableModule`] is a kind of such tables. Its tables keep their rows in shadow tables,
//! ordinary tables of the same database, and give them another shape: [`VirtualTable`] tells the
//! planner how rows are found, a [`VirtualCursor`] finds them, a [`VirtualWriter`] changes them.
//! This crate knows no module; the crates above register theirs
//! ([`Connection::register_table_module`](crate::Connection::register_table_module)).

mod indexed;
mod shadow;
mod writers;

use std::fmt;
use std::sync::{Arc, OnceLock};

use shoal_store::{Pgno, Transaction};

pub use shadow::{ChangedPages, SeenState, ShadowBlob, ShadowRows, ShadowTable};
pub(crate) use writers::{Parts, VirtualWriters};

use super::{Schema, Snapshot, Table, Txns, view_table};
use crate::Error;
use crate::parse::ast::Conflict;
use crate::session::Session;
use crate::value::{Affinity, Value};

/// A kind of virtual tables, registered under the name behind `USING`.
pub trait TableModule: fmt::Debug + Send + Sync {
    /// The name behind `USING`, compared in any case.
    fn name(&self) -> &str;

    /// Runs for `CREATE VIRTUAL TABLE`, once the table's own row is in `sqlite_schema`: checks the
    /// arguments, makes the shadow tables ([`TableWrites::execute`]) and their first rows.
    ///
    /// # Errors
    /// Refused arguments; the statement is taken back.
    fn create(
        &self,
        definition: &Definition<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error>;

    /// Opens a table of the file, once for a connection and a schema, when a statement first names
    /// the table. `schema` is that of the table's own database. There is nothing to read rows with:
    /// what depends on rows is read by cursors and writers.
    ///
    /// # Errors
    /// Refused arguments, missing shadow tables: statements naming the table end with the error.
    fn connect(
        &self,
        definition: &Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error>;

    /// True for the names of shadow tables behind the table's name and `_`: `node` of `t_node`.
    fn is_shadow(&self, suffix: &str) -> bool;

    /// The arguments of a table of this module with some columns of another: how a narrowed
    /// connection searches the rows that a rule leaves. The new table keeps its rows itself. `None`
    /// of a module whose tables are read row by row alone under rules.
    ///
    /// # Errors
    /// A table whose rows cannot be read back, with a sentence for whoever searches it.
    fn of_columns(
        &self,
        _definition: &Definition<'_>,
        _is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<Option<VisibleArguments>, Error> {
        Ok(None)
    }
}

/// What a table of some columns of another is made by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleArguments {
    /// The texts between the commas behind the module's name.
    pub arguments: Vec<String>,
    /// How the new table's rows get the rowids of the other's.
    pub rowids: VisibleRowids,
}

/// How a table of some columns of another has its rowids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleRowids {
    /// They are given by the name `rowid`.
    Given,
    /// One of the columns is the rowid.
    Column,
    /// The module numbers rows itself: the rowids are others.
    Others,
}

/// The words of a `CREATE VIRTUAL TABLE`.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'a> {
    /// The table's name, as written.
    pub name: &'a str,
    /// The name of the table's database.
    pub database: &'a str,
    /// The module's name, as written.
    pub module: &'a str,
    /// The texts between the commas, without spaces around them.
    pub arguments: &'a [String],
}

/// A column of a virtual table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualColumn {
    /// The name.
    pub name: String,
    /// The declared type, whose affinity comparisons follow; may be empty.
    pub declared_type: String,
    /// True for a column left out by `*` and by an `INSERT` without a list, given in parentheses
    /// behind the table's name or by its own name.
    pub hidden: bool,
    /// The subtype of the column's values for functions of subtypes
    /// ([`SubtypedFunction`](crate::SubtypedFunction)); 0 for none.
    pub subtype: u8,
}

impl VirtualColumn {
    /// A column of `*`.
    pub fn new(name: impl Into<String>, declared_type: impl Into<String>) -> VirtualColumn {
        let (name, declared_type) = (name.into(), declared_type.into());
        VirtualColumn { name, declared_type, hidden: false, subtype: 0 }
    }

    /// A hidden column.
    pub fn hidden(name: impl Into<String>) -> VirtualColumn {
        VirtualColumn { hidden: true, ..VirtualColumn::new(name, "") }
    }
}

/// A virtual table of a file. Rows have rowids.
pub trait VirtualTable: fmt::Debug + Send + Sync {
    /// The columns in order, hidden ones too.
    fn columns(&self) -> &[VirtualColumn];

    /// Chooses a way to rows by some of the constraints; asked for several sets of them, as
    /// the planner tries the orders of a join. `None` where rows cannot be found with these.
    ///
    /// # Errors
    /// Constraints never to be served; the statement is refused.
    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error>;

    /// A cursor, not yet begun.
    ///
    /// # Errors
    /// The module's own.
    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error>;

    /// True where an `INSERT` of one row that names these columns, and replaces no row, leaves the
    /// file as it was when it fails: no moment of the file to go back to is kept for the statement,
    /// which would copy each page that the row touches. What a writer has in memory goes back by
    /// [`VirtualWriter::rollback_to`] all the same.
    fn inserts_whole(&self, _named: &[bool]) -> bool {
        false
    }

    /// Begins to write in a transaction. The writer lives until the transaction ends or the schema
    /// changes, flushed before.
    ///
    /// # Errors
    /// A read-only table.
    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error>;

    /// The number of a function with the table as its first argument; `None` for names the
    /// table does not know.
    fn auxiliary(&self, _name: &str) -> Option<usize> {
        None
    }

    /// Renames the shadow tables for `ALTER TABLE ... RENAME TO`.
    ///
    /// # Errors
    /// The module's own.
    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error>;

    /// Drops the shadow tables.
    ///
    /// # Errors
    /// The module's own.
    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error>;

    /// Looks for faults, for `PRAGMA integrity_check`: a sentence for each.
    ///
    /// # Errors
    /// Errors stopping the search.
    fn check(&self, _reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}

/// The planner's question to a table.
#[derive(Clone, Copy, Debug)]
pub struct IndexRequest<'r> {
    /// Conditions on rows, their values known once the cursor begins.
    pub constraints: &'r [IndexConstraint],
    /// The statement's `ORDER BY`, where the order of this table's rows alone could give it.
    pub order: &'r [IndexOrder],
    /// The columns read by anything; `usize::MAX` is the rowid.
    pub columns: &'r [usize],
}

/// A condition `column op value`.
#[derive(Clone, Debug)]
pub struct IndexConstraint {
    /// `None` for the rowid.
    pub column: Option<usize>,
    /// How the column relates to the value.
    pub op: ConstraintOp,
    /// True for a value in parentheses behind the table's name, always to be taken.
    pub is_argument: bool,
    /// The value, where the statement's text has one.
    pub value: Option<Value>,
    /// The subtype of a function's result; 0 for any other value.
    pub subtype: u8,
}

/// How a column relates to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintOp {
    /// `=`, and `IS` where the value is not NULL.
    Equal,
    /// `<`.
    Less,
    /// `<=`.
    AtMost,
    /// `>`.
    Greater,
    /// `>=`.
    AtLeast,
    /// `MATCH`.
    Match,
    /// `LIKE`, without `ESCAPE`.
    Like,
    /// `GLOB`.
    Glob,
    /// `REGEXP`.
    Regexp,
    /// The number of rows that the statement's `LIMIT` takes, which the engine counts all the same.
    Limit,
}

/// A term of `ORDER BY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOrder {
    /// `None` for the rowid.
    pub column: Option<usize>,
    /// True for `DESC`.
    pub descending: bool,
}

/// A way to rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexChoice {
    /// Shown by `EXPLAIN QUERY PLAN`, and given to the cursor.
    pub number: i32,
    /// As `number`.
    pub text: String,
    /// The constraints whose values the cursor is given, in this order.
    pub taken: Vec<Taken>,
    /// The cost of finding all rows, in steps over rows.
    pub cost: f64,
    /// About how many rows are found.
    pub rows: f64,
    /// True where rows come in the order of the request.
    pub is_ordered: bool,
    /// The place in `taken` of the number of rows wanted of the table: the scan ends once so many
    /// rows met all conditions on this table alone, conditions not taken among them.
    pub limit: Option<usize>,
    /// True where the cursor reads nothing that a writer of the table keeps in memory: writers are
    /// not flushed before. A statement that calls auxiliary functions of the table flushes them all
    /// the same.
    pub skips_flush: bool,
}

/// A constraint in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The place in the request's list.
    pub constraint: usize,
    /// True where all rows found meet the condition: the engine does not ask again. Always true of
    /// `MATCH`: nobody else can tell.
    pub is_exact: bool,
}

/// The rows of a virtual table on their way. A cursor borrows nothing: what there is to read comes
/// with each call.
pub trait VirtualCursor: fmt::Debug + Send {
    /// Begins to give rows, before the first one. A join begins the same cursor again and again.
    ///
    /// # Errors
    /// Refused values; faults of the file.
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error>;

    /// Goes to the next row; false behind the last.
    ///
    /// # Errors
    /// The module's own.
    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error>;

    /// Goes on by up to `most` rows, at least one, whose rowids are appended to `out`; none is
    /// appended behind the last row. Called in place of [`VirtualCursor::next`] throughout a scan
    /// of which nothing but rowids, or the number of rows, is read.
    ///
    /// # Errors
    /// The module's own.
    fn next_rowids(
        &mut self,
        _most: usize,
        reads: &TableReads<'_>,
        out: &mut Vec<i64>,
    ) -> Result<(), Error> {
        if self.next(reads)? {
            out.push(self.rowid());
        }
        Ok(())
    }

    /// The rowid of the row.
    fn rowid(&self) -> i64;

    /// Puts a column of the row into `out`; called for columns read by anything.
    ///
    /// # Errors
    /// The module's own.
    fn column(
        &mut self,
        column: usize,
        reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error>;

    /// The value of an auxiliary function at the row; `arguments` leave the table out.
    ///
    /// # Errors
    /// The module's own.
    fn auxiliary(
        &mut self,
        _function: usize,
        _arguments: &[Value],
        _reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        Err(Error::Misuse { what: "a virtual table has no auxiliary functions" })
    }
}

/// The row of an `INSERT` or an `UPDATE`.
#[derive(Clone, Copy, Debug)]
pub struct VirtualRow<'r> {
    /// The rowid named by an `INSERT`, perhaps NULL; the rowid of an `UPDATE`'s row afterwards.
    pub rowid: Option<&'r Value>,
    /// A value for each column, hidden ones too.
    pub values: &'r [Value],
    /// For each column whether the statement names it.
    pub named: &'r [bool],
    /// The statement's `OR` clause.
    pub conflict: Option<OnConflict>,
}

/// The word behind `OR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// The transaction is rolled back.
    Rollback,
    /// The statement is taken back.
    Abort,
    /// The statement ends and keeps its changes so far.
    Fail,
    /// The row is left out.
    Ignore,
    /// The row takes the place of others: the module's task.
    Replace,
}

impl From<Conflict> for OnConflict {
    fn from(conflict: Conflict) -> OnConflict {
        match conflict {
            Conflict::Rollback => OnConflict::Rollback,
            Conflict::Abort => OnConflict::Abort,
            Conflict::Fail => OnConflict::Fail,
            Conflict::Ignore => OnConflict::Ignore,
            Conflict::Replace => OnConflict::Replace,
        }
    }
}

/// Changes rows of a virtual table, during one transaction.
///
/// The engine obeys the statement's `OR` clause, `REPLACE` excepted, for an [`Error::Constraint`].
/// A failed statement's changes are taken back, pending ones in memory by
/// [`VirtualWriter::rollback_to`].
pub trait VirtualWriter: fmt::Debug + Send {
    /// Inserts a row and gives its rowid.
    ///
    /// # Errors
    /// [`Error::Constraint`], and the module's own.
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error>;

    /// Changes the row of a rowid.
    ///
    /// # Errors
    /// As [`VirtualWriter::insert`].
    fn update(
        &mut self,
        rowid: i64,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error>;

    /// Deletes the row of a rowid.
    ///
    /// # Errors
    /// As [`VirtualWriter::insert`].
    fn delete(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error>;

    /// Writes what is kept in memory to the shadow tables: before the commit, before a statement
    /// that reads virtual tables or changes the schema.
    ///
    /// # Errors
    /// The module's own.
    fn flush(&mut self, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// A moment to go back to: a `SAVEPOINT`, or the begin of a statement. Flushes unless a writer
    /// knows better; one that keeps rows in memory across a moment restores them when it goes back,
    /// although they were flushed since.
    ///
    /// # Errors
    /// The module's own.
    fn savepoint(&mut self, writes: &mut TableWrites<'_>) -> Result<usize, Error> {
        self.flush(writes)?;
        Ok(0)
    }

    /// Forgets everything after a moment. The shadow tables already went back.
    fn rollback_to(&mut self, _moment: usize) {}

    /// Forgets a moment itself.
    fn release(&mut self, _moment: usize) {}
}

/// The reading end of a virtual table: the state of the running statement.
#[derive(Clone, Copy)]
pub struct TableReads<'a> {
    /// The schema of `main`, with the other databases beside; on a narrowed connection that of the
    /// whole file.
    pub(crate) schema: &'a Schema,
    /// On a narrowed connection the part that a principal sees.
    pub(crate) narrowed: Option<&'a Schema>,
    pub(crate) txns: Txns<'a>,
    /// The number of the table's own database.
    pub(crate) database: usize,
    pub(crate) session: &'a dyn Session,
}

impl<'a> TableReads<'a> {
    /// The schema of the table's own database.
    pub fn schema(&self) -> &'a Schema {
        self.schema.of_database(self.database).unwrap_or(self.schema)
    }

    /// To be called every few steps by whoever takes long.
    ///
    /// # Errors
    /// [`Error::Interrupted`] when the statement is to stop.
    pub fn check(&self) -> Result<(), Error> {
        self.session.check()
    }

    /// Opens a shadow table.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn rows(&self, table: &ShadowTable) -> Result<ShadowRows<'a>, Error> {
        ShadowRows::new(table, self.txns.of(self.database)?)
    }

    /// The number of the state being read, unique within this process and equal for equal states:
    /// a key for parts of shadow tables kept from statement to statement. `None` within a writing
    /// transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside of a transaction.
    pub fn state(&self) -> Result<Option<u64>, Error> {
        let transaction = self.txns.of(self.database)?;
        Ok((!transaction.is_writer()).then(|| transaction.state_id()))
    }

    /// True where the file keeps its texts as UTF-16: columns of shadow tables are then bytes of
    /// UTF-16.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside of a transaction.
    pub fn is_utf16(&self) -> Result<bool, Error> {
        Ok(self.txns.of(self.database)?.utf16().is_some())
    }

    /// The bytes left to the statement in memory; `None` without a limit.
    pub fn memory_left(&self) -> Option<u64> {
        self.session.budget().map(|budget| budget.left())
    }

    /// The transactions of all databases, for queries in modules above.
    pub(crate) fn parts(&self) -> (&'a Schema, Txns<'a>, &'a dyn Session) {
        (self.schema, self.txns, self.session)
    }
}

impl fmt::Debug for TableReads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReads").field("database", &self.database).finish_non_exhaustive()
    }
}

/// The writing end of a virtual table: shadow tables in the statement's transaction.
pub struct TableWrites<'a> {
    pub(crate) transaction: &'a mut Transaction,
    /// As [`TableReads`]; of the database alone after a nested statement's change.
    pub(crate) schema: &'a Schema,
    pub(crate) changed: Option<Arc<Schema>>,
    pub(crate) home: usize,
    pub(crate) main: Option<&'a Transaction>,
    pub(crate) attached: &'a [Option<Snapshot<'a>>],
    pub(crate) session: &'a dyn Session,
    /// Memory of records, from one to the next.
    pub(crate) record: Vec<u8>,
}

impl<'a> TableWrites<'a> {
    pub(crate) fn new(
        transaction: &'a mut Transaction,
        (schema, home): (&'a Schema, usize),
        (main, attached): (Option<&'a Transaction>, &'a [Option<Snapshot<'a>>]),
        session: &'a dyn Session,
    ) -> TableWrites<'a> {
        let record = Vec::new();
        TableWrites { transaction, schema, changed: None, home, main, attached, session, record }
    }

    /// Bytes of the file's pages.
    pub fn page_size(&self) -> usize {
        self.transaction.header().page_size as usize
    }

    /// The reading end, with the changes so far.
    pub fn reads(&self) -> TableReads<'_> {
        if let Some(schema) = &self.changed {
            let txns = Txns::new(self.transaction, &[]);
            let (narrowed, database, session) = (None, super::MAIN, self.session);
            return TableReads { schema, narrowed, txns, database, session };
        }
        let main = self.main.unwrap_or(self.transaction);
        let txns = Txns::new(main, self.attached).with_written(self.home, self.transaction);
        let (narrowed, database, session) = (None, self.home, self.session);
        TableReads { schema: self.schema, narrowed, txns, database, session }
    }
}

impl fmt::Debug for TableWrites<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWrites").field("home", &self.home).finish_non_exhaustive()
    }
}

/// The modules of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableModules(pub(crate) Arc<[Arc<dyn TableModule>]>);

impl TableModules {
    /// The module called `name`, in any case.
    pub(crate) fn named(&self, name: &str) -> Option<&Arc<dyn TableModule>> {
        self.0.iter().find(|module| module.name().eq_ignore_ascii_case(name))
    }
}

/// A virtual table of `sqlite_schema`.
#[derive(Debug)]
pub struct VirtualDefinition {
    name: String,
    module: String,
    arguments: Vec<String>,
    /// `Some` once a statement named the table.
    connected: OnceLock<Arc<Connected>>,
}

/// A virtual table opened by its module.
#[derive(Debug)]
pub(crate) struct Connected {
    /// The columns, as of a table without a b-tree.
    pub(crate) table: Arc<Table>,
    pub(crate) hidden: Vec<usize>,
    pub(crate) instance: Arc<dyn VirtualTable>,
}

impl VirtualDefinition {
    /// The table `name` of the text of a `CREATE VIRTUAL TABLE`.
    pub(crate) fn new(name: &str, module: String, arguments: Vec<String>) -> VirtualDefinition {
        VirtualDefinition { name: name.to_owned(), module, arguments, connected: OnceLock::new() }
    }

    /// The name as written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the table's module, as written.
    pub fn module(&self) -> &str {
        &self.module
    }

    /// The texts between the commas behind the module's name, without spaces around them.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The columns, of a table in the database with this schema.
    ///
    /// # Errors
    /// As [`VirtualDefinition::connect`].
    pub(crate) fn columns_in(&self, own: &Schema) -> Result<Vec<VirtualColumn>, Error> {
        let module = own.table_module(&self.module, None)?;
        let (name, arguments) = (self.name.as_str(), self.arguments.as_slice());
        let definition = Definition { name, database: "main", module: &self.module, arguments };
        Ok(module.connect(&definition, own)?.columns().to_vec())
    }

    /// The table, opened by its module at first. `schema` is the whole one.
    ///
    /// # Errors
    /// `no such module`; refusals of the module.
    pub(crate) fn connect(
        &self,
        schema: &Schema,
        database: usize,
    ) -> Result<&Arc<Connected>, Error> {
        if let Some(known) = self.connected.get() {
            return Ok(known);
        }
        let module = schema.table_module(&self.module, None)?;
        let definition = Definition {
            name: &self.name,
            database: schema.database_name(database),
            module: &self.module,
            arguments: &self.arguments,
        };
        let own = schema.of_database(database).unwrap_or(schema);
        let instance = module.connect(&definition, own)?;
        let connected = Arc::new(Connected::new(&self.name, database, instance));
        Ok(self.connected.get_or_init(|| connected))
    }
}

impl Connected {
    pub(crate) fn new(name: &str, database: usize, instance: Arc<dyn VirtualTable>) -> Connected {
        let columns = instance.columns();
        let declared = columns.iter().map(|column| {
            let affinity = match column.declared_type.as_str() {
                "" => Affinity::Blob,
                declared => Affinity::of_declared_type(declared),
            };
            (column.name.clone(), Some(affinity), Some(column.declared_type.clone()))
        });
        let mut table = view_table(name, Pgno::FIRST, declared);
        table.database = database;
        table.without_rowid = false;
        for (known, column) in table.columns.iter_mut().zip(columns) {
            known.hidden = column.hidden;
        }
        let hidden = (0..columns.len()).filter(|place| columns[*place].hidden).collect();
        Connected { table: Arc::new(table), hidden, instance }
    }
}

impl Schema {
    /// The module called `name`.
    ///
    /// # Errors
    /// `no such module`.
    pub(crate) fn table_module(
        &self,
        name: &str,
        offset: Option<usize>,
    ) -> Result<&Arc<dyn TableModule>, Error> {
        self.table_modules.named(name).ok_or_else(|| Error::Name {
            kind: crate::NameKind::Module,
            message: format!("no such module: {name}"),
            offset,
        })
    }

    /// The same schema for a connection with these modules.
    pub(crate) fn with_table_modules(self, table_modules: TableModules) -> Schema {
        Schema { table_modules, ..self }
    }
}

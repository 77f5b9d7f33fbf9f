//! Virtual tables under rules, to be searched: tables of the same module in memory, of the visible
//! rows and columns.
//!
//! Ranks, snippets and nearest neighbours are of all rows of an index. Over a table made of what a
//! principal sees they are as in a file without the rest. Cost: the first search in a state of the
//! file reads and indexes every visible row; later ones in the same state find the table ready. A
//! table takes at most the memory of the statement that makes it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_store::{Mode, Store, Transaction};

use super::Connection;
use crate::Error;
use crate::schema::{
    Connected, Definition, IndexChoice, IndexRequest, MAIN, NarrowedTable, Object, Schema,
    Searched, TableModule, TableReads, TableWrites, Txns, VirtualColumn, VirtualCursor,
    VirtualDefinition, VirtualTable, VirtualWriter, VisibleArguments, VisibleRowids,
};
use crate::value::Value;

/// Rows between two looks at the pages of a table in memory.
const ROWS_BETWEEN: u64 = 256;

/// The table of the visible rows of `table`, whose rule hides something; `whole` is the file's
/// schema.
///
/// # Errors
/// Refusals of the module; tables whose rows cannot be read back.
pub(super) fn searched(whole: &Schema, table: &NarrowedTable) -> Result<Option<Searched>, Error> {
    let Some((definition, behind)) = &table.behind else { return Ok(None) };
    let module = whole.table_module(definition.module(), None)?;
    let Some(made) = arguments(&**module, definition, table)? else { return Ok(None) };
    let mut columns: Vec<String> = Vec::new();
    if table.shows_rowid && made.rowids == VisibleRowids::Given {
        columns.push("rowid".to_owned());
    }
    let names = table.columns.iter().map(|shown| behind.table.columns[shown.column].name.clone());
    let is_new = |name: &String| !columns.iter().any(|known| known.eq_ignore_ascii_case(name));
    let names: Vec<String> = names.filter(is_new).collect();
    columns.extend(names);
    let list: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
    let places: Vec<String> = (1..=list.len()).map(|place| format!("?{place}")).collect();
    let (name, list) = (quoted(table.name()), list.join(", "));
    let recipe = Recipe {
        name: table.name().to_owned(),
        module: Arc::clone(module),
        create: format!(
            "CREATE VIRTUAL TABLE {name} USING {} ({})",
            quoted(definition.module()),
            made.arguments.join(", ")
        ),
        select: format!("SELECT {list} FROM {name}"),
        insert: format!("INSERT INTO {name} ({list}) VALUES ({})", places.join(", ")),
    };
    let (_, shape) = recipe.shape(&mut recipe.empty()?)?;
    let instance = VisibleTable(Arc::new(Visible { recipe, shape, kept: Mutex::new(None) }));
    let connected = Connected::new(table.name(), MAIN, Arc::new(instance));
    let keeps_rowids = made.rowids != VisibleRowids::Others;
    Ok(Some(Searched { connected: Arc::new(connected), keeps_rowids }))
}

/// True where rows found by a search have visible rowids.
pub(super) fn shows_rowid(whole: &Schema, table: &NarrowedTable) -> bool {
    let Some((definition, _)) = &table.behind else { return table.shows_rowid };
    let stay = || {
        let module = whole.table_module(definition.module(), None).ok()?;
        let made = arguments(&**module, definition, table).ok()??;
        Some(made.rowids != VisibleRowids::Others)
    };
    table.shows_rowid && (table.whole_virtual().is_some() || stay().unwrap_or(true))
}

/// The arguments of a table of the visible columns.
fn arguments(
    module: &dyn TableModule,
    definition: &VirtualDefinition,
    table: &NarrowedTable,
) -> Result<Option<VisibleArguments>, Error> {
    let words = Definition {
        name: table.name(),
        database: "main",
        module: definition.module(),
        arguments: definition.arguments(),
    };
    module.of_columns(&words, &|name| table.visible_column(name).is_some())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How a table of visible rows is made.
struct Recipe {
    name: String,
    module: Arc<dyn TableModule>,
    create: String,
    /// The visible rows, as the principal reads them.
    select: String,
    insert: String,
}

impl Recipe {
    /// A database in memory with the table, still without rows.
    fn empty(&self) -> Result<Connection, Error> {
        let mut connection = Connection::open(Store::memory())?;
        connection.register_table_module(Arc::clone(&self.module));
        let mut create = connection.prepare(&self.create)?;
        connection.execute(&mut create)?;
        Ok(connection)
    }

    /// The table, opened by its module.
    fn shape(
        &self,
        connection: &mut Connection,
    ) -> Result<(Arc<Schema>, Arc<dyn VirtualTable>), Error> {
        let schema = connection.schema()?;
        let Some(Object::Virtual(definition)) = schema.object(&self.name) else {
            return Err(Error::Misuse { what: "a table was made and is not there" });
        };
        let connected = definition.connect(&schema, MAIN)?;
        let instance = Arc::clone(&connected.instance);
        Ok((schema, instance))
    }

    /// The table with the rows of a statement's state.
    ///
    /// # Errors
    /// Rows beyond the memory of the statement; its end.
    fn fill(&self, reads: &TableReads<'_>) -> Result<Rows, Error> {
        let mut connection = self.empty()?;
        connection.begin(Mode::Write)?;
        let mut insert = connection.prepare(&self.insert)?;
        let (mut bytes, mut rows) = (0, 0_u64);
        let bytes_max = reads.memory_left().unwrap_or(u64::MAX);
        let check = |bytes: u64| match bytes <= bytes_max {
            true => Ok(()),
            false => Err(Error::of_function(format!(
                "the visible rows of {} need more than the {} MiB of memory that the statement \
                 has: under rules they are searched in memory",
                self.name,
                bytes_max >> 20
            ))),
        };
        reads.query_narrowed(&self.select, |row| {
            reads.check()?;
            for (place, value) in row.iter().enumerate() {
                bytes += match value {
                    Value::Text(text) => text.len() as u64,
                    Value::Blob(blob) => blob.len() as u64,
                    _ => 8,
                };
                insert.bind(place + 1, value.clone())?;
            }
            rows += 1;
            check(bytes)?;
            if rows.is_multiple_of(ROWS_BETWEEN) {
                check(connection.transaction.as_ref().map_or(0, in_memory))?;
            }
            connection.execute(&mut insert).map(drop)
        })?;
        connection.commit()?;
        let (schema, instance) = self.shape(&mut connection)?;
        let transaction = connection.store.begin(Mode::Read)?;
        check(in_memory(&transaction))?;
        Ok(Rows { schema, transaction, instance })
    }
}

/// The bytes of a transaction's pages.
fn in_memory(transaction: &Transaction) -> u64 {
    u64::from(transaction.page_count()) * u64::from(transaction.header().page_size)
}

/// A table of visible rows in memory.
struct Rows {
    schema: Arc<Schema>,
    transaction: Transaction,
    instance: Arc<dyn VirtualTable>,
}

impl Rows {
    /// The reading end, for a statement of the connection around.
    fn reads<'r>(&'r self, reads: &TableReads<'r>) -> TableReads<'r> {
        let txns = Txns::new(&self.transaction, &[]);
        let (schema, narrowed, session) = (&*self.schema, None, reads.session);
        TableReads { schema, narrowed, txns, database: MAIN, session }
    }
}

/// A virtual table of visible rows.
struct Visible {
    recipe: Recipe,
    /// The table without rows: its columns, and its choices of ways to rows.
    shape: Arc<dyn VirtualTable>,
    /// The rows made last, with the number of the state of the file that they are of.
    kept: Mutex<Option<(u64, Arc<Rows>)>>,
}

impl Visible {
    /// The rows of a statement's state.
    fn rows(&self, reads: &TableReads<'_>) -> Result<Arc<Rows>, Error> {
        let state = reads.state()?;
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, rows)) = &*kept()
            && Some(*of) == state
        {
            return Ok(Arc::clone(rows));
        }
        // Rows of another state are dropped before there are more.
        *kept() = None;
        let rows = Arc::new(self.recipe.fill(reads)?);
        *kept() = state.map(|state| (state, Arc::clone(&rows)));
        Ok(rows)
    }
}

struct VisibleTable(Arc<Visible>);

impl fmt::Debug for VisibleTable {
    /// The name: rows are the principal's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VisibleTable").field(&self.0.recipe.name).finish()
    }
}

impl VirtualTable for VisibleTable {
    fn columns(&self) -> &[VirtualColumn] {
        self.0.shape.columns()
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        self.0.shape.best_index(request)
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(VisibleCursor { table: Arc::clone(&self.0), begun: None }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Err(Error::Misuse { what: "a table of visible rows is read alone" })
    }

    fn auxiliary(&self, name: &str) -> Option<usize> {
        self.0.shape.auxiliary(name)
    }

    fn rename(&self, _new_name: &str, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Err(Error::Misuse { what: "a table of visible rows is read alone" })
    }

    fn destroy(&self, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Err(Error::Misuse { what: "a table of visible rows is read alone" })
    }
}

/// A cursor of the table in memory: one table for all scans of the cursor.
struct VisibleCursor {
    table: Arc<Visible>,
    begun: Option<(Arc<Rows>, Box<dyn VirtualCursor>)>,
}

impl fmt::Debug for VisibleCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisibleCursor").field("table", &self.table.recipe.name).finish()
    }
}

/// The cursor before its first scan has no row.
const NOT_BEGUN: Error = Error::Misuse { what: "a cursor was read before its scan began" };

impl VirtualCursor for VisibleCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        if self.begun.is_none() {
            let rows = self.table.rows(reads)?;
            let cursor = rows.instance.open()?;
            self.begun = Some((rows, cursor));
        }
        let Some((rows, cursor)) = &mut self.begun else { return Err(NOT_BEGUN) };
        cursor.filter(choice, arguments, &rows.reads(reads))
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        let Some((rows, cursor)) = &mut self.begun else { return Err(NOT_BEGUN) };
        cursor.next(&rows.reads(reads))
    }

    fn next_rowids(
        &mut self,
        most: usize,
        reads: &TableReads<'_>,
        out: &mut Vec<i64>,
    ) -> Result<(), Error> {
        let Some((rows, cursor)) = &mut self.begun else { return Err(NOT_BEGUN) };
        cursor.next_rowids(most, &rows.reads(reads), out)
    }

    fn rowid(&self) -> i64 {
        self.begun.as_ref().map_or(0, |(_, cursor)| cursor.rowid())
    }

    fn column(
        &mut self,
        column: usize,
        reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        let Some((rows, cursor)) = &mut self.begun else { return Err(NOT_BEGUN) };
        cursor.column(column, &rows.reads(reads), out)
    }

    fn auxiliary(
        &mut self,
        function: usize,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<Value, Error> {
        let Some((rows, cursor)) = &mut self.begun else { return Err(NOT_BEGUN) };
        cursor.auxiliary(function, arguments, &rows.reads(reads))
    }
}

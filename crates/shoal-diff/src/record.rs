//! Changes of a connection, recorded as a changeset.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_sql::{Connection, RowChange, Value};

use crate::Error;
use crate::changeset::{Form, Op, Writer, push_value};
use crate::diff::{in_snapshot, shape_of};
use crate::literal::quoted;
use crate::shape::{Identity, Shape};
use crate::sink::{RowDiff, push_row};

/// Notes the rows a connection touches in `main`, and gives the changes since the start as a
/// changeset or patchset, as SQLite's sessions do: one change a row, whatever happened in between,
/// nothing for changes rolled back.
///
/// Recorded are tables with a primary key; rows with NULL in the key are not, nor are changes of
/// the schema. The connection's hook before changes of rows
/// ([`Connection::set_preupdate_hook`]) is the recorder's until [`Recorder::stop`]. Memory: each
/// touched row in its state at the start.
///
/// ```
/// # use shoal_sql::{Connection, Error};
/// # let mut connection = Connection::open(shoal_store::Store::memory())?;
/// # fn run(connection: &mut Connection, sql: &str) -> Result<(), Error> {
/// #     let mut statement = connection.prepare(sql)?;
/// #     connection.execute(&mut statement).map(drop)
/// # }
/// run(&mut connection, "CREATE TABLE t (id INTEGER PRIMARY KEY, name)")?;
/// let recorder = shoal_diff::Recorder::start(&mut connection)?;
/// run(&mut connection, "INSERT INTO t VALUES (1, 'a')")?;
/// let changeset = recorder.changes(&mut connection, shoal_diff::Form::Changeset)?;
/// recorder.stop(&mut connection);
/// run(&mut connection, "DELETE FROM t")?;
/// let mut omit = |_: &shoal_diff::Conflict<'_>| shoal_diff::Answer::Omit;
/// let done = shoal_diff::apply(&mut connection, &changeset, &Default::default(), &mut omit)?;
/// assert_eq!(done.counts.inserted, 1);
/// # Ok::<(), shoal_diff::Error>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    touched: Arc<Mutex<Touched>>,
}

/// Rows as they were when first touched.
#[derive(Debug, Default)]
struct Touched {
    /// By the table's name as written.
    tables: HashMap<String, Table>,
    /// The tables in the order of their first change.
    order: Vec<String>,
}

#[derive(Debug)]
struct Table {
    shape: Shape,
    /// The places of the shape's columns in the table's definition.
    places: Vec<usize>,
    rows: HashMap<Vec<u8>, usize>,
    /// Keys in the order of their first change, with the row before; `None` for no row.
    firsts: Vec<(Vec<Value>, Option<Vec<Value>>)>,
}

impl Recorder {
    /// Begins to record. Tables made later are not recorded.
    ///
    /// # Errors
    /// [`Error::Sql`] when the schema cannot be read.
    pub fn start(connection: &mut Connection) -> Result<Recorder, Error> {
        let mut tables = HashMap::new();
        for object in connection.schema()?.objects() {
            let shoal_sql::Object::Table(table) = object else { continue };
            let shape = Shape::of(table);
            if shape.identity == Identity::Rowid || table.name().starts_with("sqlite_") {
                continue;
            }
            let columns = table.columns().iter().enumerate();
            let told = columns.filter(|(_, column)| !column.is_generated());
            let places = told.map(|(place, _)| place).collect();
            let (rows, firsts) = (HashMap::new(), Vec::new());
            tables.insert(table.name().to_owned(), Table { shape, places, rows, firsts });
        }
        let touched = Arc::new(Mutex::new(Touched { tables, order: Vec::new() }));
        let hooked = Arc::clone(&touched);
        connection.set_preupdate_hook(Some(Box::new(move |change| lock(&hooked).note(change))));
        Ok(Recorder { touched })
    }

    /// The changes from the start to the connection's present state; recording goes on.
    ///
    /// # Errors
    /// [`Error::Table`] for a table whose columns changed meanwhile; [`Error::Sql`].
    pub fn changes(&self, connection: &mut Connection, form: Form) -> Result<Vec<u8>, Error> {
        let touched = lock(&self.touched);
        let mut writer = Writer::new(form);
        in_snapshot(connection, |connection| {
            for name in &touched.order {
                touched.tables[name].write(connection, &mut writer)?;
            }
            Ok(())
        })?;
        Ok(writer.finish())
    }

    /// Ends the recording.
    pub fn stop(self, connection: &mut Connection) {
        connection.set_preupdate_hook(None);
    }
}

/// Panics of earlier calls do not matter.
fn lock(touched: &Mutex<Touched>) -> MutexGuard<'_, Touched> {
    touched.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Touched {
    fn note(&mut self, change: &RowChange<'_>) {
        if change.database() != "main" {
            return;
        }
        let Some(table) = self.tables.get_mut(change.table()) else { return };
        if table.firsts.is_empty() {
            self.order.push(change.table().to_owned());
        }
        if let Some(row) = change.before() {
            table.note(row, true);
        }
        if let Some(row) = change.after() {
            table.note(row, false);
        }
    }
}

impl Table {
    /// Notes a row seen for the first time, there before the change or not.
    fn note(&mut self, values: &[Value], was_there: bool) {
        let row: Vec<Value> =
            self.places.iter().filter_map(|at| values.get(*at).cloned()).collect();
        if row.len() < self.places.len() || self.shape.has_null_key(&row) {
            return;
        }
        let mut bytes = Vec::new();
        for column in self.shape.head.key_columns() {
            push_value(Some(row[column].as_ref()), &mut bytes);
        }
        let place = self.firsts.len();
        if *self.rows.entry(bytes).or_insert(place) == place {
            let key = self.shape.head.key_columns().map(|column| row[column].clone()).collect();
            self.firsts.push((key, was_there.then_some(row)));
        }
    }

    /// Writes the touched rows different from the present ones.
    fn write(&self, connection: &mut Connection, writer: &mut Writer) -> Result<(), Error> {
        let shape = &self.shape;
        let table = &shape.head.table;
        if connection.schema()?.table(table).is_none() {
            return Err(Error::Table { table: table.clone(), why: "was dropped while recorded" });
        }
        if shape_of(connection, table)? != *shape {
            let why = "got another definition while recorded";
            return Err(Error::Table { table: table.clone(), why });
        }
        let columns: Vec<String> = shape.columns.iter().map(|name| quoted(name)).collect();
        let key = shape.head.key_columns().map(|column| format!("{}=?", columns[column]));
        let (key, columns) = (key.collect::<Vec<_>>().join(" AND "), columns.join(","));
        let sql = format!("SELECT {columns} FROM {} WHERE {key}", quoted(table));
        let mut statement = connection.prepare(&sql)?;
        for (key, before) in &self.firsts {
            for (place, value) in key.iter().enumerate() {
                statement.bind_ref(place + 1, value.as_ref())?;
            }
            let mut rows = connection.query(&mut statement)?;
            let found = rows.next()?.map(|row| row.values().map(Value::from).collect::<Vec<_>>());
            // A key equal by collation alone is another row's.
            let is_key = |row: &Vec<Value>| {
                shape.head.key_columns().zip(key).all(|(column, value)| row[column] == *value)
            };
            let after = found.filter(is_key);
            let none = Vec::new();
            let (op, old, new) = match (before, &after) {
                (None, None) => continue,
                (Some(before), Some(after)) if before == after => continue,
                (Some(before), Some(after)) => (Op::Update, before, after),
                (Some(before), None) => (Op::Delete, before, &none),
                (None, Some(after)) => (Op::Insert, &none, after),
            };
            push_row(writer, &RowDiff { shape, op, rowid: None, old, new });
        }
        Ok(())
    }
}

//! Statements run by Shoal and by SQLite, with comparable results.

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Forced, ForcedChoice, Narrowed, Rows, Statement, Value, ValueRef};
use shoal_store::{Access, Store, vfs::OsVfs};

/// Column names and rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// Opens a file with Shoal.
pub(crate) fn open(path: &Path) -> Connection {
    let store = Store::open(Arc::new(OsVfs), path, Access::ReadOnly)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Connection::open(store).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn ours(connection: &mut Connection, sql: &str) -> Result<Table, shoal_sql::Error> {
    ours_with(connection, sql, &[])
}

pub(crate) fn ours_with(
    connection: &mut Connection,
    sql: &str,
    parameters: &[Value],
) -> Result<Table, shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    for (index, value) in parameters.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    all_rows(&mut statement, |statement| connection.query(statement))
}

/// The answer that a narrowed connection gives.
pub(crate) fn ask(narrowed: &mut Narrowed, sql: &str) -> Result<Table, shoal_sql::Error> {
    let mut statement = narrowed.prepare(sql)?;
    all_rows(&mut statement, |statement| narrowed.query(statement))
}

fn all_rows<'r>(
    statement: &'r mut Statement,
    query: impl FnOnce(&'r mut Statement) -> Result<Rows<'r>, shoal_sql::Error>,
) -> Result<Table, shoal_sql::Error> {
    let columns = statement.column_names().to_vec();
    let mut rows = query(statement)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(row.values().map(Value::from).collect());
    }
    Ok(Table { columns, rows: out })
}

/// Rows as lines of text.
pub(crate) fn lines(rows: &[Vec<Value>]) -> String {
    let row = |row: &Vec<Value>| {
        row.iter().map(|value| show(value.as_ref())).collect::<Vec<_>>().join("|")
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

pub(crate) fn theirs(
    connection: &rusqlite::Connection,
    sql: &str,
) -> Result<Table, rusqlite::Error> {
    theirs_with(connection, sql, &[])
}

pub(crate) fn theirs_with(
    connection: &rusqlite::Connection,
    sql: &str,
    parameters: &[Value],
) -> Result<Table, rusqlite::Error> {
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let parameters = parameters.iter().map(|value| match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Int(int) => rusqlite::types::Value::Integer(*int),
        Value::Real(real) => rusqlite::types::Value::Real(*real),
        Value::Text(text) => rusqlite::types::Value::Text(String::from_utf8(text.clone()).unwrap()),
        Value::Blob(blob) => rusqlite::types::Value::Blob(blob.clone()),
    });
    let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |index| match row.get_ref(index)? {
            rusqlite::types::ValueRef::Null => Ok(Value::Null),
            rusqlite::types::ValueRef::Integer(int) => Ok(Value::Int(int)),
            rusqlite::types::ValueRef::Real(real) => Ok(Value::Real(real)),
            rusqlite::types::ValueRef::Text(text) => Ok(Value::Text(text.to_vec())),
            rusqlite::types::ValueRef::Blob(blob) => Ok(Value::Blob(blob.to_vec())),
        };
        out.push((0..columns.len()).map(value).collect::<Result<_, rusqlite::Error>>()?);
    }
    Ok(Table { columns, rows: out })
}

/// Orders rows by all their values, for results whose order means nothing.
pub(crate) fn sort(rows: &mut [Vec<Value>]) {
    rows.sort_by(|a, b| {
        let pairs = a.iter().zip(b);
        let order = |(a, b): (&Value, &Value)| {
            let binary = shoal_sql::Collation::Binary;
            let kind = |value: &Value| matches!(value, Value::Real(_));
            a.as_ref().compare(b.as_ref(), binary).then(kind(a).cmp(&kind(b)))
        };
        pairs.map(order).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
}

/// A database file, in a folder deleted with this value.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    /// A database made by SQLite from a script.
    pub(crate) fn new(script: &str) -> Scratch {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap() };
        scratch.theirs().execute_batch(script).unwrap();
        scratch
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("test.db")
    }

    pub(crate) fn theirs(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    pub(crate) fn ours(&self) -> Connection {
        open(&self.path())
    }
}

pub(crate) fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        other => format!("{other:?}"),
    }
}

/// Runs a query on both sides and compares names, values, types and, where the query orders its
/// rows, their order. Both may fail; then they must do so together.
pub(crate) fn check(
    connection: &mut Connection,
    peer: &rusqlite::Connection,
    sql: &str,
    parameters: &[Value],
) -> Result<(), String> {
    let expect = theirs_with(peer, sql, parameters);
    let got = ours_with(connection, sql, parameters);
    match (got, expect) {
        (Ok(mut got), Ok(mut expect)) => {
            if got.columns != expect.columns {
                return Err(format!(
                    "{sql}\nours: {:?}\ntheirs: {:?}",
                    got.columns, expect.columns
                ));
            }
            if !is_ordered(sql) {
                sort(&mut got.rows);
                sort(&mut expect.rows);
            }
            if !same_rows(&got.rows, &expect.rows) {
                let text = |rows: &[Vec<Value>]| {
                    let row = |row: &Vec<Value>| {
                        row.iter().map(|value| show(value.as_ref())).collect::<Vec<_>>().join(", ")
                    };
                    rows.iter().take(20).map(row).collect::<Vec<_>>().join("\n  ")
                };
                return Err(format!(
                    "{sql}\n{parameters:?}\nours ({}):\n  {}\ntheirs ({}):\n  {}",
                    got.rows.len(),
                    text(&got.rows),
                    expect.rows.len(),
                    text(&expect.rows)
                ));
            }
            Ok(())
        }
        (Err(_), Err(_)) => Ok(()),
        (Ok(got), Err(error)) => {
            Err(format!("{sql}\n{parameters:?}\nours: {:?}\ntheirs: {error}", got.rows))
        }
        (Err(error), Ok(_)) => Err(format!("{sql}\n{parameters:?}\nours: {error:?}")),
    }
}

/// True where a query orders its rows: an `ORDER BY` outside of parentheses.
pub(crate) fn is_ordered(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    let places = lower.match_indices("order by").map(|(place, _)| place);
    let depth = |place: usize| {
        let before = &lower.as_bytes()[..place];
        let count = |wanted: u8| before.iter().filter(|byte| **byte == wanted).count();
        count(b'(') - count(b')').min(count(b'('))
    };
    places.into_iter().any(|place| depth(place) == 0)
}

fn same_rows(got: &[Vec<Value>], expect: &[Vec<Value>]) -> bool {
    got.len() == expect.len()
        && got.iter().zip(expect).all(|(got, expect)| {
            got.len() == expect.len() && got.iter().zip(expect).all(|(a, b)| same(a, b))
        })
}

/// Equal, or two sums of reals with different last bits, by the order of the rows.
pub(crate) fn same(got: &Value, expect: &Value) -> bool {
    match (got, expect) {
        (Value::Real(a), Value::Real(b)) => a == b || (a - b).abs() <= 1e-12 * a.abs().max(b.abs()),
        (got, expect) => got == expect,
    }
}

/// Runs every query and lists all with a difference.
pub(crate) fn check_all(connection: &mut Connection, peer: &rusqlite::Connection, queries: &str) {
    let mut failures = Vec::new();
    let mut count = 0;
    for range in shoal_sql::Statements::new(queries) {
        count += 1;
        if let Err(failure) = check(connection, peer, &queries[range], &[]) {
            failures.push(failure);
        }
    }
    assert!(count > 0);
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n\n"));
}

/// The lines of `EXPLAIN`, one for each node.
pub(crate) fn nodes(connection: &mut Connection, sql: &str) -> String {
    let table = ours(connection, &format!("explain {sql}")).unwrap();
    let line = |row: &Vec<Value>| {
        row.iter().map(|value| show(value.as_ref())).collect::<Vec<_>>().join(" ")
    };
    table.rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Runs every query under the planner's choices and under each forced one, beside SQLite.
pub(crate) fn check_forced(
    connection: &mut Connection,
    peer: &rusqlite::Connection,
    queries: &[String],
) {
    let mut failures = Vec::new();
    let choices = ForcedChoice::ALL.iter().copied().map(Some);
    for choice in std::iter::once(None).chain(choices) {
        connection.force(Forced::from_iter(choice));
        for sql in queries {
            let failed = check(connection, peer, sql, &[]).err();
            failures.extend(failed.map(|failed| format!("{choice:?}: {failed}")));
        }
    }
    connection.force(Forced::default());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

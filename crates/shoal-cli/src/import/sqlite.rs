//! Tables of another database: their definitions, rows and indexes.

use shoal_sql::{Connection, Error, Value};
use shoal_store::Mode;

use crate::dump::is_virtual;
use crate::failure::Failure;
use crate::query::{rows, run, text};
use crate::rows::literal::quoted;

/// How the names of the tables of documents begin.
const DOCUMENTS: &str = "_shoal_";

/// The outcome.
pub(crate) struct Copied {
    /// Each table with its number of rows, in the order of the source.
    pub(crate) tables: Vec<(String, u64)>,
    /// Words on each kind of object that stays behind.
    pub(crate) left_out: Vec<String>,
}

/// An object of the source's `sqlite_schema`.
struct Object {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

/// Copies the tables of `source`, or the one called `wanted`, within the open transaction of
/// `connection`. One state of the source is read. Rowids stay as they are.
///
/// # Errors
/// A table that is there already; constraints; the faults of both files.
pub(crate) fn copy(
    connection: &mut Connection,
    source: &mut Connection,
    place: &str,
    wanted: Option<&str>,
) -> Result<Copied, Failure> {
    source.begin(Mode::Read).map_err(|error| Failure::at(place, error))?;
    let copied = copy_all(connection, source, place, wanted);
    // Nothing was written there.
    let _ = source.rollback();
    copied
}

fn copy_all(
    connection: &mut Connection,
    source: &mut Connection,
    place: &str,
    wanted: Option<&str>,
) -> Result<Copied, Failure> {
    let failed = |error: Error| Failure::at(place, error);
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
    let found = rows(source, sql, &[]).map_err(failed)?;
    let objects: Vec<Object> = found
        .iter()
        .map(|row| Object {
            kind: text(&row[0]),
            name: text(&row[1]),
            table: text(&row[2]),
            sql: text(&row[3]),
        })
        .collect();
    let schema = source.schema().map_err(failed)?;
    let is_plain = |object: &Object| {
        object.kind == "table"
            && !is_virtual(&object.sql)
            && !object.name.starts_with("sqlite_")
            && !object.name.starts_with(DOCUMENTS)
            && schema.shadow_owner(&object.name).is_none()
    };
    let is_wanted = |object: &Object| {
        is_plain(object) && wanted.is_none_or(|wanted| object.name.eq_ignore_ascii_case(wanted))
    };
    let tables: Vec<&Object> = objects.iter().filter(|object| is_wanted(object)).collect();
    if let (Some(wanted), true) = (wanted, tables.is_empty()) {
        let names: Vec<&str> =
            objects.iter().filter(|object| is_plain(object)).map(|object| &*object.name).collect();
        return Err(Failure::at(place, format_args!("no ordinary table is called {wanted}"))
            .hint(format_args!("its tables: {}", names.join(", "))));
    }
    let mut copied = Vec::new();
    for table in &tables {
        let here = connection.schema().map_err(failed)?;
        if here.object(&table.name).is_some() {
            return Err(Failure::at(place, format_args!("table {} is there already", table.name))
                .hint("name another table of the file, or drop this one"));
        }
        run(connection, &table.sql).map_err(failed)?;
        let count = copy_rows(connection, source, &table.name).map_err(failed)?;
        copied.push((table.name.clone(), count));
    }
    copy_sequence(connection, source, &copied).map_err(failed)?;
    // An index over all rows is made faster than one that grows with them.
    for index in objects.iter().filter(|object| object.kind == "index") {
        let is_of = |(name, _): &(String, u64)| name.eq_ignore_ascii_case(&index.table);
        if copied.iter().any(is_of) {
            run(connection, &index.sql).map_err(failed)?;
        }
    }
    Ok(Copied { tables: copied, left_out: left_out(&objects, wanted) })
}

/// Words on what stays behind of a whole database.
fn left_out(objects: &[Object], wanted: Option<&str>) -> Vec<String> {
    if wanted.is_some() {
        return Vec::new();
    }
    let mut words = Vec::new();
    for (what, hint, is_it) in [
        ("views", "", (|it| it.kind == "view") as fn(&Object) -> bool),
        ("triggers", "", |it| it.kind == "trigger"),
        ("virtual tables", "", |it| it.kind == "table" && is_virtual(&it.sql)),
        ("documents", ": shoal doc copy copies them", |it| it.name == "_shoal_doc"),
    ] {
        let names: Vec<&str> =
            objects.iter().filter(|object| is_it(object)).map(|object| &*object.name).collect();
        if !names.is_empty() {
            let names =
                if what == "documents" { String::new() } else { format!(" {}", names.join(", ")) };
            words.push(format!("left out: {what}{names}{hint}"));
        }
    }
    words
}

/// Copies the rows of a table, its rowids with them.
fn copy_rows(
    connection: &mut Connection,
    source: &mut Connection,
    table: &str,
) -> Result<u64, Error> {
    let schema = source.schema()?;
    let shape = schema.table(table).expect("an ordinary table of the schema is one");
    let mut names: Vec<String> = Vec::new();
    if !shape.is_without_rowid() && shape.rowid_alias().is_none() {
        let free = ["rowid", "_rowid_", "oid"];
        let free = free.iter().find(|name| shape.column_index(name).is_none());
        // With all three names taken by columns, no statement can name the rowid.
        names.extend(free.map(|name| (*name).to_owned()));
    }
    let stored = shape.columns().iter().filter(|column| !column.is_generated());
    names.extend(stored.map(|column| quoted(column.name())));
    let (names, marks) = (names.join(", "), vec!["?"; names.len()].join(", "));
    let table = quoted(table);
    let mut select = source.prepare(&format!("SELECT {names} FROM {table}"))?;
    let mut insert =
        connection.prepare(&format!("INSERT INTO {table}({names}) VALUES ({marks})"))?;
    let mut count = 0;
    let mut found = source.query(&mut select)?;
    while let Some(row) = found.next()? {
        for (place, value) in row.values().enumerate() {
            insert.bind_ref(place + 1, value)?;
        }
        connection.execute(&mut insert)?;
        count += 1;
    }
    Ok(count)
}

/// Copies the last numbers of tables with AUTOINCREMENT.
fn copy_sequence(
    connection: &mut Connection,
    source: &mut Connection,
    tables: &[(String, u64)],
) -> Result<(), Error> {
    if source.schema()?.table("sqlite_sequence").is_none() {
        return Ok(());
    }
    for (name, _) in tables {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?1";
        let Some(row) = rows(source, sql, &[name])?.into_iter().next() else { continue };
        let number = row.into_iter().next().unwrap_or(Value::Null);
        for sql in [
            "DELETE FROM sqlite_sequence WHERE name = ?1",
            "INSERT INTO sqlite_sequence(name, seq) VALUES (?1, ?2)",
        ] {
            let mut statement = connection.prepare(sql)?;
            statement.bind(1, name.as_str())?;
            if statement.parameter_count() > 1 {
                statement.bind(2, number.clone())?;
            }
            connection.execute(&mut statement)?;
        }
    }
    Ok(())
}

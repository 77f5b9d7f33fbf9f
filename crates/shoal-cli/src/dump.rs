//! A database as SQL recreating its tables and documents, in Shoal or in `sqlite3`: the output of
//! `shoal dump` and of the shell's `.dump`.

use std::io::{self, Write};

use shoal_sql::{Connection, Error};

use crate::failure::Failure;
use crate::query::{Reads, rows, run, text};
use crate::rows::literal::{identifier, literal_on_a_line, quoted};

/// The selection of a dump.
pub(crate) enum Wanted<'a> {
    All,
    /// These tables, with their indexes and triggers.
    Tables(&'a [String]),
    /// Tables, views, indexes and triggers with a name `LIKE` one of these patterns.
    Like(&'a [String]),
}

/// Writes the tables of a database, in one snapshot: they belong together. `left_out` is told of
/// each object not written.
///
/// # Errors
/// A statement's error, made a [`Failure`] by `failed`; a wanted table missing from the schema;
/// tables without a form in a dump.
pub(crate) fn dump(
    connection: &mut dyn Reads,
    out: &mut impl Write,
    wanted: &Wanted<'_>,
    failed: &impl Fn(Error) -> Failure,
    left_out: &mut impl FnMut(&str),
) -> Result<(), Failure> {
    let own = !connection.in_transaction();
    if own {
        run(connection, "BEGIN").map_err(failed)?;
    }
    let written = objects(connection, wanted, failed, left_out)
        .and_then(|objects| write(connection, out, &objects, failed, left_out));
    if own {
        run(connection, "COMMIT").map_err(failed)?;
    }
    written
}

/// How the names of the tables of documents begin.
const DOCUMENTS: &str = "_shoal_";

struct Object {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

impl Object {
    fn is_virtual(&self) -> bool {
        self.kind == "table" && is_virtual(&self.sql)
    }

    /// True for a shadow table of the virtual table, by its name; its indexes too.
    fn is_part_of(&self, table: &Object) -> bool {
        let (own, name) = (self.table.as_bytes(), table.name.as_bytes());
        own.get(name.len()) == Some(&b'_') && own[..name.len()].eq_ignore_ascii_case(name)
    }
}

/// True for the definition of a virtual table.
pub(crate) fn is_virtual(sql: &str) -> bool {
    let start = sql.as_bytes().get(..14);
    start.is_some_and(|start| start.eq_ignore_ascii_case(b"CREATE VIRTUAL"))
}

/// The names of the projections of documents.
fn projections(connection: &mut Connection) -> Result<Vec<String>, Error> {
    if connection.schema()?.table("_shoal_projection").is_none() {
        return Ok(Vec::new());
    }
    let names = rows(connection, "SELECT name FROM _shoal_projection", &[])?;
    Ok(names.iter().map(|row| text(&row[0])).collect())
}

fn objects(
    connection: &mut dyn Reads,
    wanted: &Wanted<'_>,
    failed: &impl Fn(Error) -> Failure,
    left_out: &mut impl FnMut(&str),
) -> Result<Vec<Object>, Failure> {
    let select = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL";
    let order = match connection.whole() {
        Some(_) => "ORDER BY tbl_name = 'sqlite_sequence', rowid",
        // Under rules the definitions are those of the visible parts of tables.
        None => "",
    };
    let found = rows(connection, &format!("{select} {order}"), &[]).map_err(failed)?;
    let object = |row: &Vec<shoal_sql::Value>| Object {
        kind: text(&row[0]),
        name: text(&row[1]),
        table: text(&row[2]),
        sql: text(&row[3]),
    };
    let mut objects: Vec<Object> = found.iter().map(object).collect();
    if let Wanted::Like(patterns) = wanted {
        let like: Vec<String> =
            (1..=patterns.len()).map(|number| format!("name LIKE ?{number}")).collect();
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let like = format!("SELECT name FROM sqlite_schema WHERE {}", like.join(" OR "));
        let like = rows(connection, &like, &patterns).map_err(failed)?;
        let like: Vec<String> = like.iter().map(|row| text(&row[0])).collect();
        keep(&mut objects, |object| like.contains(&object.name));
    }
    if let Wanted::Tables(tables) = wanted {
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        for table in *tables {
            let is_it = |object: &Object| object.kind == "table" && same(&object.name, table);
            if !objects.iter().any(is_it) {
                return Err(failed(Error::Name {
                    kind: shoal_sql::NameKind::Table,
                    message: format!("no such table: {table}"),
                    offset: None,
                }));
            }
        }
        keep(&mut objects, |object| tables.iter().any(|table| same(&object.table, table)));
    }
    let Some(connection) = connection.whole() else {
        for object in objects.iter().filter(|object| object.name.starts_with(DOCUMENTS)) {
            left_out(&format!("left out: {} (documents are not dumped under rules)", object.name));
        }
        objects.retain(|object| !object.name.starts_with(DOCUMENTS));
        return Ok(objects);
    };
    if matches!(wanted, Wanted::All) {
        // The tables of documents come last: until then projections are tables like any other.
        objects.sort_by_key(|object| object.name.starts_with(DOCUMENTS));
        return Ok(objects);
    }
    for name in projections(connection).map_err(failed)? {
        // A copy of the rows alone is a table like any other.
        let is_of = |object: &Object| object.table.eq_ignore_ascii_case(&name);
        let guard = format!("{name}_guard_");
        objects.retain(|it| !(is_of(it) && it.kind == "trigger" && it.name.starts_with(&guard)));
    }
    for object in &objects {
        if object.kind == "table" && object.name.starts_with(DOCUMENTS) {
            left_out(&format!("left out: {} (a whole dump has the documents)", object.name));
        }
    }
    objects.retain(|object| !object.table.starts_with(DOCUMENTS));
    Ok(objects)
}

/// Keeps some objects, and the shadow tables of virtual tables among them.
fn keep(objects: &mut Vec<Object>, wanted: impl Fn(&Object) -> bool) {
    let (mut kept, rest): (Vec<Object>, Vec<Object>) =
        std::mem::take(objects).into_iter().partition(wanted);
    for object in rest {
        if kept.iter().any(|table| table.is_virtual() && object.is_part_of(table)) {
            kept.push(object);
        }
    }
    *objects = kept;
}

fn write(
    connection: &mut dyn Reads,
    out: &mut impl Write,
    objects: &[Object],
    failed: &impl Fn(Error) -> Failure,
    left_out: &mut impl FnMut(&str),
) -> Result<(), Failure> {
    out.write_all(b"PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")?;
    let mut declares = false;
    for table in objects.iter().filter(|object| object.kind == "table") {
        if table.is_virtual() {
            if !declares {
                out.write_all(b"PRAGMA writable_schema=ON;\n")?;
                declares = true;
            }
            declare_virtual(out, &table.name, &table.sql)?;
            continue;
        }
        if table.name == "sqlite_sequence" {
            out.write_all(b"DELETE FROM sqlite_sequence;\n")?;
        } else if table.name.starts_with("sqlite_") {
            left_out(&format!("left out: {}", table.name));
            continue;
        } else {
            writeln!(out, "{};", without_clash(&table.sql))?;
        }
        insert_rows(connection, &table.name, out, failed)?;
    }
    // Indexes and triggers come after the rows: they are filled at once, and do not fire.
    for kind in ["view", "trigger", "index"] {
        for object in objects.iter().filter(|object| object.kind == kind) {
            writeln!(out, "{};", object.sql)?;
        }
    }
    if declares {
        out.write_all(b"PRAGMA writable_schema=OFF;\n")?;
    }
    out.write_all(b"COMMIT;\n")?;
    Ok(())
}

/// Writes a virtual table's row of `sqlite_schema`, as `sqlite3` does for a dump: shadow tables
/// follow as ordinary ones, without a call of the module or an index built anew.
pub(crate) fn declare_virtual(out: &mut impl Write, name: &str, sql: &str) -> io::Result<()> {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (name, sql) = (literal(name), literal(sql));
    writeln!(
        out,
        "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)\
         VALUES('table',{name},{name},0,{sql});"
    )
}

/// A definition as `sqlite3` prints one: a table with a quoted name is created `IF NOT EXISTS`,
/// because a virtual table may already have made its shadow tables.
pub(crate) fn without_clash(sql: &str) -> String {
    match sql.strip_prefix("CREATE TABLE ").filter(|rest| rest.starts_with(['"', '\''])) {
        Some(rest) => format!("CREATE TABLE IF NOT EXISTS {rest}"),
        None => sql.to_owned(),
    }
}

/// Writes the rows of a table. Generated columns are left out: they are computed again.
fn insert_rows(
    connection: &mut dyn Reads,
    table: &str,
    out: &mut impl Write,
    failed: &impl Fn(Error) -> Failure,
) -> Result<(), Failure> {
    // Under rules a generated column is a column like any other.
    let schema = connection.whole().map(Connection::schema).transpose().map_err(failed)?;
    let known = schema.as_ref().and_then(|schema| schema.table(table));
    let all = known.map_or(&[][..], |table| table.columns());
    let stored: Vec<String> = all
        .iter()
        .filter(|column| !column.is_generated())
        .map(|column| quoted(column.name()))
        .collect();
    let (select, list) = if stored.len() == all.len() {
        ("*".to_owned(), String::new())
    } else {
        (stored.join(","), format!("({})", stored.join(",")))
    };
    let select = format!("SELECT {select} FROM {}", quoted(table));
    let name = identifier(table);
    let mut statement = connection.prepare(&select).map_err(failed)?;
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        write!(out, "INSERT INTO {name}{list} VALUES(")?;
        for (column, value) in row.values().enumerate() {
            if column > 0 {
                out.write_all(b",")?;
            }
            literal_on_a_line(out, &value)?;
        }
        out.write_all(b");\n")?;
    }
    Ok(())
}

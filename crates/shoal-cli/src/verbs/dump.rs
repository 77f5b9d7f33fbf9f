//! `shoal dump`: the tables of a database as the SQL that makes them again, in Shoal or in
//! `sqlite3`. Documents and SQLite's own tables are left out, and that is said.

use std::io::Write;

use shoal_sql::{Connection, Value, ValueRef};
use shoal_stdx::hex;

use crate::args::DumpArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(args: &DumpArgs) -> Result<(), Failure> {
    let mut connection = open::connection(&args.file, shoal_store::Access::ReadOnly)?;
    let failed = |error: shoal_sql::Error| Failure::at(args.file.display(), error);
    // One snapshot: the tables belong together.
    run_sql(&mut connection, "BEGIN").map_err(failed)?;
    let schema = rows(
        &mut connection,
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
         ORDER BY rowid",
    )
    .map_err(failed)?;
    let objects: Vec<Object> = schema.iter().map(|row| Object::new(row)).collect();
    for table in &args.tables {
        if !objects.iter().any(|object| object.kind == "table" && same(&object.name, table)) {
            return Err(Failure::at(args.file.display(), format_args!("no such table: {table}")));
        }
    }
    let wanted = |object: &&Object| {
        args.tables.is_empty() || args.tables.iter().any(|table| same(&object.table, table))
    };

    let mut out = out::stdout();
    writeln!(out, "BEGIN;")?;
    for table in objects.iter().filter(wanted).filter(|object| object.kind == "table") {
        if table.sql.to_ascii_uppercase().starts_with("CREATE VIRTUAL") {
            return Err(Failure::at(
                args.file.display(),
                format_args!("not supported: dumping the virtual table {}", table.name),
            ));
        }
        if table.name.starts_with("sqlite_") {
            out::note(format_args!("left out: {}", table.name));
            continue;
        }
        if table.name.starts_with("_shoal_") {
            out::note(format_args!("left out: {} (shoal doc export copies documents)", table.name));
            continue;
        }
        writeln!(out, "{};", table.sql)?;
        insert_rows(&mut connection, &table.name, &mut out, failed)?;
    }
    // Indexes come after the rows, so that they are filled at once.
    for object in objects.iter().filter(wanted).filter(|object| object.kind != "table") {
        writeln!(out, "{};", object.sql)?;
    }
    writeln!(out, "COMMIT;")?;
    Ok(out.flush()?)
}

struct Object {
    kind: String,
    name: String,
    table: String,
    sql: String,
}

impl Object {
    fn new(row: &[Value]) -> Self {
        let text = |index: usize| match row[index].as_ref() {
            ValueRef::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        Self { kind: text(0), name: text(1), table: text(2), sql: text(3) }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// Writes the rows of a table. Generated columns are left out: they are computed again.
fn insert_rows(
    connection: &mut Connection,
    table: &str,
    out: &mut impl Write,
    failed: impl Fn(shoal_sql::Error) -> Failure,
) -> Result<(), Failure> {
    let name = quoted(table);
    let schema = connection.schema().map_err(&failed)?;
    let all = schema.table(table).map_or(&[][..], |table| table.columns());
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
    let mut statement =
        connection.prepare(&format!("SELECT {select} FROM {name}")).map_err(&failed)?;
    let mut rows = connection.query(&mut statement).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        write!(out, "INSERT INTO {name}{list} VALUES(")?;
        for (column, value) in row.values().enumerate() {
            if column > 0 {
                out.write_all(b",")?;
            }
            literal(out, &value)?;
        }
        out.write_all(b");\n")?;
    }
    Ok(())
}

/// The value as a literal that reads back as the same value.
fn literal(out: &mut impl Write, value: &ValueRef<'_>) -> std::io::Result<()> {
    match *value {
        ValueRef::Null => out.write_all(b"NULL"),
        ValueRef::Int(i64::MIN) => out.write_all(b"(-9223372036854775807-1)"),
        ValueRef::Int(value) => write!(out, "{value}"),
        ValueRef::Real(value) if value == f64::INFINITY => out.write_all(b"9e999"),
        ValueRef::Real(value) if value == f64::NEG_INFINITY => out.write_all(b"-9e999"),
        ValueRef::Real(value) => write!(out, "{value:?}"),
        ValueRef::Blob(bytes) => write!(out, "x'{}'", hex::encode(bytes)),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => write!(out, "'{}'", text.replace('\'', "''")),
            _ => write!(out, "CAST(x'{}' AS TEXT)", hex::encode(bytes)),
        },
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn run_sql(connection: &mut Connection, sql: &str) -> Result<(), shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement)?;
    Ok(())
}

fn rows(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<Value>>, shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_back() {
        let check = |value: ValueRef<'_>, expect: &str| {
            let mut out = Vec::new();
            literal(&mut out, &value).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expect);
        };
        check(ValueRef::Real(1.0), "1.0");
        check(ValueRef::Real(1e300), "1e300");
        check(ValueRef::Real(0.1 + 0.2), "0.30000000000000004");
        check(ValueRef::Text(b"it's"), "'it''s'");
        check(ValueRef::Text(b"a\0b"), "CAST(x'610062' AS TEXT)");
        check(ValueRef::Text(&[0xff]), "CAST(x'ff' AS TEXT)");
        check(ValueRef::Int(i64::MIN), "(-9223372036854775807-1)");
    }
}

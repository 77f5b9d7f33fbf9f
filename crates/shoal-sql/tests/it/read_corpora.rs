//! Every table of every database written by real programs gives SQLite's rows.

use crate::common::{self, ours, sort, theirs};
use shoal_sql::{Error, NameKind, Object, Value};

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The names and kinds of a database's tables and views, from SQLite.
fn names(peer: &rusqlite::Connection) -> Vec<(String, String)> {
    let sql = "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view')";
    let mut statement = peer.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut names: Vec<(String, String)> = rows.map(Result::unwrap).collect();
    names.push(("sqlite_schema".to_owned(), "table".to_owned()));
    names.push(("sqlite_master".to_owned(), "table".to_owned()));
    names
}

#[test]
fn every_table_reads_row_for_row() {
    let mut tables = 0;
    let mut rows = 0;
    let mut virtual_tables = Vec::new();
    for path in shoal_testkit::databases() {
        // SQLite may write beside the file, so both read a copy of their own.
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let peer_copy = folder.path().join("peer.db");
        std::fs::copy(&path, &peer_copy).unwrap();
        let peer = rusqlite::Connection::open(&peer_copy).unwrap();
        let mut connection = common::open(&copy);
        for (name, kind) in names(&peer) {
            let what = format!("{}: {name}", path.display());
            let sql = format!("SELECT * FROM {}", quoted(&name));
            let schema = connection.schema().unwrap();
            if let Some(Object::Virtual { .. }) = schema.object(&name) {
                match connection.prepare(&sql) {
                    Err(Error::Name { kind: NameKind::Module, message, .. }) => {
                        assert!(message.starts_with("no such module: "), "{message}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
                virtual_tables.push(name);
                continue;
            }
            let mut expect = theirs(&peer, &sql).unwrap();
            let mut got = ours(&mut connection, &sql).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(got.columns, expect.columns, "{what}");
            if kind == "view" {
                sort(&mut got.rows);
                sort(&mut expect.rows);
            }
            assert_eq!(got.rows.len(), expect.rows.len(), "{what}");
            for (number, (got, expect)) in got.rows.iter().zip(&expect.rows).enumerate() {
                assert_eq!(got, expect, "{what}, row {number}");
            }
            tables += 1;
            rows += expect.rows.len();
        }
    }
    println!("tables and views: {tables}, rows: {rows}, virtual tables: {virtual_tables:?}");
    assert!(tables > 60, "{tables}");
    assert!(rows > 50_000, "{rows}");
    assert!(!virtual_tables.is_empty());
}

#[test]
fn types_agree_with_typeof() {
    for path in shoal_testkit::databases() {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let mut connection = common::open(&copy);
        let schema = connection.schema().unwrap();
        for object in schema.objects() {
            let Object::Table(table) = object else { continue };
            let columns: Vec<String> =
                table.columns().iter().map(|column| quoted(column.name())).collect();
            let kinds: Vec<String> =
                columns.iter().map(|column| format!("typeof({column})")).collect();
            let sql = format!(
                "SELECT {}, {} FROM {} LIMIT 300",
                columns.join(","),
                kinds.join(","),
                quoted(table.name())
            );
            let got = ours(&mut connection, &sql).unwrap();
            for row in got.rows {
                let (values, kinds) = row.split_at(columns.len());
                for (value, kind) in values.iter().zip(kinds) {
                    assert_eq!(*kind, Value::text(value.type_name()), "{}", table.name());
                }
            }
        }
    }
}

/// SQLite's rows without the names of columns: names in damaged files need not be UTF-8.
fn their_rows(peer: &rusqlite::Connection, sql: &str) -> Result<Vec<Vec<Value>>, rusqlite::Error> {
    use rusqlite::types::ValueRef;
    let mut statement = peer.prepare(sql)?;
    let count = statement.column_count();
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let value = |index| {
            Ok(match row.get_ref(index)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(int) => Value::Int(int),
                ValueRef::Real(real) => Value::Real(real),
                ValueRef::Text(text) => Value::Text(text.to_vec()),
                ValueRef::Blob(blob) => Value::Blob(blob.to_vec()),
            })
        };
        out.push((0..count).map(value).collect::<Result<_, rusqlite::Error>>()?);
    }
    Ok(out)
}

/// Damaged files: SQLite's rows, or an error. Where both sides give rows, they are the same; where
/// one side gives an error, the other may have read less of the file.
#[test]
fn damaged_files_end_in_sqlites_rows_or_errors() {
    let (mut same, mut errors, mut ours_alone) = (0, 0, 0);
    let mut different = Vec::new();
    for path in shoal_testkit::corpus("corrupt") {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.db");
        let peer_copy = folder.path().join("peer.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(&path, &peer_copy).unwrap();
        let peer = rusqlite::Connection::open(&peer_copy).unwrap();
        let store = shoal_store::Store::open(
            std::sync::Arc::new(shoal_store::vfs::OsVfs),
            &copy,
            shoal_store::Access::ReadOnly,
        );
        let connection = store.map_err(Error::from).and_then(shoal_sql::Connection::open);
        let Ok(mut connection) = connection else {
            errors += 1;
            continue;
        };
        let Ok(schema) = connection.schema() else {
            errors += 1;
            continue;
        };
        let mut queries = Vec::new();
        for object in schema.objects() {
            let name = quoted(object.name());
            queries.push((format!("SELECT * FROM {name}"), false));
            // Counted in the table or in an index.
            queries.push((format!("SELECT count(*) FROM {name}"), true));
            let Object::Table(table) = object else { continue };
            if !table.is_without_rowid() {
                queries.push((format!("SELECT * FROM {name} ORDER BY rowid DESC LIMIT 10"), false));
            }
            for index in table.indexes() {
                let Some(Some(column)) = index.key().next() else { continue };
                let column = quoted(table.columns()[column].name());
                queries.push((format!("SELECT * FROM {name} WHERE {column} >= 0"), true));
                let sql = format!("SELECT * FROM {name} WHERE {column} > '' OR {column} = 1");
                queries.push((sql, true));
            }
        }
        for (sql, by_index) in queries {
            match (ours(&mut connection, &sql), their_rows(&peer, &sql)) {
                (Ok(mut got), Ok(mut expect)) => {
                    sort(&mut got.rows);
                    sort(&mut expect);
                    // A damaged index and its table disagree, and the planner chooses the one to
                    // ask.
                    if got.rows == expect || by_index {
                        same += 1;
                    } else {
                        let counts = (got.rows.len(), expect.len());
                        different.push(format!("{}: {sql}: {counts:?}", path.display()));
                    }
                }
                (Ok(_), Err(_)) => ours_alone += 1,
                (Err(_), _) => errors += 1,
            }
        }
    }
    println!("same: {same}, errors: {errors}, rows where SQLite has an error: {ours_alone}");
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(same > 100 && errors > 10);
}

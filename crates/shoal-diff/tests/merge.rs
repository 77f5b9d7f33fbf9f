//! Three-way merges: changes of either side, and of both.

#![allow(clippy::unwrap_used)]

use shoal_diff::{MergeOptions, Merged};
use shoal_sql::{Connection, Value};
use shoal_store::Store;

const BASE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT, b INT UNIQUE);
    INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
    CREATE TABLE k (x, y, z, PRIMARY KEY (y, x)) WITHOUT ROWID;
    INSERT INTO k VALUES (1, 1, 'p'), (2, 2, 'q');
    CREATE TABLE bare (v); INSERT INTO bare VALUES ('first');";

fn run(connection: &mut Connection, sql: &str) {
    for place in shoal_sql::Statements::new(sql) {
        let mut statement = connection.prepare(&sql[place]).unwrap();
        connection.execute(&mut statement).unwrap();
    }
}

fn database(sql: &str) -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    run(&mut connection, BASE);
    run(&mut connection, sql);
    connection
}

/// The rows of a query, as text between bars.
fn rows(connection: &mut Connection, sql: &str) -> String {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let text = |value| match Value::from(value) {
            Value::Null => String::new(),
            Value::Text(text) => String::from_utf8(text).unwrap(),
            value => value.to_int().to_string(),
        };
        all.push(row.values().map(text).collect::<Vec<_>>().join("|"));
    }
    all.join("; ")
}

fn merged(ours: &str, theirs: &str, prefers_theirs: bool) -> (Connection, Merged) {
    let (mut base, mut here, mut there) = (database(""), database(ours), database(theirs));
    let options = MergeOptions { prefers_theirs, is_left_out: None };
    let merged = shoal_diff::merge(&mut base, &mut here, &mut there, &options).unwrap();
    assert_eq!(rows(&mut here, "PRAGMA integrity_check"), "ok");
    (here, merged)
}

const CONFLICTS: &str = "SELECT tbl, kind, row, col, base, ours, theirs FROM merge_conflict";

#[test]
fn both_sides_are_there_where_they_do_not_meet() {
    let ours = "UPDATE t SET b = 20 WHERE id = 2; DELETE FROM t WHERE id = 3;
        INSERT INTO k VALUES (3, 3, 'ours'); INSERT INTO bare VALUES ('ours');
        CREATE TABLE mine (m);";
    let theirs = "UPDATE t SET a = 'zwei' WHERE id = 2; DELETE FROM t WHERE id = 3;
        INSERT INTO t VALUES (6, 'six', 3); DELETE FROM k WHERE x = 1; UPDATE k SET z = 'Q' WHERE x = 2;
        INSERT INTO bare VALUES ('theirs');
        CREATE TABLE u (x PRIMARY KEY, w); INSERT INTO u VALUES (1, 2); CREATE INDEX i ON t (a);
        CREATE VIEW v AS SELECT count(*) AS n FROM u;";
    let (mut here, merged) = merged(ours, theirs, false);
    assert_eq!(merged.conflicts, []);
    assert_eq!(rows(&mut here, "SELECT * FROM t"), "1|one|1; 2|zwei|20; 6|six|3");
    assert_eq!(rows(&mut here, "SELECT * FROM k"), "2|2|Q; 3|3|ours");
    assert_eq!(rows(&mut here, "SELECT v FROM bare ORDER BY v"), "first; ours; theirs");
    assert_eq!(rows(&mut here, "SELECT u.x, w, n FROM u, v"), "1|2|1");
    let names = "SELECT name FROM sqlite_schema WHERE name IN ('i', 'mine', 'merge_conflict')";
    assert_eq!(rows(&mut here, names), "mine; i");
}

#[test]
fn a_cell_changed_on_both_sides_is_a_conflict() {
    let ours = "UPDATE t SET a = 'ours' WHERE id = 1; DELETE FROM t WHERE id = 3;
        UPDATE k SET z = 'ours' WHERE x = 1; INSERT INTO t VALUES (9, 'nine', 9);
        UPDATE t SET a = 'same' WHERE id = 2;";
    let theirs = "UPDATE t SET a = 'theirs', b = 10 WHERE id = 1; UPDATE t SET b = 30 WHERE id = 3;
        DELETE FROM k WHERE x = 1; INSERT INTO t VALUES (9, 'neun', 9);
        UPDATE t SET a = 'same' WHERE id = 2;";
    let (mut here, merged) = self::merged(ours, theirs, false);
    assert_eq!(merged.conflicts.len(), 4, "{:?}", merged.conflicts);
    assert_eq!(rows(&mut here, "SELECT * FROM t"), "1|ours|10; 2|same|2; 9|nine|9");
    assert_eq!(rows(&mut here, "SELECT * FROM k"), "1|1|ours; 2|2|q");
    let told = rows(&mut here, &format!("{CONFLICTS} ORDER BY kind"));
    let expect = "t|cell|\"id\" IS 1|a|one|ours|theirs; \
        k|delete|\"x\" IS 1 AND \"y\" IS 1|z|p|ours|; \
        t|insert|\"id\" IS 9|a||nine|neun; \
        t|update|\"id\" IS 3|b|3||30";
    assert_eq!(told, expect);
    let (mut here, _) = self::merged(ours, theirs, true);
    assert_eq!(rows(&mut here, "SELECT * FROM t"), "1|theirs|10; 2|same|2; 9|neun|9");
}

#[test]
fn constraints_and_definitions_conflict_too() {
    let ours = "INSERT INTO t VALUES (7, 'seven', 70); ALTER TABLE bare ADD COLUMN ours;";
    let theirs = "INSERT INTO t VALUES (8, 'eight', 70); ALTER TABLE bare ADD COLUMN theirs;
        DROP TABLE k;";
    let (mut here, merged) = merged(ours, theirs, false);
    assert_eq!(rows(&mut here, "SELECT * FROM t WHERE id > 3"), "7|seven|70");
    let kinds: Vec<&str> = merged.conflicts.iter().map(|conflict| conflict.kind).collect();
    assert_eq!(kinds, ["definition", "constraint"], "{:?}", merged.conflicts);
    // The table dropped by theirs was as before in ours.
    assert_eq!(rows(&mut here, "SELECT count(*) FROM sqlite_schema WHERE name = 'k'"), "0");
    let ours = "UPDATE k SET z = 'changed' WHERE x = 1";
    let (mut here, merged) = self::merged(ours, "DROP TABLE k", false);
    assert_eq!(merged.conflicts[0].kind, "definition");
    assert_eq!(rows(&mut here, "SELECT z FROM k"), "changed; q");
}

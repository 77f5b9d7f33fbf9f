//! Snapshots kept behind commits: as long as nobody changes the graph's tables, and no longer.

use std::sync::Arc;

use shoal_sql::Connection;
use shoal_testkit::Random;

use super::{ask, execute};
use crate::pgq::known::Known;
use crate::pgq::{define, functions};

fn graph() -> (Connection, Arc<Known>) {
    let mut connection = super::connection();
    let known = Arc::new(Known::default());
    functions::register(&mut connection, &known);
    for sql in [
        "CREATE TABLE v(id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE w(k TEXT PRIMARY KEY, x INT) WITHOUT ROWID",
        "CREATE TABLE e(id INTEGER PRIMARY KEY, long TEXT, a INT, b INT)",
        "CREATE TABLE f(a INT, k TEXT)",
        "CREATE TABLE other(x)",
        "INSERT INTO v SELECT value, 'n' || value FROM generate_series(0, 299)",
        "INSERT INTO w SELECT 'k' || value, value FROM generate_series(0, 99)",
        "INSERT INTO e SELECT value, printf('%.5000c', 'x'), value % 300, value * 7 % 300
           FROM generate_series(0, 99)",
        "INSERT INTO f SELECT value % 300, 'k' || value % 100 FROM generate_series(0, 599)",
    ] {
        execute(&mut connection, sql);
    }
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (v, w) EDGE TABLES (
        e SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id),
        f SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (k) REFERENCES w (k))";
    define(&mut connection, sql).unwrap();
    (connection, known)
}

const ASKED: &str = "SELECT node, node_label, outgoing, incoming FROM graph_degree('g')";

/// Compares the graph's answer with an answer by the tables; true where the snapshot was kept.
fn is_kept(connection: &mut Connection, known: &Known) -> bool {
    let before = known.snapshots();
    let found = ask(connection, ASKED);
    let degrees =
        "SELECT id, 'v', (SELECT count(*) FROM e JOIN v AS o ON o.id = e.b WHERE a = v.id)
        + (SELECT count(*) FROM f JOIN w ON w.k = f.k WHERE a = v.id),
        (SELECT count(*) FROM e JOIN v AS o ON o.id = e.a WHERE b = v.id) FROM v UNION ALL
        SELECT k, 'w', 0, (SELECT count(*) FROM f JOIN v ON v.id = f.a WHERE f.k = w.k) FROM w";
    assert_eq!(found, ask(connection, degrees));
    let after = known.snapshots();
    after.iter().any(|now| before.iter().any(|then| Arc::ptr_eq(now, then)))
}

#[test]
fn snapshots_are_kept_behind_commits_to_other_tables() {
    let (mut connection, known) = graph();
    assert!(!is_kept(&mut connection, &known));
    for (sql, keeps) in [
        ("INSERT INTO other VALUES (1), (2)", true),
        ("INSERT INTO other SELECT randomblob(3000) FROM generate_series(1, 50)", true),
        ("DELETE FROM other", true),
        ("INSERT INTO e VALUES (1000, 'x', 1, 2)", false),
        ("UPDATE other SET x = 2", true),
        // The ends of these edges are on other pages than their rows begin on.
        ("UPDATE e SET b = b + 1 WHERE id = 50", false),
        ("UPDATE f SET k = 'k1' WHERE rowid = 7", false),
        ("INSERT INTO v VALUES (1000, 'x')", false),
        ("DELETE FROM v WHERE id = 3", false),
        ("UPDATE w SET k = 'z' WHERE k = 'k5'", false),
        ("INSERT INTO other VALUES (1)", true),
        // The schema may have changed the meaning of names.
        ("CREATE TABLE another(x)", false),
        ("CREATE TEMP TABLE mine(x)", false),
        ("INSERT INTO other VALUES (1)", true),
        ("ALTER TABLE e RENAME COLUMN a TO c", false),
        ("ALTER TABLE e RENAME COLUMN c TO a", false),
    ] {
        execute(&mut connection, sql);
        if sql.ends_with("c") {
            continue;
        }
        assert_eq!(is_kept(&mut connection, &known), keeps, "{sql}");
        assert!(is_kept(&mut connection, &known), "{sql}, once more");
    }
    // Nothing is kept of a transaction that writes, and nothing is read from what was kept.
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "INSERT INTO e VALUES (2000, 'x', 5, 6)");
    is_kept(&mut connection, &known);
    execute(&mut connection, "ROLLBACK");
    assert!(is_kept(&mut connection, &known));
    // The same name for another graph.
    let sql = "CREATE OR REPLACE PROPERTY GRAPH g VERTEX TABLES (v) EDGE TABLES
        (e SOURCE KEY (b) REFERENCES v (id) DESTINATION KEY (a) REFERENCES v (id))";
    let before = ask(&mut connection, "SELECT sum(outgoing) FROM graph_degree('g')");
    define(&mut connection, sql).unwrap();
    assert_ne!(ask(&mut connection, "SELECT sum(outgoing) FROM graph_degree('g')"), before);
}

#[test]
fn whatever_is_committed_calls_see_it() {
    let (mut connection, known) = graph();
    let mut random = Random::seeded(7);
    let mut kept = 0;
    for _ in 0..150 {
        let sql = match random.place(9) {
            0 => format!("INSERT INTO e(long, a, b) VALUES ('', {}, 4)", random.place(300)),
            1 => format!("DELETE FROM f WHERE rowid = {}", random.place(600)),
            2 => format!("UPDATE e SET a = {} WHERE id = {}", random.place(300), random.place(99)),
            3 => format!("INSERT OR IGNORE INTO w VALUES ('k{}', 1)", random.place(300)),
            4 => format!("UPDATE v SET name = printf('%.{}c', 'y')", random.place(300)),
            _ => format!("INSERT INTO other VALUES (randomblob({}))", random.place(9000)),
        };
        execute(&mut connection, &sql);
        if random.place(3) > 0 {
            kept += usize::from(is_kept(&mut connection, &known));
        }
    }
    assert!(kept > 15, "{kept} snapshots kept");
}

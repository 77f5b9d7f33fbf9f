//! Plans kept by text and by shape: the same answers as from a new plan, after every kind of change
//! of a schema, and literals with the meaning of literals.

use std::sync::Arc;

use crate::common::{Scratch, check, ours, theirs};
use shoal_sql::{Connection, Error, Layer, Value};
use shoal_store::{Access, Store, vfs::OsVfs};

const TABLES: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER, s TEXT, c TEXT COLLATE NOCASE, x, r REAL);
    CREATE INDEX t_n ON t(n);
    CREATE INDEX t_c ON t(c);
    CREATE INDEX t_x ON t(x);
    CREATE TABLE u(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    INSERT INTO t VALUES (1, 1, 'a', 'A', 1, 1.5), (2, 1, 'b', 'a', '1', 2),
        (3, 2, '7', 'B', 'x', 7), (4, NULL, NULL, NULL, NULL, NULL), (7, 7, 'it''s', 'b', x'61', -1);
    INSERT INTO u VALUES ('a', 1), ('b', 'two'), ('7', 7);";

fn writable(scratch: &Scratch) -> Connection {
    let store = Store::open(Arc::new(OsVfs), &scratch.path(), Access::ReadWrite).unwrap();
    Connection::open(store).unwrap()
}

/// Asks for each text three times: planned, kept, found.
fn check_often(connection: &mut Connection, peer: &rusqlite::Connection, texts: &[&str]) {
    for _ in 0..3 {
        for sql in texts {
            check(connection, peer, sql, &[]).unwrap();
        }
    }
}

#[test]
fn literals_of_a_shape_mean_what_they_mean_as_literals() {
    let scratch = Scratch::new(TABLES);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let literals = ["1", "2", "7", "99", "'1'", "'a'", "'A'", "'B'", "'x'", "'it''s'", "''", "007"];
    for operator in ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "IS"] {
        for column in ["id", "rowid", "n", "s", "c", "x", "r", "t.id"] {
            for literal in literals {
                for sql in [
                    format!("SELECT * FROM t WHERE {column} {operator} {literal}"),
                    format!(
                        "SELECT {literal}, s, 5 FROM t WHERE {column} {operator} {literal} AND n < 9"
                    ),
                    format!(
                        "SELECT s, {literal} AS l FROM t WHERE {column} {operator} {literal} LIMIT 2;"
                    ),
                ] {
                    check(&mut connection, &peer, &sql, &[]).unwrap();
                }
            }
        }
        for literal in literals {
            let sql = format!("select v, {literal} from u where k {operator} {literal} order by 1");
            check(&mut connection, &peer, &sql, &[]).unwrap();
            for sql in [
                format!(
                    "SELECT a.s, b.s, {literal} FROM t a JOIN t b ON b.id = a.n WHERE a.id = {literal}"
                ),
                format!(
                    "SELECT a.s, b.c FROM t a, t b WHERE a.id = 1 AND b.id = a.id AND b.n {operator} {literal}"
                ),
                format!(
                    "SELECT a.s, v FROM t a LEFT JOIN u ON k = a.n WHERE a.id = 2 AND v {operator} {literal}"
                ),
            ] {
                check(&mut connection, &peer, &sql, &[]).unwrap();
            }
            let sql = format!("SELECT s FROM t WHERE 1 {operator} {literal} AND id = 1 OR n = 7");
            check(&mut connection, &peer, &sql, &[]).unwrap();
        }
    }
    // Errors keep their places in the written text.
    for _ in 0..3 {
        for sql in ["SELECT nosuch FROM t WHERE id = 12345", "SELECT s FROM t WHERE id = 'x' 'y'"] {
            let error = connection.prepare(sql).unwrap_err();
            assert_eq!(
                error.offset(),
                ["nosuch", "'y'"].iter().find_map(|it| sql.find(it)),
                "{sql}"
            );
        }
    }
}

#[test]
fn literals_are_nobodys_parameters() {
    let scratch = Scratch::new(TABLES);
    let mut connection = scratch.ours();
    for id in 1..=4_i64 {
        let sql = format!("SELECT s, 'x' FROM t WHERE id = {id}");
        let mut statement = connection.prepare(&sql).unwrap();
        assert_eq!(statement.sql(), sql);
        assert_eq!(statement.column_names(), ["s", "'x'"]);
        assert_eq!(statement.column_declared_type(0), Some("TEXT"));
        assert_eq!(statement.parameter_count(), 0);
        assert_eq!((statement.parameter_name(1), statement.parameter_index("?1")), (None, None));
        assert!(matches!(statement.bind(1, 9_i64), Err(Error::Misuse { .. })));
        statement.clear_bindings();
        for _ in 0..2 {
            let mut rows = connection.query(&mut statement).unwrap();
            let row = rows.next().unwrap().unwrap();
            let expect = [Some("a"), Some("b"), Some("7"), None][id as usize - 1];
            assert_eq!(Value::from(row.get(0)), expect.map_or(Value::Null, Value::from));
        }
    }
}

#[test]
fn no_plan_outlives_its_schema() {
    let texts = [
        "SELECT * FROM t WHERE id = 3",
        "SELECT * FROM t WHERE id = 7",
        "SELECT * FROM t WHERE n = 1 ORDER BY id",
        "SELECT count(*) FROM t",
        "SELECT s, 'one' FROM t WHERE c = 'a' ORDER BY id",
        "SELECT s, 'two' FROM t WHERE c = 'B' ORDER BY id",
    ];
    let scratch = Scratch::new(TABLES);
    let (mut connection, peer) = (writable(&scratch), scratch.theirs());
    let mut kept: Vec<_> = texts.iter().map(|sql| connection.prepare(sql).unwrap()).collect();
    for change in [
        "DROP INDEX t_n",
        "CREATE INDEX t_n2 ON t(n, s)",
        "ALTER TABLE t ADD COLUMN added DEFAULT 5",
        "CREATE INDEX part ON t(c) WHERE c = 'a'",
        "DROP TABLE t; CREATE TABLE t(c TEXT, s, n, id INTEGER PRIMARY KEY); \
         INSERT INTO t VALUES ('a', 's', 1, 3), ('B', 't', 1, 7)",
        "DROP TABLE t; CREATE VIEW t AS SELECT k AS c, v AS s, 1 AS n, 7 AS id FROM u",
    ] {
        check_often(&mut connection, &peer, &texts);
        peer.execute_batch(change).unwrap();
        check_often(&mut connection, &peer, &texts);
        // Earlier statements, some with the plans of shapes.
        for (statement, sql) in kept.iter_mut().zip(texts) {
            let mut rows = connection.query(statement).unwrap();
            let mut got = Vec::new();
            while let Some(row) = rows.next().unwrap() {
                got.push(row.values().map(Value::from).collect::<Vec<_>>());
            }
            assert_eq!(got, theirs(&peer, sql).unwrap().rows, "{sql} after {change}");
        }
        kept = texts.iter().map(|sql| connection.prepare(sql).unwrap()).collect();
    }
    peer.execute_batch("DROP VIEW t").unwrap();
    for (mut statement, sql) in kept.into_iter().zip(texts) {
        for error in [connection.query(&mut statement).map(drop), connection.prepare(sql).map(drop)]
        {
            let error = error.unwrap_err();
            assert!(matches!(error, Error::Name { .. }), "{error}");
            assert_eq!(error.offset(), sql.find("FROM t").map(|from| from + 5));
        }
    }
}

#[test]
fn what_the_connection_itself_does_ends_plans_too() {
    let scratch = Scratch::new(TABLES);
    let mut connection = writable(&scratch);
    let run = |connection: &mut Connection, sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        connection.execute(&mut statement).unwrap();
    };
    let sql = "SELECT * FROM t WHERE id = 3";
    let three = Value::Int(3);
    let ask = |connection: &mut Connection, sql: &str| {
        let rows: Vec<_> = (0..3).map(|_| ours(connection, sql).unwrap().rows).collect();
        assert!(rows.windows(2).all(|pair| pair[0] == pair[1]));
        rows.into_iter().next().unwrap()
    };
    assert_eq!(ask(&mut connection, sql)[0][0], three);
    // A definition, taken back and kept.
    for end in ["ROLLBACK", "COMMIT"] {
        run(&mut connection, "BEGIN");
        run(&mut connection, "DROP TABLE t");
        run(&mut connection, "CREATE TABLE t(a, id INTEGER PRIMARY KEY)");
        run(&mut connection, "INSERT INTO t VALUES ('new', 3)");
        assert_eq!(ask(&mut connection, sql), [[Value::from("new"), three.clone()]]);
        if end == "ROLLBACK" {
            run(&mut connection, end);
            assert_eq!(ask(&mut connection, sql)[0].len(), 6);
            // Another database's table of the name.
            let other = Scratch::new(
                "CREATE TABLE w(id INTEGER PRIMARY KEY, o); INSERT INTO w VALUES (3, 'o')",
            );
            let of_other = "SELECT o FROM w WHERE id = 3";
            for _ in 0..2 {
                run(&mut connection, &format!("ATTACH '{}' AS other", other.path().display()));
                assert_eq!(ask(&mut connection, of_other), [[Value::from("o")]]);
                assert_eq!(ask(&mut connection, sql)[0].len(), 6);
                other.theirs().execute_batch("DROP TABLE w; CREATE TABLE w(o, id INTEGER PRIMARY KEY); INSERT INTO w VALUES ('o', 3)").unwrap();
                assert_eq!(ask(&mut connection, of_other), [[Value::from("o")]]);
                run(&mut connection, "DETACH other");
                assert!(matches!(connection.prepare(of_other), Err(Error::Name { .. })));
            }
            // Registered queries and layers hide a table.
            connection.register_query("t", "SELECT 3 AS id, 'query' AS q").unwrap();
            assert_eq!(ask(&mut connection, sql), [[three.clone(), Value::from("query")]]);
            let row = || vec![vec![Value::Int(3)]].into_iter();
            connection.register_layer(Layer::new("t", &["id"], row));
            assert_eq!(ask(&mut connection, sql), [[three.clone()]]);
            connection.unregister("t");
            assert_eq!(ask(&mut connection, sql)[0].len(), 6);
        } else {
            run(&mut connection, end);
            assert_eq!(ask(&mut connection, sql), [[Value::from("new"), three.clone()]]);
        }
    }
    // Tables kept from statements, after a plan was kept.
    let insert = "INSERT INTO t VALUES ('kept', NULL)";
    (0..3).for_each(|_| run(&mut connection, insert));
    connection.reserve_tables(Some("t"));
    assert!(connection.prepare(insert).is_err());
    connection.reserve_tables(None);
    run(&mut connection, insert);
    assert_eq!(ask(&mut connection, "SELECT count(*) FROM t"), [[Value::Int(5)]]);
}

#[test]
fn statements_of_one_plan_do_not_meet() {
    let scratch = Scratch::new(TABLES);
    let (mut one, mut two) = (scratch.ours(), scratch.ours());
    let sql = "SELECT id FROM t WHERE n = 1 ORDER BY id";
    for _ in 0..4 {
        let mut first = one.prepare(sql).unwrap();
        let mut second = one.prepare(sql).unwrap();
        let mut elsewhere = two.prepare(sql).unwrap();
        {
            // Left before its last row.
            let mut rows = one.query(&mut first).unwrap();
            assert_eq!(Value::from(rows.next().unwrap().unwrap().get(0)), Value::Int(1));
        }
        for (connection, statement) in [(&mut one, &mut second), (&mut two, &mut elsewhere)] {
            let mut rows = connection.query(statement).unwrap();
            assert_eq!(Value::from(rows.next().unwrap().unwrap().get(0)), Value::Int(1));
            assert_eq!(Value::from(rows.next().unwrap().unwrap().get(0)), Value::Int(2));
            assert!(rows.next().unwrap().is_none());
        }
        // A statement of one connection, run by another: its plan is made again.
        let mut rows = two.query(&mut first).unwrap();
        assert_eq!(Value::from(rows.next().unwrap().unwrap().get(0)), Value::Int(1));
    }
}

#[test]
fn more_texts_than_are_kept() {
    let scratch = Scratch::new(TABLES);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for round in 0..3 {
        for number in 0..600 {
            let sql = format!("SELECT s AS a{number}, {number} FROM t WHERE id = {}", number % 8);
            if round < 2 || number % 50 == 0 {
                check(&mut connection, &peer, &sql, &[]).unwrap();
            }
        }
    }
}

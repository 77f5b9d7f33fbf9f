//! `ATTACH`, `DETACH` and statements over several files, compared with SQLite on the same files.

use crate::common::{self, Scratch, check, check_all, ours};
use shoal_sql::{Connection, Value};

const MAIN: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, n INT);
    CREATE TABLE only_main(a);
    CREATE VIEW v AS SELECT name, n FROM t WHERE n > 1;
    CREATE INDEX t_n ON t(n);
    INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3);
    INSERT INTO only_main VALUES ('m');
    PRAGMA user_version = 5;";

const OTHER: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, extra TEXT);
    CREATE TABLE only_other(b, k INTEGER PRIMARY KEY);
    CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
    CREATE VIEW v AS SELECT t.name AS other_name, extra FROM t JOIN only_other ON k = t.id;
    CREATE VIEW broken AS SELECT * FROM only_main;
    CREATE INDEX other_name ON t(name);
    INSERT INTO t VALUES (1, 'uno', 'x'), (2, 'two', 'y'), (9, 'nueve', 'z');
    INSERT INTO only_other VALUES ('o', 1), ('p', 2);
    INSERT INTO w VALUES ('two', 22), ('three', 33);
    PRAGMA user_version = 77; PRAGMA application_id = 3;";

/// Both connections with the other file attached as `aux`.
fn both() -> (Scratch, Scratch, Connection, rusqlite::Connection) {
    let (main, other) = (Scratch::new(MAIN), Scratch::new(OTHER));
    let (mut connection, peer) = (main.ours(), main.theirs());
    let attach = format!("ATTACH '{}' AS aux", other.path().display());
    peer.execute_batch(&attach).unwrap();
    ours(&mut connection, &attach).unwrap();
    (main, other, connection, peer)
}

#[test]
fn queries_over_two_files() {
    let (_main, _other, mut connection, peer) = both();
    let queries = "SELECT * FROM t; SELECT * FROM main.t; SELECT * FROM aux.t; SELECT * FROM AUX.T;
        SELECT * FROM only_other; SELECT * FROM aux.only_other; SELECT * FROM w WHERE k = 'two';
        SELECT a.name, b.name, b.extra FROM main.t a JOIN aux.t b USING (id) ORDER BY a.id;
        SELECT main.t.name, aux.t.name FROM main.t JOIN aux.t ON main.t.id = aux.t.id ORDER BY 1;
        SELECT main.t.id, aux.t.id FROM main.t LEFT JOIN aux.t ON aux.t.name = main.t.name ORDER BY 1;
        SELECT main.t.id, aux.t.id FROM main.t FULL JOIN aux.t ON aux.t.id = main.t.id ORDER BY 1, 2;
        SELECT t.id FROM main.t, aux.t; SELECT aux.t.n FROM main.t; SELECT aux.t.id FROM main.t;
        SELECT nope.t.id FROM main.t; SELECT * FROM nope.t; SELECT * FROM aux.only_main;
        SELECT name, v FROM t JOIN w ON w.k = t.name ORDER BY 1;
        SELECT name, v FROM w JOIN t ON w.k = t.name ORDER BY 1;
        SELECT name FROM t UNION SELECT name FROM aux.t ORDER BY 1;
        SELECT name FROM t UNION ALL SELECT name FROM aux.t ORDER BY 1;
        SELECT name FROM t INTERSECT SELECT name FROM aux.t;
        SELECT * FROM v ORDER BY 1; SELECT * FROM aux.v ORDER BY 1; SELECT * FROM main.v ORDER BY 1;
        SELECT * FROM aux.broken; SELECT * FROM broken;
        SELECT (SELECT max(extra) FROM aux.t WHERE aux.t.id >= main.t.id), n FROM main.t ORDER BY n;
        SELECT n FROM t WHERE name IN (SELECT name FROM aux.t); SELECT n FROM t WHERE name IN aux.w;
        SELECT id IN aux.only_other FROM t; SELECT count(*) FROM aux.t; SELECT sum(k) FROM only_other;
        WITH w AS (SELECT 1 AS one) SELECT * FROM w; WITH c AS (SELECT * FROM aux.w) SELECT * FROM c ORDER BY 1;
        SELECT name FROM sqlite_schema ORDER BY 1; SELECT name FROM aux.sqlite_schema ORDER BY 1;
        SELECT name FROM aux.sqlite_master ORDER BY 1; SELECT * FROM temp.sqlite_master;
        SELECT * FROM sqlite_temp_schema; SELECT count(*) FROM temp.sqlite_temp_master;
        SELECT aux.v.extra FROM aux.v ORDER BY 1; SELECT rowid, aux.t.rowid FROM aux.t;
        SELECT id FROM aux.t INDEXED BY other_name WHERE name = 'two';
        PRAGMA aux.user_version; PRAGMA main.user_version; PRAGMA user_version; PRAGMA aux.application_id;
        PRAGMA table_info(only_other); PRAGMA aux.table_info(t); PRAGMA main.table_info(t);
        PRAGMA table_info(t); PRAGMA aux.index_list(t); PRAGMA index_info(other_name);
        PRAGMA aux.index_info(other_name); PRAGMA aux.table_info(only_main); PRAGMA nope.user_version;
        SELECT * FROM pragma_table_info('t', 'aux'); SELECT * FROM pragma_table_info('only_other');
        PRAGMA aux.integrity_check; PRAGMA aux.quick_check;
        PRAGMA integrity_check; PRAGMA aux.page_size; PRAGMA aux.encoding; PRAGMA aux.journal_mode";
    check_all(&mut connection, &peer, queries);
    // SQLite lists `temp` once a statement has named `temp`.
    let lists = "SELECT seq, name FROM pragma_database_list WHERE name <> 'temp'";
    check(&mut connection, &peer, lists, &[]).unwrap();
    let rows = ours(&mut connection, "PRAGMA database_list").unwrap().rows;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[1][..2], [Value::Int(2), Value::text("aux")]);
    for (sql, message) in [
        ("SELECT * FROM nope.t", "no such table: nope.t"),
        ("SELECT * FROM aux.only_main", "no such table: aux.only_main"),
        ("SELECT nope.t.id FROM main.t", "no such column: nope.t.id"),
        ("SELECT t.id FROM main.t, aux.t", "ambiguous column name: t.id"),
        ("PRAGMA nope.user_version", "unknown database nope"),
    ] {
        assert_eq!(ours(&mut connection, sql).unwrap_err().to_string(), message);
        let theirs = common::theirs(&peer, sql).unwrap_err().to_string();
        assert!(theirs.contains(message), "{theirs}");
    }
}

#[test]
fn attaching_and_detaching() {
    let (main, other) = (Scratch::new(MAIN), Scratch::new(OTHER));
    let mut connection = main.ours();
    let peer = main.theirs();
    let file = other.path().display().to_string();
    let mut both = |sql: &str| {
        let got = ours(&mut connection, sql).map(|table| table.rows).map_err(|e| e.to_string());
        let expect = common::theirs(&peer, sql).map(|table| table.rows);
        match (got, expect) {
            (Ok(got), Ok(expect)) => assert_eq!(got, expect, "{sql}"),
            (Err(got), Err(expect)) => {
                let expect = expect.to_string();
                let same =
                    expect.contains(&got) || got.starts_with(expect.split(" in ").next().unwrap());
                assert!(same, "{sql}\nours: {got}\ntheirs: {expect}");
            }
            (got, expect) => panic!("{sql}: {got:?} {expect:?}"),
        }
    };
    both("DETACH aux");
    both("DETACH main");
    both("DETACH DATABASE temp");
    both(&format!("ATTACH DATABASE '{file}' AS aux"));
    both("SELECT count(*) FROM aux.t");
    both(&format!("ATTACH '{file}' AS AUX"));
    both(&format!("ATTACH '{file}' AS main"));
    both(&format!("ATTACH '{file}' || '' AS 'sec' || 'ond'"));
    both("SELECT a.id FROM aux.t a JOIN second.t b USING (id) JOIN main.t c USING (id) ORDER BY 1");
    both("DETACH aux");
    both("SELECT count(*) FROM aux.t");
    both("SELECT extra FROM second.t ORDER BY id");
    both("SELECT extra FROM v ORDER BY 1");
    both("DETACH 'second'");
    both("SELECT * FROM only_other");
    both("ATTACH ':memory:' AS m");
    both("SELECT count(*) FROM m.sqlite_schema");
    both("DETACH m");
    for number in 1..=10 {
        both(&format!("ATTACH ':memory:' AS m{number}"));
    }
    both("ATTACH ':memory:' AS m11");
    let missing = ours(&mut connection, "ATTACH '/nowhere/at/all.db' AS x").unwrap_err();
    assert!(missing.to_string().starts_with("too many attached databases"), "{missing}");
    ours(&mut connection, "DETACH m1").unwrap();
    let missing = ours(&mut connection, "ATTACH '/nowhere/at/all.db' AS x").unwrap_err();
    assert!(missing.to_string().starts_with("unable to open database: /nowhere/at/all.db"));
}

#[test]
fn parameters_and_prepared_statements() {
    let (main, other) = (Scratch::new(MAIN), Scratch::new(OTHER));
    let mut connection = main.ours();
    let mut attach = connection.prepare("ATTACH ?1 AS ?2").unwrap();
    attach.bind(1, other.path().display().to_string()).unwrap();
    attach.bind(2, "p").unwrap();
    connection.execute(&mut attach).unwrap();
    let mut statement = connection.prepare("SELECT count(*) FROM p.t WHERE id > ?").unwrap();
    let mut count = |connection: &mut Connection| {
        let mut rows = connection.query(&mut statement).unwrap();
        let row = rows.next().unwrap().unwrap();
        Value::from(row.get(0))
    };
    assert_eq!(count(&mut connection), Value::Int(0));
    // Another connection changes rows, then the schema.
    other.theirs().execute_batch("UPDATE t SET extra = 'q'; CREATE TABLE later(x)").unwrap();
    assert_eq!(count(&mut connection), Value::Int(0));
    assert_eq!(ours(&mut connection, "SELECT count(*) FROM later").unwrap().rows.len(), 1);
    ours(&mut connection, "DETACH p").unwrap();
    let mut gone = connection.prepare("SELECT 1").unwrap();
    assert!(connection.query(&mut gone).is_ok());
    let error = connection.query(&mut statement).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "no such table: p.t");
}

#[test]
fn a_transaction_sees_one_state_of_every_file() {
    let (_main, other, mut connection, _peer) = both();
    other.theirs().execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let writer = other.theirs();
    let count = |connection: &mut Connection| {
        ours(connection, "SELECT count(*), (SELECT count(*) FROM main.t) FROM aux.t").unwrap().rows
    };
    ours(&mut connection, "BEGIN").unwrap();
    let before = count(&mut connection);
    writer.execute_batch("INSERT INTO t VALUES (100, 'late', 'l')").unwrap();
    assert_eq!(count(&mut connection), before);
    let locked = ours(&mut connection, "DETACH aux").unwrap_err();
    assert_eq!(locked.to_string(), "database aux is locked");
    ours(&mut connection, "COMMIT").unwrap();
    assert_ne!(count(&mut connection), before);
    ours(&mut connection, "DETACH aux").unwrap();
}

/// Statistics of attached files choose plans as in `main`.
#[test]
fn plans_look_into_attached_files() {
    let script = "CREATE TABLE big(a INT, b INT); CREATE INDEX big_a ON big(a); CREATE INDEX big_b ON big(b);
        WITH RECURSIVE c(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM c WHERE i < 3000)
        INSERT INTO big SELECT 7, i FROM c;";
    let (main, other) = (Scratch::new("CREATE TABLE t(a)"), Scratch::new(script));
    let mut connection = main.ours();
    ours(&mut connection, &format!("ATTACH '{}' AS o", other.path().display())).unwrap();
    let plan = |connection: &mut Connection, sql: &str| {
        let rows = ours(connection, &format!("EXPLAIN QUERY PLAN {sql}")).unwrap().rows;
        rows[0][3].clone()
    };
    // Every row has a = 7, and one row has b = 5.
    let expect = Value::text("SEARCH big USING INDEX big_b (b=?)");
    assert_eq!(plan(&mut connection, "SELECT * FROM big WHERE a = 7 AND b = 5"), expect);
    assert_eq!(plan(&mut connection, "SELECT * FROM o.big WHERE b = 5 AND a = 7"), expect);
}

#[test]
fn encodings_must_agree() {
    let main = Scratch::new(MAIN);
    let other = Scratch::new("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(a)");
    let mut connection = main.ours();
    let attach = format!("ATTACH '{}' AS aux", other.path().display());
    let error = ours(&mut connection, &attach).unwrap_err().to_string();
    let expect = main.theirs().execute_batch(&attach).unwrap_err().to_string();
    assert!(expect.contains(&error), "{error}\n{expect}");
}

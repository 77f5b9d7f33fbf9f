//! Functions, aggregates and collations of the program's own, compared with SQLite's.

use std::cmp::Ordering;

use crate::write_support::{self, contents, run_shoal, run_sqlite, shoal, show, sqlite};
use rusqlite::functions::WindowAggregate;
use rusqlite::functions::{Aggregate as SqliteAggregate, Context, FunctionFlags as Flags};
use shoal_sql::{Aggregate, ArgumentCount, Connection, Error, FunctionFlags, Value};
use shoal_store::Store;
use shoal_store::vfs::SimVfs;

/// Product of integers; reversible on demand.
struct Product {
    reversible: bool,
}

impl Aggregate for Product {
    type State = (i64, i64);

    fn start(&self) -> (i64, i64) {
        (1, 0)
    }

    fn step(&self, state: &mut (i64, i64), arguments: &[Value]) -> Result<(), Error> {
        for argument in arguments {
            match argument {
                Value::Int(factor) => state.0 = state.0.wrapping_mul(*factor),
                Value::Null => {}
                _ => return Err(Error::of_function("product of what is no integer")),
            }
        }
        state.1 += 1;
        Ok(())
    }

    fn value(&self, state: &(i64, i64)) -> Result<Value, Error> {
        Ok(if state.1 == 0 { Value::Null } else { state.0.into() })
    }

    fn is_reversible(&self) -> bool {
        self.reversible
    }

    fn undo(&self, state: &mut (i64, i64), arguments: &[Value]) {
        if let [Value::Int(factor)] = arguments {
            state.0 /= factor;
        }
        state.1 -= 1;
    }
}

impl SqliteAggregate<(i64, i64), Option<i64>> for Product {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<(i64, i64)> {
        Ok((1, 0))
    }

    fn step(&self, context: &mut Context<'_>, state: &mut (i64, i64)) -> rusqlite::Result<()> {
        for place in 0..context.len() {
            match context.get_raw(place) {
                rusqlite::types::ValueRef::Integer(factor) => {
                    state.0 = state.0.wrapping_mul(factor)
                }
                rusqlite::types::ValueRef::Null => {}
                _ => {
                    let message = "product of what is no integer";
                    return Err(rusqlite::Error::UserFunctionError(message.into()));
                }
            }
        }
        state.1 += 1;
        Ok(())
    }

    fn finalize(
        &self,
        _: &mut Context<'_>,
        state: Option<(i64, i64)>,
    ) -> rusqlite::Result<Option<i64>> {
        Ok(state.filter(|state| state.1 > 0).map(|state| state.0))
    }
}

impl WindowAggregate<(i64, i64), Option<i64>> for Product {
    fn value(&self, state: Option<&mut (i64, i64)>) -> rusqlite::Result<Option<i64>> {
        Ok(state.filter(|state| state.1 > 0).map(|state| state.0))
    }

    fn inverse(&self, context: &mut Context<'_>, state: &mut (i64, i64)) -> rusqlite::Result<()> {
        if let rusqlite::types::ValueRef::Integer(factor) = context.get_raw(0) {
            state.0 /= factor;
        }
        state.1 -= 1;
        Ok(())
    }
}

/// Texts by their length, then backwards.
fn by_length(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| b.cmp(a))
}

/// Texts by their length alone: many different ones are equal.
fn length_alone(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len())
}

fn define(connection: &mut Connection) {
    let deterministic = FunctionFlags::DETERMINISTIC;
    connection
        .create_function("twice", 1, deterministic, |arguments| match &arguments[0] {
            Value::Int(int) => Ok(Value::Int(int * 2)),
            Value::Null => Ok(Value::Null),
            _ => Err(Error::of_function("twice what?")),
        })
        .unwrap();
    let count = |arguments: &[Value]| Ok(i64::try_from(arguments.len()).unwrap());
    connection.create_function("howmany", ArgumentCount::Any, deterministic, count).unwrap();
    connection.create_function("howmany", 2, deterministic, |_| Ok("two")).unwrap();
    connection.create_function("vague", 0, FunctionFlags::NONE, |_| Ok(7)).unwrap();
    connection
        .create_function("direct", 1, deterministic | FunctionFlags::DIRECT_ONLY, |arguments| {
            Ok(arguments[0].clone())
        })
        .unwrap();
    connection
        .create_function("regexp", 2, deterministic, |arguments| {
            let text = |value: &Value| match value {
                Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            Ok(text(&arguments[1]).ends_with(&text(&arguments[0])))
        })
        .unwrap();
    let product = || Product { reversible: false };
    connection.create_aggregate("product", 1, deterministic, product()).unwrap();
    let any = ArgumentCount::Any;
    connection.create_aggregate("products", any, deterministic, product()).unwrap();
    let slides = Product { reversible: true };
    connection.create_aggregate("sliding", 1, deterministic, slides).unwrap();
    connection.create_collation("length", by_length).unwrap();
    connection.create_collation("alone", length_alone).unwrap();
}

fn define_in_sqlite(connection: &rusqlite::Connection) {
    let deterministic = Flags::SQLITE_UTF8 | Flags::SQLITE_DETERMINISTIC;
    let failed = |message: &str| rusqlite::Error::UserFunctionError(message.into());
    connection
        .create_scalar_function("twice", 1, deterministic, move |context| {
            match context.get_raw(0) {
                rusqlite::types::ValueRef::Integer(int) => Ok(Some(int * 2)),
                rusqlite::types::ValueRef::Null => Ok(None),
                _ => Err(failed("twice what?")),
            }
        })
        .unwrap();
    let count = |context: &Context<'_>| Ok(i64::try_from(context.len()).unwrap());
    connection.create_scalar_function("howmany", -1, deterministic, count).unwrap();
    connection.create_scalar_function("howmany", 2, deterministic, |_| Ok("two")).unwrap();
    connection.create_scalar_function("vague", 0, Flags::SQLITE_UTF8, |_| Ok(7)).unwrap();
    let direct = deterministic | Flags::SQLITE_DIRECTONLY;
    let same = |context: &Context<'_>| context.get::<rusqlite::types::Value>(0);
    connection.create_scalar_function("direct", 1, direct, same).unwrap();
    connection
        .create_scalar_function("regexp", 2, deterministic, |context| {
            let text = |place| context.get::<String>(place).unwrap_or_default();
            Ok(text(1).ends_with(&text(0)))
        })
        .unwrap();
    let product = || Product { reversible: false };
    connection.create_window_function("product", 1, deterministic, product()).unwrap();
    connection.create_aggregate_function("products", -1, deterministic, product()).unwrap();
    connection.create_window_function("sliding", 1, deterministic, product()).unwrap();
    connection.create_collation("length", |a, b| by_length(a.as_bytes(), b.as_bytes())).unwrap();
    connection.create_collation("alone", |a, b| length_alone(a.as_bytes(), b.as_bytes())).unwrap();
}

/// Runs statements in both; fails unless all agree and SQLite finds the file whole.
fn script(statements: &[&str]) {
    let vfs = SimVfs::new();
    let mut ours = shoal(&vfs);
    let theirs = sqlite(None);
    define(&mut ours);
    define_in_sqlite(&theirs);
    let mut different = Vec::new();
    for sql in statements {
        let (got, expect) = (run_shoal(&mut ours, sql), run_sqlite(&theirs, sql));
        if got != expect {
            different.push(format!("{sql}\n{}sqlite: {}", show(&got), show(&expect)));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    drop(ours);
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &vfs.image() {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let file = sqlite(Some(&folder.path().join(write_support::DB)));
    define_in_sqlite(&file);
    let check = run_sqlite(&file, "PRAGMA integrity_check").unwrap();
    assert_eq!(check, [[Value::from("ok")]]);
    assert_eq!(contents(&file), contents(&theirs));
}

#[test]
fn scalar_functions_in_queries() {
    script(&[
        "SELECT twice(21), twice(NULL), twice(twice(3)), TWICE(1)",
        "SELECT twice('x')",
        "SELECT twice(1, 2)",
        "SELECT twice()",
        "SELECT nosuch(1)",
        "SELECT howmany(), howmany(1), howmany(1, 2), howmany(1, 2, 3, NULL)",
        "SELECT howmany(*)",
        "SELECT twice(DISTINCT 1)",
        "SELECT twice(1) OVER ()",
        "SELECT twice(1) FILTER (WHERE 1)",
        "SELECT vague(), vague() + vague()",
        "SELECT direct(5), direct('x'), direct(NULL)",
        "SELECT 'abc' REGEXP 'bc', 'abc' REGEXP 'b', 'abc' NOT REGEXP 'c'",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)",
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 300)
         INSERT INTO t SELECT x, x * 7 % 101, 'text ' || (x % 13) FROM n",
        "SELECT count(*), sum(twice(b)), max(twice(a)) FROM t",
        "SELECT a FROM t WHERE twice(b) = 100",
        "SELECT a FROM t WHERE c REGEXP '7' AND twice(a) < 100",
        "SELECT twice(b), count(*) FROM t GROUP BY twice(b) HAVING twice(count(*)) > 6 ORDER BY 1",
        "SELECT a FROM t ORDER BY twice(b) DESC, a LIMIT 5",
        "SELECT x.a, y.a FROM t x JOIN t y ON twice(x.a) = y.b WHERE x.a < 20 ORDER BY 1, 2",
        "SELECT a FROM t WHERE twice(c) = 1",
        "SELECT (SELECT twice(t.a)) FROM t WHERE a < 4",
        "SELECT a, CASE WHEN a = 1 THEN twice(a) ELSE howmany(a, b, c) END FROM t WHERE a < 3",
    ]);
}

#[test]
fn functions_in_definitions() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER CHECK (twice(b) < 1000), c AS (twice(b)))",
        "CREATE INDEX tb ON t (twice(b))",
        "CREATE INDEX tp ON t (a) WHERE twice(b) > 10",
        "INSERT INTO t (b) VALUES (1), (2), (30), (40), (NULL)",
        "INSERT INTO t (b) VALUES (600)",
        "INSERT INTO t (b) VALUES ('x')",
        "SELECT a, b, c FROM t WHERE twice(b) = 60",
        "SELECT a FROM t WHERE twice(b) > 10 ORDER BY a",
        "UPDATE t SET b = b + 1 WHERE twice(b) > 3",
        "SELECT * FROM t",
        "DELETE FROM t WHERE twice(b) = 62",
        "CREATE INDEX bad ON t (vague())",
        "CREATE INDEX bad ON t (b) WHERE vague() > 1",
        "CREATE TABLE bad (a, b AS (vague()))",
        "CREATE TABLE checked (a CHECK (a > vague()))",
        "INSERT INTO checked VALUES (8)",
        "INSERT INTO checked VALUES (6)",
        "CREATE TABLE log (n)",
        "CREATE TRIGGER tr AFTER INSERT ON t WHEN twice(new.b) > 4 BEGIN
         INSERT INTO log VALUES (twice(new.a)); END",
        "INSERT INTO t (b) VALUES (1), (100)",
        "SELECT * FROM log",
        "CREATE VIEW v AS SELECT twice(a) AS d FROM t",
        "SELECT * FROM v WHERE d > 4 ORDER BY d",
        "CREATE VIEW w AS SELECT direct(a) AS d FROM t",
        "SELECT * FROM w",
        "CREATE INDEX bad ON t (direct(b))",
        "CREATE TABLE bad (a CHECK (direct(a)))",
        "CREATE TRIGGER td AFTER DELETE ON t BEGIN INSERT INTO log VALUES (direct(1)); END",
        "DELETE FROM t WHERE a = 1",
        "DROP TRIGGER td",
        "DROP VIEW w",
        "PRAGMA integrity_check",
        "REINDEX",
    ]);
}

#[test]
fn aggregates_and_windows() {
    let windows: Vec<String> = ["product", "sliding"]
        .iter()
        .flat_map(|name| {
            [
                "()",
                "(ORDER BY a)",
                "(PARTITION BY b % 3 ORDER BY a)",
                "(ORDER BY a ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
                "(ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)",
                "(ORDER BY a ROWS BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
                "(ORDER BY b RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
            ]
            .map(|over| format!("SELECT a, {name}(b) OVER {over} FROM t ORDER BY a"))
        })
        .collect();
    let mut statements = vec![
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)",
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 40)
         INSERT INTO t SELECT x, x * 7 % 5 + 1, x % 4 FROM n",
        "SELECT product(b) FROM t WHERE a < 10",
        "SELECT product(b) FROM t WHERE a < 0",
        "SELECT c, product(b), count(*) FROM t GROUP BY c ORDER BY c",
        "SELECT product(DISTINCT b), product(b) FILTER (WHERE a < 5) FROM t",
        "SELECT products(), products(a), products(a, b), products(a, b, b) FROM t WHERE a < 6",
        "SELECT products() FROM t",
        "SELECT c, products(), products(b, a) FROM t GROUP BY c",
        "SELECT product(c) FROM t",
        "SELECT product(1, 2)",
        "SELECT product(*)",
        "SELECT product(b ORDER BY a) FROM t WHERE a < 9",
        "SELECT a FROM t WHERE product(a) > 1",
        "SELECT product(product(a)) FROM t",
        "SELECT max(a), product(b), b FROM t WHERE a < 8",
        "SELECT product(b) FROM (SELECT b FROM t WHERE a < 5 UNION ALL SELECT 2)",
    ];
    statements.extend(windows.iter().map(String::as_str));
    script(&statements);
}

#[test]
fn collations() {
    script(&[
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT COLLATE length, c TEXT COLLATE alone UNIQUE)",
        "CREATE INDEX tb ON t (b)",
        "CREATE INDEX te ON t (c COLLATE LENGTH DESC, a)",
        "INSERT INTO t (b, c) VALUES ('pear', 'a'), ('fig', 'bb'), ('apple', 'ccc'), ('kiwi', 'dddd')",
        "INSERT INTO t (b, c) VALUES ('x', 'zz')",
        "INSERT OR REPLACE INTO t (b, c) VALUES ('plum', 'yy')",
        "SELECT b FROM t ORDER BY b",
        "SELECT b FROM t ORDER BY b DESC",
        "SELECT c FROM t ORDER BY c COLLATE length DESC",
        "SELECT b FROM t WHERE b > 'zzz' ORDER BY b",
        "SELECT a, c FROM t WHERE c = 'qqq'",
        "SELECT a FROM t WHERE c IN ('q', 'rrrr') ORDER BY a",
        "SELECT a FROM t WHERE c BETWEEN 'qq' AND 'qqq' ORDER BY a",
        "SELECT max(b), min(b), max(c COLLATE BINARY) FROM t",
        "SELECT DISTINCT length(x) FROM (SELECT b COLLATE alone AS x FROM t) ORDER BY 1",
        "SELECT count(DISTINCT b COLLATE alone) FROM t",
        "SELECT length(b), count(*) FROM t GROUP BY b COLLATE alone ORDER BY 1",
        "SELECT count(*) FROM t x JOIN t y ON x.b = y.b COLLATE alone",
        "SELECT count(*) FROM t x JOIN t y ON x.c = y.b",
        "SELECT count(*) FROM t WHERE b COLLATE alone IN (SELECT b FROM t WHERE a > 2)",
        "SELECT 'abc' = 'xyz' COLLATE alone, 'abc' = 'xy' COLLATE alone, 'a' < 'bb' COLLATE alone",
        "SELECT count(*) FROM (SELECT 'ab' COLLATE alone UNION SELECT 'cd' UNION SELECT 'efg')",
        "SELECT count(*) FROM (SELECT 'ab' COLLATE alone EXCEPT SELECT 'cd')",
        "SELECT CASE 'ab' COLLATE alone WHEN 'cd' THEN 1 ELSE 2 END",
        "SELECT nullif('ab' COLLATE alone, 'cd')",
        "SELECT a, rank() OVER (ORDER BY b COLLATE alone) FROM t ORDER BY a",
        "SELECT a, count(*) OVER (PARTITION BY b COLLATE alone) FROM t ORDER BY a",
        "UPDATE t SET b = 'strawberry' WHERE b = 'fig'",
        "DELETE FROM t WHERE c = 'xxx'",
        "INSERT INTO t (a, b, c) VALUES (9, 'n', 'oooo') ON CONFLICT (c) DO UPDATE SET b = 'new'",
        "SELECT * FROM t",
        "CREATE TABLE w (k TEXT COLLATE alone PRIMARY KEY, v) WITHOUT ROWID",
        "INSERT INTO w VALUES ('a', 1), ('bb', 2)",
        "INSERT INTO w VALUES ('c', 3)",
        "SELECT v FROM w WHERE k = 'zz'",
        "REINDEX alone",
        "PRAGMA integrity_check",
        "SELECT 'a' = 'b' COLLATE nosuch",
        "CREATE TABLE bad (a COLLATE nosuch)",
        "CREATE INDEX bad ON t (a COLLATE nosuch)",
    ]);
}

#[test]
fn a_thousand_texts_by_a_collation() {
    let mut statements = vec![
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT COLLATE length)".to_owned(),
        "CREATE TABLE u (b TEXT COLLATE alone)".to_owned(),
        "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 3000)
         INSERT INTO t SELECT x, hex(x * 7919 % 1009) || substr('abcdefgh', 1, x % 9) FROM n"
            .to_owned(),
        "CREATE INDEX tb ON t (b)".to_owned(),
        "INSERT INTO u SELECT b FROM t".to_owned(),
        "SELECT count(DISTINCT b) FROM t".to_owned(),
        "SELECT b, count(*) FROM t GROUP BY b ORDER BY b".to_owned(),
        "SELECT length(b), count(*) FROM u GROUP BY b ORDER BY 1".to_owned(),
        "SELECT b, a FROM t ORDER BY b, a".to_owned(),
        "SELECT a FROM t ORDER BY b DESC, a LIMIT 20".to_owned(),
        "SELECT count(*) FROM t x JOIN t y ON x.b = y.b".to_owned(),
        "SELECT count(*) FROM t WHERE b IN (SELECT b FROM u WHERE length(b) > 8)".to_owned(),
        "PRAGMA integrity_check".to_owned(),
    ];
    for text in ["3", "39abc", "3838abcdef", "zz"] {
        statements.push(format!("SELECT a FROM t WHERE b = '{text}' ORDER BY a"));
        statements.push(format!("SELECT count(*) FROM t WHERE b > '{text}'"));
        statements.push(format!("SELECT count(*) FROM t WHERE b <= '{text}'"));
    }
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    script(&statements);
}

#[test]
fn what_is_built_in_can_be_replaced() {
    let mut connection = Connection::open(Store::memory()).unwrap();
    let ask = |connection: &mut Connection, sql: &str| run_shoal(connection, sql).unwrap();
    let mut prepared = connection.prepare("SELECT abs(-3), 'A' LIKE 'a', 'ä' = 'Ä' COLLATE nocase");
    let prepared = prepared.as_mut().unwrap();
    let run = |connection: &mut Connection, statement: &mut shoal_sql::Statement| {
        let mut rows = connection.query(statement).unwrap();
        let row = rows.next().unwrap().unwrap();
        (0..3).map(|place| Value::from(row.get(place))).collect::<Vec<_>>()
    };
    assert_eq!(run(&mut connection, prepared), [3, 1, 0].map(Value::Int));
    let flags = FunctionFlags::DETERMINISTIC;
    connection.create_function("ABS", 1, flags, |_| Ok(-1)).unwrap();
    connection.create_function("like", 2, flags, |_| Ok("own")).unwrap();
    let fold = |text: &[u8]| String::from_utf8_lossy(text).to_lowercase();
    connection.create_collation("NOCASE", move |a, b| fold(a).cmp(&fold(b))).unwrap();
    // Plans made before are made anew.
    let own = [Value::Int(-1), Value::from("own"), Value::Int(1)];
    assert_eq!(run(&mut connection, prepared), own);
    assert_eq!(ask(&mut connection, "SELECT abs(-3)"), [[Value::Int(-1)]]);
    assert_eq!(ask(&mut connection, "SELECT abs(-3), 'a' LIKE 'A'")[0][1], Value::from("own"));
    assert!(connection.remove_function("abs", 1));
    assert!(!connection.remove_function("abs", 1));
    assert!(connection.remove_function("like", 2));
    assert!(connection.remove_collation("nocase"));
    assert_eq!(run(&mut connection, prepared), [3, 1, 0].map(Value::Int));
    assert!(connection.create_collation("binary", |a, b| a.cmp(b)).is_err());
    assert!(connection.create_function("", 1, flags, |_| Ok(1)).is_err());
    assert!(connection.create_function("f", 1001, flags, |_| Ok(1)).is_err());
    assert!(connection.create_function(&"f".repeat(256), 1, flags, |_| Ok(1)).is_err());
}

#[test]
fn a_file_whose_functions_are_not_known() {
    let vfs = SimVfs::new();
    let mut connection = shoal(&vfs);
    define(&mut connection);
    for sql in [
        "CREATE TABLE t (a, b TEXT COLLATE length)",
        "CREATE TABLE u (a CHECK (twice(a) > 0))",
        "CREATE INDEX ta ON t (twice(a))",
        "CREATE INDEX tb ON t (b)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'yy')",
        "INSERT INTO u VALUES (1)",
    ] {
        run_shoal(&mut connection, sql).unwrap();
    }
    drop(connection);
    let mut connection = shoal(&vfs);
    let refused = |connection: &mut Connection, sql: &str| run_shoal(connection, sql).unwrap_err();
    assert_eq!(run_shoal(&mut connection, "SELECT a FROM t").unwrap().len(), 2);
    let unknown = "no such collation sequence: length";
    assert_eq!(refused(&mut connection, "SELECT * FROM t ORDER BY b"), unknown);
    assert_eq!(refused(&mut connection, "INSERT INTO t VALUES (3, 'z')"), unknown);
    assert_eq!(refused(&mut connection, "SELECT twice(1)"), "no such function: twice");
    assert_eq!(refused(&mut connection, "INSERT INTO u VALUES (2)"), "no such function: twice");
    define(&mut connection);
    run_shoal(&mut connection, "INSERT INTO t VALUES (3, 'z')").unwrap();
    run_shoal(&mut connection, "INSERT INTO u VALUES (2)").unwrap();
    // Typed writers know the functions, too.
    connection.begin(shoal_store::Mode::Write).unwrap();
    connection.table_writer("u").unwrap().insert(&[shoal_sql::ValueRef::Int(5)]).unwrap();
    assert!(connection.table_writer("u").unwrap().insert(&[shoal_sql::ValueRef::Int(-5)]).is_err());
    connection.commit().unwrap();
    drop(connection);
}

#[test]
fn functions_are_called_by_several_threads_and_large_tables() {
    let mut connection = Connection::open(Store::memory()).unwrap();
    define(&mut connection);
    for sql in [
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c TEXT)",
        "INSERT INTO t SELECT value, value % 1000, 'text ' || value FROM generate_series(1, 60000)",
    ] {
        run_shoal(&mut connection, sql).unwrap();
    }
    let sql = "SELECT sum(twice(b)), count(DISTINCT c COLLATE alone), max(c COLLATE length) FROM t";
    let expect = [Value::Int(59_940_000), Value::Int(5), Value::from("text 10000")];
    assert_eq!(run_shoal(&mut connection, sql).unwrap(), [expect]);
    let sql = "SELECT c COLLATE alone, count(*) FROM t GROUP BY 1 ORDER BY 2";
    let counts: Vec<Value> =
        run_shoal(&mut connection, sql).unwrap().into_iter().map(|row| row[1].clone()).collect();
    assert_eq!(counts, [9, 90, 900, 9000, 50001].map(Value::Int));
}

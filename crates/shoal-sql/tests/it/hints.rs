//! `DIRECT`, `CACHED` and `JIT` before a query: the same rows, and plans used again.

use crate::common::{Scratch, ours};
use shoal_sql::{Error, Value};

#[test]
fn the_words_change_nothing_but_who_plans() {
    let scratch = Scratch::new("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)");
    let mut connection = scratch.ours();
    for _ in 0..3 {
        for hint in ["", "DIRECT ", "CACHED ", "jit ", "  -- so\n cached\n"] {
            let sum = ours(&mut connection, &format!("{hint}SELECT sum(a) AS s FROM t")).unwrap();
            assert_eq!(sum.rows, [[Value::Int(3)]], "{hint}");
            assert_eq!(sum.columns, ["s"]);
            let with = format!("{hint}WITH c AS (SELECT a+1 FROM t) SELECT * FROM c WHERE 1");
            let with = ours(&mut connection, &with).unwrap();
            assert_eq!(with.columns, ["a+1"], "{hint}");
        }
    }
    // Parameters belong to each statement.
    let sql = "CACHED SELECT a FROM t WHERE a = ?";
    let (mut one, mut two) = (connection.prepare(sql).unwrap(), connection.prepare(sql).unwrap());
    one.bind(1, 1_i64).unwrap();
    two.bind(1, 2_i64).unwrap();
    for (statement, expect) in [(&mut one, 1), (&mut two, 2)] {
        let mut rows = connection.query(statement).unwrap();
        let row = rows.next().unwrap().unwrap();
        assert_eq!(Value::from(row.get(0)), Value::Int(expect));
    }
    assert_eq!(one.sql(), sql);
}

#[test]
fn a_kept_plan_goes_with_its_schema() {
    let scratch = Scratch::new("CREATE TABLE t(a); INSERT INTO t VALUES (1)");
    let mut connection = scratch.ours();
    let sql = "CACHED SELECT * FROM t";
    assert_eq!(ours(&mut connection, sql).unwrap().columns, ["a"]);
    scratch.theirs().execute_batch("ALTER TABLE t ADD COLUMN b DEFAULT 5").unwrap();
    let table = ours(&mut connection, sql).unwrap();
    assert_eq!(table.columns, ["a", "b"]);
    assert_eq!(table.rows, [[Value::Int(1), Value::Int(5)]]);
}

#[test]
fn errors_keep_their_places() {
    let scratch = Scratch::new("CREATE TABLE t(a)");
    let mut connection = scratch.ours();
    for sql in ["CACHED SELECT nosuch FROM t", "direct SELECT nosuch FROM t"] {
        let error = connection.prepare(sql).unwrap_err();
        assert_eq!(error.offset(), sql.find("nosuch"), "{error}");
    }
    for sql in ["CACHED INSERT INTO t VALUES (1)", "JIT", "CACHED CACHED SELECT 1"] {
        assert!(matches!(connection.prepare(sql), Err(Error::Syntax { .. })), "{sql}");
    }
}

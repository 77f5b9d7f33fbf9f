//! `EXPLAIN QUERY PLAN` beside SQLite's: the same lines for the same plan.

use crate::common::{Scratch, check, ours, theirs};
use shoal_sql::{Connection, Value};

const SCHEMA: &str = "
    create table t(a integer primary key, b text, c int, d text collate nocase, e text);
    create index t_bc on t(b, c); create index t_c on t(c desc); create index t_d on t(d);
    create index t_low on t(lower(e)); create index t_part on t(e) where c > 15;
    create table u(x, y int not null, z); create unique index u_xy on u(x, y);
    create table w(k text, l int, v, primary key (k, l)) without rowid;
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)
      insert into t select i, 'b' || (i % 300), i % 20, 'D' || (i % 700), 'e' || i from n;
    insert into u select b, a, c from t; insert into w select b, a, c from t;
";

/// The lines of a tree, two spaces for each level.
fn tree(rows: &[Vec<Value>]) -> Vec<String> {
    let mut depths: Vec<(Value, usize)> = Vec::new();
    let mut lines = Vec::new();
    for row in rows {
        let known = depths.iter().find(|(id, _)| *id == row[1]);
        let depth = known.map_or(0, |(_, depth)| depth + 1);
        depths.push((row[0].clone(), depth));
        let Value::Text(detail) = &row[3] else { panic!("{row:?}") };
        lines.push(format!("{}{}", "  ".repeat(depth), String::from_utf8_lossy(detail)));
    }
    lines
}

fn plan(connection: &mut Connection, sql: &str) -> Vec<String> {
    let table = ours(connection, &format!("explain query plan {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(table.columns, ["id", "parent", "notused", "detail"]);
    tree(&table.rows)
}

#[test]
fn the_same_plan_has_the_same_words() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let mut different = Vec::new();
    for sql in [
        "select 1",
        "values (1), (2)",
        "select * from t",
        "select * from t where a = 1",
        "select * from t where +a = 1",
        "select * from t where a > 1",
        "select * from t where a > 1 and a <= 10",
        "select * from t where a in (1, 2)",
        "select * from t x where x.b = 'b1'",
        "select * from t where +b = 'b1'",
        "select b, c from t where b = 'b1' and c > 3",
        "select * from t where b = 'b1' and c between 3 and 5",
        "select * from t where b is null",
        "select * from t where b = 'b1' order by c desc",
        "select * from t where b = 'b1' order by c",
        "select b from t where b > 'b2' order by b desc",
        "select * from t order by a desc",
        "select * from t order by e",
        "select b, c from t order by b, c",
        "select b, c from t order by b desc, c desc limit 3",
        "select max(a) from t",
        "select min(a) from t",
        "select max(b) from t",
        "select min(c) from t where b = 'b1'",
        "select * from t where lower(e) = 'e5'",
        "select * from t where d like 'd1%'",
        "select * from t where b = 'b1' or a = 5",
        "select * from t where a = 3 or (b = 'b1' and c = 5) or lower(e) = 'e7'",
        "select * from w where k = 'b1' and l > 5",
        "select * from w order by k, l",
        "select * from w order by k desc, l desc",
        "select e, count(*) from t group by e",
        "select distinct e from t",
        "select distinct b from t",
        "select distinct c, b from t",
        "select distinct k from w",
        "select b, count(*) from t group by b",
        "select c, b, count(*) from t group by c, b",
        "select b, count(*) from t group by b order by b",
        "select b, count(*) from t group by b order by b desc",
        "select b, count(*) from t group by b order by 2",
        "select c, count(*) from t where b = 'b1' group by c",
        "select k, count(*) from w group by k",
        "select a, count(*) from t group by a",
        "select d, count(*) from t group by d",
        "select e, c from t union all select v, l from w",
        "select (select e from t x where x.a = t.a), e, c from t",
        "select * from t where e = (select count(v) from w)",
        "with recursive r(x) as (select 1 union all select x + 1 from r where x < 5) select * from r",
        "select * from (select distinct e from t limit 3) q",
        "select * from t join w on w.k = t.b and w.l = t.c",
        "select * from t left join w on w.k = t.b and w.l = t.c",
        "select row_number() over (order by e) from t",
    ] {
        different.extend(difference(&mut connection, &peer, sql));
        check(&mut connection, &peer, sql, &[]).unwrap();
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}

/// The plans of a statement here and there, where their lines differ.
fn difference(
    connection: &mut Connection,
    peer: &rusqlite::Connection,
    sql: &str,
) -> Option<String> {
    let expect = tree(&theirs(peer, &format!("explain query plan {sql}")).unwrap().rows);
    let got = plan(connection, sql);
    let writes = !sql.starts_with("select") && !sql.starts_with("values");
    // Rows to be changed are found by an index alone, where SQLite looks at them, too. SQLite
    // numbers queries while parsing.
    let plain = |lines: &[String]| {
        let unnumbered = |line: &String| match line.to_lowercase().contains("subquery") {
            true => line.replace(|c: char| c.is_ascii_digit(), ""),
            false if writes => line.replace("COVERING ", ""),
            false => line.clone(),
        };
        lines.iter().map(unnumbered).collect::<Vec<_>>()
    };
    (plain(&got) != plain(&expect)).then(|| {
        let (got, expect) = (got.join("\n  "), expect.join("\n  "));
        format!("{sql}\nours:\n  {got}\ntheirs:\n  {expect}")
    })
}

#[test]
fn statements_that_write_show_how_their_rows_are_found() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let mut different = Vec::new();
    for sql in [
        "delete from t where a = 1",
        "delete from t where b = 'b1' and c > 3",
        "delete from t",
        "delete from w where k = 'b1'",
        "update t set c = c + 1 where d = 'D1'",
        "update t as x set c = 1 where x.b = 'b1'",
        "update t indexed by t_c set e = 'x' where c = 3 and b > 'b2'",
        "update u set z = (select max(c) from t where t.b = u.x) where x = 'b1'",
        "update t set e = w.v from w where w.k = t.b and w.l = t.c and t.a < 10",
        "with s(k) as (select v from w where k = 'b1') delete from t where a in (select k from s)",
        "insert into u select b, a + 10000, c from t where a > 1990",
        "insert into u values (1, 2, 3)",
        "insert into u default values",
    ] {
        different.extend(difference(&mut connection, &peer, sql));
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
    assert_eq!(ours(&mut connection, "select count(*) from t").unwrap().rows, [[Value::Int(2000)]]);
    let tree = ours(&mut connection, "explain delete from t where a = 1").unwrap();
    assert!(!tree.rows.is_empty());
}

#[test]
fn what_sqlite_has_no_words_for_has_its_own() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let mut check = |sql: &str, expect: &[&str]| {
        assert_eq!(plan(&mut connection, sql), expect, "{sql}");
    };
    check(
        "select * from t join u on u.z = t.e",
        &["SCAN u", "SEARCH t USING AUTOMATIC HASH INDEX (e=?)"],
    );
    check(
        "select e from t except select v from w order by 1",
        &[
            "COMPOUND QUERY",
            "  LEFT-MOST SUBQUERY",
            "    SCAN t",
            "  EXCEPT USING TEMP B-TREE",
            "    SCAN w",
            "USE TEMP B-TREE FOR ORDER BY",
        ],
    );
}

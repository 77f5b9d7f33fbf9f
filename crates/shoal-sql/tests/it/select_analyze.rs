//! `EXPLAIN` and `EXPLAIN ANALYZE`: the tree of a plan's nodes, and the cost of running each.

use crate::common::{Scratch, Table, ours};
use shoal_sql::{Connection, Value};

const SCHEMA: &str = "
    create table t(a integer primary key, b text, c int);
    create index t_b on t(b);
    create table u(x integer primary key, y int, z text);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000)
      insert into t select i, 'b' || (i % 100), i % 10 from n;
    insert into u select a, 1001 - a, b from t where a <= 300;
";

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The nodes of a plan, two spaces for each level.
fn nodes(connection: &mut Connection, sql: &str) -> Vec<String> {
    let table = ours(connection, &format!("explain {sql}")).unwrap();
    assert_eq!(table.columns, ["id", "parent", "node", "detail", "estimated_rows"]);
    for (place, row) in table.rows.iter().enumerate() {
        assert_eq!(row[0], Value::Int(place as i64 + 1), "{sql}");
        let Value::Int(parent) = row[1] else { panic!("{row:?}") };
        assert!(parent >= 0 && parent <= place as i64, "{sql}: {row:?}");
        let depth = |row: &[Value]| text(&row[2]).chars().take_while(|it| *it == ' ').count();
        let above = usize::try_from(parent).unwrap().checked_sub(1);
        let expect = above.map_or(0, |above| depth(&table.rows[above]) + 2);
        assert_eq!(depth(row), expect, "{sql}: {row:?}");
    }
    table.rows.iter().map(|row| text(&row[2])).collect()
}

fn analyze(connection: &mut Connection, sql: &str) -> Table {
    let table = ours(connection, &format!("explain analyze {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(table.columns[5..], ["rows", "runs", "time_us", "pages", "bytes"]);
    table
}

/// The row counts of the nodes called `node`.
fn rows_of(table: &Table, node: &str) -> Vec<Value> {
    let own = table.rows.iter().filter(|row| text(&row[2]).trim() == node);
    own.map(|row| row[5].clone()).collect()
}

#[test]
fn the_tree_names_the_nodes_that_run() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    let mut check = |sql: &str, expect: &[&str]| {
        assert_eq!(nodes(&mut connection, sql), expect, "{sql}");
    };
    check("select 1", &["values"]);
    check("select b from t where a = ?", &["point"]);
    check("select a from t where b = 'b7'", &["seek"]);
    check("select a, c from t where c > 3", &["table scan"]);
    check("select b from t where a in (1, 5, 9)", &["rowid list"]);
    check("select count(*) from t", &["aggregate", "  count"]);
    check("select b from t order by c limit 3", &["top-N", "  table scan"]);
    check("select b from t order by c", &["sort", "  table scan"]);
    check("select c, count(*) from t group by c", &["group", "  table scan"]);
    check("select distinct c from t", &["distinct", "  table scan"]);
    check("select a + c from t where c + 1 > 3", &["project", "  filter", "    table scan"]);
    check(
        "select u.z, t.b from u join t on t.a = u.y",
        &["lookup join", "  table scan", "  point"],
    );
    check(
        "select u.x, t.a from u join t on t.c = u.y",
        &["hash join", "  table scan", "  hash build"],
    );
    check("select a from t union select x from u", &["union", "  index scan", "  table scan"]);
    check(
        "select a from t where exists (select 1 from u where x = t.a)",
        &["filter", "  index scan", "  subquery", "    point"],
    );
    check("select * from t limit 5", &["limit", "  table scan"]);
    check("select row_number() over (order by c) from t", &["window", "  table scan"]);
}

#[test]
fn an_analysis_counts_what_ran() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    for sql in [
        "select 1",
        "select b from t where a = 77",
        "select b from t where a = 7777",
        "select a from t where b = 'b7'",
        "select a, c from t where c > 3",
        "select a + c from t where c + 1 > 3",
        "select b from t where a in (1, 5, 9, 5000)",
        "select count(*) from t",
        "select c, count(*), sum(a) from t group by c",
        "select c, sum(a + 1) from t group by c having count(*) > 2 order by 2",
        "select b from t order by c limit 3",
        "select b from t order by c, a",
        "select u.z, t.b from u join t on t.a = u.y",
        "select u.x, t.a from u join t on t.c = u.y",
        "select u.x, t.a from u left join t on t.c = u.x where u.x < 20",
        "select a from t union select x + 900 from u",
        "select a from t union all select x from u limit 7",
        "select a from t where exists (select 1 from u where x = t.a)",
        "select a, (select max(z) from u where y > t.a) from t where a < 20",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 50) select * from n",
        "select row_number() over (order by c) from t",
        "select distinct c from t",
        "values (1), (2)",
    ] {
        let expect = ours(&mut connection, sql).unwrap().rows.len();
        let table = analyze(&mut connection, sql);
        let top = &table.rows[0];
        assert_eq!(top[5], Value::Int(expect as i64), "{sql}: rows of {top:?}");
        assert_eq!(top[6], Value::Int(1), "{sql}: runs of {top:?}");
        assert!(matches!(top[7], Value::Int(0..)), "{sql}: time of {top:?}");
        // The statement runs again as before.
        assert_eq!(ours(&mut connection, sql).unwrap().rows.len(), expect, "{sql}");
    }
    let table =
        analyze(&mut connection, "select c + 1, count(*) from t where c > 3 group by c + 1");
    assert_eq!(rows_of(&table, "table scan"), [Value::Int(600)]);
    let table = analyze(&mut connection, "select a from t where c > 3 order by b");
    assert!(matches!(table.rows[0][8], Value::Int(1..)), "pages: {:?}", table.rows[0]);
    let table = analyze(
        &mut connection,
        "select a, (select z from u where y = 1001 - t.a and x > 0) from t where a < 20",
    );
    let subquery = table.rows.iter().find(|row| text(&row[2]).trim() == "subquery").unwrap();
    assert_eq!(subquery[5], Value::Int(19));
    assert_eq!(subquery[6], Value::Int(19));
}

#[test]
fn only_queries_are_analyzed() {
    let scratch = Scratch::new(SCHEMA);
    let mut connection = scratch.ours();
    for sql in [
        "explain drop table t",
        "explain analyze delete from t",
        "explain analyze",
        "explain analyze t",
    ] {
        assert!(ours(&mut connection, sql).is_err(), "{sql}");
    }
    // Places in the text stay the same.
    let error = ours(&mut connection, "explain analyze select nothing from t").unwrap_err();
    assert_eq!(error.offset(), Some(23));
}

//! Which way a query takes to its rows, and that no way is worse than sorting.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scratch, check, ours};
use shoal_sql::{Connection, Value};

fn plan(connection: &mut Connection, sql: &str) -> Vec<String> {
    let table = ours(connection, &format!("explain query plan {sql}"))
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(table.columns, ["id", "parent", "notused", "detail"]);
    let text = |value: &Value| match value {
        Value::Text(text) => String::from_utf8(text.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    table.rows.iter().map(|row| text(&row[3])).collect()
}

#[test]
fn keys_and_indexes_are_sought() {
    let scratch = Scratch::new(
        "create table t(a integer primary key, b text, c int, d text collate nocase);
         create index t_bc on t(b, c); create index t_c on t(c desc); create index t_d on t(d);
         create index t_part on t(c) where c > 5;
         create table w(x int, y text, z, primary key (y, x)) without rowid;
         create index w_z on w(z);
         create view v as select a as id, b || '!' as bb, c from t where c > 0;
         create view vv as select * from v where id < 100;",
    );
    let mut connection = scratch.ours();
    let mut check = |sql: &str, expect: &[&str]| {
        assert_eq!(plan(&mut connection, sql), expect, "{sql}");
    };
    let rowid = "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)";
    check("select * from t", &["SCAN t"]);
    check("select * from t where a = 1", &[rowid]);
    check("select * from t where ? = rowid and c > 1", &[rowid]);
    check("select * from t where a in (1, 2, 3)", &[rowid]);
    check(
        "select * from t where a > 5 and a < 9",
        &["SEARCH t USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    );
    check("select * from t where b = 'x'", &["SEARCH t USING INDEX t_bc (b=?)"]);
    check("select b, c, a from t where b = 'x'", &["SEARCH t USING COVERING INDEX t_bc (b=?)"]);
    check("select * from t where b = 'x' and c > 3", &["SEARCH t USING INDEX t_bc (b=? AND c>?)"]);
    check(
        "select * from t where b in ('x', 'y') and d > 'z'",
        &["SEARCH t USING INDEX t_bc (b=?)"],
    );
    check("select * from t where c between 1 and 2", &["SEARCH t USING INDEX t_c (c>? AND c<?)"]);
    check("select * from t where d = 'x'", &["SEARCH t USING INDEX t_d (d=?)"]);
    check("select * from t where b is null", &["SEARCH t USING INDEX t_bc (b=?)"]);
    check("select * from t not indexed where b = 'x'", &["SCAN t"]);
    // The index has another order, or the column would have to be converted.
    check("select * from t where d = 'x' collate binary", &["SCAN t"]);
    check("select * from t where b = 'x' collate nocase", &["SCAN t"]);
    check("select * from t where b = c", &["SCAN t"]);
    check("select * from w where y = 'a' and x = 1", &["SEARCH w USING PRIMARY KEY (y=? AND x=?)"]);
    check("select * from w where z = 1", &["SEARCH w USING INDEX w_z (z=?)"]);
    check("select * from t order by a", &["SCAN t"]);
    check("select * from t order by a desc limit 3", &["SCAN t"]);
    check("select * from w order by y, x", &["SCAN w"]);
    check("select * from t where b = 'x' order by c", &["SEARCH t USING INDEX t_bc (b=?)"]);
    check("select * from t order by b", &["SCAN t", "USE TEMP B-TREE FOR ORDER BY"]);
    check("select c, count(*) from t group by c", &["SCAN t", "USE TEMP B-TREE FOR GROUP BY"]);
    // A view costs nothing, and conditions reach the table within.
    check("select * from vv where id = 7", &[rowid]);
    check("select * from (select * from v where c > 1) x where x.id = 7", &[rowid]);
    check("select * from v limit 1", &["SEARCH t USING INDEX t_c (c>?)"]);
}

#[test]
fn joins_seek_or_hash() {
    let scratch = Scratch::new(
        "create table a(id integer primary key, x, k int); create table b(id integer primary key, a_id int, x);
         create table c(id integer primary key, k int); create index c_k on c(k);",
    );
    let mut connection = scratch.ours();
    let mut check = |sql: &str, expect: &[&str]| {
        assert_eq!(plan(&mut connection, sql), expect, "{sql}");
    };
    check(
        "select * from a join b on a.id = b.a_id",
        &["SCAN b", "SEARCH a USING INTEGER PRIMARY KEY (rowid=?)"],
    );
    check("select * from a join b on a.x = b.x", &["SCAN a", "SEARCH b USING HASH (1 keys)"]);
    check(
        "select * from a left join b on a.x = b.x and b.id > 5",
        &["SCAN a", "SEARCH b USING HASH (1 keys) LEFT-JOIN"],
    );
    check(
        "select * from a join c on a.k = c.k",
        &["SCAN a", "SEARCH c USING COVERING INDEX c_k (k=?)"],
    );
    check(
        "select * from a join b on a.id = b.a_id where a.id = 3",
        &["SEARCH a USING INTEGER PRIMARY KEY (rowid=?)", "SCAN b"],
    );
    check(
        "select * from a, b, c where a.x = b.x and c.id = b.a_id",
        &["SCAN b", "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH a USING HASH (1 keys)"],
    );
    check(
        "select * from a cross join c on c.k = a.k",
        &["SCAN a", "SEARCH c USING COVERING INDEX c_k (k=?)"],
    );
}

/// Twenty thousand rows on each side: a quadratic way would take minutes.
#[test]
fn nothing_is_quadratic_that_need_not_be() {
    let scratch = Scratch::new(
        "create table a(id integer primary key, x int, t text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
           insert into a select i, (i * 7919) % 20011, 'v' || (i % 5000) from n;
         create table b as select x as p, t as q, id as r from a;",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select count(*), sum(b.p) from a join b on a.x = b.p",
        "select count(*) from a left join b on b.q = a.t and b.r = a.id",
        "select count(*), sum(x.n) from a join (select q, count(*) n from b group by q) x on x.q = a.t",
        "select count(*) from a where x in (select p from b where r > 10000)",
        "select count(*) from a where x not in (select p from b where r > 10000)",
        "select count(*) from (select x from a union select p from b)",
        "select count(*) from (select x from a except select p from b where r % 2)",
        "select count(distinct t), count(distinct x) from a",
        "select t, count(*), max(x) from a group by t order by 2 desc, 1 limit 5",
        "select x from a order by x desc limit 5 offset 10000",
        "select sum(r) from (select r from b order by q, p)",
        "select count(*) from a where (select count(*) from a y where y.id = a.id + 1) = 0",
        "select sum(id) from a where id in (select r from b where p < 500)",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap();
    }
}

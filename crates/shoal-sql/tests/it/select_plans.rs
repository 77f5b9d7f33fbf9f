//! The access paths of queries: no path is worse than sorting.

use crate::common::{self, Scratch, check, ours};
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
    check("select * from w where z = 1", &["SEARCH w USING COVERING INDEX w_z (z=?)"]);
    check("select * from t order by a", &["SCAN t"]);
    check("select * from t order by a desc limit 3", &["SCAN t"]);
    check("select * from w order by y, x", &["SCAN w"]);
    check("select * from t where b = 'x' order by c", &["SEARCH t USING INDEX t_bc (b=?)"]);
    check("select * from t order by b", &["SCAN t", "USE TEMP B-TREE FOR ORDER BY"]);
    check("select d, max(b) from t group by d", &["SCAN t", "USE TEMP B-TREE FOR GROUP BY"]);
    // Groups and distinct rows are not looked for where an index has them side by side.
    check("select c, count(*) from t group by c", &["SCAN t USING COVERING INDEX t_c"]);
    check("select distinct c from t", &["SCAN t USING COVERING INDEX t_c"]);
    check("select b, c from t group by c, b", &["SCAN t USING COVERING INDEX t_bc"]);
    check(
        "select c, max(a) from t where b = 'x' group by c",
        &["SEARCH t USING COVERING INDEX t_bc (b=?)"],
    );
    check("select y, count(*) from w group by y order by y desc", &["SCAN w"]);
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
    check(
        "select * from a join b on a.x = b.x",
        &["SCAN a", "SEARCH b USING AUTOMATIC HASH INDEX (x=?)"],
    );
    check(
        "select * from a left join b on a.x = b.x and b.id > 5",
        &["SCAN a", "SEARCH b USING AUTOMATIC HASH INDEX (x=?) LEFT-JOIN"],
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
        &[
            "SCAN b",
            "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH a USING AUTOMATIC HASH INDEX (x=?)",
        ],
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

/// The plan shown is the plan run: on every path, the answers are SQLite's.
#[test]
fn every_way_finds_the_same_rows() {
    let scratch = Scratch::new(
        "create table t(a integer primary key, b text, c int, d text collate nocase, e text,
           f as (c * 2), g as (lower(e)) stored);
         create index t_bc on t(b, c); create index t_c on t(c desc); create index t_d on t(d);
         create index t_low on t(lower(e)); create index t_part on t(e) where c > 15;
         create index t_some on t(c, e) where e is not null; create index t_f on t(f);
         create index t_sum on t(c + a % 7, b desc);
         create table w(k text, l int, v, primary key (k, l desc)) without rowid;
         create index w_v on w(v);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 600)
           insert into t select i, case i % 11 when 0 then null else 'b' || (i % 30) end,
             case i % 13 when 0 then null else i % 20 end, char(65 + i % 3, 97 + i % 5) || i % 7,
             case i % 7 when 0 then null when 1 then cast('blob' || i % 3 as blob)
               else 'E' || (i % 40) end from n;
         insert into w select b, a, c from t where b is not null;
         create view v as select b, count(*) as n, max(c) as m from t group by b;
         create view vu as select b, c from t union select k, v from w;
         create view vd as select distinct b, c from t;
         create view va as select b as x, c as y from t union all select k, v from w;",
    );
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    common::check_all(
        &mut connection,
        &peer,
        "select * from t where +b = 'b3' and +c > 5;
         select * from t where b = +c; select +b, -c, +d from t where +a = 7;
         select * from t where b is 'b3'; select * from t where c is 3 or c is null;
         select * from t where b is c;
         select a from t where d like 'ab%'; select a from t where d like 'A_%';
         select a from t where e like 'e1%'; select a from t where e glob 'E1*';
         select a from t where b glob 'b1*'; select a from t where b glob 'b[12]*' and c > 3;
         select a, e from t where e glob 'blob*'; select a from t where b not glob 'b1*';
         select a from t where d like 'AB'; select a from t where d like '%b%';
         select a from t where b = 'b1' or c = 5; select a from t where b = 'b1' or c = 5 or a = 9;
         select a from t where (b = 'b1' and c > 3) or (c = 5 and b > 'b2') or a in (1, 2, 3);
         select a from t where (b in ('b1', 'b2') or c = 5) and d > 'B';
         select a from t where b = 'b1' or d like 'ab%';
         select x.a, y.a from t x join t y on y.b = x.b or y.c = x.a where x.a < 20;
         select x.a, y.a from t x left join t y on (y.a = x.a + 1 or y.b = x.e) where x.a < 20;
         select a from t where e = 'E3' and c > 15; select a from t where c > 15 and e > 'E2';
         select a, e from t where c = 7 and e > ''; select a from t where c = 7 and e is not null;
         select a from t where lower(e) = 'e3'; select a from t where lower(e) in ('e3', 'blob1');
         select lower(e), a from t where lower(e) > 'e3' order by lower(e), a;
         select a from t where f = 10; select f, a from t where f between 4 and 9 order by f, a;
         select x.f, y.f from t x left join t y on y.f = x.f and y.a < x.a where x.a < 30;
         select a from t where c + a % 7 = 12 order by b desc, a;
         select a, g from t where g = 'e3';
         select b, c, a from t order by b, c, a; select b, c, a from t order by b desc, c desc, a desc;
         select c, a from t order by c desc, a; select c, a from t order by c, a desc limit 9;
         select a from t where b = 'b3' order by b, c, a; select a from t where b = 'b3' order by c desc, a desc;
         select b, c, a from t where b > 'b2' and b < 'b4' order by b desc, c desc, a desc limit 7 offset 3;
         select c, a from t where c > 3 order by c desc, a; select c, a from t where c <= 3 order by c, a desc;
         select k, l from w order by k, l desc; select k, l from w order by k desc, l;
         select k, l from w where k = 'b3' order by l; select k, l from w where k >= 'b3' order by k desc, l limit 5;
         select x.b, x.c, x.a, y.l from t x join w y on y.k = x.b and y.l = x.a order by x.b, x.c, x.a;
         select distinct b from t order by b desc; select b from t order by d, a limit 12;
         select min(a), max(a) from t; select min(a) from t; select max(a) from t where c = 3;
         select max(c) from t; select min(c) from t; select min(c), a > 0 from t where b = 'b3';
         select max(b) from t where b < 'b3'; select min(b) from t where b = 'b3'; select max(c) from t where b = 'zz';
         select min(d), max(d) from t; select max(d) from t; select min(l) from w where k = 'b5'; select max(k) from w;
         select min(c + a % 7) from t; select max(lower(e)) from t; select min(f) from t; select max(f) from t where f < 9;
         select count(*) from t; select count(*), count(*) from w; select count(*) from t where 1;
         select b, count(*) from t group by b order by b; select b, c, count(*) from t group by b, c order by b;
         select b, count(*) from t group by b order by b desc; select c from t group by c order by c limit 3;
         select * from v where b = 'b3'; select * from v where n > 18; select n from v where b > 'b2' and m = 19;
         select * from vu where c = 7; select * from vu where b = 'b3' and c > 2; select * from vd where b = 'b3';
         select * from va where x = 'b3' and y between 3 and 6; select count(*) from va where x is null;
         select * from vd where c is null; select count(*) from vu where b || c = 'b33';
         select t.a, v.n from t left join v on v.b = t.b and v.n > 18 where t.a < 40;
         select t.a, q.y from t left join (select x, y from va) q on q.x = t.b and q.y = 3 where t.a < 20;
         select * from (select b, row_number() over (order by a) as r from t) where b = 'b3';
         select * from (select b, c from t order by a limit 20) where c = 3;
         select * from (select b, c from t except select 'b3', 3) where b = 'b3';
         select count(*) from (select random() as r, a from t) where r is not null and a < 3;
         select a, (select count(*) from t y where y.c = t.c) from t where a < 200;
         select a from t where exists (select 1 from w where w.v = t.c and w.k > t.b);
         select a from t where c in (select v from w where w.l < t.a and w.k <> t.b);
         select a from t where c not in (select v from w where w.l < t.a);
         select a, c in (select v from w where l > t.a), e in (select v from w where l = t.a) from t;
         select b, (select max(x.c) from t x where x.b = t.b) from t group by b having count(*) > 3;",
    );
}

const SKEWED: &str = "
    create table big(id integer primary key, few int, many int, t text);
    create index big_few on big(few); create index big_many on big(many);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
      insert into big select i, i % 5, i % 5000, 't' || i from n;
    create table small(id integer primary key, k int, v text);
    insert into small select id, many, t from big where id <= 40;
    create index small_k on small(k);";

/// Statistics choose the index with fewer rows, and the smaller of two tables.
#[test]
fn sizes_decide() {
    let looked = Scratch::new(SKEWED);
    let analysed = Scratch::new(&format!("{SKEWED} analyze;"));
    for scratch in [looked, analysed] {
        let mut connection = scratch.ours();
        let mut check = |sql: &str, expect: &[&str]| {
            assert_eq!(plan(&mut connection, sql), expect, "{sql}");
        };
        check(
            "select * from big where few = 3 and many = 123",
            &["SEARCH big USING INDEX big_many (many=?)"],
        );
        check(
            "select * from small join big on big.many = small.k",
            &["SCAN small", "SEARCH big USING INDEX big_many (many=?)"],
        );
        check(
            "select big.t from big join small on big.many = small.k",
            &["SCAN small", "SEARCH big USING INDEX big_many (many=?)"],
        );
        // Most rows: the index would only lead to the same pages again and again.
        check("select * from big where many > 100", &["SCAN big"]);
        check("select * from big where many > 4990", &["SEARCH big USING INDEX big_many (many>?)"]);
        check("select count(*) from big", &["SCAN big USING COVERING INDEX big_few"]);
        check("select t from big order by many desc limit 5", &["SCAN big USING INDEX big_many"]);
        check("select t from big order by many", &["SCAN big", "USE TEMP B-TREE FOR ORDER BY"]);
    }
}

#[test]
fn indexes_that_are_asked_for_must_fit() {
    let scratch = Scratch::new(SKEWED);
    scratch.theirs().execute_batch("create index big_part on big(t) where few = 1").unwrap();
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let refused = ours(&mut connection, "select * from big indexed by big_part").unwrap_err();
    assert_eq!(refused.to_string(), "no query solution");
    for sql in [
        "select * from big indexed by big_part",
        "select count(*) from big indexed by big_part where few = 1",
        "select id from big indexed by big_few where many = 7",
        "select id from big not indexed where few = 3 and id < 50",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap();
    }
}

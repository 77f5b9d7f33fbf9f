//! Selects read straight from the pages, run again and again by one prepared statement, so that the
//! state kept between runs is used: leaf loops with prepared conditions, indexes with known leaves,
//! compounds by hash. Each result is compared with SQLite's.

use std::sync::Arc;

use crate::common::{Scratch, Table, same, sort, theirs_with};
use shoal_sql::{Connection, Statement, Value};
use shoal_store::{Access, Locking, Mode, Options, Store, vfs::OsVfs};

/// Tables of several levels with every class of value in every column.
fn script(page_size: u32) -> String {
    format!(
        "pragma page_size = {page_size}; pragma synchronous = off; vacuum; begin;
         create table t(id integer primary key, i int, r real, s text, n text collate nocase, x);
         create table w(k text, j int, v, primary key (k, j)) without rowid;
         create table u(id integer primary key, t int, note);
         with recursive c(p) as (values(1) union all select p + 1 from c where p < 1500)
         insert into t select p * 3, case p % 9 when 0 then null when 1 then 'word' when 2 then p / 2.0
             else p * 37 % 50 - 10 end,
           case p % 7 when 0 then null when 1 then p when 2 then 'text' else p * 13 % 40 / 4.0 end,
           case p % 11 when 0 then null when 1 then 7 when 2 then x'6162'
             else substr('abcdefghij', p % 5 + 1, 1 + p % 4) end,
           case p % 4 when 0 then 'Eng' when 1 then 'eng' when 2 then 'Ops ' else null end,
           case p % 6 when 0 then null when 1 then p when 2 then p + 0.5 when 3 then 'x' || p % 20
             when 4 then zeroblob(p % 30) else replace(hex(zeroblob(p % 90 * 20)), '00', 'ab') end
         from c;
         create table g(id integer primary key, k, j int);
         insert into g select id, case when id % 2 then 'department number ' || (id / 500)
             when id % 5 then id / 900 else id / 900 * 1.0 end, id / 7 from t;
         create index g_k on g(k);
         create index g_j on g(j);
         insert or ignore into w select distinct s, i, x from t where s is not null and i is not null;
         insert into u select id, abs(i) * 3 % 700, n from t where id % 2 = 0;
         create index t_i on t(i);
         create index t_s on t(s desc, i);
         create index t_n on t(n);
         create index t_r on t(r) where r > 3;
         create index u_t on u(t);
         alter table t add column late text default 'later';
         alter table t add column none;
         insert into t(id, i, r, s, late, none) values
           (-5, 3, 3.0, 'a', 'now', 1), (9000000000, 4, 4, 'zz', null, 'set');
         commit;"
    )
}

fn prepare(connection: &mut Connection, sql: &str) -> Statement {
    connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn run(connection: &mut Connection, statement: &mut Statement, parameters: &[Value]) -> Table {
    for (index, value) in parameters.iter().enumerate() {
        statement.bind(index + 1, value.clone()).unwrap();
    }
    let columns = statement.column_names().to_vec();
    let mut out = Vec::new();
    let mut rows = connection.query(statement).unwrap();
    while let Some(row) = rows.next().unwrap() {
        out.push(row.values().map(Value::from).collect());
    }
    Table { columns, rows: out }
}

/// Runs every statement with every value of every class and compares.
fn check(statements: &[&str]) {
    let values: Vec<Value> = [3_i64, -7, 25, i64::MAX]
        .map(Value::Int)
        .into_iter()
        .chain([2.5, 7.0].map(Value::Real))
        .chain(["b", "ENG", "7", "bcd"].map(Value::text))
        .chain([Value::Null, Value::Blob(b"ab".to_vec())])
        .collect();
    check_with(statements, &values);
}

/// Runs every statement with every value and compares.
fn check_with(statements: &[&str], values: &[Value]) {
    for (page_size, locking) in [(512, Locking::Shared), (4096, Locking::Exclusive)] {
        let scratch = Scratch::new(&script(page_size));
        let peer = scratch.theirs();
        // A cache smaller than the file: the file is mapped between transactions.
        let options = Options { locking, cache_pages: 20, ..Options::new(Access::ReadOnly) };
        let store = Store::open_with(Arc::new(OsVfs::new()), &scratch.path(), options);
        let mut connection = Connection::open(store.unwrap()).unwrap();
        for sql in statements {
            let mut statement = prepare(&mut connection, sql);
            for value in values {
                let parameters = vec![value.clone(); statement.parameter_count()];
                let mut expect = theirs_with(&peer, sql, &parameters).unwrap();
                let mut got = run(&mut connection, &mut statement, &parameters);
                if !sql.contains("order by") {
                    sort(&mut got.rows);
                    sort(&mut expect.rows);
                }
                let rows = |table: &Table| table.rows.len();
                assert_eq!(rows(&got), rows(&expect), "{sql} {value:?} {page_size}");
                let pairs = got.rows.iter().zip(&expect.rows);
                for (got, expect) in pairs {
                    let same = got.iter().zip(expect).all(|(a, b)| same(a, b));
                    assert!(same, "{sql} {value:?}\n{got:?}\n{expect:?}");
                }
                if parameters.is_empty() {
                    break;
                }
            }
        }
    }
}

/// Lookups often enough for leaves of the indexes to be decoded; some keys have many rows.
#[test]
fn rows_that_an_index_finds_by_equality() {
    let ints = (0..3).flat_map(|_| (-3..45).map(Value::Int));
    let others = [Value::Real(3.0), Value::Real(2.5), Value::text("3"), Value::Null];
    let values: Vec<Value> = ints.chain(others).collect();
    check_with(
        &[
            "select id, note from u where t = ?1",
            "select t, id, ?1 from u where t = ?1",
            "select id from u where t = ?1 order by id limit 2 offset 1",
            "select * from t where i = ?1",
            "select none, late, x, id, i from t where i = ?1",
            "select s, i from t where s = 'b' and i = ?1",
            "select r, n, x from t where s = 'bc' and i = ?1",
            "select r, x from t where i = ?1 and n is null",
            "select v, j from w where k = 'b' and j = ?1",
            "select id from u where t = ?1 union all select id from t where i = ?1 + 1",
            "select id, x from t where i = ?1 union all select j, v from w where k = 'b' and j = ?1",
        ],
        &values,
    );
}

#[test]
fn leaf_loops() {
    check(&[
        "select * from t",
        "select id from t",
        "select id, late, none, 5, ?1, null from t where id > 3000",
        "select i, r, s from t where i = ?1",
        "select id, r from t where i > ?1",
        "select id, i from t where +i <= ?1 and r >= 2",
        "select id from t where r < ?1",
        "select id from t where r <> ?1 and i is not null",
        "select id from t where r >= ?1 and i >= -2.5 and x is not null",
        "select id, r from t where r <= ?1 and +i < 7.5",
        "select id from t where r = ?1 and +i <> 7.0",
        "select id from t where +i = 9.0 or r = ?1",
        "select id from t where r > 0.0 and r < 8.25 and i > ?1",
        "select sum(i), sum(r), max(r), min(r), max(i), min(i), avg(i), count(x), total(x) from t",
        "select sum(id), avg(r), max(s), min(x), max(i), sum(x), count(r) from t where i > ?1",
        "select max(r), min(r), sum(r), sum(i) from t where r is not null and r > ?1",
        "select id, x from t where x = ?1",
        "select id, s from t where +s = ?1",
        "select id, s from t where s > ?1 and x is not null",
        "select id, n from t where +n = ?1",
        "select id from t where +n is ?1",
        "select id from t where x is not ?1",
        "select id, late from t where late = ?1",
        "select id, none from t where none is null and late <> 'later'",
        "select id, x from t where x between 5 and ?1",
        "select i, x from t where id between -5 and ?1",
        "select id from t where i < r",
        "select x from t limit 3",
        "select x, id from t limit 40 offset 1490",
        "select id from t where i = 7 limit 9 offset 2",
    ]);
}

/// Rowids of every class, duplicates, rowids without a row and rows on several pages, in lists
/// shorter and longer than a batch.
#[test]
fn rows_that_a_list_of_rowids_names() {
    let many: Vec<String> = (-3..400).map(|number| (number * 5).to_string()).collect();
    let many = format!("select id, x, s from t where id in ({}, ?1)", many.join(", "));
    let bounded = format!("{many} order by id limit 150 offset 20");
    check(&[
        "select id, x, late, none from t where id in (3, ?1, 9, '12', 15.0, 15, 16.5, null, 'y', 4)",
        "select * from t where id in (27, 3, 27, 9000000000, -5, ?1) order by id",
        "select * from t where id in (27, 3, 27, 9000000000, -5, ?1) order by id desc",
        "select ?1, 5 from t where id in (3, 6, ?1)",
        "select x from t where id in (?1, ?1)",
        "select x from t where id in ()",
        "select s, id from t where id in (300, 3, 1200, 6, ?1) order by id limit 2 offset 1",
        "select id, r from t where id in (300, 3, 1200, 6, 9, 12, 21, ?1) and i > 5",
        "select id, r from t where id in (300, 3, 1200, 6, 9, 12, 21, ?1) and r is not null order by r, id",
        "select count(*), sum(i), max(r), min(s) from t where id in (300, 3, 1200, 6, 9, 12, ?1)",
        "select n, count(*) from t where id in (300, 3, 1200, 6, 9, 12, 21, 24, ?1) group by n",
        "select distinct n from t where id in (300, 3, 1200, 6, 9, 12, 21, 24, ?1)",
        "select t.id, u.note from t join u on u.t = t.id where t.id in (3, 6, 9, 300, ?1)",
        "select u.id, t.x from u left join t on t.id = u.t where u.id in (6, 12, 18, 300, ?1)",
        "select id from t where id in (3, ?1) union all select id from u where id in (6, ?1, 12)",
        "select id, x from t where id in (9, 3, ?1) union select id, x from t where id in (9, 12)",
        "select id, x from t where id = 9 or id = ?1 or id = 3",
        "select id from t where id not in (3, ?1) and id < 30",
        "select x || 'a', id + 1, r * 2 from t where id in (3, 27, 300, ?1) and abs(i) > 3 and r > 1",
        "select id + 1, note || 'b' from u where id in (6, 12, 18, ?1) and length(note) > 1",
        "select i, (select s from t as o where o.id in (t.id, 3)) from t where id < 40",
        &many,
        &bounded,
    ]);
}

#[test]
fn index_loops() {
    check(&[
        "select id, i, x from t where i = ?1",
        "select id, s from t where s = ?1",
        "select id, s, i from t where s = ?1 and i > 3",
        "select id, n from t where n = ?1",
        "select i, x from t where i between 3 and ?1",
        "select i from t where i > ?1",
        "select id, s from t where s < ?1",
        "select id, s from t where s >= ?1",
        "select k, j, v from w where k = ?1",
        "select k, v from w where k = ?1 and j >= 3",
        "select v from w where k > ?1",
        "select t.id, u.id, u.note from t join u on u.t = t.id where t.i = ?1",
        "select t.id, u.note from t left join u on u.t = t.id where t.id < 200",
        "select u.id, t.x from u join t on t.id = u.t where t.id < ?1",
        "select u.id, t.x from u left join t on t.id = u.t where t.id is null or t.id > ?1",
        "select count(*), sum(t.id) from u join t on t.i = u.t",
        "select a.id, b.id from t a join t b on b.i = a.i and b.id < a.id where a.id < 300",
        "select id, i, x from t where i = ?1 and s > 'b'",
        "select id, s, x from t where s = ?1 and i > 3 and r < 9",
        "select id, s, x from t where s >= ?1 and i is not null and id > 900",
        "select s, i from t where s >= ?1 and i is not null",
        "select t.id, u.note, t.x from t left join u on u.id = t.i where t.i between 3 and ?1",
        "select a.id, b.x, c.note from t a join t b on b.id = a.i left join u c on c.id = b.id
         where a.i > ?1",
        "select count(*), sum(r), max(x) from t where i > ?1",
        "select s, count(*), sum(id) from t where s > ?1 group by s",
        "select id, i, x from t where s = ?1 order by i, id limit 30 offset 20",
        "select i, id, x from t where i >= ?1 order by i, id limit 500",
    ]);
}

/// Rows joined by rowid with rows of other tables: keys of every class, of one table and of the
/// next, conditions on either side, unmatched rows, records on several pages.
#[test]
fn rows_with_those_they_name() {
    check(&[
        "select t.id, u.id, u.note, t.x from u join t on t.id = u.t",
        "select t.x, u.id from u left join t on t.id = u.t",
        "select a.id, b.id, b.x from t a join t b on b.id = a.x",
        "select a.id, a.r, b.id, b.late, b.none from t a left join t b on b.id = a.r",
        "select a.id, b.id, b.s from t a left join t b on b.id = a.x and b.i > ?1",
        "select a.id, b.id, b.r from t a left join t b on b.id = a.i where b.id is null",
        "select a.id, b.x from t a left join t b on b.id = a.i where b.x is null or b.id = 3",
        "select u.id, t.x from u join t on t.id = u.t where t.id < ?1 and u.id > 100",
        "select u.id, t.x from u join t on t.id = u.t where t.id <> ?1 and t.id >= 30",
        "select u.id, t.id from u join t on t.id = u.t where t.x = ?1",
        "select u.id, t.i, t.r from u join t on t.id = u.t where t.i > t.r and u.note is null",
        "select u.id, t.i from u join t on t.id = u.t where t.i = u.t",
        "select u.id, a.i, b.x from u join t a on a.id = u.t join t b on b.id = a.i",
        "select u.id, a.i, b.x from u left join t a on a.id = u.t left join t b on b.id = a.i",
        "select u.id, a.i, b.s, c.late from u join t a on a.id = u.t left join t b on b.id = a.r
         left join t c on c.id = b.i where c.id is not ?1",
        "select u.id, a.i, b.id from u left join t a on a.id = u.t join t b on b.id = u.id + 0",
        "select u.id from u left join t on t.id = u.t",
        "select t.id from u join t on t.id = u.t where u.id > ?1",
        "select u.id, t.x, u.note, ?1, 5 from u left join t on t.id = u.t limit 7",
        "select u.id, t.x, u.note from u left join t on t.id = u.t limit 300 offset 90",
        "select u.id, t.x, u.note from u left join t on t.id = u.t where t.s is 'b' limit 11 offset 2",
        "select u.id, t.x from u join t on t.id = u.t order by t.x, u.id",
        "select u.id, t.late from u left join t on t.id = u.t order by t.i desc, u.id limit 20",
        "select t.id, count(u.id), count(*), max(u.note) from u left join t on t.id = u.t
         group by t.id order by t.id",
        "select t.s, t.n, count(*), sum(t.i), avg(t.r) from u join t on t.id = u.t
         group by t.s, t.n order by 1, 2",
        "select count(*), sum(t.i), min(t.x) from u join t on t.id = u.t where t.id > ?1",
        "select count(*), count(t.id) from u left join t on t.id = u.t where u.id < 0",
        "select t.i, max(u.id), t.x from u join t on t.id = u.t group by t.i order by t.i",
        "select distinct t.n, t.late from u left join t on t.id = u.t",
        "select t.i from u join t on t.id = u.t union select u.t from u left join t on t.id = u.id",
        "select u.t, t.x from u join t on t.id = u.t except select t.id, x from t where r > ?1",
        "select count(*) from (select t.x from u left join t on t.id = u.t union all select i from t)",
    ]);
}

/// Index scans in descending order, the ends for `min` and `max`, rows found by any of several
/// ways, and groups and distinct rows in the order of an index.
#[test]
fn ends_unions_and_orders_of_indexes() {
    check(&[
        "select i, id from t where i > ?1 order by i desc",
        "select i from t where i between -3 and ?1 order by i desc",
        "select i from t where i >= ?1 order by i desc limit 7",
        "select i from t where i < ?1 order by i desc limit 200 offset 3",
        "select s, i from t where s = ?1 order by i desc",
        "select s, i from t where s = ?1 and i > 3 order by i desc",
        "select s, i from t where s = ?1 and i <= 20 order by i",
        "select s, i from t order by s, i desc",
        "select s, i from t order by s desc, i limit 30",
        "select s from t where s < ?1 order by s",
        "select s from t where s >= ?1 order by s",
        "select k, j from w where k = ?1 order by j desc",
        "select k, j, v from w order by k desc, j desc",
        "select i, u.id from t join u on u.t = t.id where i > 20 order by i desc, u.id",
        "select min(i) from t",
        "select max(i) from t",
        "select min(id) from t",
        "select max(id) from t",
        "select min(s) from t",
        "select max(s) from t",
        "select min(k) from w",
        "select max(k) from w",
        "select max(i) from t where i < ?1",
        "select min(i) from t where i >= ?1",
        "select min(i) from t where i > ?1 and r > 3",
        "select max(id) from t where id < ?1",
        "select max(i) from t where s = ?1",
        "select min(i) from t where s = ?1",
        "select max(id) from t where x = ?1",
        "select min(r) from t where r > 3",
        "select max(n) from t",
        "select id, s, x from t where i = ?1 or id = 9",
        "select id, i from t where i = 7 or s = ?1 or id between 30 and 60",
        "select id from t where id < 20 or id = ?1 or id > 4400",
        "select id, late from t where (i = ?1 or s = 'b') and x is not null",
        "select count(*), sum(id), max(x) from t where i = ?1 or s = ?1 or id = ?1",
        "select i, count(*) from t where i > ?1 or s > 'd' group by i order by i",
        "select id, i from t where i < -8 or i > ?1 or id < 30",
        "select t.id, u.note from t join u on u.t = t.id where t.i = ?1 or t.id = 12",
        "select x, id from t where i = 7 or id in (3, 6) or s = ?1",
        "select id from t where s like 'ab%' or id = ?1",
        "select i, count(*), max(id) from t group by i order by i",
        "select i, count(*), min(id) from t group by i order by i desc",
        "select i, count(*) from t where i > ?1 group by i order by i",
        "select s, i, count(*) from t group by s, i order by s desc, i",
        "select s, i, count(*) from t group by i, s order by s desc, i",
        "select i, s, count(*) from t where s = ?1 group by i, s order by i",
        "select s, max(i) from t group by s order by 2, 1",
        "select k, count(*), max(v) from w group by k order by k",
        "select k, j, count(*) from w group by k, j order by k, j",
        "select id, count(*) from t group by id order by id limit 20",
        "select n, count(*) from t group by n order by 2",
        "select n collate binary as n, count(*) from t group by n collate binary order by n",
        "select i, count(*) from t group by i having count(*) > 20 order by i",
        "select t.i, count(*) from t join u on u.t = t.id group by t.i order by t.i",
        "select t.id, count(*) from t join u on u.t = t.id group by t.id order by t.id",
        "select distinct i from t",
        "select distinct i from t order by i desc",
        "select distinct s, i from t",
        "select distinct i, s from t where i > ?1",
        "select distinct n from t",
        "select distinct x, late from t",
        "select distinct s from t where s = ?1",
        "select distinct id, i from t where id < 90",
        "select distinct i from t where r > ?1 order by i limit 9",
        "select distinct k from w",
        "select distinct t.i from t join u on u.t = t.id",
        "select distinct upper(s) from t",
        "select distinct i, count(*) from t group by i, s",
        "select count(*) from (select distinct i, n from t)",
        "select id from t where i in (select distinct t from u where t < 40)",
    ]);
}

#[test]
fn compounds_by_hash() {
    check(&[
        "select i, s from t union select t, note from u",
        "select s from t union select late from t where r > 3",
        "select s, i from t intersect select s, i from t where id > 900",
        "select i, x from t except select i, x from t where r > ?1",
        "select i, id from t where n is null union select t, id from u",
        "select i from t union all select t from u except select i from t where i > 5",
        "select i from t union all select i from t union select t from u",
        "select late, none from t union select s, x from t where id < 400",
        // `Eng` and `eng` are equal and not the same, within a part and between parts.
        "select n from t union select n from t where id > 40",
        "select n from t where id > 4 union select note from u union select n from t where id < 30",
        "select i from t except select t from u union all select 3 from u where t = 3",
        "select i from t intersect select r from t intersect select x from t",
        "select k from w except select s from t where id > ?1",
        "select i, s from t union select t, note from u order by 2, 1 limit 30",
        "select count(*), count(x) from (select i as x from t except select t from u)",
        "select id from t where i in (select i from t where id < 90 intersect select t from u)",
        "select ?1, i from t where id < 30 union select 3, i from t where id < 60",
        "select t.i, u.note from t join u on u.t = t.id union select i, n from t where id < 90",
    ]);
}

/// Parts with the same column as rowid: rows present in both or one, in every operator's place,
/// with records on several pages, values equal across classes, and other collations.
#[test]
fn compounds_by_rowid() {
    check(&[
        "select id, i from t union select id, t from u",
        "select id, i, s from t intersect select id, i, s from t where r > ?1",
        "select id, x from t intersect select id, x from t where id > 900",
        "select id, x, late from t except select id, x, late from t where id between 300 and ?1",
        "select id, n from t intersect select id, upper(n) as n from t",
        "select id, n from t intersect select id, s from t",
        "select id, n from t except select id, note from u",
        "select id, note from u except select id, n from t",
        "select id, note from u intersect select id, n from t",
        "select i, id from t intersect select r, id from t",
        "select i, id from t except select r, id from t",
        "select r, id from t union select i, id from t",
        "select x, id from t union select i, id from t union select r, id from t",
        "select x, id from t union select i, id from t except select r, id from t",
        "select x, id from t union select i, id from t intersect select r, id from t where id > ?1",
        "select i, id from t intersect select x, id from t union select t, id from u",
        "select i, id from t except select x, id from t where i > ?1 union select x, id from t
         where id < 900 except select r, id from t",
        "select id from t union select id from u",
        "select id from u intersect select id from t where id < 100 or id > 4000",
        "select id, 3 from t intersect select id, i from t",
        "select id, ?1 from t except select id, i from t",
        "select id, late, none from t union select id, note, t from u order by 1, 2, 3",
        "select id, x from t except select id, x from t where id < 4000 order by x desc, id limit 9",
        "select count(*), count(x) from (select id, x from t union select id, i from t)",
        "select id from t where id in (select id from t where i > ?1 except select id from u)",
        "select id, i from t where id > 5000 intersect select id, t from u",
        "select id, i from t where id < ?1 except select id, t from u where id > 9000000000",
    ]);
}

#[test]
fn groups_and_orders() {
    check(&[
        "select count(*) from t",
        "select count(*), count(i), sum(i), avg(r), min(s), max(x) from t where x > ?1",
        "select n, count(*), sum(i), max(id) from t group by n order by n",
        "select s, i, count(*), total(r) from t group by s, i order by s, i",
        "select i, count(x) from t where r > ?1 group by i order by i",
        "select x, count(*) from t group by x order by x",
        "select late, count(*), min(none) from t group by late order by late",
        "select r, id from t order by r desc, id limit 30",
        "select s, id from t where i <> ?1 order by s, id limit 12 offset 5",
        "select x, id from t order by x, id",
        "select i, s, id from t where i is not null order by s desc, i, id",
        "select id, x from t order by id desc limit 20",
    ]);
}

/// Top-N: rows behind the bound are dropped by their first key.
#[test]
fn first_rows_by_an_order() {
    check(&[
        "select id, s, r from t order by r, id limit 1",
        "select id, s, r, x from t order by r desc, id limit 40",
        "select r, id from t order by r nulls last, id desc limit 700 offset 9",
        "select id, i, x, n from t where i > ?1 order by i desc, id limit 25",
        "select id, x from t where i > -4 and r < 9 order by x, id limit 17 offset 3",
        "select x, id, none from t order by x desc nulls last, id limit 300",
        "select id, late from t order by late, id desc limit 9",
        "select id, n from t order by n collate nocase desc, id limit 31",
        "select s from t order by x, id limit 12",
        "select id, r from t order by ?1, id limit 5",
        "select id, r from t order by i + 0, id limit 6",
        "select id, s from t order by id + 0 desc limit 50",
        "select id, r as o, s from t union all select id, note, t from u order by o, id limit 33",
        "select id, i as o from t where r > ?1 union all select id, t from u order by 2 desc, 1 limit 60",
        "select id, i as o from t union select id, t from u order by 2, 1 limit 21",
        "select id, r from t order by r, id limit -1",
    ]);
}

/// Rows found in another table by a join or an index, with only that table's columns in the result.
#[test]
fn rows_of_another_table_alone() {
    check(&[
        "select t.s, t.x, t.id from u join t on t.id = u.t",
        "select t.s, t.x, t.id, ?1, t.late from u left join t on t.id = u.t",
        "select u.note, u.id from u left join t on t.id = u.t",
        "select b.x, b.r, b.none from u join t a on a.id = u.t join t b on b.id = a.i",
        "select a.s from u left join t a on a.id = u.t left join t b on b.id = a.i",
        "select b.late, b.id from u left join t a on a.id = u.t left join t b on b.id = a.i",
        "select u.note, b.x, a.x from u left join t a on a.id = u.t left join t b on b.id = a.i",
        "select t.x, t.late, t.id from t where i > ?1",
        "select x, r, none from t where s > ?1 and i > 3",
        "select count(t.x), count(u.note), count(*) from u left join t on t.id = u.t",
        "select t.x from u join t on t.id = u.t union all select x from t where i > ?1",
    ]);
}

/// Predicates with `LIKE` and `GLOB`, over every way to the rows.
#[test]
fn texts_that_fit_a_pattern() {
    check(&[
        "select id, s from t where s like 'b%' order by id",
        "select id, s, n from t where n not like '%NG' and s like '_b%' order by id",
        "select count(*), sum(i) from t where x like '%1%'",
        "select count(*) from t where x not like '%1%' and i > ?",
        "select id, x from t where x glob 'x*[0-4]' order by id",
        "select count(*) from t where r like '%.5' or i is null",
        "select count(*) from t where late like 'LATER' and none like '%'",
        "select t.id, u.note from u join t on t.id = u.t where u.note like 'e%' order by u.id, t.id",
        "select t.id, u.id from t left join u on u.t = t.id and u.note like '%s %' order by t.id, u.id",
        "select id from t where id like '%99%' order by id",
        "select id || s from t where s like 'c%' and length(s) > 1 order by id",
        "select k from w where k like 'C%' order by k, j",
        "select n, count(*) from t where s like '%c%' group by n order by n",
    ]);
}

#[test]
fn expressions_over_rows_from_the_pages() {
    check(&[
        "select id + 1, upper(s), x from t where length(s) > 1 and i > ? order by id",
        "select sum(case when i > ? then 1 else 0 end), total(r * 2), max(id % 7) from t",
        "select t.id || '-' || u.id, coalesce(u.note, s) from u join t on t.id = u.t
         where abs(t.i) % 2 = 0 order by u.id, t.id",
        "select t.id, u.id, t.s || u.note from t left join u on u.t = t.id
         where coalesce(u.note, '') <> 'eng' order by t.id, u.id",
        "select (select s || '!' from t where t.id = u.t) from u order by id",
        "select count(*) from t where exists (select 1 from u where u.t = t.id + 1)",
        "select u.id from u join t on t.id = u.t + 3 where t.i is not null order by u.id",
        "select i + 0, count(*), group_concat(s) from t where x is not null group by i + 0 order by 1",
        "select k || '', j from w where j > ? and k || j <> 'b7' order by k, j",
        "select id, sum(i) over (order by id rows 3 preceding) from t where r * 2 > ? order by id",
        "select distinct i * 2 from t where s is not null order by 1",
        "select id, length(x) from t where i = ? and r + 0 is not null order by id",
        "select k, count(*) from g group by k limit 3 offset 1",
        "select j, max(k), sum(id) from g where id > ? group by j limit 4",
        "select k from g group by k having count(*) > 2 limit 2",
    ]);
}

/// Groups with their rows side by side in an index: with long keys, and with equal keys stored in
/// several ways.
#[test]
fn groups_in_the_order_of_an_index() {
    check(&[
        "select k, count(*), sum(j), max(id) from g group by k order by k",
        "select k, count(*) from g group by k order by k",
        "select j, count(*) from g group by j order by j",
        "select j, count(*), avg(id), min(k) from g where j > ?1 group by j order by j",
        "select distinct k from g order by k",
        "select count(distinct k), count(distinct j) from g",
        "select j, group_concat(distinct k), count(distinct k) from g group by j order by j",
        "select j, group_concat(id, ',' order by id desc) from g group by j order by j",
    ]);
}

/// Tables of more than four megabytes are read in parts, side by side, with the same results.
#[test]
fn large_tables_in_parts() {
    let scratch = Scratch::new(
        "pragma synchronous = off; begin;
         create table big(id integer primary key, i int, r real, s text, pad, x int);
         with recursive c(p) as (values(1) union all select p + 1 from c where p < 12000)
         insert into big(id, i, r, s, pad) select p * 2, case p % 19 when 0 then null else p * 7919 % 1000 - 400 end,
           case p % 23 when 0 then p else p * 31 % 977 / 7.0 end,
           case p % 3 when 0 then 'x' || p % 40 when 1 then p % 5 else null end, zeroblob(400)
         from c;
         insert into big(id, x) values (-9, 9223372036854775807), (20001, 5),
           (30001, -9223372036854775807);
         create index big_i on big(i);
         create table ref(id integer primary key, big int, note);
         insert into ref select id, abs(i) * 61 % 24500, s from big where id between 1 and 5000;
         commit;",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    for sql in [
        "select count(*) from big",
        "select count(i), sum(i), total(i), min(i), max(i), avg(i), min(s), max(s) from big",
        "select count(*), sum(r), avg(r), max(r) from big where i > 100",
        "select s, count(*), sum(i), avg(r), max(id) from big where id > 5 group by s order by s",
        "select s, i, count(*) from big group by s, i order by s, i",
        "select min(r), id, i from big where i is not null and r > 3",
        "select s, max(i), id from big where id > 0 group by s order by s",
        "select i, min(s), id from big where s is null group by i order by i",
        "select group_concat(i) from big where id < 100",
        "select id, i from big order by i desc, id limit 40 offset 3",
        "select id, s from big where i between -5 and 200 order by s, i, r, id limit 100",
        "select i, s from big where s > 'x3' order by r, id limit 3",
        "select id from big order by pad, id limit 5",
        "select i, r, s, id from big order by s desc, r, id",
        "select sum(i) from big where id between 300 and 9000",
        "select ref.id, big.i, note from ref join big on big.id = ref.big order by ref.id",
        "select ref.id, big.s from ref left join big on big.id = ref.big order by ref.id",
        "select big.s, count(*), sum(ref.id), min(big.i) from ref join big on big.id = ref.big
         group by big.s order by big.s",
        "select ref.id, count(*), max(big.r), sum(big.i) from big left join ref on ref.id = big.i
         where big.id > 0 group by ref.id order by ref.id",
        "select big.id, ref.note from big join ref on ref.id = big.i order by big.r, big.id limit 30",
        "select count(*), sum(big.i), avg(big.r) from big left join ref on ref.id = big.i",
        "select id, i, s from big where i between 3 and 90 order by id",
        "select id, s from big where i = 33 order by id",
        "select sum(x), min(x), max(x), count(x) from big where id <> 20001",
    ] {
        let mut expect = theirs_with(&peer, sql, &[]).unwrap();
        let mut statement = prepare(&mut connection, sql);
        for _ in 0..2 {
            let mut got = run(&mut connection, &mut statement, &[]);
            if !sql.contains("order by") {
                sort(&mut got.rows);
                sort(&mut expect.rows);
            }
            // Equal to the last bit, sums of reals included.
            assert_eq!(got, expect, "{sql}");
        }
    }
    // The sum fits in the end, but overflows on the way.
    let sql = "select sum(x) from big";
    assert!(theirs_with(&peer, sql, &[]).is_err());
    let mut statement = prepare(&mut connection, sql);
    let mut rows = connection.query(&mut statement).unwrap();
    assert!(rows.next().is_err());
}

/// One process reads while another writes between two statements.
#[test]
fn statements_follow_the_file() {
    let scratch = Scratch::new(&script(1024));
    let peer = scratch.theirs();
    peer.execute_batch("pragma synchronous = off").unwrap();
    for (cache_pages, begin) in [(20, false), (16_384, false), (20, true)] {
        let options = Options { cache_pages, ..Options::new(Access::ReadOnly) };
        let store = Store::open_with(Arc::new(OsVfs::new()), &scratch.path(), options).unwrap();
        let mut connection = Connection::open(store).unwrap();
        let sql = [
            "select id, i, x from t where i = ?1",
            "select count(*), sum(id), max(length(x)) from t where id > ?1",
            "select x from t where id = ?1",
            "select i from t union select t from u where t > ?1",
        ];
        let mut statements = sql.map(|sql| prepare(&mut connection, sql));
        for round in 0..30_i64 {
            if begin {
                connection.begin(Mode::Read).unwrap();
            }
            for (sql, statement) in sql.iter().zip(&mut statements) {
                for value in [round, 7, 30] {
                    let parameters = [Value::Int(value)];
                    let mut expect = theirs_with(&peer, sql, &parameters).unwrap().rows;
                    let mut got = run(&mut connection, statement, &parameters).rows;
                    sort(&mut expect);
                    sort(&mut got);
                    assert_eq!(got, expect, "{sql} {round}");
                }
            }
            if begin {
                connection.commit().unwrap();
            }
            peer.execute_batch(&format!(
                "delete from t where id % 31 = {round}; update t set i = {round} where id % 97 = 3;
                 insert into t(i, x) values ({round}, zeroblob({round} * 200));"
            ))
            .unwrap();
        }
    }
}

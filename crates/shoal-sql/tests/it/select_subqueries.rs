//! Correlated subqueries in expressions, beside SQLite: for every kind of query, access path and
//! place in the query around; values of all classes, NULLs, affinities, collations, errors.

use crate::common::{Scratch, check, check_all, ours, theirs};
use shoal_sql::{Value, ValueRef};

/// `u` is the outer table, `o` the inner one. In `u`, the columns `k` and `tk` are keys as integers
/// and as texts, `a` is of any class; `o` has an index by nearly every column, some over several
/// columns, partial, descending, by an expression or with a collation. Some keys have many entries,
/// and some rows go on on overflow pages.
const ROWS: &str = "
    create table u(id integer primary key, k int, tk text, a, n int, s text collate nocase);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 260)
    insert into u select x, case when x % 11 = 0 then null else x * 7 % 130 end,
        case x % 4 when 0 then x * 7 % 130 || '.0' when 1 then ' ' || x % 130 else x * 7 % 130 || '' end,
        case x % 7 when 0 then null when 1 then x % 130 when 2 then x % 130 + 0.0 when 3 then x % 130 + 0.5
            when 4 then x % 130 || '' when 5 then cast(x % 130 as blob) else 'abc' end,
        x % 3, substr('aAbBcC', x % 6 + 1, 1) || x % 9
    from c;
    create table o(id integer primary key, k int, tk text, r real, d, v int, s text, l text);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 500)
    insert into o select x, case when x % 13 = 0 then null when x % 3 = 0 then 5 else x * 11 % 150 end,
        x * 11 % 150 || case when x % 5 = 0 then '.0' else '' end, x * 11 % 150 + (x % 2) / 2.0,
        case x % 6 when 0 then null when 1 then x % 140 when 2 then x % 140 + 0.0 when 3 then x % 140 || ''
            when 4 then cast(x % 140 as blob) else 'ABC' end,
        case when x % 17 = 0 then null else x * 31 % 101 - 50 end,
        substr('abcABC', x % 6 + 1, 1) || x % 9,
        case when x % 50 = 7 then hex(zeroblob(3000)) || x else 'l' || x end
    from c;
    create index o_k on o(k);
    create index o_tk on o(tk);
    create index o_r on o(r, v desc);
    create index o_d on o(d, k);
    create index o_s on o(s collate nocase);
    create index o_kv on o(k, v) where v > 0;
    create index o_x on o(v % 10);
    create table w(g int, h text, v, primary key(g, h)) without rowid;
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 300)
    insert into w select x % 60, 'h' || x, case when x % 5 = 0 then null else x * 3 % 47 end from c;
    create table big(id integer primary key, k int, v int);
    with recursive c(x) as (select 1 union all select x + 1 from c where x < 300)
    insert into big select x, x % 90, case when x % 40 = 3 then 9223372036854775807 - x % 2 else x end from c;
    create index big_k on big(k);
    create table e(k int primary key, v);";

/// Queries correlated with a row of `u`, without their results.
const SOURCES: &[&str] = &[
    // By rowid.
    "o where o.id = u.k",
    "o where o.id = u.a",
    "o where o.id = u.tk",
    "o where o.id = u.id * 2",
    "o where o.id = u.k and o.v > u.n",
    "o where o.id = u.k and o.l like 'l%'",
    "o where o.id between u.k and u.k + 3",
    "o where o.id > u.k and o.id < 20",
    "o where o.id in (u.k, u.id, 7)",
    // By an index.
    "o where o.k = u.k",
    "o where o.k = u.a",
    "o where o.k = u.tk",
    "o where o.k is u.k",
    "o where o.k = u.k and o.v > 0",
    "o where o.k = u.k and o.v = u.n",
    "o where o.k = u.k and u.n > 0",
    "o where o.k = u.k and u.n = 1 and o.s < 'b'",
    "o where o.k > u.k",
    "o where o.k = 5 and o.v < u.id",
    "o where o.tk = u.tk",
    "o where o.tk = u.k",
    "o where o.tk = u.a",
    "o where o.tk = u.k || '.0'",
    "o where o.r = u.k",
    "o where o.r = u.a",
    "o where o.r = u.k and o.v > 0",
    "o where o.r > u.id and o.r < u.id + 3",
    "o where o.d = u.a",
    "o where o.d = u.k",
    "o where o.d = u.a and o.k = u.k",
    "o where o.d is u.a",
    "o where o.s = u.s",
    "o where o.s = u.s collate binary",
    "o where o.s = u.s and o.k = u.k",
    "o where o.v % 10 = u.n",
    "o where o.k = u.k or o.id = u.id",
    "o where o.k = u.k and o.l is not null and o.l <> ''",
    // By neither.
    "o where o.v = u.n - 3",
    "o where o.v > u.k and o.s like 'a%'",
    "o where o.l = 'l' || u.id",
    "o where u.n = 1",
    "o where o.v + u.n = 17",
    "w where w.g = u.k",
    "w where w.g = u.k and w.h > 'h2'",
    "w where w.g = u.n and w.h = 'h' || u.id",
    "e o where o.k = u.k",
    // Of several tables.
    "o join w on w.g = o.k where o.id = u.k",
    "o join big b on b.id = o.k where o.k = u.k",
    "o left join big b on b.id = o.v where o.k = u.k",
    "o left join w on w.g = o.v where o.id = u.k",
    "big b join o on o.k = b.k where b.id = u.id",
    "(select k, v, id, s, l from o where v > 10) o where o.k = u.k",
];

/// Expressions over them: `@` is the source.
const QUERIES: &[&str] = &[
    "exists (select 1 from @)",
    "not exists (select * from @)",
    "exists (select 1 from @ limit 1)",
    "exists (select 1 from @ limit 0)",
    "exists (select 1 from @ limit 1 offset 2)",
    "(select count(*) from @)",
    "(select v from @ order by 1 limit 1)",
    "(select v from @ order by 1 desc limit 1 offset 1)",
    "(select v from @ order by v desc nulls last limit 1)",
    "(select distinct v from @ order by v desc limit 3)",
    "(select max(v) from @)",
    "(select min(v) from @)",
    "(select sum(v) from @)",
    "(select coalesce(sum(v), 0) + u.n from @)",
    "(select count(distinct v) + total(v) * 2 from @)",
    "(select count(*) from @ having count(*) > 2)",
    "(select count(v) filter (where v > 3) from @)",
    "(select min(v) || '-' || count(*) from @ group by v % 2 order by 1 limit 1)",
    "u.n in (select v from @)",
    "u.k not in (select v from @)",
    "u.a in (select v from @)",
    "(select count(*) from (select distinct v from @))",
    "u.n = (select v % 3 from @ order by v limit 1) or u.n = 0",
    "case when u.n = 1 then (select count(*) from @) else u.k end",
    "(u.n, 1) = (select v % 3, 1 from @ order by v limit 1)",
];

fn both() -> (Scratch, shoal_sql::Connection, rusqlite::Connection) {
    let scratch = Scratch::new(ROWS);
    let (ours, theirs) = (scratch.ours(), scratch.theirs());
    (scratch, ours, theirs)
}

fn assert_none(failures: &[String]) {
    let shown = failures.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(failures.is_empty(), "{}:\n{shown}", failures.len());
}

#[test]
fn every_query_over_every_source() {
    let (_scratch, mut a, b) = both();
    let mut failures = Vec::new();
    for source in SOURCES {
        // Several sources have a column called `v`.
        let column = if source.contains(" join ") { "o.v" } else { "v" };
        for (number, query) in QUERIES.iter().enumerate() {
            let query = query.replace('@', source);
            let query = query.replace("(v)", &format!("({column})"));
            let query = query.replace("select v", &format!("select {column}"));
            let query = query.replace("by v", &format!("by {column}"));
            let query = query.replace("distinct v", &format!("distinct {column}"));
            let query = query.replace("where v > 3", &format!("where {column} > 3"));
            for sql in [
                format!("select id, {query} from u"),
                format!("select count(*), sum(id) from u where {query}"),
            ] {
                failures.extend(check(&mut a, &b, &sql, &[]).err());
            }
            // The other places are the same for all sources: a few of them each.
            let places = [
                format!("select id from u where u.id < 300 and {query}"),
                format!("select {query} as q, count(*) from u group by 1"),
                format!("select n, max({query}) from u group by n"),
                format!("select distinct {query} from u"),
                format!("select id, {query} as q from u order by q, id limit 20"),
                format!("select id from u order by {query}, id limit 9 offset 4"),
                format!("select u.id, big.v from u left join big on big.id = u.k where {query}"),
                format!(
                    "select u.id, {query} from big left join u on u.id = big.v where big.k < 9"
                ),
                format!("select id, {query} from u where id = 50 or k = 21"),
                format!("select id, {query} from u where n = 1 limit 3"),
                format!("select count(*) filter (where {query}), sum(n) from u"),
                format!("select id, sum(n) over (order by id) from u where {query}"),
                format!("select id from u where {query} union select k from u where not {query}"),
                format!("select id, {query} from u where s = 'a1' and a is not null"),
                format!("select id from u where coalesce({query}, 1) and n <> 1"),
                format!("select (select {query}) from u"),
                format!(
                    "select * from (select id as i, {query} as q from u) where q > 0 and i < 90"
                ),
            ];
            for place in [number, number + source.len(), number * 5 + source.len() / 3] {
                let sql = &places[place % places.len()];
                failures.extend(check(&mut a, &b, sql, &[]).err());
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn the_first_row_of_an_order() {
    let (_scratch, mut a, b) = both();
    let mut failures = Vec::new();
    let sources = SOURCES.iter().filter(|source| source.starts_with("o where"));
    for (number, source) in sources.enumerate() {
        let orders = [
            "o.v desc, o.id",
            "o.s collate nocase, o.d desc, o.id",
            "o.l desc, o.id",
            "o.d, o.r desc nulls last, 1 desc",
            "o.tk desc, o.v nulls last, o.id desc",
            "o.id desc, o.v",
        ];
        let order = orders[number % orders.len()];
        for bound in ["", "limit 1", "limit 7", "limit 1 offset 1", "limit u.n", "limit 0"] {
            let query = format!("(select o.l from {source} order by {order} {bound})");
            for sql in [
                format!("select id, {query} from u"),
                format!("select id, exists {query} from u where length({query}) > 100"),
            ] {
                failures.extend(check(&mut a, &b, &sql, &[]).err());
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn queries_within_queries() {
    let (_scratch, mut a, b) = both();
    let mut failures = Vec::new();
    for sql in [
        "select id, (select max((select count(*) from big b where b.k = o.k)) from o where o.k = u.k) from u",
        "select id from u where exists (select 1 from o where o.k = u.k and exists (select 1 from big b where b.id = o.id))",
        "select id from u where exists (select 1 from o where o.k = u.k and not exists (select 1 from big b where b.id = u.id and b.v > o.v))",
        "select id, (select count(*) from o where o.k = (select k from big b where b.id = u.id)) from u",
        "select id, (select sum(v) from o where o.k = u.k and o.v > (select avg(v) from w where w.g = u.k)) from u",
        "select id, (select count(*) from o where o.k = u.k and o.id in (select id from big b where b.k = u.k)) from u",
        "select n, (select count(*) from o where o.k = max(u.k)) from u group by n",
        "select n, count(*) from u group by n having exists (select 1 from o where o.id = count(*))",
        "select n, sum((select count(*) from o where o.k = u.k)) from u group by n",
        "select id, (select group_concat(v) from (select v from o where o.k = u.k order by v limit 5)) from u",
        "select id, (select v from o where o.k = u.k union select v from big b where b.k = u.k order by 1 limit 1) from u",
        "select id, (with c(x) as (select v from o where o.k = u.k) select sum(x) from c) from u",
        "select id, (select sum(v) over (order by id) from o where o.k = u.k order by id limit 1) from u",
        "select u.id, x.id from u join o x on x.id = u.id where x.v > (select avg(v) from o where o.k = u.k)",
        "select u.id from u, w where w.g = u.k and w.v in (select v from o where o.k = w.g)",
        "select id from u where k in (select k from o where v > 30) and id < 100",
        "select id from u where a in (select d from o)",
        "select id from u where a not in (select d from o where d is not null)",
        "select id from u where tk in (select k from o where v > 0) or n in (select 1)",
        "select id, k in (select k from o where v = 13), s in (select s from o) from u",
        "select id from u where (k, n) in (select k, v % 3 from o where o.id < u.id)",
        "select id from u where k > all_of.m and id < 50",
    ] {
        failures.extend(check(&mut a, &b, sql, &[]).err());
    }
    assert_none(&failures);
}

/// An `IN` of rowids over an indexed integer column is a join.
#[test]
fn an_in_of_rowids_is_a_join() {
    let (_scratch, mut a, b) = both();
    for (sql, joins) in [
        ("select id, v from o where k in (select id from big where v > 100) order by id", true),
        ("select count(*), sum(v) from o where k in (select rowid from u where n = 1)", true),
        ("select id from o where k in (select distinct id from u where k > 3) order by id", true),
        (
            "select o.id, w.h from o, w where g = o.k and o.k in (select id from u) order by 1, 2",
            true,
        ),
        ("select k, max(v) from (select * from o where k in (select id from u)) group by k", true),
        (
            "select o.id from o where k in (select id from u where n = 1 and s in ('a1', 'B2')) \
          and k in (select id from big where v < 77) order by 1",
            true,
        ),
        ("select id from o where k not in (select id from big where v > 100) order by id", false),
        ("select id from o where d in (select id from big) order by id", false),
        ("select id from o where tk in (select id from big) order by id", false),
        ("select id from o where v in (select id from big) order by id", false),
        ("select id from o where k in (select k from big) order by id", false),
        ("select id from o where k in (select id from big order by v limit 5) order by id", false),
        ("select id from o where k in (select id from w, u where id = g) order by id", false),
        ("select id from o where k in (select id from big b where b.v = o.v) order by id", false),
        ("select id from o where k in (select max(id) from big) order by id", false),
        ("select id from o where k in (select id from big) or id = 3 order by id", false),
    ] {
        check(&mut a, &b, sql, &[]).unwrap();
        let tree = ours(&mut a, &format!("explain {sql}")).unwrap().rows;
        let asks = tree
            .iter()
            .any(|row| matches!(&row[2], Value::Text(node) if node.trim_ascii() == b"subquery"));
        assert_eq!(asks, !joins, "{sql}: {tree:?}");
    }
    let outer = "select u.id, o.id from u left join o on o.id = u.k and o.k in (select id from big)
         where o.k in (select id from big where v > 3) or o.k is null order by 1, 2";
    check(&mut a, &b, outer, &[]).unwrap();
}

#[test]
fn parameters_within() {
    let (_scratch, mut a, b) = both();
    let values = [Value::Int(1), Value::Int(40), Value::Null, "13".into(), 2.5.into()];
    for value in values {
        for sql in [
            "select id, (select count(*) from o where o.k = u.k and o.v > ?1) from u",
            "select id from u where exists (select 1 from o where o.id = u.k + ?1)",
            "select id from u where exists (select 1 from o where o.k = ?1 and o.v = u.n)",
            "select id, (select ?1 from o where o.id = u.k) from u where k > ?1",
            "select id, (select v from o where o.id = u.k limit 1 offset ?1) from u",
            "select id from u where n in (select v from o where o.k = u.k and ?1 = u.n)",
        ] {
            check(&mut a, &b, sql, std::slice::from_ref(&value)).unwrap();
        }
    }
}

/// An error within is raised when the turn of the outer row comes, and not before.
#[test]
fn an_error_is_that_of_its_row() {
    let (_scratch, mut a, b) = both();
    // The rows of `big` with the key 3 have a sum too large for an integer.
    let fails = "(select sum(v) from big where big.k = x.id)";
    let from = "(select id from u) x";
    for (sql, fits) in [
        (format!("select id, {fails} from u x where id < 3"), true),
        (format!("select id, {fails} from u x where id < 30"), false),
        (format!("select id, {fails} from u x limit 2"), true),
        (format!("select id, {fails} from u x limit 3"), false),
        (format!("select id from u x where id <> 3 and id < 9 and {fails} > 0"), true),
        (format!("select id from u x where {fails} > 0 and id < 9"), false),
        (format!("select case when id = 3 then 0 else {fails} end from u x where id < 9"), true),
        (format!("select sum(id) from {from} where id < 3 and {fails} > 0"), true),
        (format!("select max({fails}) from u x"), false),
        (format!("select exists {fails} from u x"), false),
        (format!("select {fails} in (1, 2) from u x where id < 3"), true),
    ] {
        let (a, b) = (ours(&mut a, &sql), theirs(&b, &sql));
        assert_eq!(a.is_ok(), fits, "{sql}: {a:?}");
        assert_eq!(b.is_ok(), fits, "{sql}: {b:?}");
        if let (Ok(a), Ok(b)) = (a, b) {
            assert_eq!(a, b, "{sql}");
        }
    }
    // The rows before the error are given.
    let mut statement = a.prepare(&format!("select id, {fails} from u x")).unwrap();
    let mut rows = a.query(&mut statement).unwrap();
    for id in 1..3 {
        assert_eq!(rows.next().unwrap().unwrap().get(0), ValueRef::Int(id));
    }
    assert!(rows.next().is_err());
}

/// Columns of a subquery are called as it wrote them, those of a view as the table's.
#[test]
fn columns_are_called_as_written() {
    let scratch = Scratch::new(
        "create table T(Ab integer primary key, \"De f\" text);
        insert into t values (1, 'x'), (2, 'y');
        create view V as select AB, \"de f\" from t;
        create view W(x) as select aB from t;",
    );
    let queries = r#"
select * from (select aB, "DE F" from t);
select AB, "de F" from (select ab, "DE f" from t);
select * from (select * from (select aB from t));
select Ab from (select aB from (select AB from t));
with c as (select aB from t) select *, ab from c;
with c as (select aB from t) select * from c x join c y on x.ab = y.AB;
with c(X) as (select aB from t) select *, x from c;
with recursive c as (select aB from t union all select ab + 2 from c where ab < 5) select * from c;
select * from v;
select aB, * from (select * from v);
select x.* from (select aB, "DE F" as g from v) x;
select * from w;
select * from (select X from w);
select * from (select aB collate nocase, t.AB from t);
select * from (select aB from t union select 9);
select * from (select (aB) from t);
select * from (select ROWID from t);
select y.rowid from (select rowid from t) y;
select * from (select aB, ab, AB as ab from t);
select * from (select aB from t order by ab desc limit 1);
select * from (select aB, count(*) from t group by 1);
select * from t join (select aB, "DE f" from t) using (AB);
select ab from (select rowid from t);
"#;
    check_all(&mut scratch.ours(), &scratch.theirs(), queries);
}

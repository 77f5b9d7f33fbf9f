//! Expressions over many rows at a time, beside SQLite: values of all classes in the same column,
//! rows of more than one batch, jumps, errors in the middle of a batch.

use crate::common::{Scratch, check, ours, theirs};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Rows of several batches, on several leaves. `i` and `r` are numbers of one class, `n` has NULLs,
/// `m` is of any class from row to row, `s` is text, `o` is a large integer now and then; `l` has
/// long texts.
const ROWS: &str = "
    create table t(id integer primary key, i int, r real, n int, m, s text, o int, l text);
    with recursive c(k) as (select 1 union all select k + 1 from c where k < 700)
    insert into t select k, k * 7919 % 1000 - 300, k * 0.5 - 100,
        case when k % 5 = 0 then null else k % 13 end,
        case k % 6 when 0 then null when 1 then k when 2 then k / 8.0 when 3 then 'm' || k
            when 4 then cast('b' || k as blob) else k || '.5' end,
        substr('abcdefghij', k % 9 + 1, k % 4) || k,
        case when k % 97 = 50 then 9223372036854775807 - k % 3 else k end,
        case when k % 150 = 7 then hex(zeroblob(3000)) || k else 'l' || k end
    from c;
    create table u(k integer primary key, t_id int, w int, x);
    with recursive c(k) as (select 1 union all select k + 1 from c where k < 400)
    insert into u select k, k * 3 % 800, k % 50, case when k % 4 = 0 then null else k / 3.0 end from c;
    create index u_w on u(w);
    create table e(a, b);";

/// Expressions over a row of `t`.
const EXPRESSIONS: &[&str] = &[
    "i * 2 + n",
    "i - r",
    "r * r / n",
    "i / n",
    "i % n",
    "i % -1",
    "i / 0",
    "r / (i - i)",
    "r % 7",
    "-i",
    "-r",
    "-m",
    "~n",
    "n & 6",
    "n | 8",
    "n << 2",
    "i >> n",
    "m + 1",
    "m || s",
    "m * n",
    "o + 2",
    "o * o",
    "-(o - 1) - 3",
    "i > 100",
    "i >= n",
    "r < i",
    "r = 5.0",
    "r <> 5",
    "i is n",
    "n is not 3",
    "n is null",
    "n notnull",
    "m > 'm'",
    "m = n",
    "s < 'd'",
    "s = 'a1' collate nocase",
    "i > 0 and n > 5",
    "i > 0 or n > 5",
    "not n > 5",
    "n > 5 is true",
    "m is not false",
    "i between n and 300",
    "n not between 3 and i",
    "case when i > 300 then 'high' when n is null then n when r < 0 then r else m end",
    "case n when 3 then s when 4 then i end",
    "case when i > 0 then n else i end",
    "case when i > 0 then case when n > 3 then 1.5 else 'x' end when n > 3 then i end",
    "coalesce(n, m, i)",
    "coalesce(n, 0) * 2",
    "iif(n > 3, r, i)",
    "nullif(n, 3)",
    "ifnull(n, s)",
    "n in (1, 3, 5)",
    "m in (1, 'm3', 2.5, null)",
    "i not in (1,2,3,4,5,6,7,8,9,10,11,12, 85)",
    "s in ('a1', 'b2', 'c3', 'd4', 'e5', 'f6', 'g7', 'h8', 'i9', 'cd10')",
    "i in (n, 3, id)",
    "cast(m as integer)",
    "cast(m as text)",
    "cast(r as integer)",
    "cast(i as real)",
    "cast(m as numeric)",
    "abs(i)",
    "length(m)",
    "length(s) + length(l)",
    "upper(s) || lower('X')",
    "substr(s, 2, 2)",
    "substr(l, 1, 5)",
    "round(r / 3, 2)",
    "typeof(m)",
    "max(i, n, 4)",
    "min(s, 'e')",
    "s like '%1%'",
    "s not like 'a%' or m like 'M%'",
    "l glob 'l[1-3]*'",
    "printf('%d-%s', i, s)",
    "instr(s, '1')",
    "replace(s, '1', 'one')",
    "hex(m)",
    "quote(m)",
    "strftime('%Y-%m', i * 1000000, 'unixepoch')",
    "json_extract('{\"a\":[' || i || ',2]}', '$.a[0]')",
    "json_array(i, m, s) || ''",
    "'fixed'",
    "null",
    "?1 + i",
    "id",
    "s",
    "total_changes() * 0 + i",
];

/// A connection of each kind on the same rows.
fn both() -> (Scratch, shoal_sql::Connection, rusqlite::Connection) {
    let scratch = Scratch::new(ROWS);
    let (ours, theirs) = (scratch.ours(), scratch.theirs());
    (scratch, ours, theirs)
}

#[test]
fn every_expression_in_every_place() {
    let (_scratch, mut a, b) = both();
    let mut failures = Vec::new();
    for expression in EXPRESSIONS {
        let expression = expression.replace("?1", "3");
        for sql in [
            format!("select id, {expression} from t"),
            format!("select id, s from t where {expression}"),
            format!("select count(*), sum(i) from t where {expression}"),
            format!("select count({expression}), min({expression}), max({expression}) from t"),
            format!("select {expression}, count(*), min(id) from t group by 1"),
            format!("select sum(n), max({expression}) from t group by i % 7"),
            format!("select distinct {expression} from t"),
            format!(
                "select sum(i + n) filter (where {expression}), count(*) filter (where n > 3) from t"
            ),
            format!(
                "select n % 4, total({expression}) filter (where i > 0), count(distinct {expression}) from t group by 1"
            ),
            format!(
                "select group_concat({expression}, s || ';'), group_concat(s, ', ') from t group by i % 3"
            ),
            format!("select {expression} as e, id from t order by 1, 2 limit 30"),
            format!("select {expression} from t where i + n > 40 and r < 200 limit 3"),
            format!("select id from t where {expression} limit 3 offset 5"),
            format!("select {expression} from t where id in (3, 50, 147, 400)"),
            format!("select {expression}, w + 1 from u join t on t.id = u.t_id where w * 2 > 30"),
            format!(
                "select sum(w), max({expression}) from u left join t on t.id = u.t_id group by w % 3"
            ),
            format!(
                "select count(*) from t where {expression} is not null and id > (select count(*) from u)"
            ),
            format!(
                "select {expression}, (select w from u where t_id = t.id) from t where id < 20"
            ),
            format!(
                "select {expression} from t where id < 5 union select {expression} from t where id > 690"
            ),
            format!(
                "select max(e) from (select {expression} as e, i from t) where e > '' or i > 3"
            ),
            format!("select sum(i) over (order by id), {expression} from t where {expression} > 3"),
        ] {
            failures.extend(check(&mut a, &b, &sql, &[]).err());
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn parameters_are_the_same_for_all_rows() {
    let (_scratch, mut a, b) = both();
    for value in [shoal_sql::Value::Int(7), shoal_sql::Value::Null, "x".into(), 2.5.into()] {
        for sql in [
            "select ?1 + i, ?1 from t where i + 1 > ?1",
            "select count(*), sum(i * ?1) from t where n in (?1, 3)",
            "select ?1 || s, count(*) from t group by ?1 || n",
        ] {
            check(&mut a, &b, sql, std::slice::from_ref(&value)).unwrap();
        }
    }
}

/// A row's error is raised when the row's turn comes, and not before.
#[test]
fn an_error_is_that_of_its_row() {
    let (_scratch, mut a, b) = both();
    // The first error is row 50's.
    let fails = "abs(case when o > 9223372036854775000 then -9223372036854775807 - 1 else o end)";
    for (sql, fits) in [
        (format!("select id, {fails} from t limit 49"), true),
        (format!("select id, {fails} from t limit 50"), false),
        (format!("select id from t where {fails} > 0 limit 49"), true),
        (format!("select id from t where {fails} > 0 limit 50"), false),
        (format!("select id from t where id < 50 and {fails} > 0"), true),
        (format!("select sum({fails}) from t"), false),
        (format!("select sum({fails}) from t where id < 50"), true),
        (format!("select count(*) from t group by {fails}"), false),
        (format!("select case when id < 50 then {fails} else 0 end from t"), true),
        (format!("select case when id > 20 then {fails} else 0 end from t"), false),
        (format!("select coalesce(i, {fails}) from t"), true),
        (format!("select id from t where o < 1000 and {fails} > 0"), true),
        (format!("select distinct {fails} from t"), false),
        (format!("select sum({fails}) filter (where id < 50) from t"), true),
        (format!("select sum(i) filter (where {fails}) from t"), false),
    ] {
        let (a, b) = (ours(&mut a, &sql), theirs(&b, &sql));
        assert_eq!(a.is_ok(), fits, "{sql}: {a:?}");
        assert_eq!(b.is_ok(), fits, "{sql}: {b:?}");
        if let (Ok(a), Ok(b)) = (a, b) {
            assert_eq!(a, b, "{sql}");
        }
    }
    // The rows before the error are given.
    let sql = format!("select id, {fails} from t");
    let mut statement = a.prepare(&sql).unwrap();
    let mut rows = a.query(&mut statement).unwrap();
    for id in 1..50 {
        assert_eq!(rows.next().unwrap().unwrap().get(0), shoal_sql::ValueRef::Int(id));
    }
    assert!(rows.next().is_err());
}

#[test]
fn a_table_without_rows() {
    let (_scratch, mut a, b) = both();
    for sql in [
        "select a + b from e",
        "select sum(a + b), count(*) from e where a * 2 > b",
        "select a + 1, count(*) from e group by a + 1",
        "select distinct a || b from e",
    ] {
        check(&mut a, &b, sql, &[]).unwrap();
    }
}

/// Expressions within expressions.
#[test]
fn expressions_within_expressions() {
    let (_scratch, mut a, b) = both();
    let leaf = prop::sample::select(EXPRESSIONS).prop_map(|it| it.replace("?1", "3"));
    let expression = leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), prop::sample::select(OPERATORS), inner.clone())
                .prop_map(|(a, op, b)| format!("(({a}) {op} ({b}))")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("case when {a} then {b} else {c} end")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("coalesce({a}, {b})")),
        ]
    });
    let mut runner = TestRunner::deterministic();
    for _ in 0..400 {
        let mut next = || expression.new_tree(&mut runner).unwrap().current();
        let (first, second) = (next(), next());
        for sql in [
            format!("select {first} from t where {second}"),
            format!("select count(*), max({first}) from t where {second} group by n"),
        ] {
            check(&mut a, &b, &sql, &[]).unwrap();
        }
    }
}

const OPERATORS: &[&str] =
    &["+", "-", "*", "/", "%", "||", "<", "=", ">=", "is", "is not", "and", "or", "&"];

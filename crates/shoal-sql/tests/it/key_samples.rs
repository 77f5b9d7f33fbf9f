//! Samples of keys in `sqlite_stat4`: the number of rows of a value chooses the plan, and damaged
//! samples change no answer.

use crate::common::{Scratch, check, ours};
use shoal_sql::Value;

/// One value in 36,000 of 40,000 rows, one in 3,000, and a thousand values in a row each. SQLite
/// takes the samples.
const TABLES: &str = "
    create table t(id integer primary key, v int, w text, x real);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 40000)
    insert into t select i, case when i % 10 < 9 then 5 when i % 40 < 30 then 77 else i end,
        case when i % 4 < 3 then 'usual' else 'w' || (i % 3000) end, i / 8.0 from n;
    create index t_v on t(v); create index t_wv on t(w, v desc); create index t_x on t(x desc);
    create table k(a text, b int, c int, primary key (a, b)) without rowid;
    insert into k select case when id % 5 < 4 then 'most' else 'a' || id end, id, v from t
        where id <= 8000;
    analyze;
";

fn told(connection: &mut shoal_sql::Connection, sql: &str) -> (String, f64) {
    let table = ours(connection, &format!("explain {sql}")).unwrap();
    let row = table.rows.last().unwrap();
    let (Value::Text(detail), Value::Int(rows)) = (&row[3], &row[4]) else { panic!("{row:?}") };
    (String::from_utf8(detail.clone()).unwrap(), *rows as f64)
}

/// Conditions on first columns of indexes, all of them answered by seeks and ranges.
const CONDITIONS: [&str; 13] = [
    "t where v = 77",
    "t where v = 12039",
    "t where v = 39999",
    "t where v > 20000",
    "t where v > 6 and v < 78",
    "t where w = 'w1503'",
    "t where w = 'usual' and v = 77",
    "t where w > 'v' and w < 'w2'",
    "t where x > 4900.5",
    "t where x >= 1200 and x < 1300.5",
    "k where a = 'a24'",
    "k where a = 'a24' and b = 24",
    "k where a < 'a3'",
];

#[test]
fn rows_are_counted_by_samples() {
    let scratch = Scratch::new(TABLES);
    let peer = scratch.theirs();
    let samples: i64 =
        peer.query_row("select count(*) from sqlite_stat4", [], |row| row.get(0)).unwrap();
    assert!(samples > 60, "{samples}");
    let mut connection = scratch.ours();
    let mut far = Vec::new();
    for condition in CONDITIONS {
        let sql = format!("select * from {condition}");
        let (detail, expected) = told(&mut connection, &sql);
        let count = format!("select count(*) from {condition}");
        let found: f64 = peer.query_row(&count, [], |row| row.get(0)).unwrap();
        let ratio = expected.max(1.0) / found.max(1.0);
        // The estimate of a walk over the table is a guess by the kinds of conditions.
        if !(0.2..5.0).contains(&ratio) && detail.contains(" USING ") {
            far.push(format!("{condition}: {found} rows, {expected} expected by {detail}"));
        }
        check(&mut connection, &peer, &sql, &[]).unwrap();
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
    // A value in most rows is found by a walk, a rare one by the index.
    let mut plan = |sql: &str| told(&mut connection, sql).0;
    assert!(plan("select x from t where v = 5").starts_with("t,"));
    assert!(plan("select x from t where v = 12039").contains("t_v"));
}

/// Without samples an average of rows stands for every value.
#[test]
fn without_samples_an_average_is_taken() {
    let scratch = Scratch::new(TABLES);
    scratch.theirs().execute_batch("delete from sqlite_stat4").unwrap();
    let mut connection = scratch.ours();
    let common = told(&mut connection, "select x from t where v = 5");
    let rare = told(&mut connection, "select x from t where v = 12039");
    assert_eq!(common, rare);
}

#[test]
fn samples_that_nobody_wrote_change_no_answer() {
    for spoil in [
        "update sqlite_stat4 set sample = x'ff'",
        "update sqlite_stat4 set sample = zeroblob(9000)",
        "update sqlite_stat4 set sample = null",
        "update sqlite_stat4 set sample = 'text', neq = 7",
        "update sqlite_stat4 set neq = 'x y'",
        "update sqlite_stat4 set neq = ''",
        "update sqlite_stat4 set neq = '-5 -7', nlt = 'nan inf'",
        "update sqlite_stat4 set nlt = '1e308 1e308', ndlt = '0 0'",
        "update sqlite_stat4 set neq = '0 0 0', nlt = '0 0 0', ndlt = '99999999999 9 9'",
        "update sqlite_stat4 set idx = 't_v'",
        "update sqlite_stat4 set idx = 'none', tbl = null",
        "update sqlite_stat4 set sample = substr(sample, 1, 3)",
        "update sqlite_stat4 set nlt = 40000 - nlt",
        "insert into sqlite_stat4 select s.* from sqlite_stat4 s, sqlite_stat4",
    ] {
        let scratch = Scratch::new(TABLES);
        let peer = scratch.theirs();
        peer.execute_batch(spoil).unwrap();
        let mut connection = scratch.ours();
        let join = "select count(*), sum(t.id) from t join k on t.v = k.b where k.a < 'a3'";
        let selects = CONDITIONS.map(|condition| format!("select * from {condition}"));
        for sql in selects.iter().map(String::as_str).chain([join]) {
            check(&mut connection, &peer, sql, &[])
                .unwrap_or_else(|failure| panic!("{spoil}: {failure}"));
        }
    }
}

//! Plans by values: several keys hashed together, ranges that answer their conditions, values
//! computed once for a run, rows sought from a list of rows.

use crate::common::{Scratch, check_forced, nodes, ours_with, theirs_with};
use shoal_sql::Value;

/// Values of all classes, some of them equal under affinities and collations alone.
const MIXED: &str = "
    create table a(id integer primary key, t text, n int, f, c text collate nocase, r real);
    create table b(id integer primary key, t text, n int, f, c text collate nocase, r real);
    with recursive i(i) as (select 1 union all select i + 1 from i where i < 700)
    insert into a select i, case i % 7 when 0 then null else 'k' || (i % 9) end, i % 11,
        case i % 5 when 0 then i % 3 when 1 then (i % 3) || '' when 2 then x'31' when 3 then null
            else (i % 3) * 1.0 end,
        case i % 4 when 0 then 'Ab' when 1 then 'aB' when 2 then 'b' end, i % 6 / 2.0 from i;
    insert into b select id + 3, t, case n when 4 then null else n * 2 end, f, c, r - 0.5 from a
        where id % 3 < 2;";

#[test]
fn several_keys_are_hashed_together() {
    let scratch = Scratch::new(MIXED);
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let keys = [
        "a.t = b.t and a.n = b.n",
        "a.n = b.n and a.t = b.t and a.r = b.r",
        "a.c = b.c and a.n = b.n and a.id < b.id",
        "a.f = b.f and a.n = b.n",
        "a.n = b.r and a.t = b.t",
        "a.n = b.t and a.r = b.r",
        "a.n = b.n + 0 and a.t = b.t",
        "a.t = b.t and a.c = b.c collate binary and a.n <> b.n",
        "a.id = b.id and a.t = b.t",
    ];
    let mut queries = Vec::new();
    for on in keys {
        for join in ["join", "left join", "full join"] {
            queries.push(format!("select a.id, b.id, b.t, a.f from a {join} b on {on}"));
        }
        queries.push(format!("select count(*), sum(b.id) from a join b on {on} where b.n > 4"));
        queries.push(format!(
            "select a.id from a where not exists (select 1 from b where {on}) and id < 90"
        ));
    }
    let plan = nodes(&mut connection, &queries[0]);
    assert!(plan.contains("HASH INDEX (t=? AND n=?)"), "{plan}");
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn ranges_of_an_index_answer_their_conditions() {
    let scratch = Scratch::new(&format!(
        "{MIXED} create index a_n on a(n, t); create index a_f on a(f desc); create index a_c on a(c);
         create index a_r on a(r); create index a_half on a(n / 2, id);"
    ));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let conditions = [
        "n > 3",
        "n > null",
        "n between 3 and 5",
        "n between null and 5",
        "n between 3 and 5 and n < 5",
        "n > 3 and n > 7 and n < 9 and n < 10",
        "n > '3'",
        "n < 'x'",
        "n = 3 and t > 'k3'",
        "n = 3 and t between 'k3' and 'k7'",
        "n in (3, 4) and t < 'k4'",
        "f > 1",
        "f < '1'",
        "f >= x'31'",
        "f <= 1.0",
        "f between 0 and '2'",
        "c > 'AB'",
        "c > 'AB' collate binary",
        "c <= 'ab'",
        "r > 1",
        "r < '2.5'",
        "r between 0.5 and n",
        "n / 2 > 3",
        "n / 2 between 2 and 3 and id > 100",
        "n < (select max(n) - 2 from b)",
        "n > length('abc') and n < abs(-7)",
    ];
    let mut queries: Vec<String> =
        conditions.iter().map(|it| format!("select id, n, t, f from a where {it}")).collect();
    queries.extend(conditions.iter().map(|it| format!("select count(*) from a where {it}")));
    for on in ["a.n < b.n", "a.n between b.n - 1 and b.n", "a.n = b.n and a.t > b.t", "a.r > b.t"] {
        queries.push(format!(
            "select b.id, (select count(*) from a where {on}), (select t from a where {on}
                order by n desc, t desc, id limit 1) from b where id < 60"
        ));
        queries.push(format!("select b.id, a.id from b left join a on {on} where b.id < 60"));
    }
    let plan = nodes(&mut connection, "select count(*) from a where n > 8");
    assert!(plan.contains("a_n (n>?)") && !plan.contains("predicate"), "{plan}");
    check_forced(&mut connection, &peer, &queries);
}

#[test]
fn values_of_a_run_are_computed_once() {
    let scratch = Scratch::new(&format!(
        "{MIXED} create table log(id integer primary key, at text, note text);
         insert into log select id, datetime('now', (id - 350) || ' days'), t from a;
         create index log_at on log(at);"
    ));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    for condition in [
        "at > datetime('now', '-9 days')",
        "at between date('now', '-30 days') and date('now', '+1 day')",
        "at < current_timestamp and note = 'k' || (1 + 2)",
    ] {
        let sql = format!("select id, note from log where {condition}");
        let plan = nodes(&mut connection, &sql);
        assert!(!plan.contains("row by row") && !plan.contains("in batches"), "{sql}\n{plan}");
    }
    let queries = [
        "select count(*), min(id) from log where at > date('now', '-9 days')",
        "select id, date('now') from log where at < date('now', '-300 days') order by at limit 5",
        "select l.id, (select count(*) from log where at < date('now', '-340 days') and id < l.id)
            from log l where at between date('now', '-3 days') and date('now', '+3 days')",
        "select strftime('%Y', 'now') - strftime('%Y', at) as years, count(*) from log
            group by years having count(*) > length('ab') order by years",
        "select count(*) from log where case when id < 0 then abs(-9223372036854775807 - 1) else 1 end",
        "select sum(length(note || upper('x'))) from log join b on b.t = lower('K') || b.n",
        "select id from log where at > date('now') union select id from b where t = trim(' k3 ')",
        "with recursive d(x) as (select date('now', '-5 days') union all
            select date(x, '+1 day') from d where x < date('now'))
            select x, (select count(*) from log where at >= d.x and at < date(d.x, '+1 day')) from d",
        "select count(*) filter (where at < date('now')), max(substr(at, 1, length('2026')))
            from log where id in (select id from b where t > lower('K3'))",
    ];
    let queries: Vec<String> = queries.iter().map(|sql| (*sql).to_owned()).collect();
    check_forced(&mut connection, &peer, &queries);

    // A kept statement computes its values anew for each run's parameters.
    let sql = "select id, ?2 || '!' from log where note = lower(?1) || (?2 + 1) and id < ?3";
    let mut statement = connection.prepare(sql).unwrap();
    for (letter, number, most) in [("K", 1, 400), ("K", 4, 60), ("x", 4, 60), ("K", 1, 40)] {
        let given = [Value::Text(letter.into()), Value::Int(number), Value::Int(most)];
        for (place, value) in given.iter().enumerate() {
            statement.bind(place + 1, value.clone()).unwrap();
        }
        let mut rows = connection.query(&mut statement).unwrap();
        let mut got = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            got.push((0..2).map(|column| Value::from(row.get(column))).collect::<Vec<_>>());
        }
        drop(rows);
        assert_eq!(got, theirs_with(&peer, sql, &given).unwrap().rows, "{given:?}");
        assert_eq!(got, ours_with(&mut connection, sql, &given).unwrap().rows, "{given:?}");
    }
}

#[test]
fn rows_of_a_list_are_sought() {
    let scratch = Scratch::new(&format!(
        "{MIXED} create index a_nt on a(n, t); create index a_c on a(c, r);
         create table k(t text, n int, v text, primary key(t, n)) without rowid;
         insert or ignore into k select t, n, id from a where t is not null;"
    ));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sought = [
        "select id from a where (n, t) in (values (3, 'k1'), (3, 'k1'), (4, 'k2'), (null, 'k1'))",
        "select v from k where (t, n) in (values ('k1', 3), ('k2', '4'), ('k2', 4.0), ('k2', 4))",
        "select id from a where (n, t) in (select n, t from b where id < 40)",
        "select id from a where (id, n) in (values (3, 3), ('4', 4), (5, 5.0), (6, '6'), (6, 7))",
    ];
    for sql in sought {
        let plan = nodes(&mut connection, sql);
        assert!(plan.contains("USING") && plan.contains("=?"), "{sql}\n{plan}");
    }
    let others = [
        "select id, t from a where (c, r) in (values ('AB', 1), ('ab', '1.0'), ('B', 0.5))",
        "select id from a where (n, t) not in (values (3, 'k1'), (4, 'k2'))",
        "select id from a where (n, t) in (values (3, 'k1')) or id = 7",
        "select id from a where (n, t) in (select n, t from b order by id desc limit 5)",
        "select id from a where (n, t) in (select n, t from b union select n + 1, t from b)",
        "select id from a where (n, t) in (select n, t from b where b.id = a.id + 3)",
        "select id from a where (n + 1, t) in (values (3, 'k1'))",
        "select id from a where (f, n) in (select f, n from b)",
        "select id from a where (n, f) in (select t, f from b)",
        "select a.id, b.id from a left join b on a.id = b.id where (a.n, a.t) in (values (3, 'k3'))",
        "select a.id, b.id from a join b on a.id = b.id where (a.n, b.t) in (values (3, 'k3'))",
        "select count(*), sum(r) from a where (n, t) in (select n, t from b) and (c, n) in
            (select c, n from b)",
        "select (select count(*) from a where (n, t) in (select n, t from b) and a.id > k.n) from k",
    ];
    let queries = sought.iter().chain(&others).map(|sql| (*sql).to_owned());
    check_forced(&mut connection, &peer, &queries.collect::<Vec<_>>());
}

#[test]
fn conditions_on_partitions_are_asked_before_windows() {
    let scratch = Scratch::new(&format!(
        "{MIXED} create index a_n on a(n);
         create view ranked as select id, n, t, c, f, row_number() over w as place,
             sum(r) over (partition by n order by id) as total from a
             window w as (partition by n, t order by id desc);
         create view by_text as select id, t, c, count(*) over (partition by c) as many,
             lag(id) over (partition by c, t order by id) as before from a;
         create view grouped as select n, t, count(*) as many,
             rank() over (partition by n order by count(*) desc, t) as place from a group by n, t;
         create view by_any as select id, f, count(*) over (partition by f) as many from a;"
    ));
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sql = "select id, place, total from ranked where n = 7 and place = 1";
    let plan = nodes(&mut connection, sql);
    assert!(plan.contains("a_n (n=?)"), "{plan}");
    let queries = [
        sql,
        "select id, place from ranked where t = 'k3' and place < 3",
        "select id, place, total from ranked where n in (3, 4) and id > 100",
        "select id, place from ranked where n between 3 and 5 and n < 5 and t is not null",
        "select id, place from ranked where n = 3 or place = 1",
        "select id, place from ranked where n + 1 = 4",
        "select id, many, before from by_text where c = 'AB'",
        "select id, many from by_text where c = 'Ab' collate binary",
        "select id, many from by_text where t = 'k3'",
        "select n, t, many, place from grouped where n = 4 and place <= 2",
        "select n, t, many, place from grouped where t = 'k4'",
        "select id, many from by_any where f = 1",
        "select id, many from by_any where f = '1'",
        "select b.id, r.place from b left join ranked r on r.n = 3 and r.id = b.id",
        "select b.id, (select sum(place) from ranked r where r.n = b.n) from b where b.id < 30",
    ];
    check_forced(&mut connection, &peer, &queries.map(str::to_owned));
}

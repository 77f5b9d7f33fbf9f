//! Right and full joins: rows found by keys, matches noted by rowid, unmatched rows given at the
//! end. All beside SQLite, in its order.

use crate::common::{Scratch, check, ours, ours_with, theirs_with};
use shoal_sql::{Connection, Limits, Value};

/// Rows on several leaves: `u` has some rows nobody names, far from the others or below 0, and one
/// on several pages; `o` has some rows naming nobody. `w` has no rowid.
const SCHEMA: &str = "
    create table u(id integer primary key, name text, age int, late default 'none');
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 900)
      insert into u select i * 3, 'name ' || i, i % 40, i from n;
    insert into u values (-5, 'below', 1, 1), (9000000000, 'far', 2, 2), (9000000001, 'next', 3, 3),
      (4000, 'long ' || hex(zeroblob(9000)), 4, null), (5000, null, null, null);
    create table o(id integer primary key, user, amount real, k text);
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 1500)
      insert into o select i, (i * 7) % 2900, i / 4.0, 'name ' || (i % 950) from n;
    insert into o values (2001, -5, 1, 'below'), (2002, 9000000000, 2, null), (2003, null, 3, 'far'),
      (2004, '30', 4, 'x'), (2005, 33.0, 5, 'y'), (2006, 33.5, 6, 'z'), (2007, 4000, 7, 'name 8');
    create index u_name on u(name); create index u_age on u(age, name);
    create table w(k text primary key, v int) without rowid;
    insert into w select name, age from u where id % 2 and id < 300;
    create table s(id integer primary key, u int, note text);
    insert into s select id / 2, id + 3 * (id % 5), 'note ' || age from u where id between 1 and 1500;
    insert into s values (100001, null, null), (100002, 77777, 'nobody');
    create table none(id integer primary key, a);
";

/// The rows of both, in the order they come in.
fn same(connection: &mut Connection, peer: &rusqlite::Connection, sql: &str, parameters: &[Value]) {
    let (got, expect) =
        (ours_with(connection, sql, parameters), theirs_with(peer, sql, parameters));
    let (got, expect) = (got.unwrap().rows, expect.unwrap().rows);
    let first = got.iter().zip(&expect).position(|(got, expect)| got != expect);
    let rows = first.map(|at| (at, &got[at], &expect[at]));
    assert!(first.is_none(), "{sql}\n{rows:?}");
    assert_eq!(got.len(), expect.len(), "{sql}");
}

fn plan(connection: &mut Connection, sql: &str) -> Vec<String> {
    let table = ours(connection, &format!("explain query plan {sql}")).unwrap();
    let detail = |row: &Vec<Value>| match &row[3] {
        Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => panic!("{other:?}"),
    };
    table.rows.iter().map(detail).collect()
}

#[test]
fn rows_come_in_order() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for on in [
        "on u.id = o.user",
        "on u.id = o.user and u.age > 20",
        "on u.id = o.user and o.amount > 100",
        "on u.id = o.user and u.name < o.k",
        "on u.id = o.user and u.age between 5 and 9 and o.k is not null",
        "on u.name = o.k",
        "on u.name = o.k and u.id > 60",
        "on u.age = o.id and u.name = o.k",
        "on u.id = o.user + 1",
    ] {
        for rest in [
            "",
            "where u.id is null",
            "where o.id is null",
            "where o.id is null and +u.age = 7",
            "where +u.name > 'name 3'",
            "where o.amount < 50 or o.amount is null",
            "where u.id = 27",
            "where u.late is not null",
            "limit 1510",
            "limit 10 offset 1500",
            "limit 5 offset 1",
        ] {
            for columns in [
                "*",
                "u.late, u.id, o.id",
                "o.amount, u.name, u.late",
                "o.id, 7, u.late, ?1",
                "u.name || '-', length(o.k), coalesce(u.id, o.id), u.late",
            ] {
                let sql = format!("select {columns} from o full join u {on} {rest}");
                let parameters = [Value::text("bound")];
                let bound = if sql.contains('?') { &parameters[..] } else { &[] };
                same(&mut connection, &peer, &sql, bound);
            }
        }
    }
}

#[test]
fn rows_are_grouped_sorted_and_put_into_other_queries() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let mut failures = Vec::new();
    for on in ["u.id = o.user", "u.id = o.user and u.age < 30", "u.name = o.k", "u.id = o.user + 0"]
    {
        for sql in [
            "select count(*), count(u.id), count(o.id), sum(o.amount), max(u.name) from o full join u on {}",
            "select count(*) from o full join u on {} where o.id is null",
            "select u.age, count(*), sum(o.amount), min(o.id) from o full join u on {} group by u.age",
            "select o.k, count(u.id), max(u.age) from o full join u on {} group by o.k having count(*) > 1",
            "select distinct u.age, o.user is null from o full join u on {}",
            "select distinct u.age from o full join u on {} order by 1 limit 5",
            "select u.id, o.id from o full join u on {} order by u.name desc, o.id",
            "select u.id, o.id, u.late from o full join u on {} order by u.age, u.id, o.id limit 30 offset 3",
            "select u.id, row_number() over (order by u.id, o.id) from o full join u on {} order by 2",
            "select u.id, o.id from o full join u on {} union all select id, u from s",
            "select u.id, u.age from o full join u on {} union select id, u from s",
            "select u.id from o full join u on {} except select u from s where u > 200",
            "select id, u from s intersect select u.id, u.id from o full join u on {}",
            "select count(*) from s where u in (select u.id from o full join u on {})",
            "select id, (select count(*) from o full join u on {} and o.id < s.id where u.id = s.u) from s where id < 40",
            "select id, (select u.name from o full join u on {} where u.id > s.u order by u.id limit 1) from s where id < 30",
            "select * from (select u.id as a, o.id as b from o full join u on {}) where a > 50 and b is null",
            "with t as (select u.id as a, o.k from o full join u on {}) select t.a, s.note from s left join t on t.a = s.u",
            "select exists (select 1 from o full join u on {} where o.id is null and u.id = 9000000001)",
        ] {
            let sql = sql.replace("{}", on);
            failures.extend(check(&mut connection, &peer, &sql, &[]).err());
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n\n"));
}

/// Unmatched rows of one join go on to the joins behind, and may find a match there.
#[test]
fn more_than_two_tables() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let mut failures = Vec::new();
    let kinds = ["full", "right", "left", "inner"];
    for first in kinds {
        for second in kinds {
            for (one, two) in [
                ("u on u.id = o.user", "s on s.id = u.id"),
                ("u on u.id = o.user", "s on s.id = o.id"),
                ("u on u.id = o.user and u.age > 3", "s on s.id = coalesce(u.id, o.id)"),
                ("u on u.name = o.k", "s on s.u = u.id"),
                ("s on s.id = o.id", "u on u.id = s.u and o.amount is not null"),
                ("s on s.id = o.id", "w on w.k = o.k"),
                ("w on w.k = o.k", "u on u.name = w.k"),
                ("none on none.id = o.id", "u on u.id = none.a"),
            ] {
                for rest in [
                    "",
                    "where u.id is null",
                    "where o.id is null",
                    "where u.age > 10",
                    "where o.id between 1 and 40",
                    "limit 17 offset 1490",
                ] {
                    if rest.contains("u.") && !one.starts_with('u') && !two.starts_with('u') {
                        continue;
                    }
                    let from = format!("o {first} join {one} {second} join {two}");
                    let count = format!("select count(*), sum(o.id), max(o.k) from {from} {rest}");
                    failures.extend(check(&mut connection, &peer, &count, &[]).err());
                    if !rest.contains("limit") {
                        let sql = format!("select * from {from} {rest}");
                        failures.extend(check(&mut connection, &peer, &sql, &[]).err());
                    }
                }
            }
        }
        for sql in [
            "select * from o {} join u using (id)",
            "select id, k, name from o natural {} join u where id > 100 order by id",
            "select * from s {} join (o left join u on u.id = o.user) on s.id = o.id",
            "select * from (o join u on u.id = o.user) {} join s on s.id = u.age order by 1, 5, 9",
            "select * from o a {} join o b on b.id = a.user {} join o c on c.id = b.user and c.id % 3",
        ] {
            failures.extend(check(&mut connection, &peer, &sql.replace("{}", first), &[]).err());
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n\n"));
}

#[test]
fn plans_tell_how_rows_are_found() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for (sql, lines) in [
        (
            "select * from o full join u on u.id = o.user",
            ["SCAN o", "SEARCH u USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN"].as_slice(),
        ),
        (
            "select * from o full join u on u.name = o.k",
            &["SCAN o", "SEARCH u USING INDEX u_name (name=?) LEFT-JOIN"],
        ),
        (
            "select * from s join o on o.id = s.id right join u on u.id = o.user",
            &[
                "SCAN s",
                "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)",
                "SEARCH u USING INTEGER PRIMARY KEY (rowid=?)",
            ],
        ),
    ] {
        let expect = [lines, &["RIGHT-JOIN u", "SCAN u"]].concat();
        assert_eq!(plan(&mut connection, sql), expect, "{sql}");
        let theirs = theirs_with(&peer, &format!("explain query plan {sql}"), &[]).unwrap();
        let theirs: Vec<&Value> = theirs.rows.iter().map(|row| &row[3]).collect();
        let expect: Vec<Value> = expect.iter().map(|&line| Value::text(line)).collect();
        assert_eq!(theirs, expect.iter().collect::<Vec<_>>(), "{sql}");
    }
    // A table without a rowid is kept by a hash, and rows found by no key in memory.
    for (sql, line) in [
        ("select * from o full join w on w.k = o.k", "SEARCH w USING AUTOMATIC HASH INDEX (k=?)"),
        ("select * from o full join u on u.id > o.user", "SCAN u IN MEMORY"),
    ] {
        let plan = plan(&mut connection, sql);
        assert!(plan.iter().any(|known| known.starts_with(line)), "{sql}: {plan:?}");
    }
}

/// A statement run again begins with no match noted, also after an early end.
#[test]
fn statements_run_again() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select u.late, o.id from o full join u on u.id = o.user and o.id < ?1",
        "select count(u.id), count(o.id) from o full join u on u.id = o.user and o.id < ?1 where o.id is null",
        "select u.late, o.id, o.k || '' from o full join u on u.name = o.k and o.id < ?1",
    ] {
        let mut statement = connection.prepare(sql).unwrap();
        for (bound, rows_max) in [(2000, 7), (10, 5000), (1500, 1600), (0, 5000), (2000, 5000)] {
            statement.bind(1, Value::Int(bound)).unwrap();
            let expect = theirs_with(&peer, sql, &[Value::Int(bound)]).unwrap().rows;
            let mut rows = connection.query(&mut statement).unwrap();
            let mut got: Vec<Vec<Value>> = Vec::new();
            while got.len() < rows_max
                && let Some(row) = rows.next().unwrap()
            {
                got.push(row.values().map(Value::from).collect());
            }
            let differs = got.iter().zip(&expect).position(|(got, expect)| got != expect);
            assert_eq!(differs, None, "{sql} {bound}");
            assert_eq!(got.len(), expect.len().min(rows_max), "{sql} {bound}");
        }
    }
}

/// With little memory they are the same.
#[test]
fn little_memory_is_enough() {
    let scratch = Scratch::new(SCHEMA);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for memory_bytes in [20_000, 200_000] {
        connection.set_limits(Limits { memory_bytes: Some(memory_bytes), ..Limits::default() });
        for sql in [
            "select u.late, o.id from o full join u on u.id = o.user",
            "select u.late, o.id from o full join u on u.name = o.k and u.age > 3 where u.age is not 8",
            "select count(u.id), sum(o.amount) from o full join u on u.id = o.user",
            "select u.late, s.id, s.note from o full join u on u.id = o.user full join s on s.id = u.id where o.id is null",
            "select u.late, o.id from o full join u on u.id = o.user union all select id, u from s",
        ] {
            same(&mut connection, &peer, sql, &[]);
        }
        let sorted = "select u.id, o.id from o full join u on u.id = o.user order by u.id, o.id";
        same(&mut connection, &peer, sorted, &[]);
    }
}

/// Texts copied, texts left on their pages and texts read from several pages, of both sides, with
/// NULLs, reals stored as integers and columns added later.
#[test]
fn long_and_short_values_of_joined_rows() {
    let mut script =
        String::from("begin; create table a(id integer primary key, b int, r real, t text, x);\n");
    script += "create table b(id integer primary key, r real, t, x blob);\n";
    for id in 1..400 {
        let len = [0, 3, 255, 256, 257, 258, 900, 30_000][id % 8];
        let other = [900, 256, 5, 60_000, 257, 0, 255, 31][id % 7 + usize::from(id % 3 == 0)];
        let null = if id % 11 == 0 { "null" } else { "'x'" };
        script += &format!(
            "insert into a values ({id}, {}, {}, printf('%.{len}c', 'a'), {null});\n
             insert into b values ({id}, {}, printf('%.{other}c', 'b'), zeroblob({}));\n",
            id * 7 % 431,
            id % 5,
            id % 3,
            len / 2
        );
    }
    script += "alter table b add column late real default 7; insert into b values (1000, 1, 'n', x'00', 3); commit;";
    let scratch = Scratch::new(&script);
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for kind in ["join", "left join", "full join"] {
        for columns in
            ["*", "a.t, b.t", "b.t, a.r, b.late, a.id, b.id, 5", "a.x, b.x, b.r, a.t, b.rowid"]
        {
            for rest in ["", "where a.r > 2", "limit 100 offset 9", "where length(b.late) > 0"] {
                let sql = format!("select {columns} from a {kind} b on b.id = a.b {rest}");
                same(&mut connection, &peer, &sql, &[]);
            }
        }
    }
}

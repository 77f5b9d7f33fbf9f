//! Plans that go by keys: pages of a list behind a row, keys that few rows have, ranges.

use crate::common::{Scratch, check, ours};
use shoal_sql::{Connection, Forced, ForcedChoice, Value};

fn texts(connection: &mut Connection, sql: &str, column: &str) -> Vec<String> {
    let table = ours(connection, sql).unwrap();
    let place = table.columns.iter().position(|name| name == column).unwrap();
    let text = |value: &Value| match value {
        Value::Text(text) => String::from_utf8(text.clone()).unwrap(),
        other => format!("{other:?}"),
    };
    table.rows.iter().map(|row| text(&row[place])).collect()
}

fn plan(connection: &mut Connection, sql: &str) -> String {
    texts(connection, &format!("explain query plan {sql}"), "detail").join("; ")
}

/// The page of a list behind its last row begins in the index where the page before ended, whether
/// written as a comparison of rows or as its parts.
#[test]
fn pages_of_a_list_begin_behind_their_last_row() {
    let scratch = Scratch::new(
        "create table post(id integer primary key, at text, kind text collate nocase, score real,
            body text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)
         insert into post select i, case i % 11 when 0 then null when 1 then i
             else '2026-0' || (i * 7 % 9) || '-' || (i * 13 % 28) end,
             case i % 5 when 0 then 'A' when 1 then 'a' when 2 then 'b' else 'C' end,
             i * 37 % 101 / 4.0, 'text ' || i from n;
         create index post_at on post(at); create index post_kind on post(kind, id desc);
         create index post_score on post(score desc);",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let seeks = [
        ("(at, id) < ('2026-05-12', 900)", "at desc, id desc", "post_at (at<?)"),
        ("(at, id) > ('2026-05-12', 900)", "at, id", "post_at (at>?)"),
        ("(at, id) >= ('2026-05-12', 900)", "at, id", "post_at (at>?)"),
        ("at < '2026-05-12' or (at = '2026-05-12' and id < 900)", "at desc, id desc", "(at<?)"),
        ("at > '2026-05-12' or (id > 900 and '2026-05-12' = at)", "at, id", "post_at (at>?)"),
        ("(score, id) > (20.5, 70)", "score desc, id", "post_score (score>?)"),
    ];
    for (condition, order, way) in seeks {
        let sql =
            format!("select id, at, body from post where {condition} order by {order} limit 9");
        let plan = plan(&mut connection, &sql);
        assert!(plan.contains("SEARCH") && plan.contains(way), "{sql}\n{plan}");
    }
    // Whatever says nothing of one range, or compares otherwise than the index, is asked of all.
    let scans = [
        "at < '2026-05-12' or (at = '2026-05-13' and id < 900)",
        "at < '2026-05-12' or id < 900",
        "kind < 'b' collate binary or (kind = 'b' collate binary and id < 900)",
    ];
    for condition in scans {
        let sql = format!("select body from post where {condition} order by id limit 9");
        let plan = plan(&mut connection, &sql);
        assert!(plan.contains("SCAN") || plan.contains("MULTI-INDEX OR"), "{sql}\n{plan}");
    }
    let mut failures = Vec::new();
    let choices = ForcedChoice::ALL.iter().copied().map(Some);
    for choice in std::iter::once(None).chain(choices) {
        connection.force(Forced::from_iter(choice));
        let conditions = seeks.iter().map(|(condition, ..)| *condition).chain(scans).chain([
            "(kind, id) < ('B', 900)",
            "(kind, score, id) >= ('a', 3, 20)",
            "(at, id) < (null, 3)",
            "(at, id) <= ('2026-03-3', null)",
            "kind > 'a' or (kind = 'A' and (score > 7 or (score = 7 and id > 4000)))",
            "at < 20 or (at = 20 and id < 30)",
            "score > '7' or (score = 7 and id > 3000)",
        ]);
        for condition in conditions {
            for order in ["at desc, id desc", "kind, id desc", "score desc, id", "id"] {
                let sql =
                    format!("select id, at from post where {condition} order by {order} limit 40");
                failures.extend(check(&mut connection, &peer, &sql, &[]).err());
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// An index is asked for keys absent for most rows around, also where a few rows have nearly all of
/// the entries and the leaf in the index's middle has a single key.
#[test]
fn keys_of_few_rows_are_sought() {
    let scratch = Scratch::new(
        "create table user(id integer primary key, name text);
         create table post(id integer primary key, user_id int, body text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
         insert into user select i, 'user ' || i from n;
         insert into post select id, case when id % 10 < 8 then 1 else id % 500 end,
             printf('%.*c', 60, 'x') from user;
         create index post_user on post(user_id);",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    for sql in [
        "select count(*) from user u where not exists (select 1 from post p where p.user_id = u.id)",
        "select u.name, (select count(*) from post where user_id = u.id) from user u where id > 15000",
    ] {
        let plan = plan(&mut connection, sql);
        assert!(plan.contains("INDEX post_user (user_id=?)"), "{sql}\n{plan}");
        check(&mut connection, &peer, sql, &[]).unwrap();
    }
}

/// A range of an index with few pages below its root is counted by the pages further below.
#[test]
fn ranges_are_counted_below_a_small_root() {
    let scratch = Scratch::new(
        "create table c(id text primary key, post int, body text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 120000)
         insert into c select printf('%08x', i * 2654435761 % 4294967296), i * 7919 % 60000,
             'a comment of some length ' || i from n;
         create index c_post on c(post);",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sql = "select id from c where post < 600";
    let found = plan(&mut connection, sql);
    assert!(found.contains("SEARCH c USING INDEX c_post (post<?)"), "{found}");
    check(&mut connection, &peer, "select count(*), max(body) from c where post < 600", &[])
        .unwrap();
    for (range, rows) in [
        ("post < 600", 1200.0),
        ("post < 6000", 12_000.0),
        ("post between 20000 and 22000", 4000.0),
        ("post > 57000", 6000.0),
        ("id < '08000000'", 3750.0),
    ] {
        let sql = format!(
            "explain select id from c indexed by {} where {range}",
            match range {
                range if range.starts_with("id") => "sqlite_autoindex_c_1",
                _ => "c_post",
            }
        );
        let estimates = texts(&mut connection, &sql, "estimated_rows");
        let estimate: f64 = estimates
            .iter()
            .find_map(|it| it.strip_prefix("Int(")?.strip_suffix(')')?.parse().ok())
            .unwrap();
        let ratio = estimate / rows;
        assert!((1.0 / 3.0..3.0).contains(&ratio), "{range}: {estimate} expected, {rows} found");
    }
}

/// An index that ends in the rowid finds one row by both.
#[test]
fn an_index_and_the_rowid_find_one_row() {
    let scratch = Scratch::new(
        "create table p(id integer primary key, user int, body text);
         create table c(id integer primary key, post int, user int);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
         insert into p select i, i % 40, 'text' from n;
         insert into c select id, id * 7 % 3000, id % 40 from p;
         create index p_user on p(user);",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sql =
        "select count(*) from c join p indexed by p_user on p.id = c.post and p.user = c.user";
    let found = plan(&mut connection, sql);
    assert!(found.contains("p_user (user=? AND rowid=?)"), "{found}");
    check(&mut connection, &peer, sql, &[]).unwrap();
}

/// Rows named in ascending order, as by the key of a table without rowid, are looked up one near
/// the other: that table is read first.
#[test]
fn rows_named_in_order_are_looked_up() {
    let scratch = Scratch::new(
        "create table post(id integer primary key, deleted text, body text);
         create table vote(post int, user int, kind int, primary key (post, user)) without rowid;
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
         insert into post select i, case when i % 20 = 0 then 'x' end, printf('%.*c', 300, 'y')
             from n;
         insert into vote select id * id % 4000, id, 1 from post;",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sql = "select count(*), sum(v.kind) from vote v join post p on p.id = v.post
        where p.deleted is null";
    let found = plan(&mut connection, sql);
    assert_eq!(found, "SCAN v; SEARCH p USING INTEGER PRIMARY KEY (rowid=?)");
    check(&mut connection, &peer, sql, &[]).unwrap();
}

/// A step of a recursion runs for each row: without an index its table is kept in memory once.
#[test]
fn steps_of_a_recursion_keep_their_tables() {
    let scratch = Scratch::new(
        "create table person(id integer primary key, manager int, dept int, name text);
         create table dept(id int, name text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 4000)
         insert into person select i, case when i > 1 then i / 3 + 1 - (i / 3 + 1 = i) end, i % 7,
             'p' || i from n;
         insert into dept select distinct dept, 'd' || dept from person;",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let steps = "with recursive o(id, d) as (select id, 0 from person where manager is null
        union all select p.id, o.d + 1 from o join person p on p.manager = o.id where o.d < 30)";
    for (sql, tables) in [
        (format!("{steps} select d, count(*) from o group by d"), 1),
        (
            "with recursive o(id, d, dept) as (select id, 0, '' from person where manager is null
             union select p.id, o.d + 1, x.name from o join person p on p.manager = o.id
             join dept x on x.id = p.dept where o.d < 30) select dept, max(d), count(*) from o
             group by dept order by dept"
                .to_owned(),
            2,
        ),
    ] {
        let plan = plan(&mut connection, &sql);
        assert_eq!(plan.matches("AUTOMATIC HASH INDEX").count(), tables, "{sql}\n{plan}");
        check(&mut connection, &peer, &sql, &[]).unwrap();
    }
}

/// Between two values made of a row around lie few rows: an index is asked for them.
#[test]
fn a_window_around_a_row_is_sought() {
    let scratch = Scratch::new(
        "create table log(id integer primary key, at text, level text, message text);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
         insert into log select i, strftime('%Y-%m-%dT%H:%M:%S', 1700000000 + i * 3, 'unixepoch'),
             case when i % 31 = 0 then 'ERROR' when i % 17 = 0 then 'WARN' else 'INFO' end,
             'message ' || i from n;
         create index log_at on log(at);",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    let sql = "select count(*) from log w where w.level = 'WARN' and exists (select 1 from log e
        where e.at > w.at and e.at < strftime('%Y-%m-%dT%H:%M:%S', w.at, '+10 seconds')
        and e.level = 'ERROR')";
    let found = plan(&mut connection, sql);
    assert!(found.contains("USING INDEX log_at (at>? AND at<?)"), "{found}");
    check(&mut connection, &peer, sql, &[]).unwrap();
}

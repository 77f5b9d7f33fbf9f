//! Joins of every kind, compared with SQLite.

use crate::common::{self, Scratch, check_all};

const ROWS: &str = r#"
create table a(id int, x text, p int);
create table b(id int, y text, p int);
create table c(id integer primary key, z text, p int);
create table w(k text primary key, id int, z text) without rowid;
create table g(id integer primary key, v int, d int generated always as (coalesce(v, 0) + 1));
create table e(id int, q int);
create view va as select id, coalesce(x, 'none') as x from a where id is not 3;
insert into a values (1,'a1',10),(2,'a2',20),(2,'a2b',21),(null,'an',null),(5,'a5',50);
insert into b values (2,'b2',20),(3,'b3',30),(null,'bn',null),(5,'b5',51),(5,'b5b',50);
insert into c values (1,'c1',10),(2,'c2',null),(3,'c3',30),(9,'c9',90);
insert into w values ('k1',1,'w1'),('k2',2,'w2'),('k5',5,'w5'),('k8',8,null);
insert into g values (1,null,default),(2,5,default) on conflict do nothing;
create index b_id on b(id);
"#;

#[test]
fn outer_joins() {
    let rows = ROWS.replace("(1,null,default),(2,5,default) on conflict do nothing", "");
    let rows = rows.replace(
        "insert into g values ;",
        "insert into g(id, v) values (1, null), (2, 5), (7, 1);",
    );
    let scratch = Scratch::new(&rows);
    let mut queries = String::new();
    for kind in ["left", "right", "full", "inner"] {
        for on in [
            "on a.id = b.id",
            "using (id)",
            "on a.id = b.id and a.p = b.p",
            "on a.id = b.id and b.p > 20",
            "on a.id = b.id and a.p > 20",
            "on a.p < b.p",
            "on 0",
            "on 1",
            "on null",
            "on a.id is b.id",
            "using (id, p)",
            "on a.id = b.id and a.x like '%2'",
        ] {
            for filter in [
                "",
                "where a.id is null",
                "where b.id is not null",
                "where a.p > 15 or b.p > 15",
                "where b.id = 5",
                "where a.id = 2",
                "where coalesce(a.x, 'n') = 'n'",
            ] {
                queries += &format!("select * from a {kind} join b {on} {filter};\n");
                queries += &format!(
                    "select count(*), a.x from a {kind} join b {on} {filter} group by a.x;\n"
                );
            }
        }
        for second in ["left", "right", "full", "inner"] {
            for on in [
                "on a.id = c.id",
                "on b.id = c.id",
                "using (id)",
                "on b.id = c.id and a.id is not null",
                "on c.id > 2",
            ] {
                for filter in [
                    "",
                    "where a.id is null",
                    "where c.id = 3",
                    "where b.y is null and c.z is not null",
                ] {
                    queries += &format!(
                        "select * from a {kind} join b using (id) {second} join c {on} {filter};\n"
                    );
                    queries += &format!(
                        "select a.x, b.y, c.z from a {kind} join b on a.id = b.id {second} join c {} {filter};\n",
                        on.replace("using (id)", "on c.id = a.id")
                    );
                }
            }
        }
        queries += &format!(
            "select * from a natural {kind} join b; select * from a natural {kind} join c; select id from a {kind} join b using (id) order by id;"
        );
        queries += &format!(
            "select id, a.id, b.id from a {kind} join b using (id) order by 1, 2, 3; select max(id), min(id) from a {kind} join b using (id); select id + 1 from a {kind} join b using (id) where id > 2;"
        );
        queries += &format!(
            "select * from va {kind} join b using (id); select * from b {kind} join va using (id); select va.x from b {kind} join va on b.id = va.id where va.x is null;"
        );
        queries += &format!(
            "select * from a {kind} join (b join c on b.id = c.id) on a.id = b.id; select * from (a join b using (id)) {kind} join c using (id); select * from c {kind} join (a left join b using (id)) using (id);"
        );
        queries += &format!(
            "select * from (a {kind} join b using (id)) join c using (id); select * from c join (a {kind} join b using (id)) using (id); select * from c left join (a {kind} join b using (id)) using (id);"
        );
        queries += &format!(
            "select * from a {kind} join w using (id); select * from w {kind} join a using (id); select w.z, a.x from w {kind} join a on w.k = 'k' || a.id;"
        );
        queries += &format!(
            "select * from g {kind} join a using (id); select d from a {kind} join g using (id); select g.d, a.id from g {kind} join a on g.id = a.id where d is null;"
        );
        queries += &format!(
            "select * from e {kind} join a using (id); select * from a {kind} join e using (id); select * from e {kind} join e f using (id);"
        );
        queries += &format!(
            "select * from a {kind} join (select id, count(*) n from b group by id) s using (id); select * from (select id, count(*) n from b group by id) s {kind} join a using (id);"
        );
        queries += &format!(
            "select * from (select * from a order by id limit 2) s {kind} join b on s.id = b.id; select (select count(*) from a {kind} join b on a.id = b.id and b.id = c.id) from c order by id;"
        );
        queries += &format!(
            "select c.id, (select group_concat(y) from a {kind} join b on a.id = b.id where a.id is c.id) from c; select * from c where exists (select 1 from a {kind} join b on a.id = b.id where b.id = c.id);"
        );
        queries += &format!(
            "select * from a join c on a.id = c.id {kind} join b on b.id = a.id; select * from a, c {kind} join b on b.id = c.id; select * from a, c {kind} join b on b.id = a.id where c.id = 1; select * from a {kind} join b on a.id = b.id, c where c.id = 2;"
        );
        queries += &format!(
            "select * from a {kind} join b on a.id = b.id join c on c.id = b.id; select * from a {kind} join b on a.id = b.id join c on c.id = a.id or c.id = b.id where a.x is not null;"
        );
        queries += &format!(
            "select distinct a.id from a {kind} join b using (id) order by a.id; select * from a {kind} join b using (id) order by id limit 2; select * from c {kind} join a on c.id = a.id order by c.id; select * from a {kind} join b using (id) order by id desc, y limit 3 offset 1;"
        );
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

#[test]
fn what_cannot_be_joined() {
    let scratch = Scratch::new(&ROWS.replace(
        "insert into g values (1,null,default),(2,5,default) on conflict do nothing;",
        "",
    ));
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select * from a join b using (x); select * from a join b using (nosuch); select * from a natural join b using (id); select * from a natural join b on 1; select id from a join b; select * from a right join b on c.id = 1 join c;
         select * from a join b on 1 join c using (id); select * from a left join b using (id) join c using (id); select * from a outer join b; select * from a left inner join b; select a.* from a full join b using (id); select b.* from a full join b using (id);",
    );
}

/// Two tables of one name are told apart only where a join makes their columns one.
#[test]
fn namesakes() {
    let scratch = Scratch::new(ROWS.split("insert into g").next().unwrap());
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select * from a join a; select a.* from a join a; select * from a, a;
         select * from a natural join a; select a.* from a natural join a;
         select x.* from a x natural join a x; select * from a join a using (id);
         select a.id from a natural join a; select id, x from a natural join a;
         select a.x from a join a using (id); select a.id from a join a using (id);
         select * from a left join a using (id, x, p);
         select * from a natural join a natural join a;",
    );
}

/// A query with a right join is merged into the query around only where no table stands before: the
/// unmatched rows it keeps are of its own tables.
#[test]
fn right_joins_within_queries_stay_their_own() {
    let scratch = Scratch::new(
        "create table t(a, b); create table u(a, b); create table none(a, b);
         insert into t values (1, 2), (2, 3); insert into u values (2, 1), (9, 9);
         create view f as select t.a, u.b from t full join u on t.b = u.a;
         create view r as select t.a, u.b from t right join u on t.b = u.a;",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select * from none, f; select * from f, none; select * from none cross join r;
         select * from t x, f; select * from f, t x; select * from t x join r on x.a = r.a;
         select * from none left join f on 1; select * from f left join none on 1;
         select * from none, (select u.a from t right join u on t.b = u.a) s;
         select * from t x, none, f; select * from (select * from f where b > 0) s, t;
         select * from t x, (select * from f where a is null) s;",
    );
}

/// A virtual column is computed from its own row, even where a join merged the row's columns.
#[test]
fn virtual_columns_under_using() {
    let scratch = Scratch::new(
        "create table t(a, b, g as (b || '-' || a)); create table u(a, b, g as (a + b));
         insert into t values (1, 2), (3, 4), (5, null); insert into u values (1, 2), (7, 4), (null, 4);",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select t.g, u.g from t join u using (b); select t.g, u.g from t full join u using (b, a);
         select t.g, u.g, b from t right join u using (b); select t.g, u.g from t left join u using (a);
         select * from t full join u using (a); select t.g, x.g, u.g from t join u using (b) left join t x using (a);
         select rank() over (order by u.g), count(*) over (partition by t.g) from t full join u using (b);",
    );
}

/// A function's argument may be a column of a table to its right; the table is then read first.
#[test]
fn arguments_from_the_right() {
    let scratch = Scratch::new(
        "create table t(a, b, j); insert into t values (1, 'x', '[1,2]'), (2, 'y', '[3]'), (3, 'z', null);
         create table u(j, k); insert into u values ('[7]', 1), ('[8]', 2);",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select e.value, t.a from json_each(t.j) e, t; select * from json_each(j) e, t;
         select e.value from json_each(t.j) e join t on e.value = t.a;
         select e.value, k from json_each(t.j) e join u on 1 join t on t.a = u.k;
         select e.value from json_each(t.j, '$[' || (t.a - 1) || ']') e, u, t;
         select e.value, x.value from json_each(t.j) e, t, json_each(u.j) x, u;
         select e.value from json_each(u.j) e, t left join u on u.k = t.a;
         select e.value from json_each(t.j) e left join t on 1;
         select e.value from json_each(t.j) e right join t on 1;
         select e.value from json_each(nosuch.j) e join t on 1;
         select (select count(*) from json_each(x.j) e, u x where x.k = t.a) from t;
         select * from (select e.value as v from json_each(t.j) e, t) where v > 1;
         select 1 in json_each(nosuch);",
    );
}

/// The value behind a merged column's name alone: the left one's, after a `RIGHT JOIN` the right
/// one's, after a `FULL JOIN` the first other than NULL, compared by the first one's rules.
#[test]
fn names_of_merged_columns() {
    let scratch = Scratch::new(
        "create table p(x integer primary key, b text collate nocase, c int);
         insert into p values (1, 'a', 1), (2, 'B', 2), (3, null, 3);
         create table q(x text, b text, c); insert into q values ('1', 'A', '1'), ('2', 'b', 2), ('9', 'z', null);
         create table r(x, b, d); insert into r values (1, 'A', 1), ('2', 'b', 2), (9, 'z', 3), (10, 'y', 4);",
    );
    let mut queries = String::new();
    for first in ["left", "right", "full", "inner"] {
        for filter in ["x = 1", "x = '1'", "b = 'A'", "b in ('a', 1)", "typeof(x) = 'text'", "1"] {
            queries += &format!(
                "select x, typeof(x), b from p {first} join q using (x, b) where {filter};
                 select x, typeof(x), b from q natural {first} join p where {filter};
                 select b, count(*) from p {first} join q using (b) group by b having max(p.x) is not {filter};"
            );
        }
        for second in ["left", "right", "full", "inner"] {
            queries += &format!(
                "select b, p.b, q.b, r.b from p {first} join q using (b) {second} join r using (b);
                 select * from p natural {first} join q natural {second} join r;
                 select x, b from p {first} join (q {second} join r using (x, b)) using (x, b);
                 select x from r {first} join p using (x) {second} join q using (x) where x = 2;"
            );
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

/// A right join of two tables is a left join the other way round, by a key where the left table has
/// one.
#[test]
fn right_joins_find_rows_by_keys() {
    let scratch = Scratch::new(
        ROWS.replace(" on conflict do nothing", "")
            .replace("(1,null,default),(2,5,default)", "(1,null),(2,5)")
            .replace("into g values", "into g(id, v) values")
            .as_str(),
    );
    let mut connection = scratch.ours();
    for (sql, way) in [
        (
            "select * from c right join a on c.id = a.id",
            "SEARCH c USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
        ),
        ("select * from b right join a using (id)", "SEARCH b USING INDEX b_id (id=?) LEFT-JOIN"),
        ("select * from w right join a on w.k = a.x", "SEARCH w USING PRIMARY KEY (k=?) LEFT-JOIN"),
    ] {
        let plan = common::ours(&mut connection, &format!("explain query plan {sql}")).unwrap();
        let details: Vec<String> = plan.rows.iter().map(|row| format!("{:?}", row[3])).collect();
        let wanted = format!("{:?}", shoal_sql::Value::text(way));
        assert_eq!(details.last(), Some(&wanted), "{sql}: {:?}", plan.rows);
        common::check(&mut connection, &scratch.theirs(), sql, &[]).unwrap();
    }
}

/// Text beside numbers: two numbers are compared as numbers, whatever the affinity of the column
/// giving them in a query or a merged join.
#[test]
fn numbers_under_text_are_numbers() {
    let scratch = Scratch::new(
        "create table p(k text, n int); insert into p values ('1', 1), ('1.0', 2), (x'31', 3), ('a', 4), (null, 5);
         create table q(k, n int); insert into q values (1, 1), (1.0, 2), ('1', 3), ('1.0', 4), (x'31', 5), ('A', 6),
             (1.5, 7), ('1.5', 8), (null, 9), (9007199254740993, 10), (9007199254740992.0, 11);
         create table r(k real, n int); insert into r values (1, 1), (1.5, 2), ('a', 3), (9007199254740992, 4);
         create view v as select k, n from p union all select k, n from q;
         create view w as select k, max(n) as n from v group by k, typeof(k);",
    );
    let mut queries = String::new();
    for join in ["join", "left join", "right join", "full join"] {
        for (left, right) in
            [("v", "q"), ("w", "q"), ("v", "w"), ("p", "q"), ("v", "(select 1.0 as k, 1 as n)")]
        {
            queries += &format!(
                "select x.k, x.n, y.k, y.n from {left} x {join} {right} y on x.k = y.k;
                 select x.k, x.n, y.k, y.n from {right} x {join} {left} y on x.k = +y.k collate nocase;
                 select k, x.n, y.n, z.n from p x full join r y using (k) {join} {right} z using (k);"
            );
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

#[test]
fn rows_of_one_key_longer_than_a_batch_are_all_given() {
    let rows = "create table a(id integer primary key, x); create table b(aid int, t blob); \
        create index bi on b(aid); insert into a values (1, 2), (2, 3), (3, 4); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 60) \
        insert into b select 1 + i % 3, zeroblob(90000 + i) from n;";
    let scratch = Scratch::new(rows);
    let mut queries = String::new();
    for order in ["", " order by a.id desc", " order by a.id, b.aid desc"] {
        for index in ["", " indexed by bi", " not indexed"] {
            queries += &format!(
                "select a.id, b.t from a cross join b{index} on b.aid = a.id{order};\n\
                 select a.id, length(b.t) from a left join b{index} on b.aid = a.id{order};\n"
            );
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

/// Entries of an index leave their rowids to conditions, and to the set of rows with a match.
#[test]
fn rowids_of_entries_are_those_of_their_rows() {
    let rows = "create table a(id integer primary key, x int); \
        create table b(aid int, t int); create index bi on b(aid); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) \
        insert into b select i % 300, i from n; \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) \
        insert into a select i, i from n;";
    let scratch = Scratch::new(rows);
    let mut queries = String::new();
    for join in ["join", "left join", "full join", "right join"] {
        for filter in [
            "",
            "where b.rowid > a.x or b.rowid is null",
            "where b.rowid % 3 = 1",
            "where b.rowid > 700 and b.rowid <= 1500",
        ] {
            for more in ["", "and b.rowid > a.x", "and b.rowid > a.x * 3 and b.rowid < 1200"] {
                queries += &format!(
                    "select count(*), sum(a.x), sum(b.t), sum(b.rowid) from a {join} b \
                     on b.aid = a.id {more} {filter};\n"
                );
            }
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries.repeat(2));
}

/// Inner loops end once no more rows are wanted, and so do several tables joined with a row of a
/// function.
#[test]
fn a_limit_ends_the_loops_within() {
    let rows = "create table a(id integer primary key, x int); \
        insert into a values (1, 1), (2, 2), (3, 3); \
        create table b(id integer primary key, v int, t text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) \
        insert into b select i, i % 100, 'some text ' || i from n; create index bv on b(v);";
    let scratch = Scratch::new(rows);
    let mut queries = String::new();
    for from in [
        "a cross join b cross join b b2 where a.id = 1",
        "json_each('[1]') j cross join a cross join b cross join b b2 where a.id = j.value",
        "a cross join b b2 cross join b where a.id = 1 and +b.v > 3 and +b2.v >= 0",
        "a cross join b on b.v = a.x cross join b b2 where a.id = 2",
    ] {
        queries += &format!(
            "select b.t from {from} limit 3;\nselect b.t from {from} limit 300 offset 40;\n\
             select exists(select 1 from {from});\n\
             select exists(select 1 from {from} and b.v + b2.v + a1.id > 0) from a a1;\n"
        );
    }
    // Many rows of one row of the outermost loop, and a few of the next one.
    for from in [
        "a cross join b on b.v > a.x * 20",
        "a cross join b on b.v > a.x * 20 where a.id = 2",
        "a cross join b on b.v = a.x cross join b b2 on b2.v = b.v and b2.id % 7 = b.id % 7",
        "b b2 cross join b on b.v = b2.v and b.id > 9000 where b2.id in (2, 900, 7)",
        "b b2 cross join b on b.v = b2.v and b.id > 9000 where b2.v = 3 and b2.id < 900",
        "a left join b on b.v = a.x * 4 and b.id > a.id",
    ] {
        let other = if from.contains("b2") { "b2.id" } else { "b.v" };
        queries += &format!("select b.id, b.t, {other} from {from};\n");
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

//! Common tables, recursive or not, and functions in a `FROM`, compared with SQLite.

use crate::common::{self, Scratch, check_all};

#[test]
fn common_tables() {
    let scratch = Scratch::new(
        "create table tree(id integer primary key, parent int, name text);
         insert into tree values (1,null,'root'),(2,1,'a'),(3,1,'b'),(4,2,'aa'),(5,2,'ab'),(6,4,'aaa'),(7,3,'ba');
         create table edge(a, b); insert into edge values (1,2),(2,3),(3,1),(3,4),(4,4);
         create view v as with recursive c(x) as (values (1) union all select x + 1 from c where x < 3) select x from c;",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
with recursive n(x) as (values (1) union all select x + 1 from n where x < 10) select * from n;
with recursive n(x) as (select 1 union all select x + 1 from n limit 5) select x from n;
with recursive n(x) as (select 1 union all select x + 1 from n limit 5 offset 3) select x from n;
with n(x) as (values (1) union select x % 4 + 1 from n) select * from n order by x;
with recursive t(id, depth) as (select id, 0 from tree where parent is null union all select tree.id, depth + 1 from tree join t on tree.parent = t.id) select * from t;
with recursive t(id, depth) as (select id, 0 from tree where parent is null union all select tree.id, depth + 1 from tree join t on tree.parent = t.id order by 2 desc) select id from t order by rowid;
with recursive t(id, depth) as (select id, 0 from tree where parent is null union all select tree.id, depth + 1 from tree join t on tree.parent = t.id order by depth desc) select id, depth from t limit 4;
with recursive t(id, path) as (select id, name from tree where parent is null union all select tree.id, path || '/' || name from t, tree where tree.parent = t.id order by 2) select group_concat(path, ' ') from t;
with recursive r(x) as (values (1) union select b from edge, r where a = x) select * from r order by x;
with recursive fib(a, b) as (values (0, 1) union all select b, a + b from fib limit 20) select a from fib;
with recursive a(x) as (select 1 union all select x + 1 from a where x < 3), b(y) as (select x from a union all select y + 10 from b where y < 20) select * from b order by y;
with recursive c(x) as (select 1 union all select 2 union all select x + 2 from c where x < 6) select x from c;
with recursive c(x) as (select 1 union select 1 union all select x + 1 from c where x < 3 union all select x + 5 from c where x < 2) select x from c;
select * from v; select count(*) from v a join v b on a.x = b.x; select (with recursive c(x) as (values (1) union all select x + 1 from c where x < tree.id) select sum(x) from c) from tree order by id;
with a as (select 1 as x), b as (select x + 1 as y from a) select * from a, b; with b as (select y from a), a(y) as (values (7)) select * from b; with a(x, y) as materialized (values (1, 2)) select y from a; with a(x) as not materialized (select 3) select * from a p join a q;
with a as (select 1 x) select * from (with a as (select 2 x) select * from a) union all select * from a; with a(x) as (select 1) select (with b(y) as (select x from a) select y from b); with tree as (select 5 as id) select id from tree; with tree as (select id from main.tree where id < 3) select * from tree;
with recursive mandelbrot(x, n) as (values (0.0, 0) union all select x * x + 0.25, n + 1 from mandelbrot where n < 8) select n, x from mandelbrot;
with recursive c(x) as (values (1) union all select x + 1 from c where x < 5) select x, (select count(*) from c d where d.x < c.x) from c;
with recursive c(x, y) as (values (1, 'a') union all select x + 1, y || x from c where x < 4) select * from c where y like '%2%';
with a(x) as (select 1), a(y) as (select 2) select * from a; with a(x, y) as (select 1) select * from a; with a as (select * from a) select * from a; with a as (select * from b), b as (select * from a) select * from a;
with c(x) as (values (1) union all select count(*) from c) select * from c; with c(x) as (values (1) union all select x from (select * from c)) select * from c limit 3; with c(x) as (values (1) union all select a.x from c a, c b) select * from c limit 3;
with c(x) as (select x + 1 from c union all select 1) select * from c limit 3; with c(x) as (values (1) except select x from c) select * from c; with c(x) as (values (1) union all select x, 2 from c) select * from c; with c(x) as (values (1) union all select row_number() over () from c) select * from c limit 3;
"#,
    );
}

#[test]
fn table_functions() {
    let scratch = Scratch::new(
        r#"create table doc(id integer primary key, j text); insert into doc values (1,'{"a":[1,2,{"b":null}],"c d":"x\ny","e":{}}'),(2,'[10,"t",true,1.5]'),(3,'5'),(4,null),(5,'[]');
           create table p(x int references q(a) on delete cascade, y text default 'z', primary key (y)); create table q(a int, b as (a + 1), unique (a)); create index q_a on q(a desc);"#,
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
select * from json_each('[1,"a",null,{"x":2}]'); select key, value, type, atom, id, parent, fullkey, path, json, root from json_tree('{"a":[1,{"b c":2}],"d":"e"}');
select * from json_each('{"a":{"b":[3,4]}}', '$.a.b'); select * from json_tree('{"a":{"b":[3,4]}}', '$.a'); select * from json_tree('{"a":{"b":[3,4]}}', '$.a.b[1]'); select * from json_each('{"a":5}', '$.a'); select * from json_each('{"a":5}', '$.z'); select * from json_each('7');
select doc.id, e.key, e.value from doc, json_each(doc.j) e order by 1, 2; select doc.id, e.fullkey, e.type from doc left join json_tree(doc.j) e on e.type = 'integer' order by 1, 2; select id, (select count(*) from json_each(j)) from doc; select id from doc where 10 in (select value from json_each(j));
select * from json_each where json = '[1,2]'; select count(*) from json_each; select * from json_each(null); select e.* from doc d join json_each(d.j) as e where d.id = 2 and e.key > 1; select j.value, k.value from json_each('[[1,2],[3]]') j, json_each(j.value) k;
select value from json_each('[3,1,2]') order by value; select sum(value) from json_each('[3,1,2]'); select json_each.value from json_each('[1]'); select * from json_each('[1]', '$', 2); select * from json_each('[1'); select * from json_each('[1]', 'x'); select json from json_each('[1]');
select * from pragma_table_info('p'); select name, pk from pragma_table_info('p') order by pk desc; select m.name, t.name, t.type from sqlite_schema m, pragma_table_info(m.name) t where m.type = 'table' order by 1, t.cid; select * from pragma_table_xinfo('q'); select * from pragma_index_list('q'); select * from pragma_index_info('q_a'); select * from pragma_index_xinfo('q_a');
select * from pragma_foreign_key_list('p'); pragma foreign_key_list(p); select * from pragma_user_version; select encoding from pragma_encoding; select * from pragma_collation_list; select name from pragma_table_list where schema = 'main' order by name; select * from pragma_table_info where arg = 'q'; select name from pragma_function_list where name = 'abs'; pragma nosuch; pragma nosuch(3);
select * from nosuch(1); select * from doc(1); select value from json_each('[1,2]') where value in json_each('[2,3]'); select 1 in json_each('[1]');
"#,
    );
    let mut ours = scratch.ours();
    for (sql, expect) in [
        ("select group_concat(value) from generate_series(1, 10, 3)", "1,4,7,10"),
        ("select group_concat(value) from generate_series(5, 1, -2)", "5,3,1"),
        ("select count(*) from generate_series(3, 1)", "0"),
        ("select group_concat(value) from generate_series(1, 3) where value > 1", "2,3"),
        (
            "select group_concat(s.value || t.value) from generate_series(1, 2) s, generate_series(s.value, 2) t",
            "11,12,22",
        ),
        ("select group_concat(value) from generate_series where start = 2 and stop = 4", "2,3,4"),
        (
            "select sum(value) from generate_series(9223372036854775806, 9223372036854775807) limit 1",
            "error",
        ),
    ] {
        let got = common::ours(&mut ours, sql);
        let text = got.map_or("error".to_owned(), |table| match table.rows[0][0].as_ref() {
            shoal_sql::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            shoal_sql::ValueRef::Int(int) => int.to_string(),
            other => format!("{other:?}"),
        });
        assert_eq!(text, expect, "{sql}");
    }
}

/// A common table over `random()`, named twice, shows if its rows are made once.
#[test]
fn common_tables_that_are_made_once() {
    let scratch = Scratch::new(
        "create table t(a, b); insert into t values (1, 'x'), (2, 'y'), (3, 'z');
         create table u(c, d); insert into u values (1, 'p'), (2, 'q');",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "with c as (select random() as r) select x.r = y.r from c x, c y;
         with c as materialized (select random() as r) select x.r = y.r from c x, c y;
         with c as (select random() as r) select (select r from c) = (select r from c);
         with c as (select random() as r) select r in (select r from c) from c;
         with c as (select random() as r), d as (select r from c) select x.r = y.r from d x, d y;
         with c as (select random() as r), d as (select r from c) select d.r = c.r from c, d;
         with c as (select random() as r) select count(distinct (select r + a * 0 from c)) from t;
         with c as materialized (select random() as r)
         select count(distinct (select r + a * 0 from c)) from t;
         with c as (select random() as r)
         select count(distinct (select r + a * 0 from c)), count(distinct (select r from c)) from t;
         with c as (select a, random() as r from t) select count(*) from c x, c y where x.r = y.r;
         with c as materialized (select a, random() as r from t)
         select count(distinct r) from (select r from c union all select r from c);
         with c as materialized (select a, random() as r from t) select count(*) from c where r = r;
         with c as materialized (select a, random() as r from t)
         select count(*) from c x left join c y on x.a = y.a where x.r = y.r;
         with c as materialized (select t.a, random() as r from t)
         select count(*) from c where exists (select 1 from c d where d.r = c.r);
         with c as (select a, random() as r from t limit 2)
         select count(distinct r) from (select r from c union all select r from c);
         with c as not materialized (select a, random() as r from t limit 2)
         select count(distinct r) from (select r from c union all select r from c);
         with c as (select a, random() as r from t order by a)
         select count(distinct r) from (select r from c union all select r from c);
         with c as (select distinct a, random() as r from t)
         select count(distinct r) from (select r from c union all select r from c);
         with c as (select max(a), random() as r from t) select count(*) from c x join c y using (r);
         with c as (values (random()), (random()))
         select count(*) from c x, c y where x.column1 = y.column1;
         with c as (select a, random() as r from t union all select c, random() from u)
         select count(*) from c x, c y where x.r = y.r;
         with c as (select row_number() over () as n, random() as r from t)
         select count(*) from c x, c y where x.r = y.r and x.n <> 2;
         with recursive c(x, r) as (select 1, random() union all select x + 1, random() from c where x < 3)
         select count(*) from c x join c y using (x) where x.r = y.r;
         with recursive r(x) as (select 1 union all select x + 1 from (with c as materialized
         (select random() as q) select x.q = y.q as same, r.x from c x, c y, r) where x < 3 and same)
         select * from r;
         with d as (with c as materialized (select random() as r) select x.r = y.r from c x, c y)
         select * from d, d;",
    );
}

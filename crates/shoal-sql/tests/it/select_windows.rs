//! Window functions, compared with SQLite.

use crate::common::{Scratch, check_all};

const ROWS: &str = r#"
create table t(id integer primary key, g text, v int, r real, s text collate nocase, n);
insert into t values (1,'a',3,1.5,'x',null),(2,'a',3,0.1,'X',1),(3,'b',1,0.2,'y',2.5),(4,'a',null,0.3,'z','q'),
  (5,'b',7,1e10,'Y',x'00'),(6,'c',2,-1.5,null,3),(7,'a',5,0.7,'w',3),(8,'b',1,0.1,'v',2),(9,null,4,null,'u',null),(10,'c',2,2.5,'x',1.5);
create table e(x, y);
create table one(x);
insert into one values (5);
"#;

#[test]
fn every_function_and_frame() {
    let scratch = Scratch::new(ROWS);
    let mut queries = String::new();
    let functions = [
        "row_number()",
        "rank()",
        "dense_rank()",
        "percent_rank()",
        "cume_dist()",
        "ntile(3)",
        "ntile(100)",
        "lag(v)",
        "lag(v, 2)",
        "lag(v, 1, 'none')",
        "lead(s)",
        "lead(v, id % 3, -1)",
        "lag(v, -1)",
        "lead(v, null)",
        "lead(v, 1.5, 9)",
        "lead(v,'1')",
        "first_value(v)",
        "last_value(v)",
        "nth_value(v, 2)",
        "nth_value(id, 1.0)",
        "count(*)",
        "count(v)",
        "sum(v)",
        "total(v)",
        "avg(v)",
        "sum(r)",
        "min(v)",
        "max(v)",
        "min(s)",
        "max(s)",
        "max(n)",
        "group_concat(v)",
        "group_concat(id, s)",
        "sum(v) filter (where id % 2)",
        "min(v) filter (where g = 'a')",
        "string_agg(id, '-')",
        "sum(n)",
    ];
    let windows = [
        "()",
        "(order by id)",
        "(order by v)",
        "(partition by g)",
        "(partition by g order by v desc)",
        "(order by v, id)",
        "(partition by g order by v nulls last, id)",
        "(order by s)",
        "(partition by s order by id)",
        "(order by id rows between 1 preceding and 1 following)",
        "(order by id rows between 2 preceding and 1 preceding)",
        "(order by id rows between 1 following and 3 following)",
        "(order by id rows 2 preceding)",
        "(order by v rows between unbounded preceding and unbounded following)",
        "(order by id rows between current row and unbounded following)",
        "(order by v range between 1 preceding and 2 following)",
        "(order by v desc range between 1 preceding and 2 following)",
        "(order by v range between current row and 1 following)",
        "(order by n range between 1 preceding and 1 following)",
        "(order by v nulls last range between 2 preceding and 1 preceding)",
        "(order by r range between 0.5 preceding and 0.5 following)",
        "(order by v range between unbounded preceding and 1 following)",
        "(order by v range between 1 following and unbounded following)",
        "(order by v groups between 1 preceding and 1 following)",
        "(order by v groups between 1 following and 2 following)",
        "(order by g groups current row)",
        "(order by v groups between unbounded preceding and 1 preceding)",
        "(order by v exclude current row)",
        "(order by v rows between 2 preceding and 2 following exclude ties)",
        "(order by v groups between 1 preceding and 1 following exclude group)",
        "(partition by g order by v range between 1 preceding and 1 following exclude ties)",
        "(partition by g order by id rows between 3 following and 1 following)",
        "(order by id rows between 1 preceding and 2 preceding)",
        "(order by v range between 3 preceding and 1 preceding exclude no others)",
    ];
    for function in functions {
        for window in windows {
            queries += &format!("select id, {function} over {window} from t order by id;\n");
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

#[test]
fn windows_beside_other_clauses() {
    let scratch = Scratch::new(ROWS);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r#"
select id, sum(v) over w, rank() over w from t window w as (partition by g order by v) order by id;
select id, sum(v) over (w rows 1 preceding), rank() over (w) from t window w as (partition by g order by v) order by id;
select id, sum(v) over (w order by id) from t window w as (partition by g), u as (w order by v) order by id;
select id, rank() over u from t window w as (partition by g), u as (w order by v) order by id;
select g, sum(sum(v)) over (order by g) from t group by g order by g;
select g, count(*), rank() over (order by count(*) desc) from t group by g having count(*) > 1 order by g;
select distinct count(*) over (partition by g) from t order by 1;
select id from t order by row_number() over (order by v desc, id);
select id, row_number() over (order by id) as n from t order by n desc limit 3;
select * from (select id, row_number() over (partition by g order by id) n from t) where n = 1 order by id;
select sum(v) over () + 1, abs(min(v) over ()), case when rank() over (order by v) > 3 then 'x' end from t order by id;
select (select sum(x.v) over () from t x limit 1);
select id, (select max(q) from (select sum(y.v) over (order by y.id) q from t y where y.id <= t.id)) from t order by id;
select count(*) over () from e; select sum(x) over () from e; select ntile(0) over () from e; select ntile(0) over () from t;
select row_number() over (order by x) from one; select percent_rank() over (), cume_dist() over () from one;
select g, v, sum(v) over (partition by g order by v), avg(r) over (order by id) from t order by id;
select id, sum(v) over (order by id), sum(v) over (order by id desc), sum(v) over (partition by g) from t order by id;
select a.id, sum(b.v) over (partition by a.g order by b.id) from t a join t b on a.v = b.v order by a.id, b.id;
with c as (select id, sum(v) over (order by id) s from t) select * from c where s > 5 order by id;
select id, sum(v) over (order by id) from t union all select 0, 0 order by 1, 2;
select id, count(*) over (order by v) from t where v in (select first_value(v) over (order by id) from t) order by id;
select first_value(id) over (order by v), last_value(id) over (order by v) from t order by id;
select group_concat(id) over (order by id rows between 2 preceding and current row) from t order by id;
select max(id) over (order by id rows between 1 preceding and 1 preceding) from t order by id;
select sum(r) over (order by id rows between 2 preceding and 1 following) from t order by id;
select id, sum(9223372036854775807) over (order by id rows current row) from t order by id;
select nth_value(v, id) over (order by id) from t order by id;
select id, sum(v) over (order by id rows between id preceding and current row) from t order by id;
select row_number(); select row_number() from t; select abs(v) over () from t; select nosuch() over () from t; select sum(distinct v) over () from t;
select row_number() filter (where v) over () from t; select id from t where row_number() over () = 1; select id from t group by row_number() over ();
select sum(row_number() over ()) from t; select sum(sum(v) over ()) over () from t; select row_number() over (order by row_number() over ()) from t;
select sum(v) over w from t; select sum(v) over (w partition by g) from t window w as (order by v); select sum(v) over (w order by v) from t window w as (order by v);
select sum(v) over (w) from t window w as (rows 1 preceding); select sum(v) over (order by v, id range 1 preceding) from t; select sum(v) over (rows between current row and 1 preceding) from t;
select ntile(-1) over () from t; select ntile('x') over () from t; select nth_value(v, 0) over () from t; select nth_value(v, 1.5) over () from t;
select sum(v) over (order by id rows -1 preceding) from t; select sum(v) over (order by id rows 'x' preceding) from t; select sum(v) over (order by id range 'x' preceding) from t; select sum(v) over (order by id rows 1.5 preceding) from t;
select count(*) over (order by v range '1' preceding) from t; select lag() over () from t; select lag(1,2,3,4) over () from t; select rank(1) over () from t;
select id having row_number() over () from t; select max(v) over (partition by g order by id), max(v) from t; select max(v), row_number() over () from t;
select g, max(v), row_number() over (order by max(v)) from t group by g order by g;
"#,
    );
}

/// Functions of a row's place have a frame of their own, so a written frame is not read.
#[test]
fn frames_that_nothing_reads() {
    let scratch = Scratch::new(ROWS);
    let mut queries = String::new();
    for frame in [
        "rows between (select 1) preceding and 1 following",
        "rows between 1 preceding and -1 following",
        "range between 'x' preceding and current row exclude ties",
    ] {
        for function in ["row_number()", "rank()", "ntile(2)", "lag(v)", "cume_dist()", "count(*)"]
        {
            queries += &format!(
                "select id, {function} over (order by id {frame}) from t order by id;
                 select id, {function} over w, max(v) over w from t window w as (order by id {frame}) order by id;"
            );
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

/// Texts are taken back from the front as in SQLite, with separators of any length and empty texts.
#[test]
fn joined_texts_of_moving_frames() {
    let scratch = Scratch::new(
        "create table t(id integer primary key, v, sep);
         insert into t values (1,'',''),(2,'','|'),(3,'x','|'),(4,'y','--'),(5,null,'+'),(6,'',null),(7,'zz',''),
           (8,'','abc'),(9,'',','),(10,4,','),(11,x'','/'),(12,'end','//');",
    );
    let mut queries = String::new();
    for frame in [
        "rows 1 preceding",
        "rows 2 preceding",
        "rows between 1 following and 3 following",
        "rows between 3 preceding and 2 preceding",
        "rows between current row and unbounded following",
        "rows between unbounded preceding and current row",
        "groups between 1 preceding and 1 following exclude current row",
        "range between 2 preceding and 1 following",
    ] {
        for call in [
            "group_concat(v)",
            "group_concat(v, sep)",
            "string_agg(v, '')",
            "group_concat(quote(v), '--') filter (where id % 3)",
        ] {
            queries += &format!(
                "select id, {call} over w, typeof({call} over w), hex({call} over w) from t window w as (order by id {frame}) order by id;"
            );
        }
    }
    queries += "select hex(group_concat('')), typeof(group_concat(null)), length(group_concat('', '')), group_concat(v, sep) from t;";
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

/// With empty texts in a window frame, the rest of a `group_concat` shows the order of SQLite's
/// steps in and out.
#[test]
fn separators_beside_empty_texts() {
    let scratch = Scratch::new(
        "create table t(id integer primary key, a, f);
         insert into t values (1, '', 1), (2, '', 0), (3, 'x', 1), (4, '', 1), (5, null, 1),
         (6, '', 0), (7, 'yy', 1), (8, '', 1), (9, '', 1), (10, 'z', 0), (11, '', 1), (12, null, 1);",
    );
    let mut queries = String::new();
    let starts =
        ["unbounded preceding", "2 preceding", "current row", "1 following", "2 following"];
    let ends = ["1 preceding", "current row", "1 following", "2 following", "4 following"];
    for unit in ["rows", "groups", "range"] {
        for (start, end) in starts.iter().flat_map(|start| ends.iter().map(move |end| (start, end)))
        {
            for key in ["id", "id / 2"] {
                for call in [
                    "group_concat(a)",
                    "group_concat(a) filter (where f)",
                    "group_concat(a, '--') filter (where id % 3 <> 1)",
                    "group_concat(a, case id % 3 when 0 then '' when 1 then '-' else '++' end)",
                ] {
                    let over = format!("order by {key} {unit} between {start} and {end}");
                    queries +=
                        &format!("select id, quote({call} over ({over})) from t order by id;");
                }
            }
        }
    }
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

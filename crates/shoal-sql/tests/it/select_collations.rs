//! Collations: the one a comparison goes by, and unknown ones.

use crate::common::{Scratch, check_all};

const TABLES: &str = "create table t(a, b text collate nocase);
    insert into t values (1, 'x'), (2, 'Y'), (1, 'X'); create index tb on t(b);
    create table u(c integer primary key, d); insert into u values (1, 'x'), (2, 'q');";

#[test]
fn which_collation_a_comparison_goes_by() {
    let scratch = Scratch::new(TABLES);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r"
select 'x' in ('X' collate nocase), 'x' collate nocase in ('X'), 'x' in ('X' collate nocase, 'Z'), 'x' = 'X' collate nocase, 'x' in ((select 'X' collate nocase)), b in ('X' collate nocase), b collate nocase in ('X') from t;
select ('x') in ('X ' collate rtrim);
select 'x' in (+'X' collate nocase), 'x' in ('X' || '' collate nocase), 'x' in (upper('x') collate nocase) from t;
select 'x' not in ('X' collate nocase);
select max('a' , 'B' collate nocase), max('a' collate nocase, 'B'), min('a', 'B' collate nocase, 'c');
select nullif('a','A' collate nocase), nullif('a' collate nocase, 'A');
select case 'a' when 'A' collate nocase then 1 end, case 'a' collate nocase when 'A' then 1 end;
select ('a','b') = ('A' collate nocase, 'B' collate nocase), ('a','b') in (('A' collate nocase,'B'),('c','d')), ('a' collate nocase,'b' collate nocase) in (values ('A','B'));
select 'a' between 'A' collate nocase and 'A' collate nocase;
select x = 'A' from (select 'a' collate nocase as x);
select x = 'A' from (select 'a' collate nocase || '' as x);
select (select 'a' collate nocase) = 'A', 'A' = (select 'a' collate nocase);
select -('a' collate nocase) = 'A', ('a' collate nocase || '') = 'A', +('a' collate nocase) = 'A', cast('a' collate nocase as text) = 'A', coalesce('a' collate nocase, 1) = 'A', lower('a' collate nocase) = 'A', (case when 1 then 'a' collate nocase end) = 'A', iif(1, 'a' collate nocase, 'b') = 'A', ('a' collate nocase is null) = 'A', likely('a' collate nocase) = 'A';
",
    );
}

/// A rowid comes without a collation, whatever its column's definition says, and so yields to the
/// other side's.
#[test]
fn rowids_have_no_collation() {
    let scratch = Scratch::new(
        "create table t(a integer primary key collate nocase, b text collate nocase);
         insert into t values (1, 'x'), (2, 'X');
         create table u(c integer primary key collate rtrim, d text collate rtrim);
         insert into u values (1, 'x'), (2, 'x '), (3, 'X');",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select a from t union select b from t; select b from t union select a from t;
         select rowid from t union select b from t; select a from t union select d from u;
         select c from u union select d from u; select c from u except select d from u;
         select 'X' from t intersect select b from t; select +a from t union select b from t;
         select a from (select a from t) union select b from t;
         select a, 'x' from t union select d, b from t join u on a = c;
         select c from u order by c; select count(distinct c) from u; select max(c) from u where c = '1';
         select min(a, b), a in ('x', '1'), a = b, b = a from t;",
    );
}

/// A number with a collation behind is a column of the result in a `GROUP BY`, too.
#[test]
fn groups_by_a_number_and_a_collation() {
    let scratch = Scratch::new(TABLES);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "select count(*), b || '' from t group by 2 collate nocase order by 1;
         select count(*), b from t group by (2) collate binary collate nocase order by 1;
         select count(*), b from t group by b collate nope, 2 collate rtrim order by 1;
         select b from t group by 2 collate nocase; select b from t group by -1 collate nocase;
         select b from t group by 9 collate nope; select count(*) from t group by '1' collate nocase;",
    );
}

/// SQLite looks a collation up where values are compared, and nowhere else.
#[test]
fn names_that_nobody_knows() {
    let scratch = Scratch::new(TABLES);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r"
select 1 collate nope; select a collate nope from t; select a collate nope = 1 from t;
select a from t where a collate nope = 1; select a from t order by a collate nope;
select a from t group by a collate nope; select distinct a collate nope from t;
select a collate nope as x from t group by a; select a collate nope as x from t order by x;
select a collate nope as x from t order by 1;
select a collate nope as x from t order by x collate binary;
select a collate nope collate nocase from t order by 1;
select a collate nocase collate nope = 1 from t;
select a collate nope collate nocase = 1 from t; select a in (1,2) from t;
select a collate nope in (1,2) from t; select a collate nope in () from t;
select a collate nope in (1) from t; select a in (1 collate nope) from t;
select a in (1, 2 collate nope) from t; select a in (1, 2, 3 collate nope) from t;
select a collate nope in (select 1) from t; select a in (select 1 collate nope) from t;
select exists (select 1 collate nope); select (select 1 collate nope);
select * from (select 1 collate nope); select * from (select 1 collate nope as x) where x = 1;
select x from (select a collate nope as x, b from t) order by b;
with c as (select a collate nope as x from t) select x from c;
with c as (select a collate nope as x from t) select 1 from c;
select max(a collate nope) from t; select min(a collate nope, 2) from t;
select max(a, 2 collate nope) from t; select count(a collate nope) from t;
select count(distinct a collate nope) from t; select sum(a collate nope) from t;
select group_concat(a collate nope) from t; select length(a collate nope) from t;
select nullif(a collate nope, 1) from t; select nullif(1, a collate nope) from t;
select coalesce(a collate nope, 1) from t; select instr(b collate nope, 'x') from t;
select b collate nope like 'x' from t; select b like 'x' collate nope from t;
select b collate nope glob 'x' from t; select b collate nope between 1 and 2 from t;
select b between 1 collate nope and 2 from t; select b collate nope is null from t;
select b collate nope isnull from t; select b collate nope notnull from t;
select b collate nope is 1 from t; select b collate nope is true from t;
select not b collate nope from t; select -(a collate nope) from t;
select a collate nope + 1 from t; select (a collate nope) + 1 = 2 from t;
select b || 'x' collate nope from t; select (b || 'x' collate nope) = 'q' from t;
select case a collate nope when 1 then 2 end from t;
select case a when 1 collate nope then 2 end from t;
select case when a collate nope then 2 end from t;
select case when a then b collate nope end from t; select cast(a collate nope as text) from t;
select cast(a collate nope as text) = 'x' from t;
select a collate nope from t union all select 1; select a collate nope from t union select 1;
select 1 union select a collate nope from t; select 1 union all select a collate nope from t;
select a collate nope from t intersect select 1; select a collate nope from t except select 1;
select a collate nope from t union all select 1 order by 1;
select 1 union all select a collate nope from t order by 1; values (1 collate nope);
values (1 collate nope), (2); values (1), (2 collate nope);
select * from (values (1 collate nope),(2)); select a from t limit 1 collate nope;
select a from t where a collate nope; select a from t where (a collate nope) and 1;
select * from t join u on a collate nope = c; select * from t join u on a = c collate nope;
select * from t left join u on c = a where d collate nope is null;
select a, row_number() over (order by a collate nope) from t;
select a, row_number() over (partition by a collate nope) from t;
select sum(a collate nope) over () from t; select first_value(a collate nope) over () from t;
select max(a collate nope) over () from t; select lag(a collate nope) over () from t;
select a, count(*) from t group by a having a collate nope;
select a, count(*) from t group by a having a collate nope = 1;
select count(*) filter (where a collate nope) from t;
select count(*) filter (where a collate nope = 1) from t;
select (a, b collate nope) = (1, 'x') from t; select (a, b) = (1, 'x' collate nope) from t;
select (a, b collate nope) in (select 1, 'x') from t;
select (a, b) in (select 1, 'x' collate nope) from t;
select a from t where 0 and a collate nope = 1; select a from t where a collate nope > 1;
select a from t where a collate nope between 1 and 2;
select b from t where b collate nope = 'x'; select b from t where b = 'x' collate nope;
select 1 where 1 collate nope = 1; select 'a' collate nope = 'b'; select 1 = 1 collate nope;
select null collate nope = 1; select 1 collate nope < 2; select 1 collate nope <> 2;
select 1 collate nope is not 2; select 1 collate nope is not distinct from 2;
select a collate nope == b from t; select iif(a collate nope, 1, 2) from t;
select typeof(a collate nope) from t; select json_array(a collate nope) from t;
select group_concat(distinct a collate nope) from t;
select group_concat(a order by b collate nope) from t;
select json_group_array(a collate nope) from t; select total(distinct a collate nope) from t;
select min(a collate nope) from t; select avg(a collate nope) from t;
select count(distinct b) from t where a collate nope;
select sum(distinct a) from t order by 1 collate nope;
select count(*) from t order by a collate nope;
select a from t group by a order by a collate nope; select a from t group by 1 collate nope;
select a from t order by 1 collate nope; select a from t order by 'x' collate nope;
select a collate nope from t limit 0; select count(*) from (select a collate nope from t);
select count(*) from (select distinct a collate nope from t);
select * from t natural join (select 1 collate nope as a);
select * from t join (select 1 collate nope as a) using (a);

select (select a collate nope from t order by a collate nope limit 1);
select 1 in (select a collate nope from t order by a collate nope);
with recursive r(x) as (select 1 collate nope union all select x+1 from r where x < 3) select x from r;
with recursive r(x) as (select 1 collate nope union select x+1 from r where x < 3) select x from r;

 select * from json_each('[1]' collate nope);
select key from json_each('[1]') where key collate nope = 0;
select b collate nope regexp 'x' from t; select a collate nope is not null from t;
select a from t order by a, b collate nope;

select a from t where rowid in (1 collate nope, 2);
select a from t where rowid collate nope in (1, 2);
",
    );
}

#[test]
fn columns_of_collations_that_nobody_knows() {
    let scratch = Scratch::new(
        "create table w(a text collate nocase, b integer, c text);
         insert into w values ('x', 1, 'q'), ('X', 2, 'r'), ('y', 3, 'q');
         create index wi on w(c collate nocase);
         create table k(p text collate nocase primary key, q) without rowid;
         insert into k values ('a', 1), ('b', 2);
         create table m(p text collate nocase unique, q); insert into m values ('a', 1), ('b', 2);
         pragma writable_schema = on;
         update sqlite_schema set sql = replace(sql, 'nocase', 'nope')
         where type in ('table', 'index') and sql is not null;",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        r"
select a from w; select a, b from w where b = 2; select a from w where a = 'x';
select a from w order by a; select a from w group by a; select distinct a from w;
select max(a) from w; select c from w; select c from w where c = 'q';
select b from w order by c; select p from k where p = 'a'; select * from m;
select p from m where q = 1; select p from m where p = 'a'; select a || 'x' from w;
select a like 'X' from w; select a = 'x' collate nocase from w; select a in ('x') from w;
select * from (select a from w); select a from w union all select a from w;
select a from w where rowid = 1; select w.b from w join m on w.b = m.q; select count(p) from m;
select q from m order by q; select p from m limit 1; select typeof(a) from w;
pragma table_info(w); pragma table_xinfo(k); pragma index_list(m); pragma index_xinfo(wi);
select * from m indexed by sqlite_autoindex_m_1; select name from sqlite_schema;
select a from w order by a collate nocase; select b from w where c between 'a' and 'z';
select p from m group by q; select a is null from w; select (select a from w limit 1);
",
    );
}

/// Neither an order nor a bound stands behind `VALUES`.
#[test]
fn what_stands_behind_values() {
    let scratch = Scratch::new(TABLES);
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "
values (1), (2) order by 1; values (1) limit 1; select 1 union all values (2) order by 1;
select * from (values (1), (2) limit 1); values (1) union all select 2 order by 1 desc;
select 1 union all values (2); select (values (1) limit 1);
",
    );
}

/// Around a compound, columns compare by the first part's collation; within, by the first explicit
/// one.
#[test]
fn what_a_compound_is_compared_by() {
    let scratch = Scratch::new(
        "create table t(a text collate nocase, b text); insert into t values ('B', 'a'), ('b', 'A');",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "
select x = 'A' from (select 'b' as x union all select 'a' collate nocase);
select x = 'A' from (select 'b' collate nocase as x union all select 'a');
select x from (select b as x from t union select a from t) where x = 'b' order by x;
select x, count(*) from (select b as x from t union all select a from t) group by x order by x;
select distinct x from (select b as x from t union all select a from t) order by x;
select b as x from t union select a from t order by x;
select b as x from t union select a from t order by x collate binary;
select a as x from t union select b from t order by x;
select distinct x from (select b as x from t union select a from t limit 9) order by x;
with c(x) as (select b from t union select a from t) select x from c where x > 'a' order by x;
with recursive c(x) as (select b from t union select a from t, c) select x from c order by x;
select 'B' in (select b from t union select a from t), max(x) from (select b as x from t union select a from t);
select x from (select b as x from t except select a collate nocase from t) order by x;
select count(distinct x) from (select b as x from t union all select a from t);
select p.x from (select b as x from t union all select a from t) p join (select a as y from t) q on p.x = q.y order by 1;
",
    );
}

#[test]
fn an_index_of_what_has_none() {
    let scratch = Scratch::new(
        "create table t(a); create index t_a on t(a); create view v as select a from t;",
    );
    check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "
with s(n) as (select 1) select n from s indexed by t_a; select * from v indexed by t_a;
select * from t indexed by t_a where a = 1; select * from v not indexed;
with s(n) as (select 1) select n from s not indexed; select value from json_each indexed by t_a;
with recursive s(n) as (select 1 union all select n + 1 from s indexed by t_a where n < 3) select n from s;
",
    );
}

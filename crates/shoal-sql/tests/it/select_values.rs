//! `VALUES` beside SQLite: rows with aggregates and window functions, and several rows' columns.

use crate::common::{Scratch, check_all, ours, theirs};

const SETUP: &str = "
    create table t(a, b);
    insert into t values (1, 2), (3, 4);
    create view v1 as values (count(*));
    create view v2 as values (1), (2), (count(*));
    create view v3 as values (1), (row_number() over ());
";

/// A row alone is a query without tables. Several rows become the expressions of one clause in
/// SQLite, where aggregates are refused, unless there are window functions, parts of a `UNION`
/// behind, or constant rows side by side.
#[test]
fn aggregates_and_windows_in_rows() {
    let scratch = Scratch::new(SETUP);
    check_all(&mut scratch.ours(), &scratch.theirs(), QUERIES);
}

/// The row of an `INSERT` is no query.
#[test]
fn rows_of_an_insert() {
    let rows = [
        "(count(*))",
        "(row_number() over ())",
        "((values (count(*))))",
        "(1), (2), (count(*))",
        "(1), (row_number() over ())",
        "(1), (count(*))",
    ];
    for row in rows {
        let scratch = Scratch::new("create table t(a)");
        let statement = format!("insert into t values {row}");
        let copy = Scratch::new("create table t(a)");
        let store = shoal_store::Store::open(
            std::sync::Arc::new(shoal_store::vfs::OsVfs),
            &copy.path(),
            shoal_store::Access::ReadWrite,
        );
        let mut connection = shoal_sql::Connection::open(store.unwrap()).unwrap();
        let done =
            connection.prepare(&statement).and_then(|mut plan| connection.execute(&mut plan));
        let done = done.is_ok();
        assert_eq!(done, scratch.theirs().execute(&statement, []).is_ok(), "{statement}");
        let query = "select a from t order by rowid";
        assert_eq!(
            ours(&mut connection, query).unwrap().rows,
            theirs(&scratch.theirs(), query).unwrap().rows,
            "{statement}"
        );
    }
}

const QUERIES: &str = r#"
    VALUES (count(*));
    VALUES (row_number() OVER ());
    VALUES (count(*), 5);
    VALUES (count(*)),(1);
    VALUES (count(*)),(1),(2);
    VALUES (1),(count(*));
    VALUES (1),(2),(count(*));
    VALUES (count(*)),(count(*));
    VALUES (row_number() over ()),(1);
    VALUES (1),(row_number() over ());
    VALUES (row_number() over ()),(row_number() over ());
    VALUES (sum(1) over ()),(row_number() over ()),(3);
    SELECT * FROM (VALUES (count(*)));
    SELECT * FROM (VALUES (count(*)),(3));
    SELECT * FROM (VALUES (count(*)),(3)), t;
    SELECT * FROM t, (VALUES (count(*)));
    WITH c AS (VALUES (count(*))) SELECT * FROM c;
    WITH c AS (VALUES (count(*)),(1)) SELECT * FROM c;
    WITH c(x) AS (VALUES (row_number() over ()),(1)) SELECT * FROM c;
    SELECT 7 UNION ALL VALUES (count(*));
    SELECT 7 UNION VALUES (count(*));
    SELECT 7 UNION ALL VALUES (count(*)),(3);
    SELECT 7 UNION ALL VALUES (1),(count(*));
    VALUES (count(*)) UNION ALL SELECT 7;
    VALUES (count(*)),(9) UNION ALL SELECT 7;
    VALUES (3),(count(*)) UNION ALL SELECT 7;
    VALUES (3),(count(*)) UNION SELECT 7;
    VALUES (count(*)),(3) UNION SELECT 7 ORDER BY 1;
    VALUES (count(*)) UNION SELECT 7 ORDER BY 1;
    SELECT (VALUES (count(*)));
    SELECT (VALUES (count(*))) FROM t;
    SELECT (VALUES (count(a))) FROM t;
    SELECT (VALUES (sum(a))) FROM t;
    SELECT (VALUES (sum(a)),(2)) FROM t;
    SELECT (VALUES (2),(sum(a))) FROM t;
    SELECT a, (VALUES (count(*))) FROM t;
    SELECT a, (VALUES (count(*)+a)) FROM t;
    SELECT a, (VALUES (count(*)),(3)) FROM t;
    SELECT a, (VALUES (3),(count(*))) FROM t;
    SELECT a, (VALUES (a),(count(*))) FROM t;
    SELECT a, (VALUES (row_number() over (order by a))) FROM t;
    SELECT a IN (VALUES (count(*))) FROM t;
    SELECT a IN (VALUES (count(*)),(3)) FROM t;
    SELECT a IN (VALUES (3),(count(*))) FROM t;
    SELECT a IN (VALUES (count(a))) FROM t;
    SELECT a FROM t WHERE a IN (VALUES (count(*)));
    SELECT a FROM t WHERE a IN (VALUES (count(a)));
    SELECT a FROM t WHERE EXISTS (VALUES (count(*)));
    SELECT a FROM t WHERE EXISTS (VALUES (count(*)), (1));
    SELECT EXISTS (VALUES (1),(count(*)));
    SELECT * FROM t WHERE (a,b) = (VALUES (count(*), 2));
    VALUES (min(1,2), max(5));
    VALUES (count(DISTINCT 1));
    VALUES (count(*) FILTER (WHERE 0));
    VALUES (sum(count(*)));
    VALUES (sum(count(*)) over ());
    VALUES (count(*), row_number() over (order by count(*)));
    VALUES (group_concat('a' ORDER BY 1));
    VALUES (a);
    VALUES (count(a));
    VALUES ((SELECT count(*) FROM t));
    VALUES ((SELECT count(*) FROM t)), (count(*));
    VALUES (count(*)), ((SELECT count(*) FROM t));
    VALUES (count(*)), (abs(1));
    VALUES (count(*)), (random() is null);
    VALUES (cast(count(*) as text)), (3);
    VALUES (cast(3 as text), count(*)), (3,4);
    VALUES (count(*), 1), (3, cast(3 as text));
    VALUES (cast(count(*) as text));
    VALUES (count(*)), (3,4);
    VALUES (count(*), 1), (3);
    VALUES (first_value(3) over w);
    VALUES (sum(a) over ());
    SELECT * FROM (VALUES (1),(count(*)));
    SELECT 1 FROM (VALUES (1),(count(*)));
    SELECT count(*) FROM (VALUES (1),(count(*)));
    SELECT count(*) FROM (VALUES (count(*)),(1));
    SELECT column1 FROM (VALUES (1),(row_number() over ())) WHERE column1 > 0;
    SELECT x.column1, typeof(column1) FROM (VALUES (count(*))) x ORDER BY 1;
    SELECT sum(column1) FROM (VALUES (count(*)));
    SELECT column1+1 FROM (VALUES (count(*))) WHERE column1 = 1;
    SELECT column1+1 FROM (VALUES (count(*))) WHERE column1 = 2;
    SELECT * FROM (VALUES (count(*))) a LEFT JOIN (VALUES (1)) b ON a.column1=b.column1;
    SELECT * FROM t WHERE a = (VALUES (max(1)));
    SELECT * FROM (VALUES (count(*)) UNION ALL VALUES (count(*)));
    SELECT * FROM (VALUES (count(*)) UNION ALL VALUES (1),(2));
    SELECT * FROM (VALUES (1) UNION ALL VALUES (count(*)));
    SELECT * FROM (VALUES (1),(2) UNION ALL VALUES (count(*)));
    SELECT * FROM (VALUES (1),(2) UNION ALL VALUES (count(*)),(3));
    SELECT * FROM (VALUES (1),(2) UNION ALL VALUES (3),(count(*)));
    WITH RECURSIVE r(x) AS (VALUES (count(*)) UNION ALL SELECT x+1 FROM r WHERE x < 4) SELECT * FROM r;
    WITH RECURSIVE r(x) AS (VALUES (count(*)),(2) UNION ALL SELECT x+1 FROM r WHERE x < 4) SELECT * FROM r;
    WITH RECURSIVE r(x) AS (VALUES (2),(count(*)) UNION ALL SELECT x+1 FROM r WHERE x < 4) SELECT * FROM r;
    WITH RECURSIVE r(x) AS (VALUES (row_number() over ()) UNION ALL SELECT x+1 FROM r WHERE x < 4) SELECT * FROM r;
    WITH RECURSIVE r(x) AS (VALUES (row_number() over ()),(1) UNION ALL SELECT x+1 FROM r WHERE x < 4) SELECT * FROM r;
    SELECT max(a), (VALUES (max(a))) FROM t;
    SELECT (VALUES (max(a) + count(*))) FROM t;
    SELECT b FROM t GROUP BY (VALUES (count(*)));
    SELECT b FROM t ORDER BY (VALUES (count(*)));
    SELECT b FROM t ORDER BY (VALUES (count(a)));
    SELECT b FROM t LIMIT (VALUES (count(*)));
    SELECT b, sum((VALUES (count(*)))) FROM t;
    SELECT b, sum((VALUES (count(b)))) FROM t;
    SELECT count((VALUES (count(b)))) FROM t;
    VALUES (count(*) COLLATE nosuch);
    VALUES (likely(count(*)));
    VALUES ((VALUES (count(*))));
    VALUES ((VALUES (count(*))), count(*));
    VALUES (((VALUES (count(*)), (1)))), (count(*));
    VALUES (CASE WHEN count(*) THEN 'a' END);
    VALUES (json_group_array(1), json(json_group_array(2)));
    VALUES (ntile(3) over (), lag(1) over (), sum(1) over (rows 1 preceding));
    VALUES (count(*)),(1+1);
    VALUES (total(2)),(1),(count(*));
    VALUES (1),(2),(row_number() over ());
    VALUES (1,count(*)),(row_number() over (),2);
    VALUES (count(*)),(row_number() over ());
    VALUES (row_number() over ()),(count(*));
    VALUES (count(*)),(a);
    SELECT (VALUES (count(*)),(a)) FROM t;
    SELECT (VALUES (count(*)),(row_number() over ())) FROM t;
    SELECT a, (VALUES (count(*)),(a)) FROM t;
    SELECT * FROM (SELECT 7 UNION ALL VALUES (1),(2),(count(*)));
    VALUES (abs(1)),(upper('a')),(count(*));
    VALUES (date('2020-01-01')),(1),(count(*));
    VALUES (random()),(1),(count(*));
    VALUES (1),(random()),(count(*));
    VALUES (1 is 1),(1),(count(*));
    VALUES (1),(1 is 1),(count(*));
    VALUES (1),(1 is null),(count(*));
    VALUES (true),(false),(count(*));
    VALUES ("a"),(false),(count(*));
    VALUES (current_date is null),(1),(count(*) < 0);
    VALUES (current_date > '2'),(1),(count(*) < 0);
    VALUES ('a' like 'b'),(1),(count(*) < 0);
    VALUES ('{}'->'a'),(1),(count(*) < 0);
    VALUES (cast(1 as text)),(2),(count(*));
    VALUES (cast(1 as text)),(2),(3),(count(*));
    VALUES (cast(1 as blob)),(2),(count(*));
    VALUES (cast(1 as int) collate nocase),(2),(count(*));
    VALUES (cast(1 as int) + 1),(2),(count(*));
    VALUES (+cast(1 as int)),(2),(count(*));
    VALUES (case when 1 then 2 end),(2),(count(*));
    VALUES (1 in (1,2)),(2),(count(*));
    VALUES ((select 1)),(2),(count(*));
    VALUES ((select 1)),(2),(3),(count(*));
    VALUES (1),(2),((select 1)),(count(*));
    VALUES (x'00'),(2.5),(count(*));
    VALUES (nosuch(1)),(2.5),(count(*));
    VALUES (max(1,2)),(2.5),(count(*));
    VALUES (changes()),(2),(count(*));
    VALUES (last_insert_rowid()),(2),(count(*));
    VALUES (iif(1,2,3)),(coalesce(1,2)),(count(*));
    VALUES (likely(1)),(2),(count(*));
    VALUES (iif(1,cast(2 as int),3)),(coalesce(1,2)),(count(*));
    WITH c AS (SELECT 1) VALUES (1),(2),(count(*));
    SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c), (VALUES (1),(2),(count(*)));
    SELECT * FROM (VALUES (1),(2),(count(*))), (WITH c AS (SELECT 1) SELECT * FROM c);
    SELECT * FROM v1;
    SELECT * FROM v2;
    SELECT * FROM v3;
    SELECT (SELECT 7 UNION ALL VALUES (1),(count(*)));
    SELECT (VALUES (count(*)),(3) UNION ALL SELECT 5);
    SELECT (1,2) = (VALUES (1,2),(3,count(*)));
    SELECT (1,2) = (VALUES (1,count(*)),(3,4));
    SELECT (1,2) IN (VALUES (1,count(*)),(3,4));
    SELECT (1,2) IN (VALUES (1,count(*)));
    SELECT (1,1) IN (VALUES (1,count(*)));
    SELECT 'a' IN (upper('a' collate nocase)), 'a' IN ('A' collate nocase), 'a' IN (upper('a' collate nocase), 3);
    SELECT '5' IN (abs(5)), 5 IN (lower('5')), a IN (lower('1')), a IN (lower('1'), 7), b IN (date('2020-01-01')) FROM t;
    SELECT '5' IN (random()), 5 IN (current_date), 1 IN (true), '1' IN (true), '1' IN (1 is 1), 1 IN ('a' LIKE 'A');
    SELECT * FROM (VALUES (row_number() over (order by 1), count(*))) WHERE column2 = 1;
    SELECT 1 FROM t WHERE (SELECT * FROM (VALUES (count(*))));
    SELECT * FROM (VALUES (cast('1' as text)),(2)) WHERE column1 = 2;
    SELECT * FROM (VALUES (2),(cast('2' as text))) WHERE column1 = 2;
    SELECT * FROM (VALUES (2),(cast('2' as text))) WHERE column1 = '2';
    SELECT * FROM (VALUES (cast('1' as text)),(2)) WHERE column1 = '2';
    SELECT * FROM (VALUES (cast('2' as int)),('2')) WHERE column1 = '2';
    SELECT * FROM (VALUES (cast('2' as int)),('2')) WHERE column1 = 2;
    SELECT * FROM (VALUES (cast('2' as int)),(5),('2')) WHERE column1 = '2';
    WITH c(x) AS (VALUES (cast('1' as text)),(2)) SELECT x = 2, x = '2' FROM c;
    SELECT column1 = 2, column1 = '2' FROM (VALUES (cast('2' as int)),(row_number() over ()));
    SELECT column1 = 2, column1 = '2' FROM (VALUES (cast(count(*) as int)), ('1'),(cast('1' as text)));
    SELECT column1 = 2, column1 = '1' FROM (VALUES (cast(count(*) as text)));
    SELECT column1 = 'A' FROM (VALUES (cast('a' as text) collate nocase));
    SELECT column1 = 'A' FROM (VALUES ('b'),('a' collate nocase));
    SELECT column1 = 'A' FROM (VALUES ('a' collate nocase), ('b'));
    SELECT column1 = 'A' FROM (VALUES (max('a' collate nocase)), ('b'), ('a'));
    SELECT column1 = 'A' FROM (VALUES ('b'),(a || 'a' collate nocase)), t;
    WITH c(x) AS (VALUES ('b'),('a' collate nocase)) SELECT x='A' FROM c;
    WITH c(x) AS (VALUES ('b'),(cast(1 as text))) SELECT x='A', x=1 FROM c;
    WITH c(x) AS (VALUES (2),(cast(1 as text))) SELECT x='1', x=1 FROM c;
    SELECT x='1', x=1 FROM (VALUES (1),(2) UNION ALL SELECT a FROM t) AS c(x);
    SELECT column1='1', column1=1 FROM (VALUES (1),(2) UNION ALL SELECT a FROM t);
    SELECT column1='1', column1=1 FROM (VALUES (1),(2.5),(cast(4 as int)) UNION ALL SELECT a FROM t);
    SELECT column1='1', column1=1 FROM (VALUES (cast(1 as int)),(2),(3),('1') UNION ALL SELECT a FROM t);
    SELECT 1 = (VALUES (1),(cast(1 as text))), (VALUES (abs(a)),(cast(1 as text))) = 1 FROM t;
"#;

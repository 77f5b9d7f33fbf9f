//! Statements as a caller sees them: parameters, batches, snapshots, limits, errors with places.

use crate::common::{self, Scratch, check, check_all, ours, ours_with, theirs_with};
use shoal_sql::{Connection, Error, Limits, NameKind, Value};
use shoal_store::{Mode, Store};

fn memory(script: &str) -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    for range in shoal_sql::Statements::new(script) {
        let mut statement = connection.prepare(&script[range.clone()]).unwrap();
        connection.execute(&mut statement).unwrap_or_else(|e| panic!("{}: {e}", &script[range]));
    }
    connection
}

#[test]
fn all_five_forms_of_parameters() {
    let scratch = Scratch::new("create table t(a)");
    let mut connection = scratch.ours();
    let cases = [
        "select ?, ?, ?",
        "select ?2, ?, ?1",
        "select :a, @a, $a, :a",
        "select ?3, :x, ?",
        "select ?, :b, ?, :b, ?2",
    ];
    let peer = scratch.theirs();
    for sql in cases {
        let mut statement = connection.prepare(sql).unwrap();
        let theirs = peer.prepare(sql).unwrap();
        assert_eq!(statement.parameter_count(), theirs.parameter_count(), "{sql}");
        for index in 1..=statement.parameter_count() {
            assert_eq!(statement.parameter_name(index), theirs.parameter_name(index), "{sql}");
            if let Some(name) = theirs.parameter_name(index) {
                assert_eq!(
                    statement.parameter_index(name),
                    theirs.parameter_index(name).unwrap(),
                    "{sql}"
                );
            }
        }
        let values: Vec<Value> =
            (0..statement.parameter_count()).map(|n| Value::Int(n as i64 * 10)).collect();
        let got = ours_with(&mut connection, sql, &values).unwrap();
        assert_eq!(got, theirs_with(&peer, sql, &values).unwrap(), "{sql}");
        assert!(matches!(statement.bind(0, 1), Err(Error::Misuse { .. })));
        assert!(matches!(statement.bind(99, 1), Err(Error::Misuse { .. })));
    }
}

#[test]
fn parameters_choose_the_rows_each_time() {
    let mut connection = memory(
        "create table t(id integer primary key, k text, v);
         create index t_k on t(k);
         insert into t values (1, 'a', 10), (2, 'b', 20), (3, 'a', 30);",
    );
    let mut by_id = connection.prepare("select v from t where id = ?").unwrap();
    let mut by_key = connection.prepare("select v from t where k = ? order by id").unwrap();
    let run = |connection: &mut Connection, statement: &mut shoal_sql::Statement, value: Value| {
        statement.bind(1, value).unwrap();
        let mut rows = connection.query(statement).unwrap();
        let mut out = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            out.push(Value::from(row.get(0)));
        }
        out
    };
    for _ in 0..3 {
        assert_eq!(run(&mut connection, &mut by_id, Value::Int(2)), [Value::Int(20)]);
        assert_eq!(run(&mut connection, &mut by_id, Value::text("3")), [Value::Int(30)]);
        assert_eq!(run(&mut connection, &mut by_id, Value::Real(1.5)), []);
        assert_eq!(run(&mut connection, &mut by_id, Value::Null), []);
        let both = [Value::Int(10), Value::Int(30)];
        assert_eq!(run(&mut connection, &mut by_key, Value::text("a")), both);
        assert_eq!(run(&mut connection, &mut by_key, Value::Null), []);
    }
}

/// Cursors are dropped between batches; loops of every kind go on where they were.
#[test]
fn results_longer_than_a_batch() {
    let scratch = Scratch::new(
        "create table t(a integer primary key, b text, c);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
           insert into t select i, 'x' || (i % 7), i * 3 % 1000 from n;
         create index t_b on t(b); create index t_c on t(c desc, b);
         create table w(k text primary key, v) without rowid;
         insert into w select b || a, a from t;",
    );
    let queries = "
        select * from t; select a from t order by a desc; select a, b from t where b > 'x3';
        select a, c from t where c between 10 and 900; select b, c from t where c > 5;
        select * from w; select v from w where k > 'x2'; select v from w where k < 'x4' and v > 10;
        select x.a, y.a from t x join t y on x.c = y.c where x.a < 700;
        select x.a, y.v from t x left join w y on y.v = x.a + 2900;
        select x.a, y.a from t x left join t y on y.a = x.a * 2 where y.a is null or y.a % 2 = 0;
        select a from t union all select v from w; select a from (select a, b from t where b = 'x1');
        select a from t where a > 100 and a < 2900 order by a desc; select distinct c from t;
        select c, count(*) from t group by c; select a from t order by b, a;
        select t.a, (select count(*) from w where w.v = t.a) from t where t.a < 300;
        values (1), (2), (3), (4), (5), (6), (7), (8), (9)";
    common::check_all(&mut scratch.ours(), &scratch.theirs(), queries);
}

#[test]
fn rows_belong_to_their_snapshot() {
    let mut connection = memory("create table t(a); insert into t values (1), (2), (3);");
    let store = connection.store().clone();
    let mut writer = Connection::open(store).unwrap();
    let mut statement = connection.prepare("select a from t").unwrap();
    {
        let mut rows = connection.query(&mut statement).unwrap();
        assert!(rows.next().unwrap().is_some());
        // The result set holds its snapshot: nobody can commit now.
        let mut insert = writer.prepare("insert into t values (4)").unwrap();
        assert!(matches!(writer.execute(&mut insert), Err(Error::Store(error)) if error.is_busy()));
        while rows.next().unwrap().is_some() {}
        // The query's lock went with its last row.
        assert_eq!(writer.execute(&mut insert).unwrap(), 1);
    }
    assert_eq!(ours(&mut connection, "select count(*) from t").unwrap().rows[0][0], Value::Int(4));
}

#[test]
fn a_transaction_is_one_snapshot_and_a_schema_change_is_noticed() {
    let mut connection = memory("create table t(a); insert into t values (1);");
    let mut other = Connection::open(connection.store().clone()).unwrap();
    let mut statement = connection.prepare("select * from t").unwrap();
    let alter = "drop table t; create table t(x, y); insert into t values (5, 6);";
    for range in shoal_sql::Statements::new(alter) {
        let mut statement = other.prepare(&alter[range]).unwrap();
        other.execute(&mut statement).unwrap();
    }
    {
        let mut rows = connection.query(&mut statement).unwrap();
        let row = rows.next().unwrap().unwrap();
        assert_eq!((row.len(), Value::from(row.get(1))), (2, Value::Int(6)));
    }
    assert_eq!(statement.column_names(), ["x", "y"]);
    connection.begin(Mode::Read).unwrap();
    assert!(connection.in_transaction());
    assert!(matches!(connection.begin(Mode::Read), Err(Error::Meaning { .. })));
    connection.rollback().unwrap();
    assert!(matches!(connection.commit(), Err(Error::Meaning { .. })));
}

#[test]
fn comments_name_columns_and_may_stay_open() {
    let scratch = Scratch::new("create table t(a)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select 1/*c*/, 2",
        "select 1 /* a */ from (select 3 /* b */)",
        "select 1 /* a */;",
        "select 1 -- x\n, 2 /*d*/ from (select 1)",
        "select 1 as x /* y */",
        "select 1 /* a */ x",
        "select * from (select a /* b */ + 1 /* c */ from t)",
        "select 1 /* a",
        "select 1 /*",
        "select 1 /* ",
        "select 1 /*/",
        "select 1 -- b\n /* a  ",
        "select 'x' as y/* ; select 2",
        "/* a */ select \"b\"/* c *d, e from \u{fffd}\u{fffd} 'f",
        "select 1 from (select 2 /* )",
        "select 1 ; /* no more",
        "select 1 / * 2",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn parameters_of_tcl_and_vertical_tabs() {
    let scratch = Scratch::new("create table t(a)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    let parameters = [Value::Int(3), Value::text("b"), Value::Int(5)];
    for sql in [
        "select @a(), @a(b), @a()",
        "select $::a::b(1)+:c, #d(é)/*e*/",
        "select @a(b\u{1})FROM t",
        "select -?2, #e, ?1",
        "select @a(b)m, ?2 n from t union select :a(1)b, 3 where 1",
        "select 1 \u{b}, \u{b}\u{b}2 -- x\n\u{b}as y",
        "select \u{b} 'a\u{b}' /* \u{b} */ || @a(\u{1f}), 1 \u{b}",
    ] {
        check(&mut connection, &peer, sql, &parameters)
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
    for sql in [
        "select @a(b c)",
        "values (1, @a(b)m)",
        "select @a(b)m n",
        "select @a(b\u{b})",
        "select @a(b",
        "select $::(a)",
        "select @a(a)(b)",
        "select #1(b)",
        "select\u{b}1",
        "select 1\u{b}",
        "select 1 @a(b)",
        "select 1 ?",
        "select 1 x'00'",
    ] {
        let expect = peer.prepare(sql).unwrap_err();
        let rusqlite::Error::SqlInputError { msg, offset, .. } = expect else { panic!("{expect}") };
        let error = connection.prepare(sql).unwrap_err();
        let place = error.offset().unwrap().try_into().unwrap();
        assert_eq!((error.to_string(), place), (msg, offset), "{sql}");
    }
}

/// SQLite's grammar drops a condition beside a 0, and beside no other number.
#[test]
fn names_beside_what_never_holds() {
    let scratch = Scratch::new("create table t(a); insert into t values (1), (0)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select 0 and x, x and (0) and y, not (0x0 and x), x in (), 1 in () and x from t",
        "select x in nowhere and 0, 1 in nowhere(abs(y)) and 0, (x, y) = (1, z) and 0 from t",
        "select abs(1) in nowhere and 0 from t",
        "select (x, abs(y)) = (1, 2) and 0 from t",
        "select -0 and x from t",
        "select x and - -0 from t",
        "select +0 and x from t",
        "select 0.0 and x from t",
        "select a from t where -0 and a order by -0 + a",
        "select a from t order by -0",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// The sort keys of a single row are resolved, and not computed.
#[test]
fn a_single_row_is_in_order() {
    let scratch = Scratch::new("create table t(a); insert into t values ('{'), (null)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select 1, 2 order by 685 -> x'00ff'",
        "select count(*) order by '{' -> '$'",
        "select count(*), max(a) from t order by max(a) -> '$', '{' -> '$'",
        "select distinct 5 order by '{' -> '$' limit 1",
        "select 1 where 0 order by '{' -> '$'",
        "select 1 order by x",
        "select count(*) from t order by x",
        "select a from t order by a -> '$'",
        "select (select a from t order by 1 limit 1) order by 2",
        "select row_number() over () order by '{' -> '$'",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// A truth value written beside `AND` or `OR` leaves the other side out, errors and all.
#[test]
fn sides_that_do_not_count_are_not_computed() {
    let scratch = Scratch::new("create table t(a); insert into t values ('{'), (null)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for truth in [
        "0",
        "1",
        "false",
        "true",
        "-0",
        "+1",
        "2147483647",
        "2147483648",
        "0.0",
        "'1'",
        "null",
        "(0 or 0)",
        "(1 or a)",
        "(1 and 0)",
        "(a and 0)",
        "(1 and 1)",
        "1 collate nocase",
        "(1 in ())",
        "(a not in ())",
    ] {
        for sql in [
            format!("select (a -> '$.x') and {truth} from t"),
            format!("select (a -> '$.x') or {truth} from t"),
            format!(
                "select not ((a -> '$.x') or {truth}), case when a -> '$' or ({truth} and 1) then 5 end from t"
            ),
            format!("select ('{{' -> '$') or {truth}, sum(a) or {truth}"),
            format!("select count(*) and {truth}, sum(a) or {truth} from t"),
        ] {
            check(&mut connection, &peer, &sql, &[]).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn distinct_says_nothing_to_functions_of_one_row() {
    let scratch = Scratch::new("create table t(a); insert into t values (1), (-1), (1), (null)");
    let (mut connection, peer) = (scratch.ours(), scratch.theirs());
    for sql in [
        "select abs(distinct -3), max(distinct 1, 2), coalesce(distinct null, 1), iif(distinct 1, 2, 3)",
        "select likely(distinct a), like(distinct 'a', 'A'), random(distinct) is null from t",
        "select json_extract(distinct '{\"a\":1}', '$.a'), printf(distinct '%d', 3), abs(all -3)",
        "select abs(distinct a), count(*), max(distinct a), min(distinct a) from t group by abs(distinct a)",
        "select printf(order by a), count(order by a), sum(a) from t",
        "select count(order by nosuch), printf(order by x.y) from t",
        "select printf('a' order by 1)",
        "select abs(distinct -3) over ()",
        "select abs(distinct -3) filter (where 1)",
        "select sum(distinct a, 1) from t",
        "select sum(distinct a) over () from t",
    ] {
        check(&mut connection, &peer, sql, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

/// SQLite's parser folds `x IS NULL` of a literal to a number, and a number is a column's.
#[test]
fn folded_terms_name_columns() {
    let terms = [
        "6 IS NULL",
        "6 NOTNULL",
        "'x' IS NOT NULL",
        "-1.5 IS NOT NULL",
        "+x'00' ISNULL",
        "NULL IS NULL",
        "NULL IS NOT NULL",
        "(1 + 1) IS NOT NULL",
        "cast(1 AS TEXT) NOTNULL",
        "'x' COLLATE nocase IS NOT NULL",
        "1 IS NULL IS NOT NULL",
        "-(1 IS NULL)",
        "-(1 IS NOT NULL)",
        "NOT (1 IS NULL)",
        "+0 AND a",
        "0 OR a",
        "1 AND a",
        "false AND a",
        "a IS NOT NULL",
        "0.0 AND a",
        "3000000000 NOTNULL",
        "(1 IS NOT NULL) + 0",
    ];
    let mut queries = String::new();
    for term in terms {
        queries += &format!("select a from t order by {term};\n");
        queries += &format!("select a, b from t order by {term} desc;\n");
        queries += &format!("select a from t group by {term};\n");
        queries += &format!("select a from t union all select b from t order by {term};\n");
    }
    let scratch = Scratch::new("create table t(a, b); insert into t values(3, 1), (1, 2), (2, 3);");
    check_all(&mut scratch.ours(), &scratch.theirs(), &queries);
}

#[test]
fn errors_know_their_place() {
    let mut connection = memory("create table t(a, b); create table u(a);");
    let mut check = |sql: &str, message: &str, place: &str| {
        let error = connection.prepare(sql).map(|_| ()).unwrap_err();
        let offset = if place.is_empty() { Some(sql.len()) } else { sql.find(place) };
        assert_eq!(error.to_string(), message, "{sql}");
        assert_eq!(error.offset(), offset, "{sql}");
    };
    check("select * form t", "near \"form\": syntax error", "form");
    check("select 1,\n  2 +* 3", "near \"*\": syntax error", "*");
    check("select (1", "incomplete input", "");
    check("select 'abc", "unrecognized token: \"'abc\"", "'abc");
    check("select 1 from nowhere", "no such table: nowhere", "nowhere");
    check("select a, x.y, b from t", "no such column: x.y", "x.y");
    check("select 'x', x from t", "no such column: x", "x from");
    check("select a from t, u", "ambiguous column name: a", "a from");
    check("select sin2(a) from t", "no such function: sin2", "sin2");
    check("select abs(a, b) from t", "wrong number of arguments to function abs()", "abs");
    check("select a from t where sum(b) > 1", "misuse of aggregate function sum()", "sum");
    check("select a from t having a > 1", "HAVING clause on a non-aggregate query", "a > 1");
    check("select 1 having count(*) > 0", "HAVING clause on a non-aggregate query", "count");
    check(
        "select 1 from t order by 3",
        "1st ORDER BY term out of range - should be between 1 and 1",
        "3",
    );
    check(
        "select 1 union select 1, 2",
        "SELECTs to the left and right of UNION do not have the same number of result columns",
        "select 1, 2",
    );
    check(
        "select a from t where a collate german = 1",
        "no such collation sequence: german",
        "german",
    );
    check("select abs(a) over () from t", "abs() may not be used as a window function", "abs");
    check("select (a, b) = (1, 2, 3) from t", "row value misused", "(a, b)");
    check("explain drop table t", "not supported: EXPLAIN of this statement", "explain");
    check("explain analyze delete from t", "near \"delete\": syntax error", "delete");
    check("explain delete from missing", "no such table: missing", "missing");
    check("select 1; select 2", "more than one statement", "select 2");
}

#[test]
fn nesting_is_bounded_and_never_overflows_the_stack() {
    let mut connection = memory("create table t(a); insert into t values (1);");
    let run =
        |connection: &mut Connection, sql: String| ours(connection, &sql).map(|table| table.rows);
    let one = vec![vec![Value::Int(1)]];
    let wrapped = |open: &str, core: &str, close: &str, count: usize| {
        format!("select {}{core}{} from t", open.repeat(count), close.repeat(count))
    };
    let chain = |op: &str, count: usize| format!("select {} from t", vec!["a"; count].join(op));
    for (name, sql) in [
        ("parentheses", wrapped("(", "a", ")", 900)),
        ("not", wrapped("not ", "a", "", 900)),
        ("signs", wrapped("- ", "a", "", 900)),
        ("and", chain(" and ", 900)),
        ("plus", chain(" * ", 900)),
        ("functions", wrapped("abs(", "a", ")", 900)),
        ("case", wrapped("case when 1 then ", "a", " end", 900)),
        ("queries", wrapped("(select ", "a", ")", 80)),
    ] {
        let rows = run(&mut connection, sql).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(rows == one || name == "not" || name == "signs", "{name}: {rows:?}");
    }
    for (name, sql) in [
        ("parentheses", wrapped("(", "a", ")", 100_000)),
        ("not", wrapped("not ", "a", "", 100_000)),
        ("and", chain(" and ", 100_000)),
        ("functions", wrapped("abs(", "a", ")", 5_000)),
        ("case", wrapped("case when 1 then ", "a", " end", 5_000)),
        ("queries", wrapped("(select ", "a", ")", 400)),
        ("from", format!("select * from {}t{}", "(select * from ".repeat(400), ")".repeat(400))),
    ] {
        let error = run(&mut connection, sql).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{name}: {error}");
    }
}

#[test]
fn views_that_double_are_bounded() {
    let mut script = "create table t(a); insert into t values (1);".to_owned();
    script += "create view v0 as select * from t;";
    for level in 1..40 {
        let below = level - 1;
        script += &format!("create view v{level} as select x.a from v{below} x, v{below} y;");
    }
    script += "create view loop1 as select * from loop2; create view loop2 as select * from loop1;";
    let scratch = Scratch::new(&script);
    let mut connection = scratch.ours();
    // The last of these reads 512 tables: more than one join may, so not all can be merged.
    for view in ["v1", "v5", "v6", "v7", "v9"] {
        let rows = ours(&mut connection, &format!("select * from {view}")).unwrap().rows;
        assert_eq!(rows, [[Value::Int(1)]], "{view}");
    }
    let error = ours(&mut connection, "select * from v39").unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    let error = ours(&mut connection, "select * from loop1").unwrap_err();
    assert_eq!(error.to_string(), "view loop1 is circularly defined");
}

#[test]
fn damaged_definitions_poison_nothing_else() {
    let scratch = Scratch::new(
        "create table good(a, b); insert into good values (1, 2);
         create table bad(a, b); create view v as select * from bad; create index bad_i on good(a);
         create virtual table ft using fts5(x);
         pragma writable_schema = on;
         update sqlite_schema set sql = 'create table bad(a b c ((' where name = 'bad';
         update sqlite_schema set sql = 'create index bad_i on good(nosuch)' where name = 'bad_i';",
    );
    let mut connection = scratch.ours();
    let rows = ours(&mut connection, "select a, b from good where a = 1").unwrap().rows;
    assert_eq!(rows, [[Value::Int(1), Value::Int(2)]]);
    for sql in ["select * from bad", "select * from v"] {
        let error = ours(&mut connection, sql).unwrap_err();
        assert!(matches!(&error, Error::Schema { object, .. } if object == "bad"), "{error}");
    }
    let error = ours(&mut connection, "select * from ft").unwrap_err();
    assert_eq!(error.to_string(), "no such module: fts5");
    let error = ours(&mut connection, "select * from nosuch").unwrap_err();
    assert!(matches!(error, Error::Name { kind: NameKind::Table, .. }));
}

#[test]
fn a_reader_walks_a_table_without_sql() {
    let mut connection = memory(
        "create table t(a integer primary key, b text, c real, d as (a + 1));
         insert into t values (1, 'x', 1), (5, null, 2.5), (9, 'z', -3);
         create table w(k primary key) without rowid;",
    );
    assert!(matches!(connection.table_reader("t"), Err(Error::Misuse { .. })));
    connection.begin(Mode::Read).unwrap();
    assert!(matches!(connection.table_reader("w"), Err(Error::Unsupported { .. })));
    assert!(matches!(connection.table_reader("x"), Err(Error::Name { .. })));
    let mut reader = connection.table_reader("T").unwrap();
    let mut rows = Vec::new();
    while reader.next().unwrap() {
        let mut value = |column| Value::from(reader.value(column).unwrap());
        rows.push([value(0), value(1), value(2)]);
    }
    assert_eq!(
        rows,
        [
            [Value::Int(1), Value::text("x"), Value::Real(1.0)],
            [Value::Int(5), Value::Null, Value::Real(2.5)],
            [Value::Int(9), Value::text("z"), Value::Real(-3.0)],
        ]
    );
    assert!(reader.rowid().is_err());
    assert!(!reader.seek(3).unwrap() && reader.rowid().unwrap() == 5);
    assert!(reader.seek(9).unwrap() && reader.prev().unwrap() && reader.rowid().unwrap() == 5);
    assert!(matches!(reader.value(3), Err(Error::Unsupported { .. })));
    assert!(matches!(reader.value(4), Err(Error::Misuse { .. })));
    assert!(!reader.seek(10).unwrap() && !reader.is_valid());
    assert!(reader.last().unwrap() && reader.rowid().unwrap() == 9);
}

#[test]
fn pragmas_that_read() {
    let scratch = Scratch::new(
        "create table t(a integer primary key, b text not null default 'x', c real default (1 + 2),
           d as (a + 1), e int as (a) stored, unique (b, c));
         create index t_c on t(c desc, b collate NOCASE) where c > 0;
         create table w(x, y int, z, primary key (y, x)) without rowid;
         create table s(a int) strict;
         create view v(p, q) as select a, b || 'x' from t;
         pragma user_version = 7; pragma application_id = -5;",
    );
    common::check_all(
        &mut scratch.ours(),
        &scratch.theirs(),
        "pragma table_info(t); pragma table_xinfo(t); pragma table_info('w'); pragma table_info = s;
         pragma table_info(v); pragma table_info(nosuch); pragma index_list(t); pragma index_list(w);
         pragma index_info(t_c); pragma index_xinfo(t_c); pragma index_xinfo(sqlite_autoindex_t_1);
         pragma index_info(sqlite_autoindex_w_1); pragma index_xinfo(sqlite_autoindex_w_1);
         pragma user_version; pragma application_id; pragma page_size; pragma page_count;
         pragma schema_version; pragma encoding; pragma freelist_count; pragma main.user_version;
         pragma auto_vacuum; pragma journal_mode; pragma collation_list; pragma table_list(t);
         pragma table_list(v); pragma table_list(w); pragma table_list(s)",
    );
    let mut connection = memory("pragma user_version = 42; pragma application_id = 77");
    assert_eq!(ours(&mut connection, "pragma user_version").unwrap().rows, [[Value::Int(42)]]);
    assert_eq!(ours(&mut connection, "pragma application_id").unwrap().rows, [[Value::Int(77)]]);
}

/// From equal rows with a difference, a `UNION` gives the last part's, and within a part the first;
/// with next to no memory, too.
#[test]
fn equal_rows_of_a_union() {
    let scratch = Scratch::new(
        "create table p(c text collate nocase); insert into p values ('x'), ('X'), ('b'), ('B');
         create table q(c text collate nocase); insert into q values ('X'), ('x'), ('B');
         create table n(c text collate nocase);
         with recursive i(x) as (select 1 union all select x + 1 from i where x < 3000)
         insert into n select 'a row of some length ' || x from i;",
    );
    let peer = scratch.theirs();
    let mut connection = scratch.ours();
    for memory_bytes in [None, Some(6000)] {
        connection.set_limits(Limits { memory_bytes, ..Limits::default() });
        for sql in [
            "select c from p union select 1",
            "select 1 collate nocase union select c || '' from p",
            "select c || '' collate nocase from p union all select c from q union select 1",
            "select c from p union select c from q",
            "select c from p union select c || '' from q",
            "select c from p union select c || '' from q order by 1",
            "select c from p union select c || '' from q union select 'b' order by 1",
            "select c from p union select c || '' from q union all select 'B' union select 1",
            "select c from p except select 'b' union all select 'b' union select 1 order by 1",
            "select c || '' collate nocase from p intersect select c from q union select 'b'",
            "select typeof(x) from (select 1 as x union select 1.0 union all select 2)",
            "select c from n union select upper(c) from n where c like '%1%' order by 1",
            "select c from n union select upper(c) from n union all select c from n union select 'A ROW OF SOME LENGTH 7' order by 1",
            "select upper(c) from n except select c || 'x' from n intersect select c from n union select c from n where c like '%2%' order by 1",
        ] {
            common::check(&mut connection, &peer, sql, &[]).unwrap_or_else(|how| panic!("{how}"));
        }
    }
}

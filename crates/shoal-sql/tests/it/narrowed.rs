//! Narrowed connections: what rules grant, what stays hidden, and every way to look around.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::common::{self, Scratch, ask, lines};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use shoal_sql::{
    ArgumentCount, Clause, ClausePlace, Connection, Entitlement, Error, FunctionFlags, Narrowed,
    TableFunction, TableRule, Value,
};

const FILE: &str = "
    create table note(id integer primary key, owner text, title text collate nocase, body text,
        salary int, raised as (salary + 1));
    create index note_owner on note(owner);
    create index note_salary on note(salary) where salary > 1000;
    insert into note values (1, 'ada', 'Engines', 'steam', 10), (2, 'bob', 'Secrets', 'SECRET', 9999),
        (3, 'ada', 'Notes', NULL, 20), (4, NULL, 'Lost', 'SECRET', 8888);
    create table city(name text primary key, population int) without rowid;
    insert into city values ('Turin', 3), ('London', 9);
    create table vault(secret);
    insert into vault values ('SECRET');
    create view titles as select id, title from note;
    create view of_vault as select * from vault;
    create trigger watch after insert on note begin insert into vault values (new.body); end;
    create table team(person text, of text);
    insert into team values ('ada', 'ada'), ('cy', 'bob'), ('cy', 'ada');
    analyze;";

fn rule() -> TableRule {
    TableRule::of("note").columns(["id", "title", "body"]).rows("owner = :principal")
}

fn narrowed(scratch: &Scratch, principal: &str, rules: Vec<TableRule>) -> Narrowed {
    let mut entitlement = Entitlement::new(principal);
    for rule in rules {
        entitlement.allow(rule).unwrap();
    }
    scratch.ours().narrowed(entitlement).unwrap()
}

/// The answer as a text, or the words of the error.
fn told(narrowed: &mut Narrowed, sql: &str) -> String {
    match ask(narrowed, sql) {
        Ok(table) => lines(&table.rows),
        Err(error) => format!("error: {error}"),
    }
}

#[track_caller]
fn check(narrowed: &mut Narrowed, sql: &str, expect: &str) {
    assert_eq!(told(narrowed, sql), expect, "{sql}");
}

/// The ids and titles that are visible.
type Visible = &'static [(i64, &'static str)];

/// Every kind of rule, seen by every kind of query.
#[test]
fn each_rule_holds_in_each_query() {
    let scratch = Scratch::new(FILE);
    // The rule, the principal, and the visible rows of id and title.
    let cases: Vec<(TableRule, &str, Visible)> = vec![
        (
            TableRule::of("note"),
            "ada",
            &[(1, "Engines"), (2, "Secrets"), (3, "Notes"), (4, "Lost")],
        ),
        (rule(), "ada", &[(1, "Engines"), (3, "Notes")]),
        (rule(), "bob", &[(2, "Secrets")]),
        (rule(), "eve", &[]),
        (rule(), "' OR 1 --", &[]),
        (TableRule::of("note").rows("0"), "ada", &[]),
        (
            TableRule::of("NOTE").rows("salary < 1000 -- low"),
            "ada",
            &[(1, "Engines"), (3, "Notes")],
        ),
        (TableRule::of("note").rows("raised = 11"), "ada", &[(1, "Engines")]),
        (
            TableRule::of("note").rows("owner IN (SELECT of FROM team WHERE person = :principal)"),
            "cy",
            &[(1, "Engines"), (2, "Secrets"), (3, "Notes")],
        ),
        (
            TableRule::of("note").columns(["id"]).mask("title", "'*'").rows("owner IS NULL"),
            "ada",
            &[(4, "*")],
        ),
    ];
    for (rule, principal, visible) in cases {
        let mut narrowed =
            narrowed(&scratch, principal, vec![rule.clone(), TableRule::of("titles")]);
        let ids = visible.iter().map(|(id, _)| format!("Int({id})")).collect::<Vec<_>>().join("\n");
        let both = visible.iter().map(|(id, title)| format!("Int({id})|'{title}'"));
        let both = both.collect::<Vec<_>>().join("\n");
        let count = visible.len();
        for sql in [
            "SELECT id FROM note ORDER BY id",
            "SELECT rowid FROM note ORDER BY oid",
            "SELECT note.id FROM main.note ORDER BY main.note.id",
            "SELECT id FROM titles ORDER BY 1",
            "SELECT id FROM (SELECT * FROM note) ORDER BY id",
            "WITH n AS MATERIALIZED (SELECT * FROM note) SELECT id FROM n ORDER BY 1",
            "SELECT id FROM note UNION SELECT id FROM note ORDER BY 1",
            "SELECT DISTINCT id FROM note GROUP BY id, title ORDER BY id",
            "SELECT b.id FROM note a JOIN note b ON a.id = b.id ORDER BY b.id",
            "SELECT b.id FROM generate_series(1, 9) s JOIN note b ON b.id = s.value ORDER BY 1",
            "SELECT b.id FROM (SELECT 1) LEFT JOIN note b ON 1 WHERE b.id > 0 ORDER BY 1",
            "SELECT value FROM generate_series(1, 9) WHERE value IN (SELECT id FROM note) ORDER BY 1",
            "SELECT value FROM generate_series(1, 9) WHERE EXISTS \
             (SELECT 1 FROM note WHERE id = value) ORDER BY 1",
            "SELECT id FROM note WHERE abs(id) = id ORDER BY id",
            "SELECT first_value(id) OVER (PARTITION BY id) FROM note ORDER BY 1",
        ] {
            check(&mut narrowed, sql, &ids);
        }
        check(&mut narrowed, "SELECT id, title FROM note ORDER BY 1", &both);
        check(&mut narrowed, "SELECT count(*) FROM note", &format!("Int({count})"));
        check(&mut narrowed, "SELECT count(*) FROM titles", &format!("Int({count})"));
        let (least, most) = (visible.first(), visible.last());
        let shown = |end: Option<&(i64, &str)>| {
            end.map_or("Null".to_owned(), |(id, _)| format!("Int({id})"))
        };
        let ends = format!("{}|{}", shown(least), shown(most));
        check(&mut narrowed, "SELECT min(id), max(id) FROM note", &ends);
    }
}

#[test]
fn what_is_not_granted_does_not_exist() {
    let scratch = Scratch::new(FILE);
    let mut it = narrowed(&scratch, "ada", vec![rule(), TableRule::of("of_vault")]);
    for (sql, expect) in [
        ("SELECT * FROM vault", "error: no such table: vault"),
        ("SELECT * FROM main.vault", "error: no such table: main.vault"),
        ("SELECT 1 WHERE 1 IN vault", "error: no such table: vault"),
        ("SELECT * FROM city", "error: no such table: city"),
        ("SELECT salary FROM note", "error: no such column: salary"),
        ("SELECT note.owner FROM note", "error: no such column: note.owner"),
        ("SELECT id FROM note ORDER BY salary", "error: no such column: salary"),
        ("SELECT id FROM note GROUP BY owner", "error: no such column: owner"),
        ("SELECT raised FROM note", "error: no such column: raised"),
        ("SELECT \"salary\" FROM note WHERE id = 1", "'salary'"),
        ("SELECT * FROM note WHERE id = 1", "Int(1)|'Engines'|'steam'"),
        ("SELECT * FROM note WHERE id = 2", ""),
        ("SELECT * FROM note NOT INDEXED WHERE id = 2", ""),
        ("SELECT id FROM note INDEXED BY note_owner", "error: no such index: note_owner"),
        ("SELECT id FROM note INDEXED BY nosuch", "error: no such index: nosuch"),
        // A view reads as its reader does.
        ("SELECT * FROM of_vault", "error: no such table: vault"),
        ("SELECT * FROM titles", "error: no such table: titles"),
        ("SELECT * FROM sqlite_stat1", "error: no such table: sqlite_stat1"),
        ("SELECT * FROM sqlite_sequence", "error: no such table: sqlite_sequence"),
        ("SELECT * FROM dbstat", "error: no such table: dbstat"),
        ("SELECT * FROM pragma_index_list('note')", "error: no such table: pragma_index_list"),
        ("SELECT * FROM pragma_page_count", "error: no such table: pragma_page_count"),
        ("SELECT * FROM pragma_database_list", "error: no such table: pragma_database_list"),
        (
            "SELECT name FROM pragma_table_list ORDER BY 1",
            "'note'\n'of_vault'\n'sqlite_temp_schema'",
        ),
        (
            "SELECT name, type, pk FROM pragma_table_info('note')",
            "'id'|'INTEGER'|Int(1)\n'title'|'TEXT'|Int(0)\n'body'|'TEXT'|Int(0)",
        ),
        ("SELECT name FROM pragma_table_xinfo('vault')", ""),
        ("PRAGMA table_info(vault)", ""),
        (
            "SELECT type, name, tbl_name, rootpage FROM sqlite_schema ORDER BY 2",
            "'table'|'note'|'note'|Null\n'view'|'of_vault'|'of_vault'|Null",
        ),
        (
            "SELECT sql FROM sqlite_master WHERE name = 'note'",
            "'CREATE TABLE \"note\"(\"id\" INTEGER PRIMARY KEY, \"title\" TEXT COLLATE NOCASE, \"body\" TEXT)'",
        ),
        ("SELECT changes(), total_changes(), last_insert_rowid()", "Int(0)|Int(0)|Int(0)"),
        ("SELECT * FROM note('x')", "error: 'note' is not a function"),
        ("SELECT load_extension('x')", "error: not supported: function load_extension()"),
    ] {
        check(&mut it, sql, expect);
    }
}

#[test]
fn other_statements_are_refused_by_name() {
    let scratch = Scratch::new(FILE);
    let mut it = narrowed(&scratch, "ada", vec![rule()]);
    for (sql, word) in [
        ("INSERT INTO note VALUES (9, 'a', 'b')", "INSERT"),
        ("REPLACE INTO note(id) VALUES (9)", "INSERT"),
        ("UPDATE note SET title = 'x'", "UPDATE"),
        ("WITH x AS (SELECT 1) DELETE FROM note", "DELETE"),
        ("CREATE TABLE x(a)", "CREATE TABLE"),
        ("CREATE TEMP TABLE x AS SELECT * FROM note", "CREATE TABLE"),
        ("CREATE TEMP VIEW x AS SELECT * FROM note", "CREATE VIEW"),
        ("CREATE INDEX i ON note(id)", "CREATE INDEX"),
        ("CREATE VIRTUAL TABLE x USING fts5(a)", "CREATE VIRTUAL TABLE"),
        ("CREATE TEMP TRIGGER x AFTER INSERT ON note BEGIN SELECT 1; END", "CREATE TRIGGER"),
        ("DROP TABLE note", "DROP TABLE"),
        ("ALTER TABLE note RENAME TO x", "ALTER TABLE"),
        ("REINDEX", "REINDEX"),
        ("ANALYZE", "ANALYZE"),
        ("VACUUM", "VACUUM"),
        ("VACUUM INTO 'copy.db'", "VACUUM"),
        ("ATTACH ':memory:' AS x", "ATTACH"),
        ("DETACH x", "DETACH"),
        ("BEGIN IMMEDIATE", "BEGIN"),
        ("EXPLAIN SELECT * FROM note", "EXPLAIN"),
        ("EXPLAIN QUERY PLAN SELECT * FROM note", "EXPLAIN"),
        ("EXPLAIN ANALYZE SELECT * FROM note", "EXPLAIN"),
        ("PRAGMA index_list(note)", "index_list"),
        ("PRAGMA foreign_key_list(note)", "foreign_key_list"),
        ("PRAGMA integrity_check", "integrity_check"),
        ("PRAGMA page_count", "page_count"),
        ("PRAGMA schema_version", "schema_version"),
        ("PRAGMA data_version", "data_version"),
        ("PRAGMA database_list", "database_list"),
        ("PRAGMA user_version = 3", "user_version"),
        ("PRAGMA writable_schema = 1", "writable_schema"),
        ("PRAGMA key = 'x'", "key"),
        ("PRAGMA nosuch", "nosuch"),
    ] {
        match ask(&mut it, sql) {
            Err(Error::Denied { message }) => assert!(message.contains(word), "{sql}: {message}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
    for sql in ["BEGIN", "SAVEPOINT a", "ROLLBACK TO a", "RELEASE a", "SELECT 1", "COMMIT"] {
        let mut statement = it.prepare(sql).unwrap();
        it.execute(&mut statement).unwrap();
    }
}

/// Statements of the connection before, prepared with everything in sight.
#[test]
fn statements_of_other_connections_are_refused() {
    let scratch = Scratch::new(FILE);
    let mut whole = scratch.ours();
    let mut it = narrowed(&scratch, "ada", vec![rule()]);
    for sql in ["SELECT * FROM vault", "PRAGMA integrity_check", "ATTACH ':memory:' AS x", "VACUUM"]
    {
        let mut statement = whole.prepare(sql).unwrap();
        assert!(matches!(it.query(&mut statement).err(), Some(Error::Misuse { .. })), "{sql}");
        assert!(matches!(it.execute(&mut statement).err(), Some(Error::Misuse { .. })), "{sql}");
    }
    let mut other = narrowed(&scratch, "bob", vec![rule()]);
    let mut statement = other.prepare("SELECT * FROM note").unwrap();
    assert!(it.query(&mut statement).is_err());
}

#[derive(Debug)]
struct Whole;

impl Clause for Whole {
    fn word(&self) -> &str {
        "WHOLE"
    }

    fn query(&self, _: ClausePlace<'_>, _: &mut Connection) -> Result<(String, usize), Error> {
        panic!("a narrowed connection asks no clause")
    }
}

/// What a program registered could read anything.
#[test]
fn what_a_program_registered_is_left_behind() {
    let scratch = Scratch::new(FILE);
    let mut connection = scratch.ours();
    connection.register_query("mine", "SELECT * FROM vault").unwrap();
    connection.register_clause(Arc::new(Whole));
    let called = |_: &[Value]| -> Result<Value, Error> {
        panic!("a narrowed connection calls no function of the program's")
    };
    connection.create_function("peek", ArgumentCount::Any, FunctionFlags::NONE, called).unwrap();
    connection.create_function("lower", 1, FunctionFlags::NONE, called).unwrap();
    let mut entitlement = Entitlement::new("ada");
    entitlement.allow(rule().rows("lower(owner) = :principal")).unwrap();
    let mut it = connection.narrowed(entitlement).unwrap();
    check(&mut it, "SELECT * FROM mine", "error: no such table: mine");
    check(&mut it, "SELECT peek(id) FROM note", "error: no such function: peek");
    check(&mut it, "SELECT lower(title) FROM note", "'engines'\n'notes'");
    check(
        &mut it,
        "SELECT * FROM whole (1)",
        "error: WHOLE reads whole tables: a narrowed connection has none",
    );
}

/// Table functions made for narrowed connections see the tables as the principal does.
#[test]
fn functions_that_read_by_queries_see_what_is_granted() {
    let scratch = Scratch::new(FILE);
    let mut connection = scratch.ours();
    let counting = |name: &'static str| {
        TableFunction::new(name, &["n", "narrowed"], &["query"], |arguments, context| {
            let Some(Value::Text(sql)) = &arguments[0] else { return Ok(Vec::new()) };
            let (mut rows, sql) = (Vec::new(), String::from_utf8_lossy(sql));
            context.query(&sql, &[], |row| {
                rows.push(Ok(vec![row[0].clone(), Value::from(context.is_narrowed())]));
                Ok(())
            })?;
            Ok(rows)
        })
        .reads_databases()
    };
    connection.create_table_function(counting("others")).unwrap();
    connection.create_table_function(counting("seen").for_narrowed()).unwrap();
    let mut entitlement = Entitlement::new("ada");
    entitlement.allow(rule()).unwrap();
    let mut it = connection.narrowed(entitlement).unwrap();
    for (query, expect) in [
        ("SELECT count(*) FROM note", "Int(2)|Int(1)"),
        ("SELECT count(*) FROM note WHERE abs(id) > 0", "Int(2)|Int(1)"),
        ("SELECT salary FROM note", "error: no such column: salary"),
        ("SELECT count(*) FROM vault", "error: no such table: vault"),
        ("SELECT n FROM others(''SELECT 1'')", "error: no such table: others"),
        ("SELECT \"\0key0\" FROM note", "error: a statement ends before a NUL"),
    ] {
        check(&mut it, &format!("SELECT * FROM seen('{query}')"), expect);
    }
    check(&mut it, "SELECT * FROM others('SELECT 1')", "error: no such table: others");
}

/// Conditions that fail for hidden rows are not asked of them, wherever they stand.
#[test]
fn nothing_that_fails_is_asked_of_hidden_rows() {
    let scratch = Scratch::new(
        "create table t(id integer primary key, who text, n int, j text);
         create index t_n on t(n); create index t_j on t(abs(n)) where who = 'ada';
         insert into t values (1, 'ada', 5, '{\"a\":1}'), (3, 'ada', 7, '[]'),
             (4, 'ada', 9, '2');
         insert into t(who, n, j) with c(x) as (select 1 union all select x + 1 from c limit 50)
             select 'bob', 9223372036854775807, '{bad' from c;
         update t set n = -n - 1 where who = 'bob' and id > 6;",
    );
    // Hidden rows fail the conditions below: by hand, on the whole table, each is an error.
    let mut whole = scratch.ours();
    for sql in [
        "SELECT count(*) FROM t WHERE abs(n) > 0",
        "SELECT count(*) FROM t WHERE json(j) IS NOT NULL",
        "SELECT sum(n) FROM t",
    ] {
        assert!(common::ours(&mut whole, sql).is_err(), "{sql}");
    }
    let rules = |rows: &str| vec![TableRule::of("t").columns(["id", "n", "j"]).rows(rows)];
    let mut it = narrowed(&scratch, "ada", rules("who = :principal"));
    for (sql, expect) in [
        ("SELECT count(*) FROM t WHERE abs(n) > 0", "Int(3)"),
        ("SELECT count(*) FROM t WHERE abs(n) = 5 AND n = 5", "Int(1)"),
        ("SELECT id FROM t WHERE abs(n) + 0 IN (5, 7) ORDER BY n", "Int(1)\nInt(3)"),
        ("SELECT id FROM t WHERE id BETWEEN 2 AND 30 AND json(j) = '[]'", "Int(3)"),
        ("SELECT id FROM t WHERE j ->> '$.a' = 1", "Int(1)"),
        ("SELECT count(*) FROM (SELECT abs(n) AS m, id FROM t) WHERE m > 0 AND id > 1", "Int(2)"),
        (
            "SELECT m, count(*) FROM (SELECT abs(n) AS m FROM t) GROUP BY m ORDER BY m LIMIT 1",
            "Int(5)|Int(1)",
        ),
        ("SELECT count(*) FROM t a JOIN t b ON abs(a.n) = abs(b.n)", "Int(3)"),
        ("SELECT count(*) FROM t a LEFT JOIN t b ON abs(a.n) = abs(b.n) AND a.id = b.id", "Int(3)"),
        ("SELECT count(*) FROM t a FULL JOIN t b ON abs(a.n) = b.n", "Int(3)"),
        ("SELECT count(*) FROM t, json_each(t.j)", "Int(2)"),
        ("SELECT count(*) FROM t, generate_series(1, abs(t.n)) s", "Int(21)"),
        ("SELECT sum(n), max(abs(n)) FROM t", "Int(21)|Int(9)"),
        ("SELECT sum(abs(n)) FILTER (WHERE json_valid(j)) FROM t", "Int(21)"),
        ("SELECT id FROM t ORDER BY abs(n) DESC LIMIT 1", "Int(4)"),
        ("SELECT sum(abs(n)) OVER (ORDER BY id) FROM t LIMIT 1", "Int(5)"),
        (
            "SELECT (SELECT abs(b.n) FROM t b WHERE b.id >= a.id ORDER BY 1 LIMIT 1) FROM t a WHERE id = 1",
            "Int(5)",
        ),
        ("SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE abs(u.n) > t.n)", "Int(2)"),
        ("SELECT count(*) FROM t WHERE n IN (SELECT abs(n) FROM t)", "Int(3)"),
        (
            "SELECT count(*) FROM t WHERE abs(n) IN (SELECT n FROM t WHERE json(j) IS NOT NULL)",
            "Int(3)",
        ),
        ("SELECT count(*) FROM t GROUP BY '' HAVING sum(n) > 1", "Int(3)"),
        (
            "SELECT group_concat(j, '') FROM (SELECT json(j) AS j FROM t ORDER BY id)",
            "'{\"a\":1}[]2'",
        ),
    ] {
        check(&mut it, sql, expect);
    }
    // A failure that depends on no row tells whether there is a row to be asked: a hidden row is
    // as absent as one that was never there.
    for sql in [
        "SELECT id FROM t WHERE id = 10 AND abs(-9223372036854775808)",
        "SELECT id FROM t WHERE id = 10 AND (SELECT abs(-9223372036854775808)) = 1",
        "SELECT id FROM t WHERE id = 10 AND EXISTS (SELECT 1 LIMIT 'x')",
        "SELECT id FROM t WHERE id = 10 AND EXISTS (SELECT 1 FROM t u LIMIT abs(-9223372036854775808))",
        "SELECT id FROM t WHERE id = 10 AND j LIKE 'x' ESCAPE 'no'",
        "SELECT id FROM t WHERE id = 10 AND j LIKE replace(hex(zeroblob(40000)), '0', '%')",
        "SELECT id, e FROM t, (SELECT abs(-9223372036854775808) AS e) WHERE id = 10",
        "SELECT id FROM t, json_each('{bad') WHERE id = 10",
        "SELECT id FROM t LEFT JOIN (SELECT 1 AS x) ON abs(-9223372036854775808) WHERE id = 10",
        "SELECT abs(-9223372036854775808) FROM t WHERE id = 10",
        "SELECT (SELECT sum(n) FROM t u WHERE u.id = t.id) FROM t WHERE id = 10",
        "SELECT id FROM t WHERE CASE id WHEN 10 THEN json('{bad') END",
        "SELECT id FROM t WHERE coalesce(nullif(id, 10), abs(-9223372036854775808)) > 99999",
        "WITH RECURSIVE r(x) AS (SELECT 10 UNION SELECT abs(n) FROM t, r WHERE id = x) SELECT * FROM r",
    ] {
        let absent = told(&mut it, &sql.replace("10", "77"));
        assert_eq!(told(&mut it, sql).replace("10", "77"), absent, "{sql}");
    }
    // The same with visible rows fails, as it does for anybody.
    check(
        &mut it,
        "SELECT id FROM t WHERE id = 1 AND abs(-9223372036854775808)",
        "error: integer overflow",
    );
    let mut none = narrowed(&scratch, "eve", rules("who = :principal"));
    check(&mut none, "SELECT abs(-9223372036854775808) FROM t", "");
    check(&mut none, "SELECT sum(n), count(*) FROM t WHERE abs(n)", "Null|Int(0)");
}

/// Parameters change no plan: what is bound later may be what makes a condition fail.
#[test]
fn bound_values_are_no_way_around() {
    let scratch = Scratch::new(FILE);
    let mut it = narrowed(&scratch, "ada", vec![rule()]);
    let mut statement = it.prepare("SELECT id FROM note WHERE id = ? AND title LIKE ?").unwrap();
    statement.bind(1, 2i64).unwrap();
    statement.bind(2, "%".repeat(60_000).as_str()).unwrap();
    assert!(it.query(&mut statement).unwrap().next().unwrap().is_none());
    statement.bind(1, 1i64).unwrap();
    assert!(
        it.query(&mut statement).and_then(|mut rows| rows.next().map(|row| row.is_some())).is_err()
    );
    let mut twice = it.prepare("SELECT id FROM note WHERE id = ?1").unwrap();
    twice.bind(1, 2i64).unwrap();
    assert!(it.query(&mut twice).unwrap().next().unwrap().is_none());
}

#[test]
fn rules_that_do_not_fit_are_named() {
    let scratch = Scratch::new(&format!("{FILE} create virtual table docs using fts5(body);"));
    let refused = |rule: TableRule| {
        let mut entitlement = Entitlement::new("ada");
        entitlement.allow(rule).unwrap();
        scratch.ours().narrowed(entitlement).unwrap_err().to_string()
    };
    let note = || TableRule::of("note");
    for (rule, words) in [
        (note().rows("nosuch = 1"), "the rule of note: no such column: nosuch"),
        (note().columns(["id", "nosuch"]), "the rule of note: no such column: nosuch"),
        (note().mask("nosuch", "1"), "the rule of note: no such column: nosuch"),
        (note().mask("body", "1").mask("BODY", "2"), "two masks"),
        (note().columns::<String>([]), "at least one column"),
        (note().rows("abs(salary) > 1"), "safe functions only"),
        (note().rows("body || title = 'x'"), "safe functions only"),
        (note().rows("json(body) = '1'"), "safe functions only"),
        (note().rows("owner LIKE title"), "safe functions only"),
        (note().rows("random() > 0"), "safe functions only"),
        (note().rows("peek(owner)"), "no such function: peek"),
        (note().rows("count(*) > 1"), "misuse of aggregate"),
        (note().rows("id IN (SELECT sum(id) FROM note)"), "safe functions only"),
        (note().mask("salary", "abs(salary)"), "the mask of salary"),
        (TableRule::of("titles").columns(["id"]), "a view is granted as a whole"),
        (TableRule::of("docs"), "no such module: fts5"),
        (TableRule::of("docs").delete(), "read under rules, and never written"),
    ] {
        let message = refused(rule);
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(
        told(&mut narrowed(&scratch, "ada", vec![TableRule::of("nosuch")]), "SELECT 1"),
        "Int(1)"
    );
}

#[test]
fn masks_and_unlisted_tables() {
    let scratch = Scratch::new(FILE);
    let masked = TableRule::of("note")
        .columns(["id"])
        .mask("owner", "substr(owner, 1, 1) || '***'")
        .mask("salary", "salary / 10 * 10")
        .mask("body", "NULL");
    let mut it = narrowed(&scratch, "ada", vec![masked, TableRule::of("city").unlisted()]);
    let expect = "Int(1)|'a***'|Null|Int(10)\nInt(2)|'b***'|Null|Int(9990)\n\
                  Int(3)|'a***'|Null|Int(20)\nInt(4)|Null|Null|Int(8880)";
    check(&mut it, "SELECT * FROM note ORDER BY id", expect);
    check(&mut it, "SELECT id FROM note WHERE salary = 9999", "");
    check(&mut it, "SELECT id FROM note WHERE salary = 9990", "Int(2)");
    check(&mut it, "SELECT id FROM note WHERE body = 'SECRET' OR body IS NOT NULL", "");
    check(&mut it, "SELECT owner FROM note GROUP BY owner ORDER BY 1", "Null\n'a***'\n'b***'");
    check(&mut it, "SELECT name FROM sqlite_schema", "'note'");
    check(&mut it, "SELECT name FROM city ORDER BY population", "'Turin'\n'London'");
    check(&mut it, "SELECT rowid FROM city", "error: no such column: rowid");
    let only = TableRule::of("note").columns(["title"]).mask("id", "0");
    let mut it = narrowed(&scratch, "ada", vec![only]);
    check(&mut it, "SELECT DISTINCT id FROM note", "Int(0)");
    check(&mut it, "SELECT rowid FROM note", "error: no such column: rowid");
}

/// A rule that no longer fits closes its table, and no other.
#[test]
fn a_changed_schema_closes_what_no_longer_fits() {
    let scratch = Scratch::new(FILE);
    let mut it =
        narrowed(&scratch, "ada", vec![rule(), TableRule::of("city"), TableRule::of("later")]);
    check(&mut it, "SELECT count(*) FROM note", "Int(2)");
    let theirs = scratch.theirs();
    theirs.execute_batch("create table later(x); insert into later values (1)").unwrap();
    check(&mut it, "SELECT * FROM later", "Int(1)");
    check(&mut it, "SELECT count(*) FROM note", "Int(2)");
    theirs.execute_batch("alter table note rename column owner to author").unwrap();
    let closed =
        "error: malformed database schema (note): its rule does not fit the table as it is now";
    check(&mut it, "SELECT count(*) FROM note", closed);
    check(&mut it, "SELECT count(*) FROM city", "Int(2)");
}

const WORDS: &[&str] = &[
    "SELECT",
    "*",
    ",",
    "FROM",
    "note",
    "WHERE",
    "vault",
    "city",
    "salary",
    "owner",
    "id",
    "rowid",
    "title",
    "body",
    "(",
    ")",
    "=",
    "<",
    "1",
    "2",
    "'SECRET'",
    "ORDER BY",
    "GROUP BY",
    "LIMIT 9",
    "JOIN",
    "LEFT JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "IN",
    "abs(id)",
    "abs(body)",
    "json(body)",
    "sqlite_schema",
    "sqlite_stat1",
    "sql",
    "name",
    "pragma_table_info('note')",
    "pragma_table_list",
    "PRAGMA",
    "table_info(note)",
    "EXPLAIN",
    "QUERY PLAN",
    "UNION",
    "(SELECT max(id) FROM note)",
    "titles",
    "of_vault",
    "a",
    "AS",
    "USING (id)",
    "NATURAL",
    "EXISTS",
    "-9223372036854775808",
    "note.*",
    "INDEXED BY note_salary",
    "\"salary\"",
    "|| body",
    "LIKE body",
    "WITH note AS (SELECT 1)",
    "hidden_table",
    "note_owner",
    "INSERT INTO note",
    "VALUES (1, 2, 3)",
    "DELETE FROM vault",
    "ATTACH",
    "main.",
    "temp.",
    "json_each(body)",
    "typeof(salary)",
    "sqlite_sequence",
];

fn statement() -> impl Strategy<Value = String> {
    let words =
        prop::collection::vec(prop::sample::select(WORDS), 1..14).prop_map(|words| words.join(" "));
    let tail =
        prop::collection::vec(prop::sample::select(WORDS), 0..8).prop_map(|words| words.join(" "));
    let source = prop::sample::select(vec![
        "note",
        "note a JOIN note b USING (id)",
        "titles",
        "sqlite_schema",
        "note, city",
    ]);
    let shown = prop::sample::select(vec![
        "*",
        "count(*)",
        "id",
        "sum(id)",
        "abs(id)",
        "max(rowid)",
        "title, body",
    ]);
    prop_oneof![
        1 => words,
        3 => (shown, source, tail).prop_map(|(shown, source, tail)| format!("SELECT {shown} FROM {source} {tail}")),
    ]
}

/// Two files that differ in what is hidden: no statement tells them apart.
#[test]
fn statements_tell_nothing_of_what_is_hidden() {
    let other = "
        create table note(id integer primary key, extra, owner text, title text collate nocase, body text,
            salary text, more);
        insert into note(id, owner, title, body, salary) values (1, 'ada', 'Engines', 'steam', 'x'),
            (3, 'ada', 'Notes', NULL, 20), (7, 'bob', 'Other', '{bad', -9223372036854775807),
            (-9223372036854775808, 'bob', 'Least', 'x', 1);
        create table city(name text primary key, population int) without rowid;
        insert into city values ('Turin', 3), ('London', 9);
        create view titles as select id, title from note;
        create index hidden_index on note(body);
        create table hidden_table(a, b);";
    let (first, second) = (Scratch::new(FILE), Scratch::new(other));
    let rules = || vec![rule(), TableRule::of("city"), TableRule::of("titles")];
    let first = RefCell::new(narrowed(&first, "ada", rules()));
    let second = RefCell::new(narrowed(&second, "ada", rules()));
    let cases = std::env::var("SHOAL_SQL_CASES").ok().and_then(|text| text.parse().ok());
    let mut runner = TestRunner::new(ProptestConfig {
        cases: cases.unwrap_or(4000),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let answered = Cell::new(0);
    runner
        .run(&statement(), |sql| {
            let (one, two) =
                (told(&mut first.borrow_mut(), &sql), told(&mut second.borrow_mut(), &sql));
            answered.set(answered.get() + usize::from(!one.starts_with("error")));
            let sorted = |text: &str| {
                let mut lines: Vec<&str> = text.lines().collect();
                lines.sort_unstable();
                lines.join("\n")
            };
            prop_assert_eq!(sorted(&one), sorted(&two), "{}", sql);
            prop_assert!(!one.contains("SECRET") || sql.contains("SECRET"), "{sql}: {one}");
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    // Most random words are no SQL, but many are.
    assert!(answered.get() > 100, "{} statements have an answer", answered.get());
}

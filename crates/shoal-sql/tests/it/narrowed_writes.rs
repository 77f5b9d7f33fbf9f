//! Writes of narrowed connections: grants of rules, refusals by name, and random statements beside
//! the same statements on a copy without the hidden rows and columns.

use std::path::Path;
use std::sync::Arc;

use crate::common::{ask, lines, ours, sort};
use shoal_sql::{Connection, Entitlement, Error, Narrowed, TableRule, WrittenColumns};
use shoal_store::{Access, Store, vfs::OsVfs};
use shoal_testkit::Random;
use tempfile::TempDir;

const FILE: &str = "
    create table note(id integer primary key, owner text default 'ada', title text not null,
        body text, salary int default 5 check (salary < 100), raised as (salary + 1),
        code text unique, badge int unique, constraint short check (length(title) < 10));
    insert into note(id, owner, title, body, salary, code, badge) values
        (1, 'ada', 'Engines', 'steam', 10, 'a', 1), (2, 'bob', 'Secrets', 'SECRET', 99, 'b', 2),
        (3, 'ada', 'Notes', NULL, 20, 'c', 3), (4, NULL, 'Lost', 'SECRET', 88, 'd', 4);
    create table city(name text primary key, population int) without rowid;
    insert into city values ('Turin', 3), ('London', 9);
    create table hiddenkey(a, secret, b, primary key (secret, a)) without rowid;
    insert into hiddenkey values (1, 's', 1), (1, 't', 2), (2, 's', 3);
    create table list(what text);
    create table bare(what text);
    create table counted(id integer primary key autoincrement, what text);
    insert into counted(what) values ('one');
    create table fired(id integer primary key, n);
    create trigger watch after insert on fired begin insert into list values ('fired'); end;
    create table child(id integer primary key, parent int references list(rowid), n);
    create table parent(id integer primary key, n);
    create table other(p int references parent(id));
    create table replacing(id integer primary key, a unique on conflict replace);
    create table team(person text, of text);
    insert into team values ('cy', 'bob'), ('cy', 'ada');
    create view titles as select id, title from note;";

struct File(TempDir);

impl File {
    fn new(script: &str) -> File {
        let file = File(tempfile::tempdir().unwrap());
        let mut connection = file.open(Access::Create);
        for range in shoal_sql::Statements::new(script) {
            ours(&mut connection, &script[range]).unwrap();
        }
        file
    }

    fn open(&self, access: Access) -> Connection {
        let path = self.0.path().join("t.db");
        let path: &Path = &path;
        Connection::open(Store::open(Arc::new(OsVfs), path, access).unwrap()).unwrap()
    }

    fn narrowed(&self, principal: &str, rules: Vec<TableRule>) -> Narrowed {
        let mut entitlement = Entitlement::new(principal);
        for rule in rules {
            entitlement.allow(rule).unwrap();
        }
        self.open(Access::ReadWrite).narrowed(entitlement).unwrap()
    }

    /// All of a query's rows, as the owner of the file reads them.
    fn all(&self, sql: &str) -> String {
        lines(&ours(&mut self.open(Access::ReadOnly), sql).unwrap().rows)
    }
}

/// Runs a statement, and gives the number of changed rows or the error's words.
fn run(narrowed: &mut Narrowed, sql: &str) -> String {
    let before = narrowed.total_changes();
    match ask(narrowed, sql) {
        Ok(_) => (narrowed.total_changes() - before).to_string(),
        Err(error) => format!("error: {error}"),
    }
}

fn only<const N: usize>(names: [&str; N]) -> WrittenColumns {
    WrittenColumns::Only(names.map(str::to_owned).to_vec())
}

fn rule() -> TableRule {
    TableRule::of("note")
        .columns(["id", "title", "body", "code"])
        .rows("owner = :principal")
        .insert(only(["id", "title", "code"]))
        .update(only(["title", "body", "code"]))
        .delete()
}

#[test]
fn rows_are_written_as_far_as_rules_grant() {
    let file = File::new(FILE);
    let mut ada = file.narrowed("ada", vec![rule(), TableRule::of("titles")]);
    for (sql, expect) in [
        ("INSERT INTO note(id, title) VALUES (10, 'New')", "1"),
        ("INSERT INTO note(title, id) SELECT 'From ' || id, id + 100 FROM note WHERE id = 3", "1"),
        ("UPDATE note SET title = upper(title) WHERE body IS NULL", "3"),
        (
            "UPDATE note SET body = t.title || '!' FROM titles t WHERE t.id = note.id AND t.id = 3",
            "1",
        ),
        ("UPDATE note AS n SET (body, title) = ('b', n.title || '.') WHERE n.id = 10", "1"),
        // Hidden rows are no rows.
        ("UPDATE note SET title = 'x' WHERE id IN (2, 4)", "0"),
        ("DELETE FROM note WHERE id = 2", "0"),
        ("UPDATE note SET title = 'x' WHERE code = 'b'", "0"),
        ("WITH gone AS (SELECT 103 AS id) DELETE FROM note WHERE id IN (SELECT id FROM gone)", "1"),
        ("DELETE FROM note WHERE abs(id) = 10", "1"),
        // No grant for a column.
        (
            "INSERT INTO note(id, title, body) VALUES (11, 'a', 'b')",
            "error: INSERT into note is not granted for column body",
        ),
        (
            "INSERT INTO note VALUES (11, 'a', 'b', 'c')",
            "error: INSERT into note is not granted for column body",
        ),
        ("UPDATE note SET id = 11", "error: UPDATE of note is not granted for column id"),
        ("UPDATE note SET rowid = 11", "error: UPDATE of note is not granted for column rowid"),
        // Hidden columns are none.
        (
            "INSERT INTO note(id, title, salary) VALUES (11, 'a', 1)",
            "error: table note has no column named salary",
        ),
        (
            "INSERT INTO note(id, title, nosuch) VALUES (11, 'a', 1)",
            "error: table note has no column named nosuch",
        ),
        ("UPDATE note SET owner = 'bob'", "error: no such column: owner"),
        ("UPDATE note SET title = salary", "error: no such column: salary"),
        ("DELETE FROM note WHERE raised > 1", "error: no such column: raised"),
        ("INSERT INTO note(title) SELECT owner FROM note", "error: no such column: owner"),
        // Constraints over visible columns fail in their own words, others without any.
        ("UPDATE note SET title = NULL", "error: NOT NULL constraint failed: note.title"),
        ("UPDATE note SET title = 'much too long'", "error: CHECK constraint failed: short"),
        ("UPDATE note SET code = 'c' WHERE id = 1", "error: UNIQUE constraint failed: note.code"),
        ("INSERT INTO note(id, title) VALUES (1, 'a')", "error: UNIQUE constraint failed: note.id"),
        // Clauses with a way around.
        (
            "REPLACE INTO note(id, title) VALUES (2, 'a')",
            "error: INSERT OR REPLACE is not for a narrowed connection",
        ),
        (
            "INSERT OR IGNORE INTO note(id, title) VALUES (2, 'a')",
            "error: INSERT OR IGNORE is not for a narrowed connection",
        ),
        (
            "UPDATE OR REPLACE note SET code = 'b'",
            "error: UPDATE OR REPLACE is not for a narrowed connection",
        ),
        (
            "INSERT INTO note(id, title) VALUES (2, 'a') ON CONFLICT DO UPDATE SET title = 'x'",
            "error: UNIQUE constraint failed: note.id",
        ),
        ("UPDATE note SET title = 'x' RETURNING salary", "error: no such column: salary"),
        ("DELETE FROM note RETURNING salary", "error: no such column: salary"),
        ("DELETE FROM titles", "error: cannot modify titles because it is a view"),
        ("DELETE FROM city", "error: no such table: city"),
        ("DELETE FROM nosuch", "error: no such table: nosuch"),
        (
            "INSERT INTO sqlite_schema(name) VALUES ('x')",
            "error: cannot modify sqlite_schema because it is a view",
        ),
        (
            "CREATE TABLE x (a)",
            "error: CREATE TABLE is not for a connection that only reads what is granted",
        ),
        (
            "DELETE FROM note INDEXED BY sqlite_autoindex_note_1 WHERE 1",
            "error: no such index: sqlite_autoindex_note_1",
        ),
        ("UPDATE note SET title = \"\0key0\"", "error: a statement ends before a NUL"),
    ] {
        assert_eq!(run(&mut ada, sql), expect, "{sql}");
    }
    assert_eq!(
        file.all("SELECT id, owner, title, body, salary, code FROM note ORDER BY id"),
        "Int(1)|'ada'|'Engines'|'steam'|Int(10)|'a'\nInt(2)|'bob'|'Secrets'|'SECRET'|Int(99)|'b'\n\
         Int(3)|'ada'|'NOTES'|'NOTES!'|Int(20)|'c'\nInt(4)|Null|'Lost'|'SECRET'|Int(88)|'d'"
    );
    assert_eq!(run(&mut ada, "DELETE FROM note"), "2");
    assert_eq!(file.all("SELECT id FROM note ORDER BY id"), "Int(2)\nInt(4)");
    assert_eq!(file.all("PRAGMA integrity_check"), "'ok'");
}

#[test]
fn a_row_meets_the_predicate_before_and_after() {
    let file = File::new(FILE);
    let open = |who: &str| {
        let rule = TableRule::of("note").columns(["id", "owner", "title", "salary"]);
        let writes = rule.insert(WrittenColumns::Visible).update(WrittenColumns::Visible);
        let member = "owner IN (SELECT of FROM team WHERE person = :principal) AND raised < 50";
        file.narrowed(who, vec![writes.rows(member)])
    };
    let refused = "error: the rule of note does not grant a row of these values";
    let mut cy = open("cy");
    for (sql, expect) in [
        ("INSERT INTO note(id, owner, title) VALUES (10, 'bob', 'a')", "1"),
        ("INSERT INTO note(id, owner, title) VALUES (11, 'eve', 'a')", refused),
        ("INSERT INTO note(id, owner, title) VALUES (11, NULL, 'a')", refused),
        // The default of a column counts; so does a generated column.
        ("INSERT INTO note(id, title) VALUES (11, 'a')", "1"),
        ("INSERT INTO note(id, title, salary) VALUES (12, 'a', 48)", "1"),
        ("INSERT INTO note(id, title, salary) VALUES (13, 'a', 49)", refused),
        ("UPDATE note SET owner = 'bob' WHERE owner = 'ada'", "4"),
        ("UPDATE note SET owner = 'eve' WHERE id = 10", refused),
        ("UPDATE note SET salary = salary + 45", refused),
        // A row outside the predicate is refused before any look at another row's key.
        ("INSERT INTO note(id, owner, title) VALUES (2, 'eve', 'a')", refused),
        ("UPDATE note SET id = 2, owner = 'eve' WHERE id = 10", refused),
        // One row refused takes all of the statement back.
        ("INSERT INTO note(id, owner, title) VALUES (20, 'bob', 'a'), (21, 'eve', 'a')", refused),
        ("UPDATE note SET id = id + 100", "5"),
    ] {
        assert_eq!(run(&mut cy, sql), expect, "{sql}");
    }
    assert_eq!(
        file.all("SELECT id, owner FROM note ORDER BY id"),
        "Int(2)|'bob'\nInt(4)|Null\nInt(101)|'bob'\nInt(103)|'bob'\nInt(110)|'bob'\nInt(111)|'bob'\n\
         Int(112)|'bob'"
    );
    assert_eq!(
        run(&mut open("eve"), "INSERT INTO note(owner, title) VALUES ('bob', 'a')"),
        refused
    );
    // A statement in a transaction, taken back and committed.
    for sql in [
        "BEGIN IMMEDIATE",
        "UPDATE note SET title = 'x'",
        "ROLLBACK",
        "BEGIN",
        "UPDATE note SET title = 'y' WHERE id = 101",
        "COMMIT",
    ] {
        assert!(!run(&mut cy, sql).starts_with("error"), "{sql}");
    }
    assert_eq!(file.all("SELECT id FROM note WHERE title IN ('x', 'y')"), "Int(101)");
}

/// The rows that a statement gives, or the error's words.
fn given(narrowed: &mut Narrowed, sql: &str) -> String {
    match ask(narrowed, sql) {
        Ok(answer) => lines(&answer.rows),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn returning_gives_the_part_in_sight() {
    let file = File::new(FILE);
    let rule = TableRule::of("note")
        .columns(["id", "owner", "title", "code"])
        .rows("owner = :principal")
        .mask("salary", "salary / 10 * 10")
        .insert(only(["id", "owner", "title", "code"]))
        .update(only(["title", "code"]))
        .delete();
    let bare = TableRule::of("bare").columns(["what"]).insert(WrittenColumns::Visible);
    let mut ada = file.narrowed("ada", vec![rule, bare]);
    for (sql, expect) in [
        (
            "INSERT INTO note(id, title) VALUES (10, 'New') RETURNING *",
            "Int(10)|'ada'|'New'|Int(0)|Null",
        ),
        (
            "UPDATE note SET title = title || '!' WHERE id = 3 RETURNING title, salary, note.id, rowid",
            "'Notes!'|Int(20)|Int(3)|Int(3)",
        ),
        (
            "DELETE FROM note WHERE id = 10 RETURNING salary + 1, (SELECT count(*) FROM note)",
            "Int(1)|Int(2)",
        ),
        ("UPDATE note SET title = 'x' WHERE id IN (2, 4) RETURNING *", ""),
        ("DELETE FROM note WHERE id = 2 RETURNING id", ""),
        ("UPDATE note SET title = 'x' RETURNING badge", "error: no such column: badge"),
        ("DELETE FROM note RETURNING note.raised", "error: no such column: note.raised"),
        ("INSERT INTO bare VALUES ('a') RETURNING rowid", "error: no such column: rowid"),
        // The counter stays at the row of note, whose rowid is visible.
        ("INSERT INTO bare VALUES ('a') RETURNING last_insert_rowid(), what", "Int(10)|'a'"),
        // The statement's own expression fails in its own words, and nothing is stored.
        (
            "INSERT INTO note(id, title) VALUES (11, 'a') RETURNING abs(-9223372036854775807 - (id - 10))",
            "error: integer overflow",
        ),
    ] {
        assert_eq!(given(&mut ada, sql), expect, "{sql}");
    }
    assert_eq!(file.all("SELECT id FROM note ORDER BY id"), "Int(1)\nInt(2)\nInt(3)\nInt(4)");
}

#[test]
fn on_conflict_meets_rows_in_sight() {
    let file = File::new(FILE);
    let rule = || {
        TableRule::of("note")
            .columns(["id", "owner", "title", "code"])
            .rows("owner = :principal")
            .mask("salary", "salary / 10 * 10")
            .insert(only(["id", "owner", "title", "code"]))
    };
    let mut ada = file.narrowed("ada", vec![rule().update(only(["owner", "title", "code"]))]);
    let hidden = "error: note is not changed under rules: a constraint on columns that are not \
                  granted fails";
    let refused = "error: the rule of note does not grant a row of these values";
    for (sql, expect) in [
        (
            "INSERT INTO note(id, title) VALUES (1, 'New') ON CONFLICT (id) \
             DO UPDATE SET title = excluded.title || note.salary RETURNING id, title",
            "Int(1)|'New10'",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'b'), (12, 'c') ON CONFLICT (id) \
             DO UPDATE SET title = excluded.salary WHERE note.salary > 10 RETURNING id",
            "Int(12)",
        ),
        (
            "INSERT INTO note(id, title, code) VALUES (20, 'x', 'c') ON CONFLICT DO NOTHING \
             RETURNING id",
            "",
        ),
        (
            "INSERT INTO note(id, title, code) VALUES (20, 'x', 'c') ON CONFLICT (code) \
             DO UPDATE SET code = 'e' RETURNING id, code",
            "Int(3)|'e'",
        ),
        // A hidden row in the way fails the statement, as without the clause.
        (
            "INSERT INTO note(id, title) VALUES (2, 'x') ON CONFLICT (id) DO NOTHING",
            "error: UNIQUE constraint failed: note.id",
        ),
        (
            "INSERT INTO note(id, title) VALUES (2, 'x') ON CONFLICT DO NOTHING",
            "error: UNIQUE constraint failed: note.id",
        ),
        (
            "INSERT INTO note(id, title, code) VALUES (20, 'x', 'b') ON CONFLICT (code) \
             DO UPDATE SET title = 'stolen'",
            "error: UNIQUE constraint failed: note.code",
        ),
        // The proposed row and the updated one meet the predicate.
        (
            "INSERT INTO note(id, owner, title) VALUES (1, 'bob', 'x') ON CONFLICT (id) \
             DO UPDATE SET title = 'x'",
            refused,
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET owner = 'bob'",
            refused,
        ),
        // Hidden columns are none, in every part of the clause.
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (badge) DO NOTHING",
            "error: no such column: badge",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET title = body",
            "error: no such column: body",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) \
             DO UPDATE SET title = excluded.badge",
            "error: no such column: excluded.badge",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (salary) DO NOTHING",
            "error: ON CONFLICT of salary is masked",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (lower(title)) DO NOTHING",
            "error: ON CONFLICT under rules names columns, and no expressions",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) WHERE id > 0 DO NOTHING",
            "error: ON CONFLICT under rules names columns, without WHERE behind them",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET id = 9",
            "error: UPDATE of note is not granted for column id",
        ),
        (
            "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT (id) \
             DO UPDATE SET title = abs(-9223372036854775807 - note.id)",
            "error: integer overflow",
        ),
    ] {
        assert_eq!(given(&mut ada, sql), expect, "{sql}");
    }
    assert_eq!(
        file.all("SELECT id, owner, title, code FROM note ORDER BY id"),
        "Int(1)|'ada'|'New10'|'a'\nInt(2)|'bob'|'Secrets'|'b'\nInt(3)|'ada'|'Notes'|'e'\n\
         Int(4)|Null|'Lost'|'d'\nInt(12)|'ada'|'c'|Null"
    );
    let mut eve = file.narrowed("ada", vec![rule()]);
    let sql = "INSERT INTO note(id, title) VALUES (1, 'x') ON CONFLICT DO UPDATE SET title = 'x'";
    assert_eq!(given(&mut eve, sql), "error: UPDATE of note is not granted");
    // A key over hidden columns meets no clause: a default of theirs would be told.
    ours(&mut file.open(Access::ReadWrite), "CREATE UNIQUE INDEX pay ON note(salary)").unwrap();
    let sql = "INSERT INTO note(id, title) VALUES (30, 'x') ON CONFLICT DO NOTHING";
    assert_eq!(given(&mut eve, sql), hidden);
    assert_eq!(file.all("PRAGMA integrity_check"), "'ok'");
}

#[test]
fn keys_rowids_and_counters_may_be_hidden() {
    let file = File::new(FILE);
    let all = || (WrittenColumns::Visible, WrittenColumns::Visible);
    let writes = |rule: TableRule| rule.insert(all().0).update(all().1).delete();
    let mut eve = file.narrowed(
        "eve",
        vec![
            writes(TableRule::of("hiddenkey").columns(["a", "b"]).rows("secret = 's'")),
            writes(TableRule::of("city")),
            writes(TableRule::of("bare").columns(["what"])),
            writes(TableRule::of("counted").columns(["what"])),
        ],
    );
    for (sql, expect) in [
        ("UPDATE hiddenkey SET b = b * 10", "2"),
        ("DELETE FROM hiddenkey WHERE b = 30", "1"),
        ("INSERT INTO city VALUES ('Oslo', 1)", "1"),
        ("UPDATE city SET name = name || '!' WHERE population > 2", "2"),
        ("INSERT INTO city VALUES ('Oslo', 1)", "error: UNIQUE constraint failed: city.name"),
        ("INSERT INTO bare VALUES ('a'), ('b')", "2"),
        (
            "INSERT INTO bare(rowid, what) VALUES (9, 'c')",
            "error: table bare has no column named rowid",
        ),
        ("UPDATE bare SET rowid = 9", "error: no such column: rowid"),
        ("INSERT INTO counted VALUES ('two')", "1"),
        ("INSERT INTO counted DEFAULT VALUES", "1"),
    ] {
        assert_eq!(run(&mut eve, sql), expect, "{sql}");
    }
    assert_eq!(file.all("SELECT * FROM hiddenkey"), "Int(1)|'s'|Int(10)\nInt(1)|'t'|Int(2)");
    assert_eq!(file.all("SELECT id FROM counted"), "Int(1)\nInt(2)\nInt(3)");
    assert_eq!(file.all("SELECT seq FROM sqlite_sequence"), "Int(3)");
    // Hidden rowids are told by no counter.
    assert_eq!(eve.last_insert_rowid(), 0);
    assert_eq!(lines(&ask(&mut eve, "SELECT last_insert_rowid()").unwrap().rows), "Int(0)");
    assert_eq!(file.all("PRAGMA integrity_check"), "'ok'");
}

#[test]
fn what_is_hidden_is_in_no_error() {
    let file = File::new(FILE);
    let rule = TableRule::of("note").columns(["id", "title", "badge"]).rows("owner = :principal");
    let writes = rule.insert(WrittenColumns::Visible).update(WrittenColumns::Visible);
    let mut ada = file.narrowed(
        "ada",
        vec![writes, TableRule::of("team").columns(["person"]).insert(WrittenColumns::Visible)],
    );
    let mut owner = file.open(Access::ReadWrite);
    for sql in [
        "CREATE UNIQUE INDEX pay ON note(salary)",
        "CREATE UNIQUE INDEX pair ON note(title, salary)",
        "CREATE INDEX fails ON note(abs(salary))",
        "CREATE TABLE must(a, secret NOT NULL)",
    ] {
        ours(&mut owner, sql).unwrap();
    }
    drop(owner);
    let hidden = "error: note is not changed under rules: a constraint on columns that are not \
                  granted fails";
    // The default of a hidden column is taken already: its index is not named.
    assert_eq!(run(&mut ada, "INSERT INTO note(id, title) VALUES (30, 'a')"), "1");
    assert_eq!(run(&mut ada, "INSERT INTO note(id, title) VALUES (31, 'a')"), hidden);
    let mut bob = file.narrowed(
        "bob",
        vec![TableRule::of("must").columns(["a"]).insert(WrittenColumns::Visible)],
    );
    assert_eq!(run(&mut bob, "INSERT INTO must VALUES (1)"), hidden.replace("note", "must"));
    // A hidden row's value in a visible unique column: refused, in the words of the column.
    let taken = "UPDATE note SET badge = 2 WHERE id = 1";
    assert_eq!(run(&mut ada, taken), "error: UNIQUE constraint failed: note.badge");
}

#[test]
fn tables_with_effects_beyond_the_row_are_refused_by_name() {
    let file = File::new(FILE);
    let writes = |name: &str| {
        TableRule::of(name).insert(WrittenColumns::Visible).update(WrittenColumns::Visible).delete()
    };
    let names = ["fired", "child", "parent", "replacing"].map(writes).to_vec();
    let mut ada = file.narrowed("ada", [names, vec![TableRule::of("city").delete()]].concat());
    let foreign = "error: NAME is not changed under rules: foreign keys would tell of rows in \
                   other tables";
    let triggers = "error: fired is not changed under rules: it has triggers, which run for no \
                    principal";
    let replaces = "error: replacing is not changed under rules: its constraints replace or leave \
                    out rows";
    for (sql, expect) in [
        ("INSERT INTO fired VALUES (1, 2)", triggers),
        ("DELETE FROM fired", triggers),
        ("INSERT INTO child VALUES (1, 2, 3)", &foreign.replace("NAME", "child")),
        ("UPDATE child SET n = 1", &foreign.replace("NAME", "child")),
        ("DELETE FROM child", "0"),
        ("INSERT INTO parent VALUES (1, 2)", "1"),
        ("UPDATE parent SET id = 2", &foreign.replace("NAME", "parent")),
        ("DELETE FROM parent", &foreign.replace("NAME", "parent")),
        ("INSERT INTO replacing VALUES (1, 2)", replaces),
        ("DELETE FROM replacing", "0"),
        ("INSERT INTO city VALUES ('a', 1)", "error: INSERT into city is not granted"),
        ("UPDATE city SET population = 1", "error: UPDATE of city is not granted"),
        ("DELETE FROM city WHERE name = 'Turin'", "1"),
    ] {
        assert_eq!(run(&mut ada, sql), expect, "{sql}");
    }
    assert_eq!(file.all("SELECT * FROM list"), "");
}

#[test]
fn rules_that_grant_nothing_to_write_write_nothing() {
    let file = File::new(FILE);
    let mut entitlement = Entitlement::new("ada");
    entitlement.allow(rule()).unwrap();
    assert!(entitlement.writes());
    let entitlement = entitlement.read_only();
    assert!(!entitlement.writes());
    let mut ada = file.open(Access::ReadWrite).narrowed(entitlement).unwrap();
    let said = run(&mut ada, "DELETE FROM note");
    assert_eq!(said, "error: DELETE is not for a connection that only reads what is granted");
    // Grants of columns not visible as stored.
    for rule in [
        TableRule::of("note").columns(["id"]).insert(only(["salary"])),
        TableRule::of("note").columns(["id"]).update(only(["rowid", "nosuch"])),
        TableRule::of("note").mask("body", "'*'").update(only(["body"])),
        TableRule::of("list").columns(["what"]).insert(only(["rowid"])),
        TableRule::of("titles").delete(),
    ] {
        let mut entitlement = Entitlement::new("ada");
        entitlement.allow(rule).unwrap();
        let refused = file.open(Access::ReadWrite).narrowed(entitlement).unwrap_err();
        assert!(matches!(refused, Error::Meaning { .. }), "{refused}");
    }
    // A masked column is not written by a grant of all visible ones; a statement of another
    // connection is not run.
    let masked = TableRule::of("note").mask("body", "'*'").update(WrittenColumns::Visible);
    let mut ada = file.narrowed("ada", vec![masked]);
    assert_eq!(
        run(&mut ada, "UPDATE note SET body = 'x'"),
        "error: UPDATE of note is not granted for column body"
    );
    let mut whole = file.open(Access::ReadWrite);
    let mut statement = whole.prepare("DELETE FROM city").unwrap();
    assert!(ada.execute(&mut statement).is_err());
    assert_eq!(file.all("SELECT count(*) FROM city"), "Int(2)");
}

/// A statement over the visible part of `t`.
fn statement(random: &mut Random) -> String {
    let value = |random: &mut Random| match random.below(7) {
        0 => "NULL".to_owned(),
        1 => format!("'{}'", random.below(20)),
        2 => "'ada'".to_owned(),
        3 => "abs(-9223372036854775807 - 1)".to_owned(),
        _ => random.below(20).to_string(),
    };
    let owner = ["'ada'", "'ada'", "'ada'", "'ada'", "'bob'", "NULL", "owner"];
    let condition = match random.below(9) {
        0 => String::new(),
        1 => " WHERE abs(b) > 3".to_owned(),
        2 => " WHERE owner = 'bob'".to_owned(),
        3 => format!(" WHERE id > {}", random.below(40)),
        4 => " WHERE a IN (SELECT b FROM t WHERE b > 4)".to_owned(),
        5 => " WHERE EXISTS (SELECT 1 FROM t x WHERE x.a = t.b)".to_owned(),
        6 => " WHERE u LIKE '1%' OR a IS NULL".to_owned(),
        7 => " WHERE secret = 1".to_owned(),
        _ => format!(" WHERE id = {} OR b = {}", random.below(40), random.below(20)),
    };
    let (a, b) = (value(random), value(random));
    let id = random.below(40);
    let returning = random.pick(&["", "", " RETURNING *", " RETURNING id, b + 1, upper(u)"]);
    let changed = changed(random, (&a, &b), id, &condition, &owner);
    format!("{changed}{returning}")
}

/// A change of `t`, without a `RETURNING`.
fn changed(
    random: &mut Random,
    (a, b): (&str, &str),
    id: u64,
    condition: &str,
    owner: &[&str],
) -> String {
    match random.below(15) {
        0..=3 => {
            let owner = random.pick(&owner[..6]);
            let u = random.below(60);
            format!("INSERT INTO t(id, owner, a, b, u) VALUES ({id}, {owner}, {a}, {b}, {u})")
        }
        4 => format!("INSERT INTO t VALUES ({id}, 'ada', {a}, {b}, {})", random.below(60)),
        5 => format!(
            "INSERT INTO t(id, owner, a, b) SELECT id + {id}, owner, b, a FROM t{condition}"
        ),
        6 => format!("UPDATE t SET a = {a}, b = b + 1{condition}"),
        7 => format!("UPDATE t SET owner = {}, u = u{condition}", random.pick(owner)),
        8 => format!("UPDATE t SET id = id + {}{condition}", random.below(3)),
        9 => format!("UPDATE t SET a = x.b FROM t x WHERE x.id = t.id + 1 AND x.b > {id}"),
        10 => format!("UPDATE t SET u = {} WHERE id = {id}", random.below(60)),
        11 => format!("DELETE FROM t{condition}"),
        _ => {
            let (owner, u) = (random.pick(&owner[..6]), random.below(60));
            let clause = random.pick(&[
                "DO NOTHING",
                "(id) DO NOTHING",
                "(u) DO UPDATE SET a = excluded.a, b = t.b + 1",
                "(id) DO UPDATE SET a = t.a, owner = excluded.owner WHERE t.b < 9",
                "(id) DO NOTHING ON CONFLICT DO UPDATE SET a = abs(excluded.a), u = u",
                "(id) DO UPDATE SET id = id + 1, b = excluded.b",
            ]);
            format!(
                "INSERT INTO t(id, owner, a, b, u) VALUES ({id}, {owner}, {a}, {b}, {u}) \
                 ON CONFLICT {clause}"
            )
        }
    }
}

#[test]
fn random_statements_do_as_on_a_copy_and_touch_nothing_hidden() {
    let rounds = std::env::var("SHOAL_SQL_CASES").ok().and_then(|text| text.parse().ok());
    let mut random = Random::seeded(7);
    let (mut changed, mut refused, mut returned) = (0, 0, 0);
    for round in 0..rounds.unwrap_or(12_u64) {
        let options = [
            ("id integer primary key", ""),
            ("id int primary key", " without rowid"),
            ("id int primary key", ""),
        ];
        let (id, without) = options[(round % 3) as usize];
        let columns = "owner text, a, b int not null default 3, u text unique, check (b < 18)";
        // Hidden rows have keys beyond the ones in statements.
        let whole = File::new(&format!(
            "create table t({id}, secret default 'SECRET', owner text, a, h int default 7, \
             b int not null default 3, u text unique, check (b < 18)){without}; \
             create index ta on t(a, secret); create index tb on t(b) where h = 7; \
             insert into t(id, owner, a, b, u) values (1000, 'bob', 1, 2, 'x1'), \
             (1001, 'bob', -9223372036854775808, 4, 'x2'), (1002, NULL, '5', 5, 'x3');"
        ));
        let copy = File::new(&format!(
            "create table t({id}, {columns}, constraint rule check (owner is 'ada')){without}; \
             create index ta on t(a);"
        ));
        let rule = TableRule::of("t")
            .columns(["id", "owner", "a", "b", "u"])
            .rows("owner = :principal")
            .insert(WrittenColumns::Visible)
            .update(WrittenColumns::Visible)
            .delete();
        let mut narrowed = whole.narrowed("ada", vec![rule]);
        let mut reference = copy.open(Access::ReadWrite);
        let hidden = "SELECT * FROM t WHERE owner IS NOT 'ada' ORDER BY id";
        let before = whole.all(hidden);
        for _ in 0..60 {
            let sql = statement(&mut random);
            let start = reference.total_changes();
            let expect = match ours(&mut reference, &sql) {
                Ok(mut answer) => {
                    sort(&mut answer.rows);
                    returned += answer.rows.len();
                    format!("{} {}", reference.total_changes() - start, lines(&answer.rows))
                }
                Err(error) => format!("error: {error}"),
            };
            let start = narrowed.total_changes();
            let got = match ask(&mut narrowed, &sql) {
                Ok(mut answer) => {
                    sort(&mut answer.rows);
                    format!("{} {}", narrowed.total_changes() - start, lines(&answer.rows))
                }
                Err(error) => format!("error: {error}"),
            };
            let is_rule = got.contains("does not grant a row");
            // Of two faults of one row the rule is told first here, and NOT NULL there.
            let is_same = got == expect
                || is_rule
                    && (expect.contains("failed: rule") || expect.contains("constraint failed"));
            assert!(is_same, "{sql}\nnarrowed: {got}\ncopy: {expect}");
            changed += u64::from(!got.starts_with("error") && !got.starts_with("0 "));
            refused += u64::from(is_rule);
            let mut rows = ask(&mut narrowed, "SELECT * FROM t").unwrap();
            let mut others = ours(&mut reference, "SELECT * FROM t").unwrap();
            sort(&mut rows.rows);
            sort(&mut others.rows);
            assert_eq!(lines(&rows.rows), lines(&others.rows), "{sql}");
        }
        assert_eq!(whole.all(hidden), before);
        assert_eq!(whole.all("SELECT DISTINCT secret, h FROM t"), "'SECRET'|Int(7)");
        assert_eq!(whole.all("PRAGMA integrity_check"), "'ok'");
    }
    let counts = format!("{changed} changed, {refused} refused, {returned} returned");
    assert!(changed > 100 && refused > 25 && returned > 50, "{counts}");
}

//! SQL that writes to projections: rows become changes of documents, one for each document and
//! transaction, and the rows afterwards are what the documents say.

use std::path::{Path, PathBuf};

use shoal::{Access, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ObjType, ROOT, Scalar, Value};

const LISTS: &str = "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' \
    ROWS '$.items[*]' COLUMNS (title TEXT DEFAULT '-' ON EMPTY, done BOOLEAN, votes COUNTER, \
    tags JSON, n INTEGER PATH '$.more.n')";

struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    database: Database,
}

fn bench(definitions: &[&str]) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    import(
        &mut document,
        r#"{"items": [{"title": "one", "done": false, "tags": ["x"]},
        {"title": "two", "more": {"n": 2}}], "settings": {"colour": "red"}}"#,
    );
    database.store("list/a", &mut document).unwrap();
    for definition in definitions {
        assert!(database.define(definition).unwrap());
    }
    Bench { _dir: dir, path, database }
}

fn import(document: &mut Document, json: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let mut transaction = document.transaction();
    transaction.import_json(&json).unwrap();
    transaction.commit(CommitOptions::default()).unwrap();
}

impl Bench {
    /// Runs statements one by one through the connection; the rows of the last.
    fn run(&mut self, sql: &str) -> Result<Vec<String>, String> {
        let connection = self.database.sql();
        let mut last = Vec::new();
        for range in shoal_sql::Statements::new(sql) {
            let mut statement =
                connection.prepare(&sql[range]).map_err(|error| error.to_string())?;
            last.clear();
            let mut rows = connection.query(&mut statement).map_err(|error| error.to_string())?;
            while let Some(row) = rows.next().map_err(|error| error.to_string())? {
                let cells = row.values().map(|value| shown(value));
                last.push(cells.collect::<Vec<_>>().join("|"));
            }
        }
        Ok(last)
    }

    fn ok(&mut self, sql: &str) -> Vec<String> {
        self.run(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    fn refused(&mut self, sql: &str) -> String {
        self.run(sql).expect_err(sql)
    }

    fn json(&mut self, name: &str) -> serde_json::Value {
        let document = self.database.load(name).unwrap();
        serde_json::to_value(document.to_json()).unwrap()
    }

    fn changes(&mut self, name: &str) -> usize {
        self.database.load(name).unwrap().changes().len()
    }

    /// Rebuilds every projection and compares, rows and what stands beside them.
    fn check(&mut self) {
        for (name, _) in self.database.projections().unwrap() {
            let tables =
                ["", "_conflicts", "_misfits", "_violations"].map(|it| format!("{name}{it}"));
            let all = |path: &Path| -> Vec<Vec<String>> {
                tables
                    .iter()
                    .map(|table| rows(path, &format!("SELECT * FROM \"{table}\"")))
                    .collect()
            };
            let kept = all(&self.path);
            self.database.rebuild(&name).unwrap();
            assert_eq!(kept, all(&self.path), "{name}");
        }
        assert_eq!(rows(&self.path, "PRAGMA integrity_check"), ["ok"]);
    }
}

fn shown(value: shoal_sql::ValueRef<'_>) -> String {
    match value {
        shoal_sql::ValueRef::Null => "NULL".to_owned(),
        shoal_sql::ValueRef::Int(value) => value.to_string(),
        shoal_sql::ValueRef::Real(value) => value.to_string(),
        shoal_sql::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        shoal_sql::ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
    }
}

/// The rows as text, by another program; none of a table that is not there.
fn rows(path: &Path, sql: &str) -> Vec<String> {
    let sqlite = rusqlite::Connection::open(path).unwrap();
    let Ok(mut statement) = sqlite.prepare(sql) else { return Vec::new() };
    let count = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cells = (0..count).map(|place| match row.get_ref(place).unwrap() {
            rusqlite::types::ValueRef::Null => "NULL".to_owned(),
            rusqlite::types::ValueRef::Integer(value) => value.to_string(),
            rusqlite::types::ValueRef::Real(value) => value.to_string(),
            rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            rusqlite::types::ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
        });
        all.push(cells.collect::<Vec<_>>().join("|"));
    }
    all
}

const SEEN: &str = "SELECT title, done, votes, tags, n FROM todo ORDER BY _doc, _id";

#[test]
fn rows_become_changes() {
    let mut bench = bench(&[LISTS]);
    let before = bench.changes("list/a");
    assert_eq!(
        bench.ok("UPDATE todo SET done = 1, title = title || '!' WHERE title = 'one' RETURNING title, done"),
        ["one!|1"]
    );
    assert_eq!(bench.changes("list/a"), before + 1);
    assert_eq!(
        bench.ok("INSERT INTO todo(_doc, title, votes, n) VALUES ('list/a', 'three', 3, 7), (1, 'four', NULL, NULL) \
                  RETURNING title, votes, n, tags, _doc"),
        ["three|3|7|NULL|1", "four|NULL|NULL|NULL|1"]
    );
    assert_eq!(bench.changes("list/a"), before + 2);
    bench.ok("UPDATE todo SET votes = votes + 2 WHERE votes IS NOT NULL");
    bench.ok("UPDATE todo SET tags = '[\"x\",{\"y\":1}]' WHERE title = 'one!'");
    bench.ok("DELETE FROM todo WHERE title = 'two'");
    assert_eq!(
        rows(&bench.path, SEEN),
        [r#"one!|1|NULL|["x",{"y":1}]|NULL"#, "three|NULL|5|NULL|7", "four|NULL|NULL|NULL|NULL"]
    );
    assert_eq!(
        bench.json("list/a")["items"],
        serde_json::json!([
            {"title": "one!", "done": true, "tags": ["x", {"y": 1}]},
            {"title": "three", "votes": 5, "more": {"n": 7}},
            {"title": "four"}
        ])
    );
    let document = bench.database.load("list/a").unwrap();
    let items = document.get(&ROOT, "items").unwrap().unwrap().1;
    let three = document.get(&items, 1).unwrap().unwrap().1;
    assert_eq!(document.get(&three, "title").unwrap().unwrap().0, Value::Object(ObjType::Text));
    assert!(matches!(document.get(&three, "votes").unwrap().unwrap().0,
        Value::Scalar(shoal_history_scalar) if format!("{shoal_history_scalar:?}").contains("Counter(5)")));
    bench.check();

    // A statement that changes nothing makes no change.
    let before = bench.changes("list/a");
    bench.ok("UPDATE todo SET title = title, done = done, votes = votes, tags = tags, n = n");
    assert_eq!(bench.changes("list/a"), before);

    // NULL takes a value away; a document that is not there is made.
    bench.ok("UPDATE todo SET done = NULL, tags = NULL WHERE title = 'one!'");
    assert_eq!(bench.json("list/a")["items"][0], serde_json::json!({"title": "one!"}));
    bench.ok("INSERT INTO todo(_doc, title) VALUES ('list/new', 'milk')");
    assert_eq!(bench.json("list/new"), serde_json::json!({"items": [{"title": "milk"}]}));
    bench.ok("DELETE FROM todo");
    assert_eq!(bench.json("list/new"), serde_json::json!({"items": []}));
    assert_eq!(bench.json("list/a")["items"], serde_json::json!([]));
    bench.check();
}

#[test]
fn transactions_are_one_change() {
    let mut bench = bench(&[
        LISTS,
        "CREATE PROJECTION setting FROM DOCUMENTS ROWS '$.settings.*' COLUMNS (v JSON PATH '$')",
    ]);
    bench.ok("CREATE TABLE log(what)");
    let before = bench.changes("list/a");
    bench.ok("BEGIN; UPDATE todo SET title = 'a' WHERE title = 'one'; INSERT INTO log VALUES (1); \
              UPDATE todo SET title = 'ab' WHERE title = 'a'; INSERT INTO todo(_doc, title) VALUES (1, 'new'); \
              UPDATE setting SET v = '\"blue\"'; COMMIT");
    assert_eq!(bench.changes("list/a"), before + 1);
    assert_eq!(rows(&bench.path, "SELECT title FROM todo ORDER BY _id"), ["ab", "two", "new"]);
    assert_eq!(rows(&bench.path, "SELECT v FROM setting"), ["\"blue\""]);

    let heads = bench.database.load("list/a").unwrap().heads();
    bench.ok("BEGIN; UPDATE todo SET title = 'gone'; INSERT INTO log VALUES (2); ROLLBACK");
    assert_eq!(bench.database.load("list/a").unwrap().heads(), heads);
    assert_eq!(rows(&bench.path, "SELECT count(*) FROM log"), ["1"]);
    bench.ok(
        "BEGIN; UPDATE todo SET done = 1 WHERE title = 'two'; SAVEPOINT s; DELETE FROM todo; \
              INSERT INTO todo(_doc, title) VALUES ('list/b', 'no'); ROLLBACK TO s; \
              INSERT INTO todo(_doc, title) VALUES ('list/c', 'yes'); RELEASE s; COMMIT",
    );
    assert_eq!(
        rows(&bench.path, "SELECT title, done FROM todo ORDER BY _doc, _id"),
        ["ab|0", "two|1", "new|NULL", "yes|NULL"]
    );
    assert_eq!(bench.changes("list/a"), before + 2);
    assert!(bench.database.load("list/b").is_err());

    // A statement that fails halfway leaves nothing, in a transaction and outside.
    let heads = bench.database.load("list/a").unwrap().heads();
    for sql in [
        "UPDATE todo SET votes = CASE title WHEN 'ab' THEN 1 ELSE 'many' END",
        "INSERT INTO todo(_doc, title) VALUES ('list/a', 'x'), ('other', 'y')",
    ] {
        bench.refused(sql);
        bench.ok("BEGIN");
        bench.refused(sql);
        bench.ok("COMMIT");
    }
    assert_eq!(bench.database.load("list/a").unwrap().heads(), heads);
    assert_eq!(rows(&bench.path, "SELECT count(*) FROM todo WHERE votes IS NOT NULL"), ["0"]);

    // Reads of documents within the transaction see what SQL wrote.
    bench.ok("BEGIN; UPDATE todo SET title = 'seen' WHERE title = 'two'");
    assert_eq!(bench.json("list/a")["items"][1]["title"], "seen");
    bench.ok("ROLLBACK");
    assert_eq!(bench.json("list/a")["items"][1]["title"], "two");
    bench.ok("UPDATE todo SET title = 'after' WHERE title = 'two'");
    bench.check();
}

#[test]
fn upserts_triggers_and_foreign_writers() {
    let mut bench = bench(&[
        LISTS,
        "CREATE PROJECTION setting FROM DOCUMENTS WHERE name = 'list/a' ROWS '$.settings.*' COLUMNS (v JSON PATH '$')",
    ]);
    let put = "INSERT INTO setting(_doc, _id, v) VALUES ('list/a', 'size', '1') \
               ON CONFLICT(_doc, _id) DO UPDATE SET v = json(v + 1) RETURNING v";
    assert_eq!(bench.ok(put), ["1"]);
    assert_eq!(bench.ok(put), ["2"]);
    assert_eq!(bench.json("list/a")["settings"], serde_json::json!({"colour": "red", "size": 2}));
    assert!(
        bench
            .refused("INSERT INTO setting(_doc, _id, v) VALUES (1, 'size', '5')")
            .contains("UNIQUE")
    );
    let id = bench.ok("SELECT hex(_id) FROM todo WHERE title = 'one'").remove(0);
    bench.ok(&format!(
        "INSERT OR REPLACE INTO todo(_doc, _id, title) VALUES (1, x'{id}', 'replaced')"
    ));
    assert_eq!(bench.json("list/a")["items"][0], serde_json::json!({"title": "replaced"}));

    // A user's trigger fires for statements, not for what documents bring.
    bench.ok("CREATE TABLE log(what); CREATE TRIGGER seen AFTER UPDATE ON todo BEGIN \
              INSERT INTO log VALUES (old.title || '>' || new.title); END");
    bench.ok("UPDATE todo SET title = 'by sql' WHERE title = 'two'");
    let mut open = bench.database.open_document("list/a").unwrap();
    let items = open.get(&ROOT, "items").unwrap().unwrap().1;
    let first = open.get(&items, 0).unwrap().unwrap().1;
    let mut transaction = open.transaction();
    transaction.put(&first, "votes", Scalar::Counter(4)).unwrap();
    transaction.commit(CommitOptions::default());
    bench.database.commit(&mut open).unwrap();
    bench.ok("UPDATE todo SET votes = votes + 1 WHERE votes = 4");
    assert_eq!(bench.ok("SELECT what FROM log"), ["two>by sql", "replaced>replaced"]);
    bench.database.refresh(&mut open).unwrap();
    assert!(format!("{:?}", open.get(&first, "votes").unwrap().unwrap().0).contains("Counter(5)"));

    for (sql, why) in [
        ("UPDATE todo SET _doc = 9", "_doc and _id are the row's key"),
        ("UPDATE todo SET done = 3", "done takes 0 or 1"),
        ("UPDATE todo SET tags = 'no json'", "tags takes JSON"),
        ("INSERT INTO todo(title) VALUES ('x')", "names its document"),
        ("INSERT INTO todo(_doc, title) VALUES ('other', 'x')", "not from a document named other"),
        ("INSERT INTO todo(_doc, _id) VALUES (1, x'00')", "leave _id out"),
        ("INSERT INTO todo(_doc, title) VALUES (99, 'x')", "no such document"),
        ("INSERT INTO todo_conflicts VALUES (1, x'00', 'a', 'b', 'c')", "kept by Shoal"),
    ] {
        let refused = bench.refused(sql);
        assert!(refused.contains(why), "{sql}: {refused}");
    }
    let sqlite = rusqlite::Connection::open(&bench.path).unwrap();
    let refused = sqlite.execute_batch("UPDATE todo SET title = 'x'").unwrap_err().to_string();
    assert!(refused.contains("a projection of documents"));
    bench.check();
}

/// Replicas that write by SQL, each alone, and meet: equal tables, conflicts listed in both.
#[test]
fn conflicts_and_misfits_are_listed() {
    let mut left = bench(&[LISTS]);
    let mut right = bench(&[]);
    right.database.remove("list/a").unwrap();
    let copy = left.database.load("list/a").unwrap();
    right.database.store("list/a", &mut copy.fork(Environment::os().new_actor())).unwrap();
    right.database.define(LISTS).unwrap();
    left.ok("UPDATE todo SET n = 10 WHERE title = 'two'; UPDATE todo SET title = 'one left' WHERE title = 'one'");
    right.ok("UPDATE todo SET n = 20 WHERE title = 'two'; UPDATE todo SET title = 'right one' WHERE title = 'one'");
    let mut merged = left.database.load("list/a").unwrap();
    merged.merge(&right.database.load("list/a").unwrap()).unwrap();
    left.database.store("list/a", &mut merged.fork(Environment::os().new_actor())).unwrap();
    right.database.store("list/a", &mut merged).unwrap();
    for sql in [
        "SELECT _id, title, n FROM todo ORDER BY _id",
        "SELECT _id, \"column\", op, value FROM todo_conflicts",
    ] {
        assert_eq!(rows(&left.path, sql), rows(&right.path, sql));
    }
    assert_eq!(rows(&left.path, "SELECT title FROM todo ORDER BY _id")[0], "right one left");
    let lost = rows(&left.path, "SELECT \"column\", value FROM todo_conflicts");
    let won = rows(&left.path, "SELECT n FROM todo WHERE n IS NOT NULL");
    assert_eq!(lost, [if won == ["10"] { "n|20" } else { "n|10" }]);
    // An idle update settles nothing; a real one does.
    left.ok("UPDATE todo SET n = n, done = 1");
    assert_eq!(rows(&left.path, "SELECT count(*) FROM todo_conflicts"), ["1"]);
    left.ok("UPDATE todo SET n = n + 1 WHERE n > 2");
    assert_eq!(rows(&left.path, "SELECT count(*) FROM todo_conflicts"), ["0"]);

    let mut open = left.database.open_document("list/a").unwrap();
    let items = open.get(&ROOT, "items").unwrap().unwrap().1;
    let first = open.get(&items, 0).unwrap().unwrap().1;
    let mut transaction = open.transaction();
    transaction.put(&first, "done", "yes").unwrap();
    transaction.commit(CommitOptions::default());
    left.database.commit(&mut open).unwrap();
    assert_eq!(
        rows(&left.path, "SELECT \"column\", type, value FROM todo_misfits"),
        ["done|str|\"yes\""]
    );
    assert_eq!(rows(&left.path, "SELECT count(*) FROM todo WHERE done IS NULL"), ["1"]);
    left.ok("UPDATE todo SET done = 0");
    assert_eq!(rows(&left.path, "SELECT count(*) FROM todo_misfits"), ["0"]);
    left.check();
    right.check();
}

#[test]
fn rows_within_rows_places_and_assertions() {
    let mut bench = bench(&[
        LISTS,
        "CREATE PROJECTION part FROM todo ROWS '$.parts[*]' COLUMNS (pos FOR ORDINALITY, name TEXT, \
         weight REAL, ASSERT (weight >= 0), ASSERT (name <> ''))",
        "CREATE PROJECTION word FROM DOCUMENTS ROWS '/items/*/tags/*' COLUMNS (word STRING PATH '$')",
        "CREATE PROJECTION size FROM part ROWS '$.sizes.*' COLUMNS (v INTEGER PATH '$')",
    ]);
    assert_eq!(rows(&bench.path, "SELECT word FROM word"), ["x"]);
    let insert = "INSERT INTO part(_doc, _parent, name, weight) \
                  SELECT _doc, _id, title || ' part', -1 FROM todo RETURNING name, pos";
    assert_eq!(bench.ok(insert), ["one part|1", "two part|1"]);
    bench.ok("INSERT INTO part(_doc, _parent, pos, name) SELECT _doc, _id, 1, '' FROM todo WHERE title = 'two'");
    assert_eq!(
        rows(
            &bench.path,
            "SELECT t.title, p.name, p.pos FROM part p JOIN todo t ON t._id = p._parent ORDER BY t._id, p.pos"
        ),
        ["one|one part|1", "two||1", "two|two part|2"]
    );
    assert_eq!(
        rows(&bench.path, "SELECT assertion, count(*) FROM part_violations GROUP BY 1"),
        ["name <> ''|1", "weight >= 0|2"]
    );
    bench.ok("UPDATE part SET weight = 2 WHERE name = 'two part'");
    assert_eq!(rows(&bench.path, "SELECT count(*) FROM part_violations"), ["2"]);
    assert_eq!(
        bench.json("list/a")["items"][1]["parts"],
        serde_json::json!([{"name": ""}, {"name": "two part", "weight": 2.0}])
    );
    // Values that are rows themselves; a child of a child, in a map.
    bench.ok("INSERT INTO word(_doc, _parent, word) SELECT _doc, _id, 'new' FROM todo WHERE title = 'one'");
    bench.ok("UPDATE word SET word = word || '!'");
    assert_eq!(bench.json("list/a")["items"][0]["tags"], serde_json::json!(["x!", "new!"]));
    bench.ok("UPDATE todo SET tags = '[\"a\", \"x!\", \"b\"]' WHERE title = 'one'");
    assert_eq!(rows(&bench.path, "SELECT word FROM word ORDER BY word"), ["a", "b", "x!"]);
    let key = bench.ok("SELECT hex(_id) FROM part WHERE name = 'two part'").remove(0);
    let length = key.len() / 2;
    bench.ok(&format!("INSERT INTO size(_doc, _parent, _id, v) VALUES (1, x'{key}', 'l', 5)"));
    assert_eq!(bench.ok("SELECT hex(_id), v FROM size"), [format!("{length:08X}{key}6C|5")]);
    bench.ok("UPDATE size SET v = v + 1");
    assert_eq!(bench.json("list/a")["items"][1]["parts"][1]["sizes"]["l"], 6);
    bench.check();
    bench.ok("DELETE FROM todo WHERE title = 'two'");
    assert_eq!(rows(&bench.path, "SELECT name FROM part"), ["one part"]);
    assert_eq!(rows(&bench.path, "SELECT count(*) FROM size"), ["0"]);
    bench.check();
    for (sql, why) in [
        ("UPDATE part SET pos = 2", "rows do not move"),
        ("INSERT INTO part(_doc, _parent, pos) SELECT _doc, _id, 9 FROM todo", "has 1 items"),
        ("INSERT INTO part(_doc, name) VALUES (1, 'x')", "names the row around"),
        (
            "INSERT INTO part(_doc, _parent, name) VALUES (1, x'0000000000000001FF', 'x')",
            "no row has the key",
        ),
    ] {
        let refused = bench.refused(sql);
        assert!(refused.contains(why), "{sql}: {refused}");
    }
    assert!(
        bench
            .database
            .define("DROP PROJECTION part")
            .unwrap_err()
            .to_string()
            .contains("size is from part")
    );
    for name in ["size", "part", "word", "todo"] {
        assert!(bench.database.define(&format!("DROP PROJECTION {name}")).unwrap());
    }
    assert_eq!(
        rows(&bench.path, "SELECT name FROM sqlite_schema WHERE name NOT LIKE '%shoal%'"),
        [""; 0]
    );
}

/// Somebody drops the triggers and writes, alters a table, adds a unique index: the next commit or
/// statement heals, and keeps what is the user's own.
#[test]
fn foreign_writers_are_healed() {
    let mut bench = bench(&[
        LISTS,
        "CREATE PROJECTION nowhere FROM DOCUMENTS ROWS '$.no.such[*]' COLUMNS (a TEXT)",
    ]);
    let seen = rows(&bench.path, SEEN);
    for (foreign, ours) in [
        (
            "DROP TRIGGER todo_guard_update; UPDATE todo SET title = 'foreign'",
            "UPDATE todo SET done = done",
        ),
        ("DROP TABLE todo; CREATE TABLE todo(x)", "UPDATE nowhere SET a = 1"),
        ("CREATE UNIQUE INDEX once ON todo(done)", "UPDATE todo SET done = done"),
        (
            "DROP TABLE todo_conflicts; CREATE VIEW todo_conflicts AS SELECT 1",
            "DELETE FROM nowhere",
        ),
        (
            "ALTER TABLE todo RENAME TO old; ALTER TABLE todo_misfits RENAME TO old_misfits",
            "DELETE FROM nowhere",
        ),
        (
            "CREATE INDEX by_title ON todo(title); ALTER TABLE todo RENAME COLUMN done TO finished",
            "DELETE FROM nowhere",
        ),
    ] {
        let sqlite = rusqlite::Connection::open(&bench.path).unwrap();
        sqlite.execute_batch(foreign).unwrap();
        drop(sqlite);
        if let Err(error) = bench.run(ours) {
            panic!("{foreign}: {ours}: {error}");
        }
        assert_eq!(rows(&bench.path, SEEN), seen, "{foreign}");
        bench.check();
    }
    assert_eq!(
        rows(&bench.path, "SELECT count(*) FROM sqlite_schema WHERE name = 'by_title'"),
        ["1"]
    );
    // The tables renamed away are anybody's.
    assert_eq!(bench.ok("UPDATE old SET title = 'mine' WHERE title = 'one' RETURNING done"), ["0"]);
    assert_eq!(rows(&bench.path, SEEN), seen);
    // A definition that no longer reads names itself.
    let sqlite = rusqlite::Connection::open(&bench.path).unwrap();
    sqlite
        .execute_batch("UPDATE _shoal_projection SET sql = 'nonsense' WHERE name = 'nowhere'")
        .unwrap();
    drop(sqlite);
    let error = bench.database.rebuild("todo").unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn a_text_names_a_document_though_it_reads_as_a_number() {
    let mut bench = bench(&["CREATE PROJECTION year FROM DOCUMENTS ROWS '$.days[*]' \
        COLUMNS (day TEXT)"]);
    bench.ok("INSERT INTO year(_doc, day) VALUES ('2026', 'Monday'), ('1', 'Sunday')");
    bench.ok("INSERT INTO year(_doc, day) SELECT name, 'Friday' FROM documents");
    assert_eq!(bench.json("2026")["days"][1]["day"], "Friday");
    assert_eq!(bench.json("1")["days"], serde_json::json!([{"day": "Sunday"}, {"day": "Friday"}]));
    // A number is an id: the first document's.
    bench.ok("INSERT INTO year(_doc, day) VALUES (1, 'Saturday')");
    let days = serde_json::json!([{"day": "Friday"}, {"day": "Saturday"}]);
    assert_eq!(bench.json("list/a")["days"], days);
    bench.check();
}

#[test]
fn json_settled_by_another_connection_falls_behind_again() {
    let mut bench = bench(&[LISTS]);
    let long = serde_json::json!({"items": [{"title": "first"}], "pad": "x".repeat(100_000)});
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, &long.to_string());
    bench.database.store("list/long", &mut document).unwrap();
    let mut open = bench.database.open_document("list/long").unwrap();
    let mut other = Database::open(Environment::os(), &bench.path, Access::ReadWrite).unwrap();
    let title = "SELECT json ->> '$.items[0].title' FROM _shoal_doc WHERE name = 'list/long'";
    for round in ["second", "third"] {
        bench.ok(&format!("UPDATE todo SET title = '{round}' WHERE _doc = 2"));
        assert_eq!(other.settle().unwrap(), 1, "{round}");
        assert_eq!(rows(&bench.path, title), [round]);
    }
    for round in 0..2 {
        let mut transaction = open.transaction();
        transaction.put(&ROOT, "round", round).unwrap();
        transaction.commit(CommitOptions::default()).unwrap();
        bench.database.commit(&mut open).unwrap();
        assert_eq!(other.settle().unwrap(), 1, "{round}");
    }
}

#[test]
fn a_replaced_row_stays_at_its_place() {
    let mut bench = bench(&["CREATE PROJECTION todo FROM DOCUMENTS ROWS '$.items[*]' \
        COLUMNS (place FOR ORDINALITY, title TEXT)"]);
    let replace = "REPLACE INTO todo(_doc, _id, title) SELECT _doc, _id, 'new' FROM todo \
        WHERE place = 2 RETURNING place, title";
    assert_eq!(bench.ok(replace), ["2|new"]);
    assert_eq!(bench.ok("SELECT place, title FROM todo ORDER BY 1"), ["1|one", "2|new"]);
    let moved = "REPLACE INTO todo(_doc, _id, place, title) SELECT _doc, _id, 1, title FROM todo";
    assert!(bench.refused(moved).contains("rows do not move"));
    bench.check();
}

#[test]
fn changes_of_sql_are_compacted() {
    let mut bench = bench(&[LISTS]);
    let chunks = "SELECT count(*) FROM _shoal_chunk";
    for round in 0..400 {
        bench.ok(&format!("UPDATE todo SET title = 'round {round}' WHERE title <> 'two'"));
    }
    let few: usize = rows(&bench.path, chunks)[0].parse().unwrap();
    assert!(few < 300, "{few}");
    assert_eq!(bench.changes("list/a"), 401);
    bench.ok("BEGIN; UPDATE todo SET done = 1; ROLLBACK; UPDATE todo SET votes = 3");
    assert_eq!(bench.changes("list/a"), 402);
    bench.check();
}

#[test]
fn columns_at_one_place_are_written_one_at_a_time() {
    let mut bench = bench(&["CREATE PROJECTION twice FROM DOCUMENTS ROWS '$.items[*]' COLUMNS \
        (title TEXT, again STRING PATH '$.title', more JSON, n INTEGER PATH '$.more.n')"]);
    bench.ok("UPDATE twice SET title = 'uno' WHERE title = 'one'");
    bench.ok("UPDATE twice SET again = again || '!', n = 5 WHERE title = 'uno'");
    assert_eq!(
        bench.ok("SELECT title, again, more, n FROM twice WHERE n = 5"),
        [r#"uno!|uno!|{"n":5}|5"#]
    );
    for sql in [
        "UPDATE twice SET title = 'a', again = 'b'",
        "UPDATE twice SET more = '{}', n = 3",
        "INSERT INTO twice(_doc, title, again) VALUES (1, 'a', 'b')",
    ] {
        let refused = bench.refused(sql);
        assert!(refused.contains("are at one place of the document"), "{sql}: {refused}");
    }
    bench.check();
}

#[test]
fn a_counter_is_not_overwritten_by_a_real() {
    let mut bench = bench(&["CREATE PROJECTION votes FROM DOCUMENTS ROWS '$.items[*]' COLUMNS \
        (title TEXT, votes REAL, whole JSON PATH '$.votes')"]);
    let mut document = bench.database.load("list/a").unwrap();
    let items = document.get(&ROOT, "items").unwrap().unwrap().1;
    let first = document.get(&items, 0).unwrap().unwrap().1;
    let mut transaction = document.transaction();
    transaction.put(&first, "votes", Scalar::Counter(3)).unwrap();
    transaction.commit(CommitOptions::default());
    bench.database.store("list/a", &mut document).unwrap();
    let refused = bench.refused("UPDATE votes SET votes = 2.5 WHERE title = 'one'");
    assert!(refused.contains("where a counter is"), "{refused}");
    let refused = bench.refused("UPDATE votes SET whole = '2.5' WHERE title = 'one'");
    assert!(refused.contains("a counter takes whole steps"), "{refused}");
    bench.ok("UPDATE votes SET whole = '5' WHERE title = 'one'");
    assert_eq!(bench.ok("SELECT votes, whole FROM votes WHERE title = 'one'"), ["NULL|5"]);
    bench.ok("UPDATE votes SET votes = 2.5 WHERE title = 'two'");
    bench.check();
}

#[test]
fn truth_values_are_integers_where_a_column_says_so() {
    let mut bench = bench(&["CREATE PROJECTION todo FROM DOCUMENTS ROWS '$.items[*]' COLUMNS \
        (title TEXT, done INT PATH '$.done', votes COUNTER PATH '$.done')"]);
    let seen = "SELECT title, done, votes FROM todo ORDER BY _id";
    assert_eq!(rows(&bench.path, seen), ["one|0|NULL", "two|NULL|NULL"]);
    let misfits = "SELECT \"column\", type, value FROM todo_misfits";
    assert_eq!(rows(&bench.path, misfits), ["votes|boolean|false"]);
    // A truth value stays one where the number is one's.
    bench.ok("UPDATE todo SET done = 1 WHERE title = 'one'");
    assert_eq!(bench.json("list/a")["items"][0]["done"], true);
    // JSON has truth values of its own.
    let json = "CREATE PROJECTION j FROM DOCUMENTS ROWS '$.items[*]' COLUMNS (done JSON)";
    assert!(bench.database.define(json).unwrap());
    bench.ok("UPDATE j SET done = '1' WHERE done = 'true'");
    assert_eq!(bench.json("list/a")["items"][0]["done"], 1);
    bench.ok("UPDATE todo SET done = 2 WHERE title = 'one'");
    assert_eq!(bench.json("list/a")["items"][0]["done"], 2);
    bench.check();
}

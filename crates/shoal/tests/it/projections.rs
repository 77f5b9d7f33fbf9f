//! Projections: the rows of a table are those of the documents, after every commit, merge and
//! rename, for this program and for any other that reads the file.

use std::path::Path;

use shoal::{Access, Database, Document, Environment};
use shoal_crdt::{CommitOptions, ObjType, ROOT, Scalar, Value};

const LISTS: &str = "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' \
    ROWS '$.items[*]' COLUMNS (title TEXT DEFAULT '-' ON EMPTY, done BOOLEAN, votes COUNTER, \
    tags JSON, n INTEGER PATH '$.more.n')";

fn edit(document: &mut Document, work: impl FnOnce(&mut shoal_crdt::Transaction<'_>)) {
    let mut transaction = document.transaction();
    work(&mut transaction);
    transaction.commit(CommitOptions::default()).unwrap();
}

fn import(document: &mut Document, json: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    edit(document, |transaction| transaction.import_json(&json).unwrap());
}

/// The rows as text, by another program.
fn rows(path: &Path, sql: &str) -> Vec<String> {
    let sqlite = rusqlite::Connection::open(path).unwrap();
    let mut statement = sqlite.prepare(sql).unwrap();
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

/// Rebuilds the projection and compares.
fn equals_rebuilt(database: &mut Database, path: &Path, name: &str) {
    let all = format!("SELECT * FROM {name} ORDER BY _doc, _id");
    let kept = rows(path, &all);
    database.rebuild(name).unwrap();
    assert_eq!(kept, rows(path, &all));
}

#[test]
fn rows_follow_the_documents() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    let mut first = database.open_or_create("list/a").unwrap();
    import(&mut first, r#"{"items": [{"title": "one", "done": false, "tags": ["x"]}]}"#);
    database.commit(&mut first).unwrap();
    assert!(database.define(LISTS).unwrap());
    assert_eq!(rows(&path, SEEN), [r#"one|0|NULL|["x"]|NULL"#]);

    // Inserted, changed within, a counter, a text that is typed into.
    let items = first.get(&ROOT, "items").unwrap().unwrap().1;
    edit(&mut first, |transaction| {
        let new = transaction.insert_object(&items, 0, ObjType::Map).unwrap();
        transaction.put(&new, "title", "zero").unwrap();
        transaction.put(&new, "votes", Scalar::Counter(3)).unwrap();
        let more = transaction.put_object(&new, "more", ObjType::Map).unwrap();
        transaction.put(&more, "n", 7_i64).unwrap();
    });
    database.commit(&mut first).unwrap();
    assert_eq!(rows(&path, SEEN), [r#"one|0|NULL|["x"]|NULL"#, "zero|NULL|3|NULL|7"]);
    let zero = first.get(&items, 0).unwrap().unwrap().1;
    let one = first.get(&items, 1).unwrap().unwrap().1;
    let (kind, title) = first.get(&one, "title").unwrap().unwrap();
    assert_eq!(kind, Value::Object(ObjType::Text));
    edit(&mut first, |transaction| {
        transaction.increment(&zero, "votes", 2).unwrap();
        transaction.splice_text(&title, 3, 0, " more").unwrap();
        transaction.put(&one, "done", true).unwrap();
    });
    database.commit(&mut first).unwrap();
    assert_eq!(rows(&path, SEEN), [r#"one more|1|NULL|["x"]|NULL"#, "zero|NULL|5|NULL|7"]);

    // Deleted; the list replaced as a whole; a document that is not chosen, and one that is.
    edit(&mut first, |transaction| transaction.delete(&items, 1).unwrap());
    database.commit(&mut first).unwrap();
    assert_eq!(rows(&path, SEEN), ["zero|NULL|5|NULL|7"]);
    let mut other = Document::new(Environment::os().new_actor());
    import(&mut other, r#"{"items": [{"done": 1}, "text", {"title": {"not": "a text"}}]}"#);
    database.store("other", &mut other).unwrap();
    assert_eq!(rows(&path, SEEN).len(), 1);
    database.rename("other", "list/b").unwrap();
    let of_b = "SELECT title, done FROM todo JOIN _shoal_doc d ON d.id = _doc WHERE d.name = 'list/b' ORDER BY _id";
    assert_eq!(rows(&path, of_b), ["-|NULL", "-|NULL", "NULL|NULL"]);
    equals_rebuilt(&mut database, &path, "todo");
    database.remove("list/b").unwrap();
    edit(&mut first, |transaction| {
        let list = transaction.put_object(&ROOT, "items", ObjType::List).unwrap();
        transaction.insert_object(&list, 0, ObjType::Map).unwrap();
    });
    database.commit(&mut first).unwrap();
    assert_eq!(rows(&path, SEEN), ["-|NULL|NULL|NULL|NULL"]);
    equals_rebuilt(&mut database, &path, "todo");

    assert!(database.define("DROP PROJECTION todo").unwrap());
    assert_eq!(rows(&path, "SELECT name FROM sqlite_schema WHERE name LIKE 'todo%'"), [""; 0]);
    database.commit(&mut first).unwrap();
}

/// Two replicas edit at random and merge through files of their own: after each step the rows are
/// those of a rebuild, and those of the other replica in the end.
#[test]
fn replicas_agree_after_random_edits() {
    let dir = tempfile::tempdir().unwrap();
    let mut sides = Vec::new();
    for name in ["a.db", "b.db"] {
        let path = dir.path().join(name);
        let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
        database.define(LISTS).unwrap();
        database
            .define("CREATE PROJECTION setting FROM DOCUMENTS ROWS '$.settings.*' COLUMNS (v JSON PATH '$')")
            .unwrap();
        database
            .define(
                "CREATE PROJECTION head FROM DOCUMENTS ROWS '$' COLUMNS (title TEXT, items JSON)",
            )
            .unwrap();
        let document = database.open_or_create("list/a").unwrap();
        sides.push((path, database, document));
    }
    import(&mut sides[0].2, r#"{"items": [], "settings": {}, "title": "t"}"#);
    let mut seed = 42_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for step in 0..120 {
        let side = (step % 2) as usize;
        if step % 7 == 0 {
            let theirs: Vec<_> = sides[1 - side].2.changes().cloned().collect();
            sides[side].2.apply_changes(theirs).unwrap();
        }
        let (path, database, open) = &mut sides[side];
        let object = |open: &Document, key: &str| {
            open.get(&ROOT, key).unwrap().filter(|(v, _)| v.as_object().is_some()).map(|it| it.1)
        };
        let (items, settings) = (object(open, "items"), object(open, "settings"));
        let count = items.as_ref().map_or(0, |items| open.length(items).unwrap()) as u64;
        let (what, at, key) = (random(9), random(count.max(1)), format!("k{}", random(4)));
        let at = at as usize;
        let element = items.as_ref().and_then(|items| open.get(items, at).unwrap());
        let element = element.map(|(value, id)| (value.as_object(), id));
        edit(open, |transaction| match (what, items, settings) {
            (0..=2, Some(items), _) => {
                let new = transaction
                    .insert_object(&items, at.min(count as usize), ObjType::Map)
                    .unwrap();
                transaction.put(&new, "title", format!("t{step}")).unwrap();
                transaction.put(&new, "votes", Scalar::Counter(1)).unwrap();
            }
            (3, Some(items), _) if count > 0 => transaction.delete(&items, at).unwrap(),
            (4, Some(items), _) if count > 0 => transaction.put(&items, at, step as i64).unwrap(),
            (5, ..) => match element {
                Some((Some(ObjType::Map), id)) => {
                    transaction.put(&id, "done", step % 3 == 0).unwrap();
                    transaction.put(&id, "title", format!("u{step}")).unwrap();
                }
                _ => transaction.put(&ROOT, "title", step as i64).unwrap(),
            },
            (6, _, Some(settings)) => {
                transaction.put(&settings, key.as_str(), step as i64).unwrap()
            }
            (7, _, Some(settings)) => {
                let inner = transaction.put_object(&settings, key.as_str(), ObjType::Map).unwrap();
                transaction.put(&inner, "deep", step as i64).unwrap();
            }
            (8, _, Some(settings)) if step % 5 == 0 => {
                let _ = transaction.delete(&settings, key.as_str());
                transaction.put(&ROOT, "n", step as i64).unwrap();
            }
            _ => transaction.put(&ROOT, "n", step as i64).unwrap(),
        });
        database.commit(open).unwrap();
        if step % 4 == 0 {
            for name in ["todo", "setting", "head"] {
                equals_rebuilt(database, path, name);
            }
        }
    }
    for side in [0, 1] {
        let theirs: Vec<_> = sides[1 - side].2.changes().cloned().collect();
        let (_, database, open) = &mut sides[side];
        open.apply_changes(theirs).unwrap();
        database.commit(open).unwrap();
    }
    for name in ["todo", "setting", "head"] {
        let sql = format!("SELECT * FROM {name} ORDER BY _doc, _id");
        let here = rows(&sides[0].0, &sql);
        assert!(!here.is_empty(), "{name}");
        assert_eq!(here, rows(&sides[1].0, &sql));
        equals_rebuilt(&mut sides[0].1, &dir.path().join("a.db"), name);
    }
}

#[test]
fn others_read_and_do_not_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    database.define(LISTS).unwrap();
    let mut list = database.open_or_create("list/a").unwrap();
    import(&mut list, r#"{"items": [{"title": "one"}]}"#);
    database.commit(&mut list).unwrap();
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    for sql in [
        "DELETE FROM todo",
        "UPDATE todo SET title = 'x'",
        "INSERT INTO todo(_doc, _id) VALUES (1, x'00')",
    ] {
        let refused = sqlite.execute_batch(sql).unwrap_err().to_string();
        assert!(refused.contains("a projection of documents"), "{refused}");
    }
    // An index of one's own stays; a table that somebody altered is made anew by the next commit.
    sqlite.execute_batch("CREATE INDEX by_title ON todo(title)").unwrap();
    edit(&mut list, |transaction| transaction.put(&ROOT, "n", 1_i64).unwrap());
    database.commit(&mut list).unwrap();
    assert_eq!(rows(&path, "SELECT count(*) FROM sqlite_schema WHERE name = 'by_title'"), ["1"]);
    sqlite.execute_batch("DROP TRIGGER todo_guard_delete; DELETE FROM todo").unwrap();
    edit(&mut list, |transaction| transaction.put(&ROOT, "n", 2_i64).unwrap());
    database.commit(&mut list).unwrap();
    assert_eq!(rows(&path, SEEN), ["one|NULL|NULL|NULL|NULL"]);

    let refused = database.define(LISTS).unwrap_err().to_string();
    assert_eq!(refused, "projection todo already exists");
    assert!(!database.define("SELECT 1").unwrap());
    let refused = database.define("DROP PROJECTION nothing").unwrap_err().to_string();
    assert_eq!(refused, "no such projection: nothing");
    assert!(database.define("DROP PROJECTION IF EXISTS nothing").unwrap());
    assert_eq!(rows(&path, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn a_definition_that_would_stop_commits_is_refused() {
    let mut database = Database::memory(Environment::os()).unwrap();
    for (sql, why) in [
        ("CREATE PROJECTION q FROM DOCUMENTS WHERE id = 1 ROWS '$' COLUMNS (a TEXT)", "column: id"),
        ("CREATE PROJECTION q FROM DOCUMENTS WHERE abs(1, 2) ROWS '$' COLUMNS (a TEXT)", "abs"),
        ("CREATE PROJECTION Documents FROM DOCUMENTS ROWS '$' COLUMNS (a TEXT)", "all documents"),
    ] {
        let said = database.define(sql).unwrap_err().to_string();
        assert!(said.contains(why), "{sql}: {said}");
    }
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, r#"{"a": "x"}"#);
    database.store("one", &mut document).unwrap();
    assert_eq!(database.projections().unwrap(), []);
}

/// Runs one statement through the connection.
fn run(database: &mut Database, sql: &str) -> Result<(), String> {
    let connection = database.sql();
    let mut statement = connection.prepare(sql).map_err(|error| error.to_string())?;
    connection.execute(&mut statement).map(drop).map_err(|error| error.to_string())
}

#[test]
fn the_shape_of_a_projection_is_closed_to_statements() {
    let mut database = Database::memory(Environment::os()).unwrap();
    database.define(LISTS).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, r#"{"items": [{"title": "one"}]}"#);
    database.store("list/a", &mut document).unwrap();
    let of_rows = "todo is a projection of documents: DROP PROJECTION todo drops it";
    let beside = "is kept by Shoal beside a projection, and goes with it";
    for (sql, why) in [
        ("DROP TABLE todo", of_rows),
        ("DROP TABLE IF EXISTS main.Todo", of_rows),
        ("ALTER TABLE todo ADD COLUMN x", of_rows),
        ("ALTER TABLE todo RENAME TO x", of_rows),
        ("ALTER TABLE todo RENAME COLUMN title TO x", of_rows),
        ("CREATE UNIQUE INDEX u ON todo(title)", of_rows),
        ("DROP TRIGGER todo_guard_delete", of_rows),
        ("DROP TABLE todo_conflicts", beside),
        ("ALTER TABLE todo_misfits RENAME TO x", beside),
        ("DROP TRIGGER todo_conflicts_keep_insert", beside),
    ] {
        let refused = run(&mut database, sql).unwrap_err();
        assert!(refused.contains(why), "{sql}: {refused}");
    }
    // One's own indexes and triggers, and tables elsewhere or of other columns, are one's own.
    for sql in [
        "CREATE INDEX by_title ON todo(title)",
        "DROP INDEX by_title",
        "CREATE TRIGGER mine AFTER UPDATE ON todo BEGIN SELECT 1; END",
        "DROP TRIGGER mine",
        "CREATE TEMP TABLE todo(a)",
        "DROP TABLE temp.todo",
        "CREATE TABLE plain(_doc, _id, PRIMARY KEY(_doc, _id)) WITHOUT ROWID",
        "CREATE UNIQUE INDEX u ON plain(_id)",
        "DROP TABLE plain",
    ] {
        run(&mut database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    assert!(database.define("DROP PROJECTION todo").unwrap());
    assert!(run(&mut database, "SELECT * FROM todo").is_err());
}

#[test]
fn a_definition_that_nobody_can_read_is_dropped_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let open = || Database::open(Environment::os(), &path, Access::Create).unwrap();
    let sqlite = |sql: &str| {
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    };
    let left = "SELECT count(*) FROM sqlite_schema WHERE tbl_name LIKE 'todo%'";
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, r#"{"items": [{"title": "one"}]}"#);
    let mut database = open();
    database.define(LISTS).unwrap();
    database.store("list/a", &mut document).unwrap();
    drop(database);

    sqlite("UPDATE _shoal_projection SET sql = 'CREATE PROJECTION todo FROM nowhere'");
    let mut database = open();
    edit(&mut document, |transaction| transaction.put(&ROOT, "n", 1_i64).unwrap());
    let refused = database.store("list/a", &mut document).unwrap_err().to_string();
    let expected = "_shoal_projection todo: the statement ends too early; \
                    DROP PROJECTION \"todo\" drops it";
    assert_eq!(refused, expected);
    assert_eq!(run(&mut database, "UPDATE todo SET title = 'x'").unwrap_err(), expected);
    assert!(database.define("DROP PROJECTION todo").unwrap());
    assert_eq!(rows(&path, left), ["0"]);
    database.store("list/a", &mut document).unwrap();
    assert_eq!(database.load("list/a").unwrap().heads(), document.heads());

    // Tables whose definition is gone.
    database.define(LISTS).unwrap();
    drop(database);
    sqlite("DELETE FROM _shoal_projection");
    let mut database = open();
    assert!(database.define("DROP PROJECTION todo").unwrap());
    assert_eq!(rows(&path, left), ["0"]);
    let refused = database.define("DROP PROJECTION todo").unwrap_err().to_string();
    assert_eq!(refused, "no such projection: todo");
    // A table of somebody's own is none.
    run(&mut database, "CREATE TABLE todo(_doc, _id)").unwrap();
    assert!(database.define("DROP PROJECTION todo").is_err());
    assert_eq!(rows(&path, left), ["1"]);
    assert_eq!(rows(&path, "PRAGMA integrity_check"), ["ok"]);
}

#[test]
fn a_statement_makes_the_rows_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = Database::open(Environment::os(), &path, Access::Create).unwrap();
    database.define(LISTS).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, r#"{"items": [{"title": "one"}]}"#);
    database.store("list/a", &mut document).unwrap();
    // The very same trigger stands again: the deletion left no trace.
    let guard = "SELECT sql FROM sqlite_schema WHERE name = 'todo_guard_delete'";
    let guard = rows(&path, guard).remove(0);
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    let tampering = format!("DROP TRIGGER todo_guard_delete; DELETE FROM todo; {guard}");
    sqlite.execute_batch(&tampering).unwrap();
    drop(sqlite);
    assert!(rows(&path, SEEN).is_empty());
    assert!(Database::is_definition("rebuild projection todo"));
    assert!(database.define("REBUILD PROJECTION Todo;").unwrap());
    assert_eq!(rows(&path, SEEN), ["one|NULL|NULL|NULL|NULL"]);
    for (sql, why) in [
        ("REBUILD PROJECTION nothing", "no such projection: nothing"),
        ("REBUILD PROJECTION", "the statement ends too early"),
        ("REBUILD PROJECTION todo now", "near now: syntax error"),
    ] {
        assert_eq!(database.define(sql).unwrap_err().to_string(), why);
    }
}

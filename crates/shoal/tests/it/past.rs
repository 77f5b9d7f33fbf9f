//! Documents by SQL: their history, their contents, and their past.

use shoal::{Database, Document, Environment};
use shoal_crdt::{CommitOptions, ExpandMark, ObjType, ROOT, Scalar};
use shoal_sql::Value;

fn edit(document: &mut Document, work: impl FnOnce(&mut shoal_crdt::Transaction<'_>)) {
    let mut transaction = document.transaction();
    work(&mut transaction);
    transaction.commit(CommitOptions::default().with_message("m").with_time(7)).unwrap();
}

/// The rows as text, values between bars; errors as their sentence.
fn ask(database: &mut Database, sql: &str) -> Result<Vec<String>, String> {
    let connection = database.sql();
    let mut statement = connection.prepare(sql).map_err(|error| error.to_string())?;
    let mut rows = connection.query(&mut statement).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    while let Some(row) = rows.next().map_err(|error| error.to_string())? {
        let cells = row.values().map(|value| match Value::from(value) {
            Value::Null => "NULL".to_owned(),
            Value::Int(value) => value.to_string(),
            Value::Real(value) => value.to_string(),
            Value::Text(text) => String::from_utf8(text).unwrap(),
            Value::Blob(bytes) => format!("{bytes:02x?}"),
        });
        all.push(cells.collect::<Vec<_>>().join("|"));
    }
    Ok(all)
}

#[track_caller]
fn rows(database: &mut Database, sql: &str) -> Vec<String> {
    ask(database, sql).unwrap()
}

#[track_caller]
fn refused(database: &mut Database, sql: &str) -> String {
    ask(database, sql).unwrap_err()
}

fn hex(document: &Document) -> String {
    document.heads().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn open() -> Database {
    Database::memory(Environment::os()).unwrap()
}

fn import(document: &mut Document, json: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    edit(document, |transaction| transaction.import_json(&json).unwrap());
}

#[test]
fn history_and_contents() {
    let mut database = open();
    assert!(rows(&mut database, "SELECT * FROM documents").is_empty());
    let mut note = database.open_or_create("note").unwrap();
    import(&mut note, r#"{"title": "abc", "list": [1, {"x": null}], "n": true}"#);
    database.commit(&mut note).unwrap();
    let first = hex(&note);
    edit(&mut note, |transaction| transaction.put(&ROOT, "n", 2.5).unwrap());
    database.commit(&mut note).unwrap();

    let all = rows(
        &mut database,
        "SELECT seq, time, message, deps, ops, stored_at > 1700000000000, hash \
         FROM document_history('note')",
    );
    assert_eq!(all[0], format!("1|7|m|[]|9|1|{first}"));
    assert_eq!(all[1], format!("2|7|m|[\"{first}\"]|1|1|{}", hex(&note)));
    let tree = "SELECT path, parent, key, type, value, conflict FROM document_tree('note')";
    let expected = [
        "/list||list|list|NULL|0",
        "/n||n|real|2.5|0",
        "/title||title|text|abc|0",
        "/list/0|/list|0|int|1|0",
        "/list/1|/list|1|map|NULL|0",
        "/list/1/x|/list/1|x|null|NULL|0",
    ];
    assert_eq!(rows(&mut database, tree), expected);
    let then = format!("SELECT value FROM document_tree('note', '{first}') WHERE path = '/n'");
    assert_eq!(rows(&mut database, &then), ["1"]);
    let text = "SELECT d.name, t.text FROM documents d, document_text(d.name, '/title') t";
    assert_eq!(rows(&mut database, text), ["note|abc"]);
    assert!(rows(&mut database, "SELECT * FROM document_text('note', '/list')").is_empty());
    assert!(rows(&mut database, "SELECT * FROM document_text(NULL, '/title')").is_empty());
    let by_number = "SELECT t.text FROM _shoal_doc d, document_text(d.id, '/title') t";
    assert_eq!(rows(&mut database, by_number), ["abc"]);

    // One sentence for what is wrong.
    for (sql, why) in [
        ("SELECT * FROM document_history('nowhere')", "no such document: nowhere"),
        ("SELECT * FROM document_tree('note', 'abcdefabcdef')", "document note has no such change"),
        ("SELECT * FROM document_tree('note', 'hello')", "hello: not the hash of a change"),
        ("SELECT * FROM document_text('note')", "the path of a text is missing"),
        ("SELECT * FROM document_text('note', 'title')", "those begin with a slash"),
        ("SELECT * FROM document_history()", "takes the name of a document"),
        ("SELECT * FROM document_history('note', 1)", "too many arguments"),
    ] {
        assert!(
            refused(&mut database, sql).contains(why),
            "{sql}: {}",
            refused(&mut database, sql)
        );
    }
    // A table of the user's own comes first.
    rows(&mut database, "CREATE TABLE documents (a)");
    assert!(rows(&mut database, "SELECT a FROM documents").is_empty());
}

#[test]
fn conflicts_and_differences() {
    let mut database = open();
    let mut here = database.open_or_create("d").unwrap();
    import(&mut here, r#"{"a": 1, "text": "hello", "list": [1, 2, 3], "gone": "x"}"#);
    edit(&mut here, |transaction| {
        transaction.put(&ROOT, "votes", Scalar::Counter(3)).unwrap();
    });
    let before = hex(&here);
    let mut there = here.fork(shoal::ActorId::new(&[1]));
    edit(&mut there, |transaction| transaction.put(&ROOT, "a", 20_i64).unwrap());
    let text = here.get(&ROOT, "text").unwrap().unwrap().1;
    let list = here.get(&ROOT, "list").unwrap().unwrap().1;
    edit(&mut here, |transaction| {
        transaction.put(&ROOT, "a", 10_i64).unwrap();
        transaction.splice_text(&text, 1, 3, "ipp").unwrap();
        transaction.delete(&list, 0).unwrap();
        let new = transaction.insert_object(&list, 2, ObjType::Map).unwrap();
        transaction.put(&new, "k", "v").unwrap();
        transaction.increment(&ROOT, "votes", 2).unwrap();
        transaction.delete(&ROOT, "gone").unwrap();
        transaction.put(&ROOT, "new/key", true).unwrap();
    });
    here.merge(&there).unwrap();
    database.commit(&mut here).unwrap();

    let conflicts = "SELECT path, type, value, winner FROM document_conflicts('d') ORDER BY value";
    let all = rows(&mut database, conflicts);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].starts_with("/a|int|10|") && all[1].starts_with("/a|int|20|"), "{all:?}");
    assert_eq!(all.iter().filter(|row| row.ends_with("|1")).count(), 1);
    let none = format!("SELECT * FROM document_conflicts('d', '{before}')");
    assert!(rows(&mut database, &none).is_empty());

    let diff = format!("SELECT * FROM document_diff('d', '{before}') ORDER BY path, action");
    let all = rows(&mut database, &diff);
    let has = |row: &str| assert!(all.iter().any(|found| found == row), "{row} in {all:#?}");
    has("/gone|delete|x|NULL");
    has("/list/0|delete|1|NULL");
    has(r#"/list/2|insert|NULL|{"k":"v"}"#);
    has("/new~1key|insert|NULL|1");
    has("/votes|increment|3|5");
    assert!(all.iter().any(|row| row.starts_with("/a|put|1|")), "{all:#?}");
    has("/text/1|insert|NULL|ipp");
    has("/text/4|delete|ell|NULL");
    assert!(!all.iter().any(|row| row.starts_with("/list/2/k")), "{all:#?}");
    let backwards =
        format!("SELECT path, action FROM document_diff('d', '{}', '{before}')", hex(&here));
    assert!(rows(&mut database, &backwards).contains(&"/gone|insert".to_owned()));
    let whole = rows(&mut database, "SELECT path FROM document_diff('d')");
    assert!(whole.contains(&"/list".to_owned()), "{whole:?}");
}

#[test]
fn rich_text() {
    let mut database = open();
    let mut note = database.open_or_create("note").unwrap();
    edit(&mut note, |transaction| {
        let text = transaction.put_object(&ROOT, "body", ObjType::Text).unwrap();
        transaction.splice_text(&text, 0, 0, "intro Grüße there").unwrap();
        transaction.mark(&text, 6, 11, "bold", true, ExpandMark::After).unwrap();
        let block = transaction.split_block(&text, 6).unwrap();
        transaction.put(&block, "type", "heading").unwrap();
    });
    database.commit(&mut note).unwrap();
    let marks = "SELECT * FROM document_marks('note', '/body')";
    assert_eq!(rows(&mut database, marks), ["7|12|bold|1|Grüße"]);
    let blocks = rows(&mut database, "SELECT * FROM document_blocks('note', '/body')");
    assert_eq!(blocks, ["0|NULL|intro ", r#"6|{"type":"heading"}|Grüße there"#]);
}

const LISTS: &str = "CREATE PROJECTION todo FROM DOCUMENTS WHERE name GLOB 'list/*' \
    ROWS '$.items[*]' COLUMNS (title TEXT DEFAULT '-' ON EMPTY, done BOOLEAN)";

#[test]
fn projections_and_documents_as_they_were() {
    let mut database = open();
    let mut list = database.open_or_create("list/a").unwrap();
    import(&mut list, r#"{"items": [{"title": "one", "done": false}]}"#);
    database.commit(&mut list).unwrap();
    let mut other = database.open_or_create("other").unwrap();
    import(&mut other, r#"{"items": [{"title": "no list"}]}"#);
    database.commit(&mut other).unwrap();
    database.define(LISTS).unwrap();
    let mut states = vec![(hex(&list), rows(&mut database, "SELECT * FROM todo"))];
    let items = list.get(&ROOT, "items").unwrap().unwrap().1;
    for step in 0..6_usize {
        edit(&mut list, |transaction| {
            let new = transaction.insert_object(&items, step % 2, ObjType::Map).unwrap();
            transaction.put(&new, "title", format!("step {step}")).unwrap();
            transaction.put(&new, "done", step % 3 == 0).unwrap();
        });
        if step == 3 {
            edit(&mut list, |transaction| transaction.delete(&items, 1).unwrap());
        }
        database.commit(&mut list).unwrap();
        states.push((hex(&list), rows(&mut database, "SELECT * FROM todo")));
    }
    let check = |database: &mut Database| {
        for (heads, then) in &states {
            let of = format!("SELECT * FROM todo AS OF '{heads}' ORDER BY _doc, _id");
            assert_eq!(rows(database, &of), *then);
            let short =
                format!("SELECT t.* FROM todo AS OF '{}' AS t ORDER BY _doc, _id", &heads[..12]);
            assert_eq!(rows(database, &short), *then);
        }
    };
    check(&mut database);
    // Compacted, renamed, beside the present, in a join, a subquery, a table made of it.
    database.compact("list/a").unwrap();
    check(&mut database);
    let first = &states[0].0;
    let gone = format!(
        "SELECT now.title FROM todo now LEFT JOIN todo AS OF '{first}' t USING (_doc, _id) \
         WHERE t._id IS NULL ORDER BY 1"
    );
    assert_eq!(rows(&mut database, &gone).len(), states.last().unwrap().1.len() - 1);
    let documents = format!("SELECT name, json FROM documents AS OF '{first}'");
    let expected = r#"list/a|{"items":[{"done":false,"title":"one"}]}"#;
    assert_eq!(rows(&mut database, &documents), [expected]);
    rows(&mut database, &format!("CREATE TABLE kept AS SELECT * FROM todo AS OF '{first}'"));
    assert_eq!(rows(&mut database, "SELECT title FROM kept"), ["one"]);
    let by_time = "SELECT count(*) FROM todo FOR SYSTEM_TIME AS OF 1000";
    assert_eq!(rows(&mut database, by_time), ["0"]);
    let now = "SELECT count(*) FROM todo FOR SYSTEM_TIME AS OF '2900-01-01 00:00' WHERE done = 1";
    let done = "SELECT count(*) FROM todo WHERE done = 1";
    assert_eq!(rows(&mut database, now), rows(&mut database, done));

    rows(&mut database, "ATTACH ':memory:' AS other");
    rows(&mut database, "CREATE TABLE other.todo(title)");
    let main = format!("SELECT title FROM main.todo AS OF '{first}'");
    assert_eq!(rows(&mut database, &main), ["one"]);
    for (sql, why) in [
        ("SELECT * FROM other.todo AS OF 'abcdefabcd'", "only tables of the main database"),
        ("SELECT * FROM none.todo AS OF 'abcdefabcd'", "no such table: none.todo"),
        ("SELECT * FROM todo AS OF 'abcdefabcd'", "no document has such a change: abcdefabcd"),
        ("SELECT * FROM todo AS OF 5", "heads are hashes of changes"),
        ("SELECT * FROM kept AS OF 'abcdefabcd'", "only documents and projections"),
        ("SELECT * FROM nowhere AS OF 'abcdefabcd'", "no such table: nowhere"),
        ("SELECT * FROM todo FOR SYSTEM_TIME AS OF 'soon'", "soon: not a time"),
        ("CREATE VIEW v AS SELECT * FROM todo AS OF 'abcd'", "AS OF in a view"),
    ] {
        let said = refused(&mut database, sql);
        assert!(said.contains(why), "{sql}: {said}");
    }
    let mut plain = shoal_sql::Connection::open(shoal_store::Store::memory()).unwrap();
    let mut create = plain.prepare("CREATE TABLE t (a)").unwrap();
    plain.execute(&mut create).unwrap();
    let said = plain.prepare("SELECT * FROM t AS OF 'x'").unwrap_err().to_string();
    assert!(said.contains("nobody keeps the past"), "{said}");
}

/// A statement reads documents as its transaction has them: what is not committed is there, and
/// gone after a rollback.
#[test]
fn transactions_see_their_own_documents() {
    let mut database = open();
    let mut note = database.open_or_create("n").unwrap();
    edit(&mut note, |transaction| transaction.put(&ROOT, "a", 1_i64).unwrap());
    database.commit(&mut note).unwrap();
    let value = "SELECT value FROM document_tree('n')";
    assert_eq!(rows(&mut database, value), ["1"]);
    rows(&mut database, "BEGIN");
    edit(&mut note, |transaction| transaction.put(&ROOT, "a", 2_i64).unwrap());
    database.commit(&mut note).unwrap();
    assert_eq!(rows(&mut database, value), ["2"]);
    rows(&mut database, "ROLLBACK");
    assert_eq!(rows(&mut database, value), ["1"]);
    let mut again = database.open_document("n").unwrap();
    edit(&mut again, |transaction| transaction.put(&ROOT, "a", 3_i64).unwrap());
    database.commit(&mut again).unwrap();
    assert_eq!(rows(&mut database, value), ["3"]);
}

/// A clock that the test sets.
#[derive(Debug)]
struct Set(std::sync::atomic::AtomicI64);

impl shoal_vfs::Clock for Set {
    fn unix_ms(&self) -> i64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Times of storing outlive compaction, to the minute, and so does what `FOR SYSTEM_TIME` shows.
#[test]
fn times_outlive_compaction() {
    let clock = std::sync::Arc::new(Set(0.into()));
    let os = Environment::os();
    let entropy = std::sync::Arc::new(shoal_vfs::OsEntropy);
    let environment = Environment::new(os.vfs(), clock.clone(), entropy);
    let at = |time| clock.0.store(time, std::sync::atomic::Ordering::Relaxed);
    let mut database = Database::memory(environment).unwrap();
    let mut note = database.open_or_create("n").unwrap();
    for n in 1..=40_i64 {
        at(n * 3_600_000);
        edit(&mut note, |transaction| transaction.put(&ROOT, "n", n).unwrap());
        edit(&mut note, |transaction| {
            transaction.put(&ROOT, "text", "x".repeat(n as usize)).unwrap()
        });
        database.commit(&mut note).unwrap();
    }
    let check = |database: &mut Database| {
        for n in [1, 2, 17, 40_i64] {
            let time = n * 3_600_000 + 1000;
            let sql = format!("SELECT json ->> '$.n' FROM documents FOR SYSTEM_TIME AS OF {time}");
            assert_eq!(rows(database, &sql), [n.to_string()]);
        }
        let text = "SELECT json ->> '$.n' FROM documents FOR SYSTEM_TIME AS OF '1970-01-01 05:30'";
        assert_eq!(rows(database, text), ["5"]);
        let early = "SELECT * FROM documents FOR SYSTEM_TIME AS OF 1000";
        assert!(rows(database, early).is_empty());
        let stored = "SELECT DISTINCT stored_at / 3600000 FROM document_history('n')";
        let hours: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
        assert_eq!(rows(database, stored), hours);
    };
    check(&mut database);
    at(50 * 3_600_000);
    let compacted = database.compact("n").unwrap();
    assert!(compacted.bytes_after < compacted.bytes_before, "{compacted:?}");
    check(&mut database);
    edit(&mut note, |transaction| transaction.put(&ROOT, "n", 41_i64).unwrap());
    at(60 * 3_600_000);
    database.commit(&mut note).unwrap();
    at(70 * 3_600_000);
    database.compact("n").unwrap();
    let last = "SELECT stored_at / 3600000 FROM document_history('n') WHERE seq = 81";
    assert_eq!(rows(&mut database, last), ["60"]);
}

/// A document that stays open is compacted by its commits: nobody else has to.
#[test]
fn commits_compact() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = Database::open(Environment::os(), &path, shoal::Access::Create).unwrap();
    let mut other = Database::open(Environment::os(), &path, shoal::Access::Create).unwrap();
    rows(&mut database, "PRAGMA synchronous = OFF");
    rows(&mut other, "PRAGMA synchronous = OFF");
    let mut note = database.open_or_create("n").unwrap();
    let mut there = other.open_or_create("n").unwrap();
    edit(&mut note, |transaction| {
        transaction.put_object(&ROOT, "text", ObjType::Text).unwrap();
    });
    database.commit(&mut note).unwrap();
    let text = note.get(&ROOT, "text").unwrap().unwrap().1;
    let mut most = 0;
    for n in 0..1000 {
        let length = note.length(&text).unwrap();
        edit(&mut note, |transaction| {
            transaction.splice_text(&text, length, 0, "typed ").unwrap();
        });
        database.commit(&mut note).unwrap();
        if n % 100 == 0 {
            other.commit(&mut there).unwrap();
            other.refresh(&mut there).unwrap();
        }
        if n % 10 == 0 {
            most = most.max(database.documents().unwrap()[0].bytes);
        }
    }
    let stored = &database.documents().unwrap()[0];
    assert_eq!(stored.changes, 1001);
    // A change of one keystroke takes about 100 bytes by itself.
    assert!(most < 30_000, "{most}");
    assert_eq!(database.load("n").unwrap().heads(), note.heads());
    other.refresh(&mut there).ok();
    let mut again = other.open_or_create("n").unwrap();
    other.refresh(&mut again).unwrap();
    assert_eq!(again.heads(), note.heads());
}

#[test]
fn attached_files_have_documents_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.db");
    let mut other = Database::open(Environment::os(), &path, shoal::Access::Create).unwrap();
    let mut theirs = other.open_or_create("theirs").unwrap();
    import(&mut theirs, r#"{"a": 1}"#);
    other.commit(&mut theirs).unwrap();
    drop(other);
    let mut database = open();
    let mut ours = database.open_or_create("ours").unwrap();
    import(&mut ours, r#"{"a": 2}"#);
    database.commit(&mut ours).unwrap();
    rows(&mut database, &format!("ATTACH '{}' AS other", path.display()));
    assert_eq!(rows(&mut database, "SELECT name FROM main.documents"), ["ours"]);
    assert_eq!(rows(&mut database, "SELECT count(*) FROM main.document_history('ours')"), ["1"]);
    for sql in [
        "SELECT name FROM other.documents",
        "SELECT * FROM other.document_history('ours')",
        "SELECT * FROM other.document_json('theirs')",
        "SELECT * FROM nowhere.documents",
    ] {
        let why = refused(&mut database, sql);
        assert!(why.contains("is about the main database alone"), "{sql}: {why}");
    }
    // Whatever the database, these are about their arguments.
    assert_eq!(rows(&mut database, "SELECT value FROM other.json_each('[7]')"), ["7"]);
}

#[test]
fn a_difference_from_nothing() {
    let mut database = open();
    let mut note = database.open_or_create("d").unwrap();
    import(&mut note, r#"{"a": 1}"#);
    database.commit(&mut note).unwrap();
    let from_nothing = rows(&mut database, "SELECT path, action FROM document_diff('d', '')");
    assert_eq!(from_nothing, ["/a|insert"]);
    let heads = hex(&note);
    for sql in [
        format!("SELECT path, action FROM document_diff('d', NULL, '{heads}')"),
        "SELECT path, action FROM document_diff('d', NULL, NULL)".to_owned(),
    ] {
        assert_eq!(rows(&mut database, &sql), from_nothing, "{sql}");
    }
    assert_eq!(rows(&mut database, "SELECT json FROM document_json('d', NULL)"), [r#"{"a":1}"#]);
    let why = refused(&mut database, "SELECT * FROM document_diff('d', 5)");
    assert!(why.contains("heads are hashes of changes"), "{why}");
}

#[test]
fn one_change_among_many_documents() {
    let mut database = open();
    let mut heads = Vec::new();
    for number in 0..80 {
        let mut note = database.open_or_create(&format!("d/{number}")).unwrap();
        import(&mut note, &format!(r#"{{"n": {number}}}"#));
        database.commit(&mut note).unwrap();
        heads.push(hex(&note));
        edit(&mut note, |transaction| transaction.put(&ROOT, "n", -1_i64).unwrap());
        database.commit(&mut note).unwrap();
    }
    let then = |head: &str| format!("SELECT name, json ->> '$.n' FROM documents AS OF '{head}'");
    for _ in 0..2 {
        for number in [3, 42, 79] {
            let expected = [format!("d/{number}|{number}")];
            assert_eq!(rows(&mut database, &then(&heads[number])), expected);
            assert_eq!(rows(&mut database, &then(&heads[number][..16])), expected);
        }
    }
    // Documents go on: what was remembered of them is of another state.
    let mut note = database.open_document("d/7").unwrap();
    edit(&mut note, |transaction| transaction.put(&ROOT, "n", 700_i64).unwrap());
    database.commit(&mut note).unwrap();
    assert_eq!(rows(&mut database, &then(&hex(&note))), ["d/7|700"]);
    database.copy("d/42", "e/42").unwrap();
    assert_eq!(rows(&mut database, &then(&heads[42])), ["d/42|42", "e/42|42"]);
    database.compact("d/42").unwrap();
    database.remove("e/42").unwrap();
    assert_eq!(rows(&mut database, &then(&heads[42])), ["d/42|42"]);
    let both = format!("{},{}", heads[1], heads[2]);
    assert_eq!(rows(&mut database, &then(&both)), ["d/1|1", "d/2|2"]);
    let unknown = "ab".repeat(32);
    assert!(refused(&mut database, &then(&unknown)).contains("no document has such a change"));
    assert!(refused(&mut database, &then(&unknown)).contains("no document has such a change"));
}

#[test]
fn a_file_of_a_later_shoal_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let open = || Database::open(Environment::os(), &path, shoal::Access::Create).unwrap();
    let mut database = open();
    let mut document = Document::new(Environment::os().new_actor());
    import(&mut document, r#"{"items": [{"n": 1}]}"#);
    database.store("list/a", &mut document).unwrap();
    let define = "CREATE PROJECTION todo FROM DOCUMENTS ROWS '$.items[*]' COLUMNS (n INT)";
    database.define(define).unwrap();
    drop(database);
    let sqlite = rusqlite::Connection::open(&path).unwrap();
    sqlite.execute_batch("UPDATE _shoal_meta SET value = 9 WHERE key = 'layout'").unwrap();
    drop(sqlite);

    let mut database = open();
    let why = "the documents have layout 9, of a later Shoal; this one knows up to 2";
    for sql in [
        "SELECT * FROM documents",
        "SELECT * FROM document_history('list/a')",
        "SELECT * FROM todo AS OF 'abcd'",
        "SELECT * FROM documents FOR SYSTEM_TIME AS OF '2030-01-01'",
        "UPDATE todo SET n = 2",
        "INSERT INTO todo(_doc, n) VALUES ('list/a', 2)",
        "DELETE FROM todo",
    ] {
        let refused = refused(&mut database, sql);
        assert!(refused.contains(why), "{sql}: {refused}");
    }
    for sql in ["DROP PROJECTION todo", "REBUILD PROJECTION todo"] {
        assert_eq!(database.define(sql).unwrap_err().to_string(), why);
    }
    assert_eq!(database.rebuild("todo").unwrap_err().to_string(), why);
    assert_eq!(rows(&mut database, "SELECT n FROM todo"), ["1"]);
    assert_eq!(rows(&mut database, "SELECT count(*) FROM _shoal_chunk"), ["1"]);
}

#[test]
fn documents_of_the_first_layout_are_listed_and_have_no_past_yet() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    std::fs::copy(shoal_testkit::testdata("shoal/layout-1.db"), &path).unwrap();
    let mut database = Database::open(Environment::os(), &path, shoal::Access::Create).unwrap();
    let listed = "SELECT name, json ->> '$.n' FROM documents ORDER BY name";
    assert_eq!(rows(&mut database, listed), ["list/b|1", "plan|NULL"]);
    for sql in [
        "SELECT * FROM document_history('plan')",
        "SELECT * FROM documents AS OF 'abcd'",
        "SELECT * FROM documents FOR SYSTEM_TIME AS OF '2030-01-01'",
    ] {
        let refused = refused(&mut database, sql);
        assert!(refused.contains("as Shoal 0.1.0 stored them"), "{sql}: {refused}");
    }
    database.compact("plan").unwrap();
    assert_eq!(rows(&mut database, "SELECT count(*) FROM document_history('plan')"), ["3"]);
    assert_eq!(rows(&mut database, listed), ["list/b|1", "plan|NULL"]);
}

//! `UPDATE ... AT heads`: SQL of a writer who saw an older state.

use automerge::transaction::{CommitOptions as TheirOptions, Transactable};
use automerge::{AutoCommit, ReadDoc};
use shoal::{Database, Document, Environment};
use shoal_crdt::{CommitOptions, ObjId, ROOT, Scalar};
use shoal_sql::Value;

const ITEMS: &str = "CREATE PROJECTION todo FROM DOCUMENTS ROWS '$.items[*]' COLUMNS \
    (title TEXT, votes COUNTER, n INTEGER, tags JSON)";

fn edit<R>(document: &mut Document, work: impl FnOnce(&mut shoal_crdt::Transaction<'_>) -> R) -> R {
    let mut transaction = document.transaction();
    let done = work(&mut transaction);
    transaction.commit(CommitOptions::default());
    done
}

fn import(document: &mut Document, json: &str) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    edit(document, |transaction| transaction.import_json(&json).unwrap());
}

fn hex(document: &Document) -> String {
    document.heads().iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn item(document: &Document, index: usize) -> ObjId {
    let items = document.get(&ROOT, "items").unwrap().unwrap().1;
    document.get(&items, index).unwrap().unwrap().1
}

fn run(database: &mut Database, sql: &str) -> Result<Vec<String>, String> {
    let connection = database.sql();
    let mut last = Vec::new();
    for range in shoal_sql::Statements::new(sql) {
        let mut statement = connection.prepare(&sql[range]).map_err(|error| error.to_string())?;
        last.clear();
        let mut rows = connection.query(&mut statement).map_err(|error| error.to_string())?;
        while let Some(row) = rows.next().map_err(|error| error.to_string())? {
            let cells = row.values().map(|value| match Value::from(value) {
                Value::Null => "NULL".to_owned(),
                Value::Int(value) => value.to_string(),
                Value::Text(text) => String::from_utf8(text).unwrap(),
                other => format!("{other:?}"),
            });
            last.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(last)
}

const SEEN: &str = "SELECT title, votes, n, tags FROM todo ORDER BY _doc, _id";

/// A document of two items as one writer saw it, and others' edits since.
fn bench() -> (Database, String) {
    let mut database = Database::memory(Environment::os()).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    import(
        &mut document,
        r#"{"items": [{"title": "pack the bags", "n": 1, "tags": ["a", "b"]},
        {"title": "book", "n": 2}, {"title": "gone"}]}"#,
    );
    let first = item(&document, 0);
    edit(&mut document, |transaction| {
        transaction.put(&first, "votes", Scalar::Counter(3)).unwrap();
    });
    let seen = hex(&document);
    let title = document.get(&first, "title").unwrap().unwrap().1;
    let items = document.get(&ROOT, "items").unwrap().unwrap().1;
    edit(&mut document, |transaction| {
        transaction.splice_text(&title, 0, 4, "Repack").unwrap();
        transaction.increment(&first, "votes", 10).unwrap();
        transaction.put(&first, "n", 7_i64).unwrap();
        transaction.delete(&items, 2).unwrap();
    });
    database.store("a", &mut document).unwrap();
    database.define(ITEMS).unwrap();
    (database, seen)
}

fn check(database: &mut Database) {
    let before = run(database, "SELECT * FROM todo").unwrap();
    let conflicts = run(database, "SELECT * FROM todo_conflicts").unwrap();
    database.rebuild("todo").unwrap();
    assert_eq!(run(database, "SELECT * FROM todo").unwrap(), before);
    assert_eq!(run(database, "SELECT * FROM todo_conflicts").unwrap(), conflicts);
}

#[test]
fn a_stale_base_merges() {
    let (mut database, seen) = bench();
    let changes = database.load("a").unwrap().changes().len();
    let sql = format!(
        "UPDATE todo AT '{seen}' AS t SET title = t.title || '!', votes = votes + 1, \
         tags = '[\"a\",\"b\",\"c\"]' WHERE t.n = 1 RETURNING title, votes, n"
    );
    assert_eq!(run(&mut database, &sql).unwrap(), ["Repack the bags!|14|7"]);
    assert_eq!(
        run(&mut database, SEEN).unwrap(),
        [r#"Repack the bags!|14|7|["a","b","c"]"#, "book|NULL|2|NULL"]
    );
    let document = database.load("a").unwrap();
    assert_eq!(document.changes().len(), changes + 1);
    let change = document.changes().last().unwrap();
    assert_eq!(change.deps().iter().map(ToString::to_string).collect::<Vec<_>>().join(","), seen);
    check(&mut database);

    // A value written by both is a conflict, and a row that is gone stays away.
    let sql = format!("UPDATE todo AT '{seen}' SET n = n + 100");
    run(&mut database, &sql).unwrap();
    let rows = run(&mut database, "SELECT n FROM todo ORDER BY _id").unwrap();
    assert!(rows == ["101", "102"] || rows == ["7", "102"], "{rows:?}");
    let losers = run(&mut database, "SELECT \"column\", value FROM todo_conflicts").unwrap();
    let others = if rows[0] == "7" { "n|101" } else { "n|7" };
    assert_eq!(losers, [others]);
    assert_eq!(database.load("a").unwrap().changes().len(), changes + 2);
    check(&mut database);

    // What the writer saw already makes no change.
    let sql = format!("UPDATE todo AT '{seen}' SET title = title, votes = votes, n = n");
    run(&mut database, &sql).unwrap();
    assert_eq!(database.load("a").unwrap().changes().len(), changes + 2);
}

#[test]
fn taken_back_with_its_transaction() {
    let (mut database, seen) = bench();
    let before = run(&mut database, SEEN).unwrap();
    let changes = database.load("a").unwrap().changes().len();
    let update = format!("UPDATE todo AT '{seen}' SET title = title || '!' WHERE n = 1");
    for sql in [
        format!("BEGIN; {update}; ROLLBACK"),
        format!("BEGIN; SAVEPOINT s; {update}; ROLLBACK TO s; COMMIT"),
        format!("BEGIN; SAVEPOINT s; {update}; {update}; ROLLBACK TO s; RELEASE s; COMMIT"),
    ] {
        run(&mut database, &sql).unwrap();
        assert_eq!(run(&mut database, SEEN).unwrap(), before, "{sql}");
        assert_eq!(database.load("a").unwrap().changes().len(), changes, "{sql}");
    }
    // Pending edits before the savepoint stay; those after it go.
    let sql = format!(
        "BEGIN; UPDATE todo SET title = 'Book' WHERE n = 2; SAVEPOINT s; {update}; \
         UPDATE todo SET title = 'BOOK' WHERE n = 2; ROLLBACK TO s; \
         UPDATE todo SET n = 9 WHERE n = 2; {update}; COMMIT"
    );
    run(&mut database, &sql).unwrap();
    let rows = run(&mut database, "SELECT title, n FROM todo ORDER BY _id").unwrap();
    assert_eq!(rows, ["Repack the bags!|7", "Book|9"]);
    // The edits at present, and those at the older heads.
    assert_eq!(database.load("a").unwrap().changes().len(), changes + 2);
    check(&mut database);
    // A statement that fails at its second row takes the first back, too.
    let sql = format!("UPDATE todo AT '{seen}' SET n = CASE n WHEN 1 THEN 5 ELSE 'x' END");
    assert!(run(&mut database, &sql).unwrap_err().contains("n takes integers"));
    assert_eq!(database.load("a").unwrap().changes().len(), changes + 2);
    check(&mut database);
}

#[test]
fn a_place_is_no_value_to_write() {
    let (mut database, seen) = bench();
    database
        .define(
            "CREATE PROJECTION placed FROM DOCUMENTS ROWS '$.items[*]' \
             COLUMNS (pos FOR ORDINALITY, title TEXT)",
        )
        .unwrap();
    for at in [String::new(), format!(" AT '{seen}'")] {
        for set in ["pos = NULL", "pos = pos + 1", "title = 'x', pos = NULL"] {
            let sql = format!("UPDATE placed{at} SET {set}");
            let refused = run(&mut database, &sql).unwrap_err();
            assert!(refused.contains("rows do not move"), "{sql}: {refused}");
        }
        run(&mut database, &format!("UPDATE placed{at} SET pos = pos")).unwrap();
    }
    check(&mut database);
}

#[test]
fn one_sentence_each() {
    let (mut database, seen) = bench();
    run(&mut database, "CREATE TABLE plain(a); CREATE VIEW v AS SELECT * FROM todo").unwrap();
    for (sql, why) in [
        (format!("DELETE FROM todo AT '{seen}'"), "AT behind the table of another statement"),
        (
            format!("INSERT INTO todo AT '{seen}' (_doc) VALUES (1)"),
            "AT behind the table of another statement",
        ),
        (format!("UPDATE plain AT '{seen}' SET a = 1"), "only projections of documents"),
        (format!("UPDATE v AT '{seen}' SET n = 1"), "it is a view"),
        (format!("UPDATE todo AT '{seen}' SET _id = x'00'"), "the row's key, which stays"),
        ("UPDATE todo AT 'abcdef' SET n = 1".to_owned(), "no document has such a change"),
        ("UPDATE todo AT 5 SET n = 1".to_owned(), "heads are hashes of changes"),
        ("UPDATE todo AT (n) SET n = 1".to_owned(), "no such column"),
        (
            format!(
                "CREATE TRIGGER t AFTER INSERT ON plain BEGIN UPDATE todo AT '{seen}' SET n = 1; END"
            ),
            "AT in a trigger",
        ),
    ] {
        let refused = run(&mut database, &sql).unwrap_err();
        assert!(refused.contains(why), "{sql}: {refused}");
    }
}

/// The change is byte for byte that of the reference: isolated at the heads, the text updated.
#[test]
fn the_reference_makes_the_same_change() {
    let mut state = 7_u64;
    let mut below = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below.max(1)
    };
    for round in 0..40 {
        let mut database = Database::memory(Environment::os()).unwrap();
        let mut document = Document::new(Environment::os().new_actor());
        import(&mut document, r#"{"items": [{"title": "abcdefghij"}, {"title": "xyz"}]}"#);
        let seen = document.heads();
        let seen_hex = hex(&document);
        let mut other = document.fork(Environment::os().new_actor());
        for _ in 0..below(6) {
            let which = usize::try_from(below(2)).unwrap();
            let (by, place) = (format!("{}", below(100)), usize::try_from(below(4)).unwrap());
            let author = if below(2) == 0 { &mut document } else { &mut other };
            let title = author.get(&item(author, which), "title").unwrap().unwrap().1;
            let cut = isize::from(author.text(&title).unwrap().len() > place + 2);
            edit(author, |it| it.splice_text(&title, place.min(3), cut, &by).unwrap());
        }
        document.merge(&other).unwrap();
        database.store("a", &mut document).unwrap();
        database.define(ITEMS).unwrap();
        let (at, to) = (usize::try_from(below(10)).unwrap(), usize::try_from(below(10)).unwrap());
        let mut text = "abcdefghij".to_owned();
        text.replace_range(
            at.min(to)..at.max(to),
            &"NEW words"[..usize::try_from(below(10)).unwrap()],
        );
        let sql = format!("UPDATE todo AT '{seen_hex}' SET title = '{text}' WHERE title GLOB 'a*'");
        run(&mut database, &sql).unwrap();

        let after = database.load("a").unwrap();
        let new = after.changes_since(&document.heads());
        let mut theirs = AutoCommit::load(&document.save()).unwrap();
        if let [change] = new[..] {
            theirs.set_actor(automerge::ActorId::from(change.actor().as_bytes()));
            let heads: Vec<automerge::ChangeHash> =
                seen.iter().map(|head| automerge::ChangeHash(head.0)).collect();
            theirs.isolate(&heads);
            let items = theirs.get(automerge::ROOT, "items").unwrap().unwrap().1;
            let first = theirs.get(&items, 0).unwrap().unwrap().1;
            let title = theirs.get(&first, "title").unwrap().unwrap().1;
            theirs.update_text(&title, &text).unwrap();
            theirs.commit_with(TheirOptions::default().with_time(change.time()));
            theirs.integrate();
        } else {
            assert_eq!((new.len(), text.as_str()), (0, "abcdefghij"), "round {round}");
        }
        let heads: Vec<[u8; 32]> = theirs.get_heads().iter().map(|head| head.0).collect();
        let ours: Vec<[u8; 32]> = after.heads().iter().map(|head| head.0).collect();
        assert_eq!(ours, heads, "round {round}: {sql}");
        check(&mut database);
    }
}

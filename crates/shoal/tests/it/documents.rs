//! Documents in a database: stored ones come back, nobody's changes are lost, a stranger's edits of
//! the tables are noticed, and every head told is there after a crash.

use std::path::Path;
use std::sync::Arc;

use shoal::{Access, Database, Document, Environment, Error};
use shoal_crdt::{CommitOptions, LoadOptions, ROOT};
use shoal_vfs::{FixedClock, SeededEntropy, SimVfs};

fn simulated(vfs: &SimVfs, seed: u64) -> Environment {
    let clock = FixedClock { unix_ms: 1_700_000_000_000 };
    Environment::new(Arc::new(vfs.clone()), Arc::new(clock), Arc::new(SeededEntropy::new(seed)))
}

fn put(document: &mut Document, key: &str, value: i64) {
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).unwrap();
    transaction.commit(CommitOptions::default()).unwrap();
}

fn put_text(document: &mut Document, key: &str, value: &str) {
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, value).unwrap();
    transaction.commit(CommitOptions::default()).unwrap();
}

fn json(document: &Document) -> String {
    serde_json::to_string(&document.to_json()).unwrap()
}

fn open(path: &Path) -> Database {
    Database::open(Environment::os(), path, Access::Create).unwrap()
}

#[test]
fn what_is_stored_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let environment = Environment::os();
    let mut documents = Vec::new();
    for index in 0..5 {
        let mut document = Document::new(environment.new_actor());
        put(&mut document, "n", index);
        let heads = open(&path).store(&format!("doc {index}"), &mut document).unwrap();
        assert_eq!(heads, document.heads());
        documents.push(document);
    }
    put(&mut documents[2], "more", 7);
    open(&path).store("doc 2", &mut documents[2]).unwrap();

    let mut database = open(&path);
    let list = database.documents().unwrap();
    let names: Vec<&str> = list.iter().map(|document| document.name.as_str()).collect();
    assert_eq!(names, ["doc 0", "doc 1", "doc 2", "doc 3", "doc 4"]);
    assert_eq!((list[1].changes, list[2].changes), (1, 2));
    for (document, stored) in documents.iter().zip(&list) {
        let loaded = database.load(&stored.name).unwrap();
        assert_eq!(loaded.heads(), document.heads());
        assert_eq!(stored.heads, document.heads());
        assert_eq!(json(&loaded), json(document));
    }
    assert!(matches!(database.load("doc 5"), Err(Error::NoDocument { .. })));
}

#[test]
fn storing_again_appends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = open(&path);
    let mut document = Document::new(Environment::os().new_actor());
    put(&mut document, "n", 1);
    database.store("d", &mut document).unwrap();
    database.store("d", &mut document).unwrap();
    assert_eq!(database.documents().unwrap()[0].changes, 1);
}

#[test]
fn two_who_edit_at_once_both_keep_their_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut base = Document::new(Environment::os().new_actor());
    put(&mut base, "base", 0);
    open(&path).store("d", &mut base).unwrap();

    let (mut one, mut other) = (open(&path), open(&path));
    let (mut a, mut b) = (one.load("d").unwrap(), other.load("d").unwrap());
    put(&mut a, "a", 1);
    put(&mut b, "b", 2);
    one.store("d", &mut a).unwrap();
    let heads = other.store("d", &mut b).unwrap();
    assert_eq!(heads.len(), 2, "the two changes know nothing of each other");
    assert_eq!(json(&b), r#"{"a":1,"b":2,"base":0}"#);
    let loaded = one.load("d").unwrap();
    assert_eq!(loaded.heads(), heads);
    assert_eq!(json(&loaded), json(&b));
}

/// A file with changes waiting for a missing one: stored, loaded, and applied when the missing one
/// comes.
#[test]
fn changes_that_wait_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut author = Document::new(Environment::os().new_actor());
    for index in 0..3 {
        put(&mut author, &format!("k{index}"), index);
    }
    let changes: Vec<_> = author.changes().cloned().collect();
    let mut partial = Document::new(Environment::os().new_actor());
    partial.apply_changes([changes[0].clone(), changes[2].clone()]).unwrap();
    assert_eq!(partial.queued_changes().len(), 1);

    let mut database = open(&path);
    database.store("d", &mut partial).unwrap();
    let mut loaded = database.load("d").unwrap();
    assert_eq!(loaded.queued_changes().len(), 1);
    loaded.apply_changes([changes[1].clone()]).unwrap();
    database.store("d", &mut loaded).unwrap();
    assert_eq!(database.documents().unwrap()[0].changes, 3, "the waiting change is stored once");
    let loaded = database.load("d").unwrap();
    assert_eq!(loaded.heads(), author.heads());
    assert_eq!(json(&loaded), json(&author));
}

#[test]
fn real_documents_survive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for name in ["monday-meeting-notes.automerge", "godot-modeled.amrg"] {
        let bytes = std::fs::read(shoal_testkit::testdata(&format!("automerge/documents/{name}")));
        let actor = Environment::os().new_actor();
        let mut document = Document::load(&bytes.unwrap(), actor, &LoadOptions::default()).unwrap();
        let mut database = open(&path);
        database.store(name, &mut document).unwrap();
        let loaded = database.load(name).unwrap();
        assert_eq!(loaded.heads(), document.heads());
        assert_eq!(json(&loaded), json(&document));
    }
}

/// A foreign program's edits of the tables give an error with table and row.
#[test]
fn foreign_writes_are_noticed() {
    let check = |sql: &str, expect: &str| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let mut document = Document::new(Environment::os().new_actor());
        put(&mut document, "a", 1);
        put(&mut document, "b", 2);
        open(&path).store("d", &mut document).unwrap();
        let sqlite = rusqlite::Connection::open(&path).unwrap();
        sqlite.execute_batch(sql).unwrap();
        drop(sqlite);
        let error = open(&path).load("d").unwrap_err().to_string();
        assert!(error.contains(expect), "{sql}: {error}");
    };
    check("DELETE FROM _shoal_chunk WHERE id = 4294967297", "do not lead to its heads");
    check("DELETE FROM _shoal_chunk WHERE id = 4294967296", "do not lead to its heads");
    check("UPDATE _shoal_chunk SET heads = zeroblob(32)", "do not lead to its heads");
    check("UPDATE _shoal_chunk SET heads = x'0102'", "32 bytes each");
    check("UPDATE _shoal_chunk SET bytes = x'00'", "_shoal_chunk row 4294967296: chunk envelope");
    check("UPDATE _shoal_chunk SET bytes = 'text'", "the chunk is no blob");
    check("UPDATE _shoal_chunk SET id = id + 4294967296", "do not lead to its heads");
    check("UPDATE _shoal_doc SET heads = x'0102'", "32 bytes each");
    check("UPDATE _shoal_doc SET heads = zeroblob(32)", "do not lead to its heads");
    check("UPDATE _shoal_doc SET name = 'e'", "no such document: d");
    check("DROP TABLE _shoal_chunk", "another shape");
    check("DROP TABLE _shoal_chunk; CREATE TABLE _shoal_chunk(x)", "");
    check("UPDATE _shoal_meta SET value = 3", "of a later Shoal");
    check("DELETE FROM _shoal_meta", "another shape");
}

#[test]
fn sql_reads_documents_and_may_not_write_them() {
    let mut database = Database::memory(Environment::os()).unwrap();
    let mut document = Document::new(Environment::os().new_actor());
    put(&mut document, "n", 41);
    database.store("d", &mut document).unwrap();
    let sql = database.sql();
    let mut statement = sql.prepare("SELECT json ->> '$.n' + 1 FROM _shoal_doc").unwrap();
    let mut rows = sql.query(&mut statement).unwrap();
    assert_eq!(rows.next().unwrap().unwrap().get(0), shoal_sql::ValueRef::Int(42));
    drop(rows);
    let refused = sql.prepare("DELETE FROM _shoal_doc").unwrap_err();
    assert!(matches!(refused, shoal_sql::Error::Refused { .. }), "{refused}");
}

/// Two documents are stored one after the other, and the machine dies after any system call. Every
/// head told is there; a store without an answer is there whole or not at all.
#[test]
fn told_implies_durable() {
    let path = Path::new("a.db");
    let vfs = SimVfs::new();
    let environment = simulated(&vfs, 1);
    let mut database = Database::open(environment.clone(), path, Access::Create).unwrap();
    let mut document = Document::new(environment.new_actor());
    let mut told = vec![(vfs.calls(), String::from("{}"))];
    for index in 0..3 {
        let mut transaction = document.transaction();
        transaction.put(&ROOT, "n", index).unwrap();
        transaction.put(&ROOT, "bulk", "x".repeat(3_000 * index as usize)).unwrap();
        transaction.commit(CommitOptions::default()).unwrap();
        database.store("d", &mut document).unwrap();
        told.push((vfs.calls(), json(&document)));
    }
    let states: Vec<&String> = told.iter().map(|(_, state)| state).collect();

    let mut cut = 0;
    for calls in told[0].0..=told[3].0 {
        for seed in 0..6 {
            let disk = SimVfs::from_image(&vfs.image_after_crash(calls, seed));
            let mut database = Database::open(simulated(&disk, 2), path, Access::Create).unwrap();
            let found = match database.load("d") {
                Ok(document) => json(&document),
                Err(Error::NoDocument { .. }) => String::from("{}"),
                Err(error) => panic!("after {calls} calls, seed {seed}: {error}"),
            };
            let found = states.iter().position(|state| **state == found).unwrap();
            let least = told.iter().filter(|(at, _)| *at <= calls).count() - 1;
            assert!(
                found == least || found == least + 1,
                "after {calls} calls, seed {seed}: state {found}, told {least}"
            );
            cut += 1;
        }
    }
    assert!(cut > 100, "only {cut} crashes tried");
}

/// The text of a shell's `SELECT`, by another program.
fn sqlite(path: &Path, sql: &str) -> String {
    let sqlite = rusqlite::Connection::open(path).unwrap();
    sqlite.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap()
}

#[test]
fn a_file_of_layout_1_is_read_and_brought_up_when_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    std::fs::copy(shoal_testkit::testdata("shoal/layout-1.db"), &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let mut database = Database::open(Environment::os(), &path, Access::ReadOnly).unwrap();
    let list = database.documents().unwrap();
    let list: Vec<_> = list.iter().map(|doc| (doc.name.as_str(), doc.changes)).collect();
    assert_eq!(list, [("list/b", 1), ("plan", 3)]);
    let plan = database.load("plan").unwrap();
    assert!(json(&plan).starts_with(r#"{"title":"Summer Holidays""#));
    drop(database);
    assert_eq!(std::fs::read(&path).unwrap(), before, "reading changes nothing");

    let mut database = open(&path);
    let mut open_plan = database.open_document("plan").unwrap();
    put(&mut open_plan, "n", 1);
    database.commit(&mut open_plan).unwrap();
    drop(database);
    assert_eq!(sqlite(&path, "SELECT group_concat(value) FROM _shoal_meta"), "2");
    assert_eq!(sqlite(&path, "SELECT item FROM cost"), "train");
    assert_eq!(sqlite(&path, "PRAGMA integrity_check"), "ok");
    let mut database = open(&path);
    let changes: Vec<_> = database.documents().unwrap().iter().map(|doc| doc.changes).collect();
    assert_eq!(changes, [1, 4]);
    assert!(json(&database.load("plan").unwrap()).starts_with(r#"{"n":1,"title":"Summer"#));
    assert_eq!(json(&database.load("list/b").unwrap()), r#"{"n":1}"#);
}

#[test]
fn an_open_document_costs_what_was_edited_and_follows_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (mut one, mut two) = (open(&path), open(&path));
    let mut here = one.open_or_create("d").unwrap();
    let mut text = here.transaction();
    let body = text.put_object(&ROOT, "body", shoal_crdt::ObjType::Text).unwrap();
    text.splice_text(&body, 0, 0, &"long ago ".repeat(2_000)).unwrap();
    text.commit(CommitOptions::default()).unwrap();
    one.commit(&mut here).unwrap();
    let mut there = two.open_document("d").unwrap();
    let json_then = sqlite(&path, "SELECT json FROM _shoal_doc");

    for index in 0..20 {
        let mut typed = here.transaction();
        typed.splice_text(&body, index, 0, "x").unwrap();
        typed.commit(CommitOptions::default()).unwrap();
        one.commit(&mut here).unwrap();
    }
    assert_eq!(sqlite(&path, "SELECT json FROM _shoal_doc"), json_then, "the JSON may lag");
    assert!(two.refresh(&mut there).unwrap());
    assert!(!two.refresh(&mut there).unwrap());
    assert_eq!(json(&there), json(&here));
    put(&mut there, "other", 1);
    put(&mut here, "mine", 2);
    two.commit(&mut there).unwrap();
    let heads = one.commit(&mut here).unwrap();
    assert_eq!(heads.len(), 2);

    // SQL through Shoal sees the present, and so does everybody from then on.
    two.sql();
    assert_eq!(sqlite(&path, "SELECT json FROM _shoal_doc"), json(&here));
    assert_eq!(sqlite(&path, "SELECT count(*) || '' FROM _shoal_lag"), "0");
    assert_eq!(two.documents().unwrap()[0].changes, 23);

    two.remove("d").unwrap();
    put(&mut here, "late", 3);
    assert!(matches!(one.commit(&mut here), Err(Error::NoDocument { .. })));
    assert!(matches!(one.refresh(&mut here), Err(Error::NoDocument { .. })));
}

#[test]
fn an_edit_that_was_rolled_back_with_its_transaction_is_stored_by_the_next() {
    let mut database = Database::memory(Environment::os()).unwrap();
    let mut note = database.open_or_create("d").unwrap();
    put(&mut note, "a", 1);
    database.commit(&mut note).unwrap();
    database.sql().begin(shoal_store::Mode::Write).unwrap();
    put(&mut note, "b", 2);
    database.commit(&mut note).unwrap();
    database.sql().rollback().unwrap();
    assert_eq!(json(&database.load("d").unwrap()), r#"{"a":1}"#);
    put(&mut note, "c", 3);
    database.commit(&mut note).unwrap();
    assert_eq!(json(&database.load("d").unwrap()), r#"{"a":1,"b":2,"c":3}"#);
    assert_eq!(database.documents().unwrap()[0].changes, 3);
}

#[test]
fn compacting_keeps_every_change_and_whoever_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let (mut one, mut two) = (open(&path), open(&path));
    let mut here = one.open_or_create("d").unwrap();
    for index in 0..300 {
        put(&mut here, &format!("k{}", index % 7), index);
        one.commit(&mut here).unwrap();
    }
    let mut there = two.open_document("d").unwrap();
    let changes: Vec<Vec<u8>> = here.changes().map(|change| change.raw_bytes().to_vec()).collect();
    let done = two.compact("d").unwrap();
    assert_eq!(done.changes, 300);
    assert!(done.bytes_after * 10 < done.bytes_before, "{done:?}");
    let chunks = "SELECT count(*) || '' FROM _shoal_chunk";
    assert_eq!(sqlite(&path, chunks), "1");

    put(&mut here, "here", 1);
    one.commit(&mut here).unwrap();
    put(&mut there, "there", 1);
    two.commit(&mut there).unwrap();
    one.refresh(&mut here).unwrap();
    assert_eq!(json(&here), json(&there));
    assert_eq!(sqlite(&path, chunks), "3");
    let loaded = one.load("d").unwrap();
    for bytes in changes {
        let change = shoal_history::Change::from_bytes(&bytes).unwrap();
        assert_eq!(loaded.change_by_hash(&change.hash()).unwrap().raw_bytes(), bytes);
    }
    assert_eq!(two.documents().unwrap()[0].changes, 302);
    assert_eq!(two.compact("d").unwrap().changes, 302);
    one.close(here).unwrap();
    assert_eq!(one.load("d").unwrap().heads(), loaded.heads());
}

#[test]
fn real_documents_take_the_space_of_their_files() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["monday-meeting-notes.automerge", "godot-modeled.amrg"] {
        let path = dir.path().join(name);
        let file = shoal_testkit::testdata(&format!("automerge/documents/{name}"));
        let bytes = std::fs::read(file).unwrap();
        let actor = Environment::os().new_actor();
        let mut document = Document::load(&bytes, actor, &LoadOptions::default()).unwrap();
        let mut database = open(&path);
        database.store(name, &mut document).unwrap();
        let stored = &database.documents().unwrap()[0];
        let own = document.save().len() as u64;
        assert!(stored.bytes <= own + own / 100, "{name}: {} of {own}", stored.bytes);
        assert_eq!(stored.changes, document.changes().len() as u64);
    }
}

#[test]
fn documents_are_renamed_copied_and_removed() {
    let mut database = Database::memory(Environment::os()).unwrap();
    let mut note = database.open_or_create("a").unwrap();
    put(&mut note, "n", 1);
    database.commit(&mut note).unwrap();
    database.copy("a", "b").unwrap();
    assert!(matches!(database.copy("a", "b"), Err(Error::Exists { .. })));
    assert!(matches!(database.rename("a", "b"), Err(Error::Exists { .. })));
    assert!(matches!(database.rename("x", "y"), Err(Error::NoDocument { .. })));
    database.rename("a", "c").unwrap();
    put(&mut note, "n", 2);
    database.commit(&mut note).unwrap();
    let names = |database: &mut Database| -> Vec<String> {
        database.documents().unwrap().into_iter().map(|document| document.name).collect()
    };
    assert_eq!(names(&mut database), ["b", "c"]);
    assert_eq!(json(&database.load("c").unwrap()), r#"{"n":2}"#);
    assert_eq!(json(&database.load("b").unwrap()), r#"{"n":1}"#);
    database.remove("c").unwrap();
    assert_eq!(names(&mut database), ["b"]);
    let removed = database.removed().unwrap();
    assert_eq!((removed[0].name.as_str(), &removed[0].heads), ("c", &note.heads()));
    // Ids are not used again: whoever still has the old one open does not write into another.
    let mut other = database.open_or_create("d").unwrap();
    put(&mut other, "n", 9);
    database.commit(&mut other).unwrap();
    put(&mut note, "n", 3);
    assert!(matches!(database.commit(&mut note), Err(Error::NoDocument { .. })));
    assert_eq!(json(&database.load("d").unwrap()), r#"{"n":9}"#);
    database.forget_removed("c").unwrap();
    assert_eq!(database.removed().unwrap(), []);
}

/// A document is edited, compacted, edited and closed, and the machine dies after any system call:
/// the document is one that was told, or the one in flight, and all of its changes are there.
#[test]
fn compacting_survives_a_crash_at_any_call() {
    let path = Path::new("a.db");
    let vfs = SimVfs::new();
    let environment = simulated(&vfs, 1);
    let mut database = Database::open(environment.clone(), path, Access::Create).unwrap();
    let mut note = database.open_or_create("d").unwrap();
    for index in 0..40 {
        put(&mut note, "n", index);
    }
    database.commit(&mut note).unwrap();
    let mut told = vec![(vfs.calls(), 40)];
    database.compact("d").unwrap();
    told.push((vfs.calls(), 40));
    for index in 0..2 {
        put(&mut note, "bulk", index);
        database.commit(&mut note).unwrap();
        told.push((vfs.calls(), 41 + index as usize));
    }
    database.compact("d").unwrap();
    database.close(note).unwrap();
    let last = vfs.calls();
    for calls in told[0].0..=last {
        for seed in 0..4 {
            let disk = SimVfs::from_image(&vfs.image_after_crash(calls, seed));
            let mut database = Database::open(simulated(&disk, 2), path, Access::Create).unwrap();
            let found = database.load("d").unwrap().changes().len();
            let least = told.iter().filter(|(at, _)| *at <= calls).map(|(_, n)| *n).max().unwrap();
            let after = format!("after {calls} calls, seed {seed}: {found} changes, told {least}");
            assert!(found == least || found == least + 1, "{after}");
            assert_eq!(database.documents().unwrap()[0].changes, found as u64, "{after}");
        }
    }
}

/// A compacted history is opened and edited without its changes being made and hashed, and is the
/// document loaded whole.
#[test]
fn opening_for_an_edit_hashes_no_history() {
    let folder = shoal_testkit::testdata("automerge/documents");
    let mut database = Database::memory(Environment::os()).unwrap();
    let mut lazily = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let actor = Environment::os().new_actor();
        let Ok(mut whole) = Document::load(&bytes, actor, &LoadOptions::default()) else {
            continue;
        };
        if whole.is_empty() {
            continue;
        }
        let name = path.display().to_string();
        database.store(&name, &mut whole).unwrap();
        database.compact(&name).unwrap();
        let mut open = database.open_document(&name).unwrap();
        let was_lazy = !open.graph().is_hashed();
        for n in 0..3 {
            put(&mut open, "opened lazily", n);
            database.commit(&mut open).unwrap();
        }
        assert_eq!(was_lazy, !open.graph().is_hashed(), "{name}: an edit needs no hashes");
        database.close(open).unwrap();
        let mut again = database.open_document(&name).unwrap();
        put(&mut again, "opened lazily", 3);
        database.commit(&mut again).unwrap();
        assert_eq!(was_lazy, !again.graph().is_hashed(), "{name}: nor do changes behind a chunk");
        lazily += usize::from(was_lazy);

        let new = again.changes_since(&whole.heads());
        whole.apply_changes(new.into_iter().cloned()).unwrap();
        assert_eq!(json(&whole), json(&again), "{name}");
        assert_eq!(whole.heads(), again.heads(), "{name}");
        let hashes = |document: &Document| -> Vec<_> {
            document.changes().map(|change| (change.hash(), change.raw_bytes().to_vec())).collect()
        };
        let (mut theirs, mut ours) = (hashes(&whole), hashes(&database.load(&name).unwrap()));
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(theirs, ours, "{name}");
    }
    assert!(lazily > 3, "{lazily} documents were opened lazily");
}

/// Long JSON is behind after short sessions, but never by more than a quarter; SQL through Shoal
/// sees the present.
#[test]
fn long_json_lags_within_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut database = open(&path);
    let mut note = database.open_or_create("d").unwrap();
    put_text(&mut note, "long", &"x".repeat(100_000));
    database.close(note).unwrap();
    let length = "SELECT length(json) || '' FROM _shoal_doc";
    let (mut before, mut written) = (sqlite(&path, length), 0);
    let mut appended = 0;
    for session in 0..12 {
        let mut note = database.open_document("d").unwrap();
        let text: String =
            (0..5000).map(|at| char::from(b'a' + (at * 7 + session) as u8 % 26)).collect();
        put_text(&mut note, &format!("k{session}"), &text);
        database.close(note).unwrap();
        appended += 5000;
        let now = sqlite(&path, length);
        if now != before {
            (before, written, appended) = (now, written + 1, 0);
        }
        assert!(appended < 40_000, "{appended} bytes behind");
    }
    assert!((1..6).contains(&written), "{written}");
    let connection = database.sql();
    let mut statement = connection.prepare("SELECT json ->> '$.k11' FROM _shoal_doc").unwrap();
    let mut rows = connection.query(&mut statement).unwrap();
    assert!(matches!(rows.next().unwrap().unwrap().get(0), shoal_sql::ValueRef::Text(_)));
}

//! Documents in a database: stored ones come back, nobody's changes are lost, a stranger's edits of
//! the tables are noticed, and every head told is there after a crash.

#![allow(clippy::unwrap_used)]

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
    check("DELETE FROM _shoal_change WHERE seq = 2", "do not lead to its heads");
    check("DELETE FROM _shoal_change WHERE seq = 1", "do not lead to its heads");
    check("UPDATE _shoal_change SET hash = zeroblob(32)", "the hash is not that of the chunk");
    check("UPDATE _shoal_change SET chunk = x'00'", "_shoal_change row 4294967296: ");
    check("UPDATE _shoal_change SET chunk = 'text'", "the chunk is no blob");
    check("UPDATE _shoal_change SET doc = 2", "not the one that the id names");
    check("UPDATE _shoal_doc SET heads = x'0102'", "32 bytes each");
    check("UPDATE _shoal_doc SET heads = zeroblob(32)", "do not lead to its heads");
    check("UPDATE _shoal_doc SET name = 'e'", "no such document: d");
    check("DROP TABLE _shoal_change", "another shape");
    check("DROP TABLE _shoal_change; CREATE TABLE _shoal_change(x)", "no such column");
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

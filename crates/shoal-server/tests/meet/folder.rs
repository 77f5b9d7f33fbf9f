//! A database and a folder: both ways, beside somebody who writes there at the same time, with
//! files at fault, and in the form of automerge-repo's storage.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use shoal_crdt::{ActorId, CommitOptions, Document, LoadOptions, ROOT};
use shoal_history::ChangeHash;
use shoal_server::DocumentId;
use shoal_server::folder::sync;
use shoal_server::pair::{PairReport, Refusal};

use crate::{heads, keys, open, options, put};

fn met(database: &Path, folder: &Path) -> PairReport {
    let report = sync(&options(database), folder).unwrap();
    assert_eq!(report.failed, []);
    report
}

fn read(path: &Path) -> Document {
    Document::load(&fs::read(path).unwrap(), ActorId::new(&[9]), &LoadOptions::default()).unwrap()
}

/// Edits a file as another program does: read, changed, written anew and given its name.
fn edit(path: &Path, actor: &[u8], key: &str) -> ChangeHash {
    let mut document = read(path);
    document.set_actor(ActorId::new(actor));
    let mut transaction = document.transaction();
    transaction.put(&ROOT, key, 1).unwrap();
    let hash = transaction.commit(CommitOptions::default()).unwrap();
    let draft = path.with_extension("theirs");
    fs::write(&draft, document.save()).unwrap();
    fs::rename(&draft, path).unwrap();
    hash
}

fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (database, folder) = (dir.path().join("a.db"), dir.path().join("shared"));
    (dir, database, folder)
}

#[test]
fn both_ways_and_then_nothing() {
    let (_dir, database, folder) = &place();
    put(database, "note", "a", 1);
    put(database, "../odd", "b", 1);
    let report = met(database, folder);
    assert_eq!((report.documents.len(), report.same), (2, 0));
    edit(&folder.join("note.automerge"), &[1, 1], "theirs");
    put(database, "note", "ours", 1);
    let mut alone = Document::new(ActorId::new(&[3]));
    let mut transaction = alone.transaction();
    transaction.put(&ROOT, "x", 1).unwrap();
    transaction.commit(CommitOptions::default());
    fs::write(folder.join("alone.automerge"), alone.save()).unwrap();
    let report = met(database, folder);
    let counts: Vec<_> =
        report.documents.iter().map(|it| (it.name.as_str(), it.received, it.sent)).collect();
    assert_eq!(counts, [("alone", 1, 0), ("note", 1, 1)]);
    assert_eq!(keys(database, "note"), ["a", "ours", "theirs"]);
    let before: Vec<_> = [&"alone", &"note"]
        .map(|name| {
            fs::metadata(folder.join(format!("{name}.automerge"))).unwrap().modified().unwrap()
        })
        .into();
    let report = met(database, folder);
    assert_eq!((report.documents.len(), report.same, report.bytes_out), (0, 3, 0));
    let after: Vec<_> = [&"alone", &"note"]
        .map(|name| {
            fs::metadata(folder.join(format!("{name}.automerge"))).unwrap().modified().unwrap()
        })
        .into();
    assert_eq!(before, after, "nothing is written");
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["%2e.%2fodd.automerge", "alone.automerge", "note.automerge"]);
}

#[test]
fn faults_of_files_are_told_of_and_cost_nothing_else() {
    let (_dir, database, folder) = &place();
    for name in ["note", "gone", "never", "twice"] {
        put(database, name, "a", 1);
    }
    met(database, folder);
    open(database).remove("gone").unwrap();
    open(database).set_denied("never", true).unwrap();
    edit(&folder.join("gone.automerge"), &[1, 1], "late");
    edit(&folder.join("note.automerge"), &[1, 1], "theirs");
    let note = fs::read(folder.join("note.automerge")).unwrap();
    fs::write(folder.join("cut.automerge"), &note[..note.len() / 2]).unwrap();
    fs::write(folder.join("note (conflicted copy).automerge"), &note[..40]).unwrap();
    let mut apart = Document::new(ActorId::new(&[5]));
    let mut transaction = apart.transaction();
    transaction.put(&ROOT, "apart", 1).unwrap();
    transaction.commit(CommitOptions::default());
    fs::write(folder.join("twice.automerge"), apart.save()).unwrap();
    let report = sync(&options(database), folder).unwrap();
    let failed: Vec<&str> = report.failed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(failed.len(), 3, "{report:?}");
    assert!(failed.contains(&"cut") && failed.contains(&"twice"), "{report:?}");
    assert!(failed.iter().any(|name| name.contains("conflicted copy")), "{report:?}");
    let left: Vec<_> = report.left_alone.iter().map(|it| (it.name.as_str(), it.why)).collect();
    assert_eq!(left, [("gone", Refusal::Removed), ("never", Refusal::Denied)]);
    assert_eq!(keys(database, "note"), ["a", "theirs"]);
    assert!(open(database).load("gone").is_err());
    assert_eq!(fs::read(folder.join("cut.automerge")).unwrap().len(), note.len() / 2);
}

/// Somebody replaces the file while it is being replaced: whatever they wrote ends up in the
/// database and in the file.
#[test]
fn a_folder_that_changes_meanwhile_loses_nothing() {
    let (_dir, database, folder) = &place();
    put(database, "note", "a", 1);
    met(database, folder);
    let file = &folder.join("note.automerge");
    let mut theirs = BTreeSet::new();
    for round in 0..12 {
        put(database, "note", &format!("ours{round}"), 1);
        let is_over = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut written = BTreeSet::new();
                for number in 0..50 {
                    written.insert(edit(file, &[1, round, number], &format!("t{round}/{number}")));
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                written
            });
            let _ = sync(&options(database), folder).unwrap();
            is_over.store(true, Ordering::Relaxed);
            writing.join().unwrap()
        });
        // The writer reads what is there before it writes: nobody but a careless meeting loses its
        // edits.
        theirs.extend(written);
        met(database, folder);
        let document = open(database).load("note").unwrap();
        let lost = theirs.iter().filter(|hash| document.change_by_hash(hash).is_none());
        assert_eq!(lost.count(), 0, "round {round}");
        assert_eq!(read(file).heads(), document.heads());
    }
    let left = fs::read_dir(folder).unwrap().count();
    assert_eq!(left, 1, "no drafts are left");
}

#[test]
fn the_storage_folder_of_automerge_repo() {
    let (dir, database, folder) = &place();
    let id = DocumentId::from_bytes([4; 16]).to_string();
    let mut document = Document::new(ActorId::new(&[1]));
    let mut put_there = |key: &str| {
        let mut transaction = document.transaction();
        transaction.put(&ROOT, key, 1).unwrap();
        transaction.commit(CommitOptions::default());
        document.save()
    };
    let snapshot = put_there("a");
    let whole = put_there("b");
    let added = Document::load(&whole, ActorId::new(&[2]), &LoadOptions::default()).unwrap();
    let added = added.changes().last().unwrap().raw_bytes().to_vec();
    let base = folder.join(&id[..2]).join(&id[2..]);
    for (kind, hash, bytes) in [
        ("snapshot", "00", snapshot),
        ("incremental", "01", added),
        ("incremental", "02", b"cut".into()),
    ] {
        fs::create_dir_all(base.join(kind)).unwrap();
        fs::write(base.join(kind).join(hash), bytes).unwrap();
    }
    put(database, "not an id", "x", 1);
    let fresh = DocumentId::from_bytes([5; 16]).to_string();
    put(database, &fresh, "x", 1);
    let report = met(database, folder);
    assert_eq!(report.documents.len(), 2, "{report:?}");
    assert_eq!(keys(database, &id), ["a", "b"]);
    assert_eq!(
        fs::read_dir(folder.join(&fresh[..2]).join(&fresh[2..]).join("snapshot")).unwrap().count(),
        1
    );
    put(database, &id, "c", 1);
    let report = met(database, folder);
    assert_eq!((report.documents[0].received, report.documents[0].sent), (0, 1));
    assert_eq!(met(database, folder).bytes_out, 0);
    // Another database learns all of it from the folder.
    let other = &dir.path().join("b.db");
    met(other, folder);
    assert_eq!(keys(other, &id), ["a", "b", "c"]);
    open(database).remove("not an id").unwrap();
    assert_eq!(heads(other), heads(database));
}

//! Shapes of documents that tempt an engine to grow worse than n log n: each test takes long,
//! rather than fails, where the engine does.

use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, LoadOptions, ObjId, ObjType, ROOT, ReadDoc, Scalar,
};

const MANY: usize = 10_000;

fn load(bytes: &[u8]) -> Document {
    Document::load(bytes, ActorId::new(b"reader"), &LoadOptions::default()).unwrap()
}

fn base() -> (Document, ObjId) {
    let mut doc = Document::new(ActorId::new(b"base"));
    let mut tx = doc.transaction();
    let list = tx.put_object(&ROOT, "list", ObjType::List).unwrap();
    tx.commit(CommitOptions::default());
    (doc, list)
}

/// One change by each of many actors, all concurrent.
fn by_many_actors(
    doc: &Document,
    edit: impl Fn(&mut shoal_crdt::Transaction<'_>, usize),
) -> Vec<Change> {
    let mut changes = Vec::with_capacity(MANY);
    for number in 0..MANY {
        let mut fork = doc.fork(ActorId::new(&(number as u32).to_be_bytes()));
        let mut tx = fork.transaction();
        edit(&mut tx, number);
        tx.commit(CommitOptions::default());
        changes.push(fork.last_local_change().unwrap().clone());
    }
    changes
}

#[test]
fn many_actors_insert_at_one_place() {
    let (doc, list) = base();
    let changes = by_many_actors(&doc, |tx, number| {
        tx.splice(&list, 0, 0, [number as u64, 0]).unwrap();
    });
    let mut forwards = doc.clone();
    let mut backwards = doc.clone();
    for change in &changes {
        forwards.apply_changes([change.clone()]).unwrap();
    }
    // The worst order: each insert goes behind all that are there.
    for change in changes.iter().rev() {
        backwards.apply_changes([change.clone()]).unwrap();
    }
    let shown = serde_json::to_string(&forwards.to_json()).unwrap();
    assert_eq!(shown, serde_json::to_string(&backwards.to_json()).unwrap());
    assert_eq!(forwards.length(&list).unwrap(), 2 * MANY);
    let loaded = load(&backwards.save());
    assert_eq!(shown, serde_json::to_string(&loaded.to_json()).unwrap());
}

#[test]
fn many_actors_write_one_key_and_one_resolves_it() {
    let (mut doc, _) = base();
    let changes = by_many_actors(&doc, |tx, number| tx.put(&ROOT, "key", number as u64).unwrap());
    doc.apply_changes(changes.into_iter().rev()).unwrap();
    assert_eq!(doc.get_all(&ROOT, "key").unwrap().len(), MANY);
    let mut tx = doc.transaction();
    tx.put(&ROOT, "key", "done").unwrap();
    assert_eq!(tx.get_all(&ROOT, "key").unwrap().len(), 1);
    tx.rollback();
    assert_eq!(doc.get_all(&ROOT, "key").unwrap().len(), MANY);
    let loaded = load(&doc.save());
    assert_eq!(loaded.get_all(&ROOT, "key").unwrap(), doc.get_all(&ROOT, "key").unwrap());
}

#[test]
fn one_key_has_a_long_history() {
    let (mut doc, list) = base();
    let mut tx = doc.transaction();
    tx.put(&ROOT, "counter", Scalar::Counter(0)).unwrap();
    tx.insert(&list, 0, "x").unwrap();
    for round in 0..MANY as u64 * 5 {
        tx.put(&ROOT, "key", round).unwrap();
        tx.put(&list, 0, round).unwrap();
        tx.increment(&ROOT, "counter", 1).unwrap();
        assert!(tx.get(&ROOT, "counter").unwrap().is_some());
    }
    tx.commit(CommitOptions::default());
    let loaded = load(&doc.save());
    let shown = serde_json::to_value(loaded.to_json()).unwrap();
    assert_eq!(shown["counter"], MANY * 5);
    assert_eq!(shown["list"][0], MANY * 5 - 1);
    let mut peer = Document::new(ActorId::new(b"peer"));
    peer.apply_changes(doc.changes().cloned()).unwrap();
    assert_eq!(serde_json::to_value(peer.to_json()).unwrap(), shown);
}

#[test]
fn changes_arrive_last_first_one_at_a_time() {
    let (mut doc, list) = base();
    for round in 0..MANY {
        let mut tx = doc.transaction();
        tx.insert(&list, round / 2, round as u64).unwrap();
        tx.commit(CommitOptions::default());
    }
    let mut peer = Document::new(ActorId::new(b"peer"));
    let changes: Vec<Change> = doc.changes().cloned().collect();
    for change in changes.into_iter().rev() {
        peer.apply_changes([change]).unwrap();
    }
    assert_eq!(peer.heads(), doc.heads());
    assert_eq!(
        serde_json::to_string(&peer.to_json()).unwrap(),
        serde_json::to_string(&doc.to_json()).unwrap()
    );
}

#[test]
fn a_long_list_is_edited_at_its_front_and_emptied_again_and_again() {
    let (mut doc, list) = base();
    for _ in 0..5 {
        let mut tx = doc.transaction();
        for round in 0..MANY as u64 {
            tx.insert(&list, 0, round).unwrap();
        }
        tx.splice(&list, 0, MANY as isize, [0; 0]).unwrap();
        tx.insert(&list, 0, "left").unwrap();
        tx.delete(&list, 0).unwrap();
        tx.commit(CommitOptions::default());
    }
    assert_eq!(doc.length(&list).unwrap(), 0);
    assert_eq!(doc.items(&list, 0).unwrap().count(), 0);
    assert_eq!(load(&doc.save()).op_count(), doc.op_count());
}

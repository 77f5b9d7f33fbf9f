//! Editing traces of real authors, alone and at the same time: every replay ends in the text that
//! the trace names.

use shoal_crdt::{
    ActorId, Change, ChangeHash, CommitOptions, Document, LoadOptions, ObjId, ObjType, ROOT,
};
use shoal_testkit::trace::{Patch, Trace};

fn load(bytes: &[u8]) -> Document {
    Document::load(bytes, ActorId::new(b"reader"), &LoadOptions::default()).unwrap()
}

fn new_text(content: &str) -> (Document, ObjId) {
    let mut doc = Document::new(ActorId::new(&[0]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, content).unwrap();
    tx.commit(CommitOptions::default());
    (doc, text)
}

fn edit(doc: &mut Document, text: &ObjId, patches: &[Patch]) -> Option<ChangeHash> {
    let mut tx = doc.transaction();
    for Patch(at, deleted, inserted) in patches {
        tx.splice_text(text, *at, 0, "").unwrap();
        tx.splice_text(text, *at, *deleted as isize, inserted).unwrap();
    }
    tx.commit(CommitOptions::default())
}

/// What the patches of a trace do: deletes first, then inserts. Shoal's splice inserts first, and
/// then deletes what follows, which comes to the same text.
fn replay(name: &str, in_one: bool) {
    let trace = Trace::load(name);
    let (mut doc, text) = new_text(&trace.start_content);
    if in_one {
        let patches: Vec<Patch> = trace.patches().cloned().collect();
        edit(&mut doc, &text, &patches);
    } else {
        for txn in &trace.txns {
            edit(&mut doc, &text, &txn.patches);
        }
    }
    assert!(doc.text(&text).unwrap() == trace.end_content, "{name}");
    let loaded = load(&doc.save());
    assert!(loaded.text(&text).unwrap() == trace.end_content, "{name}");
    let mut peer = Document::new(ActorId::new(&[1]));
    peer.apply_changes(doc.changes().cloned()).unwrap();
    assert!(peer.text(&text).unwrap() == trace.end_content, "{name}");
    assert_eq!(peer.heads(), loaded.heads());
}

#[test]
fn automerge_paper_in_one_transaction() {
    replay("sequential/automerge-paper", true);
}

#[test]
fn friendsforever_flat_in_a_transaction_each() {
    replay("sequential/friendsforever_flat", false);
}

#[test]
fn clownschool_flat_in_a_transaction_each() {
    replay("sequential/clownschool_flat", false);
}

#[test]
fn friendsforever_as_it_was_written_by_two() {
    let trace = Trace::load("concurrent/friendsforever");
    let (base, text) = new_text(&trace.start_content);
    let agents = trace.txns.iter().map(|txn| txn.agent).max().unwrap() + 1;
    let mut docs: Vec<Document> =
        (1..=agents).map(|agent| base.fork(ActorId::new(&[agent as u8]))).collect();
    let mut changes: Vec<Option<Change>> = Vec::new();
    for txn in &trace.txns {
        let doc = &mut docs[txn.agent];
        // The agent learns exactly what the transaction builds on.
        let mut missing = Vec::new();
        let mut next: Vec<usize> = txn.parents.clone();
        let mut seen = std::collections::BTreeSet::new();
        while let Some(at) = next.pop() {
            if !seen.insert(at) {
                continue;
            }
            match &changes[at] {
                Some(change) if doc.change_by_hash(&change.hash()).is_some() => continue,
                Some(change) => missing.push(change.clone()),
                None => {}
            }
            next.extend(&trace.txns[at].parents);
        }
        doc.apply_changes(missing).unwrap();
        let hash = edit(doc, &text, &txn.patches);
        changes.push(hash.map(|hash| doc.change_by_hash(&hash).unwrap().clone()));
    }
    let mut merged = base.fork(ActorId::new(b"reader"));
    for doc in &docs {
        merged.merge(doc).unwrap();
    }
    assert!(merged.text(&text).unwrap() == trace.end_content);
    let loaded = load(&merged.save());
    assert!(loaded.text(&text).unwrap() == trace.end_content);
    assert_eq!(loaded.heads(), merged.heads());
    // In the reverse order, too, and the reference agrees.
    let mut backwards = Document::new(ActorId::new(b"reader"));
    let all: Vec<Change> = merged.changes().cloned().collect();
    backwards.apply_changes(all.into_iter().rev()).unwrap();
    assert!(backwards.text(&text).unwrap() == trace.end_content);
    let theirs = automerge::Automerge::load(&merged.save()).unwrap();
    let shown = serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap();
    assert_eq!(shown["text"], trace.end_content.as_str());
}

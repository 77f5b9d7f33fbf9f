//! Changes that are applied together give what they give one by one; and all of them or none.

use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, Error, ObjType, OpFault, ROOT, SaveOptions,
};
use shoal_history::{
    Action, ActorIdx, ChangeHeader, ChangeWriter, Key, ObjId, Op, OpId, ScalarRef,
};

fn actor(byte: u8) -> ActorId {
    ActorId::new(&[byte])
}

/// One edit of a text a change: at this index, so many deleted, this inserted.
type Edit = (usize, isize, &'static str);

fn edit(doc: &mut Document, edits: &[Edit]) {
    let text = doc.get(&ROOT, "text").unwrap().unwrap().1;
    for (at, deleted, inserted) in edits {
        let mut tx = doc.transaction();
        tx.splice_text(&text, *at, *deleted, inserted).unwrap();
        tx.commit(CommitOptions::default());
    }
}

fn with_text() -> Document {
    let mut doc = Document::new(actor(5));
    let mut tx = doc.transaction();
    tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.commit(CommitOptions::default());
    doc
}

/// Typing, typing on, deleting both ways, a key in between; then two who type at one place.
fn history() -> Vec<Change> {
    let mut doc = with_text();
    edit(&mut doc, &[(0, 0, "h"), (1, 0, "e"), (2, 0, "ll"), (4, 0, "o"), (4, 1, ""), (3, 1, "")]);
    edit(&mut doc, &[(3, 0, "p"), (4, 0, "é"), (5, 0, "!"), (0, 0, "x"), (1, 0, "y"), (0, 1, "")]);
    let mut tx = doc.transaction();
    tx.put(&ROOT, "key", 1).unwrap();
    tx.commit(CommitOptions::default());
    edit(&mut doc, &[(1, 0, "a"), (2, 0, "b"), (0, 1, ""), (0, 1, ""), (0, 1, ""), (2, 0, "z")]);
    let mut other = doc.fork(actor(1));
    for step in 0..6 {
        edit(&mut doc, &[(2 + step, 0, "m")]);
        edit(&mut other, &[(2 + step, 0, "n")]);
    }
    edit(&mut other, &[(8, 1, ""), (7, 1, "")]);
    doc.merge(&other).unwrap();
    other.merge(&doc).unwrap();
    // One goes on where the other one's ids ended.
    edit(&mut other, &[(0, 0, "1"), (1, 0, "2")]);
    edit(&mut doc, &[(0, 0, "3"), (1, 0, "4")]);
    doc.merge(&other).unwrap();
    doc.changes().cloned().collect()
}

fn bytes(doc: &Document) -> Vec<u8> {
    doc.to_bytes(SaveOptions { deflate: false, retain_orphans: true })
}

#[test]
fn however_many_come_at_once_the_document_is_the_same() {
    let changes = history();
    let one_by_one = |changes: Vec<Change>| {
        let mut doc = Document::new(actor(9));
        changes.into_iter().for_each(|change| doc.apply_changes([change]).unwrap());
        doc
    };
    let json = |doc: &Document| serde_json::to_string(&doc.to_json()).unwrap();
    let expect = json(&one_by_one(changes.clone()));
    let raw: Vec<&[u8]> = changes.iter().map(Change::raw_bytes).collect();
    let read = Change::read_all(&raw).unwrap();
    assert_eq!(read, changes);
    for size in [1, 2, 3, 7, changes.len()] {
        let mut doc = Document::new(actor(9));
        for some in read.chunks(size) {
            doc.apply_changes(some.iter().cloned()).unwrap();
        }
        // A batch is put in an order of its own.
        let same = one_by_one(doc.changes().cloned().collect());
        assert_eq!(bytes(&doc), bytes(&same), "{size}");
        assert_eq!(json(&doc), expect);
    }
    let mut backwards = Document::new(actor(9));
    backwards.apply_changes(changes.into_iter().rev()).unwrap();
    assert_eq!(json(&backwards), expect);
}

/// The next change of the author of `doc`, which inserts after the op `reference`.
fn insert_after(doc: &Document, reference: u32) -> Change {
    let last = doc.last_local_change().unwrap();
    let id = OpId { counter: last.max_op() + 1, actor: ActorIdx(0) };
    let op = |counter| OpId { counter, ..id };
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: last.seq() + 1,
        start_op: id.counter,
        time: 0,
        message: None,
        deps: vec![last.hash()],
        extra_bytes: &[],
    };
    let actors = [doc.actor().clone()];
    let mut writer = ChangeWriter::new(header, &actors);
    writer.push(&Op {
        id,
        obj: ObjId::Op(op(1)),
        key: Key::Elem(op(reference)),
        insert: true,
        action: Action::Set,
        value: ScalarRef::Str("?"),
        expand: false,
        mark_name: None,
        links: &[],
    });
    writer.finish().unwrap()
}

#[test]
fn one_bad_change_among_keystrokes_refuses_all_and_is_named() {
    let mut author = with_text();
    edit(&mut author, &[(0, 0, "a"), (1, 0, "b"), (1, 1, ""), (1, 0, "c"), (2, 0, "d")]);
    let good: Vec<Change> = author.changes().cloned().collect();
    // The first op made the text, and is no element of it.
    let bad = insert_after(&author, 1);
    edit(&mut author, &[(3, 0, "e")]);
    let after = author.last_local_change().unwrap().clone();
    assert_ne!(bad, after);

    let mut doc = Document::new(actor(9));
    doc.apply_changes(good[..2].iter().cloned()).unwrap();
    let before = bytes(&doc);
    let batch = good[2..].iter().cloned().chain([bad.clone()]);
    let refused = doc.apply_changes(batch).unwrap_err();
    let Error::Op { change, fault, .. } = refused else { panic!("{refused:?}") };
    assert_eq!((change, fault), (bad.hash(), OpFault::UnknownElement));
    assert_eq!(bytes(&doc), before);
    assert!(doc.queued_changes().is_empty());

    doc.apply_changes(good[2..].iter().cloned()).unwrap();
    let before = bytes(&doc);
    assert!(doc.apply_changes([bad]).is_err());
    assert_eq!(bytes(&doc), before);
    doc.apply_changes([after]).unwrap();
    assert_eq!(bytes(&doc), bytes(&author));
    let text = doc.get(&ROOT, "text").unwrap().unwrap().1;
    assert_eq!(doc.text(&text).unwrap(), "acde");
}

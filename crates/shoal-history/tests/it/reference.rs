//! Random editing sessions in the reference: its saved documents and its changes are read, rebuilt
//! and written to the same bytes.

use automerge::marks::{ExpandMark, Mark};
use automerge::transaction::{CommitOptions, Transactable};
use automerge::{ActorId as TheirActor, Automerge, ObjType, ReadDoc, ScalarValue};
use proptest::prelude::*;
use shoal_history::{
    ActorId, ActorIdx, Change, ChangeGraph, ChangeHeader, ChangeWriter, Chunk, DocumentWriter, Key,
    Limits, ObjId, Op, OpId, Verify, chunks,
};

/// One step of a session: who, what, and numbers to choose with.
type Step = (u8, u8, u8, u8);

/// Runs a session of three replicas, which share a text, a list and a map.
fn session(steps: &[Step]) -> Automerge {
    let mut base = Automerge::new().with_actor(TheirActor::from([9_u8].as_slice()));
    let mut tx = base.transaction();
    tx.put_object(automerge::ROOT, "text", ObjType::Text).unwrap();
    tx.put_object(automerge::ROOT, "list", ObjType::List).unwrap();
    tx.put_object(automerge::ROOT, "map", ObjType::Map).unwrap();
    tx.put(automerge::ROOT, "count", ScalarValue::counter(1)).unwrap();
    tx.commit();
    let names = [&[3_u8, 3][..], &[1], &[7, 0, 1]];
    let mut docs = names.map(|name| base.fork().with_actor(TheirActor::from(name)));
    for &(who, what, a, b) in steps {
        let who = usize::from(who) % docs.len();
        if what % 12 == 11 {
            let mut other = docs[usize::from(a) % docs.len()].clone();
            docs[who].merge(&mut other).unwrap();
        } else if what % 12 == 10 {
            let message = (b % 2 == 0).then(|| "empty".to_owned());
            let mut options = CommitOptions::default().with_time(i64::from(a) - 100);
            options.message = message;
            docs[who].empty_commit(options);
        } else {
            edit(&mut docs[who], what % 12, a, b);
        }
    }
    let [mut merged, mut second, mut third] = docs;
    merged.merge(&mut second).unwrap();
    merged.merge(&mut third).unwrap();
    merged
}

fn edit(doc: &mut Automerge, what: u8, a: u8, b: u8) {
    let object = |name: &str| doc.get(automerge::ROOT, name).unwrap().unwrap().1;
    let (text, list, map) = (object("text"), object("list"), object("map"));
    let text_len = doc.length(&text);
    let list_len = doc.length(&list);
    let at = |len: usize| if len == 0 { 0 } else { usize::from(a) % len };
    let key = ["a", "b", "é", ""][usize::from(a) % 4];
    let mut tx = doc.transaction();
    match what {
        0 | 1 => tx.splice_text(&text, at(text_len), 0, "héllo").unwrap(),
        2 => {
            let delete = isize::from(b % 4 + 1).min((text_len - at(text_len)).try_into().unwrap());
            tx.splice_text(&text, at(text_len), delete, "x").unwrap();
        }
        3 => tx.insert(&list, at(list_len), scalar(b)).unwrap(),
        4 if list_len > 0 => tx.put(&list, at(list_len), scalar(b)).unwrap(),
        5 if list_len > 0 => tx.delete(&list, at(list_len)).unwrap(),
        6 => tx.put(&map, key, scalar(b)).unwrap(),
        7 => tx.delete(&map, key).unwrap(),
        8 => tx.increment(automerge::ROOT, "count", i64::from(b) - 7).unwrap(),
        9 if text_len > 1 => {
            let start = at(text_len - 1);
            let mark = Mark::new("bold".into(), b.is_multiple_of(2), start, start + 1);
            tx.mark(&text, mark, ExpandMark::Both).unwrap();
        }
        _ => {
            let child = tx.put_object(&map, key, ObjType::Map).unwrap();
            tx.put(&child, "deep", i64::from(b)).unwrap();
        }
    }
    let mut options = CommitOptions::default().with_time(i64::from(b));
    options.message = a.is_multiple_of(5).then(|| "message".to_owned());
    tx.commit_with(options);
}

fn scalar(choice: u8) -> ScalarValue {
    match choice % 9 {
        0 => ScalarValue::Null,
        1 => ScalarValue::Boolean(choice > 100),
        2 => ScalarValue::Uint(u64::MAX - u64::from(choice)),
        3 => ScalarValue::Int(-300 * i64::from(choice)),
        4 => ScalarValue::F64(f64::from(choice) / 7.0),
        5 => ScalarValue::Str("a text".into()),
        6 => ScalarValue::Bytes(vec![choice; 3]),
        7 => ScalarValue::counter(i64::from(choice)),
        _ => ScalarValue::Timestamp(-1000),
    }
}

/// Writes the change again, with the actor table and the lists in another order.
fn rewrite(change: &Change) -> Change {
    let mut actors: Vec<ActorId> = change.actors().iter().rev().cloned().collect();
    actors.push(ActorId::new(b"nobody"));
    let last = u32::try_from(change.actors().len() - 1).unwrap();
    let other = |id: OpId| OpId { actor: ActorIdx(last - id.actor.0), ..id };
    let mut writer = ChangeWriter::new(
        ChangeHeader {
            actor: ActorIdx(last),
            seq: change.seq(),
            start_op: change.start_op(),
            time: change.time(),
            message: change.message(),
            deps: change.deps().iter().rev().copied().collect(),
            extra_bytes: change.extra_bytes(),
        },
        &actors,
    );
    let mut ops = change.ops();
    while let Some(op) = ops.next_op() {
        let links: Vec<OpId> = op.links.iter().rev().map(|&link| other(link)).collect();
        writer.push(&Op {
            id: other(op.id),
            obj: match op.obj {
                ObjId::Root => ObjId::Root,
                ObjId::Op(id) => ObjId::Op(other(id)),
            },
            key: match op.key {
                Key::Elem(id) => Key::Elem(other(id)),
                key => key,
            },
            links: &links,
            ..op
        });
    }
    writer.finish().unwrap()
}

/// Rebuilds the changes of a saved document and compares them with the reference's own.
fn check_rebuilt(saved: &[u8], theirs: &[automerge::Change]) -> Vec<Change> {
    let Some(Ok(Chunk::Document(document))) = chunks(saved, &Limits::default()).next() else {
        panic!("not a document")
    };
    let changes = document.changes(Verify::Heads).unwrap();
    assert_eq!(changes.len(), theirs.len());
    for (change, theirs) in changes.iter().zip(theirs) {
        assert_eq!(change.raw_bytes(), theirs.raw_bytes());
    }
    changes
}

/// The reference's author footers are extra bytes to us.
#[test]
fn author_footers_survive() {
    let mut doc = Automerge::new().with_author(Some(vec![1, 2, 3].into()));
    for value in 0..3 {
        let mut tx = doc.transaction();
        tx.put(automerge::ROOT, "k", value).unwrap();
        tx.commit();
    }
    let changes = check_rebuilt(&doc.save(), &doc.get_changes(&[]));
    assert_eq!(changes[0].extra_bytes(), [1, 3, 1, 2, 3]);
    assert!(changes[1].extra_bytes().is_empty());
    assert_eq!(rewrite(&changes[0]), changes[0]);
}

/// A change made on old heads counts its ops from the newest one it knew of, above what its
/// dependencies tell.
#[test]
fn changes_on_old_heads_start_later_than_their_deps_tell() {
    let mut doc = automerge::AutoCommit::new();
    doc.put(automerge::ROOT, "k", 1).unwrap();
    let old = doc.get_heads();
    for value in 0..5 {
        doc.put(automerge::ROOT, "k", value).unwrap();
        doc.commit();
    }
    doc.isolate(&old);
    doc.put(automerge::ROOT, "k", 99).unwrap();
    doc.commit();
    doc.integrate();
    let saved = doc.save();
    let changes = check_rebuilt(&saved, &doc.get_changes(&[]));
    let last = changes.last().unwrap();
    assert!(last.start_op() > changes[0].max_op() + 1, "{}", last.start_op());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn sessions(steps in proptest::collection::vec(any::<Step>(), 0..60)) {
        let theirs = session(&steps);
        let their_changes = theirs.get_changes(&[]);
        for deflate in [true, false] {
            let saved = if deflate { theirs.save() } else { theirs.save_nocompress() };
            let mut chunks = chunks(&saved, &Limits::default());
            let Some(Ok(Chunk::Document(document))) = chunks.next() else { panic!() };
            let changes = document.changes(Verify::Heads).unwrap();
            prop_assert_eq!(changes.len(), their_changes.len());
            let mut writer = DocumentWriter::new(document.actors()).deflate(deflate);
            let mut graph = ChangeGraph::new();
            for (change, theirs) in changes.iter().zip(&their_changes) {
                prop_assert_eq!(change.raw_bytes(), theirs.raw_bytes());
                prop_assert_eq!(change.hash().0, theirs.hash().0);
                let read = Change::from_bytes(&theirs.clone().bytes()).unwrap();
                prop_assert_eq!(&read, change);
                prop_assert!(read.is_canonical());
                let rewritten = rewrite(&read);
                prop_assert_eq!(rewritten.raw_bytes(), change.raw_bytes());
                graph.add(read).unwrap();
                writer.push_change(change);
            }
            let mut ops = document.ops();
            while let Some(op) = ops.next_op() {
                writer.push_op(&op);
            }
            let written = writer.finish().unwrap();
            if !deflate {
                prop_assert_eq!(&written, &saved);
            }
            let back = Automerge::load(&written).unwrap();
            prop_assert_eq!(back.get_heads(), theirs.get_heads());
        }
    }
}

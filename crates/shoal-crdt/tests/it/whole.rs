//! Calls on whole documents: iteration, statistics, snapshots, checked saves, limits on what comes.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

use crate::values::their_value;
use automerge::ReadDoc as _;
use automerge::iter::{DocItem as TheirItem, Span as TheirSpan};
use proptest::prelude::*;
use shoal_crdt::hydrate::Value as Tree;
use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, DocItem, Document, Error, Limits, LoadOptions, ObjType,
    Prop, ROOT, ReadDoc, Scalar, Span, SyncMessage, SyncState, Transactable, Value,
};

fn show(doc: &Document) -> serde_json::Value {
    serde_json::to_value(doc.to_json()).unwrap()
}

/// What an item is, in words that both engines share.
fn word(value: Value<'_>) -> String {
    match value {
        Value::Object(kind) => kind.name().to_owned(),
        Value::Scalar(value) => format!("{:?}", value.to_scalar()),
    }
}

fn their_word(value: &automerge::ValueRef<'_>) -> String {
    use automerge::ScalarValueRef as Ref;
    match value {
        automerge::ValueRef::Object(kind) => kind.to_string(),
        automerge::ValueRef::Scalar(Ref::Str(text)) => {
            format!("{:?}", Scalar::Str(text.as_ref().into()))
        }
        automerge::ValueRef::Scalar(Ref::Int(value)) => format!("{:?}", Scalar::Int(*value)),
        automerge::ValueRef::Scalar(Ref::Uint(value)) => format!("{:?}", Scalar::Uint(*value)),
        automerge::ValueRef::Scalar(Ref::Boolean(value)) => {
            format!("{:?}", Scalar::Boolean(*value))
        }
        automerge::ValueRef::Scalar(Ref::Null) => format!("{:?}", Scalar::Null),
        other => panic!("not made here: {other:?}"),
    }
}

fn ours(doc: &impl ReadDoc) -> Vec<String> {
    doc.iter()
        .map(|found| {
            let obj = found.obj.to_string();
            match &found.item {
                DocItem::Map(entry) => {
                    format!("{obj} {:?} {} {}", entry.key, word(entry.value), entry.id)
                }
                DocItem::List { index, item } => {
                    format!("{obj} {index} {} {}", word(item.value), item.id)
                }
                DocItem::Text(Span::Text { text, marks }) => {
                    format!("{obj} {text:?} {:?}", marks.keys().collect::<Vec<_>>())
                }
                DocItem::Text(Span::Block { .. }) => format!("{obj} block"),
            }
        })
        .collect()
}

fn theirs(doc: &automerge::Automerge, heads: Option<&[automerge::ChangeHash]>) -> Vec<String> {
    doc.iter_at(automerge::ROOT, heads)
        .map(|found| {
            let obj = found.obj.to_string();
            match &found.item {
                TheirItem::Map(entry) => {
                    format!("{obj} {:?} {} {}", entry.key, their_word(&entry.value), entry.id())
                }
                TheirItem::List(item) => {
                    format!("{obj} {} {} {}", item.index, their_word(&item.value), item.id())
                }
                TheirItem::Text(TheirSpan::Text { text, marks }) => {
                    let names: Vec<String> = marks
                        .iter()
                        .flat_map(|marks| marks.iter())
                        .map(|(name, _)| name.to_string())
                        .collect();
                    format!("{obj} {text:?} {names:?}")
                }
                TheirItem::Text(TheirSpan::Block(_)) => format!("{obj} block"),
            }
        })
        .collect()
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Into::into),
        (-9_i64..9).prop_map(Into::into),
        "[a-c😀]{0,4}".prop_map(Into::into),
        Just(serde_json::Value::Null),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn iteration_gives_what_the_reference_gives(
        first in prop::collection::btree_map("[a-c]{1,2}", json(), 0..4),
        second in prop::collection::btree_map("[a-c]{1,2}", json(), 0..4),
        cut in 0_usize..3,
    ) {
        let mut doc = AutoCommit::new(ActorId::new(&[1]));
        doc.import_json(&first.into_iter().collect()).unwrap();
        let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
        doc.splice_text(&text, 0, 0, "hello").unwrap();
        doc.mark(&text, 1, 3, "bold", true, shoal_crdt::ExpandMark::After).unwrap();
        let block = doc.split_block(&text, cut).unwrap();
        doc.put(&block, "kind", "p").unwrap();
        let heads = doc.heads();
        doc.import_json(&second.into_iter().collect()).unwrap();
        doc.delete(&text, 4).unwrap();
        let mut doc = doc.into_document();
        let their_doc = automerge::Automerge::load(&doc.save()).unwrap();
        prop_assert_eq!(ours(&doc), theirs(&their_doc, None));
        let their_heads: Vec<_> =
            heads.iter().map(|hash| automerge::ChangeHash(hash.0)).collect();
        prop_assert_eq!(ours(&doc.at(&heads)), theirs(&their_doc, Some(&their_heads)));
        // One object alone, and values in the order of the iteration.
        let of_text = doc.iter_from(&text).unwrap().take_while(|found| found.obj == text);
        let whole = doc.iter().filter(|found| found.obj == text);
        prop_assert!(of_text.eq(whole));
        let values: Vec<_> = doc.values(&ROOT).unwrap().map(|(_, id)| id).collect();
        let entries: Vec<_> = doc.entries(&ROOT).unwrap().map(|entry| entry.id).collect();
        prop_assert_eq!(values, entries);
    }

    #[test]
    fn objects_are_created_as_the_reference_creates_them(
        tree in prop::collection::btree_map("[a-c]{1,2}", json(), 1..4),
    ) {
        let json: serde_json::Value = tree.into_iter().collect();
        let tree = Tree::from(&json);
        let mut ours = AutoCommit::new(ActorId::new(&[1]));
        let mut theirs =
            automerge::AutoCommit::new().with_actor(automerge::ActorId::from(&[1][..]));
        let their_tree = their_value(&json);
        let automerge::hydrate::Value::Map(root) = &their_tree else { panic!("an object") };
        {
            use automerge::transaction::Transactable as _;
            ours.init_root_from_hydrate(&tree).unwrap();
            theirs.init_root_from_hydrate(root).unwrap();
            let made = ours.batch_create_object(&ROOT, "made", &tree, false).unwrap();
            let their_made = theirs
                .batch_create_object(automerge::ROOT, "made", &their_tree, false)
                .unwrap();
            prop_assert_eq!(made.to_string(), their_made.to_string());
            let list = ours.put_object(&ROOT, "list", ObjType::List).unwrap();
            let their_list =
                theirs.put_object(automerge::ROOT, "list", automerge::ObjType::List).unwrap();
            for insert in [true, true, false] {
                let made = ours.batch_create_object(&list, 0, &tree, insert).unwrap();
                let their_made =
                    theirs.batch_create_object(&their_list, 0, &their_tree, insert).unwrap();
                prop_assert_eq!(made.to_string(), their_made.to_string());
            }
        }
        let their_heads: Vec<[u8; 32]> =
            theirs.get_heads().into_iter().map(|head| head.0).collect();
        let heads: Vec<[u8; 32]> = ours.heads().into_iter().map(|head| head.0).collect();
        prop_assert_eq!(heads, their_heads);
    }
}

#[test]
fn scalars_and_roots_are_no_objects_to_create() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    let scalar = Tree::Scalar(Scalar::Int(1));
    let made = doc.batch_create_object(&ROOT, "a", &scalar, false);
    assert_eq!(made.unwrap_err(), Error::NotAnObject);
    let map = Tree::Map(BTreeMap::new());
    let key: Prop<'_> = "a".into();
    assert!(matches!(
        doc.batch_create_object(&ROOT, key, &map, true),
        Err(Error::WrongType { .. })
    ));
    assert_eq!(doc.init_root_from_hydrate(&scalar).unwrap_err(), Error::RootNotObject);
    assert_eq!(doc.pending_ops(), 0);
}

#[test]
fn statistics_tell_sizes_and_the_build() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    doc.commit();
    doc.put(&ROOT, "a", 2_i64).unwrap();
    let stats = doc.document().stats();
    let their_stats = automerge::Automerge::load(&doc.save()).unwrap().stats();
    assert_eq!(stats.num_ops, their_stats.num_ops);
    assert_eq!(stats.num_changes, their_stats.num_changes);
    assert_eq!(stats.num_actors, their_stats.num_actors);
    assert_eq!(stats.cargo_package_name, "shoal-crdt");
    assert_eq!(stats.cargo_package_version, env!("CARGO_PKG_VERSION"));
    assert!(stats.rustc_version.starts_with("rustc "), "{}", stats.rustc_version);
}

#[test]
fn heads_are_here_or_not() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    let first = doc.heads();
    assert_eq!(doc.base_heads(), first);
    doc.put(&ROOT, "a", 2_i64).unwrap();
    let second = doc.heads();
    let other = AutoCommit::new(ActorId::new(&[2])).commit_empty(CommitOptions::default());
    let doc = doc.document();
    assert!(doc.has_heads(&[]) && doc.has_heads(&first) && doc.has_heads(&second));
    assert!(!doc.has_heads(&[second[0], other]));
}

/// One of two heads, named twice, is not both.
#[test]
fn a_head_named_twice_is_one() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.put(&ROOT, "a", 1_i64).unwrap();
    let mut other = doc.fork(ActorId::new(&[2]));
    doc.put(&ROOT, "b", 2_i64).unwrap();
    let own = doc.heads();
    other.put(&ROOT, "c", 3_i64).unwrap();
    doc.merge(&mut other).unwrap();
    let twice = [own[0], own[0]];
    assert_eq!(doc.at(&twice).keys(&ROOT).unwrap().collect::<Vec<_>>(), ["a", "b"]);
    doc.isolate(&twice).unwrap();
    assert_eq!(doc.keys(&ROOT).unwrap().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn what_is_saved_is_what_is_loaded() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    doc.import_json(&serde_json::json!({"a": [1, "two", {"three": null}]})).unwrap();
    let bytes = doc.save_and_verify().unwrap();
    let loaded = Document::load(&bytes, ActorId::new(&[2]), &LoadOptions::default()).unwrap();
    assert_eq!(show(&loaded), show(doc.document()));
    // What has nothing but waiting changes is saved as well.
    let mut other = doc.fork(ActorId::new(&[3]));
    other.put(&ROOT, "b", 1_i64).unwrap();
    other.commit();
    other.put(&ROOT, "b", 2_i64).unwrap();
    let waits = other.document().last_local_change().unwrap().clone();
    let mut empty = Document::new(ActorId::new(&[4]));
    empty.apply_changes([waits]).unwrap();
    assert!(empty.save_and_verify().is_ok());
}

/// Readers on threads of their own see one state each, whatever the writer does meanwhile.
#[test]
fn snapshots_stay_while_a_writer_goes_on() {
    fn is_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let mut doc = Document::new(ActorId::new(&[1]));
    is_shared(&doc);
    is_shared(&AutoCommit::from(doc.clone()));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    let list = tx.put_object(&ROOT, "list", ObjType::List).unwrap();
    tx.commit(CommitOptions::default());
    let mut readers = Vec::new();
    let (started, wait) = mpsc::channel();
    for round in 0..12_usize {
        let mut tx = doc.transaction();
        tx.splice_text(&text, round, 0, "x").unwrap();
        tx.insert(&list, 0, i64::try_from(round).unwrap()).unwrap();
        tx.put(&ROOT, "round", i64::try_from(round).unwrap()).unwrap();
        if round % 3 == 2 {
            tx.delete(&list, 1).unwrap();
        }
        tx.commit(CommitOptions::default());
        let snapshot = doc.snapshot();
        is_shared(&snapshot);
        let expected = show(&doc);
        let heads = doc.heads();
        let (text, list, started) = (text.clone(), list.clone(), started.clone());
        readers.push(thread::spawn(move || {
            started.send(()).unwrap();
            for _ in 0..50 {
                assert_eq!(snapshot.text(&text).unwrap(), "x".repeat(round + 1));
                assert_eq!(snapshot.length(&text).unwrap(), round + 1);
                let items = snapshot.items(&list, 0).unwrap().count();
                assert_eq!(items, snapshot.length(&list).unwrap());
                assert_eq!(snapshot.heads(), heads);
            }
            assert_eq!(show(snapshot.document()), expected);
            snapshot
        }));
    }
    // Not one of them has to end before the writer goes on.
    for _ in 0..readers.len() {
        wait.recv().unwrap();
    }
    let mut tx = doc.transaction();
    tx.splice_text(&text, 0, 12, "").unwrap();
    tx.delete(&ROOT, "list").unwrap();
    tx.commit(CommitOptions::default());
    for (round, reader) in readers.into_iter().enumerate() {
        let snapshot = reader.join().unwrap();
        assert_eq!(snapshot.text(&text).unwrap().len(), round + 1);
        // It can be looked at in the past as well, and written on from.
        assert_eq!(snapshot.document().at(&[]).length(&ROOT).unwrap(), 0);
        let mut fork = snapshot.document().fork(ActorId::new(&[2]));
        fork.merge(&doc).unwrap();
        assert_eq!(fork.text(&text).unwrap(), "");
    }
}

/// What comes from peers is held to the limits of the document, whatever its file was loaded with.
#[test]
fn what_comes_later_is_held_to_the_limits() {
    let mut source = AutoCommit::new(ActorId::new(&[1]));
    let text = source.put_object(&ROOT, "text", ObjType::Text).unwrap();
    source.splice_text(&text, 0, 0, &"long ".repeat(400)).unwrap();
    let bytes = source.save();
    let small = Limits { max_ops: 100, ..Limits::default() };

    let mut doc = Document::new(ActorId::new(&[2]));
    doc.set_limits(small);
    let error = doc.load_incremental(&bytes).unwrap_err().to_string();
    assert_eq!(error, "document chunk: more ops than allowed: 100");
    let changes = source.save_after(&[]);
    assert_eq!(
        doc.load_incremental(&changes).unwrap_err().to_string(),
        "change chunk: more ops than allowed: 100"
    );
    // In a message, also when the document is not empty any more.
    let message = |source: &mut AutoCommit, doc: &mut Document| {
        let (mut there, mut here) = (SyncState::new(), SyncState::new());
        loop {
            let message = source.generate_sync_message(&mut there)?;
            let message = SyncMessage::decode(&message.encode()).unwrap();
            if !message.changes.is_empty() {
                return Some(doc.receive_sync_message(&mut here, message));
            }
            doc.receive_sync_message(&mut here, message).unwrap();
            let answer = doc.generate_sync_message(&mut here)?;
            source.receive_sync_message(&mut there, answer).unwrap();
        }
    };
    assert!(message(&mut source, &mut doc).unwrap().is_err());
    assert!(doc.is_empty());
    let mut tx = doc.transaction();
    tx.put(&ROOT, "own", 1_i64).unwrap();
    tx.commit(CommitOptions::default());
    assert!(message(&mut source, &mut doc).unwrap().is_err());
    assert_eq!(show(&doc), serde_json::json!({"own": 1}));
    // Forks keep them, and they can be raised.
    let mut fork = doc.fork(ActorId::new(&[3]));
    assert_eq!(*fork.limits(), small);
    fork.set_limits(Limits::default());
    assert!(message(&mut source, &mut fork).unwrap().is_ok());
    assert_eq!(fork.text(&text).unwrap().len(), 2000);
    // A file that was trusted does not open the door to others.
    let options = LoadOptions { limits: Limits::FORMAT, ..LoadOptions::default() };
    let loaded = Document::load(&bytes, ActorId::new(&[4]), &options).unwrap();
    assert_eq!(loaded.limits().max_ops, Limits::default().max_ops);
}

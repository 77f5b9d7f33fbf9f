//! Scenarios of the reference's main test file that no other test here has, and the table of all of
//! them (`docs/scenarios.md`).

use std::fs;
use std::path::Path;

use crate::small::{load, new, show};
use serde_json::json;
use shoal_crdt::{
    ActorId, AutoCommit, Change, ExpandMark, ObjType, ROOT, ReadDoc, SaveOptions, Scalar,
    TextEncoding, Transactable, Value,
};

/// What is saved is loaded as the same, here and by the reference.
fn survives(doc: &mut AutoCommit) {
    let bytes = doc.save_and_verify().unwrap();
    assert_eq!(show(&load(&bytes)), show(doc));
    let theirs = automerge::Automerge::load(&bytes).unwrap();
    let theirs = serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap();
    assert_eq!(theirs, show(doc));
}

#[test]
fn what_is_little_is_saved_and_loaded() {
    survives(&mut new(1));
    // An object that holds nothing, and is filled by who loads it.
    let mut doc = new(1);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    let mut loaded = AutoCommit::from(load(&doc.save()));
    loaded.insert(&list, 0, 1_u64).unwrap();
    survives(&mut loaded);
    // Objects that are no more.
    let mut doc = new(1);
    for kind in [ObjType::List, ObjType::Text, ObjType::Map, ObjType::Table] {
        doc.put_object(&ROOT, kind.name(), kind).unwrap();
        doc.delete(&ROOT, kind.name()).unwrap();
    }
    survives(&mut doc);
    // Values of no bytes, and at the edges of their encodings.
    let mut doc = new(1);
    doc.put(&ROOT, "string", "").unwrap();
    doc.put(&ROOT, "bytes", Vec::<u8>::new()).unwrap();
    for value in [-65, -64, -63, 63, 64, i64::MIN, i64::MAX] {
        doc.put(&ROOT, &value.to_string(), value).unwrap();
    }
    doc.put(&ROOT, "most", u64::MAX).unwrap();
    survives(&mut doc);
    // An actor that has made nothing is not saved, wherever its id sorts.
    let mut doc = new(0);
    doc.put(&ROOT, "a", 1_i64).unwrap();
    let mut two = doc.fork(ActorId::new(&[2]));
    let mut one = doc.fork(ActorId::new(&[1]));
    two.put(&ROOT, "b", 2_i64).unwrap();
    one.merge(&mut two).unwrap();
    let saved = one.save();
    one.delete(&ROOT, "missing").unwrap();
    assert_eq!(one.save(), saved);
    survives(&mut one);
}

#[test]
fn a_conflict_in_an_object_in_a_list_is_saved_and_loaded() {
    let mut one = new(1);
    let todos = one.put_object(&ROOT, "todos", ObjType::List).unwrap();
    let todo = one.insert_object(&todos, 0, ObjType::Map).unwrap();
    one.put(&todo, "title", "water plants").unwrap();
    let mut two = one.fork(ActorId::new(&[2]));
    two.put(&todo, "title", "weed plants").unwrap();
    one.put(&todo, "title", "kill plants").unwrap();
    one.merge(&mut two).unwrap();
    survives(&mut one);
    let loaded = load(&one.save());
    let titles: Vec<_> =
        loaded.get_all(&todo, "title").unwrap().iter().map(|(value, _)| value.as_str()).collect();
    assert_eq!(titles, [Some("kill plants"), Some("weed plants")]);
}

#[test]
fn what_is_long_is_compressed_and_reads_the_same() {
    let encoding = TextEncoding::Utf16CodeUnit;
    let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "😀").unwrap();
    doc.put(&ROOT, "bytes", vec![10_u8; 300]).unwrap();
    doc.commit();
    let change = doc.document().last_local_change().unwrap().clone();
    let compressed = change.bytes().into_owned();
    assert!(compressed.len() < change.raw_bytes().len());
    let read = Change::from_bytes(&compressed).unwrap();
    assert_eq!(read.raw_bytes(), change.raw_bytes());
    let mut other = AutoCommit::with_encoding(ActorId::new(&[2]), encoding);
    other.load_incremental(&compressed).unwrap();
    assert_eq!((other.length(&text).unwrap(), other.heads()), (2, doc.heads()));

    // Of some columns, which are long; not of others.
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.splice(&list, 0, 0, 0_u64..200).unwrap();
    let plain = doc.to_bytes(SaveOptions { deflate: false, ..SaveOptions::default() });
    assert!(doc.save().len() < plain.len());
    assert_eq!(show(&load(&plain)), show(&doc));
    survives(&mut doc);
}

#[test]
fn values_that_grow_with_every_change_reach_a_copy() {
    let mut doc = new(1);
    let edit = |doc: &mut AutoCommit, round: usize| {
        doc.put(&ROOT, "a", "a".repeat(round)).unwrap();
        for key in ["b", "c"] {
            doc.put(&ROOT, key, i64::try_from(round).unwrap()).unwrap();
        }
        doc.commit();
    };
    (0..16).for_each(|round| edit(&mut doc, round));
    let mut copy = AutoCommit::from(load(&doc.save()));
    edit(&mut doc, 18);
    let heads = copy.heads();
    let since: Vec<Change> = doc.document().changes_since(&heads).into_iter().cloned().collect();
    copy.apply_changes(since).unwrap();
    assert_eq!(show(&copy), show(&doc));
    survives(&mut copy);
}

#[test]
fn marks_grow_shrink_and_are_read_in_the_past() {
    let mut doc = new(1);
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "hello world").unwrap();
    doc.mark(&text, 0, 5, "bold", true, ExpandMark::Both).unwrap();
    let heads = doc.heads();
    // Into the mark at its end, off its beginning, and before that.
    doc.splice_text(&text, 5, 0, " cool").unwrap();
    doc.unmark(&text, 0, 5, "bold", ExpandMark::Before).unwrap();
    doc.splice_text(&text, 0, 0, "why ").unwrap();
    let marks = doc.marks(&text).unwrap();
    assert_eq!((marks.len(), marks[0].start, marks[0].end), (1, 9, 14));
    assert!(doc.get_marks(&text, 1).unwrap().is_empty());
    let then = doc.at(&heads).get_marks(&text, 1).unwrap();
    assert_eq!(then.get("bold"), Some(&Scalar::Boolean(true)));
    assert_eq!(then.len(), 1);
    // Marks of text that was deleted: only what grows to the end takes in what is typed there.
    let mut doc = new(1);
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "hello world").unwrap();
    doc.mark(&text, 2, 8, "bold", true, ExpandMark::After).unwrap();
    doc.mark(&text, 3, 6, "link", true, ExpandMark::None).unwrap();
    doc.splice_text(&text, 1, 10, "").unwrap();
    doc.splice_text(&text, 0, 0, "a").unwrap();
    doc.splice_text(&text, 2, 0, "b").unwrap();
    assert_eq!(doc.text(&text).unwrap(), "ahb");
    let marks: Vec<_> = doc
        .marks(&text)
        .unwrap()
        .into_iter()
        .map(|mark| (mark.name, mark.start, mark.end))
        .collect();
    assert_eq!(marks, [("bold".into(), 2, 3)]);
}

#[test]
fn what_came_since_heads_is_told_however_many_branches_there_are() {
    let mut base = new(0);
    for number in 0..40 {
        base.put(&ROOT, &format!("first {number}"), true).unwrap();
        base.commit();
    }
    let start = base.heads();
    let mut actor = 0_u8;
    let mut branches: Vec<AutoCommit> = Vec::new();
    for branch in 0..20 {
        let mut doc = base.fork(ActorId::new(&[1]));
        for commit in 0..2 {
            actor += 1;
            doc.set_actor(ActorId::new(&[1, actor]));
            doc.put(&ROOT, &format!("branch {branch} {commit}"), true).unwrap();
            doc.commit();
        }
        branches.push(doc);
    }
    for branch in &mut branches {
        base.merge(branch).unwrap();
    }
    let met = base.heads();
    assert_eq!(met.len(), 20);
    for number in 0..40 {
        base.put(&ROOT, &format!("last {number}"), true).unwrap();
        base.commit();
    }
    let heads = base.heads();
    let document = base.document();
    assert!(document.changes_since(&heads).is_empty());
    assert_eq!(document.changes_since(&met).len(), 40);
    let since = document.changes_since(&start);
    assert_eq!(since.len(), 80);
    assert_eq!((since[0].actor().as_bytes(), since[0].seq()), (&[1, 1][..], 1));
    assert_eq!(since.last().unwrap().seq(), 80);
    // Who has one branch gets the others.
    for branch in &mut branches {
        let heads = branch.heads();
        assert_eq!(document.changes_since(&heads).len(), 78);
    }
}

#[test]
fn forks_of_actors_that_take_turns() {
    for actors in [[2, 0, 2], [0, 1, 0], [2, 1, 2], [1, 0, 1], [0, 2, 0]] {
        let mut doc = new(9);
        for (key, actor) in ["a", "b", "c"].into_iter().zip(actors) {
            doc.set_actor(ActorId::new(&[actor]));
            match key {
                "a" => drop(doc.put_object(&ROOT, key, ObjType::Map).unwrap()),
                _ => doc.put(&ROOT, key, false).unwrap(),
            }
            doc.commit();
        }
        let heads = doc.heads();
        let fork = doc.fork_at(ActorId::new(&[7]), &heads).unwrap();
        assert_eq!(show(&fork), json!({"a": {}, "b": false, "c": false}));
        assert_eq!(fork.get(&ROOT, "a").unwrap().unwrap().0, Value::Object(ObjType::Map));
        survives(&mut doc);
    }
}

#[test]
fn the_table_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("../../docs/scenarios.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(rows.len(), 140);
    let mut without = 0;
    for row in rows {
        let ours = row.rsplit("| ").next().unwrap().trim_end_matches(" |");
        let Some((file, name)) = ours.trim_matches('`').split_once("::") else {
            assert!(ours.starts_with("none: "), "{row}");
            without += 1;
            continue;
        };
        let source = fs::read_to_string(root.join(format!("tests/it/{file}.rs"))).unwrap();
        let exists = source.contains(&format!("fn {name}("));
        assert!(exists, "{row}");
    }
    assert_eq!(without, 4);
}

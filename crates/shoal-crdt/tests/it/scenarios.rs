//! What people rely on, topic by topic: conflicts, concurrent deletion, where inserts go, counters,
//! files that come in pieces.

use serde_json::json;
use shoal_crdt::{
    ActorId, AutoCommit, Change, ChangeHash, CommitOptions, Document, Error, LoadOptions, ObjId,
    ObjType, OnPartial, ROOT, ReadDoc, Scalar, ScalarRef, Transactable, Value,
};
use shoal_history::{ActorIdx, ChangeHeader, ChangeWriter};

fn new(number: u8) -> AutoCommit {
    AutoCommit::new(ActorId::new(&[number]))
}

fn show(doc: &impl ReadDoc) -> serde_json::Value {
    serde_json::to_value(doc.hydrate(&ROOT).unwrap()).unwrap()
}

/// Both take what the other has, and then show the same, also after saving.
fn meet(one: &mut AutoCommit, two: &mut AutoCommit) -> serde_json::Value {
    one.merge(two).unwrap();
    two.merge(one).unwrap();
    assert_eq!(show(one), show(two));
    let options = LoadOptions::default();
    let loaded = Document::load(&one.save(), ActorId::new(&[99]), &options).unwrap();
    assert_eq!(show(&loaded), show(one));
    assert_eq!(loaded.heads(), two.heads());
    show(one)
}

/// Every value at a key, the winner last.
fn all(doc: &impl ReadDoc, obj: &ObjId, key: &str) -> Vec<serde_json::Value> {
    let all = doc.get_all(obj, key).unwrap();
    all.iter()
        .map(|(value, id)| match value {
            Value::Object(_) => serde_json::to_value(doc.hydrate(id).unwrap()).unwrap(),
            Value::Scalar(value) => {
                let value = shoal_crdt::hydrate::Value::Scalar(value.to_scalar());
                serde_json::to_value(value).unwrap()
            }
        })
        .collect()
}

fn list(doc: &mut AutoCommit, values: &[i64]) -> ObjId {
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.splice(&list, 0, 0, values.iter().copied()).unwrap();
    list
}

#[test]
fn values_of_different_types_conflict_and_what_is_in_them_is_kept() {
    let (mut one, mut two) = (new(1), new(2));
    one.put(&ROOT, "field", "string").unwrap();
    let map = two.put_object(&ROOT, "field", ObjType::Map).unwrap();
    two.put(&map, "inner", 41_i64).unwrap();
    two.commit();
    two.put(&map, "inner", 42_i64).unwrap();
    meet(&mut one, &mut two);
    assert_eq!(all(&one, &ROOT, "field"), [json!("string"), json!({"inner": 42})]);
    // Who loses is edited all the same.
    let mut three = one.fork(ActorId::new(&[3]));
    three.put(&ROOT, "field", "winner").unwrap();
    one.put(&map, "inner", 43_i64).unwrap();
    meet(&mut one, &mut three);
    assert_eq!(all(&one, &ROOT, "field"), [json!("winner")]);
    assert_eq!(one.get(&map, "inner").unwrap().unwrap().0, Value::Scalar(ScalarRef::Int(43)));
}

#[test]
fn maps_that_are_made_at_once_are_two_maps() {
    let (mut one, mut two) = (new(1), new(2));
    for (doc, key) in [(&mut one, "a"), (&mut two, "b")] {
        let map = doc.put_object(&ROOT, "config", ObjType::Map).unwrap();
        doc.put(&map, key, true).unwrap();
    }
    assert_eq!(meet(&mut one, &mut two), json!({"config": {"b": true}}));
    assert_eq!(all(&one, &ROOT, "config"), [json!({"a": true}), json!({"b": true})]);
}

#[test]
fn a_deletion_takes_along_what_it_has_not_seen_in_the_object_but_not_at_the_place() {
    let mut one = new(1);
    let birds = one.put_object(&ROOT, "birds", ObjType::Map).unwrap();
    let robin = one.put_object(&birds, "robin", ObjType::Map).unwrap();
    let items = list(&mut one, &[1, 2, 3]);
    one.commit();
    let mut two = one.fork(ActorId::new(&[2]));
    one.delete(&birds, "robin").unwrap();
    one.delete(&items, 1_usize).unwrap();
    two.put(&robin, "wings", 2_i64).unwrap();
    two.put(&items, 1, 20_i64).unwrap();
    assert_eq!(meet(&mut one, &mut two), json!({"birds": {}, "list": [1, 20, 3]}));
    // A key that is set while it is deleted stays set.
    one.put(&birds, "wren", 1_i64).unwrap();
    meet(&mut one, &mut two);
    one.delete(&birds, "wren").unwrap();
    two.put(&birds, "wren", 2_i64).unwrap();
    assert_eq!(meet(&mut one, &mut two)["birds"], json!({"wren": 2}));
    // Deleted by both, once is enough.
    one.delete(&items, 0_usize).unwrap();
    two.delete(&items, 0_usize).unwrap();
    assert_eq!(meet(&mut one, &mut two)["list"], json!([20, 3]));
}

#[test]
fn inserts_at_one_place_stay_together_and_follow_what_they_saw() {
    let (mut one, mut two) = (new(1), new(2));
    let text = one.put_object(&ROOT, "text", ObjType::Text).unwrap();
    meet(&mut one, &mut two);
    one.splice_text(&text, 0, 0, "hello ").unwrap();
    two.splice_text(&text, 0, 0, "world ").unwrap();
    let met = meet(&mut one, &mut two);
    let met = met["text"].as_str().unwrap();
    assert!(met == "hello world " || met == "world hello ", "{met}");
    // Whoever has seen an element goes before it, whichever actor is greater.
    for (first, second) in [(1, 2), (2, 1)] {
        let (mut a, mut b) = (new(first), new(second));
        let items = list(&mut a, &[3]);
        meet(&mut a, &mut b);
        b.insert(&items, 0, 2_i64).unwrap();
        meet(&mut a, &mut b);
        a.insert(&items, 0, 1_i64).unwrap();
        assert_eq!(meet(&mut a, &mut b)["list"], json!([1, 2, 3]));
    }
    // After an element that somebody deletes meanwhile.
    let end = one.length(&text).unwrap();
    one.splice_text(&text, 0, isize::try_from(end).unwrap(), "").unwrap();
    two.splice_text(&text, end, 0, "!").unwrap();
    assert_eq!(meet(&mut one, &mut two)["text"], "!");
}

#[test]
fn counters_add_what_has_seen_them() {
    let (mut one, mut two) = (new(1), new(2));
    one.put(&ROOT, "n", Scalar::Counter(0)).unwrap();
    two.put(&ROOT, "n", Scalar::Counter(0)).unwrap();
    one.increment(&ROOT, "n", 1).unwrap();
    two.increment(&ROOT, "n", 3).unwrap();
    meet(&mut one, &mut two);
    assert_eq!(all(&one, &ROOT, "n"), [json!(1), json!(3)]);
    // Of several counters all are incremented.
    one.increment(&ROOT, "n", 10).unwrap();
    meet(&mut one, &mut two);
    assert_eq!(all(&two, &ROOT, "n"), [json!(11), json!(13)]);
    // Setting one anew leaves out what others add meanwhile.
    one.put(&ROOT, "n", Scalar::Counter(100)).unwrap();
    two.increment(&ROOT, "n", 5).unwrap();
    meet(&mut one, &mut two);
    assert_eq!(one.get(&ROOT, "n").unwrap().unwrap().0, Value::Scalar(ScalarRef::Counter(100)));
    one.put(&ROOT, "s", "text").unwrap();
    for key in ["s", "missing"] {
        assert_eq!(one.increment(&ROOT, key, 1), Err(Error::MissingCounter { obj: ROOT }));
    }
}

#[test]
fn counters_in_lists_add_up_are_overwritten_and_deleted() {
    let mut one = new(1);
    let items = one.put_object(&ROOT, "list", ObjType::List).unwrap();
    for (index, value) in
        [Scalar::Int(7), Scalar::Counter(1), Scalar::Counter(2)].into_iter().enumerate()
    {
        one.insert(&items, index, value).unwrap();
    }
    assert_eq!(
        one.increment(&items, 0_usize, 1),
        Err(Error::MissingCounter { obj: items.clone() })
    );
    let mut two = one.fork(ActorId::new(&[2]));
    one.increment(&items, 1_usize, 10).unwrap();
    one.increment(&items, 2_usize, 10).unwrap();
    two.increment(&items, 1_usize, 100).unwrap();
    two.put(&items, 2, "x").unwrap();
    assert_eq!(meet(&mut one, &mut two)["list"], json!([7, 111, "x"]));
    one.delete(&items, 1_usize).unwrap();
    two.increment(&items, 1_usize, 1000).unwrap();
    // An increment is no value: the counter is gone.
    assert_eq!(meet(&mut one, &mut two)["list"], json!([7, "x"]));
    assert_eq!(one.rollback(), 0);
}

#[test]
fn a_value_that_is_written_again_conflicts_with_nothing_and_can_be_replaced() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    one.commit();
    let mut two = one.fork(ActorId::new(&[2]));
    two.put(&ROOT, "a", 1_i64).unwrap();
    assert_eq!(two.commit(), None);
    two.put(&ROOT, "a", 2_i64).unwrap();
    two.put(&ROOT, "a", 1_i64).unwrap();
    two.commit();
    one.put(&ROOT, "a", 1_i64).unwrap();
    one.merge(&mut two).unwrap();
    assert_eq!(all(&one, &ROOT, "a"), [json!(1)]);
    one.put(&ROOT, "", "no name").unwrap();
    assert_eq!(meet(&mut one, &mut two), json!({"": "no name", "a": 1}));
}

#[test]
fn a_change_that_deletes_only_and_an_actor_known_by_it_alone_are_saved() {
    let mut one = new(5);
    let items = list(&mut one, &[1, 2]);
    one.commit();
    let mut two = one.fork(ActorId::new(&[2]));
    two.delete(&items, 0_usize).unwrap();
    two.commit();
    let mut three = two.fork(ActorId::new(&[9]));
    three.delete(&ROOT, "list").unwrap();
    assert_eq!(meet(&mut one, &mut three), json!({}));
    assert_eq!(one.document().changes().count(), 3);
    // What was deleted is written over as if it had never been.
    list(&mut one, &[4]);
    assert_eq!(meet(&mut one, &mut three), json!({"list": [4]}));
}

#[test]
fn changes_come_late_twice_and_in_any_order() {
    let mut doc = new(1);
    let mut hashes: Vec<ChangeHash> = Vec::new();
    let items = list(&mut doc, &[]);
    hashes.extend(doc.commit());
    for n in 0..6_i64 {
        doc.insert(&items, 0, n).unwrap();
        hashes.extend(doc.commit());
    }
    let changes: Vec<Change> = doc.document().changes().cloned().collect();
    let mut other = Document::new(ActorId::new(&[2]));
    for order in [[6, 2, 2, 5], [4, 0, 1, 6], [3, 3, 0, 2]] {
        let late = order.map(|at: usize| changes[at].clone());
        other.apply_changes(late).unwrap();
    }
    assert_eq!(other.heads(), doc.heads());
    assert!(other.queued_changes().is_empty());
    assert_eq!(show(&other), show(&doc));
    // An empty change is one like any other.
    let empty = doc.commit_empty(CommitOptions::default());
    let document = doc.into_document();
    assert_eq!(document.changes_since(&[empty]), Vec::<&Change>::new());
    assert_eq!(document.changes_since(&hashes[6..]).len(), 1);
}

#[test]
fn a_file_that_was_cut_gives_what_is_whole() {
    let mut doc = new(1);
    doc.put(&ROOT, "a", 1_i64).unwrap();
    let mut file = doc.save();
    let first = doc.heads();
    doc.put(&ROOT, "a", 2_i64).unwrap();
    let more = doc.save_incremental();
    file.extend_from_slice(&more[..more.len() - 3]);
    let strict = LoadOptions::default();
    assert!(Document::load(&file, ActorId::new(&[2]), &strict).is_err());
    let lax = LoadOptions { on_partial: OnPartial::Ignore, ..strict };
    assert_eq!(Document::load(&file, ActorId::new(&[2]), &lax).unwrap().heads(), first);
    let mut empty = new(2);
    empty.load_incremental(&file).unwrap();
    assert_eq!(empty.heads(), first);
    assert_eq!(empty.actor(), &ActorId::new(&[2]));
    // A document that shares a head with what is there is taken in all the same.
    let mut other = doc.fork(ActorId::new(&[3]));
    other.put(&ROOT, "b", 1_i64).unwrap();
    empty.load_incremental(&other.save()).unwrap();
    assert_eq!(show(&empty), json!({"a": 2, "b": 1}));
}

#[test]
fn bytes_behind_the_ops_stay_with_the_change() {
    let actors = [ActorId::new(&[1])];
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: 1,
        start_op: 1,
        time: 0,
        message: None,
        deps: Vec::new(),
        extra_bytes: b"\x00extra",
    };
    let change = ChangeWriter::new(header, &actors).finish().unwrap();
    let mut doc = Document::new(ActorId::new(&[2]));
    doc.apply_changes([change.clone()]).unwrap();
    let mut loaded =
        Document::load(&doc.save(), ActorId::new(&[2]), &LoadOptions::default()).unwrap();
    let mut tx = loaded.transaction();
    tx.put(&ROOT, "a", 1_i64).unwrap();
    tx.commit(CommitOptions::default());
    let kept = loaded.change_by_hash(&change.hash()).unwrap();
    assert_eq!(kept.extra_bytes(), b"\x00extra");
    let bundle = loaded.bundle(&loaded.heads()).unwrap();
    let mut copy = doc.fork(ActorId::new(&[3]));
    copy.load_incremental(&bundle).unwrap();
    assert_eq!(copy.heads(), loaded.heads());
}

#[test]
fn a_long_list_survives_deleting_and_inserting_again() {
    let mut doc = new(1);
    let items = list(&mut doc, &(0..2_000).collect::<Vec<_>>());
    doc.splice(&items, 0, 2_000, std::iter::empty::<i64>()).unwrap();
    doc.insert(&items, 0, -1_i64).unwrap();
    let mut other = doc.fork(ActorId::new(&[2]));
    other.insert(&items, 1, -2_i64).unwrap();
    assert_eq!(meet(&mut doc, &mut other)["list"], json!([-1, -2]));
    assert!(matches!(doc.delete(&items, 2_usize), Err(Error::Index { index: 2, length: 2 })));
    assert!(matches!(doc.insert(&items, 9, 1_i64), Err(Error::Index { .. })));
}

#[test]
fn forks_at_heads_of_others_are_refused() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    let mut two = new(2);
    two.put(&ROOT, "b", 1_i64).unwrap();
    let heads = two.heads();
    assert_eq!(one.fork_at(ActorId::new(&[3]), &heads).unwrap_err(), Error::UnknownHead(heads[0]));
    assert_eq!(one.isolate(&heads), Err(Error::UnknownHead(heads[0])));
    assert_eq!(one.isolation(), None);
    let one = one.into_document();
    assert_eq!(one.changes_added(&two.into_document()).len(), 1);
}

/// Two who loaded one file, and both went on: what they have in common is not made again.
#[test]
fn a_merge_brings_what_is_new_on_both_sides_of_a_loaded_history() {
    let mut doc = new(1);
    let items = list(&mut doc, &[1]);
    for value in 0..20_i64 {
        doc.insert(&items, 0, value).unwrap();
        doc.commit();
    }
    let file = doc.save();
    for verify in [shoal_crdt::Verify::Heads, shoal_crdt::Verify::Later] {
        let options = LoadOptions { verify, ..LoadOptions::default() };
        let load = |actor: u8| {
            AutoCommit::from(Document::load(&file, ActorId::new(&[actor]), &options).unwrap())
        };
        let (mut two, mut three) = (load(2), load(3));
        two.put(&ROOT, "two", 2_i64).unwrap();
        three.put(&ROOT, "three", 3_i64).unwrap();
        three.commit();
        three.delete(&items, 0).unwrap();
        two.commit();
        assert_eq!(two.document().changes_added(three.document()).len(), 2);
        assert_eq!(three.document().changes_added(two.document()).len(), 1);
        let met = meet(&mut two, &mut three);
        assert_eq!((met["two"].clone(), met["three"].clone()), (json!(2), json!(3)));
        assert!(two.document().changes_added(three.document()).is_empty());
        // A fork has the loaded history itself.
        let mut four = two.fork(ActorId::new(&[4]));
        four.put(&ROOT, "four", 4_i64).unwrap();
        four.commit();
        assert_eq!(two.document().changes_added(four.document()).len(), 1);
        meet(&mut two, &mut four);
        // One who has nothing gets everything.
        let mut five = new(5);
        let all = four.document().changes().count();
        assert_eq!(five.document().changes_added(four.document()).len(), all);
        meet(&mut five, &mut four);
    }
}

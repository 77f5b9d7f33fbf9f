//! Behaviours that programs on the reference rely on and that other tests meet by chance only:
//! patches around conflicts, blocks and past states, wide elements, orphans, rollbacks.

use crate::mirror::Mirror;
use crate::small::{load, new, show};
use proptest::prelude::*;
use serde_json::json;
use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, Error, ExpandMark, ObjId, ObjType, PatchAction, PatchProp,
    ROOT, ReadDoc, Scalar, Span, SyncMessage, SyncState, TextEncoding, Transactable,
};

/// What the reference makes of the saved document.
fn theirs(doc: &mut AutoCommit) -> serde_json::Value {
    let theirs = automerge::Automerge::load(&doc.save()).unwrap();
    serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap()
}

/// Both documents get what the other has.
fn meet(one: &mut AutoCommit, two: &mut AutoCommit) {
    one.merge(two).unwrap();
    two.merge(one).unwrap();
    assert_eq!(show(one), show(two));
}

/// What `edit` does to a document is what its patches do to a copy. Returns them.
fn mirrored(doc: &mut AutoCommit, edit: impl FnOnce(&mut AutoCommit)) -> Vec<PatchAction> {
    let before = doc.heads();
    let mut mirror = Mirror::of(doc, TextEncoding::UnicodeCodePoint);
    edit(doc);
    let after = doc.heads();
    let patches = doc.document().diff(&before, &after).unwrap();
    for patch in &patches {
        mirror.apply(patch);
    }
    assert_eq!(mirror.shown(), Mirror::of(doc, TextEncoding::UnicodeCodePoint).shown());
    // And back again.
    for patch in doc.document().diff(&after, &before).unwrap() {
        mirror.apply(&patch);
    }
    assert_eq!(
        mirror.shown(),
        Mirror::of(&doc.at(&before), TextEncoding::UnicodeCodePoint).shown()
    );
    patches.into_iter().map(|patch| patch.action).collect()
}

#[test]
fn patches_tell_which_value_is_left_of_a_conflict() {
    let mut one = new(1);
    let list = one.put_object(&ROOT, "list", ObjType::List).unwrap();
    one.insert(&list, 0, "base").unwrap();
    one.put(&ROOT, "key", "base").unwrap();
    let mut two = one.fork(ActorId::new(&[2]));
    for (doc, value) in [(&mut one, "one"), (&mut two, "two")] {
        doc.put(&list, 0, value).unwrap();
        doc.put(&ROOT, "key", value).unwrap();
    }
    let winner_deleted = two.fork(ActorId::new(&[3]));
    let told = mirrored(&mut one, |one| drop(one.merge(&mut two).unwrap()));
    let conflicts = |action: &&PatchAction| match action {
        PatchAction::PutMap { value, .. } | PatchAction::PutSeq { value, .. } => value.conflict,
        _ => false,
    };
    assert_eq!(told.iter().filter(conflicts).count(), 2);
    assert_eq!(one.get_all(&ROOT, "key").unwrap().len(), 2);
    // Somebody deletes what they see, the winner: the other value shows, and nothing is in
    // conflict.
    let mut three = winner_deleted;
    three.delete(&ROOT, "key").unwrap();
    three.delete(&list, 0).unwrap();
    let told = mirrored(&mut one, |one| drop(one.merge(&mut three).unwrap()));
    assert_eq!(show(&one), json!({"key": "one", "list": ["one"]}));
    assert_eq!(told.len(), 2);
    assert_eq!(told.iter().filter(conflicts).count(), 0);
    assert_eq!(theirs(&mut one), show(&one));
}

#[test]
fn an_object_behind_the_winner_is_shown_whole_when_the_winner_goes() {
    let mut one = new(1);
    let list = one.put_object(&ROOT, "list", ObjType::List).unwrap();
    one.insert(&list, 0, 0_i64).unwrap();
    let mut two = one.fork(ActorId::new(&[2]));
    let hidden = one.put_object(&list, 0, ObjType::Map).unwrap();
    one.put(&hidden, "inner", "value").unwrap();
    two.put(&list, 0, "wins").unwrap();
    two.put(&list, 0, "wins still").unwrap();
    two.put(&list, 0, "wins at last").unwrap();
    // Somebody who has not seen the map.
    let mut three = two.fork(ActorId::new(&[3]));
    meet(&mut one, &mut two);
    assert_eq!(show(&one), json!({"list": ["wins at last"]}));
    let told = mirrored(&mut one, |one| {
        three.delete(&list, 0).unwrap();
        one.merge(&mut three).unwrap();
    });
    assert!(told.iter().any(|action| matches!(action, PatchAction::PutSeq { .. })));
    assert_eq!(show(&one), json!({"list": [{"inner": "value"}]}));
    assert_eq!(theirs(&mut one), show(&one));
}

#[test]
fn deleted_objects_come_back_whole_in_patches_to_the_past() {
    for kind in ["list", "map", "text"] {
        let mut doc = new(1);
        let holder = match kind {
            "list" => doc.put_object(&ROOT, "holder", ObjType::List).unwrap(),
            "map" => doc.put_object(&ROOT, "holder", ObjType::Map).unwrap(),
            _ => doc.put_object(&ROOT, "holder", ObjType::Text).unwrap(),
        };
        let inner = match kind {
            "list" => doc.insert_object(&holder, 0, ObjType::Map).unwrap(),
            "map" => doc.put_object(&holder, "inner", ObjType::Map).unwrap(),
            _ => {
                doc.splice_text(&holder, 0, 0, "abc").unwrap();
                doc.split_block(&holder, 1).unwrap()
            }
        };
        doc.put(&inner, "deep", "value").unwrap();
        mirrored(&mut doc, |doc| match kind {
            "map" => doc.delete(&holder, "inner").unwrap(),
            "list" => doc.delete(&holder, 0).unwrap(),
            _ => doc.join_block(&holder, 1).unwrap(),
        });
    }
}

#[test]
fn edits_in_a_map_that_is_deleted_later_leave_one_patch() {
    let mut doc = new(1);
    let map = doc.put_object(&ROOT, "map", ObjType::Map).unwrap();
    doc.update_diff_cursor();
    doc.put(&map, "a", 1_i64).unwrap();
    doc.commit();
    doc.put(&map, "b", 2_i64).unwrap();
    doc.delete(&ROOT, "map").unwrap();
    let patches = doc.diff_incremental().unwrap();
    assert_eq!(patches.len(), 1);
    assert!(matches!(&patches[0].action, PatchAction::DeleteMap { key } if &**key == "map"));
    assert!(doc.diff_incremental().unwrap().is_empty());
}

#[test]
fn a_patch_of_a_list_far_in_has_the_right_path() {
    let mut doc = new(1);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    let last = doc.insert_object(&list, 0, ObjType::Map).unwrap();
    doc.commit();
    doc.splice(&list, 0, 0, 0_i64..500).unwrap();
    let before = doc.heads();
    doc.put(&last, "x", 1_i64).unwrap();
    let after = doc.heads();
    let patches = doc.document().diff(&before, &after).unwrap();
    let path: Vec<&PatchProp> = patches[0].path.iter().map(|(_, prop)| prop).collect();
    assert_eq!(path, [&PatchProp::Key("list".into()), &PatchProp::Index(500)]);
}

#[test]
fn counters_that_resolve_a_conflict_say_so() {
    let mut one = new(1);
    one.put(&ROOT, "c", Scalar::Counter(1)).unwrap();
    let mut two = one.fork(ActorId::new(&[2]));
    one.put(&ROOT, "c", Scalar::Counter(10)).unwrap();
    two.put(&ROOT, "c", Scalar::Counter(20)).unwrap();
    meet(&mut one, &mut two);
    let told = mirrored(&mut one, |one| one.increment(&ROOT, "c", 5).unwrap());
    assert!(told.iter().any(|action| matches!(action, PatchAction::Increment { by: 5, .. })));
    // Both counters were seen, and both were added to.
    let totals: Vec<String> =
        one.get_all(&ROOT, "c").unwrap().iter().map(|(value, _)| format!("{value:?}")).collect();
    assert_eq!(totals.len(), 2);
    // The past, and what was saved of it, add up alike.
    let heads = one.heads();
    let fork = one.fork_at(ActorId::new(&[3]), &heads).unwrap().into_document();
    assert_eq!(show(&fork), show(&one));
    assert_eq!(show(&load(&one.save())), show(&one));
}

#[test]
fn wide_elements_are_cut_nowhere() {
    for encoding in [
        TextEncoding::UnicodeCodePoint,
        TextEncoding::Utf8CodeUnit,
        TextEncoding::Utf16CodeUnit,
        TextEncoding::GraphemeCluster,
    ] {
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
        doc.splice_text(&text, 0, 0, "ab").unwrap();
        // One element that reads as three characters.
        doc.insert(&text, 1, "x😀y").unwrap();
        doc.commit();
        let width = encoding.width("x😀y");
        assert_eq!(doc.length(&text).unwrap(), 2 + width);
        for index in 1..=width {
            assert_eq!(doc.get(&text, index).unwrap().unwrap().0.as_str(), Some("x😀y"));
        }
        // Into its middle is behind it; its replacement replaces it whole.
        let mut fork = doc.fork(ActorId::new(&[2]));
        fork.splice_text(&text, 2, 0, "-").unwrap();
        assert_eq!(fork.text(&text).unwrap(), "ax😀y-b");
        fork.put(&text, 2, "z").unwrap();
        assert_eq!(fork.text(&text).unwrap(), "az-b");
        let mut third = doc.fork(ActorId::new(&[3]));
        third.put(&text, 1, "longer than that").unwrap();
        meet(&mut fork, &mut third);
        let shown = fork.text(&text).unwrap();
        assert_eq!(fork.length(&text).unwrap(), encoding.width(&shown));
        let spans: String = fork
            .spans(&text)
            .unwrap()
            .into_iter()
            .map(|span| match span {
                Span::Text { text, .. } => text,
                Span::Block { .. } => String::new(),
            })
            .collect();
        assert_eq!(spans, shown);
        assert_eq!(theirs(&mut fork), show(&fork));
    }
}

#[test]
fn an_updated_text_keeps_marks_beside_what_is_no_text() {
    let mut doc = new(1);
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "hello").unwrap();
    doc.insert(&text, 2, 7_i64).unwrap();
    doc.mark(&text, 0, 4, "bold", true, ExpandMark::After).unwrap();
    doc.update_text(&text, "he\u{fffc}y llo").unwrap();
    assert_eq!(doc.text(&text).unwrap(), "he\u{fffc}y llo");
    doc.unmark(&text, 1, 8, "bold", ExpandMark::None).unwrap();
    let marks = doc.marks(&text).unwrap();
    assert_eq!((marks.len(), marks[0].start, marks[0].end), (1, 0, 1));
    // What is inserted beside a mark that was deleted with its text has none.
    doc.splice_text(&text, 0, 8, "").unwrap();
    doc.splice_text(&text, 0, 0, "new").unwrap();
    assert!(doc.marks(&text).unwrap().is_empty());
    assert_eq!(theirs(&mut doc), show(&doc));
}

#[test]
fn rollbacks_leave_nothing_whoever_else_was_there() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    let mut two = one.fork(ActorId::new(&[0]));
    two.put(&ROOT, "b", 2_i64).unwrap();
    let mut three = one.fork(ActorId::new(&[9]));
    three.put(&ROOT, "c", 3_i64).unwrap();
    one.merge(&mut two).unwrap();
    one.merge(&mut three).unwrap();
    let before = one.save();
    assert_eq!(one.rollback(), 0);
    let mut one = AutoCommit::from(load(&before));
    one.set_actor(ActorId::new(&[5]));
    let tree = json!({"deep": {"list": [{"text": "x"}, [1, [2, [3]]]], "more": {"a": {"b": {}}}}});
    one.import_json(&tree).unwrap();
    one.delete(&ROOT, "a").unwrap();
    assert!(one.rollback() > 10);
    assert_eq!(one.save(), before);
    assert_eq!(show(&one), json!({"a": 1, "b": 2, "c": 3}));
    assert_eq!(one.document().stats().num_actors, 3);
}

#[test]
fn units_and_options_are_kept_by_forks_and_by_loading_into_nothing() {
    for encoding in [TextEncoding::Utf8CodeUnit, TextEncoding::Utf16CodeUnit] {
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
        doc.splice_text(&text, 0, 0, "😀é").unwrap();
        let heads = doc.heads();
        let wanted = encoding.width("😀é");
        let fork = doc.fork_at(ActorId::new(&[2]), &heads).unwrap();
        assert_eq!((fork.text_encoding(), fork.length(&text).unwrap()), (encoding, wanted));
        let hashes: Vec<_> = doc.document().changes().map(|change| change.hash()).collect();
        let bundle = doc.bundle(&hashes).unwrap();
        for bytes in [doc.save(), doc.save_after(&[]), bundle] {
            let mut empty = AutoCommit::with_encoding(ActorId::new(&[3]), encoding);
            empty.load_incremental(&bytes).unwrap();
            assert_eq!((empty.text_encoding(), empty.length(&text).unwrap()), (encoding, wanted));
        }
    }
}

#[test]
fn nothing_is_skipped_because_a_head_is_known() {
    // A file whose document chunk has one head that is known and one that is not.
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    let mut known = one.fork(ActorId::new(&[2]));
    one.put(&ROOT, "b", 2_i64).unwrap();
    let mut other = known.fork(ActorId::new(&[3]));
    other.put(&ROOT, "c", 3_i64).unwrap();
    known.merge(&mut one).unwrap();
    other.merge(&mut one).unwrap();
    known.load_incremental(&other.save()).unwrap();
    assert_eq!(show(&known), json!({"a": 1, "b": 2, "c": 3}));
    assert_eq!(known.heads(), other.heads());
}

#[test]
fn what_an_actor_made_last_is_known_after_forks_and_merges() {
    let mut one = new(1);
    let mut last = None;
    let mut two = new(2);
    for round in 0..4_i64 {
        one.put(&ROOT, "n", round).unwrap();
        last = one.commit().or(last);
        two.merge(&mut one).unwrap();
        two.put(&ROOT, "m", round).unwrap();
        two.commit();
        one.merge(&mut two).unwrap();
        let doc = one.document();
        assert_eq!(doc.last_local_change().map(|change| change.hash()), last);
        let empty = doc.fork(ActorId::new(&[7]));
        assert!(empty.last_local_change().is_none());
    }
    // A write that changes nothing makes no change, and the next one still follows.
    one.put(&ROOT, "n", 3_i64).unwrap();
    assert_eq!(one.commit(), None);
    one.put(&ROOT, "n", 4_i64).unwrap();
    assert!(one.commit().is_some());
    meet(&mut one, &mut two);
    assert_eq!(one.document().changes_since(&two.heads()).len(), 0);
}

#[test]
fn empty_changes_count_as_changes() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    let first = one.heads();
    let empty = one.commit_empty(CommitOptions::default().with_message("seen"));
    assert_eq!(one.heads(), [empty]);
    let since: Vec<_> =
        one.document().changes_since(&first).iter().map(|change| change.hash()).collect();
    assert_eq!(since, [empty]);
    assert!(one.document().changes_since(&[empty]).is_empty());
    one.commit_empty(CommitOptions::default());
    let mut loaded = AutoCommit::from(load(&one.save()));
    assert_eq!(loaded.heads(), one.heads());
    assert_eq!(theirs(&mut one), show(&one));
}

#[test]
fn empty_keys_are_keys() {
    let mut doc = new(1);
    doc.put(&ROOT, "", "nothing").unwrap();
    let map = doc.put_object(&ROOT, "m", ObjType::Map).unwrap();
    doc.put(&map, "", "less").unwrap();
    assert_eq!(show(&load(&doc.save())), json!({"": "nothing", "m": {"": "less"}}));
    assert_eq!(theirs(&mut doc), show(&doc));
}

#[test]
fn a_refused_merge_leaves_a_document_that_can_be_saved() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    one.commit();
    // Two programs with the actor of one.
    let mut twin = AutoCommit::from(load(&one.save()));
    twin.set_actor(ActorId::new(&[1]));
    one.put(&ROOT, "a", 2_i64).unwrap();
    twin.put(&ROOT, "a", 3_i64).unwrap();
    let before = one.save();
    assert!(matches!(one.merge(&mut twin), Err(Error::DuplicateSeq { seq: 2, .. })));
    assert_eq!(one.save(), before);
    one.put(&ROOT, "b", 4_i64).unwrap();
    assert_eq!(show(&load(&one.save())), json!({"a": 2, "b": 4}));
    // Nor does one that waits let its twin in.
    let mut other = new(7);
    let twins = twin.document().changes().last().unwrap().clone();
    let first = one.document().changes().next().unwrap().clone();
    let second = one.document().changes().nth(1).unwrap().clone();
    other.apply_changes([twins]).unwrap();
    assert!(matches!(other.apply_changes([second]), Err(Error::DuplicateSeq { .. })));
    other.apply_changes([first]).unwrap();
    assert_eq!(show(&other), json!({"a": 3}));
}

#[test]
fn an_orphan_keeps_nobody_from_syncing() {
    let mut source = new(1);
    source.put(&ROOT, "a", 1_i64).unwrap();
    source.commit();
    source.put(&ROOT, "a", 2_i64).unwrap();
    source.commit();
    let orphan = source.document().last_local_change().unwrap().clone();
    let mut one = new(2);
    one.apply_changes([orphan]).unwrap();
    one.put(&ROOT, "one", 1_i64).unwrap();
    let mut two = new(3);
    two.put(&ROOT, "two", 2_i64).unwrap();
    let mut states = [SyncState::new(), SyncState::new()];
    for _ in 0..10 {
        let message = one.generate_sync_message(&mut states[0]);
        let answer = two.generate_sync_message(&mut states[1]);
        if message.is_none() && answer.is_none() {
            break;
        }
        let pass = |message: SyncMessage| SyncMessage::decode(&message.encode()).unwrap();
        if let Some(message) = message {
            two.receive_sync_message(&mut states[1], pass(message)).unwrap();
        }
        if let Some(answer) = answer {
            one.receive_sync_message(&mut states[0], pass(answer)).unwrap();
        }
    }
    assert_eq!(show(&one), json!({"one": 1, "two": 2}));
    assert_eq!(show(&two), show(&one));
    assert_eq!(one.document().queued_changes().len(), 1);
}

#[test]
fn a_waiting_change_of_ones_own_gives_way_to_the_next_one() {
    let mut one = new(1);
    one.put(&ROOT, "a", 1_i64).unwrap();
    one.commit();
    one.put(&ROOT, "a", 2_i64).unwrap();
    one.commit();
    let second = one.document().last_local_change().unwrap().clone();
    // What was restored from a backup does not know what it made since.
    let mut restored = new(1);
    restored.apply_changes([second]).unwrap();
    restored.put(&ROOT, "b", 3_i64).unwrap();
    restored.commit();
    restored.put(&ROOT, "b", 4_i64).unwrap();
    restored.commit();
    assert!(restored.document().queued_changes().is_empty());
    assert_eq!(show(&load(&restored.save())), json!({"b": 4}));
}

/// What an edit of the past or the present does, and whether it goes on in the past.
#[derive(Clone, Debug)]
enum Step {
    Isolate(u8),
    Integrate,
    Type(u8, String),
    Delete(u8, u8),
    Put(u8, i64),
    Increment(u8),
    Nested(u8),
    Drop(u8),
    Remote(u8),
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => any::<u8>().prop_map(Step::Isolate),
        1 => Just(Step::Integrate),
        3 => (any::<u8>(), "[a-c😀]{1,4}").prop_map(|(at, text)| Step::Type(at, text)),
        2 => (any::<u8>(), 1..4_u8).prop_map(|(at, count)| Step::Delete(at, count)),
        2 => (any::<u8>(), -3..4_i64).prop_map(|(key, value)| Step::Put(key, value)),
        1 => any::<u8>().prop_map(Step::Increment),
        1 => any::<u8>().prop_map(Step::Nested),
        1 => any::<u8>().prop_map(Step::Drop),
        1 => any::<u8>().prop_map(Step::Remote),
        3 => Just(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A copy that is kept by incremental patches follows through isolation and back.
    #[test]
    fn incremental_patches_lead_into_the_past_and_back(
        steps in prop::collection::vec(step(), 1..24),
    ) {
        let mut doc = new(1);
        let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
        let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
        doc.put(&ROOT, "c", Scalar::Counter(0)).unwrap();
        let mut heads = vec![doc.heads()];
        let mut remote = doc.fork(ActorId::new(&[2]));
        doc.update_diff_cursor();
        let mut mirror = Mirror::of(&doc, TextEncoding::UnicodeCodePoint);
        for step in &steps {
            // What an edit is refused for is of no interest here.
            let _ = apply(step, &mut doc, &mut remote, (&text, &list), &mut heads);
            if matches!(step, Step::Look) {
                for patch in doc.diff_incremental().unwrap() {
                    mirror.apply(&patch);
                }
                prop_assert_eq!(mirror.shown(), Mirror::of(&doc, TextEncoding::UnicodeCodePoint).shown());
            }
        }
        doc.integrate();
        for patch in doc.diff_incremental().unwrap() {
            mirror.apply(&patch);
        }
        prop_assert_eq!(mirror.shown(), Mirror::of(&doc, TextEncoding::UnicodeCodePoint).shown());
    }
}

fn apply(
    step: &Step,
    doc: &mut AutoCommit,
    remote: &mut AutoCommit,
    (text, list): (&ObjId, &ObjId),
    heads: &mut Vec<Vec<shoal_crdt::ChangeHash>>,
) -> Result<(), Error> {
    let keys = ["a", "b", "c"];
    match step {
        Step::Isolate(at) => {
            doc.integrate();
            heads.push(doc.heads());
            doc.isolate(&heads[usize::from(*at) % heads.len()])
        }
        Step::Integrate => {
            doc.integrate();
            Ok(())
        }
        Step::Type(at, typed) => {
            let at = usize::from(*at) % (doc.length(text)? + 1);
            doc.splice_text(text, at, 0, typed)
        }
        Step::Delete(at, count) => {
            let at = usize::from(*at) % (doc.length(text)? + 1);
            doc.splice_text(text, at, isize::from(i8::try_from(*count).unwrap()), "")
        }
        Step::Put(key, value) => doc.put(&ROOT, keys[usize::from(key % 2)], *value),
        Step::Increment(by) => doc.increment(&ROOT, "c", i64::from(*by)),
        Step::Nested(at) => {
            let at = usize::from(*at) % (doc.length(list)? + 1);
            let map = doc.insert_object(list, at, ObjType::Map)?;
            doc.put(&map, "n", i64::try_from(at).unwrap())
        }
        Step::Drop(at) => {
            let at = usize::from(*at) % (doc.length(list)? + 1);
            doc.delete(list, at)
        }
        Step::Remote(at) => {
            let at = usize::from(*at) % (remote.length(text)? + 1);
            remote.splice_text(text, at, 0, "R")?;
            remote.put(&ROOT, "a", "R")?;
            doc.merge(remote)?;
            remote.merge(doc).map(drop)
        }
        Step::Look => Ok(()),
    }
}

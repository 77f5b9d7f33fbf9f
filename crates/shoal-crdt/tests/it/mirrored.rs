//! Patches of small sessions of the kinds in which the reference's patches had faults: a copy that
//! is kept by patches alone shows what the document shows, forth and back, and what the reference
//! shows.

use crate::mirror::Mirror;
use crate::small::{load, new, show};
use serde_json::json;
use shoal_crdt::hydrate::Value as Tree;
use shoal_crdt::{
    ActorId, AutoCommit, ChangeHash, CommitOptions, Error, ExpandMark, NewSpan, ObjId, ObjType,
    PatchAction, PatchProp, ROOT, ReadDoc, Scalar, ScalarRef, TextEncoding, Transactable,
    UpdateSpansConfig, Value,
};

/// What `edit` does to a document is what its patches do to a copy, and back. Returns those forth.
fn mirrored(doc: &mut AutoCommit, edit: impl FnOnce(&mut AutoCommit)) -> Vec<PatchAction> {
    let before = doc.heads();
    edit(doc);
    let after = doc.heads();
    let patches = leads(doc, &before, &after);
    leads(doc, &after, &before);
    // What a reader without the history would be told: everything.
    leads(doc, &[], &after);
    let theirs = automerge::Automerge::load(&doc.save()).unwrap();
    let theirs = serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap();
    assert_eq!(theirs, show(doc));
    patches
}

/// The patches from some heads to others make a copy of the one the other, conflicts included.
fn leads(doc: &mut AutoCommit, from: &[ChangeHash], to: &[ChangeHash]) -> Vec<PatchAction> {
    let encoding = doc.text_encoding();
    let mut mirror = Mirror::of(&doc.at(from), encoding);
    let mut value = doc.at(from).hydrate(&ROOT).unwrap();
    let patches = doc.document().diff(from, to).unwrap();
    for patch in &patches {
        mirror.apply(patch);
        // A string cannot tell two elements that are seen as one character.
        if encoding != TextEncoding::GraphemeCluster {
            value.apply_patch(patch, encoding).unwrap();
        }
    }
    let wanted = Mirror::of(&doc.at(to), encoding);
    assert_eq!(mirror.shown(), wanted.shown(), "{patches:#?}");
    if encoding != TextEncoding::GraphemeCluster {
        assert_eq!(value, doc.at(to).hydrate(&ROOT).unwrap());
    }
    patches.into_iter().map(|patch| patch.action).collect()
}

fn text(doc: &mut AutoCommit, value: &str) -> ObjId {
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, value).unwrap();
    doc.commit();
    text
}

#[test]
fn a_loser_that_goes_ends_the_conflict_and_one_of_three_does_not() {
    let mut doc = new(2);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.insert(&list, 0, Scalar::Null).unwrap();
    doc.commit();
    let [mut low, mut middle, mut high] = [1, 3, 4].map(|actor| doc.fork(ActorId::new(&[actor])));
    for (value, peer) in [&mut low, &mut middle, &mut high].into_iter().enumerate() {
        peer.put(&list, 0, i64::try_from(value).unwrap()).unwrap();
        peer.put(&ROOT, "key", i64::try_from(value).unwrap()).unwrap();
    }
    for peer in [&mut low, &mut middle, &mut high] {
        mirrored(&mut doc, |doc| drop(doc.merge(peer).unwrap()));
    }
    for (peer, left) in [(&mut high, 2), (&mut low, 1)] {
        peer.delete(&list, 0).unwrap();
        peer.delete(&ROOT, "key").unwrap();
        mirrored(&mut doc, |doc| drop(doc.merge(peer).unwrap()));
        assert_eq!(doc.get_all(&list, 0).unwrap().len(), left);
        assert_eq!(doc.get_all(&ROOT, "key").unwrap().len(), left);
    }
    assert_eq!(show(&doc)["list"], json!([1]));
}

#[test]
fn what_reads_as_several_characters_is_replaced_whole() {
    for merges in [false, true] {
        let mut doc = new(1);
        let text = text(&mut doc, "a");
        doc.insert(&text, 1, "xyz").unwrap();
        doc.commit();
        let mut peer = doc.fork(ActorId::new(&[2]));
        let replace = |doc: &mut AutoCommit| {
            doc.put(&text, 2, 1.5).unwrap();
            doc.put(&text, 0, Scalar::Null).unwrap();
        };
        mirrored(&mut doc, |doc| {
            if merges {
                replace(&mut peer);
                doc.merge(&mut peer).unwrap();
            } else {
                replace(doc);
            }
        });
        assert_eq!(doc.text(&text).unwrap(), "\u{fffc}\u{fffc}");
    }
}

#[test]
fn lists_that_were_replaced_come_back_as_they_were() {
    let mut doc = new(1);
    doc.put_object(&ROOT, "first", ObjType::List).unwrap();
    let second = doc.put_object(&ROOT, "second", ObjType::List).unwrap();
    doc.commit();
    mirrored(&mut doc, |doc| {
        doc.put_object(&ROOT, "first", ObjType::List).unwrap();
        doc.put_object(&ROOT, "second", ObjType::Text).unwrap();
        doc.insert(&second, 0, 1_i64).unwrap();
    });
}

#[test]
fn marks_of_no_width_beside_replaced_elements_harm_nothing() {
    let mut doc = new(1);
    let text = text(&mut doc, "");
    mirrored(&mut doc, |doc| {
        // What is refused is refused with an error.
        let _ = doc.unmark(&text, 0, 0, "comment", ExpandMark::Both);
        doc.insert(&text, 0, "o").unwrap();
    });
    let mut left = doc.fork(ActorId::new(&[2]));
    left.put(&text, 0, "multi\nline").unwrap();
    let mut right = doc.fork(ActorId::new(&[3]));
    right.put(&text, 0, Scalar::Null).unwrap();
    right.commit();
    right.delete(&text, 0).unwrap();
    for peer in [&mut left, &mut right] {
        mirrored(&mut doc, |doc| drop(doc.merge(peer).unwrap()));
    }
    mirrored(&mut doc, |doc| {
        doc.insert(&text, 5, -85_i64).unwrap();
        let end = doc.length(&text).unwrap();
        let _ = doc.unmark(&text, end, end, "color", ExpandMark::Before);
    });
}

#[test]
fn inserted_text_is_told_with_its_marks() {
    let mut doc = new(1);
    let text = text(&mut doc, "");
    let told = mirrored(&mut doc, |doc| {
        doc.splice_text(&text, 0, 0, "abc").unwrap();
        doc.mark(&text, 0, 3, "bold", 1_i64, ExpandMark::After).unwrap();
    });
    let marked = |action: &PatchAction| matches!(action, PatchAction::SpliceText { marks, .. } if !marks.is_empty());
    assert!(told.iter().any(marked), "{told:?}");
}

/// Edits whose index lies within a character in UTF-8.
#[test]
fn indexes_within_a_character_move_to_its_end_in_patches_as_well() {
    let edits: [fn(&mut AutoCommit, &ObjId); 3] = [
        |doc, text| doc.insert(text, 3, 150_u64).unwrap(),
        |doc, text| drop(doc.split_block(text, 3).unwrap()),
        |doc, text| doc.mark(text, 3, 5, "bold", true, ExpandMark::None).unwrap(),
    ];
    for edit in edits {
        let encoding = TextEncoding::Utf8CodeUnit;
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = text(&mut doc, "👩🏿\u{200d}🚒");
        mirrored(&mut doc, |doc| edit(doc, &text));
        let marks = doc.marks(&text).unwrap();
        assert!(marks.iter().all(|mark| (mark.start, mark.end) == (4, 8)), "{marks:?}");
    }
}

fn int(doc: &impl ReadDoc, obj: &ObjId, key: &str) -> Option<i64> {
    match doc.get(obj, key).unwrap()?.0 {
        Value::Scalar(ScalarRef::Int(value)) => Some(value),
        _ => None,
    }
}

/// Whether it says that there is one value now.
fn settles(action: &PatchAction) -> bool {
    match action {
        PatchAction::PutMap { value, .. } | PatchAction::PutSeq { value, .. } => !value.conflict,
        _ => false,
    }
}

#[test]
fn an_object_that_is_left_of_a_conflict_is_told_whole() {
    let mut doc = new(1);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.insert(&list, 0, "base").unwrap();
    doc.commit();
    let mut peer = doc.fork(ActorId::new(&[2]));
    peer.put(&list, 0, "loses").unwrap();
    let mut gone = peer.fork(ActorId::new(&[3]));
    // Two ops, so that it wins.
    doc.put(&list, 0, "for a while").unwrap();
    let map = doc.put_object(&list, 0, ObjType::Map).unwrap();
    doc.put(&map, "inner", 1_i64).unwrap();
    mirrored(&mut doc, |doc| drop(doc.merge(&mut peer).unwrap()));
    assert_eq!(doc.get_all(&list, 0).unwrap().len(), 2);
    gone.delete(&list, 0).unwrap();
    let told = mirrored(&mut doc, |doc| drop(doc.merge(&mut gone).unwrap()));
    assert!(settles(&told[0]), "{told:?}");
    assert_eq!(show(&doc), json!({"list": [{"inner": 1}]}));
}

#[test]
fn two_maps_at_one_item_are_filled_apart() {
    let (mut low, mut high) = (new(1), new(2));
    let list = low.put_object(&ROOT, "list", ObjType::List).unwrap();
    low.insert(&list, 0, "hello").unwrap();
    high.merge(&mut low).unwrap();
    let of_low = low.put_object(&list, 0, ObjType::Map).unwrap();
    let of_high = high.put_object(&list, 0, ObjType::Map).unwrap();
    low.put(&of_low, "key", 1_i64).unwrap();
    low.merge(&mut high).unwrap();
    high.put(&of_high, "key", 2_i64).unwrap();
    high.put(&of_high, "more", true).unwrap();
    mirrored(&mut low, |low| drop(low.merge(&mut high).unwrap()));
    assert_eq!(show(&low), json!({"list": [{"key": 2, "more": true}]}));
    assert_eq!(int(&low, &of_low, "key"), Some(1));
}

#[test]
fn an_increment_leaves_counters_only() {
    // Whoever wins before.
    for number in [0, 9] {
        let mut docs = [new(number), new(3), new(4)];
        docs[0].put(&ROOT, "n", 20_u64).unwrap();
        docs[1].put(&ROOT, "n", Scalar::Counter(0)).unwrap();
        docs[2].put(&ROOT, "n", Scalar::Counter(10)).unwrap();
        let [doc, two, three] = &mut docs;
        mirrored(doc, |doc| drop(doc.merge(two).unwrap()));
        mirrored(doc, |doc| drop(doc.merge(three).unwrap()));
        mirrored(doc, |doc| doc.increment(&ROOT, "n", 5).unwrap());
        assert_eq!(doc.get_all(&ROOT, "n").unwrap().len(), 2);
        assert_eq!(show(doc), json!({"n": 15}));
        let heads = doc.heads();
        let mut fork = doc.fork_at(ActorId::new(&[7]), &heads).unwrap();
        assert_eq!(show(&fork), show(doc));
        assert_eq!(show(&load(&fork.save())), show(doc));
    }
}

#[test]
fn a_counter_whose_conflict_an_increment_ends_is_put_anew() {
    let (mut doc, mut peer) = (new(1), new(2));
    doc.put(&ROOT, "key", Scalar::Null).unwrap();
    peer.put(&ROOT, "key", Scalar::Counter(-1000)).unwrap();
    doc.merge(&mut peer).unwrap();
    let told = mirrored(&mut doc, |doc| doc.increment(&ROOT, "key", 28).unwrap());
    assert!(matches!(&told[..], [action] if settles(action)), "{told:?}");
    assert_eq!(show(&doc), json!({"key": -972}));
}

#[test]
fn the_same_value_twice_is_a_conflict_until_somebody_writes_it_again() {
    let (mut one, mut two) = (new(1), new(2));
    let list = one.put_object(&ROOT, "list", ObjType::List).unwrap();
    one.insert(&list, 0, "first").unwrap();
    two.merge(&mut one).unwrap();
    for doc in [&mut one, &mut two] {
        doc.put(&ROOT, "key", "value").unwrap();
        doc.put(&list, 0, "value").unwrap();
    }
    one.merge(&mut two).unwrap();
    two.merge(&mut one).unwrap();
    assert_eq!(one.get_all(&ROOT, "key").unwrap().len(), 2);
    for doc in [&mut one, &mut two] {
        mirrored(doc, |doc| {
            doc.put(&ROOT, "key", "value").unwrap();
            doc.put(&list, 0, "value").unwrap();
        });
    }
    mirrored(&mut one, |one| drop(one.merge(&mut two).unwrap()));
    assert_eq!(one.get_all(&ROOT, "key").unwrap().len(), 1);
    assert_eq!(one.get_all(&list, 0).unwrap().len(), 1);
}

#[test]
fn of_an_element_of_a_text_that_several_replaced_the_winner_is_told() {
    for encoding in UNITS {
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = text(&mut doc, "a");
        let mut left = doc.fork(ActorId::new(&[2]));
        left.put(&text, 0, "🦊🐻").unwrap();
        let mut right = doc.fork(ActorId::new(&[3]));
        right.put(&text, 0, vec![0_u8; 32]).unwrap();
        for peer in [&mut left, &mut right] {
            mirrored(&mut doc, |doc| drop(doc.merge(peer).unwrap()));
        }
        let spans: String = doc.spans(&text).unwrap().iter().map(span_text).collect();
        assert_eq!(spans, "\u{fffc}");
        let iterated = doc.iter().filter_map(|found| match &found.item {
            shoal_crdt::DocItem::Text(span) => Some(span_text(span).to_owned()),
            _ => None,
        });
        assert_eq!(iterated.collect::<String>(), spans);
        right.delete(&text, 0).unwrap();
        mirrored(&mut doc, |doc| drop(doc.merge(&mut right).unwrap()));
        assert_eq!(doc.text(&text).unwrap(), "🦊🐻");
        mirrored(&mut doc, |doc| doc.put(&text, 0, Scalar::Null).unwrap());
    }
}

fn span_text(span: &shoal_crdt::Span) -> &str {
    match span {
        shoal_crdt::Span::Text { text, .. } => text,
        shoal_crdt::Span::Block { .. } => "",
    }
}

const UNITS: [TextEncoding; 4] = [
    TextEncoding::UnicodeCodePoint,
    TextEncoding::Utf8CodeUnit,
    TextEncoding::Utf16CodeUnit,
    TextEncoding::GraphemeCluster,
];

#[test]
fn what_is_inserted_into_a_wide_character_of_any_unit_is_told_where_it_is() {
    for encoding in UNITS {
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = text(&mut doc, "a👩🏿\u{200d}🚒e\u{301}z");
        for index in 0..=doc.length(&text).unwrap() {
            let mut fork = doc.fork(ActorId::new(&[2]));
            mirrored(&mut fork, |fork| fork.insert(&text, index, 150_u64).unwrap());
            mirrored(&mut fork, |fork| drop(fork.split_block(&text, index).unwrap()));
            mirrored(&mut fork, |fork| fork.splice_text(&text, index, 2, "\u{301}é").unwrap());
        }
    }
}

#[test]
fn marks_beside_what_is_hidden_harm_no_update() {
    let mut doc = new(1);
    let text = text(&mut doc, "a");
    doc.insert(&text, 0, "").unwrap();
    doc.mark(&text, 0, 1, "bold", true, ExpandMark::Before).unwrap();
    mirrored(&mut doc, |doc| doc.update_text(&text, "hello").unwrap());
    assert_eq!(doc.text(&text).unwrap(), "hello");
    // A number that two overwrote, and no mark at its end.
    let mut inserted = doc.fork(ActorId::new(&[2]));
    inserted.insert(&text, 5, 155_u64).unwrap();
    for (actor, value) in [(3, Scalar::Uint(187)), (4, Scalar::Boolean(false))] {
        let mut peer = inserted.fork(ActorId::new(&[actor]));
        peer.put(&text, 5, value).unwrap();
        mirrored(&mut doc, |doc| drop(doc.merge(&mut peer).unwrap()));
    }
    let end = doc.length(&text).unwrap();
    mirrored(&mut doc, |doc| drop(doc.unmark(&text, end, end, "color", ExpandMark::Before)));
    assert_eq!(doc.text(&text).unwrap(), "hello\u{fffc}");
}

#[test]
fn blocks_are_told_with_what_is_in_them() {
    let mut doc = new(1);
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    let entries = [("type".to_owned(), Tree::Scalar(Scalar::Str("paragraph".into())))];
    mirrored(&mut doc, |doc| {
        let spans = [NewSpan::Block(entries.into())];
        doc.update_spans(&text, &spans, &UpdateSpansConfig::default()).unwrap();
    });
}

#[test]
fn values_that_are_replaced_at_once_come_as_what_they_became() {
    let mut doc = new(1);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.commit();
    let told = mirrored(&mut doc, |doc| {
        for index in 0..40 {
            doc.insert(&list, index, Scalar::Null).unwrap();
            doc.put(&list, index, i64::try_from(index).unwrap()).unwrap();
        }
    });
    assert!(matches!(&told[..], [PatchAction::Insert { index: 0, values }] if values.len() == 40));
    let told = mirrored(&mut doc, |doc| {
        for index in 0..40 {
            let map = doc.put_object(&list, index, ObjType::Map).unwrap();
            doc.put(&map, "test", i64::try_from(index).unwrap()).unwrap();
        }
    });
    assert_eq!(told.len(), 80);
    for index in 0..40 {
        let (_, map) = doc.get(&list, index).unwrap().unwrap();
        assert_eq!(int(&doc, &map, "test"), i64::try_from(index).ok());
    }
}

/// What is refused because it is not there at the heads that are edited leaves no patch.
#[test]
fn an_object_of_the_future_cannot_be_edited() {
    let mut doc = new(1);
    let text = text(&mut doc, "x");
    let mut document = doc.into_document();
    let mut tx = document.transaction_at(&[]).unwrap();
    let refused = tx.insert(&text, 0, Scalar::Counter(-104));
    assert_eq!(refused, Err(Error::UnknownObject(text.clone())));
    assert_eq!(tx.patches().unwrap(), []);
    assert_eq!(tx.commit(CommitOptions::default()), None);
    let mut doc = AutoCommit::from(document);
    doc.isolate(&[]).unwrap();
    assert_eq!(doc.insert(&text, 0, 1_i64), Err(Error::UnknownObject(text)));
    let heads = doc.heads();
    assert!(doc.fork_at(ActorId::new(&[2]), &heads).is_ok());
}

#[test]
fn states_apart_lead_to_each_other() {
    // A text that was put in the past under a key that holds something else at present.
    for holder in ["map", "list"] {
        let mut doc = new(1);
        let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
        doc.insert(&list, 0, "base").unwrap();
        doc.put(&ROOT, "key", "base").unwrap();
        let base = doc.heads();
        let mut peer = doc.fork(ActorId::new(&[2]));
        let put = |doc: &mut AutoCommit, typed: &str| {
            let text = match holder {
                "map" => doc.put_object(&ROOT, "key", ObjType::Text).unwrap(),
                _ => doc.put_object(&list, 0, ObjType::Text).unwrap(),
            };
            doc.splice_text(&text, 0, 0, typed).unwrap();
        };
        put(&mut peer, "theirs");
        doc.merge(&mut peer).unwrap();
        doc.isolate(&base).unwrap();
        doc.set_actor(ActorId::new(&[0xff]));
        put(&mut doc, "hello world");
        let isolated = doc.heads();
        doc.integrate();
        let integrated = doc.heads();
        let told = leads(&mut doc, &isolated, &integrated);
        let conflict = |action: &PatchAction| match action {
            PatchAction::Conflict { prop: PatchProp::Index(0) } => holder == "list",
            PatchAction::Conflict { prop: PatchProp::Key(_) } => holder == "map",
            _ => false,
        };
        assert!(told.iter().any(conflict), "{told:?}");
        leads(&mut doc, &integrated, &isolated);
        leads(&mut doc, &base, &isolated);
        leads(&mut doc, &integrated, &[]);
    }
}

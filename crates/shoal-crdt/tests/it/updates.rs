//! Whole values written over what is there: objects, spans, splices of values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::values::their_value;
use automerge::transaction::Transactable as _;
use proptest::prelude::*;
use serde_json::json;
use shoal_crdt::hydrate::Value;
use shoal_crdt::{
    ActorId, AutoCommit, CommitOptions, Document, Error, ExpandMark, LoadOptions, MarkSet, NewSpan,
    ObjId, ObjType, PatchProp, ROOT, ReadDoc, Scalar, Span, StringMigration, TextEncoding,
    Transactable, UpdateSpansConfig,
};

fn new(number: u8) -> AutoCommit {
    AutoCommit::new(ActorId::new(&[number]))
}

fn show(doc: &impl ReadDoc) -> serde_json::Value {
    serde_json::to_value(doc.hydrate(&ROOT).unwrap()).unwrap()
}

fn value(json: &serde_json::Value) -> Value {
    json.into()
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        (0..3_i64).prop_map(|number| json!(number)),
        "[ab😀]{0,4}".prop_map(|text| json!(text)),
        Just(json!(null)),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|entries| json!(entries)),
        ]
    })
}

fn object() -> impl Strategy<Value = serde_json::Value> {
    prop::collection::btree_map("[a-c]", json(), 0..4).prop_map(|entries| json!(entries))
}

/// Whether no array in `new` is shorter than the one in its place in `old`: the reference deletes
/// from the front then.
fn no_array_shrinks(old: &serde_json::Value, new: &serde_json::Value) -> bool {
    match (old, new) {
        (serde_json::Value::Array(old), serde_json::Value::Array(new)) => {
            old.len() <= new.len()
                && old.iter().zip(new).all(|(old, new)| no_array_shrinks(old, new))
        }
        (serde_json::Value::Object(old), serde_json::Value::Object(new)) => old
            .iter()
            .filter_map(|(key, old)| Some((old, new.get(key)?)))
            .all(|(old, new)| no_array_shrinks(old, new)),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The document holds the new value then, and the change is the reference's, but where it is
    /// wrong.
    #[test]
    fn an_updated_object_holds_the_value(old in object(), next in object()) {
        let mut ours = new(1);
        let mut theirs =
            automerge::AutoCommit::new().with_actor(automerge::ActorId::from(&[1_u8][..]));
        for json in [&old, &next] {
            let before = ours.heads();
            ours.update_object(&ROOT, &value(json)).unwrap();
            prop_assert_eq!(&show(&ours), json);
            let pending = ours.pending_ops();
            ours.update_object(&ROOT, &value(json)).unwrap();
            prop_assert_eq!(ours.pending_ops(), pending, "nothing is left to do");
            ours.commit();
            let is_first = before.is_empty();
            if is_first || no_array_shrinks(&old, &next) {
                theirs.update_object(&automerge::ROOT, &their_value(json)).unwrap();
                theirs.commit();
                let mut their_heads: Vec<[u8; 32]> =
                    theirs.get_heads().iter().map(|hash| hash.0).collect();
                their_heads.sort_unstable();
                let heads: Vec<[u8; 32]> = ours.heads().iter().map(|hash| hash.0).collect();
                prop_assert_eq!(heads, their_heads);
            }
        }
    }

    /// Nested values are inserted as the reference does.
    #[test]
    fn spliced_values_make_the_ops_that_the_reference_makes(
        first in prop::collection::vec(json(), 0..4),
        at in 0..5_usize,
        delete in -2..4_isize,
        second in prop::collection::vec(json(), 0..4),
    ) {
        let mut ours = new(1);
        let mut theirs =
            automerge::AutoCommit::new().with_actor(automerge::ActorId::from(&[1_u8][..]));
        let list = ours.put_object(&ROOT, "l", ObjType::List).unwrap();
        let their_list =
            theirs.put_object(automerge::ROOT, "l", automerge::ObjType::List).unwrap();
        for (at, delete, values) in [(0, 0, &first), (at, delete, &second)] {
            let new: Vec<Value> = values.iter().map(value).collect();
            let done = ours.splice_values(&list, at, delete, &new);
            let their_done = theirs.splice(&their_list, at, delete, values.iter().map(their_value));
            prop_assert_eq!(done.is_ok(), their_done.is_ok());
        }
        prop_assert_eq!(ours.commit().map(|hash| hash.0), theirs.commit().map(|hash| hash.0));
    }
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String, Vec<(u8, i64)>),
    Block(i64),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let marks = prop::collection::vec((0..2_u8, 0..2_i64), 0..2);
    prop::collection::vec(
        prop_oneof![
            3 => ("[ab😀é]{1,4}", marks).prop_map(|(text, marks)| Piece::Text(text, marks)),
            1 => (0..3_i64).prop_map(Piece::Block),
        ],
        0..6,
    )
}

fn spans(pieces: &[Piece]) -> Vec<NewSpan> {
    let span = |piece: &Piece| match piece {
        Piece::Text(text, marks) => {
            let marks: MarkSet = marks
                .iter()
                .map(|(name, value)| {
                    (Arc::from(["bold", "link"][usize::from(*name)]), Scalar::Int(*value))
                })
                .collect();
            NewSpan::Text { text: text.clone(), marks }
        }
        Piece::Block(n) => {
            NewSpan::Block(BTreeMap::from([("n".to_owned(), Value::Scalar(Scalar::Int(*n)))]))
        }
    };
    pieces.iter().map(span).collect()
}

/// The spans of a text as they could be given; equal marks that touch are one stretch.
fn read(doc: &impl ReadDoc, text: &ObjId) -> Vec<NewSpan> {
    let spans = doc.spans(text).unwrap().into_iter();
    spans
        .map(|span| match span {
            Span::Text { text, marks } => NewSpan::Text { text, marks: (*marks).clone() },
            Span::Block { id } => match doc.hydrate(&id).unwrap() {
                Value::Map(entries) => NewSpan::Block(entries),
                other => panic!("a block is a map: {other:?}"),
            },
        })
        .collect()
}

fn joined(spans: Vec<NewSpan>) -> Vec<NewSpan> {
    let mut joined: Vec<NewSpan> = Vec::new();
    for span in spans {
        match (joined.last_mut(), span) {
            (Some(NewSpan::Text { text, marks }), NewSpan::Text { text: more, marks: others })
                if *marks == others =>
            {
                text.push_str(&more)
            }
            (_, span) => joined.push(span),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// In every unit the text has the new spans then, and having them already is no edit.
    #[test]
    fn updated_spans_are_read_back(
        first in pieces(),
        second in pieces(),
        encoding in prop::sample::select(&[
            TextEncoding::UnicodeCodePoint,
            TextEncoding::Utf8CodeUnit,
            TextEncoding::Utf16CodeUnit,
            TextEncoding::GraphemeCluster,
        ][..]),
    ) {
        let mut doc = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let text = doc.put_object(&ROOT, "t", ObjType::Text).unwrap();
        let config =
            UpdateSpansConfig { default_expand: ExpandMark::None, ..UpdateSpansConfig::default() };
        for pieces in [&first, &second] {
            let new = spans(pieces);
            doc.update_spans(&text, &new, &config).unwrap();
            prop_assert_eq!(read(&doc, &text), joined(new.clone()));
            let pending = doc.pending_ops();
            doc.update_spans(&text, &new, &config).unwrap();
            prop_assert_eq!(doc.pending_ops(), pending, "nothing is left to do");
        }
    }
}

#[test]
fn updates_keep_what_others_edit() {
    let mut ours = new(1);
    ours.update_object(&ROOT, &value(&json!({"title": "abc", "todos": [{"done": false}, 7]})))
        .unwrap();
    let mut other = ours.fork(ActorId::new(&[2]));
    ours.update_object(&ROOT, &value(&json!({"title": "abcd", "todos": [{"done": true}]})))
        .unwrap();
    let (_, title) = other.get(&ROOT, "title").unwrap().unwrap();
    other.splice_text(&title, 0, 0, "x").unwrap();
    ours.merge(&mut other).unwrap();
    assert_eq!(show(&ours), json!({"title": "xabcd", "todos": [{"done": true}]}));

    let (_, todos) = ours.get(&ROOT, "todos").unwrap().unwrap();
    assert!(matches!(
        ours.update_object(&todos, &value(&json!({}))),
        Err(Error::WrongType { kind: ObjType::List, .. })
    ));
    let mut deep = json!(1);
    for _ in 0..600 {
        deep = json!([deep]);
    }
    assert!(matches!(
        ours.update_object(&ROOT, &value(&json!({"deep": deep}))),
        Err(Error::TooDeep { .. })
    ));
    ours.rollback();
    assert_eq!(show(&ours)["title"], "xabcd");
}

#[test]
fn the_way_to_an_object_is_told_also_where_it_was_deleted() {
    let mut doc = new(1);
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    let first = doc.insert_object(&list, 0, ObjType::Map).unwrap();
    let second = doc.insert_object(&list, 1, ObjType::Map).unwrap();
    let text = doc.put_object(&second, "k/k", ObjType::Text).unwrap();
    let heads = doc.heads();
    doc.delete(&list, 0_usize).unwrap();
    let replaced = doc.put_object(&list, 0, ObjType::List).unwrap();
    doc.commit();

    let parents = doc.parents(&text).unwrap();
    let steps: Vec<(String, bool)> =
        parents.iter().map(|parent| (format!("{:?}", parent.prop), parent.visible)).collect();
    let expected = [
        ("Key(\"k/k\")".to_owned(), true),
        ("Index(0)".to_owned(), false),
        ("Key(\"list\")".to_owned(), true),
    ];
    assert_eq!(steps, expected);
    assert_eq!((&parents[1].obj, parents[1].kind), (&list, ObjType::List));
    let first_parent = doc.parents(&first).unwrap().remove(0);
    assert_eq!((first_parent.prop, first_parent.visible), (PatchProp::Index(0), false));
    assert!(doc.parents(&replaced).unwrap()[0].visible);
    assert_eq!(doc.parents(&ROOT).unwrap(), []);
    let path = doc.at(&heads).path_of(&text).unwrap();
    assert_eq!(path[1], (list.clone(), PatchProp::Index(1)));
    assert!(doc.at(&heads).parents(&text).unwrap().iter().all(|parent| parent.visible));
    assert_eq!(doc.at(&[]).parents(&text), Err(Error::UnknownObject(text.clone())));

    // Only what an object has changed.
    let before = doc.heads();
    doc.splice_text(&text, 0, 0, "x").unwrap();
    doc.put(&ROOT, "n", 1_i64).unwrap();
    let after = doc.heads();
    let doc = doc.into_document();
    let patches = doc.diff_obj(&text, &before, &after, true).unwrap();
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].path.len(), 3);
    assert_eq!(doc.diff_obj(&ROOT, &before, &after, false).unwrap().len(), 1);
    assert_eq!(doc.diff_obj(&second, &before, &after, false).unwrap(), []);
    assert_eq!(doc.hash_for_op(&text), Some(heads[0]));
    assert_eq!(doc.hash_for_op(&ROOT), None);
}

#[test]
fn parts_of_maps_and_lists_are_read() {
    let mut doc = new(1);
    doc.update_object(&ROOT, &value(&json!({"a": 1, "b": 2, "c": 3, "l": [5, 6, 7, 8]}))).unwrap();
    let keys = |range: Vec<&str>| range.concat();
    assert_eq!(
        keys(doc.map_range(&ROOT, "b".."l").unwrap().map(|entry| entry.key).collect()),
        "bc"
    );
    assert_eq!(keys(doc.map_range(&ROOT, ..).unwrap().map(|entry| entry.key).collect()), "abcl");
    let (_, list) = doc.get(&ROOT, "l").unwrap().unwrap();
    let heads = doc.heads();
    doc.delete(&list, 0_usize).unwrap();
    let indexes: Vec<usize> = doc.list_range(&list, 1..).unwrap().map(|(at, _)| at).collect();
    assert_eq!(indexes, [1, 2]);
    let at = doc.at(&heads);
    let items: Vec<_> = at.list_range(&list, 1..=2).unwrap().collect();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].0, 1);
    assert_eq!(items[0].1.value, shoal_crdt::Value::Scalar(Scalar::Int(6).as_ref()));
}

#[test]
fn strings_of_old_documents_become_texts() {
    let mut doc = new(1);
    doc.put(&ROOT, "title", "old").unwrap();
    doc.put(&ROOT, "n", 1_i64).unwrap();
    let list = doc.put_object(&ROOT, "list", ObjType::List).unwrap();
    doc.insert(&list, 0, "a😀").unwrap();
    doc.insert(&list, 1, 5_i64).unwrap();
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, "stays").unwrap();
    let bytes = doc.save();
    let load = |strings| {
        let options = LoadOptions { strings, ..LoadOptions::default() };
        Document::load(&bytes, ActorId::new(&[2]), &options).unwrap()
    };
    let kept = load(StringMigration::Keep);
    assert_eq!(kept.heads(), doc.heads());
    let mut texts = load(StringMigration::ToText);
    assert_eq!(
        serde_json::to_value(texts.to_json()).unwrap(),
        serde_json::to_value(kept.to_json()).unwrap()
    );
    assert!(texts.get(&ROOT, "title").unwrap().unwrap().0.as_object() == Some(ObjType::Text));
    let theirs = automerge::Automerge::load_with_options(
        &bytes,
        automerge::LoadOptions::new().migrate_strings(automerge::StringMigration::ConvertToText),
    )
    .unwrap();
    assert_eq!(
        serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap(),
        serde_json::to_value(texts.to_json()).unwrap()
    );
    // The change is one more, and is saved as one.
    assert_eq!(texts.changes().len(), 2);
    let added = texts.save_incremental();
    let mut other = kept.fork(ActorId::new(&[3]));
    other.load_incremental(&added).unwrap();
    assert_eq!(other.heads(), texts.heads());
    let again = Document::load(
        &texts.save(),
        ActorId::new(&[2]),
        &LoadOptions { strings: StringMigration::ToText, ..LoadOptions::default() },
    );
    assert_eq!(again.unwrap().heads(), texts.heads(), "nothing is left to turn");
}

#[test]
fn objects_are_nested_no_deeper_than_allowed() {
    let nest = |doc: &mut Document, count: usize| -> Result<(), Error> {
        let mut tx = doc.transaction();
        let mut obj = ROOT;
        for _ in 0..count {
            obj = tx.put_object(&obj, "a", ObjType::Map)?;
        }
        tx.commit(CommitOptions::default());
        Ok(())
    };
    let mut doc = Document::new(ActorId::new(&[1]));
    doc.set_max_depth(5);
    assert_eq!(nest(&mut doc, 6), Err(Error::TooDeep { max: 5 }));
    nest(&mut doc, 5).unwrap();
    doc.set_max_depth(9);
    nest(&mut doc, 8).unwrap();
    let limits = shoal_crdt::Limits { max_depth: 7, ..shoal_crdt::Limits::default() };
    let options = LoadOptions { limits, ..LoadOptions::default() };
    let refused = Document::load(&doc.save(), ActorId::new(&[2]), &options).unwrap_err();
    assert!(refused.to_string().ends_with("object nested more deeply than allowed"), "{refused}");
    let changes = doc.save_after(&[]);
    assert!(Document::load(&changes, ActorId::new(&[2]), &options).is_err());
}

#[test]
fn the_first_change_of_an_actor_names_the_author() {
    let author =
        |doc: &mut Document, number: u8| doc.set_author(Some(b"ada"), ActorId::new(&[number]));
    let mut doc = Document::new(ActorId::new(&[1]));
    author(&mut doc, 2).unwrap();
    assert_eq!(doc.author(), Some(&b"ada"[..]));
    let mut theirs = automerge::AutoCommit::new();
    theirs.set_author(Some(automerge::Author::from(b"ada".to_vec())));
    let theirs = &mut theirs.with_actor(automerge::ActorId::from(&[2_u8][..]));
    for n in 0..2_i64 {
        let mut tx = doc.transaction();
        tx.put(&ROOT, "n", n).unwrap();
        let ours = tx.commit(CommitOptions::default()).unwrap();
        theirs.put(automerge::ROOT, "n", n).unwrap();
        assert_eq!(Some(ours.0), theirs.commit().map(|hash| hash.0));
    }
    assert_eq!(author(&mut doc, 2), Err(Error::AuthorSettled { actor: ActorId::new(&[2]) }));
    author(&mut doc, 3).unwrap();
    let mut tx = doc.transaction();
    tx.delete(&ROOT, "n").unwrap();
    tx.commit(CommitOptions::default());
    let loaded = Document::load(&doc.save(), ActorId::new(&[9]), &LoadOptions::default()).unwrap();
    assert_eq!(loaded.author(), None);
    let [first, second] = [ActorId::new(&[2]), ActorId::new(&[3])];
    assert_eq!(loaded.named_authors(), [(&b"ada"[..], vec![&first, &second])]);
}

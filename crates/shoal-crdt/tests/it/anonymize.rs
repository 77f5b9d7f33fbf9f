//! Anonymized documents have the shape of the original and nothing of its content.

use std::collections::BTreeMap;

use proptest::prelude::*;
use shoal_crdt::{
    ActorId, AutoCommit, Change, Document, ExpandMark, LoadOptions, ObjId, ObjType, ROOT, ReadDoc,
    Scalar, TextEncoding, Transactable, Value,
};

/// What stays: of each change its place in the graph, and of each op what kind it is.
fn shape(doc: &Document) -> Vec<String> {
    let places: BTreeMap<_, usize> =
        doc.changes().enumerate().map(|(at, change)| (change.hash(), at)).collect();
    let mut actors: Vec<&ActorId> = doc.authors().collect();
    actors.sort_unstable();
    let rank = |actor: &ActorId| actors.binary_search(&actor).ok();
    let mut shape = Vec::new();
    for change in doc.changes() {
        let mut deps: Vec<usize> = change.deps().iter().map(|dep| places[dep]).collect();
        deps.sort_unstable();
        shape.push(format!(
            "change {:?} {} {} {deps:?} {:?} {}",
            rank(change.actor()),
            change.seq(),
            change.start_op(),
            change.message().map(str::len),
            change.author().is_some(),
        ));
        let ids = change.actors();
        let mut ops = change.ops();
        while let Some(op) = ops.next_op() {
            let id = |id: shoal_history::OpId| (id.counter, rank(&ids[id.actor.as_usize()]));
            let obj = match op.obj {
                shoal_history::ObjId::Root => None,
                shoal_history::ObjId::Op(obj) => Some(id(obj)),
            };
            let key = match op.key {
                shoal_history::Key::Map(key) => format!("{}", key.len()),
                shoal_history::Key::Head => "head".to_owned(),
                shoal_history::Key::Elem(elem) => format!("{:?}", id(elem)),
            };
            let value = match op.value.to_scalar() {
                Scalar::Str(text) => text
                    .chars()
                    .map(|c| format!("{}{} ", c.len_utf8(), c.is_whitespace() && c.is_ascii()))
                    .collect(),
                Scalar::Bytes(bytes) => format!("bytes {}", bytes.len()),
                other => format!("{:?}", std::mem::discriminant(&other)),
            };
            let links: Vec<_> = op.links.iter().copied().map(id).collect();
            let mark = op.mark_name.map(str::len);
            shape.push(format!(
                "{:?} {obj:?} {key} {} {value} {} {mark:?} {links:?}",
                op.action, op.insert, op.expand
            ));
        }
    }
    shape
}

fn sample(encoding: TextEncoding) -> Document {
    let mut one = AutoCommit::with_encoding(ActorId::new(b"zoe's laptop"), encoding);
    one.document().set_author(Some(b"zoe"), ActorId::new(b"zoe's phone")).unwrap();
    let text = one.put_object(&ROOT, "secret diary", ObjType::Text).unwrap();
    one.splice_text(&text, 0, 0, "Dear diary,\n\ttoday 🦀 was ÄÖÜ 日本.").unwrap();
    one.mark(&text, 2, 6, "confidential", "very", ExpandMark::After).unwrap();
    one.split_block(&text, 4).unwrap();
    one.put(&ROOT, "balance", Scalar::Counter(1_000_000)).unwrap();
    one.commit();
    let mut two = one.fork(ActorId::new(b"a spy"));
    two.put(&ROOT, "balance", 3.25).unwrap();
    two.splice_text(&text, 3, 2, "xyz").unwrap();
    one.increment(&ROOT, "balance", -77).unwrap();
    let list = one.put_object(&ROOT, "numbers", ObjType::List).unwrap();
    one.splice(&list, 0, 0, [1_i64, 2, 3]).unwrap();
    one.insert(&list, 1, vec![1_u8, 2, 3]).unwrap();
    one.insert(&list, 0, Scalar::Timestamp(1_700_000_000_000)).unwrap();
    one.insert(&list, 0, u64::MAX).unwrap();
    one.delete(&list, 3).unwrap();
    one.merge(&mut two).unwrap();
    let options = shoal_crdt::CommitOptions::default().with_message("for zoe's eyes").with_time(17);
    one.put(&ROOT, "done", true).unwrap();
    one.commit_with(options);
    one.into_document()
}

#[test]
fn the_shape_stays_and_the_content_goes() {
    for encoding in [TextEncoding::UnicodeCodePoint, TextEncoding::Utf16CodeUnit] {
        let doc = sample(encoding);
        let mut copy = doc.anonymize(ActorId::new(&[1]), [9; 32]).unwrap();
        assert_eq!(shape(&copy), shape(&doc));
        assert_eq!(copy.text_encoding(), encoding);
        assert_eq!(copy.stats().num_ops, doc.stats().num_ops);
        let bytes = copy.to_bytes(shoal_crdt::SaveOptions { deflate: false, retain_orphans: true });
        for word in
            ["zoe", "spy", "diary", "confidential", "very", "balance", "eyes", "crab", "ÄÖÜ"]
        {
            assert!(!bytes.windows(word.len()).any(|window| window == word.as_bytes()), "{word}");
        }
        // The reference takes it, and shows the same.
        let theirs = automerge::Automerge::load(&copy.save()).unwrap();
        assert_eq!(
            serde_json::to_value(automerge::AutoSerde::from(&theirs)).unwrap(),
            serde_json::to_value(copy.to_json()).unwrap(),
        );
        // What wins stays what wins: the counter lost or won against the float.
        let kind = |doc: &Document, obj: &ObjId| {
            let mut kinds: Vec<String> = doc
                .values(obj)
                .unwrap()
                .map(|(value, _)| match value {
                    Value::Object(kind) => kind.name().to_owned(),
                    Value::Scalar(value) => {
                        format!("{:?}", std::mem::discriminant(&value.to_scalar()))
                    }
                })
                .collect();
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(kind(&copy, &ROOT), kind(&doc, &ROOT));
        // The same seed gives the same copy, another one another.
        let again = doc.anonymize(ActorId::new(&[1]), [9; 32]).unwrap();
        assert_eq!(again.heads(), copy.heads());
        let other = doc.anonymize(ActorId::new(&[1]), [8; 32]).unwrap();
        assert_ne!(other.heads(), copy.heads());
    }
}

#[test]
fn real_documents_are_anonymized() {
    for name in ["exemplar", "documents/monday-meeting-notes.automerge"] {
        let bytes = std::fs::read(shoal_testkit::testdata(&format!("automerge/{name}"))).unwrap();
        let doc = Document::load(&bytes, ActorId::new(&[1]), &LoadOptions::default()).unwrap();
        let copy = doc.anonymize(ActorId::new(&[2]), [3; 32]).unwrap();
        let (copied, original) = (shape(&copy), shape(&doc));
        assert_eq!(copied.len(), original.len(), "{name}");
        for (at, (copied, original)) in copied.iter().zip(&original).enumerate() {
            assert_eq!(copied, original, "{name}: {at}");
        }
        assert_eq!(copy.heads().len(), doc.heads().len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Texts are as long in every unit, and no character stays that was not white space.
    #[test]
    fn texts_stay_as_wide(text in "\\PC{0,30}", seed: [u8; 32]) {
        let mut doc = AutoCommit::new(ActorId::new(&[1]));
        doc.put(&ROOT, "t", text.as_str()).unwrap();
        let doc = doc.into_document();
        let copy = doc.anonymize(ActorId::new(&[2]), seed).unwrap();
        let (value, _) = copy.values(&ROOT).unwrap().next().unwrap();
        let replaced = value.as_str().unwrap();
        prop_assert_eq!(replaced.len(), text.len());
        prop_assert_eq!(replaced.encode_utf16().count(), text.encode_utf16().count());
        for (a, b) in text.chars().zip(replaced.chars()) {
            prop_assert!(a != b || a.is_whitespace());
        }
        let _: Vec<&Change> = copy.changes().collect();
    }
}

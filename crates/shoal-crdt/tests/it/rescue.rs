//! Damaged files: what is still in them, and what is told of the rest.

use proptest::prelude::*;
use shoal_crdt::{
    ActorId, CommitOptions, Document, ExpandMark, Limits, LoadOptions, Loss, ObjType, ROOT, Rescue,
    TextEncoding,
};

fn rescue(bytes: &[u8]) -> Rescue {
    let actor = ActorId::new(&[9]);
    Document::rescue(bytes, actor, TextEncoding::default(), &Limits::default())
}

fn load(bytes: &[u8]) -> Result<Document, shoal_crdt::Error> {
    Document::load(bytes, ActorId::new(&[8]), &LoadOptions::default())
}

/// A document with a text, and what was saved of it: all, then change after change.
fn sample() -> (Document, Vec<Vec<u8>>) {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, "The quick brown fox").unwrap();
    tx.mark(&text, 4, 9, "bold", true, ExpandMark::After).unwrap();
    tx.commit(CommitOptions::default());
    let mut parts = vec![doc.save()];
    for number in 0..5_i64 {
        let mut tx = doc.transaction();
        tx.put(&ROOT, "n", number).unwrap();
        tx.splice_text(&text, 0, 1, "t").unwrap();
        tx.commit(CommitOptions::default());
        parts.push(doc.save_incremental());
    }
    (doc, parts)
}

#[test]
fn a_sound_file_loses_nothing() {
    let (doc, parts) = sample();
    let rescued = rescue(&parts.concat());
    assert_eq!(rescued.document.heads(), doc.heads());
    assert_eq!(rescued.lost, []);
    let rescued = rescue(&[]);
    assert!(rescued.document.is_empty() && rescued.lost.is_empty());
}

#[test]
fn a_bad_change_costs_itself_and_what_builds_on_it() {
    let (doc, mut parts) = sample();
    let hashes: Vec<_> = doc.changes().map(|change| change.hash()).collect();
    let last = parts[3].len() - 1;
    parts[3][last] ^= 1;
    let bytes = parts.concat();
    assert!(load(&bytes).is_err());
    let rescued = rescue(&bytes);
    assert_eq!(rescued.document.heads(), [hashes[2]]);
    assert_eq!(rescued.document.stats().num_queued, 2);
    let start = parts[..3].concat().len();
    let end = start + parts[3].len();
    assert!(
        matches!(&rescued.lost[..], [
            Loss::Bytes { start: from, end: to, .. },
            Loss::Missing { hash },
        ] if *from == start && *to == end && *hash == hashes[3]),
        "{:?}",
        rescued.lost
    );
    // Once it is found again, all is there.
    let mut document = rescued.document;
    document.apply_changes([doc.change_by_hash(&hashes[3]).unwrap().clone()]).unwrap();
    assert_eq!(document.heads(), doc.heads());
}

#[test]
fn a_document_chunk_with_a_bad_checksum_is_judged_by_its_heads() {
    let (mut doc, _) = sample();
    let mut bytes = doc.save();
    bytes[5] ^= 0xff;
    assert!(load(&bytes).is_err());
    let rescued = rescue(&bytes);
    assert_eq!(rescued.document.heads(), doc.heads());
    assert_eq!(rescued.lost, []);
    // A letter of the text: it can be read, but it is not what the heads name.
    let plain = doc.to_bytes(shoal_crdt::SaveOptions { deflate: false, retain_orphans: true });
    let at = plain.windows(5).position(|window| window == b"quick").unwrap();
    let mut bytes = plain;
    bytes[at] = b'Q';
    let rescued = rescue(&bytes);
    assert!(matches!(&rescued.lost[..], [Loss::Hashes { .. }]), "{:?}", rescued.lost);
    let text = rescued.document.get(&ROOT, "text").unwrap().unwrap().1;
    assert!(rescued.document.text(&text).unwrap().contains("Quick"));
}

#[test]
fn the_fixture_whose_mark_ends_too_early_gives_its_values() {
    let path = shoal_testkit::testdata("automerge/fixtures/broken_zero_width_mark.automerge");
    let bytes = std::fs::read(path).unwrap();
    assert!(load(&bytes).is_err());
    let mut rescued = rescue(&bytes);
    assert!(matches!(&rescued.lost[..], [Loss::History { .. }]), "{:?}", rescued.lost);
    let theirs = automerge::Automerge::rescue(&bytes).unwrap();
    let ours = rescued.document.to_json();
    let automerge::hydrate::Value::Map(entries) = theirs else { panic!("a map") };
    let ours = serde_json::to_value(ours).unwrap();
    assert_eq!(ours.as_object().unwrap().len(), entries.iter().count());
    assert_eq!(load(&rescued.document.save()).unwrap().heads(), rescued.document.heads());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever happens to the bytes, what is left is a document that can be saved and loaded.
    #[test]
    fn any_damage_leaves_a_sound_document(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        insert in prop::collection::vec(any::<u8>(), 0..8),
        at in any::<prop::sample::Index>(),
    ) {
        let (doc, parts) = sample();
        let mut bytes = parts.concat();
        let is_whole = flips.is_empty();
        for (at, with) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        let at = at.index(bytes.len());
        bytes.splice(at..at, insert);
        bytes.truncate(cut.index(bytes.len()) + 1);
        let mut rescued = rescue(&bytes);
        let saved = rescued.document.save();
        let loaded = load(&saved).unwrap();
        prop_assert_eq!(loaded.heads(), rescued.document.heads());
        if is_whole {
            let known = |hash| doc.change_by_hash(&hash).is_some();
            prop_assert!(rescued.document.changes().all(|change| known(change.hash())));
        }
    }
}

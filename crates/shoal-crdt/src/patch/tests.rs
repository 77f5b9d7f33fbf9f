//! Looking only where ops are finds what looking everywhere finds.

use std::collections::VecDeque;

use shoal_history::{ActorId, ChangeHash};

use super::{Diff, Patch, Visit};
use crate::autocommit::AutoCommit;
use crate::document::Document;
use crate::id::ROOT;
use crate::random_edits::{KEYS, KINDS, Random, edit};
use crate::read_doc::ReadDoc;
use crate::touched::Touched;
use crate::transactable::Transactable;
use crate::value::ObjType;

/// What is found without knowing where to look.
fn everywhere(doc: &Document, before: &[ChangeHash], after: &[ChangeHash]) -> Vec<Patch> {
    Diff::new(&doc.graph.clock(before), doc.at(after).view()).run().unwrap()
}

/// Between two states of the past, whether it is known how they differ from the present or not.
fn check_past(doc: &Document, random: &mut Random, seed: u64) {
    let hashes: Vec<ChangeHash> = doc.changes().map(|change| change.hash()).collect();
    for _ in 0..3 {
        let mut heads = || {
            let count = random.place(3);
            (0..count).map(|_| hashes[random.place(hashes.len())]).collect::<Vec<_>>()
        };
        let (before, after) = (heads(), heads());
        let wanted = everywhere(doc, &before, &after);
        let clock = doc.graph.clock(&before);
        for at in [doc.at(&after), doc.at(&after).knowing_all(), doc.at(&after).knowing_nothing()] {
            let touched = Touched::between(doc, &before, &after, u64::MAX).unwrap();
            let mut diff = Diff::new(&clock, at.view());
            diff.touched = Some(touched);
            assert_eq!(diff.run().unwrap(), wanted, "seed {seed}: {before:?} to {after:?}");
        }
        assert_eq!(doc.diff(&before, &after).unwrap(), wanted, "seed {seed}");
    }
}

#[test]
fn patches_of_touched_places_are_all() {
    for seed in 1..120_u64 {
        let mut random = Random::seeded(seed);
        let marks = seed % 3 == 0;
        let mut ours = AutoCommit::new(ActorId::new(&[1]));
        let mut objects = vec![ROOT];
        for (key, kind) in KEYS.into_iter().zip(KINDS).take(3) {
            objects.push(ours.put_object(&ROOT, key, kind).unwrap());
        }
        let mut theirs = ours.fork(ActorId::new(&[2]));
        let mut their_objects = objects.clone();
        for _ in 0..12 {
            let before = ours.heads();
            for _ in 0..random.place(6) {
                edit(&mut ours, &mut objects, &mut random, marks);
            }
            // The edits that are not committed yet.
            let wanted = ours.edit(|tx| {
                let view = tx.view();
                Diff::new(&view.doc.graph.full_clock(), view).run().unwrap()
            });
            assert_eq!(ours.edit(|tx| tx.patches()).unwrap(), wanted, "seed {seed}");
            for _ in 0..random.place(6) {
                edit(&mut theirs, &mut their_objects, &mut random, marks);
            }
            if random.place(3) == 0 {
                ours.merge(&mut theirs).unwrap();
            } else if random.place(3) == 0 {
                theirs.merge(&mut ours).unwrap();
            }
            let doc = ours.document();
            let heads = doc.heads();
            let touched = Touched::between(doc, &before, &heads, u64::MAX).unwrap();
            let clock = doc.graph.clock(&before);
            let mut diff = Diff::new(&clock, doc.view());
            diff.touched = Some(touched);
            assert_eq!(diff.run().unwrap(), everywhere(doc, &before, &heads), "seed {seed}");
            check_past(doc, &mut random, seed);
            for obj in &objects {
                let Ok(path) = doc.path_of(obj) else { continue };
                let mut whole = Diff::new(&clock, doc.view());
                whole.queue = VecDeque::from([Visit { obj: obj.clone(), path, is_new: false }]);
                let found = doc.diff_obj(obj, &before, &doc.heads(), true).unwrap();
                assert_eq!(found, whole.run().unwrap(), "seed {seed}");
            }
        }
    }
}

#[test]
fn a_patch_of_one_key_does_not_look_at_the_others() {
    let mut doc = AutoCommit::new(ActorId::new(&[1]));
    let text = doc.put_object(&ROOT, "text", ObjType::Text).unwrap();
    doc.splice_text(&text, 0, 0, &"x".repeat(1000)).unwrap();
    let before = doc.heads();
    doc.splice_text(&text, 500, 1, "yz").unwrap();
    let doc = doc.document();
    let heads = doc.heads();
    let touched = Touched::between(doc, &before, &heads, doc.ops.op_count() / 8).unwrap();
    let places = touched.places(doc.resolve(&text).unwrap()).unwrap();
    assert_eq!(places.elems().count(), 3);
    assert_eq!(doc.diff(&before, &heads).unwrap(), everywhere(doc, &before, &heads));
    assert_eq!(doc.diff(&heads, &before).unwrap(), everywhere(doc, &heads, &before));
}

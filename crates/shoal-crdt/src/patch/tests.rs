//! Looking only where ops are finds what looking everywhere finds.

use std::collections::VecDeque;

use shoal_history::{ActorId, Scalar};

use super::touched::Touched;
use super::{Diff, Patch, Visit};
use crate::ExpandMark;
use crate::autocommit::AutoCommit;
use crate::document::Document;
use crate::id::{ObjId, ROOT};
use crate::read_doc::ReadDoc;
use crate::transactable::Transactable;
use crate::value::ObjType;

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}

const KEYS: [&str; 5] = ["a", "b", "c", "list", "text"];
const KINDS: [ObjType; 3] = [ObjType::Map, ObjType::List, ObjType::Text];

/// Does something to some object; edits that an object refuses are none.
fn edit(doc: &mut AutoCommit, objects: &mut Vec<ObjId>, random: &mut Random, marks: bool) {
    let obj = objects[random.below(objects.len())].clone();
    let number = i64::try_from(random.below(9)).unwrap();
    let key = KEYS[random.below(KEYS.len())];
    let Ok(length) = doc.length(&obj) else { return };
    let index = random.below(length + 1);
    let kind = KINDS[random.below(KINDS.len())];
    let made = match (doc.object_type(&obj), random.below(7)) {
        (Ok(ObjType::Map | ObjType::Table), 0) => doc.put_object(&obj, key, kind).ok(),
        (Ok(ObjType::Map | ObjType::Table), 1) => drop_ok(doc.delete(&obj, key)),
        (Ok(ObjType::Map | ObjType::Table), 2) => drop_ok(
            doc.increment(&obj, key, number)
                .or_else(|_| doc.put(&obj, key, Scalar::Counter(number))),
        ),
        (Ok(ObjType::Map | ObjType::Table), _) => drop_ok(doc.put(&obj, key, number)),
        (Ok(ObjType::List), 0) => doc.insert_object(&obj, index, kind).ok(),
        (Ok(ObjType::List), 1) => doc.put_object(&obj, index, kind).ok(),
        (Ok(ObjType::List), 2) => drop_ok(doc.delete(&obj, index)),
        (Ok(ObjType::List), 3) => drop_ok(doc.put(&obj, index, number)),
        (Ok(ObjType::List), _) => drop_ok(doc.insert(&obj, index, number)),
        (Ok(ObjType::Text), 0) if marks && length > 2 => {
            let (start, end) = (length / 3, length - 1);
            drop_ok(doc.mark(&obj, start, end, "bold", number, ExpandMark::After))
        }
        (Ok(ObjType::Text), 1 | 2) => {
            let count = random.below(length - index + 1).min(4);
            drop_ok(doc.splice_text(&obj, index, isize::try_from(count).unwrap(), ""))
        }
        (Ok(ObjType::Text), _) => drop_ok(doc.splice_text(&obj, index, 0, "héllo")),
        (Err(_), _) => None,
    };
    objects.extend(made);
}

fn drop_ok(_: Result<(), crate::error::Error>) -> Option<ObjId> {
    None
}

/// What is found without knowing where to look.
fn everywhere(doc: &Document, before: &[shoal_history::ChangeHash]) -> Vec<Patch> {
    Diff::new(&doc.graph.clock(before), doc.view()).run().unwrap()
}

#[test]
fn patches_of_touched_places_are_all() {
    for seed in 1..120_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
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
            for _ in 0..random.below(6) {
                edit(&mut ours, &mut objects, &mut random, marks);
            }
            // The edits that are not committed yet.
            let wanted = ours.edit(|tx| {
                let view = tx.view();
                Diff::new(&view.doc.graph.full_clock(), view).run().unwrap()
            });
            assert_eq!(ours.edit(|tx| tx.patches()).unwrap(), wanted, "seed {seed}");
            for _ in 0..random.below(6) {
                edit(&mut theirs, &mut their_objects, &mut random, marks);
            }
            if random.below(3) == 0 {
                ours.merge(&mut theirs).unwrap();
            } else if random.below(3) == 0 {
                theirs.merge(&mut ours).unwrap();
            }
            let doc = ours.document();
            let touched = Touched::since(doc, &before, u64::MAX).unwrap();
            let clock = doc.graph.clock(&before);
            let mut diff = Diff::new(&clock, doc.view());
            diff.touched = Some(touched);
            assert_eq!(diff.run().unwrap(), everywhere(doc, &before), "seed {seed}");
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
    let touched = Touched::since(doc, &before, doc.ops.op_count() / 8).unwrap();
    let places = touched.places(doc.resolve(&text).unwrap()).unwrap();
    assert_eq!(places.elems().count(), 3);
    assert_eq!(doc.diff(&before, &doc.heads()).unwrap(), everywhere(doc, &before));
}

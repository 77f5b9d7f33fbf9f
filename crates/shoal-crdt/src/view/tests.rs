//! All ways to read a past state agree.

use shoal_history::{ActorId, ChangeHash};

use super::recent::Recent;
use super::{DocumentAt, scoped};
use crate::autocommit::AutoCommit;
use crate::document::Document;
use crate::id::{ObjId, ROOT};
use crate::opset::Data;
use crate::random_edits::{KEYS, KINDS, Random, edit};
use crate::read::ListItem;
use crate::read_doc::ReadDoc;
use crate::touched::Touched;
use crate::transactable::Transactable;
use crate::value::TextEncoding;

impl DocumentAt<'_> {
    /// With the whole difference from the present known, however large.
    pub(crate) fn knowing_all(self) -> Self {
        if let Some(past) = &self.past {
            let heads = self.doc.heads();
            let touched = Touched::between(self.doc, &past.heads, &heads, u64::MAX).unwrap();
            past.recent.set(Some(Recent::since(self.doc, &past.clock, touched))).unwrap();
        }
        self
    }

    /// With nothing known, so objects are walked.
    pub(crate) fn knowing_nothing(self) -> Self {
        if let Some(past) = &self.past {
            past.recent.set(None).unwrap();
        }
        self
    }
}

/// An element, by a walk over all.
struct Found<'a> {
    item: ListItem<'a>,
    all: Vec<ObjId>,
    index: usize,
    width: usize,
    text: String,
}

fn walk<'a>(doc: &'a Document, at: &DocumentAt<'a>, obj: &ObjId) -> Option<Vec<Found<'a>>> {
    let object = doc.ops.object(doc.resolve(obj).ok()?);
    let Data::Sequence(sequence) = doc.ops.data_of(object) else { return None };
    let clock = at.past.as_ref().map(|past| &past.clock);
    let mut found = Vec::new();
    scoped::walk(sequence, clock, &doc.ops.actors, |elem| {
        let Some(winner) = elem.winner().filter(|_| elem.is_visible()) else { return };
        found.push(Found {
            item: ListItem {
                value: doc.value(winner),
                id: doc.export(winner.id),
                elem: doc.export(elem.id),
                conflict: elem.ops.len() > 1,
            },
            all: elem.ops.iter().map(|op| doc.export(op.id)).collect(),
            index: elem.index,
            width: elem.width,
            text: elem.text().to_owned(),
        });
    });
    Some(found)
}

fn check_sequence(at: &DocumentAt<'_>, obj: &ObjId, found: &[Found<'_>]) {
    let length: usize = found.iter().map(|elem| elem.width).sum();
    assert_eq!(at.length(obj).unwrap(), length);
    let text: String = found.iter().map(|elem| elem.text.as_str()).collect();
    assert_eq!(at.text(obj).unwrap(), text);
    for elem in found {
        assert_eq!(at.index_of(obj, &elem.item.elem).unwrap(), Some(elem.index));
        for index in elem.index..elem.index + elem.width {
            let all: Vec<ObjId> =
                at.get_all(obj, index).unwrap().into_iter().map(|(_, id)| id).collect();
            assert_eq!(all, elem.all);
            let got = at.get(obj, index).unwrap();
            assert_eq!(got, Some((elem.item.value, elem.item.id.clone())));
            let cursor = at.get_cursor(obj, index).unwrap();
            assert_eq!(at.get_cursor_position(obj, &cursor).unwrap(), elem.index);
        }
    }
    assert_eq!(at.get(obj, length).unwrap(), None);
    for start in [0, length / 2, length] {
        let wanted: Vec<(usize, &ListItem<'_>)> = found
            .iter()
            .filter(|elem| elem.width > 0 && elem.index >= start)
            .map(|elem| (elem.index, &elem.item))
            .collect();
        let ranged: Vec<_> = at.list_range(obj, start..).unwrap().collect();
        let ranged: Vec<_> = ranged.iter().map(|(index, item)| (*index, item)).collect();
        let ranged: Vec<_> =
            ranged.into_iter().filter(|(_, item)| item.value.as_str() != Some("")).collect();
        assert_eq!(ranged, wanted);
    }
}

fn check_map(at: &DocumentAt<'_>, plain: &DocumentAt<'_>, obj: &ObjId) {
    let entries: Vec<_> = at.entries(obj).unwrap().collect();
    assert_eq!(entries, plain.entries(obj).unwrap().collect::<Vec<_>>());
    assert_eq!(at.length(obj).unwrap(), entries.len());
    for entry in entries {
        let got = at.get(obj, entry.key).unwrap();
        assert_eq!(got, Some((entry.value, entry.id)));
    }
}

#[test]
fn past_states_read_the_same_however_they_are_read() {
    let encodings = [
        TextEncoding::UnicodeCodePoint,
        TextEncoding::Utf16CodeUnit,
        TextEncoding::Utf8CodeUnit,
        TextEncoding::GraphemeCluster,
    ];
    for seed in 1..60_u64 {
        let mut random = Random::seeded(seed);
        let encoding = encodings[random.place(4)];
        let mut ours = AutoCommit::with_encoding(ActorId::new(&[1]), encoding);
        let mut objects = vec![ROOT];
        for (key, kind) in KEYS.into_iter().zip(KINDS).take(3) {
            objects.push(ours.put_object(&ROOT, key, kind).unwrap());
        }
        let mut theirs = ours.fork(ActorId::new(&[2]));
        let mut their_objects = objects.clone();
        for _ in 0..12 {
            for _ in 0..random.place(5) {
                edit(&mut ours, &mut objects, &mut random, seed % 3 == 0);
            }
            for _ in 0..random.place(5) {
                edit(&mut theirs, &mut their_objects, &mut random, seed % 3 == 0);
            }
            match random.place(3) {
                0 => drop(ours.merge(&mut theirs).unwrap()),
                1 => drop(theirs.merge(&mut ours).unwrap()),
                _ => drop((ours.commit(), theirs.commit())),
            }
        }
        ours.merge(&mut theirs).unwrap();
        let doc = ours.document();
        let hashes: Vec<ChangeHash> = doc.changes().map(|change| change.hash()).collect();
        objects.extend(their_objects);
        for hash in hashes.iter().step_by(2) {
            let heads = [*hash];
            let plain = doc.at(&heads).knowing_nothing();
            for at in [doc.at(&heads), doc.at(&heads).knowing_all(), plain.clone()] {
                for obj in &objects {
                    if at.object_type(obj).is_err() {
                        assert!(at.length(obj).is_err());
                        continue;
                    }
                    match walk(doc, &at, obj) {
                        Some(found) => check_sequence(&at, obj, &found),
                        None => check_map(&at, &plain, obj),
                    }
                }
            }
        }
    }
}

//! Every read at every heads, beside the reference's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use automerge::ReadDoc as _;
use shoal_crdt::{Change, ChangeHash, Cursor, MoveCursor, ObjId, ObjType, ROOT, ReadDoc, Span};

use super::session::{Pair, compare_all, is_counter, objects, their_id, their_scalar};
use crate::mirror::Mirror;

/// Some of the heads that the document had: those of changes alone, and the present ones.
fn all_heads(pair: &Pair) -> Vec<Vec<ChangeHash>> {
    let mut all: Vec<Vec<ChangeHash>> =
        pair.ours.changes().map(|change| vec![change.hash()]).collect();
    all.extend(pair.ours.changes().map(|change: &Change| change.deps().to_vec()));
    let step = all.len() / 4 + 1;
    let mut some: Vec<_> = all.into_iter().step_by(step).collect();
    some.push(pair.ours.heads());
    some
}

fn theirs(heads: &[ChangeHash]) -> Vec<automerge::ChangeHash> {
    heads.iter().map(|hash| automerge::ChangeHash(hash.0)).collect()
}

/// The two engines show the same at all heads.
pub(crate) fn check(pair: &Pair) {
    for heads in all_heads(pair) {
        let at = pair.ours.at(&heads);
        for obj in objects(&at) {
            check_object(pair, &obj, &heads);
        }
    }
}

fn check_object(pair: &Pair, obj: &ObjId, heads: &[ChangeHash]) {
    let at = pair.ours.at(heads);
    let (their_obj, their_heads) = (their_id(&pair.theirs, obj), theirs(heads));
    let kind = at.object_type(obj).unwrap();
    let length = at.length(obj).unwrap();
    if !kind.is_sequence() {
        let keys: Vec<&str> = at.keys(obj).unwrap().collect();
        let their_keys: Vec<String> =
            pair.theirs.keys_at(&their_obj, &their_heads).map(|key| key.to_string()).collect();
        assert_eq!(keys, their_keys);
        assert_eq!(keys.len(), length);
        for key in keys {
            let ours = at.get_all(obj, key).unwrap();
            let found = at.get(obj, key).unwrap();
            assert_eq!(found.as_ref(), ours.last());
            // Counters in conflicts: see `has_mixed_counters`.
            if ours.len() == 1 || !ours.iter().any(is_counter) {
                let theirs = pair.theirs.get_all_at(&their_obj, key, &their_heads).unwrap();
                compare_all(&ours, &theirs);
            }
        }
        return;
    }
    // The reference loses counters in texts once they are incremented: not compared.
    let items: Vec<_> = at.items(obj, 0).unwrap().collect();
    if kind == ObjType::Text && items.iter().any(|item| is_counter(&(item.value, item.id.clone())))
    {
        return;
    }
    let their_length = pair.theirs.length_at(&their_obj, &their_heads);
    if kind == ObjType::Text {
        let text = at.text(obj).unwrap();
        assert_eq!(text, pair.theirs.text_at(&their_obj, &their_heads).unwrap());
        if length != their_length {
            // The reference can say at old heads that a text is longer than the text that it
            // gives; its indexes are off then, too.
            assert_eq!(length, pair.ours.text_encoding().width(&text));
            return;
        }
    }
    assert_eq!(length, their_length);
    if kind == ObjType::Text {
        check_marks(pair, obj, heads);
    }
    for index in 0..length {
        let ours = at.get_all(obj, index).unwrap();
        assert_eq!(at.get(obj, index).unwrap().as_ref(), ours.last());
        if ours.len() == 1 || !ours.iter().any(is_counter) {
            let theirs = pair.theirs.get_all_at(&their_obj, index, &their_heads).unwrap();
            compare_all(&ours, &theirs);
        }
    }
    for item in &items {
        let index = at.index_of(obj, &item.elem).unwrap().unwrap();
        if kind == ObjType::List {
            assert_eq!(at.get(obj, index).unwrap(), Some((item.value, item.id.clone())));
        }
    }
    check_cursors(pair, obj, heads);
}

fn check_marks(pair: &Pair, obj: &ObjId, heads: &[ChangeHash]) {
    let at = pair.ours.at(heads);
    let (their_obj, their_heads) = (their_id(&pair.theirs, obj), theirs(heads));
    let marks: Vec<automerge::marks::Mark> = at
        .marks(obj)
        .unwrap()
        .into_iter()
        .map(|mark| {
            let name = mark.name.to_string();
            automerge::marks::Mark::new(name, their_scalar(&mark.value), mark.start, mark.end)
        })
        .collect();
    assert_eq!(marks, pair.theirs.marks_at(&their_obj, &their_heads).unwrap());
    let spans: Vec<automerge::iter::Span> = at
        .spans(obj)
        .unwrap()
        .into_iter()
        .map(|span| match span {
            Span::Block { id } => {
                let map = match automerge::ReadDoc::hydrate(
                    &pair.theirs,
                    their_id(&pair.theirs, &id),
                    Some(&their_heads),
                ) {
                    Ok(automerge::hydrate::Value::Map(map)) => map,
                    _ => automerge::hydrate::Map::default(),
                };
                automerge::iter::Span::Block(map)
            }
            Span::Text { text, marks } => {
                let marks = marks
                    .iter()
                    .map(|(name, value)| (name.to_string(), their_scalar(value)))
                    .collect::<automerge::marks::MarkSet>();
                let marks = (!marks.is_empty()).then(|| std::sync::Arc::new(marks));
                automerge::iter::Span::Text { text, marks }
            }
        })
        .collect();
    // The reference also divides a text where only marks that remove others begin or end.
    let mut joined: Vec<automerge::iter::Span> = Vec::new();
    for span in pair.theirs.spans_at(&their_obj, &their_heads).unwrap() {
        match (joined.last_mut(), span) {
            (
                Some(automerge::iter::Span::Text { text, marks: last }),
                automerge::iter::Span::Text { text: more, marks },
            ) if *last == marks => text.push_str(&more),
            (_, span) => joined.push(span),
        }
    }
    assert_eq!(spans, joined);
    let mut index = 0;
    for item in at.items(obj, 0).unwrap() {
        if index < at.length(obj).unwrap()
            && item.value.as_str().is_none_or(|text| !text.is_empty())
        {
            let marks = at.get_marks(obj, index).unwrap();
            let covering = at.marks(obj).unwrap();
            let covering = covering.iter().filter(|mark| mark.start <= index && index < mark.end);
            assert_eq!(marks.len(), covering.count());
        }
        index += pair.ours.text_encoding().width(item.value.as_str().unwrap_or("\u{fffc}"));
    }
}

/// Cursors made at `heads` are the reference's, in both forms, and are where the reference says
/// they are now.
fn check_cursors(pair: &Pair, obj: &ObjId, heads: &[ChangeHash]) {
    let at = pair.ours.at(heads);
    let (their_obj, their_heads) = (their_id(&pair.theirs, obj), theirs(heads));
    // An overwritten element is a deleted one to the reference's cursors: they leave it.
    let overwritten = pair.ours.items(obj, 0).unwrap().chain(at.items(obj, 0).unwrap());
    let overwritten = overwritten.into_iter().any(|item| item.id != item.elem);
    for index in 0..at.length(obj).unwrap() {
        for (moves, their_moves) in [
            (MoveCursor::Before, automerge::MoveCursor::Before),
            (MoveCursor::After, automerge::MoveCursor::After),
        ] {
            let ours = at.get_cursor_moving(obj, index, moves).unwrap();
            let theirs = pair
                .theirs
                .get_cursor_moving(&their_obj, index, Some(&their_heads), their_moves)
                .unwrap();
            assert_eq!(ours.to_string(), theirs.to_string());
            assert_eq!(ours.to_bytes(), theirs.to_bytes());
            assert_eq!(Cursor::from_bytes(&theirs.to_bytes()).unwrap(), ours);
            if overwritten {
                continue;
            }
            let position = pair.ours.get_cursor_position(obj, &ours).unwrap();
            // Its two ways to look a deleted element up disagree at the end of a sequence, which
            // a debug assertion of its own finds.
            let their_position = catch_unwind(AssertUnwindSafe(|| {
                pair.theirs.get_cursor_position(&their_obj, &theirs, None).unwrap()
            }));
            if let Ok(their_position) = their_position {
                assert_eq!(position, their_position, "{ours} {moves:?}");
            }
            let then = at.get_cursor_position(obj, &ours).unwrap();
            assert!(then <= index, "{then} {index}");
        }
    }
}

/// Both forms of the ids of objects go from each engine to the other.
pub(crate) fn check_ids(pair: &Pair) {
    for obj in objects(&pair.ours) {
        let theirs = their_id(&pair.theirs, &obj);
        assert_eq!(obj.to_string(), theirs.to_string());
        let decoded = automerge::ObjId::try_from(obj.to_bytes().as_slice()).unwrap();
        assert_eq!(decoded, theirs);
        assert!(pair.theirs.object_type(&decoded).is_ok());
        let (imported, _) = pair.theirs.import(&obj.to_string()).unwrap();
        assert_eq!(ObjId::from_bytes(&imported.to_bytes()).unwrap(), obj);
    }
}

/// The patches between any two of the heads make the one state out of the other.
pub(crate) fn check_patches(pair: &Pair) {
    let all = all_heads(pair);
    for before in &all {
        for after in &all {
            let (old, new) = (pair.ours.at(before), pair.ours.at(after));
            let encoding = pair.ours.text_encoding();
            let mut mirror = Mirror::of(&old, encoding);
            let patches = pair.ours.diff(before, after).unwrap();
            let mut value = old.hydrate(&ROOT).unwrap();
            for patch in &patches {
                mirror.apply(patch);
                value.apply_patch(patch, encoding).unwrap();
            }
            assert_eq!(value, new.hydrate(&ROOT).unwrap(), "{patches:#?}");
            let shown = Mirror::of(&new, encoding).shown();
            assert_eq!(mirror.shown(), shown, "{patches:#?}");
        }
    }
}

//! The tree against a vector that does the same the slow way.

use proptest::prelude::*;
use shoal_history::{Action, ActorId, ActorIdx, Scalar};

use super::super::Sequence;
use super::*;
use crate::register::{ObjIdx, RegOp, Succ};
use crate::value::TextEncoding;

#[derive(Clone, Debug)]
enum Step {
    /// Inserts characters after the element at `at`, continuing its actor's ids when `typed`.
    Type {
        at: usize,
        actor: u32,
        text: String,
        typed: bool,
    },
    /// Inserts one element with any text.
    Insert {
        at: usize,
        actor: u32,
        text: String,
    },
    Delete {
        at: usize,
        count: u32,
        backwards: bool,
    },
    Undelete {
        at: usize,
    },
    Overwrite {
        at: usize,
        text: String,
    },
    Remove {
        at: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        6 => (at.clone(), 0..3_u32, "[abé😀]{1,40}", any::<bool>())
            .prop_map(|(at, actor, text, typed)| Step::Type { at, actor, text, typed }),
        2 => (at.clone(), 0..3_u32, "[ab]{0,3}")
            .prop_map(|(at, actor, text)| Step::Insert { at, actor, text }),
        4 => (at.clone(), 1..9_u32, any::<bool>())
            .prop_map(|(at, count, backwards)| Step::Delete { at, count, backwards }),
        2 => at.clone().prop_map(|at| Step::Undelete { at }),
        1 => (at.clone(), "[ab]{0,3}").prop_map(|(at, text)| Step::Overwrite { at, text }),
        1 => at.prop_map(|at| Step::Remove { at }),
    ]
}

#[derive(Clone, Debug)]
struct Entry {
    id: OpId,
    /// The op that deletes it, if one does.
    succ: OpId,
    text: String,
    overwritten: bool,
}

fn reg_op(id: OpId, text: &str) -> RegOp {
    RegOp {
        id,
        action: Action::Set,
        expand: false,
        object: ObjIdx::NONE,
        value: Scalar::Str(text.into()),
        mark_name: None,
        succ: Succ::None,
    }
}

fn width(entry: &Entry) -> u64 {
    if entry.succ == NO_OP { entry.text.chars().count() as u64 } else { 0 }
}

fn check(tree: &Tree, model: &[Entry], actors: &Actors) {
    let ids: Vec<OpId> = tree.elements(tree.start()).map(|elem| elem.id()).collect();
    let expected: Vec<OpId> = model.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, expected);
    assert_eq!(tree.total.width, model.iter().map(width).sum::<u64>());
    assert_eq!(
        tree.total.visible as usize,
        model.iter().filter(|entry| entry.succ == NO_OP).count()
    );

    let mut start = 0;
    let mut finder = tree.clone();
    for (rank, entry) in model.iter().enumerate() {
        let place = tree.locate(entry.id).unwrap();
        let elem = tree.elem(place).unwrap();
        assert_eq!(elem.id(), entry.id);
        assert_eq!(elem.run.succ_at(elem.at), entry.succ);
        assert_eq!(tree.rank_of(place), rank as u64);
        assert_eq!(tree.index_of(place), start);
        for index in start..start + width(entry) {
            assert_eq!(tree.find(index), Some((place, start)));
            assert_eq!(finder.find_to_edit(index), Some((place, start)));
        }
        start += width(entry);
    }
    assert_eq!(tree.find(start), None);
    let step = model.len() / 7 + 1;
    for (rank, entry) in model.iter().enumerate().step_by(step) {
        let place = tree.locate(entry.id).unwrap();
        for other in model.iter().step_by(step) {
            let less = model[rank..]
                .iter()
                .find(|next| actors.compare(next.id, other.id) == Ordering::Less)
                .map(|next| next.id);
            let found = tree.next_less(place, other.id, actors);
            assert_eq!(found.map(|place| tree.elem(place).unwrap().id()), less);
        }
        let counted = model[rank..].iter().find(|other| other.succ == NO_OP).map(|other| other.id);
        let found = tree.next_counted(place);
        assert_eq!(found.map(|place| tree.elem(place).unwrap().id()), counted);
    }
    let mut text = String::new();
    for run in tree.runs() {
        run.push_text(&tree.sides, &mut text);
    }
    let visible = model.iter().filter(|entry| entry.succ == NO_OP);
    assert_eq!(text, visible.map(|entry| entry.text.as_str()).collect::<String>());
}

/// The place behind the first `at` elements of the model.
fn place_of(tree: &Tree, model: &[Entry], at: usize) -> (Place, OpId) {
    match at.checked_sub(1) {
        None => (tree.start(), NO_OP),
        Some(before) => {
            let id = model[before].id;
            (tree.locate(id).unwrap().after(), id)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_a_vector_with_sums(steps in prop::collection::vec(step(), 1..60)) {
        let mut actors = Actors::default();
        for actor in [5_u8, 1, 3] {
            actors.intern(&ActorId::new(&[actor]));
        }
        let unit = Unit::Text(TextEncoding::UnicodeCodePoint);
        let mut sequence = Sequence::new(unit);
        let mut model: Vec<Entry> = Vec::new();
        let mut next = 1;
        let entry = |id, text: &str| Entry { id, succ: NO_OP, text: text.into(), overwritten: false };
        for step in steps {
            match step {
                Step::Type { at, actor, text, typed } => {
                    let last = model.iter().position(|entry| entry.id.counter + 1 == next);
                    let at = match last {
                        Some(last) if typed => last + 1,
                        _ => at % (model.len() + 1),
                    };
                    let (place, reference) = place_of(&sequence.tree, &model, at);
                    let follows = typed && reference.counter + 1 == next;
                    let actor = if follows { reference.actor } else { ActorIdx(actor) };
                    let id = OpId { counter: next, actor };
                    let count = text.chars().count() as u32;
                    let visible = model[..at].iter().filter(|entry| entry.succ == NO_OP);
                    let index: usize = visible.map(|entry| entry.text.chars().count()).sum();
                    let index = Some(index as u64);
                    // By index, or as someone else's.
                    let known = index.filter(|_| text.len() % 2 == 0);
                    let mut type_on = || sequence.type_on(known, id, &text, count, &actors);
                    match follows.then(&mut type_on).flatten() {
                        Some(followed) => prop_assert_eq!(followed, reference),
                        None => {
                            let end = index.map(|index| index + u64::from(count));
                            sequence.insert_text_at(place, reference, id, &text, end, &actors);
                        }
                    }
                    let typed = (next..).zip(text.chars()).map(|(counter, character)| {
                        entry(OpId { counter, actor }, character.encode_utf8(&mut [0; 4]))
                    });
                    model.splice(at..at, typed);
                    next += count;
                }
                Step::Insert { at, actor, text } => {
                    let at = at % (model.len() + 1);
                    let (place, reference) = place_of(&sequence.tree, &model, at);
                    let id = OpId { counter: next, actor: ActorIdx(actor) };
                    let place = sequence.insert_at(place, reference, reg_op(id, &text), &actors);
                    prop_assert_eq!(sequence.elem_id(place), id);
                    model.insert(at, entry(id, &text));
                    next += 1;
                }
                _ if model.is_empty() => {}
                Step::Delete { at, count, backwards } => {
                    let at = at % model.len();
                    for step in 0..count {
                        let at = if backwards {
                            at.checked_sub(step as usize)
                        } else {
                            Some(at + step as usize)
                        };
                        let Some(entry) = at.and_then(|at| model.get_mut(at)) else { break };
                        if entry.succ != NO_OP || entry.overwritten {
                            break;
                        }
                        let id = OpId { counter: next, actor: ActorIdx(2) };
                        let place = sequence.locate(entry.id).unwrap();
                        sequence.delete(place, id, &[entry.id], &actors);
                        entry.succ = id;
                        next += 1;
                    }
                    if let Some(entry) = model.get(at).filter(|entry| entry.succ == NO_OP) {
                        // As many as stand together, at once.
                        let id = OpId { counter: next, actor: ActorIdx(1) };
                        let place = sequence.locate(entry.id).unwrap();
                        if let Some(deleted) = sequence.delete_simple(place, count, id, &actors) {
                            prop_assert_eq!(deleted.first, entry.id);
                            for (counter, entry) in
                                (next..).zip(&mut model[at..at + deleted.count as usize])
                            {
                                prop_assert!(entry.succ == NO_OP && !entry.overwritten);
                                entry.succ = OpId { counter, actor: ActorIdx(1) };
                            }
                            next += deleted.count;
                        }
                    }
                }
                Step::Undelete { at } => {
                    let at = at % model.len();
                    let entry = &mut model[at];
                    if entry.succ != NO_OP {
                        let place = sequence.locate(entry.id).unwrap();
                        sequence.undo(place, entry.succ, &[entry.id], &actors);
                        entry.succ = NO_OP;
                    }
                }
                Step::Overwrite { at, text } => {
                    let at = at % model.len();
                    if model[at].succ != NO_OP {
                        continue;
                    }
                    let place = sequence.locate(model[at].id).unwrap();
                    let preds: Vec<OpId> = sequence.visible_at(place).map(|op| op.id).collect();
                    let id = OpId { counter: next, actor: ActorIdx(1) };
                    sequence.update(place, reg_op(id, &text), &preds, &actors);
                    model[at].text = text;
                    model[at].overwritten = true;
                    next += 1;
                }
                Step::Remove { at } => {
                    let at = at % model.len();
                    let place = sequence.locate(model[at].id).unwrap();
                    sequence.undo_insert(place, &actors);
                    model.remove(at);
                }
            }
            check(&sequence.tree, &model, &actors);
        }
        let mut builder = Builder::new(unit);
        let mut copy = Vec::new();
        let mut reference = NO_OP;
        for entry in model.iter().filter(|entry| entry.text.chars().count() == 1) {
            if entry.overwritten {
                continue;
            }
            let succ = (entry.succ != NO_OP).then_some((entry.succ, false));
            builder.push_text(entry.id, reference, &entry.text, succ);
            reference = entry.id;
            copy.push(entry.clone());
        }
        check(&builder.finish(&actors), &copy, &actors);
    }
}

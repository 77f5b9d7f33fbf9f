//! The tree against a vector that does the same the slow way.

use proptest::prelude::*;
use shoal_history::{Action, ActorId, ActorIdx, Scalar};

use super::super::elem::Unit;
use super::*;
use crate::register::{ObjIdx, RegOp, Succ};
use crate::value::TextEncoding;

#[derive(Clone, Debug)]
enum Step {
    Insert { at: usize, actor: u32, text: String },
    Delete { at: usize },
    Undelete { at: usize },
    Overwrite { at: usize, text: String },
    Remove { at: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>().prop_map(|index| index.index(1 << 20));
    prop_oneof![
        6 => (at.clone(), 0..3_u32, "[ab]{0,3}")
            .prop_map(|(at, actor, text)| Step::Insert { at, actor, text }),
        2 => at.clone().prop_map(|at| Step::Delete { at }),
        1 => at.clone().prop_map(|at| Step::Undelete { at }),
        1 => (at.clone(), "[ab]{0,3}").prop_map(|(at, text)| Step::Overwrite { at, text }),
        2 => at.prop_map(|at| Step::Remove { at }),
    ]
}

/// What the tree should hold: id, whether deleted, text.
type Model = Vec<(OpId, bool, String)>;

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

const DELETE: OpId = OpId { counter: 1_000_000, actor: ActorIdx(0) };

fn width(entry: &(OpId, bool, String)) -> u64 {
    if entry.1 { 0 } else { entry.2.len() as u64 }
}

fn check(tree: &Tree, model: &Model, actors: &Actors) {
    let ids: Vec<OpId> = tree.elems().map(|elem| elem.id).collect();
    let expected: Vec<OpId> = model.iter().map(|entry| entry.0).collect();
    assert_eq!(ids, expected);
    assert_eq!(tree.total.width, model.iter().map(width).sum::<u64>());
    let total = tree.total;
    assert_eq!(total.visible as usize, model.iter().filter(|entry| !entry.1).count());

    let mut start = 0;
    for (rank, entry) in model.iter().enumerate() {
        let place = tree.locate(entry.0).unwrap();
        assert_eq!(tree.get(place).unwrap().id, entry.0);
        assert_eq!(tree.rank_of(place), rank as u64);
        assert_eq!(tree.index_of(place), start);
        for index in start..start + width(entry) {
            assert_eq!(tree.find(index), Some((place, start)));
        }
        start += width(entry);
        let less = model[rank..]
            .iter()
            .find(|other| actors.compare(other.0, entry.0) == Ordering::Less)
            .map(|other| other.0);
        let found = tree.next_less(place, entry.0, actors);
        assert_eq!(found.map(|place| tree.get(place).unwrap().id), less);
        let counted = model[rank..].iter().find(|other| !other.1).map(|other| other.0);
        let found = tree.next_counted(place);
        assert_eq!(found.map(|place| tree.get(place).unwrap().id), counted);
    }
    assert_eq!(tree.find(start), None);
    let mut text = String::new();
    for elem in tree.elems_from(tree.start()) {
        elem.push_text(&tree.sides, &mut text);
    }
    let visible = model.iter().filter(|entry| !entry.1);
    assert_eq!(text, visible.map(|entry| entry.2.as_str()).collect::<String>());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_is_a_vector_with_sums(steps in prop::collection::vec(step(), 1..120)) {
        let mut actors = Actors::default();
        for actor in [5_u8, 1, 3] {
            actors.intern(&ActorId::new(&[actor]));
        }
        let mut tree = Tree::new(Sides::new(Unit::Text(TextEncoding::UnicodeCodePoint)));
        let mut model = Model::new();
        let mut counter = 0;
        for step in steps {
            counter += 1;
            match step {
                Step::Insert { at, actor, text } => {
                    // Ids repeat counters, but not with the same actor.
                    let id = OpId { counter: 1 + counter / 2 * 2 % 50 + counter / 50 * 50, actor: ActorIdx(actor) };
                    if model.iter().any(|entry| entry.0 == id) {
                        continue;
                    }
                    let at = at % (model.len() + 1);
                    let place = match model.get(at) {
                        Some(entry) => tree.locate(entry.0).unwrap(),
                        None => tree.end(),
                    };
                    let elem = Elem::new(NO_OP, reg_op(id, &text), &mut tree.sides);
                    let place = tree.insert(place, elem, &actors);
                    prop_assert_eq!(tree.get(place).unwrap().id, id);
                    model.insert(at, (id, false, text));
                }
                _ if model.is_empty() => {}
                Step::Delete { at } => {
                    let at = at % model.len();
                    let id = model[at].0;
                    let place = tree.locate(id).unwrap();
                    let done = tree.update(place, |elem, _| elem.delete_simply(DELETE, &[id]));
                    model[at].1 |= done;
                }
                Step::Undelete { at } => {
                    let at = at % model.len();
                    let place = tree.locate(model[at].0).unwrap();
                    if tree.update(place, |elem, _| elem.undelete_simply(DELETE)) {
                        model[at].1 = false;
                    }
                }
                Step::Overwrite { at, text } => {
                    let at = at % model.len();
                    if model[at].1 {
                        continue;
                    }
                    let place = tree.locate(model[at].0).unwrap();
                    let preds: Vec<OpId> =
                        tree.get(place).unwrap().visible(&tree.sides).map(|op| op.id).collect();
                    let id = OpId { counter: 10_000 + counter, actor: ActorIdx(1) };
                    tree.update(place, |elem, sides| {
                        elem.with_register_mut(sides, |register| {
                            register.push(reg_op(id, &text), &preds, &actors);
                        });
                    });
                    model[at].2 = text;
                }
                Step::Remove { at } => {
                    let at = at % model.len();
                    let place = tree.locate(model[at].0).unwrap();
                    tree.remove(place, &actors);
                    model.remove(at);
                }
            }
            check(&tree, &model, &actors);
        }
        let elems: Vec<Elem> = tree.elems().copied().collect();
        let built = Tree::build(tree.sides.clone(), elems, &actors);
        check(&built, &model, &actors);
    }
}

//! Building a tree from elements in document order.

use shoal_history::{OpId, Scalar};

use super::super::index::{IdIndex, NONE};
use super::super::leaf::{Leaf, NewRun, PIECE};
use super::super::run::{Run, Sides, Unit};
use super::{Tree, floor_char_boundary};
use crate::actors::Actors;
use crate::register::RegOp;

/// A tree in the making. Leaves are filled one after the other; nothing is looked up.
#[derive(Debug)]
pub(crate) struct Builder {
    pub(in super::super) unit: Unit,
    pub(in super::super) sides: Sides,
    leaves: Vec<Leaf>,
    leaf: Leaf,
}

impl Builder {
    pub(crate) fn new(unit: Unit) -> Self {
        let leaf = Leaf::new(NONE, NONE);
        Self { unit, sides: Sides::default(), leaves: Vec::new(), leaf }
    }

    /// Appends a run.
    pub(in super::super) fn push(&mut self, new: NewRun<'_>) {
        if !self.leaf.has_room_for(&new) {
            self.end_leaf();
        }
        self.leaf.push(new);
    }

    fn end_leaf(&mut self) {
        let at = u32::try_from(self.leaves.len()).expect("elements are limited to 32 bits");
        let mut full = std::mem::replace(&mut self.leaf, Leaf::new(at, NONE));
        full.next = at + 1;
        full.shrink();
        self.leaves.push(full);
    }

    /// Appends a run of scalars of any length, none a string or a counter; `succ` as in
    /// [`push_text`](Self::push_text).
    pub(crate) fn push_scalars(
        &mut self,
        id: OpId,
        reference: OpId,
        values: impl ExactSizeIterator<Item = Scalar>,
        succ: Option<(OpId, bool)>,
    ) {
        let (mut id, mut reference, mut values, mut succ) = (id, reference, values, succ);
        while values.len() > 0 {
            let room = match self.unit {
                Unit::Element => self.leaf.scalar_room(),
                // In a text each may have a width of its own.
                Unit::Text(_) => self.leaf.scalar_room().min(1),
            };
            if room == 0 {
                self.end_leaf();
                continue;
            }
            let len = values.len().min(room) as u32;
            let mut run = Run::scalars(id, reference, len, self.unit);
            if let Some((first, descends)) = &mut succ {
                run.delete(*first, *descends);
                *first = following(*first, *descends, len);
            }
            reference = run.id_at(len - 1);
            id.counter += len;
            self.leaf.push_scalars(run, values.by_ref().take(len as usize));
        }
    }

    /// Appends a run of characters of any length; `succ` deletes the first one, and so on.
    pub(crate) fn push_text(
        &mut self,
        id: OpId,
        reference: OpId,
        text: &str,
        succ: Option<(OpId, bool)>,
    ) {
        let (mut id, mut reference, mut rest, mut succ) = (id, reference, text, succ);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(floor_char_boundary(rest, PIECE));
            let len = piece.chars().count() as u32;
            let mut run = Run::chars(id, reference, piece, len, self.unit);
            if let Some((first, descends)) = &mut succ {
                run.delete(*first, *descends);
                *first = following(*first, *descends, len);
            }
            (reference, rest) = (run.id_at(len - 1), after);
            id.counter += len;
            self.push(NewRun { run, text: piece, scalar: None });
        }
    }

    /// Takes the last element back.
    pub(in super::super) fn pop(&mut self) -> Option<RegOp> {
        self.leaf.pop_op(self.unit, &mut self.sides)
    }

    pub(crate) fn finish(mut self, actors: &Actors) -> Tree {
        self.leaf.shrink();
        self.leaves.push(self.leaf);
        let runs = (0_u32..)
            .zip(&self.leaves)
            .flat_map(|(at, leaf)| leaf.runs.iter().map(move |run| (run.id, at)));
        let index = IdIndex::build(runs);
        let mut tree = Tree::with_leaves(self.unit, self.sides, self.leaves);
        tree.index = index;
        tree.raise(actors);
        tree
    }
}

/// The id after `len` of them, if there is one.
fn following(first: OpId, descends: bool, len: u32) -> OpId {
    let counter = first.counter;
    let counter = if descends { counter.wrapping_sub(len) } else { counter.wrapping_add(len) };
    OpId { counter, ..first }
}

//! The elements of one list or text, tombstones included, in document order (RGA).
//!
//! Knows where a local edit goes and how a remote insert is integrated. Does not know other
//! objects; values are [`OpRef`]s.

use rustc_hash::FxHashMap;
use shoal_history::OpId;

use crate::actors::Actors;
use crate::register::{OpRef, RegOp, Register};

pub(crate) mod elem;
mod index;
mod tree;

use elem::Sides;
pub(crate) use elem::{Elem, NO_OP, Unit};
pub(crate) use tree::Place;
use tree::Tree;

/// One sequence.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    tree: Tree,
    /// The element that was inserted last and where: typing refers to it next. May be stale.
    hint: Option<(OpId, Place)>,
}

/// Where a local insert goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InsertPoint {
    /// The element it follows; [`NO_OP`] at the head.
    pub(crate) reference: OpId,
    pub(crate) place: Place,
    /// The index of the new element: the one asked for, or the end of the element it cut.
    pub(crate) index: u64,
}

/// A visible element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) winner: OpRef<'a>,
    /// The op that inserted the element.
    pub(crate) elem: OpId,
    /// Whether there are visible ops besides the winner.
    pub(crate) conflict: bool,
}

impl Sequence {
    pub(crate) fn new(unit: Unit) -> Self {
        Self { tree: Tree::new(Sides::new(unit)), hint: None }
    }

    /// The length in the index unit.
    pub(crate) fn length(&self) -> u64 {
        self.tree.total.width
    }

    pub(crate) fn unit(&self) -> Unit {
        self.tree.sides.unit
    }

    /// The element that covers `index`, and the index at which it begins. O(log n).
    pub(crate) fn find(&self, index: u64) -> Option<(Place, u64)> {
        self.tree.find(index)
    }

    /// Where the element `id` is, visible or not. O(1).
    pub(crate) fn locate(&self, id: OpId) -> Option<Place> {
        match self.hint {
            Some((last, place))
                if last == id && self.tree.get(place).is_some_and(|elem| elem.id == id) =>
            {
                Some(place)
            }
            _ => self.tree.locate(id),
        }
    }

    /// The index at which the element at `place` begins, or would if it were visible. O(log n).
    pub(crate) fn index_of(&self, place: Place) -> u64 {
        self.tree.index_of(place)
    }

    /// The number of elements before `place`, tombstones included. O(log n).
    pub(crate) fn rank_of(&self, place: Place) -> u64 {
        self.tree.rank_of(place)
    }

    pub(crate) fn elem_id(&self, place: Place) -> OpId {
        self.tree.get(place).map_or(NO_OP, |elem| elem.id)
    }

    /// The visible ops of the element at `place`, ascending by id.
    pub(crate) fn visible_at(
        &self,
        place: Place,
    ) -> impl DoubleEndedIterator<Item = OpRef<'_>> + Clone {
        self.tree.get(place).into_iter().flat_map(|elem| elem.visible(&self.tree.sides))
    }

    /// The length of the element at `place` in the index unit.
    pub(crate) fn width_at(&self, place: Place) -> u64 {
        self.tree.get(place).map_or(0, |elem| elem.measure(&self.tree.sides).width)
    }

    /// Whether readers see the element at `place`.
    pub(crate) fn is_visible(&self, place: Place) -> bool {
        self.tree.get(place).is_some_and(|elem| elem.measure(&self.tree.sides).visible > 0)
    }

    /// The elements that readers see, from the one covering `index` on.
    pub(crate) fn items_from(&self, index: u64) -> impl Iterator<Item = Item<'_>> {
        let from = match self.tree.find(index) {
            Some((place, _)) => place,
            None if index == 0 => self.tree.start(),
            None => self.tree.end(),
        };
        self.tree.elems_from(from).filter_map(|elem| {
            if elem.measure(&self.tree.sides).visible == 0 {
                return None;
            }
            let mut visible = elem.visible(&self.tree.sides);
            let winner = visible.next_back()?;
            Some(Item { winner, elem: elem.id, conflict: visible.next_back().is_some() })
        })
    }

    /// Appends the text that readers see.
    pub(crate) fn push_text(&self, text: &mut String) {
        text.reserve(usize::try_from(self.tree.total.width).unwrap_or(0));
        for elem in self.tree.elems() {
            elem.push_text(&self.tree.sides, text);
        }
    }

    /// Every element with its ops, in order: for saving.
    pub(crate) fn for_each_row<'a>(
        &'a self,
        actors: &Actors,
        mut visit: impl FnMut(&Elem, bool, OpRef<'a>),
    ) {
        let mut rows = Vec::new();
        for elem in self.tree.elems() {
            rows.clear();
            elem.rows(&self.tree.sides, actors, &mut rows);
            for op in &rows {
                visit(elem, op.id == elem.id, *op);
            }
        }
    }

    /// Where a local insert at `index` goes; `None` when the sequence is shorter.
    ///
    /// It follows the visible element before `index` directly, so it stands before tombstones
    /// that follow that element; but marks that grow there pull it behind their boundary.
    pub(crate) fn insert_point(&self, index: u64) -> Option<InsertPoint> {
        let mut point = match index.checked_sub(1) {
            None => InsertPoint { reference: NO_OP, place: self.tree.start(), index: 0 },
            Some(before) => {
                let (place, start) = self.tree.find(before)?;
                let index = start + self.width_at(place);
                InsertPoint { reference: self.elem_id(place), place: Tree::after(place), index }
            }
        };
        if self.tree.total.marks > 0
            && let Some(boundary) = self.sticky_boundary(point.place)
        {
            point.reference = self.elem_id(boundary);
            point.place = Tree::after(boundary);
        }
        Some(point)
    }

    /// Among the marks between `from` and the next visible element, the last boundary behind
    /// which an insert belongs: the begin of a mark that grows at its begin, the end of one that
    /// does not grow at its end. Nothing goes between a begin and its own end.
    fn sticky_boundary(&self, from: Place) -> Option<Place> {
        let mut found: Vec<(OpId, Place)> = Vec::new();
        let mut positions: FxHashMap<OpId, usize> = FxHashMap::default();
        let mut next = from;
        while let Some(place) = self.tree.next_counted(next) {
            let elem = self.tree.get(place)?;
            if elem.measure(&self.tree.sides).visible > 0 {
                break;
            }
            next = Tree::after(place);
            let Some(mark) = elem.winner(&self.tree.sides) else { continue };
            let is_begin = mark.mark_name.is_some();
            if !is_begin {
                let begin = OpId { counter: elem.id.counter - 1, actor: elem.id.actor };
                let at = positions.get(&begin).copied();
                if let Some(at) = at.filter(|at| found.get(*at).is_some_and(|(id, _)| *id == begin))
                {
                    found.truncate(at);
                    continue;
                }
            }
            if is_begin == mark.expand {
                positions.insert(elem.id, found.len());
                found.push((elem.id, place));
            }
        }
        found.last().map(|(_, place)| *place)
    }

    /// Inserts the element that `op` makes at a place that [`Sequence::insert_point`] gave or
    /// right after the element inserted last; returns where it went.
    pub(crate) fn insert_at(
        &mut self,
        place: Place,
        reference: OpId,
        op: RegOp,
        actors: &Actors,
    ) -> Place {
        let elem = Elem::new(reference, op, &mut self.tree.sides);
        self.insert_elem(place, elem, actors)
    }

    /// Like [`Sequence::insert_at`], for the one character that `text` holds.
    pub(crate) fn insert_char_at(
        &mut self,
        place: Place,
        reference: OpId,
        id: OpId,
        text: &str,
        actors: &Actors,
    ) -> Place {
        self.insert_elem(place, Elem::character(id, reference, text), actors)
    }

    fn insert_elem(&mut self, place: Place, elem: Elem, actors: &Actors) -> Place {
        let place = self.tree.insert(place, elem, actors);
        self.hint = Some((elem.id, place));
        place
    }

    /// The place after an element that [`Sequence::insert_at`] inserted.
    pub(crate) fn after(place: Place) -> Place {
        Tree::after(place)
    }

    /// Where an insert `id` from elsewhere goes: behind its reference, and behind everything there
    /// with a greater id, which is what was inserted concurrently at the same place and all that
    /// hangs on it. `None` when the reference is not here.
    pub(crate) fn integration_place(
        &self,
        reference: OpId,
        id: OpId,
        actors: &Actors,
    ) -> Option<Place> {
        let next = if reference == NO_OP {
            self.tree.start()
        } else {
            Tree::after(self.locate(reference)?)
        };
        Some(self.tree.next_less(next, id, actors).unwrap_or_else(|| self.tree.end()))
    }

    /// Whether the begin of the mark that the op `end` ends is here, before `place`.
    pub(crate) fn begins_before(&self, end: OpId, place: Place) -> bool {
        let begin = OpId { counter: end.counter - 1, actor: end.actor };
        self.locate(begin).is_some_and(|begin| {
            let elem = self.tree.get(begin);
            elem.is_some_and(|elem| elem.is_mark_begin(&self.tree.sides))
                && self.rank_of(begin) < self.rank_of(place)
        })
    }

    /// The first of `ids` that is no op of the element at `place`.
    pub(crate) fn first_unknown(&self, place: Place, ids: &[OpId]) -> Option<OpId> {
        self.tree.get(place)?.first_unknown(ids, &self.tree.sides)
    }

    /// Adds an op that is no insert to the element at `place`.
    pub(crate) fn update(&mut self, place: Place, op: RegOp, preds: &[OpId], actors: &Actors) {
        self.tree.update(place, |elem, sides| {
            elem.with_register_mut(sides, |register| register.push(op, preds, actors));
        });
    }

    /// Notes that the delete op `id` supersedes `preds` in the element at `place`.
    pub(crate) fn delete(&mut self, place: Place, id: OpId, preds: &[OpId]) {
        self.tree.update(place, |elem, sides| {
            if !elem.delete_simply(id, preds) {
                elem.with_register_mut(sides, |register| register.delete(id, preds));
            }
        });
    }

    /// Takes back the insert of the element at `place`.
    pub(crate) fn undo_insert(&mut self, place: Place, actors: &Actors) {
        self.tree.remove(place, actors);
        self.hint = None;
    }

    /// Takes back the op `id`, the last at `place`, which was no insert.
    pub(crate) fn undo(&mut self, place: Place, id: OpId, preds: &[OpId], actors: &Actors) {
        self.tree.update(place, |elem, sides| {
            if !elem.undelete_simply(id) {
                elem.with_register_mut(sides, |register| register.undo(id, preds, actors));
            }
        });
    }
}

/// A sequence in the making, whose elements come in document order.
#[derive(Debug)]
pub(crate) struct Builder {
    sides: Sides,
    elems: Vec<Elem>,
}

impl Builder {
    pub(crate) fn new(unit: Unit) -> Self {
        Self { sides: Sides::new(unit), elems: Vec::new() }
    }

    /// Appends an element that inserts `text`, superseded by at most one op, if that is one
    /// character.
    pub(crate) fn push_char(
        &mut self,
        id: OpId,
        reference: OpId,
        text: &str,
        succ: &[OpId],
    ) -> bool {
        let fits = elem::fits(text);
        if fits {
            let mut elem = Elem::character(id, reference, text);
            if let [deleted_by] = succ {
                elem.delete_simply(*deleted_by, &[id]);
            }
            self.elems.push(elem);
        }
        fits
    }

    /// Takes the last element, which [`Builder::push_char`] appended, back as an op.
    pub(crate) fn reopen(&mut self) -> Option<RegOp> {
        self.elems.pop().map(|elem| elem.take_op(&mut self.sides))
    }

    /// Appends an element with its ops, the insert first.
    pub(crate) fn push(&mut self, id: OpId, reference: OpId, ops: Vec<RegOp>, actors: &Actors) {
        let mut ops = ops;
        let elem = if ops.len() == 1 {
            ops.pop().map(|op| Elem::new(reference, op, &mut self.sides))
        } else {
            let register = Register::from_rows(ops, actors);
            Some(Elem::of_register(id, reference, register, &mut self.sides))
        };
        self.elems.extend(elem);
    }

    pub(crate) fn finish(self, actors: &Actors) -> Sequence {
        Sequence { tree: Tree::build(self.sides, self.elems, actors), hint: None }
    }
}

//! The elements of one list or text, tombstones included, in document order (RGA).
//!
//! Knows where a local edit goes and how a remote insert is integrated. Does not know other
//! objects; values are [`OpRef`]s.

use rustc_hash::FxHashMap;
use shoal_history::{Action, OpId, Scalar, ScalarRef};

use crate::actors::Actors;
use crate::register::{OpRef, RegOp, Register, Succ};

mod build;
mod index;
mod leaf;
mod run;
mod scalars;
mod tree;

pub(crate) use build::Builder;
use leaf::{Leaf, NewRun};
pub(crate) use run::{ElemView, Kind, NO_OP, Run, RunView, Unit};
use run::{Mark, Sides};
pub(crate) use tree::Place;
use tree::Tree;

/// One sequence.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    tree: Tree,
    /// The element inserted last and its place: typing refers to it next. May be stale.
    hint: Option<(OpId, Place)>,
}

/// Where a local insert goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InsertPoint {
    /// The element before; [`NO_OP`] at the head.
    pub(crate) reference: OpId,
    pub(crate) place: Place,
    /// The index of the new element: the requested one, or the end of the element cut by it.
    pub(crate) index: u64,
}

/// A visible element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) winner: OpRef<'a>,
    /// The op behind the element.
    pub(crate) elem: OpId,
    /// True if there are visible ops besides the winner.
    pub(crate) conflict: bool,
}

/// Elements deleted together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deleted {
    /// The first of them; the ids of the others count up.
    pub(crate) first: OpId,
    pub(crate) count: u32,
    /// Their length in the index unit.
    pub(crate) width: u64,
}

impl Sequence {
    pub(crate) fn new(unit: Unit) -> Self {
        Self { tree: Tree::new(unit), hint: None }
    }

    /// The length in the index unit.
    pub(crate) fn length(&self) -> u64 {
        self.tree.total.width
    }

    pub(crate) fn unit(&self) -> Unit {
        self.tree.unit
    }

    /// The parts of runs kept outside of the tree.
    pub(crate) fn sides(&self) -> &Sides {
        &self.tree.sides
    }

    /// The element covering `index`, and the index of its begin. O(log n).
    pub(crate) fn find(&self, index: u64) -> Option<(Place, u64)> {
        self.tree.find(index)
    }

    /// Like [`Sequence::find`]; O(1) beside the last edit.
    pub(crate) fn find_to_edit(&mut self, index: u64) -> Option<(Place, u64)> {
        self.tree.find_to_edit(index)
    }

    /// Where the element `id` is, visible or not. O(log n).
    pub(crate) fn locate(&self, id: OpId) -> Option<Place> {
        match self.hint {
            Some((last, place))
                if last == id
                    && self.tree.run(place).is_some_and(|run| run.id_at(place.at()) == id) =>
            {
                Some(place)
            }
            _ => self.tree.locate(id),
        }
    }

    /// The index of the begin of the element at `place`, visible or not. O(log n).
    pub(crate) fn index_of(&self, place: Place) -> u64 {
        self.tree.index_of(place)
    }

    /// The number of elements before `place`, tombstones included. O(log n).
    pub(crate) fn rank_of(&self, place: Place) -> u64 {
        self.tree.rank_of(place)
    }

    pub(crate) fn elem_id(&self, place: Place) -> OpId {
        self.tree.run(place).map_or(NO_OP, |run| run.id_at(place.at()))
    }

    /// The visible ops of the element at `place`, ascending by id.
    pub(crate) fn visible_at(
        &self,
        place: Place,
    ) -> impl DoubleEndedIterator<Item = OpRef<'_>> + Clone {
        self.tree.elem(place).into_iter().flat_map(|elem| elem.visible(&self.tree.sides))
    }

    /// The length of the element at `place` in the index unit.
    pub(crate) fn width_at(&self, place: Place) -> u64 {
        self.tree.measure_at(place).width
    }

    /// The element at `place`, if there is one.
    pub(crate) fn elem_at(&self, place: Place) -> Option<ElemView<'_>> {
        self.tree.elem(place)
    }

    /// The action of the insert op of the element at `place`.
    pub(crate) fn insert_action(&self, place: Place) -> Option<Action> {
        let elem = self.tree.elem(place)?;
        match elem.register(&self.tree.sides) {
            Some(register) => Some(register.get(elem.id())?.action),
            None => Some(elem.op(&self.tree.sides).action),
        }
    }

    /// True if there are marks not deleted.
    pub(crate) fn has_marks(&self) -> bool {
        self.tree.total.marks > 0
    }

    /// True if readers see the element at `place`.
    pub(crate) fn is_visible(&self, place: Place) -> bool {
        self.tree.measure_at(place).visible > 0
    }

    /// The visible elements, from the one covering `index` on.
    pub(crate) fn items_from(&self, index: u64) -> impl Iterator<Item = Item<'_>> {
        let from = match self.tree.find(index) {
            Some((place, _)) => place,
            None if index == 0 => self.tree.start(),
            None => self.tree.end(),
        };
        self.tree.elements(from).filter_map(|elem| {
            if elem.run.measure().visible == 0 {
                return None;
            }
            let mut visible = elem.visible(&self.tree.sides);
            let winner = visible.next_back()?;
            Some(Item { winner, elem: elem.id(), conflict: visible.next_back().is_some() })
        })
    }

    /// Appends the visible text.
    pub(crate) fn push_text(&self, text: &mut String) {
        text.reserve(usize::try_from(self.tree.total.width).unwrap_or(0));
        for run in self.tree.runs() {
            run.push_text(&self.tree.sides, text);
        }
    }

    /// Every run, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = RunView<'_>> {
        self.tree.runs()
    }

    /// The place of a local insert at `index`; `None` when the sequence is shorter.
    ///
    /// The insert follows the visible element before `index` directly, ahead of tombstones there;
    /// but marks growing at this place pull it behind their boundary.
    pub(crate) fn insert_point(&mut self, index: u64) -> Option<InsertPoint> {
        let mut point = match index.checked_sub(1) {
            None => InsertPoint { reference: NO_OP, place: self.tree.start(), index: 0 },
            Some(before) => {
                let (place, start) = self.tree.find_to_edit(before)?;
                let index = start + self.width_at(place);
                InsertPoint { reference: self.elem_id(place), place: place.after(), index }
            }
        };
        if self.tree.total.marks > 0
            && let Some(boundary) = self.sticky_boundary(point.place)
        {
            point.reference = self.elem_id(boundary);
            point.place = boundary.after();
        }
        Some(point)
    }

    /// Among the marks between `from` and the next visible element, the last boundary an insert
    /// goes behind: the begin of a mark growing at its begin, the end of one not growing at its
    /// end. Nothing goes between a begin and its own end.
    fn sticky_boundary(&self, from: Place) -> Option<Place> {
        let mut found: Vec<(OpId, Place)> = Vec::new();
        let mut positions: FxHashMap<OpId, usize> = FxHashMap::default();
        let mut next = from;
        while let Some(place) = self.tree.next_counted(next) {
            let elem = self.tree.elem(place)?;
            if elem.run.measure().visible > 0 {
                break;
            }
            next = place.after();
            let Some(mark) = elem.winner(&self.tree.sides) else { continue };
            let is_begin = mark.mark_name.is_some();
            let id = elem.id();
            if !is_begin {
                let begin = OpId { counter: id.counter - 1, actor: id.actor };
                let at = positions.get(&begin).copied();
                if let Some(at) = at.filter(|at| found.get(*at).is_some_and(|(id, _)| *id == begin))
                {
                    found.truncate(at);
                    continue;
                }
            }
            if is_begin == mark.expand {
                positions.insert(id, found.len());
                found.push((id, place));
            }
        }
        found.last().map(|(_, place)| *place)
    }

    /// Inserts the element of `op` at a place given by [`Sequence::insert_point`], or right after
    /// the element inserted last; returns its place.
    pub(crate) fn insert_at(
        &mut self,
        place: Place,
        reference: OpId,
        op: RegOp,
        actors: &Actors,
    ) -> Place {
        let id = op.id;
        let mut character = [0; 4];
        let new = new_run(reference, op, self.tree.unit, &mut self.tree.sides, &mut character);
        let place = self.tree.insert(place, new, actors);
        self.hint = Some((id, place));
        place
    }

    /// Like [`Sequence::insert_at`], for the characters of `text`, whose ids count up from `id`. If
    /// the insert is local, `end` is the index behind them.
    pub(crate) fn insert_text_at(
        &mut self,
        place: Place,
        reference: OpId,
        id: OpId,
        text: &str,
        end: Option<u64>,
        actors: &Actors,
    ) {
        let place = self.tree.insert_text(place, reference, id, text, actors);
        self.hint = Some((self.elem_id(place), place));
        self.tree.begin_typing(place, end);
    }

    /// Inserts the `len` characters of `text`, ids counting up from `id`, as a continuation of the
    /// last insert: locally at `index`, or from elsewhere after the element before `id`. Returns
    /// the element before them. O(log n), and little of it.
    #[inline]
    pub(crate) fn type_on(
        &mut self,
        index: Option<u64>,
        id: OpId,
        text: &str,
        len: u32,
        actors: &Actors,
    ) -> Option<OpId> {
        self.tree.type_on(index, id, text, len, actors)
    }

    /// The place of an insert `id` from elsewhere: behind its reference, and behind all elements
    /// there with a greater id, inserted concurrently at the same place or descending from such.
    /// `None` without the reference.
    pub(crate) fn integration_place(
        &self,
        reference: OpId,
        id: OpId,
        actors: &Actors,
    ) -> Option<Place> {
        let next =
            if reference == NO_OP { self.tree.start() } else { self.locate(reference)?.after() };
        Some(self.tree.next_less(next, id, actors).unwrap_or_else(|| self.tree.end()))
    }

    /// True if the begin of the mark ended by the op `end` is here, before `place`.
    pub(crate) fn begins_before(&self, end: OpId, place: Place) -> bool {
        let begin = OpId { counter: end.counter - 1, actor: end.actor };
        self.locate(begin).is_some_and(|begin| {
            let elem = self.tree.elem(begin);
            elem.is_some_and(|elem| elem.is_mark_begin(&self.tree.sides))
                && self.rank_of(begin) < self.rank_of(place)
        })
    }

    /// The first of `ids` without an op in the element at `place`.
    pub(crate) fn first_unknown(&self, place: Place, ids: &[OpId]) -> Option<OpId> {
        self.tree.elem(place)?.first_unknown(ids, &self.tree.sides)
    }

    /// Adds an op other than an insert to the element at `place`.
    pub(crate) fn update(&mut self, place: Place, op: RegOp, preds: &[OpId], actors: &Actors) {
        self.change_register(place, actors, |register| register.push(op, preds, actors));
    }

    /// Records the delete op `id`, superseding `preds` in the element at `place`.
    pub(crate) fn delete(&mut self, place: Place, id: OpId, preds: &[OpId], actors: &Actors) {
        let simple = self.tree.run(place).is_some_and(|run| {
            run.kind != Kind::Register && run.succ == NO_OP && preds == [run.id_at(place.at())]
        });
        if simple {
            self.tree.delete(place, 1, id, false, actors);
        } else {
            self.change_register(place, actors, |register| register.delete(id, preds));
        }
    }

    /// The run at `place`, if its elements are visible, one unit long and without other ops.
    fn simple_run(&self, place: Place) -> Option<&Run> {
        let is_simple = |run: &&Run| {
            run.kind != Kind::Register && run.measure().visible > 0 && run.width == run.len
        };
        self.tree.run(place).filter(is_simple)
    }

    /// Deletes up to `count` elements from `place` on, by ops with ids counting up from `id`,
    /// superseding nothing but the inserts: as many as are neighbours without other ops. `None`
    /// when the first is not such an element.
    pub(crate) fn delete_simple(
        &mut self,
        place: Place,
        count: u32,
        id: OpId,
        actors: &Actors,
    ) -> Option<Deleted> {
        let run = self.simple_run(place)?;
        let first = run.id_at(place.at());
        let count = self.tree.delete(place, count, id, false, actors);
        Some(Deleted { first, count, width: count.into() })
    }

    /// Deletes up to `count` elements from `place` backwards, as
    /// [`delete_simple`](Self::delete_simple) does forwards.
    pub(crate) fn delete_backwards(
        &mut self,
        place: Place,
        count: u32,
        id: OpId,
        actors: &Actors,
    ) -> Option<Deleted> {
        let run = self.simple_run(place)?;
        let count = count.min(place.at() + 1);
        let first = run.id_at(place.at() + 1 - count);
        let mut done = 0;
        while done < count {
            // Making room may have divided the run.
            let next = OpId { counter: first.counter + done, ..first };
            let place = match done {
                0 => place.back(count - 1),
                _ => self.locate(next).expect("dividing a leaf loses no element"),
            };
            let id = OpId { counter: id.counter + (count - 1 - done), ..id };
            done += self.tree.delete(place, count - done, id, true, actors);
        }
        Some(Deleted { first, count, width: count.into() })
    }

    /// Takes back the insert of the element at `place`.
    pub(crate) fn undo_insert(&mut self, place: Place, actors: &Actors) {
        self.tree.remove(place, actors);
        self.hint = None;
    }

    /// Takes back the op `id`, the last at `place`, not an insert.
    pub(crate) fn undo(&mut self, place: Place, id: OpId, preds: &[OpId], actors: &Actors) {
        let simple = self
            .tree
            .run(place)
            .is_some_and(|run| run.kind != Kind::Register && run.succ_at(place.at()) == id);
        if simple {
            self.tree.undelete(place, actors);
        } else {
            self.change_register(place, actors, |register| register.undo(id, preds, actors));
        }
    }

    /// Changes the register of an element, making one first if needed.
    fn change_register(
        &mut self,
        place: Place,
        actors: &Actors,
        change: impl FnOnce(&mut Register),
    ) {
        self.tree.change_one(place, actors, |leaf, at, sides, unit| {
            make_register(leaf, at, sides);
            let run = &mut leaf.runs[at];
            let register = sides.register_mut(run);
            change(register);
            run::measure_register(run, register, unit);
        });
    }
}

/// Turns the run of one at `at` into a register's.
fn make_register(leaf: &mut Leaf, at: usize, sides: &mut Sides) {
    let run = leaf.runs[at];
    if run.kind != Kind::Register {
        let op = sides.take_op(leaf.single(at));
        let side = sides.add_register(Register::new(op));
        leaf.replace(at, Run::single(run.id, run.reference, Kind::Register, side));
    }
}

/// The run of one of `op`, after `reference`; parts without room in a run go to `sides`.
fn new_run<'a>(
    reference: OpId,
    op: RegOp,
    unit: Unit,
    sides: &mut Sides,
    character: &'a mut [u8; 4],
) -> NewRun<'a> {
    let id = op.id;
    let succ = match &op.succ {
        Succ::None => Some(NO_OP),
        // An increment does not hide a counter; only its register knows.
        Succ::One(id) if !matches!(op.value, Scalar::Counter(_)) => Some(*id),
        _ => None,
    };
    let is_mark = op.action == Action::Mark;
    let odd = !is_mark && (op.expand || op.mark_name.is_some());
    let is_object = !is_mark && op.action != Action::Set;
    let Some(succ) = succ.filter(|_| !odd && (!is_object || op.value == Scalar::Null)) else {
        return register_run(id, reference, Register::new(op), unit, sides);
    };
    let mut new = match (op.action, op.value) {
        (Action::Set, Scalar::Str(text)) if run::is_char(&text) => {
            let bytes = &mut character[..text.len()];
            bytes.copy_from_slice(text.as_bytes());
            let text = std::str::from_utf8(bytes).expect("copied from a string");
            NewRun { run: Run::chars(id, reference, text, 1, unit), text, scalar: None }
        }
        (Action::Set, value) => {
            let mut run = Run::single(id, reference, Kind::Scalars, 0);
            run.width = run::scalar_width(value.as_ref(), unit);
            NewRun { run, text: "", scalar: Some(value) }
        }
        (Action::Mark, value) => {
            let side = sides.add_mark(Mark { expand: op.expand, name: op.mark_name, value });
            NewRun { run: Run::single(id, reference, Kind::Mark, side), text: "", scalar: None }
        }
        (action, _) => {
            let mut run = Run::single(id, reference, Kind::Object, op.object.0);
            run.detail = action as u8;
            run.width = run::scalar_width(ScalarRef::Null, unit);
            NewRun { run, text: "", scalar: None }
        }
    };
    if succ != NO_OP {
        new.run.delete(succ, false);
    }
    new
}

/// The run of one element with the ops of `register`.
fn register_run(
    id: OpId,
    reference: OpId,
    register: Register,
    unit: Unit,
    sides: &mut Sides,
) -> NewRun<'static> {
    let mut run = Run::single(id, reference, Kind::Register, 0);
    run::measure_register(&mut run, &register, unit);
    run.extent = sides.add_register(register);
    NewRun { run, text: "", scalar: None }
}

//! The B-tree below a sequence: runs in document order, with counts at every node.
//!
//! Leaves hold runs and are linked; inner nodes hold, for each child, the counts and the
//! the integration of a remote insert jump over any number of greater ids at once. Every
//! operation costs O(log n). Copies share leaves and nodes until one of them writes.

use std::cmp::Ordering;

use shoal_history::OpId;

use super::index::{IdIndex, LeafIdx, NONE};
use super::leaf::{Leaf, NewRun, PIECE};
use super::run::{ElemView, Measure, NO_OP, Run, RunView, Shows, Sides, Unit};
use crate::actors::Actors;
use crate::slots::Slots;

mod build;
mod nodes;
mod walk;

pub(crate) use build::Builder;
use nodes::{Inner, Sum};

/// Children of a node, at most; few under debug assertions, for tests to see deep trees.
const FANOUT: usize = if cfg!(debug_assertions) { 3 } else { 24 };

/// Where an element is: before element `at` of a run of a leaf. Valid until the tree changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) leaf: LeafIdx,
    pub(super) run: u32,
    /// At most the length of the run: the place behind its last element.
    pub(super) at: u32,
}

impl Place {
    /// The place after the element here.
    pub(crate) fn after(self) -> Self {
        Self { at: self.at + 1, ..self }
    }

    /// The place of the element `count` before the one here, in the same run.
    pub(crate) fn back(self, count: u32) -> Self {
        Self { at: self.at - count, ..self }
    }

    /// Where in its run the element is.
    pub(super) fn at(self) -> u32 {
        self.at
    }

    fn new(leaf: LeafIdx, (run, at): (usize, u32)) -> Self {
        Self { leaf, run: run as u32, at }
    }
}

/// The purpose of a place when room is made there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// The element there, to be changed.
    Element,
    /// The gap before the element, for this many bytes of text, or for anything else.
    Gap { text: usize },
}

/// The leaf of recent edits, and the index of its begin.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    leaf: LeafIdx,
    start: u64,
}

/// The end of a run of characters being typed: the place of the next ones if nothing else happens
/// before.
#[derive(Clone, Copy, Debug)]
struct Typing {
    leaf: LeafIdx,
    run: u32,
    /// Where in the text of the leaf.
    byte: u32,
    /// The index, for local typing.
    index: Option<u64>,
}

/// The elements of one sequence, in order.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(super) unit: Unit,
    pub(super) sides: Sides,
    pub(super) total: Sum,
    leaves: Slots<Leaf, 8>,
    inners: Slots<Inner, 8>,
    free_leaves: Vec<u32>,
    free_inners: Vec<u32>,
    root: u32,
    root_is_leaf: bool,
    first: LeafIdx,
    index: IdIndex,
    /// Where the last edit was: the next one is looked for there first.
    cursor: Option<Cursor>,
    typing: Option<Typing>,
}

impl Tree {
    /// A sequence without elements.
    pub(crate) fn new(unit: Unit) -> Self {
        Self::with_leaves(unit, Sides::default(), vec![Leaf::new(NONE, NONE)])
    }

    fn with_leaves(unit: Unit, sides: Sides, leaves: Vec<Leaf>) -> Self {
        Self {
            unit,
            sides,
            total: Sum::EMPTY,
            leaves: Slots::from_iter(leaves.into_iter()),
            inners: Slots::default(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            root_is_leaf: true,
            first: 0,
            index: IdIndex::default(),
            cursor: None,
            typing: None,
        }
    }

    #[inline]
    fn leaf(&self, leaf: LeafIdx) -> &Leaf {
        self.leaves.get(leaf).expect("nodes name leaves that exist")
    }

    #[inline]
    fn leaf_mut(&mut self, leaf: LeafIdx) -> &mut Leaf {
        self.leaves.get_mut(leaf).expect("nodes name leaves that exist")
    }

    /// The run of the element at `place`, if there is one.
    #[inline]
    pub(crate) fn view(&self, place: Place) -> Option<RunView<'_>> {
        let view = self.leaves.get(place.leaf)?.view(place.run as usize)?;
        (place.at < view.run.len).then_some(view)
    }

    /// The element at `place`, if there is one.
    #[inline]
    pub(crate) fn elem(&self, place: Place) -> Option<ElemView<'_>> {
        self.view(place).map(|view| view.elem(place.at))
    }

    /// The run at `place`, without its contents.
    #[inline]
    pub(crate) fn run(&self, place: Place) -> Option<&Run> {
        let run = self.leaves.get(place.leaf)?.runs.get(place.run as usize)?;
        (place.at < run.len).then_some(run)
    }

    /// Where the element `id` is.
    pub(crate) fn locate(&self, id: OpId) -> Option<Place> {
        let leaf = self.index.get(id)?;
        Some(Place::new(leaf, self.leaves.get(leaf)?.position(id)?))
    }

    /// The place before every element.
    pub(crate) fn start(&self) -> Place {
        Place { leaf: self.first, run: 0, at: 0 }
    }

    /// The place after every element.
    pub(crate) fn end(&self) -> Place {
        let (mut node, mut is_leaf) = (self.root, self.root_is_leaf);
        while !is_leaf {
            let inner = self.inner(node);
            let last = inner.children.last().expect("an inner node of a tree has children");
            (node, is_leaf) = (*last, inner.over_leaves);
        }
        Place::new(node, (self.leaf(node).runs.len(), 0))
    }

    /// The element covering index `at`, and the index of its begin.
    pub(crate) fn find(&self, at: u64) -> Option<(Place, u64)> {
        let (leaf, start) = self.find_leaf(at)?;
        self.find_in_leaf(leaf, start, at)
    }

    /// Like [`Tree::find`], but looks where the last edit was first, and goes on from there.
    pub(crate) fn find_to_edit(&mut self, at: u64) -> Option<(Place, u64)> {
        if let Some(cursor) = self.cursor
            && cursor.start <= at
            && let Some(found) = self.find_in_leaf(cursor.leaf, cursor.start, at)
        {
            return Some(found);
        }
        let (leaf, start) = self.find_leaf(at)?;
        self.cursor = Some(Cursor { leaf, start });
        self.find_in_leaf(leaf, start, at)
    }

    fn find_leaf(&self, at: u64) -> Option<(LeafIdx, u64)> {
        if at >= self.total.width {
            return None;
        }
        let (mut rest, mut node, mut is_leaf) = (at, self.root, self.root_is_leaf);
        while !is_leaf {
            let inner = self.inner(node);
            let slot = inner.sums.iter().position(|sum| {
                let inside = rest < sum.width;
                if !inside {
                    rest -= sum.width;
                }
                inside
            })?;
            (node, is_leaf) = (inner.children[slot], inner.over_leaves);
        }
        Some((node, at - rest))
    }

    fn find_in_leaf(&self, leaf: LeafIdx, start: u64, at: u64) -> Option<(Place, u64)> {
        let mut start = start;
        for (slot, run) in self.leaf(leaf).runs.iter().enumerate() {
            if run.shows != Shows::Values {
                continue;
            }
            let width = u64::from(run.width);
            if at < start + width {
                let (position, begin) = if run.width == run.len {
                    (u32::try_from(at - start).unwrap_or(u32::MAX), at - start)
                } else {
                    self.leaf(leaf).view(slot)?.find(at - start, self.unit)
                };
                return Some((Place::new(leaf, (slot, position)), start + begin));
            }
            start += width;
        }
        None
    }

    /// The index of the begin of the element at `place`.
    pub(crate) fn index_of(&self, place: Place) -> u64 {
        let within = self.view(place).filter(|view| view.run.shows == Shows::Values);
        let within = within.map_or(0, |view| view.width_before(place.at, self.unit).into());
        within + self.before(place, |run| run.measure().width, |sum| sum.width)
    }

    /// The number of elements before `place`, tombstones included.
    pub(crate) fn rank_of(&self, place: Place) -> u64 {
        let within = u64::from(place.at);
        within + self.before(place, |run| run.len.into(), |sum| sum.count.into())
    }

    fn before(
        &self,
        place: Place,
        of_run: impl Fn(&Run) -> u64,
        of_sum: impl Fn(&Sum) -> u64,
    ) -> u64 {
        let leaf = self.leaf(place.leaf);
        let mut total: u64 = leaf.runs[..place.run as usize].iter().map(of_run).sum();
        let (mut child, mut parent) = (place.leaf, leaf.parent);
        while parent != NONE {
            let inner = self.inner(parent);
            let slot = inner.slot_of(child);
            total += inner.sums[..slot].iter().map(&of_sum).sum::<u64>();
            (child, parent) = (parent, inner.parent);
        }
        total
    }

    /// The first element at or after `from` whose id is less than `id`.
    pub(crate) fn next_less(&self, from: Place, id: OpId, actors: &Actors) -> Option<Place> {
        let less = |other| actors.compare(other, id) == Ordering::Less;
        // The first element of a run has its least id.
        self.next_where(
            from,
            |sum| sum.least != NO_OP && less(sum.least),
            |run, at| less(run.id_at(at)),
        )
    }

    /// The first visible element or mark at or after `from`.
    pub(crate) fn next_counted(&self, from: Place) -> Option<Place> {
        self.next_where(
            from,
            |sum| sum.visible + sum.marks > 0,
            |run, _| run.shows != Shows::Nothing,
        )
    }

    /// `wanted` is asked of one element of each run, for the elements behind are wanted only with
    /// it.
    fn next_where(
        &self,
        from: Place,
        in_node: impl Fn(&Sum) -> bool,
        wanted: impl Fn(&Run, u32) -> bool,
    ) -> Option<Place> {
        let leaf = self.leaf(from.leaf);
        if let Some(run) = self.run(from)
            && wanted(run, from.at)
        {
            return Some(from);
        }
        let in_leaf = |leaf: &Leaf, next: usize| {
            let tail = leaf.runs.get(next..).unwrap_or(&[]);
            tail.iter().position(|run| wanted(run, 0)).map(|found| (next + found, 0))
        };
        let next = from.run as usize + usize::from(from.at > 0);
        if let Some(found) = in_leaf(leaf, next) {
            return Some(Place::new(from.leaf, found));
        }
        let (mut child, mut parent) = (from.leaf, leaf.parent);
        loop {
            let inner = self.inners.get(parent)?;
            let next = inner.slot_of(child) + 1;
            match inner.sums[next..].iter().position(&in_node) {
                Some(found) => {
                    child = inner.children[next + found];
                    break;
                }
                None => (child, parent) = (parent, inner.parent),
            }
        }
        let mut is_leaf = self.inner(parent).over_leaves;
        while !is_leaf {
            let inner = self.inner(child);
            let slot = inner.sums.iter().position(&in_node)?;
            (child, is_leaf) = (inner.children[slot], inner.over_leaves);
        }
        Some(Place::new(child, in_leaf(self.leaf(child), 0)?))
    }

    /// Inserts the characters of `text` where `place` is; the ids count up from `id`. Returns
    /// where the last one went.
    pub(crate) fn insert_text(
        &mut self,
        place: Place,
        reference: OpId,
        id: OpId,
        text: &str,
        actors: &Actors,
    ) -> Place {
        let (mut place, mut reference, mut id, mut rest) = (place, reference, id, text);
        loop {
            let (piece, after) = rest.split_at(floor_char_boundary(rest, PIECE));
            let len = if piece.len() < 2 { 1 } else { piece.chars().count() as u32 };
            let run = Run::chars(id, reference, piece, len, self.unit);
            let new = NewRun { run, text: piece, scalar: None };
            let first = self.insert(place, new, actors);
            let last = Place { at: first.at + len - 1, ..first };
            if after.is_empty() {
                return last;
            }
            (place, reference, rest) = (last.after(), run.id_at(len - 1), after);
            id.counter += len;
        }
    }

    /// Records typing behind `place`, at `index` if known: the next characters
    /// go there through [`type_on`](Self::type_on), until something else happens.
    pub(crate) fn begin_typing(&mut self, place: Place, index: Option<u64>) {
        let leaf = self.leaf(place.leaf);
        let run = place.run as usize;
        let is_end = leaf.runs.get(run).is_some_and(|run| run.len == place.at + 1);
        self.typing = (is_end && self.total.marks == 0).then(|| {
            let byte = leaf.starts(run + 1).0 as u32;
            Typing { leaf: place.leaf, run: place.run, byte, index }
        });
    }

    /// Inserts the `len` characters of `text` behind those typed last, if they continue them: their
    /// ids, counting up from `id`, follow, and the place is `index`, or for typing from elsewhere
    /// nothing concurrent is behind. The result equals [`insert_text`](Self::insert_text)'s.
    /// Returns the element before them.
    #[inline]
    pub(crate) fn type_on(
        &mut self,
        index: Option<u64>,
        id: OpId,
        text: &str,
        len: u32,
        actors: &Actors,
    ) -> Option<OpId> {
        let typing = self.typing?;
        let run = typing.run as usize;
        match index {
            Some(_) if index != typing.index => return None,
            Some(_) => {}
            None => {
                let leaf = self.leaf(typing.leaf);
                match leaf.runs.get(run + 1) {
                    Some(behind) if actors.compare(behind.id, id) == Ordering::Less => {}
                    None if leaf.next == NONE => {}
                    _ => return None,
                }
            }
        }
        let width = self.unit.width(text, len);
        let leaf = self.leaf_mut(typing.leaf);
        let reference = leaf.type_on(run, typing.byte as usize, id, text, (len, width))?;
        let byte = typing.byte + text.len() as u32;
        let index = index.map(|index| index + u64::from(width));
        self.typing = Some(Typing { byte, index, ..typing });
        self.note_ids(id, len, typing.leaf);
        self.keep_cursor(typing.leaf);
        self.for_each_sum(typing.leaf, |sum| {
            sum.count += len;
            sum.visible += len;
            sum.width += u64::from(width);
        });
        Some(reference)
    }

    /// Puts a run at `place`, before the present element there; returns the place of its first
    /// element.
    pub(super) fn insert(&mut self, place: Place, new: NewRun<'_>, actors: &Actors) -> Place {
        let place = self.make_room(place, Aim::Gap { text: new.text.len() }, actors);
        let (measure, id, len) = (new.run.measure(), new.run.id, new.run.len);
        let unit = self.unit;
        let (run, at) = (place.run as usize, place.at);
        let inserted = self.leaf_mut(place.leaf).insert(run, at, new, unit);
        self.note_ids(id, len, place.leaf);
        self.keep_cursor(place.leaf);
        self.for_each_sum(place.leaf, |sum| {
            sum.count += len;
            sum.add(measure);
            sum.note_id(id, actors);
        });
        Place::new(place.leaf, inserted)
    }

    /// Deletes up to `count` elements of the visible run at `place`, without a register, by ops
    /// with ids counting up from `id`, or down. Returns the number.
    pub(crate) fn delete(
        &mut self,
        place: Place,
        count: u32,
        id: OpId,
        descends: bool,
        actors: &Actors,
    ) -> u32 {
        let place = self.make_room(place, Aim::Element, actors);
        let Some(run) = self.run(place) else { return 0 };
        let count = count.min(run.len - place.at);
        let unit = self.unit;
        let leaf = self.leaf_mut(place.leaf);
        let run = leaf.cut(place.run as usize, place.at, unit);
        leaf.cut(run, count, unit);
        let measure = leaf.runs[run].measure();
        leaf.runs[run].delete(id, descends);
        leaf.join(run + 1);
        leaf.join(run);
        self.keep_cursor(place.leaf);
        self.for_each_sum(place.leaf, |sum| sum.subtract(measure));
        count
    }

    /// Takes a deletion of one element back.
    pub(crate) fn undelete(&mut self, place: Place, actors: &Actors) {
        self.change_one(place, actors, |leaf, run, _, _| leaf.runs[run].undelete());
    }

    /// Changes the element at `place`, alone in its run. The id stays.
    pub(super) fn change_one(
        &mut self,
        place: Place,
        actors: &Actors,
        change: impl FnOnce(&mut Leaf, usize, &mut Sides, Unit),
    ) {
        let place = self.make_room(place, Aim::Element, actors);
        let unit = self.unit;
        let leaf = self.leaves.get_mut(place.leaf).expect("nodes name leaves that exist");
        let run = leaf.cut(place.run as usize, place.at, unit);
        leaf.cut(run, 1, unit);
        let before = leaf.runs[run].measure();
        change(leaf, run, &mut self.sides, unit);
        let after = leaf.runs[run].measure();
        leaf.join(run + 1);
        leaf.join(run);
        self.keep_cursor(place.leaf);
        if before != after {
            self.for_each_sum(place.leaf, |sum| {
                sum.add(after);
                sum.subtract(before);
            });
        }
    }

    /// Takes the element at `place` out, leaving no trace.
    pub(crate) fn remove(&mut self, place: Place, actors: &Actors) {
        let place = self.make_room(place, Aim::Element, actors);
        let unit = self.unit;
        let leaf = self.leaf_mut(place.leaf);
        let (run, _) = leaf.remove(place.run as usize, place.at, unit);
        self.sides.release(&run);
        self.cursor = None;
        self.recount(place.leaf, actors);
    }

    /// Makes room for a piece of text, or a scalar, and two more runs in the leaf of `place`;
    /// returns the new `place`.
    fn make_room(&mut self, place: Place, aim: Aim, actors: &Actors) -> Place {
        // Any later edit is not typing on.
        self.typing = None;
        let mut place = place;
        let text = match aim {
            Aim::Gap { text } => text,
            Aim::Element => 0,
        };
        while !self.leaf(place.leaf).has_room(text) {
            let leaf = self.leaf(place.leaf);
            let run = place.run as usize;
            let boundary = match leaf.runs.get(run) {
                Some(last) if run + 1 < leaf.runs.len() || place.at < last.len => leaf.middle(),
                // Typing goes on after the last element: leaving full leaves behind keeps them
                // dense.
                _ => {
                    place = Place::new(place.leaf, (leaf.runs.len(), 0));
                    (leaf.runs.len(), 0)
                }
            };
            place = self.split_leaf(place, boundary, aim, actors);
        }
        place
    }

    /// Moves everything from a place in the leaf of `place` on to a new leaf; returns the new
    /// `place`.
    fn split_leaf(
        &mut self,
        place: Place,
        boundary: (usize, u32),
        aim: Aim,
        actors: &Actors,
    ) -> Place {
        let unit = self.unit;
        let (mut run, mut at) = (place.run as usize, place.at);
        let left = self.leaf_mut(place.leaf);
        let at_run = left.cut(boundary.0, boundary.1, unit);
        // The boundary itself is behind the cut.
        if boundary.1 > 0 && run == boundary.0 && at >= boundary.1 {
            (run, at) = (run + 1, at - boundary.1);
        } else if boundary.1 > 0 && run > boundary.0 {
            run += 1;
        }
        let right = left.split(at_run, place.leaf);
        let is_empty = right.runs.is_empty();
        let left_width: u64 = left.runs.iter().map(|run| run.measure().width).sum();
        let next = right.next;
        let right = self.add_leaf(right);
        self.leaf_mut(place.leaf).next = right;
        if next != NONE {
            self.leaf_mut(next).previous = right;
        }
        for moved in 0..self.leaf(right).runs.len() {
            let Run { id, len, .. } = self.leaf(right).runs[moved];
            self.note_ids(id, len, right);
        }
        let sums = (self.leaf_sum(place.leaf, actors), self.leaf_sum(right, actors));
        self.add_sibling(place.leaf, right, sums, actors);
        // In the gap, the place behind the left part is the better one: runs go on there.
        let is_behind_left = run == at_run && at == 0 && !is_empty && aim != Aim::Element;
        if run < at_run || is_behind_left {
            return Place::new(place.leaf, (run, at));
        }
        if let Some(cursor) = self.cursor.filter(|cursor| cursor.leaf == place.leaf) {
            self.cursor = Some(Cursor { leaf: right, start: cursor.start + left_width });
        }
        Place::new(right, (run.saturating_sub(at_run), if is_empty { 0 } else { at }))
    }

    fn note_ids(&mut self, id: OpId, len: u32, leaf: LeafIdx) {
        let leaves = &self.leaves;
        self.index.assign(id, len, leaf, |leaf, range| {
            leaves.get(leaf).is_some_and(|leaf| leaf.holds(&range))
        });
    }

    /// An edit of another leaf may have moved the cursor's leaf.
    fn keep_cursor(&mut self, edited: LeafIdx) {
        self.cursor = self.cursor.filter(|cursor| cursor.leaf == edited);
    }

    pub(super) fn measure_at(&self, place: Place) -> Measure {
        let Some(view) = self.view(place) else { return Measure::default() };
        match view.run.shows {
            Shows::Values => {
                let width = view.width_at(place.at, self.unit).into();
                Measure { visible: 1, marks: 0, width }
            }
            _ => view.run.measure(),
        }
    }
}

/// The greatest character boundary of `text` up to `at`.
fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests;

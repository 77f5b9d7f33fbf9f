//! The B-tree below a sequence: elements in document order, with counts at every node.
//!
//! Leaves hold elements and are linked; inner nodes hold, for each child, what it counts for and
//! the least element id below it. The counts turn an index into a place and back; the least ids
//! let the integration of a remote insert jump over any number of greater ids at once. Every
//! operation costs O(log n).

use std::cmp::Ordering;

use shoal_history::OpId;

use super::elem::{Elem, Measure, NO_OP, Sides};
use super::index::{IdIndex, LeafIdx, NONE};
use crate::actors::Actors;

/// Elements in a leaf and children of a node, at most; few in unit tests, so that trees are deep.
const LEAF_MAX: usize = if cfg!(test) { 4 } else { 64 };
const FANOUT: usize = if cfg!(test) { 3 } else { 32 };

/// What a subtree counts for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Elements, tombstones included.
    count: u32,
    /// Elements that readers see.
    pub(crate) visible: u32,
    /// Marks that are not deleted.
    pub(crate) marks: u32,
    /// Length in the index unit.
    pub(crate) width: u64,
    /// The least element id; [`NO_OP`] when there is no element.
    least: OpId,
}

impl Sum {
    const EMPTY: Self = Self { count: 0, visible: 0, marks: 0, width: 0, least: NO_OP };

    fn add(&mut self, measure: Measure) {
        self.visible += measure.visible;
        self.marks += measure.marks;
        self.width += measure.width;
    }

    fn subtract(&mut self, measure: Measure) {
        self.visible -= measure.visible;
        self.marks -= measure.marks;
        self.width -= measure.width;
    }

    fn note_id(&mut self, id: OpId, actors: &Actors) {
        if self.least == NO_OP || (id != NO_OP && actors.compare(id, self.least) == Ordering::Less)
        {
            self.least = id;
        }
    }

    fn merge(&mut self, other: &Self, actors: &Actors) {
        self.count += other.count;
        self.visible += other.visible;
        self.marks += other.marks;
        self.width += other.width;
        self.note_id(other.least, actors);
    }
}

/// Where an element is. Valid until the tree changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) leaf: LeafIdx,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
struct Leaf {
    parent: u32,
    previous: LeafIdx,
    next: LeafIdx,
    elems: Vec<Elem>,
}

#[derive(Clone, Debug)]
struct Inner {
    parent: u32,
    over_leaves: bool,
    children: Vec<u32>,
    sums: Vec<Sum>,
}

/// The elements of one sequence, in order.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) sides: Sides,
    pub(crate) total: Sum,
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    free_leaves: Vec<u32>,
    free_inners: Vec<u32>,
    root: u32,
    root_is_leaf: bool,
    first: LeafIdx,
    index: IdIndex,
}

impl Tree {
    /// A sequence without elements.
    pub(crate) fn new(sides: Sides) -> Self {
        let leaf = Leaf { parent: NONE, previous: NONE, next: NONE, elems: Vec::new() };
        Self {
            sides,
            total: Sum::EMPTY,
            leaves: vec![leaf],
            inners: Vec::new(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            root_is_leaf: true,
            first: 0,
            index: IdIndex::default(),
        }
    }

    /// The element at `place`, if there is one.
    #[inline]
    pub(crate) fn get(&self, place: Place) -> Option<&Elem> {
        self.leaves.get(place.leaf as usize)?.elems.get(place.offset)
    }

    /// Where the element `id` is.
    pub(crate) fn locate(&self, id: OpId) -> Option<Place> {
        let leaf = self.index.get(id)?;
        let offset = self.leaves[leaf as usize].elems.iter().position(|elem| elem.id == id)?;
        Some(Place { leaf, offset })
    }

    /// The place before every element.
    pub(crate) fn start(&self) -> Place {
        Place { leaf: self.first, offset: 0 }
    }

    /// The place after every element.
    pub(crate) fn end(&self) -> Place {
        let (mut node, mut is_leaf) = (self.root, self.root_is_leaf);
        while !is_leaf {
            let inner = &self.inners[node as usize];
            let last = inner.children.last().expect("an inner node of a tree has children");
            (node, is_leaf) = (*last, inner.over_leaves);
        }
        Place { leaf: node, offset: self.leaves[node as usize].elems.len() }
    }

    /// The place after `place`, which may be the end of a leaf.
    pub(crate) fn after(place: Place) -> Place {
        Place { leaf: place.leaf, offset: place.offset + 1 }
    }

    /// The element that covers index `at`, and the index at which it begins.
    pub(crate) fn find(&self, at: u64) -> Option<(Place, u64)> {
        if at >= self.total.width {
            return None;
        }
        let (mut rest, mut node, mut is_leaf) = (at, self.root, self.root_is_leaf);
        while !is_leaf {
            let inner = &self.inners[node as usize];
            let slot = inner.sums.iter().position(|sum| {
                let inside = rest < sum.width;
                if !inside {
                    rest -= sum.width;
                }
                inside
            })?;
            (node, is_leaf) = (inner.children[slot], inner.over_leaves);
        }
        for (offset, elem) in self.leaves[node as usize].elems.iter().enumerate() {
            let width = elem.measure(&self.sides).width;
            if rest < width {
                return Some((Place { leaf: node, offset }, at - rest));
            }
            rest -= width;
        }
        None
    }

    /// The index at which the element at `place` begins.
    pub(crate) fn index_of(&self, place: Place) -> u64 {
        self.before(place, |elem| elem.measure(&self.sides).width, |sum| sum.width)
    }

    /// The number of elements before `place`, tombstones included.
    pub(crate) fn rank_of(&self, place: Place) -> u64 {
        self.before(place, |_| 1, |sum| sum.count.into())
    }

    fn before(
        &self,
        place: Place,
        of_elem: impl Fn(&Elem) -> u64,
        of_sum: impl Fn(&Sum) -> u64,
    ) -> u64 {
        let leaf = &self.leaves[place.leaf as usize];
        let mut total: u64 = leaf.elems[..place.offset].iter().map(of_elem).sum();
        let (mut child, mut parent) = (place.leaf, leaf.parent);
        while parent != NONE {
            let inner = &self.inners[parent as usize];
            let slot = inner.slot_of(child);
            total += inner.sums[..slot].iter().map(&of_sum).sum::<u64>();
            (child, parent) = (parent, inner.parent);
        }
        total
    }

    /// The first element at or after `from` whose id is less than `id`.
    pub(crate) fn next_less(&self, from: Place, id: OpId, actors: &Actors) -> Option<Place> {
        let less = |other| actors.compare(other, id) == Ordering::Less;
        self.next_where(from, |sum| sum.least != NO_OP && less(sum.least), |elem| less(elem.id))
    }

    /// The first element at or after `from` that readers see or that is a mark.
    pub(crate) fn next_counted(&self, from: Place) -> Option<Place> {
        self.next_where(
            from,
            |sum| sum.visible + sum.marks > 0,
            |elem| {
                let measure = elem.measure(&self.sides);
                measure.visible + measure.marks > 0
            },
        )
    }

    fn next_where(
        &self,
        from: Place,
        in_node: impl Fn(&Sum) -> bool,
        wanted: impl Fn(&Elem) -> bool,
    ) -> Option<Place> {
        let leaf = &self.leaves[from.leaf as usize];
        let tail = leaf.elems.get(from.offset..).unwrap_or(&[]);
        if let Some(found) = tail.iter().position(&wanted) {
            return Some(Place { leaf: from.leaf, offset: from.offset + found });
        }
        let (mut child, mut parent) = (from.leaf, leaf.parent);
        loop {
            let inner = self.inners.get(parent as usize)?;
            let next = inner.slot_of(child) + 1;
            match inner.sums[next..].iter().position(&in_node) {
                Some(found) => {
                    child = inner.children[next + found];
                    break;
                }
                None => (child, parent) = (parent, inner.parent),
            }
        }
        let mut is_leaf = self.inners[parent as usize].over_leaves;
        while !is_leaf {
            let inner = &self.inners[child as usize];
            let slot = inner.sums.iter().position(&in_node)?;
            (child, is_leaf) = (inner.children[slot], inner.over_leaves);
        }
        let offset = self.leaves[child as usize].elems.iter().position(wanted)?;
        Some(Place { leaf: child, offset })
    }

    /// Puts `elem` where `place` is, before what is there now, and returns where it went.
    pub(crate) fn insert(&mut self, place: Place, elem: Elem, actors: &Actors) -> Place {
        let mut place = place;
        let length = self.leaves[place.leaf as usize].elems.len();
        if length >= LEAF_MAX {
            // Typing goes on after the last element: leaving full leaves behind keeps them dense.
            let at = if place.offset == length { length } else { LEAF_MAX / 2 };
            let right = self.split_leaf(place.leaf, at, actors);
            if place.offset >= at {
                place = Place { leaf: right, offset: place.offset - at };
            }
        }
        let measure = elem.measure(&self.sides);
        self.leaves[place.leaf as usize].elems.insert(place.offset, elem);
        self.index.set(elem.id, place.leaf);
        self.for_each_sum(place.leaf, |sum| {
            sum.count += 1;
            sum.add(measure);
            sum.note_id(elem.id, actors);
        });
        place
    }

    /// Changes the element at `place`, which must keep its id, and counts it anew.
    pub(crate) fn update<T>(
        &mut self,
        place: Place,
        change: impl FnOnce(&mut Elem, &mut Sides) -> T,
    ) -> T {
        let elem = &mut self.leaves[place.leaf as usize].elems[place.offset];
        let before = elem.measure(&self.sides);
        let result = change(elem, &mut self.sides);
        let after = elem.measure(&self.sides);
        if before != after {
            self.for_each_sum(place.leaf, |sum| {
                sum.add(after);
                sum.subtract(before);
            });
        }
        result
    }

    /// Takes the element at `place` out, as if it had never been.
    pub(crate) fn remove(&mut self, place: Place, actors: &Actors) {
        let elem = self.leaves[place.leaf as usize].elems.remove(place.offset);
        elem.release(&mut self.sides);
        self.index.remove(elem.id);
        let (mut child, mut is_leaf) = (place.leaf, true);
        loop {
            let (parent, empty, sum) = if is_leaf {
                let leaf = &self.leaves[child as usize];
                (leaf.parent, leaf.elems.is_empty(), self.sum_of_leaf(child, actors))
            } else {
                let inner = &self.inners[child as usize];
                (inner.parent, inner.children.is_empty(), inner.sum(actors))
            };
            if parent == NONE {
                self.total = sum;
                break;
            }
            let inner = &mut self.inners[parent as usize];
            let slot = inner.slot_of(child);
            if empty {
                inner.children.remove(slot);
                inner.sums.remove(slot);
                self.free(child, is_leaf);
            } else {
                inner.sums[slot] = sum;
            }
            (child, is_leaf) = (parent, false);
        }
        self.lower_root();
    }

    /// A root without siblings to count over gives way to its only child; one that lost every
    /// child, to a fresh leaf.
    fn lower_root(&mut self) {
        while !self.root_is_leaf {
            let inner = &self.inners[self.root as usize];
            let old = self.root;
            match inner.children.as_slice() {
                [] => {
                    let leaf = Leaf { parent: NONE, previous: NONE, next: NONE, elems: Vec::new() };
                    self.root = self.add_leaf(leaf);
                    self.first = self.root;
                    self.root_is_leaf = true;
                }
                [only] => {
                    (self.root, self.root_is_leaf) = (*only, inner.over_leaves);
                    self.set_parent(self.root, self.root_is_leaf, NONE);
                }
                _ => return,
            }
            self.inners[old as usize].children.clear();
            self.inners[old as usize].sums.clear();
            self.free_inners.push(old);
        }
    }

    fn free(&mut self, node: u32, is_leaf: bool) {
        if !is_leaf {
            self.free_inners.push(node);
            return;
        }
        let (previous, next) =
            (self.leaves[node as usize].previous, self.leaves[node as usize].next);
        match self.leaves.get_mut(previous as usize) {
            Some(leaf) => leaf.next = next,
            None => self.first = next,
        }
        if let Some(leaf) = self.leaves.get_mut(next as usize) {
            leaf.previous = previous;
        }
        self.free_leaves.push(node);
    }

    /// Every element, in order.
    pub(crate) fn elems(&self) -> impl Iterator<Item = &Elem> {
        let mut leaf = self.leaves.get(self.first as usize);
        std::iter::from_fn(move || {
            let current = leaf?;
            leaf = self.leaves.get(current.next as usize);
            Some(current.elems.iter())
        })
        .flatten()
    }

    /// The elements from `from` on, in order.
    pub(crate) fn elems_from(&self, from: Place) -> impl Iterator<Item = &Elem> {
        let first = &self.leaves[from.leaf as usize];
        let mut leaf = self.leaves.get(first.next as usize);
        let rest = std::iter::from_fn(move || {
            let current = leaf?;
            leaf = self.leaves.get(current.next as usize);
            Some(current.elems.iter())
        });
        first.elems.get(from.offset..).unwrap_or(&[]).iter().chain(rest.flatten())
    }

    /// A tree of elements that are in order already. Costs O(n).
    pub(crate) fn build(sides: Sides, elems: Vec<Elem>, actors: &Actors) -> Self {
        let mut tree = Self::new(sides);
        if elems.is_empty() {
            return tree;
        }
        tree.leaves.clear();
        let mut level: Vec<(u32, Sum)> = Vec::new();
        for chunk in elems.chunks(LEAF_MAX) {
            let leaf = u32::try_from(tree.leaves.len()).expect("elements are limited to 32 bits");
            for elem in chunk {
                tree.index.set(elem.id, leaf);
            }
            let previous = leaf.checked_sub(1).unwrap_or(NONE);
            if let Some(previous) = tree.leaves.last_mut() {
                previous.next = leaf;
            }
            let elems = chunk.to_vec();
            tree.leaves.push(Leaf { parent: NONE, previous, next: NONE, elems });
            level.push((leaf, tree.sum_of_leaf(leaf, actors)));
        }
        let mut over_leaves = true;
        while level.len() > 1 {
            let mut above = Vec::with_capacity(level.len() / FANOUT + 1);
            for group in level.chunks(FANOUT) {
                let inner = Inner {
                    parent: NONE,
                    over_leaves,
                    children: group.iter().map(|(child, _)| *child).collect(),
                    sums: group.iter().map(|(_, sum)| *sum).collect(),
                };
                let sum = inner.sum(actors);
                above.push((tree.add_inner(inner), sum));
            }
            level = above;
            over_leaves = false;
        }
        let (root, total) = level[0];
        (tree.root, tree.root_is_leaf, tree.total) = (root, over_leaves, total);
        tree
    }

    fn for_each_sum(&mut self, leaf: LeafIdx, mut change: impl FnMut(&mut Sum)) {
        let (mut child, mut parent) = (leaf, self.leaves[leaf as usize].parent);
        while parent != NONE {
            let inner = &mut self.inners[parent as usize];
            let slot = inner.slot_of(child);
            change(&mut inner.sums[slot]);
            (child, parent) = (parent, inner.parent);
        }
        change(&mut self.total);
    }

    fn sum_of_leaf(&self, leaf: LeafIdx, actors: &Actors) -> Sum {
        let mut sum = Sum::EMPTY;
        for elem in &self.leaves[leaf as usize].elems {
            sum.count += 1;
            sum.add(elem.measure(&self.sides));
            sum.note_id(elem.id, actors);
        }
        sum
    }

    /// Moves the elements from `at` on to a new leaf, and returns it.
    fn split_leaf(&mut self, leaf: LeafIdx, at: usize, actors: &Actors) -> LeafIdx {
        let next = self.leaves[leaf as usize].next;
        let mut elems = Vec::with_capacity(LEAF_MAX);
        elems.extend(self.leaves[leaf as usize].elems.drain(at..));
        let right = self.add_leaf(Leaf { parent: NONE, previous: leaf, next, elems });
        self.leaves[leaf as usize].next = right;
        if let Some(next) = self.leaves.get_mut(next as usize) {
            next.previous = right;
        }
        for at in 0..self.leaves[right as usize].elems.len() {
            self.index.set(self.leaves[right as usize].elems[at].id, right);
        }
        let sums = (self.sum_of_leaf(leaf, actors), self.sum_of_leaf(right, actors));
        self.add_sibling(leaf, right, sums, actors);
        right
    }

    /// Enters `right`, which was split off the leaf `left`, into the nodes above.
    fn add_sibling(&mut self, left: u32, right: u32, sums: (Sum, Sum), actors: &Actors) {
        let (mut left, mut right, mut sums, mut leaves) = (left, right, sums, true);
        loop {
            let parent = self.parent_of(left, leaves);
            if parent == NONE {
                let root = self.add_inner(Inner {
                    parent: NONE,
                    over_leaves: leaves,
                    children: vec![left, right],
                    sums: vec![sums.0, sums.1],
                });
                (self.root, self.root_is_leaf) = (root, false);
                return;
            }
            self.set_parent(right, leaves, parent);
            let inner = &mut self.inners[parent as usize];
            let slot = inner.slot_of(left);
            inner.sums[slot] = sums.0;
            inner.children.insert(slot + 1, right);
            inner.sums.insert(slot + 1, sums.1);
            let length = inner.children.len();
            if length <= FANOUT {
                return;
            }
            let at = if slot + 2 == length { length - 1 } else { length / 2 };
            let upper = Inner {
                parent: NONE,
                over_leaves: leaves,
                children: inner.children.split_off(at),
                sums: inner.sums.split_off(at),
            };
            sums = (inner.sum(actors), upper.sum(actors));
            left = parent;
            right = self.add_inner(upper);
            leaves = false;
        }
    }

    fn add_leaf(&mut self, leaf: Leaf) -> LeafIdx {
        if let Some(free) = self.free_leaves.pop() {
            self.leaves[free as usize] = leaf;
            return free;
        }
        self.leaves.push(leaf);
        u32::try_from(self.leaves.len() - 1).expect("elements are limited to 32 bits")
    }

    fn add_inner(&mut self, inner: Inner) -> u32 {
        let node = match self.free_inners.pop() {
            Some(free) => {
                self.inners[free as usize] = inner;
                free
            }
            None => {
                self.inners.push(inner);
                u32::try_from(self.inners.len() - 1).expect("elements are limited to 32 bits")
            }
        };
        let over_leaves = self.inners[node as usize].over_leaves;
        for at in 0..self.inners[node as usize].children.len() {
            self.set_parent(self.inners[node as usize].children[at], over_leaves, node);
        }
        node
    }

    fn parent_of(&self, node: u32, is_leaf: bool) -> u32 {
        if is_leaf { self.leaves[node as usize].parent } else { self.inners[node as usize].parent }
    }

    fn set_parent(&mut self, node: u32, is_leaf: bool, parent: u32) {
        if is_leaf {
            self.leaves[node as usize].parent = parent;
        } else {
            self.inners[node as usize].parent = parent;
        }
    }
}

impl Inner {
    #[inline]
    fn slot_of(&self, child: u32) -> usize {
        self.children
            .iter()
            .position(|other| *other == child)
            .expect("a child's parent lists the child")
    }

    fn sum(&self, actors: &Actors) -> Sum {
        self.sums.iter().fold(Sum::EMPTY, |mut sum, child| {
            sum.merge(child, actors);
            sum
        })
    }
}

#[cfg(test)]
mod tests;

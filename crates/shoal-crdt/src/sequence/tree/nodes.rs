//! The inner nodes of the tree: counts, growing and shrinking.

use std::cmp::Ordering;

use shoal_history::OpId;

use super::super::index::{LeafIdx, NONE};
use super::super::leaf::Leaf;
use super::super::run::{Measure, NO_OP, Run};
use super::{FANOUT, Tree};
use crate::actors::Actors;

/// The counts of a subtree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    /// Elements, tombstones included.
    pub(super) count: u32,
    /// Visible elements.
    pub(crate) visible: u32,
    /// Marks not deleted.
    pub(crate) marks: u32,
    /// Length in the index unit.
    pub(crate) width: u64,
    /// The least element id; [`NO_OP`] when there is no element.
    pub(super) least: OpId,
}

impl Sum {
    pub(super) const EMPTY: Self = Self { count: 0, visible: 0, marks: 0, width: 0, least: NO_OP };

    pub(super) fn add(&mut self, measure: Measure) {
        self.visible += measure.visible;
        self.marks += measure.marks;
        self.width += measure.width;
    }

    pub(super) fn subtract(&mut self, measure: Measure) {
        self.visible -= measure.visible;
        self.marks -= measure.marks;
        self.width -= measure.width;
    }

    pub(super) fn note_id(&mut self, id: OpId, actors: &Actors) {
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

    /// The counts of runs.
    pub(super) fn of_runs(runs: &[Run], actors: &Actors) -> Self {
        let mut sum = Self::EMPTY;
        for run in runs {
            sum.count += run.len;
            sum.add(run.measure());
            sum.note_id(run.id, actors);
        }
        sum
    }
}

#[derive(Clone, Debug)]
pub(super) struct Inner {
    pub(super) parent: u32,
    pub(super) over_leaves: bool,
    pub(super) children: Vec<u32>,
    pub(super) sums: Vec<Sum>,
}

impl Inner {
    #[inline]
    pub(super) fn slot_of(&self, child: u32) -> usize {
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

impl Tree {
    #[inline]
    pub(super) fn inner(&self, node: u32) -> &Inner {
        self.inners.get(node).expect("nodes name nodes that exist")
    }

    #[inline]
    pub(super) fn inner_mut(&mut self, node: u32) -> &mut Inner {
        self.inners.get_mut(node).expect("nodes name nodes that exist")
    }

    pub(super) fn for_each_sum(&mut self, leaf: LeafIdx, mut change: impl FnMut(&mut Sum)) {
        let (mut child, mut parent) = (leaf, self.leaf(leaf).parent);
        while parent != NONE {
            let inner = self.inner_mut(parent);
            let slot = inner.slot_of(child);
            change(&mut inner.sums[slot]);
            (child, parent) = (parent, inner.parent);
        }
        change(&mut self.total);
    }

    pub(super) fn leaf_sum(&self, leaf: LeafIdx, actors: &Actors) -> Sum {
        Sum::of_runs(&self.leaf(leaf).runs, actors)
    }

    /// Counts anew from a leaf upwards after a removal of elements; emptied nodes go away.
    pub(super) fn recount(&mut self, leaf: LeafIdx, actors: &Actors) {
        let (mut child, mut is_leaf) = (leaf, true);
        loop {
            let (parent, empty, sum) = if is_leaf {
                let leaf = self.leaf(child);
                (leaf.parent, leaf.runs.is_empty(), self.leaf_sum(child, actors))
            } else {
                let inner = self.inner(child);
                (inner.parent, inner.children.is_empty(), inner.sum(actors))
            };
            if parent == NONE {
                self.total = sum;
                break;
            }
            let inner = self.inner_mut(parent);
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

    /// A root without siblings to count over gives way to its only child, and one without children
    /// to a fresh leaf.
    fn lower_root(&mut self) {
        while !self.root_is_leaf {
            let inner = self.inner(self.root);
            let old = self.root;
            match inner.children.as_slice() {
                [] => {
                    self.root = self.add_leaf(Leaf::new(NONE, NONE));
                    self.first = self.root;
                    self.root_is_leaf = true;
                }
                [only] => {
                    (self.root, self.root_is_leaf) = (*only, inner.over_leaves);
                    self.set_parent(self.root, self.root_is_leaf, NONE);
                }
                _ => return,
            }
            let inner = self.inner_mut(old);
            inner.children.clear();
            inner.sums.clear();
            self.free_inners.push(old);
        }
    }

    fn free(&mut self, node: u32, is_leaf: bool) {
        if !is_leaf {
            self.free_inners.push(node);
            return;
        }
        let (previous, next) = (self.leaf(node).previous, self.leaf(node).next);
        match self.leaves.get_mut(previous) {
            Some(leaf) => leaf.next = next,
            None => self.first = next,
        }
        if let Some(leaf) = self.leaves.get_mut(next) {
            leaf.previous = previous;
        }
        self.free_leaves.push(node);
    }

    /// Enters `right`, split off the leaf `left`, into the nodes above.
    pub(super) fn add_sibling(&mut self, left: u32, right: u32, sums: (Sum, Sum), actors: &Actors) {
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
            let inner = self.inner_mut(parent);
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

    /// Puts nodes over leaves in order. Costs O(n).
    pub(super) fn raise(&mut self, actors: &Actors) {
        let mut level: Vec<(u32, Sum)> = (0_u32..)
            .zip(self.leaves.iter())
            .map(|(at, leaf)| (at, Sum::of_runs(&leaf.runs, actors)))
            .collect();
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
                above.push((self.add_inner(inner), sum));
            }
            level = above;
            over_leaves = false;
        }
        if let Some((root, total)) = level.first() {
            (self.root, self.root_is_leaf, self.total) = (*root, over_leaves, *total);
        }
    }

    pub(super) fn add_leaf(&mut self, leaf: Leaf) -> LeafIdx {
        if let Some(free) = self.free_leaves.pop() {
            *self.leaf_mut(free) = leaf;
            return free;
        }
        self.leaves.push(leaf)
    }

    fn add_inner(&mut self, inner: Inner) -> u32 {
        let over_leaves = inner.over_leaves;
        let children = inner.children.len();
        let node = match self.free_inners.pop() {
            Some(free) => {
                *self.inner_mut(free) = inner;
                free
            }
            None => self.inners.push(inner),
        };
        for at in 0..children {
            let child = self.inner(node).children[at];
            self.set_parent(child, over_leaves, node);
        }
        node
    }

    fn parent_of(&self, node: u32, is_leaf: bool) -> u32 {
        if is_leaf { self.leaf(node).parent } else { self.inner(node).parent }
    }

    fn set_parent(&mut self, node: u32, is_leaf: bool, parent: u32) {
        if is_leaf {
            self.leaf_mut(node).parent = parent;
        } else {
            self.inner_mut(node).parent = parent;
        }
    }
}

//! The history cut into parts with the same names at all peers, without asking: the reference's
//! fragments, experimental there. A change with zero bytes at the begin of its hash is the head of
//! a fragment, the larger the more zero bytes: about every 256th change is one of level 1, every
//! 65,536th of level 2.

use std::collections::{HashSet, VecDeque};
use std::ops::RangeBounds;

use rustc_hash::FxBuildHasher;

use super::{ChangeGraph, Clock, Inner};
use crate::ChangeHash;

/// A change and the changes before, outside of all fragments of its level or above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The last change, the name of the fragment.
    pub head: ChangeHash,
    /// How many zero bytes its hash begins with; 0 for a change on its own.
    pub level: usize,
    /// The end of the fragment: the heads of the fragments before, of its level or above, the
    /// latest first. For a change on its own, its dependencies.
    pub boundary: Vec<ChangeHash>,
    /// The members of levels above 0, except for the head: heads of fragments made superfluous by
    /// this one.
    pub checkpoints: Vec<ChangeHash>,
    /// The changes, from the head backwards, the nearest first.
    pub members: Vec<ChangeHash>,
}

/// The head of a fragment.
struct Node {
    place: u32,
    level: usize,
    /// The heads of the fragments at the end.
    boundary: Vec<u32>,
    /// The clock of the head and all changes before.
    clock: Clock,
}

/// The fragments of a history, but for changes on their own.
struct Cut {
    /// By place.
    nodes: Vec<Node>,
    /// The clock of all together.
    clock: Clock,
}

impl ChangeGraph {
    /// The fragments of these levels covering the history, the oldest first; at level 0 the changes
    /// on their own, in no fragment yet. The result depends on the order of concurrent changes only
    /// where a fragment of a higher level is concurrent with one below it.
    ///
    /// Cost: the number of changes, and for each fragment the number of actors and of fragments of
    /// level 1 and above.
    pub fn fragments(&self, levels: impl RangeBounds<usize>) -> Vec<Fragment> {
        let cut = self.inner.cut();
        let wanted = cut.nodes.iter().filter(|node| levels.contains(&node.level));
        let mut fragments: Vec<Fragment> =
            wanted.map(|node| self.inner.fragment_of(node, &cut)).collect();
        if levels.contains(&0) {
            let heads = self.inner.heads.iter();
            let heads = heads.filter(|(hash, _)| hash.fragment_level() == 0);
            let heads = heads.map(|(_, place)| place).collect();
            let alone = self.inner.before_until(heads, &cut.clock);
            fragments.extend(alone.into_iter().rev().map(|place| self.inner.alone(place)));
        }
        fragments
    }

    /// The fragment with this head: a change on its own for any change of level 0. `None` for an
    /// unknown change, or one inside of a fragment of a higher level. Cost: as of
    /// [`fragments`](Self::fragments), nothing at level 0.
    pub fn fragment(&self, head: &ChangeHash) -> Option<Fragment> {
        let place = self.inner.place_of(head)?;
        if head.fragment_level() == 0 {
            return Some(self.inner.alone(place));
        }
        let cut = self.inner.cut();
        let at = cut.nodes.binary_search_by_key(&place, |node| node.place).ok()?;
        Some(self.inner.fragment_of(&cut.nodes[at], &cut))
    }
}

impl Inner {
    fn cut(&self) -> Cut {
        let mut cut = Cut { nodes: Vec::new(), clock: self.empty_clock() };
        let count = u32::try_from(self.len()).expect("places fit 32 bits");
        for place in 0..count {
            let level = self.hash_at(place).fragment_level();
            if level == 0 {
                continue;
            }
            let mut clock = self.empty_clock();
            self.raise(&mut clock, place, &cut.nodes);
            let mut boundary = Vec::new();
            cut.nodes.retain(|node| {
                let is_before = self.is_in(node.place, &clock);
                if is_before && node.level >= level {
                    boundary.push(node.place);
                }
                !is_before || node.level >= level
            });
            boundary.reverse();
            cut.clock.raise_all(&clock);
            cut.nodes.push(Node { place, level, boundary, clock });
        }
        cut
    }

    /// Raises a clock to cover the change and all before. Goes backwards no further than to heads
    /// with known clocks.
    fn raise(&self, clock: &mut Clock, place: u32, known: &[Node]) {
        let mut stack = vec![place];
        while let Some(place) = stack.pop() {
            if self.is_in(place, clock) {
                continue;
            }
            if let Ok(at) = known.binary_search_by_key(&place, |node| node.place) {
                clock.raise_all(&known[at].clock);
                continue;
            }
            // A change raises the clock after all before it, else these would seem covered.
            let before = stack.len();
            stack.push(place);
            stack.extend(self.deps_at(place).iter().filter(|dep| !self.is_in(**dep, clock)));
            if stack.len() == before + 1 {
                stack.pop();
                clock.raise(self.author_at(place), self.entry_at(place));
            }
        }
    }

    fn fragment_of(&self, node: &Node, cut: &Cut) -> Fragment {
        let head = self.hash_at(node.place);
        let mut end = self.empty_clock();
        for &place in &node.boundary {
            self.raise(&mut end, place, &cut.nodes);
        }
        let hashes =
            |places: Vec<u32>| places.into_iter().map(|place| self.hash_at(place)).collect();
        let members: Vec<ChangeHash> = hashes(self.before_until(vec![node.place], &end));
        let is_checkpoint = |hash: &&ChangeHash| **hash != head && hash.fragment_level() > 0;
        Fragment {
            head,
            level: node.level,
            boundary: hashes(node.boundary.clone()),
            checkpoints: members.iter().filter(is_checkpoint).copied().collect(),
            members,
        }
    }

    fn alone(&self, place: u32) -> Fragment {
        let head = self.hash_at(place);
        let boundary = self.deps_at(place).iter().map(|dep| self.hash_at(*dep)).collect();
        Fragment { head, level: 0, boundary, checkpoints: Vec::new(), members: vec![head] }
    }

    /// These changes and the ones before, breadth first, down to the changes covered by the clock.
    fn before_until(&self, from: Vec<u32>, end: &Clock) -> Vec<u32> {
        let mut seen: HashSet<u32, FxBuildHasher> = from.iter().copied().collect();
        let mut queue = VecDeque::from(from);
        let mut out = Vec::new();
        while let Some(place) = queue.pop_front() {
            out.push(place);
            let deps = self.deps_at(place).iter().copied();
            queue.extend(deps.filter(|&dep| !self.is_in(dep, end) && seen.insert(dep)));
        }
        out
    }

    fn is_in(&self, place: u32, clock: &Clock) -> bool {
        self.entry_at(place).seq <= clock.get(self.author_at(place)).seq
    }
}

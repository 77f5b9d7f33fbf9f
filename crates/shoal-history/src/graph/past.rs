//! Whether one change builds on another: depends on it, or on a change that builds on it.

use rustc_hash::FxHashSet;

use super::Inner;
use crate::chunk::ChangeTable;
use crate::{ChunkType, Error, Fault};

/// How many changes are looked at to see that a change is built on its author's change before it.
/// Writers name that one among the dependencies, so that there is nothing to look for; those of
/// old did not always, but then it is near.
pub(super) const MAX_STEPS: usize = 1 << 20;

/// How many more for each change of a document.
const STEPS_PER_CHANGE: usize = 16;

impl Inner {
    /// All changes before this place are in the past of the one at `place`. Less than the most that
    /// could be said, but all of them for whoever was once the only head.
    fn all_before(&self, place: u32) -> u32 {
        match self.locate(place) {
            Ok((base, row)) => base.all_before()[row],
            Err(added) => self.nodes[added].all_before,
        }
    }

    /// What [`all_before`](Self::all_before) is for a change with these dependencies that is not
    /// the only head.
    pub(super) fn all_before_with(&self, deps: &[u32]) -> u32 {
        deps.iter().map(|dep| self.all_before(*dep)).max().unwrap_or(0)
    }

    /// Whether the change at `place` is among `from`, or these build on it. Cost: the changes after
    /// it that `from` leads to, which are taken from `steps`; false when those are used up.
    pub(super) fn reaches(&self, from: &[u32], place: u32, steps: &mut usize) -> bool {
        if from.contains(&place) {
            return true;
        }
        let mut stack: Vec<u32> = from.to_vec();
        let mut seen = FxHashSet::default();
        while let Some(at) = stack.pop() {
            if at == place || (at > place && self.all_before(at) > place) {
                return true;
            }
            if at > place {
                let Some(left) = steps.checked_sub(1) else { return false };
                *steps = left;
                stack.extend(self.deps_at(at).iter().copied().filter(|dep| seen.insert(*dep)));
            }
        }
        false
    }
}

impl Inner {
    /// Checks that each change is built on its author's change before it.
    pub(super) fn check_own(&self) -> Result<(), Error> {
        let mut steps = MAX_STEPS.saturating_add(self.len().saturating_mul(STEPS_PER_CHANGE));
        for actor in &self.actors {
            for pair in actor.changes.windows(2) {
                if !self.reaches(self.deps_at(pair[1]), pair[0], &mut steps) {
                    return Err(Error::Corrupt {
                        chunk: ChunkType::Document,
                        part: "change dep row column",
                        row: Some(pair[1]),
                        fault: Fault::NotOnOwn,
                    });
                }
            }
        }
        Ok(())
    }
}

/// [`Inner::all_before`] for the rows of a table.
pub(super) fn all_before(table: &ChangeTable) -> Vec<u32> {
    let mut all_before = Vec::<u32>::with_capacity(table.len());
    let mut is_head = vec![false; table.len()];
    let mut heads = 0_usize;
    for row in 0..table.len() {
        let mut known = 0;
        for &dep in table.deps_at(row) {
            known = known.max(all_before[dep as usize]);
            if std::mem::take(&mut is_head[dep as usize]) {
                heads -= 1;
            }
        }
        is_head[row] = true;
        heads += 1;
        let own = u32::try_from(row).expect("a chunk has fewer than 2^32 changes");
        all_before.push(if heads == 1 { own } else { known });
    }
    all_before
}

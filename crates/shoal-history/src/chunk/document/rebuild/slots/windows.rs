//! From the id of an op to its change.

use super::super::super::change_rows::ChangeTable;
use crate::OpId;

/// The possible counters of each change's ops: above the counters of its dependencies and of the
/// author's change before, up to its greatest op.
pub(super) struct Windows {
    /// Actor after actor.
    windows: Vec<Window>,
    /// The first window of each actor; one more for the end of all.
    starts: Vec<u32>,
    /// The window found last for each actor.
    last: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Window {
    /// The counter below the first.
    before: u32,
    /// The greatest.
    pub(super) end: u32,
    pub(super) change: u32,
}

impl Windows {
    pub(super) fn new(changes: &ChangeTable, actor_count: usize) -> Self {
        let mut starts = vec![0_u32; actor_count + 1];
        for actor in &changes.actors {
            starts[actor.as_usize() + 1] += 1;
        }
        for actor in 0..actor_count {
            starts[actor + 1] += starts[actor];
        }
        let mut next = starts.clone();
        let mut windows = vec![Window::default(); changes.len()];
        for (row, actor) in (0_u32..).zip(&changes.actors) {
            let at = next[actor.as_usize()] as usize;
            next[actor.as_usize()] += 1;
            let own = if at == starts[actor.as_usize()] as usize { 0 } else { windows[at - 1].end };
            let deps = changes.deps_at(row as usize);
            let max_ops = deps.iter().map(|dep| changes.max_ops[*dep as usize]);
            let before = max_ops.fold(own, u32::max);
            windows[at] = Window { before, end: changes.max_ops[row as usize], change: row };
        }
        let last = starts.clone();
        Self { windows, starts, last }
    }

    /// True if the change of `op` comes after the change of `other`; false if either has none.
    pub(super) fn is_later(&mut self, op: OpId, other: OpId) -> bool {
        match (self.find(op), self.find(other)) {
            (Some(window), Some(other)) => window.change > other.change,
            _ => false,
        }
    }

    /// True if `op` is in the change of `other`, or in an earlier one; false if either is in none.
    pub(super) fn is_at_or_before(&mut self, op: OpId, other: OpId) -> bool {
        match (self.find(op), self.find(other)) {
            (Some(window), Some(other)) => window.change <= other.change,
            _ => false,
        }
    }

    /// The change of this op, and the possible counters of its ops; `None` without a change.
    #[inline]
    pub(super) fn find(&mut self, id: OpId) -> Option<Window> {
        let actor = id.actor.as_usize();
        let last = &mut self.last[actor];
        if let Some(window) = self.windows.get(*last as usize)
            && window.before < id.counter
            && id.counter <= window.end
            && *last < self.starts[actor + 1]
        {
            return Some(*window);
        }
        let (start, end) = (self.starts[actor] as usize, self.starts[actor + 1] as usize);
        let windows = &self.windows[start..end];
        // Neighbouring ops of changes with one op each: as far apart as their counters.
        let guess = windows.get((*last as usize).wrapping_sub(start)).map(|window| {
            let distance = i64::from(id.counter) - i64::from(window.end);
            (i64::from(*last) - start as i64).saturating_add(distance)
        });
        let fits = |window: &Window| window.before < id.counter && id.counter <= window.end;
        let found = match guess.and_then(|at| usize::try_from(at).ok()) {
            Some(at) if windows.get(at).is_some_and(fits) => at,
            _ => windows.partition_point(|window| window.end < id.counter),
        };
        match windows.get(found) {
            Some(window) if fits(window) => {
                *last = (start + found) as u32;
                Some(*window)
            }
            _ => None,
        }
    }
}

//! Clocks: the range of each actor's changes in a set closed under dependencies.

use crate::{ActorIdx, OpId};

/// For each [`ActorIdx`] of a graph, how far its changes are covered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    entries: Vec<ClockEntry>,
}

/// How far the changes of one actor are covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockEntry {
    /// The sequence number of the last covered change, 0 for none.
    pub seq: u32,
    /// The counter of its last op, 0 for none.
    pub max_op: u32,
}

impl Clock {
    pub(super) fn new(entries: Vec<ClockEntry>) -> Self {
        Self { entries }
    }

    pub(super) fn set(&mut self, actor: ActorIdx, entry: ClockEntry) {
        self.entries[actor.as_usize()] = entry;
    }

    pub(super) fn raise(&mut self, actor: ActorIdx, entry: ClockEntry) {
        let known = &mut self.entries[actor.as_usize()];
        if entry.seq > known.seq {
            *known = entry;
        }
    }

    /// Covers the range of the other clock, too.
    pub(super) fn raise_all(&mut self, other: &Self) {
        for (actor, entry) in (0..).map(ActorIdx).zip(&other.entries) {
            self.raise(actor, *entry);
        }
    }

    /// The covered range of an actor; nothing for an actor new since the clock was made.
    #[inline]
    pub fn get(&self, actor: ActorIdx) -> ClockEntry {
        self.entries.get(actor.as_usize()).copied().unwrap_or_default()
    }

    /// True if the op is in a covered change.
    #[inline]
    pub fn covers(&self, id: OpId) -> bool {
        id.counter <= self.get(id.actor).max_op
    }

    /// The entries, by actor index.
    pub fn entries(&self) -> &[ClockEntry] {
        &self.entries
    }
}

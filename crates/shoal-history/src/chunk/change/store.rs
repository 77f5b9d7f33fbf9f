//! Memory for the bytes of changes: one piece for as many changes as came together, so a history of
//! many small changes costs no allocation for each.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::Change;
use super::few::Few;
use crate::{ActorId, ChangeHash};

/// The bytes of some changes, and their parsed headers.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The chunks, not compressed.
    pub(super) raw: Vec<u8>,
    pub(super) entries: Few<Entry>,
    /// Actor tables, one after the other; equal neighbours share one.
    pub(super) actors: Few<ActorId>,
    /// Dependencies, change after change.
    pub(super) deps: Few<ChangeHash>,
}

/// The parsed header of one change.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) hash: ChangeHash,
    /// Where its chunk is in the raw bytes.
    pub(crate) start: usize,
    pub(crate) len: u32,
    pub(crate) actors: Span,
    pub(crate) deps: Span,
    pub(crate) seq: u32,
    pub(crate) start_op: u32,
    pub(crate) op_count: u32,
    pub(crate) time: i64,
    /// The next three count from the begin of the chunk.
    pub(crate) message: Span,
    pub(crate) extra: Span,
    pub(crate) column_table: u32,
    /// The result of [`Change::is_canonical`].
    pub(crate) canonical: Canonical,
}

/// The result of one check for canonical bytes. Takes a byte, and no lock.
#[derive(Debug, Default)]
pub(crate) struct Canonical(AtomicU8);

impl Canonical {
    pub(crate) fn known() -> Self {
        Self(AtomicU8::new(2))
    }

    pub(crate) fn get_or(&self, find: impl FnOnce() -> bool) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => {
                let is_canonical = find();
                self.0.store(1 + u8::from(is_canonical), Ordering::Relaxed);
                is_canonical
            }
            known => known == 2,
        }
    }
}

/// A range whose ends have 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Store {
    /// An empty one with room for some changes.
    pub(super) fn with_room(changes: usize, bytes: usize) -> Self {
        Self {
            raw: Vec::with_capacity(bytes),
            entries: Few::with_capacity(changes),
            actors: Few::None,
            deps: Few::with_capacity(changes),
        }
    }

    /// The table of these actors: the table of a recent change, if equal.
    pub(crate) fn add_actors<'a>(
        &mut self,
        actors: impl Iterator<Item = &'a ActorId> + Clone,
    ) -> Span {
        for entry in self.entries.as_slice().iter().rev().take(NEIGHBOURS) {
            if self.actors.as_slice()[entry.actors.range()].iter().eq(actors.clone()) {
                return entry.actors;
            }
        }
        let start = self.actors.len();
        self.actors.extend(actors.cloned());
        Span::new(start..self.actors.len())
    }

    pub(crate) fn add_deps(&mut self, deps: impl Iterator<Item = ChangeHash>) -> Span {
        let start = self.deps.len();
        self.deps.extend(deps);
        Span::new(start..self.deps.len())
    }

    pub(crate) fn add(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn add_raw(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
    }

    pub(crate) fn raw_len(&self) -> usize {
        self.raw.len()
    }

    /// The changes, in order.
    pub(crate) fn into_changes(mut self) -> Vec<Change> {
        self.raw.shrink_to_fit();
        self.actors.shrink_to_fit();
        self.deps.shrink_to_fit();
        self.entries.shrink_to_fit();
        let count = u32::try_from(self.entries.len()).expect("there are fewer than 2^32 changes");
        let store = Arc::new(self);
        (0..count).map(|at| Change { store: store.clone(), at }).collect()
    }

    /// The only change.
    pub(crate) fn into_change(self) -> Change {
        debug_assert_eq!(self.entries.len(), 1);
        Change { store: Arc::new(self), at: 0 }
    }
}

thread_local! {
    /// The actors read last: changes read one by one mostly have the same few.
    static LAST_ACTORS: RefCell<VecDeque<ActorId>> = const { RefCell::new(VecDeque::new()) };
}

/// A longer id is not kept.
const KEPT_ACTOR: usize = 64;

/// The actor with this id.
fn actor(id: &[u8]) -> ActorId {
    LAST_ACTORS.with_borrow_mut(|last| {
        if let Some(known) = last.iter().find(|known| known.as_bytes() == id) {
            return known.clone();
        }
        let actor = ActorId::new(id);
        if id.len() <= KEPT_ACTOR {
            last.truncate(NEIGHBOURS - 1);
            last.push_front(actor.clone());
        }
        actor
    })
}

/// The table of the `count` actors with these ids: the table of a recent change, if equal.
pub(super) fn intern<'a>(
    entries: &Few<Entry>,
    actors: &mut Few<ActorId>,
    ids: impl Iterator<Item = &'a [u8]> + Clone,
    count: usize,
) -> Span {
    for entry in entries.as_slice().iter().rev().take(NEIGHBOURS) {
        let known = &actors.as_slice()[entry.actors.range()];
        if known.len() == count && known.iter().map(ActorId::as_bytes).eq(ids.clone()) {
            return entry.actors;
        }
    }
    let start = actors.len();
    for id in ids {
        let mut known = actors.as_slice().iter().rev().take(NEIGHBOURS);
        let known = known.find(|known| known.as_bytes() == id).cloned();
        actors.push(known.unwrap_or_else(|| actor(id)));
    }
    Span::new(start..actors.len())
}

/// The number of recent changes searched for an equal table.
const NEIGHBOURS: usize = 4;

impl Span {
    pub(crate) fn new(range: Range<usize>) -> Self {
        let offset = |at| u32::try_from(at).expect("a chunk is smaller than 4 GiB");
        Self { start: offset(range.start), end: offset(range.end) }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

//! Changes of one batch: the new ones told apart by author and sequence number. Most batches are
//! one author's changes one after the other, and pay for no look-up by hash.

use std::cell::OnceCell;

use rustc_hash::FxHashMap;
use shoal_history::{ActorId, Change, ChangeGraph, ChangeHash};

use crate::error::Error;
use crate::queue::Queue;

/// The changes of a batch neither in the graph nor waiting.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) changes: Vec<Change>,
    authors: Vec<Author>,
    by_actor: FxHashMap<ActorId, usize>,
    /// The author of the last change.
    last: usize,
    positions: OnceCell<FxHashMap<ChangeHash, u32>>,
}

/// The changes of one author in a batch.
struct Author {
    actor: ActorId,
    /// The sequence number of the author's last change in the graph.
    known: u32,
    /// The place of the change with this sequence number, the first of a series.
    first: u32,
    places: Vec<u32>,
    /// The places of changes out of order, by sequence number.
    others: FxHashMap<u32, u32>,
}

impl Author {
    fn place(&self, seq: u32) -> Option<u32> {
        let at = seq.checked_sub(self.first).map(|at| at as usize);
        at.and_then(|at| self.places.get(at)).or_else(|| self.others.get(&seq)).copied()
    }

    fn insert(&mut self, seq: u32, place: u32) {
        if self.places.is_empty() {
            self.first = seq;
        }
        if seq.checked_sub(self.first).map(|at| at as usize) == Some(self.places.len()) {
            self.places.push(place);
        } else {
            self.others.insert(seq, place);
        }
    }
}

impl Batch {
    /// Takes in an unknown change.
    ///
    /// # Errors
    /// [`Error::OpIdsExhausted`], [`Error::DuplicateSeq`].
    pub(super) fn admit(
        &mut self,
        change: Change,
        graph: &ChangeGraph,
        queue: &Queue,
    ) -> Result<(), Error> {
        let hash = change.hash();
        if !queue.is_empty() && queue.contains(&hash) {
            return Ok(());
        }
        let (actor, seq) = (change.actor(), change.seq());
        let at = self.author(actor, graph);
        let author = &self.authors[at];
        let twin = author.place(seq).map(|place| self.changes[place as usize].hash());
        if twin == Some(hash) {
            return Ok(());
        }
        // A change in the graph is among the author's.
        let is_taken = seq <= author.known;
        if is_taken && graph.contains(&hash) {
            return Ok(());
        }
        // A later change, even without ops, begins one above, and must fit as well.
        if change.max_op() == u32::MAX {
            return Err(Error::OpIdsExhausted);
        }
        if is_taken || twin.is_some() || queue.contains_seq(actor, seq) {
            return Err(Error::DuplicateSeq { change: hash, actor: actor.clone(), seq });
        }
        let place = u32::try_from(self.changes.len()).expect("changes fit 32 bits");
        self.authors[at].insert(seq, place);
        self.changes.push(change);
        Ok(())
    }

    /// The index of `actor` in the batch.
    fn author(&mut self, actor: &ActorId, graph: &ChangeGraph) -> usize {
        if self.authors.get(self.last).is_some_and(|last| last.actor == *actor) {
            return self.last;
        }
        self.last = match self.by_actor.get(actor) {
            Some(&at) => at,
            None => {
                // The first one is found without the table.
                if !self.authors.is_empty() {
                    if let [first] = &self.authors[..] {
                        self.by_actor.insert(first.actor.clone(), 0);
                    }
                    self.by_actor.insert(actor.clone(), self.authors.len());
                }
                self.authors.push(Author {
                    actor: actor.clone(),
                    known: graph.seq_of(actor),
                    first: 0,
                    places: Vec::new(),
                    others: FxHashMap::default(),
                });
                self.authors.len() - 1
            }
        };
        self.last
    }

    /// Where the change with this hash is.
    pub(super) fn position(&self, hash: &ChangeHash) -> Option<u32> {
        let positions =
            self.positions.get_or_init(|| self.changes.iter().map(Change::hash).zip(0..).collect());
        positions.get(hash).copied()
    }

    /// The change before the one at `place`: the dependency of most.
    pub(super) fn before(&self, place: u32) -> Option<(ChangeHash, u32)> {
        let before = place.checked_sub(1)?;
        Some((self.changes.get(before as usize)?.hash(), before))
    }
}

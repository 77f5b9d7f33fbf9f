//! Trying nonces, as many side by side as there are arenas.

use std::ops::Range;

use shoal_argon::{Arena, Job, Options, Pages};

use crate::{Challenge, Error, Solution, TAG_BYTES};

/// Memory for searches, kept from one challenge to the next. One thread searches at a time.
pub struct Search {
    arenas: Vec<Arena>,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The solution with the lowest nonce of the batch.
    pub solution: Option<Solution>,
    /// The first nonce not tried: go on here, also after a solution.
    pub next: u64,
}

impl Search {
    /// Takes and touches the memory for this many hashes side by side, each of `memory_kib`.
    ///
    /// On one thread, four to six beside each other are the fastest, each in memory of its own.
    ///
    /// # Errors
    /// [`Error::NoArena`] for a count of 0, [`Error::Refused`] when the machine has not as much.
    pub fn new(memory_kib: u32, side_by_side: usize) -> Result<Self, Error> {
        let arenas = (0..side_by_side)
            .map(|_| {
                let mut arena = Arena::new(memory_kib)?;
                arena.populate()?;
                Ok(arena)
            })
            .collect::<Result<_, Error>>()?;
        Self::in_arenas(arenas)
    }

    /// Searches in the caller's memory, one hash in each arena.
    ///
    /// # Errors
    /// [`Error::NoArena`] for none.
    pub fn in_arenas(arenas: Vec<Arena>) -> Result<Self, Error> {
        if arenas.is_empty() { Err(Error::NoArena) } else { Ok(Self { arenas }) }
    }

    /// The kind of pages of each arena, and its KiB in huge pages now.
    pub fn pages(&self) -> Vec<(Pages, Option<u64>)> {
        self.arenas.iter().map(|arena| (arena.pages(), arena.huge_kib())).collect()
    }

    /// Hashes computed side by side.
    pub const fn side_by_side(&self) -> usize {
        self.arenas.len()
    }

    /// Tries the nonces of the range, from its start, until one is a solution or all are tried.
    ///
    /// Nonces are tried in order, as many at a time as there are arenas: those after a solution in
    /// the same batch were computed, and a later one among them that is a solution, too, is found
    /// by going on behind the first. [`Found::next`] therefore is the nonce behind the solution.
    ///
    /// # Errors
    /// [`Error::Hash`] when the arenas are too small for the challenge, and when the options
    /// stopped it: the batch under way then counts as not tried.
    pub fn run(
        &mut self,
        challenge: &Challenge,
        nonces: Range<u64>,
        options: &Options<'_>,
    ) -> Result<Found, Error> {
        let mut tags = vec![[0; TAG_BYTES]; self.arenas.len()];
        let mut next = nonces.start;
        while next < nonces.end {
            let count = (nonces.end - next).min(self.arenas.len() as u64) as usize;
            self.tags(challenge, next, &mut tags[..count], options)?;
            for (tag, nonce) in tags[..count].iter().zip(next..) {
                if challenge.target().is_met_by(tag) {
                    let solution = Some(Solution { nonce, tag: *tag });
                    return Ok(Found { solution, next: nonce + 1 });
                }
            }
            next += count as u64;
        }
        Ok(Found { solution: None, next })
    }

    /// The tags of the nonces from `first` on, computed side by side; at most as many as there
    /// are arenas.
    ///
    /// # Errors
    /// As [`Self::run`].
    ///
    /// # Panics
    /// When more tags are asked for than there are arenas, or nonces left.
    pub fn tags(
        &mut self,
        challenge: &Challenge,
        first: u64,
        tags: &mut [[u8; TAG_BYTES]],
        options: &Options<'_>,
    ) -> Result<(), Error> {
        assert!(tags.len() <= self.arenas.len(), "every tag has an arena");
        let passwords: Vec<[u8; 8]> = (0..tags.len() as u64)
            .map(|i| first.checked_add(i).expect("nonces fit 64 bits").to_le_bytes())
            .collect();
        let mut jobs: Vec<Job<'_>> = self
            .arenas
            .iter_mut()
            .zip(&passwords)
            .zip(tags)
            .map(|((arena, password), tag)| Job { arena, inputs: challenge.inputs(password), tag })
            .collect();
        challenge.function().hash_side_by_side(&mut jobs, options)?;
        Ok(())
    }
}

//! A document edited through SQL: its pending edits, at present or at other heads.

use shoal_crdt::{AutoCommit, CommitOptions, Document};
use shoal_history::ChangeHash;

use crate::compact;
use crate::open_document::{Lag, Stored};
use crate::{Environment, Error};

/// A document edited through SQL.
pub(super) struct Doc {
    pub(super) name: String,
    pub(super) document: AutoCommit,
    pub(super) stored: Stored,
    pub(super) lag: Lag,
    /// Bytes that may still be appended before the chunks are looked at, to be compacted.
    pub(super) until_look: u64,
    /// The document has no row yet in the table of documents.
    pub(super) is_new: bool,
    /// Compared with the file since the transaction began.
    pub(super) is_checked: bool,
    /// How often pending edits became changes before the transaction's end: stored, or below edits
    /// at other heads.
    pub(super) flushes: u32,
    /// Changes of the transaction are not stored yet.
    pub(super) is_unstored: bool,
    /// The document before edits at other heads, with the count of flushes then.
    pub(super) before: Vec<(u32, AutoCommit)>,
    pub(super) last_use: u64,
}

impl Doc {
    /// A document read or made for the transaction.
    pub(super) fn new(name: String, environment: &Environment, is_new: bool) -> Doc {
        Doc {
            name,
            document: Document::new(environment.new_actor()).into(),
            stored: Stored::nothing(),
            lag: Lag::unknown(),
            until_look: if is_new { compact::LEAST_BYTES } else { 0 },
            is_new,
            is_checked: is_new,
            flushes: 0,
            is_unstored: false,
            before: Vec::new(),
            last_use: 0,
        }
    }

    /// True where the transaction has edits that are not stored.
    pub(super) fn has_edits(&self) -> bool {
        self.is_new || self.is_unstored || self.document.is_pending()
    }

    /// Goes on with the edits at `heads`, or begins them; gives the heads before, if it begins.
    pub(super) fn isolate(
        &mut self,
        heads: &[ChangeHash],
        environment: &Environment,
    ) -> Result<Option<Vec<ChangeHash>>, Error> {
        if self.document.isolation() == Some(heads) {
            return Ok(None);
        }
        self.integrate(environment);
        self.before.push((self.flushes, self.document.clone()));
        self.flushes += 1;
        self.is_unstored |= self.document.is_pending();
        self.commit(environment);
        let present = self.document.document().heads();
        self.document.isolate(heads)?;
        Ok(Some(present))
    }

    /// Merges the edits at other heads.
    pub(super) fn integrate(&mut self, environment: &Environment) {
        if self.document.isolation().is_some() {
            self.is_unstored |= self.document.is_pending();
            self.commit(environment);
            self.document.integrate();
        }
    }

    /// Makes the pending edits a change.
    pub(super) fn commit(&mut self, environment: &Environment) {
        let options = CommitOptions::default().with_time(environment.now_seconds());
        self.document.commit_with(options);
    }

    /// Goes back to when there were so many flushes; false where that state is not at hand.
    pub(super) fn go_back(&mut self, flushes: u32) -> bool {
        if self.flushes == flushes {
            return true;
        }
        let Some(place) = self.before.iter().position(|(then, _)| *then == flushes) else {
            return false;
        };
        self.before.truncate(place + 1);
        let Some((_, document)) = self.before.pop() else { return false };
        (self.document, self.flushes) = (document, flushes);
        self.is_unstored = !self.before.is_empty();
        true
    }
}

//! Authors: who is behind the actors.

use std::sync::Arc;

use shoal_history::{ActorId, Change};

use crate::document::Document;
use crate::error::Error;

impl Document {
    /// The author whom the document's actor names, or will name in their first change.
    pub fn author(&self) -> Option<&[u8]> {
        match self.author_of(self.actor()) {
            Some(author) => Some(author),
            None => self.author.as_deref(),
        }
    }

    /// Makes `actor` the author's actor here: the actor's first change will name the author. Any
    /// bytes known to the program will do as the name.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// doc.set_author(Some(b"ada"), ActorId::new(&[2]))?;
    /// let mut tx = doc.transaction();
    /// tx.put(&ROOT, "a", 1_i64)?;
    /// tx.commit(CommitOptions::default());
    /// assert_eq!(doc.author_of(&ActorId::new(&[2])), Some(&b"ada"[..]));
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AuthorSettled`] for an actor with a change already: the first change names the
    /// author, or leaves the author open for good.
    pub fn set_author(&mut self, author: Option<&[u8]>, actor: ActorId) -> Result<(), Error> {
        if self.graph.seq_of(&actor) > 0 {
            return Err(Error::AuthorSettled { actor });
        }
        self.author = author.map(Arc::from);
        self.set_actor(actor);
        Ok(())
    }

    /// The author whom the actor's first change names.
    pub fn author_of(&self, actor: &ActorId) -> Option<&[u8]> {
        self.graph.change_of(actor, 1)?.author()
    }

    /// The actors whose first change names `author`, in the order of their bytes. O(a) for `a`
    /// actors.
    pub fn actors_of(&self, author: &[u8]) -> Vec<&ActorId> {
        let is_theirs = |actor: &&ActorId| self.author_of(actor) == Some(author);
        let mut actors: Vec<&ActorId> = self.authors().filter(is_theirs).collect();
        actors.sort_unstable();
        actors
    }

    /// Every author named by a change, with the naming actors, in the order of their bytes.
    pub fn named_authors(&self) -> Vec<(&[u8], Vec<&ActorId>)> {
        let mut named: Vec<(&[u8], &ActorId)> =
            self.authors().filter_map(|actor| Some((self.author_of(actor)?, actor))).collect();
        named.sort_unstable();
        let mut authors: Vec<(&[u8], Vec<&ActorId>)> = Vec::new();
        for (author, actor) in named {
            match authors.last_mut() {
                Some((last, actors)) if *last == author => actors.push(actor),
                _ => authors.push((author, vec![actor])),
            }
        }
        authors
    }

    /// The extra bytes of the change with this number among its actor's.
    pub(crate) fn extra_bytes(&self, seq: u32) -> Vec<u8> {
        match &self.author {
            Some(author) if seq == 1 => Change::author_bytes(author),
            _ => Vec::new(),
        }
    }
}

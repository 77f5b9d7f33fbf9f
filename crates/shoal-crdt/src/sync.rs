//! The sync protocol on documents: messages for a peer, and messages from a peer.

use shoal_history::{SyncMessage, SyncState};

use crate::document::Document;
use crate::error::Error;
use crate::save::SaveOptions;

impl Document {
    /// The next message for the peer of `state`, or `None` with nothing to send, or with an answer
    /// awaited. Ask again after every received message and after every change here.
    ///
    /// Messages must arrive whole and in order. On a new connection go on with a state
    /// encoded and decoded.
    ///
    /// Cost: the difference of the peers; a peer lacking much of the document gets all of it, at
    /// the cost of saving.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SyncMessage, SyncState};
    ///
    /// let mut docs = [Document::new(ActorId::new(&[1])), Document::new(ActorId::new(&[2]))];
    /// for (doc, key) in docs.iter_mut().zip(["a", "b"]) {
    ///     let mut tx = doc.transaction();
    ///     tx.put(&ROOT, key, 1)?;
    ///     tx.commit(CommitOptions::default());
    /// }
    /// let mut states = [SyncState::new(), SyncState::new()];
    /// loop {
    ///     let mut is_quiet = true;
    ///     for (from, to) in [(0, 1), (1, 0)] {
    ///         if let Some(message) = docs[from].generate_sync_message(&mut states[from]) {
    ///             is_quiet = false;
    ///             let received = SyncMessage::decode(&message.encode())?;
    ///             docs[to].receive_sync_message(&mut states[to], received)?;
    ///         }
    ///     }
    ///     if is_quiet {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(docs[0].heads(), docs[1].heads());
    /// assert!(docs[0].has_our_changes(&states[0]));
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    pub fn generate_sync_message(&self, state: &mut SyncState) -> Option<SyncMessage> {
        state.generate(
            &self.graph,
            |heads| self.queue.missing_from(&self.graph, heads),
            || self.to_bytes(SaveOptions::default()),
        )
    }

    /// Takes in a message of the peer of `state`. Changes with missing dependencies wait, and the
    /// dependencies are asked for. Cost: taking in the changes of the message.
    ///
    /// # Errors
    /// As [`Document::load_incremental`], when the message holds bad changes: then the message or
    /// the peer is at fault, the document is as before, and so is the knowledge of the peer's
    /// changes in `state`. Good changes ahead of unreadable chunks are applied, without an error.
    pub fn receive_sync_message(
        &mut self,
        state: &mut SyncState,
        message: SyncMessage,
    ) -> Result<(), Error> {
        let heads_before = self.heads();
        if state.begin_receive(&message) {
            self.load_incremental(message.changes.as_bytes())?;
        }
        state.finish_receive(message, &self.graph, &heads_before);
        Ok(())
    }

    /// True if the peer of `state` is known to have every change here.
    pub fn has_our_changes(&self, state: &SyncState) -> bool {
        state.has_all_of(&self.graph)
    }
}

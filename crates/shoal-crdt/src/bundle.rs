//! Some changes of a document as one bundle.

use shoal_history::{ActorIdx, BundleWriter, ChangeHash, ObjId as StoredObjId, OpId};

use crate::document::Document;
use crate::error::Error;
use crate::opset::Data;

impl Document {
    /// The changes `hashes` as a bundle: a chunk that holds them in columns, in less room than one by
    /// one, and that every way of loading takes. What they depend on need not be among them.
    ///
    /// Bundles are experimental in the reference: good for sending, not for files that are to last.
    /// Cost: O(n log n) in the ops of the changes.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut copy = doc.fork(ActorId::new(&[2]));
    /// let mut hashes = Vec::new();
    /// for n in 0..3_i64 {
    ///     let mut tx = doc.transaction();
    ///     tx.put(&ROOT, "n", n)?;
    ///     hashes.extend(tx.commit(CommitOptions::default()));
    /// }
    /// copy.load_incremental(&doc.bundle(&hashes)?)?;
    /// assert_eq!(copy.heads(), doc.heads());
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownHead`] for a change that is not here; [`Error::History`] for one that was not
    /// encoded canonically ([`shoal_history::Change::is_canonical`]), which a bundle cannot hold.
    pub fn bundle(&self, hashes: &[ChangeHash]) -> Result<Vec<u8>, Error> {
        if let Some(missing) = hashes.iter().find(|hash| !self.graph.contains(hash)) {
            return Err(Error::UnknownHead(*missing));
        }
        let writer = BundleWriter::new(self.graph.in_order(hashes))?;
        let local: Vec<Option<ActorIdx>> =
            writer.actors().iter().map(|actor| self.ops.actors.lookup(actor)).collect();
        let known = |id: OpId| Some(OpId { actor: local[id.actor.as_usize()]?, ..id });
        let rank = |obj: OpId, elem: OpId| {
            let object = self.ops.object(self.ops.find(StoredObjId::Op(known(obj)?))?);
            let Data::Sequence(sequence) = &object.data else { return None };
            Some(sequence.rank_of(sequence.locate(known(elem)?)?))
        };
        Ok(writer.finish(|obj, elem| rank(obj, elem).unwrap_or_default())?)
    }
}

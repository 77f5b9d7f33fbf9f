//! Some changes of a document as one bundle, and the parts of a history worth one.

use std::ops::RangeBounds;

use shoal_history::{ActorIdx, BundleWriter, ChangeHash, Fragment, ObjId as StoredObjId, OpId};

use crate::document::Document;
use crate::error::Error;
use crate::opset::Data;

impl Document {
    /// The changes `hashes` as a bundle: a chunk of columns, smaller than the changes one by one,
    /// and accepted by every way of loading. Their dependencies need not be among them.
    ///
    /// Bundles are experimental in the reference: good for sending, not for lasting files. Cost:
    /// O(n log n) in the ops of the changes.
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
    /// [`Error::UnknownHead`] for an unknown change; [`Error::History`] for a change not encoded
    /// canonically ([`shoal_history::Change::is_canonical`]), for lack of a place in a bundle.
    pub fn bundle(&self, hashes: &[ChangeHash]) -> Result<Vec<u8>, Error> {
        if let Some(missing) = hashes.iter().find(|hash| !self.graph.contains(hash)) {
            return Err(Error::UnknownHead(*missing));
        }
        let writer = BundleWriter::new(self.graph.in_order(hashes))?;
        let local: Vec<Option<ActorIdx>> =
            writer.actors().iter().map(|actor| self.ops.actors.lookup(actor)).collect();
        let known = |id: OpId| Some(OpId { actor: local[id.actor.as_usize()]?, ..id });
        let rank = |obj: OpId, elem: OpId| {
            let object = self.ops.find(StoredObjId::Op(known(obj)?))?;
            let Data::Sequence(sequence) = self.ops.data(object) else { return None };
            Some(sequence.rank_of(sequence.locate(known(elem)?)?))
        };
        Ok(writer.finish(|obj, elem| rank(obj, elem).unwrap_or_default())?)
    }

    /// The fragments of these levels: the history cut at the hashes of its changes, the oldest
    /// first; at level 0 the changes on their own outside of all fragments. Peers with the same
    /// changes cut them alike. Experimental in the reference. See
    /// [`shoal_history::ChangeGraph::fragments`] for the cost.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, AutoCommit, Document, ROOT, Transactable};
    ///
    /// let mut doc = AutoCommit::new(ActorId::new(&[1]));
    /// for n in 0..600_i64 {
    ///     doc.put(&ROOT, "n", n)?;
    ///     doc.commit();
    /// }
    /// let doc = doc.document();
    /// let mut copy = Document::new(ActorId::new(&[2]));
    /// for bytes in doc.bundle_fragments(&doc.fragments(..))? {
    ///     copy.load_incremental(&bytes)?;
    /// }
    /// assert_eq!(copy.heads(), doc.heads());
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    pub fn fragments(&self, levels: impl RangeBounds<usize>) -> Vec<Fragment> {
        self.graph.fragments(levels)
    }

    /// The fragment with this head; a change whose hash does not begin with a zero byte is one
    /// alone.
    pub fn get_fragment(&self, head: &ChangeHash) -> Option<Fragment> {
        self.graph.fragment(head)
    }

    /// Each fragment as bytes, for [`Document::load_incremental`]: a change on its own as its
    /// chunk, others as bundles.
    ///
    /// # Errors
    /// As [`Document::bundle`].
    pub fn bundle_fragments<'f>(
        &self,
        fragments: impl IntoIterator<Item = &'f Fragment>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let bytes = |fragment: &Fragment| match &fragment.members[..] {
            [alone] if fragment.level == 0 => {
                let change = self.graph.get(alone).ok_or(Error::UnknownHead(*alone))?;
                Ok(change.bytes().into_owned())
            }
            members => self.bundle(members),
        };
        fragments.into_iter().map(bytes).collect()
    }
}

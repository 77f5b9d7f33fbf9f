//! Rescuing the readable parts of a damaged file.

use rustc_hash::FxHashSet;
use shoal_history::{
    ActorId, Change, ChangeHash, Chunk, DocumentChunk, Limits, Salvaged, Verify, salvage,
};

use crate::document::Document;
use crate::error::Error;
use crate::hydrate;
use crate::id::ROOT;
use crate::read_doc::ReadDoc;
use crate::transaction::CommitOptions;
use crate::value::TextEncoding;

/// The result of [`Document::rescue`].
#[derive(Clone, Debug)]
pub struct Rescue {
    /// The readable part. Changes with lost dependencies wait.
    pub document: Document,
    /// The lost parts, in the order of the file.
    pub lost: Vec<Loss>,
}

/// A part of a damaged file, lost or altered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Loss {
    /// Bytes without a readable chunk.
    #[error("bytes {start} to {end}: {error}")]
    Bytes {
        /// Where they begin.
        start: usize,
        /// Where they end.
        end: usize,
        /// The fault.
        error: Error,
    },
    /// The changes of a document chunk are not, or may not be, the changes at saving: their hashes
    /// do not give the stored heads. The values are there; peers will take the changes for others.
    #[error("bytes {start} to {end}: {error}; its values are there, under other hashes")]
    Hashes {
        /// Where the chunk begins.
        start: usize,
        /// The end.
        end: usize,
        /// The fault behind the verdict.
        error: Error,
    },
    /// The history of a document chunk contradicts itself. Its values are there, written as one new
    /// change; marks, blocks and conflicts are not.
    #[error("bytes {start} to {end}: {error}; its values are there, without their history")]
    History {
        /// Where the chunk begins.
        start: usize,
        /// The end.
        end: usize,
        /// The contradiction.
        error: Error,
    },
    /// A readable change in contradiction to the others.
    #[error("change {hash} contradicts the rest")]
    Change {
        /// Its hash.
        hash: ChangeHash,
        /// The contradiction, unless found only after others came.
        error: Option<Error>,
    },
    /// A dependency of other changes missing from the file.
    #[error("missing: change {hash}")]
    Missing {
        /// Its hash.
        hash: ChangeHash,
    },
}

impl Document {
    /// Loads the readable parts of a damaged file, and reports the lost ones. Unreadable chunks are
    /// skipped; the next chunk is searched by its first bytes. Never fails: from bytes unrelated to
    /// Automerge, everything is lost.
    ///
    /// Texts of the result are indexed in the unit `encoding`. Cost: at most about sixteen times
    /// loading a sound file of the same size.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, Limits, ROOT, TextEncoding};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut tx = doc.transaction();
    /// tx.put(&ROOT, "a", 1_i64)?;
    /// tx.commit(CommitOptions::default());
    /// let mut file = doc.save();
    /// file.extend_from_slice(b"what an editor added");
    /// let actor = ActorId::new(&[2]);
    /// let rescue = Document::rescue(&file, actor, TextEncoding::default(), &Limits::default());
    /// assert_eq!(rescue.document.heads(), doc.heads());
    /// assert_eq!(rescue.lost.len(), 1);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    pub fn rescue(bytes: &[u8], actor: ActorId, encoding: TextEncoding, limits: &Limits) -> Rescue {
        let document = Self::with_encoding(actor, encoding);
        let mut rescue = Rescue { document, lost: Vec::new() };
        rescue.document.set_max_depth(limits.max_depth);
        let mut changes = Vec::new();
        let mut values = Vec::new();
        for salvaged in salvage(bytes, limits) {
            match salvaged {
                Salvaged::Lost { start, end, error } => {
                    rescue.lost.push(Loss::Bytes { start, end, error: error.into() });
                }
                Salvaged::Unordered { start, end, chunk, error } => {
                    match rescue.values_of(&chunk) {
                        Ok(value) => {
                            values.push(value);
                            let error = error.into();
                            rescue.lost.push(Loss::History { start, end, error });
                        }
                        Err(error) => rescue.lost.push(Loss::Bytes { start, end, error }),
                    }
                }
                Salvaged::Chunk { start, end, chunk } => match chunk {
                    Chunk::Change(change) => changes.push(change),
                    Chunk::Bundle(bundle) => changes.extend(bundle.into_changes()),
                    Chunk::Document(chunk) => {
                        changes.extend(rescue.document_chunk(&chunk, start, end));
                    }
                    _ => {}
                },
            }
        }
        rescue.apply(changes);
        for value in values {
            rescue.write(&value);
        }
        let missing = rescue.document.missing_deps(&[]);
        rescue.lost.extend(missing.into_iter().map(|hash| Loss::Missing { hash }));
        rescue.document.saved_heads = rescue.document.heads();
        rescue
    }
}

impl Rescue {
    /// Takes in a document chunk: as a whole if found first, else, and if the whole fails, as the
    /// returned changes.
    fn document_chunk(&mut self, chunk: &DocumentChunk, start: usize, end: usize) -> Vec<Change> {
        if self.document.is_empty() {
            let mut loaded = self.empty();
            if loaded.load_document(chunk, Verify::Heads).is_ok() {
                self.document = loaded;
                return Vec::new();
            }
        }
        let error = match chunk.changes(Verify::Heads) {
            Ok(changes) => return changes,
            Err(error) => error.into(),
        };
        match chunk.changes(Verify::Nothing) {
            Ok(changes) => {
                self.lost.push(Loss::Hashes { start, end, error });
                changes
            }
            Err(error) => {
                let error = error.into();
                self.lost.push(Loss::Bytes { start, end, error });
                Vec::new()
            }
        }
    }

    fn empty(&self) -> Document {
        let document = &self.document;
        let mut empty = Document::with_encoding(document.actor().clone(), document.text_encoding());
        empty.set_limits(*document.limits());
        empty
    }

    /// Applies the changes, without the ones refused.
    fn apply(&mut self, changes: Vec<Change>) {
        if self.document.apply_changes(changes.clone()).is_ok() {
            return;
        }
        let hashes: Vec<ChangeHash> = changes.iter().map(Change::hash).collect();
        let mut refused = FxHashSet::default();
        for change in changes {
            let hash = change.hash();
            if let Err(error) = self.document.apply_changes([change])
                && refused.insert(hash)
            {
                self.lost.push(Loss::Change { hash, error: Some(error) });
            }
        }
        for hash in hashes {
            let document = &self.document;
            if !document.graph.contains(&hash)
                && !document.queue.contains(&hash)
                && refused.insert(hash)
            {
                self.lost.push(Loss::Change { hash, error: None });
            }
        }
    }

    /// The values of a chunk whose history cannot be kept.
    fn values_of(&self, chunk: &DocumentChunk) -> Result<hydrate::Value, Error> {
        let mut loaded = self.empty();
        loaded.load_document(chunk, Verify::Nothing)?;
        ReadDoc::hydrate(&loaded, &ROOT)
    }

    /// Writes the entries of a map into the root.
    fn write(&mut self, value: &hydrate::Value) {
        let hydrate::Value::Map(entries) = value else { return };
        let mut tx = self.document.transaction();
        // Fails only for lack of op ids.
        if entries.iter().all(|(key, value)| tx.put_value(&ROOT, key, value).is_ok()) {
            tx.commit(CommitOptions::default());
        }
    }
}

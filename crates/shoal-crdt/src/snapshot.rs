//! Documents to be read while somebody else writes.

use std::sync::Arc;

use shoal_history::ChangeHash;

use crate::document::Document;
use crate::read_doc::ReadDoc;
use crate::view::View;

/// A document as of the call of [`Document::snapshot`]. Later edits of the document do not show;
/// any number of threads read without waiting for each other or for a writer. Cheap to clone.
///
/// ```
/// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, ReadDoc};
///
/// let mut doc = Document::new(ActorId::new(&[1]));
/// let mut tx = doc.transaction();
/// tx.put(&ROOT, "n", 1_i64)?;
/// tx.commit(CommitOptions::default());
/// let snapshot = doc.snapshot();
/// let reader = std::thread::spawn(move || snapshot.length(&ROOT));
/// let mut tx = doc.transaction();
/// tx.delete(&ROOT, "n")?;
/// tx.commit(CommitOptions::default());
/// assert_eq!(reader.join().unwrap()?, 1);
/// # Ok::<(), shoal_crdt::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<Document>);

impl Document {
    /// The document at present, to be read for any length of time. O(1): the snapshot shares its
    /// state with the document, and the document copies the parts written to in the meantime.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Arc::new(self.clone()))
    }
}

impl Snapshot {
    /// The heads at the time of the snapshot.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.0.heads()
    }

    /// The document, for calls of its own.
    pub fn document(&self) -> &Document {
        &self.0
    }
}

impl ReadDoc for Snapshot {
    fn view(&self) -> View<'_> {
        self.0.view()
    }
}

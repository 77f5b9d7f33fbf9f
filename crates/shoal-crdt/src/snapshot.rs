//! Documents that are read while somebody else writes.

use std::sync::Arc;

use shoal_history::ChangeHash;

use crate::document::Document;
use crate::read_doc::ReadDoc;
use crate::view::View;

/// A document as it was when [`Document::snapshot`] was called. Whatever is done to the document
/// since, this stays as it is; any number of threads read it, and none waits for another, nor for
/// who writes. Cheap to clone.
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
    /// The document as it is, to be read for as long as one likes. O(1): it shares what it has with
    /// the document, which copies the parts that it writes to while somebody holds them.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(Arc::new(self.clone()))
    }
}

impl Snapshot {
    /// The heads it was taken at.
    pub fn heads(&self) -> Vec<ChangeHash> {
        self.0.heads()
    }

    /// The document, to call what only it has.
    pub fn document(&self) -> &Document {
        &self.0
    }
}

impl ReadDoc for Snapshot {
    fn view(&self) -> View<'_> {
        self.0.view()
    }
}

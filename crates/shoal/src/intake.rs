//! Stored chunks on their way into a document.

use shoal_crdt::{Document, LoadOptions, Verify};
use shoal_history::{Change, ChangeHash, Limits};

use crate::Error;
use crate::tables::CHUNK;

/// The limits of chunks that were within them on arrival, or are one's own.
fn limits() -> Limits {
    Limits { by_size: None, ..Limits::default() }
}

/// Takes chunks into a document, in their order. Neighbouring changes are applied together. The
/// changes of a document chunk are hashed when asked for: they were when the chunk was stored.
pub(crate) struct Intake<'d> {
    document: &'d mut Document,
    changes: Vec<Change>,
    /// The hashes of the chunks that were one change each.
    taken: Vec<ChangeHash>,
}

impl<'d> Intake<'d> {
    pub(crate) fn new(document: &'d mut Document) -> Self {
        Intake { document, changes: Vec::new(), taken: Vec::new() }
    }

    /// Takes the chunk of the row `rowid`.
    ///
    /// # Errors
    /// [`Error::Chunk`] and [`Error::DocumentChunk`] for bytes of no chunk, or of a broken one.
    pub(crate) fn take(&mut self, rowid: i64, bytes: &[u8]) -> Result<(), Error> {
        if is_change(bytes) {
            let change = Change::from_bytes_within(bytes, &limits())
                .map_err(|source| Error::Chunk { table: CHUNK, rowid, source })?;
            self.taken.push(change.hash());
            self.changes.push(change);
            return Ok(());
        }
        let options = LoadOptions {
            limits: limits(),
            encoding: self.document.text_encoding(),
            verify: Verify::Later,
            ..LoadOptions::default()
        };
        let broken = |source| Error::DocumentChunk { table: CHUNK, rowid, source };
        let mut loaded =
            Document::load(bytes, self.document.actor().clone(), &options).map_err(broken)?;
        if self.document.is_empty() && self.changes.is_empty() {
            loaded.set_limits(*self.document.limits());
            *self.document = loaded;
        } else {
            self.apply()?;
            self.document.merge(&loaded)?;
        }
        Ok(())
    }

    fn apply(&mut self) -> Result<(), Error> {
        self.document.apply_changes(std::mem::take(&mut self.changes))?;
        Ok(())
    }

    /// Applies the changes taken last; gives the hashes of all chunks of one change.
    ///
    /// # Errors
    /// [`Error::Document`] for changes at odds with each other.
    pub(crate) fn finish(mut self) -> Result<Vec<ChangeHash>, Error> {
        self.apply()?;
        Ok(self.taken)
    }
}

/// True for a chunk of one change, compressed or not.
pub(crate) fn is_change(bytes: &[u8]) -> bool {
    // Four bytes of magic, four of the checksum, then the type.
    matches!(bytes.get(8), Some(1 | 2))
}

//! Rights of connections to documents.

use std::collections::BTreeMap;

use crate::DocumentId;

/// The rights to one document, ascending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rights {
    /// Nothing; the document does not seem to exist.
    #[default]
    None,
    /// Read; changes are ignored.
    Read,
    /// Read and change.
    Write,
}

/// The rights of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The rights to documents without an entry.
    pub others: Rights,
    /// The rights to single documents.
    pub documents: BTreeMap<DocumentId, Rights>,
}

impl Access {
    /// Reading and writing every document.
    pub const fn all() -> Self {
        Self { others: Rights::Write, documents: BTreeMap::new() }
    }

    /// The rights to a document.
    pub fn to(&self, document: &DocumentId) -> Rights {
        self.documents.get(document).copied().unwrap_or(self.others)
    }
}

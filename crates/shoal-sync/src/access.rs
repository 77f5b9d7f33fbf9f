//! Who may do what with which documents.

use std::collections::BTreeMap;

use crate::DocumentId;

/// What a connection may do with a document. Ordered: who may write may read.
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

/// What a connection may do.
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

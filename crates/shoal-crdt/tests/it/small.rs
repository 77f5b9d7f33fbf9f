//! Documents of a few edits, as tests of single behaviours make them.

use shoal_crdt::{ActorId, AutoCommit, Document, LoadOptions, ROOT, ReadDoc};

pub(crate) fn new(number: u8) -> AutoCommit {
    AutoCommit::new(ActorId::new(&[number]))
}

pub(crate) fn show(doc: &impl ReadDoc) -> serde_json::Value {
    serde_json::to_value(doc.hydrate(&ROOT).unwrap()).unwrap()
}

pub(crate) fn load(bytes: &[u8]) -> Document {
    Document::load(bytes, ActorId::new(&[99]), &LoadOptions::default()).unwrap()
}

//! Editing traces: what real authors typed, keystroke by keystroke (josephg/editing-traces).

use std::io::Read;

use serde::Deserialize;

/// One recorded history of a text.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The text before the first edit.
    #[serde(default)]
    pub start_content: String,
    /// The text after the last edit; every replay must end here.
    pub end_content: String,
    /// The edits in the order they were made.
    pub txns: Vec<Txn>,
}

/// Edits that were made at one moment by one author.
#[derive(Clone, Debug, Deserialize)]
pub struct Txn {
    /// The rows of `txns` that this one follows; empty in a sequential trace.
    #[serde(default)]
    pub parents: Vec<usize>,
    /// The author, counted from 0; always 0 in a sequential trace.
    #[serde(default)]
    pub agent: usize,
    /// The edits, each applied to the result of the one before.
    pub patches: Vec<Patch>,
}

/// One edit: at `0` (in code points), delete `1` code points, then insert `2`.
#[derive(Clone, Debug, Deserialize)]
pub struct Patch(pub usize, pub usize, pub String);

impl Trace {
    /// Loads `testdata/traces/<name>.json.gz`, for example `sequential/automerge-paper`.
    ///
    /// # Panics
    /// When the file is missing or is no trace.
    pub fn load(name: &str) -> Self {
        let path = crate::testdata(&format!("traces/{name}.json.gz"));
        let packed = std::fs::read(&path)
            .unwrap_or_else(|error| panic!("trace {} cannot be read: {error}", path.display()));
        let mut json = String::new();
        flate2::read::GzDecoder::new(packed.as_slice())
            .read_to_string(&mut json)
            .expect("a trace is gzipped UTF-8");
        serde_json::from_str(&json).expect("a trace has the published shape")
    }

    /// Every patch of the trace in order.
    pub fn patches(&self) -> impl Iterator<Item = &Patch> {
        self.txns.iter().flat_map(|txn| &txn.patches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automerge_paper_has_the_published_counts() {
        let trace = Trace::load("sequential/automerge-paper");
        let inserted: usize = trace.patches().map(|patch| patch.2.chars().count()).sum();
        let deleted: usize = trace.patches().map(|patch| patch.1).sum();
        assert_eq!((inserted, deleted), (182_315, 77_463));
        assert_eq!(trace.end_content.chars().count(), 104_852);
    }
}

//! The shadow tables of one index, as rows: read and written by whoever keeps them.

use crate::error::Result;

/// A value of `%_config`.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
}

/// Some columns of documents that lie one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Documents {
    rowids: Vec<i64>,
    /// The end of each text in `bytes`, texts of a document side by side.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Documents {
    /// Forgets all documents.
    pub fn clear(&mut self) {
        self.rowids.clear();
        self.ends.clear();
        self.bytes.clear();
    }

    /// Begins a document, whose texts follow.
    pub fn begin(&mut self, rowid: i64) {
        self.rowids.push(rowid);
    }

    /// Appends a text of the document begun last.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of all texts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True without documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rowids.is_empty()
    }

    /// The rowids of the documents.
    #[must_use]
    pub fn rowids(&self) -> &[i64] {
        &self.rowids
    }

    /// The text at a place among those pushed.
    #[must_use]
    pub fn text(&self, place: usize) -> &[u8] {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[place]]
    }
}

/// The shadow tables of one index, and the texts of its documents.
///
/// Methods take `&self`: cursors and buffers are the implementation's. Nothing is kept between two
/// calls by the index, so that an implementation may answer from a transaction that just began.
pub trait Storage {
    /// Replaces `into` by the block of `%_data` row `id`; false and an empty buffer without one.
    ///
    /// # Errors
    /// Faults of the storage.
    fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<bool>;
    /// Writes row `id` of `%_data`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn put_block(&self, id: i64, bytes: &[u8]) -> Result<()>;
    /// Removes the rows of `%_data` from `first` to `last`, both included.
    ///
    /// # Errors
    /// Faults of the storage.
    fn remove_blocks(&self, first: i64, last: i64) -> Result<()>;
    /// Column `pgno` of the `%_idx` entry of `segment` with the largest term up to `term`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn seek_leaf(&self, segment: u32, term: &[u8]) -> Result<Option<i64>>;
    /// All `%_idx` entries of `segment`, ascending: term and `pgno`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn leaves(&self, segment: u32) -> Result<Vec<(Vec<u8>, i64)>>;
    /// Writes an entry of `%_idx`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn put_leaf(&self, segment: u32, term: &[u8], leaf: i64) -> Result<()>;
    /// Removes all `%_idx` entries of `segment`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn remove_leaves(&self, segment: u32) -> Result<()>;
    /// Replaces `into` by the sizes of a document in `%_docsize`; false without a row.
    ///
    /// # Errors
    /// Faults of the storage.
    fn sizes(&self, rowid: i64, into: &mut Vec<u8>) -> Result<bool>;
    /// Column `origin` of a row of `%_docsize`, in tables with `contentless_delete=1`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn origin(&self, rowid: i64) -> Result<Option<i64>>;
    /// Writes a row of `%_docsize`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn put_sizes(&self, rowid: i64, sizes: &[u8], origin: Option<i64>) -> Result<()>;
    /// Removes a row of `%_docsize`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn remove_sizes(&self, rowid: i64) -> Result<()>;
    /// Removes all rows of `%_data`, `%_idx` and `%_docsize`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn clear(&self) -> Result<()>;
    /// The count of rows in `%_docsize`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn sizes_count(&self) -> Result<u64>;
    /// All rows of `%_config`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn settings(&self) -> Result<Vec<(String, Setting)>>;
    /// Writes a row of `%_config`.
    ///
    /// # Errors
    /// Faults of the storage.
    fn put_setting(&self, name: &str, value: &Setting) -> Result<()>;
    /// Replaces `into` by a column of a document as text; false without the document. NULL is
    /// empty; a number is its text; a blob its bytes.
    ///
    /// # Errors
    /// Faults of the storage.
    fn text(&self, rowid: i64, column: usize, into: &mut Vec<u8>) -> Result<bool>;
    /// The first document after `rowid`, or of all.
    ///
    /// # Errors
    /// Faults of the storage.
    fn document_after(&self, rowid: Option<i64>) -> Result<Option<i64>>;
    /// Replaces `into` by documents after `rowid`, or from the first on: at least one, where there
    /// is any. `columns` are read.
    ///
    /// # Errors
    /// Faults of the storage.
    fn documents_after(
        &self,
        rowid: Option<i64>,
        columns: &[usize],
        into: &mut Documents,
    ) -> Result<()> {
        into.clear();
        let Some(found) = self.document_after(rowid)? else { return Ok(()) };
        let mut text = Vec::new();
        into.begin(found);
        for &column in columns {
            self.text(found, column, &mut text)?;
            into.push(&text);
        }
        Ok(())
    }
}

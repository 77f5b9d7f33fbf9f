//! The changes of a loaded graph: columns, shared by all copies of the graph. The bytes of the
//! changes, and the hashes unless verified, are made on demand.

use std::sync::{Arc, OnceLock};

use super::index::HashIndex;
use crate::chunk::{ChangeTable, DocumentSource, Hashes, Verify};
use crate::{Change, ChangeHash, DocumentChunk, Error};

/// The changes of a document chunk, by row.
#[derive(Debug)]
pub(super) struct Base {
    /// With actors by their index in the graph.
    pub(super) table: Arc<ChangeTable>,
    source: DocumentSource,
    /// The heads of the chunk with their rows, known without any hashing; ascending.
    heads: Vec<(ChangeHash, u32)>,
    hashes: OnceLock<Result<Hashes, Error>>,
    index: OnceLock<HashIndex>,
    changes: OnceLock<Vec<Change>>,
    all_before: OnceLock<Vec<u32>>,
}

impl Base {
    pub(super) fn new(
        chunk: &DocumentChunk,
        table: Arc<ChangeTable>,
        verify: Verify,
    ) -> Result<Self, Error> {
        let hashes = OnceLock::new();
        if verify != Verify::Later {
            let known = chunk.hashes(verify)?;
            hashes.get_or_init(|| Ok(known));
        }
        let source = chunk.source();
        // Heads nobody compares may be wrong.
        let heads = chunk.head_places().filter(|_| verify != Verify::Nothing);
        let mut heads: Vec<(ChangeHash, u32)> = heads.into_iter().flatten().collect();
        heads.sort_unstable();
        Ok(Self {
            table,
            source,
            heads,
            hashes,
            index: OnceLock::new(),
            changes: OnceLock::new(),
            all_before: OnceLock::new(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The hashes. Cost: rebuilding all changes the first time, unless verified.
    ///
    /// # Errors
    /// For changes impossible to rebuild, or without the heads of the chunk.
    pub(super) fn hashes(&self) -> Result<&Hashes, Error> {
        let hashes = self.hashes.get_or_init(|| self.source.read()?.hashes(Verify::Heads));
        hashes.as_ref().map_err(|error| *error)
    }

    /// The hashes by row; none when the changes cannot be rebuilt.
    pub(super) fn known_hashes(&self) -> &[ChangeHash] {
        self.hashes().map_or(&[], |known| &known.hashes)
    }

    /// True once the changes were rebuilt and hashed.
    pub(super) fn is_hashed(&self) -> bool {
        self.hashes.get().is_some()
    }

    /// The hash of a row; zeros where the changes cannot be rebuilt.
    pub(super) fn hash_at(&self, row: usize) -> ChangeHash {
        let is = |head: &&(ChangeHash, u32)| head.1 as usize == row;
        if !self.is_hashed()
            && let Some((hash, _)) = self.heads.iter().find(is)
        {
            return *hash;
        }
        self.known_hashes().get(row).copied().unwrap_or(ChangeHash([0; 32]))
    }

    pub(super) fn place_of(&self, hash: &ChangeHash) -> Option<u32> {
        if let Ok(at) = self.heads.binary_search_by_key(hash, |head| head.0) {
            return Some(self.heads[at].1);
        }
        let hashes = self.known_hashes();
        let index = self.index.get_or_init(|| HashIndex::of(hashes));
        index.get(hash, |place| hashes[place as usize])
    }

    /// See [`super::past::all_before`]. Cost: the first time a walk over all rows.
    pub(super) fn all_before(&self) -> &[u32] {
        self.all_before.get_or_init(|| super::past::all_before(&self.table))
    }

    /// The changes, if somebody has asked for them before.
    pub(super) fn made_changes(&self) -> Option<&[Change]> {
        self.changes.get().map(Vec::as_slice)
    }

    /// The changes by row; none if impossible to rebuild. Cost: rebuilding them the first time.
    pub(super) fn changes(&self) -> &[Change] {
        self.changes.get_or_init(|| {
            if self.hashes().is_err() {
                return Vec::new();
            }
            let chunk = self.source.read();
            chunk.and_then(|chunk| chunk.changes(Verify::Nothing)).unwrap_or_default()
        })
    }
}

/// The changes before the ones added one by one.
pub(super) type SharedBase = Arc<Base>;

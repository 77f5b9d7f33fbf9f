//! Compacting: the chunks of a document become one document chunk.
//!
//! A document chunk lists the ops of many changes in columns, and gives every change back byte for
//! byte. Before the chunks it replaces are deleted, it is loaded, and the hashes of all changes are
//! made again and compared; both happen in one transaction.

use std::collections::BTreeSet;

use shoal_crdt::{Document, LoadOptions, SaveOptions};
use shoal_history::{Change, ChangeHash, Limits};
use shoal_sql::Connection;

use crate::Error;
use crate::intake::is_change;
use crate::tables::{self, Last};

/// Fewer bytes of changes than this are not worth a document chunk.
const LEAST_BYTES: u64 = 16 << 10;

/// A document before and after it was compacted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The changes.
    pub changes: u64,
    /// The bytes of the chunks before.
    pub bytes_before: u64,
    /// The bytes of the chunks now. The same as before where a change cannot be given back by a
    /// document chunk, or nothing would be gained.
    pub bytes_after: u64,
}

/// True once the changes appended since the last compaction take more than what it left.
pub(crate) fn is_due(connection: &mut Connection, id: i64) -> Result<bool, Error> {
    let (mut compact, mut appended) = (0_u64, 0_u64);
    tables::each_chunk(connection, id, -1, |_, bytes| {
        if is_change(bytes) {
            appended += bytes.len() as u64;
        } else {
            compact += bytes.len() as u64;
        }
        Ok(())
    })?;
    Ok(appended >= LEAST_BYTES && appended > compact)
}

/// Puts one document chunk in the place of the chunks of a document, which `document` has all of.
/// Waiting changes stay chunks of their own behind it.
pub(crate) fn compact(
    connection: &mut Connection,
    id: i64,
    document: &Document,
    now_ms: i64,
) -> Result<Compacted, Error> {
    let last = tables::last(connection, id)?;
    let size = tables::size(connection, id)?;
    let changes = document.changes().len() as u64;
    let unchanged =
        Compacted { changes: size.changes, bytes_before: size.bytes, bytes_after: size.bytes };
    if last == Last::NONE || document.is_empty() {
        return Ok(unchanged);
    }
    let chunk = document.to_bytes(SaveOptions { deflate: true, retain_orphans: false });
    let waiting = document.queued_changes();
    let waiting_bytes: u64 = waiting.iter().map(|change| change.raw_bytes().len() as u64).sum();
    let bytes_after = chunk.len() as u64 + waiting_bytes;
    if bytes_after >= size.bytes || !gives_back(&chunk, document)? {
        return Ok(unchanged);
    }
    tables::delete_chunks(connection, id)?;
    let mut last = Last { heads: document.heads(), ..last };
    tables::append(connection, id, &last, (changes, &chunk), now_ms)?;
    for change in waiting {
        last.position += 1;
        tables::append(connection, id, &last, (1, change.raw_bytes()), now_ms)?;
    }
    Ok(Compacted { changes: size.changes, bytes_before: size.bytes, bytes_after })
}

/// Loads a document chunk and compares the hashes of its changes, made anew, with those of the
/// document.
fn gives_back(chunk: &[u8], document: &Document) -> Result<bool, Error> {
    let options = LoadOptions {
        encoding: document.text_encoding(),
        limits: Limits { by_size: None, ..Limits::default() },
        ..LoadOptions::default()
    };
    let loaded = Document::load(chunk, document.actor().clone(), &options)?;
    let hashes = |document: &Document| -> BTreeSet<ChangeHash> {
        document.changes().map(Change::hash).collect()
    };
    Ok(loaded.heads() == document.heads() && hashes(&loaded) == hashes(document))
}

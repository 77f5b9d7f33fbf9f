//! Compacting: the chunks of a document become one document chunk.
//!
//! A document chunk lists the ops of many changes in columns, and gives every change back byte for
//! byte. Before the chunks it replaces are deleted, it is loaded, and the hashes of all changes are
//! made again and compared; both happen in one transaction.

use std::collections::BTreeSet;

use shoal_crdt::{Document, LoadOptions, SaveOptions};
use shoal_history::{Change, ChangeHash, Limits};
use shoal_sql::{Connection, Value as SqlValue, ValueRef};

use crate::Error;
use crate::tables::{self, Last};
use crate::times::Times;

/// Fewer bytes of changes than this are not worth a document chunk.
pub(crate) const LEAST_BYTES: u64 = 16 << 10;

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

/// While a document is open, compacting waits until one change in so many is an appended one:
/// making the chunk costs the whole history, and each appended change pays for so many.
const OPEN_SHARE: u64 = 8;

/// The bytes and changes of a document's chunks: left by the last compaction, and appended since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    compact: Part,
    appended: Part,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    bytes: u64,
    changes: u64,
}

impl Share {
    /// Reads both. Cost: a row for each chunk, without its bytes.
    pub(crate) fn of(connection: &mut Connection, id: i64) -> Result<Share, Error> {
        let mut share = Share::default();
        // A document chunk of one change is as good as the change.
        let sql = "SELECT total(length(bytes)) FILTER (WHERE changes <> 1), \
                   total(changes) FILTER (WHERE changes <> 1), \
                   total(length(bytes)) FILTER (WHERE changes = 1), \
                   total(changes) FILTER (WHERE changes = 1) \
                   FROM _shoal_chunk WHERE id BETWEEN ?1 AND ?2";
        let ids = tables::chunk_ids(id);
        let ids = [SqlValue::Int(*ids.start()), SqlValue::Int(*ids.end())];
        tables::query(connection, sql, &ids, |row| {
            let part = |first: usize| {
                let total = |place: usize| match row.get(place) {
                    Some(ValueRef::Real(total)) => *total as u64,
                    _ => 0,
                };
                Part { bytes: total(first), changes: total(first + 1) }
            };
            share = Share { compact: part(0), appended: part(2) };
            Ok(())
        })?;
        Ok(share)
    }

    /// True once the appended bytes outnumber the compacted ones.
    pub(crate) fn is_due(self) -> bool {
        self.appended.bytes >= LEAST_BYTES && self.appended.bytes > self.compact.bytes
    }

    /// The same of a document that stays open: see [`OPEN_SHARE`].
    pub(crate) fn is_due_while_open(self) -> bool {
        self.is_due() && self.appended.changes >= self.compact.changes / OPEN_SHARE
    }

    /// After so many bytes more it is time to look again at an open document.
    pub(crate) fn look_again(self) -> u64 {
        let bytes = self.compact.bytes.saturating_sub(self.appended.bytes) / 2;
        let changes = (self.compact.changes / OPEN_SHARE).saturating_sub(self.appended.changes);
        let each = self.appended.bytes / self.appended.changes.max(1);
        LEAST_BYTES.max(bytes).max(changes.saturating_mul(each))
    }
}

/// [`Share::is_due`] of a document's chunks.
pub(crate) fn is_due(connection: &mut Connection, id: i64) -> Result<bool, Error> {
    Ok(Share::of(connection, id)?.is_due())
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
    if bytes_after >= size.bytes {
        return Ok(unchanged);
    }
    let Some(loaded) = given_back(&chunk, document)? else { return Ok(unchanged) };
    let times = stored_times(connection, id)?;
    tables::delete_chunks(connection, id)?;
    let mut last = Last { heads: document.heads(), ..last };
    tables::append(connection, id, &last, (changes, &chunk), now_ms)?;
    let rowid = tables::chunk_ids(id).start() + last.position;
    let blob = times.encode(loaded.changes().map(Change::hash), now_ms);
    tables::put_times(connection, id, rowid, &blob)?;
    for change in waiting {
        last.position += 1;
        tables::append(connection, id, &last, (1, change.raw_bytes()), now_ms)?;
    }
    Ok(Compacted { changes: size.changes, bytes_before: size.bytes, bytes_after })
}

/// When the changes in a document's chunks were stored.
fn stored_times(connection: &mut Connection, id: i64) -> Result<Times, Error> {
    let (chunk, blob) = tables::times(connection, id)?.unwrap_or_default();
    let mut times = Times::default();
    tables::each_stored(connection, id, |rowid, stored, bytes| {
        times.add_chunk(bytes, stored, (rowid == chunk).then_some(&blob))
    })?;
    Ok(times)
}

/// The document given back by a chunk, if all changes of `document` are there: their hashes, made
/// anew, are compared.
fn given_back(chunk: &[u8], document: &Document) -> Result<Option<Document>, Error> {
    let options = LoadOptions {
        encoding: document.text_encoding(),
        limits: Limits { by_size: None, ..Limits::default() },
        ..LoadOptions::default()
    };
    let loaded = Document::load(chunk, document.actor().clone(), &options)?;
    let hashes = |document: &Document| -> BTreeSet<ChangeHash> {
        document.changes().map(Change::hash).collect()
    };
    let is_same = loaded.heads() == document.heads() && hashes(&loaded) == hashes(document);
    Ok(is_same.then_some(loaded))
}

//! When this file stored changes, and the state a document had at a time.

use std::collections::BTreeMap;

use shoal_crdt::Document;
use shoal_history::{Change, ChangeHash, Limits};
use shoal_sql::{ModuleContext, Value};

use super::library::ask;
use crate::Error;
use crate::intake::is_change;
use crate::tables::{self, CHUNK, heads_of_value};

/// When this file stored each change of a document, in milliseconds since 1970.
///
/// Cost: the chunks are read, and the changes in them hashed.
pub(super) fn times(
    context: &ModuleContext<'_>,
    doc: i64,
    document: &Document,
) -> Result<BTreeMap<ChangeHash, i64>, Error> {
    let mut times = BTreeMap::new();
    let mut of_chunk = None;
    let sql = "SELECT id, stored, bytes FROM main._shoal_chunk WHERE id BETWEEN ?1 AND ?2 \
               ORDER BY id";
    ask(context, sql, &ids(doc), |row| {
        let [Value::Int(rowid), Value::Int(stored), Value::Blob(bytes)] = row else {
            return Err(Error::Layout { table: CHUNK });
        };
        if is_change(bytes) {
            let limits = Limits { by_size: None, ..Limits::default() };
            let change = Change::from_bytes_within(bytes, &limits)
                .map_err(|source| Error::Chunk { table: CHUNK, rowid: *rowid, source })?;
            times.insert(change.hash(), *stored);
        } else {
            of_chunk = Some(*stored);
        }
        Ok(())
    })?;
    if let Some(stored) = of_chunk {
        for change in document.changes() {
            times.entry(change.hash()).or_insert(stored);
        }
    }
    Ok(times)
}

/// The heads that a document had in this file at a time; `None` before its first change was stored.
pub(super) fn heads_at(
    context: &ModuleContext<'_>,
    doc: i64,
    time_ms: i64,
) -> Result<Option<Vec<ChangeHash>>, Error> {
    let sql = "SELECT id, heads FROM main._shoal_chunk WHERE id BETWEEN ?1 AND ?2 AND stored <= ?3 \
               ORDER BY id DESC LIMIT 1";
    let [first, last] = ids(doc);
    let mut heads = None;
    ask(context, sql, &[first, last, Value::Int(time_ms)], |row| {
        let [Value::Int(rowid), found] = row else { return Err(Error::Layout { table: CHUNK }) };
        heads = Some(heads_of_value(found.as_ref(), CHUNK, *rowid)?);
        Ok(())
    })?;
    Ok(heads)
}

fn ids(doc: i64) -> [Value; 2] {
    let ids = tables::chunk_ids(doc);
    [Value::Int(*ids.start()), Value::Int(*ids.end())]
}

//! When this file stored changes, and the state a document had at a time.

use shoal_crdt::Document;
use shoal_history::ChangeHash;
use shoal_sql::{ModuleContext, Value};

use super::library::ask;
use crate::Error;
use crate::tables::{self, CHUNK, heads_of_value};
use crate::times::Times;

/// When this file stored each change of a document, in milliseconds since 1970.
///
/// Cost: the chunks are read; a document chunk is loaded.
pub(super) fn times(context: &ModuleContext<'_>, doc: i64) -> Result<Times, Error> {
    let mut runs = None;
    if context.schema().is_some_and(|schema| schema.object(tables::STORED).is_some()) {
        let sql = "SELECT chunk, times FROM main._shoal_stored WHERE doc = ?1";
        ask(context, sql, &[Value::Int(doc)], |row| {
            if let [Value::Int(chunk), Value::Blob(times)] = row {
                runs = Some((*chunk, times.clone()));
            }
            Ok(())
        })?;
    }
    let mut times = Times::default();
    let sql = "SELECT id, stored, bytes FROM main._shoal_chunk WHERE id BETWEEN ?1 AND ?2 \
               ORDER BY id";
    ask(context, sql, &ids(doc), |row| {
        let [Value::Int(rowid), Value::Int(stored), Value::Blob(bytes)] = row else {
            return Err(Error::Layout { table: CHUNK });
        };
        let runs = runs.as_ref().filter(|(chunk, _)| chunk == rowid).map(|(_, runs)| runs);
        times.add_chunk(bytes, *stored, runs)
    })?;
    Ok(times)
}

/// The heads of a document in this file at a time; `None` before its first change was stored.
///
/// Cost: a look at the chunks' times; before the last compaction as [`times`].
pub(super) fn heads_at(
    context: &ModuleContext<'_>,
    doc: i64,
    document: &Document,
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
    match heads {
        Some(heads) => Ok(Some(heads)),
        None => Ok(times(context, doc)?.heads_at(document.changes(), time_ms)),
    }
}

fn ids(doc: i64) -> [Value; 2] {
    let ids = tables::chunk_ids(doc);
    [Value::Int(*ids.start()), Value::Int(*ids.end())]
}

//! Documents read by statements of SQL, kept for the next one.
//!
//! A statement reads documents in its own transaction. A document kept from before serves when the
//! end of its chunks is the same, and is carried on with the chunks behind it when there are more:
//! the past of a document is asked for often, and reading 50,000 changes takes longer than any
//! answer about them. A whole hash names one document of many: those read before without such a
//! change are not read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_crdt::Document;
use shoal_history::{ActorId, ChangeHash};
use shoal_sql::{ModuleContext, Value};

use super::heads::Heads;
use crate::intake::Intake;
use crate::tables::{self, CHUNK, Last, heads_of_value};
use crate::{Error, layout};

/// Documents kept, and the ops of all of them together.
const DOCUMENTS_MAX: usize = 64;
const OPS_MAX: u64 = 4 << 20;

/// Hashes remembered, of all documents together.
const HASHES_MAX: usize = 4 << 20;

/// The documents read last by statements of one connection, the latest first; of many more, which
/// changes they have.
#[derive(Debug, Default)]
pub(crate) struct Library {
    kept: Mutex<Vec<Kept>>,
    known: Mutex<Known>,
}

/// The changes of documents, by their ids: the end of the chunks, and the first eight bytes of each
/// hash, ascending.
#[derive(Debug, Default)]
struct Known {
    documents: BTreeMap<i64, (Last, Vec<u64>)>,
    hashes: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    doc: i64,
    last: Last,
    document: Arc<Document>,
}

/// A document as the tables name it.
#[derive(Clone, Debug)]
pub(crate) struct DocName {
    pub(crate) id: i64,
    pub(crate) name: String,
}

/// Runs a query within the statement.
pub(crate) fn ask(
    context: &ModuleContext<'_>,
    sql: &str,
    parameters: &[Value],
    mut each: impl FnMut(&[Value]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut failed = None;
    let asked = context.query(sql, parameters, |row| {
        each(row).map_err(|error| {
            let told = shoal_sql::Error::of_function(error.to_string());
            failed = Some(error);
            told
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(asked?),
    }
}

/// The documents of the file, or the one of a name, by name. None where the file has no documents.
pub(crate) fn names(
    context: &ModuleContext<'_>,
    name: Option<&str>,
) -> Result<Vec<DocName>, Error> {
    let mut names = Vec::new();
    // Under rules the tables are narrowed ones, and those without a grant are none.
    let Some(schema) = context.schema().filter(|schema| schema.object(tables::DOC).is_some())
    else {
        return Ok(names);
    };
    if schema.object(layout::META).is_some() {
        let sql = "SELECT value FROM main._shoal_meta WHERE key = 'layout'";
        ask(context, sql, &[], |row| match row {
            [Value::Int(version)] => layout::check_version(*version),
            _ => Err(Error::Layout { table: layout::META }),
        })?;
    }
    let each = |row: &[Value]| {
        let [Value::Int(id), Value::Text(name)] = row else {
            return Err(Error::Layout { table: tables::DOC });
        };
        let name = String::from_utf8_lossy(name).into_owned();
        names.push(DocName { id: *id, name });
        Ok(())
    };
    match name {
        None => ask(context, "SELECT id, name FROM main._shoal_doc ORDER BY name", &[], each)?,
        Some(name) => {
            let sql = "SELECT id, name FROM main._shoal_doc WHERE name = ?1";
            ask(context, sql, &[name.into()], each)?;
        }
    }
    Ok(names)
}

/// Refuses a file of layout 1: its changes are in another table.
fn check_chunks(context: &ModuleContext<'_>) -> Result<(), Error> {
    if context.schema().is_some_and(|schema| schema.object(CHUNK).is_some()) {
        return Ok(());
    }
    if context.is_narrowed() {
        let why = "the rules grant no history of documents: their changes are in _shoal_chunk";
        return Err(Error::Past { why: why.to_owned() });
    }
    let why = "the documents are as Shoal 0.1.0 stored them; their past can be asked once one of \
               them was written, which `shoal doc compact` does as well";
    Err(Error::Past { why: why.to_owned() })
}

/// The ends of the chunks of all documents. Cost: a row for each chunk, without its bytes.
pub(crate) fn ends(context: &ModuleContext<'_>) -> Result<BTreeMap<i64, Last>, Error> {
    check_chunks(context)?;
    let mut ends: BTreeMap<i64, (i64, Value, u64)> = BTreeMap::new();
    let sql = "SELECT id, heads, waiting FROM main._shoal_chunk ORDER BY id";
    ask(context, sql, &[], |row| {
        let [Value::Int(rowid), heads, Value::Int(waiting)] = row else {
            return Err(Error::Layout { table: CHUNK });
        };
        ends.insert(tables::doc_of_chunk(*rowid), (*rowid, heads.clone(), waiting.unsigned_abs()));
        Ok(())
    })?;
    let ends = ends.into_iter().map(|(doc, (rowid, heads, waiting))| {
        let heads = heads_of_value(heads.as_ref(), CHUNK, rowid)?;
        let position = rowid - tables::chunk_ids(doc).start();
        Ok((doc, Last { position, heads, waiting }))
    });
    ends.collect()
}

impl Library {
    /// False for a document known to have none of the changes named, with its chunks ending at
    /// `end`. Cost: a search, without the document.
    pub(crate) fn may_have(&self, doc: i64, end: Option<&Last>, heads: &Heads) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match (known.documents.get(&doc), end) {
            (Some((last, firsts)), Some(end)) if last == end => heads.may_be_among(firsts),
            _ => true,
        }
    }

    /// Remembers the changes of a document, which was read with its chunks ending at `end`.
    pub(crate) fn remember(&self, doc: i64, end: &Last, document: &Document) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.documents.get(&doc).is_some_and(|(last, _)| last == end) {
            return;
        }
        let hashes = document.graph().hashes_since(&[]).into_iter();
        let first = |hash: ChangeHash| {
            hash.0.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        let mut firsts: Vec<u64> = hashes.map(first).collect();
        firsts.sort_unstable();
        known.hashes += firsts.len();
        if let Some((_, before)) = known.documents.insert(doc, (end.clone(), firsts)) {
            known.hashes -= before.len();
        }
        // Whatever is forgotten is read again when asked for.
        while known.hashes > HASHES_MAX
            && let Some((_, (_, oldest))) = known.documents.pop_first()
        {
            known.hashes -= oldest.len();
        }
    }

    /// The document of an id, as the statement's transaction has it.
    pub(crate) fn document(
        &self,
        context: &ModuleContext<'_>,
        doc: i64,
    ) -> Result<Arc<Document>, Error> {
        check_chunks(context)?;
        // Under rules nothing is kept: the chunks in sight may be others at the next statement.
        let keeps = !context.is_narrowed();
        let found = {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|kept| keeps && kept.doc == doc).cloned()
        };
        let last = last(context, doc)?;
        let known = match found {
            Some(kept) if kept.last == last => {
                self.keep(kept.clone());
                return Ok(kept.document);
            }
            // A transaction rolled back since may have had other chunks at these places.
            Some(kept) if kept.last.position < last.position => {
                is_chunk(context, doc, &kept.last)?.then_some(kept)
            }
            _ => None,
        };
        let (after, mut document) = match known {
            Some(kept) => (kept.last.position, (*kept.document).clone()),
            None => (-1, Document::new(ActorId::new(&[0]))),
        };
        let first = tables::chunk_ids(doc).start() + after + 1;
        let sql = "SELECT id, bytes FROM main._shoal_chunk WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
        let ids = [Value::Int(first), Value::Int(*tables::chunk_ids(doc).end())];
        let mut intake = Intake::new(&mut document);
        ask(context, sql, &ids, |row| match row {
            [Value::Int(rowid), Value::Blob(bytes)] => {
                context.check()?;
                intake.take(*rowid, bytes)
            }
            _ => Err(Error::Corrupt { table: CHUNK, rowid: first, why: "the chunk is no blob" }),
        })?;
        intake.finish()?;
        let document = Arc::new(document);
        if keeps {
            self.keep(Kept { doc, last, document: Arc::clone(&document) });
        }
        Ok(document)
    }

    /// Puts a document first, and forgets the last where there are many.
    fn keep(&self, new: Kept) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|known| known.doc != new.doc);
        kept.insert(0, new);
        let mut ops = 0;
        let fits = kept.iter().take(DOCUMENTS_MAX).take_while(|kept| {
            ops += kept.document.op_count();
            ops <= OPS_MAX
        });
        let count = fits.count();
        kept.truncate(count);
    }
}

/// The end of a document's chunks.
fn last(context: &ModuleContext<'_>, doc: i64) -> Result<Last, Error> {
    let sql = "SELECT id, heads, waiting FROM main._shoal_chunk WHERE id BETWEEN ?1 AND ?2 \
               ORDER BY id DESC LIMIT 1";
    let ids = tables::chunk_ids(doc);
    let mut last = Last::NONE;
    ask(context, sql, &[Value::Int(*ids.start()), Value::Int(*ids.end())], |row| {
        let [Value::Int(rowid), heads, Value::Int(waiting)] = row else {
            return Err(Error::Layout { table: CHUNK });
        };
        let heads = heads_of_value(heads.as_ref(), CHUNK, *rowid)?;
        let position = rowid - ids.start();
        last = Last { position, heads, waiting: waiting.unsigned_abs() };
        Ok(())
    })?;
    Ok(last)
}

/// True where the document's chunk at the place still has the heads of `last`.
fn is_chunk(context: &ModuleContext<'_>, doc: i64, last: &Last) -> Result<bool, Error> {
    let rowid = tables::chunk_ids(doc).start() + last.position;
    let mut is_same = false;
    let sql = "SELECT heads FROM main._shoal_chunk WHERE id = ?1";
    ask(context, sql, &[Value::Int(rowid)], |row| {
        let heads: Vec<ChangeHash> = heads_of_value(row[0].as_ref(), CHUNK, rowid)?;
        is_same = heads == last.heads;
        Ok(())
    })?;
    Ok(is_same)
}

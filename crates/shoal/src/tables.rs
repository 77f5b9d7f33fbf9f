//! The tables of documents (layout 2), without any knowledge of documents.
//!
//! | table | one row |
//! | --- | --- |
//! | `_shoal_meta(key, value)` | a fact about the file: `layout`, the number of this layout |
//! | `_shoal_doc(id, name, heads, json)` | a document; its state at `heads` as JSON |
//! | `_shoal_chunk(id, heads, changes, waiting, stored, bytes)` | a chunk of a history |
//! | `_shoal_lag(doc)` | a document with JSON older than its chunks |
//! | `_shoal_projection(name, sql)` | the definition of a projection |
//! | `_shoal_removed(doc, name, heads, stored)` | a tombstone |
//! | `_shoal_stored(doc, chunk, times)` | when the changes of a document chunk were stored |
//!
//! Heads are 32 bytes each, ascending. The `id` of a chunk is `doc * 2^32 + position`: the chunks
//! of a document lie side by side, in the order of storing. `heads` of a chunk are the document's
//! heads behind the chunk, `waiting` counts stored changes without their dependencies,
//! `stored` is the time of storing in milliseconds since 1970. Compacting puts one document chunk
//! at the position of the last chunk it replaces, so that a position once read never comes back
//! with less.

use std::ops::RangeInclusive;

use shoal_history::ChangeHash;
use shoal_sql::{Connection, KeptReads, TableReader, Value, ValueRef};

use crate::Error;

pub(crate) const DOC: &str = "_shoal_doc";
pub(crate) const CHUNK: &str = "_shoal_chunk";
/// The index of the documents' names.
const DOC_BY_NAME: &str = "sqlite_autoindex__shoal_doc_1";
/// The name of the table of documents that statements ask.
pub(crate) const DOCUMENTS: &str = "documents";
const LAG: &str = "_shoal_lag";
const REMOVED: &str = "_shoal_removed";
pub(crate) const STORED: &str = "_shoal_stored";
/// Made with the first document that is compacted.
const CREATE_STORED: &str = "CREATE TABLE _shoal_stored(doc INTEGER PRIMARY KEY, \
    chunk INTEGER NOT NULL, times BLOB NOT NULL)";

/// How the names of all of them begin. SQL may read such tables and not change them.
pub(crate) const PREFIX: &str = "_shoal_";

/// The low bits of a chunk's rowid: the position within the document.
const POSITION_BITS: u32 = 32;
/// The greatest position.
const POSITION_MAX: i64 = (1 << POSITION_BITS) - 1;
/// The greatest id of a document: its chunks' rowids are positive.
const DOC_ID_MAX: i64 = (1 << (63 - POSITION_BITS)) - 1;

/// One row of `_shoal_doc`, without the JSON.
pub(crate) struct DocRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    /// The heads of the JSON.
    pub(crate) heads: Vec<ChangeHash>,
    /// The length of the JSON in bytes.
    pub(crate) json_bytes: u64,
}

/// The end of a document's chunks: the last row, without the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) position: i64,
    pub(crate) heads: Vec<ChangeHash>,
    pub(crate) waiting: u64,
}

impl Last {
    /// No chunk.
    pub(crate) const NONE: Last = Last { position: -1, heads: Vec::new(), waiting: 0 };
}

/// The sum of a document's chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    pub(crate) changes: u64,
    pub(crate) bytes: u64,
    pub(crate) heads: Vec<ChangeHash>,
}

/// Whoever opens tables for reading.
pub(crate) trait Reads {
    /// Opens a table.
    fn table(&mut self, name: &str) -> Result<TableReader<'_>, Error>;
}

impl Reads for Connection {
    fn table(&mut self, name: &str) -> Result<TableReader<'_>, Error> {
        Ok(self.table_reader(name)?)
    }
}

impl Reads for &KeptReads<'_> {
    fn table(&mut self, name: &str) -> Result<TableReader<'_>, Error> {
        Ok(self.table_reader(name)?)
    }
}

/// Runs `sql` and gives each row to `each`.
pub(crate) fn query(
    connection: &mut Connection,
    sql: &str,
    params: &[Value],
    mut each: impl FnMut(&[ValueRef<'_>]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    for (index, value) in params.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    let mut rows = connection.query(&mut statement)?;
    while let Some(row) = rows.next()? {
        let values: Vec<ValueRef<'_>> = row.values().collect();
        each(&values)?;
    }
    Ok(())
}

/// Runs `sql`, a statement without rows.
pub(crate) fn execute(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    let mut statement = connection.prepare(sql)?;
    connection.execute(&mut statement)?;
    Ok(())
}

/// Heads as the tables hold them.
pub(crate) fn heads_blob(heads: &[ChangeHash]) -> Vec<u8> {
    heads.iter().flat_map(|head| head.0).collect()
}

/// Heads from a column of the row `rowid` of `table`.
pub(crate) fn heads_of_value(
    value: ValueRef<'_>,
    table: &'static str,
    rowid: i64,
) -> Result<Vec<ChangeHash>, Error> {
    let corrupt = |why| Error::Corrupt { table, rowid, why };
    let ValueRef::Blob(heads) = value else { return Err(corrupt("the heads are no blob")) };
    let (heads, []) = heads.as_chunks::<32>() else {
        return Err(corrupt("the heads are not 32 bytes each"));
    };
    Ok(heads.iter().map(|bytes| ChangeHash(*bytes)).collect())
}

/// Reads one row of `SELECT id, name, heads, length(CAST(json AS BLOB)) FROM _shoal_doc`.
fn doc_row(row: &[ValueRef<'_>]) -> Result<DocRow, Error> {
    let &[ValueRef::Int(id), name, heads, json_bytes] = row else {
        return Err(Error::Layout { table: DOC });
    };
    let corrupt = |why| Error::Corrupt { table: DOC, rowid: id, why };
    if !(1..=DOC_ID_MAX).contains(&id) {
        return Err(corrupt("the id is out of range"));
    }
    let ValueRef::Text(name) = name else { return Err(corrupt("the name is no text")) };
    let name = std::str::from_utf8(name).map_err(|_| corrupt("the name is not UTF-8"))?.to_owned();
    let ValueRef::Int(json_bytes) = json_bytes else { return Err(corrupt("there is no JSON")) };
    Ok(DocRow {
        id,
        name,
        heads: heads_of_value(heads, DOC, id)?,
        json_bytes: json_bytes.unsigned_abs(),
    })
}

/// A query with the columns of [`doc_row`].
macro_rules! doc_query {
    ($rest:literal) => {
        concat!("SELECT id, name, heads, octet_length(json) FROM _shoal_doc ", $rest)
    };
}

/// Finds a document by its name.
pub(crate) fn find(connection: &mut Connection, name: &str) -> Result<Option<DocRow>, Error> {
    let mut found = None;
    query(connection, doc_query!("WHERE name = ?1"), &[Value::text(name)], |row| {
        found = Some(doc_row(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// Finds a document by its id.
pub(crate) fn find_id(connection: &mut Connection, id: i64) -> Result<Option<DocRow>, Error> {
    let mut found = None;
    query(connection, doc_query!("WHERE id = ?1"), &[Value::Int(id)], |row| {
        found = Some(doc_row(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// The name of the document of that id. Cost: one descent; the JSON is not looked at.
pub(crate) fn name_of(reads: &mut impl Reads, id: i64) -> Result<Option<String>, Error> {
    let mut reader = reads.table(DOC)?;
    if !reader.seek(id)? {
        return Ok(None);
    }
    match reader.value(1)? {
        ValueRef::Text(name) => Ok(Some(String::from_utf8_lossy(name).into_owned())),
        _ => Err(Error::Corrupt { table: DOC, rowid: id, why: "the name is no text" }),
    }
}

/// The id of the document of that name. Cost: one descent of the index.
pub(crate) fn id_of(reads: &KeptReads<'_>, name: &str) -> Result<Option<i64>, Error> {
    let mut reader = reads.index_reader(DOC_BY_NAME)?;
    Ok(match reader.seek(&[ValueRef::Text(name.as_bytes())])? {
        true => Some(reader.rowid()?),
        false => None,
    })
}

/// As [`last_doc_id`]. Cost: two descents.
pub(crate) fn last_id(reads: &mut impl Reads) -> Result<i64, Error> {
    let mut last = 0;
    for table in [DOC, REMOVED] {
        let mut reader = reads.table(table)?;
        if reader.last()? {
            last = reader.rowid()?.max(last);
        }
    }
    Ok(last)
}

/// All documents, by name.
pub(crate) fn docs(connection: &mut Connection) -> Result<Vec<DocRow>, Error> {
    let mut docs = Vec::new();
    query(connection, doc_query!("ORDER BY name"), &[], |row| {
        docs.push(doc_row(row)?);
        Ok(())
    })?;
    Ok(docs)
}

/// The possible rowids of the chunks of document `doc`.
pub(crate) fn chunk_ids(doc: i64) -> RangeInclusive<i64> {
    let first = doc << POSITION_BITS;
    first..=first + POSITION_MAX
}

/// The document of the chunk with this rowid.
pub(crate) fn doc_of_chunk(rowid: i64) -> i64 {
    rowid >> POSITION_BITS
}

/// The end of the chunks of document `doc`.
///
/// Cost: one descent.
pub(crate) fn last(reads: &mut impl Reads, doc: i64) -> Result<Last, Error> {
    let ids = chunk_ids(doc);
    let mut reader = reads.table(CHUNK)?;
    let found = match (reader.seek(*ids.end())?, reader.is_valid()) {
        (true, _) => true,
        (false, true) => reader.prev()?,
        (false, false) => reader.last()?,
    };
    if !found || !ids.contains(&reader.rowid()?) {
        return Ok(Last::NONE);
    }
    last_row(&mut reader, &ids)
}

/// The row that a reader of the chunks is on.
fn last_row(reader: &mut TableReader<'_>, ids: &RangeInclusive<i64>) -> Result<Last, Error> {
    let rowid = reader.rowid()?;
    let heads = heads_of_value(reader.value(1)?, CHUNK, rowid)?;
    let ValueRef::Int(waiting) = reader.value(3)? else {
        return Err(Error::Corrupt { table: CHUNK, rowid, why: "the waiting ones are no number" });
    };
    Ok(Last { position: rowid - ids.start(), heads, waiting: waiting.unsigned_abs() })
}

/// Gives the bytes of the chunks of document `doc` behind the position `after`, with the rowid of
/// each; returns the end of the chunks.
pub(crate) fn each_chunk(
    reads: &mut impl Reads,
    doc: i64,
    after: i64,
    mut each: impl FnMut(i64, &[u8]) -> Result<(), Error>,
) -> Result<Last, Error> {
    let ids = chunk_ids(doc);
    let mut reader = reads.table(CHUNK)?;
    let mut last = Last::NONE;
    reader.seek(ids.start() + after + 1)?;
    while reader.is_valid() && reader.rowid()? <= *ids.end() {
        let rowid = reader.rowid()?;
        last = last_row(&mut reader, &ids)?;
        let ValueRef::Blob(bytes) = reader.value(5)? else {
            return Err(Error::Corrupt { table: CHUNK, rowid, why: "the chunk is no blob" });
        };
        each(rowid, bytes)?;
        reader.next()?;
    }
    Ok(last)
}

/// Gives the rowid, the time of storing and the bytes of the chunks of document `doc`.
pub(crate) fn each_stored(
    connection: &mut Connection,
    doc: i64,
    mut each: impl FnMut(i64, i64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let ids = chunk_ids(doc);
    let mut reader = connection.table_reader(CHUNK)?;
    reader.seek(*ids.start())?;
    while reader.is_valid() && reader.rowid()? <= *ids.end() {
        let rowid = reader.rowid()?;
        let corrupt = |why| Error::Corrupt { table: CHUNK, rowid, why };
        let ValueRef::Int(stored) = reader.value(4)? else {
            return Err(corrupt("the time of storing is no number"));
        };
        let ValueRef::Blob(bytes) = reader.value(5)? else {
            return Err(corrupt("the chunk is no blob"));
        };
        each(rowid, stored, bytes)?;
        reader.next()?;
    }
    Ok(())
}

/// The times of the changes in a document chunk: the rowid of the chunk, and their runs.
pub(crate) fn times(
    connection: &mut Connection,
    doc: i64,
) -> Result<Option<(i64, Vec<u8>)>, Error> {
    if connection.schema()?.table(STORED).is_none() {
        return Ok(None);
    }
    let mut found = None;
    let sql = "SELECT chunk, times FROM _shoal_stored WHERE doc = ?1";
    query(connection, sql, &[Value::Int(doc)], |row| {
        if let &[ValueRef::Int(chunk), ValueRef::Blob(times)] = row {
            found = Some((chunk, times.to_vec()));
        }
        Ok(())
    })?;
    Ok(found)
}

/// Writes the times of the changes in a document chunk.
pub(crate) fn put_times(
    connection: &mut Connection,
    doc: i64,
    chunk: i64,
    times: &[u8],
) -> Result<(), Error> {
    if connection.schema()?.table(STORED).is_none() {
        write(connection, CREATE_STORED, &[])?;
    }
    let values = [ValueRef::Int(doc), ValueRef::Int(chunk), ValueRef::Blob(times)];
    let mut writer = connection.table_writer(STORED)?;
    if !writer.replace(doc, &values)? {
        writer.insert(&values)?;
    }
    Ok(())
}

/// The sum of the chunks of document `doc`.
pub(crate) fn size(connection: &mut Connection, doc: i64) -> Result<Size, Error> {
    let ids = chunk_ids(doc);
    let mut size = Size::default();
    let sql =
        "SELECT sum(changes), sum(length(bytes)) FROM _shoal_chunk WHERE id BETWEEN ?1 AND ?2";
    let ids = [Value::Int(*ids.start()), Value::Int(*ids.end())];
    query(connection, sql, &ids, |row| {
        if let &[ValueRef::Int(changes), ValueRef::Int(bytes)] = row {
            (size.changes, size.bytes) = (changes.unsigned_abs(), bytes.unsigned_abs());
        }
        Ok(())
    })?;
    size.heads = last(connection, doc)?.heads;
    Ok(size)
}

/// The bytes of the chunks of document `doc` behind the one with these heads; `None` where no chunk
/// has them.
pub(crate) fn bytes_since(
    connection: &mut Connection,
    doc: i64,
    heads: &[ChangeHash],
) -> Result<Option<u64>, Error> {
    let ids = chunk_ids(doc);
    let sql = "SELECT (SELECT total(length(bytes)) FROM _shoal_chunk WHERE id BETWEEN c.id + 1 AND ?2) \
               FROM _shoal_chunk c WHERE id BETWEEN ?1 AND ?2 AND heads = ?3 ORDER BY id DESC LIMIT 1";
    let values = [Value::Int(*ids.start()), Value::Int(*ids.end()), Value::Blob(heads_blob(heads))];
    let mut found = None;
    query(connection, sql, &values, |row| {
        if let [ValueRef::Real(bytes)] = row {
            found = Some(*bytes as u64);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The greatest id that a document has or had, 0 when there was none.
pub(crate) fn last_doc_id(connection: &mut Connection) -> Result<i64, Error> {
    let mut last = 0;
    let sql = "SELECT max((SELECT ifnull(max(id), 0) FROM _shoal_doc), \
               (SELECT ifnull(max(doc), 0) FROM _shoal_removed))";
    query(connection, sql, &[], |row| {
        if let [ValueRef::Int(id)] = row {
            last = *id;
        }
        Ok(())
    })?;
    Ok(last)
}

/// Appends a chunk of so many changes at the end that `last` describes.
pub(crate) fn append(
    connection: &mut Connection,
    doc: i64,
    last: &Last,
    (changes, bytes): (u64, &[u8]),
    now_ms: i64,
) -> Result<(), Error> {
    if !(0..=POSITION_MAX).contains(&last.position) {
        let max = POSITION_MAX.unsigned_abs();
        return Err(Error::Limit { what: "chunks of one document", max });
    }
    connection.table_writer(CHUNK)?.insert(&[
        ValueRef::Int(chunk_ids(doc).start() + last.position),
        ValueRef::Blob(&heads_blob(&last.heads)),
        ValueRef::Int(i64::try_from(changes).unwrap_or(i64::MAX)),
        ValueRef::Int(i64::try_from(last.waiting).unwrap_or(i64::MAX)),
        ValueRef::Int(now_ms),
        ValueRef::Blob(bytes),
    ])?;
    Ok(())
}

/// Deletes the chunks of document `doc`.
pub(crate) fn delete_chunks(connection: &mut Connection, doc: i64) -> Result<(), Error> {
    let ids = chunk_ids(doc);
    write(
        connection,
        "DELETE FROM _shoal_chunk WHERE id BETWEEN ?1 AND ?2",
        &[Value::Int(*ids.start()), Value::Int(*ids.end())],
    )
}

/// Deletes the row of a document.
pub(crate) fn delete_doc(connection: &mut Connection, doc: i64) -> Result<(), Error> {
    connection.table_writer(DOC)?.delete(doc)?;
    if connection.schema()?.table(STORED).is_some() {
        connection.table_writer(STORED)?.delete(doc)?;
    }
    Ok(())
}

/// Gives a document another name.
pub(crate) fn rename_doc(connection: &mut Connection, doc: i64, name: &str) -> Result<(), Error> {
    let values = [Value::text(name), Value::Int(doc)];
    write(connection, "UPDATE _shoal_doc SET name = ?1 WHERE id = ?2", &values)
}

/// Runs a statement that changes the reserved tables.
pub(crate) fn write(connection: &mut Connection, sql: &str, params: &[Value]) -> Result<(), Error> {
    connection.reserve_tables(None);
    let prepared = connection.prepare(sql);
    connection.reserve_tables(Some(PREFIX));
    let mut statement = prepared?;
    for (index, value) in params.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    connection.execute(&mut statement)?;
    Ok(())
}

/// Writes the row of a document, in place of the one with its id if there is one.
pub(crate) fn put_doc(
    connection: &mut Connection,
    (id, name): (i64, &str),
    heads: &[ChangeHash],
    json: &str,
) -> Result<(), Error> {
    if !(1..=DOC_ID_MAX).contains(&id) {
        return Err(Error::Limit { what: "documents", max: DOC_ID_MAX.unsigned_abs() });
    }
    let heads = heads_blob(heads);
    let values = [
        ValueRef::Int(id),
        ValueRef::Text(name.as_bytes()),
        ValueRef::Blob(&heads),
        ValueRef::Text(json.as_bytes()),
    ];
    let mut writer = connection.table_writer(DOC)?;
    if !writer.replace(id, &values)? {
        writer.insert(&values)?;
    }
    Ok(())
}

/// The documents whose JSON is older than their chunks.
pub(crate) fn lagging(connection: &mut Connection) -> Result<Vec<i64>, Error> {
    let mut docs = Vec::new();
    query(connection, "SELECT doc FROM _shoal_lag", &[], |row| {
        if let [ValueRef::Int(doc)] = row {
            docs.push(*doc);
        }
        Ok(())
    })?;
    Ok(docs)
}

/// True for a document noted as behind. Cost: one descent.
pub(crate) fn is_lagging(reads: &mut impl Reads, doc: i64) -> Result<bool, Error> {
    Ok(reads.table(LAG)?.seek(doc)?)
}

/// Notes that the JSON of a document is older than its chunks, or is no more.
pub(crate) fn set_lagging(
    connection: &mut Connection,
    doc: i64,
    lagging: bool,
) -> Result<(), Error> {
    let mut writer = connection.table_writer(LAG)?;
    let is_there = writer.replace(doc, &[ValueRef::Int(doc)])?;
    match (is_there, lagging) {
        (false, true) => {
            writer.insert(&[ValueRef::Int(doc)])?;
        }
        (true, false) => {
            writer.delete(doc)?;
        }
        _ => {}
    }
    Ok(())
}

/// A removed document.
pub(crate) struct Tombstone {
    pub(crate) doc: i64,
    pub(crate) name: String,
    pub(crate) heads: Vec<ChangeHash>,
}

/// Leaves a tombstone.
pub(crate) fn bury(
    connection: &mut Connection,
    stone: &Tombstone,
    now_ms: i64,
) -> Result<(), Error> {
    connection.table_writer(REMOVED)?.insert(&[
        ValueRef::Int(stone.doc),
        ValueRef::Text(stone.name.as_bytes()),
        ValueRef::Blob(&heads_blob(&stone.heads)),
        ValueRef::Int(now_ms),
    ])?;
    Ok(())
}

/// The tombstones, by id.
pub(crate) fn tombstones(connection: &mut Connection) -> Result<Vec<Tombstone>, Error> {
    let mut stones = Vec::new();
    query(connection, "SELECT doc, name, heads FROM _shoal_removed", &[], |row| {
        let &[ValueRef::Int(doc), ValueRef::Text(name), heads] = row else {
            return Err(Error::Layout { table: REMOVED });
        };
        let heads = heads_of_value(heads, REMOVED, doc)?;
        stones.push(Tombstone { doc, name: String::from_utf8_lossy(name).into_owned(), heads });
        Ok(())
    })?;
    Ok(stones)
}

/// Takes a tombstone away.
pub(crate) fn unbury(connection: &mut Connection, doc: i64) -> Result<(), Error> {
    connection.table_writer(REMOVED)?.delete(doc)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_neighbours_do_not_meet() {
        assert_eq!(chunk_ids(1).end() + 1, *chunk_ids(2).start());
        assert_eq!(*chunk_ids(DOC_ID_MAX).end(), i64::MAX);
    }
}

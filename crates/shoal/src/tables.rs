//! The tables of documents, without any knowledge of documents.
//!
//! | table | one row is |
//! | --- | --- |
//! | `_shoal_doc(id, name, heads, json)` | a document: its heads and its state as JSON |
//! | `_shoal_change(id, doc, hash, actor, seq, chunk)` | a change: its uncompressed chunk |
//!
//! Heads are 32 bytes each, ascending, and the JSON is the state at these heads. The `id` of a
//! change is `doc * 2^32 + position`: the changes of a document lie side by side, for loading in
//! one range scan, and in the order of applying: after their dependencies, unless they still wait
//! for them.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use shoal_history::{Change, ChangeHash, Limits};
use shoal_sql::{Connection, Value, ValueRef};

use crate::Error;

pub(crate) const DOC: &str = "_shoal_doc";
pub(crate) const CHANGE: &str = "_shoal_change";

const CREATE: [&str; 2] = [
    "CREATE TABLE _shoal_doc(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, \
     heads BLOB NOT NULL, json TEXT NOT NULL)",
    "CREATE TABLE _shoal_change(id INTEGER PRIMARY KEY, doc INTEGER NOT NULL, \
     hash BLOB NOT NULL, actor BLOB NOT NULL, seq INTEGER NOT NULL, chunk BLOB NOT NULL)",
];

/// How the names of all of them begin. SQL may read such tables and not change them.
pub(crate) const PREFIX: &str = "_shoal_";

/// The low bits of a change's rowid: the position within the document.
const POSITION_BITS: u32 = 32;
/// The greatest id of a document: its changes' rowids are positive.
const DOC_ID_MAX: i64 = (1 << (63 - POSITION_BITS)) - 1;

/// One row of `_shoal_doc`, without the JSON.
pub(crate) struct DocRow {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) heads: Vec<ChangeHash>,
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

/// True if the database has documents' tables.
pub(crate) fn exist(connection: &mut Connection) -> Result<bool, Error> {
    let mut found = 0;
    query(
        connection,
        "SELECT name FROM sqlite_schema WHERE type = 'table' \
         AND name IN ('_shoal_doc', '_shoal_change')",
        &[],
        |_| {
            found += 1;
            Ok(())
        },
    )?;
    match found {
        0 => Ok(false),
        1 => Err(Error::Layout { table: DOC }),
        _ => Ok(true),
    }
}

/// Creates the tables.
pub(crate) fn create(connection: &mut Connection) -> Result<(), Error> {
    connection.reserve_tables(None);
    let created = CREATE.iter().try_for_each(|sql| execute(connection, sql));
    connection.reserve_tables(Some(PREFIX));
    created
}

/// Reads one row of `SELECT id, name, heads FROM _shoal_doc`.
pub(crate) fn doc_row(row: &[ValueRef<'_>]) -> Result<DocRow, Error> {
    let &[ValueRef::Int(id), name, heads] = row else {
        return Err(Error::Layout { table: DOC });
    };
    let corrupt = |why| Error::Corrupt { table: DOC, rowid: id, why };
    if !(1..=DOC_ID_MAX).contains(&id) {
        return Err(corrupt("the id is out of range"));
    }
    let ValueRef::Text(name) = name else { return Err(corrupt("the name is no text")) };
    let name = std::str::from_utf8(name).map_err(|_| corrupt("the name is not UTF-8"))?.to_owned();
    let ValueRef::Blob(heads) = heads else { return Err(corrupt("the heads are no blob")) };
    let (heads, []) = heads.as_chunks::<32>() else {
        return Err(corrupt("the heads are not 32 bytes each"));
    };
    Ok(DocRow { id, name, heads: heads.iter().map(|bytes| ChangeHash(*bytes)).collect() })
}

/// Finds a document by its name.
pub(crate) fn find(connection: &mut Connection, name: &str) -> Result<Option<DocRow>, Error> {
    let mut found = None;
    let sql = "SELECT id, name, heads FROM _shoal_doc WHERE name = ?1";
    query(connection, sql, &[Value::text(name)], |row| {
        found = Some(doc_row(row)?);
        Ok(())
    })?;
    Ok(found)
}

/// The possible rowids of the changes of document `doc`.
pub(crate) fn change_ids(doc: i64) -> RangeInclusive<i64> {
    let first = doc << POSITION_BITS;
    first..=first + ((1 << POSITION_BITS) - 1)
}

/// Reads the changes of a document, in their order.
pub(crate) fn changes(connection: &mut Connection, doc: i64) -> Result<Vec<Change>, Error> {
    let ids = change_ids(doc);
    let mut changes = Vec::new();
    query(
        connection,
        "SELECT id, doc, hash, chunk FROM _shoal_change WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
        &[Value::Int(*ids.start()), Value::Int(*ids.end())],
        |row| {
            let &[ValueRef::Int(rowid), owner, hash, chunk] = row else {
                return Err(Error::Layout { table: CHANGE });
            };
            let corrupt = |why| Error::Corrupt { table: CHANGE, rowid, why };
            if owner != ValueRef::Int(doc) {
                return Err(corrupt("the document is not the one that the id names"));
            }
            let ValueRef::Blob(chunk) = chunk else { return Err(corrupt("the chunk is no blob")) };
            // The chunk was within the limits on arrival, or is one's own.
            let limits = Limits { by_size: None, ..Limits::default() };
            let change = Change::from_bytes_within(chunk, &limits)
                .map_err(|source| Error::Chunk { table: CHANGE, rowid, source })?;
            if hash != ValueRef::Blob(&change.hash().0) {
                return Err(corrupt("the hash is not that of the chunk"));
            }
            changes.push(change);
            Ok(())
        },
    )?;
    Ok(changes)
}

/// How many changes of document `doc` are stored.
pub(crate) fn change_count(connection: &mut Connection, doc: i64) -> Result<i64, Error> {
    let ids = change_ids(doc);
    let mut count = 0;
    query(
        connection,
        "SELECT id FROM _shoal_change WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1",
        &[Value::Int(*ids.start()), Value::Int(*ids.end())],
        |row| {
            if let [ValueRef::Int(last)] = row {
                count = last - ids.start() + 1;
            }
            Ok(())
        },
    )?;
    Ok(count)
}

/// The hashes of the changes of document `doc`.
pub(crate) fn hashes(connection: &mut Connection, doc: i64) -> Result<BTreeSet<ChangeHash>, Error> {
    let ids = change_ids(doc);
    let mut hashes = BTreeSet::new();
    query(
        connection,
        "SELECT id, hash FROM _shoal_change WHERE id BETWEEN ?1 AND ?2",
        &[Value::Int(*ids.start()), Value::Int(*ids.end())],
        |row| {
            let &[ValueRef::Int(rowid), ValueRef::Blob(hash)] = row else {
                return Err(Error::Layout { table: CHANGE });
            };
            let hash = hash.try_into().map_err(|_| Error::Corrupt {
                table: CHANGE,
                rowid,
                why: "the hash is not 32 bytes",
            })?;
            hashes.insert(ChangeHash(hash));
            Ok(())
        },
    )?;
    Ok(hashes)
}

/// The greatest id of a document, 0 when there is none.
pub(crate) fn last_doc_id(connection: &mut Connection) -> Result<i64, Error> {
    let mut last = 0;
    query(connection, "SELECT max(id) FROM _shoal_doc", &[], |row| {
        if let [ValueRef::Int(id)] = row {
            last = *id;
        }
        Ok(())
    })?;
    Ok(last)
}

/// Appends changes after `stored` others of the same document.
pub(crate) fn append<'a>(
    connection: &mut Connection,
    doc: i64,
    stored: i64,
    changes: impl IntoIterator<Item = &'a Change>,
) -> Result<(), Error> {
    let ids = change_ids(doc);
    let mut writer = connection.table_writer(CHANGE)?;
    for (position, change) in (stored..).zip(changes) {
        let id = ids
            .start()
            .checked_add(position)
            .filter(|id| ids.contains(id))
            .ok_or(Error::Limit { what: "changes of one document", max: 1 << POSITION_BITS })?;
        writer.insert(&[
            ValueRef::Int(id),
            ValueRef::Int(doc),
            ValueRef::Blob(&change.hash().0),
            ValueRef::Blob(change.actor().as_bytes()),
            ValueRef::Int(i64::from(change.seq())),
            ValueRef::Blob(change.raw_bytes()),
        ])?;
    }
    Ok(())
}

/// Writes the row of a document, in place of the one with its id if there is one.
pub(crate) fn put_doc(connection: &mut Connection, row: &DocRow, json: &str) -> Result<(), Error> {
    if row.id > DOC_ID_MAX {
        return Err(Error::Limit { what: "documents", max: DOC_ID_MAX.unsigned_abs() });
    }
    let heads: Vec<u8> = row.heads.iter().flat_map(|head| head.0).collect();
    let values = [
        ValueRef::Int(row.id),
        ValueRef::Text(row.name.as_bytes()),
        ValueRef::Blob(&heads),
        ValueRef::Text(json.as_bytes()),
    ];
    let mut writer = connection.table_writer(DOC)?;
    if !writer.replace(row.id, &values)? {
        writer.insert(&values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_neighbours_do_not_meet() {
        assert_eq!(change_ids(1).end() + 1, *change_ids(2).start());
        assert_eq!(*change_ids(DOC_ID_MAX).end(), i64::MAX);
    }
}

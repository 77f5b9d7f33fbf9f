//! The layout of the `_shoal_` tables: the version of a file, and how an older one is brought up.
//!
//! A layout's number changes only together with the tables, so that a schema cookie stands for a
//! layout. Files of layout 1 (Shoal 0.1.0) are read as they are and brought up in the first
//! transaction that writes a document.

use std::collections::BTreeMap;

use shoal_history::{Change, ChangeHash, Limits};
use shoal_sql::{Connection, Value, ValueRef};

use crate::Error;
use crate::tables::{self, CHUNK, DOC, Last};

/// The changes of layout 1: `_shoal_change(id, doc, hash, actor, seq, chunk)`.
const CHANGE: &str = "_shoal_change";
pub(crate) const META: &str = "_shoal_meta";
/// The definitions of projections.
pub(crate) const PROJECTION: &str = "_shoal_projection";

/// The layout written by this version.
const NEWEST: i64 = 2;

const CREATE: [&str; 6] = [
    "CREATE TABLE _shoal_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE _shoal_doc(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, \
     heads BLOB NOT NULL, json TEXT NOT NULL)",
    "CREATE TABLE _shoal_chunk(id INTEGER PRIMARY KEY, heads BLOB NOT NULL, \
     changes INTEGER NOT NULL, waiting INTEGER NOT NULL, stored INTEGER NOT NULL, \
     bytes BLOB NOT NULL)",
    "CREATE TABLE _shoal_lag(doc INTEGER PRIMARY KEY)",
    "CREATE TABLE _shoal_removed(doc INTEGER PRIMARY KEY, name TEXT NOT NULL, \
     heads BLOB NOT NULL, stored INTEGER NOT NULL)",
    "CREATE TABLE _shoal_projection(name TEXT PRIMARY KEY, sql TEXT NOT NULL) WITHOUT ROWID",
];

/// The tables of documents in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// None: no document was ever stored.
    Absent,
    /// Those of Shoal 0.1.0: one row for each change.
    First,
    /// Those described in [`crate::tables`].
    Second,
}

impl Layout {
    /// The layout of the connection's file.
    ///
    /// # Errors
    /// [`Error::Newer`] for a layout of a later Shoal, [`Error::Layout`] for tables of no layout.
    pub(crate) fn of(connection: &mut Connection) -> Result<Layout, Error> {
        let schema = connection.schema()?;
        let has = |name| schema.table(name).is_some();
        if has(META) {
            return match version(connection)? {
                NEWEST if has(DOC) && has(CHUNK) => Ok(Layout::Second),
                NEWEST if !has(DOC) => Err(Error::Layout { table: DOC }),
                NEWEST => Err(Error::Layout { table: CHUNK }),
                version => {
                    check_version(version)?;
                    Err(Error::Layout { table: META })
                }
            };
        }
        match (has(DOC), has(CHANGE)) {
            (false, false) => Ok(Layout::Absent),
            (true, true) => Ok(Layout::First),
            (true, false) => Err(Error::Layout { table: DOC }),
            (false, true) => Err(Error::Layout { table: CHANGE }),
        }
    }

    /// Makes the tables of layout 2 where the file has others or none, within the open transaction.
    pub(crate) fn bring_up(self, connection: &mut Connection, now_ms: i64) -> Result<(), Error> {
        match self {
            Layout::Second => Ok(()),
            Layout::Absent => create(connection, &CREATE),
            Layout::First => {
                let without_doc = [CREATE[0], CREATE[2], CREATE[3], CREATE[4], CREATE[5]];
                create(connection, &without_doc)?;
                move_changes(connection, now_ms)?;
                create(connection, &["DROP TABLE _shoal_change"])
            }
        }
    }
}

/// Refuses the layout of a later Shoal.
pub(crate) fn check_version(version: i64) -> Result<(), Error> {
    if version > NEWEST { Err(Error::Newer { version, newest: NEWEST }) } else { Ok(()) }
}

/// Runs statements on the reserved tables, and notes the layout.
fn create(connection: &mut Connection, statements: &[&str]) -> Result<(), Error> {
    connection.reserve_tables(None);
    let note = format!("INSERT OR REPLACE INTO _shoal_meta VALUES ('layout', {NEWEST})");
    let mut all = statements.iter().copied().chain([note.as_str()]);
    let created = all.try_for_each(|sql| tables::execute(connection, sql));
    connection.reserve_tables(Some(tables::PREFIX));
    created
}

/// The number in `_shoal_meta`.
fn version(connection: &mut Connection) -> Result<i64, Error> {
    let mut version = 0;
    let sql = "SELECT value FROM _shoal_meta WHERE key = 'layout'";
    tables::query(connection, sql, &[], |row| {
        let [ValueRef::Int(found)] = row else { return Err(Error::Layout { table: META }) };
        version = *found;
        Ok(())
    })?;
    Ok(version)
}

/// Moves every change of layout 1 into a chunk of its own, with its position.
fn move_changes(connection: &mut Connection, now_ms: i64) -> Result<(), Error> {
    for doc in tables::docs(connection)? {
        let changes = first_changes(connection, doc.id)?;
        // The heads of layout 1 stand beside the JSON: the state behind the last change.
        let reached = reached(&changes);
        let waiting = (changes.len() - reached) as u64;
        let mut last = Last::NONE;
        for change in &changes {
            let bytes = change.raw_bytes();
            last = Last { heads: doc.heads.clone(), position: last.position + 1, waiting };
            tables::append(connection, doc.id, &last, (1, bytes), now_ms)?;
        }
    }
    Ok(())
}

/// How many of the changes have all their ancestors among them.
fn reached(changes: &[Change]) -> usize {
    let mut known = std::collections::BTreeSet::new();
    let mut waits: BTreeMap<ChangeHash, Vec<&Change>> = BTreeMap::new();
    let mut ready: Vec<&Change> = Vec::new();
    for change in changes {
        ready.push(change);
        while let Some(change) = ready.pop() {
            match change.deps().iter().find(|dep| !known.contains(*dep)) {
                Some(missing) => waits.entry(*missing).or_default().push(change),
                None => {
                    known.insert(change.hash());
                    ready.extend(waits.remove(&change.hash()).unwrap_or_default());
                }
            }
        }
    }
    known.len()
}

/// Reads the changes of a document from the tables of layout 1, in their order.
pub(crate) fn first_changes(connection: &mut Connection, doc: i64) -> Result<Vec<Change>, Error> {
    let ids = tables::chunk_ids(doc);
    let mut changes = Vec::new();
    tables::query(
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

/// The count and the bytes of the changes of each document in the tables of layout 1.
pub(crate) fn first_sizes(connection: &mut Connection) -> Result<BTreeMap<i64, (u64, u64)>, Error> {
    let mut sizes = BTreeMap::new();
    let sql = "SELECT doc, count(*), sum(length(chunk)) FROM _shoal_change GROUP BY doc";
    tables::query(connection, sql, &[], |row| {
        if let &[ValueRef::Int(doc), ValueRef::Int(changes), ValueRef::Int(bytes)] = row {
            sizes.insert(doc, (changes.unsigned_abs(), bytes.unsigned_abs()));
        }
        Ok(())
    })?;
    Ok(sizes)
}

//! `VACUUM`: a database copied without its gaps.
//!
//! Tables and indexes are made in SQLite's order, and their records are copied as they are, in the
//! order of their b-trees. So the copy has full pages, neighbours side by side, and no free pages.

use shoal_store::{BtreeKind, Pgno, Transaction};

use super::schema_rows::{SchemaRow, StoredRow};
use super::sequence;
use crate::Error;
use crate::schema::{Object, Schema};

/// Copies a database into an empty one. `keeps_rowids` keeps even rowids without a name: rows of a
/// table without an `INTEGER PRIMARY KEY` and without indexes are numbered anew otherwise, as
/// SQLite does.
///
/// # Errors
/// [`Error::Schema`] for an unusable definition, [`Error::Store`].
pub(crate) fn copy(
    schema: &Schema,
    from: &Transaction,
    to: &mut Transaction,
    keeps_rowids: bool,
) -> Result<(), Error> {
    let rows = StoredRow::all(from)?;
    check_whole(schema, from, rows.len())?;
    let has_tree = |row: &StoredRow| row.root > 0;
    let tables = rows
        .iter()
        .filter(|row| row.kind == "table" && has_tree(row) && row.name != sequence::NAME);
    let mut copies = Vec::new();
    let mut has_sequence = false;
    for row in tables {
        copies.push(make(row, from, to)?);
        let own = |index: &&StoredRow| {
            index.kind == "index"
                && index.sql.is_none()
                && index.table.eq_ignore_ascii_case(&row.name)
        };
        for index in rows.iter().filter(own) {
            copies.push(make(index, from, to)?);
        }
        let counts = schema.table(&row.name).is_some_and(|table| table.autoincrement);
        let sequence = rows.iter().find(|row| row.kind == "table" && row.name == sequence::NAME);
        if let Some(sequence) = sequence.filter(|_| counts && !has_sequence) {
            has_sequence = true;
            copies.push(make(sequence, from, to)?);
        }
    }
    for row in rows.iter().filter(|row| row.kind == "index" && row.sql.is_some()) {
        copies.push(make(row, from, to)?);
    }
    for (row, kind, old, new) in copies {
        match kind {
            BtreeKind::Index => to.copy_index(new, from, old)?,
            BtreeKind::Table => {
                let bare = schema
                    .table(&row.name)
                    .is_some_and(|it| it.rowid_alias.is_none() && it.indexes.is_empty());
                to.copy_table(new, from, old, bare && !keeps_rowids)?;
            }
        }
    }
    let without_tree = |row: &&StoredRow| {
        row.kind == "view" || row.kind == "trigger" || row.kind == "table" && !has_tree(row)
    };
    for row in rows.iter().filter(without_tree) {
        let (kind, name, table) = (row.kind.as_str(), row.name.as_str(), row.table.as_str());
        SchemaRow { kind, name, table, root: None, sql: row.sql.as_deref() }.insert(to)?;
    }
    to.take_numbers(from)?;
    Ok(())
}

/// Refuses schemas with parts to be lost.
fn check_whole(schema: &Schema, from: &Transaction, read: usize) -> Result<(), Error> {
    for object in schema.objects() {
        if let Object::Damaged { name, why } = object {
            return Err(Error::Schema { object: name.clone(), why: why.clone() });
        }
    }
    let mut cursor = from.table(Pgno::FIRST)?;
    let mut count = 0;
    let mut more = cursor.first()?;
    while more {
        count += 1;
        more = cursor.next()?;
    }
    if count == read {
        return Ok(());
    }
    let why = "a row of it is not made of texts".to_owned();
    Err(Error::Schema { object: "sqlite_schema".to_owned(), why })
}

/// Makes the b-tree of a table or index, and its row in the schema; gives the roots of the old
/// b-tree and the new one.
fn make<'r>(
    row: &'r StoredRow,
    from: &Transaction,
    to: &mut Transaction,
) -> Result<(&'r StoredRow, BtreeKind, Pgno, Pgno), Error> {
    let root = u32::try_from(row.root).ok().and_then(Pgno::new).filter(|it| *it != Pgno::FIRST);
    let old = root.ok_or_else(|| Error::Schema {
        object: row.name.clone(),
        why: format!("its root page is {}", row.root),
    })?;
    let is_table = from.btree_page(old)?.kind().is_table();
    let kind = if is_table { BtreeKind::Table } else { BtreeKind::Index };
    let new = to.create_btree(kind)?;
    let (name, table) = (row.name.as_str(), row.table.as_str());
    SchemaRow { kind: &row.kind, name, table, root: Some(new), sql: row.sql.as_deref() }
        .insert(to)?;
    Ok((row, kind, old, new))
}

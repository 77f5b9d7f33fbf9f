//! The shadow tables of the engine's seam as a [`Storage`]: for cursors, and for writers.

use std::cell::RefCell;

use shoal_sql::{ShadowRows, ShadowTable, TableReads, TableWrites, Value, ValueRef};

use super::{Shadows, Texts, text_of};
use crate::definition::Definition;
use crate::error::{Error, Result};
use crate::storage::{Documents, Setting, Storage};

/// Documents read at once to be indexed anew, and bytes of texts that end such a part.
const DOCUMENTS_MAX: usize = 256;
const DOCUMENT_BYTES: usize = 1 << 18;

/// The engine's error on its way through the index.
pub(crate) fn to_storage(error: shoal_sql::Error) -> Error {
    Error::Storage(Box::new(error))
}

/// The engine's error once it came through the index.
pub(super) fn from_storage(error: Box<dyn std::error::Error + Send + Sync>) -> shoal_sql::Error {
    match error.downcast::<shoal_sql::Error>() {
        Ok(error) => *error,
        Err(error) => shoal_sql::Error::of_function(error.to_string()),
    }
}

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Renames the shadow tables of a table.
///
/// # Errors
/// Errors of the file.
pub(crate) fn rename_shadows(
    (old, new): (&str, &str),
    suffixes: &[&str],
    writes: &mut TableWrites<'_>,
) -> std::result::Result<(), shoal_sql::Error> {
    for suffix in suffixes {
        let (old, new) = (format!("{old}_{suffix}"), format!("{new}_{suffix}"));
        let sql = format!("ALTER TABLE {} RENAME TO {}", quoted(&old), quoted(&new));
        writes.execute(&sql, &[])?;
    }
    Ok(())
}

/// Drops the shadow tables of a table.
///
/// # Errors
/// Errors of the file.
pub(crate) fn drop_shadows(
    table: &str,
    suffixes: &[&str],
    writes: &mut TableWrites<'_>,
) -> std::result::Result<(), shoal_sql::Error> {
    for suffix in suffixes {
        let name = quoted(&format!("{table}_{suffix}"));
        writes.execute(&format!("DROP TABLE IF EXISTS {name}"), &[])?;
    }
    Ok(())
}

/// Works with a cursor of a table; the first use opens the cursor.
///
/// # Errors
/// Faults of the file; errors of `work`.
pub(crate) fn with_rows<'t, T>(
    reads: &TableReads<'t>,
    cursor: &RefCell<Option<ShadowRows<'t>>>,
    table: &ShadowTable,
    work: impl FnOnce(&mut ShadowRows<'t>) -> std::result::Result<T, shoal_sql::Error>,
) -> Result<T> {
    let mut cursor = cursor.borrow_mut();
    let rows = match &mut *cursor {
        Some(rows) => rows,
        none => none.insert(reads.rows(table).map_err(to_storage)?),
    };
    work(rows).map_err(to_storage)
}

/// Goes to a row of a b-tree: by one step where the cursor stands right before the row, as for
/// leaves read one behind the other. False without the row.
///
/// # Errors
/// Faults of the file.
pub(crate) fn seek_near(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
) -> std::result::Result<bool, shoal_sql::Error> {
    let is_next = rows.is_valid()
        && rows.rowid()? == rowid.wrapping_sub(1)
        && rows.next()?
        && rows.rowid()? == rowid;
    Ok(is_next || rows.seek(rowid)?)
}

/// Goes to a row of a b-tree, unless the cursor stands there. False without the row.
///
/// # Errors
/// Faults of the file.
pub(crate) fn seek_once(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
) -> std::result::Result<bool, shoal_sql::Error> {
    let is_there = rows.is_valid() && rows.rowid()? == rowid;
    Ok(is_there || rows.seek(rowid)?)
}

/// As [`seek_once`], by one step where the cursor stands on some row before.
fn seek_close(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
) -> std::result::Result<bool, shoal_sql::Error> {
    let is_before = rows.is_valid() && rows.rowid()? < rowid;
    if is_before && rows.next()? && rows.rowid()? == rowid {
        return Ok(true);
    }
    seek_once(rows, rowid)
}

/// Shadow tables that are only read; cursors are opened once.
pub(super) struct ReadStore<'s, 't> {
    definition: &'s Definition,
    shadows: &'s Shadows,
    reads: TableReads<'t>,
    data: RefCell<Option<ShadowRows<'t>>>,
    idx: RefCell<Option<ShadowRows<'t>>>,
    sizes: RefCell<Option<ShadowRows<'t>>>,
    texts: RefCell<Option<ShadowRows<'t>>>,
}

impl<'s, 't> ReadStore<'s, 't> {
    pub(super) fn new(
        definition: &'s Definition,
        shadows: &'s Shadows,
        reads: TableReads<'t>,
    ) -> ReadStore<'s, 't> {
        ReadStore {
            definition,
            shadows,
            reads,
            data: RefCell::default(),
            idx: RefCell::default(),
            sizes: RefCell::default(),
            texts: RefCell::default(),
        }
    }

    fn with<T>(
        &self,
        cursor: &RefCell<Option<ShadowRows<'t>>>,
        table: &ShadowTable,
        work: impl FnOnce(&mut ShadowRows<'t>) -> std::result::Result<T, shoal_sql::Error>,
    ) -> Result<T> {
        with_rows(&self.reads, cursor, table, work)
    }

    /// A column of a document as it is stored; false without the document.
    pub(super) fn value(&self, rowid: i64, column: usize, out: &mut Value) -> Result<bool> {
        *out = Value::Null;
        let Some(texts) = &self.shadows.texts else { return Ok(false) };
        let Some(table) = &texts.table else {
            return by_sql(self.definition, self.shadows, &self.reads, rowid, column, out);
        };
        let Some(place) = texts.places[column] else { return Ok(false) };
        self.with(&self.texts, table, |rows| {
            if !seek_close(rows, rowid)? {
                return Ok(false);
            }
            owned(rows.column(place)?, out);
            Ok(true)
        })
    }
}

impl ReadStore<'_, '_> {
    /// Appends documents from the first bound to the last, until `rows` has `count`.
    pub(super) fn documents(
        &self,
        (from, to): (i64, i64),
        count: usize,
        rows: &mut Vec<i64>,
    ) -> Result<()> {
        self.reads.check().map_err(to_storage)?;
        let after = from.checked_sub(1);
        let (cursor, table) = match (&self.shadows.texts, &self.shadows.sizes) {
            (Some(Texts { table: Some(table), .. }), _) => (&self.texts, table),
            (Some(_), _) => {
                let found = next_by_sql(self.shadows, &self.reads, after)?;
                rows.extend(found.filter(|&rowid| rowid <= to));
                return Ok(());
            }
            (None, Some(table)) => (&self.sizes, table),
            (None, None) => return Ok(()),
        };
        self.with(cursor, table, |cursor| {
            let mut found = first_after(cursor, after)?;
            while let Some(rowid) = found.filter(|&rowid| rowid <= to) {
                rows.push(rowid);
                if rows.len() >= count {
                    break;
                }
                found = if cursor.next()? { Some(cursor.rowid()?) } else { None };
            }
            Ok(())
        })
    }
}

fn owned(value: ValueRef<'_>, out: &mut Value) {
    *out = match value {
        ValueRef::Null => Value::Null,
        ValueRef::Int(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(bytes.to_vec()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    };
}

/// A column of a document in a view, or beside what a b-tree stores.
fn by_sql(
    definition: &Definition,
    shadows: &Shadows,
    reads: &TableReads<'_>,
    rowid: i64,
    column: usize,
    out: &mut Value,
) -> Result<bool> {
    let Some(texts) = &shadows.texts else { return Ok(false) };
    let sql = format!(
        "SELECT {} FROM {} WHERE {} = ?1",
        quoted(&definition.columns[column].name),
        quoted(&texts.name),
        quoted(&texts.rowid)
    );
    let mut is_found = false;
    reads
        .query(&sql, &[Value::Int(rowid)], |row| {
            is_found = true;
            *out = row.first().cloned().unwrap_or_default();
            Ok(())
        })
        .map_err(to_storage)?;
    Ok(is_found)
}

fn next_by_sql(
    shadows: &Shadows,
    reads: &TableReads<'_>,
    rowid: Option<i64>,
) -> Result<Option<i64>> {
    let Some(texts) = &shadows.texts else { return Ok(None) };
    let (key, table) = (quoted(&texts.rowid), quoted(&texts.name));
    let sql = format!("SELECT min({key}) FROM {table} WHERE ?1 IS NULL OR {key} > ?1");
    let mut found = None;
    reads
        .query(&sql, &[rowid.map_or(Value::Null, Value::Int)], |row| {
            if let Some(Value::Int(rowid)) = row.first() {
                found = Some(*rowid);
            }
            Ok(())
        })
        .map_err(to_storage)?;
    Ok(found)
}

fn first_after(
    rows: &mut ShadowRows<'_>,
    rowid: Option<i64>,
) -> std::result::Result<Option<i64>, shoal_sql::Error> {
    match rowid {
        None => rows.first()?,
        Some(i64::MAX) => return Ok(None),
        Some(rowid) => rows.seek(rowid + 1)?,
    };
    if rows.is_valid() { rows.rowid().map(Some) } else { Ok(None) }
}

fn bytes_of(value: ValueRef<'_>, into: &mut Vec<u8>) {
    if let ValueRef::Blob(bytes) | ValueRef::Text(bytes) = value {
        into.extend_from_slice(bytes);
    }
}

fn read_settings(
    rows: &mut ShadowRows<'_>,
) -> std::result::Result<Vec<(String, Setting)>, shoal_sql::Error> {
    let mut settings = Vec::new();
    let mut is_row = rows.first()?;
    while is_row {
        let name = match rows.column(0)? {
            ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        };
        let value = match rows.column(1)? {
            ValueRef::Int(number) => Some(Setting::Integer(number)),
            ValueRef::Text(bytes) => {
                Some(Setting::Text(String::from_utf8_lossy(bytes).into_owned()))
            }
            _ => None,
        };
        settings.extend(name.zip(value));
        is_row = rows.next()?;
    }
    Ok(settings)
}

/// The entry of `%_idx` at or before a term.
fn leaf_at(
    rows: &mut ShadowRows<'_>,
    segment: u32,
    term: &[u8],
) -> std::result::Result<Option<i64>, shoal_sql::Error> {
    let segment = ValueRef::Int(i64::from(segment));
    if !rows.seek_at_most(&[segment, ValueRef::Blob(term)])? || rows.column(0)? != segment {
        return Ok(None);
    }
    Ok(match rows.column(2)? {
        ValueRef::Int(leaf) => Some(leaf),
        _ => None,
    })
}

fn leaves_of(
    rows: &mut ShadowRows<'_>,
    segment: u32,
) -> std::result::Result<Vec<(Vec<u8>, i64)>, shoal_sql::Error> {
    let mut leaves = Vec::new();
    let key = ValueRef::Int(i64::from(segment));
    rows.seek_key(&[key])?;
    while rows.is_valid() && rows.column(0)? == key {
        let mut term = Vec::new();
        bytes_of(rows.column(1)?, &mut term);
        let leaf = match rows.column(2)? {
            ValueRef::Int(leaf) => leaf,
            _ => 0,
        };
        leaves.push((term, leaf));
        rows.next()?;
    }
    Ok(leaves)
}

/// The shadow tables of a statement that writes.
pub(super) struct WriteStore<'s, 'w, 't> {
    definition: &'s Definition,
    shadows: &'s Shadows,
    writes: RefCell<&'w mut TableWrites<'t>>,
}

impl<'s, 'w, 't> WriteStore<'s, 'w, 't> {
    pub(super) fn new(
        definition: &'s Definition,
        shadows: &'s Shadows,
        writes: &'w mut TableWrites<'t>,
    ) -> WriteStore<'s, 'w, 't> {
        WriteStore { definition, shadows, writes: RefCell::new(writes) }
    }

    fn with<T>(
        &self,
        table: &ShadowTable,
        work: impl FnOnce(&mut ShadowRows<'_>) -> std::result::Result<T, shoal_sql::Error>,
    ) -> Result<T> {
        let writes = self.writes.borrow();
        let reads = writes.reads();
        let mut rows = reads.rows(table).map_err(to_storage)?;
        work(&mut rows).map_err(to_storage)
    }

    fn sizes_table(&self) -> Result<&'s ShadowTable> {
        let fault = || Error::Refused("fts5: a table without sizes was asked for them".to_owned());
        self.shadows.sizes.as_ref().ok_or_else(fault)
    }

    fn remove_range(&self, table: &ShadowTable, first: i64, last: i64) -> Result<()> {
        let mut from = first;
        loop {
            let next = self.with(table, |rows| {
                rows.seek(from)?;
                if rows.is_valid() { rows.rowid().map(Some) } else { Ok(None) }
            })?;
            let Some(rowid) = next.filter(|&rowid| rowid <= last) else { return Ok(()) };
            self.writes.borrow_mut().delete(table, rowid).map_err(to_storage)?;
            match rowid.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// All columns of a document as they are stored; false without the document.
    pub(super) fn values(&self, rowid: i64, out: &mut Vec<Value>) -> Result<bool> {
        out.clear();
        let writes = self.writes.borrow();
        let store = ReadStore::new(self.definition, self.shadows, writes.reads());
        for column in 0..self.definition.columns.len() {
            let mut value = Value::Null;
            if !store.value(rowid, column, &mut value)? && column == 0 {
                return Ok(false);
            }
            out.push(value);
        }
        Ok(true)
    }
}

impl Storage for ReadStore<'_, '_> {
    fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.with(&self.data, &self.shadows.data, |rows| {
            if !seek_near(rows, id)? {
                return Ok(false);
            }
            bytes_of(rows.column(1)?, into);
            Ok(true)
        })
    }

    fn seek_leaf(&self, segment: u32, term: &[u8]) -> Result<Option<i64>> {
        self.with(&self.idx, &self.shadows.idx, |rows| leaf_at(rows, segment, term))
    }

    fn leaves(&self, segment: u32) -> Result<Vec<(Vec<u8>, i64)>> {
        self.with(&self.idx, &self.shadows.idx, |rows| leaves_of(rows, segment))
    }

    fn sizes(&self, rowid: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let Some(table) = &self.shadows.sizes else { return Ok(false) };
        self.with(&self.sizes, table, |rows| sizes_of(rows, rowid, into))
    }

    fn origin(&self, rowid: i64) -> Result<Option<i64>> {
        let Some(table) = &self.shadows.sizes else { return Ok(None) };
        self.with(&self.sizes, table, |rows| origin_of(rows, rowid))
    }

    fn sizes_count(&self) -> Result<u64> {
        let Some(table) = &self.shadows.sizes else { return Ok(0) };
        self.with(&self.sizes, table, count)
    }

    fn settings(&self) -> Result<Vec<(String, Setting)>> {
        let mut rows = self.reads.rows(&self.shadows.config).map_err(to_storage)?;
        read_settings(&mut rows).map_err(to_storage)
    }

    fn text(&self, rowid: i64, column: usize, into: &mut Vec<u8>) -> Result<bool> {
        let mut value = Value::Null;
        let is_found = self.value(rowid, column, &mut value)?;
        text_of(&value, into);
        Ok(is_found)
    }

    fn document_after(&self, rowid: Option<i64>) -> Result<Option<i64>> {
        self.reads.check().map_err(to_storage)?;
        let Some(texts) = &self.shadows.texts else {
            let Some(table) = &self.shadows.sizes else { return Ok(None) };
            return self.with(&self.sizes, table, |rows| first_after(rows, rowid));
        };
        let Some(table) = &texts.table else {
            return next_by_sql(self.shadows, &self.reads, rowid);
        };
        self.with(&self.texts, table, |rows| first_after(rows, rowid))
    }

    fn put_block(&self, _id: i64, _bytes: &[u8]) -> Result<()> {
        Err(read_only())
    }

    fn remove_blocks(&self, _first: i64, _last: i64) -> Result<()> {
        Err(read_only())
    }

    fn put_leaf(&self, _segment: u32, _term: &[u8], _leaf: i64) -> Result<()> {
        Err(read_only())
    }

    fn remove_leaves(&self, _segment: u32) -> Result<()> {
        Err(read_only())
    }

    fn put_sizes(&self, _rowid: i64, _sizes: &[u8], _origin: Option<i64>) -> Result<()> {
        Err(read_only())
    }

    fn remove_sizes(&self, _rowid: i64) -> Result<()> {
        Err(read_only())
    }

    fn clear(&self) -> Result<()> {
        Err(read_only())
    }

    fn put_setting(&self, _name: &str, _value: &Setting) -> Result<()> {
        Err(read_only())
    }
}

fn read_only() -> Error {
    Error::Refused("fts5: a statement that reads wrote to a shadow table".to_owned())
}

/// Puts the sizes of a row into `into`; false without the row.
fn sizes_of(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
    into: &mut Vec<u8>,
) -> std::result::Result<bool, shoal_sql::Error> {
    let found = rows.seek(rowid)?;
    if found {
        bytes_of(rows.column(1)?, into);
    }
    Ok(found)
}

fn origin_of(
    rows: &mut ShadowRows<'_>,
    rowid: i64,
) -> std::result::Result<Option<i64>, shoal_sql::Error> {
    if !rows.seek(rowid)? {
        return Ok(None);
    }
    Ok(match rows.column(2)? {
        ValueRef::Int(origin) => Some(origin),
        _ => None,
    })
}

fn count(rows: &mut ShadowRows<'_>) -> std::result::Result<u64, shoal_sql::Error> {
    let mut count = 0;
    let mut is_row = rows.first()?;
    while is_row {
        count += 1;
        is_row = rows.next()?;
    }
    Ok(count)
}

impl Storage for WriteStore<'_, '_, '_> {
    fn block(&self, id: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        self.with(&self.shadows.data, |rows| {
            if !rows.seek(id)? {
                return Ok(false);
            }
            bytes_of(rows.column(1)?, into);
            Ok(true)
        })
    }

    fn put_block(&self, id: i64, bytes: &[u8]) -> Result<()> {
        let row = [ValueRef::Null, ValueRef::Blob(bytes)];
        self.writes.borrow_mut().insert(&self.shadows.data, id, &row).map_err(to_storage)
    }

    fn remove_blocks(&self, first: i64, last: i64) -> Result<()> {
        self.remove_range(&self.shadows.data, first, last)
    }

    fn seek_leaf(&self, segment: u32, term: &[u8]) -> Result<Option<i64>> {
        self.with(&self.shadows.idx, |rows| leaf_at(rows, segment, term))
    }

    fn leaves(&self, segment: u32) -> Result<Vec<(Vec<u8>, i64)>> {
        self.with(&self.shadows.idx, |rows| leaves_of(rows, segment))
    }

    fn put_leaf(&self, segment: u32, term: &[u8], leaf: i64) -> Result<()> {
        let row = [ValueRef::Int(i64::from(segment)), ValueRef::Blob(term), ValueRef::Int(leaf)];
        self.writes.borrow_mut().insert_key(&self.shadows.idx, &row).map_err(to_storage)
    }

    fn remove_leaves(&self, segment: u32) -> Result<()> {
        for (term, _) in self.leaves(segment)? {
            let key = [ValueRef::Int(i64::from(segment)), ValueRef::Blob(&term)];
            self.writes.borrow_mut().delete_key(&self.shadows.idx, &key).map_err(to_storage)?;
        }
        Ok(())
    }

    fn sizes(&self, rowid: i64, into: &mut Vec<u8>) -> Result<bool> {
        into.clear();
        let Some(table) = &self.shadows.sizes else { return Ok(false) };
        self.with(table, |rows| sizes_of(rows, rowid, into))
    }

    fn origin(&self, rowid: i64) -> Result<Option<i64>> {
        let Some(table) = &self.shadows.sizes else { return Ok(None) };
        self.with(table, |rows| origin_of(rows, rowid))
    }

    fn put_sizes(&self, rowid: i64, sizes: &[u8], origin: Option<i64>) -> Result<()> {
        let table = self.sizes_table()?;
        let row =
            [ValueRef::Null, ValueRef::Blob(sizes), origin.map_or(ValueRef::Null, ValueRef::Int)];
        let row = &row[..table.columns().min(3)];
        self.writes.borrow_mut().insert(table, rowid, row).map_err(to_storage)
    }

    fn remove_sizes(&self, rowid: i64) -> Result<()> {
        let table = self.sizes_table()?;
        self.writes.borrow_mut().delete(table, rowid).map(drop).map_err(to_storage)
    }

    fn clear(&self) -> Result<()> {
        let mut writes = self.writes.borrow_mut();
        let Shadows { data, idx, sizes, .. } = self.shadows;
        for table in [Some(data), Some(idx), sizes.as_ref()].into_iter().flatten() {
            writes.clear(table).map_err(to_storage)?;
        }
        Ok(())
    }

    fn sizes_count(&self) -> Result<u64> {
        let Some(table) = &self.shadows.sizes else { return Ok(0) };
        self.with(table, count)
    }

    fn settings(&self) -> Result<Vec<(String, Setting)>> {
        self.with(&self.shadows.config, read_settings)
    }

    fn put_setting(&self, name: &str, value: &Setting) -> Result<()> {
        let value = match value {
            Setting::Integer(number) => ValueRef::Int(*number),
            Setting::Text(text) => ValueRef::Text(text.as_bytes()),
        };
        let row = [ValueRef::Text(name.as_bytes()), value];
        self.writes.borrow_mut().insert_key(&self.shadows.config, &row).map_err(to_storage)
    }

    fn text(&self, rowid: i64, column: usize, into: &mut Vec<u8>) -> Result<bool> {
        let writes = self.writes.borrow();
        ReadStore::new(self.definition, self.shadows, writes.reads()).text(rowid, column, into)
    }

    fn document_after(&self, rowid: Option<i64>) -> Result<Option<i64>> {
        let writes = self.writes.borrow();
        ReadStore::new(self.definition, self.shadows, writes.reads()).document_after(rowid)
    }

    fn documents_after(
        &self,
        rowid: Option<i64>,
        columns: &[usize],
        into: &mut Documents,
    ) -> Result<()> {
        into.clear();
        let writes = self.writes.borrow();
        let store = ReadStore::new(self.definition, self.shadows, writes.reads());
        let from = match rowid {
            Some(i64::MAX) => return Ok(()),
            Some(rowid) => rowid + 1,
            None => i64::MIN,
        };
        let mut rowids = Vec::new();
        store.documents((from, i64::MAX), DOCUMENTS_MAX, &mut rowids)?;
        let mut text = Vec::new();
        for rowid in rowids {
            into.begin(rowid);
            for &column in columns {
                store.text(rowid, column, &mut text)?;
                into.push(&text);
            }
            if into.len() > DOCUMENT_BYTES {
                break;
            }
        }
        Ok(())
    }
}

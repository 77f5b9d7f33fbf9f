//! Shadow tables by their b-trees: rows of virtual tables are found and written without SQL.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use shoal_store::{
    FoundValue, IndexCursor, KeyOrder, Pgno, Record, TableCursor, Transaction, ValueBytes, Version,
    encode_record,
};

use super::{TableReads, TableWrites};
use crate::Error;
use crate::error::NameKind;
use crate::schema::{Object, Schema, Table};
use crate::value::ValueRef;

/// An ordinary table holding a part of a virtual table. Good for one version of the schema.
#[derive(Clone)]
pub struct ShadowTable {
    pub(super) table: Arc<Table>,
    order: KeyOrder,
}

impl ShadowTable {
    /// The table called `name`.
    ///
    /// # Errors
    /// `no such table`; a view, a virtual table, a damaged table.
    pub fn of(schema: &Schema, name: &str) -> Result<ShadowTable, Error> {
        let table = match schema.object(name) {
            Some(Object::Table(table)) => Arc::clone(table),
            Some(Object::Damaged { name, why }) => {
                return Err(Error::Schema { object: name.clone(), why: why.clone() });
            }
            Some(_) => {
                let why = "a part of a virtual table is no table".to_owned();
                return Err(Error::Schema { object: name.to_owned(), why });
            }
            None => {
                let message = format!("no such table: {name}");
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
        };
        let order = table.primary_key_order();
        Ok(ShadowTable { table, order })
    }

    /// The name as written.
    pub fn name(&self) -> &str {
        &self.table.name
    }

    /// How many columns the table has.
    pub fn columns(&self) -> usize {
        self.table.columns.len()
    }

    /// True where rows are found by their primary key and have no rowid.
    pub fn is_without_rowid(&self) -> bool {
        self.table.without_rowid
    }

    /// Refuses the other kind of table.
    fn check_kind(&self, without_rowid: bool) -> Result<(), Error> {
        match self.table.without_rowid == without_rowid {
            true => Ok(()),
            false => Err(self.fault("it has another kind of key than its virtual table expects")),
        }
    }

    /// Refuses tables with triggers, and with indexes but those of constraints on plain columns.
    fn check_plain(&self) -> Result<(), Error> {
        let is_plain = self.table.triggers.list.is_empty()
            && self.table.indexes.iter().all(super::indexed::is_plain)
            && (self.table.indexes.is_empty() || !self.table.without_rowid);
        match is_plain {
            true => Ok(()),
            false => Err(self.fault("a part of a virtual table has indexes or triggers")),
        }
    }

    pub(super) fn fault(&self, why: &str) -> Error {
        Error::Schema { object: self.table.name.clone(), why: why.to_owned() }
    }
}

impl fmt::Debug for ShadowTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShadowTable").field(&self.table.name).finish()
    }
}

/// A position among the rows of a shadow table.
///
/// Columns are borrowed from the page, but for records continued on overflow pages, which are
/// copied to the cursor's own buffer.
pub struct ShadowRows<'t> {
    table: ShadowTable,
    cursor: Cursor<'t>,
}

enum Cursor<'t> {
    Table(Box<TableCursor<'t>>),
    Index(Box<IndexCursor<'t>>),
}

impl<'t> ShadowRows<'t> {
    pub(super) fn new(table: &ShadowTable, txn: &'t Transaction) -> Result<ShadowRows<'t>, Error> {
        let root = table.table.root;
        let cursor = match table.table.without_rowid {
            true => Cursor::Index(Box::new(txn.index(root)?)),
            false => Cursor::Table(Box::new(txn.table(root)?)),
        };
        Ok(ShadowRows { table: table.clone(), cursor })
    }

    fn wrong(&self) -> Error {
        self.table.fault("it has another kind of key than its virtual table expects")
    }

    /// Goes to the row of a rowid, or else to the next one; true when the rowid has a row.
    ///
    /// # Errors
    /// [`Error::Store`]; a table without rowid.
    pub fn seek(&mut self, rowid: i64) -> Result<bool, Error> {
        match &mut self.cursor {
            Cursor::Table(cursor) => Ok(cursor.seek(rowid)?),
            Cursor::Index(_) => Err(self.wrong()),
        }
    }

    /// Goes to the first row at or behind the first columns of a primary key; true when it has
    /// them. For tables without rowid.
    ///
    /// # Errors
    /// [`Error::Store`]; a table with rowids.
    pub fn seek_key(&mut self, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        match &mut self.cursor {
            Cursor::Index(cursor) => Ok(cursor.seek(key, &self.table.order)?),
            Cursor::Table(_) => Err(self.wrong()),
        }
    }

    /// Goes to the last row at or before the first columns of a primary key; false when there is
    /// none. For tables without rowid.
    ///
    /// # Errors
    /// As [`ShadowRows::seek_key`].
    pub fn seek_at_most(&mut self, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        match &mut self.cursor {
            Cursor::Index(cursor) => {
                cursor.seek_after(key, &self.table.order)?;
                Ok(cursor.prev()?)
            }
            Cursor::Table(_) => Err(self.wrong()),
        }
    }

    /// Goes to the first row; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn first(&mut self) -> Result<bool, Error> {
        Ok(match &mut self.cursor {
            Cursor::Table(cursor) => cursor.first()?,
            Cursor::Index(cursor) => cursor.first()?,
        })
    }

    /// Goes to the last row; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn last(&mut self) -> Result<bool, Error> {
        Ok(match &mut self.cursor {
            Cursor::Table(cursor) => cursor.last()?,
            Cursor::Index(cursor) => cursor.last()?,
        })
    }

    /// Goes to the next row; false behind the last.
    ///
    /// # Errors
    /// [`Error::Store`].
    #[allow(clippy::should_implement_trait)] // it lends, and can fail
    pub fn next(&mut self) -> Result<bool, Error> {
        Ok(match &mut self.cursor {
            Cursor::Table(cursor) => cursor.next()?,
            Cursor::Index(cursor) => cursor.next()?,
        })
    }

    /// Goes to the row before; false before the first.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn prev(&mut self) -> Result<bool, Error> {
        Ok(match &mut self.cursor {
            Cursor::Table(cursor) => cursor.prev()?,
            Cursor::Index(cursor) => cursor.prev()?,
        })
    }

    /// True on a row.
    pub fn is_valid(&self) -> bool {
        match &self.cursor {
            Cursor::Table(cursor) => cursor.is_valid(),
            Cursor::Index(cursor) => cursor.is_valid(),
        }
    }

    /// The rowid of the row.
    ///
    /// # Errors
    /// A table without rowid; on no row.
    pub fn rowid(&self) -> Result<i64, Error> {
        match &self.cursor {
            Cursor::Table(cursor) => Ok(cursor.rowid()?),
            Cursor::Index(_) => Err(self.wrong()),
        }
    }

    /// A column of the row by its place in the table's definition; NULL for the rowid's other
    /// name, for columns added since, and for generated ones.
    ///
    /// # Errors
    /// [`Error::Store`]; on no row.
    pub fn column(&mut self, column: usize) -> Result<ValueRef<'_>, Error> {
        let known = self.table.table.columns.get(column);
        let Some(place) = known.and_then(|column| column.stored) else { return Ok(ValueRef::Null) };
        let payload = match &mut self.cursor {
            Cursor::Table(cursor) => cursor.payload()?,
            Cursor::Index(cursor) => cursor.payload()?,
        };
        let record = Record::new(payload).map_err(Error::corrupt)?;
        Ok(record.column(place).map_err(Error::corrupt)?.unwrap_or(ValueRef::Null))
    }
}

impl fmt::Debug for ShadowRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ShadowRows").field(&self.table.table.name).finish()
    }
}

impl TableWrites<'_> {
    /// Stores a row of a table with rowids, in the place of one of the same rowid. The value of the
    /// rowid's other name is not looked at. Columns' affinities are not applied.
    ///
    /// # Errors
    /// [`Error::Store`]; a table without rowid, with triggers, or with indexes of more than plain
    /// columns; [`Error::Constraint`] for a value of another row in a UNIQUE column.
    pub fn insert(
        &mut self,
        table: &ShadowTable,
        rowid: i64,
        values: &[ValueRef<'_>],
    ) -> Result<(), Error> {
        table.check_kind(false)?;
        table.check_plain()?;
        if !table.table.indexes.is_empty() {
            self.remove_entries(table, rowid)?;
            self.add_entries(table, rowid, values)?;
        }
        self.record.clear();
        let format = self.transaction.header().schema_format;
        let alias = table.table.rowid_alias;
        let values = values.iter().enumerate();
        let values = values.map(|(place, value)| match Some(place) == alias {
            true => ValueRef::Null,
            false => *value,
        });
        shoal_store::encode_values(values, format, &mut self.record);
        Ok(self.transaction.table_insert(table.table.root, rowid, &self.record)?)
    }

    /// Removes the row of a rowid; false when there is none.
    ///
    /// # Errors
    /// As [`TableWrites::insert`].
    pub fn delete(&mut self, table: &ShadowTable, rowid: i64) -> Result<bool, Error> {
        table.check_kind(false)?;
        table.check_plain()?;
        if !table.table.indexes.is_empty() {
            self.remove_entries(table, rowid)?;
        }
        Ok(self.transaction.table_delete(table.table.root, rowid)?)
    }

    /// Removes all rows of a table.
    ///
    /// # Errors
    /// [`Error::Store`]; a table with indexes or triggers.
    pub fn clear(&mut self, table: &ShadowTable) -> Result<(), Error> {
        table.check_plain()?;
        match table.table.indexes.is_empty() {
            true => Ok(self.transaction.clear_btree(table.table.root)?),
            false => Err(table.fault("a part of a virtual table has indexes or triggers")),
        }
    }

    /// Does some work whose changes of the file are taken back where it fails.
    ///
    /// # Errors
    /// The work's; [`Error::Store`].
    pub fn whole<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let savepoint = self.transaction.savepoint()?;
        let done = work(self);
        if done.is_err() {
            self.transaction.rollback_to(&savepoint)?;
        }
        self.transaction.release(savepoint)?;
        done
    }

    /// Stores a row of a table without rowid, in the place of one with the same primary key; the
    /// values are in the order of the definition.
    ///
    /// # Errors
    /// [`Error::Store`]; a table with rowids, indexes or triggers.
    pub fn insert_key(
        &mut self,
        table: &ShadowTable,
        values: &[ValueRef<'_>],
    ) -> Result<(), Error> {
        table.check_kind(true)?;
        table.check_plain()?;
        let definition = &*table.table;
        let mut stored = vec![ValueRef::Null; definition.stored_columns];
        for (column, value) in definition.columns.iter().zip(values) {
            if let Some(place) = column.stored.filter(|place| *place < stored.len()) {
                stored[place] = *value;
            }
        }
        let key = &stored[..definition.primary_key.len().min(stored.len())];
        self.delete_key(table, key)?;
        self.record.clear();
        encode_record(&stored, self.transaction.header().schema_format, &mut self.record);
        Ok(self.transaction.index_insert(definition.root, &self.record, &table.order)?)
    }

    /// Removes the row of a whole primary key; false when there is none.
    ///
    /// # Errors
    /// As [`TableWrites::insert_key`].
    pub fn delete_key(&mut self, table: &ShadowTable, key: &[ValueRef<'_>]) -> Result<bool, Error> {
        table.check_kind(true)?;
        table.check_plain()?;
        self.record.clear();
        encode_record(key, self.transaction.header().schema_format, &mut self.record);
        Ok(self.transaction.index_delete(table.table.root, &self.record, &table.order)?)
    }

    /// One more than the largest rowid; 1 in an empty table.
    ///
    /// # Errors
    /// [`Error::Store`]; `database or disk is full` above the largest rowid there is.
    pub fn new_rowid(&self, table: &ShadowTable) -> Result<i64, Error> {
        table.check_kind(false)?;
        let mut cursor = self.transaction.table(table.table.root)?;
        match cursor.last()? {
            false => Ok(1),
            true => {
                let last = cursor.rowid()?;
                last.checked_add(1).ok_or_else(|| Error::runtime("database or disk is full"))
            }
        }
    }
}

/// The bytes of a text or blob in a row of a shadow table, to be read and overwritten in pieces.
/// Good until anything else changes the table's rows; the length stays.
#[derive(Debug)]
pub struct ShadowBlob(ValueBytes);

impl ShadowBlob {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True where `self`, read as a whole in an earlier state, is still the value at `now`: the row
    /// is on the same page, and none of the value's pages changed.
    pub fn is_unchanged(&self, now: &ShadowBlob, changed: &ChangedPages) -> bool {
        let leaf = |blob: &ShadowBlob| blob.0.pages().next();
        leaf(self) == leaf(now) && !self.0.pages().any(|page| changed.0.contains(&page))
    }
}

/// A state of a database, for [`TableReads::changed_since`] to begin at.
#[derive(Clone, Debug)]
pub struct SeenState(Version);

/// Pages changed by commits.
#[derive(Debug)]
pub struct ChangedPages(FxHashSet<Pgno>);

impl TableReads<'_> {
    /// The state being read.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside of a transaction.
    pub fn seen_state(&self) -> Result<SeenState, Error> {
        Ok(SeenState(self.txns.of(self.database)?.version()))
    }

    /// The pages changed by commits from an earlier state of the same database to the state being
    /// read; `None` where nobody knows: the states are far apart, or another program committed
    /// without a write-ahead log.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside of a transaction.
    pub fn changed_since(&self, before: &SeenState) -> Result<Option<ChangedPages>, Error> {
        let changed = self.txns.of(self.database)?.changed_since(&before.0);
        Ok(changed.map(|pages| ChangedPages(pages.into_iter().collect())))
    }

    /// The bytes in a column of a row, by the column's place in the definition; `None` for a
    /// missing row, and for values other than texts and blobs. For tables with rowids.
    ///
    /// # Errors
    /// [`Error::Store`]; a table without rowid.
    pub fn blob(
        &self,
        table: &ShadowTable,
        rowid: i64,
        column: usize,
    ) -> Result<Option<ShadowBlob>, Error> {
        table.check_kind(false)?;
        let known = table.table.columns.get(column);
        let Some(place) = known.and_then(|column| column.stored) else { return Ok(None) };
        let transaction = self.txns.of(self.database)?;
        Ok(match transaction.find_value(table.table.root, rowid, place)? {
            Some(FoundValue::Bytes(value)) => Some(ShadowBlob(value)),
            _ => None,
        })
    }

    /// Fills `out` with the bytes of a value from `offset` on.
    ///
    /// # Errors
    /// [`Error::Store`]; bytes past the value's end.
    pub fn read_blob(
        &self,
        blob: &mut ShadowBlob,
        offset: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        Ok(self.txns.of(self.database)?.read_value(&mut blob.0, offset, out)?)
    }
}

impl TableWrites<'_> {
    /// Overwrites the bytes of a value from `offset` on; no index may have the column.
    ///
    /// Cost: the pages the bytes lie on.
    ///
    /// # Errors
    /// [`Error::Store`]; bytes past the value's end.
    pub fn write_blob(
        &mut self,
        blob: &mut ShadowBlob,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        Ok(self.transaction.write_value(&mut blob.0, offset, bytes)?)
    }
}

impl Schema {
    /// The virtual table of this schema with content in the table called `table`: the name of a
    /// shadow table is the virtual table's, `_`, and an ending of the module's
    /// ([`TableModule::is_shadow`](super::TableModule::is_shadow)). Of modules unknown to the
    /// connection, SQLite's own have SQLite's endings.
    pub fn shadow_owner(&self, table: &str) -> Option<&str> {
        self.objects.iter().find_map(|object| {
            let Object::Virtual(owner) = object else { return None };
            let (start, rest) = table.split_at_checked(owner.name().len())?;
            let suffix = rest.strip_prefix('_')?;
            let is_shadow = match self.table_modules.named(owner.module()) {
                Some(module) => module.is_shadow(suffix),
                None => is_shadow_in_sqlite(owner.module(), suffix),
            };
            (is_shadow && start.eq_ignore_ascii_case(owner.name())).then(|| owner.name())
        })
    }
}

/// True for the endings of shadow tables of SQLite's own modules.
fn is_shadow_in_sqlite(module: &str, suffix: &str) -> bool {
    let endings: &[&str] = match module.to_ascii_lowercase().as_str() {
        "fts3" | "fts4" => &["content", "docsize", "segdir", "segments", "stat"],
        "fts5" => &["config", "content", "data", "docsize", "idx"],
        "rtree" | "rtree_i32" | "geopoly" => &["node", "parent", "rowid"],
        _ => &[],
    };
    endings.iter().any(|ending| ending.eq_ignore_ascii_case(suffix))
}

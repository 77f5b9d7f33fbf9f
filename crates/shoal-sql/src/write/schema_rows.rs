//! Rows of `sqlite_schema`, written below SQL.

use shoal_store::{Pgno, Record, Transaction, ValueRef, encode_record};

use crate::Error;

/// A row of `sqlite_schema`.
pub(crate) struct SchemaRow<'a> {
    /// `table` or `index`.
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// The table that an index belongs to; a table's own name.
    pub(crate) table: &'a str,
    /// `None` for a view, which has none.
    pub(crate) root: Option<Pgno>,
    /// `None` for automatic indexes.
    pub(crate) sql: Option<&'a str>,
}

impl SchemaRow<'_> {
    /// Adds the row at the end.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn insert(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let mut cursor = transaction.table(Pgno::FIRST)?;
        let last = if cursor.last()? { cursor.rowid()? } else { 0 };
        let rowid =
            last.checked_add(1).ok_or_else(|| Error::runtime("database or disk is full"))?;
        let values = [
            ValueRef::Text(self.kind.as_bytes()),
            ValueRef::Text(self.name.as_bytes()),
            ValueRef::Text(self.table.as_bytes()),
            ValueRef::Int(self.root.map_or(0, |root| root.get().into())),
            self.sql.map_or(ValueRef::Null, |sql| ValueRef::Text(sql.as_bytes())),
        ];
        let mut record = Vec::new();
        encode_record(&values, transaction.header().schema_format, &mut record);
        Ok(transaction.table_insert(Pgno::FIRST, rowid, &record)?)
    }
}

/// A stored row of `sqlite_schema`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredRow {
    rowid: i64,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) table: String,
    /// 0 without a b-tree.
    pub(crate) root: i64,
    pub(crate) sql: Option<String>,
}

impl StoredRow {
    /// Every row, in the order of the tree. Rows with texts in no UTF-8 are left out.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn all(transaction: &Transaction) -> Result<Vec<StoredRow>, Error> {
        let mut rows = Vec::new();
        let mut cursor = transaction.table(Pgno::FIRST)?;
        let mut more = cursor.first()?;
        while more {
            let rowid = cursor.rowid()?;
            let record = Record::new(cursor.payload()?).map_err(Error::corrupt)?;
            let mut texts: [Option<String>; 5] = Default::default();
            let mut root = 0;
            let mut whole = true;
            for (place, value) in record.values().take(texts.len()).enumerate() {
                match value.map_err(Error::corrupt)? {
                    ValueRef::Text(text) => {
                        texts[place] = std::str::from_utf8(text).ok().map(str::to_owned);
                        whole &= texts[place].is_some();
                    }
                    ValueRef::Int(int) if place == 3 => root = int,
                    _ => {}
                }
            }
            if let ([Some(kind), Some(name), Some(table), _, sql], true) = (texts, whole) {
                rows.push(StoredRow { rowid, kind, name, table, root, sql });
            }
            more = cursor.next()?;
        }
        Ok(rows)
    }

    /// True for a name kept by SQLite for itself.
    pub(crate) fn is_reserved(&self) -> bool {
        let start = self.name.as_bytes().get(..7);
        start.is_some_and(|start| start.eq_ignore_ascii_case(b"sqlite_"))
    }

    /// True for a view or a trigger, whose definitions in `temp` may be about other databases.
    pub(crate) fn is_view_or_trigger(&self) -> bool {
        self.kind == "view" || self.kind == "trigger"
    }

    /// True for definitions read by `ALTER TABLE`: no automatic index and no virtual table.
    pub(crate) fn is_ordinary(&self) -> bool {
        let sql = self.sql.as_deref().unwrap_or_default();
        let start = sql.as_bytes().get(..14);
        !self.is_reserved()
            && !start.is_some_and(|start| start.eq_ignore_ascii_case(b"create virtual"))
    }

    /// Writes the row in its place.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn store(&self, transaction: &mut Transaction) -> Result<(), Error> {
        let values = [
            ValueRef::Text(self.kind.as_bytes()),
            ValueRef::Text(self.name.as_bytes()),
            ValueRef::Text(self.table.as_bytes()),
            ValueRef::Int(self.root),
            self.sql.as_ref().map_or(ValueRef::Null, |sql| ValueRef::Text(sql.as_bytes())),
        ];
        let mut record = Vec::new();
        encode_record(&values, transaction.header().schema_format, &mut record);
        Ok(transaction.table_insert(Pgno::FIRST, self.rowid, &record)?)
    }
}

/// Notes that the b-tree with the root `from` has the root `to`.
///
/// # Errors
/// [`Error::Store`].
pub(crate) fn root_moved(transaction: &mut Transaction, from: Pgno, to: Pgno) -> Result<(), Error> {
    for mut row in StoredRow::all(transaction)? {
        if row.root == i64::from(from.get()) {
            row.root = to.get().into();
            row.store(transaction)?;
        }
    }
    Ok(())
}

/// Deletes the rows of the table at `root` whose stored columns meet a condition.
///
/// # Errors
/// [`Error::Store`].
pub(crate) fn delete_where(
    transaction: &mut Transaction,
    root: Pgno,
    mut condition: impl FnMut(&[ValueRef<'_>]) -> bool,
) -> Result<(), Error> {
    let mut rowids = Vec::new();
    let mut cursor = transaction.table(root)?;
    let mut more = cursor.first()?;
    while more {
        let rowid = cursor.rowid()?;
        let record = Record::new(cursor.payload()?).map_err(shoal_store::Error::from)?;
        let values: Result<Vec<ValueRef<'_>>, _> = record.values().collect();
        if condition(&values.map_err(shoal_store::Error::from)?) {
            rowids.push(rowid);
        }
        more = cursor.next()?;
    }
    for rowid in rowids {
        transaction.table_delete(root, rowid)?;
    }
    Ok(())
}

/// Whether a value is a text equal to a name, in any case.
pub(crate) fn is_name(value: Option<&ValueRef<'_>>, name: &str) -> bool {
    matches!(value, Some(ValueRef::Text(text)) if text.eq_ignore_ascii_case(name.as_bytes()))
}

//! Shadow tables with `UNIQUE` constraints: rows found by them, index entries kept right.

use shoal_store::{ValueRef, encode_record};

use super::{ShadowTable, TableReads, TableWrites};
use crate::Error;
use crate::error::ConstraintKind;
use crate::schema::{Index, IndexSource};
use crate::value::{Collation, Value};

/// True for an index of plain columns whose texts are compared byte by byte.
pub(super) fn is_plain(index: &Index) -> bool {
    index.filter.is_none()
        && index.columns.iter().all(|column| {
            !matches!(column.source, IndexSource::Expr(_))
                && matches!(column.collation, Ok(Collation::Binary))
        })
}

impl ShadowTable {
    /// The values of a row's entry in an index.
    fn entry<'v>(
        &self,
        index: &Index,
        rowid: i64,
        value: impl Fn(usize) -> ValueRef<'v>,
    ) -> Vec<ValueRef<'v>> {
        let columns = index.columns.iter();
        let values = columns.map(|column| match column.source {
            IndexSource::Column(place) if Some(place) != self.table.rowid_alias => value(place),
            _ => ValueRef::Int(rowid),
        });
        values.collect()
    }
}

impl TableReads<'_> {
    /// The rowid of the row with a value in a column, the first of a constraint's index.
    ///
    /// # Errors
    /// [`Error::Store`]; a table without such an index.
    pub fn find(
        &self,
        table: &ShadowTable,
        column: usize,
        value: ValueRef<'_>,
    ) -> Result<Option<i64>, Error> {
        let begins = |index: &&Index| {
            let first = index.columns.first().map(|first| &first.source);
            is_plain(index) && matches!(first, Some(IndexSource::Column(place)) if *place == column)
        };
        let Some(index) = table.table.indexes.iter().find(begins) else {
            return Err(table.fault("a part of a virtual table lacks the index of a constraint"));
        };
        let mut cursor = self.txns.of(self.database)?.index(index.root)?;
        if !cursor.seek(&[value], &index.order())? {
            return Ok(None);
        }
        let record = shoal_store::Record::new(cursor.payload()?).map_err(Error::corrupt)?;
        match record.column(index.columns.len() - 1).map_err(Error::corrupt)? {
            Some(ValueRef::Int(rowid)) => Ok(Some(rowid)),
            _ => Err(table.fault("an index entry of a part of a virtual table names no row")),
        }
    }
}

impl TableWrites<'_> {
    /// Removes a row's entries from the indexes of its table.
    pub(super) fn remove_entries(&mut self, table: &ShadowTable, rowid: i64) -> Result<(), Error> {
        let values: Vec<Value> = {
            let reads = self.reads();
            let mut rows = reads.rows(table)?;
            if !rows.seek(rowid)? {
                return Ok(());
            }
            let columns = 0..table.columns();
            columns.map(|place| rows.column(place).map(Value::from)).collect::<Result<_, _>>()?
        };
        let format = self.transaction.header().schema_format;
        for index in &table.table.indexes {
            let entry = table.entry(index, rowid, |place| values[place].as_ref());
            self.record.clear();
            encode_record(&entry, format, &mut self.record);
            self.transaction.index_delete(index.root, &self.record, &index.order())?;
        }
        Ok(())
    }

    /// Adds a row's entries to the indexes of its table.
    pub(super) fn add_entries(
        &mut self,
        table: &ShadowTable,
        rowid: i64,
        values: &[ValueRef<'_>],
    ) -> Result<(), Error> {
        let format = self.transaction.header().schema_format;
        for index in &table.table.indexes {
            let value = |place: usize| values.get(place).copied().unwrap_or(ValueRef::Null);
            let entry = table.entry(index, rowid, value);
            let key = &entry[..index.key_columns];
            let order = index.order();
            if index.unique && !key.iter().any(|value| matches!(value, ValueRef::Null)) {
                let mut cursor = self.transaction.index(index.root)?;
                if cursor.seek(key, &order)? {
                    let constraint = ConstraintKind::Unique;
                    return Err(Error::Constraint { constraint, place: table.name().to_owned() });
                }
            }
            self.record.clear();
            encode_record(&entry, format, &mut self.record);
            self.transaction.index_insert(index.root, &self.record, &order)?;
        }
        Ok(())
    }
}

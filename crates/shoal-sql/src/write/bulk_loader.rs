//! A new table filled with rows: each page is written once, and no row is looked up.

use std::sync::Arc;

use shoal_store::{Transaction, TreeFill, encode_values};

use super::row::compacted;
use crate::Error;
use crate::error::NameKind;
use crate::schema::{Object, Schema, Table};
use crate::value::{Affinity, Value, ValueRef};

/// Fills an empty table with rows, numbered from 1 on.
///
/// The connection does nothing else meanwhile. Dropped before [`BulkLoader::finish`], it leaves a
/// transaction to be rolled back, wholly or to a savepoint.
#[derive(Debug)]
pub struct BulkLoader<'c> {
    fill: TreeFill<'c>,
    encoder: RowEncoder,
    rowid: i64,
}

/// Makes records of a table's rows, on any thread.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    columns: Arc<[Affinity]>,
    schema_format: u32,
}

impl<'c> BulkLoader<'c> {
    /// # Errors
    /// No such table; [`Error::Unsupported`] for a table with rows, or with anything to be checked
    /// or kept beside its rows.
    pub(crate) fn new(
        schema: &Schema,
        transaction: &'c mut Transaction,
        name: &str,
    ) -> Result<BulkLoader<'c>, Error> {
        let table = match schema.object(name) {
            None => {
                let message = format!("no such table: {name}");
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
            Some(Object::Table(table)) if is_bare(schema, table) => table,
            Some(object) => {
                let what = format!("filling {}, which is no table of rows alone", object.name());
                return Err(Error::Unsupported { what, offset: None });
            }
        };
        let columns = table.columns.iter().map(|column| column.affinity).collect();
        let schema_format = transaction.header().schema_format;
        let encoder = RowEncoder { columns, schema_format };
        if transaction.count_rows(table.root)? > 0 {
            let what = format!("filling {}, which has rows", table.name);
            return Err(Error::Unsupported { what, offset: None });
        }
        Ok(BulkLoader { fill: transaction.fill_tree(table.root)?, encoder, rowid: 0 })
    }

    /// Maker of records for [`BulkLoader::push_record`].
    pub fn encoder(&self) -> RowEncoder {
        self.encoder.clone()
    }

    /// Adds a row made by the loader's encoder; gives its rowid.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn push_record(&mut self, record: &[u8]) -> Result<i64, Error> {
        self.rowid += 1;
        self.fill.push_row(self.rowid, record)?;
        Ok(self.rowid)
    }

    /// Ends the filling. The rows become durable with the connection's transaction.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn finish(self) -> Result<(), Error> {
        Ok(self.fill.finish()?)
    }
}

impl RowEncoder {
    /// Appends the record of a row to `out`: a value for each column, converted as the columns'
    /// types ask.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a wrong number of values.
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<(), Error> {
        if values.len() != self.columns.len() {
            return Err(Error::Misuse { what: "a row has not one value for each column" });
        }
        let keeps = |(value, affinity): (&ValueRef<'_>, &Affinity)| match (value, affinity) {
            (ValueRef::Null | ValueRef::Blob(_), _) | (_, Affinity::Blob) => true,
            (ValueRef::Int(_), affinity) => {
                matches!(affinity, Affinity::Integer | Affinity::Numeric)
            }
            (ValueRef::Text(_), affinity) => *affinity == Affinity::Text,
            (ValueRef::Real(_), affinity) => *affinity == Affinity::Real,
        };
        let pairs = || values.iter().zip(&*self.columns);
        if pairs().all(keeps) {
            let stored = pairs().map(|(value, affinity)| compacted(*value, *affinity));
            encode_values(stored, self.schema_format, out);
            return Ok(());
        }
        let converted: Vec<Value> =
            pairs().map(|(value, affinity)| affinity.apply(Value::from(*value))).collect();
        let pairs = converted.iter().zip(&*self.columns);
        let stored = pairs.map(|(value, affinity)| compacted(value.as_ref(), *affinity));
        encode_values(stored, self.schema_format, out);
        Ok(())
    }
}

/// True for a table of rows alone: without rowid alias, index, constraint, trigger and children.
fn is_bare(schema: &Schema, table: &Table) -> bool {
    let is_parent = |object: &Object| match object {
        Object::Table(other) => {
            other.foreign_keys.iter().any(|key| key.parent.eq_ignore_ascii_case(&table.name))
        }
        _ => false,
    };
    !table.without_rowid
        && !table.strict
        && !table.autoincrement
        && table.rowid_alias.is_none()
        && table.indexes.is_empty()
        && table.missing_index.is_none()
        && table.checks.is_empty()
        && table.foreign_keys.is_empty()
        && table.triggers.list.is_empty()
        && table.triggers.damaged.is_none()
        && table.columns.iter().all(|column| column.generated.is_none() && !column.not_null)
        && !schema.objects().iter().any(is_parent)
}

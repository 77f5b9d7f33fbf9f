//! An empty table filled with rows in the order of their rowids: each page is written once, no row
//! is looked up, and indexes are made in the end by sorting.

use std::sync::Arc;

use shoal_store::{Transaction, TreeFill, encode_values};

use super::create_index;
use super::plain::{COLUMNS_MAX, PlainColumn};
use super::row::compacted;
use crate::Error;
use crate::error::{ConstraintKind, NameKind};
use crate::schema::{Object, Schema, Table};
use crate::session::StatementSession;
use crate::value::{Affinity, Value, ValueRef};

/// Fills an empty table with rows.
///
/// The connection does nothing else meanwhile. Dropped before [`BulkLoader::finish`], or after a
/// failed one, the loader leaves a transaction to be rolled back, wholly or to a savepoint.
pub struct BulkLoader<'c> {
    fill: TreeFill<'c>,
    encoder: RowEncoder,
    columns: Box<[PlainColumn]>,
    /// The last row's.
    rowid: i64,
    schema: Arc<Schema>,
    session: StatementSession,
}

/// Makes records of a table's rows, on any thread.
#[derive(Clone, Debug)]
pub struct RowEncoder {
    table: Arc<Table>,
    schema_format: u32,
}

impl<'c> BulkLoader<'c> {
    /// # Errors
    /// No such table; [`Error::Unsupported`] for a table with rows, or with more than values, NOT
    /// NULL and indexes to be looked after.
    pub(crate) fn new(
        schema: &Arc<Schema>,
        transaction: &'c mut Transaction,
        session: StatementSession,
        name: &str,
    ) -> Result<BulkLoader<'c>, Error> {
        let table = match schema.object(name) {
            None => {
                let message = format!("no such table: {name}");
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
            Some(Object::Table(table)) if is_bare(schema, table) => Arc::clone(table),
            Some(object) => {
                let what = format!("filling {}, which is no table of rows alone", object.name());
                return Err(Error::Unsupported { what, offset: None });
            }
        };
        let schema_format = transaction.header().schema_format;
        if transaction.count_rows(table.root)? > 0 {
            let what = format!("filling {}, which has rows", table.name);
            return Err(Error::Unsupported { what, offset: None });
        }
        let fill = transaction.fill_tree(table.root)?;
        let columns = table.columns.iter().map(PlainColumn::new).collect();
        let encoder = RowEncoder { table, schema_format };
        Ok(BulkLoader { fill, encoder, columns, rowid: 0, schema: Arc::clone(schema), session })
    }

    /// Maker of records for [`BulkLoader::push_record`].
    pub fn encoder(&self) -> RowEncoder {
        self.encoder.clone()
    }

    /// Adds a row made by the loader's encoder, numbered one more than the last; gives its rowid.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn push_record(&mut self, record: &[u8]) -> Result<i64, Error> {
        let rowid = self.next_rowid()?;
        self.fill.push_row(rowid, record)?;
        self.rowid = rowid;
        Ok(rowid)
    }

    /// Adds a row: a value for each column, converted as the columns' types ask; gives its rowid,
    /// the last one's and one where the rowid's other name is NULL or there is none.
    ///
    /// Cost: the values are written straight onto the page, and nothing is allocated for a row.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a wrong number of values and for a rowid not behind the last one;
    /// [`Error::Constraint`] for NULL in a NOT NULL column; no row was added then.
    /// [`Error::Store`].
    pub fn push(&mut self, values: &[ValueRef<'_>]) -> Result<i64, Error> {
        let (columns, alias) = (&*self.columns, self.encoder.table.rowid_alias);
        let rowid = match alias.and_then(|alias| values.get(alias)) {
            None | Some(ValueRef::Null) => self.next_rowid()?,
            Some(ValueRef::Int(rowid)) => *rowid,
            Some(_) => return Err(Error::Misuse { what: "a rowid is no integer" }),
        };
        let mut row = [ValueRef::Null; COLUMNS_MAX];
        let is_quick = values.len() == columns.len() && values.len() <= COLUMNS_MAX && {
            let row = &mut row[..values.len()];
            row.copy_from_slice(values);
            if let Some(alias) = alias {
                row[alias] = ValueRef::Null;
            }
            let accepts = |(place, value): (usize, &mut ValueRef<'_>)| {
                alias == Some(place) || columns[place].accept(value)
            };
            row.iter_mut().enumerate().all(accepts)
        };
        if is_quick {
            self.fill.push_row_values(rowid, &row[..values.len()])?;
        } else {
            self.encoder.check(values)?;
            let mut record = Vec::new();
            self.encoder.encode_checked(values, &mut record);
            self.fill.push_row(rowid, &record)?;
        }
        self.rowid = rowid;
        Ok(rowid)
    }

    fn next_rowid(&self) -> Result<i64, Error> {
        self.rowid.checked_add(1).ok_or(Error::Misuse { what: "no rowid comes behind the last" })
    }

    /// Ends the filling and makes the entries of the table's indexes. The rows become durable with
    /// the connection's transaction.
    ///
    /// # Errors
    /// [`Error::Constraint`] where an index is unique and the rows are not; [`Error::Store`].
    pub fn finish(self) -> Result<(), Error> {
        let BulkLoader { fill, encoder, schema, session, .. } = self;
        let transaction = fill.finish_into()?;
        let table = &encoder.table;
        for index in &table.indexes {
            create_index::fill(&schema, transaction, &session, (table, index))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for BulkLoader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = &self.encoder.table.name;
        f.debug_struct("BulkLoader").field("table", table).finish_non_exhaustive()
    }
}

impl RowEncoder {
    /// Appends the record of a row to `out`: a value for each column, converted as the columns'
    /// types ask. The rowid's other name is NULL: records are numbered as they are pushed.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a wrong number of values, or a rowid; [`Error::Constraint`] for NULL
    /// in a NOT NULL column.
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) -> Result<(), Error> {
        self.check(values)?;
        let given = self.table.rowid_alias.map(|alias| values[alias]);
        if !matches!(given, None | Some(ValueRef::Null)) {
            return Err(Error::Misuse { what: "a record to be numbered has a rowid" });
        }
        self.encode_checked(values, out);
        Ok(())
    }

    /// Refuses a wrong number of values, and NULL in a NOT NULL column.
    #[inline]
    fn check(&self, values: &[ValueRef<'_>]) -> Result<(), Error> {
        let table = &*self.table;
        if values.len() != table.columns.len() {
            return Err(Error::Misuse { what: "a row has not one value for each column" });
        }
        for (place, (value, column)) in values.iter().zip(&table.columns).enumerate() {
            // Not a number is stored as NULL.
            let is_null = match value {
                ValueRef::Null => true,
                ValueRef::Real(real) => real.is_nan(),
                _ => false,
            };
            if is_null && column.not_null && table.rowid_alias != Some(place) {
                let place = format!("{}.{}", table.name, column.name);
                return Err(Error::Constraint { constraint: ConstraintKind::NotNull, place });
            }
        }
        Ok(())
    }

    fn encode_checked(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
        let columns = &self.table.columns;
        let of = |place: usize| match self.table.rowid_alias {
            Some(alias) if alias == place => ValueRef::Null,
            _ => values[place],
        };
        let places = 0..columns.len();
        if places.clone().all(|place| keeps(of(place), columns[place].affinity)) {
            let stored = places.map(|place| compacted(of(place), columns[place].affinity));
            return encode_values(stored, self.schema_format, out);
        }
        let apply = |place: usize| columns[place].affinity.apply(Value::from(of(place)));
        let converted: Vec<Value> = places.map(apply).collect();
        let pairs = converted.iter().zip(columns);
        let stored = pairs.map(|(value, column)| compacted(value.as_ref(), column.affinity));
        encode_values(stored, self.schema_format, out);
    }
}

/// True for a value stored as given in a column of this affinity.
#[inline]
fn keeps(value: ValueRef<'_>, affinity: Affinity) -> bool {
    match (value, affinity) {
        (ValueRef::Null | ValueRef::Blob(_), _) | (_, Affinity::Blob) => true,
        (ValueRef::Int(_), affinity) => matches!(affinity, Affinity::Integer | Affinity::Numeric),
        (ValueRef::Text(_), affinity) => affinity == Affinity::Text,
        (ValueRef::Real(_), affinity) => affinity == Affinity::Real,
    }
}

/// True for a table of rows and indexes: without checks, generated columns, triggers, parents and
/// children.
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
        && table.missing_index.is_none()
        && table.checks.is_empty()
        && table.foreign_keys.is_empty()
        && table.triggers.list.is_empty()
        && table.triggers.damaged.is_none()
        && table.columns.iter().all(|column| column.generated.is_none())
        && !schema.objects().iter().any(is_parent)
}

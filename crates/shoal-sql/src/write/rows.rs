//! Rows in and out of one table, with every index kept right.
//!
//! Nothing here checks constraints, but for telling which rows stand in the way of a new one.

use std::sync::Arc;

use std::ops::Range;

use shoal_store::{KeyOrder, NewEntry, Transaction, ValueRef, encode_values, utf16};

use super::row::{Row, RowEnv, RowKey, key_of_entry};
use super::told::Told;
use crate::Error;
use crate::exec::{Place, RowExpr};
use crate::schema::{Index, IndexSource, Schema, Table};
use crate::session::{ChangeKind, Session};
use crate::value::{Value, truth};

/// Writes rows of one table.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: Arc<Table>,
    /// The order of the table itself, where it has no rowid.
    key_order: KeyOrder,
    indexes: Vec<IndexWriter>,
    /// Virtual and stored columns, in an order in which each can be computed from those before.
    generated: Vec<(usize, RowExpr)>,
}

/// The records of a row: the table's, and one for each index entry.
#[derive(Debug, Default)]
pub(crate) struct Records {
    row: Vec<u8>,
    /// The entries' records behind each other.
    entries: Vec<u8>,
    /// Where the entry of each index is; `None` where an index leaves the row out.
    places: Vec<Option<Range<usize>>>,
}

impl Records {
    /// The record of an index's entry, by the index's place in the table's list.
    fn entry(&self, index: usize) -> Option<&[u8]> {
        self.places[index].clone().map(|place| &self.entries[place])
    }
}

/// What an index has of a row.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    order: KeyOrder,
    /// The condition that rows of a partial index meet.
    filter: Option<RowExpr>,
    /// The expressions among the columns, in order.
    exprs: Vec<RowExpr>,
}

impl Rows {
    /// Prepares to write to a table.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::Schema`] or [`Error::Name`] when a part of the table could
    /// not be kept right: an index whose order is not known, a missing index.
    pub(crate) fn new(schema: &Schema, table: &Arc<Table>) -> Result<Rows, Error> {
        if let Some(why) = &table.missing_index {
            return Err(Error::Schema { object: table.name.clone(), why: why.clone() });
        }
        let collations = table
            .indexes
            .iter()
            .flat_map(|index| index.columns.iter().map(|column| &column.collation));
        let keys = table.primary_key.iter().map(|part| &part.collation);
        if let Some(name) = collations.chain(keys).find_map(|it| it.as_ref().err()) {
            return Err(Error::Name {
                kind: crate::NameKind::Collation,
                message: format!("no such collation sequence: {name}"),
                offset: None,
            });
        }
        let compile = |expr, place| RowExpr::compile(schema, table, expr, place);
        let mut indexes = Vec::with_capacity(table.indexes.len());
        for index in &table.indexes {
            indexes.push(IndexWriter::compile(schema, table, index)?);
        }
        let mut generated = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            if let Some(definition) = &column.generated {
                generated.push((place, compile(&definition.expr, Place::Generated)?));
            }
        }
        Ok(Rows {
            key_order: table.primary_key_order(),
            generated: in_order(generated),
            indexes,
            table: Arc::clone(table),
        })
    }

    /// The order of the table itself, where it has no rowid.
    pub(crate) fn key_order(&self) -> &KeyOrder {
        &self.key_order
    }

    /// The order of an index, by its place in the table's list.
    pub(crate) fn order_of(&self, index: usize) -> &KeyOrder {
        &self.indexes[index].order
    }

    /// Computes the generated columns from the others.
    ///
    /// # Errors
    /// What their expressions raise.
    pub(crate) fn compute(&self, row: &mut Row, env: &RowEnv<'_>) -> Result<(), Error> {
        for (place, expr) in &self.generated {
            let value = row.eval(expr, env)?;
            row.values[*place] = self.table.columns[*place].affinity.apply(value);
        }
        Ok(())
    }

    /// An index's entry for a row, by the index's place in the table's list; `None` where
    /// the index leaves the row out.
    ///
    /// # Errors
    /// What the index's expressions raise.
    pub(crate) fn index_entry(
        &self,
        place: usize,
        row: &Row,
        env: &RowEnv<'_>,
    ) -> Result<Option<Vec<Value>>, Error> {
        self.indexes[place].entry(&self.table, &self.table.indexes[place], row, env)
    }

    /// The row of that key, generated columns included; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn read(&self, key: &RowKey, env: &RowEnv<'_>) -> Result<Option<Row>, Error> {
        let (table, transaction) = (&*self.table, env.transaction);
        let mut row = match key {
            RowKey::Rowid(rowid) => {
                let mut cursor = transaction.table(table.root)?;
                if !cursor.seek(*rowid)? {
                    return Ok(None);
                }
                Row::decode(table, *rowid, cursor.payload()?)?
            }
            RowKey::Key(values) => {
                let key: Vec<ValueRef<'_>> = values.iter().map(|value| value.as_ref()).collect();
                let mut cursor = transaction.index(table.root)?;
                if !cursor.seek(&key, &self.key_order)? {
                    return Ok(None);
                }
                Row::decode(table, 0, cursor.payload()?)?
            }
        };
        self.compute(&mut row, env)?;
        Ok(Some(row))
    }

    /// The rowid a new row gets: one more than the largest, or an unused one where that is the
    /// largest there is.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Runtime`] `database or disk is full` when no unused one was
    /// found in a hundred tries.
    pub(crate) fn new_rowid(&self, env: &RowEnv<'_>) -> Result<i64, Error> {
        let mut cursor = env.transaction.table(self.table.root)?;
        let last = match env.transaction.last_rowid(self.table.root) {
            Some(last) => last,
            None if cursor.last()? => cursor.rowid()?,
            None => return Ok(1),
        };
        if let Some(next) = last.checked_add(1) {
            return Ok(next);
        }
        for _ in 0..100 {
            let mut bytes = [0; 8];
            env.session.random(&mut bytes);
            // Positive and well below the end, so that it can be counted up from for a while.
            let rowid = (i64::from_le_bytes(bytes) & (i64::MAX >> 1)) + 1;
            if !cursor.seek(rowid)? {
                return Ok(rowid);
            }
        }
        Err(Error::runtime("database or disk is full"))
    }

    /// The row with the same rowid or primary key as a new one, in the table itself.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn same_key(&self, row: &Row, env: &RowEnv<'_>) -> Result<Option<RowKey>, Error> {
        let (table, transaction) = (&*self.table, env.transaction);
        match row.key(table) {
            RowKey::Rowid(rowid) => {
                if transaction.last_rowid(table.root).is_some_and(|last| rowid > last) {
                    return Ok(None);
                }
                let found = transaction.table(table.root)?.seek(rowid)?;
                Ok(found.then_some(RowKey::Rowid(rowid)))
            }
            RowKey::Key(values) => {
                let key: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
                let mut cursor = transaction.index(table.root)?;
                if !cursor.seek(&key, &self.key_order)? {
                    return Ok(None);
                }
                // Equal is not identical: the collation may take `b` for `B`.
                Ok(Some(Row::decode(table, 0, cursor.payload()?)?.key(table)))
            }
        }
    }

    /// The row that already has a new row's key in a unique index; NULLs never are in the way.
    ///
    /// # Errors
    /// [`Error::Store`]; what the index's expressions raise.
    pub(crate) fn same_entry(
        &self,
        index: usize,
        row: &Row,
        env: &RowEnv<'_>,
    ) -> Result<Option<RowKey>, Error> {
        let definition = &self.table.indexes[index];
        let writer = &self.indexes[index];
        if !definition.unique || !writer.covers(row, env)? {
            return Ok(None);
        }
        let computed = writer.computed(row, env)?;
        let values = row.entry(&self.table, definition, &computed).take(definition.key_columns);
        if values.clone().any(|value| matches!(value, ValueRef::Null)) {
            return Ok(None);
        }
        let mut cursor = env.transaction.index(definition.root)?;
        let mut few = [ValueRef::Null; 8];
        let found = match few.get_mut(..definition.key_columns) {
            Some(key) => {
                key.iter_mut().zip(values).for_each(|(place, value)| *place = value);
                cursor.seek(key, &writer.order)?
            }
            None => cursor.seek(&values.collect::<Vec<_>>(), &writer.order)?,
        };
        if !found {
            return Ok(None);
        }
        key_of_entry(&self.table, definition, cursor.payload()?).map(Some)
    }

    /// Stores a row and its index entries. No row may stand in its way.
    ///
    /// In a table with rowids everything is stored or, after a failure, nothing. `records` is
    /// memory reused from row to row.
    ///
    /// # Errors
    /// [`Error::Store`]; what the indexes' expressions raise.
    pub(crate) fn insert(
        &self,
        transaction: &mut Transaction,
        row: &Row,
        session: &dyn Session,
        records: &mut Records,
    ) -> Result<(), Error> {
        let told = Told::before(session, &self.table, ChangeKind::Insert, [None, Some(row)]);
        self.insert_row(transaction, row, session, records)?;
        told.after();
        Ok(())
    }

    fn insert_row(
        &self,
        transaction: &mut Transaction,
        row: &Row,
        session: &dyn Session,
        records: &mut Records,
    ) -> Result<(), Error> {
        let table = &*self.table;
        self.encode_entries(transaction, row, session, records)?;
        records.row.clear();
        row.encode(table, transaction.header().schema_format, &mut records.row);
        let entries = table.indexes.iter().zip(&self.indexes).enumerate();
        let entries = entries.filter_map(|(place, (index, writer))| {
            let record = records.entry(place)?;
            Some(NewEntry { root: index.root, record, order: &writer.order, unique: 0 })
        });
        if !table.without_rowid {
            return Ok(transaction.insert_row(table.root, row.rowid, &records.row, entries)?);
        }
        transaction.index_insert(table.root, &records.row, &self.key_order)?;
        for entry in entries {
            transaction.index_insert(entry.root, entry.record, entry.order)?;
        }
        Ok(())
    }

    /// Removes a row, as [`Rows::read`] gave it, and its index entries.
    ///
    /// # Errors
    /// [`Error::Store`]; [`Error::Schema`] when an index has no entry for the row.
    pub(crate) fn delete(
        &self,
        transaction: &mut Transaction,
        row: &Row,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let told = Told::before(session, &self.table, ChangeKind::Delete, [Some(row), None]);
        self.delete_row(transaction, row, session)?;
        told.after();
        Ok(())
    }

    /// Removes a row in the way of another.
    ///
    /// # Errors
    /// As [`Rows::delete`].
    pub(crate) fn displace(
        &self,
        transaction: &mut Transaction,
        row: &Row,
        session: &dyn Session,
    ) -> Result<(), Error> {
        // As in SQLite nobody is told afterwards.
        let _told = Told::before(session, &self.table, ChangeKind::Delete, [Some(row), None]);
        self.delete_row(transaction, row, session)
    }

    fn delete_row(
        &self,
        transaction: &mut Transaction,
        row: &Row,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let table = &*self.table;
        let mut records = Records::default();
        self.encode_entries(transaction, row, session, &mut records)?;
        for place in 0..table.indexes.len() {
            if let Some(entry) = records.entry(place) {
                self.delete_entry(transaction, place, entry)?;
            }
        }
        let deleted = match row.key(table) {
            RowKey::Rowid(rowid) => transaction.table_delete(table.root, rowid)?,
            key @ RowKey::Key(_) => {
                transaction.index_delete(table.root, &key.encode(), &self.key_order)?
            }
        };
        if deleted { Ok(()) } else { Err(missing_entry(&table.name)) }
    }

    /// Replaces a row by another, touching only the indexes whose entries differ.
    ///
    /// # Errors
    /// As [`Rows::insert`] and [`Rows::delete`].
    pub(crate) fn replace(
        &self,
        transaction: &mut Transaction,
        old: &Row,
        new: &Row,
        session: &dyn Session,
    ) -> Result<(), Error> {
        let told = Told::before(session, &self.table, ChangeKind::Update, [Some(old), Some(new)]);
        self.replace_row(transaction, old, new, session)?;
        told.after();
        Ok(())
    }

    fn replace_row(
        &self,
        transaction: &mut Transaction,
        old: &Row,
        new: &Row,
        session: &dyn Session,
    ) -> Result<(), Error> {
        if self.table.without_rowid || old.rowid != new.rowid {
            self.delete_row(transaction, old, session)?;
            return self.insert_row(transaction, new, session, &mut Records::default());
        }
        let (mut before, mut after) = (Records::default(), Records::default());
        self.encode_entries(transaction, old, session, &mut before)?;
        self.encode_entries(transaction, new, session, &mut after)?;
        for place in 0..self.table.indexes.len() {
            let (before, after) = (before.entry(place), after.entry(place));
            if before == after {
                continue;
            }
            if let Some(entry) = before {
                self.delete_entry(transaction, place, entry)?;
            }
            if let Some(entry) = after {
                let root = self.table.indexes[place].root;
                transaction.index_insert(root, entry, &self.indexes[place].order)?;
            }
        }
        after.row.clear();
        new.encode(&self.table, transaction.header().schema_format, &mut after.row);
        Ok(transaction.table_insert(self.table.root, new.rowid, &after.row)?)
    }

    /// Makes the records of the row's entries, one per index.
    fn encode_entries(
        &self,
        transaction: &Transaction,
        row: &Row,
        session: &dyn Session,
        records: &mut Records,
    ) -> Result<(), Error> {
        let env = RowEnv { transaction, session };
        let format = transaction.header().schema_format;
        records.entries.clear();
        records.places.clear();
        for (index, writer) in self.table.indexes.iter().zip(&self.indexes) {
            if !writer.covers(row, &env)? {
                records.places.push(None);
                continue;
            }
            let computed = writer.computed(row, &env)?;
            let start = records.entries.len();
            let values = row.entry(&self.table, index, &computed);
            encode_values(values, format, &mut records.entries);
            records.places.push(Some(start..records.entries.len()));
        }
        Ok(())
    }

    fn delete_entry(
        &self,
        transaction: &mut Transaction,
        place: usize,
        entry: &[u8],
    ) -> Result<(), Error> {
        let index = &self.table.indexes[place];
        if transaction.index_delete(index.root, entry, &self.indexes[place].order)? {
            Ok(())
        } else {
            Err(missing_entry(&index.name))
        }
    }
}

/// Generated columns, each after those that its expression reads.
fn in_order(mut generated: Vec<(usize, RowExpr)>) -> Vec<(usize, RowExpr)> {
    let mut ordered: Vec<(usize, RowExpr)> = Vec::with_capacity(generated.len());
    while !generated.is_empty() {
        let ready = generated
            .iter()
            .position(|(_, expr)| !generated.iter().any(|(place, _)| expr.reads().contains(place)));
        // The resolver refuses columns that depend on themselves, so one is always ready.
        ordered.push(generated.remove(ready.unwrap_or(0)));
    }
    ordered
}

/// Removes every row and every index entry; gives how many rows there were.
///
/// # Errors
/// [`Error::Store`].
pub(crate) fn clear(transaction: &mut Transaction, table: &Table) -> Result<u64, Error> {
    let mut count = 0;
    if table.without_rowid {
        let mut cursor = transaction.index(table.root)?;
        let mut more = cursor.first()?;
        while more {
            count += 1;
            more = cursor.next()?;
        }
    } else {
        let mut cursor = transaction.table(table.root)?;
        let mut more = cursor.first()?;
        while more {
            count += 1;
            more = cursor.next()?;
        }
    }
    transaction.clear_btree(table.root)?;
    for index in &table.indexes {
        transaction.clear_btree(index.root)?;
    }
    Ok(count)
}

/// The error of a row without its entry in the index, or table, of that name.
pub(super) fn missing_entry(name: &str) -> Error {
    Error::Schema { object: name.to_owned(), why: "a row has no entry in it".to_owned() }
}

impl IndexWriter {
    /// Compiles the expressions of an index of `table`.
    ///
    /// # Errors
    /// What the expressions are refused for.
    pub(crate) fn compile(
        schema: &Schema,
        table: &Table,
        index: &Index,
    ) -> Result<IndexWriter, Error> {
        let exprs = index.columns.iter().filter_map(|column| match &column.source {
            IndexSource::Expr(expr) => Some(RowExpr::compile(schema, table, expr, Place::Index)),
            _ => None,
        });
        let filter = index.filter.as_ref();
        let partial = |expr| RowExpr::compile(schema, table, expr, Place::PartialIndex);
        Ok(IndexWriter {
            order: index.order(),
            filter: filter.map(partial).transpose()?,
            exprs: exprs.collect::<Result<_, _>>()?,
        })
    }

    /// The entry of a row; `None` where the index leaves the row out.
    ///
    /// # Errors
    /// What the expressions raise.
    pub(crate) fn entry(
        &self,
        table: &Table,
        index: &Index,
        row: &Row,
        env: &RowEnv<'_>,
    ) -> Result<Option<Vec<Value>>, Error> {
        if !self.covers(row, env)? {
            return Ok(None);
        }
        let computed = self.computed(row, env)?;
        Ok(Some(row.entry(table, index, &computed).map(Value::from).collect()))
    }

    /// Whether the index has an entry for the row.
    fn covers(&self, row: &Row, env: &RowEnv<'_>) -> Result<bool, Error> {
        match &self.filter {
            None => Ok(true),
            Some(filter) => Ok(truth(row.eval(filter, env)?.as_ref()) == Some(true)),
        }
    }

    fn computed(&self, row: &Row, env: &RowEnv<'_>) -> Result<Vec<Value>, Error> {
        let value = |expr| {
            let value = row.eval(expr, env)?;
            Ok(match (value, env.transaction.utf16()) {
                // A blob taken for a text: compared as the entry will be read.
                (Value::Text(text), Some(order)) if str::from_utf8(&text).is_err() => {
                    let (mut wide, mut stored) = (Vec::new(), Vec::new());
                    utf16::encode(&text, order, &mut wide);
                    utf16::decode(&wide, order, &mut stored);
                    Value::Text(stored)
                }
                (value, _) => value,
            })
        };
        self.exprs.iter().map(value).collect()
    }
}

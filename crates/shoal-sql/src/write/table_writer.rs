//! Rows written without SQL text: the way that other crates take to a table.

use std::sync::Arc;

use super::constraints::{Constraints, Verdict, rowid_of};
use super::insert::Inserter;
use super::row::{Row, RowKey};
use super::row_expr::RowEnv;
use super::rows::Rows;
use super::sequence::Sequence;
use super::{Context, Failure, undoing};
use crate::Error;
use crate::error::NameKind;
use crate::schema::{Object, Table};
use crate::value::{Value, ValueRef};

/// Writes rows of one table, its constraints checked and its indexes kept right.
///
/// Every call happens as a whole or not at all. The rows become durable with the connection's
/// transaction.
pub struct TableWriter<'c> {
    context: Context<'c>,
    rows: Rows,
    constraints: Constraints,
}

impl<'c> TableWriter<'c> {
    /// Opens a table with rowids for writing.
    ///
    /// # Errors
    /// No such table; a view, a virtual table, a table without rowid or with triggers; a table
    /// whose indexes cannot be kept right.
    pub(crate) fn new(context: Context<'c>, name: &str) -> Result<TableWriter<'c>, Error> {
        let unsupported = |what: String| Err(Error::Unsupported { what, offset: None });
        let table = match context.schema.object(name) {
            None => {
                let message = format!("no such table: {name}");
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
            Some(Object::Table(table)) => Arc::clone(table),
            Some(object) => return unsupported(format!("writing to {}", object.name())),
        };
        if table.without_rowid {
            return unsupported(format!("a writer of {}, which has no rowids", table.name));
        }
        if table.has_triggers {
            return unsupported(format!("writing to table {}, which has triggers", table.name));
        }
        let rows = Rows::new(context.schema, &table)?;
        let constraints = Constraints::new(context.schema, &table)?;
        Ok(TableWriter { context, rows, constraints })
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.rows.table
    }

    /// Inserts a row: one value per column, in the order of the definition, generated columns
    /// left out. NULL for the rowid's other name picks a new rowid.
    ///
    /// Gives the rowid. Cost: a descent of the table and of every index.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a wrong number of values; [`Error::Constraint`]; [`Error::Store`].
    pub fn insert(&mut self, values: &[ValueRef<'_>]) -> Result<i64, Error> {
        let given = self.given(values)?;
        let (rows, constraints) = (&self.rows, &self.constraints);
        let inserter = Inserter { rows, constraints, conflict: None };
        undoing(&mut self.context, |context| {
            let mut sequence = Sequence::open(context.transaction, context.schema, &rows.table)?;
            let rowid = inserter.insert(context, given, None, sequence.as_mut())?;
            if let Some(sequence) = sequence {
                sequence.store(context.transaction)?;
            }
            Ok(rowid.unwrap_or_default())
        })
        .map_err(|failure| failure.error)
    }

    /// Replaces the row of that rowid; false when there is none. The values are as for
    /// [`TableWriter::insert`]; NULL for the rowid's other name keeps the rowid.
    ///
    /// # Errors
    /// As [`TableWriter::insert`].
    pub fn replace(&mut self, rowid: i64, values: &[ValueRef<'_>]) -> Result<bool, Error> {
        let given = self.given(values)?;
        let (rows, constraints) = (&self.rows, &self.constraints);
        undoing(&mut self.context, |context| {
            let (transaction, session) = (&mut *context.transaction, context.session);
            let env = RowEnv { transaction, session };
            let key = RowKey::Rowid(rowid);
            let Some(old) = rows.read(&key, &env)? else { return Ok(false) };
            let mut new = changed(rows, &old, given)?;
            constraints.convert(rows, &mut new, &env)?;
            let verdict =
                constraints.check(rows, transaction, &mut new, Some(&key), None, session)?;
            if verdict == Verdict::Store {
                rows.replace(transaction, &old, &new, session)?;
            }
            Ok(verdict == Verdict::Store)
        })
        .map_err(|failure| failure.error)
    }

    /// Deletes the row of that rowid; false when there is none.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub fn delete(&mut self, rowid: i64) -> Result<bool, Error> {
        let rows = &self.rows;
        undoing(&mut self.context, |context| {
            let (transaction, session) = (&mut *context.transaction, context.session);
            let env = RowEnv { transaction, session };
            let key = RowKey::Rowid(rowid);
            let Some(row) = rows.read(&key, &env)? else { return Ok(false) };
            rows.delete(transaction, &row, session)?;
            Ok(true)
        })
        .map_err(|failure| failure.error)
    }

    /// The values by column; `None` for generated ones.
    fn given(&self, values: &[ValueRef<'_>]) -> Result<Vec<Option<Value>>, Error> {
        let columns = &self.rows.table.columns;
        let mut values = values.iter();
        let mut given = Vec::with_capacity(columns.len());
        for column in columns {
            given.push(match column.generated {
                Some(_) => None,
                None => match values.next() {
                    Some(value) => Some(Value::from(*value)),
                    None => return Err(Error::Misuse { what: "too few values for the table" }),
                },
            });
        }
        match values.next() {
            Some(_) => Err(Error::Misuse { what: "too many values for the table" }),
            None => Ok(given),
        }
    }
}

impl std::fmt::Debug for TableWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("table", &self.rows.table.name).finish_non_exhaustive()
    }
}

fn changed(rows: &Rows, old: &Row, given: Vec<Option<Value>>) -> Result<Row, Failure> {
    let mut new = old.clone();
    for (index, value) in given.into_iter().enumerate() {
        let Some(value) = value else { continue };
        if rows.table.rowid_alias == Some(index) {
            new.rowid = rowid_of(&value)?.unwrap_or(old.rowid);
            new.values[index] = Value::Int(new.rowid);
        } else {
            new.values[index] = value;
        }
    }
    Ok(new)
}

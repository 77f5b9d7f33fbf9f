//! `DELETE`.

use super::query::RowQuery;
use super::row::RowKey;
use super::row_expr::RowEnv;
use super::rows::{self, Rows};
use super::target::writable_table;
use super::{Context, Done, Failure};
use crate::Error;
use crate::parse::ast::Delete;
use crate::schema::{Schema, Table};
use crate::value::Value;

/// A prepared `DELETE`.
#[derive(Debug)]
pub(crate) struct DeletePlan {
    rows: Rows,
    /// The keys of the rows to delete; `None` for all rows.
    keys: Option<RowQuery>,
}

/// Prepares a `DELETE`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(schema: &Schema, delete: &Delete) -> Result<DeletePlan, Error> {
    if let Some(with) = &delete.with {
        return Err(Error::unsupported("WITH before DELETE", with.offset));
    }
    if delete.returning.is_some() {
        return Err(Error::unsupported("RETURNING", delete.offset));
    }
    let table = writable_table(schema, &delete.table)?;
    let keys = delete.filter.clone().map(|filter| {
        RowQuery::over_table(
            schema,
            &table,
            &delete.table,
            delete.alias.as_ref(),
            &delete.indexed,
            Vec::new(),
            Some(filter),
        )
    });
    Ok(DeletePlan { rows: Rows::new(schema, &table)?, keys: keys.transpose()? })
}

impl DeletePlan {
    /// Deletes the rows that meet the condition.
    ///
    /// # Errors
    /// What the condition raises; the store's.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let Some(keys) = &self.keys else {
            let changes = rows::clear(context.transaction, &self.rows.table)?;
            return Ok(Done { changes, ..Done::default() });
        };
        let keys = keys.run(context)?;
        let session = context.session;
        let mut done = Done::default();
        for values in keys {
            let (key, _) = split_key(&self.rows.table, values);
            let env = RowEnv { transaction: context.transaction, session };
            if let Some(row) = self.rows.read(&key, &env)? {
                self.rows.delete(context.transaction, &row, session)?;
                done.changes += 1;
            }
        }
        Ok(done)
    }
}

/// A row of [`RowQuery::over_table`]: the key of the table's row, and the values after it.
pub(crate) fn split_key(table: &Table, mut values: Vec<Value>) -> (RowKey, Vec<Value>) {
    let width = if table.without_rowid { table.primary_key.len() } else { 1 };
    let rest = values.split_off(width.min(values.len()));
    let key = match values.first() {
        Some(Value::Int(rowid)) if !table.without_rowid => RowKey::Rowid(*rowid),
        _ => RowKey::Key(values),
    };
    (key, rest)
}

//! `PRAGMA foreign_key_check`: the rows whose `REFERENCES` lead to no row.

use std::sync::Arc;

use shoal_store::{IndexCursor, KeyOrder, TableCursor, Transaction, ValueRef};

use super::integrity::Nobody;
use super::row::{Row, RowEnv};
use super::rows::Rows;
use crate::Error;
use crate::error::NameKind;
use crate::schema::{ForeignKey, Index, IndexOrigin, IndexSource, Object, Schema, Table};
use crate::value::{Affinity, Value};

/// One row for each row of a table and each of its foreign keys that leads nowhere: the table, the
/// rowid, the table that is referred to, and the key's number in `PRAGMA foreign_key_list`.
///
/// # Errors
/// [`Error::Name`] when there is no table `only`; [`Error::Meaning`] for a foreign key that no
/// unique key of the other table answers to; the store's.
pub(crate) fn check(
    schema: &Schema,
    transaction: &Transaction,
    only: Option<&str>,
) -> Result<Vec<Vec<Value>>, Error> {
    if let Some(name) = only
        && schema.object(name).is_none()
    {
        let message = format!("no such table: {name}");
        return Err(Error::Name { kind: NameKind::Table, message, offset: None });
    }
    let mut found = Vec::new();
    for object in schema.objects() {
        let Object::Table(table) = object else { continue };
        let wanted = only.is_none_or(|name| table.name.eq_ignore_ascii_case(name));
        if wanted && !table.foreign_keys.is_empty() {
            check_table(schema, table, transaction, &mut found)?;
        }
    }
    Ok(found)
}

/// Where the row is looked for that a key refers to.
enum Target<'t> {
    /// The table does not exist.
    Nowhere,
    Rowid(TableCursor<'t>),
    /// The key's column for each of the index's, and what its values are converted to.
    Index {
        cursor: IndexCursor<'t>,
        order: KeyOrder,
        columns: Vec<(usize, Affinity)>,
    },
}

impl<'t> Target<'t> {
    fn of(
        schema: &Schema,
        table: &Table,
        key: &ForeignKey,
        transaction: &'t Transaction,
    ) -> Result<Target<'t>, Error> {
        let Some(parent) = schema.table(&key.parent) else { return Ok(Target::Nowhere) };
        if let ([_], Some(alias)) = (key.columns.as_slice(), parent.rowid_alias) {
            let alias = &parent.columns[alias].name;
            if key.parent_columns.first().is_none_or(|name| name.eq_ignore_ascii_case(alias)) {
                return Ok(Target::Rowid(transaction.table(parent.root)?));
            }
        }
        let indexes = parent.indexes.iter().chain(&parent.own_index);
        let found =
            indexes.into_iter().find_map(|index| Some((index, columns(parent, index, key)?)));
        let Some((index, columns)) = found else {
            let (child, parent) = (&table.name, &parent.name);
            let message = format!("foreign key mismatch - \"{child}\" referencing \"{parent}\"");
            return Err(Error::Meaning { message, offset: None });
        };
        let cursor = transaction.index(index.root)?;
        Ok(Target::Index { cursor, order: index.order(), columns })
    }

    /// Whether there is a row for these values of the key, none of which is NULL.
    fn has(&mut self, values: &[&Value]) -> Result<bool, Error> {
        match self {
            Target::Nowhere => Ok(false),
            Target::Rowid(cursor) => {
                match values.first().map(|&value| Affinity::Integer.apply(value.clone())) {
                    Some(Value::Int(rowid)) => Ok(cursor.seek(rowid)?),
                    _ => Ok(false),
                }
            }
            Target::Index { cursor, order, columns } => {
                let wanted = columns.iter();
                let wanted: Vec<Value> =
                    wanted.map(|&(column, by)| by.apply(values[column].clone())).collect();
                let wanted: Vec<ValueRef<'_>> = wanted.iter().map(Value::as_ref).collect();
                Ok(cursor.seek(&wanted, order)?)
            }
        }
    }
}

/// For each column of a unique index the column of the key that refers to it, and what that is
/// converted to; `None` when the key refers to other columns, or in another order of texts.
fn columns(parent: &Table, index: &Index, key: &ForeignKey) -> Option<Vec<(usize, Affinity)>> {
    if index.key_columns != key.columns.len() || !index.unique || index.is_partial() {
        return None;
    }
    let own = &index.columns[..index.key_columns];
    let place = |at: usize| -> Option<(usize, Affinity)> {
        let IndexSource::Column(column) = own[at].source else { return None };
        let column = parent.columns.get(column)?;
        if key.parent_columns.is_empty() {
            return (index.origin == IndexOrigin::PrimaryKey).then_some((at, column.affinity));
        }
        let mut named = key.parent_columns.iter();
        let named = named.position(|name| name.eq_ignore_ascii_case(&column.name))?;
        (own[at].collation == column.collation).then_some((named, column.affinity))
    };
    (0..own.len()).map(place).collect()
}

fn check_table(
    schema: &Schema,
    table: &Arc<Table>,
    transaction: &Transaction,
    found: &mut Vec<Vec<Value>>,
) -> Result<(), Error> {
    // The newest key has the number 0, as in SQLite.
    let keys = table.foreign_keys.iter().rev().enumerate();
    let keys =
        keys.map(|(number, key)| Ok((number, key, Target::of(schema, table, key, transaction)?)));
    let mut keys: Vec<_> = keys.collect::<Result<_, Error>>()?;
    let computed =
        |key: &ForeignKey| key.columns.iter().any(|&column| table.columns[column].stored.is_none());
    let computes = table.foreign_keys.iter().any(computed);
    let rows = if computes { Some(Rows::new(schema, table)?) } else { None };
    let env = RowEnv { transaction, session: &Nobody };
    let see = |mut row: Row| -> Result<(), Error> {
        if let Some(rows) = &rows {
            rows.compute(&mut row, &env)?;
        }
        for (number, key, target) in &mut keys {
            let values: Vec<&Value> =
                key.columns.iter().map(|&column| &row.values[column]).collect();
            if values.iter().any(|value| value.is_null()) || target.has(&values)? {
                continue;
            }
            let rowid = if table.without_rowid { Value::Null } else { Value::Int(row.rowid) };
            let number = Value::Int(i64::try_from(*number).unwrap_or(i64::MAX));
            let (child, parent) = (table.name.as_str(), key.parent.as_str());
            found.push(vec![child.into(), rowid, parent.into(), number]);
        }
        Ok(())
    };
    Row::each(table, transaction, see)
}

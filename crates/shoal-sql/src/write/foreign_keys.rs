//! The parents of foreign keys, and `PRAGMA foreign_key_check`: rows whose `REFERENCES` lead to no
//! row.

use std::sync::Arc;

use shoal_store::{KeyOrder, Pgno, Transaction, ValueRef};

use super::integrity::Nobody;
use super::row::{Row, RowEnv};
use super::rows::Rows;
use crate::Error;
use crate::error::NameKind;
use crate::schema::{ForeignKey, Index, IndexOrigin, IndexSource, Object, Schema, Table};
use crate::value::{Affinity, Collation, Value, compare};

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

/// The place of the rows a foreign key refers to.
#[derive(Debug)]
pub(crate) enum Parent {
    /// The table does not exist.
    Nowhere,
    /// A table by its rowid.
    Rowid(Pgno),
    /// A unique index: its b-tree, its order, and for each of its columns the place in the foreign
    /// key with the affinity given to the value, and the parent's own column.
    Index { root: Pgno, order: KeyOrder, columns: Vec<(usize, Affinity, usize)> },
}

impl Parent {
    /// Finds the parent's unique key for a foreign key of `table`; `schema` is of the database with
    /// both.
    ///
    /// # Errors
    /// [`Error::Meaning`] `foreign key mismatch` when there is none.
    pub(crate) fn of(schema: &Schema, table: &Table, key: &ForeignKey) -> Result<Parent, Error> {
        let parent = match schema.object(&key.parent) {
            None => return Ok(Parent::Nowhere),
            Some(Object::Table(parent)) => parent,
            Some(_) => return Err(mismatch(table, key)),
        };
        if let ([_], Some(alias)) = (key.columns.as_slice(), parent.rowid_alias) {
            let alias = &parent.columns[alias].name;
            if key.parent_columns.first().is_none_or(|name| name.eq_ignore_ascii_case(alias)) {
                return Ok(Parent::Rowid(parent.root));
            }
        }
        let mut indexes = parent.indexes.iter().chain(&parent.own_index);
        let found = indexes.find_map(|index| Some((index, columns(parent, index, key)?)));
        let Some((index, columns)) = found else { return Err(mismatch(table, key)) };
        Ok(Parent::Index { root: index.root, order: index.order(), columns })
    }

    /// Whether there is a row for these values of the key, none of which is NULL.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn has(&self, transaction: &Transaction, values: &[&Value]) -> Result<bool, Error> {
        match self {
            Parent::Nowhere => Ok(false),
            Parent::Rowid(root) => match rowid_in(values) {
                Some(rowid) => Ok(transaction.table(*root)?.seek(rowid)?),
                None => Ok(false),
            },
            Parent::Index { root, order, columns } => {
                let wanted = columns.iter();
                let wanted: Vec<Value> =
                    wanted.map(|&(column, by, _)| by.apply(values[column].clone())).collect();
                let wanted: Vec<ValueRef<'_>> = wanted.iter().map(Value::as_ref).collect();
                Ok(transaction.index(*root)?.seek(&wanted, order)?)
            }
        }
    }

    /// Whether a row of the parent itself has the values of the key, compared without conversion.
    pub(crate) fn is_row(&self, row: &Row, values: &[&Value]) -> bool {
        match self {
            Parent::Nowhere => false,
            Parent::Rowid(_) => rowid_in(values) == Some(row.rowid),
            Parent::Index { columns, .. } => columns.iter().all(|&(column, _, own)| {
                compare(values[column].as_ref(), row.values[own].as_ref(), Collation::Binary)
                    .is_eq()
            }),
        }
    }
}

/// The rowid meant by the one value of a key.
fn rowid_in(values: &[&Value]) -> Option<i64> {
    match values.first().map(|&value| Affinity::Integer.apply(value.clone())) {
        Some(Value::Int(rowid)) => Some(rowid),
        _ => None,
    }
}

/// The columns of a parent named by a foreign key, each with the child's column; `None` where the
/// parent has no unique key for them.
pub(crate) fn key_of_parent(parent: &Table, key: &ForeignKey) -> Option<Vec<(usize, usize)>> {
    if let (&[own], Some(alias)) = (key.columns.as_slice(), parent.rowid_alias) {
        let name = &parent.columns[alias].name;
        if key.parent_columns.first().is_none_or(|named| named.eq_ignore_ascii_case(name)) {
            return Some(vec![(alias, own)]);
        }
    }
    let mut indexes = parent.indexes.iter().chain(&parent.own_index);
    let columns = indexes.find_map(|index| columns(parent, index, key))?;
    Some(columns.into_iter().map(|(place, _, own)| (own, key.columns[place])).collect())
}

/// The error of a foreign key without a unique key of the parent.
pub(crate) fn mismatch(table: &Table, key: &ForeignKey) -> Error {
    let (child, parent) = (table.name.replace('"', "\"\""), key.parent.replace('"', "\"\""));
    let message = format!("foreign key mismatch - \"{child}\" referencing \"{parent}\"");
    Error::Meaning { message, offset: None }
}

/// For each column of a unique index the column of the key that refers to it, and what that is
/// converted to; `None` when the key refers to other columns, or in another order of texts.
fn columns(
    parent: &Table,
    index: &Index,
    key: &ForeignKey,
) -> Option<Vec<(usize, Affinity, usize)>> {
    if index.key_columns != key.columns.len() || !index.unique || index.is_partial() {
        return None;
    }
    let own = &index.columns[..index.key_columns];
    let place = |at: usize| -> Option<(usize, Affinity, usize)> {
        let IndexSource::Column(number) = own[at].source else { return None };
        let column = parent.columns.get(number)?;
        if key.parent_columns.is_empty() {
            let is_key = index.origin == IndexOrigin::PrimaryKey;
            return is_key.then_some((at, column.affinity, number));
        }
        let mut named = key.parent_columns.iter();
        let named = named.position(|name| name.eq_ignore_ascii_case(&column.name))?;
        (own[at].collation == column.collation).then_some((named, column.affinity, number))
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
    let keys = keys.map(|(number, key)| Ok((number, key, Parent::of(schema, table, key)?)));
    let keys: Vec<_> = keys.collect::<Result<_, Error>>()?;
    let computed =
        |key: &ForeignKey| key.columns.iter().any(|&column| table.columns[column].stored.is_none());
    let computes = table.foreign_keys.iter().any(computed);
    let rows = if computes { Some(Rows::new(schema, table)?) } else { None };
    let env = RowEnv { transaction, session: &Nobody };
    let see = |mut row: Row| -> Result<(), Error> {
        if let Some(rows) = &rows {
            rows.compute(&mut row, &env)?;
        }
        for (number, key, parent) in &keys {
            let values: Vec<&Value> =
                key.columns.iter().map(|&column| &row.values[column]).collect();
            if values.iter().any(|value| value.is_null()) || parent.has(transaction, &values)? {
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

//! The statements to apply changes to one table.

use std::collections::HashMap;

use shoal_sql::{Connection, Error as SqlError, Statement, Value, ValueRef};

use super::told;
use crate::Error;
use crate::changeset::{Change, Form, Head, Op};
use crate::literal::quoted;
use crate::shape::{Identity, Shape};

/// The outcome of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The row is changed.
    Changed,
    /// No row has the key and the values asked for.
    NoRow,
    /// A constraint refused.
    Constraint,
}

/// A table with room for the changes of a head.
pub(crate) struct Target {
    /// The table's name, and in quotes.
    pub(crate) name: String,
    table: String,
    columns: Vec<String>,
    pub(crate) head: Head,
    /// True where rows may be inserted without SQL: the table's key is the rowid, the head has all
    /// columns, and no trigger sees them.
    pub(crate) takes_rows: bool,
    /// True where changes may be made together: the head has all columns of a table with a key.
    pub(crate) takes_many: bool,
    insert: Option<Statement>,
    select: Option<Statement>,
    /// By key alone, and with every value compared.
    deletes: [Option<Statement>; 2],
    /// Updates, by the columns compared and the columns set.
    updates: HashMap<Vec<u8>, Statement>,
}

impl Target {
    /// The table of the head's name with at least the head's columns, and its key; else the reason
    /// why there is none.
    pub(crate) fn find(
        connection: &mut Connection,
        head: &Head,
    ) -> Result<Result<Target, &'static str>, Error> {
        let schema = connection.schema()?;
        let Some(table) = schema.table(&head.table).filter(|table| {
            // Tables of SQLite itself are not written by name.
            !table.name().to_ascii_lowercase().starts_with("sqlite_")
        }) else {
            return Ok(Err("there is no such table"));
        };
        let mut shape = Shape::of(table);
        if shape.head.keys.len() < head.keys.len() {
            return Ok(Err("the table has fewer columns"));
        }
        let (first, rest) = shape.head.keys.split_at(head.keys.len());
        if first != head.keys || rest.iter().any(|place| *place > 0) {
            return Ok(Err("the table has another primary key"));
        }
        if shape.identity == Identity::Rowid {
            let Some(name) = shape.rowid_name else {
                return Ok(Err("the table's columns hide the rowid"));
            };
            name.clone_into(&mut shape.columns[0]);
        }
        let has_all = shape.columns.len() == head.keys.len();
        shape.columns.truncate(head.keys.len());
        let name = table.name().to_owned();
        let takes_rows = has_all
            && shape.identity == Identity::RowidColumn
            && connection.table_writer(&name).is_ok();
        Ok(Ok(Target {
            table: quoted(&name),
            name,
            takes_rows,
            takes_many: has_all && shape.identity != Identity::Rowid,
            columns: shape.columns.iter().map(|name| quoted(name)).collect(),
            head: head.clone(),
            insert: None,
            select: None,
            deletes: [None, None],
            updates: HashMap::new(),
        }))
    }

    /// Tries a change; `by_key` compares the key alone.
    pub(crate) fn apply(
        &mut self,
        connection: &mut Connection,
        change: &Change<'_, '_>,
        by_key: bool,
    ) -> Result<Done, Error> {
        let by_key = by_key || change.form == Form::Patchset;
        match change.op {
            Op::Insert => self.insert(connection, change.new),
            Op::Delete if by_key => self.delete(connection, change.old),
            Op::Delete => {
                let all = |column: usize| !self.head.is_key(column);
                let columns = (0..self.columns.len()).filter(|column| all(*column));
                let compared: Vec<usize> = columns.collect();
                let statement = match &mut self.deletes[1] {
                    Some(statement) => statement,
                    empty => {
                        let sql = format!("DELETE FROM {}", self.table);
                        let sql = sql + &condition(&self.head, &self.columns, &compared);
                        empty.insert(connection.prepare(&sql)?)
                    }
                };
                let key = self.head.key_columns().chain(compared);
                bind(statement, key.map(|column| told(change.old, column)))?;
                finish(connection, statement)
            }
            Op::Update => self.update(connection, change, by_key),
        }
    }

    fn insert(
        &mut self,
        connection: &mut Connection,
        row: &[Option<ValueRef<'_>>],
    ) -> Result<Done, Error> {
        let statement = match &mut self.insert {
            Some(statement) => statement,
            empty => {
                let marks = vec!["?"; self.columns.len()].join(",");
                let (table, columns) = (&self.table, self.columns.join(","));
                let sql = format!("INSERT INTO {table}({columns}) VALUES({marks})");
                empty.insert(connection.prepare(&sql)?)
            }
        };
        bind(statement, (0..row.len()).map(|column| told(row, column)))?;
        match finish(connection, statement)? {
            Done::NoRow => Ok(Done::Changed),
            done => Ok(done),
        }
    }

    /// Deletes the row with the key of a record, whatever its values.
    pub(crate) fn delete(
        &mut self,
        connection: &mut Connection,
        row: &[Option<ValueRef<'_>>],
    ) -> Result<Done, Error> {
        let statement = match &mut self.deletes[0] {
            Some(statement) => statement,
            empty => {
                let condition = condition(&self.head, &self.columns, &[]);
                let sql = format!("DELETE FROM {}{condition}", self.table);
                empty.insert(connection.prepare(&sql)?)
            }
        };
        bind(statement, self.head.key_columns().map(|column| told(row, column)))?;
        finish(connection, statement)
    }

    fn update(
        &mut self,
        connection: &mut Connection,
        change: &Change<'_, '_>,
        by_key: bool,
    ) -> Result<Done, Error> {
        let head = &self.head;
        let columns = || (0..head.keys.len()).filter(|column| !head.is_key(*column));
        let set: Vec<usize> = columns().filter(|column| change.new[*column].is_some()).collect();
        let compared: Vec<usize> =
            columns().filter(|column| !by_key && change.old[*column].is_some()).collect();
        if set.is_empty() {
            return Ok(Done::Changed);
        }
        let mask: Vec<u8> = (0..head.keys.len())
            .map(|column| {
                let is_set = !head.is_key(column) && change.new[column].is_some();
                let is_compared = !by_key && change.old[column].is_some();
                u8::from(is_set) | u8::from(is_compared) << 1
            })
            .collect();
        let statement = match self.updates.entry(mask) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                let set_one = |column: &usize| format!("{}=?", self.columns[*column]);
                let sets: Vec<String> = set.iter().map(set_one).collect();
                let condition = condition(head, &self.columns, &compared);
                let sql = format!("UPDATE {} SET {}{condition}", self.table, sets.join(","));
                entry.insert(connection.prepare(&sql)?)
            }
        };
        let new = set.iter().map(|column| told(change.new, *column));
        let old = head.key_columns().chain(compared);
        bind(statement, new.chain(old.map(|column| told(change.old, column))))?;
        finish(connection, statement)
    }

    /// The row with the key of a change; `None` where there is none.
    pub(crate) fn present(
        &mut self,
        connection: &mut Connection,
        change: &Change<'_, '_>,
    ) -> Result<Option<Vec<Value>>, Error> {
        let statement = match &mut self.select {
            Some(statement) => statement,
            empty => {
                let condition = condition(&self.head, &self.columns, &[]);
                let columns = self.columns.join(",");
                let sql = format!("SELECT {columns} FROM {}{condition}", self.table);
                empty.insert(connection.prepare(&sql)?)
            }
        };
        let row = change.keyed();
        bind(statement, self.head.key_columns().map(|column| told(row, column)))?;
        let mut rows = connection.query(statement)?;
        Ok(rows.next()?.map(|row| row.values().map(Value::from).collect()))
    }
}

/// The condition for the row of a key, with `compared` columns as remembered.
fn condition(head: &Head, columns: &[String], compared: &[usize]) -> String {
    let key = head.key_columns().map(|column| format!("{}=?", columns[column]));
    let values = compared.iter().map(|column| format!("{} IS ?", columns[*column]));
    let all: Vec<String> = key.chain(values).collect();
    format!(" WHERE {}", all.join(" AND "))
}

fn bind<'a>(
    statement: &mut Statement,
    values: impl Iterator<Item = ValueRef<'a>>,
) -> Result<(), Error> {
    for (place, value) in values.enumerate() {
        statement.bind_ref(place + 1, value)?;
    }
    Ok(())
}

/// True for a row refused by a constraint.
pub(crate) fn is_refused<T>(done: Result<T, SqlError>) -> Result<bool, Error> {
    match done {
        Ok(_) => Ok(false),
        Err(SqlError::Constraint { .. } | SqlError::Raised { .. } | SqlError::Datatype { .. }) => {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

/// Runs a statement about one row.
fn finish(connection: &mut Connection, statement: &mut Statement) -> Result<Done, Error> {
    let mut count = 0;
    let done = connection.execute(statement).map(|rows| count = rows);
    Ok(match (is_refused(done)?, count) {
        (true, _) => Done::Constraint,
        (false, 0) => Done::NoRow,
        (false, _) => Done::Changed,
    })
}

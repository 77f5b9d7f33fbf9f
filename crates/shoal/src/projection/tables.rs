//! The tables of projections: made, read and written with SQL.

use std::collections::BTreeSet;

use shoal_sql::{Connection, Statement, Value, ValueRef};

use super::define::{Definition, ProjectionStatement, parse};
use super::rows::Row;
use crate::tables::{PREFIX, query};
use crate::{Error, layout};

/// A name in quotes.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The definition of the table, as SQLite keeps it.
fn table_sql(definition: &Definition) -> String {
    let columns: String = definition.columns.iter().fold(String::new(), |columns, column| {
        columns + &format!("{} {}, ", quoted(&column.name), column.kind.declared())
    });
    format!(
        "CREATE TABLE {}(_doc INTEGER NOT NULL, _id BLOB NOT NULL, {columns}PRIMARY KEY(_doc, _id)) \
         WITHOUT ROWID",
        quoted(&definition.name)
    )
}

/// The triggers that keep others from writing to the table.
fn guards(definition: &Definition) -> impl Iterator<Item = String> {
    let (table, name) = (quoted(&definition.name), &definition.name);
    let text = format!("{name} is a projection of documents, which only Shoal writes");
    let text = text.replace('\'', "''");
    ["INSERT", "UPDATE", "DELETE"].into_iter().map(move |event| {
        let trigger = quoted(&format!("{name}_guard_{}", event.to_ascii_lowercase()));
        format!(
            "CREATE TRIGGER {trigger} BEFORE {event} ON {table} \
             BEGIN SELECT RAISE(ABORT, '{text}'); END"
        )
    })
}

/// Runs a statement in Shoal's own name: reserved tables are written, triggers sleep.
fn run(connection: &mut Connection, sql: &str, parameters: &[Value]) -> Result<(), Error> {
    connection.reserve_tables(None);
    let prepared = prepare(connection, sql);
    connection.reserve_tables(Some(PREFIX));
    let mut statement = prepared?;
    for (index, value) in parameters.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    connection.execute(&mut statement)?;
    Ok(())
}

/// Prepares a statement on a projection's table: triggers sleep.
fn prepare(connection: &mut Connection, sql: &str) -> Result<Statement, Error> {
    connection.silence_triggers(true);
    let prepared = connection.prepare(sql);
    connection.silence_triggers(false);
    Ok(prepared?)
}

/// Makes the table of a projection and notes the definition.
pub(super) fn create(connection: &mut Connection, definition: &Definition) -> Result<(), Error> {
    run(connection, &table_sql(definition), &[])?;
    for guard in guards(definition) {
        run(connection, &guard, &[])?;
    }
    let note = "INSERT INTO _shoal_projection(name, sql) VALUES (?1, ?2)";
    let values = [Value::text(definition.name.as_str()), Value::text(definition.sql.as_str())];
    run(connection, note, &values)
}

/// Drops the table of a projection, if it is there, and forgets the definition.
pub(super) fn remove(connection: &mut Connection, name: &str) -> Result<(), Error> {
    run(connection, &format!("DROP TABLE IF EXISTS {}", quoted(name)), &[])?;
    let forget = "DELETE FROM _shoal_projection WHERE name = ?1 COLLATE NOCASE";
    run(connection, forget, &[Value::text(name)])
}

/// The definitions of the file's projections.
pub(super) fn definitions(connection: &mut Connection) -> Result<Vec<Definition>, Error> {
    let mut found = Vec::new();
    if connection.schema()?.table(layout::PROJECTION).is_none() {
        return Ok(found);
    }
    query(connection, "SELECT sql FROM _shoal_projection ORDER BY name", &[], |row| {
        let [ValueRef::Text(sql)] = row else {
            return Err(Error::Layout { table: layout::PROJECTION });
        };
        let Some(ProjectionStatement::Create { definition, .. }) =
            parse(&String::from_utf8_lossy(sql))?
        else {
            return Err(Error::Layout { table: layout::PROJECTION });
        };
        found.push(definition);
        Ok(())
    })?;
    Ok(found)
}

/// The definition of a projection.
pub(super) fn definition(
    connection: &mut Connection,
    name: &str,
) -> Result<Option<Definition>, Error> {
    let all = definitions(connection)?;
    Ok(all.into_iter().find(|definition| definition.name.eq_ignore_ascii_case(name)))
}

/// True where the table and its guards are as they were made.
pub(super) fn is_whole(
    connection: &mut Connection,
    definition: &Definition,
) -> Result<bool, Error> {
    let mut found = BTreeSet::new();
    let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = ?1 AND type IN ('table', 'trigger')";
    query(connection, sql, &[Value::text(definition.name.as_str())], |row| {
        if let [ValueRef::Text(sql)] = row {
            found.insert(String::from_utf8_lossy(sql).into_owned());
        }
        Ok(())
    })?;
    Ok(found.contains(&table_sql(definition)) && guards(definition).all(|it| found.contains(&it)))
}

/// True where the definition's condition holds for a document's name.
pub(super) fn chooses(
    connection: &mut Connection,
    definition: &Definition,
    name: &str,
) -> Result<bool, Error> {
    let Some(condition) = &definition.documents else { return Ok(true) };
    let sql = format!("SELECT 1 FROM (SELECT ?1 AS name) WHERE ({condition})");
    let mut chosen = false;
    query(connection, &sql, &[Value::text(name)], |_| {
        chosen = true;
        Ok(())
    })?;
    Ok(chosen)
}

/// The keys of a document's rows.
pub(super) fn keys(
    connection: &mut Connection,
    definition: &Definition,
    doc: i64,
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut keys = BTreeSet::new();
    let sql = format!("SELECT _id FROM {} WHERE _doc = ?1", quoted(&definition.name));
    query(connection, &sql, &[Value::Int(doc)], |row| {
        if let [ValueRef::Blob(key)] = row {
            keys.insert(key.to_vec());
        }
        Ok(())
    })?;
    Ok(keys)
}

/// Deletes the rows of a document.
pub(super) fn clear(
    connection: &mut Connection,
    definition: &Definition,
    doc: i64,
) -> Result<(), Error> {
    let sql = format!("DELETE FROM {} WHERE _doc = ?1", quoted(&definition.name));
    run(connection, &sql, &[Value::Int(doc)])
}

/// The statements that write rows of a projection, prepared at their first use.
#[derive(Debug, Default)]
pub(super) struct Statements {
    put: Option<Statement>,
    delete: Option<Statement>,
}

/// Writes rows of one document.
pub(super) struct Writer<'c> {
    connection: &'c mut Connection,
    definition: &'c Definition,
    doc: i64,
    statements: &'c mut Statements,
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        definition: &'c Definition,
        doc: i64,
        statements: &'c mut Statements,
    ) -> Self {
        Writer { connection, definition, doc, statements }
    }

    /// Writes a row, in the place of the one with its key.
    pub(super) fn put(&mut self, row: &Row) -> Result<(), Error> {
        let statement = match &mut self.statements.put {
            Some(statement) => statement,
            none => {
                let marks = ", ?".repeat(self.definition.columns.len());
                let table = quoted(&self.definition.name);
                let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?{marks})");
                none.insert(prepare(self.connection, &sql)?)
            }
        };
        statement.bind(1, self.doc)?;
        statement.bind_ref(2, ValueRef::Blob(&row.key))?;
        for (index, value) in row.values.iter().enumerate() {
            statement.bind_ref(index + 3, value.as_ref())?;
        }
        self.connection.execute(statement)?;
        Ok(())
    }

    /// Deletes the row with that key, if it is there.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        let statement = match &mut self.statements.delete {
            Some(statement) => statement,
            none => {
                let table = quoted(&self.definition.name);
                let sql = format!("DELETE FROM {table} WHERE _doc = ?1 AND _id = ?2");
                none.insert(prepare(self.connection, &sql)?)
            }
        };
        statement.bind(1, self.doc)?;
        statement.bind_ref(2, ValueRef::Blob(key))?;
        self.connection.execute(statement)?;
        Ok(())
    }
}

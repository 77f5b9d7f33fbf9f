//! The rows of a projection at a past state of a document.

use shoal_crdt::Document;
use shoal_history::{ActorId, ChangeHash};
use shoal_sql::Value;

use super::define::{Definition, ProjectionStatement, parse};
use super::rows;
use crate::Error;

/// The definition that the file keeps as `sql`.
pub(crate) fn kept_definition(sql: &str) -> Result<Option<Definition>, Error> {
    Ok(match parse(sql)? {
        Some(ProjectionStatement::Create { definition, .. }) => Some(definition),
        _ => None,
    })
}

/// Adds the rows that a document had at `heads`, with the columns of the projection's table.
pub(crate) fn past_rows(
    (doc, document): (i64, &Document),
    definition: &Definition,
    heads: &[ChangeHash],
    all: &mut Vec<Vec<Value>>,
) -> Result<(), Error> {
    let past = document.fork_at(ActorId::new(&[0]), heads)?;
    rows::each_key(&past, definition, |key, value, id| {
        let mut row = vec![Value::Int(doc), Value::Blob(key)];
        row.extend(rows::values(&past, definition, value, id)?);
        all.push(row);
        Ok(())
    })
}

//! The rows of a projection at a past state of a document.

use shoal_crdt::Document;
use shoal_history::ChangeHash;
use shoal_sql::Value;

use super::define::{self, Definition, ProjectionStatement, parse};
use super::rows;
use crate::Error;

/// The definition of a projection, among those that the file keeps as `all`.
pub(crate) fn kept_definition(all: &[String], name: &str) -> Result<Option<Definition>, Error> {
    let mut definitions = Vec::new();
    for sql in all {
        if let Some(ProjectionStatement::Create { definition, .. }) = parse(sql)? {
            definitions.push(definition);
        }
    }
    let all = define::resolve_all(definitions)?;
    Ok(all.into_iter().find(|definition| definition.name.eq_ignore_ascii_case(name)))
}

/// Adds the rows of a document at `heads`, with the columns of the projection's table.
pub(crate) fn past_rows(
    (doc, document): (i64, &Document),
    definition: &Definition,
    heads: &[ChangeHash],
    all: &mut Vec<Vec<Value>>,
) -> Result<(), Error> {
    let past = document.at(heads);
    rows::each_row(&past, definition, |found| {
        let made = rows::row(&past, definition, &found)?;
        let mut row = vec![Value::Int(doc), Value::Blob(made.key)];
        if definition.is_nested() {
            row.push(made.parent.map_or(Value::Null, Value::Blob));
        }
        row.extend(made.values);
        all.push(row);
        Ok(())
    })
}

//! `REINDEX`: indexes made again from the rows of their tables.

use std::sync::Arc;

use super::create_index::fill;
use super::{Context, Done, Kind};
use crate::Error;
use crate::parse::ast::ObjectName;
use crate::schema::{Object, Schema, Table};

/// A prepared `REINDEX`: tables and the places of their indexes.
#[derive(Debug)]
pub(crate) struct ReindexPlan {
    indexes: Vec<(Arc<Table>, usize)>,
}

/// Prepares a `REINDEX` of everything, or of what a collation, a table or an index is called.
///
/// # Errors
/// Nothing goes by that name.
pub(crate) fn prepare(schema: &Schema, name: Option<&ObjectName>) -> Result<Kind, Error> {
    let text = name.map(|name| name.name.text.as_str());
    let collation = name
        .filter(|name| name.database.is_none())
        .and_then(|name| schema.own().collation(&name.name.text));
    let mut indexes = Vec::new();
    for object in schema.objects() {
        let Object::Table(table) = object else { continue };
        for (place, index) in table.indexes.iter().enumerate() {
            let wanted = match (text, collation) {
                (None, _) => true,
                (_, Some(collation)) => {
                    let key = &index.columns[..index.key_columns];
                    key.iter().any(|column| column.collation == Ok(collation))
                }
                (Some(text), None) => {
                    table.name.eq_ignore_ascii_case(text) || index.name.eq_ignore_ascii_case(text)
                }
            };
            if wanted {
                indexes.push((Arc::clone(table), place));
            }
        }
    }
    if let (Some(name), None, true) = (name, collation, indexes.is_empty())
        && schema.object(&name.name.text).is_none()
    {
        let message = "unable to identify the object to be reindexed";
        return Err(Error::meaning(message, name.name.offset));
    }
    Ok(Kind::Reindex(ReindexPlan { indexes }))
}

impl ReindexPlan {
    /// Empties the indexes and fills them again.
    ///
    /// # Errors
    /// [`Error::Constraint`] when an index is unique and the rows are not; [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        for (table, place) in &self.indexes {
            let index = &table.indexes[*place];
            context.transaction.clear_btree(index.root)?;
            fill(context.schema, context.transaction, context.session, (table, index))?;
        }
        Ok(Done::default())
    }
}

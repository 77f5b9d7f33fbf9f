//! `CREATE VIEW`.

use super::create_table::check_reserved;
use super::home::check_names;
use super::schema_rows::SchemaRow;
use super::triggers::Within;
use super::{Context, Done, Kind, text};
use crate::Error;
use crate::parse::ast::CreateView;

/// A prepared `CREATE VIEW`.
#[derive(Debug)]
pub(crate) struct CreateViewPlan {
    name: String,
    /// What the schema stores.
    sql: String,
}

/// Prepares a `CREATE VIEW`. What its query names is looked up when the view is.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(within: &Within<'_>, create: &CreateView, sql: &str) -> Result<Kind, Error> {
    let schema = within.own;
    let name = &create.name.name;
    check_reserved(name)?;
    if create.has_parameters {
        return Err(Error::meaning("parameters are not allowed in views", create.offset));
    }
    if let Some(object) = schema.object(&name.text) {
        if create.if_not_exists {
            return Ok(Kind::Nothing);
        }
        let kind = match object {
            crate::schema::Object::View(_) => "view",
            _ => "table",
        };
        let message = format!("{kind} {} already exists", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    if schema.index(&name.text).is_some() {
        let message = format!("there is already an index named {}", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    check_names(within, ("view", name), &create.select)?;
    let start = name.offset;
    let text = sql.get(start..text::semicolon(sql, start)).unwrap_or_default();
    let plan = CreateViewPlan { name: name.text.clone(), sql: format!("CREATE VIEW {text}") };
    Ok(Kind::CreateView(plan))
}

impl CreateViewPlan {
    /// Adds the view to the schema.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let transaction = &mut *context.transaction;
        SchemaRow {
            kind: "view",
            name: &self.name,
            table: &self.name,
            root: None,
            sql: Some(&self.sql),
        }
        .insert(transaction)?;
        transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

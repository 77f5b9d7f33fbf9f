//! `CREATE TRIGGER` and `DROP TRIGGER`.

use shoal_store::Pgno;

use super::create_table::check_reserved;
use super::home::check_names;
use super::schema_rows::{SchemaRow, delete_where, is_name};
use super::triggers::Within;
use super::{Context, Done, Kind, text};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{CreateTrigger, ObjectName, TriggerTime};
use crate::schema::{Object, Schema};

/// A prepared `CREATE TRIGGER` or `DROP TRIGGER`.
#[derive(Debug)]
pub(crate) struct CreateTriggerPlan {
    name: String,
    table: String,
    /// What the schema stores; `None` to drop the trigger.
    sql: Option<String>,
}

/// Prepares a `CREATE TRIGGER`. What its statements name is looked up when the trigger is to run.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &Within<'_>,
    create: &CreateTrigger,
    sql: &str,
) -> Result<Kind, Error> {
    let schema = within.own;
    let name = &create.name.name;
    let table = &create.table.name;
    let Some(object) = schema.object(&table.text) else {
        let message =
            format!("no such table: {}.{}", within.schema.database_name(within.home), table.text);
        let offset = Some(table.offset);
        return Err(Error::Name { kind: NameKind::Table, message, offset });
    };
    if create.has_parameters {
        return Err(Error::meaning("trigger cannot use variables", create.offset));
    }
    check_reserved(name)?;
    if schema.trigger(&name.text).is_some() {
        if create.if_not_exists {
            return Ok(Kind::Nothing);
        }
        let message = format!("trigger {} already exists", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    let meaning = |message: String| Err(Error::meaning(message, table.offset));
    match object {
        Object::Table(known) if known.name.to_ascii_lowercase().starts_with("sqlite_") => {
            return meaning("cannot create trigger on system table".to_owned());
        }
        Object::Table(known) if create.time == TriggerTime::InsteadOf => {
            return meaning(format!("cannot create INSTEAD OF trigger on table: {}", known.name));
        }
        Object::View(view) if create.time != TriggerTime::InsteadOf => {
            let when = if create.time == TriggerTime::Before { "BEFORE" } else { "AFTER" };
            return meaning(format!("cannot create {when} trigger on view: {}", view.name()));
        }
        Object::Virtual(_) => {
            return meaning("cannot create triggers on virtual tables".to_owned());
        }
        Object::Damaged { name, why } => {
            return Err(Error::Schema { object: name.clone(), why: why.clone() });
        }
        Object::Table(_) | Object::View(_) | Object::Narrowed(_) => {}
    }
    check_names(within, ("trigger", name), &(&create.when, &create.body))?;
    let start = name.offset;
    let end = text::end_of_trigger(sql, start);
    let text = sql.get(start..end).unwrap_or_default();
    Ok(Kind::CreateTrigger(CreateTriggerPlan {
        name: name.text.clone(),
        table: object.name().to_owned(),
        sql: Some(format!("CREATE TRIGGER {text}")),
    }))
}

/// Prepares a `DROP TRIGGER`.
///
/// # Errors
/// No such trigger.
pub(crate) fn prepare_drop(
    schema: &Schema,
    name: &ObjectName,
    if_exists: bool,
) -> Result<Kind, Error> {
    match schema.trigger(&name.name.text) {
        Some((object, trigger)) => Ok(Kind::CreateTrigger(CreateTriggerPlan {
            name: trigger.name.clone(),
            table: object.name().to_owned(),
            sql: None,
        })),
        None if if_exists => Ok(Kind::Nothing),
        None => Err(Error::no_such(NameKind::Trigger, &name.name.text, name.name.offset)),
    }
}

impl CreateTriggerPlan {
    /// Adds the trigger to the schema, or removes it.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let transaction = &mut *context.transaction;
        match &self.sql {
            Some(sql) => {
                let (name, table) = (self.name.as_str(), self.table.as_str());
                SchemaRow { kind: "trigger", name, table, root: None, sql: Some(sql) }
                    .insert(transaction)?;
            }
            None => delete_where(transaction, Pgno::FIRST, |row| {
                is_name(row.first(), "trigger") && is_name(row.get(1), &self.name)
            })?,
        }
        transaction.bump_schema_cookie()?;
        Ok(Done::default())
    }
}

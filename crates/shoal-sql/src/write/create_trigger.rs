//! `CREATE TRIGGER` and `DROP TRIGGER`.

use shoal_store::Pgno;

use super::create_table::check_reserved;
use super::home::check_names;
use super::schema_rows::{SchemaRow, delete_where, is_name};
use super::triggers::Within;
use super::{Context, Done, Kind, text};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{CreateTrigger, ObjectName, Stmt, TriggerTime};
use crate::schema::{Object, Schema, TEMP};

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
    // As the statement names the table.
    let written = create.table.in_full();
    let (object, missing) = match within.home {
        TEMP => (of_any(within.schema, &create.table)?, written.clone()),
        home => {
            let full = format!("{}.{}", within.schema.database_name(home), table.text);
            (schema.object(&table.text), full)
        }
    };
    let Some(object) = object else {
        return Err(Error::no_such(NameKind::Table, &missing, table.offset));
    };
    if create.has_parameters {
        return Err(Error::meaning("trigger cannot use variables", create.offset));
    }
    check_reserved(name)?;
    if schema.kept_trigger(&name.text).is_some() {
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
            let shown = if within.home == TEMP { &written } else { &known.name };
            return meaning(format!("cannot create INSTEAD OF trigger on table: {shown}"));
        }
        Object::View(view) if create.time != TriggerTime::InsteadOf => {
            let when = if create.time == TriggerTime::Before { "BEFORE" } else { "AFTER" };
            let shown = if within.home == TEMP { &written } else { view.name() };
            return meaning(format!("cannot create {when} trigger on view: {shown}"));
        }
        Object::Virtual(_) => {
            return meaning("cannot create triggers on virtual tables".to_owned());
        }
        Object::Damaged { name, why } => {
            return Err(Error::Schema { object: name.clone(), why: why.clone() });
        }
        Object::Table(_) | Object::View(_) | Object::Narrowed(_) => {}
    }
    let is_qualified =
        |step: &Stmt| step.changed_table().is_some_and(|table| table.database.is_some());
    if within.home != TEMP && create.body.iter().any(is_qualified) {
        let what = "qualified table names are not allowed on INSERT, UPDATE, and DELETE statements \
                    within triggers";
        return Err(Error::meaning(what, create.offset));
    }
    check_names(within, ("trigger", name), &(&create.when, &create.body))?;
    let start = name.offset;
    let end = text::end_of_trigger(sql, start);
    let text = sql.get(start..end).unwrap_or_default();
    Ok(Kind::CreateTrigger(CreateTriggerPlan {
        name: name.text.clone(),
        table: table.text.clone(),
        sql: Some(format!("CREATE TRIGGER {text}")),
    }))
}

/// The table or view of a trigger of `temp`, in any database.
///
/// # Errors
/// A shadow table of another database: its virtual table writes past all triggers.
fn of_any<'s>(schema: &'s Schema, on: &ObjectName) -> Result<Option<&'s Object>, Error> {
    let Some((database, object)) = schema.find_named(on) else { return Ok(None) };
    let own = schema.of_database(database);
    if let (Object::Table(table), Some(own)) = (object, own)
        && let Some(owner) = own.shadow_owner(&table.name).filter(|_| database != TEMP)
    {
        let what = format!("a temporary trigger on {}, part of virtual table {owner}", table.name);
        return Err(Error::unsupported(what, on.name.offset));
    }
    // The program's own views are in no schema, and nobody writes to them.
    let is_kept = !matches!(object, Object::View(_))
        || own.is_some_and(|it| it.object(&on.name.text).is_some());
    Ok(is_kept.then_some(object))
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
    match schema.kept_trigger(&name.name.text) {
        Some(trigger) => Ok(Kind::CreateTrigger(CreateTriggerPlan {
            name: trigger.name.clone(),
            table: trigger.definition.table.name.text.clone(),
            sql: None,
        })),
        None if if_exists => Ok(Kind::Nothing),
        None => Err(Error::no_such(NameKind::Trigger, &name.in_full(), name.name.offset)),
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

//! The database a statement writes to.

use super::triggers::Within;
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{DropKind, Name, ObjectName, PragmaArgument, Stmt};
use crate::schema::{MAIN, Schema, TEMP};

/// The number of the database written to by a statement: named, or the first with an object of the
/// name.
///
/// # Errors
/// [`Error::Name`] for an unknown database; temporary objects with another database's name.
pub(crate) fn of(schema: &Schema, stmt: &Stmt) -> Result<usize, Error> {
    let (name, temporary) = match stmt {
        Stmt::CreateTable(create) => (&create.name, create.temporary),
        Stmt::CreateView(create) => (&create.name, create.temporary),
        Stmt::CreateTrigger(create) => {
            let on = &create.table;
            if create.temporary {
                let qualified = "temporary trigger may not have qualified name";
                return match create.name.database {
                    Some(_) => Err(Error::meaning(qualified, create.name.name.offset)),
                    None => Ok(TEMP),
                };
            }
            let object = found(schema, on, |schema, text| schema.object(text).is_some())?;
            let is_in_temp = object == Some(TEMP) && create.name.database.is_none();
            if create.name.database.is_none() && on.database.is_some() {
                return Ok(object.unwrap_or(MAIN));
            }
            (&create.name, is_in_temp)
        }
        Stmt::CreateIndex(create) => {
            let on = ObjectName { database: None, name: create.table.clone() };
            let table = found(schema, &on, |schema, text| schema.object(text).is_some())?;
            (&create.name, create.name.database.is_none() && table == Some(TEMP))
        }
        Stmt::CreateVirtualTable(create) => (&create.name, false),
        Stmt::Insert(insert) => return of_object(schema, &insert.table),
        Stmt::Update(update) => return of_object(schema, &update.table),
        Stmt::Delete(delete) => return of_object(schema, &delete.table),
        Stmt::Drop { kind, name, .. } => {
            let has: fn(&Schema, &str) -> bool = match kind {
                DropKind::Table | DropKind::View => |schema, text| schema.object(text).is_some(),
                DropKind::Index => |schema, text| schema.index(text).is_some(),
                DropKind::Trigger => |schema, text| schema.kept_trigger(text).is_some(),
            };
            return Ok(found(schema, name, has)?.unwrap_or(MAIN));
        }
        Stmt::Reindex(Some(name)) => {
            let has = |schema: &Schema, text: &str| {
                schema.object(text).is_some() || schema.index(text).is_some()
            };
            return Ok(found(schema, name, has)?.unwrap_or(MAIN));
        }
        _ => return Ok(MAIN),
    };
    let named = name.database.as_ref().map(|database| number(schema, database)).transpose()?;
    match (temporary, named) {
        (true, Some(database)) if database != TEMP => {
            let what = "temporary table name must be unqualified";
            Err(Error::meaning(what, name.name.offset))
        }
        (true, _) => Ok(TEMP),
        (false, named) => Ok(named.unwrap_or(MAIN)),
    }
}

/// The number of the database with a table or view to be changed; `main` where there is none.
///
/// # Errors
/// [`Error::Name`] for an unknown database.
pub(crate) fn of_object(schema: &Schema, name: &ObjectName) -> Result<usize, Error> {
    match &name.database {
        Some(database) => schema
            .database(&database.text)
            .ok_or_else(|| Error::no_such(NameKind::Table, &name.in_full(), name.name.offset)),
        None => Ok(schema.find(None, &name.name.text).map_or(MAIN, |(database, _)| database)),
    }
}

/// The number of the named database, or of the first with an object called so.
fn found(
    schema: &Schema,
    name: &ObjectName,
    has: impl Fn(&Schema, &str) -> bool,
) -> Result<Option<usize>, Error> {
    if let Some(database) = &name.database {
        return number(schema, database).map(Some);
    }
    let has = |database: usize| {
        let schema = schema.of_database(database)?;
        has(schema, &name.name.text).then_some(database)
    };
    let others = schema.databases().map(|(database, ..)| database);
    Ok(std::iter::once(TEMP).chain(others).find_map(has))
}

fn number(schema: &Schema, name: &Name) -> Result<usize, Error> {
    schema.database(&name.text).ok_or_else(|| Error::Name {
        kind: NameKind::Database,
        message: format!("unknown database {}", name.text),
        offset: Some(name.offset),
    })
}

/// Refuses a view or trigger of one database with tables of another: SQLite calls a file with such
/// a definition malformed. Objects in `temp` may name all databases.
///
/// # Errors
/// [`Error::Meaning`].
pub(crate) fn check_names(
    within: &Within<'_>,
    (kind, name): (&str, &Name),
    definition: &impl std::fmt::Debug,
) -> Result<(), Error> {
    if within.home == TEMP {
        return Ok(());
    }
    for database in databases_in(&format!("{definition:?}")) {
        if within.schema.database(&database) != Some(within.home) {
            let name = &name.text;
            let message = format!("{kind} {name} cannot reference objects in database {database}");
            return Err(Error::Meaning { message, offset: None });
        }
    }
    Ok(())
}

/// The databases named before tables in the `Debug` form of a syntax tree: every [`ObjectName`] has
/// its place there, whatever expression or query is around.
fn databases_in(form: &str) -> Vec<String> {
    const MARK: &str = "ObjectName { database: Some(Name { text: ";
    let mut found = Vec::new();
    let (mut outside, mut inside) = (String::new(), None::<String>);
    let mut chars = form.chars();
    while let Some(char) = chars.next() {
        match (&mut inside, char) {
            (None, '"') => inside = Some(String::new()),
            (None, char) => outside.push(char),
            (Some(text), '\\') => text.extend(chars.next()),
            (Some(text), '"') => {
                if outside.ends_with(MARK) {
                    found.push(std::mem::take(text));
                }
                outside.clear();
                inside = None;
            }
            (Some(text), char) => text.push(char),
        }
    }
    found
}

/// True for statements about temporary objects, and the names of `temp`.
pub(crate) fn needs_temp(stmt: &Stmt) -> bool {
    let (temporary, name) = match stmt {
        Stmt::CreateTable(create) => (create.temporary, &create.name),
        Stmt::CreateView(create) => (create.temporary, &create.name),
        Stmt::CreateTrigger(create) => (create.temporary, &create.name),
        Stmt::CreateIndex(create) => (false, &create.name),
        Stmt::CreateVirtualTable(create) => (false, &create.name),
        Stmt::Insert(insert) => (false, &insert.table),
        Stmt::Update(update) => (false, &update.table),
        Stmt::Delete(delete) => (false, &delete.table),
        Stmt::Drop { name, .. } => (false, name),
        Stmt::Pragma { name, argument: Some(PragmaArgument { .. }) } => (false, name),
        _ => return false,
    };
    temporary || name.database.as_ref().is_some_and(|database| database.is("temp"))
}

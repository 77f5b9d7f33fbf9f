//! Tables kept by someone above SQL: statements read them and do not change them.

use crate::Error;
use crate::parse::ast::{DropKind, Name, ObjectName, Stmt};
use crate::schema::{MAIN, Object, Schema, TEMP};

/// Why the shape of a kept table is closed to statements, told by the table's name, the names of
/// its first two columns and the name of a trigger; `None` for tables of others.
pub(crate) type Closes<'a> = &'a dyn Fn(&str, [&str; 2], &str) -> Option<String>;

/// Refuses a statement that would change a table whose name begins with `prefix`, or make one.
///
/// # Errors
/// [`Error::Refused`], at the name.
pub(crate) fn refuse_reserved(schema: &Schema, stmt: &Stmt, prefix: &str) -> Result<(), Error> {
    let Some(name) = target(stmt) else { return Ok(()) };
    let owner = match stmt {
        Stmt::Drop { kind: DropKind::Index, .. } => {
            schema.index(&name.text).map(|(table, _)| table.name().to_owned())
        }
        _ => None,
    };
    let table = owner.as_deref().unwrap_or(&name.text);
    let reserved = table
        .as_bytes()
        .get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()));
    if reserved {
        return Err(Error::Refused { table: table.to_owned(), offset: name.offset });
    }
    Ok(())
}

/// The name of the table, or of the index to drop, that a statement changes.
fn target(stmt: &Stmt) -> Option<&Name> {
    match stmt {
        Stmt::CreateIndex(create) => Some(&create.table),
        _ => object(stmt).map(|name| &name.name),
    }
}

/// The name of what a statement changes or makes, with its database.
fn object(stmt: &Stmt) -> Option<&ObjectName> {
    Some(match stmt {
        Stmt::Insert(insert) => &insert.table,
        Stmt::Update(update) => &update.table,
        Stmt::Delete(delete) => &delete.table,
        Stmt::CreateTable(create) => &create.name,
        Stmt::CreateIndex(create) => &create.name,
        Stmt::CreateView(create) => &create.name,
        Stmt::CreateTrigger(create) => &create.table,
        Stmt::AlterTable(alter) => &alter.table,
        Stmt::CreateVirtualTable(create) => &create.name,
        Stmt::Drop { name, .. } => name,
        _ => return None,
    })
}

/// Refuses to drop a kept table or a trigger of its keeper, to alter the table, and to give the
/// table a unique index.
///
/// # Errors
/// [`Error::Meaning`] with the keeper's reason, at the name.
pub(crate) fn refuse_closed(schema: &Schema, stmt: &Stmt, closes: Closes<'_>) -> Result<(), Error> {
    let (database, name, trigger) = match stmt {
        Stmt::Drop { kind: DropKind::Table, name, .. } => (&name.database, &name.name, None),
        Stmt::Drop { kind: DropKind::Trigger, name, .. } => {
            (&name.database, &name.name, Some(name.name.text.as_str()))
        }
        Stmt::AlterTable(alter) => (&alter.table.database, &alter.table.name, None),
        Stmt::CreateIndex(create) if create.unique => (&create.name.database, &create.table, None),
        _ => return Ok(()),
    };
    let database = match database {
        Some(database) => schema.database(&database.text),
        None => None,
    };
    if database.is_some_and(|database| database != MAIN) {
        return Ok(());
    }
    let temporary = schema.of_database(TEMP).filter(|_| database.is_none());
    if let (Some(trigger), Some(temporary)) = (trigger, temporary)
        && temporary.kept_trigger(trigger).is_some()
    {
        return Ok(());
    }
    let object = match trigger {
        Some(trigger) => schema.trigger(trigger).map(|(object, _)| object),
        None => schema
            .find(database, &name.text)
            .filter(|(number, _)| *number == MAIN)
            .map(|(_, object)| object),
    };
    let Some(Object::Table(table)) = object else { return Ok(()) };
    let [first, second, ..] = table.columns.as_slice() else { return Ok(()) };
    let columns = [first.name.as_str(), second.name.as_str()];
    let mut triggers = table.triggers.list.iter().map(|it| it.name.as_str());
    let reason = match trigger {
        Some(trigger) => triggers
            .find(|it| it.eq_ignore_ascii_case(trigger))
            .and_then(|it| closes(&table.name, columns, it)),
        None => triggers.find_map(|it| closes(&table.name, columns, it)),
    };
    match reason.filter(|_| table.without_rowid) {
        Some(reason) => Err(Error::meaning(reason, name.offset)),
        None => Ok(()),
    }
}

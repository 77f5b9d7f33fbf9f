//! Tables kept by someone above SQL: statements read them and do not change them.

use crate::Error;
use crate::parse::ast::{DropKind, Name, ObjectName, Stmt};
use crate::schema::Schema;

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

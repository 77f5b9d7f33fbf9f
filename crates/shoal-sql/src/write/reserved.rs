//! Tables that SQL may read and not change, because someone above keeps them.

use crate::Error;
use crate::parse::ast::{DropKind, Name, Stmt};
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
    Some(match stmt {
        Stmt::Insert(insert) => &insert.table.name,
        Stmt::Update(update) => &update.table.name,
        Stmt::Delete(delete) => &delete.table.name,
        Stmt::CreateTable(create) => &create.name.name,
        Stmt::CreateIndex(create) => &create.table,
        Stmt::CreateView(create) => &create.name.name,
        Stmt::CreateVirtualTable { name, .. } | Stmt::Drop { name, .. } => &name.name,
        _ => return None,
    })
}

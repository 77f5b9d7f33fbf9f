//! The table that a statement writes to.

use std::sync::Arc;

use super::sequence;
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::ObjectName;
use crate::schema::{Object, Schema, Table};

/// Finds the table that a statement may write to.
///
/// # Errors
/// No such table; a view, a system table, a virtual table or one of its parts, a damaged one; a
/// table with triggers, which would have to fire.
pub(crate) fn writable_table(schema: &Schema, name: &ObjectName) -> Result<Arc<Table>, Error> {
    check_database(name)?;
    let offset = name.name.offset;
    let text = name.name.text.as_str();
    let refused = |message: String| Err(Error::meaning(message, offset));
    match schema.object(text) {
        None => {
            let full = match &name.database {
                Some(database) => format!("{}.{text}", database.text),
                None => text.to_owned(),
            };
            Err(Error::no_such(NameKind::Table, &full, offset))
        }
        Some(Object::View(view)) => {
            refused(format!("cannot modify {} because it is a view", view.name()))
        }
        Some(Object::Virtual { name, .. }) => {
            Err(Error::unsupported(format!("writing to virtual table {name}"), offset))
        }
        Some(Object::Damaged { name, why }) => {
            Err(Error::Schema { object: name.clone(), why: why.clone() })
        }
        Some(Object::Table(table)) => {
            // The counters of AUTOINCREMENT are for whoever wants to set them.
            let is_sequence = table.name.eq_ignore_ascii_case(sequence::NAME);
            if !is_sequence && table.name.to_ascii_lowercase().starts_with("sqlite_") {
                return refused(format!("table {} may not be modified", table.name));
            }
            if let Some(owner) = shadow_owner(schema, &table.name) {
                let what = format!("writing to {}, part of virtual table {owner}", table.name);
                return Err(Error::unsupported(what, offset));
            }
            if table.has_triggers {
                let what = format!("writing to table {}, which has triggers", table.name);
                return Err(Error::unsupported(what, offset));
            }
            Ok(Arc::clone(table))
        }
    }
}

/// Refuses every database but `main`.
///
/// # Errors
/// [`Error::Name`].
pub(crate) fn check_database(name: &ObjectName) -> Result<(), Error> {
    match &name.database {
        Some(database) if !database.is("main") => Err(Error::Name {
            kind: NameKind::Database,
            message: format!("unknown database {}", database.text),
            offset: Some(database.offset),
        }),
        _ => Ok(()),
    }
}

/// The virtual table that keeps its data in a table of that name.
fn shadow_owner<'s>(schema: &'s Schema, table: &str) -> Option<&'s str> {
    let (owner, _) = table.rsplit_once('_')?;
    schema.objects().iter().find_map(|object| match object {
        Object::Virtual { name, .. } if name.eq_ignore_ascii_case(owner) => Some(name.as_str()),
        _ => None,
    })
}

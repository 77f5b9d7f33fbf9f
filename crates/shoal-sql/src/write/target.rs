//! The table or view that a statement writes to.

use std::sync::Arc;

use shoal_store::Pgno;

use super::narrowed;
use super::sequence;
use super::triggers::Within;
use crate::Error;
use crate::authorize::Access;
use crate::error::NameKind;
use crate::parse::ast::{ObjectName, TriggerEvent, TriggerTime};
use crate::resolve::{Around, Resolver};
use crate::schema::{
    Connected, NarrowedTable, Object, Schema, TEMP, Table, Trigger, Triggers, View, view_table,
};

/// What a statement writes to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The table; of a view one that has its columns and no b-tree.
    pub(crate) table: Arc<Table>,
    /// The view, whose triggers do what is to be done.
    pub(crate) view: Option<Arc<View>>,
    /// The virtual table, changed by its writer.
    pub(crate) virtual_table: Option<Arc<Connected>>,
    /// The principal's view of the table, and its grants.
    pub(crate) narrowed: Option<Arc<NarrowedTable>>,
}

impl Target {
    /// The triggers of the target's own database; [`Within::triggers`] has `temp`'s, too.
    pub(crate) fn triggers(&self) -> &Triggers {
        self.view.as_ref().map_or(&self.table.triggers, |view| &view.triggers)
    }
}

/// Finds what a statement may write rows to: a table, or a view with an `INSTEAD OF` trigger for
/// the event.
///
/// # Errors
/// No such table; a view without such a trigger, a system table, a virtual table or one of its
/// parts, a damaged one.
pub(crate) fn writable(
    within: &Within<'_>,
    name: &ObjectName,
    event: TriggerEvent,
    around: Around<'_>,
) -> Result<Target, Error> {
    let (schema, schema_of_all) = (within.own, within.schema);
    let Some(Object::View(view)) = lookup(schema, name) else {
        if around.in_trigger && name.database.is_none() && lookup(schema, name).is_none() {
            // A trigger's names are looked up in its own database; `temp`'s in all databases.
            let full = match around.home {
                Some(home) => format!("{}.{}", within.schema.database_name(home), name.name.text),
                None => name.name.text.clone(),
            };
            return Err(Error::no_such(NameKind::Table, &full, name.name.offset));
        }
        if let Some(found) = super::virtual_table::find(within, &name.name.text)? {
            authorize(within, event, found.table.name())?;
            let (table, virtual_table) = (Arc::clone(&found.table), Some(Arc::clone(found)));
            return Ok(Target { table, view: None, virtual_table, narrowed: None });
        }
        if let Some(Object::Narrowed(narrowed)) = lookup(schema, name) {
            narrowed::refuse(schema, narrowed, event)?;
            let (table, narrowed) = (Arc::clone(&narrowed.table), Some(Arc::clone(narrowed)));
            return Ok(Target { table, view: None, virtual_table: None, narrowed });
        }
        let table = writable_table(schema, name)?;
        authorize(within, event, table.name())?;
        return Ok(Target { table, view: None, virtual_table: None, narrowed: None });
    };
    authorize(within, event, view.name())?;
    usable(&view.triggers)?;
    let is_instead = |trigger: &Arc<Trigger>| {
        trigger.definition.time == TriggerTime::InsteadOf && trigger.definition.event == event
    };
    let mut temporary = schema_of_all.temporary_triggers(within.home, view.name());
    if !view.triggers.list.iter().any(is_instead) && !temporary.any(is_instead) {
        return Err(is_view(view.name(), name.name.offset));
    }
    let table = table_of_view(within, view, name.name.offset)?;
    let (table, view) = (Arc::new(table), Some(Arc::clone(view)));
    Ok(Target { table, view, virtual_table: None, narrowed: None })
}

/// The columns of a view, as a table without a b-tree.
///
/// # Errors
/// What the view's query is refused for.
pub(crate) fn table_of_view(
    within: &Within<'_>,
    view: &View,
    offset: usize,
) -> Result<Table, Error> {
    let home = Some(within.home).filter(|home| *home != TEMP);
    let around = Around { home, ..Around::statement(0) };
    let query = Resolver::within(within.schema, around)
        .query(&view.select)
        .map_err(|error| error.at(offset))?;
    let columns = query.columns.iter().enumerate().map(|(place, column)| {
        let given = view.columns.as_ref().and_then(|names| names.get(place));
        let name = given.map_or(column.inner_name.as_str(), |name| name.text.as_str());
        (name.to_owned(), column.affinity, column.declared_type.clone())
    });
    Ok(view_table(view.name(), Pgno::FIRST, columns))
}

/// The error of a view that no trigger lets write.
pub(crate) fn is_view(name: &str, offset: usize) -> Error {
    Error::meaning(format!("cannot modify {name} because it is a view"), offset)
}

fn lookup<'s>(schema: &'s Schema, name: &ObjectName) -> Option<&'s Object> {
    schema.object(name.name.text.as_str())
}

/// Refuses triggers that cannot be run.
///
/// # Errors
/// [`Error::Schema`].
fn usable(triggers: &Triggers) -> Result<(), Error> {
    match &triggers.damaged {
        Some((name, why)) => Err(Error::Schema { object: name.clone(), why: why.clone() }),
        None => Ok(()),
    }
}

/// Finds the table that a statement may write to.
///
/// # Errors
/// No such table; a view, a system table, a virtual table or one of its parts, a damaged one.
pub(crate) fn writable_table(schema: &Schema, name: &ObjectName) -> Result<Arc<Table>, Error> {
    let offset = name.name.offset;
    let text = name.name.text.as_str();
    let refused = |message: String| Err(Error::meaning(message, offset));
    match lookup(schema, name) {
        None => {
            let full = match &name.database {
                Some(database) => format!("{}.{text}", database.text),
                None => text.to_owned(),
            };
            Err(Error::no_such(NameKind::Table, &full, offset))
        }
        Some(Object::View(view)) => Err(is_view(view.name(), offset)),
        Some(Object::Virtual(known)) => {
            let name = known.name();
            Err(Error::unsupported(format!("writing to virtual table {name}"), offset))
        }
        Some(Object::Narrowed(table)) => {
            refused(format!("table {} may only be read", table.name()))
        }
        Some(Object::Damaged { name, why }) => {
            Err(Error::Schema { object: name.clone(), why: why.clone() })
        }
        Some(Object::Table(table)) => {
            // The counters of AUTOINCREMENT and the statistics are for whoever wants to set them.
            let name = table.name.to_ascii_lowercase();
            let is_open = name == sequence::NAME || name.starts_with("sqlite_stat");
            if !is_open && name.starts_with("sqlite_") {
                return refused(format!("table {} may not be modified", table.name));
            }
            if !schema.is_for_nested_writes()
                && !schema.flags().writable_schema
                && let Some(owner) = schema.shadow_owner(&table.name)
            {
                let what = format!("writing to {}, part of virtual table {owner}", table.name);
                return Err(Error::unsupported(what, offset));
            }
            usable(&table.triggers)?;
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

/// Asks the program whether rows may be inserted or deleted. Columns that are assigned to are asked
/// about one by one, by [`authorize_update`].
fn authorize(within: &Within<'_>, event: TriggerEvent, table: &str) -> Result<(), Error> {
    let database = within.schema.database_name(within.home);
    let access = match event {
        TriggerEvent::Insert => Access::Insert { database, table },
        TriggerEvent::Delete => Access::Delete { database, table },
        TriggerEvent::Update => return Ok(()),
    };
    within.schema.own().authorizer.ask(&access).map(drop)
}

/// Asks the program whether columns may be assigned to.
///
/// # Errors
/// [`Error::Denied`].
pub(crate) fn authorize_update(
    within: &Within<'_>,
    table: &Table,
    columns: &[String],
) -> Result<(), Error> {
    let (database, table) = (within.schema.database_name(within.home), table.name());
    for column in columns {
        let access = Access::Update { database, table, column };
        within.schema.own().authorizer.ask(&access)?;
    }
    Ok(())
}

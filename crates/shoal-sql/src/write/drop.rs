//! `DROP TABLE`, `DROP INDEX` and `DROP VIEW`.

use std::sync::Arc;

use shoal_store::{Pgno, Transaction, ValueRef};

use super::delete::{DeletePlan, prepare_drop};
use super::schema_rows::{self, delete_where, is_name};
use super::triggers::Within;
use super::{Context, Done, Failure, Kind, sequence, virtual_table};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{DropKind, ObjectName};
use crate::schema::{IndexOrigin, Object, TEMP, Trigger};

/// A prepared `DROP`.
#[derive(Debug)]
pub(crate) struct DropPlan {
    kind: DropKind,
    name: String,
    roots: Vec<Pgno>,
    /// The triggers of `temp` on a table or view of another database.
    temporary: Vec<String>,
    /// The triggers of `temp` to stay when `temp`'s own table is dropped: their tables are in other
    /// databases, perhaps of the same name.
    far: Vec<String>,
    /// The implicit `DELETE` of the table's rows, where foreign keys ask for one.
    delete: Option<Box<DeletePlan>>,
}

/// Prepares a `DROP TABLE` or `DROP INDEX`.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &mut Within<'_>,
    kind: DropKind,
    name: &ObjectName,
    if_exists: bool,
) -> Result<Kind, Error> {
    let schema = within.own;
    let (text, offset) = (name.name.text.as_str(), name.name.offset);
    let full = match &name.database {
        Some(database) => format!("{}.{text}", database.text),
        None => text.to_owned(),
    };
    let missing = |name_kind| {
        if if_exists { Ok(Kind::Nothing) } else { Err(Error::no_such(name_kind, &full, offset)) }
    };
    if kind == DropKind::Index {
        let Some((_, index)) = schema.index(text) else { return missing(NameKind::Index) };
        if index.origin != IndexOrigin::Create {
            let message =
                "index associated with UNIQUE or PRIMARY KEY constraint cannot be dropped";
            return Err(Error::meaning(message, offset));
        }
        let roots = vec![index.root];
        let name = index.name.clone();
        let (temporary, far) = (Vec::new(), Vec::new());
        return Ok(Kind::Drop(DropPlan { kind, name, roots, temporary, far, delete: None }));
    }
    let (temporary, far) = far_triggers(within, text);
    if kind == DropKind::View {
        return match schema.object(text) {
            None if if_exists => Ok(Kind::Nothing),
            None => {
                let message = format!("no such view: {full}");
                Err(Error::Name { kind: NameKind::Table, message, offset: Some(offset) })
            }
            Some(Object::View(view)) => {
                let name = view.name().to_owned();
                let roots = Vec::new();
                Ok(Kind::Drop(DropPlan { kind, name, roots, temporary, far, delete: None }))
            }
            Some(other) => {
                let message = format!("use DROP TABLE to delete table {}", other.name());
                Err(Error::meaning(message, offset))
            }
        };
    }
    match schema.object(text) {
        None => missing(NameKind::Table),
        Some(Object::View(view)) => {
            Err(Error::meaning(format!("use DROP VIEW to delete view {}", view.name()), offset))
        }
        Some(Object::Virtual(known)) => {
            let found = virtual_table::prepare_change((within.schema, within.home), known, None);
            found.map_err(|error| error.at(offset))
        }
        Some(Object::Narrowed(table)) => {
            Err(Error::meaning(format!("table {} may only be read", table.name()), offset))
        }
        Some(Object::Damaged { name, why }) => {
            Err(Error::Schema { object: name.clone(), why: why.clone() })
        }
        Some(Object::Table(table)) => {
            if table.name.to_ascii_lowercase().starts_with("sqlite_") {
                return Err(Error::meaning(format!("table {text} may not be dropped"), offset));
            }
            if let Some(why) = &table.missing_index {
                return Err(Error::Schema { object: table.name.clone(), why: why.clone() });
            }
            let mut roots = vec![table.root];
            roots.extend(table.indexes.iter().map(|index| index.root));
            let delete = prepare_drop(within, table, name)?.map(Box::new);
            let name = table.name.clone();
            Ok(Kind::Drop(DropPlan { kind, name, roots, temporary, far, delete }))
        }
    }
}

/// The triggers of `temp` to go with a table or view dropped from another database, and the ones
/// to stay with a table or view dropped from `temp`.
fn far_triggers(within: &mut Within<'_>, name: &str) -> (Vec<String>, Vec<String>) {
    let names = |trigger: &Arc<Trigger>| trigger.name.clone();
    if within.home == TEMP {
        return (Vec::new(), within.own.far_triggers().iter().map(names).collect());
    }
    let temporary = within.schema.temporary_triggers(within.home, name);
    let temporary: Vec<String> = temporary.map(names).collect();
    if !temporary.is_empty() {
        within.writes_to(TEMP);
    }
    (temporary, Vec::new())
}

impl DropPlan {
    /// Whether rows may be deleted one by one.
    pub(crate) fn deletes_rows(&self, defers_all: bool) -> bool {
        let concern = |delete: &DeletePlan| defers_all || delete.references().concern_drop();
        self.delete.as_ref().is_some_and(|delete| concern(delete))
    }

    /// Gives the pages back and removes what the schema says of them.
    ///
    /// # Errors
    /// A foreign key violated without the table's rows; [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Failure> {
        let mut done = Done::default();
        if let Some(delete) = &self.delete
            && !delete.references().ignore_drop(&context.state.violations)
        {
            done = delete.execute(context)?;
            context.state.violations.check_statement()?;
        }
        self.drop(context)?;
        Ok(done)
    }

    fn drop(&self, context: &mut Context<'_>) -> Result<(), Error> {
        let own = context.own_schema();
        let transaction = &mut *context.transaction;
        // The last root of an auto-vacuum file moves to where another one was: from the last to the
        // first none of the table's own moves.
        let mut roots = self.roots.clone();
        roots.sort_unstable_by(|a, b| b.cmp(a));
        let mut moved = Vec::new();
        for root in roots {
            if let Some(from) = transaction.drop_btree(root)? {
                schema_rows::root_moved(transaction, from, root)?;
                moved.push((from, root));
            }
        }
        let place_of = |root: Pgno| {
            let step = |at: Pgno, (from, to): &(Pgno, Pgno)| if at == *from { *to } else { at };
            moved.iter().fold(root, step)
        };
        let is_table = self.kind == DropKind::Table;
        let is_far = |row: &[ValueRef<'_>]| {
            is_name(row.first(), "trigger") && self.far.iter().any(|name| is_name(row.get(1), name))
        };
        delete_where(transaction, Pgno::FIRST, |row| {
            if is_far(row) {
                false
            } else if self.kind == DropKind::View {
                is_name(row.first(), "view") && is_name(row.get(1), &self.name)
                    || is_name(row.first(), "trigger") && is_name(row.get(2), &self.name)
            } else if is_table {
                is_name(row.get(2), &self.name)
            } else {
                is_name(row.first(), "index") && is_name(row.get(1), &self.name)
            }
        })?;
        if let Some(sequence) = own.table(sequence::NAME).filter(|_| is_table) {
            delete_where(transaction, place_of(sequence.root), |row| {
                is_name(row.first(), &self.name)
            })?;
        }
        // What ANALYZE found out is no longer true of anything.
        for statistics in ["sqlite_stat1", "sqlite_stat3", "sqlite_stat4"] {
            let column = usize::from(!is_table);
            if let Some(table) = own.table(statistics)
                && !table.without_rowid
            {
                delete_where(transaction, place_of(table.root), |row| {
                    is_name(row.get(column), &self.name)
                })?;
            }
        }
        transaction.bump_schema_cookie()?;
        if !self.temporary.is_empty() {
            context.in_database(TEMP, |temp| drop_triggers(temp.transaction, &self.temporary))?;
        }
        Ok(())
    }
}

/// Removes triggers from the schema of their database.
///
/// # Errors
/// [`Error::Store`].
fn drop_triggers(transaction: &mut Transaction, names: &[String]) -> Result<(), Error> {
    delete_where(transaction, Pgno::FIRST, |row| {
        is_name(row.first(), "trigger") && names.iter().any(|name| is_name(row.get(1), name))
    })?;
    Ok(transaction.bump_schema_cookie()?)
}

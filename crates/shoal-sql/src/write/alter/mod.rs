//! `ALTER TABLE`.
//!
//! Every form edits the texts in `sqlite_schema`, token by token, and reads the new schema back: a
//! definition without a meaning undoes the statement. The rows of the table are
//! written again by `DROP COLUMN` alone.

mod columns;
mod definitions;
mod rename;
mod text;

use std::sync::Arc;

use super::schema_rows::StoredRow;
use super::target::{check_database, writable_table};
use super::triggers::Within;
use super::{Context, Done, Kind};
use crate::Error;
use crate::error::NameKind;
use crate::exec::{Place, RowExpr};
use crate::parse::ast::{AlterTable, ColumnDef, Name, Quote, TableChange};
use crate::schema::{MAIN, Object, Schema, TEMP, Table};

/// A prepared `ALTER TABLE`.
#[derive(Debug)]
pub(crate) struct AlterPlan {
    table: Arc<Table>,
    change: Change,
}

#[derive(Debug)]
enum Change {
    RenameTo(String),
    RenameColumn {
        column: usize,
        new: Name,
    },
    AddColumn {
        definition: ColumnDef,
        text: String,
    },
    DropColumn {
        column: usize,
        /// The column as the statement spells the name.
        name: String,
    },
    DropConstraint(String),
    DropNotNull(usize),
    SetNotNull {
        column: usize,
        text: String,
    },
    AddCheck {
        name: Option<String>,
        check: RowExpr,
        text: String,
    },
}

/// Prepares an `ALTER TABLE`; `sql` is the statement's text.
///
/// # Errors
/// As [`super::prepare`].
pub(crate) fn prepare(
    within: &mut Within<'_>,
    alter: &AlterTable,
    sql: &str,
) -> Result<Kind, Error> {
    let schema = within.schema;
    let name = &alter.table.name;
    let place = alter.table.database.as_ref().unwrap_or(name);
    let home = match &alter.table.database {
        Some(database) => schema.database(&database.text),
        None => schema.find(None, &name.text).map(|(database, _)| database),
    };
    if home.is_some_and(|home| home != MAIN) {
        let what = "ALTER TABLE of another database than main";
        return Err(Error::unsupported(what, place.offset));
    }
    check_database(&alter.table)?;
    let Some(object) = schema.object(&name.text) else {
        return Err(Error::no_such(NameKind::Table, &alter.table.in_full(), name.offset));
    };
    check_alterable(schema, object, &alter.change, name)?;
    let rewrites = matches!(
        alter.change,
        TableChange::RenameTo(_) | TableChange::RenameColumn { .. } | TableChange::DropColumn(_)
    );
    let has_definitions = |temporary: &Schema| {
        let is_about_more =
            |it: &Object| matches!(it, Object::View(_)) || !it.triggers().list.is_empty();
        !temporary.far_triggers().is_empty() || temporary.objects().iter().any(is_about_more)
    };
    if rewrites && schema.of_database(TEMP).is_some_and(has_definitions) {
        within.writes_to(TEMP);
    }
    if let (Object::Virtual(known), TableChange::RenameTo(new)) = (object, &alter.change) {
        return super::virtual_table::prepare_change((schema, MAIN), known, Some(&new.text));
    }
    let table = writable_table(schema, &alter.table)?;
    let column = |name: &Name| {
        table.column_index(&name.text).ok_or_else(|| {
            let shown = text::token_at(sql, name.offset);
            Error::no_such(NameKind::Column, &format!("\"{shown}\""), name.offset)
        })
    };
    let constrained = |name: &Name| {
        let found = table.column_index(&name.text);
        found.ok_or_else(|| Error::no_such(NameKind::Column, &name.text, name.offset))
    };
    let change = match &alter.change {
        TableChange::RenameTo(new) => Change::RenameTo(new.text.clone()),
        TableChange::RenameColumn { old, new } => {
            let place = column(old)?;
            check_rowid(&table, old, "rename from")?;
            check_rowid(&table, new, "rename to")?;
            Change::RenameColumn { column: place, new: new.clone() }
        }
        TableChange::AddColumn(definition) => Change::AddColumn {
            definition: definition.clone(),
            text: text::to_the_end(sql, definition.name.offset).to_owned(),
        },
        TableChange::DropColumn(name) => {
            let place = column(name)?;
            check_rowid(&table, name, "drop")?;
            if table.columns[place].primary_key_place > 0 {
                let message = format!("cannot drop PRIMARY KEY column: \"{}\"", name.text);
                return Err(Error::meaning(message, name.offset));
            }
            Change::DropColumn { column: place, name: name.text.clone() }
        }
        TableChange::DropConstraint(name) => Change::DropConstraint(name.text.clone()),
        TableChange::DropNotNull(name) => Change::DropNotNull(constrained(name)?),
        TableChange::SetNotNull { column, start } => Change::SetNotNull {
            column: constrained(column)?,
            text: text::constraint(sql, *start).to_owned(),
        },
        TableChange::AddCheck { name, expr, start } => Change::AddCheck {
            name: name.as_ref().map(|name| name.text.clone()),
            check: RowExpr::compile(schema, &table, expr, Place::Check)?,
            text: text::constraint(sql, *start).to_owned(),
        },
    };
    Ok(Kind::Alter(Box::new(AlterPlan { table, change })))
}

/// Refuses views, virtual tables and tables of SQLite's own, in SQLite's order and words.
fn check_alterable(
    schema: &Schema,
    object: &Object,
    change: &TableChange,
    name: &Name,
) -> Result<(), Error> {
    let meaning = |message: String| Err(Error::meaning(message, name.offset));
    if let TableChange::RenameTo(new) = change
        && (schema.object(&new.text).is_some() || schema.index(&new.text).is_some())
    {
        let what = "there is already another table or index with this name";
        return meaning(format!("{what}: {}", new.text));
    }
    let own = match object.name() {
        "sqlite_schema" => "sqlite_master",
        name => name,
    };
    let is_reserved = || own.to_ascii_lowercase().starts_with("sqlite_");
    let not_alterable = || meaning(format!("table {own} may not be altered"));
    let kind = match object {
        Object::View(_) => Some("view"),
        Object::Virtual(_) => Some("virtual table"),
        Object::Table(_) | Object::Narrowed(_) | Object::Damaged { .. } => None,
    };
    match change {
        TableChange::AddColumn(_) if kind == Some("view") => {
            return meaning("Cannot add a column to a view".to_owned());
        }
        TableChange::AddColumn(_) if kind.is_some() => {
            return meaning("virtual tables may not be altered".to_owned());
        }
        _ if is_reserved() => return not_alterable(),
        TableChange::RenameTo(new) => {
            super::create_table::check_reserved(new)?;
            if kind == Some("view") {
                return meaning(format!("view {own} may not be altered"));
            }
        }
        _ => {
            let what = match change {
                TableChange::RenameColumn { .. } => "rename columns of",
                TableChange::DropColumn(_) => "drop column from",
                _ => "edit constraints of",
            };
            if let Some(kind) = kind {
                return meaning(format!("cannot {what} {kind} \"{own}\""));
            }
        }
    }
    Ok(())
}

/// Refuses the names of a rowid where the table has one.
fn check_rowid(table: &Table, name: &Name, what: &str) -> Result<(), Error> {
    let is_rowid = ["rowid", "_rowid_", "oid"].iter().any(|rowid| name.is(rowid));
    if is_rowid && !table.without_rowid {
        let message = format!("cannot {what} rowid alias: {}", name.text);
        return Err(Error::meaning(message, name.offset));
    }
    Ok(())
}

impl AlterPlan {
    /// Changes the schema and, for `DROP COLUMN`, the rows.
    ///
    /// # Errors
    /// A definition without a meaning after the change; rows forbidden by a new constraint; the
    /// store's.
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let table = &self.table;
        match &self.change {
            Change::RenameTo(new) => rename::table(context, table, new)?,
            Change::RenameColumn { column, new } => {
                let always_quoted = new.quote != Quote::None;
                rename::column(context, table, *column, &new.text, always_quoted)?;
            }
            Change::AddColumn { definition, text } => {
                columns::add(context, table, definition, text)?;
            }
            Change::DropColumn { column, name } => columns::drop(context, table, *column, name)?,
            Change::DropConstraint(name) => edit(context, table, |sql| {
                text::drop_constraint(sql, text::Constraint::Named(name))
            })?,
            Change::DropNotNull(column) => edit(context, table, |sql| {
                text::drop_constraint(sql, text::Constraint::NotNull(*column))
            })?,
            Change::SetNotNull { column, text } => {
                columns::check_rows(context, table, |row| !row.values[*column].is_null())?;
                edit(context, table, |sql| {
                    let bare = text::drop_constraint(sql, text::Constraint::NotNull(*column))?;
                    text::add_constraint(&bare, text, Some(*column))
                })?;
            }
            Change::AddCheck { name, check, text } => {
                if let Some(name) = name
                    && let Some(row) = find_table(&StoredRow::all(context.transaction)?, table)
                    && text::has_constraint(row.sql.as_deref().unwrap_or_default(), name)
                {
                    let message = format!("constraint {name} already exists");
                    return Err(Error::runtime(message));
                }
                columns::check_rows_by(context, table, check)?;
                edit(context, table, |sql| text::add_constraint(sql, text, None))?;
            }
        }
        Ok(Done::default())
    }
}

/// Renames a virtual table in the schema, after its shadow tables.
///
/// # Errors
/// As [`rename::table`].
pub(crate) fn rename_virtual(
    context: &mut Context<'_>,
    table: &Table,
    new: &str,
) -> Result<(), Error> {
    rename::table(context, table, new)
}

/// The row of a table in the schema.
fn find_table<'r>(rows: &'r [StoredRow], table: &Table) -> Option<&'r StoredRow> {
    rows.iter().find(|row| row.kind == "table" && row.name.eq_ignore_ascii_case(&table.name))
}

/// Rewrites the definition of a table by its text alone.
fn edit(
    context: &mut Context<'_>,
    table: &Table,
    change: impl FnOnce(&str) -> Result<String, String>,
) -> Result<(), Error> {
    let mut rows = StoredRow::all(context.transaction)?;
    let own = rows
        .iter_mut()
        .find(|row| row.kind == "table" && row.name.eq_ignore_ascii_case(&table.name));
    if let Some(row) = own
        && let Some(sql) = &row.sql
    {
        row.sql = Some(change(sql).map_err(Error::runtime)?);
        row.store(context.transaction)?;
    }
    definitions::reread(context, "drop constraint").map(drop)
}

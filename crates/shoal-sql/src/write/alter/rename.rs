//! `RENAME TO` and `RENAME COLUMN`: every text with the name of the table or column is rewritten.

use shoal_store::{Record, ValueRef, encode_record};

use super::super::Context;
use super::super::schema_rows::StoredRow;
use super::super::sequence;
use super::definitions::{
    Definitions, check_all, check_temporary, in_definition, in_temporary, names_of, reread,
};
use super::text::{dequoted, token_at};
use crate::Error;
use crate::resolve::names::{Meaning, NameUse};
use crate::schema::{MAIN, TEMP, Table};

/// Renames a table.
///
/// # Errors
/// A definition without a meaning, before or after; the store's.
pub(super) fn table(context: &mut Context<'_>, table: &Table, new: &str) -> Result<(), Error> {
    let is_it = |name: &str| name.eq_ignore_ascii_case(&table.name);
    let definitions = Definitions { schema: context.schema, database: MAIN };
    let mut rows = StoredRow::all(context.transaction)?;
    for row in &mut rows {
        let before = row.clone();
        if let Some(arguments) = row.sql.as_deref().and_then(behind_virtual_name) {
            if is_it(&row.name) {
                row.sql = Some(format!("CREATE VIRTUAL TABLE {}{arguments}", quoted(new)));
            }
        } else if let Some(sql) = row.sql.clone().filter(|_| !row.is_reserved())
            && (row.kind != "index" || is_it(&row.table))
        {
            row.sql = Some(with_table_renamed(definitions, row, &sql, table, new)?);
        }
        if is_it(&row.table) && matches!(row.kind.as_str(), "table" | "index" | "trigger") {
            new.clone_into(&mut row.table);
            const AUTOINDEX: &str = "sqlite_autoindex_";
            let is_automatic = row.name.get(..AUTOINDEX.len());
            if row.kind == "table" {
                new.clone_into(&mut row.name);
            } else if row.kind == "index"
                && is_automatic.is_some_and(|start| start.eq_ignore_ascii_case(AUTOINDEX))
            {
                let rest = row.name.chars().skip(AUTOINDEX.len() + table.name.chars().count());
                row.name = format!("{AUTOINDEX}{new}{}", rest.collect::<String>());
            }
        }
        if *row != before {
            row.store(context.transaction)?;
        }
    }
    rename_sequence(context, &table.name, new)?;
    in_temporary(context, |context| table_in_temporary(context, table, new))?;
    let schema = reread(context, "rename")?;
    check_all(&schema, &StoredRow::all(context.transaction)?, "after rename", false)?;
    check_temporary(context, Some(schema), "after rename", false)
}

/// Renames a table of `main` in the views and triggers of `temp`.
fn table_in_temporary(context: &mut Context<'_>, table: &Table, new: &str) -> Result<(), Error> {
    let definitions = Definitions { schema: context.schema, database: TEMP };
    let mut changed = false;
    for mut row in StoredRow::all(context.transaction)? {
        let before = row.clone();
        let Some(sql) = row.sql.clone().filter(|_| row.is_view_or_trigger()) else { continue };
        row.sql = Some(with_table_renamed(definitions, &row, &sql, table, new)?);
        let mut on_table = context.schema.temporary_triggers(MAIN, &table.name);
        if row.kind == "trigger" && on_table.any(|it| it.name.eq_ignore_ascii_case(&row.name)) {
            new.clone_into(&mut row.table);
        }
        if row != before {
            row.store(context.transaction)?;
            changed = true;
        }
    }
    if changed {
        context.transaction.bump_schema_cookie()?;
    }
    Ok(())
}

/// The text of a definition with another name for a table of `main`.
fn with_table_renamed(
    definitions: Definitions<'_>,
    row: &StoredRow,
    sql: &str,
    table: &Table,
    new: &str,
) -> Result<String, Error> {
    let names = names_of(definitions, sql, false).map_err(|error| in_definition(row, "", error))?;
    let is_it = |name: &str| name.eq_ignore_ascii_case(&table.name);
    let wanted = |name: &NameUse| matches!(&name.meaning, Meaning::Table(it) if is_it(it));
    let quoted = quoted(new);
    rewritten(sql, names.into_iter().filter(wanted), |_| quoted.clone())
}

/// The text behind the name of a stored `CREATE VIRTUAL TABLE`; `None` for other definitions.
fn behind_virtual_name(sql: &str) -> Option<&str> {
    const START: &str = "CREATE VIRTUAL TABLE ";
    let start = sql.get(..START.len())?;
    let rest = sql.get(START.len()..).filter(|_| start.eq_ignore_ascii_case(START))?;
    rest.get(token_at(rest, 0).len()..)
}

/// Keeps the counter of `AUTOINCREMENT`, found by the table's name.
fn rename_sequence(context: &mut Context<'_>, old: &str, new: &str) -> Result<(), Error> {
    let Some(sequence) = context.schema.table(sequence::NAME) else { return Ok(()) };
    let root = sequence.root;
    let transaction = &mut *context.transaction;
    let mut changed = Vec::new();
    let mut cursor = transaction.table(root)?;
    let mut more = cursor.first()?;
    let format = transaction.header().schema_format;
    while more {
        let rowid = cursor.rowid()?;
        let record = Record::new(cursor.payload()?).map_err(Error::corrupt)?;
        let values: Result<Vec<ValueRef<'_>>, _> = record.values().collect();
        let mut values = values.map_err(Error::corrupt)?;
        if values.first() == Some(&ValueRef::Text(old.as_bytes())) {
            values[0] = ValueRef::Text(new.as_bytes());
            let mut bytes = Vec::new();
            encode_record(&values, format, &mut bytes);
            changed.push((rowid, bytes));
        }
        more = cursor.next()?;
    }
    for (rowid, record) in changed {
        transaction.table_insert(root, rowid, &record)?;
    }
    Ok(())
}

/// Renames a column; `always_quoted` where the statement has quotes around the new name.
///
/// # Errors
/// As [`table`].
pub(super) fn column(
    context: &mut Context<'_>,
    table: &Table,
    place: usize,
    new: &str,
    always_quoted: bool,
) -> Result<(), Error> {
    let mut rows = StoredRow::all(context.transaction)?;
    check_all(context.schema, &rows, "", false)?;
    check_temporary(context, None, "", false)?;
    quote_texts(context, &mut rows)?;
    column_in(context, &mut rows, table, place, (new, always_quoted))?;
    in_temporary(context, |context| {
        let mut rows = StoredRow::all(context.transaction)?;
        rows.retain(StoredRow::is_view_or_trigger);
        quote_texts(context, &mut rows)?;
        column_in(context, &mut rows, table, place, (new, always_quoted))?;
        Ok(context.transaction.bump_schema_cookie()?)
    })?;
    let schema = reread(context, "rename")?;
    check_all(&schema, &StoredRow::all(context.transaction)?, "after rename", true)?;
    check_temporary(context, Some(schema), "after rename", true)
}

/// Renames a column in the definitions of one database.
fn column_in(
    context: &mut Context<'_>,
    rows: &mut [StoredRow],
    table: &Table,
    place: usize,
    (new, always_quoted): (&str, bool),
) -> Result<(), Error> {
    let definitions = Definitions { schema: context.schema, database: context.home };
    for row in rows {
        let Some(sql) = row.sql.clone().filter(|_| row.is_ordinary()) else { continue };
        if row.kind == "index" && row.table != table.name {
            continue;
        }
        let names =
            names_of(definitions, &sql, false).map_err(|error| in_definition(row, "", error))?;
        let wanted = |name: &NameUse| {
            matches!(&name.meaning, Meaning::Column { table: of, column }
                if of.eq_ignore_ascii_case(&table.name) && *column == place)
        };
        let replacement = |token: &str| {
            let plain =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
            match token.as_bytes().first() {
                Some(byte) if plain(byte) && !always_quoted => new.to_owned(),
                _ => quoted(new),
            }
        };
        let changed = rewritten(&sql, names.into_iter().filter(wanted), replacement)?;
        if changed != sql {
            row.sql = Some(changed);
            row.store(context.transaction)?;
        }
    }
    Ok(())
}

/// Puts single quotes around texts in double quotes: a new column could be called as they are.
///
/// # Errors
/// The store's.
pub(super) fn quote_texts(context: &mut Context<'_>, rows: &mut [StoredRow]) -> Result<(), Error> {
    let definitions = Definitions { schema: context.schema, database: context.home };
    for row in rows {
        let Some(sql) = row.sql.clone().filter(|_| row.is_ordinary()) else { continue };
        let names =
            names_of(definitions, &sql, false).map_err(|error| in_definition(row, "", error))?;
        let texts = names.into_iter().filter(|name| name.meaning == Meaning::Text);
        let replacement = |token: &str| format!("'{}'", dequoted(token).replace('\'', "''"));
        let changed = rewritten(&sql, texts, replacement)?;
        if changed != sql {
            row.sql = Some(changed);
            row.store(context.transaction)?;
        }
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text with other words at the places of some names.
fn rewritten(
    sql: &str,
    names: impl Iterator<Item = NameUse>,
    replacement: impl Fn(&str) -> String,
) -> Result<String, Error> {
    let mut names: Vec<NameUse> = names.collect();
    names.sort_by_key(|name| name.offset);
    names.dedup_by_key(|name| name.offset);
    let mut out = sql.to_owned();
    for name in names.iter().rev() {
        let token = token_at(sql, name.offset);
        if !dequoted(token).eq_ignore_ascii_case(&name.text) {
            let what = format!("ALTER TABLE beside a definition with {} in it", name.text);
            return Err(Error::Unsupported { what, offset: None });
        }
        let end = name.offset + token.len();
        let mut word = replacement(token);
        // A quote behind would make the closing quote one inside of the word.
        let quote = word.chars().last().filter(|last| matches!(last, '"' | '\''));
        if quote.is_some() && sql[end..].chars().next() == quote {
            word.push(' ');
        }
        out.replace_range(name.offset..end, &word);
    }
    Ok(out)
}

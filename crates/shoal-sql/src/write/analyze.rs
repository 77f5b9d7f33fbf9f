//! `ANALYZE`: how many rows a table has, and how many of them share the first columns of an index.
//!
//! The numbers go into `sqlite_stat1` as SQLite writes them. Samples of the same tables, kept by
//! other programs in `sqlite_stat4` and `sqlite_stat3`, are no longer true and are deleted.

use std::fmt::Write;
use std::sync::Arc;

use shoal_store::{BtreeKind, KeyOrder, Pgno, Record, Transaction, ValueRef, encode_record};

use super::schema_rows::{SchemaRow, delete_where};
use super::target::check_database;
use super::{Context, Done, Kind};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::ObjectName;
use crate::schema::{Index, IndexSource, Object, Schema, TEMP, Table};

/// The tables of statistics, the newest last; Shoal fills the first.
const TABLES: [&str; 3] = ["sqlite_stat1", "sqlite_stat4", "sqlite_stat3"];

/// A prepared `ANALYZE`.
#[derive(Debug)]
pub(crate) struct AnalyzePlan {
    tables: Vec<Arc<Table>>,
    /// The replaced statistics.
    replaced: Replaced,
}

#[derive(Debug)]
enum Replaced {
    All,
    OfTable(String),
    OfIndex(String),
}

/// Prepares an `ANALYZE` of everything, or of a database, an index or a table by its name.
///
/// # Errors
/// Nothing goes by the name; [`Error::Unsupported`] for attached databases.
pub(crate) fn prepare(schema: &Schema, name: Option<&ObjectName>) -> Result<Kind, Error> {
    let all = || {
        let tables = schema.objects().iter().rev().filter_map(|object| match object {
            Object::Table(table) => Some(Arc::clone(table)),
            _ => None,
        });
        AnalyzePlan { tables: tables.collect(), replaced: Replaced::All }
    };
    let analyze = |plan| Ok(Kind::Analyze(plan));
    let attached = || schema.databases().any(|(number, ..)| number > TEMP);
    let Some(name) = name else {
        if attached() {
            return Err(Error::unsupported("ANALYZE of attached databases", 0));
        }
        return analyze(all());
    };
    let (text, offset) = (name.name.text.as_str(), name.name.offset);
    if name.database.is_none() {
        match schema.database(text) {
            Some(0) => return analyze(all()),
            Some(_) => return Err(Error::unsupported("ANALYZE of another database", offset)),
            None => {}
        }
    }
    check_database(name)?;
    if let Some((table, index)) = schema.index(text) {
        let (tables, replaced) = (vec![Arc::clone(table)], Replaced::OfIndex(index.name.clone()));
        return analyze(AnalyzePlan { tables, replaced });
    }
    match schema.object(text) {
        Some(Object::Table(table)) => {
            let (tables, replaced) =
                (vec![Arc::clone(table)], Replaced::OfTable(table.name.clone()));
            analyze(AnalyzePlan { tables, replaced })
        }
        Some(other) => {
            let replaced = Replaced::OfTable(other.name().to_owned());
            analyze(AnalyzePlan { tables: Vec::new(), replaced })
        }
        None => {
            let full = match &name.database {
                Some(database) => format!("{}.{text}", database.text),
                None => text.to_owned(),
            };
            Err(Error::no_such(NameKind::Table, &full, offset))
        }
    }
}

impl AnalyzePlan {
    /// Reads the trees and writes their numbers.
    ///
    /// Cost: every entry of every index is read, and every row of a table without any.
    ///
    /// # Errors
    /// An unknown collation; [`Error::Store`].
    pub(crate) fn execute(&self, context: &mut Context<'_>) -> Result<Done, Error> {
        let statistics = self.statistics_table(context)?;
        for table in &self.tables {
            if table.name.to_ascii_lowercase().starts_with("sqlite_") {
                continue;
            }
            for (index, stat) in self.of_table(context.transaction, table)? {
                let values = [
                    ValueRef::Text(table.name.as_bytes()),
                    index.as_ref().map_or(ValueRef::Null, |name| ValueRef::Text(name.as_bytes())),
                    ValueRef::Text(stat.as_bytes()),
                ];
                append(context.transaction, statistics, &values)?;
            }
        }
        Ok(Done::default())
    }

    /// The root of `sqlite_stat1`, made if there is none; replaced rows are gone from this table
    /// and its kin.
    fn statistics_table(&self, context: &mut Context<'_>) -> Result<Pgno, Error> {
        let known = TABLES.map(|name| context.schema.table(name).cloned());
        let transaction = &mut *context.transaction;
        for table in known.iter().flatten() {
            let is = |value: Option<&ValueRef<'_>>, name: &str| matches!(value, Some(ValueRef::Text(text)) if *text == name.as_bytes());
            match &self.replaced {
                Replaced::All => transaction.clear_btree(table.root)?,
                Replaced::OfTable(name) => {
                    delete_where(transaction, table.root, |row| is(row.first(), name))?;
                }
                Replaced::OfIndex(name) => {
                    delete_where(transaction, table.root, |row| is(row.get(1), name))?;
                }
            }
        }
        if let Some(table) = &known[0] {
            return Ok(table.root);
        }
        let root = transaction.create_btree(BtreeKind::Table)?;
        let (name, sql) = (TABLES[0], Some("CREATE TABLE sqlite_stat1(tbl,idx,stat)"));
        SchemaRow { kind: "table", name, table: name, root: Some(root), sql }
            .insert(transaction)?;
        transaction.bump_schema_cookie()?;
        Ok(root)
    }

    /// The names of a table's indexes with their numbers; without a name the table's own.
    fn of_table(
        &self,
        transaction: &Transaction,
        table: &Table,
    ) -> Result<Vec<(Option<String>, String)>, Error> {
        let mut found = Vec::new();
        let only = match &self.replaced {
            Replaced::OfIndex(name) => Some(name),
            _ => None,
        };
        let mut counted = false;
        // The newest comes first, as in SQLite.
        for index in table.indexes.iter().rev().chain(&table.own_index) {
            if only.is_some_and(|name| *name != index.name) {
                continue;
            }
            counted |= !index.is_partial();
            let is_own = table.without_rowid && index.root == table.root;
            let name = if is_own { &table.name } else { &index.name };
            if let Some(stat) = stat_of(transaction, table, index, is_own)? {
                found.push((Some(name.clone()), stat));
            }
        }
        if !counted && only.is_none() {
            let mut cursor = transaction.table(table.root)?;
            let mut rows = 0u64;
            let mut more = cursor.first()?;
            while more {
                rows += 1;
                more = cursor.next()?;
            }
            if rows > 0 {
                found.push((None, rows.to_string()));
            }
        }
        Ok(found)
    }
}

/// The numbers of an index: its entries, then for the first column, the first two and so on how
/// many entries have the same values there. `None` for an empty index of all rows.
fn stat_of(
    transaction: &Transaction,
    table: &Table,
    index: &Index,
    is_own: bool,
) -> Result<Option<String>, Error> {
    let unknown = index.columns.iter().find_map(|column| column.collation.as_ref().err());
    if let Some(name) = unknown {
        let message = format!("no such collation sequence: {name}");
        return Err(Error::Name { kind: NameKind::Collation, message, offset: None });
    }
    let keys = index.key_columns;
    let not_null = |source: &IndexSource| matches!(source, IndexSource::Column(column) if table.columns[*column].not_null);
    // Two entries of such an index differ in its last column if in none before.
    let distinct = is_own
        || index.unique && index.columns[..keys].iter().all(|column| not_null(&column.source));
    let tested = if distinct { keys - 1 } else { keys };
    let order: KeyOrder = index.order();
    let mut changes = vec![0u64; keys];
    let mut rows = 0u64;
    let mut before: Vec<u8> = Vec::new();
    let mut cursor = transaction.index(index.root)?;
    let mut more = cursor.first()?;
    while more {
        let payload = cursor.payload()?;
        if rows > 0 {
            let changed = first_change(&before, payload, tested, &order)?;
            changes[changed.min(keys)..].iter_mut().for_each(|count| *count += 1);
        }
        before.clear();
        before.extend_from_slice(payload);
        rows += 1;
        more = cursor.next()?;
    }
    if rows == 0 && !index.is_partial() {
        return Ok(None);
    }
    let mut stat = rows.to_string();
    for changed in changes {
        let values = changed + 1;
        let mut equal = rows.div_ceil(values);
        // Little more than one is one.
        if equal == 2 && rows * 10 <= values * 11 {
            equal = 1;
        }
        let _ = write!(stat, " {equal}");
    }
    Ok(Some(stat))
}

/// The first difference of two entries among so many columns.
fn first_change(
    before: &[u8],
    entry: &[u8],
    columns: usize,
    order: &KeyOrder,
) -> Result<usize, Error> {
    let record = |bytes| Record::new(bytes).map_err(Error::corrupt);
    let (before, entry) = (record(before)?, record(entry)?);
    let pairs = before.values().zip(entry.values()).take(columns);
    for (column, (before, value)) in pairs.enumerate() {
        let (before, value) = (before.map_err(Error::corrupt)?, value.map_err(Error::corrupt)?);
        if order.compare_column(column, before, value).is_ne() {
            return Ok(column);
        }
    }
    Ok(columns)
}

fn append(transaction: &mut Transaction, root: Pgno, values: &[ValueRef<'_>]) -> Result<(), Error> {
    let mut cursor = transaction.table(root)?;
    let last = if cursor.last()? { cursor.rowid()? } else { 0 };
    let rowid = last.checked_add(1).ok_or_else(|| Error::runtime("database or disk is full"))?;
    let mut record = Vec::new();
    encode_record(values, transaction.header().schema_format, &mut record);
    Ok(transaction.table_insert(root, rowid, &record)?)
}

//! `ANALYZE`: how many rows a table has, and how many of them share the first columns of an index.
//!
//! The numbers go into `sqlite_stat1` as SQLite writes them. Samples of the same tables, kept by
//! other programs in `sqlite_stat4` and `sqlite_stat3`, are no longer true and are deleted.

use std::fmt::Write;
use std::sync::Arc;

use rayon::prelude::*;
use shoal_store::{
    BtreeKind, IndexPart, KeyOrder, Pgno, Record, Transaction, ValueRef, encode_record,
};

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
        let asked: Vec<Asked<'_>> = self
            .tables
            .iter()
            .filter(|table| !table.name.to_ascii_lowercase().starts_with("sqlite_"))
            .flat_map(|table| self.asked_of(table))
            .collect();
        let transaction = &*context.transaction;
        let stats: Vec<Result<Option<String>, Error>> =
            asked.par_iter().map(|asked| asked.stat(transaction)).collect();
        for (asked, stat) in asked.iter().zip(stats) {
            let Some(stat) = stat? else { continue };
            let name = asked.name().map_or(ValueRef::Null, |name| ValueRef::Text(name.as_bytes()));
            let values = [
                ValueRef::Text(asked.table.name.as_bytes()),
                name,
                ValueRef::Text(stat.as_bytes()),
            ];
            append(context.transaction, statistics, &values)?;
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

    /// The trees of a table to be looked at: its indexes, or without one of all rows its own.
    fn asked_of<'p>(&'p self, table: &'p Table) -> Vec<Asked<'p>> {
        let only = match &self.replaced {
            Replaced::OfIndex(name) => Some(name),
            _ => None,
        };
        // The newest comes first, as in SQLite.
        let indexes = table.indexes.iter().rev().chain(&table.own_index);
        let wanted = indexes.filter(|index| only.is_none_or(|name| *name == index.name));
        let mut asked: Vec<Asked<'_>> =
            wanted.map(|index| Asked { table, index: Some(index) }).collect();
        let counts = |asked: &Asked<'_>| asked.index.is_some_and(|index| !index.is_partial());
        if only.is_none() && !asked.iter().any(counts) {
            asked.push(Asked { table, index: None });
        }
        asked
    }
}

/// A tree to be looked at.
struct Asked<'p> {
    table: &'p Table,
    /// `None` for the table's own tree.
    index: Option<&'p Index>,
}

/// Entries of an index, a part of them.
#[derive(Default)]
struct Counted {
    rows: u64,
    /// For the first column, the first two and so on: entries unlike the one before.
    changes: Vec<u64>,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// Most columns decoded once for each entry.
const COLUMNS_MAX: usize = 8;

impl Asked<'_> {
    /// The index's name, its table's for the order of a table without rowids.
    fn name(&self) -> Option<&str> {
        let index = self.index?;
        Some(if self.is_own(index) { &self.table.name } else { &index.name })
    }

    fn is_own(&self, index: &Index) -> bool {
        self.table.without_rowid && index.root == self.table.root
    }

    /// The numbers of an index: its entries, then for the first column, the first two and so on how
    /// many entries have the same values there. `None` for an empty index of all rows.
    ///
    /// Cost: the tree is read once, in parts side by side; of an entry the key's columns are
    /// decoded.
    fn stat(&self, transaction: &Transaction) -> Result<Option<String>, Error> {
        let (table, Some(index)) = (self.table, self.index) else {
            let rows = transaction.count_rows(self.table.root)?;
            return Ok((rows > 0).then(|| rows.to_string()));
        };
        let unknown = index.columns.iter().find_map(|column| column.collation.as_ref().err());
        if let Some(name) = unknown {
            let message = format!("no such collation sequence: {name}");
            return Err(Error::Name { kind: NameKind::Collation, message, offset: None });
        }
        let keys = index.key_columns;
        let not_null = |source: &IndexSource| matches!(source, IndexSource::Column(column) if table.columns[*column].not_null);
        // Two entries of such an index differ in its last column if in none before.
        let distinct = self.is_own(index)
            || index.unique && index.columns[..keys].iter().all(|column| not_null(&column.source));
        let tested = if distinct { keys - 1 } else { keys };
        let order: KeyOrder = index.order();
        let parts = transaction.index_parts(index.root)?;
        let counted: Vec<Result<Counted, Error>> = parts
            .into_par_iter()
            .map(|part| count(transaction, part, (tested, keys), &order))
            .collect();
        let mut all = Counted { changes: vec![0; keys], ..Counted::default() };
        for counted in counted {
            let counted = counted?;
            if counted.rows == 0 {
                continue;
            }
            if all.rows > 0 {
                let changed = first_change(&all.last, &counted.first, tested, &order)?;
                all.changes[changed.min(keys)..].iter_mut().for_each(|count| *count += 1);
            }
            let pairs = all.changes.iter_mut().zip(&counted.changes);
            pairs.for_each(|(all, part)| *all += part);
            all.rows += counted.rows;
            all.last = counted.last;
        }
        let rows = all.rows;
        if rows == 0 && !index.is_partial() {
            return Ok(None);
        }
        let mut stat = rows.to_string();
        for changed in all.changes {
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
}

/// Counts the entries of a part of an index, and the changes in the first `tested` of its columns.
fn count(
    transaction: &Transaction,
    mut part: IndexPart<'_>,
    (tested, keys): (usize, usize),
    order: &KeyOrder,
) -> Result<Counted, Error> {
    let mut counted = Counted { changes: vec![0; keys], ..Counted::default() };
    // Where entries part for the first time, so often.
    let mut parted = vec![0_u64; keys + 1];
    let is_short = transaction.utf16().is_none() && tested <= COLUMNS_MAX;
    let mut values = [ValueRef::Null; COLUMNS_MAX];
    // The entry before: on its page and decoded, or copied.
    let (mut near, mut far): (Option<&[u8]>, Vec<u8>) = (None, Vec::new());
    let mut copy = Vec::new();
    while let Some(payload) = part.next()? {
        counted.rows += 1;
        if is_short && payload.overflow.is_none() {
            let record = Record::new(payload.local).map_err(Error::corrupt)?;
            let mut changed = tested;
            for ((column, value), known) in
                record.values().take(tested).enumerate().zip(&mut values)
            {
                let value = value.map_err(Error::corrupt)?;
                if changed == tested && order.compare_column(column, *known, value).is_ne() {
                    changed = column;
                }
                *known = value;
            }
            if near.is_none() && counted.rows > 1 {
                changed = first_change(&far, payload.local, tested, order)?;
            }
            if counted.rows > 1 {
                parted[changed] += 1;
            } else {
                counted.first = payload.local.to_vec();
            }
            near = Some(payload.local);
            continue;
        }
        transaction.read_record(payload, &mut copy)?;
        if counted.rows > 1 {
            parted[first_change(near.unwrap_or(&far), &copy, tested, order)?] += 1;
        } else {
            counted.first = copy.clone();
        }
        near = None;
        std::mem::swap(&mut far, &mut copy);
    }
    counted.last = near.map_or(far, <[u8]>::to_vec);
    let mut changes = 0;
    for (count, parted) in counted.changes.iter_mut().zip(parted) {
        changes += parted;
        *count = changes;
    }
    Ok(counted)
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

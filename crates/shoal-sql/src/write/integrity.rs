//! `PRAGMA integrity_check`: pages first, then whether indexes and constraints agree with the rows.
//!
//! Pages, rows and entries are read once, side by side (`index_sums`). A table found right that way
//! is done with; any other is looked at row by row, for the words of SQLite.

use std::sync::Arc;

use shoal_store::{Pgno, Record, Transaction};

use super::constraints::Constraints;
use super::index_sums::{self, Asked};
use super::row::{Row, RowEnv};
use super::rows::Rows;
use crate::Error;
use crate::schema::{Object, Schema, Table, TableReads, Txns, VirtualDefinition};
use crate::session::Session;
use crate::value::{Value, ValueRef};

/// A check stops after this many findings, as in SQLite.
pub(crate) const FINDINGS_MAX: usize = 100;

/// What is wrong, `ok` when nothing is. `quick` leaves out whether every row is in every index.
///
/// # Errors
/// What has nothing to do with the file's content: reading fails, memory ends.
pub(crate) fn check(
    whole: &Schema,
    txns: Txns<'_>,
    database: usize,
    only: Option<&str>,
    limit: usize,
    quick: bool,
) -> Result<Vec<Vec<Value>>, Error> {
    let name = whole.database_name(database);
    let schema = whole.of_database(database).unwrap_or(whole);
    let transaction = txns.of(database)?;
    let mut findings = Findings { found: Vec::new(), before_rows: 0, limit };
    let trees = Trees::of(schema, only);
    let is_wanted = |table: &Table| only.is_none_or(|name| table.name.eq_ignore_ascii_case(name));
    let wanted = schema.objects().iter().filter_map(|object| match object {
        // Tables whose rows cannot be checked are told of below.
        Object::Table(table) if is_wanted(table) => Asked::new(schema, table, quick).ok(),
        _ => None,
    });
    let asked: Vec<Asked<'_>> = wanted.collect();
    let answer = index_sums::look(transaction, &trees.roots, trees.whole, &asked)?;
    let right: Vec<&str> = (asked.iter().zip(&answer.tables))
        .filter_map(|(asked, is_right)| is_right.then_some(asked.name()))
        .collect();
    let which = (trees.whole, trees.freelist, limit);
    let faults = transaction.check_pages_after(&trees.roots, which, answer.trees)?;
    let are_sound = faults.is_empty();
    if !are_sound {
        let rest = limit.saturating_sub(faults.len());
        findings.add(format!("*** in database {name} ***\n{}", faults.join("\n")));
        findings.limit = rest + 1;
    }
    findings.before_rows = findings.found.len();
    for object in schema.objects() {
        let wanted = only.is_none_or(|name| object.name().eq_ignore_ascii_case(name));
        match object {
            Object::Table(table) if wanted && !right.contains(&table.name.as_str()) => {
                if let Err(error) = check_table(schema, table, transaction, quick, &mut findings) {
                    match error {
                        // The pages tell already.
                        Error::Store(_) if !are_sound => {}
                        Error::Store(_) | Error::Schema { .. } | Error::Name { .. } => {
                            findings.add(error.to_string());
                        }
                        other => return Err(other),
                    }
                }
            }
            Object::Virtual(definition) if wanted && !findings.is_full() => {
                let reads =
                    TableReads { schema: whole, narrowed: None, txns, database, session: &Nobody };
                for fault in virtual_faults(definition, &reads)? {
                    findings.add(fault);
                }
            }
            Object::Damaged { name, why } if wanted => findings.add(format!("{name}: {why}")),
            _ => {}
        }
    }
    if findings.found.is_empty() {
        findings.found.push("ok".to_owned());
    }
    Ok(findings.found.into_iter().map(|finding| vec![Value::text(finding)]).collect())
}

/// The faults found by a virtual table's own module; none of a module unknown here, as in SQLite.
fn virtual_faults(
    definition: &VirtualDefinition,
    reads: &TableReads<'_>,
) -> Result<Vec<String>, Error> {
    if reads.schema.table_module(definition.module(), None).is_err() {
        return Ok(Vec::new());
    }
    let found = definition
        .connect(reads.schema, reads.database)
        .and_then(|table| table.instance.check(reads));
    match found {
        Err(stop @ (Error::Interrupted | Error::Misuse { .. })) => Err(stop),
        // The table is not to be opened, or a part not to be read.
        Err(error) => Ok(vec![format!("{}: {error}", definition.name())]),
        Ok(faults) => {
            let name = definition.name();
            let named = |fault: String| match fault.contains(name) {
                true => fault,
                false => format!("{name}: {fault}"),
            };
            Ok(faults.into_iter().map(named).collect())
        }
    }
}

/// The trees whose pages are looked at.
struct Trees {
    roots: Vec<Pgno>,
    /// They are all trees of the file.
    whole: bool,
    freelist: bool,
}

impl Trees {
    /// The trees of all tables and indexes, or of one table's.
    fn of(schema: &Schema, only: Option<&str>) -> Trees {
        let mut roots = Vec::new();
        let wanted = |table: &Table| match only {
            Some(name) => {
                table.name.eq_ignore_ascii_case(name)
                    || table.root == Pgno::FIRST && name.eq_ignore_ascii_case("sqlite_master")
            }
            None => true,
        };
        // Definitions without a meaning have pages, too.
        let mut whole = only.is_none();
        for object in schema.objects() {
            match object {
                Object::Table(table) if wanted(table) => {
                    roots.push(table.root);
                    roots.extend(table.indexes.iter().map(|index| index.root));
                    whole &= table.missing_index.is_none();
                }
                Object::Damaged { .. } => whole = false,
                _ => {}
            }
        }
        let freelist = only.is_none() || roots.first() == Some(&Pgno::FIRST);
        Trees { roots, whole, freelist }
    }
}

struct Findings {
    found: Vec<String>,
    /// How many come before those of rows: pages, and counts of entries, as in SQLite.
    before_rows: usize,
    limit: usize,
}

impl Findings {
    /// Adds a wrong count, before what was found of rows.
    fn add_count(&mut self, finding: String) {
        self.found.insert(self.before_rows, finding);
        self.found.truncate(self.limit);
        self.before_rows = (self.before_rows + 1).min(self.limit);
    }

    fn add(&mut self, finding: String) {
        if self.found.len() < self.limit {
            self.found.push(finding);
        }
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }
}

fn check_table(
    schema: &Schema,
    table: &Arc<Table>,
    transaction: &Transaction,
    quick: bool,
    findings: &mut Findings,
) -> Result<(), Error> {
    let rows = Rows::new(schema, table)?;
    let constraints = Constraints::new(schema, table)?;
    let env = RowEnv { transaction, session: &Nobody };
    let mut counts = vec![0u64; table.indexes.len()];
    let mut number = 0u64;
    let mut see = |mut row: Row, findings: &mut Findings| -> Result<(), Error> {
        number += 1;
        rows.compute(&mut row, &env)?;
        for (place, column) in table.columns.iter().enumerate() {
            let value = &row.values[place];
            if column.not_null && value.is_null() && table.rowid_alias != Some(place) {
                findings.add(format!("NULL value in {}.{}", table.name, column.name));
            }
        }
        if constraints.failed_check(&row, &env)?.is_some() {
            findings.add(format!("CHECK constraint failed in {}", table.name));
        }
        for (place, index) in table.indexes.iter().enumerate() {
            let Some(entry) = rows.index_entry(place, &row, &env)? else { continue };
            counts[place] += 1;
            if quick || (table.without_rowid && index.root == table.root) {
                continue;
            }
            let order = index.order();
            let mut cursor = transaction.index(index.root)?;
            let key: Vec<ValueRef<'_>> = entry.iter().map(Value::as_ref).collect();
            if !cursor.seek(&key, &order)? {
                findings.add(format!("row {number} missing from index {}", index.name));
            } else if index.unique && !entry[..index.key_columns].iter().any(Value::is_null) {
                // Of entries with one key, each but the last is told of, as in SQLite.
                let prefix = &key[..index.key_columns.min(key.len())];
                if !cursor.next()? {
                    continue;
                }
                let record = Record::new(cursor.payload()?).map_err(Error::corrupt)?;
                let mut values = record.values().enumerate();
                let is_equal = prefix.iter().all(|wanted| match values.next() {
                    Some((column, Ok(value))) => {
                        order.compare_column(column, value, *wanted).is_eq()
                    }
                    _ => false,
                });
                if is_equal {
                    findings.add(format!("non-unique entry in index {}", index.name));
                }
            }
        }
        Ok(())
    };
    if table.without_rowid {
        let mut cursor = transaction.index(table.root)?;
        let mut more = cursor.first()?;
        while more && !findings.is_full() {
            see(Row::decode(table, 0, cursor.payload()?)?, findings)?;
            more = cursor.next()?;
        }
    } else {
        let mut cursor = transaction.table(table.root)?;
        let mut more = cursor.first()?;
        let mut last = None;
        while more && !findings.is_full() {
            let rowid = cursor.rowid()?;
            if last.is_some_and(|last| last >= rowid) {
                findings.add(format!("rowid {rowid} of {} out of order", table.name));
            }
            last = Some(rowid);
            see(Row::decode(table, rowid, cursor.payload()?)?, findings)?;
            more = cursor.next()?;
        }
    }
    // A scan stopped early has counted too few entries.
    if findings.is_full() {
        return Ok(());
    }
    for (index, expected) in table.indexes.iter().zip(counts) {
        let mut cursor = transaction.index(index.root)?;
        let mut count = 0u64;
        let mut more = cursor.first()?;
        while more {
            count += 1;
            more = cursor.next()?;
        }
        if count != expected {
            findings.add_count(format!("wrong # of entries in index {}", index.name));
        }
    }
    Ok(())
}

/// Definitions may call no function that asks the connection anything.
#[derive(Debug)]
pub(super) struct Nobody;

impl Session for Nobody {
    fn changes(&self) -> i64 {
        0
    }

    fn total_changes(&self) -> i64 {
        0
    }

    fn last_insert_rowid(&self) -> i64 {
        0
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn now_unix_ms(&self) -> i64 {
        0
    }
}

//! `shoal-store` below SQL: cursors and table writers.

use std::path::Path;

use shoal_sql::{Affinity, Connection, ValueRef};
use shoal_store::{
    BATCH, ColumnFinder, Mode, Pgno, Record, ScannedRow, Store, TableLookup, TableScan, Transaction,
};

use super::table::{Form, cell, failed, store, value};
use crate::engine::table::{Access, Cell, Fields, TableSpec};
use crate::engine::{About, Guarantee, Miss, TableEngine};

/// Shoal's cursors, sharing the file or not.
pub(super) struct Typed(pub(super) Form);

/// A row with the columns asked for.
pub(super) struct Row<'a> {
    found: Found<'a>,
    columns: &'a [Wanted],
}

/// A row given by a lookup, or by a scan.
enum Found<'a> {
    Record(i64, Record<'a>),
    Scanned(ScannedRow<'a>),
}

/// A column asked for.
#[derive(Clone, Copy)]
struct Wanted {
    index: usize,
    /// The column's number among the columns found by a scan.
    number: usize,
    /// True for REAL columns: their integers are whole floats in SQLite's short form.
    real: bool,
}

impl Fields for Row<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        let wanted = match self.columns.get(index) {
            None | Some(Wanted { index: 0, .. }) => {
                return Cell::Int(match &self.found {
                    Found::Record(rowid, _) => *rowid,
                    Found::Scanned(row) => row.rowid(),
                });
            }
            Some(wanted) => wanted,
        };
        let value = match &self.found {
            Found::Record(_, record) => record.column(wanted.index).unwrap_or(None),
            Found::Scanned(row) => row.value(wanted.number),
        };
        match value {
            Some(ValueRef::Int(value)) if wanted.real => Cell::Real(value as f64),
            found => cell(found.unwrap_or(ValueRef::Null)),
        }
    }
}

/// An open database: its store to write, one read transaction to read.
pub(super) struct Db {
    store: Store,
    read: Option<Transaction>,
}

/// A table found by name, and the columns to read.
pub(super) struct Reader {
    root: Pgno,
    lookup: TableLookup,
    overflow: Vec<u8>,
    columns: Vec<Wanted>,
}

fn stored<T>(result: Result<T, shoal_store::Error>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// The root page of the table, by the file's own account, and the kinds of its columns.
fn find(store: &Store, table: &TableSpec, columns: &[usize]) -> Result<Reader, Miss> {
    let mut connection = failed(Connection::open(store.clone()))?;
    let schema = failed(connection.schema())?;
    let unknown = || Miss::Failed(format!("no table is called {}", table.name));
    let declared = schema.table(table.name).ok_or_else(unknown)?.columns();
    let stored = stored_columns(columns);
    let columns = columns.iter().map(|&index| Wanted {
        index,
        number: stored.partition_point(|&known| known < index),
        real: declared.get(index).is_some_and(|column| column.affinity() == Affinity::Real),
    });
    let columns = columns.collect();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let mut statement = failed(connection.prepare(sql))?;
    failed(statement.bind(1, table.name))?;
    let mut rows = failed(connection.query(&mut statement))?;
    let number = match failed(rows.next())?.map(|row| row.get(0)) {
        Some(ValueRef::Int(number)) => u32::try_from(number).ok(),
        _ => None,
    };
    let root = number.and_then(Pgno::new).ok_or_else(unknown)?;
    Ok(Reader { root, lookup: TableLookup::new(root), overflow: Vec::new(), columns })
}

/// The columns stored in records, each once and in order: all but the rowid.
fn stored_columns(columns: &[usize]) -> Vec<usize> {
    let mut stored: Vec<usize> = columns.iter().copied().filter(|&index| index > 0).collect();
    stored.sort_unstable();
    stored.dedup();
    stored
}

fn visit_row(
    rowid: i64,
    payload: &[u8],
    columns: &[Wanted],
    visit: &mut impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    let record = Record::new(payload).map_err(Miss::failed)?;
    visit(&Row { found: Found::Record(rowid, record), columns });
    Ok(())
}

fn scan_in(
    transaction: &Transaction,
    root: Pgno,
    columns: &[Wanted],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    let indexes: Vec<usize> = columns.iter().map(|wanted| wanted.index).collect();
    let finder = ColumnFinder::new(&stored_columns(&indexes));
    let mut scan = TableScan::new(stored(transaction.table(root))?, finder);
    while let Some(row) = stored(scan.next())? {
        visit(&Row { found: Found::Scanned(row), columns });
    }
    Ok(())
}

impl TableEngine for Typed {
    type Db = Db;
    type Statement = ();
    type Reader = Reader;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        let (name, note) = match self.0 {
            Form::Exclusive => (
                "shoal typed excl",
                "cursors and lookups below SQL; exclusive: the lock is kept and the file mapped",
            ),
            Form::Autocommit | Form::InTransaction => (
                "shoal typed",
                "cursors, lookups and table writers below SQL; reads in one open transaction, a \
                 snapshot",
            ),
        };
        About::ours(name, note).promising(Guarantee::Snapshot)
    }

    fn open(&self, path: &Path, access: Access, _scratch: &Path) -> Result<Db, Miss> {
        let store = store(path, access, self.0)?;
        let read = match access {
            Access::Read => Some(stored(store.begin(Mode::Read))?),
            Access::Write => None,
        };
        Ok(Db { store, read })
    }

    fn prepare(&self, _db: &mut Db, _sql: &str) -> Result<(), Miss> {
        Err(Miss::NotRun("a form below SQL".into()))
    }

    fn reader(&self, db: &mut Db, table: &TableSpec, columns: &[usize]) -> Result<Reader, Miss> {
        find(&db.store, table, columns)
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut Reader,
        rowid: i64,
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let read =
            db.read.as_ref().ok_or_else(|| Miss::absent("reads of a table being written"))?;
        let Some(payload) = stored(reader.lookup.seek(read, rowid))? else { return Ok(()) };
        if payload.overflow.is_some() {
            stored(read.read_payload(payload, &mut reader.overflow))?;
            return visit_row(rowid, &reader.overflow, &reader.columns, &mut visit);
        }
        visit_row(rowid, payload.local, &reader.columns, &mut visit)
    }

    #[inline]
    fn seek_batch(
        &self,
        db: &mut Db,
        reader: &mut Reader,
        rowids: &[i64],
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let read =
            db.read.as_ref().ok_or_else(|| Miss::absent("reads of a table being written"))?;
        let mut found = [None; BATCH];
        stored(reader.lookup.seek_batch(read, rowids, &mut found))?;
        for (&rowid, payload) in rowids.iter().zip(found) {
            let Some(payload) = payload else { continue };
            if payload.overflow.is_some() {
                stored(read.read_payload(payload, &mut reader.overflow))?;
                visit_row(rowid, &reader.overflow, &reader.columns, &mut visit)?;
            } else {
                visit_row(rowid, payload.local, &reader.columns, &mut visit)?;
            }
        }
        Ok(())
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let Reader { root, columns, .. } = find(&db.store, table, columns)?;
        match &db.read {
            Some(read) => scan_in(read, root, &columns, visit),
            None => scan_in(&stored(db.store.begin(Mode::Read))?, root, &columns, visit),
        }
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        let mut connection = failed(Connection::open(db.store.clone()))?;
        let mut statement = failed(connection.prepare(table.create))?;
        failed(connection.execute(&mut statement)).map(|_| ())
    }

    fn execute(&self, db: &mut Db, sql: &str) -> Result<(), Miss> {
        let mut connection = failed(Connection::open(db.store.clone()))?;
        let mut statement = failed(connection.prepare(sql))?;
        failed(connection.execute(&mut statement)).map(|_| ())
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let mut connection = failed(Connection::open(db.store.clone()))?;
        failed(connection.begin(Mode::Write))?;
        let mut writer = failed(connection.table_writer(table.name))?;
        let mut values = Vec::with_capacity(table.columns.len());
        for row in rows {
            values.clear();
            values.extend(row.iter().copied().map(value));
            failed(writer.insert(&values))?;
        }
        drop(writer);
        failed(connection.commit())
    }

    fn delete(&self, db: &mut Db, table: &TableSpec, rowids: &[i64]) -> Result<(), Miss> {
        let mut connection = failed(Connection::open(db.store.clone()))?;
        failed(connection.begin(Mode::Write))?;
        let mut writer = failed(connection.table_writer(table.name))?;
        for &rowid in rowids {
            failed(writer.delete(rowid))?;
        }
        drop(writer);
        failed(connection.commit())
    }
}

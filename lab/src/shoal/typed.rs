//! `shoal-store` below SQL: cursors and table writers.

use std::path::Path;

use shoal_sql::{Affinity, Connection, ValueRef};
use shoal_store::{Mode, Pgno, Record, Store, TableLookup, Transaction};

use super::table::{Form, cell, failed, store, value};
use crate::engine::table::{Access, Cell, Fields, TableSpec};
use crate::engine::{About, Guarantee, Miss, TableEngine};

/// Shoal's cursors, sharing the file or not.
pub(super) struct Typed(pub(super) Form);

/// A row under a cursor: its record, and which columns were asked for.
pub(super) struct Row<'a> {
    rowid: i64,
    record: Record<'a>,
    columns: &'a [Wanted],
}

/// A column that was asked for.
#[derive(Clone, Copy)]
struct Wanted {
    index: usize,
    /// Whether its integers are floats that were stored short, as SQLite stores whole ones.
    real: bool,
}

impl Fields for Row<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        match self.columns.get(index) {
            None | Some(Wanted { index: 0, .. }) => Cell::Int(self.rowid),
            Some(wanted) => match self.record.column(wanted.index) {
                Ok(Some(ValueRef::Int(value))) if wanted.real => Cell::Real(value as f64),
                Ok(found) => cell(found.unwrap_or(ValueRef::Null)),
                Err(_) => Cell::Null,
            },
        }
    }
}

/// An open database: its store to write, one read transaction to read.
pub(super) struct Db {
    store: Store,
    read: Option<Transaction>,
}

/// A table found by name, and the columns to read of it.
pub(super) struct Reader {
    root: Pgno,
    lookup: TableLookup,
    overflow: Vec<u8>,
    columns: Vec<Wanted>,
}

fn stored<T>(result: Result<T, shoal_store::Error>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// Where the table's tree begins, by the file's own account, and what its columns are.
fn find(store: &Store, table: &TableSpec, columns: &[usize]) -> Result<Reader, Miss> {
    let mut connection = failed(Connection::open(store.clone()))?;
    let schema = failed(connection.schema())?;
    let unknown = || Miss::Failed(format!("no table is called {}", table.name));
    let declared = schema.table(table.name).ok_or_else(unknown)?.columns();
    let columns = columns.iter().map(|&index| Wanted {
        index,
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

fn visit_row(
    rowid: i64,
    payload: &[u8],
    columns: &[Wanted],
    visit: &mut impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    let record = Record::new(payload).map_err(Miss::failed)?;
    visit(&Row { rowid, record, columns });
    Ok(())
}

fn scan_in(
    transaction: &Transaction,
    root: Pgno,
    columns: &[Wanted],
    mut visit: impl FnMut(&Row<'_>),
) -> Result<(), Miss> {
    let mut cursor = stored(transaction.table(root))?;
    let mut more = stored(cursor.first())?;
    while more {
        let rowid = stored(cursor.rowid())?;
        visit_row(rowid, stored(cursor.payload())?, columns, &mut visit)?;
        more = stored(cursor.next())?;
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
        let read = db.read.as_ref().ok_or(Miss::absent("reads of a table being written"))?;
        let Some(payload) = stored(reader.lookup.seek(read, rowid))? else { return Ok(()) };
        if payload.overflow.is_some() {
            stored(read.read_payload(payload, &mut reader.overflow))?;
            return visit_row(rowid, &reader.overflow, &reader.columns, &mut visit);
        }
        visit_row(rowid, payload.local, &reader.columns, &mut visit)
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

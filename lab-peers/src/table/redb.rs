//! `redb`: rowid to packed row, one table.

use std::path::Path;

use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};
use shoal_lab::engine::table::{Access, Cell, TableSpec};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};

use super::packed::{Row, copy_users, pack};

pub(crate) struct Redb;

type Rows = TableDefinition<'static, i64, &'static [u8]>;

/// An open database; for reading, with the table of users in one open read transaction.
pub(crate) struct Db {
    database: Database,
    users: Option<ReadOnlyTable<i64, &'static [u8]>>,
}

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

const USERS: Rows = TableDefinition::new("users");

fn copied(source: &Path, target: &Path) -> Result<(), Miss> {
    let making = target.with_extension("making");
    let database = failed(Database::create(&making))?;
    let write = failed(database.begin_write())?;
    {
        let mut table = failed(write.open_table(USERS))?;
        copy_users(source, |rowid, packed| failed(table.insert(rowid, packed)).map(|_| ()))?;
    }
    failed(write.commit())?;
    drop(database);
    failed(std::fs::rename(making, target))
}

impl TableEngine for Redb {
    type Db = Db;
    type Statement = ();
    type Reader = Vec<usize>;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        About::peer(
            "redb",
            "4.4",
            "key-value store: rowid to the packed row; reads in one open transaction, a snapshot",
        )
        .promising(Guarantee::Snapshot)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        if access == Access::Write {
            return Ok(Db { database: failed(Database::create(path))?, users: None });
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let copy = scratch.join(format!("{name}.redb"));
        if !copy.exists() {
            copied(path, &copy)?;
        }
        let database = failed(Database::open(&copy))?;
        let users = Some(failed(failed(database.begin_read())?.open_table(USERS))?);
        Ok(Db { database, users })
    }

    fn opens_in_place(&self) -> bool {
        false
    }

    fn reader(
        &self,
        _db: &mut Db,
        _table: &TableSpec,
        columns: &[usize],
    ) -> Result<Vec<usize>, Miss> {
        Ok(columns.to_vec())
    }

    #[inline]
    fn seek(
        &self,
        db: &mut Db,
        reader: &mut Vec<usize>,
        rowid: i64,
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let users = db.users.as_ref().ok_or(Miss::absent("reads of a table being written"))?;
        if let Some(found) = failed(users.get(rowid))? {
            visit(&Row { rowid, packed: found.value(), columns: reader });
        }
        Ok(())
    }

    fn scan(
        &self,
        db: &mut Db,
        table: &TableSpec,
        columns: &[usize],
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let mut all = |rows: &ReadOnlyTable<i64, &'static [u8]>| {
            for entry in failed(rows.iter())? {
                let (rowid, packed) = failed(entry)?;
                visit(&Row { rowid: rowid.value(), packed: packed.value(), columns });
            }
            Ok(())
        };
        match &db.users {
            Some(users) => all(users),
            None => {
                let read = failed(db.database.begin_read())?;
                let rows: Rows = TableDefinition::new(table.name);
                all(&failed(read.open_table(rows))?)
            }
        }
    }

    fn create_table(&self, db: &mut Db, table: &TableSpec) -> Result<(), Miss> {
        self.insert(db, table, &[])
    }

    fn insert(&self, db: &mut Db, table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let write = failed(db.database.begin_write())?;
        {
            let name: Rows = TableDefinition::new(table.name);
            let mut table = failed(write.open_table(name))?;
            let mut packed = Vec::new();
            for row in rows {
                let Some((Cell::Int(rowid), rest)) = row.split_first() else {
                    return Err(Miss::Failed("a row without a rowid".into()));
                };
                pack(rest, &mut packed);
                failed(table.insert(rowid, packed.as_slice()))?;
            }
        }
        failed(write.commit())
    }
}

//! LMDB through `heed`: rowid to packed row, one database.

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Env, EnvOpenOptions, RoTxn, WithoutTls};
use shoal_lab::engine::table::{Access, Cell, TableSpec};
use shoal_lab::engine::{About, Guarantee, Miss, TableEngine};

use super::packed::{Row, copy_users, pack};

pub(crate) struct Heed;

type Rows = heed::Database<'static, U64<BigEndian>, Bytes>;

/// An open environment; for reading, with one open read transaction.
pub(crate) struct Db {
    // Before the environment in the order of fields, hence of drops: a read transaction must close
    // before its environment.
    read: Option<RoTxn<'static, WithoutTls>>,
    env: Env<WithoutTls>,
    rows: Rows,
}

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

fn key(rowid: i64) -> Result<u64, Miss> {
    u64::try_from(rowid).map_err(Miss::failed)
}

fn environment(folder: &Path) -> Result<(Env<WithoutTls>, Rows), Miss> {
    failed(std::fs::create_dir_all(folder))?;
    // SAFETY: the folder is this process's own, and nothing else opens the files within.
    let env =
        unsafe { EnvOpenOptions::new().read_txn_without_tls().map_size(MAPPED_BYTES).open(folder) };
    let env = failed(env)?;
    let write = failed(env.write_txn())?;
    let made = env.create_databases_and_commit(write, |opener, write| {
        opener.create_database(write, None).map(CommitOrAbort::<_, ()>::Commit)
    });
    let rows = failed(made)?.unwrap_commit();
    Ok((env, rows))
}

fn copied(source: &Path, target: &Path) -> Result<(), Miss> {
    let making = target.with_extension("making");
    let (env, rows) = environment(&making)?;
    let mut write = failed(env.write_txn())?;
    copy_users(source, |rowid, packed| failed(rows.put(&mut write, &key(rowid)?, packed)))?;
    failed(write.commit())?;
    env.prepare_for_closing().wait();
    failed(std::fs::rename(making, target))
}

impl TableEngine for Heed {
    type Db = Db;
    type Statement = ();
    type Reader = Vec<usize>;
    type Row<'a> = Row<'a>;

    fn about(&self) -> About {
        About::peer(
            "heed (LMDB)",
            "0.23",
            "key-value store in a map: rowid to the packed row; reads in one open transaction, a \
             snapshot",
        )
        .c_heap()
        .promising(Guarantee::Snapshot)
    }

    fn open(&self, path: &Path, access: Access, scratch: &Path) -> Result<Db, Miss> {
        if access == Access::Write {
            let (env, rows) = environment(path)?;
            return Ok(Db { env, rows, read: None });
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let copy = scratch.join(format!("{name}.lmdb"));
        if !copy.exists() {
            copied(path, &copy)?;
        }
        let (env, rows) = environment(&copy)?;
        let read = Some(failed(env.clone().static_read_txn())?);
        Ok(Db { env, rows, read })
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
        let read = db.read.as_ref().ok_or(Miss::absent("reads of a table being written"))?;
        if let Some(packed) = failed(db.rows.get(read, &key(rowid)?))? {
            visit(&Row { rowid, packed, columns: reader });
        }
        Ok(())
    }

    fn scan(
        &self,
        db: &mut Db,
        _table: &TableSpec,
        columns: &[usize],
        mut visit: impl FnMut(&Row<'_>),
    ) -> Result<(), Miss> {
        let mut all = |read: &RoTxn<'_, WithoutTls>| {
            for entry in failed(db.rows.iter(read))? {
                let (rowid, packed) = failed(entry)?;
                visit(&Row { rowid: rowid.cast_signed(), packed, columns });
            }
            Ok(())
        };
        match &db.read {
            Some(read) => all(read),
            None => all(&failed(db.env.read_txn())?),
        }
    }

    fn create_table(&self, _db: &mut Db, _table: &TableSpec) -> Result<(), Miss> {
        Ok(())
    }

    fn insert(&self, db: &mut Db, _table: &TableSpec, rows: &[Vec<Cell<'_>>]) -> Result<(), Miss> {
        let mut write = failed(db.env.write_txn())?;
        let mut packed = Vec::new();
        for row in rows {
            let Some((Cell::Int(rowid), rest)) = row.split_first() else {
                return Err(Miss::Failed("a row without a rowid".into()));
            };
            pack(rest, &mut packed);
            failed(db.rows.put(&mut write, &key(*rowid)?, &packed))?;
        }
        failed(write.commit())
    }
}

/// More than any database of the lab; the system backs only the pages used.
const MAPPED_BYTES: usize = 16 << 30;

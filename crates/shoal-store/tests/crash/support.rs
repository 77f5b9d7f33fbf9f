//! Parts shared by the crash tests: changes of a database, and the states found afterwards.

use std::collections::BTreeMap;
use std::path::Path;

use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{
    Access, BtreeKind, Error, JournalMode, Mode, Pgno, Record, Store, Transaction, ValueRef,
};

use crate::common::{ask_sqlite_at, database, open, orders, record, try_root};

/// The database's path on the simulated disk.
pub(crate) const DB: &str = "db";

/// Choices for the unsynced part of the disk: nothing kept, everything kept, chance.
pub(crate) const SEEDS: std::ops::Range<u64> = 0..12;

pub(crate) const SCHEMA: &str = "CREATE TABLE t(a, b); CREATE INDEX i ON t(a);";

pub(crate) fn filled() -> Image {
    let mut image = Image::new();
    image.insert(DB.into(), database(512, 0, SCHEMA));
    after(&image, |txn| put_rows(txn, 0..200, 20))
}

/// As [`filled`], a file that cuts itself at each commit.
pub(crate) fn vacuumed() -> Image {
    let mut image = Image::new();
    let schema = format!("PRAGMA auto_vacuum = FULL; VACUUM; {SCHEMA}");
    image.insert(DB.into(), database(512, 0, &schema));
    after(&image, |txn| put_rows(txn, 0..200, 20))
}

/// As [`vacuumed`], in write-ahead log mode.
pub(crate) fn vacuumed_log() -> Image {
    in_log_mode(&vacuumed())
}

/// As [`filled`], in write-ahead log mode.
pub(crate) fn logged() -> Image {
    in_log_mode(&filled())
}

fn in_log_mode(image: &Image) -> Image {
    let vfs = SimVfs::from_image(image);
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    store.set_journal_mode(JournalMode::Wal).unwrap();
    drop(store);
    vfs.image()
}

/// As [`logged`], with a log not yet checkpointed, and without its index.
pub(crate) fn logged_before() -> Image {
    let vfs = SimVfs::from_image(&logged());
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    put_rows(&mut txn, 300..330, 60).unwrap();
    txn.commit().unwrap();
    let mut image = vfs.image();
    image.remove(Path::new("db-shm")).unwrap();
    image
}

pub(crate) fn thinned() -> Image {
    after(&filled(), |txn| delete_rows(txn, 20..180))
}

/// The disk after a transaction without trouble.
pub(crate) fn after(
    image: &Image,
    change: impl Fn(&mut Transaction) -> Result<(), Error>,
) -> Image {
    let vfs = SimVfs::from_image(image);
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    change(&mut txn).unwrap();
    txn.commit().unwrap();
    vfs.image()
}

pub(crate) fn row(rowid: i64, len: usize) -> [Vec<u8>; 2] {
    let a = format!("key {:03}", rowid * 7 % 200).into_bytes();
    [a, vec![rowid as u8; len]]
}

pub(crate) fn put_rows(
    txn: &mut Transaction,
    rows: std::ops::Range<i64>,
    len: usize,
) -> Result<(), Error> {
    let (table, index) = (try_root(txn, "t")?, try_root(txn, "i")?);
    for rowid in rows {
        let [a, b] = row(rowid, len);
        let values = [ValueRef::Text(&a), ValueRef::Blob(&b)];
        txn.table_insert(table, rowid, &record(&values))?;
        let entry = record(&[values[0], ValueRef::Int(rowid)]);
        txn.index_insert(index, &entry, &orders()[0])?;
    }
    Ok(())
}

pub(crate) fn delete_rows(txn: &mut Transaction, rows: std::ops::Range<i64>) -> Result<(), Error> {
    let (table, index) = (try_root(txn, "t")?, try_root(txn, "i")?);
    for rowid in rows {
        txn.table_delete(table, rowid)?;
        let entry = record(&[ValueRef::Text(&row(rowid, 0)[0]), ValueRef::Int(rowid)]);
        txn.index_delete(index, &entry, &orders()[0])?;
    }
    Ok(())
}

pub(crate) fn change_one(txn: &mut Transaction) -> Result<(), Error> {
    put_rows(txn, 17..18, 33)
}

pub(crate) fn create_schema(txn: &mut Transaction) -> Result<(), Error> {
    let sql = ["CREATE TABLE t(a, b)", "CREATE INDEX i ON t(a)"];
    for (rowid, (kind, name)) in [("table", "t"), ("index", "i")].into_iter().enumerate() {
        let tree = if kind == "table" { BtreeKind::Table } else { BtreeKind::Index };
        let tree = txn.create_btree(tree)?;
        let values = [
            ValueRef::Text(kind.as_bytes()),
            ValueRef::Text(name.as_bytes()),
            ValueRef::Text(b"t"),
            ValueRef::Int(i64::from(tree.get())),
            ValueRef::Text(sql[rowid].as_bytes()),
        ];
        txn.table_insert(Pgno::FIRST, rowid as i64 + 1, &record(&values))?;
    }
    txn.bump_schema_cookie()?;
    put_rows(txn, 0..30, 300)
}

/// Every row of the database by our own reading; empty when there is no table yet.
pub(crate) fn rows_by_us(store: &Store) -> Result<Vec<(i64, Vec<u8>)>, Error> {
    let txn = store.begin(Mode::Read)?;
    if !txn.table(Pgno::FIRST)?.next()? {
        return Ok(Vec::new());
    }
    let (table, index) = (try_root(&txn, "t")?, try_root(&txn, "i")?);
    let mut cursor = txn.table(table)?;
    let mut rows = Vec::new();
    while cursor.next()? {
        rows.push((cursor.rowid()?, cursor.payload()?.to_vec()));
    }
    let mut entries = txn.index(index)?;
    let mut count = 0;
    while entries.next()? {
        Record::new(entries.payload()?)?.values().try_for_each(|value| value.map(|_| ()))?;
        count += 1;
    }
    assert_eq!(count, rows.len(), "index and table differ");
    Ok(rows)
}

/// The rows after a program opens the disk `image` and undoes any unfinished transaction.
pub(crate) fn reopened_by_us(image: &Image) -> Vec<(i64, Vec<u8>)> {
    let store = open(&SimVfs::from_image(image), Path::new(DB), Access::Create);
    rows_by_us(&store).unwrap()
}

/// As [`reopened_by_us`], by SQLite, with a check of the file.
pub(crate) fn reopened_by_sqlite(image: &Image) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let plain = crate::common::codec::wanted().map(|codec| {
        // SQLite reads what recovery and a checkpoint leave, in its plain form.
        let vfs = SimVfs::from_image(image);
        drop(open(&vfs, Path::new(DB), Access::Create).begin(Mode::Read).unwrap());
        let bytes = vfs.image().remove(Path::new(DB)).unwrap_or_default();
        Image::from([(DB.into(), crate::common::codec::plain(&*codec, &bytes))])
    });
    for (path, bytes) in plain.as_ref().unwrap_or(image) {
        std::fs::write(folder.path().join(path), bytes).unwrap();
    }
    let db = folder.path().join(DB);
    let is_empty = ask_sqlite_at(&db, "SELECT name FROM sqlite_schema").is_empty();
    let sql =
        "SELECT rowid || ' ' || quote(a) || ' ' || quote(b) FROM t NOT INDEXED ORDER BY rowid";
    if is_empty { Vec::new() } else { ask_sqlite_at(&db, sql) }
}

/// The two states a scenario may end in, as both of us see them.
pub(crate) struct States {
    pub(crate) ours: [Vec<(i64, Vec<u8>)>; 2],
    pub(crate) theirs: [Vec<String>; 2],
    /// The state found in each image, because several crashes leave the same disk.
    pub(crate) known: BTreeMap<Image, usize>,
}

impl States {
    pub(crate) fn new(old: &Image, new: &Image) -> States {
        let states = States {
            ours: [reopened_by_us(old), reopened_by_us(new)],
            theirs: [reopened_by_sqlite(old), reopened_by_sqlite(new)],
            known: BTreeMap::new(),
        };
        assert_ne!(states.ours[0], states.ours[1]);
        assert_ne!(states.theirs[0], states.theirs[1]);
        states
    }

    /// Returns 0 when `image` holds the old state and 1 for the new one.
    pub(crate) fn of(&mut self, image: Image, place: &str) -> usize {
        if let Some(&state) = self.known.get(&image) {
            return state;
        }
        let ours = reopened_by_us(&image);
        let state = self.ours.iter().position(|state| *state == ours);
        let state = state.unwrap_or_else(|| panic!("{place}: we found neither state"));
        let theirs = reopened_by_sqlite(&image);
        assert_eq!(theirs, self.theirs[state], "{place}: SQLite found another state");
        self.known.insert(image, state);
        state
    }
}

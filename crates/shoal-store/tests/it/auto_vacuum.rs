//! Files with pointer maps, written by Shoal and by SQLite in turns: both find each of them whole
//! after every batch.

use std::path::Path;

use crate::common::{self, ask_sqlite, database, open, orders, record, root};
use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{
    Access, AutoVacuum, BtreeKind, Error, JournalMode, Mode, Pgno, Record, Settings, Store,
    Transaction, ValueRef,
};
use shoal_testkit::Random;

const DB: &str = "db";

/// Roots of the schema, with its own first.
fn roots(txn: &Transaction) -> Vec<Pgno> {
    let mut roots = vec![Pgno::FIRST];
    let mut cursor = txn.table(Pgno::FIRST).unwrap();
    while cursor.next().unwrap() {
        let number = Record::new(cursor.payload().unwrap()).unwrap().column(3).unwrap();
        let Some(ValueRef::Int(number)) = number else { panic!("no root") };
        roots.push(Pgno::new(u32::try_from(number).unwrap()).unwrap());
    }
    roots
}

fn names(txn: &Transaction) -> Vec<(i64, String, Pgno)> {
    let mut names = Vec::new();
    let mut cursor = txn.table(Pgno::FIRST).unwrap();
    while cursor.next().unwrap() {
        let rowid = cursor.rowid().unwrap();
        let values = Record::new(cursor.payload().unwrap()).unwrap();
        let (Some(ValueRef::Text(name)), Some(ValueRef::Int(number))) =
            (values.column(1).unwrap(), values.column(3).unwrap())
        else {
            panic!("no name")
        };
        let pgno = Pgno::new(u32::try_from(number).unwrap()).unwrap();
        names.push((rowid, String::from_utf8(name.to_vec()).unwrap(), pgno));
    }
    names
}

fn put_schema(txn: &mut Transaction, rowid: i64, name: &str, root: Pgno) -> Result<(), Error> {
    let sql = format!("CREATE TABLE {name}(a, b)");
    let row = [
        ValueRef::Text(b"table"),
        ValueRef::Text(name.as_bytes()),
        ValueRef::Text(name.as_bytes()),
        ValueRef::Int(i64::from(root.get())),
        ValueRef::Text(sql.as_bytes()),
    ];
    txn.table_insert(Pgno::FIRST, rowid, &record(&row))
}

fn create(txn: &mut Transaction, number: u64) {
    let name = format!("t{number}");
    if names(txn).iter().any(|(_, known, _)| *known == name) {
        return;
    }
    let root = txn.create_btree(BtreeKind::Table).unwrap();
    let rowid = names(txn).last().map_or(1, |(rowid, ..)| rowid + 1);
    put_schema(txn, rowid, &name, root).unwrap();
    txn.bump_schema_cookie().unwrap();
}

fn drop_one(txn: &mut Transaction, random: &mut Random) {
    let tables: Vec<_> =
        names(txn).into_iter().filter(|(_, name, _)| name.len() > 1 && name != "t").collect();
    if tables.is_empty() {
        return;
    }
    let (rowid, _, root) = tables[random.below(tables.len() as u64) as usize].clone();
    let moved = txn.drop_btree(root).unwrap();
    txn.table_delete(Pgno::FIRST, rowid).unwrap();
    if let Some(from) = moved {
        let (rowid, name, _) = names(txn).into_iter().find(|(.., at)| *at == from).unwrap();
        if name.starts_with('t') && name.len() > 1 {
            put_schema(txn, rowid, &name, root).unwrap();
        } else {
            // A row of SQLite's own making keeps its other columns.
            let mut cursor = txn.table(Pgno::FIRST).unwrap();
            assert!(cursor.seek(rowid).unwrap());
            let payload = cursor.payload().unwrap().to_vec();
            drop(cursor);
            let values = Record::new(&payload).unwrap();
            let mut row: Vec<ValueRef<'_>> =
                (0..5).map(|column| values.column(column).unwrap().unwrap()).collect();
            row[3] = ValueRef::Int(i64::from(root.get()));
            let row = record(&row);
            txn.table_insert(Pgno::FIRST, rowid, &row).unwrap();
        }
    }
    txn.bump_schema_cookie().unwrap();
}

fn change(txn: &mut Transaction, random: &mut Random) {
    let tables = names(txn);
    let (_, name, root) = tables[random.below(tables.len() as u64) as usize].clone();
    if name == "i" || name == "j" || name == "t" {
        return both(txn, random);
    }
    for _ in 0..random.below(60) {
        let rowid = random.below(120) as i64;
        if random.below(3) == 0 {
            txn.table_delete(root, rowid).unwrap();
        } else {
            let len = [9, 200, 1500, 9000][random.below(4) as usize];
            let bytes = vec![rowid as u8; len];
            let row = [ValueRef::Int(rowid), ValueRef::Blob(&bytes)];
            txn.table_insert(root, rowid, &record(&row)).unwrap();
        }
    }
}

/// Rows of `t` and the entries of its index.
fn both(txn: &mut Transaction, random: &mut Random) {
    let (table, index) = (root(txn, "t"), root(txn, "i"));
    for _ in 0..random.below(80) {
        let rowid = random.below(150) as i64;
        let key = vec![b'k'; (rowid as usize * 37) % 1300];
        let entry = record(&[ValueRef::Text(&key), ValueRef::Int(rowid)]);
        let known = txn.table_delete(table, rowid).unwrap();
        assert_eq!(txn.index_delete(index, &entry, &orders()[0]).unwrap(), known);
        if random.below(3) > 0 {
            let row = [ValueRef::Text(&key), ValueRef::Null];
            txn.table_insert(table, rowid, &record(&row)).unwrap();
            txn.index_insert(index, &entry, &orders()[0]).unwrap();
        }
    }
}

fn check(store: &Store, vfs: &SimVfs, place: &str) -> u32 {
    let txn = store.begin(Mode::Read).unwrap();
    let found = txn.check_pages(&roots(&txn), true, true, 10).unwrap();
    assert!(found.is_empty(), "{place}: {found:?}");
    let image = vfs.image();
    if !txn.header().is_wal() {
        ask_sqlite(&image[Path::new(DB)], "SELECT '' || count(*) FROM sqlite_schema");
    }
    txn.header().freelist_count
}

#[test]
fn files_of_both_kinds_stay_whole() {
    for (mode, page_size) in
        [("FULL", 512), ("INCREMENTAL", 512), ("FULL", 1024), ("INCREMENTAL", 1024)]
    {
        for seed in 1..=4 {
            let schema = format!(
                "PRAGMA auto_vacuum = {mode}; VACUUM; CREATE TABLE t(a, b); CREATE INDEX i ON t(a);"
            );
            let image = Image::from([(DB.into(), database(page_size, 0, &schema))]);
            let mut random = Random::new(seed * 0x9e37_79b9 + u64::from(page_size));
            let mut vfs = SimVfs::from_image(&image);
            let mut store = open(&vfs, Path::new(DB), Access::ReadWrite);
            let (mut least, mut most) = (u32::MAX, 0);
            for round in 0..60_u64 {
                let place = format!("{mode} {page_size}, seed {seed}, round {round}");
                let mut txn = store.begin(Mode::Write).unwrap();
                for _ in 0..1 + random.below(4) {
                    let before = txn.savepoint().unwrap();
                    match random.below(9) {
                        0 | 1 => create(&mut txn, round % 7),
                        2 => drop_one(&mut txn, &mut random),
                        3 => {
                            let count = random.below(12) as u32;
                            txn.incremental_vacuum(count).unwrap();
                        }
                        4 => both(&mut txn, &mut random),
                        _ => change(&mut txn, &mut random),
                    }
                    if random.below(5) == 0 {
                        txn.rollback_to(&before).unwrap();
                    }
                    txn.release(before).unwrap();
                }
                txn.commit().unwrap();
                let free = check(&store, &vfs, &place);
                assert!(mode == "INCREMENTAL" || free == 0, "{place}: {free} pages are free");
                least = least.min(store.begin(Mode::Read).unwrap().page_count());
                most = most.max(store.begin(Mode::Read).unwrap().page_count());
                match round {
                    20 => drop(store.set_journal_mode(JournalMode::Wal).unwrap()),
                    40 => {
                        let rollback = JournalMode::Rollback(Default::default());
                        store.set_journal_mode(rollback).unwrap();
                        check(&store, &vfs, &place);
                    }
                    _ => {}
                }
                if round % 10 == 9
                    && !(20..40).contains(&round)
                    && common::codec::wanted().is_none()
                {
                    // SQLite goes on with the file.
                    drop(store);
                    let folder = tempfile::tempdir().unwrap();
                    let path = folder.path().join(DB);
                    std::fs::write(&path, &vfs.image()[Path::new(DB)]).unwrap();
                    let peer = rusqlite::Connection::open(&path).unwrap();
                    peer.execute_batch(
                        "PRAGMA synchronous = OFF; CREATE TABLE s(x); INSERT INTO s VALUES(zeroblob(9000));
                         DELETE FROM t WHERE rowid % 3 = 0; DROP TABLE s; PRAGMA incremental_vacuum(5);",
                    )
                    .unwrap();
                    drop(peer);
                    let image = Image::from([(DB.into(), std::fs::read(&path).unwrap())]);
                    vfs = SimVfs::from_image(&image);
                    store = open(&vfs, Path::new(DB), Access::ReadWrite);
                    check(&store, &vfs, &format!("{place}, after SQLite"));
                }
            }
            assert!(least * 2 < most, "{mode}: {least} to {most} pages");
        }
    }
}

#[test]
fn a_new_file_may_be_one() {
    for mode in [AutoVacuum::Full, AutoVacuum::Incremental] {
        let vfs = SimVfs::new();
        let store = open(&vfs, Path::new(DB), Access::Create);
        let mut settings: Settings = store.settings();
        settings.new_file.auto_vacuum = Some(mode);
        settings.new_file.page_size = Some(1024);
        store.set_settings(settings);
        let mut txn = store.begin(Mode::Write).unwrap();
        for number in 0..5 {
            create(&mut txn, number);
        }
        let mut random = Random::new(7);
        for _ in 0..20 {
            change(&mut txn, &mut random);
        }
        txn.commit().unwrap();
        assert_eq!(AutoVacuum::of(store.begin(Mode::Read).unwrap().header()), mode);
        check(&store, &vfs, "new");
    }
}

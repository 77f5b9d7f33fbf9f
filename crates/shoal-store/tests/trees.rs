//! B-trees as a whole: large ones, dropped ones, the order of pages, and steps without allocation.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{SCHEMA, ask_sqlite, database, open, options, record, root};
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, BtreeKind, Error, KeyOrder, Locking, Mode, NewEntry, Options, Pgno, Store, Transaction,
    ValueRef,
};
use shoal_testkit::alloc::{CountingAllocator, count};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const DB: &str = "db";

fn disk(page_size: u32, schema: &str) -> (MemVfs, Store) {
    let vfs = MemVfs::new();
    vfs.put(Path::new(DB), database(page_size, 0, schema));
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    (vfs, store)
}

fn pragma(vfs: &MemVfs, name: &str) -> u32 {
    let sql = format!("SELECT '' || {name} FROM pragma_{name}");
    ask_sqlite(&vfs.get(Path::new(DB)).unwrap(), &sql)[0].parse().unwrap()
}

/// A permutation of 0..`modulus`, a prime.
fn scattered(modulus: i64) -> impl Iterator<Item = i64> {
    (0..modulus).map(move |number| number * 7919 % modulus)
}

fn fill(txn: &mut Transaction, numbers: impl Iterator<Item = i64>) {
    let (table, index) = (root(txn, "t"), root(txn, "i"));
    for rowid in numbers {
        let a = format!("{:05}", rowid * 31 % 10_007);
        let values = [ValueRef::Text(a.as_bytes()), ValueRef::Null];
        txn.table_insert(table, rowid, &record(&values)).unwrap();
        let entry = record(&[values[0], ValueRef::Int(rowid)]);
        txn.index_insert(index, &entry, &KeyOrder::binary()).unwrap();
    }
}

const ONE_INDEX: &str = "CREATE TABLE t(a, b); CREATE INDEX i ON t(a);";

#[test]
fn a_large_tree_grows_and_shrinks() {
    let (vfs, store) = disk(512, ONE_INDEX);
    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, scattered(10_007));
    txn.commit().unwrap();
    let full = pragma(&vfs, "page_count");
    assert_eq!(pragma(&vfs, "freelist_count"), 0);

    let mut txn = store.begin(Mode::Write).unwrap();
    let (table, index) = (root(&txn, "t"), root(&txn, "i"));
    for rowid in scattered(10_007).filter(|rowid| rowid % 100 != 0) {
        assert!(txn.table_delete(table, rowid).unwrap());
        let a = format!("{:05}", rowid * 31 % 10_007);
        let entry = record(&[ValueRef::Text(a.as_bytes()), ValueRef::Int(rowid)]);
        assert!(txn.index_delete(index, &entry, &KeyOrder::binary()).unwrap());
    }
    txn.commit().unwrap();
    assert_eq!(pragma(&vfs, "page_count"), full);
    let free = pragma(&vfs, "freelist_count");
    assert!(free * 20 > full * 19, "{free} of {full} pages are free");

    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, scattered(5003));
    txn.commit().unwrap();
    assert_eq!(pragma(&vfs, "page_count"), full, "free pages are used before new ones");
}

#[test]
fn rows_that_arrive_in_order_leave_full_pages() {
    let (vfs, store) = disk(1024, ONE_INDEX);
    let mut txn = store.begin(Mode::Write).unwrap();
    let (table, index) = (root(&txn, "t"), root(&txn, "i"));
    let peer_rows = 20_000;
    for rowid in 1..=peer_rows {
        let a = ValueRef::Int(rowid + 1_000_000);
        txn.table_insert(table, rowid, &record(&[a, ValueRef::Null])).unwrap();
        txn.index_insert(index, &record(&[a, ValueRef::Int(rowid)]), &KeyOrder::binary()).unwrap();
    }
    txn.commit().unwrap();
    let ours = pragma(&vfs, "page_count");
    let theirs = database(
        1024,
        0,
        &format!(
            "{ONE_INDEX} WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL
             SELECT i + 1 FROM n WHERE i < {peer_rows}) INSERT INTO t SELECT i + 1000000, NULL FROM n"
        ),
    );
    let theirs = theirs.len() / 1024;
    assert!(ours as usize <= theirs, "{ours} pages, SQLite's {theirs}");
}

#[test]
fn a_row_goes_into_all_of_its_trees_or_into_none() {
    let (_, store) = disk(512, ONE_INDEX);
    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, 0..500);
    let (table, index) = (root(&txn, "t"), root(&txn, "i"));
    let order = KeyOrder::binary();
    let long = vec![b'x'; 40];
    let mut put = |rowid: i64, a: &[u8], last: Pgno| {
        let values = [ValueRef::Text(a), ValueRef::Null];
        let entry = record(&[values[0], ValueRef::Int(rowid)]);
        let entries =
            [index, last].map(|root| NewEntry { root, record: &entry, order: &order, unique: 0 });
        let many = if last == index { &entries[..1] } else { &entries[..] };
        let done = txn.insert_row(table, rowid, &record(&values), many.iter().copied());
        let is_there = txn.table(table).unwrap().seek(rowid).unwrap();
        let key = [values[0], ValueRef::Int(rowid)];
        assert_eq!(txn.index(index).unwrap().seek(&key, &order).unwrap(), is_there);
        (done, is_there)
    };
    // The tree that comes last is no index, so every row fails after the first two took it: rows
    // with room where they belong and rows that split pages.
    for rowid in 500..560 {
        assert!(matches!(put(rowid, &long, table), (Err(Error::Corrupt(_)), false)));
    }
    assert!(matches!(put(500, b"a", index), (Ok(()), true)));
    for rowid in 501..600 {
        let a = if rowid % 2 == 0 { &long[..] } else { &b"0"[..] };
        assert!(matches!(put(rowid, a, index), (Ok(()), true)));
        assert!(matches!(put(rowid + 1000, a, table), (Err(Error::Corrupt(_)), false)));
    }
    assert_eq!(txn.last_rowid(table), Some(599));
    assert!(txn.table_delete(table, 599).unwrap());
    assert!(txn.last_rowid(table).is_none_or(|last| last == 598));
    txn.commit().unwrap();
}

#[test]
fn a_store_keeping_its_lock_keeps_its_journal_until_it_is_closed() {
    let vfs = MemVfs::new();
    vfs.put(Path::new(DB), database(512, 0, ONE_INDEX));
    let exclusive = Options { locking: Locking::Exclusive, ..options(Access::ReadWrite) };
    let store = Store::open_with(Arc::new(vfs.clone()), Path::new(DB), exclusive).unwrap();
    for part in 0..3 {
        let mut txn = store.begin(Mode::Write).unwrap();
        fill(&mut txn, part * 100..(part + 1) * 100);
        txn.commit().unwrap();
        let journal = vfs.get(Path::new("db-journal")).unwrap();
        assert!(journal.len() > 512 && journal[..8] == [0; 8], "a journal without its magic");
    }
    let rows = |bytes: &[u8]| ask_sqlite(bytes, "SELECT '' || count(*) FROM t");
    assert_eq!(rows(&vfs.get(Path::new(DB)).unwrap()), ["300"]);
    drop(store);
    assert!(vfs.get(Path::new("db-journal")).is_none());
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, 300..301);
    txn.commit().unwrap();
    assert!(vfs.get(Path::new("db-journal")).is_none());
}

#[test]
fn dropped_and_emptied_trees_give_their_pages_back() {
    if common::codec::wanted().is_some() {
        // The bytes are edited, or read by SQLite, in their plain form.
        return;
    }
    let (vfs, store) = disk(512, ONE_INDEX);
    let mut txn = store.begin(Mode::Write).unwrap();
    let extra = txn.create_btree(BtreeKind::Table).unwrap();
    let long = vec![7; 30_000];
    for rowid in 0..100 {
        txn.table_insert(extra, rowid, &record(&[ValueRef::Blob(&long)])).unwrap();
    }
    fill(&mut txn, 0..3000);
    let pages = txn.page_count();
    txn.drop_btree(extra).unwrap();
    let (table, index) = (root(&txn, "t"), root(&txn, "i"));
    txn.clear_btree(table).unwrap();
    txn.clear_btree(index).unwrap();
    assert!(matches!(txn.drop_btree(Pgno::FIRST), Err(Error::Misuse(_))));
    txn.commit().unwrap();
    assert_eq!(pragma(&vfs, "page_count"), pages);
    assert_eq!(pragma(&vfs, "freelist_count"), pages - 3);

    // SQLite takes pages from our freelist, and we take pages from the rest.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, vfs.get(Path::new(DB)).unwrap()).unwrap();
    let peer = rusqlite::Connection::open(&path).unwrap();
    peer.execute_batch("INSERT INTO t VALUES (1, zeroblob(200000))").unwrap();
    drop(peer);
    vfs.put(Path::new(DB), std::fs::read(&path).unwrap());
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, 2..4000);
    txn.commit().unwrap();
    assert_eq!(pragma(&vfs, "page_count"), pages);
}

#[test]
fn the_page_of_the_lock_is_never_used() {
    if common::codec::wanted().is_some() {
        // The bytes are edited, or read by SQLite, in their plain form.
        return;
    }
    // A file ending just before the page of the lock bytes, all of it free except for the header.
    let (vfs, store) = disk(65536, "CREATE TABLE t(a, b)");
    drop(store);
    let mut bytes = vfs.get(Path::new(DB)).unwrap();
    let last = (0x4000_0000_u32 / 65536).to_be_bytes();
    bytes[28..32].copy_from_slice(&last);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, &bytes).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0x4000_0000).unwrap();
    let store = Store::open_with(
        std::sync::Arc::new(shoal_store::vfs::OsVfs::new()),
        &path,
        options(Access::ReadWrite),
    )
    .unwrap();
    let mut txn = store.begin(Mode::Write).unwrap();
    let table = root(&txn, "t");
    txn.table_insert(table, 1, &record(&[ValueRef::Blob(&vec![5; 150_000])])).unwrap();
    txn.commit().unwrap();
    let txn = store.begin(Mode::Read).unwrap();
    assert_eq!(txn.page_count(), 0x4000_0000 / 65536 + 1 + 2);
    assert!(matches!(txn.table(Pgno::lock_page(65536)), Err(Error::Corrupt(_))));
    drop(txn);
    let peer = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(common::texts(&peer, "SELECT '' || length(a) FROM t"), ["150000"]);
    // Pages 3 to the lock's are in no tree and not on the freelist, as the file was made.
    let found = common::texts(&peer, "PRAGMA integrity_check(100000)").join("\n");
    let unused = found.lines().filter(|line| line.ends_with("never used")).count();
    assert_eq!(unused, 0x4000_0000 / 65536 - 2);
    let other = found.lines().filter(|line| !line.ends_with("never used"));
    assert_eq!(other.collect::<Vec<_>>(), ["*** in database main ***"]);
}

#[test]
fn a_failed_change_is_not_committed() {
    if common::codec::wanted().is_some() {
        // The bytes are edited, or read by SQLite, in their plain form.
        return;
    }
    let (vfs, store) = disk(512, SCHEMA);
    let mut bytes = vfs.get(Path::new(DB)).unwrap();
    // The freelist states a trunk page past the end of the file.
    bytes[32..40].copy_from_slice(&[0, 0, 0, 99, 0, 0, 0, 1]);
    drop(store);
    vfs.put(Path::new(DB), bytes.clone());
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    let mut txn = store.begin(Mode::Write).unwrap();
    let savepoint = txn.savepoint().unwrap();
    let table = root(&txn, "t");
    let long = record(&[ValueRef::Blob(&[1; 900])]);
    assert!(matches!(txn.table_insert(table, 1, &long), Err(Error::Corrupt(_))));
    let short = record(&[ValueRef::Int(5)]);
    assert!(matches!(txn.table_insert(table, 1, &short), Err(Error::Misuse(_))));
    txn.rollback_to(&savepoint).unwrap();
    txn.table_insert(table, 1, &short).unwrap();
    assert!(matches!(txn.table_insert(table, 2, &long), Err(Error::Corrupt(_))));
    assert!(matches!(txn.commit(), Err(Error::Misuse(_))));
    assert_eq!(vfs.get(Path::new(DB)).unwrap(), bytes);
    let mut reader = store.begin(Mode::Read).unwrap();
    assert!(matches!(reader.table_insert(table, 1, &short), Err(Error::Misuse(_))));
    assert!(matches!(reader.savepoint(), Err(Error::Misuse(_))));
}

#[test]
fn steps_and_seeks_allocate_nothing() {
    let (_vfs, store) = disk(1024, ONE_INDEX);
    let mut txn = store.begin(Mode::Write).unwrap();
    fill(&mut txn, 0..5000);
    txn.commit().unwrap();
    let txn = store.begin(Mode::Read).unwrap();
    let (table, index) = (root(&txn, "t"), root(&txn, "i"));
    let scan = || {
        let mut rows = txn.table(table).unwrap();
        let mut bytes = 0;
        while rows.next().unwrap() {
            bytes += rows.payload().unwrap().len();
        }
        for rowid in (0..5000).step_by(7) {
            assert!(rows.seek(rowid).unwrap());
        }
        let mut entries = txn.index(index).unwrap();
        while entries.next().unwrap() {
            bytes += entries.payload().unwrap().len();
        }
        let order = KeyOrder::binary();
        assert!(entries.seek(&[ValueRef::Text(b"00031")], &order).unwrap());
        bytes
    };
    // The first scan reads the pages.
    let expect = scan();
    assert_eq!(count(scan), (expect, 0));
}

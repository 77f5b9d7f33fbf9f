//! Rows found by rowid: a lookup must find the same as a cursor, in trees of every shape, over
//! changes of the file, in both locking modes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, database, open, options, record, root};
use proptest::prelude::*;
use shoal_store::vfs::{MemVfs, OsVfs};
use shoal_store::{
    Access, BATCH, ColumnFinder, Error, Locking, Mode, Options, Pgno, Record, Store, TableLookup,
    TableScan, Transaction, ValueRef,
};

const DB: &str = "db";

/// The row found by a cursor at `rowid`.
fn by_cursor(txn: &Transaction, table: Pgno, rowid: i64) -> Option<Vec<u8>> {
    let mut cursor = txn.table(table).unwrap();
    if !cursor.seek(rowid).unwrap() {
        return None;
    }
    Some(cursor.payload().unwrap().to_vec())
}

fn by_lookup(lookup: &mut TableLookup, txn: &Transaction, rowid: i64) -> Option<Vec<u8>> {
    let payload = lookup.seek(txn, rowid).unwrap()?;
    let mut bytes = Vec::new();
    txn.read_payload(payload, &mut bytes).unwrap();
    Some(bytes)
}

/// Compares at every rowid and its neighbours, forwards and in jumps, alone and in batches.
fn check(txn: &Transaction, table: Pgno, rowids: &[i64], lookup: &mut TableLookup) {
    let mut asked: Vec<i64> = [i64::MIN, -1, 0, 1, i64::MAX].to_vec();
    for &rowid in rowids {
        asked.extend([rowid, rowid.saturating_sub(1), rowid.saturating_add(1)]);
    }
    let count = asked.len();
    for place in (0..count).chain((0..count).map(|place| place * 7919 % count)) {
        let expect = by_cursor(txn, table, asked[place]);
        assert_eq!(by_lookup(lookup, txn, asked[place]), expect, "{}", asked[place]);
    }
    check_each(txn, table, &asked, lookup);
    let jumps: Vec<i64> = (0..count).map(|place| asked[place * 7919 % count]).collect();
    check_each(txn, table, &jumps, lookup);
    for rowids in asked.chunks(BATCH) {
        let mut found = [None; BATCH];
        lookup.seek_batch(txn, rowids, &mut found).unwrap();
        for (rowid, found) in rowids.iter().zip(found) {
            let mut bytes = Vec::new();
            let found = found.map(|payload| {
                txn.read_payload(payload, &mut bytes).unwrap();
                bytes
            });
            assert_eq!(found, by_cursor(txn, table, *rowid), "{rowid}");
        }
    }
}

/// Many at a time: every existing row, once for each request, in the order of the requests.
fn check_each(txn: &Transaction, table: Pgno, asked: &[i64], lookup: &mut TableLookup) {
    let mut found = Vec::new();
    lookup
        .locate_each(txn, asked, |number, page, index, cell| {
            assert_eq!(cell.rowid, asked[number]);
            let mut bytes = Vec::new();
            txn.read_payload(page.payload(index, cell)?, &mut bytes)?;
            found.push((asked[number], bytes));
            Ok(())
        })
        .unwrap();
    let expect = asked.iter().filter_map(|&rowid| Some((rowid, by_cursor(txn, table, rowid)?)));
    assert_eq!(found, expect.collect::<Vec<_>>());
}

/// A scan must find the same rows as a cursor.
fn check_scan(txn: &Transaction, table: Pgno) {
    for wanted in [&[][..], &[0], &[1], &[0, 1], &[1, 5]] {
        let mut cursor = txn.table(table).unwrap();
        let mut scan = TableScan::new(txn.table(table).unwrap(), ColumnFinder::new(wanted));
        while cursor.next().unwrap() {
            let row = scan.next().unwrap().unwrap();
            assert_eq!(row.rowid(), cursor.rowid().unwrap());
            let record = Record::new(cursor.payload().unwrap()).unwrap();
            for (number, &index) in wanted.iter().enumerate() {
                assert_eq!(row.value(number), record.column(index).unwrap());
            }
            assert_eq!(row.value(wanted.len()), None);
        }
        assert!(scan.next().unwrap().is_none());
        assert!(scan.next().unwrap().is_none());
    }
}

fn fill(store: &Store, rowids: &[i64], length: usize) -> Pgno {
    let mut txn = store.begin(Mode::Write).unwrap();
    let table = root(&txn, "t");
    for rowid in rowids {
        let text = vec![b'x'; length + rowid.unsigned_abs() as usize % 5];
        let row = record(&[ValueRef::Int(*rowid), ValueRef::Text(&text)]);
        txn.table_insert(table, *rowid, &row).unwrap();
    }
    // A writer sees its own changes.
    check(&txn, table, &rowids[..rowids.len().min(40)], &mut TableLookup::new(table));
    txn.commit().unwrap();
    table
}

fn store_of(page_size: u32) -> Store {
    let vfs = MemVfs::new();
    vfs.put(Path::new(DB), database(page_size, 0, "CREATE TABLE t(a, b);"));
    open(&vfs, Path::new(DB), Access::ReadWrite)
}

#[test]
fn dense_sparse_and_far_rowids_on_one_to_four_levels() {
    let shapes: [(Vec<i64>, usize); 5] = [
        (vec![], 0),
        ((1..=3).collect(), 10),
        ((1..=3000).collect(), 40),
        ((-900..=900).map(|number: i64| number * number.abs() * 17).collect(), 60),
        (
            (0..700)
                .map(|number: i64| i64::MIN + number)
                .chain((0..700).map(|number| i64::MAX - number))
                .chain([-5, 0, 5])
                .collect(),
            90,
        ),
    ];
    for page_size in [512, 4096] {
        for (rowids, length) in &shapes {
            let store = store_of(page_size);
            let table = fill(&store, rowids, *length);
            let txn = store.begin(Mode::Read).unwrap();
            check(&txn, table, rowids, &mut TableLookup::new(table));
            check_scan(&txn, table);
        }
    }
}

#[test]
fn scans_read_rows_on_several_pages() {
    let store = store_of(512);
    let mut txn = store.begin(Mode::Write).unwrap();
    let table = root(&txn, "t");
    for rowid in 0..200 {
        let text = vec![b'y'; if rowid % 3 == 0 { rowid as usize * 20 } else { 9 }];
        let row = record(&[ValueRef::Int(rowid), ValueRef::Text(&text)]);
        txn.table_insert(table, rowid, &row).unwrap();
    }
    check_scan(&txn, table);
    txn.commit().unwrap();
    check_scan(&store.begin(Mode::Read).unwrap(), table);
}

#[test]
fn a_lookup_outlives_its_transaction_and_sees_what_changed() {
    let store = store_of(512);
    let table = fill(&store, &(1..=2000).collect::<Vec<_>>(), 20);
    let mut lookup = TableLookup::new(table);
    check(&store.begin(Mode::Read).unwrap(), table, &[1, 999, 2000], &mut lookup);
    let mut txn = store.begin(Mode::Write).unwrap();
    for rowid in (1..=2000).step_by(3) {
        assert!(txn.table_delete(table, rowid).unwrap());
        assert_eq!(by_lookup(&mut lookup, &txn, rowid), None);
        assert!(by_lookup(&mut lookup, &txn, rowid + 1).is_some());
    }
    txn.commit().unwrap();
    let txn = store.begin(Mode::Read).unwrap();
    check(&txn, table, &(1..=2000).collect::<Vec<_>>(), &mut lookup);
}

#[test]
fn exclusive_keeps_writers_out_and_costs_no_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, database(4096, 0, "CREATE TABLE t(a, b);")).unwrap();
    let rowids: Vec<i64> = (1..=5000).collect();
    let table = fill(&open(&OsVfs::new(), &path, Access::ReadWrite), &rowids, 30);
    let vfs = Arc::new(OsVfs::new());
    for access in [Access::ReadOnly, Access::ReadWrite] {
        let exclusive = Options { locking: Locking::Exclusive, ..options(access) };
        let store = Store::open_with(vfs.clone(), &path, exclusive).unwrap();
        let txn = store.begin(Mode::Read).unwrap();
        check(&txn, table, &rowids[..200], &mut TableLookup::new(table));
        drop(txn);
        // Between transactions, too, others read and nobody else writes.
        let other = Options { busy_timeout: Duration::ZERO, ..options(Access::ReadWrite) };
        let other = Store::open_with(vfs.clone(), &path, other).unwrap();
        let mut write = other.begin(Mode::Write).unwrap();
        write.table_insert(table, 1, &record(&[ValueRef::Int(1)])).unwrap();
        assert!(matches!(write.commit(), Err(Error::Busy { .. })));
        if access == Access::ReadWrite {
            // The store itself may write, and its readers see the change.
            let mut txn = store.begin(Mode::Write).unwrap();
            txn.table_insert(table, 7000, &record(&[ValueRef::Int(7)])).unwrap();
            txn.commit().unwrap();
            let txn = store.begin(Mode::Read).unwrap();
            assert!(TableLookup::new(table).seek(&txn, 7000).unwrap().is_some());
        }
    }
}

#[test]
fn a_file_larger_than_the_cache_is_mapped_and_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, database(4096, 0, "CREATE TABLE t(a, b);")).unwrap();
    let small = Options { cache_pages: 2, ..options(Access::ReadWrite) };
    let store = Store::open_with(Arc::new(OsVfs::new()), &path, small).unwrap();
    let rowids: Vec<i64> = (1..=4000).collect();
    let table = fill(&store, &rowids, 30);
    for round in 0..3 {
        let txn = store.begin(Mode::Read).unwrap();
        check(&txn, table, &rowids[..100], &mut TableLookup::new(table));
        drop(txn);
        let mut txn = store.begin(Mode::Write).unwrap();
        txn.table_insert(table, 9000 + round, &record(&[ValueRef::Int(round)])).unwrap();
        txn.commit().unwrap();
        // The lock went with the mapping.
        let other = open(&OsVfs::new(), &path, Access::ReadWrite);
        let mut txn = other.begin(Mode::Write).unwrap();
        txn.table_insert(table, 8000 + round, &record(&[ValueRef::Int(round)])).unwrap();
        txn.commit().unwrap();
    }
    let txn = store.begin(Mode::Read).unwrap();
    let mut lookup = TableLookup::new(table);
    for rowid in [8000, 8002, 9000, 9002] {
        assert!(lookup.seek(&txn, rowid).unwrap().is_some());
    }
}

/// Separators decoded in one transaction serve the next as long as the file stays the same; another
/// process's changes are seen; a shortened file is refused, and nothing past its end is read.
#[test]
fn a_mapped_file_changes_between_transactions() {
    if common::codec::wanted().is_some() {
        // The bytes are edited, or read by SQLite, in their plain form.
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DB);
    std::fs::write(&path, database(4096, 0, "CREATE TABLE t(a, b);")).unwrap();
    let rowids: Vec<i64> = (1..=4000).collect();
    let table = fill(&open(&OsVfs::new(), &path, Access::ReadWrite), &rowids, 30);
    let small = Options { cache_pages: 2, ..options(Access::ReadOnly) };
    let store = Store::open_with(Arc::new(OsVfs::new()), &path, small).unwrap();
    let mut lookup = TableLookup::new(table);
    for round in 0..40 {
        let txn = store.begin(Mode::Read).unwrap();
        let nested = store.begin(Mode::Read).unwrap();
        for rowid in [1, 77 * round % 4000 + 1, 4000] {
            assert_eq!(by_lookup(&mut lookup, &txn, rowid), by_cursor(&nested, table, rowid));
        }
        let found = by_lookup(&mut lookup, &txn, 10_000 + round - 1).is_some();
        assert_eq!(found, round % 8 == 1, "{round}");
        drop(txn);
        assert!(by_lookup(&mut lookup, &nested, 4000).is_some());
        drop(nested);
        if round % 8 == 0 {
            let other = open(&OsVfs::new(), &path, Access::ReadWrite);
            let mut txn = other.begin(Mode::Write).unwrap();
            txn.table_insert(table, 10_000 + round, &record(&[ValueRef::Int(1)])).unwrap();
            txn.commit().unwrap();
        }
    }
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4096 * 3).unwrap();
    assert!(matches!(store.begin(Mode::Read), Err(Error::Corrupt(_))));
    file.set_len(0).unwrap();
    assert_eq!(store.begin(Mode::Read).unwrap().page_count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_rowids(mut rowids in proptest::collection::vec(any::<i64>(), 1..600), shift in 0_u32..60) {
        for rowid in &mut rowids {
            *rowid >>= shift;
        }
        rowids.sort_unstable();
        rowids.dedup();
        let store = store_of(512);
        let table = fill(&store, &rowids, 20);
        let txn = store.begin(Mode::Read).unwrap();
        check(&txn, table, &rowids, &mut TableLookup::new(table));
    }
}

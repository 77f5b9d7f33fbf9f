//! Trees filled from their front to their end: whole to SQLite at every size, and pages as full as
//! cells allow.

use std::path::Path;

use crate::common::{ask_sqlite, database, open, record, root};
use shoal_store::vfs::{Image, SimVfs};
use shoal_store::{Access, Error, Mode, Store, Transaction, ValueRef};

const DB: &str = "db";
const SCHEMA: &str = "CREATE TABLE t(a, b); CREATE INDEX i ON t(a);";

fn fresh(page_size: u32, reserved: u8) -> (SimVfs, Store) {
    fresh_with(page_size, reserved, SCHEMA)
}

fn fresh_with(page_size: u32, reserved: u8, schema: &str) -> (SimVfs, Store) {
    let vfs =
        SimVfs::from_image(&Image::from([(DB.into(), database(page_size, reserved, schema))]));
    let store = open(&vfs, Path::new(DB), Access::ReadWrite);
    (vfs, store)
}

fn file(vfs: &SimVfs) -> Vec<u8> {
    vfs.image().remove(Path::new(DB)).unwrap()
}

/// Fills table and index with so many rows, whose texts are as long as `length` says.
fn fill(txn: &mut Transaction, rows: i64, length: impl Fn(i64) -> usize) {
    let (table, index) = (root(txn, "t"), root(txn, "i"));
    let text = |row: i64| {
        let mut text = format!("{row:08}").into_bytes();
        text.resize(text.len().max(length(row)), b'x');
        text
    };
    let mut tree = txn.fill_tree(table).unwrap();
    for row in 1..=rows {
        let text = text(row);
        tree.push_row(row * 3, &record(&[ValueRef::Text(&text), ValueRef::Int(row)])).unwrap();
    }
    tree.finish().unwrap();
    let mut tree = txn.fill_tree(index).unwrap();
    for row in 1..=rows {
        let text = text(row);
        tree.push_entry(&record(&[ValueRef::Text(&text), ValueRef::Int(row * 3)])).unwrap();
    }
    tree.finish().unwrap();
}

const ASK: &str = "SELECT count(*) || ' ' || ifnull(sum(b), 0) || ' ' || \
    (SELECT count(*) FROM t INDEXED BY i WHERE a > '') || ' ' || \
    ifnull((SELECT max(rowid) FROM t WHERE a >= (SELECT max(a) FROM t)), 0) FROM t";

#[test]
fn every_size_is_whole() {
    for (page_size, reserved) in [(512, 0), (512, 32), (1024, 0), (4096, 0), (65_536, 0)] {
        let sizes =
            (0_i64..40).chain((40..3_000).step_by(if page_size > 1024 { 811 } else { 173 }));
        for rows in sizes {
            let (vfs, store) = fresh(page_size, reserved);
            let mut txn = store.begin(Mode::Write).unwrap();
            // Short cells, cells that nearly fill a page of the index, and a few chains.
            fill(&mut txn, rows, |row| match (row + rows * 5) % 37 {
                0 => 3_000,
                1 | 2 => 100,
                _ => 8,
            });
            txn.commit().unwrap();
            drop(store);
            let sum = rows * (rows + 1) / 2;
            let bytes = file(&vfs);
            let expect = format!("{rows} {sum} {rows} {}", rows * 3);
            assert_eq!(ask_sqlite(&bytes, ASK), [expect], "{page_size} {reserved} {rows}");
        }
    }
}

#[test]
fn every_count_around_full_pages_is_whole() {
    for rows in (0..400).chain(1_150..1_250) {
        let (vfs, store) = fresh(512, 0);
        let mut txn = store.begin(Mode::Write).unwrap();
        fill(&mut txn, rows, |_| 8);
        txn.commit().unwrap();
        drop(store);
        let bytes = file(&vfs);
        let expect = format!("{rows} {} {rows} {}", rows * (rows + 1) / 2, rows * 3);
        assert_eq!(ask_sqlite(&bytes, ASK), [expect], "{rows}");
    }
}

#[test]
fn free_pages_are_used_and_pointer_maps_kept() {
    let schema = format!(
        "PRAGMA auto_vacuum = 2; VACUUM; {SCHEMA} CREATE TABLE gone(x);
         INSERT INTO gone WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 90)
         SELECT zeroblob(900) FROM n; DELETE FROM gone;"
    );
    let (vfs, store) = fresh_with(1024, 0, &schema);
    let mut txn = store.begin(Mode::Write).unwrap();
    let before = txn.header().freelist_count;
    assert!(before > 50, "{before}");
    fill(&mut txn, 1_500, |row| if row % 40 == 0 { 2_500 } else { 20 });
    assert_eq!(txn.header().freelist_count, 0);
    txn.commit().unwrap();
    drop(store);
    let bytes = file(&vfs);
    assert_eq!(ask_sqlite(&bytes, ASK), ["1500 1125750 1500 4500"]);
}

#[test]
fn pages_are_full() {
    let (vfs, store) = fresh(4096, 0);
    let mut txn = store.begin(Mode::Write).unwrap();
    let before = txn.page_count();
    fill(&mut txn, 20_000, |_| 8);
    let pages = txn.page_count() - before;
    txn.commit().unwrap();
    drop(store);
    // A row takes 8 + 2 bytes of text and number at most, 5 of a header, 4 of a cell and 2 of a
    // pointer; an entry no more: with 4 % for the pages above, and with room for a codec.
    let most = (2 * 20_000 * 22 / 4_024) * 104 / 100;
    assert!(pages <= most, "{pages} pages, {most} at most");
    drop(vfs);
}

#[test]
fn what_cannot_be_filled_is_refused() {
    let (_vfs, store) = fresh(1024, 0);
    let mut txn = store.begin(Mode::Write).unwrap();
    let table = root(&txn, "t");
    let row = record(&[ValueRef::Int(1)]);
    let savepoint = txn.savepoint().unwrap();
    let mut tree = txn.fill_tree(table).unwrap();
    tree.push_row(5, &row).unwrap();
    assert!(matches!(tree.push_row(5, &row), Err(Error::Misuse(_))));
    drop(tree);
    // What was begun and not ended is to be taken back.
    assert!(matches!(txn.table_insert(table, 1, &row), Err(Error::Misuse(_))));
    txn.rollback_to(&savepoint).unwrap();
    txn.table_insert(table, 1, &row).unwrap();
    assert!(matches!(txn.fill_tree(table), Err(Error::Misuse(_))));
    assert!(matches!(txn.fill_tree(shoal_store::Pgno::FIRST), Err(Error::Misuse(_))));
    drop(txn);
    let mut reader = store.begin(Mode::Read).unwrap();
    assert!(matches!(reader.fill_tree(table), Err(Error::Misuse(_))));
}

//! Files made to mislead: reading, changing and undoing them ends in rows or an error, never in a
//! panic, a circle or a large allocation.

use std::path::Path;
use std::sync::Arc;

use crate::common::{database, options, orders, record};
use proptest::prelude::*;
use shoal_format::wal;
use shoal_store::vfs::{Image, MemVfs, SimVfs};
use shoal_store::{
    Access, BATCH, BtreeKind, ColumnFinder, Error, Mode, Pgno, Store, TableLookup, TableScan,
    Transaction, ValueRef,
};
use shoal_testkit::corpus;

const DB: &str = "db";

fn open(bytes: &[u8]) -> Result<Store, Error> {
    let vfs = MemVfs::new();
    vfs.put(Path::new(DB), bytes.to_vec());
    Store::open_with(Arc::new(vfs), Path::new(DB), options(Access::ReadWrite))
}

/// Reads every page as root of a table and of an index, up to an error.
fn walk(txn: &Transaction) {
    for number in 1..=txn.page_count().min(200) {
        let root = Pgno::new(number).unwrap();
        if let Ok(mut cursor) = txn.table(root) {
            while matches!(cursor.next(), Ok(true)) && cursor.payload().is_ok() {}
            while matches!(cursor.prev(), Ok(true)) {}
            let _ = cursor.seek(i64::from(number));
        }
        if let Ok(cursor) = txn.table(root) {
            let mut scan = TableScan::new(cursor, ColumnFinder::new(&[0, 2]));
            while let Ok(Some(row)) = scan.next() {
                let _ = (row.value(0), row.value(1));
            }
        }
        // Enough lookups to have the tree's separators decoded.
        let mut lookup = TableLookup::new(root);
        for rowid in -5..40 {
            if let Ok(Some(payload)) = lookup.seek(txn, rowid * i64::from(number)) {
                let _ = txn.read_payload(payload, &mut Vec::new());
            }
        }
        let _ = lookup.seek_batch(txn, &[1, -1, 3, 400], &mut [None; BATCH]);
        if let Ok(mut cursor) = txn.index(root) {
            while matches!(cursor.next(), Ok(true)) && cursor.payload().is_ok() {}
            while matches!(cursor.prev(), Ok(true)) {}
            let _ = cursor.seek(&[ValueRef::Int(i64::from(number))], &orders()[1]);
        }
    }
}

/// Tries changes on every page as a root; a failed change is taken back.
fn change(txn: &mut Transaction, salt: u32) {
    let long = vec![b'x'; 1500];
    for number in 1..=txn.page_count().min(60) {
        let root = Pgno::new(number).unwrap();
        for round in 0..6_i64 {
            let rowid = i64::from(salt) * round;
            let text = &long[..(salt as usize * 37 * (round as usize + 1)) % 1500];
            let row = record(&[ValueRef::Text(text), ValueRef::Int(rowid)]);
            attempt(txn, |txn| txn.table_insert(root, rowid, &row));
            attempt(txn, |txn| txn.index_insert(root, &row, &orders()[0]));
            attempt(txn, |txn| txn.table_delete(root, round * 3).map(drop));
            attempt(txn, |txn| txn.index_delete(root, &row, &orders()[0]).map(drop));
        }
        match salt % 4 {
            0 => attempt(txn, |txn| txn.clear_btree(root)),
            1 if number > 1 => attempt(txn, |txn| txn.drop_btree(root).map(drop)),
            2 => attempt(txn, |txn| txn.create_btree(BtreeKind::Index).map(drop)),
            _ => {}
        }
    }
}

fn attempt(txn: &mut Transaction, work: impl FnOnce(&mut Transaction) -> Result<(), Error>) {
    let savepoint = txn.savepoint().unwrap();
    if let Err(error) = work(txn) {
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        txn.rollback_to(&savepoint).unwrap();
    }
    txn.release(savepoint).unwrap();
}

fn exercise(bytes: &[u8], salt: u32) {
    let Ok(store) = open(bytes) else { return };
    let Ok(txn) = store.begin(Mode::Read) else { return };
    walk(&txn);
    drop(txn);
    let Ok(mut txn) = store.begin(Mode::Write) else { return };
    change(&mut txn, salt);
    txn.commit().unwrap();
    if let Ok(txn) = store.begin(Mode::Read) {
        walk(&txn);
    }
}

#[test]
fn corrupt_databases_can_be_changed_without_a_panic() {
    for (number, path) in corpus("corrupt").into_iter().enumerate() {
        let mut bytes = std::fs::read(path).unwrap();
        for salt in 0..4 {
            if bytes.len() > 100 {
                // Most are refused as auto-vacuum files otherwise.
                bytes[52..56].fill(0);
                bytes[18..20].fill(1);
            }
            exercise(&bytes, number as u32 * 4 + salt);
        }
    }
}

/// Memory for a state includes a place for each of its pages. A file of 512 bytes in write-ahead
/// log mode, stating 4,294,967,294 pages, made the process ask for 100 GB.
#[test]
fn files_with_a_log_that_state_pages_which_are_not_there_are_refused() {
    let mut bytes = database(512, 0, "CREATE TABLE t(a)");
    bytes[18..20].fill(2);
    assert!(open(&bytes).is_ok());
    bytes[28..32].copy_from_slice(&u32::MAX.saturating_sub(1).to_be_bytes());
    assert!(matches!(open(&bytes), Err(Error::Corrupt(_))));
    // A log of one frame: a page far behind the others, and a commit of as many.
    bytes[28..32].copy_from_slice(&0_u32.to_be_bytes());
    let refused = |pgno: u32, page_count: u32| {
        let mut log = Vec::new();
        for word in [wal::MAGIC, wal::VERSION, 512, 0, 7, 8] {
            log.extend_from_slice(&word.to_be_bytes());
        }
        let mut checksum = wal::Checksum { big_endian: false, sums: [0; 2] };
        checksum.add(&log);
        log.extend_from_slice(&checksum.bytes());
        let mut frame = [pgno.to_be_bytes(), page_count.to_be_bytes()].concat();
        let page = [0; 512];
        checksum.add(&frame);
        checksum.add(&page);
        for word in [7_u32, 8] {
            frame.extend_from_slice(&word.to_be_bytes());
        }
        frame.extend_from_slice(&checksum.bytes());
        let vfs = MemVfs::new();
        vfs.put(Path::new(DB), bytes.clone());
        vfs.put(Path::new("db-wal"), [log, frame, page.to_vec()].concat());
        let opened = Store::open_with(Arc::new(vfs), Path::new(DB), options(Access::ReadOnly));
        match opened {
            Ok(store) => {
                assert_eq!(store.begin(Mode::Read).unwrap().page_count(), page_count);
                false
            }
            Err(error) => matches!(error, Error::Corrupt(_)),
        }
    };
    let pages = u32::try_from(bytes.len() / 512).unwrap();
    assert!(!refused(pages + 1, pages + 1));
    assert!(refused(pages + 1, u32::MAX - 1));
    assert!(refused(u32::MAX - 1, u32::MAX - 1));
}

/// A file with a pointer map states its last root. A stated root past all pages made the next new
/// tree extend the file up to that page: four billion pages in memory.
#[test]
fn a_tree_is_not_made_behind_a_last_root_past_all_pages() {
    let bytes = database(512, 0, "PRAGMA auto_vacuum = 1; CREATE TABLE t(a)");
    let pages = u32::try_from(bytes.len() / 512).unwrap();
    let create = |largest_root: u32| {
        let mut bytes = bytes.clone();
        bytes[52..56].copy_from_slice(&largest_root.to_be_bytes());
        let store = open(&bytes).unwrap();
        let mut txn = store.begin(Mode::Write).unwrap();
        let made = txn.create_btree(BtreeKind::Table);
        assert!(txn.page_count() <= pages + 1);
        made
    };
    assert!(create(pages).is_ok());
    for past in [pages + 1, 100_000, u32::MAX - 1, u32::MAX] {
        assert!(matches!(create(past), Err(Error::Corrupt(_))), "{past}");
    }
}

/// A small database with interior pages, overflow pages and a freelist.
fn sample() -> Vec<u8> {
    database(
        512,
        0,
        "CREATE TABLE t(a, b); CREATE INDEX i ON t(a); CREATE INDEX j ON t(b DESC, a COLLATE NOCASE);
         WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 150)
         INSERT INTO t SELECT printf('%0*d', i % 60, i), zeroblob(i * 7 % 900) FROM n;
         DELETE FROM t WHERE rowid % 3 = 0;",
    )
}

/// A database in the middle of a change, and its journal, as a crash leaves the two.
fn crashed() -> Image {
    let image = Image::from([(DB.into(), sample())]);
    let vfs = SimVfs::from_image(&image);
    let store =
        Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options(Access::ReadWrite)).unwrap();
    let mut txn = store.begin(Mode::Write).unwrap();
    change(&mut txn, 3);
    txn.commit().unwrap();
    (0..vfs.calls())
        .map(|calls| vfs.image_after_crash(calls, 1))
        .rfind(|image| image.contains_key(Path::new("db-journal")))
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn forged_databases_are_safe(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        heads in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..16, any::<u8>()), 0..6),
        salt in any::<u16>(),
    ) {
        let mut bytes = sample();
        for (place, value) in changes {
            let at = place.index(bytes.len());
            bytes[at] = value;
        }
        // The first bytes of a page are where most of its meaning is.
        for (page, offset, value) in heads {
            let at = page.index(bytes.len() / 512) * 512 + offset;
            if at >= 100 {
                bytes[at] = value % 64;
            }
        }
        exercise(&bytes, u32::from(salt));
    }

    #[test]
    fn forged_journals_are_safe(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        heads in prop::collection::vec((8_usize..28, any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut image = crashed();
        let journal = image.get_mut(Path::new("db-journal")).unwrap();
        for (place, value) in changes {
            let at = place.index(journal.len());
            journal[at] = value;
        }
        for (at, value) in heads {
            journal[at] = value;
        }
        let length = journal.len() - cut.index(2 * journal.len()).saturating_sub(journal.len());
        journal.truncate(length);
        let size = image[Path::new(DB)].len() + image[Path::new("db-journal")].len();
        let vfs = SimVfs::from_image(&image);
        let opened =
            Store::open_with(Arc::new(vfs.clone()), Path::new(DB), options(Access::ReadWrite));
        if let Ok(store) = opened
            && let Ok(txn) = store.begin(Mode::Read)
        {
            walk(&txn);
        }
        let now = vfs.image()[Path::new(DB)].len();
        prop_assert!(now <= size + 65536, "{} bytes in two files became {}", size, now);
    }
}

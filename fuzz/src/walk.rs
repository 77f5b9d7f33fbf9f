//! Walking every b-tree of a possibly forged database.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shoal_store::vfs::{MemVfs, SeededEntropy};
use shoal_store::{Access, Error, KeyOrder, Mode, Options, Pgno, Record, Store, ValueRef};

/// Path of the database in the [`MemVfs`]; its journal lies beside.
pub const DATABASE: &str = "/fuzz.db";
/// Where its journal lies.
pub const JOURNAL: &str = "/fuzz.db-journal";

/// Entries read of one tree in one direction: a page listed as its own descendant turns a small
/// file into a tree of any size.
const STEPS: usize = 500;

/// Opens the database in `vfs`.
///
/// # Errors
/// When the bytes are no database.
pub fn open(vfs: &MemVfs, access: Access) -> Result<Store, Error> {
    let options = Options {
        busy_timeout: Duration::ZERO,
        entropy: Arc::new(SeededEntropy::new(1)),
        ..Options::new(access)
    };
    Store::open_with(Arc::new(vfs.clone()), Path::new(DATABASE), options)
}

/// Takes each of the first pages for the root of a table, then of an index, and reads the tree in
/// every way offered.
pub fn walk(store: &Store) {
    let Ok(transaction) = store.begin(Mode::Read) else { return };
    for number in 1..=transaction.page_count().min(40) {
        let root = Pgno::new(number).expect("not zero");
        let forward = table(&transaction, root, true);
        let backward = table(&transaction, root, false);
        assert_same(forward, backward);
        let forward = index(&transaction, root, true);
        let backward = index(&transaction, root, false);
        assert_same(forward, backward);
    }
}

/// Both ways through a sound tree meet as many entries.
fn assert_same(forward: Option<usize>, backward: Option<usize>) {
    if let (Some(forward), Some(backward)) = (forward, backward) {
        assert_eq!(forward, backward);
    }
}

/// Reads the rows in one direction: their number, `None` when there is an error or no end.
fn table(transaction: &shoal_store::Transaction, root: Pgno, forward: bool) -> Option<usize> {
    let mut cursor = transaction.table(root).ok()?;
    for rowid in [0, 1, 7, i64::MIN, i64::MAX] {
        if cursor.seek(rowid).ok()? {
            assert_eq!(cursor.rowid().ok()?, rowid);
        }
    }
    let mut more = if forward { cursor.first() } else { cursor.last() }.ok()?;
    let mut count = 0;
    while more {
        assert!(cursor.is_valid());
        cursor.rowid().ok()?;
        read(cursor.payload().ok()?);
        count += 1;
        if count == STEPS {
            return None;
        }
        more = if forward { cursor.next() } else { cursor.prev() }.ok()?;
    }
    assert!(!cursor.is_valid());
    Some(count)
}

/// As [`table`], for an index.
fn index(transaction: &shoal_store::Transaction, root: Pgno, forward: bool) -> Option<usize> {
    let mut cursor = transaction.index(root).ok()?;
    let keys: [&[ValueRef<'_>]; 4] = [
        &[],
        &[ValueRef::Int(1)],
        &[ValueRef::Text(b"a"), ValueRef::Null],
        &[ValueRef::Blob(b"\xff")],
    ];
    for key in keys {
        cursor.seek(key, &KeyOrder::binary()).ok()?;
        cursor.seek_after(key, &KeyOrder::binary()).ok()?;
    }
    let mut more = if forward { cursor.first() } else { cursor.last() }.ok()?;
    let mut count = 0;
    while more {
        assert!(cursor.is_valid());
        read(cursor.payload().ok()?);
        count += 1;
        if count == STEPS {
            return None;
        }
        more = if forward { cursor.next() } else { cursor.prev() }.ok()?;
    }
    assert!(!cursor.is_valid());
    Some(count)
}

fn read(payload: &[u8]) {
    if let Ok(record) = Record::new(payload) {
        let _ = record.values().count();
    }
}

//! `shoal_store::btree`, `freelist`, `commit`: any bytes as a database file open for writing. An
//! edit succeeds or is refused; going back to a savepoint, through savepoints released within it,
//! restores every page, and an uncommitted transaction leaves the file as before.
//!
//! The first byte is the length of the script of edits, next in the input; the rest is the file.
#![no_main]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::script::Script;
use shoal_fuzz::{bounded, walk};
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, BtreeKind, Error, KeyOrder, Mode, Pgno, Savepoint, Transaction, ValueRef, encode_record,
};

fuzz_target!(|data: &[u8]| {
    let Some((length, data)) = data.split_first() else { return };
    let (script, file) = data.split_at(data.len().min(usize::from(*length)));
    bounded((32 << 20) + 16 * file.len(), || {
        let path = Path::new(walk::DATABASE);
        let vfs = MemVfs::new();
        vfs.put(path, file.to_vec());
        let Ok(store) = walk::open(&vfs, Access::ReadWrite) else { return };
        let mut script = Script(script);
        while !script.is_over() {
            let before = vfs.get(path);
            let Ok(mut transaction) = store.begin(Mode::Write) else { return };
            let mut outcome = Ok(());
            let mut open = Vec::new();
            for _ in 0..script.below(40) {
                outcome = step(&mut transaction, &mut open, &mut script);
                if outcome.is_err() {
                    break;
                }
            }
            if outcome.is_ok() && script.byte() % 4 != 0 {
                let _ = transaction.commit();
            } else {
                transaction.rollback();
                assert_eq!(vfs.get(path), before, "what is rolled back leaves no trace");
            }
        }
        walk::walk(&store);
    });
});

/// Savepoints open at once.
const OPEN_MAX: usize = 5;

/// Takes a savepoint, goes back to one, releases one, or makes an edit. A failed edit is taken back
/// with everything since the innermost savepoint, if there is one.
fn step(
    transaction: &mut Transaction,
    open: &mut Vec<(Savepoint, u64)>,
    script: &mut Script<'_>,
) -> Result<(), Error> {
    match script.below(8) {
        0 | 1 if open.len() < OPEN_MAX => {
            let before = digest(transaction);
            open.push((transaction.savepoint()?, before));
        }
        2 if !open.is_empty() => {
            let place = script.below(open.len());
            go_back(transaction, open, place)?;
        }
        3 if !open.is_empty() => {
            let place = script.below(open.len());
            open.truncate(place + 1);
            let (savepoint, _) = open.pop().expect("it is one of them");
            let before = digest(transaction);
            transaction.release(savepoint)?;
            assert_eq!(digest(transaction), before, "a release changes no page");
        }
        _ => {
            let outcome = edit(transaction, script);
            if outcome.is_err() && !open.is_empty() {
                return go_back(transaction, open, open.len() - 1);
            }
            return outcome;
        }
    }
    Ok(())
}

/// Goes back to the open savepoint number `place`, and drops later ones.
fn go_back(
    transaction: &mut Transaction,
    open: &mut Vec<(Savepoint, u64)>,
    place: usize,
) -> Result<(), Error> {
    open.truncate(place + 1);
    let (savepoint, before) = open.last().expect("it is one of them");
    transaction.rollback_to(savepoint)?;
    assert_eq!(digest(transaction), *before, "every page is as it was at the savepoint");
    Ok(())
}

/// A digest of the first pages as the transaction sees them.
fn digest(transaction: &Transaction) -> u64 {
    let mut hasher = DefaultHasher::new();
    transaction.page_count().hash(&mut hasher);
    for pgno in (1..=transaction.page_count().min(64)).filter_map(Pgno::new) {
        // Reads the page, whatever it is.
        let _ = transaction.btree_page(pgno);
        transaction.page_bytes(pgno).hash(&mut hasher);
    }
    hasher.finish()
}

/// One edit chosen by the script.
fn edit(transaction: &mut Transaction, script: &mut Script<'_>) -> Result<(), Error> {
    let root = Pgno::new(script.below(12) as u32 + 1).expect("not zero");
    let rowid = *script.pick(&[1, 2, 3, 100, -1, i64::MAX, i64::MIN, 4, 5, 6, 7, 8]);
    let text = vec![b'x'; *script.pick(&[0, 3, 30, 100, 200, 490, 1000, 5000])];
    let values = [ValueRef::Text(&text), ValueRef::Int(rowid)];
    let mut record = Vec::new();
    encode_record(&values, 4, &mut record);
    let order = KeyOrder::binary();
    match script.below(10) {
        0..3 => transaction.table_insert(root, rowid, &record)?,
        3 => drop(transaction.table_delete(root, rowid)?),
        4..6 => transaction.index_insert(root, &record, &order)?,
        6 => drop(transaction.index_delete(root, &record, &order)?),
        7 => {
            let kind = *script.pick(&[BtreeKind::Table, BtreeKind::Index]);
            transaction.create_btree(kind)?;
        }
        8 => {
            transaction.drop_btree(root)?;
        }
        _ => transaction.clear_btree(root)?,
    }
    Ok(())
}

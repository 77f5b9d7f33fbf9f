//! `shoal_store::btree`, `freelist`, `commit`: any bytes as a database file open for writing. An
//! edit succeeds or is refused; an uncommitted transaction leaves the file as before.
//!
//! The first byte is the length of the script of edits, next in the input; the rest is the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::script::Script;
use shoal_fuzz::{bounded, walk};
use shoal_store::vfs::MemVfs;
use shoal_store::{
    Access, BtreeKind, Error, KeyOrder, Mode, Pgno, Transaction, ValueRef, encode_record,
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
            for _ in 0..script.below(20) {
                outcome = edit(&mut transaction, &mut script);
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

/// One edit chosen by the script; rolled back after an error, or when the script says so.
fn edit(transaction: &mut Transaction, script: &mut Script<'_>) -> Result<(), Error> {
    let root = Pgno::new(script.below(12) as u32 + 1).expect("not zero");
    let savepoint = transaction.savepoint()?;
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
    if script.byte() % 8 == 0 {
        transaction.rollback_to(&savepoint)?;
    }
    Ok(())
}

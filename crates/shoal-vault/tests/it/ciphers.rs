//! Both ciphers from the first page to the last: written, crashed, damaged and read again; and
//! files that were sealed before there were recipients.

use std::path::Path;
use std::sync::Arc;

use shoal_sql::Value;
use shoal_store::vfs::{MemVfs, SimVfs, Vfs};
use shoal_store::{CheckpointMode, Error, Fault, JournalMode};
use shoal_vault::{Cipher, Cost, Keys, Secret};

use crate::{DB, SECRET, batch, disk, entropy, new_key, one, pair, rows, sql, store};

fn keys_for(cipher: Cipher, passphrase: &str) -> Arc<Keys> {
    let keys = Keys::new(entropy()).with_key(Secret::new(passphrase.as_bytes()));
    keys.set_cost(Cost::least());
    keys.set("cipher", cipher.name()).unwrap();
    keys.into()
}

#[test]
fn both_ciphers_write_and_read_pages_end_to_end() {
    for cipher in [Cipher::AesGcmSiv, Cipher::XChaCha] {
        let keys = keys_for(cipher, SECRET);
        let vfs = SimVfs::new();
        let opened = store(&vfs, Arc::clone(&keys)).unwrap();
        let mut connection = sql(&opened);
        let fill = "PRAGMA page_size = 1024; CREATE TABLE t(a INTEGER PRIMARY KEY, b); \
                    INSERT INTO t SELECT value, hex(zeroblob(value)) || value \
                    FROM generate_series(1, 300)";
        batch(&mut connection, fill);
        let sum = "SELECT sum(length(b)) FROM t";
        let rollback = one(&mut connection, sum);
        opened.set_journal_mode(JournalMode::Wal).unwrap();
        batch(&mut connection, "UPDATE t SET b = b || 'x' WHERE a % 2; CREATE INDEX i ON t(b)");
        let (logged, from) = (one(&mut connection, sum), vfs.calls());
        assert_ne!(rollback, logged);
        batch(&mut connection, "INSERT INTO t VALUES (301, 'one more')");
        opened.checkpoint(CheckpointMode::Truncate).unwrap();
        // A crash at each call leaves the state before or behind the row, whole.
        for calls in from..=vfs.calls() {
            let image = vfs.image_after_crash(calls, calls as u64);
            let opened = store(&disk(&image), Arc::clone(&keys)).unwrap();
            shoal_vault::verify(&opened).unwrap();
            let count = one(&mut sql(&opened), "SELECT count(*) FROM t");
            assert!([Value::Int(300), Value::Int(301)].contains(&count));
        }
        drop((connection, opened));
        // The cipher is in the file: whoever opens it need not know.
        let image = vfs.image();
        let opened = store(&disk(&image), crate::keys(SECRET).into()).unwrap();
        let mut connection = sql(&opened);
        assert_eq!(shoal_vault::slots(&opened).unwrap().cipher(), cipher);
        assert_eq!(one(&mut connection, "PRAGMA integrity_check"), Value::text("ok"));
        assert_eq!(rows(&mut connection, "SELECT b FROM t INDEXED BY i").unwrap().len(), 301);
        // Another epoch is written by the same cipher.
        shoal_vault::rekey(&opened, &[new_key("another")]).unwrap();
        shoal_vault::verify(&opened).unwrap();
        assert_eq!(shoal_vault::slots(&opened).unwrap().cipher(), cipher);

        let pages = image[Path::new(DB)].len() / 1024;
        let page = |number: usize| (number - 1) * 1024..number * 1024;
        for (at, fault) in [(0, Fault::Damaged), (960, Fault::Damaged), (976, Fault::Damaged)] {
            let mut image = image.clone();
            image.get_mut(Path::new(DB)).unwrap()[page(pages)][at] ^= 0x10;
            let opened = store(&disk(&image), Arc::clone(&keys)).unwrap();
            let error = shoal_vault::verify(&opened).unwrap_err();
            assert_eq!(error.fault(), Some(fault), "{cipher:?}, byte {at}");
        }
        let mut swapped = image.clone();
        let bytes = swapped.get_mut(Path::new(DB)).unwrap();
        let other = bytes[page(6)].to_vec();
        bytes.copy_within(page(7), page(6).start);
        bytes[page(7)].copy_from_slice(&other);
        let opened = store(&disk(&swapped), Arc::clone(&keys)).unwrap();
        let error = shoal_vault::verify(&opened).unwrap_err();
        assert_eq!(error.fault(), Some(Fault::Moved), "{cipher:?}");
    }
}

/// Files made by the first release with sealed files.
#[test]
fn files_of_layout_1_open_and_take_recipients() {
    for cipher in [Cipher::AesGcmSiv, Cipher::XChaCha] {
        let name = format!("../../testdata/shoal/sealed-1-{}.db", cipher.name());
        let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
        let vfs = MemVfs::new();
        let file = vfs.open(Path::new(DB), shoal_store::vfs::OpenMode::Create).unwrap();
        file.write_at(&bytes, 0).unwrap();
        let keys = Arc::new(crate::keys("before there were recipients"));
        let opened = store(&vfs, keys).unwrap();
        assert_eq!(shoal_vault::verify(&opened).unwrap(), 9);
        let found = one(&mut sql(&opened), "SELECT b FROM t WHERE a = 137");
        assert_eq!(found, Value::text("row 137"));
        let (secret, recipient) = pair();
        shoal_vault::add_slot(&opened, &shoal_vault::NewKey::recipient(recipient)).unwrap();
        drop(opened);
        let by = Keys::new(entropy()).with_key(secret);
        let opened = store(&vfs, by.into()).unwrap();
        batch(&mut sql(&opened), "DELETE FROM t WHERE a > 5");
        assert_eq!(shoal_vault::slots(&opened).unwrap().cipher(), cipher);
        let wrong = store(&vfs, crate::keys("another").into()).unwrap_err();
        assert!(matches!(wrong, Error::Locked { fault: Fault::WrongKey, .. }));
    }
}

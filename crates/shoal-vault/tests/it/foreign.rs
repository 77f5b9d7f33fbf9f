//! Other programs' sealed files (`testdata/encrypted`): each opens with its key and answers as the
//! plain file beside it, and what is written there reads back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_sql::{Connection, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, CodecSource, Options, Store};
use shoal_vault::{Keys, Secret};

use crate::{batch, entropy, rows, sql, values};

/// File, key, settings.
type Sample = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const SAMPLES: &[Sample] = &[
    ("sqlcipher4.db", "correct horse battery staple", &[]),
    (
        "sqlcipher4-raw-key.db",
        "x'371fbb6d50e863f4c1c7477a11c673d801166cf241a127f9b3dde50dd3bf57a9'",
        &[],
    ),
    (
        "sqlcipher4-raw-key-salt.db",
        "x'6f789b85e872d9fba6bc43f7ce50fe6611794035394a0ae8f4cae000f7cbf0cfe9e2aa0d38dad53b8703c0a8a0fd6f83'",
        &[],
    ),
    (
        "sqlcipher4-plaintext-header.db",
        "clear head",
        &[
            ("cipher_plaintext_header_size", "32"),
            ("cipher_salt", "x'bc016fadaf4c1d8b30b8f97db9ccd959'"),
        ],
    ),
    ("sqlcipher4-page-1024.db", "it's ключ 🗝", &[]),
    (
        "sqlcipher4-sha256.db",
        "tuned",
        &[
            ("kdf_iter", "100000"),
            ("cipher_hmac_algorithm", "HMAC_SHA256"),
            ("cipher_kdf_algorithm", "PBKDF2_HMAC_SHA256"),
        ],
    ),
    ("sqlcipher2.db", "second", &[]),
    ("sqlcipher3.db", "the old key", &[]),
    ("mc-chacha20.db", "swordfish", &[]),
    (
        "mc-chacha20-raw-key.db",
        "raw:1dfd5e2f2c22188f570cb09c4f53be30a3e034e0645f28b639c3332a019db6c2",
        &[],
    ),
    ("mc-sqleet.db", "swordfish", &[]),
    ("mc-aegis256.db", "swordfish", &[]),
    ("mc-aegis128l.db", "swordfish", &[]),
    ("mc-ascon128.db", "swordfish", &[]),
    ("mc-aes256cbc.db", "swordfish", &[]),
    ("mc-sqlcipher4.db", "swordfish", &[]),
    ("libsql.db", "libsql key", &[]),
    ("turso-aegis256.db", "1a6cd3fe6a31ad16ca63da2c4996b0e2236d0eb35e18d29d50449a1cbba529d7", &[]),
    ("turso-aes256gcm.db", "6ec0aa8b659668bbd77f2a0f1460a62b80b43ecdafa06159ba2c04ed218d602a", &[]),
    ("sqlcipher4-wal/data.db", "in the log", &[]),
    ("sqlcipher4-journal/data.db", "in the journal", &[]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/encrypted")
}

fn open(path: &Path, key: &str, settings: &[(&str, &str)]) -> Result<Store, shoal_store::Error> {
    let keys = Keys::new(entropy()).with_key(Secret::new(key.as_bytes()));
    for (name, value) in settings {
        keys.set(name, value).unwrap();
    }
    let codecs = Some(Arc::new(keys) as Arc<dyn CodecSource>);
    let options = Options { codecs, ..Options::new(Access::ReadWrite) };
    Store::open_with(Arc::new(OsVfs::new()), path, options)
}

/// Every row of every table.
fn everything(connection: &mut Connection) -> Vec<String> {
    let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let names = values(connection, names).unwrap();
    let mut all = Vec::new();
    for name in names {
        let Value::Text(name) = &name[0] else { panic!("{name:?}") };
        let name = String::from_utf8_lossy(name);
        let found = rows(connection, &format!("SELECT * FROM \"{name}\"")).unwrap();
        all.push(format!("{}: {}", name.to_ascii_lowercase(), found.len()));
        all.extend(found);
    }
    all
}

fn copy(name: &str, to: &Path) -> PathBuf {
    let from = folder().join(name);
    let path = to.join("data.db");
    std::fs::copy(&from, &path).unwrap();
    for end in ["-wal", "-journal"] {
        let beside = PathBuf::from(format!("{}{end}", from.display()));
        if beside.exists() {
            std::fs::copy(beside, to.join(format!("data.db{end}"))).unwrap();
        }
    }
    path
}

#[test]
fn every_sample_answers_and_is_written() {
    let plain = Store::open(Arc::new(OsVfs::new()), &folder().join("plain.db"), Access::ReadOnly);
    let expected = everything(&mut sql(&plain.unwrap()));
    assert!(expected.len() > 500, "{}", expected.len());
    let mut failed = Vec::new();
    for (name, key, settings) in SAMPLES {
        let to = tempfile::tempdir().unwrap();
        let path = copy(name, to.path());
        let opened = match open(&path, key, settings) {
            Ok(opened) => opened,
            Err(error) => {
                failed.push(format!("{name}: {error}"));
                continue;
            }
        };
        let found = everything(&mut sql(&opened));
        if found != expected {
            let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
            failed.push(format!("{name}: {} rows, first {differs:?}", found.len()));
            continue;
        }
        let mut connection = sql(&opened);
        batch(
            &mut connection,
            "CREATE TABLE written(a, b);
             INSERT INTO written SELECT value, hex(zeroblob(200)) FROM generate_series(1, 500);
             DELETE FROM written WHERE a % 7 = 0",
        );
        drop((connection, opened));
        let again = open(&path, key, settings).unwrap();
        let mut connection = sql(&again);
        let count = rows(&mut connection, "SELECT count(*), sum(a) FROM written").unwrap();
        assert_eq!(count.len(), 1);
        let checked = rows(&mut connection, "PRAGMA integrity_check").unwrap();
        assert_eq!(checked.len(), 1, "{name}: {checked:?}");
        assert_eq!(crate::one(&mut connection, "PRAGMA integrity_check"), Value::text("ok"));
        drop((connection, again));
        let wrong = open(
            &path,
            "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
            settings,
        );
        assert!(wrong.is_err(), "{name} opens with another key");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What other programs accept and Shoal accepts, too, is a fault of the format.
#[test]
fn damaged_samples_are_errors_where_the_format_can_tell() {
    let keys = [
        ("sqlcipher4", "correct horse battery staple"),
        ("turso-aegis256", "1a6cd3fe6a31ad16ca63da2c4996b0e2236d0eb35e18d29d50449a1cbba529d7"),
    ];
    for (maker, key) in keys {
        for damage in ["bit-flip", "zeroed", "cut", "header"] {
            let to = tempfile::tempdir().unwrap();
            let path = copy(&format!("damaged/{maker}-{damage}.db"), to.path());
            let Ok(opened) = open(&path, key, &[]) else { continue };
            let mut connection = sql(&opened);
            let checked = values(&mut connection, "PRAGMA integrity_check");
            let ok = vec![vec![Value::text("ok")]];
            assert!(!matches!(&checked, Ok(rows) if *rows == ok), "{maker}-{damage}");
        }
    }
}

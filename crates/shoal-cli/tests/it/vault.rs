//! Sealed databases by the command: encrypted, read with keys, keys changed, decrypted.

use std::fs;

use crate::{copy, shoal, shoal_with};

#[test]
fn a_database_is_sealed_used_and_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("a.key"), "first passphrase\n").unwrap();
    fs::write(dir.join("b.key"), "second passphrase").unwrap();
    shoal(dir, &["sql", "n.db", "CREATE TABLE t(a); INSERT INTO t VALUES ('nobody reads this')"])
        .ok();
    shoal_with(dir, &["doc", "import", "-", "n.db::plan"], br#"{"title": "secret plan"}"#).ok();
    shoal(dir, &["encrypt", "n.db", "--new-key-file", "a.key"]).ok();
    let bytes = fs::read(dir.join("n.db")).unwrap();
    for plain in ["nobody reads this", "secret plan", "SQLite format"] {
        assert!(!bytes.windows(plain.len()).any(|window| window == plain.as_bytes()));
    }
    let with = |key: &'static str, args: &[&'static str]| {
        let all: Vec<&str> = args.iter().copied().chain(["--key-file", key]).collect();
        shoal(dir, &all)
    };
    let query = ["sql", "n.db", "SELECT a FROM t"];
    assert_eq!(with("a.key", &query).ok(), "nobody reads this\n");
    assert!(with("a.key", &["doc", "show", "n.db::plan"]).ok().contains("secret plan"));
    with("a.key", &["doc", "put", "n.db::plan", "/title", "\"changed\""]).ok();
    assert_eq!(shoal(dir, &query).code, 10);
    assert_eq!(with("b.key", &query).code, 11);
    let added = with("a.key", &["keys", "add", "n.db", "--new-key-file", "b.key", "--label", "b"]);
    added.ok();
    assert_eq!(with("b.key", &query).ok(), "nobody reads this\n");
    let listed = shoal(dir, &["keys", "ls", "n.db"]).ok();
    assert!(listed.contains("1 argon2id 65536 KiB, 3 passes, 4 lanes: b"), "{listed}");
    with("b.key", &["keys", "rm", "n.db", "0"]).ok();
    assert_eq!(with("a.key", &query).code, 11);
    with("b.key", &["keys", "verify", "n.db"]).ok();
    let script = "PRAGMA key = 'second passphrase'; SELECT a FROM t;";
    let said = shoal_with(dir, &["sql", "n.db"], script.as_bytes()).ok();
    assert!(said.ends_with("nobody reads this\n"), "{said}");

    let mut damaged = fs::read(dir.join("n.db")).unwrap();
    damaged[4096 * 3 + 100] ^= 1;
    fs::write(dir.join("damaged.db"), &damaged).unwrap();
    assert_eq!(with("b.key", &["keys", "verify", "damaged.db"]).code, 13);
    let mut slots = fs::read(dir.join("n.db")).unwrap();
    slots[4096 + 300] ^= 1;
    slots[2 * 4096 + 300] ^= 1;
    fs::write(dir.join("slots.db"), &slots).unwrap();
    assert_eq!(with("b.key", &["sql", "slots.db", "SELECT 1 FROM t"]).code, 12);

    with("b.key", &["rekey", "n.db", "--new-key-file", "a.key"]).ok();
    assert_eq!(with("a.key", &query).ok(), "nobody reads this\n");
    assert_eq!(with("b.key", &query).code, 11);
    with("a.key", &["decrypt", "n.db"]).ok();
    assert_eq!(shoal(dir, &query).ok(), "nobody reads this\n");
    assert!(shoal(dir, &["doc", "show", "n.db::plan"]).ok().contains("changed"));
}

#[test]
fn other_programs_files_open_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    copy(dir, "encrypted/sqlcipher3.db", "c.db");
    fs::write(dir.join("key"), "the old key\n").unwrap();
    let query = "SELECT count(*) FROM sqlite_schema";
    let args = ["sql", "c.db", "--key-file", "key", "--cipher", "sqlcipher", query];
    let found = shoal(dir, &args).ok();
    let script = format!("PRAGMA key = 'the old key'; PRAGMA cipher_compatibility = 3; {query};");
    let said = shoal_with(dir, &["sql", "c.db"], script.as_bytes()).ok();
    assert!(said.ends_with(&found), "{said}");
    let wrong = ["sql", "c.db", "--key-file", "key", "--cipher", "chacha20", query];
    assert_eq!(shoal(dir, &wrong).code, 11);
    let unknown = ["sql", "c.db", "--key-file", "key", "--cipher", "rot13", query];
    assert_eq!(shoal(dir, &unknown).code, 2);
}

#[test]
fn encrypt_takes_no_key_of_a_sealed_database() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("a.key"), "the key").unwrap();
    shoal(dir, &["sql", "n.db", "CREATE TABLE t(a)"]).ok();
    // Stdin is not taken for the key instead.
    let said = shoal_with(dir, &["encrypt", "n.db", "--key-file", "a.key"], b"something else\n");
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("--new-key-file"), "{}", said.stderr);
    shoal(dir, &["sql", "n.db", "SELECT * FROM t"]).ok();
}

#[test]
fn a_statement_with_a_key_is_in_no_error() {
    let folder = tempfile::tempdir().unwrap();
    for sql in [
        "PRAGMA key = 'hunter2' x",
        "PRAGMA rekey 'hunter2'",
        "ATTACH 'b.db' AS b KEY hunter2 x",
        "ATTACH 'b.db' AS b KEY 'hunter2' 'hunter2'",
    ] {
        let error = shoal(folder.path(), &["sql", "n.db", sql]).error();
        assert!(!error.contains("hunter2"), "{error}");
    }
    let error = shoal(folder.path(), &["sql", "n.db", "SELEC 1"]).error();
    assert!(error.contains("1 | SELEC 1"), "{error}");
}

/// While a private file is decrypted, nobody else reads the pages written so far.
#[cfg(unix)]
#[test]
fn a_file_being_decrypted_is_readable_by_its_owner_alone() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("a.key"), "the key").unwrap();
    let fill = "CREATE TABLE t AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c \
                LIMIT 500) SELECT randomblob(4000) AS b FROM c";
    shoal(dir, &["sql", "n.db", fill, "--key-file", "a.key"]).ok();
    fs::set_permissions(dir.join("n.db"), fs::Permissions::from_mode(0o600)).unwrap();
    let is_done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !is_done.load(Ordering::Relaxed) {
                for entry in fs::read_dir(dir).unwrap().flatten() {
                    let name = entry.file_name().into_string().unwrap();
                    if let (true, Ok(data)) = (name.contains(".part"), entry.metadata()) {
                        seen.insert(data.mode() & 0o777);
                    }
                }
            }
            seen
        });
        shoal(dir, &["decrypt", "n.db", "--key-file", "a.key"]).ok();
        is_done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0o600]);
    assert_eq!(fs::metadata(dir.join("n.db")).unwrap().mode() & 0o777, 0o600);
}

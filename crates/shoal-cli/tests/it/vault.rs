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

/// Statements on a file not there yet: `PRAGMA key` seals the file, `ATTACH ... KEY` another one.
#[test]
fn statements_with_a_key_make_sealed_files() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let run = |file: &str, script: &str| {
        shoal(dir, &["sql", file, script]).ok();
        shoal_with(dir, &["sql", &format!("in-{file}")], script.as_bytes()).ok();
    };
    run("n.db", "PRAGMA key = 'a'; CREATE TABLE t(a); INSERT INTO t VALUES ('sealed')");
    for file in ["n.db", "in-n.db"] {
        assert!(fs::read(dir.join(file)).unwrap().starts_with(b"Shoal sealed 1"), "{file}");
        let script = "PRAGMA key = 'a'; SELECT a FROM t; PRAGMA rekey = 'b'";
        assert!(shoal(dir, &["sql", file, script]).ok().contains("sealed\n"));
        assert_eq!(shoal(dir, &["sql", file, "PRAGMA key = 'a'; SELECT a FROM t"]).code, 11);
    }
    run("m.db", "ATTACH 'n.db' AS n KEY 'b'; CREATE TABLE copy AS SELECT a FROM n.t");
    for file in ["m.db", "in-m.db"] {
        assert_eq!(shoal(dir, &["sql", file, "SELECT a FROM copy"]).ok(), "sealed\n");
    }
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

/// A key pair made by the command, slots added for it, files sealed to it; each way back.
#[test]
fn recipients_open_what_is_sealed_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("pass"), "a passphrase\n").unwrap();
    let ada = shoal(dir, &["keys", "new", "ada.key"]).ok().trim().to_owned();
    let bob = shoal(dir, &["keys", "new", "bob.key"]).ok().trim().to_owned();
    assert!(ada.starts_with("x25519:") && ada != bob, "{ada}");
    assert_eq!(shoal(dir, &["keys", "public", "ada.key"]).ok().trim(), ada);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(fs::metadata(dir.join("ada.key")).unwrap().mode() & 0o777, 0o600);
    }
    // A key is never written over, and a passphrase is no key pair.
    assert_ne!(shoal(dir, &["keys", "new", "ada.key"]).code, 0);
    assert_ne!(shoal(dir, &["keys", "public", "pass"]).code, 0);

    shoal(dir, &["sql", "n.db", "CREATE TABLE t(a); INSERT INTO t VALUES ('for ada')"]).ok();
    shoal(dir, &["encrypt", "n.db", "--new-key-file", "pass", "--recipient", &ada]).ok();
    let query = |key| shoal(dir, &["sql", "n.db", "SELECT a FROM t", "--key-file", key]);
    for key in ["pass", "ada.key"] {
        assert_eq!(query(key).ok(), "for ada\n");
    }
    assert_eq!(query("bob.key").code, 11);
    let add =
        ["keys", "add", "n.db", "--key-file", "ada.key", "--label", "bob", "--recipient", &bob];
    shoal(dir, &add).ok();
    assert_eq!(query("bob.key").ok(), "for ada\n");
    let listed = shoal(dir, &["keys", "ls", "n.db"]).ok();
    let print = |public: &str| public.split_once('-').unwrap().1.to_owned();
    assert!(listed.contains(&format!("0 x25519 {}\n", print(&ada))), "{listed}");
    assert!(listed.contains("1 argon2id 65536 KiB, 3 passes, 4 lanes\n"), "{listed}");
    assert!(listed.contains(&format!("2 x25519 {}: bob\n", print(&bob))), "{listed}");

    shoal(dir, &["rekey", "n.db", "--key-file", "pass", "--recipient", &bob]).ok();
    assert_eq!(query("pass").code, 11);
    assert_eq!(query("ada.key").code, 11);
    assert_eq!(query("bob.key").ok(), "for ada\n");
    shoal(dir, &["keys", "verify", "n.db", "--key-file", "bob.key"]).ok();
    // A new file made with a private key is sealed to its public key.
    shoal(dir, &["sql", "m.db", "CREATE TABLE t(a)", "--key-file", "ada.key"]).ok();
    let listed = shoal(dir, &["keys", "ls", "m.db"]).ok();
    assert!(listed.contains(&format!("0 x25519 {}\n", print(&ada))), "{listed}");

    let mistyped = ada.replacen(|digit: char| digit.is_ascii_digit(), "f", 3);
    shoal(dir, &["decrypt", "n.db", "--key-file", "bob.key"]).ok();
    assert_eq!(shoal(dir, &["encrypt", "n.db", "--recipient", &mistyped]).code, 2);
    let foreign = ["encrypt", "n.db", "--cipher", "sqlcipher", "--recipient", &ada];
    assert!(shoal(dir, &foreign).error().contains("no recipients"));
    assert_eq!(shoal(dir, &["sql", "n.db", "SELECT a FROM t"]).ok(), "for ada\n");
    fs::write(dir.join("cut.key"), "shoal private key 1\n12ab\n").unwrap();
    assert_eq!(shoal(dir, &["sql", "m.db", "SELECT 1 FROM t", "--key-file", "cut.key"]).code, 11);
}

/// After a killed `shoal rekey` the data is whole, and `--resume` ends the rekey beside writers.
#[cfg(unix)]
#[test]
fn a_rekey_goes_on_after_it_was_killed_and_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("old"), "old").unwrap();
    let me = shoal(dir, &["keys", "new", "me.key"]).ok().trim().to_owned();
    let fill = "CREATE TABLE t(a INTEGER PRIMARY KEY, b); \
                INSERT INTO t SELECT value, hex(randomblob(1500)) FROM generate_series(1, 12000)";
    shoal(dir, &["sql", "n.db", fill, "--key-file", "old"]).ok();
    let sum = "SELECT count(*), sum(length(b)) FROM t WHERE a <= 12000";
    let expected = shoal(dir, &["sql", "n.db", sum, "--key-file", "old"]).ok();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["rekey", "n.db", "--key-file", "old", "--recipient", &me])
        .current_dir(dir)
        .spawn()
        .unwrap();
    // The process is killed as soon as the new key opens the file.
    let start = std::time::Instant::now();
    while shoal(dir, &["sql", "n.db", sum, "--key-file", "me.key"]).code != 0 {
        assert!(start.elapsed().as_secs() < 60);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_shoal"))
        .args(["rekey", "n.db", "--key-file", "me.key", "--resume"])
        .current_dir(dir)
        .spawn()
        .unwrap();
    for number in 0..5 {
        let insert =
            format!("PRAGMA busy_timeout = 30000; INSERT INTO t VALUES ({}, 'x')", 20_000 + number);
        shoal(dir, &["sql", "n.db", &insert, "--key-file", "me.key"]).ok();
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(shoal(dir, &["sql", "n.db", sum, "--key-file", "me.key"]).ok(), expected);
    let all = shoal(dir, &["sql", "n.db", "SELECT count(*) FROM t", "--key-file", "me.key"]).ok();
    assert_eq!(all, "12005\n");
    shoal(dir, &["keys", "verify", "n.db", "--key-file", "me.key"]).ok();
    assert!(!shoal(dir, &["keys", "ls", "n.db"]).stderr.contains("cut short"));
}

#[test]
fn a_damaged_sealed_database_is_recovered_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    fs::write(dir.join("a.key"), "the key").unwrap();
    fs::write(dir.join("b.key"), "another key").unwrap();
    let rows = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 4000) \
                INSERT INTO t SELECT x, 'row ' || x FROM c";
    shoal(
        dir,
        &["sql", "n.db", "CREATE TABLE t(id INTEGER PRIMARY KEY, s); CREATE VIEW v AS SELECT 1"],
    )
    .ok();
    shoal(dir, &["sql", "n.db", rows]).ok();
    shoal(dir, &["encrypt", "n.db", "--new-key-file", "a.key"]).ok();
    let mut bytes = fs::read(dir.join("n.db")).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 12, "{pages} pages");
    for page in [7, 8, 10] {
        bytes[page * 4096 + 50] ^= 1;
    }
    fs::write(dir.join("n.db"), &bytes).unwrap();
    let key = ["--key-file", "a.key"];
    let with = |args: &[&str]| shoal(dir, &[args, &key].concat());
    assert_eq!(shoal(dir, &["recover", "n.db", "x.db"]).code, 10);
    assert_eq!(shoal(dir, &["recover", "n.db", "x.db", "--key-file", "b.key"]).code, 11);
    assert!(!dir.join("x.db").exists());
    let said = with(&["recover", "n.db", "sealed.db"]);
    for told in ["pages 8-9: each is not as it was written", "page 11 is not as it was written"] {
        assert!(said.stderr.contains(told), "{said:?}");
    }
    said.ok();
    assert!(fs::read(dir.join("sealed.db")).unwrap().starts_with(b"Shoal sealed 1"));
    let with_plain = with(&["recover", "n.db", "plain.db", "--plain"]);
    with_plain.ok();
    assert!(fs::read(dir.join("plain.db")).unwrap().starts_with(b"SQLite format 3"));
    let count = "SELECT count(*), min(s = 'row ' || id), (SELECT count(*) FROM v) FROM t";
    let kept = with(&["sql", "sealed.db", count]).ok();
    assert_eq!(kept, shoal(dir, &["sql", "plain.db", count]).ok());
    let number: u32 = kept.split('|').next().unwrap().parse().unwrap();
    assert!(number > 3000 && number < 4000 && kept.ends_with("|1|1\n"), "{kept}");
    let script = with(&["recover", "n.db"]).ok();
    assert_eq!(script.matches("INSERT OR IGNORE INTO \"t\"").count(), number as usize);
    // Without page 1 rows are without their tables.
    bytes[..4096].fill(0);
    fs::write(dir.join("n.db"), &bytes).unwrap();
    with(&["recover", "n.db", "lost.db", "--plain"]).ok();
    let lost = shoal(dir, &["sql", "lost.db", "SELECT count(*) FROM lost_and_found"]).ok();
    assert_eq!(lost, format!("{number}\n"));
}

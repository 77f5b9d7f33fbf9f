//! `PRAGMA integrity_check` and `quick_check` of damaged files, in SQLite's words.
#![allow(clippy::unwrap_used)]

mod write_support;

use std::path::Path;
use std::sync::Arc;

use shoal_sql::{Connection, Value};
use shoal_store::vfs::OsVfs;
use shoal_store::{Access, Store};
use write_support::{Random, run_shoal, run_sqlite, sqlite};

const PAGE: usize = 512;

/// A file with a freelist, deep trees, overflow chains, and a pointer map perhaps.
fn file(shape: &str, path: &Path) -> Vec<u8> {
    let theirs = sqlite(Some(path));
    theirs
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE}; {shape};
             CREATE TABLE gone(a); CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX t_b ON t(b);
             CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID;
             WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200)
             INSERT INTO t SELECT x, zeroblob(x % 40 * 60) FROM n;
             INSERT INTO w SELECT a, b FROM t WHERE a < 60; INSERT INTO gone SELECT b FROM t;
             DROP TABLE gone; DELETE FROM t WHERE a % 3 = 0;"
        ))
        .unwrap();
    drop(theirs);
    std::fs::read(path).unwrap()
}

fn lines(rows: &[Vec<Value>]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        if let Value::Text(text) = &row[0] {
            lines.extend(String::from_utf8_lossy(text).lines().map(str::to_owned));
        }
    }
    lines
}

/// The faults of pages, sorted: SQLite goes through its tables in the order of a hash.
fn of_pages(lines: &[String]) -> Vec<&str> {
    let is = |line: &&String| {
        ["Tree", "Page", "Freelist", "*** in", "Fragmentation", "Multiple", "max root"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    // Of two trees with one page the second is told, and the first may be either.
    let bare = |line: &String| line.find("2nd reference").unwrap_or(0);
    let mut found: Vec<&str> = lines.iter().filter(is).map(|line| &line[bare(line)..]).collect();
    found.sort_unstable();
    found
}

fn ours(path: &Path, pragma: &str) -> Vec<String> {
    let store = Store::open(Arc::new(OsVfs), path, Access::ReadOnly).unwrap();
    lines(&run_shoal(&mut Connection::open(store).unwrap(), pragma).unwrap())
}

#[test]
fn sound_files_are_sound() {
    for shape in [
        "SELECT 1",
        "PRAGMA auto_vacuum = 1",
        "PRAGMA auto_vacuum = 2",
        "PRAGMA encoding = 'UTF-16'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        file(shape, &path);
        for pragma in ["PRAGMA integrity_check", "PRAGMA quick_check", "PRAGMA integrity_check(t)"]
        {
            assert_eq!(ours(&path, pragma), ["ok"], "{shape} {pragma}");
        }
    }
}

#[test]
fn damaged_pages_are_named_as_sqlite_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let mut compared = 0;
    for shape in ["SELECT 1", "PRAGMA auto_vacuum = 1"] {
        let whole = file(shape, &folder.path().join("whole"));
        std::fs::remove_file(folder.path().join("whole")).unwrap();
        for seed in 0..150 {
            let mut random = Random::seeded(seed);
            let mut bytes = whole.clone();
            // Past the schema's page, which both must be able to read.
            let page = 1 + random.below((bytes.len() / PAGE - 1) as u64) as usize;
            let at =
                page * PAGE + random.below(if seed % 2 == 0 { 16 } else { PAGE as u64 }) as usize;
            bytes[at] = random.number() as u8;
            std::fs::write(&path, &bytes).unwrap();
            let theirs = sqlite(Some(&path));
            // An error of reading the rows hides what SQLite has found before.
            let Ok(expect) = run_sqlite(&theirs, "PRAGMA quick_check(90)") else { continue };
            let expect = lines(&expect);
            drop(theirs);
            let got = ours(&path, "PRAGMA quick_check(90)");
            assert_eq!(of_pages(&got), of_pages(&expect), "{shape} {seed} byte {at}");
            compared += usize::from(!of_pages(&expect).is_empty());
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn the_freelist_is_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let whole = file("SELECT 1", &path);
    for (at, byte) in [(39, whole[39].wrapping_add(1)), (35, 3), (33, 9)] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        std::fs::write(&path, &bytes).unwrap();
        let expect = lines(&run_sqlite(&sqlite(Some(&path)), "PRAGMA integrity_check").unwrap());
        assert!(expect[1].starts_with("Freelist"), "{expect:?}");
        assert_eq!(of_pages(&ours(&path, "PRAGMA integrity_check")), of_pages(&expect), "{at}");
        assert_eq!(ours(&path, "PRAGMA integrity_check(t)"), ["ok"]);
        assert_eq!(ours(&path, "PRAGMA integrity_check(1)").len(), 2);
    }
}

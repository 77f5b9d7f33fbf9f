//! Copies of databases and the rest of damaged ones: `shoal backup`, `.backup`, `.restore` and
//! `shoal recover`, judged by `sqlite3`.

use std::path::Path;

use super::{shoal, sqlite3};

/// A database with tables of several kinds, made by SQLite itself.
fn database(path: &Path, rows: u32, page_size: u32) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = {page_size};
             CREATE TABLE t (id INTEGER PRIMARY KEY, n REAL, s TEXT, up AS (upper(s)), b BLOB);
             CREATE TABLE plain (a, rowid TEXT);
             CREATE TABLE w (k TEXT, v, n INTEGER, PRIMARY KEY (n, k)) WITHOUT ROWID;
             CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, x);
             CREATE INDEX tn ON t (n);
             CREATE VIEW big AS SELECT * FROM t WHERE n > 100;
             CREATE TRIGGER tr AFTER DELETE ON plain BEGIN DELETE FROM w; END;
             WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < {rows})
             INSERT INTO t SELECT x, x * 1.5, 'it''s ' || x, CASE x % 50 WHEN 0
             THEN zeroblob(x * 20) ELSE x'0102' END FROM c;
             INSERT INTO plain SELECT id, s FROM t;
             INSERT INTO w SELECT s, n, id % 7 FROM t;
             INSERT INTO counted (x) SELECT s FROM t WHERE id < 20;
             DELETE FROM counted WHERE id > 10;
             PRAGMA user_version = 42;"
        ))
        .unwrap();
}

/// Fails unless two databases hold the same, and tells the first lines that differ.
fn assert_alike(a: &Path, b: &Path) {
    let (a, b) = (contents(a), contents(b));
    let differs = a.iter().zip(&b).find(|(a, b)| a != b);
    assert!(differs.is_none() && a.len() == b.len(), "{differs:?}, {} and {}", a.len(), b.len());
}

/// Everything in a database, as seen by `sqlite3`; fails for a damaged one.
fn contents(path: &Path) -> Vec<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let ask = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        let width = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        let mut lines = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let cell = |place| match row.get_ref(place).unwrap() {
                rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                rusqlite::types::ValueRef::Blob(bytes) => format!("blob of {}", bytes.len()),
                other => format!("{other:?}"),
            };
            lines.push((0..width).map(cell).collect::<Vec<_>>().join(" "));
        }
        lines
    };
    assert_eq!(ask("PRAGMA integrity_check"), ["ok"]);
    let mut all = ask("PRAGMA user_version");
    all.extend(ask("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"));
    for table in ["t", "plain", "w", "counted", "sqlite_sequence", "big"] {
        all.extend(ask(&format!("SELECT * FROM {table} ORDER BY 1, 2, 3 NULLS FIRST").replace(
            "1, 2, 3",
            if ["plain", "counted", "sqlite_sequence"].contains(&table) {
                "1, 2"
            } else {
                "1, 2, 3"
            },
        )));
    }
    all
}

#[test]
fn backups_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    database(&dir.join("a.db"), 500, 4096);
    let said = shoal(dir, &["backup", "a.db", "b.db"]);
    assert!(said.stderr.starts_with("b.db: "), "{said:?}");
    assert_alike(&dir.join("a.db"), &dir.join("b.db"));
    // Into an existing database; from a file with a log.
    let writer = rusqlite::Connection::open(dir.join("a.db")).unwrap();
    writer.execute_batch("PRAGMA journal_mode = wal; DELETE FROM t WHERE id > 40").unwrap();
    shoal(dir, &["backup", "a.db", "b.db"]).ok();
    assert_alike(&dir.join("a.db"), &dir.join("b.db"));
    let ran = shoal(dir, &["a.db", ".backup c.db", ".save main d.db", "SELECT count(*) FROM t"]);
    assert!(ran.ok().contains("40"));
    assert_alike(&dir.join("a.db"), &dir.join("c.db"));
    assert_alike(&dir.join("a.db"), &dir.join("d.db"));
    // Back again, with statements prepared for the schema before.
    let ran = shoal(
        dir,
        &["c.db", "DROP TABLE t", "CREATE TABLE z (q)", ".restore d.db", "SELECT count(*) FROM t"],
    );
    assert!(ran.ok().contains("40"));
    assert_alike(&dir.join("c.db"), &dir.join("d.db"));
    let ran = shoal(dir, &[":memory:", ".restore d.db", "SELECT count(*) FROM t"]);
    assert!(ran.ok().contains("40"));
    assert!(shoal(dir, &["backup", "none.db", "e.db"]).error().contains("none.db"));
    assert!(shoal(dir, &["backup", "a.db", "a.db"]).error().contains("a.db"));
    assert!(shoal(dir, &["a.db", ".backup nosuch e.db"]).error().contains("nosuch"));
    std::fs::write(dir.join("text"), "not a database, and long enough to be none".repeat(9))
        .unwrap();
    assert!(shoal(dir, &["backup", "a.db", "text"]).error().contains("text"));
    assert!(!dir.join("e.db").exists());
}

#[test]
fn a_sound_database_is_recovered_whole() {
    for page_size in [512, 4096] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        database(&dir.join("a.db"), 700, page_size);
        let said = shoal(dir, &["recover", "a.db", "b.db"]);
        assert!(said.stderr.contains("0 rows without a table"), "{said:?}");
        assert_alike(&dir.join("a.db"), &dir.join("b.db"));
        let sql = shoal(dir, &["recover", "a.db"]).ok();
        if let Some(ran) = sqlite3(dir, &["c.db"], sql.as_bytes()) {
            ran.ok();
            assert_alike(&dir.join("a.db"), &dir.join("c.db"));
        }
        assert!(shoal(dir, &["recover", "a.db", "b.db"]).error().contains("already exists"));
    }
}

/// All values of a database's tables with a mark of their row, from whichever table.
fn marks(path: &Path) -> std::collections::BTreeSet<String> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut marks = std::collections::BTreeSet::new();
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'";
    let mut statement = connection.prepare(tables).unwrap();
    let tables: Vec<String> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in tables {
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let width = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Ok(Some(row)) = rows.next() {
            for place in 0..width {
                if let Ok(rusqlite::types::ValueRef::Text(text)) = row.get_ref(place)
                    && text.starts_with(b"it's ")
                {
                    // The first of the columns tells the tables' rows apart.
                    marks.insert(format!("{width} {}", String::from_utf8_lossy(text)));
                }
            }
        }
    }
    marks.into_iter().map(|mark| mark.split_once(' ').unwrap().1.to_owned()).collect()
}

#[test]
fn damaged_databases_give_no_fewer_rows_than_to_sqlite3() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    if sqlite3(dir, &[":memory:", ".recover"], b"").is_none_or(|ran| ran.code != 0) {
        return;
    }
    for (seed, page_size) in (0..24_u64).zip([512_usize, 1024, 4096].into_iter().cycle()) {
        let whole = dir.join(format!("{seed}.db"));
        database(&whole, 300, u32::try_from(page_size).unwrap());
        let mut bytes = std::fs::read(&whole).unwrap();
        let mut state = seed * 7919 + 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let pages = bytes.len() / page_size;
        for _ in 0..=seed % 4 {
            // The schema stays: without one nothing is comparable.
            let page = 4 + random(pages - 4);
            let at = page * page_size;
            match random(4) {
                0 => bytes[at..at + page_size].fill(0),
                1 => (0..20).for_each(|_| bytes[at + random(page_size)] ^= 0x5a),
                2 => bytes[at..at + 8].fill(0xff),
                _ => bytes.truncate(at + page_size / 2),
            }
            if bytes.len() < 6 * page_size {
                break;
            }
        }
        let broken = dir.join("broken.db");
        std::fs::write(&broken, &bytes).unwrap();
        let (ours, theirs) = (dir.join("ours.db"), dir.join("theirs.db"));
        for file in [&ours, &theirs] {
            let _ = std::fs::remove_file(file);
        }
        shoal(dir, &["recover", "broken.db", "ours.db"]).ok();
        let script = sqlite3(dir, &["broken.db", ".recover"], b"").unwrap().stdout;
        sqlite3(dir, &["theirs.db"], script.as_bytes()).unwrap();
        let (got, expect) = (marks(&ours), marks(&theirs));
        let missing: Vec<&String> = expect.difference(&got).take(5).collect();
        assert!(missing.is_empty(), "seed {seed}: {} and {}: {missing:?}", got.len(), expect.len());
        let connection = rusqlite::Connection::open(&ours).unwrap();
        let check: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

#[test]
fn files_without_a_header_or_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    database(&dir.join("a.db"), 300, 1024);
    let whole = std::fs::read(dir.join("a.db")).unwrap();
    let mut broken = whole.clone();
    broken[..100].fill(7);
    std::fs::write(dir.join("broken.db"), &broken).unwrap();
    shoal(dir, &["recover", "broken.db", "b.db"]).ok();
    assert_eq!(marks(&dir.join("b.db")).len(), 300);
    let mut broken = whole.clone();
    broken[..1024].fill(0);
    std::fs::write(dir.join("broken.db"), &broken).unwrap();
    shoal(dir, &["recover", "broken.db", "c.db"]).ok();
    assert_eq!(marks(&dir.join("c.db")).len(), 300);
    std::fs::write(dir.join("none.db"), [0; 5000]).unwrap();
    assert!(shoal(dir, &["recover", "none.db", "d.db"]).error().contains("none.db"));
    assert!(!dir.join("d.db").exists());
}

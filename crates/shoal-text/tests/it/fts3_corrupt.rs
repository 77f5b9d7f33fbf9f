//! Damaged bytes in FTS3 tables: an error or an answer, never a panic or a loop.
//!
//! `SHOAL_FTS_CASES=N` runs N mutations of each kind of table.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::Dice;
use crate::support::ask::{ask_ours, ask_sqlite};
use crate::support::fts3::{ours, query, write};
use rusqlite::types::Value;
use shoal_sql::{Connection, Error};

#[derive(Debug, Default)]
struct Counts {
    asked: usize,
    corrupt: usize,
    whole: usize,
}

/// Tables, and columns of blobs.
const BLOBS: &[(&str, &str)] = &[
    ("t_segdir", "root"),
    ("t_segdir", "root"),
    ("t_segments", "block"),
    ("t_segments", "block"),
    ("t_segments", "block"),
    ("t_docsize", "size"),
    ("t_stat", "value"),
];

/// Changes bytes of a blob, or numbers of a segment.
fn mutate(theirs: &rusqlite::Connection, dice: &mut Dice) {
    let number = *dice.of(&[0, 1, 2, 3, 100, -1, i64::MAX, i64::MIN, 1 << 33]);
    let pick = dice.below(1000) as i64;
    let of_all = |table: &str| {
        format!(
            "rowid = (SELECT rowid FROM {table} LIMIT 1 OFFSET {pick} % max(1, \
                 (SELECT count(*) FROM {table})))"
        )
    };
    let rows = match dice.below(12) {
        0 => {
            let column = *dice.of(&["start_block", "leaves_end_block", "level", "idx"]);
            let sql =
                format!("UPDATE OR IGNORE t_segdir SET {column} = ?1 WHERE {}", of_all("t_segdir"));
            theirs.execute(&sql, [number])
        }
        1 => {
            let table = *dice.of(&["t_segments", "t_content"]);
            theirs.execute(&format!("DELETE FROM {table} WHERE {}", of_all(table)), [])
        }
        2 => {
            let sql = format!("UPDATE t_segments SET block = NULL WHERE {}", of_all("t_segments"));
            theirs.execute(&sql, [])
        }
        _ => {
            let (table, column) = *dice.of(BLOBS);
            let found = theirs.query_row(
                &format!("SELECT rowid, {column} FROM {table} WHERE {}", of_all(table)),
                [],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Value>(1)?)),
            );
            let Ok((rowid, Value::Blob(mut bytes))) = found else { return };
            if bytes.is_empty() {
                return;
            }
            let at = dice.below(bytes.len());
            match dice.below(6) {
                0 => bytes[at] = dice.below(256) as u8,
                1 => bytes[at] ^= 1 << dice.below(8),
                2 => bytes[at] = *dice.of(&[0, 1, 2, 0x7f, 0x80, 0xff]),
                3 => bytes.truncate(at),
                4 => {
                    let end = (at + 9).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
                _ => bytes.insert(at, dice.below(256) as u8),
            }
            let sql = format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2");
            theirs.execute(&sql, rusqlite::params![bytes, rowid])
        }
    };
    // Contentless tables lack some of these.
    drop(rows);
}

/// Asks by all ways to read an index.
fn ask_all(ours: &mut Connection, queries: &[String], counts: &mut Counts) {
    let begin = Instant::now();
    for sql in queries {
        counts.asked += 1;
        let asked = ours.prepare(sql).and_then(|mut statement| {
            let mut rows = ours.query(&mut statement)?;
            let mut count = 0;
            while rows.next()?.is_some() {
                count += 1;
                assert!(count < 100_000, "a query has no end: {sql}");
            }
            Ok(())
        });
        match asked {
            Ok(()) => counts.whole += 1,
            Err(Error::CorruptVirtual { .. }) => counts.corrupt += 1,
            Err(other) => {
                let message = other.to_string();
                let is_known = message.contains("malformed MATCH")
                    || message.contains("is too large")
                    || message.contains("keeps no texts")
                    || message.contains("no such table");
                assert!(is_known, "a fault of bytes was told as {other:?}: {sql}");
            }
        }
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{queries:?} took long");
}

fn questions(dice: &mut Dice) -> Vec<String> {
    let mut questions = vec![
        "SELECT count(*), sum(documents), max(term) FROM terms".to_owned(),
        "PRAGMA integrity_check".to_owned(),
    ];
    for _ in 0..3 {
        let text = query(dice, 2).replace('\'', "''");
        questions.push(format!(
            "SELECT docid, offsets(t), snippet(t), matchinfo(t, 'pcsxyb') FROM t \
             WHERE t MATCH '{text}'"
        ));
        questions.push(format!("SELECT docid, matchinfo(t) FROM t WHERE t MATCH '{text} OR w*'"));
    }
    questions
}

#[test]
fn mutated_blobs_are_faults_or_answers() {
    let cases = std::env::var("SHOAL_FTS_CASES").ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(150);
    let directory = tempfile::tempdir().unwrap();
    let mut counts = Counts::default();
    for (kind, options) in [
        "fts3(a, b)",
        "fts4(a, b)",
        "fts4(a, b, prefix='1,3', order=desc)",
        "fts4(content='', a, b)",
    ]
    .into_iter()
    .enumerate()
    {
        let mut dice = Dice::new(kind as u64 + 40);
        let path = directory.path().join(format!("{kind}.db"));
        let theirs = rusqlite::Connection::open(&path).unwrap();
        write(&theirs, options, &mut dice);
        theirs.execute_batch("CREATE VIRTUAL TABLE terms USING fts4aux(t)").unwrap();
        let whole = std::fs::read(&path).unwrap();
        for _ in 0..cases {
            for _ in 0..1 + dice.below(3) {
                mutate(&theirs, &mut dice);
            }
            ask_all(&mut ours(&path), &questions(&mut dice), &mut counts);
            drop_to(&path, &whole);
        }
    }
    println!("{counts:?}");
    assert!(counts.corrupt > counts.asked / 10 && counts.whole > counts.asked / 10, "{counts:?}");
}

/// Puts the file's bytes back; SQLite reads a changed file anew.
fn drop_to(path: &Path, whole: &[u8]) {
    let mut bytes = whole.to_vec();
    let now = std::fs::read(path).unwrap();
    // The change counter goes on: nobody takes an old cache for the file.
    let counter = u32::from_be_bytes(now[24..28].try_into().unwrap()).wrapping_add(1);
    bytes[24..28].copy_from_slice(&counter.to_be_bytes());
    bytes[92..96].copy_from_slice(&counter.to_be_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// Files of SQLite's own tests with damaged FTS3 tables. Answers of both engines are equal.
#[test]
fn damaged_files_answer_or_are_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/corrupt");
    let (mut files, mut equal) = (0, 0);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("fts3") {
            continue;
        }
        files += 1;
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join(&name);
        std::fs::copy(&path, &copy).unwrap();
        let theirs = rusqlite::Connection::open(&copy).unwrap();
        let mut ours = ours(&copy);
        let schema = "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'create virtual%'";
        let Ok(tables) = ask_ours(&mut ours, schema) else { continue };
        for row in tables {
            let table = row.split('|').next().unwrap_or_default().trim_matches('\'').to_owned();
            for sql in [
                format!("SELECT * FROM {table}"),
                format!("SELECT docid FROM {table} WHERE {table} MATCH 'a*'"),
                format!(
                    "SELECT docid, snippet({table}) FROM {table} WHERE {table} MATCH 't* OR the'"
                ),
                format!("SELECT offsets({table}) FROM {table} WHERE {table} MATCH 'e* AND s*'"),
                format!(
                    "SELECT matchinfo({table}) FROM {table} WHERE {table} MATCH '\"a b\" OR c*'"
                ),
                "PRAGMA integrity_check".to_owned(),
            ] {
                let (wanted, found) = (ask_sqlite(&theirs, &sql), ask_ours(&mut ours, &sql));
                if let (Ok(wanted), Ok(found)) = (&wanted, &found)
                    && !sql.starts_with("PRAGMA")
                {
                    assert_eq!(found, wanted, "{name}: {sql}");
                    equal += 1;
                } else if let (Ok(_), Err(found)) = (&wanted, &found) {
                    println!("{name}: {sql}: {found}");
                }
            }
        }
    }
    assert!(files > 10 && equal > 10, "{files} files, {equal} equal answers");
}

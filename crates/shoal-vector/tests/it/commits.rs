//! The copy of a column in memory after commits keeps the chunks on unchanged pages and reads the
//! changed chunks again: a connection with a copy finds the same rows as a new connection.

use crate::support::{Random, ours, shoal, sqlite, theirs};

/// Chunks of 8 rows, each on several pages.
const TABLE: &str = "CREATE VIRTUAL TABLE v USING vec0(p integer partition key, \
                     e float[700] distance_metric=cosine, year integer, chunk_size=8)";

fn insert(partition: u64, year: u64, random: &mut Random) -> String {
    let vector = random.floats(700);
    format!("INSERT INTO v(p, e, year) VALUES ({partition}, '{vector}', {year})")
}

fn change(random: &mut Random) -> String {
    let (row, year) = (1 + random.next(150), random.next(3));
    match random.next(5) {
        0 => format!("DELETE FROM v WHERE rowid = {row}"),
        1 => format!("UPDATE v SET e = '{}' WHERE rowid = {row}", random.floats(700)),
        2 => format!("UPDATE v SET year = {year} WHERE rowid = {row}"),
        3 => "CREATE TABLE IF NOT EXISTS other(x); INSERT INTO other VALUES (1)".to_owned(),
        _ => insert(random.next(2), year, random),
    }
}

#[test]
fn searches_after_commits_see_every_change() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["wal", "delete"] {
        let path = folder.path().join(mode);
        let mut writer = shoal(&path);
        ours(&mut writer, &format!("PRAGMA journal_mode = {mode}")).unwrap();
        ours(&mut writer, TABLE).unwrap();
        let mut random = Random(5);
        ours(&mut writer, "BEGIN").unwrap();
        for row in 0..100 {
            ours(&mut writer, &insert(row % 2, row % 3, &mut random)).unwrap();
        }
        ours(&mut writer, "COMMIT").unwrap();
        let mut reader = shoal(&path);
        let other = sqlite(&path);
        for step in 0..80 {
            // Commits of the same connection, of another one of this process, and of SQLite.
            for _ in 0..random.next(3) {
                let sql = change(&mut random);
                for sql in sql.split("; ") {
                    match random.next(4) {
                        0 => drop(theirs(&other, sql).unwrap()),
                        1 => drop(ours(&mut reader, sql).unwrap()),
                        _ => drop(ours(&mut writer, sql).unwrap()),
                    }
                }
            }
            let search = format!(
                "SELECT rowid, distance FROM v WHERE e MATCH '{}' AND k = 30 AND year <> {}",
                random.floats(700),
                random.next(4)
            );
            let fresh = ours(&mut shoal(&path), &search).unwrap();
            assert!(fresh.len() >= 20, "{fresh:?}");
            for connection in [&mut writer, &mut reader] {
                assert_eq!(ours(connection, &search).unwrap(), fresh, "{mode}, step {step}");
            }
        }
    }
}

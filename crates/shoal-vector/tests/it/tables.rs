//! `vec0` tables beside sqlite-vec's: the same statements on files made by each, answers compared
//! by distance, and every file read and written by the other afterwards.

use std::path::Path;

use crate::support::{Cell, Random, alike, ours, same, shoal, sqlite, theirs};
use shoal_sql::Connection;

/// How many statements a run makes.
fn steps() -> u64 {
    std::env::var("SHOAL_VEC_STEPS").ok().and_then(|it| it.parse().ok()).unwrap_or(150)
}

/// Compares everything there is: rows, and the shadow tables byte for byte.
fn same_tables(shoal: &mut Connection, sqlite: &rusqlite::Connection, shadows: &[&str]) {
    same(shoal, sqlite, "SELECT count(*) FROM v");
    for shadow in shadows {
        same(shoal, sqlite, &format!("SELECT * FROM v_{shadow} ORDER BY 1"));
    }
    same(shoal, sqlite, "SELECT * FROM sqlite_sequence ORDER BY name");
}

/// Runs random changes on a file of ours and on one of theirs.
fn changes(
    random: &mut Random,
    (shoal, sqlite): (&mut Connection, &rusqlite::Connection),
    insert: &dyn Fn(&mut Random) -> String,
    update: &dyn Fn(&mut Random) -> String,
) {
    for step in 0..steps() {
        let sql = match random.next(10) {
            0 | 1 => format!("DELETE FROM v WHERE rowid = {}", 1 + random.next(60)),
            2 | 3 => update(random),
            _ => insert(random),
        };
        match (ours(shoal, &sql), theirs(sqlite, &sql)) {
            (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
            (got, wanted) => panic!("{step}: {sql}\n got {got:?}\n not {wanted:?}"),
        }
    }
}

#[test]
fn floats_metadata_partitions_and_auxiliary_columns_are_the_same_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let (own, their) = (folder.path().join("own.db"), folder.path().join("their.db"));
    let create = "CREATE VIRTUAL TABLE v USING vec0(e float[5], p integer partition key, \
                  flag boolean, n integer, f float, word text, +note text, c float[3] \
                  distance_metric=cosine, chunk_size=8)";
    let mut random = Random(11);
    let insert = |random: &mut Random| {
        let long = "long ".repeat(1 + random.next(4) as usize);
        let word = ["", "a", "bb", "eleven byte", "thirteen byte", &long][random.next(6) as usize];
        let rowid = match random.next(3) {
            0 => (1 + random.next(60)).to_string(),
            _ => "NULL".to_owned(),
        };
        let length = if random.next(30) == 0 { 4 } else { 5 };
        format!(
            "INSERT INTO v(rowid, e, p, flag, n, f, word, note, c) VALUES ({rowid}, '{}', {}, {}, \
             {}, {}.5, '{word}', 'note {}', '{}')",
            random.floats(length),
            random.next(3),
            random.next(2),
            random.next(9),
            random.next(9),
            random.next(100),
            random.floats(3),
        )
    };
    let update = |random: &mut Random| {
        let row = 1 + random.next(60);
        match random.next(4) {
            0 => format!("UPDATE v SET e = '{}' WHERE rowid = {row}", random.floats(5)),
            1 => format!("UPDATE v SET n = {}, flag = 1 WHERE rowid = {row}", random.next(9)),
            2 => {
                let word = ["short", "a text longer than its view"][random.next(2) as usize];
                format!("UPDATE v SET word = '{word}', note = 'new' WHERE rowid = {row}")
            }
            _ => format!("UPDATE v SET f = 0.25, c = '{}' WHERE rowid = {row}", random.floats(3)),
        }
    };
    let shadows = [
        "info",
        "chunks",
        "rowids",
        "vector_chunks00",
        "vector_chunks01",
        "metadatachunks00",
        "metadatachunks01",
        "metadatachunks02",
        "metadatachunks03",
        "metadatatext03",
        "auxiliary",
    ];
    {
        let (mut shoal, sqlite) = (shoal(&own), sqlite(&their));
        assert_eq!((ours(&mut shoal, create), theirs(&sqlite, create)), (Ok(vec![]), Ok(vec![])));
        changes(&mut random, (&mut shoal, &sqlite), &insert, &update);
        same_tables(&mut shoal, &sqlite, &shadows);
        searches(&mut random, &mut shoal, &sqlite);
        assert_eq!(
            ours(&mut shoal, "PRAGMA integrity_check").unwrap(),
            [[Cell::Text("ok".into())]]
        );
    }
    let check = "SELECT * FROM vec_check('v')";
    assert_eq!(ours(&mut shoal(&own), check).unwrap(), [[Cell::Text("ok".into())]]);
    assert_eq!(ours(&mut shoal(&their), check).unwrap(), [[Cell::Text("ok".into())]]);
    // sqlite-vec finds no text of exactly 12 bytes by an inequality: none is here.
    // Each goes on with the other's file.
    let (mut shoal, sqlite) = (shoal(&their), sqlite(&own));
    changes(&mut random, (&mut shoal, &sqlite), &insert, &update);
    same_tables(&mut shoal, &sqlite, &shadows);
    searches(&mut random, &mut shoal, &sqlite);
    same(&mut shoal, &sqlite, "PRAGMA integrity_check");
    for sql in ["ALTER TABLE v RENAME TO w", "DROP TABLE w"] {
        ours(&mut shoal, sql).unwrap();
    }
    let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'v%' OR name LIKE 'w%'";
    assert_eq!(ours(&mut shoal, left).unwrap(), [[Cell::Int(0)]]);
}

/// Compares searches: distances, and rows where no two are as far.
fn searches(random: &mut Random, shoal: &mut Connection, sqlite: &rusqlite::Connection) {
    let conditions = [
        "",
        "AND p = 1",
        "AND p > 0 AND n < 5",
        "AND flag = 1",
        "AND flag = 0 AND f >= 3.5",
        "AND word = 'bb'",
        "AND word = 'eleven byte'",
        "AND word > 'b' AND word < 'm'",
        "AND n >= 2 AND n <= 6 AND p < 2",
        "AND rowid IN (1, 2, 3, 5, 8, 13, 21, 34)",
        "AND rowid IN (SELECT chunk_offset FROM v_rowids)",
        "AND n IN (1, 4, 7)",
        "AND word IN ('a', 'bb', 'thirteen byte')",
        "AND distance > 60.0",
    ];
    for condition in conditions {
        for (column, length, k) in [("e", 5, 1), ("e", 5, 7), ("e", 5, 500), ("c", 3, 4)] {
            if column == "c" && condition.contains("distance") {
                continue;
            }
            let query = random.floats(length);
            let sql = format!(
                "SELECT rowid, distance, note, word, n, p, vec_to_json({column}) FROM v WHERE \
                 {column} MATCH '{query}' AND k = {k} {condition}"
            );
            let (got, wanted) = (ours(shoal, &sql).unwrap(), theirs(sqlite, &sql).unwrap());
            assert!(
                alike(&sorted(got.clone()), &sorted(wanted.clone())),
                "{sql}\n got {got:?}\n not {wanted:?}"
            );
            let near = |rows: &[Vec<Cell>]| {
                rows.windows(2).all(|pair| match (&pair[0][1], &pair[1][1]) {
                    (Cell::Real(a), Cell::Real(b)) => a <= b,
                    _ => false,
                })
            };
            assert!(near(&got), "{sql}: {got:?}");
        }
    }
    let query = random.floats(5);
    same(
        shoal,
        sqlite,
        &format!("SELECT rowid, distance FROM v WHERE e MATCH '{query}' ORDER BY distance LIMIT 6"),
    );
    for sql in [
        "SELECT rowid, * FROM v WHERE rowid = 7",
        "SELECT count(*), sum(n), max(word) FROM v",
        "WITH d(id) AS (VALUES (3)) SELECT count(*) FROM d JOIN v ON v.rowid = d.id WHERE \
         e MATCH (SELECT e FROM v WHERE rowid = (SELECT max(rowid) FROM v_rowids)) AND k = 1",
        "SELECT rowid FROM v WHERE e MATCH '[1,2]' AND k = 3",
        "SELECT rowid FROM v WHERE e MATCH vec_int8('[1,2,3,4,5]') AND k = 3",
        "SELECT rowid FROM v WHERE e MATCH '[1,2,3,4,5]' AND k = -3",
        "SELECT rowid FROM v WHERE e MATCH '[1,2,3,4,5]' AND k = 0",
        "SELECT rowid FROM v WHERE e MATCH '[1,2,3,4,5]' AND c MATCH '[1,2,3]' AND k = 1",
        "INSERT INTO v(e) VALUES (NULL)",
        "UPDATE v SET e = '[1]' WHERE rowid = (SELECT min(rowid) FROM v_rowids)",
    ] {
        same(shoal, sqlite, sql);
    }
}

fn sorted(mut rows: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
    let key = |row: &Vec<Cell>| match row[0] {
        Cell::Int(rowid) => rowid,
        _ => 0,
    };
    rows.sort_by_key(key);
    rows
}

#[test]
fn bytes_bits_and_keys_of_text_are_the_same_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let (own, their) = (folder.path().join("own.db"), folder.path().join("their.db"));
    let create = "CREATE VIRTUAL TABLE v USING vec0(id text primary key, i int8[6] \
                  distance_metric=l1, b bit[16], chunk_size=16)";
    let mut random = Random(5);
    let rows = |random: &mut Random, shoal: &mut Connection, sqlite: &rusqlite::Connection| {
        for _ in 0..steps() {
            let id = random.next(50);
            let sql = match random.next(8) {
                0 => format!("DELETE FROM v WHERE id = 'key {id}'"),
                _ => format!(
                    "INSERT INTO v VALUES ('key {id}', vec_int8('{}'), vec_bit({}))",
                    random.bytes(6),
                    random.bits(2)
                ),
            };
            match (ours(shoal, &sql), theirs(sqlite, &sql)) {
                (Ok(_), Ok(_)) | (Err(_), Err(_)) => {}
                (got, wanted) => panic!("{sql}\n got {got:?}\n not {wanted:?}"),
            }
        }
        for shadow in ["chunks", "rowids", "vector_chunks00", "vector_chunks01"] {
            same(shoal, sqlite, &format!("SELECT * FROM v_{shadow} ORDER BY 1"));
        }
        for k in [1, 5, 100] {
            let i = random.bytes(6);
            let sql = format!("SELECT distance FROM v WHERE i MATCH vec_int8('{i}') AND k = {k}");
            same(shoal, sqlite, &sql);
            let b = random.bits(2);
            let sql = format!("SELECT distance FROM v WHERE b MATCH vec_bit({b}) AND k = {k}");
            same(shoal, sqlite, &sql);
        }
        same(shoal, sqlite, "SELECT id, vec_to_json(i), vec_to_json(b) FROM v WHERE id = 'key 7'");
        same(shoal, sqlite, "SELECT id FROM v ORDER BY id");
        // A key without a row empties the answer of sqlite-vec: all keys here have rows.
        let nearest = "SELECT count(*) FROM v WHERE i MATCH vec_int8('[1,2,3,4,5,6]') AND k = 3 \
                       AND id IN (SELECT id FROM v_rowids WHERE rowid % 3 = 0)";
        same(shoal, sqlite, nearest);
        same(shoal, sqlite, "PRAGMA integrity_check");
    };
    {
        let (mut shoal, sqlite) = (shoal(&own), sqlite(&their));
        assert_eq!((ours(&mut shoal, create), theirs(&sqlite, create)), (Ok(vec![]), Ok(vec![])));
        rows(&mut random, &mut shoal, &sqlite);
    }
    let (mut shoal, sqlite) = (shoal(&their), sqlite(&own));
    rows(&mut random, &mut shoal, &sqlite);
}

#[test]
fn transactions_savepoints_and_failed_statements_take_rows_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut shoal = shoal(&folder.path().join("own.db"));
    ours(&mut shoal, "CREATE VIRTUAL TABLE v USING vec0(e float[2], n int, chunk_size=8)").unwrap();
    let count = |shoal: &mut Connection, wanted: i64| {
        assert_eq!(ours(shoal, "SELECT count(*) FROM v").unwrap(), [[Cell::Int(wanted)]]);
        let sql = "SELECT count(*) FROM v WHERE e MATCH '[0,0]' AND k = 1000";
        assert_eq!(ours(shoal, sql).unwrap(), [[Cell::Int(wanted)]]);
    };
    let fill = |shoal: &mut Connection, from: i64, to: i64| {
        for row in from..to {
            let sql = format!("INSERT INTO v(rowid, e, n) VALUES ({row}, '[{row},1]', {row})");
            ours(shoal, &sql).unwrap();
        }
    };
    fill(&mut shoal, 0, 20);
    count(&mut shoal, 20);
    ours(&mut shoal, "BEGIN").unwrap();
    fill(&mut shoal, 20, 30);
    ours(&mut shoal, "SAVEPOINT s").unwrap();
    fill(&mut shoal, 30, 50);
    ours(&mut shoal, "DELETE FROM v WHERE rowid < 16").unwrap();
    count(&mut shoal, 34);
    ours(&mut shoal, "ROLLBACK TO s").unwrap();
    count(&mut shoal, 30);
    fill(&mut shoal, 30, 33);
    let select = "INSERT INTO v(rowid, e, n) SELECT value, '[1,2]', value FROM \
                  generate_series(40, 10, -1)";
    assert!(ours(&mut shoal, select).is_err());
    count(&mut shoal, 33);
    ours(&mut shoal, "ROLLBACK").unwrap();
    count(&mut shoal, 20);
    ours(&mut shoal, "INSERT OR REPLACE INTO v(rowid, e, n) VALUES (3, '[9,9]', 99)").unwrap();
    ours(&mut shoal, "INSERT OR IGNORE INTO v(rowid, e, n) VALUES (3, '[1,1]', 1)").unwrap();
    count(&mut shoal, 20);
    assert_eq!(ours(&mut shoal, "SELECT n FROM v WHERE rowid = 3").unwrap(), [[Cell::Int(99)]]);
    assert_eq!(ours(&mut shoal, "PRAGMA integrity_check").unwrap(), [[Cell::Text("ok".into())]]);
}

#[test]
fn half_floats_ties_and_numberless_distances() {
    let mut shoal = shoal(Path::new(":memory:"));
    ours(
        &mut shoal,
        "CREATE VIRTUAL TABLE v USING vec0(e f16[2], c float[2] distance_metric=cosine)",
    )
    .unwrap();
    for (row, e, c) in [(1, "[1,0]", "[1,0]"), (2, "[3,0]", "[0,0]"), (3, "[1,0]", "[0,1]")] {
        let sql = format!("INSERT INTO v(rowid, e, c) VALUES ({row}, '{e}', '{c}')");
        ours(&mut shoal, &sql).unwrap();
    }
    let rows = |shoal: &mut Connection, sql: &str| {
        let rows = ours(shoal, sql).unwrap();
        rows.into_iter().map(|row| format!("{row:?}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        rows(&mut shoal, "SELECT rowid, distance FROM v WHERE e MATCH '[1,0]' AND k = 3"),
        "[Int(1), Real(0.0)] [Int(3), Real(0.0)] [Int(2), Real(2.0)]"
    );
    // A zero vector has no angle, and comes last.
    assert_eq!(
        rows(&mut shoal, "SELECT rowid, distance FROM v WHERE c MATCH '[1,0]' AND k = 3"),
        "[Int(1), Real(0.0)] [Int(3), Real(1.0)] [Int(2), Null]"
    );
    // Without k all rows come, by distance; the engine's conditions are asked before they count.
    assert_eq!(
        rows(&mut shoal, "SELECT rowid FROM v WHERE e MATCH '[3,0]' ORDER BY distance LIMIT 2"),
        "[Int(2)] [Int(1)]"
    );
    assert_eq!(
        rows(&mut shoal, "SELECT rowid FROM v WHERE e MATCH '[3,0]' AND k = 1 AND rowid % 2 = 1"),
        "[Int(1)]"
    );
}

#[test]
fn two_lists_become_one_by_the_reciprocals_of_their_ranks() {
    let mut shoal = shoal(Path::new(":memory:"));
    ours(&mut shoal, "CREATE VIRTUAL TABLE v USING vec0(e float[2], +word text)").unwrap();
    for (row, e, word) in [(1, "[1,0]", "owl"), (2, "[2,0]", "fish"), (3, "[9,0]", "owls")] {
        let sql = format!("INSERT INTO v(rowid, e, word) VALUES ({row}, '{e}', '{word}')");
        ours(&mut shoal, &sql).unwrap();
    }
    let near = "SELECT rowid FROM v WHERE e MATCH ''[0,0]'' AND k = 2";
    let words = "SELECT rowid FROM v WHERE word LIKE ''owl%'' ORDER BY rowid DESC";
    let sql = format!("SELECT * FROM rank_fusion('{near}', '{words}')");
    let row = |id, score, first: Option<i64>, second: Option<i64>| {
        let rank = |rank: Option<i64>| rank.map_or(Cell::Null, Cell::Int);
        vec![Cell::Int(id), Cell::Real(score), rank(first), rank(second)]
    };
    let wanted = [
        row(1, 1.0 / 61.0 + 1.0 / 62.0, Some(1), Some(2)),
        row(3, 1.0 / 61.0, None, Some(1)),
        row(2, 1.0 / 62.0, Some(2), None),
    ];
    let got = ours(&mut shoal, &sql).unwrap();
    assert!(alike(&got, &wanted), "{got:?}");
    let sql = format!("SELECT id FROM rank_fusion('{near}', '{words}', 0) LIMIT 1");
    assert_eq!(ours(&mut shoal, &sql).unwrap(), [[Cell::Int(1)]]);
    for sql in ["rank_fusion('SELECT 1', NULL)", "rank_fusion('SELECT 1', 'SELECT 1', -1)"] {
        assert!(ours(&mut shoal, &format!("SELECT * FROM {sql}")).is_err(), "{sql}");
    }
}

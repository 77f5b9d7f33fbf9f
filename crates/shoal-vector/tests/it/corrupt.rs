//! Changed bytes in the shadow tables: typed errors or answers, never a panic. And crashes: a
//! transaction on a table is there as a whole, or not at all.

use std::path::Path;
use std::sync::Arc;

use crate::support::{self, Answer, Random, ours, shoal, sqlite};
use shoal_sql::Connection;
use shoal_store::vfs::SimVfs;
use shoal_store::{Access, Store};

const CREATE: &str = "CREATE VIRTUAL TABLE v USING vec0(e float[4], p integer partition key, \
                      n integer, flag boolean, word text, +note text, chunk_size=8)";

/// Statements to read and write every part of a table.
const STATEMENTS: &[&str] = &[
    "SELECT rowid, distance, note, word, flag, n, p FROM v WHERE e MATCH '[1,2,3,4]' AND k = 5",
    "SELECT count(*) FROM v WHERE e MATCH '[1,2,3,4]' AND k = 9 AND n > 2 AND word > 'b' AND p < 2",
    "SELECT * FROM v",
    "SELECT * FROM v WHERE rowid = 3",
    "INSERT INTO v(e, p, n, flag, word, note) VALUES ('[1,2,3,4]', 1, 1, 1, 'a text of some length', 'x')",
    "UPDATE v SET e = '[4,3,2,1]', word = 'b', n = 7, flag = 0 WHERE rowid = 2",
    "UPDATE v SET p = 2 WHERE rowid = 5",
    "DELETE FROM v WHERE rowid = 4",
    "SELECT * FROM vec_check('v')",
    "DELETE FROM v",
];

fn fill(connection: &mut Connection) {
    for row in 0..20 {
        let word = ["", "bb", "a text longer than its view"][row % 3];
        let sql = format!(
            "INSERT INTO v(e, p, n, flag, word, note) VALUES ('[{row},1,2,3]', {}, {row}, {}, \
             '{word}', 'note')",
            row % 2,
            row % 2
        );
        ours(connection, &sql).unwrap();
    }
}

/// A change of one value in a shadow table.
fn change(random: &mut Random) -> String {
    let columns = [
        ("chunks", "validity"),
        ("chunks", "rowids"),
        ("chunks", "partition00"),
        ("chunks", "size"),
        ("rowids", "chunk_id"),
        ("rowids", "chunk_offset"),
        ("vector_chunks00", "vectors"),
        ("vector_chunks00", "rowid"),
        ("metadatachunks00", "data"),
        ("metadatachunks01", "data"),
        ("metadatachunks02", "data"),
        ("metadatatext02", "data"),
        ("metadatatext02", "rowid"),
        ("auxiliary", "value00"),
    ];
    let (table, column) = columns[random.next(columns.len() as u64) as usize];
    let value = match random.next(7) {
        0 => "NULL".to_owned(),
        1 => "x''".to_owned(),
        2 => format!("zeroblob({})", random.next(300)),
        3 => format!("randomblob(length({column}))"),
        4 => {
            ["-1", "0", "9223372036854775807", "4", "2.5", "'text'"][random.next(6) as usize].into()
        }
        _ => {
            let byte = random.next(40) + 1;
            format!(
                "CAST(substr({column}, 1, {byte}) || x'ff' || substr({column}, {byte} + 2) AS BLOB)"
            )
        }
    };
    format!(
        "UPDATE OR REPLACE v_{table} SET {column} = {value} WHERE _rowid_ % 3 = {}",
        random.next(3)
    )
}

#[test]
fn changed_bytes_end_in_an_answer_or_an_error_with_its_place() {
    let cases = std::env::var("SHOAL_VEC_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(60);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    let mut connection = shoal(&whole);
    ours(&mut connection, CREATE).unwrap();
    fill(&mut connection);
    drop(connection);
    let (mut random, mut corrupt) = (Random(29), 0);
    for case in 0..cases {
        let path = folder.path().join(format!("{case}.db"));
        std::fs::copy(&whole, &path).unwrap();
        for _ in 0..1 + random.next(2) {
            // A change refused by a constraint is left out.
            let _ = sqlite(&path).execute(&change(&mut random), []);
        }
        let mut connection = shoal(&path);
        for sql in STATEMENTS {
            let answer: Answer = ours(&mut connection, sql);
            corrupt += u64::from(answer.is_err_and(|error| error.contains("is corrupt")));
        }
        std::fs::remove_file(&path).unwrap();
    }
    assert!(corrupt > cases / 4, "{corrupt} of {cases} files were found corrupt");
}

/// Statements to walk over an index, to write to each part, and to make the index anew.
const INDEX_STATEMENTS: &[&str] = &[
    "SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1 AND ef = 1",
    "SELECT rowid, distance FROM v WHERE e MATCH '[19,2,3,4]' AND k = 2 AND ef = 2 AND n > 9",
    "SELECT * FROM i",
    "SELECT * FROM vec_check('v')",
    "INSERT INTO v(e, p, n, flag, word, note) VALUES ('[1,2,3,4]', 1, 1, 1, 'word', 'x')",
    "UPDATE v SET e = '[4,3,2,1]' WHERE rowid = 2",
    "DELETE FROM v WHERE rowid % 4 = 1",
    "INSERT INTO i(i) VALUES ('refresh')",
    "SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1 AND ef = 1",
    "INSERT INTO i(i) VALUES ('rebuild')",
    "SELECT * FROM vec_check('i')",
];

/// A change of an index: of bytes of a node, of a whole one, of the meta row.
fn index_change(random: &mut Random) -> String {
    let row = 1 + random.next(40);
    let byte = match random.next(3) {
        0 => random.next(64),
        _ => random.next(32 + 64 + 4),
    };
    match random.next(9) {
        0 => format!("DELETE FROM i_nodes WHERE id = {row}"),
        1 => format!("UPDATE i_nodes SET node = zeroblob({}) WHERE id = {row}", random.next(120)),
        2 => {
            let column = ["version", "shape", "root", "nodes", "digest", "generation"];
            let column = column[random.next(6) as usize];
            let value = ["NULL", "-1", "0", "7", "9223372036854775807", "'text'", "x'00'"];
            format!("UPDATE i_meta SET {column} = {}", value[random.next(7) as usize])
        }
        3 => format!("INSERT OR REPLACE INTO i_nodes SELECT {row}, node FROM i_nodes WHERE id = 1"),
        4 => "DELETE FROM i_meta".to_owned(),
        _ => format!(
            "UPDATE i_nodes SET node = CAST(substr(node, 1, {byte}) || x'{:02x}' || \
             substr(node, {byte} + 2) AS BLOB) WHERE id = {row}",
            random.next(256)
        ),
    }
}

#[test]
fn changed_bytes_of_an_index_end_in_an_answer_or_an_error_with_its_place() {
    let cases = std::env::var("SHOAL_VEC_CASES").ok().and_then(|it| it.parse().ok()).unwrap_or(40);
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.db");
    let mut connection = shoal(&whole);
    ours(&mut connection, CREATE).unwrap();
    fill(&mut connection);
    fill(&mut connection);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=4)").unwrap();
    drop(connection);
    let (mut random, mut corrupt) = (Random(31), 0);
    for case in 0..cases {
        let path = folder.path().join(format!("{case}.db"));
        std::fs::copy(&whole, &path).unwrap();
        for _ in 0..1 + random.next(2) {
            sqlite(&path).execute(&index_change(&mut random), []).unwrap();
        }
        let mut connection = shoal(&path);
        for sql in INDEX_STATEMENTS {
            let answer: Answer = ours(&mut connection, sql);
            corrupt += u64::from(answer.is_err_and(|error| error.contains("is corrupt")));
        }
        // However damaged an index is, a new one is whole.
        assert_eq!(
            ours(&mut connection, "SELECT * FROM vec_check('i')").unwrap(),
            [[support::Cell::Text("ok".into())]],
            "case {case}"
        );
        std::fs::remove_file(&path).unwrap();
    }
    assert!(corrupt > cases / 4, "{corrupt} statements on {cases} files found an index corrupt");
}

fn simulated(vfs: &SimVfs) -> Connection {
    let store = Store::open(Arc::new(vfs.clone()), Path::new("a.db"), Access::Create).unwrap();
    let mut connection = Connection::open(store).unwrap();
    shoal_vector::register(&mut connection).unwrap();
    connection
}

/// Everything in the table, by its rows and by a search.
fn contents(vfs: &SimVfs) -> String {
    let mut connection = simulated(vfs);
    let rows = ours(&mut connection, "SELECT *, vec_to_json(e) FROM v").unwrap();
    let search = "SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1000";
    let found = ours(&mut connection, search).unwrap();
    assert_eq!(rows.len(), found.len());
    let check = ours(&mut connection, "SELECT * FROM vec_check('v')").unwrap();
    assert_eq!(format!("{check:?}"), r#"[[Text("ok")]]"#);
    let near = "SELECT rowid, distance FROM v WHERE e MATCH '[1,2,3,4]' AND k = 1 AND ef = 1";
    let near = ours(&mut connection, near).unwrap();
    format!("{rows:?} {found:?} {near:?}")
}

#[test]
fn a_crash_leaves_the_rows_of_before_or_of_after() {
    let vfs = SimVfs::new();
    let mut connection = simulated(&vfs);
    ours(&mut connection, CREATE).unwrap();
    fill(&mut connection);
    ours(&mut connection, "CREATE VIRTUAL TABLE i USING vec_index(v, e, m=4)").unwrap();
    drop(connection);
    let image = vfs.image();
    let vfs = SimVfs::from_image(&image);
    let mut connection = simulated(&vfs);
    for sql in ["BEGIN", STATEMENTS[4], STATEMENTS[5], STATEMENTS[6], STATEMENTS[7], "COMMIT"] {
        ours(&mut connection, sql).unwrap();
    }
    drop(connection);
    let (old, new) = (contents(&SimVfs::from_image(&image)), contents(&vfs));
    assert_ne!(old, new);
    let (mut olds, mut news) = (0, 0);
    for calls in 0..=vfs.calls() {
        for seed in 0..2 {
            let state = contents(&SimVfs::from_image(&vfs.image_after_crash(calls, seed)));
            assert!(state == old || state == new, "after {calls} calls, seed {seed}");
            olds += usize::from(state == old);
            news += usize::from(state == new);
        }
    }
    assert!(olds > 0 && news > 0);
}

//! The history of Cargo's repository as three tables, from CSV files of `testdata/graph`: files,
//! pairs of files changed by one commit, and the parents of commits. No statistics are written.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use crate::engine::table::{Access, Cell, TableSpec};
use crate::engine::{Miss, TableEngine};
use crate::workload::Context;

const TABLES: [(&str, TableSpec); 3] = [
    (
        "files",
        TableSpec {
            name: "file",
            create: "CREATE TABLE file (id INTEGER PRIMARY KEY, path TEXT NOT NULL, touches INTEGER \
                     NOT NULL)",
            columns: &["id", "path", "touches"],
        },
    ),
    (
        "cochange",
        TableSpec {
            name: "cochange",
            create: "CREATE TABLE cochange (a INTEGER NOT NULL, b INTEGER NOT NULL, commits INTEGER \
                     NOT NULL)",
            columns: &["a", "b", "commits"],
        },
    ),
    (
        "parents",
        TableSpec {
            name: "parent",
            create: "CREATE TABLE parent (child INTEGER NOT NULL, parent INTEGER NOT NULL, ordinal \
                     INTEGER NOT NULL)",
            columns: &["child", "parent", "ordinal"],
        },
    ),
];

const INDEXES: [&str; 3] = [
    "CREATE INDEX cochange_a ON cochange(a)",
    "CREATE INDEX cochange_b ON cochange(b)",
    "CREATE INDEX parent_child ON parent(child)",
];

/// Where the database lies.
pub(crate) fn path(cache: &Path) -> PathBuf {
    cache.join("cargo-history.db")
}

/// Makes a missing database. The file appears under its name only once whole.
pub(crate) fn generate<E: TableEngine>(engine: &E, cx: &Context) -> Result<(), Miss> {
    let path = path(&cx.cache);
    if path.exists() {
        return Ok(());
    }
    let making = super::making(&path)?;
    let mut db = engine.open(&making, Access::Write, &cx.cache)?;
    for (file, table) in &TABLES {
        engine.create_table(&mut db, table)?;
        let csv = std::fs::File::open(cx.corpus(&format!("graph/cargo-history/{file}.csv.gz"))?);
        let mut text = String::new();
        let mut csv = GzDecoder::new(csv.map_err(Miss::failed)?);
        csv.read_to_string(&mut text).map_err(Miss::failed)?;
        let rows: Vec<Vec<Cell<'_>>> = text.lines().skip(1).map(cells).collect();
        for chunk in rows.chunks(50_000) {
            engine.insert(&mut db, table, chunk)?;
        }
    }
    for sql in INDEXES {
        engine.execute(&mut db, sql)?;
    }
    drop(db);
    std::fs::rename(&making, path).map_err(Miss::failed)
}

/// The values of a line: numbers where they read as such. No path has a comma.
fn cells(line: &str) -> Vec<Cell<'_>> {
    let cell = |word: &'_ str| word.parse().map(Cell::Int).ok();
    line.split(',').map(|word| cell(word).unwrap_or(Cell::Text(word.as_bytes()))).collect()
}

//! Rows on tables.

mod bulk;
mod chinook;
mod computed;
mod graph;
mod keyed;
mod prepare;
mod query;
pub(crate) mod real;
mod sealed;
mod search;
mod texts;
pub(crate) mod tpch;
mod two_indexes;
mod users;
mod vectors;
mod views;
mod write;

use std::path::{Path, PathBuf};

use super::{Bench, Context, Family, Row, Scale};
use crate::dataset;
use crate::engine::table::{Access, TableSpec};
use crate::engine::{Miss, TableEngine};

/// Every table row.
pub(crate) fn rows<E: TableEngine>() -> Bench<E> {
    let mut bench = Bench::new();
    keyed::add(&mut bench);
    prepare::add(&mut bench);
    users::add(&mut bench);
    views::add(&mut bench);
    graph::add(&mut bench);
    chinook::add(&mut bench);
    two_indexes::add(&mut bench);
    tpch::add(&mut bench);
    real::add(&mut bench);
    write::add(&mut bench);
    texts::add(&mut bench);
    bulk::add(&mut bench);
    search::add(&mut bench);
    vectors::add(&mut bench);
    bench
}

/// Every row of sealed files.
pub(crate) fn sealed_rows<E: TableEngine>() -> Bench<E> {
    let mut bench = Bench::new();
    sealed::add(&mut bench);
    bench
}

fn row(name: &str, unit: &str, text: &str) -> Row {
    Row::new(Family::Table, name, unit, text)
}

/// The source of the `users` table: Sharc's 5,000 rows, or a generated database of `rows` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    Core,
    Generated { rows: u64, label: &'static str },
}

/// The sizes of the rows on `users`.
const USERS: [Users; 3] = [
    Users::Core,
    Users::Generated { rows: 1_000_000, label: "1M" },
    Users::Generated { rows: 5_000_000, label: "5M" },
];

impl Users {
    const fn count(self) -> u64 {
        match self {
            Self::Core => 5_000,
            Self::Generated { rows, .. } => rows,
        }
    }

    /// The suffix of row names.
    fn suffix(self) -> String {
        match self {
            Self::Core => String::new(),
            Self::Generated { label, .. } => format!("/{label}"),
        }
    }

    fn path(self, cx: &Context) -> Result<PathBuf, Miss> {
        match self {
            Self::Core => cx.corpus("sharc/core.db"),
            Self::Generated { rows, .. } => generated(cx, rows),
        }
    }

    /// The number of existing rowids.
    fn present(self, cx: &Context) -> u64 {
        match (self, cx.scale) {
            (Self::Generated { .. }, Scale::Quick) => dataset::QUICK_ROWS,
            _ => self.count(),
        }
    }
}

/// The path of a generated database, made by the run before any worker started.
fn generated(cx: &Context, rows: u64) -> Result<PathBuf, Miss> {
    let path = dataset::path(&cx.cache, cx.scale, rows);
    if path.exists() {
        return Ok(path);
    }
    Err(Miss::NotRun("no engine here could generate the database".into()))
}

/// Opens a database for reading.
fn open<E: TableEngine>(engine: &E, path: &Path, cx: &Context) -> Result<E::Db, Miss> {
    engine.open(path, Access::Read, &cx.copies(path, &engine.about())?)
}

/// `users` of `core.db` and of the generated databases.
pub(crate) const USERS_TABLE: TableSpec = TableSpec {
    name: "users",
    create: "CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, \
             age INTEGER NOT NULL, score REAL NOT NULL, bio TEXT, active INTEGER NOT NULL, dept \
             TEXT NOT NULL, created TEXT NOT NULL)",
    columns: &["id", "name", "email", "age", "score", "bio", "active", "dept", "created"],
};

/// Removes a database made by a sample, with the files beside the database.
fn remove(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let Some(folder) = path.parent() else { return };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|found| found.starts_with(name)) {
            // Files not removed stay in the run's scratch folder, removed whole at the end.
            let _ = std::fs::remove_file(entry.path());
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

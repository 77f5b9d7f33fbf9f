//! Two corpora of other people's SQL tests, their reading parts run by Shoal: `.sqltest` files and
//! sqllogictest files.
//!
//! Writing statements are run by SQLite, on the same file, so that every query can be asked of
//! Shoal. The counts are printed (`--nocapture`) and held: a change may not pass fewer. The folder
//! named by `SHOAL_CORPORA` takes the place of `testdata/`, for the whole of a corpus, where the
//! repository has a part; its counts are printed, not held.
//!
//! Every query with an answer is asked again with choices of the planner made in its place
//! (`ways`); `SHOAL_SQL_CHOICES=all` makes each choice there is.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod md5;
mod slt;
mod sqltest;
mod ways;
mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_sql::{Connection, Value};
use shoal_store::{Access, Store, vfs::OsVfs};

/// The outcomes of a corpus's tests.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    /// Answered as SQLite answers here, where the file expects something else: the file was made
    /// for another version, or for other data than the repository has.
    pub(crate) as_sqlite: usize,
    /// The place and fault of each failure.
    pub(crate) failed: Vec<String>,
    /// Refused by name, counted by the refused feature.
    pub(crate) refused: BTreeMap<String, usize>,
    /// Not run, by reason.
    pub(crate) skipped: BTreeMap<String, usize>,
}

/// The outcome of one test.
#[derive(Debug)]
pub(crate) enum Outcome {
    Passed,
    AsSqlite,
    Failed(String),
    Refused(String),
    Skipped(String),
}

impl Counts {
    pub(crate) fn note(&mut self, place: &str, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::AsSqlite => self.as_sqlite += 1,
            Outcome::Failed(why) => self.failed.push(format!("{place}: {why}")),
            Outcome::Refused(what) => *self.refused.entry(what).or_default() += 1,
            Outcome::Skipped(why) => *self.skipped.entry(why).or_default() += 1,
        }
    }

    fn good(&self) -> usize {
        self.passed + self.as_sqlite
    }

    fn print(&self, corpus: &str) {
        let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        println!(
            "{corpus}: {} passed, {} as SQLite does, {} failed, {} refused, {} skipped",
            self.passed,
            self.as_sqlite,
            self.failed.len(),
            sum(&self.refused),
            sum(&self.skipped)
        );
        for (word, counts) in [("refused", &self.refused), ("skipped", &self.skipped)] {
            let mut counts: Vec<_> = counts.iter().collect();
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (why, count) in counts {
                println!("  {word} {count:5}  {why}");
            }
        }
        for failure in &self.failed {
            println!("  failed {failure}");
        }
    }
}

fn folder(corpus: &str) -> (PathBuf, bool) {
    match std::env::var_os("SHOAL_CORPORA") {
        Some(folder) => (Path::new(&folder).join(corpus), true),
        None => (shoal_testkit::testdata(corpus), false),
    }
}

/// The files below a folder whose names end so, in order.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(end) {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// True where a statement only reads, by its first words; `None` for an empty one.
pub(crate) fn reads(sql: &str) -> Option<bool> {
    let mut words = sql_words(sql);
    let first = words.next()?;
    Some(match first.as_str() {
        "select" | "values" | "explain" => true,
        // The word behind the common tables decides.
        "with" => !words.any(|word| matches!(word.as_str(), "insert" | "update" | "delete")),
        "pragma" => !sql.contains('='),
        _ => false,
    })
}

/// The words of a text in small letters, comments and strings left out.
fn sql_words(sql: &str) -> impl Iterator<Item = String> {
    let mut plain = String::new();
    let mut rest = sql;
    while let Some(char) = rest.chars().next() {
        let skip = if rest.starts_with("--") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if char == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else {
            plain.push(char.to_ascii_lowercase());
            char.len_utf8()
        };
        if skip > char.len_utf8() {
            plain.push(' ');
        }
        rest = &rest[skip..];
    }
    let separators = |char: char| !(char.is_alphanumeric() || char == '_');
    let words: Vec<String> =
        plain.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    words.into_iter()
}

pub(crate) fn open(path: &Path) -> Result<Connection, shoal_sql::Error> {
    let store = Store::open(Arc::new(OsVfs), path, Access::ReadOnly)?;
    Connection::open(store)
}

/// The rows of a query; the query is asked again with other choices.
pub(crate) fn query(
    connection: &mut Connection,
    sql: &str,
) -> Result<Vec<Vec<Value>>, shoal_sql::Error> {
    let rows = rows_of(connection, sql)?;
    ways::ask(connection, sql, &rows);
    Ok(rows)
}

pub(crate) fn rows_of(
    connection: &mut Connection,
    sql: &str,
) -> Result<Vec<Vec<Value>>, shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(row.values().map(Value::from).collect());
    }
    Ok(out)
}

#[test]
fn sqltest_files() {
    let (folder, whole) = folder("sqltest");
    let mut counts = Counts::default();
    for path in files(&folder, ".sqltest") {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        sqltest::run(&path, &name, &mut counts);
    }
    counts.print("sqltest");
    ways::finish("sqltest");
    assert!(whole || counts.good() >= SQLTEST_FLOOR, "only {} passed", counts.good());
    assert!(
        whole || counts.failed.len() <= SQLTEST_FAILED,
        "{} failed:\n{}",
        counts.failed.len(),
        counts.failed.join("\n")
    );
}

/// The same files once more, everything run by Shoal: set-ups, writing statements, and queries in
/// between.
#[test]
fn sqltest_files_written_by_shoal() {
    let (folder, whole) = folder("sqltest");
    let mut counts = Counts::default();
    for path in files(&folder, ".sqltest") {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        sqltest::each(&path, |file_marks, test, expects, setups| {
            let outcome = written::run(file_marks, test, expects, setups);
            counts.note(&format!("{name} {}", test.head), outcome);
        });
    }
    counts.print("sqltest, written by Shoal");
    ways::finish("sqltest, written by Shoal");
    assert!(whole || counts.good() >= WRITTEN_FLOOR, "only {} passed", counts.good());
    assert!(
        whole || counts.failed.len() <= WRITTEN_FAILED,
        "{} failed:\n{}",
        counts.failed.len(),
        counts.failed.join("\n")
    );
}

#[test]
fn sqllogictest_files() {
    let (folder, whole) = folder("sqllogictest");
    let mut counts = Counts::default();
    for path in files(&folder, ".test") {
        let name = path.strip_prefix(&folder).unwrap().display().to_string();
        slt::run(&path, &name, &mut counts);
    }
    counts.print("sqllogictest");
    ways::finish("sqllogictest");
    assert!(whole || counts.good() >= SLT_FLOOR, "only {} passed", counts.good());
    assert!(
        counts.failed.is_empty(),
        "{} failed:\n{}",
        counts.failed.len(),
        counts.failed.join("\n")
    );
}

/// Fewest tests of `testdata/sqltest` to pass, with answers equal to SQLite's among them, and most
/// to fail.
const SQLTEST_FLOOR: usize = 3540;
const SQLTEST_FAILED: usize = 5;
/// The same with everything run by Shoal.
const WRITTEN_FLOOR: usize = 3_830;
const WRITTEN_FAILED: usize = 10;
/// Fewest queries of `testdata/sqllogictest` to pass.
const SLT_FLOOR: usize = 2256;

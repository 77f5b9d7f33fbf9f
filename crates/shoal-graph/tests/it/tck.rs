//! The openCypher compatibility kit: every case of every feature file, on a graph in SQLite tables.
//!
//! `SHOAL_TCK=FOLDER` runs the files of another folder. The names of cases that fail are compared
//! with `tests/tck_failing.txt`, which may only shrink.

mod gherkin;
mod scenario;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_graph::{MemoryGraph, SqliteGraph};
use shoal_sql::Connection;
use shoal_store::{Access, Store};

fn feature_files(folder: &Path, to: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            feature_files(&path, to);
        } else if path.extension().is_some_and(|extension| extension == "feature") {
            to.push(path);
        }
    }
}

#[test]
fn every_case_of_the_kit() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tck");
    let other = std::env::var_os("SHOAL_TCK").map(PathBuf::from);
    let folder = other.clone().unwrap_or(own);
    let mut files = Vec::new();
    feature_files(&folder, &mut files);
    files.sort();
    assert!(!files.is_empty(), "no feature files in {}", folder.display());
    let (mut count, mut passed) = (0, 0);
    let mut failing = BTreeSet::new();
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a feature file is text");
        for case in gherkin::cases(&text) {
            if case.tags.iter().any(|tag| tag == "@ignore") {
                continue;
            }
            count += 1;
            match scenario::run(&case) {
                Ok(()) => passed += 1,
                Err(why) => {
                    println!("{}: {}", case.name, why.replace('\n', "\n    "));
                    failing.insert(case.name.clone());
                }
            }
        }
    }
    println!("{passed} of {count} cases");
    if other.is_some() {
        return;
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tck_failing.txt");
    let known: BTreeSet<String> =
        std::fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect();
    let new: Vec<&String> = failing.difference(&known).collect();
    assert!(new.is_empty(), "cases that passed before fail: {new:#?}");
    let mended: Vec<&String> = known.difference(&failing).collect();
    assert!(mended.is_empty(), "cases pass: take them out of tests/tck_failing.txt: {mended:#?}");
}

/// The graphs that every case runs on: in memory, and in tables of a database in memory.
fn graphs() -> Vec<(&'static str, Box<dyn shoal_graph::Graph>)> {
    let vfs = Arc::new(shoal_vfs::MemVfs::new());
    let store =
        Store::open(vfs, Path::new("graph.db"), Access::Create).expect("a database in memory");
    let tables = SqliteGraph::new(Connection::open(store).expect("a connection"));
    vec![("in memory", Box::new(MemoryGraph::new())), ("in tables", Box::new(tables))]
}

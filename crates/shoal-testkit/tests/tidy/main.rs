//! The house keeps its own rules: the edge list and the dependency table of ARCHITECTURE.md are
//! what the manifests say, and every module introduces itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};

mod comments;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn architecture() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there")
}

/// The dependencies of each crate of the product, `(ours, others)`, without dev-dependencies: those
/// of the workspace, and `shoal-datafusion` beside it.
fn manifests() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let packages = ["Cargo.toml", "crates/shoal-datafusion/Cargo.toml"].map(|manifest| {
        let mut command = MetadataCommand::new();
        let metadata = command.manifest_path(root().join(manifest)).no_deps().exec();
        metadata.expect("cargo metadata runs").packages
    });
    let ours = |name: &str| name == "shoal" || name.starts_with("shoal-");
    packages
        .iter()
        .flatten()
        .map(|package| {
            let (inside, outside) = package
                .dependencies
                .iter()
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.clone())
                .partition(|name| ours(name));
            (package.name.to_string(), (inside, outside))
        })
        .collect()
}

#[test]
fn edges_are_those_of_the_architecture() {
    let text = architecture();
    let (_, rest) = text.split_once("```edges\n").expect("ARCHITECTURE.md has an edges block");
    let (block, _) = rest.split_once("```").expect("the edges block ends");
    let declared: BTreeMap<String, BTreeSet<String>> = block
        .lines()
        .map(|line| {
            let (from, to) = line.split_once("->").expect("an edge line is `crate -> crates`");
            (from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect())
        })
        .collect();
    let real: BTreeMap<String, BTreeSet<String>> =
        manifests().into_iter().map(|(name, (inside, _))| (name, inside)).collect();
    assert_eq!(real, declared);
}

/// The default build stays small: a crate more is a decision, written down where it is counted.
/// The time cannot be taken here, beside other tests; `.ci/build-time` takes it.
#[test]
fn the_default_build_has_as_many_crates_as_the_architecture_says() {
    let text = architecture();
    let (_, rest) =
        text.split_once("```default-build\n").expect("ARCHITECTURE.md has a default-build block");
    let (block, _) = rest.split_once("```").expect("the default-build block ends");
    let declared = |name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name));
        line.expect("the default-build block has the line").trim().to_owned()
    };
    // Features and platforms change what is compiled; one target makes the count the same for all.
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--package", "shoal-cli", "--edges", "normal,build"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--prefix", "none", "--format", "{p}"])
        .current_dir(root())
        .output()
        .expect("cargo tree runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("names of crates are UTF-8");
    let crates: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect();
    let seconds = declared("seconds");
    println!("the default build: {} crates; built from nothing in {seconds}", crates.len());
    assert_eq!(
        declared("crates"),
        crates.len().to_string(),
        "the default build has another number of crates than ARCHITECTURE.md says"
    );
}

/// Every file that "You want to change ..." sends a reader to is there: in the crates that the
/// heading or the row names, below `src/`.
#[test]
fn the_architecture_sends_readers_to_files_that_exist() {
    let text = architecture();
    let (_, section) =
        text.split_once("## You want to change").expect("ARCHITECTURE.md says where things are");
    let section = section.split("\n## ").next().unwrap_or(section);
    let mut crates: Vec<PathBuf> = Vec::new();
    let mut lost = Vec::new();
    let mut places = 0;
    for line in section.lines() {
        let words = || line.split('`').skip(1).step_by(2);
        if line.starts_with("### ") {
            crates = words().map(folder_of).collect();
        }
        let Some(cell) = line.strip_prefix("| ").and_then(|row| row.split(" | ").nth(1)) else {
            continue;
        };
        for word in cell.split('`').skip(1).step_by(2) {
            if !word.ends_with(".rs") && !word.ends_with('/') {
                continue;
            }
            places += 1;
            let found = crates.iter().any(|folder| folder.join("src").join(word).exists())
                || root().join(word).exists();
            if !found {
                lost.push(word.to_owned());
            }
        }
    }
    assert!(places > 50, "only {places} places were found in the tables");
    assert!(lost.is_empty(), "ARCHITECTURE.md sends readers to what is not there: {lost:?}");
}

/// The folder of a crate of the workspace by its name.
fn folder_of(name: &str) -> PathBuf {
    match name {
        "lab/" => root().join("lab"),
        name => root().join("crates").join(name),
    }
}

#[test]
fn every_third_party_crate_has_its_reason() {
    let text = architecture();
    let (_, section) =
        text.split_once("## Third-party crates").expect("ARCHITECTURE.md explains dependencies");
    let named: BTreeSet<String> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|row| {
            let cell = row.split('|').nth(1).unwrap_or_default().to_owned();
            cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let real: BTreeSet<String> = manifests()
        .into_iter()
        .filter(|(name, _)| name != "shoal-testkit" && name != "shoal-lab")
        .flat_map(|(_, (_, outside))| outside)
        .collect();
    assert_eq!(real, named);
}

#[test]
fn every_module_says_what_it_is() {
    let mut silent = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).expect("a source file is UTF-8");
        if !text.starts_with("//!") {
            silent.push(file);
        }
    }
    assert!(silent.is_empty(), "modules without a //! line: {silent:?}");
}

#[test]
fn nothing_is_left_for_later() {
    let markers = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut left = Vec::new();
    for file in sources() {
        let text = fs::read_to_string(&file).expect("a source file is UTF-8");
        for (number, line) in text.lines().enumerate() {
            if markers.iter().any(|marker| line.contains(marker)) {
                left.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(left.is_empty(), "markers left in the code: {left:?}");
}

/// Every Rust file of the workspace.
fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("lab")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a source folder can be listed") {
            let path = entry.expect("a source folder can be listed").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(!files.is_empty(), "no sources found");
    files
}

//! What tests and the lab share: the corpora in `testdata/`, editing traces, random numbers,
//! and an allocation counter. No engine depends on it.

pub mod alloc;
mod random;
pub mod trace;

pub use random::Random;

use std::path::{Path, PathBuf};

/// Returns the path of `name` below the workspace's `testdata/`.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

/// Returns the files of the `testdata/` folder `name`, sorted by name.
///
/// # Panics
/// When the folder cannot be read or is empty: a corpus that is not there would make a test that
/// cannot fail.
pub fn corpus(name: &str) -> Vec<PathBuf> {
    let folder = testdata(name);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("corpus {} cannot be read: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a corpus folder can be listed").path())
        .filter(|path| path.is_file())
        .collect();
    assert!(!files.is_empty(), "corpus {} is empty", folder.display());
    files.sort();
    files
}

/// Returns every SQLite database of the corpora that real programs wrote: `sqlite/` and `sharc/`.
pub fn databases() -> Vec<PathBuf> {
    let mut files = corpus("sqlite");
    files.extend(corpus("sharc"));
    files
}

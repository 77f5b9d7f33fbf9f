//! A folder of Automerge files, or the storage folder of automerge-repo, into one database.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use shoal::{Access, Document, Environment};
use shoal_crdt::{LoadOptions, OnPartial};

use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::place::Place;
use crate::progress::spin;

/// Folders are followed so many levels down.
const DEPTH_MAX: usize = 16;

/// Stores every document of `folder` in the database `target`; one that is there gains the changes
/// it lacks. Says on stderr which files are no documents, and fails then.
pub(super) fn run(folder: &Path, target: &Place) -> Result<(), Failure> {
    let Place::File(target) = target else {
        return Err(Failure::at(target, "a folder is imported into a database")
            .hint("shoal doc import FOLDER DB names each document after its file"));
    };
    let mut found = BTreeMap::new();
    gather(folder, folder, 0, &mut found)?;
    if found.is_empty() {
        return Err(Failure::at(folder.display(), "no Automerge files"));
    }
    let mut database = open::database(target, Access::Create)?;
    let (count, mut failed) = (found.len(), 0);
    spin("importing", || {
        for (name, parts) in found {
            let stored = read(&parts).and_then(|mut document| {
                let stored = database.store(&name, &mut document);
                stored.map_err(|error| open::about(target, &error))
            });
            if let Err(failure) = stored {
                out::note(&failure.sentence);
                failed += 1;
            }
        }
    });
    out::note(format_args!("{} documents imported", count - failed));
    if failed > 0 {
        let what = format_args!("{failed} of {count} documents were not imported");
        return Err(Failure::at(folder.display(), what));
    }
    Ok(())
}

/// The files of each document, by the document's name: snapshots before what was added to them.
fn gather(
    root: &Path,
    folder: &Path,
    depth: usize,
    found: &mut BTreeMap<String, Vec<PathBuf>>,
) -> Result<(), Failure> {
    let failed = |error| Failure::at(folder.display(), error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let entries = entries.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if depth < DEPTH_MAX {
                gather(root, &path, depth + 1, found)?;
            }
            continue;
        }
        if let Some(name) = repo_name(root, &path) {
            let parts = found.entry(name).or_default();
            match is_snapshot(&path) {
                true => parts.insert(0, path),
                false => parts.push(path),
            }
        } else if begins_as_automerge(&path) {
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("");
            found.entry(name.to_string_lossy().into_owned()).or_default().push(path);
        }
    }
    Ok(())
}

/// The document of a file in automerge-repo's storage folder: its id, which the names of two
/// folders make up (`2B/gC8.../snapshot/HASH`).
fn repo_name(root: &Path, path: &Path) -> Option<String> {
    let names = path.strip_prefix(root).ok()?.iter();
    let names: Option<Vec<&str>> = names.map(|name| name.to_str()).collect();
    match names?.as_slice() {
        [first, rest, "snapshot" | "incremental", _] if first.len() == 2 => {
            Some(format!("{first}{rest}"))
        }
        _ => None,
    }
}

fn is_snapshot(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.ends_with("snapshot"))
}

/// True for a file that begins with the magic bytes of a chunk.
fn begins_as_automerge(path: &Path) -> bool {
    use std::io::Read;
    let mut start = [0; open::MAGIC.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == open::MAGIC
}

/// Reads a document of several files, of which a crash may have cut the last.
fn read(parts: &[PathBuf]) -> Result<Document, Failure> {
    let mut bytes = Vec::new();
    for path in parts {
        bytes.extend(open::read(path)?);
    }
    let actor = Environment::os().new_actor();
    let on_partial = if parts.len() > 1 { OnPartial::Ignore } else { OnPartial::Error };
    let options = LoadOptions { on_partial, ..LoadOptions::default() };
    let first = parts.first().expect("a document was found by a file").display();
    Document::load(&bytes, actor, &options).map_err(|error| Failure::at(first, error))
}

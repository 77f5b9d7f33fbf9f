//! The files of a folder: found, read, and replaced without losing the work of others.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use sha2::{Digest, Sha256};
use shoal_history::{Change, ChangeHash};
use shoal_sync::DocumentId;

use super::names::{self, EXTENSION};

/// The end of a draft's name.
const DRAFT: &str = ".draft";
/// A draft of this age is of a crashed writer.
const DRAFT_AGE: Duration = Duration::from_secs(600);
/// Parts of a document in a storage folder of automerge-repo.
const KINDS: [&str; 2] = ["snapshot", "incremental"];

/// The files of a folder, by document.
pub(super) struct Files {
    folder: PathBuf,
    /// True for a storage folder of automerge-repo.
    is_storage: bool,
    found: BTreeMap<String, Vec<Place>>,
    faults: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    kind: Kind,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The file, or a part of it; snapshots come before what was added to them.
    Main,
    Copy,
    Draft,
}

/// A file as it was read.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// A conflicted copy, or a draft.
    pub(super) is_copy: bool,
    /// Left by a crashed writer.
    pub(super) is_draft: bool,
    /// One of the parts of a storage folder.
    pub(super) is_one_of_many: bool,
}

/// The outcome of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// So many bytes are durable.
    Done(u64),
    /// The file is no longer as it was read.
    Changed,
}

impl Files {
    /// Looks through a folder; a missing one is made.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (found, faults) = (BTreeMap::new(), Vec::new());
        let mut files = Self { folder: folder.to_owned(), is_storage: false, found, faults };
        let entries = sorted(folder)?;
        for path in entries.iter().filter(|path| path.is_dir()) {
            files.look_for_storage(path)?;
        }
        files.is_storage = !files.found.is_empty();
        if !files.is_storage {
            for path in entries.into_iter().filter(|path| path.is_file()) {
                files.look_at(path);
            }
        }
        for places in files.found.values_mut() {
            places.sort();
        }
        Ok(files)
    }

    /// `2B/gC8.../snapshot/HASH`: the names of two folders make up an id.
    fn look_for_storage(&mut self, first: &Path) -> io::Result<()> {
        let Some(beginning) = first.file_name().and_then(OsStr::to_str) else { return Ok(()) };
        if beginning.len() != 2 {
            return Ok(());
        }
        for second in sorted(first)?.into_iter().filter(|path| path.is_dir()) {
            let Some(rest) = second.file_name().and_then(OsStr::to_str) else { continue };
            let name = format!("{beginning}{rest}");
            if DocumentId::parse(&name).is_ok_and(|id| id.as_str() == name) {
                for kind in KINDS.iter().map(|kind| second.join(kind)).filter(|path| path.is_dir())
                {
                    for path in sorted(&kind)?.into_iter().filter(|path| path.is_file()) {
                        let places = self.found.entry(name.clone()).or_default();
                        places.push(Place { kind: Kind::Main, path });
                    }
                }
            }
        }
        Ok(())
    }

    fn look_at(&mut self, path: PathBuf) {
        let Some(file) = path.file_name().and_then(OsStr::to_str) else {
            if path.extension() == Some(OsStr::new(&EXTENSION[1..])) {
                let why = "the name of the file is not UTF-8".to_owned();
                self.faults.push((path.display().to_string(), why));
            }
            return;
        };
        let draft = file.strip_prefix('.').and_then(|file| file.strip_suffix(DRAFT));
        let (kind, stem) = match (draft.and_then(|draft| draft.rsplit_once('.')), file) {
            (Some((file, _)), _) => match file.strip_suffix(EXTENSION) {
                Some(stem) if is_old(&path) => (Kind::Draft, stem),
                _ => return,
            },
            (None, file) => match file.strip_suffix(EXTENSION) {
                Some(stem) => match names::original_of(stem) {
                    Some(original) => (Kind::Copy, original),
                    None => (Kind::Main, stem),
                },
                None => return,
            },
        };
        if stem.is_empty() {
            return;
        }
        self.found.entry(names::name_of(stem)).or_default().push(Place { kind, path });
    }

    pub(super) fn take_faults(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.faults)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.found.keys().cloned()
    }

    /// True for a document that has its place in a folder of this kind.
    pub(super) fn may_hold(&self, name: &str) -> bool {
        !self.is_storage || DocumentId::parse(name).is_ok_and(|id| id.as_str() == name)
    }

    /// Reads the files of a document. One that is gone meanwhile is none.
    pub(super) fn read(&self, name: &str) -> io::Result<Vec<Part>> {
        let mut places = self.found.get(name).cloned().unwrap_or_default();
        if !self.is_storage && places.iter().all(|place| place.kind != Kind::Main) {
            // It may have come since.
            places.extend(self.main(name).ok().map(|path| Place { kind: Kind::Main, path }));
        }
        let mut parts = Vec::new();
        for Place { kind, path } in places {
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(about(&path, &error)),
            };
            parts.push(Part {
                path,
                bytes,
                is_copy: kind != Kind::Main,
                is_draft: kind == Kind::Draft,
                is_one_of_many: self.is_storage,
            });
        }
        Ok(parts)
    }

    /// Deletes a draft whose changes are durable.
    pub(super) fn forget(draft: &Path) {
        let _ = fs::remove_file(draft);
    }

    /// The file of a document.
    fn main(&self, name: &str) -> io::Result<PathBuf> {
        let found = self.found.get(name).into_iter().flatten();
        let mut mains = found.filter(|place| place.kind == Kind::Main);
        if let Some(place) = mains.next() {
            return Ok(place.path.clone());
        }
        let too_long = || io::Error::other("the name is too long for a file's");
        let stem = names::stem_of(name).ok_or_else(too_long)?;
        Ok(self.folder.join(stem + EXTENSION))
    }

    /// Writes the changes lacking in the files of a document, durably.
    pub(super) fn write(
        &mut self,
        name: &str,
        parts: &[Part],
        missing: &[&Change],
        heads: &[ChangeHash],
        whole: impl FnOnce() -> Vec<u8>,
    ) -> io::Result<Written> {
        if self.is_storage {
            return self.add(name, parts, missing, heads, whole);
        }
        let path = self.main(name)?;
        let known = parts.iter().find(|part| !part.is_copy).map(|part| part.bytes.as_slice());
        let bytes = whole();
        let (written, draft) =
            replace(&path, &bytes, known).map_err(|error| about(&path, &error))?;
        let places = self.found.entry(name.to_owned()).or_default();
        let main = Place { kind: Kind::Main, path };
        if !places.contains(&main) {
            places.insert(0, main);
        }
        places.extend(draft.map(|path| Place { kind: Kind::Draft, path }));
        Ok(written)
    }

    /// Adds a part to a document in a storage folder. Parts are never replaced: a name is a hash.
    fn add(
        &self,
        name: &str,
        parts: &[Part],
        missing: &[&Change],
        heads: &[ChangeHash],
        whole: impl FnOnce() -> Vec<u8>,
    ) -> io::Result<Written> {
        let (kind, bytes, hashed) = if parts.is_empty() {
            let heads = heads.iter().map(|head| shoal_stdx::hex::encode(&head.0));
            (KINDS[0], whole(), heads.collect::<String>().into_bytes())
        } else {
            let bytes: Vec<u8> =
                missing.iter().flat_map(|change| change.raw_bytes().to_vec()).collect();
            (KINDS[1], bytes.clone(), bytes)
        };
        let digest: [u8; 32] = Sha256::digest(&hashed).into();
        let (beginning, rest) = name.split_at(2);
        let folder = self.folder.join(beginning).join(rest).join(kind);
        fs::create_dir_all(&folder)?;
        let path = folder.join(shoal_stdx::hex::encode(&digest));
        // A draft beside the parts would be read as one.
        let draft = self.folder.join(format!(".{}{DRAFT}", std::process::id()));
        write_synced(&draft, &bytes, None)?;
        let moved = fs::rename(&draft, &path).and_then(|()| sync_folder(&folder));
        match moved {
            Ok(()) => Ok(Written::Done(bytes.len() as u64)),
            Err(error) => {
                let _ = fs::remove_file(&draft);
                Err(about(&path, &error))
            }
        }
    }
}

/// Replaces a file as a whole, durably, where it is still as it was read (`None`: not there). What
/// somebody else put there meanwhile is kept as a draft, whose path is given.
pub(super) fn replace(
    path: &Path,
    bytes: &[u8],
    known: Option<&[u8]>,
) -> io::Result<(Written, Option<PathBuf>)> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let folder = target.parent().unwrap_or(Path::new(".")).to_owned();
    let file = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let number = std::process::id();
    let draft = folder.join(format!(".{}.{number}{DRAFT}", file.to_string_lossy()));
    let permissions = fs::metadata(&target).ok().map(|found| found.permissions());
    if permissions.as_ref().is_some_and(fs::Permissions::readonly) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let _ = fs::remove_file(&draft);
    let moved = write_synced(&draft, bytes, permissions).and_then(|()| match known {
        None => place(&draft, &target),
        Some(known) => exchange(&draft, &target, known),
    });
    match moved {
        Ok(Moved::Done) => {
            let _ = fs::remove_file(&draft);
            sync_folder(&folder)?;
            Ok((Written::Done(bytes.len() as u64), None))
        }
        Ok(Moved::Kept) => {
            sync_folder(&folder)?;
            Ok((Written::Changed, Some(draft)))
        }
        Ok(Moved::Not) => {
            let _ = fs::remove_file(&draft);
            Ok((Written::Changed, None))
        }
        Err(error) => {
            let _ = fs::remove_file(&draft);
            Err(error)
        }
    }
}

enum Moved {
    /// The draft is the file.
    Done,
    /// The draft is the file, and what was the file is the draft: somebody else's work.
    Kept,
    /// Nothing was moved.
    Not,
}

/// Gives a draft its name where there is none.
fn place(draft: &Path, target: &Path) -> io::Result<Moved> {
    match fs::hard_link(draft, target) {
        Ok(()) => Ok(Moved::Done),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Moved::Not),
        // A file system without links.
        Err(_) if target.exists() => Ok(Moved::Not),
        Err(_) => fs::rename(draft, target).map(|()| Moved::Done),
    }
}

/// Lets a draft and a file change places at once, and looks at the bytes taken away.
#[cfg(target_os = "linux")]
fn exchange(draft: &Path, target: &Path, known: &[u8]) -> io::Result<Moved> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;

    match renameat_with(CWD, draft, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) if fs::read(draft)? == known => Ok(Moved::Done),
        Ok(()) => Ok(Moved::Kept),
        Err(Errno::NOENT) => Ok(Moved::Not),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename(draft, target, known),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn exchange(draft: &Path, target: &Path, known: &[u8]) -> io::Result<Moved> {
    rename(draft, target, known)
}

/// As [`exchange`], where names cannot change places: a look, and then a moment in which somebody
/// else's work can be lost.
fn rename(draft: &Path, target: &Path, known: &[u8]) -> io::Result<Moved> {
    match fs::read(target) {
        Ok(found) if found == known => fs::rename(draft, target).map(|()| Moved::Done),
        Ok(_) => Ok(Moved::Not),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Moved::Not),
        Err(error) => Err(error),
    }
}

fn write_synced(path: &Path, bytes: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    use io::Write;

    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The paths in a folder, in their order.
fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|error| about(folder, &error))?;
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.sort();
    Ok(paths)
}

fn is_old(path: &Path) -> bool {
    let modified = fs::metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= DRAFT_AGE))
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let entries = sorted(folder).expect("a folder");
        entries
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_changed_since_it_was_read_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.automerge");
        assert_eq!(replace(&path, b"1", None).unwrap(), (Written::Done(1), None));
        // Somebody was faster than a new file.
        assert_eq!(replace(&path, b"2", None).unwrap(), (Written::Changed, None));
        assert_eq!(fs::read(&path).unwrap(), b"1");
        assert_eq!(replace(&path, b"3", Some(b"1")).unwrap(), (Written::Done(1), None));
        assert_eq!(entries(folder.path()), ["x.automerge"]);
        fs::write(&path, b"theirs").unwrap();
        let (written, draft) = replace(&path, b"4", Some(b"3")).unwrap();
        assert_eq!(written, Written::Changed);
        match draft {
            Some(draft) => {
                assert_eq!(
                    (fs::read(&path).unwrap(), fs::read(draft).unwrap()),
                    (b"4".into(), b"theirs".into())
                );
            }
            // A file system whose names do not change places.
            None => assert_eq!(fs::read(&path).unwrap(), b"theirs"),
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(replace(&path, b"5", Some(b"4")).unwrap().0, Written::Changed);
        assert!(!path.exists());
    }
}

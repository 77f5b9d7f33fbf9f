//! Whole files: read at once, replaced at once.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::VfsError;

/// Reads the whole file at `path`.
///
/// # Errors
/// [`VfsError`] by cause.
pub fn read_file(path: &Path) -> Result<Vec<u8>, VfsError> {
    fs::read(path).map_err(|error| VfsError::from_io("read", path, error))
}

/// Makes `bytes` the content of the file at `path`, durably: the new content is written to a draft
/// beside the file, synced, and renamed into place, so a crash leaves the old file or the new one.
/// A link is followed, and the permissions of an existing file are kept.
///
/// # Errors
/// [`VfsError`] by cause; the file is then as before.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), VfsError> {
    replace(path, bytes).map_err(|error| VfsError::from_io("write", path, error))
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let permissions = match fs::metadata(&target) {
        Ok(found) if found.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if found.permissions().readonly() => {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(found) => Some(found.permissions()),
        Err(_) => None,
    };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut draft_name = OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}.draft", std::process::id()));
    let draft = folder.join(draft_name);
    let written = write_synced(&draft, bytes, permissions)
        .and_then(|()| fs::rename(&draft, &target))
        .and_then(|()| sync_folder(&folder));
    if written.is_err() {
        // Only the draft is left; the caller needs the error of the write, not of the removal.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write_synced(
    draft: &Path,
    bytes: &[u8],
    permissions: Option<fs::Permissions>,
) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(draft)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace_file(&path, b"one").unwrap();
        replace_file(&path, b"two").unwrap();
        assert_eq!(read_file(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = replace_file(folder.path(), b"x").unwrap_err();
        assert!(matches!(error, VfsError::IsDirectory { .. }));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, b"old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&target, &link).unwrap();
        replace_file(&link, b"new").unwrap();
        assert_eq!(read_file(&target).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

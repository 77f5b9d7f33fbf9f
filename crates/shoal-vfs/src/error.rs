//! Errors between a program and its files, by cause.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the file system, with the path concerned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VfsError {
    /// There is no such file, or its folder is missing.
    #[error("no such file: {}", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("is a directory: {}", path.display())]
    IsDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The path is a pipe, a device or anything else but a regular file.
    #[error("is not a regular file: {}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The system refuses access.
    #[error("permission denied: {}", path.display())]
    PermissionDenied {
        /// The path.
        path: PathBuf,
    },
    /// The device is full, or the file has reached the largest size allowed.
    #[error("no space left for file: {}", path.display())]
    NoSpace {
        /// The path.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation tried, as a verb.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's own error.
        source: io::Error,
    },
}

impl VfsError {
    /// Sorts a system error by cause.
    pub fn from_io(operation: &'static str, path: &Path, source: io::Error) -> VfsError {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::NotFound => VfsError::NotFound { path },
            io::ErrorKind::IsADirectory => VfsError::IsDirectory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                VfsError::PermissionDenied { path }
            }
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => VfsError::NoSpace { path },
            _ => VfsError::Io { operation, path, source },
        }
    }
}

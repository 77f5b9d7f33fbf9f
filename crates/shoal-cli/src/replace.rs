//! Files replaced whole: written beside the old file, and renamed into its place once everything is
//! on the disk.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Replaces the file at `path` by the output of `write`; an error leaves the old file as it was.
pub(crate) fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::at(path.display(), error);
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let file = File::create_new(&beside).map_err(failed)?;
    let mut file = BufWriter::with_capacity(1 << 20, file);
    let kept = write(&mut file).and_then(|()| {
        file.flush().map_err(failed)?;
        file.get_ref().sync_all().map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)?;
        // The new name is durable once its folder is.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        folder.sync_all().map_err(failed)
    });
    if kept.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    kept
}

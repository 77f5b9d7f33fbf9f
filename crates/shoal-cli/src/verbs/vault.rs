//! Shared by `shoal encrypt`, `decrypt`, `rekey` and `keys`: opening and rewriting sealed files.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_sql::Connection;
use shoal_store::{Access, CodecSource, JournalMode, Options, PageCodec, Rollback, Store};
use shoal_vault::VaultError;
use shoal_vfs::OsVfs;

use crate::failure::Failure;
use crate::keys;
use crate::open::about;
use crate::progress::spin;
use crate::verbs::token::write_secret;

/// The failure of an operation on keys, with its exit code.
pub(super) fn failure(path: &Path, error: &VaultError) -> Failure {
    let failure = about(path, error);
    match error.fault() {
        Some(fault) => failure.code(keys::code(fault)),
        None => failure,
    }
}

/// Opens a sealed database with the keys of the command line.
pub(super) fn sealed(path: &Path) -> Result<Store, Failure> {
    let codecs = Some(keys::keys() as Arc<dyn CodecSource>);
    let options = Options { codecs, ..Options::new(Access::ReadWrite) };
    let store = Store::open_with(Arc::new(OsVfs::new()), path, options)
        .map_err(|error| about(path, &error))?;
    match store.codec().is_some() {
        true => Ok(store),
        false => Err(Failure::at(path.display(), "is not sealed")),
    }
}

/// Writes a database again through another codec, into a file that takes its place. The number of
/// pages.
pub(super) fn replace(
    path: &Path,
    store: Store,
    codec: Option<Arc<dyn PageCodec>>,
) -> Result<u32, Failure> {
    let failed = |error: shoal_store::Error| about(path, &error);
    let io = |error: std::io::Error| Failure::at(path.display(), error);
    let path = &path.canonicalize().map_err(io)?;
    // A log beside the file would be taken for the new file's.
    let had_log = store.journal_mode().map_err(failed)? == JournalMode::Wal;
    if had_log {
        let mode = JournalMode::Rollback(Rollback::Delete);
        if store.set_journal_mode(mode).map_err(failed)? == JournalMode::Wal {
            return Err(Failure::at(path.display(), "is in use: its log cannot be put away"));
        }
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let _ = std::fs::remove_file(&part);
    // Nobody else reads it meanwhile: a decrypted page is as secret as the file was.
    write_secret(&part, "").map_err(io)?;
    let copied = (|| {
        let options = Options { codec, ..Options::new(Access::Create) };
        let target = Store::open_with(Arc::new(OsVfs::new()), &part, options).map_err(failed)?;
        let mut connection = Connection::open(store).map_err(|error| about(path, &error))?;
        let held = spin("writing", || connection.copy_into(&target));
        let held = held.map_err(|error| about(path, &error))?;
        if had_log {
            target.set_journal_mode(JournalMode::Wal).map_err(failed)?;
        }
        let pages = target.begin(shoal_store::Mode::Read).map_err(failed)?.page_count();
        drop(target);
        let metadata = path.metadata().map_err(io)?;
        std::fs::set_permissions(&part, metadata.permissions()).map_err(io)?;
        File::open(&part).and_then(|file| file.sync_all()).map_err(io)?;
        std::fs::rename(&part, path).map_err(io)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
        drop(held);
        Ok(pages)
    })();
    if copied.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    copied
}

//! `shoal encrypt`, `decrypt`, `rekey` and `keys`: sealed databases and their keys.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_sql::Connection;
use shoal_store::{Access, CodecSource, JournalMode, Options, PageCodec, Rollback, Store};
use shoal_vault::{KeyPage, SealedPages, VaultError};
use shoal_vfs::{OsVfs, Vfs};

use crate::args::vault::{
    DecryptArgs, EncryptArgs, KeysAddArgs, KeysLsArgs, KeysRmArgs, KeysVerb, RekeyArgs,
};
use crate::failure::Failure;
use crate::keys;
use crate::open::about;
use crate::out;
use crate::progress::spin;
use crate::verbs::token::write_secret;

pub(crate) fn encrypt(args: &EncryptArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let store = Store::open(vfs, path, Access::ReadWrite).map_err(|error| {
        about(path, &error)
            .hint("a database that is sealed already gets another key by shoal rekey")
    })?;
    let (secret, cost) = keys::new_secret(&args.new)?;
    let keys = keys::keys();
    keys.set_cost(cost);
    let codec = keys.new_codec(&secret).map_err(|error| about(path, &error))?;
    let pages = replace(path, store, Some(codec))?;
    out::note(format_args!("{}: {pages} pages sealed", path.display()));
    out::note("the blocks of the plain file may still be on the disk");
    Ok(())
}

pub(crate) fn decrypt(args: &DecryptArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let pages = replace(path, store, None)?;
    out::note(format_args!("{}: {pages} pages, readable by anybody", path.display()));
    Ok(())
}

pub(crate) fn rekey(args: &RekeyArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let failed = |error: VaultError| about(path, &error);
    if args.resume {
        let pages = spin("rekeying", || shoal_vault::finish_rekey(&store)).map_err(failed)?;
        out::note(format_args!("{}: {pages} pages written again", path.display()));
        return Ok(());
    }
    let (secret, cost) = keys::new_secret(&args.new)?;
    let is_own = store
        .codec()
        .and_then(|codec| codec.as_any())
        .is_some_and(|codec| codec.is::<SealedPages>());
    let pages = match is_own {
        true => {
            spin("rekeying", || shoal_vault::rekey(&store, &secret, cost, "")).map_err(failed)?
        }
        false => {
            let codec = keys::keys().new_codec(&secret).map_err(failed)?;
            replace(path, store, Some(codec))?
        }
    };
    out::note(format_args!("{}: {pages} pages written again", path.display()));
    out::note("copies of the file made before still open with the old keys");
    Ok(())
}

pub(crate) fn keys(verb: &KeysVerb) -> Result<(), Failure> {
    match verb {
        KeysVerb::Ls(args) => list(args),
        KeysVerb::Add(args) => add(args),
        KeysVerb::Rm(args) => remove(args),
        KeysVerb::Verify(args) => verify(args),
    }
}

fn list(args: &KeysLsArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let page = shoal_vault::key_page(&vfs, path).map_err(|error| failure(path, &error))?;
    print(&page)
}

fn print(page: &KeyPage) -> Result<(), Failure> {
    out::line(format_args!("cipher {}, epoch {}", page.cipher().name(), page.epoch()))?;
    for (place, slot) in page.slots() {
        let cost = slot.cost();
        out::line(format_args!(
            "{place} argon2id {} KiB, {} passes, {} lanes{}{}",
            cost.memory_kib(),
            cost.passes(),
            cost.lanes(),
            if slot.label().is_empty() { "" } else { ": " },
            slot.label().escape_debug(),
        ))?;
    }
    if page.is_being_rekeyed() {
        out::note("a rekey was cut short: shoal rekey --resume goes on");
    }
    Ok(())
}

fn add(args: &KeysAddArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let (secret, cost) = keys::new_secret(&args.new)?;
    let place = shoal_vault::add_slot(&store, &secret, cost, &args.label);
    let place = place.map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: key slot {place}", path.display()));
    Ok(())
}

fn remove(args: &KeysRmArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    shoal_vault::remove_slot(&store, args.slot).map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: key slot {} removed", path.display(), args.slot));
    out::note(
        "copies of the file made before still open with its key; shoal rekey changes the data key",
    );
    Ok(())
}

fn verify(args: &KeysLsArgs) -> Result<(), Failure> {
    let path = &args.database;
    let store = sealed(path)?;
    let pages = spin("verifying", || shoal_vault::verify(&store));
    let pages = pages.map_err(|error| failure(path, &error))?;
    out::note(format_args!("{}: {pages} pages are as they were written", path.display()));
    Ok(())
}

/// The failure of an operation on keys, with its exit code.
fn failure(path: &Path, error: &VaultError) -> Failure {
    let failure = about(path, error);
    match error.fault() {
        Some(fault) => failure.code(keys::code(fault)),
        None => failure,
    }
}

/// Opens a sealed database with the keys of the command line.
fn sealed(path: &Path) -> Result<Store, Failure> {
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
fn replace(path: &Path, store: Store, codec: Option<Arc<dyn PageCodec>>) -> Result<u32, Failure> {
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

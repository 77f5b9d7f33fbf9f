//! `shoal recover`: the rest of a damaged database, as SQL or as a new database.

use std::path::Path;
use std::sync::Arc;

use shoal_sql::Connection;
use shoal_store::vfs::{OsVfs, Vfs};
use shoal_store::{Access, Options, PageCodec, Pgno, Refused, Salvage, Store};
use shoal_vault::VaultError;

use crate::args::RecoverArgs;
use crate::failure::Failure;
use crate::keys;
use crate::open;
use crate::out;
use crate::progress::spin;
use crate::recover::sink::{Script, Target};
use crate::recover::{Saved, Stop, recover};

pub(crate) fn run(args: &RecoverArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let sealed = keys::keys().salvage(&vfs, path).map_err(|error| sealed_failure(path, &error))?;
    let is_sealed = sealed.is_some();
    let salvage = match sealed {
        None => Salvage::open(&vfs, path),
        Some((codec, page_size)) => Salvage::open_sealed(&vfs, path, codec, page_size),
    };
    let salvage = salvage.map_err(|error| match error {
        shoal_store::Error::HotJournal { .. } => {
            open::about(path, &error).hint("any shoal sql that writes to the file undoes it first")
        }
        error => open::about(path, &error),
    })?;
    let stopped = |stop| match stop {
        Stop::Read(error) => open::about(path, &error),
        Stop::Sink(failure) => failure,
    };
    let mut look = || {};
    let (saved, refused) = match &args.file {
        None => {
            let mut script = Script(out::stdout());
            let saved = recover(&salvage, args.ignore_freelist, &mut script, &mut look);
            (saved.map_err(stopped)?, 0)
        }
        Some(file) => {
            let codec = match is_sealed && !args.plain {
                true => Some(keys::keys().new_codec_like(&vfs, path).map_err(Failure::new)?),
                false => None,
            };
            let mut target = Target::new(new_database(&vfs, file, codec)?);
            let saved = spin("recovering", || {
                recover(&salvage, args.ignore_freelist, &mut target, &mut look)
            });
            let refused = target.refused;
            drop(target);
            if saved.is_err() {
                // A database without any of the rows is of no use.
                let _ = std::fs::remove_file(file);
            }
            (saved.map_err(stopped)?, refused)
        }
    };
    let Saved { tables, rows, lost } = saved;
    out::note(format_args!("{rows} rows of {tables} tables, {lost} rows without a table"));
    if refused > 0 {
        out::note(format_args!("{refused} rows were refused by constraints of their tables"));
    }
    for (pages, why) in ranges(&salvage.refused()) {
        out::note(format_args!("{pages} {why}"));
    }
    Ok(())
}

/// The failure of keys, with the exit code of its kind.
fn sealed_failure(path: &Path, error: &VaultError) -> Failure {
    if let VaultError::Store(error) = error {
        return open::about(path, error);
    }
    let failure = Failure::new(error);
    match error.fault() {
        Some(fault) => failure.code(keys::code(fault)),
        None => failure,
    }
}

/// Pages side by side with the same fault as one entry: `pages 5-9`.
fn ranges(refused: &[(Pgno, Refused)]) -> Vec<(String, &str)> {
    let mut ranges: Vec<(u32, u32, &str)> = Vec::new();
    for (pgno, refused) in refused {
        match ranges.last_mut() {
            Some((_, last, why)) if *last + 1 == pgno.get() && *why == refused.why => {
                *last = pgno.get();
            }
            _ => ranges.push((pgno.get(), pgno.get(), &refused.why)),
        }
    }
    let named = |(first, last, why)| match first == last {
        true => (format!("page {first}"), why),
        false => (format!("pages {first}-{last}: each"), why),
    };
    ranges.into_iter().map(named).collect()
}

/// The new database, sealed or plain.
fn new_database(
    vfs: &Arc<dyn Vfs>,
    file: &Path,
    codec: Option<Arc<dyn PageCodec>>,
) -> Result<Connection, Failure> {
    if open::exists(file)? {
        return Err(
            Failure::at(file.display(), "already exists").hint("recovered rows go into a new file")
        );
    }
    let options = Options { codec, ..Options::new(Access::Create) };
    let store = Store::open_with(Arc::clone(vfs), file, options);
    let store = store.map_err(|error| open::about(file, &error))?;
    Connection::open(store).map_err(|error| open::about(file, &error))
}

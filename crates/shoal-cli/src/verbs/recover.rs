//! `shoal recover`: the rest of a damaged database, as SQL or as a new database.

use std::path::Path;
use std::sync::Arc;

use shoal_sql::Connection;
use shoal_store::vfs::{OsVfs, Vfs};
use shoal_store::{Access, Salvage, Store};

use crate::args::RecoverArgs;
use crate::failure::Failure;
use crate::open;
use crate::out;
use crate::progress::spin;
use crate::recover::sink::{Script, Target};
use crate::recover::{Saved, Stop, recover};

pub(crate) fn run(args: &RecoverArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs);
    let salvage = Salvage::open(&vfs, path).map_err(|error| match error {
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
            let mut target = Target::new(new_database(&vfs, file)?);
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
    Ok(())
}

fn new_database(vfs: &Arc<dyn Vfs>, file: &Path) -> Result<Connection, Failure> {
    if open::exists(file)? {
        return Err(
            Failure::at(file.display(), "already exists").hint("recovered rows go into a new file")
        );
    }
    let store = Store::open(Arc::clone(vfs), file, Access::Create);
    let store = store.map_err(|error| open::about(file, &error))?;
    Connection::open(store).map_err(|error| open::about(file, &error))
}

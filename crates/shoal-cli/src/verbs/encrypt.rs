//! `shoal encrypt`: a plain database becomes a sealed one.

use std::sync::Arc;

use shoal_store::{Access, Store};
use shoal_vfs::{OsVfs, Vfs};

use super::vault::replace;
use crate::args::vault::EncryptArgs;
use crate::failure::Failure;
use crate::keys;
use crate::open::about;
use crate::out;

pub(crate) fn run(args: &EncryptArgs) -> Result<(), Failure> {
    let path = &args.database;
    let vfs: Arc<dyn Vfs> = Arc::new(OsVfs::new());
    let store = Store::open(vfs, path, Access::ReadWrite).map_err(|error| {
        about(path, &error)
            .hint("a database that is sealed already gets another key by shoal rekey")
    })?;
    let new = keys::new_keys(&args.new)?;
    let codec = keys::keys().new_codec(&new).map_err(|error| about(path, &error))?;
    let pages = replace(path, store, Some(codec))?;
    out::note(format_args!("{}: {pages} pages sealed", path.display()));
    out::note("the blocks of the plain file may still be on the disk");
    Ok(())
}

//! `shoal backup`: a copy of a database in use.

use shoal_store::Access;

use crate::args::BackupArgs;
use crate::backup;
use crate::failure::Failure;
use crate::open;
use crate::out;

pub(crate) fn run(args: &BackupArgs) -> Result<(), Failure> {
    let connection = open::connection(&args.database, Access::ReadOnly)?;
    let (pages, bytes) = backup::to_file(connection.store(), &args.file)?;
    out::note(format_args!("{}: {pages} pages, {bytes} bytes", args.file.display()));
    Ok(())
}

//! `shoal doc rename`: another name for a stored document.

use shoal::Access;

use crate::args::RenameArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &RenameArgs) -> Result<(), Failure> {
    let (file, name) = Place::stored(&args.doc)?;
    let mut database = open::database(&file, Access::ReadWrite)?;
    database.rename(&name, &args.name).map_err(|error| open::about(&file, &error))
}

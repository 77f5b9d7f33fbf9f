//! `shoal doc rm`: removes stored documents.

use shoal::Access;

use crate::args::RmArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &RmArgs) -> Result<(), Failure> {
    for doc in &args.docs {
        let (file, name) = Place::stored(doc)?;
        let mut database = open::database(&file, Access::ReadWrite)?;
        database.remove(&name).map_err(|error| open::about(&file, &error))?;
    }
    Ok(())
}

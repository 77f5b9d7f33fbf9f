//! `shoal doc copy`: a document once more, under a name of its own.

use shoal::{Access, Error};

use crate::args::CopyArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &CopyArgs) -> Result<(), Failure> {
    let (file, new_name) = Place::stored(&args.new)?;
    let source = Place::parse(&args.doc);
    if let Place::Stored { file: from, name } = &source
        && *from == file
    {
        let mut database = open::database(&file, Access::ReadWrite)?;
        return database.copy(name, &new_name).map_err(|error| open::about(&file, &error));
    }
    let mut document = open::load(&source)?;
    let mut database = open::database(&file, Access::Create)?;
    match database.load(&new_name) {
        Err(Error::NoDocument { .. }) => {}
        Err(error) => return Err(open::about(&file, &error)),
        Ok(_) => {
            let taken = Error::Exists { name: new_name };
            return Err(Failure::at(file.display(), taken)
                .hint("shoal doc merge puts two documents together"));
        }
    }
    database.store(&new_name, &mut document).map_err(|error| open::about(&file, &error))?;
    Ok(())
}

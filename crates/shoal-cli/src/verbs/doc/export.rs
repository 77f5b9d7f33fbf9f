//! `shoal doc export`: a stored document as an Automerge file.

use crate::args::ExportDocArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &ExportDocArgs) -> Result<(), Failure> {
    let mut document = open::load(&Place::parse(&args.doc))?;
    match Place::parse(&args.output) {
        Place::Stored { .. } => {
            Err(Failure::at(&args.output, "export writes a file, not a database")
                .hint("shoal doc import SOURCE DB::NAME stores a document"))
        }
        target => open::save(&target, &mut document),
    }
}

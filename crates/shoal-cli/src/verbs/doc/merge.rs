//! `shoal doc merge`: two documents made one.

use crate::args::MergeArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &MergeArgs) -> Result<(), Failure> {
    let (a, b) = (Place::parse(&args.a), Place::parse(&args.b));
    if a == Place::Stream && b == Place::Stream {
        return Err(Failure::new("only one of the two documents can come from stdin"));
    }
    let mut document = open::load(&a)?;
    let other = open::load(&b)?;
    document.merge(&other).map_err(|error| Failure::at(&b, error))?;
    open::save(&Place::parse(&args.output), &mut document)
}

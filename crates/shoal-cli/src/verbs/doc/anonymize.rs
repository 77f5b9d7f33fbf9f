//! `shoal doc anonymize`: a copy of the same shape with other content.

use crate::args::AnonymizeArgs;
use crate::failure::Failure;
use crate::open;
use crate::place::Place;

pub(crate) fn run(args: &AnonymizeArgs) -> Result<(), Failure> {
    let (source, target) = (Place::parse(&args.doc), Place::parse(&args.output));
    let document = open::load(&source)?;
    if open::load_if_there(&target)?.is_some() {
        return Err(Failure::at(&target, "the document exists already"));
    }
    let environment = crate::keys::environment();
    let mut seed = [0; 32];
    for half in seed.chunks_mut(16) {
        half.copy_from_slice(environment.new_actor().as_bytes());
    }
    let copy = document.anonymize(environment.new_actor(), seed);
    open::save(&target, &mut copy.map_err(|error| Failure::at(&source, error))?)
}

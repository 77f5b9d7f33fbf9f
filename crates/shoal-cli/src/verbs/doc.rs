//! `shoal doc`: documents in files of their own and in databases.

mod diff;
mod edit;
mod heads;
mod read;
mod transfer;

use crate::args::DocVerb;
use crate::failure::Failure;

pub(crate) fn run(verb: &DocVerb) -> Result<(), Failure> {
    match verb {
        DocVerb::Show(args) => read::show(args),
        DocVerb::Info(args) => read::info(args),
        DocVerb::History(args) => read::history(args),
        DocVerb::Ls(args) => read::ls(args),
        DocVerb::Import(args) => transfer::import(args),
        DocVerb::Export(args) => transfer::export(args),
        DocVerb::Rescue(args) => transfer::rescue(args),
        DocVerb::Anonymize(args) => transfer::anonymize(args),
        DocVerb::Merge(args) => transfer::merge(args),
        DocVerb::Diff(args) => diff::diff(args),
        DocVerb::Patch(args) => diff::patch(args),
        DocVerb::Put(args) => edit::put(args),
        DocVerb::Splice(args) => edit::splice(args),
    }
}

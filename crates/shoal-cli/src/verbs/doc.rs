//! `shoal doc`: documents in files of their own and in databases, one file per verb.

mod anonymize;
mod diff;
mod export;
mod history;
mod import;
mod info;
mod ls;
mod merge;
mod patch;
mod put;
mod rescue;
mod show;
mod splice;

use crate::args::DocVerb;
use crate::failure::Failure;

pub(crate) fn run(verb: &DocVerb) -> Result<(), Failure> {
    match verb {
        DocVerb::Show(args) => show::run(args),
        DocVerb::Info(args) => info::run(args),
        DocVerb::History(args) => history::run(args),
        DocVerb::Ls(args) => ls::run(args),
        DocVerb::Import(args) => import::run(args),
        DocVerb::Export(args) => export::run(args),
        DocVerb::Merge(args) => merge::run(args),
        DocVerb::Rescue(args) => rescue::run(args),
        DocVerb::Anonymize(args) => anonymize::run(args),
        DocVerb::Diff(args) => diff::run(args),
        DocVerb::Patch(args) => patch::run(args),
        DocVerb::Put(args) => put::run(args),
        DocVerb::Splice(args) => splice::run(args),
    }
}

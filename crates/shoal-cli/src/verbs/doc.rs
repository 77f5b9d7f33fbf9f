//! `shoal doc`: documents in files of their own and in databases, one file per verb.

mod anonymize;
mod compact;
mod copy;
mod diff;
mod export;
mod history;
mod import;
mod info;
mod ls;
mod merge;
mod patch;
mod put;
mod rename;
mod rescue;
mod rm;
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
        DocVerb::Rename(args) => rename::run(args),
        DocVerb::Copy(args) => copy::run(args),
        DocVerb::Rm(args) => rm::run(args),
        DocVerb::Compact(args) => compact::run(args),
        DocVerb::Put(args) => put::run(args),
        DocVerb::Splice(args) => splice::run(args),
    }
}

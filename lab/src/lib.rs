//! The lab: every engine beside its peers, in one run, answers first.
//!
//! Workloads are written once against a small trait per engine family ([`engine`]); contenders are
//! thin adapters, handed over in a [`Contenders`]. A row's answer is computed by every contender
//! and compared before anything is timed; then contenders take turns, each in a process of its own,
//! in an order shuffled by a printed seed and balanced (A B B A). Knows every public API of Shoal
//! and nobody's insides; of all shipped programs only the `bench` verb depends on the lab.

mod answer;
mod args;
mod compare;
mod contenders;
mod dataset;
pub mod engine;
mod environment;
mod measure;
pub mod memory;
mod out;
mod peers;
mod profile;
mod random;
pub mod record;
mod report;
mod run;
pub mod shoal;
mod spills;
pub mod statistics;
mod watch;
mod worker;
mod workload;

use std::borrow::Borrow;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub use answer::{Answer, Digest};
pub use args::{Arguments, BenchArguments};
pub use contenders::Contenders;
pub use environment::Environment;
pub use workload::{Family, Row, Scale};

/// The lab as a program: reads the process's own arguments.
///
/// `prefix` stands between the program's name and the lab's arguments, such as `bench` when the lab
/// is a verb: the lab starts its own program again for every contender.
pub fn main(prefix: &[&str], contenders: &Contenders) -> ExitCode {
    run(prefix, Arguments::parse(), contenders)
}

/// The lab with `contenders`: runs parsed arguments and reports errors on stderr.
pub fn run(prefix: &[&str], arguments: Arguments, contenders: &Contenders) -> ExitCode {
    match done(prefix, arguments, || contenders) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            out::note(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The lab as a verb: Shoal's engines alone. `prefix` as in [`main`].
///
/// False when a row failed or was not there, after a report of the failure.
///
/// # Errors
/// The reason the run could not take place, as a sentence.
pub fn bench(prefix: &[&str], arguments: BenchArguments) -> Result<bool, String> {
    done(prefix, arguments.into(), shoal::alone)
}

/// Makes the contenders where the arguments run any: drivers of graphics processors, asked for
/// their devices, write to stderr.
fn done<C: Borrow<Contenders>>(
    prefix: &[&str],
    arguments: Arguments,
    contenders: impl FnOnce() -> C,
) -> Result<bool, String> {
    let prefix: Vec<OsString> = prefix.iter().map(OsString::from).collect();
    match arguments.command {
        None => run::run(&arguments.run, &prefix, contenders().borrow()),
        Some(args::Verb::Ab(ab)) => compare::compare(&ab, contenders().borrow()),
        Some(args::Verb::Profile(profile)) => {
            profile::profile(&profile, &prefix, contenders().borrow())
        }
        Some(args::Verb::Spills) => spills::spills(),
        Some(args::Verb::Report(report)) => report::from_file(&report),
        Some(args::Verb::Peers(peers)) => peers::peers(&peers),
        Some(args::Verb::Serve(serve)) => {
            worker::serve::serve(&serve, contenders().borrow());
            Ok(true)
        }
    }
}

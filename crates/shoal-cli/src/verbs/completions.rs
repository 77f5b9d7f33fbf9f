//! `shoal completions`: a completion script on stdout.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::out;

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    clap_complete::generate(args.shell, &mut Cli::command(), "shoal", &mut out::stdout());
    Ok(())
}

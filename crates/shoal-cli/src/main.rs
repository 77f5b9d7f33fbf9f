//! The `shoal` command: reads the command line, runs one verb, reports the outcome.

#![forbid(unsafe_code)]

mod args;
mod backup;
mod document;
mod dump;
mod exchange;
mod failure;
mod import;
mod keys;
mod open;
mod out;
mod password;
mod place;
mod progress;
mod query;
mod recover;
mod replace;
mod rows;
mod rules;
mod shell;
mod time;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Verb};

fn main() -> ExitCode {
    let cli = Cli::parse_from(args::sql::with_verb(std::env::args_os()));
    let result = keys::take(&cli).and_then(|()| match &cli.verb {
        Verb::Sql(args) => verbs::sql::run(args),
        Verb::Cypher(args) => verbs::cypher::run(args),
        Verb::Graph(args) => verbs::graph::run(args),
        Verb::Doc(verb) => verbs::doc::run(verb),
        Verb::Import(args) => verbs::import::run(args),
        Verb::Export(args) => verbs::export::run(args),
        Verb::Dump(args) => verbs::dump::run(args),
        Verb::Backup(args) => verbs::backup::run(args),
        Verb::Diff(args) => verbs::diff::run(args),
        Verb::Apply(args) => verbs::apply::run(args),
        Verb::Changeset(verb) => verbs::changeset::run(verb),
        Verb::Merge(args) => verbs::merge::run(args),
        Verb::Ledger(verb) => verbs::ledger::run(verb),
        Verb::GitInstall(args) => verbs::git_install::run(args),
        Verb::GitDriver(verb) => verbs::git_driver::run(verb),
        #[cfg(feature = "excel")]
        Verb::ReadWorkbook(args) => verbs::read_workbook::run(args),
        Verb::Recover(args) => verbs::recover::run(args),
        Verb::Encrypt(args) => verbs::encrypt::run(args),
        Verb::Decrypt(args) => verbs::decrypt::run(args),
        Verb::Rekey(args) => verbs::rekey::run(args),
        Verb::Keys(verb) => verbs::keys::run(verb),
        Verb::Watch(args) => verbs::watch::run(args),
        Verb::Argon2(args) => verbs::argon2::run(args),
        Verb::HashPassword(args) => verbs::hash_password::run(args),
        Verb::VerifyPassword(args) => verbs::verify_password::run(args),
        Verb::Serve(args) => verbs::serve::run(args),
        Verb::Mcp(args) => verbs::mcp::run(args),
        Verb::Flight(args) => verbs::flight::run(args),
        Verb::Sync(args) => verbs::sync::run(args),
        Verb::Token(verb) => verbs::token::run(verb),
        Verb::Mine(args) => verbs::mine::run(args),
        Verb::Tour(args) => verbs::tour::run(args),
        Verb::Bench(args) => verbs::bench::run(args),
        Verb::Completions(args) => verbs::completions::run(args),
    });
    keys::tell_unlocked_memory();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.silent {
                out::error(&failure.sentence);
                if let Some(hint) = &failure.hint {
                    out::hint(hint);
                }
            }
            ExitCode::from(keys::code_of(&failure))
        }
    }
}

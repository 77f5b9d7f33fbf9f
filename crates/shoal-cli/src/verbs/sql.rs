//! `shoal sql`: statements and dot commands from arguments, from stdin, or typed in a shell.

use std::io::{self, IsTerminal};

use crate::args::{RowFormat, SqlArgs};
use crate::failure::Failure;
use crate::shell::session::Session;
use crate::shell::{interrupt, narrowed, script, terminal};

pub(crate) fn run(args: &SqlArgs) -> Result<(), Failure> {
    let format = args.format.unwrap_or_else(|| {
        if io::stdout().is_terminal() { RowFormat::Table } else { RowFormat::List }
    });
    if let Some(by) = args.principal.as_deref().zip(args.rules.as_deref()) {
        return narrowed::run(args, by, format);
    }
    let mut session = Session::open(args, format)?;
    interrupt::handle()?;
    for command in &args.commands {
        session.run(command, true)?;
    }
    if session.leaving.is_some() {
        return session.end();
    }
    if !args.sql.is_empty() {
        for text in &args.sql {
            session.run(text, true)?;
            if session.leaving.is_some() {
                break;
            }
        }
    } else if io::stdin().is_terminal() && !args.batch {
        terminal::run(&mut session, !args.no_history)?;
    } else {
        script::run(&mut session, io::stdin().lock(), "stdin")?;
    }
    session.end()
}

//! `shoal sql`: statements from arguments, from stdin, or typed in a shell.

use std::io::{self, BufRead, IsTerminal};

use shoal_sql::Statements;

use crate::args::{RowFormat, SqlArgs};
use crate::failure::Failure;
use crate::shell::session::Session;
use crate::shell::{interrupt, terminal};

pub(crate) fn run(args: &SqlArgs) -> Result<(), Failure> {
    let format = args.format.unwrap_or_else(|| {
        if io::stdout().is_terminal() { RowFormat::Table } else { RowFormat::List }
    });
    let mut session = Session::open(args, format)?;
    interrupt::handle()?;
    if !args.sql.is_empty() {
        for text in &args.sql {
            session.run(text, true)?;
        }
    } else if io::stdin().is_terminal() {
        terminal::run(&mut session)?;
    } else {
        run_script(&mut session, args.bail)?;
    }
    session.end()
}

/// Runs statements as soon as they are complete, so that a script may be longer than memory and
/// its writer may wait for answers.
fn run_script(session: &mut Session, bail: bool) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut pending = String::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(|error| Failure::at("stdin", error))? == 0 {
            break;
        }
        let text =
            std::str::from_utf8(&line).map_err(|_| Failure::at("stdin", "the SQL is not UTF-8"))?;
        pending.push_str(text);
        if text.contains(';') && Statements::is_complete(&pending) {
            session.run(&pending, bail)?;
            pending.clear();
        }
    }
    session.run(&pending, bail)
}

//! Statements and dot commands from a file or a pipe.

use std::io::{BufRead, BufReader, Read, Write};

use shoal_sql::Statements;

use super::session::Session;
use crate::failure::Failure;

/// Bytes read at once.
const BUFFER: usize = 1 << 16;

/// Most scripts reading each other, the outermost included.
const DEPTH: usize = 25;

/// Runs each statement once complete, so a script may be longer than memory and its writer may wait
/// for answers: rows are given out before the input is waited for. Outside of a statement a line
/// beginning with a dot is a command; one beginning with `#` is a comment.
pub(crate) fn run(session: &mut Session, input: impl Read, name: &str) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(BUFFER, input);
    if session.depth >= DEPTH {
        return Err(Failure::at(name, format_args!("more than {DEPTH} scripts in each other")));
    }
    session.depth += 1;
    let ran = lines(session, &mut input, name);
    session.depth -= 1;
    ran
}

fn lines(
    session: &mut Session,
    input: &mut BufReader<impl Read>,
    name: &str,
) -> Result<(), Failure> {
    let mut pending = String::new();
    let mut line = Vec::new();
    while session.leaving.is_none() {
        line.clear();
        if !input.buffer().contains(&b'\n') {
            session.flush()?;
        }
        if input.read_until(b'\n', &mut line).map_err(|error| Failure::at(name, error))? == 0 {
            return run_pending(session, &pending);
        }
        let text =
            std::str::from_utf8(&line).map_err(|_| Failure::at(name, "the SQL is not UTF-8"))?;
        let text = if pending.is_empty() { text.trim_start_matches('\u{feff}') } else { text };
        if is_blank(&pending) {
            if text.starts_with('.') {
                pending.clear();
                echo(session, text)?;
                session.run(text, false)?;
                continue;
            }
            if text.starts_with('#') {
                continue;
            }
        } else if is_end(text) {
            pending.push(';');
            run_pending(session, &pending)?;
            pending.clear();
            continue;
        }
        pending.push_str(text);
        if text.contains(';') && Statements::is_complete(&pending) {
            run_pending(session, &pending)?;
            pending.clear();
        }
    }
    Ok(())
}

fn run_pending(session: &mut Session, pending: &str) -> Result<(), Failure> {
    if is_blank(pending) {
        return Ok(());
    }
    echo(session, pending)?;
    session.run(pending, false)
}

fn echo(session: &mut Session, text: &str) -> Result<(), Failure> {
    if session.settings.echo {
        writeln!(session.out, "{}", text.trim_end())?;
    }
    Ok(())
}

/// True where nothing has begun: blanks and comments only.
pub(super) fn is_blank(pending: &str) -> bool {
    let rest = pending.trim_start();
    // Only comments are looked at again with every line.
    rest.is_empty()
        || (rest.starts_with("--") || rest.starts_with("/*"))
            && Statements::new(pending).next().is_none()
            && !open_comment(pending)
}

/// True where a comment over several lines has not ended yet.
fn open_comment(text: &str) -> bool {
    text.rfind("/*").is_some_and(|start| !text[start..].contains("*/"))
}

/// True where a line ends a statement as `;` does, in the manner of other shells.
fn is_end(line: &str) -> bool {
    let line = line.trim();
    line == "/" || line.eq_ignore_ascii_case("go")
}

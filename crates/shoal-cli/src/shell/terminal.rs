//! The shell: statements typed on a terminal.

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use shoal_sql::Statements;

use super::session::Session;
use crate::failure::Failure;
use crate::out;

/// Reads and runs statements until the end of the input or `.quit`.
pub(crate) fn run(session: &mut Session) -> Result<(), Failure> {
    let terminal = |error: ReadlineError| Failure::at("terminal", error);
    let mut editor = DefaultEditor::new().map_err(terminal)?;
    out::note("Statements end with a semicolon. Ctrl-C stops one, .quit or Ctrl-D leaves.");
    session.is_shell = true;
    let mut pending = String::new();
    loop {
        let prompt = if pending.is_empty() { "shoal> " } else { "   ...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                if pending.is_empty() && matches!(line.trim(), ".quit" | ".exit" | "exit" | "quit")
                {
                    return Ok(());
                }
                pending.push_str(&line);
                pending.push('\n');
                if pending.trim().is_empty() {
                    pending.clear();
                } else if line.trim_end().ends_with(';') && Statements::is_complete(&pending) {
                    // A line that cannot be remembered is still run.
                    let _ = editor.add_history_entry(pending.trim());
                    session.run(&pending, false)?;
                    pending.clear();
                }
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => return session.run(&pending, false),
            Err(error) => return Err(terminal(error)),
        }
    }
}

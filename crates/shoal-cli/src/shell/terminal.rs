//! The shell: statements typed on a terminal.

use rustyline::Editor;
use rustyline::config::{CompletionType, Config};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use shoal_sql::{Object, Statements};

use super::complete::Assistant;
use super::history::History;
use super::script::is_blank;
use super::session::{Session, has_colours};
use crate::failure::Failure;
use crate::out;

/// Reads and runs statements until the end of the input or `.quit`.
pub(crate) fn run(session: &mut Session, history: bool) -> Result<(), Failure> {
    let terminal = |error: ReadlineError| Failure::at("terminal", error);
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .max_history_size(10_000)
        .map_err(terminal)?
        .build();
    let memory = MemHistory::with_config(&config);
    let mut editor: Editor<Assistant, MemHistory> =
        Editor::with_history(config, memory).map_err(terminal)?;
    let assistant = Assistant { names: Vec::new(), colour: has_colours() };
    editor.set_helper(Some(assistant));
    let (mut history, entries) = History::open(history);
    for entry in entries {
        editor.add_history_entry(entry).map_err(terminal)?;
    }
    out::note("Statements end with a semicolon, .help lists commands. Ctrl-C stops a statement,");
    out::note(".quit or Ctrl-D leaves.");
    session.is_shell = true;
    let mut pending = String::new();
    while session.leaving.is_none() {
        session.flush()?;
        if pending.is_empty() {
            if let Some(helper) = editor.helper_mut() {
                helper.names = names(session);
            }
            session.height = editor.dimensions().map(|(_, rows)| usize::from(rows).max(4) - 1);
        }
        let prompt = session.settings.prompts[usize::from(!pending.is_empty())].clone();
        match editor.readline(&prompt) {
            Ok(line) => {
                let begins = is_blank(&pending);
                let command = line.trim_start().starts_with('.')
                    || matches!(line.trim(), "exit" | "quit" | "help");
                pending.push_str(&line);
                pending.push('\n');
                if begins && line.trim().is_empty() {
                    pending.clear();
                } else if begins && command {
                    remember(&mut editor, &mut history, line.trim());
                    let line = line.trim();
                    match line.starts_with('.') {
                        true => session.run(line, false)?,
                        false => session.run(&format!(".{line}"), false)?,
                    }
                    pending.clear();
                } else if line.trim_end().ends_with(';') && Statements::is_complete(&pending) {
                    remember(&mut editor, &mut history, pending.trim());
                    session.run(&pending, false)?;
                    pending.clear();
                }
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => return session.run(&pending, false),
            Err(error) => return Err(terminal(error)),
        }
    }
    Ok(())
}

fn remember(editor: &mut Editor<Assistant, MemHistory>, history: &mut History, entry: &str) {
    // A line the history refuses still runs; a repeated line is not kept twice.
    if editor.add_history_entry(entry).unwrap_or(false) {
        history.push(entry);
    }
}

/// The names of the schema, to complete words with.
fn names(session: &mut Session) -> Vec<String> {
    // While the file is locked there are no names; the next prompt asks again.
    let Ok(schema) = session.connection.schema() else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for object in schema.objects() {
        names.push(object.name().to_owned());
        if let Object::Table(table) = object {
            names.extend(table.columns().iter().map(|column| column.name().to_owned()));
            names.extend(table.indexes().iter().map(|index| index.name().to_owned()));
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

//! `.import`: rows of a file into a table, by the rules of `sqlite3`: columns are texts, and a row
//! of another length is filled or cut.

use std::path::PathBuf;
use std::process::{Command as Program, Stdio};

use super::Command;
use crate::failure::Failure;
use crate::import::{Form, Input, Job, Types, import as read_rows};
use crate::out;
use crate::rows::style::Mode;
use crate::shell::session::Session;

/// `.import ?OPTIONS? FILE TABLE`
pub(super) fn import(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let style = &session.printer.style;
    let (mut csv, mut json, mut skip, mut verbose) = (style.mode == Mode::Csv, false, 0, false);
    let mut names = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--csv" | "-csv" => csv = true,
            "--json" | "-json" => json = true,
            "-v" | "--v" => verbose = true,
            "--skip" | "-skip" => {
                let count = words.next().ok_or_else(|| command.misused())?;
                skip = count
                    .parse()
                    .map_err(|_| Failure::new(format_args!("not a number of rows: {count}")))?;
            }
            option if option.starts_with('-') => {
                return Err(Failure::new(format_args!("not supported: .import {option}"))
                    .hint(".help import lists the options"));
            }
            name => names.push(name),
        }
    }
    let [file, table] = names[..] else { return Err(command.misused()) };
    let delimiter = match style.column_separator.as_bytes() {
        _ if csv => b',',
        [byte] if byte.is_ascii() && *byte != b'"' => *byte,
        _ => {
            let separator = &style.column_separator;
            return Err(Failure::new(format_args!(
                "a separator of columns is one character here: {separator:?}"
            )));
        }
    };
    let form = match json {
        true => Form::Json,
        false => Form::Csv { delimiter, header: None, skip },
    };
    let types = if json { Types::Inferred(Vec::new()) } else { Types::Text };
    let job = Job { place: file, form, table, types, batch: None, lenient: true };
    session.create_missing()?;
    let style = &mut session.printer.style;
    if style.mode == Mode::Csv && style.row_separator == "\r\n" {
        // sqlite3 has one separator for input and output, and input ends lines so.
        "\n".clone_into(&mut style.row_separator);
    }
    let connection = &mut session.connection;
    let done = match file.strip_prefix('|') {
        None => read_rows(connection, &job, Input::File(PathBuf::from(file)))?,
        Some(program) => {
            let failed = |error| Failure::at(program, error);
            let mut child = Program::new("sh")
                .args(["-c", program])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(failed)?;
            let stdout = child.stdout.take().expect("its stdout is a pipe, as asked above");
            let done = read_rows(connection, &job, Input::Stream(Box::new(stdout)));
            child.wait().map_err(failed)?;
            done?
        }
    };
    if verbose {
        if let Some(sql) = &done.created {
            out::note(sql);
        }
        out::note(format_args!("{table}: {} rows", done.rows));
    }
    Ok(())
}

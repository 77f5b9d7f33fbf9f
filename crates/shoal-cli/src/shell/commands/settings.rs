//! Commands setting the shell's behaviour and the form of rows.

use std::io::{self, Write};

use super::Command;
use crate::failure::Failure;
use crate::query::rows;
use crate::rows::c_string;
use crate::rows::style::{MODES, Mode, Style};
use crate::shell::session::Session;
use crate::shell::words::boolean;

/// The one argument of a switch.
fn switch(command: &Command, words: &[&str]) -> Result<bool, Failure> {
    match words {
        [word] => boolean(word),
        _ => Err(command.misused()),
    }
}

/// `.bail on|off`
pub(super) fn bail(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.bail = switch(command, words)?;
    Ok(())
}

/// `.changes on|off`
pub(super) fn changes(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.changes = switch(command, words)?;
    Ok(())
}

/// `.echo on|off`
pub(super) fn echo(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.echo = switch(command, words)?;
    Ok(())
}

/// `.eqp on|off`; `sqlite3`'s `full` and `trigger` mean `on` here.
pub(super) fn plans(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.plans = match words {
        ["full" | "trigger"] => true,
        ["trace" | "test"] => return Err(Failure::new("not supported: .eqp trace")),
        words => switch(command, words)?,
    };
    Ok(())
}

/// `.explain ?on|off|auto?`
pub(super) fn explain(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.explain = match words {
        [] => "on".to_owned(),
        ["auto"] => "auto".to_owned(),
        words => (if switch(command, words)? { "on" } else { "off" }).to_owned(),
    };
    Ok(())
}

/// `.headers on|off`
pub(super) fn headers(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let style = &mut session.printer.style;
    (style.headers, style.headers_chosen) = (switch(command, words)?, true);
    Ok(())
}

/// `.mode ?MODE? ?OPTIONS?`
pub(super) fn mode(session: &mut Session, _: &Command, words: &[&str]) -> Result<(), Failure> {
    let style = &mut session.printer.style;
    let Some((name, rest)) = words.split_first() else {
        writeln!(session.out, "current output mode: {}", described(&session.printer.style))?;
        return Ok(());
    };
    let Some(mode) = Mode::named(name) else {
        let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
        return Err(Failure::new(format_args!("no such mode: {name}"))
            .hint(format_args!("the modes are {}", names.join(" "))));
    };
    let mut new = style.clone();
    new.set_mode(name, mode);
    (new.wrap, new.word_wrap) = (if mode.is_columnar() { WRAP } else { 0 }, false);
    if mode == Mode::Insert {
        new.table = "table".to_owned();
    }
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let missing = || Failure::new(format_args!("{word} needs a value"));
        match *word {
            "--wrap" | "-wrap" => {
                let value = rest.next().ok_or_else(missing)?;
                new.wrap = value.parse().map_err(|_| {
                    Failure::new(format_args!("--wrap takes a number of columns: {value}"))
                })?;
            }
            "--wordwrap" | "-wordwrap" => {
                new.word_wrap = boolean(rest.next().ok_or_else(missing)?)?;
            }
            "--ww" | "-ww" => new.word_wrap = true,
            "--quote" | "-quote" => new.quote = true,
            "--noquote" | "-noquote" => new.quote = false,
            table if mode == Mode::Insert && !table.starts_with('-') => {
                table.clone_into(&mut new.table)
            }
            option => return Err(Failure::new(format_args!("unknown option: {option}"))),
        }
    }
    *style = new;
    Ok(())
}

/// Columns are wrapped there, unless the mode is told otherwise.
const WRAP: usize = 60;

/// The mode with its options.
fn described(style: &Style) -> String {
    let name = style.mode.name();
    if !style.mode.is_columnar() {
        return name.to_owned();
    }
    let word_wrap = if style.word_wrap { "on" } else { "off" };
    let quote = if style.quote { "quote" } else { "noquote" };
    format!("{name} --wrap {} --wordwrap {word_wrap} --{quote}", style.wrap)
}

/// `.nullvalue STRING`
pub(super) fn null(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let [text] = words else { return Err(command.misused()) };
    (*text).clone_into(&mut session.printer.style.null);
    Ok(())
}

/// `.pager on|off`
pub(super) fn pager(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.pager = switch(command, words)?;
    Ok(())
}

/// `.prompt MAIN ?CONTINUE?`
pub(super) fn prompt(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    if words.is_empty() || words.len() > 2 {
        return Err(command.misused());
    }
    for (prompt, word) in session.settings.prompts.iter_mut().zip(words) {
        (*word).clone_into(prompt);
    }
    Ok(())
}

/// `.separator COLUMN ?ROW?`
pub(super) fn separator(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let style = &mut session.printer.style;
    match words {
        [column] => (*column).clone_into(&mut style.column_separator),
        [column, row] => {
            (*column).clone_into(&mut style.column_separator);
            (*row).clone_into(&mut style.row_separator);
        }
        _ => return Err(command.misused()),
    }
    Ok(())
}

/// `.show`
pub(super) fn show(session: &mut Session, _: &Command, _: &[&str]) -> Result<(), Failure> {
    let (settings, style) = (&session.settings, &session.printer.style);
    let switch = |on: bool| if on { "on" } else { "off" }.to_owned();
    let widths: String = style.widths.iter().map(|width| format!("{width} ")).collect();
    let lines = [
        ("echo", switch(settings.echo)),
        ("eqp", switch(settings.plans)),
        ("explain", settings.explain.clone()),
        ("headers", switch(style.headers)),
        ("mode", described(style)),
        ("nullvalue", quoted(&style.null)?),
        ("output", session.out.name.clone()),
        ("colseparator", quoted(&style.column_separator)?),
        ("rowseparator", quoted(&style.row_separator)?),
        ("stats", switch(settings.stats)),
        ("width", widths),
        ("filename", session.file.display().to_string()),
    ];
    for (name, value) in lines {
        writeln!(session.out, "{name:>12}: {value}")?;
    }
    Ok(())
}

fn quoted(text: &str) -> io::Result<String> {
    let mut out = Vec::new();
    c_string(&mut out, text.as_bytes())?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// `.stats ?on|off?`
pub(super) fn stats(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    if words.is_empty() {
        return Ok(session.print_stats(0)?);
    }
    session.settings.stats = switch(command, words)?;
    Ok(())
}

/// `.timeout MS`
pub(super) fn timeout(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let milliseconds = match words {
        [number] => number.parse::<u32>().map_err(|_| command.misused())?,
        _ => return Err(command.misused()),
    };
    let pragma = format!("PRAGMA busy_timeout = {milliseconds}");
    rows(&mut session.connection, &pragma, &[]).map_err(Failure::new)?;
    Ok(())
}

/// `.timer on|off`
pub(super) fn timer(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.settings.timer = switch(command, words)?;
    Ok(())
}

/// `.width NUMBER...`
pub(super) fn width(session: &mut Session, _: &Command, words: &[&str]) -> Result<(), Failure> {
    let widths: Result<Vec<i32>, Failure> = words
        .iter()
        .map(|word| {
            word.parse().map_err(|_| Failure::new(format_args!("not a number of columns: {word}")))
        })
        .collect();
    session.printer.style.widths = widths?;
    Ok(())
}

//! Commands about files, other programs, and leaving.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command as Program, Stdio};

use super::Command;
use crate::dump::{self, Wanted};
use crate::failure::Failure;
use crate::out;
use crate::shell::output::Output;
use crate::shell::script;
use crate::shell::session::Session;

/// `.cd DIRECTORY`
pub(super) fn cd(_: &mut Session, command: &Command, words: &[&str]) -> Result<(), Failure> {
    let [folder] = words else { return Err(command.misused()) };
    std::env::set_current_dir(folder).map_err(|error| Failure::at(folder, error))
}

/// `.dump ?PATTERN? ...`
pub(super) fn dump(session: &mut Session, _: &Command, words: &[&str]) -> Result<(), Failure> {
    let patterns: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let wanted = if patterns.is_empty() { Wanted::All } else { Wanted::Like(&patterns) };
    let Session { connection, out, .. } = session;
    let failed = |error: shoal_sql::Error| Failure::new(error);
    dump::dump(connection, out, &wanted, &failed, &mut |note| out::note(note))
}

/// `.exit ?CODE?` and `.quit`
pub(super) fn exit(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    session.leaving = Some(match words {
        [] => 0,
        [code] => code.parse().map_err(|_| Failure::new(format_args!("no exit code: {code}")))?,
        _ => return Err(command.misused()),
    });
    Ok(())
}

/// `.once ?FILE?`
pub(super) fn once(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    output(session, command, words)?;
    // This command and the next one.
    session.once = 2;
    Ok(())
}

/// `.open ?--new? ?--readonly? ?FILE?`
pub(super) fn open(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let (mut new, mut read_only, mut file) = (false, false, None);
    for word in words {
        match word.trim_start_matches('-') {
            "new" if word.starts_with('-') => new = true,
            "readonly" if word.starts_with('-') => read_only = true,
            option if word.starts_with('-') => {
                return Err(Failure::new(format_args!("not supported: .open --{option}")));
            }
            _ if file.is_some() => return Err(command.misused()),
            _ => file = Some(*word),
        }
    }
    let file = Path::new(file.unwrap_or(":memory:"));
    if new && file.exists() {
        // The journal of a deleted file must not be played back into the new one.
        for name in ["-journal", "-wal", "-shm"] {
            let mut beside = file.as_os_str().to_owned();
            beside.push(name);
            let _ = std::fs::remove_file(beside);
        }
        std::fs::remove_file(file).map_err(|error| Failure::at(file.display(), error))?;
    }
    session.reopen(file, read_only)
}

/// `.output ?FILE?`
pub(super) fn output(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let name = match words {
        [] => "stdout".to_owned(),
        [name] if name.starts_with('-') => {
            return Err(Failure::new(format_args!("not supported: {name}"))
                .hint(".mode csv and .once FILE write what a spreadsheet opens"));
        }
        [name] => (*name).to_owned(),
        [command, rest @ ..] if command.starts_with('|') => {
            format!("{command} {}", rest.join(" "))
        }
        _ => return Err(command.misused()),
    };
    session.once = 0;
    session.redirect(Output::open(&name)?)
}

/// `.print STRING...`
pub(super) fn print(session: &mut Session, _: &Command, words: &[&str]) -> Result<(), Failure> {
    Ok(writeln!(session.out, "{}", words.join(" "))?)
}

/// `.read FILE`
pub(super) fn read(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let name = match words {
        [name] => (*name).to_owned(),
        [name, ..] if name.starts_with('|') => words.join(" "),
        _ => return Err(command.misused()),
    };
    let Some(program) = name.strip_prefix('|') else {
        let file = File::open(&name).map_err(|error| Failure::at(&name, error))?;
        return script::run(session, file, &name);
    };
    let failed = |error| Failure::at(program, error);
    let mut child = Program::new("sh")
        .args(["-c", program])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let stdout = child.stdout.take().expect("its stdout is a pipe, as asked above");
    let ran = script::run(session, stdout, &name);
    child.wait().map_err(failed)?;
    ran
}

/// `.shell COMMAND ARGS...`
pub(super) fn shell(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    if words.is_empty() {
        return Err(command.misused());
    }
    session.out.flush()?;
    // Words with blanks were in quotes, and are again.
    let line: Vec<String> = words
        .iter()
        .map(|word| match word.contains(char::is_whitespace) {
            true => format!("\"{word}\""),
            false => (*word).to_owned(),
        })
        .collect();
    let line = line.join(" ");
    let status = Program::new("sh")
        .args(["-c", &line])
        .status()
        .map_err(|error| Failure::at(&line, error))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::new(format_args!("the command ended with exit code {code}"))),
        None => Err(Failure::new("the command was stopped by a signal")),
    }
}

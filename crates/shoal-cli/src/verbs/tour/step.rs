//! One command of the tour: shown as typed, run as a process, timed.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::out;

/// A command, and the bytes piped into its stdin.
pub(super) struct Step {
    program: Program,
    args: Vec<String>,
    input: Input,
}

enum Program {
    Shoal,
    Other(&'static str),
}

enum Input {
    Nothing,
    Text(String),
    Output(Box<Step>),
}

impl Step {
    /// This program with these arguments.
    pub(super) fn shoal<const N: usize>(args: [&str; N]) -> Self {
        Self::new(Program::Shoal, &args)
    }

    /// Another program.
    pub(super) fn program<const N: usize>(name: &'static str, args: [&str; N]) -> Self {
        Self::new(Program::Other(name), &args)
    }

    fn new(program: Program, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { program, args, input: Input::Nothing }
    }

    /// With more arguments.
    pub(super) fn and<const N: usize>(mut self, args: [&str; N]) -> Self {
        self.args.extend(args.map(str::to_owned));
        self
    }

    /// With `text` on its stdin.
    pub(super) fn input(mut self, text: &str) -> Self {
        self.input = Input::Text(text.to_owned());
        self
    }

    /// `shoal args...`, reading this command's output.
    pub(super) fn pipe<const N: usize>(self, args: [&str; N]) -> Self {
        Self { input: Input::Output(Box::new(self)), ..Self::shoal(args) }
    }

    fn typed(&self) -> String {
        let name = match self.program {
            Program::Shoal => "shoal",
            Program::Other(name) => name,
        };
        let words: Vec<String> =
            std::iter::once(name).chain(self.args.iter().map(String::as_str)).map(quoted).collect();
        let command = words.join(" ");
        match &self.input {
            Input::Nothing => command,
            Input::Text(text) => format!("echo {} | {command}", quoted(text)),
            Input::Output(source) => format!("{} | {command}", source.typed()),
        }
    }

    fn run(&self, dir: &Path) -> io::Result<Finished> {
        let input = match &self.input {
            Input::Nothing => Vec::new(),
            Input::Text(text) => format!("{text}\n").into_bytes(),
            Input::Output(source) => {
                let finished = source.run(dir)?;
                if !finished.success {
                    return Ok(finished);
                }
                finished.stdout
            }
        };
        let program: PathBuf = match self.program {
            Program::Shoal => std::env::current_exe()?,
            Program::Other(name) => name.into(),
        };
        let mut child = Command::new(program)
            .args(self.args.iter().map(OsStr::new))
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut stdin = child.stdin.take();
        let feeder = std::thread::spawn(move || {
            // A child ending before reading everything is judged by its exit code.
            stdin.as_mut().map(|pipe| pipe.write_all(&input))
        });
        let output = child.wait_with_output()?;
        let _ = feeder.join();
        Ok(Finished {
            success: output.status.success(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }
}

struct Finished {
    success: bool,
    stdout: Vec<u8>,
    stderr: String,
}

/// The tour so far.
pub(super) struct Tour {
    dir: PathBuf,
    commands: u32,
    checks: u32,
}

impl Tour {
    /// A tour whose commands run in `dir`.
    pub(super) fn new(dir: &Path) -> Result<Self, Failure> {
        out::line(format_args!("$ cd {}", quoted(&dir.display().to_string())))?;
        Ok(Self { dir: dir.to_owned(), commands: 0, checks: 0 })
    }

    /// Announces the next step.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        Ok(out::line(format_args!("\n{text}"))?)
    }

    /// Runs a command, shows the command with its result and time, and returns its output.
    pub(super) fn run(&mut self, step: Step) -> Result<String, Failure> {
        let typed = step.typed();
        self.run_if_there(step)?.ok_or_else(|| Failure::at(typed, "no such command"))
    }

    /// Like [`Tour::run`]; `None` when the program does not exist.
    pub(super) fn run_if_there(&mut self, step: Step) -> Result<Option<String>, Failure> {
        let typed = step.typed();
        out::line(format_args!("$ {typed}"))?;
        let start = Instant::now();
        let finished = match step.run(&self.dir) {
            Ok(finished) => finished,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::at(typed, error)),
        };
        let elapsed = start.elapsed();
        self.commands += 1;
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        show(&text)?;
        if !finished.success {
            return Err(Failure::at(typed, format_args!("failed\n{}", finished.stderr.trim_end())));
        }
        out::line(format_args!("  {} ms", milliseconds(elapsed)))?;
        Ok(Some(text))
    }

    /// Stops the tour unless `held`.
    pub(super) fn check(&mut self, what: &str, held: bool) -> Result<(), Failure> {
        if !held {
            return Err(Failure::new(format_args!("the check failed: {what}")));
        }
        self.checks += 1;
        Ok(out::line(format_args!("  ✓ {what}"))?)
    }

    /// Prints the summary.
    pub(super) fn end(self, elapsed: Duration) -> Result<(), Failure> {
        let Self { dir, commands, checks } = self;
        Ok(out::line(format_args!(
            "\n{commands} commands, {checks} checks, all held, in {} ms. The files are in {}",
            milliseconds(elapsed),
            dir.display()
        ))?)
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

/// Prints the beginning of a command's output.
fn show(text: &str) -> Result<(), Failure> {
    let lines = text.lines().count();
    for line in text.lines().take(LINES_SHOWN) {
        let shown: String = line.chars().take(COLUMNS_SHOWN).collect();
        let more = if shown.len() < line.len() { "…" } else { "" };
        out::line(format_args!("  {shown}{more}"))?;
    }
    if lines > LINES_SHOWN {
        out::line(format_args!("  … {} more lines", lines - LINES_SHOWN))?;
    }
    Ok(())
}

/// The word, quoted for a POSIX shell where necessary.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // Within double quotes these still mean something to a shell.
    if word.contains('\'') && !word.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

const LINES_SHOWN: usize = 8;
const COLUMNS_SHOWN: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        let step = Step::shoal(["doc", "import", "-", "a.db::x"]).input("{\"a\": \"it's\"}");
        assert_eq!(step.typed(), r#"echo '{"a": "it'\''s"}' | shoal doc import - a.db::x"#);
        let step = Step::shoal(["doc", "splice", "a", "/t", "0", "0", "Ada's "]);
        assert_eq!(step.typed(), r#"shoal doc splice a /t 0 0 "Ada's ""#);
        let step = Step::shoal(["dump", "a b.db"]).pipe(["sql", "c.db"]);
        assert_eq!(step.typed(), "shoal dump 'a b.db' | shoal sql c.db");
    }
}

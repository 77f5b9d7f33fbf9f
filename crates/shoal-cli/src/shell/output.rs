//! Where rows go: stdout, a file, a command, or on a terminal a pager.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::failure::Failure;
use crate::out::{self, Stdout};

/// The target of `.output` and `.once`.
pub(crate) struct Output {
    /// The name printed by `.show`: `stdout`, a file, `|COMMAND`.
    pub(crate) name: String,
    sink: Sink,
}

enum Sink {
    Stdout(Stdout),
    File(BufWriter<File>),
    Command(Child, BufWriter<ChildStdin>),
}

impl Output {
    /// Standard output.
    pub(crate) fn stdout() -> Output {
        Output { name: "stdout".to_owned(), sink: Sink::Stdout(out::stdout()) }
    }

    /// An emptied file; `stdout`; `off` for nowhere; or `|COMMAND` for a command's stdin.
    pub(crate) fn open(name: &str) -> Result<Output, Failure> {
        let sink = match name {
            "stdout" => return Ok(Output::stdout()),
            "off" => Sink::File(BufWriter::new(create("/dev/null")?)),
            name => match name.strip_prefix('|') {
                Some(command) => {
                    let (child, stdin) = spawn(command)?;
                    Sink::Command(child, stdin)
                }
                None => Sink::File(BufWriter::new(create(name)?)),
            },
        };
        Ok(Output { name: name.to_owned(), sink })
    }

    /// True for stdout on a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_)) && io::stdout().is_terminal()
    }

    /// Writes buffered bytes and waits for a command to end.
    pub(crate) fn close(self) -> Result<(), Failure> {
        match self.sink {
            Sink::Stdout(mut stdout) => Ok(stdout.flush()?),
            Sink::File(mut file) => file.flush().map_err(|error| Failure::at(&self.name, error)),
            Sink::Command(child, mut stdin) => {
                // A command may stop reading early: an error of the last write is no failure.
                let _ = stdin.flush();
                drop(stdin);
                wait(child)
            }
        }
    }
}

fn create(name: &str) -> Result<File, Failure> {
    File::create(name).map_err(|error| Failure::at(name, error))
}

/// Starts a command of the system's shell, reading the output from its stdin.
fn spawn(command: &str) -> Result<(Child, BufWriter<ChildStdin>), Failure> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::at(command, error))?;
    let stdin = child.stdin.take().expect("its stdin is a pipe, as asked above");
    Ok((child, BufWriter::new(stdin)))
}

fn wait(mut child: Child) -> Result<(), Failure> {
    child.wait().map(|_| ()).map_err(|error| Failure::at("waiting for a command", error))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stdout(sink) => sink.write(bytes),
            Sink::File(sink) => sink.write(bytes),
            Sink::Command(_, sink) => sink.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(sink) => sink.flush(),
            Sink::File(sink) => sink.flush(),
            Sink::Command(_, sink) => sink.flush(),
        }
    }
}

/// Rows on a terminal: printed at once while they fit, through a pager beyond one screen.
pub(super) struct Paged<'o> {
    out: &'o mut Output,
    /// Lines of the terminal's screen; `None` for no pager.
    height: Option<usize>,
    held: Vec<u8>,
    lines: usize,
    pager: Option<(Child, BufWriter<ChildStdin>)>,
}

impl<'o> Paged<'o> {
    pub(super) fn new(out: &'o mut Output, height: Option<usize>) -> Paged<'o> {
        Paged { out, height, held: Vec::new(), lines: 0, pager: None }
    }

    /// Writes the rows still held, and waits for the pager. Leaving the pager early is no error.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        match self.pager.take() {
            None => Ok(self.out.write_all(&self.held)?),
            Some((child, mut stdin)) => {
                let _ = stdin.flush();
                drop(stdin);
                wait(child)
            }
        }
    }

    /// True when the error means the user has left the pager.
    pub(super) fn was_left(&self, error: &io::Error) -> bool {
        self.pager.is_some() && error.kind() == io::ErrorKind::BrokenPipe
    }

    fn start(&mut self) -> io::Result<()> {
        let command = std::env::var("SHOAL_PAGER")
            .or_else(|_| std::env::var("PAGER"))
            .unwrap_or_else(|_| "less".to_owned());
        // Git's defaults for less: no wrapping of long lines, colours kept, the rows stay on the
        // screen.
        let started = Command::new("sh")
            .args(["-c", &command])
            .env("LESS", std::env::var("LESS").unwrap_or_else(|_| "FRSX".to_owned()))
            .stdin(Stdio::piped())
            .spawn();
        self.height = None;
        match started {
            Ok(mut child) => {
                let stdin = child.stdin.take().expect("its stdin is a pipe, as asked above");
                let mut stdin = BufWriter::new(stdin);
                stdin.write_all(&std::mem::take(&mut self.held))?;
                self.pager = Some((child, stdin));
                Ok(())
            }
            // No pager here: the terminal scrolls.
            Err(_) => self.out.write_all(&std::mem::take(&mut self.held)),
        }
    }
}

impl Write for Paged<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((_, stdin)) = &mut self.pager {
            return stdin.write(bytes);
        }
        let Some(height) = self.height else { return self.out.write(bytes) };
        self.held.extend_from_slice(bytes);
        self.lines += bytes.iter().filter(|byte| **byte == b'\n').count();
        if self.lines > height {
            self.start()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.pager {
            Some((_, stdin)) => stdin.flush(),
            None => self.out.flush(),
        }
    }
}

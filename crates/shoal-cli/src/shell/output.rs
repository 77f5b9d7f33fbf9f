//! Where rows go: stdout, a file, a command, or on a terminal a pager.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::failure::Failure;
use crate::out::{self, Stdout};

/// The target of `.output` and `.once`.
pub(crate) struct Output {
    /// The name that `.show` prints: `stdout`, a file, `|COMMAND`.
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

    /// A file, which is emptied; `stdout`; `off` for nowhere; or `|COMMAND` for a command's stdin.
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

    /// True where it is a stdout that is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_)) && io::stdout().is_terminal()
    }

    /// Writes what is left and waits for a command to end.
    pub(crate) fn close(self) -> Result<(), Failure> {
        match self.sink {
            Sink::Stdout(mut stdout) => Ok(stdout.flush()?),
            Sink::File(mut file) => file.flush().map_err(|error| Failure::at(&self.name, error)),
            Sink::Command(child, mut stdin) => {
                // A command may stop reading whenever it has seen enough.
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

/// Starts a command of the system's shell that reads what is written to it.
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

/// Rows on a terminal: as they come while they fit on it, through a pager once they do not.
pub(super) struct Paged<'o> {
    out: &'o mut Output,
    /// Lines that the terminal shows at once; `None` for no pager.
    height: Option<usize>,
    held: Vec<u8>,
    lines: usize,
    pager: Option<(Child, BufWriter<ChildStdin>)>,
}

impl<'o> Paged<'o> {
    pub(super) fn new(out: &'o mut Output, height: Option<usize>) -> Paged<'o> {
        Paged { out, height, held: Vec::new(), lines: 0, pager: None }
    }

    /// Writes what is left, and waits for the pager. A pager that was left early is no error.
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

    /// True where an error means that the pager was left.
    pub(super) fn was_left(&self, error: &io::Error) -> bool {
        self.pager.is_some() && error.kind() == io::ErrorKind::BrokenPipe
    }

    fn start(&mut self) -> io::Result<()> {
        let command = std::env::var("SHOAL_PAGER")
            .or_else(|_| std::env::var("PAGER"))
            .unwrap_or_else(|_| "less".to_owned());
        // As git has it: long lines stay lines, colours stay colours, the rows stay on the screen.
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

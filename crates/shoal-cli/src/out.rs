//! The only module to print: data to stdout, everything else to stderr.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output, buffered and locked; dropping or flushing delivers the bytes.
pub(crate) type Stdout = BufWriter<StdoutLock<'static>>;

/// Returns standard output for data.
pub(crate) fn stdout() -> Stdout {
    BufWriter::new(io::stdout().lock())
}

/// Writes one line of data.
///
/// # Errors
/// When stdout is closed.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")
}

/// Returns standard error, for lines other than data.
pub(crate) fn stderr() -> io::Stderr {
    io::stderr()
}

/// Prints a line other than data on stderr.
pub(crate) fn note(text: impl Display) {
    // A reader gone from stderr is no reason to stop the work.
    let _ = writeln!(stderr(), "{text}");
}

/// Reports a failure on stderr.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(stderr(), "error: {text}");
}

/// Adds how to go on after an error.
pub(crate) fn hint(text: impl Display) {
    let _ = writeln!(stderr(), "hint: {text}");
}

//! The only place that prints: data to stdout, everything else to stderr.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::fmt::Display;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Standard output, buffered and locked; what is written arrives when it is dropped or flushed.
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

/// Returns standard error for lines that are not data.
pub(crate) fn stderr() -> io::Stderr {
    io::stderr()
}

/// Says something that is not data.
pub(crate) fn note(text: impl Display) {
    // A reader that has gone is no reason to stop the work.
    let _ = writeln!(stderr(), "{text}");
}

/// Reports what failed.
pub(crate) fn error(text: impl Display) {
    let _ = writeln!(stderr(), "error: {text}");
}

/// Adds how to go on after an error.
pub(crate) fn hint(text: impl Display) {
    let _ = writeln!(stderr(), "hint: {text}");
}

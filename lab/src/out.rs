//! The only module to print: figures to stdout, all else to stderr.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write;

/// A line of the result.
pub(crate) fn line(text: &str) {
    // Whoever closed the pipe has seen enough.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line about the run.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

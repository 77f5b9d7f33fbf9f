//! Rows as aligned columns. Widths are taken from a batch of rows, so that a result of any length
//! is printed in bounded memory; a later batch may be wider than the first.

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text_15};
use shoal_stdx::hex;
use unicode_width::UnicodeWidthStr;

/// Rows that wait until the widths of their columns are known.
#[derive(Default)]
pub(super) struct Batch {
    headings: Vec<String>,
    headed: bool,
    widths: Vec<usize>,
    cells: Vec<Cell>,
}

struct Cell {
    text: String,
    number: bool,
}

impl Batch {
    /// Starts a new table.
    pub(super) fn begin(&mut self, headings: &[String]) {
        self.headings = headings.iter().map(|name| printable(name)).collect();
        self.headed = false;
        self.widths = self.headings.iter().map(|name| name.width()).collect();
        self.cells.clear();
    }

    /// Takes one row, and prints the batch when it is full.
    pub(super) fn row(&mut self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        for (width, value) in self.widths.iter_mut().zip(row) {
            let cell = Cell::new(value);
            *width = (*width).max(cell.text.width());
            self.cells.push(cell);
        }
        if self.cells.len() >= BATCH_ROWS * row.len() { self.flush(out) } else { Ok(()) }
    }

    /// Prints what is left.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.flush(out)
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.widths.is_empty() {
            return Ok(());
        }
        if !self.headed {
            self.headed = true;
            line(out, self.headings.iter().map(|name| (name.as_str(), false)), &self.widths)?;
            let rules: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
            line(out, rules.iter().map(|rule| (rule.as_str(), false)), &self.widths)?;
        }
        for row in self.cells.chunks(self.widths.len()) {
            line(out, row.iter().map(|cell| (cell.text.as_str(), cell.number)), &self.widths)?;
        }
        self.cells.clear();
        Ok(())
    }
}

impl Cell {
    fn new(value: &ValueRef<'_>) -> Self {
        let (text, number) = match *value {
            ValueRef::Null => ("NULL".to_owned(), false),
            ValueRef::Int(value) => (value.to_string(), true),
            ValueRef::Real(value) => (real_to_text_15(value), true),
            ValueRef::Text(bytes) => (printable(&String::from_utf8_lossy(bytes)), false),
            ValueRef::Blob(bytes) if bytes.len() > BLOB_BYTES => {
                (format!("x'{}'… {} bytes", hex::encode(&bytes[..BLOB_BYTES]), bytes.len()), false)
            }
            ValueRef::Blob(bytes) => (format!("x'{}'", hex::encode(bytes)), false),
        };
        Self { text, number }
    }
}

/// One line: numbers to the right, everything else to the left, nothing trailing.
fn line<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = (&'a str, bool)>,
    widths: &[usize],
) -> io::Result<()> {
    let last = widths.len() - 1;
    for (index, ((text, number), width)) in cells.zip(widths).enumerate() {
        let gap = width.saturating_sub(text.width());
        if number {
            write!(out, "{:gap$}{text}", "")?;
        } else if index < last {
            write!(out, "{text}{:gap$}", "")?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        if index < last {
            out.write_all(b"  ")?;
        }
    }
    out.write_all(b"\n")
}

/// The text with control characters escaped, so that it stays on its line.
fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

const BATCH_ROWS: usize = 1000;
const BLOB_BYTES: usize = 32;

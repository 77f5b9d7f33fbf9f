//! Rows as aligned columns. Widths are taken from a batch of rows, so a result of any length is
//! printed in bounded memory; a later batch may be wider than the first.

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text_15};
use shoal_stdx::hex;
use unicode_width::UnicodeWidthStr;

/// Rows waiting for the widths of their columns.
#[derive(Default)]
pub(super) struct Batch {
    headings: Vec<String>,
    headed: bool,
    widths: Vec<usize>,
    cells: Vec<Cell>,
    /// True where headings are bold and NULL is dim.
    colour: bool,
}

struct Cell {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Heading,
    Number,
    Null,
    Text,
}

impl Batch {
    /// Starts a new table.
    pub(super) fn begin(&mut self, headings: &[String], colour: bool) {
        self.colour = colour;
        self.headings = headings.iter().map(|name| printable(name)).collect();
        self.headed = false;
        self.widths = self.headings.iter().map(|name| name.width()).collect();
        self.cells.clear();
    }

    /// Takes one row, and prints the batch once full.
    pub(super) fn row(&mut self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        for (width, value) in self.widths.iter_mut().zip(row) {
            let cell = Cell::new(value);
            *width = (*width).max(cell.text.width());
            self.cells.push(cell);
        }
        if self.cells.len() >= BATCH_ROWS * row.len() { self.flush(out) } else { Ok(()) }
    }

    /// Prints the rows still waiting.
    pub(super) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.flush(out)
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.widths.is_empty() {
            return Ok(());
        }
        if !self.headed {
            self.headed = true;
            let names = self.headings.iter().map(|name| (name.as_str(), Kind::Heading));
            line(out, names, &self.widths, self.colour)?;
            let rules: Vec<String> = self.widths.iter().map(|width| "─".repeat(*width)).collect();
            let rules = rules.iter().map(|rule| (rule.as_str(), Kind::Text));
            line(out, rules, &self.widths, self.colour)?;
        }
        for row in self.cells.chunks(self.widths.len()) {
            let cells = row.iter().map(|cell| (cell.text.as_str(), cell.kind));
            line(out, cells, &self.widths, self.colour)?;
        }
        self.cells.clear();
        Ok(())
    }
}

impl Cell {
    fn new(value: &ValueRef<'_>) -> Self {
        let (text, kind) = match *value {
            ValueRef::Null => ("NULL".to_owned(), Kind::Null),
            ValueRef::Int(value) => (value.to_string(), Kind::Number),
            ValueRef::Real(value) => (real_to_text_15(value), Kind::Number),
            ValueRef::Text(bytes) => (printable(&String::from_utf8_lossy(bytes)), Kind::Text),
            ValueRef::Blob(bytes) if bytes.len() > BLOB_BYTES => {
                let start = hex::encode(&bytes[..BLOB_BYTES]);
                (format!("x'{start}'… {} bytes", bytes.len()), Kind::Text)
            }
            ValueRef::Blob(bytes) => (format!("x'{}'", hex::encode(bytes)), Kind::Text),
        };
        Self { text, kind }
    }
}

/// One line: numbers to the right, everything else to the left, nothing trailing.
fn line<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = (&'a str, Kind)>,
    widths: &[usize],
    colour: bool,
) -> io::Result<()> {
    let last = widths.len() - 1;
    for (index, ((text, kind), width)) in cells.zip(widths).enumerate() {
        let gap = width.saturating_sub(text.width());
        let (start, end) = match kind {
            Kind::Heading if colour => ("\x1b[1m", "\x1b[0m"),
            Kind::Null if colour => ("\x1b[2m", "\x1b[0m"),
            _ => ("", ""),
        };
        if kind == Kind::Number {
            write!(out, "{:gap$}{text}", "")?;
        } else if index < last {
            write!(out, "{start}{text}{end}{:gap$}", "")?;
        } else {
            write!(out, "{start}{text}{end}")?;
        }
        if index < last {
            out.write_all(b"  ")?;
        }
    }
    out.write_all(b"\n")
}

/// The text with control characters escaped, to stay on one line.
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

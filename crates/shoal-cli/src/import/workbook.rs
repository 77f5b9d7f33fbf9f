//! Rows of a workbook's sheets: Excel's `.xlsx`, `.xlsb` and `.xls`, and OpenDocument's `.ods`.
//!
//! | of a cell | in SQL |
//! | --- | --- |
//! | numbers | integers where they are whole and below 2^53, else reals |
//! | booleans | integers |
//! | texts | texts; an empty one is NULL |
//! | dates, times, durations | texts, as SQLite's date functions read them |
//! | formulas | the last value, as stored |
//! | errors, such as `#DIV/0!` | NULL, counted |
//!
//! `calamine`, the library for workbooks, trusts some lengths in a file, and runs in a process of
//! its own ([`reader`]) with memory bounded by the length of the file; rows come through a pipe.
//! At worst a damaged file ends the reading process, and the import with a sentence.

pub(crate) mod reader;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde::{Deserialize, Serialize};
use shoal_sql::ValueRef;

use super::cells::{NotThatType, typed};
use super::target::Column;
use super::types::Seen;
use super::{Rows, Type};
use crate::failure::Failure;

/// A line of the pipe, as JSON.
#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// A sheet of the listing.
    Sheet(Sheet),
    /// The number of a row, from 0, and its cells by column, ascending.
    Row(u32, Vec<(u32, Cell)>),
    /// Nothing follows.
    End,
    /// The reader's error, as a sentence.
    Failed(String),
}

/// A sheet with cells, as opposed to one of charts or macros.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sheet {
    pub(crate) name: String,
    /// The place among all sheets of the workbook, from 0.
    pub(crate) number: usize,
    /// Not shown by the program that made the workbook.
    pub(crate) is_hidden: bool,
    /// No cell has a value.
    pub(crate) is_empty: bool,
}

/// The value of a cell; empty cells have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Cell {
    #[serde(rename = "i")]
    Int(i64),
    #[serde(rename = "r")]
    Real(f64),
    #[serde(rename = "t")]
    Text(String),
    /// An error of a formula.
    #[serde(rename = "e")]
    Error,
}

/// The process that reads a workbook.
struct Reader {
    place: String,
    child: Child,
    lines: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Reader {
    /// Starts reading the sheet of this number, or the listing of all.
    fn start(place: &str, path: &Path, sheet: Option<usize>) -> Result<Reader, Failure> {
        let failed = |error| Failure::at(place, format_args!("its reader does not start: {error}"));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("read-workbook").arg("--").arg(path);
        command.args(sheet.map(|number| number.to_string()));
        // The abort of an allocation beyond the bound would write to stderr.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let pipe = child.stdout.take().expect("stdout of the child is a pipe");
        let lines = BufReader::with_capacity(1 << 16, pipe);
        Ok(Reader { place: place.to_owned(), child, lines, line: Vec::new() })
    }

    /// The next line, but for `End`.
    fn next(&mut self) -> Result<Option<Line>, Failure> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        read.map_err(|error| Failure::at(&self.place, error))?;
        match serde_json::from_slice(&self.line) {
            Ok(Line::End) => Ok(None),
            Ok(Line::Failed(sentence)) => Err(Failure::at(&self.place, sentence)),
            Ok(line) => Ok(Some(line)),
            // Killed or aborted in the middle of a line, or before one.
            Err(_) => {
                let why = "the workbook is damaged, or takes far more memory than its length \
                           allows for: its reader gave up";
                Err(Failure::at(&self.place, why).hint("saved as CSV, it is read row by row"))
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // After an import with an early end the child still writes rows.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sheets of a workbook, in its order.
///
/// # Errors
/// A file that is no workbook, is damaged, or is protected by a password.
pub(crate) fn sheets(place: &str, path: &Path) -> Result<Vec<Sheet>, Failure> {
    let mut reader = Reader::start(place, path, None)?;
    let mut sheets = Vec::new();
    while let Some(line) = reader.next()? {
        if let Line::Sheet(sheet) = line {
            sheets.push(sheet);
        }
    }
    Ok(sheets)
}

/// The columns of a sheet; columns with neither a name nor a value are left out.
pub(super) struct Columns {
    /// Their places in the sheet, from 0, ascending.
    pub(super) places: Vec<u32>,
    /// The texts of the header; without a header empty texts.
    pub(super) names: Vec<String>,
    pub(super) kinds: Vec<Type>,
}

/// Looks at all rows of a sheet.
///
/// # Errors
/// A sheet without a row.
pub(super) fn columns(
    place: &str,
    path: &Path,
    sheet: usize,
    header: bool,
) -> Result<Columns, Failure> {
    let mut reader = Reader::start(place, path, Some(sheet))?;
    let mut found: BTreeMap<u32, (String, Seen)> = BTreeMap::new();
    let mut is_first = true;
    while let Some(line) = reader.next()? {
        let Line::Row(_, cells) = line else { continue };
        for (column, cell) in cells {
            let (name, seen) = found.entry(column).or_default();
            match cell {
                cell if is_first && header => *name = cell.name(),
                Cell::Int(value) => seen.int(value),
                Cell::Real(_) => seen.real(),
                Cell::Text(_) => seen.not_a_number(),
                Cell::Error => {}
            }
        }
        is_first = false;
    }
    if found.is_empty() {
        return Err(Failure::at(place, "there is no row"));
    }
    let mut columns = Columns { places: Vec::new(), names: Vec::new(), kinds: Vec::new() };
    for (place, (name, seen)) in found {
        columns.places.push(place);
        columns.names.push(name);
        columns.kinds.push(seen.of_cells());
    }
    Ok(columns)
}

/// The rows of a sheet with values; a header is passed over.
pub(super) struct SheetRows {
    reader: Reader,
    /// The place among a row's values of each column of the sheet.
    places: BTreeMap<u32, usize>,
    row: u32,
    cells: Vec<Option<Cell>>,
    errors: u64,
}

impl SheetRows {
    pub(super) fn open(
        place: &str,
        path: &Path,
        (sheet, header): (usize, bool),
        places: &[u32],
    ) -> Result<SheetRows, Failure> {
        let reader = Reader::start(place, path, Some(sheet))?;
        let cells = vec![None; places.len()];
        let places = places.iter().enumerate().map(|(place, column)| (*column, place)).collect();
        let mut rows = SheetRows { reader, places, row: 0, cells, errors: 0 };
        if header {
            rows.next()?;
            rows.errors = 0;
        }
        Ok(rows)
    }
}

impl Rows for SheetRows {
    fn next(&mut self) -> Result<bool, Failure> {
        let Some(line) = self.reader.next()? else { return Ok(false) };
        self.cells.fill(None);
        if let Line::Row(row, cells) = line {
            self.row = row;
            for (column, cell) in cells {
                self.errors += u64::from(cell == Cell::Error);
                if let Some(place) = self.places.get(&column) {
                    self.cells[*place] = Some(cell);
                }
            }
        }
        Ok(true)
    }

    fn line(&self) -> u64 {
        u64::from(self.row) + 1
    }

    fn unit(&self) -> &'static str {
        "row"
    }

    fn length(&self) -> Option<usize> {
        None
    }

    fn cell(&self, column: usize, target: &Column) -> Result<ValueRef<'_>, NotThatType> {
        Ok(match self.cells.get(column).and_then(Option::as_ref) {
            None | Some(Cell::Error) => ValueRef::Null,
            Some(Cell::Int(value)) if target.kind == Type::Real => ValueRef::Real(*value as f64),
            Some(Cell::Int(value)) => ValueRef::Int(*value),
            Some(Cell::Real(value)) => ValueRef::Real(*value),
            // A number typed as a text, in a column of numbers by --types.
            Some(Cell::Text(text))
                if target.must_fit && matches!(target.kind, Type::Integer | Type::Real) =>
            {
                typed(text.as_bytes(), target.kind)?
            }
            Some(Cell::Text(text)) => ValueRef::Text(text.as_bytes()),
        })
    }

    fn errors(&self) -> u64 {
        self.errors
    }
}

impl Cell {
    /// The cell as the name of a column.
    fn name(self) -> String {
        match self {
            Cell::Int(value) => value.to_string(),
            Cell::Real(value) => value.to_string(),
            Cell::Text(text) => text,
            Cell::Error => String::new(),
        }
    }
}

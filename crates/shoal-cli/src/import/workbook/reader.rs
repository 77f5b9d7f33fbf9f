//! The process that reads a workbook: a file in, lines of JSON out, within bounds.
//!
//! Bounds: the memory of the process, by the length of the file (on systems with `RLIMIT_AS`);
//! rows and columns as Excel has them; the bytes of one row, and of all rows by the file's length.
//! Sheets of `.xlsx` and `.xlsb` pass cell by cell; those of `.xls` and `.ods` are in memory whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::ops::ControlFlow;
use std::path::Path;

use calamine::{
    Data, ExcelDateTime, Ods, Reader as _, SheetType, SheetVisible, Sheets, Xls, Xlsb, Xlsx,
    open_workbook_from_rs,
};

use super::{Cell, Line, Sheet};
use crate::failure::Failure;
use crate::out;

/// Memory of the process beside the workbook, and for each byte of the file.
const MEMORY: u64 = 1 << 30;
const MEMORY_PER_BYTE: u64 = 64;
/// Bytes of texts given, and for each byte of the file: more than DEFLATE can make of one.
const TEXTS: u64 = 64 << 20;
const TEXTS_PER_BYTE: u64 = 1100;
/// Bytes of a row's texts: a quarter of SQLite's bound on a row.
const ROW_TEXTS: usize = 250_000_000;
/// Rows and columns of a sheet, as in Excel and LibreOffice.
const ROWS: u32 = 1 << 20;
const COLUMNS: u32 = 1 << 14;

/// Writes the rows of a sheet to stdout, or the listing of all sheets.
///
/// # Errors
/// Writing to stdout; whatever is wrong with the workbook is the last line instead.
pub(crate) fn run(path: &Path, sheet: Option<usize>) -> Result<(), Failure> {
    let mut out = io::BufWriter::with_capacity(1 << 16, out::stdout());
    let last = match give(path, sheet, &mut out) {
        Ok(()) => Line::End,
        Err(Stopped::Pipe(error)) => return Err(error.into()),
        Err(Stopped::Workbook(sentence)) => Line::Failed(sentence),
    };
    line(&mut out, &last)?;
    Ok(out.flush()?)
}

fn line(out: &mut impl Write, line: &Line) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Why the reading ended early.
enum Stopped {
    /// Nobody takes the lines.
    Pipe(io::Error),
    /// A sentence on the file.
    Workbook(String),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Stopped {
        Stopped::Pipe(error)
    }
}

impl From<calamine::Error> for Stopped {
    fn from(error: calamine::Error) -> Stopped {
        Stopped::Workbook(error.to_string())
    }
}

fn wrong(sentence: impl std::fmt::Display) -> Stopped {
    Stopped::Workbook(sentence.to_string())
}

fn give(path: &Path, sheet: Option<usize>, out: &mut impl Write) -> Result<(), Stopped> {
    let file = File::open(path).map_err(wrong)?;
    let length = file.metadata().map_err(wrong)?.len();
    bound_memory(MEMORY.saturating_add(length.saturating_mul(MEMORY_PER_BYTE)));
    let mut book = open(file)?;
    let known: Vec<_> = book.sheets_metadata().to_vec();
    let texts = TEXTS.saturating_add(length.saturating_mul(TEXTS_PER_BYTE));
    if let Some(number) = sheet {
        let sheet = known.get(number).ok_or_else(|| wrong("the workbook changed"))?;
        let mut rows = RowLines { out, row: None, cells: BTreeMap::new(), bytes: 0, texts };
        each_cell(&mut book, &sheet.name, |place, cell| {
            rows.push(place, cell).map(ControlFlow::Continue)
        })?;
        return rows.give();
    }
    for (number, sheet) in known.into_iter().enumerate() {
        if sheet.typ != SheetType::WorkSheet {
            continue;
        }
        let is_empty = !has_cells(&mut book, &sheet.name)?;
        let is_hidden = sheet.visible != SheetVisible::Visible;
        line(out, &Line::Sheet(Sheet { name: sheet.name, number, is_hidden, is_empty }))?;
    }
    Ok(())
}

/// Bounds the memory of this process: an allocation beyond `bytes` ends the process.
#[cfg(unix)]
fn bound_memory(bytes: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let bound = |resource, bytes: u64| {
        let maximum = getrlimit(resource).maximum;
        let bytes = Some(maximum.map_or(bytes, |maximum| bytes.min(maximum)));
        // Systems without the resource read without a bound.
        let _ = setrlimit(resource, Rlimit { current: bytes, maximum });
    };
    bound(Resource::As, bytes);
    bound(Resource::Core, 0);
}

#[cfg(not(unix))]
fn bound_memory(_: u64) {}

type Book = Sheets<BufReader<File>>;

/// Opens a workbook; the first bytes tell the kind.
fn open(mut file: File) -> Result<Book, Stopped> {
    let mut start = Vec::new();
    (&mut file).take(128).read_to_end(&mut start).map_err(wrong)?;
    let again = |file: &File| -> Result<BufReader<File>, Stopped> {
        let mut file = file.try_clone().map_err(wrong)?;
        file.rewind().map_err(wrong)?;
        Ok(BufReader::new(file))
    };
    if start.starts_with(&COMPOUND) {
        let error = match open_workbook_from_rs::<Xls<_>, _>(again(&file)?) {
            Ok(book) => return Ok(Sheets::Xls(book)),
            Err(error) => error,
        };
        // A package with a password is such a file too, without a workbook's stream.
        return Err(match open_workbook_from_rs::<Xlsx<_>, _>(again(&file)?) {
            Err(calamine::XlsxError::Password) => wrong(PASSWORD),
            _ => wrong(error),
        });
    }
    if !start.starts_with(b"PK") {
        return Err(wrong("not a workbook of Excel or OpenDocument"));
    }
    if find(&start, b"opendocument") {
        let opened = open_workbook_from_rs::<Ods<_>, _>(again(&file)?);
        return opened.map(Sheets::Ods).map_err(|error| match error {
            calamine::OdsError::Password => wrong(PASSWORD),
            error => wrong(error),
        });
    }
    let xlsx = match open_workbook_from_rs::<Xlsx<_>, _>(again(&file)?) {
        Ok(book) if !book.sheets_metadata().is_empty() => return Ok(Sheets::Xlsx(book)),
        Ok(_) => wrong("there is no sheet in it"),
        Err(error) => wrong(error),
    };
    // The binary kind has other names for its parts.
    let xlsb = open_workbook_from_rs::<Xlsb<_>, _>(again(&file)?);
    xlsb.map(Sheets::Xlsb).map_err(|_| xlsx)
}

/// The first bytes of compound files: workbooks of before 2007.
const COMPOUND: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];
const PASSWORD: &str = "the workbook is protected by a password: save it without one";

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Hands each value of a sheet to `take`, with its row and column from 0, until `take` breaks.
fn each_cell(
    book: &mut Book,
    name: &str,
    mut take: impl FnMut((u32, u32), Cell) -> Result<ControlFlow<()>, Stopped>,
) -> Result<(), Stopped> {
    // True where `take` has enough.
    let mut give = |place, cell: Option<Cell>| match cell {
        Some(cell) => take(place, cell).map(|flow| flow.is_break()),
        None => Ok(false),
    };
    match book {
        Sheets::Xlsx(book) => {
            let mut cells = book.worksheet_cells_reader(name).map_err(wrong)?;
            while let Some(found) = cells.next_cell().map_err(wrong)? {
                if give(found.get_position(), cell(found.get_value().clone().into()))? {
                    break;
                }
            }
        }
        Sheets::Xlsb(book) => {
            let mut cells = book.worksheet_cells_reader(name).map_err(wrong)?;
            while let Some(found) = cells.next_cell().map_err(wrong)? {
                if give(found.get_position(), cell(found.get_value().clone().into()))? {
                    break;
                }
            }
        }
        whole => {
            let is_ods = matches!(whole, Sheets::Ods(_));
            let range = whole.worksheet_range(name)?;
            let Some((first, left)) = range.start() else { return Ok(()) };
            for (row, column, data) in range.used_cells() {
                // A place beyond 32 bits is beyond the bounds of a sheet, as `u32::MAX` is.
                let place = |start: u32, more: usize| {
                    let more = u32::try_from(more).unwrap_or(u32::MAX);
                    start.saturating_add(more)
                };
                let cell = match cell(data.clone()) {
                    Some(Cell::Text(text)) if is_ods && is_error(&text) => Some(Cell::Error),
                    cell => cell,
                };
                if give((place(first, row), place(left, column)), cell)? {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// True for a sheet with a value. Cost: the cells before the first value.
fn has_cells(book: &mut Book, name: &str) -> Result<bool, Stopped> {
    let mut has_cells = false;
    each_cell(book, name, |_, _| {
        has_cells = true;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(has_cells)
}

/// Cells gathered to rows.
struct RowLines<'o, O> {
    out: &'o mut O,
    row: Option<u32>,
    cells: BTreeMap<u32, Cell>,
    /// Bytes of the row's texts.
    bytes: usize,
    /// Bytes of texts that may still come.
    texts: u64,
}

impl<O: Write> RowLines<'_, O> {
    /// Takes a cell: the cells of one row behind each other, rows ascending.
    fn push(&mut self, (row, column): (u32, u32), cell: Cell) -> Result<(), Stopped> {
        if row >= ROWS || column >= COLUMNS {
            return Err(wrong(format_args!(
                "a cell in row {}, column {}: a sheet has {ROWS} rows of {COLUMNS} columns",
                u64::from(row) + 1,
                u64::from(column) + 1,
            )));
        }
        match self.row {
            Some(before) if before > row => {
                return Err(wrong(format_args!("row {} stands behind {}", row + 1, before + 1)));
            }
            Some(before) if before == row => {}
            _ => {
                self.give()?;
                self.row = Some(row);
            }
        }
        if let Cell::Text(text) = &cell {
            self.bytes += text.len();
            let rest = self.texts.checked_sub(text.len() as u64);
            self.texts = rest.ok_or_else(|| {
                wrong("its texts are far longer than the file: it repeats one, or is made to")
            })?;
            if self.bytes > ROW_TEXTS {
                return Err(wrong(format_args!("row {} has over {ROW_TEXTS} bytes", row + 1)));
            }
        }
        self.cells.insert(column, cell);
        Ok(())
    }

    /// Writes the row, where there is one.
    fn give(&mut self) -> Result<(), Stopped> {
        if let Some(row) = self.row.take() {
            let cells = std::mem::take(&mut self.cells).into_iter().collect();
            line(self.out, &Line::Row(row, cells))?;
        }
        self.bytes = 0;
        Ok(())
    }
}

/// The value of a cell; `None` for an empty one.
fn cell(data: Data) -> Option<Cell> {
    Some(match data {
        Data::Empty => return None,
        Data::Int(value) => Cell::Int(value),
        Data::Bool(value) => Cell::Int(i64::from(value)),
        Data::Float(value) => number(value),
        Data::String(text) if text.is_empty() => return None,
        Data::String(text) => Cell::Text(text),
        Data::DateTime(moment) => of_moment(&moment),
        Data::DateTimeIso(text) => Cell::Text(text.replacen('T', " ", 1)),
        Data::DurationIso(text) => Cell::Text(of_iso_duration(&text).unwrap_or(text)),
        Data::Error(_) => Cell::Error,
    })
}

/// True for an error of a formula in OpenDocument, where an error is a cell with one of these texts
/// and no other mark.
fn is_error(text: &str) -> bool {
    const ERRORS: [&str; 7] = ["#DIV/0!", "#N/A", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"];
    let is_number = |code: &str| !code.is_empty() && code.bytes().all(|it| it.is_ascii_digit());
    ERRORS.contains(&text) || text.strip_prefix("Err:").is_some_and(is_number)
}

/// Whole numbers below 2^53 are integers: a workbook has doubles alone.
fn number(value: f64) -> Cell {
    if !value.is_finite() {
        return Cell::Error;
    }
    match value.trunc() == value && value.abs() < EXACT {
        true => Cell::Int(value as i64),
        false => Cell::Real(value),
    }
}

const EXACT: f64 = (1_u64 << 53) as f64;
/// Days up to the end of the year 9999, the last one of both of Excel's epochs.
const DAYS: f64 = 2_958_466.0;
const DAY_MS: f64 = 86_400_000.0;

/// A date, a time of day, both, or a duration, as text.
fn of_moment(moment: &ExcelDateTime) -> Cell {
    let value = moment.as_f64();
    if !(0.0..DAYS).contains(&value) && !moment.is_duration() || value.abs() >= DAYS {
        return number(value);
    }
    if moment.is_duration() || value < 1.0 {
        return Cell::Text(clock((value * DAY_MS).round() as i64));
    }
    let (year, month, day, hour, minute, second, milli) = moment.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    Cell::Text(match (hour, minute, second, milli) {
        (0, 0, 0, 0) => date,
        (_, _, _, 0) => format!("{date} {hour:02}:{minute:02}:{second:02}"),
        _ => format!("{date} {hour:02}:{minute:02}:{second:02}.{milli:03}"),
    })
}

/// Milliseconds as hours, minutes and seconds.
fn clock(ms: i64) -> String {
    let (sign, ms) = (if ms < 0 { "-" } else { "" }, ms.unsigned_abs());
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    match ms % 1000 {
        0 => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
        milli => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{milli:03}"),
    }
}

/// `PT26H03M00.5S` as `26:03:00.500`; `None` for durations of days, months or years.
fn of_iso_duration(text: &str) -> Option<String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text),
    };
    let mut rest = rest.strip_prefix("PT")?;
    let mut ms = 0.0;
    for (unit, of_unit) in [('H', 3_600_000.0), ('M', 60_000.0), ('S', 1000.0)] {
        if let Some((count, behind)) = rest.split_once(unit) {
            ms += count.replace(',', ".").parse::<f64>().ok()? * of_unit;
            rest = behind;
        }
    }
    (rest.is_empty() && (0.0..DAYS * DAY_MS).contains(&ms))
        .then(|| clock((sign * ms).round() as i64))
}

#[cfg(test)]
mod tests {
    use calamine::ExcelDateTimeType::{DateTime, TimeDelta};

    use super::*;

    #[test]
    fn moments_are_texts_that_sqlite_reads() {
        for (value, kind, is_1904, expect) in [
            (45_351.0, DateTime, false, "2024-02-29"),
            (45_351.5, DateTime, false, "2024-02-29 12:00:00"),
            (43_889.0, DateTime, true, "2024-02-29"),
            (45_943.541, DateTime, false, "2025-10-13 12:59:02.400"),
            (0.75, DateTime, false, "18:00:00"),
            (2_958_465.0, DateTime, false, "9999-12-31"),
            (1.5, TimeDelta, false, "36:00:00"),
            (-0.25, TimeDelta, false, "-06:00:00"),
        ] {
            let cell = of_moment(&ExcelDateTime::new(value, kind, is_1904));
            assert_eq!(cell, Cell::Text(expect.to_owned()), "{value}");
        }
        // Beyond the calendar, the number stays.
        for (value, kind) in [(-1.5, DateTime), (3e9 + 0.5, DateTime), (1e17, TimeDelta)] {
            let cell = of_moment(&ExcelDateTime::new(value, kind, false));
            assert_eq!(cell, Cell::Real(value), "{value}");
        }
        assert_eq!(of_moment(&ExcelDateTime::new(f64::NAN, DateTime, false)), Cell::Error);
        assert_eq!(of_iso_duration("PT26H03M00.5S").as_deref(), Some("26:03:00.500"));
        assert_eq!(of_iso_duration("-PT1H").as_deref(), Some("-01:00:00"));
        assert_eq!(of_iso_duration("P1DT1H"), None);
        assert_eq!(of_iso_duration("PT1X"), None);
    }

    #[test]
    fn numbers_keep_their_values() {
        assert_eq!(number(7.0), Cell::Int(7));
        assert_eq!(number(-0.5), Cell::Real(-0.5));
        assert_eq!(number(EXACT), Cell::Real(EXACT));
        assert_eq!(number(f64::INFINITY), Cell::Error);
    }
}

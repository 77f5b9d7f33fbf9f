//! Rows as text: the forms of `--format`, and those of `.mode`.
//!
//! `list` is `sqlite3`'s default form to the byte; `json` and `ndjson` are JSON and nothing else.

pub(crate) mod columnar;
mod columns;
pub(crate) mod json;
mod lines;
pub(crate) use shoal_diff::literal;
mod plan;
pub(crate) mod style;
mod table;

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text};

pub(crate) use lines::c_string;
use style::{Mode, Style};

/// Prints the rows of one statement at a time.
pub(crate) struct RowPrinter {
    /// The form; may change between statements.
    pub(crate) style: Style,
    table: table::Batch,
    columns: columns::Columns,
    rows: u64,
    headings: Vec<String>,
    /// The plan being printed as a tree.
    plan: Option<plan::Plan>,
}

impl RowPrinter {
    /// A printer of this form.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            table: table::Batch::default(),
            columns: columns::Columns::default(),
            rows: 0,
            headings: Vec::new(),
            plan: None,
        }
    }

    /// Begins the rows of a plan: drawn as a tree for people, printed as rows for programs.
    pub(crate) fn begin_plan(
        &mut self,
        out: &mut impl Write,
        headings: &[String],
    ) -> io::Result<()> {
        match self.style.mode {
            Mode::JsonArray | Mode::CsvFile | Mode::JsonLines => self.begin(out, headings),
            _ => {
                self.plan = Some(plan::Plan::default());
                Ok(())
            }
        }
    }

    /// Begins the rows of a statement whose columns have these names.
    pub(crate) fn begin(&mut self, out: &mut impl Write, headings: &[String]) -> io::Result<()> {
        self.rows = 0;
        self.plan = None;
        self.headings = headings.to_vec();
        match self.style.mode {
            Mode::Aligned => self.table.begin(headings, self.style.colour),
            Mode::JsonArray => out.write_all(b"[")?,
            Mode::CsvFile => separated_names(out, headings, b',')?,
            mode if mode.is_columnar() => self.columns.begin(headings),
            _ => {}
        }
        Ok(())
    }

    /// Prints one row.
    pub(crate) fn row(&mut self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        if let Some(plan) = &mut self.plan {
            plan.row(row);
            return Ok(());
        }
        match self.style.mode {
            Mode::Aligned => self.table.row(out, row)?,
            Mode::CsvFile => separated_row(out, row, b',')?,
            Mode::JsonArray => {
                out.write_all(if self.rows == 0 { b"\n" } else { b",\n" })?;
                self.json_row(out, row)?;
            }
            Mode::JsonLines => {
                self.json_row(out, row)?;
                out.write_all(b"\n")?;
            }
            mode if mode.is_columnar() => self.columns.row(&self.style, row),
            _ => {
                // No heading without rows, as in sqlite3.
                if self.rows == 0 {
                    lines::heading(out, &self.style, &self.headings)?;
                }
                lines::row(out, &self.style, &self.headings, row, self.rows)?;
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Ends the rows of a statement.
    pub(crate) fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        if let Some(mut plan) = self.plan.take() {
            return plan.end(out);
        }
        match self.style.mode {
            Mode::Aligned => self.table.end(out),
            Mode::JsonArray if self.rows == 0 => out.write_all(b"]\n"),
            Mode::JsonArray => out.write_all(b"\n]\n"),
            Mode::CsvFile | Mode::JsonLines => Ok(()),
            mode if mode.is_columnar() => self.columns.end(out, &self.style),
            _ => lines::end(out, &self.style, self.rows),
        }
    }

    fn json_row(&self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        if self.style.arrays {
            json::array(out, row)
        } else {
            json::object(out, &self.headings, row)
        }
    }
}

/// Prints a row with the quoting of RFC 4180; NULL is empty.
pub(crate) fn separated_row(
    out: &mut impl Write,
    row: &[ValueRef<'_>],
    delimiter: u8,
) -> io::Result<()> {
    let cells: Vec<Vec<u8>> = row.iter().map(plain).collect();
    separated_line(out, cells.iter().map(Vec::as_slice), delimiter)
}

/// Prints the names of columns as a row.
pub(crate) fn separated_names(
    out: &mut impl Write,
    names: &[String],
    delimiter: u8,
) -> io::Result<()> {
    separated_line(out, names.iter().map(|name| name.as_bytes()), delimiter)
}

/// The value without quoting: NULL is empty, reals have all their digits, bytes are unchanged.
fn plain(value: &ValueRef<'_>) -> Vec<u8> {
    match *value {
        ValueRef::Null => Vec::new(),
        ValueRef::Int(value) => value.to_string().into_bytes(),
        ValueRef::Real(value) => real_to_text(value).into_bytes(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    }
}

/// Prints a line of cells, quoting every cell with a quote, a delimiter or a line break.
fn separated_line<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = &'a [u8]>,
    delimiter: u8,
) -> io::Result<()> {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.write_all(&[delimiter])?;
        }
        let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == delimiter;
        if cell.iter().any(special) {
            out.write_all(b"\"")?;
            for part in cell.split_inclusive(|byte| *byte == b'"') {
                out.write_all(part)?;
                if part.ends_with(b"\"") {
                    out.write_all(b"\"")?;
                }
            }
            out.write_all(b"\"")?;
        } else {
            out.write_all(cell)?;
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::RowFormat;

    fn print(format: RowFormat, arrays: bool, rows: &[&[ValueRef<'_>]]) -> String {
        let headings = ["a".to_owned(), "b\"c".to_owned()];
        let mut printer = RowPrinter::new(Style::of(format, arrays));
        let mut out = Vec::new();
        printer.begin(&mut out, &headings).unwrap();
        for row in rows {
            printer.row(&mut out, row).unwrap();
        }
        printer.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const ROWS: &[&[ValueRef<'_>]] = &[
        &[ValueRef::Int(-1), ValueRef::Text(b"x,\"y\"|")],
        &[ValueRef::Null, ValueRef::Real(1.5)],
        &[ValueRef::Blob(&[0xab, 0x01]), ValueRef::Text("é\n\u{1}".as_bytes())],
    ];

    #[test]
    fn list() {
        assert_eq!(print(RowFormat::List, false, &ROWS[..2]), "-1|x,\"y\"|\n|1.5\n");
        let nul = [ValueRef::Text(b"a\0b"), ValueRef::Int(2)];
        assert_eq!(print(RowFormat::List, false, &[&nul]), "a|2\n");
    }

    #[test]
    fn plans_are_trees() {
        let rows = [(1, 0, "A"), (2, 1, "B"), (3, 2, "C"), (4, 1, "D"), (5, 0, "E")];
        let mut printer = RowPrinter::new(Style::of(RowFormat::List, false));
        let mut out = Vec::new();
        printer.begin_plan(&mut out, &[]).unwrap();
        for (id, parent, detail) in rows {
            let detail = ValueRef::Text(detail.as_bytes());
            let row = [ValueRef::Int(id), ValueRef::Int(parent), ValueRef::Int(0), detail];
            printer.row(&mut out, &row).unwrap();
        }
        printer.end(&mut out).unwrap();
        let expect = "QUERY PLAN\n|--A\n|  |--B\n|  |  `--C\n|  `--D\n`--E\n";
        assert_eq!(String::from_utf8(out).unwrap(), expect);
    }

    #[test]
    fn csv() {
        assert_eq!(
            print(RowFormat::Csv, false, &ROWS[..2]),
            "a,\"b\"\"c\"\n-1,\"x,\"\"y\"\"|\"\n,1.5\n"
        );
    }

    #[test]
    fn json() {
        assert_eq!(
            print(RowFormat::Json, false, ROWS),
            "[\n{\"a\":-1,\"b\\\"c\":\"x,\\\"y\\\"|\"},\n{\"a\":null,\"b\\\"c\":1.5},\n\
             {\"a\":\"ab01\",\"b\\\"c\":\"é\\n\\u0001\"}\n]\n"
        );
        assert_eq!(print(RowFormat::Json, false, &[]), "[]\n");
        assert_eq!(print(RowFormat::Json, true, &ROWS[1..2]), "[\n[null,1.5]\n]\n");
        assert_eq!(
            print(RowFormat::Ndjson, true, &ROWS[..2]),
            "[-1,\"x,\\\"y\\\"|\"]\n[null,1.5]\n"
        );
    }

    #[test]
    fn table() {
        assert_eq!(
            print(RowFormat::Table, false, ROWS),
            concat!(
                "a        b\"c\n",
                "───────  ────────\n",
                "     -1  x,\"y\"|\n",
                "NULL          1.5\n",
                "x'ab01'  é\\n\\u{1}\n",
            )
        );
    }
}

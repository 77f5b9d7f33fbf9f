//! Rows as text: the five forms of `--format`.
//!
//! `list` is `sqlite3`'s default form to the byte; `json` and `ndjson` are JSON and nothing else.

mod json;
mod plan;
mod table;

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text, real_to_text_15};

use crate::args::RowFormat;

/// Prints the rows of one statement at a time.
pub(crate) struct RowPrinter {
    format: RowFormat,
    arrays: bool,
    table: table::Batch,
    rows: u64,
    headings: Vec<String>,
    /// The plan being printed as a tree.
    plan: Option<plan::Plan>,
}

impl RowPrinter {
    /// A printer of this form; `arrays` makes JSON rows arrays instead of objects.
    pub(crate) fn new(format: RowFormat, arrays: bool) -> Self {
        Self {
            format,
            arrays,
            table: table::Batch::default(),
            rows: 0,
            headings: Vec::new(),
            plan: None,
        }
    }

    /// Begins the rows of a plan, which are a tree to whoever reads them and rows to a program.
    pub(crate) fn begin_plan(
        &mut self,
        out: &mut impl Write,
        headings: &[String],
    ) -> io::Result<()> {
        match self.format {
            RowFormat::Table | RowFormat::List => {
                self.plan = Some(plan::Plan::default());
                Ok(())
            }
            RowFormat::Json | RowFormat::Csv | RowFormat::Ndjson => self.begin(out, headings),
        }
    }

    /// Begins the rows of a statement whose columns have these names.
    pub(crate) fn begin(&mut self, out: &mut impl Write, headings: &[String]) -> io::Result<()> {
        self.rows = 0;
        self.plan = None;
        self.headings = headings.to_vec();
        match self.format {
            RowFormat::Table => self.table.begin(headings),
            RowFormat::Json => out.write_all(b"[")?,
            RowFormat::Csv => csv_line(out, headings.iter().map(|name| name.as_bytes()))?,
            RowFormat::Ndjson | RowFormat::List => {}
        }
        Ok(())
    }

    /// Prints one row.
    pub(crate) fn row(&mut self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        if let Some(plan) = &mut self.plan {
            plan.row(row);
            return Ok(());
        }
        match self.format {
            RowFormat::Table => self.table.row(out, row)?,
            RowFormat::List => list_line(out, row)?,
            RowFormat::Csv => {
                let cells: Vec<Vec<u8>> =
                    row.iter().map(|value| plain(value, real_to_text)).collect();
                csv_line(out, cells.iter().map(Vec::as_slice))?;
            }
            RowFormat::Json => {
                out.write_all(if self.rows == 0 { b"\n" } else { b",\n" })?;
                self.json_row(out, row)?;
            }
            RowFormat::Ndjson => {
                self.json_row(out, row)?;
                out.write_all(b"\n")?;
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
        match self.format {
            RowFormat::Table => self.table.end(out),
            RowFormat::Json if self.rows == 0 => out.write_all(b"]\n"),
            RowFormat::Json => out.write_all(b"\n]\n"),
            RowFormat::Csv | RowFormat::Ndjson | RowFormat::List => Ok(()),
        }
    }

    fn json_row(&self, out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
        if self.arrays { json::array(out, row) } else { json::object(out, &self.headings, row) }
    }
}

/// The value as it stands: NULL is empty, reals as `real` writes them, bytes unchanged.
fn plain(value: &ValueRef<'_>, real: fn(f64) -> String) -> Vec<u8> {
    match *value {
        ValueRef::Null => Vec::new(),
        ValueRef::Int(value) => value.to_string().into_bytes(),
        ValueRef::Real(value) => real(value).into_bytes(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    }
}

/// One line of `list`. `sqlite3` prints a value as a C string, hence up to its first NUL, and reals
/// with 15 significant digits.
fn list_line(out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
    for (index, value) in row.iter().enumerate() {
        if index > 0 {
            out.write_all(b"|")?;
        }
        let text = plain(value, real_to_text_15);
        out.write_all(text.split(|byte| *byte == 0).next().unwrap_or_default())?;
    }
    out.write_all(b"\n")
}

fn csv_line<'a>(out: &mut impl Write, cells: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        if cell.iter().any(|byte| matches!(byte, b'"' | b',' | b'\n' | b'\r')) {
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

    fn print(format: RowFormat, arrays: bool, rows: &[&[ValueRef<'_>]]) -> String {
        let headings = ["a".to_owned(), "b\"c".to_owned()];
        let mut printer = RowPrinter::new(format, arrays);
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
        let mut printer = RowPrinter::new(RowFormat::List, false);
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

//! The forms of printed rows, and their settings: Shoal's own of `--format`, and `sqlite3`'s of
//! `.mode`.

use crate::args::RowFormat;

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Aligned columns under a heading, numbers to the right: `--format table`.
    Aligned,
    /// One JSON array a statement, blobs in hexadecimal: `--format json`.
    JsonArray,
    /// One JSON value a row: `--format ndjson`.
    JsonLines,
    /// RFC 4180 with a heading and `\n`: `--format csv`.
    CsvFile,
    /// Separated by ASCII's own control characters for columns and rows.
    Ascii,
    /// A table drawn in box characters.
    Box,
    /// Columns of spaces.
    Column,
    /// Separated by commas, quoted as `sqlite3` quotes.
    Csv,
    /// Rows of an HTML table.
    Html,
    /// `INSERT` statements.
    Insert,
    /// A JSON array as `sqlite3` writes one: nothing for no rows, blobs as characters.
    Json,
    /// One line a column.
    Line,
    /// Separated values.
    List,
    /// A Markdown table.
    Markdown,
    /// SQL literals.
    Quote,
    /// A table drawn in `+`, `-` and `|`.
    Table,
    /// Tcl strings.
    Tcl,
}

impl Mode {
    /// The mode called `name` by `.mode`.
    pub(crate) fn named(name: &str) -> Option<Mode> {
        MODES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// The name printed by `.mode` and `.show`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::JsonArray => "json",
            Mode::CsvFile => "csv",
            mode => MODES.iter().find(|(_, known)| *known == mode).map_or("list", |(name, _)| name),
        }
    }

    /// True where widths, wrapping and quoting matter.
    pub(crate) fn is_columnar(self) -> bool {
        matches!(self, Mode::Box | Mode::Column | Mode::Markdown | Mode::Table)
    }
}

/// The names of the modes; `qbox` and `tabs` stand for a mode with settings.
pub(crate) const MODES: &[(&str, Mode)] = &[
    ("aligned", Mode::Aligned),
    ("ascii", Mode::Ascii),
    ("box", Mode::Box),
    ("column", Mode::Column),
    ("csv", Mode::Csv),
    ("html", Mode::Html),
    ("insert", Mode::Insert),
    ("json", Mode::Json),
    ("jsonl", Mode::JsonLines),
    ("line", Mode::Line),
    ("list", Mode::List),
    ("markdown", Mode::Markdown),
    ("ndjson", Mode::JsonLines),
    ("qbox", Mode::Box),
    ("quote", Mode::Quote),
    ("table", Mode::Table),
    ("tabs", Mode::List),
    ("tcl", Mode::Tcl),
];

/// A form of output with its settings.
#[derive(Clone, Debug)]
pub(crate) struct Style {
    pub(crate) mode: Mode,
    /// True where rows of JSON are arrays instead of objects.
    pub(crate) arrays: bool,
    /// True where names of columns come first, where the mode leaves the choice.
    pub(crate) headers: bool,
    /// True after an explicit choice by the user: changes of mode then keep `headers`.
    pub(crate) headers_chosen: bool,
    pub(crate) column_separator: String,
    pub(crate) row_separator: String,
    /// Printed for NULL.
    pub(crate) null: String,
    /// The least widths of columns; 0 for the width of the contents, negative for right-aligned
    /// text.
    pub(crate) widths: Vec<i32>,
    /// Columns wider than this are wrapped; 0 for never.
    pub(crate) wrap: usize,
    /// True where lines are broken between words.
    pub(crate) word_wrap: bool,
    /// True where values are printed as SQL literals in a columnar mode.
    pub(crate) quote: bool,
    /// The table named in the statements of mode `insert`.
    pub(crate) table: String,
    /// True where headings and NULL may be coloured: on a terminal only.
    pub(crate) colour: bool,
}

impl Style {
    /// Shoal's own forms.
    pub(crate) fn of(format: RowFormat, arrays: bool) -> Style {
        Style {
            mode: match format {
                RowFormat::Table => Mode::Aligned,
                RowFormat::Json => Mode::JsonArray,
                RowFormat::Ndjson => Mode::JsonLines,
                RowFormat::Csv => Mode::CsvFile,
                RowFormat::List => Mode::List,
            },
            arrays,
            headers: false,
            headers_chosen: false,
            column_separator: "|".to_owned(),
            row_separator: "\n".to_owned(),
            null: String::new(),
            widths: Vec::new(),
            wrap: 0,
            word_wrap: false,
            quote: false,
            table: "table".to_owned(),
            colour: false,
        }
    }

    /// Changes the mode, and with the mode its own separators and settings.
    pub(crate) fn set_mode(&mut self, name: &str, mode: Mode) {
        self.mode = mode;
        let (column, row) = match (name, mode) {
            ("tabs", _) => ("\t", "\n"),
            (_, Mode::List) => ("|", "\n"),
            (_, Mode::Ascii) => ("\x1f", "\x1e"),
            (_, Mode::Csv) => (",", "\r\n"),
            (_, Mode::Quote) => (",", "\n"),
            (_, Mode::Tcl) => (" ", "\n"),
            _ => (self.column_separator.as_str(), self.row_separator.as_str()),
        };
        (self.column_separator, self.row_separator) = (column.to_owned(), row.to_owned());
        self.quote = name == "qbox";
        if mode == Mode::Column && !self.headers_chosen {
            self.headers = true;
        }
    }

    /// How wide a column may become; `None` for any width.
    pub(crate) fn wrap_at(&self, column: usize) -> Option<usize> {
        let width = self.widths.get(column).copied().unwrap_or(0);
        match (width, self.wrap) {
            (0, 0) => None,
            (0, wrap) => Some(wrap),
            (width, _) => Some(width.unsigned_abs() as usize),
        }
    }
}

//! The command lines of `shoal import` and `shoal export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::rules::AsPrincipal;

/// `shoal import`.
#[derive(Debug, Args)]
#[command(override_usage = "shoal import [OPTIONS] FILE... DB [TABLE]")]
#[command(after_long_help = "\
The table is made where it is missing: its columns have the names of the first row, and the types \
that fit all values of the file, or of the first 8 MiB of a stream. A text that says more than the \
number it looks like, as 02134 does, keeps its column a text; in a column of numbers an empty text \
is NULL. A row is a line of CSV (RFC 4180) or a JSON object; objects stand one a line, one after \
another, or in an array. Input may be gzipped. Parquet (from a file) and Arrow IPC (a file or a \
stream) bring names and types along; they take a build with --features columnar. All rows are in the database afterwards, or none.

A workbook (xlsx, xlsb, xls, ods; in builds with --features excel) gives the table of its name, or \
with several sheets a table for each; the first row that is not empty names the columns. Dates and \
times are ISO texts, formulas their last values, errors of formulas NULL. Hidden sheets are read \
where --sheet names them.

FILE may be a folder, for all files in it with a known ending, or a pattern between quotes; several \
are read, each into a table of its name, or all into one with --into. A SQLite database as FILE has \
its tables copied: definitions, rows and indexes, of all or of the one called TABLE. Behind one FILE \
and DB a third word is the TABLE, unless the second names a kind of FILE by its ending, or the third \
a database.

Examples:
  shoal import people.csv app.db
  shoal import --delimiter ';' --header no prices.txt app.db price
  shoal import --types zip=text,born=integer people.csv app.db
  curl -s https://example.org/log.ndjson.gz | shoal import - app.db log
  shoal import data/ app.db
  shoal import 'log/2026-*.csv.gz' app.db --into log
  shoal import other.db app.db person
  shoal import --sheet 2026 budget.xlsx app.db budget")]
pub(crate) struct ImportArgs {
    /// Files of CSV, TSV, NDJSON, JSON, Parquet or Arrow, workbooks, SQLite databases, folders,
    /// patterns, or - for stdin; then the database, created where missing; behind one FILE the
    /// table
    #[arg(value_name = "FILE... DB [TABLE]", required = true)]
    pub(crate) places: Vec<PathBuf>,
    /// The table that gets the rows of all files [default: the name of each file]
    #[arg(long, value_name = "TABLE", visible_alias = "into")]
    pub(crate) table: Option<String>,
    /// The form of the input [default: by its name, or else by its first character]
    #[arg(long, value_enum)]
    pub(crate) format: Option<InputFormat>,
    /// What stands between values, or the word tab [default: a comma; a tab in TSV]
    #[arg(long, value_name = "CHARACTER")]
    pub(crate) delimiter: Option<String>,
    /// Whether the first row names the columns
    #[arg(long, value_enum, default_value_t)]
    pub(crate) header: Header,
    /// Types of columns: auto, text, or NAME=TYPE,... for some of them. TYPE is integer, real,
    /// text or any. A virtual table takes the texts of a CSV file as texts but for these columns
    #[arg(long, default_value = "auto")]
    pub(crate) types: String,
    /// The sheet of a workbook to read; may be given several times [default: all visible sheets
    /// with rows]
    #[arg(long = "sheet", value_name = "NAME")]
    pub(crate) sheets: Vec<String>,
    /// Commit every so many rows, so that an error keeps those before
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) batch: Option<u64>,
}

/// The forms of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    /// Values separated by commas
    Csv,
    /// Values separated by tabs
    Tsv,
    /// JSON objects
    #[value(alias = "json", alias = "jsonl")]
    Ndjson,
    /// Apache Parquet [needs a build with --features columnar]
    Parquet,
    /// Apache Arrow IPC, a file or a stream [needs a build with --features columnar]
    Arrow,
    /// A SQLite database, whose tables are copied
    Sqlite,
    /// A workbook of Excel or OpenDocument [needs a build with --features excel]
    #[value(alias = "xlsx", alias = "xlsb", alias = "xls", alias = "ods")]
    Excel,
}

/// `shoal read-workbook`: run by `shoal import`.
#[cfg(feature = "excel")]
#[derive(Debug, Args)]
pub(crate) struct ReadWorkbookArgs {
    /// The workbook
    pub(crate) file: PathBuf,
    /// The place of the sheet, from 0 [default: none, the sheets are listed]
    pub(crate) sheet: Option<usize>,
}

/// Presence of a row of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Header {
    /// The first row names the columns
    #[default]
    Yes,
    /// The first row is data
    No,
}

/// `shoal export`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A file is replaced when all rows are written, and not before; a name that ends in .gz is \
compressed. In JSON, blobs are lower-case hexadecimal. Parquet and Arrow take a build with --features \
columnar: their columns have one type each, so the rows are looked at once before they are written. \
A column of integers and reals is one of reals, of texts and numbers one of texts, and with any \
blob one of binary. With --as the rows and columns are those that a principal sees.

Examples:
  shoal export app.db people -o people.csv
  shoal export app.db people --as ada --rules rules.json
  shoal export app.db --query 'SELECT name, born FROM people' --format ndjson
  shoal export app.db people -o people.sql.gz")]
pub(crate) struct ExportArgs {
    /// A SQLite database
    #[arg(value_name = "DB")]
    pub(crate) database: PathBuf,
    /// The table or view whose rows are written
    #[arg(value_name = "TABLE", required_unless_present = "query")]
    pub(crate) table: Option<String>,
    /// A query whose rows are written
    #[arg(long, value_name = "SQL", conflicts_with = "table")]
    pub(crate) query: Option<String>,
    /// The file to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The form of the output [default: by the file's name, or else csv]
    #[arg(long, value_enum)]
    pub(crate) format: Option<OutputFormat>,
    #[command(flatten)]
    pub(crate) by: AsPrincipal,
}

/// The forms of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// A row of names, then values separated by commas, as RFC 4180 quotes them
    Csv,
    /// The same, separated by tabs
    Tsv,
    /// One JSON object a line
    #[value(alias = "jsonl")]
    Ndjson,
    /// One JSON array of objects
    Json,
    /// SQL that makes the table and its rows again
    Sql,
    /// Apache Parquet [needs a build with --features columnar]
    Parquet,
    /// An Apache Arrow IPC file [needs a build with --features columnar]
    Arrow,
    /// An Apache Arrow IPC stream [needs a build with --features columnar]
    Arrows,
}

//! `shoal export`: the rows of a table or a query as CSV, JSON, SQL, Parquet or Arrow IPC.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use shoal_sql::{Error, Statement, ValueRef};

use crate::args::transfer::{ExportArgs, OutputFormat};
use crate::dump::{Wanted, dump};
use crate::failure::Failure;
use crate::out;
use crate::query::Reads;
use crate::replace::replace;
use crate::rows::columnar::{self, Columnar};
use crate::rows::literal::{literal_on_a_line, quoted};
use crate::rows::{json, separated_names, separated_row};
use crate::rules;

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let format = args
        .format
        .or_else(|| args.output.as_deref().and_then(by_name))
        .unwrap_or(OutputFormat::Csv);
    let mut connection = rules::reading(&args.database, &args.by)?;
    let columnar = match format {
        OutputFormat::Parquet => Some(Columnar::Parquet),
        OutputFormat::Arrow => Some(Columnar::Arrow),
        OutputFormat::Arrows => Some(Columnar::ArrowStream),
        _ => None,
    };
    if let Some(kind) = columnar {
        return export_columns(&mut *connection, args, kind);
    }
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => {
            let mut out = out::stdout();
            export(&mut *connection, args, format, &mut out)?;
            Ok(out.flush()?)
        }
        Some(path) if path.extension().is_some_and(|extension| extension == "gz") => {
            replace(path, |file| {
                let mut gzip = GzEncoder::new(file, Compression::default());
                export(&mut *connection, args, format, &mut gzip)?;
                let ended = gzip.finish();
                ended.map(|_| ()).map_err(|error| Failure::at(path.display(), error))
            })
        }
        Some(path) => replace(path, |file| export(&mut *connection, args, format, file)),
    }
}

/// Parquet or Arrow. Rows are looked at for the types of their columns, then written, in one read
/// transaction.
fn export_columns(
    connection: &mut dyn Reads,
    args: &ExportArgs,
    kind: Columnar,
) -> Result<(), Failure> {
    let (sql, place) = (sql(args)?, args.database.display().to_string());
    checked(connection, &sql).map_err(|error| Failure::at(&place, error))??;
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => {
            let mut out = std::io::BufWriter::new(std::io::stdout());
            columnar::export(connection, &place, &sql, kind, &mut out)?;
            Ok(out.flush()?)
        }
        Some(path) if path.extension().is_some_and(|extension| extension == "gz") => {
            Err(Failure::at(path.display(), "Parquet and Arrow are not gzipped, they compress"))
        }
        Some(path) => replace(path, |file| columnar::export(connection, &place, &sql, kind, file)),
    }
}

/// The query whose rows are asked for.
fn sql(args: &ExportArgs) -> Result<String, Failure> {
    match (&args.table, &args.query) {
        (Some(table), _) => Ok(format!("SELECT * FROM {}", quoted(table))),
        (None, Some(query)) => Ok(query.clone()),
        (None, None) => Err(Failure::new("which TABLE or --query?").code(2)),
    }
}

/// A statement that gives rows and writes nothing.
fn checked(connection: &mut dyn Reads, sql: &str) -> Result<Result<Statement, Failure>, Error> {
    let statement = connection.prepare(sql)?;
    Ok(match statement.is_read_only() && statement.column_count() > 0 {
        true => Ok(statement),
        false => Err(Failure::new("--query takes a statement that gives rows and writes nothing")),
    })
}

fn by_name(path: &Path) -> Option<OutputFormat> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(OutputFormat::Csv),
        "tsv" | "tab" => Some(OutputFormat::Tsv),
        "ndjson" | "jsonl" => Some(OutputFormat::Ndjson),
        "json" => Some(OutputFormat::Json),
        "sql" => Some(OutputFormat::Sql),
        "parquet" | "pq" => Some(OutputFormat::Parquet),
        "arrow" | "feather" | "ipc" => Some(OutputFormat::Arrow),
        "arrows" => Some(OutputFormat::Arrows),
        _ => None,
    }
}

fn export(
    connection: &mut dyn Reads,
    args: &ExportArgs,
    format: OutputFormat,
    mut out: &mut dyn Write,
) -> Result<(), Failure> {
    let failed = |error: Error| Failure::at(args.database.display(), error);
    if let (OutputFormat::Sql, Some(table)) = (format, &args.table) {
        let tables = std::slice::from_ref(table);
        let note = &mut |note: &str| out::note(note);
        return dump(connection, &mut out, &Wanted::Tables(tables), &failed, note);
    }
    let mut statement = checked(connection, &sql(args)?).map_err(failed)??;
    let names = statement.column_names().to_vec();
    let mut rows = connection.query(&mut statement).map_err(failed)?;
    let delimiter = if format == OutputFormat::Tsv { b'\t' } else { b',' };
    match format {
        OutputFormat::Csv | OutputFormat::Tsv => separated_names(&mut out, &names, delimiter)?,
        OutputFormat::Json => out.write_all(b"[")?,
        _ => {}
    }
    let mut first = true;
    let mut values: Vec<ValueRef<'_>>;
    while let Some(row) = rows.next().map_err(failed)? {
        values = row.values().collect();
        match format {
            OutputFormat::Csv | OutputFormat::Tsv => separated_row(&mut out, &values, delimiter)?,
            OutputFormat::Ndjson => {
                json::object(&mut out, &names, &values)?;
                out.write_all(b"\n")?;
            }
            OutputFormat::Json => {
                out.write_all(if first { b"\n" } else { b",\n" })?;
                json::object(&mut out, &names, &values)?;
            }
            OutputFormat::Sql => {
                out.write_all(b"INSERT INTO \"query\" VALUES(")?;
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        out.write_all(b",")?;
                    }
                    literal_on_a_line(&mut out, value)?;
                }
                out.write_all(b");\n")?;
            }
            OutputFormat::Parquet | OutputFormat::Arrow | OutputFormat::Arrows => {
                unreachable!("columns are written by their own function")
            }
        }
        first = false;
    }
    if format == OutputFormat::Json {
        out.write_all(if first { b"]\n" } else { b"\n]\n" })?;
    }
    Ok(())
}

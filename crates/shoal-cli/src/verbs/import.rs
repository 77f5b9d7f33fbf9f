//! `shoal import`: rows of CSV, JSON, Parquet and Arrow IPC into a table.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use shoal_store::Access;

use crate::args::transfer::{Header, ImportArgs, InputFormat};
use crate::failure::Failure;
use crate::import::{Columnar, Form, Input, Job, Type, Types, import};
use crate::open;
use crate::out;

pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let is_stream = args.file == Path::new("-");
    let place = match is_stream {
        true => "stdin".to_owned(),
        false => args.file.display().to_string(),
    };
    let table = args.table.as_ref().or(args.positional.as_ref()).cloned();
    let table = match table.or_else(|| if is_stream { None } else { stem(&args.file) }) {
        Some(table) => table,
        None => return Err(Failure::new("stdin has no name: which TABLE gets its rows?").code(2)),
    };
    let types = types(&args.types)?;
    let (input, format) = match is_stream {
        true => {
            let mut start = Vec::new();
            let mut stdin = io::stdin();
            let failed = |error| Failure::at(&place, error);
            stdin.by_ref().take(START).read_to_end(&mut start).map_err(failed)?;
            let format = args.format.unwrap_or_else(|| by_content(&start));
            (Input::Stream(Box::new(io::Cursor::new(start).chain(stdin))), format)
        }
        false => {
            let mut start = Vec::new();
            let format = match args.format.or_else(|| by_name(&args.file)) {
                Some(format) => format,
                None => {
                    let failed = |error| Failure::at(&place, error);
                    let file = File::open(&args.file).map_err(failed)?;
                    file.take(START).read_to_end(&mut start).map_err(failed)?;
                    by_content(&start)
                }
            };
            (Input::File(args.file.clone()), format)
        }
    };
    let form = match format {
        InputFormat::Ndjson => Form::Json,
        InputFormat::Parquet => Form::Columnar(Columnar::Parquet),
        InputFormat::Arrow => Form::Columnar(Columnar::Arrow),
        separated => Form::Csv {
            delimiter: delimiter(args.delimiter.as_deref(), separated)?,
            header: Some(args.header == Header::Yes),
            skip: 0,
        },
    };
    let job = Job { place: &place, form, table: &table, types, batch: args.batch, lenient: false };
    let missing = !open::exists(&args.database)?;
    let mut connection = open::connection(&args.database, Access::Create)?;
    let imported = import(&mut connection, &job, input);
    drop(connection);
    if imported.is_err() && missing && args.batch.is_none() {
        // The failed import left a new database empty: the file is removed again.
        let _ = std::fs::remove_file(&args.database);
    }
    let done = imported?;
    if let Some(sql) = &done.created {
        out::note(sql);
        if done.sampled {
            out::note("types: from the first 8 MiB, because a stream is read once");
        }
    }
    out::note(format_args!("{table}: {} rows", done.rows));
    Ok(())
}

/// Bytes read to recognise a form.
const START: u64 = 4096;

/// The file's name without the endings telling its form.
fn stem(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stem = name.split_once('.').map_or(name, |(stem, _)| stem);
    (!stem.is_empty()).then(|| stem.to_owned())
}

fn by_name(file: &Path) -> Option<InputFormat> {
    let name = file.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "csv" => Some(InputFormat::Csv),
        "tsv" | "tab" => Some(InputFormat::Tsv),
        "json" | "ndjson" | "jsonl" => Some(InputFormat::Ndjson),
        "parquet" | "pq" => Some(InputFormat::Parquet),
        "arrow" | "arrows" | "feather" | "ipc" => Some(InputFormat::Arrow),
        _ => None,
    }
}

fn by_content(start: &[u8]) -> InputFormat {
    let mut text = Vec::new();
    let plain: &[u8] = match start.starts_with(&[0x1f, 0x8b]) {
        true => {
            // A cut gzip stream is an error here; the bytes before the cut are enough to tell the
            // form.
            let _ = flate2::bufread::MultiGzDecoder::new(start).take(START).read_to_end(&mut text);
            &text
        }
        false => start,
    };
    if plain.starts_with(b"PAR1") {
        return InputFormat::Parquet;
    }
    // A stream of messages begins with the mark of the first.
    if plain.starts_with(b"ARROW1") || plain.starts_with(&[0xff; 4]) {
        return InputFormat::Arrow;
    }
    let plain = plain.strip_prefix(b"\xef\xbb\xbf").unwrap_or(plain);
    match plain.trim_ascii_start().first() {
        Some(b'{' | b'[') => InputFormat::Ndjson,
        _ => InputFormat::Csv,
    }
}

fn delimiter(given: Option<&str>, format: InputFormat) -> Result<u8, Failure> {
    match given {
        None if format == InputFormat::Tsv => Ok(b'\t'),
        None => Ok(b','),
        Some("tab" | "\\t") => Ok(b'\t'),
        Some(text) => match text.as_bytes() {
            [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
            _ => Err(Failure::new(format_args!(
                "--delimiter takes one ASCII character that is no quote: {text}"
            ))
            .code(2)),
        },
    }
}

fn types(text: &str) -> Result<Types, Failure> {
    match text {
        "auto" => return Ok(Types::Inferred(Vec::new())),
        "text" => return Ok(Types::Text),
        _ => {}
    }
    let pairs = text.split(',').map(|pair| {
        let named = pair.rsplit_once('=');
        let named = named.and_then(|(name, kind)| Some((name.to_owned(), Type::named(kind)?)));
        named.ok_or_else(|| {
            Failure::new(format_args!("--types takes auto, text, or NAME=TYPE,...: {pair}"))
                .hint("TYPE is integer, real, text or any")
                .code(2)
        })
    });
    pairs.collect::<Result<_, _>>().map(Types::Inferred)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_table_and_form() {
        let check = |name: &str, table: &str, format: Option<InputFormat>| {
            assert_eq!(stem(Path::new(name)).as_deref(), Some(table), "{name}");
            assert_eq!(by_name(Path::new(name)), format, "{name}");
        };
        check("a/people.csv", "people", Some(InputFormat::Csv));
        check("people.TSV.gz", "people", Some(InputFormat::Tsv));
        check("log.2024.ndjson", "log", Some(InputFormat::Ndjson));
        check("people", "people", None);
        assert_eq!(by_content(b" \n[{"), InputFormat::Ndjson);
        assert_eq!(by_content(b"\xef\xbb\xbf{"), InputFormat::Ndjson);
        assert_eq!(by_content(b"a,b\n"), InputFormat::Csv);
        assert_eq!(by_content(b"PAR1\x15\x04"), InputFormat::Parquet);
        assert_eq!(by_content(b"ARROW1\0\0"), InputFormat::Arrow);
        assert_eq!(by_content(b"\xff\xff\xff\xff\x10\0\0\0"), InputFormat::Arrow);
        check("p.parquet", "p", Some(InputFormat::Parquet));
    }
}

//! `shoal import`: rows of CSV, JSON, Parquet, Arrow IPC and workbooks into tables, of one file or
//! many; tables of another database.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use shoal_sql::Connection;
use shoal_store::{Access, Mode};

use crate::args::transfer::{Header, ImportArgs, InputFormat};
use crate::failure::Failure;
#[cfg(feature = "excel")]
use crate::import::workbook;
use crate::import::{Columnar, Done, Form, Input, Job, Type, Types, import, places, sqlite};
use crate::open;
use crate::out;
use crate::progress::spin;

/// A command line taken apart.
struct Wanted {
    files: Vec<PathBuf>,
    database: PathBuf,
    /// One table for all rows.
    table: Option<String>,
}

pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let wanted = wanted(args)?;
    let types = types(&args.types)?;
    let missing = !open::exists(&wanted.database)?;
    let mut connection = open::connection(&wanted.database, Access::Create)?;
    let failed = |error: shoal_sql::Error| Failure::at(wanted.database.display(), error);
    // Several files are in the database afterwards, or none; batches are on their own.
    let is_whole = wanted.files.len() > 1 && args.batch.is_none();
    if is_whole {
        connection.begin(Mode::Write).map_err(failed)?;
    }
    let mut notes = Vec::new();
    let read = wanted
        .files
        .iter()
        .try_for_each(|file| one(&mut connection, args, file, (&wanted, &types), &mut notes));
    let ended = match (is_whole, &read) {
        (true, Ok(())) => connection.commit().map_err(failed),
        (true, Err(_)) => connection.rollback().map_err(failed),
        (false, _) => Ok(()),
    };
    drop(connection);
    if read.is_err() && missing && args.batch.is_none() {
        // The failed import left a new database empty: the file is removed again.
        let _ = std::fs::remove_file(&wanted.database);
    }
    read?;
    ended?;
    for note in notes {
        out::note(note);
    }
    Ok(())
}

/// Takes the words apart: files, the database, and behind one file a table.
fn wanted(args: &ImportArgs) -> Result<Wanted, Failure> {
    let mut words = args.places.clone();
    let mut table = args.table.clone();
    if let [file] = words.as_slice() {
        let why = "which database gets the rows? shoal import FILE DB";
        return Err(Failure::at(file.display(), why).code(2));
    }
    if let [_, second, third] = words.as_slice()
        && !is_input(second)
        && !is_database(third)
    {
        let name = third.to_str().map(str::to_owned);
        let name = name.ok_or_else(|| Failure::at(third.display(), "no name of a table"))?;
        if table.replace(name).is_some() {
            return Err(Failure::new("the table is named twice").code(2));
        }
        words.pop();
    }
    let database = words.pop().expect("a file and a database are two words");
    let mut files = Vec::new();
    for word in &words {
        files.extend(places::files(word, |path| by_name(path).is_some_and(is_of_rows))?);
    }
    if files.len() > 1 && files.iter().any(|file| file == Path::new("-")) {
        return Err(Failure::new("stdin is read alone, not beside files").code(2));
    }
    if table.is_none() {
        let mut named: BTreeMap<String, &Path> = BTreeMap::new();
        for file in &files {
            let Some(stem) = stem(file) else { continue };
            if let Some(other) = named.insert(stem.to_lowercase(), file) {
                let (one, two) = (other.display(), file.display());
                return Err(Failure::new(format_args!("{one} and {two} are both named {stem}"))
                    .hint("--into TABLE puts the rows of all files into one table"));
            }
        }
    }
    Ok(Wanted { files, database, table })
}

/// True for a word with the ending or the signs of input, and no database to write to.
fn is_input(word: &Path) -> bool {
    let has_signs = word.to_str().is_some_and(|word| word.contains(['*', '?', '[']));
    by_name(word).is_some_and(is_of_rows) || word.is_dir() || has_signs
}

fn is_of_rows(format: InputFormat) -> bool {
    format != InputFormat::Sqlite
}

/// True for a word with the ending of a database, and for a database file of any name.
fn is_database(file: &Path) -> bool {
    if by_name(file) == Some(InputFormat::Sqlite) {
        return true;
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(file).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == MAGIC
}

/// The first bytes of every database without a seal.
const MAGIC: [u8; 16] = *b"SQLite format 3\0";

/// Imports one file, and adds words for the end of the import to `notes`.
fn one(
    connection: &mut Connection,
    args: &ImportArgs,
    file: &Path,
    (wanted, types): (&Wanted, &Types),
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let is_stream = file == Path::new("-");
    let place = match is_stream {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    };
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
            let format = match args.format.or_else(|| by_name(file)) {
                Some(format) => format,
                None => {
                    let failed = |error| Failure::at(&place, error);
                    let file = File::open(file).map_err(failed)?;
                    file.take(START).read_to_end(&mut start).map_err(failed)?;
                    by_content(&start)
                }
            };
            (Input::File(file.to_owned()), format)
        }
    };
    if format == InputFormat::Sqlite {
        if is_stream {
            return Err(Failure::new("a database is read from a file, not from stdin").code(2));
        }
        return database(connection, file, &place, wanted, notes);
    }
    let table = match wanted.table.clone().or_else(|| if is_stream { None } else { stem(file) }) {
        Some(table) => table,
        None => return Err(Failure::new("stdin has no name: which TABLE gets its rows?").code(2)),
    };
    if !args.sheets.is_empty() && format != InputFormat::Excel {
        return Err(Failure::at(&place, "--sheet names a sheet of a workbook").code(2));
    }
    let form = match format {
        InputFormat::Excel if is_stream => {
            return Err(Failure::new("a workbook is read from a file, not from stdin").code(2));
        }
        InputFormat::Excel => {
            return sheets(connection, args, (file, &place), (wanted, types), notes);
        }
        InputFormat::Ndjson => Form::Json,
        InputFormat::Parquet => Form::Columnar(Columnar::Parquet),
        InputFormat::Arrow => Form::Columnar(Columnar::Arrow),
        separated => Form::Csv {
            delimiter: delimiter(args.delimiter.as_deref(), separated)?,
            header: Some(args.header == Header::Yes),
            skip: 0,
        },
    };
    let types = types.clone();
    let job = Job { place: &place, form, table: &table, types, batch: args.batch, lenient: false };
    let done = import(connection, &job, input)?;
    let place = (wanted.files.len() > 1).then_some(place.as_str());
    notes.extend(words_on(&done, &table, place));
    Ok(())
}

/// Words on a finished import, with the place of the rows where there are several.
fn words_on(done: &Done, table: &str, place: Option<&str>) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(sql) = &done.created {
        words.push(sql.clone());
        if done.sampled {
            words.push("types: from the first 8 MiB, because a stream is read once".to_owned());
        }
    }
    words.push(match place {
        None => format!("{table}: {} rows", done.rows),
        Some(place) => format!("{table}: {} rows of {place}", done.rows),
    });
    match done.errors {
        0 => {}
        1 => words.push(format!("{table}: 1 cell with an error is NULL")),
        errors => words.push(format!("{table}: {errors} cells with errors are NULL")),
    }
    words
}

#[cfg(not(feature = "excel"))]
fn sheets(
    _: &mut Connection,
    _: &ImportArgs,
    (_, place): (&Path, &str),
    _: (&Wanted, &Types),
    _: &mut Vec<String>,
) -> Result<(), Failure> {
    Err(Failure::at(place, "workbooks are not in this build of shoal")
        .hint("CSV and NDJSON are in every build, workbooks with --features excel"))
}

/// Imports sheets of a workbook: the named sheets, or all visible sheets with rows. A lone sheet
/// fills the table of the file's name, several sheets fill tables of their own names.
#[cfg(feature = "excel")]
fn sheets(
    connection: &mut Connection,
    args: &ImportArgs,
    (file, place): (&Path, &str),
    (wanted, types): (&Wanted, &Types),
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let all = workbook::sheets(place, file)?;
    let names = |sheets: &mut dyn Iterator<Item = &workbook::Sheet>| {
        sheets.map(|sheet| sheet.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let mut chosen = Vec::new();
    for name in &args.sheets {
        let is_it = |sheet: &&workbook::Sheet| sheet.name.to_lowercase() == name.to_lowercase();
        chosen.push(all.iter().find(is_it).ok_or_else(|| {
            Failure::at(place, format_args!("no sheet is called {name}"))
                .hint(format_args!("its sheets: {}", names(&mut all.iter())))
        })?);
    }
    if args.sheets.is_empty() {
        chosen.extend(all.iter().filter(|sheet| !sheet.is_empty && !sheet.is_hidden));
        let mut hidden = all.iter().filter(|sheet| sheet.is_hidden && !sheet.is_empty);
        let hidden = names(&mut hidden);
        if !hidden.is_empty() {
            notes.push(format!("{place}: left out: hidden sheets {hidden}"));
        }
    }
    if chosen.is_empty() {
        return Err(Failure::at(place, "no sheet has a row"));
    }
    if wanted.table.is_some() && chosen.len() > 1 {
        let names = names(&mut chosen.iter().copied());
        return Err(Failure::at(place, format_args!("one table, and the sheets {names}"))
            .hint("--sheet NAME says whose rows go into it")
            .code(2));
    }
    let whole = chosen.len() > 1 && args.batch.is_none() && !connection.in_transaction();
    let failed = |error: shoal_sql::Error| Failure::at(wanted.database.display(), error);
    if whole {
        connection.begin(Mode::Write).map_err(failed)?;
    }
    let mut read = || -> Result<(), Failure> {
        for sheet in &chosen {
            let of_file =
                if args.sheets.is_empty() && chosen.len() == 1 { stem(file) } else { None };
            let table = wanted.table.clone().or(of_file).unwrap_or_else(|| sheet.name.clone());
            let place = format!("{place}, sheet {}", sheet.name);
            let is_named_by_sheet = wanted.table.is_none() && stem(file).as_ref() != Some(&table);
            if is_named_by_sheet && wanted.files.len() > 1 {
                // Sheets of several workbooks are often called the same.
                let schema = connection.schema().map_err(failed)?;
                if schema.object(&table).is_some() {
                    return Err(Failure::at(
                        &place,
                        format_args!("table {table} is there already"),
                    )
                    .hint("one workbook at a time adds to a table that is there"));
                }
            }
            let header = args.header == Header::Yes;
            let form = Form::Sheet { number: sheet.number, header };
            let (types, batch) = (types.clone(), args.batch);
            let job = Job { place: &place, form, table: &table, types, batch, lenient: false };
            let done = import(connection, &job, Input::File(file.to_owned()))?;
            let place = (wanted.files.len() > 1).then_some(place.as_str());
            notes.extend(words_on(&done, &table, place));
        }
        Ok(())
    };
    let read = read();
    match (whole, &read) {
        (true, Ok(())) => connection.commit().map_err(failed)?,
        // The first failure is the one for the user.
        (true, Err(_)) => drop(connection.rollback()),
        (false, _) => {}
    }
    read
}

/// Copies the tables of another database.
fn database(
    connection: &mut Connection,
    file: &Path,
    place: &str,
    wanted: &Wanted,
    notes: &mut Vec<String>,
) -> Result<(), Failure> {
    let same = |path: &Path| path.canonicalize().ok();
    if same(file).is_some_and(|path| Some(path) == same(&wanted.database)) {
        return Err(Failure::at(place, "a database is not imported into itself"));
    }
    let mut source = open::connection(file, Access::ReadOnly)?;
    let failed = |error: shoal_sql::Error| Failure::at(wanted.database.display(), error);
    let own = !connection.in_transaction();
    if own {
        connection.begin(Mode::Write).map_err(failed)?;
    }
    let table = wanted.table.as_deref();
    let copied = spin("copying", || sqlite::copy(connection, &mut source, place, table));
    if own {
        match &copied {
            Ok(_) => connection.commit().map_err(failed)?,
            // The first failure is the one for the user.
            Err(_) => drop(connection.rollback()),
        }
    }
    let copied = copied?;
    notes.extend(copied.left_out.into_iter().map(|words| format!("{place}: {words}")));
    notes
        .extend(copied.tables.iter().map(|(name, rows)| format!("{name}: {rows} rows of {place}")));
    if copied.tables.is_empty() {
        notes.push(format!("{place}: no table"));
    }
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
        "xlsx" | "xlsm" | "xlsb" | "xls" | "ods" => Some(InputFormat::Excel),
        "db" | "db3" | "sqlite" | "sqlite3" => Some(InputFormat::Sqlite),
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
    if plain.starts_with(&MAGIC) {
        return InputFormat::Sqlite;
    }
    if plain.starts_with(b"PK\x03\x04") || plain.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
        return InputFormat::Excel;
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
        assert_eq!(by_content(b"SQLite format 3\0\x10"), InputFormat::Sqlite);
        assert_eq!(by_content(b"\xff\xff\xff\xff\x10\0\0\0"), InputFormat::Arrow);
        assert_eq!(by_content(b"PK\x03\x04\x14"), InputFormat::Excel);
        check("a/book.XLSX", "book", Some(InputFormat::Excel));
        check("p.parquet", "p", Some(InputFormat::Parquet));
    }
}

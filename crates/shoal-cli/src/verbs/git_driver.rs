//! `shoal git-driver`: the programs named to git by `shoal git-install`.

use std::io::Write;
use std::path::Path;

use shoal_diff::{DiffOptions, SqlText, diff};
use shoal_store::Access;

use crate::args::Format;
use crate::args::exchange::GitDriverVerb;
use crate::document::write_json;
use crate::exchange::DocumentTables;
use crate::failure::Failure;
use crate::open;
use crate::out::{self, Stdout};
use crate::place::Place;
use crate::verbs::merge;

pub(crate) fn run(verb: &GitDriverVerb) -> Result<(), Failure> {
    match verb {
        GitDriverVerb::Show { file } => show(file),
        GitDriverVerb::Merge { base, ours, theirs, name } => {
            match merge_files(base, ours, theirs, name.as_deref())? {
                0 => Ok(()),
                _ => Err(Failure::reported()),
            }
        }
    }
}

/// The kinds of files with a driver.
enum Kind {
    Database,
    Document,
    Empty,
    Other,
}

fn kind(path: &Path) -> Result<Kind, Failure> {
    let bytes = open::read(path)?;
    Ok(match bytes.as_slice() {
        [] => Kind::Empty,
        _ if bytes.starts_with(b"SQLite format 3\0") => Kind::Database,
        _ if bytes.starts_with(&open::MAGIC) => Kind::Document,
        _ => Kind::Other,
    })
}

/// Prints a database as SQL to make the tables, and its documents as JSON; other files unchanged.
fn show(path: &Path) -> Result<(), Failure> {
    let mut out = out::stdout();
    match kind(path)? {
        Kind::Empty | Kind::Other => out.write_all(&open::read(path)?)?,
        Kind::Document => show_document(&Place::File(path.to_owned()), &mut out)?,
        Kind::Database => {
            let mut connection = open::connection(path, Access::ReadOnly)?;
            let documents = DocumentTables::of(&mut [&mut connection])?;
            let is_left_out = |table: &str| documents.has(table);
            let options = DiffOptions { is_left_out: Some(&is_left_out), ..Default::default() };
            let mut text = SqlText::new(&mut out);
            diff(&mut open::memory()?, &mut connection, &options, &mut text)?;
            text.finish()?;
            drop(connection);
            let mut database = open::database(path, Access::ReadOnly)?;
            let documents = database.documents().map_err(|error| open::about(path, &error))?;
            for document in documents {
                writeln!(out, "-- document {}", document.name)?;
                let place = Place::Stored { file: path.to_owned(), name: document.name };
                show_document(&place, &mut out)?;
            }
        }
    }
    Ok(out.flush()?)
}

fn show_document(place: &Place, out: &mut Stdout) -> Result<(), Failure> {
    let document = open::load(place)?;
    write_json(out, Format::Text, &document.to_json())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Merges into `ours`; gives the number of conflicts.
fn merge_files(
    base: &Path,
    ours: &Path,
    theirs: &Path,
    name: Option<&str>,
) -> Result<usize, Failure> {
    let name = name.map_or_else(|| ours.display().to_string(), str::to_owned);
    match (kind(base)?, kind(ours)?, kind(theirs)?) {
        (_, Kind::Document, Kind::Document) => {
            let place = Place::File(ours.to_owned());
            let mut document = open::load(&place)?;
            let other = open::load(&Place::File(theirs.to_owned()))?;
            document.merge(&other).map_err(|error| Failure::at(name, error))?;
            open::save(&place, &mut document)?;
            Ok(0)
        }
        (Kind::Database | Kind::Empty, Kind::Database | Kind::Empty, Kind::Database) => {
            merge::databases(base, ours, theirs, false)
        }
        _ => Err(Failure::at(name, "the sides are not all databases, nor all Automerge files")),
    }
}

//! Many new rows of a projection: those of all documents into an empty one, or of a new document.
//!
//! Documents are read one after the other, built and made rows on all cores, and their rows are
//! written together, leaf by leaf.

use rayon::prelude::*;
use shoal_crdt::Document;
use shoal_history::ActorId;
use shoal_sql::{Connection, RowEdit, ValueRef};

use super::define::Definition;
use super::rows::{self, Row};
use super::tables::{self, Statements};
use crate::intake::Intake;
use crate::tables as documents;
use crate::{Environment, Error};

/// Most documents, and bytes of their chunks, that are rows at once.
const WAVE_DOCS: usize = 256;
const WAVE_BYTES: usize = 4 << 20;

/// Fewer rows are written one by one.
const MANY_MIN: usize = 8;

/// A document's id, and the rowid and bytes of its chunks.
type Chunks = (i64, Vec<(i64, Vec<u8>)>);

/// Writes the rows of every document into an empty projection.
pub(super) fn fill(
    connection: &mut Connection,
    environment: &Environment,
    definition: &Definition,
) -> Result<(), Error> {
    let mut statements = Statements::default();
    let actor = environment.new_actor();
    let mut docs = documents::docs(connection)?;
    docs.sort_unstable_by_key(|doc| doc.id);
    let (mut wave, mut bytes) = (Vec::<Chunks>::new(), 0);
    for doc in docs {
        if !tables::chooses(connection, definition, &doc.name)? {
            continue;
        }
        let mut chunks = Vec::new();
        documents::each_chunk(connection, doc.id, -1, |rowid, chunk| {
            bytes += chunk.len();
            chunks.push((rowid, chunk.to_vec()));
            Ok(())
        })?;
        wave.push((doc.id, chunks));
        if wave.len() >= WAVE_DOCS || bytes >= WAVE_BYTES {
            write_wave((connection, &mut statements), definition, &wave, &actor)?;
            (wave, bytes) = (Vec::new(), 0);
        }
    }
    write_wave((connection, &mut statements), definition, &wave, &actor)
}

/// Writes the rows of some documents that have none yet.
fn write_wave(
    (connection, statements): (&mut Connection, &mut Statements),
    definition: &Definition,
    wave: &[Chunks],
    actor: &ActorId,
) -> Result<(), Error> {
    let rows_of = |(doc, chunks): &Chunks| rows_of(*doc, chunks, definition, actor);
    let made: Vec<Result<Vec<(i64, Row)>, Error>> = wave.par_iter().map(rows_of).collect();
    let mut rows = Vec::new();
    for made in made {
        rows.extend(made?);
    }
    write_new((connection, statements), definition, &rows)
}

/// The rows of a document, by its chunks.
fn rows_of(
    doc: i64,
    chunks: &[(i64, Vec<u8>)],
    definition: &Definition,
    actor: &ActorId,
) -> Result<Vec<(i64, Row)>, Error> {
    let mut document = Document::new(actor.clone());
    let mut intake = Intake::new(&mut document);
    for (rowid, bytes) in chunks {
        intake.take(*rowid, bytes)?;
    }
    intake.finish()?;
    let mut rows = Vec::new();
    rows::each_row(&document, definition, |found| {
        rows.push((doc, rows::row(&document, definition, &found)?));
        Ok(())
    })?;
    Ok(rows)
}

/// Writes rows that are not there yet, with the ids of their documents.
pub(super) fn write_new(
    (connection, statements): (&mut Connection, &mut Statements),
    definition: &Definition,
    rows: &[(i64, Row)],
) -> Result<(), Error> {
    let mut rest = rows;
    while !rest.is_empty() {
        let (dealt, left) = insert_many(connection, definition, rest)?;
        let (these, behind) = rest.split_at(dealt);
        let mut left = left.into_iter().peekable();
        let mut writer = tables::Writer::new(connection, definition, 0, statements);
        for (number, (doc, row)) in these.iter().enumerate() {
            writer.at(*doc);
            match left.next_if_eq(&number) {
                Some(_) => writer.put(row)?,
                None => writer.put_beside(row)?,
            }
        }
        rest = behind;
    }
    Ok(())
}

/// Inserts rows together; gives how many were dealt with, and the numbers of those not written.
fn insert_many(
    connection: &mut Connection,
    definition: &Definition,
    rows: &[(i64, Row)],
) -> Result<(usize, Vec<usize>), Error> {
    let none = || (rows.len(), (0..rows.len()).collect());
    if rows.len() < MANY_MIN {
        return Ok(none());
    }
    let width = 2 + usize::from(definition.is_nested()) + definition.columns.len();
    let mut values = Vec::with_capacity(rows.len() * width);
    for (doc, row) in rows {
        values.extend([Some(ValueRef::Int(*doc)), Some(ValueRef::Blob(&row.key))]);
        if definition.is_nested() {
            values.push(Some(row.parent.as_deref().map_or(ValueRef::Null, ValueRef::Blob)));
        }
        values.extend(row.values.iter().map(|value| Some(value.as_ref())));
    }
    let edits: Vec<RowEdit<'_>> = values.chunks_exact(width).map(RowEdit::Insert).collect();
    connection.silence_triggers(true);
    let edited = connection.edit_rows(&definition.name, &edits);
    connection.silence_triggers(false);
    Ok(edited?.map_or_else(none, |edited| (edited.dealt, edited.left)))
}

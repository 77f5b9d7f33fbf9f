//! A changeset of one's own, put behind another applied here with conflicts.

use std::collections::HashMap;

use shoal_sql::Value;

use crate::Error;
use crate::changeset::{Change, Form, Head, Op, Reader, Writer, push_value};
use crate::concat::{Record, borrowed, owned};

/// A column of a row in conflict.
#[derive(Clone)]
enum Cell {
    /// The applied change did not touch the column.
    Untouched,
    /// The applied change took the place of the local value.
    Replaced,
    /// The value wanted by the applied change, and refused.
    Wanted(Value),
}

/// The fate of an applied change in conflict.
struct Note {
    op: Op,
    was_replaced: bool,
    cells: Vec<Cell>,
}

/// The notes of a table, by the key of their row.
struct Notes {
    keys: Vec<u8>,
    rows: HashMap<Vec<u8>, Note>,
}

/// Rewrites `local`, a changeset of changes made here, to apply behind a changeset from elsewhere:
/// `notes` are [`Applied::rebase`](crate::Applied::rebase) of the other changeset's application
/// here, in the bytes of SQLite's rebase buffers.
///
/// # Errors
/// [`Error::Corrupt`]; [`Error::Unfit`] for patchsets; [`Error::Heads`].
pub fn rebase(local: &[u8], notes: &[u8]) -> Result<Vec<u8>, Error> {
    let tables = read_notes(notes)?;
    let mut reader = Reader::new(local);
    let mut writer = Writer::new(Form::Changeset);
    let mut key = Vec::new();
    while let Some(change) = reader.next()? {
        if change.form == Form::Patchset {
            return Err(Error::Unfit { what: "a patchset cannot be rebased" });
        }
        let head = change.head;
        let table = tables.get(&head.table.to_ascii_lowercase());
        if table.is_some_and(|table| table.keys != head.keys) {
            return Err(Error::Heads { table: head.table.clone() });
        }
        head.key_bytes(change.keyed(), &mut key);
        match table.and_then(|table| table.rows.get(&key)) {
            None => writer.push(&change),
            Some(note) => {
                if let Some((op, old, new)) = rebased(&change, note) {
                    let (old, new) = (borrowed(&old), borrowed(&new));
                    writer.push(&Change { op, old: &old, new: &new, ..change });
                }
            }
        }
    }
    Ok(writer.finish())
}

fn read_notes(bytes: &[u8]) -> Result<HashMap<String, Notes>, Error> {
    let mut tables: HashMap<String, Notes> = HashMap::new();
    let mut reader = Reader::of_notes(bytes);
    let mut key = Vec::new();
    while let Some(note) = reader.next()? {
        if note.op == Op::Update || note.form == Form::Patchset {
            let what = "these are no notes of a rebase: they are made by applying a changeset";
            return Err(Error::Unfit { what });
        }
        let head = note.head;
        let name = head.table.to_ascii_lowercase();
        let new = || Notes { keys: head.keys.clone(), rows: HashMap::new() };
        let table = tables.entry(name).or_insert_with(new);
        if table.keys != head.keys {
            return Err(Error::Heads { table: head.table.clone() });
        }
        head.key_bytes(note.keyed(), &mut key);
        let known = table.rows.remove(&key);
        table.rows.insert(key.clone(), noted(head, &note, known));
    }
    Ok(tables)
}

/// A note, behind an earlier one of the same row.
fn noted(head: &Head, note: &Change<'_, '_>, known: Option<Note>) -> Note {
    let was_replaced = note.indirect;
    if let Some(known) = &known
        && known.op == Op::Delete
        && known.was_replaced
    {
        return Note { cells: known.cells.clone(), ..*known };
    }
    let mut cells = Vec::with_capacity(head.keys.len());
    for (column, value) in note.keyed().iter().enumerate() {
        let before = known.as_ref().map(|known| &known.cells[column]);
        let hides = was_replaced && !head.is_key(column);
        cells.push(match (before, value) {
            (Some(Cell::Replaced), _) => Cell::Replaced,
            (Some(_), _) if hides => Cell::Replaced,
            (Some(before), None) => before.clone(),
            (None, None) => Cell::Untouched,
            (None, Some(_)) if hides => Cell::Replaced,
            (_, Some(value)) => Cell::Wanted(Value::from(*value)),
        });
    }
    let was_replaced = was_replaced || known.is_some_and(|known| known.was_replaced);
    Note { op: note.op, was_replaced, cells }
}

/// The local change behind the noted one; `None` where nothing of the local change is left.
fn rebased(change: &Change<'_, '_>, note: &Note) -> Option<(Op, Record, Record)> {
    let (old, new) = (owned(change.old), owned(change.new));
    let wanted = |column: usize| match &note.cells[column] {
        Cell::Wanted(value) => Some(value.clone()),
        _ => None,
    };
    let columns = 0..note.cells.len();
    match (change.op, note.op) {
        (Op::Insert, Op::Insert) if note.was_replaced => None,
        (Op::Insert, Op::Insert) => Some((Op::Update, columns.map(wanted).collect(), new)),
        (Op::Insert, _) => Some((Op::Insert, old, new)),
        (Op::Update, Op::Delete) if note.was_replaced => None,
        (Op::Update, Op::Delete) => {
            let row = columns.map(|column| new[column].clone().or_else(|| wanted(column)));
            Some((Op::Insert, vec![None; new.len()], row.collect()))
        }
        (Op::Update, _) => update(change, note, old, new),
        (Op::Delete, Op::Insert) => {
            let row = columns.map(|column| wanted(column).or_else(|| old[column].clone()));
            Some((Op::Delete, row.collect(), new))
        }
        (Op::Delete, _) => None,
    }
}

fn update(
    change: &Change<'_, '_>,
    note: &Note,
    mut old: Record,
    mut new: Record,
) -> Option<(Op, Record, Record)> {
    let mut changes = false;
    for (column, cell) in note.cells.iter().enumerate() {
        if change.head.is_key(column) {
            continue;
        }
        match cell {
            Cell::Untouched => {}
            Cell::Replaced => {
                old[column] = None;
                new[column] = None;
            }
            Cell::Wanted(value) if old[column].is_some() => old[column] = Some(value.clone()),
            Cell::Wanted(_) => {}
        }
        changes |= old[column].is_some();
    }
    changes.then_some((Op::Update, old, new))
}

/// Appends the note of a conflict with the answer omit or replace.
pub(crate) fn push_note(
    writer: &mut Vec<u8>,
    head: &mut Option<Head>,
    change: &Change<'_, '_>,
    replaced: bool,
) {
    if head.as_ref() != Some(change.head) {
        let mut table = Writer::new(Form::Changeset);
        table.begin(change.head);
        writer.extend(table.finish());
        *head = Some(change.head.clone());
    }
    let op = if change.op == Op::Delete { Op::Delete } else { Op::Insert };
    writer.extend([op.byte(), u8::from(replaced)]);
    for column in 0..change.head.keys.len() {
        let is_old = match change.op {
            Op::Delete => true,
            Op::Update => change.head.is_key(column),
            Op::Insert => false,
        };
        push_value(if is_old { change.old[column] } else { change.new[column] }, writer);
    }
}

//! Rows for key-value stores: the columns after the rowid, packed into one value; and the copying
//! of a SQLite file's tables into packed rows.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use shoal_lab::engine::Miss;
use shoal_lab::engine::table::{Cell, Fields};

/// Appends a value: a byte for its kind, then 8 bytes of number, or 4 of length and the bytes.
fn push(packed: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Null => packed.push(0),
        Cell::Int(value) => {
            packed.push(1);
            packed.extend(value.to_le_bytes());
        }
        Cell::Real(value) => {
            packed.push(2);
            packed.extend(value.to_le_bytes());
        }
        Cell::Text(bytes) => sized(packed, 3, bytes),
        Cell::Blob(bytes) => sized(packed, 4, bytes),
    }
}

fn sized(packed: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    packed.push(kind);
    packed.extend((bytes.len() as u32).to_le_bytes());
    packed.extend(bytes);
}

/// Packs the columns after the rowid.
pub(super) fn pack(row: &[Cell<'_>], packed: &mut Vec<u8>) {
    packed.clear();
    row.iter().for_each(|cell| push(packed, *cell));
}

/// A packed row with its table's columns; only the columns asked for are decoded.
pub(crate) struct Row<'a> {
    pub(super) rowid: i64,
    pub(super) packed: &'a [u8],
    /// Indexes of the columns asked for; the rowid is column 0.
    pub(super) columns: &'a [usize],
}

impl Fields for Row<'_> {
    #[inline]
    fn cell(&self, index: usize) -> Cell<'_> {
        match self.columns.get(index) {
            None | Some(0) => Cell::Int(self.rowid),
            Some(&column) => unpack(self.packed, column - 1),
        }
    }
}

fn unpack(packed: &[u8], column: usize) -> Cell<'_> {
    let mut rest = packed;
    for _ in 0..column {
        let Some((_, after)) = first(rest) else { return Cell::Null };
        rest = after;
    }
    first(rest).map_or(Cell::Null, |(cell, _)| cell)
}

#[inline]
fn first(packed: &[u8]) -> Option<(Cell<'_>, &[u8])> {
    let (&kind, rest) = packed.split_first()?;
    if kind == 0 {
        return Some((Cell::Null, rest));
    }
    if kind <= 2 {
        let (bytes, rest) = rest.split_first_chunk::<8>()?;
        let cell = if kind == 1 {
            Cell::Int(i64::from_le_bytes(*bytes))
        } else {
            Cell::Real(f64::from_le_bytes(*bytes))
        };
        return Some((cell, rest));
    }
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((if kind == 3 { Cell::Text(bytes) } else { Cell::Blob(bytes) }, rest))
}

/// Hands every row of `users` of a SQLite file, packed, to `insert`.
pub(super) fn copy_users(
    path: &Path,
    mut insert: impl FnMut(i64, &[u8]) -> Result<(), Miss>,
) -> Result<(), Miss> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let source = Connection::open_with_flags(path, flags).map_err(Miss::failed)?;
    let mut statement = source
        .prepare("SELECT * FROM users ORDER BY rowid")
        .map_err(|_| Miss::NotRun("only the table of users is copied".into()))?;
    let width = statement.column_count();
    let mut rows = statement.query([]).map_err(Miss::failed)?;
    let mut packed = Vec::new();
    while let Some(row) = rows.next().map_err(Miss::failed)? {
        packed.clear();
        for column in 1..width {
            push(
                &mut packed,
                match row.get_ref(column).map_err(Miss::failed)? {
                    ValueRef::Null => Cell::Null,
                    ValueRef::Integer(value) => Cell::Int(value),
                    ValueRef::Real(value) => Cell::Real(value),
                    ValueRef::Text(bytes) => Cell::Text(bytes),
                    ValueRef::Blob(bytes) => Cell::Blob(bytes),
                },
            );
        }
        insert(row.get(0).map_err(Miss::failed)?, &packed)?;
    }
    Ok(())
}

//! A table: how its rows are found, and its shadow tables as a whole.

use std::fmt::Write;
use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Schema, ShadowTable, TableReads, TableWrites,
    Taken, VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use crate::check;
use crate::cursor::BoxCursor;
use crate::shape::{Shape, quoted};
use crate::writer::BoxWriter;

/// The number of rows a table is taken to have.
const ROWS: u32 = 1 << 20;

/// The choice of one row by its id; any other choice is a walk over the tree.
pub(crate) const BY_ID: i32 = 1;
pub(crate) const BY_WINDOW: i32 = 2;

/// A table's shape and its shadow tables.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) shape: Shape,
    pub(crate) nodes: ShadowTable,
    pub(crate) parents: ShadowTable,
    pub(crate) rowids: ShadowTable,
}

/// A table of a file.
#[derive(Debug)]
pub(crate) struct RTree(Arc<Parts>);

impl RTree {
    pub(crate) fn open(shape: Shape, schema: &Schema) -> Result<RTree, Error> {
        let part = |name| ShadowTable::of(schema, &shape.shadow(name));
        let (nodes, parents, rowids) = (part("node")?, part("parent")?, part("rowid")?);
        Ok(RTree(Arc::new(Parts { nodes, parents, rowids, shape })))
    }
}

/// The letter of a condition on a coordinate, as SQLite shows it.
fn letter(op: ConstraintOp) -> Option<char> {
    Some(match op {
        ConstraintOp::Equal => 'A',
        ConstraintOp::AtMost => 'B',
        ConstraintOp::Less => 'C',
        ConstraintOp::AtLeast => 'D',
        ConstraintOp::Greater => 'E',
        _ => return None,
    })
}

impl VirtualTable for RTree {
    fn columns(&self) -> &[VirtualColumn] {
        &self.0.shape.columns
    }

    /// The text names each condition by a letter and the place of its coordinate from `0`.
    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let by_id = request.constraints.iter().position(|constraint| {
            constraint.op == ConstraintOp::Equal && matches!(constraint.column, None | Some(0))
        });
        if let Some(constraint) = by_id {
            return Ok(Some(IndexChoice {
                number: BY_ID,
                taken: vec![Taken { constraint, is_exact: true }],
                cost: 30.0,
                rows: 1.0,
                ..IndexChoice::default()
            }));
        }
        let mut choice = IndexChoice { number: BY_WINDOW, ..IndexChoice::default() };
        for (constraint, known) in request.constraints.iter().enumerate() {
            let coordinate = known.column.and_then(|column| column.checked_sub(1));
            let coordinate = coordinate.filter(|place| *place < self.0.shape.coordinates);
            let (Some(place), Some(letter)) = (coordinate, letter(known.op)) else { continue };
            let digit = u8::try_from(place).map_or('0', |place| char::from(b'0' + place));
            let _ = write!(choice.text, "{letter}{digit}");
            choice.taken.push(Taken { constraint, is_exact: true });
        }
        let rows = f64::from(ROWS >> choice.taken.len().min(20));
        Ok(Some(IndexChoice { cost: 6.0 * rows, rows, ..choice }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(BoxCursor::new(Arc::clone(&self.0))))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Ok(Box::new(BoxWriter::new(Arc::clone(&self.0))))
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for part in ["node", "parent", "rowid"] {
            let (old, new) = (self.0.shape.shadow(part), format!("{new_name}_{part}"));
            let sql = format!("ALTER TABLE {} RENAME TO {}", quoted(&old), quoted(&new));
            writes.execute(&sql, &[])?;
        }
        Ok(())
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        for part in ["node", "parent", "rowid"] {
            writes.execute(&format!("DROP TABLE {}", quoted(&self.0.shape.shadow(part))), &[])?;
        }
        Ok(())
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        check::faults(&self.0, reads)
    }
}

impl Parts {
    /// The bytes of a node, copied to `out`.
    ///
    /// # Errors
    /// No such node, or no blob in it.
    pub(crate) fn read_node(
        &self,
        number: i64,
        reads: &TableReads<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut rows = reads.rows(&self.nodes)?;
        if rows.seek(number)?
            && let shoal_sql::ValueRef::Blob(bytes) = rows.column(1)?
        {
            out.clear();
            out.extend_from_slice(bytes);
            return Ok(());
        }
        Err(self.shape.corrupt(format!("node {number} is missing")))
    }
}

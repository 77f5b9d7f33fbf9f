//! Rows inserted, changed and deleted.

use std::sync::Arc;

use shoal_sql::{
    ConstraintKind, Error, OnConflict, TableWrites, Value, ValueRef, VirtualRow, VirtualWriter,
};

use crate::node::Cell;
use crate::table::Parts;
use crate::tree::Tree;

/// Writes rows of a table.
#[derive(Debug)]
pub(crate) struct BoxWriter {
    parts: Arc<Parts>,
    tree: Tree,
}

impl BoxWriter {
    pub(crate) fn new(parts: Arc<Parts>) -> BoxWriter {
        BoxWriter { tree: Tree::new(Arc::clone(&parts)), parts }
    }

    /// The box of a row's values.
    ///
    /// # Errors
    /// A dimension whose smallest coordinate is above its largest.
    fn cell(&self, values: &[Value]) -> Result<Cell, Error> {
        let shape = &self.parts.shape;
        let mut cell = Cell { id: 0, bits: [0; 10] };
        for dimension in 0..shape.coordinates / 2 {
            let (low, high) = (2 * dimension, 2 * dimension + 1);
            cell.bits[low] = shape.kind.down(&values[1 + low]);
            cell.bits[high] = shape.kind.up(&values[1 + high]);
            let (smallest, largest) = cell.side(shape.kind, dimension);
            if smallest > largest {
                let [first, second] =
                    [low, high].map(|place| shape.columns[1 + place].name.as_str());
                let place = format!("{}.({first}<={second})", shape.name);
                let constraint = ConstraintKind::Virtual("rtree");
                return Err(Error::Constraint { constraint, place });
            }
        }
        Ok(cell)
    }

    /// Stores a row; `replacing` is the id of the row it is made of.
    fn store(
        &mut self,
        replacing: Option<i64>,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<i64, Error> {
        let mut cell = self.cell(row.values)?;
        let given = Some(&row.values[0]).filter(|id| !id.is_null()).map(Value::to_int);
        if let Some(id) = given.filter(|id| replacing != Some(*id))
            && self.tree.has(id, writes)?
        {
            if row.conflict != Some(OnConflict::Replace) {
                let shape = &self.parts.shape;
                let place = format!("{}.{}", shape.name, shape.columns[0].name);
                return Err(Error::Constraint { constraint: ConstraintKind::Unique, place });
            }
            self.tree.delete(id, writes)?;
        }
        if let Some(old) = replacing {
            self.tree.delete(old, writes)?;
        }
        cell.id = match given {
            Some(id) => id,
            None => self.tree.next_id(writes)?,
        };
        self.tree.insert(&cell, writes)?;
        if self.parts.shape.auxiliary > 0 {
            self.store_auxiliary(cell.id, row.values, writes)?;
        }
        Ok(cell.id)
    }

    fn store_auxiliary(
        &self,
        id: i64,
        values: &[Value],
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let node = {
            let mut rows = writes.reads().rows(&self.parts.rowids)?;
            match rows.seek(id)? {
                true => Value::from(rows.column(1)?),
                false => Value::Null,
            }
        };
        let auxiliary = values[1 + self.parts.shape.coordinates..].iter().map(Value::as_ref);
        let stored: Vec<ValueRef<'_>> =
            [ValueRef::Null, node.as_ref()].into_iter().chain(auxiliary).collect();
        writes.insert(&self.parts.rowids, id, &stored)
    }
}

impl VirtualWriter for BoxWriter {
    fn insert(&mut self, row: &VirtualRow<'_>, writes: &mut TableWrites<'_>) -> Result<i64, Error> {
        self.store(None, row, writes)
    }

    fn update(
        &mut self,
        rowid: i64,
        row: &VirtualRow<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.store(Some(rowid), row, writes).map(drop)
    }

    fn delete(&mut self, rowid: i64, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        self.tree.delete(rowid, writes).map(drop)
    }

    fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        self.tree.flush(writes)
    }

    fn savepoint(&mut self, _writes: &mut TableWrites<'_>) -> Result<usize, Error> {
        Ok(self.tree.savepoint())
    }

    fn rollback_to(&mut self, moment: usize) {
        self.tree.rollback_to(moment);
    }

    fn release(&mut self, moment: usize) {
        self.tree.release(moment);
    }
}

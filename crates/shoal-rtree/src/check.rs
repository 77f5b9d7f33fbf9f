//! Faults of a tree, in the words of SQLite's `rtreecheck`.

use std::collections::HashSet;

use shoal_sql::{Error, TableReads, ValueRef};

use crate::node::{Cell, DEPTH_MAX, HEADER_BYTES, NodeBytes};
use crate::table::Parts;

/// A check stops after this many faults.
const FAULTS_MAX: usize = 100;

struct Check<'c> {
    parts: &'c Parts,
    reads: &'c TableReads<'c>,
    faults: Vec<String>,
    seen: HashSet<i64>,
    leaf_cells: i64,
    inner_cells: i64,
}

/// Looks for faults of a table: a sentence for each.
///
/// # Errors
/// The store's.
pub(crate) fn faults(parts: &Parts, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
    let (faults, seen) = (Vec::new(), HashSet::new());
    let mut check = Check { parts, reads, faults, seen, leaf_cells: 0, inner_cells: 0 };
    check.tree()?;
    check.count("_rowid", check.leaf_cells)?;
    check.count("_parent", check.inner_cells)?;
    Ok(check.faults)
}

impl Check<'_> {
    fn add(&mut self, fault: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }

    /// Goes through all nodes, from the root on.
    fn tree(&mut self) -> Result<(), Error> {
        let mut nodes: Vec<(i64, Option<usize>, Option<Cell>)> = vec![(1, None, None)];
        while let Some((number, height, around)) = nodes.pop() {
            self.reads.check()?;
            if self.faults.len() >= FAULTS_MAX {
                return Ok(());
            }
            if !self.seen.insert(number) {
                self.add(format!("Node {number} has two parents"));
                continue;
            }
            let mut bytes = Vec::new();
            if let Err(error) = self.parts.read_node(number, self.reads, &mut bytes) {
                match error {
                    Error::CorruptVirtual { .. } => {
                        self.add(format!("Node {number} missing from database"));
                        continue;
                    }
                    error => return Err(error),
                }
            }
            if bytes.len() < HEADER_BYTES {
                self.add(format!("Node {number} is too small ({} bytes)", bytes.len()));
                continue;
            }
            let count = u16::from_be_bytes([bytes[2], bytes[3]]);
            let Some(node) = NodeBytes::new(&bytes, &self.parts.shape) else {
                let length = bytes.len();
                self.add(format!(
                    "Node {number} is too small for cell count of {count} ({length} bytes)"
                ));
                continue;
            };
            let height = height.unwrap_or_else(|| node.depth());
            if height > DEPTH_MAX {
                self.add(format!("Rtree depth out of range ({height})"));
                continue;
            }
            for (place, cell) in node.cells().enumerate() {
                self.cell(number, place, &cell, around.as_ref());
                if height > 0 {
                    self.mapping(false, cell.id, number)?;
                    nodes.push((cell.id, Some(height - 1), Some(cell)));
                    self.inner_cells += 1;
                } else {
                    self.mapping(true, cell.id, number)?;
                    self.leaf_cells += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks the sides of a box, and whether its parent's box holds it.
    fn cell(&mut self, number: i64, place: usize, cell: &Cell, around: Option<&Cell>) {
        let shape = &self.parts.shape;
        for dimension in 0..shape.coordinates / 2 {
            let (low, high) = cell.side(shape.kind, dimension);
            if low > high {
                self.add(format!(
                    "Dimension {dimension} of cell {place} on node {number} is corrupt"
                ));
            }
            if let Some(around) = around {
                let (least, most) = around.side(shape.kind, dimension);
                if low < least || high > most {
                    self.add(format!(
                        "Dimension {dimension} of cell {place} on node {number} is corrupt \
                         relative to parent"
                    ));
                }
            }
        }
    }

    /// Checks a row of `_rowid` or `_parent`.
    fn mapping(&mut self, is_leaf: bool, key: i64, expected: i64) -> Result<(), Error> {
        let (table, name) = match is_leaf {
            true => (&self.parts.rowids, "%_rowid"),
            false => (&self.parts.parents, "%_parent"),
        };
        let found = {
            let mut rows = self.reads.rows(table)?;
            match rows.seek(key)? {
                true => Some(match rows.column(1)? {
                    ValueRef::Int(found) => found,
                    _ => 0,
                }),
                false => None,
            }
        };
        match found {
            None => self.add(format!("Mapping ({key} -> {expected}) missing from {name} table")),
            Some(found) if found != expected => self.add(format!(
                "Found ({key} -> {found}) in {name} table, expected ({key} -> {expected})"
            )),
            Some(_) => {}
        }
        Ok(())
    }

    /// Checks the number of rows of `_rowid` or `_parent`.
    fn count(&mut self, name: &str, expected: i64) -> Result<(), Error> {
        let table = match name {
            "_rowid" => &self.parts.rowids,
            _ => &self.parts.parents,
        };
        let mut rows = self.reads.rows(table)?;
        let mut actual = 0i64;
        let mut more = rows.first()?;
        while more {
            actual += 1;
            more = rows.next()?;
        }
        if actual != expected {
            self.add(format!(
                "Wrong number of entries in %{name} table - expected {expected}, actual {actual}"
            ));
        }
        Ok(())
    }
}

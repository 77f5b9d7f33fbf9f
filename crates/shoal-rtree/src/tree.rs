//! The tree while it is changed: nodes in memory until they are flushed.

use std::sync::Arc;

use shoal_sql::{Error, TableWrites, ValueRef};

use crate::node::{Cell, DEPTH_MAX, Fit, HEADER_BYTES, NodeBytes};
use crate::nodes::{Node, Nodes};
use crate::shape::NODE_BYTES_MIN;
use crate::split::{box_of, split};
use crate::table::Parts;

/// The number of the root.
const ROOT: i64 = 1;

/// The nodes looked at since the transaction began.
#[derive(Debug)]
pub(crate) struct Tree {
    parts: Arc<Parts>,
    nodes: Nodes,
    height: Height,
    /// The heights at the moments.
    moments: Vec<Height>,
}

/// The root's word on all nodes, and the numbers given to nodes and rows.
#[derive(Clone, Copy, Debug, Default)]
struct Height {
    /// Bytes of every node; 0 until the root was read.
    node_bytes: usize,
    depth: usize,
    /// The largest number of a node; `None` until it was asked for.
    last_node: Option<i64>,
    /// A number above all ids; `None` before the first use, and behind a deletion.
    next_id: Option<i64>,
}

impl Tree {
    pub(crate) fn new(parts: Arc<Parts>) -> Tree {
        let (nodes, height) = (Nodes::default(), Height::default());
        Tree { parts, nodes, height, moments: Vec::new() }
    }

    /// A moment to go back to.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.moments.push(self.height);
        self.nodes.savepoint()
    }

    /// Goes back to a moment and keeps the moment.
    pub(crate) fn rollback_to(&mut self, moment: usize) {
        let height = self.moments.get(moment).copied().unwrap_or_default();
        self.moments.truncate(moment + 1);
        let is_known = self.nodes.rollback_to(moment);
        self.height = height;
        if height.node_bytes == 0 || !is_known {
            // Nothing was known at the moment.
            self.nodes.clear();
            self.height = Height::default();
            for _ in 0..self.moments.len() {
                self.nodes.savepoint();
            }
        }
    }

    /// Forgets a moment and all later ones.
    pub(crate) fn release(&mut self, moment: usize) {
        self.moments.truncate(moment);
        self.nodes.release(moment);
    }

    /// Writes changed nodes.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let parts = &*self.parts;
        let (cell_bytes, height) = (parts.shape.cell_bytes(), self.height);
        self.nodes.flush(|number, cells| {
            bytes.clear();
            bytes.resize(height.node_bytes, 0);
            if number == ROOT {
                let depth = u16::try_from(height.depth).unwrap_or(u16::MAX);
                bytes[..2].copy_from_slice(&depth.to_be_bytes());
            }
            let count = u16::try_from(cells.len()).unwrap_or(u16::MAX);
            bytes[2..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
            let places = bytes[HEADER_BYTES..].chunks_exact_mut(cell_bytes);
            cells.iter().zip(places).for_each(|(cell, place)| cell.write(place));
            writes.insert(&parts.nodes, number, &[ValueRef::Null, ValueRef::Blob(&bytes)])
        })
    }

    /// One more than the largest id.
    ///
    /// # Errors
    /// The store's; no id is left.
    pub(crate) fn next_id(&mut self, writes: &TableWrites<'_>) -> Result<i64, Error> {
        if let Some(next) = self.height.next_id {
            return Ok(next);
        }
        let next = writes.new_rowid(&self.parts.rowids)?;
        self.height.next_id = Some(next);
        Ok(next)
    }

    /// True where a row has the id.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn has(&mut self, id: i64, writes: &TableWrites<'_>) -> Result<bool, Error> {
        if self.height.next_id.is_some_and(|next| id >= next) {
            return Ok(false);
        }
        let mut rows = writes.reads().rows(&self.parts.rowids)?;
        // Behind the end: ids are ascending, perhaps.
        if rows.seek(id)? || rows.is_valid() {
            return rows.rowid().map(|found| found == id);
        }
        self.height.next_id = Some(id);
        Ok(false)
    }

    fn corrupt(&self, why: impl Into<String>) -> Error {
        self.parts.shape.corrupt(why)
    }

    /// Reads the root, which tells the depth and the size of all nodes.
    fn begin(&mut self, writes: &TableWrites<'_>) -> Result<(), Error> {
        if self.height.node_bytes > 0 {
            return Ok(());
        }
        let mut bytes = Vec::new();
        self.parts.read_node(ROOT, &writes.reads(), &mut bytes)?;
        let root = NodeBytes::new(&bytes, &self.parts.shape);
        let Some(root) = root.filter(|_| bytes.len() >= NODE_BYTES_MIN) else {
            return Err(self.corrupt("the root node is too short"));
        };
        if root.depth() > DEPTH_MAX {
            return Err(self.corrupt(format!("its depth is {}", root.depth())));
        }
        (self.height.node_bytes, self.height.depth) = (bytes.len(), root.depth());
        let cells = root.cells().collect();
        self.nodes.add_read(ROOT, cells);
        Ok(())
    }

    fn cells_max(&self) -> usize {
        (self.height.node_bytes - HEADER_BYTES) / self.parts.shape.cell_bytes()
    }

    fn cells_min(&self) -> usize {
        self.cells_max() / 3
    }

    /// A node, read at first.
    fn node(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<&mut Node, Error> {
        if !self.nodes.has(number) {
            let mut bytes = Vec::new();
            self.parts.read_node(number, &writes.reads(), &mut bytes)?;
            let node = NodeBytes::new(&bytes, &self.parts.shape);
            let Some(node) = node.filter(|_| bytes.len() == self.height.node_bytes) else {
                return Err(self.corrupt(format!("node {number} has the wrong size")));
            };
            let cells = node.cells().collect();
            return Ok(self.nodes.add_read(number, cells));
        }
        Ok(self.nodes.get(number).expect("the node is known"))
    }

    /// A node about to change.
    fn changed(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<&mut Node, Error> {
        self.node(number, writes)?;
        Ok(self.nodes.change(number).expect("the node is known"))
    }

    /// Adds a node with cells, and gives its number.
    fn add_node(&mut self, cells: Vec<Cell>, writes: &TableWrites<'_>) -> Result<i64, Error> {
        let next = match self.height.last_node {
            Some(last) => last.checked_add(1),
            None => Some(writes.new_rowid(&self.parts.nodes)?),
        };
        let number = next.ok_or_else(|| self.corrupt("there is no number for another node"))?;
        self.height.last_node = Some(number);
        self.nodes.add_new(number, cells);
        Ok(number)
    }

    /// The parent of a node other than the root.
    fn parent(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<i64, Error> {
        if let Some(parent) = self.node(number, writes)?.parent {
            return Ok(parent);
        }
        let parent = {
            let mut rows = writes.reads().rows(&self.parts.parents)?;
            match rows.seek(number)? {
                true => match rows.column(1)? {
                    ValueRef::Int(parent) if parent != number => Some(parent),
                    _ => None,
                },
                false => None,
            }
        };
        let parent = parent.ok_or_else(|| self.corrupt(format!("node {number} has no parent")))?;
        self.node(number, writes)?.parent = Some(parent);
        Ok(parent)
    }

    /// The place of a child's cell in its parent.
    fn place(&mut self, parent: i64, child: i64, writes: &TableWrites<'_>) -> Result<usize, Error> {
        let found = self.node(parent, writes)?.cells.iter().position(|cell| cell.id == child);
        found.ok_or_else(|| self.corrupt(format!("node {parent} has no cell of node {child}")))
    }

    /// The node of a height above the leaves that grows least by a box.
    fn choose(
        &mut self,
        cell: &Cell,
        height: usize,
        writes: &TableWrites<'_>,
    ) -> Result<i64, Error> {
        let levels = self.height.depth.checked_sub(height);
        let levels = levels.ok_or_else(|| self.corrupt("a node lies above the root"))?;
        let parts = Arc::clone(&self.parts);
        let mut number = ROOT;
        for _ in 0..levels {
            let node = self.node(number, writes)?;
            let mut best: Option<(Fit, i64)> = None;
            cell.fits(&node.cells, &parts.shape, |fit, id| {
                if best.is_none_or(|(known, _)| fit.is_better(known)) {
                    best = Some((fit, id));
                }
            });
            let Some((_, child)) = best else {
                return Err(self.corrupt(format!("node {number} has no cells")));
            };
            if child == number || child == ROOT {
                return Err(self.corrupt(format!("node {number} is below itself")));
            }
            self.node(child, writes)?.parent = Some(number);
            number = child;
        }
        Ok(number)
    }

    /// Inserts the box of a row.
    ///
    /// # Errors
    /// A damaged tree; the store's.
    pub(crate) fn insert(
        &mut self,
        cell: &Cell,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        self.begin(writes)?;
        let leaf = self.choose(cell, 0, writes)?;
        self.insert_cell(leaf, cell, 0, writes)?;
        if self.height.next_id.is_some_and(|next| cell.id >= next) {
            self.height.next_id = cell.id.checked_add(1);
        }
        Ok(())
    }

    fn insert_cell(
        &mut self,
        number: i64,
        cell: &Cell,
        height: usize,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let max = self.cells_max();
        if self.node(number, writes)?.cells.len() >= max {
            return self.split_node(number, cell, height, writes);
        }
        self.nodes.push(number, *cell);
        self.grow(number, cell, writes)?;
        self.note(cell.id, number, height, writes)
    }

    /// Notes in which node a row or a node is.
    fn note(
        &mut self,
        id: i64,
        number: i64,
        height: usize,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        if height > 0 {
            if let Some(child) = self.nodes.get(id) {
                child.parent = Some(number);
            }
            let values = [ValueRef::Null, ValueRef::Int(number)];
            return writes.insert(&self.parts.parents, id, &values);
        }
        let auxiliary = self.parts.shape.auxiliary;
        if auxiliary == 0 {
            return writes.insert(&self.parts.rowids, id, &[ValueRef::Null, ValueRef::Int(number)]);
        }
        let mut kept = vec![shoal_sql::Value::Null; auxiliary];
        {
            let mut rows = writes.reads().rows(&self.parts.rowids)?;
            if rows.seek(id)? {
                for (place, value) in kept.iter_mut().enumerate() {
                    *value = rows.column(place + 2)?.into();
                }
            }
        }
        let mut values = vec![ValueRef::Null, ValueRef::Int(number)];
        values.extend(kept.iter().map(shoal_sql::Value::as_ref));
        writes.insert(&self.parts.rowids, id, &values)
    }

    /// Widens the boxes above a node.
    fn grow(&mut self, number: i64, cell: &Cell, writes: &TableWrites<'_>) -> Result<(), Error> {
        let mut number = number;
        for _ in 0..=DEPTH_MAX {
            if number == ROOT {
                return Ok(());
            }
            let parent = self.parent(number, writes)?;
            let place = self.place(parent, number, writes)?;
            let shape = &Arc::clone(&self.parts).shape;
            let known = &self.node(parent, writes)?.cells[place];
            if known.contains(cell, shape) {
                return Ok(());
            }
            self.changed(parent, writes)?.cells[place].add(cell, shape);
            number = parent;
        }
        Err(self.corrupt(format!("node {number} is below itself")))
    }

    /// Parts a full node in two, with one cell more.
    fn split_node(
        &mut self,
        number: i64,
        cell: &Cell,
        height: usize,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        if height > DEPTH_MAX || self.height.depth >= DEPTH_MAX && number == ROOT {
            return Err(self.corrupt("it is too deep"));
        }
        let parts = Arc::clone(&self.parts);
        let mut cells = std::mem::take(&mut self.changed(number, writes)?.cells);
        cells.push(*cell);
        let (left_cells, right_cells) = split(&cells, self.cells_min().max(1), &parts.shape);
        let right_ids: Vec<i64> = right_cells.iter().map(|cell| cell.id).collect();
        let right_box = box_of(0, right_cells.iter().copied(), &parts.shape);
        let left_box = box_of(0, left_cells.iter().copied(), &parts.shape);
        let (Some(left_box), Some(right_box)) = (left_box, right_box) else {
            return Err(self.corrupt(format!("node {number} has no cells")));
        };
        let right = self.add_node(right_cells, writes)?;
        let right_box = Cell { id: right, ..right_box };
        if number == ROOT {
            let left_ids: Vec<i64> = left_cells.iter().map(|cell| cell.id).collect();
            let left = self.add_node(left_cells, writes)?;
            self.height.depth += 1;
            for child in [left, right] {
                self.node(child, writes)?.parent = Some(ROOT);
            }
            self.insert_cell(ROOT, &Cell { id: left, ..left_box }, height + 1, writes)?;
            self.insert_cell(ROOT, &right_box, height + 1, writes)?;
            for id in left_ids {
                self.note(id, left, height, writes)?;
            }
        } else {
            let is_left = left_cells.iter().any(|known| known.id == cell.id);
            self.changed(number, writes)?.cells = left_cells;
            let parent = self.parent(number, writes)?;
            self.node(right, writes)?.parent = Some(parent);
            let place = self.place(parent, number, writes)?;
            let left_box = Cell { id: number, ..left_box };
            self.changed(parent, writes)?.cells[place] = left_box;
            self.grow(parent, &left_box, writes)?;
            self.insert_cell(parent, &right_box, height + 1, writes)?;
            if is_left {
                self.note(cell.id, number, height, writes)?;
            }
        }
        for id in right_ids {
            self.note(id, right, height, writes)?;
        }
        Ok(())
    }

    /// Deletes the box of a row; false where there is none.
    ///
    /// # Errors
    /// A damaged tree; the store's.
    pub(crate) fn delete(&mut self, id: i64, writes: &mut TableWrites<'_>) -> Result<bool, Error> {
        self.begin(writes)?;
        let leaf = {
            let mut rows = writes.reads().rows(&self.parts.rowids)?;
            match rows.seek(id)? {
                true => match rows.column(1)? {
                    ValueRef::Int(leaf) => leaf,
                    _ => return Err(self.corrupt(format!("row {id} is in no node"))),
                },
                false => return Ok(false),
            }
        };
        let found = self.node(leaf, writes)?.cells.iter().position(|cell| cell.id == id);
        let place = found.ok_or_else(|| self.corrupt(format!("node {leaf} lacks row {id}")))?;
        let mut removed = Vec::new();
        self.height.next_id = None;
        self.delete_cell(leaf, place, 0, &mut removed, writes)?;
        writes.delete(&self.parts.rowids, id)?;
        let root = self.node(ROOT, writes)?;
        let (count, first) = (root.cells.len(), root.cells.first().map(|cell| cell.id));
        if let (true, 1, Some(child)) = (self.height.depth > 0, count, first) {
            if child == ROOT {
                return Err(self.corrupt("the root is below itself"));
            }
            self.node(child, writes)?.parent = Some(ROOT);
            self.remove_node(child, self.height.depth - 1, &mut removed, writes)?;
            self.height.depth -= 1;
            self.changed(ROOT, writes)?;
        }
        // Nodes nearer to the root come first, so that there is a place for those below.
        removed.sort_by_key(|(height, _)| std::cmp::Reverse(*height));
        for (height, cells) in removed {
            for cell in cells {
                let number = self.choose(&cell, height, writes)?;
                self.insert_cell(number, &cell, height, writes)?;
            }
        }
        Ok(true)
    }

    fn delete_cell(
        &mut self,
        number: i64,
        place: usize,
        height: usize,
        removed: &mut Vec<(usize, Vec<Cell>)>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        if height > DEPTH_MAX {
            return Err(self.corrupt(format!("node {number} is below itself")));
        }
        let min = self.cells_min();
        let node = self.changed(number, writes)?;
        node.cells.remove(place);
        let count = node.cells.len();
        match number {
            ROOT => Ok(()),
            _ if count < min => self.remove_node(number, height, removed, writes),
            _ => self.fit(number, writes),
        }
    }

    /// Takes a node out of the tree; its cells are to be inserted again.
    fn remove_node(
        &mut self,
        number: i64,
        height: usize,
        removed: &mut Vec<(usize, Vec<Cell>)>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let parent = self.parent(number, writes)?;
        let place = self.place(parent, number, writes)?;
        self.delete_cell(parent, place, height + 1, removed, writes)?;
        writes.delete(&self.parts.nodes, number)?;
        writes.delete(&self.parts.parents, number)?;
        if let Some(node) = self.nodes.remove(number) {
            removed.push((height, node.cells));
        }
        Ok(())
    }

    /// Makes the boxes above a node as small as they can be.
    fn fit(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<(), Error> {
        let mut number = number;
        for _ in 0..=DEPTH_MAX {
            if number == ROOT {
                return Ok(());
            }
            let parent = self.parent(number, writes)?;
            let place = self.place(parent, number, writes)?;
            let shape = &Arc::clone(&self.parts).shape;
            let cells = self.node(number, writes)?.cells.iter().copied();
            let Some(around) = box_of(number, cells, shape) else {
                return Err(self.corrupt(format!("node {number} has no cells")));
            };
            if self.node(parent, writes)?.cells[place] == around {
                return Ok(());
            }
            self.changed(parent, writes)?.cells[place] = around;
            number = parent;
        }
        Err(self.corrupt(format!("node {number} is below itself")))
    }
}

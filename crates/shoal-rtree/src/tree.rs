//! The tree while it is changed: nodes in memory until they are flushed.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_sql::{Error, TableWrites, ValueRef};

use crate::node::{Cell, DEPTH_MAX, HEADER_BYTES, NodeBytes};
use crate::shape::NODE_BYTES_MIN;
use crate::split::{box_of, split};
use crate::table::Parts;

/// The number of the root.
const ROOT: i64 = 1;

/// The nodes looked at since the transaction began, or since a moment was gone back to.
#[derive(Debug)]
pub(crate) struct Tree {
    parts: Arc<Parts>,
    nodes: BTreeMap<i64, Node>,
    /// Bytes of every node; 0 until the root was read.
    node_bytes: usize,
    depth: usize,
    /// The largest number of a node; `None` until it was asked for.
    last_node: Option<i64>,
}

#[derive(Clone, Debug)]
struct Node {
    cells: Vec<Cell>,
    parent: Option<i64>,
    is_changed: bool,
}

impl Tree {
    pub(crate) fn new(parts: Arc<Parts>) -> Tree {
        let nodes = BTreeMap::new();
        Tree { parts, nodes, node_bytes: 0, depth: 0, last_node: None }
    }

    /// Forgets everything not flushed.
    pub(crate) fn forget(&mut self) {
        self.nodes.clear();
        (self.node_bytes, self.depth, self.last_node) = (0, 0, None);
    }

    /// Writes changed nodes.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn flush(&mut self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let cell_bytes = self.parts.shape.cell_bytes();
        for (number, node) in self.nodes.iter_mut().filter(|(_, node)| node.is_changed) {
            bytes.clear();
            bytes.resize(self.node_bytes, 0);
            if *number == ROOT {
                let depth = u16::try_from(self.depth).unwrap_or(u16::MAX);
                bytes[..2].copy_from_slice(&depth.to_be_bytes());
            }
            let count = u16::try_from(node.cells.len()).unwrap_or(u16::MAX);
            bytes[2..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
            let places = bytes[HEADER_BYTES..].chunks_exact_mut(cell_bytes);
            node.cells.iter().zip(places).for_each(|(cell, place)| cell.write(place));
            writes.insert(&self.parts.nodes, *number, &[ValueRef::Null, ValueRef::Blob(&bytes)])?;
            node.is_changed = false;
        }
        Ok(())
    }

    fn corrupt(&self, why: impl Into<String>) -> Error {
        self.parts.shape.corrupt(why)
    }

    /// Reads the root, which tells the depth and the size of all nodes.
    fn begin(&mut self, writes: &TableWrites<'_>) -> Result<(), Error> {
        if self.node_bytes > 0 {
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
        (self.node_bytes, self.depth) = (bytes.len(), root.depth());
        let cells = root.cells().collect();
        self.nodes.insert(ROOT, Node { cells, parent: None, is_changed: false });
        Ok(())
    }

    fn cells_max(&self) -> usize {
        (self.node_bytes - HEADER_BYTES) / self.parts.shape.cell_bytes()
    }

    fn cells_min(&self) -> usize {
        self.cells_max() / 3
    }

    /// A node, read at first.
    fn node(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<&mut Node, Error> {
        if !self.nodes.contains_key(&number) {
            let mut bytes = Vec::new();
            self.parts.read_node(number, &writes.reads(), &mut bytes)?;
            let node = NodeBytes::new(&bytes, &self.parts.shape);
            let Some(node) = node.filter(|_| bytes.len() == self.node_bytes) else {
                return Err(self.corrupt(format!("node {number} has the wrong size")));
            };
            let cells = node.cells().collect();
            self.nodes.insert(number, Node { cells, parent: None, is_changed: false });
        }
        Ok(self.nodes.get_mut(&number).expect("the node was just put there"))
    }

    /// A node about to change.
    fn changed(&mut self, number: i64, writes: &TableWrites<'_>) -> Result<&mut Node, Error> {
        let node = self.node(number, writes)?;
        node.is_changed = true;
        Ok(node)
    }

    /// Adds a node with cells, and gives its number.
    fn add_node(&mut self, cells: Vec<Cell>, writes: &TableWrites<'_>) -> Result<i64, Error> {
        let next = match self.last_node {
            Some(last) => last.checked_add(1),
            None => Some(writes.new_rowid(&self.parts.nodes)?),
        };
        let number = next.ok_or_else(|| self.corrupt("there is no number for another node"))?;
        self.last_node = Some(number);
        self.nodes.insert(number, Node { cells, parent: None, is_changed: true });
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
        let levels = self.depth.checked_sub(height);
        let levels = levels.ok_or_else(|| self.corrupt("a node lies above the root"))?;
        let mut number = ROOT;
        for _ in 0..levels {
            let shape = &Arc::clone(&self.parts).shape;
            let node = self.node(number, writes)?;
            let mut best: Option<(bool, f64, f64, i64)> = None;
            for known in &node.cells {
                let area = known.area(shape);
                let contains = known.contains(cell, shape);
                let growth = match contains {
                    true => 0.0,
                    false => {
                        let mut grown = *known;
                        grown.add(cell, shape);
                        grown.area(shape) - area
                    }
                };
                let better =
                    best.is_none_or(|(known_contains, known_growth, known_area, _)| {
                        match (contains, known_contains) {
                            (true, false) => true,
                            (false, true) => false,
                            _ => {
                                growth < known_growth || growth == known_growth && area < known_area
                            }
                        }
                    });
                if better {
                    best = Some((contains, growth, area, known.id));
                }
            }
            let Some((.., child)) = best else {
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
        self.insert_cell(leaf, cell, 0, writes)
    }

    fn insert_cell(
        &mut self,
        number: i64,
        cell: &Cell,
        height: usize,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let max = self.cells_max();
        let node = self.changed(number, writes)?;
        if node.cells.len() >= max {
            return self.split_node(number, cell, height, writes);
        }
        node.cells.push(*cell);
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
            if let Some(child) = self.nodes.get_mut(&id) {
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
        if height > DEPTH_MAX || self.depth >= DEPTH_MAX && number == ROOT {
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
            self.depth += 1;
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
        self.delete_cell(leaf, place, 0, &mut removed, writes)?;
        writes.delete(&self.parts.rowids, id)?;
        let root = self.node(ROOT, writes)?;
        let (count, first) = (root.cells.len(), root.cells.first().map(|cell| cell.id));
        if let (true, 1, Some(child)) = (self.depth > 0, count, first) {
            if child == ROOT {
                return Err(self.corrupt("the root is below itself"));
            }
            self.node(child, writes)?.parent = Some(ROOT);
            self.remove_node(child, self.depth - 1, &mut removed, writes)?;
            self.depth -= 1;
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
        if let Some(node) = self.nodes.remove(&number) {
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

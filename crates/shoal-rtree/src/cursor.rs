//! Rows found: by a window over the tree, or by an id.

use std::collections::HashSet;
use std::sync::Arc;

use shoal_sql::{Error, IndexChoice, TableReads, Value, ValueRef, VirtualCursor};

use crate::node::{Cell, Coordinates, DEPTH_MAX, NodeBytes};
use crate::shape::NODE_BYTES_MIN;
use crate::table::{BY_ID, Parts};

/// A condition on a coordinate.
#[derive(Clone, Copy, Debug)]
struct Condition {
    coordinate: usize,
    /// As in the choice's text.
    op: u8,
    bound: Bound,
}

/// The value of a condition among all values: numbers, then texts and blobs.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Number(f64),
    /// An integer no float has.
    Large(i64),
    /// Above all numbers.
    Above,
}

impl Condition {
    /// How a coordinate compares with the bound.
    #[inline]
    fn compare(&self, value: f64) -> Option<std::cmp::Ordering> {
        match self.bound {
            Bound::Number(bound) => value.partial_cmp(&bound),
            Bound::Large(bound) => {
                if value.is_nan() {
                    return None;
                }
                // Coordinates that large are integers; infinities stay above all of them.
                Some((value as i128).cmp(&i128::from(bound)))
            }
            Bound::Above => Some(std::cmp::Ordering::Less),
        }
    }

    #[inline]
    fn holds(&self, value: f64) -> bool {
        let Some(order) = self.compare(value) else { return false };
        match self.op {
            b'A' => order.is_eq(),
            b'B' => order.is_le(),
            b'C' => order.is_lt(),
            b'D' => order.is_ge(),
            _ => order.is_gt(),
        }
    }

    /// True where a box may hold a cell that meets the condition: its coordinate lies between the
    /// box's smallest and largest.
    #[inline]
    fn may_hold(&self, cell: &Cell, kind: Coordinates) -> bool {
        let (low, high) = cell.side(kind, self.coordinate / 2);
        match self.op {
            b'A' => {
                self.compare(low).is_some_and(std::cmp::Ordering::is_le)
                    && self.compare(high).is_some_and(std::cmp::Ordering::is_ge)
            }
            b'B' | b'C' => self.holds(low),
            _ => self.holds(high),
        }
    }
}

/// A cursor over a tree.
#[derive(Debug)]
pub(crate) struct BoxCursor {
    parts: Arc<Parts>,
    conditions: Vec<Condition>,
    /// Nodes still to be looked at, with their heights.
    nodes: Vec<(i64, usize)>,
    /// Nodes seen: no node has two parents.
    seen: HashSet<i64>,
    /// The cells found in a leaf, and the place of the next.
    found: Vec<Cell>,
    next: usize,
    row: Cell,
}

impl BoxCursor {
    pub(crate) fn new(parts: Arc<Parts>) -> BoxCursor {
        let row = Cell { id: 0, bits: [0; 10] };
        let (conditions, nodes) = (Vec::new(), Vec::new());
        BoxCursor {
            parts,
            conditions,
            nodes,
            seen: HashSet::new(),
            found: Vec::new(),
            next: 0,
            row,
        }
    }

    /// Reads the conditions; false where none can hold.
    fn read_conditions(&mut self, text: &str, arguments: &[Value]) -> bool {
        self.conditions.clear();
        for (pair, value) in text.as_bytes().chunks_exact(2).zip(arguments) {
            let bound = match value {
                Value::Null => return false,
                Value::Int(int) if int.unsigned_abs() > 1 << 53 => Bound::Large(*int),
                Value::Int(int) => Bound::Number(*int as f64),
                Value::Real(real) => Bound::Number(*real),
                Value::Text(_) | Value::Blob(_) => Bound::Above,
            };
            let coordinate = usize::from(pair[1].saturating_sub(b'0'));
            self.conditions.push(Condition { coordinate, op: pair[0], bound });
        }
        true
    }

    /// The row of an id, if there is one.
    fn find(&mut self, id: i64, reads: &TableReads<'_>) -> Result<(), Error> {
        let parts = &self.parts;
        let node = {
            let mut rowids = reads.rows(&parts.rowids)?;
            if !rowids.seek(id)? {
                return Ok(());
            }
            match rowids.column(1)? {
                ValueRef::Int(node) => node,
                _ => return Err(parts.shape.corrupt(format!("row {id} is in no node"))),
            }
        };
        let mut nodes = reads.rows(&parts.nodes)?;
        let missing = || parts.shape.corrupt(format!("node {node} of row {id} lacks it"));
        if !nodes.seek(node)? {
            return Err(missing());
        }
        let ValueRef::Blob(bytes) = nodes.column(1)? else { return Err(missing()) };
        let node = NodeBytes::new(bytes, &parts.shape).ok_or_else(missing)?;
        self.found.push(node.cells().find(|cell| cell.id == id).ok_or_else(missing)?);
        Ok(())
    }

    /// Looks at nodes until one of them, a leaf, has a cell that meets the conditions.
    fn walk(&mut self, reads: &TableReads<'_>) -> Result<(), Error> {
        let shape = &self.parts.shape;
        let mut rows = reads.rows(&self.parts.nodes)?;
        while let Some((number, height)) = self.nodes.pop() {
            reads.check()?;
            if !self.seen.insert(number) {
                return Err(shape.corrupt(format!("node {number} has two parents")));
            }
            let bytes = match rows.seek(number)? {
                true => rows.column(1)?,
                false => ValueRef::Null,
            };
            let ValueRef::Blob(bytes) = bytes else {
                return Err(shape.corrupt(format!("node {number} is missing")));
            };
            let Some(node) = NodeBytes::new(bytes, shape) else {
                return Err(shape.corrupt(format!("node {number} is too short for its cells")));
            };
            if height == 0 {
                let holds = |cell: &Cell| {
                    self.conditions.iter().all(|condition| {
                        condition.holds(shape.kind.value(cell.bits[condition.coordinate]))
                    })
                };
                self.found.extend(node.cells().filter(holds));
                if !self.found.is_empty() {
                    return Ok(());
                }
            } else {
                let may_hold = |cell: &Cell| {
                    self.conditions.iter().all(|condition| condition.may_hold(cell, shape.kind))
                };
                let start = self.nodes.len();
                let below = node.cells().filter(may_hold).map(|cell| (cell.id, height - 1));
                self.nodes.extend(below);
                self.nodes[start..].reverse();
            }
        }
        Ok(())
    }
}

impl VirtualCursor for BoxCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        self.nodes.clear();
        self.seen.clear();
        self.found.clear();
        self.next = 0;
        if choice.number == BY_ID {
            self.conditions.clear();
            let id = match arguments.first() {
                Some(Value::Int(id)) => *id,
                Some(Value::Real(real)) if *real == (*real as i64) as f64 => *real as i64,
                _ => return Ok(()),
            };
            return self.find(id, reads);
        }
        if !self.read_conditions(&choice.text, arguments) {
            return Ok(());
        }
        let mut root = Vec::new();
        self.parts.read_node(1, reads, &mut root)?;
        let shape = &self.parts.shape;
        let depth = match NodeBytes::new(&root, shape) {
            Some(node) if root.len() >= NODE_BYTES_MIN => node.depth(),
            _ => return Err(shape.corrupt("the root node is too short")),
        };
        if depth > DEPTH_MAX {
            return Err(shape.corrupt(format!("its depth is {depth}")));
        }
        self.nodes.push((1, depth));
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        if self.next == self.found.len() {
            self.found.clear();
            self.next = 0;
            self.walk(reads)?;
        }
        let Some(cell) = self.found.get(self.next) else { return Ok(false) };
        self.row = *cell;
        self.next += 1;
        Ok(true)
    }

    fn rowid(&self) -> i64 {
        self.row.id
    }

    fn column(
        &mut self,
        column: usize,
        reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        let shape = &self.parts.shape;
        *out = match column {
            0 => Value::Int(self.row.id),
            place if place <= shape.coordinates => {
                let bits = self.row.bits[place - 1];
                match shape.kind {
                    Coordinates::Real => Value::real(shape.kind.value(bits)),
                    Coordinates::Integer => Value::Int(i64::from(bits.cast_signed())),
                }
            }
            place => {
                let mut rowids = reads.rows(&self.parts.rowids)?;
                match rowids.seek(self.row.id)? {
                    true => Value::from(rowids.column(place - shape.coordinates + 1)?),
                    false => Value::Null,
                }
            }
        };
        Ok(())
    }
}

//! Nodes in memory, the changed ones among them, and their states at moments to go back to.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::node::Cell;

/// A node in memory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) cells: Vec<Cell>,
    pub(crate) parent: Option<i64>,
    is_changed: bool,
    /// The [`Nodes::epoch`] of the last state kept of the node.
    kept_for: u32,
}

impl Node {
    /// A node read from the file.
    pub(crate) fn read(cells: Vec<Cell>) -> Node {
        Node { cells, parent: None, is_changed: false, kept_for: 0 }
    }
}

/// The state of a node before a change.
#[derive(Debug)]
enum Kept {
    /// No node had the number.
    Nothing,
    /// The same node without its last cell.
    Shorter {
        is_changed: bool,
    },
    Whole(Node),
}

/// Nodes by number.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    known: FxHashMap<i64, Node>,
    /// Numbers of changed nodes, and of some removed since.
    changed: Vec<i64>,
    /// Lengths of `kept` at each moment.
    moments: Vec<usize>,
    /// States of nodes before changes behind a moment, oldest first.
    kept: Vec<(i64, Kept)>,
    /// Length of `kept` behind the last moment after repeated states were left out.
    compact: usize,
    /// How many moments there were.
    epoch: u32,
}

impl Nodes {
    /// Forgets all nodes and moments.
    pub(crate) fn clear(&mut self) {
        *self = Nodes { epoch: self.epoch, ..Nodes::default() };
    }

    pub(crate) fn has(&self, number: i64) -> bool {
        self.known.contains_key(&number)
    }

    /// A node to read, or whose parent is noted.
    pub(crate) fn get(&mut self, number: i64) -> Option<&mut Node> {
        self.known.get_mut(&number)
    }

    /// Adds a node read from the file.
    pub(crate) fn add_read(&mut self, number: i64, cells: Vec<Cell>) -> &mut Node {
        self.known.entry(number).insert_entry(Node::read(cells)).into_mut()
    }

    /// Adds a new node.
    pub(crate) fn add_new(&mut self, number: i64, cells: Vec<Cell>) {
        if !self.moments.is_empty() {
            self.kept.push((number, Kept::Nothing));
        }
        let node = Node { cells, parent: None, is_changed: true, kept_for: self.epoch };
        self.known.insert(number, node);
        self.changed.push(number);
    }

    /// A node about to change.
    pub(crate) fn change(&mut self, number: i64) -> Option<&mut Node> {
        let node = self.known.get_mut(&number)?;
        keep(&self.moments, &mut self.kept, self.epoch, number, node);
        if !node.is_changed {
            node.is_changed = true;
            self.changed.push(number);
        }
        Some(node)
    }

    /// Adds a cell to a node; false without the node.
    pub(crate) fn push(&mut self, number: i64, cell: Cell) -> bool {
        let Some(node) = self.known.get_mut(&number) else { return false };
        if !self.moments.is_empty() && node.kept_for != self.epoch {
            self.kept.push((number, Kept::Shorter { is_changed: node.is_changed }));
        }
        node.cells.push(cell);
        if !node.is_changed {
            node.is_changed = true;
            self.changed.push(number);
        }
        true
    }

    /// Takes a node out.
    pub(crate) fn remove(&mut self, number: i64) -> Option<Node> {
        let mut node = self.known.remove(&number)?;
        keep(&self.moments, &mut self.kept, self.epoch, number, &mut node);
        Some(node)
    }

    /// Writes the changed nodes, ascending.
    ///
    /// # Errors
    /// Those of `write`; nodes not written stay changed.
    pub(crate) fn flush<E>(
        &mut self,
        mut write: impl FnMut(i64, &[Cell]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.changed.sort_unstable();
        self.changed.dedup();
        for &number in &self.changed {
            let Some(node) = self.known.get_mut(&number).filter(|node| node.is_changed) else {
                continue;
            };
            write(number, &node.cells)?;
            // Going back to a moment takes the written node out of the file, too.
            keep(&self.moments, &mut self.kept, self.epoch, number, node);
            node.is_changed = false;
        }
        self.changed.clear();
        Ok(())
    }

    /// A moment to go back to.
    pub(crate) fn savepoint(&mut self) -> usize {
        self.moments.push(self.kept.len());
        self.epoch += 1;
        self.moments.len() - 1
    }

    /// Goes back to a moment and keeps the moment; false where the moment is unknown.
    pub(crate) fn rollback_to(&mut self, moment: usize) -> bool {
        let Some(&length) = self.moments.get(moment) else { return false };
        self.moments.truncate(moment + 1);
        for (number, before) in self.kept.drain(length..).rev() {
            match before {
                Kept::Whole(node) => drop(self.known.insert(number, node)),
                Kept::Nothing => drop(self.known.remove(&number)),
                Kept::Shorter { is_changed } => {
                    if let Some(node) = self.known.get_mut(&number) {
                        node.cells.pop();
                        node.is_changed = is_changed;
                    }
                }
            }
        }
        self.epoch += 1;
        // Numbers of undone changes are in the list, and notes of parents are not kept.
        self.changed.clear();
        for (number, node) in &mut self.known {
            node.parent = None;
            if node.is_changed {
                self.changed.push(*number);
            }
        }
        true
    }

    /// Forgets a moment and all later ones.
    pub(crate) fn release(&mut self, moment: usize) {
        self.moments.truncate(moment);
        let Some(&first) = self.moments.last() else {
            self.kept.clear();
            self.compact = 0;
            return;
        };
        if self.kept.len() - first > 2 * self.compact + COMPACT_MIN {
            self.leave_out_repeated(first);
            self.compact = self.kept.len() - first;
        }
    }

    /// Leaves out states behind the first whole one of their node: going back to the last moment
    /// restores the first.
    fn leave_out_repeated(&mut self, first: usize) {
        let mut whole = FxHashSet::default();
        let behind = self.kept.split_off(first);
        self.kept.extend(behind.into_iter().filter(|(number, before)| {
            let is_first = !whole.contains(number);
            if !matches!(before, Kept::Shorter { .. }) {
                whole.insert(*number);
            }
            is_first
        }));
    }
}

/// Fewest states kept behind a moment before repeated ones are looked for.
const COMPACT_MIN: usize = 256;

/// Keeps a node's state for the newest moment, once.
fn keep(moments: &[usize], kept: &mut Vec<(i64, Kept)>, epoch: u32, number: i64, node: &mut Node) {
    if !moments.is_empty() && node.kept_for != epoch {
        kept.push((number, Kept::Whole(node.clone())));
        node.kept_for = epoch;
    }
}

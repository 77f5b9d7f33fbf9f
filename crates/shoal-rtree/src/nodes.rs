//! Nodes in memory, the changed ones among them, and the way back to moments.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::node::Cell;

/// A node in memory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) cells: Vec<Cell>,
    pub(crate) parent: Option<i64>,
    is_changed: bool,
    /// The moment since which the node's state is kept, by [`Nodes::epoch`].
    kept_for: u32,
}

impl Node {
    /// A node as the file has it.
    pub(crate) fn read(cells: Vec<Cell>) -> Node {
        Node { cells, parent: None, is_changed: false, kept_for: 0 }
    }
}

/// A node before a change.
#[derive(Debug)]
enum Kept {
    /// It was not there.
    Nothing,
    /// It had one cell less, and was changed or not.
    Shorter {
        is_changed: bool,
    },
    Whole(Node),
}

/// Nodes by number.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    known: FxHashMap<i64, Node>,
    /// Numbers of changed nodes; of some that are no more, too.
    changed: Vec<i64>,
    /// Lengths of `kept` at each moment.
    moments: Vec<usize>,
    /// Nodes before they changed behind a moment.
    kept: Vec<(i64, Kept)>,
    /// Number of those behind the last moment once those said twice were left out.
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

    /// A node to be looked at, or to have another parent noted.
    pub(crate) fn get(&mut self, number: i64) -> Option<&mut Node> {
        self.known.get_mut(&number)
    }

    /// Adds a node that the file has.
    pub(crate) fn add_read(&mut self, number: i64, cells: Vec<Cell>) -> &mut Node {
        self.known.entry(number).insert_entry(Node::read(cells)).into_mut()
    }

    /// Adds a node that the file lacks.
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

    /// Gives the changed nodes, ascending: the file has them afterwards.
    ///
    /// # Errors
    /// Those of `write`; all nodes count as changed then.
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
            // The file goes back to a moment's state, and lacks the change then.
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

    /// Goes back to a moment, which stays; false where the moment is not known.
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
        // The list has numbers of what was undone; parents were noted without being kept.
        self.changed.clear();
        for (number, node) in &mut self.known {
            node.parent = None;
            if node.is_changed {
                self.changed.push(*number);
            }
        }
        true
    }

    /// Forgets a moment, and those after it.
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

    /// Leaves out states that going back to the last moment would replace: those behind a node's
    /// first whole one.
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

/// Keeps a node's state for the newest moment, unless it is kept already.
fn keep(moments: &[usize], kept: &mut Vec<(i64, Kept)>, epoch: u32, number: i64, node: &mut Node) {
    if !moments.is_empty() && node.kept_for != epoch {
        kept.push((number, Kept::Whole(node.clone())));
        node.kept_for = epoch;
    }
}

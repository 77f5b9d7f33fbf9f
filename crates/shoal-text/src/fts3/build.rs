//! Makes a segment of terms in ascending order.

use super::varint;

/// The nodes of a segment.
pub(super) struct Built {
    /// Nodes for `%_segments` in the order of their numbers, leaves first; none where the root is
    /// the only leaf.
    pub(super) blocks: Vec<Vec<u8>>,
    /// How many of the blocks are leaves.
    pub(super) leaves: usize,
    pub(super) root: Vec<u8>,
}

/// A segment in the making.
pub(super) struct Builder {
    node_size: usize,
    leaves: Vec<Vec<u8>>,
    leaf: Vec<u8>,
    /// The term before.
    term: Vec<u8>,
    /// For each leaf but the first the shortest prefix of its first term behind the leaf before.
    between: Vec<Vec<u8>>,
}

fn varint_len(value: usize) -> usize {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, value as u64);
    bytes.len()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn shared(before: &[u8], term: &[u8]) -> usize {
    before.iter().zip(term).take_while(|(a, b)| a == b).count()
}

impl Builder {
    pub(super) fn new(node_size: usize) -> Builder {
        let (leaves, leaf, term, between) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Builder { node_size, leaves, leaf, term, between }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leaf.is_empty()
    }

    /// Adds a term behind those added before.
    pub(super) fn push(&mut self, term: &[u8], doclist: &[u8]) {
        let mut common = shared(&self.term, term);
        let suffix = term.len() - common;
        let needed = varint_len(common)
            + varint_len(suffix)
            + suffix
            + varint_len(doclist.len())
            + doclist.len();
        if !self.leaf.is_empty() && self.leaf.len() + needed > self.node_size {
            self.leaves.push(std::mem::take(&mut self.leaf));
            self.between.push(term[..common + 1].to_vec());
        }
        // The first number of a leaf is its height, 0 as the shared bytes of its first term.
        if self.leaf.is_empty() {
            common = 0;
        }
        varint::put(&mut self.leaf, common as u64);
        put_bytes(&mut self.leaf, &term[common..]);
        put_bytes(&mut self.leaf, doclist);
        self.term.clear();
        self.term.extend_from_slice(term);
    }

    /// Ends the segment; its first leaf gets the number `first` in `%_segments`.
    pub(super) fn finish(mut self, first: i64) -> Built {
        if self.leaves.is_empty() {
            return Built { blocks: Vec::new(), leaves: 0, root: self.leaf };
        }
        self.leaves.push(std::mem::take(&mut self.leaf));
        let leaves = self.leaves.len();
        let mut blocks = self.leaves;
        let (mut child, mut between, mut height) = (first, self.between, 1_u64);
        loop {
            let above = first + blocks.len() as i64;
            let (mut nodes, promoted) = level(self.node_size, height, child, &between);
            if nodes.len() == 1 {
                let root = nodes.pop().unwrap_or_default();
                return Built { blocks, leaves, root };
            }
            blocks.append(&mut nodes);
            (child, between, height) = (above, promoted, height + 1);
        }
    }
}

/// The nodes above children from `child` on, and the terms between the nodes.
fn level(
    node_size: usize,
    height: u64,
    child: i64,
    between: &[Vec<u8>],
) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let begin = |child: i64| {
        let mut node = Vec::new();
        varint::put(&mut node, height);
        varint::put(&mut node, child as u64);
        node
    };
    let (mut nodes, mut promoted) = (Vec::new(), Vec::new());
    let (mut node, mut before): (Vec<u8>, Option<&[u8]>) = (begin(child), None);
    for (term, next) in between.iter().zip(child + 1..) {
        let common = before.map_or(0, |before| shared(before, term));
        let mut entry = Vec::new();
        if before.is_some() {
            varint::put(&mut entry, common as u64);
        }
        put_bytes(&mut entry, &term[common..]);
        if before.is_some() && node.len() + entry.len() > node_size {
            nodes.push(std::mem::replace(&mut node, begin(next)));
            promoted.push(term.clone());
            before = None;
        } else {
            node.append(&mut entry);
            before = Some(term);
        }
    }
    nodes.push(node);
    (nodes, promoted)
}

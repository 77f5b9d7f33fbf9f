//! The graph in memory: nodes read so far, their codes and links.
//!
//! Links go both ways. Some of them make a tree: each node but the root has a parent among its
//! links, and links to parents are never given up. So every node is reached from the root.

use rustc_hash::FxHashMap;
use shoal_sql::{Error, ShadowRows, ValueRef};

use super::code::{Coded, Mark};
use super::definition::Index;

/// The bytes of a node before its links: numbers of links and children, four bytes left zero,
/// scale, parent, digest.
const HEAD: usize = 32;

/// The state of a node in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Named by a link, not yet read.
    Unread,
    /// As the file has the node.
    Clean,
    /// Newer than the file.
    Dirty,
    /// Deleted.
    Gone,
}

/// A node at some distance, nearer ones first, equally far ones by rowid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Near {
    pub(crate) distance: f32,
    pub(crate) rowid: i64,
    pub(crate) node: u32,
}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> std::cmp::Ordering {
        self.distance.total_cmp(&other.distance).then(self.rowid.cmp(&other.rowid))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Near) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Near {}

/// Nodes read so far, by numbers good for this graph alone.
#[derive(Debug)]
pub(crate) struct Graph {
    rowids: Vec<i64>,
    numbers: FxHashMap<i64, u32>,
    codes: Vec<u8>,
    marks: Vec<Mark>,
    scales: Vec<f32>,
    digests: Vec<u64>,
    states: Vec<State>,
    /// The parent of each node, the node itself for the root.
    pub(super) parents: Vec<u32>,
    /// The number of nodes whose parent each node is.
    pub(super) children: Vec<u16>,
    pub(super) links: Vec<Vec<u32>>,
    /// Nodes to be written, some of them perhaps twice.
    dirty: Vec<u32>,
    pub(crate) root: Option<u32>,
}

/// Nodes to walk over, read where they are not yet.
pub(crate) trait Nodes {
    /// The nodes read so far.
    fn graph(&self) -> &Graph;

    /// Reads a node unless the node is there.
    ///
    /// # Errors
    /// No such node, a damaged one; errors of the file.
    fn need(&mut self, index: &Index, node: u32) -> Result<(), Error>;
}

/// A graph with all of its nodes.
impl Nodes for &Graph {
    fn graph(&self) -> &Graph {
        self
    }

    #[inline]
    fn need(&mut self, _index: &Index, _node: u32) -> Result<(), Error> {
        Ok(())
    }
}

/// A graph whose nodes come from the file one by one.
pub(crate) struct Paged<'p> {
    pub(crate) graph: &'p mut Graph,
    /// `None` for a graph with all of its nodes.
    pub(crate) rows: Option<ShadowRows<'p>>,
}

impl Nodes for Paged<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }

    fn need(&mut self, index: &Index, node: u32) -> Result<(), Error> {
        let place = node as usize;
        if self.graph.states[place] != State::Unread {
            return Ok(());
        }
        let rowid = self.graph.rowids[place];
        let missing = || index.corrupt(format!("node {rowid} is missing"));
        let rows = self.rows.as_mut().ok_or_else(missing)?;
        if !rows.seek(rowid)? {
            return Err(missing());
        }
        let ValueRef::Blob(bytes) = rows.column(1)? else {
            return Err(index.corrupt(format!("node {rowid} is no blob")));
        };
        self.graph.read(index, node, bytes)
    }
}

impl Graph {
    pub(crate) fn new() -> Graph {
        Graph {
            rowids: Vec::new(),
            numbers: FxHashMap::default(),
            codes: Vec::new(),
            marks: Vec::new(),
            scales: Vec::new(),
            digests: Vec::new(),
            states: Vec::new(),
            parents: Vec::new(),
            children: Vec::new(),
            links: Vec::new(),
            dirty: Vec::new(),
            root: None,
        }
    }

    /// How many nodes have a number.
    pub(crate) fn len(&self) -> usize {
        self.rowids.len()
    }

    /// The bytes in memory for each node, about.
    pub(crate) fn node_bytes(index: &Index) -> u64 {
        (index.coder.width + index.definition.degree_max() * 4 + 96) as u64
    }

    pub(crate) fn rowid(&self, node: u32) -> i64 {
        self.rowids[node as usize]
    }

    pub(crate) fn digest(&self, node: u32) -> u64 {
        self.digests[node as usize]
    }

    /// The sum of the digests of all nodes, and their number.
    pub(super) fn stamp(&self) -> (u64, u64) {
        let digests = self.digests.iter().copied();
        (digests.fold(0, u64::wrapping_add), self.len() as u64)
    }

    fn code(&self, index: &Index, node: u32) -> (&[u8], Mark) {
        let (place, width) = (node as usize, index.coder.width);
        (&self.codes[place * width..(place + 1) * width], self.marks[place])
    }

    /// The code of a node, to search with.
    pub(crate) fn coded(&self, index: &Index, node: u32) -> Coded {
        let (code, mark) = self.code(index, node);
        Coded { code: code.to_vec(), scale: self.scales[node as usize], mark }
    }

    /// How far a node is from a vector.
    #[inline]
    pub(crate) fn distance(&self, index: &Index, query: &Coded, node: u32) -> f32 {
        index.coder.distance((&query.code, query.mark), self.code(index, node))
    }

    /// How far two nodes are from each other.
    #[inline]
    pub(crate) fn between(&self, index: &Index, a: u32, b: u32) -> f32 {
        index.coder.distance(self.code(index, a), self.code(index, b))
    }

    pub(crate) fn near(&self, distance: f32, node: u32) -> Near {
        Near { distance, rowid: self.rowid(node), node }
    }

    /// The number of a node known so far.
    pub(crate) fn known(&self, rowid: i64) -> Option<u32> {
        let node = *self.numbers.get(&rowid)?;
        (self.states[node as usize] != State::Gone).then_some(node)
    }

    /// True for a node deleted since the file was read.
    pub(crate) fn is_gone(&self, rowid: i64) -> bool {
        let node = self.numbers.get(&rowid);
        node.is_some_and(|node| self.states[*node as usize] == State::Gone)
    }

    /// The number of a node of the file, read later.
    pub(crate) fn number(&mut self, index: &Index, rowid: i64) -> u32 {
        match self.numbers.get(&rowid) {
            Some(known) => *known,
            None => self.push(index, rowid, State::Unread),
        }
    }

    fn push(&mut self, index: &Index, rowid: i64, state: State) -> u32 {
        let node = u32::try_from(self.rowids.len()).expect("fewer than 2^32 nodes are in memory");
        self.rowids.push(rowid);
        self.numbers.insert(rowid, node);
        self.codes.resize(self.codes.len() + index.coder.width, 0);
        self.marks.push(Mark::default());
        self.scales.push(0.0);
        self.digests.push(0);
        self.states.push(state);
        self.parents.push(node);
        self.children.push(0);
        self.links.push(Vec::new());
        node
    }

    /// A new node without links.
    pub(crate) fn add(&mut self, index: &Index, rowid: i64, coded: &Coded, digest: u64) -> u32 {
        let node = self.push(index, rowid, State::Clean);
        let place = node as usize;
        let width = index.coder.width;
        self.codes[place * width..(place + 1) * width].copy_from_slice(&coded.code);
        (self.marks[place], self.scales[place]) = (coded.mark, coded.scale);
        self.digests[place] = digest;
        self.touch(node);
        node
    }

    /// Marks a node for writing.
    pub(super) fn touch(&mut self, node: u32) {
        let state = &mut self.states[node as usize];
        if *state == State::Clean {
            *state = State::Dirty;
            self.dirty.push(node);
        }
    }

    /// Marks a node as deleted.
    pub(super) fn bury(&mut self, node: u32) {
        if self.states[node as usize] != State::Dirty {
            self.dirty.push(node);
        }
        self.states[node as usize] = State::Gone;
        self.links[node as usize] = Vec::new();
    }

    /// How many nodes wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.dirty.len()
    }

    /// Gives the nodes to be written, `None` for the bytes of a deleted one; they count as written.
    pub(crate) fn written(
        &mut self,
        index: &Index,
        mut write: impl FnMut(i64, Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let dirty = std::mem::take(&mut self.dirty);
        for node in &dirty {
            let place = *node as usize;
            let rowid = self.rowids[place];
            if self.states[place] != State::Gone {
                self.encode(index, *node, &mut bytes);
                write(rowid, Some(&bytes))?;
                self.states[place] = State::Clean;
            // A row of the same rowid may have come since.
            } else if self.numbers.get(&rowid) == Some(node) {
                write(rowid, None)?;
            }
        }
        Ok(())
    }

    /// The bytes of every node of an index.
    pub(crate) fn record_bytes(index: &Index) -> usize {
        HEAD + index.definition.degree_max() * 8 + index.coder.width
    }

    fn encode(&self, index: &Index, node: u32, out: &mut Vec<u8>) {
        let place = node as usize;
        let links = &self.links[place];
        let most = index.definition.degree_max();
        assert!(links.len() <= most, "a node to be written has no more links than a node may have");
        out.clear();
        out.extend_from_slice(&(links.len() as u16).to_le_bytes());
        out.extend_from_slice(&self.children[place].to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.scales[place].to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.rowid(self.parents[place]).to_le_bytes());
        out.extend_from_slice(&self.digests[place].to_le_bytes());
        for link in links {
            out.extend_from_slice(&self.rowid(*link).to_le_bytes());
        }
        out.resize(HEAD + most * 8, 0);
        out.extend_from_slice(self.code(index, node).0);
    }

    /// Reads the bytes of a node.
    ///
    /// # Errors
    /// Another length; more links than a node may have; a link to itself, or two to one node; a
    /// parent out of reach.
    pub(crate) fn read(&mut self, index: &Index, node: u32, bytes: &[u8]) -> Result<(), Error> {
        let (place, most) = (node as usize, index.definition.degree_max());
        let rowid = self.rowids[place];
        let wrong = |what: &str| Err(index.corrupt(format!("node {rowid} has {what}")));
        if bytes.len() != Graph::record_bytes(index) {
            return wrong("another length than its index's nodes");
        }
        let (head, rest) = bytes.split_at(HEAD);
        let (links, code) = rest.split_at(most * 8);
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long = |at: usize| head[at..].first_chunk().copied().unwrap_or_default();
        let (count, children) = (usize::from(short(0)), short(2));
        if count > most || usize::from(children) > count {
            return wrong("more links than a node may have");
        }
        let scale = head[8..].first_chunk().copied().unwrap_or_default();
        let parent = i64::from_le_bytes(long(16));
        let mut read = Vec::with_capacity(count);
        for link in &links.as_chunks::<8>().0[..count] {
            let link = i64::from_le_bytes(*link);
            let linked = self.number(index, link);
            if linked == node || read.contains(&linked) {
                return wrong("a link twice, or to itself");
            }
            if self.states[linked as usize] == State::Gone {
                return wrong("a link to a node deleted before");
            }
            read.push(linked);
        }
        let parent = self.number(index, parent);
        if parent != node && !read.contains(&parent) {
            return wrong("a parent it has no link to");
        }
        let width = index.coder.width;
        self.codes[place * width..(place + 1) * width].copy_from_slice(code);
        self.scales[place] = f32::from_le_bytes(scale);
        self.marks[place] = index.coder.mark(code, self.scales[place]);
        self.digests[place] = u64::from_le_bytes(long(24));
        self.parents[place] = parent;
        self.children[place] = children;
        self.links[place] = read;
        self.states[place] = State::Clean;
        Ok(())
    }

    /// The digest in the bytes of a node.
    ///
    /// # Errors
    /// As [`Graph::read`], of the length alone.
    pub(crate) fn digest_of(index: &Index, rowid: i64, value: ValueRef<'_>) -> Result<u64, Error> {
        match value {
            ValueRef::Blob(bytes) if bytes.len() == Graph::record_bytes(index) => {
                let digest = bytes[HEAD - 8..].first_chunk().copied().unwrap_or_default();
                Ok(u64::from_le_bytes(digest))
            }
            _ => {
                let why = format!("node {rowid} has another length than its index's nodes");
                Err(index.corrupt(why))
            }
        }
    }

    /// Reads all nodes of the file.
    ///
    /// # Errors
    /// Damaged nodes, links to missing ones; errors of the file; interrupts.
    pub(crate) fn read_all(
        index: &Index,
        mut rows: ShadowRows<'_>,
        mut check: impl FnMut() -> Result<(), Error>,
    ) -> Result<Graph, Error> {
        let mut graph = Graph::new();
        let (mut found, mut steps) = (rows.first()?, 0_u32);
        while found {
            steps += 1;
            if steps.is_multiple_of(1024) {
                check()?;
            }
            let rowid = rows.rowid()?;
            let node = graph.number(index, rowid);
            match rows.column(1)? {
                ValueRef::Blob(bytes) => graph.read(index, node, bytes)?,
                _ => return Err(index.corrupt(format!("node {rowid} is no blob"))),
            }
            found = rows.next()?;
        }
        match graph.states.iter().position(|state| *state == State::Unread) {
            Some(place) => {
                Err(index.corrupt(format!("node {} has links, but no row", graph.rowids[place])))
            }
            None => Ok(graph),
        }
    }
}

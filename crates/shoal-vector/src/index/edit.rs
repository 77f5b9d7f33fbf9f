//! Nodes linked and taken out: links in both directions, and the tree among them.

use shoal_sql::Error;

use super::code::Coded;
use super::definition::Index;
use super::graph::{Graph, Near, Nodes, Paged};
use super::walk::{Bounds, Scratch, walk};

/// A node is linked to unless one linked already is nearer to the node by this factor. Distances
/// are squares, but for counts of bits and sums of differences.
const SLACK: f32 = 1.3;

/// How many of a deleted node's neighbours each other one is compared with.
const REPAIRS: usize = 8;

/// Takes from candidates, the nearest first, each unless a taken one stands before; at most `most`.
pub(super) fn select(
    index: &Index,
    graph: &Graph,
    candidates: &[Near],
    mut taken: Vec<u32>,
    most: usize,
) -> Vec<u32> {
    for near in candidates {
        if taken.len() >= most {
            break;
        }
        let stands_before =
            |other: &u32| SLACK * graph.between(index, *other, near.node) <= near.distance;
        if !taken.contains(&near.node) && !taken.iter().any(stands_before) {
            taken.push(near.node);
        }
    }
    taken
}

/// The links kept by a node with too many: links of the tree, and the best of the others. All nodes
/// linked to must have been read.
pub(super) fn kept_links(index: &Index, graph: &Graph, node: u32) -> Vec<u32> {
    let links = &graph.links[node as usize];
    let (parents, parent) = (&graph.parents, graph.parents[node as usize]);
    let is_of_tree = |link: &u32| *link == parent || parents[*link as usize] == node;
    let taken = links.iter().copied().filter(is_of_tree).collect();
    let mut others: Vec<Near> = links
        .iter()
        .filter(|link| !is_of_tree(link))
        .map(|link| graph.near(graph.between(index, node, *link), *link))
        .collect();
    others.sort_unstable();
    select(index, graph, &others, taken, index.definition.degree_max() * 3 / 4)
}

impl Graph {
    /// Removes the links between two nodes.
    pub(super) fn part(&mut self, a: u32, b: u32) {
        for (from, to) in [(a, b), (b, a)] {
            self.links[from as usize].retain(|link| *link != to);
            self.touch(from);
        }
    }

    /// Links two nodes in both directions, however many links they have.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        if a == b || self.links[a as usize].contains(&b) {
            return;
        }
        for (from, to) in [(a, b), (b, a)] {
            self.links[from as usize].push(to);
            self.touch(from);
        }
    }

    /// Makes a node the child of another one.
    pub(super) fn adopt(&mut self, parent: u32, child: u32) {
        self.join(parent, child);
        self.parents[child as usize] = parent;
        self.children[parent as usize] += 1;
        self.touch(parent);
        self.touch(child);
    }
}

/// A graph to be changed.
pub(crate) struct Editor<'e> {
    pub(crate) index: &'e Index,
    pub(crate) nodes: Paged<'e>,
    pub(crate) scratch: &'e mut Scratch,
}

impl Editor<'_> {
    fn graph(&mut self) -> &mut Graph {
        self.nodes.graph
    }

    fn need(&mut self, node: u32) -> Result<(), Error> {
        self.nodes.need(self.index, node)
    }

    fn need_links(&mut self, node: u32) -> Result<Vec<u32>, Error> {
        self.need(node)?;
        let links = self.nodes.graph.links[node as usize].clone();
        links.iter().try_for_each(|link| self.need(*link))?;
        Ok(links)
    }

    /// True where a node can have one more child.
    fn has_room(&self, node: u32) -> bool {
        let most = self.index.definition.degree_max() / 2;
        usize::from(self.nodes.graph.children[node as usize]) < most
    }

    /// A node with room for a child, at `top` or below. Below `top` there must be no part of the
    /// child's own tree.
    fn place_below(&mut self, top: u32, child: u32) -> Result<u32, Error> {
        let (mut at, mut steps) = (top, 0);
        self.need(at)?;
        while !self.has_room(at) {
            let links = self.need_links(at)?;
            let graph = &*self.nodes.graph;
            let below = links.iter().filter(|link| graph.parents[**link as usize] == at);
            let below =
                below.map(|node| graph.near(graph.between(self.index, *node, child), *node));
            steps += 1;
            match below.min() {
                Some(next) if steps <= graph.len() => at = next.node,
                _ => {
                    let rowid = graph.rowid(at);
                    let why = format!("node {rowid} has other children than it counts");
                    return Err(self.index.corrupt(why));
                }
            }
        }
        Ok(at)
    }

    /// Makes `child` a child of the nearest candidate with room, or of a node below the first one.
    pub(super) fn settle(&mut self, child: u32, candidates: &[Near]) -> Result<(), Error> {
        let with_room = candidates.iter().find(|near| self.has_room(near.node));
        let parent = match (with_room, candidates.first()) {
            (Some(near), _) => near.node,
            (None, Some(near)) => self.place_below(near.node, child)?,
            (None, None) => return Ok(()),
        };
        self.graph().adopt(parent, child);
        Ok(())
    }

    /// Takes links of a node with too many.
    fn shrink(&mut self, node: u32) -> Result<(), Error> {
        if self.nodes.graph.links[node as usize].len() <= self.index.definition.degree_max() {
            return Ok(());
        }
        let links = self.need_links(node)?;
        let kept = kept_links(self.index, self.nodes.graph, node);
        if kept.len() > self.index.definition.degree_max() {
            let rowid = self.nodes.graph.rowid(node);
            let why = format!("node {rowid} has more children than a node may have");
            return Err(self.index.corrupt(why));
        }
        for link in links {
            if !kept.contains(&link) {
                self.graph().part(node, link);
            }
        }
        Ok(())
    }

    /// The digest of a node's row.
    ///
    /// # Errors
    /// Errors of reading the node.
    pub(crate) fn digest(&mut self, node: u32) -> Result<u64, Error> {
        self.need(node)?;
        Ok(self.nodes.graph.digest(node))
    }

    /// Adds a node, linked to nodes near.
    ///
    /// # Errors
    /// Errors of reading nodes.
    pub(crate) fn insert(&mut self, rowid: i64, coded: &Coded, digest: u64) -> Result<(), Error> {
        let ef = self.index.definition.ef_construction.max(self.index.definition.m);
        let bounds = Bounds { ef, visits: usize::MAX };
        let found =
            walk(self.index, &mut self.nodes, coded, bounds, self.scratch, |_, _| Ok(true))?;
        let found = found.unwrap_or_default();
        let index = self.index;
        let node = self.graph().add(index, rowid, coded, digest);
        if found.is_empty() {
            self.graph().root = Some(node);
            return Ok(());
        }
        let chosen = select(index, self.nodes.graph, &found, Vec::new(), index.definition.m);
        self.settle(node, &found)?;
        let parent = self.nodes.graph.parents[node as usize];
        for other in &chosen {
            self.graph().join(node, *other);
        }
        self.shrink(parent)?;
        chosen.into_iter().try_for_each(|other| self.shrink(other))
    }

    /// Takes a node out: its children go below its parent, its neighbours are linked among
    /// themselves. Gives the digest of its row.
    ///
    /// # Errors
    /// Errors of reading nodes; links in one direction only.
    pub(crate) fn remove(&mut self, node: u32) -> Result<u64, Error> {
        let neighbours = self.need_links(node)?;
        let rowid = self.nodes.graph.rowid(node);
        for other in &neighbours {
            if !self.nodes.graph.links[*other as usize].contains(&node) {
                let other = self.nodes.graph.rowid(*other);
                let why = format!("node {rowid} has a link to {other}, and none from there");
                return Err(self.index.corrupt(why));
            }
        }
        let parent = self.nodes.graph.parents[node as usize];
        let children: Vec<u32> = neighbours
            .iter()
            .copied()
            .filter(|other| self.nodes.graph.parents[*other as usize] == node && *other != parent)
            .collect();
        for other in &neighbours {
            self.graph().part(node, *other);
        }
        let is_root = self.nodes.graph.root == Some(node);
        if is_root != (parent == node) {
            return Err(self.index.corrupt(format!("node {rowid} is no root, and has no parent")));
        }
        let mut top = (!is_root).then_some(parent);
        if let Some(parent) = top {
            let count = &mut self.graph().children[parent as usize];
            *count = count.saturating_sub(1);
            self.graph().touch(parent);
        } else {
            self.graph().root = None;
        }
        for child in children {
            let Some(above) = top else {
                let graph = self.graph();
                (graph.root, graph.parents[child as usize], top) =
                    (Some(child), child, Some(child));
                graph.touch(child);
                continue;
            };
            let above = self.place_below(above, child)?;
            self.graph().adopt(above, child);
            self.shrink(above)?;
        }
        self.mend(&neighbours)?;
        let digest = self.nodes.graph.digest(node);
        self.graph().bury(node);
        Ok(digest)
    }

    /// Links nodes among themselves, as far as they have room and no link stands before.
    fn mend(&mut self, neighbours: &[u32]) -> Result<(), Error> {
        let index = self.index;
        let most = index.definition.degree_max() * 3 / 4;
        for node in neighbours {
            if self.nodes.graph.links[*node as usize].len() >= most {
                continue;
            }
            let taken = self.need_links(*node)?;
            let graph = &*self.nodes.graph;
            let others = neighbours
                .iter()
                .filter(|other| *other != node && graph.links[**other as usize].len() < most);
            let mut others: Vec<Near> = others
                .map(|other| graph.near(graph.between(index, *node, *other), *other))
                .collect();
            others.sort_unstable();
            others.truncate(REPAIRS);
            let known = taken.len();
            let chosen = select(index, graph, &others, taken, most);
            for other in &chosen[known..] {
                self.graph().join(*node, *other);
            }
        }
        Ok(())
    }
}

//! The check of an index: its nodes, their links, the tree, and the rows they are of.

use shoal_sql::{Error, TableReads};

use super::graph::Graph;
use super::search::stamp;
use super::writer::Meta;
use crate::shadow::Parts;

/// The most faults told.
const FAULTS_MAX: usize = 100;

/// Looks for faults, a sentence for each.
///
/// # Errors
/// Errors of the file; interrupts.
pub(crate) fn faults(
    parts: &Parts,
    place: usize,
    reads: &TableReads<'_>,
) -> Result<Vec<String>, Error> {
    let index = &parts.indexes[place];
    let told = |why: String| format!("vec_index {}: {why}", index.definition.name);
    let read = || {
        let meta = Meta::read(index, reads)?;
        let rows = reads.rows(&index.nodes)?;
        Ok((meta, Graph::read_all(index, rows, || reads.check())?))
    };
    let (meta, graph) = match read() {
        Err(Error::CorruptVirtual { why, .. }) => return Ok(vec![told(why)]),
        read => read?,
    };
    let old = || {
        let name = &index.definition.name;
        let table = &index.definition.table;
        told(format!(
            "older than the rows of {table}, and not asked: INSERT INTO {name}({name}) VALUES \
             ('refresh')"
        ))
    };
    let Some(meta) = meta else { return Ok(vec![old()]) };
    let mut faults = graph.faults(meta.root);
    if graph.stamp() != meta.stamp() {
        let found = graph.len();
        faults.push(format!("{found} nodes are there, not the {} counted", meta.nodes));
    }
    let mut faults: Vec<String> = faults.into_iter().take(FAULTS_MAX).map(told).collect();
    // A damaged table is told by its own check.
    match stamp((parts, index), None, reads) {
        Ok(found) if found == meta.stamp() => {}
        Ok(_) => faults.push(old()),
        Err(Error::CorruptVirtual { .. }) => {}
        Err(error) => return Err(error),
    }
    Ok(faults)
}

impl Graph {
    /// Faults of links and of the tree, of a graph with all of its nodes.
    fn faults(&self, root: Option<i64>) -> Vec<String> {
        let mut faults = Vec::new();
        let all = 0..self.len() as u32;
        for node in all.clone() {
            let (place, rowid) = (node as usize, self.rowid(node));
            for link in &self.links[place] {
                if !self.links[*link as usize].contains(&node) {
                    let other = self.rowid(*link);
                    faults.push(format!("node {rowid} has a link to {other}, and none from there"));
                }
            }
            let is_child = |link: &&u32| {
                self.parents[**link as usize] == node && **link != self.parents[place]
            };
            let children = self.links[place].iter().filter(is_child).count();
            let counted = usize::from(self.children[place]);
            if children != counted {
                faults.push(format!("node {rowid} has {children} children, and counts {counted}"));
            }
            if self.parents[place] == node && Some(rowid) != root {
                faults.push(format!("node {rowid} is no root, and has no parent"));
            }
        }
        let Some(root) = root else { return faults };
        let Some(root) = self.known(root) else {
            faults.push(format!("the root {root} is no node"));
            return faults;
        };
        // Down the tree alone: reached this way, a node is reached by links, too.
        let mut reached = vec![false; self.len()];
        let mut waiting = vec![root];
        reached[root as usize] = true;
        while let Some(node) = waiting.pop() {
            for link in &self.links[node as usize] {
                if self.parents[*link as usize] == node && !reached[*link as usize] {
                    reached[*link as usize] = true;
                    waiting.push(*link);
                }
            }
        }
        for node in all.filter(|node| !reached[*node as usize]) {
            faults.push(format!("node {} is not reached from the root", self.rowid(node)));
        }
        faults
    }
}

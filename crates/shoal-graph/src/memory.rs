//! A graph in memory: maps by id, with lists of relationships per node and nodes per label.
//!
//! A query that fails is undone from a copy made when it began to write.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::error::Result;
use crate::graph::{Edge, Graph, NodeData, RelationshipData, Side};
use crate::value::{Map, Value};

/// A graph in memory.
#[derive(Debug, Default)]
pub struct MemoryGraph {
    state: RefCell<State>,
    saved: RefCell<Option<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    nodes: BTreeMap<i64, Arc<NodeData>>,
    relationships: BTreeMap<i64, Arc<RelationshipData>>,
    outgoing: BTreeMap<i64, Vec<Edge>>,
    incoming: BTreeMap<i64, Vec<Edge>>,
    labels: BTreeMap<Arc<str>, BTreeSet<i64>>,
    last_node: i64,
    last_relationship: i64,
}

impl MemoryGraph {
    /// A graph without nodes.
    pub fn new() -> MemoryGraph {
        MemoryGraph::default()
    }
}

fn above(after: Option<i64>) -> (std::ops::Bound<i64>, std::ops::Bound<i64>) {
    use std::ops::Bound;
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

impl Graph for MemoryGraph {
    fn node(&self, id: i64) -> Result<Option<Arc<NodeData>>> {
        Ok(self.state.borrow().nodes.get(&id).cloned())
    }

    fn relationship(&self, id: i64) -> Result<Option<Arc<RelationshipData>>> {
        Ok(self.state.borrow().relationships.get(&id).cloned())
    }

    fn nodes(
        &self,
        label: Option<&str>,
        after: Option<i64>,
        count: usize,
        to: &mut Vec<i64>,
    ) -> Result<()> {
        let state = self.state.borrow();
        match label {
            None => to.extend(state.nodes.range(above(after)).map(|(&id, _)| id).take(count)),
            Some(label) => {
                if let Some(ids) = state.labels.get(label) {
                    to.extend(ids.range(above(after)).take(count));
                }
            }
        }
        Ok(())
    }

    fn nodes_with(&self, _: Option<&str>, _: &str, _: &Value, _: &mut Vec<i64>) -> Result<bool> {
        Ok(false)
    }

    fn has_index(&self, _: Option<&str>, _: &str) -> Result<bool> {
        Ok(false)
    }

    fn edges(&self, node: i64, side: Side, kinds: &[&str], to: &mut Vec<Edge>) -> Result<()> {
        let state = self.state.borrow();
        let lists = if side == Side::Outgoing { &state.outgoing } else { &state.incoming };
        let Some(edges) = lists.get(&node) else { return Ok(()) };
        to.extend(edges.iter().filter(|edge| {
            kinds.is_empty() || kinds.contains(&&*state.relationships[&edge.id].kind)
        }));
        Ok(())
    }

    fn relationships(&self, after: Option<i64>, count: usize, to: &mut Vec<i64>) -> Result<()> {
        to.extend(
            self.state.borrow().relationships.range(above(after)).map(|(&id, _)| id).take(count),
        );
        Ok(())
    }

    fn estimate(&self, label: Option<&str>) -> Result<u64> {
        let state = self.state.borrow();
        Ok(match label {
            None => state.nodes.len(),
            Some(label) => state.labels.get(label).map_or(0, BTreeSet::len),
        } as u64)
    }

    fn create_node(&self, data: NodeData) -> Result<i64> {
        let mut state = self.state.borrow_mut();
        state.last_node += 1;
        let id = state.last_node;
        for label in &data.labels {
            state.labels.entry(label.clone()).or_default().insert(id);
        }
        state.nodes.insert(id, Arc::new(data));
        Ok(id)
    }

    fn create_relationship(&self, data: RelationshipData) -> Result<i64> {
        let mut state = self.state.borrow_mut();
        state.last_relationship += 1;
        let id = state.last_relationship;
        state.outgoing.entry(data.source).or_default().push(Edge { id, other: data.target });
        state.incoming.entry(data.target).or_default().push(Edge { id, other: data.source });
        state.relationships.insert(id, Arc::new(data));
        Ok(id)
    }

    fn set_node(&self, id: i64, data: NodeData) -> Result<()> {
        let mut state = self.state.borrow_mut();
        for ids in state.labels.values_mut() {
            ids.remove(&id);
        }
        for label in &data.labels {
            state.labels.entry(label.clone()).or_default().insert(id);
        }
        state.nodes.insert(id, Arc::new(data));
        Ok(())
    }

    fn set_relationship(&self, id: i64, properties: Map) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if let Some(found) = state.relationships.get_mut(&id) {
            Arc::make_mut(found).properties = properties;
        }
        Ok(())
    }

    fn delete_node(&self, id: i64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.nodes.remove(&id);
        for ids in state.labels.values_mut() {
            ids.remove(&id);
        }
        Ok(())
    }

    fn delete_relationship(&self, id: i64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        if let Some(found) = state.relationships.remove(&id) {
            let State { outgoing, incoming, .. } = &mut *state;
            for list in [outgoing.get_mut(&found.source), incoming.get_mut(&found.target)] {
                list.into_iter().for_each(|list| list.retain(|edge| edge.id != id));
            }
        }
        Ok(())
    }

    fn begin(&self, writes: bool) -> Result<()> {
        self.saved.replace(writes.then(|| self.state.borrow().clone()));
        Ok(())
    }

    fn commit(&self) -> Result<()> {
        self.saved.take();
        Ok(())
    }

    fn rollback(&self) {
        if let Some(saved) = self.saved.take() {
            self.state.replace(saved);
        }
    }
}

//! A running query: the graph, parameters, budget, and deleted elements.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::algorithms::KeptSnapshots;
use crate::bind::{LOCAL, OUT};
use crate::error::{Error, ErrorClass, Result};
use crate::graph::{Graph, NodeData, RelationshipData};
use crate::procedure::{Bounds, Procedures};
use crate::temporal::DateTime;
use crate::value::{Map, Value, WholeNode, WholePath, WholeRelationship};

/// Values within reach of an expression.
pub(crate) struct Env<'r> {
    pub(crate) row: &'r [Value],
    pub(crate) out: &'r [Value],
    pub(crate) locals: Vec<Value>,
}

impl<'r> Env<'r> {
    pub(crate) fn of(row: &'r [Value]) -> Env<'r> {
        Env { row, out: &[], locals: Vec::new() }
    }

    pub(crate) fn get(&self, slot: usize) -> &Value {
        match slot {
            LOCAL.. => &self.locals[slot - LOCAL],
            OUT.. => &self.out[slot - OUT],
            _ => &self.row[slot],
        }
    }
}

/// The inputs and counters of one query under way.
pub(crate) struct Run<'g> {
    pub(crate) graph: &'g dyn Graph,
    pub(crate) parameters: &'g Map,
    pub(crate) procedures: &'g dyn Procedures,
    pub(crate) started: DateTime,
    pub(crate) random: Cell<u64>,
    pub(crate) is_over: &'g dyn Fn() -> bool,
    pub(crate) memory_max: usize,
    pub(crate) memory: Cell<usize>,
    pub(crate) ticks: Cell<u64>,
    /// Deleted elements as they were: a row may name one until the query ends.
    pub(crate) dead_nodes: RefCell<FxHashMap<i64, Arc<NodeData>>>,
    pub(crate) dead_relationships: RefCell<FxHashMap<i64, Arc<RelationshipData>>>,
    pub(crate) plans: RefCell<FxHashMap<usize, Arc<crate::matcher::plan::Plan>>>,
    /// True of a query that changes the graph while it runs.
    pub(crate) writes: bool,
    /// Snapshots of the graph's state, known to whoever runs the query.
    pub(crate) kept: Option<KeptSnapshots<'g>>,
    /// Rows that each clause of the first part gave, for `PROFILE`.
    pub(crate) profile: RefCell<Vec<u64>>,
}

impl Run<'_> {
    /// Counts a step; asks every thousandth time whether the query's time is over.
    pub(crate) fn tick(&self) -> Result<()> {
        let ticks = self.ticks.get() + 1;
        self.ticks.set(ticks);
        if ticks.is_multiple_of(1024) && (self.is_over)() {
            return Err(Error::limit("the query was stopped: its time is over"));
        }
        Ok(())
    }

    /// Counts bytes kept by the query.
    pub(crate) fn keep(&self, bytes: usize) -> Result<()> {
        let memory = self.memory.get() + bytes;
        self.memory.set(memory);
        if memory > self.memory_max {
            let mib = self.memory_max >> 20;
            return Err(Error::limit(format!(
                "the query was stopped: it keeps more than {mib} MiB of rows"
            )));
        }
        Ok(())
    }

    /// Counts a row kept by the query.
    pub(crate) fn keep_row(&self, row: &[Value]) -> Result<()> {
        self.keep(row.iter().map(|value| 24 + value.heap_bytes()).sum::<usize>() + 24)
    }

    pub(crate) fn node(&self, id: i64) -> Result<Arc<NodeData>> {
        self.graph.node(id)?.ok_or_else(deleted)
    }

    pub(crate) fn relationship(&self, id: i64) -> Result<Arc<RelationshipData>> {
        self.graph.relationship(id)?.ok_or_else(deleted)
    }

    /// A relationship whose type and ends are asked for, which stay known when it is deleted.
    pub(crate) fn relationship_or_dead(&self, id: i64) -> Result<Arc<RelationshipData>> {
        match self.graph.relationship(id)? {
            Some(found) => Ok(found),
            None => self.dead_relationships.borrow().get(&id).cloned().ok_or_else(deleted),
        }
    }

    pub(crate) fn next_random(&self) -> f64 {
        // xorshift64*: rand() needs no more than even spread.
        let mut state = self.random.get() | 1;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.random.set(state);
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A value with nodes, relationships and paths as the query leaves them.
    pub(crate) fn whole(&self, value: &Value) -> Result<Value> {
        Ok(match value {
            Value::Node(id) => Value::WholeNode(self.whole_node(*id)?),
            Value::Relationship(id) => Value::WholeRelationship(self.whole_relationship(*id)?),
            Value::Path(path) => Value::WholePath(Arc::new(WholePath {
                nodes: path.nodes.iter().map(|&id| self.whole_node(id)).collect::<Result<_>>()?,
                relationships: path
                    .relationships
                    .iter()
                    .map(|&id| self.whole_relationship(id))
                    .collect::<Result<_>>()?,
            })),
            Value::List(list) if list.iter().any(has_elements) => {
                Value::list(list.iter().map(|value| self.whole(value)).collect::<Result<_>>()?)
            }
            Value::Map(map) if map.values().any(has_elements) => Value::map(
                map.iter()
                    .map(|(key, value)| Ok((key.clone(), self.whole(value)?)))
                    .collect::<Result<_>>()?,
            ),
            plain => plain.clone(),
        })
    }

    fn whole_node(&self, id: i64) -> Result<Arc<WholeNode>> {
        let data = match self.graph.node(id)? {
            Some(data) => data,
            None => self.dead_nodes.borrow().get(&id).cloned().ok_or_else(deleted)?,
        };
        Ok(Arc::new(WholeNode {
            id,
            labels: data.labels.clone(),
            properties: data.properties.clone(),
        }))
    }

    fn whole_relationship(&self, id: i64) -> Result<Arc<WholeRelationship>> {
        let data = self.relationship_or_dead(id)?;
        Ok(Arc::new(WholeRelationship {
            id,
            source: data.source,
            target: data.target,
            kind: data.kind.clone(),
            properties: data.properties.clone(),
        }))
    }
}

impl Bounds for Run<'_> {
    fn tick(&self) -> Result<()> {
        Run::tick(self)
    }

    fn keep(&self, bytes: usize) -> Result<()> {
        Run::keep(self, bytes)
    }
}

fn has_elements(value: &Value) -> bool {
    matches!(
        value,
        Value::Node(_) | Value::Relationship(_) | Value::Path(_) | Value::List(_) | Value::Map(_)
    )
}

fn deleted() -> Error {
    Error::runtime(
        ErrorClass::EntityNotFound,
        "DeletedEntityAccess",
        "the node or relationship was deleted",
    )
}

//! The needs of a query of its graph: cursors over nodes and relationships, and writes.

use std::sync::Arc;

use crate::error::Result;
use crate::value::{Map, Value};

/// A node's labels and properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeData {
    /// Labels, ascending, each once.
    pub labels: Vec<Arc<str>>,
    /// Properties; none is null.
    pub properties: Map,
}

/// A relationship's ends, type and properties.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationshipData {
    /// The node at the start.
    pub source: i64,
    /// The node at the end.
    pub target: i64,
    /// The type.
    pub kind: Arc<str>,
    /// Properties; none is null.
    pub properties: Map,
}

/// A relationship as its node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The relationship's id.
    pub id: i64,
    /// The node at the other end.
    pub other: i64,
}

/// One side of a node's relationships.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Relationships leaving the node.
    Outgoing,
    /// Relationships entering the node.
    Incoming,
}

/// Receives the source, the target and a property of a relationship, and asks nothing of the graph.
pub type RelationshipVisitor<'v> = dyn FnMut(i64, i64, &Value) -> Result<()> + 'v;

/// Ids asked for at once.
const ID_BATCH: usize = 4096;

/// A property graph.
///
/// Methods take `&self`: a query reads rows while expressions of the same query read the graph. No
/// method is called while another one runs.
pub trait Graph {
    /// A node, or nothing where no node has the id.
    fn node(&self, id: i64) -> Result<Option<Arc<NodeData>>>;

    /// A relationship, or nothing where none has the id.
    fn relationship(&self, id: i64) -> Result<Option<Arc<RelationshipData>>>;

    /// Appends up to `count` ids of nodes above `after`, ascending: all, or those with a label.
    /// Fewer than `count` say that there are no more.
    fn nodes(
        &self,
        label: Option<&str>,
        after: Option<i64>,
        count: usize,
        to: &mut Vec<i64>,
    ) -> Result<()>;

    /// Appends the ids of nodes whose property is equal to a value, and perhaps others; false where
    /// no index answers, and nothing is appended then.
    fn nodes_with(
        &self,
        label: Option<&str>,
        key: &str,
        value: &Value,
        to: &mut Vec<i64>,
    ) -> Result<bool>;

    /// True where [`Graph::nodes_with`] has an index on a property.
    fn has_index(&self, label: Option<&str>, key: &str) -> Result<bool>;

    /// Appends the relationships of a node on one side, of any type or of those listed.
    fn edges(&self, node: i64, side: Side, kinds: &[&str], to: &mut Vec<Edge>) -> Result<()>;

    /// Appends up to `count` ids of relationships above `after`, ascending.
    fn relationships(&self, after: Option<i64>, count: usize, to: &mut Vec<i64>) -> Result<()>;

    /// Calls `each` with the source, the target and a property of every relationship, of any type
    /// or of those listed: null where the property is missing, and where none is asked for. Ends
    /// may be ids without a node.
    fn each_relationship(
        &self,
        kinds: &[&str],
        key: Option<&str>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        loop {
            let after = ids.last().copied();
            ids.clear();
            self.relationships(after, ID_BATCH, &mut ids)?;
            for id in &ids {
                let Some(found) = self.relationship(*id)? else { continue };
                if kinds.is_empty() || kinds.contains(&&*found.kind) {
                    let value = key.and_then(|key| found.properties.get(key));
                    each(found.source, found.target, value.unwrap_or(&Value::Null))?;
                }
            }
            if ids.len() < ID_BATCH {
                return Ok(());
            }
        }
    }

    /// True where a relationship has one pair of ends, so that relationships between the same nodes
    /// are as many as [`Graph::each_relationship`] gives.
    fn has_single_ends(&self) -> bool {
        true
    }

    /// True where [`Graph::edges`] gives relationships whose other end is no node.
    fn shows_missing_nodes(&self) -> bool {
        true
    }

    /// An estimate of the number of nodes, of those with a label where one is given; exact below
    /// 1,000.
    fn estimate(&self, label: Option<&str>) -> Result<u64>;

    /// Makes a node.
    fn create_node(&self, data: NodeData) -> Result<i64>;

    /// Makes a relationship between nodes that are there.
    fn create_relationship(&self, data: RelationshipData) -> Result<i64>;

    /// Replaces a node's labels and properties.
    fn set_node(&self, id: i64, data: NodeData) -> Result<()>;

    /// Replaces a relationship's properties.
    fn set_relationship(&self, id: i64, properties: Map) -> Result<()>;

    /// Removes a node, which has no relationships then.
    fn delete_node(&self, id: i64) -> Result<()>;

    /// Removes a relationship.
    fn delete_relationship(&self, id: i64) -> Result<()>;

    /// Begins a query's transaction: one state of the graph, which only a query that `writes`
    /// changes.
    fn begin(&self, writes: bool) -> Result<()>;

    /// Ends the transaction; its writes are durable.
    fn commit(&self) -> Result<()>;

    /// Ends the transaction and undoes its writes.
    fn rollback(&self);
}

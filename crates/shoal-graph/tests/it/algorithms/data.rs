//! Graphs from files, queries over them, and rows by the ids of the files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use shoal_graph::{
    Algorithms, Environment, Error, Graph, MEMORY_MAX, Map, MemoryGraph, NodeData,
    RelationshipData, SqliteGraph, Value,
};
use shoal_sql::Connection;
use shoal_store::{Access, Store};

/// Edges of a file: source, target, weight.
pub(crate) type Edges = Vec<(i64, i64, f64)>;

/// A graph with the files' ids of its nodes.
pub(crate) struct Loaded {
    pub(crate) graph: Box<dyn Graph>,
    /// Ids of the file by ids of the graph.
    names: BTreeMap<i64, i64>,
}

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/graph").join(name)
}

pub(crate) fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_none_or(|extension| extension != "gz") {
        return String::from_utf8(bytes).expect("a graph is text");
    }
    let mut text = String::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("a graph is text");
    text
}

/// Lines of separated numbers; those that begin with no number are headers.
pub(crate) fn numbers(text: &str, separator: char) -> Vec<Vec<f64>> {
    text.lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| {
            let fields = line.split(separator).filter(|field| !field.is_empty());
            fields.map(|field| field.parse().expect("a number")).collect()
        })
        .collect()
}

pub(crate) fn tables() -> SqliteGraph {
    let vfs = Arc::new(shoal_vfs::MemVfs::new());
    let store = Store::open(vfs, Path::new("graph.db"), Access::Create).expect("a file in memory");
    SqliteGraph::new(Connection::open(store).expect("an empty file"))
}

/// Makes the nodes ascending, so that ids of the graph have the order of those of the file.
pub(crate) fn load(graph: Box<dyn Graph>, nodes: &BTreeSet<i64>, edges: &Edges) -> Loaded {
    graph.begin(true).expect("a graph begins");
    let made: BTreeMap<i64, i64> = nodes
        .iter()
        .map(|node| (*node, graph.create_node(NodeData::default()).expect("a node")))
        .collect();
    for (source, target, weight) in edges {
        let properties = Map::from([("weight".into(), Value::Float(*weight))]);
        let (source, target) = (made[source], made[target]);
        let data = RelationshipData { source, target, kind: "R".into(), properties };
        graph.create_relationship(data).expect("a relationship");
    }
    graph.commit().expect("a graph commits");
    Loaded { graph, names: made.into_iter().map(|(name, id)| (id, name)).collect() }
}

/// A graph of the nodes that edges name.
pub(crate) fn load_edges(edges: &Edges) -> Loaded {
    let nodes = edges.iter().flat_map(|(source, target, _)| [*source, *target]).collect();
    load(Box::new(MemoryGraph::new()), &nodes, edges)
}

pub(crate) fn query_within(
    graph: &dyn Graph,
    text: &str,
    is_over: &dyn Fn() -> bool,
    memory_max: usize,
) -> Result<Vec<Vec<Value>>, Error> {
    let environment = Environment {
        parameters: &Map::new(),
        procedures: &Algorithms,
        now_nanos: 0,
        seed: 1,
        is_over,
        memory_max,
    };
    let mut rows = Vec::new();
    let mut sink = |row| {
        rows.push(row);
        Ok(true)
    };
    shoal_graph::run(graph, text, &environment, &mut |_| Ok(()), &mut sink)?;
    Ok(rows)
}

pub(crate) fn query(graph: &dyn Graph, text: &str) -> Result<Vec<Vec<Value>>, Error> {
    query_within(graph, text, &|| false, MEMORY_MAX)
}

pub(crate) fn float(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        other => panic!("{other} is no number"),
    }
}

pub(crate) fn integer(value: &Value) -> i64 {
    let Value::Integer(number) = value else { panic!("{value} is no integer") };
    *number
}

impl Loaded {
    /// A procedure's second result by the files' ids of the nodes of its first.
    pub(crate) fn call(&self, call: &str, result: &str) -> BTreeMap<i64, Value> {
        let text = format!("CALL {call} YIELD node, {result} RETURN id(node), {result}");
        let rows = query(&*self.graph, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.by_name(&rows)
    }

    /// The same of a procedure that starts at a node.
    pub(crate) fn call_from(&self, start: i64, call: &str, result: &str) -> BTreeMap<i64, Value> {
        let start = self.names.iter().find(|(_, name)| **name == start).expect("a node").0;
        let text = format!(
            "MATCH (start) WHERE id(start) = {start} CALL {call} YIELD node, {result} \
             RETURN id(node), {result}"
        );
        let rows = query(&*self.graph, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        self.by_name(&rows)
    }

    fn by_name(&self, rows: &[Vec<Value>]) -> BTreeMap<i64, Value> {
        let found: BTreeMap<i64, Value> =
            rows.iter().map(|row| (self.names[&integer(&row[0])], row[1].clone())).collect();
        assert_eq!(found.len(), rows.len(), "a node has one row");
        found
    }

    /// Nodes' components or communities, which are ids of the graph, by ids of the file.
    pub(crate) fn groups(&self, call: &str, result: &str) -> BTreeMap<i64, i64> {
        let groups = self.call(call, result);
        groups.into_iter().map(|(node, group)| (node, self.names[&integer(&group)])).collect()
    }
}

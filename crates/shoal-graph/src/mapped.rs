//! Tables of a user's own as a graph for Cypher, after `CREATE PROPERTY GRAPH`.
//!
//! An element's id is its table's place in the graph and its rowid, in one number; rows of a table
//! without rowids are numbered in the order of their keys, for one query. A relationship's type is
//! the first label of its table. Edges whose nodes are not there match nothing.

mod edges;
mod keys;
mod rows;

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_sql::{Connection, Value as Sql};

use crate::error::{Error, Result};
use crate::graph::{Edge, Graph, NodeData, RelationshipData, RelationshipVisitor, Side};
use crate::kept::Kept;
use crate::pgq::definition::{EdgeEnd, ElementTable, MappedGraph, Property};
use crate::pgq::elements::quoted;
use crate::source::{ConnectionSource, Source, failed};
use crate::value::{Map, Value};
use edges::{EdgePass, EndOf};
pub(crate) use keys::KnownKeys;
pub(crate) use rows::parts as table_and_row;
use rows::{Inner, Kind, columns_of, node_at, parts};

/// A graph over tables of a connection's database.
pub struct TablesGraph<S = ConnectionSource> {
    graph: Arc<MappedGraph>,
    inner: RefCell<Inner<S>>,
}

impl TablesGraph {
    /// The graph of a name in a connection's database.
    ///
    /// # Errors
    /// No graph of the name; a definition that no longer fits the tables. The connection is lost.
    pub fn new(mut connection: Connection, name: &str) -> Result<TablesGraph> {
        let found = crate::pgq::definition::find(&mut connection, name).map_err(failed)?;
        let Some(graph) = found else {
            return Err(Error::storage(format!("no such property graph: {name}")));
        };
        Ok(TablesGraph::over(ConnectionSource::new(connection), Arc::new(graph)))
    }

    /// Lends the connection between queries.
    pub fn with_connection<T>(&self, borrow: impl FnOnce(&mut Connection) -> T) -> T {
        borrow(&mut self.inner.borrow_mut().source.connection)
    }
}

impl<S> TablesGraph<S> {
    pub(crate) fn over(source: S, graph: Arc<MappedGraph>) -> TablesGraph<S> {
        let inner = Inner {
            source,
            nodes: Kept::default(),
            relationships: Kept::default(),
            keys: FxHashMap::default(),
        };
        TablesGraph { graph, inner: RefCell::new(inner) }
    }
}

impl<S: Source> TablesGraph<S> {
    fn node_kind(&self, place: usize) -> Option<Kind<'_>> {
        let table = self.graph.vertices.get(place)?;
        Some(Kind { is_node: true, place, table })
    }

    fn edge_kind(&self, place: usize) -> Option<Kind<'_>> {
        let table = &self.graph.edges.get(place)?.element;
        Some(Kind { is_node: false, place, table })
    }

    fn type_of(table: &ElementTable) -> &str {
        table.first_label()
    }

    /// Calls `each` with both ends of the edges of a table that a condition holds for: the alias of
    /// the table in it, its SQL, and parameters.
    pub(crate) fn each_edge_where(
        &self,
        table: usize,
        (alias, condition, arguments): (&str, &str, &[Sql]),
        each: &mut dyn FnMut(i64, i64) -> Result<()>,
    ) -> Result<()> {
        let Some(edge) = self.graph.edges.get(table) else { return Ok(()) };
        let ends = (self.node_kind(edge.source.vertex), self.node_kind(edge.target.vertex));
        let (Some(kind), (Some(source), Some(target))) = (self.edge_kind(table), ends) else {
            return Ok(());
        };
        let pass = EdgePass {
            kind,
            source: EndOf { end: &edge.source, node: source },
            target: EndOf { end: &edge.target, node: target },
            shown: None,
            alias,
            filter: Some((condition, arguments)),
        };
        self.inner.borrow_mut().each_edge(&pass, &mut |from, to, _| each(from, to))
    }

    /// The definition.
    pub(crate) fn definition(&self) -> Arc<MappedGraph> {
        Arc::clone(&self.graph)
    }

    /// The tables that ids and ends of edges are read from; true beside those of whose rows more
    /// than the rowid is read.
    pub(crate) fn followed(&self) -> Vec<(String, bool)> {
        let mut tables: Vec<(String, bool)> = Vec::new();
        for (place, vertex) in self.graph.vertices.iter().enumerate() {
            let rowid = vertex.facts.rowid.as_ref();
            let is_rowid = |end: &EdgeEnd| {
                end.vertex != place || rowid.is_some_and(|rowid| end.references == [rowid.as_str()])
            };
            let by_rowid = self
                .graph
                .edges
                .iter()
                .all(|edge| is_rowid(&edge.source) && is_rowid(&edge.target));
            tables.push((vertex.table.clone(), rowid.is_none() || !by_rowid));
        }
        tables.extend(self.graph.edges.iter().map(|edge| (edge.element.table.clone(), true)));
        tables
    }

    /// The id of the row with a rowid in the first vertex table, where the rowid is its key.
    pub(crate) fn id_of_rowid_key(&self, key: i64) -> Option<i64> {
        let kind = self.node_kind(0)?;
        let rowid = kind.table.facts.rowid.as_ref()?;
        if kind.table.key == [rowid.as_str()] { kind.id(key).ok() } else { None }
    }

    /// The names of the tables, vertices first.
    pub(crate) fn tables(&self) -> Vec<String> {
        let vertices = self.graph.vertices.iter().map(|table| table.table.clone());
        vertices.chain(self.graph.edges.iter().map(|edge| edge.element.table.clone())).collect()
    }

    /// The id of a row of a vertex table, by the columns of its identity.
    ///
    /// # Errors
    /// Rows without an id.
    pub(crate) fn id_of(&self, table: usize, key: &[Sql]) -> Result<i64> {
        let kind = self.node_kind(table).expect("a vertex table of the graph");
        self.inner.borrow_mut().id(kind, key)
    }

    /// The tables of nodes that may have a label.
    fn labelled<'s>(&'s self, label: Option<&'s str>) -> impl Iterator<Item = Kind<'s>> {
        (0..self.graph.vertices.len()).filter_map(|place| self.node_kind(place)).filter(
            move |kind| {
                label.is_none_or(|label| kind.table.labels.iter().any(|it| it.name == label))
            },
        )
    }

    /// Appends ids of rows of several tables above an id.
    fn scan<'s>(
        &'s self,
        kinds: impl Iterator<Item = Kind<'s>>,
        after: Option<i64>,
        count: usize,
        to: &mut Vec<i64>,
    ) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        let (place, row) = after.map_or((0, -1), parts);
        let wanted = to.len() + count;
        for kind in kinds {
            if kind.place >= place && to.len() < wanted {
                let after = if kind.place == place { row } else { -1 };
                inner.rows_of(kind, after, wanted - to.len(), to)?;
            }
        }
        Ok(())
    }

    /// The table for a new node: one that has all labels, and no other where there is a choice.
    fn table_for(&self, labels: &[Arc<str>]) -> Result<Kind<'_>> {
        let has_all = |kind: &Kind<'_>| {
            labels.iter().all(|label| kind.table.labels.iter().any(|it| *it.name == **label))
        };
        let fitting: Vec<Kind<'_>> = if labels.is_empty() {
            Vec::new()
        } else {
            self.labelled(None).filter(has_all).collect()
        };
        let exact: Vec<Kind<'_>> = fitting
            .iter()
            .copied()
            .filter(|kind| kind.table.labels.len() == labels.len())
            .collect();
        match (&*exact, &*fitting) {
            ([one], _) | ([], [one]) => Ok(*one),
            (_, []) => Err(Error::storage(format!(
                "no vertex table of graph {} has the labels {labels:?}",
                self.graph.name
            ))),
            _ => Err(Error::storage(format!(
                "several vertex tables of graph {} have the labels {labels:?}",
                self.graph.name
            ))),
        }
    }
}

impl<S: Source> Graph for TablesGraph<S> {
    fn node(&self, id: i64) -> Result<Option<Arc<NodeData>>> {
        let (place, row) = parts(id);
        let Some(kind) = self.node_kind(place) else { return Ok(None) };
        let inner = &mut *self.inner.borrow_mut();
        if let Some(found) = inner.nodes.get(id) {
            return Ok(found);
        }
        let node = inner.properties(kind, row)?.map(|properties| {
            let mut labels: Vec<Arc<str>> =
                kind.table.labels.iter().map(|label| Arc::from(&*label.name)).collect();
            labels.sort();
            labels.dedup();
            Arc::new(NodeData { labels, properties })
        });
        inner.nodes.put(id, node.clone());
        Ok(node)
    }

    fn relationship(&self, id: i64) -> Result<Option<Arc<RelationshipData>>> {
        let (place, row) = parts(id);
        let Some(kind) = self.edge_kind(place) else { return Ok(None) };
        let inner = &mut *self.inner.borrow_mut();
        if let Some(found) = inner.relationships.get(id) {
            return Ok(found);
        }
        let mut found = None;
        if let Some(properties) = inner.properties(kind, row)? {
            let edge = &self.graph.edges[place];
            let mut ends = Vec::new();
            for end in [&edge.source, &edge.target] {
                let Some(node) = self.node_kind(end.vertex) else { return Ok(None) };
                let Some(columns) = inner.columns_of(kind, row, &end.columns)? else {
                    return Ok(None);
                };
                ends.extend(node_at(inner, node, end, &columns)?);
            }
            if let [source, target] = *ends {
                let kind = Arc::from(Self::type_of(kind.table));
                found = Some(Arc::new(RelationshipData { source, target, kind, properties }));
            }
        }
        inner.relationships.put(id, found.clone());
        Ok(found)
    }

    fn nodes(
        &self,
        label: Option<&str>,
        after: Option<i64>,
        count: usize,
        to: &mut Vec<i64>,
    ) -> Result<()> {
        self.scan(self.labelled(label), after, count, to)
    }

    fn nodes_with(
        &self,
        label: Option<&str>,
        key: &str,
        value: &Value,
        to: &mut Vec<i64>,
    ) -> Result<bool> {
        let argument = match value {
            Value::Text(text) => Sql::text(&**text),
            Value::Integer(number) => Sql::Int(*number),
            Value::Float(number) if number.is_finite() => Sql::Real(*number),
            Value::Null => return Ok(true),
            _ => return Ok(false),
        };
        if !self.has_index(label, key)? {
            return Ok(false);
        }
        for kind in self.labelled(label) {
            let Some(column) = kind.table.column(key) else { continue };
            let inner = &mut *self.inner.borrow_mut();
            let sql = format!(
                "SELECT {} FROM {} WHERE {} = ?1",
                kind.key_columns().join(", "),
                quoted(&kind.table.table),
                quoted(column)
            );
            let mut rows = Vec::new();
            inner.source.rows(&sql, std::slice::from_ref(&argument), &mut |row| {
                rows.push(row.to_vec());
                Ok(())
            })?;
            for row in rows {
                to.push(inner.id(kind, &row)?);
            }
        }
        to.sort_unstable();
        Ok(true)
    }

    fn has_index(&self, label: Option<&str>, key: &str) -> Result<bool> {
        let mut has_any = false;
        for kind in self.labelled(label) {
            match kind.table.property(key) {
                None => {}
                Some(Property::Column(column)) if kind.table.facts.indexed.contains(column) => {
                    has_any = true;
                }
                Some(_) => return Ok(false),
            }
        }
        Ok(has_any)
    }

    fn edges(&self, node: i64, side: Side, kinds: &[&str], to: &mut Vec<Edge>) -> Result<()> {
        let (place, row) = parts(node);
        let Some(node_kind) = self.node_kind(place) else { return Ok(()) };
        let inner = &mut *self.inner.borrow_mut();
        for (at, edge) in self.graph.edges.iter().enumerate() {
            let Some(kind) = self.edge_kind(at) else { continue };
            let (near, far) = match side {
                Side::Outgoing => (&edge.source, &edge.target),
                Side::Incoming => (&edge.target, &edge.source),
            };
            let is_wanted = kinds.is_empty() || kinds.contains(&Self::type_of(kind.table));
            if near.vertex != place || !is_wanted {
                continue;
            }
            let Some(other) = self.node_kind(far.vertex) else { continue };
            let Some(values) = inner.columns_of(node_kind, row, &near.references)? else {
                continue;
            };
            let shown: Vec<String> = kind
                .key_columns()
                .iter()
                .map(|column| format!("e.{column}"))
                .chain(other.key_columns().iter().map(|column| format!("v.{column}")))
                .collect();
            let near_side: Vec<String> = near
                .columns
                .iter()
                .enumerate()
                .map(|(at, column)| format!("e.{} = ?{}", quoted(column), at + 1))
                .collect();
            let sql = format!(
                "SELECT {} FROM {} AS e, {} AS v WHERE {} AND {}",
                shown.join(", "),
                quoted(&kind.table.table),
                quoted(&other.table.table),
                near_side.join(" AND "),
                far.join_sql("e", "v")
            );
            let mut rows = Vec::new();
            inner.source.rows(&sql, &values, &mut |row| {
                rows.push(row.to_vec());
                Ok(())
            })?;
            let width = kind.key_columns().len();
            for row in rows {
                let id = inner.id(kind, &row[..width])?;
                to.push(Edge { id, other: inner.id(other, &row[width..])? });
            }
        }
        Ok(())
    }

    fn relationships(&self, after: Option<i64>, count: usize, to: &mut Vec<i64>) -> Result<()> {
        let kinds = (0..self.graph.edges.len()).filter_map(|place| self.edge_kind(place));
        self.scan(kinds, after, count, to)
    }

    fn each_relationship(
        &self,
        kinds: &[&str],
        key: Option<&str>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        for (at, edge) in self.graph.edges.iter().enumerate() {
            if !kinds.is_empty() && !kinds.contains(&Self::type_of(&edge.element)) {
                continue;
            }
            let ends = (self.node_kind(edge.source.vertex), self.node_kind(edge.target.vertex));
            let (Some(kind), (Some(source), Some(target))) = (self.edge_kind(at), ends) else {
                continue;
            };
            let shown = key.and_then(|key| Some((key, kind.table.property_sql("e", key)?)));
            let pass = EdgePass {
                kind,
                source: EndOf { end: &edge.source, node: source },
                target: EndOf { end: &edge.target, node: target },
                shown,
                alias: "e",
                filter: None,
            };
            self.inner.borrow_mut().each_edge(&pass, each)?;
        }
        Ok(())
    }

    fn has_single_ends(&self) -> bool {
        self.graph.has_single_ends()
    }

    fn shows_missing_nodes(&self) -> bool {
        false
    }

    fn estimate(&self, label: Option<&str>) -> Result<u64> {
        let mut sum = 0_u64;
        for kind in self.labelled(label) {
            sum = sum.saturating_add(self.inner.borrow_mut().count(kind)?);
        }
        Ok(sum)
    }

    fn create_node(&self, data: NodeData) -> Result<i64> {
        let kind = self.table_for(&data.labels)?;
        let columns = columns_of(kind.table, &data.properties)?;
        let inner = &mut *self.inner.borrow_mut();
        if kind.table.facts.rowid.is_none() {
            inner.keys(kind)?;
        }
        let id = inner.insert(kind, &columns)?;
        inner.nodes.forget(id);
        Ok(id)
    }

    fn create_relationship(&self, data: RelationshipData) -> Result<i64> {
        let ((source, source_row), (target, target_row)) = (parts(data.source), parts(data.target));
        let mut fitting = self.graph.edges.iter().enumerate().filter(|(_, edge)| {
            (edge.source.vertex, edge.target.vertex) == (source, target)
                && Self::type_of(&edge.element) == &*data.kind
        });
        let (Some((place, edge)), None) = (fitting.next(), fitting.next()) else {
            let name = |place: usize| self.graph.vertices.get(place).map_or("?", |it| &it.table);
            return Err(Error::storage(format!(
                "graph {} has no edge table of type {} from {} to {}, or several",
                self.graph.name,
                data.kind,
                name(source),
                name(target)
            )));
        };
        let (Some(kind), Some(from), Some(to)) =
            (self.edge_kind(place), self.node_kind(source), self.node_kind(target))
        else {
            return Err(Error::storage("an end of a new relationship is no node of the graph"));
        };
        let mut columns = columns_of(kind.table, &data.properties)?;
        let inner = &mut *self.inner.borrow_mut();
        if kind.table.facts.rowid.is_none() {
            inner.keys(kind)?;
        }
        for (end, node, row) in [(&edge.source, from, source_row), (&edge.target, to, target_row)] {
            let Some(values) = inner.columns_of(node, row, &end.references)? else {
                return Err(Error::storage("an end of a new relationship was deleted"));
            };
            for (column, value) in end.columns.iter().zip(values) {
                match columns.iter().find(|(name, _)| name == column) {
                    Some((_, given)) if *given != value => {
                        return Err(Error::storage(format!(
                            "column {column} of {} is an end of the relationship, and was given \
                             another value as a property",
                            kind.table.table
                        )));
                    }
                    Some(_) => {}
                    None => columns.push((column.clone(), value)),
                }
            }
        }
        let id = inner.insert(kind, &columns)?;
        inner.relationships.forget(id);
        Ok(id)
    }

    fn set_node(&self, id: i64, data: NodeData) -> Result<()> {
        let Some(old) = self.node(id)? else { return Ok(()) };
        let (place, row) = parts(id);
        let Some(kind) = self.node_kind(place) else { return Ok(()) };
        if old.labels != data.labels {
            return Err(Error::storage(format!(
                "the labels of a row of {} are those of its table",
                kind.table.table
            )));
        }
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.forget(id);
        inner.set(kind, row, &old.properties, &data.properties)
    }

    fn set_relationship(&self, id: i64, properties: Map) -> Result<()> {
        let Some(old) = self.relationship(id)? else { return Ok(()) };
        let (place, row) = parts(id);
        let Some(kind) = self.edge_kind(place) else { return Ok(()) };
        let inner = &mut *self.inner.borrow_mut();
        inner.relationships.forget(id);
        inner.set(kind, row, &old.properties, &properties)
    }

    fn delete_node(&self, id: i64) -> Result<()> {
        let (place, row) = parts(id);
        let Some(kind) = self.node_kind(place) else { return Ok(()) };
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.forget(id);
        inner.delete(kind, row)
    }

    fn delete_relationship(&self, id: i64) -> Result<()> {
        let (place, row) = parts(id);
        let Some(kind) = self.edge_kind(place) else { return Ok(()) };
        let inner = &mut *self.inner.borrow_mut();
        inner.relationships.forget(id);
        inner.delete(kind, row)
    }

    fn begin(&self, writes: bool) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.clear();
        inner.relationships.clear();
        inner.keys.clear();
        inner.source.begin(writes)
    }

    fn commit(&self) -> Result<()> {
        self.inner.borrow_mut().source.commit()
    }

    fn rollback(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.clear();
        inner.relationships.clear();
        inner.keys.clear();
        inner.source.rollback();
    }
}

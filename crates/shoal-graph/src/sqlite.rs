//! The graph in SQLite tables: the default layout, for nodes and relationships of any labels, types
//! and properties.
//!
//! | table | one row is |
//! | --- | --- |
//! | `_graph_node(id, properties)` | a node; its properties as a JSON object |
//! | `_graph_label(label, node)` | a label of a node, by label and, through an index, by node |
//! | `_graph_edge(id, source, type, target, properties)` | a relationship, indexed both ways |
//!
//! An id is never given twice: a row of a query may still name an element that was deleted.
//! An index of a user's own on `properties ->> '$.key'` of `_graph_node` answers `{key: value}`.

use std::cell::RefCell;
use std::sync::Arc;

use shoal_sql::{Connection, Value as Sql};

use crate::error::{Error, Result};
use crate::graph::{Edge, Graph, NodeData, RelationshipData, RelationshipVisitor, Side};
use crate::json;
use crate::kept::Kept;
use crate::source::{ConnectionSource, Source};
use crate::value::{Map, Value};

/// The definitions of the tables.
const TABLES: [&str; 6] = [
    "CREATE TABLE _graph_node(id INTEGER PRIMARY KEY AUTOINCREMENT, properties TEXT NOT NULL DEFAULT '{}')",
    "CREATE TABLE _graph_label(label TEXT NOT NULL, node INTEGER NOT NULL, PRIMARY KEY(label, node)) WITHOUT ROWID",
    "CREATE INDEX _graph_label_node ON _graph_label(node)",
    "CREATE TABLE _graph_edge(id INTEGER PRIMARY KEY AUTOINCREMENT, source INTEGER NOT NULL, \
     type TEXT NOT NULL, target INTEGER NOT NULL, properties TEXT NOT NULL DEFAULT '{}')",
    "CREATE INDEX _graph_edge_source ON _graph_edge(source, type, target)",
    "CREATE INDEX _graph_edge_target ON _graph_edge(target, type, source)",
];

/// A graph in the tables of a connection's database.
pub struct SqliteGraph<S = ConnectionSource> {
    inner: RefCell<Inner<S>>,
}

struct Inner<S> {
    source: S,
    nodes: Kept<NodeData>,
    relationships: Kept<RelationshipData>,
    has_tables: bool,
    /// The tables are made by the transaction under way.
    makes_tables: bool,
    /// Keys of properties with an index.
    indexed: Vec<String>,
}

fn not_a_graph(what: &str) -> Error {
    Error::storage(format!("the tables hold no graph: {what}"))
}

impl SqliteGraph {
    /// The graph of a connection's database. Tables are made by the first query that writes.
    pub fn new(connection: Connection) -> SqliteGraph {
        SqliteGraph::over(ConnectionSource::new(connection))
    }

    /// Lends the connection between queries.
    pub fn with_connection<T>(&self, borrow: impl FnOnce(&mut Connection) -> T) -> T {
        borrow(&mut self.inner.borrow_mut().source.connection)
    }

    /// The connection, given back.
    pub fn into_connection(self) -> Connection {
        self.inner.into_inner().source.connection
    }
}

impl<S> SqliteGraph<S> {
    pub(crate) fn over(source: S) -> SqliteGraph<S> {
        SqliteGraph {
            inner: RefCell::new(Inner {
                source,
                nodes: Kept::default(),
                relationships: Kept::default(),
                has_tables: false,
                makes_tables: false,
                indexed: Vec::new(),
            }),
        }
    }
}

impl<S: Source> SqliteGraph<S> {
    /// Calls `each` with both ends of the relationships for which a condition holds: the alias of
    /// the table in it, its SQL, and parameters.
    pub(crate) fn each_edge_where(
        &self,
        (alias, condition, arguments): (&str, &str, &[Sql]),
        each: &mut dyn FnMut(i64, i64) -> Result<()>,
    ) -> Result<()> {
        let alias = crate::pgq::elements::quoted(alias);
        let sql = format!(
            "SELECT {alias}.source, {alias}.target FROM _graph_edge AS {alias} WHERE {condition}"
        );
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(());
        }
        inner.rows(&sql, arguments, |row| each(integer(&row[0])?, integer(&row[1])?))
    }
}

impl<S: Source> Inner<S> {
    /// Calls `each` with the rows of a query.
    fn rows(
        &mut self,
        sql: &str,
        arguments: &[Sql],
        mut each: impl FnMut(&[Sql]) -> Result<()>,
    ) -> Result<()> {
        self.source.rows(sql, arguments, &mut each)
    }

    fn execute(&mut self, sql: &str, arguments: &[Sql]) -> Result<()> {
        self.source.execute(sql, arguments)
    }

    /// Looks at the schema: are the tables there, and which properties have an index?
    fn look(&mut self) -> Result<()> {
        let (mut names, mut indexed) = (Vec::new(), Vec::new());
        let sql =
            "SELECT name, sql FROM sqlite_schema WHERE tbl_name LIKE '\\_graph\\_%' ESCAPE '\\'";
        self.rows(sql, &[], |row| {
            names.extend(text(&row[0]));
            if let Some(key) = text(&row[1]).as_deref().and_then(indexed_key) {
                indexed.push(key);
            }
            Ok(())
        })?;
        let wanted = ["_graph_node", "_graph_label", "_graph_edge"];
        let count = wanted.iter().filter(|table| names.iter().any(|name| name == **table)).count();
        if count != 0 && count != wanted.len() {
            return Err(not_a_graph("one of _graph_node, _graph_label, _graph_edge is missing"));
        }
        self.has_tables = count > 0;
        self.indexed = indexed;
        Ok(())
    }
}

/// The key of an index `... ON _graph_node(properties ->> '$.key')`.
fn indexed_key(sql: &str) -> Option<String> {
    let squeezed: String = sql.chars().filter(|c| !c.is_whitespace()).collect();
    let lower = squeezed.to_ascii_lowercase();
    let at = lower.find("on_graph_node(properties->>'$.")? + "on_graph_node(properties->>'$.".len();
    let key = squeezed[at..].strip_suffix("')")?;
    key.chars().all(|c| c.is_alphanumeric() || c == '_').then(|| key.to_owned())
}

fn text(value: &Sql) -> Option<String> {
    match value {
        Sql::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => None,
    }
}

fn integer(value: &Sql) -> Result<i64> {
    match value {
        Sql::Int(number) => Ok(*number),
        _ => Err(not_a_graph("an id is no integer")),
    }
}

/// Where the labels or types of a statement's argument are text.
fn name(value: &Sql) -> Result<Arc<str>> {
    text(value).map(Arc::from).ok_or_else(|| not_a_graph("a label or a type is no text"))
}

fn properties(value: &Sql, what: &str, id: i64) -> Result<Map> {
    let text = text(value)
        .ok_or_else(|| not_a_graph(&format!("the properties of {what} {id} are no text")))?;
    let mut map = json::read(&text)
        .map_err(|error| not_a_graph(&format!("{what} {id}: {}", error.message())))?;
    map.retain(|_, value| !value.is_null());
    Ok(map)
}

impl<S: Source> Graph for SqliteGraph<S> {
    fn node(&self, id: i64) -> Result<Option<Arc<NodeData>>> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(None);
        }
        if let Some(found) = inner.nodes.get(id) {
            return Ok(found);
        }
        let mut found = None;
        inner.rows("SELECT properties FROM _graph_node WHERE id = ?1", &[Sql::Int(id)], |row| {
            found = Some(properties(&row[0], "node", id)?);
            Ok(())
        })?;
        let mut node = None;
        if let Some(properties) = found {
            let mut labels = Vec::new();
            inner.rows(
                "SELECT label FROM _graph_label WHERE node = ?1",
                &[Sql::Int(id)],
                |row| {
                    labels.push(name(&row[0])?);
                    Ok(())
                },
            )?;
            labels.sort();
            node = Some(Arc::new(NodeData { labels, properties }));
        }
        inner.nodes.put(id, node.clone());
        Ok(node)
    }

    fn relationship(&self, id: i64) -> Result<Option<Arc<RelationshipData>>> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(None);
        }
        if let Some(found) = inner.relationships.get(id) {
            return Ok(found);
        }
        let mut found = None;
        let sql = "SELECT source, target, type, properties FROM _graph_edge WHERE id = ?1";
        inner.rows(sql, &[Sql::Int(id)], |row| {
            found = Some(Arc::new(RelationshipData {
                source: integer(&row[0])?,
                target: integer(&row[1])?,
                kind: name(&row[2])?,
                properties: properties(&row[3], "relationship", id)?,
            }));
            Ok(())
        })?;
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
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(());
        }
        let count = Sql::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let after = Sql::Int(after.unwrap_or(i64::MIN));
        let take = |row: &[Sql]| {
            to.push(integer(&row[0])?);
            Ok(())
        };
        match label {
            Some(label) => {
                let sql = "SELECT node FROM _graph_label WHERE label = ?1 AND node > ?2 ORDER BY node LIMIT ?3";
                inner.rows(sql, &[Sql::text(label), after, count], take)
            }
            None => {
                let sql = "SELECT id FROM _graph_node WHERE id > ?1 ORDER BY id LIMIT ?2";
                inner.rows(sql, &[after, count], take)
            }
        }
    }

    fn nodes_with(
        &self,
        _: Option<&str>,
        key: &str,
        value: &Value,
        to: &mut Vec<i64>,
    ) -> Result<bool> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables || !inner.indexed.iter().any(|indexed| indexed == key) {
            return Ok(false);
        }
        let argument = match value {
            Value::Text(text) => Sql::text(&**text),
            Value::Integer(number) => Sql::Int(*number),
            Value::Float(number) if number.is_finite() => Sql::Real(*number),
            Value::Null => return Ok(true),
            _ => return Ok(false),
        };
        // The key is one of the schema's own, of letters, digits and underscores.
        let sql = format!("SELECT id FROM _graph_node WHERE properties ->> '$.{key}' = ?1");
        inner.rows(&sql, &[argument], |row| {
            to.push(integer(&row[0])?);
            Ok(())
        })?;
        Ok(true)
    }

    fn has_index(&self, _: Option<&str>, key: &str) -> Result<bool> {
        Ok(self.inner.borrow().indexed.iter().any(|indexed| indexed == key))
    }

    fn edges(&self, node: i64, side: Side, kinds: &[&str], to: &mut Vec<Edge>) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(());
        }
        let mut take = |row: &[Sql]| {
            to.push(Edge { id: integer(&row[0])?, other: integer(&row[1])? });
            Ok(())
        };
        if kinds.is_empty() {
            let sql = match side {
                Side::Outgoing => "SELECT id, target FROM _graph_edge WHERE source = ?1",
                Side::Incoming => "SELECT id, source FROM _graph_edge WHERE target = ?1",
            };
            return inner.rows(sql, &[Sql::Int(node)], take);
        }
        let sql = match side {
            Side::Outgoing => "SELECT id, target FROM _graph_edge WHERE source = ?1 AND type = ?2",
            Side::Incoming => "SELECT id, source FROM _graph_edge WHERE target = ?1 AND type = ?2",
        };
        for (at, kind) in kinds.iter().enumerate() {
            if !kinds[..at].contains(kind) {
                inner.rows(sql, &[Sql::Int(node), Sql::text(*kind)], &mut take)?;
            }
        }
        Ok(())
    }

    fn relationships(&self, after: Option<i64>, count: usize, to: &mut Vec<i64>) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(());
        }
        let count = Sql::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let after = Sql::Int(after.unwrap_or(i64::MIN));
        let sql = "SELECT id FROM _graph_edge WHERE id > ?1 ORDER BY id LIMIT ?2";
        inner.rows(sql, &[after, count], |row| {
            to.push(integer(&row[0])?);
            Ok(())
        })
    }

    fn each_relationship(
        &self,
        kinds: &[&str],
        key: Option<&str>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(());
        }
        // Without a property, the index by source answers.
        let shown = if key.is_some() { ", id, properties" } else { "" };
        let numbers: Vec<String> = (1..=kinds.len()).map(|number| format!("?{number}")).collect();
        let filter = match kinds.is_empty() {
            true => String::new(),
            false => format!(" WHERE type IN ({})", numbers.join(", ")),
        };
        let arguments: Vec<Sql> = kinds.iter().map(|kind| Sql::text(*kind)).collect();
        let sql = format!("SELECT source, target{shown} FROM _graph_edge{filter}");
        inner.rows(&sql, &arguments, |row| {
            let (source, target) = (integer(&row[0])?, integer(&row[1])?);
            let (Some(key), [_, _, id, json]) = (key, row) else {
                return each(source, target, &Value::Null);
            };
            let map = properties(json, "relationship", integer(id)?)?;
            each(source, target, map.get(key).unwrap_or(&Value::Null))
        })
    }

    fn estimate(&self, label: Option<&str>) -> Result<u64> {
        let inner = &mut *self.inner.borrow_mut();
        if !inner.has_tables {
            return Ok(0);
        }
        let mut count = 0;
        let take = |row: &[Sql]| {
            count = integer(&row[0])?;
            Ok(())
        };
        match label {
            Some(label) => {
                let sql =
                    "SELECT count(*) FROM (SELECT 1 FROM _graph_label WHERE label = ?1 LIMIT 1000)";
                inner.rows(sql, &[Sql::text(label)], take)?;
            }
            None => inner.rows("SELECT coalesce(max(id), 0) FROM _graph_node", &[], take)?,
        }
        Ok(u64::try_from(count).unwrap_or(0))
    }

    fn create_node(&self, data: NodeData) -> Result<i64> {
        let inner = &mut *self.inner.borrow_mut();
        inner.execute(
            "INSERT INTO _graph_node(properties) VALUES(?1)",
            &[Sql::text(json::write(&data.properties))],
        )?;
        let id = inner.source.last_insert_rowid();
        for label in &data.labels {
            let arguments = [Sql::text(&**label), Sql::Int(id)];
            inner.execute("INSERT INTO _graph_label(label, node) VALUES(?1, ?2)", &arguments)?;
        }
        inner.nodes.forget(id);
        Ok(id)
    }

    fn create_relationship(&self, data: RelationshipData) -> Result<i64> {
        let inner = &mut *self.inner.borrow_mut();
        let arguments = [
            Sql::Int(data.source),
            Sql::text(&*data.kind),
            Sql::Int(data.target),
            Sql::text(json::write(&data.properties)),
        ];
        let sql =
            "INSERT INTO _graph_edge(source, type, target, properties) VALUES(?1, ?2, ?3, ?4)";
        inner.execute(sql, &arguments)?;
        let id = inner.source.last_insert_rowid();
        inner.relationships.forget(id);
        Ok(id)
    }

    fn set_node(&self, id: i64, data: NodeData) -> Result<()> {
        let old = self.node(id)?;
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.forget(id);
        let Some(old) = old else { return Ok(()) };
        if old.properties != data.properties {
            let arguments = [Sql::text(json::write(&data.properties)), Sql::Int(id)];
            inner.execute("UPDATE _graph_node SET properties = ?1 WHERE id = ?2", &arguments)?;
        }
        for label in old.labels.iter().filter(|label| !data.labels.contains(label)) {
            let arguments = [Sql::text(&**label), Sql::Int(id)];
            inner.execute("DELETE FROM _graph_label WHERE label = ?1 AND node = ?2", &arguments)?;
        }
        for label in data.labels.iter().filter(|label| !old.labels.contains(label)) {
            let arguments = [Sql::text(&**label), Sql::Int(id)];
            inner.execute("INSERT INTO _graph_label(label, node) VALUES(?1, ?2)", &arguments)?;
        }
        Ok(())
    }

    fn set_relationship(&self, id: i64, properties: Map) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.relationships.forget(id);
        let arguments = [Sql::text(json::write(&properties)), Sql::Int(id)];
        inner.execute("UPDATE _graph_edge SET properties = ?1 WHERE id = ?2", &arguments)
    }

    fn delete_node(&self, id: i64) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.forget(id);
        inner.execute("DELETE FROM _graph_label WHERE node = ?1", &[Sql::Int(id)])?;
        inner.execute("DELETE FROM _graph_node WHERE id = ?1", &[Sql::Int(id)])
    }

    fn delete_relationship(&self, id: i64) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        inner.relationships.forget(id);
        inner.execute("DELETE FROM _graph_edge WHERE id = ?1", &[Sql::Int(id)])
    }

    fn begin(&self, writes: bool) -> Result<()> {
        let inner = &mut *self.inner.borrow_mut();
        // Whatever was kept may have been changed by others since.
        inner.nodes.clear();
        inner.relationships.clear();
        inner.source.begin(writes)?;
        let mut ready = inner.look();
        inner.makes_tables = false;
        if ready.is_ok() && writes && !inner.has_tables {
            ready = TABLES.iter().try_for_each(|sql| inner.execute(sql, &[]));
            inner.has_tables = ready.is_ok();
            inner.makes_tables = inner.has_tables;
        }
        if ready.is_err() {
            inner.source.rollback();
        }
        ready
    }

    fn commit(&self) -> Result<()> {
        self.inner.borrow_mut().source.commit()
    }

    fn rollback(&self) {
        let inner = &mut *self.inner.borrow_mut();
        inner.nodes.clear();
        inner.relationships.clear();
        inner.has_tables &= !inner.makes_tables;
        inner.source.rollback();
    }
}

//! The graph named by a table-valued function: tables mapped by a definition, or the tables of
//! `shoal cypher`.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use shoal_sql::{Error, ModuleContext, Value as Sql};

use super::definition::MappedGraph;
use super::elements::DEFAULT_GRAPH;
use crate::graph::Graph;
use crate::mapped::{KnownKeys, TablesGraph};
use crate::procedure::Bounds;
use crate::query::MEMORY_MAX;
use crate::source::StatementSource;
use crate::sqlite::SqliteGraph;

pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::of_function(message)
}

/// A graph within a statement.
pub(super) enum NamedGraph<'s> {
    Tables(Box<TablesGraph<StatementSource<'s>>>),
    Own(SqliteGraph<StatementSource<'s>>),
}

impl<'s> NamedGraph<'s> {
    /// The graph of a definition, or of `shoal cypher`.
    ///
    /// # Errors
    /// Tables of `shoal cypher` that are none.
    pub(super) fn of(
        definition: Option<Arc<MappedGraph>>,
        context: &ModuleContext<'s>,
    ) -> Result<NamedGraph<'s>, Error> {
        let source = StatementSource { context: *context };
        Ok(match definition {
            Some(graph) => NamedGraph::Tables(Box::new(TablesGraph::over(source, graph))),
            None => {
                let graph = SqliteGraph::over(source);
                graph.begin(false).map_err(|error| refused(error.to_string()))?;
                NamedGraph::Own(graph)
            }
        })
    }

    /// True for the name of the graph of `shoal cypher`.
    pub(super) fn is_own(name: &str) -> bool {
        name.eq_ignore_ascii_case(DEFAULT_GRAPH)
    }

    /// The definition; `None` of the graph of `shoal cypher`.
    pub(super) fn definition(&self) -> Option<Arc<MappedGraph>> {
        match self {
            NamedGraph::Tables(graph) => Some(graph.definition()),
            NamedGraph::Own(_) => None,
        }
    }

    /// The tables that snapshots are made of; true beside those of whose rows more than the rowid
    /// is read.
    pub(super) fn followed(&self) -> Vec<(String, bool)> {
        let table = |(name, with_rows): (&str, bool)| (name.to_owned(), with_rows);
        match self {
            NamedGraph::Tables(graph) => {
                let mut tables = graph.followed();
                tables.push(table((super::definition::DEFINITIONS, true)));
                tables
            }
            NamedGraph::Own(_) => {
                let all = [("_graph_node", false), ("_graph_label", true), ("_graph_edge", true)];
                all.map(table).to_vec()
            }
        }
    }

    pub(super) fn graph(&self) -> &dyn Graph {
        match self {
            NamedGraph::Tables(graph) => &**graph,
            NamedGraph::Own(graph) => graph,
        }
    }

    /// The tables of the graph, vertices first.
    pub(super) fn tables(&self) -> Vec<String> {
        match self {
            NamedGraph::Tables(graph) => graph.tables(),
            NamedGraph::Own(_) => vec!["_graph_node".to_owned(), "_graph_edge".to_owned()],
        }
    }

    pub(super) fn ids(&self) -> Ids {
        match self {
            NamedGraph::Tables(_) => Ids::OfTables,
            NamedGraph::Own(_) => Ids::Rowids,
        }
    }

    /// The id of a row of a vertex table, by the columns of its identity.
    ///
    /// # Errors
    /// Rows that have no id in a graph.
    pub(super) fn id(&self, table: usize, key: &[Sql]) -> crate::Result<i64> {
        match (self, key) {
            (NamedGraph::Tables(graph), key) => graph.id_of(table, key),
            (NamedGraph::Own(_), [Sql::Int(id)]) => Ok(*id),
            (NamedGraph::Own(_), _) => Err(crate::Error::storage("a node's id is no integer")),
        }
    }

    /// Calls `each` with both ends of the edges of a table that a condition holds for: the alias of
    /// the table in it, its SQL, and parameters.
    ///
    /// # Errors
    /// Those of the condition, and of reading the table.
    pub(super) fn each_edge_where(
        &self,
        table: usize,
        condition: (&str, &str, &[Sql]),
        each: &mut dyn FnMut(i64, i64) -> crate::Result<()>,
    ) -> crate::Result<()> {
        match self {
            NamedGraph::Tables(graph) => graph.each_edge_where(table, condition, each),
            NamedGraph::Own(graph) => graph.each_edge_where(condition, each),
        }
    }

    /// The key and the first label of a node.
    pub(super) fn shown(&self, id: i64, known: &mut KnownKeys) -> crate::Result<[Sql; 2]> {
        Ok([self.key(id, known)?, self.label(id)?])
    }

    /// The key of a node.
    pub(super) fn key(&self, id: i64, known: &mut KnownKeys) -> crate::Result<Sql> {
        match self {
            NamedGraph::Tables(graph) => graph.key_of(id, known),
            NamedGraph::Own(_) => Ok(Sql::Int(id)),
        }
    }

    /// The first label of a node.
    pub(super) fn label(&self, id: i64) -> crate::Result<Sql> {
        match self {
            NamedGraph::Tables(graph) => Ok(Sql::text(graph.label_of(id))),
            NamedGraph::Own(graph) => {
                let node = graph.node(id)?;
                let label = node.as_ref().and_then(|node| node.labels.first());
                Ok(label.map_or(Sql::Null, |label| Sql::text(&**label)))
            }
        }
    }

    /// The id that the node of a key has, if there is such a node, where no table need be asked.
    pub(super) fn node_if_any(&self, given: &Sql) -> Option<i64> {
        match (self, given) {
            (NamedGraph::Tables(graph), Sql::Int(key)) => graph.id_of_rowid_key(*key),
            (NamedGraph::Own(_), Sql::Int(id)) => Some(*id),
            _ => None,
        }
    }

    /// The node of a key: `LABEL/KEY`, or the key of a row of the first vertex table.
    ///
    /// # Errors
    /// No such node.
    pub(super) fn node(&self, given: &Sql) -> Result<i64, Error> {
        let none = || {
            let key = match given {
                Sql::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Sql::Int(number) => number.to_string(),
                _ => "of that kind".to_owned(),
            };
            refused(format!("the graph has no node {key}"))
        };
        let found = match self {
            NamedGraph::Own(graph) => match given {
                Sql::Int(id) => graph.node(*id).map(|node| node.map(|_| *id)),
                _ => return Err(none()),
            },
            NamedGraph::Tables(graph) => match given {
                Sql::Text(text) => graph.node_named(&String::from_utf8_lossy(text)),
                key => graph.node_by_key(None, key),
            },
        };
        found.map_err(|error| refused(error.to_string()))?.ok_or_else(none)
    }
}

/// How ids of nodes are made of rowids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    /// An id is a rowid of `_graph_node`.
    Rowids,
    /// An id has the number of its table before the rowid.
    OfTables,
}

impl Ids {
    pub(super) fn rowid(self, id: i64) -> i64 {
        match self {
            Ids::Rowids => id,
            Ids::OfTables => crate::mapped::table_and_row(id).1,
        }
    }

    pub(super) fn table(self, id: i64) -> usize {
        match self {
            Ids::Rowids => 0,
            Ids::OfTables => crate::mapped::table_and_row(id).0,
        }
    }
}

/// The bounds of a statement; the error at the end of the work is kept.
pub(super) struct StatementBounds<'c> {
    context: &'c ModuleContext<'c>,
    ticks: Cell<u64>,
    kept: Cell<usize>,
    stopped: RefCell<Option<Error>>,
}

impl<'c> StatementBounds<'c> {
    pub(super) fn new(context: &'c ModuleContext<'c>) -> StatementBounds<'c> {
        let (ticks, kept) = (Cell::new(0), Cell::new(0));
        StatementBounds { context, ticks, kept, stopped: RefCell::new(None) }
    }

    /// The error of some work: the statement's own where the statement ended the work.
    pub(super) fn error(&self, error: &crate::Error) -> Error {
        self.stopped.take().unwrap_or_else(|| refused(error.to_string()))
    }
}

impl Bounds for StatementBounds<'_> {
    fn tick(&self) -> crate::Result<()> {
        self.ticks.set(self.ticks.get() + 1);
        match self.ticks.get().is_multiple_of(1024) {
            true => self.check(),
            false => Ok(()),
        }
    }

    fn check(&self) -> crate::Result<()> {
        self.context.check().map_err(|error| {
            let told = crate::Error::limit(error.to_string());
            self.stopped.replace(Some(error));
            told
        })
    }

    fn keep(&self, bytes: usize) -> crate::Result<()> {
        let kept = self.kept.get().saturating_add(bytes);
        self.kept.set(kept);
        match kept > MEMORY_MAX {
            true => Err(crate::Error::limit(format!(
                "the graph and its rows take over {} MiB",
                MEMORY_MAX >> 20
            ))),
            false => Ok(()),
        }
    }
}

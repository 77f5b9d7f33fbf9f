//! The graph named by a table-valued function: tables mapped by a definition, or the tables of
//! `shoal cypher`.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

use shoal_sql::{Error, ModuleContext, Value as Sql};

use super::definition::MappedGraph;
use super::elements::DEFAULT_GRAPH;
use crate::algorithms::States;
use crate::graph::Graph;
use crate::mapped::{KnownKeys, TablesGraph};
use crate::procedure::Bounds;
use crate::query::MEMORY_MAX;
use crate::source::StatementSource;
use crate::sqlite::SqliteGraph;

pub(super) fn refused(message: impl Into<String>) -> Error {
    Error::of_function(message)
}

/// Definitions as read in a state of the databases, until somebody commits.
#[derive(Debug, Default)]
pub(super) struct Definitions(Mutex<(States, Vec<Arc<MappedGraph>>)>);

impl Definitions {
    /// The graph of a definition; `None` where there is none of the name.
    ///
    /// # Errors
    /// A definition and a schema in disagreement.
    fn find(
        &self,
        name: &str,
        context: &ModuleContext<'_>,
    ) -> Result<Option<Arc<MappedGraph>>, Error> {
        let mut reads = *context;
        let Some(states) = context.states() else {
            return Ok(super::definition::find(&mut reads, name)?.map(Arc::new));
        };
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut known = known();
            if known.0 != states {
                *known = (states.clone(), Vec::new());
            }
            if let Some(graph) = known.1.iter().find(|graph| graph.name.eq_ignore_ascii_case(name))
            {
                return Ok(Some(Arc::clone(graph)));
            }
        }
        let found = super::definition::find(&mut reads, name)?.map(Arc::new);
        let mut known = known();
        if known.0 == states {
            known.1.extend(found.clone());
        }
        Ok(found)
    }
}

/// A graph within a statement.
pub(super) enum NamedGraph<'s> {
    Tables(Box<TablesGraph<StatementSource<'s>>>),
    Own(SqliteGraph<StatementSource<'s>>),
}

impl<'s> NamedGraph<'s> {
    /// The graph of a name.
    ///
    /// # Errors
    /// No such graph; a definition and a schema in disagreement.
    pub(super) fn find(
        definitions: &Definitions,
        name: &str,
        context: &ModuleContext<'s>,
    ) -> Result<NamedGraph<'s>, Error> {
        let source = StatementSource { context: *context };
        match definitions.find(name, context)? {
            Some(graph) => Ok(NamedGraph::Tables(Box::new(TablesGraph::over(source, graph)))),
            None if name.eq_ignore_ascii_case(DEFAULT_GRAPH) => {
                Ok(NamedGraph::Own(SqliteGraph::over(source)))
            }
            None => Err(refused(format!("no such property graph: {name}"))),
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

    /// The key and the first label of a node.
    pub(super) fn shown(&self, id: i64, known: &mut KnownKeys) -> crate::Result<[Sql; 2]> {
        match self {
            NamedGraph::Tables(graph) => {
                Ok([graph.key_of(id, known)?, Sql::text(graph.label_of(id))])
            }
            NamedGraph::Own(graph) => {
                let node = graph.node(id)?;
                let label = node.as_ref().and_then(|node| node.labels.first());
                Ok([Sql::Int(id), label.map_or(Sql::Null, |label| Sql::text(&**label))])
            }
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

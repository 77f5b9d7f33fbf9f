//! SQL/PGQ: tables of a user's own as property graphs, asked by `GRAPH_TABLE` in SQL.
//!
//! `CREATE PROPERTY GRAPH` ([`define`]) keeps a definition, read by `definition`. `GRAPH_TABLE` is
//! a clause that [`register`] gives to a connection: `pattern` reads its text, `lower` and
//! `expression` make it a query over the graph's tables (`elements`), and SQL's planner does the
//! rest. A path with a quantifier is a call of the table-valued function `graph_walk` (`walk`), a
//! pattern all of whose rows are taken may be a call of `graph_match` (`compact`, `matching`).
//! `CYPHER` is the clause of openCypher (`cypher`).

mod around;
mod call;
mod compact;
mod computed;
mod cypher;
pub(crate) mod definition;
mod definitions;
pub(crate) mod elements;
mod expression;
mod follow;
mod functions;
mod known;
mod layout;
mod lower;
mod matching;
mod named;
mod pattern;
mod tables;
#[cfg(test)]
mod tests;
mod walk;
mod words;

use std::sync::Arc;

use shoal_sql::{Clause, ClausePlace, Connection, Error};

use around::Demand;
use definition::MappedGraph;
use elements::DEFAULT_GRAPH;
use tables::table_facts;

/// Gives `GRAPH_TABLE`, `CYPHER`, `graph_walk` and `cypher_rows` to the statements of a connection.
pub fn register(connection: &mut Connection) {
    let known = Arc::new(known::Known::default());
    connection.register_clause(Arc::new(GraphTable(Arc::clone(&known))));
    connection.register_clause(Arc::new(cypher::Cypher));
    for function in [walk::function(), cypher::function(Arc::clone(&known))] {
        connection
            .create_table_function(function)
            .expect("the functions of graphs have names, and columns of their own");
    }
    functions::register(connection, &known);
}

/// True for a text that [`define`] runs, or refuses.
pub fn is_definition(sql: &str) -> bool {
    definition::is_statement(sql)
}

/// Runs `CREATE PROPERTY GRAPH` or `DROP PROPERTY GRAPH`. The definition is kept in the table
/// `_graph_definition` of `main`; tables of the graph are not changed.
///
/// # Errors
/// [`Error::Meaning`] with the place of a word that fits nowhere, and of tables and columns that
/// are not there; errors of writing.
pub fn define(connection: &mut Connection, sql: &str) -> Result<(), Error> {
    definition::run(connection, sql)
}

/// The clause `GRAPH_TABLE (graph MATCH ... COLUMNS (...))`.
#[derive(Debug)]
struct GraphTable(Arc<known::Known>);

impl Clause for GraphTable {
    fn word(&self) -> &str {
        "GRAPH_TABLE"
    }

    fn is_for_narrowed(&self) -> bool {
        true
    }

    fn query(
        &self,
        place: ClausePlace<'_>,
        connection: &mut Connection,
    ) -> Result<(String, usize), Error> {
        let table = pattern::parse(place.inside)?;
        let graph = self.graph(connection, &table.graph)?;
        let behind = place.inside.get(table.length..).unwrap_or_default();
        // Compressed rows are kept for whole tables: a principal's part stays a join.
        let demand = match connection.schema()?.is_narrowed() {
            true => Demand::Unknown,
            false => Demand::of(place.before, behind),
        };
        Ok((lower::query(&graph, &table, demand)?, table.length))
    }
}

impl GraphTable {
    /// The graph of a name.
    fn graph(&self, connection: &mut Connection, name: &str) -> Result<Arc<MappedGraph>, Error> {
        if let Some(graph) = self.0.definitions.find_for(name, connection)? {
            return Ok(graph);
        }
        let is_default = name.eq_ignore_ascii_case(DEFAULT_GRAPH);
        if is_default && table_facts(connection, "_graph_node")?.is_some() {
            return Ok(Arc::new(elements::default_graph()));
        }
        let message = format!("no such property graph: {name}");
        Err(Error::Meaning { message, offset: Some(0) })
    }
}

//! `shoal cypher` as types.

use std::path::PathBuf;

use clap::Args;

use super::RowFormat;

/// `shoal cypher`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The graph lies in the tables _graph_node, _graph_label and _graph_edge of the file, which any SQL can \
read; the first query that writes makes them. Each query is one transaction, durable when its answer \
is printed. Without a query, queries separated by semicolons are read from stdin; on a terminal a \
shell starts. EXPLAIN before a query prints its plan, PROFILE runs it and counts rows.

Examples:
  shoal cypher trips.db \"CREATE (:City {name: 'Oslo'})-[:TRAIN {hours: 7}]->(:City {name: 'Bergen'})\"
  shoal cypher trips.db 'MATCH (a)-[t:TRAIN]->(b) RETURN a.name, b.name, t.hours'
  shoal cypher trips.db --param from=Oslo 'MATCH p = ({name: $from})-[:TRAIN*1..3]->(b) RETURN p'
  shoal cypher trips.db --format json 'MATCH (c:City) RETURN c'
  shoal cypher shop.db --graph sales 'MATCH (:customer)-[:bought]->(p) RETURN p.name, count(*)'")]
pub(crate) struct CypherArgs {
    /// A SQLite database, or :memory:. A missing file is created by the first query that writes
    pub(crate) file: PathBuf,
    /// Queries, separated by semicolons
    pub(crate) query: Vec<String>,
    /// Ask the graph that CREATE PROPERTY GRAPH made of tables under this name
    #[arg(long, value_name = "NAME")]
    pub(crate) graph: Option<String>,
    /// How rows are printed [default: table on a terminal, list elsewhere]
    #[arg(long, value_enum)]
    pub(crate) format: Option<RowFormat>,
    /// Give the parameter $NAME its value: a literal of the query language ([1, 2], {a: 1},
    /// 'text', 2.5, null), or else plain text
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// Stop a query after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<u64>,
    /// Never write to the file
    #[arg(long)]
    pub(crate) read_only: bool,
}

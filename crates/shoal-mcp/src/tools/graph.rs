//! `graph_context`: the nodes around a node, under a budget of tokens.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal_sql::Value;

use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::cell;
use crate::desk::Work;
use crate::page::{self, Query, rows, text};
use crate::refusal::Refusal;

/// The budget of a call without one.
const TOKENS: u64 = 2000;
/// Steps of a call without a depth.
const DEPTH: u64 = 2;
/// The graph of `shoal cypher`.
const OWN_GRAPH: &str = "_graph";

pub(super) const KIND: Kind = Kind {
    name: "graph_context",
    title: "Read around a node of a graph",
    words: "Walks a property graph from a node, nearest first, and gives the nodes as lines of \
            JSON until a budget of tokens is spent, with a word on what was left out. start is \
            LABEL/KEY (as person/7) or the key of a node of the first vertex table; a number for \
            the graph of shoal cypher. The tool schema lists the graphs; one alone need not be \
            named. as rows gives a table with keys, parents and relationship types instead. For \
            patterns, use query with GRAPH_TABLE or CYPHER.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "graph": {"type": "string"},
                "start": {"type": ["string", "integer"]},
                "depth": {"type": "integer", "minimum": 0, "description": "Steps; 2 unless told"},
                "tokens": {"type": "integer", "minimum": 1, "description": "Budget; 2000 unless told"},
                "direction": {"type": "string", "enum": ["out", "in", "both"],
                              "description": "both unless told"},
                "types": {"type": "array", "items": {"type": "string"},
                          "description": "Types of relationships followed"},
                "labels": {"type": "array", "items": {"type": "string"},
                           "description": "Labels of nodes shown"},
                "policy": {
                    "type": "object",
                    "description": "More of graph_traverse: fan_out, nodes, edges, shown, weight, \
                                    min_weight, stop_at, token_property, paths"
                },
                "as": {"type": "string", "enum": ["text", "rows"]},
                "rows": {"type": "integer", "minimum": 1}
            },
            "required": ["start"],
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Walks a granted property graph from a node, nearest first, and gives the nodes as lines \
         of JSON until a budget of tokens is spent, with a word on what was left out. start is \
         LABEL/KEY (as person/7) or the key of a node of the first vertex table; a number for the \
         graph of shoal cypher. One graph alone need not be named. as rows gives a table with \
         keys, parents and relationship types instead. Rows and columns without a grant are no \
         part of the graph.",
    ),
    call,
};

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Form {
    #[default]
    Text,
    Rows,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    graph: Option<String>,
    start: Json,
    depth: Option<u64>,
    tokens: Option<u64>,
    direction: Option<String>,
    types: Option<Vec<String>>,
    labels: Option<Vec<String>>,
    #[serde(default)]
    policy: Map<String, Json>,
    #[serde(rename = "as", default)]
    form: Form,
    rows: Option<usize>,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    let graph = match given.graph {
        Some(graph) => graph,
        None => only_graph(work)?,
    };
    let start = match &given.start {
        Json::String(key) => Value::text(key.as_str()),
        Json::Number(number) if number.is_i64() => Value::Int(number.as_i64().unwrap_or_default()),
        _ => return Err(Refusal::new("start is a text such as person/7, or an integer")),
    };
    let mut policy = given.policy;
    let tokens = given.tokens.unwrap_or(TOKENS);
    policy.insert("tokens".to_owned(), json!(tokens));
    policy.entry("depth").or_insert(json!(given.depth.unwrap_or(DEPTH)));
    policy.entry("direction").or_insert(json!(given.direction.as_deref().unwrap_or("both")));
    if let Some(types) = given.types {
        policy.insert("types".to_owned(), json!(types));
    }
    if let Some(labels) = given.labels {
        policy.insert("labels".to_owned(), json!(labels));
    }
    let values = vec![Value::text(graph), start, Value::text(Json::Object(policy).to_string())];
    if given.form == Form::Rows {
        let sql = "SELECT node, node_label, depth, parent, type, path, properties, partial \
                   FROM graph_traverse(?1, ?2, ?3)";
        return page::first(work, Query::new(sql, values), given.rows).map(Answer::Object);
    }
    let sql = "SELECT text, tokens, nodes, partial FROM graph_context(?1, ?2, ?3)";
    let found = rows(work, sql, &values)?;
    let Some(row) = found.first() else {
        return Err(Refusal::new("the graph gave no context"));
    };
    let told = text(&row[0]);
    let most = work.desk.limits.bytes;
    let shown = String::from_utf8_lossy(cell::cut(told.as_bytes(), most)).into_owned();
    let mut words = format!("{} nodes, {} of {tokens} tokens", row[2].to_int(), row[1].to_int());
    let partial = text(&row[3]);
    if !partial.is_empty() {
        words.push_str(&format!("; there is more, left out by: {partial}"));
    }
    if shown.len() < told.len() {
        words.push_str("; the text is cut, being longer than an answer");
    }
    Ok(Answer::Text(format!("{shown}\n({words})")))
}

/// The one graph of the database.
fn only_graph(work: &mut Work<'_>) -> Result<String, Refusal> {
    let sql = "SELECT name FROM sqlite_schema WHERE name IN ('_graph_definition', '_graph_node')";
    let there: Vec<String> = rows(work, sql, &[])?.iter().map(|row| text(&row[0])).collect();
    let mut graphs = Vec::new();
    if there.iter().any(|name| name == "_graph_definition") {
        let found = rows(work, "SELECT name FROM _graph_definition ORDER BY name", &[])?;
        graphs.extend(found.iter().map(|row| text(&row[0])));
    }
    if there.iter().any(|name| name == "_graph_node") {
        graphs.push(OWN_GRAPH.to_owned());
    }
    match graphs.len() {
        1 => Ok(graphs.remove(0)),
        0 => Err(Refusal::new("the database has no property graph")
            .hint("CREATE PROPERTY GRAPH, on a server that writes, makes one of tables")),
        _ => Err(Refusal::new(format!("which graph: {}", graphs.join(", ")))),
    }
}

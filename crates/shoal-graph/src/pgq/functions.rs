//! Algorithms and traversals as table-valued functions: `graph_page_rank('map')`,
//! `graph_traverse('map', 'place/1', '{"depth": 2}')`.

use std::sync::Arc;

use shoal_sql::{Connection, Error, ModuleContext, TableFunction, Value as Sql};

use super::elements::DEFAULT_GRAPH;
use super::matching::GraphMatch;
use super::named::{Definitions, NamedGraph, StatementBounds, refused};
use crate::algorithms::{
    ALGORITHMS, Algorithm, Algorithms, KeptSnapshots, Selection, Snapshots, States,
};
use crate::json;
use crate::mapped::KnownKeys;
use crate::procedure::ValueKind;
use crate::traverse::{Policy, Traversal, traverse};
use crate::value::{Map, Value};

/// Registers the functions.
pub(super) fn register(connection: &mut Connection, known: &Arc<Known>) {
    let algorithms = ALGORITHMS.iter().map(|algorithm| function(algorithm, Arc::clone(known)));
    let walks = [traverse_function(Arc::clone(known)), context_function(Arc::clone(known))];
    for function in algorithms.chain(walks) {
        connection
            .create_table_function(function)
            .expect("the functions of graphs have names, and columns of their own");
    }
    connection.register_module(Arc::new(GraphMatch(Arc::clone(known))));
}

/// Kept from call to call.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) snapshots: Snapshots,
    pub(super) definitions: Definitions,
}

impl Known {
    /// Where snapshots of a graph are kept; nowhere without a state to name them by.
    pub(super) fn kept<'k>(
        &'k self,
        states: Option<&'k States>,
        graph: &'k str,
    ) -> Option<KeptSnapshots<'k>> {
        states.map(|states| KeptSnapshots { snapshots: &self.snapshots, states, graph })
    }
}

type Rows = Vec<Vec<Sql>>;

/// `algo.pageRank` as `graph_page_rank`.
fn name_of(algorithm: &Algorithm) -> String {
    let mut name = String::from("graph_");
    for letter in algorithm.name.trim_start_matches("algo.").chars() {
        if letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// True for a node among the results: two columns, the key and the label.
fn is_node(output: &str) -> bool {
    ["node", "other", "source", "target"].contains(&output)
}

fn function(algorithm: &'static Algorithm, known: Arc<Known>) -> TableFunction {
    let mut columns: Vec<String> = Vec::new();
    for output in algorithm.outputs {
        columns.push((*output).to_owned());
        if is_node(output) {
            columns.push(format!("{output}_label"));
        }
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut arguments = vec!["graph"];
    arguments.extend(algorithm.inputs.iter().map(|(name, _)| *name));
    arguments.push("options");
    TableFunction::new(name_of(algorithm), &columns, &arguments, move |given, context| {
        Ok(rows(algorithm, &known, given, context)?.into_iter().map(Ok::<_, Error>))
    })
    .reads_databases()
    .for_narrowed()
}

fn text(value: Option<&Option<Sql>>, what: &str) -> Result<Option<String>, Error> {
    match value {
        None | Some(None | Some(Sql::Null)) => Ok(None),
        Some(Some(Sql::Text(bytes))) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        Some(Some(_)) => Err(refused(format!("{what} is a text"))),
    }
}

fn graph_name(given: &[Option<Sql>]) -> Result<String, Error> {
    let name = text(given.first(), "the name of a graph")?;
    Ok(name.unwrap_or_else(|| DEFAULT_GRAPH.to_owned()))
}

fn object(value: Option<&Option<Sql>>, what: &str) -> Result<Map, Error> {
    match text(value, what)? {
        None => Ok(Map::new()),
        Some(object) => json::read(&object)
            .map_err(|error| refused(format!("{what} are a JSON object: {}", error.message()))),
    }
}

fn rows(
    algorithm: &Algorithm,
    known: &Known,
    given: &[Option<Sql>],
    context: &ModuleContext<'_>,
) -> Result<Rows, Error> {
    let name = graph_name(given)?;
    let graph = NamedGraph::find(&known.definitions, &name, context)?;
    let mut args = Vec::new();
    for (at, (name, kind)) in algorithm.inputs.iter().enumerate() {
        let value = given.get(at + 1).and_then(Option::as_ref).unwrap_or(&Sql::Null);
        args.push(match (kind, value) {
            (ValueKind::Node, Sql::Null) => {
                return Err(refused(format!("{} takes a node, its {name}", name_of(algorithm))));
            }
            (ValueKind::Node, key) => Value::Node(graph.node(key)?),
            (_, Sql::Int(number)) => Value::Integer(*number),
            (_, Sql::Text(bytes)) => Value::text(&String::from_utf8_lossy(bytes)),
            _ => Value::Null,
        });
    }
    args.push(Value::map(object(given.get(algorithm.inputs.len() + 1), "options")?));
    let bounds = StatementBounds::new(context);
    let failed = |error: crate::Error| bounds.error(&error);
    let states: Option<States> = context.states();
    let kept = known.kept(states.as_ref(), &name);
    let read =
        |selection: &Selection<'_>| KeptSnapshots::find(kept, graph.graph(), selection, &bounds);
    let found = Algorithms::run(algorithm.name, &args, graph.graph(), &bounds, &read);
    let found = found.map_err(failed)?;
    let mut keys_known = KnownKeys::default();
    let mut rows = Vec::with_capacity(found.len());
    for values in found {
        let mut row = Vec::with_capacity(values.len() + 2);
        for value in values {
            match value {
                Value::Node(id) => row.extend(graph.shown(id, &mut keys_known).map_err(failed)?),
                Value::List(nodes) => {
                    row.push(keys(&graph, node_ids(&nodes), &mut keys_known).map_err(failed)?);
                }
                Value::Integer(number) => row.push(Sql::Int(number)),
                Value::Float(number) => row.push(Sql::Real(number)),
                other => row.push(other.to_json().into()),
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

fn node_ids(nodes: &[Value]) -> impl Iterator<Item = i64> {
    nodes.iter().filter_map(|node| match node {
        Value::Node(id) => Some(*id),
        _ => None,
    })
}

/// Keys of nodes as a JSON array.
fn keys(
    graph: &NamedGraph<'_>,
    ids: impl Iterator<Item = i64>,
    known: &mut KnownKeys,
) -> crate::Result<Sql> {
    let mut list = Vec::new();
    for id in ids {
        let [key, _] = graph.shown(id, known)?;
        list.push(match key {
            Sql::Int(number) => Value::Integer(number),
            Sql::Real(number) => Value::Float(number),
            Sql::Text(bytes) => Value::text(&String::from_utf8_lossy(&bytes)),
            Sql::Null | Sql::Blob(_) => Value::Null,
        });
    }
    Ok(Value::List(list.into()).to_json().into())
}

fn traverse_function(known: Arc<Known>) -> TableFunction {
    let columns = [
        "node",
        "node_label",
        "depth",
        "parent",
        "type",
        "tokens",
        "path",
        "properties",
        "partial",
        "dangling",
    ];
    TableFunction::new("graph_traverse", &columns, &ARGUMENTS, move |given, context| {
        let walk = walk(&known, given, context)?;
        let failed = |error: crate::Error| refused(error.to_string());
        let rows = walk.rows().map_err(failed)?;
        Ok(rows.into_iter().map(Ok::<_, Error>))
    })
    .reads_databases()
    .for_narrowed()
}

fn context_function(known: Arc<Known>) -> TableFunction {
    let columns = ["text", "tokens", "nodes", "partial"];
    TableFunction::new("graph_context", &columns, &ARGUMENTS, move |given, context| {
        let walk = walk(&known, given, context)?;
        let (text, tokens) =
            walk.found.context(walk.graph.graph()).map_err(|error| refused(error.to_string()))?;
        let count = walk.found.visits.len();
        let row = vec![text.into(), number(tokens), number(count as u64), walk.partial()];
        Ok([Ok::<_, Error>(row)])
    })
    .reads_databases()
    .for_narrowed()
}

const ARGUMENTS: [&str; 3] = ["graph", "start", "policy"];

fn number(count: u64) -> Sql {
    Sql::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// A traversal with its graph.
struct Walked<'s> {
    graph: NamedGraph<'s>,
    found: Traversal,
    has_paths: bool,
    has_data: bool,
}

impl Walked<'_> {
    fn partial(&self) -> Sql {
        self.found.partial_words().map_or(Sql::Null, Sql::from)
    }

    fn rows(&self) -> crate::Result<Rows> {
        let mut known = KnownKeys::default();
        let mut rows = Vec::with_capacity(self.found.visits.len());
        for visit in &self.found.visits {
            let mut row = Vec::from(self.graph.shown(visit.node, &mut known)?);
            row.push(Sql::Int(visit.depth.into()));
            let (mut parent, mut kind) = (Sql::Null, Sql::Null);
            if let Some((before, edge)) = visit.before {
                [parent, _] = self.graph.shown(before, &mut known)?;
                let edge = self.graph.graph().relationship(edge)?;
                kind = edge.map_or(Sql::Null, |edge| Sql::text(&*edge.kind));
            }
            row.extend([parent, kind, number(visit.tokens)]);
            row.push(match self.has_paths {
                true => keys(&self.graph, self.found.path(visit.node).into_iter(), &mut known)?,
                false => Sql::Null,
            });
            row.push(match self.has_data {
                true => json::write(&visit.data.properties).into(),
                false => Sql::Null,
            });
            row.extend([self.partial(), number(self.found.dangling)]);
            rows.push(row);
        }
        Ok(rows)
    }
}

fn walk<'s>(
    known: &Known,
    given: &[Option<Sql>],
    context: &ModuleContext<'s>,
) -> Result<Walked<'s>, Error> {
    let graph = NamedGraph::find(&known.definitions, &graph_name(given)?, context)?;
    let Some(Some(start)) = given.get(1) else {
        return Err(refused("a traversal takes a node to start from"));
    };
    let start = graph.node(start)?;
    let words = object(given.get(2), "policies")?;
    let asked = Asked::read(&words, &graph)?;
    let ends = asked.time_ms.map(|ms| context.clock_unix_ms().saturating_add(ms));
    let is_late = || ends.is_some_and(|ends| context.clock_unix_ms() >= ends);
    let bounds = StatementBounds::new(context);
    let found = traverse(graph.graph(), start, &asked.policy, &is_late, &bounds);
    let found = found.map_err(|error| bounds.error(&error))?;
    Ok(Walked { graph, found, has_paths: asked.has_paths, has_data: asked.has_data })
}

/// A policy read from a JSON object.
struct Asked {
    policy: Policy,
    time_ms: Option<i64>,
    has_paths: bool,
    has_data: bool,
}

impl Asked {
    fn read(words: &Map, graph: &NamedGraph<'_>) -> Result<Asked, Error> {
        let mut policy = Policy { token_property: "tokens".to_owned(), ..Policy::default() };
        let (mut time_ms, mut has_paths, mut has_data) = (None, false, true);
        let mut weight = "weight".to_owned();
        let mut least = None;
        for (key, value) in words {
            let wrong = |wanted: &str| refused(format!("the policy {key} is {wanted}"));
            let count = || match value {
                Value::Integer(count) => {
                    u64::try_from(*count).map_err(|_| wrong("a number from 0 on"))
                }
                _ => Err(wrong("a number from 0 on")),
            };
            let text = || match value {
                Value::Text(text) => Ok((**text).to_owned()),
                _ => Err(wrong("a text")),
            };
            let is_so = || match value {
                Value::Boolean(is_so) => Ok(*is_so),
                _ => Err(wrong("true or false")),
            };
            let map = || match value {
                Value::Map(map) => Ok((**map).clone()),
                _ => Err(wrong("an object of properties")),
            };
            let texts = || {
                let one = |value: &Value| match value {
                    Value::Text(text) => Ok((**text).to_owned()),
                    _ => Err(wrong("a text, or a list of texts")),
                };
                match value {
                    Value::List(list) => list.iter().map(one).collect(),
                    one_text => one(one_text).map(|text| vec![text]),
                }
            };
            let small = || count().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
            let size = || count().map(|count| usize::try_from(count).unwrap_or(usize::MAX));
            match &**key {
                "direction" => match text()?.as_str() {
                    "out" => policy.outgoing = true,
                    "in" => policy.incoming = true,
                    "both" => (policy.outgoing, policy.incoming) = (true, true),
                    _ => return Err(wrong("'out', 'in' or 'both'")),
                },
                "depth" => policy.depth = Some(small()?),
                "fan_out" => policy.fan_out = Some(size()?),
                "types" => policy.types = texts()?,
                "edges" => policy.edges = map()?,
                "labels" => policy.labels = texts()?,
                "shown" => policy.shown = map()?,
                "weight" => weight = text()?,
                "min_weight" => match value {
                    Value::Integer(number) => least = Some(*number as f64),
                    Value::Float(number) => least = Some(*number),
                    _ => return Err(wrong("a number")),
                },
                "stop_at" => {
                    let key = match value {
                        Value::Integer(number) => Sql::Int(*number),
                        _ => Sql::from(text()?),
                    };
                    policy.stop_at = Some(graph.node(&key)?);
                }
                "nodes" => policy.nodes = Some(size()?),
                "tokens" => policy.tokens = Some(count()?),
                "token_property" => policy.token_property = text()?,
                "time_ms" => time_ms = Some(i64::try_from(count()?).unwrap_or(i64::MAX)),
                "paths" => has_paths = is_so()?,
                "data" => has_data = is_so()?,
                _ => {
                    return Err(refused(format!(
                        "there is no policy {key}: direction, depth, fan_out, types, edges, \
                         labels, shown, weight, min_weight, stop_at, nodes, tokens, \
                         token_property, time_ms, paths, data"
                    )));
                }
            }
        }
        policy.least_weight = least.map(|least| (weight, least));
        Ok(Asked { policy, time_ms, has_paths, has_data })
    }
}

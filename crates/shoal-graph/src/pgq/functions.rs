//! Algorithms and traversals as table-valued functions: `graph_page_rank('map')`,
//! `graph_traverse('map', 'place/1', '{"depth": 2}')`.

use std::sync::Arc;

use shoal_sql::{
    Connection, Error, Module, ModuleContext, ModuleRows, TableFunction, Value as Sql,
};

use super::definition::MappedGraph;
use super::elements::DEFAULT_GRAPH;
use super::known::Known;
use super::matching::GraphMatch;
use super::named::{NamedGraph, StatementBounds, refused};
use crate::algorithms::{ALGORITHMS, Algorithm, Algorithms, Found, KeptSnapshots, Selection};
use crate::json;
use crate::mapped::KnownKeys;
use crate::procedure::{Bounds, ValueKind};
use crate::traverse::{Policy, Traversal, traverse};
use crate::value::{Map, Value};

/// Registers the functions.
pub(super) fn register(connection: &mut Connection, known: &Arc<Known>) {
    for algorithm in &ALGORITHMS {
        connection.register_module(Arc::new(Function::of(algorithm, Arc::clone(known))));
    }
    for function in [traverse_function(Arc::clone(known)), context_function(Arc::clone(known))] {
        connection
            .create_table_function(function)
            .expect("the functions of graphs have names, and columns of their own");
    }
    connection.register_module(Arc::new(GraphMatch(Arc::clone(known))));
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

/// An algorithm as a table-valued function.
#[derive(Debug)]
struct Function {
    algorithm: &'static Algorithm,
    name: String,
    /// For each column, whose output it is and whether it is a node's label.
    columns: Vec<(String, usize, bool)>,
    arguments: Vec<&'static str>,
    known: Arc<Known>,
}

impl Function {
    fn of(algorithm: &'static Algorithm, known: Arc<Known>) -> Function {
        let mut columns = Vec::new();
        for (at, output) in algorithm.outputs.iter().enumerate() {
            columns.push(((*output).to_owned(), at, false));
            if is_node(output) {
                columns.push((format!("{output}_label"), at, true));
            }
        }
        let mut arguments = vec!["graph"];
        arguments.extend(algorithm.inputs.iter().map(|(name, _)| *name));
        arguments.push("options");
        Function { algorithm, name: name_of(algorithm), columns, arguments, known }
    }
}

impl Module for Function {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> Vec<&str> {
        self.columns.iter().map(|(name, ..)| name.as_str()).collect()
    }

    fn arguments(&self) -> &[&str] {
        &self.arguments
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn reads_by_queries(&self) -> bool {
        true
    }

    fn open(
        &self,
        arguments: &[Option<Sql>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let (found, definition) = found(self.algorithm, &self.known, arguments, context)?;
        let columns = self.columns.iter().map(|(_, output, is_label)| (*output, *is_label));
        Ok(Box::new(FoundRows {
            columns: columns.collect(),
            found,
            definition,
            reads: (0..self.columns.len()).collect(),
            folds: false,
            shown: None,
        }))
    }
}

/// The rows of a call; of the columns, those that the statement reads are made.
#[derive(Debug)]
struct FoundRows {
    columns: Vec<(usize, bool)>,
    found: Found,
    definition: Option<Arc<MappedGraph>>,
    reads: Vec<usize>,
    folds: bool,
    /// The values of all rows, once the first row was asked for.
    shown: Option<std::vec::IntoIter<Sql>>,
}

impl FoundRows {
    /// True where rows are counted and not looked at: all come as one.
    fn is_count(&self) -> bool {
        self.folds && self.reads.is_empty()
    }

    fn show(&self, context: &ModuleContext<'_>) -> Result<Vec<Sql>, Error> {
        if self.is_count() {
            return Ok(vec![Sql::Null; if self.found.len() > 0 { self.columns.len() } else { 0 }]);
        }
        let graph = NamedGraph::of(self.definition.clone(), context)?;
        let bounds = StatementBounds::new(context);
        let failed = |error: crate::Error| bounds.error(&error);
        let mut known = KnownKeys::default();
        let mut values = Vec::with_capacity(self.found.len() * self.columns.len());
        for row in self.found.rows() {
            bounds.tick().map_err(failed)?;
            for (column, (output, is_label)) in self.columns.iter().enumerate() {
                values.push(match &row[*output] {
                    _ if !self.reads.contains(&column) => Sql::Null,
                    Value::Node(id) if *is_label => graph.label(*id).map_err(failed)?,
                    Value::Node(id) => graph.key(*id, &mut known).map_err(failed)?,
                    Value::List(nodes) => {
                        keys(&graph, node_ids(nodes), &mut known).map_err(failed)?
                    }
                    Value::Integer(number) => Sql::Int(*number),
                    Value::Float(number) => Sql::Real(*number),
                    other => other.to_json().into(),
                });
            }
        }
        Ok(values)
    }
}

impl ModuleRows for FoundRows {
    fn next(&mut self, row: &mut Vec<Sql>, context: &ModuleContext<'_>) -> Result<bool, Error> {
        let shown = match &mut self.shown {
            Some(shown) => shown,
            None => {
                let all = self.show(context)?;
                self.shown.insert(all.into_iter())
            }
        };
        row.extend(shown.take(self.columns.len()));
        Ok(!row.is_empty())
    }

    fn reads(&mut self, columns: &[usize], folds: bool) {
        (self.reads, self.folds) = (columns.to_vec(), folds);
    }

    fn repeats(&self) -> u64 {
        if self.is_count() { self.found.len() as u64 } else { 1 }
    }
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

/// The rows of a call, and the definition of its graph.
fn found(
    algorithm: &Algorithm,
    known: &Known,
    given: &[Option<Sql>],
    context: &ModuleContext<'_>,
) -> Result<(Found, Option<Arc<MappedGraph>>), Error> {
    let name = graph_name(given)?;
    let opened = known.open(&name, context)?;
    let graph = &opened.graph;
    let (mut args, mut unsure) = (Vec::new(), Vec::new());
    for (at, (name, kind)) in algorithm.inputs.iter().enumerate() {
        let value = given.get(at + 1).and_then(Option::as_ref).unwrap_or(&Sql::Null);
        args.push(match (kind, value) {
            (ValueKind::Node, Sql::Null) => {
                return Err(refused(format!("{} takes a node, its {name}", name_of(algorithm))));
            }
            (ValueKind::Node, key) => Value::Node(match graph.node_if_any(key) {
                Some(id) => {
                    unsure.push(key);
                    id
                }
                None => graph.node(key)?,
            }),
            (_, Sql::Int(number)) => Value::Integer(*number),
            (_, Sql::Text(bytes)) => Value::text(&String::from_utf8_lossy(bytes)),
            _ => Value::Null,
        });
    }
    args.push(Value::map(object(given.get(algorithm.inputs.len() + 1), "options")?));
    let bounds = StatementBounds::new(context);
    let found = known.with_kept(&name, &opened, context, |kept| {
        let read = |selection: &Selection<'_>| {
            KeptSnapshots::find(kept, graph.graph(), selection, &bounds)
        };
        Algorithms::run(algorithm.name, &args, graph.graph(), &bounds, &read)
    });
    match found {
        Ok(found) => Ok((found, graph.definition())),
        Err(error) => {
            // A node that is not there is told as such.
            let told = bounds.error(&error);
            for key in unsure {
                graph.node(key)?;
            }
            Err(told)
        }
    }
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
    let graph = known.open(&graph_name(given)?, context)?.graph;
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

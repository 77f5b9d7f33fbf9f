//! One case of the kit: its steps carried out on a graph, its results and side effects compared.

#[path = "expected.rs"]
mod expected;
#[path = "procedures.rs"]
mod procedures;

use std::collections::BTreeSet;
use std::path::Path;

use shoal_graph::{Environment, Error, Graph, MEMORY_MAX, Map, Phase, Value};

use super::gherkin::{Case, Step};
use procedures::Tables;

type Rows = (Vec<String>, Vec<Vec<Value>>);

/// A graph as the kit observes it.
#[derive(Default)]
struct Observed {
    nodes: BTreeSet<i64>,
    relationships: BTreeSet<i64>,
    labels: BTreeSet<String>,
    properties: BTreeSet<String>,
}

fn observe(graph: &dyn Graph) -> Result<Observed, String> {
    let mut observed = Observed::default();
    let fail = |error: Error| error.to_string();
    let mut ids = Vec::new();
    graph.nodes(None, None, usize::MAX >> 1, &mut ids).map_err(fail)?;
    for id in ids {
        let node = graph.node(id).map_err(fail)?.ok_or("a node that is listed is not there")?;
        observed.nodes.insert(id);
        observed.labels.extend(node.labels.iter().map(|label| label.to_string()));
        observed
            .properties
            .extend(node.properties.iter().map(|(key, value)| format!("n{id}.{key}={value}")));
    }
    let mut ids = Vec::new();
    graph.relationships(None, usize::MAX >> 1, &mut ids).map_err(fail)?;
    for id in ids {
        let one = graph
            .relationship(id)
            .map_err(fail)?
            .ok_or("a relationship that is listed is not there")?;
        observed.relationships.insert(id);
        observed
            .properties
            .extend(one.properties.iter().map(|(key, value)| format!("r{id}.{key}={value}")));
    }
    Ok(observed)
}

fn effects(before: &Observed, after: &Observed) -> Vec<(&'static str, usize)> {
    let effects = vec![
        ("+nodes", after.nodes.difference(&before.nodes).count()),
        ("-nodes", before.nodes.difference(&after.nodes).count()),
        ("+relationships", after.relationships.difference(&before.relationships).count()),
        ("-relationships", before.relationships.difference(&after.relationships).count()),
        ("+labels", after.labels.difference(&before.labels).count()),
        ("-labels", before.labels.difference(&after.labels).count()),
        ("+properties", after.properties.difference(&before.properties).count()),
        ("-properties", before.properties.difference(&after.properties).count()),
    ];
    effects.into_iter().filter(|(_, count)| *count > 0).collect()
}

struct Bench {
    graph: Box<dyn Graph>,
    parameters: Map,
    tables: Tables,
}

impl Bench {
    fn execute(&self, text: &str) -> Result<Rows, Error> {
        let environment = Environment {
            parameters: &self.parameters,
            procedures: &self.tables,
            now_nanos: 1_700_000_000_123_456_789,
            seed: 7,
            is_over: &|| false,
            memory_max: MEMORY_MAX,
        };
        let mut names = Vec::new();
        let mut rows = Vec::new();
        shoal_graph::run(
            &*self.graph,
            text,
            &environment,
            &mut |columns| {
                names = columns.to_vec();
                Ok(())
            },
            &mut |row| {
                rows.push(row);
                Ok(true)
            },
        )?;
        Ok((names, rows))
    }

    /// The value of a cell that is an expression.
    fn value(&self, cell: &str) -> Result<Value, String> {
        let (_, rows) =
            self.execute(&format!("RETURN {cell} AS value")).map_err(|error| error.to_string())?;
        Ok(rows[0][0].clone())
    }
}

pub(crate) fn run(case: &Case) -> Result<(), String> {
    for (name, graph) in super::graphs() {
        run_on(case, graph).map_err(|why| format!("on the graph {name}: {why}"))?;
    }
    Ok(())
}

fn run_on(case: &Case, graph: Box<dyn Graph>) -> Result<(), String> {
    let mut bench = Bench { graph, parameters: Map::new(), tables: Tables::default() };
    let mut result: Option<Result<Rows, Error>> = None;
    let mut before = Observed::default();
    let mut after = Observed::default();
    for step in &case.steps {
        let text = step.text.as_str();
        if text == "an empty graph" || text == "any graph" {
            continue;
        }
        if let Some(name) = text.strip_prefix("the ").and_then(|text| text.strip_suffix(" graph")) {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tck/graphs");
            let script = std::fs::read_to_string(folder.join(name).join(format!("{name}.cypher")));
            let script = script.map_err(|error| format!("{name}: {error}"))?;
            bench.execute(&script).map_err(|error| format!("{name}: {error}"))?;
        } else if text == "having executed:" {
            let doc = step.doc.as_deref().unwrap_or_default();
            bench.execute(doc).map_err(|error| format!("having executed: {error}"))?;
        } else if text.starts_with("parameters are:") || text.starts_with("parameter values are:") {
            for row in &step.table {
                let value = bench.value(&row[1])?;
                bench.parameters.insert(row[0].as_str().into(), value);
            }
        } else if let Some(signature) = text.strip_prefix("there exists a procedure ") {
            let (header, rows) = step.table.split_first().ok_or("a procedure has a table")?;
            let rows = rows
                .iter()
                .map(|row| row.iter().map(|cell| bench.value(cell)).collect())
                .collect::<Result<Vec<Vec<Value>>, String>>()?;
            bench.tables.add(signature.trim_end_matches(':'), header, rows)?;
        } else if text == "executing query:" || text == "executing control query:" {
            let is_main = text == "executing query:";
            if is_main {
                before = observe(&*bench.graph)?;
            } else if let Some(Err(error)) = &result {
                return Err(error.to_string());
            }
            result = Some(bench.execute(step.doc.as_deref().unwrap_or_default()));
            if is_main {
                after = observe(&*bench.graph)?;
                if matches!(result, Some(Err(_))) && !effects(&before, &after).is_empty() {
                    return Err("a query that failed left side effects".to_owned());
                }
            }
        } else if text.starts_with("the result should be") {
            let (names, rows) = match &result {
                Some(Ok(found)) => found,
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("no query".to_owned()),
            };
            compare(step, names, rows)?;
        } else if text == "no side effects" || text.starts_with("the side effects should be") {
            if let Some(Err(error)) = &result {
                return Err(error.to_string());
            }
            let mut wanted: Vec<(String, usize)> = step
                .table
                .iter()
                .map(|row| (row[0].clone(), row[1].parse().unwrap_or(0)))
                .filter(|(_, count)| *count > 0)
                .collect();
            let mut found: Vec<(String, usize)> = effects(&before, &after)
                .into_iter()
                .map(|(name, count)| (name.to_owned(), count))
                .collect();
            wanted.sort();
            found.sort();
            if wanted != found {
                return Err(format!("side effects {found:?}, wanted {wanted:?}"));
            }
        } else if let Some((class, rest)) = text.split_once(" should be raised at ") {
            check_error(class, rest, &result)?;
        } else {
            return Err(format!("an unknown step: {text}"));
        }
    }
    Ok(())
}

fn check_error(
    class: &str,
    rest: &str,
    result: &Option<Result<Rows, Error>>,
) -> Result<(), String> {
    let class = class.split(' ').next_back().unwrap_or_default();
    let (phase, detail) = rest.split_once(": ").unwrap_or((rest, "*"));
    let error = match result {
        Some(Err(error)) => error,
        _ => return Err(format!("no error, wanted {class} {detail}")),
    };
    let fits_phase = match phase {
        "compile time" => error.phase() == Phase::Compile,
        "runtime" => error.phase() == Phase::Runtime,
        _ => true,
    };
    let fits = format!("{:?}", error.class()) == class
        && fits_phase
        && (detail == "*" || error.detail() == detail);
    if fits {
        Ok(())
    } else {
        Err(format!("{:?} {error}, wanted {class} at {phase}: {detail}", error.phase()))
    }
}

fn compare(step: &Step, names: &[String], rows: &[Vec<Value>]) -> Result<(), String> {
    if step.text == "the result should be empty" {
        return if rows.is_empty() {
            Ok(())
        } else {
            Err(format!("{} rows, wanted none", rows.len()))
        };
    }
    let in_order = step.text.contains("in order");
    let sorts_lists = step.text.contains("ignoring element order");
    let (header, expected) = step.table.split_first().ok_or("a result has a table")?;
    if names.is_empty() && header.iter().all(String::is_empty) {
        return Ok(());
    }
    let mut places = Vec::new();
    for name in header {
        match names.iter().position(|found| found == name) {
            Some(at) => places.push(at),
            None => return Err(format!("no column {name} among {names:?}")),
        }
    }
    if header.len() != names.len() {
        return Err(format!("columns {names:?}, wanted {header:?}"));
    }
    let mut wanted = Vec::new();
    for row in expected {
        let cells = row
            .iter()
            .map(|cell| expected::of_cell(cell, sorts_lists))
            .collect::<Result<Vec<_>, _>>()?;
        wanted.push(cells.join(" | "));
    }
    let mut found: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells: Vec<String> =
                places.iter().map(|&at| expected::of_value(&row[at], sorts_lists)).collect();
            cells.join(" | ")
        })
        .collect();
    if !in_order {
        wanted.sort();
        found.sort();
    }
    if wanted == found { Ok(()) } else { Err(format!("found {found:#?}, wanted {wanted:#?}")) }
}

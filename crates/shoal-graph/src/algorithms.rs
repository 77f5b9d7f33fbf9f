//! Graph algorithms as procedures: `CALL algo.pageRank() YIELD node, score`.
//!
//! Each call reads nodes and relationships once, into a [`Snapshot`] of compressed rows, and runs
//! on that. Definitions follow LDBC Graphalytics where it has one; `docs/graph.md` lists them.

mod central;
mod components;
mod options;
mod paths;
mod snapshot;

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::procedure::{Bounds, Input, Procedures, Signature, ValueKind};
use crate::value::Value;
use options::Options;
use snapshot::{Direction, Snapshot};

/// The procedures of this crate, `algo.*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithms;

/// A procedure's name, its arguments before `options`, its own options, and its results.
struct Algorithm {
    name: &'static str,
    inputs: &'static [(&'static str, ValueKind)],
    options: &'static [&'static str],
    outputs: &'static [&'static str],
}

const START: (&str, ValueKind) = ("start", ValueKind::Node);

const ALGORITHMS: [Algorithm; 12] = [
    Algorithm { name: "algo.bfs", inputs: &[START], options: &[], outputs: &["node", "depth"] },
    Algorithm {
        name: "algo.shortestPaths",
        inputs: &[START, ("weight", ValueKind::Text)],
        options: &[],
        outputs: &["node", "cost"],
    },
    Algorithm {
        name: "algo.degree",
        inputs: &[],
        options: &[],
        outputs: &["node", "outgoing", "incoming"],
    },
    Algorithm {
        name: "algo.pageRank",
        inputs: &[],
        options: &["damping", "rounds"],
        outputs: &["node", "score"],
    },
    Algorithm { name: "algo.betweenness", inputs: &[], options: &[], outputs: &["node", "score"] },
    Algorithm {
        name: "algo.components",
        inputs: &[],
        options: &[],
        outputs: &["node", "component"],
    },
    Algorithm {
        name: "algo.strongComponents",
        inputs: &[],
        options: &[],
        outputs: &["node", "component"],
    },
    Algorithm {
        name: "algo.labelPropagation",
        inputs: &[],
        options: &["rounds"],
        outputs: &["node", "community"],
    },
    Algorithm { name: "algo.triangles", inputs: &[], options: &[], outputs: &["triangles"] },
    Algorithm {
        name: "algo.clustering",
        inputs: &[],
        options: &[],
        outputs: &["node", "coefficient"],
    },
    Algorithm { name: "algo.cores", inputs: &[], options: &[], outputs: &["node", "core"] },
    Algorithm {
        name: "algo.topologicalOrder",
        inputs: &[],
        options: &[],
        outputs: &["node", "place"],
    },
];

fn algorithm(name: &str) -> Option<&'static Algorithm> {
    ALGORITHMS.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

impl Procedures for Algorithms {
    fn signature(&self, name: &str) -> Option<Signature> {
        let algorithm = algorithm(name)?;
        let input =
            |name: &str, kind, is_optional| Input { name: name.to_owned(), kind, is_optional };
        let mut inputs: Vec<Input> =
            algorithm.inputs.iter().map(|(name, kind)| input(name, *kind, false)).collect();
        inputs.push(input("options", ValueKind::Map, true));
        let outputs = algorithm.outputs.iter().map(|name| (*name).to_owned()).collect();
        Some(Signature { inputs, outputs })
    }

    fn call(
        &self,
        name: &str,
        args: &[Value],
        graph: &dyn Graph,
        bounds: &dyn Bounds,
    ) -> Result<Vec<Vec<Value>>> {
        let algorithm = algorithm(name)
            .ok_or_else(|| Error::argument(format!("no procedure is named {name}")))?;
        let options =
            Options::read(algorithm.name, algorithm.options, args.get(algorithm.inputs.len()))?;
        let start = match (algorithm.inputs.first(), args.first()) {
            (None, _) => None,
            (Some(_), Some(Value::Node(id))) => Some(*id),
            (Some(_), other) => {
                let kind = other.map_or("nothing", Value::type_name);
                return Err(Error::value_type(format!("the start is a node, not {kind}")));
            }
        };
        let weight = match (algorithm.inputs.get(1), args.get(1)) {
            (None, _) => None,
            (Some(_), Some(Value::Text(key))) => Some(&**key),
            (Some(_), other) => {
                let kind = other.map_or("nothing", Value::type_name);
                let message = format!("the weight is the name of a property, not {kind}");
                return Err(Error::value_type(message));
            }
        };
        let snapshot = Snapshot::read(graph, &options.selection(weight), bounds)?;
        let start = || {
            start.and_then(|id| snapshot.place(id)).ok_or_else(|| {
                Error::argument("the start is not among the nodes that the procedure runs on")
            })
        };
        // A row of two values is counted before it is made.
        bounds.keep(snapshot.len().saturating_mul(ROW_BYTES))?;
        Ok(match algorithm.name {
            "algo.bfs" => {
                let depths = paths::breadth_first(&snapshot, start()?, bounds)?;
                rows(&snapshot, &depths, |depth| {
                    depth.map(|depth| Value::Integer(i64::from(depth)))
                })
            }
            "algo.shortestPaths" => {
                let costs = paths::dijkstra(&snapshot, start()?, bounds)?;
                rows(&snapshot, &costs, |cost| cost.is_finite().then_some(Value::Float(*cost)))
            }
            "algo.degree" => (0..snapshot.len())
                .map(|at| {
                    let count = |count: usize| Value::Integer(count as i64);
                    let outgoing = count(snapshot.outgoing(at).len());
                    let incoming = count(snapshot.incoming(at).len());
                    vec![Value::Node(snapshot.id(at)), outgoing, incoming]
                })
                .collect(),
            "algo.pageRank" => {
                let (damping, rounds) = (options.damping(0.85)?, options.rounds(20)?);
                let scores = central::page_rank(&snapshot, damping, rounds, bounds)?;
                rows(&snapshot, &scores, |score| Some(Value::Float(*score)))
            }
            "algo.betweenness" => {
                let mut scores = central::betweenness(&snapshot, bounds)?;
                if options.direction() == Direction::Both {
                    // Each pair of ends was counted from either of them.
                    scores.iter_mut().for_each(|score| *score /= 2.0);
                }
                rows(&snapshot, &scores, |score| Some(Value::Float(*score)))
            }
            "algo.components" => components_rows(&snapshot, &components::weak(&snapshot, bounds)?),
            "algo.strongComponents" => {
                components_rows(&snapshot, &components::strong(&snapshot, bounds)?)
            }
            "algo.labelPropagation" => {
                let labels = components::label_propagation(&snapshot, options.rounds(10)?, bounds)?;
                rows(&snapshot, &labels, |label| Some(Value::Integer(*label)))
            }
            "algo.triangles" => {
                vec![vec![Value::Integer(central::triangles(&snapshot, bounds)? as i64)]]
            }
            "algo.clustering" => {
                rows(&snapshot, &central::clustering(&snapshot, bounds)?, |value| {
                    Some(Value::Float(*value))
                })
            }
            "algo.cores" => rows(&snapshot, &components::cores(&snapshot, bounds)?, |core| {
                Some(Value::Integer(i64::from(*core)))
            }),
            "algo.topologicalOrder" => {
                let order = paths::topological(&snapshot, bounds)?;
                let row = |(place, at): (usize, &usize)| {
                    vec![Value::Node(snapshot.id(*at)), Value::Integer(place as i64)]
                };
                order.iter().enumerate().map(row).collect()
            }
            other => unreachable!("{other} has a signature and an algorithm"),
        })
    }
}

/// Memory of a row of up to three values.
const ROW_BYTES: usize = 24 + 3 * 24;

fn rows<T>(
    snapshot: &Snapshot,
    values: &[T],
    value: impl Fn(&T) -> Option<Value>,
) -> Vec<Vec<Value>> {
    let row = |(at, one): (usize, &T)| Some(vec![Value::Node(snapshot.id(at)), value(one)?]);
    values.iter().enumerate().filter_map(row).collect()
}

/// Components by the smallest id in each.
fn components_rows(snapshot: &Snapshot, components: &[usize]) -> Vec<Vec<Value>> {
    let mut least = vec![i64::MAX; snapshot.len()];
    for (at, component) in components.iter().enumerate() {
        least[*component] = least[*component].min(snapshot.id(at));
    }
    rows(snapshot, components, |component| Some(Value::Integer(least[*component])))
}

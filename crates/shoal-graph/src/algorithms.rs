//! Graph algorithms as procedures: `CALL algo.pageRank() YIELD node, score`.
//!
//! Each call reads nodes and relationships once, into a [`Snapshot`] of compressed rows, and runs
//! on that. Definitions follow LDBC Graphalytics where it has one; `docs/graph.md` lists them.

mod blocks;
mod central;
mod community;
mod components;
mod distance;
mod options;
mod pairs;
mod paths;
mod routes;
mod snapshot;
mod snapshots;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::procedure::{Bounds, Input, Procedures, Signature, ValueKind};
use crate::value::Value;
use options::Options;
pub(crate) use snapshot::{Direction, Marks, Selection, Snapshot};
pub(crate) use snapshots::{KeptSnapshots, Snapshots, States};

/// The procedures of this crate, `algo.*`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Algorithms;

/// A procedure's name, its arguments before `options`, its own options, and its results.
#[derive(Debug)]
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    pub(crate) inputs: &'static [(&'static str, ValueKind)],
    options: &'static [&'static str],
    pub(crate) outputs: &'static [&'static str],
}

const START: (&str, ValueKind) = ("start", ValueKind::Node);

const END: (&str, ValueKind) = ("end", ValueKind::Node);

/// The name of the property with a relationship's weight; null counts each as 1.
const WEIGHT: (&str, ValueKind) = ("weight", ValueKind::Text);

pub(crate) static ALGORITHMS: [Algorithm; 20] = [
    Algorithm { name: "algo.bfs", inputs: &[START], options: &[], outputs: &["node", "depth"] },
    Algorithm {
        name: "algo.shortestPaths",
        inputs: &[START, WEIGHT],
        options: &[],
        outputs: &["node", "cost"],
    },
    Algorithm {
        name: "algo.aStar",
        inputs: &[START, END, WEIGHT],
        options: &["x", "y", "scale"],
        outputs: &["nodes", "cost", "visited"],
    },
    Algorithm {
        name: "algo.kShortestPaths",
        inputs: &[START, END, ("count", ValueKind::Integer), WEIGHT],
        options: &[],
        outputs: &["nodes", "cost", "place"],
    },
    Algorithm {
        name: "algo.spanningTree",
        inputs: &[WEIGHT],
        options: &[],
        outputs: &["source", "target", "cost"],
    },
    Algorithm {
        name: "algo.similarity",
        inputs: &[],
        options: &["cutoff"],
        outputs: &["node", "other", "similarity"],
    },
    Algorithm { name: "algo.closeness", inputs: &[], options: &[], outputs: &["node", "score"] },
    Algorithm { name: "algo.harmonic", inputs: &[], options: &[], outputs: &["node", "score"] },
    Algorithm {
        name: "algo.louvain",
        inputs: &[],
        options: &["weight", "resolution"],
        outputs: &["node", "community"],
    },
    Algorithm {
        name: "algo.leiden",
        inputs: &[],
        options: &["weight", "resolution", "rounds"],
        outputs: &["node", "community"],
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
        let read =
            |selection: &Selection<'_>| Snapshot::read(graph, selection, bounds).map(Arc::new);
        let found = Algorithms::run(name, args, graph, bounds, &read)?;
        Ok(found.rows().map(<[Value]>::to_vec).collect())
    }
}

/// The rows of a call, one behind the other.
#[derive(Debug)]
pub(crate) struct Found {
    width: usize,
    values: Vec<Value>,
}

impl Found {
    fn of(width: usize, rows: impl IntoIterator<Item = Vec<Value>>) -> Found {
        Found { width, values: rows.into_iter().flatten().collect() }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[Value]> {
        self.values.chunks_exact(self.width)
    }
}

/// Gives the snapshot of a part of the graph.
pub(crate) type ReadSnapshot<'r> = dyn Fn(&Selection<'_>) -> Result<Arc<Snapshot>> + 'r;

impl Algorithms {
    /// [`Procedures::call`] on the snapshots of `read`.
    ///
    /// # Errors
    /// The errors of the call, and of `read`.
    pub(crate) fn run(
        name: &str,
        args: &[Value],
        graph: &dyn Graph,
        bounds: &dyn Bounds,
        read: &ReadSnapshot<'_>,
    ) -> Result<Found> {
        let algorithm = algorithm(name)
            .ok_or_else(|| Error::argument(format!("no procedure is named {name}")))?;
        let options =
            Options::read(algorithm.name, algorithm.options, args.get(algorithm.inputs.len()))?;
        let given = Arguments::read(algorithm.inputs, args)?;
        let weight = match given.weight {
            Some(key) => Some(key),
            None if algorithm.options.contains(&"weight") => options.text("weight")?,
            None => None,
        };
        let snapshot = &*read(&options.selection(weight))?;
        let place = |nth: usize, name: &str| {
            given.nodes.get(nth).and_then(|id| snapshot.place(*id)).ok_or_else(|| {
                let message =
                    format!("the {name} is not among the nodes that the procedure runs on");
                Error::argument(message)
            })
        };
        let start = || place(0, "start");
        let ends = || Ok::<_, Error>((place(0, "start")?, place(1, "end")?));
        // A row of two values is counted before it is made.
        bounds.keep(snapshot.len().saturating_mul(ROW_BYTES))?;
        Ok(match algorithm.name {
            "algo.bfs" => {
                let depths = paths::breadth_first(snapshot, start()?, bounds)?;
                rows(snapshot, &depths, |depth| {
                    (*depth != paths::FAR).then(|| Value::Integer(i64::from(*depth)))
                })
            }
            "algo.shortestPaths" => {
                let costs = paths::dijkstra(snapshot, start()?, bounds)?;
                rows(snapshot, &costs, |cost| cost.is_finite().then_some(Value::Float(*cost)))
            }
            "algo.degree" => {
                let row = |at: usize| {
                    let count = |count: usize| Value::Integer(count as i64);
                    let outgoing = count(snapshot.outgoing(at).len());
                    let incoming = count(snapshot.incoming(at).len());
                    [Value::Node(snapshot.id(at)), outgoing, incoming]
                };
                Found { width: 3, values: (0..snapshot.len()).flat_map(row).collect() }
            }
            "algo.pageRank" => {
                let (damping, rounds) = (options.damping(0.85)?, options.rounds(20)?);
                let scores = central::page_rank(snapshot, damping, rounds, bounds)?;
                rows(snapshot, &scores, |score| Some(Value::Float(*score)))
            }
            "algo.betweenness" => {
                let mut scores = central::betweenness(snapshot, bounds)?;
                if options.direction() == Direction::Both {
                    // Each pair of ends was counted from either of them.
                    scores.iter_mut().for_each(|score| *score /= 2.0);
                }
                rows(snapshot, &scores, |score| Some(Value::Float(*score)))
            }
            "algo.components" => components_rows(snapshot, &components::weak(snapshot, bounds)?),
            "algo.strongComponents" => {
                components_rows(snapshot, &components::strong(snapshot, bounds)?)
            }
            "algo.labelPropagation" => {
                let labels = components::label_propagation(snapshot, options.rounds(10)?, bounds)?;
                rows(snapshot, &labels, |label| Some(Value::Integer(*label)))
            }
            "algo.triangles" => {
                let triangles = central::triangles(snapshot, bounds)?;
                Found { width: 1, values: vec![Value::Integer(triangles as i64)] }
            }
            "algo.clustering" => rows(snapshot, &central::clustering(snapshot, bounds)?, |value| {
                Some(Value::Float(*value))
            }),
            "algo.cores" => rows(snapshot, &components::cores(snapshot, bounds)?, |core| {
                Some(Value::Integer(i64::from(*core)))
            }),
            "algo.topologicalOrder" => {
                let order = paths::topological(snapshot, bounds)?;
                let row = |(place, at): (usize, &usize)| {
                    [Value::Node(snapshot.id(*at)), Value::Integer(place as i64)]
                };
                Found { width: 2, values: order.iter().enumerate().flat_map(row).collect() }
            }
            "algo.aStar" => {
                let estimate = Estimate::read(graph, &options)?;
                let route = match (weight, estimate.keys) {
                    (None, None) => routes::shortest(snapshot, ends()?, bounds)?,
                    _ => estimate.route(snapshot, ends()?, bounds)?,
                };
                let row = |(route, visited): (routes::Route, usize)| {
                    let visited = Value::Integer(visited as i64);
                    vec![nodes_of(snapshot, &route), Value::Float(route.cost), visited]
                };
                Found::of(3, route.into_iter().map(row))
            }
            "algo.kShortestPaths" => {
                let routes = routes::several(snapshot, ends()?, given.count, bounds)?;
                let row = |(place, route): (usize, &routes::Route)| {
                    let place = Value::Integer(place as i64 + 1);
                    vec![nodes_of(snapshot, route), Value::Float(route.cost), place]
                };
                Found::of(3, routes.iter().enumerate().map(row))
            }
            "algo.spanningTree" => pair_rows(snapshot, &pairs::spanning(snapshot, bounds)?),
            "algo.similarity" => {
                let cutoff = options.positive("cutoff", 0.0)?;
                pair_rows(snapshot, &pairs::jaccard(snapshot, cutoff, bounds)?)
            }
            "algo.closeness" => rows(snapshot, &distance::closeness(snapshot, bounds)?, |score| {
                score.map(Value::Float)
            }),
            "algo.harmonic" => rows(snapshot, &distance::harmonic(snapshot, bounds)?, |score| {
                Some(Value::Float(*score))
            }),
            "algo.louvain" | "algo.leiden" => {
                let resolution = options.positive("resolution", 1.0)?;
                let refines = algorithm.name == "algo.leiden";
                let rounds = options.rounds(10)?;
                let found = community::communities(snapshot, resolution, rounds, refines, bounds)?;
                components_rows(snapshot, &found)
            }
            other => unreachable!("{other} has a signature and an algorithm"),
        })
    }
}

/// The arguments of a call before its options.
#[derive(Default)]
struct Arguments<'a> {
    nodes: Vec<i64>,
    weight: Option<&'a str>,
    count: usize,
}

impl<'a> Arguments<'a> {
    fn read(inputs: &[(&'static str, ValueKind)], args: &'a [Value]) -> Result<Arguments<'a>> {
        let mut given = Arguments::default();
        for (at, (name, kind)) in inputs.iter().enumerate() {
            let wrong = |wanted: &str| {
                let kind = args.get(at).map_or("nothing", Value::type_name);
                Error::value_type(format!("the {name} is {wanted}, not {kind}"))
            };
            match (kind, args.get(at)) {
                (ValueKind::Node, Some(Value::Node(id))) => given.nodes.push(*id),
                (ValueKind::Node, _) => return Err(wrong("a node")),
                (ValueKind::Integer, Some(Value::Integer(number))) => {
                    given.count = usize::try_from(*number).map_err(|_| {
                        Error::argument(format!("the {name} is not negative, as {number} is"))
                    })?;
                }
                (ValueKind::Integer, _) => return Err(wrong("an integer")),
                (_, Some(Value::Text(key))) => given.weight = Some(&**key),
                // Paths and trees without weights count relationships.
                (_, Some(Value::Null)) if inputs.len() != 2 => {}
                _ => return Err(wrong("the name of a property")),
            }
        }
        Ok(given)
    }
}

/// The estimate of A* for the cost left: the straight line between coordinates, times a scale.
struct Estimate<'a> {
    graph: &'a dyn Graph,
    keys: Option<(&'a str, &'a str)>,
    scale: f64,
}

impl<'a> Estimate<'a> {
    fn read(graph: &'a dyn Graph, options: &Options<'a>) -> Result<Estimate<'a>> {
        let keys = match (options.text("x")?, options.text("y")?) {
            (Some(x), Some(y)) => Some((x, y)),
            (None, None) => None,
            _ => return Err(Error::argument("coordinates are both properties, x and y")),
        };
        Ok(Estimate { graph, keys, scale: options.positive("scale", 1.0)? })
    }

    fn coordinates(&self, id: i64) -> Result<(f64, f64)> {
        let Some((x, y)) = self.keys else { return Ok((0.0, 0.0)) };
        let node = self.graph.node(id)?;
        let number = |key: &str| match node.as_ref().and_then(|node| node.properties.get(key)) {
            Some(Value::Integer(number)) => Ok(*number as f64),
            Some(Value::Float(number)) if number.is_finite() => Ok(*number),
            _ => Err(Error::value_type(format!("node {id} has no number {key} as a coordinate"))),
        };
        Ok((number(x)?, number(y)?))
    }

    /// The cheapest route, and how many nodes were estimated on the way.
    fn route(
        &self,
        snapshot: &Snapshot,
        ends: (usize, usize),
        bounds: &dyn Bounds,
    ) -> Result<Option<(routes::Route, usize)>> {
        let (x, y) = self.coordinates(snapshot.id(ends.1))?;
        let mut known: FxHashMap<u32, f64> = FxHashMap::default();
        let mut left = |at: u32| {
            if let Some(estimate) = known.get(&at) {
                return Ok(*estimate);
            }
            let here = self.coordinates(snapshot.id(at as usize))?;
            let estimate = (here.0 - x).hypot(here.1 - y) * self.scale;
            known.insert(at, estimate);
            Ok(estimate)
        };
        let none = (&FxHashSet::default(), &FxHashSet::default());
        let route = routes::cheapest(snapshot, ends, none, &mut left, bounds)?;
        Ok(route.map(|route| (route, known.len())))
    }
}

fn nodes_of(snapshot: &Snapshot, route: &routes::Route) -> Value {
    let nodes = route.nodes.iter().map(|at| Value::Node(snapshot.id(*at as usize)));
    Value::List(nodes.collect())
}

fn pair_rows(snapshot: &Snapshot, pairs: &[pairs::Pair]) -> Found {
    let node = |at: u32| Value::Node(snapshot.id(at as usize));
    let row = |&(a, b, number): &pairs::Pair| [node(a), node(b), Value::Float(number)];
    Found { width: 3, values: pairs.iter().flat_map(row).collect() }
}

/// Memory of a row of up to three values.
const ROW_BYTES: usize = 24 + 3 * 24;

fn rows<T>(snapshot: &Snapshot, values: &[T], value: impl Fn(&T) -> Option<Value>) -> Found {
    let row = |(at, one): (usize, &T)| Some([Value::Node(snapshot.id(at)), value(one)?]);
    Found { width: 2, values: values.iter().enumerate().filter_map(row).flatten().collect() }
}

/// Components by the smallest id in each.
fn components_rows(snapshot: &Snapshot, components: &[usize]) -> Found {
    let mut least = vec![i64::MAX; snapshot.len()];
    for (at, component) in components.iter().enumerate() {
        least[*component] = least[*component].min(snapshot.id(at));
    }
    rows(snapshot, components, |component| Some(Value::Integer(least[*component])))
}

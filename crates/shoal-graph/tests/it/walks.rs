//! The matcher beside a naive enumerator: every walk of every pattern over random graphs with
//! loops, parallel relationships and nodes without any.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shoal_graph::{
    Environment, Graph, MEMORY_MAX, Map, MemoryGraph, NoProcedures, NodeData, RelationshipData,
    SqliteGraph, Value,
};
use shoal_sql::Connection;
use shoal_store::{Access, Store};
use shoal_testkit::Random;

/// A graph as the enumerator reads it: labels of nodes, ends and types of relationships.
struct Plain {
    nodes: Vec<(i64, Vec<&'static str>)>,
    edges: Vec<(i64, i64, i64, &'static str)>,
}

/// One relationship of a pattern: direction, type, bounds of its length.
#[derive(Clone, Copy)]
struct Step {
    direction: char,
    kind: Option<&'static str>,
    length: Option<(usize, usize)>,
}

/// Graphs of a test: so many, or as `SHOAL_GRAPHS_RANDOM` says.
fn rounds(usual: u64) -> u64 {
    let asked = std::env::var("SHOAL_GRAPHS_RANDOM");
    asked.map_or(usual, |count| count.parse().expect("a number of graphs"))
}

const LABELS: [&str; 2] = ["A", "B"];
const KINDS: [&str; 2] = ["R", "S"];

/// A type, and either of both.
const TYPES: [&str; 3] = ["R", "S", "R|S"];

fn random_graph(random: &mut Random, graph: &dyn Graph) -> Plain {
    let mut plain = Plain { nodes: Vec::new(), edges: Vec::new() };
    graph.begin(true).expect("a graph in memory begins");
    for _ in 0..1 + random.place(5) {
        let labels: Vec<&'static str> =
            LABELS.into_iter().filter(|_| random.place(2) == 0).collect();
        let data = NodeData {
            labels: labels.iter().map(|label| Arc::from(*label)).collect(),
            properties: Map::new(),
        };
        plain.nodes.push((graph.create_node(data).expect("a node"), labels));
    }
    for _ in 0..random.place(8) {
        let source = plain.nodes[random.place(plain.nodes.len())].0;
        let target = plain.nodes[random.place(plain.nodes.len())].0;
        let kind = KINDS[random.place(2)];
        let data = RelationshipData { source, target, kind: kind.into(), properties: Map::new() };
        plain.edges.push((
            graph.create_relationship(data).expect("a relationship"),
            source,
            target,
            kind,
        ));
    }
    graph.commit().expect("a graph in memory commits");
    plain
}

impl Plain {
    /// Ends of the steps from a node along an edge, in a direction.
    fn steps_from(&self, node: i64, direction: char) -> Vec<(i64, i64, &'static str)> {
        let mut found = Vec::new();
        for &(id, source, target, kind) in &self.edges {
            if source == node && direction != '<' {
                found.push((id, target, kind));
            }
            if target == node && direction != '>' && !(direction == '-' && source == target) {
                found.push((id, source, kind));
            }
        }
        found
    }

    /// Trails of one step: the relationships, and the node at the end.
    fn trails(&self, node: i64, step: Step, used: &[i64]) -> Vec<(Vec<i64>, i64)> {
        let (min, max) = step.length.unwrap_or((1, 1));
        let mut all = Vec::new();
        let mut level = vec![(Vec::new(), node)];
        for depth in 0..=max {
            if depth >= min {
                all.extend(level.iter().cloned());
            }
            let mut next = Vec::new();
            for (trail, node) in &level {
                for (id, other, kind) in self.steps_from(*node, step.direction) {
                    let fits =
                        step.kind.is_none_or(|wanted| wanted.split('|').any(|one| one == kind));
                    if fits && !used.contains(&id) && !trail.contains(&id) {
                        let mut longer = trail.clone();
                        longer.push(id);
                        next.push((longer, other));
                    }
                }
            }
            level = next;
        }
        all
    }

    /// All rows of a pattern: ids of nodes by variable, and relationships of each step.
    fn rows(&self, vars: &[usize], labels: &[Option<&'static str>], steps: &[Step]) -> Vec<String> {
        let mut rows = Vec::new();
        for (id, _) in &self.nodes {
            self.extend(vars, labels, steps, vec![*id], Vec::new(), &mut rows);
        }
        rows.sort();
        rows
    }

    fn extend(
        &self,
        vars: &[usize],
        labels: &[Option<&'static str>],
        steps: &[Step],
        nodes: Vec<i64>,
        trails: Vec<Vec<i64>>,
        rows: &mut Vec<String>,
    ) {
        let at = nodes.len() - 1;
        let is_same = vars[..at]
            .iter()
            .position(|var| *var == vars[at])
            .is_none_or(|first| nodes[first] == nodes[at]);
        let has =
            &self.nodes.iter().find(|(id, _)| *id == nodes[at]).expect("a node of the walk").1;
        if !is_same || labels[at].is_some_and(|label| !has.contains(&label)) {
            return;
        }
        if at == steps.len() {
            rows.push(format!("{nodes:?} {trails:?}"));
            return;
        }
        let used: Vec<i64> = trails.concat();
        for (trail, end) in self.trails(nodes[at], steps[at], &used) {
            let (mut nodes, mut trails) = (nodes.clone(), trails.clone());
            nodes.push(end);
            trails.push(trail);
            self.extend(vars, labels, steps, nodes, trails, rows);
        }
    }
}

fn pattern_text(vars: &[usize], labels: &[Option<&'static str>], steps: &[Step]) -> String {
    let node = |at: usize| {
        format!("(n{}{})", vars[at], labels[at].map_or(String::new(), |label| format!(":{label}")))
    };
    let mut text = node(0);
    for (at, step) in steps.iter().enumerate() {
        let length = step.length.map_or(String::new(), |(min, max)| format!("*{min}..{max}"));
        let kind = step.kind.map_or(String::new(), |kind| format!(":{kind}"));
        let (left, right) = match step.direction {
            '<' => ("<-", "-"),
            '>' => ("-", "->"),
            _ => ("-", "-"),
        };
        text.push_str(&format!("{left}[r{at}{kind}{length}]{right}{}", node(at + 1)));
    }
    text
}

fn query(graph: &dyn Graph, text: &str) -> Vec<Vec<Value>> {
    let environment = Environment {
        parameters: &Map::new(),
        procedures: &NoProcedures,
        now_nanos: 0,
        seed: 1,
        is_over: &|| false,
        memory_max: MEMORY_MAX,
    };
    let mut rows = Vec::new();
    let mut sink = |row| {
        rows.push(row);
        Ok(true)
    };
    shoal_graph::run(graph, text, &environment, &mut |_| Ok(()), &mut sink)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    rows
}

fn tables() -> SqliteGraph {
    let vfs = Arc::new(shoal_vfs::MemVfs::new());
    let store = Store::open(vfs, Path::new("graph.db"), Access::Create).expect("a file in memory");
    SqliteGraph::new(Connection::open(store).expect("an empty file"))
}

#[test]
fn explain_names_the_index_of_a_property() {
    let graph = tables();
    query(&graph, "UNWIND range(1, 50) AS i CREATE (:City {name: 'c' + toString(i)})");
    let plan = |text: &str| query(&graph, &format!("EXPLAIN {text}"))[1].clone();
    let asked = "MATCH (a:City {name: 'c7'}) RETURN a.name";
    assert_eq!(plan(asked), [Value::text("  nodes by label (a:City)")]);
    graph.with_connection(|connection| {
        let sql = "CREATE INDEX city_name ON _graph_node(properties ->> '$.name')";
        let mut statement = connection.prepare(sql).expect(sql);
        connection.execute(&mut statement).expect(sql);
    });
    assert_eq!(plan(asked), [Value::text("  nodes by index on name (a:City)")]);
    assert_eq!(plan("MATCH (a {size: 7}) RETURN a.name"), [Value::text("  all nodes (a)")]);
    assert_eq!(query(&graph, asked), [[Value::text("c7")]]);
}

#[test]
fn explain_names_the_multiway_join() {
    let graph = tables();
    query(&graph, "UNWIND range(1, 5) AS i CREATE (:City {name: i})-[:ROAD]->(:City {name: -i})");
    let plan = |text: &str| query(&graph, &format!("EXPLAIN {text}"))[1][0].to_string();
    for asked in [
        "MATCH (a)-->(b)-->(c) RETURN count(*)",
        "MATCH (a:City)-[r:ROAD]-(b)-[:ROAD]-(a) WHERE a.name > 1 RETURN a.name, count(r)",
        "MATCH (a)-->(b)<--(c), (c)-->(a) RETURN a, b ORDER BY a.name LIMIT 3",
        "MATCH p = (a)-->(b) RETURN count(p)",
        "MATCH (a)-[:ROAD|RAIL]->(b)-[:RAIL|ROAD]->(c)-[:RIVER]->(d) RETURN count(*)",
    ] {
        assert!(plan(asked).contains("multiway join"), "{asked}: {}", plan(asked));
    }
    for asked in [
        "MATCH (a)-[r]->(b) RETURN r",
        "MATCH (a)-[*1..2]->(b) RETURN count(*)",
        "MATCH (a)-[:ROAD|RAIL]->(b)-[:ROAD]->(c) RETURN count(*)",
        "MATCH (a)-[:ROAD]->(b)-->(c) RETURN count(*)",
        "MATCH (a)-->(b)--(c) RETURN count(*)",
        "MATCH p = (a)-->(b) RETURN count(DISTINCT p)",
        "MATCH p = (a)-->(b) RETURN length(p)",
        "MATCH (a)-[{x: 1}]->(b) RETURN count(*)",
        "MATCH (a)-->(b) RETURN a.name LIMIT 1",
        "MATCH (a)-->(b) WHERE rand() < 2 RETURN count(*)",
        "MATCH (a)-->(b) WHERE (b)-->() RETURN count(*)",
        "OPTIONAL MATCH (a)-->(b) RETURN count(*)",
    ] {
        assert!(!plan(asked).contains("multiway join"), "{asked}");
    }
}

#[test]
fn patterns_match_every_walk_of_a_naive_enumerator() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let (mut compared, mut rows_seen) = (0, 0);
    for round in 0..rounds(4000) {
        let graph: Box<dyn Graph> =
            if round % 25 == 0 { Box::new(tables()) } else { Box::new(MemoryGraph::new()) };
        let plain = random_graph(&mut random, &*graph);
        let count = 1 + random.place(3);
        let vars: Vec<usize> = (0..=count)
            .map(|at| if random.place(5) == 0 { random.place(at + 1) } else { at })
            .collect();
        let labels: Vec<Option<&'static str>> = (0..=count)
            .map(|_| if random.place(3) == 0 { Some(LABELS[random.place(2)]) } else { None })
            .collect();
        let steps: Vec<Step> = (0..count)
            .map(|_| Step {
                direction: ['<', '>', '-'][random.place(3)],
                kind: if random.place(2) == 0 { Some(TYPES[random.place(3)]) } else { None },
                length: if random.place(3) == 0 {
                    let min = random.place(3);
                    Some((min, min + random.place(3)))
                } else {
                    None
                },
            })
            .collect();
        let wanted = plain.rows(&vars, &labels, &steps);
        let pattern = pattern_text(&vars, &labels, &steps);
        let nodes: Vec<String> = vars.iter().map(|var| format!("id(n{var})")).collect();
        let trails: Vec<String> = steps
            .iter()
            .enumerate()
            .map(|(at, step)| match step.length {
                Some(_) => format!("[x IN r{at} | id(x)]"),
                None => format!("[id(r{at})]"),
            })
            .collect();
        let text = format!(
            "MATCH {pattern} RETURN [{}] AS n, [{}] AS t",
            nodes.join(", "),
            trails.join(", ")
        );
        let mut found: Vec<String> =
            query(&*graph, &text).iter().map(|row| format!("{} {}", row[0], row[1])).collect();
        found.sort();
        assert_eq!(found, wanted, "round {round}: {text}\n{:?}\n{:?}", plain.nodes, plain.edges);
        counts_agree(&*graph, &plain, (&vars, &labels, &steps), &wanted);
        // A path has the same rows, and as many relationships as its steps.
        let text = format!("MATCH p = {pattern} RETURN length(p) AS l, size(nodes(p)) AS n");
        for row in query(&*graph, &text) {
            let (Value::Integer(length), Value::Integer(nodes)) = (&row[0], &row[1]) else {
                panic!("{row:?}")
            };
            assert_eq!(length + 1, *nodes);
        }
        compared += 1;
        rows_seen += wanted.len();
    }
    assert!(rows_seen > compared, "{rows_seen} rows in {compared} patterns");
}

/// Counts, groups and distinct rows of a pattern beside the rows of the enumerator, with conditions
/// on nodes.
fn counts_agree(
    graph: &dyn Graph,
    plain: &Plain,
    (vars, labels, steps): (&[usize], &[Option<&'static str>], &[Step]),
    rows: &[String],
) {
    let pattern = pattern_text(vars, labels, steps);
    let nodes: Vec<Vec<i64>> = rows
        .iter()
        .map(|row| {
            let (ids, _) = row.split_once(']').expect("a list of ids");
            ids[1..].split(", ").map(|id| id.parse().expect("an id")).collect()
        })
        .collect();
    let count = |text: &str| match &*query(graph, text) {
        [row] => match row[0] {
            Value::Integer(count) => count as usize,
            _ => panic!("{text}: {row:?}"),
        },
        rows => panic!("{text}: {rows:?}"),
    };
    assert_eq!(count(&format!("MATCH {pattern} RETURN count(*)")), rows.len(), "{pattern}");
    assert_eq!(count(&format!("MATCH {pattern} RETURN count(r0)")), rows.len(), "{pattern}");
    assert_eq!(count(&format!("MATCH p = {pattern} RETURN count(p)")), rows.len(), "{pattern}");
    // Groups of each node, with a sum that every equal row adds to.
    for (at, var) in vars.iter().enumerate() {
        let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
        for row in &nodes {
            *wanted.entry(row[at]).or_default() += 1;
        }
        let text = format!(
            "MATCH {pattern} RETURN id(n{var}) AS n, count(*) AS c, sum(id(n{var})) AS s ORDER BY n"
        );
        let wanted: Vec<Vec<Value>> = wanted
            .into_iter()
            .map(|(id, count)| [id, count, id * count].map(Value::Integer).to_vec())
            .collect();
        assert_eq!(query(graph, &text), wanted, "{text} {:?}", plain.edges);
        let text = format!("MATCH {pattern} RETURN DISTINCT id(n{var}) AS n ORDER BY n");
        let ids: Vec<Vec<Value>> = wanted.iter().map(|row| row[..1].to_vec()).collect();
        assert_eq!(query(graph, &text), ids, "{text}");
    }
    // Conditions on one node and on two.
    let (first, last) = (vars[0], vars[vars.len() - 1]);
    let middle = plain.nodes[plain.nodes.len() / 2].0;
    let text = format!(
        "MATCH {pattern} WHERE id(n{first}) <> {middle} AND id(n{first}) <= id(n{last}) \
         WITH n{last} AS last RETURN id(last) AS n, count(*) AS c ORDER BY n"
    );
    let mut wanted: BTreeMap<i64, i64> = BTreeMap::new();
    for row in &nodes {
        let (first, last) = (row[0], row[row.len() - 1]);
        if first != middle && first <= last {
            *wanted.entry(last).or_default() += 1;
        }
    }
    let wanted: Vec<Vec<Value>> =
        wanted.into_iter().map(|pair| [pair.0, pair.1].map(Value::Integer).to_vec()).collect();
    assert_eq!(query(graph, &text), wanted, "{text} {:?}", plain.edges);
    // Rows themselves, equal ones as often as they match.
    let shown: Vec<String> = vars.iter().map(|var| format!("id(n{var})")).collect();
    let text = format!("MATCH {pattern} RETURN [{}] AS n", shown.join(", "));
    let mut found: Vec<String> = query(graph, &text).iter().map(|row| row[0].to_string()).collect();
    found.sort();
    let mut wanted: Vec<String> = nodes.iter().map(|row| format!("{row:?}")).collect();
    wanted.sort();
    assert_eq!(found, wanted, "{text}");
}

#[test]
fn shortest_paths_are_the_shortest_of_all_trails() {
    let mut random = Random::new(0x1234_5678_9abc_def1);
    for round in 0..rounds(2000) {
        let graph = MemoryGraph::new();
        let plain = random_graph(&mut random, &graph);
        let step = Step {
            direction: ['<', '>', '-'][random.place(3)],
            kind: if random.place(3) == 0 { Some(KINDS[random.place(2)]) } else { None },
            length: Some((1, 8)),
        };
        // The shortest trails by pairs of different nodes.
        let mut wanted: BTreeMap<(i64, i64), (usize, usize)> = BTreeMap::new();
        for (from, _) in &plain.nodes {
            for (trail, to) in plain.trails(*from, step, &[]) {
                let best = wanted.entry((*from, to)).or_insert((usize::MAX, 0));
                match trail.len().cmp(&best.0) {
                    std::cmp::Ordering::Less => *best = (trail.len(), 1),
                    std::cmp::Ordering::Equal => best.1 += 1,
                    std::cmp::Ordering::Greater => {}
                }
            }
        }
        wanted.retain(|(from, to), _| from != to);
        let pattern = pattern_text(&[0, 1], &[None, None], &[step]);
        for function in ["shortestPath", "allShortestPaths"] {
            let text = format!(
                "MATCH (n0), (n1) MATCH p = {function}({}) RETURN id(n0), id(n1), length(p), count(*)",
                pattern.replace("n0:", "n0").replace("n1:", "n1")
            );
            let mut found: BTreeMap<(i64, i64), (usize, usize)> = BTreeMap::new();
            for row in query(&graph, &text) {
                let number = |at: usize| match row[at] {
                    Value::Integer(number) => number,
                    _ => panic!("{row:?}"),
                };
                found.insert((number(0), number(1)), (number(2) as usize, number(3) as usize));
            }
            let expected: BTreeMap<_, _> = wanted
                .iter()
                .map(|(pair, (length, count))| {
                    (*pair, (*length, if function == "shortestPath" { 1 } else { *count }))
                })
                .collect();
            assert_eq!(found, expected, "round {round}: {text}\n{:?}", plain.edges);
        }
    }
}

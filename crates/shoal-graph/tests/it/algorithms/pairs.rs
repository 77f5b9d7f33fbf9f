//! Paths, trees, pairs and communities beside plain definitions, on random graphs.

use std::collections::{BTreeMap, BTreeSet};

use shoal_graph::{Graph, Map, MemoryGraph, NodeData, RelationshipData, Value};
use shoal_testkit::Random;

use super::data::{Edges, float, integer, load_edges, numbers, query, testdata, text};
use super::naive::Plain;

/// Compares the procedures on one random graph; `ids` are the nodes of its places.
pub(crate) fn check(
    graph: &dyn Graph,
    options: &str,
    ids: &[i64],
    plain: &Plain,
    random: &mut Random,
) {
    let place = |value: &Value| {
        ids.iter().position(|id| *id == integer(value)).expect("a node of the selection")
    };
    let rows = |text: &str| query(graph, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let near = |found: f64, wanted: f64, what: &str| {
        assert!(
            (found - wanted).abs() < 1e-9,
            "{what}: {found}, not {wanted}: {:?}",
            plain.followed
        );
    };
    let scores = |name: &str| -> BTreeMap<usize, f64> {
        let text = format!("CALL {name}({{{options}}}) YIELD node, score RETURN id(node), score");
        rows(&text).iter().map(|row| (place(&row[0]), float(&row[1]))).collect()
    };
    let (closeness, harmonic) = (scores("algo.closeness"), scores("algo.harmonic"));
    for at in 0..plain.count {
        let costs = plain.costs(at, |_| 1.0);
        let reached: Vec<f64> =
            costs.iter().copied().filter(|cost| cost.is_finite() && *cost > 0.0).collect();
        near(harmonic[&at], reached.iter().map(|cost| 1.0 / cost).sum(), "harmonic");
        match reached.is_empty() {
            true => assert!(!closeness.contains_key(&at)),
            false => {
                near(closeness[&at], reached.len() as f64 / reached.iter().sum::<f64>(), "close");
            }
        }
    }

    // Trees: as many steps as nodes less components, and the weight of Prim's.
    let text = format!(
        "CALL algo.spanningTree('weight', {{{options}}}) YIELD source, target, cost \
         RETURN id(source), id(target), cost"
    );
    let tree = rows(&text);
    let components: BTreeSet<usize> = plain.components(false).into_iter().collect();
    assert_eq!(tree.len(), plain.count - components.len());
    let weight: f64 = tree.iter().map(|row| float(&row[2])).sum();
    near(weight, plain.tree(), "spanning tree");
    for row in &tree {
        let (a, b, weight) = (place(&row[0]), place(&row[1]), float(&row[2]));
        assert!(
            plain.followed.iter().any(|edge| *edge == (a, b, weight) || *edge == (b, a, weight))
        );
    }

    // Similar nodes, each pair once.
    let text = format!(
        "CALL algo.similarity({{{options}}}) YIELD node, other, similarity \
         RETURN id(node), id(other), similarity"
    );
    let found: BTreeMap<(usize, usize), f64> =
        rows(&text).iter().map(|row| ((place(&row[0]), place(&row[1])), float(&row[2]))).collect();
    let targets = |at: usize| -> BTreeSet<usize> {
        let own = plain.followed.iter().filter(|edge| edge.0 == at && edge.1 != at);
        own.map(|edge| edge.1).collect()
    };
    for a in 0..plain.count {
        for b in a + 1..plain.count {
            let (of_a, of_b) = (targets(a), targets(b));
            let (both, either) = (of_a.intersection(&of_b).count(), of_a.union(&of_b).count());
            match found.get(&(a, b)) {
                Some(score) => near(*score, both as f64 / either as f64, "similarity"),
                None => assert_eq!(both, 0),
            }
        }
    }

    // Routes between two nodes, by all routes there are.
    if plain.count > 0 {
        let (start, end) = (random.place(plain.count), random.place(plain.count));
        let before = format!(
            "MATCH (start), (end) WHERE id(start) = {} AND id(end) = {} ",
            ids[start], ids[end]
        );
        let wanted = plain.routes(start, end);
        let count = random.place(6);
        let text = format!(
            "{before}CALL algo.kShortestPaths(start, end, {count}, 'weight', {{{options}}}) \
             YIELD nodes, cost, place RETURN [n IN nodes | id(n)], cost ORDER BY place"
        );
        let found = rows(&text);
        assert_eq!(found.len(), wanted.len().min(count), "{text} in {:?}", plain.followed);
        let mut seen = BTreeSet::new();
        for (row, wanted) in found.iter().zip(&wanted) {
            near(float(&row[1]), *wanted, "a route's cost");
            let Value::List(nodes) = &row[0] else { panic!("nodes are a list") };
            let nodes: Vec<usize> = nodes.iter().map(place).collect();
            assert_eq!((nodes.first(), nodes.last()), (Some(&start), Some(&end)));
            near(plain.length(&nodes), *wanted, "the cost of a route's nodes");
            assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), nodes.len());
            assert!(seen.insert(nodes));
        }
        let text = format!(
            "{before}CALL algo.aStar(start, end, 'weight', {{{options}}}) YIELD cost RETURN cost"
        );
        let found = rows(&text);
        assert_eq!(found.len(), wanted.len().min(1));
        if let (Some(row), Some(wanted)) = (found.first(), wanted.first()) {
            near(float(&row[0]), *wanted, "A*");
        }
    }

    for name in ["algo.louvain", "algo.leiden"] {
        let text = format!(
            "CALL {name}({{{options}, weight: 'weight'}}) YIELD node, community \
             RETURN id(node), community"
        );
        let mut groups = vec![usize::MAX; plain.count];
        for row in rows(&text) {
            groups[place(&row[0])] = place(&row[1]);
        }
        let single: Vec<usize> = (0..plain.count).collect();
        let (found, least) = (plain.modularity(&groups), plain.modularity(&single));
        assert!(found >= least - 1e-9, "{name}: {found} is below {least}");
        if name == "algo.louvain" {
            continue;
        }
        assert!(plain.hang_together(&groups), "{groups:?} in {:?}", plain.followed);
        // No node gains by a move to another community.
        for at in 0..plain.count {
            for group in 0..plain.count {
                let mut other = groups.clone();
                other[at] = group;
                let moved = plain.modularity(&other);
                assert!(
                    moved <= found + 1e-9,
                    "{name}: {at} to {group} gains: {:?}",
                    plain.followed
                );
            }
        }
    }
}

/// A* on a grid finds the costs of Dijkstra, and looks at fewer nodes.
#[test]
fn coordinates_lead_a_star() {
    const SIDE: i64 = 20;
    let graph = MemoryGraph::new();
    graph.begin(true).expect("a graph begins");
    let mut random = Random::new(7);
    let number = |value: i64| Value::Integer(value);
    let mut ids = Vec::new();
    for at in 0..SIDE * SIDE {
        let properties =
            Map::from([("x".into(), number(at % SIDE)), ("y".into(), number(at / SIDE))]);
        ids.push(graph.create_node(NodeData { labels: Vec::new(), properties }).expect("a node"));
    }
    for at in 0..SIDE * SIDE {
        for (other, is_there) in [(at + 1, at % SIDE + 1 < SIDE), (at + SIDE, at / SIDE + 1 < SIDE)]
        {
            if !is_there {
                continue;
            }
            let weight = 1.0 + random.place(4) as f64 / 8.0;
            let data = RelationshipData {
                source: ids[at as usize],
                target: ids[other as usize],
                kind: "R".into(),
                properties: Map::from([("weight".into(), Value::Float(weight))]),
            };
            graph.create_relationship(data).expect("a relationship");
        }
    }
    graph.commit().expect("a graph commits");
    let start = ids[(SIDE * 9 + 9) as usize];
    let costs: BTreeMap<i64, f64> = query(
        &graph,
        &format!(
            "MATCH (s) WHERE id(s) = {start} CALL algo.shortestPaths(s, 'weight', {{direction: 'both'}}) \
             YIELD node, cost RETURN id(node), cost"
        ),
    )
    .expect("costs")
    .iter()
    .map(|row| (integer(&row[0]), float(&row[1])))
    .collect();
    let mut visited = [0, 0];
    for end in ids.iter().step_by(17) {
        for (which, more) in ["", ", x: 'x', y: 'y'"].iter().enumerate() {
            let text = format!(
                "MATCH (s), (e) WHERE id(s) = {start} AND id(e) = {end} \
                 CALL algo.aStar(s, e, 'weight', {{direction: 'both'{more}}}) YIELD cost, visited \
                 RETURN cost, visited"
            );
            let rows = query(&graph, &text).expect("a route");
            assert!((float(&rows[0][0]) - costs[end]).abs() < 1e-9);
            visited[which] += integer(&rows[0][1]);
        }
    }
    assert!(visited[1] * 2 < visited[0], "{visited:?}");
}

/// Modularity of communities of the edges' nodes.
fn modularity(edges: &Edges, groups: &BTreeMap<i64, i64>) -> f64 {
    let total: f64 = edges.iter().map(|edge| edge.2).sum();
    let mut degrees: BTreeMap<i64, f64> = BTreeMap::new();
    let mut inside = 0.0;
    for (source, target, weight) in edges {
        let (a, b) = (groups[source], groups[target]);
        *degrees.entry(a).or_default() += weight;
        *degrees.entry(b).or_default() += weight;
        inside += if a == b { *weight } else { 0.0 };
    }
    inside / total - degrees.values().map(|sum| (sum / (2.0 * total)).powi(2)).sum::<f64>()
}

/// Answers of igraph 1.0 for files changed together; its communities are the best of five runs.
#[test]
fn trees_nearness_and_communities_beside_igraph() {
    let lines = numbers(&text(&testdata("cargo-history/cochange.csv.gz")), ',');
    let edges = |weight: &dyn Fn(f64) -> f64| -> Edges {
        lines.iter().map(|line| (line[0] as i64, line[1] as i64, weight(line[2]))).collect()
    };
    let graph = load_edges(&edges(&|commits| 1.0 / commits));
    let call = "CALL algo.spanningTree('weight') YIELD cost RETURN count(cost), sum(cost)";
    let rows = query(&*graph.graph, call).expect("a tree");
    assert_eq!(rows[0][0], Value::Integer(3213));
    assert!((float(&rows[0][1]) - 1_838.742_740_904_553).abs() < 1e-6);
    let scores = graph.call("algo.harmonic({direction: 'both'})", "score");
    for (node, score) in [(46, 1_781.916_666_666_6), (45, 1_700.833_333_333_3), (1039, 1_682.25)] {
        assert!((float(&scores[&node]) - score).abs() < 1e-6, "{node}");
    }
    let scores = graph.call("algo.closeness({direction: 'both'})", "score");
    let near = [2711, 1963, 1961].map(|node| float(&scores[&node]));
    assert!(near.iter().all(|score| *score == 1.0), "{near:?}");
    let strength = edges(&|commits| commits);
    let graph = load_edges(&strength);
    for (name, best) in [("algo.louvain", 0.494_6), ("algo.leiden", 0.502_2)] {
        let groups = graph.groups(&format!("{name}({{weight: 'weight'}})"), "community");
        let found = modularity(&strength, &groups);
        assert!(found > 0.98 * best, "{name}: {found}");
    }
}

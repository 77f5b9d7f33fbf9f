//! Multiway joins beside a plain enumeration of nodes and edges.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_testkit::Random;

use super::{Candidates, Edge, Matches, Pattern, Places, Reach, Walk, Way};
use crate::algorithms::{Direction, Selection, Snapshot};
use crate::graph::{Graph, NodeData, RelationshipData};
use crate::memory::MemoryGraph;
use crate::procedure::Unbounded;
use crate::value::Map;

const KINDS: [&str; 2] = ["R", "S"];

/// Edges of a graph as its snapshots have them: places of both ends, by kind.
struct Plain {
    count: usize,
    edges: Vec<(u32, u32, usize)>,
}

fn random_graph(random: &mut Random) -> (Plain, Vec<Arc<Snapshot>>) {
    let graph = MemoryGraph::new();
    graph.begin(true).expect("a graph in memory begins");
    let count = 1 + random.place(5);
    let ids: Vec<i64> =
        (0..count).map(|_| graph.create_node(NodeData::default()).expect("a node")).collect();
    let mut edges = Vec::new();
    for _ in 0..random.place(10) {
        let (from, to, kind) = (random.place(count), random.place(count), random.place(2));
        let (source, target) = (ids[from], ids[to]);
        let kind_name = KINDS[kind].into();
        let data = RelationshipData { source, target, kind: kind_name, properties: Map::new() };
        graph.create_relationship(data).expect("a relationship");
        edges.push((from as u32, to as u32, kind));
    }
    let snapshot = |kinds: &[&str]| {
        let selection =
            Selection { label: None, kinds, direction: Direction::Outgoing, weight: None };
        Arc::new(Snapshot::read(&graph, &selection, &Unbounded).expect("a snapshot"))
    };
    let snapshots = vec![snapshot(&[]), snapshot(&["R"]), snapshot(&["S"])];
    (Plain { count, edges }, snapshots)
}

impl Plain {
    /// Matches by the places of the nodes asked for.
    fn matches(&self, pattern: &Pattern, asked: &[bool]) -> BTreeMap<Vec<u32>, u64> {
        let mut found = BTreeMap::new();
        let mut nodes = vec![0; pattern.nodes.len()];
        self.nodes(pattern, asked, 0, &mut nodes, &mut found);
        found
    }

    fn nodes(
        &self,
        pattern: &Pattern,
        asked: &[bool],
        at: usize,
        nodes: &mut Vec<u32>,
        found: &mut BTreeMap<Vec<u32>, u64>,
    ) {
        if at == nodes.len() {
            let is_different = pattern.different_nodes.iter().all(|(a, b)| nodes[*a] != nodes[*b]);
            let count = self.edges(pattern, nodes, &mut Vec::new());
            if is_different && count > 0 {
                let key = nodes.iter().zip(asked).filter(|(_, asked)| **asked);
                *found.entry(key.map(|(place, _)| *place).collect()).or_default() += count;
            }
            return;
        }
        for place in 0..self.count as u32 {
            let fits = match &pattern.nodes[at] {
                Candidates::All => true,
                Candidates::Only(places) => places.list().contains(&place),
            };
            if fits {
                nodes[at] = place;
                self.nodes(pattern, asked, at + 1, nodes, found);
            }
        }
    }

    /// Choices of an edge of the graph for each edge of the pattern.
    fn edges(&self, pattern: &Pattern, nodes: &[u32], chosen: &mut Vec<usize>) -> u64 {
        let Some(edge) = pattern.edges.get(chosen.len()) else { return 1 };
        let mut count = 0;
        for (at, (from, to, kind)) in self.edges.iter().enumerate() {
            let ends = (nodes[edge.from], nodes[edge.to]);
            let fits = (*from, *to) == ends || edge.is_either && (*to, *from) == ends;
            let is_kind = edge.snapshot == 0 || edge.snapshot == kind + 1;
            let is_taken = chosen.iter().zip(&pattern.edges).any(|(other, before)| {
                *other == at && before.class.is_some() && before.class == edge.class
            });
            if fits && is_kind && !is_taken {
                chosen.push(at);
                count += self.edges(pattern, nodes, chosen);
                chosen.pop();
            }
        }
        count
    }
}

/// A connected pattern, perhaps with cycles, loops and parallel edges.
fn random_pattern(random: &mut Random, count: usize, snapshots: &[Arc<Snapshot>]) -> Pattern {
    let nodes = 1 + random.place(4);
    let either = random.place(3);
    let has_classes = random.place(2) == 0;
    let mut edges = Vec::new();
    for _ in 0..1 + random.place(4) {
        let (from, to) = (random.place(nodes), random.place(nodes));
        // Edges of a class are of one snapshot, or of kinds apart.
        let snapshot = if has_classes { 1 + random.place(2) } else { random.place(3) };
        let is_either = if has_classes { either == 0 } else { random.place(3) == 0 };
        let class = has_classes.then(|| random.place(2));
        edges.push(Edge { from, to, is_either, snapshot, class });
    }
    let candidates = |random: &mut Random| match random.place(3) {
        0 => {
            let list = (0..count as u32).filter(|_| random.place(2) == 0).collect();
            Candidates::Only(Places::of(list, count))
        }
        _ => Candidates::All,
    };
    let different = |random: &mut Random| (random.place(nodes), random.place(nodes));
    Pattern {
        snapshots: snapshots.to_vec(),
        nodes: (0..nodes).map(|_| candidates(random)).collect(),
        edges,
        different_nodes: (0..random.place(6).saturating_sub(4))
            .map(|_| different(random))
            .collect(),
    }
}

#[test]
fn every_pattern_has_the_matches_of_an_enumeration() {
    let asked_for = std::env::var("SHOAL_GRAPHS_RANDOM");
    let rounds = asked_for.map_or(20_000, |count| count.parse().expect("a number of graphs"));
    let mut random = Random::new(0x6d75_6c74_6977_6179);
    let mut seen = 0;
    for round in 0..rounds {
        let (plain, snapshots) = random_graph(&mut random);
        let pattern = random_pattern(&mut random, plain.count, &snapshots);
        let asked: Vec<bool> = pattern.nodes.iter().map(|_| random.place(3) == 0).collect();
        let wanted = plain.matches(&pattern, &asked);
        let told = format!("round {round}: {pattern:?} {asked:?} {:?}", plain.edges);
        let mut matches = Matches::of(pattern, &asked, &Unbounded).expect("few matches");
        let mut found: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
        while let Some(count) = matches.next(&Unbounded).expect("few matches") {
            let nodes = (0..asked.len()).filter(|node| asked[*node]);
            let key = nodes.map(|node| matches.place(node)).collect();
            *found.entry(key).or_default() += count;
        }
        seen += wanted.values().sum::<u64>();
        assert_eq!(found, wanted, "{told}");
    }
    assert!(seen > rounds, "{seen} matches in {rounds} patterns");
}

/// Pairs of a start and an end with a walk of at most so many steps between, by trying all walks.
fn reached(plain: &Plain, kind: usize, walk: &Walk) -> Vec<(u32, u32)> {
    let count = plain.count as u32;
    let most = walk.steps_max.unwrap_or(u64::from(count));
    let mut pairs = Vec::new();
    for start in 0..count {
        let mut at: Vec<u32> = vec![start];
        let mut seen: Vec<u32> = if walk.from_zero { vec![start] } else { Vec::new() };
        for _ in 0..most {
            let mut next = Vec::new();
            for (from, to, own) in &plain.edges {
                let ends = match walk.way {
                    Way::Outgoing => vec![(*from, *to)],
                    Way::Incoming => vec![(*to, *from)],
                    Way::Either => vec![(*from, *to), (*to, *from)],
                };
                let is_kind = kind == 0 || kind == own + 1;
                let fits = ends.iter().filter(|(from, _)| is_kind && at.contains(from));
                next.extend(fits.map(|(_, to)| *to));
            }
            seen.extend(&next);
            at = next;
            at.sort_unstable();
            at.dedup();
        }
        seen.sort_unstable();
        seen.dedup();
        let is_end = |end: &u32| walk.ends.has(*end);
        if walk.starts.has(start) {
            pairs.extend(seen.into_iter().filter(is_end).map(|end| (start, end)));
        }
    }
    pairs
}

#[test]
fn walks_reach_what_trying_all_of_them_reaches() {
    let mut random = Random::new(0x0072_6561_6368);
    let mut seen = 0;
    for round in 0..5_000 {
        let (plain, snapshots) = random_graph(&mut random);
        let kind = random.place(3);
        let some = |random: &mut Random| match random.place(2) {
            0 => Candidates::All,
            _ => {
                let all = 0..plain.count as u32;
                let list = all.filter(|_| random.place(2) == 0).collect();
                Candidates::Only(Places::of(list, plain.count))
            }
        };
        let walk = |random: &mut Random| Walk {
            snapshot: Arc::clone(&snapshots[kind]),
            way: random.pick(&[Way::Outgoing, Way::Incoming, Way::Either]),
            starts: some(random),
            ends: some(random),
            from_zero: random.place(2) == 0,
            steps_max: random.pick(&[None, None, Some(0), Some(1), Some(2)]),
            asked: (random.place(2) == 0, random.place(2) == 0),
        };
        let walk = walk(&mut random);
        let (asked, told) = (walk.asked, format!("round {round}: {walk:?} {:?}", plain.edges));
        let shown = |(start, end): (u32, u32)| {
            (if asked.0 { start } else { 9 }, if asked.1 { end } else { 9 })
        };
        let mut wanted: Vec<(u32, u32)> =
            reached(&plain, kind, &walk).into_iter().map(shown).collect();
        let mut reach = Reach::of(walk);
        let mut found = Vec::new();
        while let Some(count) = reach.next(&Unbounded).expect("few pairs") {
            found.extend(std::iter::repeat_n(shown(reach.pair()), count as usize));
        }
        wanted.sort_unstable();
        found.sort_unstable();
        seen += wanted.len();
        assert_eq!(found, wanted, "{told}");
    }
    assert!(seen > 10_000, "{seen} pairs");
}

#[test]
fn more_matches_than_a_count_holds_are_refused() {
    let graph = MemoryGraph::new();
    graph.begin(true).expect("a graph in memory begins");
    let node = graph.create_node(NodeData::default()).expect("a node");
    for _ in 0..1000 {
        let kind = KINDS[0].into();
        let data = RelationshipData { source: node, target: node, kind, properties: Map::new() };
        graph.create_relationship(data).expect("a relationship");
    }
    let selection =
        Selection { label: None, kinds: &[], direction: Direction::Outgoing, weight: None };
    let snapshot = Arc::new(Snapshot::read(&graph, &selection, &Unbounded).expect("a snapshot"));
    let count = |edges: usize, class: Option<usize>| {
        let edge = |from: usize| Edge { from, to: from + 1, is_either: false, snapshot: 0, class };
        let pattern = Pattern {
            snapshots: vec![Arc::clone(&snapshot)],
            nodes: vec![Candidates::All; edges + 1],
            edges: (0..edges).map(edge).collect(),
            different_nodes: Vec::new(),
        };
        let asked = vec![false; edges + 1];
        Matches::of(pattern, &asked, &Unbounded)?.next(&Unbounded)
    };
    assert_eq!(count(6, None).expect("10^18 fit"), Some(1_000_000_000_000_000_000));
    assert_eq!(count(3, Some(0)).expect("few fit"), Some(1000 * 999 * 998));
    for class in [None, Some(0)] {
        assert!(count(7, class).expect_err("10^21 do not fit").message().contains("2^63"));
    }
}

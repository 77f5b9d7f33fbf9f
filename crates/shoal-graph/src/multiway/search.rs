//! The search for matches, node by node.

use std::sync::Arc;

use super::weights::Weights;
use super::{Candidates, Pattern, Way, plus, times};
use crate::error::Result;
use crate::procedure::Bounds;

/// A search over some nodes of a pattern.
#[derive(Debug)]
pub(super) struct Search {
    pattern: Arc<Pattern>,
    weights: Arc<Weights>,
    steps: Vec<Step>,
    /// Number of first steps with candidates visited one by one; later steps count candidates.
    listed: usize,
    /// The place of each node.
    assigned: Vec<u32>,
    levels: Vec<Level>,
    /// The level whose candidates are tried next; `None` before the first.
    depth: Option<usize>,
    is_over: bool,
    buffers: Vec<Vec<(u32, u64)>>,
}

/// The candidates of a listed node: places, and the number of choices of edges.
#[derive(Debug, Default)]
struct Level {
    candidates: Vec<(u32, u64)>,
    next: usize,
    /// Choices of the nodes before.
    product: u64,
}

/// A node, and its edges to nodes before.
#[derive(Debug)]
struct Step {
    node: usize,
    ties: Vec<Tie>,
    /// Edges from the node to itself.
    loops: Vec<Tie>,
    /// Nodes before that are different.
    different: Vec<usize>,
}

/// An edge from a node before, or a loop.
#[derive(Debug)]
struct Tie {
    edge: usize,
    other: usize,
    /// The way from the other node.
    way: Way,
    /// Edges before that are never the same.
    rivals: Vec<usize>,
}

impl Search {
    /// A search over `nodes`, with the edges that are left among them.
    pub(super) fn new(
        (pattern, weights): (Arc<Pattern>, Arc<Weights>),
        edges: &[bool],
        nodes: &[usize],
        asked: &[bool],
    ) -> Search {
        let order = order((&pattern, &weights), edges, nodes, asked);
        let mut known: Vec<usize> = Vec::new();
        let mut bound: Vec<usize> = Vec::new();
        let mut steps = Vec::new();
        for node in &order {
            let mut step =
                Step { node: *node, ties: Vec::new(), loops: Vec::new(), different: Vec::new() };
            for (at, edge) in pattern.edges.iter().enumerate() {
                let other = edge.other(*node);
                let is_loop = other == *node;
                if !edges[at] || !edge.touches(*node) || !(is_loop || known.contains(&other)) {
                    continue;
                }
                let is_rival = |rival: &&usize| pattern.edges[**rival].is_rival(edge);
                let rivals = bound.iter().filter(is_rival).copied().collect();
                bound.push(at);
                let tie = Tie { edge: at, other, way: edge.way(other), rivals };
                if is_loop { step.loops.push(tie) } else { step.ties.push(tie) }
            }
            for (a, b) in &pattern.different_nodes {
                for (one, other) in [(a, b), (b, a)] {
                    if one == node && known.contains(other) {
                        step.different.push(*other);
                    }
                }
            }
            known.push(*node);
            steps.push(step);
        }
        let listed = order.iter().rposition(|node| asked[*node]).map_or(0, |last| last + 1);
        Search {
            assigned: vec![0; pattern.nodes.len()],
            pattern,
            weights,
            steps,
            listed,
            levels: (0..listed).map(|_| Level::default()).collect(),
            depth: None,
            is_over: false,
            buffers: Vec::new(),
        }
    }

    pub(super) fn place(&self, node: usize) -> u32 {
        self.assigned[node]
    }

    /// Goes to the next assignment of the listed nodes; gives its number of matches, above 0.
    pub(super) fn next(&mut self, bounds: &dyn Bounds) -> Result<Option<u64>> {
        if self.is_over {
            return Ok(None);
        }
        if self.listed == 0 {
            self.is_over = true;
            let count = self.count(0, bounds)?;
            return Ok((count > 0).then_some(count));
        }
        let mut depth = match self.depth {
            Some(depth) => depth,
            None => {
                self.open(0, 1);
                0
            }
        };
        loop {
            bounds.tick()?;
            let level = &mut self.levels[depth];
            let Some((place, choices)) = level.candidates.get(level.next).copied() else {
                if depth == 0 {
                    self.is_over = true;
                    return Ok(None);
                }
                depth -= 1;
                continue;
            };
            level.next += 1;
            let product = times(level.product, choices)?;
            self.assigned[self.steps[depth].node] = place;
            if depth + 1 < self.listed {
                depth += 1;
                self.open(depth, product);
                continue;
            }
            let rest = self.count(self.listed, bounds)?;
            if rest > 0 {
                self.depth = Some(depth);
                return times(product, rest).map(Some);
            }
        }
    }

    /// Finds the candidates of a listed node.
    fn open(&mut self, depth: usize, product: u64) {
        let mut candidates = std::mem::take(&mut self.levels[depth].candidates);
        self.fill(depth, &mut candidates);
        self.levels[depth] = Level { candidates, next: 0, product };
    }

    fn fill(&self, depth: usize, candidates: &mut Vec<(u32, u64)>) {
        candidates.clear();
        self.each_candidate(&self.steps[depth], |place, choices| candidates.push((place, choices)));
    }

    /// The matches of the nodes from a step on.
    fn count(&mut self, depth: usize, bounds: &dyn Bounds) -> Result<u64> {
        if depth == self.steps.len() {
            return Ok(1);
        }
        if depth + 1 == self.steps.len() {
            return self.count_last(&self.steps[depth]);
        }
        let mut candidates = self.buffers.pop().unwrap_or_default();
        self.fill(depth, &mut candidates);
        let node = self.steps[depth].node;
        let mut sum = 0;
        for (place, choices) in &candidates {
            bounds.tick()?;
            self.assigned[node] = *place;
            let rest = self.count(depth + 1, bounds)?;
            sum = plus(sum, times(*choices, rest)?)?;
        }
        self.buffers.push(candidates);
        Ok(sum)
    }

    /// The matches of the last node: a degree where one edge is all there is to the node.
    fn count_last(&self, step: &Step) -> Result<u64> {
        let is_free = step.loops.is_empty()
            && step.different.is_empty()
            && matches!(self.pattern.nodes[step.node], Candidates::All)
            && self.weights[step.node].is_none();
        if let ([tie], true) = (&*step.ties, is_free) {
            let at = self.assigned[tie.other];
            let edge = &self.pattern.edges[tie.edge];
            let degree = self.pattern.neighbours(edge, tie.way, at).len();
            // Each rival is one edge of this node, where it begins or ends there.
            let taken = tie.rivals.iter().filter(|rival| {
                let rival = &self.pattern.edges[**rival];
                let (from, to) = (self.assigned[rival.from], self.assigned[rival.to]);
                match tie.way {
                    Way::Outgoing => from == at,
                    Way::Incoming => to == at,
                    Way::Either => from == at || to == at,
                }
            });
            return Ok(degree.saturating_sub(taken.count()) as u64);
        }
        let (mut sum, mut is_large) = (0_u64, false);
        self.each_candidate(step, |_, choices| match sum.checked_add(choices) {
            Some(more) => sum = more,
            None => is_large = true,
        });
        if is_large { Err(super::too_many()) } else { plus(sum, 0) }
    }

    /// Calls `each` with the candidates of a node, ascending, and the choices of edges times the
    /// weight of each, above 0.
    fn each_candidate(&self, step: &Step, mut each: impl FnMut(u32, u64)) {
        let only = match &self.pattern.nodes[step.node] {
            Candidates::All => None,
            Candidates::Only(places) => Some(places),
        };
        let mut take = |place: u32, edges: &[u64]| {
            let choices = self.choices(step, place, edges);
            if choices > 0 {
                each(place, choices);
            }
        };
        let lists: Vec<&[u32]> = step
            .ties
            .iter()
            .map(|tie| {
                let edge = &self.pattern.edges[tie.edge];
                self.pattern.neighbours(edge, tie.way, self.assigned[tie.other])
            })
            .collect();
        let known = self.weights[step.node].as_ref().and_then(|weight| weight.places.as_ref());
        match (&*lists, only) {
            // Whoever has a weight is a candidate.
            ([], _) if known.is_some() => {
                known.into_iter().flatten().for_each(|place| take(*place, &[]));
            }
            ([], None) => {
                let count = u32::try_from(self.pattern.places()).expect("places have 32 bits");
                (0..count).for_each(|place| take(place, &[]));
            }
            ([], Some(places)) => places.list().iter().for_each(|place| take(*place, &[])),
            ([one], only) => {
                for run in one.chunk_by(|a, b| a == b) {
                    if only.is_none_or(|only| only.has(run[0])) {
                        take(run[0], &[run.len() as u64]);
                    }
                }
            }
            (lists, only) => {
                let shortest = (0..lists.len()).min_by_key(|at| lists[*at].len());
                let shortest = shortest.expect("several lists");
                let mut counts = vec![0; lists.len()];
                let mut rests = lists.to_vec();
                'runs: for run in lists[shortest].chunk_by(|a, b| a == b) {
                    let place = run[0];
                    if only.is_some_and(|only| !only.has(place)) {
                        continue;
                    }
                    counts[shortest] = run.len() as u64;
                    for at in (0..lists.len()).filter(|at| *at != shortest) {
                        let rest = &mut rests[at];
                        *rest = &rest[gallop(rest, place)..];
                        let same = rest.iter().take_while(|other| **other == place).count();
                        if same == 0 {
                            if rest.is_empty() {
                                break 'runs;
                            }
                            continue 'runs;
                        }
                        counts[at] = same as u64;
                    }
                    take(place, &counts);
                }
            }
        }
    }

    /// The choices of edges between a candidate and the nodes before, times its weight. `edges` are
    /// the edges of each tie; a rival between the same nodes takes one.
    fn choices(&self, step: &Step, place: u32, edges: &[u64]) -> u64 {
        if step.different.iter().any(|other| self.assigned[*other] == place) {
            return 0;
        }
        let weights = self.weights[step.node].as_ref();
        let mut choices = weights.map_or(1, |weights| weights.of[place as usize]);
        let end = |node: usize| if node == step.node { place } else { self.assigned[node] };
        let ends = |edge: usize| {
            let edge = &self.pattern.edges[edge];
            let (from, to) = (end(edge.from), end(edge.to));
            match edge.is_either {
                true => (from.min(to), from.max(to)),
                false => (from, to),
            }
        };
        let mut take = |tie: &Tie, count: u64| {
            let taken = match &*tie.rivals {
                [] => 0,
                rivals => {
                    let own = ends(tie.edge);
                    rivals.iter().filter(|rival| ends(**rival) == own).count()
                }
            };
            // A product over 2^64 saturates, and is refused where products are added.
            choices = choices.saturating_mul(count.saturating_sub(taken as u64));
        };
        for (tie, count) in step.ties.iter().zip(edges) {
            take(tie, *count);
        }
        for tie in &step.loops {
            let edge = &self.pattern.edges[tie.edge];
            let own = self.pattern.neighbours(edge, tie.way, place);
            let own = &own[gallop(own, place)..];
            take(tie, own.iter().take_while(|other| **other == place).count() as u64);
        }
        choices
    }
}

/// The number of places below one, in an ascending list: steps double from the start on.
fn gallop(list: &[u32], place: u32) -> usize {
    let mut high = 1;
    while high <= list.len() && list[high - 1] < place {
        high *= 2;
    }
    let low = high / 2;
    low + list[low..high.min(list.len())].partition_point(|other| *other < place)
}

/// Nodes in the order of the search: along edges, those asked for first, those with the most edges
/// to nodes before, those with the fewest candidates. Nodes at a last edge come late.
fn order(
    (pattern, weights): (&Pattern, &Weights),
    edges: &[bool],
    nodes: &[usize],
    asked: &[bool],
) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    let ties = |node: usize, known: &[usize]| {
        let is_tie = |at: usize| {
            let edge = &pattern.edges[at];
            edges[at] && edge.touches(node) && known.contains(&edge.other(node))
        };
        (0..pattern.edges.len()).filter(|at| is_tie(*at)).count()
    };
    while order.len() < nodes.len() {
        let left = nodes.iter().copied().filter(|node| !order.contains(node));
        let has_asked = left.clone().any(|node| asked[node]);
        let rank = |node: &usize| {
            let tied = ties(*node, &order);
            let all = pattern.edges.iter().enumerate();
            let degree = all.filter(|(at, edge)| edges[*at] && edge.touches(*node)).count();
            let known = weights[*node].as_ref().and_then(|weight| weight.places.as_ref());
            let candidates = match (known, &pattern.nodes[*node]) {
                (Some(known), _) => known.len(),
                (None, Candidates::All) => pattern.places(),
                (None, Candidates::Only(places)) => places.list.len(),
            };
            let is_apart = tied == 0 && !order.is_empty();
            let is_late = has_asked && !asked[*node];
            let leads_nowhere = degree <= tied;
            (
                is_apart,
                is_late && leads_nowhere,
                is_late,
                std::cmp::Reverse(tied),
                candidates,
                std::cmp::Reverse(degree),
            )
        };
        let best = left.min_by_key(rank).expect("a node is left");
        order.push(best);
    }
    order
}

//! Definitions of the algorithms as plain as they can be said, for graphs of a few nodes.

/// A graph of nodes `0..count`: edges as they are followed, and once each as they stand.
pub(crate) struct Plain {
    pub(crate) count: usize,
    /// Source, target and weight; both ways where both are followed, loops once.
    pub(crate) followed: Vec<(usize, usize, f64)>,
    pub(crate) is_both: bool,
}

impl Plain {
    fn has(&self, from: usize, to: usize) -> bool {
        from != to && self.followed.iter().any(|edge| (edge.0, edge.1) == (from, to))
    }

    fn touches(&self, a: usize, b: usize) -> bool {
        self.has(a, b) || self.has(b, a)
    }

    /// The least sum of lengths from one node to each, by as many rounds of all edges as nodes.
    pub(crate) fn costs(&self, start: usize, length: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut costs = vec![f64::INFINITY; self.count];
        costs[start] = 0.0;
        for _ in 0..self.count {
            for &(from, to, weight) in &self.followed {
                costs[to] = costs[to].min(costs[from] + length(weight));
            }
        }
        costs
    }

    pub(crate) fn degrees(&self, node: usize) -> (i64, i64) {
        let count = |found: &dyn Fn(&(usize, usize, f64)) -> bool| {
            self.followed.iter().filter(|edge| found(edge)).count() as i64
        };
        (count(&|edge| edge.0 == node), count(&|edge| edge.1 == node))
    }

    /// PageRank by a dense matrix of probabilities.
    pub(crate) fn page_rank(&self, damping: f64, rounds: usize) -> Vec<f64> {
        let n = self.count as f64;
        let mut scores = vec![1.0 / n; self.count];
        for _ in 0..rounds {
            let next = |to: usize| {
                let from = |from: usize| {
                    let out = self.degrees(from).0 as f64;
                    let edges = self.followed.iter().filter(|e| (e.0, e.1) == (from, to)).count();
                    let jump = if out == 0.0 { 1.0 / n } else { edges as f64 / out };
                    scores[from] * ((1.0 - damping) / n + damping * jump)
                };
                (0..self.count).map(from).sum()
            };
            scores = (0..self.count).map(next).collect();
        }
        scores
    }

    /// Shares of shortest paths, each pair of ends by counting the paths between them.
    pub(crate) fn betweenness(&self) -> Vec<f64> {
        let depths: Vec<Vec<f64>> =
            (0..self.count).map(|start| self.costs(start, |_| 1.0)).collect();
        let mut paths = vec![vec![0.0; self.count]; self.count];
        for start in 0..self.count {
            paths[start][start] = 1.0;
            for depth in 1..self.count {
                for &(from, to, _) in &self.followed {
                    let is_step = depths[start][from] == depth as f64 - 1.0;
                    if is_step && depths[start][to] == depth as f64 {
                        paths[start][to] += paths[start][from];
                    }
                }
            }
        }
        let mut scores = vec![0.0; self.count];
        for from in 0..self.count {
            for to in 0..self.count {
                let is_counted = if self.is_both { from < to } else { from != to };
                if !is_counted || depths[from][to].is_infinite() {
                    continue;
                }
                for (node, score) in scores.iter_mut().enumerate() {
                    let is_between = node != from && node != to;
                    if is_between && depths[from][node] + depths[node][to] == depths[from][to] {
                        *score += paths[from][node] * paths[node][to] / paths[from][to];
                    }
                }
            }
        }
        scores
    }

    /// Components by their least node: of nodes that reach each other, weakly or both ways.
    pub(crate) fn components(&self, is_strong: bool) -> Vec<usize> {
        let mut reaches = vec![vec![false; self.count]; self.count];
        for (node, row) in reaches.iter_mut().enumerate() {
            row[node] = true;
        }
        for &(from, to, _) in &self.followed {
            reaches[from][to] = true;
            reaches[to][from] |= !is_strong;
        }
        for _ in 0..self.count {
            let before = reaches.clone();
            for (from, row) in reaches.iter_mut().enumerate() {
                for (to, reaches) in row.iter_mut().enumerate() {
                    *reaches |= (0..self.count).any(|by| before[from][by] && before[by][to]);
                }
            }
        }
        let least = |node: usize| {
            (0..self.count).find(|other| reaches[node][*other] && reaches[*other][node])
        };
        (0..self.count).map(|node| least(node).expect("a node reaches itself")).collect()
    }

    pub(crate) fn communities(&self, rounds: usize) -> Vec<usize> {
        let mut labels: Vec<usize> = (0..self.count).collect();
        for _ in 0..rounds {
            let next = |node: usize| {
                let votes = |label: usize| {
                    let vote = |edge: &(usize, usize, f64)| {
                        usize::from(edge.0 == node && labels[edge.1] == label)
                            + usize::from(edge.1 == node && labels[edge.0] == label)
                    };
                    self.followed.iter().map(vote).sum::<usize>()
                };
                let most = (0..self.count).map(votes).max().expect("a graph has nodes");
                if most == 0 {
                    return labels[node];
                }
                (0..self.count).find(|label| votes(*label) == most).expect("a label has most")
            };
            labels = (0..self.count).map(next).collect();
        }
        labels
    }

    pub(crate) fn triangles(&self) -> i64 {
        let mut count = 0;
        for a in 0..self.count {
            for b in a + 1..self.count {
                for c in b + 1..self.count {
                    let is_one = self.touches(a, b) && self.touches(b, c) && self.touches(a, c);
                    count += i64::from(is_one);
                }
            }
        }
        count
    }

    pub(crate) fn clustering(&self, node: usize) -> f64 {
        let near: Vec<usize> = (0..self.count).filter(|other| self.touches(node, *other)).collect();
        if near.len() < 2 {
            return 0.0;
        }
        let edges = near.iter().map(|a| near.iter().filter(|b| self.has(*a, **b)).count());
        edges.sum::<usize>() as f64 / (near.len() * (near.len() - 1)) as f64
    }

    /// The largest k whose core has the node: nodes with fewer than k neighbours fall out until
    /// none does.
    pub(crate) fn core(&self, node: usize) -> i64 {
        let mut best = 0;
        for k in 1..=self.count {
            let mut stays = vec![true; self.count];
            for _ in 0..self.count {
                for one in 0..self.count {
                    let near = |other: &usize| stays[*other] && self.touches(one, *other);
                    stays[one] &= (0..self.count).filter(near).count() >= k;
                }
            }
            if stays[node] {
                best = k;
            }
        }
        best as i64
    }

    /// The order that takes the least node without a source among those left; nothing on a cycle.
    pub(crate) fn order(&self) -> Option<Vec<usize>> {
        let mut left: Vec<usize> = (0..self.count).collect();
        let mut order = Vec::new();
        while !left.is_empty() {
            let is_free = |node: &&usize| {
                !self.followed.iter().any(|edge| edge.1 == **node && left.contains(&edge.0))
            };
            let next = *left.iter().find(is_free)?;
            left.retain(|node| *node != next);
            order.push(next);
        }
        Some(order)
    }
}

impl Plain {
    /// The weight of the lightest trees: from each component's first node, the lightest step to a
    /// node not yet there.
    pub(crate) fn tree(&self) -> f64 {
        let (mut weight, mut known) = (0.0, vec![false; self.count]);
        for first in 0..self.count {
            if known[first] {
                continue;
            }
            known[first] = true;
            loop {
                let steps = self.followed.iter().filter(|edge| known[edge.0] != known[edge.1]);
                let Some(step) = steps.min_by(|a, b| a.2.total_cmp(&b.2)) else { break };
                weight += step.2;
                known[step.0] = true;
                known[step.1] = true;
            }
        }
        weight
    }

    /// The least weight of a step; infinite without one.
    fn step(&self, from: usize, to: usize) -> f64 {
        let steps = self.followed.iter().filter(|edge| (edge.0, edge.1) == (from, to));
        steps.map(|edge| edge.2).fold(f64::INFINITY, f64::min)
    }

    /// The sum of the weights along nodes.
    pub(crate) fn length(&self, nodes: &[usize]) -> f64 {
        nodes.windows(2).map(|pair| self.step(pair[0], pair[1])).sum()
    }

    /// The costs of all routes between two nodes without a node twice, ascending.
    pub(crate) fn routes(&self, start: usize, end: usize) -> Vec<f64> {
        let mut costs = Vec::new();
        let mut paths = vec![vec![start]];
        while let Some(path) = paths.pop() {
            let last = path[path.len() - 1];
            if last == end {
                costs.push(self.length(&path));
                continue;
            }
            for next in 0..self.count {
                if !path.contains(&next) && self.step(last, next).is_finite() {
                    paths.push([&path[..], &[next]].concat());
                }
            }
        }
        costs.sort_by(f64::total_cmp);
        costs
    }

    /// Modularity of groups, without direction.
    pub(crate) fn modularity(&self, groups: &[usize]) -> f64 {
        // A pair followed both ways stands twice in the list, its loops once.
        let weight = |edge: &(usize, usize, f64)| match self.is_both && edge.0 != edge.1 {
            true => edge.2 / 2.0,
            false => edge.2,
        };
        let total: f64 = self.followed.iter().map(weight).sum();
        if total == 0.0 {
            return 0.0;
        }
        let mut sum = 0.0;
        for group in 0..self.count {
            let is_in = |node: usize| groups[node] == group;
            let inside = self.followed.iter().filter(|edge| is_in(edge.0) && is_in(edge.1));
            let inside: f64 = inside.map(weight).sum();
            let ends = |edge: &(usize, usize, f64)| {
                weight(edge)
                    * (f64::from(u8::from(is_in(edge.0))) + f64::from(u8::from(is_in(edge.1))))
            };
            let degrees: f64 = self.followed.iter().map(ends).sum();
            sum += inside / total - (degrees / (2.0 * total)).powi(2);
        }
        sum
    }

    /// True where the nodes of each group are connected within the group.
    pub(crate) fn hang_together(&self, groups: &[usize]) -> bool {
        (0..self.count).all(|first| {
            let mut known =
                vec![groups.iter().position(|group| *group == groups[first]).unwrap_or(0)];
            let mut next = 0;
            while let Some(&at) = known.get(next) {
                next += 1;
                for other in 0..self.count {
                    let weighs = self.followed.iter().any(|edge| {
                        edge.2 > 0.0
                            && ((edge.0, edge.1) == (at, other) || (edge.1, edge.0) == (at, other))
                    });
                    if groups[other] == groups[at] && weighs && !known.contains(&other) {
                        known.push(other);
                    }
                }
            }
            known.contains(&first)
        })
    }
}

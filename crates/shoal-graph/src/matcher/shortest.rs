//! Shortest paths between two nodes, breadth first from both ends' distances.

use rustc_hash::FxHashMap;

use super::{Matcher, Sink};
use crate::ast::*;
use crate::error::Result;
use crate::value::Value;

/// A node's distance from the start, and the ways that reach it at this distance.
struct Reached {
    depth: u64,
    /// Nodes before, each with the relationship from it.
    from: Vec<(i64, i64)>,
}

impl Matcher<'_> {
    pub(super) fn shortest(
        &mut self,
        at: usize,
        path: &PathPattern,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let (pattern, end) = &path.steps[0];
        let (Value::Node(start), Value::Node(end)) =
            (self.get(row, path.start.slot), self.get(row, end.slot))
        else {
            return Ok(true);
        };
        let length = pattern.length.unwrap_or(Length { min: 1, max: Some(1) });
        if start == end {
            return match length.min {
                0 => {
                    row[pattern.slot] = Value::list(Vec::new());
                    self.step(at + 1, row, sink)
                }
                _ => Ok(true),
            };
        }
        let is_one = path.shortest == Shortest::One;
        let reached =
            self.search(pattern, start, end, length.max.unwrap_or(u64::MAX), is_one, row)?;
        if !reached.contains_key(&end) {
            return Ok(true);
        }
        // Ways back from the end; each entry of the stack is a node and the next way to try.
        let mut trail: Vec<i64> = Vec::new();
        let mut stack = vec![(end, 0)];
        while let Some((node, next)) = stack.last_mut() {
            self.run.tick()?;
            if *node == start {
                let ids = trail.iter().rev().map(|&id| Value::Relationship(id)).collect();
                row[pattern.slot] = if pattern.length.is_some() {
                    Value::list(ids)
                } else {
                    Value::Relationship(trail[0])
                };
                let is_free = trail.iter().all(|id| !self.used.contains(id));
                if is_free {
                    let base = self.used.len();
                    self.used.extend(&trail);
                    let goes_on = self.step(at + 1, row, sink)?;
                    self.used.truncate(base);
                    if !goes_on {
                        return Ok(false);
                    }
                    if is_one {
                        return Ok(true);
                    }
                }
                stack.pop();
                trail.pop();
                continue;
            }
            match reached[node].from.get(*next) {
                Some(&(before, relationship)) => {
                    *next += 1;
                    trail.push(relationship);
                    stack.push((before, 0));
                }
                None => {
                    stack.pop();
                    trail.pop();
                }
            }
        }
        Ok(true)
    }

    /// Nodes by distance from the start, up to the distance of the end.
    fn search(
        &mut self,
        pattern: &RelPattern,
        start: i64,
        end: i64,
        depth_max: u64,
        is_one: bool,
        row: &[Value],
    ) -> Result<FxHashMap<i64, Reached>> {
        let mut reached = FxHashMap::default();
        reached.insert(start, Reached { depth: 0, from: Vec::new() });
        let mut level = vec![start];
        let mut depth = 0;
        let mut edges = self.buffers.pop().unwrap_or_default();
        while !level.is_empty() && depth < depth_max && !reached.contains_key(&end) {
            depth += 1;
            let mut next = Vec::new();
            for &node in &level {
                edges.clear();
                let is_kind_known = self.edges(pattern, node, true, &mut edges)?;
                for &edge in &edges {
                    self.run.tick()?;
                    let known = reached.get(&edge.other).map(|found| found.depth);
                    let is_new = known.is_none();
                    if !(is_new || (!is_one && known == Some(depth)))
                        || !self.relationship_fits(pattern, edge.id, is_kind_known, row)?
                    {
                        continue;
                    }
                    let entry = reached
                        .entry(edge.other)
                        .or_insert_with(|| Reached { depth, from: Vec::new() });
                    entry.from.push((node, edge.id));
                    self.run.keep(if is_new { 80 } else { 16 })?;
                    if is_new {
                        next.push(edge.other);
                    }
                }
            }
            level = next;
        }
        self.buffers.push(edges);
        Ok(reached)
    }
}

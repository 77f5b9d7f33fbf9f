//! Relationships of variable length: every trail between the bounds, depth first.

use super::plan::node_at;
use super::{Matcher, Sink, wrong_element};
use crate::ast::*;
use crate::error::Result;
use crate::graph::Edge;
use crate::value::Value;

/// The relationships of a node of the trail under way, and the next of them to try.
struct Frame {
    edges: Vec<Edge>,
    next: usize,
    is_kind_known: bool,
}

impl Matcher<'_> {
    #[expect(clippy::too_many_arguments, reason = "the state of one step")]
    pub(super) fn expand_variable(
        &mut self,
        at: usize,
        path: &PathPattern,
        step: usize,
        forward: bool,
        length: Length,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let pattern = &path.steps[step].0;
        let (from, to) = if forward { (step, step + 1) } else { (step + 1, step) };
        let (from, to) = (node_at(path, from), node_at(path, to));
        let Value::Node(start) = self.get(row, from.slot) else { return Ok(true) };
        let target = self.known_target(at, to, row);
        if pattern.is_bound {
            return self.follow_bound(at, pattern, start, to, target, forward, row, sink);
        }
        let keeps = pattern.var.is_some() || path.var.is_some();
        let base = self.used.len();
        if length.min == 0
            && !self.emit(at, pattern, to, target, start, base, (forward, keeps), row, sink)?
        {
            return Ok(false);
        }
        let mut frames = Vec::new();
        if length.max != Some(0) {
            frames.push(self.frame(pattern, start, forward)?);
        }
        let mut goes_on = true;
        while let Some(frame) = frames.last_mut() {
            let Some(&edge) = frame.edges.get(frame.next) else {
                let frame = frames.pop().expect("the loop found a frame");
                self.buffers.push(frame.edges);
                if !frames.is_empty() {
                    self.used.pop();
                }
                continue;
            };
            frame.next += 1;
            let is_kind_known = frame.is_kind_known;
            self.run.tick()?;
            if self.used.contains(&edge.id)
                || !self.relationship_fits(pattern, edge.id, is_kind_known, row)?
            {
                continue;
            }
            self.used.push(edge.id);
            let depth = (self.used.len() - base) as u64;
            if depth >= length.min {
                goes_on = self.emit(
                    at,
                    pattern,
                    to,
                    target,
                    edge.other,
                    base,
                    (forward, keeps),
                    row,
                    sink,
                )?;
                if !goes_on {
                    break;
                }
            }
            if length.max.is_none_or(|max| depth < max) {
                frames.push(self.frame(pattern, edge.other, forward)?);
            } else {
                self.used.pop();
            }
        }
        self.used.truncate(base);
        self.buffers.extend(frames.into_iter().map(|frame| frame.edges));
        Ok(goes_on)
    }

    fn frame(&mut self, pattern: &RelPattern, node: i64, forward: bool) -> Result<Frame> {
        let mut edges = self.buffers.pop().unwrap_or_default();
        edges.clear();
        let is_kind_known = self.edges(pattern, node, forward, &mut edges)?;
        Ok(Frame { edges, next: 0, is_kind_known })
    }

    /// Ends a trail at a node, where it fits, and goes on with the next step.
    #[expect(clippy::too_many_arguments, reason = "the state of one step")]
    fn emit(
        &mut self,
        at: usize,
        pattern: &RelPattern,
        to: &NodePattern,
        target: Option<i64>,
        node: i64,
        base: usize,
        (forward, keeps): (bool, bool),
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        if target.is_some_and(|target| target != node) || !self.node_fits(to, node, row)? {
            return Ok(true);
        }
        if keeps {
            let mut trail: Vec<Value> =
                self.used[base..].iter().map(|&id| Value::Relationship(id)).collect();
            if !forward {
                trail.reverse();
            }
            row[pattern.slot] = Value::list(trail);
        }
        if target.is_none() {
            row[to.slot] = Value::Node(node);
        }
        self.step(at + 1, row, sink)
    }

    /// Follows a list of relationships of the row.
    #[expect(clippy::too_many_arguments, reason = "the state of one step")]
    fn follow_bound(
        &mut self,
        at: usize,
        pattern: &RelPattern,
        start: i64,
        to: &NodePattern,
        target: Option<i64>,
        forward: bool,
        row: &mut Vec<Value>,
        sink: &mut Sink<'_>,
    ) -> Result<bool> {
        let list = match self.get(row, pattern.slot) {
            Value::List(list) => list,
            Value::Null => return Ok(true),
            other => return Err(wrong_element("a list of relationships", &other)),
        };
        let length = list.len() as u64;
        let bounds = pattern.length.expect("a relationship of variable length");
        if length < bounds.min || bounds.max.is_some_and(|max| length > max) {
            return Ok(true);
        }
        let mut node = start;
        let base = self.used.len();
        let mut fits = true;
        for index in 0..list.len() {
            let value = &list[if forward { index } else { list.len() - 1 - index }];
            let Value::Relationship(id) = value else {
                return Err(wrong_element("a relationship", value));
            };
            let found = self.run.relationship(*id)?;
            let out = (found.source == node).then_some(found.target);
            let back = (found.target == node).then_some(found.source);
            let next = match (pattern.direction, forward) {
                (Direction::Both, _) => out.or(back),
                (Direction::Right, true) | (Direction::Left, false) => out,
                _ => back,
            };
            match next {
                Some(next)
                    if !self.used.contains(id)
                        && self.relationship_fits(pattern, *id, false, row)? =>
                {
                    node = next;
                    self.used.push(*id);
                }
                _ => {
                    fits = false;
                    break;
                }
            }
        }
        let fits_end =
            fits && target.is_none_or(|target| target == node) && self.node_fits(to, node, row)?;
        let mut result = Ok(true);
        if fits_end {
            if target.is_none() {
                row[to.slot] = Value::Node(node);
            }
            result = self.step(at + 1, row, sink);
        }
        self.used.truncate(base);
        result
    }
}

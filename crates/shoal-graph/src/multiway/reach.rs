//! Nodes within reach of others: pairs of ends, one for each pair.

use std::sync::Arc;

use super::{Candidates, Way, plus};
use crate::algorithms::Snapshot;
use crate::error::Result;
use crate::procedure::Bounds;

/// A walk along the edges of a snapshot, from any of some nodes to any of others.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) way: Way,
    pub(crate) starts: Candidates,
    pub(crate) ends: Candidates,
    /// True where a node reaches itself without a step, false where only by a way back.
    pub(crate) from_zero: bool,
    /// Steps at most.
    pub(crate) steps_max: Option<u64>,
    /// Whether starts and ends are asked for.
    pub(crate) asked: (bool, bool),
}

/// Pairs of a start and an end that the start reaches, each once, with the number of pairs that
/// are equal in the nodes asked for: the ends that a start reaches where starts alone are, and all
/// pairs where nobody asks for a node.
#[derive(Debug)]
pub(crate) struct Reach {
    walk: Walk,
    next_start: usize,
    pair: (u32, u32),
    /// Ends of the last start that are still to come.
    ends: std::vec::IntoIter<u32>,
}

impl Reach {
    pub(crate) fn of(walk: Walk) -> Reach {
        Reach { walk, next_start: 0, pair: (0, 0), ends: Vec::new().into_iter() }
    }

    /// The start and the end of the last pair; either is any where it is not asked for.
    pub(crate) fn pair(&self) -> (u32, u32) {
        self.pair
    }

    /// Goes to the next pair; gives the number of pairs that it stands for, above 0.
    ///
    /// # Errors
    /// What the bounds raise, and more pairs than 2^63.
    pub(crate) fn next(&mut self, bounds: &dyn Bounds) -> Result<Option<u64>> {
        let mut sum = 0;
        loop {
            if let Some(end) = self.ends.next() {
                self.pair.1 = end;
                return Ok(Some(1));
            }
            let Some(start) = self.start() else { return Ok((sum > 0).then_some(sum)) };
            let ends = self.reached(start, bounds)?;
            self.pair.0 = start;
            match self.walk.asked {
                (_, true) => self.ends = ends.into_iter(),
                (true, false) if ends.is_empty() => {}
                (true, false) => return Ok(Some(ends.len() as u64)),
                (false, false) => sum = plus(sum, ends.len() as u64)?,
            }
        }
    }

    fn start(&mut self) -> Option<u32> {
        let at = self.next_start;
        self.next_start += 1;
        match &self.walk.starts {
            Candidates::All => (at < self.walk.snapshot.len()).then_some(at as u32),
            Candidates::Only(places) => places.list().get(at).copied(),
        }
    }

    /// The ends within reach of a node, those after fewer steps first.
    fn reached(&self, start: u32, bounds: &dyn Bounds) -> Result<Vec<u32>> {
        let Walk { snapshot, way, ends, from_zero, steps_max, .. } = &self.walk;
        let mut comes_back = *from_zero;
        let mut found = Vec::new();
        if *from_zero && ends.has(start) {
            found.push(start);
        }
        snapshot.with_marks(bounds, |[marks]| {
            marks.find(start, 0);
            let mut level = vec![start];
            let mut steps = 0;
            while !level.is_empty() && steps_max.is_none_or(|most| steps < most) {
                steps += 1;
                let mut next = Vec::new();
                for at in level {
                    bounds.tick()?;
                    let onwards = match way {
                        Way::Outgoing => snapshot.outgoing(at as usize),
                        Way::Incoming => snapshot.incoming(at as usize),
                        Way::Either => snapshot.either(at as usize),
                    };
                    for &other in onwards {
                        if marks.find(other, 0) {
                            next.push(other);
                        } else if other != start || comes_back {
                            continue;
                        } else {
                            comes_back = true;
                        }
                        if ends.has(other) {
                            found.push(other);
                        }
                    }
                }
                level = next;
            }
            Ok(())
        })?;
        if self.walk.asked.1 {
            bounds.keep(8 * found.len())?;
        }
        Ok(found)
    }
}

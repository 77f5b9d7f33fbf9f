//! Which ops each change takes. The ids of an actor's change are consecutive and end with the
//! greatest op that its row names; so once its first one is known, an id says by itself where
//! among all ops, change after change, its op belongs.

use std::ops::Range;

use super::super::change_rows::ChangeTable;
use super::super::op_table::{KeyKind, OpTable};
use crate::chunk::header::ChunkType;
use crate::{Error, Fault, OpId};

/// All ops in the order of the changes' rows, in each change ascending.
pub(super) struct Slots {
    /// Of each change where its ops begin; one more tells where all end.
    pub(super) starts: Vec<u32>,
    /// Of each change the counter of its first op.
    pub(super) start_ops: Vec<u32>,
    /// Of each op its row, or [`DELETE`].
    pub(super) rows: Vec<u32>,
    /// Of each op where the rows that it supersedes begin in `preds`; one more tells where all end.
    pub(super) pred_starts: Vec<u32>,
    pub(super) preds: Vec<u32>,
}

/// Stands for the row of a delete, which has none.
pub(super) const DELETE: u32 = u32::MAX;

impl Slots {
    /// Cost: linear in rows and edges for ids that follow each other; else a binary search in the
    /// changes of the author for each id.
    ///
    /// # Errors
    /// When an id is used twice, an op belongs to no change or a change lacks one, or a delete has
    /// several keys.
    pub(super) fn assign(
        changes: &ChangeTable,
        actor_count: usize,
        rows: &OpTable,
    ) -> Result<Self, Error> {
        let mut windows = Windows::new(changes, actor_count);
        let count = changes.len();
        // Of each change the least counter and the number of ids seen.
        let mut seen = vec![(u32::MAX, 0_u32); count];
        let mut note = |id: OpId| {
            let change = windows.find(id)?;
            let (least, count) = &mut seen[change as usize];
            *least = (*least).min(id.counter);
            *count = count.saturating_add(1);
            Ok(change)
        };
        let mut row_changes = Vec::with_capacity(rows.id_counters.len());
        for row in 0..row_count(rows) {
            row_changes.push(note(rows.id(row))?);
        }
        let mut edge_changes = Vec::with_capacity(rows.succs.len());
        for succ in &rows.succs {
            edge_changes.push(note(*succ)?);
        }

        let mut slots = Self {
            starts: Vec::with_capacity(count + 1),
            start_ops: Vec::with_capacity(count),
            rows: Vec::new(),
            pred_starts: Vec::new(),
            preds: Vec::new(),
        };
        let mut end = 0_u32;
        for (change, &(least, count)) in seen.iter().enumerate() {
            slots.starts.push(end);
            let max_op = changes.max_ops[change];
            slots.start_ops.push(if count == 0 { max_op + 1 } else { least });
            if count == 0 {
                continue;
            }
            // Fewer ids than places: one is missing, and with it goes the bound on what follows.
            let len = max_op - least + 1;
            if len > count {
                return Err(missing(change, least, max_op, rows, &row_changes, &edge_changes));
            }
            end = end.checked_add(len).filter(|end| *end < u32::MAX).ok_or(TOO_MANY)?;
        }
        slots.starts.push(end);

        slots.rows = vec![DELETE; end as usize];
        for (row, &change) in (0..).zip(&row_changes) {
            let counter = rows.id_counters[row as usize];
            let slot = slots.slot(change, counter);
            if std::mem::replace(&mut slots.rows[slot], row) != DELETE {
                return Err(Error::Corrupt {
                    chunk: ChunkType::Document,
                    part: "id counter column",
                    row: Some(row),
                    fault: Fault::RepeatedOpId(counter),
                });
            }
        }
        slots.place_preds(rows, &edge_changes);
        slots.check(rows)?;
        Ok(slots)
    }

    /// The rows that some ops supersede.
    pub(super) fn preds_of(&self, slots: Range<u32>) -> &[u32] {
        let start = self.pred_starts[slots.start as usize] as usize;
        &self.preds[start..self.pred_starts[slots.end as usize] as usize]
    }

    /// The first row that a delete deletes.
    pub(super) fn deleted(&self, slot: u32) -> u32 {
        self.preds[self.pred_starts[slot as usize] as usize]
    }

    fn slot(&self, change: u32, counter: u32) -> usize {
        let change = change as usize;
        (self.starts[change] + (counter - self.start_ops[change])) as usize
    }

    /// Sorts the edges by slot, counting: first how many each has, then where they begin.
    fn place_preds(&mut self, rows: &OpTable, edge_changes: &[u32]) {
        let mut starts = vec![0_u32; self.rows.len() + 1];
        for (succ, &change) in rows.succs.iter().zip(edge_changes) {
            starts[self.slot(change, succ.counter) + 1] += 1;
        }
        let mut end = 0;
        for start in &mut starts {
            end += *start;
            *start = end;
        }
        let mut preds = vec![0; rows.succs.len()];
        let mut next = starts.clone();
        let mut edges = rows.succs.iter().zip(edge_changes);
        let mut first_row = 0;
        for run in &rows.succ_runs {
            let row_range = first_row..first_row + run.rows;
            first_row += run.rows;
            if run.count == 0 {
                continue;
            }
            for row in row_range {
                for (succ, &change) in edges.by_ref().take(run.count as usize) {
                    let place = &mut next[self.slot(change, succ.counter)];
                    preds[*place as usize] = row;
                    *place += 1;
                }
            }
        }
        self.pred_starts = starts;
        self.preds = preds;
    }

    fn check(&mut self, rows: &OpTable) -> Result<(), Error> {
        for slot in 0..self.rows.len() {
            let range = self.pred_starts[slot] as usize..self.pred_starts[slot + 1] as usize;
            let is_delete = self.rows[slot] == DELETE;
            if is_delete && range.is_empty() {
                let change = self.starts.partition_point(|start| *start as usize <= slot) - 1;
                let offset = slot - self.starts[change] as usize;
                let counter = self.start_ops[change] + offset as u32;
                return Err(ops_of(change, Fault::MissingOp(counter)));
            }
            let preds = &mut self.preds[range];
            if preds.len() < 2 {
                continue;
            }
            let lamport = |row: &u32| super::super::lamport(rows.id(*row));
            if !preds.is_sorted_by_key(lamport) {
                preds.sort_unstable_by_key(lamport);
            }
            if is_delete
                && let Some(&other) =
                    preds[1..].iter().find(|row| !same_target(rows, **row, preds[0]))
            {
                let change = self.starts.partition_point(|start| *start as usize <= slot) - 1;
                let offset = slot - self.starts[change] as usize;
                return Err(Error::Corrupt {
                    chunk: ChunkType::Document,
                    part: "succ counter column",
                    row: Some(other),
                    fault: Fault::DeleteOfDifferentKeys(self.start_ops[change] + offset as u32),
                });
            }
        }
        Ok(())
    }
}

/// For each change the counters that its ops may have: above those of its dependencies and of the
/// author's change before, up to its greatest op.
struct Windows {
    /// Actor after actor.
    windows: Vec<Window>,
    /// Of each actor where its windows begin; one more tells where all end.
    starts: Vec<u32>,
    /// Of each actor the window that was found last.
    last: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Window {
    /// The counter below the first.
    before: u32,
    end: u32,
    change: u32,
}

impl Windows {
    fn new(changes: &ChangeTable, actor_count: usize) -> Self {
        let mut starts = vec![0_u32; actor_count + 1];
        for actor in &changes.actors {
            starts[actor.as_usize() + 1] += 1;
        }
        for actor in 0..actor_count {
            starts[actor + 1] += starts[actor];
        }
        let mut next = starts.clone();
        let mut windows = vec![Window::default(); changes.len()];
        for (row, actor) in (0_u32..).zip(&changes.actors) {
            let at = next[actor.as_usize()] as usize;
            next[actor.as_usize()] += 1;
            let own = if at == starts[actor.as_usize()] as usize { 0 } else { windows[at - 1].end };
            let deps = changes.deps_at(row as usize);
            let max_ops = deps.iter().map(|dep| changes.max_ops[*dep as usize]);
            let before = max_ops.fold(own, u32::max);
            windows[at] = Window { before, end: changes.max_ops[row as usize], change: row };
        }
        let last = starts.clone();
        Self { windows, starts, last }
    }

    /// The change with this op.
    #[inline]
    fn find(&mut self, id: OpId) -> Result<u32, Error> {
        let actor = id.actor.as_usize();
        let last = &mut self.last[actor];
        if let Some(window) = self.windows.get(*last as usize)
            && window.before < id.counter
            && id.counter <= window.end
            && *last < self.starts[actor + 1]
        {
            return Ok(window.change);
        }
        let (start, end) = (self.starts[actor] as usize, self.starts[actor + 1] as usize);
        let windows = &self.windows[start..end];
        // Neighbouring ops of changes with one op each: as far apart as their counters.
        let guess = windows.get((*last as usize).wrapping_sub(start)).map(|window| {
            let distance = i64::from(id.counter) - i64::from(window.end);
            (i64::from(*last) - start as i64).saturating_add(distance)
        });
        let fits = |window: &Window| window.before < id.counter && id.counter <= window.end;
        let found = match guess.and_then(|at| usize::try_from(at).ok()) {
            Some(at) if windows.get(at).is_some_and(fits) => at,
            _ => windows.partition_point(|window| window.end < id.counter),
        };
        match windows.get(found) {
            Some(window) if fits(window) => {
                *last = (start + found) as u32;
                Ok(window.change)
            }
            _ => Err(Error::Corrupt {
                chunk: ChunkType::Document,
                part: PART,
                row: None,
                fault: Fault::StrayOp(id.counter),
            }),
        }
    }
}

/// Where in its object a row is found, but for a key of a map: an insertion is at the element that
/// it makes.
fn target(rows: &OpTable, row: u32) -> (u32, u32, KeyKind, u32) {
    let segment = rows.segment(row);
    let (key, counter) = if segment.insert {
        (KeyKind::Elem(segment.id_actor), rows.id_counters[row as usize])
    } else {
        (segment.key, rows.key_counters[row as usize])
    };
    (segment.obj_counter, segment.obj_actor, key, counter)
}

/// Whether two rows are at the same place.
fn same_target(rows: &OpTable, a: u32, b: u32) -> bool {
    let (a, b) = (target(rows, a), target(rows, b));
    match (a.2, b.2) {
        (KeyKind::Map(x), KeyKind::Map(y)) => {
            (a.0, a.1) == (b.0, b.1) && rows.text(x) == rows.text(y)
        }
        _ => a == b,
    }
}

fn row_count(rows: &OpTable) -> u32 {
    u32::try_from(rows.id_counters.len()).expect("there are fewer than 2^32 rows")
}

/// Names the first op that a change lacks.
fn missing(
    change: usize,
    least: u32,
    max_op: u32,
    rows: &OpTable,
    row_changes: &[u32],
    edge_changes: &[u32],
) -> Error {
    let of_rows = rows.id_counters.iter().zip(row_changes);
    let of_edges = rows.succs.iter().map(|succ| &succ.counter).zip(edge_changes);
    let own = of_rows.chain(of_edges).filter(|(_, of)| **of as usize == change);
    let mut counters: Vec<u32> = own.map(|(counter, _)| *counter).collect();
    counters.sort_unstable();
    counters.dedup();
    let first = (least..=max_op).zip(counters.iter().map(Some).chain(std::iter::repeat(None)));
    let hole = first.into_iter().find(|(expected, counter)| *counter != Some(expected));
    ops_of(change, Fault::MissingOp(hole.map_or(max_op, |(counter, _)| counter)))
}

fn ops_of(change: usize, fault: Fault) -> Error {
    let row = u32::try_from(change).ok();
    Error::Corrupt { chunk: ChunkType::Document, part: PART, row, fault }
}

const PART: &str = "ops of a change";

const TOO_MANY: Error =
    Error::Limit { chunk: ChunkType::Document, what: "ops and succs", max: u32::MAX as u64 - 1 };

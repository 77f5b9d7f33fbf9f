//! The ops of each change. The ids of an actor's change are consecutive and end with the greatest
//! op named by its row; so an id alone gives the change of its op.
//!
//! Rows with consecutive ids, and the deletes of such rows, are taken as one: first they are cut to
//! pieces at the ends of changes, then the pieces are sorted by change, counting, and within a
//! change by counter. Pieces side by side are the ops of the change. Overlapping ones, of ops
//! superseding others and with a row, are resolved op by op.

use super::super::change_rows::ChangeTable;
use super::super::op_table::{KeyKind, OpTable, Place, SuccPart, Succs};
use crate::chunk::columns::{ID_COUNTER, NAMES};
use crate::{ChunkType, Error, Fault, OpId};

mod causal;
mod spread;
mod windows;

use spread::Spread;
use windows::Windows;

/// All ops in the order of the changes' rows, in each change ascending, as runs.
pub(super) struct Slots {
    /// The first op of each change, counted through all changes; one more for the end of all.
    pub(super) starts: Vec<u32>,
    /// The counter of the first op of each change.
    pub(super) start_ops: Vec<u32>,
    /// The first run of each change; one more for the end of all.
    run_starts: Vec<u32>,
    runs: Vec<OpRun>,
    lists: Lists,
}

/// The superseded ops of [`Preds::Listed`].
#[derive(Default)]
struct Lists {
    ids: Vec<OpId>,
    /// The end of each list; a list begins at the end of the one before.
    ends: Vec<u32>,
}

/// Ops of a change with consecutive ids, and with everything else in common but payloads and the
/// counters following from the ids.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpRun {
    pub(super) len: u32,
    /// The row of the first; the rows of the others follow in its chain. For deletes, without rows
    /// of their own, the row of the first deleted op.
    pub(super) place: Place,
    pub(super) preds: Preds,
}

/// The superseded ops of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preds {
    /// Nothing.
    None,
    /// Deletes of one row each, consecutive rows upwards or downwards.
    Deleted { descends: bool },
    /// One op, superseding the rows in the list of this number.
    Listed { list: u32, is_delete: bool },
}

impl OpRun {
    pub(super) fn is_delete(&self) -> bool {
        match self.preds {
            Preds::None => false,
            Preds::Deleted { .. } => true,
            Preds::Listed { is_delete, .. } => is_delete,
        }
    }
}

/// Consecutive ids of one change.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    counter: u32,
    len: u32,
    /// The row of the first; the rows of the others follow in its chain as `kind` says.
    place: Place,
    kind: Kind,
}

/// The owners of the ids of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// Rows.
    #[default]
    Rows,
    /// Ops superseding rows, each the row after the one before.
    Up,
    /// The same, each the row before the one before.
    Down,
}

impl Piece {
    /// Rows come before ops superseding others under the same id.
    fn order(&self) -> u64 {
        u64::from(self.counter) << 1 | u64::from(self.kind != Kind::Rows)
    }

    /// Its op at `at`, with this counter, belongs to no change.
    fn stray(&self, rows: &OpTable, at: u32, counter: u32) -> Error {
        let part = if self.kind == Kind::Rows { NAMES[ID_COUNTER] } else { SUCC_COUNTER_NAME };
        let (chunk, row) = (ChunkType::Document, Some(rows.row(self.place_at(at))));
        Error::Corrupt { chunk, part, row, fault: Fault::StrayOp(counter) }
    }

    fn place_at(&self, at: u32) -> Place {
        let Place { chain, at: first } = self.place;
        Place { chain, at: if self.kind == Kind::Down { first - at } else { first + at } }
    }
}

/// The ids found of a change.
#[derive(Clone, Copy)]
struct Seen {
    least: u32,
    /// The number of ids, repeated ones counted twice.
    ids: u32,
    pieces: u32,
}

impl Slots {
    /// Cost: linear in rows and edges, but next to nothing for consecutive ids; for others, a
    /// binary search in the changes of the author for each id.
    ///
    /// # Errors
    /// When an id is used twice, an op belongs to no change or a change lacks one, a delete has
    /// several keys, or an op supersedes rows at another key than its own.
    pub(super) fn assign(
        changes: &ChangeTable,
        actor_count: usize,
        rows: &OpTable,
    ) -> Result<Self, Error> {
        let mut cutter = Cutter {
            windows: Windows::new(changes, actor_count),
            seen: vec![Seen { least: u32::MAX, ids: 0, pieces: 0 }; changes.len()],
            pieces: Vec::new(),
            changes: Vec::new(),
        };
        cutter.cut_rows(rows)?;
        cutter.cut_succs(rows)?;
        if actor_count > 1 {
            causal::check(rows, &mut cutter.windows)?;
        }
        let Cutter { seen, pieces, changes: of_piece, .. } = cutter;

        let count = changes.len();
        let mut slots = Self {
            starts: Vec::with_capacity(count + 1),
            start_ops: Vec::with_capacity(count),
            run_starts: Vec::with_capacity(count + 1),
            runs: Vec::new(),
            lists: Lists::default(),
        };
        // Of each change where its pieces go.
        let mut next = Vec::with_capacity(count);
        let (mut end, mut pieces_end) = (0_u32, 0_u32);
        for (change, seen) in seen.iter().enumerate() {
            slots.starts.push(end);
            next.push(pieces_end);
            pieces_end += seen.pieces;
            let max_op = changes.max_ops[change];
            slots.start_ops.push(if seen.ids == 0 { max_op + 1 } else { seen.least });
            if seen.ids == 0 {
                continue;
            }
            // Fewer ids than places: one is missing, and with it goes the bound on the following.
            let len = max_op - seen.least + 1;
            if len > seen.ids {
                return Err(missing(change, seen.least, max_op, &pieces, &of_piece));
            }
            end = end.checked_add(len).filter(|end| *end < u32::MAX).ok_or(TOO_MANY)?;
        }
        slots.starts.push(end);
        let mut sorted = vec![Piece::default(); pieces.len()];
        for (piece, change) in pieces.iter().zip(&of_piece) {
            let place = &mut next[*change as usize];
            sorted[*place as usize] = *piece;
            *place += 1;
        }
        drop((pieces, of_piece));
        slots.runs.reserve_exact(sorted.len());
        slots.take(rows, &mut sorted, &next)?;
        Ok(slots)
    }

    /// Makes runs of the pieces of each change; the pieces end at `ends`.
    fn take(&mut self, rows: &OpTable, pieces: &mut [Piece], ends: &[u32]) -> Result<(), Error> {
        let mut spread = Spread::default();
        let mut start = 0;
        for (change, &end) in ends.iter().enumerate() {
            self.run_starts.push(run_count(&self.runs)?);
            let own = &mut pieces[start..end as usize];
            start = end as usize;
            if !own.is_sorted_by_key(Piece::order) {
                own.sort_unstable_by_key(Piece::order);
            }
            let least = self.start_ops[change];
            let mut next = least;
            let is_plain = own.iter().all(|piece| {
                let fits = piece.counter == next;
                next = piece.counter + piece.len;
                fits
            });
            let len = self.starts[change + 1] - self.starts[change];
            if is_plain && next == least + len {
                self.runs.extend(own.iter().map(|piece| OpRun {
                    len: piece.len,
                    place: piece.place,
                    preds: match piece.kind {
                        Kind::Rows => Preds::None,
                        kind => Preds::Deleted { descends: kind == Kind::Down },
                    },
                }));
            } else {
                spread.fill(rows, own, least, len)?;
                spread.take(rows, change, least, &mut self.runs, &mut self.lists)?;
            }
        }
        self.run_starts.push(run_count(&self.runs)?);
        Ok(())
    }

    /// The ops of a change.
    pub(super) fn runs_of(&self, change: usize) -> &[OpRun] {
        &self.runs[self.run_starts[change] as usize..self.run_starts[change + 1] as usize]
    }

    /// All runs.
    pub(super) fn runs(&self) -> &[OpRun] {
        &self.runs
    }

    /// The superseded ops of an op of [`Preds::Listed`].
    pub(super) fn preds(&self, list: u32) -> &[OpId] {
        let list = list as usize;
        let start = list.checked_sub(1).map_or(0, |before| self.lists.ends[before]);
        &self.lists.ids[start as usize..self.lists.ends[list] as usize]
    }

    /// How many ops there are.
    pub(super) fn op_count(&self) -> usize {
        self.starts.last().map_or(0, |end| *end as usize)
    }
}

/// Cuts consecutive ids at the ends of changes.
struct Cutter {
    windows: Windows,
    /// By change.
    seen: Vec<Seen>,
    pieces: Vec<Piece>,
    /// The change of each piece.
    changes: Vec<u32>,
}

impl Cutter {
    fn cut_rows(&mut self, rows: &OpTable) -> Result<(), Error> {
        for (index, chain) in (0_u32..).zip(&rows.chains) {
            let place = Place { chain: index, at: 0 };
            let (id, len) = (rows.id(place), rows.chain_len(index as usize));
            self.cut(rows, id, Piece { counter: chain.id_counter, len, place, kind: Kind::Rows })?;
        }
        Ok(())
    }

    /// Successors, in the order of their rows.
    fn cut_succs(&mut self, rows: &OpTable) -> Result<(), Error> {
        for part in rows.succ_parts() {
            let SuccPart { place, len, succs } = part;
            let is_insert = rows.segment(place).insert;
            let single = |counter: u32, place| Piece { counter, len: 1, place, kind: Kind::Up };
            match succs {
                Succs::Up(id) if is_insert => {
                    self.cut(rows, id, Piece { len, ..single(id.counter, place) })?;
                }
                Succs::Down(first) if is_insert => {
                    // Cut from the least counter on, the counter of the last row.
                    let back = len - 1;
                    let id = OpId { counter: first.counter - back, ..first };
                    let place = Place { at: place.at + back, ..place };
                    let kind = if len > 1 { Kind::Down } else { Kind::Up };
                    self.cut(rows, id, Piece { counter: id.counter, len, place, kind })?;
                }
                Succs::Up(_) | Succs::Down(_) => {
                    for at in 0..len {
                        let (Succs::Up(id) | Succs::Down(id)) = succs.after(at) else { continue };
                        let place = Place { at: place.at + at, ..place };
                        self.cut(rows, id, single(id.counter, place))?;
                    }
                }
                Succs::List { count, .. } => {
                    for (index, id) in (0..).zip(rows.listed(part)) {
                        let place = Place { at: place.at + index / count, ..place };
                        self.cut(rows, *id, single(id.counter, place))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Cuts a piece whose first id is `id` to pieces of one change each.
    fn cut(&mut self, rows: &OpTable, id: OpId, piece: Piece) -> Result<(), Error> {
        let mut done = 0;
        while done < piece.len {
            let counter = piece.counter + done;
            let window = self.windows.find(OpId { counter, ..id });
            let window = window.ok_or_else(|| piece.stray(rows, done, counter))?;
            let len = (piece.len - done).min(window.end - counter + 1);
            let seen = &mut self.seen[window.change as usize];
            seen.least = seen.least.min(counter);
            seen.ids = seen.ids.saturating_add(len);
            seen.pieces += 1;
            self.pieces.push(Piece { counter, len, place: piece.place_at(done), ..piece });
            self.changes.push(window.change);
            done += len;
        }
        if u32::try_from(self.pieces.len()).is_err() {
            return Err(TOO_MANY);
        }
        Ok(())
    }
}

/// The place of a row in its object, except for the key of a map: an insertion is at its own
/// element.
fn target(rows: &OpTable, place: Place) -> (u32, u32, KeyKind, u32) {
    let segment = rows.segment(place);
    let (key, counter) = if segment.insert {
        (KeyKind::Elem(segment.id_actor), rows.id(place).counter)
    } else {
        (segment.key, rows.key_counter(place))
    };
    (segment.obj_counter, segment.obj_actor, key, counter)
}

/// True if two rows are at the same place.
fn same_target(rows: &OpTable, a: Place, b: Place) -> bool {
    let (a, b) = (target(rows, a), target(rows, b));
    match (a.2, b.2) {
        (KeyKind::Map(x), KeyKind::Map(y)) => {
            (a.0, a.1) == (b.0, b.1) && rows.text(x) == rows.text(y)
        }
        _ => a == b,
    }
}

fn run_count(runs: &[OpRun]) -> Result<u32, Error> {
    u32::try_from(runs.len()).map_err(|_| TOO_MANY)
}

/// Names the first op missing from a change.
fn missing(change: usize, least: u32, max_op: u32, pieces: &[Piece], of_piece: &[u32]) -> Error {
    let own = pieces.iter().zip(of_piece).filter(|(_, of)| **of as usize == change);
    let mut own: Vec<(u32, u32)> =
        own.map(|(piece, _)| (piece.counter, piece.counter + piece.len)).collect();
    own.sort_unstable();
    let mut next = least;
    for (start, end) in own {
        if start > next {
            break;
        }
        next = next.max(end);
    }
    ops_of(change, Fault::MissingOp(next.min(max_op)))
}

fn ops_of(change: usize, fault: Fault) -> Error {
    let row = u32::try_from(change).ok();
    Error::Corrupt { chunk: ChunkType::Document, part: PART, row, fault }
}

/// The column with the greatest op of a row, the claim of a change to its ops.
const PART: &str = "change max op column";
const SUCC_COUNTER_NAME: &str = "succ counter column";

const TOO_MANY: Error =
    Error::Limit { chunk: ChunkType::Document, what: "ops and succs", max: u32::MAX as u64 - 1 };

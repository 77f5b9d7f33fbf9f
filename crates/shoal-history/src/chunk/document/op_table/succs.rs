//! The successors of the rows of a document chunk: ids counting up or down row by row, as ids of
//! deletes do, are kept as one.

use super::{Chain, Columns, Faulty, OpTable, Place, actor, counter};
use crate::chunk::columns::{LINK_ACTOR, LINK_COUNT, LINK_COUNTER};
use crate::chunk::document::sort_links;
use crate::column::delta::DeltaDecoder;
use crate::column::rle::RleDecoder;
use crate::{ActorIdx, OpId};

/// Neighbouring rows with successors of one form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccRun {
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) succs: Succs,
}

/// The successors of neighbouring rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Succs {
    /// One op each, ids counting up from this one.
    Up(OpId),
    /// The same, counting down.
    Down(OpId),
    /// `count` each, listed from `start` on.
    List { start: u32, count: u32 },
}

/// Rows of one chain with successors of one form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccPart {
    pub(crate) place: Place,
    pub(crate) len: u32,
    pub(crate) succs: Succs,
}

impl OpTable {
    pub(super) fn read_succs(
        &mut self,
        columns: &Columns,
        count: usize,
        actors: u32,
    ) -> Result<(), Faulty> {
        let mut counts = RleDecoder::<u64>::new(&columns[LINK_COUNT]);
        let mut reader = SuccReader {
            ids: RleDecoder::new(&columns[LINK_ACTOR]),
            counters: DeltaDecoder::new(&columns[LINK_COUNTER]),
            actors,
        };
        let mut row = 0;
        while row < count {
            let (succs, run) = counts.next_equal()?;
            let rows = usize::try_from(run).unwrap_or(usize::MAX).min(count - row);
            match u32::try_from(succs.unwrap_or(0)).map_err(|_| Faulty)? {
                0 => {}
                1 => self.read_single_succs(row as u32, rows as u32, &mut reader)?,
                each => self.read_listed_succs(row as u32, rows as u32, each, &mut reader)?,
            }
            row += rows;
        }
        self.check_succs()
    }

    /// Reads the successors of rows with one each.
    fn read_single_succs(
        &mut self,
        mut first_row: u32,
        mut left: u32,
        reader: &mut SuccReader<'_>,
    ) -> Result<(), Faulty> {
        while left > 0 {
            let first = reader.next()?;
            let (mut rows, mut direction) = (1, 0);
            while rows < left {
                let (step, run) = reader.peek_steps(first.actor)?;
                let more = run.min(u64::from(left - rows)) as u32;
                if more == 0 || (direction != 0 && direction != step) {
                    break;
                }
                direction = step;
                reader.skip(step, u64::from(more));
                rows += more;
            }
            let succs = if direction < 0 { Succs::Down(first) } else { Succs::Up(first) };
            // The others lie between the first and the last.
            let last = i64::from(first.counter) + direction * i64::from(rows - 1);
            counter(Some(last))?;
            self.succ_runs.push(SuccRun { first_row, rows, succs });
            first_row += rows;
            left -= rows;
        }
        Ok(())
    }

    /// Reads the successors of rows with `count` each, and sorts them row by row.
    fn read_listed_succs(
        &mut self,
        first_row: u32,
        rows: u32,
        count: u32,
        reader: &mut SuccReader<'_>,
    ) -> Result<(), Faulty> {
        let start = self.succs.len();
        // The columns were counted: they have as many rows as this comes to.
        for _ in 0..u64::from(rows) * u64::from(count) {
            self.succs.push(reader.next()?);
        }
        for own in self.succs[start..].chunks_exact_mut(count as usize) {
            sort_links(own);
            if own.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(Faulty);
            }
        }
        u32::try_from(self.succs.len()).map_err(|_| Faulty)?;
        let succs = Succs::List { start: start as u32, count };
        self.succ_runs.push(SuccRun { first_row, rows, succs });
        Ok(())
    }

    /// Successors come after their row.
    fn check_succs(&self) -> Result<(), Faulty> {
        let fits = |part: SuccPart| {
            let first = self.id(part.place).counter;
            let last = first + (part.len - 1);
            match part.succs {
                Succs::Up(succ) => succ.counter > first,
                Succs::Down(succ) => succ.counter - (part.len - 1) > last,
                Succs::List { count, .. } => {
                    (0..).zip(self.listed(part)).all(|(at, succ)| succ.counter > first + at / count)
                }
            }
        };
        if self.succ_parts().all(fits) { Ok(()) } else { Err(Faulty) }
    }

    /// The successors of rows, in order, cut at the ends of chains.
    pub(crate) fn succ_parts(&self) -> SuccParts<'_> {
        SuccParts { table: self, run: 0, done: 0, chain: 0 }
    }

    /// The successors of a part of [`Succs::List`].
    pub(crate) fn listed(&self, part: SuccPart) -> &[OpId] {
        match part.succs {
            Succs::List { start, count } => self.list(start, part.len as usize * count as usize),
            _ => &[],
        }
    }

    fn list(&self, start: u32, len: usize) -> &[OpId] {
        &self.succs[start as usize..start as usize + len]
    }

    /// The successors of a row of a run with [`Succs::List`], from `start` on.
    pub(crate) fn listed_of_row(&self, start: u32, count: u32) -> &[OpId] {
        self.list(start, count as usize)
    }
}

impl Succs {
    /// The successors of the rows after the first `rows`.
    #[inline]
    pub(crate) fn after(self, rows: u32) -> Self {
        match self {
            Self::Up(id) => Self::Up(OpId { counter: id.counter + rows, ..id }),
            Self::Down(id) => Self::Down(OpId { counter: id.counter - rows, ..id }),
            Self::List { start, count } => Self::List { start: start + rows * count, count },
        }
    }
}

/// See [`OpTable::succ_parts`].
#[derive(Clone, Debug)]
pub(crate) struct SuccParts<'a> {
    table: &'a OpTable,
    /// The run, how many of its rows were seen, and the chain of the next one or one before.
    run: usize,
    done: u32,
    chain: usize,
}

impl Iterator for SuccParts<'_> {
    type Item = SuccPart;

    fn next(&mut self) -> Option<SuccPart> {
        let run = self.table.succ_runs.get(self.run)?;
        let row = run.first_row + self.done;
        let chains = &self.table.chains;
        if chains.get(self.chain + 1).is_some_and(|next| next.first_row <= row) {
            self.chain += 1;
            if chains.get(self.chain + 1).is_some_and(|next| next.first_row <= row) {
                // Further ahead.
                self.chain += step_to(&chains[self.chain..], row);
            }
        }
        let at = row - chains[self.chain].first_row;
        let len = (run.rows - self.done).min(self.table.chain_len(self.chain) - at);
        let succs = run.succs.after(self.done);
        self.done += len;
        if self.done == run.rows {
            (self.run, self.done) = (self.run + 1, 0);
        }
        Some(SuccPart { place: Place { chain: self.chain as u32, at }, len, succs })
    }
}

/// How far from the first of `chains` the one with this row is.
fn step_to(chains: &[Chain], row: u32) -> usize {
    let mut ahead = 1;
    while chains.get(ahead).is_some_and(|chain| chain.first_row <= row) {
        ahead *= 2;
    }
    let near = &chains[..ahead.min(chains.len())];
    near.partition_point(|chain| chain.first_row <= row) - 1
}

/// Reads successors in runs.
struct SuccReader<'a> {
    ids: RleDecoder<'a, u64>,
    counters: DeltaDecoder<'a>,
    actors: u32,
}

impl SuccReader<'_> {
    #[inline]
    fn next(&mut self) -> Result<OpId, Faulty> {
        let (index, _) = self.ids.peek()?;
        self.ids.skip(1);
        let (value, step, _) = self.counters.peek()?;
        self.counters.skip(step, 1);
        let actor = ActorIdx(actor(index.ok_or(Faulty)?, self.actors)?);
        Ok(OpId { counter: counter(value)?, actor })
    }

    /// The number of following successors by `actor` in steps of one, and the direction; none for
    /// other steps.
    #[inline]
    fn peek_steps(&mut self, actor: ActorIdx) -> Result<(i64, u64), Faulty> {
        let (_, step, run) = self.counters.peek()?;
        if step != 1 && step != -1 {
            return Ok((step, 0));
        }
        let (index, of_actor) = self.ids.peek()?;
        Ok((step, if index == Some(u64::from(actor.0)) { run.min(of_actor) } else { 0 }))
    }

    #[inline]
    fn skip(&mut self, step: i64, count: u64) {
        self.ids.skip(count);
        self.counters.skip(step, count);
    }
}

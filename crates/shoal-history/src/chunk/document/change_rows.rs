//! The change columns of a document chunk: the parts of each change besides the ops.

use crate::column::delta::{self, DeltaDecoder};
use crate::column::rle::{self, RleDecoder};
use crate::column::spec::ColumnSpec;
use crate::column::value::{BYTES, ValueDecoder};
use crate::error::{ColumnFault, InColumn};
use crate::{ActorIdx, ChunkType, Error, Fault};

const ACTOR: usize = 0;
const SEQ: usize = 1;
const MAX_OP: usize = 2;
const TIME: usize = 3;
const MESSAGE: usize = 4;
const DEP_COUNT: usize = 5;
const DEP_ROW: usize = 6;
const EXTRA_META: usize = 7;
const EXTRA: usize = 8;

pub(super) const CHANGE_COLUMN_COUNT: usize = 9;

/// The specifications, by the constants above.
pub(super) const CHANGE_ROW_SPECS: [ColumnSpec; CHANGE_COLUMN_COUNT] = [
    ColumnSpec(1),
    ColumnSpec(3),
    ColumnSpec(19),
    ColumnSpec(35),
    ColumnSpec(53),
    ColumnSpec(64),
    ColumnSpec(67),
    ColumnSpec(86),
    ColumnSpec(87),
];

const NAMES: [&str; CHANGE_COLUMN_COUNT] = [
    "change actor column",
    "change seq column",
    "change max op column",
    "change time column",
    "change message column",
    "change dep count column",
    "change dep row column",
    "change extra metadata column",
    "change extra column",
];

/// The bytes of each column, empty for a column left out.
pub(super) type ChangeColumns<'a> = [&'a [u8]; CHANGE_COLUMN_COUNT];

/// How many rows there are, and how many dependencies in all of them.
pub(super) struct ChangeCounts {
    pub(super) changes: u64,
    pub(super) deps: u64,
}

/// Counts the rows and checks the columns for equal counts. Cost: the bytes of the columns.
pub(super) fn count_rows(columns: &ChangeColumns<'_>) -> Result<ChangeCounts, ColumnFault> {
    let changes = rle::count_rows::<u64>(columns[ACTOR]).in_column(NAMES[ACTOR])?;
    let mut deps = 0_u64;
    for (index, (&bytes, column)) in columns.iter().zip(NAMES).enumerate() {
        let always = matches!(index, SEQ | MAX_OP | DEP_COUNT);
        if bytes.is_empty() && !always {
            continue;
        }
        let (rows, expected) = match index {
            SEQ | MAX_OP | TIME => (delta::count_rows(bytes), changes),
            MESSAGE => (rle::count_rows::<&str>(bytes), changes),
            EXTRA_META => (rle::count_rows::<u64>(bytes), changes),
            DEP_COUNT => {
                let rows = rle::for_each_run::<u64>(bytes, |count, run| {
                    let count = count.ok_or(Fault::UnexpectedNull)?;
                    let sum = count.checked_mul(run).and_then(|sum| deps.checked_add(sum));
                    deps = sum.ok_or(Fault::Overflow)?;
                    Ok(())
                });
                (rows, changes)
            }
            // The counts come before.
            DEP_ROW => (delta::count_rows(bytes), deps),
            _ => continue,
        };
        let rows = rows.in_column(column)?;
        if rows != expected {
            return Err(ColumnFault { column, fault: Fault::RowCount(rows) });
        }
    }
    if columns[DEP_ROW].is_empty() && deps > 0 {
        return Err(ColumnFault { column: NAMES[DEP_ROW], fault: Fault::RowCount(0) });
    }
    Ok(ChangeCounts { changes, deps })
}

/// A change of a document chunk, without ops and dependencies.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangeRow<'a> {
    pub(super) actor: ActorIdx,
    pub(super) seq: u32,
    pub(super) max_op: u32,
    pub(super) time: i64,
    /// Empty for none.
    pub(super) message: &'a str,
    pub(super) extra: &'a [u8],
}

/// Reads the rows. Their number must have come from [`count_rows`].
#[derive(Clone, Debug)]
pub(super) struct ChangeReader<'a> {
    actor_count: u32,
    actor: RleDecoder<'a, u64>,
    seq: DeltaDecoder<'a>,
    max_op: DeltaDecoder<'a>,
    time: DeltaDecoder<'a>,
    message: RleDecoder<'a, &'a str>,
    dep_count: RleDecoder<'a, u64>,
    dep_row: DeltaDecoder<'a>,
    extra: ValueDecoder<'a>,
}

impl<'a> ChangeReader<'a> {
    pub(super) fn new(columns: &ChangeColumns<'a>, actor_count: u32) -> Self {
        Self {
            actor_count,
            actor: RleDecoder::new(columns[ACTOR]),
            seq: DeltaDecoder::new(columns[SEQ]),
            max_op: DeltaDecoder::new(columns[MAX_OP]),
            time: DeltaDecoder::new(columns[TIME]),
            message: RleDecoder::new(columns[MESSAGE]),
            dep_count: RleDecoder::new(columns[DEP_COUNT]),
            dep_row: DeltaDecoder::new(columns[DEP_ROW]),
            extra: ValueDecoder::new(columns[EXTRA_META], columns[EXTRA]),
        }
    }

    /// The next row; its dependencies, as rows, are appended to `deps`.
    pub(super) fn next(&mut self, deps: &mut Vec<u32>) -> Result<ChangeRow<'a>, ColumnFault> {
        let actor = self.next_actor().in_column(NAMES[ACTOR])?;
        let number = |value: Result<Option<u32>, Fault>, index: usize| {
            value.and_then(|value| value.ok_or(Fault::UnexpectedNull)).in_column(NAMES[index])
        };
        let seq = number(self.seq.next_u32(), SEQ)?;
        let max_op = number(self.max_op.next_u32(), MAX_OP)?;
        let time = self.time.next().in_column(NAMES[TIME])?.unwrap_or(0);
        let message = self.message.next().in_column(NAMES[MESSAGE])?.unwrap_or("");
        let dep_count = self.dep_count.next().in_column(NAMES[DEP_COUNT])?.unwrap_or(0);
        for _ in 0..dep_count {
            deps.push(number(self.dep_row.next_u32(), DEP_ROW)?);
        }
        let extra = self.extra.next().in_column(NAMES[EXTRA])?;
        // Null stands for no bytes where a writer had none to store.
        if extra.type_code != BYTES && (extra.type_code != 0 || !extra.payload.is_empty()) {
            let fault = Fault::ValuePayload(extra.type_code);
            return Err(ColumnFault { column: NAMES[EXTRA_META], fault });
        }
        Ok(ChangeRow { actor, seq, max_op, time, message, extra: extra.payload })
    }

    /// Checks for leftover extra bytes after the last row.
    pub(super) fn finish(&self) -> Result<(), ColumnFault> {
        match self.extra.leftover() {
            0 => Ok(()),
            left => Err(ColumnFault { column: NAMES[EXTRA], fault: Fault::Leftover(left as u64) }),
        }
    }

    fn next_actor(&mut self) -> Result<ActorIdx, Fault> {
        let index = self.actor.next()?.ok_or(Fault::UnexpectedNull)?;
        match u32::try_from(index) {
            Ok(index) if index < self.actor_count => Ok(ActorIdx(index)),
            _ => Err(Fault::NoSuchActor(index)),
        }
    }
}

/// The rows of all changes, column by column: changes without their ops, for the graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeTable {
    pub(crate) actors: Vec<ActorIdx>,
    pub(crate) seqs: Vec<u32>,
    pub(crate) max_ops: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// The end of each change's dependencies in `deps`; they begin at the end of the change before.
    pub(crate) deps_ends: Vec<u32>,
    /// Rows of dependencies, change after change.
    pub(crate) deps: Vec<u32>,
    /// Messages, and where the one of each change is; without any, no places.
    message_bytes: Box<[u8]>,
    messages: Vec<Place>,
    /// The same of extra bytes.
    extra_bytes: Box<[u8]>,
    extras: Vec<Place>,
}

/// Where something is, and how long.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u32,
    len: u32,
}

impl ChangeTable {
    /// Reads `count` rows, counted by [`count_rows`], and checks each.
    pub(super) fn read(
        columns: &ChangeColumns<'_>,
        actor_count: u32,
        count: u32,
    ) -> Result<Self, Error> {
        match Self::read_columns(columns, actor_count, count as usize) {
            Some(table) => Ok(table),
            // Something is wrong, or odd: reading row by row finds the place.
            None => Self::read_rows(columns, actor_count, count),
        }
    }

    /// Reads each column by itself, in runs; `None` where one of them needs a closer look.
    fn read_columns(columns: &ChangeColumns<'_>, actor_count: u32, count: usize) -> Option<Self> {
        let left = |done: usize| (count - done) as u64;
        let mut table = Self {
            actors: Vec::with_capacity(count),
            seqs: Vec::with_capacity(count),
            max_ops: Vec::with_capacity(count),
            times: Vec::with_capacity(count),
            deps_ends: Vec::with_capacity(count),
            message_bytes: columns[MESSAGE].into(),
            extra_bytes: columns[EXTRA].into(),
            ..Self::default()
        };
        let mut actors = RleDecoder::<u64>::new(columns[ACTOR]);
        while table.actors.len() < count {
            let (index, run) = actors.next_equal_of(left(table.actors.len())).ok()?;
            let index = u32::try_from(index?).ok().filter(|index| *index < actor_count)?;
            table.actors.resize(table.actors.len() + run as usize, ActorIdx(index));
        }
        DeltaDecoder::new(columns[SEQ]).read_counters(count, &mut table.seqs).ok()?;
        DeltaDecoder::new(columns[MAX_OP]).read_counters(count, &mut table.max_ops).ok()?;
        let mut times = DeltaDecoder::new(columns[TIME]);
        while table.times.len() < count {
            let (first, step, run) = times.peek().ok()?;
            let run = run.min(left(table.times.len()));
            times.skip(step, run);
            let (first, step) = (first.unwrap_or(0), if first.is_some() { step } else { 0 });
            let time = |at: u64| first.wrapping_add(step.wrapping_mul(at.cast_signed()));
            table.times.extend((0..run).map(time));
        }
        let mut dep_counts = RleDecoder::<u64>::new(columns[DEP_COUNT]);
        let mut deps_end = 0_u32;
        while table.deps_ends.len() < count {
            let (deps, run) = dep_counts.next_equal_of(left(table.deps_ends.len())).ok()?;
            let deps = u32::try_from(deps.unwrap_or(0)).ok()?;
            for _ in 0..run {
                deps_end = deps_end.checked_add(deps)?;
                table.deps_ends.push(deps_end);
            }
        }
        table.deps.reserve_exact(deps_end as usize);
        DeltaDecoder::new(columns[DEP_ROW])
            .read_counters(deps_end as usize, &mut table.deps)
            .ok()?;
        if !columns[MESSAGE].is_empty() {
            let mut messages = RleDecoder::<&str>::new(columns[MESSAGE]);
            while table.messages.len() < count {
                let (text, run) = messages.next_equal_of(left(table.messages.len())).ok()?;
                let place = place_of(text.unwrap_or(""), columns[MESSAGE]);
                table.messages.resize(table.messages.len() + run as usize, place);
            }
        }
        table.read_extras(columns, count)?;
        table.is_sound(actor_count as usize).then_some(table)
    }

    fn read_extras(&mut self, columns: &ChangeColumns<'_>, count: usize) -> Option<()> {
        let mut extra = ValueDecoder::new(columns[EXTRA_META], columns[EXTRA]);
        let (mut row, mut start) = (0, 0);
        while row < count {
            let (meta, run) = extra.peek_meta().ok()?;
            let run = run.min((count - row) as u64);
            let len = usize::try_from(meta >> 4).ok()?;
            let is_bytes = meta & 15 == u64::from(BYTES);
            if !is_bytes && meta != 0 {
                return None;
            }
            extra.skip(run, len.checked_mul(run as usize)?).ok()?;
            row += run as usize;
            if !columns[EXTRA].is_empty() {
                for _ in 0..run {
                    self.extras.push(Place { start: offset(start), len: offset(len) });
                    start += len;
                }
            }
        }
        (extra.leftover() == 0).then_some(())
    }

    /// True if each row fits the rows before, by the rules of [`Checker`].
    fn is_sound(&self, actor_count: usize) -> bool {
        let mut own = vec![(0_u32, 0_u32); actor_count];
        let mut deps_start = 0;
        for row in 0..self.len() {
            let deps_end = self.deps_ends[row] as usize;
            let (seq, own_max) = &mut own[self.actors[row].as_usize()];
            let mut least = *own_max;
            for &dep in &self.deps[deps_start..deps_end] {
                // A null is greater than any row.
                if dep as usize >= row {
                    return false;
                }
                least = least.max(self.max_ops[dep as usize]);
            }
            let max_op = self.max_ops[row];
            if self.seqs[row] != *seq + 1 || max_op < least || max_op == u32::MAX {
                return false;
            }
            (*seq, *own_max) = (self.seqs[row], max_op);
            deps_start = deps_end;
        }
        true
    }

    /// Reads the rows one by one, for the place of a fault.
    fn read_rows(columns: &ChangeColumns<'_>, actor_count: u32, count: u32) -> Result<Self, Error> {
        let mut reader = ChangeReader::new(columns, actor_count);
        let mut checker = Checker::new(actor_count as usize);
        let capacity = count as usize;
        let mut table = Self {
            actors: Vec::with_capacity(capacity),
            seqs: Vec::with_capacity(capacity),
            max_ops: Vec::with_capacity(capacity),
            times: Vec::with_capacity(capacity),
            deps_ends: Vec::with_capacity(capacity),
            message_bytes: columns[MESSAGE].into(),
            extra_bytes: columns[EXTRA].into(),
            ..Self::default()
        };
        let mut extra_start = 0;
        for row in 0..count {
            let change = reader
                .next(&mut table.deps)
                .and_then(|change| {
                    let start = table.deps_ends.last().copied().unwrap_or(0) as usize;
                    checker.check(row, &change, &table.deps[start..], &table.max_ops)?;
                    Ok(change)
                })
                .map_err(|fault| fault.at_row(ChunkType::Document, row))?;
            table.actors.push(change.actor);
            table.seqs.push(change.seq);
            table.max_ops.push(change.max_op);
            table.times.push(change.time);
            table.deps_ends.push(offset(table.deps.len()));
            if !columns[MESSAGE].is_empty() {
                table.messages.push(place_of(change.message, columns[MESSAGE]));
            }
            if !columns[EXTRA].is_empty() {
                let len = offset(change.extra.len());
                table.extras.push(Place { start: extra_start, len });
                extra_start += len;
            }
        }
        reader.finish().map_err(|fault| fault.in_chunk(ChunkType::Document))?;
        Ok(table)
    }

    pub(crate) fn len(&self) -> usize {
        self.actors.len()
    }

    pub(crate) fn deps_at(&self, row: usize) -> &[u32] {
        let start = row.checked_sub(1).map_or(0, |before| self.deps_ends[before] as usize);
        &self.deps[start..self.deps_ends[row] as usize]
    }

    /// The rows of changes without dependents, ascending.
    pub(crate) fn head_rows(&self) -> impl Iterator<Item = u32> {
        let mut is_head = vec![true; self.len()];
        for &dep in &self.deps {
            is_head[dep as usize] = false;
        }
        (0..).zip(is_head).filter_map(|(row, is_head)| is_head.then_some(row))
    }

    /// Empty for none.
    pub(crate) fn message(&self, row: usize) -> &str {
        let place = self.messages.get(row).copied().unwrap_or_default();
        let bytes = place.of(&self.message_bytes);
        std::str::from_utf8(bytes).expect("a message was checked to be utf-8")
    }

    pub(crate) fn extra(&self, row: usize) -> &[u8] {
        self.extras.get(row).copied().unwrap_or_default().of(&self.extra_bytes)
    }
}

impl Place {
    fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.start as usize + self.len as usize]
    }
}

/// The place of `text` in its column.
fn place_of(text: &str, column: &[u8]) -> Place {
    let start = match text {
        "" => 0,
        text => text.as_ptr().addr() - column.as_ptr().addr(),
    };
    Place { start: offset(start), len: offset(text.len()) }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a column is smaller than 4 GiB")
}

/// Checks each row against the rows before.
struct Checker {
    /// The last sequence number and the last greatest op of each actor.
    actors: Vec<(u32, u32)>,
}

impl Checker {
    fn new(actor_count: usize) -> Self {
        Self { actors: vec![(0, 0); actor_count] }
    }

    fn check(
        &mut self,
        row: u32,
        change: &ChangeRow<'_>,
        deps: &[u32],
        max_ops: &[u32],
    ) -> Result<(), ColumnFault> {
        let (seq, own_max) = &mut self.actors[change.actor.as_usize()];
        if change.seq.checked_sub(1) != Some(*seq) {
            let fault = Fault::Seq(u64::from(change.seq));
            return Err(ColumnFault { column: NAMES[SEQ], fault });
        }
        let mut least = *own_max;
        for &dep in deps {
            if dep >= row {
                let fault = Fault::DepRow(u64::from(dep));
                return Err(ColumnFault { column: NAMES[DEP_ROW], fault });
            }
            least = least.max(max_ops[dep as usize]);
        }
        // The greatest number is kept free, for a change without ops starts one above this.
        if change.max_op < least || change.max_op == u32::MAX {
            let fault = Fault::MaxOp(u64::from(change.max_op));
            return Err(ColumnFault { column: NAMES[MAX_OP], fault });
        }
        *seq = change.seq;
        *own_max = change.max_op;
        Ok(())
    }
}

//! The change columns of a document chunk: what it keeps of each change besides the ops.

use crate::column::delta::{self, DeltaDecoder};
use crate::column::rle::{self, RleDecoder};
use crate::column::spec::ColumnSpec;
use crate::column::value::{BYTES, ValueDecoder};
use crate::error::{ColumnFault, InColumn};
use crate::{ActorIdx, Fault};

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

/// The bytes of each column, empty where it is left out.
pub(super) type ChangeColumns<'a> = [&'a [u8]; CHANGE_COLUMN_COUNT];

/// How many rows there are, and how many dependencies in all of them.
pub(super) struct ChangeCounts {
    pub(super) changes: u64,
    pub(super) deps: u64,
}

/// Counts the rows and checks that the columns agree on them. Cost: the bytes of the columns.
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

    /// The next row; its dependencies, as rows, replace what is in `deps`.
    pub(super) fn next(&mut self, deps: &mut Vec<u32>) -> Result<ChangeRow<'a>, ColumnFault> {
        let actor = self.next_actor().in_column(NAMES[ACTOR])?;
        let number = |value: Result<Option<u32>, Fault>, index: usize| {
            value.and_then(|value| value.ok_or(Fault::UnexpectedNull)).in_column(NAMES[index])
        };
        let seq = number(self.seq.next_u32(), SEQ)?;
        let max_op = number(self.max_op.next_u32(), MAX_OP)?;
        let time = self.time.next().in_column(NAMES[TIME])?.unwrap_or(0);
        let message = self.message.next().in_column(NAMES[MESSAGE])?.unwrap_or("");
        deps.clear();
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

    /// Checks after the last row that no extra bytes are left.
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

/// Sees that each row fits the rows before it.
pub(super) struct Checker {
    /// Of each actor the last sequence number and the last greatest op.
    actors: Vec<(u32, u32)>,
    /// Of each row so far.
    max_ops: Vec<u32>,
}

impl Checker {
    pub(super) fn new(actor_count: usize) -> Self {
        Self { actors: vec![(0, 0); actor_count], max_ops: Vec::new() }
    }

    pub(super) fn check(
        &mut self,
        row: u32,
        change: &ChangeRow<'_>,
        deps: &[u32],
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
            least = least.max(self.max_ops[dep as usize]);
        }
        // The greatest number is kept free, for a change without ops starts one above this.
        if change.max_op < least || change.max_op == u32::MAX {
            let fault = Fault::MaxOp(u64::from(change.max_op));
            return Err(ColumnFault { column: NAMES[MAX_OP], fault });
        }
        *seq = change.seq;
        *own_max = change.max_op;
        self.max_ops.push(change.max_op);
        Ok(())
    }
}

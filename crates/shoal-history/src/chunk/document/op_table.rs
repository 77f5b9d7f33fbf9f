//! The op rows of a document chunk as flat arrays: each column is decoded and checked once, by
//! itself and in runs, and every later walk, in whatever order, costs a few loads a row. Most
//! columns change seldom from row to row, so those are kept for runs of rows.
//!
//! A fault is found here, but not told where: for that the rows are read one by one, as
//! [`super::DocumentChunk`] then does.

use super::{ID_ACTOR_COLUMN, ID_COUNTER_COLUMN, MarkOrder, OP_COLUMN_COUNT, sort_links};
use crate::chunk::op_rows::{
    ACTION, EXPAND, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR, LINK_COUNT,
    LINK_COUNTER, MARK_NAME, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META,
};
use crate::column::boolean::BooleanDecoder;
use crate::column::delta::DeltaDecoder;
use crate::column::rle::RleDecoder;
use crate::column::value::RawValue;
use crate::{Action, ActorIdx, Fault, Key, ObjId, OpId, ScalarRef};

/// The rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpTable {
    pub(crate) segments: Vec<Segment>,
    /// Of each row its segment.
    pub(crate) segment_of: Vec<u32>,
    /// Of each row the counter of its id.
    pub(crate) id_counters: Vec<u32>,
    /// Of each row the counter of its key; 0 for the head of a sequence and for keys of maps.
    pub(crate) key_counters: Vec<u32>,
    /// Keys of maps and names of marks, one after the other, and where each ends. Rows that repeat
    /// one share it.
    text: String,
    text_ends: Vec<u32>,
    /// The ops that supersede rows, row after row, each row's ascending.
    pub(crate) succs: Vec<OpId>,
    /// How many each row has, in runs.
    pub(crate) succ_runs: Vec<SuccRun>,
}

/// Neighbouring rows that differ in their ids, the counters of their keys, their payloads and
/// what supersedes them only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) first_row: u32,
    pub(crate) id_actor: u32,
    /// The counter of the object's id, 0 for the root.
    pub(crate) obj_counter: u32,
    pub(crate) obj_actor: u32,
    pub(crate) key: KeyKind,
    /// The number of the string + 1, 0 for none.
    pub(crate) mark_name: u32,
    /// Where the payload of the first row is, and how long each is.
    pub(crate) payload_start: u32,
    pub(crate) payload_len: u32,
    pub(crate) value_type: u8,
    pub(crate) action: Action,
    pub(crate) insert: bool,
    pub(crate) expand: bool,
}

/// A key but for its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// In a map: the number of the string.
    Map(u32),
    /// Before the first element.
    Head,
    /// An element by this actor.
    Elem(u32),
}

/// Neighbouring rows that are superseded by equally many ops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuccRun {
    pub(crate) rows: u32,
    pub(crate) count: u32,
}

/// The columns of a chunk.
pub(crate) type Columns = [Box<[u8]>; OP_COLUMN_COUNT];

/// Something is wrong somewhere.
#[derive(Debug)]
pub(crate) struct Faulty;

impl From<Fault> for Faulty {
    fn from(_: Fault) -> Self {
        Self
    }
}

impl OpTable {
    /// Reads `count` rows, which were counted before, and checks all that concerns a single row,
    /// and the order of the objects.
    pub(super) fn read(
        columns: &Columns,
        count: usize,
        actors: u32,
        marks: MarkOrder,
    ) -> Result<Self, Faulty> {
        let mut table = Self {
            segment_of: Vec::with_capacity(count),
            id_counters: Vec::with_capacity(count),
            key_counters: Vec::with_capacity(count),
            ..Self::default()
        };
        DeltaDecoder::new(&columns[ID_COUNTER_COLUMN])
            .read_counters(count, &mut table.id_counters)?;
        DeltaDecoder::new(&columns[KEY_COUNTER]).read_counters(count, &mut table.key_counters)?;
        table.read_segments(columns, count, actors, marks)?;
        table.read_succs(columns, count, actors)?;
        Ok(table)
    }

    fn read_segments(
        &mut self,
        columns: &Columns,
        count: usize,
        actors: u32,
        mut marks: MarkOrder,
    ) -> Result<(), Faulty> {
        let number = |index: usize| RleDecoder::<u64>::new(&columns[index]);
        let mut id_actor = number(ID_ACTOR_COLUMN);
        let mut obj_actor = number(OBJ_ACTOR);
        let mut obj_counter = number(OBJ_COUNTER);
        let mut key_actor = number(KEY_ACTOR);
        let mut action = number(ACTION);
        let mut meta = number(VALUE_META);
        let mut key_string = RleDecoder::<&str>::new(&columns[KEY_STRING]);
        let mut mark_name = RleDecoder::<&str>::new(&columns[MARK_NAME]);
        let mut insert = BooleanDecoder::new(&columns[INSERT]);
        let mut expand = BooleanDecoder::new(&columns[EXPAND]);

        let mut segment = Segment {
            first_row: 0,
            id_actor: 0,
            obj_counter: 0,
            obj_actor: 0,
            key: KeyKind::Head,
            mark_name: 0,
            payload_start: 0,
            payload_len: 0,
            value_type: 0,
            action: Action::Set,
            insert: false,
            expand: false,
        };
        let (mut object_actor, mut object_counter) = (None, None);
        let (mut elem_actor, mut string) = (None, None);
        // How many rows each of the ten columns stays as it is.
        let mut left = [0_u64; 10];
        let mut last_obj = 0;
        let payloads = &columns[VALUE];
        let mut payload_end = 0_usize;
        let mut row = 0;
        while row < count {
            if left[0] == 0 {
                let (value, run) = id_actor.next_equal()?;
                (segment.id_actor, left[0]) = (actor(value.ok_or(Faulty)?, actors)?, run);
            }
            if left[1] == 0 {
                (object_actor, left[1]) = obj_actor.next_equal()?;
            }
            if left[2] == 0 {
                (object_counter, left[2]) = obj_counter.next_equal()?;
            }
            if left[3] == 0 {
                (elem_actor, left[3]) = key_actor.next_equal()?;
            }
            if left[4] == 0 {
                let (value, run) = action.next_equal()?;
                let value = value.and_then(Action::from_code).ok_or(Faulty)?;
                if value == Action::Delete {
                    return Err(Faulty);
                }
                (segment.action, left[4]) = (value, run);
            }
            if left[5] == 0 {
                let (value, run) = meta.next_equal()?;
                let value = value.unwrap_or(0);
                segment.payload_len = u32::try_from(value >> 4).map_err(|_| Faulty)?;
                segment.value_type = (value & 15) as u8;
                left[5] = run;
            }
            if left[6] == 0 {
                let (value, run) = key_string.next_equal()?;
                string = value.map(|text| self.add_text(text));
                left[6] = run;
            }
            if left[7] == 0 {
                let (value, run) = mark_name.next_equal()?;
                segment.mark_name = value.map_or(0, |text| self.add_text(text) + 1);
                left[7] = run;
            }
            if left[8] == 0 {
                (segment.insert, left[8]) = insert.next_equal()?;
            }
            if left[9] == 0 {
                (segment.expand, left[9]) = expand.next_equal()?;
            }
            (segment.obj_counter, segment.obj_actor) = match (object_counter, object_actor) {
                (None, None) => (0, 0),
                (Some(counter), Some(index)) if counter > 0 => {
                    (u32::try_from(counter).map_err(|_| Faulty)?, actor(index, actors)?)
                }
                _ => return Err(Faulty),
            };
            segment.key = match (string, elem_actor) {
                (Some(string), None) if !segment.insert => KeyKind::Map(string),
                (None, Some(index)) => KeyKind::Elem(actor(index, actors)?),
                (None, None) if segment.insert => KeyKind::Head,
                _ => return Err(Faulty),
            };
            let rest = (count - row) as u64;
            let run = left.iter().fold(rest, |least, left| least.min(*left));
            left.iter_mut().for_each(|left| *left -= run);
            let len = usize::try_from(run).map_err(|_| Faulty)?;
            let obj = u64::from(segment.obj_counter) << 32 | u64::from(segment.obj_actor);
            if obj < last_obj {
                return Err(Faulty);
            }
            last_obj = obj;

            let payload_len = (segment.payload_len as usize).checked_mul(len).ok_or(Faulty)?;
            let payload_start = payload_end;
            payload_end = payload_start.checked_add(payload_len).ok_or(Faulty)?;
            let payload = payloads.get(payload_start..payload_end).ok_or(Faulty)?;
            check_values(&segment, payload)?;
            let rows = row..row + len;
            self.check_counters(&segment, rows.clone())?;
            if segment.action == Action::Mark {
                for counter in &self.id_counters[rows] {
                    let id = OpId { counter: *counter, actor: ActorIdx(segment.id_actor) };
                    marks.check_mark(id, segment.obj(), segment.mark_name > 0)?;
                }
            }

            let index = u32::try_from(self.segments.len()).map_err(|_| Faulty)?;
            segment.first_row = u32::try_from(row).map_err(|_| Faulty)?;
            segment.payload_start = u32::try_from(payload_start).map_err(|_| Faulty)?;
            self.segments.push(segment);
            row += len;
            self.segment_of.resize(row, index);
        }
        if payload_end == payloads.len() { Ok(()) } else { Err(Faulty) }
    }

    /// Ids are numbers from 1; keys are null in maps, 0 at the head, else numbers below the id's;
    /// the object is before the op.
    fn check_counters(
        &self,
        segment: &Segment,
        rows: std::ops::Range<usize>,
    ) -> Result<(), Faulty> {
        let (ids, keys) = (&self.id_counters[rows.clone()], &self.key_counters[rows]);
        let ids_are_after = |counter: u32| ids.iter().fold(true, |all, id| all & (*id > counter));
        let keys_fit = match segment.key {
            KeyKind::Map(_) => keys.iter().fold(true, |all, key| all & (*key == NULL)),
            KeyKind::Head => keys.iter().fold(true, |all, key| all & (*key == 0)),
            // A null is greater than any id but one, which is none then either.
            KeyKind::Elem(_) => {
                ids.iter().zip(keys).fold(true, |all, (id, key)| all & (*key > 0) & (*key < *id))
            }
        };
        // A null as an id would be the greatest counter, which no change leaves room for; it is
        // looked at more closely.
        let are_counters = ids.iter().fold(true, |all, id| all & (*id != NULL));
        if keys_fit && are_counters && ids_are_after(segment.obj_counter) {
            Ok(())
        } else {
            Err(Faulty)
        }
    }

    fn read_succs(&mut self, columns: &Columns, count: usize, actors: u32) -> Result<(), Faulty> {
        let mut counts = RleDecoder::<u64>::new(&columns[LINK_COUNT]);
        let mut row = 0_usize;
        let mut total = 0_usize;
        while row < count {
            let (succs, run) = counts.next_equal()?;
            let rows = usize::try_from(run).unwrap_or(usize::MAX).min(count - row);
            let succs = u32::try_from(succs.unwrap_or(0)).map_err(|_| Faulty)?;
            let run = u32::try_from(rows).map_err(|_| Faulty)?;
            self.succ_runs.push(SuccRun { rows: run, count: succs });
            // Both columns were counted: they have as many rows as this comes to.
            total += rows * succs as usize;
            row += rows;
        }
        self.succs.reserve_exact(total);
        let mut counters = Vec::new();
        let mut counter = DeltaDecoder::new(&columns[LINK_COUNTER]);
        let mut ids = RleDecoder::<u64>::new(&columns[LINK_ACTOR]);
        while self.succs.len() < total {
            // Piece by piece, so that the counters need no memory for all of them.
            let left = (total - self.succs.len()).min(SUCC_PIECE);
            let (index, run) = ids.next_equal_of(left as u64)?;
            let run = usize::try_from(run).map_err(|_| Faulty)?;
            let actor = ActorIdx(actor(index.ok_or(Faulty)?, actors)?);
            counters.clear();
            counter.read_counters(run, &mut counters)?;
            self.succs.extend(counters.iter().map(|counter| OpId { counter: *counter, actor }));
        }
        self.check_succs()
    }

    /// What supersedes a row comes after it, and no op does so twice. A null is greater than any
    /// counter that an op may have. Sorts those of each row.
    fn check_succs(&mut self) -> Result<(), Faulty> {
        let (mut row, mut start) = (0_usize, 0_usize);
        for run in &self.succ_runs {
            let (rows, count) = (run.rows as usize, run.count as usize);
            let ids = &self.id_counters[row..row + rows];
            let own = &mut self.succs[start..start + rows * count];
            (row, start) = (row + rows, start + rows * count);
            if count == 1 {
                let fits = |(id, succ): (&u32, &OpId)| (succ.counter > *id) & (succ.counter < NULL);
                if !ids.iter().zip(own.iter()).fold(true, |all, pair| all & fits(pair)) {
                    return Err(Faulty);
                }
            } else if count > 1 {
                for (id, own) in ids.iter().zip(own.chunks_exact_mut(count)) {
                    if own.iter().any(|succ| succ.counter <= *id || succ.counter == NULL) {
                        return Err(Faulty);
                    }
                    sort_links(own);
                    if own.windows(2).any(|pair| pair[0] == pair[1]) {
                        return Err(Faulty);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str) -> u32 {
        self.text.push_str(text);
        self.text_ends.push(u32::try_from(self.text.len()).expect("a column has under 4 GiB"));
        u32::try_from(self.text_ends.len() - 1).expect("a column has fewer than 2^31 strings")
    }

    /// Whether any row has a string.
    pub(crate) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// The string with this number.
    pub(crate) fn text(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.text_ends[before]);
        &self.text[start as usize..self.text_ends[number] as usize]
    }

    /// The name of a mark, as a segment gives it.
    pub(crate) fn mark_name(&self, segment: &Segment) -> Option<&str> {
        Some(self.text(segment.mark_name.checked_sub(1)?))
    }

    /// The row after the last of the segment at `index`.
    pub(crate) fn segment_end(&self, index: usize) -> u32 {
        match self.segments.get(index + 1) {
            Some(next) => next.first_row,
            None => self.id_counters.len() as u32,
        }
    }

    /// How many rows from `row` on, but before `end`, which is in the same segment or ends it,
    /// follow each other: their ids count up, and in a sequence each but the first has the one
    /// before as its key.
    #[inline]
    pub(crate) fn chain_len(&self, segment: &Segment, row: u32, end: u32) -> u32 {
        let range = row as usize..end as usize;
        let ids = &self.id_counters[range.clone()];
        let ascending = || {
            let follows = |pair: &&[u32]| pair[1] == pair[0].wrapping_add(1);
            ids.windows(2).take_while(follows).count()
        };
        let followers = match segment.key {
            KeyKind::Map(_) => ascending(),
            KeyKind::Elem(actor) if actor == segment.id_actor => {
                let keys = &self.key_counters[range];
                let follows = |at: &usize| {
                    ids[*at] == ids[*at - 1].wrapping_add(1) && keys[*at] == ids[*at - 1]
                };
                (1..ids.len()).take_while(follows).count()
            }
            KeyKind::Elem(_) | KeyKind::Head => 0,
        };
        1 + followers as u32
    }

    /// Whether a row follows the one before it as [`chain_len`](Self::chain_len) has it.
    pub(crate) fn is_chained(&self, row: u32) -> bool {
        let Some(before) = row.checked_sub(1) else { return false };
        self.segment_of[row as usize] == self.segment_of[before as usize]
            && self.chain_len(self.segment(row), before, row + 1) == 2
    }

    pub(crate) fn segment(&self, row: u32) -> &Segment {
        &self.segments[self.segment_of[row as usize] as usize]
    }

    /// The id of a row.
    pub(crate) fn id(&self, row: u32) -> OpId {
        let actor = ActorIdx(self.segment(row).id_actor);
        OpId { counter: self.id_counters[row as usize], actor }
    }

    pub(crate) fn len(&self) -> usize {
        self.id_counters.len()
    }

    /// The key of a row.
    pub(crate) fn key(&self, segment: &Segment, row: usize) -> Key<'_> {
        match segment.key {
            KeyKind::Map(string) => Key::Map(self.text(string)),
            KeyKind::Head => Key::Head,
            KeyKind::Elem(actor) => {
                Key::Elem(OpId { counter: self.key_counters[row], actor: ActorIdx(actor) })
            }
        }
    }
}

impl Segment {
    pub(crate) fn obj(&self) -> ObjId {
        match self.obj_counter {
            0 => ObjId::Root,
            counter => ObjId::Op(OpId { counter, actor: ActorIdx(self.obj_actor) }),
        }
    }

    /// The payload of a row out of the value column.
    pub(crate) fn payload<'a>(&self, payloads: &'a [u8], row: u32) -> &'a [u8] {
        self.payloads(payloads, row, 1)
    }

    /// The payloads of `count` rows from `row` on.
    pub(crate) fn payloads<'a>(&self, payloads: &'a [u8], row: u32, count: u32) -> &'a [u8] {
        let len = self.payload_len as usize;
        let start = self.payload_start as usize + (row - self.first_row) as usize * len;
        &payloads[start..start + count as usize * len]
    }
}

/// How many successors are read at once.
const SUCC_PIECE: usize = 1 << 12;

/// Stands for a null among counters: no op may have this one.
const NULL: u32 = u32::MAX;

/// What the payloads of the rows of a segment must fulfil.
fn check_values(segment: &Segment, payloads: &[u8]) -> Result<(), Faulty> {
    let value = |payload| RawValue { type_code: segment.value_type, payload }.scalar();
    if segment.payload_len == 0 {
        return check_value(segment, value(&[])?);
    }
    let is_text = matches!(value(b"aaaaaaaa"), Ok(ScalarRef::Str(_)));
    if is_text && segment.action != Action::Increment && payloads.is_ascii() {
        return Ok(());
    }
    for payload in payloads.chunks_exact(segment.payload_len as usize) {
        check_value(segment, value(payload)?)?;
    }
    Ok(())
}

fn check_value(segment: &Segment, value: ScalarRef<'_>) -> Result<(), Faulty> {
    let is_integer = matches!(value, ScalarRef::Int(_) | ScalarRef::Uint(_));
    if segment.action != Action::Increment || is_integer { Ok(()) } else { Err(Faulty) }
}

fn actor(index: u64, actors: u32) -> Result<u32, Faulty> {
    u32::try_from(index).ok().filter(|index| *index < actors).ok_or(Faulty)
}

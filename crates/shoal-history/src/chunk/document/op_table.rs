//! The op rows of a document chunk as runs: each column is decoded and checked once, by itself and
//! in runs, and rows following from the row before are kept as one. Typed text, and its deletes,
//! cost memory by strokes of the cursor, not by length.
//!
//! A fault is found here, without its place: [`super::DocumentChunk`] then reads the rows one by
//! one to find the place.

use super::MarkOrder;
use crate::chunk::columns::{
    ACTION, DOCUMENT_COLUMN_COUNT, EXPAND, ID_ACTOR, ID_COUNTER, INSERT, KEY_ACTOR, KEY_COUNTER,
    KEY_STRING, MARK_NAME, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META,
};
use crate::chunk::op_rows::{self};
use crate::chunk::op_runs;
use crate::column::boolean::BooleanDecoder;
use crate::column::delta::DeltaDecoder;
use crate::column::rle::RleDecoder;
use crate::column::value::{self, RawValue};
use crate::{Action, ActorIdx, Fault, Key, ObjId, OpId, ScalarRef};

mod succs;

pub(crate) use succs::{SuccPart, SuccRun, Succs};

/// The rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpTable {
    pub(crate) segments: Vec<Segment>,
    /// All rows, one chain after the other.
    pub(crate) chains: Vec<Chain>,
    row_count: u32,
    /// Keys of maps and names of marks, one after the other, and the end of each. Rows with a
    /// repeated one share it.
    text: String,
    text_ends: Vec<u32>,
    /// The successors of rows; rows without a successor lie between.
    pub(crate) succ_runs: Vec<SuccRun>,
    /// The ops of [`Succs::List`], each row's ascending.
    succs: Vec<OpId>,
}

/// Neighbouring rows with differences only in their ids, the counters of their keys, their payloads
/// and their successors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Consecutive rows of a segment: ids count up, and in a sequence each but the first has the one
/// before as its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first_row: u32,
    pub(crate) segment: u32,
    /// The counter of the first id.
    pub(crate) id_counter: u32,
    /// The counter of the first key; 0 for the head of a sequence and for keys of maps.
    key_counter: u32,
}

/// A row: its chain, and the number of rows of the chain before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) chain: u32,
    pub(crate) at: u32,
}

/// The columns of a chunk.
pub(crate) type Columns = [Box<[u8]>; DOCUMENT_COLUMN_COUNT];

/// Something is wrong somewhere.
#[derive(Debug)]
pub(crate) struct Faulty;

impl From<Fault> for Faulty {
    fn from(_: Fault) -> Self {
        Self
    }
}

impl OpTable {
    /// Reads `count` rows, counted before, and checks the rules of single rows, and the order of
    /// the objects.
    pub(super) fn read(
        columns: &Columns,
        count: usize,
        actors: u32,
        marks: MarkOrder,
    ) -> Result<Self, Faulty> {
        let row_count = u32::try_from(count).map_err(|_| Faulty)?;
        let mut table = Self { row_count, ..Self::default() };
        table.read_segments(columns, count, actors, marks)?;
        table.read_succs(columns, count, actors)?;
        table.chains.shrink_to_fit();
        table.succ_runs.shrink_to_fit();
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
        let mut id_actor = number(ID_ACTOR);
        let mut obj_actor = number(OBJ_ACTOR);
        let mut obj_counter = number(OBJ_COUNTER);
        let mut key_actor = number(KEY_ACTOR);
        let mut action = number(ACTION);
        let mut meta = number(VALUE_META);
        let mut key_string = RleDecoder::<&str>::new(&columns[KEY_STRING]);
        let mut mark_name = RleDecoder::<&str>::new(&columns[MARK_NAME]);
        let mut insert = BooleanDecoder::new(&columns[INSERT]);
        let mut expand = BooleanDecoder::new(&columns[EXPAND]);
        let mut ids = DeltaDecoder::new(&columns[ID_COUNTER]);
        let mut keys = DeltaDecoder::new(&columns[KEY_COUNTER]);

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
        // Of each of the ten columns the end of the run of equal values: the first unread row.
        let mut ends = [0_u64; 10];
        let after = |row: usize, run: u64| (row as u64).saturating_add(run);
        let mut lately = Lately::default();
        let mut last_obj = 0;
        let payloads = &columns[VALUE];
        let mut payload_end = 0_usize;
        let mut row = 0;
        while row < count {
            if ends[0] == row as u64 {
                let (value, run) = id_actor.next_equal()?;
                (segment.id_actor, ends[0]) =
                    (actor(value.ok_or(Faulty)?, actors)?, after(row, run));
            }
            if ends[1] == row as u64 {
                let (value, run) = obj_actor.next_equal()?;
                (object_actor, ends[1]) = (value, after(row, run));
            }
            if ends[2] == row as u64 {
                let (value, run) = obj_counter.next_equal()?;
                (object_counter, ends[2]) = (value, after(row, run));
            }
            if ends[3] == row as u64 {
                let (value, run) = key_actor.next_equal()?;
                (elem_actor, ends[3]) = (value, after(row, run));
            }
            if ends[4] == row as u64 {
                let (value, run) = action.next_equal()?;
                let value = value.and_then(Action::from_code).ok_or(Faulty)?;
                if value == Action::Delete {
                    return Err(Faulty);
                }
                (segment.action, ends[4]) = (value, after(row, run));
            }
            if ends[5] == row as u64 {
                let (value, run) = meta.next_equal()?;
                let value = value.unwrap_or(0);
                segment.payload_len = u32::try_from(value >> 4).map_err(|_| Faulty)?;
                segment.value_type = (value & 15) as u8;
                ends[5] = after(row, run);
            }
            if ends[6] == row as u64 {
                let (value, run) = key_string.next_equal()?;
                string = value.map(|text| lately.number(self, text));
                ends[6] = after(row, run);
            }
            if ends[7] == row as u64 {
                let (value, run) = mark_name.next_equal()?;
                segment.mark_name = value.map_or(0, |text| self.add_text(text) + 1);
                ends[7] = after(row, run);
            }
            if ends[8] == row as u64 {
                let (value, run) = insert.next_equal()?;
                (segment.insert, ends[8]) = (value, after(row, run));
            }
            if ends[9] == row as u64 {
                let (value, run) = expand.next_equal()?;
                (segment.expand, ends[9]) = (value, after(row, run));
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
            let run = ends.iter().fold(count as u64, |least, end| least.min(*end)) - row as u64;
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
            segment.first_row = u32::try_from(row).map_err(|_| Faulty)?;
            segment.payload_start = u32::try_from(payload_start).map_err(|_| Faulty)?;
            let first_chain = self.chains.len();
            self.read_chains(&segment, run, &mut ids, &mut keys)?;
            row += len;
            if segment.action == Action::Mark {
                self.check_marks(&segment, first_chain, row, &mut marks)?;
            }
            self.segments.push(segment);
        }
        if payload_end == payloads.len() { Ok(()) } else { Err(Faulty) }
    }

    /// Reads the counters of the ids and keys of the next segment, `len` rows. Ids are numbers from
    /// 1; keys are null in maps, 0 at the head, else numbers below the id's; the object is before
    /// the op.
    fn read_chains(
        &mut self,
        segment: &Segment,
        len: u64,
        ids: &mut DeltaDecoder<'_>,
        keys: &mut DeltaDecoder<'_>,
    ) -> Result<(), Faulty> {
        let index = u32::try_from(self.segments.len()).map_err(|_| Faulty)?;
        let mut done = 0;
        while done < len {
            let (id, step, _) = ids.peek()?;
            ids.skip(step, 1);
            let id_counter = counter(id)?;
            if id_counter <= segment.obj_counter {
                return Err(Faulty);
            }
            let (key, step, _) = keys.peek()?;
            keys.skip(step, 1);
            let (key_counter, may_go_on) = match segment.key {
                KeyKind::Map(_) if key.is_none() => (0, true),
                KeyKind::Head if key == Some(0) => (0, false),
                KeyKind::Elem(actor) => {
                    let key = counter(key)?;
                    if key == 0 || key >= id_counter {
                        return Err(Faulty);
                    }
                    (key, actor == segment.id_actor)
                }
                _ => return Err(Faulty),
            };
            let first_row = segment.first_row + done as u32;
            let mut rows = 1;
            while may_go_on && done + rows < len {
                let (_, step, id_run) = ids.peek()?;
                let (key, key_step, key_run) = keys.peek()?;
                let last = i64::from(id_counter) + (rows - 1).cast_signed();
                let both = id_run.min(key_run);
                let more = match (segment.key, key) {
                    _ if step != 1 => break,
                    (KeyKind::Map(_), None) => both,
                    (KeyKind::Elem(_), Some(key)) if key == last => {
                        if key_step == 1 {
                            both
                        } else {
                            1
                        }
                    }
                    _ => break,
                };
                let more = more.min(len - done - rows);
                ids.skip(1, more);
                keys.skip(key_step, more);
                rows += more;
            }
            if u64::from(id_counter) + rows > u64::from(u32::MAX) {
                return Err(Faulty);
            }
            self.chains.push(Chain { first_row, segment: index, id_counter, key_counter });
            done += rows;
        }
        Ok(())
    }

    /// Checks that marks of the current segment end after their begin; its chains begin with
    /// `first_chain`, and its rows end with `row_end`.
    fn check_marks(
        &self,
        segment: &Segment,
        first_chain: usize,
        row_end: usize,
        marks: &mut MarkOrder,
    ) -> Result<(), Faulty> {
        let chains = &self.chains[first_chain..];
        for (index, chain) in chains.iter().enumerate() {
            let end = chains.get(index + 1).map_or(row_end, |next| next.first_row as usize);
            for at in 0..(end - chain.first_row as usize) as u32 {
                let id = OpId { counter: chain.id_counter + at, actor: ActorIdx(segment.id_actor) };
                marks.check_mark(id, segment.obj(), segment.mark_name > 0)?;
            }
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str) -> u32 {
        self.text.push_str(text);
        self.text_ends.push(u32::try_from(self.text.len()).expect("a column has under 4 GiB"));
        u32::try_from(self.text_ends.len() - 1).expect("a column has fewer than 2^31 strings")
    }

    /// True if any row has a string.
    pub(crate) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    /// The number of strings.
    pub(super) fn string_count(&self) -> usize {
        self.text_ends.len()
    }

    /// The string with this number.
    #[inline]
    pub(crate) fn text(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.text_ends[before]);
        &self.text[start as usize..self.text_ends[number] as usize]
    }

    /// The name of a mark of a segment.
    pub(crate) fn mark_name(&self, segment: &Segment) -> Option<&str> {
        Some(self.text(segment.mark_name.checked_sub(1)?))
    }

    /// How many runs of ops the rows are, see [`Limits::max_runs`](crate::Limits::max_runs).
    pub(super) fn runs(&self) -> u64 {
        let runs = (0..).zip(&self.chains).map(|(index, chain)| {
            let segment = &self.segments[chain.segment as usize];
            if !segment.insert || segment.action != Action::Set {
                return u64::from(self.chain_len(index)) * op_rows::runs_of(segment.action);
            }
            let goes_on = segment.key == KeyKind::Elem(segment.id_actor)
                && chain.key_counter + 1 == chain.id_counter;
            u64::from(!goes_on)
        });
        runs.sum()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.row_count as usize
    }

    /// How many rows the chain at `index` has.
    #[inline]
    pub(crate) fn chain_len(&self, index: usize) -> u32 {
        let end = self.chains.get(index + 1).map_or(self.row_count, |next| next.first_row);
        end - self.chains[index].first_row
    }

    #[inline]
    pub(crate) fn segment(&self, place: Place) -> &Segment {
        &self.segments[self.chains[place.chain as usize].segment as usize]
    }

    /// The number of a row.
    #[inline]
    pub(crate) fn row(&self, place: Place) -> u32 {
        self.chains[place.chain as usize].first_row + place.at
    }

    /// The id of a row.
    #[inline]
    pub(crate) fn id(&self, place: Place) -> OpId {
        let chain = &self.chains[place.chain as usize];
        let actor = ActorIdx(self.segments[chain.segment as usize].id_actor);
        OpId { counter: chain.id_counter + place.at, actor }
    }

    /// The counter of the key of a row; 0 for the head of a sequence and for keys of maps.
    #[inline]
    pub(crate) fn key_counter(&self, place: Place) -> u32 {
        self.chains[place.chain as usize].key_counter_at(place.at)
    }

    /// The payloads of `count` rows of a chain.
    #[inline]
    pub(crate) fn payloads<'a>(&self, payloads: &'a [u8], place: Place, count: u32) -> &'a [u8] {
        self.segment(place).payloads(payloads, self.row(place), count)
    }

    /// The key of a row in `segment`.
    pub(crate) fn key(&self, segment: &Segment, place: Place) -> Key<'_> {
        match segment.key {
            KeyKind::Map(string) => Key::Map(self.text(string)),
            KeyKind::Head => Key::Head,
            KeyKind::Elem(actor) => {
                Key::Elem(OpId { counter: self.key_counter(place), actor: ActorIdx(actor) })
            }
        }
    }
}

/// Strings added lately, by their number + 1: the objects of a document have the same keys again
/// and again. A forgotten string is added once more.
struct Lately([u32; LATELY]);

/// How many strings are remembered, a power of two.
const LATELY: usize = 256;

impl Default for Lately {
    fn default() -> Self {
        Self([0; LATELY])
    }
}

impl Lately {
    /// The number of a string; only a string not remembered is added.
    #[inline]
    fn number(&mut self, table: &mut OpTable, text: &str) -> u32 {
        let slot = &mut self.0[Self::slot(text.as_bytes())];
        match slot.checked_sub(1) {
            Some(number) if table.text(number) == text => number,
            _ => {
                let number = table.add_text(text);
                *slot = number + 1;
                number
            }
        }
    }

    /// A place by the length, and the first, middle and last bytes.
    #[inline]
    fn slot(text: &[u8]) -> usize {
        let at = |index: usize| text.get(index).copied().map_or(0, u64::from);
        let len = text.len();
        let mixed = at(0) | at(len / 2) << 8 | at(len.wrapping_sub(1)) << 16 | (len as u64) << 24;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % LATELY
    }
}

impl Chain {
    #[inline]
    pub(super) fn key_counter_at(&self, at: u32) -> u32 {
        match at {
            0 => self.key_counter,
            // Of the keys of a map nothing is asked.
            at => self.id_counter + (at - 1),
        }
    }
}

impl Segment {
    /// True if rows of both could be rows of one segment.
    #[inline]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { first_row, payload_start, .. } = *other;
        *other == Self { first_row, payload_start, ..*self }
    }

    pub(crate) fn obj(&self) -> ObjId {
        match self.obj_counter {
            0 => ObjId::Root,
            counter => ObjId::Op(OpId { counter, actor: ActorIdx(self.obj_actor) }),
        }
    }

    /// The payloads of `count` rows from `row` on, out of the value column.
    fn payloads<'a>(&self, payloads: &'a [u8], row: u32, count: u32) -> &'a [u8] {
        let len = self.payload_len as usize;
        let start = self.payload_start as usize + (row - self.first_row) as usize * len;
        &payloads[start..start + count as usize * len]
    }
}

/// The rules of the payloads of a segment's rows.
fn check_values(segment: &Segment, payloads: &[u8]) -> Result<(), Faulty> {
    let value = |payload| RawValue { type_code: segment.value_type, payload }.scalar();
    if segment.payload_len == 0 {
        return check_value(segment, value(&[])?);
    }
    let is_text = segment.value_type == op_runs::STR;
    if is_text && segment.action != Action::Increment && payloads.is_ascii() {
        return Ok(());
    }
    if payloads.len() == segment.payload_len as usize
        && value::is_short_integer(segment.value_type, payloads)
    {
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

/// A counter of an op: at most 2^32 - 2, for a change must leave room above.
#[inline]
fn counter(value: Option<i64>) -> Result<u32, Faulty> {
    let value = value.and_then(|value| u32::try_from(value).ok());
    value.filter(|value| *value < u32::MAX).ok_or(Faulty)
}

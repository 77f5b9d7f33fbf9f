//! The op rows of a document chunk as flat arrays, for access in any order. Most columns change
//! seldom from row to row, so those are kept for runs of rows.

use super::super::{DocumentChunk, ID_ACTOR_COLUMN, ID_COUNTER_COLUMN};
use crate::chunk::op_rows::{
    ACTION, EXPAND, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR, LINK_COUNT,
    LINK_COUNTER, MARK_NAME, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META,
};
use crate::column::boolean::BooleanDecoder;
use crate::column::delta::DeltaDecoder;
use crate::column::rle::RleDecoder;
use crate::{Fault, OpId};

/// The rows. Whatever is read here was checked when the chunk was parsed.
pub(super) struct Rows<'a> {
    pub(super) segments: Vec<Segment>,
    /// Of each row its segment.
    pub(super) segment_of: Vec<u32>,
    /// Of each row the counter of its id.
    pub(super) id_counters: Vec<u32>,
    /// Of each row the counter of its key; 0 for the head of a sequence and for keys of maps.
    pub(super) key_counters: Vec<u32>,
    /// Keys of maps and names of marks; neighbours share them.
    pub(super) strings: Vec<&'a str>,
    pub(super) payloads: &'a [u8],
    /// Who supersedes whom, by the superseded row.
    pub(super) edges: Vec<Edge>,
    /// How many bytes keys and names take in all changes together, at most.
    pub(super) text_bytes: u64,
}

/// Neighbouring rows that differ in their ids, the counters of their keys, their payloads and
/// what supersedes them only.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    pub(super) first_row: u32,
    pub(super) id_actor: u32,
    /// The counter of the object's id, 0 for the root.
    pub(super) obj_counter: u32,
    pub(super) obj_actor: u32,
    pub(super) key: KeyKind,
    /// The number of the string + 1, 0 for none.
    pub(super) mark_name: u32,
    /// Where the payload of the first row is, and how long each is.
    pub(super) payload_start: u32,
    pub(super) payload_len: u32,
    pub(super) value_type: u8,
    pub(super) action: u8,
    pub(super) insert: bool,
    pub(super) expand: bool,
}

/// A key but for its counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// In a map: the number of the string.
    Map(u32),
    /// Before the first element.
    Head,
    /// An element by this actor.
    Elem(u32),
}

/// The op with this id supersedes the row.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) succ: OpId,
    pub(super) row: u32,
}

impl<'a> Rows<'a> {
    pub(super) fn read(chunk: &'a DocumentChunk) -> Self {
        Self::try_read(chunk).expect("the rows were read when the chunk was parsed")
    }

    fn try_read(chunk: &'a DocumentChunk) -> Result<Self, Fault> {
        let count = chunk.op_count();
        let column = |index: usize| &*chunk.op_columns[index];
        let mut rows = Self {
            segments: Vec::new(),
            segment_of: Vec::with_capacity(count),
            id_counters: Vec::with_capacity(count),
            key_counters: Vec::with_capacity(count),
            strings: Vec::new(),
            payloads: column(VALUE),
            edges: Vec::new(),
            text_bytes: 0,
        };
        DeltaDecoder::new(column(ID_COUNTER_COLUMN)).read_known(count, &mut rows.id_counters)?;
        DeltaDecoder::new(column(KEY_COUNTER)).read_known(count, &mut rows.key_counters)?;
        rows.read_segments(chunk)?;
        rows.read_edges(chunk)?;
        Ok(rows)
    }

    fn read_segments(&mut self, chunk: &'a DocumentChunk) -> Result<(), Fault> {
        let column = |index: usize| &*chunk.op_columns[index];
        let number = |index: usize| RleDecoder::<'a, u64>::new(column(index));
        let mut id_actor = number(ID_ACTOR_COLUMN);
        let mut obj_actor = number(OBJ_ACTOR);
        let mut obj_counter = number(OBJ_COUNTER);
        let mut key_actor = number(KEY_ACTOR);
        let mut action = number(ACTION);
        let mut meta = number(VALUE_META);
        let mut key_string = RleDecoder::<'a, &str>::new(column(KEY_STRING));
        let mut mark_name = RleDecoder::<'a, &str>::new(column(MARK_NAME));
        let mut insert = BooleanDecoder::new(column(INSERT));
        let mut expand = BooleanDecoder::new(column(EXPAND));

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
            action: 0,
            insert: false,
            expand: false,
        };
        let (mut elem_actor, mut string) = (None, None);
        // How many rows each of the ten columns stays as it is.
        let mut left = [0_u64; 10];
        let count = chunk.op_count();
        let mut row = 0;
        while row < count {
            if left[0] == 0 {
                let (value, run) = id_actor.next_equal()?;
                (segment.id_actor, left[0]) = (known(value), run);
            }
            if left[1] == 0 {
                let (value, run) = obj_actor.next_equal()?;
                (segment.obj_actor, left[1]) = (known(value), run);
            }
            if left[2] == 0 {
                let (value, run) = obj_counter.next_equal()?;
                (segment.obj_counter, left[2]) = (known(value), run);
            }
            if left[3] == 0 {
                (elem_actor, left[3]) = key_actor.next_equal()?;
            }
            if left[4] == 0 {
                let (value, run) = action.next_equal()?;
                (segment.action, left[4]) = (known(value) as u8, run);
            }
            if left[5] == 0 {
                let (value, run) = meta.next_equal()?;
                let value = value.unwrap_or(0);
                segment.payload_len = known(Some(value >> 4));
                segment.value_type = (value & 15) as u8;
                left[5] = run;
            }
            if left[6] == 0 {
                let (value, run) = key_string.next_equal()?;
                string = value.map(|text| self.string(text));
                left[6] = run;
            }
            if left[7] == 0 {
                let (value, run) = mark_name.next_equal()?;
                segment.mark_name = value.map_or(0, |text| self.string(text) + 1);
                left[7] = run;
            }
            if left[8] == 0 {
                (segment.insert, left[8]) = insert.next_equal()?;
            }
            if left[9] == 0 {
                (segment.expand, left[9]) = expand.next_equal()?;
            }
            segment.key = match (string, elem_actor) {
                (Some(string), _) => KeyKind::Map(string),
                (None, Some(actor)) => KeyKind::Elem(known(Some(actor))),
                (None, None) => KeyKind::Head,
            };
            let rest = (count - row) as u64;
            let run = left.iter().fold(rest, |least, left| least.min(*left));
            left.iter_mut().for_each(|left| *left -= run);
            let index = u32::try_from(self.segments.len()).expect("there are fewer than 2^32 rows");
            self.segments.push(segment);
            let rows = usize::try_from(run).expect("a run is within the rows");
            row += rows;
            self.segment_of.resize(row, index);
            self.text_bytes = self.text_bytes.saturating_add(run * self.text_len(&segment));
            segment.first_row += run as u32;
            segment.payload_start += segment.payload_len * run as u32;
        }
        Ok(())
    }

    fn read_edges(&mut self, chunk: &'a DocumentChunk) -> Result<(), Fault> {
        let column = |index: usize| &*chunk.op_columns[index];
        let mut counts = RleDecoder::<u64>::new(column(LINK_COUNT));
        let mut actors = RleDecoder::<u64>::new(column(LINK_ACTOR));
        let mut counters = DeltaDecoder::new(column(LINK_COUNTER));
        let mut row = 0_usize;
        while row < chunk.op_count() {
            let (count, run) = counts.next_equal()?;
            let end = row.saturating_add(usize::try_from(run).unwrap_or(usize::MAX));
            let rows = row..end.min(chunk.op_count());
            row = end;
            let count = count.unwrap_or(0);
            if count == 0 {
                continue;
            }
            for row in rows {
                let text_len = self.text_len(&self.segments[self.segment_of[row] as usize]);
                self.text_bytes = self.text_bytes.saturating_add(count * text_len);
                let row = u32::try_from(row).expect("there are fewer than 2^32 rows");
                for _ in 0..count {
                    let counter = counters.next_u32()?.unwrap_or(0);
                    let actor = crate::ActorIdx(known(actors.next()?));
                    self.edges.push(Edge { succ: OpId { counter, actor }, row });
                }
            }
        }
        Ok(())
    }

    /// The number of a string: that of the last one if it is the same bytes of the column.
    fn string(&mut self, text: &'a str) -> u32 {
        if self.strings.last().is_none_or(|last| !std::ptr::eq(*last, text)) {
            self.strings.push(text);
        }
        u32::try_from(self.strings.len() - 1).expect("a document has fewer than 2^31 strings")
    }

    fn text_len(&self, segment: &Segment) -> u64 {
        let key = match segment.key {
            KeyKind::Map(string) => self.strings[string as usize].len(),
            _ => 0,
        };
        let mark_name = (segment.mark_name as usize).checked_sub(1);
        (key + mark_name.map_or(0, |name| self.strings[name].len())) as u64
    }

    pub(super) fn segment(&self, row: u32) -> &Segment {
        &self.segments[self.segment_of[row as usize] as usize]
    }

    /// The id of a row.
    pub(super) fn id(&self, row: u32) -> OpId {
        let actor = crate::ActorIdx(self.segment(row).id_actor);
        OpId { counter: self.id_counters[row as usize], actor }
    }

    /// Where in its object a row is found: an insertion is at the element that it makes.
    pub(super) fn target(&self, row: u32) -> Target {
        let segment = self.segment(row);
        let (key, counter) = if segment.insert {
            (KeyKind::Elem(segment.id_actor), self.id_counters[row as usize])
        } else {
            (segment.key, self.key_counters[row as usize])
        };
        Target { obj: (segment.obj_counter, segment.obj_actor), key, counter }
    }

    /// Whether two rows are at the same place.
    pub(super) fn same_target(&self, a: u32, b: u32) -> bool {
        let (a, b) = (self.target(a), self.target(b));
        let same_key = match (a.key, b.key) {
            (KeyKind::Map(a), KeyKind::Map(b)) => {
                self.strings[a as usize] == self.strings[b as usize]
            }
            (a_key, b_key) => a_key == b_key && a.counter == b.counter,
        };
        a.obj == b.obj && same_key
    }
}

/// A place in an object.
pub(super) struct Target {
    obj: (u32, u32),
    key: KeyKind,
    counter: u32,
}

/// A number that was checked to have 32 bits; null is 0.
fn known(value: Option<u64>) -> u32 {
    u32::try_from(value.unwrap_or(0)).expect("the number was checked when the chunk was parsed")
}

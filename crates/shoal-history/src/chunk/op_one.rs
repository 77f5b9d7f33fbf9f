//! Changes of one op, a keystroke or a new value at the key of a map. Each column is one value, so
//! table and columns are written and read in one go over the bytes, without encoders and decoders.
//! Anything else is left to [`super::op_rows`], with the same bytes for these ops, and the same ops
//! from these bytes.

use super::columns::{
    ACTION, CHANGE_SPECS, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR, LINK_COUNT,
    LINK_COUNTER, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META, change_column_of_byte,
};
use super::op_rows;
use super::op_runs::{self, RunRows};
use crate::column::leb128::Reader;
use crate::column::value::RawValue;
use crate::{Action, ActorIdx, DeleteRun, ObjId, OpId, TextRun};

const SET: u32 = Action::Set as u32;
const DELETE: u32 = Action::Delete as u32;

/// The mark before a single literal value: a record of one.
const ONE_LITERAL: u8 = 0x7f;

const VALUE_META_SPEC: u8 = spec_byte(VALUE_META);

/// The specification of a column, one byte long in the table for the columns written here.
const fn spec_byte(column: usize) -> u8 {
    assert!(CHANGE_SPECS[column].0 < 0x80);
    CHANGE_SPECS[column].0 as u8
}

/// The only op of a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OneOp<'a> {
    /// Types or deletes a character.
    Run(RunRows<'a>),
    /// Sets a key.
    Put(Put<'a>),
}

impl OneOp<'_> {
    /// The number of runs for the limits.
    pub(crate) fn runs(&self) -> u64 {
        match self {
            Self::Run(run) => run.runs(),
            Self::Put(put) => op_rows::runs_of(put.action),
        }
    }
}

/// An op setting the key of a map to a value or a new object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put<'a> {
    pub(crate) obj: ObjId,
    pub(crate) key: &'a str,
    pub(crate) action: Action,
    pub(crate) value: RawValue<'a>,
    /// The superseded op.
    pub(crate) pred: Option<OpId>,
}

/// Reads the op `id`, the only one of a change, from its table of columns on; returns the checked
/// op, and the bytes of the table and the columns. `None` for any other op, or a wrong one. Actor
/// indices must be below `actor_count`.
#[inline]
pub(crate) fn read(bytes: &[u8], id: OpId, actor_count: u32) -> Option<(OneOp<'_>, usize)> {
    let (&count, rest) = bytes.split_first()?;
    // Numbers from 128 on take two bytes; of one short op none is as great.
    let (table, mut data) = rest.split_at_checked(usize::from(count) * 2)?;
    let (mut obj_actor, mut obj_counter) = (None, None);
    let (mut key_actor, mut key_counter, mut key_string) = (None, None, None);
    let (mut link_actor, mut link_counter) = (None, None);
    let (mut insert, mut action, mut meta, mut links) = (None, None, None, None);
    let mut value: &[u8] = &[];
    let mut last = 0;
    for &[spec, len] in table.as_chunks::<2>().0 {
        if spec <= last || len >= 0x80 {
            return None;
        }
        let column;
        (column, data) = data.split_at_checked(usize::from(len))?;
        match change_column_of_byte(spec)? {
            OBJ_ACTOR => obj_actor = Some(unsigned(column)?),
            OBJ_COUNTER => obj_counter = Some(unsigned(column)?),
            KEY_ACTOR => key_actor = Some(unsigned(column)?),
            KEY_COUNTER => key_counter = Some(difference(column)?),
            KEY_STRING => key_string = Some(string(column)?),
            INSERT => insert = Some(boolean(column)?),
            ACTION => action = Some(unsigned(column)?),
            VALUE_META => meta = Some(unsigned(column)?),
            VALUE if last == VALUE_META_SPEC => value = column,
            LINK_COUNT => links = Some(unsigned(column)?),
            LINK_ACTOR => link_actor = Some(unsigned(column)?),
            LINK_COUNTER => link_counter = Some(difference(column)?),
            _ => return None,
        }
        last = spec;
    }
    let before = |actor: u32, counter: u32| {
        (actor < actor_count && counter > 0 && counter < id.counter)
            .then_some(OpId { counter, actor: ActorIdx(actor) })
    };
    let obj = match (obj_actor, obj_counter) {
        (None, None) => ObjId::Root,
        (actor, counter) => ObjId::Op(before(actor?, counter?)?),
    };
    let pred = match (links?, link_actor, link_counter) {
        (0, None, None) => None,
        (1, Some(actor), Some(counter)) => Some(before(actor, counter)?),
        _ => return None,
    };
    let meta = meta?;
    if (meta >> 4) as usize != value.len() {
        return None;
    }
    let value = RawValue { type_code: (meta & 15) as u8, payload: value };
    let len = bytes.len() - data.len();
    if let Some(key) = key_string {
        let action = Action::from_code(u64::from(action?))?;
        let is_put = key_actor.is_none()
            && key_counter.is_none()
            && insert == Some(false)
            && !matches!(action, Action::Delete | Action::Increment | Action::Mark)
            && value.scalar().is_ok();
        return is_put.then_some((OneOp::Put(Put { obj, key, action, value, pred }), len));
    }
    let elem = match (key_actor, key_counter?) {
        (Some(actor), counter) => Some(before(actor, counter)?),
        (None, 0) => None,
        (None, _) => return None,
    };
    let run = match (action?, insert?, pred) {
        (SET, true, None) => {
            let text = value.payload;
            let is_char = value.type_code == op_runs::STR
                && (1..=4).contains(&text.len())
                && op_runs::is_char(text);
            if !is_char {
                return None;
            }
            let text = std::str::from_utf8(text).ok()?;
            let (succ, succ_descends) = (None, false);
            RunRows::Text(TextRun { id, obj, reference: elem, text, len: 1, succ, succ_descends })
        }
        (DELETE, false, Some(pred)) if meta == 0 && elem == Some(pred) => {
            RunRows::Deletes(DeleteRun { id, obj, elem: pred, len: 1, descends: false })
        }
        _ => return None,
    };
    Some((OneOp::Run(run), len))
}

/// The value of a run-length encoded column of one unsigned number.
#[inline]
fn unsigned(column: &[u8]) -> Option<u32> {
    match column {
        [ONE_LITERAL, value] if *value < 0x80 => Some(u32::from(*value)),
        [ONE_LITERAL, rest @ ..] => {
            let mut reader = Reader::new(rest);
            let value = reader.uleb().ok().filter(|_| reader.is_empty())?;
            u32::try_from(value).ok()
        }
        _ => None,
    }
}

/// The value of a delta column of one number: the difference from zero.
#[inline]
fn difference(column: &[u8]) -> Option<u32> {
    match column {
        [ONE_LITERAL, value] if *value < 0x40 => Some(u32::from(*value)),
        [ONE_LITERAL, rest @ ..] => {
            let mut reader = Reader::new(rest);
            let value = reader.sleb().ok().filter(|_| reader.is_empty())?;
            u32::try_from(value).ok()
        }
        _ => None,
    }
}

/// The value of a run-length encoded column of one short string.
#[inline]
fn string(column: &[u8]) -> Option<&str> {
    let [ONE_LITERAL, len, text @ ..] = column else { return None };
    if *len >= 0x80 || usize::from(*len) != text.len() {
        return None;
    }
    std::str::from_utf8(text).ok()
}

/// The value of a column of one truth value.
#[inline]
fn boolean(column: &[u8]) -> Option<bool> {
    match column {
        [1] => Some(false),
        [0, 1] => Some(true),
        _ => None,
    }
}

/// The one op of a change to be written. Actor indices are the change's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// The actor and the counter of the object; `None` for the root.
    pub(crate) obj: Option<(u32, u32)>,
    pub(crate) key: Key<'a>,
    pub(crate) insert: bool,
    pub(crate) action: Action,
    /// The metadata and the payload, of [`MAX_PAYLOAD`] bytes at most.
    pub(crate) meta: u32,
    pub(crate) payload: &'a [u8],
    /// The actor and the counter of the superseded op.
    pub(crate) pred: Option<(u32, u32)>,
}

/// Where a [`Row`] applies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Key<'a> {
    /// At this key, of [`MAX_KEY`] bytes at most.
    Map(&'a str),
    /// At the head, without an actor, or at an element: its actor and counter.
    Elem(Option<u32>, u32),
}

/// The longest payload of a [`Row`].
pub(crate) const MAX_PAYLOAD: usize = 16;

/// The longest key of a [`Row`].
pub(crate) const MAX_KEY: usize = 48;

/// The table, numbers of five bytes and their mark at most, a key and a value.
const MAX_LEN: usize = 1 + 2 * 12 + 10 * 6 + MAX_KEY + 2 + MAX_PAYLOAD;

/// The table of columns of an op, and the columns.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: [u8; MAX_LEN],
    /// Where the table and the columns go on.
    table: usize,
    data: usize,
    places: Places,
}

/// The places in the bytes of an op in a sequence where like ops differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    /// The counter of the key.
    pub(crate) key: Number,
    /// Where the payload begins.
    pub(crate) payload: usize,
    /// The counter of the superseded op.
    pub(crate) pred: Number,
}

/// Where a number is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Number {
    start: usize,
    len: usize,
}

impl Number {
    pub(crate) fn new(place: std::ops::Range<usize>) -> Self {
        Self { start: place.start, len: place.len() }
    }

    /// The number of bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Puts another number there, of as many bytes: for a signed one, its bits.
    #[inline]
    pub(crate) fn put(self, bytes: &mut [u8], mut value: u64) {
        let Some((last, others)) = bytes[self.start..self.start + self.len].split_last_mut() else {
            return;
        };
        for byte in others {
            *byte = (value & 0x7f) as u8 | 0x80;
            value >>= 7;
        }
        *last = (value & 0x7f) as u8;
    }
}

impl Row<'_> {
    /// Writes the table and the columns.
    #[inline]
    pub(crate) fn write(&self) -> Written {
        let of_key = match self.key {
            Key::Elem(Some(_), _) => 2,
            Key::Map(_) | Key::Elem(None, _) => 1,
        };
        let of_pair = |pair: Option<(u32, u32)>| if pair.is_some() { 2 } else { 0 };
        let has_payload = !self.payload.is_empty();
        let count = 4 + of_key + of_pair(self.obj) + of_pair(self.pred) + usize::from(has_payload);
        let (table, data) = (1, 1 + 2 * count);
        let mut out = Written { bytes: [0; MAX_LEN], table, data, places: Places::default() };
        out.bytes[0] = count as u8;
        if let Some((actor, counter)) = self.obj {
            out.unsigned::<OBJ_ACTOR>(actor);
            out.unsigned::<OBJ_COUNTER>(counter);
        }
        match self.key {
            Key::Map(key) => {
                let start = out.data;
                out.push(ONE_LITERAL);
                out.push(key.len() as u8);
                out.extend(key.as_bytes());
                out.end::<KEY_STRING>(start);
            }
            Key::Elem(actor, counter) => {
                if let Some(actor) = actor {
                    out.unsigned::<KEY_ACTOR>(actor);
                }
                out.places.key = out.difference::<KEY_COUNTER>(counter);
            }
        }
        let start = out.data;
        if self.insert {
            out.push(0);
        }
        out.push(1);
        out.end::<INSERT>(start);
        out.unsigned::<ACTION>(self.action as u32);
        out.unsigned::<VALUE_META>(self.meta);
        if has_payload {
            let start = out.data;
            out.places.payload = start;
            out.extend(self.payload);
            out.end::<VALUE>(start);
        }
        out.unsigned::<LINK_COUNT>(u32::from(self.pred.is_some()));
        if let Some((actor, counter)) = self.pred {
            out.unsigned::<LINK_ACTOR>(actor);
            out.places.pred = out.difference::<LINK_COUNTER>(counter);
        }
        out
    }
}

impl Written {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.data]
    }

    pub(crate) fn places(&self) -> Places {
        self.places
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.bytes[self.data] = byte;
        self.data += 1;
    }

    /// Enters a column beginning at `start` into the table.
    #[inline]
    fn end<const COLUMN: usize>(&mut self, start: usize) {
        self.bytes[self.table] = const { spec_byte(COLUMN) };
        self.bytes[self.table + 1] = (self.data - start) as u8;
        self.table += 2;
    }

    #[inline]
    fn unsigned<const COLUMN: usize>(&mut self, value: u32) {
        self.number::<COLUMN>(value, 0x80);
    }

    /// Where numbers are signed, the last byte leaves a bit for the sign.
    #[inline]
    fn difference<const COLUMN: usize>(&mut self, value: u32) -> Number {
        let start = self.data + 1;
        self.number::<COLUMN>(value, 0x40);
        Number::new(start..self.data)
    }

    #[inline]
    fn number<const COLUMN: usize>(&mut self, value: u32, end: u32) {
        let (start, mut value) = (self.data, value);
        self.push(ONE_LITERAL);
        while value >= end {
            self.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
        self.end::<COLUMN>(start);
    }

    #[inline]
    fn extend(&mut self, data: &[u8]) {
        self.bytes[self.data..self.data + data.len()].copy_from_slice(data);
        self.data += data.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScalarRef;

    const ID: OpId = OpId { counter: 300, actor: ActorIdx(0) };

    /// The table and the columns, and an extra byte.
    fn encode(columns: &[(usize, &[u8])]) -> Vec<u8> {
        let specs = columns.iter().map(|(column, data)| (spec_byte(*column), *data));
        with_specs(&specs.collect::<Vec<_>>())
    }

    fn with_specs(columns: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![columns.len() as u8];
        bytes.extend(columns.iter().flat_map(|(spec, data)| [*spec, data.len() as u8]));
        columns.iter().for_each(|(_, data)| bytes.extend_from_slice(data));
        bytes.push(9);
        bytes
    }

    const INSERT_E: [(usize, &[u8]); 10] = [
        (OBJ_ACTOR, &[0x7f, 0]),
        (OBJ_COUNTER, &[0x7f, 1]),
        (KEY_ACTOR, &[0x7f, 1]),
        (KEY_COUNTER, &[0x7f, 0xab, 2]),
        (INSERT, &[0, 1]),
        (ACTION, &[0x7f, 1]),
        (VALUE_META, &[0x7f, 0x26]),
        (VALUE, "é".as_bytes()),
        (LINK_COUNT, &[0x7f, 0]),
        (LINK_ACTOR, &[]),
    ];

    const DELETE_E: [(usize, &[u8]); 10] = [
        (OBJ_ACTOR, &[0x7f, 0]),
        (OBJ_COUNTER, &[0x7f, 1]),
        (KEY_ACTOR, &[0x7f, 1]),
        (KEY_COUNTER, &[0x7f, 0xab, 2]),
        (INSERT, &[1]),
        (ACTION, &[0x7f, 3]),
        (VALUE_META, &[0x7f, 0]),
        (LINK_COUNT, &[0x7f, 1]),
        (LINK_ACTOR, &[0x7f, 1]),
        (LINK_COUNTER, &[0x7f, 0xab, 2]),
    ];

    const PUT_E: [(usize, &[u8]); 8] = [
        (KEY_STRING, &[0x7f, 2, b'a', b'b']),
        (INSERT, &[1]),
        (ACTION, &[0x7f, 1]),
        (VALUE_META, &[0x7f, 0x24]),
        (VALUE, &[0x80, 1]),
        (LINK_COUNT, &[0x7f, 1]),
        (LINK_ACTOR, &[0x7f, 1]),
        (LINK_COUNTER, &[0x7f, 0xab, 2]),
    ];

    #[test]
    fn a_keystroke_is_read() {
        let id = |counter, actor| OpId { counter, actor: ActorIdx(actor) };
        let bytes = encode(&INSERT_E[..9]);
        let Some((OneOp::Run(RunRows::Text(run)), len)) = read(&bytes, ID, 2) else {
            panic!("it is typing")
        };
        assert_eq!((run.id, run.obj, run.reference), (ID, ObjId::Op(id(1, 0)), Some(id(299, 1))));
        assert_eq!((run.text, run.len, len), ("é", 1, bytes.len() - 1));
        let bytes = encode(&DELETE_E);
        let Some((OneOp::Run(RunRows::Deletes(run)), len)) = read(&bytes, ID, 2) else {
            panic!("it deletes")
        };
        assert_eq!((run.elem, run.len, len), (id(299, 1), 1, bytes.len() - 1));
        let bytes = encode(&PUT_E);
        let Some((OneOp::Put(put), len)) = read(&bytes, ID, 2) else { panic!("it sets a key") };
        assert_eq!((put.obj, put.key, put.action), (ObjId::Root, "ab", Action::Set));
        assert_eq!((put.value.scalar(), put.pred), (Ok(ScalarRef::Int(128)), Some(id(299, 1))));
        assert_eq!(len, bytes.len() - 1);
    }

    #[test]
    fn an_op_is_written() {
        let check = |row: &Row<'_>, columns: &[(usize, &[u8])]| {
            let expect = encode(columns);
            assert_eq!(row.write().bytes(), &expect[..expect.len() - 1]);
        };
        let insert = Row {
            obj: Some((0, 1)),
            key: Key::Elem(Some(1), 299),
            insert: true,
            action: Action::Set,
            meta: 0x26,
            payload: "é".as_bytes(),
            pred: None,
        };
        check(&insert, &INSERT_E[..9]);
        let delete = Row {
            insert: false,
            action: Action::Delete,
            meta: 0,
            payload: &[],
            pred: Some((1, 299)),
            ..insert
        };
        check(&delete, &DELETE_E);
        let mut columns = INSERT_E[..9].to_vec();
        columns[3].1 = &[0x7f, 0];
        columns[6].1 = &[0x7f, 2];
        columns.remove(7);
        columns.remove(2);
        check(&Row { key: Key::Elem(None, 0), meta: 2, payload: &[], ..insert }, &columns);
        let put = Row {
            obj: None,
            key: Key::Map("ab"),
            insert: false,
            meta: 0x24,
            payload: &[0x80, 1],
            pred: Some((1, 299)),
            ..insert
        };
        check(&put, &PUT_E);
        // The longest possible.
        let key = "k".repeat(MAX_KEY);
        let longest = Row {
            obj: Some((u32::MAX, u32::MAX)),
            key: Key::Map(&key),
            meta: u32::MAX,
            payload: &[1; MAX_PAYLOAD],
            pred: Some((u32::MAX, u32::MAX)),
            ..insert
        };
        assert!(longest.write().bytes().ends_with(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f]));
        let of_element = Row { key: Key::Elem(Some(u32::MAX), u32::MAX), ..longest };
        assert!(of_element.write().bytes().len() <= MAX_LEN);
    }

    #[test]
    fn whatever_else_it_is_is_left_to_others() {
        let refused = |columns: &[(usize, &[u8])], at: usize, data: &[u8]| {
            let mut columns = columns.to_vec();
            columns[at].1 = data;
            assert!(read(&encode(&columns), ID, 2).is_none(), "{at} {data:?}");
        };
        // Another actor, counters at or above the op's, records of two, other flags and values.
        refused(&INSERT_E[..9], 0, &[0x7f, 2]);
        refused(&INSERT_E[..9], 1, &[0x7f, 0]);
        refused(&INSERT_E[..9], 1, &[0x7f, 0xac, 2]);
        refused(&INSERT_E[..9], 2, &[1, 1]);
        refused(&INSERT_E[..9], 3, &[0x7f, 0xac, 2]);
        refused(&INSERT_E[..9], 3, &[0x7e, 1, 1]);
        refused(&INSERT_E[..9], 3, &[0x7f, 0x7f]);
        refused(&INSERT_E[..9], 4, &[1]);
        refused(&INSERT_E[..9], 5, &[0x7f, 3]);
        refused(&INSERT_E[..9], 6, &[0x7f, 0x16]);
        refused(&INSERT_E[..9], 6, &[0x7f, 0x27]);
        refused(&INSERT_E[..9], 7, b"ab");
        refused(&INSERT_E[..9], 7, &[0xc3, 0x28]);
        refused(&INSERT_E[..9], 7, &[0xa9, 0xa9]);
        refused(&INSERT_E[..9], 8, &[0x7f, 1]);
        refused(&INSERT_E, 9, &[0x7f, 1]);
        refused(&DELETE_E, 6, &[0x7f, 1]);
        refused(&DELETE_E, 8, &[0x7f, 0]);
        refused(&DELETE_E, 9, &[0x7f, 0xaa, 2]);
        refused(&PUT_E, 0, &[0x7f, 3, b'a', b'b']);
        refused(&PUT_E, 0, &[0x7f, 1, 0xff]);
        refused(&PUT_E, 1, &[0, 1]);
        refused(&PUT_E, 2, &[0x7f, 3]);
        refused(&PUT_E, 2, &[0x7f, 5]);
        refused(&PUT_E, 2, &[0x7f, 7]);
        refused(&PUT_E, 2, &[0x7f, 8]);
        refused(&PUT_E, 3, &[0x7f, 0x20]);
        refused(&PUT_E, 4, &[0x80, 0]);
        refused(&PUT_E, 5, &[0x7f, 0]);
        refused(&PUT_E, 7, &[0x7f, 0xac, 2]);
        let good = encode(&DELETE_E);
        for end in 0..good.len() - 1 {
            assert!(read(&good[..end], ID, 2).is_none(), "{end}");
        }
        let mut swapped = DELETE_E;
        swapped.swap(4, 5);
        assert!(read(&encode(&swapped), ID, 2).is_none());
        let mut unknown = DELETE_E.map(|(column, data)| (spec_byte(column), data));
        assert!(read(&with_specs(&unknown), ID, 2).is_some());
        unknown[9].0 = 116;
        assert!(read(&with_specs(&unknown), ID, 2).is_none());
    }
}

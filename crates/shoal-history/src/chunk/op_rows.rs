//! The rows of the op columns shared by changes and documents, read and written one by one.
//! Links are the ops an op supersedes (`pred`) in a change, and the ops superseding an op (`succ`)
//! in a document.
//!
//! A document has two more columns, holding the ids of ops; in a change ids follow from the place.

use super::columns::{
    ACTION, CODECS, Codec, EXPAND, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR,
    LINK_COUNT, LINK_COUNTER, MARK_NAME, NAMES, OBJ_ACTOR, OBJ_COUNTER, OpColumns, VALUE,
    VALUE_META,
};
use crate::column::boolean::{self, BooleanDecoder, BooleanEncoder};
use crate::column::delta::{self, DeltaDecoder, DeltaEncoder};
use crate::column::rle::{self, RleDecoder, RleEncoder, Text, TextEncoder, Uint};
use crate::column::value::{RawValue, ValueDecoder, ValueEncoder};
use crate::error::{ColumnFault, InColumn};
use crate::{Action, ActorIdx, Fault, Key, ObjId, OpId, ScalarRef};

/// How many rows there are, and how many links in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowCounts {
    pub(crate) ops: u64,
    pub(crate) links: u64,
}

/// Counts the rows and checks the columns for equal counts. Cost: the bytes of the columns,
/// regardless of the claimed rows.
pub(crate) fn count_rows(columns: &OpColumns<'_>) -> Result<RowCounts, ColumnFault> {
    let ops = rle::count_rows::<u64>(columns[ACTION]).in_column(NAMES[ACTION])?;
    let mut links = 0_u64;
    for (index, (&bytes, column)) in columns.iter().zip(NAMES).enumerate() {
        let always = matches!(index, INSERT | VALUE_META | LINK_COUNT);
        if bytes.is_empty() && !always {
            continue;
        }
        let rows = match CODECS[index] {
            Codec::Number if index == LINK_COUNT => {
                rle::for_each_run::<u64>(bytes, |count, run| {
                    let count = count.ok_or(Fault::UnexpectedNull)?;
                    let sum = count.checked_mul(run).and_then(|sum| links.checked_add(sum));
                    links = sum.ok_or(Fault::Overflow)?;
                    Ok(())
                })
            }
            Codec::Number => rle::count_rows::<u64>(bytes),
            Codec::Text => rle::count_rows::<&str>(bytes),
            Codec::Delta => delta::count_rows(bytes),
            Codec::Boolean => boolean::count_rows(bytes),
            Codec::Payload => continue,
        };
        // The counts come before the columns of links.
        let expected = if matches!(index, LINK_ACTOR | LINK_COUNTER) { links } else { ops };
        let rows = rows.in_column(column)?;
        if rows != expected {
            return Err(ColumnFault { column, fault: Fault::RowCount(rows) });
        }
    }
    for index in [LINK_ACTOR, LINK_COUNTER] {
        if columns[index].is_empty() && links > 0 {
            return Err(ColumnFault { column: NAMES[index], fault: Fault::RowCount(0) });
        }
    }
    Ok(RowCounts { ops, links })
}

/// An op without its id and links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Body<'a> {
    pub(crate) obj: ObjId,
    pub(crate) key: Key<'a>,
    pub(crate) insert: bool,
    pub(crate) action: Action,
    pub(crate) value: RawValue<'a>,
    pub(crate) expand: bool,
    pub(crate) mark_name: Option<&'a str>,
}

/// The number of runs of making an object: objects take more memory than other ops.
pub(crate) const OBJECT_RUNS: u32 = 4;

/// The number of runs of an op outside of any run.
#[inline]
pub(crate) fn runs_of(action: Action) -> u64 {
    match action {
        Action::MakeMap | Action::MakeList | Action::MakeText | Action::MakeTable => {
            u64::from(OBJECT_RUNS)
        }
        Action::Set | Action::Delete | Action::Increment | Action::Mark => 1,
    }
}

/// Reads op rows off the columns. The number of rows must come from [`count_rows`]: a row beyond
/// the end would look like a row of nulls.
#[derive(Clone, Debug)]
pub(crate) struct OpReader<'a> {
    pub(super) actor_count: u32,
    pub(super) obj_actor: RleDecoder<'a, u64>,
    pub(super) obj_counter: RleDecoder<'a, u64>,
    pub(super) key_actor: RleDecoder<'a, u64>,
    pub(super) key_counter: DeltaDecoder<'a>,
    pub(super) key_string: RleDecoder<'a, &'a str>,
    pub(super) insert: BooleanDecoder<'a>,
    pub(super) action: RleDecoder<'a, u64>,
    pub(super) value: ValueDecoder<'a>,
    pub(super) link_count: RleDecoder<'a, u64>,
    pub(super) link_actor: RleDecoder<'a, u64>,
    pub(super) link_counter: DeltaDecoder<'a>,
    pub(super) expand: BooleanDecoder<'a>,
    pub(super) mark_name: RleDecoder<'a, &'a str>,
}

impl<'a> OpReader<'a> {
    /// Actor indices must be below `actor_count`.
    pub(crate) fn new(columns: &OpColumns<'a>, actor_count: u32) -> Self {
        Self {
            actor_count,
            obj_actor: RleDecoder::new(columns[OBJ_ACTOR]),
            obj_counter: RleDecoder::new(columns[OBJ_COUNTER]),
            key_actor: RleDecoder::new(columns[KEY_ACTOR]),
            key_counter: DeltaDecoder::new(columns[KEY_COUNTER]),
            key_string: RleDecoder::new(columns[KEY_STRING]),
            insert: BooleanDecoder::new(columns[INSERT]),
            action: RleDecoder::new(columns[ACTION]),
            value: ValueDecoder::new(columns[VALUE_META], columns[VALUE]),
            link_count: RleDecoder::new(columns[LINK_COUNT]),
            link_actor: RleDecoder::new(columns[LINK_ACTOR]),
            link_counter: DeltaDecoder::new(columns[LINK_COUNTER]),
            expand: BooleanDecoder::new(columns[EXPAND]),
            mark_name: RleDecoder::new(columns[MARK_NAME]),
        }
    }

    /// The next row; its links replace the ones in `links`, in stored order.
    #[inline]
    pub(crate) fn next(&mut self, links: &mut Vec<OpId>) -> Result<Body<'a>, ColumnFault> {
        let obj = self.next_obj()?;
        let key = self.next_key()?;
        let insert = self.insert.next().in_column(NAMES[INSERT])?;
        match key {
            Key::Map(_) if insert => {
                return Err(ColumnFault { column: NAMES[INSERT], fault: Fault::InsertWithMapKey });
            }
            Key::Head if !insert => {
                return Err(ColumnFault { column: NAMES[INSERT], fault: Fault::HeadWithoutInsert });
            }
            _ => {}
        }
        let action = self.next_action().in_column(NAMES[ACTION])?;
        let value = self.value.next().in_column(NAMES[VALUE])?;
        self.next_links(links)?;
        let expand = self.expand.next().in_column(NAMES[EXPAND])?;
        let mark_name = self.mark_name.next().in_column(NAMES[MARK_NAME])?;
        Ok(Body { obj, key, insert, action, value, expand, mark_name })
    }

    /// Checks for leftover payload bytes after the last row.
    pub(crate) fn finish(&self) -> Result<(), ColumnFault> {
        match self.value.leftover() {
            0 => Ok(()),
            left => Err(ColumnFault { column: NAMES[VALUE], fault: Fault::Leftover(left as u64) }),
        }
    }

    #[inline]
    fn next_obj(&mut self) -> Result<ObjId, ColumnFault> {
        let actor = self.obj_actor.next().in_column(NAMES[OBJ_ACTOR])?;
        let counter = self.obj_counter.next().in_column(NAMES[OBJ_COUNTER])?;
        match (actor, counter) {
            (None, None) => Ok(ObjId::Root),
            (Some(actor), Some(counter)) => Ok(ObjId::Op(OpId {
                counter: counter_of(counter).in_column(NAMES[OBJ_COUNTER])?,
                actor: self.actor(actor).in_column(NAMES[OBJ_ACTOR])?,
            })),
            _ => Err(ColumnFault { column: NAMES[OBJ_ACTOR], fault: Fault::MismatchedNulls }),
        }
    }

    #[inline]
    fn next_key(&mut self) -> Result<Key<'a>, ColumnFault> {
        let actor = self.key_actor.next().in_column(NAMES[KEY_ACTOR])?;
        let counter = self.key_counter.next_u32().in_column(NAMES[KEY_COUNTER])?;
        let string = self.key_string.next().in_column(NAMES[KEY_STRING])?;
        match (string, counter, actor) {
            (Some(key), None, None) => Ok(Key::Map(key)),
            (None, Some(0), None) => Ok(Key::Head),
            (None, Some(counter), Some(actor)) => Ok(Key::Elem(OpId {
                counter: counter_of(u64::from(counter)).in_column(NAMES[KEY_COUNTER])?,
                actor: self.actor(actor).in_column(NAMES[KEY_ACTOR])?,
            })),
            (Some(_), _, _) => {
                Err(ColumnFault { column: NAMES[KEY_STRING], fault: Fault::MismatchedNulls })
            }
            (None, _, _) => {
                Err(ColumnFault { column: NAMES[KEY_ACTOR], fault: Fault::MismatchedNulls })
            }
        }
    }

    #[inline]
    fn next_action(&mut self) -> Result<Action, Fault> {
        let code = self.action.next()?.ok_or(Fault::UnexpectedNull)?;
        Action::from_code(code).ok_or(Fault::Action(code))
    }

    #[inline]
    fn next_links(&mut self, links: &mut Vec<OpId>) -> Result<(), ColumnFault> {
        links.clear();
        let count = self.link_count.next().in_column(NAMES[LINK_COUNT])?.unwrap_or(0);
        for _ in 0..count {
            let actor = self.link_actor.next().in_column(NAMES[LINK_ACTOR])?;
            let counter = self.link_counter.next_u32().in_column(NAMES[LINK_COUNTER])?;
            let (Some(actor), Some(counter)) = (actor, counter) else {
                return Err(ColumnFault {
                    column: NAMES[LINK_ACTOR],
                    fault: Fault::UnexpectedNull,
                });
            };
            links.push(OpId {
                counter: counter_of(u64::from(counter)).in_column(NAMES[LINK_COUNTER])?,
                actor: self.actor(actor).in_column(NAMES[LINK_ACTOR])?,
            });
        }
        Ok(())
    }

    #[inline]
    pub(super) fn actor(&self, index: u64) -> Result<ActorIdx, Fault> {
        match u32::try_from(index) {
            Ok(index) if index < self.actor_count => Ok(ActorIdx(index)),
            _ => Err(Fault::NoSuchActor(index)),
        }
    }
}

impl Body<'_> {
    /// The number of runs of the op: none for a continuation of the author's typing just before.
    #[inline]
    pub(crate) fn runs(&self, id: OpId) -> u64 {
        let goes_on = self.insert
            && self.action == Action::Set
            && id.before().is_some_and(|before| self.key == Key::Elem(before));
        if goes_on { 0 } else { runs_of(self.action) }
    }

    /// The rules of a single row: a fitting payload, an increment by an integer, references only to
    /// ops before `id`. Returns the value.
    #[inline]
    pub(crate) fn check(&self, id: OpId) -> Result<ScalarRef<'_>, ColumnFault> {
        let value = self.value.scalar().in_column(NAMES[VALUE])?;
        if self.action == Action::Increment
            && !matches!(value, ScalarRef::Int(_) | ScalarRef::Uint(_))
        {
            return Err(ColumnFault { column: NAMES[VALUE], fault: Fault::IncrementValue });
        }
        match self.obj {
            ObjId::Op(obj) if obj.counter >= id.counter => {
                let fault = Fault::NotBefore(obj.counter);
                return Err(ColumnFault { column: NAMES[OBJ_COUNTER], fault });
            }
            _ => {}
        }
        match self.key {
            Key::Elem(elem) if elem.counter >= id.counter => {
                let fault = Fault::NotBefore(elem.counter);
                Err(ColumnFault { column: NAMES[KEY_COUNTER], fault })
            }
            _ => Ok(value),
        }
    }
}

/// Writes op rows. Actor indices are written as they come.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpEncoder {
    pub(crate) obj_actor: RleEncoder<Uint>,
    pub(super) obj_counter: RleEncoder<Uint>,
    pub(crate) key_actor: RleEncoder<Uint>,
    pub(super) key_counter: DeltaEncoder,
    pub(super) key_string: TextEncoder,
    pub(super) insert: BooleanEncoder,
    pub(super) action: RleEncoder<Uint>,
    pub(super) value: ValueEncoder,
    pub(super) link_count: RleEncoder<Uint>,
    pub(crate) link_actor: RleEncoder<Uint>,
    pub(super) link_counter: DeltaEncoder,
    pub(super) expand: BooleanEncoder,
    pub(super) mark_name: RleEncoder<Text>,
    /// The last rows, as far as some of their columns are still unwritten.
    pub(super) alike: Option<Alike>,
}

/// Neighbouring rows of one object with some columns in common: all columns named by their form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    pub(super) obj: ObjId,
    pub(super) form: Form,
    pub(super) count: u64,
}

/// The form of rows with common columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Inserts of plain values.
    Inserts,
    /// Plain ops on the keys of a map.
    Entries,
}

/// The value of a row to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowValue<'a> {
    Scalar(ScalarRef<'a>),
    Raw(RawValue<'a>),
}

/// A row to be written, without its links.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) obj: ObjId,
    pub(crate) key: Key<'a>,
    pub(crate) insert: bool,
    pub(crate) action: Action,
    pub(crate) value: RowValue<'a>,
    pub(crate) expand: bool,
    pub(crate) mark_name: Option<&'a str>,
}

impl OpEncoder {
    /// Appends a row; `links` in stored order.
    #[inline]
    pub(crate) fn push(&mut self, row: &Row<'_>, links: impl ExactSizeIterator<Item = OpId>) {
        match row.key {
            Key::Map(key) if !(row.insert || row.expand || row.mark_name.is_some()) => {
                self.push_entry(row.obj, key, row.action, row.value, links);
            }
            _ => {
                self.push_place(row);
                self.push_content(row.action, row.value, links);
            }
        }
    }

    /// Appends a plain row of a map; `links` in stored order.
    #[inline]
    pub(crate) fn push_entry(
        &mut self,
        obj: ObjId,
        key: &str,
        action: Action,
        value: RowValue<'_>,
        links: impl ExactSizeIterator<Item = OpId>,
    ) {
        self.push_alike(obj, Form::Entries, 1);
        self.key_string.push_value(key);
        self.push_content(action, value, links);
    }

    /// The columns of a row beside its place and mark.
    #[inline]
    fn push_content(
        &mut self,
        action: Action,
        value: RowValue<'_>,
        links: impl ExactSizeIterator<Item = OpId>,
    ) {
        self.action.push_value(action as u64);
        match value {
            RowValue::Scalar(value) => self.value.push(value),
            RowValue::Raw(value) => self.value.push_raw(value),
        }
        self.link_count.push_value(links.len() as u64);
        for link in links {
            self.link_actor.push_value(u64::from(link.actor.0));
            self.link_counter.push_value(i64::from(link.counter));
        }
    }

    /// The columns of object, key, insertion and mark, for a row of no [`Form`].
    fn push_place(&mut self, row: &Row<'_>) {
        self.end_alike();
        self.push_object(row.obj, 1);
        let (actor, counter, string) = match row.key {
            Key::Map(key) => (None, None, Some(key)),
            Key::Head => (None, Some(0), None),
            Key::Elem(id) => (Some(u64::from(id.actor.0)), Some(i64::from(id.counter)), None),
        };
        self.key_actor.push(actor);
        self.key_counter.push(counter);
        self.key_string.push(string);
        self.insert.push(row.insert);
        self.expand.push(row.expand);
        self.mark_name.push(row.mark_name);
    }

    /// Ends the columns.
    pub(crate) fn finish(&mut self) {
        self.end_alike();
        self.obj_actor.finish();
        self.obj_counter.finish();
        self.key_actor.finish();
        self.key_counter.finish();
        self.key_string.finish();
        self.insert.finish();
        self.action.finish();
        self.value.finish();
        self.link_count.finish();
        self.link_actor.finish();
        self.link_counter.finish();
        self.expand.finish();
        self.mark_name.finish();
    }

    /// The finished columns, empty for the ones to be left out.
    pub(crate) fn columns(&self) -> OpColumns<'_> {
        [
            self.obj_actor.bytes(),
            self.obj_counter.bytes(),
            self.key_actor.bytes(),
            self.key_counter.bytes(),
            self.key_string.bytes(),
            self.insert.bytes(),
            self.action.bytes(),
            self.value.meta_bytes(),
            self.value.payload_bytes(),
            self.link_count.bytes(),
            self.link_actor.bytes(),
            self.link_counter.bytes(),
            self.expand.bytes_if_any(),
            self.mark_name.bytes(),
        ]
    }

    /// Starts anew, keeping the buffers.
    pub(crate) fn clear(&mut self) {
        self.alike = None;
        self.obj_actor.clear();
        self.obj_counter.clear();
        self.key_actor.clear();
        self.key_counter.clear();
        self.key_string.clear();
        self.insert.clear();
        self.action.clear();
        self.value.clear();
        self.link_count.clear();
        self.link_actor.clear();
        self.link_counter.clear();
        self.expand.clear();
        self.mark_name.clear();
    }
}

/// A counter of an op id: 1 to 2^32 - 1.
#[inline]
fn counter_of(value: u64) -> Result<u32, Fault> {
    match u32::try_from(value) {
        Ok(0) => Err(Fault::OutOfRange(0)),
        Ok(counter) => Ok(counter),
        Err(_) => Err(Fault::Beyond32Bits(value)),
    }
}

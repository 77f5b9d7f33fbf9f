//! Runs of ops, read and written at once: typing ([`TextRun`]) and deleting ([`DeleteRun`]). The
//! columns are the same as row by row.

use super::columns::{
    ACTION, COLUMN_COUNT, EXPAND, INSERT, KEY_ACTOR, KEY_COUNTER, KEY_STRING, LINK_ACTOR,
    LINK_COUNT, LINK_COUNTER, MARK_NAME, NAMES, OBJ_ACTOR, OBJ_COUNTER, VALUE, VALUE_META,
};
use super::op_rows::{Alike, Form, OpEncoder, OpReader};
use crate::column::delta::DeltaState;
use crate::column::leb128::{write_sleb, write_uleb};
use crate::error::{ColumnFault, InColumn};
use crate::{Action, DeleteRun, InsertRun, ObjId, OpId, ScalarRef, TextRun};

/// The type code of strings in value metadata.
pub(crate) const STR: u8 = 6;

/// True if these bytes of text are one character.
#[inline]
pub(crate) fn is_char(bytes: &[u8]) -> bool {
    // Continuation bytes of a character begin with the bits 10.
    bytes.iter().skip(1).all(|byte| byte & 0xc0 == 0x80)
}

/// Rows of a change read at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RunRows<'a> {
    Text(TextRun<'a>),
    Deletes(DeleteRun),
}

impl RunRows<'_> {
    /// The number of runs: none for a continuation of the author's typing just before.
    pub(crate) fn runs(&self) -> u64 {
        match self {
            Self::Text(run) => u64::from(run.reference != run.id.before()),
            Self::Deletes(_) => 1,
        }
    }
}

impl<'a> OpReader<'a> {
    /// The next rows of a change, if typing or deleting: `max` of them at most, the first with the
    /// id `id`, the others with the following ids. They need no check any more. `None` when the
    /// next row is something else, or may be wrong, and is to be read alone.
    ///
    /// One run may come in several, because its first row refers to another element than the
    /// others.
    #[inline]
    pub(crate) fn next_run(
        &mut self,
        id: OpId,
        max: u64,
    ) -> Result<Option<RunRows<'a>>, ColumnFault> {
        let (action, actions) = self.action.peek().in_column(NAMES[ACTION])?;
        let is_text = action == Some(Action::Set as u64);
        if !is_text && action != Some(Action::Delete as u64) {
            return Ok(None);
        }
        let (insert, inserts) = self.insert.peek().in_column(NAMES[INSERT])?;
        if insert != is_text {
            return Ok(None);
        }
        let (key, step, keys) = self.key_counter.peek().in_column(NAMES[KEY_COUNTER])?;
        let (key_actor, key_actors) = self.key_actor.peek().in_column(NAMES[KEY_ACTOR])?;
        let (string, strings) = self.key_string.peek().in_column(NAMES[KEY_STRING])?;
        let (expand, expands) = self.expand.peek().in_column(NAMES[EXPAND])?;
        let (mark, marks) = self.mark_name.peek().in_column(NAMES[MARK_NAME])?;
        let Some(key) = key.filter(|_| string.is_none() && mark.is_none() && !expand) else {
            return Ok(None);
        };
        let (obj_actor, obj_actors) = self.obj_actor.peek().in_column(NAMES[OBJ_ACTOR])?;
        let (obj_counter, obj_counters) = self.obj_counter.peek().in_column(NAMES[OBJ_COUNTER])?;
        let elem = match key_actor {
            None if key == 0 && is_text => None,
            None => return Ok(None),
            Some(actor) => match self.id_before(id, actor, u64::try_from(key).ok()) {
                None => return Ok(None),
                elem => elem,
            },
        };
        let obj = match (obj_actor, obj_counter) {
            (None, None) => ObjId::Root,
            (Some(actor), counter) => match self.id_before(id, actor, counter) {
                None => return Ok(None),
                Some(id) => ObjId::Op(id),
            },
            (None, Some(_)) => return Ok(None),
        };
        let (meta, metas) = self.value.peek_meta().in_column(NAMES[VALUE])?;
        let (links, link_counts) = self.link_count.peek().in_column(NAMES[LINK_COUNT])?;
        let lens = [
            max,
            actions,
            inserts,
            strings,
            expands,
            marks,
            obj_actors,
            obj_counters,
            metas,
            link_counts,
        ];
        let most = lens.into_iter().fold(u64::MAX, u64::min);
        let along_keys = most.min(keys).min(key_actors);
        if !is_text {
            let (actor, actors) = self.link_actor.peek().in_column(NAMES[LINK_ACTOR])?;
            let (link, link_step, counters) =
                self.link_counter.peek().in_column(NAMES[LINK_COUNTER])?;
            let is_plain = meta == 0 && links == Some(1) && actor == key_actor && link == Some(key);
            let Some(elem) = elem.filter(|_| is_plain) else { return Ok(None) };
            let mut len = 1;
            if step == link_step && (step == 1 || step == -1) {
                len = along_keys.min(actors).min(counters);
                if step < 0 {
                    len = len.min(u64::from(elem.counter));
                }
            }
            self.skip(len, step, 0)?;
            self.link_actor.skip(len);
            self.link_counter.skip(link_step, len);
            let descends = len > 1 && step < 0;
            // Not more than `max`, a count of ops.
            let len = len as u32;
            return Ok(Some(RunRows::Deletes(DeleteRun { id, obj, elem, len, descends })));
        }
        let char_len = (meta >> 4) as usize;
        if meta & 15 != u64::from(STR) || !(1..=4).contains(&char_len) || links != Some(0) {
            return Ok(None);
        }
        let mut len = 1;
        let follows = |elem: OpId| elem.actor == id.actor && elem.counter + 1 == id.counter;
        if step == 1 && elem.is_some_and(follows) {
            len = along_keys;
        }
        let payloads = self.value.payloads();
        // Should the payloads be too few, the last rows are read by themselves, and found out.
        let room = payloads.len() / char_len;
        let len = chars_of(
            &payloads[..room.min(usize::try_from(len).unwrap_or(room)) * char_len],
            char_len,
        );
        let bytes = &payloads[..len * char_len];
        let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        self.skip(len as u64, step, bytes.len())?;
        Ok(Some(RunRows::Text(TextRun {
            id,
            obj,
            reference: elem,
            text,
            len: len as u32,
            succ: None,
            succ_descends: false,
        })))
    }

    /// Skips the common columns of rows, links left out.
    #[inline]
    fn skip(&mut self, count: u64, key_step: i64, payload: usize) -> Result<(), ColumnFault> {
        self.obj_actor.skip(count);
        self.obj_counter.skip(count);
        self.key_actor.skip(count);
        self.key_counter.skip(key_step, count);
        self.key_string.skip(count);
        self.insert.skip(count);
        self.action.skip(count);
        self.value.skip(count, payload).in_column(NAMES[VALUE])?;
        self.link_count.skip(count);
        self.expand.skip(count);
        self.mark_name.skip(count);
        Ok(())
    }

    /// The id of an op before `id`, if these are its parts.
    #[inline]
    fn id_before(&self, id: OpId, actor: u64, counter: Option<u64>) -> Option<OpId> {
        let counter = u32::try_from(counter?).ok()?;
        let actor = self.actor(actor).ok()?;
        (counter > 0 && counter < id.counter).then_some(OpId { counter, actor })
    }
}

/// The number of payloads, `len` bytes each, of one character, up to the first other one. Cost: the
/// counted ones.
#[inline]
fn chars_of(payloads: &[u8], len: usize) -> usize {
    if len == 1 {
        return match payloads.is_ascii() {
            true => payloads.len(),
            false => payloads.iter().take_while(|byte| byte.is_ascii()).count(),
        };
    }
    let is_one = |bytes: &&[u8]| is_char(bytes) && std::str::from_utf8(bytes).is_ok();
    payloads.chunks_exact(len).take_while(is_one).count()
}

/// The ops of a change of one run in a sequence: a keystroke, or several. Nearly each column is one
/// record, so nothing has to be computed in between. Actor indices are the change's.
pub(crate) struct OneRun<'a> {
    pub(crate) len: u32,
    /// The actor and the counter; `None` for the root.
    pub(crate) obj: Option<(u64, u32)>,
    /// The actor of the first op's reference, `None` for the head, and the actor of the others'.
    pub(crate) key_actors: (Option<u64>, u64),
    /// The counter of the first op's reference, of the second one's, and the step from there.
    pub(crate) keys: (u32, u32, i64),
    pub(crate) insert: bool,
    pub(crate) action: Action,
    /// The metadata of each value.
    pub(crate) meta: u64,
    /// All values.
    pub(crate) payloads: &'a [u8],
    /// The actor of the one op superseded by each, the counter of the first one's, and the step.
    pub(crate) preds: Option<(u64, u32, i64)>,
}

impl OneRun<'_> {
    /// Writes the columns, and nothing else, into `data`; returns the length of each.
    pub(crate) fn write(
        &self,
        delta: &mut DeltaState,
        data: &mut Vec<u8>,
    ) -> [usize; COLUMN_COUNT] {
        let len = self.len;
        data.clear();
        let mut lens = [0; COLUMN_COUNT];
        let mut start = 0;
        let mut end_column = |index: usize, data: &Vec<u8>| {
            lens[index] = data.len() - start;
            start = data.len();
        };
        if let Some((actor, counter)) = self.obj {
            repeat(actor, len, data);
            end_column(OBJ_ACTOR, data);
            repeat(u64::from(counter), len, data);
            end_column(OBJ_COUNTER, data);
        }
        match self.key_actors {
            // A column of nothing but nulls is left out.
            (None, _) if len == 1 => {}
            (Some(first), others) if len == 1 || first == others => repeat(first, len, data),
            (None, others) => {
                data.extend_from_slice(&[0, 1]);
                repeat(others, len - 1, data);
            }
            (Some(first), others) if len == 2 => {
                // Two literal values.
                data.push(0x7e);
                write_uleb(first, data);
                write_uleb(others, data);
            }
            (Some(first), others) => {
                repeat(first, 1, data);
                repeat(others, len - 1, data);
            }
        }
        end_column(KEY_ACTOR, data);
        let (first, second, step) = self.keys;
        series(first, (second, step), len, delta, data);
        end_column(KEY_COUNTER, data);
        if self.insert {
            data.push(0);
        }
        write_uleb(u64::from(len), data);
        end_column(INSERT, data);
        repeat(self.action as u64, len, data);
        end_column(ACTION, data);
        repeat(self.meta, len, data);
        end_column(VALUE_META, data);
        data.extend_from_slice(self.payloads);
        end_column(VALUE, data);
        repeat(u64::from(self.preds.is_some()), len, data);
        end_column(LINK_COUNT, data);
        if let Some((actor, first, step)) = self.preds {
            repeat(actor, len, data);
            end_column(LINK_ACTOR, data);
            let second = i64::from(first) + step;
            series(first, (second as u32, step), len, delta, data);
            end_column(LINK_COUNTER, data);
        }
        lens
    }
}

/// Writes a column of `count` times `value`.
fn repeat(value: u64, count: u32, data: &mut Vec<u8>) {
    if count == 1 {
        // One literal value.
        data.push(0x7f);
    } else {
        write_sleb(i64::from(count), data);
    }
    write_uleb(value, data);
}

/// Writes a delta column: `first`, then `second`, from there on in steps.
fn series(
    first: u32,
    (second, step): (u32, i64),
    count: u32,
    delta: &mut DeltaState,
    data: &mut Vec<u8>,
) {
    if count == 1 {
        data.push(0x7f);
        return write_sleb(i64::from(first), data);
    }
    delta.begin(data);
    delta.push_value(i64::from(first), data);
    delta.push_value(i64::from(second), data);
    if count > 2 {
        delta.push_steps(step, u64::from(count) - 2, data);
    }
    delta.finish(data);
}

impl OpEncoder {
    /// Appends the rows of a run. Actor indices are written as they come.
    pub(crate) fn push_text(&mut self, run: &TextRun<'_>) {
        self.push_inserts(&run.inserts());
        self.value.push_chars(run.text);
    }

    /// The same for a run of scalars, as many as the run is long.
    pub(crate) fn push_scalars<'v>(
        &mut self,
        run: &InsertRun,
        values: impl Iterator<Item = ScalarRef<'v>>,
    ) {
        self.push_inserts(run);
        values.for_each(|value| self.value.push(value));
    }

    /// All columns of a run except values and the common ones of runs in one object: see
    /// [`end_alike`](Self::end_alike).
    fn push_inserts(&mut self, run: &InsertRun) {
        let count = u64::from(run.len);
        self.push_alike(run.obj, Form::Inserts, count);
        let own = u64::from(run.id.actor.0);
        match run.reference {
            None => self.key_actor.push_null(),
            Some(reference) => self.key_actor.push_value(u64::from(reference.actor.0)),
        }
        self.key_counter.push_value(run.reference.map_or(0, |id| i64::from(id.counter)));
        if count > 1 {
            self.key_actor.push_values(own, count - 1);
            self.key_counter.push_series(i64::from(run.id.counter), 1, count - 1);
        }
        match run.succ {
            None => self.link_count.push_values(0, count),
            Some(succ) => self.push_links(succ, run.succ_descends, count),
        }
    }

    /// Takes note of rows of an object; the columns in common are appended with the last of them.
    #[inline]
    pub(super) fn push_alike(&mut self, obj: ObjId, form: Form, count: u64) {
        match &mut self.alike {
            Some(alike) if alike.form == form && alike.obj == obj => alike.count += count,
            _ => {
                self.end_alike();
                self.alike = Some(Alike { obj, form, count });
            }
        }
    }

    /// Appends the common columns of the last rows.
    pub(super) fn end_alike(&mut self) {
        let Some(Alike { obj, form, count }) = self.alike.take() else { return };
        self.push_object(obj, count);
        match form {
            Form::Inserts => {
                self.key_string.push_nulls(count);
                self.action.push_values(Action::Set as u64, count);
            }
            Form::Entries => {
                self.key_actor.push_nulls(count);
                self.key_counter.push_nulls(count);
            }
        }
        self.insert.push_values(form == Form::Inserts, count);
        self.expand.push_values(false, count);
        self.mark_name.push_nulls(count);
    }

    /// Appends the rows of a run.
    pub(crate) fn push_deletes(&mut self, run: &DeleteRun) {
        self.end_alike();
        let count = u64::from(run.len);
        self.push_object(run.obj, count);
        self.key_actor.push_values(u64::from(run.elem.actor.0), count);
        let step = if run.descends { -1 } else { 1 };
        self.key_counter.push_series(i64::from(run.elem.counter), step, count);
        self.key_string.push_nulls(count);
        self.insert.push_values(false, count);
        self.action.push_values(Action::Delete as u64, count);
        self.value.push_nulls(count);
        self.push_links(run.elem, run.descends, count);
        self.expand.push_values(false, count);
        self.mark_name.push_nulls(count);
    }

    pub(super) fn push_object(&mut self, obj: ObjId, count: u64) {
        match obj {
            ObjId::Root => {
                self.obj_actor.push_nulls(count);
                self.obj_counter.push_nulls(count);
            }
            ObjId::Op(id) => {
                self.obj_actor.push_values(u64::from(id.actor.0), count);
                self.obj_counter.push_values(u64::from(id.counter), count);
            }
        }
    }

    /// One link in each row.
    fn push_links(&mut self, first: OpId, descends: bool, count: u64) {
        self.link_count.push_values(1, count);
        self.link_actor.push_values(u64::from(first.actor.0), count);
        let step = if descends { -1 } else { 1 };
        self.link_counter.push_series(i64::from(first.counter), step, count);
    }
}

/// True if all implied ids of a run exist: counters of 32 bits, from 1.
pub(crate) fn fits(first: OpId, descends: bool, len: u32) -> bool {
    let Some(others) = len.checked_sub(1) else { return false };
    first.counter > 0
        && if descends {
            first.counter > others
        } else {
            first.counter.checked_add(others).is_some()
        }
}

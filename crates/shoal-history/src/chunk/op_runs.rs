//! Runs of ops, written at once: typing ([`TextRun`]) and deleting ([`DeleteRun`]). The columns are
//! the same as row by row.

use super::op_rows::OpEncoder;
use crate::{Action, DeleteRun, ObjId, OpId, TextRun};

/// The type code of strings in value metadata.
pub(crate) const STR: u8 = 6;

/// Whether these bytes, which are text, are one character.
#[inline]
pub(crate) fn is_char(bytes: &[u8]) -> bool {
    // Bytes that continue a character are those that begin with 10.
    bytes.iter().skip(1).all(|byte| byte & 0xc0 == 0x80)
}

impl OpEncoder {
    /// Appends the rows of a run. Actor indices are written as they come.
    pub(crate) fn push_text(&mut self, run: &TextRun<'_>) {
        let count = u64::from(run.len);
        self.push_object(run.obj, count);
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
        self.key_string.push_nulls(count);
        self.insert.push_values(true, count);
        self.action.push_values(Action::Set as u64, count);
        self.value.push_chars(run.text);
        match run.succ {
            None => self.link_count.push_values(0, count),
            Some(succ) => self.push_links(succ, run.succ_descends, count),
        }
        self.expand.push_values(false, count);
        self.mark_name.push_nulls(count);
    }

    /// Appends the rows of a run.
    pub(crate) fn push_deletes(&mut self, run: &DeleteRun) {
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

    fn push_object(&mut self, obj: ObjId, count: u64) {
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

/// Whether all ids that a run implies are ones that exist: counters of 32 bits, from 1.
pub(crate) fn fits(first: OpId, descends: bool, len: u32) -> bool {
    let Some(others) = len.checked_sub(1) else { return false };
    first.counter > 0
        && if descends {
            first.counter > others
        } else {
            first.counter.checked_add(others).is_some()
        }
}

//! Edits of lists and texts.

use std::sync::Arc;

use shoal_history::{Action, OpId, Scalar};
use unicode_segmentation::UnicodeSegmentation;

use super::map::{Resolved, has_counter, ids, resolve_put};
use super::{Edit, Transaction, reg_op};
use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
use crate::pending::{PendingKey, PendingMark};
use crate::read::{to_usize, wrong_prop, wrong_type};
use crate::register::{ObjIdx, RegOp, Succ};
use crate::sequence::{InsertPoint, NO_OP, Place, Sequence};
use crate::value::{IntoScalar, ObjType, TextEncoding};

/// The ends at which a mark grows with inserted text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpandMark {
    /// At its begin.
    Before,
    /// At its end.
    #[default]
    After,
    /// At both.
    Both,
    /// At neither.
    None,
}

impl Transaction<'_> {
    /// Inserts a value before the list item or text unit at `index`. An index within a text element
    /// of several units means the end of the element.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps, [`Error::Index`].
    pub fn insert(
        &mut self,
        obj: &ObjId,
        index: usize,
        value: impl IntoScalar,
    ) -> Result<(), Error> {
        let object = self.sequence_target(obj)?;
        let point = self.insert_point(object, index)?;
        let id = self.next_id()?;
        self.insert_op(object, point, reg_op(id, Action::Set, value.into_scalar(), ObjIdx::NONE));
        Ok(())
    }

    /// Inserts a new object as [`Transaction::insert`] does a value, and returns its id.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_object(
        &mut self,
        obj: &ObjId,
        index: usize,
        kind: ObjType,
    ) -> Result<ObjId, Error> {
        let object = self.sequence_target(obj)?;
        self.reserve_depth(object)?;
        let point = self.insert_point(object, index)?;
        let id = self.next_id()?;
        let made = self.doc.ops.add_object(id, kind, object);
        self.insert_op(object, point, reg_op(id, kind.make_action(), Scalar::Null, made));
        Ok(self.doc.export(id))
    }

    /// Inserts `values` before index `index`, then deletes `delete` items after them; a negative
    /// number deletes items before the index, and inserts at their begin. Deleting stops at the
    /// end. In a text every value must be a string, and strings are inserted character by
    /// character.
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for maps, and for other values than strings
    /// in a text; [`Error::Index`].
    pub fn splice(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        values: impl IntoIterator<Item = impl IntoScalar>,
    ) -> Result<(), Error> {
        let object = self.sequence_target(obj)?;
        let values: Vec<Scalar> = values.into_iter().map(IntoScalar::into_scalar).collect();
        if self.doc.ops.object(object).kind == ObjType::Text {
            let mut text = String::new();
            for value in &values {
                match value {
                    Scalar::Str(part) => text.push_str(part),
                    _ => return Err(wrong_type(obj, ObjType::Text, "splice other than text")),
                }
            }
            return self.splice_text(obj, index, delete, &text);
        }
        let (index, delete) = self.splice_range(object, index, delete)?;
        self.reserve_ids(values.len().saturating_add(delete))?;
        let mut index = index;
        if !values.is_empty() {
            let mut point = self.insert_point(object, index)?;
            index = to_usize(point.index) + values.len();
            for value in values {
                let id = self.next_id()?;
                point = self.insert_op(object, point, reg_op(id, Action::Set, value, ObjIdx::NONE));
            }
        }
        self.delete_range(object, index, delete)
    }

    /// Inserts `text` at `index`, then deletes `delete` units after the text; a negative number
    /// deletes
    /// before the index, and inserts there. Deleting stops at the end. Costs O(log n) for each run
    /// of characters; O(1) beside the last edit.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for all but texts, [`Error::Index`].
    pub fn splice_text(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        text: &str,
    ) -> Result<(), Error> {
        let object = self.doc.resolve(obj)?;
        let kind = self.doc.ops.object(object).kind;
        if kind != ObjType::Text {
            return Err(wrong_type(obj, kind, "splice text"));
        }
        let encoding = self.doc.ops.encoding;
        let is_typing =
            delete == 0 && !text.is_empty() && encoding != TextEncoding::GraphemeCluster;
        if is_typing && self.type_on(object, index, text)? {
            return Ok(());
        }
        let (mut index, delete) = self.splice_range(object, index, delete)?;
        if encoding == TextEncoding::GraphemeCluster {
            index = self.insert_clusters(object, index, text, delete)?;
        } else if !text.is_empty() {
            let len = text.chars().count();
            self.reserve_ids(len.saturating_add(delete))?;
            let point = self.insert_point(object, index)?;
            index = to_usize(point.index) + encoding.width(text);
            self.insert_text(object, point, text, len)?;
        }
        self.delete_range(object, index, delete)
    }

    /// Marks the text from `start` to `end` with a name and a value; [`Scalar::Null`] removes the
    /// name there. Marking nothing has an effect on later inserts there, if the mark grows.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for all but texts, [`Error::Index`].
    pub fn mark(
        &mut self,
        obj: &ObjId,
        start: usize,
        end: usize,
        name: &str,
        value: impl IntoScalar,
        expand: ExpandMark,
    ) -> Result<(), Error> {
        let object = self.doc.resolve(obj)?;
        let kind = self.doc.ops.object(object).kind;
        if kind != ObjType::Text {
            return Err(wrong_type(obj, kind, "mark text"));
        }
        if start == end && expand == ExpandMark::None {
            return Ok(());
        }
        let begin_point = self.insert_point(object, start)?;
        self.insert_point(object, end)?;
        self.reserve_ids(2)?;

        let begin = self.next_id()?;
        let mut op = reg_op(begin, Action::Mark, value.into_scalar(), ObjIdx::NONE);
        op.expand = matches!(expand, ExpandMark::Before | ExpandMark::Both);
        op.mark_name = Some(Arc::from(name));
        let after_begin = self.insert_op(object, begin_point, op);

        let mut op = reg_op(self.next_id()?, Action::Mark, Scalar::Null, ObjIdx::NONE);
        op.expand = matches!(expand, ExpandMark::After | ExpandMark::Both);
        let mut end_point = self.insert_point(object, end)?;
        // Within one wide element both ends resolve to one place: the end then follows the begin.
        let is_behind = match self.locate(object, begin) {
            Some(begin) => {
                let sequence = self.sequence_of(object);
                sequence.is_some_and(|s| s.rank_of(end_point.place) > s.rank_of(begin))
            }
            None => true,
        };
        if start >= end || !is_behind {
            end_point = after_begin;
        }
        self.insert_op(object, end_point, op);
        Ok(())
    }

    pub(super) fn put_in_sequence(
        &mut self,
        object: ObjIdx,
        index: usize,
        value: Scalar,
    ) -> Result<(), Error> {
        let (place, _) = self.element_at(object, index)?;
        let resolved = match self.sequence_of(object) {
            Some(sequence) => resolve_put(sequence.visible_at(place), &value),
            None => Resolved::Nothing,
        };
        match resolved {
            Resolved::Nothing => Ok(()),
            Resolved::DeleteLosers(losers) => self.delete_ops_at(object, place, losers),
            Resolved::Supersede(preds) => {
                let id = self.next_id()?;
                self.update_at(object, place, reg_op(id, Action::Set, value, ObjIdx::NONE), preds);
                Ok(())
            }
        }
    }

    pub(super) fn put_object_in_sequence(
        &mut self,
        object: ObjIdx,
        index: usize,
        kind: ObjType,
    ) -> Result<OpId, Error> {
        self.reserve_depth(object)?;
        let (place, preds) = self.element_at(object, index)?;
        let id = self.next_id()?;
        let made = self.doc.ops.add_object(id, kind, object);
        self.update_at(object, place, reg_op(id, kind.make_action(), Scalar::Null, made), preds);
        Ok(id)
    }

    pub(super) fn delete_from_sequence(
        &mut self,
        object: ObjIdx,
        index: usize,
    ) -> Result<(), Error> {
        if self.doc.ops.object(object).kind == ObjType::Text {
            return self.delete_range(object, index, 1);
        }
        let (place, preds) = self.element_at(object, index)?;
        self.delete_ops_at(object, place, preds)
    }

    /// `false` when there is no counter.
    pub(super) fn increment_in_sequence(
        &mut self,
        object: ObjIdx,
        index: usize,
        by: i64,
    ) -> Result<bool, Error> {
        let (place, preds) = self.element_at(object, index)?;
        let is_counter = self
            .sequence_of(object)
            .is_some_and(|sequence| has_counter(sequence.visible_at(place)));
        if is_counter {
            let id = self.next_id()?;
            let op = reg_op(id, Action::Increment, Scalar::Int(by), ObjIdx::NONE);
            self.update_at(object, place, op, preds);
        }
        Ok(is_counter)
    }

    /// Deletes the elements beginning in the next `delete` units; an element cut by `index` stays.
    fn delete_range(&mut self, object: ObjIdx, index: usize, delete: usize) -> Result<(), Error> {
        let (mut index, mut left) = (index as u64, delete as u64);
        while left > 0 {
            let id = self.next_id()?;
            let available = u32::MAX - id.counter;
            let Some((sequence, actors)) = self.doc.ops.sequence_mut(object) else { break };
            let Some((place, start)) = sequence.find_to_edit(index) else { break };
            if start < index {
                index = start + sequence.width_at(place);
                continue;
            }
            let count = u32::try_from(left).unwrap_or(u32::MAX).min(available);
            if let Some(deleted) = sequence.delete_simple(place, count, id, actors) {
                left -= deleted.width;
                let obj = self.doc.ops.object(object).id;
                self.pending.push_deletes(obj, deleted.first, id, deleted.count);
                continue;
            }
            let width = sequence.width_at(place);
            let preds = ids(sequence.visible_at(place));
            self.delete_ops_at(object, place, preds)?;
            left = left.saturating_sub(width);
        }
        Ok(())
    }

    /// Inserts `text` at `index` as a continuation of the last insert, as in nearly all typing.
    fn type_on(&mut self, object: ObjIdx, index: usize, text: &str) -> Result<bool, Error> {
        let len = text.chars().count();
        self.reserve_ids(len)?;
        let (Ok(id), Ok(len)) = (self.next_id(), u32::try_from(len)) else { return Ok(false) };
        let ops = &mut self.doc.ops;
        let obj = ops.object(object).id;
        let Some((sequence, actors)) = ops.sequence_mut(object) else { return Ok(false) };
        let typed = sequence.type_on(Some(index as u64), id, text, len, actors);
        if typed.is_some() {
            ops.count_ops(len);
            self.pending.push_text(obj, typed, id, text, len);
        }
        Ok(typed.is_some())
    }

    fn insert_text(
        &mut self,
        object: ObjIdx,
        point: InsertPoint,
        text: &str,
        len: usize,
    ) -> Result<(), Error> {
        let id = self.next_id()?;
        let InsertPoint { reference, place, .. } = point;
        let end = point.index + self.doc.ops.encoding.width(text) as u64;
        if let Some((sequence, actors)) = self.doc.ops.sequence_mut(object) {
            sequence.insert_text_at(place, reference, id, text, Some(end), actors);
        }
        let len = u32::try_from(len).map_err(|_| Error::OpIdsExhausted)?;
        self.doc.ops.count_ops(len);
        let obj = self.doc.ops.object(object).id;
        let reference = (reference != NO_OP).then_some(reference);
        self.pending.push_text(obj, reference, id, text, len);
        Ok(())
    }

    /// Inserts each grapheme cluster of `text` as one element, and returns the index behind them.
    fn insert_clusters(
        &mut self,
        object: ObjIdx,
        index: usize,
        text: &str,
        delete: usize,
    ) -> Result<usize, Error> {
        if text.is_empty() {
            return Ok(index);
        }
        let clusters = text.graphemes(true).count();
        self.reserve_ids(clusters.saturating_add(delete))?;
        let mut point = self.insert_point(object, index)?;
        let index = to_usize(point.index) + clusters;
        for cluster in text.graphemes(true) {
            let id = self.next_id()?;
            let op = reg_op(id, Action::Set, Scalar::Str(cluster.into()), ObjIdx::NONE);
            point = self.insert_op(object, point, op);
        }
        Ok(index)
    }

    /// Inserts the element of `op`, and returns the point right after.
    fn insert_op(&mut self, object: ObjIdx, point: InsertPoint, op: RegOp) -> InsertPoint {
        let id = op.id;
        let is_mark = op.action == Action::Mark;
        let edit = Edit {
            action: op.action,
            insert: true,
            value: op.value.clone(),
            mark: is_mark
                .then(|| Box::new(PendingMark { expand: op.expand, name: op.mark_name.clone() })),
        };
        let mut place = point.place;
        if let Some((sequence, actors)) = self.doc.ops.sequence_mut(object) {
            place = sequence.insert_at(place, point.reference, op, actors);
        }
        self.note(object, insert_key(point.reference), edit, Succ::None, id);
        InsertPoint { reference: id, place: place.after(), index: point.index + 1 }
    }

    fn update_at(&mut self, object: ObjIdx, place: Place, op: RegOp, preds: Succ) {
        let edit = Edit::new(op.action, false, op.value.clone());
        let id = op.id;
        let mut elem = NO_OP;
        if let Some((sequence, actors)) = self.doc.ops.sequence_mut(object) {
            elem = sequence.elem_id(place);
            sequence.update(place, op, preds.as_slice(), actors);
        }
        self.note(object, PendingKey::Elem(elem), edit, preds, id);
    }

    fn delete_ops_at(&mut self, object: ObjIdx, place: Place, preds: Succ) -> Result<(), Error> {
        let id = self.next_id()?;
        let mut elem = NO_OP;
        if let Some((sequence, actors)) = self.doc.ops.sequence_mut(object) {
            elem = sequence.elem_id(place);
            sequence.delete(place, id, preds.as_slice(), actors);
        }
        let edit = Edit::new(Action::Delete, false, Scalar::Null);
        self.note(object, PendingKey::Elem(elem), edit, preds, id);
        Ok(())
    }

    /// The element covering `index`, and its visible ops.
    fn element_at(&self, object: ObjIdx, index: usize) -> Result<(Place, Succ), Error> {
        self.sequence_of(object)
            .and_then(|sequence| {
                let (place, _) = sequence.find(index as u64)?;
                Some((place, ids(sequence.visible_at(place))))
            })
            .ok_or_else(|| self.beyond(object, index))
    }

    fn insert_point(&mut self, object: ObjIdx, index: usize) -> Result<InsertPoint, Error> {
        let sequence = self.doc.ops.sequence_mut(object);
        let point = sequence.and_then(|(sequence, _)| sequence.insert_point(index as u64));
        point.ok_or_else(|| self.beyond(object, index))
    }

    /// The begin of a splice and the most units to delete.
    fn splice_range(
        &self,
        object: ObjIdx,
        index: usize,
        delete: isize,
    ) -> Result<(usize, usize), Error> {
        let length = self.length_of(object);
        let start = if delete < 0 {
            index.checked_add_signed(delete).ok_or_else(|| self.beyond(object, index))?
        } else {
            index
        };
        Ok((start, delete.unsigned_abs().min(length)))
    }

    fn sequence_target(&self, obj: &ObjId) -> Result<ObjIdx, Error> {
        let object = self.doc.resolve(obj)?;
        match self.doc.ops.data(object) {
            Data::Sequence(_) => Ok(object),
            Data::Map(_) => Err(wrong_prop(obj, self.doc.ops.object(object).kind)),
        }
    }

    fn sequence_of(&self, object: ObjIdx) -> Option<&Sequence> {
        match self.doc.ops.data(object) {
            Data::Sequence(sequence) => Some(sequence),
            Data::Map(_) => None,
        }
    }

    fn locate(&self, object: ObjIdx, id: OpId) -> Option<Place> {
        self.sequence_of(object)?.locate(id)
    }

    fn length_of(&self, object: ObjIdx) -> usize {
        self.sequence_of(object).map_or(0, |sequence| to_usize(sequence.length()))
    }

    fn beyond(&self, object: ObjIdx, index: usize) -> Error {
        Error::Index { index, length: self.length_of(object) }
    }
}

fn insert_key(reference: OpId) -> PendingKey {
    if reference == NO_OP { PendingKey::Head } else { PendingKey::Elem(reference) }
}

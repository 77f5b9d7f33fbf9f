//! The edits of transactions and of documents with an implicit one.

use serde_json::Value as Json;
use shoal_history::ChangeHash;

use crate::error::Error;
use crate::hydrate;
use crate::id::ObjId;
use crate::read_doc::ReadDoc;
use crate::transaction::{ExpandMark, Transaction};
use crate::update_spans::{NewSpan, UpdateSpansConfig};
use crate::value::{IntoScalar, ObjType, Prop};

/// Editing a document: through a [`Transaction`], or an [`AutoCommit`](crate::AutoCommit), opening
/// one on demand. Each method has the effect, the cost and the errors of the method of
/// [`Transaction`] with the same name.
pub trait Transactable: ReadDoc {
    /// Lets `edit` make edits.
    #[doc(hidden)]
    fn edit<R>(&mut self, edit: impl FnOnce(&mut Transaction<'_>) -> R) -> R;

    /// [`Transaction::put`].
    ///
    /// # Errors
    /// As there.
    fn put<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: impl IntoScalar,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.put(obj, prop, value))
    }

    /// [`Transaction::put_object`].
    ///
    /// # Errors
    /// As there.
    fn put_object<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        kind: ObjType,
    ) -> Result<ObjId, Error> {
        self.edit(|tx| tx.put_object(obj, prop, kind))
    }

    /// [`Transaction::delete`].
    ///
    /// # Errors
    /// As there.
    fn delete<'p>(&mut self, obj: &ObjId, prop: impl Into<Prop<'p>>) -> Result<(), Error> {
        self.edit(|tx| tx.delete(obj, prop))
    }

    /// [`Transaction::increment`].
    ///
    /// # Errors
    /// As there.
    fn increment<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        by: i64,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.increment(obj, prop, by))
    }

    /// [`Transaction::insert`].
    ///
    /// # Errors
    /// As there.
    fn insert(&mut self, obj: &ObjId, index: usize, value: impl IntoScalar) -> Result<(), Error> {
        self.edit(|tx| tx.insert(obj, index, value))
    }

    /// [`Transaction::insert_object`].
    ///
    /// # Errors
    /// As there.
    fn insert_object(&mut self, obj: &ObjId, index: usize, kind: ObjType) -> Result<ObjId, Error> {
        self.edit(|tx| tx.insert_object(obj, index, kind))
    }

    /// [`Transaction::splice`].
    ///
    /// # Errors
    /// As there.
    fn splice(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        values: impl IntoIterator<Item = impl IntoScalar>,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.splice(obj, index, delete, values))
    }

    /// [`Transaction::splice_text`].
    ///
    /// # Errors
    /// As there.
    fn splice_text(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        text: &str,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.splice_text(obj, index, delete, text))
    }

    /// [`Transaction::mark`].
    ///
    /// # Errors
    /// As there.
    fn mark(
        &mut self,
        obj: &ObjId,
        start: usize,
        end: usize,
        name: &str,
        value: impl IntoScalar,
        expand: ExpandMark,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.mark(obj, start, end, name, value, expand))
    }

    /// [`Transaction::import_json`].
    ///
    /// # Errors
    /// As there.
    fn import_json(&mut self, json: &Json) -> Result<(), Error> {
        self.edit(|tx| tx.import_json(json))
    }

    /// [`Transaction::put_json`].
    ///
    /// # Errors
    /// As there.
    fn put_json<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        json: &Json,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.put_json(obj, prop, json))
    }

    /// [`Transaction::insert_json`].
    ///
    /// # Errors
    /// As there.
    fn insert_json(&mut self, obj: &ObjId, index: usize, json: &Json) -> Result<(), Error> {
        self.edit(|tx| tx.insert_json(obj, index, json))
    }

    /// [`Transaction::put_value`].
    ///
    /// # Errors
    /// As there.
    fn put_value<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: &hydrate::Value,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.put_value(obj, prop, value))
    }

    /// [`Transaction::insert_value`].
    ///
    /// # Errors
    /// As there.
    fn insert_value(
        &mut self,
        obj: &ObjId,
        index: usize,
        value: &hydrate::Value,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.insert_value(obj, index, value))
    }

    /// [`Transaction::batch_create_object`].
    ///
    /// # Errors
    /// As there.
    fn batch_create_object<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: &hydrate::Value,
        insert: bool,
    ) -> Result<ObjId, Error> {
        self.edit(|tx| tx.batch_create_object(obj, prop, value, insert))
    }

    /// [`Transaction::init_root_from_hydrate`].
    ///
    /// # Errors
    /// As there.
    fn init_root_from_hydrate(&mut self, value: &hydrate::Value) -> Result<(), Error> {
        self.edit(|tx| tx.init_root_from_hydrate(value))
    }

    /// [`Transaction::splice_values`].
    ///
    /// # Errors
    /// As there.
    fn splice_values(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        values: &[hydrate::Value],
    ) -> Result<(), Error> {
        self.edit(|tx| tx.splice_values(obj, index, delete, values))
    }

    /// [`Transaction::update_object`].
    ///
    /// # Errors
    /// As there.
    fn update_object(&mut self, obj: &ObjId, new: &hydrate::Value) -> Result<(), Error> {
        self.edit(|tx| tx.update_object(obj, new))
    }

    /// [`Transaction::update_spans`].
    ///
    /// # Errors
    /// As there.
    fn update_spans(
        &mut self,
        obj: &ObjId,
        spans: &[NewSpan],
        config: &UpdateSpansConfig,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.update_spans(obj, spans, config))
    }

    /// [`Transaction::update_text`].
    ///
    /// # Errors
    /// As there.
    fn update_text(&mut self, obj: &ObjId, new: &str) -> Result<(), Error> {
        self.edit(|tx| tx.update_text(obj, new))
    }

    /// [`Transaction::unmark`].
    ///
    /// # Errors
    /// As there.
    fn unmark(
        &mut self,
        obj: &ObjId,
        start: usize,
        end: usize,
        name: &str,
        expand: ExpandMark,
    ) -> Result<(), Error> {
        self.edit(|tx| tx.unmark(obj, start, end, name, expand))
    }

    /// [`Transaction::split_block`].
    ///
    /// # Errors
    /// As there.
    fn split_block(&mut self, obj: &ObjId, index: usize) -> Result<ObjId, Error> {
        self.edit(|tx| tx.split_block(obj, index))
    }

    /// [`Transaction::join_block`].
    ///
    /// # Errors
    /// As there.
    fn join_block(&mut self, obj: &ObjId, index: usize) -> Result<(), Error> {
        self.edit(|tx| tx.join_block(obj, index))
    }

    /// [`Transaction::replace_block`].
    ///
    /// # Errors
    /// As there.
    fn replace_block(&mut self, obj: &ObjId, index: usize) -> Result<ObjId, Error> {
        self.edit(|tx| tx.replace_block(obj, index))
    }

    /// [`Transaction::pending_ops`].
    fn pending_ops(&self) -> usize;

    /// The heads below the edits.
    fn base_heads(&self) -> Vec<ChangeHash>;
}

impl Transactable for Transaction<'_> {
    fn edit<R>(&mut self, edit: impl FnOnce(&mut Transaction<'_>) -> R) -> R {
        edit(self)
    }

    fn pending_ops(&self) -> usize {
        Transaction::pending_ops(self)
    }

    fn base_heads(&self) -> Vec<ChangeHash> {
        Transaction::base_heads(self)
    }
}

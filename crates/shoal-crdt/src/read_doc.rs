//! The reads of documents, transactions and documents at heads.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::cursor::{Cursor, CursorPosition, MoveCursor};
use crate::doc_iter::DocIter;
use crate::document::Document;
use crate::error::Error;
use crate::hydrate;
use crate::id::{ObjId, ROOT};
use crate::marks::{Mark, MarkSet, Span};
use crate::parents::Parent;
use crate::patch::PatchProp;
use crate::read::{ListItem, MapEntry};
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop, Value};
use crate::view::{DocumentAt, View};

/// Reading a document: the current state of a [`Document`], the state so far of a
/// [`Transaction`] or an [`AutoCommit`](crate::AutoCommit), or the state at the
/// heads given to [`Document::at`].
///
/// On the current state costs are those of the `Document` methods of the same name; at other heads
/// an object is walked whole.
pub trait ReadDoc {
    /// The state to be read.
    #[doc(hidden)]
    fn view(&self) -> View<'_>;

    /// The type of an object.
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn object_type(&self, obj: &ObjId) -> Result<ObjType, Error> {
        self.view().object_type(obj)
    }

    /// The number of entries, of items, or of text units.
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn length(&self, obj: &ObjId) -> Result<usize, Error> {
        self.view().length(obj)
    }

    /// The value at `prop` and the op behind it, for an object the object's id; after concurrent
    /// writes, the one with the greatest op id.
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for the wrong kind of property.
    fn get<'p>(
        &self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
    ) -> Result<Option<(Value<'_>, ObjId)>, Error> {
        self.view().get(obj, prop.into())
    }

    /// Every value at `prop`, ascending by op id: the one of [`ReadDoc::get`] is the last.
    ///
    /// # Errors
    /// As [`ReadDoc::get`].
    fn get_all<'p>(
        &self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
    ) -> Result<Vec<(Value<'_>, ObjId)>, Error> {
        self.view().get_all(obj, prop.into())
    }

    /// The way from an object to the root, empty for the root: the object around it, the object
    /// around that one, and so on. O(n) in the entries of the maps and the items of the lists on
    /// the way.
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn parents(&self, obj: &ObjId) -> Result<Vec<Parent>, Error> {
        self.view().parents(obj)
    }

    /// The way from the root to an object, in the form of patches: each object on the way, and the
    /// property to follow. Cost: as [`ReadDoc::parents`].
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn path_of(&self, obj: &ObjId) -> Result<Vec<(ObjId, PatchProp)>, Error> {
        self.view().path_of(obj)
    }

    /// The entries of a map whose keys are in `range`, in the order of their bytes. Cost: as
    /// [`ReadDoc::entries`].
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for sequences.
    fn map_range<'k>(
        &self,
        obj: &ObjId,
        range: impl RangeBounds<&'k str>,
    ) -> Result<impl Iterator<Item = MapEntry<'_>>, Error> {
        Ok(self.view().entries(obj)?.filter(move |entry| range.contains(&entry.key)))
    }

    /// The items of a list, or the elements of a text, beginning in `range`, each with its index.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    fn list_range(
        &self,
        obj: &ObjId,
        range: impl RangeBounds<usize>,
    ) -> Result<impl Iterator<Item = (usize, ListItem<'_>)>, Error> {
        self.view().list_range(obj, range)
    }

    /// The keys of a map in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for sequences.
    fn keys(&self, obj: &ObjId) -> Result<impl Iterator<Item = &str>, Error> {
        Ok(self.view().entries(obj)?.map(|entry| entry.key))
    }

    /// The entries of a map in the order of their keys' bytes.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for sequences.
    fn entries(&self, obj: &ObjId) -> Result<impl Iterator<Item = MapEntry<'_>>, Error> {
        self.view().entries(obj)
    }

    /// The values in a map or a list, or the elements of a text, in order, each with the op behind
    /// it. Cost: as [`ReadDoc::entries`] and [`ReadDoc::items`].
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn values(&self, obj: &ObjId) -> Result<impl Iterator<Item = (Value<'_>, ObjId)>, Error> {
        self.view().values(obj)
    }

    /// Everything in the document: the items of the root, then the items of objects met, the oldest
    /// of these first. Memory: the ids of objects still to come.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, AutoCommit, DocItem, ReadDoc, Transactable};
    ///
    /// let mut doc = AutoCommit::new(ActorId::new(&[1]));
    /// doc.import_json(&serde_json::json!({"a": 1, "b": [2, {"c": 3}]}))?;
    /// assert_eq!(doc.iter().count(), 5);
    /// let keys: Vec<_> = doc.iter().filter_map(|found| found.item.key()).collect();
    /// assert_eq!(keys, ["a", "b", "c"]);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    fn iter(&self) -> DocIter<'_> {
        self.view().iter_from(&ROOT).expect("every document has a root")
    }

    /// [`ReadDoc::iter`] from one object on.
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    fn iter_from(&self, obj: &ObjId) -> Result<DocIter<'_>, Error> {
        self.view().iter_from(obj)
    }

    /// The items of a list, or the elements of a text, from the one covering `start` on.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    fn items(
        &self,
        obj: &ObjId,
        start: usize,
    ) -> Result<impl Iterator<Item = ListItem<'_>>, Error> {
        self.view().items(obj, start)
    }

    /// The text, with U+FFFC for every element without a string.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps; a list reads as the text of its
    /// strings.
    fn text(&self, obj: &ObjId) -> Result<String, Error> {
        self.view().text(obj)
    }

    /// The index of the list item or text element inserted by the op `elem`, if there.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    fn index_of(&self, obj: &ObjId, elem: &ObjId) -> Result<Option<usize>, Error> {
        self.view().index_of(obj, elem)
    }

    /// A cursor at `position`, moving after when the element is deleted.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps, [`Error::Index`].
    fn get_cursor(
        &self,
        obj: &ObjId,
        position: impl Into<CursorPosition>,
    ) -> Result<Cursor, Error> {
        self.get_cursor_moving(obj, position, MoveCursor::After)
    }

    /// A cursor at `position`, moving by `moves` when the element is deleted.
    ///
    /// # Errors
    /// As [`ReadDoc::get_cursor`].
    fn get_cursor_moving(
        &self,
        obj: &ObjId,
        position: impl Into<CursorPosition>,
        moves: MoveCursor,
    ) -> Result<Cursor, Error> {
        self.view().get_cursor(obj, position.into(), moves)
    }

    /// The present index of a cursor. O(log n) on the current state while the element is
    /// visible; otherwise the sequence may be walked.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps, [`Error::UnknownCursor`].
    fn get_cursor_position(&self, obj: &ObjId, cursor: &Cursor) -> Result<usize, Error> {
        self.view().get_cursor_position(obj, cursor)
    }

    /// Every mark on a text, by name and then by place; equal touching marks are one.
    /// O(n) in the length of the text.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    fn marks(&self, obj: &ObjId) -> Result<Vec<Mark>, Error> {
        self.view().marks(obj)
    }

    /// The marks covering the character at `index`; none beyond the end. O(n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    fn get_marks(&self, obj: &ObjId, index: usize) -> Result<Arc<MarkSet>, Error> {
        self.view().get_marks(obj, index)
    }

    /// A text as stretches under the same marks, and the block markers between them. O(n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for all but texts.
    fn spans(&self, obj: &ObjId) -> Result<Vec<Span>, Error> {
        self.view().spans(obj)
    }

    /// An object with everything in it. O(n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::TooDeep`] beyond
    /// [`DEFAULT_MAX_DEPTH`](crate::DEFAULT_MAX_DEPTH).
    fn hydrate(&self, obj: &ObjId) -> Result<hydrate::Value, Error> {
        self.view().hydrate(obj)
    }
}

impl ReadDoc for Document {
    fn view(&self) -> View<'_> {
        self.as_view()
    }
}

impl ReadDoc for DocumentAt<'_> {
    fn view(&self) -> View<'_> {
        self.as_view()
    }
}

impl ReadDoc for Transaction<'_> {
    fn view(&self) -> View<'_> {
        self.as_view()
    }
}

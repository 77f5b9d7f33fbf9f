//! Marks for readers, spans, and the blocks of a text.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_history::{OpId, Scalar};

use crate::actors::Actors;
use crate::error::Error;
use crate::id::ObjId;
use crate::read::wrong_type;
use crate::transaction::{ExpandMark, Transaction};
use crate::value::{ObjType, Value};
use crate::view::{View, scoped::Seen, scoped::walk};

/// A stretch of a text with a name and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The index of the begin.
    pub start: usize,
    /// The index after its last character.
    pub end: usize,
    /// Its name.
    pub name: Arc<str>,
    /// Its value.
    pub value: Scalar,
}

/// The marks covering a place: value by name.
pub type MarkSet = BTreeMap<Arc<str>, Scalar>;

/// A part of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Span {
    /// Characters under the same marks.
    Text {
        /// The characters.
        text: String,
        /// The marks.
        marks: Arc<MarkSet>,
    },
    /// A block marker: a map in the text.
    Block {
        /// The map.
        id: ObjId,
    },
}

/// The open marks at a place of a walk.
#[derive(Debug, Default)]
pub(crate) struct OpenMarks {
    /// Ascending by op id.
    open: Vec<(OpId, Arc<str>, Scalar)>,
    /// Their sum, unmarks included; `None` after a change.
    current: Option<Arc<MarkSet>>,
}

impl OpenMarks {
    /// Opens or closes the mark at `elem`, if any.
    pub(crate) fn pass(&mut self, elem: &Seen<'_, '_>, actors: &Actors) {
        let Some(mark) = elem.mark() else { return };
        match mark.mark_name {
            Some(name) => {
                let at = self.open.partition_point(|(id, ..)| actors.compare(*id, elem.id).is_lt());
                self.open.insert(at, (elem.id, name.into(), mark.value.to_scalar()));
            }
            None => {
                let begin = OpId { counter: elem.id.counter - 1, actor: elem.id.actor };
                self.open.retain(|(id, ..)| *id != begin);
            }
        }
        self.current = None;
    }

    /// The marks covering this place: of each name the one with the greatest id, unless the value
    /// is null.
    pub(crate) fn current(&mut self) -> Arc<MarkSet> {
        let open = &self.open;
        let current = self.current.get_or_insert_with(|| {
            let mut marks = MarkSet::new();
            for (_, name, value) in open {
                marks.insert(Arc::clone(name), value.clone());
            }
            marks.retain(|_, value| *value != Scalar::Null);
            Arc::new(marks)
        });
        Arc::clone(current)
    }
}

impl<'a> View<'a> {
    pub(crate) fn marks(self, obj: &ObjId) -> Result<Vec<Mark>, Error> {
        let mut by_name: BTreeMap<Arc<str>, Vec<Mark>> = BTreeMap::new();
        self.for_each_marked(obj, |elem, marks| {
            let (start, end) = (elem.index, elem.index + elem.width);
            for (name, value) in marks.iter().filter(|_| start < end) {
                let of_name = by_name.entry(Arc::clone(name)).or_default();
                match of_name.last_mut() {
                    Some(last) if last.end == start && last.value == *value => last.end = end,
                    _ => of_name.push(Mark {
                        start,
                        end,
                        name: Arc::clone(name),
                        value: value.clone(),
                    }),
                }
            }
        })?;
        Ok(by_name.into_values().flatten().collect())
    }

    pub(crate) fn get_marks(self, obj: &ObjId, index: usize) -> Result<Arc<MarkSet>, Error> {
        let mut found = Arc::default();
        self.for_each_marked(obj, |elem, marks| {
            if elem.index <= index && index < elem.index + elem.width {
                found = Arc::clone(marks);
            }
        })?;
        Ok(found)
    }

    pub(crate) fn spans(self, obj: &ObjId) -> Result<Vec<Span>, Error> {
        let kind = self.object_type(obj)?;
        if kind != ObjType::Text {
            return Err(wrong_type(obj, kind, "read its spans"));
        }
        let mut spans = Vec::new();
        self.for_each_marked(obj, |elem, marks| {
            let Some(winner) = elem.winner() else { return };
            if let Value::Object(ObjType::Map) = self.doc.value(winner) {
                spans.push(Span::Block { id: self.doc.export(winner.id) });
                return;
            }
            match spans.last_mut() {
                _ if elem.text().is_empty() => {}
                Some(Span::Text { text, marks: last }) if *last == *marks => {
                    text.push_str(elem.text());
                }
                _ => spans
                    .push(Span::Text { text: elem.text().to_owned(), marks: Arc::clone(marks) }),
            }
        })?;
        Ok(spans)
    }

    /// Visits the visible part of a sequence together with the marks covering each piece.
    pub(crate) fn for_each_marked(
        self,
        obj: &ObjId,
        mut visit: impl FnMut(&Seen<'_, 'a>, &Arc<MarkSet>),
    ) -> Result<(), Error> {
        let sequence = self.sequence(obj, "read its marks")?;
        let actors = &self.doc.ops.actors;
        let mut open = OpenMarks::default();
        walk(sequence, self.clock, actors, |elem| {
            open.pass(elem, actors);
            if elem.is_visible() {
                visit(elem, &open.current());
            }
        });
        Ok(())
    }
}

impl Transaction<'_> {
    /// Removes the mark `name` from the text between `start` and `end`; `expand` says where that
    /// holds for later inserts.
    ///
    /// # Errors
    /// As [`Transaction::mark`].
    pub fn unmark(
        &mut self,
        obj: &ObjId,
        start: usize,
        end: usize,
        name: &str,
        expand: ExpandMark,
    ) -> Result<(), Error> {
        self.mark(obj, start, end, name, (), expand)
    }

    /// Inserts a block marker into a text: a map about the text behind it, say a heading or a
    /// paragraph. The marker takes the place of one character, U+FFFC.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for all but texts, [`Error::Index`].
    pub fn split_block(&mut self, obj: &ObjId, index: usize) -> Result<ObjId, Error> {
        self.text_only(obj, "split a block")?;
        self.insert_object(obj, index, ObjType::Map)
    }

    /// Deletes the block marker at `index`.
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for all but texts; [`Error::Index`];
    /// [`Error::NotABlock`] where something else stands.
    pub fn join_block(&mut self, obj: &ObjId, index: usize) -> Result<(), Error> {
        self.text_only(obj, "join a block")?;
        let view = self.as_view();
        match view.get(obj, index.into())? {
            Some((Value::Object(ObjType::Map), block)) => {
                // A block is several units long in UTF-8, and deleting begins with the first.
                let start = view.index_of(obj, &block)?.unwrap_or(index);
                self.delete(obj, start)
            }
            Some(_) => Err(Error::NotABlock { obj: obj.clone(), index }),
            None => Err(Error::Index { index, length: view.length(obj)? }),
        }
    }

    /// Puts a new block marker in the place of the one at `index`.
    ///
    /// # Errors
    /// As [`Transaction::join_block`].
    pub fn replace_block(&mut self, obj: &ObjId, index: usize) -> Result<ObjId, Error> {
        self.join_block(obj, index)?;
        self.split_block(obj, index)
    }

    pub(crate) fn text_only(&self, obj: &ObjId, operation: &'static str) -> Result<(), Error> {
        match self.as_view().object_type(obj)? {
            ObjType::Text => Ok(()),
            kind => Err(wrong_type(obj, kind, operation)),
        }
    }
}

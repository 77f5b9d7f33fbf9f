//! Reads of a document as it is, or as it was when it had other heads.
//!
//! A [`View`] is what every read goes through that is not on [`Document`] itself: it says which
//! ops count. [`scoped`] is the only part that knows how objects keep their ops.

use std::ops::{Bound, RangeBounds};

use shoal_history::{ChangeHash, Clock};

use crate::document::Document;
use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
use crate::read::{ListItem, MapEntry, to_usize, wrong_prop, wrong_type};
use crate::read_doc::ReadDoc;
use crate::register::OpRef;
use crate::sequence::Sequence;
use crate::value::{ObjType, Prop, Value};

pub(crate) mod scoped;

/// A document together with the ops of it that count. Made by this crate only.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) doc: &'a Document,
    /// `None` when every op counts.
    pub(crate) clock: Option<&'a Clock>,
}

/// A document as it was when it had given heads: what [`Document::at`] returns. Everything that
/// [`ReadDoc`] has can be read. Costs of reads are those of walking the whole object, whatever
/// they are at present.
#[derive(Clone, Debug)]
pub struct DocumentAt<'a> {
    doc: &'a Document,
    clock: Option<Clock>,
}

impl Document {
    /// The document as it was when its heads were `heads`. Hashes that are not here are ignored.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, ReadDoc};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut tx = doc.transaction();
    /// tx.put(&ROOT, "n", 1_i64)?;
    /// tx.commit(CommitOptions::default());
    /// let before = doc.heads();
    /// let mut tx = doc.transaction();
    /// tx.delete(&ROOT, "n")?;
    /// tx.commit(CommitOptions::default());
    /// assert_eq!(doc.length(&ROOT)?, 0);
    /// assert_eq!(doc.at(&before).length(&ROOT)?, 1);
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    pub fn at(&self, heads: &[ChangeHash]) -> DocumentAt<'_> {
        let clock = (!self.graph.has_heads(heads)).then(|| self.graph.clock(heads));
        DocumentAt { doc: self, clock }
    }
}

impl ReadDoc for DocumentAt<'_> {
    fn view(&self) -> View<'_> {
        View { doc: self.doc, clock: self.clock.as_ref() }
    }
}

impl ReadDoc for Document {
    fn view(&self) -> View<'_> {
        View { doc: self, clock: None }
    }
}

/// A walk that may be over what is there, or over what was collected.
pub(crate) type Walk<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

impl<'a> View<'a> {
    pub(crate) fn object_type(self, obj: &ObjId) -> Result<ObjType, Error> {
        let object = self.doc.ops.object(self.doc.resolve(obj)?);
        if obj.is_root() || self.covers(object.id) {
            Ok(object.kind)
        } else {
            Err(Error::UnknownObject(obj.clone()))
        }
    }

    pub(crate) fn length(self, obj: &ObjId) -> Result<usize, Error> {
        let Some(clock) = self.clock else { return self.doc.length(obj) };
        self.object_type(obj)?;
        let actors = &self.doc.ops.actors;
        Ok(match self.data(obj)? {
            Data::Map(map) => {
                let visible = |register| !scoped::visible(register, clock, actors).is_empty();
                scoped::entries(self.doc, map).filter(|(_, register)| visible(register)).count()
            }
            Data::Sequence(_) => {
                let mut length = 0;
                self.for_each_visible(obj, |elem| length += elem.width)?;
                length
            }
        })
    }

    pub(crate) fn get(
        self,
        obj: &ObjId,
        prop: Prop<'_>,
    ) -> Result<Option<(Value<'a>, ObjId)>, Error> {
        match self.clock {
            None => self.doc.get(obj, prop),
            Some(_) => Ok(self.get_all(obj, prop)?.pop()),
        }
    }

    pub(crate) fn get_all(
        self,
        obj: &ObjId,
        prop: Prop<'_>,
    ) -> Result<Vec<(Value<'a>, ObjId)>, Error> {
        let Some(clock) = self.clock else { return self.doc.get_all(obj, prop) };
        let kind = self.object_type(obj)?;
        let read = |op: &OpRef<'a>| (self.doc.value(op), self.doc.export(op.id));
        match (self.data(obj)?, prop) {
            (Data::Map(map), Prop::Key(key)) => {
                let Some(register) = scoped::register(self.doc, map, key) else {
                    return Ok(Vec::new());
                };
                let visible = scoped::visible(register, clock, &self.doc.ops.actors);
                Ok(visible.iter().map(read).collect())
            }
            (Data::Sequence(_), Prop::Index(index)) => {
                let mut found = Vec::new();
                self.for_each_visible(obj, |elem| {
                    if elem.index <= index && index < elem.index + elem.width {
                        found = elem.ops.iter().map(read).collect();
                    }
                })?;
                Ok(found)
            }
            _ => Err(wrong_prop(obj, kind)),
        }
    }

    pub(crate) fn entries(self, obj: &ObjId) -> Result<Walk<'a, MapEntry<'a>>, Error> {
        let Some(clock) = self.clock else { return Ok(Box::new(self.doc.entries(obj)?)) };
        let kind = self.object_type(obj)?;
        let Data::Map(map) = self.data(obj)? else {
            return Err(wrong_type(obj, kind, "walk its entries"));
        };
        let entries = scoped::entries(self.doc, map).filter_map(move |(key, register)| {
            let mut visible = scoped::visible(register, clock, &self.doc.ops.actors);
            let winner = visible.pop()?;
            Some(MapEntry {
                key,
                value: self.doc.value(&winner),
                id: self.doc.export(winner.id),
                conflict: !visible.is_empty(),
            })
        });
        Ok(Box::new(entries))
    }

    pub(crate) fn items(self, obj: &ObjId, start: usize) -> Result<Walk<'a, ListItem<'a>>, Error> {
        if self.clock.is_none() {
            return Ok(Box::new(self.doc.items(obj, start)?));
        }
        let mut items = Vec::new();
        self.for_each_visible(obj, |elem| {
            if elem.index + elem.width <= start {
                return;
            }
            let Some(winner) = elem.ops.last() else { return };
            items.push(ListItem {
                value: self.doc.value(winner),
                id: self.doc.export(winner.id),
                elem: self.doc.export(elem.id),
                conflict: elem.ops.len() > 1,
            });
        })?;
        Ok(Box::new(items.into_iter()))
    }

    pub(crate) fn list_range(
        self,
        obj: &ObjId,
        range: impl RangeBounds<usize>,
    ) -> Result<impl Iterator<Item = (usize, ListItem<'a>)>, Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let unit = self.sequence(obj, "walk its items")?.unit();
        // The first item covers the start, and may begin before it.
        let mut index = self.item_start(obj, start)?;
        let items = self.items(obj, start)?.map(move |item| {
            let at = index;
            index += scoped::value_width(&item.value, unit);
            (at, item)
        });
        let items = items.skip_while(move |(at, _)| *at < start);
        Ok(items.take_while(move |(at, _)| range.contains(at)))
    }

    /// The index at which the element that covers `index` begins.
    fn item_start(self, obj: &ObjId, index: usize) -> Result<usize, Error> {
        let sequence = self.sequence(obj, "walk its items")?;
        if self.clock.is_none() {
            return Ok(sequence.find(index as u64).map_or(index, |(_, start)| to_usize(start)));
        }
        let mut start = index;
        self.for_each_visible(obj, |elem| {
            if elem.index <= index && index < elem.index + elem.width {
                start = elem.index;
            }
        })?;
        Ok(start)
    }

    pub(crate) fn text(self, obj: &ObjId) -> Result<String, Error> {
        if self.clock.is_none() {
            return self.doc.text(obj);
        }
        let mut text = String::new();
        self.for_each_visible(obj, |elem| text.push_str(elem.text()))?;
        Ok(text)
    }

    pub(crate) fn index_of(self, obj: &ObjId, elem: &ObjId) -> Result<Option<usize>, Error> {
        if self.clock.is_none() {
            return self.doc.index_of(obj, elem);
        }
        let id = self.doc.import(elem);
        let mut found = None;
        self.for_each_visible(obj, |elem| {
            if Some(elem.id) == id {
                found = Some(elem.index);
            }
        })?;
        Ok(found)
    }

    pub(crate) fn covers(self, id: shoal_history::OpId) -> bool {
        self.clock.is_none_or(|clock| clock.covers(id))
    }

    pub(crate) fn data(self, obj: &ObjId) -> Result<&'a Data, Error> {
        Ok(&self.doc.ops.object(self.doc.resolve(obj)?).data)
    }

    /// The sequence `obj`, if the view has it.
    pub(crate) fn sequence(
        self,
        obj: &ObjId,
        operation: &'static str,
    ) -> Result<&'a Sequence, Error> {
        let kind = self.object_type(obj)?;
        match self.data(obj)? {
            Data::Sequence(sequence) => Ok(sequence),
            Data::Map(_) => Err(wrong_type(obj, kind, operation)),
        }
    }

    /// Visits what readers see of a sequence, in order, marks left out.
    pub(crate) fn for_each_visible(
        self,
        obj: &ObjId,
        mut visit: impl FnMut(&scoped::Seen<'_, 'a>),
    ) -> Result<(), Error> {
        let sequence = self.sequence(obj, "walk its items")?;
        scoped::walk(sequence, self.clock, &self.doc.ops.actors, |elem| {
            if elem.is_visible() {
                visit(elem);
            }
        });
        Ok(())
    }
}

//! Reads of a document at present, or at other heads.
//!
//! Every read not on [`Document`] itself goes through a [`View`], and counts the ops of the view.
//! [`scoped`] is the only part with knowledge of how objects keep their ops.

use std::ops::{Bound, RangeBounds};
use std::sync::OnceLock;

use shoal_history::{Action, ChangeHash, Clock};

use crate::document::Document;
use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
use crate::read::{ListItem, MapEntry, to_usize, wrong_prop, wrong_type};
use crate::register::{ObjIdx, OpRef};
use crate::sequence::{Kind, Place, Sequence};
use crate::value::{ObjType, Prop, Value};

mod recent;
pub(crate) mod scoped;
#[cfg(test)]
mod tests;

use recent::{Recent, Shifts, Since};
use scoped::Part;

/// A document together with the counted ops. Made by this crate only.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) doc: &'a Document,
    /// `None` when every op counts.
    pub(crate) clock: Option<&'a Clock>,
    /// Further knowledge of a past state.
    past: Option<&'a Past>,
}

/// A document at given heads, by [`Document::at`]. Every read of [`ReadDoc`](crate::ReadDoc) is
/// possible.
///
/// If few ops came since, an object without such ops is read as at present, and in others an index
/// is found in O(log n); the first read looks at those ops. Else a read walks its object: a list or
/// text run by run, where elements were typed or deleted together.
#[derive(Clone, Debug)]
pub struct DocumentAt<'a> {
    doc: &'a Document,
    past: Option<Past>,
}

/// A past state.
#[derive(Clone, Debug)]
struct Past {
    clock: Clock,
    heads: Vec<ChangeHash>,
    /// The difference from the present, computed on demand, unless large.
    recent: OnceLock<Option<Recent>>,
}

impl Document {
    /// The document as of `heads`. Unknown hashes are ignored.
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
        let past = (!self.graph.has_heads(heads)).then(|| Past {
            clock: self.graph.clock(heads),
            heads: heads.to_vec(),
            recent: OnceLock::new(),
        });
        DocumentAt { doc: self, past }
    }
}

impl DocumentAt<'_> {
    pub(crate) fn as_view(&self) -> View<'_> {
        let past = self.past.as_ref();
        View { doc: self.doc, clock: past.map(|past| &past.clock), past }
    }
}

impl Document {
    pub(crate) fn as_view(&self) -> View<'_> {
        View { doc: self, clock: None, past: None }
    }
}

/// A walk over stored or collected items.
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

    /// The difference from the present state, computed on first use; `None` for a large one.
    fn recent(self) -> Option<&'a Recent> {
        let past = self.past?;
        past.recent.get_or_init(|| Recent::of(self.doc, &past.heads, &past.clock)).as_ref()
    }

    /// The difference of the indexes of a sequence from the present ones, if known.
    pub(crate) fn shifts(self, object: ObjIdx) -> Option<&'a Shifts> {
        self.recent()?.shifts(object)
    }

    /// The present state, if the object is the same there.
    fn same_as_now(self, obj: &ObjId) -> Result<Option<Self>, Error> {
        let Some(recent) = self.recent() else { return Ok(None) };
        Ok(match recent.since_in(self.doc.resolve(obj)?) {
            Since::Nothing => Some(self.doc.as_view()),
            Since::At(_) | Since::Somewhere => None,
        })
    }

    pub(crate) fn length(self, obj: &ObjId) -> Result<usize, Error> {
        let Some(clock) = self.clock else { return self.doc.length(obj) };
        self.object_type(obj)?;
        let actors = &self.doc.ops.actors;
        let object = self.doc.resolve(obj)?;
        let recent = self.recent();
        Ok(match self.data(obj)? {
            Data::Map(map) => {
                let visible = |register| !scoped::visible(register, clock, actors).is_empty();
                match recent.map(|recent| recent.since_in(object)) {
                    Some(Since::Nothing) => map.visible,
                    Some(Since::At(places)) => {
                        let registers = || places.names().filter_map(|name| map.get(name));
                        let now = registers().filter(|register| register.winner().is_some());
                        let then = registers().filter(|register| visible(register));
                        map.visible - now.count() + then.count()
                    }
                    Some(Since::Somewhere) | None => scoped::entries(self.doc, map)
                        .filter(|(_, register)| visible(register))
                        .count(),
                }
            }
            Data::Sequence(sequence) => match self.shifts(object) {
                Some(shifts) => shifts.length(sequence),
                None => {
                    let mut length = 0;
                    scoped::walk_parts(sequence, clock, actors, |part| {
                        length += match part {
                            Part::Stretch(stretch) => stretch.width,
                            Part::Elem(elem) => elem.width,
                        };
                        true
                    });
                    length
                }
            },
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
            (Data::Sequence(sequence), Prop::Index(index)) => {
                let actors = &self.doc.ops.actors;
                if let Some(shifts) = self.shifts(self.doc.resolve(obj)?) {
                    let Some((place, _)) = shifts.find(sequence, index) else {
                        return Ok(Vec::new());
                    };
                    let visible = scoped::visible_at(sequence, place, clock, actors);
                    return Ok(visible.iter().map(read).collect());
                }
                let mut found = Vec::new();
                scoped::walk_visible(sequence, clock, actors, index, |elem| {
                    // The first element ending behind the index covers the index.
                    found = elem.ops.iter().map(read).collect();
                    false
                });
                Ok(found)
            }
            _ => Err(wrong_prop(obj, kind)),
        }
    }

    pub(crate) fn entries(self, obj: &ObjId) -> Result<Walk<'a, MapEntry<'a>>, Error> {
        let Some(clock) = self.clock else { return Ok(Box::new(self.doc.entries(obj)?)) };
        let kind = self.object_type(obj)?;
        if let Some(now) = self.same_as_now(obj)? {
            return now.entries(obj);
        }
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

    pub(crate) fn values(self, obj: &ObjId) -> Result<Walk<'a, (Value<'a>, ObjId)>, Error> {
        if self.object_type(obj)?.is_sequence() {
            Ok(Box::new(self.items(obj, 0)?.map(|item| (item.value, item.id))))
        } else {
            Ok(Box::new(self.entries(obj)?.map(|entry| (entry.value, entry.id))))
        }
    }

    pub(crate) fn items(self, obj: &ObjId, start: usize) -> Result<Walk<'a, ListItem<'a>>, Error> {
        let Some(clock) = self.clock else { return Ok(Box::new(self.doc.items(obj, start)?)) };
        let sequence = self.sequence(obj, "walk its items")?;
        if let Some(now) = self.same_as_now(obj)? {
            return now.items(obj, start);
        }
        let mut items = Vec::new();
        scoped::walk_visible(sequence, clock, &self.doc.ops.actors, start, |elem| {
            if let Some(winner) = elem.ops.last() {
                items.push(ListItem {
                    value: self.doc.value(winner),
                    id: self.doc.export(winner.id),
                    elem: self.doc.export(elem.id),
                    conflict: elem.ops.len() > 1,
                });
            }
            true
        });
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
        // The first item covers the start, and may begin before.
        let mut index = self.item_start(obj, start)?;
        let items = self.items(obj, start)?.map(move |item| {
            let at = index;
            index += scoped::value_width(&item.value, unit);
            (at, item)
        });
        let items = items.skip_while(move |(at, _)| *at < start);
        Ok(items.take_while(move |(at, _)| range.contains(at)))
    }

    /// The index of the begin of the element covering `index`.
    fn item_start(self, obj: &ObjId, index: usize) -> Result<usize, Error> {
        let sequence = self.sequence(obj, "walk its items")?;
        let Some(clock) = self.clock else {
            return Ok(sequence.find(index as u64).map_or(index, |(_, start)| to_usize(start)));
        };
        if let Some(shifts) = self.shifts(self.doc.resolve(obj)?) {
            return Ok(shifts.find(sequence, index).map_or(index, |(_, start)| start));
        }
        let mut start = index;
        scoped::walk_visible(sequence, clock, &self.doc.ops.actors, index, |elem| {
            start = elem.index;
            false
        });
        Ok(start)
    }

    pub(crate) fn text(self, obj: &ObjId) -> Result<String, Error> {
        let Some(clock) = self.clock else { return self.doc.text(obj) };
        let sequence = self.sequence(obj, "read its text")?;
        if let Some(now) = self.same_as_now(obj)? {
            return now.text(obj);
        }
        let mut text = String::new();
        scoped::walk_parts(sequence, clock, &self.doc.ops.actors, |part| {
            match part {
                Part::Elem(elem) => text.push_str(elem.text()),
                Part::Stretch(stretch) if stretch.run.run.kind == Kind::Chars => {
                    text.push_str(stretch.text);
                }
                Part::Stretch(stretch) => {
                    for at in stretch.elems.clone() {
                        let op = stretch.run.elem(at).op(sequence.sides());
                        text.push_str(scoped::op_text(&op));
                    }
                }
            }
            true
        });
        Ok(text)
    }

    pub(crate) fn index_of(self, obj: &ObjId, elem: &ObjId) -> Result<Option<usize>, Error> {
        let Some(clock) = self.clock else { return self.doc.index_of(obj, elem) };
        let sequence = self.sequence(obj, "find an element")?;
        let Some(id) = self.doc.import(elem) else { return Ok(None) };
        let actors = &self.doc.ops.actors;
        let Some(place) = sequence.locate(id) else { return Ok(None) };
        if !self.is_visible(sequence, place) {
            return Ok(None);
        }
        let mut found = self.index_in(self.doc.resolve(obj)?, sequence, place);
        if found.is_some() {
            return Ok(found);
        }
        scoped::walk_parts(sequence, clock, actors, |part| {
            match part {
                Part::Elem(elem) if elem.id == id => found = Some(elem.index),
                Part::Stretch(stretch) => {
                    let at = stretch.position(id);
                    found = at.map(|at| stretch.index + stretch.width_before(sequence.unit(), at));
                }
                Part::Elem(_) => {}
            }
            found.is_none()
        });
        Ok(found)
    }

    /// True if readers see a value of the element at `place`.
    pub(crate) fn is_visible(self, sequence: &Sequence, place: Place) -> bool {
        let Some(clock) = self.clock else { return sequence.is_visible(place) };
        let visible = scoped::visible_at(sequence, place, clock, &self.doc.ops.actors);
        visible.last().is_some_and(|op| !is_mark(op))
    }

    /// The index of the begin of the element at `place`, visible or not; `None` if only a walk can
    /// find it.
    pub(crate) fn index_in(
        self,
        object: ObjIdx,
        sequence: &Sequence,
        place: Place,
    ) -> Option<usize> {
        match self.clock {
            None => Some(to_usize(sequence.index_of(place))),
            Some(_) => Some(self.shifts(object)?.index_of(sequence, place)),
        }
    }

    pub(crate) fn covers(self, id: shoal_history::OpId) -> bool {
        self.clock.is_none_or(|clock| clock.covers(id))
    }

    pub(crate) fn data(self, obj: &ObjId) -> Result<&'a Data, Error> {
        Ok(self.doc.ops.data(self.doc.resolve(obj)?))
    }

    /// The sequence `obj`, if in the view.
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
}

fn is_mark(op: &OpRef<'_>) -> bool {
    op.action == Action::Mark
}

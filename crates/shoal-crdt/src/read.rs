//! Reads of the current state.

use shoal_history::OpId;

use crate::document::Document;
use crate::error::Error;
use crate::id::{ObjId, ROOT};
use crate::map::MapObject;
use crate::opset::{Data, Object};
use crate::register::{ObjIdx, OpRef};
use crate::sequence::{NO_OP, Sequence};
use crate::value::{ObjType, Prop, Value};

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct MapEntry<'a> {
    /// Its key.
    pub key: &'a str,
    /// The winning value.
    pub value: Value<'a>,
    /// The op behind the value; for an object, the object's id.
    pub id: ObjId,
    /// True after concurrent writes with other values; [`Document::get_all`] gives them.
    pub conflict: bool,
}

/// An item of a list or an element of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct ListItem<'a> {
    /// The winning value.
    pub value: Value<'a>,
    /// The op behind the value; for an object, the object's id.
    pub id: ObjId,
    /// The op behind the element: stays the same when the item is overwritten.
    pub elem: ObjId,
    /// True after concurrent writes with other values; [`Document::get_all`] gives them.
    pub conflict: bool,
}

impl Document {
    /// The type of an object. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    pub fn object_type(&self, obj: &ObjId) -> Result<ObjType, Error> {
        Ok(self.object(obj)?.kind)
    }

    /// The number of entries, of items, or of text units. O(1).
    ///
    /// # Errors
    /// [`Error::UnknownObject`].
    pub fn length(&self, obj: &ObjId) -> Result<usize, Error> {
        Ok(match self.data(obj)? {
            Data::Map(map) => map.visible,
            Data::Sequence(sequence) => to_usize(sequence.length()),
        })
    }

    /// The value at `prop` and the op behind it, for an object the object's id; `None` without a
    /// value. After concurrent writes, the one with the greatest op id. An index within a text
    /// element of several units gives the element. O(log n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for an index in a map or a key in a
    /// sequence.
    pub fn get<'p>(
        &self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
    ) -> Result<Option<(Value<'_>, ObjId)>, Error> {
        let object = self.object(obj)?;
        let winner = match (self.ops.data_of(object), prop.into()) {
            (Data::Map(map), Prop::Key(key)) => {
                let name = self.ops.names.lookup(key);
                name.and_then(|name| map.get(name)).and_then(|register| register.winner())
            }
            (Data::Sequence(sequence), Prop::Index(index)) => sequence
                .find(index as u64)
                .and_then(|(place, _)| sequence.visible_at(place).next_back()),
            _ => return Err(wrong_prop(obj, object.kind)),
        };
        Ok(winner.map(|op| (self.value(&op), self.export(op.id))))
    }

    /// Every value at `prop`, ascending by op id, the one of [`Document::get`] last; more than one
    /// after concurrent writes.
    ///
    /// # Errors
    /// As [`Document::get`].
    pub fn get_all<'p>(
        &self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
    ) -> Result<Vec<(Value<'_>, ObjId)>, Error> {
        let object = self.object(obj)?;
        let value = |op: OpRef<'_>| self.export(op.id);
        Ok(match (self.ops.data_of(object), prop.into()) {
            (Data::Map(map), Prop::Key(key)) => {
                let name = self.ops.names.lookup(key);
                match name.and_then(|name| map.get(name)) {
                    Some(register) => {
                        register.visible().map(|op| (self.value(&op), value(op))).collect()
                    }
                    None => Vec::new(),
                }
            }
            (Data::Sequence(sequence), Prop::Index(index)) => match sequence.find(index as u64) {
                Some((place, _)) => {
                    sequence.visible_at(place).map(|op| (self.value(&op), value(op))).collect()
                }
                None => Vec::new(),
            },
            _ => return Err(wrong_prop(obj, object.kind)),
        })
    }

    /// True for several values at `prop` after concurrent writes. O(log n).
    ///
    /// # Errors
    /// As [`Document::get`].
    pub fn has_conflict<'p>(&self, obj: &ObjId, prop: impl Into<Prop<'p>>) -> Result<bool, Error> {
        let object = self.object(obj)?;
        Ok(match (self.ops.data_of(object), prop.into()) {
            (Data::Map(map), Prop::Key(key)) => {
                let register = self.ops.names.lookup(key).and_then(|name| map.get(name));
                register.is_some_and(|register| register.visible().nth(1).is_some())
            }
            (Data::Sequence(sequence), Prop::Index(index)) => sequence
                .find(index as u64)
                .is_some_and(|(place, _)| sequence.visible_at(place).nth(1).is_some()),
            _ => return Err(wrong_prop(obj, object.kind)),
        })
    }

    /// The keys of a map in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for sequences.
    pub fn keys<'a>(
        &'a self,
        obj: &ObjId,
    ) -> Result<impl Iterator<Item = &'a str> + use<'a>, Error> {
        let sorted = self.map(obj, "walk its entries")?.sorted(&self.ops.names);
        Ok(sorted.filter(|(_, register)| register.is_visible()).map(|(key, _)| key))
    }

    /// The entries of a map in the order of their keys' bytes. O(n) for all, and n log n the first
    /// time after there were other keys.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for sequences.
    pub fn entries<'a>(
        &'a self,
        obj: &ObjId,
    ) -> Result<impl Iterator<Item = MapEntry<'a>> + use<'a>, Error> {
        let map = self.map(obj, "walk its entries")?;
        Ok(map.sorted(&self.ops.names).filter_map(|(key, register)| {
            let mut visible = register.visible();
            let winner = visible.next_back()?;
            Some(MapEntry {
                key,
                value: self.value(&winner),
                id: self.export(winner.id),
                conflict: visible.next_back().is_some(),
            })
        }))
    }

    /// The items of a list, or the elements of a text, from `start` on. O(log n) to begin, then
    /// O(1) for each.
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    pub fn items<'a>(
        &'a self,
        obj: &ObjId,
        start: usize,
    ) -> Result<impl Iterator<Item = ListItem<'a>> + use<'a>, Error> {
        let sequence = self.sequence(obj, "walk its items")?;
        Ok(sequence.items_from(start as u64).map(|item| ListItem {
            value: self.value(&item.winner),
            id: self.export(item.winner.id),
            elem: self.export(item.elem),
            conflict: item.conflict,
        }))
    }

    /// The text, with U+FFFC for every element that is no string. O(n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps; a list reads as the text of its
    /// strings.
    pub fn text(&self, obj: &ObjId) -> Result<String, Error> {
        let mut text = String::new();
        self.sequence(obj, "read its text")?.push_text(&mut text);
        Ok(text)
    }

    /// The index of the list item or text element inserted by the op `elem`, overwritten or not;
    /// `None` if deleted or never there. O(log n).
    ///
    /// # Errors
    /// [`Error::UnknownObject`], [`Error::WrongType`] for maps.
    pub fn index_of(&self, obj: &ObjId, elem: &ObjId) -> Result<Option<usize>, Error> {
        let sequence = self.sequence(obj, "find an element")?;
        let Some(id) = self.import(elem) else { return Ok(None) };
        let place = sequence.locate(id).filter(|place| sequence.is_visible(*place));
        Ok(place.map(|place| to_usize(sequence.index_of(place))))
    }

    /// The id in terms of this document, if its actor is known here.
    pub(crate) fn import(&self, id: &ObjId) -> Option<OpId> {
        let actor = id.actor()?;
        let hint = id.hint();
        let known = self.ops.actors.ids().get(hint.as_usize()) == Some(actor);
        let actor = if known { hint } else { self.ops.actors.lookup(actor)? };
        Some(OpId { counter: id.counter(), actor })
    }

    /// The id for callers.
    pub(crate) fn export(&self, id: OpId) -> ObjId {
        if id == NO_OP {
            return ROOT;
        }
        ObjId::with_hint(id.counter, self.ops.actors.id(id.actor).clone(), id.actor)
    }

    /// Where the object is in the op set.
    pub(crate) fn resolve(&self, obj: &ObjId) -> Result<ObjIdx, Error> {
        if obj.is_root() {
            return Ok(ObjIdx::ROOT);
        }
        self.import(obj)
            .and_then(|id| self.ops.find(shoal_history::ObjId::Op(id)))
            .ok_or_else(|| Error::UnknownObject(obj.clone()))
    }

    pub(crate) fn value<'a>(&self, op: &OpRef<'a>) -> Value<'a> {
        match ObjType::made_by(op.action) {
            Some(kind) => Value::Object(kind),
            None => Value::Scalar(op.value),
        }
    }

    fn object(&self, obj: &ObjId) -> Result<&Object, Error> {
        Ok(self.ops.object(self.resolve(obj)?))
    }

    fn data(&self, obj: &ObjId) -> Result<&Data, Error> {
        Ok(self.ops.data(self.resolve(obj)?))
    }

    fn map(&self, obj: &ObjId, operation: &'static str) -> Result<&MapObject, Error> {
        let object = self.object(obj)?;
        match self.ops.data_of(object) {
            Data::Map(map) => Ok(map),
            Data::Sequence(_) => Err(wrong_type(obj, object.kind, operation)),
        }
    }

    fn sequence(&self, obj: &ObjId, operation: &'static str) -> Result<&Sequence, Error> {
        let object = self.object(obj)?;
        match self.ops.data_of(object) {
            Data::Sequence(sequence) => Ok(sequence),
            Data::Map(_) => Err(wrong_type(obj, object.kind, operation)),
        }
    }
}

pub(crate) fn wrong_type(obj: &ObjId, kind: ObjType, operation: &'static str) -> Error {
    Error::WrongType { obj: obj.clone(), kind, operation }
}

pub(crate) fn wrong_prop(obj: &ObjId, kind: ObjType) -> Error {
    let operation = if kind.is_sequence() { "use a key" } else { "use an index" };
    wrong_type(obj, kind, operation)
}

pub(crate) fn to_usize(length: u64) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

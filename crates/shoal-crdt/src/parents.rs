//! Where an object is: the way back to the root.

use shoal_history::OpId;

use crate::error::Error;
use crate::id::ObjId;
use crate::opset::Data;
use crate::patch::PatchProp;
use crate::register::ObjIdx;
use crate::value::ObjType;
use crate::view::{View, scoped};

/// A step on the way from an object to the root.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// The object around the one before.
    pub obj: ObjId,
    /// Its type.
    pub kind: ObjType,
    /// The place in the object; for a deleted item, the place of return.
    pub prop: PatchProp,
    /// True if readers find the child there: not deleted, not overwritten, and the winner of its
    /// place.
    pub visible: bool,
}

impl View<'_> {
    pub(crate) fn parents(self, obj: &ObjId) -> Result<Vec<Parent>, Error> {
        self.object_type(obj)?;
        let mut parents = Vec::new();
        let mut at = self.doc.resolve(obj)?;
        while at != ObjIdx::ROOT {
            let object = self.doc.ops.object(at);
            let holder = self.doc.ops.object(object.parent);
            let (prop, visible) = match self.doc.ops.data_of(holder) {
                Data::Map(_) => self.key_of(object.parent, object.id),
                Data::Sequence(_) => self.place_of(object.parent, object.id),
            }
            .ok_or_else(|| Error::UnknownObject(obj.clone()))?;
            parents.push(Parent {
                obj: self.doc.export(holder.id),
                kind: holder.kind,
                prop,
                visible,
            });
            at = object.parent;
        }
        Ok(parents)
    }

    /// The map entry written by the op `id`, and true for the visible one.
    fn key_of(self, map: ObjIdx, id: OpId) -> Option<(PatchProp, bool)> {
        let Data::Map(map) = self.doc.ops.data(map) else { return None };
        let (key, register) = scoped::entries(self.doc, map)
            .find(|(_, register)| register.first_unknown(&[id]).is_none())?;
        let winner = match self.clock {
            None => register.winner().map(|op| op.id),
            Some(clock) => {
                scoped::visible(register, clock, &self.doc.ops.actors).last().map(|op| op.id)
            }
        };
        Some((PatchProp::Key(key.into()), winner == Some(id)))
    }

    /// The same of a sequence.
    fn place_of(self, holder: ObjIdx, id: OpId) -> Option<(PatchProp, bool)> {
        let Data::Sequence(sequence) = self.doc.ops.data(holder) else { return None };
        if let Some(place) = sequence.locate(id)
            && let Some(index) = self.index_in(holder, sequence, place)
        {
            let visible = match self.clock {
                None => sequence.visible_at(place).next_back().map(|op| op.id),
                Some(clock) => {
                    let actors = &self.doc.ops.actors;
                    scoped::visible_at(sequence, place, clock, actors).last().map(|op| op.id)
                }
            };
            return Some((PatchProp::Index(index), visible == Some(id)));
        }
        let mut found = None;
        scoped::walk(sequence, self.clock, &self.doc.ops.actors, |elem| {
            if found.is_none() && elem.rows.iter().any(|op| op.id == id) {
                let visible = elem.winner().is_some_and(|op| op.id == id);
                found = Some((PatchProp::Index(elem.index), visible));
            }
        });
        found
    }
}

impl View<'_> {
    pub(crate) fn path_of(self, obj: &ObjId) -> Result<Vec<(ObjId, PatchProp)>, Error> {
        let parents = self.parents(obj)?;
        Ok(parents.into_iter().rev().map(|parent| (parent.obj, parent.prop)).collect())
    }
}

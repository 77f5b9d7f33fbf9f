//! Edits of maps.

use shoal_history::{Action, OpId, Scalar};

use super::{Edit, Transaction, reg_op};
use crate::error::Error;
use crate::names::NameIdx;
use crate::pending::PendingKey;
use crate::register::{ObjIdx, OpRef, Register, Succ};
use crate::value::ObjType;

/// The effect of an edit, given the present values at its place.
pub(super) enum Resolved {
    /// Nothing would change.
    Nothing,
    /// The visible value is equal already: the other values are deleted.
    DeleteLosers(Succ),
    /// An op superseding everything visible.
    Supersede(Succ),
}

/// The effect of setting `value` in the place of the `visible` ops.
pub(super) fn resolve_put<'a>(
    mut visible: impl DoubleEndedIterator<Item = OpRef<'a>> + Clone,
    value: &Scalar,
) -> Resolved {
    let all = ids(visible.clone());
    let equal = visible
        .next_back()
        .is_some_and(|winner| winner.action == Action::Set && winner.value == value.as_ref());
    if !equal {
        return Resolved::Supersede(all);
    }
    match ids(visible) {
        Succ::None => Resolved::Nothing,
        losers => Resolved::DeleteLosers(losers),
    }
}

/// The ids of ops.
pub(super) fn ids<'a>(ops: impl Iterator<Item = OpRef<'a>>) -> Succ {
    let mut ids = Succ::None;
    for op in ops {
        ids.push(op.id);
    }
    ids
}

/// True if one of the ops is a counter.
pub(super) fn has_counter<'a>(mut ops: impl Iterator<Item = OpRef<'a>>) -> bool {
    ops.any(|op| {
        op.action == Action::Set && matches!(op.value, shoal_history::ScalarRef::Counter(_))
    })
}

impl Transaction<'_> {
    pub(super) fn put_in_map(
        &mut self,
        object: ObjIdx,
        key: &str,
        value: Scalar,
    ) -> Result<(), Error> {
        let name = self.doc.ops.names.intern(key);
        let resolved = match self.doc.ops.register(object, name) {
            Some(register) => resolve_put(register.visible(), &value),
            None => Resolved::Supersede(Succ::None),
        };
        match resolved {
            Resolved::Nothing => Ok(()),
            Resolved::DeleteLosers(losers) => self.delete_ops_in_map(object, name, losers),
            Resolved::Supersede(preds) => {
                let id = self.next_id()?;
                self.add_to_map(object, name, id, Action::Set, value, ObjIdx::NONE, preds);
                Ok(())
            }
        }
    }

    pub(super) fn put_object_in_map(
        &mut self,
        object: ObjIdx,
        key: &str,
        kind: ObjType,
    ) -> Result<OpId, Error> {
        self.reserve_depth(object)?;
        let id = self.next_id()?;
        let name = self.doc.ops.names.intern(key);
        let preds = self.visible_in_map(object, name);
        let made = self.doc.ops.add_object(id, kind, object);
        self.add_to_map(object, name, id, kind.make_action(), Scalar::Null, made, preds);
        Ok(id)
    }

    pub(super) fn delete_from_map(&mut self, object: ObjIdx, key: &str) -> Result<(), Error> {
        let Some(name) = self.doc.ops.names.lookup(key) else { return Ok(()) };
        match self.visible_in_map(object, name) {
            Succ::None => Ok(()),
            preds => self.delete_ops_in_map(object, name, preds),
        }
    }

    /// `false` when there is no counter.
    pub(super) fn increment_in_map(
        &mut self,
        object: ObjIdx,
        key: &str,
        by: i64,
    ) -> Result<bool, Error> {
        let Some(name) = self.doc.ops.names.lookup(key) else { return Ok(false) };
        let is_counter = self
            .doc
            .ops
            .register(object, name)
            .is_some_and(|register| has_counter(register.visible()));
        if is_counter {
            let id = self.next_id()?;
            let preds = self.visible_in_map(object, name);
            let (action, value) = (Action::Increment, Scalar::Int(by));
            self.add_to_map(object, name, id, action, value, ObjIdx::NONE, preds);
        }
        Ok(is_counter)
    }

    fn visible_in_map(&self, object: ObjIdx, name: NameIdx) -> Succ {
        self.doc.ops.register(object, name).map_or(Succ::None, |register| ids(register.visible()))
    }

    fn delete_ops_in_map(
        &mut self,
        object: ObjIdx,
        name: NameIdx,
        preds: Succ,
    ) -> Result<(), Error> {
        let id = self.next_id()?;
        if let Some((map, _)) = self.doc.ops.map_mut(object) {
            map.change(name, |register| {
                if let Some(register) = register {
                    register.delete(id, preds.as_slice());
                }
                None
            });
        }
        let edit = Edit::new(Action::Delete, false, Scalar::Null);
        self.note(object, PendingKey::Map(name), edit, preds, id);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of an op")]
    fn add_to_map(
        &mut self,
        object: ObjIdx,
        name: NameIdx,
        id: OpId,
        action: Action,
        value: Scalar,
        made: ObjIdx,
        preds: Succ,
    ) {
        let op = reg_op(id, action, value.clone(), made);
        if let Some((map, actors)) = self.doc.ops.map_mut(object) {
            map.change(name, |register| match register {
                Some(register) => {
                    register.push(op, preds.as_slice(), actors);
                    None
                }
                None => Some(Register::new(op)),
            });
        }
        let edit = Edit::new(action, false, value);
        self.note(object, PendingKey::Map(name), edit, preds, id);
    }
}

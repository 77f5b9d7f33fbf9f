//! Every object of a document, and what an op does to them.
//!
//! Knows no changes and no heads. [`OpSet::apply`] takes ops from strangers: it checks all it
//! relies on before it changes anything. [`OpSet::undo`] is its exact inverse.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_history::{Action, Key, ObjId as StoredObjId, Op, OpId, ScalarRef};

use crate::actors::Actors;
use crate::error::OpFault;
use crate::register::{ObjIdx, RegOp, Register, Succ};
use crate::sequence::{NO_OP, Place, Sequence, Unit};
use crate::value::{ObjType, TextEncoding};

/// The objects of one document.
#[derive(Clone, Debug)]
pub(crate) struct OpSet {
    pub(crate) actors: Actors,
    pub(crate) encoding: TextEncoding,
    objects: Vec<Object>,
    by_id: FxHashMap<OpId, ObjIdx>,
    names: FxHashSet<Arc<str>>,
    /// Rows that a document chunk would have: every op but deletes.
    op_count: u64,
}

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// The op that made it; [`NO_OP`] for the root.
    pub(crate) id: OpId,
    pub(crate) kind: ObjType,
    pub(crate) data: Data,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Map(MapObject),
    Sequence(Box<Sequence>),
}

/// The entries of a map or table, deleted ones included.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapObject {
    pub(crate) entries: BTreeMap<Arc<str>, Register>,
    /// How many entries readers see.
    pub(crate) visible: usize,
}

impl MapObject {
    /// Changes the register of `key`, or makes one, and keeps count of the visible entries. A
    /// register that is left without ops goes away.
    pub(crate) fn change(
        &mut self,
        key: &Arc<str>,
        change: impl FnOnce(Option<&mut Register>) -> Option<Register>,
    ) {
        let Some(register) = self.entries.get_mut(key) else {
            if let Some(register) = change(None) {
                self.visible += usize::from(register.winner().is_some());
                self.entries.insert(Arc::clone(key), register);
            }
            return;
        };
        let before = register.winner().is_some();
        change(Some(register));
        let after = register.winner().is_some();
        if register.is_empty() {
            self.entries.remove(key);
        }
        self.visible = self.visible - usize::from(before) + usize::from(after);
    }
}

impl OpSet {
    pub(crate) fn new(encoding: TextEncoding) -> Self {
        let root = Object { id: NO_OP, kind: ObjType::Map, data: Data::Map(MapObject::default()) };
        Self {
            actors: Actors::default(),
            encoding,
            objects: vec![root],
            by_id: FxHashMap::default(),
            names: FxHashSet::default(),
            op_count: 0,
        }
    }

    pub(crate) fn op_count(&self) -> u64 {
        self.op_count
    }

    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    pub(crate) fn object(&self, object: ObjIdx) -> &Object {
        &self.objects[object.as_usize()]
    }

    pub(crate) fn object_mut(&mut self, object: ObjIdx) -> (&mut Object, &Actors) {
        (&mut self.objects[object.as_usize()], &self.actors)
    }

    pub(crate) fn find(&self, id: StoredObjId) -> Option<ObjIdx> {
        match id {
            StoredObjId::Root => Some(ObjIdx::ROOT),
            StoredObjId::Op(id) => self.by_id.get(&id).copied(),
        }
    }

    /// `name` with one allocation per document.
    pub(crate) fn intern_name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }

    pub(crate) fn add_object(&mut self, id: OpId, kind: ObjType) -> ObjIdx {
        let data = match kind {
            ObjType::Map | ObjType::Table => Data::Map(MapObject::default()),
            ObjType::List => Data::Sequence(Box::new(Sequence::new(Unit::Element))),
            ObjType::Text => Data::Sequence(Box::new(Sequence::new(Unit::Text(self.encoding)))),
        };
        let index = ObjIdx(u32::try_from(self.objects.len()).expect("op ids fit 32 bits"));
        self.objects.push(Object { id, kind, data });
        self.by_id.insert(id, index);
        index
    }

    /// Notes that a row was added.
    pub(crate) fn count_op(&mut self) {
        self.op_count += 1;
    }

    /// Applies an op of a change. Its ids are in terms of this document's actors, and no op with
    /// its id has been applied.
    ///
    /// # Errors
    /// When the op contradicts the document; nothing has changed then.
    pub(crate) fn apply(&mut self, op: &Op<'_>) -> Result<(), OpFault> {
        self.check_order(op)?;
        let object = self.find(op.obj).ok_or(OpFault::UnknownObject)?;
        check_shape(op)?;
        match &self.objects[object.as_usize()].data {
            Data::Map(map) => {
                let Key::Map(key) = op.key else { return Err(OpFault::WrongKey) };
                match map.entries.get(key) {
                    Some(register) => known(register.first_unknown(op.links))?,
                    None => known(op.links.first().copied())?,
                }
                if op.insert {
                    return Err(OpFault::WrongKey);
                }
                let key = self.intern_name(key);
                self.apply_to_map(object, &key, op);
            }
            Data::Sequence(sequence) => {
                let reference = match op.key {
                    Key::Map(_) => return Err(OpFault::WrongKey),
                    Key::Head if !op.insert => return Err(OpFault::WrongKey),
                    Key::Head => NO_OP,
                    Key::Elem(id) => id,
                };
                if op.insert {
                    known(op.links.first().copied())?;
                    let place = sequence
                        .integration_place(reference, op.id, &self.actors)
                        .ok_or(OpFault::UnknownElement)?;
                    let is_mark_end = op.action == Action::Mark && op.mark_name.is_none();
                    if is_mark_end && !sequence.begins_before(op.id, place) {
                        return Err(OpFault::MalformedMark);
                    }
                    self.insert_in_sequence(object, place, reference, op);
                } else {
                    let place = sequence.locate(reference).ok_or(OpFault::UnknownElement)?;
                    known(sequence.first_unknown(place, op.links))?;
                    self.update_in_sequence(object, place, op);
                }
            }
        }
        if op.action != Action::Delete {
            self.op_count += 1;
        }
        Ok(())
    }

    /// All that an op names is older than the op.
    fn check_order(&self, op: &Op<'_>) -> Result<(), OpFault> {
        let older = |id| self.actors.compare(id, op.id) == Ordering::Less;
        let object = match op.obj {
            StoredObjId::Root => true,
            StoredObjId::Op(id) => older(id),
        };
        let key = match op.key {
            Key::Elem(id) => older(id),
            Key::Map(_) | Key::Head => true,
        };
        if object && key && op.links.iter().all(|id| older(*id)) {
            Ok(())
        } else {
            Err(OpFault::RefersAhead)
        }
    }

    fn apply_to_map(&mut self, object: ObjIdx, key: &Arc<str>, op: &Op<'_>) {
        let made = self.make_object(op);
        let (object, actors) = self.object_mut(object);
        let Data::Map(map) = &mut object.data else { return };
        map.change(key, |register| match register {
            None => Some(Register::new(stored(op, made))),
            Some(register) => {
                if op.action == Action::Delete {
                    register.delete(op.id, op.links);
                } else {
                    register.push(stored(op, made), op.links, actors);
                }
                None
            }
        });
    }

    fn insert_in_sequence(&mut self, object: ObjIdx, place: Place, reference: OpId, op: &Op<'_>) {
        let made = self.make_object(op);
        let (object, actors) = self.object_mut(object);
        if let Data::Sequence(sequence) = &mut object.data {
            sequence.insert_at(place, reference, stored(op, made), actors);
        }
    }

    fn update_in_sequence(&mut self, object: ObjIdx, place: Place, op: &Op<'_>) {
        let made = self.make_object(op);
        let (object, actors) = self.object_mut(object);
        let Data::Sequence(sequence) = &mut object.data else { return };
        if op.action == Action::Delete {
            sequence.delete(place, op.id, op.links);
        } else {
            sequence.update(place, stored(op, made), op.links, actors);
        }
    }

    fn make_object(&mut self, op: &Op<'_>) -> ObjIdx {
        match ObjType::made_by(op.action) {
            Some(kind) => self.add_object(op.id, kind),
            None => ObjIdx::NONE,
        }
    }

    /// Takes back `op`, the last that was applied or made and not yet taken back.
    pub(crate) fn undo(&mut self, op: &Op<'_>) {
        if let Some(object) = self.find(op.obj) {
            let (object, actors) = self.object_mut(object);
            match (&mut object.data, op.key) {
                (Data::Map(map), Key::Map(key)) => {
                    map.change(&Arc::from(key), |register| {
                        if let Some(register) = register {
                            register.undo(op.id, op.links, actors);
                        }
                        None
                    });
                }
                (Data::Sequence(sequence), _) if op.insert => {
                    if let Some(place) = sequence.locate(op.id) {
                        sequence.undo_insert(place, actors);
                    }
                }
                (Data::Sequence(sequence), Key::Elem(id)) => {
                    if let Some(place) = sequence.locate(id) {
                        sequence.undo(place, op.id, op.links, actors);
                    }
                }
                _ => {}
            }
        }
        if ObjType::made_by(op.action).is_some() && self.by_id.remove(&op.id).is_some() {
            self.objects.pop();
        }
        if op.action != Action::Delete {
            self.op_count -= 1;
        }
    }
}

/// What must hold for an op whatever the document.
fn check_shape(op: &Op<'_>) -> Result<(), OpFault> {
    match op.action {
        Action::Delete if op.insert || op.links.is_empty() => Err(OpFault::MalformedDelete),
        // Deletes have no row in a saved document, so what else they say would be lost, and with
        // it the hash of their change.
        Action::Delete if op.value != ScalarRef::Null || op.expand || op.mark_name.is_some() => {
            Err(OpFault::MalformedDelete)
        }
        Action::Increment if op.insert => Err(OpFault::MalformedIncrement),
        Action::Increment => match op.value {
            ScalarRef::Int(_) | ScalarRef::Uint(_) => Ok(()),
            _ => Err(OpFault::MalformedIncrement),
        },
        Action::Mark if !op.insert => Err(OpFault::MalformedMark),
        _ => Ok(()),
    }
}

fn known(unknown: Option<OpId>) -> Result<(), OpFault> {
    match unknown {
        None => Ok(()),
        Some(_) => Err(OpFault::UnknownPredecessor),
    }
}

/// The op as a register keeps it, not yet superseded.
pub(crate) fn stored(op: &Op<'_>, object: ObjIdx) -> RegOp {
    RegOp {
        id: op.id,
        action: op.action,
        expand: op.expand,
        object,
        value: op.value.to_scalar(),
        mark_name: op.mark_name.map(Arc::from),
        succ: Succ::None,
    }
}

//! Every object of a document, and the effects of ops on them.
//!
//! Knows no changes and no heads. [`OpSet::apply`] takes ops from strangers: everything relied on
//! is checked before anything changes. [`OpSet::undo`] is the exact inverse.

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use shoal_history::{
    Action, ActorId, ActorIdx, DeleteRun, Key, Limits, ObjId as StoredObjId, Op, OpId, ScalarRef,
};

use crate::actors::Actors;
use crate::error::OpFault;
use crate::map::MapObject;
use crate::names::{NameIdx, Names};
use crate::pending::{Moment, Pending, PendingOps, TakenBack};
use crate::register::{ObjIdx, RegOp, Register};
use crate::rows::{Rows, Span};
use crate::sequence::{NO_OP, Place, Sequence, Unit};
use crate::shared::SharedMap;
use crate::slots::Slots;
use crate::value::{ObjType, TextEncoding};

/// The objects of one document. Copies share them until one of them writes.
#[derive(Clone, Debug)]
pub(crate) struct OpSet {
    pub(crate) actors: Arc<Actors>,
    pub(crate) names: Names,
    pub(crate) encoding: TextEncoding,
    /// How many objects may be nested in each other.
    pub(crate) max_depth: u32,
    objects: Slots<Object, 16>,
    by_id: SharedMap<OpId, ObjIdx>,
    /// The rows of the document chunk behind objects without data.
    rows: Option<Arc<Rows>>,
    /// The rows of a document chunk: every op but deletes.
    op_count: u64,
}

/// One object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// The op behind the object; [`NO_OP`] for the root.
    pub(crate) id: OpId,
    pub(crate) kind: ObjType,
    /// The object to which the making op was applied; for the root the root.
    pub(crate) parent: ObjIdx,
    /// The number of objects around this one.
    pub(crate) depth: u32,
    /// Built by the first look, see [`OpSet::data`].
    data: OnceLock<Data>,
    /// The rows to build from.
    span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Map(Arc<MapObject>),
    Sequence(Arc<Sequence>),
}

impl OpSet {
    pub(crate) fn new(encoding: TextEncoding) -> Self {
        let data = OnceLock::from(Data::Map(Arc::default()));
        let (kind, span) = (ObjType::Map, Span::default());
        let root = Object { id: NO_OP, kind, parent: ObjIdx::ROOT, depth: 0, data, span };
        Self {
            actors: Arc::default(),
            names: Names::default(),
            encoding,
            max_depth: Limits::default().max_depth,
            objects: Slots::from_iter([root].into_iter()),
            by_id: SharedMap::default(),
            rows: None,
            op_count: 0,
        }
    }

    pub(crate) fn op_count(&self) -> u64 {
        self.op_count
    }

    /// The index of `actor`, a new one for a new actor.
    pub(crate) fn intern_actor(&mut self, actor: &ActorId) -> ActorIdx {
        match self.actors.lookup(actor) {
            Some(index) => index,
            None => Arc::make_mut(&mut self.actors).intern(actor),
        }
    }

    /// Forgets all but the first `count` actors, whose ops are not here any more.
    pub(crate) fn forget_actors(&mut self, count: usize) {
        if self.actors.ids().len() > count {
            Arc::make_mut(&mut self.actors).forget(count);
        }
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter()
    }

    #[inline]
    pub(crate) fn object(&self, object: ObjIdx) -> &Object {
        self.objects.get(object.0).expect("an index of an object names one")
    }

    /// The contents of an object. Cost: for an object of a loaded chunk, the building at the first
    /// look.
    #[inline]
    pub(crate) fn data(&self, object: ObjIdx) -> &Data {
        self.data_of(self.object(object))
    }

    /// As [`OpSet::data`], of an object of this set.
    #[inline]
    pub(crate) fn data_of<'a>(&'a self, object: &'a Object) -> &'a Data {
        object.data.get_or_init(|| self.build(object))
    }

    /// The rows of an object nobody has looked at since loading, in the order of a document's rows;
    /// `None` for all others.
    pub(crate) fn untouched<'a>(&'a self, object: &Object) -> Option<(&'a Rows, Span)> {
        let is_sorted =
            object.span.ids_ascend && (object.span.keys_ascend || object.kind.is_sequence());
        let is_empty = object.span.first == object.span.end;
        let rows = self.rows.as_deref().filter(|_| object.data.get().is_none())?;
        (is_sorted || is_empty).then_some((rows, object.span))
    }

    /// This document's actor for each actor of the loaded rows.
    pub(crate) fn actors_of_rows(&self) -> &[ActorIdx] {
        self.rows.as_deref().map_or(&[], Rows::actors)
    }

    /// The contents of an object of this set, built anew from the rows if nobody has looked yet.
    pub(crate) fn build(&self, object: &Object) -> Data {
        if let Some(data) = object.data.get() {
            return data.clone();
        }
        let unit = match object.kind {
            ObjType::Map | ObjType::Table => None,
            ObjType::List => Some(Unit::Element),
            ObjType::Text => Some(Unit::Text(self.encoding)),
        };
        let rows = self.rows.as_deref().expect("an object without data has rows");
        let made = |id: OpId| self.by_id.get(&id).copied().unwrap_or(ObjIdx::NONE);
        match unit {
            None => Data::Map(Arc::new(rows.map(object.span, &self.actors, made))),
            Some(unit) => {
                Data::Sequence(Arc::new(rows.sequence(object.span, unit, &self.actors, made)))
            }
        }
    }

    /// How many objects were built so far.
    #[cfg(test)]
    pub(crate) fn built(&self) -> usize {
        self.objects.iter().filter(|object| object.data.get().is_some()).count()
    }

    /// Makes the objects added by [`OpSet::add_unbuilt`] ones of these rows.
    pub(crate) fn set_rows(&mut self, rows: Rows) {
        self.rows = Some(Arc::new(rows));
    }

    /// Names the rows of an object.
    pub(crate) fn set_span(&mut self, object: ObjIdx, span: Span) {
        if let Some(object) = self.objects.get_mut(object.0) {
            (object.span, object.data) = (span, OnceLock::new());
        }
    }

    #[inline]
    fn data_mut(&mut self, object: ObjIdx) -> (&mut Data, &Actors) {
        if self.rows.is_some() {
            // Built before the chunk of objects is copied: copies share the object.
            self.data(object);
        }
        let data = self.objects.get_mut(object.0).and_then(|object| object.data.get_mut());
        (data.expect("an object that was built has data"), &self.actors)
    }

    pub(crate) fn map_mut(&mut self, object: ObjIdx) -> Option<(&mut MapObject, &Actors)> {
        match self.data_mut(object) {
            (Data::Map(map), actors) => Some((Arc::make_mut(map), actors)),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn sequence_mut(&mut self, object: ObjIdx) -> Option<(&mut Sequence, &Actors)> {
        match self.data_mut(object) {
            (Data::Sequence(sequence), actors) => Some((Arc::make_mut(sequence), actors)),
            _ => None,
        }
    }

    /// The register of a key in a map.
    pub(crate) fn register(&self, object: ObjIdx, name: NameIdx) -> Option<&Register> {
        match self.data(object) {
            Data::Map(map) => map.get(name),
            Data::Sequence(_) => None,
        }
    }

    pub(crate) fn find(&self, id: StoredObjId) -> Option<ObjIdx> {
        match id {
            StoredObjId::Root => Some(ObjIdx::ROOT),
            StoredObjId::Op(id) => self.by_id.get(&id).copied(),
        }
    }

    /// Adds an empty object.
    pub(crate) fn add_object(&mut self, id: OpId, kind: ObjType, parent: ObjIdx) -> ObjIdx {
        let data = match kind {
            ObjType::Map | ObjType::Table => Data::Map(Arc::default()),
            ObjType::List => Data::Sequence(Arc::new(Sequence::new(Unit::Element))),
            ObjType::Text => Data::Sequence(Arc::new(Sequence::new(Unit::Text(self.encoding)))),
        };
        self.add(id, kind, parent, OnceLock::from(data))
    }

    /// Makes room for `count` objects beside the root.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.by_id.reserve(count);
    }

    /// Adds an object to be built from rows: from none, unless [`OpSet::set_span`] names some.
    pub(crate) fn add_unbuilt(&mut self, id: OpId, kind: ObjType, parent: ObjIdx) -> ObjIdx {
        self.add(id, kind, parent, OnceLock::new())
    }

    fn add(&mut self, id: OpId, kind: ObjType, parent: ObjIdx, data: OnceLock<Data>) -> ObjIdx {
        let depth = self.object(parent).depth.saturating_add(1);
        let span = Span::default();
        let index = ObjIdx(self.objects.push(Object { id, kind, parent, depth, data, span }));
        self.by_id.insert(id, index);
        index
    }

    /// True if another object may be made in `object`.
    pub(crate) fn has_room_below(&self, object: ObjIdx) -> bool {
        self.object(object).depth < self.max_depth
    }

    /// Counts a new row.
    pub(crate) fn count_op(&mut self) {
        self.op_count += 1;
    }

    /// Counts new rows.
    pub(crate) fn count_ops(&mut self, count: impl Into<u64>) {
        self.op_count += count.into();
    }

    /// Applies an op of a change. Its ids are in terms of this document's actors, and no op with
    /// its id has been applied.
    ///
    /// # Errors
    /// When the op contradicts the document; nothing has changed then.
    pub(crate) fn apply(&mut self, op: &Op<'_>) -> Result<(), OpFault> {
        check_by_itself(op, |a, b| self.actors.compare(a, b))?;
        let object = self.find(op.obj).ok_or(OpFault::UnknownObject)?;
        if ObjType::made_by(op.action).is_some() && !self.has_room_below(object) {
            return Err(OpFault::TooDeep);
        }
        match self.data(object) {
            Data::Map(map) => {
                let Key::Map(key) = op.key else { return Err(OpFault::WrongKey) };
                match self.names.lookup(key).and_then(|name| map.get(name)) {
                    Some(register) => known(register.first_unknown(op.links))?,
                    None => known(op.links.first().copied())?,
                }
                if op.insert {
                    return Err(OpFault::WrongKey);
                }
                let name = self.names.intern(key);
                self.apply_to_map(object, name, op);
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

    /// Applies inserts of the characters of `text`, the first by the op `id` after `reference`,
    /// each other one by the next op after the one before.
    ///
    /// # Errors
    /// When the first contradicts the document; nothing has changed then.
    pub(crate) fn apply_text(
        &mut self,
        obj: StoredObjId,
        reference: Option<OpId>,
        id: OpId,
        text: &str,
        len: u32,
    ) -> Result<(), OpFault> {
        let older = |other| self.actors.compare(other, id) == Ordering::Less;
        let is_older = match obj {
            StoredObjId::Root => true,
            StoredObjId::Op(obj) => older(obj),
        };
        if !(is_older && reference.is_none_or(older)) {
            return Err(OpFault::RefersAhead);
        }
        let object = self.find(obj).ok_or(OpFault::UnknownObject)?;
        let reference = reference.unwrap_or(NO_OP);
        let follows = reference.actor == id.actor && reference.counter + 1 == id.counter;
        if follows
            && let Some((sequence, actors)) = self.sequence_mut(object)
            && sequence.type_on(None, id, text, len, actors).is_some()
        {
            self.count_ops(len);
            return Ok(());
        }
        let Data::Sequence(sequence) = self.data(object) else {
            return Err(OpFault::WrongKey);
        };
        let place = sequence
            .integration_place(reference, id, &self.actors)
            .ok_or(OpFault::UnknownElement)?;
        if let Some((sequence, actors)) = self.sequence_mut(object) {
            sequence.insert_text_at(place, reference, id, text, None, actors);
        }
        self.count_ops(len);
        Ok(())
    }

    /// Applies deletes, as many of them from the first on as are beside each other, if they
    /// contradict nothing and are all there is to their elements. Returns how many.
    pub(crate) fn apply_deletes(&mut self, run: &DeleteRun) -> Option<u32> {
        let StoredObjId::Op(obj) = run.obj else { return None };
        let older = |other| self.actors.compare(other, run.id) == Ordering::Less;
        if !(older(obj) && older(run.elem)) {
            return None;
        }
        let object = self.find(run.obj)?;
        let Data::Sequence(sequence) = self.data(object) else { return None };
        let place = sequence.locate(run.elem)?;
        let (sequence, actors) = self.sequence_mut(object)?;
        let deleted = if run.descends {
            sequence.delete_backwards(place, run.len, run.id, actors)
        } else {
            sequence.delete_simple(place, run.len, run.id, actors)
        };
        Some(deleted?.count)
    }

    fn apply_to_map(&mut self, object: ObjIdx, name: NameIdx, op: &Op<'_>) {
        let made = self.make_object(op, object);
        let Some((map, actors)) = self.map_mut(object) else { return };
        map.change(name, |register| match register {
            None => Some(Register::new(RegOp::of(op, made))),
            Some(register) => {
                if op.action == Action::Delete {
                    register.delete(op.id, op.links);
                } else {
                    register.push(RegOp::of(op, made), op.links, actors);
                }
                None
            }
        });
    }

    fn insert_in_sequence(&mut self, object: ObjIdx, place: Place, reference: OpId, op: &Op<'_>) {
        let made = self.make_object(op, object);
        if let Some((sequence, actors)) = self.sequence_mut(object) {
            sequence.insert_at(place, reference, RegOp::of(op, made), actors);
        }
    }

    fn update_in_sequence(&mut self, object: ObjIdx, place: Place, op: &Op<'_>) {
        let made = self.make_object(op, object);
        let Some((sequence, actors)) = self.sequence_mut(object) else { return };
        if op.action == Action::Delete {
            sequence.delete(place, op.id, op.links, actors);
        } else {
            sequence.update(place, RegOp::of(op, made), op.links, actors);
        }
    }

    /// The object made by `op`, an op on `parent`, if any.
    fn make_object(&mut self, op: &Op<'_>, parent: ObjIdx) -> ObjIdx {
        match ObjType::made_by(op.action) {
            Some(kind) => self.add_object(op.id, kind, parent),
            None => ObjIdx::NONE,
        }
    }

    /// Takes back `op`, the last applied or made and not yet taken back.
    pub(crate) fn undo(&mut self, op: &Op<'_>) {
        let names = std::mem::take(&mut self.names);
        self.undo_named(op, &names);
        self.names = names;
    }

    fn undo_named(&mut self, op: &Op<'_>, names: &Names) {
        if let Some(object) = self.find(op.obj) {
            match op.key {
                Key::Map(key) => {
                    let name = names.lookup(key);
                    if let (Some(name), Some((map, actors))) = (name, self.map_mut(object)) {
                        map.change(name, |register| {
                            if let Some(register) = register {
                                register.undo(op.id, op.links, actors);
                            }
                            None
                        });
                    }
                }
                Key::Head | Key::Elem(_) => self.undo_in_sequence(object, op),
            }
        }
        if ObjType::made_by(op.action).is_some() && self.by_id.remove(&op.id).is_some() {
            self.objects.pop();
        }
        if op.action != Action::Delete {
            self.op_count -= 1;
        }
    }

    /// Undoes the ops of a transaction, the last first, and empties it.
    pub(crate) fn undo_to(&mut self, moment: Moment, ops: &mut PendingOps) {
        ops.take_back(moment, |op| match op {
            TakenBack::Alone(op) => self.undo_pending(op),
            TakenBack::OfRun(op) => self.undo(op),
        });
    }

    /// Like [`OpSet::undo`], for an op with parts of its own.
    pub(crate) fn undo_pending(&mut self, op: &Pending) {
        // Names are only read here, but borrowed along with the parts being changed.
        let names = std::mem::take(&mut self.names);
        self.undo_named(&op.as_op(&names), &names);
        self.names = names;
    }

    fn undo_in_sequence(&mut self, object: ObjIdx, op: &Op<'_>) {
        let Some((sequence, actors)) = self.sequence_mut(object) else { return };
        let elem = match op.key {
            _ if op.insert => op.id,
            Key::Elem(id) => id,
            Key::Map(_) | Key::Head => return,
        };
        match sequence.locate(elem) {
            Some(place) if op.insert => sequence.undo_insert(place, actors),
            Some(place) => sequence.undo(place, op.id, op.links, actors),
            None => {}
        }
    }
}

/// Every op named by an op.
pub(crate) fn named(op: &Op<'_>) -> impl Iterator<Item = OpId> {
    let obj = match op.obj {
        StoredObjId::Root => None,
        StoredObjId::Op(id) => Some(id),
    };
    let key = match op.key {
        Key::Elem(id) => Some(id),
        Key::Map(_) | Key::Head => None,
    };
    obj.into_iter().chain(key).chain(op.links.iter().copied())
}

/// Rules for an op in any document: all named ops are older by `order`, and the parts fit together.
#[inline]
pub(crate) fn check_by_itself(
    op: &Op<'_>,
    order: impl Fn(OpId, OpId) -> Ordering,
) -> Result<(), OpFault> {
    let older = |id| order(id, op.id).is_lt();
    let object = match op.obj {
        StoredObjId::Root => true,
        StoredObjId::Op(id) => older(id),
    };
    let key = match op.key {
        Key::Elem(id) => older(id),
        Key::Map(_) | Key::Head => true,
    };
    if !(object && key && op.links.iter().all(|id| older(*id))) {
        return Err(OpFault::RefersAhead);
    }
    match op.action {
        Action::Delete if op.insert || op.links.is_empty() => Err(OpFault::MalformedDelete),
        // Deletes have no row in a saved document: anything else said by them would be lost, and
        // with it the hash of their change.
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

//! The objects of a document chunk, built row by row in document order: no insert is integrated,
//! and nothing is looked up but objects.

use std::cmp::Ordering;
use std::sync::Arc;

use shoal_history::{
    Action, DocumentChunk, DocumentRows, InsertRun, Key, ObjId as StoredObjId, Op, OpId, Scalars,
    TextRun,
};

use crate::actors::Actors;
use crate::error::{Error, OpFault};
use crate::id::ObjId;
use crate::names::NameIdx;
use crate::opset::{Data, OpSet, stored};
use crate::register::{ObjIdx, RegOp, Register, Succ};
use crate::sequence::{Builder, NO_OP};
use crate::value::ObjType;

/// Builds the objects of an empty document with known actors. Costs O(n log n) for n rows.
pub(super) fn build(set: &mut OpSet, chunk: &DocumentChunk) -> Result<(), Error> {
    let local: Vec<_> = chunk.actors().iter().map(|actor| set.intern_actor(actor)).collect();
    let mut rows = Rows::new(set);
    let mut ops = chunk.ops();
    let mut links = Vec::new();
    let map = |id: OpId| OpId { counter: id.counter, actor: local[id.actor.as_usize()] };
    let map_object = |obj: StoredObjId| match obj {
        StoredObjId::Root => StoredObjId::Root,
        StoredObjId::Op(id) => StoredObjId::Op(map(id)),
    };
    while let Some(read) = ops.next_rows() {
        let (id, len, pushed) = match read {
            DocumentRows::Text(run) => {
                let run = TextRun {
                    id: map(run.id),
                    obj: map_object(run.obj),
                    reference: run.reference.map(map),
                    succ: run.succ.map(map),
                    ..run
                };
                (run.id, run.len, rows.push_text(&run))
            }
            DocumentRows::Scalars(run, values) => {
                let run = InsertRun {
                    id: map(run.id),
                    obj: map_object(run.obj),
                    reference: run.reference.map(map),
                    succ: run.succ.map(map),
                    ..run
                };
                (run.id, run.len, rows.push_scalars(&run, values))
            }
            DocumentRows::Op(op) => {
                links.clear();
                links.extend(op.links.iter().copied().map(map));
                let op = Op {
                    id: map(op.id),
                    obj: map_object(op.obj),
                    key: match op.key {
                        Key::Elem(id) => Key::Elem(map(id)),
                        key => key,
                    },
                    links: &links,
                    ..op
                };
                (op.id, 1, rows.push(&op))
            }
        };
        if let Err(fault) = pushed {
            let actor = set.actors.id(id.actor).clone();
            let op = ObjId::new(id.counter, actor);
            let row = chunk.op_count() - ops.remaining() - len as usize;
            let row = u32::try_from(row).unwrap_or(u32::MAX);
            return Err(Error::Row { row, column: fault.column(), op, fault });
        }
    }
    rows.finish();
    Ok(())
}

/// Rows on their way into objects.
struct Rows<'a> {
    ops: &'a mut OpSet,
    object: StoredObjId,
    index: ObjIdx,
    /// The register being gathered.
    register: Vec<RegOp>,
    /// The key of a register in a map.
    key: Option<NameIdx>,
    /// True while the keys of the map come in order.
    keys_ascend: bool,
    /// The element of a register in a sequence, and the element before at insertion.
    elem: OpId,
    reference: OpId,
    sequence: Option<Builder>,
    order: InsertOrder,
}

impl<'a> Rows<'a> {
    fn new(ops: &'a mut OpSet) -> Self {
        Self {
            ops,
            object: StoredObjId::Root,
            index: ObjIdx::ROOT,
            register: Vec::new(),
            key: None,
            keys_ascend: true,
            elem: NO_OP,
            reference: NO_OP,
            sequence: None,
            order: InsertOrder::new(),
        }
    }

    fn push(&mut self, op: &Op<'_>) -> Result<(), OpFault> {
        if op.obj != self.object {
            self.enter(op.obj)?;
        }
        match op.key {
            Key::Map(key) if self.sequence.is_none() => {
                if op.insert {
                    return Err(OpFault::WrongKey);
                }
                if self.key.map(|name| self.ops.names.get(name)) != Some(key) {
                    self.flush();
                    self.begin_key(key)?;
                }
            }
            Key::Map(_) => return Err(OpFault::WrongKey),
            _ if self.sequence.is_none() => return Err(OpFault::WrongKey),
            Key::Head if !op.insert => return Err(OpFault::WrongKey),
            Key::Head | Key::Elem(_) if op.insert => {
                self.flush();
                let reference = match op.key {
                    Key::Elem(id) => id,
                    _ => NO_OP,
                };
                self.order.insert(reference, op.id, &self.ops.actors)?;
                (self.elem, self.reference) = (op.id, reference);
            }
            Key::Elem(id) if id != self.elem => return Err(OpFault::RowOrder),
            Key::Head | Key::Elem(_) => self.reopen(),
        }
        let made = match ObjType::made_by(op.action) {
            Some(_) if !self.ops.has_room_below(self.index) => return Err(OpFault::TooDeep),
            Some(kind) => self.ops.add_object(op.id, kind, self.index),
            None => ObjIdx::NONE,
        };
        match op.action {
            Action::Mark if !op.insert => return Err(OpFault::MalformedMark),
            Action::Increment if op.insert => return Err(OpFault::MalformedIncrement),
            _ => {}
        }
        let mut row = stored(op, made);
        row.succ = Succ::from_slice(op.links);
        self.register.push(row);
        self.ops.count_op();
        Ok(())
    }

    /// Takes in a run: nothing else is known of its elements, unless more rows follow.
    fn push_text(&mut self, run: &TextRun<'_>) -> Result<(), OpFault> {
        let TextRun { id, obj, reference, text, len, succ, succ_descends } = *run;
        let run = InsertRun { id, obj, reference, len, succ, succ_descends };
        let reference = self.begin_run(&run)?;
        if let Some(builder) = &mut self.sequence {
            builder.push_text(id, reference, text, succ.map(|succ| (succ, succ_descends)));
        }
        Ok(())
    }

    /// The same of scalars.
    fn push_scalars(&mut self, run: &InsertRun, values: Scalars<'_>) -> Result<(), OpFault> {
        let reference = self.begin_run(run)?;
        if let Some(builder) = &mut self.sequence {
            let succ = run.succ.map(|succ| (succ, run.succ_descends));
            builder.push_scalars(run.id, reference, values.map(|value| value.to_scalar()), succ);
        }
        Ok(())
    }

    /// Handles all of a run but the elements; returns the element before the first one.
    fn begin_run(&mut self, run: &InsertRun) -> Result<OpId, OpFault> {
        if run.obj != self.object {
            self.enter(run.obj)?;
        }
        if self.sequence.is_none() {
            return Err(OpFault::WrongKey);
        }
        self.flush();
        let reference = run.reference.unwrap_or(NO_OP);
        let last = OpId { counter: run.id.counter + (run.len - 1), actor: run.id.actor };
        self.order.insert_run(reference, run.id, last, &self.ops.actors)?;
        self.elem = last;
        // The element before the last one, in case the last becomes a register.
        self.reference = match run.len {
            1 => reference,
            _ => OpId { counter: last.counter - 1, actor: last.actor },
        };
        self.ops.count_ops(run.len);
        Ok(reference)
    }

    /// Another op of the element follows: the element pushed as complete is a register after all.
    fn reopen(&mut self) {
        if self.register.is_empty()
            && let Some(builder) = &mut self.sequence
            && let Some(op) = builder.reopen()
        {
            self.register.push(op);
        }
    }

    fn enter(&mut self, object: StoredObjId) -> Result<(), OpFault> {
        self.flush();
        self.close();
        let index = self.ops.find(object).ok_or(OpFault::UnknownObject)?;
        let StoredObjId::Op(id) = object else { return Err(OpFault::RowOrder) };
        if let StoredObjId::Op(before) = self.object
            && self.ops.actors.compare(before, id) != Ordering::Less
        {
            return Err(OpFault::RowOrder);
        }
        (self.object, self.index) = (object, index);
        (self.elem, self.key, self.keys_ascend) = (NO_OP, None, true);
        self.order = InsertOrder::new();
        self.sequence = match &self.ops.object(index).data {
            Data::Map(_) => None,
            Data::Sequence(sequence) => Some(Builder::new(sequence.unit())),
        };
        Ok(())
    }

    fn begin_key(&mut self, key: &str) -> Result<(), OpFault> {
        self.keys_ascend &= self.key.is_none_or(|last| self.ops.names.get(last) < key);
        let name = self.ops.names.intern(key);
        // Old writers sorted keys by UTF-16 units: any order will do, but no key comes twice.
        if !self.keys_ascend
            && let Data::Map(map) = &self.ops.object(self.index).data
            && map.get(name).is_some()
        {
            return Err(OpFault::RowOrder);
        }
        self.key = Some(name);
        Ok(())
    }

    /// Ends the register, if one is open.
    fn flush(&mut self) {
        if self.register.is_empty() {
            return;
        }
        let ops = &mut self.register;
        if let Some(builder) = &mut self.sequence {
            builder.push(self.elem, self.reference, ops, &self.ops.actors);
        } else if let (Some(name), Some((map, actors))) = (self.key, self.ops.map_mut(self.index)) {
            map.push(name, Register::from_rows(ops, actors));
        }
        self.register.clear();
    }

    /// Ends the object.
    fn close(&mut self) {
        if let Some(builder) = self.sequence.take() {
            let (object, actors) = self.ops.object_mut(self.index);
            object.data = Data::Sequence(Arc::new(builder.finish(actors)));
        } else if self.keys_ascend
            && let Some((map, _)) = self.ops.map_mut(self.index)
        {
            map.note_sorted();
        }
    }

    fn finish(mut self) {
        self.flush();
        self.close();
    }
}

/// Checks that elements come in the only order allowed by their references and ids. Otherwise the
/// same heads could stand for different texts.
struct InsertOrder {
    /// The last element and its ancestors, each with the last element inserted after it so far:
    /// runs of elements each inserted after the one before. The head, ancestor of all, is kept
    /// apart.
    path: Vec<Chain>,
    last_at_head: OpId,
}

/// Elements each inserted after the one before; the last of them is the last element so far, or an
/// ancestor of it.
struct Chain {
    first: OpId,
    last: OpId,
    /// The last element inserted after the last of the chain; the others have one in the chain.
    after_last: OpId,
}

impl Chain {
    fn contains(&self, id: OpId) -> bool {
        id.actor == self.first.actor
            && (self.first.counter..=self.last.counter).contains(&id.counter)
    }
}

impl InsertOrder {
    fn new() -> Self {
        Self { path: Vec::new(), last_at_head: NO_OP }
    }

    fn insert(&mut self, reference: OpId, id: OpId, actors: &Actors) -> Result<(), OpFault> {
        self.insert_run(reference, id, id, actors)
    }

    /// Inserts elements from `first` to `last`, each after the one before.
    fn insert_run(
        &mut self,
        reference: OpId,
        first: OpId,
        last: OpId,
        actors: &Actors,
    ) -> Result<(), OpFault> {
        while self.path.last().is_some_and(|chain| !chain.contains(reference)) {
            self.path.pop();
        }
        let before = match self.path.last_mut() {
            Some(chain) if chain.last == reference => &mut chain.after_last,
            Some(chain) => {
                // Descendants of an element within the chain come after the element's follower
                // there.
                chain.after_last = OpId { counter: reference.counter + 1, actor: reference.actor };
                chain.last = reference;
                &mut chain.after_last
            }
            None if reference == NO_OP => &mut self.last_at_head,
            None => return Err(OpFault::RowOrder),
        };
        if *before != NO_OP && actors.compare(*before, first) != Ordering::Greater {
            return Err(OpFault::RowOrder);
        }
        let is_first = *before == NO_OP;
        *before = first;
        let follows = OpId { counter: reference.counter + 1, actor: reference.actor } == first;
        match self.path.last_mut() {
            // A longer chain, as long as nothing else hangs on its last element.
            Some(chain) if is_first && follows => {
                chain.last = last;
                chain.after_last = NO_OP;
            }
            _ => self.path.push(Chain { first, last, after_last: NO_OP }),
        }
        Ok(())
    }
}

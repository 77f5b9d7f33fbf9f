//! Objects still in the rows of a document chunk, and the building of one of them.
//!
//! Loading checks the ids, keys and actions of all rows (`load/build.rs`): every rule on the order
//! of rows is about these. Values are left alone. The first look at an object builds the object,
//! without another check and without a look at others.

use shoal_history::{
    ActorIdx, DocumentOps, DocumentRows, InsertRun, Key, ObjId as StoredObjId, Op, OpId, OpRows,
    TextRun,
};

use crate::actors::Actors;
use crate::map::MapObject;
use crate::names::NameIdx;
use crate::register::{ObjIdx, RegOp, Register, Succ};
use crate::sequence::{Builder, NO_OP, Sequence, Unit};
use crate::value::ObjType;

/// The rows of a chunk, and the document's numbers of their actors and keys.
#[derive(Debug)]
pub(crate) struct Rows {
    rows: OpRows,
    /// The document's actors, by the chunk's.
    actors: Box<[ActorIdx]>,
    /// The document's names, by the numbers of the chunk's strings; `None` for names of marks.
    names: Box<[Option<NameIdx>]>,
}

/// The rows of one object.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    /// The first group, and the one behind the last.
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// True for a map with its keys in order.
    pub(crate) keys_ascend: bool,
    /// True for rows of each key or element in the order of their ids.
    pub(crate) ids_ascend: bool,
}

impl Rows {
    pub(crate) fn new(
        rows: OpRows,
        actors: Box<[ActorIdx]>,
        names: Box<[Option<NameIdx>]>,
    ) -> Rows {
        Rows { rows, actors, names }
    }

    /// The document's actors, by the chunk's.
    pub(crate) fn actors(&self) -> &[ActorIdx] {
        &self.actors
    }

    /// The rows of an object, with the chunk's actors.
    pub(crate) fn ops(&self, span: Span) -> DocumentOps<'_> {
        self.rows.ops(span.first, span.end)
    }

    /// The id of a row, or of a successor, by the document's actors.
    fn id(&self, id: OpId) -> OpId {
        OpId { counter: id.counter, actor: self.actors[id.actor.as_usize()] }
    }

    /// The op of a row for its register. `made` gives the object made by an op.
    fn op(&self, op: &Op<'_>, links: &mut Vec<OpId>, made: impl Fn(OpId) -> ObjIdx) -> RegOp {
        links.clear();
        links.extend(op.links.iter().map(|id| self.id(*id)));
        let id = self.id(op.id);
        let object = ObjType::made_by(op.action).map_or(ObjIdx::NONE, |_| made(id));
        let mut row = RegOp::of(&Op { id, obj: StoredObjId::Root, ..*op }, object);
        row.succ = Succ::from_slice(links);
        row
    }

    /// Builds a map.
    pub(crate) fn map(
        &self,
        span: Span,
        actors: &Actors,
        made: impl Fn(OpId) -> ObjIdx,
    ) -> MapObject {
        let mut map = MapObject::default();
        let (mut register, mut links) = (Vec::new(), Vec::new());
        let mut last = None;
        let mut ops = self.ops(span);
        loop {
            let number = ops.next_key();
            let name = number.and_then(|number| self.names[number as usize]);
            if name != last || number.is_none() {
                if let Some(name) = last {
                    map.push(name, Register::from_rows(&mut register, actors));
                    register.clear();
                }
                last = name;
            }
            let Some(op) = ops.next_op() else { break };
            register.push(self.op(&op, &mut links, &made));
        }
        if span.keys_ascend {
            map.note_sorted();
        }
        map
    }

    /// Builds a list or text.
    pub(crate) fn sequence(
        &self,
        span: Span,
        unit: Unit,
        actors: &Actors,
        made: impl Fn(OpId) -> ObjIdx,
    ) -> Sequence {
        let mut elements = Elements::new(Builder::new(unit), actors);
        let mut links = Vec::new();
        let mut ops = self.ops(span);
        while let Some(read) = ops.next_rows() {
            match read {
                DocumentRows::Op(op) => {
                    match op.key {
                        Key::Elem(id) if op.insert => elements.begin(self.id(op.id), self.id(id)),
                        _ if op.insert => elements.begin(self.id(op.id), NO_OP),
                        _ => elements.reopen(),
                    }
                    elements.register.push(self.op(&op, &mut links, &made));
                }
                DocumentRows::Text(run) => {
                    let TextRun { id, obj, reference, text, len, succ, succ_descends } = run;
                    let run = InsertRun { id, obj, reference, len, succ, succ_descends };
                    let (id, reference, succ) = self.begin_run(&mut elements, &run);
                    elements.builder.push_text(id, reference, text, succ);
                }
                DocumentRows::Scalars(run, values) => {
                    let (id, reference, succ) = self.begin_run(&mut elements, &run);
                    let values = values.map(|value| value.to_scalar());
                    elements.builder.push_scalars(id, reference, values, succ);
                }
            }
        }
        elements.finish()
    }

    /// Begins the elements of a run; gives the first, the one before, and the op deleting the first
    /// with the direction of the other deletes.
    fn begin_run(
        &self,
        elements: &mut Elements<'_>,
        run: &InsertRun,
    ) -> (OpId, OpId, Option<(OpId, bool)>) {
        let id = self.id(run.id);
        let reference = run.reference.map_or(NO_OP, |id| self.id(id));
        elements.begin_run(id, reference, run.len);
        (id, reference, run.succ.map(|succ| (self.id(succ), run.succ_descends)))
    }
}

/// Elements on their way into a sequence.
struct Elements<'a> {
    builder: Builder,
    actors: &'a Actors,
    /// The ops of the element being gathered.
    register: Vec<RegOp>,
    /// The element, and the one before at insertion.
    elem: OpId,
    reference: OpId,
}

impl<'a> Elements<'a> {
    fn new(builder: Builder, actors: &'a Actors) -> Self {
        Elements { builder, actors, register: Vec::new(), elem: NO_OP, reference: NO_OP }
    }

    fn begin(&mut self, elem: OpId, reference: OpId) {
        self.flush();
        (self.elem, self.reference) = (elem, reference);
    }

    /// Begins elements known whole, unless more rows of the last one follow.
    fn begin_run(&mut self, first: OpId, reference: OpId, len: u32) {
        self.flush();
        self.elem = OpId { counter: first.counter + (len - 1), actor: first.actor };
        self.reference = match len {
            1 => reference,
            _ => OpId { counter: self.elem.counter - 1, actor: first.actor },
        };
    }

    /// Another op of the element follows: an element pushed as complete is a register after all.
    fn reopen(&mut self) {
        if self.register.is_empty()
            && let Some(op) = self.builder.reopen()
        {
            self.register.push(op);
        }
    }

    /// Ends the register, if one is open.
    fn flush(&mut self) {
        if !self.register.is_empty() {
            self.builder.push(self.elem, self.reference, &mut self.register, self.actors);
            self.register.clear();
        }
    }

    fn finish(mut self) -> Sequence {
        self.flush();
        self.builder.finish(self.actors)
    }
}

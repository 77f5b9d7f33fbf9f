//! The elements of a sequence: 32 bytes each, with what does not fit kept aside.

use std::slice;
use std::sync::Arc;

use shoal_history::{Action, ActorIdx, OpId, Scalar, ScalarRef};

use crate::register::{ObjIdx, OpRef, RegOp, Register, Succ};
use crate::value::{OBJECT_REPLACEMENT, TextEncoding};

/// No op: the reference of an element at the head, the successor of a visible one.
pub(crate) const NO_OP: OpId = OpId { counter: 0, actor: ActorIdx(0) };

/// Whether indexes count elements, or units of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Element,
    Text(TextEncoding),
}

/// One element: the op that inserted it, if that op is all there is; otherwise its register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elem {
    /// The op that inserted it.
    pub(crate) id: OpId,
    /// The element it was inserted after; [`NO_OP`] at the head.
    pub(crate) reference: OpId,
    /// The only op that supersedes the insert; [`NO_OP`] when there is none. A second one moves
    /// the element to a register.
    succ: OpId,
    payload: [u8; 4],
    kind: Kind,
    /// Of a [`Kind::Char`] the bytes used, of a [`Kind::Object`] the code of its make action.
    detail: u8,
}

/// What the payload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A string of one character, in UTF-8.
    Char,
    /// The index of a scalar in [`Sides::scalars`].
    Scalar,
    /// An [`ObjIdx`].
    Object,
    /// The index of a mark in [`Sides::marks`].
    Mark,
    /// The index of a register in [`Sides::registers`].
    Register,
}

/// What an element counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// 1 if readers see it.
    pub(crate) visible: u32,
    /// 1 if it is a mark that is not deleted.
    pub(crate) marks: u32,
    /// Its length in the index unit of the sequence.
    pub(crate) width: u64,
}

/// What elements keep outside of the tree.
#[derive(Clone, Debug)]
pub(crate) struct Sides {
    pub(crate) unit: Unit,
    scalars: Slab<(Scalar, u64)>,
    marks: Slab<Mark>,
    registers: Slab<(Register, Measure)>,
}

#[derive(Clone, Debug)]
struct Mark {
    expand: bool,
    name: Option<Arc<str>>,
    value: Scalar,
}

impl Elem {
    /// The element that `op` inserts after `reference`; what does not fit goes to `sides`.
    pub(crate) fn new(reference: OpId, op: RegOp, sides: &mut Sides) -> Self {
        let mut elem = Self {
            id: op.id,
            reference,
            succ: NO_OP,
            payload: [0; 4],
            kind: Kind::Register,
            detail: 0,
        };
        match &op.succ {
            Succ::None => {}
            Succ::One(id) if !matches!(op.value, Scalar::Counter(_)) => elem.succ = *id,
            _ => return elem.with_register(Register::new(op), sides),
        }
        let is_mark = op.action == Action::Mark;
        if !is_mark && (op.expand || op.mark_name.is_some()) {
            elem.succ = NO_OP;
            return elem.with_register(Register::new(op), sides);
        }
        match (op.action, op.value) {
            (Action::Set, Scalar::Str(text)) if fits(&text) => elem.set_char(&text),
            (Action::Set, value) => {
                let width = sides.scalar_width(value.as_ref());
                elem.kind = Kind::Scalar;
                elem.payload = sides.scalars.add((value, width)).to_le_bytes();
            }
            (Action::Mark, value) => {
                elem.kind = Kind::Mark;
                let mark = Mark { expand: op.expand, name: op.mark_name, value };
                elem.payload = sides.marks.add(mark).to_le_bytes();
            }
            (action, Scalar::Null) => {
                elem.kind = Kind::Object;
                elem.detail = action as u8;
                elem.payload = op.object.0.to_le_bytes();
            }
            (action, value) => {
                elem.succ = NO_OP;
                let op = RegOp { action, value, mark_name: None, ..op };
                return elem.with_register(Register::new(op), sides);
            }
        }
        elem
    }

    /// The element that inserts the character `text` holds.
    pub(crate) fn character(id: OpId, reference: OpId, text: &str) -> Self {
        let mut elem =
            Self { id, reference, succ: NO_OP, payload: [0; 4], kind: Kind::Char, detail: 0 };
        elem.set_char(text);
        elem
    }

    /// The element inserted after `reference` whose ops are those of `register`.
    pub(crate) fn of_register(
        id: OpId,
        reference: OpId,
        register: Register,
        sides: &mut Sides,
    ) -> Self {
        let kind = Kind::Register;
        Self { id, reference, succ: NO_OP, payload: [0; 4], kind, detail: 0 }
            .with_register(register, sides)
    }

    fn set_char(&mut self, text: &str) {
        self.kind = Kind::Char;
        self.detail = text.len() as u8;
        self.payload[..text.len()].copy_from_slice(text.as_bytes());
    }

    fn with_register(mut self, register: Register, sides: &mut Sides) -> Self {
        let measure = sides.measure_register(&register);
        self.kind = Kind::Register;
        self.payload = sides.registers.add((register, measure)).to_le_bytes();
        self
    }

    fn side(&self) -> u32 {
        u32::from_le_bytes(self.payload)
    }

    fn char_str(&self) -> &str {
        std::str::from_utf8(&self.payload[..usize::from(self.detail)])
            .expect("the payload of a character is the UTF-8 it was made of")
    }

    /// What the element counts for.
    #[inline]
    pub(crate) fn measure(&self, sides: &Sides) -> Measure {
        match self.kind {
            Kind::Register => sides.registers.get(self.side()).1,
            _ if self.succ != NO_OP => Measure::default(),
            Kind::Mark => Measure { visible: 0, marks: 1, width: 0 },
            Kind::Scalar => {
                Measure { visible: 1, marks: 0, width: sides.scalars.get(self.side()).1 }
            }
            Kind::Char | Kind::Object => Measure { visible: 1, marks: 0, width: 1 },
        }
    }

    /// The visible ops, ascending by id, so that the last is the winner.
    pub(crate) fn visible<'a>(
        &'a self,
        sides: &'a Sides,
    ) -> impl DoubleEndedIterator<Item = OpRef<'a>> + Clone {
        let register =
            (self.kind == Kind::Register).then(|| sides.registers.get(self.side()).0.visible());
        let single = (self.kind != Kind::Register && self.succ == NO_OP).then(|| self.op(sides));
        single.into_iter().chain(register.into_iter().flatten())
    }

    /// The op that readers see, if any is visible.
    pub(crate) fn winner<'a>(&'a self, sides: &'a Sides) -> Option<OpRef<'a>> {
        self.visible(sides).next_back()
    }

    /// Every op of the element, the insert first, then ascending by id.
    pub(crate) fn rows<'a>(
        &'a self,
        sides: &'a Sides,
        actors: &crate::actors::Actors,
        rows: &mut Vec<OpRef<'a>>,
    ) {
        match self.kind {
            Kind::Register => sides.registers.get(self.side()).0.rows(actors, rows),
            _ => rows.push(self.op(sides)),
        }
    }

    /// Whether the element was inserted as the begin of a mark.
    pub(crate) fn is_mark_begin(&self, sides: &Sides) -> bool {
        let is_begin = |op: OpRef<'_>| op.action == Action::Mark && op.mark_name.is_some();
        match self.kind {
            Kind::Register => sides.registers.get(self.side()).0.get(self.id).is_some_and(is_begin),
            _ => is_begin(self.op(sides)),
        }
    }

    /// Appends what a text reads here.
    pub(crate) fn push_text(&self, sides: &Sides, text: &mut String) {
        match self.kind {
            Kind::Char if self.succ == NO_OP => text.push_str(self.char_str()),
            Kind::Char => {}
            _ => text.push_str(self.winner(sides).map_or("", |op| op_text(&op))),
        }
    }

    /// The single op of an element that has no register.
    fn op<'a>(&'a self, sides: &'a Sides) -> OpRef<'a> {
        let mut op = OpRef {
            id: self.id,
            action: Action::Set,
            expand: false,
            object: ObjIdx::NONE,
            value: ScalarRef::Null,
            mark_name: None,
            succ: if self.succ == NO_OP { &[] } else { slice::from_ref(&self.succ) },
        };
        match self.kind {
            Kind::Char => op.value = ScalarRef::Str(self.char_str()),
            Kind::Scalar => op.value = sides.scalars.get(self.side()).0.as_ref(),
            Kind::Object => {
                op.action = Action::from_code(self.detail.into())
                    .expect("the detail of an object is the code of an action");
                op.object = ObjIdx(self.side());
            }
            Kind::Mark => {
                let mark = sides.marks.get(self.side());
                op.action = Action::Mark;
                op.expand = mark.expand;
                op.value = mark.value.as_ref();
                op.mark_name = mark.name.as_deref();
            }
            Kind::Register => unreachable!("callers ask for single ops only"),
        }
        op
    }

    /// The register of the element, made from its single op if it has none yet. `change` may do
    /// with it what it likes; afterwards the element is measured anew.
    pub(crate) fn with_register_mut(
        &mut self,
        sides: &mut Sides,
        change: impl FnOnce(&mut Register),
    ) {
        if self.kind != Kind::Register {
            let op = self.take_op(sides);
            *self = self.with_register(Register::new(op), sides);
            self.succ = NO_OP;
        }
        let side = self.side();
        let slot = sides.registers.get_mut(side);
        change(&mut slot.0);
        let measure = {
            let register = &sides.registers.get(side).0;
            sides.measure_register(register)
        };
        sides.registers.get_mut(side).1 = measure;
    }

    /// Deletes the element by the op `id` without a register, if that is possible.
    pub(crate) fn delete_simply(&mut self, id: OpId, preds: &[OpId]) -> bool {
        let possible = self.kind != Kind::Register && self.succ == NO_OP && preds == [self.id];
        if possible {
            self.succ = id;
        }
        possible
    }

    /// Takes back what [`Elem::delete_simply`] did, if it did it.
    pub(crate) fn undelete_simply(&mut self, id: OpId) -> bool {
        let possible = self.kind != Kind::Register && self.succ == id;
        if possible {
            self.succ = NO_OP;
        }
        possible
    }

    /// The first of `ids` that is no op of this element.
    pub(crate) fn first_unknown(&self, ids: &[OpId], sides: &Sides) -> Option<OpId> {
        match self.kind {
            Kind::Register => sides.registers.get(self.side()).0.first_unknown(ids),
            _ => ids.iter().copied().find(|id| *id != self.id),
        }
    }

    /// Frees what the element keeps in `sides`; it is not used again.
    pub(crate) fn release(&self, sides: &mut Sides) {
        match self.kind {
            Kind::Char | Kind::Object => {}
            Kind::Scalar => drop(sides.scalars.take(self.side())),
            Kind::Mark => drop(sides.marks.take(self.side())),
            Kind::Register => drop(sides.registers.take(self.side())),
        }
    }

    /// The single op of an element without a register, taken out of `sides`.
    pub(super) fn take_op(&self, sides: &mut Sides) -> RegOp {
        let view = self.op(sides);
        let op = RegOp {
            id: view.id,
            action: view.action,
            expand: view.expand,
            object: view.object,
            value: view.value.to_scalar(),
            mark_name: view.mark_name.map(Arc::from),
            succ: Succ::from_slice(view.succ),
        };
        self.release(sides);
        op
    }
}

impl Sides {
    pub(crate) fn new(unit: Unit) -> Self {
        Self { unit, scalars: Slab::default(), marks: Slab::default(), registers: Slab::default() }
    }

    fn scalar_width(&self, value: ScalarRef<'_>) -> u64 {
        match (self.unit, value) {
            (Unit::Text(encoding), ScalarRef::Str(text)) => encoding.width(text) as u64,
            _ => 1,
        }
    }

    fn measure_register(&self, register: &Register) -> Measure {
        match register.winner() {
            None => Measure::default(),
            Some(op) if op.action == Action::Mark => Measure { visible: 0, marks: 1, width: 0 },
            Some(op) => Measure { visible: 1, marks: 0, width: self.scalar_width(op.value) },
        }
    }
}

/// What a text reads where `op` wins.
pub(crate) fn op_text<'a>(op: &OpRef<'a>) -> &'a str {
    match (op.action, op.value) {
        (Action::Set, ScalarRef::Str(text)) => text,
        (Action::Mark, _) => "",
        _ => OBJECT_REPLACEMENT,
    }
}

/// Whether `text` is one character, so that an element holds it inline.
pub(super) fn fits(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some() && chars.next().is_none()
}

/// Values by index, with freed places used again.
#[derive(Clone, Debug)]
struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn add(&mut self, item: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.items[at as usize] = Some(item);
            return at;
        }
        let at = u32::try_from(self.items.len()).expect("elements are limited to 32 bits");
        self.items.push(Some(item));
        at
    }

    fn get(&self, at: u32) -> &T {
        self.items[at as usize].as_ref().expect("a side index names a used place")
    }

    fn get_mut(&mut self, at: u32) -> &mut T {
        self.items[at as usize].as_mut().expect("a side index names a used place")
    }

    fn take(&mut self, at: u32) -> Option<T> {
        let item = self.items[at as usize].take();
        self.free.push(at);
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_takes_32_bytes() {
        assert_eq!(size_of::<Elem>(), 32);
    }
}

//! Runs: consecutive elements of one actor, each inserted after the one before, kept as one.
//!
//! In such elements everything follows from the first: ids count up, each refers to the one before,
//! all insert a character (or all a scalar). Their deletes, if any, have ids counting up or down
//! along. Any other element is a run of one.

use shoal_history::{Action, ActorIdx, OpId, Scalar, ScalarRef};

use super::scalars::ScalarsView;
use crate::actors::Actors;
use crate::register::{ObjIdx, OpRef, RegOp, Register, SuccRef};
use crate::slots::Slab;
use crate::value::{OBJECT_REPLACEMENT, TextEncoding};

/// No op: the reference of an element at the head, the successor of a visible one.
pub(crate) const NO_OP: OpId = OpId { counter: 0, actor: ActorIdx(0) };

/// The unit of indexes: elements, or units of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Element,
    Text(TextEncoding),
}

impl Unit {
    /// The width of `text`, made of `count` elements.
    pub(crate) fn width(self, text: &str, count: u32) -> u32 {
        match self {
            Self::Element => count,
            // Characters of one op each stay apart, whatever they look like together.
            Self::Text(TextEncoding::GraphemeCluster) if count > 1 => count,
            Self::Text(encoding) => clamp(encoding.width(text)),
        }
    }
}

/// The contents of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Strings of one character each, in the text of the leaf.
    Chars,
    /// Scalars, in the leaf.
    Scalars,
    /// One object.
    Object,
    /// One mark.
    Mark,
    /// One element with more ops than the insert and a delete.
    Register,
}

/// The visible state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    Nothing,
    Values,
    /// A mark counts, but takes no place.
    Mark,
}

/// Consecutive elements; some kinds of runs hold only one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The insert op of the first element.
    pub(crate) id: OpId,
    /// The element before the first at insertion; [`NO_OP`] at the head.
    pub(crate) reference: OpId,
    /// The only op superseding the first element; [`NO_OP`] without one, and in registers, with
    /// lists of their own.
    pub(crate) succ: OpId,
    pub(crate) len: u32,
    /// The length in the index unit, as if visible.
    pub(crate) width: u32,
    /// For [`Kind::Chars`] the bytes, for an object the [`ObjIdx`], for a mark or a register the
    /// index in [`Sides`].
    pub(crate) extent: u32,
    pub(crate) kind: Kind,
    pub(crate) shows: Shows,
    /// True if the ids of the deletes count down while the ids of the elements count up.
    pub(crate) succ_descends: bool,
    /// For an object the code of the make action.
    pub(crate) detail: u8,
}

/// The share of elements in the counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure {
    /// How many readers see.
    pub(crate) visible: u32,
    /// The number of marks not deleted.
    pub(crate) marks: u32,
    /// Their length in the index unit of the sequence.
    pub(crate) width: u64,
}

impl Run {
    /// A run of characters without a superseding op.
    pub(crate) fn chars(id: OpId, reference: OpId, text: &str, len: u32, unit: Unit) -> Self {
        Self {
            id,
            reference,
            succ: NO_OP,
            len,
            width: unit.width(text, len),
            extent: clamp(text.len()),
            kind: Kind::Chars,
            shows: Shows::Values,
            succ_descends: false,
            detail: 0,
        }
    }

    /// A run of scalars without a superseding op, none a string; in a text only one.
    pub(super) fn scalars(id: OpId, reference: OpId, len: u32, unit: Unit) -> Self {
        let width = len * scalar_width(ScalarRef::Null, unit);
        Self { len, width, ..Self::single(id, reference, Kind::Scalars, 0) }
    }

    /// A run of one without a superseding op.
    pub(super) fn single(id: OpId, reference: OpId, kind: Kind, extent: u32) -> Self {
        let shows = if kind == Kind::Mark { Shows::Mark } else { Shows::Values };
        Self {
            id,
            reference,
            succ: NO_OP,
            len: 1,
            width: u32::from(kind != Kind::Mark),
            extent,
            kind,
            shows,
            succ_descends: false,
            detail: 0,
        }
    }

    pub(super) fn measure(&self) -> Measure {
        match self.shows {
            Shows::Nothing => Measure::default(),
            Shows::Values => Measure { visible: self.len, marks: 0, width: self.width.into() },
            Shows::Mark => Measure { visible: 0, marks: 1, width: 0 },
        }
    }

    /// The visible state without superseding ops.
    fn shown(&self) -> Shows {
        if self.kind == Kind::Mark { Shows::Mark } else { Shows::Values }
    }

    /// The id of the element at `at`.
    #[inline]
    pub(crate) fn id_at(&self, at: u32) -> OpId {
        OpId { counter: self.id.counter + at, actor: self.id.actor }
    }

    pub(crate) fn reference_at(&self, at: u32) -> OpId {
        at.checked_sub(1).map_or(self.reference, |before| self.id_at(before))
    }

    /// The op deleting the element at `at`; [`NO_OP`] without one, and in a register.
    pub(crate) fn succ_at(&self, at: u32) -> OpId {
        if self.succ == NO_OP {
            return NO_OP;
        }
        let counter =
            if self.succ_descends { self.succ.counter - at } else { self.succ.counter + at };
        OpId { counter, actor: self.succ.actor }
    }

    /// Where in the run the element `id` is.
    #[inline]
    pub(super) fn position(&self, id: OpId) -> Option<u32> {
        let at = id.counter.checked_sub(self.id.counter)?;
        (id.actor == self.id.actor && at < self.len).then_some(at)
    }

    /// True if the run may have more than one element.
    fn is_extensible(&self) -> bool {
        match self.kind {
            Kind::Chars => true,
            // Scalars in a text may be wide, each in its own way, and stay alone.
            Kind::Scalars => self.width == self.len,
            Kind::Object | Kind::Mark | Kind::Register => false,
        }
    }

    /// Supersedes all elements by ops whose ids count up from `id`, or down.
    pub(super) fn delete(&mut self, id: OpId, descends: bool) {
        self.succ = id;
        self.succ_descends = descends && self.len > 1;
        self.shows = Shows::Nothing;
    }

    /// Takes [`Run::delete`] back.
    pub(super) fn undelete(&mut self) {
        self.succ = NO_OP;
        self.succ_descends = false;
        self.shows = self.shown();
    }

    /// Takes `next`, right behind this run, into this run, if the two can be one.
    pub(super) fn join(&mut self, next: &Self) -> bool {
        if self.kind != next.kind
            || next.id != self.id_at(self.len)
            || next.reference != self.id_at(self.len - 1)
            || !(self.is_extensible() && next.is_extensible())
        {
            return false;
        }
        if self.succ != NO_OP || next.succ != NO_OP {
            let Some(descends) = self.common_direction(next) else { return false };
            self.succ_descends = descends;
        }
        self.len += next.len;
        self.width += next.width;
        self.extent += next.extent;
        true
    }

    /// `Some` if the deletes of this run and the next count in one direction; true for down.
    fn common_direction(&self, next: &Self) -> Option<bool> {
        if self.succ == NO_OP || next.succ == NO_OP || self.succ.actor != next.succ.actor {
            return None;
        }
        let last = self.succ_at(self.len - 1).counter;
        let descends = if next.succ.counter.checked_sub(1) == Some(last) {
            false
        } else if last.checked_sub(1) == Some(next.succ.counter) {
            true
        } else {
            return None;
        };
        let fits = |run: &Self| run.len == 1 || run.succ_descends == descends;
        (fits(self) && fits(next)).then_some(descends)
    }

    /// Keeps the first `at` elements, of these `bytes` in the text and this `width` in the index,
    /// and returns the others.
    pub(super) fn divide(&mut self, at: u32, bytes: u32, width: u32) -> Self {
        let rest = Self {
            id: self.id_at(at),
            reference: self.reference_at(at),
            succ: self.succ_at(at),
            len: self.len - at,
            width: self.width - width,
            extent: self.extent - bytes,
            ..*self
        };
        (self.len, self.width, self.extent) = (at, width, bytes);
        rest
    }
}

/// A run together with its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunView<'a> {
    pub(crate) run: &'a Run,
    /// For [`Kind::Chars`].
    pub(crate) text: &'a str,
    /// For [`Kind::Scalars`].
    pub(crate) scalars: ScalarsView<'a>,
}

impl<'a> RunView<'a> {
    /// True for characters with at most one delete each.
    pub(crate) fn is_text(&self) -> bool {
        self.run.kind == Kind::Chars
    }

    /// The byte of the character at `at`.
    pub(super) fn byte_at(&self, at: u32) -> usize {
        if self.run.extent == self.run.len {
            return at as usize;
        }
        self.text.char_indices().nth(at as usize).map_or(self.text.len(), |(byte, _)| byte)
    }

    /// For [`Kind::Chars`] the characters of these elements; else nothing.
    pub(crate) fn text_of(&self, elems: &std::ops::Range<u32>) -> &'a str {
        match self.run.kind {
            Kind::Chars => &self.text[self.byte_at(elems.start)..self.byte_at(elems.end)],
            _ => "",
        }
    }

    /// The character at `at`.
    fn char_at(&self, at: u32) -> &'a str {
        let rest = &self.text[self.byte_at(at)..];
        let len = rest.chars().next().map_or(0, char::len_utf8);
        &rest[..len]
    }

    /// The length of the element at `at` in the index unit.
    pub(super) fn width_at(&self, at: u32, unit: Unit) -> u32 {
        if self.run.len == self.run.width {
            return 1;
        }
        match self.run.kind {
            Kind::Chars => unit.width(self.char_at(at), 1),
            _ => self.run.width,
        }
    }

    /// The length of the elements before `at` in the index unit.
    pub(super) fn width_before(&self, at: u32, unit: Unit) -> u32 {
        if self.run.len == self.run.width {
            return at;
        }
        match self.run.kind {
            Kind::Chars => unit.width(&self.text[..self.byte_at(at)], at),
            _ => 0,
        }
    }

    /// The element covering the index `index` of the run, and the index of its begin.
    pub(super) fn find(&self, index: u64, unit: Unit) -> (u32, u64) {
        if self.run.len == self.run.width {
            return (u32::try_from(index).unwrap_or(u32::MAX), index);
        }
        let (mut at, mut start) = (0, 0);
        if self.run.kind == Kind::Chars {
            let mut buffer = [0; 4];
            for character in self.text.chars() {
                let width = u64::from(unit.width(character.encode_utf8(&mut buffer), 1));
                if index < start + width {
                    break;
                }
                start += width;
                at += 1;
            }
        }
        (at, start)
    }

    /// The element at `at`.
    pub(crate) fn elem(&self, at: u32) -> ElemView<'a> {
        let text = if self.run.kind == Kind::Chars { self.char_at(at) } else { "" };
        ElemView { run: self.run, at, text, scalar: self.scalars.get(at as usize) }
    }

    /// Appends the visible text.
    pub(super) fn push_text(&self, sides: &Sides, text: &mut String) {
        if self.run.shows != Shows::Values {
            return;
        }
        if self.run.kind == Kind::Chars {
            text.push_str(self.text);
            return;
        }
        for at in 0..self.run.len {
            if let Some(winner) = self.elem(at).winner(sides) {
                text.push_str(op_text(&winner));
            }
        }
    }
}

/// One element with its contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElemView<'a> {
    /// The run of the element, and the place in the run.
    pub(crate) run: &'a Run,
    pub(crate) at: u32,
    /// For [`Kind::Chars`].
    pub(super) text: &'a str,
    /// For [`Kind::Scalars`].
    pub(super) scalar: Option<ScalarRef<'a>>,
}

impl<'a> ElemView<'a> {
    /// The insert op.
    pub(crate) fn id(&self) -> OpId {
        self.run.id_at(self.at)
    }

    /// The register, if the element has one.
    pub(crate) fn register(&self, sides: &'a Sides) -> Option<&'a Register> {
        (self.run.kind == Kind::Register).then(|| sides.register(self.run))
    }

    /// The insert op of an element without a register.
    pub(crate) fn op(&self, sides: &'a Sides) -> OpRef<'a> {
        let run = self.run;
        let mut op = OpRef {
            id: self.id(),
            action: Action::Set,
            expand: false,
            object: ObjIdx::NONE,
            value: ScalarRef::Null,
            mark_name: None,
            succ: match run.succ_at(self.at) {
                NO_OP => SuccRef::None,
                id => SuccRef::One(id),
            },
        };
        match run.kind {
            Kind::Chars => op.value = ScalarRef::Str(self.text),
            Kind::Scalars => op.value = self.scalar.unwrap_or(ScalarRef::Null),
            Kind::Object => {
                op.action = Action::from_code(run.detail.into())
                    .expect("the detail of an object is the code of an action");
                op.object = ObjIdx(run.extent);
            }
            Kind::Mark => {
                let mark = sides.mark(run);
                op.action = Action::Mark;
                op.expand = mark.expand;
                op.value = mark.value.as_ref();
                op.mark_name = mark.name.as_deref();
            }
            Kind::Register => unreachable!("callers ask a register for its ops"),
        }
        op
    }

    /// The visible ops, ascending by id, the winner last.
    pub(crate) fn visible(
        self,
        sides: &'a Sides,
    ) -> impl DoubleEndedIterator<Item = OpRef<'a>> + Clone {
        let register = self.register(sides);
        let is_single = register.is_none() && self.run.shows != Shows::Nothing;
        let single = is_single.then(|| self.op(sides));
        single.into_iter().chain(register.into_iter().flat_map(Register::visible))
    }

    /// The winner, if any op is visible.
    pub(crate) fn winner(&self, sides: &'a Sides) -> Option<OpRef<'a>> {
        self.visible(sides).next_back()
    }

    /// True if inserted as the begin of a mark.
    pub(super) fn is_mark_begin(&self, sides: &'a Sides) -> bool {
        let is_begin = |op: OpRef<'_>| op.action == Action::Mark && op.mark_name.is_some();
        match self.register(sides) {
            Some(register) => register.get(self.id()).is_some_and(is_begin),
            None => is_begin(self.op(sides)),
        }
    }

    /// Every op, the insert first, then ascending by id.
    pub(crate) fn rows(&self, sides: &'a Sides, actors: &Actors, rows: &mut Vec<OpRef<'a>>) {
        match self.register(sides) {
            Some(register) => register.rows(actors, rows),
            None => rows.push(self.op(sides)),
        }
    }

    /// The first of `ids` without an op in the element.
    pub(super) fn first_unknown(&self, ids: &[OpId], sides: &Sides) -> Option<OpId> {
        match self.register(sides) {
            Some(register) => register.first_unknown(ids),
            None => ids.iter().copied().find(|id| *id != self.id()),
        }
    }
}

/// The text of an element won by `op`.
fn op_text<'a>(op: &OpRef<'a>) -> &'a str {
    match (op.action, op.value) {
        (Action::Set, ScalarRef::Str(text)) => text,
        (Action::Mark, _) => "",
        _ => OBJECT_REPLACEMENT,
    }
}

/// The parts of runs outside of the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sides {
    marks: Slab<Mark>,
    registers: Slab<Register>,
}

#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) expand: bool,
    pub(super) name: Option<std::sync::Arc<str>>,
    pub(super) value: Scalar,
}

impl Sides {
    pub(super) fn add_mark(&mut self, mark: Mark) -> u32 {
        self.marks.add(mark)
    }

    pub(super) fn add_register(&mut self, register: Register) -> u32 {
        self.registers.add(register)
    }

    fn mark(&self, run: &Run) -> &Mark {
        self.marks.get(run.extent).expect("a run of a mark names its place")
    }

    fn register(&self, run: &Run) -> &Register {
        self.registers.get(run.extent).expect("a run of a register names its place")
    }

    pub(super) fn register_mut(&mut self, run: &Run) -> &mut Register {
        self.registers.get_mut(run.extent).expect("a run of a register names its place")
    }

    /// Frees the parts of a run, not to be used again.
    pub(super) fn release(&mut self, run: &Run) {
        match run.kind {
            Kind::Chars | Kind::Scalars | Kind::Object => {}
            Kind::Mark => drop(self.marks.take(run.extent)),
            Kind::Register => drop(self.registers.take(run.extent)),
        }
    }

    /// The op of a run of one without a register, taken out.
    pub(super) fn take_op(&mut self, elem: ElemView<'_>) -> RegOp {
        let (value, name) = match elem.run.kind {
            Kind::Mark => {
                let mark = self.mark(elem.run);
                (mark.value.clone(), mark.name.clone())
            }
            Kind::Chars => (Scalar::Str(elem.text.into()), None),
            _ => (elem.scalar.map_or(Scalar::Null, ScalarRef::to_scalar), None),
        };
        let view = elem.op(self);
        let op = RegOp {
            id: view.id,
            action: view.action,
            expand: view.expand,
            object: view.object,
            value,
            mark_name: name,
            succ: view.succ.to_succ(),
        };
        self.release(elem.run);
        op
    }
}

/// Copies the visible state of a register into its run.
pub(super) fn measure_register(run: &mut Run, register: &Register, unit: Unit) {
    (run.shows, run.width) = match register.winner() {
        None => (Shows::Nothing, 0),
        Some(op) if op.action == Action::Mark => (Shows::Mark, 0),
        Some(op) => (Shows::Values, scalar_width(op.value, unit)),
    };
}

/// The width of an element holding `value`, or no scalar at all.
pub(super) fn scalar_width(value: ScalarRef<'_>, unit: Unit) -> u32 {
    match value {
        ScalarRef::Str(text) => unit.width(text, 1),
        _ => unit.width(OBJECT_REPLACEMENT, 1),
    }
}

/// True if `text` is one character, like the elements of [`Kind::Chars`].
pub(super) fn is_char(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some() && chars.next().is_none()
}

/// A length as 32 bits: enough for every text of a chunk below 4 GiB.
fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(counter: u32, text: &str) -> Run {
        let id = |counter| OpId { counter, actor: ActorIdx(1) };
        let unit = Unit::Text(TextEncoding::UnicodeCodePoint);
        Run::chars(id(counter), id(counter - 1), text, text.chars().count() as u32, unit)
    }

    fn succ(counter: u32) -> OpId {
        OpId { counter, actor: ActorIdx(2) }
    }

    #[test]
    fn a_run_takes_40_bytes() {
        assert_eq!(size_of::<Run>(), 40);
    }

    #[test]
    fn runs_join_where_everything_follows_from_the_first() {
        let mut first = run(5, "aé");
        assert!(!first.join(&run(8, "x")));
        assert!(first.join(&run(7, "xy")));
        assert_eq!((first.len, first.width, first.extent), (4, 4, 5));
        let mut deleted = run(9, "z");
        deleted.delete(succ(20), false);
        assert!(!first.join(&deleted));

        // Deleted backwards, then the whole is divided again.
        let mut next = run(10, "z");
        next.delete(succ(19), false);
        assert!(deleted.join(&next));
        assert_eq!((deleted.succ_at(0), deleted.succ_at(1)), (succ(20), succ(19)));
        let mut third = run(11, "z");
        third.delete(succ(20), false);
        assert!(!deleted.join(&third));
        let rest = deleted.divide(1, 1, 1);
        assert_eq!((rest.id, rest.succ, rest.len), (next.id, succ(19), 1));
        assert_eq!(rest.reference, deleted.id);
    }
}

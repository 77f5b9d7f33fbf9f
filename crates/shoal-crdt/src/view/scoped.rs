//! The visible ops of a register or a sequence element at a clock.
//!
//! The one place with knowledge of how registers and sequences keep their ops.

use std::ops::Range;

use shoal_history::{Action, Clock, OpId, ScalarRef};

use crate::actors::Actors;
use crate::document::Document;
use crate::map::MapObject;
use crate::read::to_usize;
use crate::register::{OpRef, Register};
use crate::sequence::{ElemView, Kind, NO_OP, Place, Run, RunView, Sequence, Unit};
use crate::value::{OBJECT_REPLACEMENT, Value};

/// An element of a sequence during a walk, tombstones and marks included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'v, 'a> {
    /// The insert op.
    pub(crate) id: OpId,
    /// The element before at insertion.
    pub(crate) reference: OpId,
    /// Every op, the insert first, then ascending by id.
    pub(crate) rows: &'v [OpRef<'a>],
    /// The visible ops, ascending by id; empty for a tombstone.
    pub(crate) ops: &'v [OpRef<'a>],
    /// The index of the begin, visible or not.
    pub(crate) index: usize,
    /// Its length in the index unit; 0 for tombstones and marks.
    pub(crate) width: usize,
}

impl<'a> Seen<'_, 'a> {
    /// The winner.
    pub(crate) fn winner(&self) -> Option<&OpRef<'a>> {
        self.ops.last()
    }

    /// The mark beginning or ending here, unless deleted.
    pub(crate) fn mark(&self) -> Option<&OpRef<'a>> {
        self.winner().filter(|op| op.action == Action::Mark)
    }

    /// True if readers see a value here.
    pub(crate) fn is_visible(&self) -> bool {
        !self.ops.is_empty() && self.mark().is_none()
    }

    /// The text here.
    pub(crate) fn text(&self) -> &'a str {
        self.winner().map_or("", op_text)
    }
}

/// The text of an element won by `op`.
pub(crate) fn op_text<'a>(op: &OpRef<'a>) -> &'a str {
    match (op.action, op.value) {
        (Action::Set, ScalarRef::Str(text)) => text,
        (Action::Mark, _) => "",
        _ => OBJECT_REPLACEMENT,
    }
}

/// The registers of a map in the order of their keys' bytes.
pub(crate) fn entries<'a>(
    doc: &'a Document,
    map: &'a MapObject,
) -> impl Iterator<Item = (&'a str, &'a Register)> {
    map.sorted(&doc.ops.names)
}

/// The register of a key.
pub(crate) fn register<'a>(
    doc: &'a Document,
    map: &'a MapObject,
    key: &str,
) -> Option<&'a Register> {
    map.get(doc.ops.names.lookup(key)?)
}

/// The visible ops of a register at `clock`, ascending by id.
pub(crate) fn visible<'a>(
    register: &'a Register,
    clock: &Clock,
    actors: &Actors,
) -> Vec<OpRef<'a>> {
    let mut rows = Vec::new();
    // An op superseding another at the clock is covered by the clock as well.
    register.rows_of(|id| clock.covers(id), actors, &mut rows);
    let mut seen = Vec::new();
    keep_visible(&rows, Some(clock), &mut seen);
    seen
}

/// A look at one element of a sequence after the other.
struct Look<'c, 'a> {
    sequence: &'a Sequence,
    clock: Option<&'c Clock>,
    actors: &'c Actors,
    rows: Vec<OpRef<'a>>,
    seen: Vec<OpRef<'a>>,
}

impl<'c, 'a> Look<'c, 'a> {
    fn new(sequence: &'a Sequence, clock: Option<&'c Clock>, actors: &'c Actors) -> Self {
        Self { sequence, clock, actors, rows: Vec::new(), seen: Vec::new() }
    }

    /// Visits the element at `index`, and returns its length.
    #[inline]
    fn at(
        &mut self,
        elem: ElemView<'a>,
        index: usize,
        visit: &mut impl FnMut(&Seen<'_, 'a>),
    ) -> usize {
        self.rows.clear();
        elem.rows(self.sequence.sides(), self.actors, &mut self.rows);
        self.seen.clear();
        keep_visible(&self.rows, self.clock, &mut self.seen);
        let width = self.seen.last().map_or(0, |op| width(op, self.sequence.unit()));
        let (id, reference) = (elem.id(), elem.run.reference_at(elem.at));
        visit(&Seen { id, reference, rows: &self.rows, ops: &self.seen, index, width });
        width
    }
}

/// Visits every element of a sequence in document order.
pub(crate) fn walk<'a>(
    sequence: &'a Sequence,
    clock: Option<&Clock>,
    actors: &Actors,
    mut visit: impl FnMut(&Seen<'_, 'a>),
) {
    let mut look = Look::new(sequence, clock, actors);
    let mut index = 0;
    for run in sequence.runs() {
        for at in 0..run.run.len {
            index += look.at(run.elem(at), index, &mut visit);
        }
    }
}

/// Visits the elements of a sequence at `places`, in document order, each with its index; without
/// places every element.
pub(crate) fn walk_at<'a>(
    sequence: &'a Sequence,
    places: Option<&[(Place, usize)]>,
    clock: Option<&Clock>,
    actors: &Actors,
    mut visit: impl FnMut(&Seen<'_, 'a>),
) {
    let Some(places) = places else {
        return walk(sequence, clock, actors, visit);
    };
    let mut look = Look::new(sequence, clock, actors);
    for (place, index) in places {
        let Some(elem) = sequence.elem_at(*place) else { continue };
        look.at(elem, *index, &mut visit);
    }
}

/// Consecutive visible elements of a run at a clock, with no ops but the inserts.
pub(crate) struct Stretch<'a> {
    pub(crate) run: RunView<'a>,
    /// The range of the run's elements.
    pub(crate) elems: Range<u32>,
    /// For [`Kind::Chars`] their text.
    pub(crate) text: &'a str,
    /// The index of their begin.
    pub(crate) index: usize,
    /// Their length in the index unit.
    pub(crate) width: usize,
}

impl Stretch<'_> {
    /// The place in the run of the element `id`, if one of these.
    pub(crate) fn position(&self, id: OpId) -> Option<u32> {
        let run = self.run.run;
        let at = id.counter.checked_sub(run.id.counter)?;
        (run.id.actor == id.actor && self.elems.contains(&at)).then_some(at)
    }

    /// The length of its elements before the run's element `at`.
    pub(crate) fn width_before(&self, unit: Unit, at: u32) -> usize {
        let before = self.elems.start..at;
        if self.run.run.len == self.run.run.width || before.is_empty() {
            return before.len();
        }
        unit.width(self.run.text_of(&before), before.end - before.start) as usize
    }
}

/// A visible part of a sequence at a clock.
pub(crate) enum Part<'v, 'a> {
    Stretch(&'v Stretch<'a>),
    /// One element, or a mark.
    Elem(&'v Seen<'v, 'a>),
}

/// Visits the visible parts of a sequence at a clock, marks included, in document order, run by run
/// where there are runs; ends when `visit` returns false.
pub(crate) fn walk_parts<'a>(
    sequence: &'a Sequence,
    clock: &Clock,
    actors: &Actors,
    mut visit: impl FnMut(Part<'_, 'a>) -> bool,
) {
    let mut look = Look::new(sequence, Some(clock), actors);
    let mut index = 0;
    for run in sequence.runs() {
        if matches!(run.run.kind, Kind::Chars | Kind::Scalars) {
            let elems = visible_elems(run.run, clock);
            if elems.is_empty() {
                continue;
            }
            let text = run.text_of(&elems);
            let width = match run.run.kind {
                _ if run.run.len == run.run.width => to_usize(elems.len() as u64),
                Kind::Chars => sequence.unit().width(text, elems.end - elems.start) as usize,
                _ => run.run.width as usize,
            };
            let stretch = Stretch { run, elems, text, index, width };
            index += width;
            if !visit(Part::Stretch(&stretch)) {
                return;
            }
            continue;
        }
        for at in 0..run.run.len {
            let mut goes_on = true;
            index += look.at(run.elem(at), index, &mut |elem| {
                if !elem.ops.is_empty() {
                    goes_on = visit(Part::Elem(elem));
                }
            });
            if !goes_on {
                return;
            }
        }
    }
}

/// The elements, of a run without registers, inserted and not deleted at a clock. Ids count up, and
/// the ids of deletes up or down, so these are neighbours.
fn visible_elems(run: &Run, clock: &Clock) -> Range<u32> {
    let covered = |id: OpId| clock.get(id.actor).max_op;
    let inserted = (u64::from(covered(run.id)) + 1).saturating_sub(run.id.counter.into());
    let inserted = u32::try_from(inserted).unwrap_or(u32::MAX).min(run.len);
    if run.succ == NO_OP {
        return 0..inserted;
    }
    let done = covered(run.succ);
    if run.succ_descends {
        // The ids of the deletes count down: the last ones were first.
        0..inserted.min(run.succ.counter.saturating_sub(done))
    } else {
        let deleted = (u64::from(done) + 1).saturating_sub(run.succ.counter.into());
        u32::try_from(deleted).unwrap_or(u32::MAX).min(inserted)..inserted
    }
}

/// Visits the visible parts of a sequence at a clock, marks left out, from the element covering
/// `from` on; ends when `visit` returns false. Each run before costs a step.
pub(crate) fn walk_visible<'a>(
    sequence: &'a Sequence,
    clock: &Clock,
    actors: &Actors,
    from: usize,
    mut visit: impl FnMut(&Seen<'_, 'a>) -> bool,
) {
    let mut look = Look::new(sequence, Some(clock), actors);
    walk_parts(sequence, clock, actors, |part| match part {
        Part::Elem(elem) => !elem.is_visible() || elem.index + elem.width <= from || visit(elem),
        Part::Stretch(stretch) => {
            if stretch.index + stretch.width <= from {
                return true;
            }
            let mut index = stretch.index;
            let mut goes_on = true;
            for at in stretch.elems.clone() {
                index += look.at(stretch.run.elem(at), index, &mut |elem| {
                    if elem.index + elem.width > from {
                        goes_on = visit(elem);
                    }
                });
                if !goes_on {
                    break;
                }
            }
            goes_on
        }
    });
}

/// True if a sequence has, or ever had, marks. O(r) for r runs.
pub(crate) fn had_marks(sequence: &Sequence) -> bool {
    sequence.runs().any(|run| match run.run.kind {
        Kind::Chars | Kind::Scalars | Kind::Object => false,
        Kind::Mark => true,
        Kind::Register => {
            let register = run.elem(0).register(sequence.sides());
            let insert = register.and_then(|register| register.get(run.run.id));
            insert.is_some_and(|op| op.action == Action::Mark)
        }
    })
}

/// The length at a clock of the element at `place`.
pub(crate) fn width_at(sequence: &Sequence, place: Place, clock: &Clock, actors: &Actors) -> usize {
    let elem = sequence.elem_at(place);
    let mut look = Look::new(sequence, Some(clock), actors);
    elem.map_or(0, |elem| look.at(elem, 0, &mut |_| {}))
}

/// The visible ops of the element at `place` at a clock, ascending by id.
pub(crate) fn visible_at<'a>(
    sequence: &'a Sequence,
    place: Place,
    clock: &Clock,
    actors: &Actors,
) -> Vec<OpRef<'a>> {
    let (mut rows, mut seen) = (Vec::new(), Vec::new());
    if let Some(elem) = sequence.elem_at(place) {
        if let Some(register) = elem.register(sequence.sides()) {
            return visible(register, clock, actors);
        }
        elem.rows(sequence.sides(), actors, &mut rows);
        keep_visible(&rows, Some(clock), &mut seen);
    }
    seen
}

/// The length of an element where `op` wins.
pub(crate) fn width(op: &OpRef<'_>, unit: Unit) -> usize {
    match (unit, op.action, op.value) {
        (_, Action::Mark, _) => 0,
        (Unit::Text(encoding), ..) => encoding.width(op_text(op)),
        _ => 1,
    }
}

/// The length of an element reading as `value`.
pub(crate) fn value_width(value: &Value<'_>, unit: Unit) -> usize {
    match (unit, value) {
        (Unit::Text(encoding), Value::Scalar(ScalarRef::Str(text))) => encoding.width(text),
        (Unit::Text(encoding), _) => encoding.width(OBJECT_REPLACEMENT),
        (Unit::Element, _) => 1,
    }
}

/// Adds the visible ones of `rows`, the ops of one place ascending by id, to `seen`.
pub(crate) fn keep_visible<'a>(
    rows: &[OpRef<'a>],
    clock: Option<&Clock>,
    seen: &mut Vec<OpRef<'a>>,
) {
    let covers = |id: OpId| clock.is_none_or(|clock| clock.covers(id));
    for op in rows {
        if !covers(op.id) || matches!(op.action, Action::Increment | Action::Delete) {
            continue;
        }
        let mut successors = op.succ.iter().filter(|id| covers(*id));
        let ScalarRef::Counter(start) = op.value else {
            if successors.next().is_none() {
                seen.push(*op);
            }
            continue;
        };
        // A counter is superseded by any op but increments, each with a row at its place.
        let total = successors.try_fold(start, |total, id| {
            let row = rows.iter().find(|row| row.id == id)?;
            Some(total.wrapping_add(increment(row)?))
        });
        if let Some(total) = total {
            seen.push(OpRef { value: ScalarRef::Counter(total), ..*op });
        }
    }
}

fn increment(op: &OpRef<'_>) -> Option<i64> {
    match (op.action, op.value) {
        (Action::Increment, ScalarRef::Int(by)) => Some(by),
        (Action::Increment, ScalarRef::Uint(by)) => Some(by.cast_signed()),
        (Action::Increment, _) => Some(0),
        _ => None,
    }
}

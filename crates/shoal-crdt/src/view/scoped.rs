//! Which ops of a register or a sequence element readers see at a clock.
//!
//! The one place that depends on how registers and sequences keep their ops.

use shoal_history::{Action, Clock, OpId, ScalarRef};

use crate::actors::Actors;
use crate::document::Document;
use crate::map::MapObject;
use crate::read::to_usize;
use crate::register::{OpRef, Register};
use crate::sequence::{ElemView, Place, Sequence, Unit};
use crate::value::{OBJECT_REPLACEMENT, Value};

/// An element of a sequence as a walk meets it, tombstones and marks included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'v, 'a> {
    /// The op that inserted it.
    pub(crate) id: OpId,
    /// The element it was inserted after.
    pub(crate) reference: OpId,
    /// Every op of it, the insert first, then ascending by id.
    pub(crate) rows: &'v [OpRef<'a>],
    /// The ops that readers see, ascending by id; empty for a tombstone.
    pub(crate) ops: &'v [OpRef<'a>],
    /// The index at which it begins, or would if it were visible.
    pub(crate) index: usize,
    /// Its length in the index unit; 0 for tombstones and marks.
    pub(crate) width: usize,
}

impl<'a> Seen<'_, 'a> {
    /// The op that readers see.
    pub(crate) fn winner(&self) -> Option<&OpRef<'a>> {
        self.ops.last()
    }

    /// The mark that begins or ends here, if it is one that is not deleted.
    pub(crate) fn mark(&self) -> Option<&OpRef<'a>> {
        self.winner().filter(|op| op.action == Action::Mark)
    }

    /// Whether readers see a value here.
    pub(crate) fn is_visible(&self) -> bool {
        !self.ops.is_empty() && self.mark().is_none()
    }

    /// What a text reads here.
    pub(crate) fn text(&self) -> &'a str {
        self.winner().map_or("", op_text)
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

/// The ops of a register that readers see at `clock`, ascending by id.
pub(crate) fn visible<'a>(
    register: &'a Register,
    clock: &Clock,
    actors: &Actors,
) -> Vec<OpRef<'a>> {
    let mut rows = Vec::new();
    register.rows(actors, &mut rows);
    let mut seen = Vec::new();
    keep_visible(&rows, Some(clock), &mut seen);
    seen
}

/// What looks at one element of a sequence after the other.
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

    /// Visits the element, which begins at `index`, and returns its length.
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

/// Visits the elements of a sequence at `places`, which are in document order, if the present is
/// asked for; without places every element.
pub(crate) fn walk_at<'a>(
    sequence: &'a Sequence,
    places: Option<&[Place]>,
    clock: Option<&Clock>,
    actors: &Actors,
    mut visit: impl FnMut(&Seen<'_, 'a>),
) {
    let Some(places) = places.filter(|_| clock.is_none()) else {
        return walk(sequence, clock, actors, visit);
    };
    let mut look = Look::new(sequence, clock, actors);
    for place in places {
        let Some(elem) = sequence.elem_at(*place) else { continue };
        look.at(elem, to_usize(sequence.index_of(*place)), &mut visit);
    }
}

/// The length of an element where `op` wins.
pub(crate) fn width(op: &OpRef<'_>, unit: Unit) -> usize {
    match (unit, op.action, op.value) {
        (_, Action::Mark, _) => 0,
        (Unit::Text(encoding), ..) => encoding.width(op_text(op)),
        _ => 1,
    }
}

/// The length of an element that reads as `value`.
pub(crate) fn value_width(value: &Value<'_>, unit: Unit) -> usize {
    match (unit, value) {
        (Unit::Text(encoding), Value::Scalar(ScalarRef::Str(text))) => encoding.width(text),
        (Unit::Text(encoding), _) => encoding.width(OBJECT_REPLACEMENT),
        (Unit::Element, _) => 1,
    }
}

/// Adds to `seen` those of `rows`, the ops of one place ascending by id, that readers see.
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
        // A counter is superseded by anything but increments, which have rows at its place.
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

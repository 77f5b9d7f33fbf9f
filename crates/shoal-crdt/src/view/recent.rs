//! Past states near the present: equal parts are read at present, and only the places of ops since
//! then are looked at.

use rustc_hash::FxHashMap;
use shoal_history::{ChangeHash, Clock};

use super::scoped;
use crate::document::Document;
use crate::opset::Data;
use crate::read::to_usize;
use crate::register::ObjIdx;
use crate::sequence::{Place, Sequence};
use crate::touched::{Places, Touched};

/// If more than one op in so many came since, walking an object is no dearer than this.
const FEW: u64 = 32;

/// Where a past state differs from the present.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    touched: Touched,
    /// The shifts of sequences with ops.
    shifts: FxHashMap<ObjIdx, Shifts>,
}

/// The difference of an object, for a read at past heads.
pub(crate) enum Since<'r> {
    /// Equal to the present.
    Nothing,
    /// Different at these places.
    At(&'r Places),
    /// Different somewhere.
    Somewhere,
}

impl Recent {
    /// The state at `heads`, whose clock is `clock`; `None` if much came since.
    pub(super) fn of(doc: &Document, heads: &[ChangeHash], clock: &Clock) -> Option<Self> {
        let most = doc.ops.op_count() / FEW;
        Some(Self::since(doc, clock, Touched::between(doc, heads, &doc.heads(), most)?))
    }

    pub(crate) fn since(doc: &Document, clock: &Clock, touched: Touched) -> Self {
        let mut shifts = FxHashMap::default();
        for (object, places) in touched.objects() {
            if let Data::Sequence(sequence) = doc.ops.data(object)
                && !places.is_part()
                && let Some(of_sequence) = Shifts::new(doc, sequence, clock, places)
            {
                shifts.insert(object, of_sequence);
            }
        }
        Self { touched, shifts }
    }

    /// The changes of an object since then, contents included.
    pub(crate) fn since_in(&self, object: ObjIdx) -> Since<'_> {
        if !self.touched.contains(object) {
            return Since::Nothing;
        }
        self.touched.places(object).map_or(Since::Somewhere, Since::At)
    }

    /// The difference of the indexes of a sequence; `None` if unknown.
    pub(crate) fn shifts(&self, object: ObjIdx) -> Option<&Shifts> {
        if self.touched.contains(object) { self.shifts.get(&object) } else { Some(&NONE) }
    }
}

/// The differences of the indexes of a past state of a sequence from the present ones.
#[derive(Clone, Debug)]
pub(crate) struct Shifts(Vec<Shift>);

/// An element whose length may have been another.
#[derive(Clone, Copy, Debug)]
struct Shift {
    /// The number of elements before.
    rank: u64,
    place: Place,
    now: Extent,
    then: Extent,
}

/// The index of the begin of an element, visible or not, and its length.
#[derive(Clone, Copy, Debug)]
struct Extent {
    index: u64,
    width: u64,
}

impl Extent {
    fn end(self) -> u64 {
        self.index + self.width
    }
}

/// The shifts of an unchanged sequence.
static NONE: Shifts = Shifts(Vec::new());

impl Shifts {
    /// Cost: O(log n) for each of the places.
    fn new(doc: &Document, sequence: &Sequence, clock: &Clock, places: &Places) -> Option<Self> {
        let mut shifts = Vec::new();
        // The growth and the shrinking before an element.
        let (mut more, mut less) = (0, 0);
        for place in places.in_order(sequence)? {
            let width = scoped::width_at(sequence, place, clock, &doc.ops.actors) as u64;
            let now = Extent { index: sequence.index_of(place), width: sequence.width_at(place) };
            let then = Extent { index: now.index + less - more, width };
            shifts.push(Shift { rank: sequence.rank_of(place), place, now, then });
            more += now.width;
            less += then.width;
        }
        Some(Self(shifts))
    }

    /// The length of the sequence then.
    pub(crate) fn length(&self, sequence: &Sequence) -> usize {
        let now = sequence.length();
        let then = self.0.last().map_or(now, |last| last.then.end() + (now - last.now.end()));
        to_usize(then)
    }

    /// The past index of the begin of the element at `place`. O(log n).
    pub(crate) fn index_of(&self, sequence: &Sequence, place: Place) -> usize {
        let index = sequence.index_of(place);
        let rank = sequence.rank_of(place);
        let next = self.0.partition_point(|shift| shift.rank < rank);
        let before = next.checked_sub(1).and_then(|before| self.0.get(before));
        let then = before.map_or(index, |last| last.then.end() + (index - last.now.end()));
        to_usize(then)
    }

    /// The element covering `index` in the past, and the past index of its begin. O(log n).
    pub(crate) fn find(&self, sequence: &Sequence, index: usize) -> Option<(Place, usize)> {
        let index = index as u64;
        let next = self.0.partition_point(|shift| shift.then.index <= index);
        let Some(last) = next.checked_sub(1).and_then(|last| self.0.get(last)) else {
            let (place, start) = sequence.find(index)?;
            return Some((place, to_usize(start)));
        };
        if index < last.then.end() {
            return Some((last.place, to_usize(last.then.index)));
        }
        // An unchanged element has the same distance from the last changed one as then.
        let now = last.now.end() + (index - last.then.end());
        let (place, start) = sequence.find(now)?;
        Some((place, to_usize(last.then.end() + (start - last.now.end()))))
    }
}

//! Patches: the steps of a reader from a shown copy of a document to another state of the document.
//!
//! Patches are found by comparing two states, so without a reader they cost nothing. Each is in
//! terms of the copy after the patches before.

use std::collections::VecDeque;
use std::sync::Arc;

use shoal_history::{ChangeHash, Clock, OpId, Scalar, ScalarRef};
use unicode_segmentation::UnicodeSegmentation;

use crate::document::Document;
use crate::error::Error;
use crate::id::{ObjId, ROOT};
use crate::json::DEFAULT_MAX_DEPTH;
use crate::map::MapObject;
use crate::marks::{Mark, MarkSet, OpenMarks};
use crate::opset::Data;
use crate::read::to_usize;
use crate::register::{OpRef, Register};
use crate::sequence::{Place, Sequence};
use crate::touched::{Places, Touched};
use crate::transaction::Transaction;
use crate::value::{ObjType, TextEncoding, Value};
use crate::view::View;
use crate::view::scoped::{self, Seen};

#[cfg(test)]
mod tests;

/// If more than one op in so many is new, looking everywhere is no dearer than looking where they
/// are.
const FEW: u64 = 8;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// The changed object.
    pub obj: ObjId,
    /// How to get there from the root: each object on the way, and the property to follow.
    pub path: Vec<(ObjId, PatchProp)>,
    /// The change.
    pub action: PatchAction,
}

/// A key or an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchProp {
    /// In a map.
    Key(Arc<str>),
    /// In a list or text.
    Index(usize),
}

/// A value in a patch.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchValue {
    /// The value. Objects come empty, and are filled by later patches.
    pub value: PatchScalar,
    /// The op behind the value; for an object, the object's id.
    pub id: ObjId,
    /// True if there are other values at the same place.
    pub conflict: bool,
}

/// An empty object, or a scalar.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchScalar {
    /// An object of this type.
    Object(ObjType),
    /// A scalar; a counter holds its total.
    Scalar(Scalar),
}

/// The kind of a patch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PatchAction {
    /// Sets the entry of a map; also for a value staying the same at the end of a conflict.
    PutMap {
        /// Its key.
        key: Arc<str>,
        /// Its value.
        value: PatchValue,
    },
    /// Sets the item of a list; also where a conflict is over, as in maps.
    PutSeq {
        /// Its index.
        index: usize,
        /// Its value.
        value: PatchValue,
    },
    /// Inserts items into a list, or an object into a text.
    Insert {
        /// Where the first will stand.
        index: usize,
        /// The items.
        values: Vec<PatchValue>,
    },
    /// Inserts characters into a text.
    SpliceText {
        /// Where the first will stand.
        index: usize,
        /// The characters.
        text: String,
        /// The marks covering them.
        marks: Arc<MarkSet>,
    },
    /// Adds to a counter.
    Increment {
        /// The place.
        prop: PatchProp,
        /// By how much.
        by: i64,
    },
    /// There are other values now besides the shown one.
    Conflict {
        /// Where.
        prop: PatchProp,
    },
    /// Deletes the entry of a map.
    DeleteMap {
        /// Its key.
        key: Arc<str>,
    },
    /// Deletes from a list or text.
    DeleteSeq {
        /// Where the first stands.
        index: usize,
        /// How many items, or units of text.
        length: usize,
    },
    /// Changes the marks of remaining characters.
    Mark {
        /// The marks; a null value removes a mark.
        marks: Vec<Mark>,
    },
}

impl Document {
    /// The patches from the state at the heads `before` to the state at `after`. Cost: with few of
    /// the document's ops between the two, and `after` not far from the present, about O(log n) for
    /// each of them, and the size of the changed maps and of texts with marks. With `after` far
    /// from the present, the size of the changed lists and texts. With many ops between, or changes
    /// of a loaded document not rebuilt yet, the size of all reachable objects.
    ///
    /// # Errors
    /// [`Error::TooDeep`] beyond [`DEFAULT_MAX_DEPTH`].
    pub fn diff(&self, before: &[ChangeHash], after: &[ChangeHash]) -> Result<Vec<Patch>, Error> {
        let clock = self.graph.clock(before);
        let at = self.at(after);
        Diff::between(&clock, before, after, at.as_view()).run()
    }

    /// The patches of [`Document::diff`] on `obj`; if `recursive`, also on the objects below. Cost:
    /// as there, for these objects.
    ///
    /// # Errors
    /// As there; [`Error::UnknownObject`] for an object not there at the heads `after`.
    pub fn diff_obj(
        &self,
        obj: &ObjId,
        before: &[ChangeHash],
        after: &[ChangeHash],
        recursive: bool,
    ) -> Result<Vec<Patch>, Error> {
        let at = self.at(after);
        let path = at.as_view().path_of(obj)?;
        let clock = self.graph.clock(before);
        let mut diff = Diff::between(&clock, before, after, at.as_view());
        diff.queue = VecDeque::from([Visit { obj: obj.clone(), path, is_new: false }]);
        diff.recursive = recursive;
        diff.run()
    }

    /// The patches from an empty document to this one.
    ///
    /// # Errors
    /// As [`Document::diff`].
    pub fn current_state(&self) -> Result<Vec<Patch>, Error> {
        self.diff(&[], &self.heads())
    }

    /// Lets `change` do something to the document (apply changes, merge, load, sync, a
    /// transaction), and returns the resulting patches.
    ///
    /// ```
    /// use shoal_crdt::{ActorId, AutoCommit, Document, PatchAction, ROOT, Transactable};
    ///
    /// let mut doc = Document::new(ActorId::new(&[1]));
    /// let mut other = AutoCommit::from(doc.fork(ActorId::new(&[2])));
    /// other.put(&ROOT, "n", 1_i64)?;
    /// let other = other.into_document();
    /// let (merged, patches) = doc.observe(|doc| doc.merge(&other))?;
    /// merged?;
    /// assert!(matches!(&patches[0].action, PatchAction::PutMap { key, .. } if &**key == "n"));
    /// # Ok::<(), shoal_crdt::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Document::diff`]; the document has changed nevertheless.
    pub fn observe<R>(
        &mut self,
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<(R, Vec<Patch>), Error> {
        let before = self.heads();
        let result = change(self);
        let patches = self.diff(&before, &self.heads())?;
        Ok((result, patches))
    }
}

impl Transaction<'_> {
    /// The patches of the edits so far. Cost: as [`Document::diff`] with little changed.
    ///
    /// # Errors
    /// As there.
    pub fn patches(&self) -> Result<Vec<Patch>, Error> {
        let view = self.as_view();
        let before = view.doc.graph.full_clock();
        let mut diff = Diff::new(&before, view);
        diff.touched = Some(Touched::pending(view.doc, self.pending()));
        diff.run()
    }
}

/// An object to be compared.
struct Visit {
    obj: ObjId,
    path: Vec<(ObjId, PatchProp)>,
    /// True if the copy has the object only as an empty one.
    is_new: bool,
}

struct Diff<'a> {
    before: &'a Clock,
    /// Covers nothing.
    nothing: Clock,
    after: View<'a>,
    /// Where the states may differ; `None` for everywhere.
    touched: Option<Touched>,
    /// True if the objects below are compared too.
    recursive: bool,
    queue: VecDeque<Visit>,
    patches: Vec<Patch>,
    /// Where in its text the last [`PatchAction::SpliceText`] ends.
    spliced: usize,
}

impl<'a> Diff<'a> {
    fn new(before: &'a Clock, after: View<'a>) -> Self {
        let queue = VecDeque::from([Visit { obj: ROOT, path: Vec::new(), is_new: false }]);
        let (nothing, patches) = (Clock::default(), Vec::new());
        Self { before, nothing, after, touched: None, recursive: true, queue, patches, spliced: 0 }
    }

    /// From the state at `heads`, with the clock `before`, to the state at `want`: looks only at
    /// the places of ops, if few came in between.
    fn between(
        before: &'a Clock,
        heads: &[ChangeHash],
        want: &[ChangeHash],
        after: View<'a>,
    ) -> Self {
        let mut diff = Self::new(before, after);
        let most = after.doc.ops.op_count() / FEW;
        diff.touched = Touched::between(after.doc, heads, want, most);
        diff
    }

    fn run(mut self) -> Result<Vec<Patch>, Error> {
        while let Some(visit) = self.queue.pop_front() {
            if visit.path.len() >= DEFAULT_MAX_DEPTH {
                return Err(Error::TooDeep { max: DEFAULT_MAX_DEPTH });
            }
            match self.after.data(&visit.obj)? {
                Data::Map(map) => self.map(&visit, map),
                Data::Sequence(sequence) => {
                    if self.after.object_type(&visit.obj)? == ObjType::Text {
                        self.text(&visit, sequence);
                    } else {
                        self.list(&visit, sequence);
                    }
                }
            }
        }
        Ok(self.patches)
    }

    fn map(&mut self, visit: &Visit, map: &'a MapObject) {
        let mut rows = Vec::new();
        let (before, after) = (self.before, self.after.clock);
        let is_known = |id: OpId| {
            (visit.is_new || before.covers(id)) && after.is_none_or(|clock| clock.covers(id))
        };
        for (key, register) in self.entries(visit, map) {
            rows.clear();
            register.rows_unsettled(is_known, &self.after.doc.ops.actors, &mut rows);
            let (before, after) = self.both(visit, &rows);
            let key: Arc<str> = key.into();
            match (before.last(), after.last()) {
                (None, None) => {}
                (Some(_), None) => self.push(visit, PatchAction::DeleteMap { key }),
                (Some(old), Some(new)) if old.id == new.id && !is_settled(&before, &after) => {
                    self.same(visit, PatchProp::Key(key), &before, &after);
                }
                (_, Some(new)) => {
                    let value = self.value(new, after.len() > 1);
                    self.enter(visit, PatchProp::Key(Arc::clone(&key)), new, true);
                    self.push(visit, PatchAction::PutMap { key, value });
                }
            }
        }
    }

    fn list(&mut self, visit: &Visit, sequence: &'a Sequence) {
        let actors = &self.after.doc.ops.actors;
        let places = self.places(visit, sequence, false);
        scoped::walk_at(sequence, places.as_deref(), self.after.clock, actors, |elem| {
            let before = self.before(visit, elem.rows);
            let index = elem.index;
            match (before.last(), elem.winner()) {
                (None, None) => {}
                (Some(_), None) => self.delete(visit, index, 1),
                (Some(old), Some(new)) if old.id == new.id && !is_settled(&before, elem.ops) => {
                    self.same(visit, PatchProp::Index(index), &before, elem.ops);
                }
                (old, Some(new)) => {
                    let value = self.value(new, elem.ops.len() > 1);
                    self.enter(visit, PatchProp::Index(index), new, true);
                    if old.is_some() {
                        self.push(visit, PatchAction::PutSeq { index, value });
                    } else {
                        self.insert(visit, index, value);
                    }
                }
            }
        });
    }

    fn text(&mut self, visit: &Visit, sequence: &'a Sequence) {
        let actors = &self.after.doc.ops.actors;
        let (mut old_marks, mut new_marks) = (OpenMarks::default(), OpenMarks::default());
        let mut changed: Vec<Mark> = Vec::new();
        let places = self.places(visit, sequence, true);
        scoped::walk_at(sequence, places.as_deref(), self.after.clock, actors, |elem| {
            let before = self.before(visit, elem.rows);
            let old = Seen { ops: &before, ..*elem };
            old_marks.pass(&old, actors);
            new_marks.pass(elem, actors);
            let index = elem.index;
            let shown = elem.winner().filter(|_| elem.is_visible());
            let was = old.winner().filter(|_| old.is_visible());
            let old_width = was.map_or(0, |op| scoped::width(op, sequence.unit()));
            match (was, shown) {
                (None, None) => {}
                (Some(_), None) => self.delete(visit, index, old_width),
                (Some(was), Some(shown)) if was.id == shown.id => {
                    self.same(visit, PatchProp::Index(index), &before, elem.ops);
                    note_marks(&mut changed, elem, &old_marks.current(), &new_marks.current());
                }
                (_, Some(shown)) => {
                    if was.is_some() {
                        self.delete(visit, index, old_width);
                    }
                    if let Value::Object(_) = self.after.doc.value(shown) {
                        let value = self.value(shown, elem.ops.len() > 1);
                        self.enter(visit, PatchProp::Index(index), shown, true);
                        self.insert(visit, index, value);
                        let unmarked = MarkSet::new();
                        note_marks(&mut changed, elem, &unmarked, &new_marks.current());
                    } else {
                        self.splice(visit, elem, new_marks.current());
                    }
                }
            }
        });
        if !changed.is_empty() {
            self.push(visit, PatchAction::Mark { marks: changed });
        }
    }

    /// The possibly differing entries of a map, in the order of their keys' bytes.
    fn entries(&self, visit: &Visit, map: &'a MapObject) -> Vec<(&'a str, &'a Register)> {
        let doc = self.after.doc;
        let Some(places) = self.touched_in(visit) else {
            return scoped::entries(doc, map).collect();
        };
        let entry = |name| Some((doc.ops.names.get(name), map.get(name)?));
        let mut entries: Vec<_> = places.names().filter_map(entry).collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries
    }

    /// The possibly differing elements of a sequence, in order, each with its index; `None` for
    /// all.
    fn places(
        &self,
        visit: &Visit,
        sequence: &Sequence,
        is_text: bool,
    ) -> Option<Vec<(Place, usize)>> {
        let places = self.touched_in(visit)?;
        let shifts = match self.after.clock {
            None => None,
            Some(_) => Some(self.after.shifts(self.after.doc.resolve(&visit.obj).ok()?)?),
        };
        // Where marks begin or end, elements in between may change as well, and new elements in
        // between have the marks; at present there may be fewer marks than before.
        let has_marks = || match shifts {
            None => sequence.has_marks(),
            Some(_) => scoped::had_marks(sequence),
        };
        if is_text && (has_marks() || places.have_marks(sequence)) {
            return None;
        }
        let index = |place| match shifts {
            None => to_usize(sequence.index_of(place)),
            Some(shifts) => shifts.index_of(sequence, place),
        };
        Some(places.in_order(sequence)?.into_iter().map(|place| (place, index(place))).collect())
    }

    /// Where in an object to look; `None` for everywhere.
    fn touched_in(&self, visit: &Visit) -> Option<&Places> {
        let touched = self.touched.as_ref().filter(|_| !visit.is_new)?;
        touched.places(self.after.doc.resolve(&visit.obj).ok()?)
    }

    /// The visible ops of one place, before and after.
    fn both(&self, visit: &Visit, rows: &[OpRef<'a>]) -> (Vec<OpRef<'a>>, Vec<OpRef<'a>>) {
        let mut after = Vec::new();
        scoped::keep_visible(rows, self.after.clock, &mut after);
        (self.before(visit, rows), after)
    }

    fn before(&self, visit: &Visit, rows: &[OpRef<'a>]) -> Vec<OpRef<'a>> {
        let clock = if visit.is_new { &self.nothing } else { self.before };
        let mut before = Vec::new();
        scoped::keep_visible(rows, Some(clock), &mut before);
        before
    }

    /// The same op wins before and after.
    fn same(&mut self, visit: &Visit, prop: PatchProp, before: &[OpRef<'a>], after: &[OpRef<'a>]) {
        let (Some(old), Some(new)) = (before.last(), after.last()) else { return };
        self.enter(visit, prop.clone(), new, false);
        if after.len() > 1 && before.len() == 1 {
            self.push(visit, PatchAction::Conflict { prop: prop.clone() });
        }
        if let (ScalarRef::Counter(old), ScalarRef::Counter(new)) = (old.value, new.value)
            && old != new
        {
            self.push(visit, PatchAction::Increment { prop, by: new.wrapping_sub(old) });
        }
    }

    /// Queues the value `op`, if an object, to be compared as well.
    fn enter(&mut self, visit: &Visit, prop: PatchProp, op: &OpRef<'a>, is_new: bool) {
        let is_new = is_new || visit.is_new;
        let differs = |touched: &Touched| is_new || touched.contains(op.object);
        if self.recursive
            && let Value::Object(_) = self.after.doc.value(op)
            && self.touched.as_ref().is_none_or(differs)
        {
            let mut path = visit.path.clone();
            path.push((visit.obj.clone(), prop));
            let obj = self.after.doc.export(op.id);
            self.queue.push_back(Visit { obj, path, is_new });
        }
    }

    fn value(&self, op: &OpRef<'a>, conflict: bool) -> PatchValue {
        let value = match self.after.doc.value(op) {
            Value::Object(kind) => PatchScalar::Object(kind),
            Value::Scalar(value) => PatchScalar::Scalar(value.to_scalar()),
        };
        PatchValue { value, id: self.after.doc.export(op.id), conflict }
    }

    /// Deletes, together with a deletion just before at the same place.
    fn delete(&mut self, visit: &Visit, at: usize, count: usize) {
        if count == 0 {
            return;
        }
        if let Some(PatchAction::DeleteSeq { index, length }) = self.last(visit)
            && *index == at
        {
            *length += count;
            return;
        }
        self.push(visit, PatchAction::DeleteSeq { index: at, length: count });
    }

    fn insert(&mut self, visit: &Visit, at: usize, value: PatchValue) {
        if let Some(PatchAction::Insert { index, values }) = self.last(visit)
            && *index + values.len() == at
        {
            values.push(value);
            return;
        }
        self.push(visit, PatchAction::Insert { index: at, values: vec![value] });
    }

    fn splice(&mut self, visit: &Visit, elem: &Seen<'_, 'a>, with: Arc<MarkSet>) {
        if elem.width == 0 {
            return;
        }
        let (unit, end) = (self.after.doc.text_encoding(), self.spliced);
        self.spliced = elem.index + elem.width;
        if let Some(PatchAction::SpliceText { text, marks, .. }) = self.last(visit)
            && end == elem.index
            && *marks == with
            && !makes_one(unit, text, elem.text())
        {
            text.push_str(elem.text());
            return;
        }
        let text = elem.text().to_owned();
        self.push(visit, PatchAction::SpliceText { index: elem.index, text, marks: with });
    }

    /// The last patch, if on the same object.
    fn last(&mut self, visit: &Visit) -> Option<&mut PatchAction> {
        let last = self.patches.last_mut()?;
        (last.obj == visit.obj).then_some(&mut last.action)
    }

    fn push(&mut self, visit: &Visit, action: PatchAction) {
        let (obj, path) = (visit.obj.clone(), visit.path.clone());
        self.patches.push(Patch { obj, path, action });
    }
}

/// True if the end of `text` and the begin of `next` read as one character, though they are two
/// elements with an index each: such do not go into one patch.
fn makes_one(unit: TextEncoding, text: &str, next: &str) -> bool {
    unit == TextEncoding::GraphemeCluster
        && text.graphemes(true).next_back().is_some_and(|last| {
            unit.width(&[last, next].concat()) != unit.width(last) + unit.width(next)
        })
}

/// True if a conflict is over, and the rest is to be sent anew.
fn is_settled(before: &[OpRef<'_>], after: &[OpRef<'_>]) -> bool {
    before.len() > 1 && after.len() == 1
}

/// Records the changed marks of a remaining element.
fn note_marks(changed: &mut Vec<Mark>, elem: &Seen<'_, '_>, old: &MarkSet, new: &MarkSet) {
    let (start, end) = (elem.index, elem.index + elem.width);
    let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name, &Scalar::Null));
    let other = new.iter().filter(|(name, value)| old.get(*name) != Some(*value));
    for (name, value) in gone.chain(other) {
        let same = |mark: &&mut Mark| mark.name == *name && mark.value == *value;
        match changed.iter_mut().rev().find(same) {
            Some(mark) if mark.end == start => mark.end = end,
            _ => changed.push(Mark { start, end, name: Arc::clone(name), value: value.clone() }),
        }
    }
}

//! The places of the ops between two states: all a comparison has to look at.

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_history::{Action, Change, ChangeHash, Key, ObjId as StoredObjId, OpId};

use crate::applier::{local, local_object};
use crate::document::Document;
use crate::names::NameIdx;
use crate::opset::Data;
use crate::pending::{PendingKey, PendingOps};
use crate::read::to_usize;
use crate::register::ObjIdx;
use crate::sequence::{Place, Sequence};

/// The objects with ops, or with such objects inside, and the places in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    objects: FxHashMap<ObjIdx, Places>,
}

/// Places in one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    names: FxHashSet<NameIdx>,
    elems: FxHashSet<OpId>,
    /// There may be others.
    more: bool,
}

impl Touched {
    /// The places of the changes in the past of either `before` or `after`, but not of both; `None`
    /// for more than `most` changes or ops, or for changes of a loaded document not rebuilt yet.
    pub(crate) fn between(
        doc: &Document,
        before: &[ChangeHash],
        after: &[ChangeHash],
        most: u64,
    ) -> Option<Self> {
        let mut touched = Self::default();
        let mut ops = 0;
        for (have, want) in [(before, after), (after, before)] {
            let changes = doc.graph.changes_at_hand_between(have, want, to_usize(most))?;
            ops += changes.iter().map(|change| change.len() as u64).sum::<u64>();
            if ops > most {
                return None;
            }
            for change in changes {
                touched.add_change(doc, change)?;
            }
        }
        touched.add_holders(doc);
        Some(touched)
    }

    /// The places of the ops of a transaction, applied already.
    pub(crate) fn pending(doc: &Document, pending: &PendingOps) -> Self {
        let mut touched = Self::default();
        pending.for_each_place(|obj, key| touched.add(doc, obj, &key));
        touched.add_holders(doc);
        touched
    }

    /// `None` if the change names something unknown here.
    fn add_change(&mut self, doc: &Document, change: &Change) -> Option<()> {
        let author = doc.ops.actors.lookup(change.actor())?;
        let mut actors = Vec::new();
        doc.local_actors(change, author, &mut actors);
        let mut ops = change.ops();
        while let Some(op) = ops.next_op() {
            let obj = local_object(op.obj, &actors)?;
            let key = match op.key {
                _ if op.insert => PendingKey::Elem(local(op.id, &actors)?),
                Key::Map(key) => PendingKey::Map(doc.ops.names.lookup(key)?),
                Key::Elem(id) => PendingKey::Elem(local(id, &actors)?),
                Key::Head => return None,
            };
            self.add(doc, obj, &key);
        }
        Some(())
    }

    fn add(&mut self, doc: &Document, obj: StoredObjId, key: &PendingKey) {
        let Some(object) = doc.ops.find(obj) else { return };
        let places = self.objects.entry(object).or_default();
        match key {
            PendingKey::Map(name) => drop(places.names.insert(*name)),
            PendingKey::Elem(id) => drop(places.elems.insert(*id)),
            PendingKey::Head => places.more = true,
        }
    }

    /// Adds the way from the root to each object.
    fn add_holders(&mut self, doc: &Document) {
        let mut objects: Vec<ObjIdx> = self.objects.keys().copied().collect();
        let mut done: FxHashSet<ObjIdx> = FxHashSet::default();
        while let Some(object) = objects.pop() {
            if object == ObjIdx::ROOT || !done.insert(object) {
                continue;
            }
            let object = doc.ops.object(object);
            let places = self.objects.entry(object.parent).or_default();
            match doc.ops.data(object.parent) {
                Data::Sequence(sequence) if sequence.locate(object.id).is_some() => {
                    places.elems.insert(object.id);
                }
                // The key or element of the op is not known without a search.
                _ => places.more = true,
            }
            objects.push(object.parent);
        }
    }

    /// True if anything in the object, or in an object inside, is touched.
    pub(crate) fn contains(&self, object: ObjIdx) -> bool {
        self.objects.contains_key(&object)
    }

    /// The objects, and the places in each.
    pub(crate) fn objects(&self) -> impl Iterator<Item = (ObjIdx, &Places)> {
        self.objects.iter().map(|(object, places)| (*object, places))
    }

    /// The places in an object, if complete.
    pub(crate) fn places(&self, object: ObjIdx) -> Option<&Places> {
        self.objects.get(&object).filter(|places| !places.more)
    }
}

impl Places {
    /// True if there may be others.
    pub(crate) fn is_part(&self) -> bool {
        self.more
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = NameIdx> {
        self.names.iter().copied()
    }

    pub(crate) fn elems(&self) -> impl Iterator<Item = OpId> {
        self.elems.iter().copied()
    }

    /// The elements in document order.
    pub(crate) fn in_order(&self, sequence: &Sequence) -> Option<Vec<Place>> {
        let mut places = Vec::with_capacity(self.elems.len());
        for id in self.elems() {
            let place = sequence.locate(id)?;
            places.push((sequence.rank_of(place), place));
        }
        places.sort_unstable_by_key(|(rank, _)| *rank);
        Some(places.into_iter().map(|(_, place)| place).collect())
    }

    /// True if marks begin or end at one of the elements.
    pub(crate) fn have_marks(&self, sequence: &Sequence) -> bool {
        let is_mark = |id| {
            let action = sequence.locate(id).and_then(|place| sequence.insert_action(place));
            action.is_none_or(|action| action == Action::Mark)
        };
        self.elems().any(is_mark)
    }
}

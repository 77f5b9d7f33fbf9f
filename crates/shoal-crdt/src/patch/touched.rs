//! Where the ops between two states are: all that a comparison of them has to look at.

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_history::{Action, Change, ChangeHash, Key, ObjId as StoredObjId, OpId};

use crate::apply::{local, local_object};
use crate::document::Document;
use crate::names::NameIdx;
use crate::opset::Data;
use crate::pending::{PendingKey, PendingOps};
use crate::register::ObjIdx;
use crate::sequence::{Place, Sequence};

/// The objects that ops are about, or that hold such objects, and the places in them.
#[derive(Debug, Default)]
pub(super) struct Touched {
    objects: FxHashMap<ObjIdx, Places>,
}

/// Places in one object.
#[derive(Debug, Default)]
pub(super) struct Places {
    names: FxHashSet<NameIdx>,
    elems: FxHashSet<OpId>,
    /// There may be others.
    more: bool,
}

impl Touched {
    /// Of the changes since `before`; `None` if these have more than `most` ops, or would have to be
    /// made from a loaded document first.
    pub(super) fn since(doc: &Document, before: &[ChangeHash], most: u64) -> Option<Self> {
        let changes = doc.graph.changes_at_hand_since(before)?;
        let ops: usize = changes.iter().map(|change| change.len()).sum();
        if ops as u64 > most {
            return None;
        }
        let mut touched = Self::default();
        for change in changes {
            touched.add_change(doc, change)?;
        }
        touched.add_holders(doc);
        Some(touched)
    }

    /// Of the ops of a transaction, which are done already.
    pub(super) fn pending(doc: &Document, pending: &PendingOps) -> Self {
        let mut touched = Self::default();
        pending.for_each_place(|obj, key| touched.add(doc, obj, &key));
        touched.add_holders(doc);
        touched
    }

    /// `None` if the change names what is not here.
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
            match &doc.ops.object(object.parent).data {
                Data::Sequence(sequence) if sequence.locate(object.id).is_some() => {
                    places.elems.insert(object.id);
                }
                // Which key or element it was put to is not known without a search.
                _ => places.more = true,
            }
            objects.push(object.parent);
        }
    }

    /// Whether anything in the object, or in one that it holds, is touched.
    pub(super) fn contains(&self, object: ObjIdx) -> bool {
        self.objects.contains_key(&object)
    }

    /// The places in an object, if those are all.
    pub(super) fn places(&self, object: ObjIdx) -> Option<&Places> {
        self.objects.get(&object).filter(|places| !places.more)
    }
}

impl Places {
    pub(super) fn names(&self) -> impl Iterator<Item = NameIdx> {
        self.names.iter().copied()
    }

    pub(super) fn elems(&self) -> impl Iterator<Item = OpId> {
        self.elems.iter().copied()
    }

    /// The elements in document order. `None` where marks begin or end, which change what stands
    /// between them.
    pub(super) fn in_order(&self, sequence: &Sequence) -> Option<Vec<Place>> {
        if sequence.has_marks() {
            return None;
        }
        let mut places = Vec::with_capacity(self.elems.len());
        for id in self.elems() {
            let place = sequence.locate(id)?;
            if sequence.insert_action(place)? == Action::Mark {
                return None;
            }
            places.push((sequence.rank_of(place), place));
        }
        places.sort_unstable_by_key(|(rank, _)| *rank);
        Some(places.into_iter().map(|(_, place)| place).collect())
    }
}

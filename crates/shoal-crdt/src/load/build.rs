//! The outline of a document chunk: its objects, and the rows of each, checked against every rule
//! on the order of rows. No value is looked at, and no object built (`rows.rs`): no insert is
//! integrated, and nothing is looked up but objects.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;
use shoal_history::{
    Action, ActorIdx, DocumentChunk, ObjId as StoredObjId, OpId, OpRows, RowGroup, RowKey,
};

use crate::actors::Actors;
use crate::error::{Error, OpFault};
use crate::id::ObjId;
use crate::names::{NameCache, NameIdx};
use crate::opset::OpSet;
use crate::register::ObjIdx;
use crate::rows::{Rows, Span};
use crate::sequence::NO_OP;
use crate::value::ObjType;

/// Puts the objects of a chunk into an empty document, to be built when somebody looks at them.
/// Costs O(n) for n groups of rows, and a hash for each object.
pub(super) fn outline(set: &mut OpSet, chunk: &DocumentChunk) -> Result<(), Error> {
    let actors: Box<[ActorIdx]> =
        chunk.actors().iter().map(|actor| set.intern_actor(actor)).collect();
    let rows = chunk.op_rows();
    set.reserve(rows.object_count());
    let mut outline = Outline::new(set, &rows, &actors);
    for index in 0..rows.group_count() {
        let group = rows.group(index);
        if let Err((at, fault)) = outline.push(index, &group) {
            let id = outline.id(group.id);
            let op = ObjId::new(id.counter + at, set.actors.id(id.actor).clone());
            return Err(Error::Row { row: group.row + at, column: fault.column(), op, fault });
        }
    }
    outline.close(rows.group_count());
    let names = outline.names;
    set.count_ops(rows.len() as u64);
    set.set_rows(Rows::new(rows, actors, names));
    Ok(())
}

/// A fault, and the row in the group at fault.
type Faulty = (u32, OpFault);

/// The objects found so far.
struct Outline<'a> {
    set: &'a mut OpSet,
    rows: &'a OpRows,
    actors: &'a [ActorIdx],
    /// By the numbers of the strings, see [`Rows`].
    names: Box<[Option<NameIdx>]>,
    cache: NameCache,
    object: StoredObjId,
    index: ObjIdx,
    is_sequence: bool,
    /// The first group of the object.
    first: u32,
    /// The string of the last key of a map.
    key: Option<u32>,
    /// True while the keys of the map come in order.
    keys_ascend: bool,
    /// The keys seen, once they came in another order.
    seen: FxHashSet<NameIdx>,
    /// The last element of a sequence.
    elem: OpId,
    /// The last op.
    last: OpId,
    /// True while the ops of each key or element come in the order of their ids.
    ids_ascend: bool,
    order: InsertOrder,
}

impl<'a> Outline<'a> {
    fn new(set: &'a mut OpSet, rows: &'a OpRows, actors: &'a [ActorIdx]) -> Self {
        Self {
            set,
            rows,
            actors,
            names: vec![None; rows.string_count()].into(),
            cache: NameCache::default(),
            object: StoredObjId::Root,
            index: ObjIdx::ROOT,
            is_sequence: false,
            first: 0,
            key: None,
            keys_ascend: true,
            seen: FxHashSet::default(),
            elem: NO_OP,
            last: NO_OP,
            ids_ascend: true,
            order: InsertOrder::new(),
        }
    }

    fn id(&self, id: OpId) -> OpId {
        OpId { counter: id.counter, actor: self.actors[id.actor.as_usize()] }
    }

    fn push(&mut self, index: u32, group: &RowGroup) -> Result<(), Faulty> {
        let first = |fault| (0, fault);
        if group.obj != self.object {
            self.enter(index, group.obj).map_err(first)?;
        }
        let id = self.id(group.id);
        let last = OpId { counter: id.counter + (group.len - 1), actor: id.actor };
        let before = std::mem::replace(&mut self.last, last);
        let is_next = match group.key {
            RowKey::Map(string) if !(self.is_sequence || group.insert) => {
                self.push_key(index, string).map_err(first)?
            }
            RowKey::Head | RowKey::Elem(_) if self.is_sequence && group.insert => {
                let reference = match group.key {
                    RowKey::Elem(id) => self.id(id),
                    _ => NO_OP,
                };
                let order = self.order.insert_run(reference, id, last, &self.set.actors);
                order.map_err(first)?;
                self.elem = last;
                true
            }
            RowKey::Elem(elem) if self.is_sequence => {
                // Each later row names the op before: no element.
                match (self.id(elem) == self.elem, group.len) {
                    (true, 1) => false,
                    (is_first, _) => return Err((u32::from(is_first), OpFault::RowOrder)),
                }
            }
            _ => return Err(first(OpFault::WrongKey)),
        };
        if !is_next && self.set.actors.compare(before, id) != Ordering::Less {
            self.ids_ascend = false;
        }
        if let Some(kind) = ObjType::made_by(group.action) {
            if !self.set.has_room_below(self.index) {
                return Err(first(OpFault::TooDeep));
            }
            for counter in id.counter..=last.counter {
                self.set.add_unbuilt(OpId { counter, actor: id.actor }, kind, self.index);
            }
        }
        match group.action {
            Action::Mark if !group.insert => Err(first(OpFault::MalformedMark)),
            Action::Increment if group.insert => Err(first(OpFault::MalformedIncrement)),
            _ => Ok(()),
        }
    }

    /// Takes note of a key of the map; false for the key of the row before.
    #[inline]
    fn push_key(&mut self, index: u32, string: u32) -> Result<bool, OpFault> {
        if self.key == Some(string) {
            return Ok(false);
        }
        let text = self.rows.string(string);
        let name = match self.names[string as usize] {
            Some(name) => name,
            None => self.cache.intern(&mut self.set.names, text),
        };
        self.names[string as usize] = Some(name);
        let before = self.key.replace(string).map(|key| self.rows.string(key));
        if before == Some(text) {
            return Ok(false);
        }
        if self.keys_ascend && before.is_some_and(|before| before > text) {
            // Old writers sorted keys by UTF-16 units: any order will do, but no key comes twice.
            self.keys_ascend = false;
            let names = (self.first..index).filter_map(|at| match self.rows.group(at).key {
                RowKey::Map(string) => self.names[string as usize],
                _ => None,
            });
            self.seen = names.collect();
        }
        if !self.keys_ascend && !self.seen.insert(name) {
            return Err(OpFault::RowOrder);
        }
        Ok(true)
    }

    /// Goes on to the object whose rows begin with the group `index`.
    fn enter(&mut self, index: u32, object: StoredObjId) -> Result<(), OpFault> {
        self.close(index);
        let StoredObjId::Op(id) = object else { return Err(OpFault::RowOrder) };
        let id = self.id(id);
        let found = self.set.find(StoredObjId::Op(id)).ok_or(OpFault::UnknownObject)?;
        if let StoredObjId::Op(before) = self.object
            && self.set.actors.compare(self.id(before), id) != Ordering::Less
        {
            return Err(OpFault::RowOrder);
        }
        (self.object, self.index, self.first) = (object, found, index);
        (self.elem, self.key, self.keys_ascend, self.ids_ascend) = (NO_OP, None, true, true);
        self.order.clear();
        self.is_sequence = self.set.object(found).kind.is_sequence();
        Ok(())
    }

    /// Ends the object before the group `end`.
    fn close(&mut self, end: u32) {
        let Self { first, keys_ascend, ids_ascend, .. } = *self;
        let span = Span { first, end, keys_ascend, ids_ascend };
        self.set.set_span(self.index, span);
        self.seen.clear();
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

    fn clear(&mut self) {
        self.path.clear();
        self.last_at_head = NO_OP;
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

#[cfg(test)]
mod tests {
    use crate::{ActorId, CommitOptions, Document, LoadOptions, ObjType, ROOT, Verify};

    /// 40 maps in a list, each with a text, a number and a list.
    fn nested() -> Document {
        let mut doc = Document::new(ActorId::new(&[1]));
        let mut tx = doc.transaction();
        let list = tx.put_object(&ROOT, "items", ObjType::List).unwrap();
        for at in 0..40 {
            let map = tx.insert_object(&list, at, ObjType::Map).unwrap();
            let text = tx.put_object(&map, "title", ObjType::Text).unwrap();
            tx.splice_text(&text, 0, 0, &format!("title {at}")).unwrap();
            tx.put(&map, "n", at as i64).unwrap();
            let tags = tx.put_object(&map, "tags", ObjType::List).unwrap();
            tx.insert(&tags, 0, "tag").unwrap();
        }
        tx.commit(CommitOptions::default());
        doc
    }

    fn load(bytes: &[u8]) -> Document {
        let options = LoadOptions { verify: Verify::Later, ..LoadOptions::default() };
        Document::load(bytes, ActorId::new(&[2]), &options).unwrap()
    }

    #[test]
    fn only_what_is_looked_at_is_built() {
        let mut doc = nested();
        let bytes = doc.save();
        let mut loaded = load(&bytes);
        assert_eq!(loaded.ops.built(), 0);
        assert_eq!((loaded.heads(), loaded.op_count()), (doc.heads(), doc.op_count()));
        assert_eq!(loaded.ops.built(), 0);
        let (_, list) = loaded.get(&ROOT, "items").unwrap().unwrap();
        let (_, map) = loaded.get(&list, 7).unwrap().unwrap();
        let (_, text) = loaded.get(&map, "title").unwrap().unwrap();
        assert_eq!(loaded.text(&text).unwrap(), "title 7");
        assert_eq!(loaded.ops.built(), 4, "the root, the list, the map, the text");
        // An object known by its id needs no way from the root.
        let mut other = load(&bytes);
        let mut tx = other.transaction();
        tx.splice_text(&text, 5, 0, "!").unwrap();
        tx.commit(CommitOptions::default());
        assert_eq!(other.ops.built(), 1);
        // A fork shares the objects built, and builds others alone.
        let fork = other.fork(ActorId::new(&[3]));
        assert_eq!(fork.text(&text).unwrap(), "title! 7");
        loaded.merge(&other).unwrap();
        assert_eq!(loaded.ops.built(), 4);
        assert_eq!(loaded.save(), other.save());
        let mut tx = doc.transaction();
        tx.splice_text(&text, 5, 0, "!").unwrap();
        tx.commit(CommitOptions::default());
        let json = |doc: &Document| serde_json::to_string(&doc.to_json()).unwrap();
        assert_eq!(json(&doc), json(&fork));
        assert_eq!(json(&doc), json(&loaded));
    }

    #[test]
    fn threads_build_the_same_objects() {
        let mut doc = nested();
        let bytes = doc.save();
        let json = |doc: &Document| serde_json::to_string(&doc.to_json()).unwrap();
        let loaded = load(&bytes);
        std::thread::scope(|scope| {
            let read: Vec<_> = (0..4).map(|_| scope.spawn(|| json(&loaded))).collect();
            for thread in read {
                assert_eq!(thread.join().unwrap(), json(&doc));
            }
        });
    }
}

//! Writing documents as bytes.

use shoal_history::{
    ActorId, ActorIdx, ChangeHash, DocumentOps, DocumentRows, DocumentWriter, InsertRun, Key,
    Limits, ObjId as StoredObjId, Op, OpId, TextRun,
};

use crate::document::Document;
use crate::error::Error;
use crate::load::LoadOptions;
use crate::opset::{Data, Object, OpSet};
use crate::register::OpRef;
use crate::sequence::{Kind, NO_OP, RunView};

/// How a document is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaveOptions {
    /// True to deflate large columns.
    pub deflate: bool,
    /// True to save changes waiting for others as well.
    pub retain_orphans: bool,
}

impl Default for SaveOptions {
    fn default() -> Self {
        Self { deflate: true, retain_orphans: true }
    }
}

impl Document {
    /// The whole document as one document chunk, followed by the changes waiting for others. A
    /// document with a change outside of the reach of document chunks
    /// ([`shoal_history::Change::is_canonical`]) is written as its changes. Records the heads for
    /// [`Document::save_incremental`]. Costs O(n log n).
    pub fn save(&mut self) -> Vec<u8> {
        self.saved_heads = self.heads();
        self.to_bytes(SaveOptions::default())
    }

    /// Like [`Document::save`], and loads the written bytes as a check. Cost: saving and loading.
    ///
    /// # Errors
    /// As [`Document::load`]: a bug of this crate, and the bytes must not replace good ones.
    pub fn save_and_verify(&mut self) -> Result<Vec<u8>, Error> {
        let bytes = self.save();
        let options = LoadOptions {
            encoding: self.text_encoding(),
            limits: Limits::FORMAT,
            ..LoadOptions::default()
        };
        let loaded = Self::load(&bytes, self.actor().clone(), &options)?;
        match self.heads().into_iter().find(|head| !loaded.has_heads(&[*head])) {
            None => Ok(bytes),
            Some(lost) => Err(Error::UnknownHead(lost)),
        }
    }

    /// The bytes of [`Document::save`] with other options, without recording the heads.
    pub fn to_bytes(&self, options: SaveOptions) -> Vec<u8> {
        let mut bytes = if self.graph.is_canonical() {
            self.document_chunk(options.deflate)
        } else {
            // A document chunk would give such a change back in other bytes, hence with another
            // hash, and could not be loaded. An empty one comes first, to let changes wait.
            let mut bytes = Self::new(self.actor().clone()).document_chunk(options.deflate);
            bytes.extend(self.save_after(&[]));
            bytes
        };
        if options.retain_orphans {
            for change in self.queue.changes() {
                bytes.extend_from_slice(change.raw_bytes());
            }
        }
        bytes
    }

    /// The changes neither among `heads` nor among their ancestors, as change chunks.
    pub fn save_after(&self, heads: &[ChangeHash]) -> Vec<u8> {
        let changes = self.changes_since(heads);
        changes.into_iter().flat_map(|change| change.raw_bytes().iter().copied()).collect()
    }

    /// The changes since the last [`Document::save`], [`Document::load`] or call of this, as change
    /// chunks to append to the bytes before.
    pub fn save_incremental(&mut self) -> Vec<u8> {
        let bytes = self.save_after(&self.saved_heads);
        self.saved_heads = self.heads();
        bytes
    }

    fn document_chunk(&self, deflate: bool) -> Vec<u8> {
        let actors = &self.ops.actors;
        let mut sorted: Vec<ActorIdx> = (0_u32..)
            .take(actors.ids().len())
            .map(ActorIdx)
            .filter(|actor| self.graph.seq_of(actors.id(*actor)) > 0)
            .collect();
        sorted.sort_unstable_by(|a, b| actors.id(*a).cmp(actors.id(*b)));
        let ids: Vec<ActorId> = sorted.iter().map(|actor| actors.id(*actor).clone()).collect();
        let mut places = vec![ActorIdx(u32::MAX); actors.ids().len()];
        for (place, actor) in (0_u32..).zip(&sorted) {
            places[actor.as_usize()] = ActorIdx(place);
        }

        let mut objects: Vec<&Object> = self.ops.objects().collect();
        objects.sort_unstable_by(|a, b| actors.compare(a.id, b.id));
        let of_rows: Box<[ActorIdx]> =
            self.ops.actors_of_rows().iter().map(|actor| places[actor.as_usize()]).collect();
        let write = |deflate, copies: bool| {
            let mut writer = DocumentWriter::new(&ids).deflate(deflate);
            writer.push_graph(&self.graph);
            let (places, of_rows) = (&places[..], &of_rows[..]);
            let links = Vec::new();
            let mut rows = RowWriter { writer, places, of_rows, ops: &self.ops, links };
            for object in &objects {
                match self.ops.untouched(object).filter(|_| copies) {
                    Some((stored, span)) => rows.copy(stored.ops(span)),
                    None if copies => rows.push_object(object, self.ops.data_of(object)),
                    None => rows.push_object(object, &self.ops.build(object)),
                }
            }
            rows.writer.finish().expect("the op set keeps the rules of the format")
        };
        debug_assert!(
            self.ops.op_count() > 2000 || write(false, true) == write(false, false),
            "rows are copied as their objects would write them"
        );
        write(deflate, true)
    }
}

struct RowWriter<'a> {
    writer: DocumentWriter<'a>,
    /// From this document's actors to the sorted ones.
    places: &'a [ActorIdx],
    /// From the actors of the loaded rows to the sorted ones.
    of_rows: &'a [ActorIdx],
    ops: &'a OpSet,
    links: Vec<OpId>,
}

impl RowWriter<'_> {
    /// Writes the rows of an object as they were loaded: the object is not built.
    fn copy(&mut self, mut stored: DocumentOps<'_>) {
        let of_rows = self.of_rows;
        let id = |id: OpId| place(of_rows, id);
        let object = |obj: StoredObjId| match obj {
            StoredObjId::Root => obj,
            StoredObjId::Op(obj) => StoredObjId::Op(id(obj)),
        };
        while let Some(read) = stored.next_rows() {
            match read {
                DocumentRows::Op(op) => {
                    self.links.clear();
                    self.links.extend(op.links.iter().map(|link| id(*link)));
                    let (obj, links) = (object(op.obj), &self.links);
                    let key = match op.key {
                        Key::Elem(elem) => Key::Elem(id(elem)),
                        Key::Map(key) if !(op.expand || op.mark_name.is_some()) => {
                            let content = (op.action, op.value);
                            self.writer.push_entry(obj, key, id(op.id), content, links);
                            continue;
                        }
                        key => key,
                    };
                    self.writer.push_op(&Op { id: id(op.id), obj, key, links, ..op });
                }
                DocumentRows::Text(run) => self.writer.push_text(&TextRun {
                    id: id(run.id),
                    obj: object(run.obj),
                    reference: run.reference.map(id),
                    succ: run.succ.map(id),
                    ..run
                }),
                DocumentRows::Scalars(run, values) => {
                    let run = InsertRun {
                        id: id(run.id),
                        obj: object(run.obj),
                        reference: run.reference.map(id),
                        succ: run.succ.map(id),
                        ..run
                    };
                    self.writer.push_scalars(&run, values);
                }
            }
        }
    }

    fn push_object(&mut self, object: &Object, data: &Data) {
        let actors = &*self.ops.actors;
        let obj = if object.id == NO_OP {
            StoredObjId::Root
        } else {
            StoredObjId::Op(self.place(object.id))
        };
        match data {
            Data::Map(map) => {
                let mut rows = Vec::new();
                for (key, register) in map.sorted(&self.ops.names) {
                    if let Some(op) = register.alone()
                        && !(op.expand || op.mark_name.is_some())
                    {
                        let places = self.places;
                        let content = (op.action, op.value.as_ref());
                        self.links.clear();
                        self.links.extend(op.succ.as_slice().iter().map(|id| place(places, *id)));
                        self.writer.push_entry(
                            obj,
                            key,
                            place(places, op.id),
                            content,
                            &self.links,
                        );
                        continue;
                    }
                    rows.clear();
                    register.rows(actors, &mut rows);
                    for row in &rows {
                        self.push(obj, Key::Map(key), false, row);
                    }
                }
            }
            Data::Sequence(sequence) => {
                let sides = sequence.sides();
                let mut rows = Vec::new();
                for run in sequence.runs() {
                    if run.is_text() {
                        self.push_text(obj, &run);
                        continue;
                    }
                    if run.run.kind == Kind::Scalars {
                        self.push_scalars(obj, &run);
                        continue;
                    }
                    for at in 0..run.run.len {
                        rows.clear();
                        let elem = run.elem(at);
                        elem.rows(sides, actors, &mut rows);
                        for row in &rows {
                            let insert = row.id == elem.id();
                            let key = if insert { run.run.reference_at(at) } else { elem.id() };
                            let key =
                                if key == NO_OP { Key::Head } else { Key::Elem(self.place(key)) };
                            self.push(obj, key, insert, row);
                        }
                    }
                }
            }
        }
    }

    fn push_text(&mut self, obj: StoredObjId, view: &RunView<'_>) {
        let InsertRun { id, obj, reference, len, succ, succ_descends } = self.inserts(obj, view);
        let text = view.text;
        self.writer.push_text(&TextRun { id, obj, reference, text, len, succ, succ_descends });
    }

    fn push_scalars(&mut self, obj: StoredObjId, view: &RunView<'_>) {
        let run = self.inserts(obj, view);
        self.writer.push_scalars(&run, view.scalars.iter());
    }

    fn inserts(&self, obj: StoredObjId, view: &RunView<'_>) -> InsertRun {
        let run = view.run;
        let some = |id: OpId| (id != NO_OP).then(|| self.place(id));
        InsertRun {
            id: self.place(run.id),
            obj,
            reference: some(run.reference),
            len: run.len,
            succ: some(run.succ),
            succ_descends: run.succ_descends,
        }
    }

    fn push(&mut self, obj: StoredObjId, key: Key<'_>, insert: bool, row: &OpRef<'_>) {
        self.links.clear();
        let places = self.places;
        self.links.extend(row.succ.iter().map(|id| place(places, id)));
        self.writer.push_op(&Op {
            id: place(places, row.id),
            obj,
            key,
            insert,
            action: row.action,
            value: row.value,
            expand: row.expand,
            mark_name: row.mark_name,
            links: &self.links,
        });
    }

    fn place(&self, id: OpId) -> OpId {
        place(self.places, id)
    }
}

fn place(places: &[ActorIdx], id: OpId) -> OpId {
    OpId { counter: id.counter, actor: places[id.actor.as_usize()] }
}

#[cfg(test)]
mod tests {
    use shoal_history::{
        Action, ActorId, ActorIdx, DocumentWriter, Key, ObjId as StoredObjId, Op, OpId, ScalarRef,
    };

    use crate::{CommitOptions, Document, LoadOptions, ObjType, ROOT};

    fn load(bytes: &[u8]) -> Document {
        Document::load(bytes, ActorId::new(&[9]), &LoadOptions::default()).unwrap()
    }

    #[test]
    fn an_edit_of_a_loaded_document_is_saved_without_building_the_others() {
        let mut doc = Document::new(ActorId::new(&[1]));
        let mut tx = doc.transaction();
        for at in 0..30_i64 {
            let map = tx.put_object(&ROOT, &format!("map {at}"), ObjType::Map).unwrap();
            tx.put(&map, "n", at).unwrap();
            tx.put(&map, "n", at + 1).unwrap();
            tx.delete(&map, "n").unwrap();
            let list = tx.put_object(&map, "list", ObjType::List).unwrap();
            (0..5).for_each(|at| tx.insert(&list, at, at as i64).unwrap());
            tx.put(&list, 2, "another").unwrap();
            let text = tx.put_object(&map, "text", ObjType::Text).unwrap();
            tx.splice_text(&text, 0, 0, "some text").unwrap();
            tx.splice_text(&text, 2, 3, "").unwrap();
        }
        tx.commit(CommitOptions::default());
        let bytes = doc.save();
        let mut loaded = load(&bytes);
        // The author of the edit comes before the one known.
        let mut edited = [doc, loaded.fork(ActorId::new(&[7]))];
        for doc in &mut edited {
            doc.set_actor(ActorId::new(&[0]));
            let mut tx = doc.transaction();
            tx.put(&ROOT, "edit", 1).unwrap();
            tx.commit(CommitOptions::default());
        }
        let [mut built, mut copied] = edited;
        assert_eq!(copied.ops.built(), 1, "the root");
        assert_eq!(copied.save(), built.save());
        assert_eq!(copied.ops.built(), 1);
        assert_eq!(loaded.save(), bytes);
        assert_eq!(loaded.ops.built(), 1, "the fork's root is shared");
    }

    #[test]
    fn ops_of_a_key_out_of_order_are_saved_in_order() {
        let mut doc = Document::new(ActorId::new(&[1]));
        let mut other = doc.fork(ActorId::new(&[2]));
        for (doc, value) in [(&mut doc, 10), (&mut other, 20)] {
            let mut tx = doc.transaction();
            tx.put(&ROOT, "key", value).unwrap();
            tx.commit(CommitOptions::default());
        }
        doc.merge(&other).unwrap();
        let actors = [ActorId::new(&[1]), ActorId::new(&[2])];
        let mut writer = DocumentWriter::new(&actors);
        doc.changes().for_each(|change| writer.push_change(change));
        for actor in [1, 0] {
            writer.push_op(&Op {
                id: OpId { counter: 1, actor: ActorIdx(actor) },
                obj: StoredObjId::Root,
                key: Key::Map("key"),
                insert: false,
                action: Action::Set,
                value: ScalarRef::Int(i64::from(actor) * 10 + 10),
                expand: false,
                mark_name: None,
                links: &[],
            });
        }
        let swapped = writer.finish().unwrap();
        assert_ne!(swapped, doc.save());
        assert_eq!(load(&swapped).save(), doc.save());
    }
}

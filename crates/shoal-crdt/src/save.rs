//! Writing documents as bytes.

use shoal_history::{
    ActorId, ActorIdx, ChangeHash, DocumentWriter, InsertRun, Key, Limits, ObjId as StoredObjId,
    Op, OpId, TextRun,
};

use crate::actors::Actors;
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

        let mut writer = DocumentWriter::new(&ids).deflate(deflate);
        writer.push_graph(&self.graph);
        let mut objects: Vec<&Object> = self.ops.objects().collect();
        objects.sort_unstable_by(|a, b| actors.compare(a.id, b.id));
        let mut rows = RowWriter { writer, places: &places, ops: &self.ops, links: Vec::new() };
        for object in objects {
            rows.push_object(object, actors);
        }
        rows.writer.finish().expect("the op set keeps the rules of the format")
    }
}

struct RowWriter<'a> {
    writer: DocumentWriter<'a>,
    /// From this document's actors to the sorted ones.
    places: &'a [ActorIdx],
    ops: &'a OpSet,
    links: Vec<OpId>,
}

impl RowWriter<'_> {
    fn push_object(&mut self, object: &Object, actors: &Actors) {
        let obj = if object.id == NO_OP {
            StoredObjId::Root
        } else {
            StoredObjId::Op(self.place(object.id))
        };
        match self.ops.data_of(object) {
            Data::Map(map) => {
                let mut rows = Vec::new();
                for (key, register) in map.sorted(&self.ops.names) {
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

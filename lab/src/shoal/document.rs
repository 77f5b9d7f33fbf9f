//! `shoal-crdt`.

use shoal_crdt::{
    ActorId, Change, ChangeHash, CommitOptions, Cursor, Document, LoadOptions, ObjId, ObjType,
    ROOT, ReadDoc, Scalar, ScalarRef, SyncMessage, SyncState, Transaction, Value, Verify,
};

use crate::engine::document::Kind;
use crate::engine::{About, DocEngine, Miss};

/// Shoal's documents.
pub(super) struct Documents;

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// The 16 bytes of an actor, as the reference's adapter has them.
fn actor_id(actor: u16) -> ActorId {
    let mut bytes = [0; 16];
    bytes[14..].copy_from_slice(&actor.to_be_bytes());
    ActorId::new(&bytes)
}

fn int(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Scalar(ScalarRef::Int(value)) => Some(*value),
        _ => None,
    }
}

impl DocEngine for Documents {
    type Doc = Document;
    type Tx<'a> = Transaction<'a>;
    type Obj = ObjId;
    type Heads = Vec<ChangeHash>;
    type Cursor = Cursor;
    type Session = SyncState;

    fn about(&self) -> About {
        About::ours("shoal", "shoal-crdt: Automerge's format, in memory")
    }

    fn format(&self) -> Option<&'static str> {
        Some("automerge")
    }

    fn create(&self, actor: u16) -> Result<Document, Miss> {
        Ok(Document::new(actor_id(actor)))
    }

    fn transact<R>(
        &self,
        doc: &mut Document,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        let mut tx = doc.transaction();
        let result = work(&mut tx)?;
        tx.commit(CommitOptions::default());
        Ok(result)
    }

    fn root(&self, _doc: &Document) -> Result<ObjId, Miss> {
        Ok(ROOT)
    }

    fn find(&self, doc: &Document, obj: &ObjId, key: &str) -> Result<ObjId, Miss> {
        match failed(doc.get(obj, key))? {
            Some((Value::Object(_), id)) => Ok(id),
            _ => Err(Miss::Failed(format!("no object at {key}"))),
        }
    }

    fn put(
        &self,
        tx: &mut Transaction<'_>,
        obj: &ObjId,
        key: &str,
        value: i64,
    ) -> Result<(), Miss> {
        failed(tx.put(obj, key, Scalar::Int(value)))
    }

    fn put_object(
        &self,
        tx: &mut Transaction<'_>,
        obj: &ObjId,
        key: &str,
        kind: Kind,
    ) -> Result<ObjId, Miss> {
        let kind = match kind {
            Kind::Map => ObjType::Map,
            Kind::List => ObjType::List,
            Kind::Text => ObjType::Text,
        };
        failed(tx.put_object(obj, key, kind))
    }

    fn insert(
        &self,
        tx: &mut Transaction<'_>,
        obj: &ObjId,
        index: usize,
        value: i64,
    ) -> Result<(), Miss> {
        failed(tx.insert(obj, index, Scalar::Int(value)))
    }

    fn splice(
        &self,
        tx: &mut Transaction<'_>,
        obj: &ObjId,
        place: usize,
        delete: usize,
        insert: &str,
    ) -> Result<(), Miss> {
        let delete = isize::try_from(delete).map_err(Miss::failed)?;
        failed(tx.splice_text(obj, place, delete, insert))
    }

    fn get(&self, doc: &Document, obj: &ObjId, key: &str) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.get(obj, key))?.and_then(|(value, _)| int(&value)))
    }

    fn keys(&self, doc: &Document, obj: &ObjId, visit: impl FnMut(&str)) -> Result<(), Miss> {
        failed(doc.keys(obj))?.for_each(visit);
        Ok(())
    }

    fn at(&self, doc: &Document, obj: &ObjId, index: usize) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.get(obj, index))?.and_then(|(value, _)| int(&value)))
    }

    fn elements(&self, doc: &Document, obj: &ObjId, visit: impl FnMut(i64)) -> Result<(), Miss> {
        failed(doc.items(obj, 0))?.filter_map(|item| int(&item.value)).for_each(visit);
        Ok(())
    }

    fn length(&self, doc: &Document, obj: &ObjId) -> Result<usize, Miss> {
        failed(doc.length(obj))
    }

    fn text(&self, doc: &Document, obj: &ObjId) -> Result<String, Miss> {
        failed(doc.text(obj))
    }

    fn json(&self, doc: &Document) -> Result<String, Miss> {
        failed(serde_json::to_string(&doc.to_json()))
    }

    fn heads(&self, doc: &mut Document) -> Result<Vec<ChangeHash>, Miss> {
        Ok(doc.heads())
    }

    fn heads_bytes(&self, doc: &mut Document) -> Option<Vec<u8>> {
        Some(doc.heads().iter().flat_map(|head| head.0).collect())
    }

    fn get_at(
        &self,
        doc: &Document,
        obj: &ObjId,
        key: &str,
        heads: &Vec<ChangeHash>,
    ) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.at(heads).get(obj, key))?.and_then(|(value, _)| int(&value)))
    }

    fn text_at(
        &self,
        doc: &Document,
        obj: &ObjId,
        heads: &Vec<ChangeHash>,
    ) -> Result<String, Miss> {
        failed(doc.at(heads).text(obj))
    }

    fn cursor(&self, doc: &Document, obj: &ObjId, index: usize) -> Result<Cursor, Miss> {
        failed(doc.get_cursor(obj, index))
    }

    fn resolve(&self, doc: &Document, obj: &ObjId, cursor: &Cursor) -> Result<usize, Miss> {
        failed(doc.get_cursor_position(obj, cursor))
    }

    fn transact_with_patches(
        &self,
        doc: &mut Document,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<(), Miss>,
    ) -> Result<usize, Miss> {
        let mut tx = doc.transaction();
        work(&mut tx)?;
        let patches = failed(tx.patches())?.len();
        tx.commit(CommitOptions::default());
        Ok(patches)
    }

    fn session(&self) -> Result<SyncState, Miss> {
        Ok(SyncState::new())
    }

    fn generate(
        &self,
        doc: &mut Document,
        session: &mut SyncState,
    ) -> Result<Option<Vec<u8>>, Miss> {
        Ok(doc.generate_sync_message(session).map(|message| message.encode()))
    }

    fn receive(
        &self,
        doc: &mut Document,
        session: &mut SyncState,
        message: &[u8],
    ) -> Result<(), Miss> {
        let message = failed(SyncMessage::decode(message))?;
        failed(doc.receive_sync_message(session, message))
    }

    fn save(&self, doc: &mut Document) -> Result<Vec<u8>, Miss> {
        Ok(doc.save())
    }

    fn load(&self, bytes: &[u8], actor: u16) -> Result<Document, Miss> {
        failed(Document::load(bytes, actor_id(actor), &LoadOptions::default()))
    }

    fn load_unverified(&self, bytes: &[u8], actor: u16) -> Result<Document, Miss> {
        let options = LoadOptions { verify: Verify::Later, ..LoadOptions::default() };
        failed(Document::load(bytes, actor_id(actor), &options))
    }

    fn history(&self, doc: &mut Document) -> Result<usize, Miss> {
        Ok(doc.changes().filter(|change| !change.is_empty()).count())
    }

    fn fork(&self, doc: &mut Document, actor: u16) -> Result<Document, Miss> {
        Ok(doc.fork(actor_id(actor)))
    }

    fn merge(&self, target: &mut Document, source: &mut Document) -> Result<(), Miss> {
        failed(target.merge(source)).map(|_| ())
    }

    fn changes(
        &self,
        doc: &mut Document,
        since: Option<&Vec<ChangeHash>>,
    ) -> Result<Vec<Vec<u8>>, Miss> {
        let since = since.map_or(&[][..], Vec::as_slice);
        Ok(doc.changes_since(since).iter().map(|change| change.raw_bytes().to_vec()).collect())
    }

    fn apply(&self, doc: &mut Document, changes: &[Vec<u8>]) -> Result<(), Miss> {
        failed(doc.apply_changes(failed(Change::read_all(changes))?))
    }
}

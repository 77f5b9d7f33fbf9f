//! The reference: the `automerge` crate.

use automerge::sync::{Message, State, SyncDoc};
use automerge::transaction::{CommitOptions, Transactable, Transaction};
use automerge::{
    ActorId, AutoSerde, Automerge, Change, ChangeHash, Cursor, LoadOptions, ObjId, ObjType, ROOT,
    ReadDoc, ScalarValue, Value, VerificationMode,
};
use shoal_lab::engine::document::Kind;
use shoal_lab::engine::{About, DocEngine, Miss};

/// Its manual interface: `Automerge`, not `AutoCommit`, whose transactions open and close by
/// themselves.
pub(crate) struct Reference;

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

/// The 16 bytes of an actor, as Shoal's adapter has them.
fn actor_id(actor: u16) -> ActorId {
    let mut bytes = [0; 16];
    bytes[14..].copy_from_slice(&actor.to_be_bytes());
    ActorId::from(bytes)
}

fn untimed<O>(_: &O) -> CommitOptions {
    CommitOptions::default().with_time(0)
}

impl DocEngine for Reference {
    type Doc = Automerge;
    type Tx<'a> = Transaction<'a>;
    type Obj = ObjId;
    type Heads = Vec<ChangeHash>;
    type Cursor = Cursor;
    type Session = State;

    fn about(&self) -> About {
        About::peer("automerge", "0.12", "the reference; Automerge, not AutoCommit")
    }

    fn format(&self) -> Option<&'static str> {
        Some("automerge")
    }

    fn create(&self, actor: u16) -> Result<Automerge, Miss> {
        Ok(Automerge::new().with_actor(actor_id(actor)))
    }

    fn transact<R>(
        &self,
        doc: &mut Automerge,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        match doc.transact_with(untimed, work) {
            Ok(success) => Ok(success.result),
            Err(failure) => Err(failure.error),
        }
    }

    fn root(&self, _doc: &Automerge) -> Result<ObjId, Miss> {
        Ok(ROOT)
    }

    fn find(&self, doc: &Automerge, obj: &ObjId, key: &str) -> Result<ObjId, Miss> {
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
        failed(tx.put(obj, key, value))
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
        failed(tx.insert(obj, index, value))
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

    fn get(&self, doc: &Automerge, obj: &ObjId, key: &str) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.get(obj, key))?.and_then(|(value, _)| value.as_i64()))
    }

    fn keys(&self, doc: &Automerge, obj: &ObjId, mut visit: impl FnMut(&str)) -> Result<(), Miss> {
        doc.keys(obj).for_each(|key| visit(&key));
        Ok(())
    }

    fn at(&self, doc: &Automerge, obj: &ObjId, index: usize) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.get(obj, index))?.and_then(|(value, _)| value.as_i64()))
    }

    fn elements(
        &self,
        doc: &Automerge,
        obj: &ObjId,
        mut visit: impl FnMut(i64),
    ) -> Result<(), Miss> {
        for item in doc.list_range(obj, ..) {
            if let automerge::ValueRef::Scalar(automerge::ScalarValueRef::Int(value)) = item.value {
                visit(value);
            }
        }
        Ok(())
    }

    fn length(&self, doc: &Automerge, obj: &ObjId) -> Result<usize, Miss> {
        Ok(doc.length(obj))
    }

    fn text(&self, doc: &Automerge, obj: &ObjId) -> Result<String, Miss> {
        failed(doc.text(obj))
    }

    fn json(&self, doc: &Automerge) -> Result<String, Miss> {
        failed(serde_json::to_string(&AutoSerde::from(doc)))
    }

    fn heads(&self, doc: &mut Automerge) -> Result<Vec<ChangeHash>, Miss> {
        Ok(doc.get_heads())
    }

    fn heads_bytes(&self, doc: &mut Automerge) -> Option<Vec<u8>> {
        let mut heads = doc.get_heads();
        heads.sort_unstable();
        Some(heads.iter().flat_map(|head| head.0).collect())
    }

    fn get_at(
        &self,
        doc: &Automerge,
        obj: &ObjId,
        key: &str,
        heads: &Vec<ChangeHash>,
    ) -> Result<Option<i64>, Miss> {
        Ok(failed(doc.get_at(obj, key, heads))?.and_then(|(value, _)| match value {
            Value::Scalar(scalar) => match scalar.as_ref() {
                ScalarValue::Int(value) => Some(*value),
                _ => None,
            },
            Value::Object(_) => None,
        }))
    }

    fn text_at(
        &self,
        doc: &Automerge,
        obj: &ObjId,
        heads: &Vec<ChangeHash>,
    ) -> Result<String, Miss> {
        failed(doc.text_at(obj, heads))
    }

    fn cursor(&self, doc: &Automerge, obj: &ObjId, index: usize) -> Result<Cursor, Miss> {
        failed(doc.get_cursor(obj, index, None))
    }

    fn resolve(&self, doc: &Automerge, obj: &ObjId, cursor: &Cursor) -> Result<usize, Miss> {
        failed(doc.get_cursor_position(obj, cursor, None))
    }

    fn transact_with_patches(
        &self,
        doc: &mut Automerge,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<(), Miss>,
    ) -> Result<usize, Miss> {
        match doc.transact_and_log_patches_with(untimed, work) {
            Ok(mut success) => Ok(doc.make_patches(&mut success.patch_log).len()),
            Err(failure) => Err(failure.error),
        }
    }

    fn save(&self, doc: &mut Automerge) -> Result<Vec<u8>, Miss> {
        Ok(doc.save())
    }

    fn load(&self, bytes: &[u8], actor: u16) -> Result<Automerge, Miss> {
        Ok(failed(Automerge::load(bytes))?.with_actor(actor_id(actor)))
    }

    fn load_unverified(&self, bytes: &[u8], actor: u16) -> Result<Automerge, Miss> {
        let options = LoadOptions::new().verification_mode(VerificationMode::DontCheck);
        let doc = failed(Automerge::load_with_options(bytes, options))?;
        Ok(doc.with_actor(actor_id(actor)))
    }

    fn history(&self, doc: &mut Automerge) -> Result<usize, Miss> {
        Ok(doc.get_changes(&[]).len())
    }

    fn fork(&self, doc: &mut Automerge, actor: u16) -> Result<Automerge, Miss> {
        Ok(doc.fork().with_actor(actor_id(actor)))
    }

    fn merge(&self, target: &mut Automerge, source: &mut Automerge) -> Result<(), Miss> {
        failed(target.merge(source)).map(|_| ())
    }

    fn changes(
        &self,
        doc: &mut Automerge,
        since: Option<&Vec<ChangeHash>>,
    ) -> Result<Vec<Vec<u8>>, Miss> {
        let since = since.map_or(&[][..], Vec::as_slice);
        Ok(doc.get_changes(since).iter().map(|change| change.raw_bytes().to_vec()).collect())
    }

    fn apply(&self, doc: &mut Automerge, changes: &[Vec<u8>]) -> Result<(), Miss> {
        let changes: Result<Vec<Change>, _> =
            changes.iter().map(|bytes| Change::from_bytes(bytes.clone())).collect();
        failed(doc.apply_changes(failed(changes)?))
    }

    fn session(&self) -> Result<State, Miss> {
        Ok(State::new())
    }

    fn generate(&self, doc: &mut Automerge, session: &mut State) -> Result<Option<Vec<u8>>, Miss> {
        Ok(doc.generate_sync_message(session).map(Message::encode))
    }

    fn receive(
        &self,
        doc: &mut Automerge,
        session: &mut State,
        message: &[u8],
    ) -> Result<(), Miss> {
        let message = failed(Message::decode(message))?;
        failed(doc.receive_sync_message(session, message))
    }
}

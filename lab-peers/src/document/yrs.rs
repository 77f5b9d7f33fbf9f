//! `yrs`, the Rust port of Yjs.

use std::sync::{Arc, Mutex};

use shoal_lab::engine::document::{Kind, Unit};
use shoal_lab::engine::{About, DocEngine, Miss};
use yrs::types::ToJson;
use yrs::updates::decoder::Decode;
use yrs::updates::encoder::Encode;
use yrs::{
    Any, Array, ArrayPrelim, ArrayRef, Assoc, ClientID, Doc, GetString, IndexedSequence, Map,
    MapPrelim, MapRef, Number, OffsetKind, Options, Out, ReadTxn, StateVector, StickyIndex, Text,
    TextPrelim, TextRef, Transact, TransactionMut, Update,
};

pub(crate) struct Yrs;

/// A document, its root, and the updates emitted since its heads were first asked for.
pub(crate) struct Peer {
    doc: Doc,
    root: MapRef,
    emitted: Arc<Mutex<Vec<Vec<u8>>>>,
    listening: bool,
}

/// One of the shared types used by the rows.
#[derive(Clone)]
pub(crate) enum Obj {
    Map(MapRef),
    List(ArrayRef),
    Text(TextRef),
}

fn peer(actor: u16) -> Peer {
    let mut options = Options::with_client_id(ClientID::new(u64::from(actor)));
    options.offset_kind = OffsetKind::Utf16;
    // The other engines keep history, and a garbage-collected document would answer less.
    options.skip_gc = false;
    let doc = Doc::with_options(options);
    let root = doc.get_or_insert_map("root");
    Peer { doc, root, emitted: Arc::default(), listening: false }
}

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

fn map(obj: &Obj) -> Result<&MapRef, Miss> {
    match obj {
        Obj::Map(map) => Ok(map),
        _ => Err(Miss::Failed("not a map".into())),
    }
}

fn list(obj: &Obj) -> Result<&ArrayRef, Miss> {
    match obj {
        Obj::List(list) => Ok(list),
        _ => Err(Miss::Failed("not a list".into())),
    }
}

fn text(obj: &Obj) -> Result<&TextRef, Miss> {
    match obj {
        Obj::Text(text) => Ok(text),
        _ => Err(Miss::Failed("not a text".into())),
    }
}

fn place(index: usize) -> Result<u32, Miss> {
    u32::try_from(index).map_err(Miss::failed)
}

fn int(value: Out) -> Option<i64> {
    match value {
        Out::Any(Any::Number(Number::Int(value))) => Some(value),
        Out::Any(Any::Number(Number::Float(value))) => Some(value as i64),
        _ => None,
    }
}

fn apply(doc: &Doc, bytes: &[u8]) -> Result<(), Miss> {
    let update = failed(Update::decode_v1(bytes))?;
    failed(doc.transact_mut().apply_update(update))
}

impl DocEngine for Yrs {
    type Doc = Peer;
    type Tx<'a> = TransactionMut<'a>;
    type Obj = Obj;
    type Heads = usize;
    type Cursor = StickyIndex;
    type Session = ();

    fn about(&self) -> About {
        About::peer(
            "yrs",
            "0.28",
            "garbage collection on, its default, so its history is less than the others'; every \
             read opens a read transaction; places counted in UTF-16",
        )
    }

    fn unit(&self) -> Unit {
        Unit::Utf16
    }

    fn create(&self, actor: u16) -> Result<Peer, Miss> {
        Ok(peer(actor))
    }

    fn transact<R>(
        &self,
        doc: &mut Peer,
        work: impl FnOnce(&mut TransactionMut<'_>) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        work(&mut doc.doc.transact_mut())
    }

    fn root(&self, doc: &Peer) -> Result<Obj, Miss> {
        Ok(Obj::Map(doc.root.clone()))
    }

    fn find(&self, doc: &Peer, obj: &Obj, key: &str) -> Result<Obj, Miss> {
        match map(obj)?.get(&doc.doc.transact(), key) {
            Some(Out::YMap(map)) => Ok(Obj::Map(map)),
            Some(Out::YArray(list)) => Ok(Obj::List(list)),
            Some(Out::YText(text)) => Ok(Obj::Text(text)),
            _ => Err(Miss::Failed(format!("no object at {key}"))),
        }
    }

    fn put(
        &self,
        tx: &mut TransactionMut<'_>,
        obj: &Obj,
        key: &str,
        value: i64,
    ) -> Result<(), Miss> {
        map(obj)?.insert(tx, key, Any::from(value));
        Ok(())
    }

    fn put_object(
        &self,
        tx: &mut TransactionMut<'_>,
        obj: &Obj,
        key: &str,
        kind: Kind,
    ) -> Result<Obj, Miss> {
        let map = map(obj)?;
        Ok(match kind {
            Kind::Map => Obj::Map(map.insert(tx, key, MapPrelim::default())),
            Kind::List => Obj::List(map.insert(tx, key, ArrayPrelim::default())),
            Kind::Text => Obj::Text(map.insert(tx, key, TextPrelim::new(""))),
        })
    }

    fn insert(
        &self,
        tx: &mut TransactionMut<'_>,
        obj: &Obj,
        index: usize,
        value: i64,
    ) -> Result<(), Miss> {
        list(obj)?.insert(tx, place(index)?, Any::from(value));
        Ok(())
    }

    fn splice(
        &self,
        tx: &mut TransactionMut<'_>,
        obj: &Obj,
        at: usize,
        delete: usize,
        insert: &str,
    ) -> Result<(), Miss> {
        let text = text(obj)?;
        if delete > 0 {
            text.remove_range(tx, place(at)?, place(delete)?);
        }
        if !insert.is_empty() {
            text.insert(tx, place(at)?, insert);
        }
        Ok(())
    }

    fn get(&self, doc: &Peer, obj: &Obj, key: &str) -> Result<Option<i64>, Miss> {
        Ok(map(obj)?.get(&doc.doc.transact(), key).and_then(int))
    }

    fn keys(&self, doc: &Peer, obj: &Obj, visit: impl FnMut(&str)) -> Result<(), Miss> {
        map(obj)?.keys(&doc.doc.transact()).for_each(visit);
        Ok(())
    }

    fn at(&self, doc: &Peer, obj: &Obj, index: usize) -> Result<Option<i64>, Miss> {
        Ok(list(obj)?.get(&doc.doc.transact(), place(index)?).and_then(int))
    }

    fn elements(&self, doc: &Peer, obj: &Obj, visit: impl FnMut(i64)) -> Result<(), Miss> {
        list(obj)?.iter(&doc.doc.transact()).filter_map(int).for_each(visit);
        Ok(())
    }

    fn length(&self, doc: &Peer, obj: &Obj) -> Result<usize, Miss> {
        let tx = doc.doc.transact();
        let length = match obj {
            Obj::Map(map) => map.len(&tx),
            Obj::List(list) => list.len(&tx),
            Obj::Text(text) => text.len(&tx),
        };
        usize::try_from(length).map_err(Miss::failed)
    }

    fn text(&self, doc: &Peer, obj: &Obj) -> Result<String, Miss> {
        Ok(text(obj)?.get_string(&doc.doc.transact()))
    }

    fn json(&self, doc: &Peer) -> Result<String, Miss> {
        let mut json = String::new();
        doc.root.to_json(&doc.doc.transact()).to_json(&mut json);
        Ok(json)
    }

    /// Updates are emitted by transactions and cannot be found again later. A caller asking for the
    /// heads is about to ask for the changes after them, so the listener begins here.
    fn heads(&self, doc: &mut Peer) -> Result<usize, Miss> {
        if !doc.listening {
            let emitted = Arc::clone(&doc.emitted);
            let listening = doc.doc.observe_update_v1("lab", move |_, event| {
                emitted.lock().expect("nobody panics with it").push(event.update.clone());
            });
            failed(listening)?;
            doc.listening = true;
        }
        Ok(doc.emitted.lock().expect("nobody panics with it").len())
    }

    fn cursor(&self, doc: &Peer, obj: &Obj, index: usize) -> Result<StickyIndex, Miss> {
        list(obj)?
            .sticky_index(&doc.doc.transact(), place(index)?, Assoc::After)
            .ok_or(Miss::Failed("no place there".into()))
    }

    fn resolve(&self, doc: &Peer, _obj: &Obj, cursor: &StickyIndex) -> Result<usize, Miss> {
        let offset = cursor
            .get_offset(&doc.doc.transact())
            .ok_or(Miss::Failed("the place is gone".into()))?;
        usize::try_from(offset.index).map_err(Miss::failed)
    }

    fn save(&self, doc: &mut Peer) -> Result<Vec<u8>, Miss> {
        Ok(doc.doc.transact().encode_state_as_update_v1(&StateVector::default()))
    }

    fn load(&self, bytes: &[u8], actor: u16) -> Result<Peer, Miss> {
        let peer = peer(actor);
        apply(&peer.doc, bytes)?;
        Ok(peer)
    }

    fn fork(&self, doc: &mut Peer, actor: u16) -> Result<Peer, Miss> {
        self.load(&self.save(doc)?, actor)
    }

    fn merge(&self, target: &mut Peer, source: &mut Peer) -> Result<(), Miss> {
        let known = target.doc.transact().state_vector();
        apply(&target.doc, &source.doc.transact().encode_diff_v1(&known))
    }

    fn changes(&self, doc: &mut Peer, since: Option<&usize>) -> Result<Vec<Vec<u8>>, Miss> {
        match since {
            None => Ok(vec![self.save(doc)?]),
            Some(&since) => {
                Ok(doc.emitted.lock().expect("nobody panics with it")[since..].to_vec())
            }
        }
    }

    fn apply(&self, doc: &mut Peer, changes: &[Vec<u8>]) -> Result<(), Miss> {
        if let [change] = changes {
            return apply(&doc.doc, change);
        }
        let mut tx = doc.doc.transact_mut();
        for change in changes {
            failed(tx.apply_update(failed(Update::decode_v1(change))?))?;
        }
        Ok(())
    }

    fn synchronise(&self, left: &mut Peer, right: &mut Peer) -> Result<usize, Miss> {
        let mut bytes = 0;
        for (from, to) in [(&*left, &*right), (&*right, &*left)] {
            let known = to.doc.transact().state_vector().encode_v1();
            let vector = failed(StateVector::decode_v1(&known))?;
            let update = from.doc.transact().encode_diff_v1(&vector);
            apply(&to.doc, &update)?;
            bytes += known.len() + update.len();
        }
        Ok(bytes)
    }
}

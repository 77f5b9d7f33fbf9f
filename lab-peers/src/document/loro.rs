//! `loro`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loro::cursor::{Cursor, Side};
use loro::{
    Container, ExportMode, Frontiers, LoroDoc, LoroList, LoroMap, LoroText, LoroValue,
    Subscription, ValueOrContainer, VersionVector,
};
use shoal_lab::engine::document::Kind;
use shoal_lab::engine::{About, DocEngine, Miss};

pub(crate) struct Loro;

/// A document, and the listener counting its events, registered by the first row to ask for them.
pub(crate) struct Peer {
    doc: LoroDoc,
    root: LoroMap,
    events: Arc<AtomicUsize>,
    listening: Option<Subscription>,
}

/// One of the containers used by the rows.
#[derive(Clone)]
pub(crate) enum Obj {
    Map(LoroMap),
    List(LoroList),
    Text(LoroText),
}

fn failed<T>(result: Result<T, impl std::fmt::Display>) -> Result<T, Miss> {
    result.map_err(Miss::failed)
}

fn peer(doc: LoroDoc, actor: u16) -> Result<Peer, Miss> {
    failed(doc.set_peer_id(u64::from(actor)))?;
    let root = doc.get_map("root");
    Ok(Peer { doc, root, events: Arc::default(), listening: None })
}

fn map(obj: &Obj) -> Result<&LoroMap, Miss> {
    match obj {
        Obj::Map(map) => Ok(map),
        _ => Err(Miss::Failed("not a map".into())),
    }
}

fn list(obj: &Obj) -> Result<&LoroList, Miss> {
    match obj {
        Obj::List(list) => Ok(list),
        _ => Err(Miss::Failed("not a list".into())),
    }
}

fn text(obj: &Obj) -> Result<&LoroText, Miss> {
    match obj {
        Obj::Text(text) => Ok(text),
        _ => Err(Miss::Failed("not a text".into())),
    }
}

fn int(value: ValueOrContainer) -> Option<i64> {
    match value {
        ValueOrContainer::Value(LoroValue::I64(value)) => Some(value),
        _ => None,
    }
}

fn updates(doc: &LoroDoc, since: &VersionVector) -> Result<Vec<u8>, Miss> {
    failed(doc.export(ExportMode::updates(since)))
}

impl DocEngine for Loro {
    type Doc = Peer;
    type Tx<'a> = &'a LoroDoc;
    type Obj = Obj;
    type Heads = (VersionVector, Frontiers);
    type Cursor = Cursor;
    type Session = ();

    fn about(&self) -> About {
        About::peer(
            "loro",
            "1.17",
            "snapshots hold state and history apart; reads at old heads check the document out and \
             back; patches are its events, history its JSON updates",
        )
    }

    fn create(&self, actor: u16) -> Result<Peer, Miss> {
        peer(LoroDoc::new(), actor)
    }

    fn transact<R>(
        &self,
        doc: &mut Peer,
        work: impl FnOnce(&mut &LoroDoc) -> Result<R, Miss>,
    ) -> Result<R, Miss> {
        let result = work(&mut &doc.doc)?;
        doc.doc.commit();
        Ok(result)
    }

    fn root(&self, doc: &Peer) -> Result<Obj, Miss> {
        Ok(Obj::Map(doc.root.clone()))
    }

    fn find(&self, _doc: &Peer, obj: &Obj, key: &str) -> Result<Obj, Miss> {
        match map(obj)?.get(key) {
            Some(ValueOrContainer::Container(Container::Map(map))) => Ok(Obj::Map(map)),
            Some(ValueOrContainer::Container(Container::List(list))) => Ok(Obj::List(list)),
            Some(ValueOrContainer::Container(Container::Text(text))) => Ok(Obj::Text(text)),
            _ => Err(Miss::Failed(format!("no container at {key}"))),
        }
    }

    fn put(&self, _tx: &mut &LoroDoc, obj: &Obj, key: &str, value: i64) -> Result<(), Miss> {
        failed(map(obj)?.insert(key, value))
    }

    fn put_object(
        &self,
        _tx: &mut &LoroDoc,
        obj: &Obj,
        key: &str,
        kind: Kind,
    ) -> Result<Obj, Miss> {
        let map = map(obj)?;
        failed(match kind {
            Kind::Map => map.insert_container(key, LoroMap::new()).map(Obj::Map),
            Kind::List => map.insert_container(key, LoroList::new()).map(Obj::List),
            Kind::Text => map.insert_container(key, LoroText::new()).map(Obj::Text),
        })
    }

    fn insert(&self, _tx: &mut &LoroDoc, obj: &Obj, index: usize, value: i64) -> Result<(), Miss> {
        failed(list(obj)?.insert(index, value))
    }

    fn splice(
        &self,
        _tx: &mut &LoroDoc,
        obj: &Obj,
        place: usize,
        delete: usize,
        insert: &str,
    ) -> Result<(), Miss> {
        let text = text(obj)?;
        if delete > 0 {
            failed(text.delete(place, delete))?;
        }
        if !insert.is_empty() {
            failed(text.insert(place, insert))?;
        }
        Ok(())
    }

    fn get(&self, _doc: &Peer, obj: &Obj, key: &str) -> Result<Option<i64>, Miss> {
        Ok(map(obj)?.get(key).and_then(int))
    }

    fn keys(&self, _doc: &Peer, obj: &Obj, mut visit: impl FnMut(&str)) -> Result<(), Miss> {
        map(obj)?.keys().for_each(|key| visit(&key));
        Ok(())
    }

    fn at(&self, _doc: &Peer, obj: &Obj, index: usize) -> Result<Option<i64>, Miss> {
        Ok(list(obj)?.get(index).and_then(int))
    }

    fn elements(&self, _doc: &Peer, obj: &Obj, mut visit: impl FnMut(i64)) -> Result<(), Miss> {
        list(obj)?.for_each(|value| {
            if let Some(value) = int(value) {
                visit(value);
            }
        });
        Ok(())
    }

    fn length(&self, _doc: &Peer, obj: &Obj) -> Result<usize, Miss> {
        Ok(match obj {
            Obj::Map(map) => map.len(),
            Obj::List(list) => list.len(),
            Obj::Text(text) => text.len_unicode(),
        })
    }

    fn text(&self, _doc: &Peer, obj: &Obj) -> Result<String, Miss> {
        Ok(text(obj)?.to_string())
    }

    fn heads(&self, doc: &mut Peer) -> Result<(VersionVector, Frontiers), Miss> {
        Ok((doc.doc.oplog_vv(), doc.doc.oplog_frontiers()))
    }

    fn get_at(
        &self,
        doc: &Peer,
        obj: &Obj,
        key: &str,
        heads: &(VersionVector, Frontiers),
    ) -> Result<Option<i64>, Miss> {
        failed(doc.doc.checkout(&heads.1))?;
        let value = self.get(doc, obj, key);
        doc.doc.checkout_to_latest();
        value
    }

    fn text_at(
        &self,
        doc: &Peer,
        obj: &Obj,
        heads: &(VersionVector, Frontiers),
    ) -> Result<String, Miss> {
        failed(doc.doc.checkout(&heads.1))?;
        let text = self.text(doc, obj);
        doc.doc.checkout_to_latest();
        text
    }

    fn cursor(&self, _doc: &Peer, obj: &Obj, index: usize) -> Result<Cursor, Miss> {
        list(obj)?.get_cursor(index, Side::Middle).ok_or(Miss::Failed("no place there".into()))
    }

    fn resolve(&self, doc: &Peer, _obj: &Obj, cursor: &Cursor) -> Result<usize, Miss> {
        let found =
            doc.doc.get_cursor_pos(cursor).map_err(|error| Miss::Failed(format!("{error:?}")))?;
        Ok(found.current.pos)
    }

    fn transact_with_patches(
        &self,
        doc: &mut Peer,
        work: impl FnOnce(&mut &LoroDoc) -> Result<(), Miss>,
    ) -> Result<usize, Miss> {
        if doc.listening.is_none() {
            let events = Arc::clone(&doc.events);
            doc.listening = Some(doc.doc.subscribe_root(Arc::new(move |event| {
                events.fetch_add(event.events.len(), Ordering::Relaxed);
            })));
        }
        doc.events.store(0, Ordering::Relaxed);
        self.transact(doc, work)?;
        Ok(doc.events.load(Ordering::Relaxed))
    }

    fn save(&self, doc: &mut Peer) -> Result<Vec<u8>, Miss> {
        failed(doc.doc.export(ExportMode::Snapshot))
    }

    fn save_state(&self, doc: &mut Peer) -> Result<Vec<u8>, Miss> {
        failed(doc.doc.export(ExportMode::state_only(None)))
    }

    fn load(&self, bytes: &[u8], actor: u16) -> Result<Peer, Miss> {
        peer(failed(LoroDoc::from_snapshot(bytes))?, actor)
    }

    fn history(&self, doc: &mut Peer) -> Result<usize, Miss> {
        let now = doc.doc.oplog_vv();
        let all = failed(doc.doc.export_json_updates(&VersionVector::default(), &now))?;
        Ok(all.changes.len())
    }

    fn fork(&self, doc: &mut Peer, actor: u16) -> Result<Peer, Miss> {
        peer(doc.doc.fork(), actor)
    }

    fn merge(&self, target: &mut Peer, source: &mut Peer) -> Result<(), Miss> {
        let missing = updates(&source.doc, &target.doc.oplog_vv())?;
        failed(target.doc.import(&missing)).map(|_| ())
    }

    fn changes(
        &self,
        doc: &mut Peer,
        since: Option<&(VersionVector, Frontiers)>,
    ) -> Result<Vec<Vec<u8>>, Miss> {
        let everything = VersionVector::default();
        let since = since.map_or(&everything, |heads| &heads.0);
        Ok(vec![updates(&doc.doc, since)?])
    }

    fn apply(&self, doc: &mut Peer, changes: &[Vec<u8>]) -> Result<(), Miss> {
        match changes {
            [change] => failed(doc.doc.import(change)).map(|_| ()),
            changes => failed(doc.doc.import_batch(changes)).map(|_| ()),
        }
    }

    fn synchronise(&self, left: &mut Peer, right: &mut Peer) -> Result<usize, Miss> {
        let mut bytes = 0;
        for (from, to) in [(&*left, &*right), (&*right, &*left)] {
            let known = to.doc.oplog_vv().encode();
            let vector = failed(VersionVector::decode(&known))?;
            let missing = updates(&from.doc, &vector)?;
            failed(to.doc.import(&missing))?;
            bytes += known.len() + missing.len();
        }
        Ok(bytes)
    }
}

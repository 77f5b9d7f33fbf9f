//! Rows on documents.

mod changes;
mod history;
mod many;
mod maps;
mod objects;
mod real;
mod scale;
mod strokes;
mod text;
mod trace;

use std::sync::Arc;

use super::{Bench, Family, Row};
use crate::answer::{Answer, Digest};
use crate::engine::document::Kind;
use crate::engine::{DocEngine, Miss};

/// Every document row.
pub(crate) fn rows<E: DocEngine>() -> Bench<E> {
    let mut bench = Bench::new();
    maps::add(&mut bench);
    objects::add(&mut bench);
    text::add(&mut bench);
    history::add(&mut bench);
    changes::add(&mut bench);
    many::add(&mut bench);
    scale::add(&mut bench);
    trace::add(&mut bench);
    strokes::add(&mut bench);
    real::add(&mut bench);
    bench
}

fn row(name: &str, unit: &str, text: &str) -> Row {
    Row::new(Family::Doc, name, unit, text)
}

/// The actor of a document edited alone.
const ALICE: u16 = 1;
/// The one who edits apart from [`ALICE`].
const BOB: u16 = 2;

/// A document whose root map holds `count` integers, `<prefix>0` = 0 and so on, put in one
/// transaction.
fn filled<E: DocEngine>(
    engine: &E,
    actor: u16,
    prefix: &str,
    count: usize,
) -> Result<(E::Doc, E::Obj), Miss> {
    let mut doc = engine.create(actor)?;
    let root = engine.root(&doc)?;
    fill(engine, &mut doc, &root, &names(prefix, count))?;
    Ok((doc, root))
}

/// Puts `keys[i]` = i in one transaction.
fn fill<E: DocEngine>(
    engine: &E,
    doc: &mut E::Doc,
    root: &E::Obj,
    keys: &[String],
) -> Result<(), Miss> {
    engine.transact(doc, |tx| {
        for (value, key) in keys.iter().enumerate() {
            engine.put(tx, root, key, int(value))?;
        }
        Ok(())
    })
}

/// `<prefix>0`, `<prefix>1` and so on.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

/// A document whose root map holds at "list" the integers 0, 1 and so on, appended in one
/// transaction.
fn listed<E: DocEngine>(engine: &E, count: usize) -> Result<(E::Doc, E::Obj), Miss> {
    let mut doc = engine.create(ALICE)?;
    let root = engine.root(&doc)?;
    let list = engine.transact(&mut doc, |tx| {
        let list = engine.put_object(tx, &root, "list", Kind::List)?;
        for index in 0..count {
            engine.insert(tx, &list, index, int(index))?;
        }
        Ok(list)
    })?;
    Ok((doc, list))
}

/// The contents of a map of integers, independent of the order of its keys.
fn map_digest<E: DocEngine>(engine: &E, doc: &E::Doc, map: &E::Obj) -> Result<Digest, Miss> {
    let mut keys = Vec::new();
    engine.keys(doc, map, |key| keys.push(key.to_owned()))?;
    keys.sort_unstable();
    let mut digest = Digest::new();
    for key in keys {
        if let Some(value) = engine.get(doc, map, &key)? {
            digest = digest.text(&key).int(value.cast_unsigned());
        }
    }
    Ok(digest)
}

/// The contents of a list of integers.
fn list_digest<E: DocEngine>(engine: &E, doc: &E::Doc, list: &E::Obj) -> Result<Digest, Miss> {
    let mut digest = Digest::new();
    engine.elements(doc, list, |value| digest = digest.int(value.cast_unsigned()))?;
    Ok(digest)
}

/// The answer of a document: its contents for all, its heads for contenders of one format.
fn answer<E: DocEngine>(engine: &E, doc: &mut E::Doc, contents: Digest) -> Option<Answer> {
    let heads = engine.heads_bytes(doc);
    Some(Answer::of(contents).with_native(engine.format(), heads))
}

fn int(value: usize) -> i64 {
    i64::try_from(value).expect("row sizes fit")
}

/// A handle to keep in a sampler.
fn held<E>(engine: &Arc<E>) -> Arc<E> {
    Arc::clone(engine)
}

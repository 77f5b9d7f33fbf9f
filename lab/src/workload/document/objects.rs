//! Documents of many maps, as most programs keep them: loaded, opened for one value, saved.

use super::{ALICE, answer, held, int, names, row};
use crate::answer::{Answer, Digest};
use crate::engine::document::Kind;
use crate::engine::{DocEngine, Miss};
use crate::random::Random;
use crate::workload::{Bench, Context, sampler};

/// The shapes of documents.
#[derive(Clone, Copy, Debug)]
enum Shape {
    SmallObjects,
    LongStrings,
    ManyActors,
}

const SHAPES: [(&str, Shape, &str); 3] = [
    ("small_objects", Shape::SmallObjects, "10,000 maps of four integers, made 100 a transaction"),
    ("long_strings", Shape::LongStrings, "1,000 maps of a number and a text of 2,000 characters"),
    (
        "many_actors",
        Shape::ManyActors,
        "1,000 maps of four integers, and 200 actors who each changed 20 integers and made a map",
    ),
];

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for (name, shape, text) in SHAPES {
        load(bench, (name, shape, text));
        open(bench, (name, shape, text));
        save(bench, (name, shape, text));
    }
}

fn load<E: DocEngine>(bench: &mut Bench<E>, (name, shape, text): (&str, Shape, &str)) {
    let text = format!("load a document of {text}, and find the first of them");
    bench.add(row(&format!("maps/{name}/load"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let saved = engine.save(&mut made(&*engine, cx, shape)?)?;
        sampler(move |watch| {
            let mut doc = watch.time(1, || {
                let doc = engine.load(&saved, ALICE)?;
                first(&*engine, &doc)?;
                Ok::<_, Miss>(doc)
            })?;
            let digest = contents(&*engine, &doc)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

/// As [`load`], and every map is looked at: an engine may build objects at the first look.
fn open<E: DocEngine>(bench: &mut Bench<E>, (name, shape, text): (&str, Shape, &str)) {
    let text = format!("load a document of {text}, and read an integer of each");
    bench.add(row(&format!("maps/{name}/load_all"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let saved = engine.save(&mut made(&*engine, cx, shape)?)?;
        sampler(move |watch| {
            let digest = watch.time(1, || contents(&*engine, &engine.load(&saved, ALICE)?))?;
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn save<E: DocEngine>(bench: &mut Bench<E>, (name, shape, text): (&str, Shape, &str)) {
    let text = format!("save a document of {text}, just made");
    bench.add(row(&format!("maps/{name}/save"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let mut doc = made(&*engine, cx, shape)?;
        let root = engine.root(&doc)?;
        let mut round = 0;
        sampler(move |watch| {
            // Another state each time: no saved bytes can serve twice.
            round += 1;
            engine.transact(&mut doc, |tx| engine.put(tx, &root, "lab", round))?;
            let saved = watch.time(1, || engine.save(&mut doc))?;
            watch.figure("bytes", saved.len() as f64);
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = contents(&*engine, &engine.load(&saved, ALICE)?)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

/// The first made of the maps at "items".
fn first<E: DocEngine>(engine: &E, doc: &E::Doc) -> Result<E::Obj, Miss> {
    let items = engine.find(doc, &engine.root(doc)?, "items")?;
    engine.find(doc, &items, "item0")
}

/// The integer "a" of each map.
fn contents<E: DocEngine>(engine: &E, doc: &E::Doc) -> Result<Digest, Miss> {
    let items = engine.find(doc, &engine.root(doc)?, "items")?;
    let mut keys = Vec::new();
    engine.keys(doc, &items, |key| keys.push(key.to_owned()))?;
    keys.sort_unstable();
    let mut digest = Digest::new();
    for key in keys {
        let item = engine.find(doc, &items, &key)?;
        let value = engine.get(doc, &item, "a")?.unwrap_or(-1);
        digest = digest.text(&key).int(value.cast_unsigned());
    }
    Ok(digest)
}

fn put_all<E: DocEngine>(
    engine: &E,
    tx: &mut E::Tx<'_>,
    item: &E::Obj,
    number: usize,
) -> Result<(), Miss> {
    for (place, key) in ["a", "count", "position", "updated"].into_iter().enumerate() {
        engine.put(tx, item, key, int(number * (place + 1)))?;
    }
    Ok(())
}

/// A document of a shape.
fn made<E: DocEngine>(engine: &E, cx: &Context, shape: Shape) -> Result<E::Doc, Miss> {
    let mut doc = engine.create(ALICE)?;
    let root = engine.root(&doc)?;
    let items = engine.transact(&mut doc, |tx| engine.put_object(tx, &root, "items", Kind::Map))?;
    let count = match shape {
        Shape::SmallObjects => cx.pick(10_000, 20),
        Shape::LongStrings | Shape::ManyActors => cx.pick(1_000, 10),
    };
    let keys = names("item", count);
    let mut random = Random::new(7);
    for (batch, keys) in keys.chunks(100).enumerate() {
        engine.transact(&mut doc, |tx| {
            for (place, key) in keys.iter().enumerate() {
                let item = engine.put_object(tx, &items, key, Kind::Map)?;
                let number = batch * 100 + place;
                if let Shape::LongStrings = shape {
                    engine.put(tx, &item, "a", int(number))?;
                    let text = engine.put_object(tx, &item, "text", Kind::Text)?;
                    engine.splice(tx, &text, 0, 0, &words(&mut random, 2_000))?;
                } else {
                    put_all(engine, tx, &item, number)?;
                }
            }
            Ok(())
        })?;
    }
    if let Shape::ManyActors = shape {
        for number in 0..cx.pick(200, 3) {
            let actor = u16::try_from(number).map_err(Miss::failed)? + 2;
            let mut fork = engine.fork(&mut doc, actor)?;
            let mut found = Vec::new();
            for _ in 0..20 {
                let key = &keys[random.below(keys.len() as u64) as usize];
                found.push(engine.find(&fork, &items, key)?);
            }
            engine.transact(&mut fork, |tx| {
                for item in &found {
                    engine.put(tx, item, "a", int(number))?;
                }
                let item = engine.put_object(tx, &items, &format!("item{number}of"), Kind::Map)?;
                put_all(engine, tx, &item, number)
            })?;
            engine.merge(&mut doc, &mut fork)?;
        }
    }
    Ok(doc)
}

/// Words of a few letters.
fn words(random: &mut Random, length: usize) -> String {
    let letters = b"etaoinshrdlu";
    let mut text = String::new();
    while text.len() < length {
        for _ in 0..2 + random.below(7) {
            text.push(char::from(letters[random.below(letters.len() as u64) as usize]));
        }
        text.push(' ');
    }
    text.truncate(length);
    text
}

//! How work grows with the number of changes: one document of a hundred keys and a thousand, ten
//! thousand or a hundred thousand transactions of one put each.

use std::hint::black_box;

use super::{ALICE, BOB, answer, held, int, map_digest, row};
use crate::answer::{Answer, Digest};
use crate::engine::{DocEngine, Miss};
use crate::workload::{Bench, Context, Row, sampler};

const COUNTS: [(usize, &str); 3] = [(1_000, "1k"), (10_000, "10k"), (100_000, "100k")];

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for (count, label) in COUNTS {
        load_and_hash(bench, count, label);
        save(bench, count, label);
        meet(bench, count, label);
    }
}

/// A row of a series over the number of changes.
fn of_series(name: &str, label: &str, count: usize, unit: &str, text: &str) -> Row {
    let text = format!("{text}; {count} transactions of one put each on 100 keys");
    row(&format!("changes/{name}/{label}"), unit, &text)
        .in_series(&format!("changes/{name}"), count as u64)
}

/// The document as bytes, made once for a contender and run.
fn saved<E: DocEngine>(engine: &E, cx: &Context, count: usize) -> Result<Vec<u8>, Miss> {
    let count = cx.pick(count, 20);
    cx.artifact(&format!("changes-{count}"), || {
        let mut doc = engine.create(ALICE)?;
        let root = engine.root(&doc)?;
        for value in 0..count {
            let key = format!("k{}", value % 100);
            engine.transact(&mut doc, |tx| engine.put(tx, &root, &key, int(value)))?;
        }
        engine.save(&mut doc)
    })
}

/// One put more, by whoever the document is loaded as.
fn put<E: DocEngine>(engine: &E, doc: &mut E::Doc, key: &str) -> Result<(), Miss> {
    let root = engine.root(doc)?;
    engine.transact(doc, |tx| engine.put(tx, &root, key, 7))
}

fn load_and_hash<E: DocEngine>(bench: &mut Bench<E>, count: usize, label: &str) {
    let of = of_series("load", label, count, "document", "load, verified");
    bench.add(of, move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, count)?;
        sampler(move |watch| {
            let mut loaded = watch.time(1, || engine.load(black_box(&bytes), BOB))?;
            let digest = map_digest(&*engine, &loaded, &engine.root(&loaded)?)?;
            Ok(answer(&*engine, &mut loaded, digest))
        })
    });
    let text = "every change of a document loaded without verification is made again, and its hash \
                with it";
    bench.add(of_series("hash", label, count, "document", text), move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, count)?;
        sampler(move |watch| {
            let mut loaded = engine.load_unverified(&bytes, BOB)?;
            let changes = watch.time(1, || engine.history(&mut loaded))?;
            Ok(Some(Answer::of(Digest::new().int(changes as u64))))
        })
    });
}

fn save<E: DocEngine>(bench: &mut Bench<E>, count: usize, label: &str) {
    let text = "save of a document that was loaded and got one change more";
    bench.add(of_series("save", label, count, "document", text), move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, count)?;
        sampler(move |watch| {
            let mut doc = engine.load(&bytes, ALICE)?;
            put(&*engine, &mut doc, "more")?;
            let bytes = watch.time(1, || engine.save(&mut doc))?;
            watch.figure("bytes", bytes.len() as f64);
            let loaded = engine.load(&bytes, ALICE)?;
            let digest = map_digest(&*engine, &loaded, &engine.root(&loaded)?)?;
            Ok(Some(Answer::of(digest)))
        })
    });
}

fn meet<E: DocEngine>(bench: &mut Bench<E>, count: usize, label: &str) {
    for (name, unit, text) in [
        ("merge", "merge", "merge of two copies that are one change apart on each side"),
        (
            "sync",
            "sync",
            "sync of two copies, one change apart on each side, until both are silent",
        ),
    ] {
        bench.add(of_series(name, label, count, unit, text), move |engine, cx| {
            let engine = held(engine);
            let bytes = saved(&*engine, cx, count)?;
            sampler(move |watch| {
                let mut left = engine.load(&bytes, ALICE)?;
                let mut right = engine.load(&bytes, BOB)?;
                put(&*engine, &mut left, "left")?;
                put(&*engine, &mut right, "right")?;
                if name == "merge" {
                    watch.time(1, || engine.merge(&mut left, &mut right))?;
                } else {
                    let sent = watch.time(1, || engine.synchronise(&mut left, &mut right))?;
                    watch.figure("bytes sent", sent as f64);
                }
                let digest = map_digest(&*engine, &left, &engine.root(&left)?)?;
                Ok(Some(Answer::of(digest)))
            })
        });
    }
}

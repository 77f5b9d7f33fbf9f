//! Long lists: built, saved, loaded and read at several sizes, to show the growth of time.

use std::hint::black_box;

use super::{BOB, answer, held, list_digest, listed, row};
use crate::answer::{Answer, Digest};
use crate::engine::DocEngine;
use crate::workload::{Bench, sampler};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for (size, label) in [(10_000, "10k"), (100_000, "100k"), (1_000_000, "1M")] {
        build(bench, size, label);
        save(bench, size, label);
        load(bench, size, label);
        random_reads(bench, size, label);
        iterate(bench, size, label);
    }
}

fn elements(size: u64) -> usize {
    usize::try_from(size).expect("row sizes fit")
}

fn build<E: DocEngine>(bench: &mut Bench<E>, size: u64, label: &str) {
    let text = format!("append {size} integers to a list in one transaction");
    let row = row(&format!("list_build/{label}"), "insert", &text).in_series("list_build", size);
    bench.add(row, move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(elements(size), 30));
        sampler(move |watch| {
            let (mut doc, list) = watch.time(count as u64, || listed(&*engine, count))?;
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = list_digest(&*engine, &doc, &list)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn save<E: DocEngine>(bench: &mut Bench<E>, size: u64, label: &str) {
    let text = format!("save a list of {size} integers that was never saved");
    let row = row(&format!("list_save/{label}"), "document", &text).in_series("list_save", size);
    bench.add(row, move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(elements(size), 30));
        sampler(move |watch| {
            let (mut doc, list) = listed(&*engine, count)?;
            let bytes = watch.time(1, || engine.save(&mut doc))?;
            watch.figure("bytes", bytes.len() as f64);
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = list_digest(&*engine, &doc, &list)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn load<E: DocEngine>(bench: &mut Bench<E>, size: u64, label: &str) {
    let text = format!("load a list of {size} integers and read its length");
    let row = row(&format!("list_load/{label}"), "document", &text).in_series("list_load", size);
    bench.add(row, move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(elements(size), 30));
        let bytes = cx.artifact(&format!("list-of-{count}"), || {
            engine.save(&mut listed(&*engine, count)?.0)
        })?;
        sampler(move |watch| {
            let (mut doc, list) = watch.time(1, || {
                let doc = engine.load(&bytes, BOB)?;
                let list = engine.find(&doc, &engine.root(&doc)?, "list")?;
                black_box(engine.length(&doc, &list)?);
                Ok((doc, list))
            })?;
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = list_digest(&*engine, &doc, &list)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn random_reads<E: DocEngine>(bench: &mut Bench<E>, size: u64, label: &str) {
    let text = format!("get 10,000 elements of a list of {size}, places chosen by the seed");
    let row =
        row(&format!("list_random_get/{label}"), "get", &text).in_series("list_random_get", size);
    bench.add(row, move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(elements(size), 30));
        let (doc, list) = listed(&*engine, count)?;
        let mut random = crate::random::Random::new(cx.seed);
        let places: Vec<usize> =
            (0..cx.pick(10_000, 20)).map(|_| random.below(count as u64) as usize).collect();
        sampler(move |watch| {
            let sum = watch.time(places.len() as u64, || {
                let mut sum = 0;
                for &place in &places {
                    sum += engine.at(&doc, &list, place)?.unwrap_or(-1);
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
        })
    });
}

fn iterate<E: DocEngine>(bench: &mut Bench<E>, size: u64, label: &str) {
    let text = format!("visit every element of a list of {size}");
    let row =
        row(&format!("list_iterate/{label}"), "element", &text).in_series("list_iterate", size);
    bench.add(row, move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(elements(size), 30));
        let (doc, list) = listed(&*engine, count)?;
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0_i64;
                engine.elements(&doc, &list, |value| sum += value)?;
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
        })
    });
}

//! Small texts: splices and reads.

use std::hint::black_box;

use super::{ALICE, answer, held, row};
use crate::answer::{Answer, Digest};
use crate::engine::DocEngine;
use crate::workload::{Bench, sampler};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for size in [1_000_u64, 10_000] {
        appends(bench, "text_splice_append", "x", size, "one character");
    }
    for size in [100_u64, 1_000] {
        appends(bench, "text_splice_bulk", &"a".repeat(100), size, "100 characters 'a'");
    }
    for size in [1_000_u64, 10_000] {
        with_patches(bench, size);
    }
    reads(bench);
}

fn appends<E: DocEngine>(
    bench: &mut Bench<E>,
    name: &str,
    piece: &str,
    size: u64,
    what: &'static str,
) {
    let text =
        format!("append {what} per transaction, {size} times; the text starts empty and grows");
    let row = row(&format!("{name}/{size}"), "transaction", &text).in_series(name, size);
    let piece = piece.to_owned();
    bench.add(row, move |engine, cx| {
        let (engine, piece) = (held(engine), piece.clone());
        let count = cx.pick(usize::try_from(size).expect("small"), 10);
        sampler(move |watch| {
            let (mut doc, text) = engine.create_text(ALICE)?;
            watch.time(count as u64, || {
                for index in 0..count {
                    let end = index * piece.len();
                    engine.transact(&mut doc, |tx| engine.splice(tx, &text, end, 0, &piece))?;
                }
                Ok(())
            })?;
            let digest = Digest::new().text(&engine.text(&doc, &text)?);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn with_patches<E: DocEngine>(bench: &mut Bench<E>, size: u64) {
    let text = format!(
        "append \"hello\" per transaction, {size} times, with the patches handed back; the text \
         starts empty and grows"
    );
    let name = "transact_with_patches_text";
    let row = row(&format!("{name}/{size}"), "transaction", &text).in_series(name, size);
    bench.add(row, move |engine, cx| {
        let engine = held(engine);
        let count = cx.pick(usize::try_from(size).expect("small"), 10);
        sampler(move |watch| {
            let (mut doc, text) = engine.create_text(ALICE)?;
            let patches = watch.time(count as u64, || {
                let mut patches = 0;
                for index in 0..count {
                    patches += engine.transact_with_patches(&mut doc, |tx| {
                        engine.splice(tx, &text, index * 5, 0, "hello")
                    })?;
                }
                Ok(patches)
            })?;
            watch.figure("patches", patches as f64);
            let digest = Digest::new().text(&engine.text(&doc, &text)?);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn reads<E: DocEngine>(bench: &mut Bench<E>) {
    for size in [1_000_u64, 100_000, 1_000_000] {
        let text = format!("a text of {size} 'x', spliced at once; read it whole as a string");
        let row = row(&format!("text_read/{size}"), "text", &text).in_series("text_read", size);
        bench.add(row, move |engine, cx| {
            let engine = held(engine);
            let length = cx.pick(usize::try_from(size).expect("small"), 50);
            let count = cx.pick((5_000_000 / length).clamp(10, 2_000), 3);
            let (mut doc, text) = engine.create_text(ALICE)?;
            let content = "x".repeat(length);
            engine.transact(&mut doc, |tx| engine.splice(tx, &text, 0, 0, &content))?;
            sampler(move |watch| {
                watch.time(count as u64, || {
                    for _ in 0..count {
                        black_box(engine.text(&doc, black_box(&text))?);
                    }
                    Ok(())
                })?;
                let read = engine.text(&doc, &text)?;
                Ok(Some(Answer::of(Digest::new().text(&read))))
            })
        });
    }
    let text = "the length of a text of 100,000 characters";
    bench.add(row("text_length", "length", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(10_000, 10));
        let (mut doc, text) = engine.create_text(ALICE)?;
        let content = "x".repeat(cx.pick(100_000, 100));
        engine.transact(&mut doc, |tx| engine.splice(tx, &text, 0, 0, &content))?;
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0;
                for _ in 0..count {
                    sum += engine.length(&doc, black_box(&text))?;
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum as u64))))
        })
    });
}

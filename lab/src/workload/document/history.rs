//! Save, load, fork, merge, old heads and sync of small documents.

use std::hint::black_box;

use super::{
    ALICE, BOB, answer, fill, filled, held, int, list_digest, listed, map_digest, names, row,
};
use crate::answer::{Answer, Digest};
use crate::engine::{DocEngine, Miss};
use crate::workload::{Bench, sampler};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    save_and_load(bench);
    fork_and_merge(bench);
    old_heads(bench);
    sync(bench);
}

fn save_and_load<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "100 integer keys written in one transaction; save, each time of a document that \
                was never saved, so that nothing can be remembered";
    bench.add(row("save", "document", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(200, 3));
        sampler(move |watch| {
            let mut bytes = Vec::new();
            for _ in 0..count {
                let (mut doc, _) = filled(&*engine, ALICE, "key", 100)?;
                bytes = watch.time(1, || engine.save(&mut doc))?;
            }
            watch.figure("bytes", bytes.len() as f64);
            let mut loaded = engine.load(&bytes, ALICE)?;
            let digest = map_digest(&*engine, &loaded, &engine.root(&loaded)?)?;
            Ok(answer(&*engine, &mut loaded, digest))
        })
    });
    let text = "load of what save gave: 100 integer keys written in one transaction";
    bench.add(row("load", "document", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(500, 3));
        let (mut doc, _) = filled(&*engine, ALICE, "key", 100)?;
        let bytes = engine.save(&mut doc)?;
        sampler(move |watch| {
            watch.time(count as u64, || {
                for _ in 0..count {
                    black_box(engine.load(black_box(&bytes), BOB)?);
                }
                Ok(())
            })?;
            let mut loaded = engine.load(&bytes, BOB)?;
            let digest = map_digest(&*engine, &loaded, &engine.root(&loaded)?)?;
            Ok(answer(&*engine, &mut loaded, digest))
        })
    });
    let text = "list of 1,000 integers; save, each time of a document that was never saved";
    bench.add(row("save_large", "document", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(50, 3));
        sampler(move |watch| {
            let mut bytes = Vec::new();
            for _ in 0..count {
                let (mut doc, _) = listed(&*engine, 1_000)?;
                bytes = watch.time(1, || engine.save(&mut doc))?;
            }
            watch.figure("bytes", bytes.len() as f64);
            let mut loaded = engine.load(&bytes, ALICE)?;
            let list = engine.find(&loaded, &engine.root(&loaded)?, "list")?;
            let digest = list_digest(&*engine, &loaded, &list)?;
            Ok(answer(&*engine, &mut loaded, digest))
        })
    });
}

fn fork_and_merge<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "100 integer keys; a copy that goes on as another actor";
    bench.add(row("fork", "document", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(1_000, 3));
        let (mut doc, _) = filled(&*engine, ALICE, "key", 100)?;
        sampler(move |watch| {
            watch.time(count as u64, || {
                for _ in 0..count {
                    black_box(engine.fork(&mut doc, BOB)?);
                }
                Ok(())
            })?;
            let mut copy = engine.fork(&mut doc, BOB)?;
            let digest = map_digest(&*engine, &copy, &engine.root(&copy)?)?;
            Ok(answer(&*engine, &mut copy, digest))
        })
    });
    let text = "untimed: a base key, a fork, 10 keys on each side in one transaction each; timed: \
                the merge";
    bench.add(row("merge", "merge", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(100, 3));
        sampler(move |watch| {
            let mut last = None;
            for _ in 0..count {
                let (mut left, root) = filled(&*engine, ALICE, "base", 1)?;
                let mut right = engine.fork(&mut left, BOB)?;
                fill(&*engine, &mut left, &root, &names("a", 10))?;
                let right_root = engine.root(&right)?;
                fill(&*engine, &mut right, &right_root, &names("b", 10))?;
                watch.time(1, || engine.merge(&mut left, &mut right))?;
                last = Some(left);
            }
            let mut merged = last.ok_or(Miss::Failed("nothing was merged".into()))?;
            let digest = map_digest(&*engine, &merged, &engine.root(&merged)?)?;
            Ok(answer(&*engine, &mut merged, digest))
        })
    });
}

fn old_heads<E: DocEngine>(bench: &mut Bench<E>) {
    for depth in [10_u64, 10_000] {
        let text = format!("{depth} transactions put \"x\"; read it at the heads of the first");
        let name = if depth == 10 { "get_at".to_owned() } else { format!("get_at/{depth}") };
        let row = row(&name, "get", &text).in_series("get_at", depth);
        bench.add(row, move |engine, cx| {
            let (engine, count) = (held(engine), cx.pick(500, 5));
            let mut doc = engine.create(ALICE)?;
            let root = engine.root(&doc)?;
            let mut first = None;
            for value in 0..cx.pick(usize::try_from(depth).expect("small"), 10) {
                engine.transact(&mut doc, |tx| engine.put(tx, &root, "x", int(value) + 100))?;
                if first.is_none() {
                    first = Some(engine.heads(&mut doc)?);
                }
            }
            let heads = first.ok_or(Miss::Failed("no transaction was made".into()))?;
            sampler(move |watch| {
                let sum = watch.time(count as u64, || {
                    let mut sum = 0;
                    for _ in 0..count {
                        sum += engine.get_at(&doc, &root, "x", black_box(&heads))?.unwrap_or(-1);
                    }
                    Ok(sum)
                })?;
                Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
            })
        });
    }
    let text =
        "\"Hello\", then \" World of CRDTs and more text\"; read the text at the first heads";
    bench.add(row("text_at", "text", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(500, 5));
        let (mut doc, text) = engine.create_text(ALICE)?;
        engine.transact(&mut doc, |tx| engine.splice(tx, &text, 0, 0, "Hello"))?;
        let heads = engine.heads(&mut doc)?;
        let more = " World of CRDTs and more text";
        engine.transact(&mut doc, |tx| engine.splice(tx, &text, 5, 0, more))?;
        sampler(move |watch| {
            watch.time(count as u64, || {
                for _ in 0..count {
                    black_box(engine.text_at(&doc, &text, black_box(&heads))?);
                }
                Ok(())
            })?;
            let old = engine.text_at(&doc, &text, &heads)?;
            Ok(Some(Answer::of(Digest::new().text(&old))))
        })
    });
}

fn sync<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "50 keys in one transaction; the first message of a fresh session";
    bench.add(row("sync_generate_message", "message", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(1_000, 3));
        let (mut doc, _) = filled(&*engine, ALICE, "key", 50)?;
        sampler(move |watch| {
            let mut said = 0;
            for _ in 0..count {
                let mut session = engine.session()?;
                let message = watch.time(1, || engine.generate(&mut doc, &mut session))?;
                said += u64::from(message.is_some());
            }
            Ok(Some(Answer::of(Digest::new().int(said))))
        })
    });
    let text = "two documents of 20 keys each, one transaction each, fresh sessions; both talk \
                until both are silent, messages encoded and decoded. Engines that exchange state \
                vectors do it in one round";
    bench.add(row("sync_full_round_trip", "sync", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(100, 2));
        sampler(move |watch| {
            let mut last = None;
            for _ in 0..count {
                let (mut left, _) = filled(&*engine, ALICE, "a", 20)?;
                let (mut right, _) = filled(&*engine, BOB, "b", 20)?;
                let bytes = watch.time(1, || engine.synchronise(&mut left, &mut right))?;
                last = Some((right, bytes));
            }
            let (mut right, bytes) = last.ok_or(Miss::Failed("nothing was synced".into()))?;
            watch.figure("bytes sent", bytes as f64);
            let digest = map_digest(&*engine, &right, &engine.root(&right)?)?;
            Ok(answer(&*engine, &mut right, digest))
        })
    });
    for (name, changes, divergent, what) in [
        ("sync_tiny", 1_000, 1, "one transaction apart after 1,000 in common"),
        ("sync_many_changes", 1_000, 1_000, "1,000 transactions apart after 1,000 in common"),
    ] {
        let text = format!("two peers {what}; fresh sessions, until both are silent");
        bench.add(row(name, "sync", &text), move |engine, cx| {
            let engine = held(engine);
            let (common, apart) = (cx.pick(changes, 5), cx.pick(divergent, 1));
            sampler(move |watch| {
                let mut left = engine.create(ALICE)?;
                let root = engine.root(&left)?;
                for value in 0..common {
                    engine.transact(&mut left, |tx| engine.put(tx, &root, "key", int(value)))?;
                }
                let mut right = engine.fork(&mut left, BOB)?;
                let right_root = engine.root(&right)?;
                for value in 0..apart {
                    let key = format!("b{value}");
                    engine
                        .transact(&mut right, |tx| engine.put(tx, &right_root, &key, int(value)))?;
                }
                let bytes = watch.time(1, || engine.synchronise(&mut left, &mut right))?;
                watch.figure("bytes sent", bytes as f64);
                let digest = map_digest(&*engine, &left, &engine.root(&left)?)?;
                Ok(answer(&*engine, &mut left, digest))
            })
        });
    }
    let text = "a peer with 1,000 transactions of one put each and an empty peer meet for the \
                first time";
    bench.add(row("sync_first", "sync", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(1_000, 5));
        sampler(move |watch| {
            let mut left = engine.create(ALICE)?;
            let root = engine.root(&left)?;
            for value in 0..count {
                let key = format!("k{value}");
                engine.transact(&mut left, |tx| engine.put(tx, &root, &key, int(value)))?;
            }
            let mut right = engine.create(BOB)?;
            let bytes = watch.time(1, || engine.synchronise(&mut left, &mut right))?;
            watch.figure("bytes sent", bytes as f64);
            let digest = map_digest(&*engine, &right, &engine.root(&right)?)?;
            Ok(answer(&*engine, &mut right, digest))
        })
    });
}

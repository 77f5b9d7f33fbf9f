//! Small maps and lists: the rows of automerge-cpp's benchmark program, with the same set-up.

use std::hint::black_box;

use super::{ALICE, answer, filled, held, int, list_digest, listed, map_digest, names, row};
use crate::answer::{Answer, Digest};
use crate::engine::DocEngine;
use crate::engine::document::Kind;
use crate::workload::{Bench, sampler};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    constructor(bench);
    map_writes(bench);
    map_reads(bench);
    list_writes(bench);
    list_reads(bench);
}

fn constructor<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "construct an empty document; automerge-cpp's two forms (own pool, shared pool) are \
                one here, as no engine starts threads";
    bench.add(row("document_constructor", "document", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(20_000, 10));
        sampler(move |watch| {
            watch.time(count as u64, || {
                for _ in 0..count {
                    black_box(engine.create(ALICE)?);
                }
                Ok(())
            })?;
            Ok(Some(Answer::of(Digest::new())))
        })
    });
}

fn map_writes<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "put root \"key\" = i, one transaction each; the document starts empty and its \
                history grows to 10,000 changes";
    bench.add(row("map_put", "transaction", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(10_000, 20));
        sampler(move |watch| {
            let mut doc = engine.create(ALICE)?;
            let root = engine.root(&doc)?;
            watch.time(count as u64, || {
                for value in 0..count {
                    engine.transact(&mut doc, |tx| engine.put(tx, &root, "key", int(value)))?;
                }
                Ok(())
            })?;
            let digest = map_digest(&*engine, &doc, &root)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
    for batch in [10, 64, 512, 1000] {
        let text = format!(
            "{batch} puts to \"key0\", \"key1\" ... in one transaction, 20 times to the same \
             document, which starts empty"
        );
        let row = row(&format!("map_put_batch/{batch}"), "transaction", &text)
            .in_series("map_put_batch", batch);
        bench.add(row, move |engine, cx| {
            let engine = held(engine);
            let keys = names("key", cx.pick(usize::try_from(batch).expect("small"), 3));
            let times = cx.pick(20, 2);
            sampler(move |watch| {
                let mut doc = engine.create(ALICE)?;
                let root = engine.root(&doc)?;
                watch.time(times as u64, || {
                    for round in 0..times {
                        engine.transact(&mut doc, |tx| {
                            for (value, key) in keys.iter().enumerate() {
                                engine.put(tx, &root, key, int(value + round))?;
                            }
                            Ok(())
                        })?;
                    }
                    Ok(())
                })?;
                let digest = map_digest(&*engine, &doc, &root)?;
                Ok(answer(&*engine, &mut doc, digest))
            })
        });
    }
    let text = "put per transaction, with the patches that describe it handed back";
    bench.add(row("transact_with_patches", "transaction", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(2_000, 20));
        sampler(move |watch| {
            let mut doc = engine.create(ALICE)?;
            let root = engine.root(&doc)?;
            let patches = watch.time(count as u64, || {
                let mut patches = 0;
                for value in 0..count {
                    patches += engine.transact_with_patches(&mut doc, |tx| {
                        engine.put(tx, &root, "key", int(value))
                    })?;
                }
                Ok(patches)
            })?;
            let digest = map_digest(&*engine, &doc, &root)?.int(patches as u64);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

fn map_reads<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "100 keys; get \"key50\", always the same: the document is in the cache";
    bench.add(row("map_get", "get", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(100_000, 20));
        let (doc, root) = filled(&*engine, ALICE, "key", 100)?;
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0;
                for _ in 0..count {
                    sum += engine.get(&doc, black_box(&root), black_box("key50"))?.unwrap_or(-1);
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
        })
    });
    let text = "100 keys; visit every key";
    bench.add(row("map_keys", "map", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(2_000, 5));
        let (doc, root) = filled(&*engine, ALICE, "key", 100)?;
        sampler(move |watch| {
            let bytes = watch.time(count as u64, || {
                let mut bytes = 0;
                for _ in 0..count {
                    engine.keys(&doc, black_box(&root), |key| bytes += key.len())?;
                }
                Ok(bytes)
            })?;
            Ok(Some(Answer::of(Digest::new().int(bytes as u64))))
        })
    });
}

fn list_writes<E: DocEngine>(bench: &mut Bench<E>) {
    for (name, front, place) in
        [("list_insert_append", false, "at the end"), ("list_insert_front", true, "at the front")]
    {
        for size in [1_000_u64, 10_000] {
            let text = format!(
                "insert the integer 42 {place}, one transaction each; the list starts empty and \
                 grows to {size}"
            );
            let row = row(&format!("{name}/{size}"), "transaction", &text).in_series(name, size);
            bench.add(row, move |engine, cx| {
                let engine = held(engine);
                let count = cx.pick(usize::try_from(size).expect("small"), 20);
                sampler(move |watch| {
                    let (mut doc, list) = listed(&*engine, 0)?;
                    watch.time(count as u64, || {
                        for index in 0..count {
                            let index = if front { 0 } else { index };
                            engine.transact(&mut doc, |tx| engine.insert(tx, &list, index, 42))?;
                        }
                        Ok(())
                    })?;
                    let digest = list_digest(&*engine, &doc, &list)?;
                    Ok(answer(&*engine, &mut doc, digest))
                })
            });
        }
    }
}

fn list_reads<E: DocEngine>(bench: &mut Bench<E>) {
    let text = "list of 1,000 integers; get index 500, always the same";
    bench.add(row("list_get", "get", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(100_000, 20));
        let (doc, list) = listed(&*engine, 1_000)?;
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0;
                for _ in 0..count {
                    sum += engine.at(&doc, black_box(&list), black_box(500))?.unwrap_or(-1);
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
        })
    });
    let text = "list of 1,000 integers; make a cursor at index 500";
    bench.add(row("cursor_create", "cursor", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(50_000, 20));
        let (doc, list) = listed(&*engine, 1_000)?;
        sampler(move |watch| {
            watch.time(count as u64, || {
                for _ in 0..count {
                    black_box(engine.cursor(&doc, black_box(&list), black_box(500))?);
                }
                Ok(())
            })?;
            let cursor = engine.cursor(&doc, &list, 500)?;
            let index = engine.resolve(&doc, &list, &cursor)?;
            Ok(Some(Answer::of(Digest::new().int(index as u64))))
        })
    });
    let text = "list of 1,000 integers; find where the cursor made at index 500 is";
    bench.add(row("cursor_resolve", "cursor", text), |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(50_000, 20));
        let (mut doc, root_list) = listed(&*engine, 1_000)?;
        let cursor = engine.cursor(&doc, &root_list, 500)?;
        engine.transact(&mut doc, |tx| engine.insert(tx, &root_list, 0, 7))?;
        sampler(move |watch| {
            let sum = watch.time(count as u64, || {
                let mut sum = 0;
                for _ in 0..count {
                    sum += engine.resolve(&doc, black_box(&root_list), black_box(&cursor))?;
                }
                Ok(sum)
            })?;
            Ok(Some(Answer::of(Digest::new().int(sum as u64))))
        })
    });
    let text = "a nested map inside a map: put \"m\", in it \"k\" = i, one transaction for 1,000 \
                such maps";
    bench.add(row("maps_in_maps", "map", text), |engine, cx| {
        let engine = held(engine);
        let keys = names("m", cx.pick(1_000, 5));
        sampler(move |watch| {
            let mut doc = engine.create(ALICE)?;
            let root = engine.root(&doc)?;
            watch.time(keys.len() as u64, || {
                engine.transact(&mut doc, |tx| {
                    for (value, key) in keys.iter().enumerate() {
                        let inner = engine.put_object(tx, &root, key, Kind::Map)?;
                        engine.put(tx, &inner, "k", int(value))?;
                    }
                    Ok(())
                })
            })?;
            let mut digest = Digest::new();
            for key in &keys {
                let inner = engine.find(&doc, &root, key)?;
                let value = engine.get(&doc, &inner, "k")?.unwrap_or(-1);
                digest = digest.int(value.cast_unsigned());
            }
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

//! Many documents and many cores: every row in two forms, one thread and one thread per core.

use std::hint::black_box;

use super::{ALICE, answer, fill, filled, held, int, map_digest, names, real, row};
use crate::answer::{Answer, Digest};
use crate::engine::{DocEngine, Miss};
use crate::watch::Watch;
use crate::workload::{Bench, Context, joined, on_threads, on_threads_mut, sampler, threads};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for (form, parallel) in [("one", false), ("all", true)] {
        batches(bench, form, parallel);
        documents(bench, form, parallel);
        real_documents(bench, form, parallel);
        concurrent_reads(bench, form, parallel);
        reduce(bench, form, parallel);
        for (size, label) in [(100_000, "100k"), (500_000, "500k"), (1_000_000, "1M")] {
            put_scale(bench, form, parallel, size, label);
            get_scale(bench, form, parallel, size, label);
        }
    }
}

fn how(parallel: bool) -> &'static str {
    if parallel { "one thread per core" } else { "one thread" }
}

fn timed<R>(watch: &mut Watch, parallel: bool, ops: u64, work: impl FnOnce() -> R) -> R {
    if parallel { watch.time_threads(ops, work) } else { watch.time(ops, work) }
}

fn thread_count(parallel: bool) -> usize {
    if parallel { threads() } else { 1 }
}

fn batches<E: DocEngine>(bench: &mut Bench<E>, form: &str, parallel: bool) {
    let text = if parallel {
        "4,000 keys k0 ...: a fork per core puts its share in one transaction, then all are merged \
         into the first"
    } else {
        "4,000 keys k0 ... put in one transaction"
    };
    bench.add(row(&format!("fork_merge_batch/{form}"), "batch", text), move |engine, cx| {
        let engine = held(engine);
        let keys = names("k", cx.pick(4_000, 20));
        sampler(move |watch| {
            let (mut doc, root) = filled(&*engine, ALICE, "base", 1)?;
            timed(watch, parallel, 1, || -> Result<(), Miss> {
                if !parallel {
                    return fill(&*engine, &mut doc, &root, &keys);
                }
                let share = keys.len().div_ceil(threads());
                let mut forks = Vec::new();
                for actor in 0..keys.len().div_ceil(share) {
                    let actor = u16::try_from(actor).expect("cores are few") + 2;
                    forks.push(engine.fork(&mut doc, actor)?);
                }
                std::thread::scope(|scope| {
                    let workers: Vec<_> = forks
                        .iter_mut()
                        .zip(keys.chunks(share))
                        .map(|(fork, keys)| {
                            let engine = &engine;
                            scope.spawn(move || {
                                let root = engine.root(fork)?;
                                fill(&**engine, fork, &root, keys)
                            })
                        })
                        .collect();
                    workers.into_iter().try_for_each(joined)
                })?;
                forks.iter_mut().try_for_each(|fork| engine.merge(&mut doc, fork))
            })?;
            // The value of a key depends on the key's place within its share, and so on the number
            // of cores: only the count is compared.
            let mut present = 0_u64;
            engine.keys(&doc, &root, |_| present += 1)?;
            Ok(Some(Answer::of(Digest::new().int(present))))
        })
    });
}

fn documents<E: DocEngine>(bench: &mut Bench<E>, form: &str, parallel: bool) {
    let text =
        format!("500 documents of 50 keys f0 ... = i*1000+k; save every one, {}", how(parallel));
    bench.add(row(&format!("save_docs/{form}"), "document", &text), move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(500, 5));
        sampler(move |watch| {
            let mut docs = (0..count)
                .map(|number| small(&*engine, number))
                .collect::<Result<Vec<_>, Miss>>()?;
            let saved = timed(watch, parallel, count as u64, || {
                save_all(&*engine, &mut docs, thread_count(parallel))
            })?;
            watch.figure("bytes", saved.iter().map(|bytes| bytes.len() as f64).sum());
            let last = saved.last().ok_or(Miss::Failed("nothing was saved".into()))?;
            let mut loaded = engine.load(last, ALICE)?;
            let digest = map_digest(&*engine, &loaded, &engine.root(&loaded)?)?;
            Ok(answer(&*engine, &mut loaded, digest))
        })
    });
    let text = format!("load the 500 documents that save_docs saved, {}", how(parallel));
    bench.add(row(&format!("load_docs/{form}"), "document", &text), move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(500, 5));
        let saved = (0..count)
            .map(|number| engine.save(&mut small(&*engine, number)?))
            .collect::<Result<Vec<_>, Miss>>()?;
        sampler(move |watch| {
            let mut docs = timed(watch, parallel, count as u64, || {
                load_all(&*engine, &saved, thread_count(parallel))
            })?;
            let last = docs.last_mut().ok_or(Miss::Failed("nothing was loaded".into()))?;
            let digest = map_digest(&*engine, last, &engine.root(last)?)?;
            Ok(answer(&*engine, last, digest))
        })
    });
}

fn load_all<E: DocEngine>(
    engine: &E,
    files: &[Vec<u8>],
    thread_count: usize,
) -> Result<Vec<E::Doc>, Miss> {
    let parts = on_threads(files, thread_count, |part| {
        part.iter().map(|bytes| engine.load(bytes, ALICE)).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}

fn save_all<E: DocEngine>(
    engine: &E,
    docs: &mut [E::Doc],
    thread_count: usize,
) -> Result<Vec<Vec<u8>>, Miss> {
    let parts = on_threads_mut(docs, thread_count, |part| {
        part.iter_mut().map(|doc| engine.save(doc)).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(parts.into_iter().flatten().collect())
}

/// Real documents, each large enough for an engine to use all cores on one.
fn real_documents<E: DocEngine>(bench: &mut Bench<E>, form: &str, parallel: bool) {
    let how = if parallel { "on one thread per core" } else { "one after the other" };
    let text = format!(
        "eight times three real documents of 85 to 342 KB, loaded and hashed {how} (an engine may \
         use more cores for each)"
    );
    bench.add(row(&format!("load_real_docs/{form}"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let files = real::copies(&*engine, cx)?;
        sampler(move |watch| {
            let mut docs = timed(watch, parallel, files.len() as u64, || {
                load_all(&*engine, &files, thread_count(parallel))
            })?;
            if !watch.verifying() {
                return Ok(None);
            }
            answer_of_all(&*engine, &mut docs)
        })
    });
    let text = format!("the same documents, each one key richer, saved {how}");
    bench.add(row(&format!("save_real_docs/{form}"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let files = real::copies(&*engine, cx)?;
        sampler(move |watch| {
            let mut docs = load_all(&*engine, &files, thread_count(parallel))?;
            for doc in &mut docs {
                let root = engine.root(doc)?;
                engine.transact(doc, |tx| engine.put(tx, &root, "lab", 1))?;
            }
            let saved = timed(watch, parallel, files.len() as u64, || {
                save_all(&*engine, &mut docs, thread_count(parallel))
            })?;
            watch.figure("bytes", saved.iter().map(|bytes| bytes.len() as f64).sum());
            if !watch.verifying() {
                return Ok(None);
            }
            answer_of_all(&*engine, &mut load_all(&*engine, &saved, thread_count(parallel))?)
        })
    });
}

/// The contents of all documents, and the heads of the last.
fn answer_of_all<E: DocEngine>(engine: &E, docs: &mut [E::Doc]) -> Result<Option<Answer>, Miss> {
    let mut digest = Digest::new();
    for doc in &*docs {
        digest = digest.text(&engine.json(doc)?);
    }
    let last = docs.last_mut().ok_or(Miss::Failed("there is no document".into()))?;
    Ok(answer(engine, last, digest))
}

/// Document `number` of the 500: 50 keys f0 ... = number*1000+k.
fn small<E: DocEngine>(engine: &E, number: usize) -> Result<E::Doc, Miss> {
    let mut doc = engine.create(ALICE)?;
    let root = engine.root(&doc)?;
    engine.transact(&mut doc, |tx| {
        for (index, key) in names("f", 50).iter().enumerate() {
            engine.put(tx, &root, key, int(number * 1000 + index))?;
        }
        Ok(())
    })?;
    Ok(doc)
}

fn concurrent_reads<E: DocEngine>(bench: &mut Bench<E>, form: &str, parallel: bool) {
    let text = format!("1,000 keys key_0 ...; get every one, {}", how(parallel));
    bench.add(row(&format!("concurrent_reads/{form}"), "get", &text), move |engine, cx| {
        reads(engine, cx, cx.pick(1_000, 20), cx.pick(20, 2), parallel)
    });
}

fn get_scale<E: DocEngine>(
    bench: &mut Bench<E>,
    form: &str,
    parallel: bool,
    size: u64,
    label: &str,
) {
    let text = format!("a map of {size} keys; get every one, {}", how(parallel));
    let row = row(&format!("get_scale/{form}/{label}"), "get", &text)
        .in_series(&format!("get_scale/{form}"), size);
    bench.add(row, move |engine, cx| {
        reads(engine, cx, cx.pick(usize::try_from(size).expect("small"), 30), 1, parallel)
    });
}

/// Gets each of `size` keys, `times` over.
fn reads<E: DocEngine>(
    engine: &std::sync::Arc<E>,
    cx: &Context,
    size: usize,
    times: usize,
    parallel: bool,
) -> Result<crate::workload::Sampler, Miss> {
    let engine = held(engine);
    let keys = names("key_", size);
    let saved = cx.artifact(&format!("map-of-{size}"), || {
        let mut doc = filled(&*engine, ALICE, "key_", size)?.0;
        engine.save(&mut doc)
    });
    let doc = match saved {
        Ok(bytes) => engine.load(&bytes, ALICE)?,
        Err(_) => filled(&*engine, ALICE, "key_", size)?.0,
    };
    let root = engine.root(&doc)?;
    sampler(move |watch| {
        let sums = timed(watch, parallel, (size * times) as u64, || {
            on_threads(&keys, thread_count(parallel), |keys| {
                let mut sum = 0_i64;
                for _ in 0..times {
                    for key in keys {
                        sum += engine.get(&doc, black_box(&root), key)?.unwrap_or(-1);
                    }
                }
                Ok(sum)
            })
        })?;
        let sum: i64 = sums.iter().sum();
        Ok(Some(Answer::of(Digest::new().int(sum.cast_unsigned()))))
    })
}

fn reduce<E: DocEngine>(bench: &mut Bench<E>, form: &str, parallel: bool) {
    let text = if parallel {
        "64 peers of 10 keys p{p}_k{k}; copies by merge, then merged as a tree, its halves on one \
         thread each"
    } else {
        "64 peers of 10 keys p{p}_k{k}; copies by merge, then merged one after the other"
    };
    bench.add(row(&format!("merge_reduce/{form}"), "reduction", text), move |engine, cx| {
        let (engine, count) = (held(engine), cx.pick(64, 4));
        sampler(move |watch| {
            let mut peers = (0..count)
                .map(|peer| {
                    let actor = u16::try_from(peer).expect("64 fit") + 10;
                    Ok(filled(&*engine, actor, &format!("p{peer}_k"), 10)?.0)
                })
                .collect::<Result<Vec<_>, Miss>>()?;
            let mut merged =
                timed(watch, parallel, 1, || {
                    if !parallel {
                        return fold(&*engine, &mut peers, 1);
                    }
                    let share = count.div_ceil(threads());
                    std::thread::scope(|scope| {
                        let workers: Vec<_> = peers
                            .chunks_mut(share)
                            .enumerate()
                            .map(|(part, peers)| {
                                let engine = &engine;
                                let actor = u16::try_from(part).expect("cores are few") + 1;
                                scope.spawn(move || fold(&**engine, peers, actor))
                            })
                            .collect();
                        let mut parts = Vec::new();
                        for worker in workers {
                            parts.push(worker.join().unwrap_or_else(|_| {
                                Err(Miss::Failed("a thread panicked".into()))
                            })?);
                        }
                        fold(&*engine, &mut parts, 9)
                    })
                })?;
            let digest = map_digest(&*engine, &merged, &engine.root(&merged)?)?;
            Ok(answer(&*engine, &mut merged, digest))
        })
    });
}

/// Merges all into a new document of `actor`.
fn fold<E: DocEngine>(engine: &E, peers: &mut [E::Doc], actor: u16) -> Result<E::Doc, Miss> {
    let mut merged = engine.create(actor)?;
    for peer in peers {
        engine.merge(&mut merged, peer)?;
    }
    Ok(merged)
}

fn put_scale<E: DocEngine>(
    bench: &mut Bench<E>,
    form: &str,
    parallel: bool,
    size: u64,
    label: &str,
) {
    let text = if parallel {
        format!("{size} keys put, one independent document and one transaction per core")
    } else {
        format!("{size} keys put in one transaction")
    };
    let row = row(&format!("put_scale/{form}/{label}"), "put", &text)
        .in_series(&format!("put_scale/{form}"), size);
    bench.add(row, move |engine, cx| {
        let engine = held(engine);
        let keys = names("key_", cx.pick(usize::try_from(size).expect("small"), 30));
        sampler(move |watch| {
            let docs = timed(watch, parallel, keys.len() as u64, || {
                on_threads(&keys, thread_count(parallel), |keys| {
                    let mut doc = engine.create(ALICE)?;
                    let root = engine.root(&doc)?;
                    fill(&*engine, &mut doc, &root, keys)?;
                    Ok(doc)
                })
            })?;
            if !watch.verifying() {
                return Ok(None);
            }
            let mut digest = Digest::new();
            for doc in &docs {
                digest = digest.int(map_digest(&*engine, doc, &engine.root(doc)?)?.value());
            }
            Ok(Some(Answer::of(digest)))
        })
    });
}

//! Editing traces: the typing of real authors, replayed, saved, loaded, sent and merged.

use std::rc::Rc;

use super::{ALICE, BOB, answer, held, row};
use crate::answer::Digest;
use crate::engine::{DocEngine, Miss};
use crate::workload::traces::Recorded;
use crate::workload::{Bench, Context, sampler};

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for name in SEQUENTIAL {
        replay(bench, name);
        save_and_load(bench, name);
        applied(bench, name);
        memory(bench, name);
    }
    concurrent(bench);
}

/// The folder `traces/sequential`, smallest first.
const SEQUENTIAL: [&str; 6] = [
    "sveltecomponent",
    "friendsforever_flat",
    "clownschool_flat",
    "json-crdt-blog-post",
    "rustcode",
    "automerge-paper",
];

fn load(cx: &Context, name: &str) -> Result<Recorded, Miss> {
    Recorded::load(cx, &format!("sequential/{name}"))
}

/// Replays the trace into a new document, as one transaction or one per patch.
fn replayed<E: DocEngine>(
    engine: &E,
    recorded: &Recorded,
    per_patch: bool,
) -> Result<(E::Doc, E::Obj), Miss> {
    let (mut doc, text) = engine.create_text(ALICE)?;
    if per_patch {
        for patch in recorded.trace.patches() {
            engine.transact(&mut doc, |tx| engine.splice(tx, &text, patch.0, patch.1, &patch.2))?;
        }
    } else {
        engine.transact(&mut doc, |tx| {
            recorded
                .trace
                .patches()
                .try_for_each(|patch| engine.splice(tx, &text, patch.0, patch.1, &patch.2))
        })?;
    }
    Ok((doc, text))
}

/// The bytes of the trace saved after a transaction per patch.
pub(super) fn saved<E: DocEngine>(engine: &E, cx: &Context, name: &str) -> Result<Vec<u8>, Miss> {
    cx.artifact(&format!("trace-{name}"), || {
        let (mut doc, _) = replayed(engine, &load(cx, name)?, true)?;
        engine.save(&mut doc)
    })
}

fn replay<E: DocEngine>(bench: &mut Bench<E>, name: &'static str) {
    for (form, per_patch) in [("one_tx", false), ("tx_per_patch", true)] {
        let how = if per_patch { "one transaction per patch" } else { "one transaction" };
        let text = format!("local edits of the trace {name} in {how}");
        bench.add(row(&format!("trace/{name}/{form}"), "trace", &text), move |engine, cx| {
            let engine = held(engine);
            let recorded = load(cx, name)?;
            sampler(move |watch| {
                let (mut doc, text) = watch.time(1, || replayed(&*engine, &recorded, per_patch))?;
                watch.figure("edits", recorded.patch_count() as f64);
                let text = engine.text(&doc, &text)?;
                recorded.check(&text)?;
                Ok(answer(&*engine, &mut doc, Digest::new().text(&text)))
            })
        });
    }
}

fn save_and_load<E: DocEngine>(bench: &mut Bench<E>, name: &'static str) {
    let text = format!(
        "save {name}, history included, just loaded and one character richer; bytes reported"
    );
    bench.add(row(&format!("trace/{name}/save"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, name)?;
        sampler(move |watch| {
            let mut doc = engine.load(&bytes, BOB)?;
            let text = engine.find_text(&doc)?;
            engine.transact(&mut doc, |tx| engine.splice(tx, &text, 0, 0, "!"))?;
            let saved = watch.time(1, || engine.save(&mut doc))?;
            watch.figure("bytes", saved.len() as f64);
            let digest = Digest::new().text(&engine.text(&doc, &text)?);
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
    for (form, later, how) in [
        ("load_text", false, ""),
        ("load_text_later", true, "; hashes are not compared, or only once they are asked for"),
    ] {
        let text = format!("load {name}, saved with its history, and read its text{how}");
        bench.add(row(&format!("trace/{name}/{form}"), "document", &text), move |engine, cx| {
            let engine = held(engine);
            let (bytes, recorded) = (saved(&*engine, cx, name)?, load(cx, name)?);
            sampler(move |watch| {
                let (mut doc, read) = watch.time(1, || {
                    let doc = match later {
                        true => engine.load_unverified(&bytes, BOB)?,
                        false => engine.load(&bytes, BOB)?,
                    };
                    let read = engine.text(&doc, &engine.find_text(&doc)?)?;
                    Ok((doc, read))
                })?;
                recorded.check(&read)?;
                Ok(answer(&*engine, &mut doc, Digest::new().text(&read)))
            })
        });
    }
    let text = format!("load {name}, saved with its history, and give it as JSON");
    bench.add(row(&format!("trace/{name}/load_json"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, name)?;
        sampler(move |watch| {
            let json = watch.time(1, || engine.json(&engine.load(&bytes, BOB)?))?;
            Ok(Some(crate::answer::Answer::of(Digest::new().text(&json))))
        })
    });
    let text = format!(
        "load {name} from the form without history, and read its text: less than the other loads \
         do, for engines that have such a form"
    );
    bench.add(row(&format!("trace/{name}/load_state"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let state = cx.artifact(&format!("state-{name}"), || {
            engine.save_state(&mut engine.load(&saved(&*engine, cx, name)?, ALICE)?)
        })?;
        let recorded = load(cx, name)?;
        sampler(move |watch| {
            let read = watch.time(1, || {
                let doc = engine.load(&state, BOB)?;
                engine.text(&doc, &engine.find_text(&doc)?)
            })?;
            watch.figure("bytes", state.len() as f64);
            recorded.check(&read)?;
            Ok(Some(crate::answer::Answer::of(Digest::new().text(&read))))
        })
    });
    let text = format!("load {name} and visit every change of its history");
    bench.add(row(&format!("trace/{name}/load_history"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, name)?;
        sampler(move |watch| {
            let (mut doc, changes) = watch.time(1, || {
                let mut doc = engine.load(&bytes, BOB)?;
                let changes = engine.history(&mut doc)?;
                Ok((doc, changes))
            })?;
            watch.figure("changes", changes as f64);
            let read = engine.text(&doc, &engine.find_text(&doc)?)?;
            Ok(answer(&*engine, &mut doc, Digest::new().text(&read)))
        })
    });
}

fn applied<E: DocEngine>(bench: &mut Bench<E>, name: &'static str) {
    for (form, one_by_one, how) in
        [("apply_batch", false, "all at once"), ("apply_each", true, "one after the other")]
    {
        let text = format!(
            "the changes of {name}, one per patch, as bytes from a peer: applied to an empty \
             document {how}. Engines that keep no separate changes are sent one update per patch"
        );
        bench.add(row(&format!("trace/{name}/{form}"), "trace", &text), move |engine, cx| {
            let engine = held(engine);
            let recorded = load(cx, name)?;
            let changes = Rc::new(sent(&*engine, &recorded)?);
            sampler(move |watch| {
                let mut doc = engine.create(BOB)?;
                watch.time(1, || -> Result<(), Miss> {
                    if !one_by_one {
                        return engine.apply(&mut doc, &changes);
                    }
                    changes.chunks(1).try_for_each(|change| engine.apply(&mut doc, change))
                })?;
                watch.figure("changes", changes.len() as f64);
                let read = engine.text(&doc, &engine.find_text(&doc)?)?;
                recorded.check(&read)?;
                Ok(answer(&*engine, &mut doc, Digest::new().text(&read)))
            })
        });
    }
}

/// The trace typed with a transaction per patch, as the bytes sent to a peer.
fn sent<E: DocEngine>(engine: &E, recorded: &Recorded) -> Result<Vec<Vec<u8>>, Miss> {
    let (mut doc, text) = engine.create_text(ALICE)?;
    let mut changes = engine.changes(&mut doc, None)?;
    let mut heads = engine.heads(&mut doc)?;
    for patch in recorded.trace.patches() {
        engine.transact(&mut doc, |tx| engine.splice(tx, &text, patch.0, patch.1, &patch.2))?;
        changes.extend(engine.changes(&mut doc, Some(&heads))?);
        heads = engine.heads(&mut doc)?;
    }
    Ok(changes)
}

fn memory<E: DocEngine>(bench: &mut Bench<E>, name: &'static str) {
    let text = format!(
        "how far the process grows while {name} is loaded and its text read (peak), and how much \
         it still holds with the document open (steady)"
    );
    let load_row = row(&format!("trace/{name}/memory_load"), "document", &text).of_memory();
    bench.add(load_row, move |engine, cx| {
        let engine = held(engine);
        let bytes = saved(&*engine, cx, name)?;
        let mut open = Vec::new();
        sampler(move |watch| {
            let (mut doc, read) = watch.time(1, || {
                let doc = engine.load(&bytes, BOB)?;
                let read = engine.text(&doc, &engine.find_text(&doc)?)?;
                Ok((doc, read))
            })?;
            let answer = answer(&*engine, &mut doc, Digest::new().text(&read));
            open.clear();
            open.push(doc);
            Ok(answer)
        })
    });
    let text = format!(
        "how far the process grows while {name} is typed in one transaction (peak), and how much \
         it still holds with the document open (steady)"
    );
    let edit_row = row(&format!("trace/{name}/memory_edit"), "trace", &text).of_memory();
    bench.add(edit_row, move |engine, cx| {
        let engine = held(engine);
        let recorded = load(cx, name)?;
        let mut open = Vec::new();
        sampler(move |watch| {
            let (doc, text) = watch.time(1, || replayed(&*engine, &recorded, false))?;
            let read = engine.text(&doc, &text)?;
            open.clear();
            open.push(doc);
            Ok(Some(crate::answer::Answer::of(Digest::new().text(&read))))
        })
    });
}

/// Two authors typing at once: each transaction's bytes reach the other author before his next one.
struct Exchange<D> {
    peers: Vec<D>,
    /// The bytes of each transaction, in the order of the trace; the first entry makes the text.
    sent: Vec<Vec<Vec<u8>>>,
}

fn exchange<E: DocEngine>(engine: &E, recorded: &Recorded) -> Result<Exchange<E::Doc>, Miss> {
    let txns = &recorded.trace.txns;
    let agents = txns.iter().map(|txn| txn.agent + 1).max().unwrap_or(1);
    let (mut first, _) = engine.create_text(ALICE)?;
    let made = engine.changes(&mut first, None)?;
    let mut peers = vec![first];
    for agent in 1..agents {
        let mut peer = engine.create(ALICE + u16::try_from(agent).map_err(Miss::failed)?)?;
        engine.apply(&mut peer, &made)?;
        peers.push(peer);
    }
    let mut knows = vec![vec![false; txns.len()]; agents];
    let mut sent: Vec<Vec<Vec<u8>>> = Vec::with_capacity(txns.len() + 1);
    let mut missing = Vec::new();
    for (index, txn) in txns.iter().enumerate() {
        let (peer, known) = (&mut peers[txn.agent], &mut knows[txn.agent]);
        missing.clear();
        let mut open: Vec<usize> = txn.parents.clone();
        while let Some(ancestor) = open.pop() {
            if !std::mem::replace(&mut known[ancestor], true) {
                missing.push(ancestor);
                open.extend(&txns[ancestor].parents);
            }
        }
        missing.sort_unstable();
        for &ancestor in &missing {
            engine.apply(peer, &sent[ancestor])?;
        }
        let heads = engine.heads(peer)?;
        let text = engine.find_text(peer)?;
        engine.transact(peer, |tx| {
            txn.patches
                .iter()
                .try_for_each(|patch| engine.splice(tx, &text, patch.0, patch.1, &patch.2))
        })?;
        sent.push(engine.changes(peer, Some(&heads))?);
        known[index] = true;
    }
    sent.insert(0, made);
    Ok(Exchange { peers, sent })
}

fn concurrent<E: DocEngine>(bench: &mut Bench<E>) {
    let name = "friendsforever";
    let text = "two authors of one text: every transaction typed by its author's document, which \
                was first sent what that author had seen. Includes encoding and applying";
    bench.add(row(&format!("concurrent/{name}/exchange"), "trace", text), move |engine, cx| {
        let engine = held(engine);
        let recorded = Recorded::load(cx, &format!("concurrent/{name}"))?;
        sampler(move |watch| {
            let mut exchange = watch.time(1, || exchange(&*engine, &recorded))?;
            // Both have typed; neither has seen the other's last words.
            let all: Vec<Vec<u8>> = exchange.sent.into_iter().flatten().collect();
            let doc = &mut exchange.peers[0];
            engine.apply(doc, &all)?;
            let read = engine.text(doc, &engine.find_text(doc)?)?;
            recorded.check(&read)?;
            Ok(answer(&*engine, doc, Digest::new().text(&read)))
        })
    });
    for (form, one_by_one, how) in
        [("merge_batch", false, "all at once"), ("merge_each", true, "one after the other")]
    {
        let text =
            format!("what the two authors of {name} sent, applied to an empty document {how}");
        bench.add(row(&format!("concurrent/{name}/{form}"), "trace", &text), move |engine, cx| {
            let engine = held(engine);
            let recorded = Recorded::load(cx, &format!("concurrent/{name}"))?;
            let sent: Vec<Vec<u8>> =
                exchange(&*engine, &recorded)?.sent.into_iter().flatten().collect();
            sampler(move |watch| {
                let mut doc = engine.create(99)?;
                watch.time(1, || -> Result<(), Miss> {
                    if !one_by_one {
                        return engine.apply(&mut doc, &sent);
                    }
                    sent.chunks(1).try_for_each(|change| engine.apply(&mut doc, change))
                })?;
                let read = engine.text(&doc, &engine.find_text(&doc)?)?;
                recorded.check(&read)?;
                Ok(answer(&*engine, &mut doc, Digest::new().text(&read)))
            })
        });
    }
}

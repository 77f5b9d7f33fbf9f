//! Real Automerge documents: load, save, fork, JSON; and one large sync message.

use std::hint::black_box;

use super::{ALICE, BOB, answer, held, row};
use crate::answer::{Answer, Digest};
use crate::engine::{DocEngine, Miss};
use crate::workload::{Bench, Context, sampler};

/// The files of `automerge/documents/`, by the names of their rows.
const DOCUMENTS: [(&str, &str); 7] = [
    ("godot-modeled", "godot-modeled.amrg"),
    ("monday-meeting-notes", "monday-meeting-notes.automerge"),
    ("C1", "C1.am"),
    ("S1", "S1.am"),
    ("moby-dick", "moby-dick.automerge"),
    ("A1", "A1.am"),
    ("essay", "essay.amrg"),
];

pub(super) fn add<E: DocEngine>(bench: &mut Bench<E>) {
    for (index, (name, file)) in DOCUMENTS.into_iter().enumerate() {
        // A quick run takes the two smallest: the others take seconds in a debug build.
        document(bench, name, file, index < 2);
    }
    slow_message(bench);
}

/// The file's bytes, if the engine reads Automerge's format.
fn bytes<E: DocEngine>(engine: &E, cx: &Context, file: &str, small: bool) -> Result<Vec<u8>, Miss> {
    if engine.format() != Some("automerge") {
        return Err(Miss::NotRun("reads another format".into()));
    }
    if !small && cx.pick(1, 0) == 0 {
        return Err(Miss::NotRun("too large for a quick run".into()));
    }
    std::fs::read(cx.corpus(&format!("automerge/documents/{file}"))?).map_err(Miss::failed)
}

/// Three documents of different shape, eight times each: neighbours differ.
pub(super) fn copies<E: DocEngine>(engine: &E, cx: &Context) -> Result<Vec<Vec<u8>>, Miss> {
    let mut files = Vec::new();
    for (index, (name, file)) in DOCUMENTS.into_iter().enumerate() {
        let is_taken = index < cx.pick(2, 1) || (name == "S1" && cx.pick(1, 0) == 1);
        if is_taken {
            files.push(bytes(engine, cx, file, index < 2)?);
        }
    }
    let count = files.len() * cx.pick(8, 2);
    Ok(files.into_iter().cycle().take(count).collect())
}

fn contents<E: DocEngine>(engine: &E, doc: &E::Doc) -> Result<Digest, Miss> {
    Ok(Digest::new().text(&engine.json(doc)?))
}

fn document<E: DocEngine>(
    bench: &mut Bench<E>,
    name: &'static str,
    file: &'static str,
    small: bool,
) {
    let text = format!("load {file}");
    bench.add(row(&format!("real/{name}/load"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = bytes(&*engine, cx, file, small)?;
        sampler(move |watch| {
            let mut doc = watch.time(1, || engine.load(&bytes, ALICE))?;
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = contents(&*engine, &doc)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
    let text = format!("save {file}, loaded and one key richer");
    bench.add(row(&format!("real/{name}/save"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = bytes(&*engine, cx, file, small)?;
        sampler(move |watch| {
            let mut doc = engine.load(&bytes, ALICE)?;
            let root = engine.root(&doc)?;
            engine.transact(&mut doc, |tx| engine.put(tx, &root, "lab", 1))?;
            let saved = watch.time(1, || engine.save(&mut doc))?;
            watch.figure("bytes", saved.len() as f64);
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = contents(&*engine, &engine.load(&saved, ALICE)?)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
    let text = format!("fork {file}, loaded, as another actor");
    bench.add(row(&format!("real/{name}/fork"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = bytes(&*engine, cx, file, small)?;
        let mut doc = engine.load(&bytes, ALICE)?;
        sampler(move |watch| {
            let mut fork = watch.time(1, || engine.fork(&mut doc, BOB))?;
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = contents(&*engine, &fork)?;
            Ok(answer(&*engine, &mut fork, digest))
        })
    });
    let text = format!("{file}, loaded, as JSON");
    bench.add(row(&format!("real/{name}/json"), "document", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = bytes(&*engine, cx, file, small)?;
        let doc = engine.load(&bytes, ALICE)?;
        sampler(move |watch| {
            let json = watch.time(1, || engine.json(&doc))?;
            watch.figure("bytes", json.len() as f64);
            Ok(Some(Answer::of(Digest::new().text(&json))))
        })
    });
}

fn slow_message<E: DocEngine>(bench: &mut Bench<E>) {
    let file = "slowSyncMessage.amrgsync";
    let text = format!("an empty document receives the one message of {file}");
    bench.add(row("real/slow_sync_message", "message", &text), move |engine, cx| {
        let engine = held(engine);
        let bytes = bytes(&*engine, cx, file, false)?;
        sampler(move |watch| {
            let mut doc = engine.create(ALICE)?;
            let mut session = engine.session()?;
            watch.time(1, || engine.receive(&mut doc, &mut session, black_box(&bytes)))?;
            if !watch.verifying() {
                return Ok(None);
            }
            let digest = contents(&*engine, &doc)?;
            Ok(answer(&*engine, &mut doc, digest))
        })
    });
}

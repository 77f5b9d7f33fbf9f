//! Rows on databases of documents: files, told durable, read again.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Bench, Context, Family, Row, sampler};
use crate::answer::{Answer, Digest};
use crate::engine::{DbEngine, Miss};

/// Every row of databases.
pub(crate) fn rows<E: DbEngine>() -> Bench<E> {
    let mut bench = Bench::new();
    for (bytes, label) in [(1_000, "1kB"), (100_000, "100kB"), (1_000_000, "1MB")] {
        for full in [true, false] {
            keystroke(&mut bench, bytes, label, full);
        }
    }
    projected(&mut bench);
    open(&mut bench);
    edit(&mut bench);
    as_of(&mut bench);
    size(&mut bench);
    rebuild(&mut bench);
    query(&mut bench);
    bench
}

fn row(name: &str, unit: &str, text: &str) -> Row {
    Row::new(Family::Db, name, unit, text)
}

/// A folder of a row's own, of this run and contender.
fn folder(cx: &Context, name: &str) -> Result<PathBuf, Miss> {
    let folder = cx.scratch.join(format!("db-{name}"));
    std::fs::create_dir_all(&folder).map_err(Miss::failed)?;
    Ok(folder)
}

fn keystroke<E: DbEngine>(bench: &mut Bench<E>, bytes: usize, label: &str, full: bool) {
    let sync = if full { "full" } else { "normal" };
    let text = format!(
        "200 keystrokes at the end of a text of {label}, a commit each, write-ahead log, \
         synchronous {sync}; beside one INSERT of 100 bytes into a plain table"
    );
    let name = format!("keystroke/{label}/{sync}");
    let path = name.replace('/', "-");
    bench.add(row(&name, "commit", &text), move |engine, cx| {
        let bytes = cx.pick(bytes, bytes / 1000);
        let ops = cx.pick(200, 3) as u64;
        let mut typist = Arc::clone(engine).typist(&folder(cx, &path)?, bytes, full)?;
        sampler(move |watch| {
            let before = typist.stored()?;
            watch.time(ops, || (0..ops).try_for_each(|_| typist.keystroke()))?;
            let stored = typist.stored()? - before;
            Ok(Some(Answer::of(Digest::new().int(stored))))
        })
    });
}

fn projected<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "200 keystrokes into the titles of 1,000 items, a commit each, write-ahead log, \
                synchronous full; the rows in three tables with an index each. Beside the same \
                INSERT and UPDATEs of a program's own";
    bench.add(row("keystroke/projected", "commit", text), |engine, cx| {
        let ops = cx.pick(200, 3) as u64;
        let mut typist = engine.projected_typist(&folder(cx, "keystroke-projected")?)?;
        sampler(move |watch| {
            let before = typist.stored()?;
            watch.time(ops, || (0..ops).try_for_each(|_| typist.keystroke()))?;
            let stored = typist.stored()? - before;
            Ok(Some(Answer::of(Digest::new().int(stored))))
        })
    });
}

fn query<E: DbEngine>(bench: &mut Bench<E>) {
    for (name, plain) in [("query/projection", false), ("query/plain", true)] {
        let kind = if plain { "a plain table with them" } else { "the table kept from these" };
        let text = format!("a sum over the rows of 10,000 documents of 100 items, in {kind}");
        bench.add(row(name, "row", &text), move |engine, cx| {
            let documents = cx.pick(10_000, 5);
            let mut run = engine.query(&folder(cx, &name.replace('/', "-"))?, documents, plain)?;
            sampler(move |watch| {
                let sum = watch.time(documents as u64 * 100, &mut run)?;
                Ok(Some(Answer::of(Digest::new().int(sum))))
            })
        });
    }
}

fn open<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "open a file with a document of 100,000 keystrokes, a change each, compacted, and \
                read its text";
    bench.add(row("open/100k", "open", text), |engine, cx| {
        let mut run = engine.open_and_read(&folder(cx, "open")?, cx.pick(100_000, 60))?;
        sampler(move |watch| {
            let text = watch.time(1, &mut run)?;
            Ok(Some(Answer::of(Digest::new().text(&text))))
        })
    });
}

fn edit<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "open a file with a document of 10^6 ops in 10,000 changes, compacted; one edit, \
                commit, close, synchronous off";
    bench.add(row("edit/1M", "edit", text), |engine, cx| {
        let mut run = engine.edit_and_close(&folder(cx, "edit")?, cx.pick(10_000, 5))?;
        sampler(move |watch| {
            let found = watch.time(1, &mut run)?;
            Ok(Some(Answer::of(Digest::new().int(u64::from(found)))))
        })
    });
}

fn as_of<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "the JSON of a document of 50,000 keystrokes as it was 20 changes ago, the document \
                read before";
    bench.add(row("as_of/20_of_50k", "query", text), |engine, cx| {
        let mut run = engine.as_of(&folder(cx, "as_of")?, cx.pick(50_000, 60), 20)?;
        sampler(move |watch| {
            let json = watch.time(1, &mut run)?;
            let json: serde_json::Value = serde_json::from_str(&json).map_err(Miss::failed)?;
            Ok(Some(Answer::of(Digest::new().text(&json.to_string()))))
        })
    });
}

fn size<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "compact a document of 100,000 keystrokes, a change each; the figure `bytes` is what \
                it takes then";
    bench.add(row("size/100k", "document", text), |engine, cx| {
        let keystrokes = cx.pick(100_000, 60);
        let mut run = engine.size(&folder(cx, "size")?, keystrokes)?;
        sampler(move |watch| {
            let bytes = watch.time(1, &mut run)?;
            watch.figure("bytes", bytes as f64);
            Ok(Some(Answer::of(Digest::new().int(keystrokes as u64))))
        })
    });
}

fn rebuild<E: DbEngine>(bench: &mut Bench<E>) {
    let text = "the rows of a projection made anew from 10,000 documents of 100 items; beside \
                json_each over the same JSON in a table";
    bench.add(row("projection/rebuild", "row", text), |engine, cx| {
        let documents = cx.pick(10_000, 5);
        let mut run = engine.rebuild(&folder(cx, "rebuild")?, documents)?;
        sampler(move |watch| {
            let rows = watch.time(documents as u64 * 100, &mut run)?;
            Ok(Some(Answer::of(Digest::new().int(rows))))
        })
    });
}

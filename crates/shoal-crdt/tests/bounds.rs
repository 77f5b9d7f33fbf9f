//! What bytes from strangers may cost: however little they are, and whatever they claim, no more
//! heap than [`Limits`] says. And what people write, however compact, is far within.

#![allow(clippy::unwrap_used)]

#[path = "../../shoal-history/tests/parts/mod.rs"]
#[allow(dead_code)]
mod parts;

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use parts::{ChangeParts, DocumentParts, put, seal, write_uleb};
use shoal_crdt::{
    ActorId, Allowance, Bundle, BySize, Change, CommitOptions, Document, Error, Limits,
    LoadOptions, ObjType, ROOT, SaveOptions, SyncMessage, SyncState,
};
use shoal_history::{
    Action, ActorIdx, ChangeData, ChangeHeader, ChangeWriter, Key, ObjId as Obj, Op, OpId,
    ScalarRef, SyncVersion,
};
use shoal_testkit::alloc::{CountingAllocator, heap};
use shoal_testkit::corpus;
use shoal_testkit::trace::{Patch, Trace};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// One measurement at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As the defaults, but that a short input may have a sixty-fourth of what it may have there: what
/// reaches the limits is made and read in a moment.
const SMALL: Limits = Limits {
    max_chunk_bytes: 256 << 20,
    max_actors: 1 << 20,
    max_decompressed_bytes: 256 << 20,
    max_ops: 1 << 24,
    max_runs: 1 << 24,
    max_changes: 1 << 22,
    max_rebuilt_bytes: 1 << 30,
    max_depth: 100_000,
    by_size: Some(BySize {
        ops: Allowance { per_byte: 16, least: 1 << 16 },
        runs: Allowance { per_byte: 4, least: 1 << 14 },
        changes: Allowance { per_byte: 8, least: 1 << 14 },
        decompressed_bytes: Allowance { per_byte: 128, least: 1 << 19 },
        rebuilt_bytes: Allowance { per_byte: 512, least: 1 << 21 },
    }),
};

fn of(allowance: Allowance, len: usize, most: u64) -> u64 {
    (allowance.per_byte * len as u64).max(allowance.least).min(most)
}

/// What the documentation of [`Limits`] says that an input of `len` bytes costs at most. Runs are
/// ops, and whoever asks for the most of one thing has nothing of the others, so that a bound for
/// each, `of_ops` or not, says more than the sum.
fn allowed(limits: &Limits, len: usize) -> u64 {
    let by_size = limits.by_size.unwrap();
    64 * len as u64
        + 128 * of(by_size.ops, len, limits.max_ops.into())
        + 512 * of(by_size.runs, len, limits.max_runs.into())
        + 256 * of(by_size.changes, len, limits.max_changes.into())
        + 4 * of(by_size.decompressed_bytes, len, limits.max_decompressed_bytes)
        + 2 * of(by_size.rebuilt_bytes, len, limits.max_rebuilt_bytes)
}

/// Loads `bytes`, asks for all changes, reads everything; the heap stays below what is allowed, and
/// below `most`.
fn load(name: &str, bytes: &[u8], limits: Limits, most: u64) -> Result<Document, Error> {
    let options = LoadOptions { limits, ..LoadOptions::default() };
    let (loaded, used) = heap(|| Document::load(bytes, ActorId::new(b"reader"), &options));
    let allowed = allowed(&limits, bytes.len());
    assert!(used.peak <= allowed.min(most), "{name}: {used:?}, allowed {allowed}, {most}");
    let doc = loaded?;
    let (_, changes) = heap(|| doc.changes().count());
    assert!(used.live + changes.peak <= allowed, "{name}: changes: {changes:?}");
    Ok(doc)
}

fn limit(error: Error) -> &'static str {
    match error {
        Error::History(shoal_history::Error::Limit { what, .. }) => what,
        other => panic!("no limit: {other}"),
    }
}

fn id(counter: u32) -> OpId {
    OpId { counter, actor: ActorIdx(0) }
}

const PUT: Op<'static> = Op {
    id: OpId { counter: 1, actor: ActorIdx(0) },
    obj: Obj::Root,
    key: Key::Map("a"),
    insert: false,
    action: Action::Set,
    value: ScalarRef::Null,
    expand: false,
    mark_name: None,
    links: &[],
};

/// The `at`th op of those that make a list and insert one element after the other.
fn insert(at: u32) -> Op<'static> {
    match at {
        1 => Op { action: Action::MakeList, ..PUT },
        2 => Op { obj: Obj::Op(id(1)), insert: true, key: Key::Head, ..PUT },
        at => Op { obj: Obj::Op(id(1)), insert: true, key: Key::Elem(id(at - 1)), ..PUT },
    }
}

/// A change of `count` ops; `op` gives each and what it supersedes.
fn change(count: u32, op: impl Fn(u32) -> (Op<'static>, Option<OpId>)) -> Change {
    change_after(&[], count, op)
}

/// The same as the next of its author after others.
fn change_after(
    before: &[Change],
    count: u32,
    op: impl Fn(u32) -> (Op<'static>, Option<OpId>),
) -> Change {
    let last = before.last();
    let start_op = last.map_or(1, |last| last.max_op() + 1);
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: before.len() as u32 + 1,
        start_op,
        time: 0,
        message: None,
        deps: last.map(Change::hash).into_iter().collect(),
        extra_bytes: &[],
    };
    let actors = [ActorId::new(&[1])];
    let mut writer = ChangeWriter::new(header, &actors);
    for at in start_op..start_op + count {
        let (op, pred) = op(at);
        writer.push(&Op { id: id(at), links: pred.as_slice(), ..op });
    }
    writer.finish().unwrap()
}

type Make = fn(u32) -> (Op<'static>, Option<OpId>);

/// Ops that take little room in a chunk and much in memory, each with how many of them there may
/// be.
const KINDS: [(&str, u32, Make); 16] = [
    ("values of one key", 1 << 14, |_| (PUT, None)),
    ("values one after the other", 1 << 14, |at| (PUT, (at > 1).then(|| id(at - 1)))),
    ("maps at one key", 1 << 12, |_| (Op { action: Action::MakeMap, ..PUT }, None)),
    ("texts at one key", 1 << 12, |_| (Op { action: Action::MakeText, ..PUT }, None)),
    ("maps in each other", 1 << 12, |at| {
        let obj = if at == 1 { Obj::Root } else { Obj::Op(id(at - 1)) };
        (Op { obj, action: Action::MakeMap, ..PUT }, None)
    }),
    ("increments", 1 << 14, |at| match at {
        1 => (Op { value: ScalarRef::Counter(0), ..PUT }, None),
        _ => {
            let (action, value) = (Action::Increment, ScalarRef::Int(1));
            (Op { action, value, ..PUT }, Some(id(1)))
        }
    }),
    ("a list of nulls", 1 << 16, |at| (insert(at), None)),
    ("a list of empty strings", 1 << 16, |at| match at {
        1 => (insert(at), None),
        _ => (Op { value: ScalarRef::Str(""), ..insert(at) }, None),
    }),
    ("a list of counters", 1 << 16, |at| match at {
        1 => (insert(at), None),
        _ => (Op { value: ScalarRef::Counter(0), ..insert(at) }, None),
    }),
    ("a list of maps", 4000, |at| match at {
        1 => (insert(at), None),
        _ => (Op { action: Action::MakeMap, ..insert(at) }, None),
    }),
    ("a list of texts", 4000, |at| match at {
        1 => (insert(at), None),
        _ => (Op { action: Action::MakeText, ..insert(at) }, None),
    }),
    ("all at the head of a list", 16_000, |at| match at {
        1 => (insert(at), None),
        _ => (Op { key: Key::Head, ..insert(at) }, None),
    }),
    ("values of one element", 16_000, |at| match at {
        1 | 2 => (insert(at), None),
        _ => (Op { key: Key::Elem(id(2)), insert: false, ..insert(at) }, None),
    }),
    ("a text of one letter, deleted", 1 << 16, |at| match at {
        1 => (Op { action: Action::MakeText, ..PUT }, None),
        at if at <= 1 << 15 => (Op { value: ScalarRef::Str("x"), ..insert(at) }, None),
        at if at < 1 << 16 => {
            let target = id(at - (1 << 15) + 1);
            let op = Op { action: Action::Delete, key: Key::Elem(target), ..insert(2) };
            (Op { insert: false, ..op }, Some(target))
        }
        _ => (PUT, None),
    }),
    ("a text of letters of one and two bytes", 1 << 16, |at| match at {
        1 => (Op { action: Action::MakeText, ..PUT }, None),
        _ => {
            (Op { value: ScalarRef::Str(if at % 2 == 0 { "x" } else { "é" }), ..insert(at) }, None)
        }
    }),
    ("marks", 16_000, |at| match at {
        1 => (Op { action: Action::MakeText, ..PUT }, None),
        _ => {
            let mark_name = (at % 2 == 0).then_some("b");
            (Op { action: Action::Mark, mark_name, ..insert(at) }, None)
        }
    }),
];

#[test]
fn ops_that_take_no_room_cost_what_ops_may() {
    let _alone = alone();
    for (name, count, op) in KINDS {
        let change = change(count, op);
        let most = 64 * change.raw_bytes().len() as u64 + 128 * u64::from(count) + 512 * (1 << 14);
        let doc = load(name, change.raw_bytes(), SMALL, most).unwrap();
        for deflate in [false, true] {
            let options = SaveOptions { deflate, retain_orphans: true };
            let bytes = doc.to_bytes(options);
            let changes = load(name, &bytes, SMALL, most).unwrap();
            assert_eq!(changes.heads(), doc.heads());
        }
        let bytes = doc.bundle(&doc.heads()).unwrap();
        let (read, used) = heap(|| Bundle::from_bytes(&bytes, &SMALL));
        assert!(used.peak <= allowed(&SMALL, bytes.len()), "{name}: {used:?}");
        assert_eq!(read.unwrap().changes().len(), 1);
        load(name, &bytes, SMALL, u64::MAX).unwrap();
    }
}

#[test]
fn more_of_them_are_refused_at_once() {
    let _alone = alone();
    for (name, count, op) in KINDS {
        let change = change(count * 9, op);
        if change.raw_bytes().len() > 1 << 12 {
            // Its size allows for more.
            continue;
        }
        let most = 1 << 16;
        let what = limit(load(name, change.raw_bytes(), SMALL, most).unwrap_err());
        assert!(["ops", "runs of ops"].contains(&what), "{name}: {what}");
        // The same from a document, a bundle and a peer. What was written is read without limits.
        let options = LoadOptions { limits: Limits::FORMAT, ..LoadOptions::default() };
        let Ok(doc) = Document::load(change.raw_bytes(), ActorId::new(b"r"), &options) else {
            // As deep in each other as no document may be.
            continue;
        };
        let bytes = doc.to_bytes(SaveOptions::default());
        let most = 64 * bytes.len() as u64 + 4 * 128 * u64::from(count) * 9;
        let what = limit(load(name, &bytes, SMALL, most).unwrap_err());
        assert!(["ops", "succs", "runs of ops"].contains(&what), "{name}: {what}");
        let bundle = doc.bundle(&doc.heads()).unwrap();
        let (read, _) = heap(|| Bundle::from_bytes(&bundle, &SMALL));
        let what = limit(read.unwrap_err().into());
        assert!(["ops", "preds", "runs of ops"].contains(&what), "{name}: {what}");
        for chunks in [change.raw_bytes(), &bytes, &bundle] {
            let (result, used) = heap(|| receive(chunks, SMALL));
            limit(result.unwrap_err());
            assert!(used.peak <= allowed(&SMALL, chunks.len()), "{name}: {used:?}");
        }
    }
}

/// Receives a message with these chunks.
fn receive(chunks: &[u8], limits: Limits) -> Result<Document, Error> {
    let message = SyncMessage {
        version: SyncVersion::V1,
        heads: Vec::new(),
        need: Vec::new(),
        have: Vec::new(),
        changes: ChangeData::whole(chunks.to_vec()),
        flags: None,
    };
    let mut doc = Document::new(ActorId::new(b"reader"));
    doc.set_limits(limits);
    doc.receive_sync_message(&mut SyncState::new(), SyncMessage::decode(&message.encode())?)?;
    Ok(doc)
}

/// A few bytes that say 2^32 and more of everything.
#[test]
fn claims_of_four_billion_rows_cost_nothing() {
    let _alone = alone();
    let seed = change(2, |at| (PUT, (at > 1).then(|| id(1))));
    let parts = ChangeParts::read(seed.raw_bytes());
    let doc =
        Document::load(seed.raw_bytes(), ActorId::new(b"r"), &LoadOptions::default()).unwrap();
    let document = DocumentParts::read(&doc.to_bytes(SaveOptions::default()));
    for rows in [1 << 32, u64::from(u32::MAX) - 1, 1 << 40, i64::MAX as u64] {
        let run = |value: &[u8]| {
            let mut out = Vec::new();
            // Signed: one bit more.
            let mut left = rows;
            while left >= 0x40 {
                out.push((left & 0x7f) as u8 | 0x80);
                left >>= 7;
            }
            out.push(left as u8);
            out.extend(value);
            out
        };
        let bools = |rows: u64| {
            let mut out = Vec::new();
            write_uleb(rows, &mut out);
            out
        };
        let ops: [(u64, Vec<u8>); 5] = [
            (21, run(b"\x01a")),
            (52, bools(rows)),
            (66, run(&[1])),
            (86, run(&[0])),
            (112, run(&[0])),
        ];
        let mut parts = parts.clone();
        parts.columns = ops.to_vec();
        let chunk = seal(1, &parts.body());
        let what = limit(load("a change", &chunk, Limits::default(), 1 << 16).unwrap_err());
        assert_eq!(what, "ops");
        limit(receive(&chunk, Limits::default()).unwrap_err());

        let mut with_ops = document.clone();
        for (spec, data) in ops {
            let spec = if spec == 112 { 128 } else { spec };
            put(&mut with_ops.ops, spec, Some(&data));
        }
        for spec in [129, 131] {
            put(&mut with_ops.ops, spec, None);
        }
        put(&mut with_ops.ops, 33, Some(&run(&[0])));
        put(&mut with_ops.ops, 35, Some(&run(&[1])));
        let chunk = with_ops.seal();
        let what = limit(load("ops", &chunk, Limits::default(), 1 << 16).unwrap_err());
        assert_eq!(what, "ops");

        let mut with_changes = document.clone();
        for spec in [1, 3, 19, 35, 64] {
            let value = if spec == 1 || spec == 64 { 0 } else { 1 };
            put(&mut with_changes.changes, spec, Some(&run(&[value])));
        }
        put(&mut with_changes.changes, 86, Some(&run(&[7])));
        let chunk = with_changes.seal();
        let what = limit(load("changes", &chunk, Limits::default(), 1 << 16).unwrap_err());
        assert_eq!(what, "changes");
    }
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder =
        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn bombs_cost_what_may_be_inflated() {
    let _alone = alone();
    let bomb = deflated(&vec![0; 64 << 20]);
    assert!(bomb.len() < 1 << 17);
    let most = 4 * (128 * bomb.len() as u64) + 64 * bomb.len() as u64;
    let chunk = seal(2, &bomb);
    let what = limit(load("a change", &chunk, SMALL, most).unwrap_err());
    assert_eq!(what, "inflated bytes");
    let (result, used) = heap(|| receive(&chunk, SMALL));
    assert_eq!(limit(result.unwrap_err()), "inflated bytes");
    assert!(used.peak <= most, "{used:?}");
    // Many at once, which would be read side by side.
    let what = limit(load("changes", &chunk.repeat(20), SMALL, 20 * most).unwrap_err());
    assert_eq!(what, "inflated bytes");

    let seed = change(2, |at| (PUT, (at > 1).then(|| id(1))));
    let doc =
        Document::load(seed.raw_bytes(), ActorId::new(b"r"), &LoadOptions::default()).unwrap();
    let mut document = DocumentParts::read(&doc.to_bytes(SaveOptions::default()));
    put(&mut document.ops, 87, None);
    put(&mut document.ops, 87 | 8, Some(&bomb));
    let what = limit(load("a document", &document.seal(), SMALL, most).unwrap_err());
    assert_eq!(what, "inflated bytes");
    // In the order of a bundle: dependencies, actors, no change columns, one op column.
    let mut body = vec![0, 1, 1, 1, 0, 1];
    write_uleb(21 | 8, &mut body);
    write_uleb(bomb.len() as u64, &mut body);
    body.extend(&bomb);
    let bundle = seal(3, &body);
    let (read, used) = heap(|| Bundle::from_bytes(&bundle, &SMALL));
    assert_eq!(limit(read.unwrap_err().into()), "inflated bytes");
    assert!(used.peak <= most, "{used:?}");
    let what = limit(load("a bundle", &bundle, SMALL, most).unwrap_err());
    assert_eq!(what, "inflated bytes");
}

/// Chunks that are each within what they may have alone are held to it together.
#[test]
fn many_chunks_share_what_an_input_may_have() {
    let _alone = alone();
    let mut chunks = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    for _ in 1..=8 {
        let change = change_after(&changes, 10_000, |_| (PUT, None));
        load("alone", change.raw_bytes(), SMALL, u64::MAX).map(drop).unwrap_or_else(|error| {
            assert!(matches!(error, Error::MissingDeps { .. }), "{error}");
        });
        chunks.extend_from_slice(change.raw_bytes());
        changes.push(change);
    }
    assert_eq!(limit(load("all", &chunks, SMALL, u64::MAX).unwrap_err()), "runs of ops");
    let (result, used) = heap(|| receive(&chunks, SMALL));
    // What could be read was applied.
    assert_eq!(result.unwrap().op_count(), 10_000);
    assert!(used.peak <= allowed(&SMALL, chunks.len()), "{used:?}");
    let options = LoadOptions { limits: Limits::FORMAT, ..LoadOptions::default() };
    let doc = Document::load(&chunks, ActorId::new(b"r"), &options).unwrap();
    assert_eq!(doc.op_count(), 80_000);
}

/// A long message, said once, that every change repeats when it is made again.
#[test]
fn changes_made_again_cost_what_they_may() {
    let _alone = alone();
    let mut doc = Document::new(ActorId::new(&[1]));
    let message = "m".repeat(10_000);
    for value in 0..1000 {
        let mut tx = doc.transaction();
        tx.put(&ROOT, "a", value).unwrap();
        tx.commit(CommitOptions::default().with_message(&message));
    }
    let bytes = doc.save();
    assert!(bytes.len() < 4096, "{}", bytes.len());
    let most = 2 * (1 << 21) + 64 * bytes.len() as u64 + 1000 * (512 + 256);
    let what = limit(load("a long message", &bytes, SMALL, most).unwrap_err());
    assert_eq!(what, "bytes of rebuilt changes");
    load("a long message", &bytes, Limits::default(), u64::MAX).unwrap();
}

/// Changes without ops, of one author and of many.
#[test]
fn changes_and_authors_cost_what_they_may() {
    let _alone = alone();
    for (actors, count) in [(1, 16_000), (16_000, 16_000)] {
        let mut doc = Document::new(ActorId::new(&[1]));
        for change in 0..count {
            if actors > 1 {
                doc.set_actor(ActorId::new(&u16::to_be_bytes(change)));
            }
            doc.transaction().commit_empty(CommitOptions::default());
        }
        for bytes in [doc.save(), doc.save_after(&[])] {
            let most = 64 * bytes.len() as u64 + 256 * u64::from(count);
            let name = format!("changes of {actors}");
            let loaded = load(&name, &bytes, SMALL, most).unwrap();
            assert_eq!(loaded.heads(), doc.heads());
        }
    }
}

/// The limits by size, halved, and `least` at most for short inputs.
fn halved(least: u64) -> Limits {
    let by_size = BySize::default();
    let half = |allowance: Allowance| Allowance { per_byte: allowance.per_byte / 2, least };
    Limits {
        by_size: Some(BySize {
            ops: half(by_size.ops),
            runs: half(by_size.runs),
            changes: half(by_size.changes),
            decompressed_bytes: half(by_size.decompressed_bytes),
            rebuilt_bytes: half(by_size.rebuilt_bytes),
        }),
        ..Limits::default()
    }
}

#[test]
fn what_people_write_needs_less_than_half() {
    let _alone = alone();
    for path in corpus("automerge/documents") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|extension| extension == "amrgsync") {
            let message = SyncMessage::decode(&bytes).unwrap();
            let mut doc = Document::new(ActorId::new(b"reader"));
            doc.set_limits(halved(1 << 20));
            doc.receive_sync_message(&mut SyncState::new(), message).unwrap();
            assert!(!doc.is_empty());
            continue;
        }
        let doc = load(&name, &bytes, halved(0), 256 * bytes.len() as u64).unwrap();
        let changes = doc.save_after(&[]);
        // A change that deletes much is short.
        load(&name, &changes, halved(1 << 20), u64::MAX).unwrap();
    }
    for name in ["friendsforever_flat", "automerge-paper"] {
        let trace = Trace::load(&format!("sequential/{name}"));
        let mut doc = Document::new(ActorId::new(&[1]));
        let mut tx = doc.transaction();
        let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
        tx.splice_text(&text, 0, 0, &trace.start_content).unwrap();
        tx.commit(CommitOptions::default());
        for txn in &trace.txns {
            let mut tx = doc.transaction();
            for Patch(at, deleted, inserted) in &txn.patches {
                tx.splice_text(&text, *at, *deleted as isize, inserted).unwrap();
            }
            tx.commit(CommitOptions::default());
        }
        load(name, &doc.save(), halved(0), u64::MAX).unwrap();
        load(name, &doc.save_after(&[]), halved(1 << 20), u64::MAX).unwrap();
    }
}

/// A million times the same letter, typed at once, then deleted at once: hardly any bytes.
#[test]
fn a_million_letters_and_their_deletes_are_within_the_defaults() {
    let _alone = alone();
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    let text = tx.put_object(&ROOT, "text", ObjType::Text).unwrap();
    tx.splice_text(&text, 0, 0, &"x".repeat(1_000_000)).unwrap();
    tx.commit(CommitOptions::default());
    let mut written = doc.fork(ActorId::new(&[2]));
    let mut tx = doc.transaction();
    tx.splice_text(&text, 0, 1_000_000, "").unwrap();
    tx.commit(CommitOptions::default());
    for (doc, len) in [(&mut written, 1_000_000), (&mut doc, 0)] {
        let saved = doc.save();
        assert!(saved.len() < 4096, "{}", saved.len());
        for bytes in [saved, doc.save_after(&[])] {
            let loaded = load("letters", &bytes, Limits::default(), 64 << 20).unwrap();
            assert_eq!(loaded.length(&text).unwrap(), len);
            let received = receive(&bytes, Limits::default()).unwrap();
            assert_eq!(received.heads(), doc.heads());
        }
    }
}

//! Uses of a valid chunk, and the properties each use must keep.

use shoal_history::{
    ActorIdx, Bundle, BundleWriter, Change, ChangeGraph, ChangeHeader, ChangeWriter, Chunk,
    DocumentChunk, DocumentWriter, Limits, Verify, chunks,
};

/// Bounds low enough to keep an input at the bounds quick to read.
pub const LIMITS: Limits = Limits {
    max_chunk_bytes: 1 << 20,
    max_actors: 1 << 12,
    max_decompressed_bytes: 1 << 20,
    max_ops: 1 << 16,
    max_runs: 1 << 16,
    max_changes: 1 << 12,
    max_rebuilt_bytes: 1 << 20,
    max_depth: 1 << 12,
    by_size: None,
};

/// Memory allowed for a chunk within [`LIMITS`], all operations included, in bytes.
pub const BUDGET: usize = 64 << 20;

/// Reads, rebuilds and writes `chunk`.
pub fn exercise(chunk: Chunk) {
    match chunk {
        Chunk::Change(change) => self::change(&change),
        Chunk::Document(document) => self::document(&document),
        Chunk::Bundle(bundle) => self::bundle(&bundle),
        _ => {}
    }
}

/// Writes the changes of a bundle as a bundle and compares the changes read back. Changes with
/// deletes in a form no document could hold cannot be bundled and are skipped.
fn bundle(bundle: &Bundle) {
    bundle.changes().iter().for_each(change);
    let Ok(writer) = BundleWriter::new(bundle.changes()) else { return };
    let bytes = writer.finish(|_, elem| u64::from(elem.counter % 7)).expect("that is not 4 GiB");
    let again = Bundle::from_bytes(&bytes, &Limits::FORMAT).expect("a written bundle can be read");
    assert_eq!(again.changes(), bundle.changes());
}

/// Reads a change and writes the change twice: rewriting our own writer's bytes gives the same
/// bytes.
pub fn change(change: &Change) {
    let again = Change::from_bytes(&change.bytes()).expect("a change reads its own bytes");
    assert_eq!(again.hash(), change.hash());
    let _ = format!("{change:?} {:?} {}", change.message(), change.extra_bytes().len());
    let Some(once) = rewritten(change) else { return };
    assert_eq!(once.len(), change.len());
    let twice = rewritten(&once).expect("a written change can be written again");
    assert_eq!(once.hash(), twice.hash());
    let mut graph = ChangeGraph::new();
    if graph.add(change.clone()).is_ok_and(|new| new) {
        assert_eq!(graph.heads(), [change.hash()]);
        assert_eq!(graph.changes_since(&[]).len(), 1);
    }
}

/// The change as our writer writes it; `None` for a change in a form no writer makes.
fn rewritten(change: &Change) -> Option<Change> {
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: change.seq(),
        start_op: change.start_op(),
        time: change.time(),
        message: change.message(),
        deps: change.deps().to_vec(),
        extra_bytes: change.extra_bytes(),
    };
    let mut writer = ChangeWriter::new(header, change.actors());
    let mut ops = change.ops();
    while let Some(op) = ops.next_op() {
        writer.push(&op);
    }
    writer.finish().ok()
}

/// Rebuilds a document's changes, and writes the document from them: the copy must read the same.
fn document(document: &DocumentChunk) {
    let mut ops = document.ops();
    while ops.next_op().is_some() {}
    let verified = document.changes(Verify::Heads);
    let mut later = ChangeGraph::new();
    if later.load(document, Verify::Later).is_ok() {
        assert_eq!(later.heads().len(), document.heads().len());
        assert_eq!(later.verify().is_ok(), verified.is_ok());
        let _ = (later.changes().count(), later.clock(document.heads()));
    }
    let Ok(changes) = document.changes(Verify::Nothing) else {
        assert!(verified.is_err());
        return;
    };
    assert_eq!(changes.len(), document.change_count());
    if verified.is_err() {
        return;
    }
    let mut graph = ChangeGraph::new();
    for change in &changes {
        // A chunk may hold a change not built on its author's previous one; a graph never does.
        if graph.add(change.clone()).is_err() {
            assert!(ChangeGraph::new().load(document, Verify::Heads).is_err());
            return;
        }
    }
    assert_eq!(graph.heads(), document.heads());
    loaded(document, &graph);
    let mut writer = DocumentWriter::new(document.actors()).deflate(false);
    changes.iter().for_each(|change| writer.push_change(change));
    let mut ops = document.ops();
    while let Some(op) = ops.next_op() {
        writer.push_op(&op);
    }
    let Ok(bytes) = writer.finish() else { return };
    let Some(Ok(Chunk::Document(again))) = chunks(&bytes, &Limits::FORMAT).next() else {
        panic!("a written document cannot be read");
    };
    assert_eq!(again.heads(), document.heads());
    let rebuilt = again.changes(Verify::Heads).expect("a written document rebuilds");
    assert_eq!(rebuilt, changes);
}

/// Loading the document must give the graph made by adding its changes one by one.
fn loaded(document: &DocumentChunk, graph: &ChangeGraph) {
    for verify in [Verify::Heads, Verify::Nothing, Verify::Later] {
        let mut loaded = ChangeGraph::new();
        loaded.load(document, verify).expect("the changes fit together");
        assert_eq!(loaded.heads(), graph.heads());
        assert!(loaded.changes().eq(graph.changes()));
        assert_eq!(loaded.max_op(), graph.max_op());
        assert_eq!(loaded.verify(), Ok(()));
    }
}

/// Returns the document chunk in `bytes` with heads recomputed from its changes, so forged ops get
/// past the comparison of heads. `None` for bytes of no such chunk, and for chunks not writable.
pub fn with_right_heads(bytes: &[u8]) -> Option<Vec<u8>> {
    let Some(Ok(Chunk::Document(document))) = chunks(bytes, &LIMITS).next() else { return None };
    let changes = document.changes(Verify::Nothing).ok()?;
    let mut writer = DocumentWriter::new(document.actors()).deflate(false);
    changes.iter().for_each(|change| writer.push_change(change));
    let mut ops = document.ops();
    while let Some(op) = ops.next_op() {
        writer.push_op(&op);
    }
    writer.finish().ok()
}

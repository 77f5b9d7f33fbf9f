//! The real documents: their changes are rebuilt to the byte, and writing them anew gives the same
//! columns.

use std::path::Path;

use shoal_history::{
    ActorIdx, Change, ChangeGraph, ChangeHash, ChangeHeader, ChangeWriter, Chunk, DocumentChunk,
    DocumentWriter, Error, Limits, Verify, chunks,
};

/// The document chunk that a saved document begins with, and the changes in chunks after it.
fn read(bytes: &[u8]) -> (DocumentChunk, Vec<Change>) {
    let mut chunks = chunks(bytes, &Limits::default());
    let Some(Ok(Chunk::Document(document))) = chunks.next() else {
        panic!("the file does not begin with a document chunk")
    };
    let later = chunks.map(|chunk| match chunk.unwrap() {
        Chunk::Change(change) => change,
        other => panic!("not a change: {other:?}"),
    });
    (*document, later.collect())
}

/// Writes the document anew from its ops and the rebuilt changes.
fn rewrite(document: &DocumentChunk, changes: &[Change], deflate: bool) -> Vec<u8> {
    let mut writer = DocumentWriter::new(document.actors()).deflate(deflate);
    for change in changes {
        writer.push_change(change);
    }
    let mut ops = document.ops();
    while let Some(op) = ops.next_op() {
        writer.push_op(&op);
    }
    writer.finish().unwrap()
}

/// Adds changes in an order in which they fit, and returns those that never do.
fn add_all<'a>(graph: &mut ChangeGraph, changes: &'a [Change]) -> Vec<&'a Change> {
    let mut waiting: Vec<&Change> = changes.iter().collect();
    loop {
        let before = waiting.len();
        waiting.retain(|change| match graph.add((*change).clone()) {
            Ok(_) => false,
            Err(Error::MissingDep { .. }) => true,
            Err(error) => panic!("{error}"),
        });
        if waiting.len() == before {
            return waiting;
        }
    }
}

fn check(name: &str) {
    let path = shoal_testkit::testdata("automerge/documents").join(name);
    check_bytes(&std::fs::read(&path).unwrap(), &path);
}

fn check_bytes(bytes: &[u8], path: &Path) {
    let path = path.display();
    let (document, later) = read(bytes);
    let changes = document.changes(Verify::Heads).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(changes.len(), document.change_count());
    for change in &changes {
        assert_eq!(Change::from_bytes(change.raw_bytes()).as_ref(), Ok(change), "{path}");
        assert_eq!(Change::from_bytes(&change.bytes()).as_ref(), Ok(change), "{path}");
        assert!(change.is_canonical(), "{path}");
    }

    let mut graph = ChangeGraph::new();
    for change in &changes {
        assert!(graph.add(change.clone()).unwrap());
    }
    assert_eq!(graph.heads(), document.heads(), "{path}");
    let orphans = add_all(&mut graph, &later);

    let theirs = automerge::Automerge::load(bytes).unwrap();
    let their_changes = theirs.get_changes(&[]);
    assert_eq!(graph.len(), their_changes.len(), "{path}");
    for theirs in &their_changes {
        let change = graph.get(&ChangeHash(theirs.hash().0)).unwrap();
        assert_eq!(change.raw_bytes(), theirs.raw_bytes(), "{path}");
        assert_eq!(change.actor().as_bytes(), theirs.actor_id().to_bytes());
        assert_eq!(u64::from(change.seq()), theirs.seq());
        assert_eq!(u64::from(change.start_op()), theirs.start_op().get());
        assert_eq!(u64::from(change.max_op()), theirs.max_op());
        assert_eq!(change.len(), theirs.len());
        assert_eq!(change.time(), theirs.timestamp());
        assert_eq!(change.message(), theirs.message());
        assert_eq!(change.extra_bytes(), theirs.extra_bytes());
    }

    let their_heads: Vec<_> = theirs.get_heads().iter().map(|hash| hash.0).collect();
    assert_eq!(graph.heads().iter().map(|hash| hash.0).collect::<Vec<_>>(), their_heads);

    let (again, _) = read(&rewrite(&document, &changes, true));
    assert_eq!(again.heads(), document.heads());
    assert_eq!(again.changes(Verify::Heads).unwrap(), changes, "{path}");
    let plain = rewrite(&document, &changes, false);
    assert!(rewrite(&again, &changes, false) == plain, "{path}");
    check_loaded(&document, &changes, &plain);
    // Not compressed, the bytes are those of the reference, which also keeps what waits.
    if later.len() == orphans.len() {
        let waiting: usize = orphans.iter().map(|change| change.raw_bytes().len()).sum();
        let theirs = theirs.save_nocompress();
        assert_eq!(theirs.len(), plain.len() + waiting);
        assert!(theirs.starts_with(&plain), "{path}");
    }
}

/// A graph that the chunk is loaded into has the changes, whenever they are made, writes their rows
/// without them, and takes more.
fn check_loaded(document: &DocumentChunk, changes: &[Change], plain: &[u8]) {
    let mut verified = ChangeGraph::new();
    verified.load(document, Verify::Heads).unwrap();
    let mut graph = ChangeGraph::new();
    graph.load(document, Verify::Later).unwrap();
    assert_eq!((graph.len(), graph.heads()), (changes.len(), document.heads().to_vec()));
    let mut writer = DocumentWriter::new(document.actors()).deflate(false);
    writer.push_graph(&graph);
    let mut ops = document.ops();
    while let Some(op) = ops.next_op() {
        writer.push_op(&op);
    }
    assert!(writer.finish().unwrap() == plain);

    let mut more = graph.clone();
    let (last, max_op) = (changes.last().unwrap(), graph.max_op());
    let header = ChangeHeader {
        actor: ActorIdx(0),
        seq: graph.seq_of(last.actor()) + 1,
        start_op: max_op + 1,
        time: 0,
        message: None,
        deps: graph.heads(),
        extra_bytes: &[],
    };
    let change = ChangeWriter::new(header, &[last.actor().clone()]).finish().unwrap();
    assert_eq!(more.add(change.clone()), Ok(true));
    assert_eq!(more.add(last.clone()), Ok(false));
    assert_eq!(more.heads(), [change.hash()]);
    assert_eq!(more.changes_since(document.heads()), [&change]);
    assert_eq!((more.max_op_of(last.actor()), graph.max_op()), (max_op, max_op));
    assert!(more.contains(&changes[0].hash()) && !graph.contains(&change.hash()));
    for change in changes {
        assert_eq!(verified.max_op_at(&change.hash()), Some(change.max_op()));
    }
    assert!(graph.changes().eq(changes));
    assert_eq!(graph.verify(), Ok(()));
}

#[test]
fn a1() {
    check("A1.am");
}

#[test]
fn c1() {
    check("C1.am");
}

#[test]
fn s1() {
    check("S1.am");
}

#[test]
fn essay() {
    check("essay.amrg");
}

#[test]
fn godot() {
    check("godot-modeled.amrg");
}

#[test]
fn moby_dick() {
    check("moby-dick.automerge");
}

#[test]
fn meeting_notes() {
    check("monday-meeting-notes.automerge");
}

#[test]
fn exemplar() {
    let path = shoal_testkit::testdata("automerge/exemplar");
    check_bytes(&std::fs::read(&path).unwrap(), &path);
}

/// A sync message with all changes of a document, for a peer that has none.
#[test]
fn sync_message() {
    let path = shoal_testkit::testdata("automerge/documents/slowSyncMessage.amrgsync");
    let bytes = std::fs::read(path).unwrap();
    let message = automerge::sync::Message::decode(&bytes).unwrap();
    let mut changes = Vec::new();
    for bytes in message.changes.iter() {
        changes.extend(chunks(bytes, &Limits::default()).map(|chunk| match chunk.unwrap() {
            Chunk::Change(change) => change,
            other => panic!("not a change: {other:?}"),
        }));
    }
    assert!(!changes.is_empty());
    let mut graph = ChangeGraph::new();
    assert!(add_all(&mut graph, &changes).is_empty());
    let mut heads: Vec<_> = message.heads.iter().map(|hash| hash.0).collect();
    heads.sort_unstable();
    assert_eq!(graph.heads().iter().map(|hash| hash.0).collect::<Vec<_>>(), heads);
}

//! The real documents: their changes are rebuilt to the byte, and writing them anew gives the same
//! columns.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use shoal_history::{
    Change, ChangeGraph, Chunk, DocumentChunk, DocumentWriter, Limits, Verify, chunks,
};

/// The one chunk of a file that is a saved document.
fn document(bytes: &[u8]) -> DocumentChunk {
    let mut chunks = chunks(bytes, &Limits::default());
    let Some(Ok(Chunk::Document(document))) = chunks.next() else {
        panic!("the file does not begin with a document chunk")
    };
    assert!(chunks.next().is_none());
    *document
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

fn check(name: &str) {
    let path = shoal_testkit::testdata("automerge/documents").join(name);
    check_bytes(&std::fs::read(&path).unwrap(), &path);
}

fn check_bytes(bytes: &[u8], path: &Path) {
    let path = path.display();
    let document = document(bytes);
    let changes = document.changes(Verify::Heads).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert_eq!(changes.len(), document.change_count());
    for change in &changes {
        assert_eq!(Change::from_bytes(change.raw_bytes()).as_ref(), Ok(change), "{path}");
    }

    let theirs = automerge::Automerge::load(bytes).unwrap();
    let their_changes = theirs.get_changes(&[]);
    assert_eq!(changes.len(), their_changes.len(), "{path}");
    for (change, theirs) in changes.iter().zip(&their_changes) {
        assert_eq!(change.hash().0, theirs.hash().0, "{path}");
        assert_eq!(change.raw_bytes(), theirs.raw_bytes(), "{path}");
    }

    let mut graph = ChangeGraph::new();
    for change in &changes {
        assert!(graph.add(change.clone()).unwrap());
    }
    assert_eq!(graph.heads(), document.heads(), "{path}");

    let again = rewrite(&document, &changes, true);
    let reread = self::document(&again);
    assert_eq!(reread.heads(), document.heads());
    assert_eq!(reread.changes(Verify::Heads).unwrap(), changes, "{path}");
    // Not compressed, the bytes are those of the reference.
    assert_eq!(rewrite(&document, &changes, false), theirs.save_nocompress(), "{path}");
    assert_eq!(rewrite(&reread, &changes, false), rewrite(&document, &changes, false));
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

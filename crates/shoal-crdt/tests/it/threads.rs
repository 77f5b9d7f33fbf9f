//! Documents on many threads: side by side, and one that all of them read.

use rayon::prelude::*;
use shoal_crdt::{ActorId, ChangeHash, Document, LoadOptions, Verify};
use shoal_testkit::corpus;

fn files() -> Vec<Vec<u8>> {
    let paths = corpus("automerge/documents");
    let documents = paths.iter().filter(|path| path.extension().is_none_or(|e| e != "amrgsync"));
    let mut files: Vec<Vec<u8>> = documents.map(|path| std::fs::read(path).unwrap()).collect();
    files.retain(|bytes| bytes.len() < 400_000);
    assert!(files.len() >= 3);
    files
}

fn load(bytes: &[u8], verify: Verify) -> Document {
    let options = LoadOptions { verify, ..LoadOptions::default() };
    Document::load(bytes, ActorId::new(b"reader"), &options).unwrap()
}

/// What a document saves, has as its heads, and has as its changes.
fn all_of(mut doc: Document) -> (Vec<u8>, Vec<ChangeHash>, Vec<ChangeHash>) {
    let changes = doc.changes().map(shoal_crdt::Change::hash).collect();
    (doc.save(), doc.heads(), changes)
}

/// However many threads there are, and whether they are rayon's own, which loading and saving use
/// as well, or others: the same.
#[test]
fn documents_side_by_side_are_as_they_are_alone() {
    let files = files();
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let one: Vec<_> = files.iter().map(|bytes| load(bytes, Verify::Heads)).map(all_of).collect();
    let one_thread: Vec<_> =
        alone.install(|| files.iter().map(|bytes| all_of(load(bytes, Verify::Heads))).collect());
    assert!(one == one_thread);
    let many = [&files[..], &files[..], &files[..]].concat();
    for threads in [2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for verify in [Verify::Heads, Verify::Later] {
            let all: Vec<_> =
                pool.install(|| many.par_iter().map(|bytes| all_of(load(bytes, verify))).collect());
            assert!(all.chunks(one.len()).all(|part| part == one));
        }
    }
    let others: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            many.iter().map(|bytes| scope.spawn(|| all_of(load(bytes, Verify::Heads)))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    assert!(others.chunks(one.len()).all(|part| part == one));
}

/// Hashes and changes are made when somebody asks for them. Many may ask at once.
#[test]
fn one_document_is_asked_by_many() {
    for bytes in files() {
        let (_, heads, changes) = all_of(load(&bytes, Verify::Heads));
        let doc = load(&bytes, Verify::Later);
        std::thread::scope(|scope| {
            for at in 0..8 {
                let (doc, heads, changes) = (&doc, &heads, &changes);
                scope.spawn(move || {
                    let hash = changes[changes.len() * at / 8];
                    assert_eq!(doc.change_by_hash(&hash).unwrap().hash(), hash);
                    assert_eq!(doc.heads(), *heads);
                    assert!(
                        doc.changes().map(shoal_crdt::Change::hash).eq(changes.iter().copied())
                    );
                });
            }
        });
    }
}

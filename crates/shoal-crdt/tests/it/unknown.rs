//! What a later version of the format may write: columns and types of values that nobody knows yet.
//! They are kept where they can be, and refused where they would be lost without a word.

#[path = "../../../shoal-history/tests/parts/mod.rs"]
#[allow(dead_code)]
mod parts;

use self::parts::{ChangeParts, DocumentParts, put, seal};
use automerge::Automerge;
use shoal_crdt::{
    ActorId, Change, CommitOptions, Document, LoadOptions, ROOT, ReadDoc, SaveOptions, Scalar,
    SyncMessage, SyncState,
};

/// A column of numbers, one for each of two rows.
const COLUMN: (u64, &[u8]) = (0x7f2, &[0x7e, 5, 6]);

fn load(bytes: &[u8]) -> Result<Document, shoal_crdt::Error> {
    Document::load(bytes, ActorId::new(b"reader"), &LoadOptions::default())
}

/// A document with two ops, one of them with a value of a type that nobody knows.
fn sample() -> Document {
    let mut doc = Document::new(ActorId::new(&[1]));
    let mut tx = doc.transaction();
    tx.put(&ROOT, "a", Scalar::Unknown { type_code: 12, bytes: [1_u8, 2][..].into() }).unwrap();
    tx.put(&ROOT, "b", 1).unwrap();
    tx.commit(CommitOptions::default());
    doc
}

#[test]
fn unknown_columns_of_a_change_survive_saving_and_syncing() {
    let sample = sample();
    let mut parts = ChangeParts::read(sample.changes().next().unwrap().raw_bytes());
    put(&mut parts.columns, COLUMN.0, Some(COLUMN.1));
    let chunk = seal(1, &parts.body());
    let change = Change::from_bytes(&chunk).unwrap();
    let mut doc = load(&chunk).unwrap();
    assert_eq!(doc.heads(), [change.hash()]);
    // With others after it, which the document chunk could hold.
    let mut tx = doc.transaction();
    tx.put(&ROOT, "c", 2).unwrap();
    tx.commit(CommitOptions::default());
    for bytes in [doc.save(), doc.save_after(&[]), doc.to_bytes(SaveOptions::default())] {
        let again = load(&bytes).unwrap();
        assert_eq!(again.heads(), doc.heads());
        assert_eq!(again.change_by_hash(&change.hash()).unwrap().raw_bytes(), chunk);
        assert!(again.hydrate(&ROOT).unwrap() == doc.hydrate(&ROOT).unwrap());
        // The reference keeps the change as well, as long as nobody asks it to save.
        let theirs = Automerge::load(&bytes).unwrap();
        assert_eq!(theirs.get_heads().len(), 1);
        assert_eq!(theirs.get_heads()[0].0, doc.heads()[0].0);
    }
    let mut peers = [doc.fork(ActorId::new(&[2])), Document::new(ActorId::new(&[3]))];
    let mut states = [SyncState::new(), SyncState::new()];
    for _ in 0..10 {
        for (from, to) in [(0, 1), (1, 0)] {
            if let Some(message) = peers[from].generate_sync_message(&mut states[from]) {
                let message = SyncMessage::decode(&message.encode()).unwrap();
                peers[to].receive_sync_message(&mut states[to], message).unwrap();
            }
        }
    }
    assert_eq!(peers[1].change_by_hash(&change.hash()).unwrap().raw_bytes(), chunk);
}

/// Which of the changes an unknown column of a document chunk belongs to, and how, only its writer
/// knows: deletes have no row. The reference drops such columns; here the file is refused, so that
/// nobody saves over it what is left of it.
#[test]
fn unknown_columns_of_a_document_chunk_are_refused() {
    let parts = DocumentParts::read(&sample().to_bytes(SaveOptions::default()));
    let check = |change: &dyn Fn(&mut DocumentParts), expect: &str| {
        let mut parts = parts.clone();
        change(&mut parts);
        let bytes = parts.seal();
        assert_eq!(load(&bytes).unwrap_err().to_string(), expect);
        let theirs = Automerge::load(&bytes).unwrap();
        let kept = theirs.save();
        assert!(!kept.windows(COLUMN.1.len()).any(|bytes| bytes == COLUMN.1));
    };
    check(
        &|parts| put(&mut parts.ops, COLUMN.0, Some(COLUMN.1)),
        "document chunk: op column table: unknown column: 2034",
    );
    check(
        &|parts| put(&mut parts.changes, COLUMN.0, Some(&[5])),
        "document chunk: change column table: unknown column: 2034",
    );
}

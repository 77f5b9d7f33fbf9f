//! `shoal_crdt::SyncMessage` and `SyncState` from bytes: an accepted message is written back and
//! reads as the same, and a document receiving the message stays sound and answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_crdt::{ActorId, CommitOptions, Document, ROOT, SyncMessage, SyncState};
use shoal_fuzz::{bounded, document, history};

fuzz_target!(|data: &[u8]| {
    if let Ok(state) = SyncState::decode(data) {
        let again = SyncState::decode(&state.encode()).expect("what was encoded can be decoded");
        assert_eq!(again.shared_heads(), state.shared_heads());
    }
    let Ok(message) = SyncMessage::decode(data) else { return };
    let bytes = message.encode();
    let again = SyncMessage::decode(&bytes).expect("what was encoded can be decoded");
    assert_eq!(again.encode(), bytes);
    bounded(history::BUDGET, || {
        let mut doc = Document::new(ActorId::new(&[1]));
        let mut tx = doc.transaction();
        tx.put(&ROOT, "a", 1_i64).expect("the root takes a value");
        tx.commit(CommitOptions::default());
        for mut state in [SyncState::new(), SyncState::new_read_only()] {
            let before = document::digest(&doc);
            if doc.receive_sync_message(&mut state, message.clone()).is_err() {
                assert_eq!(document::digest(&doc), before, "what is refused leaves no trace");
            }
            document::read(&doc);
            // A peer naming unknown changes is told to start anew, however often an answer is asked
            // for.
            for _ in 0..3 {
                let _ = doc.generate_sync_message(&mut state);
            }
        }
    });
});

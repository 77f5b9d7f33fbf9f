//! `shoal_history::chunk::change`: the body of a change, in an envelope that is right, plain and
//! deflated. What is read can be written again, and then its bytes stay the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, chunk};
use shoal_history::{ActorIdx, Change, ChangeHeader, ChangeWriter};

fuzz_target!(|data: &[u8]| {
    bounded(64 << 20, || {
        let plain = Change::from_bytes(&chunk::sealed(chunk::CHANGE, data));
        let deflated = Change::from_bytes(&chunk::sealed(chunk::COMPRESSED_CHANGE, data));
        assert_eq!(plain.is_ok(), deflated.is_ok());
        let Ok(change) = plain else { return };
        assert_eq!(Some(change.hash()), deflated.ok().map(|change| change.hash()));
        let again = Change::from_bytes(&change.bytes()).expect("a change reads its own bytes");
        assert_eq!(again.hash(), change.hash());
        let _ = format!("{change:?} {:?} {}", change.message(), change.extra_bytes().len());
        // Runs make a great many ops of a few bytes, and the writer keeps them all.
        if change.len() > 10_000 {
            return;
        }
        let Some(once) = rewritten(&change) else { return };
        assert_eq!(once.len(), change.len());
        let twice = rewritten(&once).expect("a written change can be written again");
        assert_eq!(once.hash(), twice.hash());
    });
});

/// The change as our writer writes it; `None` when it is one that no writer makes.
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

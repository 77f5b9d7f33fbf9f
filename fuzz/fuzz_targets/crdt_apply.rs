//! `shoal_crdt::Document::apply_changes`: well-formed changes with any ops. A refused change leaves
//! no trace; if none is refused, the order of arrival does not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_crdt::{ActorId, Change, Document};
use shoal_fuzz::changes::Told;
use shoal_fuzz::script::Script;
use shoal_fuzz::{bounded, changes, document};

fuzz_target!(|data: &[u8]| {
    bounded(64 << 20, || {
        let mut script = Script(data);
        let Told { changes, causal } = changes::changes(&mut script);
        let mut doc = empty();
        let mut all_applied = true;
        for change in &changes {
            let before = document::digest(&doc);
            if doc.apply_changes([change.clone()]).is_err() {
                assert_eq!(document::digest(&doc), before, "a refused change leaves no trace");
                all_applied = false;
            }
        }
        document::read(&doc);
        document::read_past(&doc);
        if data.len() % 32 == 0 && doc.queued_changes().is_empty() {
            document::anonymize(&doc);
        }
        if !all_applied || !causal {
            document::edit(&mut doc, &mut script);
            return;
        }
        assert!(doc.queued_changes().is_empty());
        let at_once = applied(changes.iter().cloned());
        assert_eq!(document::digest(&at_once), document::digest(&doc));
        let backwards = applied(changes.iter().rev().cloned());
        assert_eq!(document::digest(&backwards), document::digest(&doc));
        let mut one_by_one = empty();
        for change in changes.into_iter().rev() {
            one_by_one.apply_changes([change]).expect("they were applied in another order");
        }
        assert_eq!(document::digest(&one_by_one), document::digest(&doc));
        document::edit(&mut doc, &mut script);
    });
});

fn empty() -> Document {
    Document::new(ActorId::new(&[1]))
}

fn applied(changes: impl Iterator<Item = Change>) -> Document {
    let mut doc = empty();
    doc.apply_changes(changes).expect("they were applied in another order");
    doc
}

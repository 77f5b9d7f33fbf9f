//! `shoal_crdt::Document::load`: the first byte is a chunk's type, the rest its body; the envelope,
//! and once a document parses its heads, are put right. A loaded document is saved and loads again
//! as the same document, equal to one made from its changes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_crdt::{ActorId, Document, LoadOptions, OnPartial, SaveOptions, Verify};
use shoal_fuzz::script::Script;
use shoal_fuzz::{bounded, chunk, document, history};

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first() else { return };
    let mut bytes = chunk::sealed(kind % 4, body);
    bounded(history::BUDGET, || {
        if let Some(with_heads) = history::with_right_heads(&bytes) {
            bytes = with_heads;
        }
        let options = LoadOptions { limits: history::LIMITS, ..LoadOptions::default() };
        let lenient =
            LoadOptions { on_partial: OnPartial::Ignore, verify: Verify::Nothing, ..options };
        let me = || ActorId::new(&[1]);
        if let Ok(doc) = Document::load(&bytes, me(), &lenient) {
            document::read(&doc);
        }
        let Ok(mut doc) = Document::load(&bytes, me(), &options) else { return };
        document::read(&doc);
        document::read_past(&doc);
        let digest = document::digest(&doc);
        let mut applied = Document::new(me());
        applied.apply_changes(doc.changes().cloned()).expect("a document's changes apply");
        assert_eq!(document::digest(&applied), digest);
        for deflate in [false, true] {
            let saved = doc.to_bytes(SaveOptions { deflate, ..SaveOptions::default() });
            let again = Document::load(&saved, me(), &options).expect("what was saved loads");
            assert_eq!(document::digest(&again), digest);
        }
        document::edit(&mut doc, &mut Script(data));
    });
});

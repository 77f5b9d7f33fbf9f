//! `shoal_crdt::Document::rescue` of any bytes: the rescued document is saved and loads again as
//! the same document.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_crdt::{ActorId, Document, LoadOptions, TextEncoding};
use shoal_fuzz::{bounded, document, history};

fuzz_target!(|data: &[u8]| {
    bounded(2 * history::BUDGET, || {
        let me = || ActorId::new(&[1]);
        let rescue = Document::rescue(data, me(), TextEncoding::default(), &history::LIMITS);
        let mut doc = rescue.document;
        document::read(&doc);
        for loss in &rescue.lost {
            assert!(!loss.to_string().is_empty());
        }
        let saved = doc.save();
        let again = Document::load(&saved, me(), &LoadOptions::default());
        let again = again.expect("what was rescued and saved loads");
        assert_eq!(document::digest(&again), document::digest(&doc));
    });
});

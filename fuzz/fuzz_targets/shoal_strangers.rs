//! `shoal`: statements of a stranger on the tables of documents, and everything asked of Shoal
//! afterwards.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, documents};

fuzz_target!(|text: &str| {
    bounded((256 << 20) + 4096 * text.len(), || documents::strangers(text));
});

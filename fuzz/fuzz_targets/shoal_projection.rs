//! `shoal`: definitions of projections and statements, run on a small file of documents. Every
//! projection has the rows made anew.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, documents};

fuzz_target!(|text: &str| {
    bounded((256 << 20) + 4096 * text.len(), || documents::any_statements(text));
});

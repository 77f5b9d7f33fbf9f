//! `shoal_history::chunk`: the first byte is a chunk's type, the rest its body; the envelope is put
//! right, so every input gets past the checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, chunk, history};
use shoal_history::chunks;

fuzz_target!(|data: &[u8]| {
    let Some((kind, body)) = data.split_first() else { return };
    let bytes = chunk::sealed(kind % 4, body);
    bounded(history::BUDGET, || {
        if let Some(Ok(chunk)) = chunks(&bytes, &history::LIMITS).next() {
            history::exercise(chunk);
        }
    });
});

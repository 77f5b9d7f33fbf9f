//! `shoal_history::chunk::change`: the body of a change in a valid envelope, plain and deflated:
//! both are the same change or the same refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, chunk, history};
use shoal_history::Change;

fuzz_target!(|data: &[u8]| {
    bounded(history::BUDGET, || {
        let plain = Change::from_bytes(&chunk::sealed(chunk::CHANGE, data));
        let deflated = Change::from_bytes(&chunk::sealed(chunk::COMPRESSED_CHANGE, data));
        assert_eq!(plain.is_ok(), deflated.is_ok());
        let (Ok(change), Ok(deflated)) = (plain, deflated) else { return };
        assert_eq!(change.hash(), deflated.hash());
        // Runs make a great many ops of a few bytes, and the writer keeps them all.
        if change.len() < 10_000 {
            history::change(&change);
        }
    });
});

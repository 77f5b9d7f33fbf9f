//! `shoal_history::chunk`: any bytes are a sequence of valid chunks, perhaps with one error at the
//! end. Every operation of a chunk is tried.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, history};
use shoal_history::chunks;

fuzz_target!(|data: &[u8]| {
    bounded(history::BUDGET, || {
        let mut all = chunks(data, &history::LIMITS);
        let mut end = 0;
        while let Some(chunk) = all.next() {
            let Ok(chunk) = chunk else {
                assert!(all.next().is_none(), "there is nothing after an error");
                return;
            };
            assert!(all.offset() > end, "every chunk has a length");
            end = all.offset();
            history::exercise(chunk);
        }
        assert_eq!(end, data.len());
    });
});

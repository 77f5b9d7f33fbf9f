//! `shoal_vault`: any bytes as a sealed file, as its header and pages of keys, and as bytes
//! changed in them: an error or the rows of the owner, without the memory and time that a slot
//! asks for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::{bounded, sealed};

fuzz_target!(|data: &[u8]| {
    bounded((4 << 20) + 16 * data.len(), || sealed::open(data));
});

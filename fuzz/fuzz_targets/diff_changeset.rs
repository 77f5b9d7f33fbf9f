//! `shoal_diff`: a changeset or patchset, read, converted, and applied to a small database.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| shoal_fuzz::changeset::check(data));

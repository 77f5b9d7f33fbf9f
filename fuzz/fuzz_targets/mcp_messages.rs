//! `shoal_mcp`: lines of any bytes to a server over a small database, that shows everything or the
//! grants of a principal: every request is answered, and nothing hidden is told.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::messages;

fuzz_target!(|data: &[u8]| messages::send(data));

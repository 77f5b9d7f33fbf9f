//! `shoal_sync::Frame` from bytes, every message of the protocol: an accepted frame is written back
//! and reads as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_fuzz::bounded;
use shoal_sync::{DocumentId, Frame, Glob, Limits, Message};

/// A frame holds its data once, and its ids.
const BUDGET: usize = 4 << 20;

fuzz_target!(|data: &[u8]| {
    let limits = Limits::default();
    bounded(BUDGET + data.len() * 4, || {
        if let Ok(frame) = Frame::decode(data, &limits) {
            let is_rest = matches!(
                frame.message,
                Message::Gossip | Message::Join { speaks_version_1: false, .. }
            );
            // Gossip is not looked at; this end writes its own version.
            if !is_rest {
                let again = Frame::decode(&frame.encode(), &limits);
                assert_eq!(again, Ok(frame), "what was written reads as the same");
            }
        }
        let Ok(text) = std::str::from_utf8(data) else { return };
        if let Ok(id) = DocumentId::parse(text) {
            assert_eq!(DocumentId::parse(id.as_str()), Ok(id.clone()));
            if let Some(glob) = Glob::parse(id.as_str()) {
                assert!(glob.matches(&id), "an id is a pattern of itself");
            }
        }
    });
});

//! `shoal_crdt::Cursor` and `shoal_crdt::ObjId` from bytes and from text: an accepted value is
//! written in the form read, except for cursors of the old version and the hint of an id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shoal_crdt::{Cursor, ObjId};

fuzz_target!(|data: &[u8]| {
    if let Ok(cursor) = Cursor::from_bytes(data) {
        let bytes = cursor.to_bytes();
        assert!(data[0] == 0 || bytes == data);
        assert_eq!(Cursor::from_bytes(&bytes), Ok(cursor.clone()));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
    }
    if let Ok(id) = ObjId::from_bytes(data) {
        assert_eq!(ObjId::from_bytes(&id.to_bytes()), Ok(id.clone()));
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(Cursor::from_bytes(&cursor.to_bytes()), Ok(cursor));
    }
    if let Ok(id) = text.parse::<ObjId>() {
        assert_eq!(ObjId::from_bytes(&id.to_bytes()), Ok(id));
    }
});

//! Op rows waiting to be put in another order.

use crate::chunk::columns::{KEY_STRING, MARK_NAME, OpColumns, VALUE};
use crate::chunk::op_rows::Body;
use crate::column::value::RawValue;
use crate::{Action, ActorIdx, Key, ObjId, OpId};

/// A [`Body`] in half the room: places in the columns instead of contents.
pub(super) struct PackedBody {
    /// With the counter 0 for the root.
    obj: OpId,
    key: PackedKey,
    value: Place,
    value_type: u8,
    action: Action,
    insert: bool,
    expand: bool,
    mark_name: Option<Place>,
}

enum PackedKey {
    Map(Place),
    Head,
    Elem(OpId),
}

/// The place of bytes in a column below 4 GiB.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    len: u32,
}

impl Place {
    fn of(bytes: &[u8], column: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self { start: 0, len: 0 };
        }
        let offset = |at: usize| u32::try_from(at).expect("a column is smaller than 4 GiB");
        let start = bytes.as_ptr().addr() - column.as_ptr().addr();
        Self { start: offset(start), len: offset(bytes.len()) }
    }

    fn bytes(self, column: &[u8]) -> &[u8] {
        &column[self.start as usize..self.start as usize + self.len as usize]
    }

    fn text(self, column: &[u8]) -> &str {
        std::str::from_utf8(self.bytes(column)).expect("the text was read when the row was")
    }
}

impl PackedBody {
    pub(super) fn of(body: &Body<'_>, columns: &OpColumns<'_>) -> Self {
        let place = |bytes, column: usize| Place::of(bytes, columns[column]);
        Self {
            obj: match body.obj {
                ObjId::Root => OpId { counter: 0, actor: ActorIdx(0) },
                ObjId::Op(id) => id,
            },
            key: match body.key {
                Key::Map(key) => PackedKey::Map(place(key.as_bytes(), KEY_STRING)),
                Key::Head => PackedKey::Head,
                Key::Elem(id) => PackedKey::Elem(id),
            },
            value: place(body.value.payload, VALUE),
            value_type: body.value.type_code,
            action: body.action,
            insert: body.insert,
            expand: body.expand,
            mark_name: body.mark_name.map(|name| place(name.as_bytes(), MARK_NAME)),
        }
    }

    /// The body given to [`PackedBody::of`].
    pub(super) fn unpack<'a>(&self, columns: &OpColumns<'a>) -> Body<'a> {
        Body {
            obj: match self.obj {
                OpId { counter: 0, .. } => ObjId::Root,
                id => ObjId::Op(id),
            },
            key: match self.key {
                PackedKey::Map(place) => Key::Map(place.text(columns[KEY_STRING])),
                PackedKey::Head => Key::Head,
                PackedKey::Elem(id) => Key::Elem(id),
            },
            insert: self.insert,
            action: self.action,
            value: RawValue {
                type_code: self.value_type,
                payload: self.value.bytes(columns[VALUE]),
            },
            expand: self.expand,
            mark_name: self.mark_name.map(|place| place.text(columns[MARK_NAME])),
        }
    }
}

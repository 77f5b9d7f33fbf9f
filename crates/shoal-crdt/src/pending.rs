//! An op that owns its parts: what a transaction keeps until it is committed or rolled back, and
//! what taking back a refused change needs.

use std::sync::Arc;

use shoal_history::{Action, Key, ObjId as StoredObjId, Op, OpId, Scalar, ScalarRef};

use crate::register::Succ;

/// One op.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) id: OpId,
    pub(crate) obj: StoredObjId,
    pub(crate) key: PendingKey,
    pub(crate) insert: bool,
    pub(crate) action: Action,
    pub(crate) value: PendingValue,
    pub(crate) preds: Succ,
    pub(crate) mark: Option<Box<PendingMark>>,
}

#[derive(Clone, Debug)]
pub(crate) enum PendingKey {
    Map(Arc<str>),
    Head,
    Elem(OpId),
}

/// A scalar; characters, of which there are many, without an allocation.
#[derive(Clone, Debug)]
pub(crate) enum PendingValue {
    Char { utf8: [u8; 4], length: u8 },
    Scalar(Scalar),
}

#[derive(Clone, Debug)]
pub(crate) struct PendingMark {
    pub(crate) expand: bool,
    pub(crate) name: Option<Arc<str>>,
}

impl PendingValue {
    /// The one character that `text` holds.
    pub(crate) fn character(text: &str) -> Self {
        let mut utf8 = [0; 4];
        utf8[..text.len()].copy_from_slice(text.as_bytes());
        Self::Char { utf8, length: text.len() as u8 }
    }

    fn as_ref(&self) -> ScalarRef<'_> {
        match self {
            Self::Char { utf8, length } => ScalarRef::Str(
                std::str::from_utf8(&utf8[..usize::from(*length)])
                    .expect("a character is kept in the UTF-8 it was made of"),
            ),
            Self::Scalar(value) => value.as_ref(),
        }
    }
}

impl Pending {
    /// The op with bytes of its own.
    pub(crate) fn from_op(op: &Op<'_>) -> Self {
        let is_mark = op.expand || op.mark_name.is_some();
        Self {
            id: op.id,
            obj: op.obj,
            key: match op.key {
                Key::Map(key) => PendingKey::Map(key.into()),
                Key::Head => PendingKey::Head,
                Key::Elem(id) => PendingKey::Elem(id),
            },
            insert: op.insert,
            action: op.action,
            value: PendingValue::Scalar(op.value.to_scalar()),
            preds: Succ::from_slice(op.links),
            mark: is_mark.then(|| {
                Box::new(PendingMark { expand: op.expand, name: op.mark_name.map(Arc::from) })
            }),
        }
    }

    /// The op, borrowed.
    pub(crate) fn as_op(&self) -> Op<'_> {
        Op {
            id: self.id,
            obj: self.obj,
            key: match &self.key {
                PendingKey::Map(key) => Key::Map(key),
                PendingKey::Head => Key::Head,
                PendingKey::Elem(id) => Key::Elem(*id),
            },
            insert: self.insert,
            action: self.action,
            value: self.value.as_ref(),
            expand: self.mark.as_ref().is_some_and(|mark| mark.expand),
            mark_name: self.mark.as_ref().and_then(|mark| mark.name.as_deref()),
            links: self.preds.as_slice(),
        }
    }
}

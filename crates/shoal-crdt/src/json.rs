//! A document as JSON: keys sorted, counters and timestamps as integers, bytes as arrays of
//! numbers, texts as strings. The shape is the one of the reference's own export.

use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use shoal_history::ScalarRef;

use crate::document::Document;
use crate::opset::Data;
use crate::register::{ObjIdx, OpRef};
use crate::value::ObjType;

/// How deeply objects may be nested unless [`DocumentJson::max_depth`] says otherwise.
pub const DEFAULT_MAX_DEPTH: usize = 500;

/// Serializes the current state of a document.
///
/// Serializing fails for objects nested more deeply than allowed: serializing recurses, and a
/// document from a stranger must not exhaust the stack.
#[derive(Clone, Copy, Debug)]
pub struct DocumentJson<'a> {
    doc: &'a Document,
    object: ObjIdx,
    max_depth: usize,
}

impl<'a> DocumentJson<'a> {
    /// The whole document.
    pub fn new(doc: &'a Document) -> Self {
        Self { doc, object: ObjIdx::ROOT, max_depth: DEFAULT_MAX_DEPTH }
    }

    /// One object of a document.
    ///
    /// # Errors
    /// [`crate::Error::UnknownObject`].
    pub fn of_object(doc: &'a Document, obj: &crate::ObjId) -> Result<Self, crate::Error> {
        Ok(Self { object: doc.resolve(obj)?, ..Self::new(doc) })
    }

    /// With another limit on how deeply objects are nested.
    #[must_use]
    pub fn max_depth(mut self, max_depth: usize) -> Self {
        self.max_depth = max_depth;
        self
    }
}

impl Document {
    /// The document in a form with a JSON serialization.
    pub fn to_json(&self) -> DocumentJson<'_> {
        DocumentJson::new(self)
    }
}

impl Serialize for DocumentJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(left) = self.max_depth.checked_sub(1) else {
            return Err(S::Error::custom("objects are nested more deeply than allowed"));
        };
        let nested = Self { max_depth: left, ..*self };
        let object = self.doc.ops.object(self.object);
        match self.doc.ops.data_of(object) {
            Data::Map(map) => {
                let mut entries = serializer.serialize_map(Some(map.visible))?;
                for (key, register) in map.sorted(&self.doc.ops.names) {
                    if let Some(winner) = register.winner() {
                        entries.serialize_entry(key, &Item { nested, winner })?;
                    }
                }
                entries.end()
            }
            Data::Sequence(sequence) if object.kind == ObjType::Text => {
                let mut text = String::new();
                sequence.push_text(&mut text);
                serializer.serialize_str(&text)
            }
            Data::Sequence(sequence) => {
                let mut items =
                    serializer.serialize_seq(usize::try_from(sequence.length()).ok())?;
                for item in sequence.items_from(0) {
                    items.serialize_element(&Item { nested, winner: item.winner })?;
                }
                items.end()
            }
        }
    }
}

/// One value; `nested` says how to go on into an object.
struct Item<'a> {
    nested: DocumentJson<'a>,
    winner: OpRef<'a>,
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.winner.object != ObjIdx::NONE {
            let object = self.winner.object;
            return DocumentJson { object, ..self.nested }.serialize(serializer);
        }
        serialize_scalar(self.winner.value, serializer)
    }
}

/// A scalar as JSON: counters and timestamps as integers, bytes as arrays of numbers.
pub(crate) fn serialize_scalar<S: Serializer>(
    value: ScalarRef<'_>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        ScalarRef::Null => serializer.serialize_unit(),
        ScalarRef::Boolean(value) => serializer.serialize_bool(value),
        ScalarRef::Uint(value) => serializer.serialize_u64(value),
        ScalarRef::Int(value) | ScalarRef::Counter(value) | ScalarRef::Timestamp(value) => {
            serializer.serialize_i64(value)
        }
        ScalarRef::F64(value) => serializer.serialize_f64(value),
        ScalarRef::Str(value) => serializer.serialize_str(value),
        ScalarRef::Bytes(bytes) => serializer.collect_seq(bytes),
        ScalarRef::Unknown { type_code, bytes } => {
            let mut entries = serializer.serialize_map(Some(2))?;
            entries.serialize_entry("type_code", &type_code)?;
            entries.serialize_entry("bytes", bytes)?;
            entries.end()
        }
    }
}

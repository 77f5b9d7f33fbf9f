//! Values of documents as values of SQL, and places in documents as JSON Pointers.

use serde_json::Value as Json;
use shoal_crdt::{ObjId, ObjType, PatchProp, PatchScalar, PatchValue, ReadDoc, Value};
use shoal_history::{Scalar, ScalarRef};
use shoal_sql::Value as SqlValue;

use crate::Error;

/// The word for the type of a value.
pub(super) fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Object(ObjType::Map) => "map",
        Value::Object(ObjType::Table) => "table",
        Value::Object(ObjType::List) => "list",
        Value::Object(ObjType::Text) => "text",
        Value::Scalar(scalar) => match scalar {
            ScalarRef::Null => "null",
            ScalarRef::Boolean(_) => "boolean",
            ScalarRef::Uint(_) => "uint",
            ScalarRef::Int(_) => "int",
            ScalarRef::F64(_) => "real",
            ScalarRef::Str(_) => "string",
            ScalarRef::Bytes(_) => "bytes",
            ScalarRef::Counter(_) => "counter",
            ScalarRef::Timestamp(_) => "timestamp",
            _ => "unknown",
        },
    }
}

/// A scalar as SQL has it: truth values as 0 and 1, numbers beyond 64 bits with a sign as reals.
pub(super) fn scalar(scalar: ScalarRef<'_>) -> SqlValue {
    match scalar {
        ScalarRef::Boolean(truth) => SqlValue::Int(i64::from(truth)),
        ScalarRef::Uint(number) => {
            i64::try_from(number).map_or(SqlValue::Real(number as f64), SqlValue::Int)
        }
        ScalarRef::Int(number) | ScalarRef::Counter(number) | ScalarRef::Timestamp(number) => {
            SqlValue::Int(number)
        }
        ScalarRef::F64(number) if !number.is_nan() => SqlValue::Real(number),
        ScalarRef::Str(text) => SqlValue::text(text),
        ScalarRef::Bytes(bytes) => SqlValue::Blob(bytes.into()),
        _ => SqlValue::Null,
    }
}

/// A value: a scalar as it is, a text as text, other objects as JSON.
pub(super) fn shown(
    document: &impl ReadDoc,
    value: Value<'_>,
    id: &ObjId,
) -> Result<SqlValue, Error> {
    match value {
        Value::Scalar(found) => Ok(scalar(found)),
        Value::Object(ObjType::Text) => Ok(SqlValue::text(document.text(id)?)),
        Value::Object(_) => json(document, id),
    }
}

/// An object as JSON; NULL for one nested too deeply.
pub(super) fn json(document: &impl ReadDoc, id: &ObjId) -> Result<SqlValue, Error> {
    match document.hydrate(id) {
        Ok(value) => Ok(serde_json::to_string(&value).map_or(SqlValue::Null, SqlValue::text)),
        Err(shoal_crdt::Error::TooDeep { .. }) => Ok(SqlValue::Null),
        Err(error) => Err(error.into()),
    }
}

/// A scalar of a patch or a mark as JSON.
pub(super) fn scalar_json(scalar: &Scalar) -> Json {
    serde_json::to_value(shoal_crdt::hydrate::Value::Scalar(scalar.clone())).unwrap_or(Json::Null)
}

/// The value brought by a patch, as JSON; objects come empty.
pub(super) fn brought(value: &PatchValue) -> Json {
    match &value.value {
        PatchScalar::Object(ObjType::Map | ObjType::Table) => Json::Object(serde_json::Map::new()),
        PatchScalar::Object(ObjType::List) => Json::Array(Vec::new()),
        PatchScalar::Object(ObjType::Text) => Json::String(String::new()),
        PatchScalar::Scalar(scalar) => scalar_json(scalar),
    }
}

/// Adds a step to a JSON Pointer.
pub(super) fn push(pointer: &mut String, prop: &PatchProp) {
    pointer.push('/');
    match prop {
        PatchProp::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
        PatchProp::Index(index) => pointer.push_str(&index.to_string()),
    }
}

/// A number of things as SQL counts.
pub(super) fn count(number: usize) -> SqlValue {
    SqlValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

//! The rows of a projection, from the objects of a document.

use shoal_crdt::{Document, DocumentJson, ListItem, MapEntry, ObjId, ObjType, ROOT, Value};
use shoal_history::ScalarRef;
use shoal_sql::Value as SqlValue;

use super::define::{Column, Definition, Each, Kind, Literal, RowPath};
use crate::Error;

/// A row of a projection: the key within its document, and the values of the columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    pub(crate) values: Vec<SqlValue>,
}

/// The key of a row made by an op: the counter of the op, then the actor. New rows come last.
pub(crate) fn key_of(id: &ObjId) -> Vec<u8> {
    let mut key = u64::from(id.counter()).to_be_bytes().to_vec();
    key.extend(id.actor().map(|actor| actor.as_bytes()).unwrap_or_default());
    key
}

/// The object with the rows; `None` where the path leads to none, or to one of another type.
pub(crate) fn container(document: &Document, path: &RowPath) -> Result<Option<ObjId>, Error> {
    let mut at = (ROOT, ObjType::Map);
    for key in &path.keys {
        if !is_map(at.1) {
            return Ok(None);
        }
        match document.get(&at.0, key.as_str())? {
            Some((Value::Object(kind), id)) => at = (id, kind),
            _ => return Ok(None),
        }
    }
    let fits = match path.each {
        Each::Item => at.1 == ObjType::List,
        Each::Itself | Each::Entry => is_map(at.1),
    };
    Ok(fits.then_some(at.0))
}

fn is_map(kind: ObjType) -> bool {
    matches!(kind, ObjType::Map | ObjType::Table)
}

/// Gives the keys of a document's rows, each with the value of the row.
pub(crate) fn each_key<'d>(
    document: &'d Document,
    definition: &Definition,
    mut each: impl FnMut(Vec<u8>, Value<'d>, &ObjId) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(object) = container(document, &definition.rows)? else { return Ok(()) };
    match definition.rows.each {
        Each::Itself => each(Vec::new(), Value::Object(ObjType::Map), &object),
        Each::Item => {
            let items = document.items(&object, 0)?;
            for ListItem { value, id, .. } in items {
                each(key_of(&id), value, &id)?;
            }
            Ok(())
        }
        Each::Entry => {
            for MapEntry { key, value, id, .. } in document.entries(&object)? {
                each(key.as_bytes().to_vec(), value, &id)?;
            }
            Ok(())
        }
    }
}

/// The values of a row's columns.
pub(crate) fn values<'d>(
    document: &'d Document,
    definition: &Definition,
    value: Value<'d>,
    id: &ObjId,
) -> Result<Vec<SqlValue>, Error> {
    let columns = definition.columns.iter();
    columns.map(|column| column_value(document, column, value, id)).collect()
}

fn column_value<'d>(
    document: &'d Document,
    column: &Column,
    mut value: Value<'d>,
    id: &ObjId,
) -> Result<SqlValue, Error> {
    let mut owner = id.clone();
    for key in &column.path {
        let found = match value {
            Value::Object(kind) if is_map(kind) => document.get(&owner, key.as_str())?,
            _ => None,
        };
        match found {
            Some((inner, id)) => (value, owner) = (inner, id),
            None => return Ok(literal(column.on_empty.as_ref())),
        }
    }
    converted(document, column.kind, value, &owner)
}

/// A literal of the definition; NULL for none.
fn literal(literal: Option<&Literal>) -> SqlValue {
    match literal {
        None | Some(Literal::Null) => SqlValue::Null,
        Some(Literal::Integer(value)) => SqlValue::Int(*value),
        Some(Literal::Real(value)) => SqlValue::Real(*value),
        Some(Literal::Text(text)) => SqlValue::text(text.as_str()),
    }
}

/// A value of the document as a value of SQL; NULL where the type does not fit.
fn converted(
    document: &Document,
    kind: Kind,
    value: Value<'_>,
    id: &ObjId,
) -> Result<SqlValue, Error> {
    let scalar = match value {
        _ if kind == Kind::Json => return json(document, value, id),
        Value::Object(ObjType::Text) if matches!(kind, Kind::Text | Kind::String) => {
            return Ok(SqlValue::text(document.text(id)?));
        }
        Value::Object(_) => return Ok(SqlValue::Null),
        Value::Scalar(scalar) => scalar,
    };
    Ok(match (kind, scalar) {
        (Kind::Text | Kind::String, ScalarRef::Str(text)) => SqlValue::text(text),
        (Kind::Text | Kind::String, ScalarRef::Int(number)) => SqlValue::text(number.to_string()),
        (Kind::Text | Kind::String, ScalarRef::Uint(number)) => SqlValue::text(number.to_string()),
        (Kind::Integer | Kind::Counter | Kind::Timestamp, _) => integer(scalar),
        (Kind::Real, ScalarRef::F64(number)) => SqlValue::Real(number),
        (Kind::Real, ScalarRef::Int(number)) => SqlValue::Real(number as f64),
        (Kind::Real, ScalarRef::Uint(number)) => SqlValue::Real(number as f64),
        (Kind::Boolean, ScalarRef::Boolean(truth)) => SqlValue::Int(i64::from(truth)),
        (Kind::Bytes, ScalarRef::Bytes(bytes)) => SqlValue::Blob(bytes.into()),
        _ => SqlValue::Null,
    })
}

fn integer(scalar: ScalarRef<'_>) -> SqlValue {
    match scalar {
        ScalarRef::Int(number) | ScalarRef::Counter(number) | ScalarRef::Timestamp(number) => {
            SqlValue::Int(number)
        }
        ScalarRef::Uint(number) => i64::try_from(number).map_or(SqlValue::Null, SqlValue::Int),
        // 2^63 is the first real beyond the integers.
        ScalarRef::F64(number)
            if number.fract() == 0.0 && number.abs() < 9.223_372_036_854_775e18 =>
        {
            SqlValue::Int(number as i64)
        }
        _ => SqlValue::Null,
    }
}

/// A value as JSON; NULL for null.
fn json(document: &Document, value: Value<'_>, id: &ObjId) -> Result<SqlValue, Error> {
    let text = match value {
        Value::Object(_) => serde_json::to_string(&DocumentJson::of_object(document, id)?),
        Value::Scalar(scalar) => match scalar {
            ScalarRef::Null => return Ok(SqlValue::Null),
            ScalarRef::Boolean(truth) => serde_json::to_string(&truth),
            ScalarRef::Uint(number) => serde_json::to_string(&number),
            ScalarRef::Int(number) | ScalarRef::Counter(number) | ScalarRef::Timestamp(number) => {
                serde_json::to_string(&number)
            }
            ScalarRef::F64(number) => serde_json::to_string(&number),
            ScalarRef::Str(text) => serde_json::to_string(text),
            ScalarRef::Bytes(bytes) => serde_json::to_string(bytes),
            _ => return Ok(SqlValue::Null),
        },
    };
    // JSON nested deeper than the limit is no value of a column.
    Ok(text.map_or(SqlValue::Null, SqlValue::text))
}

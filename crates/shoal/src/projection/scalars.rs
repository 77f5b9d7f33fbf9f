//! Values of SQL as values of documents: the ops behind a new value of a column.

use serde_json::Value as Json;
use shoal_crdt::{AutoCommit, ObjId, ObjType, PatchProp, Prop, Scalar, Transactable, Value};
use shoal_history::ScalarRef;
use shoal_sql::{Value as SqlValue, ValueRef};

use super::define::{Column, Kind};
use crate::Error;

/// A value of a document, apart from the document.
#[derive(Clone, Debug)]
pub(super) enum Present {
    Nothing,
    Object(ObjType, ObjId),
    Scalar(Scalar),
}

impl Present {
    /// The winner at a place.
    pub(super) fn at(
        document: &AutoCommit,
        owner: &ObjId,
        prop: &PatchProp,
    ) -> Result<Present, Error> {
        let found = document.with_pending().get(owner, as_prop(prop))?;
        Ok(match found {
            None => Present::Nothing,
            Some((Value::Object(kind), id)) => Present::Object(kind, id),
            Some((Value::Scalar(scalar), _)) => Present::Scalar(scalar.to_scalar()),
        })
    }
}

pub(super) fn as_prop(prop: &PatchProp) -> Prop<'_> {
    match prop {
        PatchProp::Key(key) => Prop::Key(key),
        PatchProp::Index(index) => Prop::Index(*index),
    }
}

/// Changes the value at a place so that the column shows `new` (never NULL) in the place of
/// `old`.
///
/// # Errors
/// [`Error::Refused`] for a value out of the column's type.
pub(super) fn put(
    document: &mut AutoCommit,
    column: &Column,
    (owner, prop): (&ObjId, &PatchProp),
    (old, new): (&SqlValue, &SqlValue),
) -> Result<(), Error> {
    let present = Present::at(document, owner, prop)?;
    let refused = |takes: &str| Error::Refused { why: format!("{} takes {takes}", column.name) };
    let text = || match new.as_ref() {
        ValueRef::Text(text) => std::str::from_utf8(text).map_err(|_| refused("text in UTF-8")),
        _ => Err(refused("text")),
    };
    let scalar = match column.kind {
        Kind::Text | Kind::String => {
            let text = text()?;
            match (&present, column.kind) {
                (Present::Object(ObjType::Text, id), _) => {
                    document.update_text(id, text)?;
                    return Ok(());
                }
                (Present::Nothing | Present::Object(..), Kind::Text) => {
                    let id = document.put_object(owner, as_prop(prop), ObjType::Text)?;
                    document.splice_text(&id, 0, 0, text)?;
                    return Ok(());
                }
                _ => Scalar::Str(text.into()),
            }
        }
        Kind::Json => {
            let json: Json = serde_json::from_str(text()?)
                .map_err(|error| refused(&format!("JSON: {error}")))?;
            return update_json(document, (owner, prop), &json);
        }
        Kind::Bytes => match new.as_ref() {
            ValueRef::Blob(bytes) => Scalar::Bytes(bytes.into()),
            _ => return Err(refused("a blob")),
        },
        Kind::Boolean => match new {
            SqlValue::Int(0) => Scalar::Boolean(false),
            SqlValue::Int(1) => Scalar::Boolean(true),
            _ => return Err(refused("0 or 1")),
        },
        Kind::Counter => {
            let SqlValue::Int(new) = new else { return Err(refused("integers")) };
            match (&present, old) {
                (Present::Scalar(Scalar::Counter(_)), SqlValue::Int(old)) => {
                    let by = new.checked_sub(*old).ok_or_else(|| refused("smaller steps"))?;
                    document.increment(owner, as_prop(prop), by)?;
                    return Ok(());
                }
                _ => Scalar::Counter(*new),
            }
        }
        Kind::Integer | Kind::Timestamp => {
            let SqlValue::Int(new) = new else { return Err(refused("integers")) };
            match (&present, old) {
                (Present::Scalar(Scalar::Counter(_)), SqlValue::Int(old)) => {
                    let by = new.checked_sub(*old).ok_or_else(|| refused("smaller steps"))?;
                    document.increment(owner, as_prop(prop), by)?;
                    return Ok(());
                }
                (Present::Scalar(known), _) => {
                    number(known, *new).unwrap_or_else(|| fresh_integer(column.kind, *new))
                }
                _ => fresh_integer(column.kind, *new),
            }
        }
        Kind::Real => {
            let real = match new {
                SqlValue::Real(real) => *real,
                SqlValue::Int(integer) => *integer as f64,
                _ => return Err(refused("numbers")),
            };
            match &present {
                // A number in its place would end the increments of everybody.
                Present::Scalar(Scalar::Counter(_)) => {
                    return Err(refused("no number where a counter is: INTEGER and COUNTER do"));
                }
                Present::Scalar(Scalar::Int(_) | Scalar::Uint(_)) if is_whole(real) => {
                    Scalar::Int(real as i64)
                }
                _ => Scalar::F64(real),
            }
        }
        Kind::Position => return Err(refused("no value: rows do not move")),
    };
    Ok(document.put(owner, as_prop(prop), scalar)?)
}

/// A value to be inserted.
pub(super) enum Fresh {
    Scalar(Scalar),
    Json(Json),
}

/// The value behind `new` in a column, where nothing was before.
///
/// # Errors
/// As [`put`].
pub(super) fn fresh(column: &Column, new: &SqlValue) -> Result<Fresh, Error> {
    let refused = |takes: &str| Error::Refused { why: format!("{} takes {takes}", column.name) };
    Ok(Fresh::Scalar(match (column.kind, new.as_ref()) {
        (Kind::Text | Kind::String | Kind::Json, ValueRef::Text(text)) => {
            let text = std::str::from_utf8(text).map_err(|_| refused("text in UTF-8"))?;
            if column.kind == Kind::Json {
                let json = serde_json::from_str(text);
                return Ok(Fresh::Json(json.map_err(|error| refused(&format!("JSON: {error}")))?));
            }
            Scalar::Str(text.into())
        }
        (Kind::Text | Kind::String | Kind::Json, _) => return Err(refused("text")),
        (Kind::Bytes, ValueRef::Blob(bytes)) => Scalar::Bytes(bytes.into()),
        (Kind::Bytes, _) => return Err(refused("a blob")),
        (Kind::Boolean, ValueRef::Int(truth @ (0 | 1))) => Scalar::Boolean(truth == 1),
        (Kind::Boolean, _) => return Err(refused("0 or 1")),
        (Kind::Counter, ValueRef::Int(number)) => Scalar::Counter(number),
        (Kind::Integer | Kind::Timestamp, ValueRef::Int(number)) => {
            fresh_integer(column.kind, number)
        }
        (Kind::Integer | Kind::Timestamp | Kind::Counter, _) => return Err(refused("integers")),
        (Kind::Real, ValueRef::Real(real)) => Scalar::F64(real),
        (Kind::Real, ValueRef::Int(integer)) => Scalar::F64(integer as f64),
        (Kind::Real, _) => return Err(refused("numbers")),
        (Kind::Position, _) => return Err(refused("no value: rows do not move")),
    }))
}

fn fresh_integer(kind: Kind, value: i64) -> Scalar {
    match kind {
        Kind::Timestamp => Scalar::Timestamp(value),
        _ => Scalar::Int(value),
    }
}

/// An integer in the type of a known scalar; `None` where the type holds no such number.
fn number(known: &Scalar, value: i64) -> Option<Scalar> {
    match known {
        Scalar::Int(_) => Some(Scalar::Int(value)),
        Scalar::Uint(_) => u64::try_from(value).ok().map(Scalar::Uint),
        Scalar::Timestamp(_) => Some(Scalar::Timestamp(value)),
        Scalar::Boolean(_) if value == 0 || value == 1 => Some(Scalar::Boolean(value == 1)),
        Scalar::F64(_) if is_whole(value as f64) && value as f64 as i64 == value => {
            Some(Scalar::F64(value as f64))
        }
        _ => None,
    }
}

fn is_whole(real: f64) -> bool {
    // Beyond 2^53 not every integer is a real.
    real.fract() == 0.0 && real.abs() <= 9_007_199_254_740_992.0
}

/// Makes the value at a place hold `new` by as few edits as possible: equal parts stay untouched,
/// scalars keep their types.
fn update_json(
    document: &mut AutoCommit,
    (owner, prop): (&ObjId, &PatchProp),
    new: &Json,
) -> Result<(), Error> {
    match (Present::at(document, owner, prop)?, new) {
        (Present::Object(ObjType::Map, id), Json::Object(new)) => {
            let keys = document.with_pending().keys(&id)?;
            let gone: Vec<String> =
                keys.filter(|key| !new.contains_key(*key)).map(str::to_owned).collect();
            for key in gone {
                document.delete(&id, key.as_str())?;
            }
            for (key, value) in new {
                update_json(document, (&id, &PatchProp::Key(key.as_str().into())), value)?;
            }
            Ok(())
        }
        (Present::Object(ObjType::List, id), Json::Array(new)) => update_list(document, &id, new),
        (Present::Object(ObjType::Text, id), Json::String(new)) => {
            if document.with_pending().text(&id)? != *new {
                document.update_text(&id, new)?;
            }
            Ok(())
        }
        (Present::Scalar(old), new) if !new.is_array() && !new.is_object() => {
            let scalar = match (&old, new) {
                (Scalar::Counter(old), Json::Number(new)) if new.is_i64() => {
                    let by = new.as_i64().and_then(|new| new.checked_sub(*old));
                    match by {
                        Some(0) => return Ok(()),
                        Some(by) => return Ok(document.increment(owner, as_prop(prop), by)?),
                        None => None,
                    }
                }
                (Scalar::Counter(_), Json::Number(new)) if new.is_f64() => {
                    let why = "a counter takes whole steps, no real number";
                    return Err(Error::Refused { why: format!("{why}: {new}") });
                }
                (Scalar::Str(_), Json::String(new)) => Some(Scalar::Str(new.as_str().into())),
                (_, Json::Bool(new)) => Some(Scalar::Boolean(*new)),
                (_, Json::Null) => Some(Scalar::Null),
                // JSON has truth values of its own.
                (Scalar::Boolean(_), Json::Number(_)) => None,
                (known, Json::Number(new)) => new.as_i64().and_then(|new| number(known, new)),
                _ => None,
            };
            match scalar {
                Some(scalar) if scalar == old => Ok(()),
                Some(scalar) => Ok(document.put(owner, as_prop(prop), scalar)?),
                None if json_of(document, owner, prop)?.as_ref() == Some(new) => Ok(()),
                None => Ok(document.put_json(owner, as_prop(prop), new)?),
            }
        }
        (_, new) => Ok(document.put_json(owner, as_prop(prop), new)?),
    }
}

/// The same of a list: items alike at both ends stay, the others are updated in turn.
fn update_list(document: &mut AutoCommit, list: &ObjId, new: &[Json]) -> Result<(), Error> {
    let length = document.with_pending().length(list)?;
    let mut old = Vec::with_capacity(length);
    for index in 0..length {
        old.push(json_of(document, list, &PatchProp::Index(index))?);
    }
    let alike = |(old, new): &(&Option<Json>, &Json)| old.as_ref() == Some(*new);
    let front = old.iter().zip(new).take_while(alike).count();
    let rest = old[front..].iter().rev().zip(new[front..].iter().rev());
    let back = rest.take_while(alike).count();
    let (old_end, new_end) = (old.len() - back, new.len() - back);
    let both = old_end.min(new_end);
    for (index, value) in new.iter().enumerate().take(both).skip(front) {
        update_json(document, (list, &PatchProp::Index(index)), value)?;
    }
    for (index, value) in new.iter().enumerate().take(new_end).skip(both) {
        document.insert_json(list, index, value)?;
    }
    for _ in both..old_end {
        document.delete(list, both)?;
    }
    Ok(())
}

/// The value at a place as JSON; `None` beyond the limits of JSON.
fn json_of(document: &AutoCommit, owner: &ObjId, prop: &PatchProp) -> Result<Option<Json>, Error> {
    let document = document.with_pending();
    let Some((value, id)) = document.get(owner, as_prop(prop))? else { return Ok(None) };
    if matches!(value, Value::Scalar(ScalarRef::Null)) {
        return Ok(Some(Json::Null));
    }
    Ok(match super::rows::json(document, value, &id)?.as_ref() {
        ValueRef::Text(text) => serde_json::from_slice(text).ok(),
        _ => None,
    })
}

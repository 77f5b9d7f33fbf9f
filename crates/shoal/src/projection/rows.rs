//! The rows of a projection, from the objects of a document.

use shoal_crdt::{
    Document, DocumentAt, DocumentJson, ListItem, MapEntry, ObjId, ObjType, Parent, PatchProp,
};
use shoal_crdt::{Prop, ROOT, ReadDoc, Value};
use shoal_history::{ActorId, ScalarRef};
use shoal_sql::Value as SqlValue;

use super::define::{Column, Definition, Kind, Literal, Step};
use crate::Error;

/// A row of a projection: the key within its document, the key of the row around, the values of
/// the columns, and values without a place in the columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: Vec<u8>,
    /// `Some` for rows within rows.
    pub(crate) parent: Option<Vec<u8>>,
    pub(crate) values: Vec<SqlValue>,
    /// By column: the op and the value of each loser of a conflict.
    pub(crate) conflicts: Vec<(usize, String, SqlValue)>,
    /// By column: the type and the JSON of a value without a fit.
    pub(crate) misfits: Vec<(usize, &'static str, SqlValue)>,
}

/// The place of a row in a document.
#[derive(Clone, Debug)]
pub(crate) struct Found<'d> {
    pub(crate) key: Vec<u8>,
    pub(crate) parent: Option<Vec<u8>>,
    pub(crate) value: Value<'d>,
    pub(crate) id: ObjId,
    /// The object around the row, and the row's place there; `None` for the root.
    pub(crate) place: Option<(ObjId, PatchProp)>,
}

/// The key of a row made by an op: the counter of the op, then the actor. New rows come last.
pub(crate) fn key_of(id: &ObjId) -> Vec<u8> {
    let mut key = u64::from(id.counter()).to_be_bytes().to_vec();
    key.extend(id.actor().map(|actor| actor.as_bytes()).unwrap_or_default());
    key
}

/// The op of [`key_of`]; `None` for bytes of no op.
pub(crate) fn op_of(key: &[u8]) -> Option<ObjId> {
    let (counter, actor) = key.split_first_chunk::<8>()?;
    let counter = u32::try_from(u64::from_be_bytes(*counter)).ok()?;
    Some(ObjId::new(counter, ActorId::new(actor)))
}

/// The key of an entry: its name, after the key of the row around if there is one.
pub(crate) fn entry_key(parent: Option<&[u8]>, name: &str) -> Vec<u8> {
    let Some(parent) = parent else { return name.as_bytes().to_vec() };
    // The length keeps the keys of two parents apart.
    let length = u32::try_from(parent.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), parent, name.as_bytes()].concat()
}

pub(crate) fn is_map(kind: ObjType) -> bool {
    matches!(kind, ObjType::Map | ObjType::Table)
}

/// A document that rows are made of: at present, or as it was.
pub(crate) trait Source: ReadDoc {
    /// True for several values at a place.
    fn has_conflict(&self, object: &ObjId, prop: Prop<'_>) -> Result<bool, shoal_crdt::Error>;

    /// An object as JSON; the inner error is that of one nested too deeply.
    fn json_of(&self, id: &ObjId) -> Result<serde_json::Result<String>, Error>;
}

impl Source for Document {
    fn has_conflict(&self, object: &ObjId, prop: Prop<'_>) -> Result<bool, shoal_crdt::Error> {
        Document::has_conflict(self, object, prop)
    }

    fn json_of(&self, id: &ObjId) -> Result<serde_json::Result<String>, Error> {
        Ok(serde_json::to_string(&DocumentJson::of_object(self, id)?))
    }
}

impl Source for DocumentAt<'_> {
    fn has_conflict(&self, object: &ObjId, prop: Prop<'_>) -> Result<bool, shoal_crdt::Error> {
        Ok(self.get_all(object, prop)?.len() > 1)
    }

    fn json_of(&self, id: &ObjId) -> Result<serde_json::Result<String>, Error> {
        match self.hydrate(id) {
            Err(error @ shoal_crdt::Error::TooDeep { .. }) => {
                Ok(Err(serde_json::Error::io(std::io::Error::other(error))))
            }
            hydrated => Ok(serde_json::to_string(&hydrated?)),
        }
    }
}

/// Gives a document's rows.
pub(crate) fn each_row<'d>(
    document: &'d impl Source,
    definition: &Definition,
    mut each: impl FnMut(Found<'d>) -> Result<(), Error>,
) -> Result<(), Error> {
    let root = Found {
        key: Vec::new(),
        parent: None,
        value: Value::Object(ObjType::Map),
        id: ROOT,
        place: None,
    };
    let is_nested = definition.is_nested();
    walk(document, &definition.rows.steps, (root, false, is_nested), &mut each)
}

/// Gives the rows below an object. `in_row` is true where the object is within a row of a
/// projection around.
fn walk<'d>(
    document: &'d impl Source,
    steps: &[Step],
    (at, in_row, is_nested): (Found<'d>, bool, bool),
    each: &mut dyn FnMut(Found<'d>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some((step, rest)) = steps.split_first() else {
        let is_itself_no_map = !in_row && !at.value.as_object().is_some_and(is_map);
        return if is_itself_no_map { Ok(()) } else { each(at) };
    };
    let Value::Object(kind) = at.value else { return Ok(()) };
    // The key of the row around, for rows within rows.
    let parent = (is_nested && in_row).then(|| at.key.clone());
    match step {
        Step::Key(key) if is_map(kind) => {
            let Some((value, id)) = document.get(&at.id, key.as_str())? else { return Ok(()) };
            let place = Some((at.id.clone(), PatchProp::Key(key.as_str().into())));
            walk(document, rest, (Found { value, id, place, ..at }, in_row, is_nested), each)
        }
        Step::Items if kind == ObjType::List => {
            for (index, ListItem { value, id, .. }) in document.items(&at.id, 0)?.enumerate() {
                let place = Some((at.id.clone(), PatchProp::Index(index)));
                let found = Found { key: key_of(&id), parent: parent.clone(), value, id, place };
                walk(document, rest, (found, true, is_nested), each)?;
            }
            Ok(())
        }
        Step::Entries if is_map(kind) => {
            for MapEntry { key, value, id, .. } in document.entries(&at.id)? {
                let place = Some((at.id.clone(), PatchProp::Key(key.into())));
                let own = entry_key(parent.as_deref(), key);
                let found = Found { key: own, parent: parent.clone(), value, id, place };
                walk(document, rest, (found, true, is_nested), each)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The row of an object; `None` for objects gone or out of the projection.
pub(crate) fn locate(
    document: &Document,
    definition: &Definition,
    id: &ObjId,
) -> Result<Option<Found<'static>>, Error> {
    let Ok(kind) = document.object_type(id) else { return Ok(None) };
    let parents = ReadDoc::parents(document, id)?;
    let steps = &definition.rows.steps;
    if parents.len() != steps.len() || parents.iter().any(|parent| !parent.visible) {
        return Ok(None);
    }
    let (mut key, mut parent) = (None::<Vec<u8>>, None);
    // From the root on: the child at a level is the object around the one before, or the row.
    let children = std::iter::once(id).chain(parents.iter().map(|parent| &parent.obj));
    let children: Vec<&ObjId> = children.take(parents.len()).collect();
    let levels = parents.iter().zip(children).rev();
    for (step, (Parent { prop, .. }, child)) in steps.iter().zip(levels) {
        match (step, prop) {
            (Step::Key(wanted), PatchProp::Key(found)) if **found == **wanted => {}
            (Step::Items, PatchProp::Index(_)) => (parent, key) = (key, Some(key_of(child))),
            (Step::Entries, PatchProp::Key(name)) => {
                let own = entry_key(key.as_deref(), name);
                (parent, key) = (key, Some(own));
            }
            _ => return Ok(None),
        }
    }
    let first = parents.into_iter().next();
    let place = first.map(|parent| (parent.obj, parent.prop));
    let (key, value) = (key.unwrap_or_default(), Value::Object(kind));
    Ok(Some(Found { key, parent, value, id: id.clone(), place }))
}

/// The row at a place.
pub(crate) fn row(
    document: &impl Source,
    definition: &Definition,
    found: &Found<'_>,
) -> Result<Row, Error> {
    let mut row = Row {
        key: found.key.clone(),
        parent: found.parent.clone(),
        values: Vec::with_capacity(definition.columns.len()),
        conflicts: Vec::new(),
        misfits: Vec::new(),
    };
    for (number, column) in definition.columns.iter().enumerate() {
        let value = column_value(document, number, column, found, &mut row)?;
        row.values.push(value);
    }
    Ok(row)
}

fn column_value(
    document: &impl Source,
    number: usize,
    column: &Column,
    found: &Found<'_>,
    row: &mut Row,
) -> Result<SqlValue, Error> {
    if column.kind == Kind::Position {
        return Ok(match found.place {
            Some((_, PatchProp::Index(index))) => {
                SqlValue::Int(i64::try_from(index).map_or(i64::MAX, |index| index + 1))
            }
            _ => SqlValue::Null,
        });
    }
    let (mut value, mut owner) = (found.value, found.id.clone());
    let mut around = owner.clone();
    for key in &column.path {
        let inner = match value {
            Value::Object(kind) if is_map(kind) => document.get(&owner, key.as_str())?,
            _ => None,
        };
        around.clone_from(&owner);
        match inner {
            Some((inner, id)) => (value, owner) = (inner, id),
            None => return Ok(literal(column.on_empty.as_ref())),
        }
    }
    let place = match (column.path.last(), &found.place) {
        (Some(key), _) => Some((&around, Prop::Key(key))),
        (None, Some((object, PatchProp::Key(key)))) => Some((object, Prop::Key(key))),
        (None, Some((object, PatchProp::Index(index)))) => Some((object, Prop::Index(*index))),
        (None, None) => None,
    };
    if let Some((object, prop)) = place
        && document.has_conflict(object, prop)?
    {
        let mut losers = document.get_all(object, prop)?;
        losers.pop();
        for (loser, id) in &losers {
            let shown = match converted(document, column.kind, *loser, id)? {
                Some(shown) => shown,
                None => json(document, *loser, id)?,
            };
            row.conflicts.push((number, id.to_string(), shown));
        }
    }
    Ok(match converted(document, column.kind, value, &owner)? {
        Some(value) => value,
        None => {
            row.misfits.push((number, type_name(value), json(document, value, &owner)?));
            SqlValue::Null
        }
    })
}

/// A literal of the definition; NULL for none.
pub(crate) fn literal(literal: Option<&Literal>) -> SqlValue {
    match literal {
        None | Some(Literal::Null) => SqlValue::Null,
        Some(Literal::Integer(value)) => SqlValue::Int(*value),
        Some(Literal::Real(value)) => SqlValue::Real(*value),
        Some(Literal::Text(text)) => SqlValue::text(text.as_str()),
    }
}

/// A value of the document as a value of SQL; `None` where the type does not fit.
fn converted(
    document: &impl Source,
    kind: Kind,
    value: Value<'_>,
    id: &ObjId,
) -> Result<Option<SqlValue>, Error> {
    let scalar = match value {
        _ if kind == Kind::Json => return json(document, value, id).map(Some),
        Value::Object(ObjType::Text) if matches!(kind, Kind::Text | Kind::String) => {
            return Ok(Some(SqlValue::text(document.text(id)?)));
        }
        Value::Object(_) => return Ok(None),
        Value::Scalar(scalar) => scalar,
    };
    Ok(match (kind, scalar) {
        (_, ScalarRef::Null) => Some(SqlValue::Null),
        (Kind::Text | Kind::String, ScalarRef::Str(text)) => Some(SqlValue::text(text)),
        (Kind::Text | Kind::String, ScalarRef::Int(number)) => {
            Some(SqlValue::text(number.to_string()))
        }
        (Kind::Text | Kind::String, ScalarRef::Uint(number)) => {
            Some(SqlValue::text(number.to_string()))
        }
        (Kind::Integer | Kind::Boolean, ScalarRef::Boolean(truth)) => {
            Some(SqlValue::Int(i64::from(truth)))
        }
        (Kind::Integer | Kind::Counter | Kind::Timestamp, _) => integer(scalar),
        (Kind::Real, ScalarRef::F64(number)) if !number.is_nan() => Some(SqlValue::Real(number)),
        (Kind::Real, ScalarRef::Int(number)) => Some(SqlValue::Real(number as f64)),
        (Kind::Real, ScalarRef::Uint(number)) => Some(SqlValue::Real(number as f64)),
        (Kind::Bytes, ScalarRef::Bytes(bytes)) => Some(SqlValue::Blob(bytes.into())),
        _ => None,
    })
}

fn integer(scalar: ScalarRef<'_>) -> Option<SqlValue> {
    match scalar {
        ScalarRef::Int(number) | ScalarRef::Counter(number) | ScalarRef::Timestamp(number) => {
            Some(SqlValue::Int(number))
        }
        ScalarRef::Uint(number) => i64::try_from(number).ok().map(SqlValue::Int),
        // 2^63 is the first real beyond the integers.
        ScalarRef::F64(number)
            if number.fract() == 0.0 && number.abs() < 9.223_372_036_854_775e18 =>
        {
            Some(SqlValue::Int(number as i64))
        }
        _ => None,
    }
}

/// The type of a value, in Automerge's word.
fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Object(kind) => kind.name(),
        Value::Scalar(scalar) => match scalar {
            ScalarRef::Null => "null",
            ScalarRef::Boolean(_) => "boolean",
            ScalarRef::Uint(_) => "uint",
            ScalarRef::Int(_) => "int",
            ScalarRef::F64(_) => "f64",
            ScalarRef::Str(_) => "str",
            ScalarRef::Bytes(_) => "bytes",
            ScalarRef::Counter(_) => "counter",
            ScalarRef::Timestamp(_) => "timestamp",
            _ => "unknown",
        },
    }
}

/// A value as JSON; NULL for null.
pub(crate) fn json(
    document: &impl Source,
    value: Value<'_>,
    id: &ObjId,
) -> Result<SqlValue, Error> {
    let text = match value {
        Value::Object(_) => document.json_of(id)?,
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

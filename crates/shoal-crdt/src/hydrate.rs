//! Whole objects as values of their own: read in one call, written in one call.

use std::collections::BTreeMap;

use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use shoal_history::Scalar;

use crate::error::Error;
use crate::id::ObjId;
use crate::import::{Node, Tree};
use crate::json::{DEFAULT_MAX_DEPTH, serialize_scalar};
use crate::read::wrong_type;
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop, Value as Read};
use crate::view::View;

mod apply;

pub use apply::PatchMismatch;

/// A value with everything in it. Serializes to the JSON of
/// [`Document::to_json`](crate::Document::to_json) gives.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A map or a table.
    Map(BTreeMap<String, Value>),
    /// A list.
    List(Vec<Value>),
    /// A text.
    Text(String),
    /// Any other value; counters hold their totals.
    Scalar(Scalar),
}

impl From<&serde_json::Value> for Value {
    /// Strings become texts, integers integers, other numbers floats.
    fn from(json: &serde_json::Value) -> Self {
        match json.node() {
            Node::Scalar(value) => Self::Scalar(value),
            Node::Text(text) => Self::Text(text.to_owned()),
            Node::List(items) => Self::List(items.iter().map(Into::into).collect()),
            Node::Map(entries) => Self::Map(
                entries.into_iter().map(|(key, json)| (key.into(), json.into())).collect(),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok((&serde_json::Value::deserialize(deserializer)?).into())
    }
}

impl Tree for Value {
    fn node(&self) -> Node<'_, Self> {
        match self {
            Self::Map(entries) => {
                Node::Map(entries.iter().map(|(key, value)| (key.as_str(), value)).collect())
            }
            Self::List(items) => Node::List(items),
            Self::Text(text) => Node::Text(text),
            Self::Scalar(value) => Node::Scalar(value.clone()),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(entries) => serializer.collect_map(entries),
            Self::List(items) => serializer.collect_seq(items),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Scalar(value) => serialize_scalar(value.as_ref(), serializer),
        }
    }
}

impl View<'_> {
    pub(crate) fn hydrate(self, obj: &ObjId) -> Result<Value, Error> {
        self.hydrate_within(obj, DEFAULT_MAX_DEPTH)
    }

    fn hydrate_within(self, obj: &ObjId, depth: usize) -> Result<Value, Error> {
        let Some(left) = depth.checked_sub(1) else {
            return Err(Error::TooDeep { max: DEFAULT_MAX_DEPTH });
        };
        let nested = |value: Read<'_>, id: &ObjId| match value {
            Read::Scalar(value) => Ok(Value::Scalar(value.to_scalar())),
            Read::Object(_) => self.hydrate_within(id, left),
        };
        Ok(match self.object_type(obj)? {
            ObjType::Map | ObjType::Table => Value::Map(
                self.entries(obj)?
                    .map(|entry| Ok((entry.key.to_owned(), nested(entry.value, &entry.id)?)))
                    .collect::<Result<_, Error>>()?,
            ),
            ObjType::List => Value::List(
                self.items(obj, 0)?
                    .map(|item| nested(item.value, &item.id))
                    .collect::<Result<_, Error>>()?,
            ),
            ObjType::Text => Value::Text(self.text(obj)?),
        })
    }
}

impl Transaction<'_> {
    /// Sets the value at `prop` to `value` with everything in it.
    ///
    /// # Errors
    /// As [`Transaction::put`] for scalars and [`Transaction::put_object`] for the rest.
    pub fn put_value<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: &Value,
    ) -> Result<(), Error> {
        self.put_tree(obj, prop.into(), value)
    }

    /// Inserts `value` with everything in it before the list item at `index`.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_value(&mut self, obj: &ObjId, index: usize, value: &Value) -> Result<(), Error> {
        self.insert_tree(obj, index, value)
    }

    /// Makes `value`, with everything in it, the value at `prop`, or, if `insert`, an item before
    /// the one at that index, and returns the id of the object.
    ///
    /// # Errors
    /// [`Error::NotAnObject`] for a scalar; else as [`Transaction::put_value`] and
    /// [`Transaction::insert_value`].
    pub fn batch_create_object<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        value: &Value,
        insert: bool,
    ) -> Result<ObjId, Error> {
        self.create_tree(obj, prop.into(), value, insert)
    }

    /// Puts every entry of the map `value` into the root, over what is there. Other entries stay.
    ///
    /// # Errors
    /// [`Error::RootNotObject`] for anything but a map; else as [`Transaction::put_value`].
    pub fn init_root_from_hydrate(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Map(_) => self.fill_root(value),
            _ => Err(Error::RootNotObject),
        }
    }

    /// [`Transaction::splice`] with values of any kind: first the values themselves are inserted,
    /// then their contents breadth first, then items are deleted.
    ///
    /// # Errors
    /// As there; in a text every value must be a scalar string.
    pub fn splice_values(
        &mut self,
        obj: &ObjId,
        index: usize,
        delete: isize,
        values: &[Value],
    ) -> Result<(), Error> {
        let scalars: Option<Vec<&Scalar>> = values
            .iter()
            .map(|value| match value {
                Value::Scalar(value) => Some(value),
                _ => None,
            })
            .collect();
        if let Some(scalars) = scalars {
            return self.splice(obj, index, delete, scalars);
        }
        match self.as_view().object_type(obj)? {
            ObjType::List => {}
            kind => return Err(wrong_type(obj, kind, "splice objects")),
        }
        let length = self.as_view().length(obj)?;
        let start = if delete < 0 { index.checked_add_signed(delete) } else { Some(index) };
        let start = start.filter(|start| *start <= length);
        let start = start.ok_or(Error::Index { index, length })?;
        self.insert_trees(obj, start, values)?;
        let delete = isize::try_from(delete.unsigned_abs()).unwrap_or(isize::MAX);
        self.splice(obj, start + values.len(), delete, std::iter::empty::<Scalar>())
    }
}

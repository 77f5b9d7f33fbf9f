//! Making an object hold a given value by as few edits as possible: concurrent edits of unchanged
//! parts survive.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::hydrate::Value;
use crate::id::ObjId;
use crate::json::DEFAULT_MAX_DEPTH;
use crate::read::wrong_type;
use crate::read_doc::ReadDoc;
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop, Value as Read};

/// Where a value goes.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// Over the present value.
    Put(Prop<'p>),
    /// Before the item at an index.
    Insert(usize),
}

impl Transaction<'_> {
    /// Makes the object `obj` hold `new`: differing entries and items are set, missing ones made,
    /// others deleted; objects inside with the same type are updated in turn, texts as
    /// [`Transaction::update_text`] does. Lists are compared index by index. O(n) in both values.
    ///
    /// # Errors
    /// [`Error::UnknownObject`]; [`Error::WrongType`] for a value of another type than the object,
    /// and for tables, kept for reading; [`Error::TooDeep`] for a value nested more deeply than
    /// [`DEFAULT_MAX_DEPTH`]. After that a part is written; roll back.
    pub fn update_object(&mut self, obj: &ObjId, new: &Value) -> Result<(), Error> {
        self.update_within(obj, new, DEFAULT_MAX_DEPTH)
    }

    fn update_within(&mut self, obj: &ObjId, new: &Value, depth: usize) -> Result<(), Error> {
        match (ReadDoc::object_type(self, obj)?, new) {
            (ObjType::Map, Value::Map(new)) => self.update_map(obj, new, depth),
            (ObjType::List, Value::List(new)) => self.update_list(obj, new, depth),
            (ObjType::Text, Value::Text(new)) => self.update_text(obj, new),
            (kind, _) => Err(wrong_type(obj, kind, "become a value of another type")),
        }
    }

    pub(crate) fn update_map(
        &mut self,
        obj: &ObjId,
        new: &BTreeMap<String, Value>,
        depth: usize,
    ) -> Result<(), Error> {
        let left = deeper(depth)?;
        let old: Vec<(String, Option<(ObjType, ObjId)>)> = self
            .view()
            .entries(obj)?
            .map(|entry| (entry.key.to_owned(), object(entry.value, entry.id)))
            .collect();
        for (key, old) in &old {
            if let Some(value) = new.get(key) {
                self.update_value(obj, Place::Put(Prop::Key(key)), old.as_ref(), value, left)?;
            }
        }
        let had = |key: &String| old.binary_search_by(|(old, _)| old.cmp(key)).is_ok();
        for (key, value) in new.iter().filter(|(key, _)| !had(key)) {
            self.update_value(obj, Place::Put(Prop::Key(key)), None, value, left)?;
        }
        for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
            self.delete(obj, key.as_str())?;
        }
        Ok(())
    }

    fn update_list(&mut self, obj: &ObjId, new: &[Value], depth: usize) -> Result<(), Error> {
        let left = deeper(depth)?;
        let old: Vec<Option<(ObjType, ObjId)>> =
            self.view().items(obj, 0)?.map(|item| object(item.value, item.id)).collect();
        for (index, value) in new.iter().enumerate() {
            match old.get(index) {
                Some(old) => {
                    let place = Place::Put(Prop::Index(index));
                    self.update_value(obj, place, old.as_ref(), value, left)?;
                }
                None => self.update_value(obj, Place::Insert(index), None, value, left)?,
            }
        }
        // The reference deletes as many, but from the front.
        for _ in new.len()..old.len() {
            self.delete(obj, new.len())?;
        }
        Ok(())
    }

    /// Writes a value, or updates the present object.
    fn update_value(
        &mut self,
        parent: &ObjId,
        place: Place<'_>,
        old: Option<&(ObjType, ObjId)>,
        new: &Value,
        depth: usize,
    ) -> Result<(), Error> {
        let kind = match new {
            Value::Map(_) => ObjType::Map,
            Value::List(_) => ObjType::List,
            Value::Text(_) => ObjType::Text,
            Value::Scalar(value) => {
                return match place {
                    Place::Put(prop) => self.put(parent, prop, value),
                    Place::Insert(index) => self.insert(parent, index, value),
                };
            }
        };
        let obj = match (old, place) {
            (Some((old, id)), _) if *old == kind => id.clone(),
            (_, Place::Put(prop)) => self.put_object(parent, prop, kind)?,
            (_, Place::Insert(index)) => self.insert_object(parent, index, kind)?,
        };
        self.update_within(&obj, new, depth)
    }
}

fn object(value: Read<'_>, id: ObjId) -> Option<(ObjType, ObjId)> {
    match value {
        Read::Object(kind) => Some((kind, id)),
        Read::Scalar(_) => None,
    }
}

fn deeper(depth: usize) -> Result<usize, Error> {
    depth.checked_sub(1).ok_or(Error::TooDeep { max: DEFAULT_MAX_DEPTH })
}

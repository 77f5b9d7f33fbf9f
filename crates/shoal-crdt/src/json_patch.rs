//! JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386): applied to a document, and found between
//! two JSON values.
//!
//! Unchanged parts of a document stay untouched: a string in the place of a text is written as
//! edits of the text, and concurrent edits survive.

use serde_json::{Map, Value as Json, json};

use crate::error::Error;
use crate::id::{ObjId, ROOT};
use crate::pointer::{self, PointerError, Resolved};
use crate::read_doc::ReadDoc;
use crate::text_diff::{self, Edit};
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop, Value};

/// The reason of a patch not applying. Earlier operations stay done; roll back.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Not the JSON of a patch.
    #[error("operation {operation}: {why}")]
    Malformed {
        /// The number of the operation, from 0.
        operation: usize,
        /// The fault.
        why: &'static str,
    },
    /// A path leads nowhere.
    #[error("operation {operation}: {source}")]
    Path {
        /// The number of the operation, from 0.
        operation: usize,
        /// The fault of the pointer.
        source: PointerError,
    },
    /// A `test` found another value.
    #[error("operation {operation}: another value at: {path}")]
    Test {
        /// The number of the operation, from 0.
        operation: usize,
        /// Where.
        path: String,
    },
    /// The document refused an edit.
    #[error(transparent)]
    Document(#[from] Error),
}

impl Transaction<'_> {
    /// Applies a JSON Patch: an array of operations.
    ///
    /// # Errors
    /// [`PatchError`].
    pub fn apply_json_patch(&mut self, patch: &Json) -> Result<(), PatchError> {
        let operations = patch
            .as_array()
            .ok_or(PatchError::Malformed { operation: 0, why: "a patch is an array" })?;
        for (number, operation) in operations.iter().enumerate() {
            Operation { number, json: operation }.apply(self)?;
        }
        Ok(())
    }

    /// Applies a JSON Merge Patch to the root: entries of the patch replace present ones, objects
    /// are merged, null deletes.
    ///
    /// # Errors
    /// [`Error::RootNotObject`] for a patch that is no object; otherwise as [`Transaction::put`].
    pub fn apply_merge_patch(&mut self, patch: &Json) -> Result<(), Error> {
        let Json::Object(entries) = patch else { return Err(Error::RootNotObject) };
        let mut stack: Vec<(ObjId, &Map<String, Json>)> = vec![(ROOT, entries)];
        while let Some((obj, entries)) = stack.pop() {
            for (key, patch) in entries {
                match patch {
                    Json::Null => self.delete(&obj, key)?,
                    Json::Object(entries) => {
                        let map = match self.get(&obj, key)? {
                            Some((Value::Object(ObjType::Map), id)) => id,
                            _ => self.put_object(&obj, key, ObjType::Map)?,
                        };
                        stack.push((map, entries));
                    }
                    _ => self.replace(&obj, Prop::Key(key), patch)?,
                }
            }
        }
        Ok(())
    }

    /// Sets the value at `prop`; a text is edited into a string.
    fn replace(&mut self, obj: &ObjId, prop: Prop<'_>, json: &Json) -> Result<(), Error> {
        match (self.get(obj, prop)?, json) {
            (Some((Value::Object(ObjType::Text), text)), Json::String(new)) => {
                self.update_text(&text, new)
            }
            _ => self.put_json(obj, prop, json),
        }
    }

    /// The JSON of the value at a place.
    fn json_at(&self, resolved: &Resolved) -> Result<Option<Json>, Error> {
        let view = self.view();
        let value = match resolved.prop() {
            None => crate::hydrate::Value::Map(std::collections::BTreeMap::new()),
            Some((obj, prop)) => match view.get(obj, prop)? {
                None => return Ok(None),
                Some((Value::Scalar(value), _)) => crate::hydrate::Value::Scalar(value.to_scalar()),
                Some((Value::Object(_), id)) => view.hydrate(&id)?,
            },
        };
        let value = if resolved.prop().is_none() { view.hydrate(&ROOT)? } else { value };
        // Numbers without a JSON form read as null.
        Ok(Some(serde_json::to_value(value).unwrap_or(Json::Null)))
    }
}

struct Operation<'a> {
    number: usize,
    json: &'a Json,
}

impl<'a> Operation<'a> {
    fn malformed<T>(&self, why: &'static str) -> Result<T, PatchError> {
        Err(PatchError::Malformed { operation: self.number, why })
    }

    fn text(&self, member: &str, why: &'static str) -> Result<&'a str, PatchError> {
        match self.json.get(member).and_then(Json::as_str) {
            Some(text) => Ok(text),
            None => self.malformed(why),
        }
    }

    fn value(&self) -> Result<&'a Json, PatchError> {
        match self.json.get("value") {
            Some(value) => Ok(value),
            None => self.malformed("no value"),
        }
    }

    fn resolve(&self, tx: &Transaction<'_>, path: &str) -> Result<Resolved, PatchError> {
        let resolved = pointer::resolve(tx, path)
            .map_err(|source| PatchError::Path { operation: self.number, source })?;
        if let Resolved::Item { obj, .. } = &resolved
            && tx.object_type(obj)? == ObjType::Text
        {
            return self.malformed("a path into a string");
        }
        Ok(resolved)
    }

    /// The JSON at a path. The path must lead to a value.
    fn existing(&self, tx: &Transaction<'_>, path: &str) -> Result<(Resolved, Json), PatchError> {
        let resolved = self.resolve(tx, path)?;
        match tx.json_at(&resolved)? {
            Some(json) => Ok((resolved, json)),
            None => self.malformed("no value at the path"),
        }
    }

    fn apply(&self, tx: &mut Transaction<'_>) -> Result<(), PatchError> {
        let path = self.text("path", "no path")?;
        match self.text("op", "no op")? {
            "add" => self.add(tx, path, self.value()?),
            "remove" => self.remove(tx, path),
            "replace" => {
                let (resolved, _) = self.existing(tx, path)?;
                match resolved.prop() {
                    Some((obj, prop)) => Ok(tx.replace(obj, prop, self.value()?)?),
                    None => self.replace_root(tx, self.value()?),
                }
            }
            "test" => match self.existing(tx, path)? {
                (_, found) if is_equal(&found, self.value()?) => Ok(()),
                _ => Err(PatchError::Test { operation: self.number, path: path.to_owned() }),
            },
            "copy" => {
                let (_, value) = self.existing(tx, self.text("from", "no from")?)?;
                self.add(tx, path, &value)
            }
            "move" => {
                let from = self.text("from", "no from")?;
                let (_, value) = self.existing(tx, from)?;
                if from == path {
                    return Ok(());
                }
                if path.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
                    return self.malformed("moves a value into itself");
                }
                self.remove(tx, from)?;
                self.add(tx, path, &value)
            }
            _ => self.malformed("unknown op"),
        }
    }

    fn add(&self, tx: &mut Transaction<'_>, path: &str, value: &Json) -> Result<(), PatchError> {
        match self.resolve(tx, path)? {
            Resolved::Root => self.replace_root(tx, value),
            Resolved::Entry { obj, key } => Ok(tx.replace(&obj, Prop::Key(&key), value)?),
            Resolved::Item { obj, index } => Ok(tx.insert_json(&obj, index, value)?),
        }
    }

    fn remove(&self, tx: &mut Transaction<'_>, path: &str) -> Result<(), PatchError> {
        let (resolved, _) = self.existing(tx, path)?;
        match resolved.prop() {
            Some((obj, prop)) => Ok(tx.delete(obj, prop)?),
            None => self.malformed("the root cannot be removed"),
        }
    }

    fn replace_root(&self, tx: &mut Transaction<'_>, value: &Json) -> Result<(), PatchError> {
        let Json::Object(entries) = value else { return Err(Error::RootNotObject.into()) };
        let gone: Vec<String> =
            tx.keys(&ROOT)?.filter(|key| !entries.contains_key(*key)).map(str::to_owned).collect();
        for key in gone {
            tx.delete(&ROOT, &key)?;
        }
        for (key, value) in entries {
            tx.replace(&ROOT, Prop::Key(key), value)?;
        }
        Ok(())
    }
}

/// Equality by RFC 6902: numbers by value.
fn is_equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(x), Json::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        (Json::Array(x), Json::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| is_equal(x, y))
        }
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| is_equal(x, y)))
        }
        _ => a == b,
    }
}

/// A JSON Patch from `before` to `after`. Arrays are compared item by item for a shortest script;
/// differing values are removed and added, or replaced at the same place.
pub fn diff(before: &Json, after: &Json) -> Json {
    let mut operations = Vec::new();
    diff_value(before, after, &mut String::new(), &mut operations);
    Json::Array(operations)
}

fn diff_value(before: &Json, after: &Json, path: &mut String, operations: &mut Vec<Json>) {
    match (before, after) {
        _ if before == after => {}
        (Json::Object(old), Json::Object(new)) => {
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                at(path, key, |path| operations.push(json!({"op": "remove", "path": path})));
            }
            for (key, value) in new {
                at(path, key, |path| match old.get(key) {
                    Some(old) => diff_value(old, value, path, operations),
                    None => {
                        operations.push(json!({"op": "add", "path": path, "value": value}));
                    }
                });
            }
        }
        (Json::Array(old), Json::Array(new)) => diff_items(old, new, path, operations),
        _ => operations.push(json!({"op": "replace", "path": path, "value": after})),
    }
}

fn diff_items(old: &[Json], new: &[Json], path: &mut String, operations: &mut Vec<Json>) {
    let mut edits = text_diff::diff(old, new).into_iter().peekable();
    let mut index = 0;
    while let Some(edit) = edits.next() {
        match edit {
            Edit::Equal(range) => index += range.len(),
            Edit::Insert(range) => {
                for value in &new[range] {
                    at(path, &index.to_string(), |path| {
                        operations.push(json!({"op": "add", "path": path, "value": value}));
                    });
                    index += 1;
                }
            }
            Edit::Delete(mut range) => {
                if let Some(Edit::Insert(insert)) =
                    edits.next_if(|next| matches!(next, Edit::Insert(_)))
                {
                    let mut insert = insert;
                    while let (Some(old_at), Some(new_at)) = (range.next(), insert.next()) {
                        at(path, &index.to_string(), |path| {
                            diff_value(&old[old_at], &new[new_at], path, operations);
                        });
                        index += 1;
                        if range.is_empty() || insert.is_empty() {
                            break;
                        }
                    }
                    for value in &new[insert] {
                        at(path, &index.to_string(), |path| {
                            operations.push(json!({"op": "add", "path": path, "value": value}));
                        });
                        index += 1;
                    }
                }
                for _ in range {
                    at(path, &index.to_string(), |path| {
                        operations.push(json!({"op": "remove", "path": path}));
                    });
                }
            }
        }
    }
}

/// Calls `then` with the path one segment longer.
fn at(path: &mut String, segment: &str, then: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    path.push_str(&pointer::escape(segment));
    then(path);
    path.truncate(length);
}

/// A JSON Merge Patch from `before` to `after`. A merge patch has no null entries, so nulls within
/// objects of `after` come out as missing entries.
pub fn merge_diff(before: &Json, after: &Json) -> Json {
    let (Json::Object(old), Json::Object(new)) = (before, after) else { return after.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Json::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(old) if old == value => {}
            Some(old) => drop(patch.insert(key.clone(), merge_diff(old, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Json::Object(patch)
}

//! Writing JSON values into a document: strings become texts, as other Automerge programs make
//! them, integers integers, other numbers floats.
//!
//! Walks breadth first with a queue of its own: however deeply a value is nested, the stack is
//! not. The ops come in the order in which the reference creates nested values.

use std::collections::VecDeque;

use serde_json::Value as Json;
use shoal_history::Scalar;

use crate::error::Error;
use crate::id::{ObjId, ROOT};
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop};

impl Transaction<'_> {
    /// Puts every entry of the JSON object `json` into the root map, over what is there. Other
    /// entries stay.
    ///
    /// # Errors
    /// [`Error::RootNotObject`] for any other JSON value. After [`Error::OpIdsExhausted`] a part
    /// is written; roll back.
    pub fn import_json(&mut self, json: &Json) -> Result<(), Error> {
        if !json.is_object() {
            return Err(Error::RootNotObject);
        }
        self.fill(ROOT, json)
    }

    /// Sets the value at `prop` to what `json` says.
    ///
    /// # Errors
    /// As [`Transaction::put`] for scalars and [`Transaction::put_object`] for the rest.
    pub fn put_json<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        json: &Json,
    ) -> Result<(), Error> {
        match node(json) {
            Node::Scalar(value) => self.put(obj, prop, value),
            Node::Object(kind) => {
                let made = self.put_object(obj, prop, kind)?;
                self.fill(made, json)
            }
        }
    }

    /// Inserts what `json` says before the list item at `index`.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_json(&mut self, obj: &ObjId, index: usize, json: &Json) -> Result<(), Error> {
        match node(json) {
            Node::Scalar(value) => self.insert(obj, index, value),
            Node::Object(kind) => {
                let made = self.insert_object(obj, index, kind)?;
                self.fill(made, json)
            }
        }
    }

    /// Writes the content of `json` into an object of its type.
    fn fill(&mut self, obj: ObjId, json: &Json) -> Result<(), Error> {
        let mut queue = VecDeque::from([(obj, json)]);
        while let Some((obj, json)) = queue.pop_front() {
            match json {
                Json::Object(entries) => {
                    let mut entries: Vec<(&String, &Json)> = entries.iter().collect();
                    entries.sort_unstable_by_key(|(key, _)| *key);
                    for (key, json) in entries {
                        match node(json) {
                            Node::Scalar(value) => self.put(&obj, key, value)?,
                            Node::Object(kind) => {
                                queue.push_back((self.put_object(&obj, key, kind)?, json));
                            }
                        }
                    }
                }
                Json::Array(items) => {
                    for (index, json) in items.iter().enumerate() {
                        match node(json) {
                            Node::Scalar(value) => self.insert(&obj, index, value)?,
                            Node::Object(kind) => {
                                queue.push_back((self.insert_object(&obj, index, kind)?, json));
                            }
                        }
                    }
                }
                Json::String(text) => self.splice_text(&obj, 0, 0, text)?,
                Json::Null | Json::Bool(_) | Json::Number(_) => {}
            }
        }
        Ok(())
    }
}

enum Node {
    Scalar(Scalar),
    Object(ObjType),
}

fn node(json: &Json) -> Node {
    match json {
        Json::Object(_) => Node::Object(ObjType::Map),
        Json::Array(_) => Node::Object(ObjType::List),
        Json::String(_) => Node::Object(ObjType::Text),
        Json::Null => Node::Scalar(Scalar::Null),
        Json::Bool(value) => Node::Scalar(Scalar::Boolean(*value)),
        Json::Number(number) => {
            let int = number.as_i64().map(Scalar::Int);
            let uint = || number.as_u64().map(Scalar::Uint);
            Node::Scalar(
                int.or_else(uint)
                    .unwrap_or_else(|| Scalar::F64(number.as_f64().unwrap_or(f64::NAN))),
            )
        }
    }
}

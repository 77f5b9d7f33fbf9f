//! Writing whole trees of values into a document: JSON, where strings become texts, as other
//! Automerge programs make them, integers integers, other numbers floats; and hydrated values.
//!
//! Walks breadth first with a queue of its own: a deeply nested value needs no deep stack. The ops
//! come in the order of the reference for nested values.

use std::collections::VecDeque;

use serde_json::Value as Json;
use shoal_history::Scalar;

use crate::error::Error;
use crate::id::{ObjId, ROOT};
use crate::read::wrong_type;
use crate::transaction::Transaction;
use crate::value::{ObjType, Prop};

/// A value with values in it.
pub(crate) trait Tree: Sized {
    /// The top of the tree.
    fn node(&self) -> Node<'_, Self>;
}

/// The top of a tree.
pub(crate) enum Node<'t, T> {
    Scalar(Scalar),
    /// In the order of the keys' bytes.
    Map(Vec<(&'t str, &'t T)>),
    List(&'t [T]),
    Text(&'t str),
}

impl<T> Node<'_, T> {
    fn object_type(&self) -> Option<ObjType> {
        match self {
            Self::Scalar(_) => None,
            Self::Map(_) => Some(ObjType::Map),
            Self::List(_) => Some(ObjType::List),
            Self::Text(_) => Some(ObjType::Text),
        }
    }
}

impl Tree for Json {
    fn node(&self) -> Node<'_, Self> {
        match self {
            Json::Object(entries) => {
                let mut entries: Vec<(&str, &Json)> =
                    entries.iter().map(|(key, json)| (key.as_str(), json)).collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                Node::Map(entries)
            }
            Json::Array(items) => Node::List(items),
            Json::String(text) => Node::Text(text),
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
}

impl Transaction<'_> {
    /// Puts every entry of the JSON object `json` into the root map, over present ones. Other
    /// entries stay.
    ///
    /// # Errors
    /// [`Error::RootNotObject`] for any other JSON value. After [`Error::OpIdsExhausted`] a part
    /// is written; roll back.
    pub fn import_json(&mut self, json: &Json) -> Result<(), Error> {
        if !json.is_object() {
            return Err(Error::RootNotObject);
        }
        self.fill(ROOT, json.node())
    }

    /// Sets the value at `prop` to `json`.
    ///
    /// # Errors
    /// As [`Transaction::put`] for scalars and [`Transaction::put_object`] for the rest.
    pub fn put_json<'p>(
        &mut self,
        obj: &ObjId,
        prop: impl Into<Prop<'p>>,
        json: &Json,
    ) -> Result<(), Error> {
        self.put_tree(obj, prop.into(), json)
    }

    /// Inserts `json` before the list item at `index`.
    ///
    /// # Errors
    /// As [`Transaction::insert`].
    pub fn insert_json(&mut self, obj: &ObjId, index: usize, json: &Json) -> Result<(), Error> {
        self.insert_tree(obj, index, json)
    }

    pub(crate) fn put_tree<T: Tree>(
        &mut self,
        obj: &ObjId,
        prop: Prop<'_>,
        tree: &T,
    ) -> Result<(), Error> {
        match tree.node() {
            Node::Scalar(value) => self.put(obj, prop, value),
            node => {
                let kind = node.object_type().unwrap_or(ObjType::Map);
                let made = self.put_object(obj, prop, kind)?;
                self.fill(made, node)
            }
        }
    }

    /// Writes the tree, not a scalar, as a new object at `prop`, or before `prop`.
    pub(crate) fn create_tree<T: Tree>(
        &mut self,
        obj: &ObjId,
        prop: Prop<'_>,
        tree: &T,
        insert: bool,
    ) -> Result<ObjId, Error> {
        let node = tree.node();
        let kind = node.object_type().ok_or(Error::NotAnObject)?;
        let made = match (insert, prop) {
            (false, prop) => self.put_object(obj, prop, kind)?,
            (true, Prop::Index(index)) => self.insert_object(obj, index, kind)?,
            (true, Prop::Key(_)) => {
                let kind = self.as_view().object_type(obj)?;
                return Err(wrong_type(obj, kind, "insert at a key"));
            }
        };
        self.fill(made.clone(), node)?;
        Ok(made)
    }

    /// Puts the entries of a map into the root.
    pub(crate) fn fill_root<T: Tree>(&mut self, tree: &T) -> Result<(), Error> {
        self.fill(ROOT, tree.node())
    }

    pub(crate) fn insert_tree<T: Tree>(
        &mut self,
        obj: &ObjId,
        index: usize,
        tree: &T,
    ) -> Result<(), Error> {
        match tree.node() {
            Node::Scalar(value) => self.insert(obj, index, value),
            node => {
                let kind = node.object_type().unwrap_or(ObjType::Map);
                let made = self.insert_object(obj, index, kind)?;
                self.fill(made, node)
            }
        }
    }

    /// Inserts `trees` before the list item at `index`, all of them before their contents.
    pub(crate) fn insert_trees<T: Tree>(
        &mut self,
        obj: &ObjId,
        index: usize,
        trees: &[T],
    ) -> Result<(), Error> {
        let mut queue = VecDeque::new();
        for (index, tree) in (index..).zip(trees) {
            match tree.node() {
                Node::Scalar(value) => self.insert(obj, index, value)?,
                node => {
                    let kind = node.object_type().unwrap_or(ObjType::Map);
                    queue.push_back((self.insert_object(obj, index, kind)?, node));
                }
            }
        }
        self.fill_all(queue)
    }

    /// Writes the content of `node` into an object of its type.
    fn fill<T: Tree>(&mut self, obj: ObjId, node: Node<'_, T>) -> Result<(), Error> {
        self.fill_all(VecDeque::from([(obj, node)]))
    }

    /// Writes the content of each node into an object of the node's type, then the contents below.
    fn fill_all<T: Tree>(
        &mut self,
        mut queue: VecDeque<(ObjId, Node<'_, T>)>,
    ) -> Result<(), Error> {
        while let Some((obj, node)) = queue.pop_front() {
            match node {
                Node::Map(entries) => {
                    for (key, tree) in entries {
                        match tree.node() {
                            Node::Scalar(value) => self.put(&obj, key, value)?,
                            node => {
                                let kind = node.object_type().unwrap_or(ObjType::Map);
                                queue.push_back((self.put_object(&obj, key, kind)?, node));
                            }
                        }
                    }
                }
                Node::List(items) => {
                    for (index, tree) in items.iter().enumerate() {
                        match tree.node() {
                            Node::Scalar(value) => self.insert(&obj, index, value)?,
                            node => {
                                let kind = node.object_type().unwrap_or(ObjType::Map);
                                queue.push_back((self.insert_object(&obj, index, kind)?, node));
                            }
                        }
                    }
                }
                Node::Text(text) => self.splice_text(&obj, 0, 0, text)?,
                Node::Scalar(_) => {}
            }
        }
        Ok(())
    }
}

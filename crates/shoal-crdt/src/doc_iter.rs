//! Everything in a document, object after object.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::id::ObjId;
use crate::marks::Span;
use crate::read::{ListItem, MapEntry};
use crate::value::{ObjType, Value};
use crate::view::{View, Walk};

/// One thing in one object.
#[derive(Clone, Debug, PartialEq)]
pub struct DocObjItem<'a> {
    /// The object.
    pub obj: ObjId,
    /// The item.
    pub item: DocItem<'a>,
}

/// An item of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum DocItem<'a> {
    /// An entry of a map or table.
    Map(MapEntry<'a>),
    /// An item of a list.
    List {
        /// Its index.
        index: usize,
        /// The item.
        item: ListItem<'a>,
    },
    /// A part of a text: characters under the same marks, or a block.
    Text(Span),
}

impl<'a> DocItem<'a> {
    /// The key of an entry.
    pub fn key(&self) -> Option<&'a str> {
        match self {
            Self::Map(entry) => Some(entry.key),
            Self::List { .. } | Self::Text(_) => None,
        }
    }

    /// The value of an entry or an item; in a text only a block has one.
    pub fn value(&self) -> Option<Value<'a>> {
        match self {
            Self::Map(entry) => Some(entry.value),
            Self::List { item, .. } => Some(item.value),
            Self::Text(Span::Block { .. }) => Some(Value::Object(ObjType::Map)),
            Self::Text(_) => None,
        }
    }

    /// The op with the value; characters, by many ops, have none.
    pub fn id(&self) -> Option<&ObjId> {
        match self {
            Self::Map(entry) => Some(&entry.id),
            Self::List { item, .. } => Some(&item.id),
            Self::Text(Span::Block { id }) => Some(id),
            Self::Text(_) => None,
        }
    }
}

/// The iterator of [`ReadDoc::iter`](crate::ReadDoc::iter).
pub struct DocIter<'a> {
    view: View<'a>,
    obj: ObjId,
    items: Walk<'a, DocItem<'a>>,
    /// Objects met and still to be walked, the oldest first.
    next: BTreeSet<ObjId>,
}

impl std::fmt::Debug for DocIter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DocIter")
            .field("obj", &self.obj)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl<'a> View<'a> {
    pub(crate) fn iter_from(self, obj: &ObjId) -> Result<DocIter<'a>, Error> {
        let items = self.items_of(obj)?;
        Ok(DocIter { view: self, obj: obj.clone(), items, next: BTreeSet::new() })
    }

    /// The items of one object.
    fn items_of(self, obj: &ObjId) -> Result<Walk<'a, DocItem<'a>>, Error> {
        match self.object_type(obj)? {
            ObjType::Map | ObjType::Table => Ok(Box::new(self.entries(obj)?.map(DocItem::Map))),
            ObjType::List => {
                let items = self.items(obj, 0)?.enumerate();
                Ok(Box::new(items.map(|(index, item)| DocItem::List { index, item })))
            }
            ObjType::Text => Ok(Box::new(self.spans(obj)?.into_iter().map(DocItem::Text))),
        }
    }
}

impl<'a> Iterator for DocIter<'a> {
    type Item = DocObjItem<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.items.next() {
                if let (Some(Value::Object(_)), Some(id)) = (item.value(), item.id()) {
                    self.next.insert(id.clone());
                }
                return Some(DocObjItem { obj: self.obj.clone(), item });
            }
            self.obj = self.next.pop_first()?;
            self.items = self.view.items_of(&self.obj).expect("what was met can be read");
        }
    }
}

//! The map keys and mark names of a document, each kept once.

use std::sync::Arc;

use crate::shared::SharedMap;
use crate::slots::Slots;

/// The number of a name in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NameIdx(u32);

/// The names of one document. They are never forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    names: Slots<Arc<str>, 64>,
    by_name: SharedMap<Arc<str>, NameIdx>,
}

impl Names {
    /// The number of `name`, which is added when it is new.
    pub(crate) fn intern(&mut self, name: &str) -> NameIdx {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let name: Arc<str> = name.into();
        let index = NameIdx(self.names.push(Arc::clone(&name)));
        self.by_name.insert(name, index);
        index
    }

    /// The number of `name`, if it is known.
    #[inline]
    pub(crate) fn lookup(&self, name: &str) -> Option<NameIdx> {
        self.by_name.get(name).copied()
    }

    /// The name behind a number of this table.
    #[inline]
    pub(crate) fn get(&self, index: NameIdx) -> &str {
        self.names.get(index.0).map_or("", |name| name)
    }
}

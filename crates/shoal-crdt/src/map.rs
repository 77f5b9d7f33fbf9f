//! The entries of a map or table.

use std::sync::{Arc, OnceLock};

use crate::names::{NameIdx, Names};
use crate::register::Register;
use crate::shared::SharedMap;
use crate::slots::Slots;

/// Up to this many entries a key is looked for by comparing; beyond, through an index.
const SCAN_MAX: usize = 8;

/// The entries of a map or table, deleted ones included, in the order of creation.
///
/// Readers want them in the order of their keys, sorted on demand and kept until the next new key.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapObject {
    entries: Slots<Entry, 16>,
    /// Where the entry of each name is, once there are more than [`SCAN_MAX`].
    index: Index,
    order: OnceLock<Arc<[u32]>>,
    /// The order of the first entries, from before others came.
    old_order: Option<Arc<[u32]>>,
    /// How many entries readers see.
    pub(crate) visible: usize,
}

/// From names to entries.
#[derive(Clone, Debug)]
enum Index {
    /// By the number of the name: in a map with a good part of the document's names.
    Dense(Slots<u32, 256>),
    Sparse(SharedMap<NameIdx, u32>),
}

/// No entry.
const NONE: u32 = u32::MAX;

/// How many places of a dense index there may be for an entry.
const DENSITY: usize = 8;

impl Default for Index {
    fn default() -> Self {
        Self::Dense(Slots::default())
    }
}

impl Index {
    #[inline]
    fn get(&self, name: NameIdx) -> Option<u32> {
        match self {
            Self::Dense(places) => places.get(name.0).copied().filter(|at| *at != NONE),
            Self::Sparse(places) => places.get(&name).copied(),
        }
    }

    /// `entries` is how many there are in the index.
    fn insert(&mut self, name: NameIdx, at: u32, entries: usize) {
        if let Self::Dense(places) = self {
            let needed = name.0 as usize + 1;
            if needed <= DENSITY * (entries + SCAN_MAX) {
                while places.len() < needed {
                    places.push(NONE);
                }
                if let Some(place) = places.get_mut(name.0) {
                    *place = at;
                }
                return;
            }
            let mut sparse = SharedMap::default();
            for (name, at) in (0_u32..).zip(places.iter()).filter(|(_, at)| **at != NONE) {
                sparse.insert(NameIdx(name), *at);
            }
            *self = Self::Sparse(sparse);
        }
        if let Self::Sparse(places) = self {
            places.insert(name, at);
        }
    }

    fn remove(&mut self, name: NameIdx) {
        match self {
            Self::Dense(places) => {
                if let Some(place) = places.get_mut(name.0) {
                    *place = NONE;
                }
            }
            Self::Sparse(places) => drop(places.remove(&name)),
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    name: NameIdx,
    register: Register,
}

impl MapObject {
    /// The register of a key.
    #[inline]
    pub(crate) fn get(&self, name: NameIdx) -> Option<&Register> {
        Some(&self.entries.get(self.position(name)?)?.register)
    }

    fn position(&self, name: NameIdx) -> Option<u32> {
        if self.entries.len() > SCAN_MAX {
            return self.index.get(name);
        }
        (0_u32..).zip(self.entries.iter()).find(|(_, entry)| entry.name == name).map(|(at, _)| at)
    }

    /// Changes the register of a key, or makes one, and keeps count of the visible entries. A
    /// register left without ops goes away: only the last one made can be.
    pub(crate) fn change(
        &mut self,
        name: NameIdx,
        change: impl FnOnce(Option<&mut Register>) -> Option<Register>,
    ) {
        let Some(at) = self.position(name) else {
            if let Some(register) = change(None) {
                self.push(name, register);
            }
            return;
        };
        let Some(entry) = self.entries.get_mut(at) else { return };
        let before = entry.register.is_visible();
        change(Some(&mut entry.register));
        let after = entry.register.is_visible();
        if entry.register.is_empty() {
            debug_assert_eq!(at as usize + 1, self.entries.len(), "ops are undone last first");
            self.pop();
        }
        self.visible = self.visible - usize::from(before) + usize::from(after);
    }

    /// Adds the entry of a new key.
    pub(crate) fn push(&mut self, name: NameIdx, register: Register) {
        self.visible += usize::from(register.is_visible());
        let at = self.entries.push(Entry { name, register });
        if self.entries.len() == SCAN_MAX + 1 {
            for (at, entry) in (0_u32..).zip(self.entries.iter()) {
                self.index.insert(entry.name, at, at as usize);
            }
        } else if self.entries.len() > SCAN_MAX {
            self.index.insert(name, at, at as usize);
        }
        if let Some(order) = self.order.take() {
            self.old_order = Some(order);
        }
    }

    fn pop(&mut self) {
        if let Some(entry) = self.entries.pop() {
            self.index.remove(entry.name);
        }
        self.order.take();
        self.old_order = None;
    }

    /// Records a push of the entries in the order of their keys.
    pub(crate) fn note_sorted(&mut self) {
        let count = u32::try_from(self.entries.len()).unwrap_or(0);
        self.order = OnceLock::from((0..count).collect::<Arc<[u32]>>());
    }

    /// The entries in the order of their keys' bytes.
    pub(crate) fn sorted<'a>(
        &'a self,
        names: &'a Names,
    ) -> impl Iterator<Item = (&'a str, &'a Register)> {
        let order = self.order.get_or_init(|| {
            let known = self.old_order.as_deref().unwrap_or(&[]);
            let count = u32::try_from(self.entries.len()).unwrap_or(0);
            let added = u32::try_from(known.len()).unwrap_or(0)..count;
            let name = |at: u32| self.entries.get(at).map_or("", |entry| names.get(entry.name));
            // The first bytes decide most comparisons without a look at the names.
            let mut order: Vec<(u64, u32)> =
                known.iter().copied().chain(added).map(|at| (prefix(name(at)), at)).collect();
            // A stable sort is fast on sorted prefixes.
            order.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| name(a.1).cmp(name(b.1))));
            order.into_iter().map(|(_, at)| at).collect()
        });
        order.iter().filter_map(|at| {
            let entry = self.entries.get(*at)?;
            Some((names.get(entry.name), &entry.register))
        })
    }
}

/// The first eight bytes as a number of the same order; zeros for missing bytes.
fn prefix(name: &str) -> u64 {
    let mut first = [0; 8];
    let len = name.len().min(8);
    first[..len].copy_from_slice(&name.as_bytes()[..len]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use shoal_history::{Action, ActorIdx, OpId, Scalar};

    use super::*;
    use crate::register::{ObjIdx, RegOp, Succ};

    fn register(counter: u32) -> Register {
        Register::new(RegOp {
            id: OpId { counter, actor: ActorIdx(0) },
            action: Action::Set,
            expand: false,
            object: ObjIdx::NONE,
            value: Scalar::Null,
            mark_name: None,
            succ: Succ::None,
        })
    }

    #[test]
    fn entries_are_found_whether_their_names_are_many_of_all_or_few() {
        let mut names = Names::default();
        let of_all: Vec<NameIdx> =
            (0..4000_u32).map(|number| names.intern(&number.to_string())).collect();
        for step in [1, 3, 400] {
            let mut map = MapObject::default();
            for (number, name) in (0_u32..).zip(of_all.iter().step_by(step).rev()) {
                map.push(*name, register(number + 1));
            }
            for (number, name) in (0..4000).zip(&of_all) {
                assert_eq!(map.get(*name).is_some(), number % step == 0, "{number}");
            }
        }
    }

    #[test]
    fn entries_come_in_the_order_of_their_keys_however_many_there_are() {
        let mut names = Names::default();
        let mut map = MapObject::default();
        for number in 0..40_u32 {
            let name = names.intern(&(number * 7 % 40).to_string());
            map.push(name, register(number + 1));
            let keys: Vec<&str> = map.sorted(&names).map(|(key, _)| key).collect();
            assert_eq!(keys.len(), number as usize + 1);
            assert!(keys.is_sorted());
        }
        assert_eq!(map.visible, 40);
        let name = names.lookup("7").unwrap();
        assert!(map.get(name).is_some());
        assert!(map.get(names.intern("seven")).is_none());
    }
}

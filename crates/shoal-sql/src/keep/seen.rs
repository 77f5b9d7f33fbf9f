//! The values an aggregate over `DISTINCT` has taken.

use crate::Error;
use crate::keep::kept_keys::KeptKeys;
use crate::keep::key::{HashPlaces, hash_value, is_equal, push_key};
use crate::keep::value_list::ValueList;
use crate::keep::{Kept, value_size};
use crate::session::Session;
use crate::value::{Collation, ValueRef};

/// Bytes of a value's places, roughly.
const SLOT_BYTES: usize = 24;

/// A set of values. A value takes no allocation of its own.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    places: HashPlaces,
    values: ValueList,
    kept: Kept,
    /// Values added when no room was left.
    rest: Option<Box<Rest>>,
}

/// Values by their keys, in memory or in files.
#[derive(Debug, Default)]
struct Rest {
    keys: KeptKeys,
    key: Vec<u8>,
}

impl Rest {
    fn make_key(&mut self, value: ValueRef<'_>, collation: Collation) {
        self.key.clear();
        push_key(value, collation, &mut self.key);
    }
}

impl Seen {
    /// Adds a value; false when the set has the value.
    ///
    /// # Errors
    /// When there is no room left and a file cannot be written.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        session: &dyn Session,
        value: ValueRef<'_>,
        collation: Collation,
    ) -> Result<bool, Error> {
        let hash = hash_value(value, collation, 0);
        let known = |place| is_equal(self.values.get(place), value, collation);
        if self.places.find(hash, known).is_some() {
            return Ok(false);
        }
        if let Some(rest) = &mut self.rest {
            rest.make_key(value, collation);
            return rest.keys.insert(session, &rest.key);
        }
        self.places.insert(hash);
        self.values.push(value);
        if !self.kept.try_add(session, || (SLOT_BYTES + value_size(value), 0)) {
            self.rest = Some(Box::default());
        }
        Ok(true)
    }

    /// True where the set has a value.
    ///
    /// # Errors
    /// When a file cannot be read.
    #[inline]
    pub(crate) fn contains(
        &mut self,
        value: ValueRef<'_>,
        collation: Collation,
    ) -> Result<bool, Error> {
        let known = |place| is_equal(self.values.get(place), value, collation);
        if self.places.find(hash_value(value, collation, 0), known).is_some() {
            return Ok(true);
        }
        let Some(rest) = &mut self.rest else { return Ok(false) };
        rest.make_key(value, collation);
        rest.keys.contains(&rest.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::Fixed;

    #[test]
    fn equal_values_are_taken_once() {
        let text = ValueRef::Text;
        let values = [
            (ValueRef::Int(1), true),
            (ValueRef::Real(1.0), false),
            (text(b"1"), true),
            (ValueRef::Blob(b"1"), true),
            (text(b"a"), true),
            (text(b"A"), false),
            (ValueRef::Null, true),
            (ValueRef::Null, false),
            (ValueRef::Real(1.5), true),
        ];
        let mut seen = Seen::default();
        for (value, new) in values {
            assert_eq!(seen.insert(&Fixed, value, Collation::NoCase).unwrap(), new, "{value:?}");
        }
    }
}

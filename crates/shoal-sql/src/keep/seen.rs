//! The values an aggregate over `DISTINCT` has taken.

use crate::Error;
use crate::keep::kept_keys::KeptKeys;
use crate::keep::key::{HashPlaces, hash_value, is_equal, push_key};
use crate::keep::value_list::ValueList;
use crate::session::Session;
use crate::value::{Collation, ValueRef};

/// A set of values. A value takes no allocation of its own.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    places: HashPlaces,
    values: ValueList,
    /// Used instead of the others under a limit of memory.
    limited: Option<Box<KeptKeys>>,
    key: Vec<u8>,
}

impl Seen {
    /// Adds a value; false when the set has the value.
    ///
    /// # Errors
    /// When memory is limited and a file cannot be written.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        session: &dyn Session,
        value: ValueRef<'_>,
        collation: Collation,
    ) -> Result<bool, Error> {
        if session.budget().is_some() {
            self.key.clear();
            push_key(value, collation, &mut self.key);
            return self.limited.get_or_insert_default().insert(session, &self.key);
        }
        Ok(self.insert_unlimited(value, collation))
    }

    /// As [`Seen::insert`] where memory is not limited.
    #[inline]
    pub(crate) fn insert_unlimited(&mut self, value: ValueRef<'_>, collation: Collation) -> bool {
        let hash = hash_value(value, collation, 0);
        let known = |place| is_equal(self.values.get(place), value, collation);
        if self.places.find(hash, known).is_some() {
            return false;
        }
        self.places.insert(hash);
        self.values.push(value);
        true
    }

    /// True where a value was taken, without a limit of memory.
    #[inline]
    pub(crate) fn contains_unlimited(&self, value: ValueRef<'_>, collation: Collation) -> bool {
        let known = |place| is_equal(self.values.get(place), value, collation);
        self.places.find(hash_value(value, collation, 0), known).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(seen.insert_unlimited(value, Collation::NoCase), new, "{value:?}");
        }
    }
}

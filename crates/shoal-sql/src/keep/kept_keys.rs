//! Sets of keys, and the sets of values and rows behind `IN`. Under a limit of memory, keys without
//! room spill to sorted files.

use std::ops::ControlFlow;

use crate::Error;
use crate::keep::key::{KeyPlaces, push_converted_key, with_converted};
use crate::keep::row_list::RowList;
use crate::keep::seen::Seen;
use crate::keep::sort::{Sorter, Values};
use crate::keep::sorted::SortedRows;
use crate::keep::{Kept, SPILL_BYTES_MIN, SortKey, SortPlan, is_full};
use crate::session::Session;
use crate::value::{Affinity, Collation, InRule, Value, ValueRef};

/// Most files a lookup reads one after the other; more are merged into one.
const FILES_MAX: usize = 8;
/// Estimate of a key's cost besides its bytes.
const SLOT_BYTES: usize = 32;

/// A set of keys.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    memory: KeyPlaces,
    /// Bytes of the keys in memory.
    bytes: usize,
    kept: Kept,
    files: Vec<SortedRows>,
    /// Bytes of memory for the files' directories.
    files_kept: Kept,
}

impl KeptKeys {
    /// True where the key is in the set.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(crate) fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        if self.memory.find(key).is_some() {
            return Ok(true);
        }
        for file in &mut self.files {
            let place = file.find(key)?;
            if file.values(place, Some(key))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a key; false when the set has the key.
    ///
    /// # Errors
    /// When a file cannot be written; when even the directories of the files take too much.
    pub(crate) fn insert(&mut self, session: &dyn Session, key: &[u8]) -> Result<bool, Error> {
        if self.contains(key)? {
            return Ok(false);
        }
        let size = SLOT_BYTES + key.len();
        if is_full(session, self.bytes, size) {
            self.spill(session)?;
        }
        self.kept.note(session, size);
        self.bytes += size;
        self.memory.insert(key);
        Ok(true)
    }

    /// Writes the keys in memory to a file.
    #[cold]
    fn spill(&mut self, session: &dyn Session) -> Result<(), Error> {
        let sort = SortPlan { keys: vec![SortKey::ascending(0, Collation::Binary)] };
        let mut sorter = Sorter::default();
        let mut push = |key: &[u8]| {
            let values = Values { first: 0, width: 1 };
            sorter.push(session, (values, &sort), |_| ValueRef::Blob(key), None)
        };
        for key in self.memory.keys() {
            push(key)?;
        }
        if self.files.len() == FILES_MAX {
            for file in &mut self.files {
                file.for_each_key(&mut push)?;
            }
            self.files.clear();
            self.files_kept.clear();
        }
        self.memory = KeyPlaces::default();
        self.kept.clear();
        self.bytes = 0;
        sorter.sort(session, &sort)?;
        let file = SortedRows::write(session, &mut sorter, &sort)?;
        match file.byte_len() {
            small if (small as u64) < SPILL_BYTES_MIN => self.files_kept.note(session, small),
            large => self.files_kept.add(session, large)?,
        }
        self.files.push(file);
        Ok(())
    }
}

/// The values of a query, as `IN` sees them.
#[derive(Debug, Default)]
pub(crate) struct QuerySet {
    /// Integers near zero, relative to their count: a bit for each integer present.
    ints: Vec<u64>,
    kept: Kept,
    others: Seen,
    has_others: bool,
    /// Number of values added, NULLs left out.
    count: usize,
    has_null: bool,
    any: bool,
}

/// The bit for a value equal to a small integer: its word, and the bit within.
#[inline(always)]
fn bit_of(value: ValueRef<'_>) -> Option<(usize, u64)> {
    let int = match value {
        ValueRef::Int(int) => int,
        ValueRef::Real(real) if (real as i64) as f64 == real => real as i64,
        _ => return None,
    };
    let number = usize::try_from(int).ok()?;
    Some((number / 64, 1 << (number % 64)))
}

impl QuerySet {
    /// Adds a value.
    ///
    /// # Errors
    /// As [`Seen::insert`].
    pub(crate) fn insert(
        &mut self,
        session: &dyn Session,
        value: ValueRef<'_>,
        rule: InRule,
    ) -> Result<(), Error> {
        self.any = true;
        if value == ValueRef::Null {
            self.has_null = true;
            return Ok(());
        }
        with_converted(value, rule.affinity, |value| {
            self.insert_converted(session, value, rule.collation)
        })
    }

    #[inline]
    fn insert_converted(
        &mut self,
        session: &dyn Session,
        value: ValueRef<'_>,
        collation: Collation,
    ) -> Result<(), Error> {
        /// Words the first value may use, and words more for each further value.
        const WORDS: usize = 1 << 10;
        const WORDS_EACH: usize = 8;
        self.count += 1;
        if let Some((word, bit)) = bit_of(value) {
            if let Some(word) = self.ints.get_mut(word) {
                *word |= bit;
                return Ok(());
            }
            let more = (word + 1 - self.ints.len()) * size_of::<u64>();
            if word < WORDS.saturating_add(WORDS_EACH * self.count)
                && self.kept.try_add(session, || (more, 0))
            {
                self.ints.resize(word + 1, 0);
                self.ints[word] |= bit;
                return Ok(());
            }
        }
        self.has_others = true;
        self.others.insert(session, value, collation).map(drop)
    }

    /// True where the value is in the set; NULL where only a NULL could tell.
    ///
    /// # Errors
    /// As [`Seen::contains`].
    pub(crate) fn contains(
        &mut self,
        value: ValueRef<'_>,
        rule: InRule,
    ) -> Result<Option<bool>, Error> {
        if !self.any {
            return Ok(Some(false));
        }
        if value == ValueRef::Null {
            return Ok(None);
        }
        let found = with_converted(value, rule.affinity, |value| {
            let has_bit =
                |(word, bit)| self.ints.get(word).is_some_and(|known: &u64| known & bit != 0);
            match bit_of(value).is_some_and(has_bit) {
                true => Ok(true),
                false if self.has_others => self.others.contains(value, rule.collation),
                false => Ok(false),
            }
        })?;
        Ok(match found {
            true => Some(true),
            false => (!self.has_null).then_some(false),
        })
    }
}

/// The rules of comparison for each value of a row.
pub(crate) type Rules<'r> = &'r [(Option<Affinity>, Collation)];

/// The rows of a query, as `IN` sees them.
#[derive(Debug, Default)]
pub(crate) struct QueryRows {
    keys: KeptKeys,
    /// The rows without a NULL and the rows with one: a key for each value, or NULL.
    whole: RowList,
    with_null: RowList,
}

/// The keys of a row's values; `None` for NULL.
fn value_keys(row: &[Value], rules: Rules<'_>) -> Vec<Option<Vec<u8>>> {
    let key = |(value, (affinity, collation)): (&Value, &(Option<Affinity>, Collation))| {
        if value.is_null() {
            return None;
        }
        let mut key = Vec::new();
        push_converted_key(value.as_ref(), *affinity, *collation, &mut key);
        Some(key)
    };
    row.iter().zip(rules).map(key).collect()
}

/// One key of all values' keys. A value's key is self-delimiting, and no key begins with the byte
/// of NULL.
fn whole_key(keys: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut whole = Vec::new();
    for key in keys {
        match key {
            Some(key) => whole.extend_from_slice(key),
            None => whole.push(0),
        }
    }
    whole
}

impl QueryRows {
    /// Adds a row.
    ///
    /// # Errors
    /// As [`KeptKeys::insert`].
    pub(crate) fn insert(
        &mut self,
        session: &dyn Session,
        row: &[Value],
        rules: Rules<'_>,
    ) -> Result<(), Error> {
        let keys = value_keys(row, rules);
        if !self.keys.insert(session, &whole_key(&keys))? {
            return Ok(());
        }
        let list = match keys.iter().all(Option::is_some) {
            true => &mut self.whole,
            false => &mut self.with_null,
        };
        list.push(
            session,
            keys.iter().map(|key| key.as_deref().map_or(ValueRef::Null, ValueRef::Blob)),
        )
    }

    /// True where the row is in the set; NULL where only a NULL could tell.
    ///
    /// # Errors
    /// As [`KeptKeys::contains`].
    pub(crate) fn contains(
        &mut self,
        row: &[Value],
        rules: Rules<'_>,
    ) -> Result<Option<bool>, Error> {
        let keys = value_keys(row, rules);
        let whole = keys.iter().all(Option::is_some);
        if whole && self.keys.contains(&whole_key(&keys))? {
            return Ok(Some(true));
        }
        let may_be = |list: &mut RowList| {
            let mut found = false;
            list.for_each(|row| {
                found = row.zip(&keys).all(|(value, key)| match (value, key) {
                    (ValueRef::Blob(value), Some(key)) => value == key.as_slice(),
                    _ => true,
                });
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok::<bool, Error>(found)
        };
        // Without a NULL on either side an equal row would have been found.
        let unknown = may_be(&mut self.with_null)? || (!whole && may_be(&mut self.whole)?);
        Ok((!unknown).then_some(false))
    }
}

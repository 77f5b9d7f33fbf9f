//! Keys of groups, sets and joins: values as bytes, equal exactly when the values are.

use crate::value::number::numeric_from_text;
use crate::value::{Affinity, Collation, TextNumber, Value, ValueRef, real_to_text};

const NULL: u8 = 0;
const INT: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// Appends a value's key: two keys are equal exactly when SQL finds the values equal under the
/// collation; two NULLs are equal here.
pub(crate) fn push_key(value: ValueRef<'_>, collation: Collation, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(NULL),
        ValueRef::Int(int) => push_int(int, out),
        ValueRef::Real(real) => {
            let int = real as i64;
            // A real with an integer's value equals the integer; the cast saturates, so the last
            // integer is left out.
            if int as f64 == real && int != i64::MAX {
                push_int(int, out);
            } else {
                out.push(REAL);
                out.extend_from_slice(&real.to_bits().to_le_bytes());
            }
        }
        ValueRef::Text(bytes) => {
            out.push(TEXT);
            match collation {
                Collation::Binary | Collation::Utf16(_) => push_bytes(bytes, out),
                Collation::NoCase => {
                    let end = out.len() + size_of::<u64>() + bytes.len();
                    push_len(bytes.len(), out);
                    out.extend(Collation::folded(bytes));
                    out.resize(end, 0);
                }
                Collation::Rtrim => {
                    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
                    push_bytes(&bytes[..end], out);
                }
                Collation::Own(own) => out.extend_from_slice(&own.class_of(bytes).to_le_bytes()),
            }
        }
        ValueRef::Blob(bytes) => {
            out.push(BLOB);
            push_bytes(bytes, out);
        }
    }
}

/// Appends the key of a row, one value's behind the other's: as many as there are collations.
pub(crate) fn push_row_key<'v>(
    row: impl Iterator<Item = ValueRef<'v>>,
    collations: &[Collation],
    out: &mut Vec<u8>,
) {
    for (value, collation) in row.zip(collations) {
        push_key(value, *collation, out);
    }
}

fn push_int(int: i64, out: &mut Vec<u8>) {
    out.push(INT);
    out.extend_from_slice(&int.to_le_bytes());
}

fn push_len(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    push_len(bytes.len(), out);
    out.extend_from_slice(bytes);
}

/// Appends a value's key after giving the value an affinity.
pub(crate) fn push_converted_key(
    value: ValueRef<'_>,
    affinity: Option<Affinity>,
    collation: Collation,
    out: &mut Vec<u8>,
) {
    with_converted(value, affinity, |value| push_key(value, collation, out));
}

/// Calls `take` with a value after applying an affinity.
#[inline]
pub(crate) fn with_converted<T>(
    value: ValueRef<'_>,
    affinity: Option<Affinity>,
    take: impl FnOnce(ValueRef<'_>) -> T,
) -> T {
    match (affinity, value) {
        (Some(affinity), ValueRef::Text(_) | ValueRef::Int(_) | ValueRef::Real(_))
            if affinity.is_numeric() == matches!(value, ValueRef::Text(_)) =>
        {
            take(affinity.apply_for_comparison(Value::from(value)).as_ref())
        }
        _ => take(value),
    }
}

/// Appends a key for a comparison with the affinity `TEXT` where both sides may be numbers. Two
/// numbers are compared as numbers, a number and a text as texts: 1 equals 1.0 and `'1'`, but 1.0
/// does not equal `'1'`, so no key can be equal exactly when the values are. Near keys are equal
/// when the values are, and sometimes when the values differ: the caller compares again.
pub(crate) fn push_near_key(value: ValueRef<'_>, collation: Collation, out: &mut Vec<u8>) {
    /// Up to here reals have every integer, and their texts all digits.
    const EXACT: f64 = (1_i64 << 53) as f64;
    let number = match value {
        ValueRef::Text(text) => match numeric_from_text(text) {
            Some(TextNumber::Int(int)) => ValueRef::Int(int),
            Some(TextNumber::Real(real)) if real.abs() <= EXACT => ValueRef::Real(real),
            // Larger reals and their texts may differ in the last digit.
            _ => value,
        },
        value => value,
    };
    let real = match number {
        ValueRef::Int(int) => {
            let real = int as f64;
            if real.abs() <= EXACT || real as i128 != i128::from(int) {
                return push_int(int, out);
            }
            real
        }
        ValueRef::Real(real) if real.abs() <= EXACT && real.trunc() == real => {
            return push_int(real as i64, out);
        }
        ValueRef::Real(real) if value == number => real,
        _ => return push_key(value, collation, out),
    };
    push_key(ValueRef::Text(real_to_text(real).as_bytes()), collation, out);
}

/// A set of values with the meaning of `IN`.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: KeyPlaces,
    has_null: bool,
    any: bool,
}

impl KeySet {
    pub(crate) fn insert(
        &mut self,
        value: ValueRef<'_>,
        affinity: Option<Affinity>,
        collation: Collation,
    ) {
        self.any = true;
        if value == ValueRef::Null {
            self.has_null = true;
            return;
        }
        let mut key = Vec::new();
        push_converted_key(value, affinity, collation, &mut key);
        if self.keys.find(&key).is_none() {
            self.keys.insert(&key);
        }
    }

    /// True where the value is in the set; NULL where only a NULL could tell.
    pub(crate) fn contains(
        &self,
        value: ValueRef<'_>,
        affinity: Option<Affinity>,
        collation: Collation,
    ) -> Option<bool> {
        if !self.any {
            return Some(false);
        }
        if value == ValueRef::Null {
            return None;
        }
        let mut key = Vec::new();
        push_converted_key(value, affinity, collation, &mut key);
        if self.keys.find(&key).is_some() {
            Some(true)
        } else if self.has_null {
            None
        } else {
            Some(false)
        }
    }
}

/// Rows already seen, by all their values: the bytes of their keys, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    places: HashPlaces,
    keys: Vec<u8>,
    /// End of each key.
    ends: Vec<usize>,
}

impl RowSet {
    /// Adds a row; false when an equal one is there. No allocation of its own for a row.
    pub(crate) fn insert<'v>(
        &mut self,
        row: impl Iterator<Item = ValueRef<'v>>,
        collations: &[Collation],
    ) -> bool {
        let start = self.keys.len();
        push_row_key(row, collations, &mut self.keys);
        let hash = hash_bytes(&self.keys[start..], 0);
        if self.find(hash, start).is_some() {
            self.keys.truncate(start);
            return false;
        }
        self.places.insert(hash);
        self.ends.push(self.keys.len());
        true
    }

    pub(crate) fn contains<'v>(
        &mut self,
        row: impl Iterator<Item = ValueRef<'v>>,
        collations: &[Collation],
    ) -> bool {
        self.place(row, collations).is_some()
    }

    /// The number of an equal row, in the order of insertion.
    pub(crate) fn place<'v>(
        &mut self,
        row: impl Iterator<Item = ValueRef<'v>>,
        collations: &[Collation],
    ) -> Option<usize> {
        let start = self.keys.len();
        push_row_key(row, collations, &mut self.keys);
        let hash = hash_bytes(&self.keys[start..], 0);
        let found = self.find(hash, start);
        self.keys.truncate(start);
        found
    }

    /// The number of an earlier key equal to the last one, which begins at `start`.
    fn find(&self, hash: u64, start: usize) -> Option<usize> {
        let (keys, key) = self.keys.split_at(start);
        let known = |place: usize| {
            let from = place.checked_sub(1).map_or(0, |before| self.ends[before]);
            keys.get(from..self.ends[place])
        };
        self.places.find(hash, |place| known(place) == Some(key))
    }
}

/// Keys, one behind the other, each found by its bytes. Keys are numbered in the order of
/// insertion.
#[derive(Debug, Default)]
pub(crate) struct KeyPlaces {
    places: HashPlaces,
    bytes: Vec<u8>,
    /// End of each key.
    ends: Vec<usize>,
}

impl KeyPlaces {
    /// The number of a key. No allocation.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.places.find(hash_bytes(key, 0), |number| {
            let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
            self.bytes.get(start..self.ends[number]) == Some(key)
        })
    }

    /// All keys, in the order of insertion.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// Adds a key; the key must not be present.
    pub(crate) fn insert(&mut self, key: &[u8]) {
        self.places.insert(hash_bytes(key, 0));
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
}

/// A hash table of places: numbers from 0, given in the order of insertion. The keys stay with the
/// caller, who compares them, so equal hashes of unequal keys do no harm.
#[derive(Debug, Default)]
pub(crate) struct HashPlaces {
    /// A place plus one, below half of its hash; 0 for an empty slot. The size is 0 or a power of
    /// two.
    slots: Vec<u64>,
    hashes: Vec<u64>,
}

impl HashPlaces {
    /// The place with this hash accepted by `is`.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = spread(hash) & mask;
        while let Some(found) = self.slots[slot].checked_sub(1) {
            // The upper half of the hash did not choose the slot: it tells most others apart.
            let place = found as u32 as usize;
            if (found >> 32) as u32 == hash as u32 && is(place) {
                return Some(place);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// Adds an entry; the entry must not be present.
    pub(crate) fn insert(&mut self, hash: u64) -> usize {
        // At most half of the slots are taken: an empty slot is always near.
        if (self.hashes.len() + 1) * 2 > self.slots.len() {
            let size = (self.slots.len() * 2).max(16);
            self.slots.clear();
            self.slots.resize(size, 0);
            for place in 0..self.hashes.len() {
                self.put(place);
            }
        }
        self.hashes.push(hash);
        self.put(self.hashes.len() - 1);
        self.hashes.len() - 1
    }

    /// The hash of the thing at a place.
    pub(crate) fn hash(&self, place: usize) -> u64 {
        self.hashes[place]
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.hashes.clear();
    }

    fn put(&mut self, place: usize) {
        let mask = self.slots.len() - 1;
        let hash = self.hashes[place];
        let mut slot = spread(hash) & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        // Four billion keys do not fit into memory.
        self.slots[slot] = (hash << 32) | (place as u64 + 1);
    }
}

/// A hash's upper bits are its best ones.
#[inline]
fn spread(hash: u64) -> usize {
    (hash >> 32) as usize
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash.rotate_left(23) ^ word) * u128::from(FACTOR);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A hash of bytes.
#[inline]
pub(crate) fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut hash = mix(seed, bytes.len() as u64 ^ FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    if rest.is_empty() { hash } else { mix(hash, word_of(rest)) }
}

/// A number, different for different bytes of one length from 1 to 7, without a loop over the
/// bytes.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let at = |place: usize| u64::from(bytes.get(place).copied().unwrap_or(0));
    // Of up to three bytes, the first, the last and the one between.
    at(0) << 16 | at(bytes.len() / 2) << 8 | at(bytes.len() - 1)
}

/// A hash of a value, the same for values equal under the collation.
#[inline]
pub(crate) fn hash_value(value: ValueRef<'_>, collation: Collation, seed: u64) -> u64 {
    match value {
        ValueRef::Null => mix(seed, 1),
        ValueRef::Int(int) => mix(seed ^ 2, int.cast_unsigned()),
        ValueRef::Real(real) => {
            let int = real as i64;
            if int as f64 == real && int != i64::MAX {
                mix(seed ^ 2, int.cast_unsigned())
            } else {
                mix(seed ^ 3, real.to_bits())
            }
        }
        ValueRef::Text(bytes) => match collation {
            Collation::Binary | Collation::Utf16(_) => hash_bytes(bytes, seed ^ 4),
            Collation::NoCase => Collation::folded(bytes)
                .fold(mix(seed ^ bytes.len() as u64, 5), |hash, byte| mix(hash, byte.into())),
            Collation::Rtrim => {
                let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
                hash_bytes(&bytes[..end], seed ^ 6)
            }
            Collation::Own(own) => mix(seed ^ 8, own.class_of(bytes)),
        },
        ValueRef::Blob(bytes) => hash_bytes(bytes, seed ^ 7),
    }
}

/// True where two values are the same to groups and sets; two NULLs are.
#[inline]
pub(crate) fn is_equal(left: ValueRef<'_>, right: ValueRef<'_>, by: Collation) -> bool {
    match (left, right) {
        (ValueRef::Int(left), ValueRef::Int(right)) => left == right,
        (ValueRef::Text(left), ValueRef::Text(right)) if by == Collation::Binary => left == right,
        _ => left.compare(right, by).is_eq(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{CompareOp, Comparison, compare_by};

    fn key(value: ValueRef<'_>, collation: Collation) -> Vec<u8> {
        let mut out = Vec::new();
        push_key(value, collation, &mut out);
        out
    }

    #[test]
    fn keys_are_equal_exactly_when_values_are() {
        let values = [
            ValueRef::Null,
            ValueRef::Int(0),
            ValueRef::Int(1),
            ValueRef::Int(i64::MAX),
            ValueRef::Int(i64::MIN),
            ValueRef::Int((1 << 53) + 1),
            ValueRef::Real(0.0),
            ValueRef::Real(-0.0),
            ValueRef::Real(1.0),
            ValueRef::Real(1.5),
            ValueRef::Real(9_007_199_254_740_992.0),
            ValueRef::Real(9_223_372_036_854_775_808.0),
            ValueRef::Real(-9_223_372_036_854_775_808.0),
            ValueRef::Real(f64::INFINITY),
            ValueRef::Text(b""),
            ValueRef::Text(b"a"),
            ValueRef::Text(b"A"),
            ValueRef::Text(b"a "),
            ValueRef::Text(b"a\0b"),
            ValueRef::Text(b"A\0c"),
            ValueRef::Text(b"a\0bc"),
            ValueRef::Blob(b""),
            ValueRef::Blob(b"a"),
        ];
        for collation in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
            for a in values {
                for b in values {
                    let equal = a.compare(b, collation).is_eq();
                    if equal {
                        let hash = |value| hash_value(value, collation, 0);
                        assert_eq!(hash(a), hash(b), "{a:?} {b:?}");
                    }
                    assert_eq!(key(a, collation) == key(b, collation), equal, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn near_keys_are_equal_where_values_are_under_text() {
        let reals =
            [0.0, -0.0, 1.0, 1.5, 0.1 + 0.2, 1e15, 1e16, 1e17, 1.234e300, 5e-324, f64::INFINITY];
        let ints = [0, 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 53) + 2, i64::MAX, i64::MIN];
        let mut values: Vec<Value> = ints.map(Value::Int).into();
        values.extend(reals.into_iter().flat_map(|real| [Value::Real(real), Value::Real(-real)]));
        values.extend(ints.map(|int| Value::Real(int as f64)));
        // A real and its text may part where the text has the last digit wrong.
        let mut state = 1_u64;
        for _ in 0..300 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let real = f64::from_bits(state);
            let near = [real, real.trunc(), (state >> 5) as f64];
            values.extend(near.into_iter().filter(|real| !real.is_nan()).map(Value::Real));
            values.push(Value::Int((state >> 3).cast_signed()));
        }
        let texts: Vec<Value> =
            values.iter().map(|value| Affinity::Text.apply(value.clone())).collect();
        values.extend(texts);
        values.extend(["1 ", "1e0", "1.0 ", "1.50", "inf", "INF ", "", "x"].map(Value::from));
        values.push(Value::Blob(b"1".to_vec()));
        for by in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
            let rule =
                Comparison { op: CompareOp::Equal, affinity: Some(Affinity::Text), collation: by };
            let near = |value: &Value| {
                let mut key = Vec::new();
                push_near_key(value.as_ref(), by, &mut key);
                key
            };
            let keys: Vec<Vec<u8>> = values.iter().map(near).collect();
            for (a, a_key) in values.iter().zip(&keys) {
                for (b, b_key) in values.iter().zip(&keys) {
                    if compare_by(rule, a.as_ref(), b.as_ref()) == Some(true) {
                        assert_eq!(a_key, b_key, "{a:?} {b:?} {by:?}");
                    }
                }
            }
        }
        let far = [Value::Int(1), Value::Int(2), Value::Real(1.5), Value::text("x")];
        let mut keys: Vec<Vec<u8>> = far
            .iter()
            .map(|value| {
                let mut key = Vec::new();
                push_near_key(value.as_ref(), Collation::Binary, &mut key);
                key
            })
            .collect();
        keys.dedup();
        assert_eq!(keys.len(), far.len());
    }

    #[test]
    fn sets_answer_null_where_null_could_be_it() {
        let mut set = KeySet::default();
        let contains = |set: &KeySet, value| set.contains(value, None, Collation::Binary);
        assert_eq!(contains(&set, ValueRef::Null), Some(false));
        set.insert(ValueRef::Int(1), None, Collation::Binary);
        assert_eq!(contains(&set, ValueRef::Real(1.0)), Some(true));
        assert_eq!(contains(&set, ValueRef::Int(2)), Some(false));
        assert_eq!(contains(&set, ValueRef::Null), None);
        set.insert(ValueRef::Null, None, Collation::Binary);
        assert_eq!(contains(&set, ValueRef::Int(1)), Some(true));
        assert_eq!(contains(&set, ValueRef::Int(2)), None);
    }
}

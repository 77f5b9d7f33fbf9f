//! Keys of groups, sets and joins: values as bytes that are equal when the values are.

use rustc_hash::FxHashMap;

use crate::value::{Affinity, Collation, Value, ValueRef};

const NULL: u8 = 0;
const INT: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// Appends a value so that two values have equal bytes exactly when SQL finds them equal under
/// the collation; two NULLs are equal here.
pub(crate) fn push_key(value: ValueRef<'_>, collation: Collation, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(NULL),
        ValueRef::Int(int) => push_int(int, out),
        ValueRef::Real(real) => {
            let int = real as i64;
            // Reals that are integers equal those; the cast saturates, so its end is left out.
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
                Collation::Binary => push_bytes(bytes, out),
                Collation::NoCase => {
                    push_len(bytes.len(), out);
                    out.extend(bytes.iter().map(u8::to_ascii_lowercase));
                }
                Collation::Rtrim => {
                    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
                    push_bytes(&bytes[..end], out);
                }
            }
        }
        ValueRef::Blob(bytes) => {
            out.push(BLOB);
            push_bytes(bytes, out);
        }
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
    match (affinity, value) {
        (Some(affinity), ValueRef::Text(_) | ValueRef::Int(_) | ValueRef::Real(_))
            if affinity.is_numeric() == matches!(value, ValueRef::Text(_)) =>
        {
            let converted = affinity.apply_for_comparison(Value::from(value));
            push_key(converted.as_ref(), collation, out);
        }
        _ => push_key(value, collation, out),
    }
}

/// A set of values as `IN` sees it.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: FxHashMap<Box<[u8]>, ()>,
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
        self.keys.insert(key.into(), ());
    }

    /// Whether the value is in the set; NULL where only a NULL could tell.
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
        if self.keys.contains_key(key.as_slice()) {
            Some(true)
        } else if self.has_null {
            None
        } else {
            Some(false)
        }
    }
}

/// Rows already seen, by all their values.
#[derive(Debug, Default)]
pub(crate) struct RowSet {
    rows: FxHashMap<Box<[u8]>, ()>,
    buffer: Vec<u8>,
}

impl RowSet {
    /// Adds a row; false when an equal one is there.
    pub(crate) fn insert(&mut self, row: &[Value], collations: &[Collation]) -> bool {
        self.encode(row, collations);
        if self.rows.contains_key(self.buffer.as_slice()) {
            return false;
        }
        self.rows.insert(self.buffer.as_slice().into(), ());
        true
    }

    pub(crate) fn contains(&mut self, row: &[Value], collations: &[Collation]) -> bool {
        self.encode(row, collations);
        self.rows.contains_key(self.buffer.as_slice())
    }

    fn encode(&mut self, row: &[Value], collations: &[Collation]) {
        self.buffer.clear();
        for (value, collation) in row.iter().zip(collations) {
            push_key(value.as_ref(), *collation, &mut self.buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ValueRef::Blob(b""),
            ValueRef::Blob(b"a"),
        ];
        for collation in [Collation::Binary, Collation::NoCase, Collation::Rtrim] {
            for a in values {
                for b in values {
                    let equal = a.compare(b, collation).is_eq();
                    assert_eq!(key(a, collation) == key(b, collation), equal, "{a:?} {b:?}");
                }
            }
        }
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

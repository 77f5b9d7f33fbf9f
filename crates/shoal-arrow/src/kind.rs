//! Types of columns: by the values, or by the declarations of tables.

use std::collections::HashSet;

use arrow_schema::DataType;
use shoal_sql::{Affinity, ValueRef};

/// Doubles have all integers up to there.
pub(crate) const EXACT: u64 = 1 << 53;

/// The kinds of values seen in a column so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    integers: bool,
    /// Integers beyond 2^53, not exact as doubles.
    large: bool,
    reals: bool,
    texts: bool,
    blobs: bool,
    /// Texts outside UTF-8.
    broken_texts: bool,
}

impl Seen {
    /// Looks at one more value.
    pub fn value(&mut self, value: ValueRef<'_>) {
        match value {
            ValueRef::Null => {}
            ValueRef::Int(value) => {
                self.integers = true;
                self.large |= value.unsigned_abs() > EXACT;
            }
            ValueRef::Real(_) => self.reals = true,
            ValueRef::Text(text) if self.has_bytes() || std::str::from_utf8(text).is_ok() => {
                self.texts = true;
            }
            ValueRef::Text(_) => self.broken_texts = true,
            ValueRef::Blob(_) => self.blobs = true,
        }
    }

    fn has_bytes(self) -> bool {
        self.blobs || self.broken_texts
    }

    /// The narrowest type for all of the values, none of them lost. Without a value but NULL the
    /// declaration tells, and texts are the last resort.
    pub fn kind(self, declared: Option<&str>) -> DataType {
        match self {
            seen if seen.has_bytes() => DataType::Binary,
            Seen { texts: true, .. } => DataType::Utf8,
            Seen { reals: true, large: true, .. } => DataType::Utf8,
            Seen { reals: true, .. } => DataType::Float64,
            Seen { integers: true, .. } => DataType::Int64,
            _ => declared.and_then(declared_type).unwrap_or(DataType::Utf8),
        }
    }

    /// The way that values of the column go into its type: as they are where all of them are of
    /// one kind of SQL, integers among reals included, and converted otherwise.
    pub fn fit(self) -> Fit {
        let Seen { integers, large, reals, texts, blobs, broken_texts } = self;
        let numbers = integers || reals;
        let kinds = [numbers, texts || broken_texts, blobs].into_iter().filter(|&is| is).count();
        match kinds > 1 || broken_texts || (reals && large) {
            true => Fit::Converted,
            false => Fit::AsIs,
        }
    }
}

/// The way that values go into a column of Arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Values are of the column's kind, and compare in Arrow as they do in SQL; an integer that a
    /// double holds exactly is at home among reals.
    AsIs,
    /// Numbers become texts, and texts bytes, where the type asks for it.
    Converted,
}

/// The type told by a declaration, where one does: those of integers, reals, texts and blobs.
/// A column without a declared type, or with one such as `DECIMAL` or `DATE`, may hold anything.
pub fn declared_type(declared: &str) -> Option<DataType> {
    match Affinity::of_declared_type(declared) {
        Affinity::Integer => Some(DataType::Int64),
        Affinity::Real => Some(DataType::Float64),
        Affinity::Text => Some(DataType::Utf8),
        Affinity::Blob if !declared.trim().is_empty() => Some(DataType::Binary),
        Affinity::Blob | Affinity::Numeric => None,
    }
}

/// Names that no two columns share: readers find columns by their names.
pub fn distinct_names(names: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let distinct = names.iter().map(|name| {
        let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        candidates.find(|name| taken.insert(name.clone())).expect("numbers do not end")
    });
    distinct.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[ValueRef<'_>]) -> (DataType, Fit) {
        let mut seen = Seen::default();
        values.iter().for_each(|value| seen.value(*value));
        (seen.kind(None), seen.fit())
    }

    #[test]
    fn kinds_hold_every_value_seen() {
        use ValueRef::{Blob, Int, Null, Real, Text};
        let large = (1 << 53) + 1;
        assert_eq!(of(&[Null, Int(large)]), (DataType::Int64, Fit::AsIs));
        assert_eq!(of(&[Int(1), Real(0.5)]), (DataType::Float64, Fit::AsIs));
        assert_eq!(of(&[Int(large), Real(0.5)]), (DataType::Utf8, Fit::Converted));
        assert_eq!(of(&[Text(b"a"), Null]), (DataType::Utf8, Fit::AsIs));
        assert_eq!(of(&[Text(b"a"), Int(1)]), (DataType::Utf8, Fit::Converted));
        assert_eq!(of(&[Text(b"\xff")]), (DataType::Binary, Fit::Converted));
        assert_eq!(of(&[Blob(b"\xff")]), (DataType::Binary, Fit::AsIs));
        assert_eq!(of(&[Blob(b"\xff"), Text(b"a")]), (DataType::Binary, Fit::Converted));
        assert_eq!(of(&[Null]), (DataType::Utf8, Fit::AsIs));
        assert_eq!(Seen::default().kind(Some("BIGINT")), DataType::Int64);
    }

    #[test]
    fn declarations_tell_or_do_not() {
        for (declared, kind) in [
            ("INTEGER", Some(DataType::Int64)),
            ("varchar(10)", Some(DataType::Utf8)),
            ("double precision", Some(DataType::Float64)),
            ("blob", Some(DataType::Binary)),
            ("", None),
            ("DECIMAL(10,2)", None),
            ("DATETIME", None),
        ] {
            assert_eq!(declared_type(declared), kind, "{declared}");
        }
        let names = ["a", "b", "a", "a_2"].map(str::to_owned);
        assert_eq!(distinct_names(&names), ["a", "b", "a_2", "a_2_2"]);
    }
}

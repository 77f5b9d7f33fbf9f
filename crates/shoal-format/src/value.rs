//! Stored values, borrowed, and their order (file format §2.1; ordering as in SQLite's datatypes
//! page §4).

use std::cmp::Ordering;

use crate::OwnCollation;
use crate::utf16::{self, ByteOrder};

/// A value of a record, borrowed from the page or from the caller.
///
/// Text is bytes: the format allows text that is not valid in the file's encoding, and it must
/// round-trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueRef<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// A float; never NaN in a record, which stores NaN as NULL.
    Real(f64),
    /// Text in the file's encoding.
    Text(&'a [u8]),
    /// A blob.
    Blob(&'a [u8]),
}

impl ValueRef<'_> {
    /// Returns the order of two values: NULL, then numbers, then text, then blobs. Text compares by
    /// `collation`, blobs byte by byte, an integer with a float without loss.
    #[inline]
    pub fn compare(self, other: ValueRef<'_>, collation: Collation) -> Ordering {
        use ValueRef::{Blob, Int, Null, Real, Text};
        match (self, other) {
            (Int(a), Int(b)) => a.cmp(&b),
            (Text(a), Text(b)) => collation.compare(a, b),
            (Real(a), Real(b)) => compare_reals(a, b),
            (Int(a), Real(b)) => compare_int_real(a, b),
            (Real(a), Int(b)) => compare_int_real(b, a).reverse(),
            (Blob(a), Blob(b)) => a.cmp(b),
            (Null, Null) => Ordering::Equal,
            _ => self.class().cmp(&other.class()),
        }
    }

    fn class(self) -> u8 {
        match self {
            ValueRef::Null => 0,
            ValueRef::Int(_) | ValueRef::Real(_) => 1,
            ValueRef::Text(_) => 2,
            ValueRef::Blob(_) => 3,
        }
    }
}

/// NaN counts as smallest, so that the order is total; SQLite never stores one.
fn compare_reals(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_int_real(int: i64, real: f64) -> Ordering {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() || real < -TWO_TO_63 {
        return Ordering::Greater;
    }
    if real >= TWO_TO_63 {
        return Ordering::Less;
    }
    // In range, so the conversion only drops the fraction; when the whole parts are equal the
    // fraction decides, and a float that has one is below 2^53, where `int as f64` is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
    int.cmp(&(real as i64)).then_with(|| compare_reals(int as f64, real))
}

/// How two texts compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// Byte by byte.
    #[default]
    Binary,
    /// As [`Collation::Binary`] with ASCII letters folded to lower case. Texts that are equal up to
    /// a NUL are ordered by their lengths alone: SQLite does not look behind it.
    NoCase,
    /// As [`Collation::Binary`] without trailing spaces.
    Rtrim,
    /// By the bytes that the texts, which are UTF-8, have in UTF-16: what `BINARY` means in a file
    /// of that encoding.
    Utf16(ByteOrder),
    /// By a program's own function.
    Own(OwnCollation),
}

impl Collation {
    /// Returns the order of two texts.
    #[inline]
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Collation::Binary => a.cmp(b),
            Collation::NoCase => {
                for (a, b) in a.iter().zip(b) {
                    let order = a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase());
                    if order.is_ne() {
                        return order;
                    }
                    if *a == 0 {
                        break;
                    }
                }
                a.len().cmp(&b.len())
            }
            Collation::Rtrim => trim_spaces(a).cmp(trim_spaces(b)),
            Collation::Utf16(order) => utf16::compare(a, b, order),
            Collation::Own(own) => own.compare(a, b),
        }
    }

    /// Returns the collation SQLite calls `name`, in any case.
    pub fn named(name: &str) -> Option<Collation> {
        [Collation::Binary, Collation::NoCase, Collation::Rtrim]
            .into_iter()
            .find(|collation| collation.name().eq_ignore_ascii_case(name))
    }

    /// The bytes of a text that [`Collation::NoCase`] looks at, folded; beside them only the text's
    /// length counts.
    #[inline]
    pub fn folded(text: &[u8]) -> impl Iterator<Item = u8> {
        let end = text.iter().position(|&byte| byte == 0).map_or(text.len(), |at| at + 1);
        text[..end].iter().map(u8::to_ascii_lowercase)
    }

    /// Returns SQLite's name of the collation, or the program's name of its own.
    pub fn name(self) -> &'static str {
        match self {
            Collation::Binary | Collation::Utf16(_) => "BINARY",
            Collation::NoCase => "NOCASE",
            Collation::Rtrim => "RTRIM",
            Collation::Own(own) => own.name(),
        }
    }
}

fn trim_spaces(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |index| index + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_then_values() {
        let sorted = [
            ValueRef::Null,
            ValueRef::Real(f64::NEG_INFINITY),
            ValueRef::Int(i64::MIN),
            ValueRef::Real(-1.5),
            ValueRef::Int(-1),
            ValueRef::Int(0),
            ValueRef::Real(0.5),
            ValueRef::Int(1 << 53),
            ValueRef::Int((1 << 53) + 1),
            ValueRef::Real(9_007_199_254_740_994.0),
            ValueRef::Int(i64::MAX),
            ValueRef::Real(9_223_372_036_854_775_808.0),
            ValueRef::Text(b""),
            ValueRef::Text(b"a"),
            ValueRef::Blob(b""),
            ValueRef::Blob(b"\0"),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.compare(*b, Collation::Binary), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        assert_eq!(
            ValueRef::Int(i64::MIN).compare(ValueRef::Real(i64::MIN as f64), Collation::Binary),
            Ordering::Equal
        );
    }

    #[test]
    fn collations() {
        let check = |collation: Collation, a: &[u8], b: &[u8], expect: Ordering| {
            assert_eq!(collation.compare(a, b), expect, "{collation:?} {a:?} {b:?}");
        };
        check(Collation::Binary, b"a", b"B", Ordering::Greater);
        check(Collation::NoCase, b"a", b"B", Ordering::Less);
        check(Collation::NoCase, b"ABC", b"abc", Ordering::Equal);
        check(Collation::NoCase, b"ab", b"ABC", Ordering::Less);
        check(Collation::NoCase, b"a\0b", b"A\0C", Ordering::Equal);
        check(Collation::NoCase, b"a\0b", b"a\0ab", Ordering::Less);
        check(Collation::NoCase, b"a\0z", b"ab", Ordering::Less);
        check(Collation::NoCase, b"a", b"a\0", Ordering::Less);
        check(Collation::NoCase, "\u{c4}".as_bytes(), "\u{e4}".as_bytes(), Ordering::Less);
        check(Collation::Rtrim, b"a  ", b"a", Ordering::Equal);
        check(Collation::Rtrim, b"a\t", b"a", Ordering::Greater);
        check(Collation::Rtrim, b"  ", b"", Ordering::Equal);
        assert_eq!(Collation::named("nocase"), Some(Collation::NoCase));
        assert_eq!(Collation::named("german"), None);
    }

    proptest! {
        /// Against arithmetic in i128, which holds every i64 and the whole part of any such float.
        #[test]
        fn ints_and_reals_compare_exactly(int: i64, near in -3_i64..4, scale in 0_u32..63) {
            let int = int >> scale;
            let real = int.wrapping_add(near) as f64 + 0.25 * near as f64;
            let whole = real.floor() as i128;
            let expect = i128::from(int).cmp(&whole)
                .then(if real > real.floor() { Ordering::Less } else { Ordering::Equal });
            let got = ValueRef::Int(int).compare(ValueRef::Real(real), Collation::Binary);
            prop_assert_eq!(got, expect);
        }
    }
}

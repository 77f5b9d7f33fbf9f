//! The order of values: NULL, then numbers, then text by a collation, then blobs.

use std::cmp::Ordering;

use super::ValueRef;

/// How two texts are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Collation {
    /// By bytes.
    #[default]
    Binary,
    /// By bytes, with the 26 ASCII capitals folded to small letters.
    NoCase,
    /// By bytes, trailing spaces ignored.
    Rtrim,
}

/// Orders two values; two NULLs are equal here.
///
/// Integers and reals compare exactly: no integer is rounded to a real on the way.
pub fn compare(left: ValueRef<'_>, right: ValueRef<'_>, collation: Collation) -> Ordering {
    use ValueRef::{Blob, Int, Null, Real, Text};
    match (left, right) {
        (Null, Null) => Ordering::Equal,
        (Null, _) => Ordering::Less,
        (_, Null) => Ordering::Greater,
        (Int(a), Int(b)) => a.cmp(&b),
        (Real(a), Real(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        (Int(a), Real(b)) => int_real(a, b),
        (Real(a), Int(b)) => int_real(b, a).reverse(),
        (Int(_) | Real(_), _) => Ordering::Less,
        (_, Int(_) | Real(_)) => Ordering::Greater,
        (Text(a), Text(b)) => collation.compare(a, b),
        (Text(_), Blob(_)) => Ordering::Less,
        (Blob(_), Text(_)) => Ordering::Greater,
        (Blob(a), Blob(b)) => a.cmp(b),
    }
}

impl Collation {
    /// Orders two texts.
    pub fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Collation::Binary => left.cmp(right),
            Collation::NoCase => {
                let fold = |bytes: &[u8]| bytes.iter().map(u8::to_ascii_lowercase).collect::<Vec<_>>();
                fold(left).cmp(&fold(right))
            }
            Collation::Rtrim => trimmed(left).cmp(trimmed(right)),
        }
    }

    /// The collation of that name, in any case; `None` when it is not built in.
    pub fn named(name: &str) -> Option<Collation> {
        if name.eq_ignore_ascii_case("binary") {
            Some(Collation::Binary)
        } else if name.eq_ignore_ascii_case("nocase") {
            Some(Collation::NoCase)
        } else if name.eq_ignore_ascii_case("rtrim") {
            Some(Collation::Rtrim)
        } else {
            None
        }
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != b' ').map_or(0, |at| at + 1);
    &bytes[..end]
}

fn int_real(int: i64, real: f64) -> Ordering {
    if real < -9223372036854775808.0 {
        return Ordering::Greater;
    }
    if real >= 9223372036854775808.0 {
        return Ordering::Less;
    }
    // In range, so the cast only drops the fraction, which breaks the tie.
    let whole = real as i64;
    int.cmp(&whole).then_with(|| (int as f64).partial_cmp(&real).unwrap_or(Ordering::Equal))
}

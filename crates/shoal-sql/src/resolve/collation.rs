//! Which affinity and collation a comparison follows (datatype3.html §4.2 and §7.1).

use crate::value::{Affinity, Collation};

/// The collation that comes with an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coll {
    /// None of its own.
    #[default]
    None,
    /// Its column's, which yields to a `COLLATE` on the other side.
    Column(Collation),
    /// From a `COLLATE` operator, which goes before any other.
    Explicit(Collation),
}

impl Coll {
    /// The collation where only this expression decides.
    pub(crate) fn or_binary(self) -> Collation {
        self.get().unwrap_or_default()
    }

    pub(crate) fn get(self) -> Option<Collation> {
        match self {
            Coll::None => None,
            Coll::Column(collation) | Coll::Explicit(collation) => Some(collation),
        }
    }

    /// What an operator's result keeps of an operand's: only what was written.
    pub(crate) fn through_operator(self) -> Coll {
        match self {
            Coll::Explicit(_) => self,
            _ => Coll::None,
        }
    }

    /// The first of two, for an operator that keeps either.
    pub(crate) fn or(self, other: Coll) -> Coll {
        match self {
            Coll::None => other,
            kept => kept,
        }
    }

    /// The collation of a comparison: an explicit one, left before right, then a column's.
    pub(crate) fn compare_with(self, right: Coll) -> Collation {
        match (self, right) {
            (Coll::Explicit(collation), _) | (_, Coll::Explicit(collation)) => collation,
            (Coll::Column(collation), _) | (Coll::None, Coll::Column(collation)) => collation,
            (Coll::None, Coll::None) => Collation::Binary,
        }
    }
}

/// The affinity that both sides of a comparison are given: text, numeric, or none.
pub(crate) fn compare_affinity(
    left: Option<Affinity>,
    right: Option<Affinity>,
) -> Option<Affinity> {
    let chosen = match (left, right) {
        (Some(a), Some(b)) if a.is_numeric() || b.is_numeric() => Affinity::Numeric,
        (Some(_), Some(_)) | (None, None) => return None,
        (Some(only), None) | (None, Some(only)) => only,
    };
    simplified(chosen)
}

/// The affinity that `IN` with a list gives to both sides: the left side's.
pub(crate) fn list_affinity(left: Option<Affinity>) -> Option<Affinity> {
    left.and_then(simplified)
}

fn simplified(affinity: Affinity) -> Option<Affinity> {
    match affinity {
        Affinity::Blob => None,
        Affinity::Text => Some(Affinity::Text),
        Affinity::Integer | Affinity::Real | Affinity::Numeric => Some(Affinity::Numeric),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_on_either_side_makes_the_comparison_numeric() {
        use Affinity::{Blob, Integer, Numeric, Real, Text};
        let cases = [
            (None, None, None),
            (Some(Text), None, Some(Text)),
            (None, Some(Real), Some(Numeric)),
            (Some(Text), Some(Integer), Some(Numeric)),
            (Some(Text), Some(Text), None),
            (Some(Text), Some(Blob), None),
            (Some(Blob), None, None),
            (Some(Blob), Some(Integer), Some(Numeric)),
        ];
        for (left, right, expect) in cases {
            assert_eq!(compare_affinity(left, right), expect, "{left:?} {right:?}");
            assert_eq!(compare_affinity(right, left), expect, "{right:?} {left:?}");
        }
    }

    #[test]
    fn written_collations_go_first_then_the_left_column() {
        let explicit = Coll::Explicit(Collation::NoCase);
        let column = Coll::Column(Collation::Rtrim);
        let plain = Coll::Column(Collation::Binary);
        assert_eq!(column.compare_with(explicit), Collation::NoCase);
        assert_eq!(explicit.compare_with(column), Collation::NoCase);
        assert_eq!(column.compare_with(plain), Collation::Rtrim);
        assert_eq!(plain.compare_with(column), Collation::Binary);
        assert_eq!(Coll::None.compare_with(column), Collation::Rtrim);
    }
}

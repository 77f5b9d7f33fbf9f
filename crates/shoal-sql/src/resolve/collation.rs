//! The affinity and collation of a comparison (datatype3.html §4.2 and §7.1).

use super::{Resolver, no_such_collation};
use crate::Error;
use crate::value::{Affinity, Collation};

/// A collation, or an unknown name: the name is an error only where values are compared.
pub(crate) type Named = Result<Collation, Unknown>;

/// An unknown collation, by its place in the statement's list of such names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unknown(usize);

impl Resolver<'_> {
    /// The collation called `name`; an unknown one is refused where used.
    pub(super) fn named_collation(&self, name: &str, offset: usize) -> Named {
        self.schema.own().collation(name).ok_or_else(|| self.unknown_collation(name, offset))
    }

    /// Notes an unknown name.
    pub(super) fn unknown_collation(&self, name: &str, offset: usize) -> Unknown {
        let mut unknown = self.unknown_collations.borrow_mut();
        unknown.push((name.to_owned(), offset));
        Unknown(unknown.len() - 1)
    }

    /// The collation of a comparison.
    ///
    /// # Errors
    /// For an unknown collation.
    pub(super) fn known(&self, collation: Named) -> Result<Collation, Error> {
        collation.map_err(|Unknown(place)| {
            let (name, offset) = &self.unknown_collations.borrow()[place];
            no_such_collation(name, *offset)
        })
    }
}

/// The collation of an expression, by its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coll {
    /// The expression has no collation of its own.
    #[default]
    None,
    /// From a column; yields to a `COLLATE` on the other side.
    Column(Named),
    /// From a `COLLATE` operator; goes before any other.
    Explicit(Named),
}

impl Coll {
    /// The collation where only this expression decides.
    pub(crate) fn or_binary(self) -> Named {
        match self {
            Coll::None => Ok(Collation::Binary),
            Coll::Column(collation) | Coll::Explicit(collation) => collation,
        }
    }

    /// The collation an operator's result keeps of an operand's: only a written `COLLATE`.
    pub(crate) fn through_operator(self) -> Coll {
        match self {
            Coll::Explicit(_) => self,
            _ => Coll::None,
        }
    }

    /// The first collation of two, for an operator keeping either.
    pub(crate) fn or(self, other: Coll) -> Coll {
        match self {
            Coll::None => other,
            kept => kept,
        }
    }

    /// The collation of a comparison: an explicit one, left before right, then a column's.
    pub(crate) fn compare_with(self, right: Coll) -> Named {
        match (self, right) {
            (Coll::Explicit(collation), _) | (_, Coll::Explicit(collation)) => collation,
            (Coll::Column(collation), _) | (Coll::None, Coll::Column(collation)) => collation,
            (Coll::None, Coll::None) => Ok(Collation::Binary),
        }
    }
}

/// The affinity applied to both sides of a comparison: text, numeric, or none.
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

/// The affinity applied to both sides of an `IN` with a list: the left side's.
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
        let explicit = Coll::Explicit(Ok(Collation::NoCase));
        let column = Coll::Column(Ok(Collation::Rtrim));
        let plain = Coll::Column(Ok(Collation::Binary));
        assert_eq!(column.compare_with(explicit), Ok(Collation::NoCase));
        assert_eq!(explicit.compare_with(column), Ok(Collation::NoCase));
        assert_eq!(column.compare_with(plain), Ok(Collation::Rtrim));
        assert_eq!(plain.compare_with(column), Ok(Collation::Binary));
        assert_eq!(Coll::None.compare_with(column), Ok(Collation::Rtrim));
    }
}

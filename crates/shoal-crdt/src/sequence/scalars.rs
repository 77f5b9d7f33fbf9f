//! The scalars of a leaf, side by side. Numbers of one type take eight bytes each, less than a
//! scalar; where types mix, each is kept as a scalar.

use shoal_history::{Scalar, ScalarRef};

/// Scalars in order.
#[derive(Clone, Debug)]
pub(super) enum Scalars {
    Numbers(Number, Vec<u64>),
    Mixed(Vec<Scalar>),
}

/// The type of numbers of eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Uint,
    Int,
    F64,
    Timestamp,
}

impl Number {
    fn of(value: &Scalar) -> Option<(Self, u64)> {
        Some(match value {
            Scalar::Uint(value) => (Self::Uint, *value),
            Scalar::Int(value) => (Self::Int, value.cast_unsigned()),
            Scalar::F64(value) => (Self::F64, value.to_bits()),
            Scalar::Timestamp(value) => (Self::Timestamp, value.cast_unsigned()),
            _ => return None,
        })
    }

    fn scalar(self, bits: u64) -> ScalarRef<'static> {
        match self {
            Self::Uint => ScalarRef::Uint(bits),
            Self::Int => ScalarRef::Int(bits.cast_signed()),
            Self::F64 => ScalarRef::F64(f64::from_bits(bits)),
            Self::Timestamp => ScalarRef::Timestamp(bits.cast_signed()),
        }
    }
}

impl Default for Scalars {
    fn default() -> Self {
        Self::Mixed(Vec::new())
    }
}

impl Scalars {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(_, numbers) => numbers.len(),
            Self::Mixed(values) => values.len(),
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<ScalarRef<'_>> {
        match self {
            Self::Numbers(number, numbers) => numbers.get(at).map(|bits| number.scalar(*bits)),
            Self::Mixed(values) => values.get(at).map(Scalar::as_ref),
        }
    }

    pub(super) fn insert(&mut self, at: usize, value: Scalar) {
        match (&mut *self, Number::of(&value)) {
            (Self::Numbers(known, numbers), Some((number, bits))) if *known == number => {
                numbers.insert(at, bits);
            }
            (Self::Mixed(values), Some((number, bits))) if values.is_empty() => {
                *self = Self::Numbers(number, vec![bits]);
            }
            _ => self.mixed().insert(at, value),
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> Scalar {
        match self {
            Self::Numbers(number, numbers) => number.scalar(numbers.remove(at)).to_scalar(),
            Self::Mixed(values) => values.remove(at),
        }
    }

    pub(super) fn drain(&mut self, range: std::ops::Range<usize>) {
        match self {
            Self::Numbers(_, numbers) => drop(numbers.drain(range)),
            Self::Mixed(values) => drop(values.drain(range)),
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Numbers(_, numbers) => numbers.truncate(len),
            Self::Mixed(values) => values.truncate(len),
        }
    }

    pub(super) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Numbers(number, numbers) => Self::Numbers(*number, numbers.split_off(at)),
            Self::Mixed(values) => Self::Mixed(values.split_off(at)),
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        match self {
            Self::Numbers(_, numbers) => numbers.shrink_to_fit(),
            Self::Mixed(values) => values.shrink_to_fit(),
        }
    }

    /// The list of values of any type.
    fn mixed(&mut self) -> &mut Vec<Scalar> {
        if let Self::Numbers(number, numbers) = self {
            let values = numbers.iter().map(|bits| number.scalar(*bits).to_scalar());
            *self = Self::Mixed(values.collect());
        }
        match self {
            Self::Mixed(values) => values,
            Self::Numbers(..) => unreachable!("replaced above"),
        }
    }
}

impl Extend<Scalar> for Scalars {
    fn extend<I: IntoIterator<Item = Scalar>>(&mut self, values: I) {
        for value in values {
            self.insert(self.len(), value);
        }
    }
}

/// Some of the scalars of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalarsView<'a> {
    scalars: &'a Scalars,
    start: usize,
    len: usize,
}

impl<'a> ScalarsView<'a> {
    pub(super) fn new(scalars: &'a Scalars, start: usize, len: usize) -> Self {
        Self { scalars, start, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<ScalarRef<'a>> {
        if at < self.len { self.scalars.get(self.start + at) } else { None }
    }

    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = ScalarRef<'a>> {
        (0..self.len).map(move |at| self.get(at).unwrap_or(ScalarRef::Null))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_type_are_kept_as_such_until_another_comes() {
        let mut scalars = Scalars::default();
        scalars.extend([Scalar::Int(-1), Scalar::Int(3)]);
        scalars.insert(1, Scalar::Int(2));
        assert!(matches!(&scalars, Scalars::Numbers(Number::Int, numbers) if numbers.len() == 3));
        let right = scalars.split_off(2);
        assert_eq!(right.get(0), Some(ScalarRef::Int(3)));
        scalars.insert(2, Scalar::F64(0.5));
        scalars.insert(3, Scalar::Str("x".into()));
        let view = ScalarsView::new(&scalars, 1, 2);
        let values: Vec<_> = view.iter().collect();
        assert_eq!(values, [ScalarRef::Int(2), ScalarRef::F64(0.5)]);
        assert_eq!((view.get(2), view.len()), (None, 2));
        assert_eq!(scalars.remove(0), Scalar::Int(-1));
        scalars.drain(0..2);
        assert_eq!((scalars.len(), scalars.get(0)), (1, Some(ScalarRef::Str("x"))));
        scalars.truncate(0);
        // Emptied, the column is as good as new.
        scalars.extend([Scalar::Timestamp(7)]);
        assert!(matches!(scalars, Scalars::Numbers(Number::Timestamp, _)));
    }
}

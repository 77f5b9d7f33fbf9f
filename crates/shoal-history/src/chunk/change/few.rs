//! A vector without memory of its own for one value: a change alone has one of nearly everything.

/// Values in order.
#[derive(Debug, Default)]
pub(super) enum Few<T> {
    #[default]
    None,
    One(T),
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// None, with room for some.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        if capacity > 1 { Self::Many(Vec::with_capacity(capacity)) } else { Self::None }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(super) fn push(&mut self, value: T) {
        match self {
            Self::None => *self = Self::One(value),
            Self::One(_) => {
                let mut values = Vec::with_capacity(4);
                if let Self::One(first) = std::mem::take(self) {
                    values.push(first);
                }
                values.push(value);
                *self = Self::Many(values);
            }
            Self::Many(values) => values.push(value),
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::Many(values) => values.truncate(len),
            _ if len == 0 => *self = Self::None,
            _ => {}
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        if let Self::Many(values) = self {
            values.shrink_to_fit();
        }
    }
}

impl<T> From<Vec<T>> for Few<T> {
    fn from(values: Vec<T>) -> Self {
        let mut values = values;
        match values.len() {
            1 => values.pop().map_or(Self::None, Self::One),
            _ => Self::Many(values),
        }
    }
}

impl<T> Extend<T> for Few<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_vector() {
        let mut few = Few::default();
        for len in 0..5 {
            assert_eq!(few.as_slice(), (0..len).collect::<Vec<_>>());
            few.push(len);
        }
        for len in [5, 3, 1, 0] {
            few.truncate(len);
            assert_eq!(few.len(), len);
        }
        few.extend([7]);
        few.truncate(0);
        assert_eq!(few.len(), 0);
        assert_eq!(Few::from(vec![1]).as_slice(), [1]);
        assert_eq!(Few::from(vec![1, 2]).as_slice(), [1, 2]);
        assert_eq!(Few::<u8>::from(vec![]).len(), 0);
    }
}

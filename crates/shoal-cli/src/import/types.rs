//! Types of columns, and the choice of a type fitting all values seen.

use super::cells::{Number, number};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Integer,
    Real,
    Text,
    /// None: every value keeps its own.
    Any,
}

impl Type {
    /// The type called `name`, in any case of letters.
    pub(crate) fn named(name: &str) -> Option<Type> {
        match name.to_ascii_lowercase().as_str() {
            "integer" | "int" => Some(Type::Integer),
            "real" | "float" | "double" => Some(Type::Real),
            "text" => Some(Type::Text),
            "any" => Some(Type::Any),
            _ => None,
        }
    }

    /// The name as a definition has one; in errors `ANY`, the type left out of definitions.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Type::Integer => "INTEGER",
            Type::Real => "REAL",
            Type::Text => "TEXT",
            Type::Any => "ANY",
        }
    }
}

/// The kinds of values seen in a column so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    integers: bool,
    /// Integers beyond 2^53, not exact as doubles.
    large: bool,
    reals: bool,
    texts: bool,
}

/// Doubles have all integers up to there.
const EXACT: u64 = 1 << 53;

impl Seen {
    /// Looks at a text; an empty one tells nothing.
    pub(super) fn text(&mut self, text: &[u8]) {
        if self.texts || text.is_empty() {
            return;
        }
        match number(text) {
            Some(Number::Int(value)) => self.int(value),
            Some(Number::Real(_)) => self.reals = true,
            None => self.texts = true,
        }
    }

    /// True where no value was seen.
    pub(super) fn is_nothing(self) -> bool {
        !self.integers && !self.reals && !self.texts
    }

    /// Looks at an integer.
    pub(super) fn int(&mut self, value: i64) {
        self.integers = true;
        self.large |= value.unsigned_abs() > EXACT;
    }

    /// Looks at a real.
    pub(super) fn real(&mut self) {
        self.reals = true;
    }

    /// Looks at a text not to be read as a number.
    pub(super) fn not_a_number(&mut self) {
        self.texts = true;
    }

    /// The type of a column of texts, such as CSV's.
    pub(super) fn of_texts(self) -> Type {
        match self {
            Seen { texts: true, .. } => Type::Text,
            Seen { reals: true, large: true, .. } => Type::Text,
            Seen { reals: true, .. } => Type::Real,
            Seen { integers: true, .. } => Type::Integer,
            _ => Type::Text,
        }
    }

    /// The type of a column of a sheet, whose numbers are doubles all.
    #[cfg(feature = "excel")]
    pub(super) fn of_cells(self) -> Type {
        match self {
            Seen { texts: false, reals: true, .. } => Type::Real,
            seen => seen.of_values(),
        }
    }

    /// The type of a column of typed values, such as JSON's.
    pub(super) fn of_values(self) -> Type {
        match self {
            Seen { texts: true, integers: false, reals: false, .. } => Type::Text,
            Seen { texts: true, .. } => Type::Any,
            Seen { reals: true, integers: true, .. } => Type::Any,
            Seen { reals: true, .. } => Type::Real,
            Seen { integers: true, .. } => Type::Integer,
            _ => Type::Any,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_that_takes_all() {
        let check = |texts: &[&str], expect: Type| {
            let mut seen = Seen::default();
            texts.iter().for_each(|text| seen.text(text.as_bytes()));
            assert_eq!(seen.of_texts(), expect, "{texts:?}");
        };
        check(&["1", "", "-2"], Type::Integer);
        check(&["1", "2.5"], Type::Real);
        check(&["1", "02134"], Type::Text);
        check(&["9007199254740993", "0.5"], Type::Text);
        check(&["9007199254740993"], Type::Integer);
        check(&["", ""], Type::Text);
        check(&["1", "x"], Type::Text);
    }
}

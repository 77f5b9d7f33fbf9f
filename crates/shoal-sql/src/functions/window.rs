//! Functions with a meaning only under `OVER`: ranks, shares and neighbours of rows.

use super::{Aggregation, LookupError};

/// The function of a call with `OVER`.
#[derive(Clone, Debug)]
pub(crate) enum WindowFunction {
    /// An aggregate of the rows of the frame.
    Aggregate(Aggregation),
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
}

impl WindowFunction {
    /// True where the result depends on the row's window frame.
    pub(crate) fn has_frame(&self) -> bool {
        use WindowFunction::{Aggregate, FirstValue, LastValue, NthValue};
        matches!(self, Aggregate(_) | FirstValue | LastValue | NthValue)
    }
}

/// Name, least and greatest number of arguments.
const FUNCTIONS: &[(&str, usize, usize, WindowFunction)] = &[
    ("row_number", 0, 0, WindowFunction::RowNumber),
    ("rank", 0, 0, WindowFunction::Rank),
    ("dense_rank", 0, 0, WindowFunction::DenseRank),
    ("percent_rank", 0, 0, WindowFunction::PercentRank),
    ("cume_dist", 0, 0, WindowFunction::CumeDist),
    ("ntile", 1, 1, WindowFunction::Ntile),
    ("lag", 1, 3, WindowFunction::Lag),
    ("lead", 1, 3, WindowFunction::Lead),
    ("first_value", 1, 1, WindowFunction::FirstValue),
    ("last_value", 1, 1, WindowFunction::LastValue),
    ("nth_value", 2, 2, WindowFunction::NthValue),
];

/// The window function called `name`; `None` when no window function has the name.
pub(crate) fn window_function(
    name: &str,
    count: usize,
) -> Option<Result<WindowFunction, LookupError>> {
    let (_, min, max, function) =
        FUNCTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name))?;
    Some(match (*min..=*max).contains(&count) {
        true => Ok(function.clone()),
        false => Err(LookupError::ArgumentCount(name.to_owned())),
    })
}

/// Name, least and greatest number of arguments of each.
pub(super) fn names() -> impl Iterator<Item = (&'static str, usize, usize)> {
    FUNCTIONS.iter().map(|(name, min, max, _)| (*name, *min, *max))
}

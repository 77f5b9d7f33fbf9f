//! Conditions of a search: asked of whole chunks, of rows, and of distances.

use std::cmp::Ordering;

use shoal_sql::{ConstraintOp, Error, TableReads, Value, ValueRef};

use crate::definition::{Definition, Kind, MetadataType};
use crate::shadow::{Block, Metadata, Parts};

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Subject {
    Rowid,
    Partition(usize),
    Metadata(usize, MetadataType),
    Distance,
}

impl Subject {
    /// What a column of the table is to conditions; `None` for columns that are left to the engine.
    pub(crate) fn of(definition: &Definition, column: Option<usize>) -> Option<Subject> {
        match column {
            None => Some(Subject::Rowid),
            Some(0) => (!definition.is_text_key).then_some(Subject::Rowid),
            Some(place) if place == definition.distance_place() => Some(Subject::Distance),
            Some(place) => match definition.kind(place)? {
                Kind::Partition(number, _) => Some(Subject::Partition(number)),
                Kind::Metadata(number, kind) => Some(Subject::Metadata(number, kind)),
                Kind::Vector(..) | Kind::Auxiliary(..) => None,
            },
        }
    }
}

/// A condition on rows.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) subject: Subject,
    pub(crate) op: ConstraintOp,
    pub(crate) value: Value,
}

/// SQL's order of two values: numbers, texts, blobs; `None` beside a NULL.
pub(crate) fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Option<Ordering> {
    let rank = |value: &ValueRef<'_>| match value {
        ValueRef::Null => 0,
        ValueRef::Int(_) | ValueRef::Real(_) => 1,
        ValueRef::Text(_) => 2,
        ValueRef::Blob(_) => 3,
    };
    match (a, b) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => None,
        (ValueRef::Int(a), ValueRef::Int(b)) => Some(a.cmp(&b)),
        (ValueRef::Real(a), ValueRef::Real(b)) => a.partial_cmp(&b),
        (ValueRef::Int(a), ValueRef::Real(b)) => int_and_real(a, b),
        (ValueRef::Real(a), ValueRef::Int(b)) => int_and_real(b, a).map(Ordering::reverse),
        (ValueRef::Text(a), ValueRef::Text(b)) | (ValueRef::Blob(a), ValueRef::Blob(b)) => {
            Some(a.cmp(b))
        }
        (a, b) => Some(rank(&a).cmp(&rank(&b))),
    }
}

/// Compares without losing digits of either.
fn int_and_real(int: i64, real: f64) -> Option<Ordering> {
    if real.is_nan() {
        return None;
    }
    if real >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if real < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = real as i64;
    Some(int.cmp(&whole).then_with(|| 0.0_f64.total_cmp(&(real - whole as f64 + 0.0))))
}

impl Condition {
    fn holds(&self, value: ValueRef<'_>) -> bool {
        let Some(order) = compare(value, self.value.as_ref()) else { return false };
        match self.op {
            ConstraintOp::Equal => order.is_eq(),
            ConstraintOp::Less => order.is_lt(),
            ConstraintOp::AtMost => order.is_le(),
            ConstraintOp::Greater => order.is_gt(),
            ConstraintOp::AtLeast => order.is_ge(),
            _ => false,
        }
    }
}

/// The conditions of a search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter(pub(crate) Vec<Condition>);

impl Filter {
    /// True where a chunk with these partition keys may have rows.
    pub(crate) fn wants(&self, partitions: &[Value]) -> bool {
        self.0.iter().all(|condition| match condition.subject {
            Subject::Partition(number) => {
                partitions.get(number).is_some_and(|value| condition.holds(value.as_ref()))
            }
            _ => true,
        })
    }

    /// True where conditions ask more of rows than their partition.
    pub(crate) fn asks_rows(&self) -> bool {
        let asks = |subject| matches!(subject, Subject::Rowid | Subject::Metadata(..));
        self.0.iter().any(|condition| asks(condition.subject))
    }

    /// The rows of a block that meet the conditions on rowids and metadata; `None` for all.
    ///
    /// # Errors
    /// Faults of metadata chunks.
    pub(crate) fn rows(
        &self,
        parts: &Parts,
        block: &Block,
        reads: &TableReads<'_>,
    ) -> Result<Option<Vec<bool>>, Error> {
        if !self.asks_rows() {
            return Ok(None);
        }
        let mut held = vec![true; block.rowids.len()];
        for condition in &self.0 {
            match condition.subject {
                Subject::Rowid => {
                    for (held, rowid) in held.iter_mut().zip(&block.rowids) {
                        *held &= condition.holds(ValueRef::Int(*rowid));
                    }
                }
                Subject::Metadata(number, kind) => {
                    let metadata = parts.metadata_of((number, kind), block, reads)?;
                    for (row, held) in held.iter_mut().enumerate() {
                        *held = *held
                            && condition.holds(match &metadata {
                                Metadata::Integers(all) => ValueRef::Int(all[row]),
                                Metadata::Floats(all) => ValueRef::Real(all[row]),
                                Metadata::Texts(all) => ValueRef::Text(&all[row]),
                            });
                    }
                }
                Subject::Partition(_) | Subject::Distance => {}
            }
        }
        Ok(Some(held))
    }

    /// True for distances that meet the conditions on them.
    pub(crate) fn allows(&self, distance: f32) -> bool {
        self.0.iter().all(|condition| {
            condition.subject != Subject::Distance
                || !distance.is_nan() && condition.holds(ValueRef::Real(f64::from(distance)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_reals_compare_by_value() {
        let cases = [
            (3, 3.5, Ordering::Less),
            (4, 3.5, Ordering::Greater),
            (-3, -3.5, Ordering::Greater),
            (3, 3.0, Ordering::Equal),
            (i64::MAX, 9_223_372_036_854_775_807.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            ((1 << 53) + 1, 9_007_199_254_740_992.0, Ordering::Greater),
        ];
        for (int, real, order) in cases {
            assert_eq!(int_and_real(int, real), Some(order), "{int} {real}");
        }
        assert_eq!(compare(ValueRef::Text(b"1"), ValueRef::Int(2)), Some(Ordering::Greater));
        assert_eq!(compare(ValueRef::Null, ValueRef::Int(2)), None);
    }
}

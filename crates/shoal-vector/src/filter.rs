//! Conditions of a search: asked of whole chunks, of rows, and of distances.

use std::cmp::Ordering;
use std::sync::Arc;

use shoal_sql::{Collation, ConstraintOp, Error, TableReads, Value, ValueRef};

use crate::definition::{Definition, Kind, MetadataType};
use crate::search::Resident;
use crate::shadow::{Block, Metadata, Parts};

/// The subject of a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Subject {
    Rowid,
    Partition(usize),
    Metadata(usize, MetadataType),
    Distance,
}

impl Subject {
    /// The subject of conditions on a column of the table; `None` for columns left to the engine.
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

/// SQL's order of two values: numbers, texts, blobs; `None` beside a NULL, and for NaN among
/// numbers.
pub(crate) fn compare(a: ValueRef<'_>, b: ValueRef<'_>) -> Option<Ordering> {
    match (a, b) {
        (ValueRef::Null, _) | (_, ValueRef::Null) => None,
        (ValueRef::Real(a), ValueRef::Real(b)) => a.partial_cmp(&b),
        (ValueRef::Int(_), ValueRef::Real(real)) | (ValueRef::Real(real), ValueRef::Int(_))
            if real.is_nan() =>
        {
            None
        }
        (a, b) => Some(a.compare(b, Collation::Binary)),
    }
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

    /// The rows of a block true to the conditions on rowids and metadata; `None` for all.
    ///
    /// # Errors
    /// The errors of `metadata`, a function from a column's number to the column of the block.
    pub(crate) fn rows(
        &self,
        block: &Block,
        mut metadata: impl FnMut(usize, MetadataType) -> Result<Arc<Metadata>, Error>,
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
                    let metadata = metadata(number, kind)?;
                    for (row, held) in held.iter_mut().enumerate() {
                        *held = *held && condition.holds(metadata.value(row));
                    }
                }
                Subject::Partition(_) | Subject::Distance => {}
            }
        }
        Ok(Some(held))
    }

    /// The conditions but those on distances, to be asked of single rows of a copy in memory.
    ///
    /// # Errors
    /// Faults of metadata chunks.
    pub(crate) fn of_resident<'f>(
        &'f self,
        parts: &Parts,
        resident: &'f Resident,
        reads: &TableReads<'_>,
    ) -> Result<ResidentFilter<'f>, Error> {
        let mut blocks = Vec::new();
        if self.0.iter().any(|condition| condition.subject != Subject::Distance) {
            for (place, block) in resident.blocks.iter().enumerate() {
                let mut columns = Vec::new();
                let wanted = self.wants(&block.partitions);
                for condition in self.0.iter().filter(|_| wanted) {
                    if let Subject::Metadata(number, kind) = condition.subject {
                        let metadata = resident.metadata(parts, place, (number, kind), reads)?;
                        columns.push((condition, metadata));
                    }
                }
                blocks.push(wanted.then_some((block.rowids.as_slice(), columns)));
            }
        }
        let is_of_rowid = |condition: &&Condition| condition.subject == Subject::Rowid;
        let rowids = self.0.iter().filter(is_of_rowid).collect();
        Ok(ResidentFilter { blocks, rowids })
    }

    /// True for distances within all conditions on `distance`.
    pub(crate) fn allows(&self, distance: f32) -> bool {
        self.0.iter().all(|condition| {
            condition.subject != Subject::Distance
                || !distance.is_nan() && condition.holds(ValueRef::Real(f64::from(distance)))
        })
    }
}

/// A condition on metadata, with a block's column.
type Column<'f> = (&'f Condition, Arc<Metadata>);

/// Conditions on rows of a copy in memory.
#[derive(Debug)]
pub(crate) struct ResidentFilter<'f> {
    /// For each block the rowids, and the conditions on metadata; `None` for blocks of other
    /// partitions. Empty without any condition.
    blocks: Vec<Option<(&'f [i64], Vec<Column<'f>>)>>,
    /// The conditions on rowids.
    rowids: Vec<&'f Condition>,
}

impl ResidentFilter<'_> {
    /// True without conditions.
    pub(crate) fn are_all(&self) -> bool {
        self.blocks.is_empty()
    }

    /// True where all conditions hold for a row of a block.
    #[inline]
    pub(crate) fn allows(&self, block: usize, row: usize) -> bool {
        if self.are_all() {
            return true;
        }
        let Some((rowids, columns)) = &self.blocks[block] else { return false };
        let rowid = ValueRef::Int(rowids[row]);
        self.rowids.iter().all(|condition| condition.holds(rowid))
            && columns.iter().all(|(condition, column)| condition.holds(column.value(row)))
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
            let (int, real) = (ValueRef::Int(int), ValueRef::Real(real));
            assert_eq!(compare(int, real), Some(order), "{int:?} {real:?}");
            assert_eq!(compare(real, int), Some(order.reverse()), "{real:?} {int:?}");
        }
        assert_eq!(compare(ValueRef::Text(b"1"), ValueRef::Int(2)), Some(Ordering::Greater));
        assert_eq!(compare(ValueRef::Null, ValueRef::Int(2)), None);
    }
}

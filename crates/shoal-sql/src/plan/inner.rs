//! Queries within expressions that loop over few rows of one source.

use super::{BodyPlan, GroupPlan, Level, QueryPlan, RowidRange, Scan, SelectPlan};

/// The parts of the plan of a query within an expression that loops over few rows of one source, found by
/// a key: nothing stands between the expression and the loop.
#[derive(Clone, Copy)]
pub(crate) struct InnerPlan<'p> {
    pub(crate) select: &'p SelectPlan,
    pub(crate) level: &'p Level,
    /// Where it gives one group of all rows.
    pub(crate) group: Option<&'p GroupPlan>,
}

impl<'p> InnerPlan<'p> {
    /// The plan's parts, where it is one of these.
    #[inline]
    pub(crate) fn of(plan: &'p QueryPlan) -> Option<InnerPlan<'p>> {
        let BodyPlan::Select(select) = &plan.body else { return None };
        let [level] = &*select.levels else { return None };
        let by_key = match &level.scan {
            Scan::Table(scan) => matches!(scan.range, RowidRange::Equal(_)),
            Scan::Index(_) => true,
            _ => false,
        };
        let group = select.group.as_ref();
        let one_group = |group: &GroupPlan| group.keys.is_empty() && !group.ends_early;
        let plain = plan.sort.is_none() && plan.limit.is_none() && plan.offset.is_none();
        let plain = plain && select.windows.is_none() && select.distinct.is_none();
        let plain = plain && select.pipeline.is_none() && group.is_none_or(one_group);
        let keeps = level.keeps_left || level.keeps_right;
        (by_key && plain && !keeps).then_some(InnerPlan { select, level, group })
    }
}

/// Whether a query is one of these, and finds its rows by equality.
pub(crate) fn is_by_key(plan: &QueryPlan) -> bool {
    InnerPlan::of(plan).is_some_and(|inner| match &inner.level.scan {
        Scan::Index(scan) => !scan.equal.is_empty(),
        _ => true,
    })
}

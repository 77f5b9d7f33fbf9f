//! The rows of one table, leaf by leaf: the loop of a select that reads nothing else.
//!
//! The general loops keep a current record per level and ask for values by record. Here there is
//! one record; its fields are found, the conditions asked, and the row handed on in one go.

use shoal_store::{ColumnPlace, HeaderShape, HeaderWalk, Place, TableCursor, Transaction};

use super::plan::{Access, Direct, End, Operand, Test};
use super::run::{compare, field_value, parameter, rowids, seek_first};
use super::slots::{Base, Slots, fixed};
use crate::Error;
use crate::resolve::tree::{CompareOp, Comparison};
use crate::value::{Affinity, Collation, Value, ValueRef};

/// A row of a leaf while the scan is on it.
#[derive(Clone, Copy)]
pub(crate) struct LeafRow<'r> {
    rowid: i64,
    payload: &'r [u8],
    base: Base<'r>,
    /// The wanted fields, in the order of their places.
    fields: &'r [ColumnPlace],
    parameters: &'r [Value],
}

impl<'r> LeafRow<'r> {
    pub(super) fn new(
        rowid: i64,
        payload: &'r [u8],
        base: Base<'r>,
        fields: &'r [ColumnPlace],
        parameters: &'r [Value],
    ) -> LeafRow<'r> {
        LeafRow { rowid, payload, base, fields, parameters }
    }

    /// The row's value of an operand.
    #[inline(always)]
    pub(crate) fn value(self, operand: &'r Operand) -> ValueRef<'r> {
        match operand {
            Operand::Field { field, real, missing, .. } => {
                field_value(self.fields[*field].decode(self.payload), *real, missing)
            }
            Operand::Rowid { .. } => ValueRef::Int(self.rowid),
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(self.parameters, *number),
        }
    }

    /// Appends the row's values of operands.
    #[inline(always)]
    pub(super) fn note(self, outputs: &[Operand], slots: &mut Slots) {
        for operand in outputs {
            match operand {
                Operand::Field { field, real, .. } => {
                    slots.push(self.fields[*field].locate(self.payload), *real, self.base);
                }
                Operand::Rowid { .. } => slots.push_int(self.rowid),
                fixed_operand => slots.push_value(fixed(fixed_operand, self.parameters)),
            }
        }
    }
}

/// A condition made ready for one run: what it compares with is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ready {
    /// An integer field with an integer.
    Int { field: usize, op: CompareOp, value: i64, test: usize },
    /// A field of any number with a number.
    Number { field: usize, op: CompareOp, value: f64, test: usize },
    /// Equality of a text with a text, byte by byte.
    Text { field: usize, test: usize },
    /// A field that must be NULL, or must not.
    Null { field: usize, not: bool, test: usize },
    /// Whatever its test says, by the test's number.
    Any { test: usize },
}

/// Integers up to here are floats without loss.
const EXACT_MAX: u64 = 1 << 53;

impl Ready {
    fn of(number: usize, test: &Test, parameters: &[Value]) -> Ready {
        let any = Ready::Any { test: number };
        if let Test::IsNull { operand: Operand::Field { field, .. }, not } = test {
            return Ready::Null { field: *field, not: *not, test: number };
        }
        let Test::Compare { rule, left: Operand::Field { field, real, .. }, right } = test else {
            return any;
        };
        let right = match right {
            Operand::Constant(value) => value.as_ref(),
            Operand::Parameter(number) => parameter(parameters, *number),
            Operand::Field { .. } | Operand::Rowid { .. } => return any,
        };
        // NULL is none of the classes below, and these two can be true of it.
        if matches!(rule.op, CompareOp::Is | CompareOp::IsNot) {
            return any;
        }
        let op = rule.op;
        let field = *field;
        match right {
            ValueRef::Int(value) if !real => Ready::Int { field, op, value, test: number },
            ValueRef::Int(value) if value.unsigned_abs() <= EXACT_MAX => {
                Ready::Number { field, op, value: value as f64, test: number }
            }
            ValueRef::Real(value) if !value.is_nan() => {
                Ready::Number { field, op, value, test: number }
            }
            ValueRef::Text(_) if is_plain_equality(rule) => Ready::Text { field, test: number },
            _ => any,
        }
    }

    /// Whether the row meets the condition.
    #[inline]
    fn holds(self, tests: &[Test], row: &LeafRow<'_>) -> bool {
        match self {
            Ready::Int { field, op, value, test } => match row.fields[field].int(row.payload) {
                Some(found) => op.holds(found.cmp(&value)),
                None => any(&tests[test], row),
            },
            Ready::Number { field, op, value, test } => {
                let number = match row.fields[field].decode(row.payload) {
                    Some(ValueRef::Int(int)) if int.unsigned_abs() <= EXACT_MAX => int as f64,
                    Some(ValueRef::Real(real)) => real,
                    _ => return any(&tests[test], row),
                };
                match number.partial_cmp(&value) {
                    Some(order) => op.holds(order),
                    None => any(&tests[test], row),
                }
            }
            Ready::Text { field, test } => match row.fields[field].text(row.payload) {
                Some(found) => match &tests[test] {
                    Test::Compare { right, .. } => match fixed(right, row.parameters) {
                        ValueRef::Text(wanted) => found == wanted,
                        _ => false,
                    },
                    Test::IsNull { .. } => false,
                },
                None => any(&tests[test], row),
            },
            Ready::Null { field, not, test } => match row.fields[field].null() {
                Some(null) => null != not,
                None => any(&tests[test], row),
            },
            Ready::Any { test } => any(&tests[test], row),
        }
    }
}

/// Whether two texts satisfy the rule exactly when their bytes are equal.
fn is_plain_equality(rule: &Comparison) -> bool {
    rule.op == CompareOp::Equal
        && rule.collation == Collation::Binary
        && !rule.affinity.is_some_and(Affinity::is_numeric)
}

/// A condition by its own rules.
#[inline]
fn any(test: &Test, row: &LeafRow<'_>) -> bool {
    match test {
        Test::Compare { rule, left, right } => compare(rule, row.value(left), row.value(right)),
        Test::IsNull { operand, not } => (row.value(operand) == ValueRef::Null) != *not,
    }
}

/// What a scan needs beside the plan and keeps between runs.
#[derive(Debug, Default)]
pub(crate) struct LeafMemory {
    pub(super) fields: Vec<ColumnPlace>,
    /// Of the record that a lookup found last, whose fields these are.
    pub(super) shape: HeaderShape,
    ready: Vec<Ready>,
    /// A payload that continues on other pages.
    pub(super) buffer: Vec<u8>,
}

/// Where a scan begins.
pub(super) enum From<'p> {
    First,
    /// Behind the row at that place.
    After(&'p Place),
}

/// A table's root and the range of rowids, when a select's rows are those of one table in their
/// order.
pub(super) fn whole_leaves(
    direct: &Direct,
) -> Option<(shoal_store::Pgno, Option<&End>, Option<&End>)> {
    match &*direct.levels {
        [level] if level.on.is_empty() && !level.left_join => match &level.access {
            Access::Rows { root, low, high, descending: false } => {
                Some((*root, low.as_ref(), high.as_ref()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// All rowids.
pub(super) const EVERYWHERE: (i64, i64) = (i64::MIN, i64::MAX);

/// Calls `sink` with every row `within` a range of rowids that meets the conditions, until it says
/// false. Gives the place of that row; `None` at the end.
///
/// # Errors
/// What `sink` raises and what is wrong with the file.
pub(super) fn scan(
    direct: &Direct,
    txn: &Transaction,
    parameters: &[Value],
    memory: &mut LeafMemory,
    from: From<'_>,
    within: (i64, i64),
    mut sink: impl FnMut(LeafRow<'_>) -> Result<bool, Error>,
) -> Result<Option<Place>, Error> {
    let Some((root, low, high)) = whole_leaves(direct) else { return Ok(None) };
    let (Some(level), Some(plan)) = (direct.levels.first(), direct.records.first()) else {
        return Ok(None);
    };
    let range = rowids(low, high, |operand| fixed(operand, parameters));
    let Some((low, high)) = range else { return Ok(None) };
    let (low, high) = (low.max(within.0), high.min(within.1));
    if low > high {
        return Ok(None);
    }
    let LeafMemory { fields, ready, buffer, .. } = memory;
    ready.clear();
    let tests = &*level.filter;
    ready.extend(tests.iter().enumerate().map(|(at, test)| Ready::of(at, test, parameters)));
    fields.clear();
    fields.resize(plan.places.len(), ColumnPlace::MISSING);
    let (early, late) = plan.places.split_at(plan.early);
    let (mut early_shape, mut late_shape) = (HeaderShape::NONE, HeaderShape::NONE);
    let (mut cursor, mut more) = match from {
        From::First => {
            let mut cursor: TableCursor<'_> = txn.table(root)?;
            let more = seek_first(&mut cursor, low)?;
            (cursor, more)
        }
        From::After(place) => {
            let mut cursor = TableCursor::resume(txn, place)?;
            let more = cursor.next()?;
            (cursor, more)
        }
    };
    while more {
        let Some((page, first)) = cursor.leaf() else { return Ok(None) };
        let count = page.cell_count();
        // Rowids ascend, so one comparison tells for the whole leaf.
        let inside = high == i64::MAX || page.rowid(count - 1).map_err(Error::corrupt)? <= high;
        for index in first..count {
            let (rowid, payload, base);
            if plan.places.is_empty() {
                rowid = page.rowid(index).map_err(Error::corrupt)?;
                payload = &[][..];
                base = Base::Buffer(payload);
            } else {
                let cell = page.table_leaf(index).map_err(Error::corrupt)?;
                rowid = cell.rowid;
                if cell.payload.overflow.is_none() {
                    payload = cell.payload.local;
                    base = Base::of(&page, payload);
                } else {
                    txn.read_payload(cell.payload, buffer)?;
                    payload = buffer.as_slice();
                    base = Base::Buffer(payload);
                }
            }
            if !inside && rowid > high {
                return Ok(None);
            }
            if !early.is_empty() {
                let (fields, _) = fields.split_at_mut(early.len());
                find(payload, early, fields, &mut early_shape)?;
                let row = LeafRow { rowid, payload, base, fields: &*fields, parameters };
                if !ready.iter().all(|test| test.holds(tests, &row)) {
                    continue;
                }
            }
            if !late.is_empty() {
                let (_, fields) = fields.split_at_mut(early.len());
                find(payload, late, fields, &mut late_shape)?;
            }
            let row = LeafRow { rowid, payload, base, fields: &fields[..], parameters };
            if early.is_empty() && !ready.iter().all(|test| test.holds(tests, &row)) {
                continue;
            }
            if !sink(row)? {
                cursor.move_on_leaf(index)?;
                return Ok(Some(cursor.place()));
            }
        }
        if !inside {
            return Ok(None);
        }
        more = cursor.next_leaf()?;
    }
    Ok(None)
}

/// Finds columns of a record, unless it has the shape of the one before and so has them in the same
/// places.
#[inline(always)]
pub(super) fn find(
    payload: &[u8],
    places: &[usize],
    fields: &mut [ColumnPlace],
    shape: &mut HeaderShape,
) -> Result<(), Error> {
    if shape.fits(payload) { Ok(()) } else { walk(payload, places, fields, shape) }
}

#[inline(never)]
fn walk(
    payload: &[u8],
    places: &[usize],
    fields: &mut [ColumnPlace],
    shape: &mut HeaderShape,
) -> Result<(), Error> {
    // Should the walk end in an error, the fields are those of no shape.
    *shape = HeaderShape::NONE;
    let mut walk = HeaderWalk::new(payload).map_err(Error::corrupt)?;
    walk.find_each(payload, places, fields).map_err(Error::corrupt)?;
    *shape = HeaderShape::of(payload, &walk);
    Ok(())
}

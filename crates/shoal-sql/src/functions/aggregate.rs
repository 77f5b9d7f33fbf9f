//! Aggregate functions: one state per group, stepped once per row.

use std::fmt;

use super::concat::Concat;
use super::json::JsonGroup;
use super::own::{AnyAggregate, AnyState};
use super::{Arguments, ScalarFunction};
use crate::Error;
use crate::value::number::numeric_from_text;
use crate::value::{Collation, TextNumber, Value, ValueRef, compare, to_real};

/// A function of a group of rows.
pub(crate) struct AggregateFunction {
    name: &'static str,
    arguments: Arguments,
    kind: Kind,
}

enum Kind {
    Count,
    Sum,
    /// A sum handed to a query around, for a whole group or a part of one.
    InnerSum(SumResult),
    /// What a group makes of the sums of its parts.
    OfParts(SumResult),
    Total,
    Avg,
    Min,
    Max,
    GroupConcat,
    /// `json_group_array` and its relatives: labels, too? As JSONB?
    Json {
        object: bool,
        blob: bool,
    },
    /// The program's own, and its name.
    Own(String, Box<dyn AnyAggregate>),
}

pub(super) const FUNCTIONS: &[AggregateFunction] = &[
    AggregateFunction::new("count", Arguments::between(0, 1), Kind::Count),
    AggregateFunction::new("sum", Arguments::exactly(1), Kind::Sum),
    AggregateFunction::new("total", Arguments::exactly(1), Kind::Total),
    AggregateFunction::new("avg", Arguments::exactly(1), Kind::Avg),
    AggregateFunction::new("min", Arguments::exactly(1), Kind::Min),
    AggregateFunction::new("max", Arguments::exactly(1), Kind::Max),
    AggregateFunction::new("group_concat", Arguments::between(1, 2), Kind::GroupConcat),
    AggregateFunction::new("string_agg", Arguments::exactly(2), Kind::GroupConcat),
    AggregateFunction::new(
        "json_group_array",
        Arguments::exactly(1),
        Kind::Json { object: false, blob: false },
    ),
    AggregateFunction::new(
        "jsonb_group_array",
        Arguments::exactly(1),
        Kind::Json { object: false, blob: true },
    ),
    AggregateFunction::new(
        "json_group_object",
        Arguments::exactly(2),
        Kind::Json { object: true, blob: false },
    ),
    AggregateFunction::new(
        "jsonb_group_object",
        Arguments::exactly(2),
        Kind::Json { object: true, blob: true },
    ),
];

static SUM_OF_GROUP: AggregateFunction =
    AggregateFunction::of_one("sum of a group", Kind::InnerSum(SumResult::OfGroup));
static SUM_OF_PART: AggregateFunction =
    AggregateFunction::of_one("sum of a part", Kind::InnerSum(SumResult::OfPart));
static COUNTED_SUM_OF_PART: AggregateFunction =
    AggregateFunction::of_one("counted sum of a part", Kind::InnerSum(SumResult::CountedPart));
static SUM_OF_PARTS: AggregateFunction =
    AggregateFunction::of_one("sum of parts", Kind::OfParts(SumResult::Sum));
static TOTAL_OF_PARTS: AggregateFunction =
    AggregateFunction::of_one("total of parts", Kind::OfParts(SumResult::Total));
static AVG_OF_PARTS: AggregateFunction =
    AggregateFunction::of_one("avg of parts", Kind::OfParts(SumResult::Avg));

/// The sum of a group, or the error that the sum was kept from. The second argument is a column of
/// the row joined with the group: without the row nobody asks.
static SUM_OR_ERROR: ScalarFunction =
    ScalarFunction::new("sum or error", Arguments::exactly(2), |arguments, _| {
        match &arguments[0] {
            Value::Blob(_) => Err(Error::runtime("integer overflow")),
            sum => Ok(sum.clone()),
        }
    });

impl AggregateFunction {
    const fn new(name: &'static str, arguments: Arguments, kind: Kind) -> AggregateFunction {
        AggregateFunction { name, arguments, kind }
    }

    const fn of_one(name: &'static str, kind: Kind) -> AggregateFunction {
        AggregateFunction::new(name, Arguments::exactly(1), kind)
    }

    /// An aggregate of the program's own.
    pub(super) fn own(
        name: &str,
        arguments: Arguments,
        aggregate: Box<dyn AnyAggregate>,
    ) -> AggregateFunction {
        AggregateFunction::new("", arguments, Kind::Own(name.to_owned(), aggregate))
    }

    /// The name of a built-in function, in small letters; empty for the program's own.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The name for messages and plans.
    pub(crate) fn shown_name(&self) -> &str {
        match &self.kind {
            Kind::Own(name, _) => name,
            _ => self.name,
        }
    }

    /// The least and the greatest number of arguments.
    pub(super) fn argument_counts(&self) -> (usize, usize) {
        (self.arguments.min, self.arguments.max)
    }

    pub(super) fn allows(&self, count: usize) -> bool {
        self.arguments.allow(count)
    }

    /// True for `min` and `max`, whose bare columns come from the row holding the extreme.
    pub(crate) fn picks_row(&self) -> bool {
        matches!(self.kind, Kind::Min | Kind::Max)
    }

    /// True where the functions around the call take the returned text for JSON.
    pub(crate) fn returns_json(&self) -> bool {
        matches!(self.kind, Kind::Json { blob: false, .. })
    }

    /// True where [`AggregateState::undo`] can take rows back.
    pub(crate) fn is_reversible(&self) -> bool {
        match &self.kind {
            Kind::Own(_, aggregate) => aggregate.is_reversible(),
            Kind::GroupConcat => true,
            _ => self.merges() && !self.picks_row(),
        }
    }

    /// True where states of parts of the rows can be put together.
    pub(crate) fn merges(&self) -> bool {
        use Kind::{Avg, Count, InnerSum, Sum, Total};
        matches!(self.kind, Count | Sum | InnerSum(_) | Total | Avg) || self.picks_row()
    }

    /// The same aggregate for groups that a query around may drop, and the function for the value
    /// of a group kept; `None` for an aggregate that no group makes fail.
    pub(crate) fn deferred(&self) -> Option<(&'static AggregateFunction, &'static ScalarFunction)> {
        matches!(self.kind, Kind::Sum).then_some((&SUM_OF_GROUP, &SUM_OR_ERROR))
    }

    /// The aggregate for a part of a group's rows, and the aggregate of these values for the whole
    /// group; `None` where parts can't be put together. Sums of reals are as those of
    /// [`AggregateState::merge`].
    pub(crate) fn in_parts(&self) -> Option<[&'static AggregateFunction; 2]> {
        let known = |name: &str| FUNCTIONS.iter().find(|it| it.name == name);
        match self.kind {
            Kind::Count => Some([known("count")?, known("sum")?]),
            Kind::Min | Kind::Max => Some([known(self.name)?; 2]),
            Kind::Sum => Some([&SUM_OF_PART, &SUM_OF_PARTS]),
            Kind::Total => Some([&SUM_OF_PART, &TOTAL_OF_PARTS]),
            Kind::Avg => Some([&COUNTED_SUM_OF_PART, &AVG_OF_PARTS]),
            _ => None,
        }
    }

    /// The aggregate of no rows; `None` where the function alone does not tell.
    pub(crate) fn of_nothing(&self) -> Option<Value> {
        match self.kind {
            Kind::Count => Some(Value::Int(0)),
            Kind::Total => Some(Value::Real(0.0)),
            Kind::Sum | Kind::Avg | Kind::Min | Kind::Max => Some(Value::Null),
            _ => None,
        }
    }

    /// True for `count`.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.kind, Kind::Count)
    }

    /// True for `max`, false for `min`; `None` for the others.
    pub(crate) fn extreme(&self) -> Option<bool> {
        match self.kind {
            Kind::Min => Some(false),
            Kind::Max => Some(true),
            _ => None,
        }
    }

    /// The state of an empty group; `min` and `max` compare text by the collation. `json` has a bit
    /// for each argument made by a function returning JSON.
    pub(crate) fn start(&self, collation: Collation, json: u64) -> AggregateState {
        AggregateState(match &self.kind {
            Kind::Count => State::Count(0),
            Kind::Sum => State::Sum(Sum::default(), SumResult::Sum),
            Kind::InnerSum(result) => State::Sum(Sum::default(), *result),
            Kind::OfParts(result) => State::Parts(Sum::default(), *result),
            Kind::Total => State::Sum(Sum::default(), SumResult::Total),
            Kind::Avg => State::Sum(Sum::default(), SumResult::Avg),
            Kind::Min => State::Extreme { best: None, max: false, collation },
            Kind::Max => State::Extreme { best: None, max: true, collation },
            Kind::GroupConcat => State::Concat(Box::default()),
            Kind::Json { object, blob } => {
                State::Json(Box::new(JsonGroup::new(*object, *blob, json)))
            }
            Kind::Own(_, aggregate) => State::Own(Box::new(aggregate.start())),
        })
    }
}

impl fmt::Debug for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown_name())
    }
}

/// The running state of an aggregate over the rows so far.
#[derive(Clone, Debug)]
pub(crate) struct AggregateState(State);

/// A list of values whose runs of numbers are visited by loops of their own.
pub(crate) trait ForEach<'v> {
    /// The number of values.
    fn len(&self) -> usize;
    /// A value by its number from 0.
    fn value(&self, number: usize) -> ValueRef<'v>;
    /// Calls `each` with the integers from number `from` on, until `each` is false or a value is no
    /// integer; gives the number of the value the loop ended at. An implementation may end before
    /// an integer: the caller takes that value by itself.
    fn each_int(&self, from: usize, each: impl FnMut(i64) -> bool) -> usize;
    /// As `each_int` for reals, none of them NaN.
    fn each_real(&self, from: usize, each: impl FnMut(f64)) -> usize;
}

#[derive(Clone, Debug)]
enum State {
    Count(i64),
    Sum(Sum, SumResult),
    /// The sum of the sums of parts.
    Parts(Sum, SumResult),
    Extreme {
        best: Option<Value>,
        max: bool,
        collation: Collation,
    },
    // Few aggregates are one of these, and every group has a state.
    Concat(Box<Concat>),
    Json(Box<JsonGroup>),
    // Boxed twice: a reference to a trait object would widen all states.
    Own(Box<Box<dyn AnyState>>),
}

#[derive(Clone, Copy, Debug)]
enum SumResult {
    Sum,
    /// A blob in place of an overflow.
    OfGroup,
    /// A whole number, or the bytes of the sum.
    OfPart,
    /// The bytes of the sum, with the number of its terms.
    CountedPart,
    Total,
    Avg,
}

impl AggregateState {
    /// Takes one row's arguments.
    ///
    /// Gives true when a `min` or `max` now holds this row's value, so that bare columns are read
    /// from the row; also true for NULL before any value was seen. Always true for the others.
    ///
    /// # Errors
    /// [`Error::Runtime`] when a text grows too long.
    pub(crate) fn step(&mut self, arguments: &[Value]) -> Result<bool, Error> {
        let value = arguments.first();
        match &mut self.0 {
            State::Count(count) => {
                if value.is_none_or(|value| !value.is_null()) {
                    *count += 1;
                }
            }
            State::Sum(sum, _) => sum.step(value.unwrap_or(&Value::Null)),
            State::Parts(sum, _) => sum.join_part(value.map(Value::as_ref)),
            State::Extreme { best, max, collation } => {
                let Some(value) = value.filter(|value| !value.is_null()) else {
                    return Ok(best.is_none());
                };
                if let Some(best) = best {
                    let order = compare(best.as_ref(), value.as_ref(), *collation);
                    if !(if *max { order.is_lt() } else { order.is_gt() }) {
                        return Ok(false);
                    }
                }
                *best = Some(value.clone());
            }
            State::Own(state) => state.step(arguments)?,
            State::Concat(_) | State::Json(_) => match arguments {
                [first, second, ..] => self.step_two([first.as_ref(), second.as_ref()])?,
                [first] => return self.step_borrowed(Some(first.as_ref())),
                [] => {}
            },
        }
        Ok(true)
    }

    /// Takes back a row stepped over before, for reversible functions. The steps are SQLite's: the
    /// last bit of a sum of reals agrees.
    pub(crate) fn undo(&mut self, arguments: &[Value]) {
        let value = arguments.first();
        match &mut self.0 {
            State::Count(count) => {
                if value.is_none_or(|value| !value.is_null()) {
                    *count -= 1;
                }
            }
            State::Sum(sum, _) => sum.undo(value.unwrap_or(&Value::Null)),
            State::Concat(joined) => joined.undo(arguments),
            State::Own(state) => state.undo(arguments),
            State::Parts(..) | State::Extreme { .. } | State::Json(_) => {}
        }
    }

    /// Takes the rows of another state; they come after the rows of this one. `None` when taking
    /// the rows one by one could give another answer: where a sum of integers might have overflown
    /// on the way, and for functions without merging. Else as [`AggregateState::step`].
    ///
    /// Sums of reals are compensated: the last bit agrees unless the exact sum is within a 2^50th
    /// of a bit of where the rounding turns.
    pub(crate) fn merge(&mut self, other: AggregateState) -> Option<bool> {
        match (&mut self.0, other.0) {
            (State::Count(count), State::Count(more)) => *count += more,
            (State::Sum(sum, _), State::Sum(more, _)) => return sum.merge(&more).then_some(true),
            (State::Extreme { best, max, collation }, State::Extreme { best: other, .. }) => {
                let Some(value) = other else { return Some(best.is_none()) };
                if let Some(best) = best {
                    let order = compare(best.as_ref(), value.as_ref(), *collation);
                    if !(if *max { order.is_lt() } else { order.is_gt() }) {
                        return Some(false);
                    }
                }
                *best = Some(value);
            }
            _ => return None,
        }
        Some(true)
    }

    /// Counts so many rows in a `count(*)`.
    pub(crate) fn add_rows(&mut self, rows: i64) {
        if let State::Count(count) = &mut self.0 {
            *count += rows;
        }
    }

    /// Counts so many rows, where the aggregate is `count(*)`; false of others.
    ///
    /// # Errors
    /// [`Error::Runtime`] where the count does not fit 64 bits.
    pub(crate) fn count_rows(&mut self, rows: u64) -> Result<bool, Error> {
        let State::Count(count) = &mut self.0 else { return Ok(false) };
        let sum = count.checked_add_unsigned(rows);
        *count = sum.ok_or_else(|| Error::runtime("integer overflow"))?;
        Ok(true)
    }

    /// As [`AggregateState::step`], of a borrowed argument, or of none. Numbers allocate nothing.
    ///
    /// # Errors
    /// As [`AggregateState::step`].
    pub(crate) fn step_borrowed(&mut self, value: Option<ValueRef<'_>>) -> Result<bool, Error> {
        let Some(value) = value else {
            let State::Count(count) = &mut self.0 else { return self.step(&[]) };
            *count += 1;
            return Ok(true);
        };
        match (&mut self.0, value) {
            (State::Count(count), value) => *count += i64::from(value != ValueRef::Null),
            (State::Parts(sum, _), value) => sum.join_part(Some(value)),
            (State::Sum(..), ValueRef::Null) => {}
            (State::Sum(sum, _), ValueRef::Int(int)) => sum.take(TextNumber::Int(int)),
            (State::Sum(sum, _), ValueRef::Real(real)) => sum.take(TextNumber::Real(real)),
            (State::Extreme { best: Some(best), max, collation }, value)
                if value != ValueRef::Null =>
            {
                let better = match (&*best, value) {
                    (Value::Int(best), ValueRef::Int(int)) => {
                        if *max {
                            int > *best
                        } else {
                            int < *best
                        }
                    }
                    (Value::Real(best), ValueRef::Real(real)) => {
                        if *max {
                            real > *best
                        } else {
                            real < *best
                        }
                    }
                    (best, value) => {
                        let order = compare(best.as_ref(), value, *collation);
                        if *max { order.is_lt() } else { order.is_gt() }
                    }
                };
                if !better {
                    return Ok(false);
                }
                crate::value::assign(best, value);
            }
            (State::Concat(joined), value) => joined.step(value, None)?,
            (State::Json(group), value) => group.step(value, None)?,
            _ => return self.step(&[value.into()]),
        }
        Ok(true)
    }

    /// As [`AggregateState::step_borrowed`] for calls with two arguments.
    ///
    /// # Errors
    /// As [`AggregateState::step`].
    pub(crate) fn step_two(&mut self, [first, second]: [ValueRef<'_>; 2]) -> Result<(), Error> {
        match &mut self.0 {
            State::Concat(joined) => joined.step(first, Some(second)),
            State::Json(group) => group.step(first, Some(second)),
            State::Own(state) => state.step(&[first.into(), second.into()]),
            State::Count(_) | State::Sum(..) | State::Parts(..) | State::Extreme { .. } => {
                self.step_borrowed(Some(first)).map(drop)
            }
        }
    }

    /// Fast path of [`AggregateState::step_borrowed`] for a number and a state that takes a few
    /// instructions. Any other pair gives false, with nothing done.
    #[inline(always)]
    pub(crate) fn step_number(&mut self, value: ValueRef<'_>) -> bool {
        match (&mut self.0, value) {
            (State::Sum(sum, _), ValueRef::Real(real)) => sum.take(TextNumber::Real(real)),
            (State::Sum(sum, _), ValueRef::Int(int)) => sum.take(TextNumber::Int(int)),
            (State::Count(count), value) => *count += i64::from(value != ValueRef::Null),
            (State::Extreme { best: Some(Value::Real(best)), max, .. }, ValueRef::Real(real)) => {
                if if *max { real > *best } else { real < *best } {
                    *best = real;
                }
            }
            (State::Extreme { best: Some(Value::Int(best)), max, .. }, ValueRef::Int(int)) => {
                *best = if *max { int.max(*best) } else { int.min(*best) };
            }
            _ => return false,
        }
        true
    }

    /// As [`AggregateState::step_borrowed`], of one argument after the other.
    ///
    /// # Errors
    /// As [`AggregateState::step`].
    #[inline]
    pub(crate) fn step_each<'v>(&mut self, values: impl ForEach<'v>) -> Result<(), Error> {
        let mut at = 0;
        while at < values.len() {
            at = match &mut self.0 {
                State::Sum(sum, _) => sum.take_each(&values, at),
                State::Extreme { best: Some(Value::Int(best)), max, .. } => {
                    let (mut extreme, max) = (*best, *max);
                    let ended = values.each_int(at, |int| {
                        extreme = if max { extreme.max(int) } else { extreme.min(int) };
                        true
                    });
                    *best = extreme;
                    ended
                }
                State::Extreme { best: Some(Value::Real(best)), max, .. } => {
                    let mut extreme = *best;
                    let ended = if *max {
                        values.each_real(at, |it| extreme = if it > extreme { it } else { extreme })
                    } else {
                        values.each_real(at, |it| extreme = if it < extreme { it } else { extreme })
                    };
                    *best = extreme;
                    ended
                }
                _ => at,
            };
            if at < values.len() {
                let value = values.value(at);
                if !self.step_number(value) {
                    self.step_borrowed(Some(value))?;
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// The aggregate of the rows so far.
    ///
    /// # Errors
    /// [`Error::Runtime`] `integer overflow` from `sum` over integers only.
    pub(crate) fn finish(&self) -> Result<Value, Error> {
        Ok(match &self.0 {
            State::Count(count) => Value::Int(*count),
            State::Sum(sum, result) | State::Parts(sum, result) => match result {
                SumResult::Sum => sum.sum()?,
                SumResult::OfGroup => sum.sum().unwrap_or_else(|_| Value::Blob(Vec::new())),
                // Whole numbers are themselves, and allocate nothing.
                SumResult::OfPart if sum.count == 0 => Value::Null,
                SumResult::OfPart if !sum.approximate => Value::Int(sum.int),
                SumResult::OfPart | SumResult::CountedPart => Value::Blob(sum.bytes()),
                SumResult::Total => Value::real(sum.total()),
                SumResult::Avg if sum.count == 0 => Value::Null,
                SumResult::Avg => Value::real(sum.total() / sum.count as f64),
            },
            State::Extreme { best, .. } => best.clone().unwrap_or_default(),
            State::Concat(joined) => joined.finish(),
            State::Json(group) => group.clone().take()?,
            State::Own(state) => state.value()?,
        })
    }

    /// The value of a `count`.
    #[inline]
    pub(crate) fn count(&self) -> Option<i64> {
        match self.0 {
            State::Count(count) => Some(count),
            _ => None,
        }
    }

    /// The value, where it is a number, or NULL, and known without work.
    pub(crate) fn number(&self) -> Option<Value> {
        let value = match &self.0 {
            State::Sum(_, SumResult::CountedPart) => return None,
            State::Sum(sum, SumResult::OfPart) if sum.approximate => return None,
            State::Count(_) | State::Sum(..) => self.finish().ok()?,
            State::Extreme { best: Some(best @ (Value::Int(_) | Value::Real(_))), .. } => {
                best.clone()
            }
            State::Extreme { best: None, .. } => Value::Null,
            _ => return None,
        };
        Some(value)
    }

    /// As [`AggregateState::finish`], once: a text is moved, not copied.
    ///
    /// # Errors
    /// As [`AggregateState::finish`].
    pub(crate) fn take(&mut self) -> Result<Value, Error> {
        match &mut self.0 {
            State::Concat(joined) => Ok(joined.take()),
            State::Json(group) => group.take(),
            State::Extreme { best, .. } => Ok(best.take().unwrap_or_default()),
            _ => self.finish(),
        }
    }
}

/// A sum, exact over integers until an overflow or a real, and from then on a
/// Kahan-Babuska-Neumaier sum. The steps are SQLite's: the last bit agrees.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: i64,
    int: i64,
    /// At least the largest magnitude `int` ever had, and less than twice as much.
    peak: u64,
    real: f64,
    error: f64,
    approximate: bool,
    overflown: bool,
}

impl Sum {
    fn number(value: &Value) -> Option<TextNumber> {
        Some(match value {
            Value::Null => return None,
            Value::Int(int) => TextNumber::Int(*int),
            Value::Real(real) => TextNumber::Real(*real),
            Value::Text(text) => {
                numeric_from_text(text).unwrap_or_else(|| TextNumber::Real(to_real(value.as_ref())))
            }
            Value::Blob(_) => TextNumber::Real(to_real(value.as_ref())),
        })
    }

    fn undo(&mut self, value: &Value) {
        let Some(number) = Sum::number(value) else { return };
        self.count -= 1;
        if !self.approximate {
            if let TextNumber::Int(int) = number
                && let Some(sum) = self.int.checked_sub(int)
            {
                self.int = sum;
                return;
            }
            (self.approximate, self.overflown) = (true, true);
            let (large, small) = split(self.int);
            (self.real, self.error) = (large, small.unwrap_or(0.0));
        }
        match number {
            TextNumber::Int(i64::MIN) => {
                self.add_int(i64::MAX);
                self.add_int(1);
            }
            TextNumber::Int(int) => self.add_int(-int),
            TextNumber::Real(real) => self.add(-real),
        }
    }

    fn add_int(&mut self, int: i64) {
        let (large, small) = split(int);
        self.add(large);
        if let Some(small) = small {
            self.add(small);
        }
    }

    fn step(&mut self, value: &Value) {
        let Some(number) = Sum::number(value) else { return };
        self.take(number);
    }

    #[inline(always)]
    fn take(&mut self, number: TextNumber) {
        self.count += 1;
        if !self.approximate {
            if let TextNumber::Int(int) = number
                && let Some(sum) = self.int.checked_add(int)
            {
                self.int = sum;
                self.peak |= sum.unsigned_abs();
                return;
            }
            self.overflown = matches!(number, TextNumber::Int(_));
            self.approximate = true;
            let (large, small) = split(self.int);
            (self.real, self.error) = (large, small.unwrap_or(0.0));
        }
        match number {
            TextNumber::Int(int) => self.add_int(int),
            TextNumber::Real(real) => {
                self.overflown = false;
                self.add(real);
            }
        }
    }

    /// Takes numbers from number `from` on: integers while the sum is exact, reals from then on;
    /// gives the number of the first value not taken.
    #[inline(always)]
    fn take_each<'v>(&mut self, values: &impl ForEach<'v>, from: usize) -> usize {
        // A local copy, kept in registers while the loop runs.
        let mut sum = *self;
        let ended = if sum.approximate {
            let ended = values.each_real(from, |real| sum.add(real));
            sum.overflown &= ended == from;
            ended
        } else {
            values.each_int(from, |int| {
                let Some(total) = sum.int.checked_add(int) else { return false };
                sum.int = total;
                sum.peak |= total.unsigned_abs();
                true
            })
        };
        sum.count += (ended - from) as i64;
        *self = sum;
        ended
    }

    /// Takes the numbers of another sum, in any order: only a total past the end of integers
    /// overflows.
    fn join(&mut self, other: &Sum) {
        if !self.approximate
            && !other.approximate
            && let Some(int) = self.int.checked_add(other.int)
        {
            self.int = int;
            self.count += other.count;
            return;
        }
        // Integers that are too many are no error among reals.
        let of_integers = |sum: &Sum| !sum.approximate || sum.overflown || sum.count == 0;
        let overflown = of_integers(self) && of_integers(other);
        self.add_sum(other);
        self.overflown = overflown;
        self.count += other.count;
    }

    /// Adds another sum to this one as reals, with the compensations.
    fn add_sum(&mut self, other: &Sum) {
        if !self.approximate {
            let (large, small) = split(self.int);
            (self.approximate, self.real, self.error) = (true, large, small.unwrap_or(0.0));
        }
        if other.approximate {
            self.add(other.real);
            self.error += other.error;
        } else {
            self.add_int(other.int);
        }
    }

    /// Takes the sum of a part, as an `InnerSum` gives it.
    fn join_part(&mut self, part: Option<ValueRef<'_>>) {
        match part {
            Some(ValueRef::Int(int)) => self.join(&Sum { count: 1, int, ..Sum::default() }),
            Some(ValueRef::Blob(bytes)) => self.join(&Sum::of_bytes(bytes)),
            _ => {}
        }
    }

    /// The sum as bytes, for [`Sum::of_bytes`].
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(34);
        bytes.extend(self.count.to_le_bytes());
        bytes.extend(self.int.to_le_bytes());
        bytes.extend(self.real.to_le_bytes());
        bytes.extend(self.error.to_le_bytes());
        bytes.extend([u8::from(self.approximate), u8::from(self.overflown)]);
        bytes
    }

    fn of_bytes(bytes: &[u8]) -> Sum {
        let invariant = "a part's sum is given as its bytes";
        let (words, flags) = bytes.as_chunks::<8>();
        let [count, int, real, error] = *words else { panic!("{invariant}") };
        let [approximate, overflown] = *flags else { panic!("{invariant}") };
        Sum {
            count: i64::from_le_bytes(count),
            int: i64::from_le_bytes(int),
            peak: 0,
            real: f64::from_le_bytes(real),
            error: f64::from_le_bytes(error),
            approximate: approximate == 1,
            overflown: overflown == 1,
        }
    }

    /// Takes the numbers of another sum; false, with nothing changed, where an overflow cannot be
    /// ruled out.
    fn merge(&mut self, other: &Sum) -> bool {
        if self.overflown || other.overflown {
            return false;
        }
        if !self.approximate || !other.approximate {
            let most = self.int.unsigned_abs().saturating_add(other.peak);
            if most > i64::MAX.unsigned_abs() {
                return false;
            }
        }
        self.count += other.count;
        if !self.approximate && !other.approximate {
            self.int += other.int;
            self.peak |= other.peak | self.int.unsigned_abs();
            return true;
        }
        self.add_sum(other);
        true
    }

    #[inline(always)]
    fn add(&mut self, term: f64) {
        let sum = self.real + term;
        self.error += if self.real.abs() > term.abs() {
            (self.real - sum) + term
        } else {
            (term - sum) + self.real
        };
        self.real = sum;
    }

    fn sum(&self) -> Result<Value, Error> {
        if self.count == 0 {
            Ok(Value::Null)
        } else if !self.approximate {
            Ok(Value::Int(self.int))
        } else if self.overflown {
            Err(Error::runtime("integer overflow"))
        } else {
            Ok(Value::real(self.total()))
        }
    }

    fn total(&self) -> f64 {
        if !self.approximate {
            self.int as f64
        } else if self.error.is_finite() {
            self.real + self.error
        } else {
            self.real
        }
    }
}

/// An integer as reals: one real up to 52 bits, above two reals with the integer as their exact
/// sum.
fn split(int: i64) -> (f64, Option<f64>) {
    const EXACT: i64 = 1 << 52;
    if (1 - EXACT..EXACT).contains(&int) {
        (int as f64, None)
    } else {
        let small = int % 16384;
        ((int - small) as f64, Some(small as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Function, lookup};
    use super::*;

    fn aggregate(name: &str, values: &[Value]) -> Result<Value, Error> {
        let Ok(Function::Aggregate(function)) = lookup(name, 1) else { panic!("{name}") };
        let mut state = function.start(Collation::Binary, 0);
        for value in values {
            state.step(std::slice::from_ref(value)).unwrap();
        }
        state.finish()
    }

    #[test]
    fn sums() {
        assert_eq!(aggregate("sum", &[]).unwrap(), Value::Null);
        assert_eq!(aggregate("total", &[]).unwrap(), Value::Real(0.0));
        assert_eq!(
            aggregate("sum", &[Value::Int(1), Value::Null, "2".into()]).unwrap(),
            Value::Int(3)
        );
        let big = [Value::Int(i64::MAX), Value::Int(1)];
        assert_eq!(aggregate("sum", &big).unwrap_err().to_string(), "integer overflow");
        assert_eq!(aggregate("total", &big).unwrap(), Value::Real(9223372036854775808.0));
        let tenths = vec![Value::Real(0.1); 10];
        assert_eq!(aggregate("sum", &tenths).unwrap(), Value::Real(1.0));
        assert_eq!(aggregate("avg", &[Value::Int(1), Value::Int(2)]).unwrap(), Value::Real(1.5));
    }

    #[test]
    fn extremes_tell_their_row() {
        let Ok(Function::Aggregate(max)) = lookup("max", 1) else { panic!() };
        let mut state = max.start(Collation::NoCase, 0);
        let steps = [
            (Value::Null, true),
            ("b".into(), true),
            ("A".into(), false),
            ("B".into(), false),
            (Value::Null, false),
            ("c".into(), true),
        ];
        for (value, picked) in steps {
            assert_eq!(state.step(std::slice::from_ref(&value)).unwrap(), picked, "{value:?}");
        }
        assert_eq!(state.finish().unwrap(), "c".into());
    }

    #[test]
    fn texts_join() {
        assert_eq!(
            aggregate("group_concat", &["a".into(), Value::Null, Value::Int(2)]).unwrap(),
            "a,2".into()
        );
        assert_eq!(aggregate("group_concat", &[Value::Null]).unwrap(), Value::Null);
    }
}

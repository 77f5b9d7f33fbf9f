//! Aggregates: the state kept of a group's values, and the result.

use std::cmp::Ordering;

use rustc_hash::FxHashSet;

use crate::ast::{Aggregate, AggregateKind};
use crate::error::{Error, ErrorClass, Result};
use crate::run::Run;
use crate::temporal::Duration;
use crate::value::{Key, Value};

/// The state of one aggregate of one group.
pub(super) struct Accumulator {
    kind: AggregateKind,
    /// Values seen, where equal ones count once.
    seen: Option<FxHashSet<Key>>,
    count: i64,
    sum: Sum,
    extreme: Value,
    values: Vec<Value>,
    percentile: f64,
}

enum Sum {
    Integer(i128),
    Float(f64),
    Duration(Duration),
}

impl Accumulator {
    pub(super) fn new(aggregate: &Aggregate) -> Accumulator {
        Accumulator {
            kind: aggregate.kind,
            seen: aggregate.distinct.then(FxHashSet::default),
            count: 0,
            sum: Sum::Integer(0),
            extreme: Value::Null,
            values: Vec::new(),
            percentile: 0.0,
        }
    }

    /// Takes the arguments of so many equal rows.
    pub(super) fn add_times(&mut self, run: &Run<'_>, args: Vec<Value>, count: u64) -> Result<()> {
        let more = i64::try_from(count).unwrap_or(i64::MAX);
        let is_null = args.first().is_some_and(Value::is_null);
        match self.kind {
            AggregateKind::CountStar => self.count_more(more),
            AggregateKind::Count if self.seen.is_none() && is_null => Ok(()),
            AggregateKind::Count if self.seen.is_none() => self.count_more(more),
            AggregateKind::Min | AggregateKind::Max => self.add(run, args),
            _ if self.seen.is_some() => self.add(run, args),
            _ => {
                for _ in 1..count {
                    run.tick()?;
                    self.add(run, args.clone())?;
                }
                self.add(run, args)
            }
        }
    }

    fn count_more(&mut self, more: i64) -> Result<()> {
        self.count = self.count.checked_add(more).ok_or_else(|| {
            let message = "the count does not fit 64 bits";
            Error::runtime(ErrorClass::ArithmeticError, "IntegerOverflow", message)
        })?;
        Ok(())
    }

    /// Takes the arguments of one row.
    pub(super) fn add(&mut self, run: &Run<'_>, mut args: Vec<Value>) -> Result<()> {
        if self.kind == AggregateKind::CountStar {
            self.count += 1;
            return Ok(());
        }
        if let Some(percentile) = args.get(1) {
            self.percentile = match percentile {
                Value::Float(number) if (0.0..=1.0).contains(number) => *number,
                Value::Integer(number @ 0..=1) => *number as f64,
                Value::Integer(_) | Value::Float(_) => {
                    let message = "a percentile lies between 0.0 and 1.0";
                    return Err(Error::runtime(
                        ErrorClass::ArgumentError,
                        "NumberOutOfRange",
                        message,
                    ));
                }
                other => {
                    return Err(Error::value_type(format!(
                        "a percentile is a number, not {}",
                        other.type_name()
                    )));
                }
            };
        }
        let value = std::mem::take(&mut args[0]);
        if value.is_null() {
            return Ok(());
        }
        if let Some(seen) = &mut self.seen {
            run.keep_row(std::slice::from_ref(&value))?;
            if !seen.insert(Key(vec![value.clone()])) {
                return Ok(());
            }
        }
        self.count += 1;
        match self.kind {
            AggregateKind::CountStar | AggregateKind::Count => {}
            AggregateKind::Sum | AggregateKind::Avg => self.add_number(&value)?,
            AggregateKind::Min
                if self.extreme.is_null() || value.order(&self.extreme) == Ordering::Less =>
            {
                self.extreme = value;
            }
            AggregateKind::Max
                if self.extreme.is_null() || value.order(&self.extreme) == Ordering::Greater =>
            {
                self.extreme = value;
            }
            AggregateKind::Min | AggregateKind::Max => {}
            AggregateKind::Collect => {
                run.keep_row(std::slice::from_ref(&value))?;
                self.values.push(value);
            }
            _ => match value {
                Value::Integer(_) | Value::Float(_) => {
                    run.keep(24)?;
                    self.values.push(value);
                }
                other => {
                    return Err(Error::value_type(format!(
                        "a number is wanted, not {}",
                        other.type_name()
                    )));
                }
            },
        }
        Ok(())
    }

    fn add_number(&mut self, value: &Value) -> Result<()> {
        self.sum = match (&self.sum, value) {
            (Sum::Integer(sum), Value::Integer(number)) => Sum::Integer(sum + i128::from(*number)),
            (Sum::Integer(sum), Value::Float(number)) => Sum::Float(*sum as f64 + number),
            (Sum::Float(sum), Value::Integer(number)) => Sum::Float(sum + *number as f64),
            (Sum::Float(sum), Value::Float(number)) => Sum::Float(sum + number),
            (Sum::Integer(0), Value::Duration(duration)) => Sum::Duration(**duration),
            (Sum::Duration(sum), Value::Duration(duration)) => Sum::Duration(sum.plus(**duration)?),
            (_, other) => {
                return Err(Error::value_type(format!(
                    "no sum is defined with {}",
                    other.type_name()
                )));
            }
        };
        Ok(())
    }

    /// The result.
    pub(super) fn finish(mut self) -> Result<Value> {
        Ok(match self.kind {
            AggregateKind::CountStar | AggregateKind::Count => Value::Integer(self.count),
            AggregateKind::Sum => match self.sum {
                Sum::Integer(sum) => Value::Integer(i64::try_from(sum).map_err(|_| {
                    let message = "the sum does not fit 64 bits";
                    Error::runtime(ErrorClass::ArithmeticError, "IntegerOverflow", message)
                })?),
                Sum::Float(sum) => Value::Float(sum),
                Sum::Duration(sum) => Value::duration(sum),
            },
            AggregateKind::Avg if self.count == 0 => Value::Null,
            AggregateKind::Avg => match self.sum {
                Sum::Integer(sum) => Value::Float(sum as f64 / self.count as f64),
                Sum::Float(sum) => Value::Float(sum / self.count as f64),
                Sum::Duration(sum) => Value::duration(sum.times(1.0 / self.count as f64)?),
            },
            AggregateKind::Min | AggregateKind::Max => self.extreme,
            AggregateKind::Collect => Value::list(self.values),
            AggregateKind::StDev | AggregateKind::StDevP => Value::Float(self.deviation()),
            AggregateKind::PercentileDisc | AggregateKind::PercentileCont
                if self.values.is_empty() =>
            {
                Value::Null
            }
            AggregateKind::PercentileDisc => {
                self.values.sort_by(Value::order);
                let place = (self.percentile * self.values.len() as f64).ceil() as usize;
                self.values[place.saturating_sub(1)].clone()
            }
            AggregateKind::PercentileCont => {
                self.values.sort_by(Value::order);
                let place = self.percentile * (self.values.len() - 1) as f64;
                let (low, high) = (place.floor(), place.ceil());
                let at = |place: f64| number(&self.values[place as usize]);
                Value::Float(at(low) + (at(high) - at(low)) * (place - low))
            }
        })
    }

    fn deviation(&self) -> f64 {
        let count = self.values.len() as f64;
        let mean = self.values.iter().map(number).sum::<f64>() / count.max(1.0);
        let squares: f64 = self.values.iter().map(|value| (number(value) - mean).powi(2)).sum();
        let divisor = if self.kind == AggregateKind::StDev { count - 1.0 } else { count };
        if divisor > 0.0 { (squares / divisor).sqrt() } else { 0.0 }
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => unreachable!("only numbers were kept"),
    }
}

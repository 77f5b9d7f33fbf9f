//! Durations added to temporal values, and durations between them.

use super::build::{self, date_of, time_of, zone_of};
use super::zone::Zone;
use super::{DAY, Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS, Time};
use crate::error::{Error, Result};
use crate::value::Value;

/// A temporal value so much later, or nothing where the value is none.
pub(crate) fn plus(value: &Value, duration: Duration) -> Result<Option<Value>> {
    let turn = |time: LocalTime| {
        let nanos = i128::from(time.nanos) + duration.total_nanos();
        LocalTime { nanos: nanos.rem_euclid(i128::from(DAY * NANOS)) as i64 }
    };
    Ok(Some(match value {
        Value::Date(date) => {
            let days = duration.days.checked_add(duration.seconds / DAY).ok_or_else(beyond)?;
            Value::Date(shift(*date, duration.months, days)?)
        }
        Value::LocalTime(time) => Value::LocalTime(turn(*time)),
        Value::Time(time) => Value::Time(Time { local: turn(time.local), offset: time.offset }),
        Value::LocalDateTime(local) => Value::local_date_time(shift_local(**local, duration)?),
        Value::DateTime(time) => {
            let zone = zone_of(value).expect("an instant has a zone");
            let date = shift(time.local.date, duration.months, duration.days)?;
            let moved = build::with_zone(LocalDateTime { date, time: time.local.time }, zone);
            let (seconds, nanos) = moved.instant();
            let total = i128::from(nanos) + duration.total_nanos();
            let seconds = i128::from(seconds) + total.div_euclid(i128::from(NANOS));
            let seconds = i64::try_from(seconds).map_err(|_| beyond())?;
            let nanos = total.rem_euclid(i128::from(NANOS)) as i64;
            Value::date_time(build::from_epoch(seconds, nanos, zone)?)
        }
        _ => return Ok(None),
    }))
}

fn beyond() -> Error {
    Error::argument("the date is beyond the last year")
}

fn shift(date: Date, months: i64, days: i64) -> Result<Date> {
    date.plus_months(months).and_then(|date| date.plus_days(days)).ok_or_else(beyond)
}

fn shift_local(local: LocalDateTime, duration: Duration) -> Result<LocalDateTime> {
    let date = shift(local.date, duration.months, duration.days)?;
    let nanos = i128::from(local.time.nanos) + duration.total_nanos();
    let day = i128::from(DAY * NANOS);
    let days = i64::try_from(nanos.div_euclid(day)).map_err(|_| beyond())?;
    let date = date.plus_days(days).ok_or_else(beyond)?;
    Ok(LocalDateTime { date, time: LocalTime { nanos: nanos.rem_euclid(day) as i64 } })
}

/// The unit in which a difference is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Months, then days, then seconds.
    Mixed,
    Months,
    Days,
    Seconds,
}

/// The time from one temporal value to another.
pub(crate) fn between(unit: Unit, from: &Value, to: &Value) -> Result<Duration> {
    for value in [from, to] {
        if date_of(value).is_none() && time_of(value).is_none() {
            return Err(Error::value_type(format!("{} is no temporal value", value.type_name())));
        }
    }
    let midnight = LocalTime { nanos: 0 };
    let zones = (zone_of(from), zone_of(to));
    let time = |value: &Value| time_of(value).unwrap_or(midnight);
    let (Some(from_date), Some(to_date)) = (date_of(from), date_of(to)) else {
        if matches!(unit, Unit::Months | Unit::Days) {
            return Ok(Duration::default());
        }
        let mut nanos = i128::from(time(to).nanos) - i128::from(time(from).nanos);
        if let (Some(_), Some(_)) = zones {
            let offset = |value: &Value| match value {
                Value::Time(time) => time.offset,
                Value::DateTime(time) => time.offset,
                _ => 0,
            };
            nanos -= i128::from(offset(to) - offset(from)) * i128::from(NANOS);
        }
        return Duration::normal(0, 0, nanos);
    };
    let from_local = LocalDateTime { date: from_date, time: time(from) };
    let to_local = LocalDateTime { date: to_date, time: time(to) };
    let zone = zones.0.or(zones.1);
    // Values without a zone are in the zone of the other; instants are compared in the first's.
    let placed = |local: LocalDateTime, own: Option<Zone>| match (own, zone) {
        (Some(own), _) => build::with_zone(local, own),
        (None, Some(zone)) => build::with_zone(local, zone),
        (None, None) => DateTime { local, offset: 0, zone: None },
    };
    let (start, mut end) = (placed(from_local, zones.0), placed(to_local, zones.1));
    if let Some(zone) = zone {
        end = build::in_zone(end, zone);
    }
    let nanos_between = |a: DateTime, b: DateTime| {
        let ((a, a_nanos), (b, b_nanos)) = (a.instant(), b.instant());
        i128::from(b - a) * i128::from(NANOS) + i128::from(b_nanos - a_nanos)
    };
    if unit == Unit::Seconds {
        return Duration::normal(0, 0, nanos_between(start, end));
    }
    let mut months = 0;
    if unit != Unit::Days {
        months = whole_months(start.local, end.local);
    }
    if unit == Unit::Months {
        return Duration::normal(months.into(), 0, 0);
    }
    let date = shift(start.local.date, months, 0)?;
    let moved = LocalDateTime { date, time: start.local.time };
    let days = whole_days(moved, end.local);
    if unit == Unit::Days {
        return Duration::normal(0, days.into(), 0);
    }
    let moved = LocalDateTime { date: shift(date, 0, days)?, time: moved.time };
    let moved = match zone {
        Some(zone) => build::with_zone(moved, zone),
        None => DateTime { local: moved, offset: 0, zone: None },
    };
    Duration::normal(months.into(), days.into(), nanos_between(moved, end))
}

fn whole_days(from: LocalDateTime, to: LocalDateTime) -> i64 {
    let days = to.date.days - from.date.days;
    match days {
        1.. if to.time < from.time => days - 1,
        ..=-1 if to.time > from.time => days + 1,
        _ => days,
    }
}

fn whole_months(from: LocalDateTime, to: LocalDateTime) -> i64 {
    let ((from_year, from_month, from_day), (to_year, to_month, to_day)) =
        (from.date.parts(), to.date.parts());
    let months = (to_year - from_year) * 12 + to_month - from_month;
    let (start, end) = ((from_day, from.time), (to_day, to.time));
    match months {
        1.. if end < start => months - 1,
        ..=-1 if end > start => months + 1,
        _ => months,
    }
}

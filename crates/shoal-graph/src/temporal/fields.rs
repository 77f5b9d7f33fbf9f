//! Components of temporal values: `d.year`, `t.offset`, `p.minutesOfHour`.

use super::{Date, DateTime, Duration, LocalTime, NANOS, zone};
use crate::value::Value;

/// A component by name, or nothing where the value is no temporal one or has no such component.
pub(crate) fn component(value: &Value, key: &str) -> Option<Value> {
    match value {
        Value::Date(date) => of_date(*date, key).map(Value::Integer),
        Value::LocalTime(time) => of_time(*time, key).map(Value::Integer),
        Value::Time(time) => of_time(time.local, key)
            .map(Value::Integer)
            .or_else(|| of_offset(time.offset, None, key)),
        Value::LocalDateTime(local) => {
            of_date(local.date, key).or_else(|| of_time(local.time, key)).map(Value::Integer)
        }
        Value::DateTime(time) => of_date(time.local.date, key)
            .or_else(|| of_time(time.local.time, key))
            .or_else(|| of_instant(time, key))
            .map(Value::Integer)
            .or_else(|| of_offset(time.offset, time.zone, key)),
        Value::Duration(duration) => of_duration(duration, key).map(Value::Integer),
        _ => None,
    }
}

fn of_date(date: Date, key: &str) -> Option<i64> {
    let (year, month, day) = date.parts();
    Some(match key {
        "year" => year,
        "quarter" => date.quarter(),
        "month" => month,
        "week" => date.week().1,
        "weekYear" => date.week().0,
        "day" => day,
        "ordinalDay" => date.ordinal(),
        "weekDay" | "dayOfWeek" => date.weekday(),
        "dayOfQuarter" => date.day_of_quarter(),
        _ => return None,
    })
}

fn of_time(time: LocalTime, key: &str) -> Option<i64> {
    let (hour, minute, second, nanos) = time.parts();
    Some(match key {
        "hour" => hour,
        "minute" => minute,
        "second" => second,
        "millisecond" => nanos / 1_000_000,
        "microsecond" => nanos / 1000,
        "nanosecond" => nanos,
        _ => return None,
    })
}

fn of_offset(offset: i32, name: Option<&str>, key: &str) -> Option<Value> {
    Some(match key {
        "timezone" => Value::text(&name.map_or_else(|| zone::offset_text(offset), str::to_owned)),
        "offset" => Value::text(&zone::offset_text(offset)),
        "offsetMinutes" => Value::Integer(i64::from(offset / 60)),
        "offsetSeconds" => Value::Integer(i64::from(offset)),
        _ => return None,
    })
}

fn of_instant(time: &DateTime, key: &str) -> Option<i64> {
    let (seconds, nanos) = time.instant();
    match key {
        "epochSeconds" => Some(seconds),
        "epochMillis" => Some(seconds * 1000 + nanos / 1_000_000),
        _ => None,
    }
}

fn of_duration(duration: &Duration, key: &str) -> Option<i64> {
    let Duration { months, days, seconds, nanos } = *duration;
    let below = |unit: i64| i64::try_from(duration.total_nanos() / i128::from(unit)).ok();
    Some(match key {
        "years" => months / 12,
        "quarters" => months / 3,
        "months" => months,
        "weeks" => days / 7,
        "days" => days,
        "hours" => seconds / 3600,
        "minutes" => seconds / 60,
        "seconds" => seconds,
        "milliseconds" => below(1_000_000)?,
        "microseconds" => below(1000)?,
        "nanoseconds" => below(1)?,
        "quartersOfYear" => months / 3 % 4,
        "monthsOfQuarter" => months % 3,
        "monthsOfYear" => months % 12,
        "daysOfWeek" => days % 7,
        "minutesOfHour" => seconds / 60 % 60,
        "secondsOfMinute" => seconds % 60,
        "millisecondsOfSecond" => nanos / 1_000_000,
        "microsecondsOfSecond" => nanos / 1000,
        "nanosecondsOfSecond" => nanos % NANOS,
        _ => return None,
    })
}

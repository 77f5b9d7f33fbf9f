//! Functions of temporal values: constructors, `.truncate`, clocks, `duration.between`.

use super::arithmetic::{Unit, between};
use super::build::{self, Parts, date_of, time_of, zone_of};
use super::zone::Zone;
use super::{DateTime, LocalDateTime, LocalTime, Time, parse};
use crate::error::{Error, Result};
use crate::value::{Map, Value};

/// A kind of temporal value that a function makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemporalKind {
    Date,
    LocalTime,
    Time,
    LocalDateTime,
    DateTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemporalFunction {
    Make(TemporalKind),
    Truncate(TemporalKind),
    /// The time of the query's start.
    Now(TemporalKind),
    FromEpoch,
    FromEpochMillis,
    Duration,
    Between(Unit),
}

/// A function by its name in lower case, with its smallest and largest number of arguments.
pub(crate) fn find(name: &str) -> Option<(TemporalFunction, usize, usize)> {
    use TemporalFunction::*;
    let (family, method) = name.split_once('.').unwrap_or((name, ""));
    let kind = match family {
        "date" => TemporalKind::Date,
        "localtime" => TemporalKind::LocalTime,
        "time" => TemporalKind::Time,
        "localdatetime" => TemporalKind::LocalDateTime,
        "datetime" => TemporalKind::DateTime,
        "duration" => {
            return Some(match method {
                "" => (Duration, 1, 1),
                "between" => (Between(Unit::Mixed), 2, 2),
                "inmonths" => (Between(Unit::Months), 2, 2),
                "indays" => (Between(Unit::Days), 2, 2),
                "inseconds" => (Between(Unit::Seconds), 2, 2),
                _ => return None,
            });
        }
        _ => return None,
    };
    Some(match method {
        "" => (Make(kind), 0, 1),
        "truncate" => (Truncate(kind), 1, 3),
        "transaction" | "statement" | "realtime" => (Now(kind), 0, 1),
        "fromepoch" if kind == TemporalKind::DateTime => (FromEpoch, 2, 2),
        "fromepochmillis" if kind == TemporalKind::DateTime => (FromEpochMillis, 1, 1),
        _ => return None,
    })
}

/// A function's value; `started` is the query's instant.
pub(crate) fn call(function: TemporalFunction, args: &[Value], started: DateTime) -> Result<Value> {
    if args.iter().any(|arg| matches!(arg, Value::Null)) {
        return Ok(Value::Null);
    }
    match function {
        TemporalFunction::Make(kind) => match args.first() {
            None => clock(kind, Zone::UTC, started),
            Some(arg) => make(kind, arg),
        },
        TemporalFunction::Now(kind) => {
            let zone = match args.first() {
                Some(Value::Text(name)) => Zone::parse(name)?,
                Some(other) => return Err(wrong_type("a time zone", other)),
                None => Zone::UTC,
            };
            clock(kind, zone, started)
        }
        TemporalFunction::Truncate(kind) => truncate(kind, args, started),
        TemporalFunction::FromEpoch => match (&args[0], &args[1]) {
            (Value::Integer(seconds), Value::Integer(nanos)) => {
                build::from_epoch(*seconds, *nanos, Zone::UTC).map(Value::date_time)
            }
            (other, Value::Integer(_)) | (_, other) => Err(wrong_type("an integer", other)),
        },
        TemporalFunction::FromEpochMillis => match &args[0] {
            Value::Integer(millis) => {
                let nanos = millis.rem_euclid(1000) * 1_000_000;
                build::from_epoch(millis.div_euclid(1000), nanos, Zone::UTC).map(Value::date_time)
            }
            other => Err(wrong_type("an integer", other)),
        },
        TemporalFunction::Duration => match &args[0] {
            Value::Text(text) => parse::duration(text).map(Value::duration),
            Value::Map(map) => Parts::new(map, false).duration().map(Value::duration),
            Value::Duration(duration) => Ok(Value::Duration(duration.clone())),
            other => Err(wrong_type("a string or a map", other)),
        },
        TemporalFunction::Between(unit) => between(unit, &args[0], &args[1]).map(Value::duration),
    }
}

fn wrong_type(wanted: &str, found: &Value) -> Error {
    Error::value_type(format!("{wanted} is wanted, not {}", found.type_name()))
}

fn clock(kind: TemporalKind, zone: Zone, started: DateTime) -> Result<Value> {
    convert(kind, &Value::date_time(build::in_zone(started, zone)))
}

fn make(kind: TemporalKind, arg: &Value) -> Result<Value> {
    match arg {
        Value::Text(text) => Ok(match kind {
            TemporalKind::Date => Value::Date(parse::date(text)?),
            TemporalKind::LocalTime => Value::LocalTime(parse::local_time(text)?),
            TemporalKind::Time => Value::Time(parse::time(text)?),
            TemporalKind::LocalDateTime => Value::local_date_time(parse::local_date_time(text)?),
            TemporalKind::DateTime => Value::date_time(parse::date_time(text)?),
        }),
        Value::Map(map) => from_map(kind, map, false),
        other => convert(kind, other),
    }
}

fn from_map(kind: TemporalKind, map: &Map, adds_fractions: bool) -> Result<Value> {
    let parts = Parts::new(map, adds_fractions);
    let has_date = !matches!(kind, TemporalKind::Time | TemporalKind::LocalTime);
    let has_time = kind != TemporalKind::Date;
    let has_zone = matches!(kind, TemporalKind::Time | TemporalKind::DateTime);
    parts.check(has_date, has_time, has_zone)?;
    Ok(match kind {
        TemporalKind::Date => Value::Date(parts.date(None)?),
        TemporalKind::LocalTime => Value::LocalTime(parts.time(None)?),
        TemporalKind::Time => Value::Time(parts.zoned_time()?),
        TemporalKind::LocalDateTime => Value::local_date_time(parts.local_date_time()?),
        TemporalKind::DateTime => Value::date_time(parts.date_time()?),
    })
}

fn convert(kind: TemporalKind, value: &Value) -> Result<Value> {
    let wrong = || wrong_type("a string, a map or a temporal value", value);
    let midnight = LocalTime { nanos: 0 };
    let local = || {
        let date = date_of(value).ok_or_else(wrong)?;
        Ok(LocalDateTime { date, time: time_of(value).unwrap_or(midnight) })
    };
    Ok(match kind {
        TemporalKind::Date => Value::Date(date_of(value).ok_or_else(wrong)?),
        TemporalKind::LocalTime => Value::LocalTime(time_of(value).ok_or_else(wrong)?),
        TemporalKind::Time => {
            let offset = match value {
                Value::Time(time) => time.offset,
                Value::DateTime(time) => time.offset,
                _ => 0,
            };
            Value::Time(Time { local: time_of(value).ok_or_else(wrong)?, offset })
        }
        TemporalKind::LocalDateTime => Value::local_date_time(local()?),
        TemporalKind::DateTime => match value {
            Value::DateTime(_) => value.clone(),
            _ => Value::date_time(build::with_zone(local()?, Zone::UTC)),
        },
    })
}

fn truncate(kind: TemporalKind, args: &[Value], started: DateTime) -> Result<Value> {
    let Value::Text(unit) = &args[0] else {
        return Err(wrong_type("the name of a unit", &args[0]));
    };
    let now = Value::date_time(started);
    let value = args.get(1).unwrap_or(&now);
    let empty = Map::new();
    let changes = match args.get(2) {
        None => &empty,
        Some(Value::Map(map)) => &**map,
        Some(other) => return Err(wrong_type("a map", other)),
    };
    let unknown = || Error::argument(format!("{unit} is no unit of this kind of temporal value"));
    let parts = Parts::new(changes, true);
    let has_date = !matches!(kind, TemporalKind::Time | TemporalKind::LocalTime);
    let has_zone = matches!(kind, TemporalKind::Time | TemporalKind::DateTime);
    parts.check(has_date, kind != TemporalKind::Date, has_zone)?;
    let midnight = LocalTime { nanos: 0 };
    let cut_time = |time: Option<LocalTime>| match (build::truncate_time(unit, midnight), time) {
        (Some(_), Some(time)) => {
            Ok(build::truncate_time(unit, time).expect("the unit is one of a time"))
        }
        (Some(_), None) if &**unit == "day" => Ok(midnight),
        _ => Err(unknown()),
    };
    let date = match has_date {
        true => {
            let date = date_of(value).ok_or_else(|| wrong_type("a value with a date", value))?;
            Some(build::truncate_date(unit, date)?)
        }
        false => None,
    };
    let zone = match parts.zone()? {
        Some(zone) => zone,
        None => zone_of(value).unwrap_or(Zone::UTC),
    };
    let offset = match zone {
        Zone::Offset(offset) => offset,
        Zone::Named(_) => match value {
            Value::DateTime(time) => time.offset,
            _ => zone.offset_at(0),
        },
    };
    let local = || -> Result<LocalDateTime> {
        let (date, time) = match date.flatten() {
            Some(date) => (date, midnight),
            None => (date_of(value).expect("found above"), cut_time(time_of(value))?),
        };
        Ok(LocalDateTime { date: parts.date(Some(date))?, time: parts.time(Some(time))? })
    };
    Ok(match kind {
        TemporalKind::Date => Value::Date(parts.date(Some(date.flatten().ok_or_else(unknown)?))?),
        TemporalKind::LocalTime => Value::LocalTime(parts.time(Some(cut_time(time_of(value))?))?),
        TemporalKind::Time => {
            Value::Time(Time { local: parts.time(Some(cut_time(time_of(value))?))?, offset })
        }
        TemporalKind::LocalDateTime => Value::local_date_time(local()?),
        TemporalKind::DateTime => Value::date_time(build::with_zone(local()?, zone)),
    })
}

//! Temporal values from maps of their parts, from each other, and truncated to a unit.

use super::calendar::Date;
use super::zone::Zone;
use super::{DAY, DateTime, Duration, LocalDateTime, LocalTime, NANOS, Time};
use crate::error::{Error, Result};
use crate::value::{Map, Value};

/// A date and time where a zone holds.
pub(crate) fn with_zone(local: LocalDateTime, zone: Zone) -> DateTime {
    DateTime { local, offset: zone.offset_at_local(local), zone: zone.name() }
}

/// The same instant in another zone.
pub(crate) fn in_zone(time: DateTime, zone: Zone) -> DateTime {
    let (seconds, nanos) = time.instant();
    let offset = zone.offset_at(seconds);
    let local = LocalDateTime::of_epoch(seconds + i64::from(offset), nanos);
    DateTime { local, offset, zone: zone.name() }
}

/// The date within a value that has one.
pub(crate) fn date_of(value: &Value) -> Option<Date> {
    match value {
        Value::Date(date) => Some(*date),
        Value::LocalDateTime(local) => Some(local.date),
        Value::DateTime(time) => Some(time.local.date),
        _ => None,
    }
}

/// The time of day within a value that has one.
pub(crate) fn time_of(value: &Value) -> Option<LocalTime> {
    match value {
        Value::LocalTime(local) => Some(*local),
        Value::Time(time) => Some(time.local),
        Value::LocalDateTime(local) => Some(local.time),
        Value::DateTime(time) => Some(time.local.time),
        _ => None,
    }
}

/// The zone of a value that has one.
pub(crate) fn zone_of(value: &Value) -> Option<Zone> {
    match value {
        Value::Time(time) => Some(Zone::Offset(time.offset)),
        Value::DateTime(time) => Some(time.zone.map_or(Zone::Offset(time.offset), Zone::Named)),
        _ => None,
    }
}

/// Parts of a temporal value, read from a map.
pub(crate) struct Parts<'m> {
    map: &'m Map,
    /// True adds parts below a second to those of the value changed; a truncated value has only
    /// greater ones.
    adds_fractions: bool,
}

const DATE_KEYS: [&str; 9] =
    ["year", "month", "day", "week", "dayOfWeek", "ordinalDay", "quarter", "dayOfQuarter", "date"];
const TIME_KEYS: [&str; 7] =
    ["hour", "minute", "second", "millisecond", "microsecond", "nanosecond", "time"];

impl<'m> Parts<'m> {
    pub(crate) fn new(map: &'m Map, adds_fractions: bool) -> Parts<'m> {
        Parts { map, adds_fractions }
    }

    fn get(&self, key: &str) -> Option<&'m Value> {
        self.map.get(key).filter(|value| !matches!(value, Value::Null))
    }

    fn integer(&self, key: &str) -> Result<Option<i64>> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => Ok(Some(*number)),
            Some(other) => {
                Err(Error::value_type(format!("{key} is an integer, not {}", other.type_name())))
            }
        }
    }

    /// Refuses keys that no part has.
    pub(crate) fn check(&self, has_date: bool, has_time: bool, has_zone: bool) -> Result<()> {
        for key in self.map.keys() {
            let key = &**key;
            let is_known = (has_date && DATE_KEYS.contains(&key))
                || (has_time && TIME_KEYS.contains(&key))
                || (has_zone && key == "timezone")
                || (key == "datetime")
                || (key.starts_with("epoch") && has_date && has_time);
            if !is_known {
                return Err(Error::argument(format!(
                    "{key} is no part of this kind of temporal value"
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn date(&self, base: Option<Date>) -> Result<Date> {
        let given = self.get("date").or_else(|| self.get("datetime"));
        let base =
            match given {
                None => base,
                Some(value) => Some(date_of(value).ok_or_else(|| {
                    Error::value_type(format!("{} has no date", value.type_name()))
                })?),
            };
        let year = self.integer("year")?;
        let wrong = || Error::argument("there is no such day");
        let year_or = |base_year: Option<i64>| {
            year.or(base_year).ok_or_else(|| Error::argument("a date needs a year"))
        };
        if let Some(week) = self.integer("week")? {
            let weekday = self.integer("dayOfWeek")?.or(base.map(Date::weekday)).unwrap_or(1);
            return Date::of_week(year_or(base.map(|base| base.week().0))?, week, weekday)
                .ok_or_else(wrong);
        }
        if let Some(ordinal) = self.integer("ordinalDay")? {
            return Date::of_ordinal(year_or(base.map(Date::year))?, ordinal).ok_or_else(wrong);
        }
        let weekday = self.integer("dayOfWeek")?;
        if let (Some(weekday), Some(base)) = (weekday, base) {
            let (week_year, week) = base.week();
            return Date::of_week(year.unwrap_or(week_year), week, weekday).ok_or_else(wrong);
        }
        let day_of_quarter = self.integer("dayOfQuarter")?;
        if let Some(quarter) =
            self.integer("quarter")?.or(day_of_quarter.and(base.map(Date::quarter)))
        {
            let day = day_of_quarter.or(base.map(Date::day_of_quarter)).unwrap_or(1);
            return Date::of_quarter(year_or(base.map(Date::year))?, quarter, day)
                .ok_or_else(wrong);
        }
        let parts = base.map(Date::parts);
        let month = self.integer("month")?;
        let day = self.integer("day")?;
        if parts.is_none() && day.is_some() && month.is_none() {
            return Err(Error::argument("a date with a day needs a month"));
        }
        let year = year_or(parts.map(|parts| parts.0))?;
        let month = month.or(parts.map(|parts| parts.1)).unwrap_or(1);
        let day = day.or(parts.map(|parts| parts.2)).unwrap_or(1);
        Date::new(year, month, day).ok_or_else(wrong)
    }

    /// The value that gives a time's parts, where the map names one.
    fn time_source(&self) -> Option<&'m Value> {
        self.get("time").or_else(|| self.get("datetime"))
    }

    pub(crate) fn time(&self, base: Option<LocalTime>) -> Result<LocalTime> {
        let base =
            match self.time_source() {
                None => base,
                Some(value) => Some(time_of(value).ok_or_else(|| {
                    Error::value_type(format!("{} has no time", value.type_name()))
                })?),
            };
        let (hour, minute, second, nanos) = base.map_or((0, 0, 0, 0), LocalTime::parts);
        let part = |key: &str, limit: i64, base: i64| match self.integer(key)? {
            None => Ok(base),
            Some(number) if (0..limit).contains(&number) => Ok(number),
            Some(number) => Err(Error::argument(format!("{number} is no {key}"))),
        };
        let hour = part("hour", 24, hour)?;
        let minute = part("minute", 60, minute)?;
        let second = part("second", 60, second)?;
        let (milli, micro, nano) = (
            self.integer("millisecond")?,
            self.integer("microsecond")?,
            self.integer("nanosecond")?,
        );
        let nanos = match (milli, micro, nano) {
            (None, None, None) => nanos,
            _ => {
                let kept = if self.adds_fractions { nanos } else { 0 };
                let micro_limit = if milli.is_some() { 1000 } else { 1_000_000 };
                let nano_limit = match (milli, micro) {
                    (_, Some(_)) => 1000,
                    (Some(_), None) => 1_000_000,
                    _ => NANOS,
                };
                part("millisecond", 1000, 0)? * 1_000_000
                    + part("microsecond", micro_limit, 0)? * 1000
                    + part("nanosecond", nano_limit, 0)?
                    + kept
            }
        };
        Ok(LocalTime { nanos: ((hour * 60 + minute) * 60 + second) * NANOS + nanos })
    }

    pub(crate) fn zone(&self) -> Result<Option<Zone>> {
        match self.get("timezone") {
            None => Ok(None),
            Some(Value::Text(name)) => Zone::parse(name).map(Some),
            Some(other) => {
                Err(Error::value_type(format!("timezone is a string, not {}", other.type_name())))
            }
        }
    }

    fn source_zone(&self) -> Option<Zone> {
        self.time_source().and_then(zone_of)
    }

    pub(crate) fn local_date_time(&self) -> Result<LocalDateTime> {
        Ok(LocalDateTime { date: self.date(None)?, time: self.time(None)? })
    }

    pub(crate) fn zoned_time(&self) -> Result<Time> {
        let local = self.time(None)?;
        let zone = self.zone()?;
        let offset_of = |zone: Zone| match zone {
            Zone::Offset(offset) => offset,
            Zone::Named(_) => zone.offset_at(0),
        };
        Ok(match (self.time_source().and_then(time_offset), zone) {
            (Some(from), Some(to)) => {
                let to = offset_of(to);
                let nanos = (local.nanos + i64::from(to - from) * NANOS).rem_euclid(DAY * NANOS);
                Time { local: LocalTime { nanos }, offset: to }
            }
            (Some(offset), None) => Time { local, offset },
            (None, zone) => Time { local, offset: zone.map_or(0, offset_of) },
        })
    }

    pub(crate) fn date_time(&self) -> Result<DateTime> {
        if let Some(time) = self.epoch()? {
            return Ok(time);
        }
        let local = self.local_date_time()?;
        let zone = self.zone()?;
        Ok(match (self.source_zone(), zone) {
            (Some(from), Some(to)) => in_zone(with_zone(local, from), to),
            (from, to) => with_zone(local, to.or(from).unwrap_or(Zone::UTC)),
        })
    }

    fn epoch(&self) -> Result<Option<DateTime>> {
        let (seconds, nanos) = match (self.integer("epochSeconds")?, self.integer("epochMillis")?) {
            (Some(seconds), _) => (seconds, self.integer("nanosecond")?.unwrap_or(0)),
            (None, Some(millis)) => (
                millis.div_euclid(1000),
                millis.rem_euclid(1000) * 1_000_000 + self.integer("nanosecond")?.unwrap_or(0),
            ),
            _ => return Ok(None),
        };
        from_epoch(seconds, nanos, self.zone()?.unwrap_or(Zone::UTC)).map(Some)
    }

    pub(crate) fn duration(&self) -> Result<Duration> {
        let (mut months, mut days, mut seconds, mut nanos) = (0.0, 0.0, 0.0, 0.0);
        for (key, value) in self.map.iter() {
            let number = match value {
                Value::Integer(number) => *number as f64,
                Value::Float(number) => *number,
                Value::Null => continue,
                other => {
                    return Err(Error::value_type(format!(
                        "{key} is a number, not {}",
                        other.type_name()
                    )));
                }
            };
            match &**key {
                "years" => months += number * 12.0,
                "quarters" => months += number * 3.0,
                "months" => months += number,
                "weeks" => days += number * 7.0,
                "days" => days += number,
                "hours" => seconds += number * 3600.0,
                "minutes" => seconds += number * 60.0,
                "seconds" => seconds += number,
                "milliseconds" => nanos += number * 1e6,
                "microseconds" => nanos += number * 1e3,
                "nanoseconds" => nanos += number,
                _ => return Err(Error::argument(format!("{key} is no part of a duration"))),
            }
        }
        Duration::of_parts(months, days, seconds, nanos)
    }
}

/// Seconds east of UTC of a value with a zone.
fn time_offset(value: &Value) -> Option<i32> {
    match value {
        Value::Time(time) => Some(time.offset),
        Value::DateTime(time) => Some(time.offset),
        _ => None,
    }
}

/// The instant so long after 1970, in a zone.
pub(crate) fn from_epoch(seconds: i64, nanos: i64, zone: Zone) -> Result<DateTime> {
    let wrong = || Error::argument("the instant is beyond the last year");
    let seconds = seconds.checked_add(nanos.div_euclid(NANOS)).ok_or_else(wrong)?;
    Date::of_days(seconds.div_euclid(DAY)).ok_or_else(wrong)?;
    let local = LocalDateTime::of_epoch(seconds, nanos.rem_euclid(NANOS));
    Ok(in_zone(DateTime { local, offset: 0, zone: None }, zone))
}

/// A date cut to a unit: the first day of its century, month, week.
pub(crate) fn truncate_date(unit: &str, date: Date) -> Result<Option<Date>> {
    let (year, month, _) = date.parts();
    let first_of = |size: i64| Date::new(year - year.rem_euclid(size), 1, 1);
    let cut = match unit {
        "millennium" => first_of(1000),
        "century" => first_of(100),
        "decade" => first_of(10),
        "year" => first_of(1),
        "weekYear" => Date::of_week(date.week().0, 1, 1),
        "quarter" => Date::new(year, (month - 1) / 3 * 3 + 1, 1),
        "month" => Date::new(year, month, 1),
        "week" => date.plus_days(1 - date.weekday()),
        "day" => Some(date),
        _ => return Ok(None),
    };
    cut.map(Some)
        .ok_or_else(|| Error::argument("the first day of the unit is before the first year"))
}

/// A time cut to a unit.
pub(crate) fn truncate_time(unit: &str, time: LocalTime) -> Option<LocalTime> {
    let size = match unit {
        "day" => DAY * NANOS,
        "hour" => 3600 * NANOS,
        "minute" => 60 * NANOS,
        "second" => NANOS,
        "millisecond" => 1_000_000,
        "microsecond" => 1_000,
        _ => return None,
    };
    Some(LocalTime { nanos: time.nanos - time.nanos % size })
}

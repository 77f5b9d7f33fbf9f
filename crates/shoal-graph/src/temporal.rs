//! Temporal values: dates, times, instants with zones, durations.
//!
//! Years run from -999,999,999 to 999,999,999 in the proleptic Gregorian calendar; times have
//! nanoseconds; named zones follow the IANA database.

pub(crate) mod arithmetic;
pub(crate) mod build;
pub(crate) mod calendar;
pub(crate) mod duration;
pub(crate) mod fields;
pub(crate) mod functions;
pub(crate) mod parse;
pub(crate) mod zone;

use std::cmp::Ordering;
use std::fmt;

pub use calendar::Date;
pub use duration::Duration;
pub use zone::Zone;

/// Nanoseconds of a second.
pub(crate) const NANOS: i64 = 1_000_000_000;
/// Seconds of a day.
pub(crate) const DAY: i64 = 86_400;

/// A time of day without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalTime {
    /// Nanoseconds since midnight.
    pub nanos: i64,
}

/// A time of day with an offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Time {
    /// The time where the offset holds.
    pub local: LocalTime,
    /// Seconds east of UTC.
    pub offset: i32,
}

/// A date and a time of day, without a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalDateTime {
    /// The date.
    pub date: Date,
    /// The time.
    pub time: LocalTime,
}

/// A date and a time of day in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DateTime {
    /// Date and time where the zone holds.
    pub local: LocalDateTime,
    /// Seconds east of UTC at that time.
    pub offset: i32,
    /// The zone's name, where it is more than an offset.
    pub zone: Option<&'static str>,
}

impl LocalTime {
    /// Hour, minute, second and nanosecond.
    pub(crate) fn parts(self) -> (i64, i64, i64, i64) {
        let seconds = self.nanos / NANOS;
        (seconds / 3600, seconds / 60 % 60, seconds % 60, self.nanos % NANOS)
    }
}

impl Time {
    /// Nanoseconds since midnight in UTC, perhaps of the day before or after.
    pub(crate) fn instant(self) -> i64 {
        self.local.nanos - i64::from(self.offset) * NANOS
    }
}

impl LocalDateTime {
    /// Seconds since 1970 and nanoseconds, as if the zone were UTC.
    pub(crate) fn epoch(self) -> (i64, i64) {
        (self.date.days * DAY + self.time.nanos / NANOS, self.time.nanos % NANOS)
    }

    pub(crate) fn of_epoch(seconds: i64, nanos: i64) -> LocalDateTime {
        let date = Date { days: seconds.div_euclid(DAY) };
        let time = LocalTime { nanos: seconds.rem_euclid(DAY) * NANOS + nanos };
        LocalDateTime { date, time }
    }
}

impl DateTime {
    /// Seconds since 1970 in UTC, and nanoseconds.
    pub(crate) fn instant(self) -> (i64, i64) {
        let (seconds, nanos) = self.local.epoch();
        (seconds - i64::from(self.offset), nanos)
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        self.instant().cmp(&other.instant()).then(self.offset.cmp(&other.offset))
    }
}

impl PartialOrd for DateTime {
    fn partial_cmp(&self, other: &DateTime) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DateTime {
    fn cmp(&self, other: &DateTime) -> Ordering {
        let zones = |time: &DateTime| (time.offset, time.zone);
        self.instant().cmp(&other.instant()).then_with(|| zones(self).cmp(&zones(other)))
    }
}

impl fmt::Display for LocalTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hour, minute, second, nanos) = self.parts();
        write!(f, "{hour:02}:{minute:02}")?;
        if second != 0 || nanos != 0 {
            write!(f, ":{second:02}")?;
        }
        fraction(f, nanos)
    }
}

/// A dot and the digits of nanoseconds, or nothing.
pub(crate) fn fraction(f: &mut impl fmt::Write, nanos: i64) -> fmt::Result {
    if nanos == 0 {
        return Ok(());
    }
    write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.local, zone::offset_text(self.offset))
    }
}

impl fmt::Display for LocalDateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date, self.time)
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.local, zone::offset_text(self.offset))?;
        match self.zone {
            Some(name) => write!(f, "[{name}]"),
            None => Ok(()),
        }
    }
}

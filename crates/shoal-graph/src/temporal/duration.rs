//! Durations: months, days, seconds and nanoseconds, each with a sign of its own.

use std::fmt;

use crate::error::{Error, Result};
use crate::temporal::{DAY, NANOS, fraction};

/// A length of time in four units that no calendar turns into each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Duration {
    /// Months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// Seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds above the seconds: 0 to 999,999,999.
    pub nanos: i64,
}

/// Seconds of a mean month: a twelfth of 365.2425 days.
const MONTH_SECONDS: f64 = 2_629_746.0;

impl Duration {
    /// A duration of units with fractions: what is no whole number of a unit goes to the next
    /// smaller one.
    pub(crate) fn of_parts(months: f64, days: f64, seconds: f64, nanos: f64) -> Result<Duration> {
        let whole_months = months.trunc();
        let mut seconds_left = (months - whole_months) * MONTH_SECONDS;
        let month_days = (seconds_left / DAY as f64).trunc();
        seconds_left -= month_days * DAY as f64;
        let whole_days = days.trunc();
        seconds_left += (days - whole_days) * DAY as f64;
        let whole_seconds = seconds.trunc();
        let nanos_left = ((seconds - whole_seconds) + seconds_left.fract()) * NANOS as f64 + nanos;
        let total = exact(whole_seconds)? + exact(seconds_left.trunc())?;
        Duration::normal(
            exact(whole_months)?,
            exact(month_days)? + exact(whole_days)?,
            total * i128::from(NANOS) + exact(nanos_left.round())?,
        )
    }

    /// A duration of months, days and nanoseconds.
    pub(crate) fn normal(months: i128, days: i128, nanos: i128) -> Result<Duration> {
        let seconds = nanos.div_euclid(i128::from(NANOS));
        Ok(Duration {
            months: fit(months)?,
            days: fit(days)?,
            seconds: fit(seconds)?,
            nanos: nanos.rem_euclid(i128::from(NANOS)) as i64,
        })
    }

    /// Seconds and nanoseconds in nanoseconds.
    pub(crate) fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS) + i128::from(self.nanos)
    }

    pub(crate) fn plus(self, other: Duration) -> Result<Duration> {
        Duration::normal(
            i128::from(self.months) + i128::from(other.months),
            i128::from(self.days) + i128::from(other.days),
            self.total_nanos() + other.total_nanos(),
        )
    }

    pub(crate) fn negated(self) -> Result<Duration> {
        Duration::normal(-i128::from(self.months), -i128::from(self.days), -self.total_nanos())
    }

    pub(crate) fn times(self, factor: f64) -> Result<Duration> {
        Duration::of_parts(
            self.months as f64 * factor,
            self.days as f64 * factor,
            self.seconds as f64 * factor,
            self.nanos as f64 * factor,
        )
    }

    /// Nanoseconds of a duration at mean lengths of months and days: for ordering.
    pub(crate) fn mean_nanos(self) -> i128 {
        let seconds = i128::from(self.months) * MONTH_SECONDS as i128
            + i128::from(self.days) * i128::from(DAY);
        seconds * i128::from(NANOS) + self.total_nanos()
    }
}

fn exact(number: f64) -> Result<i128> {
    match number.abs() < 1e25 {
        true => Ok(number as i128),
        false => Err(overflow()),
    }
}

fn fit(number: i128) -> Result<i64> {
    i64::try_from(number).map_err(|_| overflow())
}

fn overflow() -> Error {
    Error::argument("the duration is longer than 64 bits of a unit hold")
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("P")?;
        let total = self.total_nanos();
        let mut wrote = false;
        let mut part = |f: &mut fmt::Formatter<'_>, number: i64, unit: &str| {
            if number == 0 {
                return Ok(());
            }
            wrote = true;
            write!(f, "{number}{unit}")
        };
        part(f, self.months / 12, "Y")?;
        part(f, self.months % 12, "M")?;
        part(f, self.days, "D")?;
        if total == 0 {
            return f.write_str(if wrote { "" } else { "T0S" });
        }
        f.write_str("T")?;
        let seconds = total / i128::from(NANOS);
        part(f, (seconds / 3600) as i64, "H")?;
        part(f, (seconds / 60 % 60) as i64, "M")?;
        let (seconds, nanos) = ((seconds % 60) as i64, (total % i128::from(NANOS)) as i64);
        if seconds == 0 && nanos == 0 {
            return Ok(());
        }
        if seconds == 0 && nanos < 0 {
            f.write_str("-")?;
        }
        write!(f, "{seconds}")?;
        fraction(f, nanos.abs())?;
        f.write_str("S")
    }
}

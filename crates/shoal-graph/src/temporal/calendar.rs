//! Dates: days since 1970 and their years, months, weeks and quarters.

use std::fmt;

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Days since 1970-01-01.
    pub days: i64,
}

/// The last year, and with the sign changed the first.
pub(crate) const YEAR_MAX: i64 = 999_999_999;

impl Date {
    /// A date, or nothing where there is no such day.
    pub fn new(year: i64, month: i64, day: i64) -> Option<Date> {
        let is_valid = year.abs() <= YEAR_MAX
            && (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day);
        is_valid.then(|| Date { days: days_of(year, month, day) })
    }

    /// A date of so many days since 1970, or nothing beyond the last year.
    pub(crate) fn of_days(days: i64) -> Option<Date> {
        let (first, last) = (days_of(-YEAR_MAX, 1, 1), days_of(YEAR_MAX, 12, 31));
        (first..=last).contains(&days).then_some(Date { days })
    }

    /// A date by ISO week: years of weeks begin with the week of the first Thursday.
    pub(crate) fn of_week(week_year: i64, week: i64, weekday: i64) -> Option<Date> {
        if week_year.abs() > YEAR_MAX || !(1..=53).contains(&week) || !(1..=7).contains(&weekday) {
            return None;
        }
        let monday = first_monday(week_year);
        let date = Date::of_days(monday + (week - 1) * 7 + weekday - 1)?;
        (week < 53 || first_monday(week_year + 1) > monday + 52 * 7).then_some(date)
    }

    /// A date by its day of the year.
    pub(crate) fn of_ordinal(year: i64, ordinal: i64) -> Option<Date> {
        if year.abs() > YEAR_MAX || !(1..=365 + i64::from(is_leap(year))).contains(&ordinal) {
            return None;
        }
        Some(Date { days: days_of(year, 1, 1) + ordinal - 1 })
    }

    /// A date by quarter and the quarter's day.
    pub(crate) fn of_quarter(year: i64, quarter: i64, day: i64) -> Option<Date> {
        if !(1..=4).contains(&quarter) {
            return None;
        }
        let month = quarter * 3 - 2;
        let length: i64 = (month..month + 3).map(|month| days_of_month(year, month)).sum();
        let first = Date::new(year, month, 1)?;
        (1..=length).contains(&day).then(|| Date { days: first.days + day - 1 })
    }

    /// Year, month, day.
    pub fn parts(self) -> (i64, i64, i64) {
        let shifted = self.days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (era * 400 + year_of_era + i64::from(month <= 2), month, day)
    }

    pub(crate) fn year(self) -> i64 {
        self.parts().0
    }

    pub(crate) fn quarter(self) -> i64 {
        (self.parts().1 + 2) / 3
    }

    pub(crate) fn day_of_quarter(self) -> i64 {
        let (year, month, _) = self.parts();
        self.days - days_of(year, (month - 1) / 3 * 3 + 1, 1) + 1
    }

    pub(crate) fn ordinal(self) -> i64 {
        self.days - days_of(self.year(), 1, 1) + 1
    }

    /// Monday is 1.
    pub(crate) fn weekday(self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// The year and number of the ISO week.
    pub(crate) fn week(self) -> (i64, i64) {
        let thursday = Date { days: self.days - self.weekday() + 4 };
        let year = thursday.year();
        (year, (self.days - first_monday(year)) / 7 + 1)
    }

    /// The date so many months later, on the month's last day where it is shorter.
    pub(crate) fn plus_months(self, months: i64) -> Option<Date> {
        let (year, month, day) = self.parts();
        let count = (year * 12 + month - 1).checked_add(months)?;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) + 1);
        if year.abs() > YEAR_MAX {
            return None;
        }
        Date::new(year, month, day.min(days_of_month(year, month)))
    }

    pub(crate) fn plus_days(self, days: i64) -> Option<Date> {
        Date::of_days(self.days.checked_add(days)?)
    }
}

/// The Monday of a year's first ISO week, in days since 1970.
fn first_monday(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(crate) fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (month + 9) % 12;
    let of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.parts();
        match year {
            0..=9999 => write!(f, "{year:04}")?,
            10_000.. => write!(f, "+{year}")?,
            _ => write!(f, "-{:04}", -year)?,
        }
        write!(f, "-{month:02}-{day:02}")
    }
}

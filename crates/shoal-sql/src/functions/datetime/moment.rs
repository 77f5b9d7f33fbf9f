//! A point in time as SQLite's date functions keep one: a Julian day in milliseconds, a civil date,
//! a time of day, each valid or not, and each computed from the others on demand.
//!
//! The calendar is the Gregorian one, also before its introduction. Years run from -4713 to 9999;
//! leaving this range makes the moment an error, and the calling function gives NULL.

/// A point in time in the making.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    /// Milliseconds since noon of -4713-11-24.
    pub(super) julian_ms: i64,
    pub(super) has_julian: bool,
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) has_date: bool,
    pub(super) hour: i64,
    pub(super) minute: i64,
    /// Seconds, with their fraction; or the number itself while `raw`.
    pub(super) second: f64,
    pub(super) has_time: bool,
    /// Minutes east of Greenwich.
    pub(super) zone_minutes: i64,
    /// The moment is a number: a Julian day or a Unix time, until a modifier decides.
    pub(super) raw: bool,
    pub(super) error: bool,
    /// Milliseconds are shown.
    pub(super) subsecond: bool,
    pub(super) utc: bool,
    /// The moment was made local time.
    pub(super) local: bool,
    /// Number of days the date lies past the end of its month.
    pub(super) floor_days: i64,
}

pub(super) const DAY_MS: i64 = 86_400_000;
/// 1970-01-01 as a Julian day in milliseconds.
pub(super) const UNIX_EPOCH_MS: i64 = 210_866_760_000_000;
/// 9999-12-31 23:59:59.999.
const JULIAN_MS_MAX: i64 = 464_269_060_799_999;

impl Moment {
    /// A moment known in UTC, from milliseconds since 1970.
    pub(super) fn from_unix_ms(unix_ms: i64) -> Moment {
        Moment {
            julian_ms: unix_ms.saturating_add(UNIX_EPOCH_MS),
            has_julian: true,
            utc: true,
            ..Moment::default()
        }
    }

    /// A number: a Julian day where in range, unless a modifier says otherwise.
    pub(super) fn from_number(number: f64) -> Moment {
        let mut moment = Moment { second: number, raw: true, ..Moment::default() };
        if (0.0..5_373_484.5).contains(&number) {
            moment.julian_ms = (number * 86_400_000.0 + 0.5) as i64;
            moment.has_julian = true;
        }
        moment
    }

    /// True where the Julian day is known and within the years of SQLite.
    pub(super) fn is_valid(&self) -> bool {
        !self.error && (0..=JULIAN_MS_MAX).contains(&self.julian_ms)
    }

    fn fail(&mut self) {
        *self = Moment { error: true, ..Moment::default() };
    }

    /// Forgets date and time of day; the Julian day holds them.
    pub(super) fn clear_civil(&mut self) {
        self.has_date = false;
        self.has_time = false;
        self.zone_minutes = 0;
    }

    /// Computes the Julian day (Meeus, Astronomical Algorithms, chapter 7).
    pub(super) fn compute_julian(&mut self) {
        if self.has_julian {
            return;
        }
        let (mut year, mut month, mut day) = (2000, 1, 1);
        if self.has_date {
            (year, month, day) = (self.year, self.month, self.day);
        } else if self.has_time && self.hour == 24 {
            self.hour = 0;
            day = 2;
        }
        if !(-4713..=9999).contains(&year) || self.raw {
            self.fail();
            return;
        }
        if month <= 2 {
            year -= 1;
            month += 12;
        }
        let century = (year + 4800) / 100;
        let leap = 38 - century + century / 4;
        let days = 36525 * (year + 4716) / 100 + 306_001 * (month + 1) / 10_000 + day + leap;
        self.julian_ms = days * DAY_MS - 1524 * DAY_MS - DAY_MS / 2;
        self.has_julian = true;
        if self.has_time {
            self.julian_ms +=
                self.hour * 3_600_000 + self.minute * 60_000 + (self.second * 1000.0 + 0.5) as i64;
            if self.zone_minutes != 0 {
                self.julian_ms -= self.zone_minutes * 60_000;
                self.clear_civil();
                self.utc = true;
            }
        }
    }

    /// Computes the date.
    pub(super) fn compute_date(&mut self) {
        if self.has_date {
            return;
        }
        if !self.has_julian {
            (self.year, self.month, self.day) = (2000, 1, 1);
        } else if !self.is_valid() {
            self.fail();
            return;
        } else {
            let days = (self.julian_ms + DAY_MS / 2) / DAY_MS;
            let alpha = ((days as f64 + 32044.75) / 36524.25) as i64 - 52;
            let a = days + 1 + alpha - ((alpha + 100) / 4) + 25;
            let b = a + 1524;
            let c = ((b as f64 - 122.1) / 365.25) as i64;
            let d = 36525 * (c & 32767) / 100;
            let e = ((b - d) as f64 / 30.6001) as i64;
            self.day = b - d - (30.6001 * e as f64) as i64;
            self.month = if e < 14 { e - 1 } else { e - 13 };
            self.year = if self.month > 2 { c - 4716 } else { c - 4715 };
        }
        self.has_date = true;
    }

    /// Computes the time of day.
    pub(super) fn compute_time(&mut self) {
        if self.has_time {
            return;
        }
        self.compute_julian();
        let day_ms = (self.julian_ms + DAY_MS / 2) % DAY_MS;
        self.second = (day_ms % 60_000) as f64 / 1000.0;
        let minutes = day_ms / 60_000;
        self.minute = minutes % 60;
        self.hour = minutes / 60;
        self.raw = false;
        self.has_time = true;
    }

    /// Computes date and time of day.
    pub(super) fn compute_civil(&mut self) {
        self.compute_date();
        self.compute_time();
    }

    /// Notes how far the date lies past the end of its month.
    pub(super) fn compute_floor(&mut self) {
        self.floor_days = (self.day - days_of_month(self.year, self.month)).max(0);
    }

    /// Brings the month back into 1 to 12 by way of the year.
    pub(super) fn carry_months(&mut self) {
        let years = if self.month > 0 { (self.month - 1) / 12 } else { (self.month - 12) / 12 };
        self.year += years;
        self.month -= years * 12;
    }

    /// Days since January 1, from 0. Date, time and Julian day must be known.
    pub(super) fn day_of_year(&self) -> i64 {
        let mut january = Moment { month: 1, day: 1, has_julian: false, ..self.clone() };
        january.compute_julian();
        (self.julian_ms - january.julian_ms + DAY_MS / 2) / DAY_MS
    }

    /// Days since Monday.
    pub(super) fn days_after_monday(&self) -> i64 {
        (self.julian_ms + DAY_MS / 2) / DAY_MS % 7
    }

    /// Days since Sunday.
    pub(super) fn days_after_sunday(&self) -> i64 {
        (self.julian_ms + DAY_MS + DAY_MS / 2) / DAY_MS % 7
    }

    /// The Thursday of the same week, whose year is the week's year in ISO 8601.
    pub(super) fn thursday(&self) -> Moment {
        let mut thursday = self.clone();
        thursday.julian_ms += (3 - self.days_after_monday()) * DAY_MS;
        thursday.has_date = false;
        thursday.compute_date();
        thursday
    }
}

/// The number of days in a month.
pub(super) fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        // SQLite's table has no month 0, and a valid date never has month 0.
        0 => 30,
        _ => 31,
    }
}

//! Times as people read them.

/// `seconds` since 1970-01-01 as `YYYY-MM-DDTHH:MM:SSZ` in the proleptic Gregorian calendar; times
/// outside of the years 0 to 9999 as the bare number.
pub(crate) fn utc(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    if !(YEAR_0..YEAR_10000).contains(&days) {
        return seconds.to_string();
    }
    // Days are counted from 0000-03-01, to make a leap day the last of its year; an era is 400
    // years.
    let day = days + 719_468;
    let (era, day_of_era) = (day.div_euclid(ERA_DAYS), day.rem_euclid(ERA_DAYS));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

const DAY: i64 = 86_400;
const ERA_DAYS: i64 = 146_097;
const YEAR_0: i64 = -719_528;
const YEAR_10000: i64 = 2_932_897;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(utc(YEAR_0 * DAY), "0000-01-01T00:00:00Z");
        assert_eq!(utc(YEAR_10000 * DAY - 1), "9999-12-31T23:59:59Z");
        assert_eq!(utc(i64::MAX), i64::MAX.to_string());
    }
}

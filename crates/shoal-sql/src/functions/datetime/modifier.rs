//! Modifiers: `+1 month`, `start of day`, `weekday 0`, `unixepoch` and their like.

use super::moment::{DAY_MS, Moment, UNIX_EPOCH_MS};
use super::parse::{Text, YEAR_MAX, time_of_day};
use crate::Error;
use crate::functions::Env;
use crate::value::number::{is_space, parse_real};
use crate::value::{ValueRef, text_of, utf8};

/// Units of time: name, largest amount of one modifier, and seconds.
const UNITS: [(&str, f32, f64); 6] = [
    ("second", 4.6427e+14, 1.0),
    ("minute", 7.7379e+12, 60.0),
    ("hour", 1.2897e+11, 3600.0),
    ("day", 5373485.0, 86400.0),
    ("month", 176546.0, 2592000.0),
    ("year", 14713.0, 31536000.0),
];

/// A parsed modifier.
#[derive(Debug)]
pub(in crate::functions) enum Modifier {
    /// An amount of a unit, by the unit's number.
    Add {
        amount: f64,
        unit: usize,
    },
    /// Any other, or none, in small letters.
    Text(Vec<u8>),
    Null,
}

impl Modifier {
    pub(super) fn of(value: ValueRef<'_>) -> Modifier {
        let Some(text) = text_of(value) else { return Modifier::Null };
        let text = utf8::to_nul(&text);
        match text {
            [b'+' | b'-' | b'0'..=b'9', ..] => units_to_add(text),
            _ => None,
        }
        .unwrap_or_else(|| Modifier::Text(text.to_ascii_lowercase()))
    }

    /// Applies a modifier; `first` for the first of a call. `None` when the text is no modifier.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for modifiers with local time, in sessions without local time.
    pub(super) fn apply(
        &self,
        moment: &mut Moment,
        first: bool,
        env: &Env<'_>,
    ) -> Result<Option<()>, Error> {
        match self {
            Modifier::Add { amount, unit } => {
                moment.compute_julian();
                moment.floor_days = 0;
                let added = add_units(moment, *amount, UNITS[*unit]);
                moment.clear_civil();
                Ok(added)
            }
            Modifier::Text(lower) => apply(moment, lower, first, env),
            Modifier::Null => Ok(None),
        }
    }
}

/// The modifier adding a number of some unit, where the text is one.
fn units_to_add(text: &[u8]) -> Option<Modifier> {
    let end = text.iter().position(|&byte| byte == b':' || is_space(byte))?;
    let number = parse_real(&text[..end]);
    if !number.whole {
        return None;
    }
    let mut rest = Text::new(&text[end..]);
    rest.skip_spaces();
    let unit = rest.to_end();
    if !(3..=10).contains(&unit.len()) {
        return None;
    }
    let unit = match unit {
        [unit @ .., b's' | b'S'] => unit,
        unit => unit,
    };
    let is = |(name, ..): &(&str, f32, f64)| unit.eq_ignore_ascii_case(name.as_bytes());
    UNITS.iter().position(is).map(|unit| Modifier::Add { amount: number.real, unit })
}

/// Applies a modifier in small letters.
fn apply(
    moment: &mut Moment,
    lower: &[u8],
    first: bool,
    env: &Env<'_>,
) -> Result<Option<()>, Error> {
    let unsupported = || {
        let what = format!("date modifier '{}'", String::from_utf8_lossy(lower));
        Error::Unsupported { what, offset: None }
    };
    let offset_s = |unix_s| env.session.local_offset_s(unix_s);
    Ok(match lower {
        [b'+' | b'-' | b'0'..=b'9', ..] => add(moment, lower),
        b"localtime" => {
            if !moment.local {
                to_local(moment, offset_s).ok_or_else(unsupported)?;
            }
            (moment.utc, moment.local) = (false, true);
            Some(())
        }
        b"utc" => {
            if !moment.utc {
                to_utc(moment, offset_s).ok_or_else(unsupported)?;
            }
            Some(())
        }
        b"auto" if first => {
            auto(moment);
            Some(())
        }
        b"julianday" if first && moment.has_julian && moment.raw => {
            moment.raw = false;
            Some(())
        }
        b"unixepoch" if first && moment.raw => {
            let julian_ms = moment.second * 1000.0 + UNIX_EPOCH_MS as f64;
            (0.0..464_269_060_800_000.0).contains(&julian_ms).then(|| set_julian(moment, julian_ms))
        }
        b"ceiling" => {
            moment.compute_julian();
            moment.clear_civil();
            moment.floor_days = 0;
            Some(())
        }
        b"floor" => {
            moment.compute_julian();
            moment.julian_ms -= moment.floor_days * DAY_MS;
            moment.clear_civil();
            Some(())
        }
        b"subsec" | b"subsecond" => {
            moment.subsecond = true;
            Some(())
        }
        lower if let Some(unit) = lower.strip_prefix(b"start of ") => start_of(moment, unit),
        lower if let Some(unit) = lower.strip_prefix(b"end of ") => end_of(moment, unit),
        lower if let Some(day) = lower.strip_prefix(b"weekday ") => weekday(moment, day),
        _ => None,
    })
}

/// Makes local time of UTC; `None` where there is none.
fn to_local(moment: &mut Moment, offset_s: impl Fn(i64) -> Option<i64>) -> Option<()> {
    /// From 1970-01-01 to 2038-01-18, in milliseconds of the Julian day. As in SQLite, a year
    /// outside of this range is replaced by another year with as many days, since systems once knew
    /// no others.
    const NEAR: std::ops::RangeInclusive<i64> = 210_866_760_000_000..=213_014_145_600_000;
    moment.compute_julian();
    let mut near = moment.clone();
    let mut years = 0;
    if !NEAR.contains(&moment.julian_ms) {
        near.compute_civil();
        years = 2000 + near.year % 4 - near.year;
        near.year += years;
        near.has_julian = false;
        near.compute_julian();
    }
    let unix_s = near.julian_ms / 1000 - UNIX_EPOCH_MS / 1000;
    let mut local = Moment::from_unix_ms((unix_s + offset_s(unix_s)?) * 1000);
    local.compute_civil();
    (moment.year, moment.month, moment.day) = (local.year - years, local.month, local.day);
    (moment.hour, moment.minute) = (local.hour, local.minute);
    moment.second = local.second + (moment.julian_ms % 1000) as f64 * 0.001;
    (moment.has_date, moment.has_time, moment.has_julian) = (true, true, false);
    (moment.raw, moment.error, moment.zone_minutes) = (false, false, 0);
    Some(())
}

/// Makes UTC of local time by SQLite's way: a guess, corrected up to three times.
fn to_utc(moment: &mut Moment, offset_s: impl Fn(i64) -> Option<i64> + Copy) -> Option<()> {
    moment.compute_julian();
    let (mut guess, mut error) = (moment.julian_ms, 0);
    for _ in 0..4 {
        guess -= error;
        let mut local = Moment { julian_ms: guess, has_julian: true, ..Moment::default() };
        to_local(&mut local, offset_s)?;
        local.compute_julian();
        error = local.julian_ms - moment.julian_ms;
        if error == 0 {
            break;
        }
    }
    *moment = Moment { julian_ms: guess, has_julian: true, utc: true, ..Moment::default() };
    Some(())
}

fn set_julian(moment: &mut Moment, julian_ms: f64) {
    moment.clear_civil();
    moment.julian_ms = (julian_ms + 0.5) as i64;
    moment.has_julian = true;
    moment.raw = false;
}

/// A number too large for a Julian day becomes a Unix time.
fn auto(moment: &mut Moment) {
    if !moment.raw || moment.has_julian {
        moment.raw = false;
    } else if (-210_866_760_000.0..=253_402_300_799.0).contains(&moment.second) {
        let julian_ms = moment.second * 1000.0 + UNIX_EPOCH_MS as f64;
        set_julian(moment, julian_ms);
    }
}

/// Sets the time of day, where the moment is more than a bare number.
fn set_time(moment: &mut Moment, hour: i64, minute: i64, second: f64) -> Option<()> {
    if !moment.has_julian && !moment.has_date && !moment.has_time {
        return None;
    }
    moment.compute_date();
    moment.has_time = true;
    (moment.hour, moment.minute, moment.second) = (hour, minute, second);
    moment.raw = false;
    moment.zone_minutes = 0;
    moment.has_julian = false;
    Some(())
}

fn start_of(moment: &mut Moment, unit: &[u8]) -> Option<()> {
    set_time(moment, 0, 0, 0.0)?;
    match unit {
        b"day" => {}
        b"month" => moment.day = 1,
        b"year" => (moment.month, moment.day) = (1, 1),
        _ => return None,
    }
    Some(())
}

fn end_of(moment: &mut Moment, unit: &[u8]) -> Option<()> {
    set_time(moment, 23, 59, 59.999)?;
    match unit {
        b"day" => {}
        b"month" => {
            moment.day = 1;
            moment.month += 1;
            moment.carry_months();
            moment.compute_floor();
            moment.compute_julian();
            moment.julian_ms -= DAY_MS;
            moment.clear_civil();
        }
        b"year" => (moment.month, moment.day) = (12, 31),
        _ => return None,
    }
    Some(())
}

/// On to the next such weekday, Sunday being 0; or back, where the number has a minus sign.
fn weekday(moment: &mut Moment, day: &[u8]) -> Option<()> {
    let number = parse_real(day);
    if !number.whole || !(-6.0..=6.0).contains(&number.real) || number.real.fract() != 0.0 {
        return None;
    }
    moment.compute_civil();
    moment.zone_minutes = 0;
    moment.has_julian = false;
    moment.compute_julian();
    let wanted = (number.real as i64).abs();
    let mut today = moment.days_after_sunday();
    if today != wanted {
        if today > wanted {
            today -= 7;
        }
        moment.julian_ms += (wanted - today) * DAY_MS;
        if day.contains(&b'-') {
            moment.julian_ms -= 7 * DAY_MS;
        }
    }
    moment.clear_civil();
    Some(())
}

/// `-01:30`, `+0001-02-03 04:05`.
fn add(moment: &mut Moment, text: &[u8]) -> Option<()> {
    let year_digits = |count: usize| Text::new(&text[1..]).digits(count, 0, YEAR_MAX).is_some();
    let mut end = 1;
    while let Some(&byte) = text.get(end) {
        let date = (end == 5 && byte == b'-' && year_digits(4))
            || (end == 6 && byte == b'-' && year_digits(5));
        if byte == b':' || is_space(byte) || date {
            break;
        }
        end += 1;
    }
    let number = parse_real(&text[..end]);
    if !number.whole {
        return None;
    }
    match text.get(end)? {
        b'-' => add_date(moment, text, end - 1),
        b':' => add_time(moment, text, text[0]),
        _ => None,
    }
}

/// Months and years move the date and keep the day, the rest moves the time.
fn add_units(
    moment: &mut Moment,
    amount: f64,
    (name, limit, seconds): (&str, f32, f64),
) -> Option<()> {
    let limit = f64::from(limit);
    if !(amount > -limit && amount < limit) {
        return None;
    }
    let mut rest = amount;
    if matches!(name, "month" | "year") {
        moment.compute_civil();
        if name == "month" {
            moment.month += amount as i64;
            moment.carry_months();
        } else {
            moment.year += amount as i64;
        }
        moment.compute_floor();
        moment.has_julian = false;
        rest -= amount.trunc();
    }
    moment.compute_julian();
    let half = if amount < 0.0 { -0.5 } else { 0.5 };
    moment.julian_ms += (rest * 1000.0 * seconds + half) as i64;
    Some(())
}

/// `+YYYY-MM-DD` with four or five digits of years, perhaps with ` HH:MM:SS.SSS`.
fn add_date(moment: &mut Moment, text: &[u8], year_digits: usize) -> Option<()> {
    let sign = match text[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let mut rest = Text::new(&text[1..]);
    let years = rest.digits(year_digits, 0, YEAR_MAX)?;
    rest.take(b'-')?;
    let months = rest.digits(2, 0, 11)?;
    rest.take(b'-')?;
    let days = rest.digits(2, 0, 30)?;
    moment.compute_civil();
    moment.has_julian = false;
    moment.year += sign * years;
    moment.month += sign * months;
    moment.carry_months();
    moment.compute_floor();
    moment.compute_julian();
    moment.has_time = false;
    moment.has_date = false;
    moment.julian_ms += sign * days * DAY_MS;
    if rest.peek() == 0 {
        return Some(());
    }
    if !is_space(rest.peek()) {
        return None;
    }
    let time = &text[text.len().min(1 + year_digits + 6 + 1)..];
    let mut check = Text::new(time);
    check.digits(2, 0, 24)?;
    check.take(b':')?;
    check.digits(2, 0, 59)?;
    add_time(moment, time, text[0])
}

fn add_time(moment: &mut Moment, text: &[u8], sign: u8) -> Option<()> {
    let mut rest = Text::new(text);
    if !rest.peek().is_ascii_digit() {
        rest.skip(1);
    }
    let mut time = Moment::default();
    time_of_day(rest, &mut time)?;
    time.compute_julian();
    let ms = (time.julian_ms - DAY_MS / 2) % DAY_MS;
    moment.compute_julian();
    moment.clear_civil();
    moment.julian_ms += if sign == b'-' { -ms } else { ms };
    Some(())
}

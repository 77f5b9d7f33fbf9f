//! `date`, `time`, `datetime`, `julianday`, `unixepoch`, `strftime` and `timediff`
//! (lang_datefunc.html).
//!
//! Times are UTC. The clock is the session's and stands still during a statement; the session knows
//! local time, and a session without local time has such calls refused by name.

mod difference;
mod modifier;
mod moment;
mod parse;

use super::printf::{self, Output};
use super::{Arguments, Env, Kept, LENGTH_MAX, ScalarFunction, too_big};
use crate::Error;
use crate::value::{Digits, Value, ValueRef, push_int, text_of, to_real, utf8};
use modifier::Modifier;
use moment::{Moment, UNIX_EPOCH_MS};

/// The parsed modifiers of one call.
pub(super) type Modifiers = Vec<Modifier>;

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::text("date", Arguments::at_least(0), |arguments, env, kept, out| {
        render(arguments, (env, kept), push_date, out)
    })
    .varying(),
    ScalarFunction::text("time", Arguments::at_least(0), |arguments, env, kept, out| {
        render(arguments, (env, kept), push_time, out)
    })
    .varying(),
    ScalarFunction::text("datetime", Arguments::at_least(0), |arguments, env, kept, out| {
        render(arguments, (env, kept), push_date_time, out)
    })
    .varying(),
    ScalarFunction::volatile("julianday", Arguments::at_least(0), julianday),
    ScalarFunction::volatile("unixepoch", Arguments::at_least(0), unixepoch),
    ScalarFunction::text("timediff", Arguments::exactly(2), difference::timediff).varying(),
    ScalarFunction::text("strftime", Arguments::at_least(0), strftime).varying(),
];

/// The moment of a time value and its modifiers, `now` without a time value; `None` gives NULL. The
/// time value is the argument `first - 1` of the function and the modifiers begin at `first`:
/// `kept` tells by these numbers if the modifiers are the same in every call.
fn moment(
    arguments: &[ValueRef<'_>],
    env: &Env<'_>,
    (kept, first): (&mut Kept, usize),
) -> Result<Option<Moment>, Error> {
    let now = || env.session.now_unix_ms();
    let Some((value, modifiers)) = arguments.split_first() else {
        return Ok(Some(Moment::from_unix_ms(now())));
    };
    let parsed = match *value {
        ValueRef::Int(_) | ValueRef::Real(_) => Some(Moment::from_number(to_real(*value))),
        value => text_of(value).and_then(|text| parse::parse(utf8::to_nul(&text), now)),
    };
    let Some(mut moment) = parsed else { return Ok(None) };
    if kept.modifiers.is_none()
        && !modifiers.is_empty()
        && kept.is_fixed(first..first + modifiers.len())
    {
        kept.modifiers = Some(modifiers.iter().map(|modifier| Modifier::of(*modifier)).collect());
    }
    for (index, modifier) in modifiers.iter().enumerate() {
        let done = match &kept.modifiers {
            Some(known) => known[index].apply(&mut moment, index == 0, env)?,
            None => Modifier::of(*modifier).apply(&mut moment, index == 0, env)?,
        };
        if done.is_none() {
            return Ok(None);
        }
    }
    moment.compute_julian();
    if !moment.is_valid() {
        return Ok(None);
    }
    if modifiers.is_empty() && moment.has_date && moment.day > 28 {
        // February 31 is March 3: the date is computed again from the Julian day.
        moment.has_date = false;
    }
    Ok(Some(moment))
}

fn render(
    arguments: &[ValueRef<'_>],
    (env, kept): (&Env<'_>, &mut Kept),
    push: impl Fn(&Moment, &mut Vec<u8>),
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some(mut moment) = moment(arguments, env, (kept, 1))? else { return Ok(false) };
    moment.compute_civil();
    push(&moment, out);
    Ok(true)
}

fn push_date(moment: &Moment, out: &mut Vec<u8>) {
    if moment.year < 0 {
        out.push(b'-');
    }
    push_padded(moment.year.abs(), 4, out);
    out.push(b'-');
    push_padded(moment.month, 2, out);
    out.push(b'-');
    push_padded(moment.day, 2, out);
}

fn push_time(moment: &Moment, out: &mut Vec<u8>) {
    push_clock(moment, out);
    out.push(b':');
    if moment.subsecond {
        let ms = (moment.second * 1000.0 + 0.5) as i64;
        push_padded(ms / 1000, 2, out);
        out.push(b'.');
        push_padded(ms % 1000, 3, out);
    } else {
        push_padded(moment.second as i64, 2, out);
    }
}

fn push_date_time(moment: &Moment, out: &mut Vec<u8>) {
    push_date(moment, out);
    out.push(b' ');
    push_time(moment, out);
}

/// Hours and minutes.
fn push_clock(moment: &Moment, out: &mut Vec<u8>) {
    push_padded(moment.hour, 2, out);
    out.push(b':');
    push_padded(moment.minute, 2, out);
}

/// Appends a number of so many digits at least; a sign in front counts as one.
fn push_padded(number: i64, width: usize, out: &mut Vec<u8>) {
    push_filled(number, width, b'0', out);
}

fn push_filled(number: i64, width: usize, fill: u8, out: &mut Vec<u8>) {
    if let (2, 0..100) = (width, number) {
        // The usual case.
        let tens = (number / 10) as u8;
        let first = if tens == 0 { fill } else { b'0' + tens };
        out.extend_from_slice(&[first, b'0' + (number % 10) as u8]);
        return;
    }
    let digits = Digits::of(number.unsigned_abs());
    let digits = digits.as_bytes();
    let sign = usize::from(number < 0);
    if number < 0 {
        out.push(b'-');
    }
    out.extend(std::iter::repeat_n(fill, width.saturating_sub(digits.len() + sign)));
    out.extend_from_slice(digits);
}

fn julianday(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(moment_of(arguments, env)?
        .map_or(Value::Null, |moment| Value::Real(moment.julian_ms as f64 / 86_400_000.0)))
}

fn moment_of(arguments: &[Value], env: &Env<'_>) -> Result<Option<Moment>, Error> {
    let arguments: Vec<_> = arguments.iter().map(Value::as_ref).collect();
    moment(&arguments, env, (&mut Kept::default(), 1))
}

fn unixepoch(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(moment_of(arguments, env)?.map_or(Value::Null, |moment| {
        if moment.subsecond {
            Value::Real((moment.julian_ms - UNIX_EPOCH_MS) as f64 / 1000.0)
        } else {
            Value::Int(moment.julian_ms / 1000 - UNIX_EPOCH_MS / 1000)
        }
    }))
}

/// `strftime`; NULL for an unknown conversion.
fn strftime(
    arguments: &[ValueRef<'_>],
    env: &Env<'_>,
    kept: &mut Kept,
    text: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some((format, rest)) = arguments.split_first() else { return Ok(false) };
    let Some(format) = text_of(*format) else { return Ok(false) };
    let Some(mut moment) = moment(rest, env, (kept, 2))? else { return Ok(false) };
    moment.compute_civil();
    let limit = text.len() + LENGTH_MAX;
    let mut rest = utf8::to_nul(&format);
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        text.extend_from_slice(&rest[..at]);
        let known = rest.get(at + 1).and_then(|&conversion| push_field(conversion, &moment, text));
        if known.is_none() {
            return Ok(false);
        }
        rest = &rest[at + 2..];
        if text.len() > limit {
            break;
        }
    }
    text.extend_from_slice(rest);
    if text.len() > limit { Err(too_big()) } else { Ok(true) }
}

/// Appends one conversion of `strftime`; `None` for an unknown conversion.
fn push_field(conversion: u8, moment: &Moment, out: &mut Vec<u8>) -> Option<()> {
    let hour12 = match moment.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let week_from = |days: i64| (moment.day_of_year() - days + 7) / 7;
    let second = moment.second as i64;
    let mut two = |number: i64| push_padded(number, 2, out);
    match conversion {
        b'd' => two(moment.day),
        b'e' => push_filled(moment.day, 2, b' ', out),
        b'f' => push_real("%06.3f", moment.second.min(59.999), out),
        b'F' => {
            push_year(moment, out);
            out.push(b'-');
            push_padded(moment.month, 2, out);
            out.push(b'-');
            push_padded(moment.day, 2, out);
        }
        b'G' => push_year(&moment.thursday(), out),
        b'g' => two(moment.thursday().year % 100),
        b'H' => two(moment.hour),
        b'k' => push_filled(moment.hour, 2, b' ', out),
        b'I' => two(hour12),
        b'l' => push_filled(hour12, 2, b' ', out),
        b'j' => push_padded(moment.day_of_year() + 1, 3, out),
        b'J' => push_real("%.16g", moment.julian_ms as f64 / 86_400_000.0, out),
        b'm' => two(moment.month),
        b'M' => two(moment.minute),
        b'p' => out.extend_from_slice(if moment.hour >= 12 { b"PM" } else { b"AM" }),
        b'P' => out.extend_from_slice(if moment.hour >= 12 { b"pm" } else { b"am" }),
        b'R' => push_clock(moment, out),
        b's' if moment.subsecond => {
            push_real("%.3f", (moment.julian_ms - UNIX_EPOCH_MS) as f64 / 1000.0, out);
        }
        b's' => push_int(moment.julian_ms / 1000 - UNIX_EPOCH_MS / 1000, out),
        b'S' => two(second),
        b'T' => {
            push_clock(moment, out);
            out.push(b':');
            push_padded(second, 2, out);
        }
        b'u' => match moment.days_after_sunday() {
            0 => out.push(b'7'),
            day => push_int(day, out),
        },
        b'w' => push_int(moment.days_after_sunday(), out),
        b'U' => two(week_from(moment.days_after_sunday())),
        b'V' => two(moment.thursday().day_of_year() / 7 + 1),
        b'W' => two(week_from(moment.days_after_monday())),
        b'Y' => push_year(moment, out),
        b'%' => out.push(b'%'),
        _ => return None,
    }
    Some(())
}

/// Four digits; a sign takes the place of one.
fn push_year(moment: &Moment, out: &mut Vec<u8>) {
    push_padded(moment.year, 4, out);
}

/// Appends a number formatted by `printf`.
fn push_real(format: &str, real: f64, out: &mut Vec<u8>) {
    printf::printf(&mut Output::new(out, LENGTH_MAX), format.as_bytes(), &[ValueRef::Real(real)]);
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    fn check(function: &str, arguments: &[&str], expect: impl Into<Value>) {
        let values: Vec<Value> = arguments.iter().map(|&argument| argument.into()).collect();
        assert_eq!(call(function, &values).unwrap(), expect.into(), "{function} {arguments:?}");
    }

    #[test]
    fn dates() {
        check("date", &["2024-02-30"], "2024-03-01");
        check("datetime", &["now"], "2023-11-14 22:13:20");
        check("datetime", &["2024-01-31", "+1 month"], "2024-03-02 00:00:00");
        check("date", &["2024-01-31", "+1 month", "floor"], "2024-02-29");
        check("datetime", &["1700000000", "unixepoch"], "2023-11-14 22:13:20");
        check("date", &["2024-05-15", "weekday 0"], "2024-05-19");
        check("date", &["2024-05-15", "start of year", "-1 day"], "2023-12-31");
        check("datetime", &["2024-05-15 12:00+02:00"], "2024-05-15 10:00:00");
        check("unixepoch", &["1970-01-02"], 86400);
        check("julianday", &["2000-01-01 12:00"], 2451545.0);
        check("date", &["x"], Value::Null);
        check("date", &["2024-01-01", "+1 fortnight"], Value::Null);
        check("strftime", &["%Y %j %W %V %f", "2024-12-30 01:02:03.456"], "2024 365 53 01 03.456");
    }

    #[test]
    fn zones_are_refused() {
        let error = call("date", &["now".into(), "localtime".into()]).unwrap_err();
        assert!(error.to_string().ends_with("date modifier 'localtime'"));
    }
}

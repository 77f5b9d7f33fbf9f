//! `date`, `time`, `datetime`, `julianday`, `unixepoch`, `strftime` and `timediff` (lang_datefunc.html).
//!
//! Times are UTC. The clock is the session's and stands still during a statement; local time is what the
//! session says, and refused by name where it has none.

mod difference;
mod modifier;
mod moment;
mod parse;

use super::printf::{self, Output};
use super::{Arguments, Env, LENGTH_MAX, ScalarFunction, too_big};
use crate::Error;
use crate::value::{Value, text_of, to_real, utf8};
use moment::{Moment, UNIX_EPOCH_MS};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::volatile("date", Arguments::at_least(0), |arguments, env| {
        render(arguments, env, date)
    }),
    ScalarFunction::volatile("time", Arguments::at_least(0), |arguments, env| {
        render(arguments, env, time)
    }),
    ScalarFunction::volatile("datetime", Arguments::at_least(0), |arguments, env| {
        render(arguments, env, |moment| format!("{} {}", date(moment), time(moment)))
    }),
    ScalarFunction::volatile("julianday", Arguments::at_least(0), julianday),
    ScalarFunction::volatile("unixepoch", Arguments::at_least(0), unixepoch),
    ScalarFunction::volatile("timediff", Arguments::exactly(2), difference::timediff),
    ScalarFunction::volatile("strftime", Arguments::at_least(0), strftime),
];

/// The moment that a time value and its modifiers give, `now` without any; `None` gives NULL.
fn moment(arguments: &[Value], env: &Env<'_>) -> Result<Option<Moment>, Error> {
    let now = || env.session.now_unix_ms();
    let Some((value, modifiers)) = arguments.split_first() else {
        return Ok(Some(Moment::from_unix_ms(now())));
    };
    let parsed = match value {
        Value::Int(_) | Value::Real(_) => Some(Moment::from_number(to_real(value.as_ref()))),
        value => text_of(value.as_ref()).and_then(|text| parse::parse(utf8::to_nul(&text), now)),
    };
    let Some(mut moment) = parsed else { return Ok(None) };
    for (index, modifier) in modifiers.iter().enumerate() {
        let Some(text) = text_of(modifier.as_ref()) else { return Ok(None) };
        if modifier::apply(&mut moment, utf8::to_nul(&text), index == 0, env)?.is_none() {
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

fn render(arguments: &[Value], env: &Env<'_>, text: fn(&Moment) -> String) -> Result<Value, Error> {
    Ok(moment(arguments, env)?.map_or(Value::Null, |mut moment| {
        moment.compute_civil();
        Value::text(text(&moment))
    }))
}

fn date(moment: &Moment) -> String {
    let sign = if moment.year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{:02}-{:02}", moment.year.abs(), moment.month, moment.day)
}

fn time(moment: &Moment) -> String {
    let clock = format!("{:02}:{:02}", moment.hour, moment.minute);
    if moment.subsecond {
        let ms = (moment.second * 1000.0 + 0.5) as i64;
        format!("{clock}:{:02}.{:03}", ms / 1000, ms % 1000)
    } else {
        format!("{clock}:{:02}", moment.second as i64)
    }
}

fn julianday(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(moment(arguments, env)?
        .map_or(Value::Null, |moment| Value::Real(moment.julian_ms as f64 / 86_400_000.0)))
}

fn unixepoch(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(moment(arguments, env)?.map_or(Value::Null, |moment| {
        if moment.subsecond {
            Value::Real((moment.julian_ms - UNIX_EPOCH_MS) as f64 / 1000.0)
        } else {
            Value::Int(moment.julian_ms / 1000 - UNIX_EPOCH_MS / 1000)
        }
    }))
}

/// NULL for a conversion that is none.
fn strftime(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let Some((format, rest)) = arguments.split_first() else { return Ok(Value::Null) };
    let Some(format) = text_of(format.as_ref()) else { return Ok(Value::Null) };
    let Some(mut moment) = moment(rest, env)? else { return Ok(Value::Null) };
    moment.compute_civil();
    let mut output = Output::new(LENGTH_MAX);
    let mut rest = utf8::to_nul(&format);
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        output.push(&rest[..at]);
        let Some(text) = rest.get(at + 1).and_then(|&conversion| field(conversion, &moment)) else {
            return Ok(Value::Null);
        };
        output.push(text.as_bytes());
        rest = &rest[at + 2..];
    }
    output.push(rest);
    output.into_bytes().map(Value::Text).ok_or_else(too_big)
}

/// One conversion of `strftime`.
fn field(conversion: u8, moment: &Moment) -> Option<String> {
    let hour12 = match moment.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let week_from = |days: i64| (moment.day_of_year() - days + 7) / 7;
    let second = moment.second as i64;
    Some(match conversion {
        b'd' => format!("{:02}", moment.day),
        b'e' => format!("{:2}", moment.day),
        b'f' => number("%06.3f", moment.second.min(59.999)),
        b'F' => format!("{}-{:02}-{:02}", year(moment), moment.month, moment.day),
        b'G' => year(&moment.thursday()),
        b'g' => format!("{:02}", moment.thursday().year % 100),
        b'H' => format!("{:02}", moment.hour),
        b'k' => format!("{:2}", moment.hour),
        b'I' => format!("{hour12:02}"),
        b'l' => format!("{hour12:2}"),
        b'j' => format!("{:03}", moment.day_of_year() + 1),
        b'J' => number("%.16g", moment.julian_ms as f64 / 86_400_000.0),
        b'm' => format!("{:02}", moment.month),
        b'M' => format!("{:02}", moment.minute),
        b'p' => if moment.hour >= 12 { "PM" } else { "AM" }.to_owned(),
        b'P' => if moment.hour >= 12 { "pm" } else { "am" }.to_owned(),
        b'R' => format!("{:02}:{:02}", moment.hour, moment.minute),
        b's' if moment.subsecond => {
            number("%.3f", (moment.julian_ms - UNIX_EPOCH_MS) as f64 / 1000.0)
        }
        b's' => (moment.julian_ms / 1000 - UNIX_EPOCH_MS / 1000).to_string(),
        b'S' => format!("{second:02}"),
        b'T' => format!("{:02}:{:02}:{second:02}", moment.hour, moment.minute),
        b'u' => match moment.days_after_sunday() {
            0 => "7".to_owned(),
            day => day.to_string(),
        },
        b'w' => moment.days_after_sunday().to_string(),
        b'U' => format!("{:02}", week_from(moment.days_after_sunday())),
        b'V' => format!("{:02}", moment.thursday().day_of_year() / 7 + 1),
        b'W' => format!("{:02}", week_from(moment.days_after_monday())),
        b'Y' => year(moment),
        b'%' => "%".to_owned(),
        _ => return None,
    })
}

/// Four digits; a sign is one more.
fn year(moment: &Moment) -> String {
    number_int("%04d", moment.year)
}

fn number(format: &str, real: f64) -> String {
    formatted(format, Value::Real(real))
}

fn number_int(format: &str, int: i64) -> String {
    formatted(format, Value::Int(int))
}

fn formatted(format: &str, value: Value) -> String {
    let mut output = Output::new(LENGTH_MAX);
    printf::printf(&mut output, format.as_bytes(), &[value]);
    String::from_utf8(output.into_bytes().unwrap_or_default()).unwrap_or_default()
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

//! `timediff`: the years, months, days and time between two moments.

use super::moment::{DAY_MS, Moment};
use super::{moment, push_padded, push_time};
use crate::Error;
use crate::functions::{Env, Kept};
use crate::value::ValueRef;

/// The difference in the form of a modifier: added to the second moment, it gives the first.
pub(super) fn timediff(
    arguments: &[ValueRef<'_>],
    env: &Env<'_>,
    _: &mut Kept,
    text: &mut Vec<u8>,
) -> Result<bool, Error> {
    let Some(mut first) = moment(&arguments[..1], env, (&mut Kept::default(), 1))? else {
        return Ok(false);
    };
    let Some(mut second) = moment(&arguments[1..], env, (&mut Kept::default(), 1))? else {
        return Ok(false);
    };
    first.compute_civil();
    second.compute_civil();
    let forwards = first.julian_ms >= second.julian_ms;
    // The second moment is moved, by whole years and then months, towards the first and not past
    // the first; days and time remain.
    let distance = |from: &Moment| match forwards {
        true => first.julian_ms - from.julian_ms,
        false => from.julian_ms - first.julian_ms,
    };
    let months = |moment: &Moment| moment.year * 12 + moment.month - 1;
    let mut apart = (months(&first) - months(&second)).abs();
    let mut near = moved(&second, months(&first));
    while distance(&near) < 0 {
        apart -= 1;
        let back = if forwards { apart } else { -apart };
        near = moved(&second, months(&second) + back);
    }
    let left = distance(&near);
    let days = left / DAY_MS;
    let rest = left % DAY_MS;
    let clock = Moment {
        hour: rest / 3_600_000,
        minute: rest / 60_000 % 60,
        second: (rest % 60_000) as f64 / 1000.0,
        subsecond: true,
        ..Moment::default()
    };
    text.push(if forwards { b'+' } else { b'-' });
    push_padded(apart / 12, 4, text);
    text.push(b'-');
    push_padded(apart % 12, 2, text);
    text.push(b'-');
    push_padded(days, 2, text);
    text.push(b' ');
    push_time(&clock, text);
    Ok(true)
}

/// The same day and time in another month, counted from the beginning of the year 0.
fn moved(moment: &Moment, month: i64) -> Moment {
    let mut moved = moment.clone();
    moved.year = month.div_euclid(12);
    moved.month = month.rem_euclid(12) + 1;
    moved.has_julian = false;
    moved.compute_julian();
    moved
}

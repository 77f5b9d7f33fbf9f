//! Numbers: signs, rounding, and the mathematics of SQLite's optional math functions.

use super::{Arguments, Env, ScalarFunction};
use crate::Error;
use crate::value::number::{numeric_from_text, scaled};
use crate::value::{Keep, TextNumber, Value, decode, real_to_int, to_int, to_real};

macro_rules! one {
    ($name:literal, $function:expr) => {
        ScalarFunction::new($name, Arguments::exactly(1), |arguments, _| {
            Ok(real_of(arguments.first(), $function))
        })
    };
}

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("abs", Arguments::exactly(1), abs),
    ScalarFunction::new("round", Arguments::between(1, 2), round),
    ScalarFunction::new("sign", Arguments::exactly(1), sign),
    ScalarFunction::new("ceil", Arguments::exactly(1), |arguments, _| whole(arguments, f64::ceil)),
    ScalarFunction::new("ceiling", Arguments::exactly(1), |arguments, _| {
        whole(arguments, f64::ceil)
    }),
    ScalarFunction::new("floor", Arguments::exactly(1), |arguments, _| {
        whole(arguments, f64::floor)
    }),
    ScalarFunction::new("trunc", Arguments::exactly(1), |arguments, _| {
        whole(arguments, f64::trunc)
    }),
    ScalarFunction::new("log", Arguments::between(1, 2), log),
    ScalarFunction::new("ln", Arguments::exactly(1), |arguments, _| {
        Ok(logarithm(arguments.first(), f64::ln))
    }),
    ScalarFunction::new("log10", Arguments::exactly(1), |arguments, _| {
        Ok(logarithm(arguments.first(), f64::log10))
    }),
    ScalarFunction::new("log2", Arguments::exactly(1), |arguments, _| {
        Ok(logarithm(arguments.first(), f64::log2))
    }),
    ScalarFunction::new("pow", Arguments::exactly(2), |arguments, _| {
        Ok(real_of_two(arguments, f64::powf))
    }),
    ScalarFunction::new("power", Arguments::exactly(2), |arguments, _| {
        Ok(real_of_two(arguments, f64::powf))
    }),
    ScalarFunction::new("mod", Arguments::exactly(2), |arguments, _| {
        Ok(real_of_two(arguments, |a, b| a % b))
    }),
    ScalarFunction::new("atan2", Arguments::exactly(2), |arguments, _| {
        Ok(real_of_two(arguments, f64::atan2))
    }),
    ScalarFunction::new("pi", Arguments::exactly(0), |_, _| Ok(Value::Real(std::f64::consts::PI))),
    one!("exp", f64::exp),
    one!("sqrt", f64::sqrt),
    one!("acos", f64::acos),
    one!("asin", f64::asin),
    one!("atan", f64::atan),
    one!("cos", f64::cos),
    one!("sin", f64::sin),
    one!("tan", f64::tan),
    one!("cosh", f64::cosh),
    one!("sinh", f64::sinh),
    one!("tanh", f64::tanh),
    one!("acosh", f64::acosh),
    one!("asinh", f64::asinh),
    one!("atanh", f64::atanh),
    one!("radians", |degrees: f64| degrees * (std::f64::consts::PI / 180.0)),
    one!("degrees", |radians: f64| radians * (180.0 / std::f64::consts::PI)),
];

fn abs(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    match arguments.first() {
        None | Some(Value::Null) => Ok(Value::Null),
        Some(Value::Int(int)) => {
            int.checked_abs().map(Value::Int).ok_or_else(|| Error::runtime("integer overflow"))
        }
        Some(value) => Ok(Value::real(to_real(value.as_ref()).abs())),
    }
}

/// `round(x)` and `round(x, decimals)`, always a real; halves go away from zero.
fn round(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(value) = arguments.first().filter(|value| !value.is_null()) else {
        return Ok(Value::Null);
    };
    let decimals = match arguments.get(1) {
        Some(Value::Null) => return Ok(Value::Null),
        Some(decimals) => to_int(decimals.as_ref()).clamp(0, 30),
        None => 0,
    };
    let real = to_real(value.as_ref());
    // Past 2^52 a real has no fraction.
    if real.abs() > 4503599627370496.0 {
        return Ok(Value::real(real));
    }
    if decimals == 0 {
        let half = if real < 0.0 { -0.5 } else { 0.5 };
        return Ok(Value::real(real_to_int(real + half) as f64));
    }
    Ok(Value::real(round_to(real, i32::try_from(decimals).unwrap_or(30))))
}

/// By way of decimal digits, as SQLite rounds: the nearest real to the text of `%!.*f`.
fn round_to(real: f64, decimals: i32) -> f64 {
    let decimal = decode(real, Keep::Decimals(decimals), 20);
    // `decode` keeps digits past the last decimal only where all of them are.
    let digits = decimal.digits.as_bytes();
    let kept = usize::try_from(decimal.point + decimals).unwrap_or(0).min(digits.len());
    if kept == 0 {
        return if decimal.negative { -0.0 } else { 0.0 };
    }
    // The kept digits fit a number of 64 bits.
    let add = |number: u64, digit: &u8| number.wrapping_mul(10).wrapping_add((digit - b'0').into());
    let exponent = i64::from(decimal.point) - i64::try_from(kept).unwrap_or(0);
    let magnitude = scaled(digits[..kept].iter().fold(0, add), exponent);
    if decimal.negative { -magnitude } else { magnitude }
}

/// -1, 0 or 1; NULL unless the whole value is a number.
fn sign(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let Some(real) = arguments.first().and_then(number) else { return Ok(Value::Null) };
    Ok(Value::Int(if real < 0.0 { -1 } else { i64::from(real > 0.0) }))
}

/// The value as a number; text must be one as a whole, blobs never are.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(int) => Some(*int as f64),
        Value::Real(real) => Some(*real),
        Value::Text(text) => match numeric_from_text(text)? {
            TextNumber::Int(int) => Some(int as f64),
            TextNumber::Real(real) => Some(real),
        },
        Value::Null | Value::Blob(_) => None,
    }
}

/// Integers stay as they are.
fn whole(arguments: &[Value], function: fn(f64) -> f64) -> Result<Value, Error> {
    Ok(match arguments.first() {
        Some(Value::Int(int)) => Value::Int(*int),
        Some(Value::Text(text)) if let Some(TextNumber::Int(int)) = numeric_from_text(text) => {
            Value::Int(int)
        }
        value => real_of(value, function),
    })
}

fn real_of(value: Option<&Value>, function: impl Fn(f64) -> f64) -> Value {
    value.and_then(number).map_or(Value::Null, |real| Value::real(function(real)))
}

fn real_of_two(arguments: &[Value], function: impl Fn(f64, f64) -> f64) -> Value {
    let [left, right] = arguments else { return Value::Null };
    match (number(left), number(right)) {
        (Some(left), Some(right)) => Value::real(function(left, right)),
        _ => Value::Null,
    }
}

/// NULL at zero and below.
fn logarithm(value: Option<&Value>, function: fn(f64) -> f64) -> Value {
    match value.and_then(number) {
        Some(real) if real > 0.0 => Value::real(function(real)),
        _ => Value::Null,
    }
}

/// `log(x)` to base 10, `log(base, x)`.
fn log(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    let [base, value] = arguments else {
        return Ok(logarithm(arguments.first(), f64::log10));
    };
    let value = to_real(value.as_ref());
    Ok(match logarithm(Some(base), f64::ln) {
        Value::Real(base) if base > 0.0 && value > 0.0 => Value::real(value.ln() / base),
        _ => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn rounding() {
        let cases = [
            (2.5, 0, 3.0),
            (-2.5, 0, -3.0),
            (2.345, 2, 2.35),
            (0.05, 1, 0.1),
            (0.04, 1, 0.0),
            (1e300, 3, 1e300),
            (1.0 / 3.0, 5, 0.33333),
        ];
        for (real, decimals, expect) in cases {
            let got = call("round", &[Value::Real(real), Value::Int(decimals)]).unwrap();
            assert_eq!(got, Value::Real(expect), "{real} {decimals}");
        }
    }

    #[test]
    fn domains() {
        assert_eq!(call("sqrt", &[Value::Int(-1)]).unwrap(), Value::Null);
        assert_eq!(call("ln", &[Value::Int(0)]).unwrap(), Value::Null);
        assert_eq!(call("log", &[Value::Int(2), Value::Int(8)]).unwrap(), Value::Real(3.0));
        assert_eq!(call("ceil", &[Value::Int(3)]).unwrap(), Value::Int(3));
        assert_eq!(call("floor", &["x".into()]).unwrap(), Value::Null);
        assert_eq!(
            call("abs", &[Value::Int(i64::MIN)]).unwrap_err().to_string(),
            "integer overflow"
        );
    }
}

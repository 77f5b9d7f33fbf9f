//! Functions of any value: choice, types, random bytes, counts of changes.

use super::{Arguments, Env, LENGTH_MAX, ScalarFunction, too_big};
use crate::Error;
use crate::value::{Value, compare, to_int, truth};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("coalesce", Arguments::at_least(2), coalesce),
    ScalarFunction::new("ifnull", Arguments::exactly(2), coalesce),
    ScalarFunction::new("iif", Arguments::at_least(2), iif),
    ScalarFunction::new("if", Arguments::at_least(2), iif),
    ScalarFunction::new("nullif", Arguments::exactly(2), nullif),
    ScalarFunction::new("likelihood", Arguments::exactly(2), first),
    ScalarFunction::new("likely", Arguments::exactly(1), first),
    ScalarFunction::new("unlikely", Arguments::exactly(1), first),
    ScalarFunction::new("max", Arguments::at_least(2), max),
    ScalarFunction::new("min", Arguments::at_least(2), min),
    ScalarFunction::new("typeof", Arguments::exactly(1), type_of),
    ScalarFunction::new("subtype", Arguments::exactly(1), subtype),
    ScalarFunction::volatile("changes", Arguments::exactly(0), |_, env| {
        Ok(Value::Int(env.session.changes()))
    }),
    ScalarFunction::volatile("total_changes", Arguments::exactly(0), |_, env| {
        Ok(Value::Int(env.session.total_changes()))
    }),
    ScalarFunction::volatile("last_insert_rowid", Arguments::exactly(0), |_, env| {
        Ok(Value::Int(env.session.last_insert_rowid()))
    }),
    ScalarFunction::volatile("random", Arguments::exactly(0), random),
    ScalarFunction::volatile("randomblob", Arguments::exactly(1), random_blob),
    ScalarFunction::new("zeroblob", Arguments::exactly(1), zero_blob),
    ScalarFunction::volatile("match", Arguments::exactly(2), matches),
];

/// `MATCH` is answered by virtual tables taking the condition; nobody else can tell.
fn matches(_: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Err(Error::runtime("unable to use function MATCH in the requested context"))
}

fn coalesce(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Ok(arguments.iter().find(|value| !value.is_null()).cloned().unwrap_or_default())
}

/// Pairs of condition and value, then perhaps the value where none holds.
fn iif(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    for pair in arguments.chunks(2) {
        match pair {
            [condition, value] if truth(condition.as_ref()) == Some(true) => {
                return Ok(value.clone());
            }
            [otherwise] => return Ok(otherwise.clone()),
            _ => {}
        }
    }
    Ok(Value::Null)
}

fn nullif(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let [value, other] = arguments else { return Ok(Value::Null) };
    let equal = compare(value.as_ref(), other.as_ref(), env.collation).is_eq();
    Ok(if equal { Value::Null } else { value.clone() })
}

/// `J` for JSON made by a function and shown in the query. `json_extract` is called here in its
/// form for elements, whose result counts as JSON only for arrays and objects.
fn subtype(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let is_json = match arguments.first() {
        Some(Value::Text(text)) if env.is_json(1) => matches!(text.first(), Some(b'[' | b'{')),
        Some(Value::Text(_)) => env.is_json(0),
        _ => false,
    };
    Ok(Value::Int(if is_json { i64::from(b'J') } else { 0 }))
}

fn first(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Ok(arguments.first().cloned().unwrap_or_default())
}

fn max(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(extreme(arguments, |best, value| {
        compare(best.as_ref(), value.as_ref(), env.collation).is_lt()
    }))
}

fn min(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    Ok(extreme(arguments, |best, value| {
        compare(best.as_ref(), value.as_ref(), env.collation).is_ge()
    }))
}

/// NULL among the arguments makes the result NULL.
fn extreme(arguments: &[Value], better: impl Fn(&Value, &Value) -> bool) -> Value {
    let Some((mut best, others)) = arguments.split_first() else { return Value::Null };
    if arguments.iter().any(Value::is_null) {
        return Value::Null;
    }
    for value in others {
        if better(best, value) {
            best = value;
        }
    }
    best.clone()
}

fn type_of(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Ok(arguments.first().map_or("null", Value::type_name).into())
}

/// A random integer, never the lowest: `abs(random())` always works.
fn random(_: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let mut bytes = [0; 8];
    env.session.random(&mut bytes);
    let bits = i64::from_le_bytes(bytes);
    Ok(Value::Int(if bits < 0 { -(bits & i64::MAX) } else { bits }))
}

fn random_blob(arguments: &[Value], env: &Env<'_>) -> Result<Value, Error> {
    let length = length_argument(arguments)?.max(1);
    let mut bytes = vec![0; length];
    env.session.random(&mut bytes);
    Ok(Value::Blob(bytes))
}

fn zero_blob(arguments: &[Value], _: &Env<'_>) -> Result<Value, Error> {
    Ok(Value::Blob(vec![0; length_argument(arguments)?]))
}

fn length_argument(arguments: &[Value]) -> Result<usize, Error> {
    let length = arguments.first().map_or(0, |value| to_int(value.as_ref())).max(0);
    usize::try_from(length).ok().filter(|&length| length <= LENGTH_MAX).ok_or_else(too_big)
}

#[cfg(test)]
mod tests {
    use super::super::tests::call;
    use super::*;

    #[test]
    fn random_avoids_the_lowest_integer() {
        assert_eq!(call("random", &[]).unwrap(), Value::Int(-i64::MAX));
        assert_eq!(call("randomblob", &[Value::Int(-3)]).unwrap(), Value::Blob(vec![0xff]));
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(call("zeroblob", &[Value::Int(-1)]).unwrap(), Value::Blob(Vec::new()));
        let error = call("zeroblob", &[Value::Int(i64::MAX)]).unwrap_err();
        assert_eq!(error.to_string(), "string or blob too big");
    }

    #[test]
    fn iif_takes_pairs() {
        let values = [Value::Int(0), "a".into(), Value::Int(2), "b".into(), "c".into()];
        assert_eq!(call("iif", &values).unwrap(), "b".into());
        assert_eq!(call("iif", &values[..2]).unwrap(), Value::Null);
        assert_eq!(call("iif", &values[..3]).unwrap(), Value::Int(2));
    }
}

//! Functions of plain values and of the graph's elements.

use std::sync::Arc;

use crate::error::{Error, ErrorClass, Result};
use crate::value::{Map, Value};

/// A function, neither an aggregate nor temporal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plain {
    Abs,
    Ceil,
    Floor,
    Round,
    Sign,
    Sqrt,
    Exp,
    Log,
    Log10,
    Sin,
    Cos,
    Tan,
    Cot,
    Asin,
    Acos,
    Atan,
    Atan2,
    Degrees,
    Radians,
    Haversin,
    Pi,
    E,
    Rand,
    Coalesce,
    Head,
    Last,
    Tail,
    Size,
    Length,
    Reverse,
    Range,
    Keys,
    Labels,
    Properties,
    Type,
    Id,
    Nodes,
    Relationships,
    StartNode,
    EndNode,
    Exists,
    IsEmpty,
    ToInteger,
    ToFloat,
    ToBoolean,
    ToText,
    Split,
    Substring,
    Left,
    Right,
    Replace,
    Trim,
    TrimStart,
    TrimEnd,
    ToLower,
    ToUpper,
    Timestamp,
}

/// A function by its name in lower case, with its smallest and largest number of arguments.
pub(crate) fn find(name: &str) -> Option<(Plain, usize, usize)> {
    use Plain::*;
    let one = |function| Some((function, 1, 1));
    match name {
        "abs" => one(Abs),
        "ceil" | "ceiling" => one(Ceil),
        "floor" => one(Floor),
        "round" => Some((Round, 1, 2)),
        "sign" => one(Sign),
        "sqrt" => one(Sqrt),
        "exp" => one(Exp),
        "log" => one(Log),
        "log10" => one(Log10),
        "sin" => one(Sin),
        "cos" => one(Cos),
        "tan" => one(Tan),
        "cot" => one(Cot),
        "asin" => one(Asin),
        "acos" => one(Acos),
        "atan" => one(Atan),
        "atan2" => Some((Atan2, 2, 2)),
        "degrees" => one(Degrees),
        "radians" => one(Radians),
        "haversin" => one(Haversin),
        "pi" => Some((Pi, 0, 0)),
        "e" => Some((E, 0, 0)),
        "rand" => Some((Rand, 0, 0)),
        "coalesce" => Some((Coalesce, 1, usize::MAX)),
        "head" => one(Head),
        "last" => one(Last),
        "tail" => one(Tail),
        "size" => one(Size),
        "length" => one(Length),
        "reverse" => one(Reverse),
        "range" => Some((Range, 2, 3)),
        "keys" => one(Keys),
        "labels" => one(Labels),
        "properties" => one(Properties),
        "type" => one(Type),
        "id" => one(Id),
        "nodes" => one(Nodes),
        "relationships" | "rels" => one(Relationships),
        "startnode" => one(StartNode),
        "endnode" => one(EndNode),
        "exists" => one(Exists),
        "isempty" => one(IsEmpty),
        "tointeger" | "toint" => one(ToInteger),
        "tofloat" => one(ToFloat),
        "toboolean" => one(ToBoolean),
        "tostring" => one(ToText),
        "split" => Some((Split, 2, 2)),
        "substring" => Some((Substring, 2, 3)),
        "left" => Some((Left, 2, 2)),
        "right" => Some((Right, 2, 2)),
        "replace" => Some((Replace, 3, 3)),
        "trim" => one(Trim),
        "ltrim" => one(TrimStart),
        "rtrim" => one(TrimEnd),
        "tolower" | "lower" => one(ToLower),
        "toupper" | "upper" => one(ToUpper),
        "timestamp" => Some((Timestamp, 0, 0)),
        _ => None,
    }
}

fn wrong(name: &str, value: &Value) -> Error {
    Error::value_type(format!(
        "{name}() takes no {}",
        value.type_name().trim_start_matches("a ").trim_start_matches("an ")
    ))
}

/// The longest list made by `range()`.
const RANGE_MAX: u64 = 50_000_000;

/// A function of values alone; `None` for functions that ask the graph or the query.
pub(crate) fn call(function: Plain, args: &[Value]) -> Result<Option<Value>> {
    use Plain::*;
    if function == Coalesce {
        return Ok(Some(args.iter().find(|arg| !arg.is_null()).cloned().unwrap_or_default()));
    }
    if matches!(
        function,
        Keys | Labels | Properties | Type | Id | StartNode | EndNode | Rand | Timestamp | Exists
    ) {
        return Ok(None);
    }
    if args.iter().any(Value::is_null) {
        return Ok(Some(Value::Null));
    }
    Ok(Some(match function {
        Abs => match &args[0] {
            Value::Integer(number) => Value::Integer(number.checked_abs().ok_or_else(overflow)?),
            Value::Float(number) => Value::Float(number.abs()),
            other => return Err(wrong("abs", other)),
        },
        Sign => match &args[0] {
            Value::Integer(number) => Value::Integer(number.signum()),
            Value::Float(number) if *number == 0.0 || number.is_nan() => Value::Integer(0),
            Value::Float(number) => Value::Integer(number.signum() as i64),
            other => return Err(wrong("sign", other)),
        },
        Ceil | Floor | Sqrt | Exp | Log | Log10 | Sin | Cos | Tan | Cot | Asin | Acos | Atan
        | Degrees | Radians | Haversin => {
            Value::Float(of_float(function, number("a mathematical function", &args[0])?))
        }
        Round => round(args)?,
        Atan2 => Value::Float(number("atan2", &args[0])?.atan2(number("atan2", &args[1])?)),
        Pi => Value::Float(std::f64::consts::PI),
        E => Value::Float(std::f64::consts::E),
        Head | Last | Tail => {
            let list = list("a list's function", &args[0])?;
            match function {
                Head => list.first().cloned().unwrap_or_default(),
                Last => list.last().cloned().unwrap_or_default(),
                _ => Value::list(list.get(1..).unwrap_or_default().to_vec()),
            }
        }
        Size => match &args[0] {
            Value::List(list) => Value::Integer(list.len() as i64),
            Value::Text(text) => Value::Integer(text.chars().count() as i64),
            Value::Map(map) => Value::Integer(map.len() as i64),
            other => return Err(wrong("size", other)),
        },
        Length => match &args[0] {
            Value::Path(path) => Value::Integer(path.relationships.len() as i64),
            Value::List(list) => Value::Integer(list.len() as i64),
            Value::Text(text) => Value::Integer(text.chars().count() as i64),
            other => return Err(wrong("length", other)),
        },
        IsEmpty => match &args[0] {
            Value::List(list) => Value::Boolean(list.is_empty()),
            Value::Text(text) => Value::Boolean(text.is_empty()),
            Value::Map(map) => Value::Boolean(map.is_empty()),
            other => return Err(wrong("isEmpty", other)),
        },
        Reverse => match &args[0] {
            Value::List(list) => Value::list(list.iter().rev().cloned().collect()),
            Value::Text(text) => Value::text(&text.chars().rev().collect::<String>()),
            other => return Err(wrong("reverse", other)),
        },
        Range => range(args)?,
        Nodes => match &args[0] {
            Value::Path(path) => {
                Value::list(path.nodes.iter().map(|&id| Value::Node(id)).collect())
            }
            other => return Err(wrong("nodes", other)),
        },
        Relationships => match &args[0] {
            Value::Path(path) => {
                Value::list(path.relationships.iter().map(|&id| Value::Relationship(id)).collect())
            }
            other => return Err(wrong("relationships", other)),
        },
        ToInteger => match &args[0] {
            Value::Integer(number) => Value::Integer(*number),
            Value::Float(number) => whole(*number),
            Value::Text(text) => text_to_integer(text.trim()),
            other => return Err(wrong("toInteger", other)),
        },
        ToFloat => match &args[0] {
            Value::Integer(number) => Value::Float(*number as f64),
            Value::Float(number) => Value::Float(*number),
            Value::Text(text) => text.trim().parse().map_or(Value::Null, Value::Float),
            other => return Err(wrong("toFloat", other)),
        },
        ToBoolean => match &args[0] {
            Value::Boolean(truth) => Value::Boolean(*truth),
            Value::Text(text) if text.trim().eq_ignore_ascii_case("true") => Value::Boolean(true),
            Value::Text(text) if text.trim().eq_ignore_ascii_case("false") => Value::Boolean(false),
            Value::Text(_) => Value::Null,
            Value::Integer(number) => Value::Boolean(*number != 0),
            other => return Err(wrong("toBoolean", other)),
        },
        ToText => to_text(&args[0])?,
        _ => return of_text(function, args).map(Some),
    }))
}

fn overflow() -> Error {
    Error::runtime(
        ErrorClass::ArithmeticError,
        "IntegerOverflow",
        "the integer does not fit 64 bits",
    )
}

fn number(name: &str, value: &Value) -> Result<f64> {
    match value {
        Value::Integer(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        other => Err(wrong(name, other)),
    }
}

fn list<'v>(name: &str, value: &'v Value) -> Result<&'v Arc<[Value]>> {
    match value {
        Value::List(list) => Ok(list),
        other => Err(wrong(name, other)),
    }
}

fn of_float(function: Plain, x: f64) -> f64 {
    match function {
        Plain::Ceil => x.ceil(),
        Plain::Floor => x.floor(),
        Plain::Sqrt => x.sqrt(),
        Plain::Exp => x.exp(),
        Plain::Log => x.ln(),
        Plain::Log10 => x.log10(),
        Plain::Sin => x.sin(),
        Plain::Cos => x.cos(),
        Plain::Tan => x.tan(),
        Plain::Cot => 1.0 / x.tan(),
        Plain::Asin => x.asin(),
        Plain::Acos => x.acos(),
        Plain::Atan => x.atan(),
        Plain::Degrees => x.to_degrees(),
        Plain::Radians => x.to_radians(),
        Plain::Haversin => (1.0 - x.cos()) / 2.0,
        _ => unreachable!("a function of one float"),
    }
}

fn round(args: &[Value]) -> Result<Value> {
    let x = number("round", &args[0])?;
    let places = match args.get(1) {
        None => 0,
        Some(Value::Integer(places)) => (*places).clamp(0, 300) as i32,
        Some(other) => return Err(wrong("round", other)),
    };
    let scale = 10_f64.powi(places);
    let scaled = x * scale;
    Ok(Value::Float(if scaled.is_finite() { (scaled + 0.5).floor() / scale } else { x }))
}

fn whole(number: f64) -> Value {
    let is_integer = number.is_finite() && number.abs() < 9_223_372_036_854_775_808.0;
    if is_integer { Value::Integer(number as i64) } else { Value::Null }
}

fn text_to_integer(text: &str) -> Value {
    match text.parse::<i64>() {
        Ok(number) => Value::Integer(number),
        Err(_) => text.parse::<f64>().map_or(Value::Null, whole),
    }
}

fn to_text(value: &Value) -> Result<Value> {
    Ok(match value {
        Value::Text(_) => value.clone(),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Value::text(&value.to_string()),
        Value::Date(_)
        | Value::LocalTime(_)
        | Value::Time(_)
        | Value::LocalDateTime(_)
        | Value::DateTime(_)
        | Value::Duration(_) => Value::text(value.to_string().trim_matches('\'')),
        other => return Err(wrong("toString", other)),
    })
}

fn range(args: &[Value]) -> Result<Value> {
    let mut numbers = [0, 0, 1];
    for (to, arg) in numbers.iter_mut().zip(args) {
        match arg {
            Value::Integer(number) => *to = *number,
            other => {
                let message = format!("range() takes integers, not {}", other.type_name());
                return Err(Error::runtime(
                    ErrorClass::ArgumentError,
                    "InvalidArgumentType",
                    message,
                ));
            }
        }
    }
    let [start, end, step] = numbers;
    if step == 0 {
        let message = "the step of range() is not 0";
        return Err(Error::runtime(ErrorClass::ArgumentError, "NumberOutOfRange", message));
    }
    if (step > 0 && start > end) || (step < 0 && start < end) {
        return Ok(Value::list(Vec::new()));
    }
    let count = start.abs_diff(end) / step.unsigned_abs();
    if count >= RANGE_MAX {
        return Err(Error::limit(format!("range() of more than {RANGE_MAX} numbers")));
    }
    let at = |index: u64| {
        Value::Integer((i128::from(start) + i128::from(index) * i128::from(step)) as i64)
    };
    Ok(Value::list((0..=count).map(at).collect()))
}

fn text_of(value: &Value) -> Result<&Arc<str>> {
    match value {
        Value::Text(text) => Ok(text),
        other => Err(wrong("a text's function", other)),
    }
}

fn count_of(value: &Value) -> Result<usize> {
    match value {
        Value::Integer(number) => usize::try_from(*number)
            .map_err(|_| Error::argument(format!("a count of characters is not {number}"))),
        other => Err(wrong("a text's function", other)),
    }
}

fn of_text(function: Plain, args: &[Value]) -> Result<Value> {
    use Plain::*;
    let text = text_of(&args[0])?;
    Ok(match function {
        Split => {
            let by = text_of(&args[1])?;
            match by.is_empty() {
                true => Value::list(
                    text.chars().map(|c| Value::text(c.encode_utf8(&mut [0; 4]))).collect(),
                ),
                false => Value::list(text.split(&**by).map(Value::text).collect()),
            }
        }
        Substring => {
            let start = count_of(&args[1])?;
            let length = args.get(2).map_or(Ok(usize::MAX), count_of)?;
            Value::text(&text.chars().skip(start).take(length).collect::<String>())
        }
        Left => Value::text(&text.chars().take(count_of(&args[1])?).collect::<String>()),
        Right => {
            let skipped = text.chars().count().saturating_sub(count_of(&args[1])?);
            Value::text(&text.chars().skip(skipped).collect::<String>())
        }
        Replace => {
            let (from, to) = (text_of(&args[1])?, text_of(&args[2])?);
            if from.is_empty() { args[0].clone() } else { Value::text(&text.replace(&**from, to)) }
        }
        Trim => Value::text(text.trim()),
        TrimStart => Value::text(text.trim_start()),
        TrimEnd => Value::text(text.trim_end()),
        ToLower => Value::text(&text.to_lowercase()),
        ToUpper => Value::text(&text.to_uppercase()),
        other => unreachable!("{other:?} is not a function of a text"),
    })
}

/// The keys of a map as a list.
pub(crate) fn keys_of(map: &Map) -> Value {
    Value::list(map.keys().map(|key| Value::Text(key.clone())).collect())
}

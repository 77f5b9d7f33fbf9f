//! Values of SQL as JSON, and JSON as values of SQL.

use serde_json::{Value as Json, json};
use shoal_sql::{Statement, Value, ValueRef};

use crate::refusal::Refusal;

/// The greatest integer kept exactly by every reader of JSON.
const EXACT_MAX: u64 = 1 << 53;
/// Bytes of a blob shown.
const BLOB_MAX: usize = 64;

/// A value as JSON, and true where a part of it was left out: of a text at most `longest` bytes are
/// shown, of a blob 64. Integers beyond 2^53 and infinite reals are texts, blobs literals of SQL.
pub(crate) fn shown(value: ValueRef<'_>, longest: usize) -> (Json, bool) {
    match value {
        ValueRef::Null => (Json::Null, false),
        ValueRef::Int(number) if number.unsigned_abs() > EXACT_MAX => {
            (json!(number.to_string()), false)
        }
        ValueRef::Int(number) => (json!(number), false),
        ValueRef::Real(number) if number.is_infinite() => (json!(number.to_string()), false),
        ValueRef::Real(number) => (json!(number), false),
        ValueRef::Text(text) => {
            let shown = cut(text, longest);
            let is_cut = shown.len() < text.len();
            let more = if is_cut { "…" } else { "" };
            (json!(format!("{}{more}", String::from_utf8_lossy(shown))), is_cut)
        }
        ValueRef::Blob(bytes) => {
            let most = BLOB_MAX.min(longest);
            let shown = &bytes[..bytes.len().min(most)];
            let hex = shoal_stdx::hex::encode(shown);
            match shown.len() < bytes.len() {
                true => (json!(format!("x'{hex}…' ({} bytes)", bytes.len())), true),
                false => (json!(format!("x'{hex}'")), false),
            }
        }
    }
}

/// The beginning of a text, at most `longest` bytes, without a part of a character at its end.
pub(crate) fn cut(text: &[u8], longest: usize) -> &[u8] {
    if text.len() <= longest {
        return text;
    }
    let mut end = longest;
    // A byte within a character of UTF-8 is one of 0b10xxxxxx; of other bytes few are alike.
    while end > 0 && end + 4 > longest && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

/// A parameter's value: lists and objects are their JSON as text, as `json()` and `vec_f32()` take
/// them.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is_so) => Value::Int(i64::from(*is_so)),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => number.as_f64().map_or(Value::Null, Value::real),
        },
        Json::String(text) => Value::text(text.as_str()),
        Json::Array(_) | Json::Object(_) => Value::text(json.to_string()),
    }
}

/// The parameters of a call: a list for `?1`, `?2`, an object for `:name`, `@name`, `$name`.
#[derive(Clone, Debug, Default)]
pub(crate) enum Parameters {
    /// None.
    #[default]
    None,
    /// By number, from 1.
    List(Vec<Value>),
    /// By name, with or without its sign.
    Named(Vec<(String, Value)>),
}

impl Parameters {
    /// The parameters in the arguments of a tool.
    ///
    /// # Errors
    /// JSON of another shape.
    pub(crate) fn read(json: Option<&Json>) -> Result<Parameters, Refusal> {
        Ok(match json {
            None | Some(Json::Null) => Parameters::None,
            Some(Json::Array(values)) => Parameters::List(values.iter().map(value).collect()),
            Some(Json::Object(entries)) => {
                let named = entries.iter().map(|(name, json)| (name.clone(), value(json)));
                Parameters::Named(named.collect())
            }
            Some(_) => {
                let why = "params is a list of values for ?1, ?2, or an object of values by name";
                return Err(Refusal::new(why));
            }
        })
    }

    /// Gives the parameters of a statement their values.
    ///
    /// # Errors
    /// A parameter without a value, a value without a parameter.
    pub(crate) fn bind(&self, statement: &mut Statement) -> Result<(), Refusal> {
        let count = statement.parameter_count();
        match self {
            Parameters::None if count == 0 => Ok(()),
            Parameters::None => Err(Refusal::new(format!(
                "the statement has {count} parameters and params is missing"
            ))
            .hint("Give params, a list for ?1, ?2 or an object for :name")),
            Parameters::List(values) => {
                if values.len() != count {
                    let given = values.len();
                    return Err(Refusal::new(format!(
                        "the statement has {count} parameters and params has {given} values"
                    )));
                }
                for (index, value) in values.iter().enumerate() {
                    statement.bind(index + 1, value.clone())?;
                }
                Ok(())
            }
            Parameters::Named(entries) => {
                let mut is_given = vec![false; count];
                for (name, value) in entries {
                    let bare = name.trim_start_matches([':', '@', '$', '?']);
                    let signs = [":", "@", "$", "?"];
                    let found = signs
                        .iter()
                        .find_map(|sign| statement.parameter_index(&format!("{sign}{bare}")));
                    let Some(index) = found else {
                        return Err(Refusal::new(format!("the statement has no parameter {name}"))
                            .hint("Parameters are written :name in SQL, and name in params"));
                    };
                    is_given[index - 1] = true;
                    statement.bind(index, value.clone())?;
                }
                match is_given.iter().position(|is_given| !is_given) {
                    None => Ok(()),
                    Some(place) => {
                        let name = statement.parameter_name(place + 1);
                        let name = name.map_or(format!("?{}", place + 1), str::to_owned);
                        Err(Refusal::new(format!("params gives no value for {name}")))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_without_loss_or_with_a_word_on_it() {
        let of = |value| shown(value, 8);
        assert_eq!(of(ValueRef::Int(1 << 53)), (json!(1_i64 << 53), false));
        assert_eq!(of(ValueRef::Int(i64::MIN)), (json!("-9223372036854775808"), false));
        assert_eq!(of(ValueRef::Real(f64::NEG_INFINITY)), (json!("-inf"), false));
        assert_eq!(of(ValueRef::Text(b"12345678")), (json!("12345678"), false));
        assert_eq!(of(ValueRef::Text("1234567é".as_bytes())), (json!("1234567…"), true));
        assert_eq!(of(ValueRef::Blob(&[0, 255])), (json!("x'00ff'"), false));
        assert_eq!(of(ValueRef::Blob(&[1; 9])), (json!("x'0101010101010101…' (9 bytes)"), true));
        assert_eq!(cut(&[0x80; 9], 6).len(), 2);
    }
}

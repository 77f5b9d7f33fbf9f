//! JSON as the reference's values.

/// A tree for the reference: strings are texts, numbers integers.
pub(crate) fn their_value(json: &serde_json::Value) -> automerge::hydrate::Value {
    use automerge::hydrate;
    match json {
        serde_json::Value::String(text) => {
            hydrate::Value::text(automerge::TextEncoding::UnicodeCodePoint, text)
        }
        serde_json::Value::Bool(value) => hydrate::Value::Scalar((*value).into()),
        serde_json::Value::Number(number) => {
            hydrate::Value::Scalar(automerge::ScalarValue::Int(number.as_i64().unwrap()))
        }
        serde_json::Value::Array(items) => {
            hydrate::Value::List(items.iter().map(their_value).collect::<Vec<_>>().into())
        }
        serde_json::Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| (key.as_str(), their_value(value)));
            let entries: std::collections::HashMap<&str, hydrate::Value> = entries.collect();
            hydrate::Value::Map(entries.into())
        }
        _ => hydrate::Value::Scalar(automerge::ScalarValue::Null),
    }
}

//! `--param NAME=VALUE`: values for the parameters of statements.

use shoal_sql::{Statement, Value};
use shoal_stdx::hex;

use crate::failure::Failure;

/// The values given on the command line, by name.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, Value)>);

impl Params {
    /// Reads each `NAME=VALUE`.
    pub(crate) fn parse(given: &[String]) -> Result<Self, Failure> {
        given
            .iter()
            .map(|text| {
                let (name, value) =
                    text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                        Failure::at("--param", format_args!("not of the form NAME=VALUE: {text}"))
                    })?;
                Ok((name.to_owned(), parse_value(value)))
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Gives a name a value. A name without a sigil stands for itself after any sigil.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.unset(name);
        self.0.push((name.to_owned(), value));
        self.0.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// Forgets a name.
    pub(super) fn unset(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Forgets all names.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The names and their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Binds the parameters of `statement` to the values known here by name; all others stay NULL,
    /// as in `sqlite3`.
    pub(crate) fn bind(&self, statement: &mut Statement) -> Result<(), shoal_sql::Error> {
        for (name, value) in &self.0 {
            if let Some(index) = index_of(statement, name) {
                statement.bind(index, value.clone())?;
            }
        }
        Ok(())
    }
}

fn index_of(statement: &Statement, name: &str) -> Option<usize> {
    if let Ok(number) = name.trim_start_matches('?').parse::<usize>() {
        return (1..=statement.parameter_count()).contains(&number).then_some(number);
    }
    if name.starts_with([':', '@', '$']) {
        return statement.parameter_index(name);
    }
    [":", "@", "$"].iter().find_map(|sigil| statement.parameter_index(&format!("{sigil}{name}")))
}

/// An integer, a real, `NULL`, `x'HEX'`, `'TEXT'`; anything else is a text as written.
fn parse_value(text: &str) -> Value {
    let quoted = |text: &str| {
        text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).map(str::to_owned)
    };
    if let Ok(value) = text.parse::<i64>() {
        return Value::Int(value);
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && let Ok(value) = text.parse::<f64>()
        && value.is_finite()
    {
        return Value::Real(value);
    }
    if text.eq_ignore_ascii_case("null") {
        return Value::Null;
    }
    if let Some(digits) = text.strip_prefix(['x', 'X']).and_then(quoted)
        && let Ok(bytes) = hex::decode(&digits)
    {
        return Value::Blob(bytes);
    }
    match quoted(text) {
        Some(inner) => Value::text(inner.replace("''", "'")),
        None => Value::text(text),
    }
}

#[cfg(test)]
mod tests {
    use shoal_sql::ValueRef;

    use super::*;

    #[test]
    fn values_by_their_form() {
        let check = |text: &str, expect: ValueRef<'_>| {
            assert_eq!(parse_value(text).as_ref(), expect, "{text}");
        };
        check("12", ValueRef::Int(12));
        check("-1.5e3", ValueRef::Real(-1500.0));
        check("9223372036854775808", ValueRef::Real(9_223_372_036_854_775_808.0));
        check("null", ValueRef::Null);
        check("x'00fF'", ValueRef::Blob(&[0, 255]));
        check("x'0'", ValueRef::Text(b"x'0'"));
        check("'12'", ValueRef::Text(b"12"));
        check("'it''s'", ValueRef::Text(b"it's"));
        check("Rock & Roll", ValueRef::Text(b"Rock & Roll"));
        check("infinity", ValueRef::Text(b"infinity"));
        check("", ValueRef::Text(b""));
    }

    #[test]
    fn a_pair_needs_a_name() {
        assert!(Params::parse(&["=1".to_owned()]).is_err());
        assert!(Params::parse(&["a".to_owned()]).is_err());
        assert!(Params::parse(&["a=".to_owned()]).is_ok());
    }
}

//! `.parameter`: values of the parameters of statements.

use std::io::Write;

use shoal_sql::{Error, Value};

use super::Command;
use crate::failure::Failure;
use crate::rows::literal::literal;
use crate::shell::session::Session;

/// `.parameter clear|init|list|set NAME VALUE|unset NAME`
pub(super) fn parameter(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    match words {
        ["clear"] => session.params.clear(),
        ["init"] => {}
        ["list"] => list(session)?,
        ["set", name, value] => {
            let value = evaluated(session, value).unwrap_or_else(|_| Value::text(*value));
            session.params.set(name, value);
        }
        ["unset", name] => session.params.unset(name),
        _ => return Err(command.misused()),
    }
    Ok(())
}

/// The value of an expression given as text.
fn evaluated(session: &mut Session, text: &str) -> Result<Value, Error> {
    let connection = &mut session.connection;
    let mut statement = connection.prepare(&format!("SELECT {text}"))?;
    if statement.column_count() != 1 {
        return Err(Error::Misuse { what: "a value is one expression" });
    }
    let mut rows = connection.query(&mut statement)?;
    let first = rows.next()?.map(|row| Value::from(row.get(0)));
    first.ok_or(Error::Misuse { what: "an expression has a value" })
}

fn list(session: &mut Session) -> std::io::Result<()> {
    let Session { params, out, .. } = session;
    let width = params.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in params.iter() {
        write!(out, "{name:<width$} ")?;
        literal(out, &value.as_ref())?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

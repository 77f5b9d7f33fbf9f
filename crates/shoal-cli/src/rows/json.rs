//! Rows as JSON. Blobs are lower-case hexadecimal; bytes of text outside UTF-8 are replaced;
//! infinite reals are written as numbers too large for a double, so they read back as infinite.

use std::io::{self, Write};

use shoal_sql::ValueRef;
use shoal_stdx::hex;

/// Writes `row` as an array.
pub(crate) fn array(out: &mut impl Write, row: &[ValueRef<'_>]) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, cell) in row.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        value(out, cell)?;
    }
    out.write_all(b"]")
}

/// Writes `row` as an object whose members are named by `headings`.
pub(crate) fn object(
    out: &mut impl Write,
    headings: &[String],
    row: &[ValueRef<'_>],
) -> io::Result<()> {
    out.write_all(b"{")?;
    for (index, (name, cell)) in headings.iter().zip(row).enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, name)?;
        out.write_all(b":")?;
        value(out, cell)?;
    }
    out.write_all(b"}")
}

fn value(out: &mut impl Write, value: &ValueRef<'_>) -> io::Result<()> {
    match *value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Int(value) => write!(out, "{value}"),
        ValueRef::Real(value) if value == f64::INFINITY => out.write_all(b"9e999"),
        ValueRef::Real(value) if value == f64::NEG_INFINITY => out.write_all(b"-9e999"),
        ValueRef::Real(value) => Ok(serde_json::to_writer(out, &value)?),
        ValueRef::Text(bytes) => Ok(serde_json::to_writer(out, &String::from_utf8_lossy(bytes))?),
        ValueRef::Blob(bytes) => write!(out, "\"{}\"", hex::encode(bytes)),
    }
}

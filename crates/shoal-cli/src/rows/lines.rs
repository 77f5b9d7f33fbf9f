//! The modes of `sqlite3` printing each row at once: separated values, SQL, HTML, one line a
//! column, JSON.

use std::io::{self, Write};

use shoal_sql::{ValueRef, real_to_text, real_to_text_15};

use super::literal::{identifier, literal, literal_on_a_line};
use super::style::{Mode, Style};

/// The text of a value as `sqlite3` takes one from a C string: up to its first NUL. Reals have 15
/// significant digits.
pub(super) fn c_text(value: &ValueRef<'_>, null: &str) -> Vec<u8> {
    let mut text = match *value {
        ValueRef::Null => return null.as_bytes().to_vec(),
        ValueRef::Int(value) => value.to_string().into_bytes(),
        ValueRef::Real(value) => real_to_text_15(value).into_bytes(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
    };
    if let Some(end) = text.iter().position(|byte| *byte == 0) {
        text.truncate(end);
    }
    text
}

/// Prints the names of the columns, where the mode and the settings want them.
pub(super) fn heading(out: &mut impl Write, style: &Style, names: &[String]) -> io::Result<()> {
    if !style.headers {
        return Ok(());
    }
    match style.mode {
        Mode::List | Mode::Ascii => {
            separated(out, style, names, |out, name| out.write_all(name.as_bytes()))
        }
        Mode::Csv => separated(out, style, names, |out, name| {
            csv_cell(out, name.as_bytes(), &style.column_separator)
        }),
        Mode::Tcl => separated(out, style, names, |out, name| c_string(out, name.as_bytes())),
        Mode::Quote => {
            separated(out, style, names, |out, name| literal(out, &ValueRef::Text(name.as_bytes())))
        }
        Mode::Html => html_row(out, "TH", names.iter().map(|name| name.as_bytes().to_vec())),
        _ => Ok(()),
    }
}

/// Prints row number `count`, counted from 0.
pub(super) fn row(
    out: &mut impl Write,
    style: &Style,
    names: &[String],
    row: &[ValueRef<'_>],
    count: u64,
) -> io::Result<()> {
    match style.mode {
        Mode::Csv => separated(out, style, row, |out, value| match value {
            ValueRef::Null => out.write_all(style.null.as_bytes()),
            value => csv_cell(out, &c_text(value, ""), &style.column_separator),
        }),
        Mode::Tcl => {
            separated(out, style, row, |out, value| c_string(out, &c_text(value, &style.null)))
        }
        Mode::Quote => separated(out, style, row, |out, value| match value {
            // Infinite reals print as in sqlite3's quote(), although no literal reads them back.
            ValueRef::Real(value) if value.is_infinite() => {
                out.write_all(if *value > 0.0 { b"Inf" } else { b"-Inf" })
            }
            value => literal(out, value),
        }),
        Mode::Html => html_row(out, "TD", row.iter().map(|value| c_text(value, &style.null))),
        Mode::Insert => insert(out, style, names, row),
        Mode::Line => {
            if count > 0 {
                out.write_all(style.row_separator.as_bytes())?;
            }
            let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(5);
            for (name, value) in names.iter().zip(row) {
                write!(out, "{name:>width$} = ")?;
                out.write_all(&c_text(value, &style.null))?;
                out.write_all(style.row_separator.as_bytes())?;
            }
            Ok(())
        }
        Mode::Json => {
            out.write_all(if count == 0 { b"[{" } else { b",\n{" })?;
            for (place, (name, value)) in names.iter().zip(row).enumerate() {
                if place > 0 {
                    out.write_all(b",")?;
                }
                json_text(out, name.as_bytes())?;
                out.write_all(b":")?;
                json_value(out, value)?;
            }
            out.write_all(b"}")
        }
        _ => separated(out, style, row, |out, value| out.write_all(&c_text(value, &style.null))),
    }
}

/// Ends the rows of a statement after `count` of them.
pub(super) fn end(out: &mut impl Write, style: &Style, count: u64) -> io::Result<()> {
    if style.mode == Mode::Json && count > 0 { out.write_all(b"]\n") } else { Ok(()) }
}

fn separated<W: Write, T>(
    out: &mut W,
    style: &Style,
    cells: &[T],
    mut cell: impl FnMut(&mut W, &T) -> io::Result<()>,
) -> io::Result<()> {
    for (place, value) in cells.iter().enumerate() {
        if place > 0 {
            out.write_all(style.column_separator.as_bytes())?;
        }
        cell(out, value)?;
    }
    out.write_all(style.row_separator.as_bytes())
}

/// Quotes every text with anything but plain ASCII without blanks and quotes, and the empty text:
/// an empty text is not NULL.
fn csv_cell(out: &mut impl Write, text: &[u8], separator: &str) -> io::Result<()> {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'');
    let separator = separator.as_bytes();
    let holds_separator =
        !separator.is_empty() && text.windows(separator.len()).any(|part| part == separator);
    if !text.is_empty() && text.iter().all(plain) && !holds_separator {
        return out.write_all(text);
    }
    out.write_all(b"\"")?;
    for byte in text {
        out.write_all(if *byte == b'"' { b"\"\"" } else { std::slice::from_ref(byte) })?;
    }
    out.write_all(b"\"")
}

/// Writes bytes as a C string literal, also valid in Tcl.
pub(crate) fn c_string(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    for byte in text {
        match byte {
            b'\\' => out.write_all(b"\\\\")?,
            b'"' => out.write_all(b"\\\"")?,
            b'\t' => out.write_all(b"\\t")?,
            b'\n' => out.write_all(b"\\n")?,
            b'\r' => out.write_all(b"\\r")?,
            b' '..=b'~' => out.write_all(std::slice::from_ref(byte))?,
            byte => write!(out, "\\{byte:03o}")?,
        }
    }
    out.write_all(b"\"")
}

fn html_row(
    out: &mut impl Write,
    tag: &str,
    cells: impl Iterator<Item = Vec<u8>>,
) -> io::Result<()> {
    out.write_all(b"<TR>")?;
    for cell in cells {
        write!(out, "<{tag}>")?;
        for byte in &cell {
            match byte {
                b'<' => out.write_all(b"&lt;")?,
                b'>' => out.write_all(b"&gt;")?,
                b'&' => out.write_all(b"&amp;")?,
                b'"' => out.write_all(b"&quot;")?,
                b'\'' => out.write_all(b"&#39;")?,
                byte => out.write_all(std::slice::from_ref(byte))?,
            }
        }
        writeln!(out, "</{tag}>")?;
    }
    out.write_all(b"</TR>\n")
}

fn insert(
    out: &mut impl Write,
    style: &Style,
    names: &[String],
    row: &[ValueRef<'_>],
) -> io::Result<()> {
    write!(out, "INSERT INTO {}", identifier(&style.table))?;
    if style.headers {
        let names: Vec<String> = names.iter().map(|name| identifier(name)).collect();
        write!(out, "({})", names.join(","))?;
    }
    out.write_all(b" VALUES(")?;
    for (place, value) in row.iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        literal_on_a_line(out, value)?;
    }
    out.write_all(b");\n")
}

fn json_value(out: &mut impl Write, value: &ValueRef<'_>) -> io::Result<()> {
    match *value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Int(value) => write!(out, "{value}"),
        ValueRef::Real(value) if value == f64::INFINITY => out.write_all(b"1e999"),
        ValueRef::Real(value) if value == f64::NEG_INFINITY => out.write_all(b"-1e999"),
        ValueRef::Real(value) => out.write_all(real_to_text(value).as_bytes()),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => json_text(out, bytes),
    }
}

/// Bytes as a JSON string, blobs included; bytes outside UTF-8 stay unchanged.
fn json_text(out: &mut impl Write, text: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    for byte in text {
        match byte {
            b'"' => out.write_all(b"\\\"")?,
            b'\\' => out.write_all(b"\\\\")?,
            8 => out.write_all(b"\\b")?,
            12 => out.write_all(b"\\f")?,
            b'\n' => out.write_all(b"\\n")?,
            b'\r' => out.write_all(b"\\r")?,
            b'\t' => out.write_all(b"\\t")?,
            0..=31 => write!(out, "\\u{byte:04x}")?,
            byte => out.write_all(std::slice::from_ref(byte))?,
        }
    }
    out.write_all(b"\"")
}

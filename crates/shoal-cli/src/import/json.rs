//! Rows of JSON objects: one a line, one after another, or in an array.

use std::collections::HashMap;
use std::io::BufRead;

use serde::de::IgnoredAny;
use shoal_sql::ValueRef;

use super::Rows;
use super::cells::NotThatType;
use super::target::Column;
use crate::failure::Failure;

/// A member's value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Real(f64),
    /// A string; or the text of an array or an object, unchanged.
    Text(String),
}

/// Objects, one after another.
pub(super) struct Objects<'r> {
    place: String,
    input: Box<dyn BufRead + 'r>,
    text: Vec<u8>,
    /// The line of the next byte.
    next_line: u64,
    object_line: u64,
    in_array: bool,
}

impl<'r> Objects<'r> {
    pub(super) fn new(place: &str, input: Box<dyn BufRead + 'r>) -> Objects<'r> {
        let place = place.to_owned();
        Objects { place, input, text: Vec::new(), next_line: 1, object_line: 1, in_array: false }
    }

    fn wrong(&self, why: impl std::fmt::Display) -> Failure {
        Failure::at(&self.place, format_args!("line {}: {why}", self.object_line))
    }

    /// Reads the next object, and gives its members to `member` in their order; false at the end.
    /// An unfinished object at the end of the input is an error; with `cut` the object is left out.
    pub(super) fn next(
        &mut self,
        cut: bool,
        mut member: impl FnMut(&str, Cell) -> Result<(), String>,
    ) -> Result<bool, Failure> {
        if !self.find()? {
            return Ok(false);
        }
        if !self.take(cut)? {
            return Ok(false);
        }
        let text = std::mem::take(&mut self.text);
        let parsed = members(&text, &mut member);
        self.text = text;
        match parsed {
            Ok(()) => Ok(true),
            Err(why) => Err(self.wrong(why)),
        }
    }

    /// Passes over blanks, brackets and commas between objects; false at the end.
    fn find(&mut self) -> Result<bool, Failure> {
        loop {
            let bytes = self.input.fill_buf().map_err(|error| Failure::at(&self.place, error))?;
            let Some(&byte) = bytes.first() else { return Ok(false) };
            self.object_line = self.next_line;
            match byte {
                b'{' => return Ok(true),
                b'\n' => self.next_line += 1,
                b' ' | b'\t' | b'\r' | b',' => {}
                b'[' if !self.in_array => self.in_array = true,
                b']' if self.in_array => self.in_array = false,
                _ => return Err(self.wrong("a row is a JSON object")),
            }
            self.input.consume(1);
        }
    }

    /// Takes the text of an object up to its closing brace.
    fn take(&mut self, cut: bool) -> Result<bool, Failure> {
        self.text.clear();
        let (mut depth, mut in_string, mut escaped) = (0_u64, false, false);
        loop {
            let bytes = self.input.fill_buf().map_err(|error| Failure::at(&self.place, error))?;
            if bytes.is_empty() {
                return if cut {
                    Ok(false)
                } else {
                    Err(self.wrong("an object that does not end"))
                };
            }
            let mut end = None;
            for (place, byte) in bytes.iter().enumerate() {
                match byte {
                    b'\n' => self.next_line += 1,
                    _ if escaped => escaped = false,
                    b'\\' if in_string => escaped = true,
                    b'"' => in_string = !in_string,
                    b'{' if !in_string => depth += 1,
                    b'}' if !in_string => {
                        depth -= 1;
                        if depth == 0 {
                            end = Some(place + 1);
                            break;
                        }
                    }
                    _ => {}
                }
            }
            let taken = end.unwrap_or(bytes.len());
            self.text.extend_from_slice(&bytes[..taken]);
            self.input.consume(taken);
            if self.text.len() > OBJECT_MAX {
                return Err(self.wrong(format_args!("an object of more than {OBJECT_MAX} bytes")));
            }
            if end.is_some() {
                return Ok(true);
            }
        }
    }
}

/// Most bytes of one object: SQLite's bound on a row.
const OBJECT_MAX: usize = 1_000_000_000;

/// Takes an object apart.
fn members(
    text: &[u8],
    member: &mut impl FnMut(&str, Cell) -> Result<(), String>,
) -> Result<(), String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?;
    let json = |error: serde_json::Error| format!("not JSON: {error}");
    // One check of the whole object lets the splitting below assume valid JSON.
    serde_json::from_str::<IgnoredAny>(text).map_err(json)?;
    let mut rest = text[1..].trim_start();
    while !rest.starts_with('}') {
        let end = value_end(rest);
        let key: String = serde_json::from_str(&rest[..end]).map_err(json)?;
        rest = rest[end..].trim_start();
        rest = rest.strip_prefix(':').ok_or("not JSON: a member without a colon")?.trim_start();
        let end = value_end(rest);
        member(&key, cell(rest[..end].trim_end()).map_err(json)?)?;
        rest = rest[end..].trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Ok(())
}

/// Where the value at the start of `text` ends.
fn value_end(text: &str) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (place, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    if depth == 0 {
                        return place + 1;
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return place + 1;
                }
            }
            b',' | b'}' | b']' | b':' if depth == 0 => return place,
            _ => {}
        }
    }
    text.len()
}

fn cell(text: &str) -> Result<Cell, serde_json::Error> {
    Ok(match text.as_bytes().first() {
        Some(b'"') => Cell::Text(serde_json::from_str(text)?),
        Some(b'{' | b'[') => Cell::Text(text.to_owned()),
        Some(b't') => Cell::Int(1),
        Some(b'f') => Cell::Int(0),
        Some(b'n') | None => Cell::Null,
        Some(_) => match text.parse() {
            Ok(value) => Cell::Int(value),
            Err(_) => Cell::Real(serde_json::from_str(text)?),
        },
    })
}

/// Objects read as rows.
pub(super) struct JsonRows<'r> {
    objects: Objects<'r>,
    columns: HashMap<String, usize>,
    cells: Vec<Cell>,
}

impl<'r> JsonRows<'r> {
    /// Columns take the members of their names, in any case.
    pub(super) fn open(place: &str, input: Box<dyn BufRead + 'r>, names: Vec<String>) -> Self {
        let cells = vec![Cell::Null; names.len()];
        let names = names.into_iter().map(|name| name.to_ascii_lowercase());
        let columns = names.enumerate().map(|(column, name)| (name, column)).collect();
        JsonRows { objects: Objects::new(place, input), columns, cells }
    }
}

impl Rows for JsonRows<'_> {
    fn next(&mut self) -> Result<bool, Failure> {
        let Self { objects, columns, cells } = self;
        cells.fill(Cell::Null);
        objects.next(false, |name, cell| {
            let known = columns.get(name).or_else(|| columns.get(&name.to_ascii_lowercase()));
            let Some(column) = known else {
                return Err(format!("no column for the member {name:?}"));
            };
            cells[*column] = cell;
            Ok(())
        })
    }

    fn line(&self) -> u64 {
        self.objects.object_line
    }

    fn length(&self) -> Option<usize> {
        None
    }

    fn cell(&self, column: usize, _: &Column) -> Result<ValueRef<'_>, NotThatType> {
        Ok(match &self.cells[column] {
            Cell::Null => ValueRef::Null,
            Cell::Int(value) => ValueRef::Int(*value),
            Cell::Real(value) => ValueRef::Real(*value),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Vec<(String, Cell)>>, Failure> {
        let mut objects = Objects::new("-", Box::new(text.as_bytes()));
        let mut rows = Vec::new();
        loop {
            let mut row = Vec::new();
            let more = objects.next(false, |name, cell| {
                row.push((name.to_owned(), cell));
                Ok(())
            })?;
            if !more {
                return Ok(rows);
            }
            rows.push(row);
        }
    }

    #[test]
    fn lines_arrays_and_what_stands_between() {
        let expect = [
            vec![("a".to_owned(), Cell::Int(1)), ("b".to_owned(), Cell::Text("x}\"\n".to_owned()))],
            vec![],
        ];
        for text in [
            "{\"a\":1,\"b\":\"x}\\\"\\n\"}\n{}\n",
            "[ {\"a\" : 1 , \"b\" : \"x}\\\"\\n\" },\n {} ]",
            "{\"a\":1,\"b\":\"x}\\\"\\u000a\"}{}",
        ] {
            assert_eq!(read(text).unwrap(), expect, "{text}");
        }
        assert_eq!(read("").unwrap(), Vec::<Vec<_>>::new());
        assert_eq!(read("[]").unwrap(), Vec::<Vec<_>>::new());
    }

    #[test]
    fn values_of_every_kind() {
        let row = &read("{\"n\":null,\"t\":true,\"r\":-1.5e3,\"l\":[1, {\"x\":\"]\"}],\"o\":{},\"u\":18446744073709551615}")
            .unwrap()[0];
        let cells: Vec<Cell> = row.iter().map(|(_, cell)| cell.clone()).collect();
        assert_eq!(
            cells,
            [
                Cell::Null,
                Cell::Int(1),
                Cell::Real(-1500.0),
                Cell::Text("[1, {\"x\":\"]\"}]".to_owned()),
                Cell::Text("{}".to_owned()),
                Cell::Real(18_446_744_073_709_551_615.0),
            ]
        );
    }

    #[test]
    fn what_is_no_object_is_named_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = read(text).unwrap_err().sentence;
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("{}\n\n7", "line 3: a row is a JSON object");
        check("{}\n{\"a\":", "line 2: an object that does not end");
        check("{\"a\" 1}", "line 1: not JSON");
        check("{\"a\":tru}", "not JSON");
        check("{\"a\":1,}", "not JSON");
        check("{,}", "not JSON");
        check("[[{}]]", "a row is a JSON object");
        let deep = format!("{{\"a\":{}", "[".repeat(10_000));
        check(&format!("{deep}}}"), "not JSON");
        check(&deep, "does not end");
    }
}

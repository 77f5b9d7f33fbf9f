//! JSON paths: `.key`, `."key"`, `[7]`, `[#-1]` after the `$`.

use super::binary::{Child, DEPTH_MAX, Found, child, same_label};
use super::text::{Kind, array_length, element_end, kind, skip_space, string_end};
use super::{bad_path, path_error};
use crate::Error;

/// Why a path cannot be followed.
#[derive(Debug)]
pub(super) enum Fault {
    /// Malformed path, as far as followed.
    Path,
    /// The path names no item of an array, as making room there demands.
    NotItem,
    TooDeep,
    /// Malformed JSON under the path.
    Json(Error),
}

impl Fault {
    pub(super) fn of(self, path: &[u8]) -> Error {
        match self {
            Fault::Path => bad_path(path),
            Fault::NotItem => path_error("not an array element", path),
            Fault::TooDeep => Error::runtime("JSON path too deep"),
            Fault::Json(error) => error,
        }
    }
}

/// Follows a path from a checked element of a text; `None` where the path leads nowhere, and then
/// the rest of the path was not read, as in SQLite. Cost: one walk over the text before the
/// element.
pub(super) fn lookup<'a>(root: &'a [u8], path: &[u8]) -> Result<Option<&'a [u8]>, Fault> {
    let mut element = root;
    let mut rest = path;
    let mut depth = 0;
    while !rest.is_empty() {
        // The index between brackets is only read for an array.
        if rest[0] == b'[' && kind(element) != Kind::Array {
            return Ok(None);
        }
        let (step, after) = step(rest).ok_or(Fault::Path)?;
        let child = match step {
            Step::Key(key) => member(element, &key),
            Step::Index(index) => item(element, index),
            Step::FromEnd(back) => {
                let length = array_length(element);
                length.checked_sub(back).and_then(|index| item(element, index))
            }
        };
        let Some(child) = child else { return Ok(None) };
        depth += 1;
        if depth >= DEPTH_MAX {
            return Err(Fault::TooDeep);
        }
        element = child;
        rest = after;
    }
    Ok(Some(element))
}

/// As [`lookup`] in JSONB, with places as the result.
pub(super) fn locate(blob: &[u8], path: &[u8]) -> Result<Option<Child>, Fault> {
    let mut here = Child { label: None, at: 0 };
    let mut rest = path;
    let mut depth = 0;
    while !rest.is_empty() {
        if rest[0] == b'[' && !super::binary::is_array(blob, here.at) {
            return Ok(None);
        }
        let (step, after) = step(rest).ok_or(Fault::Path)?;
        match child(blob, here.at, &step).map_err(Fault::Json)? {
            Found::Child(child) => here = child,
            _ => return Ok(None),
        }
        depth += 1;
        if depth >= DEPTH_MAX {
            return Err(Fault::TooDeep);
        }
        rest = after;
    }
    Ok(Some(here))
}

#[derive(Debug)]
pub(super) enum Step<'p> {
    Key(Key<'p>),
    Index(usize),
    /// This many places before the end.
    FromEnd(usize),
}

/// A label in the spelling of a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key<'p> {
    pub(super) text: &'p [u8],
    /// True where there are escapes to undo.
    pub(super) escaped: bool,
}

/// The step at the front, and the path behind; `None` where there is none.
pub(super) fn step(path: &[u8]) -> Option<(Step<'_>, &[u8])> {
    match path.first() {
        Some(b'.') => key_step(&path[1..]),
        Some(b'[') => index_step(&path[1..]),
        _ => None,
    }
}

/// The key at the front, quoted or not, and the path behind.
fn key_step(path: &[u8]) -> Option<(Step<'_>, &[u8])> {
    if path.first() == Some(&b'"') {
        let mut end = 1;
        while *path.get(end)? != b'"' {
            end += if path[end] == b'\\' && end + 1 < path.len() { 2 } else { 1 };
        }
        let text = &path[1..end];
        let key = Key { text, escaped: text.contains(&b'\\') };
        return Some((Step::Key(key), &path[end + 1..]));
    }
    let end = path.iter().position(|byte| matches!(byte, b'.' | b'[')).unwrap_or(path.len());
    let key = Key { text: &path[..end], escaped: false };
    (end > 0).then(|| (Step::Key(key), &path[end..]))
}

/// The index at the front, past its bracket, and the path behind the closing bracket.
fn index_step(path: &[u8]) -> Option<(Step<'_>, &[u8])> {
    // A number too large for any array stays too large.
    let number = |digits: &[u8]| {
        digits.iter().fold(0usize, |number, digit| {
            number.saturating_mul(10).saturating_add(usize::from(digit - b'0'))
        })
    };
    let digits = |from: usize| path[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let count = digits(0);
    let (step, end) = if count > 0 {
        (Step::Index(number(&path[..count])), count)
    } else if path.starts_with(b"#-") && digits(2) > 0 {
        let count = digits(2);
        (Step::FromEnd(number(&path[2..2 + count])), 2 + count)
    } else if path.starts_with(b"#") {
        (Step::FromEnd(0), 1)
    } else {
        return None;
    };
    (path.get(end) == Some(&b']')).then(|| (step, &path[end + 1..]))
}

/// The value of the first member called `key`.
fn member<'a>(object: &'a [u8], key: &Key<'_>) -> Option<&'a [u8]> {
    if kind(object) != Kind::Object {
        return None;
    }
    let mut pos = skip_space(object, 1);
    while object.get(pos) == Some(&b'"') {
        let end = string_end(object, pos);
        let label = &object[pos + 1..end - 1];
        let value = skip_space(object, skip_space(object, end) + 1);
        let value_end = element_end(object, value);
        if same_label(key.text, !key.escaped, label, !label.contains(&b'\\')) {
            return Some(&object[value..value_end]);
        }
        pos = skip_space(object, skip_space(object, value_end) + 1);
    }
    None
}

/// The element at an index.
fn item(array: &[u8], index: usize) -> Option<&[u8]> {
    let mut pos = skip_space(array, 1);
    for _ in 0..index {
        if matches!(array.get(pos), None | Some(b']')) {
            return None;
        }
        pos = skip_space(array, element_end(array, pos));
        if array.get(pos) != Some(&b',') {
            return None;
        }
        pos = skip_space(array, pos + 1);
    }
    match array.get(pos) {
        None | Some(b']') => None,
        Some(_) => Some(&array[pos..element_end(array, pos)]),
    }
}

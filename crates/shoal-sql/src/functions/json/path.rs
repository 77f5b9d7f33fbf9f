//! JSON paths: `.key`, `."key"`, `[7]`, `[#-1]` after the `$`.

use super::text::{Kind, array_length, element_end, kind, skip_space, string_end, unescape};

/// Where a path leads.
#[derive(Debug, PartialEq)]
pub(super) enum Lookup<'a> {
    /// To this element, as written.
    Found(&'a [u8]),
    /// Nowhere. The rest of the path was not looked at, as in SQLite.
    Missing,
    /// The path is none, as far as it was followed.
    BadPath,
}

/// Follows a path from a checked element. Cost: one walk over the text before the element.
pub(super) fn lookup<'a>(root: &'a [u8], path: &[u8]) -> Lookup<'a> {
    let mut element = root;
    let mut rest = path;
    while let Some(&first) = rest.first() {
        let (step, after) = match first {
            b'.' => match key_step(&rest[1..]) {
                Some(step) => step,
                None => return Lookup::BadPath,
            },
            // What stands between the brackets is only read where there is an array.
            b'[' if kind(element) != Kind::Array => return Lookup::Missing,
            b'[' => match index_step(&rest[1..]) {
                Some(step) => step,
                None => return Lookup::BadPath,
            },
            _ => return Lookup::BadPath,
        };
        let child = match step {
            Step::Key(key) => member(element, &key),
            Step::Index(index) => item(element, index),
            Step::FromEnd(back) => {
                let length = array_length(element);
                length.checked_sub(back).and_then(|index| item(element, index))
            }
        };
        let Some(child) = child else { return Lookup::Missing };
        element = child;
        rest = after;
    }
    Lookup::Found(element)
}

pub(super) enum Step {
    Key(Vec<u8>),
    Index(usize),
    /// So many places before the end.
    FromEnd(usize),
}

/// The key at the front, quoted or not, and what follows it.
pub(super) fn key_step(path: &[u8]) -> Option<(Step, &[u8])> {
    if path.first() == Some(&b'"') {
        let mut end = 1;
        while *path.get(end)? != b'"' {
            end += if path[end] == b'\\' && end + 1 < path.len() { 2 } else { 1 };
        }
        return Some((Step::Key(unescape(&path[1..end])), &path[end + 1..]));
    }
    let end = path.iter().position(|byte| matches!(byte, b'.' | b'[')).unwrap_or(path.len());
    (end > 0).then(|| (Step::Key(path[..end].to_vec()), &path[end..]))
}

/// The index at the front, past its bracket, and what follows the closing one.
pub(super) fn index_step(path: &[u8]) -> Option<(Step, &[u8])> {
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

/// The value of the first member with that key.
fn member<'a>(object: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    if kind(object) != Kind::Object {
        return None;
    }
    let mut pos = skip_space(object, 1);
    while object.get(pos) == Some(&b'"') {
        let end = string_end(object, pos);
        let label = &object[pos + 1..end - 1];
        let value = skip_space(object, skip_space(object, end) + 1);
        let value_end = element_end(object, value);
        let same = if label.contains(&b'\\') { unescape(label) == key } else { label == key };
        if same {
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

//! The rows of `json_each` and `json_tree`.

use super::binary::{ARRAY, OBJECT, TEXT, TEXT_RAW, bounds, is_array, text_value, to_value};
use super::path::{locate, step};
use super::{argument, bad_path, malformed, path_text};
use crate::Error;
use crate::value::{Affinity, Value, utf8};

/// The depth of a walk, and the form of arrays and objects in its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Visits an element and all elements within, not only the members.
    pub(crate) deep: bool,
    /// As JSONB, not as text.
    pub(crate) blob: bool,
}

/// The rows: `key`, `value`, `type`, `atom`, `id`, `parent`, `fullkey`, `path`.
///
/// An `id` is the element's place in the JSONB of the whole, as in SQLite.
///
/// # Errors
/// Malformed JSON, or a malformed path.
pub(crate) fn walk(
    walk: Walk,
    json: &Value,
    path: Option<&Value>,
) -> Result<Vec<Vec<Value>>, Error> {
    let Some(blob) = argument(std::slice::from_ref(json))? else { return Ok(Vec::new()) };
    let path = match path {
        None => b"$".to_vec(),
        Some(path) => match path_text(path) {
            Some(path) => path.into_owned(),
            None => return Ok(Vec::new()),
        },
    };
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
    let Some(found) = locate(&blob, steps).map_err(|_| bad_path(&path))? else {
        return Ok(Vec::new());
    };
    let root = Place { id: found.label.unwrap_or(found.at), at: found.at };
    let (kind, ..) = bounds(&blob, root.at)?;
    let mut rows = Rows { walk, blob: &blob, out: Vec::new() };
    if walk.deep {
        let outer = outer_path(&blob, &path, root.id);
        rows.push(root_key(&path[outer..]), root, None, &path, &path[..outer])?;
        rows.members(root, Some(root.id), &path)?;
    } else if matches!(kind, ARRAY | OBJECT) {
        rows.members(root, None, &path)?;
    } else {
        rows.push(Value::Null, root, None, &path, &path)?;
    }
    Ok(rows.out)
}

/// The length of the part of an element's path leading to the element's surroundings. As in SQLite:
/// the longest prefix naming an array or object whose first member is the element, or else the `$`.
fn outer_path(blob: &[u8], path: &[u8], id: usize) -> usize {
    let mut outer = 1;
    let mut length = 1;
    while let Some((_, rest)) = step(&path[length..]) {
        let around = locate(blob, &path[1..length]).ok().flatten();
        let first = around.and_then(|around| bounds(blob, around.at).ok());
        if first.is_some_and(|(_, first, _)| first == id) {
            outer = length;
        }
        length = path.len() - rest.len();
    }
    if path.len() == 1 { path.len() } else { outer }
}

/// The key of the element a walk begins at, taken from the last part of the path.
fn root_key(last: &[u8]) -> Value {
    match last {
        b"" => Value::Null,
        [b'[', digits @ ..] => {
            crate::value::cast(Value::Text(digits.to_vec()).as_ref(), Affinity::Integer)
        }
        [_, b'"', inner @ .., b'"'] => Value::Text(inner.to_vec()),
        [_, plain @ ..] => Value::Text(plain.to_vec()),
    }
}

/// The position of an element.
#[derive(Clone, Copy)]
struct Place {
    /// Where the entry begins: at the label, for a member of an object.
    id: usize,
    /// Where the element itself begins.
    at: usize,
}

struct Rows<'b> {
    walk: Walk,
    blob: &'b [u8],
    out: Vec<Vec<Value>>,
}

impl Rows<'_> {
    fn members(&mut self, around: Place, parent: Option<usize>, path: &[u8]) -> Result<(), Error> {
        let (kind, mut place, end) = bounds(self.blob, around.at)?;
        if !matches!(kind, ARRAY | OBJECT) {
            return Ok(());
        }
        let mut index = 0;
        while place < end {
            let mut full = path.to_vec();
            let (key, at) = if is_array(self.blob, around.at) {
                full.extend_from_slice(format!("[{index}]").as_bytes());
                (Value::Int(index), place)
            } else {
                let (label_kind, label, at) = bounds(self.blob, place)?;
                if !(TEXT..=TEXT_RAW).contains(&label_kind) {
                    return Err(malformed());
                }
                let label = &self.blob[label..at];
                push_label(utf8::to_nul(label), &mut full);
                (Value::Text(text_value(label_kind, label).into_owned()), at)
            };
            let member = Place { id: place, at };
            (_, _, place) = bounds(self.blob, at)?;
            index += 1;
            self.push(key, member, parent, &full, path)?;
            if self.walk.deep {
                self.members(member, Some(member.id), &full)?;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        key: Value,
        place: Place,
        parent: Option<usize>,
        full: &[u8],
        path: &[u8],
    ) -> Result<(), Error> {
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let (kind, _, end) = bounds(self.blob, place.at)?;
        let value = to_value(&self.blob[place.at..end], self.walk.blob)?;
        let container = matches!(kind, ARRAY | OBJECT);
        self.out.push(vec![
            key,
            value.clone(),
            super::kind_name(kind).into(),
            if container { Value::Null } else { value },
            int(place.id),
            parent.map_or(Value::Null, int),
            Value::Text(full.to_vec()),
            Value::Text(path.to_vec()),
        ]);
        Ok(())
    }
}

/// Appends a label in SQLite's spelling for paths: escapes stay as written.
fn push_label(label: &[u8], path: &mut Vec<u8>) {
    let plain = label.first().is_some_and(u8::is_ascii_alphabetic)
        && label.iter().all(u8::is_ascii_alphanumeric);
    path.push(b'.');
    if plain {
        path.extend_from_slice(label);
    } else {
        path.push(b'"');
        path.extend_from_slice(label);
        path.push(b'"');
    }
}

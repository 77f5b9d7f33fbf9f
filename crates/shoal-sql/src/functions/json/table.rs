//! The rows of `json_each` and `json_tree`.

use super::binary::{ARRAY, OBJECT, TEXT, TEXT_RAW, bounds, text_value, to_value};
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

/// Columns of the rows by their places.
const KEY: usize = 0;
const VALUE: usize = 1;
const TYPE: usize = 2;
const ATOM: usize = 3;
const ID: usize = 4;
const PARENT: usize = 5;
const FULLKEY: usize = 6;
const PATH: usize = 7;

/// The rows on their way: `key`, `value`, `type`, `atom`, `id`, `parent`, `fullkey`, `path`.
///
/// An `id` is the element's place in the JSONB of the whole, as in SQLite. A row costs what its
/// columns in use cost.
#[derive(Debug)]
pub(crate) struct Elements {
    walk: Walk,
    blob: Vec<u8>,
    /// The path of the element given last, where paths are in use.
    path: Vec<u8>,
    /// The element the walk begins at, until its row is given.
    root: Option<Place>,
    /// Arrays and objects around the next element, the innermost last.
    around: Vec<Container>,
    /// Columns in use.
    used: [bool; 8],
}

/// An array or an object being walked through.
#[derive(Debug)]
struct Container {
    /// Where the next member begins, and where the last one ends.
    next: usize,
    end: usize,
    is_array: bool,
    /// Number of members given.
    given: i64,
    /// The container's `id`, for the `parent` of its members.
    id: Option<usize>,
    /// The length of the container's own path.
    path: usize,
}

/// The elements of a JSON value from a path on.
///
/// # Errors
/// Malformed JSON, or a malformed path.
pub(crate) fn elements(
    walk: Walk,
    json: &Value,
    path: Option<&Value>,
) -> Result<Option<Elements>, Error> {
    let Some(blob) = argument(std::slice::from_ref(json))? else { return Ok(None) };
    let path = match path {
        None => b"$".to_vec(),
        Some(path) => match path_text(path) {
            Some(path) => path.into_owned(),
            None => return Ok(None),
        },
    };
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
    let Some(found) = locate(&blob, steps).map_err(|_| bad_path(&path))? else {
        return Ok(None);
    };
    let root = Some(Place { id: found.label.unwrap_or(found.at), at: found.at });
    let blob = blob.into_owned();
    Ok(Some(Elements { walk, blob, path, root, around: Vec::new(), used: [true; 8] }))
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
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where the entry begins: at the label, for a member of an object.
    id: usize,
    /// Where the element itself begins.
    at: usize,
}

impl Elements {
    /// Leaves NULL in all columns but these.
    pub(crate) fn only(&mut self, columns: &[usize]) {
        self.used = [false; 8];
        for column in columns {
            if let Some(used) = self.used.get_mut(*column) {
                *used = true;
            }
        }
    }

    /// Appends the next row; false behind the last.
    ///
    /// # Errors
    /// Malformed JSONB.
    pub(crate) fn next(&mut self, row: &mut Vec<Value>) -> Result<bool, Error> {
        if let Some(root) = self.root.take()
            && self.begin(root, row)?
        {
            return Ok(true);
        }
        while let Some(container) = self.around.last_mut() {
            if container.next >= container.end {
                self.around.pop();
                continue;
            }
            let id = container.next;
            let index = container.given;
            let (mut label, mut at) = (None, id);
            if !container.is_array {
                let (kind, start, end) = bounds(&self.blob, id)?;
                if !(TEXT..=TEXT_RAW).contains(&kind) {
                    return Err(malformed());
                }
                label = Some((kind, start, end));
                at = end;
            }
            (_, _, container.next) = bounds(&self.blob, at)?;
            container.given += 1;
            let (path, parent) = (container.path, container.id);
            if self.used[FULLKEY] || self.used[PATH] {
                self.path.truncate(path);
                match label {
                    Some((_, start, end)) => {
                        push_label(utf8::to_nul(&self.blob[start..end]), &mut self.path);
                    }
                    None => self.path.extend_from_slice(format!("[{index}]").as_bytes()),
                }
            }
            let key = match label {
                _ if !self.used[KEY] => Value::Null,
                Some((kind, start, end)) => {
                    Value::Text(text_value(kind, &self.blob[start..end]).into_owned())
                }
                None => Value::Int(index),
            };
            let place = Place { id, at };
            self.row(key, place, (parent, path), row)?;
            if self.walk.deep {
                self.enter(place, Some(id))?;
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// The row of a walk's first element; false for an element without a row.
    fn begin(&mut self, root: Place, row: &mut Vec<Value>) -> Result<bool, Error> {
        let whole = self.path.len();
        if self.walk.deep {
            let outer = outer_path(&self.blob, &self.path, root.id);
            self.row(root_key(&self.path[outer..]), root, (None, outer), row)?;
            self.enter(root, Some(root.id))?;
            return Ok(true);
        }
        if self.enter(root, None)? {
            return Ok(false);
        }
        self.row(Value::Null, root, (None, whole), row)?;
        Ok(true)
    }

    /// Goes on with the members of an element; false for an element other than array and object.
    fn enter(&mut self, place: Place, id: Option<usize>) -> Result<bool, Error> {
        let (kind, next, end) = bounds(&self.blob, place.at)?;
        let is_container = matches!(kind, ARRAY | OBJECT);
        if is_container {
            let (is_array, path) = (kind == ARRAY, self.path.len());
            self.around.push(Container { next, end, is_array, given: 0, id, path });
        }
        Ok(is_container)
    }

    /// Appends the row of an element; `path` is the length of its container's path.
    fn row(
        &self,
        key: Value,
        place: Place,
        (parent, path): (Option<usize>, usize),
        row: &mut Vec<Value>,
    ) -> Result<(), Error> {
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let (kind, _, end) = bounds(&self.blob, place.at)?;
        let is_container = matches!(kind, ARRAY | OBJECT);
        let value = || to_value(&self.blob[place.at..end], self.walk.blob);
        row.push(key);
        for column in VALUE..=PATH {
            row.push(match column {
                _ if !self.used[column] => Value::Null,
                VALUE => value()?,
                TYPE => super::kind_name(kind).into(),
                ATOM if is_container => Value::Null,
                ATOM => value()?,
                ID => int(place.id),
                PARENT => parent.map_or(Value::Null, int),
                FULLKEY => Value::Text(self.path.clone()),
                _ => Value::Text(self.path[..path].to_vec()),
            });
        }
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

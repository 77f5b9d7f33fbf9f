//! Functions to change JSON: `json_set` and its relatives, `json_remove`, `json_patch`.
//!
//! JSONB is changed in place as in SQLite, so that the bytes agree: unchanged elements keep their
//! bytes, and a shorter element put in another's place may get a longer header to fill the room.

use std::borrow::Cow;

use super::binary::{
    ARRAY, DEPTH_MAX, Found, INT, NULL, OBJECT, TEXT, TEXT_RAW, TEXT5, bounds, child, is_array,
    of_value, push_part, same_label, set_header, short_header, too_deep,
};
use super::path::{Fault, Step, step};
use super::{argument, bad_path, malformed, marked, path_text, result};
use crate::Error;
use crate::functions::Env;
use crate::value::Value;

/// The effect of a change, by whether the path leads to an element or nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Insert,
    Replace,
    Set,
    /// Makes room in an array.
    ArrayInsert,
    Remove,
}

impl Mode {
    /// True where the change adds a missing element.
    fn makes(self) -> bool {
        matches!(self, Mode::Insert | Mode::Set | Mode::ArrayInsert)
    }
}

pub(super) fn change(
    name: &str,
    mode: Mode,
    blob: bool,
    arguments: &[Value],
    env: &Env<'_>,
) -> Result<Value, Error> {
    if arguments.len().is_multiple_of(2) && !arguments.is_empty() {
        let message = format!("{name}() needs an odd number of arguments");
        return Err(Error::runtime(message));
    }
    let Some(root) = argument(arguments)? else { return Ok(Value::Null) };
    let mut root = root.into_owned();
    for (place, pair) in arguments[1.min(arguments.len())..].chunks_exact(2).enumerate() {
        let Some(path) = path_text(&pair[0]) else { continue };
        let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
        let value = match &pair[1] {
            Value::Text(text) if env.is_json(2 * place + 2) => Cow::Owned(marked(text)?),
            value => of_value(value)?,
        };
        if !steps.is_empty() {
            edit(&mut root, steps, mode, &value).map_err(|fault| fault.of(&path))?;
        } else if matches!(mode, Mode::Set | Mode::Replace) {
            let length = root.len();
            Editor { blob: &mut root, grown: 0 }.replace(0, length, &value);
        }
    }
    result(root, blob)
}

pub(super) fn remove(blob: bool, arguments: &[Value]) -> Result<Value, Error> {
    let Some(root) = argument(arguments)? else { return Ok(Value::Null) };
    let mut root = root.into_owned();
    for path in arguments.iter().skip(1) {
        let Some(path) = path_text(path) else { return Ok(Value::Null) };
        match path.strip_prefix(b"$") {
            Some(b"") => return Ok(Value::Null),
            Some(steps) => {
                edit(&mut root, steps, Mode::Remove, &[]).map_err(|fault| fault.of(&path))?;
            }
            None => return Err(bad_path(&path)),
        }
    }
    result(root, blob)
}

pub(super) fn patch(blob: bool, arguments: &[Value]) -> Result<Value, Error> {
    let Some(target) = argument(arguments)? else { return Ok(Value::Null) };
    let Some(patch) = argument(&arguments[1..])? else { return Ok(Value::Null) };
    let mut target = target.into_owned();
    Editor { blob: &mut target, grown: 0 }.merge(0, &patch, 0, 0)?;
    result(target, blob)
}

/// Follows a path and changes the element at its end.
fn edit(blob: &mut Vec<u8>, path: &[u8], mode: Mode, value: &[u8]) -> Result<(), Fault> {
    let change = Change { mode, value };
    Editor { blob, grown: 0 }.follow((None, 0), path, b'$', change, 0)
}

#[derive(Clone, Copy)]
struct Change<'a> {
    mode: Mode,
    value: &'a [u8],
}

/// JSONB being changed.
struct Editor<'a> {
    blob: &'a mut Vec<u8>,
    /// Bytes gained so far; the headers around the change do not count them yet.
    grown: isize,
}

impl Editor<'_> {
    /// Follows a path from an element, by the places of its label and of itself.
    fn follow(
        &mut self,
        (label, at): (Option<usize>, usize),
        path: &[u8],
        before: u8,
        change: Change<'_>,
        depth: usize,
    ) -> Result<(), Fault> {
        if path.is_empty() {
            let (_, _, end) = bounds(self.blob, at).map_err(Fault::Json)?;
            match change.mode {
                Mode::Remove => {
                    let from = label.unwrap_or(at);
                    self.replace(from, end - from, &[]);
                }
                Mode::Insert => {}
                Mode::ArrayInsert if before != b']' => return Err(Fault::NotItem),
                Mode::ArrayInsert => self.replace(at, 0, change.value),
                Mode::Set | Mode::Replace => self.replace(at, end - at, change.value),
            }
            return Ok(());
        }
        if path[0] == b'[' && !is_array(self.blob, at) {
            return Ok(());
        }
        let (step, rest) = step(path).ok_or(Fault::Path)?;
        match child(self.blob, at, &step).map_err(Fault::Json)? {
            Found::Child(child) => {
                if depth + 1 >= DEPTH_MAX {
                    return Err(Fault::TooDeep);
                }
                let before = path[path.len() - rest.len() - 1];
                self.follow((child.label, child.at), rest, before, change, depth + 1)?;
            }
            Found::End(end) if change.mode.makes() => {
                let mut made = Vec::new();
                if let Step::Key(key) = step {
                    if change.mode == Mode::ArrayInsert && !rest.ends_with(b"]") {
                        return Err(Fault::NotItem);
                    }
                    push_part(if key.escaped { TEXT5 } else { TEXT_RAW }, key.text, &mut made);
                }
                let Some(inner) = substructure(rest, change, depth)? else { return Ok(()) };
                made.extend_from_slice(&inner);
                self.replace(end, 0, &made);
            }
            _ => return Ok(()),
        }
        self.close(at).map_err(Fault::Json)
    }

    /// Replaces bytes. A whole element may get a longer header, where the bytes behind then keep
    /// their place.
    fn replace(&mut self, at: usize, length: usize, bytes: &[u8]) {
        let shrinks = length.saturating_sub(bytes.len());
        if !bytes.is_empty()
            && (1..=8).contains(&shrinks)
            && let Some(wider) = widened(bytes, shrinks)
        {
            self.blob[at..at + length].copy_from_slice(&wider);
            return;
        }
        self.blob.splice(at..at + length, bytes.iter().copied());
        self.grown += bytes.len().cast_signed() - length.cast_signed();
    }

    /// Adds the growth of the payload to the header at `at`.
    fn close(&mut self, at: usize) -> Result<(), Error> {
        if self.grown == 0 {
            return Ok(());
        }
        let (kind, width, length) = told(self.blob, at).ok_or_else(malformed)?;
        let length = length.checked_add_signed(self.grown).ok_or_else(malformed)?;
        let (header, size) = short_header(kind, length);
        self.blob.splice(at..at + width, header.into_iter().take(size));
        self.grown += size.cast_signed() - width.cast_signed();
        Ok(())
    }

    /// Merge patch of RFC 7396, called with `grown` at 0: the patch's element at `from` changes the
    /// element at `at`.
    fn merge(&mut self, at: usize, patch: &[u8], from: usize, depth: usize) -> Result<(), Error> {
        let (kind, mut label, patch_end) = bounds(patch, from)?;
        if kind != OBJECT {
            let (_, _, end) = bounds(self.blob, at)?;
            self.replace(at, end - at, &patch[from..patch_end]);
            return Ok(());
        }
        let (target, first, members_end) = bounds(self.blob, at)?;
        if target != OBJECT {
            self.replace(first, members_end - first, &[]);
            self.blob[at] = self.blob[at] & 0xf0 | OBJECT;
        }
        while label < patch_end {
            let (label_kind, text, value) = bounds(patch, label)?;
            if !(TEXT..=TEXT_RAW).contains(&label_kind) || value >= patch_end {
                return Err(malformed());
            }
            let (change, _, next) = bounds(patch, value)?;
            let raw = |kind: u8| matches!(kind, TEXT | TEXT_RAW);
            let end = members_end.checked_add_signed(self.grown).ok_or_else(malformed)?;
            let mut member = first;
            let mut found = None;
            while member < end {
                let (known_kind, known, known_value) = bounds(self.blob, member)?;
                if !(TEXT..=TEXT_RAW).contains(&known_kind) || known_value >= end {
                    return Err(malformed());
                }
                let known = &self.blob[known..known_value];
                let (_, _, after) = bounds(self.blob, known_value)?;
                if same_label(&patch[text..value], raw(label_kind), known, raw(known_kind)) {
                    found = Some((member, known_value, after));
                    break;
                }
                member = after;
            }
            match found {
                Some((member, _, after)) if change == NULL => {
                    self.replace(member, after - member, &[]);
                }
                Some((_, known_value, _)) => self.merge_within(known_value, patch, value, depth)?,
                None if change == NULL => {}
                None if change == OBJECT => {
                    let mut made = patch[label..value].to_vec();
                    made.push(NULL);
                    let inner = end + made.len() - 1;
                    self.replace(end, 0, &made);
                    self.merge_within(inner, patch, value, depth)?;
                }
                None => self.replace(end, 0, &patch[label..next]),
            }
            label = next;
        }
        self.close(at)
    }

    /// Merges into a member of the element being merged.
    fn merge_within(
        &mut self,
        at: usize,
        patch: &[u8],
        from: usize,
        depth: usize,
    ) -> Result<(), Error> {
        if depth >= DEPTH_MAX {
            return Err(too_deep());
        }
        let grown = std::mem::take(&mut self.grown);
        self.merge(at, patch, from, depth + 1)?;
        self.grown += grown;
        Ok(())
    }
}

/// Reads a header: kind, length of the header and length of the payload.
fn told(blob: &[u8], at: usize) -> Option<(u8, usize, usize)> {
    let bytes = blob.get(at..)?;
    let (&first, rest) = bytes.split_first()?;
    let (width, length) = match first >> 4 {
        length @ 0..12 => (1, usize::from(length)),
        wide => {
            let width = 1usize << (wide - 12);
            let length = rest.get(..width)?.iter().try_fold(0usize, |length, &byte| {
                length.checked_mul(256)?.checked_add(usize::from(byte))
            })?;
            (1 + width, length)
        }
    };
    Some((first & 15, width, length))
}

/// The same element with a header longer by `by` bytes, if there is such a header.
fn widened(element: &[u8], by: usize) -> Option<Vec<u8>> {
    let (kind, width, length) = told(element, 0)?;
    let wider = width + by - 1;
    if kind < INT || !matches!(wider, 1 | 2 | 4 | 8) {
        return None;
    }
    let mut out = vec![0; 1 + wider];
    set_header(&mut out, kind, length, wider);
    out.extend_from_slice(&element[width..]);
    Some(out)
}

/// The missing objects and arrays along the rest of a path, around the value to put there.
fn substructure(path: &[u8], change: Change<'_>, depth: usize) -> Result<Option<Vec<u8>>, Fault> {
    if path.is_empty() {
        return Ok(Some(change.value.to_vec()));
    }
    if depth + 1 >= DEPTH_MAX {
        return Err(Fault::TooDeep);
    }
    let mut made = vec![if path[0] == b'.' { OBJECT } else { ARRAY }];
    Editor { blob: &mut made, grown: 0 }.follow((None, 0), path, b'$', change, depth + 1)?;
    Ok((made.len() > 1).then_some(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_grow_to_fill_their_place() {
        assert_eq!(widened(b"\x131", 1).unwrap(), b"\xc3\x011");
        assert_eq!(widened(b"\x131", 2).unwrap(), b"\xd3\x00\x011");
        assert_eq!(widened(b"\x131", 3), None);
        assert_eq!(widened(b"\x131", 8).unwrap(), b"\xf3\x00\x00\x00\x00\x00\x00\x00\x011");
        assert_eq!(widened(b"\x00", 1), None);
        assert_eq!(widened(b"\xc3\x011", 1).unwrap(), b"\xd3\x00\x011");
    }
}

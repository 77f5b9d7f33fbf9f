//! Functions that change JSON: `json_set` and its relatives, `json_remove`, `json_patch`.

use super::binary::label_text;
use super::node::{Node, escaped};
use super::path::{Step, index_step, key_step};
use super::{argument, bad_path, path_text, result, sql_node};
use crate::Error;
use crate::functions::Env;
use crate::value::Value;

/// What a change does where something is, and where nothing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Insert,
    Replace,
    Set,
    /// Makes room in an array.
    ArrayInsert,
    Remove,
}

/// The path of a change is none.
#[derive(Debug)]
struct BadPath;

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
    let Some(mut root) = argument(arguments)? else { return Ok(Value::Null) };
    for (place, pair) in arguments[1.min(arguments.len())..].chunks_exact(2).enumerate() {
        let Some(path) = path_text(&pair[0]) else { continue };
        let value = sql_node(&pair[1], env.is_json(2 * place + 2))?;
        let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
        edit(&mut root, steps, mode, &value).map_err(|BadPath| bad_path(&path))?;
    }
    Ok(result(&root, blob))
}

pub(super) fn remove(blob: bool, arguments: &[Value]) -> Result<Value, Error> {
    let Some(mut root) = argument(arguments)? else { return Ok(Value::Null) };
    for path in arguments.iter().skip(1) {
        let Some(path) = path_text(path) else { return Ok(Value::Null) };
        match path.strip_prefix(b"$") {
            Some(b"") => return Ok(Value::Null),
            Some(steps) => edit(&mut root, steps, Mode::Remove, &Node::Null)
                .map_err(|BadPath| bad_path(&path))?,
            None => return Err(bad_path(&path)),
        }
    }
    Ok(result(&root, blob))
}

pub(super) fn patch(blob: bool, arguments: &[Value]) -> Result<Value, Error> {
    let Some(target) = argument(arguments)? else { return Ok(Value::Null) };
    let Some(patch) = argument(&arguments[1..])? else { return Ok(Value::Null) };
    Ok(result(&merged(target, &patch), blob))
}

/// RFC 7396.
fn merged(target: Node, patch: &Node) -> Node {
    let Node::Object(changes) = patch else { return patch.clone() };
    let mut members = match target {
        Node::Object(members) => members,
        _ => Vec::new(),
    };
    for (label, change) in changes {
        let key = label_text(label);
        let found = members.iter().position(|(known, _)| label_text(known) == key);
        match (found, change) {
            (Some(place), Node::Null) => {
                members.remove(place);
            }
            (None, Node::Null) => {}
            (Some(place), change) => {
                let old = std::mem::replace(&mut members[place].1, Node::Null);
                members[place].1 = merged(old, change);
            }
            (None, change) => members.push((label.clone(), merged(Node::Null, change))),
        }
    }
    Node::Object(members)
}

/// Follows a path and changes what it leads to.
fn edit(node: &mut Node, path: &[u8], mode: Mode, value: &Node) -> Result<(), BadPath> {
    let Some(&first) = path.first() else {
        if matches!(mode, Mode::Set | Mode::Replace) {
            *node = value.clone();
        }
        return Ok(());
    };
    match first {
        b'.' => {
            let (Step::Key(key), rest) = key_step(&path[1..]).ok_or(BadPath)? else {
                return Err(BadPath);
            };
            let Node::Object(members) = node else { return Ok(()) };
            match members.iter().position(|(label, _)| label_text(label) == key) {
                Some(place) if rest.is_empty() && mode == Mode::Remove => {
                    members.remove(place);
                    Ok(())
                }
                Some(place) => edit(&mut members[place].1, rest, mode, value),
                None if matches!(mode, Mode::Insert | Mode::Set | Mode::ArrayInsert) => {
                    if let Some(made) = made(rest, mode, value)? {
                        members.push((escaped(&key), made));
                    }
                    Ok(())
                }
                None => Ok(()),
            }
        }
        b'[' => {
            let Node::Array(items) = node else {
                return Ok(());
            };
            let (step, rest) = index_step(&path[1..]).ok_or(BadPath)?;
            let place = match step {
                Step::Index(index) => Some(index),
                Step::FromEnd(back) => items.len().checked_sub(back),
                Step::Key(_) => return Err(BadPath),
            };
            let Some(place) = place else { return Ok(()) };
            let last = rest.is_empty();
            if place < items.len() {
                match mode {
                    Mode::Remove if last => {
                        items.remove(place);
                    }
                    Mode::ArrayInsert if last => items.insert(place, value.clone()),
                    _ => return edit(&mut items[place], rest, mode, value),
                }
            } else if place == items.len()
                && matches!(mode, Mode::Insert | Mode::Set | Mode::ArrayInsert)
                && let Some(made) = made(rest, mode, value)?
            {
                items.push(made);
            }
            Ok(())
        }
        _ => Err(BadPath),
    }
}

/// What a path that leads nowhere makes: the objects and arrays that it names, around the value.
fn made(path: &[u8], mode: Mode, value: &Node) -> Result<Option<Node>, BadPath> {
    let mut node = match path.first() {
        None => return Ok(Some(value.clone())),
        Some(b'.') => Node::Object(Vec::new()),
        Some(b'[') => Node::Array(Vec::new()),
        Some(_) => return Err(BadPath),
    };
    edit(&mut node, path, mode, value)?;
    let empty = match &node {
        Node::Object(members) => members.is_empty(),
        Node::Array(items) => items.is_empty(),
        _ => false,
    };
    Ok((!empty).then_some(node))
}

//! The rows of `json_each` and `json_tree`.

use super::binary::{encode, label_text};
use super::node::{Node, parse};
use super::path::{Step, index_step, key_step};
use super::{bad_path, json_argument, malformed, path_text, sql_value};
use crate::Error;
use crate::value::{Affinity, Value};

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walk {
    /// Over the members of one element.
    Each,
    /// Over an element and all within it.
    Tree,
}

/// The rows: `key`, `value`, `type`, `atom`, `id`, `parent`, `fullkey`, `path`.
///
/// An `id` is the element's place in the JSONB of the whole, as in SQLite.
///
/// # Errors
/// What is no JSON, and a path that is none.
pub(crate) fn walk(
    walk: Walk,
    json: &Value,
    path: Option<&Value>,
) -> Result<Vec<Vec<Value>>, Error> {
    let Some(text) = json_argument(std::slice::from_ref(json))? else { return Ok(Vec::new()) };
    let root = parse(&text).map_err(|_| malformed())?;
    let path = match path {
        None => b"$".to_vec(),
        Some(path) => match path_text(path) {
            Some(path) => path,
            None => return Ok(Vec::new()),
        },
    };
    let Some(steps) = path.strip_prefix(b"$") else { return Err(bad_path(&path)) };
    let mut at = Place { node: &root, id: 0, value: 0, key: Value::Null };
    let mut rest = steps;
    // Every beginning of the path, and where the first member of what it leads to is.
    let mut around = Vec::new();
    while !rest.is_empty() {
        let first = members(at.node, at.value).first().map(|member| member.id);
        around.push((path.len() - rest.len(), first));
        let Some((found, after)) = at.follow(rest, &path)? else { return Ok(Vec::new()) };
        at = found;
        rest = after;
    }
    let mut rows = Rows { walk, out: Vec::new() };
    let container = matches!(at.node, Node::Array(_) | Node::Object(_));
    match walk {
        Walk::Each if container => rows.members(at.node, at.value, None, &path),
        Walk::Each => rows.push(&Value::Null, at.node, at.id, None, &path, &path),
        Walk::Tree => {
            // As in SQLite, the key is all of the path behind the beginning whose first member
            // the element is, or behind the `$`.
            let outer = around.iter().rev().find(|(_, first)| *first == Some(at.id));
            let outer = outer.map_or(1, |(length, _)| *length);
            let key = match &path[outer.min(path.len())..] {
                b"" => Value::Null,
                [b'[', digits @ ..] => {
                    crate::value::cast(Value::Text(digits.to_vec()).as_ref(), Affinity::Integer)
                }
                [_, b'"', inner @ .., b'"'] => Value::Text(inner.to_vec()),
                [_, plain @ ..] => Value::Text(plain.to_vec()),
            };
            rows.push(&key, at.node, at.id, None, &path, &path[..outer]);
            rows.members(at.node, at.value, Some(at.id), &path);
        }
    }
    Ok(rows.out)
}

/// An element and where it is.
struct Place<'n> {
    node: &'n Node,
    /// Where its entry begins, which for a member of an object is its label.
    id: usize,
    /// Where the element itself begins.
    value: usize,
    key: Value,
}

/// An element, and what is left of the path to it.
type Followed<'n, 'p> = (Place<'n>, &'p [u8]);

impl<'n> Place<'n> {
    fn follow<'p>(&self, path: &'p [u8], whole: &[u8]) -> Result<Option<Followed<'n, 'p>>, Error> {
        let bad = || bad_path(whole);
        let (step, rest) = match path.first() {
            Some(b'.') => key_step(&path[1..]).ok_or_else(bad)?,
            Some(b'[') if !matches!(self.node, Node::Array(_)) => return Ok(None),
            Some(b'[') => index_step(&path[1..]).ok_or_else(bad)?,
            _ => return Err(bad()),
        };
        let mut members = members(self.node, self.value);
        let found = match step {
            Step::Key(key) => {
                let key = Value::Text(key);
                matches!(self.node, Node::Object(_))
                    .then(|| members.into_iter().find(|member| member.key == key))
                    .flatten()
            }
            Step::Index(index) => (index < members.len()).then(|| members.swap_remove(index)),
            Step::FromEnd(back) => {
                let index = members.len().checked_sub(back).filter(|index| *index < members.len());
                index.map(|index| members.swap_remove(index))
            }
        };
        Ok(found.map(|found| (found, rest)))
    }
}

/// The members of an element whose header begins at `start`.
fn members(node: &Node, start: usize) -> Vec<Place<'_>> {
    let payload: usize = match node {
        Node::Array(items) => items.iter().map(|item| encode(item).len()).sum(),
        Node::Object(members) => {
            members.iter().map(|(label, value)| text_len(label) + encode(value).len()).sum()
        }
        _ => return Vec::new(),
    };
    let mut at = start + encode(node).len() - payload;
    let mut out = Vec::new();
    match node {
        Node::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let key = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                out.push(Place { node: item, id: at, value: at, key });
                at += encode(item).len();
            }
        }
        Node::Object(members) => {
            for (label, value) in members {
                let key = Value::Text(label_text(label));
                let value_at = at + text_len(label);
                out.push(Place { node: value, id: at, value: value_at, key });
                at = value_at + encode(value).len();
            }
        }
        _ => {}
    }
    out
}

fn text_len(label: &[u8]) -> usize {
    encode(&Node::Text(label.to_vec())).len()
}

struct Rows {
    walk: Walk,
    out: Vec<Vec<Value>>,
}

impl Rows {
    fn members(&mut self, node: &Node, start: usize, parent: Option<usize>, path: &[u8]) {
        for member in members(node, start) {
            let mut full = path.to_vec();
            match &member.key {
                Value::Text(label) if is_plain(label) => {
                    full.push(b'.');
                    full.extend_from_slice(label);
                }
                Value::Text(label) => {
                    full.extend_from_slice(b".\"");
                    full.extend_from_slice(label);
                    full.push(b'"');
                }
                Value::Int(index) => full.extend_from_slice(format!("[{index}]").as_bytes()),
                _ => {}
            }
            self.push(&member.key, member.node, member.id, parent, &full, path);
            if self.walk == Walk::Tree {
                self.members(member.node, member.value, Some(member.id), &full);
            }
        }
    }

    fn push(
        &mut self,
        key: &Value,
        node: &Node,
        id: usize,
        parent: Option<usize>,
        full: &[u8],
        path: &[u8],
    ) {
        let int = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let (kind, container) = match node {
            Node::Null => ("null", false),
            Node::True => ("true", false),
            Node::False => ("false", false),
            Node::Int(_) => ("integer", false),
            Node::Real(_) => ("real", false),
            Node::Text(_) => ("text", false),
            Node::Array(_) => ("array", true),
            Node::Object(_) => ("object", true),
        };
        let value = sql_value(&node.to_text());
        self.out.push(vec![
            key.clone(),
            value.clone(),
            kind.into(),
            if container { Value::Null } else { value },
            int(id),
            parent.map_or(Value::Null, int),
            Value::Text(full.to_vec()),
            Value::Text(path.to_vec()),
        ]);
    }
}

/// Whether a path can name a label without quotes.
fn is_plain(label: &[u8]) -> bool {
    label.first().is_some_and(u8::is_ascii_alphabetic)
        && label.iter().all(u8::is_ascii_alphanumeric)
}

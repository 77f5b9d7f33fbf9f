//! JSON Pointers (RFC 6901) into a document.

use crate::id::{ObjId, ROOT};
use crate::read_doc::ReadDoc;
use crate::value::{ObjType, Prop, Value};

mod flat;

pub use flat::{flatten, unflatten};

/// The target of a pointer: a property of an existing object. The property may be missing yet, to
/// be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The root map, by the empty pointer.
    Root,
    /// The entry `key` of the map `obj`.
    Entry {
        /// The map.
        obj: ObjId,
        /// The key.
        key: String,
    },
    /// The item or text unit at `index` of the sequence `obj`; the length, for the place after
    /// the last.
    Item {
        /// The list or text.
        obj: ObjId,
        /// The index.
        index: usize,
    },
}

impl Resolved {
    /// The object and the property, unless this is the root.
    pub fn prop(&self) -> Option<(&ObjId, Prop<'_>)> {
        match self {
            Self::Root => None,
            Self::Entry { obj, key } => Some((obj, Prop::Key(key))),
            Self::Item { obj, index } => Some((obj, Prop::Index(*index))),
        }
    }
}

/// Why a pointer names nothing. `segment` is the part of the pointer at fault, unescaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// A pointer, not empty, without a slash at the begin.
    #[error("a path begins with a slash: {pointer}")]
    NoSlash {
        /// The pointer.
        pointer: String,
    },
    /// `~` followed by neither 0 nor 1.
    #[error("~ stands for nothing unless 0 or 1 follows: {segment}")]
    BadEscape {
        /// The segment, as written in the pointer.
        segment: String,
    },
    /// There is no entry with this key, or no item at this index.
    #[error("nothing in the {kind} at path segment: {segment}", kind = kind.name())]
    Missing {
        /// The segment.
        segment: String,
        /// The type of the object searched.
        kind: ObjType,
    },
    /// A segment of no index, in a list or text.
    #[error("a {kind} needs an index, without leading zeros, as path segment: {segment}", kind = kind.name())]
    NotAnIndex {
        /// The segment.
        segment: String,
        /// The object.
        kind: ObjType,
    },
    /// A segment into a scalar.
    #[error("no object but a scalar value at path segment: {segment}")]
    NotAnObject {
        /// The segment.
        segment: String,
    },
}

/// Resolves `pointer` in `doc`. In a list or text, `-` is the place after the last item. Every
/// object on the way must exist; the last segment need not, except that an index is at most the
/// length.
///
/// # Errors
/// [`PointerError`] with the segment at fault.
pub fn resolve(doc: &impl ReadDoc, pointer: &str) -> Result<Resolved, PointerError> {
    let mut resolved = Resolved::Root;
    let mut segments = pointer.split('/');
    match segments.next() {
        Some("") => {}
        _ => return Err(PointerError::NoSlash { pointer: pointer.to_owned() }),
    }
    let mut obj = ROOT;
    let mut last = String::new();
    for segment in segments {
        if resolved != Resolved::Root {
            obj = enter(doc, &resolved, std::mem::take(&mut last))?;
        }
        let segment = unescape(segment)?;
        last.clone_from(&segment);
        resolved = step(doc, &obj, segment)?;
    }
    Ok(resolved)
}

/// Resolves `pointer` to an object: the root, or the object at the target.
///
/// # Errors
/// As [`resolve`]; [`PointerError::Missing`] and [`PointerError::NotAnObject`] for the last
/// segment as well.
pub fn resolve_object(doc: &impl ReadDoc, pointer: &str) -> Result<ObjId, PointerError> {
    match resolve(doc, pointer)? {
        Resolved::Root => Ok(ROOT),
        resolved => {
            let last = pointer.rsplit('/').next().unwrap_or_default();
            enter(doc, &resolved, unescape(last)?)
        }
    }
}

fn step(doc: &impl ReadDoc, obj: &ObjId, segment: String) -> Result<Resolved, PointerError> {
    let obj = obj.clone();
    let kind = doc.object_type(&obj).unwrap_or(ObjType::Map);
    if !kind.is_sequence() {
        return Ok(Resolved::Entry { obj, key: segment });
    }
    let length = doc.length(&obj).unwrap_or(0);
    if segment == "-" {
        return Ok(Resolved::Item { obj, index: length });
    }
    let plain = segment.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = segment.len() > 1 && segment.starts_with('0');
    if segment.is_empty() || !plain || leading_zero {
        return Err(PointerError::NotAnIndex { segment, kind });
    }
    match segment.parse() {
        Ok(index) if index <= length => Ok(Resolved::Item { obj, index }),
        _ => Err(PointerError::Missing { segment, kind }),
    }
}

/// The object at `resolved`, the target of `segment`.
fn enter(doc: &impl ReadDoc, resolved: &Resolved, segment: String) -> Result<ObjId, PointerError> {
    let Some((obj, prop)) = resolved.prop() else { return Ok(ROOT) };
    match doc.get(obj, prop) {
        Ok(Some((Value::Object(_), id))) => Ok(id),
        Ok(Some((Value::Scalar(_), _))) => Err(PointerError::NotAnObject { segment }),
        Ok(None) | Err(_) => {
            let kind = doc.object_type(obj).unwrap_or(ObjType::Map);
            Err(PointerError::Missing { segment, kind })
        }
    }
}

/// The segment of a key.
pub(crate) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescape(segment: &str) -> Result<String, PointerError> {
    let mut text = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((before, after)) = rest.split_once('~') {
        text.push_str(before);
        let mut after = after.chars();
        match after.next() {
            Some('0') => text.push('~'),
            Some('1') => text.push('/'),
            _ => return Err(PointerError::BadEscape { segment: segment.to_owned() }),
        }
        rest = after.as_str();
    }
    text.push_str(rest);
    Ok(text)
}

//! JSON as one flat table from pointers to values, and back.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use super::{PointerError, escape, unescape};
use crate::json::DEFAULT_MAX_DEPTH;

/// Every scalar and every empty object or array in `json`, by its pointer; a scalar alone is at the
/// empty pointer.
///
/// ```
/// use serde_json::json;
/// use shoal_crdt::pointer::{flatten, unflatten};
///
/// let json = json!({"a": [1, {"b/c": true}], "d": {}});
/// let flat = flatten(&json);
/// assert_eq!(flat["/a/1/b~1c"], json!(true));
/// assert_eq!(flat.len(), 3);
/// assert_eq!(unflatten(&flat)?, json);
/// # Ok::<(), shoal_crdt::pointer::PointerError>(())
/// ```
pub fn flatten(json: &Json) -> BTreeMap<String, Json> {
    let mut flat = BTreeMap::new();
    let mut left = vec![(String::new(), json)];
    while let Some((pointer, json)) = left.pop() {
        match json {
            Json::Array(items) if !items.is_empty() => {
                let item = |(index, json)| (format!("{pointer}/{index}"), json);
                left.extend(items.iter().enumerate().map(item));
            }
            Json::Object(entries) if !entries.is_empty() => {
                let entry =
                    |(key, json): (&String, _)| (format!("{pointer}/{}", escape(key)), json);
                left.extend(entries.iter().map(entry));
            }
            _ => drop(flat.insert(pointer, json.clone())),
        }
    }
    flat
}

/// The inverse of [`flatten`]. An object with the keys 0, 1 and so on, without a gap, cannot be
/// told from an array, and becomes one. Cost: O(n log n) for n pointers, and their lengths.
///
/// # Errors
/// [`PointerError::NoSlash`], [`PointerError::BadEscape`]; [`PointerError::NotAnObject`] if one
/// pointer leads through the scalar of another.
pub fn unflatten(flat: &BTreeMap<String, Json>) -> Result<Json, PointerError> {
    if let Some(json) = flat.get("") {
        return match flat.keys().nth(1) {
            None => Ok(json.clone()),
            Some(pointer) => Err(PointerError::NotAnObject { segment: pointer.clone() }),
        };
    }
    let mut root = Map::new();
    for (pointer, json) in flat {
        let Some(segments) = pointer.strip_prefix('/') else {
            return Err(PointerError::NoSlash { pointer: pointer.clone() });
        };
        let mut entries = &mut root;
        let mut segments = segments.split('/').peekable();
        while let Some(segment) = segments.next() {
            let key = unescape(segment)?;
            if segments.peek().is_none() {
                if entries.insert(key, json.clone()).is_some() {
                    return Err(PointerError::NotAnObject { segment: segment.to_owned() });
                }
                break;
            }
            // An empty object of the table has no pointers through it.
            let is_new = !entries.contains_key(&key);
            entries = match entries.entry(key).or_insert_with(|| Map::new().into()) {
                Json::Object(inner) if is_new || !inner.is_empty() => inner,
                _ => return Err(PointerError::NotAnObject { segment: segment.to_owned() }),
            };
        }
    }
    let mut json = Json::Object(root);
    arrays(&mut json, 0);
    Ok(json)
}

/// Makes arrays of objects whose keys count, as deep as a document may be read.
fn arrays(json: &mut Json, depth: usize) {
    let Json::Object(entries) = json else { return };
    if depth < DEFAULT_MAX_DEPTH {
        entries.values_mut().for_each(|json| arrays(json, depth + 1));
    }
    let counts =
        !entries.is_empty() && (0..entries.len()).all(|n| entries.contains_key(&n.to_string()));
    if counts {
        let count = entries.len();
        let item = |n: usize| entries.remove(&n.to_string()).unwrap_or_default();
        *json = (0..count).map(item).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_make_no_sense_are_refused() {
        for pointers in [&["a"][..], &["", "/a"], &["/a", "/a/b"], &["/~2"], &["/a/~"]] {
            let flat = pointers.iter().map(|pointer| (pointer.to_string(), Json::Null)).collect();
            assert!(unflatten(&flat).is_err(), "{pointers:?}");
        }
        let empty = serde_json::json!({"/a": {}, "/a/b": 1});
        let empty = empty.as_object().expect("an object").clone().into_iter().collect();
        assert!(unflatten(&empty).is_err());
    }

    #[test]
    fn what_was_flattened_comes_back() {
        for json in [
            serde_json::json!(1),
            serde_json::json!([]),
            serde_json::json!([[1, []], {"": {"": null}, "~/": "x"}]),
            serde_json::json!({"list": (0..12).collect::<Vec<_>>(), "1": {"0": 1, "2": 2}}),
        ] {
            assert_eq!(unflatten(&flatten(&json)), Ok(json));
        }
        // A nested array of one, not to be told from an object.
        let json = serde_json::json!({"a": {"0": 1}});
        assert_eq!(unflatten(&flatten(&json)), Ok(serde_json::json!({"a": [1]})));
    }
}

//! `document_tree` and `document_conflicts`: a document value by value.

use shoal_crdt::{DocumentAt, ObjId, ObjType, PatchProp, ROOT, ReadDoc, Value};
use shoal_sql::Value as SqlValue;

use super::{Asked, Row};
use crate::Error;
use crate::past::values::{count, push, shown, type_name};

/// An entry or an item met on a walk.
struct Met<'a> {
    path: String,
    parent: &'a str,
    object: &'a ObjId,
    prop: &'a PatchProp,
    value: Value<'a>,
    id: &'a ObjId,
    conflict: bool,
}

/// An object still to be walked: its path and itself.
type Ahead = (String, ObjId);

/// Walks a document in its order, maps by key. `each` is told of every entry and item.
fn walk(
    asked: &Asked<'_>,
    document: &DocumentAt<'_>,
    each: &mut dyn FnMut(&Met<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    // Of each object on the way from the root, the objects in it still to come, the next one last.
    let mut ahead: Vec<Vec<Ahead>> = Vec::new();
    let mut at: Ahead = (String::new(), ROOT);
    loop {
        asked.context.check()?;
        let mut inner = Vec::new();
        let (path, object) = &at;
        let mut met = |prop: PatchProp, value: Value<'_>, id: &ObjId, conflict| {
            let mut inner_path = path.clone();
            push(&mut inner_path, &prop);
            if let Value::Object(kind) = value
                && kind != ObjType::Text
            {
                inner.push((inner_path.clone(), id.clone()));
            }
            let (prop, path) = (&prop, inner_path);
            each(&Met { path, parent: &at.0, object, prop, value, id, conflict })
        };
        match document.object_type(object)? {
            ObjType::Map | ObjType::Table => {
                for entry in document.entries(object)? {
                    let key = PatchProp::Key(entry.key.into());
                    met(key, entry.value, &entry.id, entry.conflict)?;
                }
            }
            ObjType::List => {
                for (index, item) in document.items(object, 0)?.enumerate() {
                    met(PatchProp::Index(index), item.value, &item.id, item.conflict)?;
                }
            }
            ObjType::Text => {}
        }
        inner.reverse();
        ahead.push(inner);
        at = loop {
            let Some(level) = ahead.last_mut() else { return Ok(()) };
            match level.pop() {
                Some(next) => break next,
                None => {
                    ahead.pop();
                }
            }
        };
    }
}

/// One row an entry or item: its path, the path of the object around, its key or index, its type,
/// its value (NULL for maps and lists), the op behind it, 1 where others wrote another value at the
/// same time. Objects come before their contents.
pub(super) fn tree(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let document = asked.at(0)?;
    let mut rows = Vec::new();
    walk(asked, &document, &mut |met| {
        let value = match met.value {
            Value::Object(kind) if kind != ObjType::Text => SqlValue::Null,
            value => shown(&document, value, met.id)?,
        };
        rows.push(vec![
            met.path.as_str().into(),
            met.parent.into(),
            match met.prop {
                PatchProp::Key(key) => (&**key).into(),
                PatchProp::Index(index) => count(*index),
            },
            type_name(met.value).into(),
            value,
            met.id.to_string().into(),
            i64::from(met.conflict).into(),
        ]);
        Ok(())
    })?;
    Ok(rows)
}

/// One row for each value at a place where several were written at once, the winner last.
pub(super) fn conflicts(asked: &Asked<'_>) -> Result<Vec<Row>, Error> {
    let document = asked.at(0)?;
    let mut rows = Vec::new();
    walk(asked, &document, &mut |met| {
        if !met.conflict {
            return Ok(());
        }
        let all = match met.prop {
            PatchProp::Key(key) => document.get_all(met.object, &**key)?,
            PatchProp::Index(index) => document.get_all(met.object, *index)?,
        };
        for (value, id) in all {
            rows.push(vec![
                met.path.as_str().into(),
                type_name(value).into(),
                shown(&document, value, &id)?,
                id.to_string().into(),
                i64::from(id == *met.id).into(),
            ]);
        }
        Ok(())
    })?;
    Ok(rows)
}

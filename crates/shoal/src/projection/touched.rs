//! The rows of a projection that a change touches, by the patches of the change.

use std::collections::BTreeMap;

use shoal_crdt::{Document, ObjId, ObjType, Patch, PatchAction, PatchProp, PatchScalar, Value};

use super::define::{Definition, Each};
use super::rows::key_of;
use crate::Error;

/// The rows to be looked at again.
#[derive(Debug, PartialEq)]
pub(crate) enum Touched {
    /// By key: the object or scalar of the row as it is now, `None` where the row is gone.
    Rows(BTreeMap<Vec<u8>, Option<(RowValue, ObjId)>>),
    /// The rows of some keys, and the set of all keys.
    Keys(BTreeMap<Vec<u8>, Option<(RowValue, ObjId)>>),
    /// All rows of the document.
    All,
}

/// An object behind a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowValue(pub(crate) ObjType);

impl RowValue {
    pub(crate) fn value(self) -> Value<'static> {
        Value::Object(self.0)
    }
}

/// Finds the rows that patches touch.
pub(crate) fn touched(
    document: &Document,
    definition: &Definition,
    patches: &[Patch],
) -> Result<Touched, Error> {
    let path = &definition.rows;
    let depth = path.keys.len();
    let mut rows = BTreeMap::new();
    let mut keys_changed = false;
    for patch in patches {
        // The properties from the root to what changed, as far as the way of the rows goes.
        let own = own_prop(&patch.action);
        let mut props = patch.path.iter().map(|(_, prop)| prop).chain(own.as_ref());
        let on_way = path.keys.iter().all(|key| match props.next() {
            // Nothing more: an object on the way changed as a whole.
            None => true,
            Some(PatchProp::Key(found)) => **found == **key,
            Some(PatchProp::Index(_)) => false,
        });
        if !on_way {
            continue;
        }
        let below = patch.path.len();
        if below < depth {
            return Ok(Touched::All);
        }
        match path.each {
            Each::Itself => return Ok(Touched::All),
            Each::Entry => {
                let prop = patch.path.get(depth).map(|(_, prop)| prop).or(own.as_ref());
                let Some(PatchProp::Key(key)) = prop else { return Ok(Touched::All) };
                let container = match patch.path.get(depth) {
                    Some((container, _)) => container,
                    None => &patch.obj,
                };
                match document.get(container, &**key)? {
                    Some((Value::Object(kind), id)) => {
                        rows.insert(key.as_bytes().to_vec(), Some((RowValue(kind), id)));
                    }
                    Some((Value::Scalar(_), _)) => return Ok(Touched::All),
                    None => {
                        rows.insert(key.as_bytes().to_vec(), None);
                    }
                }
            }
            Each::Item if below == depth => match &patch.action {
                PatchAction::Insert { values, .. } => {
                    for value in values {
                        match value.value {
                            PatchScalar::Object(kind) => {
                                let id = value.id.clone();
                                rows.insert(key_of(&id), Some((RowValue(kind), id)));
                            }
                            PatchScalar::Scalar(_) => keys_changed = true,
                        }
                    }
                }
                PatchAction::Increment { .. } => return Ok(Touched::All),
                PatchAction::Conflict { .. } => {}
                _ => keys_changed = true,
            },
            Each::Item => {
                // The row's object: the next one on the way, or the one changed.
                let id = match patch.path.get(depth + 1) {
                    Some((object, _)) => object.clone(),
                    None => patch.obj.clone(),
                };
                let kind = document.object_type(&id)?;
                rows.insert(key_of(&id), Some((RowValue(kind), id)));
            }
        }
    }
    Ok(if keys_changed { Touched::Keys(rows) } else { Touched::Rows(rows) })
}

/// The property that an action is about, for maps.
fn own_prop(action: &PatchAction) -> Option<PatchProp> {
    match action {
        PatchAction::PutMap { key, .. } | PatchAction::DeleteMap { key } => {
            Some(PatchProp::Key(key.clone()))
        }
        PatchAction::Increment { prop, .. } | PatchAction::Conflict { prop } => Some(prop.clone()),
        _ => None,
    }
}

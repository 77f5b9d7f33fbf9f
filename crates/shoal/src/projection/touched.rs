//! The rows of a projection touched by a change, from the patches of the change.

use std::collections::BTreeMap;

use shoal_crdt::{Document, ObjId, Patch, PatchAction, PatchProp, PatchScalar};

use super::define::{Definition, Each, Step};
use super::rows::{Found, entry_key, key_of, locate};
use crate::Error;

/// The rows to be looked at again.
#[derive(Debug)]
pub(crate) enum Touched<'d> {
    /// By key: the present row, `None` for a deleted one.
    Rows(BTreeMap<Vec<u8>, Option<Found<'d>>>),
    /// The rows of some keys, and the set of all keys.
    Keys(BTreeMap<Vec<u8>, Option<Found<'d>>>),
    /// All rows of the document.
    All,
}

/// Finds the rows touched by patches. `are_whole` guarantees patches for every value below a new
/// one, too.
pub(crate) fn touched<'d>(
    document: &'d Document,
    definition: &Definition,
    patches: &[Patch],
    are_whole: bool,
) -> Result<Touched<'d>, Error> {
    let steps = &definition.rows.steps;
    let mut rows: BTreeMap<Vec<u8>, Option<Found<'d>>> = BTreeMap::new();
    let mut keys_changed = false;
    // Many patches of a row follow each other.
    let mut last: Option<ObjId> = None;
    for patch in patches {
        let own = own_prop(&patch.action);
        if !is_on_way(steps, patch, own.as_ref()) {
            continue;
        }
        let below = patch.path.len();
        if below >= steps.len() {
            let id = patch.path.get(steps.len()).map_or(&patch.obj, |(object, _)| object);
            match definition.rows.each() {
                Each::Itself => return Ok(Touched::All),
                Each::Entry if definition.is_nested() => return Ok(Touched::All),
                Each::Item | Each::Entry if last.as_ref() == Some(id) => {}
                Each::Item => {
                    rows.insert(key_of(id), locate(document, definition, id)?);
                    last = Some(id.clone());
                }
                Each::Entry => match &patch.path[steps.len() - 1] {
                    (map, PatchProp::Key(key)) => entry(document, map, key, &mut rows)?,
                    (_, PatchProp::Index(_)) => return Ok(Touched::All),
                },
            }
            continue;
        }
        let is_last = below + 1 == steps.len();
        match (&steps[below], &patch.action) {
            (_, PatchAction::Conflict { .. }) if !(is_last && definition.has_whole()) => {}
            (Step::Key(_), _) if definition.is_nested() && are_whole && !ends_in_entries(steps) => {
                keys_changed = true;
            }
            (Step::Key(_), _) => return Ok(Touched::All),
            (Step::Items, PatchAction::Insert { .. } | PatchAction::DeleteSeq { .. })
                if is_last && definition.has_position() =>
            {
                return Ok(Touched::All);
            }
            (Step::Items, PatchAction::Insert { values, .. }) if is_last => {
                for value in values {
                    match value.value {
                        PatchScalar::Object(_) => {
                            let found = locate(document, definition, &value.id)?;
                            rows.insert(key_of(&value.id), found);
                        }
                        PatchScalar::Scalar(_) => keys_changed = true,
                    }
                }
            }
            // Values inside the items have patches of their own.
            (Step::Items, PatchAction::Insert { .. }) if are_whole => {}
            (Step::Items, PatchAction::DeleteSeq { .. } | PatchAction::PutSeq { .. }) => {
                keys_changed = true;
                if matches!(patch.action, PatchAction::PutSeq { .. }) && definition.has_whole() {
                    return Ok(Touched::All);
                }
            }
            (Step::Entries, _) if is_last && !definition.is_nested() => match &own {
                Some(PatchProp::Key(key)) => entry(document, &patch.obj, key, &mut rows)?,
                _ => return Ok(Touched::All),
            },
            _ => return Ok(Touched::All),
        }
    }
    Ok(if keys_changed { Touched::Keys(rows) } else { Touched::Rows(rows) })
}

fn ends_in_entries(steps: &[Step]) -> bool {
    matches!(steps.last(), Some(Step::Entries))
}

/// Looks an entry of a map up.
fn entry<'d>(
    document: &'d Document,
    map: &ObjId,
    key: &std::sync::Arc<str>,
    rows: &mut BTreeMap<Vec<u8>, Option<Found<'d>>>,
) -> Result<(), Error> {
    let own = entry_key(None, key);
    let found = document.get(map, &**key)?.map(|(value, id)| Found {
        key: own.clone(),
        parent: None,
        value,
        id,
        place: Some((map.clone(), PatchProp::Key(std::sync::Arc::clone(key)))),
    });
    rows.insert(own, found);
    Ok(())
}

/// True where the properties from the root to a change are on the way of the rows, as far as the
/// way goes.
fn is_on_way(steps: &[Step], patch: &Patch, own: Option<&PatchProp>) -> bool {
    let mut props = patch.path.iter().map(|(_, prop)| prop).chain(own);
    steps.iter().all(|step| match (step, props.next()) {
        // Nothing more: an object on the way changed as a whole.
        (_, None) => true,
        (Step::Key(key), Some(PatchProp::Key(found))) => **found == **key,
        (Step::Items, Some(PatchProp::Index(_))) => true,
        (Step::Entries, Some(PatchProp::Key(_))) => true,
        _ => false,
    })
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

//! Rows inserted, changed and deleted by SQL, as edits of a document.

use shoal_crdt::{AutoCommit, ObjId, ObjType, Patch, PatchAction, PatchProp, PatchScalar};
use shoal_crdt::{PatchValue, ROOT, ReadDoc, Transactable, Value};
use shoal_sql::Value as SqlValue;

use super::define::{Column, Definition, Each, Kind, Step};
use super::rows::{self, Found, Row, entry_key, is_map, key_of, op_of};
use super::scalars::{self, Present, as_prop};
use crate::Error;

/// Edits of one document, through the rows of one projection.
pub(super) struct Edit<'e> {
    pub(super) document: &'e mut AutoCommit,
    pub(super) definition: &'e Definition,
    /// The places touched by the edits, for other projections of the document.
    pub(super) patches: &'e mut Vec<Patch>,
}

/// The result of an insertion.
pub(super) enum Inserted {
    /// The new row, read from the document.
    Made(Row),
    /// A row of this key is there.
    There(Vec<u8>),
}

/// The values an update compares the new ones of a row with.
#[derive(Clone, Copy)]
pub(super) enum Old<'v> {
    /// The values read by the statement.
    Read(&'v [SqlValue]),
    /// The values in the document, of a row displaced by `REPLACE`: no place given is no move.
    Displaced,
    /// The values in the document, at the state named by `AT`.
    There,
}

fn refused(why: impl Into<String>) -> Error {
    Error::Refused { why: why.into() }
}

/// The steps up to the row around, and the steps from there to the container of rows.
fn split(steps: &[Step]) -> (&[Step], &[Step]) {
    let container = match steps.last() {
        Some(Step::Items | Step::Entries) => &steps[..steps.len() - 1],
        _ => steps,
    };
    let star = container.iter().rposition(|step| !matches!(step, Step::Key(_)));
    container.split_at(star.map_or(0, |star| star + 1))
}

impl Edit<'_> {
    fn note(&mut self, obj: &ObjId, action: PatchAction) -> Result<(), Error> {
        let path = ReadDoc::path_of(self.document.with_pending(), obj)?;
        self.patches.push(Patch { obj: obj.clone(), path, action });
        Ok(())
    }

    /// Notes a changed value.
    fn note_put(&mut self, map: &ObjId, prop: &PatchProp) -> Result<(), Error> {
        let conflict = false;
        let value = PatchScalar::Scalar(shoal_crdt::Scalar::Null);
        let value = PatchValue { value, id: ROOT, conflict };
        let action = match prop {
            PatchProp::Key(key) => PatchAction::PutMap { key: key.clone(), value },
            PatchProp::Index(index) => PatchAction::PutSeq { index: *index, value },
        };
        self.note(map, action)
    }

    /// The row of a key, at the end of `steps`.
    fn find(
        &self,
        steps: &[Step],
        key: &[u8],
        parent: Option<&[u8]>,
    ) -> Result<Option<Found<'static>>, Error> {
        let document = self.document.with_pending();
        let found = |value: Value<'_>, id: ObjId, place| {
            let value = match value {
                Value::Object(kind) => Value::Object(kind),
                // Scalars are read again where they matter.
                Value::Scalar(_) => Value::Scalar(shoal_history::ScalarRef::Null),
            };
            let parent = parent.map(<[u8]>::to_vec);
            Found { key: key.to_vec(), parent, value, id, place: Some(place) }
        };
        match steps.last() {
            Some(Step::Items) => {
                let Some(id) = op_of(key) else { return Ok(None) };
                if let Ok(kind) = document.object_type(&id) {
                    let parents = ReadDoc::parents(document, &id)?;
                    let Some(first) = parents.first().filter(|it| it.visible) else {
                        return Ok(None);
                    };
                    if parents.len() != steps.len() || parents.iter().any(|it| !it.visible) {
                        return Ok(None);
                    }
                    let place = (first.obj.clone(), first.prop.clone());
                    return Ok(Some(found(Value::Object(kind), id, place)));
                }
                let Some(list) = self.container(steps, parent)? else { return Ok(None) };
                // An overwritten item goes by another op than its element.
                let near = document.index_of(&list, &id)?;
                let is = |index: usize| -> Result<bool, Error> {
                    Ok(document.get(&list, index)?.is_some_and(|(_, found)| found == id))
                };
                let index = match near {
                    Some(index) if is(index)? => Some(index),
                    _ => document.items(&list, 0)?.position(|item| item.id == id),
                };
                let Some(index) = index else { return Ok(None) };
                let Some((value, id)) = document.get(&list, index)? else { return Ok(None) };
                Ok(Some(found(value, id, (list, PatchProp::Index(index)))))
            }
            Some(Step::Entries) => {
                let Some(map) = self.container(steps, parent)? else { return Ok(None) };
                let (_, name) = split_entry(steps, key)?;
                let Some((value, id)) = document.get(&map, name.as_str())? else {
                    return Ok(None);
                };
                Ok(Some(found(value, id, (map, PatchProp::Key(name.into())))))
            }
            Some(Step::Key(_)) | None => {
                let mut row = None;
                rows::each_row(document, self.definition, |found| {
                    row = Some((found.id, found.place));
                    Ok(())
                })?;
                Ok(row.map(|(id, place)| Found {
                    key: Vec::new(),
                    parent: None,
                    value: Value::Object(ObjType::Map),
                    id,
                    place,
                }))
            }
        }
    }

    /// The container of the rows, if there.
    fn container(&self, steps: &[Step], parent: Option<&[u8]>) -> Result<Option<ObjId>, Error> {
        let (around, keys) = split(steps);
        let mut at = match around {
            [] => ROOT,
            around => {
                let Some(parent) = parent else { return Ok(None) };
                match self.find(around, parent, outer(around, parent)?.as_deref())? {
                    Some(found) if found.value.as_object().is_some() => found.id,
                    _ => return Ok(None),
                }
            }
        };
        let document = self.document.with_pending();
        for step in keys {
            let Step::Key(key) = step else { return Ok(None) };
            match document.get(&at, key.as_str())? {
                Some((Value::Object(_), id)) => at = id,
                _ => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The container of the rows, made where missing.
    fn make_container(&mut self, parent: Option<&[u8]>) -> Result<ObjId, Error> {
        let definition = self.definition;
        let (around, keys) = split(&definition.rows.steps);
        let mut at = match around {
            [] => ROOT,
            around => {
                let parent = parent.ok_or_else(|| {
                    refused(format!(
                        "{}: a row names the row around it in _parent",
                        definition.name
                    ))
                })?;
                let found = self.find(around, parent, outer(around, parent)?.as_deref())?;
                let missing =
                    || refused(format!("{}: no row has the key _parent", definition.name));
                found.filter(|it| it.value.as_object().is_some()).ok_or_else(missing)?.id
            }
        };
        for (place, step) in keys.iter().enumerate() {
            let Step::Key(key) = step else { continue };
            let is_last = place + 1 == keys.len();
            let kind = match definition.rows.each() {
                Each::Item if is_last => ObjType::List,
                _ => ObjType::Map,
            };
            at = self.make(&at, key, kind)?;
        }
        Ok(at)
    }

    /// The object of a key, made where there is none.
    fn make(&mut self, map: &ObjId, key: &str, kind: ObjType) -> Result<ObjId, Error> {
        let prop = PatchProp::Key(key.into());
        match Present::at(self.document, map, &prop)? {
            Present::Object(found, id) if found == kind || (is_map(found) && is_map(kind)) => {
                Ok(id)
            }
            Present::Nothing => {
                let id = self.document.put_object(map, key, kind)?;
                self.note_put(map, &prop)?;
                Ok(id)
            }
            _ => Err(refused(format!(
                "{}: {key} is no {} in this document",
                self.definition.name,
                kind.name()
            ))),
        }
    }

    /// Inserts a row. `id` is the key, for entries of maps.
    pub(super) fn insert(
        &mut self,
        id: &SqlValue,
        parent: Option<&[u8]>,
        values: &[SqlValue],
    ) -> Result<Inserted, Error> {
        let definition = self.definition;
        let own = match id {
            SqlValue::Null => None,
            SqlValue::Blob(key) => Some(key.to_vec()),
            SqlValue::Text(key) => Some(key.to_vec()),
            _ => return Err(refused(format!("{}: _id is no number", definition.name))),
        };
        match definition.rows.each() {
            Each::Item => self.insert_item(own, parent, values),
            Each::Entry => {
                let Some(own) = own else {
                    let why = format!("{}: a row names its key in _id", definition.name);
                    return Err(refused(why));
                };
                let name = String::from_utf8(own);
                let name = name.map_err(|_| refused("_id: a key is text in UTF-8"))?;
                self.insert_entry(&name, parent, values)
            }
            Each::Itself => {
                if self.find(&definition.rows.steps, &[], None)?.is_some() {
                    return Ok(Inserted::There(Vec::new()));
                }
                self.make_container(None)?;
                let found = self.find(&definition.rows.steps, &[], None)?;
                self.fill(found.expect("the object of the row was made"), values)
            }
        }
    }

    fn insert_item(
        &mut self,
        own: Option<Vec<u8>>,
        parent: Option<&[u8]>,
        values: &[SqlValue],
    ) -> Result<Inserted, Error> {
        let definition = self.definition;
        if let Some(own) = own {
            if self.find(&definition.rows.steps, &own, parent)?.is_some() {
                return Ok(Inserted::There(own));
            }
            let why = "a new row's _id is made with it: leave _id out";
            return Err(refused(format!("{}: {why}", definition.name)));
        }
        let list = self.make_container(parent)?;
        let length = self.document.with_pending().length(&list)?;
        let mut index = length;
        for (column, value) in definition.columns.iter().zip(values) {
            match (column.kind, value) {
                (Kind::Position, SqlValue::Null) => {}
                (Kind::Position, SqlValue::Int(place)) if *place >= 1 => {
                    let place = usize::try_from(*place - 1).unwrap_or(usize::MAX);
                    if place > length {
                        let why = format!("{}: the list has {length} items", column.name);
                        return Err(refused(why));
                    }
                    index = place;
                }
                (Kind::Position, _) => {
                    return Err(refused(format!("{} takes places from 1", column.name)));
                }
                _ => {}
            }
        }
        let whole = self.whole(values)?;
        let place = (list.clone(), PatchProp::Index(index));
        match whole {
            None => {
                self.document.insert_object(&list, index, ObjType::Map)?;
            }
            Some((column, value)) => {
                insert_whole(self.document, &column, (&list, index), value)?;
            }
        }
        let (value, id) = {
            let found = self.document.with_pending().get(&list, index)?;
            let (value, id) = found.expect("the item was inserted");
            (value.as_object(), id)
        };
        let shown = match value {
            Some(kind) => PatchScalar::Object(kind),
            None => PatchScalar::Scalar(shoal_crdt::Scalar::Null),
        };
        let patch = PatchValue { value: shown, id: id.clone(), conflict: false };
        self.note(&list, PatchAction::Insert { index, values: vec![patch] })?;
        let key = key_of(&id);
        let parent = parent.map(<[u8]>::to_vec);
        let value = value.map_or(Value::Scalar(shoal_history::ScalarRef::Null), Value::Object);
        self.fill(Found { key, parent, value, id, place: Some(place) }, values)
    }

    fn insert_entry(
        &mut self,
        name: &str,
        parent: Option<&[u8]>,
        values: &[SqlValue],
    ) -> Result<Inserted, Error> {
        let definition = self.definition;
        let steps = &definition.rows.steps;
        let key = entry_key(parent, name);
        if self.find(steps, &key, parent)?.is_some() {
            return Ok(Inserted::There(key));
        }
        let map = self.make_container(parent)?;
        let prop = PatchProp::Key(name.into());
        match self.whole(values)? {
            None => {
                self.document.put_object(&map, name, ObjType::Map)?;
            }
            Some((column, value)) => {
                let place = (&map, &prop);
                scalars::put(self.document, &column, place, (&SqlValue::Null, value))?;
            }
        }
        self.note_put(&map, &prop)?;
        let found = self.find(steps, &key, parent)?;
        self.fill(found.expect("the entry was put"), values)
    }

    /// The column of the row itself, where given.
    fn whole<'v>(&self, values: &'v [SqlValue]) -> Result<Option<(Column, &'v SqlValue)>, Error> {
        let given = self.definition.columns.iter().zip(values);
        let mut given = given
            .filter(|(column, value)| column.kind != Kind::Position && **value != SqlValue::Null);
        let Some((column, value)) = given.clone().find(|(column, _)| column.is_whole()) else {
            return Ok(None);
        };
        if given.any(|(other, _)| !other.is_whole()) {
            let why = format!("{} is the whole row: no other column beside it", column.name);
            return Err(refused(why));
        }
        Ok(Some((column.clone(), value)))
    }

    /// Writes the columns of a new row; gives the row read from the document.
    fn fill(&mut self, found: Found<'_>, values: &[SqlValue]) -> Result<Inserted, Error> {
        let definition = self.definition;
        let given = definition.columns.iter().zip(values).filter(|(column, value)| {
            column.kind != Kind::Position && !column.is_whole() && **value != SqlValue::Null
        });
        let columns: Vec<&Column> = given.clone().map(|(column, _)| column).collect();
        self.refuse_overlaps(&columns)?;
        for (column, value) in given {
            self.set(&found, column, (&SqlValue::Null, value))?;
        }
        self.shown(&found).map(Inserted::Made)
    }

    /// A row, read from the document.
    fn shown(&self, found: &Found<'_>) -> Result<Row, Error> {
        let document = self.document.with_pending();
        let value = match &found.place {
            Some((object, prop)) => {
                let (value, id) = document
                    .get(object, as_prop(prop))?
                    .ok_or_else(|| refused("the row is gone"))?;
                Found { value, id, ..found.clone() }
            }
            None => Found { value: found.value, ..found.clone() },
        };
        rows::row(document, self.definition, &value)
    }

    /// A row as the document has it; `None` for a key of no row.
    pub(super) fn row(&self, key: &[u8], parent: Option<&[u8]>) -> Result<Option<Row>, Error> {
        let found = self.find(&self.definition.rows.steps, key, parent)?;
        found.map(|found| self.shown(&found)).transpose()
    }

    /// Refuses other values for two columns at one place, or at places one within the other: the
    /// second would undo the first.
    fn refuse_overlaps(&self, changed: &[&Column]) -> Result<(), Error> {
        for (place, first) in changed.iter().enumerate() {
            for second in &changed[place + 1..] {
                let (first_path, second_path) = (&first.path, &second.path);
                if first_path.starts_with(second_path) || second_path.starts_with(first_path) {
                    return Err(refused(format!(
                        "{} and {} are at one place of the document: write one of them",
                        first.name, second.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Makes the columns of a row show other values; gives the row read from the document. Of
    /// `old` and `new` only the columns that are `among` count.
    pub(super) fn update(
        &mut self,
        (key, parent): (&[u8], Option<&[u8]>),
        old: Old<'_>,
        new: &[SqlValue],
        among: impl Fn(usize) -> bool,
    ) -> Result<Row, Error> {
        let definition = self.definition;
        let Some(mut found) = self.find(&definition.rows.steps, key, parent)? else {
            return Err(refused(format!("{}: the document has no such row", definition.name)));
        };
        let is_displaced = matches!(old, Old::Displaced);
        let seen;
        let old = match old {
            Old::Read(old) => old,
            Old::Displaced | Old::There => {
                seen = self.shown(&found)?.values;
                &seen
            }
        };
        let columns = definition.columns.iter().zip(old.iter().zip(new)).enumerate();
        let differ = columns.filter(|(place, (_, (old, new)))| old != new && among(*place));
        let differ: Vec<_> = differ.map(|(_, values)| values).collect();
        let valued = differ.iter().map(|(column, _)| *column);
        let valued: Vec<&Column> = valued.filter(|it| it.kind != Kind::Position).collect();
        self.refuse_overlaps(&valued)?;
        for (column, (old, new)) in differ {
            if column.kind == Kind::Position {
                // REPLACE without a place leaves the row at its place.
                if is_displaced && *new == SqlValue::Null {
                    continue;
                }
                return Err(refused(format!("{}: rows do not move", column.name)));
            }
            self.set(&found, column, (old, new))?;
            if column.is_whole() && definition.rows.each() == Each::Item {
                // An overwritten scalar is another row.
                if let Some((list, PatchProp::Index(index))) = &found.place
                    && let Some((_, id)) = self.document.with_pending().get(list, *index)?
                {
                    found.key = key_of(&id);
                }
            }
        }
        self.shown(&found)
    }

    /// Makes a column show a value.
    fn set(
        &mut self,
        found: &Found<'_>,
        column: &Column,
        (old, new): (&SqlValue, &SqlValue),
    ) -> Result<(), Error> {
        let (owner, prop) = match column.path.split_last() {
            None => found.place.clone().ok_or_else(|| {
                refused(format!("{}: the document itself is no value to write", column.name))
            })?,
            Some((last, way)) => {
                if !found.value.as_object().is_some_and(is_map) {
                    return Err(refused(format!("{}: the row is no map", column.name)));
                }
                let mut at = found.id.clone();
                for key in way {
                    let prop = PatchProp::Key(key.as_str().into());
                    if *new == SqlValue::Null
                        && matches!(Present::at(self.document, &at, &prop)?, Present::Nothing)
                    {
                        return Ok(());
                    }
                    at = self.make(&at, key, ObjType::Map)?;
                }
                (at, PatchProp::Key(last.as_str().into()))
            }
        };
        match (new, &prop) {
            (SqlValue::Null, PatchProp::Index(_)) => {
                self.document.put(&owner, as_prop(&prop), shoal_crdt::Scalar::Null)?;
            }
            (SqlValue::Null, PatchProp::Key(_)) if column.path.is_empty() => {
                self.document.put(&owner, as_prop(&prop), shoal_crdt::Scalar::Null)?;
            }
            (SqlValue::Null, PatchProp::Key(_)) => {
                self.document.delete(&owner, as_prop(&prop))?;
            }
            _ => scalars::put(self.document, column, (&owner, &prop), (old, new))?,
        }
        self.note_put(&owner, &prop)
    }

    /// Deletes a row.
    pub(super) fn delete(&mut self, key: &[u8], parent: Option<&[u8]>) -> Result<(), Error> {
        let definition = self.definition;
        let found = self.find(&definition.rows.steps, key, parent)?;
        let Some(Found { place, .. }) = found else {
            return Err(refused(format!("{}: the document has no such row", definition.name)));
        };
        let Some((owner, prop)) = place else {
            let why = "the row is the document itself, which Database::remove and \
                       `shoal doc rm` remove";
            return Err(refused(format!("{}: {why}", definition.name)));
        };
        self.document.delete(&owner, as_prop(&prop))?;
        let action = match prop {
            PatchProp::Key(key) => PatchAction::DeleteMap { key },
            PatchProp::Index(index) => PatchAction::DeleteSeq { index, length: 1 },
        };
        self.note(&owner, action)
    }
}

/// The key of the row around, where the inner `key` holds both.
fn outer(steps: &[Step], key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    match steps.last() {
        Some(Step::Entries) => Ok(split_entry(steps, key)?.0),
        _ => Ok(None),
    }
}

/// The key of the row around, and the name, of an entry's key.
fn split_entry(steps: &[Step], key: &[u8]) -> Result<(Option<Vec<u8>>, String), Error> {
    let stars = steps.iter().filter(|step| !matches!(step, Step::Key(_))).count();
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).map_err(|_| refused("_id: a key is text in UTF-8"))
    };
    if stars < 2 {
        return Ok((None, text(key)?));
    }
    let broken = || refused("_id: no key of a row");
    let (length, rest) = key.split_first_chunk::<4>().ok_or_else(broken)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (parent, name) = rest.split_at_checked(length).ok_or_else(broken)?;
    Ok((Some(parent.to_vec()), text(name)?))
}

/// Inserts a row without columns but itself.
fn insert_whole(
    document: &mut AutoCommit,
    column: &Column,
    (list, index): (&ObjId, usize),
    value: &SqlValue,
) -> Result<(), Error> {
    let prop = PatchProp::Index(index);
    match column.kind {
        Kind::Text => {
            document.insert_object(list, index, ObjType::Text)?;
            scalars::put(document, column, (list, &prop), (&SqlValue::text(""), value))
        }
        _ => {
            let value = scalars::fresh(column, value)?;
            match value {
                scalars::Fresh::Scalar(scalar) => Ok(document.insert(list, index, scalar)?),
                scalars::Fresh::Json(json) => Ok(document.insert_json(list, index, &json)?),
            }
        }
    }
}

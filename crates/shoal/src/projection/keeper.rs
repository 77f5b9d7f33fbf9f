//! SQL writes to projections: rows become edits of documents, edits become one change for each
//! document and transaction.
//!
//! The connection asks row by row ([`RowKeeper`]). An edit is made at once: the stored row, and the
//! one given by `RETURNING`, is the document's. Edits stay pending until the commit; taking a
//! statement or a savepoint back takes its edits back. The end of a statement writes all other rows
//! touched by the edits.
//!
//! `UPDATE ... AT heads` edits the document as of those heads, isolated from all that came since:
//! its edits are a change of their own, merged at the end of the statement. Before such a statement
//! the document is kept as it was, for going back.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use shoal_crdt::{Document, Moment, Patch, Transactable};
use shoal_history::ChangeHash;
use shoal_sql::{Connection, Guard, KeptReads, RowKeeper, Seen, Value as SqlValue};

use super::edit::{Edit, Inserted, Old};
use super::edited::Doc;
use super::rows::Row;
use super::{Projections, Written, tables};
use crate::compact::{self, Share};
use crate::open_document::{self, Lag};
use crate::past::heads::Heads;
use crate::tables::{self as documents, Last};
use crate::{Environment, Error};

/// Documents kept in memory from one transaction to the next.
const KEPT_DOCUMENTS: usize = 8;
/// JSON below this length is written with every transaction: the document is at hand.
const SHORT_JSON: u64 = 64 << 10;

/// The keeper of a connection's projections.
pub(crate) struct Keeper {
    environment: Environment,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    projections: Projections,
    docs: BTreeMap<i64, Doc>,
    moments: Vec<BTreeMap<i64, At>>,
    /// Effects of the running statement, by document.
    touches: BTreeMap<i64, Touches>,
    /// Counts uses of documents.
    uses: u64,
}

/// A document at a moment of a transaction.
#[derive(Clone, Copy)]
struct At {
    moment: Moment,
    flushes: u32,
    is_new: bool,
}

#[derive(Default)]
struct Touches {
    patches: Vec<Patch>,
    /// The heads before edits at other heads: what changed since is written, too.
    since: Option<Vec<ChangeHash>>,
    written: Written,
    /// The projections with new rows, by place.
    inserted: Vec<usize>,
    /// Deleted rows: the place of the projection, the key.
    gone: Vec<(usize, Vec<u8>)>,
}

impl From<Error> for shoal_sql::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Sql(error) => error,
            Error::Store(error) => error.into(),
            other => Self::Meaning { message: other.to_string(), offset: None },
        }
    }
}

impl Keeper {
    pub(crate) fn new(environment: Environment) -> Self {
        Keeper { environment, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The end of the transaction clears up after a panic of an earlier call.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with_projections<T>(&self, work: impl FnOnce(&mut Projections) -> T) -> T {
        work(&mut self.state().projections)
    }

    /// Forgets a document renamed or removed.
    pub(crate) fn forget(&self, doc: i64) {
        if let Some(doc) = self.state().docs.get_mut(&doc) {
            doc.is_checked = false;
        }
    }

    /// Runs `work` with a document in memory, if it is as stored; `None` otherwise.
    pub(crate) fn with_document<T>(
        &self,
        doc: i64,
        last: &Last,
        work: impl FnOnce(&Document) -> T,
    ) -> Option<T> {
        let state = self.state();
        let doc = state.docs.get(&doc)?;
        let is_stored = doc.stored.last.heads == last.heads && !doc.has_edits();
        is_stored.then(|| work(doc.document.with_pending()))
    }

    /// Stores pending edits in the open transaction: somebody is about to read or write documents
    /// in another way.
    pub(crate) fn flush(&self, connection: &mut Connection) -> Result<(), Error> {
        let mut state = self.state();
        state.flush(connection, &self.environment)?;
        for doc in state.docs.values_mut() {
            doc.is_checked = false;
        }
        Ok(())
    }
}

impl State {
    /// As [`State::store`], ahead of the transaction's end. A change told to others cannot be split
    /// by going back to a savepoint, and is refused within one.
    fn flush(
        &mut self,
        connection: &mut Connection,
        environment: &Environment,
    ) -> Result<(), Error> {
        let is_pending = self.docs.values().any(Doc::has_edits);
        if is_pending && !self.moments.is_empty() {
            let why = "a savepoint is open around SQL's edits of documents: release or roll back \
                       before other uses of documents";
            return Err(Error::Refused { why: why.to_owned() });
        }
        self.store(connection, environment, false)
    }

    /// Makes the pending edits of every document a change, and stores them. `compacts` looks at
    /// the chunks, too, once in a while.
    fn store(
        &mut self,
        connection: &mut Connection,
        environment: &Environment,
        compacts: bool,
    ) -> Result<(), Error> {
        let now_ms = environment.now_ms();
        for (&id, doc) in &mut self.docs {
            if !doc.has_edits() {
                continue;
            }
            doc.integrate(environment);
            doc.commit(environment);
            doc.flushes += 1;
            doc.is_unstored = false;
            doc.before.clear();
            let document: &Document = doc.document.document();
            let (stored, lag) = (&mut doc.stored, &mut doc.lag);
            let appended = open_document::append_new(connection, id, stored, document, now_ms)?;
            lag.bytes += appended;
            let heads = stored.last.heads.clone();
            let known = (id, doc.name.as_str());
            open_document::keep_json(connection, known, document, &heads, (lag, SHORT_JSON))?;
            doc.is_new = false;
            doc.until_look = doc.until_look.saturating_sub(appended);
            if compacts && doc.until_look == 0 {
                let mut share = Share::of(connection, id)?;
                if share.is_due_while_open() {
                    compact::compact(connection, id, document, now_ms)?;
                    stored.last = documents::last(connection, id)?;
                    share = Share::of(connection, id)?;
                }
                doc.until_look = share.look_again();
            }
        }
        Ok(())
    }

    /// A document by its id, as of the transaction.
    fn load(
        &mut self,
        mut reads: &KeptReads<'_>,
        environment: &Environment,
        id: i64,
    ) -> Result<(), Error> {
        self.uses += 1;
        if let Some(doc) = self.docs.get_mut(&id) {
            doc.last_use = self.uses;
            if doc.is_checked {
                return Ok(());
            }
        }
        let missing = || Error::NoDocument { name: format!("_doc {id}") };
        let name = documents::name_of(&mut reads, id)?.ok_or_else(missing)?;
        let last = documents::last(&mut reads, id)?;
        let mut doc = match self.docs.remove(&id) {
            Some(doc) if last.position >= doc.stored.last.position => Doc { name, ..doc },
            _ => Doc::new(name, environment, false),
        };
        if last != doc.stored.last {
            let document = doc.document.document();
            open_document::read_new(&mut reads, id, &mut doc.stored, document)?;
            open_document::check_heads(&doc.name, &doc.stored.last.heads, document)?;
            doc.lag = Lag::unknown();
        }
        doc.is_checked = true;
        doc.last_use = self.uses;
        self.docs.insert(id, doc);
        Ok(())
    }

    /// The id of the document named by an inserted row; a name of no document makes one.
    fn named(
        &mut self,
        mut reads: &KeptReads<'_>,
        environment: &Environment,
        (table, given): (&str, &SqlValue),
    ) -> Result<i64, Error> {
        let name = match given {
            SqlValue::Int(id) => return Ok(*id),
            SqlValue::Text(name) => String::from_utf8_lossy(name).into_owned(),
            _ => {
                let why = format!("{table}: a new row names its document in _doc, by id or name");
                return Err(Error::Refused { why });
            }
        };
        if let Some((&id, _)) = self.docs.iter().find(|(_, doc)| doc.is_new && doc.name == name) {
            return Ok(id);
        }
        if let Some(id) = documents::id_of(reads, &name)? {
            return Ok(id);
        }
        let ids = self.docs.iter().filter(|(_, doc)| doc.is_new).map(|(&id, _)| id);
        let last = documents::last_id(&mut reads)?.max(ids.max().unwrap_or(0));
        let id = last + 1;
        let doc = Doc { last_use: self.uses, ..Doc::new(name, environment, true) };
        self.docs.insert(id, doc);
        Ok(id)
    }

    /// Edits a document through the rows of a table, at present or `at` other heads.
    fn edit<T>(
        &mut self,
        (id, table): (i64, &str),
        environment: &Environment,
        at: Option<&[ChangeHash]>,
        work: impl FnOnce(&mut Edit<'_>) -> Result<T, Error>,
        note: impl FnOnce(&T) -> Option<(Vec<u8>, bool)>,
    ) -> Result<T, Error> {
        let (place, definition) = self.projections.find(table).ok_or_else(|| Error::Refused {
            why: format!("{table} is guarded like a projection, and is none"),
        })?;
        let doc = self
            .docs
            .get_mut(&id)
            .ok_or_else(|| Error::NoDocument { name: format!("_doc {id}") })?;
        let touches = self.touches.entry(id).or_default();
        let mut unused = Vec::new();
        let patches = match at {
            Some(heads) => {
                if let Some(present) = doc.isolate(heads, environment)? {
                    touches.since.get_or_insert(present);
                }
                &mut unused
            }
            None => {
                doc.integrate(environment);
                &mut touches.patches
            }
        };
        let done = work(&mut Edit { document: &mut doc.document, definition, patches })?;
        if let Some((key, is_inserted)) = note(&done) {
            touches.written.insert((place, key));
            if is_inserted && !touches.inserted.contains(&place) {
                touches.inserted.push(place);
            }
        }
        Ok(done)
    }

    /// Takes the edits since a moment back.
    fn rollback_to(&mut self, moment: usize) {
        let none = BTreeMap::new();
        let then = self.moments.get(moment).unwrap_or(&none);
        self.docs.retain(|id, doc| match then.get(id) {
            Some(at) => {
                let is_there = doc.go_back(at.flushes);
                if is_there && doc.document.is_pending() {
                    doc.document.edit(|transaction| transaction.rollback_to(at.moment));
                }
                doc.is_new = at.is_new;
                is_there
            }
            None => {
                let is_there = doc.go_back(0);
                doc.document.rollback();
                !doc.is_new && is_there
            }
        });
        self.moments.truncate(moment + 1);
    }
}

/// Where the parts of a projection's row are among the values of the table.
struct Cells<'v> {
    doc: &'v SqlValue,
    id: &'v SqlValue,
    parent: Option<&'v SqlValue>,
    values: &'v [SqlValue],
}

fn cells(row: &[SqlValue], is_nested: bool) -> Result<Cells<'_>, Error> {
    let refused = || Error::Refused { why: "the table is no projection".to_owned() };
    match (row, is_nested) {
        ([doc, id, values @ ..], false) => Ok(Cells { doc, id, parent: None, values }),
        ([doc, id, parent, values @ ..], true) => {
            Ok(Cells { doc, id, parent: Some(parent), values })
        }
        _ => Err(refused()),
    }
}

fn blob(value: Option<&SqlValue>) -> Option<&[u8]> {
    match value {
        Some(SqlValue::Blob(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Copies a projection's row into the values of a table's row.
fn assign(row: &mut [SqlValue], doc: i64, is_nested: bool, made: Row) {
    row[0] = SqlValue::Int(doc);
    row[1] = SqlValue::Blob(made.key);
    if is_nested {
        row[2] = made.parent.map_or(SqlValue::Null, SqlValue::Blob);
    }
    let values = row.iter_mut().skip(2 + usize::from(is_nested));
    values.zip(made.values).for_each(|(cell, value)| *cell = value);
}

impl RowKeeper for Keeper {
    fn insert(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        row: &mut [SqlValue],
    ) -> Result<bool, shoal_sql::Error> {
        let mut state = self.state();
        let is_nested = state.is_nested(table)?;
        let Cells { doc, id, parent, values } = cells(row, is_nested)?;
        let doc = state.named(reads, &self.environment, (table, doc))?;
        if !state.docs.get(&doc).is_some_and(|doc| doc.is_new) {
            state.load(reads, &self.environment, doc)?;
        }
        let inserted = state.edit(
            (doc, table),
            &self.environment,
            None,
            |edit| edit.insert(id, blob(parent), values),
            |done| match done {
                Inserted::Made(row) => Some((row.key.clone(), true)),
                Inserted::There(_) => None,
            },
        )?;
        match inserted {
            Inserted::Made(made) => {
                assign(row, doc, is_nested, made);
                Ok(true)
            }
            Inserted::There(key) => {
                row[0] = SqlValue::Int(doc);
                row[1] = SqlValue::Blob(key);
                Ok(false)
            }
        }
    }

    fn update(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        old: Option<&[SqlValue]>,
        new: &mut [SqlValue],
    ) -> Result<(), shoal_sql::Error> {
        let mut state = self.state();
        let is_nested = state.is_nested(table)?;
        let cells_new = cells(new, is_nested)?;
        let old = old.map(|old| cells(old, is_nested)).transpose()?;
        if let Some(old) = &old
            && (old.doc != cells_new.doc
                || old.id != cells_new.id
                || old.parent != cells_new.parent)
        {
            let why = format!("{table}: _doc and _id are the row's key, which stays");
            return Err(Error::Refused { why }.into());
        }
        let (SqlValue::Int(doc), Some(key)) = (cells_new.doc, blob(Some(cells_new.id))) else {
            return Err(Error::Refused { why: format!("{table}: no key of a row") }.into());
        };
        let doc = *doc;
        state.load(reads, &self.environment, doc)?;
        let parent = blob(cells_new.parent);
        let old = old.map_or(Old::Displaced, |old| Old::Read(old.values));
        let made = state.edit(
            (doc, table),
            &self.environment,
            None,
            |edit| edit.update((key, parent), old, cells_new.values, |_| true),
            |made| Some((made.key.clone(), false)),
        )?;
        if made.key != key {
            let key = key.to_vec();
            state.note_gone(doc, table, &key);
        }
        assign(new, doc, is_nested, made);
        Ok(())
    }

    fn update_seen(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        seen: &Seen<'_>,
        old: &[SqlValue],
        new: &mut [SqlValue],
    ) -> Result<(), shoal_sql::Error> {
        let mut state = self.state();
        let is_nested = state.is_nested(table)?;
        let first = 2 + usize::from(is_nested);
        if seen.columns.iter().any(|column| *column < first) {
            let why = format!("{table}: _doc and _id are the row's key, which stays");
            return Err(Error::Refused { why }.into());
        }
        let Cells { doc, id, parent, values } = cells(new, is_nested)?;
        let (SqlValue::Int(doc), Some(key)) = (doc, blob(Some(id))) else {
            return Err(Error::Refused { why: format!("{table}: no key of a row") }.into());
        };
        let (doc, parent) = (*doc, blob(parent));
        state.load(reads, &self.environment, doc)?;
        let is_set = |place: usize| seen.columns.contains(&(first + place));
        let made = state.update_at((doc, table), &self.environment, seen.state, |edit| {
            edit.update((key, parent), Old::There, values, is_set)?;
            Ok((key.to_vec(), parent.map(<[u8]>::to_vec)))
        })?;
        match made {
            Some(made) => assign(new, doc, is_nested, made),
            // The end of the statement writes what became of the row.
            None => new.clone_from_slice(old),
        }
        Ok(())
    }

    fn delete(
        &self,
        reads: &KeptReads<'_>,
        table: &str,
        old: &[SqlValue],
    ) -> Result<(), shoal_sql::Error> {
        let mut state = self.state();
        let old = cells(old, state.is_nested(table)?)?;
        let (SqlValue::Int(doc), Some(key)) = (old.doc, blob(Some(old.id))) else {
            return Err(Error::Refused { why: format!("{table}: no key of a row") }.into());
        };
        state.load(reads, &self.environment, *doc)?;
        let delete = |edit: &mut Edit<'_>| edit.delete(key, blob(old.parent));
        state.edit((*doc, table), &self.environment, None, delete, |()| None)?;
        state.note_gone(*doc, table, key);
        Ok(())
    }

    fn moment(&self) -> usize {
        let mut state = self.state();
        let mut at = BTreeMap::new();
        for (&id, doc) in &mut state.docs {
            doc.integrate(&self.environment);
            let is_pending = doc.document.is_pending();
            let moment = match is_pending {
                true => doc.document.edit(|transaction| transaction.moment()),
                false => Moment::default(),
            };
            if is_pending || doc.is_new || doc.flushes > 0 {
                at.insert(id, At { moment, flushes: doc.flushes, is_new: doc.is_new });
            }
        }
        state.moments.push(at);
        state.moments.len() - 1
    }

    fn rollback_to(&self, moment: usize) {
        self.state().rollback_to(moment);
    }

    fn release(&self, moment: usize) {
        self.state().moments.truncate(moment);
    }
}

impl State {
    /// Edits a row at other heads; gives the row as it will be once merged, `None` where its key
    /// is no row's then.
    fn update_at(
        &mut self,
        (id, table): (i64, &str),
        environment: &Environment,
        state: &SqlValue,
        work: impl FnOnce(&mut Edit<'_>) -> Result<(Vec<u8>, Option<Vec<u8>>), Error>,
    ) -> Result<Option<Row>, Error> {
        let missing = || Error::NoDocument { name: format!("_doc {id}") };
        let known = self.docs.get(&id).ok_or_else(missing)?.document.with_pending();
        let mut heads: Vec<ChangeHash> =
            Heads::parse(state)?.within(known)?.into_iter().map(|(_, hash)| hash).collect();
        heads.sort_unstable();
        heads.dedup();
        let place = (id, table);
        let (key, parent) = self.edit(place, environment, Some(&heads), work, |_| None)?;
        let doc = self.docs.get(&id).ok_or_else(missing)?;
        // A copy shares all that it does not change.
        let mut merged = doc.document.clone();
        merged.integrate();
        let definition = self.projections.find(table).map(|(_, definition)| definition);
        let Some(definition) = definition else { return Ok(None) };
        let mut none = Vec::new();
        let edit = Edit { document: &mut merged, definition, patches: &mut none };
        Ok(edit.row(&key, parent.as_deref())?.filter(|row| row.key == key))
    }

    /// Notes a row that a statement deletes.
    fn note_gone(&mut self, doc: i64, table: &str, key: &[u8]) {
        if let Some((place, _)) = self.projections.find(table) {
            self.touches.entry(doc).or_default().gone.push((place, key.to_vec()));
        }
    }

    fn is_nested(&self, table: &str) -> Result<bool, Error> {
        let found = self.projections.find(table);
        let (_, definition) = found.ok_or_else(|| Error::Refused {
            why: format!("{table} is guarded like a projection, and is none"),
        })?;
        Ok(definition.is_nested())
    }
}

impl shoal_sql::Keeper for Keeper {
    fn guard(&self) -> Guard {
        tables::is_guard
    }

    fn closes(&self, table: &str, columns: [&str; 2], trigger: &str) -> Option<String> {
        tables::closed(table, columns, trigger)
    }

    fn begin(&self, connection: &mut Connection) -> Result<(), shoal_sql::Error> {
        let mut state = self.state();
        state.touches.clear();
        if state.projections.is_stale(connection)? {
            // Healing reads stored changes alone.
            if !Projections::are_whole(connection)? {
                state.flush(connection, &self.environment)?;
            }
            state.projections.load(connection, &self.environment)?;
        }
        Ok(())
    }

    fn finish(&self, connection: &mut Connection) -> Result<(), shoal_sql::Error> {
        let mut state = self.state();
        let state = &mut *state;
        for (id, touches) in std::mem::take(&mut state.touches) {
            let Some(doc) = state.docs.get_mut(&id) else { continue };
            doc.integrate(&self.environment);
            if doc.is_new && documents::name_of(connection, id)?.is_none() {
                documents::put_doc(connection, (id, &doc.name), &[], "{}")?;
            }
            for place in touches.inserted {
                state.projections.check_chosen(connection, place, (id, &doc.name))?;
            }
            let document = doc.document.with_pending();
            let patches = Some((touches.patches.as_slice(), false));
            let (known, written) = ((id, doc.name.as_str()), &touches.written);
            state.projections.clear_beside(connection, id, &touches.gone)?;
            if let Some(before) = &touches.since {
                let merged = document.diff(before, &document.heads()).map_err(Error::from)?;
                let (merged, none) = (Some((merged.as_slice(), true)), Written::new());
                state.projections.write(connection, known, document, merged, &none)?;
            }
            state.projections.write(connection, known, document, patches, written)?;
        }
        Ok(())
    }

    fn commit(&self, connection: &mut Connection) -> Result<(), shoal_sql::Error> {
        Ok(self.state().store(connection, &self.environment, true)?)
    }

    fn ended(&self, committed: bool) {
        let mut state = self.state();
        state.docs.retain(|_, doc| {
            doc.document.rollback();
            let keeps = committed || (doc.flushes == 0 && !doc.is_new);
            (doc.flushes, doc.is_checked) = (0, false);
            doc.before.clear();
            keeps
        });
        state.moments.clear();
        state.touches.clear();
        while state.docs.len() > KEPT_DOCUMENTS {
            let oldest = state.docs.iter().min_by_key(|(_, doc)| doc.last_use);
            let Some((&oldest, _)) = oldest else { break };
            state.docs.remove(&oldest);
        }
    }
}

//! Documents that stay open: what is typed is appended, what others store is followed.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use shoal_crdt::{Document, DocumentJson};
use shoal_history::{ActorId, Change, ChangeHash};
use shoal_sql::Connection;

use crate::compact::{self, Share};
use crate::intake::Intake;
use crate::layout::Layout;
use crate::tables::{self, Last, Reads};
use crate::{Database, Error};

/// JSON below this length is written with every commit.
const SHORT_JSON: u64 = 1 << 10;
/// JSON below this length is written when a document is closed.
const CLOSED_JSON: u64 = 64 << 10;
/// JSON is written once the bytes appended since reach this part of its length.
const JSON_SHARE: u64 = 4;
/// Fewer bytes appended do not make JSON old that is not short.
const LEAST_LAG: u64 = 1 << 10;

/// A document of a database that stays open: it is edited as the [`Document`] it holds,
/// [`Database::commit`] makes the edits durable, and [`Database::refresh`] takes in what others
/// stored.
///
/// It does not borrow the database. Several may be open at a time, of one document too.
#[derive(Debug)]
pub struct OpenDocument {
    name: String,
    /// 0 until the first commit of a new document.
    id: i64,
    document: Document,
    stored: Stored,
    /// Bytes appended since the JSON was written.
    lag_bytes: u64,
    json_bytes: u64,
    /// Bytes that may still be appended before the chunks are looked at, to be compacted.
    until_look: u64,
}

/// How much of a document a file has.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) last: Last,
    /// The hashes of stored changes that waited for others when they were stored.
    pub(crate) waiting: BTreeSet<ChangeHash>,
}

impl Stored {
    /// Nothing of a document.
    pub(crate) fn nothing() -> Stored {
        Stored { last: Last::NONE, waiting: BTreeSet::new() }
    }
}

impl Deref for OpenDocument {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.document
    }
}

impl DerefMut for OpenDocument {
    fn deref_mut(&mut self) -> &mut Document {
        &mut self.document
    }
}

impl OpenDocument {
    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The heads that the file is known to have: all that was committed here, and what was
    /// refreshed.
    pub fn stored_heads(&self) -> &[ChangeHash] {
        &self.stored.last.heads
    }

    /// The document, no longer tied to the database.
    pub fn into_document(self) -> Document {
        self.document
    }
}

impl Database {
    /// Opens a document, to be edited and committed many times. Its edits will be by a new actor.
    ///
    /// Cost: every chunk is read. An object of a compacted history is built at the first look at
    /// this object. The changes are made and hashed when somebody asks for one of them
    /// ([`Document::verify`]), and not for an edit: the chunk was compared with all of them when it
    /// was stored, and has a checksum.
    ///
    /// # Errors
    /// As [`Database::load`].
    pub fn open_document(&mut self, name: &str) -> Result<OpenDocument, Error> {
        let actor = self.environment.new_actor();
        self.snapshot(|database| {
            let connection = &mut database.connection;
            let missing = || Error::NoDocument { name: name.to_owned() };
            let layout = Layout::of(connection)?;
            if layout == Layout::Absent {
                return Err(missing());
            }
            let row = tables::find(connection, name)?.ok_or_else(missing)?;
            let mut lag_bytes = 0;
            let (document, stored) = match layout {
                Layout::Second => {
                    let (document, stored) = read_whole(connection, row.id, &actor)?;
                    check_heads(name, &stored.last.heads, &document)?;
                    if row.heads != stored.last.heads {
                        match tables::bytes_since(connection, row.id, &row.heads)? {
                            Some(bytes) => lag_bytes = bytes,
                            // Within a compacted history, or nowhere.
                            None if document.has_heads(&row.heads) => lag_bytes = row.json_bytes,
                            None => check_heads(name, &row.heads, &document)?,
                        }
                    }
                    (document, stored)
                }
                Layout::First | Layout::Absent => {
                    let mut document = Document::new(actor);
                    document.apply_changes(crate::layout::first_changes(connection, row.id)?)?;
                    check_heads(name, &row.heads, &document)?;
                    // The chunks of the present are made by the first commit.
                    (document, Stored::nothing())
                }
            };
            Ok(OpenDocument {
                name: row.name,
                id: row.id,
                document,
                stored,
                lag_bytes,
                json_bytes: row.json_bytes,
                until_look: 0,
            })
        })
    }

    /// A document that need not be there yet: an empty one is stored by the first commit.
    ///
    /// # Errors
    /// As [`Database::load`], but for [`Error::NoDocument`].
    pub fn open_or_create(&mut self, name: &str) -> Result<OpenDocument, Error> {
        match self.open_document(name) {
            Err(Error::NoDocument { .. }) => Ok(OpenDocument {
                name: name.to_owned(),
                id: 0,
                document: Document::new(self.environment.new_actor()),
                stored: Stored::nothing(),
                lag_bytes: 0,
                json_bytes: 0,
                until_look: compact::LEAST_BYTES,
            }),
            opened => opened,
        }
    }

    /// Makes the edits of an open document durable, and takes in what others stored meanwhile.
    /// Within a transaction of the connection the edits become durable with it.
    ///
    /// Returns the heads. Cost: what was edited, and what others stored; not the document. Its JSON
    /// in `_shoal_doc` is written anew once about a quarter of its length was appended since, and
    /// by [`Database::settle`].
    ///
    /// # Errors
    /// [`Error::NoDocument`] where somebody removed it; [`Error::Store`] when the file cannot be
    /// written. Nothing is stored then.
    pub fn commit(&mut self, open: &mut OpenDocument) -> Result<Vec<ChangeHash>, Error> {
        let now_ms = self.environment.now_ms();
        let state = self.write(|database| database.commit_open(open, now_ms))?;
        let heads = state.heads().to_vec();
        self.note_commit(open, state, now_ms);
        Ok(heads)
    }

    /// Takes note of a commit, and compacts the document if that is due.
    pub(crate) fn note_commit(&mut self, open: &mut OpenDocument, state: State, now_ms: i64) {
        let State { id, stored, lag, appended } = state;
        (open.id, open.stored) = (id, stored);
        (open.lag_bytes, open.json_bytes) = (lag.bytes, lag.json_bytes);
        match open.until_look.checked_sub(appended) {
            Some(left) if left > 0 || appended == 0 => open.until_look = left,
            // The commit is durable whatever becomes of this: a later one tries again.
            _ => drop(self.compact_if_due(open, now_ms)),
        }
    }

    /// Compacts an open document once what was appended takes more than what the last compaction
    /// left, and has an eighth of its changes: in a transaction of its own.
    fn compact_if_due(&mut self, open: &mut OpenDocument, now_ms: i64) -> Result<(), Error> {
        if self.connection.in_transaction() {
            return Ok(());
        }
        let OpenDocument { id, document, stored, .. } = open;
        let share = self.write(|database| {
            let connection = &mut database.connection;
            let share = Share::of(connection, *id)?;
            if !share.is_due_while_open() || tables::last(connection, *id)? != stored.last {
                return Ok(share);
            }
            compact::compact(connection, *id, document, now_ms)?;
            stored.last = tables::last(connection, *id)?;
            Share::of(connection, *id)
        })?;
        open.until_look = share.look_again();
        Ok(())
    }

    /// Appends the edits of an open document within the open transaction. The result is for
    /// [`Database::note_commit`], once the transaction is committed.
    pub(crate) fn commit_open(
        &mut self,
        open: &mut OpenDocument,
        now_ms: i64,
    ) -> Result<State, Error> {
        let connection = &mut self.connection;
        let mut lag = Lag { bytes: open.lag_bytes, json_bytes: open.json_bytes };
        let mut stored = open.stored.clone();
        let mut id = open.id;
        if stored.last == Last::NONE {
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            id = match tables::find(connection, &open.name)? {
                Some(row) => row.id,
                None if id != 0 => return Err(Error::NoDocument { name: open.name.clone() }),
                None => {
                    let id = tables::last_doc_id(connection)? + 1;
                    tables::put_doc(connection, (id, &open.name), &[], "{}")?;
                    id
                }
            };
        }
        let last = tables::last(connection, id)?;
        if last != stored.last {
            if last == Last::NONE && tables::find_id(connection, id)?.is_none() {
                return Err(Error::NoDocument { name: open.name.clone() });
            }
            if last.position > stored.last.position {
                read_new(connection, id, &mut stored, &mut open.document)?;
            } else {
                // A transaction was rolled back: its changes are new once more.
                stored = Stored::nothing();
                read_new(connection, id, &mut stored, &mut open.document)?;
            }
        }
        let before = stored.last.heads.clone();
        let appended = append_new(connection, id, &mut stored, &open.document, now_ms)?;
        lag.bytes += appended;
        if stored.last.heads == before {
            return Ok(State { id, stored, lag, appended });
        }
        self.project(id, &open.document, &before)?;
        let connection = &mut self.connection;
        let (known, heads) = ((id, open.name.as_str()), &stored.last.heads);
        keep_json(connection, known, &open.document, heads, (&mut lag, SHORT_JSON))?;
        Ok(State { id, stored, lag, appended })
    }

    /// Takes in what others stored since; false when there was nothing.
    ///
    /// Cost: what others stored; otherwise one look at the end of the document's chunks.
    ///
    /// # Errors
    /// [`Error::NoDocument`] where somebody removed it; what is wrong with the tables.
    pub fn refresh(&mut self, open: &mut OpenDocument) -> Result<bool, Error> {
        if open.stored.last == Last::NONE {
            return Ok(false);
        }
        self.snapshot(|database| {
            let connection = &mut database.connection;
            let last = tables::last(connection, open.id)?;
            if last == Last::NONE && tables::find_id(connection, open.id)?.is_none() {
                return Err(Error::NoDocument { name: open.name.clone() });
            }
            if last.position <= open.stored.last.position {
                return Ok(false);
            }
            let before = open.document.heads();
            read_new(connection, open.id, &mut open.stored, &mut open.document)?;
            Ok(open.document.heads() != before)
        })
    }

    /// Commits an open document, brings its JSON up to date if short, compacts it if much was
    /// appended, and closes it. Returns the heads.
    ///
    /// Cost: as [`Database::commit`], and JSON of less than 64 KiB. Longer JSON is written as by
    /// commits, and by [`Database::settle`].
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn close(&mut self, mut open: OpenDocument) -> Result<Vec<ChangeHash>, Error> {
        let heads = self.commit(&mut open)?;
        let now_ms = self.environment.now_ms();
        let OpenDocument { id, name, document, json_bytes, .. } = open;
        let is_short = json_bytes < CLOSED_JSON;
        self.write(|database| {
            let connection = &mut database.connection;
            if is_short {
                return settle_document(connection, (id, &name), &document, now_ms);
            }
            let last = tables::last(connection, id)?;
            if last.heads == document.heads() && compact::is_due(connection, id)? {
                compact::compact(connection, id, &document, now_ms)?;
            }
            Ok(())
        })?;
        Ok(heads)
    }
}

/// An open document's state in the file, once its transaction is committed.
pub(crate) struct State {
    id: i64,
    stored: Stored,
    lag: Lag,
    /// Bytes appended by the transaction.
    appended: u64,
}

impl State {
    fn heads(&self) -> &[ChangeHash] {
        &self.stored.last.heads
    }
}

/// How far the JSON of a document is behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lag {
    pub(crate) bytes: u64,
    json_bytes: u64,
}

impl Lag {
    /// Of a document whose JSON nobody looked at.
    pub(crate) fn unknown() -> Lag {
        Lag { bytes: 0, json_bytes: u64::MAX }
    }
}

/// Writes the JSON of a document once due: shorter than `short`, or much appended since. Notes the
/// document as behind otherwise.
pub(crate) fn keep_json(
    connection: &mut Connection,
    (id, name): (i64, &str),
    document: &Document,
    heads: &[ChangeHash],
    (lag, short): (&mut Lag, u64),
) -> Result<(), Error> {
    if lag.json_bytes == u64::MAX {
        let row = tables::find_id(connection, id)?;
        lag.json_bytes = row.map_or(0, |row| row.json_bytes);
    }
    let due = (lag.json_bytes / JSON_SHARE).max(LEAST_LAG);
    if lag.json_bytes < short || lag.bytes >= due {
        let json = json_of(name, document)?;
        *lag = put_json(connection, id, heads, &json)?;
    } else if !tables::is_lagging(connection, id)? {
        // Not remembered from one commit to the next: anybody may settle the document meanwhile.
        tables::set_lagging(connection, id, true)?;
    }
    Ok(())
}

/// Writes the JSON of a document where it is older than the chunks, and compacts these if much was
/// appended since the last time.
pub(crate) fn settle_document(
    connection: &mut Connection,
    (id, name): (i64, &str),
    document: &Document,
    now_ms: i64,
) -> Result<(), Error> {
    let Some(row) = tables::find_id(connection, id)? else { return Ok(()) };
    let last = tables::last(connection, id)?;
    // Somebody stored more than this document has: they settle it.
    if last.heads != document.heads() {
        return Ok(());
    }
    if row.heads != last.heads || row.json_bytes == 0 {
        let json = json_of(name, document)?;
        put_json(connection, id, &last.heads, &json)?;
    }
    if compact::is_due(connection, id)? {
        compact::compact(connection, id, document, now_ms)?;
    }
    Ok(())
}

/// Writes the JSON of a document at those heads.
fn put_json(
    connection: &mut Connection,
    id: i64,
    heads: &[ChangeHash],
    json: &str,
) -> Result<Lag, Error> {
    let name = tables::name_of(connection, id)?.ok_or(Error::Corrupt {
        table: tables::DOC,
        rowid: id,
        why: "the document has chunks and no row",
    })?;
    tables::put_doc(connection, (id, &name), heads, json)?;
    tables::set_lagging(connection, id, false)?;
    Ok(Lag { bytes: 0, json_bytes: json.len() as u64 })
}

/// A document as JSON.
pub(crate) fn json_of(name: &str, document: &Document) -> Result<String, Error> {
    serde_json::to_string(&DocumentJson::new(document))
        .map_err(|error| Error::Json { name: name.to_owned(), why: error.to_string() })
}

/// Reads a document whole, for edits by `actor`.
pub(crate) fn read_whole(
    connection: &mut Connection,
    id: i64,
    actor: &ActorId,
) -> Result<(Document, Stored), Error> {
    let (mut document, mut stored) = (Document::new(actor.clone()), Stored::nothing());
    read_new(connection, id, &mut stored, &mut document)?;
    Ok((document, stored))
}

/// Takes the chunks behind those that `stored` knows into a document.
pub(crate) fn read_new(
    reads: &mut impl Reads,
    id: i64,
    stored: &mut Stored,
    document: &mut Document,
) -> Result<(), Error> {
    let mut intake = Intake::new(document);
    let after = stored.last.position;
    let last = tables::each_chunk(reads, id, after, |rowid, bytes| intake.take(rowid, bytes))?;
    stored.waiting.extend(intake.finish()?);
    if last != Last::NONE {
        stored.last = last;
    }
    if stored.last.waiting == 0 {
        stored.waiting.clear();
    } else {
        // Those that the heads do not lead to, whether or not they still wait in this document.
        let since = document.changes_since(&stored.last.heads).into_iter();
        let beyond: BTreeSet<ChangeHash> =
            since.chain(document.queued_changes()).map(Change::hash).collect();
        stored.waiting.retain(|hash| beyond.contains(hash));
    }
    Ok(())
}

/// Appends the changes of a document that are not stored, waiting ones too; gives the bytes
/// appended.
pub(crate) fn append_new(
    connection: &mut Connection,
    id: i64,
    stored: &mut Stored,
    document: &Document,
    now_ms: i64,
) -> Result<u64, Error> {
    let queued = document.queued_changes();
    let mut last = stored.last.clone();
    (last.heads, last.waiting) = (document.heads(), queued.len() as u64);
    let mut bytes = 0;
    let since = document.changes_since(&stored.last.heads);
    for change in since.into_iter().chain(queued.iter().copied()) {
        if stored.waiting.contains(&change.hash()) {
            continue;
        }
        last.position += 1;
        let chunk = change.raw_bytes();
        tables::append(connection, id, &last, (1, chunk), now_ms)?;
        bytes += chunk.len() as u64;
    }
    stored.waiting = queued.iter().map(|change| change.hash()).collect();
    if bytes > 0 {
        stored.last = last;
    }
    Ok(bytes)
}

/// Compares the heads of a document with those that its chunks should lead to.
pub(crate) fn check_heads(
    name: &str,
    heads: &[ChangeHash],
    document: &Document,
) -> Result<(), Error> {
    let reached = document.heads();
    if reached == heads {
        return Ok(());
    }
    let missing = heads.iter().find(|head| document.change_by_hash(head).is_none());
    let missing = missing.or(reached.first()).copied().unwrap_or(ChangeHash([0; 32]));
    Err(Error::HeadsDiffer { name: name.to_owned(), missing })
}

//! Projections: contents of documents as rows of an ordinary table.
//!
//! A definition (`define`) says which documents, which objects of each are rows, and which of their
//! values are columns. The rows (`rows`) are a pure function of the documents; a commit finds the
//! rows it touches from its patches (`touched`) and writes these in its own transaction. The table
//! is made by an ordinary `CREATE TABLE`, so that any `sqlite3` reads the rows; triggers refuse
//! whoever writes to them but Shoal.

mod define;
mod past;
mod rows;
mod tables;
mod touched;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use shoal_crdt::Document;
use shoal_history::ChangeHash;
use shoal_sql::Connection;

use crate::layout::Layout;
use crate::open_document;
use crate::tables as documents;
use crate::{Database, Error};

pub(crate) use define::{Definition, ProjectionStatement, parse};
pub(crate) use past::{kept_definition, past_rows};
use rows::Row;
use tables::Statements;
use touched::{Touched, touched};

/// The projections of a file, as of a schema cookie.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    cookie: Option<u32>,
    all: Vec<Projection>,
}

#[derive(Debug)]
struct Projection {
    definition: Definition,
    /// By document: its name when it was asked, and the answer of the definition's `WHERE`.
    chosen: BTreeMap<i64, (String, bool)>,
    statements: Statements,
}

impl Database {
    /// Runs `CREATE PROJECTION` or `DROP PROJECTION`; false for any other statement, which is left
    /// to [`Database::sql`].
    ///
    /// Cost: creating reads every document that the projection is from.
    ///
    /// # Errors
    /// [`Error::Definition`] for words that fit nowhere and names that are taken.
    pub fn define(&mut self, sql: &str) -> Result<bool, Error> {
        let Some(statement) = parse(sql)? else { return Ok(false) };
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let connection = &mut database.connection;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            match statement {
                ProjectionStatement::Create { definition, if_not_exists } => {
                    if connection.schema()?.object(&definition.name).is_some() {
                        let is_one = tables::definition(connection, &definition.name)?.is_some();
                        if is_one && if_not_exists {
                            return Ok(());
                        }
                        let what = if is_one { "projection" } else { "table or view" };
                        let why = format!("{what} {} already exists", definition.name);
                        return Err(Error::Definition { why });
                    }
                    tables::create(connection, &definition)?;
                    database.fill(&definition)
                }
                ProjectionStatement::Drop { name, if_exists } => {
                    if tables::definition(connection, &name)?.is_none() {
                        let why = format!("no such projection: {name}");
                        return if if_exists { Ok(()) } else { Err(Error::Definition { why }) };
                    }
                    tables::remove(connection, &name)
                }
            }
        })?;
        Ok(true)
    }

    /// True for a text that [`Database::define`] runs, or refuses.
    pub fn is_definition(sql: &str) -> bool {
        !matches!(parse(sql), Ok(None))
    }

    /// The projections: the name of each, and the statement that made it.
    ///
    /// # Errors
    /// What is wrong with the tables.
    pub fn projections(&mut self) -> Result<Vec<(String, String)>, Error> {
        self.snapshot(|database| {
            let all = tables::definitions(&mut database.connection)?.into_iter();
            Ok(all.map(|definition| (definition.name, definition.sql)).collect())
        })
    }

    /// Makes the rows of a projection anew from the documents.
    ///
    /// # Errors
    /// [`Error::Definition`] where there is no such projection.
    pub fn rebuild(&mut self, name: &str) -> Result<(), Error> {
        self.write(|database| {
            let connection = &mut database.connection;
            let Some(definition) = tables::definition(connection, name)? else {
                return Err(Error::Definition { why: format!("no such projection: {name}") });
            };
            tables::remove(connection, name)?;
            tables::create(connection, &definition)?;
            database.fill(&definition)
        })
    }

    /// Writes the rows of every document into an empty projection.
    fn fill(&mut self, definition: &Definition) -> Result<(), Error> {
        let mut statements = Statements::default();
        for doc in documents::docs(&mut self.connection)? {
            if !tables::chooses(&mut self.connection, definition, &doc.name)? {
                continue;
            }
            let actor = self.environment.new_actor();
            let connection = &mut self.connection;
            let (document, _) = open_document::read_whole(connection, doc.id, &actor)?;
            write_all((connection, &mut statements), definition, doc.id, &document)?;
        }
        Ok(())
    }

    /// Brings the rows of a document up to date after a commit, within its transaction. `before`
    /// are the heads that the rows are of.
    pub(crate) fn project(
        &mut self,
        doc: i64,
        document: &Document,
        before: &[ChangeHash],
    ) -> Result<(), Error> {
        self.load_projections()?;
        if self.projections.all.is_empty() {
            return Ok(());
        }
        let Some(name) = documents::name_of(&mut self.connection, doc)? else { return Ok(()) };
        let mut patches = None;
        let connection = &mut self.connection;
        for projection in &mut self.projections.all {
            if !projection.chooses(connection, doc, &name)? {
                continue;
            }
            let Projection { definition, statements, .. } = projection;
            if before.is_empty() {
                write_all((connection, statements), definition, doc, document)?;
                continue;
            }
            if patches.is_none() {
                patches = Some(document.diff(before, &document.heads())?);
            }
            let patches = patches.as_deref().unwrap_or_default();
            match touched(document, definition, patches)? {
                Touched::All => write_all((connection, statements), definition, doc, document)?,
                Touched::Rows(rows) => {
                    let mut writer = tables::Writer::new(connection, definition, doc, statements);
                    for (key, value) in rows {
                        match value {
                            None => writer.delete(&key)?,
                            Some((kind, id)) => {
                                let values = rows::values(document, definition, kind.value(), &id)?;
                                writer.put(&Row { key, values })?;
                            }
                        }
                    }
                }
                Touched::Keys(some) => {
                    write_keys((connection, statements), definition, doc, document, &some)?
                }
            }
        }
        Ok(())
    }

    /// Takes the rows of a document out of all projections, or writes them under its new name.
    pub(crate) fn project_renamed(&mut self, doc: i64) -> Result<(), Error> {
        self.load_projections()?;
        if self.projections.all.is_empty() {
            return Ok(());
        }
        let name = documents::name_of(&mut self.connection, doc)?;
        let actor = self.environment.new_actor();
        let mut document = None;
        let connection = &mut self.connection;
        for projection in &mut self.projections.all {
            let chosen = match &name {
                Some(name) => projection.chooses(connection, doc, name)?,
                None => false,
            };
            let Projection { definition, statements, .. } = projection;
            if chosen {
                let document = match &mut document {
                    Some(document) => document,
                    none => none.insert(open_document::read_whole(connection, doc, &actor)?.0),
                };
                write_all((connection, statements), definition, doc, document)?;
            } else {
                tables::clear(connection, definition, doc)?;
            }
        }
        Ok(())
    }

    /// Reads the definitions where the schema changed since, and heals tables that somebody
    /// altered.
    fn load_projections(&mut self) -> Result<(), Error> {
        let cookie = self.connection.schema()?.cookie();
        if self.projections.cookie == Some(cookie) {
            return Ok(());
        }
        let definitions = tables::definitions(&mut self.connection)?;
        for definition in &definitions {
            if !tables::is_whole(&mut self.connection, definition)? {
                tables::remove(&mut self.connection, &definition.name)?;
                tables::create(&mut self.connection, definition)?;
                self.fill(definition)?;
            }
        }
        let all = definitions.into_iter();
        let all = all.map(|definition| Projection {
            definition,
            chosen: BTreeMap::new(),
            statements: Statements::default(),
        });
        self.projections.all = all.collect();
        self.projections.cookie = Some(self.connection.schema()?.cookie());
        Ok(())
    }
}

impl Projection {
    /// True where the projection has rows of a document.
    fn chooses(
        &mut self,
        connection: &mut Connection,
        doc: i64,
        name: &str,
    ) -> Result<bool, Error> {
        match self.chosen.get(&doc) {
            Some((known, chosen)) if known == name => Ok(*chosen),
            _ => {
                let chosen = tables::chooses(connection, &self.definition, name)?;
                self.chosen.insert(doc, (name.to_owned(), chosen));
                Ok(chosen)
            }
        }
    }
}

/// Writes all rows of a document, and deletes the others.
fn write_all(
    (connection, statements): (&mut Connection, &mut Statements),
    definition: &Definition,
    doc: i64,
    document: &Document,
) -> Result<(), Error> {
    let mut wanted = Vec::new();
    rows::each_key(document, definition, |key, value, id| {
        wanted.push(Row { key, values: rows::values(document, definition, value, id)? });
        Ok(())
    })?;
    let keys: BTreeSet<&[u8]> = wanted.iter().map(|row| row.key.as_slice()).collect();
    delete_others((connection, statements), definition, doc, |key| keys.contains(key))?;
    let mut writer = tables::Writer::new(connection, definition, doc, statements);
    wanted.iter().try_for_each(|row| writer.put(row))
}

/// Deletes the rows of a document whose keys are not wanted any more; gives those that stay.
fn delete_others(
    (connection, statements): (&mut Connection, &mut Statements),
    definition: &Definition,
    doc: i64,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut present = tables::keys(connection, definition, doc)?;
    let mut writer = tables::Writer::new(connection, definition, doc, statements);
    for key in present.iter().filter(|key| !is_wanted(key)) {
        writer.delete(key)?;
    }
    present.retain(|key| is_wanted(key));
    Ok(present)
}

/// Makes the keys of a document's rows those of the document, and writes the rows that are new or
/// touched.
fn write_keys(
    (connection, statements): (&mut Connection, &mut Statements),
    definition: &Definition,
    doc: i64,
    document: &Document,
    some: &BTreeMap<Vec<u8>, Option<(touched::RowValue, shoal_crdt::ObjId)>>,
) -> Result<(), Error> {
    let mut wanted = BTreeSet::new();
    rows::each_key(document, definition, |key, _, _| {
        wanted.insert(key);
        Ok(())
    })?;
    let present =
        delete_others((connection, statements), definition, doc, |key| wanted.contains(key))?;
    let mut new = Vec::new();
    rows::each_key(document, definition, |key, value, id| {
        if !present.contains(&key) || some.contains_key(&key) {
            new.push(Row { key, values: rows::values(document, definition, value, id)? });
        }
        Ok(())
    })?;
    let mut writer = tables::Writer::new(connection, definition, doc, statements);
    new.iter().try_for_each(|row| writer.put(row))
}

//! Projections: contents of documents as rows of an ordinary table.
//!
//! A definition (`define`) says which documents, which objects of each are rows, and which of their
//! values are columns. The rows (`rows`) are a pure function of the documents; a commit finds the
//! rows it touches from its patches (`touched`) and writes these in its own transaction. The table
//! is made by an ordinary `CREATE TABLE`, so that any `sqlite3` reads the rows; triggers refuse
//! every other writer. Rows written through Shoal become changes of documents (`keeper`, `edit`,
//! `scalars`).

mod define;
mod edit;
mod edited;
mod fill;
mod keeper;
mod past;
mod rows;
mod scalars;
mod tables;
mod touched;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use shoal_crdt::{Document, Patch};
use shoal_history::ChangeHash;
use shoal_sql::Connection;

use crate::layout::Layout;
use crate::open_document;
use crate::tables as documents;
use crate::{Database, Environment, Error};

pub(crate) use define::{Definition, ProjectionStatement, parse};
use fill::{fill, write_new};
pub(crate) use keeper::Keeper;
pub(crate) use past::{kept_definition, past_rows};
use rows::{Found, Row};
use tables::{Part, Statements};
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

/// Rows already written by a statement, and left alone: the place of the projection, the key.
type Written = BTreeSet<(usize, Vec<u8>)>;

impl Database {
    /// Runs `CREATE PROJECTION`, `DROP PROJECTION`, `REBUILD PROJECTION`, `CREATE PROPERTY GRAPH`
    /// or `DROP PROPERTY GRAPH`; false for any other statement, which is left to
    /// [`Database::sql`].
    ///
    /// Cost: creating a projection, or making its rows anew, reads all of its documents.
    ///
    /// # Errors
    /// [`Error::Definition`] for words of a projection that fit nowhere and names that are taken;
    /// [`Error::Sql`] for those of a graph.
    pub fn define(&mut self, sql: &str) -> Result<bool, Error> {
        if shoal_graph::pgq::is_definition(sql) {
            shoal_graph::pgq::define(&mut self.connection, sql)?;
            return Ok(true);
        }
        let Some(statement) = parse(sql)? else { return Ok(false) };
        let now_ms = self.environment.now_ms();
        self.write(|database| {
            let Database { connection, environment, .. } = database;
            Layout::of(connection)?.bring_up(connection, now_ms)?;
            match statement {
                ProjectionStatement::Create { mut definition, if_not_exists } => {
                    let all = tables::definitions(connection)?;
                    if definition.is(documents::DOCUMENTS) {
                        let why = format!("{} is the table of all documents", definition.name);
                        return Err(Error::Definition { why });
                    }
                    for part in tables::parts(&definition) {
                        let name = part.table(&definition.name);
                        if connection.schema()?.object(&name).is_none() {
                            continue;
                        }
                        let is_one = part == Part::Rows
                            && all.iter().any(|it| it.name.eq_ignore_ascii_case(&name));
                        if is_one && if_not_exists {
                            return Ok(());
                        }
                        let what = if is_one { "projection" } else { "table or view" };
                        let why = format!("{what} {name} already exists");
                        return Err(Error::Definition { why });
                    }
                    define::resolve(&mut definition, &all)?;
                    tables::check_condition(connection, &definition)?;
                    tables::create(connection, &definition)?;
                    fill(connection, environment, &definition)
                }
                ProjectionStatement::Rebuild { name } => rebuild(connection, environment, &name),
                ProjectionStatement::Drop { name, if_exists } => {
                    let all = match tables::definitions(connection) {
                        Ok(all) => all,
                        // A damaged definition is dropped like any other.
                        Err(_) if tables::forget(connection, &name)? => return Ok(()),
                        Err(error) => return Err(error),
                    };
                    let is = |known: &str| known.eq_ignore_ascii_case(&name);
                    let Some(definition) = all.iter().find(|it| is(&it.name)) else {
                        let why = format!("no such projection: {name}");
                        return match if_exists || tables::forget(connection, &name)? {
                            true => Ok(()),
                            false => Err(Error::Definition { why }),
                        };
                    };
                    let child = all.iter().find(|it| it.parent.as_deref().is_some_and(is));
                    if let Some(child) = child {
                        let why = format!("projection {} is from {name}", child.name);
                        return Err(Error::Definition { why });
                    }
                    tables::remove(connection, definition)
                }
            }
        })?;
        Ok(true)
    }

    /// True for a text that [`Database::define`] runs, or refuses.
    pub fn is_definition(sql: &str) -> bool {
        shoal_graph::pgq::is_definition(sql) || !matches!(parse(sql), Ok(None))
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
            let Database { connection, environment, .. } = database;
            Layout::of(connection)?;
            rebuild(connection, environment, name)
        })
    }

    /// Brings the rows of a document up to date after a commit, within its transaction. `before`
    /// are the heads that the rows are of.
    pub(crate) fn project(
        &mut self,
        doc: i64,
        document: &Document,
        before: &[ChangeHash],
    ) -> Result<(), Error> {
        let Database { connection, environment, keeper, .. } = self;
        keeper.with_projections(|projections| {
            projections.load(connection, environment)?;
            if projections.all.is_empty() {
                return Ok(());
            }
            let Some(name) = documents::name_of(connection, doc)? else { return Ok(()) };
            let mut is_chosen = false;
            for projection in &mut projections.all {
                is_chosen |= projection.chooses(connection, doc, &name)?;
            }
            let patches = match before {
                _ if !is_chosen => return Ok(()),
                [] => None,
                before => Some(document.diff(before, &document.heads())?),
            };
            let patches = patches.as_deref().map(|patches| (patches, true));
            projections.write(connection, (doc, &name), document, patches, &Written::new())
        })
    }

    /// Takes the rows of a document out of all projections, or writes them under its new name.
    pub(crate) fn project_renamed(&mut self, doc: i64) -> Result<(), Error> {
        let Database { connection, environment, keeper, .. } = self;
        keeper.forget(doc);
        keeper.with_projections(|projections| projections.renamed(connection, environment, doc))
    }
}

/// Makes the tables and the rows of a projection anew.
fn rebuild(
    connection: &mut Connection,
    environment: &Environment,
    name: &str,
) -> Result<(), Error> {
    let Some(definition) = tables::definition(connection, name)? else {
        return Err(Error::Definition { why: format!("no such projection: {name}") });
    };
    tables::remake(connection, &definition)?;
    fill(connection, environment, &definition)
}

impl Projections {
    /// Brings the rows of a document up to date by patches, and by whether these tell every value
    /// below a new one; all of its rows without patches.
    fn write(
        &mut self,
        connection: &mut Connection,
        (doc, name): (i64, &str),
        document: &Document,
        patches: Option<(&[Patch], bool)>,
        written: &Written,
    ) -> Result<(), Error> {
        for (place, projection) in self.all.iter_mut().enumerate() {
            if !projection.chooses(connection, doc, name)? {
                continue;
            }
            let Projection { definition, statements, .. } = projection;
            let found = match patches {
                Some((patches, are_whole)) => touched(document, definition, patches, are_whole)?,
                None => Touched::All,
            };
            match found {
                Touched::All => write_all((connection, statements), definition, doc, document)?,
                Touched::Rows(rows) => {
                    let mut writer = tables::Writer::new(connection, definition, doc, statements);
                    for (key, found) in rows {
                        let Some(found) = found else {
                            writer.delete(&key)?;
                            continue;
                        };
                        let row = rows::row(document, definition, &found)?;
                        // A statement's own rows are there.
                        match written.contains(&(place, key)) {
                            true => writer.put_beside(&row)?,
                            false => writer.put(&row)?,
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

    fn renamed(
        &mut self,
        connection: &mut Connection,
        environment: &Environment,
        doc: i64,
    ) -> Result<(), Error> {
        self.load(connection, environment)?;
        if self.all.is_empty() {
            return Ok(());
        }
        let name = documents::name_of(connection, doc)?;
        let actor = environment.new_actor();
        let mut document = None;
        for projection in &mut self.all {
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

    /// Reads the definitions where the schema changed since, and heals altered tables.
    fn load(
        &mut self,
        connection: &mut Connection,
        environment: &Environment,
    ) -> Result<(), Error> {
        let cookie = connection.schema()?.cookie();
        if self.cookie == Some(cookie) {
            return Ok(());
        }
        // A layout changes together with the tables, and so with the cookie.
        Layout::of(connection)?;
        let definitions = tables::definitions(connection)?;
        for definition in &definitions {
            if !tables::is_whole(connection, definition)? {
                tables::remake(connection, definition)?;
                fill(connection, environment, definition)?;
            }
        }
        let all = definitions.into_iter();
        let all = all.map(|definition| Projection {
            definition,
            chosen: BTreeMap::new(),
            statements: Statements::default(),
        });
        self.all = all.collect();
        self.cookie = Some(connection.schema()?.cookie());
        Ok(())
    }

    /// True where the schema changed since the definitions were read.
    fn is_stale(&self, connection: &mut Connection) -> Result<bool, Error> {
        Ok(self.cookie != Some(connection.schema()?.cookie()))
    }

    /// Deletes the entries beside rows deleted by a statement.
    fn clear_beside(
        &mut self,
        connection: &mut Connection,
        doc: i64,
        gone: &[(usize, Vec<u8>)],
    ) -> Result<(), Error> {
        for (place, key) in gone {
            let Projection { definition, statements, .. } = &mut self.all[*place];
            let mut writer = tables::Writer::new(connection, definition, doc, statements);
            writer.clear_beside(key)?;
        }
        Ok(())
    }

    /// True where no table of a projection needs healing.
    fn are_whole(connection: &mut Connection) -> Result<bool, Error> {
        for definition in &tables::definitions(connection)? {
            if !tables::is_whole(connection, definition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Refuses a new row of a document out of the projection: nobody would see the row.
    fn check_chosen(
        &mut self,
        connection: &mut Connection,
        place: usize,
        (doc, name): (i64, &str),
    ) -> Result<(), Error> {
        let projection = &mut self.all[place];
        if projection.chooses(connection, doc, name)? {
            return Ok(());
        }
        let table = &projection.definition.name;
        Err(Error::Refused { why: format!("{table} is not from a document named {name}") })
    }

    /// The place and the definition of a projection.
    fn find(&self, name: &str) -> Option<(usize, &Definition)> {
        let mut all = self.all.iter().map(|projection| &projection.definition).enumerate();
        all.find(|(_, definition)| definition.name.eq_ignore_ascii_case(name))
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
    rows::each_row(document, definition, |found| {
        wanted.push(rows::row(document, definition, &found)?);
        Ok(())
    })?;
    let keys: BTreeSet<&[u8]> = wanted.iter().map(|row| row.key.as_slice()).collect();
    let present =
        delete_others((connection, statements), definition, doc, |key| keys.contains(key))?;
    if present.is_empty() {
        let wanted: Vec<(i64, Row)> = wanted.into_iter().map(|row| (doc, row)).collect();
        return write_new((connection, statements), definition, &wanted);
    }
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
    some: &BTreeMap<Vec<u8>, Option<Found<'_>>>,
) -> Result<(), Error> {
    let mut wanted = BTreeMap::new();
    rows::each_row(document, definition, |found| {
        wanted.insert(found.key.clone(), found);
        Ok(())
    })?;
    let present =
        delete_others((connection, statements), definition, doc, |key| wanted.contains_key(key))?;
    let mut writer = tables::Writer::new(connection, definition, doc, statements);
    for (key, found) in &wanted {
        if !present.contains(key) || some.contains_key(key) {
            writer.put(&rows::row(document, definition, found)?)?;
        }
    }
    Ok(())
}

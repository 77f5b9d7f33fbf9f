//! Tables of FTS3 and FTS4, read: the full text tables of SQLite before FTS5.
//!
//! [`Fts3Module`] brings the tables into SQL, [`Fts3TermsModule`] (`fts4aux`) their terms, and
//! [`Fts3TokensModule`] (`fts3tokenize`) the tokens of a text. Rows, their order and the values of
//! functions are SQLite's; tables are not written.

mod cursor;
mod definition;
mod integrity;
mod matchinfo;
mod positions;
mod postings;
mod query;
mod search;
mod segment;
mod snippet;
mod store;
mod terms;
mod tokenize;
mod tokens;
mod varint;

use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Object, Schema, ShadowTable, TableModule,
    TableReads, TableWrites, Taken, VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use crate::module::rows::{drop_shadows, rename_shadows};
use definition::{Content, Definition};
use store::{Shadows, Store};

pub use query::Fts3Syntax;
pub use terms::Fts3TermsModule;
pub use tokens::Fts3TokensModule;

/// Numbers of choices, as SQLite's: a scan, a docid, or (and above) a query in a column.
const SCAN: i32 = 0;
const DOCID: i32 = 1;
const MATCH: i32 = 2;
/// Bits of further arguments.
const LANGUAGE: i32 = 0x1_0000;
const FROM: i32 = 0x2_0000;
const TO: i32 = 0x4_0000;

/// The functions with a table as their first argument, by number.
const FUNCTIONS: [&str; 4] = ["snippet", "offsets", "optimize", "matchinfo"];
/// Endings of shadow tables; not every table has all of them.
const SHADOWS: [&str; 5] = ["content", "docsize", "segdir", "segments", "stat"];

/// The modules `fts3` and `fts4`.
#[derive(Clone, Copy, Debug)]
pub struct Fts3Module {
    is_fts4: bool,
    syntax: Fts3Syntax,
}

impl Fts3Module {
    /// The module `fts3`.
    #[must_use]
    pub fn fts3() -> Fts3Module {
        Fts3Module { is_fts4: false, syntax: Fts3Syntax::default() }
    }

    /// The module `fts4`.
    #[must_use]
    pub fn fts4() -> Fts3Module {
        Fts3Module { is_fts4: true, syntax: Fts3Syntax::default() }
    }

    /// The same module with another grammar of queries.
    #[must_use]
    pub fn with_syntax(self, syntax: Fts3Syntax) -> Fts3Module {
        Fts3Module { syntax, ..self }
    }
}

/// An open table.
#[derive(Clone, Debug)]
struct Fts3Table {
    definition: Arc<Definition>,
    shadows: Shadows,
    columns: Vec<VirtualColumn>,
    syntax: Fts3Syntax,
}

impl Fts3Table {
    fn connect(
        module: Fts3Module,
        (database, name): (&str, &str),
        arguments: &[String],
        schema: &Schema,
    ) -> Result<Fts3Table, Error> {
        let columns_of = |table: &str| columns_of(schema, table);
        let parsed = Definition::parse((database, name), module.is_fts4, arguments, columns_of);
        let definition = parsed.map_err(|error| outwards(module.name(), error))?;
        let shown = definition.columns.iter().map(|column| VirtualColumn::new(column, ""));
        let language = definition.language.as_deref().unwrap_or("__langid");
        let hidden = [name, "docid", language].map(VirtualColumn::hidden);
        let columns = shown.chain(hidden).collect();
        let shadows = Shadows::of(&definition, schema)?;
        let syntax = module.syntax;
        Ok(Fts3Table { definition: Arc::new(definition), shadows, columns, syntax })
    }

    fn store<'s, 't>(&'s self, reads: &TableReads<'t>) -> Store<'s, 't> {
        Store::new(&self.definition, &self.shadows, *reads)
    }

    fn refused(&self, what: &str) -> Error {
        Error::of_function(format!("{what}: {} tables are read-only", self.definition.module()))
    }

    /// The endings of the table's shadow tables in the schema.
    fn suffixes(&self, schema: &Schema) -> Vec<&'static str> {
        let own = SHADOWS.into_iter().filter(|&suffix| {
            let name = format!("{}_{suffix}", self.definition.name);
            let is_ours = suffix != "content" || self.definition.content == Content::Own;
            is_ours && ShadowTable::of(schema, &name).is_ok()
        });
        own.collect()
    }
}

/// The columns of `SELECT *` from a content table.
fn columns_of(schema: &Schema, name: &str) -> crate::Result<Vec<String>> {
    match schema.object(name) {
        Some(Object::Table(table)) => {
            Ok(table.columns().iter().map(|column| column.name().to_owned()).collect())
        }
        Some(_) => Err(crate::Error::Definition(format!(
            "fts4: the columns of {name} are not known here: it is no ordinary table"
        ))),
        None => Err(crate::Error::Definition(format!("no such table: main.{name}"))),
    }
}

/// A text up to its first NUL, where SQLite takes the text to end.
fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// An error of the index as one of the engine.
fn outwards(module: &str, error: crate::Error) -> Error {
    match error {
        crate::Error::Corrupt { .. } => {
            Error::CorruptVirtual { table: module.to_owned(), why: error.to_string() }
        }
        other => other.into(),
    }
}

impl TableModule for Fts3Module {
    fn name(&self) -> &str {
        if self.is_fts4 { "fts4" } else { "fts3" }
    }

    fn create(
        &self,
        definition: &shoal_sql::Definition<'_>,
        _writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        Err(Error::of_function(format!(
            "{} tables are read, not made, as {} would be: USING fts5",
            self.name(),
            definition.name
        )))
    }

    fn connect(
        &self,
        definition: &shoal_sql::Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let names = (definition.database, definition.name);
        Ok(Arc::new(Fts3Table::connect(*self, names, definition.arguments, schema)?))
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        SHADOWS.iter().any(|name| name.eq_ignore_ascii_case(suffix))
    }
}

impl VirtualTable for Fts3Table {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let shown = self.definition.columns.len();
        let is_docid = |column: Option<usize>| column.is_none_or(|column| column == shown + 1);
        let (mut key, mut language, mut from, mut to) = (None, None, None, None);
        let (mut number, mut cost, mut rows) = (SCAN, 5_000_000.0, 1_000_000.0);
        for (place, constraint) in request.constraints.iter().enumerate() {
            let is_docid = is_docid(constraint.column);
            match (constraint.op, constraint.column) {
                (ConstraintOp::Equal, _) if is_docid && key.is_none() => {
                    (number, cost, rows) = (DOCID, 1.0, 1.0);
                    key = Some(place);
                }
                (ConstraintOp::Equal, Some(column)) if column == shown + 2 => {
                    language = Some(place);
                }
                (ConstraintOp::Match, Some(column)) if column <= shown => {
                    (number, cost, rows) = (MATCH + column as i32, 2.0, 25.0);
                    key = Some(place);
                }
                (ConstraintOp::AtLeast | ConstraintOp::Greater, _) if is_docid => {
                    from = Some(place);
                }
                (ConstraintOp::AtMost | ConstraintOp::Less, _) if is_docid => to = Some(place),
                _ => {}
            }
        }
        let mut taken = Vec::new();
        taken.extend(key.map(|constraint| Taken { constraint, is_exact: true }));
        for (found, bit) in [(language, LANGUAGE), (from, FROM), (to, TO)] {
            if let Some(constraint) = found {
                number |= bit;
                taken.push(Taken { constraint, is_exact: false });
            }
        }
        let mut choice = IndexChoice { number, taken, cost, rows, ..IndexChoice::default() };
        if let [order] = request.order
            && is_docid(order.column)
        {
            choice.text = if order.descending { "DESC" } else { "ASC" }.to_owned();
            choice.is_ordered = true;
        }
        Ok(Some(choice))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(cursor::Fts3Cursor::new(self.clone())))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        let name = &self.definition.name;
        Err(self.refused(&format!("table {name} may not be modified")))
    }

    fn auxiliary(&self, name: &str) -> Option<usize> {
        FUNCTIONS.iter().position(|function| function.eq_ignore_ascii_case(name))
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let suffixes = self.suffixes(writes.reads().schema());
        rename_shadows((&self.definition.name, new_name), &suffixes, writes)
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let suffixes = self.suffixes(writes.reads().schema());
        drop_shadows(&self.definition.name, &suffixes, writes)
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        let definition = &self.definition;
        let what = format!("for {} table {}", definition.module().to_uppercase(), definition.name);
        match integrity::is_whole(&self.store(reads)) {
            Ok(true) => Ok(Vec::new()),
            Ok(false) => Ok(vec![format!("malformed inverted index {what}")]),
            Err(error @ crate::Error::Corrupt { .. }) => {
                Ok(vec![format!("unable to validate the inverted index {what}: {error}")])
            }
            Err(error) => Err(outwards(definition.module(), error)),
        }
    }
}

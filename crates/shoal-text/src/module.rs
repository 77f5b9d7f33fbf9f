//! FTS5 as a module of virtual tables: `CREATE VIRTUAL TABLE ... USING fts5(...)`.

mod cursor;
pub(crate) mod rows;
mod vocabulary;
mod writer;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Object, Schema, ShadowTable, TableModule,
    TableReads, TableWrites, Taken, Value, VirtualColumn, VirtualCursor, VirtualTable,
    VirtualWriter, VisibleArguments, VisibleRowids,
};

use crate::check;
use crate::definition::{Content, Definition};
use crate::index::Writer;
use crate::search::Opened;

pub use vocabulary::VocabularyModule;

/// Bits of a choice's number: rows by rank, and in descending order.
const BY_RANK: i32 = 0x20;
const DESCENDING: i32 = 0x80;

/// The functions that take a full text table as their first argument, by number.
const FUNCTIONS: [&str; 3] = ["bm25", "highlight", "snippet"];

/// The module `fts5`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextModule;

/// The shadow tables of a full text table.
#[derive(Clone, Debug)]
struct Shadows {
    data: ShadowTable,
    idx: ShadowTable,
    config: ShadowTable,
    sizes: Option<ShadowTable>,
    texts: Option<Texts>,
}

/// Where the documents' texts are read.
#[derive(Clone, Debug)]
struct Texts {
    /// None of a view, which is read with SQL.
    table: Option<ShadowTable>,
    /// Name of the table, and of its column of rowids.
    name: String,
    rowid: String,
    /// For each column of ours its place in the table; None for the rowid itself.
    places: Vec<Option<usize>>,
    is_own: bool,
}

/// An open full text table, shared by its cursors and writers.
#[derive(Clone, Debug)]
struct TextTable(Arc<TextParts>);

#[derive(Debug)]
struct TextParts {
    definition: Arc<Definition>,
    columns: Vec<VirtualColumn>,
    shadows: Shadows,
    /// What searches share in the state of the file last searched, by the state's number.
    opened: Mutex<Option<(u64, Arc<Opened>)>>,
}

impl Deref for TextTable {
    type Target = TextParts;

    fn deref(&self) -> &TextParts {
        &self.0
    }
}

impl TableModule for TextModule {
    fn name(&self) -> &str {
        "fts5"
    }

    fn create(
        &self,
        definition: &shoal_sql::Definition<'_>,
        writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        let parsed = Definition::parse(definition.name, definition.arguments)?;
        for sql in shadow_tables(&parsed) {
            writes.execute(&sql, &[])?;
        }
        let shadows = Shadows::of(&parsed, writes.reads().schema(), false)?;
        let store = rows::WriteStore::new(&parsed, &shadows, writes);
        Ok(Writer::create(&store, &parsed)?)
    }

    fn connect(
        &self,
        definition: &shoal_sql::Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        Ok(Arc::new(TextTable::connect(definition.name, definition.arguments, schema)?))
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        ["config", "content", "data", "docsize", "idx"]
            .iter()
            .any(|name| name.eq_ignore_ascii_case(suffix))
    }

    fn of_columns(
        &self,
        definition: &shoal_sql::Definition<'_>,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<Option<VisibleArguments>, Error> {
        let arguments = Definition::of_columns(definition.name, definition.arguments, is_visible)?;
        Ok(Some(VisibleArguments { arguments, rowids: VisibleRowids::Given }))
    }
}

/// The statements that make the shadow tables, in SQLite's words and order.
fn shadow_tables(definition: &Definition) -> Vec<String> {
    let name = definition.name.replace('\'', "''");
    let mut statements = vec![
        format!("CREATE TABLE '{name}_data'(id INTEGER PRIMARY KEY, block BLOB)"),
        format!(
            "CREATE TABLE '{name}_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID"
        ),
    ];
    if matches!(definition.content, Content::Own | Content::Unindexed) {
        let mut columns = String::new();
        for (number, column) in definition.columns.iter().enumerate() {
            if definition.content == Content::Own || column.is_unindexed {
                columns.push_str(&format!(", c{number}"));
            }
        }
        if definition.has_locale && definition.content == Content::Own {
            for (number, column) in definition.columns.iter().enumerate() {
                if !column.is_unindexed {
                    columns.push_str(&format!(", l{number}"));
                }
            }
        }
        statements.push(format!("CREATE TABLE '{name}_content'(id INTEGER PRIMARY KEY{columns})"));
    }
    if definition.has_sizes {
        let origin = if definition.deletes_contentless { ", origin INTEGER" } else { "" };
        statements.push(format!(
            "CREATE TABLE '{name}_docsize'(id INTEGER PRIMARY KEY, sz BLOB{origin})"
        ));
    }
    statements.push(format!("CREATE TABLE '{name}_config'(k PRIMARY KEY, v) WITHOUT ROWID"));
    statements
}

impl Shadows {
    /// The shadow tables in a schema; `needs_texts`: those of the documents too.
    fn of(definition: &Definition, schema: &Schema, needs_texts: bool) -> Result<Shadows, Error> {
        let shadow =
            |suffix: &str| ShadowTable::of(schema, &format!("{}_{suffix}", definition.name));
        let texts = match &definition.content {
            Content::Nowhere => None,
            Content::Own | Content::Unindexed => {
                let mut places = Vec::with_capacity(definition.columns.len());
                let mut place = 0;
                for column in &definition.columns {
                    let is_stored = definition.content == Content::Own || column.is_unindexed;
                    place += usize::from(is_stored);
                    places.push(is_stored.then_some(place));
                }
                let table = Some(shadow("content")?);
                let name = format!("{}_content", definition.name);
                Some(Texts { table, name, rowid: "id".to_owned(), places, is_own: true })
            }
            Content::Table { name, rowid } => match Texts::of(definition, schema, name, rowid) {
                Ok(texts) => Some(texts),
                Err(error) if needs_texts => return Err(error),
                Err(_) => None,
            },
        };
        let sizes = if definition.has_sizes { Some(shadow("docsize")?) } else { None };
        let (data, idx, config) = (shadow("data")?, shadow("idx")?, shadow("config")?);
        Ok(Shadows { data, idx, config, sizes, texts })
    }
}

impl Texts {
    /// The texts of `content='name'`.
    fn of(
        definition: &Definition,
        schema: &Schema,
        name: &str,
        rowid: &str,
    ) -> Result<Texts, Error> {
        let by_sql = Texts {
            table: None,
            name: name.to_owned(),
            rowid: rowid.to_owned(),
            places: vec![None; definition.columns.len()],
            is_own: false,
        };
        let Some(Object::Table(table)) = schema.object(name) else { return Ok(by_sql) };
        let is_rowid = |column: &str| {
            table.column_index(column).map_or_else(
                || ["rowid", "oid", "_rowid_"].iter().any(|own| own.eq_ignore_ascii_case(column)),
                |place| table.rowid_alias() == Some(place),
            )
        };
        let columns = definition.columns.iter().map(|column| column.name.as_str());
        let places: Option<Vec<usize>> = columns
            .map(|column| {
                let place = table.column_index(column)?;
                let is_plain = !table.columns()[place].is_generated() && !is_rowid(column);
                is_plain.then_some(place)
            })
            .collect();
        // Generated columns, columns of the rowid, and keys that are none are left to SQL.
        let Some(places) = places.filter(|_| is_rowid(rowid) && !table.is_without_rowid()) else {
            return Ok(by_sql);
        };
        let places = places.into_iter().map(Some).collect();
        Ok(Texts { table: Some(ShadowTable::of(schema, name)?), places, ..by_sql })
    }
}

impl TextTable {
    fn connect(name: &str, arguments: &[String], schema: &Schema) -> Result<TextTable, Error> {
        let definition = Definition::parse(name, arguments)?;
        if definition.has_locale {
            return Err(Error::of_function("fts5: locale=1 is not supported"));
        }
        let shown = definition.columns.iter().map(|column| VirtualColumn::new(&column.name, ""));
        let hidden = [VirtualColumn::hidden(name), VirtualColumn::hidden("rank")];
        let columns = shown.chain(hidden).collect();
        let shadows = Shadows::of(&definition, schema, true)?;
        let (definition, opened) = (Arc::new(definition), Mutex::default());
        Ok(TextTable(Arc::new(TextParts { definition, columns, shadows, opened })))
    }
}

/// What a choice does with an argument of the cursor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Use {
    /// `MATCH`: in a column, or the whole table behind the last.
    Match(usize),
    Like(usize),
    Glob(usize),
    /// `rank MATCH 'bm25(...)'`.
    Rank,
    RowidEqual,
    RowidFrom,
    RowidTo,
}

impl Use {
    /// Texts of choices are read again by [`Use::read`].
    fn write(self, out: &mut String) {
        let (letter, column) = match self {
            Use::Match(column) => ('M', Some(column)),
            Use::Like(column) => ('L', Some(column)),
            Use::Glob(column) => ('G', Some(column)),
            Use::Rank => ('r', None),
            Use::RowidEqual => ('=', None),
            Use::RowidFrom => ('>', None),
            Use::RowidTo => ('<', None),
        };
        out.push(letter);
        if let Some(column) = column {
            out.push_str(&column.to_string());
        }
    }

    fn read(text: &str) -> Vec<Use> {
        let mut uses = Vec::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let column = rest[..end].parse().unwrap_or(0);
            rest = &rest[end..];
            uses.push(match letter {
                'M' => Use::Match(column),
                'L' => Use::Like(column),
                'G' => Use::Glob(column),
                'r' => Use::Rank,
                '=' => Use::RowidEqual,
                '>' => Use::RowidFrom,
                _ => Use::RowidTo,
            });
        }
        uses
    }
}

impl VirtualTable for TextTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let shown = self.definition.columns.len();
        let (table, rank) = (shown, shown + 1);
        let mut uses: Vec<(usize, Use, bool)> = Vec::new();
        for (number, constraint) in request.constraints.iter().enumerate() {
            let equals = constraint.op == ConstraintOp::Equal;
            let matches = constraint.op == ConstraintOp::Match;
            let found = match constraint.column {
                Some(column) if column == rank && (matches || equals) => {
                    // A rank without a MATCH of the table is no function's name.
                    let is_text = request.constraints.iter().any(|other| {
                        other.column == Some(table)
                            && matches!(other.op, ConstraintOp::Match | ConstraintOp::Equal)
                    });
                    (matches || is_text).then_some((Use::Rank, true))
                }
                Some(column) if column == table && (matches || equals) => {
                    Some((Use::Match(table), true))
                }
                Some(column) if column < shown && matches => Some((Use::Match(column), true)),
                Some(column) if column < shown && constraint.op == ConstraintOp::Like => self
                    .definition
                    .tokenizer
                    .finds_patterns(true)
                    .then_some((Use::Like(column), false)),
                Some(column) if column < shown && constraint.op == ConstraintOp::Glob => self
                    .definition
                    .tokenizer
                    .finds_patterns(false)
                    .then_some((Use::Glob(column), false)),
                None => match constraint.op {
                    ConstraintOp::Equal => Some((Use::RowidEqual, true)),
                    ConstraintOp::AtLeast | ConstraintOp::Greater => Some((Use::RowidFrom, false)),
                    ConstraintOp::AtMost | ConstraintOp::Less => Some((Use::RowidTo, false)),
                    _ => None,
                },
                _ => None,
            };
            if let Some((action, is_exact)) = found {
                uses.push((number, action, is_exact));
            }
        }
        let mut text = String::new();
        uses.iter().for_each(|(_, action, _)| action.write(&mut text));
        let has = |wanted: fn(&Use) -> bool| uses.iter().any(|(_, action, _)| wanted(action));
        let is_match = has(|u| matches!(u, Use::Match(_) | Use::Like(_) | Use::Glob(_)));
        let is_text = has(|u| matches!(u, Use::Match(_)));
        let is_one = has(|u| *u == Use::RowidEqual);
        let is_range = has(|u| matches!(u, Use::RowidFrom | Use::RowidTo));
        let (mut number, mut is_ordered) = (0, false);
        if let [order] = request.order {
            if order.column == Some(rank) && is_text {
                number = BY_RANK | if order.descending { DESCENDING } else { 0 };
                is_ordered = true;
            } else if order.column.is_none() && !order.descending {
                is_ordered = true;
            }
        }
        let (cost, rows) = match (is_one, is_match, is_range) {
            (true, true, _) => (100.0, 1.0),
            (true, false, _) => (10.0, 1.0),
            (false, true, false) => (1000.0, 250.0),
            (false, true, true) => (750.0, 100.0),
            (false, false, true) => (750_000.0, 250_000.0),
            (false, false, false) => (1_000_000.0, 1_000_000.0),
        };
        let taken =
            uses.iter().map(|&(constraint, _, is_exact)| Taken { constraint, is_exact }).collect();
        let mut choice = IndexChoice { number, text, taken, cost, rows, ..IndexChoice::default() };
        // Texts and sizes are written at once; a writer keeps a part of the index in memory. Texts
        // read by SQL may be those of other virtual tables.
        let texts = self.shadows.texts.as_ref();
        choice.skips_flush = !is_match
            && !has(|u| *u == Use::Rank)
            && texts.is_none_or(|texts| texts.table.is_some());
        choice.is_ordered = is_ordered;
        Ok(Some(choice))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(cursor::TextCursor::new(self.clone())))
    }

    fn inserts_whole(&self, named: &[bool]) -> bool {
        // Commands name the column of the table's own name.
        named.get(self.definition.columns.len()).is_some_and(|is_named| !is_named)
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Ok(Box::new(writer::TextWriter::new(self.clone())))
    }

    fn auxiliary(&self, name: &str) -> Option<usize> {
        FUNCTIONS.iter().position(|function| function.eq_ignore_ascii_case(name))
    }

    fn rename(&self, new_name: &str, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        rows::rename_shadows((&self.definition.name, new_name), &self.suffixes(), writes)
    }

    fn destroy(&self, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        rows::drop_shadows(&self.definition.name, &self.suffixes(), writes)
    }

    fn check(&self, reads: &TableReads<'_>) -> Result<Vec<String>, Error> {
        let store = rows::ReadStore::new(&self.definition, &self.shadows, *reads);
        let compares = !matches!(self.definition.content, Content::Table { .. });
        match check::check(&store, &self.definition, compares) {
            Ok(()) => Ok(Vec::new()),
            Err(crate::Error::Storage(error)) => Err(rows::from_storage(error)),
            Err(error) => Ok(vec![format!(
                "malformed inverted index for FTS5 table {}: {error}",
                self.definition.name
            )]),
        }
    }
}

impl TextTable {
    /// What searches in the state of the file being read share: read once, unless the statement's
    /// own transaction writes.
    fn opened(
        &self,
        store: &rows::ReadStore<'_, '_>,
        reads: &TableReads<'_>,
    ) -> Result<Arc<Opened>, Error> {
        let state = reads.state()?;
        let known = || self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(state), Some((of, opened))) = (state, &*known())
            && state == *of
        {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(Opened::read(store, &self.definition)?);
        if let Some(state) = state {
            *known() = Some((state, Arc::clone(&opened)));
        }
        Ok(opened)
    }

    fn suffixes(&self) -> Vec<&'static str> {
        let mut suffixes = vec!["data", "idx", "config"];
        if self.shadows.sizes.is_some() {
            suffixes.push("docsize");
        }
        if self.shadows.texts.as_ref().is_some_and(|texts| texts.is_own) {
            suffixes.push("content");
        }
        suffixes
    }
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Error {
        match error {
            crate::Error::Storage(error) => rows::from_storage(error),
            crate::Error::Corrupt { .. } => {
                Error::CorruptVirtual { table: "fts5".to_owned(), why: error.to_string() }
            }
            other => Error::of_function(other.to_string()),
        }
    }
}

/// A value's text, as it is tokenized.
pub(crate) fn text_of(value: &Value, out: &mut Vec<u8>) {
    out.clear();
    match value {
        Value::Null => {}
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Real(number) => out.extend_from_slice(shoal_sql::real_to_text(*number).as_bytes()),
        Value::Text(bytes) | Value::Blob(bytes) => out.extend_from_slice(bytes),
    }
}

/// The texts of values, as they are tokenized.
pub(crate) fn texts(values: &[Value]) -> Vec<Option<Cow<'_, [u8]>>> {
    let text = |value| match value {
        &Value::Null => None,
        Value::Text(bytes) | Value::Blob(bytes) => Some(Cow::Borrowed(bytes.as_slice())),
        value => {
            let mut text = Vec::new();
            text_of(value, &mut text);
            Some(Cow::Owned(text))
        }
    };
    values.iter().map(text).collect()
}

/// The first and the last term wanted, by the letters `=`, `>`, `<` before the arguments.
pub(crate) fn term_bounds(
    letters: &str,
    arguments: &[Value],
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut first, mut last) = (None, None);
    for (letter, value) in letters.chars().zip(arguments) {
        // Terms are texts: other values are below or above all of them, and asked again.
        let Value::Text(text) = value else { continue };
        if matches!(letter, '=' | '>') {
            first = Some(text.clone());
        }
        if matches!(letter, '=' | '<') {
            last = Some(text.clone());
        }
    }
    (first, last)
}

/// A rowid as an `INTEGER PRIMARY KEY` takes one: texts and reals of whole numbers, too.
pub(crate) fn rowid_of(value: &Value) -> Option<i64> {
    let whole = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0;
        is_whole.then_some(number as i64)
    };
    match value {
        Value::Int(number) => Some(*number),
        Value::Real(number) => whole(*number),
        Value::Text(bytes) => {
            // SQLite's spaces: the spaces of ASCII with the vertical tab.
            let text = std::str::from_utf8(bytes).ok()?;
            let text = text.trim_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
            text.parse().ok().or_else(|| whole(text.parse().ok()?))
        }
        Value::Null | Value::Blob(_) => None,
    }
}

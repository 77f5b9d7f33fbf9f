//! `fts4aux(table)`: the terms of a table, with documents and occurrences by column.

use std::cell::Cell;
use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Object, Schema, TableModule, TableReads,
    TableWrites, Taken, Value, VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use super::definition::unquoted;
use super::postings::Filter;
use super::segment::scan;
use super::{Fts3Module, Fts3Table, outwards};
use crate::module::term_bounds;

/// Terms are read this many at a time.
const BATCH: usize = 256;

/// The module `fts4aux`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fts3TermsModule;

#[derive(Clone, Debug)]
struct TermsTable {
    columns: Vec<VirtualColumn>,
    /// The full text table, or why there is none.
    source: Result<Fts3Table, String>,
}

/// The table's name in the arguments.
fn source_name(definition: &shoal_sql::Definition<'_>) -> Result<String, Error> {
    match definition.arguments {
        [table] => Ok(unquoted(table)),
        [_, _] => Err(Error::of_function(
            "fts4aux(database, table) is not supported: it has one argument, a table beside it",
        )),
        _ => Err(Error::of_function("invalid arguments to fts4aux constructor")),
    }
}

impl TableModule for Fts3TermsModule {
    fn name(&self) -> &str {
        "fts4aux"
    }

    fn create(
        &self,
        definition: &shoal_sql::Definition<'_>,
        _writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        source_name(definition).map(drop)
    }

    fn connect(
        &self,
        definition: &shoal_sql::Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let name = source_name(definition)?;
        let found = match schema.object(&name) {
            Some(Object::Virtual(table)) => [Fts3Module::fts3(), Fts3Module::fts4()]
                .into_iter()
                .find(|module| module.name().eq_ignore_ascii_case(table.module()))
                .map(|module| (module, table)),
            _ => None,
        };
        let source = match found {
            Some((module, table)) => {
                let names = (definition.database, table.name());
                Fts3Table::connect(module, names, table.arguments(), schema)
                    .map_err(|error| error.to_string())
            }
            None => Err(format!("no such fts4 table: {}.{name}", definition.database)),
        };
        let shown = ["term", "col", "documents", "occurrences"];
        let shown = shown.into_iter().map(|name| VirtualColumn::new(name, ""));
        let columns = shown.chain([VirtualColumn::hidden("languageid")]).collect();
        Ok(Arc::new(TermsTable { columns, source }))
    }

    fn is_shadow(&self, _suffix: &str) -> bool {
        false
    }
}

impl VirtualTable for TermsTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        // Letters of the conditions taken: `=`, `>`, `<` of a term, `l` for the language.
        let (mut equal, mut from, mut to, mut language) = (None, None, None, None);
        for (place, constraint) in request.constraints.iter().enumerate() {
            match (constraint.column, constraint.op) {
                (Some(0), ConstraintOp::Equal) => equal = Some(place),
                (Some(0), ConstraintOp::AtLeast | ConstraintOp::Greater) => from = Some(place),
                (Some(0), ConstraintOp::AtMost | ConstraintOp::Less) => to = Some(place),
                (Some(4), ConstraintOp::Equal) => language = Some(place),
                _ => {}
            }
        }
        if equal.is_some() {
            (from, to) = (None, None);
        }
        let mut choice = IndexChoice { cost: 20_000.0, rows: 10_000.0, ..IndexChoice::default() };
        let parts = [(equal, 1, 4000.0), (from, 2, 2.0), (to, 4, 2.0), (language, 0, 1.0)];
        for (place, (found, bit, share)) in parts.into_iter().enumerate() {
            let Some(constraint) = found else { continue };
            choice.taken.push(Taken { constraint, is_exact: false });
            choice.number |= bit;
            choice.cost /= share;
            choice.rows /= share;
            choice.text.push(['=', '>', '<', 'l'][place]);
        }
        choice.is_ordered =
            matches!(request.order, [order] if order.column == Some(0) && !order.descending);
        Ok(Some(choice))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(TermsCursor { table: self.clone(), ..TermsCursor::default() }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Err(Error::of_function("an fts4aux table may not be modified"))
    }

    fn rename(&self, _new_name: &str, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn destroy(&self, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }
}

impl Default for TermsTable {
    fn default() -> TermsTable {
        TermsTable { columns: Vec::new(), source: Err(String::new()) }
    }
}

/// A row: a term, and the counts of a column or of all.
#[derive(Debug)]
struct TermRow {
    term: Vec<u8>,
    column: Option<usize>,
    documents: i64,
    occurrences: i64,
}

#[derive(Debug, Default)]
struct TermsCursor {
    table: TermsTable,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    language: i64,
    /// Rows read ahead, the next one last.
    ahead: Vec<TermRow>,
    /// The last term read.
    last: Option<Vec<u8>>,
    is_end: bool,
    row: Option<TermRow>,
    rowid: i64,
}

impl TermsCursor {
    /// Reads rows of some more terms.
    fn read(&mut self, reads: &TableReads<'_>) -> Result<(), Error> {
        let source = self.table.source.as_ref();
        let source = source.map_err(|message| Error::of_function(message.clone()))?;
        let store = source.store(reads);
        let columns = source.definition.columns.len();
        let (mut rows, mut last) = (Vec::new(), None);
        // Terms met so far.
        let count = Cell::new(0);
        let (to, before) = (self.to.as_deref(), self.last.as_deref());
        let mut places = Vec::new();
        let from = before.unwrap_or(&self.from).to_vec();
        let mut is_end = true;
        let scanned = store.index_segments(self.language, 0).and_then(|segments| {
            let wants = |term: &[u8]| {
                // The term before is met again, and left out.
                count.set(count.get() + 1);
                is_end = count.get() <= BATCH + 1;
                is_end && to.is_none_or(|to| term <= to)
            };
            scan(&store, &segments, &from, false, Filter::default(), wants, |term, postings| {
                last = Some(term.to_vec());
                if before == Some(term) {
                    return Ok(());
                }
                let mut sums = vec![(0, 0); columns + 1];
                for at in 0..postings.len() {
                    postings.places(at, columns, &mut places)?;
                    sums[0].0 += 1;
                    sums[0].1 += places.len() as i64;
                    for run in places.chunk_by(|a, b| a.0 == b.0) {
                        let own = &mut sums[run[0].0 as usize + 1];
                        own.0 += 1;
                        own.1 += run.len() as i64;
                    }
                }
                for (place, (documents, occurrences)) in sums.into_iter().enumerate() {
                    if documents > 0 {
                        let (term, column) = (term.to_vec(), place.checked_sub(1));
                        rows.push(TermRow { term, column, documents, occurrences });
                    }
                }
                Ok(())
            })
        });
        scanned.map_err(|error| outwards(source.definition.module(), error))?;
        rows.reverse();
        (self.ahead, self.last, self.is_end) = (rows, last, is_end);
        Ok(())
    }
}

impl VirtualCursor for TermsCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        _reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        *self = TermsCursor { table: std::mem::take(&mut self.table), ..TermsCursor::default() };
        let (from, to) = term_bounds(&choice.text, arguments);
        (self.from, self.to) = (from.unwrap_or_default(), to);
        if let Some(place) = choice.text.find('l') {
            self.language = i64::from(arguments[place].to_int() as i32).max(0);
        }
        Ok(())
    }

    fn next(&mut self, reads: &TableReads<'_>) -> Result<bool, Error> {
        while self.ahead.is_empty() && !self.is_end {
            self.read(reads)?;
        }
        self.row = self.ahead.pop();
        self.rowid += 1;
        Ok(self.row.is_some())
    }

    fn rowid(&self) -> i64 {
        self.rowid
    }

    fn column(
        &mut self,
        column: usize,
        _reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        *out = match (&self.row, column) {
            (Some(row), 0) => Value::Text(row.term.clone()),
            (Some(row), 1) => {
                row.column.map_or_else(|| Value::text("*"), |column| Value::Int(column as i64))
            }
            (Some(row), 2) => Value::Int(row.documents),
            (Some(row), 3) => Value::Int(row.occurrences),
            (Some(_), _) => Value::Int(self.language),
            (None, _) => Value::Null,
        };
        Ok(())
    }
}

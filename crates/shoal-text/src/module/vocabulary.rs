//! `fts5vocab(table, kind)`: the terms of a full text table, as a virtual table without rows of its
//! own.

use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Object, Schema, TableModule, TableReads,
    TableWrites, Taken, Value, VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use super::rows::ReadStore;
use super::{TextTable, term_bounds};
use crate::vocab::{Vocabulary, VocabularyRow};

/// The module `fts5vocab`.
#[derive(Clone, Copy, Debug, Default)]
pub struct VocabularyModule;

#[derive(Clone, Debug)]
struct VocabularyTable {
    kind: Vocabulary,
    columns: Vec<VirtualColumn>,
    /// The full text table, or why there is none.
    source: Result<TextTable, String>,
}

impl TableModule for VocabularyModule {
    fn name(&self) -> &str {
        "fts5vocab"
    }

    fn create(
        &self,
        definition: &shoal_sql::Definition<'_>,
        _writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        kind(definition.arguments).map(drop)
    }

    fn connect(
        &self,
        definition: &shoal_sql::Definition<'_>,
        schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let (name, kind) = kind(definition.arguments)?;
        let source = match schema.object(&name) {
            Some(Object::Virtual(table)) if table.module().eq_ignore_ascii_case("fts5") => {
                TextTable::connect(table.name(), table.arguments(), schema)
                    .map_err(|error| error.to_string())
            }
            _ => Err(format!("no such fts5 table: {}.{name}", definition.database)),
        };
        let names: &[&str] = match kind {
            Vocabulary::Row => &["term", "doc", "cnt"],
            Vocabulary::Column => &["term", "col", "doc", "cnt"],
            Vocabulary::Instance => &["term", "doc", "col", "offset"],
        };
        let columns = names.iter().map(|&name| VirtualColumn::new(name, "")).collect();
        Ok(Arc::new(VocabularyTable { kind, columns, source }))
    }

    fn is_shadow(&self, _suffix: &str) -> bool {
        false
    }
}

/// The table and the kind that the arguments name; a first of three is the database.
fn kind(arguments: &[String]) -> Result<(String, Vocabulary), Error> {
    let [.., table, word] = arguments else {
        return Err(Error::of_function("wrong number of vtable arguments"));
    };
    if arguments.len() > 3 {
        return Err(Error::of_function("wrong number of vtable arguments"));
    }
    let bare = |text: &String| text.trim_matches(['\'', '"', '`', '[', ']']).to_owned();
    let word = bare(word);
    let kind = Vocabulary::named(&word);
    let kind =
        kind.ok_or_else(|| Error::of_function(format!("fts5vocab: unknown table type: '{word}'")))?;
    Ok((bare(table), kind))
}

impl VirtualTable for VocabularyTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let mut taken = Vec::new();
        let mut text = String::new();
        let (mut cost, mut rows) = (1_000_000.0, 100_000.0);
        for (number, constraint) in request.constraints.iter().enumerate() {
            let letter = match constraint.op {
                _ if constraint.column != Some(0) => continue,
                ConstraintOp::Equal => '=',
                ConstraintOp::AtLeast | ConstraintOp::Greater => '>',
                ConstraintOp::AtMost | ConstraintOp::Less => '<',
                _ => continue,
            };
            text.push(letter);
            (cost, rows) = if letter == '=' { (100.0, 10.0) } else { (cost / 2.0, rows / 2.0) };
            taken.push(Taken { constraint: number, is_exact: false });
        }
        let is_ordered =
            matches!(request.order, [order] if order.column == Some(0) && !order.descending);
        Ok(Some(IndexChoice { text, taken, cost, rows, is_ordered, ..IndexChoice::default() }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        Ok(Box::new(VocabularyCursor { table: self.clone(), rows: Vec::new(), next: 0 }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Err(Error::of_function("an fts5vocab table may not be modified"))
    }

    fn rename(&self, _new_name: &str, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn destroy(&self, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct VocabularyCursor {
    table: VocabularyTable,
    rows: Vec<VocabularyRow>,
    /// One more than the current row.
    next: usize,
}

impl VirtualCursor for VocabularyCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        self.next = 0;
        self.rows.clear();
        let source = self.table.source.as_ref();
        let source = source.map_err(|message| Error::of_function(message.clone()))?;
        let (first, last) = term_bounds(&choice.text, arguments);
        let store = ReadStore::new(&source.definition, &source.shadows, *reads);
        let (first, last) = (first.as_deref(), last.as_deref());
        self.rows = self.table.kind.rows(&store, &source.definition, first, last)?;
        Ok(())
    }

    fn next(&mut self, _reads: &TableReads<'_>) -> Result<bool, Error> {
        self.next += 1;
        Ok(self.next <= self.rows.len())
    }

    fn rowid(&self) -> i64 {
        self.next as i64
    }

    fn column(
        &mut self,
        column: usize,
        _reads: &TableReads<'_>,
        out: &mut Value,
    ) -> Result<(), Error> {
        let row = &self.rows[self.next - 1];
        let name = row
            .column
            .and_then(|column| self.table.source.as_ref().ok()?.definition.columns.get(column));
        let name = name.map_or(Value::Null, |column| Value::text(column.name.clone()));
        let places = row.places.map_or(Value::Null, Value::Int);
        *out = match (self.table.kind, column) {
            (_, 0) => Value::Text(row.term.clone()),
            (Vocabulary::Row, 1) | (Vocabulary::Column, 2) | (Vocabulary::Instance, 1) => {
                Value::Int(row.documents)
            }
            (Vocabulary::Column, 1) | (Vocabulary::Instance, 2) => name,
            _ => places,
        };
        Ok(())
    }
}

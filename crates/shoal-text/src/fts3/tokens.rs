//! `fts3tokenize(tokenizer, ...)`: the tokens of a text, `WHERE input = ...`.

use std::sync::Arc;

use shoal_sql::{
    ConstraintOp, Error, IndexChoice, IndexRequest, Schema, TableModule, TableReads, TableWrites,
    Taken, Value, VirtualColumn, VirtualCursor, VirtualTable, VirtualWriter,
};

use super::definition::unquoted;
use super::outwards;
use super::tokenize::Tokenizer;
use crate::module::text_of;

/// The module `fts3tokenize`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fts3TokensModule;

#[derive(Clone, Debug)]
struct TokensTable {
    columns: Vec<VirtualColumn>,
    tokenizer: Arc<Tokenizer>,
}

fn tokenizer(arguments: &[String]) -> Result<Tokenizer, Error> {
    let words: Vec<String> = arguments.iter().map(|word| unquoted(word)).collect();
    let (name, options) =
        words.split_first().map_or(("simple", &[][..]), |(name, options)| (name.as_str(), options));
    Tokenizer::new(name, options).map_err(|error| outwards("fts3tokenize", error))
}

impl TableModule for Fts3TokensModule {
    fn name(&self) -> &str {
        "fts3tokenize"
    }

    fn create(
        &self,
        definition: &shoal_sql::Definition<'_>,
        _writes: &mut TableWrites<'_>,
    ) -> Result<(), Error> {
        tokenizer(definition.arguments).map(drop)
    }

    fn connect(
        &self,
        definition: &shoal_sql::Definition<'_>,
        _schema: &Schema,
    ) -> Result<Arc<dyn VirtualTable>, Error> {
        let names = ["input", "token", "start", "end", "position"];
        let columns = names.into_iter().map(|name| VirtualColumn::new(name, "")).collect();
        let tokenizer = Arc::new(tokenizer(definition.arguments)?);
        Ok(Arc::new(TokensTable { columns, tokenizer }))
    }

    fn is_shadow(&self, _suffix: &str) -> bool {
        false
    }
}

impl VirtualTable for TokensTable {
    fn columns(&self) -> &[VirtualColumn] {
        &self.columns
    }

    fn best_index(&self, request: &IndexRequest<'_>) -> Result<Option<IndexChoice>, Error> {
        let is_input = |constraint: &&shoal_sql::IndexConstraint| {
            constraint.column == Some(0) && constraint.op == ConstraintOp::Equal
        };
        let found = request.constraints.iter().position(|constraint| is_input(&constraint));
        let Some(constraint) = found else {
            return Ok(Some(IndexChoice { cost: 5e98, rows: 1e6, ..IndexChoice::default() }));
        };
        let taken = vec![Taken { constraint, is_exact: true }];
        Ok(Some(IndexChoice { number: 1, taken, cost: 1.0, rows: 25.0, ..IndexChoice::default() }))
    }

    fn open(&self) -> Result<Box<dyn VirtualCursor>, Error> {
        let (tokenizer, rows) = (Arc::clone(&self.tokenizer), Vec::new());
        Ok(Box::new(TokensCursor { tokenizer, input: Vec::new(), rows, next: 0 }))
    }

    fn writer(&self) -> Result<Box<dyn VirtualWriter>, Error> {
        Err(Error::of_function("an fts3tokenize table may not be modified"))
    }

    fn rename(&self, _new_name: &str, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn destroy(&self, _writes: &mut TableWrites<'_>) -> Result<(), Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct TokensCursor {
    tokenizer: Arc<Tokenizer>,
    input: Vec<u8>,
    rows: Vec<(Vec<u8>, usize, usize)>,
    /// One more than the current row.
    next: usize,
}

impl VirtualCursor for TokensCursor {
    fn filter(
        &mut self,
        choice: &IndexChoice,
        arguments: &[Value],
        _reads: &TableReads<'_>,
    ) -> Result<(), Error> {
        self.rows.clear();
        self.next = 0;
        let (1, Some(input)) = (choice.number, arguments.first()) else {
            return Err(Error::of_function("fts3tokenize is asked WHERE input = a text"));
        };
        text_of(input, &mut self.input);
        let rows = &mut self.rows;
        self.tokenizer.tokenize(&self.input, &mut |term, start, end| {
            rows.push((term.to_vec(), start, end));
            true
        });
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
        let position = self.next.saturating_sub(1);
        let Some((term, start, end)) = self.rows.get(position) else { return Ok(()) };
        *out = match column {
            0 => Value::Text(self.input.clone()),
            1 => Value::Text(term.clone()),
            2 => Value::Int(*start as i64),
            3 => Value::Int(*end as i64),
            _ => Value::Int(position as i64),
        };
        Ok(())
    }
}

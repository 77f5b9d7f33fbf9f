//! The module `vec0`.

use std::sync::Arc;

use shoal_sql::{
    Definition as Words, Error, Schema, TableModule, TableWrites, VirtualTable, VisibleArguments,
};

use crate::definition::Definition;
use crate::table::VectorTable;

/// The module of `vec0` tables.
#[derive(Debug)]
pub(crate) struct VectorModule;

impl TableModule for VectorModule {
    fn name(&self) -> &str {
        "vec0"
    }

    fn create(&self, words: &Words<'_>, writes: &mut TableWrites<'_>) -> Result<(), Error> {
        let definition = Definition::parse(words.name, words.arguments)?;
        for statement in definition.statements() {
            writes.execute(&statement, &[])?;
        }
        Ok(())
    }

    fn connect(&self, words: &Words<'_>, schema: &Schema) -> Result<Arc<dyn VirtualTable>, Error> {
        let definition = Definition::parse(words.name, words.arguments)?;
        Ok(Arc::new(VectorTable::open(definition, schema)?))
    }

    fn of_columns(
        &self,
        words: &Words<'_>,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> Result<Option<VisibleArguments>, Error> {
        Definition::of_columns(words.name, words.arguments, is_visible)
    }

    fn is_shadow(&self, suffix: &str) -> bool {
        let is = |name: &str| suffix.eq_ignore_ascii_case(name);
        let numbered = |start: &str| {
            let number = suffix.get(start.len()..).and_then(|rest| rest.parse::<u8>().ok());
            suffix.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
                && number.is_some_and(|number| number < 16)
        };
        ["info", "chunks", "rowids", "auxiliary"].into_iter().any(is)
            || ["vector_chunks", "metadatachunks", "metadatatext"].into_iter().any(numbered)
    }
}

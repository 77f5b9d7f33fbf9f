//! `table AS OF value`: rows of a table in another state, made by the module registered as
//! [`PAST_MODULE`].

use std::sync::Arc;

use super::Resolver;
use super::from::Joined;
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{self, ObjectName, PastPoint};
use crate::schema::{MAIN, Module, ModuleContext, ModuleRows, Object, PAST_MODULE};
use crate::value::{Affinity, Value};

impl<'a> Resolver<'a> {
    /// Adds the rows that a table had. The columns are those of the table at present.
    pub(super) fn add_past(
        &mut self,
        (name, point): (&'a ObjectName, PastPoint),
        value: &'a [ast::Expr],
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let (text, offset) = (name.name.text.as_str(), name.name.offset);
        let mut columns: Vec<(String, String, Affinity)> = Vec::new();
        let found = match &name.database {
            None => self.schema.find(self.home, text),
            Some(database) => {
                let Some(number) = self.schema.database(&database.text) else {
                    let full = format!("{}.{text}", database.text);
                    return Err(Error::no_such(NameKind::Table, &full, database.offset));
                };
                if number != MAIN {
                    return Err(elsewhere(text, offset));
                }
                self.schema.find(Some(number), text)
            }
        };
        let table = match found {
            // The keeper of the past knows tables of the main database, by their names.
            Some((database, Object::Table(_))) if database != MAIN => {
                return Err(elsewhere(text, offset));
            }
            Some((_, Object::Table(table))) => {
                columns.extend(table.columns.iter().map(|column| {
                    (column.name.clone(), column.declared_type.clone(), column.affinity)
                }));
                table.name.clone()
            }
            Some((_, Object::Narrowed(_))) => {
                let message =
                    format!("{text} AS OF: a narrowed connection reads the present alone");
                return Err(Error::meaning(message, offset));
            }
            Some(_) => {
                let message = format!("{text} AS OF: a view has no past of its own");
                return Err(Error::meaning(message, offset));
            }
            None => {
                let Some(module) = self.schema.module(text) else {
                    return Err(Error::no_such(NameKind::Table, text, offset));
                };
                let names = module.columns().into_iter();
                columns.extend(names.map(|name| (name.to_owned(), String::new(), Affinity::Blob)));
                module.name().to_owned()
            }
        };
        let Some(keeper) = self.schema.module(PAST_MODULE) else {
            let message = format!("{text} AS OF: nobody keeps the past of this database's tables");
            return Err(Error::meaning(message, offset));
        };
        let names = columns.iter().map(|(name, _, _)| name.clone()).collect();
        let past = PastTable { keeper: Arc::clone(keeper), table, names, point };
        let module: Arc<dyn Module> = Arc::new(past);
        self.add_call(&module, text, value, alias, nullable, joined)?;
        // Comparisons are those of the table at present.
        let added = joined.tables.last_mut().into_iter().flat_map(|table| &mut table.columns);
        for (column, (_, declared, affinity)) in added.zip(columns) {
            column.affinity = Some(affinity);
            column.declared_type = Some(declared);
        }
        Ok(())
    }
}

fn elsewhere(table: &str, offset: usize) -> Error {
    let message = format!("{table} AS OF: only tables of the main database keep their past");
    Error::meaning(message, offset)
}

/// A table in another state.
#[derive(Debug)]
struct PastTable {
    keeper: Arc<dyn Module>,
    table: String,
    names: Vec<String>,
    point: PastPoint,
}

impl Module for PastTable {
    fn name(&self) -> &str {
        &self.table
    }

    fn columns(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn arguments(&self) -> &[&str] {
        &["as_of"]
    }

    fn reads_schema(&self) -> bool {
        true
    }

    fn open(
        &self,
        arguments: &[Option<Value>],
        context: &ModuleContext<'_>,
    ) -> Result<Box<dyn ModuleRows>, Error> {
        let value = arguments.first().cloned().flatten();
        let is_time = Value::Int(i64::from(self.point == PastPoint::Time));
        let given = [Some(self.table.as_str().into()), Some(is_time), value];
        self.keeper.open(&given, context)
    }
}

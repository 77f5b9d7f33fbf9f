//! Definitions of graphs kept from statement to statement, as long as names mean the same.

use std::sync::{Arc, Mutex, PoisonError};

use shoal_sql::{Connection, Error, ModuleContext, Value};

use super::definition::{DEFINITIONS, MappedGraph, find};
use super::tables::Reads;
use crate::algorithms::States;

/// Definitions that were read.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// Those of one state of the databases.
    of_state: Mutex<(States, Vec<Arc<MappedGraph>>)>,
    /// The last one of each name, with what its meaning depends on.
    last: Mutex<Vec<(Meaning, Arc<MappedGraph>)>>,
}

/// Whatever the tables and columns of a definition depend on.
#[derive(Debug, PartialEq)]
struct Meaning {
    name: String,
    /// The text of the definition, and those of temporary tables.
    text: String,
    /// The number of the schema of `main`.
    cookie: u32,
}

impl Definitions {
    /// The graph of a definition; `None` where there is none of the name.
    ///
    /// # Errors
    /// A definition and a schema in disagreement.
    pub(super) fn find(
        &self,
        name: &str,
        context: &ModuleContext<'_>,
    ) -> Result<Option<Arc<MappedGraph>>, Error> {
        let mut reads = *context;
        let Some(states) = context.states() else {
            return Ok(find(&mut reads, name)?.map(Arc::new));
        };
        let known = || self.of_state.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut known = known();
            if known.0 != states {
                *known = (states.clone(), Vec::new());
            }
            if let Some(graph) = known.1.iter().find(|graph| graph.name.eq_ignore_ascii_case(name))
            {
                return Ok(Some(Arc::clone(graph)));
            }
        }
        let cookie = context.schema().and_then(|schema| {
            schema.table(DEFINITIONS)?;
            Some(schema.cookie())
        });
        let found = self.last(name, cookie, &mut reads)?;
        let mut known = known();
        if known.0 == states {
            known.1.extend(found.clone());
        }
        Ok(found)
    }

    /// The graph of a definition, for a statement that is prepared.
    ///
    /// # Errors
    /// As [`Definitions::find`].
    pub(super) fn find_for(
        &self,
        name: &str,
        connection: &mut Connection,
    ) -> Result<Option<Arc<MappedGraph>>, Error> {
        let schema = connection.schema()?;
        // The number of a rolled back schema may come again, for another schema.
        let is_settled = !connection.in_transaction() && !schema.is_narrowed();
        let cookie = (is_settled && schema.table(DEFINITIONS).is_some()).then(|| schema.cookie());
        self.last(name, cookie, connection)
    }

    /// The graph of a definition as it was last, where its meaning is the same; without a number of
    /// the schema the graph is read anew.
    fn last(
        &self,
        name: &str,
        cookie: Option<u32>,
        reads: &mut dyn Reads,
    ) -> Result<Option<Arc<MappedGraph>>, Error> {
        let Some(cookie) = cookie else { return Ok(find(reads, name)?.map(Arc::new)) };
        let mut text = None;
        let sql = format!(
            "SELECT sql, (SELECT group_concat(sql) FROM sqlite_temp_schema) FROM {DEFINITIONS} \
             WHERE name = ?1"
        );
        reads.rows(&sql, &[Value::text(name)], &mut |row| {
            text = Some(format!("{row:?}"));
            Ok(())
        })?;
        let Some(text) = text else { return Ok(None) };
        let meaning = Meaning { name: name.to_owned(), text, cookie };
        let known = || self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, graph)) = known().iter().find(|(known, _)| *known == meaning) {
            return Ok(Some(Arc::clone(graph)));
        }
        let found = find(reads, name)?.map(Arc::new);
        let mut known = known();
        known.retain(|(other, _)| other.name != meaning.name);
        known.extend(found.clone().map(|graph| (meaning, graph)));
        Ok(found)
    }
}

//! All tables of a file, as a schema and a catalog of DataFusion.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use shoal_sql::ValueRef;

use crate::database::ShoalDatabase;
use crate::error::Error;
use crate::table::ShoalTable;

/// Tables remembered with their columns.
const REMEMBERED_MAX: usize = 1024;

/// The tables and views of a file, as of each query's time: tables made meanwhile are found.
///
/// Names are found in any case; tables that begin with `sqlite_` or `_shoal_` are not listed.
#[derive(Debug)]
pub struct ShoalSchema {
    database: ShoalDatabase,
    /// By name in lower case, with the number of the schema that the columns are of.
    remembered: Mutex<HashMap<String, (u32, ShoalTable)>>,
}

impl ShoalSchema {
    pub(crate) fn new(database: ShoalDatabase) -> ShoalSchema {
        ShoalSchema { database, remembered: Mutex::default() }
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let snapshot = self.database.snapshot()?;
        let mut reader = snapshot.reader()?;
        let connection = reader.connection();
        let failed = |error| Error::Sql { table: "sqlite_schema".to_owned(), error };
        let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') \
                   AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                   AND name NOT LIKE '\\_shoal\\_%' ESCAPE '\\' ORDER BY name";
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let mut rows = connection.query(&mut statement).map_err(failed)?;
        let mut names = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            if let ValueRef::Text(name) = row.get(0) {
                names.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        Ok(names)
    }

    fn has(&self, name: &str) -> Result<bool, Error> {
        let snapshot = self.database.snapshot()?;
        let mut reader = snapshot.reader()?;
        let schema = reader.connection().schema();
        let schema = schema.map_err(|error| Error::Sql { table: name.to_owned(), error })?;
        Ok(schema.object(name).is_some())
    }
}

/// The number of the file's schema: another one after each change of a definition.
fn schema_number(database: &ShoalDatabase) -> Result<u32, Error> {
    let snapshot = database.snapshot()?;
    Ok(snapshot.schema_cookie())
}

#[async_trait]
impl SchemaProvider for ShoalSchema {
    fn table_names(&self) -> Vec<String> {
        // The interface has no place for a failure; a query of a table tells it.
        self.names().unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let (key, database) = (name.to_ascii_lowercase(), self.database.clone());
        let remembered = {
            let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.get(&key).cloned()
        };
        let name = name.to_owned();
        let opened = tokio::task::spawn_blocking(move || -> Result<(u32, ShoalTable), Error> {
            let number = schema_number(&database)?;
            match remembered {
                Some((of, table)) if of == number && !table.follows_values() => Ok((of, table)),
                _ => Ok((number, database.table(&name)?)),
            }
        });
        match opened.await.map_err(|error| DataFusionError::External(Box::new(error)))? {
            Ok((number, table)) => {
                let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
                if remembered.len() >= REMEMBERED_MAX {
                    remembered.clear();
                }
                remembered.insert(key, (number, table.clone()));
                Ok(Some(Arc::new(table)))
            }
            Err(Error::NoTable(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.has(name).unwrap_or_default()
    }
}

/// A catalog with the one schema of a file, called `main`.
#[derive(Debug)]
pub struct ShoalCatalog {
    main: Arc<ShoalSchema>,
}

impl ShoalCatalog {
    pub(crate) fn new(main: ShoalSchema) -> ShoalCatalog {
        ShoalCatalog { main: Arc::new(main) }
    }
}

impl CatalogProvider for ShoalCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec!["main".to_owned()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        name.eq_ignore_ascii_case("main").then(|| Arc::clone(&self.main) as Arc<dyn SchemaProvider>)
    }
}

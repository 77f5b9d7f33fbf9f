//! One table or view of a file, as DataFusion sees tables.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use shoal_sql::{Connection, Object};

use crate::columns::Columns;
use crate::condition::{Condition, Translator};
use crate::database::{Query, ShoalDatabase};
use crate::error::Error;
use crate::scan::{Scan, ScanPlan};

/// A table or view of a database.
#[derive(Clone, Debug)]
pub struct ShoalTable {
    database: ShoalDatabase,
    pub(crate) shape: Arc<Shape>,
}

/// What is known of a table since it was opened.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The name as written in the file.
    pub(crate) name: String,
    pub(crate) columns: Columns,
    /// A name for the rowid; `None` for views, virtual tables, and tables without rowids.
    pub(crate) rowid: Option<&'static str>,
    /// The column that is the rowid.
    pub(crate) rowid_alias: Option<usize>,
    /// Columns that lead an index.
    pub(crate) indexed: Vec<usize>,
    is_view: bool,
    is_utf8: bool,
}

impl ShoalTable {
    pub(crate) fn open(database: &ShoalDatabase, name: &str) -> Result<ShoalTable, Error> {
        let snapshot = database.snapshot()?;
        let mut reader = snapshot.reader()?;
        let connection = reader.connection();
        let failed = |error| Error::Sql { table: name.to_owned(), error };
        let schema = connection.schema().map_err(failed)?;
        let object = schema.object(name).ok_or_else(|| Error::NoTable(name.to_owned()))?;
        let columns = Columns::read(connection, object.name(), database.types())?;
        let table = match object {
            Object::Table(table) => Some(table),
            _ => None,
        };
        // A column may have taken one of the rowid's names.
        let of_rowid = table.filter(|table| !table.is_without_rowid()).and_then(|table| {
            let mut names = ["rowid", "_rowid_", "oid"].into_iter();
            names.find(|name| table.column_index(name).is_none())
        });
        let leads = |index: &shoal_sql::Index| index.key().next().flatten();
        let indexed = table.map(|table| table.indexes().iter().filter_map(leads).collect());
        let shape = Shape {
            name: object.name().to_owned(),
            columns,
            rowid: of_rowid,
            rowid_alias: table.and_then(|table| table.rowid_alias()),
            indexed: indexed.unwrap_or_default(),
            is_view: matches!(object, Object::View(_)),
            is_utf8: snapshot.is_utf8(),
        };
        Ok(ShoalTable { database: database.clone(), shape: Arc::new(shape) })
    }

    /// The name as written in the file.
    pub fn name(&self) -> &str {
        &self.shape.name
    }

    /// True where a column's type comes from its values, and may be another after a commit.
    pub(crate) fn follows_values(&self) -> bool {
        self.shape.columns.come_from_values
    }

    fn condition(&self, expr: &Expr) -> Option<Condition> {
        let Shape { columns, is_utf8, .. } = &*self.shape;
        Translator { columns, is_utf8: *is_utf8 }.condition(expr)
    }
}

#[async_trait]
impl TableProvider for ShoalTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.shape.columns.schema)
    }

    fn table_type(&self) -> TableType {
        if self.shape.is_view { TableType::View } else { TableType::Base }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let told = filters.iter().map(|filter| match self.condition(filter) {
            Some(condition) if condition.is_exact => TableProviderFilterPushDown::Exact,
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        });
        Ok(told.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (database, query) = (self.database.clone(), Query::of(state));
        let all = || (0..self.shape.columns.names.len()).collect();
        let scan = Scan {
            shape: Arc::clone(&self.shape),
            projection: projection.cloned().unwrap_or_else(all),
            conditions: filters.iter().filter_map(|filter| self.condition(filter)).collect(),
            limit,
        };
        let partitions = state.config().target_partitions();
        // A state may wait for a writer, and look-ups of rowids for a disk.
        let planned = tokio::task::spawn_blocking(move || {
            ScanPlan::new(scan, database.snapshot_of(query)?, partitions)
        });
        let plan = planned.await.map_err(|error| DataFusionError::External(Box::new(error)))??;
        Ok(Arc::new(plan))
    }
}

/// Checks that the table still has the columns known of it.
///
/// # Errors
/// [`Error::OtherColumns`], [`Error::Sql`].
pub(crate) fn check(connection: &mut Connection, shape: &Shape) -> Result<(), Error> {
    let all = format!("SELECT * FROM {}", quoted(&shape.name));
    let prepared = connection.prepare(&all);
    let statement = prepared.map_err(|error| Error::Sql { table: shape.name.clone(), error })?;
    match statement.column_names() == shape.columns.names {
        true => Ok(()),
        false => Err(Error::OtherColumns(shape.name.clone())),
    }
}

/// A name as SQL takes any name.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

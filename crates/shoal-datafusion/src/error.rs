//! Failures, each with the table or the file it is about.

use datafusion::error::DataFusionError;
use shoal_arrow::Unfit;

/// Why a table cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error(transparent)]
    Database(#[from] shoal::Error),
    /// A statement over a table failed.
    #[error("table {table}: {error}")]
    Sql {
        /// The table.
        table: String,
        /// The failure.
        error: shoal_sql::Error,
    },
    /// A value does not fit the type of its column.
    #[error(
        "table {table}{}: {unfit}; Types::Values gives columns the types of their values",
        rowid.map(|rowid| format!(", rowid {rowid}")).unwrap_or_default()
    )]
    Unfit {
        /// The table.
        table: String,
        /// The row, in a table with rowids.
        rowid: Option<i64>,
        /// The column and the value.
        unfit: Unfit,
    },
    /// No table or view has that name.
    #[error("there is no table or view {0}")]
    NoTable(String),
    /// The table has other columns than at the time it was opened.
    #[error("table {0} has other columns than at the time it was opened: open it again")]
    OtherColumns(String),
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}

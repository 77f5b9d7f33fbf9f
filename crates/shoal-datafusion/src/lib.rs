//! Tables of a Shoal database for DataFusion, to be joined there with Parquet and object stores.
//!
//! ```no_run
//! # async fn example() -> datafusion::error::Result<()> {
//! use std::sync::Arc;
//! use datafusion::prelude::{ParquetReadOptions, SessionContext};
//! use shoal_datafusion::ShoalDatabase;
//!
//! let context = SessionContext::new();
//! let database = ShoalDatabase::open("shop.db")?;
//! context.register_catalog("shop", Arc::new(database.catalog()));
//! context.register_parquet("visits", "visits.parquet", ParquetReadOptions::default()).await?;
//! let joined = context
//!     .sql("SELECT c.name, count(*) FROM shop.main.customers c \
//!           JOIN visits v ON v.customer = c.id GROUP BY c.name")
//!     .await?;
//! joined.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`ShoalTable`] gives DataFusion the columns asked for and no others. Conditions that Shoal's
//! SQL answers as DataFusion does run in the file, by its indexes (`condition`); so do limits. A
//! table with rowids is read by ranges of rowids on all cores (`ranges`). All tables of one query
//! answer from one state of the file (`database`), whatever others commit meanwhile.
//!
//! A column of SQL holds values of any type, a column of Arrow values of one: `columns` has the
//! rules. The files are only read.

#![forbid(unsafe_code)]

mod catalog;
mod columns;
mod condition;
mod database;
mod error;
mod ranges;
mod scan;
mod table;

pub use catalog::{ShoalCatalog, ShoalSchema};
pub use columns::Types;
pub use database::ShoalDatabase;
pub use error::Error;
pub use table::ShoalTable;

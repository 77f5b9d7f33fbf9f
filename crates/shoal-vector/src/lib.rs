//! Vectors in SQL: functions, and tables searched for the nearest ones.
//!
//! [`register`] makes sqlite-vec's functions (`vec_distance_cosine`, ...) and its module `vec0`
//! known to a connection, with the functions behind pgvector's operators. `vec0` tables keep chunks
//! of vectors in shadow tables, byte for byte as sqlite-vec does: either reads the other's file.
//! A search is exact. The first one copies a column's vectors into memory, where kernels for the
//! machine's instruction set compare them; the copy is good for one state of the file. A table of
//! the module `vec_index` beside a `vec0` table is an index of neighbours: searches walk a graph
//! on pages of the file.

#![deny(unsafe_code)] // allowed in `kernel` alone

mod check;
mod cursor;
mod definition;
mod distance;
mod filter;
mod functions;
mod fusion;
mod half;
mod index;
mod isa;
mod kernel;
mod module;
mod search;
mod shadow;
mod table;
mod vector;
mod writer;

use std::sync::Arc;

use shoal_sql::{Connection, Error};

pub use distance::Metric;
pub use isa::Isa;
pub use vector::{DIMENSIONS_MAX, Element, Vector, VectorError};

/// Makes the functions and the modules `vec0` and `vec_index` known to the statements of a
/// connection.
///
/// # Errors
/// None but a name refused by the connection.
pub fn register(connection: &mut Connection) -> Result<(), Error> {
    connection.register_table_module(Arc::new(module::VectorModule));
    connection.register_table_module(Arc::new(index::module::IndexModule));
    functions::register(connection)?;
    fusion::register(connection)?;
    check::register(connection)
}

//! Rows of SQL as batches of Arrow, and columns of Arrow as values of SQL.
//!
//! A column of SQL holds values of any type, a column of Arrow values of one. The type of a column
//! comes from the values ([`Seen`]), or from the declaration of a table ([`declared_type`]); a
//! [`BatchBuilder`] then takes rows, and tells a value without a place in the column's type.
//! [`Cells`] is the way back, for imported files and for parameters.

#![forbid(unsafe_code)]

mod batch;
mod cells;
mod kind;

pub use batch::{BatchBuilder, Unfit};
pub use cells::{Cells, stored_type};
pub use kind::{Fit, Seen, declared_type, distinct_names};

//! The working memory of a running statement: rows, sets of keys, sorted runs, files of spilled
//! rows, all counted against one budget.
//!
//! A structure takes rows as long as the budget has room and spills to temporary files from then
//! on, unseen by the caller. Nothing here knows plans, registers or pages of a database.

mod budget;
pub(crate) mod kept_keys;
pub(crate) mod key;
pub(crate) mod listed;
pub(crate) mod matched;
pub(crate) mod numbered;
pub(crate) mod queue;
pub(crate) mod row_list;
pub(crate) mod rows;
pub(crate) mod seen;
pub(crate) mod short_keys;
pub(crate) mod sort;
pub(crate) mod sorted;
pub(crate) mod spill;
pub(crate) mod value_list;

pub(crate) use budget::{Kept, SPILL_BYTES_MIN, is_full, row_size, value_size};
pub(crate) use key::KeySet;
pub(crate) use rows::{RowStore, RowValues};
pub(crate) use sort::{SortKey, SortPlan};

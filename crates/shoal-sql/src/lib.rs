//! SQL over a SQLite file: schema, planner, executor, functions.
//!
//! A [`Connection`] is one user of one open file. [`Connection::prepare`] turns a statement's text
//! into a [`Statement`]; [`Connection::query`] gives its [`Rows`], [`Connection::execute`] runs the
//! statement for its effect. A statement passes through `parse` (text to tree), `resolve` (names to
//! sources and columns), `plan` (access paths, join order, expressions as programs over
//! registers), `exec` (cursors, loops, groups), and `keep` (rows held in memory or spilled, sorted
//! runs, sets of keys).
//! `schema` reads a file's tables, indexes and views, `value` and `functions` are SQL's arithmetic,
//! `session` is a running statement's view of its connection, `write` changes rows and
//! definitions.
//!
//! SQL not supported is refused when the statement is prepared, by [`Error::Unsupported`], with the
//! name of the feature and its place in the text; such SQL is never answered wrongly.

#![forbid(unsafe_code)]

mod authorize;
mod connection;
mod entitlement;
mod error;
mod exec;
mod functions;
mod index_reader;
mod keep;
mod kept;
mod layer;
mod modules;
mod parse;
mod plan;
mod pool;
mod reader;
mod resolve;
mod result_code;
mod row_walk;
mod rows;
mod schema;
mod session;
mod table_function;
mod top_k;
mod typed;
mod value;
mod write;

pub use authorize::{Access, Authorization};
pub use connection::{
    Blob, Clause, ClausePlace, Connection, Keeper, Narrowed, Statement, TableState, VisibleVirtual,
};
pub use entitlement::{Entitlement, TableRule, WrittenColumns};
pub use error::{ConstraintKind, Error, NameKind, Raise};
pub use functions::{Aggregate, ArgumentCount, FunctionFlags, SubtypedFunction};
pub use index_reader::IndexReader;
pub use kept::{KeptReads, RowKeeper, Seen};
pub use layer::{Layer, LayerRow, ViewBuilder};
pub use parse::{Guard, Statements};
pub use pool::Pool;
pub use reader::TableReader;
pub use result_code::ResultCode;
pub use row_walk::RowWalk;
pub use rows::{Row, Rows};
pub use schema::{
    ChangedPages, ConstraintOp, Definition, IndexChoice, IndexConstraint, IndexOrder, IndexRequest,
    OnConflict, SeenState, ShadowBlob, ShadowRows, ShadowTable, TableModule, TableReads,
    TableWrites, Taken, VirtualColumn, VirtualCursor, VirtualDefinition, VirtualRow, VirtualTable,
    VirtualWriter, VisibleArguments, VisibleRowids,
};
pub use schema::{
    Column, Index, Module, ModuleContext, ModuleRows, NarrowedTable, Object, Operator,
    OperatorRows, PAST_MODULE, Schema, SeenTables, Table, View, VisibleForeignKey, VisibleKeys,
    VisibleTable,
};
#[doc(hidden)]
pub use session::forced::{Forced, ForcedAccess, ForcedCarrier, ForcedChoice, ForcedJoin};
pub use session::{
    ChangeKind, CommitHook, Interrupter, Limits, RollbackHook, RowChange, RowHook, WalHook,
};
pub use table_function::{TableFunction, TableFunctionRows};
pub use top_k::Scored;
pub use typed::{Decimal, Guid, NotTyped};
pub use value::{Affinity, Collation, Value, ValueRef, real_to_text, real_to_text_15};
pub use write::{BulkLoader, Edited, RowEdit, RowEncoder, TableWriter};

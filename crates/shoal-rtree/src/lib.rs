//! R-Trees: boxes of one to five dimensions in a SQLite file, found by windows.
//!
//! `CREATE VIRTUAL TABLE t USING rtree(id, x0, x1, y0, y1, +note)` keeps a tree of nodes in the
//! table `t_node`, its parent links in `t_parent`, each box's leaf and auxiliary columns in
//! `t_rowid`, byte for byte as SQLite's module of the name does. [`register`] makes `rtree`,
//! `rtree_i32` and the function `rtreecheck` known to a connection; `geopoly` is left out.

#![forbid(unsafe_code)]

mod check;
mod cursor;
mod module;
mod node;
mod nodes;
mod shape;
mod split;
mod table;
mod tree;
mod writer;

use std::sync::Arc;

use shoal_sql::{Connection, Error, TableFunction, Value};

use module::RTreeModule;
use node::Coordinates;

/// Makes `rtree`, `rtree_i32` and `rtreecheck` known to the statements of a connection.
///
/// # Errors
/// None but a name of `rtreecheck` refused by the connection.
pub fn register(connection: &mut Connection) -> Result<(), Error> {
    connection.register_table_module(Arc::new(RTreeModule::new("rtree", Coordinates::Real)));
    connection.register_table_module(Arc::new(RTreeModule::new("rtree_i32", Coordinates::Integer)));
    let arguments = &["schema_or_table", "table_name"];
    let check = TableFunction::new("rtreecheck", &["rtreecheck"], arguments, |given, context| {
        let text = |value: &Option<Value>| match value {
            Some(Value::Text(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        let (database, table) = match (text(&given[0]), text(&given[1])) {
            (Some(database), Some(table)) => (Some(database), table),
            (Some(table), None) => (None, table),
            _ => {
                let what = "wrong number of arguments to function rtreecheck()";
                return Err(Error::of_function(what));
            }
        };
        let faults = context.check_virtual(database.as_deref(), &table)?;
        let report = if faults.is_empty() { "ok".to_owned() } else { faults.join("\n") };
        Ok([Ok(vec![report.into()])])
    });
    connection.create_table_function(check.reads_databases())
}

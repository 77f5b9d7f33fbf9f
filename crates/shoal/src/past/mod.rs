//! Documents for SQL: their contents, their history and their past as rows.
//!
//! Table-valued functions (`functions`) and the module behind `table AS OF heads` (`as_of`) are
//! registered with the connection of a [`Database`](crate::Database). They read documents in the
//! transaction of the statement, from a library of documents read before (`library`).

mod as_of;
mod functions;
pub(crate) mod heads;
mod library;
mod stored;
mod values;

use std::sync::Arc;

use shoal_crdt::Document;
use shoal_sql::{Connection, ModuleContext, Value};

use crate::Error;
use library::{DocName, Library};

/// Makes the functions known to the statements of a connection.
pub(crate) fn register(connection: &mut Connection) {
    let library = Arc::new(Library::default());
    connection.register_module(Arc::new(as_of::Documents));
    connection.register_module(Arc::new(as_of::AsOf::new(&library)));
    for function in functions::all(&library) {
        connection
            .create_table_function(function)
            .expect("the functions of documents have names and columns of their own");
    }
}

/// The document named by an argument: by its name, or by a number, the `id` of `_shoal_doc` and
/// the `_doc` of a projection.
fn named_document(
    (library, context): (&Library, &ModuleContext<'_>),
    function: &str,
    argument: Option<&Value>,
) -> Result<Option<(DocName, Arc<Document>)>, Error> {
    let found = match argument {
        Some(Value::Text(name)) => {
            let name = String::from_utf8_lossy(name);
            let found = library::names(context, Some(&*name))?.into_iter().next();
            found.ok_or_else(|| Error::NoDocument { name: name.into_owned() })?
        }
        Some(Value::Int(id)) => {
            let mut all = library::names(context, None)?.into_iter();
            let found = all.find(|doc| doc.id == *id);
            found.ok_or_else(|| Error::NoDocument { name: format!("number {id}") })?
        }
        // A row of an outer join without a document has none of its rows.
        Some(Value::Null) => return Ok(None),
        _ => {
            let why = format!("{function}() takes the name of a document first");
            return Err(Error::Past { why });
        }
    };
    let document = library.document(context, found.id)?;
    Ok(Some((found, document)))
}

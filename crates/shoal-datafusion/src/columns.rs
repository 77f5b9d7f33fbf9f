//! The columns of a table or view, and their types in Arrow.
//!
//! | declared type | type in Arrow |
//! | --- | --- |
//! | with `INT` | `Int64` |
//! | with `CHAR`, `CLOB`, `TEXT` | `Utf8` |
//! | with `BLOB` | `Binary` |
//! | with `REAL`, `FLOA`, `DOUB` | `Float64` |
//! | another, or none | the narrowest for the values found by a scan |
//!
//! A value that does not fit the declared type is an error which names table, rowid and column.
//! With [`Types::Values`] the declarations are not asked: every column has the narrowest type for
//! its values, numbers beside texts are texts, and texts beside blobs are bytes, as in the files of
//! `shoal export`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use shoal_arrow::{Fit, Seen, declared_type, distinct_names};
use shoal_sql::Connection;

use crate::error::Error;
use crate::table::quoted;

/// Where the types of columns come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Types {
    /// From the declarations of the tables, and from the values where a declaration does not tell.
    #[default]
    Declared,
    /// From the values: a table is scanned when it is opened, and no value is lost.
    Values,
}

/// The columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Names as SQL knows them.
    pub(crate) names: Vec<String>,
    /// Names that no two columns share, and types.
    pub(crate) schema: SchemaRef,
    /// The way of values into each column.
    pub(crate) fits: Vec<Fit>,
    /// True where a type comes from values, and may be another after a commit.
    pub(crate) come_from_values: bool,
}

impl Columns {
    /// The columns of `table`.
    ///
    /// # Errors
    /// [`Error::Sql`].
    pub(crate) fn read(
        connection: &mut Connection,
        table: &str,
        types: Types,
    ) -> Result<Columns, Error> {
        let failed = |error| Error::Sql { table: table.to_owned(), error };
        let all = format!("SELECT * FROM {}", quoted(table));
        let statement = connection.prepare(&all).map_err(failed)?;
        let names = statement.column_names().to_vec();
        let declared: Vec<Option<String>> = (0..names.len())
            .map(|place| statement.column_declared_type(place).map(str::to_owned))
            .collect();
        let told = |place: usize| match types {
            Types::Declared => declared[place].as_deref().and_then(declared_type),
            Types::Values => None,
        };
        let untold: Vec<usize> = (0..names.len()).filter(|&place| told(place).is_none()).collect();
        let mut seen = vec![Seen::default(); names.len()];
        if !untold.is_empty() {
            let asked: Vec<String> = untold.iter().map(|&place| quoted(&names[place])).collect();
            let sql = format!("SELECT {} FROM {}", asked.join(", "), quoted(table));
            let mut statement = connection.prepare(&sql).map_err(failed)?;
            let mut rows = connection.query(&mut statement).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                for (value, &place) in row.values().zip(&untold) {
                    seen[place].value(value);
                }
            }
        }
        let columns = distinct_names(&names).into_iter().enumerate();
        let (fields, fits): (Vec<Field>, Vec<Fit>) = columns
            .map(|(place, name)| match told(place) {
                Some(kind) => (Field::new(name, kind, true), Fit::AsIs),
                None => {
                    let kind = seen[place].kind(declared[place].as_deref());
                    (Field::new(name, kind, true), seen[place].fit())
                }
            })
            .unzip();
        let (schema, come_from_values) = (Arc::new(Schema::new(fields)), !untold.is_empty());
        Ok(Columns { names, schema, fits, come_from_values })
    }
}

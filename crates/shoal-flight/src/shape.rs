//! The types of a result's columns, known before its first row is sent.
//!
//! | column of the result | type in Arrow |
//! | --- | --- |
//! | a column of a table, its declared type with `INT` | `Int64` |
//! | with `CHAR`, `CLOB`, `TEXT` | `Utf8` |
//! | with `REAL`, `FLOA`, `DOUB` | `Float64` |
//! | with `BLOB` | `Binary` |
//! | an expression, a column of another declared type or none | the narrowest for all its values |
//!
//! The last kind is found by running the statement once before it is answered. A value that does
//! not fit a declared type is an error that names the column.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shoal_arrow::{Fit, Seen, declared_type, distinct_names};
use shoal_sql::Statement;

use crate::Types;

/// The columns of a result.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) schema: SchemaRef,
    /// The way of values into each column.
    pub(crate) fits: Vec<Fit>,
}

/// Columns whose types may not all be known yet.
pub(crate) struct Told {
    names: Vec<String>,
    declared: Vec<Option<String>>,
    kinds: Vec<Option<DataType>>,
}

impl Told {
    /// A statement's columns as told to clients.
    pub(crate) fn of(statement: &Statement, types: Types) -> Told {
        let names = distinct_names(statement.column_names());
        let declared: Vec<Option<String>> = (0..names.len())
            .map(|place| statement.column_declared_type(place).map(str::to_owned))
            .collect();
        let kind = |declared: &Option<String>| match types {
            Types::Declared => declared.as_deref().and_then(declared_type),
            Types::Values => None,
        };
        let kinds = declared.iter().map(kind).collect();
        Told { names, declared, kinds }
    }

    /// The number of columns.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The places of columns whose values have to be looked at.
    pub(crate) fn untold(&self) -> Vec<usize> {
        (0..self.len()).filter(|&place| self.kinds[place].is_none()).collect()
    }

    /// The declared type of a column.
    pub(crate) fn declared(&self, place: usize) -> Option<&str> {
        self.declared.get(place)?.as_deref()
    }

    /// The shape, by the values seen in each column.
    pub(crate) fn shape(&self, seen: &[Seen]) -> Shape {
        let columns = self.names.iter().enumerate().map(|(place, name)| match &self.kinds[place] {
            Some(kind) => (Field::new(name, kind.clone(), true), Fit::AsIs),
            None => {
                let seen = seen.get(place).copied().unwrap_or_default();
                let kind = seen.kind(self.declared(place));
                (Field::new(name, kind, true), seen.fit())
            }
        });
        let (fields, fits): (Vec<Field>, Vec<Fit>) = columns.unzip();
        Shape { schema: Arc::new(Schema::new(fields)), fits }
    }

    /// The schema as far as it is told: a column that depends on values yet unbound is of Arrow's
    /// type of nothing but NULL.
    pub(crate) fn schema(&self) -> Schema {
        let columns = self.names.iter().zip(&self.kinds);
        let fields = columns
            .map(|(name, kind)| Field::new(name, kind.clone().unwrap_or(DataType::Null), true));
        Schema::new(fields.collect::<Vec<_>>())
    }

    /// The shape of this statement by a ticket's kinds; `None` for a ticket of other columns.
    pub(crate) fn shape_of(&self, kinds: &[u8]) -> Option<Shape> {
        if kinds.len() != self.len() {
            return None;
        }
        let columns = self.names.iter().zip(kinds).map(|(name, &code)| {
            let kind = KINDS.get(usize::from(code & !CONVERTED))?;
            let fit = if code & CONVERTED == 0 { Fit::AsIs } else { Fit::Converted };
            Some((Field::new(name, kind.clone(), true), fit))
        });
        let (fields, fits) = columns.collect::<Option<(Vec<Field>, Vec<Fit>)>>()?;
        Some(Shape { schema: Arc::new(Schema::new(fields)), fits })
    }
}

/// The types of columns, by their codes in tickets.
const KINDS: [DataType; 4] = [DataType::Int64, DataType::Float64, DataType::Utf8, DataType::Binary];
/// Marks a column whose values are converted to its type.
const CONVERTED: u8 = 0x80;

impl Shape {
    /// The types of the columns, for a ticket.
    pub(crate) fn kinds(&self) -> Vec<u8> {
        let columns = self.schema.fields().iter().zip(&self.fits);
        columns
            .map(|(field, fit)| {
                let place = KINDS.iter().position(|kind| kind == field.data_type());
                let code = place.and_then(|place| u8::try_from(place).ok());
                let code = code.expect("columns are of the types of batches");
                if *fit == Fit::Converted { code | CONVERTED } else { code }
            })
            .collect()
    }
}

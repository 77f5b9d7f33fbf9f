//! Rows at hand: `OLD` and `NEW` of a trigger, `excluded` of an upsert, the row of a `RETURNING`.
//!
//! A statement that writes knows such a row before its expressions are computed: the row's columns
//! are parameters numbered behind the parameters of the statement's text. A query over them is
//! planned once and run with other parameters for each row.

use super::Resolver;
use super::collation::Coll;
use super::expr::{Bound, NamedColumn};
use super::scope::{Miss, ScopeTable};
use super::select::classes_under;
use super::tree::{Expr, ROWID};
use crate::Error;
use crate::parse::ast;
use crate::schema::{NarrowedTable, Schema, Table, Txns};
use crate::value::Affinity;

/// A row whose columns are parameters: one per column of its table, then the rowid.
#[derive(Clone, Debug)]
pub(crate) struct GivenRow<'a> {
    table: ScopeTable<'a>,
    first: usize,
    /// True where columns must be qualified with the row's name.
    named_only: bool,
    /// True where columns are compared without affinity.
    plain: bool,
}

impl<'a> GivenRow<'a> {
    /// A row of `table` called `name`; the first column's parameter has the number `first`.
    pub(crate) fn new(table: &'a Table, name: &str, first: usize) -> GivenRow<'a> {
        let mut table = super::scope_table(table, 0, name.to_owned());
        for (place, column) in table.columns.iter_mut().enumerate() {
            column.expr = Expr::Parameter(first + place);
        }
        GivenRow { table, first, named_only: false, plain: false }
    }

    /// A row of a narrowed table: hidden columns and a hidden rowid have parameters without a name.
    pub(crate) fn visible(table: &'a NarrowedTable, name: &str, first: usize) -> GivenRow<'a> {
        let mut row = GivenRow::new(&table.table, name, first);
        for (place, column) in row.table.columns.iter_mut().enumerate() {
            if !table.columns.iter().any(|shown| shown.column == place) {
                column.name = key_name(place);
            }
        }
        row.table.rowid = row.table.rowid.filter(|_| table.shows_rowid);
        row
    }

    /// The same row, with columns only reached by its name.
    pub(crate) fn by_name_only(mut self) -> GivenRow<'a> {
        self.named_only = true;
        self
    }

    /// The same row, without affinity in comparisons but for the rowid's other name: SQLite's `OLD`
    /// and `NEW`.
    pub(crate) fn without_affinity(mut self) -> GivenRow<'a> {
        self.plain = true;
        self
    }

    /// The number of the first parameter behind the row's.
    pub(crate) fn end(&self) -> usize {
        self.first + self.table.columns.len() + 1
    }

    /// The place of a column, [`ROWID`] for the rowid.
    fn place(&self, name: &ast::Name) -> Option<usize> {
        let mut columns = self.table.columns.iter();
        let known = columns.position(|column| name.is(&column.name));
        let is_rowid = || ["rowid", "_rowid_", "oid"].iter().any(|rowid| name.is(rowid));
        known.or_else(|| (self.table.rowid.is_some() && is_rowid()).then_some(ROWID))
    }
}

/// Names a statement's queries see besides the tables of the schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a> {
    /// Rows at hand.
    pub(crate) rows: &'a [GivenRow<'a>],
    /// The `WITH` before the statement.
    pub(crate) with: Option<&'a ast::With>,
    /// True where the outermost query stands for expressions over the rows at hand, and is no
    /// query.
    pub(crate) is_row: bool,
    /// True while a trigger's program is resolved: `RAISE` is allowed.
    pub(crate) in_trigger: bool,
    /// The one database of unqualified names, in the program of a trigger of a database other than
    /// `temp`.
    pub(crate) home: Option<usize>,
    /// The number of the first parameter of neither the text nor a row.
    pub(crate) next: usize,
    /// The value of a rule's parameter, in a query of the rule's predicate.
    pub(crate) principal: Option<&'a str>,
    /// True where the columns of narrowed tables include the keys, by the names of [`key_name`].
    pub(crate) finds_keys: bool,
    /// The trees that decide how queries are planned, where they are at hand.
    pub(crate) txns: Option<Txns<'a>>,
}

/// The name of a part of a narrowed table's key, for statements changing the table's rows. No text
/// of SQL has the name: a NUL ends a text.
pub(crate) fn key_name(place: usize) -> String {
    format!("\0key{place}")
}

impl Around<'_> {
    /// The surroundings of a statement whose text has `parameters` parameters.
    pub(crate) fn statement(parameters: usize) -> Around<'static> {
        Around {
            rows: &[],
            with: None,
            is_row: false,
            in_trigger: false,
            home: None,
            next: parameters + 1,
            principal: None,
            finds_keys: false,
            txns: None,
        }
    }
}

impl<'a> Resolver<'a> {
    /// A resolver for queries within a statement that writes.
    pub(crate) fn within(schema: &'a Schema, around: Around<'a>) -> Resolver<'a> {
        let mut resolver = Resolver::new(schema);
        resolver.around = around;
        resolver.home = around.home;
        resolver.principal = around.principal;
        if let Some(with) = around.with {
            resolver.open_with(with);
        }
        resolver
    }

    /// A column of a row at hand.
    ///
    /// # Errors
    /// An unknown collation is noted, not raised.
    pub(super) fn given(
        &self,
        table: Option<&ast::Name>,
        column: &ast::Name,
        offset: usize,
    ) -> Result<Bound, Miss> {
        // A view has the same meaning wherever named.
        if !self.views.is_empty() {
            return Err(Miss::None);
        }
        let named = |row: &&GivenRow<'_>| match table {
            Some(table) => table.is(&row.table.name),
            None => !row.named_only,
        };
        let mut found = self.around.rows.iter().filter(named);
        let found = found.find_map(|row| Some((row, row.place(column)?)));
        let Some((row, place)) = found else { return Err(Miss::None) };
        self.note_given(&row.table, place, column);
        let Some(known) = row.table.columns.get(place) else {
            let column = NamedColumn {
                name: "rowid".to_owned(),
                declared_type: Some("INTEGER".to_owned()),
                collated: false,
            };
            return Ok(Bound {
                expr: Expr::Parameter(row.end() - 1),
                affinity: Some(Affinity::Integer),
                collation: Coll::None,
                column: Some(Box::new(column)),
                classes: Some(classes_under(Some(Affinity::Integer))),
            });
        };
        let collation = match &known.collation {
            Ok(collation) => *collation,
            Err(name) => Coll::Column(Err(self.unknown_collation(name, offset))),
        };
        let named = NamedColumn {
            name: known.name.clone(),
            declared_type: known.declared_type.clone(),
            collated: false,
        };
        let is_alias = row.table.table.is_some_and(|table| table.rowid_alias == Some(place));
        Ok(Bound {
            expr: known.expr.clone(),
            affinity: known.affinity.filter(|_| !row.plain || is_alias),
            collation,
            column: Some(Box::new(named)),
            classes: Some(classes_under(known.affinity)),
        })
    }

    /// `RAISE`, as a call of the raising function.
    pub(super) fn raise(
        &mut self,
        action: crate::error::Raise,
        message: Option<&'a ast::Expr>,
        offset: usize,
    ) -> Result<Bound, Error> {
        if !self.around.in_trigger {
            let message = "RAISE() may only be used within a trigger-program";
            return Err(Error::meaning(message, offset));
        }
        let message = match message {
            Some(message) => self.bind(message)?.expr,
            None => Expr::Const(crate::value::Value::Null),
        };
        Ok(Bound::plain(Expr::Call {
            function: crate::functions::raise(action),
            arguments: vec![message],
            collation: crate::value::Collation::Binary,
            json: 0,
        }))
    }
}

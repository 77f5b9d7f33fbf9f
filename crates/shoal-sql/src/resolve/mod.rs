//! Name resolution: every column becomes a source and a number, every function a reference, every
//! comparison gets its affinity and collation. Names and clauses SQL forbids, or this crate cannot
//! do yet, are refused here, with their place in the text.

pub(crate) mod bushy;
mod call;
mod collation;
pub(crate) mod encoding;
mod expr;
pub(crate) mod factor;
mod form;
mod from;
mod given;
pub(crate) mod group_below;
pub(crate) mod imply;
mod indexed;
pub(crate) mod keys_below;
pub(crate) mod leakproof;
pub(crate) mod merge;
pub(crate) mod names;
mod narrowed;
pub(crate) mod once;
pub(crate) mod orders;
pub(crate) mod outputs;
mod past;
pub(crate) mod push;
mod reads;
mod recursion;
mod row;
mod same;
mod scope;
mod select;
mod table_function;
pub(crate) mod tree;
pub(crate) mod unnest;
mod values;
mod walk;
mod window;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::Error;
use crate::error::NameKind;
use crate::parse::{EXPR_DEPTH_MAX, ast};
use crate::schema::{Connected, Schema, Table};
use collation::Coll;
pub(crate) use form::is_alike;
pub(crate) use given::{Around, GivenRow, key_name};
pub(crate) use scope::Clause;
use scope::{Scope, ScopeColumn, ScopeTable};
use tree::{AuxiliaryCalls, Query, SelectId, SourceId};

/// Most tables one statement may read, views expanded: bounds views doubling with every level.
const SOURCES_MAX: usize = 4096;

/// Resolves the names of one statement.
#[derive(Debug)]
pub(crate) struct Resolver<'a> {
    schema: &'a Schema,
    scopes: Vec<Scope<'a>>,
    /// The common tables of every `WITH` around, the innermost last.
    common: Vec<Frame<'a>>,
    /// The common tables being expanded, to notice recursion.
    expanding: Vec<Expanding<'a>>,
    /// The views being expanded, to notice a view containing itself.
    views: Vec<(usize, &'a str)>,
    /// The database of the view being expanded: the view's names are only looked up there.
    home: Option<usize>,
    depth: usize,
    generated_depth: usize,
    next_source: SourceId,
    next_select: SelectId,
    next_slot: usize,
    next_frame: usize,
    /// The common tables named so far, by the `WITH` and the place within.
    named: Vec<NamedTable>,
    /// Unknown collations, and where they were written.
    unknown_collations: RefCell<Vec<(String, usize)>>,
    /// Nesting depth of the select being resolved.
    select_level: usize,
    /// The surroundings of the queries within a statement that writes.
    around: Around<'a>,
    /// `Some` where a definition's names are gathered.
    names: Option<RefCell<names::Names>>,
    /// Whether a part of a table's definition is resolved.
    in_definition: bool,
    /// The virtual tables named so far, with the calls of their own functions.
    virtual_sources: Vec<(SourceId, Arc<Connected>, AuxiliaryCalls)>,
    /// True where narrowed tables are queries of their own.
    has_barriers: bool,
    /// True where virtual tables under rules are tables of their visible rows, to be searched.
    searches: bool,
    /// Set where a name or an operator is of a virtual table's module, and the table is read row by
    /// row because of its rule.
    asks_module: Cell<bool>,
    /// The value of the parameter of a rule, while the rule is resolved.
    principal: Option<&'a str>,
}

/// The tables of a `WITH`, and the number of scopes around.
#[derive(Clone, Copy, Debug)]
struct Frame<'a> {
    tables: &'a [ast::CommonTable],
    scopes: usize,
    /// The number of the `WITH`: expanded twice, the same `WITH` has two numbers.
    number: usize,
}

/// A named common table, and the count of its uses.
#[derive(Clone, Copy, Debug)]
struct NamedTable {
    frame: usize,
    place: usize,
    uses: usize,
    materialized: Option<bool>,
}

/// A common table being expanded.
#[derive(Debug)]
struct Expanding<'a> {
    table: &'a ast::CommonTable,
    /// `Some` while the recursive part is resolved.
    step: Option<Step>,
}

/// The recursive part of a common table.
#[derive(Clone, Debug)]
struct Step {
    slot: usize,
    columns: Vec<tree::OutputColumn>,
    /// The level of the select allowed to read the table.
    level: usize,
    used: bool,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(schema: &'a Schema) -> Self {
        Resolver {
            schema,
            scopes: Vec::new(),
            common: Vec::new(),
            expanding: Vec::new(),
            views: Vec::new(),
            home: None,
            depth: 0,
            generated_depth: 0,
            next_source: 0,
            next_select: 0,
            next_slot: 0,
            next_frame: 0,
            named: Vec::new(),
            unknown_collations: RefCell::default(),
            select_level: 0,
            around: Around::statement(0),
            names: None,
            in_definition: false,
            virtual_sources: Vec::new(),
            has_barriers: false,
            searches: false,
            asks_module: Cell::new(false),
            principal: None,
        }
    }

    /// Resolves a whole query.
    ///
    /// # Errors
    /// Unknown or ambiguous names, forbidden or unsupported constructions, with their offsets.
    pub(crate) fn query(&mut self, select: &'a ast::Select) -> Result<Query, Error> {
        self.resolve_select(select)
    }

    /// Resolves an expression over the columns of one table's row: a check, a default, an index's
    /// condition. The row is source 0.
    ///
    /// # Errors
    /// As [`Resolver::query`].
    pub(crate) fn row_expr(
        &mut self,
        table: &'a Table,
        expr: &'a ast::Expr,
        clause: Clause,
    ) -> Result<tree::Expr, Error> {
        let source = self.new_source()?;
        let scope_table = scope_table(table, source, table.name.clone());
        self.in_definition = true;
        self.in_scope(vec![scope_table], clause, |resolver| {
            resolver.bind(expr).map(|bound| bound.expr)
        })
    }

    fn in_scope<T>(
        &mut self,
        tables: Vec<ScopeTable<'a>>,
        clause: Clause,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let select = self.new_select();
        self.scopes.push(Scope {
            select,
            sources: tables.iter().filter_map(|table| table.rowid).collect(),
            tables,
            results: &[],
            clause,
            aggregates: Vec::new(),
            named_windows: &[],
            windows: Vec::new(),
            window_calls: Vec::new(),
            correlated: false,
        });
        let result = work(self);
        self.scopes.pop();
        result
    }

    /// Goes `by` levels deeper into expressions and queries, also through views.
    fn deeper(&mut self, by: usize) -> Result<(), Error> {
        self.depth += by;
        if self.depth > EXPR_DEPTH_MAX {
            return Err(Error::Limit {
                what: "depth of an expression",
                max: EXPR_DEPTH_MAX as u64,
            });
        }
        Ok(())
    }

    fn new_source(&mut self) -> Result<SourceId, Error> {
        if self.next_source >= SOURCES_MAX {
            return Err(Error::Limit { what: "tables in one statement", max: SOURCES_MAX as u64 });
        }
        self.next_source += 1;
        Ok(self.next_source - 1)
    }

    fn new_select(&mut self) -> SelectId {
        self.next_select += 1;
        self.next_select - 1
    }
}

/// The names of a table's columns.
fn scope_table(table: &Table, source: SourceId, name: String) -> ScopeTable<'_> {
    let columns = table
        .columns
        .iter()
        .enumerate()
        .map(|(index, column)| ScopeColumn {
            name: column.name.clone(),
            expr: tree::Expr::Column {
                source,
                column: if table.rowid_alias == Some(index) { tree::ROWID } else { index },
            },
            affinity: Some(column.affinity),
            // A rowid has none, whatever the definition of its column says.
            collation: match table.rowid_alias == Some(index) {
                true => Ok(Coll::None),
                false => column.collation.clone().map(|known| Coll::Column(Ok(known))),
            },
            declared_type: Some(column.declared_type.clone()),
            merged: false,
            others: Vec::new(),
            named: Vec::new(),
            shown: None,
            hidden: column.hidden,
        })
        .collect();
    ScopeTable {
        name,
        columns,
        rowid: (!table.without_rowid).then_some(source),
        table: Some(table),
        module: None,
        nullable: false,
    }
}

fn no_such_collation(name: &str, offset: usize) -> Error {
    Error::no_such(NameKind::Collation, name, offset)
}

//! Scopes of names: the tables of a `FROM`, the result's aliases, enclosing queries.

use super::collation::Coll;
use super::tree::{Aggregate, Expr, SelectId, SourceId, Window, WindowCall};
use crate::parse::ast;
use crate::schema::{Connected, Table};
use crate::value::Affinity;

/// The names of one `SELECT`'s own tables, results and windows.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) select: SelectId,
    pub(crate) tables: Vec<ScopeTable<'a>>,
    /// The sources of the `FROM`.
    pub(crate) sources: Vec<SourceId>,
    /// The result columns, whose aliases serve where no column has the name.
    pub(crate) results: &'a [ast::ResultColumn],
    pub(crate) clause: Clause,
    pub(crate) aggregates: Vec<Aggregate>,
    /// The `WINDOW` clause.
    pub(crate) named_windows: &'a [(ast::Name, ast::Window)],
    pub(crate) windows: Vec<Window>,
    pub(crate) window_calls: Vec<WindowCall>,
    /// Set when an expression of this query or of a query within reads an enclosing query's row.
    pub(crate) correlated: bool,
}

/// The clause being resolved: decides on the functions and names allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    From,
    Where,
    GroupBy,
    /// Result columns.
    Result,
    Having,
    OrderBy,
    /// `ORDER BY` of a query without groups.
    PlainOrderBy,
    /// The arguments of an aggregate.
    Aggregate,
    /// The arguments of a window function, and the terms of its window.
    Window,
    /// `LIMIT`, `VALUES` and other places without a row.
    Constant,
    /// The value of a generated column: names columns alone, without their table.
    Generated,
}

impl Clause {
    pub(crate) fn sees_aliases(self) -> bool {
        matches!(
            self,
            Clause::Where
                | Clause::GroupBy
                | Clause::Having
                | Clause::OrderBy
                | Clause::PlainOrderBy
        )
    }

    pub(crate) fn allows_aggregates(self) -> bool {
        matches!(self, Clause::Result | Clause::Having | Clause::OrderBy | Clause::Window)
    }

    pub(crate) fn allows_windows(self) -> bool {
        matches!(self, Clause::Result | Clause::OrderBy | Clause::PlainOrderBy)
    }
}

/// One table name and its columns.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable<'a> {
    /// The alias, or the table's own name; empty for an unnamed query.
    pub(crate) name: String,
    pub(crate) columns: Vec<ScopeColumn>,
    /// The table whose rowid the names `rowid`, `oid` and `_rowid_` stand for.
    pub(crate) rowid: Option<SourceId>,
    /// Behind a table source: the definition, for generated columns.
    pub(crate) table: Option<&'a Table>,
    /// The virtual table behind one that a rule has read row by row: its hidden columns are no
    /// names of this scope, and asking for one asks for its module.
    pub(crate) module: Option<&'a Connected>,
    /// True for the right side of a left join.
    pub(crate) nullable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    /// The meaning of the name: a source's column, or an expression of a merged query.
    pub(crate) expr: Expr,
    pub(crate) affinity: Option<Affinity>,
    /// `Err` names an unknown collating sequence.
    pub(crate) collation: Result<Coll, String>,
    pub(crate) declared_type: Option<String>,
    /// True where `USING` or `NATURAL` merged the column into a column further left.
    pub(crate) merged: bool,
    /// The columns further right merged into this one, by table and column of the same scope, for
    /// rows whose own value is NULL. A further join compares the first value other than NULL.
    pub(crate) others: Vec<(usize, usize)>,
    /// The columns behind the name where used alone: the value is the first other than NULL. Empty
    /// for the column itself.
    pub(crate) named: Vec<(usize, usize)>,
    /// Name in a result, where different.
    pub(crate) shown: Option<String>,
    /// True where `*` leaves the column out.
    pub(crate) hidden: bool,
}

/// A name found.
#[derive(Debug)]
pub(crate) enum Found {
    Column { depth: usize, table: usize, column: usize },
    Rowid { depth: usize, table: usize },
}

/// Why a name was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    None,
    Ambiguous,
}

impl Scope<'_> {
    /// Looks a column up among the tables of this scope; only among tables called `table`, or of
    /// one database, where the name is qualified so.
    pub(crate) fn find(
        &self,
        depth: usize,
        (database, table): (Option<usize>, Option<&ast::Name>),
        column: &ast::Name,
    ) -> Result<Found, Miss> {
        let named = |candidate: &ScopeTable<'_>| {
            let of = candidate.table.map(|table| table.database);
            table.is_none_or(|table| table.is(&candidate.name))
                && (database.is_none() || of.is_none() || of == database)
        };
        let mut found = None;
        for (index, candidate) in self.tables.iter().enumerate() {
            if !named(candidate) {
                continue;
            }
            for (place, known) in candidate.columns.iter().enumerate() {
                if !column.is(&known.name) || (table.is_none() && known.merged) {
                    continue;
                }
                // The first of merged columns stands for all of them.
                if found.is_some() && known.merged {
                    break;
                }
                if found.is_some() {
                    return Err(Miss::Ambiguous);
                }
                found = Some(Found::Column { depth, table: index, column: place });
                break;
            }
        }
        if let Some(found) = found {
            return Ok(found);
        }
        if self.clause != Clause::Generated
            && ["rowid", "_rowid_", "oid"].iter().any(|name| column.is(name))
        {
            for (index, candidate) in self.tables.iter().enumerate() {
                if !named(candidate) || candidate.rowid.is_none() {
                    continue;
                }
                if found.is_some() {
                    return Err(Miss::Ambiguous);
                }
                found = Some(Found::Rowid { depth, table: index });
            }
        }
        found.ok_or(Miss::None)
    }

    /// True for the name of a hidden column of a virtual table that is read row by row.
    pub(crate) fn asks_module(&self, table: Option<&ast::Name>, column: &ast::Name) -> bool {
        let modules = self.tables.iter().filter_map(|known| Some((known, known.module?)));
        modules.into_iter().any(|(known, module)| {
            table.is_none_or(|table| table.is(&known.name))
                && module.hidden.iter().any(|place| column.is(&module.table.columns[*place].name))
        })
    }
}

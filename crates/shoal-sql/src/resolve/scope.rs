//! Where names are looked up: the tables of a `FROM`, the result's aliases, enclosing queries.

use super::collation::Coll;
use super::tree::{Aggregate, Expr, SelectId, SourceId, Window, WindowCall};
use crate::parse::ast;
use crate::schema::Table;
use crate::value::Affinity;

/// The names that one `SELECT` sees of its own.
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
    /// Set when an expression of this query or of one within it reads an enclosing query's row.
    pub(crate) correlated: bool,
}

/// The clause whose expressions are being resolved: what may be called and named there.
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
    /// The arguments of a window function, and what its window is made of.
    Window,
    /// `LIMIT`, `VALUES` and other places without a row.
    Constant,
    /// The value of a generated column: it names columns alone, without their table.
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
    /// Whether it is the right side of a left join.
    pub(crate) nullable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    /// What the name stands for: a source's column, or an expression of a query that was merged
    /// into the one around it.
    pub(crate) expr: Expr,
    pub(crate) affinity: Option<Affinity>,
    /// `Err` names a collating sequence that is not built in.
    pub(crate) collation: Result<Coll, String>,
    pub(crate) declared_type: Option<String>,
    /// Whether `USING` or `NATURAL` merged it into a column further left.
    pub(crate) merged: bool,
    /// The columns further right that were merged into this one where it may be NULL and they are
    /// not: by table and column of the same scope. A further join compares the first that is not NULL.
    pub(crate) others: Vec<(usize, usize)>,
    /// The columns whose first value that is not NULL its name alone stands for; none for itself.
    pub(crate) named: Vec<(usize, usize)>,
    /// Its name in a result, where that differs.
    pub(crate) shown: Option<String>,
    /// Whether `*` leaves it out.
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
    /// Looks a column up among the tables of this scope alone, or among those of one name, and of
    /// one database where that was named.
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
                // Of columns that a join made one the first stands for both.
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
}

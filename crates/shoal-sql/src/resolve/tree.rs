//! A query whose names are resolved: sources and columns by number, functions by reference,
//! comparisons with their affinity and collation.

use std::sync::{Arc, Mutex};

use super::collation::Coll;
use crate::functions::{Aggregation, Scalar, WindowFunction};
use crate::parse::ast::{CompoundOp, CurrentTime, FrameExclude, FrameUnit};
use crate::schema::{Connected, Module, Table};
use crate::value::{Affinity, ArithmeticOp, Collation, Comparison, Value};

/// A table, view or query in a `FROM`, numbered throughout one statement.
pub(crate) type SourceId = usize;

/// One `SELECT` of a statement, numbered throughout the statement.
pub(crate) type SelectId = usize;

/// The column number of the rowid.
pub(crate) const ROWID: usize = usize::MAX;

/// A whole query: a body, its order and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    pub(crate) columns: Vec<OutputColumn>,
    /// Affinity and collation of the first column for an expression around the query: in a compound
    /// the last part's, where a `FROM` goes by the first part.
    pub(crate) as_expression: (Option<Affinity>, Coll),
    pub(crate) order_by: Vec<OrderKey>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// True where the query depends on the row of an enclosing query.
    pub(crate) correlated: bool,
}

/// A common table whose rows may be made once, for all places with its name.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// The table's number among the statement's shared tables.
    pub(crate) slot: usize,
    pub(crate) query: Query,
}

/// One column of a query's result.
#[derive(Clone, Debug)]
pub(crate) struct OutputColumn {
    pub(crate) name: String,
    /// Name for a view or a table made of the query; different below a `COLLATE`.
    pub(crate) inner_name: String,
    /// Name for a query around, where different from `inner_name`: the spelling in the query.
    pub(crate) written: Option<String>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) collation: Coll,
    /// The classes of the column's values, as told by [`classes`](super::select::classes).
    pub(crate) classes: u8,
    /// The declared type, where the column is a table's column.
    pub(crate) declared_type: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Compound {
        first: Box<Body>,
        rest: Vec<(CompoundOp, Body)>,
        /// The collation of each column for telling rows apart.
        collations: Vec<Collation>,
    },
    Recursive(Box<Recursion>),
    Shared(Box<Shared>),
}

/// A recursive common table: rows of the first part go into a queue, and every row taken from the
/// queue goes through the steps, whose rows go into the queue.
#[derive(Clone, Debug)]
pub(crate) struct Recursion {
    /// The slot of the taken row, numbered throughout the statement.
    pub(crate) slot: usize,
    pub(crate) first: Body,
    pub(crate) steps: Vec<Body>,
    /// True where a row seen before is left out.
    pub(crate) distinct: bool,
    pub(crate) collations: Vec<Collation>,
    /// The order of taking rows; first in, first out where empty. Every key is a column.
    pub(crate) order_by: Vec<OrderKey>,
}

/// One `SELECT` with its clauses.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) id: SelectId,
    pub(crate) sources: Vec<Source>,
    /// Predicates, of `WHERE` and of the `ON` of inner joins alike.
    pub(crate) conjuncts: Vec<Expr>,
    /// `Some` for a query with aggregates or `GROUP BY`; the terms may be none.
    pub(crate) group_by: Option<Vec<(Expr, Collation)>>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) having: Option<Expr>,
    pub(crate) windows: Vec<Window>,
    pub(crate) window_calls: Vec<WindowCall>,
    pub(crate) outputs: Vec<Expr>,
    /// The collations for dropping equal rows, for `SELECT DISTINCT`.
    pub(crate) distinct: Option<Vec<Collation>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) id: SourceId,
    pub(crate) kind: SourceKind,
    /// `Some` where rows stay although nothing matches them, and for every join before such a one.
    pub(crate) join: Option<SourceJoin>,
    /// True where every source before in the `FROM` must be read before this one.
    pub(crate) fixed: bool,
    pub(crate) index_hint: IndexHint,
    /// One for each of the table's indexes where any of them needs one; else empty.
    pub(crate) indexed: Vec<IndexMeaning>,
    /// True for a table with hidden rows: only leakproof conditions are asked beside its predicate.
    pub(crate) guarded: bool,
    /// The source's name in plans.
    pub(crate) name: String,
}

/// The definition of an index, resolved for a source's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexMeaning {
    /// For each column of the index other than a stored column of the table: its expression, and
    /// the expression's affinity.
    pub(crate) columns: Vec<Option<(Expr, Option<Affinity>)>>,
    /// The condition of a partial index, holding for all its rows.
    pub(crate) filter: Vec<Expr>,
    /// True where the definition names missing things.
    pub(crate) unusable: bool,
}

/// The join of a source to all sources before.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceJoin {
    pub(crate) on: Vec<Expr>,
    /// True where unmatched rows of the sources before stay: `LEFT` and `FULL`.
    pub(crate) keeps_left: bool,
    /// True where unmatched rows of this source stay: `RIGHT` and `FULL`.
    pub(crate) keeps_right: bool,
}

impl Select {
    /// The rows of sources, without conditions.
    pub(super) fn of_sources(id: SelectId, sources: Vec<Source>, outputs: Vec<Expr>) -> Select {
        Select {
            id,
            sources,
            outputs,
            conjuncts: Vec::new(),
            group_by: None,
            aggregates: Vec::new(),
            having: None,
            windows: Vec::new(),
            window_calls: Vec::new(),
            distinct: None,
        }
    }
}

impl Source {
    /// A source of an inner join: any index may be used, and no row is hidden.
    pub(crate) fn new(id: SourceId, kind: SourceKind, name: String) -> Source {
        Source {
            id,
            kind,
            join: None,
            fixed: false,
            index_hint: IndexHint::Any,
            indexed: Vec::new(),
            guarded: false,
            name,
        }
    }

    pub(crate) fn keeps_left(&self) -> bool {
        self.join.as_ref().is_some_and(|join| join.keeps_left)
    }

    pub(crate) fn keeps_right(&self) -> bool {
        self.join.as_ref().is_some_and(|join| join.keeps_right)
    }

    /// The conditions of its `ON` where they do not simply filter.
    pub(crate) fn on(&self) -> &[Expr] {
        self.join.as_ref().map_or(&[], |join| &join.on)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexHint {
    Any,
    None,
    Only(String),
}

#[derive(Clone, Debug)]
pub(crate) enum SourceKind {
    Table(Arc<Table>),
    Query(Box<Query>),
    /// The row taken from a recursion's queue, by its slot.
    Taken(usize),
    /// The rows of a virtual table.
    Virtual(Box<VirtualSource>),
    /// The rows a module makes of its arguments.
    Module {
        module: Arc<dyn Module>,
        arguments: Vec<Option<Expr>>,
    },
}

/// A virtual table in a `FROM`.
#[derive(Clone, Debug)]
pub(crate) struct VirtualSource {
    pub(crate) table: Arc<Connected>,
    /// The values in parentheses, one for each hidden column.
    pub(crate) arguments: Vec<Option<Expr>>,
    /// The calls of functions taking the table, by the places of their columns behind
    /// [`AUXILIARY`].
    pub(crate) calls: AuxiliaryCalls,
}

/// The first of the column numbers standing for values of auxiliary functions.
pub(crate) const AUXILIARY: usize = usize::MAX / 2;

/// The calls of auxiliary functions of one source, added while its select is resolved.
pub(crate) type AuxiliaryCalls = Arc<Mutex<Vec<AuxiliaryCall>>>;

/// A call of a function with a virtual table as its first argument.
#[derive(Clone, Debug)]
pub(crate) struct AuxiliaryCall {
    /// The table's number of the function.
    pub(crate) function: usize,
    /// The arguments behind the table.
    pub(crate) arguments: Vec<Expr>,
}

/// A term of `ORDER BY`.
#[derive(Clone, Debug)]
pub(crate) struct OrderKey {
    pub(crate) key: Key,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
    pub(crate) collation: Collation,
}

#[derive(Clone, Debug)]
pub(crate) enum Key {
    /// A column of the result.
    Output(usize),
    Expr(Expr),
}

/// A call of an aggregate function.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) function: Aggregation,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Expr>,
    /// The order of a group's rows for the aggregate; every key is an expression.
    pub(crate) order_by: Vec<OrderKey>,
    /// The collation of texts for `min` and `max`, and of values for `DISTINCT`.
    pub(crate) collation: Collation,
    /// One bit for each argument: set for JSON made by a function.
    pub(crate) json: u64,
}

/// A window: how the rows of a result are parted and ordered for functions over them.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) partition_by: Vec<(Expr, Collation)>,
    /// Every key is an expression, never a column of the result.
    pub(crate) order_by: Vec<OrderKey>,
    pub(crate) frame: Frame,
}

/// The window frame: the rows around the current one seen by a window function.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameBound,
    pub(crate) end: FrameBound,
    pub(crate) exclude: FrameExclude,
}

/// One end of a window frame; distances are expressions without columns.
#[derive(Clone, Debug)]
pub(crate) enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// A call with `OVER`.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    pub(crate) function: WindowFunction,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) filter: Option<Expr>,
    pub(crate) collation: Collation,
    /// One bit for each argument: set for JSON made by a function.
    pub(crate) json: u64,
    /// The window's place in the select's list of windows.
    pub(crate) window: usize,
}

/// An expression over the columns of sources.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(Value),
    /// By its number, from 1.
    Parameter(usize),
    CurrentTime(CurrentTime),
    /// A column of a source, or its rowid ([`ROWID`]).
    Column {
        source: SourceId,
        column: usize,
    },
    /// An aggregate's result, by its place in its select's list.
    Aggregate {
        select: SelectId,
        index: usize,
    },
    /// A window function's result, by its place in its select's list.
    Window {
        select: SelectId,
        index: usize,
    },
    /// Unary `+`: the value itself. Plans do not look behind the plus: an index is kept out.
    Plus(Box<Expr>),
    Negate(Box<Expr>),
    BitNot(Box<Expr>),
    Not(Box<Expr>),
    Arithmetic(ArithmeticOp, Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    IsNull {
        expr: Box<Expr>,
        not: bool,
    },
    /// `IS TRUE`, `IS NOT FALSE` and the like.
    IsTruth {
        expr: Box<Expr>,
        truth: bool,
        not: bool,
    },
    Between {
        expr: Box<Expr>,
        not: bool,
        low: (Comparison, Box<Expr>),
        high: (Comparison, Box<Expr>),
    },
    InList {
        expr: Box<Expr>,
        not: bool,
        list: Vec<Expr>,
        /// Applied to both sides.
        affinity: Option<Affinity>,
        collation: Collation,
    },
    InQuery {
        expr: Box<Expr>,
        not: bool,
        query: Box<Query>,
        affinity: Option<Affinity>,
        collation: Collation,
    },
    /// A row `IN` the rows of a query, each column with its affinity and collation.
    RowInQuery {
        row: Vec<Expr>,
        not: bool,
        query: Box<Query>,
        rules: Vec<(Option<Affinity>, Collation)>,
    },
    Case {
        /// The base and how it compares with each branch.
        base: Option<Box<Expr>>,
        branches: Vec<(Comparison, Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Cast {
        expr: Box<Expr>,
        affinity: Affinity,
    },
    /// A generated column's value as stored by the column.
    Stored {
        expr: Box<Expr>,
        affinity: Affinity,
    },
    Call {
        function: Scalar,
        arguments: Vec<Expr>,
        collation: Collation,
        /// One bit for each argument: set for JSON made by a function.
        json: u64,
    },
    /// The first argument other than NULL; later ones are not evaluated.
    Coalesce(Vec<Expr>),
    Exists(Box<Query>),
    /// The first column of the first row, or NULL.
    Scalar(Box<Query>),
    /// A column of the first row, or NULL.
    ScalarColumn(Box<Query>, usize),
}

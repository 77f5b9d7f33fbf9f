//! The tree of one statement: owned, with the byte offset of whatever an error may point at.
//!
//! The tree is independent of the grammar crate, whose arena and spellings the rest of this crate
//! never sees: names are unquoted, literals are values, parameters are numbered.

use crate::error::Raise;
use crate::value::Value;

/// One statement.
#[derive(Clone, Debug)]
pub(crate) enum Stmt {
    Select(Box<Select>),
    Insert(Box<Insert>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    CreateTable(Box<CreateTable>),
    CreateIndex(Box<CreateIndex>),
    CreateView(Box<CreateView>),
    CreateTrigger(Box<CreateTrigger>),
    /// `REINDEX`, of everything or of one collation, table or index.
    Reindex(Option<ObjectName>),
    CreateVirtualTable(Box<CreateVirtualTable>),
    AlterTable(Box<AlterTable>),
    /// `ANALYZE`, of everything or of a database, an index or a table by its name.
    Analyze(Option<ObjectName>),
    /// `VACUUM`, of one database, perhaps into the file named by a query of one row.
    Vacuum {
        database: Option<Name>,
        into: Option<Box<Select>>,
    },
    Drop {
        kind: DropKind,
        name: ObjectName,
        if_exists: bool,
    },
    Begin(TransactionMode),
    Commit,
    /// `ROLLBACK`, or `ROLLBACK TO` the named savepoint.
    Rollback {
        savepoint: Option<Name>,
    },
    Savepoint(Name),
    Release(Name),
    Pragma {
        name: ObjectName,
        argument: Option<PragmaArgument>,
    },
    /// `ATTACH`, as a query of one row: the file and the name.
    Attach(Box<Select>),
    /// `DETACH`, as a query of one row: the name.
    Detach(Box<Select>),
    /// `EXPLAIN` in its three forms.
    Explain {
        kind: Explain,
        stmt: Box<Stmt>,
        offset: usize,
    },
}

impl Stmt {
    /// The table or view in which the statement changes rows; `None` for other statements.
    pub(crate) fn changed_table(&self) -> Option<&ObjectName> {
        match self {
            Stmt::Insert(insert) => Some(&insert.table),
            Stmt::Update(update) => Some(&update.table),
            Stmt::Delete(delete) => Some(&delete.table),
            _ => None,
        }
    }
}

/// The form of a shown plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explain {
    /// `EXPLAIN`: the tree of nodes.
    Tree,
    /// `EXPLAIN QUERY PLAN`: the plan in SQLite's layout.
    QueryPlan,
    /// `EXPLAIN ANALYZE`: the tree of nodes with the cost of running each.
    Analyze,
}

/// `ALTER TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct AlterTable {
    pub(crate) table: ObjectName,
    pub(crate) change: TableChange,
}

/// A change made by `ALTER TABLE`.
#[derive(Clone, Debug)]
pub(crate) enum TableChange {
    RenameTo(Name),
    RenameColumn {
        old: Name,
        new: Name,
    },
    /// `ADD COLUMN`: the definition runs from the column's name to the end of the statement.
    AddColumn(ColumnDef),
    DropColumn(Name),
    DropConstraint(Name),
    DropNotNull(Name),
    SetNotNull {
        column: Name,
        /// The place of the word `NOT`.
        start: usize,
    },
    AddCheck {
        name: Option<Name>,
        expr: Expr,
        /// The place of the word `CONSTRAINT` or `CHECK`.
        start: usize,
    },
}

/// The locks taken by `BEGIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionMode {
    Deferred,
    Immediate,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropKind {
    Table,
    Index,
    View,
    Trigger,
}

/// The value after `=` or between the parentheses of a `PRAGMA`.
#[derive(Clone, Debug)]
pub(crate) struct PragmaArgument {
    pub(crate) value: Value,
    pub(crate) offset: usize,
}

/// A name without its quotes.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) offset: usize,
    pub(crate) quote: Quote,
}

impl Name {
    /// Names are equal whatever the case of their ASCII letters.
    pub(crate) fn is(&self, other: &str) -> bool {
        self.text.eq_ignore_ascii_case(other)
    }
}

/// The quotes around a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quote {
    None,
    /// `"x"`: falls back to a string where no column has the name.
    Double,
    /// `[x]` or `` `x` ``.
    Other,
    /// `'x'`, taken where a name is expected.
    Single,
    /// A name that is in no text: the key of a row to be changed.
    Implied,
}

/// `name` or `database.name`.
#[derive(Clone, Debug)]
pub(crate) struct ObjectName {
    pub(crate) database: Option<Name>,
    pub(crate) name: Name,
}

impl ObjectName {
    /// The name as written, without quotes.
    pub(crate) fn in_full(&self) -> String {
        match &self.database {
            Some(database) => format!("{}.{}", database.text, self.name.text),
            None => self.name.text.clone(),
        }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    /// Offset of the expression's first name, literal or call.
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Value),
    /// `CURRENT_DATE`, `CURRENT_TIME`, `CURRENT_TIMESTAMP`.
    CurrentTime(CurrentTime),
    /// A parameter by its number, from 1.
    Parameter(usize),
    Column {
        database: Option<Name>,
        table: Option<Name>,
        column: Name,
    },
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `IS NULL`, and `IS NOT NULL` when `not`.
    IsNull {
        expr: Box<Expr>,
        not: bool,
    },
    Between {
        expr: Box<Expr>,
        not: bool,
        low: Box<Expr>,
        high: Box<Expr>,
    },
    In {
        expr: Box<Expr>,
        not: bool,
        set: InSet,
    },
    Like {
        op: LikeOp,
        not: bool,
        expr: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
    },
    Case {
        base: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Cast {
        expr: Box<Expr>,
        type_name: String,
    },
    Collate {
        expr: Box<Expr>,
        collation: Name,
    },
    Call(Box<Call>),
    Exists(Box<Select>),
    Subquery(Box<Select>),
    /// One of `count` columns of a query's first row, for setting several columns at once.
    SubqueryColumn {
        select: Box<Select>,
        column: usize,
        count: usize,
    },
    /// `(a, b)`: a row value.
    Row(Vec<Expr>),
    /// `RAISE(...)`, allowed in triggers only.
    Raise {
        action: Raise,
        message: Option<Box<Expr>>,
    },
}

/// The right side of `IN`.
#[derive(Clone, Debug)]
pub(crate) enum InSet {
    List(Vec<Expr>),
    Select(Box<Select>),
    Table { name: ObjectName, arguments: Option<Vec<Expr>> },
}

/// A function call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: Name,
    pub(crate) distinct: bool,
    pub(crate) arguments: Vec<Expr>,
    /// `f(*)`.
    pub(crate) star: bool,
    pub(crate) order_by: Vec<OrderTerm>,
    pub(crate) filter: Option<Expr>,
    pub(crate) over: Option<Over>,
}

/// The window of an `OVER`.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// A window of the `WINDOW` clause.
    Name(Name),
    Window(Box<Window>),
}

/// A window: the rows of the result a function sees, and their order.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The window extended by this one.
    pub(crate) base: Option<Name>,
    pub(crate) partition_by: Vec<Expr>,
    pub(crate) order_by: Vec<OrderTerm>,
    pub(crate) frame: Option<Frame>,
    pub(crate) offset: usize,
}

/// The window frame: the rows around the current one that a function is computed of.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameBound,
    pub(crate) end: FrameBound,
    pub(crate) exclude: FrameExclude,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnit {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, Debug)]
pub(crate) enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameExclude {
    /// Nothing was written.
    None,
    /// Excludes nothing, but rows are taken one by one as with an exclusion; sums of reals show the
    /// difference.
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CurrentTime {
    Date,
    Time,
    Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Negate,
    Plus,
    BitNot,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    BitAnd,
    BitOr,
    ShiftLeft,
    ShiftRight,
    Concat,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Is,
    IsNot,
    /// `->`.
    Arrow,
    /// `->>`.
    ArrowText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LikeOp {
    Like,
    Glob,
    Match,
    Regexp,
}

/// A `SELECT` or `VALUES`, possibly compound.
#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) with: Option<With>,
    pub(crate) first: SelectCore,
    pub(crate) compounds: Vec<(CompoundOp, SelectCore)>,
    pub(crate) order_by: Vec<OrderTerm>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
}

impl Select {
    /// `SELECT columns FROM from WHERE filter`.
    pub(crate) fn plain(
        columns: Vec<ResultColumn>,
        from: Option<From>,
        filter: Option<Expr>,
        offset: usize,
    ) -> Select {
        Select {
            with: None,
            first: SelectCore::Select(Box::new(SelectClauses {
                distinct: false,
                columns,
                from,
                filter,
                group_by: Vec::new(),
                having: None,
                windows: Vec::new(),
                offset,
            })),
            compounds: Vec::new(),
            order_by: Vec::new(),
            limit: None,
            offset: None,
        }
    }
}

/// `WITH`: queries the statement may name as tables.
#[derive(Clone, Debug)]
pub(crate) struct With {
    pub(crate) tables: Vec<CommonTable>,
}

/// One table of a `WITH`.
#[derive(Clone, Debug)]
pub(crate) struct CommonTable {
    pub(crate) name: Name,
    pub(crate) columns: Vec<Name>,
    /// `Some(true)` for `MATERIALIZED`, `Some(false)` for `NOT MATERIALIZED`.
    pub(crate) materialized: Option<bool>,
    pub(crate) select: Select,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompoundOp {
    Union,
    UnionAll,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub(crate) enum SelectCore {
    Select(Box<SelectClauses>),
    Values(Values),
}

/// `VALUES`.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) rows: Vec<Vec<Expr>>,
    /// True where the one row stands for expressions of another statement, as in an `INSERT`, and
    /// is no query.
    pub(crate) is_row: bool,
    /// True behind a `WITH` in the statement.
    pub(crate) behind_with: bool,
}

/// The clauses of one `SELECT`.
#[derive(Clone, Debug)]
pub(crate) struct SelectClauses {
    pub(crate) distinct: bool,
    pub(crate) columns: Vec<ResultColumn>,
    pub(crate) from: Option<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    /// The `WINDOW` clause.
    pub(crate) windows: Vec<(Name, Window)>,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ResultColumn {
    Expr {
        expr: Expr,
        alias: Option<Name>,
        /// The expression's own text: the column's name where nothing else names the column.
        text: String,
    },
    Star {
        offset: usize,
    },
    TableStar(Name),
}

/// A `FROM` clause: a table and the tables joined to it, left to right.
#[derive(Clone, Debug)]
pub(crate) struct From {
    pub(crate) first: TableRef,
    pub(crate) joins: Vec<Join>,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) kind: JoinKind,
    pub(crate) natural: bool,
    pub(crate) table: TableRef,
    pub(crate) constraint: JoinConstraint,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    /// `CROSS JOIN`: inner, and the planner keeps the order.
    Cross,
    Left,
    Right,
    Full,
}

#[derive(Clone, Debug)]
pub(crate) enum JoinConstraint {
    None,
    On(Expr),
    Using(Vec<Name>),
}

#[derive(Clone, Debug)]
pub(crate) struct TableRef {
    pub(crate) kind: TableRefKind,
    pub(crate) alias: Option<Name>,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum TableRefKind {
    Table {
        name: ObjectName,
        indexed: Indexed,
    },
    /// A table-valued function.
    Call {
        name: ObjectName,
        arguments: Vec<Expr>,
    },
    /// `table AS OF value`; the value is the one argument.
    Past {
        name: ObjectName,
        point: PastPoint,
        value: Vec<Expr>,
    },
    Select(Box<Select>),
    /// A parenthesised join.
    Joined(Box<From>),
}

/// The meaning of the value behind `AS OF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastPoint {
    /// `AS OF value`: a version, in words of whoever keeps versions.
    Version,
    /// `FOR SYSTEM_TIME AS OF value`: a time.
    Time,
}

#[derive(Clone, Debug)]
pub(crate) enum Indexed {
    Any,
    /// `INDEXED BY`.
    By(Name),
    /// `NOT INDEXED`.
    Not,
}

/// One term of `ORDER BY`, or one column of an index or key.
#[derive(Clone, Debug)]
pub(crate) struct OrderTerm {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
    /// `NULLS FIRST` is `Some(true)`.
    pub(crate) nulls_first: Option<bool>,
}

/// `ON CONFLICT` and `OR` resolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Rollback,
    Abort,
    Fail,
    Ignore,
    Replace,
}

#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub(crate) with: Option<With>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) table: ObjectName,
    pub(crate) alias: Option<Name>,
    /// `None` when no column list was given.
    pub(crate) columns: Option<Vec<Name>>,
    pub(crate) source: InsertSource,
    /// The `ON CONFLICT` clauses.
    pub(crate) upserts: Vec<Upsert>,
    pub(crate) returning: Option<Vec<ResultColumn>>,
}

/// An `ON CONFLICT` clause of an `INSERT`.
#[derive(Clone, Debug)]
pub(crate) struct Upsert {
    /// The columns of the constraint and the condition of its index; `None` for any constraint.
    pub(crate) target: Option<(Vec<OrderTerm>, Option<Expr>)>,
    pub(crate) action: UpsertAction,
    pub(crate) offset: usize,
}

/// The effect of an `ON CONFLICT` clause.
#[derive(Clone, Debug)]
pub(crate) enum UpsertAction {
    Nothing,
    Update { sets: Vec<(Vec<Name>, Expr)>, filter: Option<Expr> },
}

#[derive(Clone, Debug)]
pub(crate) enum InsertSource {
    /// `VALUES` is a select, too.
    Select(Box<Select>),
    DefaultValues,
}

#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) with: Option<With>,
    pub(crate) conflict: Option<Conflict>,
    pub(crate) table: ObjectName,
    /// `AT value`: the state seen by the writer.
    pub(crate) at: Option<Expr>,
    pub(crate) alias: Option<Name>,
    pub(crate) indexed: Indexed,
    pub(crate) sets: Vec<(Vec<Name>, Expr)>,
    pub(crate) from: Option<From>,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Option<Vec<ResultColumn>>,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Delete {
    pub(crate) with: Option<With>,
    pub(crate) table: ObjectName,
    pub(crate) alias: Option<Name>,
    pub(crate) indexed: Indexed,
    pub(crate) filter: Option<Expr>,
    pub(crate) returning: Option<Vec<ResultColumn>>,
}

/// `CREATE VIRTUAL TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct CreateVirtualTable {
    pub(crate) if_not_exists: bool,
    pub(crate) name: ObjectName,
    pub(crate) module: Name,
    /// The texts between the commas, without spaces around them.
    pub(crate) arguments: Vec<String>,
    /// The statement from the table's name to its last parenthesis, as the schema stores it.
    pub(crate) text: String,
}

#[derive(Clone, Debug)]
pub(crate) struct CreateTable {
    pub(crate) temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) name: ObjectName,
    pub(crate) body: CreateTableBody,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum CreateTableBody {
    Columns {
        columns: Vec<ColumnDef>,
        constraints: Vec<TableConstraint>,
        without_rowid: bool,
        strict: bool,
    },
    Select(Box<Select>),
}

#[derive(Clone, Debug)]
pub(crate) struct ColumnDef {
    pub(crate) name: Name,
    /// The declared type as written, one space between its words, sizes included; empty for none.
    pub(crate) type_name: String,
    pub(crate) constraints: Vec<ColumnConstraint>,
}

/// A constraint of one column, in the order written.
#[derive(Clone, Debug)]
pub(crate) enum ColumnConstraint {
    PrimaryKey {
        descending: bool,
        conflict: Option<Conflict>,
        autoincrement: bool,
    },
    NotNull {
        conflict: Option<Conflict>,
    },
    /// A bare `NULL`.
    Null,
    Unique {
        conflict: Option<Conflict>,
    },
    Check {
        name: Option<Name>,
        expr: Expr,
        text: String,
    },
    Default {
        expr: Expr,
        /// The value's own text, shown by `PRAGMA table_info`.
        text: String,
    },
    Collate(Name),
    ForeignKey(ForeignKey),
    Generated {
        expr: Expr,
        stored: bool,
    },
    /// A `DEFERRABLE` clause for the foreign key before; true where the check is deferred.
    Deferrable(bool),
}

#[derive(Clone, Debug)]
pub(crate) enum TableConstraint {
    PrimaryKey { columns: Vec<OrderTerm>, conflict: Option<Conflict>, autoincrement: bool },
    Unique { columns: Vec<OrderTerm>, conflict: Option<Conflict> },
    Check { name: Option<Name>, expr: Expr, text: String },
    ForeignKey { columns: Vec<Name>, key: ForeignKey },
}

/// `REFERENCES`.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub(crate) table: Name,
    pub(crate) columns: Vec<Name>,
    /// SQLite's words for the actions: `NO ACTION`, `CASCADE` and so on.
    pub(crate) on_update: &'static str,
    pub(crate) on_delete: &'static str,
    /// True for `DEFERRABLE INITIALLY DEFERRED`.
    pub(crate) deferred: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct CreateTrigger {
    pub(crate) temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) has_parameters: bool,
    pub(crate) name: ObjectName,
    pub(crate) time: TriggerTime,
    pub(crate) event: TriggerEvent,
    /// The columns of `UPDATE OF`; empty for all.
    pub(crate) columns: Vec<Name>,
    pub(crate) table: ObjectName,
    pub(crate) when: Option<Expr>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TriggerTime {
    Before,
    After,
    InsteadOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TriggerEvent {
    Insert,
    Update,
    Delete,
}

#[derive(Clone, Debug)]
pub(crate) struct CreateIndex {
    pub(crate) unique: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) name: ObjectName,
    pub(crate) table: Name,
    pub(crate) columns: Vec<OrderTerm>,
    pub(crate) filter: Option<Expr>,
    pub(crate) offset: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    pub(crate) temporary: bool,
    pub(crate) if_not_exists: bool,
    pub(crate) has_parameters: bool,
    pub(crate) name: ObjectName,
    pub(crate) columns: Option<Vec<Name>>,
    pub(crate) select: Select,
    pub(crate) offset: usize,
}

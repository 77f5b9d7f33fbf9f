//! A query as a tree: clauses, patterns, expressions.
//!
//! The parser makes the tree; `bind` writes the slots of variables into it. A slot is a position
//! in a row of values.

use crate::temporal::functions::TemporalFunction;
use crate::value::Value;

/// A byte offset into the query's text. All offsets compare equal: two expressions are the same
/// wherever they stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pos(pub(crate) u32);

impl PartialEq for Pos {
    fn eq(&self, _: &Pos) -> bool {
        true
    }
}

impl Pos {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// A slot not yet given.
pub(crate) const UNBOUND: usize = usize::MAX;

/// A query with its slots.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) mode: Mode,
    pub(crate) parts: Vec<Part>,
    /// True keeps equal rows of the parts joined by `UNION`.
    pub(crate) keeps_duplicates: bool,
}

/// What is wanted of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Run,
    Explain,
    Profile,
}

/// One side of a `UNION`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) clauses: Vec<Clause>,
    pub(crate) pos: Pos,
}

/// A variable where it is introduced or named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Var {
    pub(crate) name: String,
    pub(crate) slot: usize,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Clause {
    Match(Match),
    Unwind { list: Expr, var: Var },
    Project(Projection),
    Create { patterns: Vec<PathPattern>, pos: Pos, width: usize },
    Merge(Merge),
    Set { items: Vec<SetItem>, pos: Pos },
    Remove { items: Vec<RemoveItem>, pos: Pos },
    Delete { detach: bool, items: Vec<Expr>, pos: Pos },
    Call(Call),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Match {
    pub(crate) optional: bool,
    pub(crate) patterns: Vec<PathPattern>,
    pub(crate) filter: Option<Expr>,
    pub(crate) pos: Pos,
    /// Slots of a row before and after the clause.
    pub(crate) before: usize,
    pub(crate) after: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    pub(crate) pattern: PathPattern,
    pub(crate) on_create: Vec<SetItem>,
    pub(crate) on_match: Vec<SetItem>,
    pub(crate) pos: Pos,
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// `WITH` and `RETURN`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projection {
    pub(crate) is_return: bool,
    pub(crate) distinct: bool,
    pub(crate) star: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) skip: Option<Expr>,
    pub(crate) limit: Option<Expr>,
    pub(crate) filter: Option<Expr>,
    pub(crate) pos: Pos,
    /// Slots of a row before the clause.
    pub(crate) before: usize,
    /// The aggregates, where the clause groups rows; items then read keys and results from one
    /// row: keys, then results of aggregates, then the items.
    pub(crate) groups: Option<Groups>,
    /// True of a condition that reads the row before the clause beside the new columns.
    pub(crate) filters_wide: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Groups {
    pub(crate) keys: Vec<Expr>,
    pub(crate) aggregates: Vec<Aggregate>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) distinct: bool,
    pub(crate) args: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    CountStar,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    Collect,
    StDev,
    StDevP,
    PercentileCont,
    PercentileDisc,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) expr: Expr,
    pub(crate) name: String,
    pub(crate) has_alias: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    pub(crate) expr: Expr,
    pub(crate) descending: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetItem {
    Property {
        target: Expr,
        key: String,
        value: Expr,
    },
    /// `n = {..}` and, where `adds`, `n += {..}`.
    All {
        target: Expr,
        value: Expr,
        adds: bool,
    },
    Labels {
        target: Expr,
        labels: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RemoveItem {
    Property { target: Expr, key: String },
    Labels { target: Expr, labels: Vec<String> },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// `None`: no parentheses, arguments are parameters of the query.
    pub(crate) args: Option<Vec<Expr>>,
    pub(crate) yields: Yield,
    pub(crate) filter: Option<Expr>,
    pub(crate) pos: Pos,
    pub(crate) is_standalone: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Yield {
    None,
    Star,
    /// Names of results and their variables.
    Items(Vec<(String, Var)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortest {
    /// All paths.
    No,
    /// One shortest path.
    One,
    /// All shortest paths.
    All,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathPattern {
    pub(crate) var: Option<Var>,
    pub(crate) shortest: Shortest,
    pub(crate) start: NodePattern,
    pub(crate) steps: Vec<(RelPattern, NodePattern)>,
    pub(crate) pos: Pos,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodePattern {
    pub(crate) var: Option<Var>,
    pub(crate) slot: usize,
    /// The slot holds a value before the pattern is matched.
    pub(crate) is_bound: bool,
    pub(crate) labels: Option<LabelExpr>,
    pub(crate) properties: Option<Expr>,
    pub(crate) filter: Option<Box<Expr>>,
    pub(crate) pos: Pos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Right,
    Left,
    Both,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RelPattern {
    pub(crate) var: Option<Var>,
    pub(crate) slot: usize,
    pub(crate) is_bound: bool,
    pub(crate) types: Option<LabelExpr>,
    pub(crate) length: Option<Length>,
    pub(crate) properties: Option<Expr>,
    pub(crate) filter: Option<Box<Expr>>,
    pub(crate) direction: Direction,
    pub(crate) pos: Pos,
}

/// Bounds of a variable-length relationship.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) min: u64,
    pub(crate) max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LabelExpr {
    Name(String),
    Any,
    Not(Box<LabelExpr>),
    And(Vec<LabelExpr>),
    Or(Vec<LabelExpr>),
}

impl LabelExpr {
    /// True of an element with labels for which `has` holds.
    pub(crate) fn holds(&self, has: &dyn Fn(&str) -> bool, is_labelled: bool) -> bool {
        match self {
            LabelExpr::Name(name) => has(name),
            LabelExpr::Any => is_labelled,
            LabelExpr::Not(inner) => !inner.holds(has, is_labelled),
            LabelExpr::And(all) => all.iter().all(|one| one.holds(has, is_labelled)),
            LabelExpr::Or(any) => any.iter().any(|one| one.holds(has, is_labelled)),
        }
    }

    /// The names, where the expression is `A:B` or `A&B` and nothing else.
    pub(crate) fn conjunction(&self) -> Option<Vec<&str>> {
        match self {
            LabelExpr::Name(name) => Some(vec![name]),
            LabelExpr::And(all) => all
                .iter()
                .map(|one| one.conjunction())
                .collect::<Option<Vec<_>>>()
                .map(|v| v.concat()),
            _ => None,
        }
    }

    /// The names, where the expression is `A|B` and nothing else.
    pub(crate) fn disjunction(&self) -> Option<Vec<&str>> {
        match self {
            LabelExpr::Name(name) => Some(vec![name]),
            LabelExpr::Or(any) => any
                .iter()
                .map(|one| one.disjunction())
                .collect::<Option<Vec<_>>>()
                .map(|v| v.concat()),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: Kind,
    pub(crate) pos: Pos,
}

impl Expr {
    pub(crate) fn new(kind: Kind, pos: Pos) -> Expr {
        Expr { kind, pos }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArithmeticOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareOp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogicOp {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextOp {
    StartsWith,
    EndsWith,
    Contains,
    Matches,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuantifierKind {
    All,
    Any,
    None,
    Single,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MapItem {
    Field(String, Expr),
    AllProperties,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Literal(Value),
    Parameter(String),
    Variable(Var),
    Property(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    List(Vec<Expr>),
    Map(Vec<(String, Expr)>),
    MapProjection(Box<Expr>, Vec<MapItem>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Plus(Box<Expr>),
    Logic(LogicOp, Vec<Expr>),
    /// Operands joined from left to right.
    Arithmetic(Box<Expr>, Vec<(ArithmeticOp, Expr)>),
    /// `a < b <= c`: true where each pair compares so.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    Text(TextOp, Box<Expr>, Box<Expr>),
    In(Box<Expr>, Box<Expr>),
    IsNull(Box<Expr>, bool),
    HasLabels(Box<Expr>, LabelExpr),
    Call {
        name: String,
        distinct: bool,
        args: Vec<Expr>,
        function: Function,
    },
    CountStar,
    Case {
        operand: Option<Box<Expr>>,
        whens: Vec<(Vec<Expr>, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    ListComprehension {
        var: Var,
        list: Box<Expr>,
        filter: Option<Box<Expr>>,
        map: Option<Box<Expr>>,
    },
    Quantifier {
        kind: QuantifierKind,
        var: Var,
        list: Box<Expr>,
        filter: Box<Expr>,
    },
    Reduce {
        total: Var,
        start: Box<Expr>,
        var: Var,
        list: Box<Expr>,
        step: Box<Expr>,
    },
    /// A pattern as a predicate: true of any match.
    Pattern(Box<Subquery>),
    /// A pattern with a value of each match.
    PatternComprehension {
        pattern: Box<Subquery>,
        map: Box<Expr>,
    },
    Exists(Box<Subquery>),
    Count(Box<Subquery>),
    /// `shortestPath((a)-[*]-(b))` as a value: a path or null, or a list of paths.
    ShortestPath(Box<Subquery>),
}

/// A query within an expression: a pattern with a filter, or whole parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    pub(crate) parts: Vec<Part>,
    /// Slots of a row around the expression.
    pub(crate) before: usize,
    /// Slots of a row of the pattern.
    pub(crate) after: usize,
}

/// The function found by the binder for a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Unknown,
    Aggregate(AggregateKind),
    Plain(crate::functions::Plain),
    Temporal(TemporalFunction),
}

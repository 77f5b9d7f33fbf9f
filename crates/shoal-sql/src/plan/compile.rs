//! Resolved expressions to operations.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use shoal_store::Pgno;

use crate::Error;
use crate::plan::correlate::outer_reads;
use crate::plan::node::Node;
use crate::plan::pipeline::ProbeWalk;
use crate::plan::{Asked, Code, Learned, Op, Predicate, Reg, Shape, SubqueryPlan, When};
use crate::resolve::tree::{Expr, Query, ROWID, Select, SelectId, SourceId};
use crate::schema::Table;
use crate::session::forced::Forced;
use crate::value::{CompareOp, Comparison, InRule, PATTERN_BYTES_MAX, Pattern, Value};

/// Lists of constants longer than this are looked up by hash.
const SET_MIN: usize = 8;

/// Pages are asked about lists up to this length.
const LISTED_MAX: usize = 64;

/// Pages are asked about an `OR` within an `OR` up to this depth.
const PARTS_DEEP_MAX: usize = 4;

/// Gathers what one statement needs: registers, constants, parameters, queries within expressions.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    pub(super) ops: Vec<Op>,
    pub(crate) registers: usize,
    pub(crate) constants: Vec<(Reg, Value)>,
    /// Register and the parameter's number from 1.
    pub(crate) parameters: Vec<(Reg, usize)>,
    pub(crate) columns: FxHashMap<(SourceId, usize), Reg>,
    aggregates: FxHashMap<(SelectId, usize), Reg>,
    windows: FxHashMap<(SelectId, usize), Reg>,
    pub(crate) queries: Vec<SubqueryPlan>,
    /// The numbers of those that the query being planned runs itself.
    pub(crate) own_queries: Vec<usize>,
    /// How many sets `IN` lists are kept in.
    pub(crate) sets: usize,
    /// The cursors that the scans use: the number of each one's database.
    pub(crate) cursors: Vec<usize>,
    /// The tables read: the database and the root of each.
    pub(crate) trees: Vec<(usize, Pgno)>,
    /// How many hash tables and stored row sets the joins use.
    pub(crate) stores: usize,
    /// How many recursions there are.
    pub(crate) slots: usize,
    /// How many common tables may be made once for several places.
    pub(crate) shared: usize,
    /// How many sets of rows there are that found a match.
    pub(crate) marks: usize,
    /// How many measures there are.
    pub(crate) measures: usize,
    /// True where an `INDEXED BY` names an index that cannot be used.
    pub(crate) no_solution: bool,
    /// True where a table-valued function reads the schema.
    pub(crate) needs_schema: bool,
    /// True where rows of a virtual table are read.
    pub(crate) reads_virtual: bool,
    /// True where a virtual table is read whose writer may keep a part of the rows read in memory.
    pub(crate) reads_pending: bool,
    /// Why a virtual table has no way to its rows, told where nobody else has one.
    pub(crate) refused: Option<Error>,
    /// An error found while the plan was made.
    pub(crate) failed: Option<Error>,
    /// True where the file's text is UTF-16, so that values are not as they are on their pages.
    pub(crate) utf16: bool,
    /// True where the plan is to be told.
    pub(crate) in_words: bool,
    /// What a test decided in the planner's place.
    pub(crate) forced: Forced,
    /// About how often the query being planned runs: 1 for a statement's own, 0 where what one run
    /// keeps may not serve the next.
    pub(crate) runs: f64,
    /// True within the step of a recursion, run again and again.
    pub(crate) is_repeated: bool,
    /// True where all rows of the select being lowered are wanted: gathering keys pays.
    pub(crate) gathers_keys: bool,
    /// True where functions of the program's own are called.
    pub(crate) calls_own: bool,
    /// The lessons of earlier plans' runs.
    pub(crate) learned: Vec<Learned>,
    /// Tables of the selects around the one being planned.
    pub(crate) around: Vec<(SourceId, Arc<Table>)>,
}

impl Compiler {
    /// The number of another measure.
    pub(crate) fn measure(&mut self) -> usize {
        self.measures += 1;
        self.measures - 1
    }

    pub(crate) fn register(&mut self) -> Reg {
        self.registers += 1;
        self.registers - 1
    }

    /// So many registers in a row.
    pub(crate) fn register_range(&mut self, count: usize) -> Reg {
        let first = self.registers;
        self.registers += count;
        first
    }

    /// The register that holds a column of a source's current row.
    pub(crate) fn column(&mut self, source: SourceId, column: usize) -> Reg {
        if let Some(&reg) = self.columns.get(&(source, column)) {
            return reg;
        }
        let reg = self.register();
        self.columns.insert((source, column), reg);
        reg
    }

    /// The register that holds an aggregate's result.
    pub(crate) fn aggregate(&mut self, select: SelectId, index: usize) -> Reg {
        if let Some(&reg) = self.aggregates.get(&(select, index)) {
            return reg;
        }
        let reg = self.register();
        self.aggregates.insert((select, index), reg);
        reg
    }

    /// The register that holds a window function's result.
    pub(crate) fn window(&mut self, select: SelectId, index: usize) -> Reg {
        if let Some(&reg) = self.windows.get(&(select, index)) {
            return reg;
        }
        let reg = self.register();
        self.windows.insert((select, index), reg);
        reg
    }

    /// Compiles an expression on its own.
    pub(crate) fn code(&mut self, expr: &Expr) -> Code {
        let outer = std::mem::take(&mut self.ops);
        let (result, shape) = self.shaped(expr, None);
        let ops = std::mem::replace(&mut self.ops, outer);
        Code { ops: ops.into(), result, shape }
    }

    /// Compiles an expression whose value goes to a register that others write, too.
    pub(crate) fn code_to(&mut self, expr: &Expr, to: Reg) -> Code {
        let outer = std::mem::take(&mut self.ops);
        let (result, shape) = self.shaped(expr, Some(to));
        let ops = std::mem::replace(&mut self.ops, outer);
        Code { ops: ops.into(), result, shape }
    }

    /// Adds the operations of a whole expression, and tells its shape: nothing below needs one, so
    /// that deep expressions do not pay stack for it.
    fn shaped(&mut self, mut expr: &Expr, to: Option<Reg>) -> (Reg, Shape) {
        while let Expr::Plus(inner) = expr {
            expr = inner;
        }
        if is_plain(expr) {
            let from = self.expr(expr);
            if let Some(to) = to {
                self.ops.push(Op::Copy { from, to });
            }
            return (to.unwrap_or(from), Shape::Register(from));
        }
        let to = to.unwrap_or_else(|| self.register());
        if let Some(predicate) = self.predicate(expr, to) {
            return (to, Shape::Predicate(predicate));
        }
        self.emit(expr, to);
        (to, Shape::Computed)
    }

    /// Adds the operations of a condition that pages can be asked; `None`, with nothing added, for
    /// any other expression.
    fn predicate(&mut self, expr: &Expr, to: Reg) -> Option<Predicate> {
        match expr {
            Expr::Compare(rule, left, right) if is_plain(left) && is_plain(right) => {
                let rule = *rule;
                let (left, right) = (self.expr(left), self.expr(right));
                self.ops.push(Op::Compare { rule, left, right, to });
                Some(Predicate::Compare { rule, left, right })
            }
            Expr::Between { expr, not: false, low, high }
                if is_plain(expr) && is_plain(&low.1) && is_plain(&high.1) =>
            {
                let (value, low, high) = self.between(expr, false, low, high, to);
                Some(Predicate::Between { value, low, high })
            }
            Expr::IsNull { expr, not } if is_plain(expr) => {
                let (operand, not) = (self.expr(expr), *not);
                self.ops.push(Op::IsNull { from: operand, to, not });
                Some(Predicate::IsNull { operand, not })
            }
            Expr::Not(inner) => {
                let pattern = like(inner)?;
                let from = self.expr(inner);
                self.ops.push(Op::Not { from, to });
                Some(self.like_predicate(pattern, true))
            }
            Expr::InList { .. } | Expr::Or(..) => {
                let predicate = self.part(expr, 0)?;
                self.emit(expr, to);
                Some(predicate)
            }
            expr => {
                let pattern = like(expr)?;
                self.emit(expr, to);
                Some(self.like_predicate(pattern, false))
            }
        }
    }

    /// A condition within others, as a predicate on stored values; `None` for one to be computed.
    fn part(&mut self, expr: &Expr, depth: usize) -> Option<Predicate> {
        Some(match expr {
            Expr::Plus(inner) => self.part(inner, depth)?,
            Expr::Compare(rule, left, right) if is_plain(left) && is_plain(right) => {
                Predicate::Compare { rule: *rule, left: self.expr(left), right: self.expr(right) }
            }
            Expr::Between { expr, not: false, low, high }
                if is_plain(expr) && is_plain(&low.1) && is_plain(&high.1) =>
            {
                let (low, high) = ((low.0, self.expr(&low.1)), (high.0, self.expr(&high.1)));
                Predicate::Between { value: self.expr(expr), low, high }
            }
            Expr::IsNull { expr, not } if is_plain(expr) => {
                Predicate::IsNull { operand: self.expr(expr), not: *not }
            }
            Expr::InList { expr, not, list, affinity, collation }
                if is_plain(expr)
                    && list.len() <= LISTED_MAX
                    && list.iter().all(|it| matches!(it, Expr::Const(_) | Expr::Parameter(_))) =>
            {
                let rule = InRule { not: *not, affinity: *affinity, collation: *collation };
                let operand = self.expr(expr);
                let list = list.iter().map(|item| self.expr(item)).collect();
                Predicate::In { operand, list, rule }
            }
            Expr::Not(inner) => {
                let pattern = like(inner)?;
                self.like_predicate(pattern, true)
            }
            Expr::Or(..) if depth < PARTS_DEEP_MAX => {
                let mut parts = Vec::new();
                let mut rest = expr;
                while let Expr::Or(left, right) = rest {
                    parts.push(self.parts(right, depth)?);
                    rest = left;
                }
                parts.push(self.parts(rest, depth)?);
                parts.reverse();
                Predicate::Any(parts.into())
            }
            expr => {
                let pattern = like(expr)?;
                self.like_predicate(pattern, false)
            }
        })
    }

    /// The conditions of an `AND` within an `OR`.
    fn parts(&mut self, expr: &Expr, depth: usize) -> Option<Box<[Predicate]>> {
        let mut parts = Vec::new();
        let mut rest = expr;
        while let Expr::And(left, right) = rest {
            parts.push(self.part(right, depth + 1)?);
            rest = left;
        }
        parts.push(self.part(rest, depth + 1)?);
        parts.reverse();
        Some(parts.into())
    }

    fn like_predicate(
        &mut self,
        (language, pattern, text): (Pattern, &[u8], &Expr),
        not: bool,
    ) -> Predicate {
        Predicate::Like { language, operand: self.expr(text), pattern: pattern.into(), not }
    }

    /// A register that holds the value after the operations added here.
    pub(super) fn expr(&mut self, expr: &Expr) -> Reg {
        match expr {
            Expr::Const(value) => {
                let reg = self.register();
                self.constants.push((reg, value.clone()));
                reg
            }
            Expr::Parameter(number) => {
                let reg = self.register();
                self.parameters.push((reg, *number));
                reg
            }
            Expr::Column { source, column } => self.column(*source, *column),
            Expr::Aggregate { select, index } => self.aggregate(*select, *index),
            Expr::Window { select, index } => self.window(*select, *index),
            Expr::Plus(inner) => self.expr(inner),
            other => {
                let to = self.register();
                self.emit(other, to);
                to
            }
        }
    }

    /// Puts the value into `to`, which nothing else writes.
    fn argument(&mut self, expr: &Expr, to: Reg) {
        match expr {
            Expr::Const(value) => self.constants.push((to, value.clone())),
            Expr::Parameter(number) => self.parameters.push((to, *number)),
            Expr::Plus(inner) => self.argument(inner, to),
            other => self.value_to(other, to),
        }
    }

    /// Puts the value into `to`, which other operations may write, too.
    fn value_to(&mut self, expr: &Expr, to: Reg) {
        match expr {
            Expr::Const(_)
            | Expr::Parameter(_)
            | Expr::Column { .. }
            | Expr::Aggregate { .. }
            | Expr::Window { .. } => {
                let from = self.expr(expr);
                self.ops.push(Op::Copy { from, to });
            }
            Expr::Plus(inner) => self.value_to(inner, to),
            other => self.emit(other, to),
        }
    }

    fn emit(&mut self, expr: &Expr, to: Reg) {
        match expr {
            Expr::Const(_)
            | Expr::Parameter(_)
            | Expr::Column { .. }
            | Expr::Aggregate { .. }
            | Expr::Window { .. }
            | Expr::Plus(_) => {
                self.value_to(expr, to);
            }
            Expr::CurrentTime(kind) => self.ops.push(Op::CurrentTime { kind: *kind, to }),
            Expr::Negate(inner) => {
                let from = self.expr(inner);
                self.ops.push(Op::Negate { from, to });
            }
            Expr::BitNot(inner) => {
                let from = self.expr(inner);
                self.ops.push(Op::BitNot { from, to });
            }
            Expr::Not(inner) => {
                let from = self.expr(inner);
                self.ops.push(Op::Not { from, to });
            }
            Expr::Arithmetic(op, left, right) => {
                let left = self.expr(left);
                let right = self.expr(right);
                self.ops.push(Op::Arithmetic { op: *op, left, right, to });
            }
            Expr::And(left, right) => {
                let left = self.expr(left);
                let skip = self.jump_if(left, When::False);
                let right = self.expr(right);
                self.ops.push(Op::And { left, right, to });
                let end = self.jump();
                self.land(skip);
                // The left side alone decides: false.
                self.ops.push(Op::And { left, right: left, to });
                self.land(end);
            }
            Expr::Or(left, right) => {
                let left = self.expr(left);
                let skip = self.jump_if(left, When::True);
                let right = self.expr(right);
                self.ops.push(Op::Or { left, right, to });
                let end = self.jump();
                self.land(skip);
                self.ops.push(Op::Or { left, right: left, to });
                self.land(end);
            }
            Expr::Compare(rule, left, right) => {
                let left = self.expr(left);
                let right = self.expr(right);
                self.ops.push(Op::Compare { rule: *rule, left, right, to });
            }
            Expr::IsNull { expr, not } => {
                let from = self.expr(expr);
                self.ops.push(Op::IsNull { from, to, not: *not });
            }
            Expr::IsTruth { expr, truth, not } => {
                let from = self.expr(expr);
                self.ops.push(Op::IsTruth { from, to, truth: *truth, not: *not });
            }
            Expr::Between { expr, not, low, high } => {
                self.between(expr, *not, low, high, to);
            }
            Expr::InList { expr, not, list, affinity, collation } => {
                let from = self.expr(expr);
                let constant = |item: &Expr| matches!(item, Expr::Const(_) | Expr::Parameter(_));
                let set = (list.len() > SET_MIN && list.iter().all(constant)).then(|| {
                    self.sets += 1;
                    self.sets - 1
                });
                let list = list.iter().map(|item| self.expr(item)).collect();
                let rule = InRule { not: *not, affinity: *affinity, collation: *collation };
                self.ops.push(Op::InList { from, list, set, rule, to });
            }
            Expr::InQuery { expr, not, query, affinity, collation } => {
                let from = self.expr(expr);
                let query = self.query(query, true);
                let rule = InRule { not: *not, affinity: *affinity, collation: *collation };
                self.ops.push(Op::InQuery { from, query, rule, to });
            }
            Expr::RowInQuery { row, not, query, rules } => {
                let row = row.iter().map(|part| self.expr(part)).collect();
                let query = self.query(query, true);
                let rules = rules.clone().into();
                self.ops.push(Op::RowInQuery { row, query, rules, not: *not, to });
            }
            Expr::Case { base, branches, otherwise } => {
                self.case(base.as_deref(), branches, otherwise.as_deref(), to);
            }
            Expr::Cast { expr, affinity } => {
                let from = self.expr(expr);
                self.ops.push(Op::Cast { from, to, affinity: *affinity });
            }
            Expr::Stored { expr, affinity } => {
                let from = self.expr(expr);
                self.ops.push(Op::Stored { from, to, affinity: *affinity });
            }
            Expr::Call { function, arguments, collation, json } => {
                self.calls_own |= function.is_own();
                let first = self.register_range(arguments.len());
                for (index, argument) in arguments.iter().enumerate() {
                    self.argument(argument, first + index);
                }
                self.ops.push(Op::Call {
                    function: function.clone(),
                    first,
                    count: arguments.len(),
                    collation: *collation,
                    json: *json,
                    to,
                });
            }
            Expr::Coalesce(arguments) => {
                let mut ends = Vec::with_capacity(arguments.len());
                for (index, argument) in arguments.iter().enumerate() {
                    self.value_to(argument, to);
                    if index + 1 < arguments.len() {
                        ends.push(self.jump_if(to, When::NotNull));
                    }
                }
                ends.into_iter().for_each(|end| self.land(end));
            }
            Expr::Exists(query) if self.exists_in_keys(query, to) => {}
            Expr::Exists(query) => {
                let query = self.query(query, false);
                self.ops.push(Op::Exists { query, to });
            }
            Expr::Scalar(query) => {
                let query = self.query(query, false);
                self.ops.push(Op::Scalar { query, column: 0, to });
            }
            Expr::ScalarColumn(query, column) => {
                let query = self.query(query, false);
                self.ops.push(Op::Scalar { query, column: *column, to });
            }
        }
    }

    fn between(
        &mut self,
        expr: &Expr,
        not: bool,
        low: &(Comparison, Box<Expr>),
        high: &(Comparison, Box<Expr>),
        to: Reg,
    ) -> (Reg, (Comparison, Reg), (Comparison, Reg)) {
        let value = self.expr(expr);
        let above = self.register();
        let below = self.register();
        let low = (low.0, self.expr(&low.1));
        self.ops.push(Op::Compare { rule: low.0, left: value, right: low.1, to: above });
        let high = (high.0, self.expr(&high.1));
        self.ops.push(Op::Compare { rule: high.0, left: value, right: high.1, to: below });
        self.ops.push(Op::And { left: above, right: below, to });
        if not {
            self.ops.push(Op::Not { from: to, to });
        }
        (value, low, high)
    }

    fn case(
        &mut self,
        base: Option<&Expr>,
        branches: &[(Comparison, Expr, Expr)],
        otherwise: Option<&Expr>,
        to: Reg,
    ) {
        let base = base.map(|base| self.expr(base));
        let mut ends = Vec::with_capacity(branches.len());
        for (rule, when, then) in branches {
            let mut condition = self.expr(when);
            if let Some(base) = base {
                let equal = self.register();
                let rule = Comparison { op: CompareOp::Equal, ..*rule };
                self.ops.push(Op::Compare { rule, left: base, right: condition, to: equal });
                condition = equal;
            }
            let next = self.jump_if(condition, When::NotTrue);
            self.value_to(then, to);
            ends.push(self.jump());
            self.land(next);
        }
        match otherwise {
            Some(expr) => self.value_to(expr, to),
            None => self.ops.push(Op::Null { to }),
        }
        ends.into_iter().for_each(|end| self.land(end));
    }

    /// Plans a query of an expression, asked for a value or for members of its list; gives the
    /// query's number.
    pub(crate) fn query(&mut self, query: &Query, is_list: bool) -> usize {
        let may_fail = may_fail(query);
        let asked = asked(query, is_list, may_fail).filter(|_| query.correlated);
        self.query_asked(query, (is_list, may_fail), asked)
    }

    /// Plans a query whose values are all listed; gives the query's number.
    pub(super) fn listed_query(&mut self, query: &Query) -> usize {
        self.query_asked(query, (true, may_fail(query)), None)
    }

    fn query_asked(
        &mut self,
        query: &Query,
        (is_list, may_fail): (bool, bool),
        asked: Option<Asked>,
    ) -> usize {
        let correlated = query.correlated;
        let runs = self.runs;
        if !correlated {
            self.runs = runs.min(1.0);
        }
        let plan = self.plan_asked(query, asked, None);
        self.runs = runs;
        let (reads, is_decided) = if correlated { outer_reads(query) } else { Default::default() };
        let around = reads.iter().map(|expr| self.expr(expr)).collect();
        let probe = match &plan.node {
            Node::Probe(probe) => Some(&**probe),
            _ => None,
        };
        // One that finds its first row at once costs less than to look up what it gave before.
        let is_quick = probe.is_some_and(|it| {
            let is_row = it.group.is_none() && it.sort.is_none();
            it.pipeline.probe != ProbeWalk::Loops && is_row
        });
        let is_decided = is_decided && !is_quick;
        let by_key = probe.is_some_and(|it| it.pipeline.is_by_key()) || plan.node.finds_by_key();
        let by_key = by_key && plan.queries.iter().all(|&query| self.queries[query].is_short);
        // One that depends on no row is run once. What may fail of a list is looked at as a whole.
        let is_short = !correlated || (by_key && !(is_list && may_fail));
        self.queries.push(SubqueryPlan {
            plan,
            correlated,
            is_list,
            may_fail,
            around,
            is_decided,
            by_rowid: reads.iter().any(|expr| matches!(expr, Expr::Column { column: ROWID, .. })),
            is_short,
        });
        self.own_queries.push(self.queries.len() - 1);
        self.queries.len() - 1
    }

    /// True where a code runs a query that is not to be run for many rows before the first of them
    /// is given.
    pub(crate) fn is_by_row(&self, code: &Code) -> bool {
        self.has_query(code, |query| !query.is_short)
    }

    /// True where a code runs a query anew for each row.
    pub(crate) fn runs_for_rows(&self, code: &Code) -> bool {
        self.has_query(code, |query| query.correlated)
    }

    /// True where a code runs a query meeting `is`, or compares a row with a query's.
    fn has_query(&self, code: &Code, is: impl Fn(&SubqueryPlan) -> bool) -> bool {
        code.ops.iter().any(|op| match op {
            Op::Exists { query, .. } | Op::Scalar { query, .. } | Op::InQuery { query, .. } => {
                is(&self.queries[*query])
            }
            Op::RowInQuery { .. } => true,
            _ => false,
        })
    }

    /// The registers of all columns, aggregates and windows.
    pub(crate) fn registers_of_rows(&self) -> impl Iterator<Item = Reg> {
        let columns = self.columns.values();
        columns.chain(self.aggregates.values()).chain(self.windows.values()).copied()
    }

    /// The registers of what a select can read of the rows around it.
    pub(crate) fn registers_around(&self, select: &Select) -> FxHashSet<Reg> {
        let is_own = |source: &SourceId| select.sources.iter().any(|own| own.id == *source);
        let columns = self.columns.iter().filter(|((source, _), _)| !is_own(source));
        let results = self.aggregates.iter().chain(&self.windows);
        let results = results.filter(|((of, _), _)| *of != select.id);
        columns.map(|(_, &reg)| reg).chain(results.map(|(_, &reg)| reg)).collect()
    }

    fn jump(&mut self) -> usize {
        self.ops.push(Op::Jump { to: usize::MAX });
        self.ops.len() - 1
    }

    fn jump_if(&mut self, from: Reg, when: When) -> usize {
        self.ops.push(Op::JumpIf { from, when, to: usize::MAX });
        self.ops.len() - 1
    }

    /// Makes the jump at `place` lead here.
    fn land(&mut self, place: usize) {
        let here = self.ops.len();
        if let Op::Jump { to } | Op::JumpIf { to, .. } = &mut self.ops[place] {
            *to = here;
        }
    }
}

/// What an expression asks of a query, where bounds leave it as it is: a first row is given by
/// every limit but 0.
fn asked(query: &Query, is_list: bool, may_fail: bool) -> Option<Asked> {
    let is_one = matches!(&query.limit, Some(Expr::Const(Value::Int(count))) if *count != 0);
    let is_whole = query.offset.is_none() && (query.limit.is_none() || (is_one && !is_list));
    match is_list {
        _ if !is_whole => None,
        false => Some(Asked::First),
        // What may fail of a list is looked at as a whole, and so are rows of several columns.
        true => (!may_fail && query.columns.len() == 1).then_some(Asked::Member),
    }
}

/// True for a query whose rows may raise an error.
fn may_fail(query: &Query) -> bool {
    let mut found = false;
    query.walk(&mut |expr| found |= matches!(expr, Expr::Call { .. } | Expr::Aggregate { .. }));
    found
}

/// True where the value of an expression is in a register without any operation.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_)
        | Expr::Parameter(_)
        | Expr::Column { .. }
        | Expr::Aggregate { .. }
        | Expr::Window { .. } => true,
        Expr::Plus(inner) => is_plain(inner),
        _ => false,
    }
}

/// The language, the short constant pattern and the text of `LIKE` or `GLOB`.
fn like(expr: &Expr) -> Option<(Pattern, &[u8], &Expr)> {
    let Expr::Call { function, arguments, .. } = expr else { return None };
    // The pattern is the first argument, the text behind it.
    match (function.pattern()?, &**arguments) {
        (language, [Expr::Const(Value::Text(pattern)), text])
            if pattern.len() <= PATTERN_BYTES_MAX && is_plain(text) =>
        {
            Some((language, pattern, text))
        }
        _ => None,
    }
}

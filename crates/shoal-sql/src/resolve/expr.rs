//! Expressions: names to columns, operators to their rules.

use super::Resolver;
use super::collation::{Coll, compare_affinity, list_affinity};
use super::form::{is_constant, never_holds};
use super::row::is_row;
use super::scope::{Clause, Found, Miss, ScopeTable};
use super::select::{classes, classes_under};
use super::tree::{Expr, ROWID};
use super::values::RowsAsked;
use crate::Error;
use crate::authorize::Access;
use crate::error::NameKind;
use crate::parse::ast::{self, BinaryOp, ExprKind, InSet, LikeOp, Name, Quote, UnaryOp};
use crate::schema::Table;
use crate::value::{
    Affinity, ArithmeticOp, Collation, CompareOp, Comparison, Value, arithmetic, negate,
};

/// Generated columns may depend on each other this deep.
const GENERATED_DEPTH_MAX: usize = 64;

/// A resolved expression with its affinity, collation and origin, for the expressions around.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) expr: Expr,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Coll,
    /// The table's column, where the expression is one; boxed, as expressions nest.
    pub(super) column: Option<Box<NamedColumn>>,
    /// The classes of the values, where the expression's form does not tell them.
    pub(super) classes: Option<u8>,
}

/// A table's column as the result describes one.
#[derive(Debug)]
pub(super) struct NamedColumn {
    pub(super) name: String,
    pub(super) declared_type: Option<String>,
    /// True where a `COLLATE` stands around the column.
    pub(super) collated: bool,
}

impl Bound {
    pub(super) fn plain(expr: Expr) -> Bound {
        Bound { expr, affinity: None, collation: Coll::None, column: None, classes: None }
    }

    pub(super) fn with(expr: Expr, collation: Coll) -> Bound {
        Bound { collation, ..Bound::plain(expr) }
    }

    /// The classes of the values, for the affinity of a compound's column.
    pub(super) fn classes(&self) -> u8 {
        self.classes.unwrap_or_else(|| classes(&self.expr, self.affinity))
    }
}

impl<'a> Resolver<'a> {
    /// Resolves an expression in the innermost scope. Every kind has a function of its own: all of
    /// them recurse into this one, whose stack frame stays small.
    pub(super) fn bind(&mut self, expr: &'a ast::Expr) -> Result<Bound, Error> {
        self.deeper(1)?;
        let offset = expr.offset;
        let bound = match &expr.kind {
            ExprKind::Unary(op, operand) => self.unary(*op, operand),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, offset),
            ExprKind::Between { expr, not, low, high } => self.between(expr, *not, low, high),
            ExprKind::In { expr, not, set } => self.in_set(expr, *not, set),
            ExprKind::Like { op, not, expr, pattern, escape } => {
                self.like(*op, *not, [expr, pattern], escape.as_deref(), offset)
            }
            ExprKind::Case { base, branches, otherwise } => {
                self.case(base.as_deref(), branches, otherwise.as_deref())
            }
            ExprKind::IsNull { expr, not } => self.is_null(expr, *not),
            ExprKind::Cast { expr, type_name } => self.cast(expr, type_name),
            ExprKind::Collate { expr, collation } => self.collate(expr, collation),
            ExprKind::Call(call) => self.call(call),
            ExprKind::Exists(select) => self.subquery(select, true, offset),
            ExprKind::Subquery(select) => self.subquery(select, false, offset),
            ExprKind::SubqueryColumn { select, column, count } => {
                self.subquery_column(select, *column, *count, offset)
            }
            ExprKind::Literal(_)
            | ExprKind::CurrentTime(_)
            | ExprKind::Parameter(_)
            | ExprKind::Column { .. }
            | ExprKind::Row(_)
            | ExprKind::Raise { .. } => self.leaf(expr),
        };
        self.depth -= 1;
        bound
    }

    #[inline(never)]
    fn leaf(&mut self, expr: &'a ast::Expr) -> Result<Bound, Error> {
        let offset = expr.offset;
        match &expr.kind {
            ExprKind::Literal(value) => Ok(Bound::plain(Expr::Const(value.clone()))),
            ExprKind::CurrentTime(kind) => Ok(Bound::plain(Expr::CurrentTime(*kind))),
            ExprKind::Parameter(number) => Ok(Bound::plain(match self.principal {
                Some(principal) => Expr::Const(Value::text(principal)),
                None => Expr::Parameter(*number),
            })),
            ExprKind::Column { database, table, column } => {
                self.column(database.as_ref(), table.as_ref(), column, offset)
            }
            ExprKind::Row(_) => Err(Error::meaning("row value misused", offset)),
            ExprKind::Raise { action, message } => self.raise(*action, message.as_deref(), offset),
            other => unreachable!("has parts: {other:?}"),
        }
    }

    #[inline(never)]
    fn is_null(&mut self, expr: &'a ast::Expr, not: bool) -> Result<Bound, Error> {
        let bound = self.bind(expr)?;
        let collation = bound.collation.through_operator();
        Ok(Bound::with(Expr::IsNull { expr: Box::new(bound.expr), not }, collation))
    }

    #[inline(never)]
    fn between(
        &mut self,
        expr: &'a ast::Expr,
        not: bool,
        low: &'a ast::Expr,
        high: &'a ast::Expr,
    ) -> Result<Bound, Error> {
        if is_row(expr) || is_row(low) || is_row(high) {
            let above = self.row_comparison(BinaryOp::GreaterEqual, expr, low, expr.offset)?;
            let below = self.row_comparison(BinaryOp::LessEqual, expr, high, expr.offset)?;
            let both = Expr::And(Box::new(above.expr), Box::new(below.expr));
            return Ok(Bound::plain(if not { Expr::Not(Box::new(both)) } else { both }));
        }
        let expr = self.bind(expr)?;
        let low = self.bind(low)?;
        let high = self.bind(high)?;
        let collation = [&expr, &low, &high]
            .map(|bound| bound.collation.through_operator())
            .into_iter()
            .fold(Coll::None, Coll::or);
        let low_rule = self.comparison(CompareOp::GreaterEqual, &expr, &low)?;
        let high_rule = self.comparison(CompareOp::LessEqual, &expr, &high)?;
        let between = Expr::Between {
            expr: Box::new(expr.expr),
            not,
            low: (low_rule, Box::new(low.expr)),
            high: (high_rule, Box::new(high.expr)),
        };
        Ok(Bound::with(between, collation))
    }

    #[inline(never)]
    fn cast(&mut self, expr: &'a ast::Expr, type_name: &str) -> Result<Bound, Error> {
        let bound = self.bind(expr)?;
        // A cast to no type at all is a cast to numeric.
        let affinity = match type_name {
            "" => Affinity::Numeric,
            name => Affinity::of_declared_type(name),
        };
        let collation = bound.collation;
        let expr = Expr::Cast { expr: Box::new(bound.expr), affinity };
        Ok(Bound { affinity: Some(affinity), ..Bound::with(expr, collation) })
    }

    /// The rule an operator compares two expressions by.
    pub(super) fn comparison(
        &self,
        op: CompareOp,
        left: &Bound,
        right: &Bound,
    ) -> Result<Comparison, Error> {
        Ok(Comparison {
            op,
            affinity: compare_affinity(left.affinity, right.affinity),
            collation: self.known(left.collation.compare_with(right.collation))?,
        })
    }

    #[inline(never)]
    fn collate(&mut self, expr: &'a ast::Expr, collation: &Name) -> Result<Bound, Error> {
        let mut bound = self.bind(expr)?;
        let named = self.named_collation(&collation.text, collation.offset);
        if let Some(column) = &mut bound.column {
            column.collated = true;
        }
        bound.collation = Coll::Explicit(named);
        Ok(bound)
    }

    #[inline(never)]
    fn subquery(
        &mut self,
        select: &'a ast::Select,
        exists: bool,
        offset: usize,
    ) -> Result<Bound, Error> {
        let asked = if exists { RowsAsked::None } else { RowsAsked::First };
        let mut query = self.resolve_query(select, asked)?;
        if exists {
            // Only the presence of a row counts: order and duplicates change nothing.
            query.order_by.clear();
            if let super::tree::Body::Select(select) = &mut query.body {
                select.distinct = None;
            }
        }
        if exists {
            return Ok(Bound::plain(Expr::Exists(Box::new(query))));
        }
        if query.columns.len() != 1 {
            return Err(sub_select_columns(query.columns.len(), 1, offset));
        }
        let (affinity, _) = query.as_expression;
        Ok(Bound { affinity, ..Bound::plain(Expr::Scalar(Box::new(query))) })
    }

    #[inline(never)]
    fn subquery_column(
        &mut self,
        select: &'a ast::Select,
        column: usize,
        count: usize,
        offset: usize,
    ) -> Result<Bound, Error> {
        let query = self.resolve_query(select, RowsAsked::First)?;
        if query.columns.len() != count {
            let message = format!("{count} columns assigned {} values", query.columns.len());
            return Err(Error::meaning(message, offset));
        }
        let affinity = query.columns[column].affinity;
        Ok(Bound { affinity, ..Bound::plain(Expr::ScalarColumn(Box::new(query), column)) })
    }

    /// Resolves an expression whose rules for its neighbours do not matter.
    pub(super) fn bind_expr(&mut self, expr: &'a ast::Expr) -> Result<Expr, Error> {
        self.bind(expr).map(|bound| bound.expr)
    }

    #[inline(never)]
    fn unary(&mut self, op: UnaryOp, operand: &'a ast::Expr) -> Result<Bound, Error> {
        let bound = self.bind(operand)?;
        let collation = bound.collation.through_operator();
        let classes = (op == UnaryOp::Plus).then(|| bound.classes());
        let operand = Box::new(bound.expr);
        Ok(match op {
            UnaryOp::Negate => match *operand {
                Expr::Const(value @ (Value::Int(_) | Value::Real(_))) => {
                    Bound::with(Expr::Const(negate(value.as_ref())), collation)
                }
                operand => Bound::with(Expr::Negate(Box::new(operand)), collation),
            },
            UnaryOp::BitNot => Bound::with(Expr::BitNot(operand), collation),
            UnaryOp::Not => Bound::with(Expr::Not(operand), collation),
            // Unary plus takes the affinity away, and keeps indexes out.
            UnaryOp::Plus => {
                let expr = match *operand {
                    operand @ (Expr::Const(_) | Expr::Parameter(_)) => operand,
                    operand => Expr::Plus(Box::new(operand)),
                };
                Bound { classes, ..Bound::with(expr, bound.collation) }
            }
        })
    }

    #[inline(never)]
    fn binary(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        offset: usize,
    ) -> Result<Bound, Error> {
        if is_row(left) || is_row(right) {
            return self.row_comparison(op, left, right, offset);
        }
        let compare = match op {
            BinaryOp::Equal => Some(CompareOp::Equal),
            BinaryOp::NotEqual => Some(CompareOp::NotEqual),
            BinaryOp::Less => Some(CompareOp::Less),
            BinaryOp::LessEqual => Some(CompareOp::LessEqual),
            BinaryOp::Greater => Some(CompareOp::Greater),
            BinaryOp::GreaterEqual => Some(CompareOp::GreaterEqual),
            BinaryOp::Is => Some(CompareOp::Is),
            BinaryOp::IsNot => Some(CompareOp::IsNot),
            _ => None,
        };
        if let Some(op @ (CompareOp::Is | CompareOp::IsNot)) = compare
            && matches!(right.kind, ExprKind::Literal(Value::Null))
        {
            return self.is_null(left, op == CompareOp::IsNot);
        }
        if let Some(op @ (CompareOp::Is | CompareOp::IsNot)) = compare
            && let Some(truth) = self.truth_word(right)
        {
            let bound = self.bind(left)?;
            let not = op == CompareOp::IsNot;
            return Ok(Bound::plain(Expr::IsTruth { expr: Box::new(bound.expr), truth, not }));
        }
        // SQLite's grammar takes a false condition as a constant, unread.
        if op == BinaryOp::And && self.names.is_none() && never_holds(left, right) {
            return Ok(Bound::plain(Expr::Const(Value::Int(0))));
        }
        let always = self.always_either(op, left, right);
        let left = self.bind(left)?;
        let right = self.bind(right)?;
        let collation = left.collation.through_operator().or(right.collation.through_operator());
        if let Some(op) = compare {
            let rule = self.comparison(op, &left, &right)?;
            let expr = Expr::Compare(rule, Box::new(left.expr), Box::new(right.expr));
            return Ok(Bound::with(expr, collation));
        }
        let arithmetic = match op {
            BinaryOp::And | BinaryOp::Or => {
                if let Some(truth) = always {
                    return Ok(Bound::with(Expr::Const(Value::Int(truth.into())), collation));
                }
                let (left, right) = (Box::new(left.expr), Box::new(right.expr));
                let and = op == BinaryOp::And;
                let expr = if and { Expr::And(left, right) } else { Expr::Or(left, right) };
                return Ok(Bound::with(expr, collation));
            }
            BinaryOp::Add => ArithmeticOp::Add,
            BinaryOp::Subtract => ArithmeticOp::Subtract,
            BinaryOp::Multiply => ArithmeticOp::Multiply,
            BinaryOp::Divide => ArithmeticOp::Divide,
            BinaryOp::Remainder => ArithmeticOp::Remainder,
            BinaryOp::BitAnd => ArithmeticOp::BitAnd,
            BinaryOp::BitOr => ArithmeticOp::BitOr,
            BinaryOp::ShiftLeft => ArithmeticOp::ShiftLeft,
            BinaryOp::ShiftRight => ArithmeticOp::ShiftRight,
            BinaryOp::Concat => ArithmeticOp::Concat,
            _ => {
                let name = if op == BinaryOp::Arrow { "->" } else { "->>" };
                let call = self.named_call(name, vec![left.expr, right.expr], offset)?;
                return Ok(Bound::with(call, collation));
            }
        };
        Ok(Bound::with(computed(arithmetic, left.expr, right.expr), collation))
    }

    /// The constant value of an `AND` or `OR` with a side written as a truth value: the other side
    /// is not computed then, as its evaluation may raise an error.
    fn always_either(&self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> Option<bool> {
        let decides = match op {
            BinaryOp::And => Some(false),
            BinaryOp::Or => Some(true),
            _ => return None,
        };
        let (left, right) = (self.always(left), self.always(right));
        match decides {
            _ if left == decides || right == decides => decides,
            // Only the other side's truth counts.
            _ => left.and(right),
        }
    }

    /// The truth value an expression is written as: an integer of 32 bits without a sign, `TRUE` or
    /// `FALSE`, or an `AND` or `OR` of such expressions.
    fn always(&self, expr: &ast::Expr) -> Option<bool> {
        match &expr.kind {
            ExprKind::Literal(Value::Int(int)) => {
                (0..=i32::MAX.into()).contains(int).then_some(*int != 0)
            }
            ExprKind::Binary(op, left, right) => self.always_either(*op, left, right),
            ExprKind::Collate { .. } => None,
            _ => self.truth_word(expr),
        }
    }

    /// `TRUE` and `FALSE`, unless a column has the name.
    fn truth_word(&self, expr: &ast::Expr) -> Option<bool> {
        // The grammar of SQLite makes this one of the two words.
        if let ExprKind::In { not, set: InSet::List(list), .. } = &expr.kind
            && list.is_empty()
        {
            return Some(*not);
        }
        if let ExprKind::Collate { expr, .. } = &expr.kind {
            return self.truth_word(expr);
        }
        let ExprKind::Column { table: None, column, .. } = &expr.kind else { return None };
        let truth = column.is("true");
        if column.quote != Quote::None || !(truth || column.is("false")) {
            return None;
        }
        self.find(None, column).is_err().then_some(truth)
    }

    #[inline(never)]
    fn in_set(&mut self, expr: &'a ast::Expr, not: bool, set: &'a InSet) -> Result<Bound, Error> {
        let offset = expr.offset;
        if matches!(set, InSet::List(list) if list.is_empty()) {
            return Ok(Bound::plain(Expr::Const(Value::Int(i64::from(not)))));
        }
        if is_row(expr) {
            return self.row_in_set(expr, not, set);
        }
        let left = self.bind(expr)?;
        let query = match set {
            // SQLite's grammar takes a list of one query or one constant as the query or constant
            // itself.
            InSet::List(list)
                if let [ast::Expr { kind: ExprKind::Subquery(select), .. }] = list.as_slice() =>
            {
                self.resolve_select(select)?
            }
            InSet::List(list)
                if list.len() == 1
                    && is_constant(&list[0])
                    && !matches!(list[0].kind, ExprKind::Collate { .. }) =>
            {
                let right = self.bind(&list[0])?;
                let right = Bound { affinity: None, ..right };
                let op = if not { CompareOp::NotEqual } else { CompareOp::Equal };
                let rule = self.comparison(op, &left, &right)?;
                let kept = left.collation.through_operator().or(right.collation.through_operator());
                let expr = Expr::Compare(rule, Box::new(left.expr), Box::new(right.expr));
                return Ok(Bound::with(expr, kept));
            }
            InSet::List(list) => {
                let affinity = list_affinity(left.affinity);
                let mut kept = left.collation.through_operator();
                let mut out = Vec::with_capacity(list.len());
                for item in list {
                    let bound = self.bind(item)?;
                    kept = kept.or(bound.collation.through_operator());
                    out.push(bound.expr);
                }
                let expr = Expr::InList {
                    expr: Box::new(left.expr),
                    not,
                    list: out,
                    affinity,
                    collation: self.known(left.collation.or_binary())?,
                };
                return Ok(Bound::with(expr, kept));
            }
            InSet::Select(select) => self.resolve_select(select)?,
            InSet::Table { name, arguments } => self.whole_table(name, arguments.as_deref())?,
        };
        if query.columns.len() != 1 {
            return Err(sub_select_columns(query.columns.len(), 1, offset));
        }
        let (affinity, collation) = query.as_expression;
        let affinity = compare_affinity(left.affinity, affinity);
        let collation = self.known(left.collation.compare_with(collation))?;
        let kept = left.collation.through_operator();
        let expr = Expr::InQuery {
            expr: Box::new(left.expr),
            not,
            query: Box::new(query),
            affinity,
            collation,
        };
        Ok(Bound::with(expr, kept))
    }

    #[inline(never)]
    fn like(
        &mut self,
        op: LikeOp,
        not: bool,
        [expr, pattern]: [&'a ast::Expr; 2],
        escape: Option<&'a ast::Expr>,
        offset: usize,
    ) -> Result<Bound, Error> {
        let name = match op {
            LikeOp::Like => "like",
            LikeOp::Glob => "glob",
            LikeOp::Regexp => "regexp",
            LikeOp::Match => "match",
        };
        let text = self.bind(expr)?;
        let pattern = self.bind(pattern)?;
        let kept = text.collation.through_operator().or(pattern.collation.through_operator());
        let mut arguments = vec![pattern.expr, text.expr];
        if let Some(escape) = escape {
            arguments.push(self.bind(escape)?.expr);
        }
        let call = self.named_call(name, arguments, offset)?;
        Ok(Bound::with(if not { Expr::Not(Box::new(call)) } else { call }, kept))
    }

    #[inline(never)]
    fn case(
        &mut self,
        base: Option<&'a ast::Expr>,
        branches: &'a [(ast::Expr, ast::Expr)],
        otherwise: Option<&'a ast::Expr>,
    ) -> Result<Bound, Error> {
        if let Some(base) = base
            && (is_row(base) || branches.iter().any(|(when, _)| is_row(when)))
        {
            return self.row_case(base, branches, otherwise);
        }
        let base = base.map(|base| self.bind(base)).transpose()?;
        let mut kept = base.as_ref().map_or(Coll::None, |base| base.collation.through_operator());
        let mut out = Vec::with_capacity(branches.len());
        let mut classes = 0;
        for (when, then) in branches {
            let when = self.bind(when)?;
            let then = self.bind(then)?;
            let rule = match &base {
                Some(base) => self.comparison(CompareOp::Equal, base, &when)?,
                None => PLAIN_EQUAL,
            };
            kept = kept.or(when.collation.through_operator()).or(then.collation.through_operator());
            classes |= then.classes();
            out.push((rule, when.expr, then.expr));
        }
        let otherwise = otherwise.map(|expr| self.bind(expr)).transpose()?;
        if let Some(bound) = &otherwise {
            kept = kept.or(bound.collation.through_operator());
            classes |= bound.classes();
        }
        let expr = Expr::Case {
            base: base.map(|base| Box::new(base.expr)),
            branches: out,
            otherwise: otherwise.map(|bound| Box::new(bound.expr)),
        };
        Ok(Bound { classes: Some(classes), ..Bound::with(expr, kept) })
    }

    /// Looks a column up from the innermost scope outwards.
    fn find(&self, table: Option<&Name>, column: &Name) -> Result<Found, Miss> {
        self.find_in(None, table, column)
    }

    /// As [`Resolver::find`] among the tables of one database, where one was named.
    fn find_in(
        &self,
        database: Option<usize>,
        table: Option<&Name>,
        column: &Name,
    ) -> Result<Found, Miss> {
        for (depth, scope) in self.scopes.iter().enumerate().rev() {
            if scope.asks_module(table, column) {
                self.asks_module.set(true);
            }
            match scope.find(depth, (database, table), column) {
                Err(Miss::None) => {}
                done => return done,
            }
        }
        Err(Miss::None)
    }

    fn column(
        &mut self,
        database: Option<&Name>,
        table: Option<&Name>,
        column: &'a Name,
        offset: usize,
    ) -> Result<Bound, Error> {
        let qualified = || {
            [database, table, Some(column)]
                .into_iter()
                .flatten()
                .map(|name| name.text.as_str())
                .collect::<Vec<_>>()
                .join(".")
        };
        if table.is_some() && self.scopes.last().is_some_and(|it| it.clause == Clause::Generated) {
            let message = "the \".\" operator prohibited in generated columns";
            return Err(Error::meaning(message, offset));
        }
        let number = database.map(|database| self.schema.database(&database.text));
        if number == Some(None) {
            return Err(Error::no_such(NameKind::Column, &qualified(), offset));
        }
        let found = self.find_in(number.flatten(), table, column);
        if let (Some(_), Ok(found)) = (&self.names, &found) {
            self.note_column(found, table, column);
        }
        match found {
            Ok(Found::Column { depth, table: place, column }) if table.is_none() => {
                self.unqualified(depth, (place, column), offset)
            }
            Ok(found) if column.quote == Quote::Implied => self.found_column(found, offset),
            Ok(found) => self.found(found, offset),
            Err(Miss::Ambiguous) => Err(Error::Name {
                kind: NameKind::Column,
                message: format!("ambiguous column name: {}", qualified()),
                offset: Some(offset),
            }),
            Err(Miss::None) => {
                if database.is_none()
                    && let Ok(bound) = self.given(table, column, offset)
                {
                    return Ok(bound);
                }
                if table.is_none() {
                    if let Some(bound) = self.alias(column)? {
                        return Ok(bound);
                    }
                    match column.quote {
                        Quote::None if column.is("true") => {
                            return Ok(Bound::plain(Expr::Const(Value::Int(1))));
                        }
                        Quote::None if column.is("false") => {
                            return Ok(Bound::plain(Expr::Const(Value::Int(0))));
                        }
                        // SQLite's old leniency: an unknown name in double quotes is a text.
                        Quote::Double => {
                            self.note_text(column)?;
                            let text = Value::text(column.text.as_str());
                            return Ok(Bound::plain(Expr::Const(text)));
                        }
                        _ => {}
                    }
                }
                Err(Error::no_such(NameKind::Column, &qualified(), offset))
            }
        }
    }

    /// An alias of the result, as `WHERE`, `GROUP BY`, `HAVING` and `ORDER BY` may name one.
    fn alias(&mut self, column: &Name) -> Result<Option<Bound>, Error> {
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        if !scope.clause.sees_aliases() {
            return Ok(None);
        }
        let depth = self.scopes.len() - 1;
        let results = scope.results;
        let found = results.iter().find_map(|result| match result {
            ast::ResultColumn::Expr { expr, alias: Some(alias), .. } if alias.is(&column.text) => {
                Some(expr)
            }
            _ => None,
        });
        let Some(expr) = found else { return Ok(None) };
        let clause = scope.clause;
        // Names within the alias are resolved as in the result: no aliases; aggregates as in the
        // clause.
        self.scopes[depth].clause = if clause.allows_aggregates() || clause == Clause::PlainOrderBy
        {
            Clause::Result
        } else {
            Clause::From
        };
        let bound = self.bind(expr);
        self.scopes[depth].clause = clause;
        bound.map(Some)
    }

    /// A column by its name alone, standing for all columns merged under the name.
    pub(super) fn unqualified(
        &mut self,
        depth: usize,
        place: (usize, usize),
        offset: usize,
    ) -> Result<Bound, Error> {
        let named = self.scopes[depth].tables[place.0].columns[place.1].named.clone();
        match named.split_first() {
            Some((first, others)) => self.first_of(depth, *first, others, offset),
            None => self.column_at(depth, place, offset),
        }
    }

    pub(super) fn column_at(
        &mut self,
        depth: usize,
        (table, column): (usize, usize),
        offset: usize,
    ) -> Result<Bound, Error> {
        self.found(Found::Column { depth, table, column }, offset)
    }

    /// Asks the program whether a table may be named in a `FROM`.
    ///
    /// # Errors
    /// [`Error::Denied`].
    pub(super) fn authorize_table(&self, table: &Table) -> Result<(), Error> {
        self.authorize_read(table, "").map(drop)
    }

    fn authorize_read(&self, table: &Table, column: &str) -> Result<bool, Error> {
        let database = self.schema.database_name(table.database);
        let access = Access::Read { database, table: &table.name, column };
        self.schema.own().authorizer.ask(&access)
    }

    /// True for a column that the program's authorizer hides.
    fn is_hidden(&self, found: &Found) -> Result<bool, Error> {
        if self.in_definition || !self.schema.own().authorizer.is_some() {
            return Ok(false);
        }
        let (depth, table, column) = match *found {
            Found::Column { depth, table, column } => (depth, table, Some(column)),
            Found::Rowid { depth, table, .. } => (depth, table, None),
        };
        let Some(table) = self.scopes[depth].tables[table].table else { return Ok(false) };
        let column = column.or(table.rowid_alias).and_then(|column| table.columns.get(column));
        self.authorize_read(table, column.map_or("rowid", |column| column.name()))
    }

    pub(super) fn found(&mut self, found: Found, offset: usize) -> Result<Bound, Error> {
        let is_hidden = self.is_hidden(&found)?;
        let mut bound = self.found_column(found, offset)?;
        if is_hidden {
            bound.expr = Expr::Const(Value::Null);
        }
        Ok(bound)
    }

    fn found_column(&mut self, found: Found, offset: usize) -> Result<Bound, Error> {
        let depth = match found {
            Found::Column { depth, .. } | Found::Rowid { depth, .. } => depth,
        };
        for scope in &mut self.scopes[depth + 1..] {
            scope.correlated = true;
        }
        match found {
            Found::Rowid { table, .. } => {
                let table = &self.scopes[depth].tables[table];
                let source = table.rowid.unwrap_or_default();
                let alias = table.table.and_then(|table| {
                    table.rowid_alias.map(|alias| table.columns[alias].name.clone())
                });
                let column = NamedColumn {
                    name: alias.unwrap_or_else(|| "rowid".to_owned()),
                    declared_type: Some("INTEGER".to_owned()),
                    collated: false,
                };
                Ok(Bound {
                    expr: Expr::Column { source, column: ROWID },
                    affinity: Some(Affinity::Integer),
                    collation: Coll::None,
                    column: Some(Box::new(column)),
                    classes: Some(classes_under(Some(Affinity::Integer))),
                })
            }
            Found::Column { table: index, column: place, .. } => {
                let table = &self.scopes[depth].tables[index];
                let column = table.columns[place].clone();
                let collation = match &column.collation {
                    Ok(collation) => *collation,
                    Err(name) => Coll::Column(Err(self.unknown_collation(name, offset))),
                };
                let mut expr = column.expr;
                if let Some(definition) = table.table
                    && let Some(known) = definition.columns.get(place)
                    && known.stored.is_none()
                    && known.generated.is_some()
                {
                    let mut row = table.clone();
                    // Columns merged by joins mean nothing to the row itself.
                    for column in &mut row.columns {
                        column.merged = false;
                        column.others.clear();
                        column.named.clear();
                    }
                    let present = row.nullable.then(|| present(definition, &row)).flatten();
                    expr = self.generated(definition, place, row, offset)?;
                    if let Some(present) = present {
                        // For an unmatched outer row the column is NULL, whatever its expression
                        // says.
                        let there = Expr::IsNull { expr: Box::new(present), not: true };
                        expr = Expr::Case {
                            base: None,
                            branches: vec![(PLAIN_EQUAL, there, expr)],
                            otherwise: None,
                        };
                    }
                }
                let named = NamedColumn {
                    name: column.shown.unwrap_or(column.name),
                    declared_type: column.declared_type,
                    collated: false,
                };
                let column_affinity = column.affinity;
                Ok(Bound {
                    expr,
                    affinity: column_affinity,
                    collation,
                    column: Some(Box::new(named)),
                    classes: Some(classes_under(column_affinity)),
                })
            }
        }
    }

    /// A virtual column: its expression over the columns of the same row.
    fn generated(
        &mut self,
        table: &'a Table,
        place: usize,
        row: ScopeTable<'a>,
        offset: usize,
    ) -> Result<Expr, Error> {
        let column = &table.columns[place];
        let Some(generated) = &column.generated else {
            return Err(Error::meaning("not a generated column", offset));
        };
        self.generated_depth += 1;
        if self.generated_depth > GENERATED_DEPTH_MAX {
            let message = format!("generated column loop on \"{}\"", column.name);
            return Err(Error::meaning(message, offset));
        }
        let scopes = std::mem::take(&mut self.scopes);
        let bound =
            self.in_scope(vec![row], Clause::From, |inner| inner.bind_expr(&generated.expr));
        self.scopes = scopes;
        self.generated_depth -= 1;
        let expr = bound.map_err(|error| error.at(offset))?;
        Ok(Expr::Stored { expr: Box::new(expr), affinity: column.affinity })
    }
}

/// An expression with the value NULL only for an unmatched outer row.
fn present(table: &Table, row: &ScopeTable<'_>) -> Option<Expr> {
    match row.rowid {
        Some(source) => Some(Expr::Column { source, column: ROWID }),
        None => {
            let part = table.primary_key.first()?;
            Some(row.columns.get(part.column)?.expr.clone())
        }
    }
}

/// An operator over two expressions; computed now where both are numbers, instead of for every row.
fn computed(op: ArithmeticOp, left: Expr, right: Expr) -> Expr {
    let number = |value: &Value| matches!(value, Value::Int(_) | Value::Real(_));
    if let (Expr::Const(a), Expr::Const(b)) = (&left, &right)
        && number(a)
        && number(b)
    {
        let value = arithmetic(op, a.as_ref(), b.as_ref());
        if number(&value) {
            return Expr::Const(value);
        }
    }
    Expr::Arithmetic(op, Box::new(left), Box::new(right))
}

pub(super) const PLAIN_EQUAL: Comparison =
    Comparison { op: CompareOp::Equal, affinity: None, collation: Collation::Binary };

pub(super) fn sub_select_columns(got: usize, expected: usize, offset: usize) -> Error {
    Error::meaning(format!("sub-select returns {got} columns - expected {expected}"), offset)
}

//! The grammar's expressions as this crate's own.

use sqlite3_parser::ast as grammar;
use sqlite3_parser::dialect::TokenType;

use super::ast::{
    BinaryOp, Call, CurrentTime, Expr, ExprKind, Frame, FrameBound, FrameExclude, FrameUnit, InSet,
    LikeOp, Name, ObjectName, OrderTerm, Over, Quote, UnaryOp, Window,
};
use super::tokens::Tokens;
use crate::Error;
use crate::error::Raise;
use crate::value::{Value, ValueRef, integer_literal, to_real};

/// An expression tree may be this high, as in SQLite.
pub(crate) const EXPR_DEPTH_MAX: usize = 1000;
/// A query within a query counts for this many levels of expressions: it takes more of the stack.
pub(crate) const QUERY_DEPTH: usize = 10;
/// The highest parameter number, as in SQLite.
const PARAMETER_MAX: usize = 32_766;

/// Walks the grammar's tree in source order.
#[derive(Debug)]
pub(super) struct Converter<'a> {
    pub(super) tokens: Tokens<'a>,
    parameters: Vec<Option<String>>,
    depth: usize,
    /// True once there was a `WITH`.
    pub(super) behind_with: bool,
}

impl<'a> Converter<'a> {
    pub(super) fn new(tokens: Tokens<'a>) -> Self {
        Converter { tokens, parameters: Vec::new(), depth: 0, behind_with: false }
    }

    pub(super) fn into_parameters(self) -> Vec<Option<String>> {
        self.parameters
    }

    pub(super) fn has_parameters(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// The offset of the first token after the statement.
    pub(super) fn end_of_statement(&mut self) -> usize {
        self.tokens.find_kind(TokenType::TK_SEMI);
        self.tokens.offset()
    }

    pub(super) fn name(&mut self, name: &grammar::Name<'_>) -> Name {
        self.identifier(name.0)
    }

    pub(super) fn identifier(&mut self, raw: &str) -> Name {
        let offset = self.tokens.find(raw);
        let (text, quote) = unquote(raw);
        Name { text, offset, quote }
    }

    pub(super) fn object_name(&mut self, name: &grammar::QualifiedName<'_>) -> ObjectName {
        let database = name.db_name.as_ref().map(|database| self.name(database));
        ObjectName { database, name: self.name(&name.name) }
    }

    pub(super) fn exprs(&mut self, exprs: &[grammar::Expr<'_>]) -> Result<Vec<Expr>, Error> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    pub(super) fn optional(
        &mut self,
        expr: Option<&grammar::Expr<'_>>,
    ) -> Result<Option<Expr>, Error> {
        expr.map(|expr| self.expr(expr)).transpose()
    }

    fn boxed(&mut self, expr: &grammar::Expr<'_>) -> Result<Box<Expr>, Error> {
        self.expr(expr).map(Box::new)
    }

    /// Goes `by` levels deeper, within the bound keeping the stack small.
    pub(super) fn deeper(&mut self, by: usize) -> Result<(), Error> {
        self.depth += by;
        if self.depth > EXPR_DEPTH_MAX {
            return Err(Error::Limit {
                what: "depth of an expression",
                max: EXPR_DEPTH_MAX as u64,
            });
        }
        Ok(())
    }

    pub(super) fn shallower(&mut self, by: usize) {
        self.depth -= by;
    }

    /// Converts an expression. Every kind has a function of its own: all of them recurse into this
    /// one, whose stack frame stays small.
    pub(super) fn expr(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        self.deeper(1)?;
        let result = match expr {
            grammar::Expr::Parenthesized(inner) if inner.len() == 1 => self.expr(&inner[0]),
            grammar::Expr::Parenthesized(_)
            | grammar::Expr::IsNull(_)
            | grammar::Expr::NotNull(_)
            | grammar::Expr::Unary(..) => self.prefix_or_postfix(expr),
            grammar::Expr::Binary(left, op, right) => self.binary(left, *op, right),
            grammar::Expr::Between { .. } | grammar::Expr::Like { .. } => self.ternary(expr),
            grammar::Expr::InList { .. }
            | grammar::Expr::InSelect { .. }
            | grammar::Expr::InTable { .. } => self.in_set(expr),
            grammar::Expr::Case { .. } => self.case(expr),
            grammar::Expr::Cast { .. } | grammar::Expr::Collate(..) => self.converted(expr),
            grammar::Expr::FunctionCall { .. } | grammar::Expr::FunctionCallStar { .. } => {
                self.function(expr)
            }
            grammar::Expr::Exists(select) | grammar::Expr::Subquery(select) => {
                self.query(select, matches!(expr, grammar::Expr::Exists(_)))
            }
            grammar::Expr::Literal(_)
            | grammar::Expr::Id(_)
            | grammar::Expr::Name(_)
            | grammar::Expr::Qualified(..)
            | grammar::Expr::DoublyQualified(..)
            | grammar::Expr::Variable(_) => self.leaf(expr),
            grammar::Expr::Raise(action, message) => self.raise(*action, *message),
        };
        self.shallower(1);
        result
    }

    #[inline(never)]
    fn binary(
        &mut self,
        left: &grammar::Expr<'_>,
        op: grammar::Operator,
        right: &grammar::Expr<'_>,
    ) -> Result<Expr, Error> {
        let left = self.boxed(left)?;
        let right = self.boxed(right)?;
        let offset = left.offset;
        Ok(Expr { kind: ExprKind::Binary(binary_op(op), left, right), offset })
    }

    #[inline(never)]
    fn prefix_or_postfix(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let kind = match expr {
            grammar::Expr::Unary(op, operand) => {
                let operand = self.expr(operand)?;
                self.unary(*op, operand)
            }
            grammar::Expr::IsNull(expr) => ExprKind::IsNull { expr: self.boxed(expr)?, not: false },
            grammar::Expr::NotNull(expr) => ExprKind::IsNull { expr: self.boxed(expr)?, not: true },
            grammar::Expr::Parenthesized(exprs) => ExprKind::Row(self.exprs(exprs)?),
            _ => return self.leaf(expr),
        };
        Ok(Expr { kind, offset })
    }

    #[inline(never)]
    fn ternary(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let kind = match expr {
            grammar::Expr::Between { lhs, not, start, end } => ExprKind::Between {
                expr: self.boxed(lhs)?,
                not: *not,
                low: self.boxed(start)?,
                high: self.boxed(end)?,
            },
            grammar::Expr::Like { lhs, not, op, rhs, escape } => ExprKind::Like {
                op: like_op(*op),
                not: *not,
                expr: self.boxed(lhs)?,
                pattern: self.boxed(rhs)?,
                escape: escape.map(|escape| self.boxed(escape)).transpose()?,
            },
            _ => return self.leaf(expr),
        };
        Ok(Expr { kind, offset })
    }

    #[inline(never)]
    fn in_set(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let (left, not) = match expr {
            grammar::Expr::InList { lhs, not, .. }
            | grammar::Expr::InSelect { lhs, not, .. }
            | grammar::Expr::InTable { lhs, not, .. } => (self.boxed(lhs)?, *not),
            _ => return self.leaf(expr),
        };
        let set = match expr {
            grammar::Expr::InSelect { rhs, .. } => InSet::Select(Box::new(self.select(rhs)?)),
            grammar::Expr::InTable { rhs, args, .. } => {
                let name = self.object_name(rhs);
                let arguments = args.map(|args| self.exprs(args)).transpose()?;
                InSet::Table { name, arguments }
            }
            grammar::Expr::InList { rhs, .. } => InSet::List(self.exprs(rhs.unwrap_or_default())?),
            _ => InSet::List(Vec::new()),
        };
        Ok(Expr { kind: ExprKind::In { expr: left, not, set }, offset })
    }

    #[inline(never)]
    fn case(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let grammar::Expr::Case { base, when_then_pairs, else_expr } = expr else {
            return self.leaf(expr);
        };
        let base = base.map(|base| self.boxed(base)).transpose()?;
        let mut branches = Vec::with_capacity(when_then_pairs.len());
        for (when, then) in when_then_pairs.iter() {
            branches.push((self.expr(when)?, self.expr(then)?));
        }
        let otherwise = else_expr.map(|expr| self.boxed(expr)).transpose()?;
        Ok(Expr { kind: ExprKind::Case { base, branches, otherwise }, offset })
    }

    #[inline(never)]
    fn converted(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let kind = match expr {
            grammar::Expr::Cast { expr, type_name } => {
                let expr = self.boxed(expr)?;
                self.tokens.find_kind(TokenType::TK_AS);
                let type_name = type_name.as_ref().map(|ty| self.type_name(ty)).unwrap_or_default();
                ExprKind::Cast { expr, type_name }
            }
            grammar::Expr::Collate(expr, collation) => {
                let expr = self.boxed(expr)?;
                ExprKind::Collate { expr, collation: self.identifier(collation) }
            }
            _ => return self.leaf(expr),
        };
        Ok(Expr { kind, offset })
    }

    #[inline(never)]
    fn query(&mut self, select: &grammar::Select<'_>, exists: bool) -> Result<Expr, Error> {
        let offset = self.tokens.offset();
        let select = Box::new(self.select(select)?);
        let kind = if exists { ExprKind::Exists(select) } else { ExprKind::Subquery(select) };
        Ok(Expr { kind, offset })
    }

    #[inline(never)]
    fn function(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        match expr {
            grammar::Expr::FunctionCall { name, distinctness, args, order_by, filter_over } => {
                let name = self.identifier(name.0);
                let offset = name.offset;
                let distinct = *distinctness == Some(grammar::Distinctness::Distinct);
                let arguments = self.exprs(args.unwrap_or_default())?;
                let order_by = match order_by {
                    Some(grammar::FunctionCallOrder::SortList(terms)) => self.order_terms(terms)?,
                    None => Vec::new(),
                };
                // SQLite looks at none where there is nothing to be ordered.
                let order_by = if arguments.is_empty() { Vec::new() } else { order_by };
                let kind =
                    self.call(name, distinct, arguments, false, order_by, filter_over.as_ref())?;
                Ok(Expr { kind, offset })
            }
            grammar::Expr::FunctionCallStar { name, filter_over } => {
                let name = self.identifier(name.0);
                let offset = name.offset;
                let kind =
                    self.call(name, false, Vec::new(), true, Vec::new(), filter_over.as_ref())?;
                Ok(Expr { kind, offset })
            }
            _ => self.leaf(expr),
        }
    }

    /// Converts an expression without parts.
    #[inline(never)]
    fn leaf(&mut self, expr: &grammar::Expr<'_>) -> Result<Expr, Error> {
        let offset;
        let kind = match expr {
            grammar::Expr::Literal(literal) => {
                let (kind, at) = self.literal(literal)?;
                offset = at;
                kind
            }
            grammar::Expr::Id(id) => {
                let column = self.identifier(id.0);
                offset = column.offset;
                ExprKind::Column { database: None, table: None, column }
            }
            grammar::Expr::Name(name) => {
                let column = self.name(name);
                offset = column.offset;
                ExprKind::Column { database: None, table: None, column }
            }
            grammar::Expr::Qualified(table, column) => {
                let table = self.name(table);
                offset = table.offset;
                let column = self.name(column);
                ExprKind::Column { database: None, table: Some(table), column }
            }
            grammar::Expr::DoublyQualified(database, table, column) => {
                let database = self.name(database);
                offset = database.offset;
                let table = self.name(table);
                let column = self.name(column);
                ExprKind::Column { database: Some(database), table: Some(table), column }
            }
            grammar::Expr::Variable(text) => {
                offset = self.tokens.find_kind(TokenType::TK_VARIABLE);
                let token = self.tokens.at_offset(offset);
                // The grammar was given `?` without itself and names without parentheses.
                let written = token.and_then(|token| self.tokens.sql.get(token.start..token.end));
                let written = written.unwrap_or(text);
                if let [b'#', b'0'..=b'9', ..] = written.as_bytes() {
                    // A register: SQLite's grammar keeps registers for its own nested parses.
                    let message = format!("near \"{written}\": syntax error");
                    return Err(Error::Syntax { message, offset });
                }
                ExprKind::Parameter(number_of_parameter(&mut self.parameters, written, offset)?)
            }
            other => unreachable!("has parts: {other:?}"),
        };
        Ok(Expr { kind, offset })
    }

    #[inline(never)]
    fn raise(
        &mut self,
        action: grammar::ResolveType,
        message: Option<&grammar::Expr<'_>>,
    ) -> Result<Expr, Error> {
        let offset = self.tokens.find_kind(TokenType::TK_RAISE);
        let action = match action {
            grammar::ResolveType::Ignore => Raise::Ignore,
            grammar::ResolveType::Rollback => Raise::Rollback,
            grammar::ResolveType::Fail => Raise::Fail,
            _ => Raise::Abort,
        };
        let message = message.map(|message| self.expr(message).map(Box::new)).transpose()?;
        Ok(Expr { kind: ExprKind::Raise { action, message }, offset })
    }

    #[inline(never)]
    fn call(
        &mut self,
        name: Name,
        distinct: bool,
        arguments: Vec<Expr>,
        star: bool,
        order_by: Vec<OrderTerm>,
        tail: Option<&grammar::FunctionTail<'_>>,
    ) -> Result<ExprKind, Error> {
        let filter = tail.and_then(|tail| tail.filter_clause);
        let filter = filter.map(|filter| self.expr(filter)).transpose()?;
        let over = match tail.and_then(|tail| tail.over_clause) {
            None => None,
            Some(over) => {
                self.tokens.find_kind(TokenType::TK_OVER);
                Some(match over {
                    grammar::Over::Name(name) => Over::Name(self.name(name)),
                    grammar::Over::Window(window) => Over::Window(Box::new(self.window(window)?)),
                })
            }
        };
        Ok(ExprKind::Call(Box::new(Call {
            name,
            distinct,
            arguments,
            star,
            order_by,
            filter,
            over,
        })))
    }

    pub(super) fn window(&mut self, window: &grammar::Window<'_>) -> Result<Window, Error> {
        let offset = self.tokens.offset();
        let base = window.base.as_ref().map(|base| self.name(base));
        let partition_by = self.exprs(window.partition_by.unwrap_or_default())?;
        let order_by = self.order_terms(window.order_by.unwrap_or_default())?;
        let frame = match &window.frame_clause {
            None => None,
            Some(frame) => Some(Frame {
                unit: match frame.mode {
                    grammar::FrameMode::Rows => FrameUnit::Rows,
                    grammar::FrameMode::Range => FrameUnit::Range,
                    grammar::FrameMode::Groups => FrameUnit::Groups,
                },
                start: self.frame_bound(&frame.start)?,
                end: match &frame.end {
                    Some(end) => self.frame_bound(end)?,
                    None => FrameBound::CurrentRow,
                },
                exclude: match frame.exclude {
                    None => FrameExclude::None,
                    Some(grammar::FrameExclude::NoOthers) => FrameExclude::NoOthers,
                    Some(grammar::FrameExclude::CurrentRow) => FrameExclude::CurrentRow,
                    Some(grammar::FrameExclude::Group) => FrameExclude::Group,
                    Some(grammar::FrameExclude::Ties) => FrameExclude::Ties,
                },
            }),
        };
        Ok(Window { base, partition_by, order_by, frame, offset })
    }

    fn frame_bound(&mut self, bound: &grammar::FrameBound<'_>) -> Result<FrameBound, Error> {
        Ok(match bound {
            grammar::FrameBound::UnboundedPreceding => FrameBound::UnboundedPreceding,
            grammar::FrameBound::Preceding(expr) => FrameBound::Preceding(self.expr(expr)?),
            grammar::FrameBound::CurrentRow => FrameBound::CurrentRow,
            grammar::FrameBound::Following(expr) => FrameBound::Following(self.expr(expr)?),
            grammar::FrameBound::UnboundedFollowing => FrameBound::UnboundedFollowing,
        })
    }

    pub(super) fn order_terms(
        &mut self,
        terms: &[grammar::SortedColumn<'_>],
    ) -> Result<Vec<OrderTerm>, Error> {
        terms
            .iter()
            .map(|term| {
                Ok(OrderTerm {
                    expr: self.expr(&term.expr)?,
                    descending: term.order == Some(grammar::SortOrder::Desc),
                    nulls_first: term.nulls.map(|nulls| nulls == grammar::NullsOrder::First),
                })
            })
            .collect()
    }

    /// A literal with a sign folds: the least integer could not be written otherwise.
    fn unary(&mut self, op: grammar::UnaryOperator, operand: Expr) -> ExprKind {
        let op = match op {
            grammar::UnaryOperator::Negative => UnaryOp::Negate,
            grammar::UnaryOperator::Positive => UnaryOp::Plus,
            grammar::UnaryOperator::BitwiseNot => UnaryOp::BitNot,
            grammar::UnaryOperator::Not => UnaryOp::Not,
        };
        // As in SQLite's grammar, a sign before a plus takes its place.
        let operand = match (op, operand) {
            (
                UnaryOp::Negate | UnaryOp::Plus,
                Expr { kind: ExprKind::Unary(UnaryOp::Plus, inner), .. },
            ) => inner,
            (_, operand) => Box::new(operand),
        };
        if let (UnaryOp::Negate, ExprKind::Literal(value)) = (op, &operand.kind) {
            match value {
                // Minus 0 stays an operator: only the literal 0 is a condition known to be false.
                Value::Int(int) if !matches!(*int, 0 | i64::MIN) => {
                    return ExprKind::Literal(Value::Int(-int));
                }
                Value::Real(real) if self.is_least_integer(operand.offset) => {
                    debug_assert!(*real > 0.0);
                    return ExprKind::Literal(Value::Int(i64::MIN));
                }
                // A literal with a sign already stays an operand: 0 minus the operand makes no
                // minus zero.
                Value::Real(real) if real.is_sign_positive() => {
                    return ExprKind::Literal(Value::Real(-real));
                }
                _ => {}
            }
        }
        ExprKind::Unary(op, operand)
    }

    fn is_least_integer(&self, offset: usize) -> bool {
        let digits = self.tokens.sql.get(offset..).unwrap_or_default();
        let digits: String = digits
            .chars()
            .take_while(|char| char.is_ascii_digit() || *char == '_')
            .filter(char::is_ascii_digit)
            .collect();
        let after = self.tokens.sql.as_bytes().get(offset + digits.len());
        digits.trim_start_matches('0') == "9223372036854775808"
            && !matches!(after, Some(b'.' | b'e' | b'E'))
    }

    fn literal(&mut self, literal: &grammar::Literal<'_>) -> Result<(ExprKind, usize), Error> {
        Ok(match literal {
            grammar::Literal::Null => {
                (ExprKind::Literal(Value::Null), self.tokens.find_kind(TokenType::TK_NULL))
            }
            grammar::Literal::Numeric(text) => {
                let offset = self.tokens.find(text);
                (ExprKind::Literal(number(text, offset)?), offset)
            }
            grammar::Literal::String(text) => {
                let offset = self.tokens.find(text);
                (ExprKind::Literal(Value::Text(unquote(text).0.into_bytes())), offset)
            }
            grammar::Literal::Blob(hex) => {
                let offset = self.tokens.find_kind(TokenType::TK_BLOB);
                (ExprKind::Literal(Value::Blob(unhex(hex))), offset)
            }
            grammar::Literal::Keyword(text) => {
                let offset = self.tokens.find(text);
                (ExprKind::Literal(Value::text(*text)), offset)
            }
            grammar::Literal::CurrentDate => self.current(CurrentTime::Date),
            grammar::Literal::CurrentTime => self.current(CurrentTime::Time),
            grammar::Literal::CurrentTimestamp => self.current(CurrentTime::Timestamp),
        })
    }

    fn current(&mut self, kind: CurrentTime) -> (ExprKind, usize) {
        (ExprKind::CurrentTime(kind), self.tokens.find_kind(TokenType::TK_CTIME_KW))
    }

    /// A declared type as written: its words, and its sizes in parentheses.
    pub(super) fn type_name(&mut self, ty: &grammar::Type<'_>) -> String {
        let first = self.tokens.mark();
        let mut past = first;
        let mut length = 0;
        while length < ty.name.len() {
            let Some(token) = self.tokens.get(past) else { break };
            length += token.value.len() + usize::from(past > first);
            past += 1;
        }
        if ty.size.is_some() {
            past = self.tokens.past_close(past);
        }
        self.tokens.go(past);
        if past - first == 1 {
            return unquote(ty.name).0;
        }
        self.tokens.text(first..past).to_owned()
    }
}

/// The number of a parameter, by SQLite's rules: `?` takes the next one, `?N` takes N, a name
/// takes its earlier number or the next one.
pub(super) fn number_of_parameter(
    parameters: &mut Vec<Option<String>>,
    text: &str,
    offset: usize,
) -> Result<usize, Error> {
    let too_large = || {
        Error::meaning(format!("variable number must be between ?1 and ?{PARAMETER_MAX}"), offset)
    };
    let number = match text.strip_prefix('?') {
        Some("") => parameters.len() + 1,
        Some(digits) => {
            let number: usize = digits.parse().map_err(|_| too_large())?;
            if number == 0 {
                return Err(too_large());
            }
            number
        }
        None => {
            let known = parameters.iter().position(|name| name.as_deref() == Some(text));
            known.map_or(parameters.len() + 1, |index| index + 1)
        }
    };
    if number > PARAMETER_MAX {
        return Err(too_large());
    }
    if number > parameters.len() {
        parameters.resize(number, None);
    }
    if text != "?" {
        parameters[number - 1].get_or_insert_with(|| text.to_owned());
    }
    Ok(number)
}

/// A name or string without its quotes, doubled quotes made single.
pub(super) fn unquote(raw: &str) -> (String, Quote) {
    let (quote, kind) = match raw.as_bytes().first() {
        Some(b'"') => ("\"", Quote::Double),
        Some(b'`') => ("`", Quote::Other),
        Some(b'\'') => ("'", Quote::Single),
        Some(b'[') => {
            let inner = raw.strip_prefix('[').and_then(|raw| raw.strip_suffix(']'));
            return (inner.unwrap_or(raw).to_owned(), Quote::Other);
        }
        _ => return (raw.to_owned(), Quote::None),
    };
    let inner = raw.strip_prefix(quote).and_then(|raw| raw.strip_suffix(quote)).unwrap_or(raw);
    (inner.replace(&quote.repeat(2), quote), kind)
}

pub(super) fn number(text: &str, offset: usize) -> Result<Value, Error> {
    let plain: String = text.chars().filter(|&char| char != '_').collect();
    let hex = plain.starts_with("0x") || plain.starts_with("0X");
    if !hex && plain.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return Ok(Value::Real(to_real(ValueRef::Text(plain.as_bytes()))));
    }
    integer_literal(&plain)
        .ok_or_else(|| Error::meaning(format!("hex literal too big: {text}"), offset))
}

pub(super) fn unhex(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    hex.as_bytes()
        .chunks_exact(2)
        .filter_map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

fn binary_op(op: grammar::Operator) -> BinaryOp {
    use grammar::Operator;
    match op {
        Operator::Add => BinaryOp::Add,
        Operator::And => BinaryOp::And,
        Operator::ArrowRight => BinaryOp::Arrow,
        Operator::ArrowRightShift => BinaryOp::ArrowText,
        Operator::BitwiseAnd => BinaryOp::BitAnd,
        Operator::BitwiseOr => BinaryOp::BitOr,
        Operator::Concat => BinaryOp::Concat,
        Operator::Equals => BinaryOp::Equal,
        Operator::Divide => BinaryOp::Divide,
        Operator::Greater => BinaryOp::Greater,
        Operator::GreaterEquals => BinaryOp::GreaterEqual,
        Operator::Is => BinaryOp::Is,
        Operator::IsNot => BinaryOp::IsNot,
        Operator::LeftShift => BinaryOp::ShiftLeft,
        Operator::Less => BinaryOp::Less,
        Operator::LessEquals => BinaryOp::LessEqual,
        Operator::Modulus => BinaryOp::Remainder,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::NotEquals => BinaryOp::NotEqual,
        Operator::Or => BinaryOp::Or,
        Operator::RightShift => BinaryOp::ShiftRight,
        Operator::Subtract => BinaryOp::Subtract,
    }
}

fn like_op(op: grammar::LikeOperator) -> LikeOp {
    match op {
        grammar::LikeOperator::Glob => LikeOp::Glob,
        grammar::LikeOperator::Like => LikeOp::Like,
        grammar::LikeOperator::Match => LikeOp::Match,
        grammar::LikeOperator::Regexp => LikeOp::Regexp,
    }
}

//! Expressions: operators by rank, then postfixes, then what stands alone.

use super::Parser;
use crate::ast::*;
use crate::error::{Error, Result};
use crate::lexer::TokenKind;
use crate::value::Value;

/// Ranks of binary operators, weakest first.
const OR: u8 = 0;
const XOR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
const PREDICATE: u8 = 5;
const SUM: u8 = 6;
const PRODUCT: u8 = 7;
const POWER: u8 = 8;

/// The longest chain of postfixes and of signs, each a level of the tree.
const CHAIN_MAX: usize = 200;

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(|p| p.ranked(OR))
    }

    /// An expression of operators that bind at least as strongly as `rank`.
    fn ranked(&mut self, rank: u8) -> Result<Expr> {
        match rank {
            OR => self.logic(LogicOp::Or, "OR", XOR),
            XOR => self.logic(LogicOp::Xor, "XOR", AND),
            AND => self.logic(LogicOp::And, "AND", NOT),
            NOT => self.negation(),
            COMPARE => self.comparison(),
            PREDICATE => self.predicate(),
            _ => self.arithmetic(rank),
        }
    }

    fn logic(&mut self, op: LogicOp, word: &str, tighter: u8) -> Result<Expr> {
        let pos = self.pos();
        let first = self.ranked(tighter)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_word(word) {
            operands.push(self.ranked(tighter)?);
        }
        Ok(Expr::new(Kind::Logic(op, operands), pos))
    }

    fn negation(&mut self) -> Result<Expr> {
        let pos = self.pos();
        let mut count = 0;
        while self.is_word("NOT") && !self.ends_operand_after(1) {
            self.advance();
            count += 1;
        }
        let mut expr = self.ranked(COMPARE)?;
        // An even number of NOTs asks for a truth value as one pair does.
        let kept = if count > 2 { 2 - count % 2 } else { count };
        for _ in 0..kept {
            expr = Expr::new(Kind::Not(Box::new(expr)), pos);
        }
        Ok(expr)
    }

    fn ends_operand_after(&self, count: usize) -> bool {
        matches!(self.kind_after(count), TokenKind::End)
            || [")", "]", "}", ",", "=", "."].iter().any(|sign| self.sign_after(count, sign))
    }

    fn comparison(&mut self) -> Result<Expr> {
        let pos = self.pos();
        let first = self.ranked(PREDICATE)?;
        let mut rest = Vec::new();
        loop {
            let op = match self.kind() {
                TokenKind::Sign("=") => CompareOp::Equal,
                TokenKind::Sign("<>") => CompareOp::NotEqual,
                TokenKind::Sign("<") => CompareOp::Less,
                TokenKind::Sign("<=") => CompareOp::LessOrEqual,
                TokenKind::Sign(">") => CompareOp::Greater,
                TokenKind::Sign(">=") => CompareOp::GreaterOrEqual,
                _ => break,
            };
            self.advance();
            rest.push((op, self.ranked(PREDICATE)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expr::new(Kind::Compare(Box::new(first), rest), pos)
        })
    }

    fn predicate(&mut self) -> Result<Expr> {
        let pos = self.pos();
        let mut expr = self.ranked(SUM)?;
        for _ in 0..CHAIN_MAX {
            let left = |expr| Box::new(expr);
            if self.take_word("IN") {
                let list = self.ranked(SUM)?;
                expr = Expr::new(Kind::In(left(expr), Box::new(list)), pos);
            } else if self.is_word("STARTS") && self.word_after(1, "WITH") {
                self.advance();
                expr = self.text_predicate(TextOp::StartsWith, expr, pos)?;
            } else if self.is_word("ENDS") && self.word_after(1, "WITH") {
                self.advance();
                expr = self.text_predicate(TextOp::EndsWith, expr, pos)?;
            } else if self.is_word("CONTAINS") {
                expr = self.text_predicate(TextOp::Contains, expr, pos)?;
            } else if self.is_sign("=~") {
                expr = self.text_predicate(TextOp::Matches, expr, pos)?;
            } else if self.is_word("IS")
                && (self.word_after(1, "NULL") || self.word_after(1, "NOT"))
            {
                self.advance();
                let is_not = self.take_word("NOT");
                self.expect_word("NULL")?;
                expr = Expr::new(Kind::IsNull(left(expr), !is_not), pos);
            } else if self.take_word("IS") {
                let labels = self.label_expression(false)?;
                expr = Expr::new(Kind::HasLabels(left(expr), labels), pos);
            } else {
                return Ok(expr);
            }
        }
        Err(Error::syntax("UnexpectedSyntax", pos.at(), "too many predicates in a row"))
    }

    fn text_predicate(&mut self, op: TextOp, left: Expr, pos: Pos) -> Result<Expr> {
        self.advance();
        let right = self.ranked(SUM)?;
        Ok(Expr::new(Kind::Text(op, Box::new(left), Box::new(right)), pos))
    }

    fn arithmetic(&mut self, rank: u8) -> Result<Expr> {
        let pos = self.pos();
        let operand = |p: &mut Self| match rank {
            POWER => p.signed(),
            _ => p.ranked(rank + 1),
        };
        let first = operand(self)?;
        let mut rest = Vec::new();
        loop {
            let op = match (rank, self.kind()) {
                (SUM, TokenKind::Sign("+")) => ArithmeticOp::Add,
                (SUM, TokenKind::Sign("-")) => ArithmeticOp::Subtract,
                (PRODUCT, TokenKind::Sign("*")) => ArithmeticOp::Multiply,
                (PRODUCT, TokenKind::Sign("/")) => ArithmeticOp::Divide,
                (PRODUCT, TokenKind::Sign("%")) => ArithmeticOp::Modulo,
                (POWER, TokenKind::Sign("^")) => ArithmeticOp::Power,
                _ => break,
            };
            self.advance();
            rest.push((op, operand(self)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expr::new(Kind::Arithmetic(Box::new(first), rest), pos)
        })
    }

    fn signed(&mut self) -> Result<Expr> {
        let pos = self.pos();
        let mut signs = Vec::new();
        while self.is_sign("-") || self.is_sign("+") {
            signs.push((self.is_sign("-"), self.pos()));
            self.advance();
            if signs.len() > CHAIN_MAX {
                return Err(Error::syntax("UnexpectedSyntax", pos.at(), "too many signs in a row"));
            }
        }
        // The lowest integer has no positive twin, so its sign is part of the literal.
        let mut expr = match (signs.last(), self.kind()) {
            (Some((true, _)), TokenKind::Integer(..)) => {
                signs.pop();
                let literal = self.integer(true)?;
                self.postfixes(literal)?
            }
            _ => self.postfix_expression()?,
        };
        for (is_negative, pos) in signs.into_iter().rev() {
            let inner = Box::new(expr);
            expr =
                Expr::new(if is_negative { Kind::Negate(inner) } else { Kind::Plus(inner) }, pos);
        }
        Ok(expr)
    }

    fn integer(&mut self, is_negative: bool) -> Result<Expr> {
        let pos = self.pos();
        let TokenKind::Integer(digits, radix) = self.kind() else {
            unreachable!("an integer's token")
        };
        let value = i128::from_str_radix(digits, *radix)
            .ok()
            .map(|value| if is_negative { -value } else { value })
            .and_then(|value| i64::try_from(value).ok())
            .ok_or_else(|| {
                Error::syntax("IntegerOverflow", pos.at(), "the integer does not fit 64 bits")
            })?;
        self.advance();
        Ok(Expr::new(Kind::Literal(Value::Integer(value)), pos))
    }

    pub(super) fn postfix_expression(&mut self) -> Result<Expr> {
        let expr = self.atom()?;
        self.postfixes(expr)
    }

    fn postfixes(&mut self, mut expr: Expr) -> Result<Expr> {
        let pos = expr.pos;
        for _ in 0..CHAIN_MAX {
            if self.take_sign(".") {
                let key = self.name("a property's name")?;
                expr = Expr::new(Kind::Property(Box::new(expr), key), pos);
            } else if self.take_sign("[") {
                expr = self.subscript(expr, pos)?;
            } else if self.is_sign(":")
                && matches!(expr.kind, Kind::Variable(_) | Kind::Property(..))
            {
                self.advance();
                let labels = self.label_expression(false)?;
                expr = Expr::new(Kind::HasLabels(Box::new(expr), labels), pos);
            } else {
                return Ok(expr);
            }
        }
        Err(Error::syntax(
            "UnexpectedSyntax",
            pos.at(),
            "too many properties and subscripts in a row",
        ))
    }

    fn subscript(&mut self, expr: Expr, pos: Pos) -> Result<Expr> {
        let from = if self.is_sign("..") { None } else { Some(Box::new(self.expression()?)) };
        let kind = if self.take_sign("..") {
            let to = if self.is_sign("]") { None } else { Some(Box::new(self.expression()?)) };
            Kind::Slice(Box::new(expr), from, to)
        } else {
            Kind::Index(Box::new(expr), from.expect("no dots, so an index was read"))
        };
        self.expect_sign("]")?;
        Ok(Expr::new(kind, pos))
    }

    fn atom(&mut self) -> Result<Expr> {
        let pos = self.pos();
        let literal = |value| Ok(Expr::new(Kind::Literal(value), pos));
        match self.kind().clone() {
            TokenKind::Integer(..) => self.integer(false),
            TokenKind::Float(text) => {
                let value: f64 = text.parse().unwrap_or(f64::INFINITY);
                if value.is_infinite() {
                    let message = "the number is larger than a float can be";
                    return Err(Error::syntax("FloatingPointOverflow", pos.at(), message));
                }
                self.advance();
                literal(Value::Float(value))
            }
            TokenKind::Text(text) => {
                self.advance();
                literal(Value::text(&text))
            }
            TokenKind::Parameter(name) => {
                self.advance();
                Ok(Expr::new(Kind::Parameter(name), pos))
            }
            TokenKind::Sign("(") => {
                if let Some(pattern) = self.nested(|p| Ok(p.try_pattern()))? {
                    return Ok(Expr::new(
                        Kind::Pattern(Box::new(Subquery::of(pattern, None))),
                        pos,
                    ));
                }
                self.advance();
                let inner = self.expression()?;
                self.expect_sign(")")?;
                Ok(inner)
            }
            TokenKind::Sign("[") => self.nested(|p| p.list()),
            TokenKind::Sign("{") => self.nested(|p| p.map_literal()),
            TokenKind::Word(word) => self.nested(|p| p.word_atom(&word, pos)),
            TokenKind::Quoted(_) => self.nested(|p| p.named(pos)),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn word_atom(&mut self, word: &str, pos: Pos) -> Result<Expr> {
        let literal = |p: &mut Self, value| {
            p.advance();
            Ok(Expr::new(Kind::Literal(value), pos))
        };
        let calls = self.sign_after(1, "(");
        match word.to_ascii_uppercase().as_str() {
            "NULL" => return literal(self, Value::Null),
            "TRUE" => return literal(self, Value::Boolean(true)),
            "FALSE" => return literal(self, Value::Boolean(false)),
            "INF" | "INFINITY" if !calls => return literal(self, Value::Float(f64::INFINITY)),
            "NAN" if !calls => return literal(self, Value::Float(f64::NAN)),
            "CASE" => return self.case(pos),
            "EXISTS" if self.sign_after(1, "{") => {
                self.advance();
                return Ok(Expr::new(Kind::Exists(Box::new(self.subquery()?)), pos));
            }
            "COUNT" if self.sign_after(1, "{") => {
                self.advance();
                return Ok(Expr::new(Kind::Count(Box::new(self.subquery()?)), pos));
            }
            "COUNT" if calls && self.sign_after(2, "*") => {
                self.at += 3;
                self.expect_sign(")")?;
                return Ok(Expr::new(Kind::CountStar, pos));
            }
            "ALL" if calls => return self.quantifier(QuantifierKind::All, pos),
            "ANY" if calls => return self.quantifier(QuantifierKind::Any, pos),
            "NONE" if calls => return self.quantifier(QuantifierKind::None, pos),
            "SINGLE" if calls => return self.quantifier(QuantifierKind::Single, pos),
            "REDUCE" if calls => return self.reduce(pos),
            "WHERE" | "RETURN" | "THEN" | "WHEN" | "ELSE" | "END" if self.at_keyword_end() => {
                return Err(self.unexpected("an expression"));
            }
            _ => {}
        }
        if let Some(shortest) = self.shortest_word() {
            let pattern = self.shortest_pattern(shortest)?;
            let query = Box::new(Subquery::of(pattern, None));
            return Ok(Expr::new(Kind::ShortestPath(query), pos));
        }
        self.named(pos)
    }

    /// A keyword followed by the end of the text cannot be a variable's name by mistake.
    fn at_keyword_end(&self) -> bool {
        matches!(self.kind_after(1), TokenKind::End | TokenKind::Word(_))
    }

    /// A variable, a function's call or a map projection.
    fn named(&mut self, pos: Pos) -> Result<Expr> {
        let mut end = 1;
        while self.sign_after(end, ".")
            && matches!(self.kind_after(end + 1), TokenKind::Word(_) | TokenKind::Quoted(_))
        {
            end += 2;
        }
        if self.sign_after(end, "(") {
            return self.function_call(pos);
        }
        let var = self.variable()?;
        let variable = Expr::new(Kind::Variable(var), pos);
        if self.is_sign("{") {
            return self.map_projection(variable, pos);
        }
        Ok(variable)
    }

    fn function_call(&mut self, pos: Pos) -> Result<Expr> {
        let mut name = self.name("a function's name")?;
        while self.take_sign(".") {
            name.push('.');
            name.push_str(&self.name("a function's name")?);
        }
        self.expect_sign("(")?;
        let distinct = self.take_word("DISTINCT");
        let mut args = Vec::new();
        if !self.is_sign(")") {
            args = self.comma_list(|p| p.expression())?;
        }
        self.expect_sign(")")?;
        Ok(Expr::new(Kind::Call { name, distinct, args, function: Function::Unknown }, pos))
    }

    fn map_projection(&mut self, variable: Expr, pos: Pos) -> Result<Expr> {
        self.expect_sign("{")?;
        let mut items = Vec::new();
        while !self.is_sign("}") {
            let at = self.pos();
            if self.take_sign(".") {
                if self.take_sign("*") {
                    items.push(MapItem::AllProperties);
                } else {
                    let key = self.name("a property's name")?;
                    let read = Kind::Property(Box::new(variable.clone()), key.clone());
                    items.push(MapItem::Field(key, Expr::new(read, at)));
                }
            } else {
                let var = self.variable()?;
                let key = var.name.clone();
                let value = match self.take_sign(":") {
                    true => self.expression()?,
                    false => Expr::new(Kind::Variable(var), at),
                };
                items.push(MapItem::Field(key, value));
            }
            if !self.take_sign(",") {
                break;
            }
        }
        self.expect_sign("}")?;
        Ok(Expr::new(Kind::MapProjection(Box::new(variable), items), pos))
    }

    pub(super) fn map_literal(&mut self) -> Result<Expr> {
        let pos = self.pos();
        self.expect_sign("{")?;
        let mut fields = Vec::new();
        if !self.is_sign("}") {
            fields = self.comma_list(|p| {
                if *p.kind() == TokenKind::BadNumber {
                    let message = "a key of a map begins with a letter";
                    return Err(Error::syntax("UnexpectedSyntax", p.pos().at(), message));
                }
                let key = p.name("a key")?;
                p.expect_sign(":")?;
                Ok((key, p.expression()?))
            })?;
        }
        self.expect_sign("}")?;
        Ok(Expr::new(Kind::Map(fields), pos))
    }

    /// A list, a list comprehension or a pattern comprehension.
    fn list(&mut self) -> Result<Expr> {
        let pos = self.pos();
        self.expect_sign("[")?;
        if self.take_sign("]") {
            return Ok(Expr::new(Kind::List(Vec::new()), pos));
        }
        let is_name = matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_));
        if is_name && self.word_after(1, "IN") {
            let start = self.at;
            let var = self.variable()?;
            self.advance();
            let list = Box::new(self.expression()?);
            if self.is_word("WHERE") || self.is_sign("|") || self.is_sign("]") {
                let filter = self.filter()?.map(Box::new);
                let map = match self.take_sign("|") {
                    true => Some(Box::new(self.expression()?)),
                    false => None,
                };
                self.expect_sign("]")?;
                return Ok(Expr::new(Kind::ListComprehension { var, list, filter, map }, pos));
            }
            self.at = start;
        }
        if let Some(comprehension) = self.pattern_comprehension(is_name, pos)? {
            return Ok(comprehension);
        }
        let items = self.comma_list(|p| p.expression())?;
        self.expect_sign("]")?;
        Ok(Expr::new(Kind::List(items), pos))
    }

    fn pattern_comprehension(&mut self, is_name: bool, pos: Pos) -> Result<Option<Expr>> {
        let start = self.at;
        let mut var = None;
        if is_name && self.sign_after(1, "=") && self.sign_after(2, "(") {
            var = Some(self.variable()?);
            self.advance();
        }
        if self.is_sign("(")
            && let Some(mut pattern) = self.try_pattern()
            && (self.is_word("WHERE") || self.is_sign("|"))
        {
            pattern.var = var;
            let filter = self.filter()?;
            self.expect_sign("|")?;
            let map = Box::new(self.expression()?);
            self.expect_sign("]")?;
            let pattern = Box::new(Subquery::of(pattern, filter));
            return Ok(Some(Expr::new(Kind::PatternComprehension { pattern, map }, pos)));
        }
        self.at = start;
        Ok(None)
    }

    fn case(&mut self, pos: Pos) -> Result<Expr> {
        self.advance();
        let operand = match self.is_word("WHEN") {
            true => None,
            false => Some(Box::new(self.expression()?)),
        };
        let mut whens = Vec::new();
        while self.take_word("WHEN") {
            let values = match operand {
                Some(_) => self.comma_list(|p| p.expression())?,
                None => vec![self.expression()?],
            };
            self.expect_word("THEN")?;
            whens.push((values, self.expression()?));
        }
        if whens.is_empty() {
            return Err(self.unexpected("WHEN"));
        }
        let otherwise = match self.take_word("ELSE") {
            true => Some(Box::new(self.expression()?)),
            false => None,
        };
        self.expect_word("END")?;
        Ok(Expr::new(Kind::Case { operand, whens, otherwise }, pos))
    }

    fn quantifier(&mut self, kind: QuantifierKind, pos: Pos) -> Result<Expr> {
        self.advance();
        self.expect_sign("(")?;
        let var = self.variable()?;
        self.expect_word("IN")?;
        let list = Box::new(self.expression()?);
        let filter = self.filter()?.ok_or_else(|| self.unexpected("WHERE"))?;
        self.expect_sign(")")?;
        Ok(Expr::new(Kind::Quantifier { kind, var, list, filter: Box::new(filter) }, pos))
    }

    fn reduce(&mut self, pos: Pos) -> Result<Expr> {
        self.advance();
        self.expect_sign("(")?;
        let total = self.variable()?;
        self.expect_sign("=")?;
        let start = Box::new(self.expression()?);
        self.expect_sign(",")?;
        let var = self.variable()?;
        self.expect_word("IN")?;
        let list = Box::new(self.expression()?);
        self.expect_sign("|")?;
        let step = Box::new(self.expression()?);
        self.expect_sign(")")?;
        Ok(Expr::new(Kind::Reduce { total, start, var, list, step }, pos))
    }

    /// What `EXISTS` and `COUNT` have in braces: a pattern with a filter, or whole clauses.
    fn subquery(&mut self) -> Result<Subquery> {
        self.expect_sign("{")?;
        let query = if self.begins_clause() {
            let (parts, _) = self.parts()?;
            Subquery { parts, before: 0, after: 0 }
        } else {
            let pos = self.pos();
            let patterns = self.comma_list(|p| p.path_pattern())?;
            let filter = self.filter()?;
            let found = Match { optional: false, patterns, filter, pos, before: 0, after: 0 };
            Subquery {
                parts: vec![Part { clauses: vec![Clause::Match(found)], pos }],
                before: 0,
                after: 0,
            }
        };
        self.expect_sign("}")?;
        Ok(query)
    }

    fn begins_clause(&self) -> bool {
        const WORDS: [&str; 11] = [
            "MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "CALL", "CREATE", "MERGE", "SET",
            "REMOVE", "DELETE",
        ];
        (WORDS.iter().any(|word| self.is_word(word)) || self.is_word("DETACH"))
            && !self.sign_after(1, "=")
    }
}

impl Subquery {
    /// A subquery that matches one pattern.
    pub(crate) fn of(pattern: PathPattern, filter: Option<Expr>) -> Subquery {
        let pos = pattern.pos;
        let found =
            Match { optional: false, patterns: vec![pattern], filter, pos, before: 0, after: 0 };
        Subquery {
            parts: vec![Part { clauses: vec![Clause::Match(found)], pos }],
            before: 0,
            after: 0,
        }
    }
}

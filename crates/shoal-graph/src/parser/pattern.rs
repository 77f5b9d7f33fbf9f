//! Patterns: nodes, relationships, paths, label expressions.

use super::Parser;
use crate::ast::*;
use crate::error::{Error, Result};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// A path: `p = (a)-[r]->(b)`, `shortestPath((a)-[*]-(b))`.
    pub(super) fn path_pattern(&mut self) -> Result<PathPattern> {
        let pos = self.pos();
        let mut var = None;
        if matches!(self.kind(), TokenKind::Word(_) | TokenKind::Quoted(_))
            && self.sign_after(1, "=")
        {
            var = Some(self.variable()?);
            self.advance();
        }
        if let Some(shortest) = self.shortest_word() {
            if !self.accepts_shortest {
                let message = "shortest paths are for MATCH";
                return Err(Error::syntax("UnexpectedSyntax", self.pos().at(), message));
            }
            let mut pattern = self.shortest_pattern(shortest)?;
            pattern.var = var;
            return Ok(pattern);
        }
        if self.is_word("ANY") || self.is_word("ALL") || self.is_word("SHORTEST") {
            let message = "path prefixes (ANY, ALL SHORTEST, SHORTEST k) are not supported; shortestPath() and \
                           allShortestPaths() are";
            return Err(Error::syntax("UnexpectedSyntax", self.pos().at(), message));
        }
        let mut pattern = self.chain()?;
        pattern.var = var;
        pattern.pos = pos;
        Ok(pattern)
    }

    /// The kind of shortest path that a word and a parenthesis announce.
    pub(super) fn shortest_word(&self) -> Option<Shortest> {
        if !self.sign_after(1, "(") {
            return None;
        }
        if self.is_word("shortestPath") {
            Some(Shortest::One)
        } else if self.is_word("allShortestPaths") {
            Some(Shortest::All)
        } else {
            None
        }
    }

    /// `shortestPath((a)-[*]->(b))`, from its word on.
    pub(super) fn shortest_pattern(&mut self, shortest: Shortest) -> Result<PathPattern> {
        let pos = self.pos();
        self.advance();
        self.expect_sign("(")?;
        let mut pattern = self.chain()?;
        self.expect_sign(")")?;
        if pattern.steps.len() != 1 {
            let message = "a shortest path has one relationship between two nodes";
            return Err(Error::syntax("UnexpectedSyntax", pos.at(), message));
        }
        if pattern.steps[0].0.length.is_some_and(|length| length.min > 1) {
            let message = "a shortest path begins at length 0 or 1";
            return Err(Error::syntax("InvalidRelationshipPattern", pos.at(), message));
        }
        pattern.shortest = shortest;
        pattern.pos = pos;
        Ok(pattern)
    }

    /// Nodes and the relationships between them.
    pub(super) fn chain(&mut self) -> Result<PathPattern> {
        let pos = self.pos();
        let start = self.node_pattern()?;
        let mut steps = Vec::new();
        while self.begins_relationship() {
            let relationship = self.relationship_pattern()?;
            steps.push((relationship, self.node_pattern()?));
        }
        Ok(PathPattern { var: None, shortest: Shortest::No, start, steps, pos })
    }

    fn begins_relationship(&self) -> bool {
        (self.is_sign("-") && (self.sign_after(1, "-") || self.sign_after(1, "[")))
            || (self.is_sign("<") && self.sign_after(1, "-"))
    }

    /// A pattern of at least one relationship in an expression, or nothing, with no token taken.
    pub(super) fn try_pattern(&mut self) -> Option<PathPattern> {
        if self.not_patterns.contains(&self.at) {
            return None;
        }
        let start = self.at;
        let depth = self.depth;
        match self.chain() {
            Ok(pattern) if !pattern.steps.is_empty() => Some(pattern),
            _ => {
                self.at = start;
                self.depth = depth;
                self.not_patterns.insert(start);
                None
            }
        }
    }

    fn node_pattern(&mut self) -> Result<NodePattern> {
        let pos = self.pos();
        self.expect_sign("(")?;
        if self.is_sign("(") {
            let message =
                "quantified path patterns are not supported; variable-length relationships are";
            return Err(Error::syntax("UnexpectedSyntax", pos.at(), message));
        }
        let var = self.element_variable()?;
        let labels = self.element_labels(false)?;
        let (properties, filter) = self.element_predicate()?;
        self.expect_sign(")")?;
        Ok(NodePattern { var, slot: UNBOUND, is_bound: false, labels, properties, filter, pos })
    }

    fn element_variable(&mut self) -> Result<Option<Var>> {
        let is_variable = match self.kind() {
            TokenKind::Quoted(_) => true,
            TokenKind::Word(_) => {
                let is_filter = self.is_word("WHERE") && !self.ends_element_after(1);
                let is_labels = self.is_word("IS") && !self.ends_element_after(1);
                !is_filter && !is_labels
            }
            _ => false,
        };
        if is_variable { self.variable().map(Some) } else { Ok(None) }
    }

    fn ends_element_after(&self, count: usize) -> bool {
        [")", "]", ":", "{", "*"].iter().any(|sign| self.sign_after(count, sign))
    }

    fn element_labels(&mut self, is_relationship: bool) -> Result<Option<LabelExpr>> {
        if self.take_sign(":") || self.take_word("IS") {
            return self.label_expression(is_relationship).map(Some);
        }
        Ok(None)
    }

    /// Labels after the colon: `A:B`, `A|B`, `A|:B`, `A&(B|!C)`, `%`.
    pub(super) fn label_expression(&mut self, is_relationship: bool) -> Result<LabelExpr> {
        let mut any = vec![self.label_term(is_relationship)?];
        while self.take_sign("|") {
            self.take_sign(":");
            any.push(self.label_term(is_relationship)?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { LabelExpr::Or(any) })
    }

    fn label_term(&mut self, is_relationship: bool) -> Result<LabelExpr> {
        let mut all = vec![self.label_factor(is_relationship)?];
        while self.take_sign("&") || (!is_relationship && self.take_sign(":")) {
            all.push(self.label_factor(is_relationship)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { LabelExpr::And(all) })
    }

    fn label_factor(&mut self, is_relationship: bool) -> Result<LabelExpr> {
        if self.take_sign("!") {
            let inner = self.nested(|p| p.label_factor(is_relationship))?;
            return Ok(LabelExpr::Not(Box::new(inner)));
        }
        if self.take_sign("%") {
            return Ok(LabelExpr::Any);
        }
        if self.take_sign("(") {
            let inner = self.nested(|p| p.label_expression(is_relationship))?;
            self.expect_sign(")")?;
            return Ok(inner);
        }
        self.name("a label or type").map(LabelExpr::Name)
    }

    fn element_predicate(&mut self) -> Result<(Option<Expr>, Option<Box<Expr>>)> {
        let pos = self.pos();
        if let TokenKind::Parameter(name) = self.kind() {
            let expr = Expr::new(Kind::Parameter(name.clone()), pos);
            self.advance();
            return Ok((Some(expr), None));
        }
        if self.is_sign("{") {
            let map = self.nested(|p| p.map_literal())?;
            return Ok((Some(map), None));
        }
        if self.take_word("WHERE") {
            let filter = self.expression()?;
            return Ok((None, Some(Box::new(filter))));
        }
        Ok((None, None))
    }

    fn relationship_pattern(&mut self) -> Result<RelPattern> {
        let pos = self.pos();
        let points_left = self.take_sign("<");
        self.expect_sign("-")?;
        let mut pattern = RelPattern {
            var: None,
            slot: UNBOUND,
            is_bound: false,
            types: None,
            length: None,
            properties: None,
            filter: None,
            direction: Direction::Both,
            pos,
        };
        if self.take_sign("[") {
            pattern.var = self.element_variable()?;
            pattern.types = self.element_labels(true)?;
            pattern.length = self.length()?;
            (pattern.properties, pattern.filter) = self.element_predicate()?;
            if self.is_sign("..") {
                let message = "a variable length begins with *";
                return Err(Error::syntax("InvalidRelationshipPattern", self.pos().at(), message));
            }
            self.expect_sign("]")?;
        }
        self.expect_sign("-")?;
        let points_right = self.take_sign(">");
        pattern.direction = match (points_left, points_right) {
            (true, false) => Direction::Left,
            (false, true) => Direction::Right,
            _ => Direction::Both,
        };
        Ok(pattern)
    }

    fn length(&mut self) -> Result<Option<Length>> {
        if !self.take_sign("*") {
            return Ok(None);
        }
        if self.is_sign("-") {
            let message = "a length is not negative";
            return Err(Error::syntax("InvalidRelationshipPattern", self.pos().at(), message));
        }
        let min = self.length_bound()?;
        if self.take_sign("..") {
            let max = self.length_bound()?;
            return Ok(Some(Length { min: min.unwrap_or(1), max }));
        }
        Ok(Some(match min {
            Some(exact) => Length { min: exact, max: Some(exact) },
            None => Length { min: 1, max: None },
        }))
    }

    fn length_bound(&mut self) -> Result<Option<u64>> {
        let TokenKind::Integer(digits, radix) = self.kind() else { return Ok(None) };
        let bound = u64::from_str_radix(digits, *radix).map_err(|_| {
            Error::syntax("IntegerOverflow", self.pos().at(), "the length does not fit 64 bits")
        })?;
        self.advance();
        Ok(Some(bound))
    }
}

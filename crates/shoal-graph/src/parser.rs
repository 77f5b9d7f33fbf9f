//! Recursive descent over tokens: clauses here, patterns and expressions in modules of their own.
//!
//! The grammar is openCypher's published BNF. Nesting is bounded by [`DEPTH_MAX`], so that no text
//! can overflow the stack; operators of equal rank are kept in one node, so that a long chain of
//! them is no deep tree.

mod expression;
mod pattern;

use rustc_hash::FxHashSet;

use crate::ast::*;
use crate::error::{Error, Result};
use crate::lexer::{Token, TokenKind, tokens};

/// The deepest nesting of expressions, patterns and subqueries.
pub(crate) const DEPTH_MAX: usize = 100;

/// Reads a query's text.
pub(crate) fn parse(text: &str) -> Result<Query> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        text,
        tokens,
        at: 0,
        depth: 0,
        not_patterns: FxHashSet::default(),
        accepts_shortest: false,
    };
    let query = parser.query()?;
    parser.take_sign(";");
    match parser.kind() {
        TokenKind::End => Ok(query),
        _ => Err(parser.unexpected("a clause or the end of the query")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Positions of tokens known to begin no pattern: each is tried once.
    not_patterns: FxHashSet<usize>,
    accepts_shortest: bool,
}

impl Parser<'_> {
    fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    fn kind_after(&self, count: usize) -> &TokenKind {
        let last = self.tokens.len() - 1;
        &self.tokens[(self.at + count).min(last)].kind
    }

    fn pos(&self) -> Pos {
        Pos(self.tokens[self.at].start)
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let token = &self.tokens[self.at];
        let found = match &token.kind {
            TokenKind::End => "the query ends".to_owned(),
            TokenKind::BadNumber => {
                return Error::syntax(
                    "InvalidNumberLiteral",
                    token.start as usize,
                    "letters in a number",
                );
            }
            _ => {
                let text: String =
                    self.text[token.start as usize..token.end as usize].chars().take(40).collect();
                format!("{text} stands")
            }
        };
        let message = format!("{found} where {wanted} is expected");
        Error::syntax("UnexpectedSyntax", token.start as usize, message)
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind(), TokenKind::Sign(found) if *found == sign)
    }

    fn sign_after(&self, count: usize, sign: &str) -> bool {
        matches!(self.kind_after(count), TokenKind::Sign(found) if *found == sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let is = self.is_sign(sign);
        if is {
            self.advance();
        }
        is
    }

    fn expect_sign(&mut self, sign: &str) -> Result<()> {
        match self.take_sign(sign) {
            true => Ok(()),
            false => Err(self.unexpected(sign)),
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), TokenKind::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn word_after(&self, count: usize, word: &str) -> bool {
        matches!(self.kind_after(count), TokenKind::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        if is {
            self.advance();
        }
        is
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        match self.take_word(word) {
            true => Ok(()),
            false => Err(self.unexpected(&word.to_ascii_uppercase())),
        }
    }

    fn name(&mut self, wanted: &str) -> Result<String> {
        let name = match self.kind() {
            TokenKind::Word(name) | TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected(wanted)),
        };
        self.advance();
        Ok(name)
    }

    fn variable(&mut self) -> Result<Var> {
        let pos = self.pos();
        let name = self.name("a variable")?;
        Ok(Var { name, slot: UNBOUND, pos })
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} levels of nesting");
            return Err(Error::syntax("UnexpectedSyntax", self.pos().at(), message));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn comma_list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut list = vec![one(self)?];
        while self.take_sign(",") {
            list.push(one(self)?);
        }
        Ok(list)
    }

    fn query(&mut self) -> Result<Query> {
        let mode = if self.take_word("EXPLAIN") {
            Mode::Explain
        } else if self.take_word("PROFILE") {
            Mode::Profile
        } else {
            Mode::Run
        };
        let (parts, keeps_duplicates) = self.parts()?;
        Ok(Query { mode, parts, keeps_duplicates })
    }

    /// Parts joined by `UNION`, and true where equal rows are kept.
    fn parts(&mut self) -> Result<(Vec<Part>, bool)> {
        let mut parts = vec![self.part()?];
        let mut keeps = None;
        while self.is_word("UNION") {
            let pos = self.pos();
            self.advance();
            let all = self.take_word("ALL");
            if !all {
                self.take_word("DISTINCT");
            }
            if keeps.is_some_and(|keeps| keeps != all) {
                let message = "UNION and UNION ALL cannot be mixed in one query";
                return Err(Error::syntax("InvalidClauseComposition", pos.at(), message));
            }
            keeps = Some(all);
            parts.push(self.part()?);
        }
        Ok((parts, keeps.unwrap_or(true)))
    }

    fn part(&mut self) -> Result<Part> {
        let pos = self.pos();
        let mut clauses = Vec::new();
        while let Some(clause) = self.clause(clauses.is_empty())? {
            clauses.push(clause);
        }
        if clauses.is_empty() {
            return Err(self.unexpected("a clause"));
        }
        Ok(Part { clauses, pos })
    }

    fn clause(&mut self, is_first: bool) -> Result<Option<Clause>> {
        let TokenKind::Word(word) = self.kind() else { return Ok(None) };
        let word = word.to_ascii_uppercase();
        let pos = self.pos();
        Ok(Some(match word.as_str() {
            "MATCH" => Clause::Match(self.match_clause(false)?),
            "OPTIONAL" => {
                self.advance();
                Clause::Match(self.match_clause(true)?)
            }
            "UNWIND" => {
                self.advance();
                let list = self.expression()?;
                self.expect_word("AS")?;
                Clause::Unwind { list, var: self.variable()? }
            }
            "WITH" => Clause::Project(self.projection(false)?),
            "RETURN" => Clause::Project(self.projection(true)?),
            "CREATE" => {
                self.advance();
                let patterns = self.comma_list(|p| p.path_pattern())?;
                Clause::Create { patterns, pos, width: 0 }
            }
            "MERGE" => Clause::Merge(self.merge()?),
            "SET" => {
                self.advance();
                Clause::Set { items: self.comma_list(|p| p.set_item())?, pos }
            }
            "REMOVE" => {
                self.advance();
                Clause::Remove { items: self.comma_list(|p| p.remove_item())?, pos }
            }
            "DETACH" | "DELETE" => {
                let detach = self.take_word("DETACH");
                self.expect_word("DELETE")?;
                let items = self.comma_list(|p| p.expression())?;
                Clause::Delete { detach, items, pos }
            }
            "CALL" => Clause::Call(self.call(is_first)?),
            _ => return Ok(None),
        }))
    }

    fn match_clause(&mut self, optional: bool) -> Result<Match> {
        let pos = self.pos();
        self.expect_word("MATCH")?;
        self.accepts_shortest = true;
        let patterns = self.comma_list(|p| p.path_pattern())?;
        self.accepts_shortest = false;
        let filter = self.filter()?;
        Ok(Match { optional, patterns, filter, pos, before: 0, after: 0 })
    }

    fn filter(&mut self) -> Result<Option<Expr>> {
        match self.take_word("WHERE") {
            true => self.expression().map(Some),
            false => Ok(None),
        }
    }

    fn projection(&mut self, is_return: bool) -> Result<Projection> {
        let pos = self.pos();
        self.advance();
        let distinct = self.take_word("DISTINCT");
        if !distinct && self.is_word("ALL") && !self.sign_after(1, "(") {
            self.advance();
        }
        let mut star = false;
        let mut items = Vec::new();
        if self.take_sign("*") {
            star = true;
            if self.take_sign(",") {
                items = self.comma_list(|p| p.item())?;
            }
        } else {
            items = self.comma_list(|p| p.item())?;
        }
        let mut order = Vec::new();
        if self.is_word("ORDER") {
            self.advance();
            self.expect_word("BY")?;
            order = self.comma_list(|p| p.sort_key())?;
        }
        let mut skip = None;
        if self.take_word("SKIP") || self.take_word("OFFSET") {
            skip = Some(self.expression()?);
        }
        let mut limit = None;
        if self.take_word("LIMIT") {
            limit = Some(self.expression()?);
        }
        let filter = if is_return { None } else { self.filter()? };
        Ok(Projection {
            is_return,
            distinct,
            star,
            items,
            order,
            skip,
            limit,
            filter,
            pos,
            before: 0,
            groups: None,
            filters_wide: false,
        })
    }

    fn item(&mut self) -> Result<Item> {
        let start = self.pos().at();
        let expr = self.expression()?;
        let end = self.tokens[self.at.saturating_sub(1)].end as usize;
        if self.take_word("AS") {
            let name = self.name("a name")?;
            return Ok(Item { expr, name, has_alias: true });
        }
        let name = match &expr.kind {
            Kind::Variable(var) => var.name.clone(),
            _ => self.text[start..end].to_owned(),
        };
        Ok(Item { expr, name, has_alias: false })
    }

    fn sort_key(&mut self) -> Result<SortKey> {
        let expr = self.expression()?;
        let descending = self.take_word("DESC") || self.take_word("DESCENDING");
        if !descending && !self.take_word("ASC") {
            self.take_word("ASCENDING");
        }
        Ok(SortKey { expr, descending })
    }

    fn merge(&mut self) -> Result<Merge> {
        let pos = self.pos();
        self.advance();
        let pattern = self.path_pattern()?;
        let (mut on_create, mut on_match) = (Vec::new(), Vec::new());
        while self.is_word("ON") {
            self.advance();
            let items = match (self.take_word("CREATE"), self.take_word("MATCH")) {
                (true, _) => &mut on_create,
                (_, true) => &mut on_match,
                _ => return Err(self.unexpected("CREATE or MATCH")),
            };
            self.expect_word("SET")?;
            items.extend(self.comma_list(|p| p.set_item())?);
        }
        Ok(Merge { pattern, on_create, on_match, pos, before: 0, after: 0 })
    }

    fn set_item(&mut self) -> Result<SetItem> {
        let target = self.postfix_expression()?;
        if let Kind::HasLabels(element, labels) = target.kind {
            let labels = label_names(&labels).ok_or_else(|| {
                Error::syntax("UnexpectedSyntax", target.pos.at(), "SET takes :A:B")
            })?;
            return Ok(SetItem::Labels { target: *element, labels });
        }
        if self.take_sign("+=") {
            return Ok(SetItem::All { target, value: self.expression()?, adds: true });
        }
        self.expect_sign("=")?;
        let value = self.expression()?;
        match target.kind {
            Kind::Property(element, key) => Ok(SetItem::Property { target: *element, key, value }),
            Kind::Variable(_) => Ok(SetItem::All { target, value, adds: false }),
            _ => {
                let message = "SET takes a property or a variable on the left";
                Err(Error::syntax("UnexpectedSyntax", target.pos.at(), message))
            }
        }
    }

    fn remove_item(&mut self) -> Result<RemoveItem> {
        let target = self.postfix_expression()?;
        match target.kind {
            Kind::Property(element, key) => Ok(RemoveItem::Property { target: *element, key }),
            Kind::HasLabels(element, labels) if label_names(&labels).is_some() => {
                let labels = label_names(&labels).expect("the guard found names");
                Ok(RemoveItem::Labels { target: *element, labels })
            }
            _ => {
                let message = "REMOVE takes a property or labels";
                Err(Error::syntax("UnexpectedSyntax", target.pos.at(), message))
            }
        }
    }

    fn call(&mut self, is_first: bool) -> Result<Call> {
        let pos = self.pos();
        self.advance();
        let mut name = self.name("the name of a procedure")?;
        while self.take_sign(".") {
            name.push('.');
            name.push_str(&self.name("the name of a procedure")?);
        }
        let mut args = None;
        if self.take_sign("(") {
            let mut list = Vec::new();
            if !self.is_sign(")") {
                list = self.comma_list(|p| p.expression())?;
            }
            self.expect_sign(")")?;
            args = Some(list);
        }
        let mut yields = Yield::None;
        let mut filter = None;
        if self.take_word("YIELD") {
            if self.take_sign("*") {
                yields = Yield::Star;
            } else {
                yields = Yield::Items(self.comma_list(|p| p.yield_item())?);
            }
            filter = self.filter()?;
        }
        let is_standalone = is_first
            && (*self.kind() == TokenKind::End
                || (self.is_sign(";") && *self.kind_after(1) == TokenKind::End));
        if !is_standalone && args.is_none() {
            let message = "arguments are given in parentheses where CALL is one of several clauses";
            return Err(Error::syntax("InvalidArgumentPassingMode", pos.at(), message));
        }
        if !is_standalone && yields == Yield::Star {
            let message = "YIELD * is for a CALL that stands alone";
            return Err(Error::syntax("UnexpectedSyntax", pos.at(), message));
        }
        Ok(Call { name, args, yields, filter, pos, is_standalone })
    }

    fn yield_item(&mut self) -> Result<(String, Var)> {
        let mut var = self.variable()?;
        let name = var.name.clone();
        if self.take_word("AS") {
            var = self.variable()?;
        }
        Ok((name, var))
    }
}

/// Names of `:A:B`, of which no other label expression is one.
fn label_names(labels: &LabelExpr) -> Option<Vec<String>> {
    labels.conjunction().map(|names| names.into_iter().map(str::to_owned).collect())
}

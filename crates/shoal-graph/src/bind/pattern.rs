//! Patterns: which elements are bound before, which slots the others take.

use super::{Binder, Type};
use crate::ast::*;
use crate::error::{Error, Result};

impl Binder<'_> {
    pub(super) fn match_clause(&mut self, found: &mut Match) -> Result<()> {
        found.before = self.vars.len();
        let mut seen = Vec::new();
        for pattern in &mut found.patterns {
            self.match_pattern(pattern, found.before, &mut seen)?;
        }
        let mut filters = Vec::new();
        for pattern in &mut found.patterns {
            let PathPattern { start, steps, .. } = pattern;
            self.node_properties(start, found.before, &mut filters)?;
            for (relationship, node) in steps {
                self.relationship_properties(relationship, found.before, &mut filters)?;
                self.node_properties(node, found.before, &mut filters)?;
            }
        }
        if let Some(filter) = &mut found.filter {
            self.condition(filter)?;
        }
        if !filters.is_empty() {
            filters.extend(found.filter.take());
            found.filter = Some(Expr::new(Kind::Logic(LogicOp::And, filters), found.pos));
        }
        found.after = self.vars.len();
        Ok(())
    }

    fn match_pattern(
        &mut self,
        pattern: &mut PathPattern,
        before: usize,
        seen: &mut Vec<usize>,
    ) -> Result<()> {
        if let Some(var) = &pattern.var
            && self.find(&var.name).is_some()
        {
            let message = format!("{} is bound already", var.name);
            return Err(Error::syntax("VariableAlreadyBound", var.pos.at(), message));
        }
        if let Some(var) = &mut pattern.var {
            var.slot = self.push(Some(var.name.clone()), Type::Path);
        }
        self.match_node(&mut pattern.start, before)?;
        for (relationship, node) in &mut pattern.steps {
            self.match_relationship(relationship, before, seen)?;
            self.match_node(node, before)?;
        }
        Ok(())
    }

    /// The slot and kind of a name that the pattern may refer to.
    fn known(&self, name: &str) -> Option<(usize, Type)> {
        if let Some(at) = self.locals.iter().rposition(|(local, _)| local == name) {
            return Some((super::LOCAL + at, self.locals[at].1.clone()));
        }
        if let Some(at) = self.out.iter().position(|(column, _)| column == name) {
            return Some((super::OUT + at, self.out[at].1.clone()));
        }
        self.find(name).map(|slot| (slot, self.vars[slot].kind.clone()))
    }

    fn match_node(&mut self, node: &mut NodePattern, before: usize) -> Result<()> {
        let name = node.var.as_ref().map(|var| var.name.clone());
        if let Some(var) = &mut node.var
            && let Some((slot, kind)) = self.known(&var.name)
        {
            if !kind.may_be(&[Type::Node]) {
                return Err(conflict(var, "a node"));
            }
            (node.slot, var.slot) = (slot, slot);
            node.is_bound = slot < before || slot >= super::OUT;
            return Ok(());
        }
        node.slot = self.push(name, Type::Node);
        if let Some(var) = &mut node.var {
            var.slot = node.slot;
        }
        Ok(())
    }

    fn match_relationship(
        &mut self,
        one: &mut RelPattern,
        before: usize,
        seen: &mut Vec<usize>,
    ) -> Result<()> {
        let kind = match one.length {
            Some(_) => Type::list_of(Type::Relationship),
            None => Type::Relationship,
        };
        let name = one.var.as_ref().map(|var| var.name.clone());
        if let Some(var) = &mut one.var
            && let Some((slot, found)) = self.known(&var.name)
        {
            let fits = match one.length {
                Some(_) => found.may_be(&[kind, Type::list_of(Type::Any)]),
                None => found.may_be(&[kind]),
            };
            if !fits {
                return Err(conflict(var, "a relationship"));
            }
            if seen.contains(&slot) {
                let message = format!(
                    "{} stands twice in one MATCH, which uses no relationship twice",
                    var.name
                );
                return Err(Error::syntax(
                    "RelationshipUniquenessViolation",
                    var.pos.at(),
                    message,
                ));
            }
            seen.push(slot);
            (one.slot, var.slot) = (slot, slot);
            one.is_bound = slot < before || slot >= super::OUT;
            return Ok(());
        }
        one.slot = self.push(name, kind);
        seen.push(one.slot);
        if let Some(var) = &mut one.var {
            var.slot = one.slot;
        }
        Ok(())
    }

    fn node_properties(
        &mut self,
        node: &mut NodePattern,
        before: usize,
        filters: &mut Vec<Expr>,
    ) -> Result<()> {
        self.element_filter(node.filter.take(), filters)?;
        let moved = self.properties(&mut node.properties, before)?;
        add_equalities(moved, node.slot, node.pos, filters);
        Ok(())
    }

    fn relationship_properties(
        &mut self,
        one: &mut RelPattern,
        before: usize,
        filters: &mut Vec<Expr>,
    ) -> Result<()> {
        if let Some(filter) = &one.filter
            && one.length.is_some()
        {
            let message = "WHERE within a variable-length relationship is not supported";
            return Err(Error::syntax("UnexpectedSyntax", filter.pos.at(), message));
        }
        self.element_filter(one.filter.take(), filters)?;
        let moved = self.properties(&mut one.properties, before)?;
        if moved.is_some() && one.length.is_some() {
            let message = "properties of a variable-length relationship read only variables of earlier clauses";
            return Err(Error::syntax("UnexpectedSyntax", one.pos.at(), message));
        }
        add_equalities(moved, one.slot, one.pos, filters);
        Ok(())
    }

    fn element_filter(&mut self, filter: Option<Box<Expr>>, filters: &mut Vec<Expr>) -> Result<()> {
        if let Some(mut filter) = filter {
            self.condition(&mut filter)?;
            filters.push(*filter);
        }
        Ok(())
    }

    /// Binds properties of a pattern; takes those out that read variables of the same clause.
    fn properties(&mut self, properties: &mut Option<Expr>, before: usize) -> Result<Option<Expr>> {
        let Some(map) = properties else { return Ok(None) };
        if matches!(map.kind, Kind::Parameter(_)) {
            let message = "MATCH and MERGE take properties as {key: value}, not as a parameter";
            return Err(Error::syntax("InvalidParameterUse", map.pos.at(), message));
        }
        self.plain(map)?;
        let mut reads_own = super::visit::has_subquery(map);
        super::visit::slots(map, &mut |slot| reads_own |= slot >= before && slot < super::OUT);
        Ok(if reads_own { properties.take() } else { None })
    }

    /// Binds a path that is created; `merges` where it may exist already.
    pub(super) fn create_pattern(&mut self, pattern: &mut PathPattern, merges: bool) -> Result<()> {
        if pattern.shortest != Shortest::No {
            let message = "shortest paths are for MATCH";
            return Err(Error::syntax("UnexpectedSyntax", pattern.pos.at(), message));
        }
        if let Some(var) = &pattern.var
            && self.find(&var.name).is_some()
        {
            return Err(already_bound(var));
        }
        let is_alone = pattern.steps.is_empty();
        let before = self.vars.len();
        self.create_node(&mut pattern.start, is_alone, merges, before)?;
        for (relationship, node) in &mut pattern.steps {
            self.create_relationship(relationship, merges, before)?;
            self.create_node(node, false, merges, before)?;
        }
        if let Some(var) = &mut pattern.var {
            var.slot = self.push(Some(var.name.clone()), Type::Path);
        }
        Ok(())
    }

    fn created_properties(&mut self, properties: &mut Option<Expr>, merges: bool) -> Result<()> {
        let Some(map) = properties else { return Ok(()) };
        if merges && matches!(map.kind, Kind::Parameter(_)) {
            let message = "MATCH and MERGE take properties as {key: value}, not as a parameter";
            return Err(Error::syntax("InvalidParameterUse", map.pos.at(), message));
        }
        self.plain(map).map(drop)
    }

    fn create_node(
        &mut self,
        node: &mut NodePattern,
        is_alone: bool,
        merges: bool,
        before: usize,
    ) -> Result<()> {
        if let Some(filter) = &node.filter {
            let message = "what is created has no WHERE";
            return Err(Error::syntax("UnexpectedSyntax", filter.pos.at(), message));
        }
        if let Some(labels) = &node.labels
            && labels.conjunction().is_none()
        {
            let message = "labels of what is created are written :A:B";
            return Err(Error::syntax("UnexpectedSyntax", node.pos.at(), message));
        }
        self.created_properties(&mut node.properties, merges)?;
        if let Some(var) = &mut node.var
            && let Some(slot) = self.find(&var.name)
        {
            if !self.vars[slot].kind.may_be(&[Type::Node]) {
                return Err(if is_alone { already_bound(var) } else { conflict(var, "a node") });
            }
            if is_alone || node.labels.is_some() || node.properties.is_some() {
                return Err(already_bound(var));
            }
            (node.slot, var.slot) = (slot, slot);
            // The slot has a value unless an earlier part of the same pattern creates the node.
            node.is_bound = !merges || slot < before;
            return Ok(());
        }
        node.slot = self.push(node.var.as_ref().map(|var| var.name.clone()), Type::Node);
        if let Some(var) = &mut node.var {
            var.slot = node.slot;
        }
        Ok(())
    }

    fn create_relationship(
        &mut self,
        one: &mut RelPattern,
        merges: bool,
        _before: usize,
    ) -> Result<()> {
        let at = one.pos.at();
        if one.length.is_some() {
            return Err(Error::syntax(
                "CreatingVarLength",
                at,
                "a relationship of variable length is not created",
            ));
        }
        if let Some(filter) = &one.filter {
            let message = "what is created has no WHERE";
            return Err(Error::syntax("UnexpectedSyntax", filter.pos.at(), message));
        }
        if !matches!(one.types, Some(LabelExpr::Name(_))) {
            let message = "a relationship is created with one type";
            return Err(Error::syntax("NoSingleRelationshipType", at, message));
        }
        if one.direction == Direction::Both && !merges {
            let message = "a relationship is created with a direction";
            return Err(Error::syntax("RequiresDirectedRelationship", at, message));
        }
        self.created_properties(&mut one.properties, merges)?;
        if let Some(var) = &one.var
            && self.find(&var.name).is_some()
        {
            return Err(already_bound(var));
        }
        one.slot = self.push(one.var.as_ref().map(|var| var.name.clone()), Type::Relationship);
        if let Some(var) = &mut one.var {
            var.slot = one.slot;
        }
        Ok(())
    }
}

/// Properties that became conditions: `{a: x}` is `n.a = x`.
fn add_equalities(map: Option<Expr>, slot: usize, pos: Pos, filters: &mut Vec<Expr>) {
    let Some(Expr { kind: Kind::Map(fields), .. }) = map else { return };
    for (key, value) in fields {
        let var = Var { name: String::new(), slot, pos };
        let element = Expr::new(Kind::Variable(var), pos);
        let property = Expr::new(Kind::Property(Box::new(element), key), pos);
        filters.push(Expr::new(
            Kind::Compare(Box::new(property), vec![(CompareOp::Equal, value)]),
            pos,
        ));
    }
}

fn conflict(var: &Var, wanted: &str) -> Error {
    let message = format!("{} is bound to another kind of value than {wanted}", var.name);
    Error::syntax("VariableTypeConflict", var.pos.at(), message)
}

fn already_bound(var: &Var) -> Error {
    Error::syntax("VariableAlreadyBound", var.pos.at(), format!("{} is bound already", var.name))
}

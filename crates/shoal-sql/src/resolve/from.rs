//! `FROM`: tables, views, common tables and queries become numbered sources.

use super::collation::{Coll, compare_affinity};
use super::merge::{merge_query, mergeable, unique_name};
use super::scope::{Clause, Found, ScopeColumn, ScopeTable};
use super::tree::{
    Body, CompareOp, Comparison, Expr, IndexHint, OrderKey, OutputColumn, Query, Select, Source,
    SourceKind,
};
use super::{Resolver, no_such_collation, scope_table};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{self, Indexed, JoinConstraint, JoinKind, Name, ObjectName, TableRefKind};
use crate::schema::Object;

/// A `FROM` with its names, before the conditions are resolved.
#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    pub(super) sources: Vec<Source>,
    pub(super) tables: Vec<ScopeTable<'a>>,
    /// Conditions still to be resolved, each with the number of tables when it was met and the
    /// place in `sources` whose left join it belongs to.
    conditions: Vec<Condition<'a>>,
    /// Conditions of queries that were merged into this one.
    pub(super) merged: Vec<Expr>,
    /// Whether such a query depends on the row of an enclosing query.
    pub(super) correlated: bool,
    /// How many tables of the clause are still to come.
    remaining: usize,
}

#[derive(Debug)]
struct Condition<'a> {
    kind: ConditionKind<'a>,
    left_join: Option<usize>,
}

#[derive(Debug)]
enum ConditionKind<'a> {
    On(&'a ast::Expr),
    /// A column of the tables up to `tables` equals one of the table there.
    Equal {
        name: Name,
        left: (usize, usize),
        right: (usize, usize),
    },
}

/// The tables one query may join, as in SQLite.
pub(super) const JOIN_MAX: usize = 64;

impl<'a> Resolver<'a> {
    pub(super) fn joined(&mut self, from: &'a ast::From) -> Result<Joined<'a>, Error> {
        let mut joined = Joined { remaining: table_count(from), ..Joined::default() };
        self.add_join_tree(from, &mut joined)?;
        if joined.sources.len() > JOIN_MAX {
            return Err(Error::meaning(
                format!("at most {JOIN_MAX} tables in a join"),
                from.first.offset,
            ));
        }
        Ok(joined)
    }

    fn add_join_tree(&mut self, from: &'a ast::From, joined: &mut Joined<'a>) -> Result<(), Error> {
        self.add_table(&from.first, false, joined)?;
        for join in &from.joins {
            let left = match join.kind {
                JoinKind::Inner | JoinKind::Cross => false,
                JoinKind::Left => true,
                JoinKind::Right => {
                    return Err(Error::unsupported("RIGHT JOIN", join.table.offset));
                }
                JoinKind::Full => {
                    return Err(Error::unsupported("FULL JOIN", join.table.offset));
                }
            };
            let first_source = joined.sources.len();
            let first_table = joined.tables.len();
            self.add_table(&join.table, left, joined)?;
            if join.kind == JoinKind::Cross
                && let Some(source) = joined.sources.get_mut(first_source)
            {
                source.fixed = true;
            }
            let left_join = left.then_some(first_source);
            let names = match &join.constraint {
                JoinConstraint::Using(names) => names.clone(),
                _ if join.natural => natural_names(joined, first_table),
                JoinConstraint::On(expr) => {
                    joined.conditions.push(Condition { kind: ConditionKind::On(expr), left_join });
                    continue;
                }
                JoinConstraint::None => continue,
            };
            for name in names {
                merge(joined, first_table, &name, left_join)?;
            }
        }
        Ok(())
    }

    fn add_table(
        &mut self,
        table: &'a ast::TableRef,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let alias = table.alias.as_ref().map(|alias| alias.text.clone());
        let count = match &table.kind {
            TableRefKind::Joined(_) if !nullable && alias.is_none() => 0,
            TableRefKind::Joined(from) => table_count(from),
            _ => 1,
        };
        joined.remaining = joined.remaining.saturating_sub(count);
        match &table.kind {
            TableRefKind::Call { name } => Err(Error::unsupported(
                format!("table-valued function {}", name.name.text),
                table.offset,
            )),
            TableRefKind::Joined(from) if !nullable && table.alias.is_none() => {
                self.add_join_tree(from, joined)
            }
            TableRefKind::Joined(from) => self.add_nested(from, alias, nullable, joined),
            TableRefKind::Select(select) => {
                let query = self.resolve_select(select)?;
                self.add_query(query, alias.unwrap_or_default(), nullable, joined)
            }
            TableRefKind::Table { name, indexed } => {
                self.add_named(name, indexed, alias, table.offset, nullable, joined)
            }
        }
    }

    fn add_named(
        &mut self,
        name: &'a ObjectName,
        indexed: &'a Indexed,
        alias: Option<String>,
        offset: usize,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let plain = name.name.text.as_str();
        if name.database.is_none()
            && let Some(query) = self.common_table(plain, offset)?
        {
            return self.add_query(
                query,
                alias.unwrap_or_else(|| plain.to_owned()),
                nullable,
                joined,
            );
        }
        match self.object(name)? {
            Object::Table(table) => {
                let source = self.new_source()?;
                let shown = alias.unwrap_or_else(|| table.name.clone());
                let index_hint = match indexed {
                    Indexed::Any => IndexHint::Any,
                    Indexed::Not => IndexHint::None,
                    Indexed::By(index) => {
                        if !table.indexes.iter().any(|known| index.is(&known.name)) {
                            return Err(Error::no_such(NameKind::Index, &index.text, index.offset));
                        }
                        IndexHint::Only(index.text.clone())
                    }
                };
                let mut names = scope_table(table, source, shown.clone());
                names.nullable = nullable;
                joined.tables.push(names);
                joined.sources.push(Source {
                    id: source,
                    kind: SourceKind::Table(table.clone()),
                    left_join: nullable.then(Vec::new),
                    fixed: false,
                    index_hint,
                    name: shown,
                });
                Ok(())
            }
            Object::View(view) => {
                let query = self.view(view, offset)?;
                self.add_query(query, alias.unwrap_or_else(|| view.name.clone()), nullable, joined)
            }
            Object::Virtual { module, .. } => {
                Err(Error::unsupported(format!("virtual table {plain} using {module}"), offset))
            }
            Object::Damaged { name, why } => {
                Err(Error::Schema { object: name.clone(), why: why.clone() })
            }
        }
    }

    /// Finds what a name of a table, view or virtual table stands for.
    fn object(&self, name: &ObjectName) -> Result<&'a Object, Error> {
        let known_database = name.database.as_ref().is_none_or(|database| database.is("main"));
        let found = if known_database { self.schema.object(&name.name.text) } else { None };
        found.ok_or_else(|| {
            let (offset, text) = match &name.database {
                Some(database) => {
                    (database.offset, format!("{}.{}", database.text, name.name.text))
                }
                None => (name.name.offset, name.name.text.clone()),
            };
            Error::no_such(NameKind::Table, &text, offset)
        })
    }

    fn common_table(&mut self, name: &'a str, offset: usize) -> Result<Option<Query>, Error> {
        if self.expanding.iter().any(|open| open.eq_ignore_ascii_case(name)) {
            return Err(Error::unsupported("recursive common table expression", offset));
        }
        let Some(index) = self.common.iter().rposition(|table| table.name.is(name)) else {
            return Ok(None);
        };
        let table = self.common[index];
        let later = self.common.split_off(index);
        let scopes = std::mem::take(&mut self.scopes);
        self.expanding.push(&table.name.text);
        let query = self.resolve_select(&table.select);
        self.expanding.pop();
        self.scopes = scopes;
        self.common.extend(later);
        let mut query = query?;
        if !table.columns.is_empty() {
            rename(&mut query, &table.columns, &table.name.text, offset)?;
        }
        Ok(Some(query))
    }

    fn view(&mut self, view: &'a crate::schema::View, offset: usize) -> Result<Query, Error> {
        if self.views.iter().any(|open| open.eq_ignore_ascii_case(&view.name)) {
            let message = format!("view {} is circularly defined", view.name);
            return Err(Error::meaning(message, offset));
        }
        let scopes = std::mem::take(&mut self.scopes);
        let common = std::mem::take(&mut self.common);
        let expanding = std::mem::take(&mut self.expanding);
        self.views.push(&view.name);
        let query = self.resolve_select(&view.select);
        self.views.pop();
        self.scopes = scopes;
        self.common = common;
        self.expanding = expanding;
        let mut query = query.map_err(|error| error.at(offset))?;
        if let Some(columns) = &view.columns {
            rename(&mut query, columns, &view.name, offset)?;
        }
        Ok(query)
    }

    fn add_query(
        &mut self,
        query: Query,
        name: String,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let query = match mergeable(query, nullable, joined.sources.len() + joined.remaining) {
            Ok((select, columns, correlated)) => {
                joined.correlated |= correlated;
                merge_query(select, &columns, name, joined);
                return Ok(());
            }
            Err(query) => *query,
        };
        let source = self.new_source()?;
        let mut columns: Vec<ScopeColumn> = Vec::with_capacity(query.columns.len());
        for (index, column) in query.columns.iter().enumerate() {
            columns.push(ScopeColumn {
                name: unique_name(&columns, &column.inner_name),
                expr: Expr::Column { source, column: index },
                affinity: column.affinity,
                // A column of a query always has one of its own.
                collation: Ok(Coll::Column(column.collation.or_binary())),
                declared_type: column.declared_type.clone(),
                merged: false,
            });
        }
        joined.tables.push(ScopeTable {
            name: name.clone(),
            columns,
            rowid: None,
            table: None,
            nullable,
        });
        joined.sources.push(Source {
            id: source,
            kind: SourceKind::Query(Box::new(query)),
            left_join: nullable.then(Vec::new),
            fixed: false,
            index_hint: IndexHint::Any,
            name,
        });
        Ok(())
    }

    /// A parenthesised join as one source: a query of all its columns, whose table names stay
    /// usable from outside.
    fn add_nested(
        &mut self,
        from: &'a ast::From,
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let inner = self.joined(from)?;
        let tables = inner.tables.clone();
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        let mut outer_tables = Vec::new();
        let source = self.new_source()?;
        for table in &tables {
            let mut outer = ScopeTable {
                name: alias.clone().unwrap_or_else(|| table.name.clone()),
                columns: Vec::new(),
                rowid: None,
                table: None,
                nullable,
            };
            for (place, column) in table.columns.iter().enumerate() {
                if is_virtual(table, place) {
                    return Err(Error::unsupported(
                        "virtual column in a parenthesised join",
                        from.first.offset,
                    ));
                }
                let collation = match &column.collation {
                    Ok(collation) => *collation,
                    Err(name) => return Err(no_such_collation(name, from.first.offset)),
                };
                outer.columns.push(ScopeColumn {
                    expr: Expr::Column { source, column: outputs.len() },
                    ..column.clone()
                });
                outputs.push(column.expr.clone());
                columns.push(OutputColumn {
                    name: column.name.clone(),
                    inner_name: column.name.clone(),
                    affinity: column.affinity,
                    collation,
                    declared_type: column.declared_type.clone(),
                });
            }
            outer_tables.push(outer);
        }
        let select = self.new_select();
        self.scopes.push(super::scope::Scope {
            select,
            sources: inner.sources.iter().map(|source| source.id).collect(),
            tables: inner.tables.clone(),
            results: &[],
            clause: Clause::From,
            aggregates: Vec::new(),
            correlated: false,
        });
        let inner_correlated = inner.is_correlated();
        let (sources, conjuncts) = self.conditions(inner)?;
        let correlated =
            self.scopes.pop().is_some_and(|scope| scope.correlated) || inner_correlated;
        let query = Query {
            body: Body::Select(Box::new(Select {
                id: select,
                sources,
                conjuncts,
                group_by: None,
                aggregates: Vec::new(),
                having: None,
                outputs,
                distinct: None,
            })),
            as_expression: first_rules(&columns),
            columns,
            order_by: Vec::<OrderKey>::new(),
            limit: None,
            offset: None,
            correlated,
        };
        joined.tables.extend(outer_tables);
        joined.sources.push(Source {
            id: source,
            kind: SourceKind::Query(Box::new(query)),
            left_join: nullable.then(Vec::new),
            fixed: false,
            index_hint: IndexHint::Any,
            name: alias.unwrap_or_default(),
        });
        Ok(())
    }

    /// Resolves the conditions of a `FROM` whose tables are the innermost scope.
    pub(super) fn conditions(
        &mut self,
        joined: Joined<'a>,
    ) -> Result<(Vec<Source>, Vec<Expr>), Error> {
        let Joined { mut sources, conditions, merged, .. } = joined;
        let mut conjuncts = merged;
        for condition in conditions {
            let mut found = Vec::new();
            match condition.kind {
                ConditionKind::On(expr) => {
                    let bound = self.bind_expr(expr)?;
                    if let Some(place) = condition.left_join {
                        let later: Vec<_> =
                            sources[place + 1..].iter().map(|source| source.id).collect();
                        let mut reads_later = false;
                        bound.columns(&mut |source, _| reads_later |= later.contains(&source));
                        if reads_later {
                            return Err(Error::unsupported(
                                "ON clause that references a table to its right",
                                expr.offset,
                            ));
                        }
                    }
                    split_and(bound, &mut found);
                }
                ConditionKind::Equal { name, left, right } => {
                    found.push(self.equal(&name, left, right)?);
                }
            }
            match condition.left_join {
                Some(place) => {
                    if let Some(on) = &mut sources[place].left_join {
                        on.extend(found);
                    }
                }
                None => conjuncts.extend(found),
            }
        }
        Ok((sources, conjuncts))
    }

    fn equal(
        &mut self,
        name: &Name,
        left: (usize, usize),
        right: (usize, usize),
    ) -> Result<Expr, Error> {
        let depth = self.scopes.len() - 1;
        let found = |(table, column)| Found::Column { depth, table, column };
        let left = self.found(found(left), name.offset)?;
        let right = self.found(found(right), name.offset)?;
        let rule = Comparison {
            op: CompareOp::Equal,
            affinity: compare_affinity(left.affinity, right.affinity),
            collation: left.collation.compare_with(right.collation),
        };
        Ok(Expr::Compare(rule, Box::new(left.expr), Box::new(right.expr)))
    }

    /// The rows of a table or view as a query: what `IN table` looks in.
    pub(super) fn whole_table(&mut self, name: &'a ObjectName) -> Result<Query, Error> {
        let mut joined = Joined::default();
        let offset = name.database.as_ref().unwrap_or(&name.name).offset;
        self.add_named(name, &Indexed::Any, None, offset, false, &mut joined)?;
        let table = &joined.tables[0];
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            if is_virtual(table, place) {
                return Err(Error::unsupported("virtual column after IN", offset));
            }
            outputs.push(column.expr.clone());
            columns.push(OutputColumn {
                name: column.name.clone(),
                inner_name: column.name.clone(),
                affinity: column.affinity,
                collation: column.collation.clone().unwrap_or(Coll::None),
                declared_type: column.declared_type.clone(),
            });
        }
        let id = self.new_select();
        Ok(Query {
            body: Body::Select(Box::new(Select {
                id,
                sources: joined.sources,
                conjuncts: joined.merged,
                group_by: None,
                aggregates: Vec::new(),
                having: None,
                outputs,
                distinct: None,
            })),
            as_expression: first_rules(&columns),
            columns,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            correlated: false,
        })
    }
}

fn is_virtual(table: &ScopeTable<'_>, place: usize) -> bool {
    table.table.is_some_and(|table| {
        table.columns[place].stored.is_none() && table.columns[place].generated.is_some()
    })
}

impl Joined<'_> {
    /// Whether any part depends on the row of an enclosing query.
    pub(super) fn is_correlated(&self) -> bool {
        self.correlated
            || self.sources.iter().any(|source| match &source.kind {
                SourceKind::Query(query) => query.correlated,
                SourceKind::Table(_) => false,
            })
    }
}

/// How many tables and queries a `FROM` names.
fn table_count(from: &ast::From) -> usize {
    let count = |table: &ast::TableRef| match &table.kind {
        TableRefKind::Joined(from) => table_count(from),
        _ => 1,
    };
    count(&from.first) + from.joins.iter().map(|join| count(&join.table)).sum::<usize>()
}

/// Splits a condition at its `AND`s.
pub(super) fn split_and(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::And(left, right) => {
            split_and(*left, out);
            split_and(*right, out);
        }
        Expr::Between { expr, not: false, low, high } => {
            // Two conditions, of which the second need not be evaluated, where that is free.
            let Some(copy) = expr.copied() else {
                out.push(Expr::Between { expr, not: false, low, high });
                return;
            };
            out.push(Expr::Compare(low.0, Box::new(copy), low.1));
            out.push(Expr::Compare(high.0, expr, high.1));
        }
        other => out.push(other),
    }
}

/// The names that the tables from `first_table` on share with those before.
fn natural_names(joined: &Joined<'_>, first_table: usize) -> Vec<Name> {
    let (left, right) = joined.tables.split_at(first_table);
    let known = |name: &str| {
        left.iter()
            .flat_map(|table| &table.columns)
            .any(|column| !column.merged && column.name.eq_ignore_ascii_case(name))
    };
    right
        .iter()
        .flat_map(|table| &table.columns)
        .filter(|column| known(&column.name))
        .map(|column| Name { text: column.name.clone(), offset: 0, quote: ast::Quote::None })
        .collect()
}

/// Makes a column of the tables from `first_table` on one with the first of that name before.
fn merge(
    joined: &mut Joined<'_>,
    first_table: usize,
    name: &Name,
    left_join: Option<usize>,
) -> Result<(), Error> {
    let place = |tables: &[ScopeTable<'_>], base: usize| {
        tables.iter().enumerate().find_map(|(table, names)| {
            names
                .columns
                .iter()
                .position(|column| !column.merged && name.is(&column.name))
                .map(|column| (base + table, column))
        })
    };
    let (left, right) = joined.tables.split_at(first_table);
    let (Some(left), Some(right)) = (place(left, 0), place(right, first_table)) else {
        return Err(Error::Name {
            kind: NameKind::Column,
            message: format!(
                "cannot join using column {} - column not present in both tables",
                name.text
            ),
            offset: Some(name.offset),
        });
    };
    joined.tables[right.0].columns[right.1].merged = true;
    joined.conditions.push(Condition {
        kind: ConditionKind::Equal { name: name.clone(), left, right },
        left_join,
    });
    Ok(())
}

fn rename(query: &mut Query, names: &[Name], of: &str, offset: usize) -> Result<(), Error> {
    if names.len() != query.columns.len() {
        return Err(Error::meaning(
            format!("expected {} columns for '{of}' but got {}", names.len(), query.columns.len()),
            offset,
        ));
    }
    for (column, name) in query.columns.iter_mut().zip(names) {
        column.name.clone_from(&name.text);
        column.inner_name.clone_from(&name.text);
    }
    Ok(())
}

/// Affinity and collation of a query's first column.
pub(super) fn first_rules(columns: &[OutputColumn]) -> (Option<crate::value::Affinity>, Coll) {
    columns.first().map_or((None, Coll::None), |column| (column.affinity, column.collation))
}

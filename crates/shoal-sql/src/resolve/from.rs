//! `FROM`: tables, views, common tables and queries become numbered sources.

use super::collation::{Coll, compare_affinity};
use super::expr::Bound;
use super::merge::{merge_query, mergeable, merges, query_column, shared, unique};
use super::recursion::Common;
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::select::ANY_CLASS;
use super::tree::{
    Body, Expr, IndexHint, OutputColumn, Query, Select, Source, SourceId, SourceJoin, SourceKind,
};
use super::{Resolver, SelectId, scope_table};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{self, Indexed, JoinConstraint, JoinKind, Name, ObjectName, TableRefKind};
use crate::schema::{Object, TEMP};
use crate::value::{CompareOp, Comparison};

/// A `FROM` with its names, before the conditions are resolved.
#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    pub(super) sources: Vec<Source>,
    pub(super) tables: Vec<ScopeTable<'a>>,
    /// Conditions still to be resolved.
    conditions: Vec<Condition<'a>>,
    /// Conditions of queries merged into this one.
    pub(super) merged: Vec<Expr>,
    /// True where a merged query depends on the row of an enclosing query.
    pub(super) correlated: bool,
    /// Functions whose arguments name tables to their right, by their place in `sources`.
    pub(super) late: Vec<(usize, &'a [ast::Expr])>,
    /// Number of the clause's tables still to come.
    remaining: usize,
    /// True where the clause has a `RIGHT` or `FULL` join: rows of every source may be unmatched.
    keeps_right: bool,
}

#[derive(Debug)]
struct Condition<'a> {
    kind: ConditionKind<'a>,
    /// The source whose join the condition belongs to; `None` for a plain filter.
    of: Option<usize>,
}

/// A column and the columns merged with it, by table and column.
#[derive(Clone, Debug)]
struct Merged {
    first: (usize, usize),
    others: Vec<(usize, usize)>,
}

#[derive(Debug)]
enum ConditionKind<'a> {
    On(&'a ast::Expr),
    /// A column of the tables up to `tables` equals one of the table there.
    Equal {
        name: Name,
        left: Merged,
        right: Merged,
    },
}

/// The tables one query may join, as in SQLite.
pub(super) const JOIN_MAX: usize = 64;

impl<'a> Resolver<'a> {
    pub(super) fn joined(&mut self, from: &'a ast::From) -> Result<Joined<'a>, Error> {
        let mut joined = Joined {
            remaining: table_count(from),
            keeps_right: keeps_right(from),
            ..Joined::default()
        };
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
            let (keeps_left, keeps_right) = match join.kind {
                JoinKind::Inner | JoinKind::Cross => (false, false),
                JoinKind::Left => (true, false),
                JoinKind::Right => (false, true),
                JoinKind::Full => (true, true),
            };
            let first_source = joined.sources.len();
            let first_table = joined.tables.len();
            self.add_table(&join.table, keeps_left || keeps_right, joined)?;
            let attached = keeps_left || keeps_right || joined.keeps_right;
            if let Some(source) = joined.sources.get_mut(first_source) {
                source.fixed |= join.kind == JoinKind::Cross;
                if attached {
                    source.join = Some(SourceJoin { on: Vec::new(), keeps_left, keeps_right });
                }
            }
            let of = attached.then_some(first_source);
            let names = match &join.constraint {
                JoinConstraint::Using(names) => names.clone(),
                _ if join.natural => natural_names(joined, first_table),
                JoinConstraint::On(expr) => {
                    joined.conditions.push(Condition { kind: ConditionKind::On(expr), of });
                    continue;
                }
                JoinConstraint::None => continue,
            };
            for name in names {
                merge(joined, (first_table, join.kind), &name, of)?;
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
        let nullable = nullable || joined.keeps_right;
        let alias = table.alias.as_ref().map(|alias| alias.text.clone());
        let count = match &table.kind {
            TableRefKind::Joined(from) if flat(from, nullable, &alias, joined) => 0,
            TableRefKind::Joined(from) => table_count(from),
            _ => 1,
        };
        joined.remaining = joined.remaining.saturating_sub(count);
        match &table.kind {
            TableRefKind::Call { name, arguments } => {
                self.add_function(name, arguments, alias, nullable, joined)
            }
            TableRefKind::Past { name, point, value } => {
                self.add_past((name, *point), value, alias, nullable, joined)
            }
            TableRefKind::Joined(from) if flat(from, nullable, &alias, joined) => {
                let first = joined.tables.len();
                self.add_join_tree(from, joined)?;
                if first > 0 {
                    show_unique(&mut joined.tables[first..]);
                }
                Ok(())
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
        if name.database.is_none() {
            let shown = alias.clone().unwrap_or_else(|| plain.to_owned());
            match self.common_table(plain, offset)? {
                Some(Common::Query(query, slot)) => {
                    let others = (joined.sources.len(), joined.sources.len() + joined.remaining);
                    let query = match slot {
                        // An order alone keeps no query apart in SQLite.
                        Some(slot)
                            if self.is_materialized(slot) || !merges(&query, others, true) =>
                        {
                            shared(*query, slot)
                        }
                        _ => *query,
                    };
                    refuse_index(indexed)?;
                    return self.add_query(query, shown, nullable, joined);
                }
                Some(Common::Taken(slot, columns)) => {
                    // A recursion's taken row has no index; a hint fails as in SQLite, when
                    // planned.
                    if let Indexed::By(index) = indexed {
                        return Err(Error::meaning("no query solution", index.offset));
                    }
                    let source = self.new_source()?;
                    add_columns(source, SourceKind::Taken(slot), &columns, shown, nullable, joined);
                    return Ok(());
                }
                None => {}
            }
        }
        let temporary = name.database.as_ref().is_none_or(|database| database.is("temp"));
        if temporary
            && self.home.is_none()
            && let Some(module) = self.schema.registered_table(plain)
        {
            refuse_index(indexed)?;
            return self.add_registered(module, alias, nullable, joined);
        }
        let found = self.object(name);
        if found.is_err() && self.schema.module(plain).is_some() {
            refuse_index(indexed)?;
            return self.add_function(name, &[], alias, nullable, joined);
        }
        let (database, object) = found?;
        match object {
            Object::Table(table) => {
                let source = self.new_source()?;
                self.note_source(table, name, alias.as_ref().map(|_| source));
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
                self.authorize_table(table)?;
                let mut names = scope_table(table, source, shown.clone());
                names.nullable = nullable;
                let indexed = self.index_meanings(table, &names);
                joined.tables.push(names);
                let kind = SourceKind::Table(table.clone());
                let source = Source::new(source, kind, shown);
                joined.sources.push(Source { index_hint, indexed, ..source });
                Ok(())
            }
            Object::View(view) => {
                let query = self.view(view, database, offset)?;
                refuse_index(indexed)?;
                self.add_query(query, alias.unwrap_or_else(|| view.name.clone()), nullable, joined)
            }
            Object::Virtual(definition) => {
                refuse_index(indexed)?;
                let table =
                    definition.connect(self.schema, database).map_err(|it| it.at(offset))?;
                self.note_source(&table.table, name, None);
                self.add_virtual(table, &[], alias, nullable, joined)
            }
            Object::Narrowed(table) => {
                refuse_index(indexed)?;
                match self.searched(table).map_err(|it| it.at(offset))? {
                    Some(found) => self.add_searched(table, found, &[], alias, nullable, joined),
                    None => self.add_narrowed(table, alias, nullable, joined),
                }
            }
            Object::Damaged { name, why } => {
                Err(Error::Schema { object: name.clone(), why: why.clone() })
            }
        }
    }

    /// Finds the table, view or virtual table called `name`, and its database.
    fn object(&self, name: &ObjectName) -> Result<(usize, &'a Object), Error> {
        let found = match &name.database {
            None => self.schema.find(self.home, &name.name.text),
            Some(database) => self
                .schema
                .database(&database.text)
                .and_then(|number| self.schema.find(Some(number), &name.name.text)),
        };
        found.ok_or_else(|| {
            let (offset, text) = match &name.database {
                Some(database) => {
                    (database.offset, format!("{}.{}", database.text, name.name.text))
                }
                // A trigger's names are looked up in its own database; `temp`'s in all databases.
                None if self.home.is_some()
                    && (self.names.is_some()
                        || self.around.in_trigger && self.views.is_empty()) =>
                {
                    let home = self.schema.database_name(self.home.unwrap_or_default());
                    (name.name.offset, format!("{home}.{}", name.name.text))
                }
                None => (name.name.offset, name.name.text.clone()),
            };
            Error::no_such(NameKind::Table, &text, offset)
        })
    }

    fn view(
        &mut self,
        view: &'a crate::schema::View,
        database: usize,
        offset: usize,
    ) -> Result<Query, Error> {
        let is =
            |open: &(usize, &str)| open.0 == database && open.1.eq_ignore_ascii_case(&view.name);
        if self.views.iter().any(is) {
            let message = format!("view {} is circularly defined", view.name);
            return Err(Error::meaning(message, offset));
        }
        let scopes = std::mem::take(&mut self.scopes);
        let common = std::mem::take(&mut self.common);
        let expanding = std::mem::take(&mut self.expanding);
        // A view in `temp` may name objects of any database.
        let inner = Some(database).filter(|database| *database != TEMP);
        let home = std::mem::replace(&mut self.home, inner);
        self.views.push((database, &view.name));
        let query = self.resolve_select(&view.select);
        self.views.pop();
        self.home = home;
        self.scopes = scopes;
        self.common = common;
        self.expanding = expanding;
        let mut query = query.map_err(|error| error.at(offset))?;
        // A view's columns are called as the tables' are.
        query.columns.iter_mut().for_each(|column| column.written = None);
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
        // A column of a query has a collation of its own, and an unknown one is refused.
        self.collations(&query.columns)?;
        let before = joined.sources.len();
        let query = match mergeable(query, nullable, (before, before + joined.remaining)) {
            Ok((select, columns, correlated)) => {
                joined.correlated |= correlated;
                merge_query(select, &columns, name, joined);
                return Ok(());
            }
            Err(query) => *query,
        };
        let source = self.new_source()?;
        let columns = query.columns.clone();
        let kind = SourceKind::Query(Box::new(query));
        add_columns(source, kind, &columns, name, nullable, joined);
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
        let select = self.new_select();
        self.scopes.push(super::scope::Scope {
            select,
            sources: inner.sources.iter().map(|source| source.id).collect(),
            tables: inner.tables.clone(),
            results: &[],
            clause: Clause::From,
            aggregates: Vec::new(),
            named_windows: &[],
            windows: Vec::new(),
            window_calls: Vec::new(),
            correlated: false,
        });
        let depth = self.scopes.len() - 1;
        let base = joined.tables.len();
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        let mut outer_tables = Vec::new();
        let source = self.new_source()?;
        for (number, table) in tables.iter().enumerate() {
            let mut outer = ScopeTable {
                name: alias.clone().unwrap_or_else(|| table.name.clone()),
                columns: Vec::new(),
                rowid: None,
                table: None,
                module: None,
                nullable,
            };
            for (place, column) in table.columns.iter().enumerate() {
                let bound = self.column_at(depth, (number, place), from.first.offset)?;
                let shift = |(table, column): &(usize, usize)| (base + table, *column);
                outer.columns.push(ScopeColumn {
                    expr: Expr::Column { source, column: outputs.len() },
                    others: column.others.iter().map(shift).collect(),
                    named: column.named.iter().map(shift).collect(),
                    ..column.clone()
                });
                outputs.push(bound.expr);
                columns.push(OutputColumn {
                    name: column.name.clone(),
                    inner_name: column.name.clone(),
                    written: None,
                    affinity: column.affinity,
                    collation: bound.collation,
                    classes: ANY_CLASS,
                    declared_type: column.declared_type.clone(),
                });
            }
            outer_tables.push(outer);
        }
        let inner_correlated = inner.is_correlated();
        let (sources, conjuncts) = self.conditions(inner)?;
        let correlated =
            self.scopes.pop().is_some_and(|scope| scope.correlated) || inner_correlated;
        show_unique(&mut outer_tables);
        let query = filtered(select, (sources, conjuncts), outputs, columns);
        let kind = SourceKind::Query(Box::new(Query { correlated, ..query }));
        joined.tables.extend(outer_tables);
        joined.sources.push(Source::new(source, kind, alias.unwrap_or_default()));
        Ok(())
    }

    /// Resolves the conditions of a `FROM` whose tables are the innermost scope.
    pub(super) fn conditions(
        &mut self,
        joined: Joined<'a>,
    ) -> Result<(Vec<Source>, Vec<Expr>), Error> {
        let Joined { mut sources, conditions, merged, late, .. } = joined;
        self.late_arguments(&late, &mut sources)?;
        let mut conjuncts = merged;
        for condition in conditions {
            let mut found = Vec::new();
            match condition.kind {
                ConditionKind::On(expr) => {
                    let bound = self.bind_expr(expr)?;
                    if let Some(place) = condition.of {
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
                    found.push(self.equal(&name, &left, &right)?);
                }
            }
            match condition.of {
                Some(place) => {
                    sources[place].join.get_or_insert_default().on.extend(found);
                }
                None => conjuncts.extend(found),
            }
        }
        turn_right_join(&mut sources);
        Ok((sources, conjuncts))
    }

    fn equal(&mut self, name: &Name, left: &Merged, right: &Merged) -> Result<Expr, Error> {
        let depth = self.scopes.len() - 1;
        let left = self.first_of(depth, left.first, &left.others, name.offset)?;
        let right = self.first_of(depth, right.first, &right.others, name.offset)?;
        let rule = Comparison {
            op: CompareOp::Equal,
            affinity: compare_affinity(left.affinity, right.affinity),
            collation: self.known(left.collation.compare_with(right.collation))?,
        };
        Ok(Expr::Compare(rule, Box::new(left.expr), Box::new(right.expr)))
    }

    /// A column merged by joins: the first value other than NULL.
    pub(super) fn first_of(
        &mut self,
        depth: usize,
        first: (usize, usize),
        others: &[(usize, usize)],
        offset: usize,
    ) -> Result<Bound, Error> {
        let mut bound = self.column_at(depth, first, offset)?;
        if others.is_empty() {
            return Ok(bound);
        }
        let mut parts = vec![bound.expr];
        for &other in others {
            parts.push(self.column_at(depth, other, offset)?.expr);
        }
        // Affinity and collation stay the first one's.
        bound.expr = Expr::Coalesce(parts);
        Ok(bound)
    }

    /// The rows of a table or view as a query, for `IN table`.
    pub(super) fn whole_table(
        &mut self,
        name: &'a ObjectName,
        arguments: Option<&'a [ast::Expr]>,
    ) -> Result<Query, Error> {
        let mut joined = Joined::default();
        let offset = name.database.as_ref().unwrap_or(&name.name).offset;
        match arguments {
            Some(arguments) => self.add_function(name, arguments, None, false, &mut joined)?,
            None => self.add_named(name, &Indexed::Any, None, offset, false, &mut joined)?,
        }
        // There is no table to the right: faults of the arguments are raised now.
        self.late_arguments(&joined.late, &mut joined.sources)?;
        let table = joined.tables[0].clone();
        let bound = self.in_scope(joined.tables.clone(), Clause::From, |resolver| {
            let depth = resolver.scopes.len() - 1;
            let places = 0..table.columns.len();
            places.map(|place| resolver.column_at(depth, (0, place), offset)).collect()
        });
        let bound: Vec<Bound> = bound?;
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        for (column, bound) in table.columns.iter().zip(bound) {
            if column.hidden {
                continue;
            }
            outputs.push(bound.expr);
            columns.push(OutputColumn {
                name: column.name.clone(),
                inner_name: column.name.clone(),
                written: None,
                affinity: column.affinity,
                collation: bound.collation,
                classes: ANY_CLASS,
                declared_type: column.declared_type.clone(),
            });
        }
        let id = self.new_select();
        Ok(filtered(id, (joined.sources, joined.merged), outputs, columns))
    }
}

/// The query of the rows of a join that meet all conditions: without groups, windows, an order and
/// bounds, and of no row around.
pub(super) fn filtered(
    id: SelectId,
    (sources, conjuncts): (Vec<Source>, Vec<Expr>),
    outputs: Vec<Expr>,
    columns: Vec<OutputColumn>,
) -> Query {
    Query {
        body: Body::Select(Box::new(Select {
            id,
            sources,
            conjuncts,
            group_by: None,
            aggregates: Vec::new(),
            having: None,
            windows: Vec::new(),
            window_calls: Vec::new(),
            outputs,
            distinct: None,
        })),
        as_expression: first_rules(&columns),
        columns,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        correlated: false,
    }
}

impl Joined<'_> {
    /// True where any part depends on the row of an enclosing query.
    pub(super) fn is_correlated(&self) -> bool {
        self.correlated
            || self.sources.iter().any(|source| match &source.kind {
                SourceKind::Query(query) => query.correlated,
                SourceKind::Table(_)
                | SourceKind::Taken(_)
                | SourceKind::Virtual(_)
                | SourceKind::Module { .. } => false,
            })
    }
}

/// True where a parenthesised join is the same without its parentheses.
fn flat(from: &ast::From, nullable: bool, alias: &Option<String>, joined: &Joined<'_>) -> bool {
    let alone = joined.sources.is_empty();
    alias.is_none() && (alone || !nullable && !keeps_right(from) && !names_columns(from))
}

/// Refuses `INDEXED BY` for a source without indexes.
fn refuse_index(indexed: &Indexed) -> Result<(), Error> {
    match indexed {
        Indexed::By(index) => Err(Error::no_such(NameKind::Index, &index.text, index.offset)),
        Indexed::Any | Indexed::Not => Ok(()),
    }
}

/// Makes `a RIGHT JOIN b` a `b LEFT JOIN a`, so that rows of `a` are found by a key where possible.
/// With more than two tables the left side would have to be a query of its own.
fn turn_right_join(sources: &mut [Source]) {
    let [left, right] = sources else { return };
    let plain = |source: &Source| {
        !matches!(source.kind, SourceKind::Module { .. } | SourceKind::Virtual(_))
    };
    let join = right.join.as_ref();
    if left.join.is_none()
        && plain(left)
        && plain(right)
        && join.is_some_and(|join| join.keeps_right && !join.keeps_left)
    {
        if let Some(join) = &mut right.join {
            (join.keeps_left, join.keeps_right) = (true, false);
        }
        std::mem::swap(&mut left.join, &mut right.join);
        std::mem::swap(left, right);
    }
}

/// True where a `FROM` joins by the names of columns: the names are looked up among its own tables.
fn names_columns(from: &ast::From) -> bool {
    let inside = |table: &ast::TableRef| match &table.kind {
        TableRefKind::Joined(from) => table.alias.is_none() && names_columns(from),
        _ => false,
    };
    inside(&from.first)
        || from.joins.iter().any(|join| {
            let using = matches!(join.constraint, JoinConstraint::Using(_));
            using || join.natural || inside(&join.table)
        })
}

/// Gives the columns of a parenthesised join names of their own in a result, as SQLite does.
fn show_unique(tables: &mut [ScopeTable<'_>]) {
    let mut known: Vec<String> = Vec::new();
    for column in tables.iter_mut().flat_map(|table| &mut table.columns) {
        if !column.merged {
            let shown = unique(&known, &column.name);
            known.push(shown.clone());
            column.shown = Some(shown);
        }
    }
}

/// True where a `FROM` has a `RIGHT` or `FULL` join.
fn keeps_right(from: &ast::From) -> bool {
    let inside = |table: &ast::TableRef| match &table.kind {
        TableRefKind::Joined(from) => table.alias.is_none() && keeps_right(from),
        _ => false,
    };
    inside(&from.first)
        || from.joins.iter().any(|join| {
            matches!(join.kind, JoinKind::Right | JoinKind::Full) || inside(&join.table)
        })
}

/// The number of tables and queries named by a `FROM`.
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
            // Two conditions: the second need not be evaluated. Done where copying the operand is
            // free.
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

/// The column names shared by the tables from `first_table` on and the tables before.
fn natural_names(joined: &Joined<'_>, first_table: usize) -> Vec<Name> {
    let (left, right) = joined.tables.split_at(first_table);
    let visible = |column: &&ScopeColumn| !column.hidden;
    let known = |name: &str| {
        left.iter()
            .flat_map(|table| &table.columns)
            .any(|column| !column.merged && column.name.eq_ignore_ascii_case(name))
    };
    right
        .iter()
        .flat_map(|table| &table.columns)
        .filter(visible)
        .filter(|column| known(&column.name))
        .map(|column| Name { text: column.name.clone(), offset: 0, quote: ast::Quote::None })
        .collect()
}

/// Merges a column of the tables from `first_table` on with the first column of the same name
/// before.
fn merge(
    joined: &mut Joined<'_>,
    (first_table, kind): (usize, JoinKind),
    name: &Name,
    of: Option<usize>,
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
    let others = joined.tables[..first_table]
        .iter()
        .flat_map(|table| &table.columns)
        .filter(|column| !column.merged && name.is(&column.name))
        .count();
    if others > 1 && joined.keeps_right {
        return Err(Error::Name {
            kind: NameKind::Column,
            message: format!("ambiguous reference to {} in USING()", name.text),
            offset: Some(name.offset),
        });
    }
    let whole = |first: (usize, usize)| Merged {
        first,
        others: joined.tables[first.0].columns[first.1].others.clone(),
    };
    let (whole_left, whole_right) = (whole(left), whole(right));
    joined.tables[right.0].columns[right.1].merged = true;
    if joined.keeps_right {
        let others = &mut joined.tables[left.0].columns[left.1].others;
        others.push(right);
        others.extend(&whole_right.others);
    }
    // The name stands for the side without unmatched rows; for both sides where either has some.
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let stands_for = |place: (usize, usize)| {
            let named = &joined.tables[place.0].columns[place.1].named;
            if named.is_empty() { vec![place] } else { named.clone() }
        };
        let mut named = match kind {
            JoinKind::Full => stands_for(left),
            _ => Vec::new(),
        };
        named.extend(stands_for(right));
        joined.tables[left.0].columns[left.1].named = named;
    }
    joined.conditions.push(Condition {
        kind: ConditionKind::Equal { name: name.clone(), left: whole_left, right: whole_right },
        of,
    });
    Ok(())
}

/// Adds a source with the columns of a query's result.
fn add_columns(
    source: SourceId,
    kind: SourceKind,
    outputs: &[OutputColumn],
    name: String,
    nullable: bool,
    joined: &mut Joined<'_>,
) {
    let mut columns: Vec<ScopeColumn> = Vec::with_capacity(outputs.len());
    for (index, column) in outputs.iter().enumerate() {
        let expr = Expr::Column { source, column: index };
        columns.push(query_column(&columns, column, expr));
    }
    joined.tables.push(ScopeTable {
        name: name.clone(),
        columns,
        rowid: None,
        table: None,
        module: None,
        nullable,
    });
    joined.sources.push(Source::new(source, kind, name));
}

pub(super) fn rename(
    query: &mut Query,
    names: &[Name],
    of: &str,
    offset: usize,
) -> Result<(), Error> {
    if names.len() != query.columns.len() {
        return Err(Error::meaning(
            format!("expected {} columns for '{of}' but got {}", names.len(), query.columns.len()),
            offset,
        ));
    }
    for (column, name) in query.columns.iter_mut().zip(names) {
        column.name.clone_from(&name.text);
        column.inner_name.clone_from(&name.text);
        column.written = None;
    }
    Ok(())
}

/// Affinity and collation of a query's first column.
pub(super) fn first_rules(columns: &[OutputColumn]) -> (Option<crate::value::Affinity>, Coll) {
    columns.first().map_or((None, Coll::None), |column| (column.affinity, column.collation))
}

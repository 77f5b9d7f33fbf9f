//! Table-valued functions in a `FROM`.

use std::sync::{Arc, PoisonError};

use super::collation::Coll;
use super::expr::Bound;
use super::from::Joined;
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::select::ANY_CLASS;
use super::tree::{
    AUXILIARY, AuxiliaryCall, AuxiliaryCalls, Expr, Source, SourceId, SourceKind, VirtualSource,
};
use super::{Resolver, scope_table};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{self, ObjectName};
use crate::schema::{Connected, Module, Object};
use crate::value::{Affinity, CompareOp};

impl<'a> Resolver<'a> {
    /// Adds a function's rows; its arguments may name the tables before.
    pub(super) fn add_function(
        &mut self,
        name: &'a ObjectName,
        arguments: &'a [ast::Expr],
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let (text, offset) = (name.name.text.as_str(), name.name.offset);
        let Some(module) = self.schema.module(text) else {
            let database = name.database.as_ref().map(|database| &*database.text);
            let home = match database {
                Some(database) => self.schema.database(database),
                None => self.home,
            };
            let found = self.schema.find(home, text);
            if let Some((database, Object::Virtual(definition))) = found {
                let table =
                    definition.connect(self.schema, database).map_err(|it| it.at(offset))?;
                check_arguments(table, arguments, text, offset)?;
                return self.add_virtual(table, arguments, alias, nullable, joined);
            }
            if let Some((_, Object::Narrowed(table))) = found
                && table.behind.is_some()
            {
                self.asks_module.set(true);
                if let Some(searched) = self.searched(table).map_err(|it| it.at(offset))? {
                    check_arguments(searched.0, arguments, text, offset)?;
                    return self.add_searched(table, searched, arguments, alias, nullable, joined);
                }
            }
            let known = self.schema.find(self.home, text).is_some();
            let common = self
                .common
                .iter()
                .any(|frame| frame.tables.iter().any(|table| table.name.is(text)));
            if known || common {
                return Err(Error::meaning(format!("'{text}' is not a function"), offset));
            }
            return Err(Error::no_such(NameKind::Table, text, offset));
        };
        if module.is_of_main()
            && let Some(database) = &name.database
            && !database.is("main")
        {
            let message = format!(
                "{}.{text}: {text} is about the main database alone; open the other one itself",
                database.text
            );
            return Err(Error::meaning(message, database.offset));
        }
        let most = module.arguments().len();
        if arguments.len() > most {
            let message = format!("too many arguments on {text}() - max {most}");
            return Err(Error::meaning(message, offset));
        }
        self.add_call(&Arc::clone(module), text, arguments, alias, nullable, joined)
    }

    /// Adds the rows of a virtual table, whose arguments may name the tables before.
    pub(super) fn add_virtual(
        &mut self,
        table: &'a Arc<Connected>,
        arguments: &'a [ast::Expr],
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        self.authorize_table(&table.table)?;
        let mut bound = self.bind_arguments(arguments, joined)?;
        bound.resize(table.hidden.len(), None);
        let source = self.new_source()?;
        let shown = alias.unwrap_or_else(|| table.table.name.clone());
        let mut names = scope_table(&table.table, source, shown.clone());
        names.nullable = nullable;
        let calls = AuxiliaryCalls::default();
        self.virtual_sources.push((source, Arc::clone(table), Arc::clone(&calls)));
        joined.tables.push(names);
        let table = Arc::clone(table);
        let kind = SourceKind::Virtual(Box::new(VirtualSource { table, arguments: bound, calls }));
        joined.sources.push(Source::new(source, kind, shown));
        Ok(())
    }

    /// A call of a function overloaded by a virtual table, its first argument.
    pub(super) fn auxiliary_call(&mut self, call: &'a ast::Call) -> Result<Option<Bound>, Error> {
        if self.virtual_sources.is_empty() || call.over.is_some() {
            return Ok(None);
        }
        let Some((first, rest)) = call.arguments.split_first() else { return Ok(None) };
        if !matches!(first.kind, ast::ExprKind::Column { .. }) {
            return Ok(None);
        }
        let Ok(Bound { expr: Expr::Column { source, .. }, .. }) = self.bind(first) else {
            return Ok(None);
        };
        let known = self.virtual_sources.iter().find(|(known, ..)| *known == source);
        let Some((_, table, calls)) = known else { return Ok(None) };
        let Some(function) = table.instance.auxiliary(&call.name.text) else { return Ok(None) };
        let calls = Arc::clone(calls);
        let mut arguments = Vec::with_capacity(rest.len());
        for argument in rest {
            arguments.push(self.bind_expr(argument)?);
        }
        let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
        let place = calls.iter().position(|known| {
            known.function == function
                && known.arguments.len() == arguments.len()
                && known.arguments.iter().zip(&arguments).all(|(a, b)| a.is_same(b))
        });
        let place = place.unwrap_or_else(|| {
            calls.push(AuxiliaryCall { function, arguments });
            calls.len() - 1
        });
        let expr = Expr::Column { source, column: AUXILIARY + place };
        Ok(Some(Bound { classes: Some(ANY_CLASS), ..Bound::plain(expr) }))
    }

    /// Adds the rows of a module called with arguments, which may name the tables before.
    pub(super) fn add_call(
        &mut self,
        module: &Arc<dyn Module>,
        text: &str,
        arguments: &'a [ast::Expr],
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let hidden = module.arguments();
        let mut bound = self.bind_arguments(arguments, joined)?;
        bound.resize(hidden.len(), None);
        let source = self.new_source()?;
        let visible = module.columns();
        let names = visible.into_iter().map(|name| (name, false));
        let names = names.chain(hidden.iter().map(|name| (*name, true)));
        let shown = alias.unwrap_or_else(|| text.to_owned());
        add_source(source, module, bound, names, shown, nullable, joined);
        Ok(())
    }

    /// Resolves arguments naming the tables before; names of tables to the right wait.
    fn bind_arguments(
        &mut self,
        arguments: &'a [ast::Expr],
        joined: &mut Joined<'a>,
    ) -> Result<Vec<Option<Expr>>, Error> {
        if arguments.is_empty() {
            return Ok(Vec::new());
        }
        let bound = self.in_scope(joined.tables.clone(), Clause::From, |resolver| {
            let bound: Result<Vec<_>, _> =
                arguments.iter().map(|expr| resolver.bind_expr(expr).map(Some)).collect();
            let correlated = resolver.scopes.last().is_some_and(|scope| scope.correlated);
            Ok((bound?, correlated))
        });
        match bound {
            Ok((bound, correlated)) => {
                joined.correlated |= correlated;
                Ok(bound)
            }
            // The name may be a column of a table to the right.
            Err(Error::Name { kind: NameKind::Column, .. }) => {
                joined.late.push((joined.sources.len(), arguments));
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Resolves arguments naming tables to the right of their function; the innermost scope has all
    /// tables now. Those tables are read before the function, so no outer join may stand between.
    ///
    /// # Errors
    /// The errors of the resolver.
    pub(super) fn late_arguments(
        &mut self,
        late: &[(usize, &'a [ast::Expr])],
        sources: &mut [Source],
    ) -> Result<(), Error> {
        for &(place, arguments) in late {
            let mut bound = Vec::with_capacity(arguments.len());
            for expr in arguments {
                bound.push(self.bind_expr(expr)?);
            }
            let mut last = 0;
            for argument in &bound {
                argument.columns(&mut |source, _| {
                    let place = sources.iter().position(|known| known.id == source);
                    last = last.max(place.unwrap_or(0));
                });
            }
            let waits =
                |other: usize| other != place && late.iter().any(|(late, _)| *late == other);
            let between = sources.get(place..=last).unwrap_or_default();
            let moves = between.iter().all(|source| source.join.is_none() && !source.fixed);
            if last == place || (last > place && (!moves || (place..=last).any(waits))) {
                let offset = arguments.first().map_or(0, |expr| expr.offset);
                let message = "table-function argument references tables to its right";
                return Err(Error::meaning(message, offset));
            }
            let waiting = match &mut sources[place].kind {
                SourceKind::Module { arguments, .. } => arguments,
                SourceKind::Virtual(source) => &mut source.arguments,
                _ => continue,
            };
            for (argument, bound) in waiting.iter_mut().zip(bound) {
                *argument = Some(bound);
            }
        }
        Ok(())
    }

    /// Adds a table registered by the program.
    pub(super) fn add_registered(
        &mut self,
        module: &Arc<dyn Module>,
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let source = self.new_source()?;
        let visible = module.columns().into_iter().map(|name| (name, false));
        let names = visible.chain(module.arguments().iter().map(|name| (*name, true)));
        let arguments = vec![None; module.arguments().len()];
        let shown = alias.unwrap_or_else(|| module.name().to_owned());
        add_source(source, module, arguments, names, shown, nullable, joined);
        Ok(())
    }
}

/// Adds a source with columns called `names`, each with true where `*` leaves the column out.
fn add_source<'n>(
    source: SourceId,
    module: &Arc<dyn Module>,
    arguments: Vec<Option<Expr>>,
    names: impl Iterator<Item = (&'n str, bool)>,
    shown: String,
    nullable: bool,
    joined: &mut Joined<'_>,
) {
    let columns = names
        .enumerate()
        .map(|(column, (name, hidden))| {
            let declared = if hidden { "" } else { module.declared_type(column) };
            ScopeColumn {
                name: name.to_owned(),
                expr: Expr::Column { source, column },
                affinity: Some(match declared {
                    "" => Affinity::Blob,
                    declared => Affinity::of_declared_type(declared),
                }),
                collation: Ok(Coll::Column(Ok(crate::value::Collation::Binary))),
                declared_type: Some(declared.to_owned()),
                merged: false,
                others: Vec::new(),
                named: Vec::new(),
                shown: None,
                hidden,
            }
        })
        .collect();
    joined.tables.push(ScopeTable {
        name: shown.clone(),
        columns,
        rowid: None,
        table: None,
        module: None,
        nullable,
    });
    let kind = SourceKind::Module { module: Arc::clone(module), arguments };
    joined.sources.push(Source::new(source, kind, shown));
}

/// Refuses more arguments than a virtual table has hidden columns.
fn check_arguments(
    table: &Connected,
    arguments: &[ast::Expr],
    text: &str,
    offset: usize,
) -> Result<(), Error> {
    let most = table.hidden.len();
    match arguments.len() > most {
        true => Err(Error::meaning(format!("too many arguments on {text}() - max {most}"), offset)),
        false => Ok(()),
    }
}

/// Takes missing arguments from conditions: `arg = 'x'` gives the argument's value.
pub(super) fn take_arguments(sources: &mut [Source], conjuncts: &[Expr]) {
    for source in sources {
        let id = source.id;
        let SourceKind::Module { module, arguments } = &mut source.kind else { continue };
        let first_hidden = module.columns().len();
        for (place, argument) in arguments.iter_mut().enumerate() {
            if argument.is_some() {
                continue;
            }
            let column = Expr::Column { source: id, column: first_hidden + place };
            *argument = conjuncts.iter().find_map(|conjunct| {
                let Expr::Compare(rule, left, right) = conjunct else { return None };
                if rule.op != CompareOp::Equal {
                    return None;
                }
                let other = if left.is_same(&column) {
                    right
                } else if right.is_same(&column) {
                    left
                } else {
                    return None;
                };
                let mut reads_itself = false;
                other.columns(&mut |of, _| reads_itself |= of == id);
                (!reads_itself).then(|| (**other).clone())
            });
        }
    }
}

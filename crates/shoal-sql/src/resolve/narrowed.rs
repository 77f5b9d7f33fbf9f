//! Tables of a narrowed schema in a `FROM`.

use std::sync::Arc;

use super::collation::Coll;
use super::from::{Joined, filtered, split_and};
use super::given::key_name;
use super::leakproof::{is_leakproof, is_mask};
use super::scope::{Clause, ScopeColumn, ScopeTable};
use super::select::ANY_CLASS;
use super::tree::{
    AuxiliaryCalls, Expr, OutputColumn, ROWID, Source, SourceId, SourceKind, VirtualSource,
};
use super::{Resolver, scope_table};
use crate::Error;
use crate::entitlement::fault;
use crate::parse::ast;
use crate::schema::{Connected, MAIN, NarrowedTable};
use crate::value::Affinity;

/// A narrowed table over its base table, which is the only source.
struct Inside {
    source: Source,
    columns: Vec<ScopeColumn>,
    /// The predicate.
    rows: Vec<Expr>,
}

impl<'a> Resolver<'a> {
    /// Another resolver of the same names, with a query of its own for every table with a
    /// predicate.
    pub(crate) fn behind_barriers(&self) -> Self {
        let has_barriers = true;
        let within = Resolver::within(self.schema, self.around);
        Resolver { has_barriers, searches: self.searches, ..within }
    }

    /// Another resolver of the same names, with virtual tables of visible rows in the place of
    /// those that rules have read row by row; `None` where no name asked for one.
    pub(crate) fn searching(&self) -> Option<Self> {
        let asks = self.asks_module.get() && !self.searches;
        asks.then(|| Resolver { searches: true, ..Resolver::within(self.schema, self.around) })
    }

    /// True within the `FROM` of a virtual table that is read row by row because of its rule.
    pub(super) fn reads_by_rows(&self) -> bool {
        let mut tables = self.scopes.iter().flat_map(|scope| &scope.tables);
        tables.any(|table| table.module.is_some())
    }

    /// The virtual table that `MATCH` and the module's own functions read, and the presence of
    /// rowids to be seen; `None` where the table is read row by row.
    ///
    /// # Errors
    /// Tables whose rows cannot be read back.
    pub(super) fn searched(
        &self,
        table: &'a NarrowedTable,
    ) -> Result<Option<(&'a Arc<Connected>, bool)>, Error> {
        if let Some(whole) = table.whole_virtual() {
            return Ok(Some((whole, true)));
        }
        match self.schema.narrowing() {
            Some(narrowing) if self.searches && table.behind.is_some() => narrowing.searched(table),
            _ => Ok(None),
        }
    }

    /// Adds a virtual table with what is visible of it; its arguments may name the tables before.
    pub(super) fn add_searched(
        &mut self,
        table: &'a NarrowedTable,
        (connected, shows_rowid): (&'a Arc<Connected>, bool),
        arguments: &'a [ast::Expr],
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        self.add_virtual(connected, arguments, alias, nullable, joined)?;
        if let Some(names) = joined.tables.last_mut() {
            let is_seen = |it: &ScopeColumn| it.hidden || table.visible_column(&it.name).is_some();
            names.columns.retain(is_seen);
            names.rowid = names.rowid.filter(|_| shows_rowid);
        }
        Ok(())
    }

    /// Checks a rule against its table: names, and the functions used.
    ///
    /// # Errors
    /// [`Error::Meaning`] with the fault.
    pub(crate) fn check_rule(&mut self, table: &'a NarrowedTable) -> Result<(), Error> {
        let name = table.name();
        let inside = self.inside(table).map_err(|error| fault(name, error))?;
        if !inside.rows.iter().all(is_leakproof) {
            let why = "a predicate compares columns with safe functions only: see the list in \
                       the documentation of entitlements";
            return Err(fault(name, why));
        }
        let mut shown = table.columns.iter().zip(&inside.columns);
        if let Some((_, column)) =
            shown.find(|(it, column)| it.mask.is_some() && !is_mask(&column.expr))
        {
            let why = "is made with safe functions only: see the list in the documentation of \
                       entitlements";
            return Err(fault(name, format!("the mask of {} {why}", column.name)));
        }
        Ok(())
    }

    /// Adds a narrowed table: as a part of the query around, its predicate a condition, or behind a
    /// barrier, as a query of its own.
    pub(super) fn add_narrowed(
        &mut self,
        table: &'a NarrowedTable,
        alias: Option<String>,
        nullable: bool,
        joined: &mut Joined<'a>,
    ) -> Result<(), Error> {
        let name = alias.unwrap_or_else(|| table.name().to_owned());
        let inside = self.inside(table).map_err(|_| Error::Schema {
            object: table.name().to_owned(),
            why: "its rule does not fit the table as it is now".to_owned(),
        })?;
        let Inside { mut source, columns, rows } = inside;
        let is_ordinary = table.behind.is_none();
        if is_ordinary && !nullable && (rows.is_empty() || !self.has_barriers) {
            source.name.clone_from(&name);
            joined.sources.push(source);
            joined.merged.extend(rows);
            let (rowid, table, module) = (None, None, None);
            joined.tables.push(ScopeTable { name, columns, rowid, table, module, nullable });
            return Ok(());
        }
        let outer = self.new_source()?;
        let (mut shown, mut outputs, mut described) = (Vec::new(), Vec::new(), Vec::new());
        for (place, column) in columns.into_iter().enumerate() {
            described.push(OutputColumn {
                name: column.name.clone(),
                inner_name: column.name.clone(),
                written: None,
                affinity: column.affinity,
                collation: column.collation.clone().unwrap_or_default(),
                classes: ANY_CLASS,
                declared_type: column.declared_type.clone(),
            });
            let expr = Expr::Column { source: outer, column: place };
            let ScopeColumn { expr: inner, .. } = &column;
            outputs.push(inner.clone());
            shown.push(ScopeColumn { expr, ..column });
        }
        let query = filtered(self.new_select(), (vec![source], rows), outputs, described);
        let kind = SourceKind::Query(Box::new(query));
        joined.sources.push(Source::new(outer, kind, name.clone()));
        let (columns, rowid) = (shown, None);
        let behind = table.behind.as_ref().filter(|_| !self.searches);
        let module = behind.map(|(_, connected)| &**connected);
        joined.tables.push(ScopeTable { name, columns, rowid, table: None, module, nullable });
        Ok(())
    }

    /// Resolves the parts of a rule, by the names of the whole schema and with nothing of the
    /// statement around.
    fn inside(&mut self, narrowed: &'a NarrowedTable) -> Result<Inside, Error> {
        let narrowing = self.schema.narrowing().expect("a narrowed table is in a narrowed schema");
        let table = &*narrowed.table;
        let id = self.new_source()?;
        let names = scope_table(table, id, table.name.clone());
        let scopes = std::mem::take(&mut self.scopes);
        let common = std::mem::take(&mut self.common);
        let expanding = std::mem::take(&mut self.expanding);
        let home = self.home.replace(MAIN);
        let schema = std::mem::replace(&mut self.schema, &narrowing.whole);
        let in_definition = std::mem::replace(&mut self.in_definition, true);
        let principal = self.principal.replace(&narrowed.principal);
        let indexed = self.index_meanings(table, &names);
        let parts = self.in_scope(vec![names.clone()], Clause::Where, |resolver| {
            let mut rows = Vec::new();
            if let Some(expr) = &narrowed.rows {
                split_and(resolver.bind_expr(expr)?, &mut rows);
            }
            let columns = resolver.visible(narrowed, &names)?;
            Ok((rows, columns))
        });
        self.principal = principal;
        self.in_definition = in_definition;
        self.schema = schema;
        self.home = home;
        self.expanding = expanding;
        self.common = common;
        self.scopes = scopes;
        let (rows, columns) = parts?;
        let kind = match &narrowed.behind {
            None => SourceKind::Table(narrowed.table.clone()),
            // The calls stay empty: no name of a statement reaches the virtual table.
            Some((_, connected)) => SourceKind::Virtual(Box::new(VirtualSource {
                table: Arc::clone(connected),
                arguments: vec![None; connected.hidden.len()],
                calls: AuxiliaryCalls::default(),
            })),
        };
        let source = Source::new(id, kind, table.name.clone());
        let guarded = !rows.is_empty() || narrowed.behind.is_some();
        let source = Source { indexed, guarded, ..source };
        Ok(Inside { source, columns, rows })
    }

    /// The visible columns of a table whose columns are the innermost scope, and the names of its
    /// rowid.
    fn visible(
        &mut self,
        narrowed: &'a NarrowedTable,
        names: &ScopeTable<'a>,
    ) -> Result<Vec<ScopeColumn>, Error> {
        let depth = self.scopes.len() - 1;
        let mut columns = Vec::with_capacity(narrowed.columns.len());
        for shown in &narrowed.columns {
            let known = &names.columns[shown.column];
            let expr = match &shown.mask {
                None => self.column_at(depth, (0, shown.column), 0)?.expr,
                Some(mask) => {
                    // A mask's value is as the column would store it.
                    let affinity = known.affinity.unwrap_or(Affinity::Blob);
                    Expr::Stored { expr: Box::new(self.bind_expr(mask)?), affinity }
                }
            };
            columns.push(ScopeColumn { expr, ..known.clone() });
        }
        if self.around.finds_keys {
            self.add_keys(narrowed, names, &mut columns)?;
        }
        let Some(source) = names.rowid.filter(|_| narrowed.shows_rowid) else { return Ok(columns) };
        let alias = narrowed.table.rowid_alias.map(|alias| names.columns[alias].name.clone());
        for name in ["rowid", "_rowid_", "oid"] {
            if columns.iter().any(|column| column.name.eq_ignore_ascii_case(name)) {
                continue;
            }
            let shown = Some(alias.clone().unwrap_or_else(|| "rowid".to_owned()));
            columns.push(ScopeColumn { shown, ..rowid_column(name.to_owned(), source) });
        }
        Ok(columns)
    }

    /// The key of a row, visible or not, by the names of [`key_name`].
    fn add_keys(
        &mut self,
        narrowed: &'a NarrowedTable,
        names: &ScopeTable<'a>,
        columns: &mut Vec<ScopeColumn>,
    ) -> Result<(), Error> {
        let depth = self.scopes.len() - 1;
        if let Some(source) = names.rowid {
            columns.push(rowid_column(key_name(0), source));
            return Ok(());
        }
        for (place, part) in narrowed.table.primary_key.iter().enumerate() {
            let name = key_name(place);
            let expr = self.column_at(depth, (0, part.column), 0)?.expr;
            let known = names.columns[part.column].clone();
            columns.push(ScopeColumn { name, expr, named: Vec::new(), hidden: true, ..known });
        }
        Ok(())
    }
}

/// The rowid of a source under a name of its own, left out of `*`.
fn rowid_column(name: String, source: SourceId) -> ScopeColumn {
    ScopeColumn {
        name,
        expr: Expr::Column { source, column: ROWID },
        affinity: Some(Affinity::Integer),
        collation: Ok(Coll::None),
        declared_type: Some("INTEGER".to_owned()),
        merged: false,
        others: Vec::new(),
        named: Vec::new(),
        shown: None,
        hidden: true,
    }
}

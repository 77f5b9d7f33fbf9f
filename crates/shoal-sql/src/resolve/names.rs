//! The places of a definition's text with the name of a table or a column, for `ALTER TABLE`.
//!
//! A definition is resolved as ever, while the resolver notes each name with a meaning.
//! Names within a view, a generated column or an index belong to another text and are left out.

use std::cell::RefMut;

use super::scope::{Found, ScopeTable};
use super::tree::{Expr, ROWID, SourceId};
use super::{Around, Resolver};
use crate::Error;
use crate::error::NameKind;
use crate::parse::ast::{self, ExprKind, Name, ObjectName, ResultColumn, SelectCore};
use crate::schema::{MAIN, Schema, Table};

/// A name in a definition's text.
#[derive(Clone, Debug)]
pub(crate) struct NameUse {
    /// Where the name begins, quotes included.
    pub(crate) offset: usize,
    /// The name without its quotes, to be compared with the text at its place.
    pub(crate) text: String,
    pub(crate) meaning: Meaning,
}

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The table of a name.
    Table(String),
    /// A column of a table; [`ROWID`] for a rowid without another name.
    Column { table: String, column: usize },
    /// A text, though in double quotes.
    Text,
}

/// The names found so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    uses: Vec<NameUse>,
    /// Sources by another name than their table's.
    aliased: Vec<SourceId>,
    /// Refuses names in double quotes without a meaning, instead of taking them for texts.
    refuses_texts: bool,
}

impl<'a> Resolver<'a> {
    /// A resolver noting names; `refuses_texts` keeps double quotes to names.
    pub(crate) fn noting(
        schema: &'a Schema,
        around: Around<'a>,
        refuses_texts: bool,
    ) -> Resolver<'a> {
        let mut resolver = Resolver::within(schema, around);
        resolver.names = Some(Names { refuses_texts, ..Names::default() }.into());
        resolver
    }

    /// The noted names, in no order; a name may be there twice.
    pub(crate) fn into_names(self) -> Vec<NameUse> {
        self.names.map(|names| names.into_inner().uses).unwrap_or_default()
    }

    /// The notes, while the resolved text is the definition's own.
    fn notes(&self) -> Option<RefMut<'_, Names>> {
        let own = self.views.is_empty() && self.generated_depth == 0;
        self.names.as_ref().filter(|_| own).map(|names| names.borrow_mut())
    }

    /// Notes the column meant by a name, and the table meant by a name before.
    pub(super) fn note_column(&self, found: &Found, table: Option<&Name>, column: &Name) {
        let Some(mut notes) = self.notes() else { return };
        let (scope, place) = match found {
            Found::Column { depth, table, column } => {
                (&self.scopes[*depth].tables[*table], *column)
            }
            Found::Rowid { depth, table } => (&self.scopes[*depth].tables[*table], ROWID),
        };
        let Some(definition) = scope.table.filter(|table| table.database == MAIN) else { return };
        notes.column(definition, place, column);
        if let Some(table) = table {
            notes.qualifier(scope, definition, table);
        }
    }

    /// Notes a column of a row at hand.
    pub(super) fn note_given(&self, scope: &ScopeTable<'_>, place: usize, column: &Name) {
        let definition = scope.table.filter(|table| table.database == MAIN);
        if let (Some(mut notes), Some(definition)) = (self.notes(), definition) {
            notes.column(definition, place, column);
        }
    }

    /// Notes a text in double quotes.
    ///
    /// # Errors
    /// [`Error::Name`] where such a text is refused.
    pub(super) fn note_text(&self, name: &Name) -> Result<(), Error> {
        let Some(mut notes) = self.notes() else { return Ok(()) };
        if notes.refuses_texts {
            let message = format!(
                "no such column: \"{}\" - should this be a string literal in single-quotes?",
                name.text
            );
            return Err(Error::Name { kind: NameKind::Column, message, offset: Some(name.offset) });
        }
        notes.add(name, Meaning::Text);
        Ok(())
    }

    /// Notes a table of a `FROM`; `aliased` is its source under another name.
    pub(super) fn note_source(&self, table: &Table, name: &ObjectName, aliased: Option<SourceId>) {
        if let Some(mut notes) = self.notes().filter(|_| table.database == MAIN) {
            notes.add(&name.name, Meaning::Table(table.name.clone()));
            notes.aliased.extend(aliased);
        }
    }

    /// Notes the table of `t.*`.
    pub(super) fn note_star(&self, scope: &ScopeTable<'_>, name: &Name) {
        let definition = scope.table.filter(|table| table.database == MAIN);
        if let (Some(mut notes), Some(definition)) = (self.notes(), definition) {
            notes.qualifier(scope, definition, name);
        }
    }

    /// Notes the names in the unread common tables of the innermost `WITH`. Names without a meaning
    /// are no fault there, because nobody reads these tables.
    pub(super) fn note_unnamed(&mut self, with: &'a ast::With) {
        let Some(frame) = self.common.last().map(|frame| frame.number) else { return };
        if self.names.is_none() {
            return;
        }
        for (place, table) in with.tables.iter().enumerate() {
            if self.named.iter().any(|known| (known.frame, known.place) == (frame, place)) {
                continue;
            }
            let (depth, scopes) = (self.depth, self.scopes.len());
            if self.common_table(&table.name.text, table.name.offset).is_err() {
                self.depth = depth;
                self.scopes.truncate(scopes);
            }
        }
    }

    /// Notes a term of a compound's `ORDER BY`, with the meaning of the result column written
    /// alike.
    pub(super) fn note_ordered(&self, term: &ast::Expr, cores: &[&SelectCore]) {
        let ExprKind::Column { table, column, .. } = &term.kind else { return };
        let Some(mut notes) = self.notes() else { return };
        let results = cores.iter().filter_map(|core| match core {
            SelectCore::Select(clauses) => Some(&clauses.columns),
            SelectCore::Values(_) => None,
        });
        for result in results.flatten() {
            let ResultColumn::Expr { expr, alias, .. } = result else { continue };
            if table.is_none() && alias.as_ref().is_some_and(|alias| alias.is(&column.text)) {
                return;
            }
            let ExprKind::Column { table: own_table, column: own, .. } = &expr.kind else {
                continue;
            };
            let same_table = match (table, own_table) {
                (Some(table), Some(own)) => table.is(&own.text),
                (None, _) => true,
                (Some(_), None) => false,
            };
            if !own.is(&column.text) || !same_table {
                continue;
            }
            let pairs = [(Some(column), Some(own)), (table.as_ref(), own_table.as_ref())];
            for (name, own) in pairs {
                let (Some(name), Some(own)) = (name, own) else { continue };
                let known = notes.uses.iter().find(|it| it.offset == own.offset);
                if let Some(meaning) = known.map(|it| it.meaning.clone()) {
                    notes.add(name, meaning);
                }
            }
            return;
        }
    }
}

impl Names {
    fn add(&mut self, name: &Name, meaning: Meaning) {
        self.uses.push(NameUse { offset: name.offset, text: name.text.clone(), meaning });
    }

    fn column(&mut self, definition: &Table, place: usize, name: &Name) {
        let column = match place {
            ROWID => definition.rowid_alias.unwrap_or(ROWID),
            place => place,
        };
        self.add(name, Meaning::Column { table: definition.name.clone(), column });
    }

    /// The name of a table before a column's, unless an alias is meant.
    fn qualifier(&mut self, scope: &ScopeTable<'_>, definition: &Table, name: &Name) {
        let source = scope.columns.iter().find_map(|column| match column.expr {
            Expr::Column { source, .. } => Some(source),
            _ => None,
        });
        if source.is_some_and(|source| !self.aliased.contains(&source)) {
            self.add(name, Meaning::Table(definition.name.clone()));
        }
    }
}

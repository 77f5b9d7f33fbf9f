//! Meanings of indexes on expressions and virtual columns, and of partial indexes, for the rows of
//! one source.

use super::Resolver;
use super::from::split_and;
use super::scope::{Clause, ScopeTable};
use super::tree::IndexMeaning;
use crate::Error;
use crate::schema::{Index, IndexSource, Table};

impl<'a> Resolver<'a> {
    /// The meanings of a table's indexes for a source; empty where all indexes are over stored
    /// columns and all rows.
    pub(super) fn index_meanings(
        &mut self,
        table: &'a Table,
        row: &ScopeTable<'a>,
    ) -> Vec<IndexMeaning> {
        let special = |index: &Index| {
            index.filter.is_some()
                || index.columns.iter().any(|column| match column.source {
                    IndexSource::Expr(_) => true,
                    IndexSource::Column(place) => table.columns[place].stored.is_none(),
                    IndexSource::Rowid => false,
                })
        };
        if self.names.is_some() || !table.indexes.iter().any(special) {
            return Vec::new();
        }
        let scopes = std::mem::take(&mut self.scopes);
        let mut meanings = Vec::with_capacity(table.indexes.len());
        for index in &table.indexes {
            let unusable = |_| IndexMeaning { unusable: true, ..IndexMeaning::default() };
            meanings.push(self.index_meaning(table, index, row).unwrap_or_else(unusable));
        }
        self.scopes = scopes;
        meanings
    }

    fn index_meaning(
        &mut self,
        table: &'a Table,
        index: &'a Index,
        row: &ScopeTable<'a>,
    ) -> Result<IndexMeaning, Error> {
        self.in_scope(vec![row.clone()], Clause::From, |resolver| {
            let mut meaning = IndexMeaning::default();
            for column in &index.columns {
                let bound = match &column.source {
                    IndexSource::Expr(expr) => Some(resolver.bind(expr)?),
                    IndexSource::Column(place) if table.columns[*place].stored.is_none() => {
                        let depth = resolver.scopes.len() - 1;
                        Some(resolver.column_at(depth, (0, *place), 0)?)
                    }
                    IndexSource::Column(_) | IndexSource::Rowid => None,
                };
                meaning.columns.push(bound.map(|bound| (bound.expr, bound.affinity)));
            }
            if let Some(filter) = &index.filter {
                split_and(resolver.bind_expr(filter)?, &mut meaning.filter);
            }
            Ok(meaning)
        })
    }
}

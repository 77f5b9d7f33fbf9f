//! All edges of a table in one pass, for snapshots.

use std::sync::Arc;

use shoal_sql::Value as Sql;

use super::rows::{Inner, Keys, Kind, node_at, value_of};
use crate::error::Result;
use crate::graph::RelationshipVisitor;
use crate::pgq::definition::EdgeEnd;
use crate::pgq::elements::quoted;
use crate::source::Source;
use crate::value::Value;

/// An end of an edge table, and the vertex table there.
#[derive(Clone, Copy)]
pub(super) struct EndOf<'g> {
    pub(super) end: &'g EdgeEnd,
    pub(super) node: Kind<'g>,
}

impl EndOf<'_> {
    /// True for references to the rowid alone: the value in an edge's row gives the node's id.
    fn is_of_rowid(self) -> bool {
        let rowid = self.node.table.facts.rowid.as_ref();
        rowid.is_some_and(|rowid| matches!(&*self.end.references, [one] if one == rowid))
    }
}

/// An edge table, its two ends, and the property asked for.
pub(super) struct EdgePass<'g> {
    pub(super) kind: Kind<'g>,
    pub(super) source: EndOf<'g>,
    pub(super) target: EndOf<'g>,
    /// The name of a property of the table, and its SQL for the rows of the alias.
    pub(super) shown: Option<(&'g str, String)>,
    /// The alias of the table.
    pub(super) alias: &'g str,
    /// A condition on the rows, and its parameters.
    pub(super) filter: Option<(&'g str, &'g [Sql])>,
}

impl EdgePass<'_> {
    /// The columns `ends`, and the property behind them.
    fn columns(&self, ends: Vec<String>) -> String {
        let mut columns = ends;
        columns.extend(self.shown.iter().map(|(_, sql)| sql.clone()));
        columns.join(", ")
    }

    /// The property in its column of a row; null where none is asked for.
    fn value(&self, column: Option<&Sql>) -> Result<Value> {
        match (&self.shown, column) {
            (Some((key, _)), Some(value)) => value_of(&self.kind.table.table, key, value),
            _ => Ok(Value::Null),
        }
    }
}

impl<S: Source> Inner<S> {
    /// Calls `each` with the nodes at both ends of every edge of a table, and a property. Ends may
    /// be ids without a node.
    ///
    /// Cost: one pass of the table where both ends refer to rowids, and else a join.
    pub(super) fn each_edge(
        &mut self,
        pass: &EdgePass<'_>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        match pass.source.is_of_rowid() && pass.target.is_of_rowid() {
            true => self.scan_edges(pass, each),
            false => self.join_edges(pass, each),
        }
    }

    fn scan_edges(
        &mut self,
        pass: &EdgePass<'_>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        let EdgePass { kind, source, target, alias, filter, .. } = pass;
        let ends = source.end.columns.iter().chain(&target.end.columns);
        let alias = quoted(alias);
        let columns =
            pass.columns(ends.map(|column| format!("{alias}.{}", quoted(column))).collect());
        let mut sql = format!("SELECT {columns} FROM {} AS {alias}", quoted(&kind.table.table));
        if let Some((condition, _)) = filter {
            sql.push_str(" WHERE ");
            sql.push_str(condition);
        }
        let arguments = filter.map_or(&[][..], |(_, arguments)| arguments);
        // Numbers as texts or reals: the comparison with a rowid converts them.
        let mut converted = Vec::new();
        self.source.rows(&sql, arguments, &mut |row| {
            let value = pass.value(row.get(2))?;
            match row {
                [Sql::Null, ..] | [_, Sql::Null, ..] => Ok(()),
                [Sql::Int(from), Sql::Int(to), ..] => {
                    match (source.node.id(*from), target.node.id(*to)) {
                        (Ok(from), Ok(to)) => each(from, to, &value),
                        // Such rowids have no ids, and no nodes.
                        _ => Ok(()),
                    }
                }
                [from, to, ..] => {
                    converted.push((from.clone(), to.clone(), value));
                    Ok(())
                }
                _ => Ok(()),
            }
        })?;
        for (from, to, value) in converted {
            let from = node_at(self, source.node, source.end, &[from])?;
            let to = node_at(self, target.node, target.end, &[to])?;
            if let (Some(from), Some(to)) = (from, to) {
                each(from, to, &value)?;
            }
        }
        Ok(())
    }

    fn join_edges(
        &mut self,
        pass: &EdgePass<'_>,
        each: &mut RelationshipVisitor<'_>,
    ) -> Result<()> {
        let EdgePass { kind, source, target, alias, filter, .. } = pass;
        let mut columns = Vec::new();
        let (first, last) = (format!("{alias}_s"), format!("{alias}_t"));
        for (end_alias, end) in [(&first, source), (&last, target)] {
            let (key, end_alias) = (end.node.key_columns(), quoted(end_alias));
            columns.extend(key.into_iter().map(|column| format!("{end_alias}.{column}")));
        }
        let width = source.node.key_columns().len();
        let ends = columns.len();
        let mut sql = format!(
            "SELECT {} FROM {} AS {}, {} AS {}, {} AS {} WHERE {} AND {}",
            pass.columns(columns),
            quoted(&kind.table.table),
            quoted(alias),
            quoted(&source.node.table.table),
            quoted(&first),
            quoted(&target.node.table.table),
            quoted(&last),
            source.end.join_sql(alias, &first),
            target.end.join_sql(alias, &last),
        );
        if let Some((condition, _)) = filter {
            sql.push_str(" AND ");
            sql.push_str(condition);
        }
        let arguments = filter.map_or(&[][..], |(_, arguments)| arguments);
        let source_keys = self.numbers(source.node)?;
        let target_keys = self.numbers(target.node)?;
        self.source.rows(&sql, arguments, &mut |row| {
            let value = pass.value(row.get(ends))?;
            let from = number(source.node, source_keys.as_deref(), &row[..width])?;
            let to = number(target.node, target_keys.as_deref(), &row[width..ends])?;
            each(from, to, &value)
        })
    }

    /// The numbers of rows of a table without rowids; `None` for other tables.
    fn numbers(&mut self, kind: Kind<'_>) -> Result<Option<Arc<Keys>>> {
        match kind.table.facts.rowid {
            Some(_) => Ok(None),
            None => self.keys(kind).map(Some),
        }
    }
}

fn number(kind: Kind<'_>, keys: Option<&Keys>, key: &[Sql]) -> Result<i64> {
    match keys {
        Some(keys) => keys.id(kind, key),
        None => kind.id_of_rowid(key),
    }
}

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
    /// The name of a property of the table, and its SQL for the rows of the alias `e`.
    pub(super) shown: Option<(&'g str, String)>,
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
        let EdgePass { kind, source, target, .. } = pass;
        let ends = source.end.columns.iter().chain(&target.end.columns);
        let columns = pass.columns(ends.map(|column| format!("e.{}", quoted(column))).collect());
        let sql = format!("SELECT {columns} FROM {} AS e", quoted(&kind.table.table));
        // Numbers as texts or reals: the comparison with a rowid converts them.
        let mut converted = Vec::new();
        self.source.rows(&sql, &[], &mut |row| {
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
        let EdgePass { kind, source, target, .. } = pass;
        let mut columns = Vec::new();
        for (alias, end) in [("s", source), ("t", target)] {
            let key = end.node.key_columns();
            columns.extend(key.into_iter().map(|column| format!("{alias}.{column}")));
        }
        let width = source.node.key_columns().len();
        let ends = columns.len();
        let sql = format!(
            "SELECT {} FROM {} AS e, {} AS s, {} AS t WHERE {} AND {}",
            pass.columns(columns),
            quoted(&kind.table.table),
            quoted(&source.node.table.table),
            quoted(&target.node.table.table),
            source.end.join_sql("e", "s"),
            target.end.join_sql("e", "t"),
        );
        let source_keys = self.numbers(source.node)?;
        let target_keys = self.numbers(target.node)?;
        self.source.rows(&sql, &[], &mut |row| {
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

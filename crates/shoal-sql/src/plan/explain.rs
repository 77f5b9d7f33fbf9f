//! A plan in words: `EXPLAIN QUERY PLAN`.
//!
//! The words are SQLite's where the plan is one that SQLite could have made.

use super::access::{End, Path, PathKind};
use super::{BodyPlan, Program, QueryPlan, Scan, SelectPlan};
use crate::resolve::tree::{Source, SourceKind};
use crate::schema::{IndexSource, Table};
use crate::value::Value;

/// One line: its number, that of the line it belongs to, and the words.
struct Lines(Vec<(i64, i64, String)>);

impl Program {
    /// The rows of `EXPLAIN QUERY PLAN`: `id`, `parent`, `notused`, `detail`.
    pub(crate) fn explain(&self) -> Vec<Vec<Value>> {
        let mut lines = Lines(Vec::new());
        lines.query(&self.root, 0);
        for (query, correlated) in &self.queries {
            let kind = if *correlated { "CORRELATED SUBQUERY" } else { "SUBQUERY" };
            let id = lines.add(0, kind.to_owned());
            lines.query(query, id);
        }
        lines
            .0
            .into_iter()
            .map(|(id, parent, detail)| vec![id.into(), parent.into(), 0.into(), detail.into()])
            .collect()
    }
}

impl Lines {
    fn add(&mut self, parent: i64, detail: String) -> i64 {
        let id = i64::try_from(self.0.len() + 1).unwrap_or(i64::MAX);
        self.0.push((id, parent, detail));
        id
    }

    fn query(&mut self, plan: &QueryPlan, parent: i64) {
        match &plan.body {
            BodyPlan::Values(rows) => {
                self.add(parent, format!("SCAN {} CONSTANT ROWS", rows.len()));
            }
            BodyPlan::Select(select) => self.select(select, parent),
            BodyPlan::Recursive(_) => {}
            BodyPlan::Compound(compound) => {
                let id = self.add(parent, "COMPOUND QUERY".to_owned());
                self.query(&compound.first, id);
                for (_, part) in &compound.rest {
                    self.query(part, id);
                }
            }
        }
        if let BodyPlan::Recursive(recursion) = &plan.body {
            let id = self.add(parent, "SETUP".to_owned());
            self.query(&recursion.first, id);
            let id = self.add(parent, "RECURSIVE STEP".to_owned());
            recursion.steps.iter().for_each(|step| self.query(step, id));
        }
        if plan.sort.is_some() {
            self.add(parent, "USE TEMP B-TREE FOR ORDER BY".to_owned());
        }
    }

    fn select(&mut self, plan: &SelectPlan, parent: i64) {
        if plan.levels.is_empty() {
            self.add(parent, "SCAN CONSTANT ROW".to_owned());
        }
        for level in &plan.levels {
            let suffix = match (level.keeps_left, level.keeps_right) {
                (true, _) => " LEFT-JOIN",
                (false, _) => "",
            };
            let id = self.add(parent, format!("{}{suffix}", level.label));
            let inner = match &level.scan {
                Scan::Hash(hash) => &hash.source,
                Scan::Each(each) => &each.inner,
                scan => scan,
            };
            if let Scan::Query(query) = inner {
                self.query(query, id);
            }
        }
        if plan.group.as_ref().is_some_and(|group| !group.keys.is_empty()) {
            self.add(parent, "USE TEMP B-TREE FOR GROUP BY".to_owned());
        }
        if plan.distinct.is_some() {
            self.add(parent, "USE TEMP B-TREE FOR DISTINCT".to_owned());
        }
    }
}

/// Whether the source is a table that is the index of its own primary key.
pub(super) fn is_own_tree(source: &Source) -> bool {
    matches!(&source.kind, SourceKind::Table(table) if table.without_rowid)
}

/// A source and the way to its rows in words.
pub(super) fn label(source: &Source, path: &Path<'_>) -> String {
    let name = if source.name.is_empty() { "(subquery)" } else { source.name.as_str() };
    let table = match &source.kind {
        SourceKind::Table(table) => Some(table),
        SourceKind::Query(_) | SourceKind::Taken(_) => None,
        SourceKind::Function { .. } => return format!("SCAN {name} VIRTUAL TABLE INDEX 1:"),
    };
    match (&path.kind, table) {
        (PathKind::Full, _) => format!("SCAN {name}"),
        (PathKind::Hash(keys), _) if keys.is_empty() => format!("SCAN {name} IN MEMORY"),
        (PathKind::Hash(keys), _) => format!("SEARCH {name} USING HASH ({} keys)", keys.len()),
        (PathKind::RowidEqual(_), _) => {
            format!("SEARCH {name} USING INTEGER PRIMARY KEY (rowid=?)")
        }
        (PathKind::RowidRange { low, high }, _) => {
            let terms = range_terms("rowid", low.as_ref(), high.as_ref());
            format!("SEARCH {name} USING INTEGER PRIMARY KEY ({})", terms.join(" AND "))
        }
        (PathKind::Index { .. }, None) => format!("SEARCH {name}"),
        (PathKind::Index { index, equal, low, high }, Some(table)) => {
            let mut terms: Vec<String> = (0..equal.len())
                .map(|place| format!("{}=?", key_name(table, *index, place)))
                .collect();
            let next = key_name(table, *index, equal.len());
            terms.extend(range_terms(&next, low.as_ref(), high.as_ref()));
            let using = match index {
                Some(index) => format!("INDEX {}", table.indexes[*index].name),
                None => "PRIMARY KEY".to_owned(),
            };
            format!("SEARCH {name} USING {using} ({})", terms.join(" AND "))
        }
    }
}

fn range_terms(name: &str, low: Option<&End<'_>>, high: Option<&End<'_>>) -> Vec<String> {
    let low = low.map(|_| format!("{name}>?"));
    let high = high.map(|_| format!("{name}<?"));
    low.into_iter().chain(high).collect()
}

fn key_name(table: &Table, index: Option<usize>, place: usize) -> String {
    let column = match index {
        None => table.primary_key.get(place).map(|part| part.column),
        Some(index) => match table.indexes[index].columns.get(place).map(|column| &column.source) {
            Some(IndexSource::Column(column)) => Some(*column),
            Some(IndexSource::Rowid) => return "rowid".to_owned(),
            Some(IndexSource::Expr(_)) => return "<expr>".to_owned(),
            None => None,
        },
    };
    column.and_then(|column| table.columns.get(column)).map_or(String::new(), |c| c.name.clone())
}

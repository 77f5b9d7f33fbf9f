//! Nodes of mapped tables by their keys in SQL.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;
use shoal_sql::Value as Sql;

use super::TablesGraph;
use super::rows::{Inner, Kind, parts};
use crate::error::{Error, Result};
use crate::json;
use crate::pgq::elements::quoted;
use crate::source::Source;
use crate::value::Value;

/// Keys of nodes by their ids, read a table at a time.
#[derive(Default)]
pub(crate) struct KnownKeys(FxHashMap<usize, FxHashMap<i64, Sql>>);

impl<S: Source> TablesGraph<S> {
    /// The first label of a node's table.
    pub(crate) fn label_of(&self, id: i64) -> &str {
        self.node_kind(parts(id).0).map_or("", |kind| Self::type_of(kind.table))
    }

    /// The key of a node: the column of a simple one, a JSON array of several columns, the rowid
    /// of a table without a key.
    pub(crate) fn key_of(&self, id: i64, known: &mut KnownKeys) -> Result<Sql> {
        let (place, row) = parts(id);
        let Some(kind) = self.node_kind(place) else { return Ok(Sql::Null) };
        let rowid = kind.table.facts.rowid.as_ref();
        if rowid.is_some_and(|rowid| kind.table.key == [rowid.as_str()]) {
            return Ok(Sql::Int(row));
        }
        let keys = match known.0.entry(place) {
            Entry::Occupied(keys) => keys.into_mut(),
            Entry::Vacant(none) => none.insert(self.keys_of(kind)?),
        };
        Ok(keys.get(&id).cloned().unwrap_or_default())
    }

    fn keys_of(&self, kind: Kind<'_>) -> Result<FxHashMap<i64, Sql>> {
        let inner = &mut *self.inner.borrow_mut();
        let identity = kind.key_columns();
        let key: Vec<String> = kind.table.key.iter().map(|column| quoted(column)).collect();
        let shown = match &*key {
            [one] => one.clone(),
            several => format!("json_array({})", several.join(", ")),
        };
        let table = quoted(&kind.table.table);
        let sql = format!("SELECT {shown}, {} FROM {table}", identity.join(", "));
        let mut rows = Vec::new();
        inner.source.rows(&sql, &[], &mut |row| {
            rows.push(row.to_vec());
            Ok(())
        })?;
        let mut keys = FxHashMap::default();
        for mut row in rows {
            let id = inner.id(kind, &row[1..])?;
            keys.insert(id, std::mem::take(&mut row[0]));
        }
        Ok(keys)
    }

    /// The node of a text `LABEL/KEY`, or of a key in the first vertex table; numbers are numbers.
    ///
    /// # Errors
    /// As [`TablesGraph::node_by_key`].
    pub(crate) fn node_named(&self, text: &str) -> Result<Option<i64>> {
        let (label, key) = match text.split_once('/') {
            Some((label, key)) => (Some(label), key),
            None => (None, text),
        };
        let number = key.parse().ok().map(Sql::Int);
        self.node_by_key(label, &number.unwrap_or_else(|| Sql::text(key)))
    }

    /// The node of a key, in the tables with a label or else in the first.
    ///
    /// # Errors
    /// No table with the label; a key of other columns.
    pub(crate) fn node_by_key(&self, label: Option<&str>, key: &Sql) -> Result<Option<i64>> {
        let kinds: Vec<Kind<'_>> = match label {
            Some(_) => self.labelled(label).collect(),
            None => self.node_kind(0).into_iter().collect(),
        };
        if kinds.is_empty() {
            let label = label.unwrap_or_default();
            return Err(Error::storage(format!(
                "no vertex table of graph {} has the label {label}",
                self.graph.name
            )));
        }
        for kind in kinds {
            let values = match (kind.table.key.len(), key) {
                (1, key) => vec![key.clone()],
                (width, Sql::Text(text)) => values_of(&String::from_utf8_lossy(text), width)?,
                _ => return Err(Error::storage(several(kind))),
            };
            let columns = kind.table.key.iter().enumerate();
            let equal: Vec<String> =
                columns.map(|(at, column)| format!("{} = ?{}", quoted(column), at + 1)).collect();
            let sql = format!(
                "SELECT {} FROM {} WHERE {}",
                kind.key_columns().join(", "),
                quoted(&kind.table.table),
                equal.join(" AND ")
            );
            let inner: &mut Inner<S> = &mut self.inner.borrow_mut();
            let mut found = None;
            inner.source.rows(&sql, &values, &mut |row| {
                found.get_or_insert_with(|| row.to_vec());
                Ok(())
            })?;
            if let Some(row) = found {
                return inner.id(kind, &row).map(Some);
            }
        }
        Ok(None)
    }
}

fn several(kind: Kind<'_>) -> String {
    let (table, columns) = (&kind.table.table, kind.table.key.join(", "));
    format!("the key of {table} is a JSON array of the columns {columns}")
}

/// The values of a JSON array of so many.
fn values_of(text: &str, width: usize) -> Result<Vec<Sql>> {
    let map = json::read(&format!("{{\"key\":{text}}}"))?;
    let Some(Value::List(list)) = map.get("key") else {
        return Err(Error::storage("a key of several columns is a JSON array"));
    };
    if list.len() != width {
        return Err(Error::storage(format!("a key has {width} columns, not {}", list.len())));
    }
    let value = |value: &Value| match value {
        Value::Integer(number) => Sql::Int(*number),
        Value::Float(number) => Sql::Real(*number),
        Value::Text(text) => Sql::text(&**text),
        _ => Sql::Null,
    };
    Ok(list.iter().map(value).collect())
}

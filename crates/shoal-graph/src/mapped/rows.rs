//! Rows of a graph's tables: identities, columns, writes.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use shoal_sql::Value as Sql;

use crate::error::{Error, Result};
use crate::graph::{NodeData, RelationshipData};
use crate::kept::Kept;
use crate::pgq::definition::{EdgeEnd, ElementTable, Property};
use crate::pgq::elements::quoted;
use crate::source::Source;
use crate::value::{Map, Value};

/// Bits of an id below the table's place.
const ROW_BITS: u32 = 55;

/// Rows counted exactly.
const COUNTED_MAX: u64 = 1000;

/// A source, and what was read of the graph in the transaction under way.
pub(super) struct Inner<S> {
    pub(super) source: S,
    pub(super) nodes: Kept<NodeData>,
    pub(super) relationships: Kept<RelationshipData>,
    /// Keys of tables without rowids, by node or edge and the table's place.
    pub(super) keys: FxHashMap<(bool, usize), Arc<Keys>>,
}

/// The keys of a table without rowids, ascending, and the place of each.
#[derive(Clone, Default)]
pub(super) struct Keys {
    keys: Vec<Vec<Sql>>,
    places: FxHashMap<Vec<u8>, i64>,
}

impl Keys {
    /// The id of a row by its key.
    pub(super) fn id(&self, kind: Kind<'_>, key: &[Sql]) -> Result<i64> {
        match self.places.get(&key_bytes(key)) {
            Some(&place) => kind.id(place),
            None => Err(Error::storage(format!(
                "a row of {} came while the query ran, and has no id in it",
                kind.table.table
            ))),
        }
    }
}

/// An element as the statements that ask for it see it.
#[derive(Clone, Copy)]
pub(super) struct Kind<'g> {
    pub(super) is_node: bool,
    pub(super) place: usize,
    pub(super) table: &'g ElementTable,
}

impl Kind<'_> {
    pub(super) fn id(&self, row: i64) -> Result<i64> {
        let max = 1_i64 << ROW_BITS;
        if !(0..max).contains(&row) {
            let table = &self.table.table;
            return Err(Error::storage(format!(
                "row {row} of {table} has no id in a graph: rowids from 0 to {} have",
                max - 1
            )));
        }
        let place = i64::try_from(self.place).expect("tables are few");
        Ok((place << ROW_BITS) | row)
    }

    /// The id of a row of a table with rowids.
    pub(super) fn id_of_rowid(&self, key: &[Sql]) -> Result<i64> {
        match key {
            [Sql::Int(rowid)] => self.id(*rowid),
            _ => Err(Error::storage(format!("a rowid of {} is no integer", self.table.table))),
        }
    }

    /// The columns of the row's identity: its rowid, or the key.
    pub(super) fn key_columns(&self) -> Vec<String> {
        match &self.table.facts.rowid {
            Some(rowid) => vec![rowid_sql(rowid)],
            None => self.table.facts.key().iter().map(|column| quoted(column)).collect(),
        }
    }
}

/// The table's place and the row of an id.
pub(crate) fn parts(id: i64) -> (usize, i64) {
    let place = usize::try_from(id >> ROW_BITS).unwrap_or(usize::MAX);
    (place, id & ((1 << ROW_BITS) - 1))
}

pub(super) fn rowid_sql(rowid: &str) -> String {
    match rowid {
        "rowid" | "_rowid_" | "oid" => rowid.to_owned(),
        column => quoted(column),
    }
}

/// Equal bytes for equal keys.
pub(super) fn key_bytes(key: &[Sql]) -> Vec<u8> {
    format!("{key:?}").into_bytes()
}

/// A value of a column in Cypher.
pub(super) fn value_of(table: &str, column: &str, value: &Sql) -> Result<Value> {
    Ok(match value {
        Sql::Null => Value::Null,
        Sql::Int(number) => Value::Integer(*number),
        Sql::Real(number) => Value::Float(*number),
        Sql::Text(bytes) => Value::text(&String::from_utf8_lossy(bytes)),
        Sql::Blob(_) => {
            return Err(Error::storage(format!(
                "column {column} of {table} holds a blob, which Cypher has no value for: PROPERTIES \
                 ALL COLUMNS EXCEPT ({column}) leaves it out of the graph"
            )));
        }
    })
}

/// A value of Cypher in a column: truth values are 1 and 0.
pub(super) fn sql_of(table: &str, key: &str, value: &Value) -> Result<Sql> {
    Ok(match value {
        Value::Null => Sql::Null,
        Value::Boolean(is) => Sql::Int(i64::from(*is)),
        Value::Integer(number) => Sql::Int(*number),
        Value::Float(number) => Sql::Real(*number),
        Value::Text(text) => Sql::text(&**text),
        other => {
            let kind = other.to_string();
            return Err(Error::storage(format!(
                "property {key} cannot be kept in a column of {table}: {kind} is no number and no text"
            )));
        }
    })
}

impl<S: Source> Inner<S> {
    /// The keys of a table without rowids.
    pub(super) fn keys(&mut self, kind: Kind<'_>) -> Result<Arc<Keys>> {
        if let Some(keys) = self.keys.get(&(kind.is_node, kind.place)) {
            return Ok(Arc::clone(keys));
        }
        let columns = kind.key_columns().join(", ");
        let sql = format!("SELECT {columns} FROM {} ORDER BY {columns}", quoted(&kind.table.table));
        let mut keys = Keys::default();
        self.source.rows(&sql, &[], &mut |row| {
            let place = i64::try_from(keys.keys.len()).expect("fewer rows than memory");
            keys.places.insert(key_bytes(row), place);
            keys.keys.push(row.to_vec());
            Ok(())
        })?;
        let keys = Arc::new(keys);
        self.keys.insert((kind.is_node, kind.place), Arc::clone(&keys));
        Ok(keys)
    }

    /// The id of a row, from the columns of its identity.
    pub(super) fn id(&mut self, kind: Kind<'_>, key: &[Sql]) -> Result<i64> {
        match kind.table.facts.rowid {
            Some(_) => kind.id_of_rowid(key),
            None => self.keys(kind)?.id(kind, key),
        }
    }

    /// The values of the identity of an id's row; none where the row was never there.
    pub(super) fn key(&mut self, kind: Kind<'_>, row: i64) -> Result<Option<Vec<Sql>>> {
        match kind.table.facts.rowid {
            Some(_) => Ok(Some(vec![Sql::Int(row)])),
            None => {
                let keys = self.keys(kind)?;
                Ok(usize::try_from(row).ok().and_then(|row| keys.keys.get(row).cloned()))
            }
        }
    }

    /// The condition that a row has the identity given as parameters from a number on.
    pub(super) fn is_key(kind: Kind<'_>, alias: &str, first: usize) -> String {
        let columns = kind.key_columns().into_iter().enumerate();
        let equal: Vec<String> =
            columns.map(|(at, column)| format!("{alias}.{column} = ?{}", first + at)).collect();
        equal.join(" AND ")
    }

    pub(super) fn properties(&mut self, kind: Kind<'_>, row: i64) -> Result<Option<Map>> {
        let Some(key) = self.key(kind, row)? else { return Ok(None) };
        let table = kind.table;
        let mut wanted: Vec<&(String, Property)> = Vec::new();
        for pair in table.labels.iter().flat_map(|label| &label.properties) {
            if !wanted.contains(&pair) {
                wanted.push(pair);
            }
        }
        let columns: Vec<String> = wanted.iter().map(|(_, made_of)| made_of.sql("t")).collect();
        let columns = if columns.is_empty() { "1".to_owned() } else { columns.join(", ") };
        let sql = format!(
            "SELECT {columns} FROM {} AS t WHERE {}",
            quoted(&table.table),
            Self::is_key(kind, "t", 1)
        );
        let mut found = None;
        self.source.rows(&sql, &key, &mut |row| {
            let mut map = Map::new();
            for ((property, _), value) in wanted.iter().zip(row) {
                let value = value_of(&table.table, property, value)?;
                if !value.is_null() {
                    map.insert(Arc::from(&**property), value);
                }
            }
            found = Some(map);
            Ok(())
        })?;
        Ok(found)
    }

    /// Appends ids of a table's rows above a row, and how many more may be appended.
    pub(super) fn rows_of(
        &mut self,
        kind: Kind<'_>,
        after: i64,
        count: usize,
        to: &mut Vec<i64>,
    ) -> Result<()> {
        if kind.table.facts.rowid.is_none() {
            let length = i64::try_from(self.keys(kind)?.keys.len()).expect("rows fit memory");
            for row in (after + 1..length).take(count) {
                to.push(kind.id(row)?);
            }
            return Ok(());
        }
        let rowid = &kind.key_columns()[0];
        let table = quoted(&kind.table.table);
        if after < 0 {
            // Rows below 0 have no ids: they are told, not left out.
            let sql = format!("SELECT {rowid} FROM {table} WHERE {rowid} < 0 LIMIT 1");
            self.source.rows(&sql, &[], &mut |row| match row {
                [Sql::Int(row)] => kind.id(*row).map(drop),
                _ => Ok(()),
            })?;
        }
        let sql =
            format!("SELECT {rowid} FROM {table} WHERE {rowid} > ?1 ORDER BY {rowid} LIMIT ?2");
        let count = Sql::Int(i64::try_from(count).unwrap_or(i64::MAX));
        self.source.rows(&sql, &[Sql::Int(after), count], &mut |row| {
            if let [Sql::Int(row)] = row {
                to.push(kind.id(*row)?);
            }
            Ok(())
        })
    }

    pub(super) fn count(&mut self, kind: Kind<'_>) -> Result<u64> {
        let table = quoted(&kind.table.table);
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {COUNTED_MAX})");
        let mut count = 0;
        let mut take = |row: &[Sql]| {
            if let [Sql::Int(number)] = row {
                count = u64::try_from(*number).unwrap_or(0);
            }
            Ok(())
        };
        self.source.rows(&sql, &[], &mut take)?;
        if count >= COUNTED_MAX && kind.table.facts.rowid.is_some() {
            let rowid = &kind.key_columns()[0];
            let sql = format!("SELECT max({rowid}) FROM {table}");
            let mut largest = |row: &[Sql]| {
                if let [Sql::Int(number)] = row {
                    count = count.max(u64::try_from(*number).unwrap_or(0));
                }
                Ok(())
            };
            self.source.rows(&sql, &[], &mut largest)?;
        }
        Ok(count)
    }

    /// Columns of a row by its identity.
    pub(super) fn columns_of(
        &mut self,
        kind: Kind<'_>,
        row: i64,
        columns: &[String],
    ) -> Result<Option<Vec<Sql>>> {
        let Some(key) = self.key(kind, row)? else { return Ok(None) };
        let columns: Vec<String> = columns.iter().map(|column| rowid_sql(column)).collect();
        let sql = format!(
            "SELECT {} FROM {} AS t WHERE {}",
            columns.join(", "),
            quoted(&kind.table.table),
            Self::is_key(kind, "t", 1)
        );
        let mut found = None;
        self.source.rows(&sql, &key, &mut |row| {
            found = Some(row.to_vec());
            Ok(())
        })?;
        Ok(found)
    }

    /// Sets columns of a row, some of which may be NULL then.
    pub(super) fn set(&mut self, kind: Kind<'_>, row: i64, old: &Map, new: &Map) -> Result<()> {
        let table = &kind.table.table;
        let (mut sets, mut values) = (Vec::new(), Vec::new());
        for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
            if old.get(key) == new.get(key) {
                continue;
            }
            let column = column_for(kind.table, key)?;
            if kind.key_columns().contains(&quoted(column)) {
                return Err(Error::storage(format!(
                    "property {key} is the key of a row of {table}: SQL changes it, not a query"
                )));
            }
            values.push(new.get(key).map_or(Ok(Sql::Null), |value| sql_of(table, key, value))?);
            sets.push(format!("{} = ?{}", quoted(column), values.len()));
        }
        if sets.is_empty() {
            return Ok(());
        }
        let Some(key) = self.key(kind, row)? else { return Ok(()) };
        let sql = format!(
            "UPDATE {} AS t SET {} WHERE {}",
            quoted(table),
            sets.join(", "),
            Self::is_key(kind, "t", values.len() + 1)
        );
        values.extend(key);
        self.source.execute(&sql, &values)
    }

    /// Inserts a row of columns and values; gives its id.
    pub(super) fn insert(&mut self, kind: Kind<'_>, columns: &[(String, Sql)]) -> Result<i64> {
        let table = quoted(&kind.table.table);
        let sql = match columns.is_empty() {
            true => format!("INSERT INTO {table} DEFAULT VALUES"),
            false => {
                let names: Vec<String> = columns.iter().map(|(column, _)| quoted(column)).collect();
                let numbers: Vec<String> =
                    (1..=columns.len()).map(|number| format!("?{number}")).collect();
                format!(
                    "INSERT INTO {table} ({}) VALUES ({})",
                    names.join(", "),
                    numbers.join(", ")
                )
            }
        };
        let values: Vec<Sql> = columns.iter().map(|(_, value)| value.clone()).collect();
        self.source.execute(&sql, &values)?;
        if kind.table.facts.rowid.is_some() {
            return kind.id(self.source.last_insert_rowid());
        }
        self.number(kind, columns)
    }

    /// Numbers a new row of a table without rowids: it comes last, ids of others stay.
    pub(super) fn number(&mut self, kind: Kind<'_>, columns: &[(String, Sql)]) -> Result<i64> {
        let table = &kind.table.table;
        let given: Option<Vec<Sql>> = kind
            .table
            .facts
            .key()
            .iter()
            .map(|column| columns.iter().find(|(name, _)| name == column).map(|(_, it)| it.clone()))
            .collect();
        let Some(given) = given else {
            return Err(Error::storage(format!("a new row of {table} has no key of its own")));
        };
        // The stored key, after the columns' affinities.
        let sql = format!(
            "SELECT {} FROM {} AS t WHERE {}",
            kind.key_columns().join(", "),
            quoted(table),
            Self::is_key(kind, "t", 1)
        );
        let mut stored = None;
        self.source.rows(&sql, &given, &mut |row| {
            stored = Some(row.to_vec());
            Ok(())
        })?;
        let Some(key) = stored else {
            return Err(Error::storage(format!("a new row of {table} has another key than given")));
        };
        let keys = self.keys(kind)?;
        self.keys.remove(&(kind.is_node, kind.place));
        let mut keys = Arc::unwrap_or_clone(keys);
        let row = i64::try_from(keys.keys.len()).expect("rows fit memory");
        keys.places.insert(key_bytes(&key), row);
        keys.keys.push(key);
        self.keys.insert((kind.is_node, kind.place), Arc::new(keys));
        kind.id(row)
    }

    pub(super) fn delete(&mut self, kind: Kind<'_>, row: i64) -> Result<()> {
        let Some(key) = self.key(kind, row)? else { return Ok(()) };
        let sql = format!(
            "DELETE FROM {} AS t WHERE {}",
            quoted(&kind.table.table),
            Self::is_key(kind, "t", 1)
        );
        self.source.execute(&sql, &key)
    }
}

/// The column for writing a property.
///
/// # Errors
/// Expressions, and properties without a column.
fn column_for<'t>(table: &'t ElementTable, key: &str) -> Result<&'t str> {
    table.column(key).ok_or_else(|| {
        let table_name = &table.table;
        Error::storage(match table.property(key) {
            Some(_) => format!("property {key} of {table_name} is an expression: no query sets it"),
            None => format!("table {table_name} has no column for property {key}"),
        })
    })
}

/// Columns and values of properties.
pub(super) fn columns_of(table: &ElementTable, properties: &Map) -> Result<Vec<(String, Sql)>> {
    let mut columns = Vec::new();
    for (key, value) in properties {
        let column = column_for(table, key)?;
        columns.push((column.to_owned(), sql_of(&table.table, key, value)?));
    }
    Ok(columns)
}

/// The node with values in the columns that an edge refers to; none where no row has them.
pub(super) fn node_at<S: Source>(
    inner: &mut Inner<S>,
    node: Kind<'_>,
    end: &EdgeEnd,
    values: &[Sql],
) -> Result<Option<i64>> {
    let equal: Vec<String> = end
        .references
        .iter()
        .enumerate()
        .map(|(at, column)| format!("{} = ?{}", rowid_sql(column), at + 1))
        .collect();
    let sql = format!(
        "SELECT {} FROM {} WHERE {} LIMIT 1",
        node.key_columns().join(", "),
        quoted(&node.table.table),
        equal.join(" AND ")
    );
    let mut found = None;
    inner.source.rows(&sql, values, &mut |row| {
        found = Some(row.to_vec());
        Ok(())
    })?;
    found.map(|key| inner.id(node, &key)).transpose()
}

//! A table as differences see one: the columns told of, and the identity of rows.

use shoal_sql::{RowWalk, Table, Value, ValueRef, VisibleTable};

use crate::Error;
use crate::changeset::Head;

/// How rows of two files are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By the rowid, named by a column: `INTEGER PRIMARY KEY`.
    RowidColumn,
    /// By a declared primary key beside rowids. Rows with NULL in the key: by the rowid.
    Key,
    /// By the primary key of a table without rowids.
    WithoutRowid,
    /// By the rowid: no primary key is declared.
    Rowid,
}

/// A table's columns as differences tell of them: generated ones are left out, and a rowid without
/// a name comes first as `_rowid_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The table's name and the places of columns in the key.
    pub head: Head,
    /// The columns' names.
    pub columns: Vec<String>,
    /// How rows are matched.
    pub identity: Identity,
    /// The name for rowids in SQL; `None` where columns took all three, and without rowids.
    pub rowid_name: Option<&'static str>,
    /// The columns' places in the definition; `None` for the rowid.
    sources: Vec<Option<usize>>,
    /// True for columns of a unique index beside the primary key.
    unique: Vec<bool>,
}

impl Shape {
    /// The shape of a table.
    pub fn of(table: &Table) -> Shape {
        let has_key = table.columns().iter().any(|column| column.primary_key_place() > 0);
        let identity = match (table.is_without_rowid(), table.rowid_alias(), has_key) {
            (true, _, _) => Identity::WithoutRowid,
            (false, Some(_), _) => Identity::RowidColumn,
            (false, None, true) => Identity::Key,
            (false, None, false) => Identity::Rowid,
        };
        let free = |name: &&str| table.column_index(name).is_none();
        let names = ["_rowid_", "rowid", "oid"];
        let rowid_name = names.into_iter().find(free).filter(|_| !table.is_without_rowid());
        let mut shape = Shape {
            head: Head { table: table.name().to_owned(), keys: Vec::new() },
            columns: Vec::new(),
            identity,
            rowid_name,
            sources: Vec::new(),
            unique: Vec::new(),
        };
        if identity == Identity::Rowid {
            shape.head.keys.push(1);
            shape.columns.push("_rowid_".to_owned());
            shape.sources.push(None);
            shape.unique.push(false);
        }
        let indexes = || table.indexes().iter().filter(|index| index.is_unique());
        // An expression may read any column.
        let of_expressions = indexes().any(|index| index.key().any(|column| column.is_none()));
        for (place, column) in table.columns().iter().enumerate() {
            if column.is_generated() {
                continue;
            }
            let is_unique = indexes().any(|index| index.key().any(|key| key == Some(place)));
            // A key has fewer columns than a byte counts in any table worth a changeset; the rest
            // of such a key still identifies the row.
            let key = u8::try_from(column.primary_key_place()).unwrap_or(u8::MAX);
            shape.head.keys.push(key);
            shape.columns.push(column.name().to_owned());
            shape.sources.push(Some(place));
            shape.unique.push(is_unique || of_expressions);
        }
        shape
    }

    /// The shape of a table under rules; `None` where neither its rowid nor its whole primary key
    /// is visible.
    pub(crate) fn visible(table: &VisibleTable) -> Option<Shape> {
        let keys = &table.keys;
        let is = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        let place_of = |column: &str| keys.primary_key.iter().position(|key| is(key, column));
        let alias = keys.rowid.as_deref();
        let alias = alias.filter(|rowid| table.columns.iter().any(|column| is(column, rowid)));
        let identity = match (alias, keys.primary_key.is_empty(), &keys.rowid) {
            (Some(_), ..) => Identity::RowidColumn,
            (None, false, Some(_)) => Identity::Key,
            (None, false, None) => Identity::WithoutRowid,
            (None, true, Some(_)) => Identity::Rowid,
            (None, true, None) => return None,
        };
        let free = |name: &&str| !table.columns.iter().any(|column| is(column, name));
        let names = ["_rowid_", "rowid", "oid"];
        let rowid_name = names.into_iter().find(free).filter(|_| keys.rowid.is_some());
        let mut head = Head { table: table.name.clone(), keys: Vec::new() };
        let mut columns = Vec::new();
        if identity == Identity::Rowid {
            head.keys.push(1);
            columns.push("_rowid_".to_owned());
        }
        for column in &table.columns {
            let key = match alias {
                Some(alias) => u8::from(is(alias, column)),
                None => {
                    place_of(column).map_or(0, |place| u8::try_from(place + 1).unwrap_or(u8::MAX))
                }
            };
            head.keys.push(key);
            columns.push(column.clone());
        }
        // Rows are read by queries, and no constraint of the file is part of what is seen.
        let (sources, unique) = (Vec::new(), vec![false; columns.len()]);
        Some(Shape { head, columns, identity, rowid_name, sources, unique })
    }

    /// True where an update may collide with a row of a later change.
    pub(crate) fn has_unique(&self) -> bool {
        let keys = self.head.keys.iter();
        self.unique.iter().zip(keys).any(|(unique, place)| *unique && *place == 0)
    }

    /// True for an update of a column of a unique index.
    pub(crate) fn changes_unique(&self, old: &[Value], new: &[Value]) -> bool {
        self.unique.iter().zip(old.iter().zip(new)).any(|(unique, (a, b))| *unique && a != b)
    }

    /// The values of a walk's row.
    pub(crate) fn read(&self, walk: &mut RowWalk<'_>) -> Result<Vec<Value>, Error> {
        let mut row = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            row.push(match source {
                Some(column) => Value::from(walk.value(*column)?),
                None => Value::Int(walk.rowid()?.unwrap_or_default()),
            });
        }
        Ok(row)
    }

    /// True for a row with NULL in its key.
    pub(crate) fn has_null_key(&self, row: &[Value]) -> bool {
        self.head.key_columns().any(|column| row[column].is_null())
    }

    /// True for rows with the same key, types included.
    pub(crate) fn has_same_key(&self, a: &[Value], b: &[Value]) -> bool {
        self.head.key_columns().all(|column| a[column] == b[column])
    }
}

/// A row as a record without gaps.
pub(crate) fn whole(row: &[Value]) -> Vec<Option<ValueRef<'_>>> {
    row.iter().map(|value| Some(value.as_ref())).collect()
}

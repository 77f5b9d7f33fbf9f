//! Definitions in two files, and the steps from one schema to the other.

use std::collections::{BTreeMap, BTreeSet};

use shoal_sql::{Connection, Value};

use crate::Error;

/// A step from the first file's schema to the second's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// An object goes.
    Drop {
        /// `table`, `index`, `view` or `trigger`.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An object comes, by its definition.
    Create {
        /// `table`, `index`, `view` or `trigger`.
        kind: String,
        /// Its name.
        name: String,
        /// Its definition.
        sql: String,
    },
    /// A number in the file's header: `user_version` or `application_id`.
    Number {
        /// The pragma's name.
        name: &'static str,
        /// The value in the second file.
        value: i64,
    },
    /// The largest rowid ever given in a table with `AUTOINCREMENT`; `None` where no rowid was.
    Sequence {
        /// The table.
        table: String,
        /// The value in the second file.
        value: Option<i64>,
    },
}

/// A row of `sqlite_schema`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) table: String,
    pub(crate) sql: String,
}

impl Object {
    pub(crate) fn drop(&self) -> SchemaChange {
        SchemaChange::Drop { kind: self.kind.clone(), name: self.name.clone() }
    }

    pub(crate) fn create(&self) -> SchemaChange {
        let Object { kind, name, sql, .. } = self.clone();
        SchemaChange::Create { kind, name, sql }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        let word = "CREATE VIRTUAL";
        let start = self.sql.get(..word.len());
        self.kind == "table" && start.is_some_and(|start| start.eq_ignore_ascii_case(word))
    }
}

/// The objects of a file, in the file's order.
#[derive(Default)]
pub(crate) struct Definitions {
    pub(crate) objects: Vec<Object>,
    /// The names of shadow tables, in lower case.
    pub(crate) shadows: BTreeSet<String>,
}

impl Definitions {
    /// Reads the definitions, without SQLite's own tables and the tables named by `is_left_out`.
    pub(crate) fn read(
        connection: &mut Connection,
        is_left_out: &dyn Fn(&str) -> bool,
    ) -> Result<Definitions, Error> {
        let sql = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
                   ORDER BY rowid";
        let objects: Vec<Object> = query(connection, sql)?
            .into_iter()
            .map(|row| {
                let mut texts = row.iter().map(text);
                let mut next = || texts.next().unwrap_or_default();
                Object { kind: next(), name: next(), table: next(), sql: next() }
            })
            .filter(|object| !object.name.starts_with("sqlite_") && !is_left_out(&object.table))
            .collect();
        let schema = connection.schema()?;
        let names = objects.iter().map(|object| &object.table);
        let shadows = names.filter(|table| schema.shadow_owner(table).is_some());
        let shadows = shadows.map(|table| table.to_ascii_lowercase()).collect();
        Ok(Definitions { objects, shadows })
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Object> {
        let is = |object: &&Object| object.kind == kind && object.name.eq_ignore_ascii_case(name);
        self.objects.iter().find(is)
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Object> {
        self.of_kind("table")
    }

    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Object> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    /// True for a shadow table of a virtual table of this file.
    pub(crate) fn is_shadow(&self, table: &str) -> bool {
        self.shadows.contains(&table.to_ascii_lowercase())
    }
}

/// The steps between two schemas, in the order of a script; rows come between both lists.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) before: Vec<SchemaChange>,
    pub(crate) after: Vec<SchemaChange>,
    /// Names of tables made anew, in lower case.
    pub(crate) made: Vec<String>,
}

/// The steps from `a` to `b`; objects with the same definition stay, unless their table is made
/// anew.
pub(crate) fn steps(a: &Definitions, b: &Definitions) -> Steps {
    let mut steps = Steps { before: Vec::new(), after: Vec::new(), made: Vec::new() };
    let stays = |object: &Object| {
        let table_stays = |table: &str| {
            let (old, new) = (a.find("table", table), b.find("table", table));
            old.map(|it| &it.sql) == new.map(|it| &it.sql)
        };
        let same = |other: &Definitions| {
            other.find(&object.kind, &object.name).is_some_and(|found| found.sql == object.sql)
        };
        same(a) && same(b) && (object.kind == "view" || table_stays(&object.table))
    };
    let is_shadow = |object: &Object| a.is_shadow(&object.table) || b.is_shadow(&object.table);
    for kind in ["trigger", "view", "index", "table"] {
        for object in a.objects.iter().filter(|object| object.kind == kind && !is_shadow(object)) {
            // An index goes with its table.
            let goes_along = kind == "index"
                && a.find("table", &object.table).is_some_and(|table| !stays(table));
            if !stays(object) && !goes_along {
                steps.before.push(object.drop());
            }
        }
    }
    for kind in ["table", "index", "view", "trigger"] {
        for object in b.objects.iter().filter(|object| object.kind == kind && !is_shadow(object)) {
            if stays(object) {
                continue;
            }
            if kind == "table" {
                steps.before.push(object.create());
                steps.made.push(object.name.to_ascii_lowercase());
            } else {
                steps.after.push(object.create());
            }
        }
    }
    steps
}

/// The header's numbers with another value in the second file.
pub(crate) fn numbers(a: &mut Connection, b: &mut Connection) -> Result<Vec<SchemaChange>, Error> {
    let mut changes = Vec::new();
    for name in ["user_version", "application_id"] {
        let sql = format!("PRAGMA {name}");
        let [old, new] = [query(a, &sql)?, query(b, &sql)?];
        if old != new {
            let value = new.first().and_then(|row| row.first()).map_or(0, Value::to_int);
            changes.push(SchemaChange::Number { name, value });
        }
    }
    Ok(changes)
}

/// The counters of `AUTOINCREMENT` by table.
pub(crate) fn sequences(connection: &mut Connection) -> Result<BTreeMap<String, i64>, Error> {
    if connection.schema()?.table("sqlite_sequence").is_none() {
        return Ok(BTreeMap::new());
    }
    let rows = query(connection, "SELECT name, seq FROM sqlite_sequence")?;
    Ok(rows.iter().map(|row| (text(&row[0]), row[1].to_int())).collect())
}

/// The rows of a query.
pub(crate) fn query(connection: &mut Connection, sql: &str) -> Result<Vec<Vec<Value>>, Error> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = connection.query(&mut statement)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(row.values().map(Value::from).collect());
    }
    Ok(all)
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

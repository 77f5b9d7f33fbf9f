//! The tables of projections: made, read and written with SQL.

use std::collections::BTreeSet;
use std::sync::Arc;

use shoal_sql::{Connection, Object, Statement, Table, Value, ValueRef};

use super::define::{self, Definition, ProjectionStatement, parse};
use super::rows::Row;
use crate::tables::{PREFIX, query};
use crate::{Error, layout};

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The tables of a projection: the rows, and three for all beyond the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Rows,
    Conflicts,
    Misfits,
    Violations,
}

/// The parts of a projection.
pub(super) fn parts(definition: &Definition) -> impl Iterator<Item = Part> {
    let asserts = (!definition.asserts.is_empty()).then_some(Part::Violations);
    [Part::Rows, Part::Conflicts, Part::Misfits].into_iter().chain(asserts)
}

impl Part {
    /// The name of the part's table.
    pub(super) fn table(self, name: &str) -> String {
        let suffix = match self {
            Part::Rows => "",
            Part::Conflicts => "_conflicts",
            Part::Misfits => "_misfits",
            Part::Violations => "_violations",
        };
        format!("{name}{suffix}")
    }
}

/// The middle of the names of triggers against foreign rows. Shoal leaves them out where rows
/// become changes of documents.
const GUARD: &str = "_guard_";
/// The same of the tables beside, closed to everyone.
const KEEP: &str = "_keep_";

/// Tells the guards of projections' rows from other triggers.
pub(super) fn is_guard(table: &str, columns: [&str; 2], trigger: &str) -> bool {
    columns == ["_doc", "_id"]
        && trigger.strip_prefix(table).is_some_and(|rest| rest.starts_with(GUARD))
}

/// Why a table keeps its shape, told by one of its triggers; `None` for tables of others.
pub(super) fn closed(table: &str, columns: [&str; 2], trigger: &str) -> Option<String> {
    if columns != ["_doc", "_id"] {
        return None;
    }
    let rest = trigger.strip_prefix(table)?;
    if rest.starts_with(GUARD) {
        Some(format!("{table} is a projection of documents: DROP PROJECTION {table} drops it"))
    } else if rest.starts_with(KEEP) {
        Some(format!("{table} is kept by Shoal beside a projection, and goes with it"))
    } else {
        None
    }
}

/// The definition of a table, as SQLite keeps it.
fn table_sql(definition: &Definition, part: Part) -> String {
    let name = quoted(&part.table(&definition.name));
    let key = "_doc INTEGER NOT NULL, _id BLOB NOT NULL";
    let (columns, rest) = match part {
        Part::Rows => {
            let parent = if definition.is_nested() { "_parent BLOB, " } else { "" };
            let columns = definition.columns.iter().fold(parent.to_owned(), |columns, column| {
                columns + &format!("{} {}, ", quoted(&column.name), column.kind.declared())
            });
            (columns, "")
        }
        Part::Conflicts => {
            ("\"column\" TEXT NOT NULL, op TEXT NOT NULL, value, ".to_owned(), ", \"column\", op")
        }
        Part::Misfits => (
            "\"column\" TEXT NOT NULL, type TEXT NOT NULL, value TEXT, ".to_owned(),
            ", \"column\"",
        ),
        Part::Violations => ("assertion TEXT NOT NULL, ".to_owned(), ", assertion"),
    };
    format!("CREATE TABLE {name}({key}, {columns}PRIMARY KEY(_doc, _id{rest})) WITHOUT ROWID")
}

/// The events with a guard each.
const EVENTS: [&str; 3] = ["INSERT", "UPDATE", "DELETE"];

/// The name of a trigger against writes to a table.
fn guard_name(definition: &Definition, part: Part, event: &str) -> String {
    let kind = if part == Part::Rows { GUARD } else { KEEP };
    format!("{}{kind}{}", part.table(&definition.name), event.to_ascii_lowercase())
}

/// The triggers against writes to a table.
fn guards(definition: &Definition, part: Part) -> impl Iterator<Item = String> {
    let name = part.table(&definition.name);
    let text = match part {
        Part::Rows => format!("{name} is a projection of documents, which only Shoal writes"),
        _ => format!("{name} is kept by Shoal, beside the projection {}", definition.name),
    };
    let (text, table) = (text.replace('\'', "''"), quoted(&name));
    EVENTS.into_iter().map(move |event| {
        let trigger = quoted(&guard_name(definition, part, event));
        format!(
            "CREATE TRIGGER {trigger} BEFORE {event} ON {table} \
             BEGIN SELECT RAISE(ABORT, '{text}'); END"
        )
    })
}

/// Runs a statement in Shoal's own name: reserved tables are written, triggers sleep.
fn run(connection: &mut Connection, sql: &str, parameters: &[Value]) -> Result<(), Error> {
    connection.reserve_tables(None);
    let prepared = prepare(connection, sql);
    connection.reserve_tables(Some(PREFIX));
    let mut statement = prepared?;
    for (index, value) in parameters.iter().enumerate() {
        statement.bind(index + 1, value.clone())?;
    }
    connection.execute(&mut statement)?;
    Ok(())
}

/// Prepares a statement on a projection's table: triggers sleep.
fn prepare(connection: &mut Connection, sql: &str) -> Result<Statement, Error> {
    connection.silence_triggers(true);
    let prepared = connection.prepare(sql);
    connection.silence_triggers(false);
    Ok(prepared?)
}

/// Makes the tables of a projection and notes the definition.
pub(super) fn create(connection: &mut Connection, definition: &Definition) -> Result<(), Error> {
    make(connection, definition)?;
    let note = "INSERT INTO _shoal_projection(name, sql) VALUES (?1, ?2)";
    let values = [Value::text(definition.name.as_str()), Value::text(definition.sql.as_str())];
    run(connection, note, &values)?;
    for assert in &definition.asserts {
        let sql = format!("SELECT ({assert}) FROM {}", quoted(&definition.name));
        let refused = |error: shoal_sql::Error| Error::Definition {
            why: format!("{}: ASSERT ({assert}): {error}", definition.name),
        };
        connection.prepare(&sql).map_err(refused)?;
    }
    Ok(())
}

/// Makes the tables of a projection.
fn make(connection: &mut Connection, definition: &Definition) -> Result<(), Error> {
    for part in parts(definition) {
        run(connection, &table_sql(definition, part), &[])?;
        for guard in guards(definition, part) {
            run(connection, &guard, &[])?;
        }
    }
    Ok(())
}

/// Drops the tables of a projection, and forgets the definition.
pub(super) fn remove(connection: &mut Connection, definition: &Definition) -> Result<(), Error> {
    for part in parts(definition) {
        let name = part.table(&definition.name);
        run(connection, &format!("DROP TABLE IF EXISTS {}", quoted(&name)), &[])?;
    }
    let forget = "DELETE FROM _shoal_projection WHERE name = ?1 COLLATE NOCASE";
    run(connection, forget, &[Value::text(definition.name.as_str())])
}

/// Drops the remains of a projection without a sound definition: its row among the definitions,
/// and the tables of its name with guards. False where there is neither.
pub(super) fn forget(connection: &mut Connection, name: &str) -> Result<bool, Error> {
    let mut had = false;
    let value = [Value::text(name)];
    let sql = "SELECT 1 FROM _shoal_projection WHERE name = ?1 COLLATE NOCASE";
    query(connection, sql, &value, |_| {
        had = true;
        Ok(())
    })?;
    for part in [Part::Rows, Part::Conflicts, Part::Misfits, Part::Violations] {
        let mut table = None;
        let sql = "SELECT tbl_name, name FROM sqlite_schema \
                   WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
        query(connection, sql, &[Value::text(part.table(name))], |row| {
            if let [ValueRef::Text(owner), ValueRef::Text(trigger)] = row {
                let owner = String::from_utf8_lossy(owner).into_owned();
                let trigger = String::from_utf8_lossy(trigger);
                if closed(&owner, ["_doc", "_id"], &trigger).is_some() {
                    table = Some(owner);
                }
            }
            Ok(())
        })?;
        if let Some(table) = table {
            run(connection, &format!("DROP TABLE IF EXISTS {}", quoted(&table)), &[])?;
            had = true;
        }
    }
    run(connection, "DELETE FROM _shoal_projection WHERE name = ?1 COLLATE NOCASE", &value)?;
    Ok(had)
}

/// Makes the tables of a projection anew and empty, but for the rows' indexes and the triggers of
/// users, which stay.
pub(super) fn remake(connection: &mut Connection, definition: &Definition) -> Result<(), Error> {
    let mut own = Vec::new();
    let sql = "SELECT type, name, sql FROM sqlite_schema WHERE tbl_name = ?1 COLLATE NOCASE \
               AND type IN ('index', 'trigger') AND sql IS NOT NULL";
    query(connection, sql, &[Value::text(definition.name.as_str())], |row| {
        if let [ValueRef::Text(kind), ValueRef::Text(name), ValueRef::Text(sql)] = row {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            own.push((text(kind), text(name), text(sql)));
        }
        Ok(())
    })?;
    for part in parts(definition) {
        // A view may have taken the name.
        let name = part.table(&definition.name);
        let is_view = matches!(connection.schema()?.object(&name), Some(Object::View(_)));
        let kind = if is_view { "VIEW" } else { "TABLE" };
        run(connection, &format!("DROP {kind} IF EXISTS {}", quoted(&name)), &[])?;
        // A renamed table took the guards along: their names are the projection's.
        for event in EVENTS {
            let guard = quoted(&guard_name(definition, part, event));
            run(connection, &format!("DROP TRIGGER IF EXISTS {guard}"), &[])?;
        }
    }
    make(connection, definition)?;
    let whole: BTreeSet<String> =
        parts(definition).flat_map(|part| guards(definition, part)).collect();
    for (kind, name, sql) in own {
        let guards = [GUARD, KEEP].map(|kind| format!("{}{kind}", definition.name));
        let is_guard = guards.iter().any(|guard| name.starts_with(guard)) || whole.contains(&sql);
        let is_unique = kind == "index"
            && sql.split_whitespace().nth(1).is_some_and(|it| it.eq_ignore_ascii_case("UNIQUE"));
        if !is_guard && !is_unique {
            // An index of a dropped column stays away.
            let _ = run(connection, &sql, &[]);
        }
    }
    Ok(())
}

/// The definitions of the file's projections.
pub(super) fn definitions(connection: &mut Connection) -> Result<Vec<Definition>, Error> {
    let mut found: Vec<Definition> = Vec::new();
    if connection.schema()?.table(layout::PROJECTION).is_none() {
        return Ok(found);
    }
    query(connection, "SELECT name, sql FROM _shoal_projection ORDER BY name", &[], |row| {
        let [ValueRef::Text(name), ValueRef::Text(sql)] = row else {
            return Err(Error::Layout { table: layout::PROJECTION });
        };
        let broken = |why: String| {
            let name = String::from_utf8_lossy(name);
            let way_out = format!("DROP PROJECTION {} drops it", quoted(&name));
            Error::Definition { why: format!("{} {name}: {why}; {way_out}", layout::PROJECTION) }
        };
        let parsed = parse(&String::from_utf8_lossy(sql)).map_err(|it| broken(it.to_string()))?;
        let Some(ProjectionStatement::Create { definition, .. }) = parsed else {
            return Err(broken("is not CREATE PROJECTION".to_owned()));
        };
        if !definition.name.as_bytes().eq_ignore_ascii_case(name) {
            return Err(broken(format!("the statement is of {}", definition.name)));
        }
        found.push(definition);
        Ok(())
    })?;
    define::resolve_all(found)
}

/// The definition of a projection.
pub(super) fn definition(
    connection: &mut Connection,
    name: &str,
) -> Result<Option<Definition>, Error> {
    let all = definitions(connection)?;
    Ok(all.into_iter().find(|definition| definition.name.eq_ignore_ascii_case(name)))
}

/// True where the tables and their guards are unaltered, and no unique index could refuse a row.
pub(super) fn is_whole(
    connection: &mut Connection,
    definition: &Definition,
) -> Result<bool, Error> {
    let mut found = BTreeSet::new();
    let sql = "SELECT sql FROM sqlite_schema WHERE tbl_name = ?1 AND type IN ('table', 'trigger')";
    for part in parts(definition) {
        let name = part.table(&definition.name);
        query(connection, sql, &[Value::text(name.as_str())], |row| {
            if let [ValueRef::Text(sql)] = row {
                found.insert(String::from_utf8_lossy(sql).into_owned());
            }
            Ok(())
        })?;
        let is_unique = |table: &Arc<Table>| {
            // The index of the primary key has no name of a user's.
            table.indexes().iter().any(|it| it.is_unique() && !it.name().starts_with("sqlite_"))
        };
        if connection.schema()?.table(&name).is_some_and(is_unique) {
            return Ok(false);
        }
    }
    Ok(parts(definition).all(|part| {
        found.contains(&table_sql(definition, part))
            && guards(definition, part).all(|it| found.contains(&it))
    }))
}

/// True where the definition's condition holds for a document's name.
pub(super) fn chooses(
    connection: &mut Connection,
    definition: &Definition,
    name: &str,
) -> Result<bool, Error> {
    let Some(condition) = &definition.documents else { return Ok(true) };
    let sql = format!("SELECT 1 FROM (SELECT ?1 AS name) WHERE ({condition})");
    let mut chosen = false;
    query(connection, &sql, &[Value::text(name)], |_| {
        chosen = true;
        Ok(())
    })?;
    Ok(chosen)
}

/// Tries the condition on a name: one that fails would stop every later commit of a document.
pub(super) fn check_condition(
    connection: &mut Connection,
    definition: &Definition,
) -> Result<(), Error> {
    let refused =
        |error: Error| Error::Definition { why: format!("{}: WHERE: {error}", definition.name) };
    chooses(connection, definition, "name").map(drop).map_err(refused)
}

/// The keys of a document's rows.
pub(super) fn keys(
    connection: &mut Connection,
    definition: &Definition,
    doc: i64,
) -> Result<BTreeSet<Vec<u8>>, Error> {
    let mut keys = BTreeSet::new();
    let sql = format!("SELECT _id FROM {} WHERE _doc = ?1", quoted(&definition.name));
    query(connection, &sql, &[Value::Int(doc)], |row| {
        if let [ValueRef::Blob(key)] = row {
            keys.insert(key.to_vec());
        }
        Ok(())
    })?;
    Ok(keys)
}

/// Deletes the rows of a document.
pub(super) fn clear(
    connection: &mut Connection,
    definition: &Definition,
    doc: i64,
) -> Result<(), Error> {
    for part in parts(definition) {
        let name = quoted(&part.table(&definition.name));
        run(connection, &format!("DELETE FROM {name} WHERE _doc = ?1"), &[Value::Int(doc)])?;
    }
    Ok(())
}

/// The writing statements of a projection, prepared at their first use.
#[derive(Debug, Default)]
pub(super) struct Statements {
    put: Option<Statement>,
    delete: Option<Statement>,
    /// By part: the deletion of a row's entries there.
    clear: [Option<Statement>; 3],
    conflict: Option<Statement>,
    misfit: Option<Statement>,
    violation: Option<Statement>,
    broken: Option<Statement>,
}

/// Writes rows of one document.
pub(super) struct Writer<'c> {
    connection: &'c mut Connection,
    definition: &'c Definition,
    doc: i64,
    statements: &'c mut Statements,
    /// By part: true where its table may have entries, once somebody looked. Most projections have
    /// no conflict and no misfit, and nothing is to be deleted.
    beside: [Option<bool>; 3],
}

impl<'c> Writer<'c> {
    pub(super) fn new(
        connection: &'c mut Connection,
        definition: &'c Definition,
        doc: i64,
        statements: &'c mut Statements,
    ) -> Self {
        Writer { connection, definition, doc, statements, beside: [None; 3] }
    }

    /// Goes on with the rows of another document.
    pub(super) fn at(&mut self, doc: i64) {
        self.doc = doc;
    }

    /// Writes a row, in the place of the one with its key.
    pub(super) fn put(&mut self, row: &Row) -> Result<(), Error> {
        let nested = usize::from(self.definition.is_nested());
        let statement = match &mut self.statements.put {
            Some(statement) => statement,
            none => {
                let marks = ", ?".repeat(nested + self.definition.columns.len());
                let table = quoted(&self.definition.name);
                let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?{marks})");
                none.insert(prepare(self.connection, &sql)?)
            }
        };
        statement.bind(1, self.doc)?;
        statement.bind_ref(2, ValueRef::Blob(&row.key))?;
        if nested == 1 {
            let parent = row.parent.as_deref().map_or(ValueRef::Null, ValueRef::Blob);
            statement.bind_ref(3, parent)?;
        }
        for (index, value) in row.values.iter().enumerate() {
            statement.bind_ref(index + 3 + nested, value.as_ref())?;
        }
        self.connection.execute(statement)?;
        self.put_beside(row)
    }

    /// Writes a row's conflicts, misfits and violations.
    pub(super) fn put_beside(&mut self, row: &Row) -> Result<(), Error> {
        let Definition { name, columns, asserts, .. } = self.definition;
        self.clear_beside(&row.key)?;
        if !(row.conflicts.is_empty() && row.misfits.is_empty() && asserts.is_empty()) {
            self.beside = [Some(true); 3];
        }
        for (column, op, value) in &row.conflicts {
            let statement = match &mut self.statements.conflict {
                Some(statement) => statement,
                none => {
                    let table = quoted(&Part::Conflicts.table(name));
                    let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)");
                    none.insert(prepare(self.connection, &sql)?)
                }
            };
            statement.bind(1, self.doc)?;
            statement.bind_ref(2, ValueRef::Blob(&row.key))?;
            statement.bind_ref(3, ValueRef::Text(columns[*column].name.as_bytes()))?;
            statement.bind_ref(4, ValueRef::Text(op.as_bytes()))?;
            statement.bind_ref(5, value.as_ref())?;
            self.connection.execute(statement)?;
        }
        for (column, kind, value) in &row.misfits {
            let statement = match &mut self.statements.misfit {
                Some(statement) => statement,
                none => {
                    let table = quoted(&Part::Misfits.table(name));
                    let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?)");
                    none.insert(prepare(self.connection, &sql)?)
                }
            };
            statement.bind(1, self.doc)?;
            statement.bind_ref(2, ValueRef::Blob(&row.key))?;
            statement.bind_ref(3, ValueRef::Text(columns[*column].name.as_bytes()))?;
            statement.bind_ref(4, ValueRef::Text(kind.as_bytes()))?;
            statement.bind_ref(5, value.as_ref())?;
            self.connection.execute(statement)?;
        }
        if !asserts.is_empty() {
            self.put_violations(&row.key)?;
        }
        Ok(())
    }

    /// Notes the assertions broken by a row, already written. As in `CHECK` an unknown
    /// answer breaks nothing.
    fn put_violations(&mut self, key: &[u8]) -> Result<(), Error> {
        let Definition { name, asserts, .. } = self.definition;
        let statement = match &mut self.statements.broken {
            Some(statement) => statement,
            none => {
                let holds: Vec<String> =
                    asserts.iter().map(|it| format!("({it}) IS NOT FALSE")).collect();
                let (holds, table) = (holds.join(", "), quoted(name));
                let sql = format!("SELECT {holds} FROM {table} WHERE _doc = ?1 AND _id = ?2");
                none.insert(prepare(self.connection, &sql)?)
            }
        };
        statement.bind(1, self.doc)?;
        statement.bind_ref(2, ValueRef::Blob(key))?;
        let mut broken: Vec<&String> = Vec::new();
        let mut rows = self.connection.query(statement)?;
        match rows.next() {
            Ok(Some(row)) => {
                let holds = row.values().zip(asserts);
                let breaks = |(value, assert)| (value == ValueRef::Int(0)).then_some(assert);
                broken.extend(holds.filter_map(breaks));
            }
            Ok(None) => {}
            Err(error @ shoal_sql::Error::Store(_)) => return Err(error.into()),
            // A condition beyond computing stops nothing either.
            Err(_) => broken.extend(asserts),
        }
        drop(rows);
        for assert in broken {
            let statement = match &mut self.statements.violation {
                Some(statement) => statement,
                none => {
                    let table = quoted(&Part::Violations.table(name));
                    let sql = format!("INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)");
                    none.insert(prepare(self.connection, &sql)?)
                }
            };
            statement.bind(1, self.doc)?;
            statement.bind_ref(2, ValueRef::Blob(key))?;
            statement.bind_ref(3, ValueRef::Text(assert.as_bytes()))?;
            self.connection.execute(statement)?;
        }
        Ok(())
    }

    /// True where the table of a part beside the rows may have entries.
    fn may_have_entries(&mut self, place: usize, part: Part) -> Result<bool, Error> {
        if let Some(known) = self.beside[place] {
            return Ok(known);
        }
        let found = self.connection.row_walk(&part.table(&self.definition.name))?.next()?;
        self.beside[place] = Some(found);
        Ok(found)
    }

    /// Deletes the entries beside a row.
    pub(super) fn clear_beside(&mut self, key: &[u8]) -> Result<(), Error> {
        let beside = parts(self.definition).filter(|part| *part != Part::Rows);
        for (place, part) in beside.enumerate() {
            if !self.may_have_entries(place, part)? {
                continue;
            }
            let statement = match &mut self.statements.clear[place] {
                Some(statement) => statement,
                none => {
                    let table = quoted(&part.table(&self.definition.name));
                    let sql = format!("DELETE FROM {table} WHERE _doc = ?1 AND _id = ?2");
                    none.insert(prepare(self.connection, &sql)?)
                }
            };
            statement.bind(1, self.doc)?;
            statement.bind_ref(2, ValueRef::Blob(key))?;
            self.connection.execute(statement)?;
        }
        Ok(())
    }

    /// Deletes the row with that key, if it is there.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        let statement = match &mut self.statements.delete {
            Some(statement) => statement,
            none => {
                let table = quoted(&self.definition.name);
                let sql = format!("DELETE FROM {table} WHERE _doc = ?1 AND _id = ?2");
                none.insert(prepare(self.connection, &sql)?)
            }
        };
        statement.bind(1, self.doc)?;
        statement.bind_ref(2, ValueRef::Blob(key))?;
        self.connection.execute(statement)?;
        self.clear_beside(key)
    }
}

//! Questions about the file itself: its tables, their columns and keys. All answers are read by
//! SQL, so that a principal is told of what is granted and of nothing else.
//!
//! Flight SQL's three-part names have one catalog here, `main` as in SQL, and one schema without a
//! name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray, UInt8Array};
use arrow_flight::sql::metadata::GetTablesBuilder;
use arrow_flight::sql::{CommandGetTables, UpdateDeleteRules};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shoal_arrow::Seen;
use shoal_sql::Value;
use tonic::Status;

use crate::Types;
use crate::readers::Reader;
use crate::shape::Told;
use crate::stop::Stop;

/// The catalog.
pub(crate) const CATALOG: &str = "main";
/// The schema.
pub(crate) const SCHEMA: &str = "";
/// Kinds of tables.
pub(crate) const TABLE_TYPES: [&str; 3] = ["SYSTEM TABLE", "TABLE", "VIEW"];
/// Rows looked at for the types of a table's columns.
const ROWS: usize = 1000;
/// Flight SQL's name for the declared type of a column, among the field's metadata.
const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";

/// True where a catalog and a schema asked for, if any, are the ones here.
fn is_here(catalog: Option<&str>, schema: Option<&str>) -> bool {
    catalog.is_none_or(|name| name == CATALOG) && schema.is_none_or(|name| name == SCHEMA)
}

/// The rows of a query of this module's own.
///
/// # Errors
/// Errors of the statement; the reason of its end.
fn rows(
    reader: &mut Reader,
    stop: &Stop,
    sql: &str,
    values: &[&str],
) -> Result<Vec<Vec<Value>>, Status> {
    stop.check()?;
    let read = |reader: &mut Reader| -> Result<Vec<Vec<Value>>, shoal_sql::Error> {
        let mut statement = reader.prepare(sql)?;
        for (place, value) in values.iter().enumerate() {
            statement.bind(place + 1, *value)?;
        }
        let mut rows = reader.query(&mut statement)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(row.values().map(Value::from).collect());
        }
        Ok(found)
    };
    read(reader).map_err(|error| stop.reason().unwrap_or_else(|| reader.fault(&error, sql)))
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(bytes) | Value::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// The tables and views asked for.
///
/// # Errors
/// Errors of the database.
pub(crate) fn tables(
    reader: &mut Reader,
    stop: &Stop,
    command: CommandGetTables,
    types: Types,
) -> Result<RecordBatch, Status> {
    // A first choice, by SQL's patterns that know no case; the builder makes the exact one.
    let pattern = command.table_name_filter_pattern.clone().unwrap_or_else(|| "%".to_owned());
    let (with_schema, asked) = (command.include_schema, command.table_types.clone());
    let is_here = command.catalog.as_deref().is_none_or(|name| name == CATALOG);
    let mut builder = GetTablesBuilder::from(command);
    let sql = "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'view') \
               AND name LIKE ?1 ESCAPE '\\' ORDER BY name";
    let found = if is_here { rows(reader, stop, sql, &[&pattern])? } else { Vec::new() };
    for row in found {
        let name = text(&row[1]);
        let is_internal =
            ["sqlite_", "_shoal_", "_graph_"].iter().any(|prefix| name.starts_with(prefix));
        let is_shadow = reader.is_shadow(&name).map_err(|error| reader.fault(&error, sql))?;
        let kind = match text(&row[0]).as_str() {
            "view" => "VIEW",
            _ if is_internal || is_shadow => "SYSTEM TABLE",
            _ => "TABLE",
        };
        if !asked.is_empty() && !asked.iter().any(|asked| asked == kind) {
            continue;
        }
        let schema = match with_schema {
            true => columns(reader, stop, &name, kind, types)?,
            false => Schema::empty(),
        };
        builder.append(CATALOG, SCHEMA, &name, kind, &schema).map_err(unbuilt)?;
    }
    builder.build().map_err(unbuilt)
}

/// The columns of a table, with types as queries give them: for a column whose declaration does not
/// tell, by the table's first rows. Views are not run: such a column of theirs is of Arrow's type
/// of nothing but NULL.
fn columns(
    reader: &mut Reader,
    stop: &Stop,
    name: &str,
    kind: &str,
    types: Types,
) -> Result<Schema, Status> {
    let all = format!("SELECT * FROM {}", quoted(name));
    // A view of a missing table, and a table of an unknown module, have no columns to tell.
    let Ok(statement) = reader.prepare(&all) else { return Ok(Schema::empty()) };
    let told = Told::of(&statement, types);
    let untold = told.untold();
    let mut seen = vec![Seen::default(); told.len()];
    let schema = match (untold.is_empty(), kind) {
        (false, "VIEW") => told.schema(),
        (false, _) => {
            let names = untold.iter().map(|&place| quoted(&statement.column_names()[place]));
            let names: Vec<String> = names.collect();
            let sql = format!("SELECT {} FROM {} LIMIT {ROWS}", names.join(", "), quoted(name));
            for row in rows(reader, stop, &sql, &[])? {
                for (value, &place) in row.iter().zip(&untold) {
                    seen[place].value(value.as_ref());
                }
            }
            Schema::clone(&told.shape(&seen).schema)
        }
        (true, _) => Schema::clone(&told.shape(&seen).schema),
    };
    let fields = schema.fields().iter().enumerate().map(|(place, field)| {
        let declared = told.declared(place).unwrap_or_default();
        let metadata = HashMap::from([(TYPE_NAME.to_owned(), declared.to_owned())]);
        Field::clone(field).with_metadata(metadata)
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn unbuilt(error: impl std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

/// The schema of an answer on primary keys.
pub(crate) fn primary_keys_schema() -> SchemaRef {
    let name = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        name("catalog_name", true),
        name("db_schema_name", true),
        name("table_name", false),
        name("column_name", false),
        name("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The primary key of a table.
///
/// # Errors
/// Errors of the database.
pub(crate) fn primary_keys(
    reader: &mut Reader,
    stop: &Stop,
    catalog: Option<&str>,
    schema: Option<&str>,
    table: &str,
) -> Result<RecordBatch, Status> {
    let keys = match is_here(catalog, schema) {
        true => primary_key(reader, stop, table)?,
        false => Vec::new(),
    };
    let all = |text: &str| vec![text.to_owned(); keys.len()];
    let places = (1..).zip(&keys).map(|(place, _)| place);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(all(CATALOG))),
        Arc::new(StringArray::from(all(SCHEMA))),
        Arc::new(StringArray::from(all(table))),
        Arc::new(StringArray::from(keys.clone())),
        Arc::new(StringArray::from(vec![None::<String>; keys.len()])),
        Arc::new(Int32Array::from(places.collect::<Vec<i32>>())),
    ];
    RecordBatch::try_new(primary_keys_schema(), columns).map_err(unbuilt)
}

/// The columns of a table's primary key, in the key's order.
fn primary_key(reader: &mut Reader, stop: &Stop, table: &str) -> Result<Vec<String>, Status> {
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk";
    let found = rows(reader, stop, sql, &[table])?;
    Ok(found.iter().map(|row| text(&row[0])).collect())
}

/// The schema of an answer on foreign keys.
pub(crate) fn foreign_keys_schema() -> SchemaRef {
    let name = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        name("pk_catalog_name", true),
        name("pk_db_schema_name", true),
        name("pk_table_name", false),
        name("pk_column_name", false),
        name("fk_catalog_name", true),
        name("fk_db_schema_name", true),
        name("fk_table_name", false),
        name("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        name("fk_key_name", true),
        name("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// A table asked for, with its catalog and schema.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) catalog: Option<String>,
    pub(crate) schema: Option<String>,
    pub(crate) table: String,
}

/// A column of a foreign key.
struct Reference {
    parent: String,
    parent_column: String,
    child: String,
    child_column: String,
    place: i32,
    update: u8,
    delete: u8,
}

/// The foreign keys to `parent`, of `child`, or from one to the other. Under rules none are told:
/// keys name tables and columns that may be hidden.
///
/// # Errors
/// Errors of the database.
pub(crate) fn foreign_keys(
    reader: &mut Reader,
    stop: &Stop,
    parent: Option<&Wanted>,
    child: Option<&Wanted>,
) -> Result<RecordBatch, Status> {
    let wanted = [parent, child].into_iter().flatten();
    let mut is_here = wanted.map(|it| is_here(it.catalog.as_deref(), it.schema.as_deref()));
    let mut found = Vec::new();
    if is_here.all(|is| is) && !reader.is_narrowed() {
        let children = match child {
            Some(child) => vec![child.table.clone()],
            None => {
                let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
                rows(reader, stop, sql, &[])?.iter().map(|row| text(&row[0])).collect()
            }
        };
        for child in children {
            references(reader, stop, &child, parent.map(|it| it.table.as_str()), &mut found)?;
        }
    }
    let texts = |of: &dyn Fn(&Reference) -> &str| -> ArrayRef {
        Arc::new(found.iter().map(|it| Some(of(it))).collect::<StringArray>())
    };
    let codes = |of: &dyn Fn(&Reference) -> u8| -> ArrayRef {
        Arc::new(found.iter().map(|it| Some(of(it))).collect::<UInt8Array>())
    };
    let nameless = || Arc::new(StringArray::from(vec![None::<String>; found.len()])) as ArrayRef;
    let columns: Vec<ArrayRef> = vec![
        texts(&|_| CATALOG),
        texts(&|_| SCHEMA),
        texts(&|it| &it.parent),
        texts(&|it| &it.parent_column),
        texts(&|_| CATALOG),
        texts(&|_| SCHEMA),
        texts(&|it| &it.child),
        texts(&|it| &it.child_column),
        Arc::new(found.iter().map(|it| Some(it.place)).collect::<Int32Array>()),
        nameless(),
        nameless(),
        codes(&|it| it.update),
        codes(&|it| it.delete),
    ];
    RecordBatch::try_new(foreign_keys_schema(), columns).map_err(unbuilt)
}

fn references(
    reader: &mut Reader,
    stop: &Stop,
    child: &str,
    parent: Option<&str>,
    found: &mut Vec<Reference>,
) -> Result<(), Status> {
    let sql = "SELECT seq, \"table\", \"from\", \"to\", on_update, on_delete \
               FROM pragma_foreign_key_list(?1) ORDER BY id, seq";
    for row in rows(reader, stop, sql, &[child])? {
        let to = text(&row[1]);
        if parent.is_some_and(|parent| !parent.eq_ignore_ascii_case(&to)) {
            continue;
        }
        let place = usize::try_from(row[0].to_int()).unwrap_or_default();
        let parent_column = match &row[3] {
            // Without a column the key is to the primary key.
            Value::Null => primary_key(reader, stop, &to)?.get(place).cloned().unwrap_or_default(),
            column => text(column),
        };
        found.push(Reference {
            parent: to,
            parent_column,
            child: child.to_owned(),
            child_column: text(&row[2]),
            place: i32::try_from(place).unwrap_or_default() + 1,
            update: rule(&text(&row[4])),
            delete: rule(&text(&row[5])),
        });
    }
    Ok(())
}

/// The fate of referring rows, by Flight SQL's numbers.
fn rule(words: &str) -> u8 {
    let rule = match words {
        "CASCADE" => UpdateDeleteRules::Cascade,
        "RESTRICT" => UpdateDeleteRules::Restrict,
        "SET NULL" => UpdateDeleteRules::SetNull,
        "SET DEFAULT" => UpdateDeleteRules::SetDefault,
        _ => UpdateDeleteRules::NoAction,
    };
    rule as u8
}

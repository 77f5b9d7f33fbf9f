//! `schema`: tables, columns, indexes, views, projections and graphs, in few words.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::json;
use shoal_sql::Value;

use super::{Answer, Arguments, Kind, UnderRules, document_names, read};
use crate::desk::Work;
use crate::page::{rows, text};
use crate::refusal::Refusal;
use crate::seen::Seen;

/// Rows counted one by one; beyond, they are estimated.
const COUNTED_MAX: i64 = 10_000;

pub(super) const KIND: Kind = Kind {
    name: "schema",
    title: "Describe the database",
    words: "Describes the database in few words: tables with columns, keys, indexes and about how \
            many rows; views; full text and vector tables; projections of documents; property \
            graphs; the number of documents. Call it first. With tables it tells of these alone, \
            with sql true also the statements that made them.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "tables": {
                    "type": "array", "items": {"type": "string"},
                    "description": "Names of tables or views; all unless told"
                },
                "sql": {
                    "type": "boolean",
                    "description": "True adds the CREATE statements"
                },
                "internal": {
                    "type": "boolean",
                    "description": "True tells of shadow tables and tables of documents too"
                }
            },
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Describes what is granted in few words: tables and views with columns and about how many \
         rows, full text and vector tables, property graphs, the number of documents. Call it first. With tables it tells of these alone, with sql true also their \
         definitions.",
    ),
    call,
};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    tables: Vec<String>,
    sql: bool,
    internal: bool,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    told(work, &given).map(Answer::Text)
}

/// The whole schema in few words.
///
/// # Errors
/// The database's.
pub(crate) fn describe(work: &mut Work<'_>) -> Result<String, Refusal> {
    told(work, &Given::default())
}

/// An object of `sqlite_schema`.
struct Object {
    kind: String,
    name: String,
    sql: String,
}

fn told(work: &mut Work<'_>, given: &Given) -> Result<String, Refusal> {
    let found = rows(
        work,
        "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name",
        &[],
    )?;
    let mut objects: Vec<Object> = Vec::new();
    // Rules grant ordinary tables by name: of these none is a shadow.
    let schema = match work.seen.whole() {
        Some(database) => Some(database.sql().schema()?),
        None => None,
    };
    let is_shadow =
        |name: &str| schema.as_ref().is_some_and(|schema| schema.shadow_owner(name).is_some());
    for row in &found {
        let object = Object { kind: text(&row[0]), name: text(&row[1]), sql: text(&row[2]) };
        let is_asked = given.tables.iter().any(|name| name.eq_ignore_ascii_case(&object.name));
        let is_internal = object.name.starts_with("sqlite_")
            || object.name.starts_with("_shoal_")
            || object.name.starts_with("_graph_")
            || is_shadow(&object.name);
        let is_told = match given.tables.is_empty() {
            true => given.internal || !is_internal,
            false => is_asked,
        };
        if is_told {
            objects.push(object);
        }
    }
    let missing = given
        .tables
        .iter()
        .find(|name| !objects.iter().any(|object| object.name.eq_ignore_ascii_case(name)));
    if let Some(name) = missing {
        return Err(Refusal::new(format!("there is no table or view {name}"))
            .hint("Without tables, the tool schema tells of all of them"));
    }
    let projections = projections(work)?;
    let statistics = statistics(work, &found)?;
    let mut parts = Vec::new();
    for object in &objects {
        work.stop.check()?;
        let mut part = described(work, object, &projections, &statistics)?;
        if given.sql && !object.sql.is_empty() {
            let _ = write!(part, "\n  sql: {}", object.sql);
        }
        parts.push(part);
    }
    if given.tables.is_empty() {
        match graphs(work, &found, given.sql) {
            // Rules may hide columns of the tables of graphs.
            Err(_) if work.seen.is_narrowed() => work.stop.check()?,
            graphs => parts.extend(graphs?),
        }
        let documents = document_names(work)?.len();
        if documents > 0 {
            parts.push(format!(
                "{documents} documents (tool documents; in SQL documents(name, heads, json))"
            ));
        }
    }
    if parts.is_empty() {
        return Ok(match work.seen.is_narrowed() {
            true => "No table or view is listed here.".to_owned(),
            false => "The database has no tables and no documents.".to_owned(),
        });
    }
    Ok(fitting(parts, work.desk.limits.bytes))
}

/// The parts as far as they fit; of the others the first words.
fn fitting(parts: Vec<String>, most: usize) -> String {
    let all: usize = parts.iter().map(|part| part.len() + 1).sum();
    if all <= most {
        return parts.join("\n");
    }
    let mut out = String::from(
        "The whole schema is longer than an answer: the tool schema tells of the tables it is \
         given.\n",
    );
    for (place, part) in parts.iter().enumerate() {
        let first = part.lines().next().unwrap_or_default();
        let name = first.split(['(', ' ']).take(2).collect::<Vec<_>>().join(" ");
        if out.len() + name.len() + 40 > most {
            let _ = write!(out, "and {} more", parts.len() - place);
            break;
        }
        out.push_str(&name);
        out.push('\n');
    }
    out
}

/// The statements of projections by the name of their tables, in lower case.
fn projections(work: &mut Work<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let Some(database) = work.seen.whole() else { return Ok(BTreeMap::new()) };
    let all = database.projections()?.into_iter();
    Ok(all.map(|(name, sql)| (name.to_ascii_lowercase(), sql)).collect())
}

/// Rows of tables by `ANALYZE`, by the name of a table in lower case.
fn statistics(
    work: &mut Work<'_>,
    objects: &[Vec<Value>],
) -> Result<BTreeMap<String, i64>, Refusal> {
    if !objects.iter().any(|row| text(&row[1]).eq_ignore_ascii_case("sqlite_stat1")) {
        return Ok(BTreeMap::new());
    }
    let sql = "SELECT lower(tbl), max(CAST(stat AS INTEGER)) FROM sqlite_stat1 GROUP BY 1";
    let found = rows(work, sql, &[])?.into_iter();
    Ok(found.map(|row| (text(&row[0]), row[1].to_int())).collect())
}

/// A table or view in a line or more.
fn described(
    work: &mut Work<'_>,
    object: &Object,
    projections: &BTreeMap<String, String>,
    statistics: &BTreeMap<String, i64>,
) -> Result<String, Refusal> {
    let name = Value::text(object.name.as_str());
    let sql = "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1)";
    // A view of a missing table, and an unknown module, have no columns to tell.
    let columns = match rows(work, sql, std::slice::from_ref(&name)) {
        Ok(columns) => columns,
        Err(refusal) => {
            work.stop.check()?;
            // The words may name what a view reads, and rules hide.
            let why = if work.seen.is_narrowed() { "it cannot be read" } else { &refusal.0 };
            return Ok(format!("{} {}: {why}", object.kind, object.name));
        }
    };
    let virtual_kind = match &mut work.seen {
        Seen::Whole(_) => virtual_kind(&object.sql),
        Seen::Narrowed(narrowed) => {
            let mut all = narrowed.virtual_tables()?.into_iter();
            all.find(|table| table.name == object.name).map(|table| table.module)
        }
    };
    let is_table = object.kind == "table" && virtual_kind.is_none();
    let keys = columns.iter().filter(|row| row[4].to_int() > 0).count();
    let mut shown = Vec::new();
    for column in &columns {
        let hidden = column[5].to_int();
        if hidden == 1 {
            continue;
        }
        let mut words = text(&column[0]);
        for (is_so, word) in [
            (!text(&column[1]).is_empty(), text(&column[1])),
            (column[4].to_int() > 0 && keys == 1, "PRIMARY KEY".to_owned()),
            (column[2].to_int() != 0, "NOT NULL".to_owned()),
            (!column[3].is_null(), format!("DEFAULT {}", text(&column[3]))),
            (hidden > 1, "GENERATED".to_owned()),
        ] {
            if is_so {
                words.push(' ');
                words.push_str(&word);
            }
        }
        shown.push(words);
    }
    if keys > 1 {
        let mut key: Vec<(i64, String)> =
            columns.iter().map(|row| (row[4].to_int(), text(&row[0]))).collect();
        key.retain(|(place, _)| *place > 0);
        key.sort();
        let names: Vec<String> = key.into_iter().map(|(_, name)| name).collect();
        shown.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let mut told = match (&virtual_kind, object.kind.as_str()) {
        (Some(module), _) => format!("table {} USING {module}", object.name),
        (None, kind) => format!("{kind} {}", object.name),
    };
    let _ = write!(told, "({})", shown.join(", "));
    if is_table {
        told.push_str(&about_rows(work, &object.name, statistics)?);
        // Indexes and references may be of columns that rules hide.
        if !work.seen.is_narrowed() {
            told.push_str(&indexes(work, &name)?);
            told.push_str(&references(work, &name)?);
        }
    }
    if let Some(sql) = projections.get(&object.name.to_ascii_lowercase()) {
        let _ = write!(told, "\n  projection: {}", one_line(sql));
    }
    Ok(told)
}

/// The module of a virtual table, by its statement.
fn virtual_kind(sql: &str) -> Option<String> {
    let mut words = sql.split_whitespace();
    let is_virtual = words.next()?.eq_ignore_ascii_case("CREATE")
        && words.next()?.eq_ignore_ascii_case("VIRTUAL");
    if !is_virtual {
        return None;
    }
    let module = words.skip_while(|word| !word.eq_ignore_ascii_case("USING")).nth(1)?;
    Some(module.split('(').next().unwrap_or(module).to_owned())
}

/// About how many rows a table has: few are counted, many are told by `ANALYZE` or by the rowids.
fn about_rows(
    work: &mut Work<'_>,
    name: &str,
    statistics: &BTreeMap<String, i64>,
) -> Result<String, Refusal> {
    let quoted = quoted(name);
    let most = COUNTED_MAX + 1;
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {quoted} LIMIT {most})");
    let counted = rows(work, &sql, &[])?.first().map_or(0, |row| row[0].to_int());
    if counted <= COUNTED_MAX {
        return Ok(format!(" {counted} rows"));
    }
    if let Some(count) = statistics.get(&name.to_ascii_lowercase()) {
        return Ok(format!(" about {count} rows"));
    }
    let sql = format!("SELECT max(rowid) - min(rowid) + 1 FROM {quoted}");
    match rows(work, &sql, &[]) {
        Ok(found) => {
            let span = found.first().map_or(0, |row| row[0].to_int());
            Ok(format!(" at most {span} rows"))
        }
        // A table without rowids.
        Err(_) => Ok(format!(" more than {COUNTED_MAX} rows")),
    }
}

fn indexes(work: &mut Work<'_>, table: &Value) -> Result<String, Refusal> {
    let sql = "SELECT l.name, l.\"unique\", l.partial, \
               (SELECT group_concat(coalesce(i.name, '(expression)'), ', ') \
                FROM pragma_index_info(l.name) AS i) \
               FROM pragma_index_list(?1) AS l WHERE l.origin <> 'pk' ORDER BY l.name";
    let mut told = String::new();
    for row in rows(work, sql, std::slice::from_ref(table))? {
        let unique = if row[1].to_int() != 0 { "unique " } else { "" };
        let partial = if row[2].to_int() != 0 { " partial" } else { "" };
        let _ = write!(told, "\n  {unique}index {}({}){partial}", text(&row[0]), text(&row[3]));
    }
    Ok(told)
}

fn references(work: &mut Work<'_>, table: &Value) -> Result<String, Refusal> {
    let sql = "SELECT id, \"table\", group_concat(\"from\", ', '), \
               group_concat(coalesce(\"to\", ''), ', ') \
               FROM pragma_foreign_key_list(?1) GROUP BY id, \"table\" ORDER BY id";
    let mut told = String::new();
    for row in rows(work, sql, std::slice::from_ref(table))? {
        let to = text(&row[3]);
        let to =
            if to.trim_matches([',', ' ']).is_empty() { String::new() } else { format!("({to})") };
        let _ = write!(told, "\n  ({}) references {}{to}", text(&row[2]), text(&row[1]));
    }
    Ok(told)
}

/// A line for each property graph.
fn graphs(
    work: &mut Work<'_>,
    objects: &[Vec<Value>],
    with_sql: bool,
) -> Result<Vec<String>, Refusal> {
    let has = |name: &str| objects.iter().any(|row| text(&row[1]) == name);
    let mut told = Vec::new();
    if has("_graph_definition") {
        for row in rows(work, "SELECT name, sql FROM _graph_definition ORDER BY name", &[])? {
            let sql = one_line(&text(&row[1]));
            let sql = if with_sql { sql } else { sql.chars().take(400).collect() };
            told.push(format!("graph {}: {sql}", text(&row[0])));
        }
    }
    if has("_graph_node") {
        let sql = "SELECT label, count(*) FROM _graph_label GROUP BY label ORDER BY label LIMIT 30";
        let labels = rows(work, sql, &[])?;
        let labels: Vec<String> =
            labels.iter().map(|row| format!("{} {}", text(&row[0]), row[1].to_int())).collect();
        told.push(format!("graph _graph (of shoal cypher), nodes by label: {}", labels.join(", ")));
    }
    Ok(told)
}

fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A name in SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

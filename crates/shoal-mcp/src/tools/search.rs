//! `search`: full text by FTS5 tables, nearest vectors by vec0 tables.

use serde::Deserialize;
use serde_json::{Map, Value as Json, json};
use shoal::Database;
use shoal_sql::Value;

use super::schema::quoted;
use super::{Answer, Arguments, Kind, UnderRules, read};
use crate::desk::Work;
use crate::page::{self, Query, rows, text};
use crate::refusal::Refusal;
use crate::seen::Seen;

pub(super) const KIND: Kind = Kind {
    name: "search",
    title: "Search texts and vectors",
    words: "Searches. text is looked for in full text (fts5) tables: rowid, a snippet with the hits \
            between [ and ], and a score, the best first. All words must occur, in any order; with \
            syntax true text is a query of FTS5 (\"a phrase\", word*, a OR b, column: word). vector \
            finds the nearest rows of a vec0 table. Without table every table of the kind is \
            searched. The rowid finds the row: SELECT * FROM table WHERE rowid = ?1.",
    arguments: || {
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "Words to look for"},
                "vector": {"type": "array", "items": {"type": "number"},
                           "description": "As many numbers as the table's vectors have"},
                "table": {"type": "string", "description": "An fts5 or vec0 table"},
                "column": {"type": "string",
                           "description": "The column of the snippet, or of the vectors"},
                "rows": {"type": "integer", "minimum": 1,
                         "description": "Hits of each table; 10 unless told"},
                "syntax": {"type": "boolean", "description": "True: text is a query of FTS5"},
                "highlight": {"type": "boolean",
                              "description": "True gives the whole column with its hits marked"}
            },
            "additionalProperties": false
        })
    },
    writes: false,
    under_rules: UnderRules::Narrowed(
        "Searches granted tables. text is looked for in full text (fts5) tables: rowid, a snippet \
         with the hits between [ and ], and a score, the best first. All words must occur, in any \
         order; with syntax true text is a query of FTS5 (\"a phrase\", word*, a OR b, column: \
         word). vector finds the nearest rows of a vec0 table. Without table every granted table \
         of the kind is searched. Scores count granted rows alone.",
    ),
    call,
};

/// Hits of a call without a number.
const HITS: usize = 10;
/// Tables searched by one call.
const TABLES_MAX: usize = 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    text: Option<String>,
    vector: Option<Vec<f64>>,
    table: Option<String>,
    column: Option<String>,
    rows: Option<usize>,
    #[serde(default)]
    syntax: bool,
    #[serde(default)]
    highlight: bool,
}

/// A virtual table, with its columns.
struct Searched {
    name: String,
    columns: Vec<Column>,
    /// False where rules hide the rowid.
    shows_rowid: bool,
}

impl Searched {
    /// The rowid among the columns of a query.
    fn rowid(&self) -> &'static str {
        if self.shows_rowid { "rowid, " } else { "" }
    }
}

struct Column {
    name: String,
    /// True of a column of vectors in a vec0 table.
    is_vector: bool,
    is_hidden: bool,
}

fn call(work: &mut Work<'_>, arguments: Arguments) -> Result<Answer, Refusal> {
    let given: Given = read(KIND.name, arguments)?;
    let most = given.rows.unwrap_or(HITS).clamp(1, work.desk.limits.rows);
    let mut found = Map::new();
    if given.text.is_none() && given.vector.is_none() {
        return Err(Refusal::new("text or vector is missing"));
    }
    if let Some(words) = &given.text {
        let query = if given.syntax { words.clone() } else { all_words(words)? };
        for table in tables(work, "fts5", &given)? {
            let hits = by_text(work, &table, &query, &given, most)?;
            found.insert(table.name, Json::Object(hits));
        }
    }
    if let Some(vector) = &given.vector {
        for table in tables(work, "vec0", &given)? {
            let hits = by_vector(work, &table, vector, &given, most)?;
            found.insert(table.name, Json::Object(hits));
        }
    }
    Ok(Answer::Object(found))
}

/// The words of a text as a query for all of them, whatever signs they hold.
fn all_words(text: &str) -> Result<String, Refusal> {
    let words = text.split_whitespace().map(|word| format!("\"{}\"", word.replace('"', "\"\"")));
    let query = words.collect::<Vec<_>>().join(" ");
    match query.is_empty() {
        true => Err(Refusal::new("text holds no word")),
        false => Ok(query),
    }
}

/// A virtual table by name, with the arguments of its definition, and true where hits have rowids.
type Named = (String, Vec<String>, bool);

/// The virtual tables of a module in the whole file, by name.
fn virtual_tables(database: &mut Database, module: &str) -> Result<Vec<Named>, Refusal> {
    let schema = database.sql().schema()?;
    let objects = schema.objects().iter();
    let mut names: Vec<Named> = objects
        .filter_map(|object| match object {
            shoal_sql::Object::Virtual(table) if table.module().eq_ignore_ascii_case(module) => {
                Some((table.name().to_owned(), table.arguments().to_vec(), true))
            }
            _ => None,
        })
        .collect();
    names.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// The tables of a module: the one asked for, or all.
fn tables(work: &mut Work<'_>, module: &str, given: &Given) -> Result<Vec<Searched>, Refusal> {
    let mut names = match &mut work.seen {
        Seen::Whole(database) => virtual_tables(database, module)?,
        Seen::Narrowed(narrowed) => {
            let visible = narrowed.virtual_tables()?.into_iter();
            let visible = visible.filter(|table| table.module.eq_ignore_ascii_case(module));
            visible.map(|it| (it.name, it.arguments, it.shows_rowid)).collect()
        }
    };
    let all: Vec<&str> = names.iter().map(|(name, ..)| name.as_str()).collect();
    let all = all.join(", ");
    if let Some(wanted) = &given.table {
        names.retain(|(name, ..)| name.eq_ignore_ascii_case(wanted));
        if names.is_empty() {
            let refusal = Refusal::new(format!("{wanted} is no {module} table"));
            return Err(match all.is_empty() {
                true => refusal.hint(format_args!("The database has none")),
                false => refusal.hint(format_args!("There are: {all}")),
            });
        }
    }
    if names.is_empty() {
        return Err(Refusal::new(format!("the database has no {module} table")).hint(
            match module {
                "fts5" => "Search with query: WHERE column LIKE '%word%'",
                _ => "vec_distance_cosine(a, b) in query compares vectors of any table",
            },
        ));
    }
    if names.len() > TABLES_MAX {
        return Err(Refusal::new(format!("there are {} {module} tables", names.len()))
            .hint(format_args!("Name one: {all}")));
    }
    let mut tables = Vec::new();
    for (name, arguments, shows_rowid) in names {
        let vectors: Vec<&str> = arguments.iter().filter_map(|it| vector_column(it)).collect();
        let sql = "SELECT name, hidden FROM pragma_table_xinfo(?1) ORDER BY cid";
        let columns = rows(work, sql, &[Value::text(name.as_str())])?;
        let columns = columns.iter().map(|row| {
            let name = text(&row[0]);
            let is_vector = vectors.iter().any(|vector| vector.eq_ignore_ascii_case(&name));
            Column { name, is_vector, is_hidden: row[1].to_int() != 0 }
        });
        tables.push(Searched { columns: columns.collect(), name, shows_rowid });
    }
    Ok(tables)
}

/// The place of the named column; `None` where none is named.
fn place_of(table: &Searched, column: Option<&str>) -> Result<Option<usize>, Refusal> {
    let Some(wanted) = column else { return Ok(None) };
    let shown = table.columns.iter().filter(|column| !column.is_hidden);
    let place = shown.clone().position(|column| column.name.eq_ignore_ascii_case(wanted));
    place.map(Some).ok_or_else(|| {
        let names: Vec<&str> = shown.map(|column| column.name.as_str()).collect();
        Refusal::new(format!("{} has no column {wanted}", table.name))
            .hint(format_args!("It has: {}", names.join(", ")))
    })
}

fn by_text(
    work: &mut Work<'_>,
    table: &Searched,
    query: &str,
    given: &Given,
    most: usize,
) -> Result<Map<String, Json>, Refusal> {
    let name = quoted(&table.name);
    let place = place_of(table, given.column.as_deref())?;
    let mut hit = match place {
        Some(place) if given.highlight => format!("highlight({name}, {place}, '[', ']')"),
        None if given.highlight => {
            return Err(Refusal::new("highlight marks one column: name it with column"));
        }
        place => {
            let place = place.map_or(-1, |place| place as i64);
            format!("snippet({name}, {place}, '[', ']', '…', 24)")
        }
    };
    hit.push_str(if given.highlight { " AS highlighted" } else { " AS snippet" });
    let sql = format!(
        "SELECT {}{hit}, round(-bm25({name}), 9) AS score FROM {name} \
         WHERE {name} MATCH ?1 ORDER BY rank LIMIT ?2",
        table.rowid()
    );
    let limit = Value::Int(i64::try_from(most).unwrap_or(i64::MAX));
    let query = Query::new(sql, vec![Value::text(query), limit]);
    page::first(work, query, Some(most)).map_err(|refusal| match given.syntax {
        true => refusal.hint(
            "Put words with signs between double quotes, or leave syntax out to look for plain \
             words",
        ),
        false => refusal,
    })
}

fn by_vector(
    work: &mut Work<'_>,
    table: &Searched,
    vector: &[f64],
    given: &Given,
    most: usize,
) -> Result<Map<String, Json>, Refusal> {
    let place = place_of(table, given.column.as_deref())?;
    let column = match place {
        Some(place) => table.columns.iter().filter(|column| !column.is_hidden).nth(place),
        None => table.columns.iter().find(|column| column.is_vector),
    };
    let Some(column) = column else {
        return Err(Refusal::new(format!("{} has no column of vectors", table.name)));
    };
    let others: Vec<String> = table
        .columns
        .iter()
        .filter(|other| !other.is_hidden && !other.is_vector)
        .filter(|other| !other.name.eq_ignore_ascii_case("rowid"))
        .map(|other| format!(", {}", quoted(&other.name)))
        .collect();
    let (name, vectors) = (quoted(&table.name), quoted(&column.name));
    let sql = format!(
        "SELECT {}distance{} FROM {name} WHERE {vectors} MATCH ?1 AND k = ?2 \
         ORDER BY distance",
        table.rowid(),
        others.concat()
    );
    let limit = Value::Int(i64::try_from(most).unwrap_or(i64::MAX));
    let query = Query::new(sql, vec![Value::text(json!(vector).to_string()), limit]);
    page::first(work, query, Some(most))
}

/// The name in the definition of a column of vectors: `place float[384] distance_metric=cosine`.
fn vector_column(definition: &str) -> Option<&str> {
    let (name, rest) = definition.trim().split_once(char::is_whitespace)?;
    let kind = rest.trim_start().split(char::is_whitespace).next()?;
    let (kind, _) = kind.split_once('[')?;
    let kinds = ["float", "f32", "int8", "i8", "bit"];
    let is_kind = kinds.iter().any(|known| known.eq_ignore_ascii_case(kind));
    is_kind.then(|| name.trim_matches(['"', '[', ']', '`']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_signs_are_words() {
        assert_eq!(all_words("rust c++ \"x").as_deref(), Ok("\"rust\" \"c++\" \"\"\"x\""));
        assert!(all_words("  ").is_err());
    }

    #[test]
    fn columns_of_vectors_are_known_by_their_definitions() {
        let name = vector_column("place FLOAT[3] distance_metric=cosine");
        assert_eq!(name, Some("place"));
        assert_eq!(vector_column("\"a\" bit[8]"), Some("a"));
        for other in ["+name text", "kind TEXT partition key", "chunk_size=8", "x", "n [x]"] {
            assert_eq!(vector_column(other), None, "{other}");
        }
    }
}

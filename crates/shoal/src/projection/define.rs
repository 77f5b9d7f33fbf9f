//! `CREATE PROJECTION` and `DROP PROJECTION`: their words.

use super::words::{Word, Words};
use crate::Error;

/// A statement about projections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProjectionStatement {
    Create { definition: Definition, if_not_exists: bool },
    Drop { name: String, if_exists: bool },
}

/// A projection as it was defined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The condition on the documents' `name`, as written; `None` for all documents.
    pub(crate) documents: Option<String>,
    pub(crate) rows: RowPath,
    pub(crate) columns: Vec<Column>,
    /// The whole statement.
    pub(crate) sql: String,
}

/// The way from a document's root to its rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowPath {
    /// The keys down to the object of the rows.
    pub(crate) keys: Vec<String>,
    pub(crate) each: Each,
}

/// The rows that an object stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    /// One row: the object itself.
    Itself,
    /// A row for each item of a list.
    Item,
    /// A row for each entry of a map.
    Entry,
}

/// A column: a value within a row's object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The keys from the row's object to the value; none for the row itself.
    pub(crate) path: Vec<String>,
    /// The value in SQL's words where the path leads nowhere.
    pub(crate) on_empty: Option<Literal>,
}

/// A literal of a definition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text that merges letter by letter; a plain string reads as well.
    Text,
    /// A plain string; a text reads as well.
    String,
    Integer,
    Real,
    Boolean,
    /// Milliseconds since 1970.
    Timestamp,
    Bytes,
    Counter,
    /// Whatever is there, as JSON.
    Json,
}

impl Kind {
    fn of(word: &str) -> Option<Kind> {
        Some(match word.to_ascii_uppercase().as_str() {
            "TEXT" => Kind::Text,
            "STRING" => Kind::String,
            "INT" | "INTEGER" => Kind::Integer,
            "REAL" | "DOUBLE" | "FLOAT" => Kind::Real,
            "BOOLEAN" | "BOOL" => Kind::Boolean,
            "TIMESTAMP" => Kind::Timestamp,
            "BYTES" | "BLOB" => Kind::Bytes,
            "COUNTER" => Kind::Counter,
            "JSON" => Kind::Json,
            _ => return None,
        })
    }

    /// The declared type of the table's column, by which SQLite knows the affinity.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Kind::Text | Kind::String | Kind::Json => "TEXT",
            Kind::Integer | Kind::Counter | Kind::Timestamp | Kind::Boolean => "INTEGER",
            Kind::Real => "REAL",
            Kind::Bytes => "BLOB",
        }
    }
}

/// Reads a statement; `None` unless it begins with `CREATE PROJECTION` or `DROP PROJECTION`.
///
/// # Errors
/// [`Error::Definition`] at the first word that fits nowhere.
pub(crate) fn parse(sql: &str) -> Result<Option<ProjectionStatement>, Error> {
    let mut words = Words::new(sql);
    let creates = match (words.next_keyword(), words.next_keyword()) {
        (Some(first), Some(second)) if second == "PROJECTION" => match first.as_str() {
            "CREATE" => true,
            "DROP" => false,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    if creates { create(&mut words, sql).map(Some) } else { drop(&mut words).map(Some) }
}

fn drop(words: &mut Words<'_>) -> Result<ProjectionStatement, Error> {
    let if_exists = words.take("IF")?;
    if if_exists {
        words.expect("EXISTS")?;
    }
    let name = words.name()?;
    words.end()?;
    Ok(ProjectionStatement::Drop { name, if_exists })
}

fn create(words: &mut Words<'_>, sql: &str) -> Result<ProjectionStatement, Error> {
    let if_not_exists = words.take("IF")?;
    if if_not_exists {
        words.expect("NOT")?;
        words.expect("EXISTS")?;
    }
    let name = words.name()?;
    if name.starts_with('_') || name.to_ascii_lowercase().starts_with("sqlite_") {
        return Err(words.refuse(format!("{name}: the name of a projection begins with a letter")));
    }
    words.expect("FROM")?;
    words.expect("DOCUMENTS")?;
    let documents = if words.take("WHERE")? {
        let text = words.until("ROWS")?;
        if Words::new(&text)
            .any(|word| matches!(word, Word::Name(w) if w.eq_ignore_ascii_case("SELECT")))
        {
            return Err(words.refuse("a projection is chosen by the documents' names alone"));
        }
        Some(text)
    } else {
        None
    };
    words.expect("ROWS")?;
    let path = words.text()?;
    let rows = row_path(&path)
        .ok_or_else(|| words.refuse(format!("{path}: not a path of rows, such as '$.items[*]'")))?;
    words.expect("COLUMNS")?;
    words.punct('(')?;
    let mut columns: Vec<Column> = Vec::new();
    loop {
        let column = column(words)?;
        let taken = columns.iter().any(|known| known.name.eq_ignore_ascii_case(&column.name));
        if taken || matches!(column.name.as_str(), "_doc" | "_id") {
            return Err(words.refuse(format!("duplicate column name: {}", column.name)));
        }
        columns.push(column);
        if !words.take_punct(',') {
            break;
        }
    }
    words.punct(')')?;
    words.end()?;
    let sql = sql.trim().trim_end_matches(';').trim_end().to_owned();
    let definition = Definition { name, documents, rows, columns, sql };
    Ok(ProjectionStatement::Create { definition, if_not_exists })
}

fn column(words: &mut Words<'_>) -> Result<Column, Error> {
    let name = words.name()?;
    let word = words.name()?;
    let kind = Kind::of(&word).ok_or_else(|| {
        words.refuse(format!(
            "{word} is no type of a projection; those are TEXT, STRING, INTEGER, REAL, BOOLEAN, \
             TIMESTAMP, BYTES, COUNTER and JSON"
        ))
    })?;
    let mut column = Column { path: vec![name.clone()], name, kind, on_empty: None };
    loop {
        if words.take("PATH")? {
            let path = words.text()?;
            column.path = keys(&path).ok_or_else(|| {
                words.refuse(format!("{path}: not a path of a column, such as '$.title'"))
            })?;
        } else if words.take("DEFAULT")? {
            column.on_empty = Some(words.literal()?);
            words.expect("ON")?;
            words.expect("EMPTY")?;
        } else if words.take("NULL")? {
            words.expect("ON")?;
            if !words.take("ERROR")? {
                words.expect("EMPTY")?;
            }
        } else {
            break;
        }
    }
    for refused in ["UNIQUE", "PRIMARY", "CHECK", "NOT", "REFERENCES", "ASSERT", "FOR", "READ"] {
        if words.take(refused)? {
            return Err(words.refuse(format!(
                "{refused} on a projected column is not supported: two replicas could each be \
                 right and contradict each other once merged"
            )));
        }
    }
    Ok(column)
}

/// `$.items[*]`, `$.settings.*`, `$.a.b`, `$`, or the same as JSON Pointers (`/items/*`).
fn row_path(path: &str) -> Option<RowPath> {
    if let Some(object) = path.strip_suffix("[*]") {
        return Some(RowPath { keys: keys(object)?, each: Each::Item });
    }
    if path.starts_with('/')
        && let Some(object) = path.strip_suffix("/*")
    {
        return Some(RowPath { keys: keys(object)?, each: Each::Item });
    }
    if let Some(object) = path.strip_suffix(".*") {
        return Some(RowPath { keys: keys(object)?, each: Each::Entry });
    }
    Some(RowPath { keys: keys(path)?, each: Each::Itself })
}

/// The keys of a path without steps through lists.
fn keys(path: &str) -> Option<Vec<String>> {
    if path.is_empty() {
        return Some(Vec::new());
    }
    if let Some(pointer) = path.strip_prefix('/') {
        let keys = pointer.split('/').map(|key| key.replace("~1", "/").replace("~0", "~"));
        return Some(keys.collect());
    }
    let mut rest = path.strip_prefix('$')?;
    let mut keys = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.')?;
        let key;
        (key, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        let is_step = key.contains(['[', ']', '*']) && !rest.starts_with('"');
        if key.is_empty() || is_step {
            return None;
        }
        keys.push(key.to_owned());
    }
    Some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(sql: &str) -> Definition {
        match parse(sql).unwrap() {
            Some(ProjectionStatement::Create { definition, .. }) => definition,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_words_of_a_definition() {
        let definition = created(
            "create projection \"to do\" FROM DOCUMENTS WHERE name GLOB 'list/*' -- lists\n \
             ROWS '$.a.\"x.y\"[*]' COLUMNS (title TEXT PATH '$.title' DEFAULT '' ON EMPTY, \
             done BOOLEAN NULL ON ERROR, votes COUNTER PATH '/n/v');",
        );
        assert_eq!(definition.name, "to do");
        assert_eq!(definition.documents.as_deref(), Some("name GLOB 'list/*'"));
        let rows = RowPath { keys: vec!["a".into(), "x.y".into()], each: Each::Item };
        assert_eq!(definition.rows, rows);
        let kinds: Vec<Kind> = definition.columns.iter().map(|column| column.kind).collect();
        assert_eq!(kinds, [Kind::Text, Kind::Boolean, Kind::Counter]);
        assert_eq!(definition.columns[0].on_empty, Some(Literal::Text(String::new())));
        assert_eq!(definition.columns[1].path, ["done"]);
        assert_eq!(definition.columns[2].path, ["n", "v"]);
        assert!(!definition.sql.ends_with(';'));
    }

    #[test]
    fn other_statements_are_none() {
        for sql in ["SELECT 1", "CREATE TABLE projection(a)", "", "DROP TABLE x", "create"] {
            assert_eq!(parse(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn refusals_name_the_word() {
        let refused = |sql: &str| parse(sql).unwrap_err().to_string();
        let columns = |columns: &str| {
            refused(&format!("CREATE PROJECTION p FROM DOCUMENTS ROWS '$' COLUMNS ({columns})"))
        };
        assert!(columns("a TEXT UNIQUE").contains("UNIQUE on a projected column"));
        assert!(columns("a NUMBER").contains("NUMBER is no type"));
        assert!(columns("a TEXT, A INT").contains("duplicate column name: A"));
        assert!(columns("a TEXT PATH '$.x[0]'").contains("not a path of a column"));
        assert!(columns("a TEXT b").contains("near b"));
        assert!(refused("CREATE PROJECTION p FROM x").contains("near x"));
        assert!(refused("CREATE PROJECTION p FROM DOCUMENTS ROWS '$").contains("unterminated"));
        assert!(refused("DROP PROJECTION").contains("ends too early"));
    }
}

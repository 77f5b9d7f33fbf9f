//! `CREATE PROJECTION`, `DROP PROJECTION` and `REBUILD PROJECTION`: their words.

use super::words::{Word, Words};
use crate::Error;

/// A statement about projections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProjectionStatement {
    Create { definition: Definition, if_not_exists: bool },
    Drop { name: String, if_exists: bool },
    Rebuild { name: String },
}

/// A projection as it was defined.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: String,
    /// The projection that this one is from, whose rows hold its rows.
    pub(crate) parent: Option<String>,
    /// The condition on the documents' `name`, as written; `None` for all documents.
    pub(crate) documents: Option<String>,
    /// From the document, or as written from the parent until [`resolve`].
    pub(crate) rows: RowPath,
    pub(crate) columns: Vec<Column>,
    /// The conditions of `ASSERT`, as written.
    pub(crate) asserts: Vec<String>,
    /// The whole statement.
    pub(crate) sql: String,
}

impl Definition {
    /// True for the projection of that name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// True where rows lie within other rows, whose key is a column then.
    pub(crate) fn is_nested(&self) -> bool {
        self.rows.stars() > 1
    }

    /// True where a column tells the row's place in its list.
    pub(crate) fn has_position(&self) -> bool {
        self.columns.iter().any(|column| column.kind == Kind::Position)
    }

    /// True where a column is the row itself.
    pub(crate) fn has_whole(&self) -> bool {
        self.columns.iter().any(Column::is_whole)
    }
}

/// The way from a document's root to its rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowPath {
    pub(crate) steps: Vec<Step>,
}

/// One step of a way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// To the entry of a map.
    Key(String),
    /// To each item of a list.
    Items,
    /// To each entry of a map.
    Entries,
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

impl RowPath {
    /// The rows at the end of the way.
    pub(crate) fn each(&self) -> Each {
        match self.steps.last() {
            Some(Step::Items) => Each::Item,
            Some(Step::Entries) => Each::Entry,
            Some(Step::Key(_)) | None => Each::Itself,
        }
    }

    /// How many steps lead to several places.
    pub(crate) fn stars(&self) -> usize {
        self.steps.iter().filter(|step| !matches!(step, Step::Key(_))).count()
    }
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
    /// The row's place in its list, from 1.
    Position,
}

impl Column {
    /// True for the row itself.
    pub(crate) fn is_whole(&self) -> bool {
        self.path.is_empty() && self.kind != Kind::Position
    }
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
            Kind::Integer | Kind::Counter | Kind::Timestamp | Kind::Boolean | Kind::Position => {
                "INTEGER"
            }
            Kind::Real => "REAL",
            Kind::Bytes => "BLOB",
        }
    }
}

/// Reads a statement; `None` unless it begins with `CREATE`, `DROP` or `REBUILD PROJECTION`.
///
/// # Errors
/// [`Error::Definition`] at the first word that fits nowhere.
pub(crate) fn parse(sql: &str) -> Result<Option<ProjectionStatement>, Error> {
    let mut words = Words::new(sql);
    match (words.next_keyword(), words.next_keyword()) {
        (Some(first), Some(second)) if second == "PROJECTION" => match first.as_str() {
            "CREATE" => create(&mut words, sql).map(Some),
            "DROP" => drop(&mut words).map(Some),
            "REBUILD" => {
                let name = words.name()?;
                words.end()?;
                Ok(Some(ProjectionStatement::Rebuild { name }))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
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
    let parent = match words.take("DOCUMENTS")? {
        true => None,
        false => Some(words.name()?),
    };
    let documents = if parent.is_none() && words.take("WHERE")? {
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
    let (mut columns, mut asserts): (Vec<Column>, Vec<String>) = (Vec::new(), Vec::new());
    loop {
        if words.next_is("ASSERT") {
            asserts.push(assertion(words)?);
            if !words.take_punct(',') {
                break;
            }
            continue;
        }
        for refused in ["UNIQUE", "PRIMARY", "CHECK", "FOREIGN", "CONSTRAINT"] {
            if words.next_is(refused) {
                return Err(refusal(words, refused));
            }
        }
        let column = column(words)?;
        let taken = columns.iter().any(|known| known.name.eq_ignore_ascii_case(&column.name));
        let lower = column.name.to_ascii_lowercase();
        if matches!(lower.as_str(), "_doc" | "_id" | "_parent") {
            let why = "is a column that every projection has of itself";
            return Err(words.refuse(format!("{} {why}", column.name)));
        }
        if taken {
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
    if columns.is_empty() {
        return Err(words.refuse("a projection has at least one column"));
    }
    let is_list = rows.each() == Each::Item;
    if !is_list && let Some(column) = columns.iter().find(|it| it.kind == Kind::Position) {
        return Err(words.refuse(format!("{}: only items of a list have a place", column.name)));
    }
    let definition = Definition { name, parent, documents, rows, columns, asserts, sql };
    Ok(ProjectionStatement::Create { definition, if_not_exists })
}

fn column(words: &mut Words<'_>) -> Result<Column, Error> {
    let name = words.name()?;
    if words.take("FOR")? {
        words.expect("ORDINALITY")?;
        return Ok(Column { name, path: Vec::new(), kind: Kind::Position, on_empty: None });
    }
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
    for refused in ["UNIQUE", "PRIMARY", "CHECK", "NOT", "REFERENCES"] {
        if words.take(refused)? {
            return Err(refusal(words, refused));
        }
    }
    Ok(column)
}

fn refusal(words: &Words<'_>, refused: &str) -> Error {
    let refused = match refused {
        "NOT" => "NOT NULL",
        "PRIMARY" => "PRIMARY KEY",
        "FOREIGN" => "FOREIGN KEY",
        whole => whole,
    };
    words.refuse(format!(
        "{refused} on a projected column is not supported: two replicas could each be right and \
         contradict each other once merged; ASSERT (...) lists the rows that break a rule"
    ))
}

/// `ASSERT (condition)`.
fn assertion(words: &mut Words<'_>) -> Result<String, Error> {
    words.expect("ASSERT")?;
    let text = words.parenthesized()?;
    let selects = |word| matches!(word, Word::Name(w) if w.eq_ignore_ascii_case("SELECT"));
    if Words::new(&text).any(selects) {
        return Err(words.refuse("ASSERT is about one row alone, without SELECT"));
    }
    Ok(text)
}

/// The definitions of a file, parents before their children, resolved.
///
/// # Errors
/// As [`resolve`]; projections that are from each other.
pub(crate) fn resolve_all(all: Vec<Definition>) -> Result<Vec<Definition>, Error> {
    let (mut resolved, mut waiting): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|definition| definition.parent.is_none());
    while !waiting.is_empty() {
        let (ready, still): (Vec<Definition>, Vec<_>) = waiting.into_iter().partition(|it| {
            let is = |other: &Definition| it.parent.as_ref().is_some_and(|name| other.is(name));
            resolved.iter().any(is)
        });
        if ready.is_empty() {
            let why = format!("{}: there is no projection that it is from", still[0].name);
            return Err(Error::Definition { why });
        }
        for mut definition in ready {
            resolve(&mut definition, &resolved)?;
            resolved.push(definition);
        }
        waiting = still;
    }
    Ok(resolved)
}

/// Puts the rows of projections that are from others at their place in the documents.
///
/// # Errors
/// [`Error::Definition`] for a projection that is from none.
pub(crate) fn resolve(definition: &mut Definition, others: &[Definition]) -> Result<(), Error> {
    let Some(name) = &definition.parent else { return Ok(()) };
    let Some(parent) = others.iter().find(|other| other.is(name)) else {
        let why = format!("{}: no such projection: {name}", definition.name);
        return Err(Error::Definition { why });
    };
    definition.documents.clone_from(&parent.documents);
    let own = std::mem::take(&mut definition.rows.steps);
    definition.rows.steps = parent.rows.steps.iter().cloned().chain(own).collect();
    if parent.rows.stars() > 0 && definition.rows.each() == Each::Itself {
        let why = format!("{}: rows within rows are items of a list or entries", definition.name);
        return Err(Error::Definition { why });
    }
    Ok(())
}

/// `$.items[*]`, `$.settings.*`, `$.a.b`, `$.items[*].parts[*]`, `$`, or the same as JSON Pointers
/// (`/items/*`).
fn row_path(path: &str) -> Option<RowPath> {
    let mut steps = Vec::new();
    if let Some(pointer) = path.strip_prefix('/') {
        for key in pointer.split('/') {
            steps.push(match key {
                "*" => Step::Items,
                key => Step::Key(key.replace("~1", "/").replace("~0", "~")),
            });
        }
    } else if !path.is_empty() {
        let mut rest = path.strip_prefix('$')?;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]") {
                steps.push(Step::Items);
                rest = after;
                continue;
            }
            rest = rest.strip_prefix('.')?;
            let key;
            (key, rest) = match rest.strip_prefix('"') {
                Some(quoted) => {
                    let (key, rest) = quoted.split_once('"')?;
                    (Step::Key(key.to_owned()), rest)
                }
                None => {
                    let (key, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
                    let step = if key == "*" { Step::Entries } else { Step::Key(key.to_owned()) };
                    (step, rest)
                }
            };
            if matches!(&key, Step::Key(key) if key.is_empty() || key.contains(['[', ']', '*'])) {
                return None;
            }
            steps.push(key);
        }
    }
    let path = RowPath { steps };
    (path.stars() == 0 || path.each() != Each::Itself).then_some(path)
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
        let steps = vec![Step::Key("a".into()), Step::Key("x.y".into()), Step::Items];
        let rows = RowPath { steps };
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
        assert!(refused("CREATE PROJECTION p FROM x").contains("ends too early"));
        assert!(refused("CREATE PROJECTION p FROM x y").contains("near y"));
        assert!(refused("CREATE PROJECTION p FROM DOCUMENTS ROWS '$").contains("unterminated"));
        assert!(refused("DROP PROJECTION").contains("ends too early"));
    }
}

//! Virtual tables under rules: a table of the same module in memory, over the visible rows alone.
//!
//! `bm25`, snippets and nearest neighbours are of all rows of their index. Over a table made of the
//! rows and columns in sight they are as in a file without the hidden ones. Cost: every visible row
//! is read and indexed, at each call.

use shoal::Database;
use shoal_sql::{Limits, Narrowed, Value, VisibleVirtual};

use super::schema::quoted;
use crate::desk::{Stop, Work};
use crate::refusal::Refusal;
use crate::seen::Seen;

/// Options of an FTS5 table that say where texts are kept: those of the table in memory are its
/// own.
const KEEPING: [&str; 4] =
    ["content", "content_rowid", "contentless_delete", "contentless_unindexed"];

/// The part of a definition that one argument is.
struct Argument<'a> {
    text: &'a str,
    /// The first word without quotes: a column's name, or an option's.
    name: String,
    /// The text behind `=`.
    value: Option<&'a str>,
}

impl<'a> Argument<'a> {
    fn of(text: &'a str) -> Argument<'a> {
        let text = text.trim();
        let word = text.trim_start_matches('+').trim_start();
        let quote = word.chars().next().filter(|first| matches!(first, '"' | '\'' | '`' | '['));
        let Some(open) = quote else {
            let end = word.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(word.len());
            let rest = word[end..].trim_start();
            let value = rest.strip_prefix('=').map(str::trim);
            return Argument { text, name: word[..end].to_owned(), value };
        };
        let close = if open == '[' { ']' } else { open };
        let (mut name, mut letters) = (String::new(), word.chars().skip(1).peekable());
        while let Some(letter) = letters.next() {
            if letter == close {
                if close == ']' || letters.peek() != Some(&close) {
                    break;
                }
                letters.next();
            }
            name.push(letter);
        }
        Argument { text, name, value: None }
    }
}

/// The table in memory: its arguments, and the columns to be filled.
struct Plan {
    arguments: Vec<String>,
    /// The visible columns, each with the SQL of its value.
    columns: Vec<(String, String)>,
    fills_rowid: bool,
}

impl Plan {
    /// The plan for a virtual table.
    ///
    /// # Errors
    /// An FTS5 table without texts.
    fn of(table: &VisibleVirtual) -> Result<Plan, Refusal> {
        let is_text = table.module.eq_ignore_ascii_case("fts5");
        let mut plan =
            Plan { arguments: Vec::new(), columns: Vec::new(), fills_rowid: table.shows_rowid };
        let mut functions = Vec::new();
        for text in &table.arguments {
            let argument = Argument::of(text);
            let is = |name: &str| argument.name.eq_ignore_ascii_case(name);
            if is_text && argument.value.is_some() {
                let is_empty = argument.value.is_some_and(|value| matches!(value, "''" | "\"\""));
                if is("content") && is_empty {
                    let why = format!("{} keeps no texts to be searched under rules", table.name);
                    return Err(Refusal::new(why));
                }
                if !KEEPING.iter().any(|name| is(name)) {
                    plan.arguments.push(argument.text.to_owned());
                }
                continue;
            }
            match table.columns.iter().find(|(name, _)| is(name)) {
                Some((_, false)) => continue,
                Some((name, true)) => {
                    let words = argument.text.to_ascii_lowercase();
                    // A declared key is the rowid by another name.
                    plan.fills_rowid &= !words.contains("primary key");
                    let function = match () {
                        () if words.contains("int8[") || words.contains("i8[") => "vec_int8",
                        () if words.contains("bit[") => "vec_bit",
                        () => "",
                    };
                    functions.push((name.clone(), function));
                }
                None => {}
            }
            plan.arguments.push(argument.text.to_owned());
        }
        for (name, is_visible) in &table.columns {
            if *is_visible && !name.eq_ignore_ascii_case("rowid") {
                let function = functions.iter().find(|(known, _)| known == name);
                let function = function.map_or("", |(_, function)| *function);
                plan.columns.push((name.clone(), function.to_owned()));
            }
        }
        Ok(plan)
    }

    fn create(&self, table: &VisibleVirtual) -> String {
        let arguments = self.arguments.join(", ");
        format!("CREATE VIRTUAL TABLE {} USING {} ({arguments})", quoted(&table.name), table.module)
    }

    fn select(&self, table: &VisibleVirtual) -> String {
        let rowid = self.fills_rowid.then(|| "rowid".to_owned());
        let columns = self.columns.iter().map(|(name, _)| quoted(name));
        let columns: Vec<String> = rowid.into_iter().chain(columns).collect();
        format!("SELECT {} FROM {}", columns.join(", "), quoted(&table.name))
    }

    fn insert(&self, table: &VisibleVirtual) -> String {
        let rowid = self.fills_rowid.then(|| ("rowid".to_owned(), String::new()));
        let columns = self.columns.iter().map(|(name, function)| (quoted(name), function.clone()));
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (place, (name, function)) in rowid.into_iter().chain(columns).enumerate() {
            names.push(name);
            values.push(match function.is_empty() {
                true => format!("?{}", place + 1),
                false => format!("{function}(?{})", place + 1),
            });
        }
        let (names, values) = (names.join(", "), values.join(", "));
        format!("INSERT INTO {} ({names}) VALUES ({values})", quoted(&table.name))
    }
}

/// A database in memory with the visible rows of a virtual table under the table's name.
///
/// # Errors
/// Texts that are not kept; rows beyond the memory of a statement; the end of the call.
pub(super) fn copy(work: &mut Work<'_>, table: &VisibleVirtual) -> Result<Database, Refusal> {
    let plan = Plan::of(table)?;
    let (limits, stop) = (work.desk.limits, work.stop);
    let mut database = Database::memory(work.desk.environment.clone())?;
    database.sql().set_limits(Limits {
        memory_bytes: Some(limits.memory_bytes),
        time: Some(limits.time),
        ..Limits::default()
    });
    let Seen::Narrowed(narrowed) = &mut work.seen else {
        return Err(Refusal::new("a table is copied under rules alone"));
    };
    let filled = fill(narrowed, &mut database, table, &plan, (limits.memory_bytes, stop));
    filled.map_err(|fault| match fault {
        Fault::Sql(error) => Refusal::new(work.seen.words(&error)),
        Fault::Refused(refusal) => refusal,
    })?;
    Ok(database)
}

enum Fault {
    Sql(shoal_sql::Error),
    Refused(Refusal),
}

impl From<shoal_sql::Error> for Fault {
    fn from(error: shoal_sql::Error) -> Fault {
        Fault::Sql(error)
    }
}

fn fill(
    narrowed: &mut Narrowed,
    database: &mut Database,
    table: &VisibleVirtual,
    plan: &Plan,
    (bytes_max, stop): (u64, &Stop),
) -> Result<(), Fault> {
    let connection = database.sql();
    let mut create = connection.prepare(&plan.create(table))?;
    connection.execute(&mut create)?;
    connection.begin(shoal_store::Mode::Write)?;
    let mut insert = connection.prepare(&plan.insert(table))?;
    let mut select = narrowed.prepare(&plan.select(table))?;
    let mut rows = narrowed.query(&mut select)?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        for (place, value) in row.values().enumerate() {
            let value = Value::from(value);
            bytes += match &value {
                Value::Text(text) => text.len() as u64,
                Value::Blob(blob) => blob.len() as u64,
                _ => 8,
            };
            insert.bind(place + 1, value)?;
        }
        if bytes > bytes_max {
            let why = format!(
                "the visible rows of {} have more than {} MiB, and under rules they are indexed \
                 for each search",
                table.name,
                bytes_max >> 20
            );
            return Err(Fault::Refused(Refusal::new(why)));
        }
        stop.check().map_err(Fault::Refused)?;
        connection.execute(&mut insert)?;
    }
    connection.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(module: &str, arguments: &[&str], columns: &[(&str, bool)]) -> VisibleVirtual {
        VisibleVirtual {
            name: "t".to_owned(),
            module: module.to_owned(),
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
            columns: columns.iter().map(|(name, seen)| ((*name).to_owned(), *seen)).collect(),
            shows_rowid: true,
        }
    }

    #[test]
    fn hidden_columns_and_kept_texts_are_left_out() {
        let arguments = [
            "title",
            "\"my \"\"own\" UNINDEXED",
            "secret",
            "content='note'",
            "content_rowid = id",
            "tokenize = 'porter unicode61'",
            "prefix='2 3'",
        ];
        let columns = [("title", true), ("my \"own", true), ("secret", false)];
        let table = table("fts5", &arguments, &columns);
        let plan = Plan::of(&table).unwrap();
        assert_eq!(
            plan.create(&table),
            "CREATE VIRTUAL TABLE \"t\" USING fts5 (title, \"my \"\"own\" UNINDEXED, \
             tokenize = 'porter unicode61', prefix='2 3')"
        );
        assert_eq!(plan.select(&table), "SELECT rowid, \"title\", \"my \"\"own\" FROM \"t\"");
        assert_eq!(
            plan.insert(&table),
            "INSERT INTO \"t\" (rowid, \"title\", \"my \"\"own\") VALUES (?1, ?2, ?3)"
        );
    }

    #[test]
    fn texts_that_are_not_kept_are_told() {
        for none in ["content=''", "content = \"\""] {
            assert!(Plan::of(&table("fts5", &["a", none], &[("a", true)])).is_err());
        }
    }

    #[test]
    fn vectors_keep_their_kinds() {
        let arguments = ["id integer primary key", "a float[2]", "b bit[8]", "chunk_size=8"];
        let columns = [("id", true), ("a", true), ("b", true)];
        let vectors = table("vec0", &arguments, &columns);
        let plan = Plan::of(&vectors).unwrap();
        assert_eq!(
            plan.insert(&vectors),
            "INSERT INTO \"t\" (\"id\", \"a\", \"b\") VALUES (?1, ?2, vec_bit(?3))"
        );
        assert!(
            plan.create(&vectors)
                .ends_with("(id integer primary key, a float[2], b bit[8], chunk_size=8)")
        );
        let hidden = [("id", false), ("a", true), ("b", false)];
        let hidden = table("vec0", &arguments, &hidden);
        let plan = Plan::of(&hidden).unwrap();
        assert!(plan.create(&hidden).ends_with("(a float[2], chunk_size=8)"));
        assert!(plan.insert(&hidden).starts_with("INSERT INTO \"t\" (rowid, \"a\")"));
    }
}

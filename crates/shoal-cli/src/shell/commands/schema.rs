//! Commands listing the contents of the database.

use std::io::Write;

use shoal_sql::Error;

use super::Command;
use crate::dump::without_clash;
use crate::failure::Failure;
use crate::query::{rows, text};
use crate::rows::literal::{identifier, literal_on_a_line};
use crate::shell::session::Session;

fn failed(error: Error) -> Failure {
    Failure::new(error)
}

/// The names of the open databases, `main` first.
fn database_names(session: &mut Session) -> Result<Vec<String>, Failure> {
    let list = rows(&mut session.connection, "PRAGMA database_list", &[]).map_err(failed)?;
    Ok(list.iter().map(|row| text(&row[1])).filter(|name| name != "temp").collect())
}

/// `.databases`
pub(super) fn databases(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    if !words.is_empty() {
        return Err(command.misused());
    }
    let list = rows(&mut session.connection, "PRAGMA database_list", &[]).map_err(failed)?;
    for row in &list {
        let (name, mut file) = (text(&row[1]), text(&row[2]));
        if name == "main" && file.is_empty() && session.file.as_os_str() != ":memory:" {
            file = session.file.display().to_string();
        }
        let file = if file.is_empty() { "\"\"".to_owned() } else { file };
        let access = match name == "main" && session.connection.store().is_read_only() {
            true => "r/o",
            false => "r/w",
        };
        writeln!(session.out, "{name}: {file} {access}")?;
    }
    Ok(())
}

/// `.tables ?PATTERN?`
pub(super) fn tables(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let rule = "type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                AND name LIKE ?1";
    names(session, command, words, rule)
}

/// `.indexes ?TABLE?`
pub(super) fn indexes(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    names(session, command, words, "type = 'index' AND tbl_name LIKE ?1")
}

/// Prints the names satisfying the condition `rule`, in columns.
fn names(
    session: &mut Session,
    command: &Command,
    words: &[&str],
    rule: &str,
) -> Result<(), Failure> {
    let pattern = match words {
        [] => "%",
        [pattern] => pattern,
        _ => return Err(command.misused()),
    };
    let mut names = Vec::new();
    for database in database_names(session)? {
        let sql = format!("SELECT name FROM {}.sqlite_schema WHERE {rule}", identifier(&database));
        for row in rows(&mut session.connection, &sql, &[pattern]).map_err(failed)? {
            names.push(match database.as_str() {
                "main" => text(&row[0]),
                other => format!("{other}.{}", text(&row[0])),
            });
        }
    }
    names.sort_unstable();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = (LINE / (width + 2)).max(1);
    let lines = names.len().div_ceil(columns);
    for line in 0..lines {
        let cells: Vec<String> =
            names.iter().skip(line).step_by(lines).map(|name| format!("{name:<width$}")).collect();
        writeln!(session.out, "{}", cells.join("  "))?;
    }
    Ok(())
}

/// Most characters in a line of names.
const LINE: usize = 80;

/// `.schema ?--indent? ?--nosys? ?PATTERN?`
pub(super) fn schema(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let (mut indent, mut own, mut pattern) = (false, true, None);
    for word in words {
        match *word {
            "--indent" | "-indent" => indent = true,
            "--nosys" | "-nosys" => own = false,
            "--debug" | "-debug" => {
                return Err(Failure::new("not supported: .schema --debug"));
            }
            option if option.starts_with("--") => return Err(command.misused()),
            _ if pattern.is_some() => return Err(command.misused()),
            word => pattern = Some(word),
        }
    }
    let wanted = pattern.unwrap_or("%").to_ascii_lowercase();
    if matches!(wanted.as_str(), "sqlite_schema" | "sqlite_master") {
        let sql = format!("CREATE TABLE {wanted} {SCHEMA_TABLE};");
        return Ok(writeln!(session.out, "{sql}")?);
    }
    for database in database_names(session)? {
        let name = match wanted.contains('.') {
            true => format!("'{}.' || tbl_name", database.replace('\'', "''")),
            false => "tbl_name".to_owned(),
        };
        let how = if wanted.contains(['*', '?', '[']) { "GLOB" } else { "LIKE" };
        let system = if own { "1" } else { "name NOT LIKE 'sqlite\\_%' ESCAPE '\\'" };
        let sql = format!(
            "SELECT type, name, sql FROM {}.sqlite_schema WHERE lower({name}) {how} ?1 \
             AND sql IS NOT NULL AND {system} ORDER BY rowid",
            identifier(&database)
        );
        for row in rows(&mut session.connection, &sql, &[&wanted]).map_err(failed)? {
            let (kind, name) = (text(&row[0]), text(&row[1]));
            let mut sql = qualified(&text(&row[2]), &database);
            if kind == "view" {
                sql.push_str(&view_columns(session, &database, &name));
            }
            print(session, &sql, indent)?;
        }
    }
    Ok(())
}

const SCHEMA_TABLE: &str = "(
  type text,
  name text,
  tbl_name text,
  rootpage integer,
  sql text
)";

/// A definition with its database's name, except for `main`.
fn qualified(sql: &str, database: &str) -> String {
    if database == "main" {
        return sql.to_owned();
    }
    let kinds = ["TABLE", "VIEW", "INDEX", "UNIQUE INDEX", "TRIGGER", "VIRTUAL TABLE"];
    let begins = kinds.map(|kind| format!("CREATE {kind} "));
    match begins.iter().find_map(|begin| sql.strip_prefix(begin).map(|rest| (begin, rest))) {
        Some((begin, rest)) => format!("{begin}{}.{rest}", identifier(database)),
        None => sql.to_owned(),
    }
}

/// The columns of a view, as a comment.
fn view_columns(session: &mut Session, database: &str, view: &str) -> String {
    let name = format!("{}.{}", identifier(database), identifier(view));
    // An unusable view has no columns.
    let Ok(statement) = session.connection.prepare(&format!("SELECT * FROM {name}")) else {
        return String::new();
    };
    let columns: Vec<String> =
        statement.column_names().iter().map(|column| identifier(column)).collect();
    let name = if database == "main" { identifier(view) } else { name };
    format!("\n/* {name}({}) */", columns.join(","))
}

fn print(session: &mut Session, sql: &str, indent: bool) -> std::io::Result<()> {
    let sql = without_clash(sql);
    let sql = if indent { indented(&sql) } else { sql };
    writeln!(session.out, "{sql};")
}

/// A definition with single blanks; one longer than a line is broken to a line per column.
fn indented(sql: &str) -> String {
    let upper = sql.to_ascii_uppercase();
    if upper.starts_with("CREATE VIEW") || upper.starts_with("CREATE TRIG") {
        return sql.to_owned();
    }
    let mut text = String::with_capacity(sql.len());
    for character in sql.trim().chars() {
        let after_blank = text.ends_with(char::is_whitespace);
        if character.is_whitespace() {
            if after_blank || text.ends_with('(') {
                continue;
            }
        } else if matches!(character, '(' | ')') && after_blank {
            text.pop();
        }
        text.push(character);
    }
    if text.len() < LINE - 1 {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 64);
    let (mut depth, mut broken, mut end_of_quote) = (0_usize, false, None);
    let mut rest = text.as_str();
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match (end_of_quote, character) {
            (Some(end), character) if character == end => end_of_quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => end_of_quote = Some(character),
            (None, '[') => end_of_quote = Some(']'),
            (None, '-') if rest.starts_with('-') => end_of_quote = Some('\n'),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth = depth.saturating_sub(1);
                if broken && depth == 0 {
                    out.push('\n');
                }
            }
            (None, _) => {}
        }
        if depth == 1 && end_of_quote.is_none() && matches!(character, '(' | '\n' | ',') {
            if character == ',' && ends_line(rest) {
                out.push(character);
                continue;
            }
            if character != '\n' {
                out.push(character);
            }
            out.push_str("\n  ");
            broken = true;
            rest = rest.trim_start();
        } else {
            out.push(character);
        }
    }
    out
}

/// True where nothing but a comment follows on the line.
fn ends_line(rest: &str) -> bool {
    let line = rest.split('\n').next().unwrap_or_default().trim();
    line.is_empty() || line.starts_with("--")
}

/// `.fullschema ?--indent?`
pub(super) fn full(
    session: &mut Session,
    command: &Command,
    words: &[&str],
) -> Result<(), Failure> {
    let indent = match words {
        [] => false,
        ["--indent" | "-indent"] => true,
        _ => return Err(command.misused()),
    };
    let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL \
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
    for row in rows(&mut session.connection, sql, &[]).map_err(failed)? {
        print(session, &text(&row[0]), indent)?;
    }
    let sql = "SELECT name FROM sqlite_schema WHERE name GLOB 'sqlite_stat[134]' ORDER BY name";
    let tables = rows(&mut session.connection, sql, &[]).map_err(failed)?;
    if tables.is_empty() {
        return Ok(writeln!(session.out, "/* No STAT tables available */")?);
    }
    writeln!(session.out, "ANALYZE sqlite_schema;")?;
    for table in &tables {
        let table = text(&table[0]);
        for row in
            rows(&mut session.connection, &format!("SELECT * FROM {table}"), &[]).map_err(failed)?
        {
            write!(session.out, "INSERT INTO {table} VALUES(")?;
            for (place, value) in row.iter().enumerate() {
                if place > 0 {
                    session.out.write_all(b",")?;
                }
                literal_on_a_line(&mut session.out, &value.as_ref())?;
            }
            session.out.write_all(b");\n")?;
        }
    }
    Ok(writeln!(session.out, "ANALYZE sqlite_schema;")?)
}

//! Refusals: one or two sentences for the model behind a call, with a way to repair the call.

use shoal_server::Unanswered;
use shoal_sql::NameKind;

use crate::desk::Stop;
use crate::seen::Seen;

/// A call without an answer. The text names the fault first, then the way on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

/// Names told in one hint.
const NAMES_MAX: usize = 40;

impl Refusal {
    /// A refusal of these words.
    pub(crate) fn new(words: impl Into<String>) -> Refusal {
        Refusal(words.into())
    }

    /// The refusal with a way on.
    pub(crate) fn hint(mut self, hint: impl std::fmt::Display) -> Refusal {
        self.0 = format!("{}. {hint}", self.0);
        self
    }

    /// The failure of a statement: the fault, its place in the text, and names like the wrong one.
    pub(crate) fn of_statement(
        error: &shoal_sql::Error,
        sql: &str,
        seen: &mut Seen<'_>,
    ) -> Refusal {
        let mut words = seen.words(error);
        if let Some(offset) = error.offset()
            && let Some(rest) = sql.get(offset..)
            && !rest.is_empty()
        {
            let place = sql.get(..offset).map_or(0, |before| before.chars().count()) + 1;
            let near: String = rest.chars().take(30).collect();
            words.push_str(&format!(" (at character {place}: {near})"));
        }
        let refusal = Refusal(words);
        match error {
            shoal_sql::Error::Name { kind: NameKind::Table, .. } => refusal.hint(tables_hint(seen)),
            shoal_sql::Error::Name { kind: NameKind::Column, .. } => {
                match columns_hint(seen, sql) {
                    Some(hint) => refusal.hint(hint),
                    None => refusal.hint("The tool schema tells the columns of each table"),
                }
            }
            shoal_sql::Error::Refused { .. } => refusal.hint(
                "Documents are changed by the tool edit_document, or through the rows of a \
                 projection",
            ),
            _ => refusal,
        }
    }

    /// The failure of a question, told apart from the end of its time and its cancellation.
    pub(crate) fn unless_stopped(self, stop: &Stop) -> Refusal {
        match stop.reason() {
            Some(reason) => Refusal(reason),
            None => self,
        }
    }
}

fn tables_hint(seen: &mut Seen<'_>) -> String {
    let sql = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') \
               AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_%' ESCAPE '\\' \
               ORDER BY name";
    let names = names(seen, sql, None);
    match names.is_empty() {
        true if seen.is_narrowed() => "No tables are listed here".to_owned(),
        true => "There are no tables; the tool documents lists documents".to_owned(),
        false => format!("Tables and views: {}", listed(names)),
    }
}

/// The columns of the tables named by a statement.
fn columns_hint(seen: &mut Seen<'_>, sql: &str) -> Option<String> {
    let words: Vec<String> = sql
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .map(str::to_ascii_lowercase)
        .collect();
    let mut hints = Vec::new();
    let all = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY name";
    for name in names(seen, all, None) {
        if words.contains(&name.to_ascii_lowercase()) {
            let columns = names(seen, "SELECT name FROM pragma_table_info(?1)", Some(&name));
            if !columns.is_empty() {
                hints.push(format!("Columns of {name}: {}", listed(columns)));
            }
        }
    }
    (!hints.is_empty()).then(|| hints.join(". "))
}

fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// The texts of a query's first column; none where the query fails.
fn names(seen: &mut Seen<'_>, sql: &str, parameter: Option<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(mut statement) = seen.prepare(sql) else { return found };
    if let Some(parameter) = parameter
        && statement.bind(1, parameter).is_err()
    {
        return found;
    }
    let Ok(mut rows) = seen.query(&mut statement) else { return found };
    while let Ok(Some(row)) = rows.next() {
        if let shoal_sql::ValueRef::Text(name) = row.get(0) {
            found.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}

impl From<shoal_sql::Error> for Refusal {
    fn from(error: shoal_sql::Error) -> Refusal {
        Refusal(error.to_string())
    }
}

impl From<shoal::Error> for Refusal {
    fn from(error: shoal::Error) -> Refusal {
        let refusal = Refusal(error.to_string());
        match error {
            shoal::Error::NoDocument { .. } => no_document(refusal),
            error if error.is_busy() => {
                refusal.hint("Another program is writing to the file: call again in a moment")
            }
            _ => refusal,
        }
    }
}

/// The way on from a missing document.
pub(crate) fn no_document(refusal: Refusal) -> Refusal {
    refusal.hint("The tool documents without a name lists the documents there are")
}

impl From<Unanswered> for Refusal {
    fn from(unanswered: Unanswered) -> Refusal {
        match unanswered {
            Unanswered::Busy => Refusal::new("the server is busy: 32 calls wait already")
                .hint("Call again once others are answered"),
            other => Refusal(other.to_string()),
        }
    }
}

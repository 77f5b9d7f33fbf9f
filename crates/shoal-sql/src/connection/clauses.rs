//! Clauses of a program's own in a `FROM`: `WORD (...)` stands for a query.
//!
//! A text is rewritten before parsing: the planner sees a query and nothing else. A view made with
//! such a clause keeps the query, for other programs to read.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::Connection;
use crate::Error;

/// Clauses may stand in the queries of clauses this deep.
const DEPTH_MAX: usize = 8;

/// A clause of a program's own in the `FROM` of queries ([`Connection::register_clause`]).
pub trait Clause: fmt::Debug + Send + Sync {
    /// The word in front of the parenthesis, compared in any case.
    fn word(&self) -> &str;

    /// True where [`Clause::query`] asks the connection nothing but queries, and gives a query of
    /// names that the connection sees: then narrowed connections have the clause, too.
    fn is_for_narrowed(&self) -> bool {
        false
    }

    /// The query in the clause's place, and the length of the clause's text: bytes of
    /// [`ClausePlace::inside`] to the end of the closing parenthesis.
    ///
    /// # Errors
    /// Faults of the clause; an offset in the error counts from the start of the text inside.
    fn query(
        &self,
        place: ClausePlace<'_>,
        connection: &mut Connection,
    ) -> Result<(String, usize), Error>;
}

/// A clause where it stands in its statement.
#[derive(Clone, Copy, Debug)]
pub struct ClausePlace<'s> {
    /// The statement's text up to the clause's word. `CREATE VIEW` and `CREATE TRIGGER` keep the
    /// query in the file, for other programs to read.
    pub before: &'s str,
    /// The text behind the opening parenthesis, to the end of the statement.
    pub inside: &'s str,
}

/// A text without clauses, and where its parts come from.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) text: String,
    /// The ranges of queries in the text, and the places of their clauses before.
    queries: Vec<(Range<usize>, Range<usize>)>,
}

impl Rewritten {
    /// An error of the text, with its place in the text before; a query's is its clause's.
    pub(super) fn place(&self, error: Error) -> Error {
        let Some(offset) = error.offset() else { return error };
        let mut before = offset;
        for (query, clause) in &self.queries {
            if offset >= query.end {
                before = clause.end + (offset - query.end);
            } else if offset >= query.start {
                before = clause.start;
            }
        }
        error.at(before)
    }
}

impl Connection {
    /// Lets statements prepared from now on have a clause of the program's own. It takes the place
    /// of one with the same word. The plans of texts with clauses are not kept by text.
    pub fn register_clause(&mut self, clause: Arc<dyn Clause>) {
        self.clauses.retain(|other| !other.word().eq_ignore_ascii_case(clause.word()));
        self.clauses.push(clause);
    }

    /// The text with queries in the place of clauses; `None` where there is none.
    pub(super) fn without_clauses(&mut self, sql: &str) -> Result<Option<Rewritten>, Error> {
        let clauses = self.clauses.clone();
        if clauses.iter().all(|clause| find(sql, 0, clause.word()).is_none()) {
            return Ok(None);
        }
        self.rewrite(&clauses, sql, 0)
    }

    fn rewrite(
        &mut self,
        clauses: &[Arc<dyn Clause>],
        sql: &str,
        depth: usize,
    ) -> Result<Option<Rewritten>, Error> {
        let mut rewritten = Rewritten { text: String::new(), queries: Vec::new() };
        let mut taken = 0;
        while let Some((clause, word)) = first(clauses, sql, taken) {
            if depth == DEPTH_MAX {
                return Err(Error::Limit { what: "clauses within clauses", max: DEPTH_MAX as u64 });
            }
            let shifted = |error: Error| match error.offset() {
                Some(offset) => error.at(word.end + offset),
                None => error,
            };
            let place = ClausePlace { before: &sql[..word.start], inside: &sql[word.end..] };
            let (query, length) = clause.query(place, self).map_err(shifted)?;
            let inner = self.rewrite(clauses, &query, depth + 1).map_err(Error::nowhere)?;
            let query = inner.map_or(query, |inner| inner.text);
            let end = word.end + length;
            rewritten.text.push_str(&sql[taken..word.start]);
            let start = rewritten.text.len();
            rewritten.text.push('(');
            rewritten.text.push_str(&query);
            rewritten.text.push(')');
            rewritten.queries.push((start..rewritten.text.len(), word.start..end));
            taken = end;
        }
        if rewritten.queries.is_empty() {
            return Ok(None);
        }
        rewritten.text.push_str(&sql[taken..]);
        Ok(Some(rewritten))
    }
}

/// The first clause from `from` on, and the range of its word with the parenthesis.
fn first<'c>(
    clauses: &'c [Arc<dyn Clause>],
    sql: &str,
    from: usize,
) -> Option<(&'c Arc<dyn Clause>, Range<usize>)> {
    clauses
        .iter()
        .filter_map(|clause| Some((clause, find(sql, from, clause.word())?)))
        .min_by_key(|(_, word)| word.start)
}

/// The word of the first clause in a text.
pub(super) fn word_in<'c>(clauses: &'c [Arc<dyn Clause>], sql: &str) -> Option<&'c str> {
    first(clauses, sql, 0).map(|(clause, _)| clause.word())
}

/// A word and the parenthesis behind it, outside of literals, quoted names and comments.
fn find(sql: &str, from: usize, word: &str) -> Option<Range<usize>> {
    let bytes = sql.as_bytes();
    let is_there = |at: usize| {
        bytes.get(at..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()))
    };
    // Most texts have the word nowhere.
    (from..bytes.len()).find(|&at| is_there(at))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut at = from;
    while at < bytes.len() {
        let ends = |close: &str, behind: usize| {
            sql.get(at + behind..)
                .and_then(|rest| rest.find(close))
                .map_or(bytes.len(), |place| at + behind + place + close.len())
        };
        at = match bytes[at] {
            b'\'' => ends("'", 1),
            b'"' => ends("\"", 1),
            b'`' => ends("`", 1),
            b'[' => ends("]", 1),
            b'-' if bytes.get(at + 1) == Some(&b'-') => ends("\n", 2),
            b'/' if bytes.get(at + 1) == Some(&b'*') => ends("*/", 2),
            byte if is_name(byte) => {
                let end = (at..bytes.len()).find(|&it| !is_name(bytes[it])).unwrap_or(bytes.len());
                if end - at == word.len() && is_there(at) {
                    let rest = &sql[end..];
                    let blanks = rest.len() - rest.trim_start().len();
                    if rest[blanks..].starts_with('(') {
                        return Some(at..end + blanks + 1);
                    }
                }
                end
            }
            _ => at + 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_outside_of_texts() {
        let place = |sql: &str| find(sql, 0, "TWICE").map(|range| range.start);
        assert_eq!(place("SELECT * FROM twice (1)"), Some(14));
        assert_eq!(place("SELECT 'Twice(' FROM t -- twice(\n, TWICE(x)"), Some(35));
        for sql in ["SELECT twice FROM t", "SELECT \"twice\"(1)", "SELECT [twice(]", "/*twice(*/"] {
            assert_eq!(place(sql), None, "{sql}");
        }
        assert_eq!(place("SELECT xtwice(1), twice_(2), tw"), None);
        assert_eq!(place("ä twice("), Some(3));
    }

    #[derive(Debug)]
    struct Twice;

    impl Clause for Twice {
        fn word(&self) -> &str {
            "TWICE"
        }

        fn query(
            &self,
            place: ClausePlace<'_>,
            _: &mut Connection,
        ) -> Result<(String, usize), Error> {
            let text = place.inside;
            let end = text.find(')').ok_or_else(|| Error::meaning("TWICE is not closed", 0))?;
            Ok((format!("SELECT 2 * ({}) AS twice", &text[..end]), end + 1))
        }
    }

    fn connection() -> Connection {
        let mut connection = Connection::open(shoal_store::Store::memory()).unwrap();
        connection.register_clause(Arc::new(Twice));
        connection
    }

    fn ask(connection: &mut Connection, sql: &str) -> Vec<i64> {
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = connection.query(&mut statement).unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let crate::ValueRef::Int(number) = row.get(0) else { panic!("no number") };
            found.push(number);
        }
        found
    }

    #[test]
    fn a_clause_is_a_query() {
        let mut connection = connection();
        let sql = "SELECT a.twice + b.twice FROM TWICE (1 + 2) a, twice(5) AS b";
        assert_eq!(ask(&mut connection, sql), [16]);
        // The same text once more, and in a view: the file keeps the query.
        assert_eq!(ask(&mut connection, sql), [16]);
        let mut view = connection.prepare("CREATE VIEW v AS SELECT * FROM twice(7)").unwrap();
        connection.execute(&mut view).unwrap();
        assert_eq!(ask(&mut connection, "SELECT * FROM v"), [14]);
        let sql = "SELECT instr(sql, '(SELECT 2 * (7) AS twice)') > 0 FROM sqlite_schema";
        assert_eq!(ask(&mut connection, sql), [1]);
    }

    #[test]
    fn errors_have_their_places() {
        let mut connection = connection();
        let place =
            |connection: &mut Connection, sql: &str| connection.prepare(sql).unwrap_err().offset();
        assert_eq!(place(&mut connection, "SELECT * FROM twice(1), nosuch"), Some(24));
        assert_eq!(place(&mut connection, "SELECT * FROM twice(nosuch)"), Some(14));
        assert_eq!(place(&mut connection, "SELECT * FROM twice(1"), Some(20));
        assert_eq!(place(&mut connection, "SELECT nosuch FROM twice(1)"), Some(7));
    }
}

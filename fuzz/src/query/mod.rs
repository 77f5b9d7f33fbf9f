//! Queries made of bytes, over tables made of bytes: every feature of a `SELECT`, so that every
//! access path is taken.
//!
//! Choices left open by SQL are avoided or pinned down. Of equal values with several forms (`1` and
//! `1.0`, `'a'` and `'A'` under `NOCASE`) the tables have one form only; an order deciding the
//! answer (of a `LIMIT`, a `row_number()`, a `group_concat`) goes by all columns. Errors of
//! functions are avoided too: the plan decides which rows reach a function.

mod expr;
mod from;
mod schema;
mod select;
mod words;

use words::{COLUMNS, LITERALS, PLAIN, VIEWS};

pub use schema::schema;

/// A query and the values of its parameters `?1`, `?2` and so on, as literals of SQL.
#[derive(Debug)]
pub struct Query {
    /// One statement.
    pub sql: String,
    /// The same for who has no `generate_series` but a table `numbers` with a `value` without type.
    pub without_series: String,
    /// The values.
    pub parameters: Vec<&'static str>,
    /// True when the rows come in one order only: answers are then compared in sequence.
    pub ordered: bool,
}

/// Pseudo-random bytes for a number.
#[must_use]
pub fn bytes_of(seed: u64, count: usize) -> Vec<u8> {
    // Neighbours begin far apart; zero is where xorshift stays.
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..count).map(next).collect()
}

/// The query chosen by `bytes`.
#[must_use]
pub fn query(bytes: &[u8]) -> Query {
    let mut choices = Choices::new(bytes);
    let (mut sql, ordered) = choices.top();
    // A view may be one of UNION ALL.
    if !sql.contains("UNION ALL") && !VIEWS.iter().any(|view| sql.contains(view)) {
        sql = sql.replace(VALUES_BOUND, "");
    }
    let mut without_series = sql.clone();
    for (call, query) in &choices.series {
        without_series = without_series.replace(call, query);
    }
    Query { sql, without_series, parameters: choices.parameters, ordered }
}

/// Stands behind `VALUES` in a query with the columns of a table: without a limit there, SQLite
/// loses rows of sources beside a query with `UNION ALL`.
const VALUES_BOUND: &str = " LIMIT 9";

/// Bytes taken for choices, one after the other; zeros when they are used up.
struct Choices<'b> {
    bytes: &'b [u8],
    /// How many names were given out.
    names: usize,
    parameters: Vec<&'static str>,
    /// Calls of `generate_series`, each with an equivalent query.
    series: Vec<(String, String)>,
}

/// A source in a `FROM`: its name, and its columns. Columns merged by a join have no name before
/// them; behind a `FULL JOIN` they are wrapped in a function, because SQLite gives them an affinity
/// kept by some comparisons and dropped by others.
#[derive(Clone, Debug)]
struct Source {
    name: String,
    columns: &'static [&'static str],
}

/// The function around columns merged by a `FULL JOIN`, in the place of a source's name.
const MERGED_IN_FULL: &str = "ifnull";

impl Source {
    /// A source with all columns of a table.
    fn whole(name: &str) -> Source {
        Source { name: name.to_owned(), columns: COLUMNS }
    }

    /// True for the merged columns of a join.
    fn is_merged(&self) -> bool {
        self.name.is_empty() || self.name == MERGED_IN_FULL
    }

    fn is_whole(&self) -> bool {
        self.columns == COLUMNS
    }

    /// How a column is written.
    fn at(&self, column: &str) -> String {
        match self.name.as_str() {
            "" => column.to_owned(),
            MERGED_IN_FULL => format!("ifnull({column}, NULL)"),
            name => format!("{name}.{column}"),
        }
    }
}

impl<'b> Choices<'b> {
    fn new(bytes: &'b [u8]) -> Choices<'b> {
        Choices { bytes, names: 0, parameters: Vec::new(), series: Vec::new() }
    }

    /// A number below `count`, at most 256.
    fn below(&mut self, count: usize) -> usize {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                usize::from(*first) % count
            }
            None => 0,
        }
    }

    /// True once in `count` times.
    fn once_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    fn one<'c>(&mut self, of: &[&'c str]) -> &'c str {
        of[self.below(of.len())]
    }

    /// A name not yet taken.
    fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    fn literal(&mut self) -> String {
        let literal = self.one(LITERALS);
        self.bound(literal)
    }

    /// A literal, or now and then a parameter bound to the literal.
    fn bound(&mut self, literal: &'static str) -> String {
        if self.once_in(6) {
            self.parameters.push(literal);
            return format!("?{}", self.parameters.len());
        }
        literal.to_owned()
    }

    /// A column of any source.
    fn column(&mut self, scope: &[Source]) -> String {
        if scope.is_empty() {
            return self.one(LITERALS).to_owned();
        }
        let source = &scope[self.below(scope.len())];
        let column = self.one(source.columns);
        source.at(column)
    }

    /// A column of the last source, to make a condition about the newest source.
    fn last_column(&mut self, scope: &[Source]) -> String {
        let from = scope.len().saturating_sub(1);
        self.column(&scope[from..])
    }

    /// A column or a simple literal: values whose equals all look the same.
    fn plain(&mut self, scope: &[Source]) -> String {
        match self.below(5) {
            1..5 if !scope.is_empty() => self.column(scope),
            _ => self.one(PLAIN).to_owned(),
        }
    }
}

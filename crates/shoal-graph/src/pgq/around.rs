//! The statement around a `GRAPH_TABLE`, as far as its words tell how many rows are wanted.

use super::words::{Kind, Word, Words};

/// The demands of a statement on the rows of a clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    /// Some rows may be enough, others are joined or filtered first: SQL's planner decides.
    Unknown,
    /// Every row is taken.
    All,
    /// The number of rows alone is asked for.
    Count,
}

/// Words that change a database, or take fewer rows than there are.
const PARTIAL: [&str; 11] = [
    "WHERE",
    "JOIN",
    "LIMIT",
    "EXISTS",
    "IN",
    "RECURSIVE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REPLACE",
    "TRIGGER",
];

/// Words behind the only table of a `FROM` that takes all its rows.
const BEHIND: [&str; 6] = ["GROUP", "ORDER", "UNION", "EXCEPT", "INTERSECT", "WINDOW"];

impl Demand {
    /// The demand of the text up to a clause and behind it.
    pub(super) fn of(before: &str, behind: &str) -> Demand {
        let (Ok(before), Ok(behind)) = (Words::new(before, false), Words::new(behind, false))
        else {
            return Demand::Unknown;
        };
        let (before, behind) = (before.rest(), behind.rest());
        let is_partial = |word: &Word<'_>| PARTIAL.iter().any(|other| word.is(other));
        let [first, .., from] = before else { return Demand::Unknown };
        let asks = ["SELECT", "WITH", "EXPLAIN"].iter().any(|word| first.is(word));
        if !asks || !from.is("FROM") || before.iter().chain(behind).any(is_partial) {
            return Demand::Unknown;
        }
        let is_end = |word: Option<&Word<'_>>| {
            word.is_none_or(|word| word.is_sign(")") || word.is_sign(";"))
        };
        let goes_on = |word: Option<&Word<'_>>| {
            is_end(word) || BEHIND.iter().any(|other| word.is_some_and(|word| word.is(other)))
        };
        // A name of the clause's own, with or without `AS`.
        let named = match behind {
            [first, rest @ ..] if first.is("AS") => rest.get(1..).unwrap_or_default(),
            [first, rest @ ..] if first.name().is_some() && !goes_on(Some(first)) => rest,
            all => all,
        };
        if !goes_on(named.first()) {
            return Demand::Unknown;
        }
        let before = &before[..before.len() - 1];
        let is_count = |words: &[Word<'_>]| {
            let signs = ["(", "*", ")"];
            let [.., select, count, open, all, close] = words else { return false };
            select.is("SELECT")
                && count.is("count")
                && [open, all, close].iter().zip(signs).all(|(word, sign)| word.is_sign(sign))
        };
        // `count(*)`, `count(*) name` and `count(*) AS name`.
        let cut = |count: usize| &before[..before.len().saturating_sub(count)];
        let ends_in_name = before.last().is_some_and(|last| last.kind == Kind::Name);
        let has_as = before.len() > 1 && before[before.len() - 2].is("AS");
        let counts = is_count(before)
            || ends_in_name && is_count(cut(1))
            || ends_in_name && has_as && is_count(cut(2));
        match counts && is_end(named.first()) {
            true => Demand::Count,
            false => Demand::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Demand;

    #[test]
    fn words_around_a_clause_tell_the_rows_wanted() {
        for (before, behind, wanted) in [
            ("SELECT count(*) FROM ", "", Demand::Count),
            ("SELECT count ( * ) AS n FROM", " AS g;", Demand::Count),
            ("WITH x AS (SELECT count(*) n FROM", ") SELECT n FROM x", Demand::Count),
            ("SELECT count(*) FROM ", "GROUP BY x", Demand::All),
            ("SELECT x, count(*) FROM", "g GROUP BY x ORDER BY 2", Demand::All),
            ("SELECT count(*), sum(x) FROM", "", Demand::All),
            ("EXPLAIN QUERY PLAN SELECT x FROM", "UNION SELECT 1", Demand::All),
            ("SELECT count(*), sum(c) FROM (SELECT DISTINCT c FROM", ")", Demand::All),
            ("SELECT x FROM", "LIMIT 1", Demand::Unknown),
            ("SELECT x FROM", "g WHERE x = 1", Demand::Unknown),
            ("SELECT x FROM", "g, t", Demand::Unknown),
            ("SELECT x FROM", "g LEFT JOIN t", Demand::Unknown),
            ("SELECT x FROM t,", "", Demand::Unknown),
            ("SELECT * FROM (SELECT x FROM", ") WHERE x = 1", Demand::Unknown),
            ("SELECT EXISTS (SELECT 1 FROM", ")", Demand::Unknown),
            ("CREATE VIEW v AS SELECT x FROM", "", Demand::Unknown),
            ("CREATE TABLE t AS SELECT x FROM", "", Demand::Unknown),
            ("INSERT INTO t SELECT x FROM", "", Demand::Unknown),
            ("SELECT 'x FROM", "", Demand::Unknown),
        ] {
            assert_eq!(Demand::of(before, behind), wanted, "{before} ... {behind}");
        }
    }
}

//! What single conditions say about a source: which of its columns, or of the expressions that its
//! indexes hold, are equal to something or lie between two values.

use super::cost::{LIST, LISTED};
use super::query_rows::query_rows;
use crate::resolve::tree::{Expr, Query, Source, SourceId};
use crate::value::{Affinity, Collation, CompareOp, Comparison, Value};

/// What a condition says about one column of the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restriction<'e> {
    pub(super) term: usize,
    /// The column, or an expression that an index holds.
    pub(super) subject: &'e Expr,
    pub(super) op: RestrictionOp,
    pub(super) value: &'e Expr,
    each: Option<EachValues<'e>>,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
    /// False where the condition says more: rows within the restriction are asked the condition.
    pub(super) is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestrictionOp {
    Equal,
    /// Equal, with two NULLs equal.
    Is,
    IsNull,
    In,
    Low {
        inclusive: bool,
    },
    High {
        inclusive: bool,
    },
}

/// The right side of an `IN`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Each<'e> {
    pub(super) values: EachValues<'e>,
    pub(super) affinity: Option<Affinity>,
    pub(super) collation: Collation,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum EachValues<'e> {
    List(&'e [Expr]),
    /// A query independent of the source's rows.
    Query(&'e Query),
}

impl EachValues<'_> {
    /// How many values there are taken to be.
    pub(super) fn count(&self) -> f64 {
        match self {
            EachValues::List(list) => list.len() as f64,
            EachValues::Query(query) => query_rows(query),
        }
    }

    /// The cost of listing the values anew for each row around them.
    pub(super) fn cost(&self) -> f64 {
        match self {
            EachValues::Query(query) if query.correlated => LIST + LISTED * self.count(),
            _ => 0.0,
        }
    }
}

impl<'e> Restriction<'e> {
    pub(super) fn each(&self) -> Option<Each<'e>> {
        let (affinity, collation) = (self.affinity, self.collation);
        self.each.map(|values| Each { values, affinity, collation })
    }
}

/// One end of a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct End<'e> {
    pub(super) value: &'e Expr,
    pub(super) inclusive: bool,
    pub(super) affinity: Option<Affinity>,
}

const NULL: Expr = Expr::Const(Value::Null);

/// Adds what a condition says about a source.
pub(super) fn restrict<'e>(
    source: &Source,
    term: usize,
    condition: &'e Expr,
    out: &mut Vec<Restriction<'e>>,
) {
    let own = |expr: &Expr| is_subject(source, expr);
    let free = |expr: &Expr| !expr.reads(source.id);
    let compared = |subject: &'e Expr, op, value: &'e Expr, rule: &Comparison| {
        let (affinity, collation) = (rule.affinity, rule.collation);
        let (each, is_whole) = (None, true);
        Restriction { term, subject, op, value, each, affinity, collation, is_whole }
    };
    let within = |subject: &'e Expr, values, affinity, collation| {
        let (op, value, each) = (RestrictionOp::In, &NULL, Some(values));
        Restriction { term, subject, op, value, each, affinity, collation, is_whole: true }
    };
    match condition {
        Expr::Compare(rule, left, right) => {
            for (subject, value, op) in [(left, right, rule.op), (right, left, rule.op.flipped())] {
                let op = match op {
                    CompareOp::Equal => RestrictionOp::Equal,
                    CompareOp::Is => RestrictionOp::Is,
                    CompareOp::Less => RestrictionOp::High { inclusive: false },
                    CompareOp::LessEqual => RestrictionOp::High { inclusive: true },
                    CompareOp::Greater => RestrictionOp::Low { inclusive: false },
                    CompareOp::GreaterEqual => RestrictionOp::Low { inclusive: true },
                    CompareOp::NotEqual | CompareOp::IsNot => continue,
                };
                if own(subject) && free(value) {
                    out.push(compared(subject, op, value, rule));
                }
            }
        }
        Expr::Between { expr: subject, not: false, low, high } if own(subject) => {
            let ends = [
                (low, RestrictionOp::Low { inclusive: true }),
                (high, RestrictionOp::High { inclusive: true }),
            ];
            let is_whole = free(&low.1) && free(&high.1);
            for ((rule, value), op) in ends {
                if free(value) {
                    out.push(Restriction { is_whole, ..compared(subject, op, value, rule) });
                }
            }
        }
        Expr::IsNull { expr: subject, not: false } if own(subject) => out.push(Restriction {
            term,
            subject,
            op: RestrictionOp::IsNull,
            value: &NULL,
            each: None,
            affinity: None,
            collation: Collation::Binary,
            is_whole: true,
        }),
        Expr::InList { expr: subject, not: false, list, affinity, collation }
            if own(subject) && list.iter().all(free) =>
        {
            out.push(within(subject, EachValues::List(list), *affinity, *collation));
        }
        Expr::InQuery { expr: subject, not: false, query, affinity, collation }
            if own(subject) && !query_reads(query, source.id) =>
        {
            out.push(within(subject, EachValues::Query(query), *affinity, *collation));
        }
        Expr::Or(left, right) => common_ends(source, term, (left, right), out),
        _ => {}
    }
}

/// Adds the ends of the ranges around both parts of an `OR`: `a <= ?1` for
/// `a < ?1 OR (a = ?1 AND b < ?2)`, the page of a list behind its last row.
fn common_ends<'e>(
    source: &Source,
    term: usize,
    (left, right): (&'e Expr, &'e Expr),
    out: &mut Vec<Restriction<'e>>,
) {
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    ends_within(source, term, left, &mut of_left);
    if of_left.is_empty() {
        return;
    }
    ends_within(source, term, right, &mut of_right);
    for one in of_left {
        let is_alike = |other: &&Restriction<'e>| {
            one.affinity == other.affinity
                && one.collation == other.collation
                && one.subject.is_same(other.subject)
                && one.value.is_same(other.value)
        };
        for other in of_right.iter().filter(is_alike) {
            let op = match (one.op, other.op) {
                (RestrictionOp::Low { inclusive: a }, RestrictionOp::Low { inclusive: b }) => {
                    RestrictionOp::Low { inclusive: a || b }
                }
                (RestrictionOp::High { inclusive: a }, RestrictionOp::High { inclusive: b }) => {
                    RestrictionOp::High { inclusive: a || b }
                }
                _ => continue,
            };
            out.push(Restriction { op, is_whole: false, ..one });
        }
    }
}

/// Adds the ends of the ranges around a condition; an equality is both ends of a range.
fn ends_within<'e>(
    source: &Source,
    term: usize,
    condition: &'e Expr,
    out: &mut Vec<Restriction<'e>>,
) {
    let (mut parts, mut own) = (Vec::new(), Vec::new());
    split(condition, false, &mut parts);
    for part in parts {
        restrict(source, term, part, &mut own);
    }
    for restriction in own {
        match restriction.op {
            RestrictionOp::Low { .. } | RestrictionOp::High { .. } => out.push(restriction),
            RestrictionOp::Equal => {
                let end = |op| Restriction { op, ..restriction };
                out.push(end(RestrictionOp::Low { inclusive: true }));
                out.push(end(RestrictionOp::High { inclusive: true }));
            }
            RestrictionOp::Is | RestrictionOp::IsNull | RestrictionOp::In => {}
        }
    }
}

/// True where an expression is a column of the source, or one that an index of it holds.
fn is_subject(source: &Source, expr: &Expr) -> bool {
    match expr {
        Expr::Column { source: of, .. } => *of == source.id,
        Expr::Const(_) | Expr::Parameter(_) => false,
        _ => source
            .indexed
            .iter()
            .flat_map(|index| index.columns.iter().flatten())
            .any(|(known, _)| known.is_same(expr)),
    }
}

fn query_reads(query: &Query, source: SourceId) -> bool {
    let mut found = false;
    query.walk(&mut |expr| {
        found |= matches!(expr, Expr::Column { source: of, .. } if *of == source);
    });
    found
}

/// The range of one subject within its restrictions.
pub(super) struct Range<'e> {
    pub(super) low: Option<End<'e>>,
    pub(super) high: Option<End<'e>>,
    /// The conditions saying no more than the range.
    pub(super) terms: Vec<usize>,
}

/// The lower and upper end that the restrictions put on one subject.
pub(super) fn range<'e>(
    restrictions: &[Restriction<'e>],
    fits: impl Fn(&Restriction<'e>) -> bool,
) -> Range<'e> {
    let mut range = Range { low: None, high: None, terms: Vec::new() };
    let mut beside = Vec::new();
    for restriction in restrictions.iter().filter(|restriction| fits(restriction)) {
        let end =
            |inclusive| End { value: restriction.value, inclusive, affinity: restriction.affinity };
        let is_taken = match restriction.op {
            RestrictionOp::Low { inclusive } if range.low.is_none() => {
                range.low = Some(end(inclusive));
                true
            }
            RestrictionOp::High { inclusive } if range.high.is_none() => {
                range.high = Some(end(inclusive));
                true
            }
            RestrictionOp::Low { .. } | RestrictionOp::High { .. } => false,
            _ => continue,
        };
        match is_taken && restriction.is_whole {
            true => range.terms.push(restriction.term),
            false => beside.push(restriction.term),
        }
    }
    // Of a BETWEEN both ends are in the range, or the condition is asked.
    range.terms.retain(|term| !beside.contains(term));
    range.terms.dedup();
    range
}

/// The texts that a `LIKE` or `GLOB` whose pattern begins with plain characters lies between, as
/// an index sees them. Blobs that read as such texts match, too, and are above all texts.
#[derive(Debug)]
pub(super) struct Prefix<'e> {
    pub(super) subject: &'e Expr,
    pub(super) low: Expr,
    /// Not in the range any more.
    pub(super) high: Expr,
    /// The first of all blobs.
    pub(super) blob: Expr,
    /// In which order of an index they lie together.
    pub(super) collation: Collation,
}

/// The range of a condition that is a `LIKE` or `GLOB` of such a pattern.
pub(super) fn prefix(condition: &Expr) -> Option<Prefix<'_>> {
    let Expr::Call { function, arguments, .. } = condition else { return None };
    let [Expr::Const(Value::Text(pattern)), subject] = arguments.as_slice() else { return None };
    let (special, collation): (&[char], _) = match function.name() {
        "like" => (&['%', '_'], Collation::NoCase),
        "glob" => (&['*', '?', '['], Collation::Binary),
        _ => return None,
    };
    let pattern = std::str::from_utf8(pattern).ok()?;
    // A broken text reads as U+FFFD, and matches a pattern of that; a NUL ends some texts.
    let stops = |char: char| special.contains(&char) || matches!(char, '\0' | '\u{fffd}');
    let plain = &pattern[..pattern.find(stops).unwrap_or(pattern.len())];
    // The byte behind the range is found in the order of the index, which folds capitals.
    let low = match collation {
        Collation::NoCase => plain.to_ascii_lowercase().into_bytes(),
        _ => plain.as_bytes().to_vec(),
    };
    let mut high = low.clone();
    // Bytes of a text are below 0xff.
    *high.last_mut()? += 1;
    Some(Prefix {
        subject,
        low: Expr::Const(Value::Text(low)),
        high: Expr::Const(Value::Text(high)),
        blob: Expr::Const(Value::Blob(Vec::new())),
        collation,
    })
}

/// True where a condition can hold only where an expression is not NULL.
pub(super) fn rejects_null(condition: &Expr, subject: &Expr) -> bool {
    match condition {
        Expr::Compare(rule, left, right) => {
            !matches!(rule.op, CompareOp::Is | CompareOp::IsNot)
                && (left.is_same(subject) || right.is_same(subject))
        }
        Expr::Between { expr, not: false, .. }
        | Expr::InList { expr, not: false, .. }
        | Expr::InQuery { expr, not: false, .. } => expr.is_same(subject),
        _ => false,
    }
}

/// The parts of a condition at one of its operators, `AND` or `OR`.
pub(super) fn split<'e>(expr: &'e Expr, or: bool, out: &mut Vec<&'e Expr>) {
    match expr {
        Expr::Or(left, right) if or => {
            split(left, or, out);
            split(right, or, out);
        }
        Expr::And(left, right) if !or => {
            split(left, or, out);
            split(right, or, out);
        }
        other => out.push(other),
    }
}

//! Conditions implied by others: `a = c` by `a = b AND b = c`, `b = 3` by `a = b AND a = 3`, and
//! an inner join where a condition refuses the rows of NULLs added by an outer join.
//!
//! An equality carries over where both comparisons follow one order of values: between columns of
//! tables with one affinity, under one collation. Plans take a condition implied by the others for
//! granted ([`Class`]): another way to rows, without a test of each.

use rustc_hash::FxHashMap;

use super::tree::{Body, Expr, Query, ROWID, Select, Source, SourceId, SourceKind};
use crate::value::{Affinity, CompareOp, Comparison};

/// Most columns of one class: their pairs grow by the square.
const CLASS_MAX: usize = 6;

/// Adds the implied conditions of all selects of a query.
pub(crate) fn imply(query: &mut Query) {
    query.each_select_mut(&mut |select| {
        turn_inner(select);
        imply_select(select);
    });
}

/// Columns equal to each other in the rows of a select.
pub(crate) struct Class {
    pub(crate) columns: Vec<Column>,
    affinity: Affinity,
    /// How every equality of the class compares.
    rule: Comparison,
}

impl Class {
    /// True where the conditions say the equality of each two columns of the class, and one
    /// equality of two sources tells of all their columns in the class.
    pub(crate) fn is_transitive(&self, conditions: &[Expr]) -> bool {
        self.columns.len() <= CLASS_MAX
            && self.columns.iter().enumerate().all(|(number, left)| {
                let rest = &self.columns[number + 1..];
                rest.iter().all(|right| left.0 != right.0 && self.says(conditions, *left, *right))
            })
    }

    /// True where one of the conditions is the equality of two columns by the class' rule.
    fn says(&self, conditions: &[Expr], left: Column, right: Column) -> bool {
        conditions.iter().filter(|condition| self.has_equality(condition)).any(|condition| {
            equality(condition)
                .is_some_and(|(_, a, b)| (a, b) == (left, right) || (b, a) == (left, right))
        })
    }

    /// True for an equality of two columns of the class that compares as the class does: columns
    /// equal under one collation may differ under another.
    pub(crate) fn has_equality(&self, condition: &Expr) -> bool {
        equality(condition).is_some_and(|(rule, left, right)| {
            *rule == self.rule && self.columns.contains(&left) && self.columns.contains(&right)
        })
    }

    /// The same condition on `column` of `source`, in place of a column of the class.
    fn about(&self, condition: &Expr, (source, column): Column) -> Expr {
        let mut about = condition.clone();
        about.parts_mut(&mut |part| {
            if self.has(part) {
                *part = Expr::Column { source, column };
            }
        });
        about
    }

    pub(crate) fn has(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Column { source, column }
            if self.columns.contains(&(*source, *column)))
    }
}

/// The classes of equal columns made by a list of conditions.
pub(crate) fn classes(conditions: &[Expr], sources: &[Source]) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    if sources.len() < 2 {
        return classes;
    }
    for condition in conditions {
        let Some((rule, left, right)) = equality(condition) else { continue };
        let (Some(of_left), Some(of_right)) = (kind(left, sources), kind(right, sources)) else {
            continue;
        };
        let fits = of_left == of_right && (of_left != Affinity::Blob) && left.0 != right.0;
        if !fits {
            continue;
        }
        let place = |column, classes: &[Class]| {
            classes.iter().position(|class| {
                class.columns.contains(&column) && (class.affinity, class.rule) == (of_left, *rule)
            })
        };
        match (place(left, &classes), place(right, &classes)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                let columns = classes[other].columns.clone();
                classes[one].columns.extend(columns);
                classes.remove(other);
            }
            (Some(one), None) => classes[one].columns.push(right),
            (None, Some(other)) => classes[other].columns.push(left),
            (None, None) => {
                let columns = vec![left, right];
                classes.push(Class { columns, affinity: of_left, rule: *rule });
            }
        }
    }
    classes
}

/// A column of a source.
pub(super) type Column = (SourceId, usize);

/// An equality of two columns.
fn equality(condition: &Expr) -> Option<(&Comparison, Column, Column)> {
    let Expr::Compare(rule, left, right) = condition else { return None };
    let column = |expr: &Expr| match expr {
        Expr::Column { source, column } => Some((*source, *column)),
        _ => None,
    };
    (rule.op == CompareOp::Equal).then_some(())?;
    Some((rule, column(left)?, column(right)?))
}

/// A condition as the equality of a column of `source` with a column of another one: the rule, the
/// column of `source`, the other.
pub(super) fn key_pairs(
    condition: &Expr,
    source: SourceId,
) -> Option<(&Comparison, Column, Column)> {
    let (rule, left, right) = equality(condition)?;
    match (left.0 == source, right.0 == source) {
        (true, false) => Some((rule, left, right)),
        (false, true) => Some((rule, right, left)),
        _ => None,
    }
}

/// The affinity of a table's column, also where a query hands the column on: all its values have
/// been given the affinity. `None` for a column of anything else.
pub(super) fn kind((source, column): Column, sources: &[Source]) -> Option<Affinity> {
    let source = sources.iter().find(|known| known.id == source)?;
    match &source.kind {
        SourceKind::Table(_) if column == ROWID => Some(Affinity::Integer),
        SourceKind::Table(table) => table.columns.get(column).map(|column| column.affinity),
        SourceKind::Query(query) => kind_of_body(&query.body, column),
        _ => None,
    }
}

fn kind_of_body(body: &Body, column: usize) -> Option<Affinity> {
    match body {
        Body::Select(select) => match select.outputs.get(column)? {
            Expr::Column { source, column } => kind((*source, *column), &select.sources),
            _ => None,
        },
        Body::Compound { first, rest, .. } => {
            let kind = kind_of_body(first, column)?;
            let is_same = |(_, part): &(_, Body)| kind_of_body(part, column) == Some(kind);
            rest.iter().all(is_same).then_some(kind)
        }
        Body::Shared(shared) => kind_of_body(&shared.query.body, column),
        Body::Values(_) | Body::Recursive(_) => None,
    }
}

fn imply_select(select: &mut Select) {
    if select.sources.iter().any(Source::keeps_right) {
        return;
    }
    let classes = classes(&select.conjuncts, &select.sources);
    for class in classes.iter().filter(|class| class.columns.len() <= CLASS_MAX) {
        add_equalities(select, class);
        add_constants(select, class);
    }
    for place in 0..select.sources.len() {
        add_constants_on(select, place);
    }
}

/// Adds to the `ON` of a left-joined subquery the conditions of the `WHERE` on columns equal to the
/// subquery's columns in this `ON`: the `WHERE` drops every row joined with others of the subquery.
fn add_constants_on(select: &mut Select, place: usize) {
    let Source { id, kind: SourceKind::Query(_), join: Some(join), .. } = &select.sources[place]
    else {
        return;
    };
    let mut implied: Vec<Expr> = Vec::new();
    for class in classes(&join.on, &select.sources) {
        let found = constants(&select.conjuncts, &class);
        for (_, conditions) in found.into_iter().filter(|(column, _)| column.0 != *id) {
            for &own in class.columns.iter().filter(|column| column.0 == *id) {
                implied.extend(conditions.iter().map(|condition| class.about(condition, own)));
            }
        }
    }
    if let Some(join) = &mut select.sources[place].join {
        join.on.extend(implied);
    }
}

/// Adds the equality of each two columns of a class.
fn add_equalities(select: &mut Select, class: &Class) {
    for (number, left) in class.columns.iter().enumerate() {
        for right in &class.columns[number + 1..] {
            let known = class.says(&select.conjuncts, *left, *right);
            if !known && left.0 != right.0 {
                let column = |&(source, column): &(SourceId, usize)| {
                    Box::new(Expr::Column { source, column })
                };
                select.conjuncts.push(Expr::Compare(class.rule, column(left), column(right)));
            }
        }
    }
}

/// Adds the conditions on one column of a class to the others.
fn add_constants(select: &mut Select, class: &Class) {
    for (of, conditions) in constants(&select.conjuncts, class) {
        for &other in class.columns.iter().filter(|other| **other != of) {
            for condition in &conditions {
                let implied = class.about(condition, other);
                if !select.conjuncts.iter().any(|known| known.is_same(&implied)) {
                    select.conjuncts.push(implied);
                }
            }
        }
    }
}

/// The conditions on each column of a class: comparisons with constants, and lists of constants.
fn constants(conditions: &[Expr], class: &Class) -> FxHashMap<Column, Vec<Expr>> {
    let fixed = |expr: &Expr| matches!(expr, Expr::Const(_) | Expr::Parameter(_));
    let follows = |affinity: Option<Affinity>, collation| {
        let kind = |own: Affinity| {
            own == class.affinity || own.is_numeric() && class.affinity.is_numeric()
        };
        collation == class.rule.collation && affinity.is_none_or(kind)
    };
    let mut found: FxHashMap<Column, Vec<Expr>> = FxHashMap::default();
    let subject = |expr: &Expr| match expr {
        Expr::Column { source, column } if class.has(expr) => Some((*source, *column)),
        _ => None,
    };
    for condition in conditions {
        let of = match condition {
            Expr::Compare(rule, left, right)
                if follows(rule.affinity, rule.collation)
                    && !matches!(
                        rule.op,
                        CompareOp::Is | CompareOp::IsNot | CompareOp::NotEqual
                    ) =>
            {
                match (subject(left), subject(right)) {
                    (Some(of), None) if fixed(right) => Some(of),
                    (None, Some(of)) if fixed(left) => Some(of),
                    _ => None,
                }
            }
            Expr::InList { expr, not: false, list, affinity, collation }
                if follows(*affinity, *collation) && list.iter().all(fixed) =>
            {
                subject(expr)
            }
            _ => None,
        };
        if let Some(of) = of {
            found.entry(of).or_default().push(condition.clone());
        }
    }
    found
}

/// Makes an inner join of a left join whose added rows no condition of the `WHERE` lets through.
fn turn_inner(select: &mut Select) {
    let Select { sources, conjuncts, .. } = select;
    if sources.iter().any(Source::keeps_right) {
        return;
    }
    for place in (0..sources.len()).rev() {
        let source = &mut sources[place];
        let id = source.id;
        if source.keeps_left()
            && matches!(source.kind, SourceKind::Table(_))
            && conjuncts.iter().any(|condition| refuses_null(condition, id))
            && let Some(join) = source.join.take()
        {
            conjuncts.extend(join.on);
        }
    }
}

/// True where a condition is never true of a row of NULLs in all columns of a source.
fn refuses_null(condition: &Expr, source: SourceId) -> bool {
    let column = |expr: &Expr| matches!(expr, Expr::Column { source: of, .. } if *of == source);
    match condition {
        Expr::Compare(rule, left, right) => {
            !matches!(rule.op, CompareOp::Is | CompareOp::IsNot) && (column(left) || column(right))
        }
        Expr::Between { expr, not: false, .. } | Expr::InList { expr, not: false, .. } => {
            column(expr)
        }
        Expr::IsNull { expr, not: true } => column(expr),
        Expr::And(left, right) => refuses_null(left, source) || refuses_null(right, source),
        Expr::Or(left, right) => refuses_null(left, source) && refuses_null(right, source),
        _ => false,
    }
}

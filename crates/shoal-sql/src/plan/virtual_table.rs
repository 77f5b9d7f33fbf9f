//! Ways to the rows of virtual tables: conditions are offered to the table, which chooses.

use std::sync::{Arc, PoisonError};

use super::access::{Frame, Path, PathKind, Sources, full_path, reads_of};
use super::code::{Code, Reg};
use super::restrict::{RestrictionOp, restrict};
use super::{Compiler, Scan};
use crate::Error;
use crate::resolve::tree::{
    AUXILIARY, Expr, Key, OrderKey, ROWID, Select, Source, SourceKind, VirtualSource,
};
use crate::schema::{
    Connected, ConstraintOp, IndexChoice, IndexConstraint, IndexOrder, IndexRequest,
};
use crate::value::{Affinity, Collation};

/// A table's choice, with the wanted values.
#[derive(Clone, Debug)]
pub(super) struct VirtualPath<'e> {
    pub(super) choice: Arc<IndexChoice>,
    pub(super) arguments: Vec<(&'e Expr, Option<Affinity>)>,
}

/// A scan of a virtual table.
#[derive(Debug)]
pub(crate) struct VirtualScan {
    pub(crate) table: Arc<Connected>,
    pub(crate) choice: Arc<IndexChoice>,
    /// The values wanted by the choice, each with the affinity of its comparison.
    pub(crate) arguments: Vec<(Code, Option<Affinity>)>,
    /// Columns read before the conditions are asked, and those read behind them.
    pub(crate) early: Vec<(usize, Reg)>,
    pub(crate) late: Vec<(usize, Reg)>,
    /// The auxiliary functions behind the columns from [`AUXILIARY`] on.
    pub(crate) calls: Vec<(usize, Vec<Code>)>,
    /// The conditions on this table alone, met by every row counted towards the choice's limit;
    /// empty without a limit.
    pub(crate) conditions: Vec<Code>,
    /// True where rows of which nothing is read may come as one with their number.
    pub(crate) folds: bool,
}

/// A virtual table's way, compiled.
pub(super) struct CompiledVirtual {
    choice: Arc<IndexChoice>,
    arguments: Vec<(Code, Option<Affinity>)>,
    calls: Vec<(usize, Vec<Code>)>,
}

/// An offered condition and its place of origin.
struct Offer<'e> {
    constraint: IndexConstraint,
    /// The place of the condition among the select's; `None` for a value in parentheses.
    term: Option<usize>,
    value: &'e Expr,
    affinity: Option<Affinity>,
}

impl<'e> Frame<'e> {
    /// The way a virtual table chooses with these conditions; empty where there is none.
    pub(super) fn virtual_paths(
        &self,
        virtual_source: &'e VirtualSource,
        usable: &[usize],
        place: usize,
    ) -> Vec<Path<'e>> {
        let source = &self.sources[place];
        let mut offers = arguments(virtual_source);
        for &term in usable {
            self.offer(source, term, &mut offers);
        }
        let mut columns = self.needed[place].clone();
        columns.retain(|column| *column == ROWID || *column < AUXILIARY);
        let order = if self.sources.len() == 1 { self.order.as_slice() } else { &[] };
        match choose(virtual_source, &offers, order, &columns) {
            Ok(Some((path, used))) => {
                let (cost, rows) = (path.choice.cost.max(0.0), path.choice.rows.max(1.0));
                let kind = PathKind::Virtual(path);
                vec![Path { kind, per_row: cost, used, ..full_path(rows) }]
            }
            Ok(None) => Vec::new(),
            Err(error) => {
                *self.failed.borrow_mut() = Some(error);
                Vec::new()
            }
        }
    }

    /// Offers a condition on columns of a source.
    fn offer(&self, source: &Source, term: usize, offers: &mut Vec<Offer<'e>>) {
        let condition = self.terms[term].expr;
        let mut restrictions = Vec::new();
        restrict(source, term, condition, &mut restrictions);
        // A condition taken by a virtual table is not asked of its rows again.
        for restriction in restrictions.into_iter().filter(|restriction| restriction.is_whole) {
            let op = match restriction.op {
                RestrictionOp::Equal => ConstraintOp::Equal,
                RestrictionOp::Is if is_never_null(restriction.value) => ConstraintOp::Equal,
                RestrictionOp::Low { inclusive: true } => ConstraintOp::AtLeast,
                RestrictionOp::Low { inclusive: false } => ConstraintOp::Greater,
                RestrictionOp::High { inclusive: true } => ConstraintOp::AtMost,
                RestrictionOp::High { inclusive: false } => ConstraintOp::Less,
                _ => continue,
            };
            // A table compares texts byte by byte.
            if restriction.collation != Collation::Binary {
                continue;
            }
            let (value, affinity) = (restriction.value, restriction.affinity);
            if let Some(column) = column_of(source, restriction.subject) {
                offers.push(Offer::new(column, op, Some(term), value, affinity));
            }
        }
        if let Expr::Call { function, arguments, .. } = condition
            && let [value, subject] = arguments.as_slice()
            && let Some(column) = column_of(source, subject)
            && reads_of(value, self.sources) & 1 << self.place_of(source) == 0
        {
            let op = match function.name() {
                "match" => ConstraintOp::Match,
                "like" => ConstraintOp::Like,
                "glob" => ConstraintOp::Glob,
                "regexp" => ConstraintOp::Regexp,
                _ => return,
            };
            offers.push(Offer::new(column, op, Some(term), value, None));
        }
    }

    fn place_of(&self, source: &Source) -> usize {
        self.sources.iter().position(|known| known.id == source.id).unwrap_or(0)
    }
}

impl<'e> Offer<'e> {
    fn new(
        column: Option<usize>,
        op: ConstraintOp,
        term: Option<usize>,
        value: &'e Expr,
        affinity: Option<Affinity>,
    ) -> Offer<'e> {
        let known = match value {
            Expr::Const(value) => Some(value.clone()),
            _ => None,
        };
        let subtype = match value {
            Expr::Call { function, .. } => function.subtype(),
            _ => 0,
        };
        let is_argument = term.is_none();
        let constraint = IndexConstraint { column, op, is_argument, value: known, subtype };
        Offer { constraint, term, value, affinity }
    }
}

/// The values in parentheses behind a table's name, as equalities of its hidden columns.
fn arguments(source: &VirtualSource) -> Vec<Offer<'_>> {
    let given = source.table.hidden.iter().zip(&source.arguments);
    let given = given.filter_map(|(column, value)| Some((*column, value.as_ref()?)));
    let offer = |(column, value)| Offer::new(Some(column), ConstraintOp::Equal, None, value, None);
    given.map(offer).collect()
}

/// A column of a source: `Some(None)` is the rowid.
fn column_of(source: &Source, expr: &Expr) -> Option<Option<usize>> {
    match expr {
        Expr::Column { source: of, column } if *of == source.id => match *column {
            ROWID => Some(None),
            column if column >= AUXILIARY => None,
            column => Some(Some(column)),
        },
        _ => None,
    }
}

fn is_never_null(value: &Expr) -> bool {
    matches!(value, Expr::Const(value) if !value.is_null())
}

/// Has the table choose; gives the conditions exactly met by all its rows.
fn choose<'e>(
    source: &VirtualSource,
    offers: &[Offer<'e>],
    order: &[IndexOrder],
    columns: &[usize],
) -> Result<Option<(VirtualPath<'e>, Vec<usize>)>, Error> {
    let constraints: Vec<IndexConstraint> =
        offers.iter().map(|offer| offer.constraint.clone()).collect();
    let request = IndexRequest { constraints: &constraints, order, columns };
    let Some(mut choice) = source.table.instance.best_index(&request)? else { return Ok(None) };
    choice.is_ordered &= !order.is_empty();
    let exact =
        |place: usize| choice.taken.iter().any(|taken| taken.constraint == place && taken.is_exact);
    let mut values = Vec::with_capacity(choice.taken.len());
    for taken in &choice.taken {
        let Some(offer) = offers.get(taken.constraint) else {
            return Err(Error::Misuse { what: "a virtual table took a constraint not offered" });
        };
        values.push((offer.value, offer.affinity));
    }
    let mut used = Vec::new();
    for (place, offer) in offers.iter().enumerate() {
        match offer.term {
            // A value in parentheses is a condition nobody else asks.
            None if !exact(place) => return Ok(None),
            Some(term) if !used.contains(&term) => {
                let mut parts = offers.iter().enumerate();
                if parts.all(|(place, offer)| offer.term != Some(term) || exact(place)) {
                    used.push(term);
                }
            }
            _ => {}
        }
    }
    Ok(Some((VirtualPath { choice: Arc::new(choice), arguments: values }, used)))
}

/// The order asked of a select's rows, where a single table could give the order.
pub(super) fn order_of(select: &Select, order_by: &[OrderKey]) -> Vec<IndexOrder> {
    let [source] = select.sources.as_slice() else { return Vec::new() };
    let is_plain = matches!(source.kind, SourceKind::Virtual(_))
        && select.group_by.is_none()
        && select.distinct.is_none()
        && select.window_calls.is_empty();
    if !is_plain {
        return Vec::new();
    }
    let term = |key: &OrderKey| {
        let expr = match &key.key {
            Key::Output(place) => select.outputs.get(*place)?,
            Key::Expr(expr) => expr,
        };
        let fits = key.collation == Collation::Binary && key.nulls_first != key.descending;
        let column = column_of(source, expr).filter(|_| fits)?;
        Some(IndexOrder { column, descending: key.descending })
    };
    order_by.iter().map(term).collect::<Option<Vec<_>>>().unwrap_or_default()
}

impl Compiler {
    /// Compiles a virtual table's way. One without a way, whose rows are kept or that has no
    /// solution, gets all its rows.
    pub(super) fn compile_virtual(
        &mut self,
        source: &VirtualSource,
        path: &Path<'_>,
        (sources, known): (&[Source], Sources),
        columns: &[usize],
    ) -> Option<CompiledVirtual> {
        let whole;
        let found = match &path.kind {
            PathKind::Virtual(found) => found,
            PathKind::Hash(_) => match choose(source, &arguments(source), &[], columns) {
                Ok(Some((path, _))) => {
                    whole = path;
                    &whole
                }
                Ok(None) => return None,
                Err(error) => {
                    self.refused.get_or_insert(error);
                    return None;
                }
            },
            _ => return None,
        };
        let arguments = found.arguments.iter();
        let arguments = arguments.map(|(expr, affinity)| (self.code(expr), *affinity)).collect();
        let calls = source.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut compiled = Vec::with_capacity(calls.len());
        for call in &calls {
            if call.arguments.iter().any(|expr| reads_of(expr, sources) & !known != 0) {
                let what = "unable to use an auxiliary function in the requested context";
                let error = Error::Meaning { message: what.to_owned(), offset: None };
                self.failed.get_or_insert(error);
            }
            let codes = call.arguments.iter().map(|expr| self.code(expr)).collect();
            compiled.push((call.function, codes));
        }
        let choice = Arc::clone(&found.choice);
        Some(CompiledVirtual { choice, arguments, calls: compiled })
    }

    /// The scan of a virtual table.
    pub(super) fn virtual_scan(
        &mut self,
        table: &Arc<Connected>,
        compiled: Option<CompiledVirtual>,
        early: Vec<(usize, Reg)>,
        late: Vec<(usize, Reg)>,
    ) -> Scan {
        self.needs_schema = true;
        self.reads_virtual = true;
        let Some(CompiledVirtual { choice, arguments, calls }) = compiled else {
            self.no_solution = true;
            return Scan::Nothing;
        };
        self.reads_pending |= !choice.skips_flush || !calls.is_empty();
        let table = Arc::clone(table);
        let conditions = Vec::new();
        let folds = false;
        let scan = VirtualScan { table, choice, arguments, early, late, calls, conditions, folds };
        Scan::Virtual(Box::new(scan))
    }
}

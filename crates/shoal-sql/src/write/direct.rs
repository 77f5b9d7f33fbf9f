//! Statements that write one row by values alone: `INSERT` of constants and parameters, `UPDATE`
//! and `DELETE` of the row of one rowid. Within an open transaction they take the short way to the
//! pages.

use shoal_store::{Transaction, ValueRef};

use super::delete::DeletePlan;
use super::insert::{Given, InsertPlan, is_rowid_name};
use super::plain::{COLUMNS_MAX, PlainRecords, PlainTable};
use super::update::UpdatePlan;
use super::{Done, Kind};
use crate::Error;
use crate::exec::{Place, RowExpr};
use crate::parse::ast::{self, BinaryOp, Expr, ExprKind, Indexed, Name, Quote, Stmt};
use crate::schema::{Schema, Table};
use crate::session::Session;
use crate::value::Value;

/// A statement that may take the short way.
#[derive(Debug)]
pub(crate) struct Direct {
    table: PlainTable,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// A value for each column, and one for the rowid, where no column is its other name.
    Insert(Vec<Given>, Option<Given>),
    /// The rowid, and the columns set.
    Update(Given, Vec<(usize, Set)>),
    Delete(Given),
}

/// The new value of a column.
#[derive(Debug)]
pub(super) enum Set {
    Given(Given),
    /// Computed from the row as it was.
    Computed(RowExpr),
}

impl Direct {
    /// The short way of a statement; `None` for a statement without one.
    pub(super) fn new(schema: &Schema, stmt: &Stmt, kind: &Kind) -> Option<Direct> {
        match (stmt, kind) {
            (Stmt::Insert(_), Kind::Insert(plan)) => Direct::insert(plan),
            (Stmt::Update(update), Kind::Update(plan)) => Direct::update(schema, update, plan),
            (Stmt::Delete(delete), Kind::Delete(plan)) => Direct::delete(delete, plan),
            _ => None,
        }
    }

    fn insert(plan: &InsertPlan) -> Option<Direct> {
        let inserter = plan.inserter();
        if !inserter.is_alone() {
            return None;
        }
        let table = PlainTable::new(&inserter.changer)?;
        let row = plan.only_row()?;
        let defaults = &inserter.changer.constraints.defaults;
        let value = |(place, default): (&Option<usize>, &Option<RowExpr>)| match (place, default) {
            (Some(place), _) => row.get(*place).cloned(),
            (None, None) => Some(Given::Constant(Value::Null)),
            (None, Some(RowExpr::Constant(value))) => Some(Given::Constant(value.clone())),
            (None, Some(_)) => None,
        };
        let places = plan.columns.iter().zip(defaults);
        let values = places.map(value).collect::<Option<Vec<Given>>>()?;
        let rowid = match plan.rowid {
            Some(place) => Some(row.get(place)?.clone()),
            None => None,
        };
        Some(Direct { table, work: Work::Insert(values, rowid) })
    }

    fn update(schema: &Schema, update: &ast::Update, plan: &UpdatePlan) -> Option<Direct> {
        let updater = &plan.updater;
        let is_alone =
            plan.is_alone() && update.from.is_none() && matches!(update.indexed, Indexed::Any);
        let rows = &updater.changer.rows;
        if !is_alone {
            return None;
        }
        let name = update.alias.as_ref().unwrap_or(&update.table.name);
        let rowid = rowid_of(update.filter.as_ref()?, name, &rows.table)?;
        let mut sets = Vec::new();
        for (names, expr) in &update.sets {
            let [name] = names.as_slice() else { return None };
            let column = rows.table.column_index(&name.text)?;
            let is_again = sets.iter().any(|(known, _)| *known == column);
            if rows.table.rowid_alias == Some(column) || is_again {
                return None;
            }
            let set = match Given::of(expr) {
                Some(given) => Set::Given(given),
                // Names in the expression are those of the table itself: an alias is none.
                None => {
                    Set::Computed(RowExpr::compile(schema, &rows.table, expr, Place::Check).ok()?)
                }
            };
            sets.push((column, set));
        }
        let table = PlainTable::new(&updater.changer)?;
        Some(Direct { table, work: Work::Update(rowid, sets) })
    }

    fn delete(delete: &ast::Delete, plan: &DeletePlan) -> Option<Direct> {
        if !plan.is_alone() || !matches!(delete.indexed, Indexed::Any) {
            return None;
        }
        let changer = plan.changer();
        let name = delete.alias.as_ref().unwrap_or(&delete.table.name);
        let rowid = rowid_of(delete.filter.as_ref()?, name, &changer.rows.table)?;
        Some(Direct { table: PlainTable::new(changer)?, work: Work::Delete(rowid) })
    }

    /// Runs the statement; `None` where the long way has to be taken, and nothing was done.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn execute(
        &self,
        transaction: &mut Transaction,
        parameters: &[Value],
        session: &dyn Session,
        records: &mut PlainRecords,
    ) -> Result<Option<Done>, Error> {
        let of = |given: &Given| match given.value(parameters) {
            ValueRef::Int(rowid) => Some(rowid),
            _ => None,
        };
        let (changes, last_insert_rowid) = match &self.work {
            Work::Insert(values, rowid) => {
                let alias = self.table.alias().map(|alias| &values[alias]);
                let rowid = match alias.or(rowid.as_ref()).map(|it| it.value(parameters)) {
                    None | Some(ValueRef::Null) => None,
                    Some(ValueRef::Int(rowid)) => Some(rowid),
                    Some(_) => return Ok(None),
                };
                let mut row = [ValueRef::Null; COLUMNS_MAX];
                let row = &mut row[..self.table.width()];
                for (place, given) in row.iter_mut().zip(values) {
                    *place = given.value(parameters);
                }
                let Some(rowid) = self.table.insert(transaction, rowid, row, records)? else {
                    return Ok(None);
                };
                (1, Some(rowid))
            }
            Work::Update(rowid, sets) => {
                let Some(rowid) = of(rowid) else { return Ok(None) };
                let given = (sets.as_slice(), parameters, session);
                match self.table.update(transaction, rowid, given, records)? {
                    Some(changes) => (changes, None),
                    None => return Ok(None),
                }
            }
            Work::Delete(rowid) => {
                let Some(rowid) = of(rowid) else { return Ok(None) };
                match self.table.delete(transaction, rowid, records)? {
                    Some(changes) => (changes, None),
                    None => return Ok(None),
                }
            }
        };
        Ok(Some(Done { changes, last_insert_rowid }))
    }
}

/// The rowid in a condition on the rowid alone.
fn rowid_of(filter: &Expr, name: &Name, table: &Table) -> Option<Given> {
    let ExprKind::Binary(BinaryOp::Equal, left, right) = &filter.kind else { return None };
    let is_rowid = |expr: &Expr| match &expr.kind {
        ExprKind::Column { database: None, table: of, column } => {
            let is_alias = match table.column_index(&column.text) {
                Some(column) => table.rowid_alias == Some(column),
                None => is_rowid_name(column) && column.quote == Quote::None,
            };
            is_alias && of.as_ref().is_none_or(|of| of.is(&name.text))
        }
        _ => false,
    };
    match (is_rowid(left), is_rowid(right)) {
        (true, false) => Given::of(right),
        (false, true) => Given::of(left),
        _ => None,
    }
}

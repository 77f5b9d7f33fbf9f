//! `WITH`: common tables, recursive ones included.

use super::from::{first_rules, rename};
use super::select::{combined_affinity, compound_word};
use super::tree::{Body, Expr, OutputColumn, Query, Recursion};
use super::values::RowsAsked;
use super::{Expanding, Frame, NamedTable, Resolver, Step};
use crate::Error;
use crate::parse::ast::{self, CommonTable, CompoundOp, From, SelectCore, TableRefKind};

/// The meaning of a common table's name.
pub(super) enum Common {
    /// A query, with its number where its rows may be made once.
    Query(Box<Query>, Option<usize>),
    /// The row taken by the table's own recursion, by slot, and its columns.
    Taken(usize, Vec<OutputColumn>),
}

impl<'a> Resolver<'a> {
    pub(super) fn common_table(
        &mut self,
        name: &str,
        offset: usize,
    ) -> Result<Option<Common>, Error> {
        let found = self.common.iter().enumerate().rev().find_map(|(place, frame)| {
            let at = frame.tables.iter().position(|table| table.name.is(name))?;
            Some((place, *frame, at))
        });
        let Some((frame, Frame { scopes: around, tables, number }, at)) = found else {
            return Ok(None);
        };
        let table = &tables[at];
        let level = self.select_level;
        let open = self.expanding.iter_mut().rev().find(|open| std::ptr::eq(open.table, table));
        if let Some(open) = open {
            return match &mut open.step {
                Some(step) if step.used => Err(Error::meaning(
                    format!("multiple references to recursive table: {name}"),
                    offset,
                )),
                Some(step) if step.level == level => {
                    step.used = true;
                    Ok(Some(Common::Taken(step.slot, step.columns.clone())))
                }
                Some(_) => Err(Error::meaning(
                    format!("recursive reference in a subquery: {name}"),
                    offset,
                )),
                None => Err(Error::meaning(format!("circular reference: {name}"), offset)),
            };
        }
        let inner = self.common.split_off(frame + 1);
        let mut scopes = self.scopes.split_off(around.min(self.scopes.len()));
        self.expanding.push(Expanding { table, step: None });
        let query = self.expand_common(table, offset);
        self.expanding.pop();
        self.common.extend(inner);
        let query = query?;
        scopes.iter_mut().for_each(|scope| scope.correlated |= query.correlated);
        self.scopes.extend(scopes);
        let slot = self.named_again(number, at, table.materialized);
        // A recursion's queries over the taken row differ for each row.
        let taken = self.expanding.iter().any(|open| open.step.is_some());
        let may_differ = !query.correlated && !taken && differs(&query);
        Ok(Some(Common::Query(Box::new(query), may_differ.then_some(slot))))
    }

    /// Makes the tables of a `WITH` known.
    pub(super) fn open_with(&mut self, with: &'a ast::With) {
        let number = self.next_frame;
        self.next_frame += 1;
        self.common.push(Frame { tables: &with.tables, scopes: self.scopes.len(), number });
    }

    /// Counts a use of a common table; gives the table's number.
    fn named_again(&mut self, frame: usize, place: usize, materialized: Option<bool>) -> usize {
        let known = self.named.iter().position(|it| (it.frame, it.place) == (frame, place));
        let slot = known.unwrap_or_else(|| {
            self.named.push(NamedTable { frame, place, uses: 0, materialized });
            self.named.len() - 1
        });
        self.named[slot].uses += 1;
        slot
    }

    /// True where a common table is never merged into the queries naming the table.
    pub(super) fn is_materialized(&self, slot: usize) -> bool {
        self.named[slot].materialized == Some(true)
    }

    /// For each common table, true where its rows are made once, as in SQLite: tables named more
    /// than once, and tables declared `MATERIALIZED`.
    pub(crate) fn made_once(&self) -> Vec<bool> {
        let once = |table: &NamedTable| table.materialized.unwrap_or(table.uses > 1);
        self.named.iter().map(once).collect()
    }

    fn expand_common(&mut self, table: &'a CommonTable, offset: usize) -> Result<Query, Error> {
        let select = &table.select;
        let steps = self_readers(table);
        if steps == 0 {
            let mut query = self.resolve_select(select)?;
            if !table.columns.is_empty() {
                rename(&mut query, &table.columns, &table.name.text, offset)?;
            }
            return Ok(query);
        }
        let common = self.common.len();
        if let Some(with) = &select.with {
            self.open_with(with);
        }
        let query = self.recursion(table, steps, offset);
        self.common.truncate(common);
        query
    }

    /// Resolves a common table whose last `steps` parts read the table.
    fn recursion(
        &mut self,
        table: &'a CommonTable,
        steps: usize,
        offset: usize,
    ) -> Result<Query, Error> {
        let select = &table.select;
        let plain = select.compounds.len() - steps;
        let (first, columns, mut correlated) =
            self.parts(&select.first, &select.compounds[..plain])?;
        let mut query = Query {
            as_expression: first_rules(&columns),
            body: Body::Values(Vec::new()),
            columns,
            order_by: Vec::new(),
            limit: None,
            offset: None,
            correlated: false,
        };
        // An `ORDER BY` knows the columns by the names they had.
        let mut named = query.columns.clone();
        if !table.columns.is_empty() {
            rename(&mut query, &table.columns, &table.name.text, offset)?;
        }
        let slot = self.next_slot;
        self.next_slot += 1;
        let mut cores = vec![&select.first];
        cores.extend(select.compounds.iter().map(|(_, core)| core));
        let parts = &select.compounds[plain..];
        let distinct = parts.last().is_some_and(|(op, _)| *op == CompoundOp::Union);
        let base = query.columns.clone();
        let mut bodies;
        // A column's preferred class of values depends on every part, and the last parts read the
        // columns themselves: they are resolved again after a wrong first guess.
        loop {
            let known = query.columns.clone();
            let mut columns = base.clone();
            bodies = Vec::with_capacity(steps);
            for (op, core) in parts {
                let step = Step {
                    slot,
                    columns: known.clone(),
                    level: self.select_level + 1,
                    used: false,
                };
                if let Some(open) = self.expanding.last_mut() {
                    open.step = Some(step);
                }
                let (body, more, _, depends) = self.core(core, &[], RowsAsked::All)?;
                correlated |= depends;
                check_step(&body, table.name.offset)?;
                if more.len() != columns.len() {
                    return Err(unequal(*op, offset));
                }
                for (column, other) in columns.iter_mut().zip(&more) {
                    column.collation = column.collation.or(other.collation);
                    column.affinity = combined_affinity(column, other);
                    column.classes |= other.classes;
                }
                bodies.push(body);
            }
            let guessed = known.iter().zip(&columns).all(|(a, b)| a.affinity == b.affinity);
            let last = query.columns.iter().zip(&base).any(|(a, b)| a.affinity != b.affinity);
            query.columns = columns;
            if guessed || last {
                break;
            }
        }
        if let Some(open) = self.expanding.last_mut() {
            open.step = None;
        }
        for (column, renamed) in named.iter_mut().zip(&query.columns) {
            column.collation = renamed.collation;
        }
        let mut order_by = Vec::with_capacity(select.order_by.len());
        for (number, term) in select.order_by.iter().enumerate() {
            order_by.push(self.compound_key(term, number, &named, &cores)?);
        }
        let collations = self.collations(&query.columns)?;
        query.correlated = correlated;
        query.body = Body::Recursive(Box::new(Recursion {
            slot,
            first,
            steps: bodies,
            distinct,
            collations,
            order_by,
        }));
        self.bounded(query, select)
    }

    /// The parts of a compound without the recursive ones.
    fn parts(
        &mut self,
        first: &'a SelectCore,
        rest: &'a [(CompoundOp, SelectCore)],
    ) -> Result<(Body, Vec<OutputColumn>, bool), Error> {
        let (first, mut columns, _, mut correlated) = self.core(first, &[], RowsAsked::None)?;
        if rest.is_empty() {
            return Ok((first, columns, correlated));
        }
        let mut bodies = Vec::with_capacity(rest.len());
        for (op, core) in rest {
            let (body, more, _, depends) = self.core(core, &[], RowsAsked::All)?;
            correlated |= depends;
            if more.len() != columns.len() {
                return Err(unequal(*op, 0));
            }
            for (column, other) in columns.iter_mut().zip(&more) {
                column.collation = column.collation.or(other.collation);
                column.affinity = combined_affinity(column, other);
                column.classes |= other.classes;
            }
            bodies.push((*op, body));
        }
        let collations = self.compound_collations(&columns, &bodies)?;
        let body = Body::Compound { first: Box::new(first), rest: bodies, collations };
        Ok((body, columns, correlated))
    }
}

/// True where a query may give other rows in each run.
fn differs(query: &Query) -> bool {
    let mut differs = false;
    query.walk(&mut |expr| {
        // The time is the same throughout a statement.
        differs |= matches!(
            expr,
            Expr::Call { function, .. } if matches!(function.name(), "random" | "randomblob")
        );
    });
    differs
}

/// Refuses aggregates and window functions in a recursive part.
fn check_step(body: &Body, offset: usize) -> Result<(), Error> {
    let Body::Select(step) = body else { return Ok(()) };
    if step.group_by.is_some() {
        return Err(Error::meaning("recursive aggregate queries not supported", offset));
    }
    if !step.window_calls.is_empty() {
        return Err(Error::meaning("cannot use window functions in recursive queries", offset));
    }
    Ok(())
}

fn unequal(op: CompoundOp, offset: usize) -> Error {
    let message = format!(
        "SELECTs to the left and right of {} do not have the same number of result columns",
        compound_word(op)
    );
    Error::meaning(message, offset)
}

/// The number of recursive parts at the end of a common table, all under the one kind of `UNION`.
fn self_readers(table: &CommonTable) -> usize {
    let Some((last, _)) = table.select.compounds.last() else { return 0 };
    if !matches!(last, CompoundOp::Union | CompoundOp::UnionAll) {
        return 0;
    }
    let reads = |core: &SelectCore| match core {
        SelectCore::Select(clauses) => {
            clauses.from.as_ref().is_some_and(|from| names(from, &table.name))
        }
        SelectCore::Values(_) => false,
    };
    let parts = table.select.compounds.iter().rev();
    parts.take_while(|(op, core)| op == last && reads(core)).count()
}

fn names(from: &From, name: &ast::Name) -> bool {
    let is = |table: &ast::TableRef| match &table.kind {
        TableRefKind::Table { name: found, .. } => {
            found.database.is_none() && name.is(&found.name.text)
        }
        TableRefKind::Joined(from) => names(from, name),
        TableRefKind::Call { .. } | TableRefKind::Past { .. } | TableRefKind::Select(_) => false,
    };
    is(&from.first) || from.joins.iter().any(|join| is(&join.table))
}

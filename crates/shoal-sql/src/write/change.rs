//! One row inserted, changed or deleted, with all that follows from it: the rows that it replaces,
//! the programs of triggers, what `RETURNING` gives of it.

use std::sync::Arc;

use super::constraints::{Constraints, Unique, failure};
use super::narrowed::{self, NarrowedWrites};
use super::references::{Change, References};
use super::returning::Returning;
use super::row::{Row, RowEnv, RowKey};
use super::rows::Rows;
use super::sets::Sets;
use super::target::Target;
use super::triggers::{Firing, Within, fire};
use super::{Context, Failure};
use crate::Error;
use crate::kept::Seen;
use crate::parse::ast::{Conflict, TriggerEvent};
use crate::resolve::Around;
use crate::schema::{Schema, Table};
use crate::value::Value;

/// A table whose rows a statement changes.
#[derive(Debug)]
pub(crate) struct Changer {
    pub(crate) rows: Rows,
    pub(crate) constraints: Constraints,
    /// The statement's own `OR` clause, which goes before those of the constraints.
    pub(crate) conflict: Option<Conflict>,
    /// What no two rows may share, in the order it is checked.
    unique: Vec<UniqueCheck>,
    /// What runs for rows that are replaced.
    replaced: Firing,
    /// The foreign keys touched by their end.
    leaving: References,
    /// The keeper is asked about every row.
    pub(crate) is_kept: bool,
    /// The predicate of a principal's rows.
    pub(crate) narrowed: Option<NarrowedWrites>,
}

/// One key that no two rows may share, and what a second row of it does.
#[derive(Clone, Copy, Debug)]
struct UniqueCheck {
    unique: Unique,
    resolution: Conflict,
    /// The `ON CONFLICT` clause that updates the other row instead.
    clause: Option<usize>,
}

/// What is to become of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Store it; nothing is in its way any more.
    Store,
    /// Leave it out, as `OR IGNORE` says.
    Skip,
    /// Update the row of that key instead, as the `ON CONFLICT` clause of that number says.
    Update(usize, RowKey),
}

/// An `ON CONFLICT` clause: what it is about, `None` for every key, and whether it updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clause {
    pub(crate) unique: Option<Unique>,
    pub(crate) updates: bool,
}

impl Changer {
    /// Prepares to change rows of a table.
    ///
    /// # Errors
    /// As [`Rows::new`] and [`Constraints::new`].
    pub(crate) fn plain(
        schema: &Schema,
        table: &Arc<Table>,
        conflict: Option<Conflict>,
    ) -> Result<Changer, Error> {
        let rows = Rows::new(schema, table)?;
        let constraints = Constraints::new(schema, table)?;
        let unique = in_order(table, &constraints, conflict, &[]);
        Ok(Changer {
            rows,
            constraints,
            conflict,
            unique,
            replaced: Firing::default(),
            leaving: References::default(),
            is_kept: false,
            narrowed: None,
        })
    }

    /// Keeps the changes of a narrowed table within its rule.
    ///
    /// # Errors
    /// As [`NarrowedWrites::new`]; [`Error::Denied`] for a constraint with a resolution other than
    /// `ABORT`.
    pub(crate) fn narrow(
        &mut self,
        schema: &Schema,
        target: &Target,
        event: TriggerEvent,
        around: Around<'_>,
    ) -> Result<(), Error> {
        let Some(narrowed) = &target.narrowed else { return Ok(()) };
        let table = &*target.table;
        let own = |unique: Unique| match unique {
            Unique::Key => table.key_conflict,
            Unique::Index(place) => table.indexes[place].conflict,
        };
        // A clause of the statement meets rows in sight alone.
        let is_other = |check: &UniqueCheck| {
            own(check.unique).is_some_and(|conflict| conflict != Conflict::Abort)
        };
        if event != TriggerEvent::Delete && self.unique.iter().any(is_other) {
            return Err(narrowed::refused(narrowed, "its constraints replace or leave out rows"));
        }
        self.narrowed = Some(NarrowedWrites::new(schema, narrowed, &self.constraints, around)?);
        Ok(())
    }

    /// A failure of storing a row, without names and values hidden from the principal.
    pub(crate) fn veiled(&self, failure: Failure) -> Failure {
        match &self.narrowed {
            Some(narrowed) if !failure.is_in_sight => {
                Failure { error: narrowed.veiled(failure.error), ..failure }
            }
            _ => failure,
        }
    }

    /// True where a row in the way of a new one is in the sight of the principal, by a key in
    /// sight: any other row is as good as none for a clause of the statement.
    fn is_in_sight(
        &self,
        context: &mut Context<'_>,
        unique: Unique,
        key: &RowKey,
    ) -> Result<bool, Error> {
        let Some(narrowed) = &self.narrowed else { return Ok(true) };
        let is_told = narrowed.tells_key(&self.rows.table, unique);
        match self.read(context, key)? {
            Some(other) if is_told => narrowed.is_visible(context, &other),
            _ => Ok(false),
        }
    }

    /// True where the rowid of a new row may be told.
    pub(crate) fn shows_rowid(&self) -> bool {
        self.narrowed.as_ref().is_none_or(NarrowedWrites::shows_rowid)
    }

    /// True when storing a checked row changes all or nothing: a table with rowids, and no row
    /// replaced.
    pub(crate) fn stores_whole(&self) -> bool {
        let table = &*self.rows.table;
        let is_plain = !table.without_rowid && !table.autoincrement;
        is_plain && self.narrowed.is_none() && !self.replaces()
    }

    /// The same for a statement that may replace rows, or update them by its clauses.
    ///
    /// # Errors
    /// As [`Changer::plain`]; what the programs of triggers are refused for.
    pub(crate) fn new(
        within: &mut Within<'_>,
        target: &Target,
        conflict: Option<Conflict>,
        clauses: &[Clause],
    ) -> Result<Changer, Error> {
        let mut changer = Changer::plain(within.schema, &target.table, conflict)?;
        changer.is_kept = within.keeps(&target.table);
        changer.unique = in_order(&target.table, &changer.constraints, conflict, clauses);
        if within.schema.flags().recursive_triggers && changer.replaces() {
            changer.replaced = within.firing(target, TriggerEvent::Delete, &[], conflict)?;
        }
        Ok(changer)
    }

    /// Finds the foreign keys touched by replaced rows: after the keys of the statement itself,
    /// whose faults come first. `moves` is true where rows may get another place, `changes` of
    /// columns with new values.
    ///
    /// # Errors
    /// As [`References::new`].
    pub(crate) fn find_leaving(
        &mut self,
        within: &mut Within<'_>,
        target: &Target,
        moves: bool,
        changes: &dyn Fn(usize) -> bool,
    ) -> Result<(), Error> {
        let table = &*target.table;
        let may_meet = |check: &&UniqueCheck| match check.unique {
            Unique::Key => moves,
            Unique::Index(place) => {
                table.indexes[place].is_partial()
                    || table.indexes[place].key().any(|column| column.is_none_or(changes))
            }
        };
        let mut replacing =
            self.unique.iter().filter(|check| check.resolution == Conflict::Replace);
        if target.view.is_none() && replacing.any(|check| may_meet(&check)) {
            self.leaving = References::new(within, &target.table, Change::Delete)?;
        }
        Ok(())
    }

    /// Whether a row may take the place of others.
    pub(crate) fn replaces(&self) -> bool {
        self.unique.iter().any(|check| check.resolution == Conflict::Replace)
    }

    /// What comes of a row with the key of another; `None` where programs of triggers, foreign keys
    /// or clauses have a say.
    pub(super) fn plain_resolution(&self) -> Option<Conflict> {
        let key = self.unique.iter().find(|check| check.unique == Unique::Key)?;
        let is_plain = key.clause.is_none() && self.replaced.is_empty() && self.leaving.is_empty();
        is_plain.then_some(key.resolution)
    }

    /// Checks a converted row and removes the rows that it replaces. `replacing` is the row that an
    /// update takes it from.
    ///
    /// # Errors
    /// The first constraint that failed and is to be obeyed.
    pub(crate) fn check(
        &self,
        context: &mut Context<'_>,
        row: &mut Row,
        replacing: Option<&RowKey>,
    ) -> Result<Verdict, Failure> {
        if let Some(narrowed) = &self.narrowed {
            // Before the constraints: their errors would tell of other rows.
            narrowed.check(context, row)?;
        }
        let env = RowEnv { transaction: context.transaction, session: context.session };
        if !self.constraints.check_row(&self.rows, row, self.conflict, &env)? {
            return Ok(Verdict::Skip);
        }
        let mut fired = false;
        for check in &self.unique {
            let Some(key) = self.other(context, check.unique, row, replacing)? else { continue };
            let is_passing = check.clause.is_some() || check.resolution == Conflict::Ignore;
            if is_passing && !self.is_in_sight(context, check.unique, &key)? {
                // A hidden row in the way fails the statement as without the clause.
                let place = check.unique.place(&self.rows.table);
                return Err(failure(check.unique.kind(&self.rows.table), place, None));
            }
            if let Some(clause) = check.clause {
                return Ok(Verdict::Update(clause, key));
            }
            match check.resolution {
                Conflict::Ignore => return Ok(Verdict::Skip),
                Conflict::Replace => {
                    self.replace_other(context, &key)?;
                    fired |= !self.replaced.is_empty() || !self.leaving.is_empty();
                }
                resolution => {
                    let place = check.unique.place(&self.rows.table);
                    let kind = check.unique.kind(&self.rows.table);
                    return Err(failure(kind, place, Some(resolution)));
                }
            }
        }
        if fired {
            // The programs may have put other rows in the way.
            for check in &self.unique {
                if self.other(context, check.unique, row, replacing)?.is_some() {
                    let place = check.unique.place(&self.rows.table);
                    let kind = check.unique.kind(&self.rows.table);
                    return Err(failure(kind, place, None));
                }
            }
        }
        Ok(Verdict::Store)
    }

    /// The other row that has a key of a new one.
    fn other(
        &self,
        context: &Context<'_>,
        unique: Unique,
        row: &Row,
        replacing: Option<&RowKey>,
    ) -> Result<Option<RowKey>, Error> {
        let env = RowEnv { transaction: context.transaction, session: context.session };
        let found = match unique {
            Unique::Key => self.rows.same_key(row, &env)?,
            Unique::Index(index) => self.rows.same_entry(index, row, &env)?,
        };
        Ok(found.filter(|key| replacing != Some(key)))
    }

    /// Removes a row that another one takes the place of.
    fn replace_other(&self, context: &mut Context<'_>, key: &RowKey) -> Result<(), Failure> {
        let Some(other) = self.read(context, key)? else { return Ok(()) };
        if !fire(context, &self.replaced.before, Some(&other), None)? {
            return Ok(());
        }
        if !self.replaced.before.is_empty() && self.read(context, key)?.is_none() {
            return Ok(());
        }
        self.leaving.leave(context, &other)?;
        self.rows.displace(context.transaction, &other, context.session)?;
        self.leaving.act(context, &other, None)?;
        if fire(context, &self.replaced.early, Some(&other), None)? {
            fire(context, &self.replaced.after, Some(&other), None)?;
        }
        Ok(())
    }

    /// The row of a key.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn read(&self, context: &Context<'_>, key: &RowKey) -> Result<Option<Row>, Error> {
        let env = RowEnv { transaction: context.transaction, session: context.session };
        self.rows.read(key, &env)
    }

    /// Brings a row's values into the form the columns keep, and computes generated columns.
    ///
    /// # Errors
    /// What the generated columns' expressions raise.
    pub(crate) fn convert(&self, context: &Context<'_>, row: &mut Row) -> Result<(), Error> {
        let env = RowEnv { transaction: context.transaction, session: context.session };
        self.constraints.convert(&self.rows, row, &env)
    }
}

/// The keys of a table in the order in which they are checked: before all others that of the first
/// clause, then the rowid, then those of the other clauses.
fn in_order(
    table: &Table,
    constraints: &Constraints,
    statement: Option<Conflict>,
    clauses: &[Clause],
) -> Vec<UniqueCheck> {
    let own = |unique: Unique| match unique {
        Unique::Key => table.key_conflict,
        Unique::Index(index) => table.indexes[index].conflict,
    };
    // A rowid that replaces by its own clause waits until no other constraint can refuse.
    let key_last = !table.without_rowid
        && statement.is_none()
        && clauses.is_empty()
        && table.key_conflict == Some(Conflict::Replace);
    let clause_of = |unique: Unique| {
        let is = |clause: &Clause| clause.unique.is_none_or(|known| known == unique);
        clauses.iter().position(is)
    };
    let place = |unique: &Unique| match (unique, clause_of(*unique)) {
        (Unique::Key, _) if key_last => usize::MAX,
        (Unique::Key, Some(0)) if !table.without_rowid => 0,
        (Unique::Key, _) if !table.without_rowid => 1,
        (_, Some(0)) if clauses[0].unique.is_some() => 0,
        (_, Some(clause)) if clauses[clause].unique.is_some() => clause + 1,
        _ => clauses.len() + 2,
    };
    let mut order = constraints.unique.clone();
    order.sort_by_key(place);
    let check = |unique: Unique| {
        let number = clause_of(unique);
        let clause = number.map(|number| clauses[number]);
        UniqueCheck {
            unique,
            resolution: match clause {
                Some(Clause { updates: false, .. }) => Conflict::Ignore,
                _ => statement.or(own(unique)).unwrap_or(Conflict::Abort),
            },
            clause: number.filter(|_| clause.is_some_and(|clause| clause.updates)),
        }
    };
    order.into_iter().map(check).collect()
}

/// Changes rows of a table, for an `UPDATE` or a clause of an `INSERT`.
#[derive(Debug)]
pub(crate) struct Updater {
    pub(crate) changer: Changer,
    pub(crate) sets: Sets,
    pub(crate) firing: Firing,
    /// The foreign keys whose columns change.
    pub(crate) references: References,
}

impl Updater {
    /// Stores a row's new values, which `new` has unconverted; gives its new key, or `None` when
    /// the row was left as it was. `at` is the state of a kept table that the writer saw.
    ///
    /// # Errors
    /// A constraint; what triggers raise.
    pub(crate) fn update(
        &self,
        context: &mut Context<'_>,
        (key, at): (&RowKey, Option<&Value>),
        old: Row,
        mut new: Row,
        returning: Option<&Returning>,
    ) -> Result<Option<RowKey>, Failure> {
        let changer = &self.changer;
        let mut stored = old.clone();
        if !self.firing.before.is_empty() {
            let mut shown = new.clone();
            changer.convert(context, &mut shown)?;
            if !fire(context, &self.firing.before, Some(&old), Some(&shown))? {
                return Ok(None);
            }
            // The programs may have deleted the row, or changed what the statement does not set.
            let Some(current) = changer.read(context, key)? else { return Ok(None) };
            for (place, value) in current.values.iter().enumerate() {
                let is_set = || self.sets.columns().any(|column| column == place);
                if *value != old.values[place] && !is_set() {
                    new.values[place] = value.clone();
                }
            }
            stored = current;
        }
        changer.convert(context, &mut new)?;
        if changer.check(context, &mut new, Some(key))? != Verdict::Store {
            return Ok(None);
        }
        if !changer.replaced.is_empty() || !changer.leaving.is_empty() {
            let Some(current) = changer.read(context, key)? else { return Ok(None) };
            stored = current;
        }
        if changer.is_kept {
            let (keeper, reads) = context.keeper()?;
            let table = &changer.rows.table.name;
            match at {
                None => keeper.update(&reads, table, Some(&stored.values), &mut new.values)?,
                Some(state) => {
                    let columns = self.sets.columns().collect();
                    let seen = Seen { state, columns };
                    keeper.update_seen(&reads, table, &seen, &stored.values, &mut new.values)?;
                }
            }
        }
        self.references.store(context, &changer.rows, &stored, &new)?;
        let key = new.key(&changer.rows.table);
        let rows = (Some(&old), Some(&new));
        if fire(context, &self.firing.early, rows.0, rows.1).map_err(Failure::of_changed_row)? {
            if let Some(returning) = returning {
                returning.give(context, &new)?;
            }
            fire(context, &self.firing.after, rows.0, rows.1).map_err(Failure::of_changed_row)?;
        }
        Ok(Some(key))
    }

    /// The row with the values that are set.
    ///
    /// # Errors
    /// As [`Sets::apply`].
    pub(crate) fn changed(
        &self,
        old: &Row,
        values: impl IntoIterator<Item = Value>,
    ) -> Result<Row, Error> {
        self.sets.apply(&self.changer.rows.table, old, values)
    }
}

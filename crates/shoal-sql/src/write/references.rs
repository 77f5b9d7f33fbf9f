//! Foreign keys enforced: the effect of a changed row on its parents and children.
//!
//! SQLite counts. A row without a parent counts one up, its end or a new parent one down; a
//! statement fails where its immediate constraints do not come out at zero, and a `COMMIT`
//! where the deferred ones do not. Counting down begins only above zero: a violation from before
//! the keys were enforced was never counted.

use std::sync::Arc;

use super::actions;
use super::foreign_keys::{Parent, mismatch};
use super::query::RowQuery;
use super::row::Row;
use super::rows::Rows;
use super::triggers::{Within, fire};
use super::{Context, Done, Failure};
use crate::Error;
use crate::error::{ConstraintKind, NameKind};
use crate::parse::ast::{Conflict, TriggerEvent};
use crate::schema::{ForeignKey, Object, Table};
use crate::value::{Value, to_int};

/// Violations of foreign keys a transaction has yet to mend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    /// `PRAGMA defer_foreign_keys`: every key is looked at when the transaction ends.
    pub(crate) defers_all: bool,
    /// Violations of deferred keys.
    deferred: i64,
    /// Violations of immediate keys while all were deferred.
    immediate: i64,
}

impl Outstanding {
    /// Whether the transaction may not be committed.
    pub(crate) fn is_violated(&self) -> bool {
        self.deferred + self.immediate != 0
    }

    /// The violations at a savepoint, deferred as now.
    pub(crate) fn back_to(self, saved: Outstanding) -> Outstanding {
        Outstanding { defers_all: self.defers_all, ..saved }
    }

    /// A read outside a transaction is one of its own, and ends a deferral.
    pub(crate) fn end_with_read(&mut self, in_transaction: bool) {
        if !in_transaction {
            *self = Outstanding::default();
        }
    }

    /// `PRAGMA defer_foreign_keys = ...`; off forgets all violations, as in SQLite.
    pub(crate) fn set_defers_all(&mut self, on: bool) {
        self.defers_all = on;
        if !on {
            (self.deferred, self.immediate) = (0, 0);
        }
    }
}

/// The counters of a statement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Violations {
    /// Violations of immediate keys, to be mended by the statement itself.
    statement: i64,
    pub(crate) outstanding: Outstanding,
}

impl Violations {
    pub(crate) fn of(outstanding: Outstanding) -> Violations {
        Violations { statement: 0, outstanding }
    }

    /// Fails where an immediate key is violated.
    ///
    /// # Errors
    /// [`Error::Constraint`].
    pub(crate) fn check_statement(&self) -> Result<(), Failure> {
        if self.statement != 0 { Err(failed()) } else { Ok(()) }
    }

    fn count(&mut self, deferred: bool, by: i64) {
        let counter = match deferred {
            true => &mut self.outstanding.deferred,
            false if self.outstanding.defers_all => &mut self.outstanding.immediate,
            false => &mut self.statement,
        };
        *counter = counter.saturating_add(by);
    }

    /// True when there is no violation to mend.
    fn is_settled(&self, deferred: bool) -> bool {
        let own = if deferred { self.outstanding.deferred } else { self.statement };
        own == 0 && self.outstanding.immediate == 0
    }
}

/// `FOREIGN KEY constraint failed`, whatever the `OR` clause.
pub(crate) fn failed() -> Failure {
    let error = Error::Constraint { constraint: ConstraintKind::ForeignKey, place: String::new() };
    Failure { error, resolution: Conflict::Abort, done: Done::default(), is_in_sight: false }
}

/// A kind of change of a table's rows.
#[derive(Clone, Copy)]
pub(crate) enum Change<'c> {
    /// They are inserted; `single` for one row by a statement without triggers.
    Insert {
        single: bool,
    },
    /// Columns are set where the function is true.
    Update(&'c dyn Fn(usize) -> bool),
    Delete,
    /// They go with their table: mismatched keys are passed over.
    Drop,
}

impl Change<'_> {
    fn sets(self, column: usize) -> bool {
        match self {
            Change::Update(sets) => sets(column),
            _ => true,
        }
    }
}

/// The foreign keys touched by a change of a table's rows.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// Keys of the table itself.
    own: Vec<OwnKey>,
    /// Keys of the tables referring to this one.
    others: Vec<OtherKey>,
    /// The programs of their actions.
    actions: Vec<usize>,
    /// Whether the change can change any key's values.
    is_required: bool,
    /// Whether a violation of an immediate key by a new row is one of the statement.
    fails_at_once: bool,
}

/// A fault of the keys, by the order of SQLite's search.
#[derive(Default)]
struct Faults(Option<Error>);

impl Faults {
    fn first(&mut self, error: Error) {
        self.0.get_or_insert(error);
    }

    fn last(&mut self, error: Error) {
        self.0 = Some(error);
    }
}

#[derive(Debug)]
struct OwnKey {
    columns: Vec<usize>,
    parent: Parent,
    deferred: bool,
    /// Whether the table refers to itself.
    is_self: bool,
}

#[derive(Debug)]
struct OtherKey {
    deferred: bool,
    is_self: bool,
    /// Counts the rows referring to a row at hand, the row itself left out.
    referring: RowQuery,
}

impl References {
    /// Finds the keys, and compiles their actions.
    ///
    /// # Errors
    /// A key whose parent does not exist, or has no such unique key; errors of compiling actions.
    pub(crate) fn new(
        within: &mut Within<'_>,
        table: &Arc<Table>,
        change: Change<'_>,
    ) -> Result<References, Error> {
        let fails_at_once = matches!(change, Change::Insert { single: true });
        let mut references = References { fails_at_once, ..References::default() };
        if !within.schema.flags().foreign_keys {
            return Ok(references);
        }
        let Some(schema) = within.schema.of_database(table.database) else {
            return Ok(references);
        };
        let database = within.schema.database_name(table.database);
        let event = match change {
            Change::Insert { .. } => TriggerEvent::Insert,
            Change::Update(_) => TriggerEvent::Update,
            Change::Delete | Change::Drop => TriggerEvent::Delete,
        };
        let (mut faults, mut faults_of_actions) = (Faults::default(), Faults::default());
        // The newest comes first, as in SQLite.
        for key in table.foreign_keys.iter().rev() {
            let is_self = key.parent.eq_ignore_ascii_case(&table.name);
            let is_set = key.columns.iter().any(|&column| change.sets(column));
            references.is_required |= is_set;
            if is_self || is_set {
                match OwnKey::new((schema, database), table, key, is_self, change) {
                    Ok(own) => references.own.extend(own),
                    Err(error) => faults.first(error),
                }
            }
        }
        let (mut of_any, mut within_actions) = (Faults::default(), Faults::default());
        for object in schema.objects().iter().rev() {
            let Object::Table(child) = object else { continue };
            for (place, key) in child.foreign_keys.iter().enumerate().rev() {
                if !key.parent.eq_ignore_ascii_case(&table.name) {
                    continue;
                }
                let is_set = is_set(table, key, change);
                references.is_required |= is_set;
                let action = match event {
                    TriggerEvent::Insert => None,
                    TriggerEvent::Update => actions::Action::named(key.on_update),
                    TriggerEvent::Delete => actions::Action::named(key.on_delete),
                };
                let pairs = match pairs(table, child, key, change) {
                    Ok(Some(pairs)) => pairs,
                    Ok(None) => continue,
                    Err(_) => {
                        of_any.last(mismatch(child, key));
                        if is_set {
                            faults.first(mismatch(child, key));
                        }
                        if is_set && action.is_some() {
                            faults_of_actions.last(mismatch(child, key));
                        }
                        continue;
                    }
                };
                if !is_set {
                    continue;
                }
                let is_self = child.name == table.name;
                let referring = actions::referring(within.schema, table, child, &pairs, is_self)?;
                references.others.push(OtherKey { deferred: key.deferred, is_self, referring });
                if let Some(action) = action {
                    match within.action((child, place), (table, &pairs), event, action) {
                        Ok(number) => references.actions.push(number),
                        Err(error) => within_actions.first(error),
                    }
                }
            }
        }
        if !references.is_required {
            return Ok(References::default());
        }
        // SQLite looks at the keys three times, and the last complaint counts.
        // Faults within an action count only without others.
        let faults = faults_of_actions.0.or(faults.0);
        let faults = faults.or(of_any.0.filter(|_| event != TriggerEvent::Insert));
        match faults.or(within_actions.0) {
            Some(error) => Err(error),
            None => Ok(references),
        }
    }

    /// True where no other rows are touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.own.is_empty() && self.others.is_empty()
    }

    /// Whether a row may refer to another one of its table, or to itself.
    /// Whether SQLite writes a changed row's entries anew in all indexes.
    pub(crate) fn replaces_entries(&self) -> bool {
        !self.actions.is_empty() || self.own.iter().any(|key| key.is_self)
    }

    fn are_within_table(&self) -> bool {
        self.own.iter().any(|key| key.is_self) || self.others.iter().any(|key| key.is_self)
    }

    /// True where a dropped table may have to be emptied row by row first.
    pub(crate) fn concern_drop(&self) -> bool {
        !self.others.is_empty() || self.own.iter().any(|key| key.deferred)
    }

    /// True where the rows of a dropped table go without a look at each: the table is nobody's
    /// parent, and no key of its own waits for the end of the transaction.
    pub(crate) fn ignore_drop(&self, violations: &Violations) -> bool {
        let deferred = |key: &OwnKey| key.deferred || violations.outstanding.defers_all;
        self.others.is_empty() && (violations.is_settled(true) || !self.own.iter().any(deferred))
    }

    /// Counts the effect of a row's end, before its deletion.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn leave(&self, context: &mut Context<'_>, old: &Row) -> Result<(), Failure> {
        for key in &self.own {
            key.leave(context, old)?;
        }
        for key in &self.others {
            let count = key.count(context, old)?;
            context.state.violations.count(key.deferred, count);
        }
        Ok(())
    }

    /// Counts the effect of a new row, before its insertion.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub(crate) fn enter(&self, context: &mut Context<'_>, new: &Row) -> Result<(), Failure> {
        for key in &self.own {
            if key.is_violated_by(context, new)? {
                let immediate = !key.deferred && !context.state.violations.outstanding.defers_all;
                if immediate && self.fails_at_once {
                    return Err(failed());
                }
                context.state.violations.count(key.deferred, 1);
            }
        }
        for key in &self.others {
            if !context.state.violations.is_settled(key.deferred) {
                let count = key.count(context, new)?;
                context.state.violations.count(key.deferred, -count);
            }
        }
        Ok(())
    }

    /// Puts a row in the place of another one, with all consequences.
    ///
    /// # Errors
    /// [`Error::Store`]; failures of the actions.
    pub(crate) fn store(
        &self,
        context: &mut Context<'_>,
        rows: &Rows,
        old: &Row,
        new: &Row,
    ) -> Result<(), Failure> {
        let session = context.session;
        if self.is_empty() {
            return Ok(rows.replace(context.transaction, old, new, session)?);
        }
        self.leave(context, old)?;
        if self.are_within_table() {
            // The new row must not find its own past.
            rows.delete(context.transaction, old, session)?;
            self.enter(context, new)?;
            let records = &mut context.state.scratch.records;
            rows.insert(context.transaction, new, session, records)?;
        } else {
            self.enter(context, new)?;
            rows.replace(context.transaction, old, new, session)?;
        }
        self.act(context, old, Some(new))
    }

    /// Runs the actions of other tables' keys once a row has changed, or gone.
    ///
    /// # Errors
    /// Failures of the actions.
    pub(crate) fn act(
        &self,
        context: &mut Context<'_>,
        old: &Row,
        new: Option<&Row>,
    ) -> Result<(), Failure> {
        fire(context, &self.actions, Some(old), new)?;
        Ok(())
    }
}

impl OwnKey {
    fn new(
        (schema, database): (&crate::schema::Schema, &str),
        table: &Table,
        key: &ForeignKey,
        is_self: bool,
        change: Change<'_>,
    ) -> Result<Option<OwnKey>, Error> {
        let lenient = matches!(change, Change::Drop);
        let parent = match Parent::of(schema, table, key) {
            Err(_) if lenient => return Ok(None),
            Ok(Parent::Nowhere) if !lenient => {
                let message = format!("no such table: {database}.{}", key.parent);
                return Err(Error::Name { kind: NameKind::Table, message, offset: None });
            }
            parent => parent?,
        };
        let (columns, deferred) = (key.columns.clone(), key.deferred);
        Ok(Some(OwnKey { columns, parent, deferred, is_self }))
    }

    /// The values of the key; `None` where one is NULL and so refers to no row.
    fn values<'r>(&self, row: &'r Row) -> Option<Vec<&'r Value>> {
        let values = self.columns.iter().map(|&column| &row.values[column]);
        values.map(|value| Some(value).filter(|value| !value.is_null())).collect()
    }

    fn leave(&self, context: &mut Context<'_>, old: &Row) -> Result<(), Error> {
        let Some(values) = self.values(old) else { return Ok(()) };
        // A dropped parent has no rows, whatever was counted.
        let is_gone = matches!(self.parent, Parent::Nowhere);
        let may_mend = !context.state.violations.is_settled(self.deferred);
        if is_gone || may_mend && !self.parent.has(context.transaction, &values)? {
            context.state.violations.count(self.deferred, -1);
        }
        Ok(())
    }

    fn is_violated_by(&self, context: &Context<'_>, new: &Row) -> Result<bool, Error> {
        let Some(values) = self.values(new) else { return Ok(false) };
        let to_itself = self.is_self && self.parent.is_row(new, &values);
        Ok(!to_itself && !self.parent.has(context.transaction, &values)?)
    }
}

impl OtherKey {
    fn count(&self, context: &Context<'_>, row: &Row) -> Result<i64, Error> {
        let mut parameters = Vec::new();
        row.push_parameters(&mut parameters);
        let rows = self.referring.rows(context, &parameters)?;
        Ok(rows.first().and_then(|row| row.first()).map_or(0, |count| to_int(count.as_ref())))
    }
}

/// True where a change may set a parent's columns of a key.
fn is_set(parent: &Table, key: &ForeignKey, change: Change<'_>) -> bool {
    let is_part = |(place, column): &(usize, &crate::schema::Column)| match &*key.parent_columns {
        [] => column.primary_key_place > 0 || parent.rowid_alias == Some(*place),
        named => named.iter().any(|name| name.eq_ignore_ascii_case(&column.name)),
    };
    let mut parts = parent.columns.iter().enumerate().filter(is_part);
    match change {
        Change::Update(_) => parts.any(|(place, _)| change.sets(place)),
        _ => true,
    }
}

/// The columns of a parent, each with the child's column, in the order of the parent's key; `None`
/// where a missing key is no error.
fn pairs(
    parent: &Table,
    child: &Table,
    key: &ForeignKey,
    change: Change<'_>,
) -> Result<Option<Vec<(usize, usize)>>, Error> {
    match super::foreign_keys::key_of_parent(parent, key) {
        Some(pairs) => Ok(Some(pairs)),
        None if matches!(change, Change::Drop) => Ok(None),
        // One new row of a parent mends nothing within its statement, and SQLite does not look.
        None if matches!(change, Change::Insert { single: true }) && !key.deferred => Ok(None),
        None => Err(mismatch(child, key)),
    }
}

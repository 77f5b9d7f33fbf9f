//! The keeper of a connection's kept tables, asked at the ends of statements and transactions.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use shoal_store::Mode;

use super::{Connection, Statement, writers};
use crate::Error;
use crate::connection::statement::Compiled;
use crate::kept::RowKeeper;
use crate::parse::Guard;
use crate::parse::ast::Conflict;
use crate::schema::MAIN;
use crate::value::Value;
use crate::write;

/// The count of changed rows, and the rows of `RETURNING`.
pub(super) type Returned = (u64, Vec<Vec<Value>>);

/// Keeps tables of a connection ([`Connection::set_keeper`]).
///
/// Calls never overlap: a connection is used by one thread at a time.
pub trait Keeper: RowKeeper + Any + Send {
    /// Tells guards from other triggers.
    fn guard(&self) -> Guard;

    /// Why statements may neither drop nor alter a table without rowids, nor give the table a
    /// unique index, told by one of its triggers and the first two columns; `None` for tables of
    /// others. The trigger may not be dropped either.
    fn closes(&self, _table: &str, _columns: [&str; 2], _trigger: &str) -> Option<String> {
        None
    }

    /// A statement is about to change rows of kept tables.
    ///
    /// # Errors
    /// The statement does not run then.
    fn begin(&self, connection: &mut Connection) -> Result<(), Error>;

    /// A statement changed rows of kept tables: what else follows from that is written.
    ///
    /// # Errors
    /// The statement is taken back then.
    fn finish(&self, connection: &mut Connection) -> Result<(), Error>;

    /// The transaction is about to be committed.
    ///
    /// # Errors
    /// The transaction stays open then.
    fn commit(&self, connection: &mut Connection) -> Result<(), Error>;

    /// The transaction ended.
    fn ended(&self, committed: bool);
}

/// The keeper, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Kept {
    pub(crate) keeper: Option<Arc<dyn Keeper>>,
    /// The keeper is at work: its own statements are not asked about.
    pub(crate) is_busy: bool,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("keeper", &self.keeper.is_some()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Lets statements prepared from now on change kept tables, whose keeper is asked about every
    /// row; `None` leaves such tables to their guards again.
    pub fn set_keeper(&mut self, keeper: Option<Arc<dyn Keeper>>) {
        self.kept.keeper = keeper;
        self.plans = super::plans::Plans::default();
    }

    /// The keeper.
    pub fn keeper(&self) -> Option<&Arc<dyn Keeper>> {
        self.kept.keeper.as_ref()
    }

    /// True where a statement changes kept tables, and their keeper is to be asked.
    pub(super) fn asks_keeper(&self, statement: &Statement) -> bool {
        let is_kept = match &statement.plan.compiled {
            Compiled::Write(plan) => plan.is_kept(),
            _ => false,
        };
        is_kept && !self.kept.is_busy && self.kept.keeper.is_some()
    }

    /// Runs `work` of the keeper.
    pub(super) fn ask(
        &mut self,
        work: impl FnOnce(&dyn Keeper, &mut Connection) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(keeper) = self.kept.keeper.clone().filter(|_| !self.kept.is_busy) else {
            return Ok(());
        };
        self.kept.is_busy = true;
        let done = work(&*keeper, self);
        self.kept.is_busy = false;
        done
    }

    /// Tells the keeper of the end of a transaction.
    pub(super) fn tell_ended(&self, committed: bool) {
        if let Some(keeper) = self.kept.keeper.as_ref().filter(|_| !self.kept.is_busy) {
            keeper.ended(committed);
        }
    }

    /// The moment for the keeper to go back to; 0 without one.
    pub(super) fn keepers_moment(&self) -> usize {
        self.kept.keeper.as_ref().map_or(0, |keeper| keeper.moment())
    }

    /// Runs a statement that changes kept tables: its rows, what the keeper makes of them, and,
    /// outside a transaction, the commit. All of them happen or nothing.
    pub(super) fn execute_kept(&mut self, statement: &mut Statement) -> Result<Returned, Error> {
        let own = self.transaction.is_none();
        if own {
            self.begin(Mode::Write)?;
        }
        let done = self.execute_kept_within(statement);
        if !own || self.transaction.is_none() {
            return done.map_err(|failure| failure.error);
        }
        let keeps = done.as_ref().err().is_none_or(|failure| failure.resolution == Conflict::Fail);
        let ended = if keeps { self.commit() } else { self.rollback() };
        if self.transaction.is_some() {
            self.rollback()?;
        }
        let done = done.map_err(|failure| failure.error)?;
        ended?;
        Ok(done)
    }

    /// Brings the open transaction to writing in all databases a statement writes to.
    fn begin_to_write(&mut self, statement: &Statement) -> Result<(), Error> {
        self.refuse_to_write()?;
        let mut databases = vec![MAIN];
        if let Compiled::Write(plan) = &statement.plan.compiled {
            databases.push(plan.home());
            databases.extend(plan.others());
        }
        if databases.iter().any(|database| *database != MAIN) {
            self.databases.begin(true, &self.control.watch)?;
        }
        databases.sort_unstable();
        databases.dedup();
        for database in databases {
            let transaction = self.take_to_write(database)?;
            self.put_back(database, transaction);
        }
        Ok(())
    }

    fn execute_kept_within(
        &mut self,
        statement: &mut Statement,
    ) -> Result<Returned, write::Failure> {
        self.begin_to_write(statement)?;
        self.ask(|keeper, connection| keeper.begin(connection))?;
        let (moment, moments) = (self.keepers_moment(), self.virtual_moments()?);
        let mut savepoints = Vec::new();
        for (database, transaction) in writers(&mut self.transaction, &mut self.databases) {
            savepoints.push((database, transaction.savepoint()?));
        }
        let done = self.execute_write(statement);
        if self.transaction.is_none() {
            return done;
        }
        let finished = self.ask(|keeper, connection| keeper.finish(connection));
        for (database, transaction) in writers(&mut self.transaction, &mut self.databases) {
            let place = savepoints.iter().position(|(marked, _)| *marked == database);
            let Some((_, savepoint)) = place.map(|place| savepoints.swap_remove(place)) else {
                continue;
            };
            if finished.is_err() {
                transaction.rollback_to(&savepoint)?;
                self.states.changed(database);
            }
            transaction.release(savepoint)?;
        }
        if finished.is_err() {
            self.schemas.forget();
            if let Some(keeper) = &self.kept.keeper {
                keeper.rollback_to(moment);
            }
            self.virtual_writers.rollback_to(None, &moments);
        }
        self.virtual_writers.release(None, &moments);
        if let Some(keeper) = &self.kept.keeper {
            keeper.release(moment);
        }
        let done = done?;
        finished?;
        Ok(done)
    }
}

//! Connections: one user of one open file.

pub(crate) mod attached;
pub(crate) mod blob;
mod bulk;
mod clauses;
mod data_version;
mod follow;
mod functions;
mod hooks;
mod keeper;
mod narrowed;
mod pinned;
pub(crate) mod plans;
pub(crate) mod pragma;
mod pragma_tables;
mod query;
mod registered;
mod savepoints;
mod searched;
pub(crate) mod statement;
mod states;
mod store_pragma;
mod vacuum;
mod virtual_tables;

use std::sync::Arc;

use shoal_store::vfs::{Clock, Entropy};
use shoal_store::{Mode, Store, Transaction, Version};

use crate::authorize::Access;
use crate::exec::for_each_row;
use crate::index_reader::IndexReader;
use crate::kept::RowKeeper;
use crate::parse::ast::{Conflict, DropKind, Explain, Name, ObjectName, Stmt, TransactionMode};
use crate::parse::{Hint, Parsed, hint, parse};
use crate::reader::TableReader;
use crate::row_walk::RowWalk;
use crate::schema::{
    AttachedSnapshots, BESIDE, MAIN, Schema, Snapshot, Txns, VirtualWriters, transaction_of,
};
use crate::session::forced::Forced;
use crate::session::{
    Control, Counts, Environment, Interrupter, Limits, Session, StatementSession, TransactionHooks,
};
use crate::value::{Value, text_of};
use crate::write::references::{self, Outstanding};
use crate::write::{self, TableWriter};
use crate::{Error, plan};
use attached::{Databases, Schemas};
pub use blob::Blob;
pub use clauses::{Clause, ClausePlace};
use data_version::DataVersions;
pub use follow::TableState;
pub use keeper::Keeper;
use keeper::Returned;
pub use narrowed::{Narrowed, VisibleVirtual};
use pinned::Pinned;
use plans::{Found, Plan, Plans};
use pragma::Pragma;
use savepoints::Savepoints;
use statement::Compiled;
pub use statement::Statement;
use states::States;

/// One user of an open database: prepares statements, runs them, holds the open transaction.
///
/// Outside a transaction every statement has its own: reading ends with its last row, writing is
/// durable when the call returns.
#[derive(Debug)]
pub struct Connection {
    store: Store,
    environment: Environment,
    control: Control,
    schemas: Schemas,
    /// What `ATTACH` added.
    databases: Databases,
    plans: Plans,
    transaction: Option<Transaction>,
    /// `Some` where nobody can change the file: the one state that statements read.
    pinned: Option<Pinned>,
    savepoints: Savepoints,
    /// Violations of foreign keys in the open transaction.
    outstanding: Outstanding,
    counts: Counts,
    data_versions: DataVersions,
    /// The states that statements read.
    states: States,
    /// Seen by a table writer's functions; left by the last writing statement for the next.
    session: Option<StatementSession>,
    /// Memory of writing statements, from one to the next.
    scratch: write::Scratch,
    hooks: TransactionHooks,
    /// True refuses to write, whatever the store allows.
    read_only: bool,
    /// How the names of tables begin that statements may not change.
    reserved: Option<&'static str>,
    /// Statements prepared now run no triggers.
    silences_triggers: bool,
    /// Who keeps tables of this connection.
    kept: keeper::Kept,
    /// Clauses of the program's own in a `FROM`.
    clauses: Vec<Arc<dyn Clause>>,
    /// The writers of virtual tables in the open transaction.
    virtual_writers: VirtualWriters,
}

impl Connection {
    /// A connection to an open store, with the system's clock and random numbers.
    ///
    /// # Errors
    /// When the schema's pages cannot be read.
    pub fn open(store: Store) -> Result<Connection, Error> {
        Connection::with_environment(store, Environment::os())
    }

    /// A connection whose time and random numbers come from the caller.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn open_with(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Connection, Error> {
        Connection::with_environment(store, Environment { clock, entropy })
    }

    fn with_environment(store: Store, environment: Environment) -> Result<Connection, Error> {
        let mut connection = Connection {
            environment,
            control: Control::default(),
            schemas: Schemas::default(),
            databases: Databases::default(),
            plans: Plans::default(),
            transaction: None,
            pinned: Pinned::of(&store),
            store,
            savepoints: Savepoints::default(),
            outstanding: Outstanding::default(),
            counts: Counts::default(),
            data_versions: DataVersions::default(),
            states: States::default(),
            session: None,
            scratch: write::Scratch::default(),
            hooks: TransactionHooks::default(),
            read_only: false,
            reserved: None,
            silences_triggers: false,
            kept: keeper::Kept::default(),
            clauses: Vec::new(),
            virtual_writers: VirtualWriters::default(),
        };
        connection.schema()?;
        Ok(connection)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The store of a database by its name: `main`, or as attached.
    pub fn store_of(&self, database: &str) -> Option<&Store> {
        match database.eq_ignore_ascii_case("main") {
            true => Some(&self.store),
            false => self.databases.store(database),
        }
    }

    /// Keeps statements prepared from now on from changing tables whose names begin with `prefix`;
    /// a [`TableWriter`] still does. For those who keep such tables themselves.
    pub fn reserve_tables(&mut self, prefix: Option<&'static str>) {
        self.reserved = prefix;
        self.plans = Plans::default();
    }

    /// Lets statements prepared from now on run no triggers, or run them again. For those who keep
    /// tables up to date in a program's name, beside triggers for the program's users.
    pub fn silence_triggers(&mut self, silent: bool) {
        self.silences_triggers = silent;
    }

    /// The schema as of now, or as of the open transaction.
    ///
    /// # Errors
    /// When the schema's pages cannot be read.
    pub fn schema(&mut self) -> Result<Arc<Schema>, Error> {
        self.control.begin();
        let watch = &self.control.watch;
        let main = attached::current(self.transaction.as_ref(), &self.store, watch)?;
        self.schemas.refresh_main(&self.store, main.get())?;
        for place in self.databases.places() {
            if let Some(snapshot) = self.databases.snapshot(place, watch)? {
                self.schemas.refresh(&self.databases, place, snapshot.get())?;
            }
        }
        self.schemas.combine(&self.databases)
    }

    /// The state of `main` that the open transaction reads, or else the one of now.
    ///
    /// # Errors
    /// The store's.
    pub fn version(&self) -> Result<Version, Error> {
        match &self.transaction {
            Some(transaction) => Ok(transaction.version()),
            None => Ok(self.store.version()?),
        }
    }

    /// Whether anybody has committed to `main` since it was at `version`: what is to be read again
    /// then. Within a transaction, whether anybody has since it began, or it began at another
    /// state.
    ///
    /// # Errors
    /// The store's.
    pub fn is_stale(&self, version: &Version) -> Result<bool, Error> {
        match &self.transaction {
            Some(transaction) => Ok(transaction.version() != *version || transaction.is_stale()?),
            None => Ok(self.store.is_stale(version)?),
        }
    }

    /// What stands for the states of the databases that a statement would read now; `None` where
    /// one of them was not seen before, or may be another one behind the open transaction.
    pub(crate) fn state_of(&self, statement: &Statement) -> Result<Option<u64>, Error> {
        let begun = self.transaction.as_ref().or(self.pinned.as_ref().and_then(Pinned::get));
        let main = attached::current(begun, &self.store, &self.control.watch)?;
        if main.get().schema_cookie() != statement.plan.schema.cookie() {
            return Ok(None);
        }
        let mut read = Vec::new();
        if statement.plan.compiled.reads(MAIN) {
            read.push((MAIN, main));
        }
        for place in self.databases.places() {
            if statement.plan.compiled.reads(place + BESIDE) {
                let snapshot = self.databases.snapshot(place, &self.control.watch)?;
                read.extend(snapshot.map(|snapshot| (place + BESIDE, snapshot)));
            }
        }
        let mut state = 0;
        for (database, snapshot) in &read {
            let Some(number) = self.states.known(*database, snapshot.get()) else {
                return Ok(None);
            };
            if snapshot.get().is_stale()? {
                return Ok(None);
            }
            state = number.max(state);
        }
        Ok(Some(state))
    }

    /// A handle that stops the running statement from another thread.
    pub fn interrupter(&self) -> Interrupter {
        self.control.interrupter()
    }

    /// Bounds what each statement from now on may take.
    pub fn set_limits(&mut self, limits: Limits) {
        self.control.limits = limits;
    }

    /// The bounds that statements have.
    pub fn limits(&self) -> Limits {
        self.control.limits
    }

    /// Makes choices in the planner's place, for statements that are prepared from now on. For
    /// tests and the lab: every choice gives the same answer.
    #[doc(hidden)]
    pub fn force(&mut self, forced: Forced) {
        self.control.forced = forced;
        self.plans = Plans::default();
    }

    /// Prepares the one statement that `sql` holds.
    ///
    /// Plans of texts prepared again are kept and found without parsing and planning: a few
    /// hundred, the least recently used of which go first. So are plans of small queries with other
    /// literals. No plan outlives its schema. A word before a query decides: `CACHED` and `JIT`
    /// keep its plan the first time, `DIRECT` never.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Name`], [`Error::Meaning`] and [`Error::Unsupported`] with the
    /// place in the text; errors of reading the schema.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        let found = self.find_plan(sql);
        if found.is_none()
            && !self.clauses.is_empty()
            && let Some(rewritten) = self.without_clauses(sql)?
        {
            let found = self.find_plan(&rewritten.text);
            let prepared = self.prepare_plain(&rewritten.text, found);
            return prepared.map_err(|error| rewritten.place(error));
        }
        self.prepare_plain(sql, found)
    }

    /// The plan kept for a text. One without triggers is nobody else's.
    fn find_plan(&mut self, sql: &str) -> Option<Found> {
        match self.silences_triggers || self.schemas.own.authorizer.is_some() {
            true => None,
            false => self.plans.find(sql),
        }
    }

    /// Prepares a text without clauses of the program's own, whose plan may have been found.
    fn prepare_plain(&mut self, sql: &str, found: Option<Found>) -> Result<Statement, Error> {
        let parsed = match found {
            Some(_) => None,
            None => Some(parse_hinted(sql)?),
        };
        self.control.begin();
        let Connection {
            store,
            control,
            schemas,
            databases,
            plans,
            transaction,
            pinned,
            reserved,
            silences_triggers,
            kept,
            ..
        } = self;
        let watch = &control.watch;
        if let Some((_, parsed)) = &parsed
            && write::needs_temp(&parsed.stmt)
        {
            databases.make_temp();
        }
        // Every other statement needs the key, perhaps brought by a pragma.
        if parsed.as_ref().is_none_or(|(_, parsed)| !matches!(parsed.stmt, Stmt::Pragma { .. })) {
            store.check_unlocked()?;
        }
        // One transaction for the schema and the plan: in the shared mode each costs its locks.
        let snapshot = match (transaction, pinned) {
            (Some(transaction), _) => Snapshot::Shared(transaction),
            (None, Some(pinned)) => Snapshot::Shared(pinned.get_or_begin(store, watch)?),
            (None, None) => Snapshot::Own(Box::new(attached::begin(store, watch)?)),
        };
        schemas.refresh_main(store, snapshot.get())?;
        let mut attached = AttachedSnapshots::new();
        for place in databases.places() {
            let snapshot = databases.snapshot(place, watch)?;
            if let Some(snapshot) = &snapshot {
                schemas.refresh(databases, place, snapshot.get())?;
            }
            attached.push(snapshot);
        }
        let schema = schemas.combine(databases)?;
        if let Some(found) = found {
            if Arc::ptr_eq(&found.plan().schema, &schema) {
                return Ok(Statement::of_found(sql, found));
            }
            plans.forget_others(&schema);
        }
        let (hint, mut parsed) = match parsed {
            Some(parsed) => parsed,
            None => parse_hinted(sql)?,
        };
        parsed.is_silent = *silences_triggers;
        parsed.guard = kept.keeper.as_ref().map(|keeper| keeper.guard());
        if let Some(prefix) = *reserved {
            write::refuse_reserved(&schema, &parsed.stmt, prefix)?;
            if let Some(keeper) = &kept.keeper {
                let closes = |table: &str, columns: [&str; 2], trigger: &str| {
                    keeper.closes(table, columns, trigger)
                };
                write::refuse_closed(&schema, &parsed.stmt, &closes)?;
            }
        }
        let (txns, forced) = (Txns::new(snapshot.get(), &attached), control.forced);
        let compiled = compile(&schema, &parsed, sql, txns, forced)?;
        let plan = Plan::new(sql, Arc::new(parsed), compiled, Arc::clone(&schema));
        match hint {
            _ if *silences_triggers || schema.own().authorizer.is_some() => {}
            Some(Hint::Kept) => plans.keep(&plan),
            Some(Hint::Direct) => {}
            None => match plans.wanted_shape(&schema) {
                Some(shape) => {
                    let of_shape = parse(&shape).ok().and_then(|mut parsed| {
                        parsed.guard = plan.parsed.guard;
                        let compiled = compile(&schema, &parsed, &shape, txns, forced).ok()?;
                        Some(Plan::new(&shape, Arc::new(parsed), compiled, Arc::clone(&schema)))
                    });
                    plans.keep_shape(shape, of_shape, &schema);
                }
                None => plans.keep_if_seen(&plan),
            },
        }
        Ok(Statement::new(plan))
    }

    /// Runs a statement for its effect; gives how many rows it changed.
    ///
    /// # Errors
    /// As [`Connection::query`]; constraints; the store's errors of writing.
    pub fn execute(&mut self, statement: &mut Statement) -> Result<u64, Error> {
        if let Some(changes) = self.execute_direct(statement)? {
            return Ok(changes);
        }
        match &statement.plan.compiled {
            Compiled::Query(_) | Compiled::Analyze(_) => {
                let mut rows = self.query(statement)?;
                while rows.next()?.is_some() {}
                Ok(0)
            }
            Compiled::Pragma(pragma) if pragma.writes() => {
                let pragma = pragma.clone();
                let home = pragma.home(&statement.plan.schema)?;
                self.databases.begin(self.transaction.is_some(), &self.control.watch)?;
                self.write((home, &[]), |_, transaction, _| {
                    pragma.write(transaction).map_err(write::Failure::from)
                })
                .map_err(|failure| failure.error)?;
                Ok(0)
            }
            Compiled::Pragma(pragma) if pragma.is_of_store() => {
                self.run_pragma(pragma)?;
                if pragma.shapes_new_file() || pragma.is_of_codec() {
                    self.schemas.forget();
                }
                Ok(0)
            }
            Compiled::Write(_) => self.execute_returning(statement).map(|(changes, _)| changes),
            Compiled::Pragma(pragma) => {
                if let Some(on) = pragma.defers_all().flatten() {
                    self.outstanding.set_defers_all(on);
                }
                let fixed = pragma.is_fixed_in_transaction() && self.transaction.is_some();
                if !fixed && let Some(flags) = pragma.flags(self.schemas.flags) {
                    self.schemas.flags = flags;
                    // Every statement is planned again.
                    self.schemas.forget();
                }
                Ok(0)
            }
            Compiled::QueryPlan(_) | Compiled::Tree(_) => Ok(0),
            Compiled::Attach(_) | Compiled::Detach(_) => self.attach_or_detach(statement),
            Compiled::Vacuum(_) => {
                let plan = Arc::clone(&statement.plan);
                if let Compiled::Vacuum(into) = &plan.compiled {
                    self.vacuum(into.as_deref(), &statement.parameters)?;
                }
                Ok(0)
            }
            Compiled::Begin(mode) => {
                self.begin(match mode {
                    TransactionMode::Deferred => Mode::Read,
                    TransactionMode::Immediate | TransactionMode::Exclusive => Mode::Write,
                })?;
                Ok(0)
            }
            Compiled::Commit => self.commit().map(|()| 0),
            Compiled::Rollback => self.rollback().map(|()| 0),
            Compiled::Savepoint(name) => self.savepoint(name).map(|()| 0),
            Compiled::Release(name) => self.release(name).map(|()| 0),
            Compiled::RollbackTo(name) => self.rollback_to(name).map(|()| 0),
        }
    }

    /// Runs a statement that writes one row by its values alone, within an open transaction that
    /// writes; `None` where the statement has to take the long way.
    ///
    /// # Errors
    /// [`Error::Store`].
    #[inline]
    fn execute_direct(&mut self, statement: &Statement) -> Result<Option<u64>, Error> {
        let Compiled::Write(plan) = &statement.plan.compiled else { return Ok(None) };
        let (Some(direct), Some(transaction)) = (plan.direct(), &mut self.transaction) else {
            return Ok(None);
        };
        let is_plain = transaction.is_writer()
            && !self.read_only
            && self.databases.is_empty()
            && !self.control.rows.any()
            && self.schemas.is_current(&statement.plan.schema, transaction);
        if !is_plain {
            return Ok(None);
        }
        self.control.begin();
        let (environment, kept) = (&self.environment, &mut self.session);
        let session = environment.session_kept(kept, self.counts, &self.control, &self.store);
        let (parameters, records) = (&statement.parameters, &mut self.scratch.plain);
        let Some(done) = direct.execute(transaction, parameters, session, records)? else {
            return Ok(None);
        };
        self.states.changed(MAIN);
        self.counts.note(done.changes, done.last_insert_rowid);
        Ok(Some(done.changes))
    }

    /// Runs a pragma that is about the open file itself.
    fn run_pragma(&self, pragma: &Pragma) -> Result<Vec<Vec<Value>>, Error> {
        let open = self.transaction.as_ref().map(Transaction::is_writer);
        pragma.run_on_store(&self.store, &self.databases, open)
    }

    /// Begins a transaction: a snapshot to read, which may begin to write unless another writes.
    ///
    /// # Errors
    /// [`Error::Meaning`] within a transaction; the store's.
    pub fn begin(&mut self, mode: Mode) -> Result<(), Error> {
        if self.transaction.is_some() {
            return Err(meaning("cannot start a transaction within a transaction"));
        }
        if mode == Mode::Write {
            self.refuse_to_write()?;
        }
        let mut transaction = self.store.begin(mode)?;
        transaction.set_watch(Some(Arc::clone(&self.control.watch)));
        self.transaction = Some(transaction);
        Ok(())
    }

    /// Begins a transaction that reads the state of `beside`, a reader of the same store: several
    /// connections then answer from one snapshot, whatever is committed meanwhile.
    ///
    /// # Errors
    /// [`Error::Meaning`] within a transaction; [`Error::Misuse`] for a transaction of another
    /// store, or one that may write.
    pub fn begin_beside(&mut self, beside: &Transaction) -> Result<(), Error> {
        if self.transaction.is_some() {
            return Err(meaning("cannot start a transaction within a transaction"));
        }
        if !beside.is_of(&self.store) {
            return Err(Error::Misuse { what: "the transaction beside is of another store" });
        }
        let mut transaction = beside.reader_beside()?;
        transaction.set_watch(Some(Arc::clone(&self.control.watch)));
        self.transaction = Some(transaction);
        Ok(())
    }

    /// Refuses to write from now on, or allows as much as the store does.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    fn refuse_to_write(&self) -> Result<(), Error> {
        match self.read_only {
            true => Err(shoal_store::Error::ReadOnly { path: self.store.path().into() }.into()),
            false => Ok(()),
        }
    }

    /// Makes the transaction's changes durable and ends it.
    ///
    /// # Errors
    /// [`Error::Meaning`] outside a transaction; the store's, after which nothing was changed.
    pub fn commit(&mut self) -> Result<(), Error> {
        if self.transaction.is_some() {
            if self.outstanding.is_violated() {
                return Err(references::failed().error);
            }
            self.ask(|keeper, connection| keeper.commit(connection))?;
            self.flush_virtual()?;
            self.virtual_writers.clear();
        }
        let Some(transaction) = self.transaction.take() else {
            return Err(meaning("cannot commit - no transaction is active"));
        };
        self.outstanding = Outstanding::default();
        self.savepoints = Savepoints::default();
        let result = self.end_all(transaction);
        self.databases.end();
        if result.is_err() {
            self.schemas.forget();
        }
        self.tell_ended(result.is_ok());
        result
    }

    /// Commits the changes of every database: files with a rollback journal as one, then each of
    /// the others by itself, those in memory last, since nothing goes wrong there.
    ///
    /// # Errors
    /// The first of the stores'. No file with a rollback journal was changed when one of them
    /// fails; a file with a log that fails leaves the ones before it changed.
    fn end_all(&mut self, main: Transaction) -> Result<(), Error> {
        let writers: Vec<usize> = self.databases.writers().map(|(number, _)| number).collect();
        if writers.is_empty() {
            return self.end(MAIN, main);
        }
        let mut open = Vec::with_capacity(writers.len() + 1);
        if main.is_writer() {
            open.push((MAIN, main));
        }
        for database in writers {
            let transaction = self.databases.take(database);
            open.extend(transaction.map(|transaction| (database, transaction)));
        }
        self.end_several(open)
    }

    /// Commits writing transactions in the order of [`Connection::end_all`].
    ///
    /// # Errors
    /// As [`Connection::end_all`].
    fn end_several(&mut self, open: Vec<(usize, Transaction)>) -> Result<(), Error> {
        let mut order = Vec::with_capacity(open.len());
        for (database, transaction) in open {
            let in_memory = is_in_memory(self.store_by_number(database)?);
            order.push((in_memory, database, transaction));
        }
        order.sort_by_key(|(in_memory, database, _)| (*in_memory, *database));
        if self.hooks.refuses_commit() {
            for (_, database, transaction) in order {
                self.states.changed(database);
                transaction.rollback();
            }
            self.hooks.rolled_back();
            return Err(Error::CommitRefused);
        }
        let (mut before, mut logs) = (Vec::new(), Vec::new());
        for (_, database, transaction) in &order {
            if transaction.header().is_wal() {
                logs.push(*database);
            }
            if self.data_versions.knows(*database) {
                before.push((*database, transaction.began_at()));
            }
        }
        let transactions = order.into_iter().map(|(_, _, transaction)| transaction).collect();
        if let Err(error) = Transaction::commit_all(transactions) {
            self.hooks.rolled_back();
            return Err(error.into());
        }
        for (database, before) in before {
            if let Ok(after) = self.store_by_number(database)?.version() {
                self.data_versions.own_commit(database, &before, after);
            }
        }
        logs.into_iter().try_for_each(|database| self.told_of_log(database))
    }

    /// The store of a database.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database no longer attached.
    fn store_by_number(&self, database: usize) -> Result<&Store, Error> {
        match database {
            MAIN => Ok(&self.store),
            other => self.databases.store_of(other),
        }
    }

    /// Tells the program's hook of a commit to a log.
    fn told_of_log(&mut self, database: usize) -> Result<(), Error> {
        let Some(hook) = &mut self.hooks.wal else { return Ok(()) };
        let store = match database {
            MAIN => &self.store,
            other => self.databases.store_of(other)?,
        };
        if let Some(frames) = store.log_frames() {
            hook(self.control.rows.database(database), frames);
        }
        Ok(())
    }

    /// Ends the transaction and forgets its changes.
    ///
    /// # Errors
    /// [`Error::Meaning`] outside a transaction.
    pub fn rollback(&mut self) -> Result<(), Error> {
        let Some(transaction) = self.transaction.take() else {
            return Err(meaning("cannot rollback - no transaction is active"));
        };
        self.outstanding = Outstanding::default();
        self.savepoints = Savepoints::default();
        self.virtual_writers.clear();
        let states = &mut self.states;
        self.databases.writers().for_each(|(database, _)| states.changed(database));
        self.databases.end();
        if transaction.is_writer() {
            self.states.changed(MAIN);
        }
        transaction.rollback();
        // Another connection may give the next schema the number that this one's had.
        self.schemas.forget();
        self.hooks.rolled_back();
        self.tell_ended(false);
        Ok(())
    }

    /// Marks a moment; begins a transaction where there is none.
    fn savepoint(&mut self, name: &Name) -> Result<(), Error> {
        if self.transaction.is_none() {
            self.begin(Mode::Read)?;
            self.savepoints.began = true;
        }
        let kept = (self.keepers_moment(), self.virtual_moments()?);
        let writers = writers(&mut self.transaction, &mut self.databases);
        self.savepoints.push(name, writers, self.outstanding, kept)
    }

    fn release(&mut self, name: &Name) -> Result<(), Error> {
        if self.transaction.is_none() {
            return self.savepoints.find(name).map(drop);
        }
        self.flush_virtual()?;
        let kept = self.savepoints.kept_of(name);
        let writers = writers(&mut self.transaction, &mut self.databases);
        if self.savepoints.release(name, writers)? {
            return self.commit();
        }
        let Some((kept, moments)) = kept else { return Ok(()) };
        if let Some(keeper) = &self.kept.keeper {
            keeper.release(kept);
        }
        self.virtual_writers.release(None, &moments);
        Ok(())
    }

    fn rollback_to(&mut self, name: &Name) -> Result<(), Error> {
        if self.transaction.is_none() {
            return self.savepoints.find(name).map(drop);
        }
        let writers = writers(&mut self.transaction, &mut self.databases);
        let kept;
        (self.outstanding, kept) = self.savepoints.rollback_to(name, writers, self.outstanding)?;
        let (kept, moments) = kept;
        if let Some(keeper) = &self.kept.keeper {
            keeper.rollback_to(kept);
        }
        self.virtual_writers.rollback_to(None, &moments);
        let states = &mut self.states;
        for (database, _) in self::writers(&mut self.transaction, &mut self.databases) {
            states.changed(database);
        }
        // The schema may have changed since, and its number may come again.
        self.schemas.forget();
        Ok(())
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Rows changed since the connection was opened.
    pub fn total_changes(&self) -> u64 {
        u64::try_from(self.counts.total_changes).unwrap_or(0)
    }

    /// The rowid of the last row inserted; 0 before there is one.
    pub fn last_insert_rowid(&self) -> i64 {
        self.counts.last_insert_rowid
    }

    /// Opens a table for reading rows without SQL, within the open transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such table, and what is none with rowids.
    pub fn table_reader(&mut self, table: &str) -> Result<TableReader<'_>, Error> {
        let Some(transaction) = &self.transaction else {
            return Err(Error::Misuse { what: "a table reader needs an open transaction" });
        };
        self.control.begin();
        self.schemas.refresh_main(&self.store, transaction)?;
        let schema = main_schema(&self.schemas)?;
        TableReader::new(schema, transaction, table)
    }

    /// Opens a table of any kind for a walk over its rows, within the open transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such table; views and virtual tables.
    pub fn row_walk(&mut self, table: &str) -> Result<RowWalk<'_>, Error> {
        let Some(transaction) = &self.transaction else {
            return Err(Error::Misuse { what: "a walk over rows needs an open transaction" });
        };
        self.control.begin();
        self.schemas.refresh_main(&self.store, transaction)?;
        RowWalk::new(main_schema(&self.schemas)?, transaction, table)
    }

    /// Opens an index for reading entries without SQL, within the open transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such index, and those of tables without rowid.
    pub fn index_reader(&mut self, index: &str) -> Result<IndexReader<'_>, Error> {
        let Some(transaction) = &self.transaction else {
            return Err(Error::Misuse { what: "an index reader needs an open transaction" });
        };
        self.control.begin();
        self.schemas.refresh_main(&self.store, transaction)?;
        IndexReader::new(main_schema(&self.schemas)?, transaction, index)
    }

    /// Begins to write into `main` without SQL; `what` is the message outside of a transaction.
    fn begin_without_sql(&mut self, what: &'static str) -> Result<(), Error> {
        self.refuse_to_write()?;
        let Some(transaction) = &mut self.transaction else {
            return Err(Error::Misuse { what });
        };
        self.control.begin();
        transaction.upgrade()?;
        self.savepoints.begin_writing(MAIN, transaction)?;
        self.states.changed(MAIN);
        self.schemas.refresh_main(&self.store, transaction)?;
        Ok(())
    }

    /// Refuses to write without SQL to a table with temporary triggers.
    fn refuse_temporary_triggers(&mut self, table: &str) -> Result<(), Error> {
        if !self.databases.has_temp() {
            return Ok(());
        }
        let schema = self.schema()?;
        match schema.temporary_triggers(MAIN, table).next() {
            Some(_) => {
                let what = format!("writing to table {table}, which has temporary triggers");
                Err(Error::Unsupported { what, offset: None })
            }
            None => Ok(()),
        }
    }

    /// Opens a table for writing rows without SQL, within the open transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such table, and tables not to be written, with
    /// triggers among others; the store's when the transaction may not write.
    pub fn table_writer(&mut self, table: &str) -> Result<TableWriter<'_>, Error> {
        self.begin_without_sql("a table writer needs an open transaction")?;
        self.refuse_temporary_triggers(table)?;
        let running = self.running_without_sql()?;
        TableWriter::new(running, table)
    }

    /// What writing into `main` without SQL works with; behind [`Connection::begin_without_sql`].
    fn running_without_sql(&mut self) -> Result<write::Running<'_>, Error> {
        let transaction = self.transaction.as_mut().expect("writing begins in a transaction");
        let session = self.environment.session(self.counts, &self.control, &self.store);
        let session = self.session.insert(session);
        let schema = main_schema(&self.schemas)?;
        let (home, main, attached) = (MAIN, None, &[] as &[_]);
        Ok(write::Running {
            home,
            transaction,
            others: &mut [],
            main,
            attached,
            schema,
            session,
            parameters: &[],
            outstanding: &mut self.outstanding,
            scratch: &mut self.scratch,
            keeper: None,
            writers: &mut self.virtual_writers,
            flushes: false,
        })
    }

    /// Attaches or detaches what the statement's expressions say.
    fn attach_or_detach(&mut self, statement: &mut Statement) -> Result<u64, Error> {
        self.control.begin();
        let (Compiled::Attach(program) | Compiled::Detach(program)) = &statement.plan.compiled
        else {
            return Err(Error::Misuse { what: "a statement changed its kind" });
        };
        let schema = Arc::clone(&statement.plan.schema);
        let session = self.environment.session(self.counts, &self.control, &self.store);
        let watch = &self.control.watch;
        let main = attached::current(self.transaction.as_ref(), &self.store, watch)?;
        let mut words = Vec::new();
        let txns = Txns::new(main.get(), &[]);
        for_each_row(program, (txns, None), &session, &statement.parameters, |row| {
            let text = |value: &Value| text_of(value.as_ref()).unwrap_or_default().into_owned();
            words
                .extend(row.iter().map(|value| String::from_utf8_lossy(&text(value)).into_owned()));
            Ok(())
        })?;
        match &*words {
            [path, name] => self.databases.attach(&self.store, &schema, path, (name, None))?,
            [path, name, key] => {
                self.databases.attach(&self.store, &schema, path, (name, Some(key)))?;
            }
            [name] => {
                let number = schema.database(name);
                self.databases.detach(name)?;
                if let Some(number) = number {
                    self.data_versions.detached(number);
                    self.states.detached(number);
                }
            }
            _ => return Err(Error::Misuse { what: "a statement changed its kind" }),
        }
        // The databases behind another one's place have new numbers.
        self.schemas.forget();
        self.control.rows.attached = self.databases.names();
        Ok(0)
    }

    /// Runs a statement that writes, kept tables among others; gives how many rows it changed and
    /// those of `RETURNING`.
    fn execute_returning(&mut self, statement: &mut Statement) -> Result<Returned, Error> {
        match self.asks_keeper(statement) {
            true => self.execute_kept(statement),
            false => self.execute_write(statement).map_err(|failure| failure.error),
        }
    }

    /// Runs a statement that writes.
    fn execute_write(&mut self, statement: &mut Statement) -> Result<Returned, write::Failure> {
        if !self.virtual_writers.is_empty() {
            self.flush_virtual_but(&statement.plan.compiled)?;
        }
        let flushes = self.transaction.is_none();
        self.control.begin();
        let kept_by = self.kept.keeper.clone().filter(|_| self.asks_keeper(statement));
        if !self.databases.is_empty() {
            self.databases.begin(self.transaction.is_some(), &self.control.watch)?;
            // The statement may be planned again, and write to another database then.
            let watch = &self.control.watch;
            let main = attached::current(self.transaction.as_ref(), &self.store, watch)?;
            let main = main.get();
            self.schemas.refresh_main(&self.store, main)?;
            let (schemas, databases) = (&mut self.schemas, &self.databases);
            prepared_snapshots(schemas, databases, &self.control, statement, (main, None))?;
        }
        let plan = Arc::clone(&statement.plan);
        let (home, others) = match &plan.compiled {
            Compiled::Write(plan) => (plan.home(), plan.others()),
            _ => (MAIN, &[] as &[usize]),
        };
        self.write((home, others), |connection, transaction, beside| {
            let Connection { schemas, databases, control, environment, outstanding, .. } =
                connection;
            let (counts, store) = (&mut connection.counts, &connection.store);
            let (kept, scratch) = (&mut connection.session, &mut connection.scratch);
            let open = connection.transaction.as_ref();
            let written = Written { home, transaction, others: beside };
            let main = match written.of(MAIN) {
                Some(_) => None,
                None => Some(attached::current(open, store, &control.watch)?),
            };
            let main = main.as_ref().map(Snapshot::get);
            let read = main.or(written.of(MAIN)).unwrap_or(transaction);
            schemas.refresh_main(store, read)?;
            let txns = (read, Some(written));
            let attached = prepared_snapshots(schemas, databases, control, statement, txns)?;
            let Compiled::Write(plan) = &statement.plan.compiled else {
                return Err(Error::Misuse { what: "a statement changed its kind" }.into());
            };
            let is_held = |other: &usize| beside.iter().any(|(held, _)| held == other);
            if plan.home() != home || !plan.others().iter().all(is_held) {
                let what = "the schema changed while the statement began";
                return Err(Error::Misuse { what }.into());
            }
            let session = environment.session_again(kept.take(), *counts, control, store);
            let running = write::Running {
                home,
                main,
                transaction,
                others: beside,
                attached: &attached,
                schema: &statement.plan.schema,
                session: &session,
                parameters: &statement.parameters,
                outstanding,
                scratch,
                keeper: kept_by.as_ref().map(|keeper| &**keeper as &dyn RowKeeper),
                writers: &mut connection.virtual_writers,
                flushes,
            };
            let counts_changes = plan.changes_rows(running.outstanding.defers_all);
            let result = write::execute(plan, running);
            let done = match &result {
                Ok((done, _)) => *done,
                // What counts of a statement that failed: nothing, but for `OR FAIL`.
                Err(failure) => failure.done,
            };
            if plan.changes_statistics() {
                schemas.forget();
            }
            if counts_changes {
                // Those of triggers were counted while they ran.
                counts.total_changes = session.total_changes();
                counts.note(done.changes, done.last_insert_rowid);
            }
            *kept = Some(session);
            result
        })
        .map(|(done, rows)| (done.changes, rows))
    }

    /// The open transaction of a database, taken out until [`Connection::put_back`].
    fn take_open(&mut self, database: usize) -> Option<Transaction> {
        match database {
            MAIN => self.transaction.take(),
            other => self.databases.take(other),
        }
    }

    /// The transaction of a database taken out to be written in: the open one, or a new one.
    ///
    /// # Errors
    /// The store's; the open one is left as before.
    fn take_to_write(&mut self, database: usize) -> Result<Transaction, Error> {
        let Some(mut transaction) = self.take_open(database) else {
            let mut transaction = self.store_by_number(database)?.begin(Mode::Write)?;
            transaction.set_watch(Some(Arc::clone(&self.control.watch)));
            return Ok(transaction);
        };
        let mut begun = Ok(());
        if !transaction.is_writer() {
            begun = transaction
                .upgrade()
                .map_err(Error::from)
                .and_then(|()| self.savepoints.begin_writing(database, &mut transaction));
        }
        match begun {
            Ok(()) => Ok(transaction),
            Err(error) => {
                self.put_back(database, transaction);
                Err(error)
            }
        }
    }

    /// Takes the transactions of several databases out, one after the other; all or none.
    fn take_all_to_write(
        &mut self,
        own: bool,
        databases: impl Iterator<Item = usize>,
        taken: &mut Vec<(usize, Transaction)>,
    ) -> Result<(), Error> {
        for database in databases {
            match self.take_to_write(database) {
                Ok(transaction) => taken.push((database, transaction)),
                Err(error) => {
                    self.put_all_back(own, taken);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Puts transactions back after a statement in them; ends the statement's `own` ones.
    fn put_all_back(&mut self, own: bool, taken: &mut Vec<(usize, Transaction)>) {
        for (database, transaction) in taken.drain(..) {
            match own {
                true => transaction.rollback(),
                false => self.put_back(database, transaction),
            }
        }
    }

    /// Runs `work` in writing transactions: the open ones, or new ones of the statement alone.
    /// `work` gets the transaction of `home`, and the `others` in the order of their numbers.
    fn write<T>(
        &mut self,
        (home, others): (usize, &[usize]),
        work: impl FnOnce(
            &mut Connection,
            &mut Transaction,
            &mut [(usize, Transaction)],
        ) -> Result<T, write::Failure>,
    ) -> Result<T, write::Failure> {
        self.refuse_to_write()?;
        let own = self.transaction.is_none();
        // The order of the numbers is SQLite's: the locks of two programs on the same files make
        // no circle.
        let mut beside = Vec::new();
        let (before, after) = others.split_at(others.partition_point(|other| *other < home));
        self.take_all_to_write(own, before.iter().copied(), &mut beside)?;
        let mut transaction = match self.take_to_write(home) {
            Ok(transaction) => transaction,
            Err(error) => {
                self.put_all_back(own, &mut beside);
                return Err(error.into());
            }
        };
        if let Err(error) = self.take_all_to_write(own, after.iter().copied(), &mut beside) {
            self.put_all_back(own, &mut vec![(home, transaction)]);
            return Err(error.into());
        }
        let mut result = work(self, &mut transaction, &mut beside);
        if !own {
            self.states.changed(home);
            others.iter().for_each(|database| self.states.changed(*database));
        } else if self.outstanding.is_violated() {
            // The statement's own changes do not count; its triggers' changes do.
            self.counts.total_changes -= self.counts.changes;
            self.counts.changes = 0;
            result = Err(references::failed());
        }
        let resolution = result.as_ref().err().map(|failure| failure.resolution);
        let keep = match resolution {
            None | Some(Conflict::Fail) => true,
            Some(Conflict::Rollback) => false,
            Some(_) => !own,
        };
        if own || !keep {
            self.outstanding = Outstanding::default();
        }
        if !keep {
            self.savepoints = Savepoints::default();
            self.databases.end();
            // Of a statement in `main` the transaction is the connection's own.
            self.transaction = None;
            self.virtual_writers.clear();
            transaction.rollback();
            self.put_all_back(true, &mut beside);
            // Another connection may give the next schema the number that this one's had.
            self.schemas.forget();
            self.hooks.rolled_back();
            self.tell_ended(false);
        } else if own {
            let ended = match beside.is_empty() {
                true => self.end(home, transaction),
                false => {
                    beside.push((home, transaction));
                    self.end_several(beside)
                }
            };
            if let Err(error) = ended {
                self.schemas.forget();
                return Err(error.into());
            }
        } else {
            self.put_back(home, transaction);
            self.put_all_back(false, &mut beside);
        }
        result
    }

    /// Commits what a transaction wrote.
    fn end(&mut self, database: usize, transaction: Transaction) -> Result<(), Error> {
        if transaction.is_writer() {
            if self.hooks.refuses_commit() {
                self.states.changed(database);
                transaction.rollback();
                self.hooks.rolled_back();
                return Err(Error::CommitRefused);
            }
            let before = self.data_versions.knows(database).then(|| transaction.began_at());
            let is_wal = transaction.header().is_wal();
            if let Err(error) = transaction.commit() {
                self.hooks.rolled_back();
                return Err(error.into());
            }
            if let Some(before) = before
                && let Ok(after) = self.store_by_number(database)?.version()
            {
                self.data_versions.own_commit(database, &before, after);
            }
            if is_wal {
                self.told_of_log(database)?;
            }
        }
        Ok(())
    }

    /// Puts a transaction back after a statement in it.
    fn put_back(&mut self, database: usize, transaction: Transaction) {
        match database {
            MAIN => self.transaction = Some(transaction),
            other => self.databases.put(other, transaction),
        }
    }
}

/// True for a database without a file.
fn is_in_memory(store: &Store) -> bool {
    store.path().as_os_str() == ":memory:"
}

/// The open transactions with changes, by the number of the database.
fn writers<'t>(
    main: &'t mut Option<Transaction>,
    databases: &'t mut Databases,
) -> impl Iterator<Item = (usize, &'t mut Transaction)> {
    let main = main.as_mut().filter(|main| main.is_writer());
    main.map(|main| (MAIN, main)).into_iter().chain(databases.writers())
}

fn meaning(message: &str) -> Error {
    Error::Meaning { message: message.to_owned(), offset: None }
}

/// The writing transactions of a statement.
#[derive(Clone, Copy)]
struct Written<'t> {
    home: usize,
    transaction: &'t Transaction,
    others: &'t [(usize, Transaction)],
}

impl<'t> Written<'t> {
    /// The transaction of a database.
    fn of(self, database: usize) -> Option<&'t Transaction> {
        if database == self.home {
            return Some(self.transaction);
        }
        transaction_of(self.others, database)
    }
}

/// Plans a statement again if a schema that it depends on changed, and begins to read the attached
/// databases that it reads. `main`'s schema is known to be that of its transaction.
fn prepared_snapshots<'c>(
    schemas: &mut Schemas,
    databases: &'c Databases,
    control: &Control,
    statement: &mut Statement,
    (main, written): (&Transaction, Option<Written<'_>>),
) -> Result<AttachedSnapshots<'c>, Error> {
    let mut snapshots: AttachedSnapshots<'c> = databases.places().map(|_| None).collect();
    loop {
        for place in databases.places() {
            // The schema of a database that was attached since has never been read.
            let unknown = !schemas.knows(place);
            let wanted = unknown || statement.plan.compiled.reads(place + BESIDE);
            match written.and_then(|written| written.of(place + BESIDE)) {
                Some(transaction) => schemas.refresh(databases, place, transaction)?,
                None if snapshots[place].is_none() && wanted => {
                    snapshots[place] = databases.snapshot(place, &control.watch)?;
                    if let Some(snapshot) = &snapshots[place] {
                        schemas.refresh(databases, place, snapshot.get())?;
                    }
                }
                None => {}
            }
        }
        let schema = schemas.combine(databases)?;
        if Arc::ptr_eq(&statement.plan.schema, &schema) {
            return Ok(snapshots);
        }
        let mut txns = Txns::new(main, &snapshots);
        if let Some(Written { home, transaction, others }) = written {
            txns = txns.with_others(others).with_written(home, transaction);
        }
        refresh(statement, &schema, txns, control.forced)?;
    }
}

/// Parses a statement, with the word before it that says how its plan is kept.
fn parse_hinted(sql: &str) -> Result<(Option<Hint>, Parsed), Error> {
    match hint(sql) {
        None => Ok((None, parse(sql)?)),
        // Places in the text stay what they are.
        Some((hint, start)) => Ok((Some(hint), parse(&(" ".repeat(start) + &sql[start..]))?)),
    }
}

fn main_schema(schemas: &Schemas) -> Result<&Arc<Schema>, Error> {
    schemas.main().ok_or(Error::Misuse { what: "a schema was used before it was read" })
}

/// Plans a statement again when it was planned for another schema.
fn refresh(
    statement: &mut Statement,
    schema: &Arc<Schema>,
    txns: Txns<'_>,
    forced: Forced,
) -> Result<(), Error> {
    if !Arc::ptr_eq(&statement.plan.schema, schema) {
        let parsed = match statement.text_of_shape() {
            Some(sql) => {
                let mut parsed = parse(sql)?;
                parsed.guard = statement.plan.parsed.guard;
                Arc::new(parsed)
            }
            None => Arc::clone(&statement.plan.parsed),
        };
        let compiled = compile(schema, &parsed, statement.sql(), txns, forced)?;
        let plan = Plan::new(statement.sql(), parsed, compiled, Arc::clone(schema));
        statement.replan(plan);
    }
    Ok(())
}

fn compile(
    schema: &Arc<Schema>,
    parsed: &Parsed,
    sql: &str,
    txns: Txns<'_>,
    forced: Forced,
) -> Result<Compiled, Error> {
    if let Some(narrowing) = schema.narrowing() {
        narrowed::check_kind(&parsed.stmt, &narrowing.entitlement)?;
    }
    if schema.own().authorizer.is_some() {
        authorize(schema, &parsed.stmt)?;
    }
    Ok(match &parsed.stmt {
        Stmt::Select(select) => {
            let mut program = plan::plan_forced(schema, select, txns, forced)?;
            program.schema = program.needs_schema.then(|| Arc::clone(schema));
            watch(&mut program, schema);
            Compiled::Query(Box::new(program))
        }
        Stmt::Pragma { name, argument } => {
            Compiled::Pragma(Pragma::prepare(name, argument.as_ref())?)
        }
        Stmt::Attach(names) => Compiled::Attach(Box::new(plan::plan(schema, names, None)?)),
        Stmt::Detach(names) => Compiled::Detach(Box::new(plan::plan(schema, names, None)?)),
        Stmt::Vacuum { database, into } => {
            if let Some(name) = database {
                let number = schema.database(&name.text).ok_or_else(|| {
                    let message = format!("unknown database {}", name.text);
                    Error::Name {
                        kind: crate::NameKind::Database,
                        message,
                        offset: Some(name.offset),
                    }
                })?;
                if number != MAIN {
                    return Err(Error::unsupported("VACUUM of another database", name.offset));
                }
            }
            let plan = |select| plan::plan(schema, select, None).map(Box::new);
            Compiled::Vacuum(into.as_deref().map(plan).transpose()?)
        }
        Stmt::Begin(mode) => Compiled::Begin(*mode),
        Stmt::Commit => Compiled::Commit,
        Stmt::Rollback { savepoint: None } => Compiled::Rollback,
        Stmt::Rollback { savepoint: Some(name) } => Compiled::RollbackTo(name.clone()),
        Stmt::Savepoint(name) => Compiled::Savepoint(name.clone()),
        Stmt::Release(name) => Compiled::Release(name.clone()),
        Stmt::Explain { kind, stmt, offset } => {
            let of_rows = write::query_of(stmt);
            let select = match &**stmt {
                Stmt::Select(select) => select,
                Stmt::Insert(_) | Stmt::Update(_) | Stmt::Delete(_)
                    if *kind != Explain::Analyze =>
                {
                    // The statement itself is prepared for the sake of its errors.
                    let written = Parsed { stmt: (**stmt).clone(), ..parsed.clone() };
                    write::prepare(schema, &written, sql, Some(txns))?;
                    match &of_rows {
                        Some(select) => select,
                        None if *kind == Explain::Tree => return Ok(Compiled::Tree(Vec::new())),
                        None => return Ok(Compiled::QueryPlan(Vec::new())),
                    }
                }
                _ => return Err(Error::unsupported("EXPLAIN of this statement", *offset)),
            };
            let mut program = plan::plan_in_words(schema, select, txns, forced)?;
            match kind {
                Explain::QueryPlan => Compiled::QueryPlan(program.explain()),
                Explain::Tree => Compiled::Tree(program.tree(None)),
                Explain::Analyze => {
                    program.schema = program.needs_schema.then(|| Arc::clone(schema));
                    watch(&mut program, schema);
                    Compiled::Analyze(Box::new(program))
                }
            }
        }
        Stmt::Insert(_)
        | Stmt::Update(_)
        | Stmt::Delete(_)
        | Stmt::CreateTable(_)
        | Stmt::CreateIndex(_)
        | Stmt::CreateView(_)
        | Stmt::CreateTrigger(_)
        | Stmt::Reindex(_)
        | Stmt::CreateVirtualTable(_)
        | Stmt::AlterTable(_)
        | Stmt::Analyze(_)
        | Stmt::Drop { .. } => {
            Compiled::Write(Box::new(write::prepare(schema, parsed, sql, Some(txns))?))
        }
    })
}

/// Has a program's join watched, unless there is an authorizer: a second plan would ask again.
fn watch(program: &mut plan::Program, schema: &Schema) {
    if !schema.own().authorizer.is_some() {
        program.watch();
    }
}

/// Asks the program about a statement as a whole. What it reads and changes is asked about where
/// the names are looked up.
///
/// # Errors
/// [`Error::Denied`].
fn authorize(schema: &Schema, stmt: &Stmt) -> Result<(), Error> {
    fn named<'a>(what: &'a str, name: Option<&'a ObjectName>) -> Access<'a> {
        Access::Define { what, name: name.map_or("", |name| name.name.text.as_str()) }
    }
    let access = match stmt {
        Stmt::Select(_) => Access::Select,
        Stmt::Explain { stmt, .. } => return authorize(schema, stmt),
        Stmt::Insert(_) | Stmt::Update(_) | Stmt::Delete(_) => return Ok(()),
        Stmt::CreateTable(create) => named("CREATE TABLE", Some(&create.name)),
        Stmt::CreateIndex(create) => named("CREATE INDEX", Some(&create.name)),
        Stmt::CreateView(create) => named("CREATE VIEW", Some(&create.name)),
        Stmt::CreateTrigger(create) => named("CREATE TRIGGER", Some(&create.name)),
        Stmt::CreateVirtualTable(create) => named("CREATE VIRTUAL TABLE", Some(&create.name)),
        Stmt::Reindex(name) => named("REINDEX", name.as_ref()),
        Stmt::Analyze(name) => named("ANALYZE", name.as_ref()),
        Stmt::AlterTable(alter) => named("ALTER TABLE", Some(&alter.table)),
        Stmt::Drop { kind, name, .. } => {
            let what = match kind {
                DropKind::Table => "DROP TABLE",
                DropKind::Index => "DROP INDEX",
                DropKind::View => "DROP VIEW",
                DropKind::Trigger => "DROP TRIGGER",
            };
            named(what, Some(name))
        }
        Stmt::Pragma { name, argument } => {
            Access::Pragma { name: &name.name.text, sets: argument.is_some() }
        }
        Stmt::Attach(_) => Access::File { what: "ATTACH" },
        Stmt::Detach(_) => Access::File { what: "DETACH" },
        Stmt::Vacuum { .. } => Access::File { what: "VACUUM" },
        Stmt::Begin(_) => Access::Transaction { what: "BEGIN" },
        Stmt::Commit => Access::Transaction { what: "COMMIT" },
        Stmt::Rollback { savepoint: None } => Access::Transaction { what: "ROLLBACK" },
        Stmt::Rollback { savepoint: Some(_) } => Access::Transaction { what: "ROLLBACK TO" },
        Stmt::Savepoint(_) => Access::Transaction { what: "SAVEPOINT" },
        Stmt::Release(_) => Access::Transaction { what: "RELEASE" },
    };
    schema.own().authorizer.ask(&access).map(drop)
}

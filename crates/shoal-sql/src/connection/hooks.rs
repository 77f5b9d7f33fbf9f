//! Hooks of a connection, and its progress handler.

use std::sync::{Arc, Mutex};

use super::Connection;
use crate::authorize::{Access, Authorization, Authorizer};
use crate::session::{CommitHook, RollbackHook, RowHook, WalHook};

impl Connection {
    /// Calls `hook` after each row inserted, changed or deleted in a file's table, by statements of
    /// this connection, their triggers, or a [`TableWriter`](crate::TableWriter). Takes the place
    /// of the hook before; `None` removes the hook.
    ///
    /// The transaction is open during the call, and may still be taken back. Rows displaced by
    /// `REPLACE` are not told of, as in SQLite. Unlike in SQLite, rows of tables without rowid and
    /// of a `DELETE` without a condition are. Cost: a `DELETE` of all rows reads every row.
    ///
    /// ```
    /// # use std::sync::{Arc, Mutex};
    /// # use shoal_sql::{ChangeKind, Connection, Error};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let log = Arc::clone(&seen);
    /// connection.set_update_hook(Some(Box::new(move |change| {
    ///     let table = change.table().to_owned();
    ///     log.lock().unwrap().push((change.kind(), table, change.new_rowid()));
    /// })));
    /// for sql in ["CREATE TABLE t (a)", "INSERT INTO t VALUES ('x'), ('y')"] {
    ///     let mut statement = connection.prepare(sql)?;
    ///     connection.execute(&mut statement)?;
    /// }
    /// assert_eq!(seen.lock().unwrap()[1], (ChangeKind::Insert, "t".to_owned(), Some(2)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_update_hook(&mut self, hook: Option<RowHook>) {
        self.control.rows.after = hook.map(|hook| Arc::new(Mutex::new(hook)));
    }

    /// Calls `hook` before each change of a row, for the rows of [`Connection::set_update_hook`]
    /// and those displaced by `REPLACE`. The change may yet fail, by an index's expression or by
    /// the disk, and is undone then.
    pub fn set_preupdate_hook(&mut self, hook: Option<RowHook>) {
        self.control.rows.before = hook.map(|hook| Arc::new(Mutex::new(hook)));
    }

    /// Calls `hook` before each commit of a transaction able to write, single statements included.
    /// After true the transaction is taken back, and the committing call gives
    /// [`Error::CommitRefused`](crate::Error::CommitRefused). Takes the place of the hook before;
    /// `None` removes the hook.
    pub fn set_commit_hook(&mut self, hook: Option<CommitHook>) {
        self.hooks.commit = hook;
    }

    /// Calls `hook` after a transaction is taken back: by `ROLLBACK`, by an error, by the commit
    /// hook. Silent are `ROLLBACK TO`, and the end of a connection with an open transaction.
    pub fn set_rollback_hook(&mut self, hook: Option<RollbackHook>) {
        self.hooks.rollback = hook;
    }

    /// Calls `hook` after each commit to a write-ahead log, with the name of the database and the
    /// frames in its log. The commit is durable by then, and nothing the hook does takes it back.
    /// Checkpoints by themselves go on
    /// ([`Settings::wal_autocheckpoint`](shoal_store::Settings::wal_autocheckpoint)), and come
    /// before the call; a program that decides itself sets them to 0. Takes the place of the hook
    /// before; `None` removes the hook.
    pub fn set_wal_hook(&mut self, hook: Option<WalHook>) {
        self.hooks.wal = hook;
    }

    /// Asks `authorizer` about everything that statements prepared from now on are going to touch,
    /// while they are prepared: for SQL that comes from outside. A definition in the file counts
    /// as what it reads and changes, views and triggers included; `OLD`, `NEW` and the parts of a
    /// table's own definition are not asked about. A statement that is planned again after a
    /// change of the schema is asked about again. `None` removes the authorizer.
    ///
    /// Not asked about are readers and writers of rows without SQL, and blobs: a program decides
    /// itself what it does. Statements are not kept for texts prepared again as long as there is an
    /// authorizer.
    ///
    /// ```
    /// # use shoal_sql::{Access, Authorization, Connection, Error};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// # let mut statement = connection.prepare("CREATE TABLE t (name, secret)")?;
    /// # connection.execute(&mut statement)?;
    /// connection.set_authorizer(Some(Box::new(|access| match access {
    ///     Access::Read { column: "secret", .. } => Authorization::Ignore,
    ///     Access::Select | Access::Read { .. } => Authorization::Allow,
    ///     _ => Authorization::Deny,
    /// })));
    /// assert!(connection.prepare("SELECT name, secret FROM t").is_ok());
    /// let error = connection.prepare("DELETE FROM t").unwrap_err();
    /// assert!(matches!(error, Error::Denied { .. }));
    /// # Ok::<(), Error>(())
    /// ```
    #[allow(clippy::type_complexity)]
    pub fn set_authorizer(
        &mut self,
        authorizer: Option<Box<dyn FnMut(&Access<'_>) -> Authorization + Send>>,
    ) {
        self.schemas.own.authorizer = authorizer.map(Authorizer::new).unwrap_or_default();
        self.plan_again();
    }

    /// Calls `handler` every `steps` steps of running statements, 0 counting as 1. A step is a page
    /// entered, or up to 64 rows of a loop. After true the statement ends with
    /// [`Error::Interrupted`](crate::Error::Interrupted), as by an
    /// [`Interrupter`](crate::Interrupter). `None` removes the handler. A statement on several
    /// threads calls from any of them, one at a time.
    ///
    /// ```
    /// # use shoal_sql::{Connection, Error};
    /// # let mut connection = Connection::open(shoal_store::Store::memory())?;
    /// let mut calls = 0;
    /// connection.set_progress_handler(100, Some(Box::new(move || {
    ///     calls += 1;
    ///     calls > 10
    /// })));
    /// let endless = "WITH RECURSIVE n (x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n)
    ///                SELECT max(x) FROM n";
    /// let mut statement = connection.prepare(endless)?;
    /// assert!(matches!(connection.execute(&mut statement), Err(Error::Interrupted)));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn set_progress_handler(
        &mut self,
        steps: u64,
        handler: Option<Box<dyn FnMut() -> bool + Send>>,
    ) {
        self.control.watch.set_progress(handler.map(|handler| (steps, handler)));
    }
}

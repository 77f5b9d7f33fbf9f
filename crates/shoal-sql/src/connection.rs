//! Connections: one user of one open file.

pub(crate) mod pragma;
mod savepoints;
pub(crate) mod session;

use std::sync::Arc;

use shoal_store::vfs::{Clock, Entropy};
use shoal_store::{Mode, Store, TextEncoding, Transaction};

use crate::Error;
use crate::parse::ast::{Conflict, Name, Stmt, TransactionMode};
use crate::parse::{Parsed, parse};
use crate::plan;
use crate::reader::TableReader;
use crate::schema::Schema;
use crate::statement::{Compiled, Rows, Snapshot, Statement};
use crate::value::Value;
use crate::write::{self, TableWriter};
use pragma::Pragma;
use savepoints::Savepoints;
use session::{Counts, Environment, Pinned, StatementSession};

/// One user of an open database: prepares statements, runs them, holds the open transaction.
///
/// Outside a transaction every statement has its own: reading ends with its last row, writing is
/// durable when the call returns.
#[derive(Debug)]
pub struct Connection {
    store: Store,
    environment: Environment,
    schema: Option<Arc<Schema>>,
    transaction: Option<Transaction>,
    /// `Some` where nobody can change the file: the one state that statements read.
    pinned: Option<Pinned>,
    savepoints: Savepoints,
    counts: Counts,
    /// What a table writer's functions see.
    session: Option<StatementSession>,
    /// How the names of tables begin that statements may not change.
    reserved: Option<&'static str>,
}

impl Connection {
    /// A connection to an open store, with the system's clock and random numbers.
    ///
    /// # Errors
    /// When the schema's pages cannot be read, or the text encoding is not UTF-8.
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
            schema: None,
            transaction: None,
            pinned: Pinned::of(&store),
            store,
            savepoints: Savepoints::default(),
            counts: Counts::default(),
            session: None,
            reserved: None,
        };
        connection.schema()?;
        Ok(connection)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Keeps statements prepared from now on from changing tables whose names begin with `prefix`;
    /// a [`TableWriter`] still does. For those who keep such tables themselves.
    pub fn reserve_tables(&mut self, prefix: Option<&'static str>) {
        self.reserved = prefix;
    }

    /// The schema as of now, or as of the open transaction.
    ///
    /// # Errors
    /// When the schema's pages cannot be read, or the text encoding is not UTF-8.
    pub fn schema(&mut self) -> Result<Arc<Schema>, Error> {
        if let Some(transaction) = &self.transaction {
            return current_schema(&mut self.schema, transaction);
        }
        let transaction = self.store.begin(Mode::Read)?;
        current_schema(&mut self.schema, &transaction)
    }

    /// Prepares the one statement that `sql` holds.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Name`], [`Error::Meaning`] and [`Error::Unsupported`] with the
    /// place in the text; errors of reading the schema.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        let parsed = parse(sql)?;
        let snapshot = match &self.transaction {
            Some(transaction) => Snapshot::Shared(transaction),
            None => Snapshot::Own(self.store.begin(Mode::Read)?),
        };
        let schema = current_schema(&mut self.schema, snapshot.get())?;
        if let Some(prefix) = self.reserved {
            write::refuse_reserved(&schema, &parsed.stmt, prefix)?;
        }
        let compiled = compile(&schema, &parsed, sql, snapshot.get())?;
        Ok(Statement {
            sql: sql.into(),
            columns: compiled.columns(),
            parameters: vec![Value::Null; parsed.parameters.len()],
            memory: Vec::new(),
            spare: None,
            compiled,
            parsed,
            schema,
        })
    }

    /// Runs a statement for its rows. One that gives none is executed.
    ///
    /// # Errors
    /// What the statement is refused for when the schema changed since it was prepared; what it
    /// raises; what is wrong with the file.
    pub fn query<'c>(&'c mut self, statement: &'c mut Statement) -> Result<Rows<'c>, Error> {
        let gives_rows = match &statement.compiled {
            Compiled::Query(_) | Compiled::Explain(_) => true,
            Compiled::Pragma(pragma) => !pragma.writes(),
            _ => false,
        };
        if !gives_rows {
            self.execute(statement)?;
            return Ok(Rows::of_values(0, &[]));
        }
        let snapshot = match (&self.transaction, &mut self.pinned) {
            (Some(transaction), _) => Snapshot::Shared(transaction),
            (None, Some(pinned)) => Snapshot::Shared(pinned.get_or_begin(&self.store)?),
            (None, None) => Snapshot::Own(self.store.begin(Mode::Read)?),
        };
        let known = self.schema.as_ref().is_some_and(|schema| {
            Arc::ptr_eq(schema, &statement.schema)
                && schema.cookie() == snapshot.get().schema_cookie()
        });
        if !known {
            let schema = current_schema(&mut self.schema, snapshot.get())?;
            refresh(statement, &schema, snapshot.get())?;
        }
        let Statement { compiled, parameters, memory, spare, schema, columns, .. } = statement;
        match &*compiled {
            Compiled::Query(program) if program.direct.is_some() => {
                Rows::of_direct(snapshot, program, parameters, memory)
            }
            Compiled::Query(program) => {
                let session = StatementSession::new(&self.environment, self.counts);
                Ok(Rows::of_query(snapshot, program, parameters, session, spare))
            }
            Compiled::Explain(rows) => Ok(Rows::of_values(columns.len(), rows)),
            Compiled::Pragma(pragma) => {
                let rows = pragma.rows(schema, snapshot.get(), self.store.path())?;
                Ok(Rows::of_values(columns.len(), &rows))
            }
            _ => Err(Error::Misuse { what: "a statement changed its kind" }),
        }
    }

    /// Runs a statement for its effect; gives how many rows it changed.
    ///
    /// # Errors
    /// As [`Connection::query`]; constraints; the store's errors of writing.
    pub fn execute(&mut self, statement: &mut Statement) -> Result<u64, Error> {
        match &statement.compiled {
            Compiled::Query(_) => {
                let mut rows = self.query(statement)?;
                while rows.next()?.is_some() {}
                Ok(0)
            }
            Compiled::Pragma(pragma) if pragma.writes() => {
                let pragma = pragma.clone();
                self.write(|_, transaction| {
                    pragma.write(transaction).map_err(write::Failure::from)
                })?;
                Ok(0)
            }
            Compiled::Write(_) => self.execute_write(statement),
            Compiled::Pragma(_) | Compiled::Explain(_) => Ok(0),
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

    /// Begins a transaction: a snapshot to read, which may begin to write unless another writes.
    ///
    /// # Errors
    /// [`Error::Meaning`] within a transaction; the store's.
    pub fn begin(&mut self, mode: Mode) -> Result<(), Error> {
        if self.transaction.is_some() {
            return Err(meaning("cannot start a transaction within a transaction"));
        }
        self.transaction = Some(self.store.begin(mode)?);
        Ok(())
    }

    /// Makes the transaction's changes durable and ends it.
    ///
    /// # Errors
    /// [`Error::Meaning`] outside a transaction; the store's, after which nothing was changed.
    pub fn commit(&mut self) -> Result<(), Error> {
        let Some(transaction) = self.transaction.take() else {
            return Err(meaning("cannot commit - no transaction is active"));
        };
        self.savepoints = Savepoints::default();
        let result = end(transaction);
        if result.is_err() {
            self.schema = None;
        }
        result
    }

    /// Ends the transaction and forgets its changes.
    ///
    /// # Errors
    /// [`Error::Meaning`] outside a transaction.
    pub fn rollback(&mut self) -> Result<(), Error> {
        let Some(transaction) = self.transaction.take() else {
            return Err(meaning("cannot rollback - no transaction is active"));
        };
        self.savepoints = Savepoints::default();
        transaction.rollback();
        // Another connection may give the next schema the number that this one's had.
        self.schema = None;
        Ok(())
    }

    /// Marks a moment; begins a transaction where there is none.
    fn savepoint(&mut self, name: &Name) -> Result<(), Error> {
        if self.transaction.is_none() {
            self.begin(Mode::Read)?;
            self.savepoints.began = true;
        }
        match &mut self.transaction {
            Some(transaction) => self.savepoints.push(name, transaction),
            None => Ok(()),
        }
    }

    fn release(&mut self, name: &Name) -> Result<(), Error> {
        match &mut self.transaction {
            None => self.savepoints.find(name).map(drop),
            Some(transaction) => match self.savepoints.release(name, transaction)? {
                true => self.commit(),
                false => Ok(()),
            },
        }
    }

    fn rollback_to(&mut self, name: &Name) -> Result<(), Error> {
        match &mut self.transaction {
            None => self.savepoints.find(name).map(drop),
            Some(transaction) => {
                self.savepoints.rollback_to(name, transaction)?;
                // The schema may have changed since, and its number may come again.
                self.schema = None;
                Ok(())
            }
        }
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
        let schema = current_schema(&mut self.schema, transaction)?;
        TableReader::new(&schema, transaction, table)
    }

    /// Opens a table for writing rows without SQL, within the open transaction.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside a transaction; no such table, and tables that cannot be written;
    /// the store's when the transaction may not write.
    pub fn table_writer(&mut self, table: &str) -> Result<TableWriter<'_>, Error> {
        let Some(transaction) = &mut self.transaction else {
            return Err(Error::Misuse { what: "a table writer needs an open transaction" });
        };
        transaction.upgrade()?;
        self.savepoints.begin_writing(transaction)?;
        current_schema(&mut self.schema, transaction)?;
        self.session = Some(StatementSession::new(&self.environment, self.counts));
        match (&self.schema, &self.session) {
            (Some(schema), Some(session)) => {
                let context = write::Context { transaction, schema, session, parameters: &[] };
                TableWriter::new(context, table)
            }
            _ => Err(Error::Misuse { what: "a table writer needs a schema" }),
        }
    }

    fn execute_write(&mut self, statement: &mut Statement) -> Result<u64, Error> {
        self.write(|connection, transaction| {
            let schema = current_schema(&mut connection.schema, transaction)?;
            refresh(statement, &schema, transaction)?;
            let Compiled::Write(plan) = &statement.compiled else {
                return Err(Error::Misuse { what: "a statement changed its kind" }.into());
            };
            let session = StatementSession::new(&connection.environment, connection.counts);
            let mut context = write::Context {
                transaction,
                schema: &schema,
                session: &session,
                parameters: &statement.parameters,
            };
            let result = write::execute(plan, &mut context);
            let done = match &result {
                Ok(done) => *done,
                // What counts of a statement that failed: nothing, but for `OR FAIL`.
                Err(failure) => failure.done,
            };
            if plan.changes_rows() {
                connection.counts.note(done);
            }
            result
        })
        .map(|done| done.changes)
    }

    /// Runs `work` in a transaction that may write: the open one, or one of its own.
    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Connection, &mut Transaction) -> Result<T, write::Failure>,
    ) -> Result<T, Error> {
        let own = self.transaction.is_none();
        let mut transaction = match self.transaction.take() {
            Some(mut transaction) => {
                let upgraded = transaction.upgrade().map_err(Error::from);
                let upgraded =
                    upgraded.and_then(|()| self.savepoints.begin_writing(&mut transaction));
                if let Err(error) = upgraded {
                    self.transaction = Some(transaction);
                    return Err(error);
                }
                transaction
            }
            None => self.store.begin(Mode::Write)?,
        };
        let result = work(self, &mut transaction);
        let resolution = result.as_ref().err().map(|failure| failure.resolution);
        let keep = match resolution {
            None | Some(Conflict::Fail) => true,
            Some(Conflict::Rollback) => false,
            Some(_) => !own,
        };
        if !keep {
            self.savepoints = Savepoints::default();
            transaction.rollback();
            // Another connection may give the next schema the number that this one's had.
            self.schema = None;
        } else if own {
            if let Err(error) = end(transaction) {
                self.schema = None;
                return Err(error);
            }
        } else {
            self.transaction = Some(transaction);
        }
        result.map_err(|failure| failure.error)
    }
}

fn end(transaction: Transaction) -> Result<(), Error> {
    if transaction.is_writer() {
        transaction.commit()?;
    }
    Ok(())
}

fn meaning(message: &str) -> Error {
    Error::Meaning { message: message.to_owned(), offset: None }
}

/// The schema a transaction sees; read again only when its number changed.
fn current_schema(
    cached: &mut Option<Arc<Schema>>,
    transaction: &Transaction,
) -> Result<Arc<Schema>, Error> {
    if transaction.header().text_encoding != TextEncoding::Utf8 {
        return Err(Error::Unsupported { what: "a database in UTF-16".to_owned(), offset: None });
    }
    if let Some(schema) = cached
        && schema.cookie() == transaction.schema_cookie()
    {
        return Ok(Arc::clone(schema));
    }
    let schema = Arc::new(Schema::load(transaction)?);
    *cached = Some(Arc::clone(&schema));
    Ok(schema)
}

/// Plans a statement again when it was planned for another schema.
fn refresh(
    statement: &mut Statement,
    schema: &Arc<Schema>,
    transaction: &Transaction,
) -> Result<(), Error> {
    if !Arc::ptr_eq(&statement.schema, schema) {
        statement.compiled = compile(schema, &statement.parsed, &statement.sql, transaction)?;
        statement.columns = statement.compiled.columns();
        statement.memory.clear();
        statement.spare = None;
        statement.schema = Arc::clone(schema);
    }
    Ok(())
}

fn compile(
    schema: &Arc<Schema>,
    parsed: &Parsed,
    sql: &str,
    transaction: &Transaction,
) -> Result<Compiled, Error> {
    Ok(match &parsed.stmt {
        Stmt::Select(select) => {
            let mut program = plan::plan(schema, select, Some(transaction))?;
            program.schema = program.needs_schema.then(|| Arc::clone(schema));
            Compiled::Query(Box::new(program))
        }
        Stmt::Pragma { name, argument } => {
            Compiled::Pragma(Pragma::prepare(name, argument.as_ref())?)
        }
        Stmt::Begin(mode) => Compiled::Begin(*mode),
        Stmt::Commit => Compiled::Commit,
        Stmt::Rollback { savepoint: None } => Compiled::Rollback,
        Stmt::Rollback { savepoint: Some(name) } => Compiled::RollbackTo(name.clone()),
        Stmt::Savepoint(name) => Compiled::Savepoint(name.clone()),
        Stmt::Release(name) => Compiled::Release(name.clone()),
        Stmt::Explain { query_plan: true, stmt, offset } => match &**stmt {
            Stmt::Select(select) => {
                Compiled::Explain(plan::plan(schema, select, Some(transaction))?.explain())
            }
            _ => return Err(Error::unsupported("EXPLAIN QUERY PLAN of this statement", *offset)),
        },
        Stmt::Explain { offset, .. } => return Err(Error::unsupported("EXPLAIN", *offset)),
        Stmt::Other { what, offset } => return Err(Error::unsupported(*what, *offset)),
        Stmt::Insert(_)
        | Stmt::Update(_)
        | Stmt::Delete(_)
        | Stmt::CreateTable(_)
        | Stmt::CreateIndex(_)
        | Stmt::CreateView(_)
        | Stmt::CreateVirtualTable { .. }
        | Stmt::Drop { .. } => Compiled::Write(write::prepare(schema, &parsed.stmt, sql)?),
    })
}

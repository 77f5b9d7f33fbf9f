//! Connections that read: to the whole file, or narrowed to a principal. No other module opens the
//! file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal::{Access, Database, Environment};
use shoal_server::rules::{RuleFile, Rules};
use shoal_server::{Guard, NotNarrowed, Ways};
use shoal_sql::{Connection, Interrupter, Limits, Narrowed, Rows, Statement};
use shoal_store::{Mode, Store};
use tonic::Status;

use crate::{Error, Options};

/// Connections kept between statements.
const IDLE_MAX: usize = 32;

/// Ways on from the guard's refusals.
const WAYS: Ways = Ways {
    to_write: "Changes are made with shoal sql, or by a program of the file's owner",
    to_transact: "One SELECT reads one state of the file",
};

/// The caller behind a request: a principal under rules, `None` where everybody sees everything.
pub(crate) type Caller = Option<Arc<str>>;

/// A file, open for reading.
pub(crate) struct Readers {
    environment: Environment,
    store: Store,
    limits: Limits,
    /// The rules of principals; `None` shows the whole file to everybody.
    rules: Option<Mutex<Judged>>,
    idle: Mutex<Vec<Idle>>,
}

/// The rules of now.
struct Judged {
    file: RuleFile,
    /// Another one after each change of the file of rules.
    generation: u64,
}

/// A connection waiting for its next statement.
struct Idle {
    caller: Caller,
    generation: u64,
    seen: Seen,
}

/// The file in the sight of one caller. Under rules the whole file is out of reach by type.
pub(crate) enum Seen {
    /// Everything, with the guard's word on each statement.
    Whole(Box<Connection>, Guard),
    /// The grants of a principal.
    Narrowed(Box<Narrowed>),
}

impl Readers {
    /// Opens the file, and tries the rules of `principal`, or of all principals.
    ///
    /// # Errors
    /// [`Error::Database`]; [`Error::Rules`].
    pub(crate) fn open(options: &Options) -> Result<Arc<Readers>, Error> {
        let environment = options.environment.clone();
        let opened = Database::open(environment.clone(), &options.path, Access::ReadOnly);
        let first = opened.map_err(|error| Error::Database(error.to_string()))?.into_sql();
        let rules = options.rules.as_ref().map(|rules| RuleFile::open(&rules.file));
        let rules = rules.transpose().map_err(Error::Rules)?;
        let readers = Arc::new(Readers {
            environment,
            store: first.store().clone(),
            limits: Limits { memory_bytes: Some(options.memory_bytes), ..Limits::default() },
            rules: rules.map(|file| Mutex::new(Judged { file, generation: 0 })),
            idle: Mutex::default(),
        });
        drop(first);
        let named = options.rules.as_ref().and_then(|rules| rules.principal.as_deref());
        let callers: Vec<Caller> = match (&readers.rules, named) {
            (None, _) => vec![None],
            (Some(_), Some(principal)) => vec![Some(principal.into())],
            (Some(rules), None) => {
                let mut judged = lock(rules);
                judged.now().principals().map(|name| Some(name.into())).collect()
            }
        };
        for caller in callers {
            readers.reader(&caller).map(drop).map_err(|error| match error {
                NotNarrowed::Closed(error) => Error::Database(error.to_string()),
                NotNarrowed::Unfit(why) => Error::Rules(why),
                _ => {
                    let who = caller.as_deref().unwrap_or_default();
                    Error::Rules(format!("nothing is granted to {who}"))
                }
            })?;
        }
        Ok(readers)
    }

    /// True under rules.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.rules.is_some()
    }

    /// The number of the rules: the file of rules is looked at first. Always 0 without rules.
    pub(crate) fn generation(&self) -> u64 {
        self.rules.as_ref().map_or(0, |rules| lock(rules).generation())
    }

    /// A connection for one statement of a caller, by the rules of now.
    ///
    /// # Errors
    /// [`NotNarrowed`].
    pub(crate) fn reader(self: &Arc<Self>, caller: &Caller) -> Result<Reader, NotNarrowed> {
        let generation = self.generation();
        let kept = {
            let mut idle = lock(&self.idle);
            idle.retain(|kept| kept.generation == generation);
            let place = idle.iter().position(|kept| kept.caller == *caller);
            place.map(|place| idle.swap_remove(place).seen)
        };
        let seen = match kept {
            Some(seen) => seen,
            None => self.connect(caller)?,
        };
        Ok(Reader {
            readers: Arc::clone(self),
            caller: caller.clone(),
            generation,
            seen: Some(seen),
            is_held: false,
        })
    }

    fn connect(&self, caller: &Caller) -> Result<Seen, NotNarrowed> {
        let entitlement = match &self.rules {
            None => None,
            Some(rules) => {
                let principal = caller.as_deref().ok_or(NotNarrowed::Nothing)?;
                let mut judged = lock(rules);
                let entitlement = judged.now().entitlement(principal);
                let entitlement = entitlement.map_err(NotNarrowed::Unfit)?;
                Some(entitlement.ok_or(NotNarrowed::Nothing)?.read_only())
            }
        };
        let connection = Connection::open(self.store.clone());
        let connection = connection.map_err(|error| NotNarrowed::Closed(error.into()))?;
        let environment = self.environment.clone();
        let mut connection = Database::over_connection(environment, connection).into_sql();
        connection.set_read_only(true);
        connection.set_limits(self.limits);
        match entitlement {
            None => {
                let guard = Guard::new(WAYS);
                guard.watch(&mut connection, false);
                Ok(Seen::Whole(Box::new(connection), guard))
            }
            Some(entitlement) => {
                let narrowed = connection.narrowed(entitlement);
                let mut narrowed =
                    narrowed.map_err(|error| NotNarrowed::Unfit(error.to_string()))?;
                narrowed.set_limits(self.limits);
                Ok(Seen::Narrowed(Box::new(narrowed)))
            }
        }
    }
}

impl Judged {
    /// The rules, after a look at their file.
    fn now(&mut self) -> &Rules {
        let (rules, has_changed) = self.file.current();
        if has_changed {
            self.generation += 1;
        }
        rules
    }

    fn generation(&mut self) -> u64 {
        self.now();
        self.generation
    }
}

/// A connection at work, given back when dropped.
pub(crate) struct Reader {
    readers: Arc<Readers>,
    caller: Caller,
    generation: u64,
    seen: Option<Seen>,
    /// True while one state is read by several statements.
    is_held: bool,
}

impl Reader {
    fn seen(&mut self) -> &mut Seen {
        self.seen.as_mut().expect("a reader has its connection until it is dropped")
    }

    /// Prepares a statement over the tables in sight.
    ///
    /// # Errors
    /// Errors of the connection.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<Statement, shoal_sql::Error> {
        match self.seen() {
            Seen::Whole(connection, _) => connection.prepare(sql),
            Seen::Narrowed(narrowed) => narrowed.prepare(sql),
        }
    }

    /// Runs a statement for its rows.
    ///
    /// # Errors
    /// Errors of the connection.
    pub(crate) fn query<'q>(
        &'q mut self,
        statement: &'q mut Statement,
    ) -> Result<Rows<'q>, shoal_sql::Error> {
        match self.seen() {
            Seen::Whole(connection, _) => connection.query(statement),
            Seen::Narrowed(narrowed) => narrowed.query(statement),
        }
    }

    /// Reads one state of the file until the reader is dropped.
    ///
    /// # Errors
    /// Errors of the connection.
    pub(crate) fn hold(&mut self) -> Result<(), shoal_sql::Error> {
        match self.seen() {
            Seen::Whole(connection, _) => connection.begin(Mode::Read)?,
            Seen::Narrowed(narrowed) => {
                let mut begin = narrowed.prepare("BEGIN")?;
                narrowed.execute(&mut begin)?;
            }
        }
        self.is_held = true;
        Ok(())
    }

    fn release(&mut self) -> Result<(), shoal_sql::Error> {
        match self.seen() {
            Seen::Whole(connection, _) => connection.rollback(),
            Seen::Narrowed(narrowed) => {
                let mut end = narrowed.prepare("ROLLBACK")?;
                narrowed.execute(&mut end)
            }
        }
    }

    /// A handle to stop the running statement from another thread.
    pub(crate) fn interrupter(&mut self) -> Interrupter {
        match self.seen() {
            Seen::Whole(connection, _) => connection.interrupter(),
            Seen::Narrowed(narrowed) => narrowed.interrupter(),
        }
    }

    /// True for a shadow table: a virtual table of another name keeps its rows there.
    ///
    /// # Errors
    /// Errors of reading the schema.
    pub(crate) fn is_shadow(&mut self, table: &str) -> Result<bool, shoal_sql::Error> {
        match self.seen() {
            Seen::Whole(connection, _) => Ok(connection.schema()?.shadow_owner(table).is_some()),
            // Rules grant tables by name, and of these none is a shadow.
            Seen::Narrowed(_) => Ok(false),
        }
    }

    /// True under rules.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.readers.is_narrowed()
    }

    /// The failure of a statement: the fault, and its place in the text. Words of a fault in the
    /// file are held back under rules: they name pages of hidden tables.
    pub(crate) fn fault(&mut self, error: &shoal_sql::Error, sql: &str) -> Status {
        let is_narrowed = self.is_narrowed();
        if let Seen::Whole(_, guard) = self.seen()
            && let Some(words) = guard.refusal(error)
        {
            return Status::permission_denied(words);
        }
        let mut words = error.to_string();
        if let Some(offset) = error.offset()
            && let Some((before, rest)) = sql.split_at_checked(offset)
            && !rest.is_empty()
        {
            let near: String = rest.chars().take(30).collect();
            words.push_str(&format!(" (at character {}: {near})", before.chars().count() + 1));
        }
        // Words travel in a header of bounded length.
        let words: String = words.chars().take(2000).collect();
        match error {
            shoal_sql::Error::Denied { .. } | shoal_sql::Error::Refused { .. } => {
                Status::permission_denied(words)
            }
            shoal_sql::Error::Interrupted => Status::cancelled(words),
            shoal_sql::Error::Store(error) if error.is_busy() => {
                Status::unavailable("another program is writing to the file: ask again in a moment")
            }
            shoal_sql::Error::Store(_) if is_narrowed => {
                Status::internal("the file cannot be read")
            }
            shoal_sql::Error::Store(_) => Status::internal(words),
            _ => Status::invalid_argument(words),
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A connection in the middle of something answers nobody else.
        let is_free = !std::thread::panicking() && (!self.is_held || self.release().is_ok());
        let Some(seen) = self.seen.take() else { return };
        let mut idle = lock(&self.readers.idle);
        if is_free && idle.len() < IDLE_MAX {
            idle.push(Idle { caller: self.caller.clone(), generation: self.generation, seen });
        }
    }
}

/// The status of a caller without a connection.
pub(crate) fn not_narrowed(error: &NotNarrowed) -> Status {
    match error {
        NotNarrowed::Closed(_) => Status::unavailable(error.to_string()),
        _ => Status::permission_denied(error.to_string()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

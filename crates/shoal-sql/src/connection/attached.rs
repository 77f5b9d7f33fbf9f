//! `ATTACH` and `DETACH`: databases beside `main` that statements read.

use std::path::Path;
use std::sync::Arc;

use shoal_store::{Mode, Store, Transaction, Watch};

use super::pinned::Pinned;
use crate::Error;
use crate::error::NameKind;
use crate::functions::Own;
use crate::schema::{Beside, FIRST_ATTACHED, FileOf, Flags, Registered, Schema, Snapshot};

/// As many as SQLite allows by default.
const ATTACHED_MAX: usize = 10;

/// A database that was attached.
#[derive(Debug)]
struct Attached {
    name: String,
    store: Store,
    /// The snapshot that belongs to the connection's open transaction.
    transaction: Option<Transaction>,
    /// `Some` where nobody can change the file.
    pinned: Option<Pinned>,
}

/// The databases of a connection beside `main`, in the order in which they were attached.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    attached: Vec<Attached>,
}

/// The schemas that a connection knows, each good as long as its file's schema cookie is.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    main: Option<Arc<Schema>>,
    attached: Vec<Option<Arc<Schema>>>,
    /// `main` with the others beside it.
    whole: Option<Arc<Schema>>,
    /// What the program registered.
    pub(crate) registered: Registered,
    /// Functions and collations of the program's own.
    pub(crate) own: Own,
    /// What the connection's pragmas set.
    pub(crate) flags: Flags,
}

impl Databases {
    pub(crate) fn is_empty(&self) -> bool {
        self.attached.is_empty()
    }

    /// Their places.
    pub(crate) fn places(&self) -> std::ops::Range<usize> {
        0..self.attached.len()
    }

    /// Their names.
    pub(crate) fn names(&self) -> Arc<[String]> {
        self.attached.iter().map(|attached| attached.name.clone()).collect()
    }

    /// Their stores.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.attached.iter().map(|attached| &attached.store)
    }

    /// The store of the database `name`.
    pub(crate) fn store(&self, name: &str) -> Option<&Store> {
        let named = |it: &&Attached| it.name.eq_ignore_ascii_case(name);
        self.attached.iter().find(named).map(|attached| &attached.store)
    }

    /// Attaches the file at `path` as `name`.
    ///
    /// # Errors
    /// As SQLite words them: a name that is taken, too many databases, a file that cannot be
    /// opened or has another text encoding than `main`.
    pub(crate) fn attach(
        &mut self,
        main: &Store,
        schema: &Schema,
        path: &str,
        name: &str,
    ) -> Result<(), Error> {
        if self.attached.len() >= ATTACHED_MAX {
            let message = format!("too many attached databases - max {ATTACHED_MAX}");
            return Err(Error::runtime(message));
        }
        if schema.database(name).is_some() {
            return Err(Error::runtime(format!("database {name} is already in use")));
        }
        let store = main.open_another(Path::new(path)).map_err(|error| match error {
            shoal_store::Error::Vfs(why) => {
                Error::runtime(format!("unable to open database: {path} ({why})"))
            }
            other => other.into(),
        })?;
        let transaction = store.begin(Mode::Read)?;
        if transaction.utf16() != schema.utf16() && transaction.page_count() > 0 {
            let what = "attached databases must use the same text encoding as main database";
            return Err(Error::runtime(what));
        }
        drop(transaction);
        let pinned = Pinned::of(&store);
        self.attached.push(Attached { name: name.to_owned(), store, transaction: None, pinned });
        Ok(())
    }

    /// Detaches a database.
    ///
    /// # Errors
    /// As SQLite words them: no such database, one that is no attached one, one that the open
    /// transaction has read.
    pub(crate) fn detach(&mut self, name: &str) -> Result<(), Error> {
        if name.eq_ignore_ascii_case("main") {
            return Err(Error::runtime(format!("cannot detach database {name}")));
        }
        let is = |attached: &Attached| attached.name.eq_ignore_ascii_case(name);
        let Some(place) = self.attached.iter().position(is) else {
            let message = format!("no such database: {name}");
            return Err(Error::Name { kind: NameKind::Database, message, offset: None });
        };
        if self.attached[place].transaction.is_some() {
            return Err(Error::runtime(format!("database {name} is locked")));
        }
        self.attached.remove(place);
        Ok(())
    }

    /// Begins what outlives a statement: snapshots that belong to the open transaction, and those
    /// of files that nobody can change.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn begin(&mut self, in_transaction: bool, watch: &Arc<Watch>) -> Result<(), Error> {
        for attached in &mut self.attached {
            if let Some(pinned) = &mut attached.pinned {
                pinned.get_or_begin(&attached.store, watch)?;
            } else if in_transaction && attached.transaction.is_none() {
                attached.transaction = Some(begin(&attached.store, watch)?);
            }
        }
        Ok(())
    }

    /// Ends the snapshots that belong to the open transaction.
    pub(crate) fn end(&mut self) {
        self.attached.iter_mut().for_each(|attached| attached.transaction = None);
    }

    /// A snapshot of the database at a place: the one that was begun, or one of its own.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn snapshot(&self, place: usize, watch: &Arc<Watch>) -> Result<Snapshot<'_>, Error> {
        let attached = &self.attached[place];
        let begun = attached.pinned.as_ref().and_then(Pinned::get);
        match begun.or(attached.transaction.as_ref()) {
            Some(transaction) => Ok(Snapshot::Shared(transaction)),
            None => Ok(Snapshot::Own(Box::new(begin(&attached.store, watch)?))),
        }
    }
}

/// Begins a transaction that reads and can be stopped.
pub(crate) fn begin(store: &Store, watch: &Arc<Watch>) -> Result<Transaction, Error> {
    let mut transaction = store.begin(Mode::Read)?;
    transaction.set_watch(Some(Arc::clone(watch)));
    Ok(transaction)
}

impl Schemas {
    /// Forgets what was read.
    pub(crate) fn forget(&mut self) {
        let registered = std::mem::take(&mut self.registered);
        let own = std::mem::take(&mut self.own);
        *self = Schemas { registered, own, flags: self.flags, ..Schemas::default() };
    }

    /// The schema that statements were last prepared for.
    pub(crate) fn whole(&self) -> Option<&Arc<Schema>> {
        self.whole.as_ref()
    }

    /// The schema of `main`, if it was read.
    pub(crate) fn main(&self) -> Option<&Arc<Schema>> {
        self.main.as_ref()
    }

    /// Whether the schema of the database at a place was read.
    pub(crate) fn knows(&self, place: usize) -> bool {
        self.attached.get(place).is_some_and(Option::is_some)
    }

    /// Reads the schema of `main` again if it changed.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn refresh_main(&mut self, store: &Store, txn: &Transaction) -> Result<(), Error> {
        if self.main.as_ref().is_none_or(|schema| schema.cookie() != txn.schema_cookie()) {
            let file = FileOf { txn, store, database: crate::schema::MAIN };
            let schema = Schema::load(&file)?.with_modules(super::pragma_tables::modules());
            self.main = Some(Arc::new(schema.with_flags(self.flags).with_own(self.own.clone())));
            self.whole = None;
        }
        Ok(())
    }

    /// Reads the schema of the database at a place again if it changed.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn refresh(
        &mut self,
        databases: &Databases,
        place: usize,
        txn: &Transaction,
    ) -> Result<(), Error> {
        self.attached.resize(databases.attached.len(), None);
        let known = &mut self.attached[place];
        if known.as_ref().is_some_and(|schema| schema.cookie() == txn.schema_cookie()) {
            return Ok(());
        }
        let store = &databases.attached[place].store;
        let file = FileOf { txn, store, database: place + FIRST_ATTACHED };
        *known = Some(Arc::new(Schema::load(&file)?.with_own(self.own.clone())));
        self.whole = None;
        Ok(())
    }

    /// `main`'s schema with those of the others beside it.
    ///
    /// # Errors
    /// [`Error::Misuse`] before all of them were read.
    pub(crate) fn combine(&mut self, databases: &Databases) -> Result<Arc<Schema>, Error> {
        const MISSING: Error = Error::Misuse { what: "a schema was used before it was read" };
        let Some(main) = &self.main else { return Err(MISSING) };
        if let Some(whole) = &self.whole {
            return Ok(Arc::clone(whole));
        }
        let whole = if databases.is_empty() && self.registered.is_empty() {
            Arc::clone(main)
        } else {
            let mut beside = Vec::with_capacity(databases.attached.len());
            for (attached, schema) in databases.attached.iter().zip(&self.attached) {
                let Some(schema) = schema else { return Err(MISSING) };
                beside.push(Beside { name: attached.name.clone(), schema: Arc::clone(schema) });
            }
            Arc::new(main.with_others(beside, self.registered.clone()))
        };
        self.whole = Some(Arc::clone(&whole));
        Ok(whole)
    }
}

//! `ATTACH` and `DETACH`: databases beside `main` that statements read.

use std::path::Path;
use std::sync::Arc;

use shoal_store::{Mode, Store, Transaction, Watch};

use super::narrowed::narrowed_schema;
use super::pinned::Pinned;
use crate::Error;
use crate::entitlement::Entitlement;
use crate::error::NameKind;
use crate::functions::Own;
use crate::schema::{
    BESIDE, Beside, FileOf, Flags, Registered, Schema, Snapshot, TEMP, TableModules,
};

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

/// The databases of a connection beside `main`, by place: `temp`, then the attached ones in the
/// order of their `ATTACH`.
#[derive(Debug, Default)]
pub(crate) struct Databases {
    /// Empty while there are no others; `temp` is `None` until a temporary object is made.
    all: Vec<Option<Attached>>,
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
    /// The modules of virtual tables.
    pub(crate) table_modules: TableModules,
    /// The rules of a narrowed connection: statements see no other schema.
    pub(crate) entitlement: Option<Arc<Entitlement>>,
}

impl Databases {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Their places.
    pub(crate) fn places(&self) -> std::ops::Range<usize> {
        0..self.all.len()
    }

    /// The names of attached databases.
    pub(crate) fn names(&self) -> Arc<[String]> {
        self.attached().map(|attached| attached.name.clone()).collect()
    }

    /// The stores of attached databases.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Store> {
        self.attached().map(|attached| &attached.store)
    }

    /// The store of the attached database `name`.
    pub(crate) fn store(&self, name: &str) -> Option<&Store> {
        let named = |it: &&Attached| it.name.eq_ignore_ascii_case(name);
        self.attached().find(named).map(|attached| &attached.store)
    }

    /// The store of a database by its number.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a database no longer attached.
    pub(crate) fn store_of(&self, database: usize) -> Result<&Store, Error> {
        let place = database.checked_sub(BESIDE);
        let found = place.and_then(|place| self.all.get(place)?.as_ref());
        let gone = Error::Misuse { what: "a database is not attached any more" };
        found.map(|attached| &attached.store).ok_or(gone)
    }

    fn attached(&self) -> impl Iterator<Item = &Attached> {
        self.all.iter().skip(TEMP - BESIDE + 1).flatten()
    }

    /// Makes `temp`, in memory, at its first use.
    pub(crate) fn make_temp(&mut self) {
        if self.all.is_empty() {
            self.all.push(None);
        }
        self.all[TEMP - BESIDE].get_or_insert_with(|| {
            let (store, name) = (Store::memory(), "temp".to_owned());
            Attached { name, store, transaction: None, pinned: None }
        });
    }

    /// True once `temp` was made.
    pub(crate) fn has_temp(&self) -> bool {
        self.all.first().is_some_and(Option::is_some)
    }

    /// Takes the transaction of a database out, to be written in.
    pub(crate) fn take(&mut self, database: usize) -> Option<Transaction> {
        self.all.get_mut(database - BESIDE)?.as_mut()?.transaction.take()
    }

    /// Puts a transaction back.
    pub(crate) fn put(&mut self, database: usize, transaction: Transaction) {
        if let Some(Some(attached)) = self.all.get_mut(database - BESIDE) {
            attached.transaction = Some(transaction);
        }
    }

    /// The open transactions with changes, by the number of the database.
    pub(crate) fn writers(&mut self) -> impl Iterator<Item = (usize, &mut Transaction)> {
        let all = self.all.iter_mut().enumerate();
        let open = all.filter_map(|(place, attached)| {
            Some((place + BESIDE, attached.as_mut()?.transaction.as_mut()?))
        });
        open.filter(|(_, transaction)| transaction.is_writer())
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
        (name, key): (&str, Option<&str>),
    ) -> Result<(), Error> {
        if self.attached().count() >= ATTACHED_MAX {
            let message = format!("too many attached databases - max {ATTACHED_MAX}");
            return Err(Error::runtime(message));
        }
        if schema.database(name).is_some() {
            return Err(Error::runtime(format!("database {name} is already in use")));
        }
        let key = key.map(str::as_bytes);
        let store = main.open_beside(Path::new(path), key).map_err(|error| match error {
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
        if self.all.is_empty() {
            self.all.push(None);
        }
        let name = name.to_owned();
        self.all.push(Some(Attached { name, store, transaction: None, pinned }));
        Ok(())
    }

    /// Detaches a database.
    ///
    /// # Errors
    /// As SQLite words them: no such database, one that is no attached one, one that the open
    /// transaction has read.
    pub(crate) fn detach(&mut self, name: &str) -> Result<(), Error> {
        if name.eq_ignore_ascii_case("main") || name.eq_ignore_ascii_case("temp") {
            let known = !self.all.is_empty() || name.eq_ignore_ascii_case("main");
            let message = match known {
                true => format!("cannot detach database {name}"),
                false => format!("no such database: {name}"),
            };
            return Err(Error::runtime(message));
        }
        let is = |attached: &Option<Attached>| {
            attached.as_ref().is_some_and(|it| it.name.eq_ignore_ascii_case(name))
        };
        let Some(place) = self.all.iter().position(is) else {
            let message = format!("no such database: {name}");
            return Err(Error::Name { kind: NameKind::Database, message, offset: None });
        };
        if self.all[place].as_ref().is_some_and(|attached| attached.transaction.is_some()) {
            return Err(Error::runtime(format!("database {name} is locked")));
        }
        self.all.remove(place);
        if self.all.iter().all(Option::is_none) {
            self.all.clear();
        }
        Ok(())
    }

    /// Begins what outlives a statement: snapshots that belong to the open transaction, and those
    /// of files that nobody can change.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn begin(&mut self, in_transaction: bool, watch: &Arc<Watch>) -> Result<(), Error> {
        for attached in self.all.iter_mut().flatten() {
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
        self.all.iter_mut().flatten().for_each(|attached| attached.transaction = None);
    }

    /// A snapshot of the database at a place: the one that was begun, or one of its own.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn snapshot(
        &self,
        place: usize,
        watch: &Arc<Watch>,
    ) -> Result<Option<Snapshot<'_>>, Error> {
        let Some(attached) = &self.all[place] else { return Ok(None) };
        let begun = attached.pinned.as_ref().and_then(Pinned::get);
        Ok(Some(match begun.or(attached.transaction.as_ref()) {
            Some(transaction) => Snapshot::Shared(transaction),
            None => Snapshot::Own(Box::new(begin(&attached.store, watch)?)),
        }))
    }
}

/// Begins a transaction that reads and can be stopped.
pub(crate) fn begin(store: &Store, watch: &Arc<Watch>) -> Result<Transaction, Error> {
    let mut transaction = store.begin(Mode::Read)?;
    transaction.set_watch(Some(Arc::clone(watch)));
    Ok(transaction)
}

/// The open transaction, or one that reads and can be stopped.
pub(crate) fn current<'t>(
    open: Option<&'t Transaction>,
    store: &Store,
    watch: &Arc<Watch>,
) -> Result<Snapshot<'t>, Error> {
    Ok(match open {
        Some(transaction) => Snapshot::Shared(transaction),
        None => Snapshot::Own(Box::new(begin(store, watch)?)),
    })
}

impl Schemas {
    /// Forgets what was read.
    pub(crate) fn forget(&mut self) {
        let registered = std::mem::take(&mut self.registered);
        let own = std::mem::take(&mut self.own);
        let table_modules = std::mem::take(&mut self.table_modules);
        let (flags, entitlement) = (self.flags, self.entitlement.take());
        let others = Schemas { entitlement, ..Schemas::default() };
        *self = Schemas { registered, own, flags, table_modules, ..others };
    }

    /// The schema that statements were last prepared for.
    pub(crate) fn whole(&self) -> Option<&Arc<Schema>> {
        self.whole.as_ref()
    }

    /// The schema of `main`, if it was read.
    pub(crate) fn main(&self) -> Option<&Arc<Schema>> {
        self.main.as_ref()
    }

    /// True when the schema of the database at a place was read.
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
            let schema = schema.with_table_modules(self.table_modules.clone());
            self.main = Some(Arc::new(schema.with_flags(self.flags).with_own(self.own.clone())));
            self.whole = None;
        }
        Ok(())
    }

    /// True where a statement was planned for the schema of the only database, as a transaction
    /// has it.
    #[inline]
    pub(crate) fn is_current(&self, planned: &Arc<Schema>, txn: &Transaction) -> bool {
        let is_known = self.main.as_ref().is_some_and(|it| it.cookie() == txn.schema_cookie());
        is_known && self.whole.as_ref().is_some_and(|whole| Arc::ptr_eq(whole, planned))
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
        self.attached.resize(databases.all.len(), None);
        let known = &mut self.attached[place];
        if known.as_ref().is_some_and(|schema| schema.cookie() == txn.schema_cookie()) {
            return Ok(());
        }
        let database = place + BESIDE;
        let file = FileOf { txn, store: databases.store_of(database)?, database };
        let schema = Schema::load(&file)?.with_own(self.own.clone());
        *known = Some(Arc::new(schema.with_table_modules(self.table_modules.clone())));
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
            let mut beside = Vec::with_capacity(databases.all.len());
            for (place, attached) in databases.all.iter().enumerate() {
                let Some(attached) = attached else { continue };
                let known = self.attached.get(place).and_then(Option::as_ref);
                let Some(schema) = known else { return Err(MISSING) };
                let (name, schema) = (attached.name.clone(), Arc::clone(schema));
                beside.push(Beside { name, schema });
            }
            let temporary = databases.has_temp().then(|| beside.remove(0).schema);
            Arc::new(main.with_others(beside, temporary, self.registered.clone()))
        };
        let whole = match &self.entitlement {
            // A rule that no longer fits closes its table.
            Some(entitlement) => Arc::new(narrowed_schema(&whole, entitlement, &mut Vec::new())),
            None => whole,
        };
        self.whole = Some(Arc::clone(&whole));
        Ok(whole)
    }
}
